"""Calling conventions: scalars, tuples, lists of arrays, index widths, assumptions, entry hints."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import numpy as np
from cuda.tile.compilation import ListConstraint, TupleConstraint
from tests.corpus import Launch
from tests.corpus.cutile._table import (
    FEW_WARPS,
    NUMPY_TYPES,
    KernelTable,
    array,
    canvas,
    integers,
    scalar,
    strided,
    uniform,
)

KERNELS = KernelTable("parameters")

_SCALARS: tuple[tuple[Any, bool | int | float], ...] = (
    *((ct.bool_, True), (ct.int8, -8), (ct.int16, -16), (ct.int32, -32), (ct.int64, -64)),
    *((ct.uint8, 200), (ct.uint16, 60000), (ct.uint32, 4000000000), (ct.uint64, 2**53)),
    *((ct.float16, 0.5), (ct.bfloat16, 0.25), (ct.float32, -1.5), (ct.float64, 1e300)),
)


def _scalar_arguments(rng: np.random.Generator) -> dict[str, Any]:
    values = {
        f"s{position}": NUMPY_TYPES[dtype].type(value)
        for position, (dtype, value) in enumerate(_SCALARS)
    }
    return values | {"out": canvas(len(_SCALARS), np.float64)}


@KERNELS.add(
    *[scalar(dtype) for dtype, _ in _SCALARS],
    array(ct.float64),
    ops="entry itof ftof",
    launch=Launch(
        (1, 1, 1),
        _scalar_arguments,
        lambda given: {"out": np.array([float(value) for _, value in _SCALARS])},
    ),
)
@ct.kernel
def scalars(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, out):
    values = (s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12)
    for i, value in ct.static_iter(enumerate(values)):
        ct.store(out, (i,), ct.astile(value, dtype=ct.float64))


@KERNELS.add(
    scalar(ct.tfloat32),
    scalar(ct.float8_e4m3fn),
    scalar(ct.float8_e5m2),
    scalar(ct.float8_e8m0fnu),
    array(ct.float32),
    since="13.2",
    ops="entry ftof",
)
@ct.kernel
def scalars_of_narrow_types(a, b, c, d, out):
    for i, value in ct.static_iter(enumerate((a, b, c, d))):
        ct.store(out, (i,), ct.astile(value, dtype=ct.float32))


@KERNELS.add(
    ListConstraint(array(ct.float32), alias_groups=(), elements_may_alias=False),
    array(ct.float32),
    ops="int_to_ptr extract trunci for",
    launch=Launch(
        (2, 1, 1),
        lambda rng: {
            "xs": [uniform(rng, 16), uniform(rng, 16), uniform(rng, 16)],
            "out": canvas(16),
        },
        lambda given: {"out": (given["xs"][0] + given["xs"][1]) + given["xs"][2]},
    ),
)
@ct.kernel
def sum_of_list(xs, out):
    i = ct.bid(0)
    total = ct.zeros((8,), ct.float32)
    for k in range(len(xs)):
        total += ct.load(xs[k], (i,), (8,))
    ct.store(out, (i,), total)


@KERNELS.add(
    ListConstraint(
        strided(ct.int32, 2, index_dtype=ct.int64), alias_groups=(), elements_may_alias=True
    ),
    ops="int_to_ptr extract",
    launch=Launch(
        (3, 1, 1),
        lambda rng: {
            "xs": [
                integers(rng, (4, 4), 0, 9),
                integers(rng, (3, 8), 0, 9)[:, ::2],
                integers(rng, (4, 2), 0, 9).T,
            ]
        },
        lambda given: {"xs": [x + np.int32(10 * k + 10) for k, x in enumerate(given["xs"])]},
    ),
)
@ct.kernel
def update_list(xs):
    k = ct.bid(0)
    ct.store(xs[k], (0, 0), ct.load(xs[k], (0, 0), (4, 4)) + (10 * k + 10))


@KERNELS.add(
    TupleConstraint((array(ct.float32), (scalar(ct.float32), 2.0))),
    3,
    array(ct.float32),
    ops="entry fma",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "bundle": (integers(rng, 8, -9, 9, np.float32), (np.float32(0.5), 2.0)),
            "out": canvas(8),
        },
        lambda given: {"out": given["bundle"][0] * np.float32(3) + np.float32(1)},
    ),
)
@ct.kernel
def nested_tuple(bundle, factor, out):
    x, (scale, bias) = bundle
    ct.store(out, (0,), ct.load(x, (0,), (8,)) * factor + scale * bias)


@KERNELS.add(
    7,
    True,
    0.5,
    array(ct.float32),
    ops="constant",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"out": canvas(8)},
        lambda given: {"out": np.full(8, 3.5, np.float32)},
    ),
)
@ct.kernel
def embedded_constants(
    count: ct.Constant[int], enabled: ct.Constant[bool], scale: ct.Constant[float], out
):
    if enabled:
        ct.store(out, (0,), ct.full((8,), count * scale, ct.float32))


@KERNELS.add(
    strided(ct.float32, 2, index_dtype=ct.int64),
    array(ct.int64),
    array(ct.float32, index_dtype=ct.int64),
    ops="make_tensor_view load_view_tko load_ptr_tko exti",
    launch=Launch(
        (2, 1, 1),
        lambda rng: {
            "x": uniform(rng, (4, 40))[:, ::5],
            "shape": canvas(4, np.int64),
            "out": canvas(8),
        },
        lambda given: {
            "shape": np.array([4, 8, 40, 5], np.int64),
            "out": np.concatenate([given["x"][i, :4] + given["x"][2, i] for i in range(2)]),
        },
    ),
)
@ct.kernel
def wide_indices(x, shape, out):
    i = ct.bid(0)
    if i == 0:
        for position, value in ct.static_iter(enumerate(x.shape + x.strides)):
            ct.store(shape, (position,), value)
    tile = ct.load(x, (i, 0), (1, 4)).reshape((4,))
    ct.store(out, (i,), tile + ct.gather(x, (2, i)))


@KERNELS.add(
    array(ct.float32, 2, index_dtype=ct.uint32),
    array(ct.float32, 2, index_dtype=ct.uint32),
    ops="make_tensor_view",
    launch=Launch(
        (2, 1, 1),
        lambda rng: {"x": uniform(rng, (3, 8)), "out": canvas((3, 8))},
        lambda given: {"out": given["x"]},
    ),
)
@ct.kernel
def unsigned_indices(x, out):
    ct.store(out, (ct.bid(0), 0), ct.load(x, (ct.bid(0), 0), (2, 8)))


@KERNELS.add(
    array(
        ct.float16,
        2,
        shape_constant=(None, 64),
        shape_divisible_by=(16, 1),
        stride_divisible_by=(8, 1),
        base_addr_divisible_by=16,
    ),
    array(ct.float16, 2, shape_constant=(32, 64), stride_constant=(64, 1)),
    scalar(ct.int32),
    ops="assume make_tensor_view",
    launch=Launch(
        (2, 1, 1),
        lambda rng: {
            "x": uniform(rng, (32, 64), dtype=np.float16),
            "out": canvas((32, 64), np.float16),
            "offset": np.int32(16),
        },
        lambda given: {"out": np.roll(given["x"], -16, axis=0)},
    ),
)
@ct.kernel
def assumptions(x, out, offset):
    i = ct.bid(0)
    start = ct.assume_divisible_by(offset, 16)
    window = x.slice(axis=0, start=start, stop=start + 16)
    if i == 0:
        ct.store(out, (0, 0), ct.load(window, (0, 0), (16, 64)))
    else:
        ct.store(out, (1, 0), ct.load(x, (0, 0), (16, 64)))


@KERNELS.add(
    array(ct.int32),
    ops="entry get_num_tile_blocks get_tile_block_id",
    launch=Launch(
        (2, 3, 4),
        lambda rng: {"out": canvas(24, np.int32)},
        lambda given: {"out": np.arange(24, dtype=np.int32)},
    ),
)
@ct.kernel(num_ctas=2, occupancy=4)
def grid_position(out):
    plane = ct.bid(2) * ct.num_blocks(1) + ct.bid(1)
    index = plane * ct.num_blocks(0) + ct.bid(0)
    ct.store(out, (index,), index)


def _copy_body(x, out):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (16,), latency=3))


def _copied(rng: np.random.Generator) -> dict[str, Any]:
    return {"x": uniform(rng, 32), "out": canvas(32)}


@KERNELS.add(
    *[array(ct.float32)] * 2,
    ops="entry",
    launch=Launch((2, 1, 1), _copied, lambda given: {"out": given["x"]}),
)
@ct.kernel(
    num_ctas=ct.ByTarget(sm_100=4, sm_90=2, default=1),
    occupancy=ct.ByTarget(sm_120=8),
    num_worker_warps=4,
    opt_level=ct.ByTarget(sm_100=2),
)
def hints_by_target(x, out):
    _copy_body(x, out)


@KERNELS.add(
    *[array(ct.float32)] * 2,
    since="13.5",
    ops="entry",
    launch=Launch((2, 1, 1), _copied, lambda given: {"out": given["x"]}),
)
@ct.kernel(num_worker_warps=FEW_WARPS, num_ctas=16, occupancy=32)
def extreme_hints(x, out):
    _copy_body(x, out)
