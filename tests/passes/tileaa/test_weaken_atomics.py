"""``weaken-atomics``: which ordered updates become relaxed, and that nobody can tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr, tile
from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.lowering import lower_to_tileaa
from tilewright.machine.sanitize import sanitize
from tilewright.passes import run_pipeline
from tilewright.passes.tileaa.weaken_atomics import weaken_atomics
from tilewright.passes.tileas.remarks import Remarks

TILE, BLOCKS, BINS = 8, 4, 5
More = Callable[[Builder, Value], None]
"""What else a kernel does, given its tile of pointers into ``bins``."""


def _nothing(k: Builder, where: Value) -> None:
    pass


def _kernel(
    more: More = _nothing, ordering: str = "acq_rel", scope: str = "device", mode: str = "add"
) -> Any:
    """``bins[x[i]] += 1`` for the elements of a block."""
    module = ModuleBuilder()
    parameters = {"x": ptr("i32"), "bins": ptr("i32"), "out": ptr("i32")}
    with module.entry("k", parameters) as k:
        block, _, _ = k.get_tile_block_id()
        view = k.make_tensor_view(k.args.x, shape=[TILE * BLOCKS], strides=[1])
        x, _ = k.load_view_tko(k.partition(view, tile=(TILE,)), [block])
        bins = k.broadcast(k.reshape(k.args.bins, shape=(1,)), shape=(TILE,))
        where = k.offset(bins, x)
        ones = k.constant(1, tile((TILE,), "i32"))
        k.atomic_rmw_tko(
            where,
            ones,
            mode=mode,
            memory_ordering_semantics=ordering,
            memory_scope=scope,
        )
        more(k, where)
    return module.build()


def _update(k: Builder, base: Value, ordering: str = "acq_rel") -> Value:
    old, _ = k.atomic_rmw_tko(
        base,
        k.constant(1, "i32"),
        mode="add",
        memory_ordering_semantics=ordering,
        memory_scope="device",
    )
    return old


def _second_array(k: Builder, where: Value) -> None:
    _update(k, k.args.out, "release")


def _unused_exchange(k: Builder, where: Value) -> None:
    k.atomic_cas_tko(
        k.args.out,
        k.constant(0, "i32"),
        k.constant(1, "i32"),
        memory_ordering_semantics="acquire",
        memory_scope="device",
    )


def _in_a_loop(k: Builder, where: Value) -> None:
    zero, one = k.constant(0, "i32"), k.constant(1, "i32")

    def body(inner: Builder, step: Value, total: Value) -> Value:
        _update(inner, inner.args.out)
        return inner.addi(total, step)

    k.for_(zero, k.constant(3, "i32"), one, [zero], body)


def _old_value(k: Builder, where: Value) -> None:
    k.store_ptr_tko(k.args.out, _update(k, k.args.out), memory_ordering_semantics="weak")


def _load_of_the_array(k: Builder, where: Value) -> None:
    k.load_ptr_tko(where, memory_ordering_semantics="weak")


def _store_elsewhere(k: Builder, where: Value) -> None:
    k.store_ptr_tko(k.args.out, k.constant(1, "i32"), memory_ordering_semantics="weak")


def _acquire(k: Builder, where: Value) -> None:
    k.load_ptr_tko(k.args.out, memory_ordering_semantics="acquire", memory_scope="device")


def _relaxed_load(k: Builder, where: Value) -> None:
    k.load_ptr_tko(k.args.out, memory_ordering_semantics="relaxed", memory_scope="device")


def _any_address(k: Builder, where: Value) -> None:
    anywhere = k.int_to_ptr(k.ptr_to_int(k.args.out), type=ptr("i32"))
    k.load_ptr_tko(anywhere, memory_ordering_semantics="weak")


def _print(k: Builder, where: Value) -> None:
    k.print_tko(k.constant(1, "i32"), str="%i")


FIRES: dict[str, More] = {
    "alone": _nothing,
    "another array": _second_array,
    "an exchange that nobody reads": _unused_exchange,
    "a loop": _in_a_loop,
}
STAYS: dict[str, tuple[More, str]] = {
    "an old value": (_old_value, "result of an atomic"),
    "a load of the array": (_load_of_the_array, "may read what an atomic writes"),
    "a store": (_store_elsewhere, "also stores"),
    "an acquiring load": (_acquire, "not weak"),
    "a relaxed load": (_relaxed_load, "not weak"),
    "any address": (_any_address, "may read"),
    "a print": (_print, "may observe"),
}


def _semantics(module: Any) -> list[str]:
    updates = ("nv_tileaa.atomic_rmw", "nv_tileaa.atomic_cas")
    return [enum_property(op, "mem_semantic") for op in module.walk() if op.name in updates]


def _weakened(module: Any) -> tuple[list[str], list[str], str]:
    """The semantics of the updates before and after the pass, and its remarks."""
    lowered = lower_to_tileaa(module).module
    before = _semantics(lowered)
    found = Remarks()
    for op in list(lowered.walk()):
        if isinstance(op, FuncOp):
            weaken_atomics(op, found)
    return before, _semantics(lowered), "; ".join(remark.message for remark in found.found)


@pytest.mark.parametrize("more", FIRES.values(), ids=FIRES)
def test_fires(more: More):
    before, after, remarks = _weakened(_kernel(more))
    assert "acq_rel" in before
    assert set(after) == {"relaxed"} and not remarks


@pytest.mark.parametrize(("more", "reason"), STAYS.values(), ids=STAYS)
def test_stays(more: More, reason: str):
    before, after, remarks = _weakened(_kernel(more))
    assert after == before and "acq_rel" in after
    assert reason in remarks


def test_stays_for_observers_outside():
    before, after, remarks = _weakened(_kernel(scope="sys"))
    assert before == after == ["acq_rel"] and "sys" in remarks


@pytest.mark.parametrize("more", FIRES.values(), ids=FIRES)
def test_same_results_and_no_races_on_both_sides(more: More):
    x = np.random.default_rng(0).integers(0, BINS, TILE * BLOCKS, np.int32)
    results = []
    for pipeline in ("lower-cuda-tile-to-tileaa", "lower-cuda-tile-to-tileaa,cpu"):
        module = run_pipeline(_kernel(more), pipeline, verify_each=True)
        bins, out = np.zeros(BINS, np.int32), np.zeros(1, np.int32)
        tilewright.run(module, "k", (BLOCKS,), (x, bins, out), machine="reference")
        results.append([bins.tolist(), out.tolist()])
    assert results[0] == results[1]
    assert results[0][0] == np.bincount(x, minlength=BINS).tolist()


@pytest.mark.parametrize("ordering", ["acq_rel", "relaxed"])
def test_the_sanitizer_finds_no_race_with_either_order(ordering: str):
    x = np.random.default_rng(0).integers(0, BINS, TILE * BLOCKS, np.int32)
    arrays = (x, np.zeros(BINS, np.int32), np.zeros(1, np.int32))
    report = sanitize(_kernel(ordering=ordering), "k", (BLOCKS,), arrays, LaunchOptions(seeds=8))
    assert not report.findings


def _message(ordering: str) -> Any:
    """Block 0 writes, then raises a flag; block 1 reads if it sees the flag."""
    module = ModuleBuilder()
    with module.entry("k", {"data": ptr("i32"), "flag": ptr("i32"), "out": ptr("i32")}) as k:
        block, _, _ = k.get_tile_block_id()
        first = k.cmpi(
            block, k.constant(0, "i32"), comparison_predicate="equal", signedness="signed"
        )

        def send(inner: Builder) -> None:
            inner.store_ptr_tko(
                inner.args.data, inner.constant(7, "i32"), memory_ordering_semantics="weak"
            )
            _update(inner, inner.args.flag, ordering)

        def receive(inner: Builder) -> None:
            seen = _update(inner, inner.args.flag, ordering)
            came = inner.cmpi(
                seen, inner.constant(1, "i32"), comparison_predicate="equal", signedness="signed"
            )

            def read(innermost: Builder) -> None:
                found, _ = innermost.load_ptr_tko(
                    innermost.args.data, memory_ordering_semantics="weak"
                )
                innermost.store_ptr_tko(innermost.args.out, found, memory_ordering_semantics="weak")

            inner.if_(came, read)

        k.if_(first, send, receive)
    return module.build()


def test_a_message_needs_its_order():
    """What the pass must not do: without the order the sanitizer finds a race."""
    found = {}
    for ordering in ("acq_rel", "relaxed"):
        arrays = [np.zeros(1, np.int32) for _ in range(3)]
        report = sanitize(_message(ordering), "k", (2,), arrays, LaunchOptions(seeds=16))
        found[ordering] = bool(report.findings)
    assert found["relaxed"]
    before, after, _ = _weakened(_message("acq_rel"))
    assert before == after
