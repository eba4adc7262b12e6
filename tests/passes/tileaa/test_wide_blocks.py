"""Several tile blocks as one: which kernels allow it, and that the wide kernel gives the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.wide_kernels import CASES, COLUMNS, REFUSED, ROWS, Strip, kernel
from xdsl.rewriter import Rewriter

import tilewright
from tilewright.analysis.verifier import verify
from tilewright.builder import ModuleBuilder, ptr
from tilewright.cpu.compile import kernels_of
from tilewright.lowering import lower_to_tileaa
from tilewright.passes.tileaa.wide_blocks import CannotWidenError, rows_of, thinned, widened, widths

_BLOCKS = 8


def _lowered(case: Callable[[Strip], None], axis: int = 0, dtype: str = "f32") -> Any:
    return lower_to_tileaa(kernel(case, dtype, axis)).module


def _made_wide(module: Any, axis: int, factor: int) -> Any:
    """A module whose kernel does what several blocks of the given one do."""
    copy = module.clone()
    ((_, func),) = kernels_of(copy).items()
    wide, origin = widened(func, widths(func, axis), factor)
    assert {*wide.walk()} <= {*origin}
    Rewriter.replace_op(func, wide, [])
    verify(copy)
    return copy


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("factor", [2, 8])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_wide_block_gives_what_its_blocks_give(
    case: Callable[[Strip], None], factor: int, axis: int
) -> None:
    module = _lowered(case, axis)
    # The last tiles reach beyond the array, along both axes.
    m, n = ROWS - 3, COLUMNS * _BLOCKS - 5
    x = np.random.default_rng(0).standard_normal((m, n)).astype(np.float32)
    results: list[bytes] = []
    for each, blocks in ((module, _BLOCKS), (_made_wide(module, axis, factor), _BLOCKS // factor)):
        y = np.zeros((m, n), np.float32)
        grid = [1, 1, 1]
        grid[axis] = blocks
        tilewright.run(each, "k", tuple(grid), (x, y, m, n), machine="reference")
        results.append(y.tobytes())
    assert results[0] == results[1]
    assert any(results[0])


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused(case: Callable[[Strip], None]) -> None:
    ((_, func),) = kernels_of(_lowered(case, dtype="i32")).items()
    with pytest.raises(CannotWidenError):
        widths(func, 0)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_other_axes_of_the_grid_stay(case: Callable[[Strip], None]) -> None:
    ((_, func),) = kernels_of(_lowered(case)).items()
    for axis in (1, 2):
        with pytest.raises(CannotWidenError):
            widths(func, axis)


def _product(swapped: bool) -> Any:
    """``y = a x`` over columns of x, or ``y = x a``, with x on the wrong side."""
    module = ModuleBuilder()
    with module.entry("k", dict.fromkeys(("a", "x", "y"), ptr("f32")) | {"n": "i32"}) as k:
        here, _, _ = k.get_tile_block_id()
        left = k.load_view_tko(
            k.partition(k.make_tensor_view(k.args.a, [8, 8], [8, 1]), tile=(8, 8)), [0, 0]
        )[0]
        x = k.partition(k.make_tensor_view(k.args.x, [8, k.args.n], [k.args.n, 1]), tile=(8, 8))
        y = k.partition(k.make_tensor_view(k.args.y, [8, k.args.n], [k.args.n, 1]), tile=(8, 8))
        with k.for_(2, total=k.zeros((8, 8), "f32")) as loop:
            right = k.load_view_tko(x, [0, here])[0]
            pair = (right, left) if swapped else (left, right)
            loop.total = k.mma(*pair, loop.total)
        k.store_view_tko(loop.total, y, [0, here])
    return lower_to_tileaa(module.build()).module


def test_products_are_wide_in_their_columns() -> None:
    module, n = _product(False), 8 * _BLOCKS
    a, x = (np.random.default_rng(s).standard_normal((8, k)) for s, k in ((0, 8), (1, n)))
    a, x = a.astype(np.float32), x.astype(np.float32)
    results: list[Any] = []
    for each, blocks in ((module, _BLOCKS), (_made_wide(module, 0, 4), _BLOCKS // 4)):
        y = np.zeros((8, n), np.float32)
        tilewright.run(each, "k", (blocks,), (a, x, y, n), machine="reference")
        results.append(y)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)
    np.testing.assert_allclose(results[0], 2 * (a @ x), rtol=1e-4, atol=1e-5)


def test_products_with_blocks_along_their_sums_are_refused() -> None:
    ((_, func),) = kernels_of(_product(True)).items()
    with pytest.raises(CannotWidenError):
        widths(func, 0)


def test_a_thin_block_does_one_row() -> None:
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "y": ptr("f32"), "m": "i32", "n": "i32"}) as k:
        m, n = k.args.m, k.args.n
        x, y = (
            k.partition(k.make_tensor_view(base, [m, n], [n, 1]), tile=(ROWS, COLUMNS))
            for base in (k.args.x, k.args.y)
        )
        j, i, _ = k.get_tile_block_id()
        tile = k.load_view_tko(x, [i, j])[0]
        k.store_view_tko(tile * tile + 1.0, y, [i, j])
    lowered = lower_to_tileaa(module.build()).module
    copy = lowered.clone()
    ((_, func),) = kernels_of(copy).items()
    found = widths(func, 1)
    assert rows_of(found) == ROWS
    thin, origin = thinned(func, found)
    assert {*thin.walk()} <= {*origin}
    Rewriter.replace_op(func, thin, [])
    verify(copy)
    shape = 2 * ROWS, 3 * COLUMNS
    given = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for each, lines in ((lowered, 2), (copy, 2 * ROWS)):
        result = np.zeros_like(given)
        tilewright.run(each, "k", (3, lines, 1), (given, result, *shape), machine="reference")
        assert (result == given * given + 1).all()


def test_places_of_rows_are_those_of_single_rows() -> None:
    """A triangle, by one block for each row of its tiles: what a row is compared by is its own number then."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "n": "i32"}) as k:
        i, j, _ = k.get_tile_block_id()
        whole = k.make_tensor_view(k.args.x, [k.args.n, k.args.n], [k.args.n, 1])
        x = k.partition(whole, tile=(4, 8), padding="zero")
        row, column = (
            k.broadcast(k.reshape(at * extent, shape=(1,)), shape=(extent,))
            + k.iota(shape=(extent,), to="i32")
            for at, extent in ((i, 4), (j, 8))
        )
        row = k.broadcast(k.reshape(row, shape=(4, 1)), shape=(4, 8))
        column = k.broadcast(k.reshape(column, shape=(1, 8)), shape=(4, 8))
        held, token = k.load_view_tko(x, [i, j])
        target = k.partition(whole, tile=(4, 8))
        k.store_view_tko(k.select(column <= row, held, held * 0.0), target, [i, j], token=token)
    copy = lower_to_tileaa(module.build()).module
    ((_, func),) = kernels_of(copy).items()
    found = widths(func, 0)
    assert rows_of(found) == 4
    thin, _ = thinned(func, found)
    Rewriter.replace_op(func, thin, [])
    verify(copy)
    x = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    expected = np.tril(x)
    tilewright.run(copy, "k", (16, 2, 1), (x, 16), machine="reference")
    np.testing.assert_array_equal(x, expected)
