"""Loads and stores through tiles of pointers: gather, scatter, raw element offsets."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import Arguments, Launch
from tests.corpus.cutile._table import KernelTable, array, canvas, integers, strided, uniform

KERNELS = KernelTable("gathers")


@KERNELS.add(
    array(ct.float32),
    array(ct.int32),
    array(ct.float32),
    ops="load_ptr_tko offset exti cmpi muli",
    launch=Launch(
        (2, 1, 1),
        lambda rng: {
            "x": uniform(rng, 50),
            "indices": integers(rng, 32, -10, 60),
            "out": canvas(32),
        },
        lambda given: {
            "out": np.where(
                (given["indices"] >= 0) & (given["indices"] < 50),
                given["x"][np.clip(given["indices"], 0, 49)],
                np.float32(0),
            )
        },
    ),
)
@ct.kernel
def gather_in_bounds(x, indices, out):
    i = ct.bid(0)
    ct.store(out, (i,), ct.gather(x, ct.load(indices, (i,), (16,))))


def _masked_gather(given: Arguments) -> dict[str, Any]:
    rows, columns = given["rows"][:, None], np.arange(8)[None, :]
    inside = (rows < 10) & (columns < 6)
    values = given["x"][np.minimum(rows, 9), np.minimum(columns, 5)]
    return {"out": np.where(inside & (columns % 2 == 0), values, np.float32(-5))}


@KERNELS.add(
    strided(ct.float32, 2),
    array(ct.uint32),
    array(ct.float32, 2),
    ops="load_ptr_tko offset andi",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": uniform(rng, (6, 20)).T[::2],
            "rows": integers(rng, 8, 0, 12, np.uint32),
            "out": canvas((8, 8)),
        },
        _masked_gather,
    ),
)
@ct.kernel
def masked_gather(x, rows, out):
    row = ct.load(rows, (0,), (8,))[:, None]
    column = ct.arange(8, dtype=ct.int32)[None, :]
    mask = column % 2 == 0
    tile = ct.gather(x, (row, column), mask=mask, padding_value=-5.0, latency=3)
    ct.store(out, (0, 0), tile)


@KERNELS.add(
    array(ct.float32, 2),
    array(ct.int64),
    array(ct.float32),
    ops="load_ptr_tko store_ptr_tko offset",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": uniform(rng, (8, 8)),
            "columns": integers(rng, 8, 0, 7, np.int64),
            "out": canvas(8),
        },
        lambda given: {"out": given["x"][np.arange(8), given["columns"]]},
    ),
)
@ct.kernel
def unchecked_gather_and_scatter(x, columns, out):
    row = ct.arange(8, dtype=ct.int32)
    tile = ct.gather(x, (row, ct.load(columns, (0,), (8,))), check_bounds=False)
    ct.scatter(out, row, tile, check_bounds=False)


def _scattered(given: Arguments) -> dict[str, Any]:
    out = given["out"].copy()
    inside = (given["indices"] < 40) & (given["x"] > 0)
    out[given["indices"][inside]] = given["x"][inside]
    return {"out": out}


@KERNELS.add(
    array(ct.float32),
    array(ct.int32),
    array(ct.float32),
    ops="store_ptr_tko offset cmpf andi",
    launch=Launch(
        (4, 1, 1),
        lambda rng: {
            "x": uniform(rng, 64),
            "indices": rng.permutation(64).astype(np.int32),
            "out": canvas(40),
        },
        _scattered,
    ),
)
@ct.kernel
def masked_scatter(x, indices, out):
    i = ct.bid(0)
    value = ct.load(x, (i,), (16,))
    ct.scatter(out, ct.load(indices, (i,), (16,)), value, mask=value > 0, latency=2)


@KERNELS.add(
    array(ct.int32, 2),
    ops="store_ptr_tko broadcast",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"out": canvas((4, 8), np.int32)},
        lambda given: {"out": np.tile(np.arange(0, 24, 3, np.int32), (4, 1))},
    ),
)
@ct.kernel
def broadcast_scatter(out):
    row = ct.arange(4, dtype=ct.int32)[:, None]
    column = ct.arange(8, dtype=ct.int32)
    ct.scatter(out, (row, column), column * 3)


@KERNELS.add(
    array(ct.int32),
    array(ct.int32),
    ops="load_ptr_tko store_ptr_tko",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"x": integers(rng, 4, 0, 99), "out": canvas(4, np.int32)},
        lambda given: {"out": np.append(given["x"][::-1][:3], given["out"][3]).astype(np.int32)},
    ),
)
@ct.kernel
def scalar_gather_and_scatter(x, out):
    for i in range(3):
        ct.scatter(out, i, ct.gather(x, 3 - i))


def _raw_memory(given: Arguments) -> dict[str, Any]:
    loaded = given["x"][::2].copy()
    loaded[5:] = -1
    out = given["out"].copy()
    out[1::2] = np.where(np.arange(8) != 2, loaded, out[1::2])
    return {"out": out, "all": given["x"][8:]}


@KERNELS.add(
    array(ct.int32),
    array(ct.int32),
    array(ct.int32),
    ops="load_ptr_tko store_ptr_tko offset",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": integers(rng, 16, 0, 99),
            "out": canvas(16, np.int32),
            "all": canvas(8, np.int32),
        },
        _raw_memory,
    ),
)
@ct.kernel
def raw_memory(x, out, all):
    i = ct.arange(8, dtype=ct.int32)
    source, target = x.get_raw_memory(), out.get_raw_memory()
    tile = source.load_offset(i * 2, mask=i < 5, padding_value=-1, latency=4)
    target.store_offset(i * 2 + 1, tile, mask=i != 2, latency=4)
    all.get_raw_memory().store_offset(i, source.load_offset(i + 8))


def _small(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers of which products and sums are exact in any order."""
    return rng.integers(-4, 5, shape).astype(np.float16)


