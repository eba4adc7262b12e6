"""In which order tile blocks run: along memory, wherever nobody can tell."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.codegen.analysis.block_order import ROW_BY_ROW, order_of_blocks
from tilewright.cpu.compile import kernels_of
from tilewright.lowering import lower_to_tileaa

_TILE = (2, 4, 8)
_SHAPE = (6, 8, 24)
_PLACES = list(permutations(range(3)))
_Last = Callable[[Builder, Value, Value], None]


def _copy(places: tuple[int, ...], strides: Any, last: _Last | None = None) -> Any:
    """``y = 2 x``, tile by tile; ``places``: by axis of the arrays the axis of the grid that counts tiles."""
    module = ModuleBuilder()
    sizes = dict.fromkeys(("s0", "s1"), "i32")
    with module.entry("k", {"x": ptr("f32"), "y": ptr("f32")} | sizes) as k:
        given = [getattr(k.args, stride) if stride else 1 for stride in strides]
        ids = k.get_tile_block_id()
        x, y = (
            k.partition(k.make_tensor_view(base, shape=list(_SHAPE), strides=given), tile=_TILE)
            for base in (k.args.x, k.args.y)
        )
        where = [ids[axis] for axis in places]
        values, _ = k.load_view_tko(x, where)
        if last is not None:
            last(k, values, ids[0])
        k.store_view_tko(k.addf(values, values), y, where)
    return module.build()


def _order(module: Any) -> tuple[int, int, int]:
    lowered = lower_to_tileaa(module).module
    (func,) = kernels_of(lowered).values()
    return order_of_blocks(list(func.walk()))


@pytest.mark.parametrize("places", _PLACES, ids=str)
def test_the_axis_that_moves_least_runs_fastest(places: tuple[int, ...]) -> None:
    assert _order(_copy(places, ("s0", "s1", ""))) == places[::-1]


@pytest.mark.parametrize("places", _PLACES, ids=str)
def test_strides_behind_pointers_are_the_smaller_the_further_behind(
    places: tuple[int, ...],
) -> None:
    module = ModuleBuilder()
    sizes = dict.fromkeys(("s0", "s1", "s2"), "i32")
    with module.entry("k", {"x": ptr("f32")} | sizes) as k:
        ids, args = k.get_tile_block_id(), (k.args.s0, k.args.s1, k.args.s2)
        first, second, third = (ids[axis] * by for axis, by in zip(places, args, strict=True))
        at = k.broadcast((first + second + third).reshape(1), shape=(8,)) + k.arange(8)
        k.store_ptr_tko(k.broadcast(k.args.x.reshape(1), shape=(8,)) + at, k.zeros((8,), "f32"))
    assert _order(module.build()) == places[::-1]


@pytest.mark.parametrize("places", _PLACES, ids=str)
def test_strides_decide_and_not_places(places: tuple[int, ...]) -> None:
    assert _order(_copy(places, ("", "s0", "s1")))[0] == places[0]


@pytest.mark.parametrize("places", _PLACES, ids=str)
@pytest.mark.parametrize("options", [{}, {"threads": 3}, {"checked": True}], ids=str)
def test_all_blocks_run_once(places: tuple[int, ...], options: Any) -> None:
    x = np.arange(np.prod(_SHAPE), dtype=np.float32).reshape(_SHAPE)
    y = np.zeros_like(x)
    tiles = [extent // tile for extent, tile in zip(_SHAPE, _TILE, strict=True)]
    grid = [tiles[places.index(axis)] for axis in range(3)]
    module = _copy(places, ("s0", "s1", ""))
    strides = [stride // 4 for stride in x.strides[:2]]
    Program(module, LaunchOptions(**options)).launch("k", tuple(grid), (x, y, *strides))
    assert (y == 2 * x).all()


def _print(k: Builder, values: Value, number: Value) -> None:
    k.print_tko([number], str="%d")


def _assert(k: Builder, values: Value, number: Value) -> None:
    near = k.cmpi(number, 100, comparison_predicate="less_than", signedness="signed")
    k.assert_(near, message="far")


def _count(k: Builder, values: Value, number: Value) -> None:
    k.atomic_rmw_tko(
        k.args.y,
        k.constant(1.0, "f32"),
        mode="addf",
        memory_ordering_semantics="relaxed",
        memory_scope="device",
    )


@pytest.mark.parametrize("last", [_print, _assert, _count])
def test_x_runs_fastest_where_someone_could_tell(last: _Last) -> None:
    assert _order(_copy((0, 1, 2), ("s0", "s1", ""), last)) == ROW_BY_ROW


def _spread(k: Builder, value: Value) -> Value:
    return k.broadcast(k.reshape(value, shape=[1]), shape=[32])


def _through_pointers(row_axis: int) -> Any:
    """``y = 2 x`` through tiles of pointers, whose rows are counted along an axis of the grid."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "y": ptr("f32"), "n": "i32"}) as k:
        ids = k.get_tile_block_id()
        row, part = ids[row_axis], ids[1 - row_axis]
        at = _spread(k, row * k.args.n + part * 32) + k.iota(shape=[32], to="i32")
        x, y = (k.offset(_spread(k, base), at) for base in (k.args.x, k.args.y))
        values, _ = k.load_ptr_tko(x)
        k.store_ptr_tko(y, k.addf(values, values))
    return module.build()


@pytest.mark.parametrize("row_axis", [0, 1])
def test_pointers_count_as_well(row_axis: int) -> None:
    module = _through_pointers(row_axis)
    assert _order(module)[0] == 1 - row_axis
    x = np.arange(12 * 96, dtype=np.float32).reshape(12, 96)
    y = np.zeros_like(x)
    Program(module).launch("k", (12, 3) if row_axis == 0 else (3, 12), (x, y, 96))
    assert (y == 2 * x).all()


def _transpose(rows: tuple[int, int], width: int = 96) -> Any:
    """``y = x.T`` of ``width`` columns; ``rows`` are the axes of the grid that count tiles along x and y."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "y": ptr("f32")}) as k:
        ids = k.get_tile_block_id()
        (i, j), shape = (ids[axis] for axis in rows), [96, width]
        x = k.make_tensor_view(k.args.x, shape=shape, strides=[width, 1])
        y = k.make_tensor_view(k.args.y, shape=shape[::-1], strides=[96, 1])
        values, _ = k.load_view_tko(k.partition(x, tile=(16, 32)), [i, j])
        turned = k.permute(values, permutation=[1, 0])
        k.store_view_tko(turned, k.partition(y, tile=(32, 16)), [j, i])
    return module.build()


@pytest.mark.parametrize("rows", [(0, 1), (1, 0)])
def test_where_loads_and_stores_disagree_rows_are_written(rows: tuple[int, int]) -> None:
    """A step along the axis that counts rows of x goes along the rows of y."""
    module = _transpose(rows)
    assert _order(module)[0] == rows[0]
    x = np.arange(96 * 96, dtype=np.float32).reshape(96, 96)
    y = np.zeros_like(x)
    Program(module).launch("k", (6, 3) if rows == (0, 1) else (3, 6), (x, y))
    assert (y == x.T).all()
