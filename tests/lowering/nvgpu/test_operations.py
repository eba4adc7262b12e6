"""Operations of cuda_tile, as threads on the simulator, on the hand-checked cases of the machine."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.hand_checked import run_case
from tests.machine.test_ops import CASES, Case

from tilewright import LaunchOptions
from tilewright.diagnostics import TileIRError
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse


def _shares_bytes(case: Case) -> bool:
    """Whether a case goes through a view of elements that share bytes, which the simulator refuses."""
    return "tensor_view<?xf4E2M1FN" in case.body


def _launch(text: str, arrays: list[np.ndarray], grid: tuple[int, int, int]) -> str:
    printed: list[str] = []
    program = TileProgram(parse(text), "sm_100a")
    program.launch(
        None, grid, arrays, options=LaunchOptions(allow_overlap=True, print_to=printed.append)
    )
    return "".join(printed)


@pytest.mark.parametrize(
    "case", [case for case in CASES if not _shares_bytes(case)], ids=lambda case: case.op
)
def test_computes(case: Case) -> None:
    run_case(case, _launch, as_tree=True)


@pytest.mark.parametrize(
    "case", [case for case in CASES if _shares_bytes(case)], ids=lambda case: case.op
)
def test_views_of_elements_that_share_bytes_are_refused(case: Case) -> None:
    with pytest.raises(TileIRError, match="share their bytes"):
        run_case(case, _launch)
