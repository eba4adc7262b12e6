"""Reductions and scans, those of cuTile and our own."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import EXACT_INTEGERS, Arguments
from tests.corpus.cutile._table import canvas, integers
from tests.cutile.api._cases import Cases

CASES = Cases()

RN = ct.RoundingMode.RN


def _reduced(given: Arguments) -> dict[str, Any]:
    x = given["x"]
    small = np.sign(x)
    functions = (np.sum, np.max, np.min, lambda a, **k: np.prod(np.sign(a), **k))
    functions += (np.argmax, np.argmin)
    rows = np.stack([function(x, axis=1) for function in functions])
    kept = np.stack([function(x, axis=0) for function in functions])
    whole = [x.sum(), x.max(), x.min(), small.prod(), x.argmax(), x.argmin(), x.sum(), x.max()]
    return {
        "rows": rows.astype(np.int32),
        "kept": kept.astype(np.int32),
        "whole": np.array(whole, np.int32),
    }


@CASES.add(
    lambda rng: {
        "x": integers(rng, (4, 8), -50, 50),
        "rows": canvas((6, 4), np.int32),
        "kept": canvas((6, 8), np.int32),
        "whole": canvas(8, np.int32),
    },
    _reduced,
)
@ct.kernel
def integer_reductions(x, rows, kept, whole):
    tile = ct.load(x, (0, 0), (4, 8))
    sign = ct.where(tile > 0, 1, ct.where(tile < 0, -1, 0))
    found = (ct.sum(tile, axis=1), ct.max(tile, axis=1), ct.min(tile, axis=1))
    found += (ct.prod(sign, axis=1), ct.argmax(tile, axis=1), ct.argmin(tile, axis=1))
    for i, row in ct.static_iter(enumerate(found)):
        ct.store(rows, (i, 0), row[None, :])
    found = (ct.sum(tile, axis=0, keepdims=True), ct.max(tile, axis=0, keepdims=True))
    found += (ct.min(tile, axis=0, keepdims=True), ct.prod(sign, axis=0, keepdims=True))
    found += (ct.argmax(tile, axis=0, keepdims=True), ct.argmin(tile, axis=0, keepdims=True))
    for i, row in ct.static_iter(enumerate(found)):
        ct.store(kept, (i, 0), row)
    numbers = (ct.sum(tile), ct.max(tile), ct.min(tile), ct.prod(sign), ct.argmax(tile))
    numbers += (ct.argmin(tile), ct.sum(tile, axis=(0, 1)), ct.max(tile, axis=(1, 0)))
    for i, number in ct.static_iter(enumerate(numbers)):
        ct.store(whole, (i,), number)


def _floats(given: Arguments) -> dict[str, Any]:
    x = given["x"]
    finite = np.where(np.isnan(x), 0, x)
    first = np.isnan(x).argmax(axis=1)
    ignoring = [np.nanmax(x, axis=1), np.nanmin(x, axis=1)]
    arg = [np.nanargmax(x, axis=1), np.nanargmin(x, axis=1)]
    nan = np.full(4, np.nan)
    sums = [finite.sum(axis=1)] * 2 + [np.exp2(finite).prod(axis=1)] * 2
    return {"out": np.stack([*ignoring, nan, nan, *ignoring, *arg, first, first, *sums])}


def _floats_with_nan(rng: np.random.Generator) -> dict[str, Any]:
    x = integers(rng, (4, 8), -3, 3, np.float32)
    x[np.arange(4), (np.arange(4) * 3 + 1) % 8] = np.nan
    # No two of the extremes are alike, so that their places are defined.
    x[np.arange(4), (np.arange(4) * 3 + 2) % 8] = 5
    x[np.arange(4), (np.arange(4) * 3 + 4) % 8] = -5
    return {"x": x, "out": canvas((14, 4))}


@CASES.add(
    _floats_with_nan,
    lambda given: {"out": _floats(given)["out"].astype(np.float32)},
    tolerance=EXACT_INTEGERS,
)
@ct.kernel
def float_reductions(x, out):
    tile = ct.load(x, (0, 0), (4, 8))
    finite = ct.where(ct.isnan(tile), 0.0, tile)
    power = ct.exp2(finite)
    rows = (ct.max(tile, 1), ct.min(tile, 1))
    rows += (ct.max(tile, 1, propagate_nan=True), ct.min(tile, 1, propagate_nan=True))
    rows += (ct.max(tile, 1, flush_to_zero=True), ct.min(tile, 1, flush_to_zero=True))
    rows += (ct.argmax(tile, 1), ct.argmin(tile, 1))
    rows += (ct.argmax(tile, 1, propagate_nan=True), ct.argmin(tile, 1, propagate_nan=True))
    rows += (ct.sum(finite, 1, rounding_mode=RN), ct.sum(finite, 1, flush_to_zero=True))
    rows += (ct.prod(power, 1, rounding_mode=RN), ct.prod(power, 1, flush_to_zero=True))
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), row.astype(ct.float32)[None, :])


def _scanned(given: Arguments) -> dict[str, Any]:
    x = given["x"]
    sign = np.where(x > 0, 1.0, -1.0)
    tiles = [x.cumsum(0), x.cumsum(1), x[:, ::-1].cumsum(1)[:, ::-1], x.cumsum(0), x.cumsum(0)]
    tiles += [sign.cumprod(0), sign.cumprod(1), sign[::-1].cumprod(0)[::-1]]
    tiles += [sign.cumprod(0)] * 2
    return {"out": np.concatenate(tiles).astype(np.float32)}


@CASES.add(
    lambda rng: {"x": integers(rng, (4, 8), -9, 9, np.float32), "out": canvas((40, 8))},
    _scanned,
    tolerance=EXACT_INTEGERS,
)
@ct.kernel
def scans(x, out):
    tile = ct.load(x, (0, 0), (4, 8))
    sign = ct.where(tile > 0, 1.0, -1.0)
    tiles = (ct.cumsum(tile), ct.cumsum(tile, axis=1), ct.cumsum(tile, axis=1, reverse=True))
    tiles += (ct.cumsum(tile, rounding_mode=RN), ct.cumsum(tile, flush_to_zero=True))
    tiles += (ct.cumprod(sign), ct.cumprod(sign, axis=1), ct.cumprod(sign, reverse=True))
    tiles += (ct.cumprod(sign, rounding_mode=RN), ct.cumprod(sign, flush_to_zero=True))
    for i, one in ct.static_iter(enumerate(tiles)):
        ct.store(out, (i, 0), one)


def later(value_a, at_a, value_b, at_b):
    """The larger of two values with its place; of equal ones the later."""
    is_b = (value_b > value_a) | ((value_b == value_a) & (at_b > at_a))
    return ct.where(is_b, value_b, value_a), ct.where(is_b, at_b, at_a)


def _own(given: Arguments) -> dict[str, Any]:
    x = given["x"]
    at = 7 - x[:, ::-1].argmax(axis=1)
    top = np.maximum.accumulate(x, axis=1)
    bottom = np.minimum.accumulate(x[:, ::-1], axis=1)[:, ::-1]
    return {
        "found": np.stack([x.max(axis=1), at, x.max(axis=1)]).astype(np.int32),
        "kept": np.bitwise_xor.reduce(x, axis=0)[None, :],
        "top": np.concatenate([top, bottom]),
    }


@CASES.add(
    lambda rng: {
        "x": integers(rng, (4, 8), 0, 5),
        "found": canvas((3, 4), np.int32),
        "kept": canvas((1, 8), np.int32),
        "top": canvas((8, 8), np.int32),
    },
    _own,
)
@ct.kernel
def own_reductions_and_scans(x, found, kept, top):
    tile = ct.load(x, (0, 0), (4, 8))
    places = ct.broadcast_to(ct.arange(8, dtype=ct.int32), (4, 8))
    value, at = ct.reduce((tile, places), 1, later, (-1, -1))
    ct.store(found, (0, 0), value[None, :])
    ct.store(found, (1, 0), at[None, :])
    ct.store(found, (2, 0), ct.reduce(tile, 1, lambda a, b: max(a, b), -1)[None, :])
    ct.store(kept, (0, 0), ct.reduce(tile, 0, lambda a, b: a ^ b, 0, keepdims=True))
    ct.store(top, (0, 0), ct.scan(tile, 1, lambda a, b: max(a, b), -1))
    ct.store(top, (1, 0), ct.scan(tile, 1, lambda a, b: min(a, b), 99, reverse=True))
