"""Shapes, parts and conversions of tiles."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import ml_dtypes
import numpy as np
from tests.corpus import Arguments
from tests.corpus.cutile._table import canvas, integers, uniform
from tests.cutile.api._cases import SIMULATOR, Cases
from tests.cutile.api.memory import expect

CASES = Cases()


def _shaped(given: Arguments) -> dict[str, Any]:
    x = given["x"]
    cube = x.reshape(2, 4, 4)
    rows = [x.T.ravel(), x.T.ravel(), cube.transpose(2, 0, 1).ravel(), cube.swapaxes(0, 2).ravel()]
    rows += [cube.swapaxes(0, 1).ravel(), cube.transpose(1, 2, 0).ravel()]
    return {"out": np.stack(rows), "joined": np.concatenate([x, x], 1)}


@CASES.add(
    lambda rng: {
        "x": integers(rng, (4, 8), 0, 99),
        "out": canvas((6, 32), np.int32),
        "joined": canvas((4, 16), np.int32),
    },
    _shaped,
)
@ct.kernel
def rearranged(x, out, joined):
    tile = ct.load(x, (0, 0), (4, 8))
    cube = ct.reshape(tile, (2, -1, 4))
    found = (ct.transpose(tile), tile.transpose(), ct.permute(cube, (2, 0, 1)))
    found += (ct.transpose(cube, 0, 2), cube.transpose(axis0=0, axis1=1), cube.permute((1, 2, 0)))
    for i, one in ct.static_iter(enumerate(found)):
        ct.store(out, (i, 0), one.reshape((1, 32)))
    ct.store(joined, (0, 0), ct.cat((tile, tile), 1))
    ct.static_assert(tile.ndim == 2 and cube.shape == (2, 4, 4) and tile.dtype == ct.int32)
    expect(tile.ndim == 2)
    expect(tile.shape == (4, 8))
    expect(tile.dtype == ct.int32)


def _parts(given: Arguments) -> dict[str, Any]:
    x = given["x"]
    out = x.copy()
    out[2:, :4] = x[:2, 4:]
    out[:2, 4:] = 5
    return {"out": out, "row": x[1:2, :] + x[:, :1]}


@CASES.add(
    lambda rng: {
        "x": integers(rng, (4, 8), 0, 99),
        "out": canvas((4, 8), np.int32),
        "row": canvas((4, 8), np.int32),
    },
    _parts,
)
@ct.kernel
def parts_of_tiles(x, out, row):
    tile = ct.load(x, (0, 0), (4, 8))
    part = ct.extract(tile, (0, 1), (2, 4))
    moved = ct.insert(tile, (1, 0), part)
    ct.store(out, (0, 0), moved.insert((0, 1), ct.full((2, 4), 5, ct.int32)))
    second = tile.extract((1, 0), (1, 8)).reshape((8,))
    first = tile.extract((0, 0), (4, 1)).reshape((4,))
    total = ct.expand_dims(second, 0) + first[:, None]
    ct.store(row, (0, 0), ct.broadcast_to(total, (4, 8)))


@CASES.add(
    lambda rng: {"out": canvas((6, 8), np.int32), "one": canvas(2, np.int32)},
    lambda given: {
        "out": np.stack(
            [
                np.arange(8),
                10 - 3 * np.arange(8),
                np.full(8, 4),
                np.ones(8),
                np.zeros(8),
                np.full(8, 6),
            ]
        ).astype(np.int32),
        "one": np.array([3, 42], np.int32),
    },
)
@ct.kernel
def made_tiles(out, one):
    rows = (ct.arange(8, dtype=ct.int32), ct.arange(8, dtype=ct.int32, start=10, step=-3))
    rows += (ct.full((8,), 4, ct.int32), ct.ones((8,), ct.int32), ct.zeros((8,), ct.int32))
    rows += (ct.broadcast_to(ct.astile(6, dtype=ct.int32), (8,)),)
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), row[None, :])
    count = ct.full((1,), 3, ct.int32).item()
    last = 0
    for i in range(count):
        last = i + 1
    ct.store(one, (0,), last)
    ct.store(one, (1,), ct.full((), 42, ct.int32))


def _converted(given: Arguments) -> dict[str, Any]:
    x = given["x"]
    narrow = (ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
    rows = [x.astype(element).astype(np.float32) for element in narrow]
    rows += [
        np.trunc(x),
        x.astype(np.float64).astype(np.float32),
        (x > 0).astype(np.float32),
    ]
    return {"out": np.stack(rows), "bits": x.view(np.uint32), "back": x}


@CASES.add(
    lambda rng: {
        "x": uniform(rng, 16, -9, 9),
        "out": canvas((7, 16)),
        "bits": canvas(16, np.uint32),
        "back": canvas(16),
    },
    _converted,
)
@ct.kernel
def conversions(x, out, bits, back):
    tile = ct.load(x, (0,), (16,))
    rows = ()
    for element in ct.static_iter((ct.bfloat16, ct.float16, ct.float8_e4m3fn, ct.float8_e5m2)):
        rows += (ct.astype(tile, element),)
    rows += (
        tile.astype(ct.int8),
        tile.astype(ct.float64),
        (tile > 0).astype(ct.int8).astype(ct.bool_),
    )
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), row.astype(ct.float32)[None, :])
    raw = ct.bitcast(tile, ct.uint32)
    ct.store(bits, (0,), raw)
    ct.store(back, (0,), ct.unpack_from_bytes(ct.pack_to_bytes(tile), ct.float32))


#: All finite numbers of the format, by their four bits.
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def _four_bits(given: Arguments) -> dict[str, Any]:
    raw = given["raw"]
    values = _E2M1[np.stack([raw & 15, raw >> 4], axis=1).reshape(-1)]
    return {"values": values, "again": raw, "scales": np.full((1, 8), 1.5, np.float32)}


@CASES.add(
    lambda rng: {
        "raw": integers(rng, 16, 0, 255, np.uint8),
        "values": canvas(32),
        "again": canvas(16, np.uint8),
        "scales": canvas((1, 8)),
    },
    _four_bits,
    refused={SIMULATOR: "f8E5M3FNU"},
)
@ct.kernel
def narrowest_floats(raw, values, again, scales):
    tile = ct.unpack_from_bytes(ct.load(raw, (0,), (16,)), ct.float4_e2m1fn)
    ct.store(values, (0,), tile.astype(ct.float32))
    ct.store(again, (0,), ct.pack_to_bytes(tile))
    scale = ct.full((1, 8), 1.5, ct.float32).astype(ct.float8_e5m3fnu)
    ct.store(scales, (0, 0), scale.astype(ct.float32))
