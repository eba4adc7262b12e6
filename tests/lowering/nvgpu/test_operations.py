"""Operations of cuda_tile, as threads on the simulator, on the hand-checked cases of the machine."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.kernels import kernel_text
from tests.machine.test_ops import CASES, Case

from tilewright.diagnostics import TileIRError
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse


def _is_ordered(case: Case) -> bool:
    """Whether only an order of elements gives the result, which Tile IR leaves open: here a reduction is
    a tree."""
    if case.op != "reduce":
        return False
    starts_high = "a" in case.inputs and np.asarray(case.inputs["a"]).flat[0] == 2.0**24
    return bool(starts_high) or "%limit" in case.body


def _check(found: np.ndarray, expected: np.ndarray, name: str) -> None:
    """Wide floats within a few units, because functions may be computed otherwise; all else as it is."""
    if expected.dtype.kind not in "iub" and expected.itemsize >= 4:
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=0, err_msg=name)
        return
    word = f"u{expected.itemsize}"
    same = found.view(word) == expected.view(word)
    if expected.dtype.kind not in "iub":
        same |= np.isnan(expected.astype(np.float64)) & np.isnan(found.astype(np.float64))
    assert np.all(same), (name, found, expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_computes(case: Case) -> None:
    start = case.options.get("start", {})
    inputs = {name: np.asarray(value) for name, value in case.inputs.items()}
    results = {
        name: np.asarray(start.get(name, np.zeros_like(value)))
        for name, value in case.expected.items()
    }
    text = kernel_text(case.body, inputs, results, case.globals)
    program = TileProgram(parse(text), "sm_100a")
    arrays = {name: array.copy() for name, array in {**inputs, **results}.items()}
    given = [array if array.ndim else array.reshape(1) for array in arrays.values()]
    printed: list[str] = []

    def launch() -> None:
        grid = (*case.grid, 1, 1)[:3]
        program.launch(None, grid, given, allow_overlap=True, print_to=printed.append)

    if "ptr<f4E2M1FN>" in text and "view" in case.op:
        with pytest.raises(TileIRError, match="share their bytes"):
            launch()
        return
    launch()
    assert "".join(printed) == case.text
    if not _is_ordered(case):
        for name, wanted in case.expected.items():
            _check(arrays[name], np.asarray(wanted), name)
