"""Updates of launches on one thread, which need not be atomic: the same results, and nothing lost."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, ptr, tile
from tilewright.cpu import Program
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.runtime import engine
from tilewright.cpu.runtime.pool import _TRIALS, Choice
from tilewright.cpu.runtime.updates import UPDATE_LOCK, UpdateLock
from tilewright.cpu.target import cpu_target
from tilewright.lowering import lower_to_tileaa
from tilewright.machine import Program as Reference
from tilewright.numerics.arrays import dtype_of

TILE, BLOCKS, BINS = 64, 16, 37
TOTAL = TILE * BLOCKS
#: Launches on one thread.
_ALONE: tuple[dict[str, Any], ...] = (
    {"threads": 1},
    {"threads": 1, "cpu": "generic"},
    {"threads": 1, "checked": True},
)
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def _kernel(
    element: str, mode: str, lanes: int = TILE, *, masked: bool = False, run: bool = False
) -> Any:
    """``bins[x[i]] = mode(bins[x[i]], values[i])``; ``run``: ``x[i]`` is ``i``."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("i32"), "values": ptr(element), "bins": ptr(element)}) as k:
        block, _, _ = k.get_tile_block_id()

        def tiles(base: Any) -> Any:
            return k.partition(k.make_tensor_view(base, shape=[TOTAL], strides=[1]), tile=(lanes,))

        x, _ = k.load_view_tko(tiles(k.args.x), [block])
        values, _ = k.load_view_tko(tiles(k.args.values), [block])
        numbers = k.iota(type=tile((lanes,), "i32"))
        where = k.offset(
            k.broadcast(k.reshape(k.args.bins, shape=(1,)), shape=(lanes,)), numbers if run else x
        )
        on = []
        if masked:
            third = k.constant(40, tile((lanes,), "i32"))
            on = [k.cmpi(numbers, third, comparison_predicate="less_than", signedness="signed")]
        k.atomic_rmw_tko(
            where,
            values,
            *on,
            mode=mode,
            memory_ordering_semantics="acq_rel",
            memory_scope="device",
        )
    return module.build()


def _data(kind: Any, seed: int = 0) -> tuple[Any, Any, Any]:
    generator = np.random.default_rng(seed)
    x = generator.integers(0, BINS, TOTAL, np.int32)
    values = (generator.standard_normal(TOTAL) * 100).astype(kind)
    return x, values, (generator.standard_normal(TILE) * 100).astype(kind)


def _launch(module: Any, data: tuple[Any, Any, Any], threads: int = 1) -> Any:
    x, values, bins = data
    found = bins.copy()
    Program(module, options=LaunchOptions(threads=threads)).launch("k", BLOCKS, (x, values, found))
    return found


@pytest.mark.parametrize("run", [False, True], ids=["scattered", "side by side"])
@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("element", FLOATS)
def test_sums_are_those_of_atomic_updates_bit_for_bit(element: str, masked: bool, run: bool):
    module = _kernel(element, "addf", masked=masked, run=run)
    compiled = compile_kernel(lower_to_tileaa(module).module)
    assert compiled.updates and compiled.may_be_alone
    data = _data(FLOATS[element])
    alone = _launch(module, data)
    with UPDATE_LOCK.together():
        together = _launch(module, data)
    assert alone.tobytes() == together.tobytes()
    expected = data[2].copy()
    for number in range(TOTAL):
        if not masked or number % TILE < 40:
            place = number % TILE if run else data[0][number]
            expected[place] = expected[place] + data[1][number]
    assert alone.tobytes() == expected.tobytes()


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("mode", ["add", "and", "or", "xor", "min", "max", "umin", "umax", "xchg"])
def test_all_kinds_of_integers(mode: str, masked: bool):
    for element, kind in (("i32", np.int32), ("i64", np.int64)):
        module = _kernel(element, mode, masked=masked)
        data = _data(kind)
        alone = _launch(module, data)
        with UPDATE_LOCK.together():
            assert (alone == _launch(module, data)).all()


