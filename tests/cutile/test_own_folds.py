"""Scans and reductions by a function of the user's that is associative, and not commutative."""

from __future__ import annotations

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from tilewright.cutile import on  # noqa: E402

ConstInt = ct.Constant[int]


def followed(a1: object, b1: object, a2: object, b2: object) -> tuple[object, object]:
    """The step ``h -> a1 h + b1``, followed by ``h -> a2 h + b2``."""
    return a1 * a2, b1 * a2 + b2  # pyright: ignore[reportOperatorIssue]


@ct.kernel
def recurrence(a, b, h, last, ROWS: ConstInt, N: ConstInt, REVERSE: ct.Constant[bool]):
    steps = ct.load(a, (0, 0), (ROWS, N)), ct.load(b, (0, 0), (ROWS, N))
    _, states = ct.scan(steps, 1, followed, (1, 0), reverse=REVERSE)
    ct.store(h, (0, 0), states)
    _, state = ct.reduce(steps, 1, followed, (1, 0))
    ct.store(last, (0,), state)


def _expected(a: np.ndarray, b: np.ndarray, reverse: bool) -> np.ndarray:
    found, state = np.zeros_like(b), np.zeros(len(b), b.dtype)
    order = range(b.shape[1])
    for at in reversed(order) if reverse else order:
        state = state * a[:, at] + b[:, at]
        found[:, at] = state
    return found


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(1, 2), (2, 16), (1, 64), (4, 32)], ids=str)
@pytest.mark.parametrize("machine", ["reference", "cpu", "sim:sm_90a"])
def test_linear_recurrences(machine: str, shape: tuple[int, int], reverse: bool) -> None:
    generator = np.random.default_rng(shape[1])
    a, b = (generator.integers(-2, 3, shape).astype(np.int32) for _ in range(2))
    h, last = np.zeros_like(b), np.zeros(shape[0], np.int32)
    with on(machine):
        ct.launch(0, (1,), recurrence, (a, b, h, last, *shape, reverse))
    assert (h == _expected(a, b, reverse)).all()
    if (
        machine != "sim:sm_90a"
    ):  # its threads combine elements that are not neighbours, as those of a GPU
        assert (last == _expected(a, b, False)[:, -1]).all()


@ct.kernel
def first_largest(x, value, place, N: ConstInt):
    def larger(v1, i1, v2, i2):
        keep = v1 >= v2
        return ct.where(keep, v1, v2), ct.where(keep, i1, i2)

    t = ct.load(x, (0,), (N,))
    best, where = ct.reduce((t, ct.arange(N, dtype=ct.int32)), 0, larger, (-1, 0))
    ct.scatter(value, 0, best)
    ct.scatter(place, 0, where)


@pytest.mark.parametrize("machine", ["reference", "cpu"])
def test_ties_are_for_the_first_argument(machine: str) -> None:
    x = np.array([3, 7, 1, 7, 7, 0, 2, 7], np.int32)
    value, place = np.zeros(1, np.int32), np.zeros(1, np.int32)
    with on(machine):
        ct.launch(0, (1,), first_largest, (x, value, place, 8))
    assert (value[0], place[0]) == (7, 1)
