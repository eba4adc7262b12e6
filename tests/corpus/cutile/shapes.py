"""Reshape, broadcast, permute, concatenate, extract and insert."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import Arguments, Launch
from tests.corpus.cutile._table import KernelTable, array, canvas, integers, uniform

KERNELS = KernelTable("shapes")


@KERNELS.add(
    array(ct.int32),
    array(ct.int32, 3),
    ops="reshape permute broadcast",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"x": integers(rng, 16, 0, 99), "out": canvas((4, 8, 2), np.int32)},
        lambda given: {
            "out": np.broadcast_to(given["x"].reshape(2, 8, 1).transpose(2, 1, 0), (4, 8, 2)) + 0
        },
    ),
)
@ct.kernel
def reshape_permute_broadcast(x, out):
    tile = ct.load(x, (0,), (16,)).reshape((2, -1, 1)).permute((2, 1, 0))
    ct.store(out, (0, 0, 0), ct.broadcast_to(tile, (4, 8, 2)))


@KERNELS.add(
    array(ct.float32, 2),
    array(ct.float32, 2),
    array(ct.float32, 2),
    array(ct.float32, 2),
    ops="cat",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "a": uniform(rng, (4, 4)),
            "b": uniform(rng, (4, 4)),
            "rows": canvas((8, 4)),
            "columns": canvas((4, 8)),
        },
        lambda given: {
            "rows": np.concatenate([given["a"], given["b"]], 0),
            "columns": np.concatenate([given["b"], given["a"]], 1),
        },
    ),
)
@ct.kernel
def concatenate(a, b, rows, columns):
    x, y = ct.load(a, (0, 0), (4, 4)), ct.load(b, (0, 0), (4, 4))
    ct.store(rows, (0, 0), ct.cat((x, y), 0))
    ct.store(columns, (0, 0), ct.cat((y, x), -1))


def _reversed_blocks(given: Arguments) -> dict[str, Any]:
    blocks = given["x"].reshape(2, 4, 4, 4)
    return {"out": blocks[::-1, :, ::-1].reshape(8, 16)}


@KERNELS.add(
    array(ct.float32, 2),
    array(ct.float32, 2),
    ops="extract get_tile_block_id",
    launch=Launch(
        (2, 4, 1),
        lambda rng: {"x": uniform(rng, (8, 16)), "out": canvas((8, 16))},
        _reversed_blocks,
    ),
)
@ct.kernel
def extract_reversed(x, out):
    i, j = ct.bid(0), ct.bid(1)
    tile = ct.load(x, (0, 0), (8, 16))
    ct.store(out, (i, j), ct.extract(tile, (1 - i, 3 - j), (4, 4)))


@KERNELS.add(
    array(ct.int32, 2),
    array(ct.int32, 3),
    since="13.4",
    ops="insert",
    launch=Launch(
        (4, 1, 1),
        lambda rng: {"x": integers(rng, (4, 4), 0, 9), "out": canvas((4, 4, 4), np.int32)},
        lambda given: {
            "out": np.stack(
                [
                    np.where(
                        np.add.outer(np.arange(4) // 2 * 2, np.arange(4) // 2) == i,
                        np.int32(-1),
                        given["x"],
                    )
                    for i in range(4)
                ]
            )
        },
    ),
)
@ct.kernel
def insert_quarter(x, out):
    i = ct.bid(0)
    tile = ct.load(x, (0, 0), (4, 4))
    quarter = ct.full((2, 2), -1, ct.int32)
    ct.store(out, (i, 0, 0), ct.insert(tile, (i // 2, i % 2), quarter).reshape((1, 4, 4)))


@KERNELS.add(
    array(ct.float32),
    array(ct.float32, 2),
    ops="broadcast reshape mulf",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"x": uniform(rng, 8), "out": canvas((8, 8))},
        lambda given: {"out": np.outer(given["x"], given["x"])},
    ),
)
@ct.kernel
def outer_product(x, out):
    tile = ct.load(x, (0,), (8,))
    ct.store(out, (0, 0), tile[:, None] * tile[None, :])