def test_launches_at_once_lose_nothing():
    x, _, _ = _data(np.float32)
    ones, bins = np.ones(TOTAL, np.float32), np.zeros(TILE, np.float32)
    programs = [
        Program(_kernel("f32", "addf"), options=LaunchOptions(threads=n)) for n in (1, 2, 1)
    ]

    def work(program: Program) -> None:
        for _ in range(30):
            program.launch("k", BLOCKS, (x, ones, bins))

    workers = [threading.Thread(target=work, args=(program,)) for program in programs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (bins == 90 * np.bincount(x, minlength=TILE)).all()


def test_who_holds_the_lock():
    lock = UpdateLock()
    with lock.alone() as first:
        assert first
        # What a handler of a signal launches meanwhile, on the same thread.
        with lock.alone() as second:
            assert not second
        ended = threading.Event()

        def wait() -> None:
            with lock.together():
                ended.set()

        other = threading.Thread(target=wait)
        other.start()
        assert not ended.wait(0.05)
    other.join(10)
    assert ended.is_set()
    with lock.together(), lock.alone() as third:
        assert not third


def test_the_faster_way_is_chosen():
    for alone, together in ((1.0, 2.0), (2.0, 1.0)):
        choice = Choice()
        tried = []
        for _ in range(2 * _TRIALS):
            tried.append(choice.alone_is_next())
            choice.learn(alone if tried[-1] else together, alone=tried[-1])
        assert sorted(tried) == [False] * _TRIALS + [True] * _TRIALS
        assert choice.alone_is_next() == (alone < together)


@pytest.mark.skipif(not cpu_target().is_x86, reason="an instruction of x86")
@pytest.mark.parametrize("cpu", ["generic", "x86-64-v4"])
def test_memory_is_added_to_and_not_incremented(cpu: str) -> None:
    """A Zen 4 takes up to six times as long for several increments in memory."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("i32"), "bins": ptr("i32")}) as k:
        view = k.make_tensor_view(k.args.x, shape=[TILE], strides=[1])
        x, _ = k.load_view_tko(k.partition(view, tile=(TILE,)), [0])
        base = k.broadcast(k.reshape(k.args.bins, shape=(1,)), shape=(TILE,))
        one = k.full((TILE,), 1, "i32")
        how = {"memory_ordering_semantics": "relaxed", "memory_scope": "device"}
        k.atomic_rmw_tko(k.offset(base, x), one, mode="add", **how)
    lowered = lower_to_tileaa(module.build()).module
    compiled = compile_kernel(lowered, None, CompileOptions(cpu=cpu))
    parsed = engine.parse_ir(compiled.llvm_ir, compiled.target)
    engine.optimize(parsed, compiled.target)
    lines = engine.emit_assembly(parsed, compiled.target).splitlines()
    assert any("addl" in line and "(" in line for line in lines)
    assert not any("\tincl" in line for line in lines)


@pytest.mark.parametrize("side_by_side", [4, TILE])
def test_launches_that_update_memory_take_the_short_way(
    side_by_side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With arrays of other lengths and places too; not while another launch updates memory. Tiles of few elements get no
    copies of arrays, longer ones do."""
    program = Program(_kernel("f32", "addf", side_by_side), options=LaunchOptions(threads=1))
    x, ones = _data(np.float32)[0] % 16, np.ones(TOTAL, np.float32)
    count = side_by_side * BLOCKS
    expected = np.bincount(x[:count], minlength=16)
    program.launch("k", BLOCKS, (x, ones, np.zeros(64, np.float32)))
    long_ways: list[object] = []
    run = Program._run  # pyright: ignore[reportPrivateUsage]

    def counted(self: Program, *args: Any) -> Any:
        long_ways.append(args)
        return run(self, *args)

    monkeypatch.setattr(Program, "_run", counted)
    for length in (16, 1 << 17, 100):
        bins = np.zeros(length, np.float32)
        program.launch("k", BLOCKS, (x, ones, bins))
        assert (bins[:16] == expected).all()
        assert not bins[16:].any()
    assert long_ways == []
    with UPDATE_LOCK.together():
        program.launch("k", BLOCKS, (x, ones, bins))
    assert len(long_ways) == 1
    assert (bins[:16] == 2 * expected).all()


def test_a_lock_that_was_not_taken_is_not_given_back():
    lock = UpdateLock()
    assert lock.take(1)
    assert not lock.take(2)
    lock.give_back(2)
    assert not lock.take(2)
    lock.give_back(1)
    assert lock.take(2)


def _rows_by_number(element: str, mode: str, shape: tuple[int, int]) -> Any:
    """``table[names[row], column] = mode(..., values[row, column])`` where both are inside, for tiles of some rows and columns."""
    module, (rows, width) = ModuleBuilder(), shape
    arrays = {"names": ptr("i32"), "values": ptr(element), "table": ptr(element)}
    with module.entry("k", arrays | dict.fromkeys(("count", "columns", "height"), "i32")) as k:
        i, j, _ = k.get_tile_block_id()
        row = k.reshape(i * rows + k.arange(rows), shape=(rows, 1))
        column = k.broadcast_to(k.reshape(j * width + k.arange(width), shape=(1, width)), shape)

        def behind(base: Any, places: Any) -> Any:
            return k.offset(k.broadcast_to(k.reshape(base, shape=(1, 1)), places.type.dims), places)

        there = row < k.args.count
        name, _ = k.load_ptr_tko(behind(k.args.names, row), there, -1)
        name, inside = k.broadcast_to(name, shape), column < k.args.columns
        place = k.broadcast_to(row, shape) * k.args.columns + column
        value, _ = k.load_ptr_tko(
            behind(k.args.values, place), k.broadcast_to(there, shape) & inside, 0
        )
        k.atomic_rmw_tko(
            behind(k.args.table, name * k.args.columns + column),
            value,
            (name >= 0) & (name < k.args.height) & inside,
            mode=mode,
            memory_ordering_semantics="relaxed",
            memory_scope="device",
        )
    return module.build()


@pytest.mark.rotates(3)
@pytest.mark.parametrize("shape", [(1, 128), (4, 64), (8, 16), (1, 32), (2, 8)])
@pytest.mark.parametrize(
    ("element", "mode"),
    [
        ("f32", "addf"),
        ("f64", "addf"),
        ("f16", "addf"),
        ("i32", "add"),
        ("i64", "max"),
        ("i32", "and"),
    ],
)
def test_rows_that_numbers_choose(element: str, mode: str, shape: tuple[int, int]) -> None:
    """Some of them twice in a tile, some none at all, columns that end within a tile."""
    module = _rows_by_number(element, mode, shape)
    rng, height = np.random.default_rng(shape[1]), 7
    for count, columns in ((23, 300), (16, 128), (5, 9)):
        names = rng.integers(-2, height + 2, count, np.int32)
        values = rng.integers(-9, 10, (count, columns)).astype(dtype_of(element))
        before = rng.integers(-9, 10, (height, columns)).astype(values.dtype)
        found = []
        grid = (-(-count // shape[0]), -(-columns // shape[1]))
        for program in (
            Reference(module),
            *(Program(module, options=LaunchOptions(**o)) for o in _ALONE),
        ):
            table = before.copy()
            program.launch("k", grid, (names, values, table, count, columns, height))
            found.append(table.tobytes())
        assert len(set(found)) == 1, (count, columns)
