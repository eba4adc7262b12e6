"""Reductions, arg-reductions and scans, with built-in and user-written combiners."""

from __future__ import annotations

import operator
from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import EXACT_INTEGERS, Arguments, Launch
from tests.corpus.cutile._table import NUMPY_TYPES, KernelTable, array, canvas, integers

KERNELS = KernelTable("reductions")

IEEE_MODES = (
    ct.RoundingMode.RN,
    ct.RoundingMode.RZ,
    ct.RoundingMode.RM,
    ct.RoundingMode.RP,
)


def _row_reductions(given: Arguments) -> dict[str, Any]:
    x = given["x"]
    rows = [x.sum(1), x.prod(1), x.max(1), x.min(1)]
    return {"out": np.stack(rows, axis=1).astype(x.dtype)}


def _factors(rng: np.random.Generator, element: np.dtype) -> np.ndarray:
    # At most three factors of two in a row keep every product exact in every type.
    x = np.ones((8, 16), np.int64)
    for row in x:
        row[rng.choice(16, 3, replace=False)] = 2
    if np.dtype(element).kind != "u":
        x[rng.random((8, 16)) < 0.3] *= -1
    return x.astype(element)


@ct.kernel
def row_reductions(x, out):
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (2, 16))
    columns = (ct.sum(tile, axis=1), ct.prod(tile, 1), ct.max(tile, -1), ct.min(tile, 1))
    for j, column in ct.static_iter(enumerate(columns)):
        ct.store(out, (i, j), column[:, None])


for _dtype in (
    *(ct.float16, ct.bfloat16, ct.float32, ct.float64),
    *(ct.int16, ct.int32, ct.int64, ct.uint8, ct.uint32),
):
    KERNELS.register(
        row_reductions,
        array(_dtype, 2),
        array(_dtype, 2),
        name=f"row_reductions_{_dtype}",
        ops="reduce yield",
        # cuTile 1.7 loses the sign of float64 identities, so that its maximum starts from +inf.
        launch=None
        if _dtype == ct.float64
        else Launch(
            (4, 1, 1),
            lambda rng, element=NUMPY_TYPES[_dtype]: {
                "x": _factors(rng, element),
                "out": canvas((8, 4), element),
            },
            _row_reductions,
            EXACT_INTEGERS,
        ),
    )


def _shapes_of_reductions(given: Arguments) -> dict[str, Any]:
    x = given["x"]
    return {
        "whole": np.array([x.sum(), x.max()], np.int32),
        "kept": x.sum(axis=(0, 2), keepdims=True, dtype=np.int32),
    }


@KERNELS.add(
    array(ct.int32, 3),
    array(ct.int32),
    array(ct.int32, 3),
    ops="reduce reshape",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": integers(rng, (2, 4, 8), -9, 9),
            "whole": canvas(2, np.int32),
            "kept": canvas((1, 4, 1), np.int32),
        },
        _shapes_of_reductions,
        EXACT_INTEGERS,
    ),
)
@ct.kernel
def reduction_axes(x, whole, kept):
    tile = ct.load(x, (0, 0, 0), (2, 4, 8))
    ct.store(whole, (0,), ct.sum(tile))
    ct.store(whole, (1,), ct.max(tile))
    ct.store(kept, (0, 0, 0), ct.sum(tile, axis=(0, 2), keepdims=True))


@KERNELS.add(
    array(ct.float32, 2),
    array(ct.int32, 2),
    ops="reduce iota",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": rng.permutation(128).reshape(8, 16).astype(np.float32),
            "out": canvas((8, 2), np.int32),
        },
        lambda given: {
            "out": np.stack([given["x"].argmax(1), given["x"].argmin(1)], axis=1).astype(np.int32)
        },
    ),
)
@ct.kernel
def arg_reductions(x, out):
    tile = ct.load(x, (0, 0), (8, 16))
    ct.store(out, (0, 0), ct.argmax(tile, 1)[:, None])
    ct.store(out, (0, 1), ct.argmin(tile, 1)[:, None])


@KERNELS.add(
    array(ct.int32, 2),
    array(ct.int32),
    ops="reduce iota cmpi select",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": rng.permutation(32).reshape(4, 8).astype(np.int32),
            "out": canvas(2, np.int32),
        },
        lambda given: {"out": np.array([given["x"].argmax(), given["x"].argmin()], np.int32)},
    ),
)
@ct.kernel
def flat_arg_reductions(x, out):
    tile = ct.load(x, (0, 0), (4, 8))
    ct.store(out, (0,), ct.argmax(tile))
    ct.store(out, (1,), ct.argmin(tile))


def _with_nan(rng: np.random.Generator) -> dict[str, Any]:
    x = rng.permutation(64).reshape(4, 16).astype(np.float32)
    x[1, 3] = x[3, 0] = np.nan
    return {"x": x, "out": canvas((4, 4))}


@KERNELS.add(
    array(ct.float32, 2),
    array(ct.float32, 2),
    ops="reduce maxf minf",
    launch=Launch(
        (1, 1, 1),
        _with_nan,
        lambda given: {
            "out": np.stack(
                [
                    function(given["x"], axis=1)
                    for function in (np.nanmax, np.nanmin, np.max, np.min)
                ],
                axis=1,
            )
        },
    ),
)
@ct.kernel
def reductions_of_nan(x, out):
    tile = ct.load(x, (0, 0), (4, 16))
    columns = (ct.max(tile, 1), ct.min(tile, 1, flush_to_zero=True))
    columns += (ct.max(tile, 1, propagate_nan=True), ct.min(tile, 1, propagate_nan=True))
    for j, column in ct.static_iter(enumerate(columns)):
        ct.store(out, (0, j), column[:, None])


