"""Atomics of every kind, order and scope."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import EXACT_INTEGERS, Arguments
from tests.corpus.cutile._table import canvas, integers
from tests.cutile.api._cases import Cases

CASES = Cases()

ORDERS = (
    ct.MemoryOrder.RELAXED,
    ct.MemoryOrder.ACQUIRE,
    ct.MemoryOrder.RELEASE,
    ct.MemoryOrder.ACQ_REL,
)
SCOPES = (ct.MemoryScope.BLOCK, ct.MemoryScope.DEVICE, ct.MemoryScope.SYS)
#: How often each update is applied: by default, and in every order at every scope.
TIMES = 1 + len(ORDERS) * len(SCOPES)


def _inputs(rng: np.random.Generator) -> dict[str, Any]:
    state = integers(rng, (8, 8), 0, 99)
    state[7] = np.where(np.arange(8) % 3, 0, 50)
    return {"x": integers(rng, 8, 0, 9), "state": state, "seen": canvas((8, 8), np.int32)}


def _updated(given: Arguments) -> dict[str, Any]:
    """The state after all updates, and what the last of each kind has seen."""
    x, state = given["x"], given["state"]
    after = [state[0] + TIMES * x, np.maximum(state[1], x), np.minimum(state[2], x)]
    after += [state[3] & x, state[4] | x, state[5] ^ x, x, np.where(state[7] == 0, TIMES, 50)]
    seen = after.copy()
    assert TIMES % 2 == 1
    seen[0], seen[5] = after[0] - x, state[5]
    seen[7] = np.where(state[7] == 0, TIMES - 1, 50)
    return {"state": np.stack(after).astype(np.int32), "seen": np.stack(seen).astype(np.int32)}


@CASES.add(_inputs, _updated)
@ct.kernel
def orders_and_scopes(x, state, seen):
    lane = ct.arange(8, dtype=ct.int32)
    tile = ct.load(x, (0,), (8,))
    functions = (ct.atomic_add, ct.atomic_max, ct.atomic_min, ct.atomic_and, ct.atomic_or)
    functions += (ct.atomic_xor, ct.atomic_xchg)
    for row, function in ct.static_iter(enumerate(functions)):
        old = function(state, (row, lane), tile)
        for order in ct.static_iter(ORDERS):
            for scope in ct.static_iter(SCOPES):
                at = (row, lane)
                old = function(
                    state, at, tile, check_bounds=False, memory_order=order, memory_scope=scope
                )
        ct.store(seen, (row, 0), old[None, :])
    ct.atomic_cas(state, (7, lane), 0, 1)
    step = 1
    for order in ct.static_iter(ORDERS):
        for scope in ct.static_iter(SCOPES):
            old = ct.atomic_cas(
                *(state, (7, lane), step, step + 1),
                check_bounds=False,
                memory_order=order,
                memory_scope=scope,
            )
            step += 1
    ct.store(seen, (7, 0), old[None, :])


def raw_update(method, offset, update, hints):
    """One atomic update through raw memory."""
    mask, order, scope = hints
    return method(offset, update, mask=mask, memory_order=order, memory_scope=scope)


@CASES.add(_inputs, _updated)
@ct.kernel
def raw_orders_and_scopes(x, state, seen):
    lane = ct.arange(16, dtype=ct.int32)
    tile = ct.gather(x, lane % 8)
    raw = state.get_raw_memory()
    first = lane < 8

    def update(order, scope):
        hints = (first, order, scope)
        return (
            raw_update(raw.atomic_add_offset, lane, tile, hints),
            raw_update(raw.atomic_max_offset, lane + 8, tile, hints),
            raw_update(raw.atomic_min_offset, lane + 16, tile, hints),
            raw_update(raw.atomic_and_offset, lane + 24, tile, hints),
            raw_update(raw.atomic_or_offset, lane + 32, tile, hints),
            raw_update(raw.atomic_xor_offset, lane + 40, tile, hints),
            raw_update(raw.atomic_xchg_offset, lane + 48, tile, hints),
        )

    old = update(ct.MemoryOrder.ACQ_REL, ct.MemoryScope.DEVICE)
    for order in ct.static_iter(ORDERS):
        for scope in ct.static_iter(SCOPES):
            old = update(order, scope)
    for row in ct.static_iter(range(7)):
        ct.store(seen, (row, 0), old[row].extract((0,), (8,))[None, :])
    raw.atomic_cas_offset(lane + 56, 0, 1, mask=first)
    step = 1
    for order in ct.static_iter(ORDERS):
        for scope in ct.static_iter(SCOPES):
            old = raw.atomic_cas_offset(
                *(lane + 56, step, step + 1),
                mask=first,
                memory_order=order,
                memory_scope=scope,
            )
            step += 1
    ct.store(seen, (7, 0), old.extract((0,), (8,))[None, :])


def _view_updates(given: Arguments) -> dict[str, Any]:
    x, state = given["x"], given["state"]
    combine = (np.add, np.maximum, np.minimum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
    return {"state": np.stack([function(old, x) for function, old in zip(combine, state)])}


@CASES.add(
    lambda rng: {"x": integers(rng, 12, 0, 99), "state": integers(rng, (6, 12), 0, 99)},
    _view_updates,
    grid=(2,),
)
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


@CASES.add(
    lambda rng: {"x": integers(rng, 64, 0, 9), "bins": np.zeros(10, np.int32)},
    lambda given: {"bins": np.bincount(given["x"], minlength=10).astype(np.int32)},
    grid=(8,),
    tolerance=EXACT_INTEGERS,
)
@ct.kernel
def contended_addition(x, bins):
    # 10 and more are no indices: nothing is added for them.
    values = ct.load(x, (ct.bid(0),), (8,))
    ct.atomic_add(bins, values, 1)
    ct.atomic_add(bins, values + 10, 1)
