"""Operations of cuda_tile, as threads on the simulator, on the hand-checked cases of the machine."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.hand_checked import run_case
from tests.machine.test_ops import CASES, Case

from tilewright.diagnostics import TileIRError
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_computes(case: Case) -> None:
    def launch(text: str, arrays: list[np.ndarray], grid: tuple[int, int, int]) -> str:
        printed: list[str] = []
        program = TileProgram(parse(text), "sm_100a")
        if "ptr<f4E2M1FN>" in text and "view" in case.op:
            with pytest.raises(TileIRError, match="share their bytes"):
                program.launch(None, grid, arrays, allow_overlap=True)
            pytest.skip("the simulator refuses elements that share bytes, which was checked")
        program.launch(None, grid, arrays, allow_overlap=True, print_to=printed.append)
        return "".join(printed)

    run_case(case, launch, as_tree=True)
