"""What kernels take: arrays of every element type and layout, scalars, constants, lists, tuples."""

from __future__ import annotations

from typing import Annotated, Any

import cuda.tile as ct
import numpy as np
from tests.corpus import Arguments
from tests.corpus.cutile._table import NUMPY_TYPES, canvas, integers, uniform
from tests.cutile.api._cases import Cases

CASES = Cases()


@ct.kernel
def copies(x, out):
    i = ct.bid(0)
    ct.store(out, (i, 0), ct.load(x, (i, 0), (2, 8)))


for _dtype, _element in NUMPY_TYPES.items():
    CASES.add(
        lambda rng, element=_element: {
            "x": integers(rng, (3, 8), 0, 1, element),
            "out": canvas((3, 8), element),
        },
        lambda given: {"out": given["x"]},
        grid=(2,),
        name=f"copies_of_{_dtype}",
    )(copies)


@CASES.add(
    lambda rng: {
        "x": uniform(rng, (8, 24))[::2, ::3].T,
        "row": np.broadcast_to(uniform(rng, (1, 4)), (8, 4)),
        "out": canvas((4, 8)).T,
    },
    lambda given: {"out": given["x"] + given["row"]},
    grid=(2,),
)
@ct.kernel
def layouts(x, row, out):
    i = ct.bid(0)
    ct.store(out, (i, 0), ct.load(x, (i, 0), (4, 4)) + ct.load(row, (i, 0), (4, 4)))


@CASES.add(
    lambda rng: {
        "x": uniform(rng, 8),
        "count": 3,
        "scale": 0.5,
        "negated": True,
        "large": 2**40 + 1,
        "offset": 10,
        "step": 0.25,
        "out": canvas(8),
        "wide": canvas(2, np.int64),
    },
    lambda given: {
        "out": -(given["x"] * np.float32(1.5)) + np.float32(2.5),
        "wide": np.array([2**40 + 1, 2**41 + 2]),
    },
)
@ct.kernel
def scalars_and_constants(
    x,
    count: ct.Scalar,
    scale,
    negated,
    large: ct.ScalarInt64,
    offset: ct.Constant[int],
    step: Annotated[float, ct.ConstantAnnotation()],
    out,
    wide,
):
    tile = ct.load(x, (0,), (8,)) * (count * scale)
    if negated:
        tile = -tile
    ct.static_assert(offset * step == 2.5)
    ct.store(out, (0,), tile + offset * step)
    ct.store(wide, (0,), large)
    ct.store(wide, (1,), large * 2)


def _listed(given: Arguments) -> dict[str, Any]:
    return {"out": given["xs"][0] + given["xs"][1] + given["pair"][0] * 2 + np.float32(3)}


@CASES.add(
    lambda rng: {
        "xs": [integers(rng, 8, -9, 9, np.float32) for _ in range(2)],
        "pair": (integers(rng, 8, -9, 9, np.float32), (2, 3.0)),
        "out": canvas(8),
    },
    _listed,
)
@ct.kernel
def lists_and_tuples(xs, pair, out):
    y, (factor, bias) = pair
    total = ct.load(y, (0,), (8,)) * factor + bias
    for k in range(len(xs)):
        total += ct.load(xs[k], (0,), (8,))
    ct.store(out, (0,), total)


BigStatic = Annotated[
    ct.Array,
    ct.ArrayAnnotation(index_dtype=ct.int64, static_shape_dims=(0,), static_stride_dims=(0, -1)),
]


@CASES.add(
    lambda rng: {
        "x": uniform(rng, (4, 8)),
        "y": uniform(rng, (4, 8)),
        "zs": [uniform(rng, (4, 8))],
        "out": canvas((4, 8)),
        "facts": canvas(4, np.int64),
    },
    lambda given: {
        "out": given["x"] + given["y"] + given["zs"][0],
        "facts": np.array([4, 8, 8, 1]),
    },
)
@ct.kernel
def annotated_arrays(
    x: BigStatic,
    y: ct.IndexedWithInt64,
    zs: Annotated[list, ct.ListAnnotation(element=ct.IndexedWithInt64)],
    out,
    facts,
):
    ct.static_assert(x.shape[0] == 4 and x.strides[0] == 8 and x.strides[1] == 1)
    tile = ct.load(x, (0, 0), (x.shape[0], x.strides[0]))
    tile = tile + ct.load(y, (0, 0), (4, 8))
    ct.store(out, (0, 0), tile + ct.load(zs[0], (0, 0), (4, 8)))
    for i, value in ct.static_iter(enumerate(y.shape + y.strides)):
        ct.store(facts, (i,), value)


@CASES.add(
    lambda rng: {"x": integers(rng, 64, 0, 99), "offset": 32, "out": canvas(16, np.int32)},
    lambda given: {"out": given["x"][32:48]},
)
@ct.kernel
def assumptions(x, offset, out):
    start = ct.assume_divisible_by(offset, 16)
    ct.store(out, (0,), ct.load(x.slice(0, start, start + 16), (0,), (16,)))


@CASES.add(
    lambda rng: {"out": canvas((24, 3), np.int32)},
    lambda given: {"out": np.full((24, 3), (2, 3, 4), np.int32)},
    grid=(2, 3, 4),
)
@ct.kernel(num_ctas=ct.ByTarget(sm_100=2, default=1), occupancy=4, opt_level=2, num_worker_warps=4)
def grids_and_hints(out):
    row = (ct.bid(2) * ct.num_blocks(1) + ct.bid(1)) * ct.num_blocks(0) + ct.bid(0)
    for axis in ct.static_iter(range(3)):
        ct.store(out, (row, axis), ct.num_blocks(axis))
