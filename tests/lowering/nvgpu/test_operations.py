"""Operations of cuda_tile, as threads on the simulator, on the hand-checked cases of the machine."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.kernels import kernel_text
from tests.machine.test_ops import CASES, Case

from tilewright.diagnostics import TileIRError
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

#: Cases that are refused, by words of their bodies.
REFUSED = {"f4E2M1FN": "elements of .* share their bytes"}


def _is_ordered(case: Case) -> bool:
    """Whether only an order of elements gives the result, which Tile IR leaves open: here a reduction is
    a tree."""
    starts_high = "a" in case.inputs and np.asarray(case.inputs["a"]).flat[0] == 2.0**24
    return case.op == "reduce" and (starts_high or "%limit" in case.body)


def _refusal(case: Case) -> str | None:
    return next((why for word, why in REFUSED.items() if word in case.body), None)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_computes(case: Case) -> None:
    start = case.options.get("start", {})
    inputs = {name: np.asarray(value) for name, value in case.inputs.items()}
    results = {
        name: np.asarray(start.get(name, np.zeros_like(value)))
        for name, value in case.expected.items()
    }
    program = TileProgram(parse(kernel_text(case.body, inputs, results, case.globals)), "sm_100a")
    arrays = {name: array.copy() for name, array in {**inputs, **results}.items()}
    given = [array if array.ndim else array.reshape(1) for array in arrays.values()]
    printed: list[str] = []

    def launch() -> None:
        grid = (*case.grid, 1, 1)[:3]
        program.launch(None, grid, given, allow_overlap=True, print_to=printed.append)

    if (why := _refusal(case)) is not None:
        with pytest.raises(TileIRError, match=why):
            launch()
        return
    launch()
    assert "".join(printed) == case.text
    if _is_ordered(case):
        return
    for name, wanted in case.expected.items():
        expected = np.asarray(wanted)
        if expected.dtype.kind not in "iub" and expected.itemsize >= 4:
            np.testing.assert_allclose(arrays[name], expected, rtol=1e-6, atol=0, err_msg=name)
        else:
            same = arrays[name].view(f"u{expected.itemsize}") == expected.view(
                f"u{expected.itemsize}"
            )
            nan = (
                np.isnan(expected.astype(np.float64)) if expected.dtype.kind not in "iub" else False
            )
            assert np.all(same | nan), (name, arrays[name], expected)