def _rows_times(given: Arguments) -> dict[str, Any]:
    rows = given["rows"]
    inside = (rows >= 0) & (rows < len(given["x"]))
    taken = np.where(inside[:, None], given["x"][np.where(inside, rows, 0)], np.float16(0))
    return {"out": taken.astype(np.float32) @ given["w"].astype(np.float32)}


@KERNELS.add(
    array(ct.float16, 2),
    array(ct.int32),
    array(ct.float16, 2),
    array(ct.float32, 2),
    ops="load_ptr_tko mmaf",
    launch=Launch(
        (2, 1, 1),
        lambda rng: {
            "x": _small(rng, 40, 128),
            "rows": integers(rng, 64, -3, 44),
            "w": _small(rng, 128, 16),
            "out": canvas((64, 16)),
        },
        _rows_times,
    ),
)
@ct.kernel
def rows_times_matrix(x, rows, w, out):
    """Rows by their numbers, some of them outside, a part of their columns in each round."""
    i = ct.bid(0)
    ids = ct.load(rows, (i,), (32,))
    total = ct.zeros((32, 16), dtype=ct.float32)
    for k in range(4):
        columns = k * 32 + ct.arange(32, dtype=ct.int32)
        tile = ct.gather(x, (ids[:, None], columns[None, :]))
        total = ct.mma(tile, ct.load(w, (k, 0), (32, 16)), total)
    ct.store(out, (i, 0), total)


@KERNELS.add(
    array(ct.float16, 2),
    array(ct.int32),
    array(ct.float32, 2),
    ops="load_ptr_tko addf",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": _small(rng, 50, 64),
            "rows": integers(rng, 96, 0, 49),
            "out": canvas((16, 64)),
        },
        lambda given: {
            "out": given["x"][given["rows"].reshape(6, 16)].astype(np.float32).sum(axis=0)
        },
    ),
)
@ct.kernel
def sums_of_gathered_rows(x, rows, out):
    """The numbers of the rows of each round are loaded in the loop, too."""
    columns = ct.arange(64, dtype=ct.int32)
    total = ct.zeros((16, 64), dtype=ct.float32)
    for j in range(rows.shape[0] // 16):
        ids = ct.load(rows, (j,), (16,))
        total += ct.gather(x, (ids[:, None], columns[None, :])).astype(ct.float32)
    ct.store(out, (0, 0), total)


def _pages_times(given: Arguments) -> dict[str, Any]:
    a, b = (given[name].reshape(5, 64, 64).astype(np.float32) for name in "ab")
    return {"out": sum(a[page] @ b[page] for page in given["table"])}


@KERNELS.add(
    array(ct.float16, 2),
    array(ct.float16, 2),
    array(ct.int32),
    array(ct.float32, 2),
    ops="load_view_tko mmaf",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "a": _small(rng, 320, 64),
            "b": _small(rng, 320, 64),
            "table": integers(rng, 7, 0, 4),
            "out": canvas((64, 64)),
        },
        _pages_times,
    ),
)
@ct.kernel
def sums_over_pages(a, b, table, out):
    """Where the operands of each round lie stands in a table."""
    total = ct.zeros((64, 64), dtype=ct.float32)
    for j in range(table.shape[0]):
        page = ct.load(table, (j,), (1,)).item()
        left = ct.load(a, (page, 0), (64, 64))
        total = ct.mma(left, ct.load(b, (page, 0), (64, 64)), total)
    ct.store(out, (0, 0), total)
