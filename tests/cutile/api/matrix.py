"""Matrix products of all element types, plain, batched and scaled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import EXACT_INTEGERS, Arguments
from tests.corpus.cutile._table import NUMPY_TYPES, canvas, integers
from tests.cutile.api._cases import Cases

CASES = Cases()

E8M0, E4M3 = ct.float8_e8m0fnu, ct.float8_e4m3fn


@CASES.add(
    lambda rng: {
        "x": integers(rng, (2, 4, 8), -4, 4, np.float32),
        "y": integers(rng, (8, 4), -4, 4, np.float32),
        "out": canvas((8, 4, 4)),
        "vector": canvas((2, 4)),
    },
    lambda given: {
        "out": np.concatenate([given["x"] @ given["y"]] * 3 + [given["x"] @ given["y"] + 10]),
        "vector": np.stack(
            [given["x"][0] @ given["y"][:, 0], np.full(4, given["y"][:, 1] @ given["y"][:, 0])]
        ),
    },
    tolerance=EXACT_INTEGERS,
)
@ct.kernel
def products(x, y, out, vector):
    a, b = ct.load(x, (0, 0, 0), (2, 4, 8)), ct.load(y, (0, 0), (8, 4))
    ct.store(out, (0, 0, 0), ct.matmul(a, b))
    ct.store(out, (1, 0, 0), a @ b)
    ct.store(out, (2, 0, 0), ct.mma(a, b, ct.zeros((2, 4, 4), ct.float32)))
    ct.store(out, (3, 0, 0), ct.mma(a, b, acc=ct.full((2, 4, 4), 10.0, ct.float32)))
    column, other = ct.load(y, (0, 0), (8, 1)), ct.load(y, (0, 1), (8, 1))
    row = a.extract((0, 0, 0), (1, 4, 8)).reshape((4, 8))
    ct.store(vector, (0, 0), (row @ column.reshape((8,)))[None, :])
    dot = other.reshape((8,)) @ column.reshape((8,))
    ct.store(vector, (1, 0), ct.broadcast_to(dot.reshape((1, 1)), (1, 4)))


def _product_of(element: Any, total: Any) -> Any:
    fast = element in (ct.float8_e4m3fn, ct.float8_e5m2)

    @ct.kernel
    def product_of(x, y, out):
        a = ct.load(x, (0, 0), (16, 32)).astype(element)
        b = ct.load(y, (0, 0), (32, 16)).astype(element)
        acc = ct.mma(a, b, ct.zeros((16, 16), total), use_fast_acc=fast)
        ct.store(out, (0, 0), acc.astype(ct.float64))

    return product_of


def _product_inputs(element: Any) -> Callable[[np.random.Generator], dict[str, Any]]:
    low = 0 if element is ct.uint8 else -3
    return lambda rng: {
        "x": integers(rng, (16, 32), low, 3),
        "y": integers(rng, (32, 16), low, 3),
        "out": canvas((16, 16), np.float64),
    }


for _element, _total in (
    *((ct.float16, ct.float16), (ct.float16, ct.float32), (ct.bfloat16, ct.float32)),
    *((ct.float32, ct.float32), (ct.float64, ct.float64), (ct.tfloat32, ct.float32)),
    *((E4M3, ct.float16), (E4M3, ct.float32), (ct.float8_e5m2, ct.float16)),
    *((ct.float8_e5m2, ct.float32), (ct.int8, ct.int32), (ct.uint8, ct.int32)),
):
    CASES.add(
        _product_inputs(_element),
        lambda given: {"out": (given["x"] @ given["y"]).astype(np.float64)},
        tolerance=EXACT_INTEGERS,
        name=f"product_of_{_element}_in_{_total}",
    )(_product_of(_element, _total))


def _scaled(given: Arguments) -> dict[str, Any]:
    x, y, p, q = (given[name].astype(np.float64) for name in ("x", "y", "x_scale", "y_scale"))
    block = x.shape[1] // p.shape[1]
    lhs, rhs = x * np.repeat(p, block, axis=1), y * np.repeat(q, block, axis=0)
    return {"out": (lhs @ rhs + 1).astype(np.float32)}


def _powers_of_two(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return integers(rng, shape, 126, 129, np.uint8).view(NUMPY_TYPES[E8M0])


def _scaled_product_of(element: Any, count: int) -> Any:
    @ct.kernel
    def scaled_product(x, x_scale, y, y_scale, out):
        lhs = ct.load(x, (0, 0), (16, 64)).astype(element)
        rhs = ct.load(y, (0, 0), (64, 16)).astype(element)
        lhs_scale = ct.load(x_scale, (0, 0), (16, count))
        rhs_scale = ct.load(y_scale, (0, 0), (count, 16))
        ones = ct.ones((16, 16), ct.float32)
        ct.store(out, (0, 0), ct.mma_scaled(lhs, lhs_scale, rhs, rhs_scale, acc=ones))

    return scaled_product


for _element, _count, _scales in (
    (ct.float8_e4m3fn, 2, _powers_of_two),
    (ct.float8_e5m2, 2, _powers_of_two),
    (ct.float4_e2m1fn, 4, _powers_of_two),
    (ct.float4_e2m1fn, 4, lambda rng, s: integers(rng, s, 1, 4, NUMPY_TYPES[E4M3])),
):
    CASES.add(
        lambda rng, count=_count, scales=_scales: {
            "x": integers(rng, (16, 64), -2, 2, np.float32),
            "x_scale": scales(rng, (16, count)),
            "y": integers(rng, (64, 16), -2, 2, np.float32),
            "y_scale": scales(rng, (count, 16)),
            "out": canvas((16, 16)),
        },
        _scaled,
        tolerance=EXACT_INTEGERS,
        name=f"scaled_product_{_element}" + ("" if _scales is _powers_of_two else f"_{E4M3}"),
    )(_scaled_product_of(_element, _count))
