"""Atomic updates that are gathered in private copies: the same sums, and none where others could tell."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr, tile
from tilewright.cpu import Program
from tilewright.cpu.codegen.memory.privatization import _LARGEST
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.runtime.updates import UPDATE_LOCK
from tilewright.diagnostics import TileIRError
from tilewright.lowering import lower_to_tileaa
from tilewright.text import parse

TILE, BLOCKS = 128, 64
TOTAL = TILE * BLOCKS

UPDATES: dict[str, np.ufunc] = {
    "add": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
    "umin": np.minimum,
    "umax": np.maximum,
}
More = Callable[[Builder, Value, Value], None]
"""What else a kernel does, given its tile of pointers into ``bins`` and the values."""


def _spread(k: Builder, value: Value) -> Value:
    return k.broadcast(k.reshape(value, shape=(1,)), shape=(TILE,))


def _tiles(k: Builder, base: Value) -> Value:
    view = k.make_tensor_view(base, shape=[TOTAL], strides=[1])
    return k.partition(view, tile=(TILE,))


def _kernel(
    mode: str = "add",
    element: str = "i32",
    *,
    masked: bool = False,
    ordering: str = "relaxed",
    scope: str = "device",
    more: More | None = None,
) -> Any:
    """``bins[x[i]] = mode(bins[x[i]], values[i])``, masked by ``values[i] >= 0``."""
    module = ModuleBuilder()
    pointers = {"x": ptr("i32"), "values": ptr(element), "bins": ptr(element), "out": ptr(element)}
    with module.entry("k", pointers) as k:
        block, _, _ = k.get_tile_block_id()
        x, _ = k.load_view_tko(_tiles(k, k.args.x), [block])
        values, _ = k.load_view_tko(_tiles(k, k.args.values), [block])
        where = k.offset(_spread(k, k.args.bins), x)
        on = None
        if masked:
            zero = k.constant(0, tile((TILE,), element))
            on = k.cmpi(
                values, zero, comparison_predicate="greater_than_or_equal", signedness="signed"
            )
        k.atomic_rmw_tko(
            where,
            values,
            *([] if on is None else [on]),
            mode=mode,
            memory_ordering_semantics=ordering,
            memory_scope=scope,
        )
        if more is not None:
            more(k, where, values)
    return module.build()


def _is_private(module: Any, **options: Any) -> bool:
    compiled = compile_kernel(lower_to_tileaa(module).module, None, CompileOptions(**options))
    return compiled.asks_for_memory


def _data(element: str, bins: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Positions, values and the first contents of the bins."""
    generator = np.random.default_rng(seed)
    kind = np.dtype(f"int{element[1:]}")
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    x = generator.integers(0, bins, TOTAL, np.int32)
    values = generator.integers(low, high, TOTAL, kind, endpoint=True)
    return x, values, generator.integers(low, high, bins, kind, endpoint=True)


def _expected(mode: str, x: Any, values: Any, bins: Any, masked: bool) -> Any:
    chosen = values >= 0 if masked else np.ones(len(values), bool)
    kind = f"u{bins.dtype}" if mode.startswith("u") else bins.dtype
    result = bins.copy()
    UPDATES[mode].at(result.view(kind), x[chosen], values[chosen].view(kind))
    return result


def _run(module: Any, x: Any, values: Any, bins: Any, **options: Any) -> Any:
    found, out = bins.copy(), np.zeros_like(values)
    _program(module, **options).launch("k", BLOCKS, (x, values, found, out))
    return found


@functools.lru_cache(maxsize=8)
def _program(module: Any, **options: Any) -> Program:
    return Program(module, options=LaunchOptions(**options))


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("element", ["i32", "i64"])
@pytest.mark.parametrize("mode", UPDATES)
def test_all_kinds_of_updates(mode: str, element: str, masked: bool):
    module = _kernel(mode, element, masked=masked)
    assert _is_private(module)
    for bins in (1, 3, 100, 1000):
        data = _data(element, bins)
        for options in ({"threads": 1}, {"threads": 2}, {"threads": 2, "checked": True}):
            assert (_run(module, *data, **options) == _expected(mode, *data, masked)).all()
        with UPDATE_LOCK.together():
            assert (_run(module, *data, threads=1) == _expected(mode, *data, masked)).all()