@KERNELS.add(
    array(ct.float32, 2),
    array(ct.float32, 2),
    ops="reduce scan addf mulf",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"x": integers(rng, (4, 8), 1, 2, np.float32), "out": canvas((16, 4))},
        lambda given: {
            "out": np.stack([given["x"].sum(1), given["x"].prod(1)] * 8).astype(np.float32)
        },
        EXACT_INTEGERS,
    ),
)
@ct.kernel
def reduction_rounding_modes(x, out):
    tile = ct.load(x, (0, 0), (4, 8))
    rows = ()
    for mode in ct.static_iter(IEEE_MODES):
        for ftz in ct.static_iter((False, True)):
            rows += (ct.sum(tile, 1, rounding_mode=mode, flush_to_zero=ftz),)
            running = ct.cumprod(tile, 1, rounding_mode=mode, flush_to_zero=ftz)
            rows += (ct.max(running, 1),)
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), row[None, :])


def _larger(value_a, index_a, value_b, index_b):
    take_b = (value_b > value_a) | ((value_b == value_a) & (index_b < index_a))
    return ct.where(take_b, value_b, value_a), ct.where(take_b, index_b, index_a)


def _custom_reductions(given: Arguments) -> dict[str, Any]:
    x = given["x"]
    rows = [np.bitwise_xor.reduce(x, axis=1), x.max(1), x.argmax(1), (x > 0).all(1)]
    return {"out": np.stack(rows, axis=1).astype(np.int32)}


@KERNELS.add(
    array(ct.int32, 2),
    array(ct.int32, 2),
    ops="reduce xori select cmpi",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"x": integers(rng, (8, 8), -1, 30), "out": canvas((8, 4), np.int32)},
        _custom_reductions,
    ),
)
@ct.kernel
def custom_reductions(x, out):
    tile = ct.load(x, (0, 0), (8, 8))
    index = ct.arange(8, dtype=ct.int32)[None, :]
    mixed = ct.reduce(tile, 1, operator.xor, 0)
    value, position = ct.reduce((tile, index), 1, _larger, (-(2**31), 2**31 - 1))
    positive = ct.reduce(tile > 0, 1, lambda a, b: a & b, True)
    columns = (mixed, value, position, ct.where(positive, 1, 0))
    for j, column in ct.static_iter(enumerate(columns)):
        ct.store(out, (0, j), column[:, None])


def _scans(given: Arguments) -> dict[str, Any]:
    x = given["x"]
    rows = [x.cumsum(0), x[::-1].cumsum(0)[::-1], x.cumprod(0), x[::-1].cumprod(0)[::-1]]
    return {"out": np.stack(rows).astype(x.dtype)}


@ct.kernel
def scans(x, out):
    tile = ct.load(x, (0,), (16,))
    rows = (ct.cumsum(tile), ct.cumsum(tile, reverse=True))
    rows += (ct.cumprod(tile, 0), ct.cumprod(tile, 0, reverse=True))
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), row[None, :])


def _scan_inputs(rng: np.random.Generator, element: np.dtype) -> dict[str, Any]:
    # Products reach 2**16, which f16 does not hold: there all values are one or minus one.
    largest = 1 if element == np.float16 else 2
    x = integers(rng, 16, 1, largest, np.int64) * rng.choice([-1, 1], 16)
    return {"x": x.astype(element), "out": canvas((4, 16), element)}


for _dtype in (ct.float16, ct.float32, ct.float64, ct.int32, ct.int64):
    KERNELS.register(
        scans,
        array(_dtype),
        array(_dtype, 2),
        name=f"scans_{_dtype}",
        ops="scan yield",
        launch=Launch(
            (1, 1, 1),
            lambda rng, element=NUMPY_TYPES[_dtype]: _scan_inputs(rng, element),
            _scans,
            EXACT_INTEGERS,
        ),
    )


def _running_maximum(given: Arguments) -> dict[str, Any]:
    x = given["x"]
    best = np.maximum.accumulate(x, axis=1)
    first = np.array([[row[: j + 1].argmax() for j in range(8)] for row in x])
    backwards = np.bitwise_or.accumulate(x[:, ::-1], axis=1)[:, ::-1]
    return {"out": np.stack([best, first, backwards]).astype(np.int32)}


@KERNELS.add(
    array(ct.int32, 2),
    array(ct.int32, 3),
    ops="scan select ori",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"x": integers(rng, (4, 8), 0, 99), "out": canvas((3, 4, 8), np.int32)},
        _running_maximum,
    ),
)
@ct.kernel
def custom_scans(x, out):
    tile = ct.load(x, (0, 0), (4, 8))
    index = ct.broadcast_to(ct.arange(8, dtype=ct.int32)[None, :], (4, 8))
    value, position = ct.scan((tile, index), 1, _larger, (-(2**31), 2**31 - 1))
    merged = ct.scan(tile, 1, operator.or_, 0, reverse=True)
    for i, plane in ct.static_iter(enumerate((value, position, merged))):
        ct.store(out, (i, 0, 0), plane[None, :, :])
