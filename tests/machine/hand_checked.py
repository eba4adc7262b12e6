"""What other machines must leave for the hand-checked cases of operations: the same, but for what Tile
IR leaves open."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tests.machine.kernels import kernel_text
from tests.machine.test_ops import Case

Grid = tuple[int, int, int]


def run_case(
    case: Case, launch: Callable[[str, list[np.ndarray], Grid], str], *, as_tree: bool = False
) -> None:
    """Check what a machine computes. ``launch`` runs the kernel of a text over a grid, in place, and
    gives what it printed. ``as_tree``: the machine combines partial results of reductions, so that a
    body must be associative."""
    start = case.options.get("start", {})
    inputs = {name: np.asarray(value) for name, value in case.inputs.items()}
    results = {
        name: np.asarray(start.get(name, np.zeros_like(value)))
        for name, value in case.expected.items()
    }
    text = kernel_text(case.body, inputs, results, case.globals)
    arrays = {name: array.copy() for name, array in {**inputs, **results}.items()}
    given = [array if array.ndim else array.reshape(1) for array in arrays.values()]
    x, y, z = (*case.grid, 1, 1)[:3]
    printed = launch(text, given, (x, y, z))
    assert printed == case.text
    if not _is_ordered(case, as_tree=as_tree):
        for name, wanted in case.expected.items():
            _check(arrays[name], np.asarray(wanted), name)


def _is_ordered(case: Case, *, as_tree: bool) -> bool:
    """Whether only an order of elements gives the result, which Tile IR leaves open."""
    if case.op != "reduce":
        return False
    starts_high = "a" in case.inputs and np.asarray(case.inputs["a"]).flat[0] == 2.0**24
    return bool(starts_high) or (as_tree and "%limit" in case.body)


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
