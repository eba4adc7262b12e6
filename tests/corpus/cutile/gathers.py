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
