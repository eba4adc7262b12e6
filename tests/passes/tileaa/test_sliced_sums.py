"""Sums of tiles row by row: which loops allow it, and that both forms give the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.wide_kernels import COLUMNS, ROWS, Strip, kernel, sums_of_tiles
from xdsl.rewriter import Rewriter

import tilewright
from tilewright.analysis.verifier import verify
from tilewright.cpu.compile import kernels_of
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of
from tilewright.passes.tileaa.sliced_sums import sliced

BLOCKS = 3


def _total(s: Strip) -> Any:
    return s.k.zeros((ROWS, s.columns), s.dtype)


def largest(s: Strip) -> None:
    with s.k.for_(s.rounds, total=_total(s)) as loop:
        loop.total = s.k.maxf(loop.total, s.load(loop.index))
    s.row(loop.total.max(axis=0))


def two_sums(s: Strip) -> None:
    with s.k.for_(s.rounds, first=_total(s), second=_total(s)) as loop:
        x = s.load(loop.index)
        loop.first = loop.first + x
        loop.second = loop.second + x * x
    s.row(loop.first.sum(axis=0) - loop.second.sum(axis=0))


def by_rows(s: Strip) -> None:
    """The tile is multiplied by a number for each row, which another load gives."""
    k = s.k
    column = k.partition(s.whole, tile=(ROWS, 1))
    with k.for_(s.rounds, total=_total(s)) as loop:
        weight, _ = k.load_view_tko(column, [loop.index, 0])
        loop.total = loop.total + s.load(loop.index) * k.broadcast(weight, shape=(ROWS, s.columns))
    s.row(loop.total.sum(axis=0))


def reshaped_weights(s: Strip) -> None:
    """As weights that lie along one axis."""
    k = s.k
    first = k.partition(k.make_tensor_view(k.args.x, [k.args.m], [1]), tile=(ROWS,))
    with k.for_(s.rounds, total=_total(s)) as loop:
        weight, _ = k.load_view_tko(first, [loop.index])
        wide = k.broadcast(k.reshape(weight, shape=(ROWS, 1)), shape=(ROWS, s.columns))
        loop.total = loop.total + s.load(loop.index) * wide
    s.row(loop.total.sum(axis=0))


def negative_first(s: Strip) -> None:
    """What it begins with is no zero."""
    with s.k.for_(s.rounds, total=s.k.full((ROWS, s.columns), -3, s.dtype)) as loop:
        loop.total = loop.total + s.load(loop.index)
    s.row(loop.total.sum(axis=0))


CASES = (sums_of_tiles, largest, two_sums, by_rows, reshaped_weights, negative_first)


def _stored_too(s: Strip) -> None:
    with s.k.for_(s.rounds, total=_total(s)) as loop:
        loop.total = loop.total + s.load(loop.index)
    s.row(loop.total.sum(axis=0))
    s.tile(loop.total, 0)


def _stores(s: Strip) -> None:
    with s.k.for_(s.rounds, total=_total(s)) as loop:
        loop.total = loop.total + s.load(loop.index)
        s.tile(loop.total, loop.index)
    s.row(loop.total.sum(axis=0))


def _sum_of_rows(s: Strip) -> None:
    with s.k.for_(s.rounds, total=_total(s)) as loop:
        loop.total = loop.total + s.load(loop.index)
    k = s.k
    rows = k.partition(k.make_tensor_view(k.args.y, [k.args.m], [1]), tile=(ROWS,))
    k.store_view_tko(loop.total.sum(axis=1), rows, [s.here])


def _mixed_rows(s: Strip) -> None:
    """A row depends on the others."""
    with s.k.for_(s.rounds, total=_total(s)) as loop:
        x = s.load(loop.index)
        loop.total = loop.total + x - x.max(axis=0, keepdims=True)
    s.row(loop.total.sum(axis=0))


def _whole_tile(s: Strip) -> None:
    """A tile from before the loop."""
    first = s.load(0)
    with s.k.for_(s.rounds, total=_total(s)) as loop:
        loop.total = loop.total + s.load(loop.index) * first
    s.row(loop.total.sum(axis=0))


REFUSED = (_stored_too, _stores, _sum_of_rows, _mixed_rows, _whole_tile)


def _function(module: Any) -> Any:
    ((_, func),) = kernels_of(module).items()
    return func


def _results(module: Any, x: np.ndarray) -> np.ndarray:
    y = np.zeros_like(x)
    tilewright.run(module, "k", (BLOCKS,), (x, y, *x.shape), machine="reference")
    return y


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
@pytest.mark.parametrize("case", CASES)
def test_both_forms_give_the_same(case: Callable[[Strip], None], dtype: str) -> None:
    """Of small whole numbers, whose sums are exact in any order."""
    module = lower_to_tileaa(kernel(case, dtype)).module
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (4 * ROWS, BLOCKS * COLUMNS - 3)).astype(dtype_of(dtype))
    copy = module.clone()
    func = _function(copy)
    found = sliced(func, 1)
    assert found is not None
    made, origin, rows = found
    assert rows == ROWS
    assert {*made.walk()} <= {*origin}
    assert {*origin.values()} <= {*func.walk()}
    Rewriter.replace_op(func, made, [])
    verify(copy)
    assert _results(copy, x).tobytes() == _results(module, x).tobytes()


@pytest.mark.parametrize("dtype", ["i8", "i32"])
def test_integers(dtype: str) -> None:
    module = lower_to_tileaa(kernel(sums_of_tiles, dtype)).module
    x = np.random.default_rng(0).integers(-99, 99, (2 * ROWS, BLOCKS * COLUMNS), dtype_of(dtype))
    copy = module.clone()
    found = sliced(_function(copy), 1)
    assert found is not None
    Rewriter.replace_op(_function(copy), found[0], [])
    assert _results(copy, x).tobytes() == _results(module, x).tobytes()


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: Callable[[Strip], None]) -> None:
    func = _function(lower_to_tileaa(kernel(case)).module)
    before = str(func)
    assert sliced(func, 1) is None
    assert str(func) == before


def test_small_tiles_stay() -> None:
    func = _function(lower_to_tileaa(kernel(sums_of_tiles)).module)
    size = 4 * ROWS * COLUMNS
    assert sliced(func, size) is not None
    assert sliced(func, size + 1) is None
