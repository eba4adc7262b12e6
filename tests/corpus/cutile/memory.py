"""Loads and stores of tiles: edges, padding, axis order, hints, memory orders and scopes."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import EXACT_INTEGERS, Arguments, Launch
from tests.corpus.cutile._table import (
    NUMPY_TYPES,
    KernelTable,
    array,
    canvas,
    integers,
    strided,
    uniform,
)

KERNELS = KernelTable("memory")

PADDINGS = (
    ct.PaddingMode.ZERO,
    ct.PaddingMode.NEG_ZERO,
    ct.PaddingMode.NAN,
    ct.PaddingMode.POS_INF,
    ct.PaddingMode.NEG_INF,
)
PADDING_VALUES = (0.0, -0.0, np.nan, np.inf, -np.inf)
BLOCK, DEVICE, SYS = ct.MemoryScope.BLOCK, ct.MemoryScope.DEVICE, ct.MemoryScope.SYS
WEAK, RELAXED = ct.MemoryOrder.WEAK, ct.MemoryOrder.RELAXED
ACQUIRE, RELEASE = ct.MemoryOrder.ACQUIRE, ct.MemoryOrder.RELEASE


def _spread(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """A matrix every second row and third column of a larger one."""
    return uniform(rng, (shape[0] * 2, shape[1] * 3))[::2, ::3]


@KERNELS.add(
    strided(ct.float32, 2),
    strided(ct.float32, 2),
    ops="load_view_tko store_view_tko make_partition_view",
    launch=Launch(
        (3, 2, 1),
        lambda rng: {
            "source": _spread(rng, (11, 27)),
            "target": canvas((30, 24)).T[:11, :27],
        },
        lambda given: {"target": np.array(given["source"])},
    ),
)
@ct.kernel
def strided_copy_with_edges(source, target):
    index = (ct.bid(0), ct.bid(1))
    ct.store(target, index, ct.load(source, index, (4, 16)))


def _padded(given: Arguments) -> dict[str, Any]:
    rows = [
        np.concatenate([given["x"], np.full(6, value, given["x"].dtype)])
        for value in PADDING_VALUES
    ]
    return {"out": np.stack(rows)}


@ct.kernel
def padding_modes(x, out):
    for i, mode in ct.static_iter(enumerate(PADDINGS)):
        tile = ct.load(x, (0,), (16,), padding_mode=mode)
        ct.store(out, (i, 0), ct.expand_dims(tile, 0))


for _dtype in (ct.float16, ct.bfloat16, ct.float32, ct.float64):
    KERNELS.register(
        padding_modes,
        array(_dtype),
        array(_dtype, 2),
        name=f"padding_modes_{_dtype}",
        ops="load_view_tko",
        launch=Launch(
            (1, 1, 1),
            lambda rng, element=NUMPY_TYPES[_dtype]: {
                "x": uniform(rng, 10, dtype=element),
                "out": canvas((5, 16), element),
            },
            _padded,
        ),
    )


@KERNELS.add(
    array(ct.int16),
    array(ct.int16),
    ops="load_view_tko",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"x": integers(rng, 5, -9, 9, np.int16), "out": canvas(8, np.int16)},
        lambda given: {"out": np.pad(given["x"], (0, 3))},
    ),
)
@ct.kernel
def zero_padded_integers(x, out):
    ct.store(out, (0,), ct.load(x, (0,), (8,), padding_mode=ct.PaddingMode.ZERO))


@KERNELS.add(
    array(ct.float32, 2),
    array(ct.float32, 2),
    ops="permute load_view_tko store_view_tko",
    launch=Launch(
        (2, 4, 1),
        lambda rng: {"x": uniform(rng, (29, 13)), "out": canvas((13, 29))},
        lambda given: {"out": given["x"].T},
    ),
)
@ct.kernel
def transpose(x, out):
    row, column = ct.bid(1), ct.bid(0)
    ct.store(out, (column, row), ct.transpose(ct.load(x, (row, column), (8, 8))))


@KERNELS.add(
    array(ct.float32, 2),
    array(ct.float32, 3),
    array(ct.float32, 2),
    array(ct.float32, 3),
    ops="make_partition_view load_view_tko store_view_tko",
    launch=Launch(
        (2, 1, 1),
        lambda rng: {
            "a": uniform(rng, (4, 16)),
            "b": uniform(rng, (2, 4, 8)),
            "c": canvas((16, 4)),
            "d": canvas((8, 2, 4)),
        },
        lambda given: {"c": given["a"].T, "d": given["b"].transpose(2, 0, 1)},
    ),
)
@ct.kernel
def permuted_axes(a, b, c, d):
    i = ct.bid(0)
    # A block moves columns i * 8 .. i * 8 + 7 of `a`, and plane i of `b`.
    ct.store(c, (i, 0), ct.load(a, (i, 0), (8, 4), order="F"), order="C")
    plane = ct.load(b, (0, i, 0), (8, 1, 4), order=(2, 0, 1))
    ct.store(d, (i, 0, 0), ct.permute(plane, (1, 0, 2)), order=(1, 0, 2))


@KERNELS.add(
    array(ct.float32),
    array(ct.float32),
    ops="load_view_tko store_view_tko",
    launch=Launch(
        (2, 1, 1),
        lambda rng: {"x": uniform(rng, 30), "out": canvas(30)},
        lambda given: {"out": given["x"]},
    ),
)
@ct.kernel
def access_hints(x, out):
    i = ct.bid(0)
    tile = ct.load(x, (i,), (16,), latency=7, allow_tma=False)
    ct.store(out, (i,), tile, latency=1)
    ct.store(out, (i,), ct.load(x, (i,), (16,), allow_tma=True), allow_tma=False)


@KERNELS.add(
    array(ct.float32),
    array(ct.float32, 2),
    array(ct.float32),
    array(ct.float32, 2),
    since="13.4",
    ops="load_view_tko store_view_tko",
    launch=Launch(
        (2, 1, 1),
        lambda rng: {
            "x": uniform(rng, 32),
            "y": uniform(rng, (4, 8)),
            "p": canvas(32),
            "q": canvas((4, 8)),
        },
        lambda given: {"p": given["x"], "q": given["y"]},
    ),
)
@ct.kernel
def unchecked_bounds(x, y, p, q):
    i = ct.bid(0)
    ct.store(p, (i,), ct.load(x, (i,), (16,), check_bounds=False), check_bounds=False)
    tile = ct.load(y, (i, 0), (2, 8), check_bounds=False)
    ct.store(q, (i, 0), tile, check_bounds=False)


@KERNELS.add(
    array(ct.int32),
    array(ct.int32),
    ops="load_view_tko store_view_tko join_tokens",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"x": integers(rng, 8, 0, 99), "out": canvas(8, np.int32)},
        lambda given: {"out": given["x"] * 7},
        EXACT_INTEGERS,
    ),
)
@ct.kernel
def orders_and_scopes(x, out):
    total = ct.load(x, (0,), (8,), memory_order=WEAK)
    for order in ct.static_iter((RELAXED, ACQUIRE)):
        for scope in ct.static_iter((BLOCK, DEVICE, SYS)):
            total += ct.load(x, (0,), (8,), memory_order=order, memory_scope=scope)
    for order in ct.static_iter((RELAXED, RELEASE)):
        for scope in ct.static_iter((BLOCK, DEVICE, SYS)):
            ct.store(out, (0,), total, memory_order=order, memory_scope=scope)


@KERNELS.add(
    array(ct.float32),
    array(ct.float32, 2),
    ops="load_view_tko store_view_tko reshape",
    launch=Launch(
        (4, 1, 1),
        lambda rng: {"x": uniform(rng, 4), "out": canvas((4, 2))},
        lambda given: {"out": np.stack([given["x"], np.full(4, 5, np.float32)], axis=1)},
    ),
)
@ct.kernel
def single_elements(x, out):
    i = ct.bid(0)
    ct.store(out, (i, 0), ct.load(x, (i,), ()))
    ct.store(out, (i, 1), 5.0)


@KERNELS.add(
    array(ct.float32, 5),
    array(ct.float32, 5),
    ops="load_view_tko store_view_tko",
    launch=Launch(
        (2, 3, 2),
        lambda rng: {"x": uniform(rng, (2, 3, 3, 2, 5)), "out": canvas((2, 3, 3, 2, 5))},
        lambda given: {"out": given["x"] + 1},
    ),
)
@ct.kernel
def five_axes(x, out):
    index = (ct.bid(0), ct.bid(1), ct.bid(2), 0, 0)
    ct.store(out, index, ct.load(x, index, (1, 1, 2, 2, 8)) + 1)


@KERNELS.add(
    array(ct.float32, 0),
    array(ct.float32, 0),
    ops="load_ptr_tko store_ptr_tko",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"x": uniform(rng, ()), "out": canvas(())},
        lambda given: {"out": np.asarray(given["x"] + given["x"])},
    ),
)
@ct.kernel
def no_axes(x, out):
    tile = ct.gather(x, ())
    ct.scatter(out, (), tile + tile)


@KERNELS.add(
    *[array(ct.float32, 0)] * 2,
    ops="load_view_tko",
    refusal="0-dimension tile shape is not supported",
)
@ct.kernel
def view_without_axes(x, out):
    ct.store(out, (), ct.load(x, (), ()))


@KERNELS.add(
    array(ct.int32, alias_groups=("shared",)),
    array(ct.int32, alias_groups=("shared",), may_alias_internally=True),
    ops="load_view_tko store_view_tko join_tokens",
)
@ct.kernel
def aliasing_arrays(a, b):
    first = ct.load(a, (0,), (8,))
    ct.store(b, (0,), first + 1)
    ct.store(b, (1,), ct.load(a, (0,), (8,)) + first)


@KERNELS.add(
    array(ct.int32),
    array(ct.int32),
    ops="make_tensor_view load_view_tko store_view_tko subi addi",
    launch=Launch(
        (3, 1, 1),
        lambda rng: {
            "x": integers(rng, 40, 0, 99),
            "out": canvas(12, np.int32),
        },
        lambda given: {"out": np.concatenate([given["x"][i * 7 : i * 7 + 4] for i in range(3)])},
    ),
)
@ct.kernel
def sliced_array(x, out):
    i = ct.bid(0)
    window = x.slice(axis=0, start=i * 7, stop=i * 7 + 4)
    ct.store(out, (i,), ct.load(window, (0,), (4,)))


@KERNELS.add(
    array(ct.float32, 2),
    array(ct.float32, 2),
    ops="make_tensor_view",
    cutile=(1, 7),
    launch=Launch(
        (2, 1, 1),
        lambda rng: {"x": uniform(rng, (4, 8)), "out": canvas((4, 8))},
        lambda given: {"out": given["x"].reshape(8, 4).T},
    ),
)
@ct.kernel
def reinterpreted_array(x, out):
    # The same memory as a matrix of 4 columns by 8 rows, column first.
    columns = ct.Array.from_foreign(x.foreign_pointer, (4, 8), (1, 4))
    i = ct.bid(0)
    ct.store(out, (i, 0), ct.load(columns, (i, 0), (2, 8)))
