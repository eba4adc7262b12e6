"""Elements at small distances: strides that only show when the code runs, channels side by side, formulas with steps."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.differential import VARIANTS, agree, variants
from tests.cpu.codegen.support import same_bits
from tests.machine.tileaa.support import checked, element, kernel_text

from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.codegen.loops.strided_lanes import nearby
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.lowering import lower_to_tileaa
from tilewright.machine import Program as Reference

_KINDS = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "f16": np.float16, "i32": np.int32}
_ROWS = 150


def _channels(k: Builder, base: Value, stride: Value, count: int, tile: int) -> Value:
    view = k.make_tensor_view(base, shape=[k.args.rows, count], strides=[stride, 1])
    return k.partition(view, tile=(tile, 1), padding="zero")


def _woven(kind: str, count: int, tile: int, order: list[int], in_place: bool) -> Any:
    """Channels of ``y``: each that of ``x`` plus the next one of ``x``, stored in some order."""
    module = ModuleBuilder()
    sizes = dict.fromkeys(("rows", "of_x", "of_y"), "i32")
    with module.entry("weave", {"x": ptr(kind), "y": ptr(kind)} | sizes) as k:
        row, _, _ = k.get_tile_block_id()
        x = _channels(k, k.args.x, k.args.of_x, count, tile)
        y = x if in_place else _channels(k, k.args.y, k.args.of_y, count, tile)
        held = [k.load_view_tko(x, [row, k.constant(n, "i32")])[0] for n in range(count)]
        add = k.addf if kind.startswith("f") else k.addi
        for n in order:
            k.store_view_tko(add(held[n], held[n - 1]), y, [row, k.constant(n, "i32")])
    return module.build()


def check_seed(seed: int) -> None:
    rng = random.Random(seed)
    kind = rng.choice(list(_KINDS))
    count, tile = rng.choice((1, 2, 3, 4)), rng.choice((4, 16, 64))
    order = rng.sample(range(count), rng.randint(1, count))
    in_place = rng.random() < 0.2
    module = _woven(kind, count, tile, order, in_place)
    # Strides below the number of channels make rows overlap, in which order decides.
    of_x = (
        rng.choice((0, 1, 2, 2, 3, 3, 4, 4, 5, 700)) if not in_place else rng.choice((count, 4, 9))
    )
    of_y = rng.choice((0, 1, count, count, count, 2, 3, 4, 4, 9))
    numbers = np.random.default_rng(seed).integers(-60, 60, (_ROWS + 1) * max(of_x, 1) + 8)
    x, y = numbers.astype(_KINDS[kind]), np.zeros((_ROWS + 1) * max(of_y, 1) + 8, _KINDS[kind])
    # Which of two blocks is the last to write to one place is open.
    rows = _ROWS if of_y >= count or in_place else min(tile, _ROWS)
    grid = -(-rows // tile)
    expected = x.copy(), y.copy()
    Reference(module).launch("weave", grid, (*expected, rows, of_x, of_y))
    for options in variants(seed):
        found = x.copy(), y.copy()
        program = Program(module, options=LaunchOptions(**options))
        program.launch("weave", grid, (*found, rows, of_x, of_y))
        for mine, right in zip(found, expected, strict=True):
            assert same_bits(mine, right).all(), (kind, count, tile, order, of_x, of_y, options)


@pytest.mark.rotates(3)
@pytest.mark.parametrize("seed", range(30))
def test_channels_are_those_of_the_reference(seed: int) -> None:
    check_seed(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_more_channels_are_those_of_the_reference(seed: int) -> None:
    check_seed(seed)


def _stepped(
    dtype: Any, step: int, tile: int, first: int, *, store: bool, end: int | None = None
) -> str:
    """``memory[first + step * lane]``, of lanes before an end only if there is one."""
    kind = element(np.zeros(1, dtype))
    pointers, wide = f"tile<{tile}x!nv_tileaa.ptr<{kind}, 1>>", f"tile<{tile}xi64>"
    lines = [
        f"%r = nv_tileaa.make_range {{start = 0, end = {tile}}} : tile<{tile}xi32>",
        f"%w = arith.extsi %r : tile<{tile}xi32> to {wide}",
        f"%step = arith.constant dense<{step}> : {wide}",
        f"%first = arith.constant dense<{first}> : {wide}",
        f"%far = arith.muli %w, %step : {wide}",
        f"%at = arith.addi %far, %first : {wide}",
        f"%ps = nv_tileaa.splat %ptr_memory : !nv_tileaa.ptr<{kind}, 1> -> {pointers}",
        f"%there = nv_tileaa.addptr %ps, %at : {pointers}, {wide} -> {pointers}",
    ]
    ty, flags = f"tile<{tile}x{kind}>", f"tile<{tile}xi1>"
    masked = end is not None
    if masked:
        lines.append(f"%end = arith.constant dense<{end}> : {wide}")
        lines.append(f"%on = arith.cmpi slt, %w, %end : {wide}")
    if store:
        on, kinds = (", %on", f", {flags}") if masked else ("", "")
        lines.append(f"nv_tileaa.store %there, %other{on} : {pointers}, {ty}{kinds} -> ()")
    else:
        on, kinds = (", %on, %other", f", {flags}, {ty}") if masked else ("", "")
        lines.append(f"%out = nv_tileaa.load %there{on} : {pointers}{kinds} -> {ty}")
    return "\n".join(lines)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.float16, np.bool_])
@pytest.mark.parametrize("store", [False, True], ids=["load", "store"])
@pytest.mark.parametrize("step", [-4, -1, 2, 3, 4, 5])
def test_steps_read_and_write_nothing_else(dtype: Any, step: int, store: bool) -> None:
    tile = 64
    size = (tile - 1) * abs(step) + 1
    numbers = np.random.default_rng(abs(step)).integers(-50, 50, size + tile).astype(dtype)
    # The array ends where the last lane does: checked code would report what is read behind it.
    inputs = {"memory": numbers[:size], "other": numbers[size:]}
    results = {} if store else {"out": np.zeros(tile, dtype)}
    body = _stepped(dtype, step, tile, max(-step, 0) * (tile - 1), store=store)
    agree(body, inputs, results, case=(np.dtype(dtype), store, step))


@pytest.mark.rotates(6)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.float16])
@pytest.mark.parametrize("store", [False, True], ids=["load", "store"])
@pytest.mark.parametrize("step", [-1, 2, 3])
@pytest.mark.parametrize("end", [0, 1, 37, 63])
def test_masked_steps_read_and_write_nothing_else(
    dtype: Any, step: int, store: bool, end: int
) -> None:
    """As windows two apart at the end of a row; ``agree`` runs checked code, too, for which memory ends with the last lane."""
    tile = 64
    first = (end - 1) * -step if step < 0 else 0
    size = max((end - 1) * abs(step) + 1, 1)
    numbers = np.random.default_rng(end).integers(-50, 50, size + tile).astype(dtype)
    inputs = {"memory": numbers[:size], "other": numbers[size:]}
    results = {} if store else {"out": np.zeros(tile, dtype)}
    agree(_stepped(dtype, step, tile, first, store=store, end=end), inputs, results)


@pytest.mark.parametrize("store", [False, True], ids=["load", "store"])
def test_masked_steps_are_neither_gathered_nor_scattered(store: bool) -> None:
    body = _stepped(np.float32, 2, 64, 0, store=store, end=37)
    inputs = {"memory": np.zeros(128, np.float32), "other": np.zeros(64, np.float32)}
    results = {} if store else {"out": np.zeros(64, np.float32)}
    module = checked(kernel_text(body, inputs, results, ""))
    found = compile_kernel(module, None, CompileOptions(cpu="x86-64-v4"))
    assert not [remark for remark in found.remarks if remark.kind == "gather"]


def test_interleaved_numbers_are_neither_gathered_nor_scattered_where_they_lie_near() -> None:
    module = lower_to_tileaa(_woven("f32", 2, 64, [0, 1], in_place=False)).module
    compiled = compile_kernel(module, None, CompileOptions(cpu="x86-64-v4"))
    whole = [line for line in compiled.llvm_ir.splitlines() if "store <16 x float>" in line]
    assert whole, "two channels of stride 2 fill whole vectors"


def test_what_counts_as_near() -> None:
    assert nearby((0, 2, 4, 6)) == (0, 2, 4, 6)
    assert nearby((3, 2, 1, 0)) == (3, 2, 1, 0)
    assert nearby(None) is None
    assert nearby((0, 5, 10, 15)) == (0, 5, 10, 15)
    assert nearby((0, 6, 12, 18)) is None
    assert nearby((0, 0, 1, 1)) == (0, 0, 1, 1)
    assert nearby((0, 0, 0, 0)) is None


@pytest.mark.parametrize(("strides", "told"), [(["s", 1], False), ([1, "s"], True)])
def test_a_remark_tells_of_versions_by_stride(strides: list[Any], told: bool) -> None:
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "y": ptr("f32"), "s": "i32"}) as k:
        row, _, _ = k.get_tile_block_id()
        tiles = []
        for base in (k.args.x, k.args.y):
            given = [k.args.s if each == "s" else each for each in strides]
            view = k.make_tensor_view(base, shape=[64, 64], strides=given)
            tiles.append(k.partition(view, tile=(1, 64)))
        x, y = tiles
        k.store_view_tko(k.addf(*[k.load_view_tko(x, [row, 0])[0]] * 2), y, [row, 0])
    compiled = compile_kernel(lower_to_tileaa(module.build()).module)
    assert told == any(remark.kind == "stride" for remark in compiled.remarks)


def _copies_of_rows(count: int) -> Any:
    """So many copies of rows whose elements lie at a distance that only shows when the code runs."""
    module = ModuleBuilder()
    with module.entry("copies", {"x": ptr("f32"), "y": ptr("f32"), "s": "i32"}) as k:
        row, _, _ = k.get_tile_block_id()
        x, y = (
            k.partition(
                k.make_tensor_view(base, shape=[64 * count, 64], strides=strides), tile=(1, 64)
            )
            for base, strides in ((k.args.x, [256, k.args.s]), (k.args.y, [64, 1]))
        )
        for number in range(count):
            at = k.addi(k.muli(row, k.constant(count, "i32")), k.constant(number, "i32"))
            held, _ = k.load_view_tko(x, [at, 0])
            k.store_view_tko(k.addf(held, k.mulf(held, held)), y, [at, 0])
    return module.build()


@pytest.mark.rotates(2)
def test_versions_by_stride_end_where_code_has_grown_by_them() -> None:
    """Long kernels have them for their first nests alone, and give the same results."""
    kernels = [_copies_of_rows(n) for n in (24, 40, 56)]
    sizes = [len(compile_kernel(lower_to_tileaa(kernel).module).llvm_ir) for kernel in kernels]
    assert sizes[2] - sizes[1] <= 1.1 * (sizes[1] - sizes[0])
    first = len(compile_kernel(lower_to_tileaa(_copies_of_rows(8)).module).llvm_ir)
    assert (sizes[2] - sizes[1]) / 16 < 0.6 * first / 8
    x = np.random.default_rng(3).standard_normal((40 * 2, 256)).astype(np.float32)
    program = Program(kernels[1])
    for step in (1, 2, 3, 4):
        y = np.zeros((40 * 2, 64), np.float32)
        program.launch("copies", (2,), (x, y, step))
        held = x[:, : 64 * step : step]
        np.testing.assert_allclose(y, held + held * held, rtol=1e-6)


def _copied(kind: str, write: str) -> Any:
    """``y[of_y * lane]`` gets ``x[of_x * lane]`` for 16 lanes of which some may lie outside, in one of several ways."""
    module = ModuleBuilder()
    sizes = dict.fromkeys(("count", "of_x", "of_y"), "i32")
    with module.entry("copy", {"x": ptr(kind), "y": ptr(kind)} | sizes) as k:
        x, y = (
            k.partition(
                k.make_tensor_view(base, shape=[k.args.count], strides=[stride]),
                tile=(16,),
                padding="zero",
            )
            for base, stride in ((k.args.x, k.args.of_x), (k.args.y, k.args.of_y))
        )
        held, _ = k.load_view_tko(x, [k.constant(0, "i32")])
        order = {"memory_ordering_semantics": "relaxed", "memory_scope": "device"}
        at = [k.constant(0, "i32")]
        if write == "update":
            mode = "add" if kind.startswith("i") else "addf"
            k.atomic_red_view_tko(y, at, held, mode=mode, **order)
        elif write == "ordered":
            k.store_view_tko(held, y, at, **order)
        else:
            k.store_view_tko(held, y, at)
    return module.build()


_HALVES = "f4E2M1FN"
_COPIES = [
    (kind, write)
    for kind in ("f32", "i32", "f64", _HALVES)
    for write in ("update", "ordered", "plain")
    if (kind, write) != (_HALVES, "update")
]


@pytest.mark.parametrize(("kind", "write"), _COPIES)
@pytest.mark.parametrize("count", [16, 11])
def test_what_is_read_and_written_has_each_its_own_stride(
    kind: str, write: str, count: int
) -> None:
    """Whether the code for a small stride of the one is for the other, too, which writes in another way."""
    module = _copied(kind, write)
    dtype = np.uint8 if kind == _HALVES else _KINDS[kind]
    numbers = np.random.default_rng(count).integers(1, 60, 200).astype(dtype)
    reference, chosen = Reference(module), variants(kind, write)
    programs = [Program(module, options=LaunchOptions(**options)) for options in chosen]
    for of_x in (1, 2, 3, 4, 6):
        for of_y in (1, 2, 3, 6):
            expected = numbers[100:].copy()
            arguments = (count, of_x, of_y)
            reference.launch("copy", 1, (numbers[:100], expected, *arguments))
            for program, options in zip(programs, chosen, strict=True):
                found = numbers[100:].copy()
                program.launch("copy", 1, (numbers[:100], found, *arguments))
                assert same_bits(found, expected).all(), (kind, write, arguments, options)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i8"])
@pytest.mark.parametrize(
    ("shape", "strides", "tile"),
    [
        ((29, 4), (4, 2), (32, 4)),
        ((5, 4), (4, 2), (8, 4)),
        ((13, 8), (12, 3), (16, 8)),
        ((29, 4), (2, 4), (32, 4)),
        ((31, 3), (6, 3), (32, 4)),
    ],
)
def test_an_element_is_read_if_one_of_its_lanes_is_inside(
    dtype: str, shape: Any, strides: Any, tile: Any
) -> None:
    """Rows that overlap, so that the same element is inside with one row and outside with the next one."""
    module, size = ModuleBuilder(), tile[0] * tile[1]
    with module.entry("flat", {"x": ptr(dtype), "y": ptr(dtype)}) as k:
        x = k.partition(
            k.make_tensor_view(k.args.x, shape=shape, strides=strides), tile=tile, padding="zero"
        )
        y = k.partition(k.make_tensor_view(k.args.y, shape=[size], strides=[1]), tile=(size,))
        zero = k.constant(0, "i32")
        held, _ = k.load_view_tko(x, [zero, zero])
        k.store_view_tko(k.reshape(held, shape=(size,)), y, [zero])
    last = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    numbers = np.arange(1, last + 2).astype(_KINDS[dtype])
    expected = np.zeros(size, _KINDS[dtype])
    Reference(module.build()).launch("flat", 1, (numbers, expected))
    for options in VARIANTS:
        found = np.zeros(size, _KINDS[dtype])
        program = Program(module.build(), options=LaunchOptions(**options))
        program.launch("flat", 1, (numbers, found))
        assert same_bits(found, expected).all(), options
