"""Loads, stores, gathers, scatters and views, with every padding."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import Arguments
from tests.corpus.cutile._table import canvas, integers, uniform
from tests.cutile.api._cases import Cases

CASES = Cases()

PADDINGS = (
    ct.PaddingMode.ZERO,
    ct.PaddingMode.NEG_ZERO,
    ct.PaddingMode.NAN,
    ct.PaddingMode.POS_INF,
    ct.PaddingMode.NEG_INF,
)
PADDING_VALUES = (0.0, -0.0, np.nan, np.inf, -np.inf)
WEAK, RELAXED, ACQUIRE, RELEASE = (
    ct.MemoryOrder.WEAK,
    ct.MemoryOrder.RELAXED,
    ct.MemoryOrder.ACQUIRE,
    ct.MemoryOrder.RELEASE,
)
SCOPES = (ct.MemoryScope.BLOCK, ct.MemoryScope.DEVICE, ct.MemoryScope.SYS)


def expect(condition):
    """Fails to compile where a constant condition does not hold."""
    if not ct.ensure_constant(condition):
        ct.static_assert(False)


def _padded(given: Arguments) -> dict[str, Any]:
    rows = [np.concatenate([given["x"][8:], [value] * 4]) for value in PADDING_VALUES]
    # What lies beyond the array is not stored where the padding has no defined value.
    rows.append(np.concatenate([given["x"][8:], [77.0] * 4]))
    return {"out": np.stack(rows).astype(np.float32)}


@CASES.add(lambda rng: {"x": uniform(rng, 12), "out": canvas((6, 8))}, _padded)
@ct.kernel
def load_padding(x, out):
    for i, mode in ct.static_iter(enumerate(PADDINGS)):
        ct.store(out, (i, 0), ct.load(x, (1,), (8,), padding_mode=mode)[None, :])
    tail = ct.load(x, (1,), (8,), padding_mode=ct.PaddingMode.UNDETERMINED)
    ct.store(out, (5, 0), tail.extract((0,), (4,))[None, :])


@CASES.add(
    lambda rng: {"x": uniform(rng, 12), "out": canvas((5, 8))},
    lambda given: {"out": _padded(given)["out"][:5]},
)
@ct.kernel
def view_padding(x, out):
    for i, mode in ct.static_iter(enumerate(PADDINGS)):
        view = x.tiled_view(8, padding_mode=mode)
        ct.store(out, (i, 0), view.load(1)[None, :])


@CASES.add(
    lambda rng: {"x": uniform(rng, 12), "out": canvas((5, 8))},
    lambda given: {
        "out": np.stack(
            [np.concatenate([given["x"][9:], [value] * 5]) for value in PADDING_VALUES]
        ).astype(np.float32)
    },
)
@ct.kernel
def strided_view_padding(x, out):
    for i, mode in ct.static_iter(enumerate(PADDINGS)):
        view = x.tiled_view(8, padding_mode=mode, traversal_steps=3)
        ct.store(out, (i, 0), view.load(3)[None, :])


def _rows(x: np.ndarray, value: float) -> np.ndarray:
    return np.stack([x[5, 1:5], np.full(4, value), x[0, 1:5], np.full(4, value)])


@CASES.add(
    lambda rng: {
        "x": uniform(rng, (6, 6)),
        "rows": np.array([5, 6, 0, 9], np.int32),
        "start": 1,
        "out": canvas((24, 4)),
    },
    lambda given: {
        "out": np.concatenate(
            [_rows(given["x"], value) for value in PADDING_VALUES] + [given["x"][:4, 1:5]]
        ).astype(np.float32)
    },
)
@ct.kernel
def advanced_loads(x, rows, start, out):
    picked = ct.load(rows, (0,), (4,))
    columns = ct.Slice(start, 4)
    for i, mode in ct.static_iter(enumerate(PADDINGS)):
        tile = ct.load_advanced_indexing(x, (picked, columns), padding_mode=mode, latency=2)
        ct.store(out, (i, 0), tile)
    first = ct.arange(4, dtype=ct.int32)
    ct.store(out, (5, 0), ct.load_advanced_indexing(x, (first, columns), allow_tma=False))


def _placed(given: Arguments) -> dict[str, Any]:
    out = given["out"].copy()
    out[[4, 0, 3, 1]] = given["x"]
    out[:, 5] = 1
    out[:2, 6:8] = 2
    return {"out": out}


@CASES.add(lambda rng: {"x": uniform(rng, (4, 8)), "out": canvas((5, 8))}, _placed)
@ct.kernel
def advanced_stores(x, out):
    # The rows 4, 0, 3 and 1.
    picked = ct.arange(4, dtype=ct.int32) * 4 % 13
    picked = ct.where(picked == 8, 3, ct.where(picked == 12, 1, ct.where(picked == 0, 4, 0)))
    tile = ct.load(x, (0, 0), (4, 8))
    ct.store_advanced_indexing(out, (picked, ct.Slice(0, 8)), tile, latency=3)
    column = ct.full((1,), 5, ct.int32)
    ones = ct.ones((8, 1), ct.float32)
    ct.store_advanced_indexing(out, (ct.Slice(0, 8), column), ones, allow_tma=False)
    ct.store_advanced_indexing(
        out, (ct.Slice(0, 2), ct.arange(2, dtype=ct.int32) + 6), ct.full((2, 2), 2.0, ct.float32)
    )


@CASES.add(
    lambda rng: {"x": uniform(rng, (8, 16)), "out": canvas((16, 8))},
    lambda given: {"out": given["x"].T},
    grid=(2, 2),
)
@ct.kernel
def orders_of_axes(x, out):
    i, j = ct.bid(0), ct.bid(1)
    tile = ct.load(x, (j, i), (8, 4), order="F", check_bounds=False, latency=1)
    ct.store(out, (j, i), tile, check_bounds=False, latency=10, allow_tma=False)
    again = ct.load(x, (j, i), (8, 4), order=(1, 0), allow_tma=False)
    ct.store(out, (i, j), ct.transpose(again), order="F")


@CASES.add(
    lambda rng: {"x": uniform(rng, 8), "out": canvas((7, 8))},
    lambda given: {"out": np.stack([given["x"]] * 7)},
)
@ct.kernel
def memory_orders(x, out):
    row = 0
    for scope in ct.static_iter(SCOPES):
        tile = ct.load(x, (0,), (8,), memory_order=RELAXED, memory_scope=scope)
        ct.store(out, (row, 0), tile[None, :], memory_order=RELAXED, memory_scope=scope)
        tile = ct.load(x, (0,), (8,), memory_order=ACQUIRE, memory_scope=scope)
        ct.store(out, (row + 1, 0), tile[None, :], memory_order=RELEASE, memory_scope=scope)
        row += 2
    none = ct.MemoryScope.NONE
    tile = ct.load(x, (0,), (8,), memory_order=WEAK, memory_scope=none)
    ct.store(out, (row, 0), tile[None, :], memory_order=WEAK, memory_scope=none)


def _gathered(given: Arguments) -> dict[str, Any]:
    x, at = given["x"], given["at"]
    inside = (at >= 0) & (at < 12)
    picked = np.where(inside, x.reshape(-1)[at.clip(0, 11)], np.float32(-1))
    even = np.arange(8) % 2 == 0
    scattered = canvas(12)
    scattered[at[inside & even]] = 5 * x.reshape(-1)[at[inside & even]]
    grid = x[np.arange(2)[:, None], np.arange(4)[None, :]]
    out = np.stack([picked, np.where(even, picked, 9), np.where(inside, picked, 0)])
    return {"out": out.astype(np.float32), "scattered": scattered, "block": grid}


@CASES.add(
    lambda rng: {
        "x": uniform(rng, (3, 4)),
        "flat": np.zeros(12, np.float32),
        "at": rng.permutation(np.array([-1, 0, 3, 5, 7, 11, 12, 2**31 - 1])).astype(np.int32),
        "out": canvas((3, 8)),
        "scattered": canvas(12),
        "block": canvas((2, 4)),
    },
    lambda given: _gathered(given) | {"flat": given["x"].reshape(-1)},
)
@ct.kernel
def gather_and_scatter(x, flat, at, out, scattered, block):
    lane = ct.arange(16, dtype=ct.int32)
    all_of_x = ct.gather(x, (lane // 4, lane % 4), padding_value=0.5)
    ct.scatter(flat, lane, all_of_x)
    index = ct.load(at, (0,), (8,))
    even = ct.arange(8, dtype=ct.int32) % 2 == 0
    picked = ct.gather(flat, index, padding_value=-1.0)
    ct.store(out, (0, 0), picked[None, :])
    chosen = ct.gather(flat, (index,), mask=even, padding_value=-1.0, latency=4)
    ct.store(out, (1, 0), ct.where(even, chosen, 9.0)[None, :])
    ct.store(out, (2, 0), ct.gather(flat, index)[None, :])
    ct.scatter(scattered, index, picked * 5.0, mask=even, latency=4)
    rows, columns = ct.arange(2, dtype=ct.int32)[:, None], ct.arange(4, dtype=ct.int32)[None, :]
    tile = ct.gather(x, (rows, columns), check_bounds=False)
    ct.scatter(block, (rows, columns), tile, check_bounds=False)


@CASES.add(
    lambda rng: {"x": uniform(rng, (4, 16)), "out": canvas((4, 16)), "facts": canvas(8, np.int32)},
    lambda given: {
        "out": given["x"] * 2,
        "facts": np.array([2, 2, 2, 8, 2, 8, 4, 16], np.int32),
    },
    grid=(2,),
)
@ct.kernel
def tiled_views(x, out, facts):
    i = ct.bid(0)
    source, target = x.tiled_view((2, 8)), out.tiled_view((2, 8))
    for j in range(source.num_tiles(1)):
        tile = source.load((i, j), check_bounds=False, latency=2, allow_tma=False)
        target.store((i, j), tile * 2, check_bounds=False, latency=2, allow_tma=False)
    expect(source.dtype == ct.float32)
    if i == 0:
        values = (source.num_tiles(0), source.num_tiles(1))
        values += source.tile_shape + source.traversal_steps + x.shape
        for k, value in ct.static_iter(enumerate(values)):
            ct.store(facts, (k,), value)


@CASES.add(
    lambda rng: {"x": uniform(rng, 10), "out": canvas((4, 4)), "gaps": np.zeros(10, np.float32)},
    lambda given: {
        "out": np.stack([given["x"][2 * i : 2 * i + 4] for i in range(4)]),
        "gaps": np.where(np.arange(10) % 6 < 4, given["x"], 0).astype(np.float32),
    },
    grid=(4,),
)
@ct.kernel
def overlapping_and_gapped_views(x, out, gaps):
    i = ct.bid(0)
    ct.store(out, (i, 0), x.tiled_view(4, traversal_steps=2).load(i)[None, :])
    if i < 2:
        view = gaps.tiled_view(4, traversal_steps=6)
        view.store(i, x.tiled_view(4, traversal_steps=6).load(i))


@CASES.add(
    lambda rng: {
        "x": uniform(rng, (6, 8)),
        "out": canvas((2, 8)),
        "facts": canvas(6, np.int32),
    },
    lambda given: {
        "out": given["x"][3:5],
        "facts": np.array([6, 8, 8, 1, 3, 2], np.int32),
    },
    cutile=(1, 7),
)
@ct.kernel
def parts_of_arrays(x, out, facts):
    part = x.slice(axis=0, start=ct.num_blocks(0) + 2, stop=5)
    ct.store(out, (0, 0), ct.load(part, (0, 0), (2, 8)))
    same = ct.Array.from_foreign(part.foreign_pointer, (2, 8), (8, 1))
    ct.assert_(ct.load(same, (0, 0), (2, 8)) == ct.load(part, (0, 0), (2, 8)))
    pointer_type = ct.foreign_pointer_dtype(ct.float32)
    expect(x.foreign_pointer.dtype == pointer_type)
    expect(x.dtype == ct.float32)
    values = x.shape + x.strides + (ct.num_tiles(x, 0, (2, 8)), x.ndim)
    for k, value in ct.static_iter(enumerate(values)):
        ct.store(facts, (k,), value)
    ct.assert_(ct.num_tiles(x, 1, shape=(4, 2), order="F") == 3)


@CASES.add(
    lambda rng: {"x": integers(rng, 16, -9, 9), "out": canvas(16, np.int32)},
    lambda given: {
        "out": np.where(np.arange(16) < 12, np.where(np.arange(16) % 2, -5, given["x"]), 77).astype(
            np.int32
        )
    },
)
@ct.kernel
def raw_memory(x, out):
    lane = ct.arange(16, dtype=ct.int64)
    source, target = x.get_raw_memory(), out.get_raw_memory()
    expect(source.dtype == ct.int32)
    even = lane % 2 == 0
    tile = source.load_offset(lane, mask=even, padding_value=-5, latency=3)
    target.store_offset(lane, tile, mask=lane < 12, latency=3)
