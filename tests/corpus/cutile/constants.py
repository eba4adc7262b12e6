"""Constants: splats, small arrays, non-finite values, and iota, in every element type."""

from __future__ import annotations

import math
from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import Arguments, Launch
from tests.corpus.cutile._table import NUMPY_TYPES, KernelTable, array, canvas

KERNELS = KernelTable("constants")

_TABLE = ((1.5, -0.0, math.inf, -math.inf), (math.nan, 2.0**-149, 3.25, 1e30))
_LARGE = (2**64 - 1, 2**63)


@KERNELS.add(
    array(ct.float32, 2),
    ops="constant",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"out": canvas((2, 4))},
        lambda given: {"out": np.array(_TABLE, np.float32)},
    ),
)
@ct.kernel
def float_table(out):
    ct.store(out, (0, 0), ct.astile(_TABLE, dtype=ct.float32))


@KERNELS.add(
    array(ct.int64),
    array(ct.uint64),
    array(ct.int8),
    array(ct.bool_),
    ops="constant",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "a": canvas(4, np.int64),
            "b": canvas(2, np.uint64),
            "c": canvas(4, np.int8),
            "d": np.zeros(16, np.bool_),
        },
        lambda given: {
            "a": np.array([-(2**63), -1, 2**63 - 1, 5], np.int64),
            "b": np.array([2**64 - 1, 2**63], np.uint64),
            "c": np.array([-128, 127, 0, -1], np.int8),
            "d": np.array([i % 3 == 0 for i in range(16)]),
        },
    ),
)
@ct.kernel
def integer_tables(a, b, c, d):
    ct.store(a, (0,), ct.astile((-(2**63), -1, 2**63 - 1, 5), dtype=ct.int64))
    ct.store(b, (0,), ct.astile(_LARGE, dtype=ct.uint64))
    ct.store(c, (0,), ct.astile((-128, 127, 0, -1), dtype=ct.int8))
    ct.store(
        d, (0,), ct.astile(ct.static_eval(tuple(i % 3 == 0 for i in range(16))), dtype=ct.bool_)
    )


@ct.kernel
def splats(out):
    dtype = ct.static_eval(out.dtype)
    rows = (ct.zeros((8,), dtype), ct.ones((8,), dtype), ct.full((8,), 3, dtype))
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), ct.expand_dims(row, 0))


def _splats(given: Arguments) -> dict[str, Any]:
    rows = np.repeat(np.array([[0], [1], [3]]), 8, axis=1)
    return {"out": rows.astype(given["out"].dtype)}


for _dtype in (*NUMPY_TYPES, ct.tfloat32):
    if _dtype in (ct.bool_, ct.float8_e8m0fnu):
        continue
    _element = NUMPY_TYPES.get(_dtype)
    KERNELS.register(
        splats,
        array(_dtype, 2),
        name=f"splats_{_dtype}",
        ops="constant",
        launch=None
        if _element is None
        else Launch(
            (1, 1, 1), lambda rng, element=_element: {"out": canvas((3, 8), element)}, _splats
        ),
    )


@KERNELS.add(
    array(ct.float8_e8m0fnu),
    since="13.2",
    ops="constant",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"out": np.zeros(8, NUMPY_TYPES[ct.float8_e8m0fnu])},
        lambda given: {"out": np.full(8, 4).astype(NUMPY_TYPES[ct.float8_e8m0fnu])},
    ),
)
@ct.kernel
def splat_of_exponents(out):
    ct.store(out, (0,), ct.full((8,), 4.0, ct.float8_e8m0fnu))


@KERNELS.add(array(ct.float32, 2), since="13.4", ops="constant ftof")
@ct.kernel
def constants_of_the_narrowest_types(out):
    for i, dtype in ct.static_iter(enumerate((ct.float4_e2m1fn, ct.float8_e5m3fnu))):
        ct.store(out, (i, 0), ct.full((1, 8), 1.5, dtype).astype(ct.float32))
        table = ct.astile(((0.5, 1.0, 2.0, 4.0),), dtype=dtype)
        ct.store(out, (i + 2, 0), ct.cat((table, table), 1).astype(ct.float32))


@KERNELS.add(
    array(ct.int32),
    array(ct.int64),
    array(ct.float32),
    ops="iota addi muli itof",
    launch=Launch(
        (1, 1, 1),
        lambda rng: (
            {"a": canvas(16), "b": canvas(16), "c": canvas(16)}
            | {"a": canvas(16, np.int32), "b": canvas(16, np.int64)}
        ),
        lambda given: {
            "a": np.arange(16, dtype=np.int32),
            "b": np.arange(16, dtype=np.int64) * -3 + 100,
            "c": np.arange(16, dtype=np.float32) * np.float32(0.5) + 2,
        },
    ),
)
@ct.kernel
def ranges(a, b, c):
    ct.store(a, (0,), ct.arange(16, dtype=ct.int32))
    ct.store(b, (0,), ct.arange(16, dtype=ct.int64, start=100, step=-3))
    ct.store(c, (0,), ct.arange(16, dtype=ct.int32).astype(ct.float32) * 0.5 + 2)
