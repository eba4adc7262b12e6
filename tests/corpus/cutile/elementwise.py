"""Arithmetic, comparisons, bit operations and selection, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import EXACT, EXACT_INTEGERS, Arguments, Launch
from tests.corpus.cutile._table import (
    NUMPY_TYPES,
    KernelTable,
    array,
    canvas,
    integers,
    scalar,
    uniform,
)

KERNELS = KernelTable("elementwise")

RN, RZ = ct.RoundingMode.RN, ct.RoundingMode.RZ
RM, RP = ct.RoundingMode.RM, ct.RoundingMode.RP
IEEE_MODES = (RN, RZ, RM, RP)
NARROW_FIRST = (ct.float16, ct.bfloat16, ct.float32, ct.float64)
SIGNED = (ct.int8, ct.int16, ct.int32, ct.int64)
UNSIGNED = (ct.uint8, ct.uint16, ct.uint32, ct.uint64)


@KERNELS.add(
    *[array(ct.float32)] * 3,
    ops="make_token make_tensor_view make_partition_view get_tile_block_id load_view_tko "
    "store_view_tko addf assume return entry",
    launch=Launch(
        (8, 1, 1),
        lambda rng: {"a": uniform(rng, 1000), "b": uniform(rng, 1000), "c": canvas(1000)},
        lambda given: {"c": given["a"] + given["b"]},
    ),
)
@ct.kernel
def vector_add(a, b, c):
    i = ct.bid(0)
    ct.store(c, (i,), ct.load(a, (i,), (128,)) + ct.load(b, (i,), (128,)))


@KERNELS.add(
    scalar(ct.float32),
    *[array(ct.float32)] * 2,
    ops="fma negf reshape broadcast",
    launch=Launch(
        (5, 1, 1),
        lambda rng: {
            "alpha": np.float32(3),
            "x": integers(rng, 150, -1000, 1000, np.float32),
            "y": integers(rng, 150, -1000, 1000, np.float32),
        },
        lambda given: {"y": -(given["alpha"] * given["x"] - given["y"])},
        EXACT_INTEGERS,
    ),
)
@ct.kernel
def axpy_in_place(alpha, x, y):
    i = ct.bid(0)
    tile = ct.load(y, (i,), (32,))
    ct.store(y, (i,), -(alpha * ct.load(x, (i,), (32,)) - tile))


def _float_arithmetic(given: Arguments) -> dict[str, Any]:
    x, y = given["x"], given["y"]
    dtype = x.dtype
    # NumPy rounds f32 and f64 correctly. The 16-bit types go through f32, where a first rounding
    # to 24 bits, at least twice the significand and two more, does not change the second.
    wide = np.float32 if dtype.itemsize == 2 else dtype
    a, b = x.astype(wide), y.astype(wide)
    remainder = np.fmod(a, b)
    wrong_sign = (remainder != 0) & ((remainder < 0) != (b < 0))
    floored = np.where(wrong_sign, (remainder + b).astype(dtype), remainder.astype(dtype))
    rows = [a + b, a - b, a * b, a / b, np.floor((a / b).astype(dtype)), floored]
    rows += [np.minimum(a, b), np.maximum(a, b), -a, np.abs(a), np.floor(a), np.ceil(a)]
    return {"out": np.stack([row.astype(dtype) for row in rows])}


def _nonzero(rng: np.random.Generator, length: int, dtype: np.dtype) -> np.ndarray:
    return (uniform(rng, length, 0.25, 8) * rng.choice([-1, 1], length)).astype(dtype)


@ct.kernel
def float_arithmetic(x, y, out):
    a = ct.load(x, (0,), (64,))
    b = ct.load(y, (0,), (64,))
    rows = (a + b, a - b, a * b, a / b, a // b, a % b)
    rows += (ct.minimum(a, b), ct.maximum(a, b), -a, abs(a), ct.floor(a), ct.ceil(a))
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), ct.expand_dims(row, 0))


for _dtype in NARROW_FIRST:
    KERNELS.register(
        float_arithmetic,
        array(_dtype),
        array(_dtype),
        array(_dtype, 2),
        name=f"float_arithmetic_{_dtype}",
        ops="addf subf mulf divf remf minf maxf negf absf floor ceil cmpf xori andi select",
        launch=Launch(
            (1, 1, 1),
            lambda rng, element=NUMPY_TYPES[_dtype]: {
                "x": _nonzero(rng, 64, element),
                "y": _nonzero(rng, 64, element),
                "out": canvas((12, 64), element),
            },
            _float_arithmetic,
        ),
    )


def _integer_arithmetic(given: Arguments) -> dict[str, Any]:
    x, y, shift = given["x"], given["y"], given["shift"]
    quotient = x // y
    rounded_up = quotient + (quotient * y != x).astype(x.dtype)
    rows = [x + y, x - y, x * y, rounded_up, x % y, np.minimum(x, y), np.maximum(x, y)]
    rows += [x & y, x | y, x ^ y, ~x, x << shift, x >> shift]
    if np.issubdtype(x.dtype, np.signedinteger):
        rows += [quotient, -x, np.abs(x)]
    return {"out": np.stack(rows)}


# cuTile writes the unsigned `//` with a rounding mode that Tile IR refuses; see the kernel
# `unsigned_floor_division`.
@ct.kernel
def integer_arithmetic(x, y, shift, out):
    a = ct.load(x, (0,), (64,))
    b = ct.load(y, (0,), (64,))
    bits = ct.load(shift, (0,), (64,))
    rows = (a + b, a - b, a * b, ct.cdiv(a, b), a % b, ct.minimum(a, b), ct.maximum(a, b))
    rows += (a & b, a | b, a ^ b, ~a, a << bits, a >> bits)
    if ct.static_eval(a.dtype in SIGNED):
        rows += (a // b, -a, abs(a))
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), ct.expand_dims(row, 0))


def _integer_inputs(element: np.dtype) -> Callable[[np.random.Generator], dict[str, Any]]:
    limits = np.iinfo(element)

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        # The least signed value has no absolute value or negation, and -1 may divide it wrongly.
        x = rng.integers(limits.min + (limits.min < 0), limits.max, 64, element, endpoint=True)
        y = rng.integers(1, min(limits.max, 1000), 64, element, endpoint=True)
        if limits.min < 0:
            y = np.where(rng.random(64) < 0.5, y, -y).astype(element)
        shift = rng.integers(0, limits.bits, 64, element)
        return {
            "x": x,
            "y": y,
            "shift": shift,
            "out": canvas((16 if limits.min < 0 else 13, 64), element),
        }

    return inputs


for _dtype in SIGNED + UNSIGNED:
    KERNELS.register(
        integer_arithmetic,
        *[array(_dtype)] * 3,
        array(_dtype, 2),
        name=f"integer_arithmetic_{_dtype}",
        ops="addi subi muli divi remi mini maxi andi ori xori shli shri cmpi select"
        + (" negi absi" if _dtype in SIGNED else ""),
        launch=Launch((1, 1, 1), _integer_inputs(NUMPY_TYPES[_dtype]), _integer_arithmetic),
    )


@KERNELS.add(
    *[array(ct.uint32)] * 2,
    ops="divi",
    refusal="rounding mode 'negative_inf' is not allowed with 'unsigned' flag",
)
@ct.kernel
def unsigned_floor_division(x, out):
    ct.store(out, (0,), ct.load(x, (0,), (8,)) // 3)


def _round_to_f32(exact: np.ndarray, mode: ct.RoundingMode) -> np.ndarray:
    """`exact`, given in f64, rounded to f32 under `mode`; no value is near an f32 boundary."""
    nearest = exact.astype(np.float32)
    back = nearest.astype(np.float64)
    wrong, toward = {
        RN: (np.zeros(exact.shape, bool), 0),
        RZ: (np.abs(back) > np.abs(exact), 0),
        RM: (back > exact, -np.inf),
        RP: (back < exact, np.inf),
    }[mode]
    return np.where(wrong, np.nextafter(nearest, np.float32(toward)), nearest)


def _rounding_modes(given: Arguments) -> dict[str, Any]:
    # The f64 sum and product of these inputs are exact; their f64 quotient and root are closer
    # to the exact value than that value can be to an f32 number or midpoint it is not.
    x, y = (given[name].astype(np.float64) for name in ("x", "y"))
    exact = (x + y, x - y, x * y, x / y, np.sqrt(x))
    rows = [_round_to_f32(value, mode) for mode in IEEE_MODES for value in exact]
    return {"out": np.stack(rows + rows)}


@KERNELS.add(
    array(ct.float32),
    array(ct.float32),
    array(ct.float32, 2),
    ops="addf subf mulf divf sqrt",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": uniform(rng, 128, 0.5, 2),
            "y": uniform(rng, 128, 0.5, 2),
            "out": canvas((40, 128)),
        },
        _rounding_modes,
    ),
)
@ct.kernel
def rounding_modes(x, y, out):
    a = ct.load(x, (0,), (128,))
    b = ct.load(y, (0,), (128,))
    rows = ()
    for ftz in ct.static_iter((False, True)):
        for mode in ct.static_iter(IEEE_MODES):
            rows += (ct.add(a, b, rounding_mode=mode, flush_to_zero=ftz),)
            rows += (ct.sub(a, b, rounding_mode=mode, flush_to_zero=ftz),)
            rows += (ct.mul(a, b, rounding_mode=mode, flush_to_zero=ftz),)
            rows += (ct.truediv(a, b, rounding_mode=mode, flush_to_zero=ftz),)
            rows += (ct.sqrt(a, rounding_mode=mode, flush_to_zero=ftz),)
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), ct.expand_dims(row, 0))


def _fused_modes(given: Arguments) -> dict[str, Any]:
    # With 24-bit factors of one binade and an addend within a factor of four of the product,
    # the exact value needs at most 53 bits.
    product = given["x"].astype(np.float64) * given["y"]
    rows = [_round_to_f32(product + given["z"], mode) for mode in IEEE_MODES]
    return {"out": np.stack(rows + rows)}


@KERNELS.add(
    *[array(ct.float32)] * 3,
    array(ct.float32, 2),
    ops="fma",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": uniform(rng, 32, 1, 2),
            "y": uniform(rng, 32, 1, 2),
            "z": uniform(rng, 32, 1, 4),
            "out": canvas((8, 32)),
        },
        _fused_modes,
    ),
)
@ct.kernel
def fused_rounding_modes(x, y, z, out):
    a = ct.load(x, (0,), (32,))
    b = ct.load(y, (0,), (32,))
    c = ct.load(z, (0,), (32,))
    rows = ()
    for ftz in ct.static_iter((False, True)):
        for mode in ct.static_iter(IEEE_MODES):
            product = ct.mul(a, b, rounding_mode=mode, flush_to_zero=ftz)
            rows += (ct.add(product, c, rounding_mode=mode, flush_to_zero=ftz),)
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), ct.expand_dims(row, 0))


_SPECIAL = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 2.0], np.float32)


def _special_pairs(rng: np.random.Generator) -> dict[str, Any]:
    x, y = np.repeat(_SPECIAL, 8), np.tile(_SPECIAL, 8)
    return {"x": x, "y": y, "out": canvas((8, 64), np.int32)}


def _float_comparisons(given: Arguments) -> dict[str, Any]:
    x, y = given["x"], given["y"]
    rows = [x == y, x != y, x < y, x <= y, x > y, x >= y, np.isnan(x), ~np.isnan(y)]
    return {"out": np.stack(rows).astype(np.int32)}


@KERNELS.add(
    array(ct.float32),
    array(ct.float32),
    array(ct.int32, 2),
    ops="cmpf select xori",
    launch=Launch((1, 1, 1), _special_pairs, _float_comparisons),
)
@ct.kernel
def float_comparisons(x, y, out):
    a = ct.load(x, (0,), (64,))
    b = ct.load(y, (0,), (64,))
    rows = (a == b, a != b, a < b, a <= b, a > b, a >= b, ct.isnan(a), ~ct.isnan(b))
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), ct.expand_dims(ct.where(row, 1, 0).astype(ct.int32), 0))


def _min_max_nan(given: Arguments) -> dict[str, Any]:
    x, y = given["x"], given["y"]
    # +0 counts as the larger zero, which NumPy leaves open.
    zeros = (x == 0) & (y == 0)
    low = np.where(zeros, np.where(np.signbit(x), x, y), np.fmin(x, y))
    high = np.where(zeros, np.where(np.signbit(x), y, x), np.fmax(x, y))
    either = np.isnan(x) | np.isnan(y)
    rows = [low, high, np.where(either, np.nan, low), np.where(either, np.nan, high)]
    return {"out": np.stack(rows + rows).astype(np.float32)}


@KERNELS.add(
    array(ct.float32),
    array(ct.float32),
    array(ct.float32, 2),
    ops="minf maxf",
    launch=Launch(
        (1, 1, 1), lambda rng: _special_pairs(rng) | {"out": canvas((8, 64))}, _min_max_nan
    ),
)
@ct.kernel
def min_max_nan(x, y, out):
    a = ct.load(x, (0,), (64,))
    b = ct.load(y, (0,), (64,))
    rows = ()
    for ftz in ct.static_iter((False, True)):
        for propagate in ct.static_iter((False, True)):
            rows += (ct.minimum(a, b, flush_to_zero=ftz, propagate_nan=propagate),)
            rows += (ct.maximum(a, b, flush_to_zero=ftz, propagate_nan=propagate),)
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), ct.expand_dims(row, 0))


def _integer_comparisons(given: Arguments) -> dict[str, Any]:
    x, y = given["x"], given["y"]
    u, v = x.view(np.uint32), y.view(np.uint32)
    rows = [x == y, x != y, x < y, x <= y, x > y, x >= y, u < v, u <= v, u > v, u >= v]
    return {"out": np.stack(rows)}


@KERNELS.add(
    array(ct.int32),
    array(ct.int32),
    array(ct.bool_, 2),
    ops="cmpi",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": integers(rng, 64, -3, 3),
            "y": integers(rng, 64, -3, 3),
            "out": np.zeros((10, 64), np.bool_),
        },
        _integer_comparisons,
    ),
)
@ct.kernel
def integer_comparisons(x, y, out):
    a = ct.load(x, (0,), (64,))
    b = ct.load(y, (0,), (64,))
    u = ct.bitcast(a, ct.uint32)
    v = ct.bitcast(b, ct.uint32)
    rows = (a == b, a != b, a < b, a <= b, a > b, a >= b, u < v, u <= v, u > v, u >= v)
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), ct.expand_dims(row, 0))


@KERNELS.add(
    array(ct.bool_),
    array(ct.bool_),
    array(ct.bool_, 2),
    ops="andi ori xori select",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "p": rng.random(32) < 0.5,
            "q": rng.random(32) < 0.5,
            "out": np.zeros((8, 32), np.bool_),
        },
        lambda given: {
            "out": np.stack(
                [
                    given["p"] & given["q"],
                    given["p"] | given["q"],
                    given["p"] ^ given["q"],
                    ~given["p"],
                    given["p"] == given["q"],
                    given["p"] != given["q"],
                    np.where(given["p"], given["q"], True),
                    np.ones(32, np.bool_),
                ]
            )
        },
    ),
)
@ct.kernel
def boolean_logic(p, q, out):
    a = ct.load(p, (0,), (32,))
    b = ct.load(q, (0,), (32,))
    always = ct.full((32,), True, ct.bool_)
    rows = (a & b, a | b, a ^ b, ct.bitwise_not(a), a == b, a != b, ct.where(a, b, True), always)
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), ct.expand_dims(row, 0))


def _mixed_types(given: Arguments) -> dict[str, Any]:
    return {"out": (given["small"].astype(np.float32) + given["half"]) * given["scale"] + 1}


@KERNELS.add(
    array(ct.int8),
    array(ct.float16, 2),
    scalar(ct.float32),
    array(ct.float32, 2),
    ops="itof ftof fma addf broadcast reshape",
    launch=Launch(
        (1, 2, 1),
        lambda rng: {
            "small": integers(rng, 16, -100, 100, np.int8),
            "half": integers(rng, (8, 16), -100, 100, np.float16),
            "scale": np.float32(0.5),
            "out": canvas((8, 16)),
        },
        _mixed_types,
        EXACT,
    ),
)
@ct.kernel
def mixed_types(small, half, scale, out):
    row = ct.load(small, (0,), (16,)).astype(ct.float32)
    tile = ct.load(half, (ct.bid(1), 0), (4, 16))
    ct.store(out, (ct.bid(1), 0), (row + tile) * scale + 1)
