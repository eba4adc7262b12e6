"""Operations of cuda_tile, as native code, on the hand-checked cases of the reference machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.machine.hand_checked import run_case
from tests.machine.test_ops import CASES, Case

from tilewright import LaunchOptions
from tilewright.cpu import Program
from tilewright.text import parse


@pytest.mark.parametrize("options", [{}, {"cpu": "generic", "checked": True}], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_computes(case: Case, options: dict[str, Any]) -> None:
    def launch(text: str, arrays: list[np.ndarray], grid: tuple[int, int, int]) -> str:
        return (
            Program(parse(text), options=LaunchOptions(**options))
            .launch(None, grid, arrays, options=LaunchOptions(allow_overlap=True))
            .text
        )

    run_case(case, launch)
