"""Iterations of accumulating loops made in groups: which loops allow it, and that both forms give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.passes.tileaa.test_sliced_sums import by_rows, largest, negative_first, two_sums
from tests.wide_kernels import COLUMNS, ROWS, Strip, kernel, sums_of_tiles
from xdsl.dialects.scf import ForOp

import tilewright
from tilewright.analysis.verifier import verify
from tilewright.cpu.compile import kernels_of
from tilewright.lowering import lower_to_tileaa
from tilewright.passes.tileaa.jam_loops import FACTOR, jam

BYTES = 4 * ROWS * COLUMNS


def from_the_third_in_twos(s: Strip) -> None:
    """A loop that begins behind 0, and has a step."""
    with s.k.for_(2, s.rounds, 2, total=s.k.zeros((ROWS, s.columns), s.dtype)) as loop:
        loop.total = loop.total * 0.5 + s.load(loop.index)
    s.row(loop.total.sum(axis=0))


CASES = (sums_of_tiles, largest, two_sums, by_rows, negative_first, from_the_third_in_twos)


def _stores(s: Strip) -> None:
    with s.k.for_(s.rounds, total=s.k.zeros((ROWS, s.columns), s.dtype)) as loop:
        loop.total = loop.total + s.load(loop.index)
        s.tile(loop.total, loop.index)
    s.row(loop.total.sum(axis=0))


def _reduces(s: Strip) -> None:
    with s.k.for_(s.rounds, total=s.k.zeros((ROWS, s.columns), s.dtype)) as loop:
        x = s.load(loop.index)
        loop.total = loop.total + x - x.max(axis=0, keepdims=True)
    s.row(loop.total.sum(axis=0))


def _of_three(s: Strip) -> None:
    """``unroll-loops`` is for those."""
    with s.k.for_(3, total=s.k.zeros((ROWS, s.columns), s.dtype)) as loop:
        loop.total = loop.total + s.load(loop.index)
    s.row(loop.total.sum(axis=0))


def _of_a_number(s: Strip) -> None:
    with s.k.for_(s.rounds, total=s.k.constant(0, "i32")) as loop:
        loop.total = loop.total + 1
    s.row(s.load(loop.total).sum(axis=0))


def _behind_an_unknown(s: Strip) -> None:
    with s.k.for_(s.here, s.rounds, total=s.k.zeros((ROWS, s.columns), s.dtype)) as loop:
        loop.total = loop.total + s.load(loop.index)
    s.row(loop.total.sum(axis=0))


def _function(module: Any) -> Any:
    ((_, func),) = kernels_of(module).items()
    return func


def _results(module: Any, x: np.ndarray, rows: int) -> bytes:
    y = np.full_like(x, 9)
    tilewright.run(module, "k", (2,), (x, y, rows, x.shape[1]), machine="reference")
    return y.tobytes()


@pytest.mark.parametrize("case", CASES)
def test_both_forms_give_the_same(case: Callable[[Strip], None]) -> None:
    """For all numbers of iterations that are left, and none."""
    module = lower_to_tileaa(kernel(case)).module
    copy = module.clone()
    func = _function(copy)
    origin = {op: op for op in func.walk()}
    before = {*origin}
    assert jam(func, origin, BYTES)
    verify(copy)
    assert {*func.walk()} <= {*origin}
    assert {*origin.values()} <= before
    assert sum(isinstance(op, ForOp) for op in func.walk()) == 2
    rng = np.random.default_rng(0)
    most = 4 * FACTOR + 3
    x = rng.standard_normal((most * ROWS, 2 * COLUMNS - 3)).astype(np.float32)
    for rounds in (0, 1, FACTOR - 1, FACTOR, 2 * FACTOR + 1, most):
        rows = max(rounds * ROWS - 3, 0)
        assert _results(copy, x, rows) == _results(module, x, rows), rounds


@pytest.mark.parametrize("case", [_stores, _reduces, _of_three, _of_a_number, _behind_an_unknown])
def test_refused(case: Callable[[Strip], None]) -> None:
    func = _function(lower_to_tileaa(kernel(case)).module)
    before = str(func)
    assert not jam(func, {}, 1)
    assert str(func) == before


def test_what_registers_hold_stays() -> None:
    func = _function(lower_to_tileaa(kernel(sums_of_tiles)).module)
    assert not jam(func, {}, BYTES + 1)
