"""Casts between element types, bit casts, and packing to bytes."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import ml_dtypes
import numpy as np
from tests.corpus import EXACT, Arguments, Launch
from tests.corpus.cutile._table import NUMPY_TYPES, KernelTable, array, canvas, integers, uniform

KERNELS = KernelTable("conversions")

RN, RZ, RA = ct.RoundingMode.RN, ct.RoundingMode.RZ, ct.RoundingMode.RA
RM, RP = ct.RoundingMode.RM, ct.RoundingMode.RP
F16, BF16, F32, F64, TF32 = ct.float16, ct.bfloat16, ct.float32, ct.float64, ct.tfloat32
E4M3, E5M2, E8M0 = ct.float8_e4m3fn, ct.float8_e5m2, ct.float8_e8m0fnu
E2M1, E5M3 = ct.float4_e2m1fn, ct.float8_e5m3fnu
INTEGERS = (
    *(ct.int8, ct.int16, ct.int32, ct.int64),
    *(ct.uint8, ct.uint16, ct.uint32, ct.uint64),
)


def _to_tf32(x: np.ndarray) -> np.ndarray:
    """`x` with its significand rounded to 11 bits, ties to even."""
    bits = x.view(np.uint32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)).view(np.float32)


def _through(x: np.ndarray, dtype: Any) -> np.ndarray:
    return x.astype(NUMPY_TYPES[dtype]).astype(np.float32)


_ROUND_TRIPS = (F16, BF16, F64, E4M3, E5M2)


@KERNELS.add(
    array(F32),
    array(F32, 2),
    ops="ftof",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"x": uniform(rng, 64, -400, 400), "out": canvas((6, 64))},
        lambda given: {
            "out": np.stack(
                [_to_tf32(given["x"])] + [_through(given["x"], dtype) for dtype in _ROUND_TRIPS]
            )
        },
    ),
)
@ct.kernel
def float_round_trips(x, out):
    a = ct.load(x, (0,), (64,))
    ct.store(out, (0, 0), ct.expand_dims(a.astype(TF32).astype(F32), 0))
    for i, dtype in ct.static_iter(enumerate(_ROUND_TRIPS)):
        ct.store(out, (i + 1, 0), ct.expand_dims(a.astype(dtype).astype(F32), 0))


@KERNELS.add(
    array(F16),
    array(BF16),
    array(E4M3),
    array(E5M2),
    array(F32),
    ops="ftof",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "a": uniform(rng, 32, -4, 4, NUMPY_TYPES[F16]),
            "b": uniform(rng, 32, -4, 4, NUMPY_TYPES[BF16]),
            "c": uniform(rng, 32, -4, 4, NUMPY_TYPES[E4M3]),
            "d": uniform(rng, 32, -4, 4, NUMPY_TYPES[E5M2]),
            "out": canvas(128),
        },
        lambda given: {
            "out": np.concatenate([given[name].astype(np.float32) for name in ("a", "b", "c", "d")])
        },
    ),
)
@ct.kernel
def widen_narrow_floats(a, b, c, d, out):
    for i, source in ct.static_iter(enumerate((a, b, c, d))):
        ct.store(out, (i,), ct.load(source, (0,), (32,)).astype(F32))


def _directed(exact: np.ndarray) -> list[np.ndarray]:
    nearest = exact.astype(np.float32)
    back = nearest.astype(np.float64)

    def step(wrong: np.ndarray, toward: float) -> np.ndarray:
        return np.where(wrong, np.nextafter(nearest, np.float32(toward)), nearest)

    return [
        nearest,
        step(np.abs(back) > np.abs(exact), 0),
        step(back > exact, -np.inf),
        step(back < exact, np.inf),
    ]


@KERNELS.add(
    array(F64),
    array(F32, 2),
    since="13.4",
    ops="ftof",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"x": uniform(rng, 64, -3, 3, np.float64), "out": canvas((4, 64))},
        lambda given: {"out": np.stack(_directed(given["x"]))},
    ),
)
@ct.kernel
def directed_narrowing(x, out):
    a = ct.load(x, (0,), (64,))
    for i, mode in ct.static_iter(enumerate((RN, RZ, RM, RP))):
        ct.store(out, (i, 0), ct.expand_dims(a.astype(F32, rounding_mode=mode), 0))


# One pair of types per target type and rounding mode that a cast can have.
_CAST_MODES = (
    *((F32, F64, mode) for mode in (RN, RZ, RM, RP, RA)),
    *((F16, F32, mode) for mode in (RN, RZ, RM, RP, RA)),
    *((BF16, F16, mode) for mode in (RN, RZ)),
    *((E4M3, F16, mode) for mode in (RM, RP, RA)),
    *((F32, BF16, mode) for mode in (RN, RZ)),
    *((F32, TF32, mode) for mode in (RN, RZ, RA)),
    *((F32, E8M0, mode) for mode in (RZ, RP)),
    *((F64, E8M0, mode) for mode in (RZ, RP)),
    *((F32, dtype, RN) for dtype in (E4M3, E5M2, E2M1, E5M3)),
)


@KERNELS.add(array(F32), array(F64, 2), since="13.4", ops="ftof")
@ct.kernel
def cast_rounding_modes(x, out):
    a = ct.load(x, (0,), (16,))
    for i, (source, target, mode) in ct.static_iter(enumerate(_CAST_MODES)):
        row = a.astype(source).astype(target, rounding_mode=mode)
        ct.store(out, (i, 0), ct.expand_dims(row.astype(F64), 0))


@KERNELS.add(
    array(BF16),
    array(F16),
    since="13.4",
    ops="ftof",
    refusal="Only 'nearest_even' and 'zero' are supported for narrowing conversions",
)
@ct.kernel
def directed_rounding_to_half(x, out):
    ct.store(out, (0,), ct.load(x, (0,), (16,)).astype(F16, rounding_mode=RM))


@KERNELS.add(
    array(E8M0),
    array(F32),
    since="13.2",
    ops="ftof",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": integers(rng, 32, 100, 150, np.uint8).view(NUMPY_TYPES[E8M0]),
            "out": canvas(32),
        },
        lambda given: {
            "out": np.ldexp(np.float32(1), given["x"].view(np.uint8).astype(np.int32) - 127)
        },
    ),
)
@ct.kernel
def widen_exponents(x, out):
    ct.store(out, (0,), ct.load(x, (0,), (32,)).astype(F32))


def _integer_casts(given: Arguments) -> dict[str, Any]:
    types = [NUMPY_TYPES[dtype] for dtype in INTEGERS]
    rows = [given[name].astype(dtype).astype(np.int64) for name in ("a", "b") for dtype in types]
    rows += [(given[name] != 0).astype(np.int64) for name in ("a", "b")]
    return {"out": np.stack(rows)}


@KERNELS.add(
    array(ct.int8),
    array(ct.uint64),
    array(ct.int64, 2),
    ops="exti trunci cmpi",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "a": integers(rng, 16, -128, 127, np.int8),
            "b": rng.integers(0, 2**64 - 1, 16, np.uint64) * (rng.random(16) < 0.7),
            "out": canvas((18, 16), np.int64),
        },
        _integer_casts,
    ),
)
@ct.kernel
def integer_casts(a, b, out):
    x = ct.load(a, (0,), (16,))
    y = ct.load(b, (0,), (16,))
    rows = ()
    for tile in ct.static_iter((x, y)):
        for dtype in ct.static_iter(INTEGERS):
            rows += (tile.astype(dtype),)
    for tile in ct.static_iter((x, y)):
        rows += (tile.astype(ct.bool_),)
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), ct.expand_dims(row.astype(ct.int64), 0))


def _to_integers(given: Arguments) -> dict[str, Any]:
    x = given["x"]
    rows = [x.astype(NUMPY_TYPES[dtype]).astype(np.int64) for dtype in INTEGERS]
    return {"out": np.stack(rows)}


@KERNELS.add(
    array(F32),
    array(ct.int64, 2),
    ops="ftoi exti",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"x": uniform(rng, 32, 0, 120), "out": canvas((8, 32), np.int64)},
        _to_integers,
    ),
)
@ct.kernel
def floats_to_integers(x, out):
    a = ct.load(x, (0,), (32,))
    for i, dtype in ct.static_iter(enumerate(INTEGERS)):
        ct.store(out, (i, 0), ct.expand_dims(a.astype(dtype).astype(ct.int64), 0))


def _from_integers(given: Arguments) -> dict[str, Any]:
    x = given["x"]
    # i32 to f16 or bf16 through f32 would round twice; through f64 it cannot matter below 2**31.
    rows = [x.astype(np.float64).astype(NUMPY_TYPES[dtype]) for dtype in (F16, BF16, F32)]
    rows += [x.astype(np.uint32).astype(np.float32)]
    return {"out": np.stack([row.astype(np.float64) for row in rows])}


@KERNELS.add(
    array(ct.int32),
    array(F64, 2),
    ops="itof ftof",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": integers(rng, 32, -60000, 60000),
            "out": canvas((4, 32), np.float64),
        },
        _from_integers,
    ),
)
@ct.kernel
def integers_to_floats(x, out):
    a = ct.load(x, (0,), (32,))
    rows = (a.astype(F16), a.astype(BF16), a.astype(F32), a.astype(ct.uint32).astype(F32))
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), ct.expand_dims(row.astype(F64), 0))


@KERNELS.add(
    array(ct.bool_),
    array(F32),
    array(ct.int16),
    ops="itof exti cmpi",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "p": rng.random(16) < 0.5,
            "x": canvas(16),
            "n": canvas(16, np.int16),
        },
        lambda given: {"x": given["p"].astype(np.float32), "n": given["p"].astype(np.int16)},
        EXACT,
    ),
)
@ct.kernel
def booleans_to_numbers(p, x, n):
    truth = ct.load(p, (0,), (16,))
    ct.store(x, (0,), truth.astype(F32))
    ct.store(n, (0,), truth.astype(ct.int8).astype(ct.bool_).astype(ct.int16))


_BIT_PAIRS = ((E4M3, ct.uint8), (F16, ct.int16), (BF16, ct.uint16), (F32, ct.int32))


@KERNELS.add(
    *[array(source) for source, _ in _BIT_PAIRS],
    array(F64),
    *[array(target) for _, target in _BIT_PAIRS],
    array(ct.int64),
    ops="bitcast",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "a": uniform(rng, 16, -4, 4, NUMPY_TYPES[E4M3]),
            "b": uniform(rng, 16, dtype=np.float16),
            "c": uniform(rng, 16, dtype=NUMPY_TYPES[BF16]),
            "d": uniform(rng, 16),
            "e": uniform(rng, 16, dtype=np.float64),
            "p": canvas(16, np.uint8),
            "q": canvas(16, np.int16),
            "r": canvas(16, np.uint16),
            "s": canvas(16, np.int32),
            "t": canvas(16, np.int64),
        },
        lambda given: {
            "p": given["a"].view(np.uint8),
            "q": given["b"].view(np.int16),
            "r": given["c"].view(np.uint16),
            "s": given["d"].view(np.int32),
            "t": given["e"].view(np.int64),
        },
    ),
)
@ct.kernel
def bit_casts(a, b, c, d, e, p, q, r, s, t):
    for source, target in ct.static_iter(((a, p), (b, q), (c, r), (d, s), (e, t))):
        ct.store(target, (0,), ct.bitcast(ct.load(source, (0,), (16,)), target.dtype))


@KERNELS.add(
    array(F32),
    array(ct.uint8),
    array(F16),
    since="13.3",
    ops="pack unpack",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": uniform(rng, 16),
            "raw": canvas(64, np.uint8),
            "halves": canvas(32, np.float16),
        },
        lambda given: {"raw": given["x"].view(np.uint8), "halves": given["x"].view(np.float16)},
    ),
)
@ct.kernel
def pack_and_unpack(x, raw, halves):
    packed = ct.pack_to_bytes(ct.load(x, (0,), (16,)))
    ct.store(raw, (0,), packed)
    ct.store(halves, (0,), ct.unpack_from_bytes(packed, F16))


def _nibbles(given: Arguments) -> dict[str, Any]:
    raw = given["raw"]
    codes = np.stack([raw & 15, raw >> 4], axis=-1).reshape(-1)
    values = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    return {"out": values, "copy": raw}


@KERNELS.add(
    array(ct.uint8),
    array(F32),
    array(ct.uint8),
    since="13.3",
    ops="unpack pack ftof",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "raw": integers(rng, 32, 0, 255, np.uint8),
            "out": canvas(64),
            "copy": canvas(32, np.uint8),
        },
        _nibbles,
    ),
)
@ct.kernel
def four_bit_floats(raw, out, copy):
    values = ct.unpack_from_bytes(ct.load(raw, (0,), (32,)), E2M1)
    ct.store(out, (0,), values.astype(F32))
    ct.store(copy, (0,), ct.pack_to_bytes(values))
