"""Tiled views with every padding, overlapping and gapped traversal, rows picked by index."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import Arguments, Launch
from tests.corpus.cutile._table import KernelTable, array, canvas, ceil_div, integers, uniform

KERNELS = KernelTable("views")

PADDINGS = (
    ct.PaddingMode.ZERO,
    ct.PaddingMode.NEG_ZERO,
    ct.PaddingMode.NAN,
    ct.PaddingMode.POS_INF,
    ct.PaddingMode.NEG_INF,
)
PADDING_VALUES = (0.0, -0.0, np.nan, np.inf, -np.inf)


@KERNELS.add(
    array(ct.float32, 2),
    array(ct.float32, 2),
    ops="get_index_space_shape make_partition_view load_view_tko store_view_tko for",
    launch=Launch(
        (2, 1, 1),
        lambda rng: {"x": uniform(rng, (7, 21)), "out": canvas((7, 21))},
        lambda given: {"out": given["x"] * 2},
    ),
)
@ct.kernel
def tiled_view_sweep(x, out):
    source = x.tiled_view((4, 8), padding_mode=ct.PaddingMode.ZERO)
    target = out.tiled_view((4, 8))
    for j in range(source.num_tiles(1)):
        target.store((ct.bid(0), j), source.load((ct.bid(0), j), latency=2) * 2, allow_tma=False)


@KERNELS.add(
    array(ct.float32, 2),
    array(ct.int32),
    ops="get_index_space_shape",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"x": uniform(rng, (13, 21)), "out": canvas(4, np.int32)},
        lambda given: {
            "out": np.array(
                [ceil_div(13, 4), ceil_div(21, 8), ceil_div(21, 4), ceil_div(13, 8)], np.int32
            )
        },
    ),
)
@ct.kernel
def tile_counts(x, out):
    ct.store(out, (0,), ct.num_tiles(x, 0, shape=(4, 8)))
    ct.store(out, (1,), ct.num_tiles(x, 1, shape=(4, 8)))
    ct.store(out, (2,), ct.num_tiles(x, 0, shape=(4, 8), order="F"))
    ct.store(out, (3,), ct.num_tiles(x, 1, shape=(4, 8), order=(1, 0)))


@KERNELS.add(
    array(ct.float32),
    array(ct.float32, 2),
    since="13.3",
    ops="make_strided_view load_view_tko",
    launch=Launch(
        (6, 1, 1),
        lambda rng: {"x": uniform(rng, 20), "out": canvas((6, 8))},
        lambda given: {
            "out": np.stack([np.pad(given["x"], (0, 8))[i * 3 : i * 3 + 8] for i in range(6)])
        },
    ),
)
@ct.kernel
def overlapping_windows(x, out):
    windows = x.tiled_view(8, traversal_steps=3, padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (ct.bid(0), 0), ct.expand_dims(windows.load(ct.bid(0)), 0))


def _gapped(given: Arguments) -> dict[str, Any]:
    out = given["out"].copy()
    for row in range(0, 8, 3):
        for column in range(0, 20, 8):
            out[row : row + 2, column : column + 4] = given["x"][: min(2, 8 - row), :4]
    return {"out": out}


@KERNELS.add(
    array(ct.float32, 2),
    array(ct.float32, 2),
    since="13.3",
    ops="make_strided_view store_view_tko get_index_space_shape for",
    launch=Launch(
        (3, 1, 1),
        lambda rng: {"x": uniform(rng, (2, 4)), "out": canvas((8, 20))},
        _gapped,
    ),
)
@ct.kernel
def gapped_store(x, out):
    tile = ct.load(x, (0, 0), (2, 4))
    view = out.tiled_view((2, 4), traversal_steps=(3, 8))
    for j in range(view.num_tiles(1)):
        view.store((ct.bid(0), j), tile)


@KERNELS.add(
    array(ct.float32),
    array(ct.float32, 2),
    since="13.3",
    ops="make_strided_view load_view_tko",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"x": uniform(rng, 7), "out": canvas((5, 8))},
        lambda given: {
            "out": np.stack(
                [
                    np.concatenate([given["x"][2:], np.full(3, value, np.float32)])
                    for value in PADDING_VALUES
                ]
            )
        },
    ),
)
@ct.kernel
def strided_padding_modes(x, out):
    for i, mode in ct.static_iter(enumerate(PADDINGS)):
        view = x.tiled_view(8, traversal_steps=2, padding_mode=mode)
        ct.store(out, (i, 0), ct.expand_dims(view.load(1), 0))


def _moved_tile(given: Arguments) -> dict[str, Any]:
    x = given["x"].copy()
    x[:2, :4] = given["x"][1:3, 4:8]
    return {"x": x}


@KERNELS.add(
    array(ct.float32, 2),
    since="13.4",
    ops="make_strided_view make_partition_view load_view_tko store_view_tko",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"x": uniform(rng, (4, 12))},
        _moved_tile,
    ),
)
@ct.kernel
def unchecked_views(x):
    overlapped = x.tiled_view((2, 4), traversal_steps=(1, 4))
    tile = overlapped.load((1, 1), check_bounds=False)
    x.tiled_view((2, 4)).store((0, 0), tile, check_bounds=False)


def _picked_rows(given: Arguments) -> dict[str, Any]:
    rows = given["rows"]
    padded = np.zeros((8, 8), np.int32)
    inside = rows < 12
    padded[inside, :6] = given["x"][rows[inside], 5:11]
    return {"out": padded}


@KERNELS.add(
    array(ct.int32, 2),
    array(ct.int32),
    array(ct.int32, 2),
    since="13.3",
    ops="make_gather_scatter_view load_view_tko store_view_tko",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": integers(rng, (12, 11), 1, 99),
            "rows": integers(rng, 8, 0, 15),
            "out": canvas((8, 8), np.int32),
        },
        _picked_rows,
    ),
)
@ct.kernel
def pick_rows(x, rows, out):
    index = ct.load(rows, (0,), (8,))
    tile = ct.load_advanced_indexing(
        x, (index, ct.Slice(5, 8)), padding_mode=ct.PaddingMode.ZERO, latency=5, allow_tma=False
    )
    ct.store(out, (0, 0), tile)


def _placed_columns(given: Arguments) -> dict[str, Any]:
    out = given["out"].copy()
    for position, column in enumerate(given["columns"]):
        if column < 10:
            out[1, 2:, column] = given["x"][0, : 6 - 2, position]
    return {"out": out}


@KERNELS.add(
    array(ct.float16, 3),
    array(ct.int32),
    array(ct.float16, 3),
    since="13.3",
    ops="make_gather_scatter_view load_view_tko store_view_tko",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": uniform(rng, (1, 4, 8), dtype=np.float16),
            "columns": rng.permutation(12)[:8].astype(np.int32),
            "out": canvas((2, 6, 10), np.float16),
        },
        _placed_columns,
    ),
)
@ct.kernel
def place_columns(x, columns, out):
    index = ct.load(columns, (0,), (8,))
    tile = ct.load(x, (0, 0, 0), (1, 4, 8))
    ct.store_advanced_indexing(out, (ct.Slice(1, 1), ct.Slice(2, 4), index), tile, latency=1)


@KERNELS.add(
    array(ct.float32, 2), array(ct.float32, 3), since="13.3", ops="make_gather_scatter_view"
)
@ct.kernel
def picked_row_padding_modes(x, out):
    index = ct.arange(4, dtype=ct.int32) + ct.bid(0)
    for i, mode in ct.static_iter(enumerate(PADDINGS)):
        tile = ct.load_advanced_indexing(x, (index, ct.Slice(ct.bid(1), 8)), padding_mode=mode)
        ct.store(out, (i, 0, 0), ct.expand_dims(tile, 0))
