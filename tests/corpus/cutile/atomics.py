"""Atomic updates: every operation, element type, memory order and scope."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import EXACT_INTEGERS, Arguments, Launch
from tests.corpus.cutile._table import NUMPY_TYPES, KernelTable, array, canvas, integers

KERNELS = KernelTable("atomics")

RELAXED, ACQUIRE = ct.MemoryOrder.RELAXED, ct.MemoryOrder.ACQUIRE
RELEASE, ACQ_REL = ct.MemoryOrder.RELEASE, ct.MemoryOrder.ACQ_REL
SCOPES = (ct.MemoryScope.BLOCK, ct.MemoryScope.DEVICE, ct.MemoryScope.SYS)
INTEGERS = (ct.int32, ct.int64, ct.uint32, ct.uint64)


@KERNELS.add(
    array(ct.int32),
    array(ct.int32),
    ops="atomic_rmw_tko offset",
    launch=Launch(
        (8, 1, 1),
        lambda rng: {
            "x": integers(rng, 250, 0, 15),
            "bins": integers(rng, 16, 0, 9),
        },
        lambda given: {
            "bins": given["bins"] + np.bincount(given["x"], minlength=16).astype(np.int32)
        },
    ),
)
@ct.kernel
def histogram(x, bins):
    i = ct.bid(0) * 32 + ct.arange(32, dtype=ct.int32)
    value = ct.gather(x, i, padding_value=-1)
    ct.atomic_add(bins, value, 1)


def _all_updates(given: Arguments) -> dict[str, Any]:
    x, old = given["x"], given["state"]
    combine = (np.add, np.maximum, np.minimum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
    rows = [function(old[i], x) for i, function in enumerate(combine)] + [x]
    return {"state": np.stack(rows), "seen": old}


@ct.kernel
def atomic_updates(x, state, seen):
    column = ct.bid(0) * 8 + ct.arange(8, dtype=ct.int32)
    tile = ct.gather(x, column)
    rows = (ct.atomic_add(state, (0, column), tile), ct.atomic_max(state, (1, column), tile))
    rows += (ct.atomic_min(state, (2, column), tile), ct.atomic_and(state, (3, column), tile))
    rows += (ct.atomic_or(state, (4, column), tile), ct.atomic_xor(state, (5, column), tile))
    rows += (ct.atomic_xchg(state, (6, column), tile),)
    for i, row in ct.static_iter(enumerate(rows)):
        ct.scatter(seen, (i, column), row)


for _dtype in INTEGERS:
    KERNELS.register(
        atomic_updates,
        array(_dtype),
        array(_dtype, 2),
        array(_dtype, 2),
        name=f"atomic_updates_{_dtype}",
        ops="atomic_rmw_tko store_ptr_tko load_ptr_tko",
        launch=Launch(
            (3, 1, 1),
            lambda rng, element=NUMPY_TYPES[_dtype]: {
                "x": rng.integers(0, 2**32 - 1, 21, np.uint64).astype(element),
                "state": rng.integers(0, 2**32 - 1, (7, 21), np.uint64).astype(element),
                "seen": canvas((7, 21), element),
            },
            _all_updates,
        ),
    )


@ct.kernel
def atomic_float_add(x, total):
    i = ct.bid(0)
    ct.atomic_add(total, ct.arange(16, dtype=ct.int32) // 4, ct.load(x, (i,), (16,)))


for _dtype, _since in (
    (ct.float16, "13.1"),
    (ct.bfloat16, "13.3"),
    (ct.float32, "13.1"),
    (ct.float64, "13.1"),
):
    KERNELS.register(
        atomic_float_add,
        array(_dtype),
        array(_dtype),
        name=f"atomic_float_add_{_dtype}",
        since=_since,
        ops="atomic_rmw_tko",
        launch=Launch(
            (4, 1, 1),
            lambda rng, element=NUMPY_TYPES[_dtype]: {
                "x": integers(rng, 64, -7, 7, element),
                "total": np.zeros(4, element),
            },
            lambda given: {
                "total": given["x"]
                .reshape(4, 4, 4)
                .astype(np.float64)
                .sum(axis=(0, 2))
                .astype(given["total"].dtype)
            },
            EXACT_INTEGERS,
        ),
    )


@KERNELS.add(
    array(ct.float32), array(ct.float64), array(ct.float32), array(ct.float64), ops="atomic_rmw_tko"
)
@ct.kernel
def atomic_float_exchange(x, y, old_x, old_y):
    i = ct.arange(8, dtype=ct.int32)
    ct.store(old_x, (0,), ct.atomic_xchg(x, i, 1.5, check_bounds=False))
    ct.store(old_y, (0,), ct.atomic_xchg(y, i, 2.5))


@ct.kernel
def orders_and_scopes(x, out):
    i = ct.arange(4, dtype=ct.int32)
    seen = ct.zeros((4,), x.dtype)
    one, five, six = ct.full((), 1, x.dtype), ct.full((), 5, x.dtype), ct.full((), 6, x.dtype)
    for order in ct.static_iter((RELAXED, ACQUIRE, RELEASE, ACQ_REL)):
        for scope in ct.static_iter(SCOPES):
            seen += ct.atomic_add(x, i, one, memory_order=order, memory_scope=scope)
            seen += ct.atomic_cas(x, i, five, six, memory_order=order, memory_scope=scope)
    ct.store(out, (0,), seen)


def _counted(given: Arguments) -> dict[str, Any]:
    value, seen = given["x"].astype(np.int64).copy(), np.zeros(4, np.int64)
    for _ in range(12):
        seen += value
        value += 1
        seen += value
        value = np.where(value == 5, 6, value)
    return {
        "x": value.astype(given["x"].dtype),
        "out": seen.astype(given["x"].dtype),
    }


for _dtype in INTEGERS:
    KERNELS.register(
        orders_and_scopes,
        array(_dtype),
        array(_dtype),
        name=f"atomic_orders_and_scopes_{_dtype}",
        ops="atomic_rmw_tko atomic_cas_tko",
        launch=Launch(
            (1, 1, 1),
            lambda rng, element=NUMPY_TYPES[_dtype]: {
                "x": integers(rng, 4, 0, 9, element),
                "out": canvas(4, element),
            },
            _counted,
        ),
    )


@KERNELS.add(
    array(ct.float32),
    array(ct.float64),
    array(ct.float32),
    array(ct.float64),
    ops="atomic_cas_tko",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {
            "x": integers(rng, 8, 0, 2, np.float32),
            "y": integers(rng, 8, 0, 2, np.float64),
            "p": canvas(8),
            "q": canvas(8, np.float64),
        },
        lambda given: {
            "x": np.where(given["x"] == 1, np.float32(9), given["x"]),
            "y": np.where(given["y"] == 2, 7.0, given["y"]),
            "p": given["x"],
            "q": given["y"],
        },
    ),
)
@ct.kernel
def float_compare_and_swap(x, y, p, q):
    i = ct.arange(8, dtype=ct.int32)
    ct.store(p, (0,), ct.atomic_cas(x, i, 1.0, 9.0))
    ct.store(q, (0,), ct.atomic_cas(y, i, 2.0, 7.0, check_bounds=False))


def _raw_updates(given: Arguments) -> dict[str, Any]:
    state, x = given["state"].copy(), given["x"]
    on = np.arange(8) % 2 == 0
    combine = (np.add, np.maximum, np.minimum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
    for i, function in enumerate((*combine, lambda old, new: new)):
        state[i] = np.where(on, function(state[i], x), state[i])
    state[7] = np.where(on & (state[7] == 3), x, state[7])
    return {"state": state}


@KERNELS.add(
    array(ct.int32),
    array(ct.int32, 2),
    ops="atomic_rmw_tko atomic_cas_tko offset",
    launch=Launch(
        (1, 1, 1),
        lambda rng: {"x": integers(rng, 8, 0, 9), "state": integers(rng, (8, 8), 2, 4)},
        _raw_updates,
    ),
)
@ct.kernel
def raw_memory_atomics(x, state):
    lane = ct.arange(8, dtype=ct.int32)
    tile = ct.load(x, (0,), (8,))
    raw = state.get_raw_memory()
    on = lane % 2 == 0
    raw.atomic_add_offset(lane, tile, mask=on)
    raw.atomic_max_offset(lane + 8, tile, mask=on, memory_order=RELAXED)
    raw.atomic_min_offset(lane + 16, tile, mask=on, memory_scope=ct.MemoryScope.SYS)
    raw.atomic_and_offset(lane + 24, tile, mask=on)
    raw.atomic_or_offset(lane + 32, tile, mask=on)
    raw.atomic_xor_offset(lane + 40, tile, mask=on)
    raw.atomic_xchg_offset(lane + 48, tile, mask=on)
    raw.atomic_cas_offset(lane + 56, 3, tile, mask=on)


def _view_updates(given: Arguments) -> dict[str, Any]:
    x, state = given["x"], given["state"]
    combine = (np.add, np.maximum, np.minimum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
    return {"state": np.stack([function(old, x) for function, old in zip(combine, state)])}


@ct.kernel
def view_atomics(x, state):
    i = ct.bid(0)
    tile = ct.load(x, (i,), (8,))[None, :]
    view = state.tiled_view((1, 8))
    view.atomic_store_add((0, i), tile)
    view.atomic_store_max((1, i), tile)
    view.atomic_store_min((2, i), tile)
    view.atomic_store_and((3, i), tile)
    view.atomic_store_or((4, i), tile)
    view.atomic_store_xor((5, i), tile)


for _dtype in INTEGERS:
    KERNELS.register(
        view_atomics,
        array(_dtype),
        array(_dtype, 2),
        name=f"view_atomics_{_dtype}",
        since="13.3",
        ops="atomic_red_view_tko",
        launch=Launch(
            (3, 1, 1),
            lambda rng, element=NUMPY_TYPES[_dtype]: {
                "x": integers(rng, 20, 0, 99, element),
                "state": integers(rng, (6, 20), 0, 99, element),
            },
            _view_updates,
        ),
    )


@KERNELS.add(
    array(ct.float32),
    array(ct.float16),
    array(ct.bfloat16),
    array(ct.float64),
    since="13.3",
    ops="atomic_red_view_tko make_strided_view",
    launch=Launch(
        (4, 1, 1),
        lambda rng: {
            "a": np.zeros(14, np.float32),
            "b": np.zeros(8, np.float16),
            "c": np.zeros(8, NUMPY_TYPES[ct.bfloat16]),
            "d": np.zeros(8, np.float64),
        },
        lambda given: {
            "a": sum(
                ((np.arange(14) // 2 >= i) & (np.arange(14) // 2 < i + 4)).astype(np.float32)
                for i in range(4)
            ),
            "b": np.full(8, 4, np.float16),
            "c": np.full(8, 4, np.float32).astype(NUMPY_TYPES[ct.bfloat16]),
            "d": np.full(8, 4.0),
        },
        EXACT_INTEGERS,
    ),
)
@ct.kernel
def float_view_atomics(a, b, c, d):
    a.tiled_view(8, traversal_steps=2).atomic_store_add(ct.bid(0), ct.ones((8,), ct.float32))
    for target in ct.static_iter((b, c, d)):
        target.tiled_view(8).atomic_store_add(0, ct.ones((8,), target.dtype))
