"""Matrix products in every operand type, plain and block scaled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import EXACT_INTEGERS, Arguments, Launch
from tests.corpus.cutile._table import NUMPY_TYPES, KernelTable, array, canvas, integers

KERNELS = KernelTable("matrix")

E4M3, E5M2, E8M0 = ct.float8_e4m3fn, ct.float8_e5m2, ct.float8_e8m0fnu
E2M1, E5M3 = ct.float4_e2m1fn, ct.float8_e5m3fnu


def _product(given: Arguments) -> dict[str, Any]:
    x, y, out = given["x"], given["y"], given["out"]
    return {"out": (x.astype(np.float64) @ y.astype(np.float64)).astype(out.dtype)}


def _factors(
    x_type: Any, y_type: Any, out_type: Any, shapes: tuple[tuple[int, ...], ...]
) -> Callable[[np.random.Generator], dict[str, Any]]:
    x_element, y_element, element = (NUMPY_TYPES[dtype] for dtype in (x_type, y_type, out_type))

    def inputs(rng: np.random.Generator) -> dict[str, Any]:
        low = {True: 0, False: -4}
        return {
            "x": integers(rng, shapes[0], low[x_element.kind == "u"], 4, x_element),
            "y": integers(rng, shapes[1], low[y_element.kind == "u"], 4, y_element),
            "out": canvas(shapes[2], element),
        }

    return inputs


@ct.kernel
def matmul(x, y, out):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((16, 16), out.dtype)
    for k in range(ct.num_tiles(x, 1, shape=(16, 16))):
        lhs = ct.load(x, (i, k), (16, 16), padding_mode=ct.PaddingMode.ZERO)
        rhs = ct.load(y, (k, j), (16, 16), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(lhs, rhs, total)
    ct.store(out, (i, j), total)


for _x, _y, _out in (
    (ct.float16, ct.float16, ct.float32),
    (ct.float16, ct.float16, ct.float16),
    (ct.bfloat16, ct.bfloat16, ct.float32),
    (ct.float32, ct.float32, ct.float32),
    (ct.float64, ct.float64, ct.float64),
    (E4M3, E4M3, ct.float32),
    (E5M2, E5M2, ct.float16),
    (ct.int8, ct.int8, ct.int32),
    (ct.uint8, ct.uint8, ct.int32),
    (ct.int8, ct.uint8, ct.int32),
    (ct.uint8, ct.int8, ct.int32),
):
    KERNELS.register(
        matmul,
        array(_x, 2),
        array(_y, 2),
        array(_out, 2),
        name=f"matmul_{_x}_{_y}_{_out}",
        ops="mmai" if _out == ct.int32 else "mmaf",
        launch=Launch(
            (2, 2, 1),
            _factors(_x, _y, _out, ((20, 40), (40, 24), (20, 24))),
            _product,
            EXACT_INTEGERS,
        ),
    )


@KERNELS.add(array(ct.tfloat32, 2), array(ct.tfloat32, 2), array(ct.float32, 2), ops="mmaf")
@ct.kernel
def matmul_tfloat32(x, y, out):
    tile = ct.load(x, (ct.bid(0), 0), (16, 8))
    zero = ct.zeros((16, 16), ct.float32)
    ct.store(out, (ct.bid(0), 0), ct.mma(tile, ct.load(y, (0, 0), (8, 16)), zero))


@KERNELS.add(
    array(ct.float16, 3),
    array(ct.float16, 3),
    array(ct.float32, 3),
    ops="mmaf ftof",
    launch=Launch(
        (3, 1, 1),
        _factors(ct.float16, ct.float16, ct.float32, ((3, 8, 16), (3, 16, 8), (3, 8, 8))),
        _product,
        EXACT_INTEGERS,
    ),
)
@ct.kernel
def batched_matmul(x, y, out):
    b = ct.bid(0)
    lhs, rhs = ct.load(x, (b, 0, 0), (1, 8, 16)), ct.load(y, (b, 0, 0), (1, 16, 8))
    ct.store(out, (b, 0, 0), lhs @ rhs)


@KERNELS.add(
    array(ct.float32, 2),
    array(ct.float32),
    array(ct.float32),
    ops="mmaf reshape",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": integers(rng, (16, 16), -4, 4, np.float32),
            "y": integers(rng, 16, -4, 4, np.float32),
            "out": canvas(16),
        },
        _product,
        EXACT_INTEGERS,
    ),
)
@ct.kernel
def matrix_times_vector(x, y, out):
    ct.store(out, (0,), ct.matmul(ct.load(x, (0, 0), (16, 16)), ct.load(y, (0,), (16,))))


@KERNELS.add(
    array(E4M3, 2),
    array(E5M2, 2),
    array(ct.float32, 2),
    since="13.3",
    ops="mmaf",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": integers(rng, (16, 32), -4, 4, NUMPY_TYPES[E4M3]),
            "y": integers(rng, (16, 32), -4, 4, NUMPY_TYPES[E5M2]),
            "out": canvas((16, 16)),
        },
        lambda given: {
            "out": given["x"].astype(np.float32) @ given["x"].astype(np.float32).T
            + given["y"].astype(np.float32) @ given["y"].astype(np.float32).T
        },
        EXACT_INTEGERS,
    ),
)
@ct.kernel
def fast_accumulation(x, y, out):
    a, b = ct.load(x, (0, 0), (16, 32)), ct.load(y, (0, 0), (16, 32))
    total = ct.zeros((16, 16), ct.float32)
    total = ct.mma(a, ct.transpose(a), total, use_fast_acc=True)
    ct.store(out, (0, 0), ct.mma(b, ct.transpose(b), total, use_fast_acc=True))


def _scaled_product(given: Arguments) -> dict[str, Any]:
    x, y, x_scale, y_scale = (
        given[name].astype(np.float64) for name in ("x", "y", "x_scale", "y_scale")
    )
    lhs = x * np.repeat(x_scale, 32, axis=1)
    rhs = y * np.repeat(y_scale, 32, axis=0)
    return {"out": (lhs @ rhs).astype(np.float32)}


def _powers_of_two(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return integers(rng, shape, 126, 129, np.uint8).view(NUMPY_TYPES[E8M0])


@ct.kernel
def scaled_matmul(x, x_scale, y, y_scale, out):
    total = ct.zeros((16, 16), ct.float32)
    lhs, lhs_scale = ct.load(x, (0, 0), (16, 64)), ct.load(x_scale, (0, 0), (16, 2))
    rhs, rhs_scale = ct.load(y, (0, 0), (64, 16)), ct.load(y_scale, (0, 0), (2, 16))
    ct.store(out, (0, 0), ct.mma_scaled(lhs, lhs_scale, rhs, rhs_scale, total))


for _dtype in (E4M3, E5M2):
    KERNELS.register(
        scaled_matmul,
        *[array(dtype, 2) for dtype in (_dtype, E8M0, _dtype, E8M0, ct.float32)],
        name=f"scaled_matmul_{_dtype}",
        since="13.3",
        ops="mmaf_scaled",
        launch=Launch(
            (1, 1, 1),
            lambda rng, element=NUMPY_TYPES[_dtype]: {
                "x": integers(rng, (16, 64), -4, 4, element),
                "x_scale": _powers_of_two(rng, (16, 2)),
                "y": integers(rng, (64, 16), -4, 4, element),
                "y_scale": _powers_of_two(rng, (2, 16)),
                "out": canvas((16, 16)),
            },
            _scaled_product,
            EXACT_INTEGERS,
        ),
    )


@ct.kernel
def four_bit_scaled_matmul(x, y, out, x_scale, y_scale, block):
    lhs = ct.unpack_from_bytes(ct.load(x, (0,), (512,)), E2M1).reshape((16, 64))
    rhs = ct.unpack_from_bytes(ct.load(y, (0,), (512,)), E2M1).reshape((64, 16))
    lhs_scale = ct.load(x_scale, (0, 0), (16, 64 // block))
    rhs_scale = ct.load(y_scale, (0, 0), (64 // block, 16))
    total = ct.zeros((16, 16), ct.float32)
    ct.store(out, (0, 0), ct.mma_scaled(lhs, lhs_scale, rhs, rhs_scale, total))


for _scale, _block, _since in (
    (E8M0, 16, "13.3"),
    (E8M0, 32, "13.3"),
    (E4M3, 16, "13.3"),
):
    KERNELS.register(
        four_bit_scaled_matmul,
        array(ct.uint8),
        array(ct.uint8),
        array(ct.float32, 2),
        array(_scale, 2),
        array(_scale, 2),
        _block,
        name=f"four_bit_scaled_matmul_{_scale}_{_block}",
        since=_since,
        ops="mmaf_scaled unpack",
    )


@KERNELS.add(array(ct.uint8), array(ct.float32, 2), since="13.4", ops="mmaf_scaled unpack ftof")
@ct.kernel
def unsigned_scales(x, out):
    tile = ct.unpack_from_bytes(ct.load(x, (0,), (512,)), E2M1).reshape((16, 64))
    for i, block in ct.static_iter(enumerate((16, 32))):
        scale = ct.full((16, 64 // block), 1.5, ct.float32).astype(E5M3)
        total = ct.zeros((16, 16), ct.float32)
        total = ct.mma_scaled(tile, scale, ct.transpose(tile), ct.transpose(scale), total)
        ct.store(out, (i, 0), total)