@pytest.mark.parametrize("cpu", ["generic", "host"])
def test_blocks_that_meet_in_one_element(cpu: str):
    x, values = np.zeros(TOTAL, np.int32), np.ones(TOTAL, np.int64)
    program = Program(_kernel("add", "i64"), options=LaunchOptions(cpu=cpu, threads=2))
    bins = np.zeros(2, np.int64)
    for launch in range(1, 20):
        program.launch("k", BLOCKS, (x, values, bins, np.zeros_like(values)))
        assert bins.tolist() == [launch * TOTAL, 0]


@pytest.mark.parametrize("size", [_LARGEST // 4 - 1, _LARGEST // 4, _LARGEST // 4 + 1, 1 << 20])
def test_arrays_about_as_large_as_copies_may_be(size: int):
    blocks = 4 * size // TILE + 1
    x = np.resize(np.arange(size - 1, -1, -1, dtype=np.int32), TILE * blocks)
    x[x.size // 2 :] = size - 1
    module = parse(
        f"""
        cuda_tile.module @m {{
          entry @k(%x: tile<ptr<i32>>, %bins: tile<ptr<i32>>) {{
            %b, %b1, %b2 = get_tile_block_id : tile<i32>
            %xv = make_tensor_view %x, shape = [{x.size}], strides = [1] : tensor_view<{x.size}xi32, strides=[1]>
            %xt = make_partition_view %xv : partition_view<tile=({TILE}), tensor_view<{x.size}xi32, strides=[1]>>
            %at, %t = load_view_tko weak %xt[%b] : partition_view<tile=({TILE}), tensor_view<{x.size}xi32, strides=[1]>>, tile<i32> -> tile<{TILE}xi32>, token
            %b1d = reshape %bins : tile<ptr<i32>> -> tile<1xptr<i32>>
            %bs = broadcast %b1d : tile<1xptr<i32>> -> tile<{TILE}xptr<i32>>
            %p = offset %bs, %at : tile<{TILE}xptr<i32>>, tile<{TILE}xi32> -> tile<{TILE}xptr<i32>>
            %one = constant <i32: 1> : tile<{TILE}xi32>
            %o, %u = atomic_rmw_tko relaxed device %p, add, %one
              : tile<{TILE}xptr<i32>>, tile<{TILE}xi32> -> tile<{TILE}xi32>, token
            return
          }}
        }}
        """
    )
    assert _is_private(module)
    bins = np.zeros(size, np.int32)
    with UPDATE_LOCK.together():  # so that the thread does not count as alone
        Program(module, options=LaunchOptions(threads=1)).launch("k", blocks, (x, bins))
    assert (bins == np.bincount(x, minlength=size)).all()


def test_updates_outside_of_the_array_go_where_they_point():
    x, values, _ = _data("i32", 300)
    room = np.zeros(300, np.int32)
    expected = _expected("add", x, values, room, False)
    out = np.zeros_like(values)
    program = Program(_kernel(), options=LaunchOptions(threads=2))
    program.launch("k", BLOCKS, (x, values, room[:100], out))
    assert (room == expected).all()
    with pytest.raises(TileIRError, match="the memory of argument 2"):
        Program(_kernel(), options=LaunchOptions(checked=True)).launch(
            "k", BLOCKS, (x, values, room[:100], out)
        )


def test_arrays_that_overlap_keep_the_order_of_accesses():
    module, bins = _kernel(), 64
    x, _, first = _data("i32", bins)
    # What is added lies in the bins themselves: each block must see what those before it did.
    memory = np.zeros(TOTAL, np.int32)
    memory[:bins] = first
    expected = memory.copy()
    for block in range(BLOCKS):
        part = slice(block * TILE, (block + 1) * TILE)
        np.add.at(expected, x[part], expected[part].copy())
    out = np.zeros(TOTAL, np.int32)
    program = Program(module, options=LaunchOptions(threads=1))
    program.launch(
        "k", BLOCKS, (x, memory, memory[:bins], out), options=LaunchOptions(allow_overlap=True)
    )
    assert (memory == expected).all()


def test_bare_addresses():
    x, values, bins = _data("i32", 50)
    expected = _expected("add", x, values, bins, False)
    arguments = (x, values, bins.ctypes.data, np.zeros_like(values))
    Program(_kernel(), options=LaunchOptions(threads=2)).launch("k", BLOCKS, arguments)
    assert (bins == expected).all()


def test_two_launches_at_once_lose_nothing():
    import threading

    x, _, _ = _data("i32", 10)
    ones, bins = np.ones(TOTAL, np.int32), np.zeros(10, np.int32)
    program = Program(_kernel(), options=LaunchOptions(threads=2))
    program.prepare()

    def work() -> None:
        for _ in range(20):
            program.launch("k", BLOCKS, (x, ones, bins, np.zeros_like(ones)))

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (bins == 60 * np.bincount(x, minlength=10)).all()


# -- kernels in which others can tell when an update was made --------------------------------------


def _read_the_array(k: Builder, where: Value, values: Value) -> None:
    found, _ = k.load_ptr_tko(where, memory_ordering_semantics="weak")
    block, _, _ = k.get_tile_block_id()
    k.store_view_tko(found, _tiles(k, k.args.out), [block])


def _write_the_array(k: Builder, where: Value, values: Value) -> None:
    k.store_ptr_tko(where, values, memory_ordering_semantics="weak")


def _update_otherwise(k: Builder, where: Value, values: Value) -> None:
    k.atomic_rmw_tko(
        where,
        values,
        mode="max",
        memory_ordering_semantics="relaxed",
        memory_scope="device",
    )


def _use_the_old_value(k: Builder, where: Value, values: Value) -> None:
    old, _ = k.atomic_rmw_tko(
        where,
        values,
        mode="add",
        memory_ordering_semantics="relaxed",
        memory_scope="device",
    )
    block, _, _ = k.get_tile_block_id()
    k.store_view_tko(old, _tiles(k, k.args.out), [block])


def _order_something(k: Builder, where: Value, values: Value) -> None:
    k.load_ptr_tko(k.args.out, memory_ordering_semantics="acquire", memory_scope="device")


def _follow_an_address(k: Builder, where: Value, values: Value) -> None:
    number = k.ptr_to_int(k.args.out)
    anywhere = k.int_to_ptr(number, type=ptr("i32"))
    k.load_ptr_tko(anywhere, memory_ordering_semantics="weak")


def _store_elsewhere(k: Builder, where: Value, values: Value) -> None:
    block, _, _ = k.get_tile_block_id()
    k.store_view_tko(values, _tiles(k, k.args.out), [block])


OBSERVERS: dict[str, More] = {
    "a load": _read_the_array,
    "a store": _write_the_array,
    "another kind of update": _update_otherwise,
    "the old value": _use_the_old_value,
    "an order": _order_something,
    "any address": _follow_an_address,
}


@pytest.mark.parametrize("observer", OBSERVERS)
def test_kernels_that_could_tell_have_no_copies(observer: str):
    assert not _is_private(_kernel(more=OBSERVERS[observer]))


def test_stronger_updates_and_arguments_that_may_overlap_have_no_copies():
    assert _is_private(_kernel())
    assert not _is_private(_kernel(), distinct_arguments=False)
    assert not _is_private(_kernel(scope="sys"))
    for ordering in ("acq_rel", "release", "acquire"):
        # Alone they order nothing (``weaken-atomics``); with a store they may.
        assert _is_private(_kernel(ordering=ordering))
        assert not _is_private(_kernel(ordering=ordering, more=_store_elsewhere))
    assert _is_private(_kernel(more=_store_elsewhere))


def test_floats_are_added_in_order_where_one_thread_runs():
    x = np.zeros(TOTAL, np.int32)
    values = np.tile(np.array([1e8, 1.0, -1e8, 1.0], np.float32), TOTAL // 4)
    found = _run(_kernel("addf", "f32"), x, values, np.zeros(1, np.float32), threads=1)
    total = np.float32(0)
    for value in values:
        total = np.float32(total + value)
    assert found[0] == total


FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


@pytest.mark.parametrize("bins", [1, 7, 1000])
@pytest.mark.parametrize("element", FLOATS)
def test_sums_of_floats(element: str, bins: int):
    """Sums that are exact in any order."""
    module = _kernel("addf", element)
    assert _is_private(module)
    generator = np.random.default_rng(bins)
    x = generator.integers(0, bins, TOTAL, np.int32)
    values = np.where(np.arange(TOTAL) % 2, 1, -1)
    # No partial sum of a call leaves what even bf16 holds exactly.
    values[np.arange(TOTAL) >= 100] = 0
    first = generator.integers(-20, 20, bins)
    expected = first.copy()
    np.add.at(expected, x, values)
    given = values.astype(FLOATS[element]), first.astype(FLOATS[element])
    for options in ({"threads": 1}, {"threads": 2}, {"threads": 2, "checked": True}):
        assert (_run(module, x, *given, **options) == expected).all()
    with UPDATE_LOCK.together():
        assert (_run(module, x, *given, threads=1) == expected).all()


def test_sums_of_floats_that_are_none():
    """Elements that nothing is added to keep their bits; zeros and infinities are added as elsewhere."""
    x = np.resize(np.array([1, 2, 3, 4], np.int32), TOTAL)
    values = np.resize(np.array([-0.0, 0.0, np.inf, np.nan], np.float32), TOTAL)
    bins = np.full(6, -0.0, np.float32)
    with UPDATE_LOCK.together():
        found = _run(_kernel("addf", "f32"), x, values, bins, threads=1)
    assert np.signbit(found[[0, 1, 5]]).all()
    assert not np.signbit(found[2])
    assert np.isposinf(found[3])
    assert np.isnan(found[4])


def test_old_values_are_those_of_single_updates():
    x, ones = np.zeros(TOTAL, np.int32), np.ones(TOTAL, np.int32)
    bins, out = np.zeros(1, np.int32), np.zeros(TOTAL, np.int32)
    module = _kernel(more=_use_the_old_value)
    Program(module, options=LaunchOptions(threads=2)).launch("k", BLOCKS, (x, ones, bins, out))
    assert bins[0] == 2 * TOTAL
    assert len(set(out.tolist())) == TOTAL


def test_several_updates_of_one_array_share_its_copies():
    def again(k: Builder, where: Value, values: Value) -> None:
        k.atomic_rmw_tko(
            where,
            values,
            mode="add",
            memory_ordering_semantics="relaxed",
            memory_scope="device",
        )

    module = _kernel(more=again)
    assert _is_private(module)
    x, values, bins = _data("i32", 20)
    expected = bins + 2 * (_expected("add", x, values, bins, False) - bins)
    assert (_run(module, x, values, bins, threads=2) == expected).all()


def test_a_launch_that_a_check_ends_keeps_what_was_done():
    def store_too_far(k: Builder, where: Value, values: Value) -> None:
        block, _, _ = k.get_tile_block_id()
        k.store_view_tko(values, _tiles(k, k.args.out), [block])

    module = _kernel(more=store_too_far)
    assert _is_private(module, checked=True)
    x, values, _ = _data("i32", 8)
    bins, out = np.zeros(8, np.int32), np.zeros(TILE, np.int32)
    with pytest.raises(TileIRError, match=r"argument 3, in tile block \(1, 0, 0\)"):
        Program(module, LaunchOptions(checked=True)).launch(
            "k", BLOCKS, (x, values, bins, out), options=LaunchOptions(threads=1)
        )
    two_blocks = slice(0, 2 * TILE)
    expected = _expected("add", x[two_blocks], values[two_blocks], np.zeros(8, np.int32), False)
    assert (bins == expected).all()
