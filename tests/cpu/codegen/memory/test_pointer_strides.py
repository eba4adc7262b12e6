"""Elements behind pointers at equal distances that only show when the code runs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.differential import VARIANTS, variants
from tests.cpu.codegen.support import same_bits

from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.target import cpu_target
from tilewright.dialects.cuda_tile.types import TileType
from tilewright.lowering import lower_to_tileaa
from tilewright.machine import Program as Reference

_KINDS = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "f16": np.float16, "i32": np.int32}
_ROWS = 150
_COLUMN = 1


def _numbered(k: Builder, base: Value, places: Value) -> Value:
    assert isinstance(places.type, TileType)
    (length,) = places.type.dims
    return k.offset(k.broadcast(k.reshape(base, shape=(1,)), shape=(length,)), places)


def _moved(kind: str, tile: int, width: str, *, masked: bool, turned: bool) -> Any:
    """``y[i * of_y + 1] = x[i * of_x + 1]``, for all rows or those inside, from the last one or the first."""
    module = ModuleBuilder()
    sizes = dict.fromkeys(("rows", "of_x", "of_y"), "i32")
    with module.entry("move", {"x": ptr(kind), "y": ptr(kind)} | sizes) as k:
        block, _, _ = k.get_tile_block_id()
        row = k.iota(shape=(tile,), to="i32") + block * tile
        if turned:
            row = (k.args.rows - 1) - row
        inside = (row >= 0) & (row < k.args.rows) if masked or turned else None

        def at(stride: Value) -> Value:
            number = row
            if width == "i64":
                number, stride = (k.exti(v, to="i64", signedness="signed") for v in (row, stride))
            return number * stride + _COLUMN

        padding = None if inside is None else 0
        held, _ = k.load_ptr_tko(_numbered(k, k.args.x, at(k.args.of_x)), inside, padding)
        k.store_ptr_tko(_numbered(k, k.args.y, at(k.args.of_y)), held, inside)
    return module.build()


def check_seed(seed: int) -> None:
    rng = random.Random(seed)
    kind, tile = rng.choice(list(_KINDS)), rng.choice((2, 8, 64, 128))
    masked, turned = rng.random() < 0.5, rng.random() < 0.2
    module = _moved(kind, tile, rng.choice(("i32", "i64")), masked=masked, turned=turned)
    of_x, of_y = rng.choice((0, 1, 2, 3, 4, 5, 70)), rng.choice((1, 2, 3, 4, 5, 70))
    grid = -(-_ROWS // tile)
    length = grid * tile * 70 + 2
    x = np.random.default_rng(seed).integers(-60, 60, length).astype(_KINDS[kind])
    expected = np.zeros_like(x)
    Reference(module).launch("move", grid, (x, expected, _ROWS, of_x, of_y))
    for options in variants(seed):
        found = np.zeros_like(x)
        program = Program(module, options=LaunchOptions(**options))
        program.launch("move", grid, (x, found, _ROWS, of_x, of_y))
        assert same_bits(found, expected).all(), (seed, kind, tile, of_x, of_y, options)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("seed", range(40))
def test_rows_are_those_of_the_reference(seed: int) -> None:
    check_seed(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_more_rows_are_those_of_the_reference(seed: int) -> None:
    check_seed(seed)


@pytest.mark.parametrize("width", ["i32", "i64"])
@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
def test_there_are_versions_by_stride(masked: bool, width: str) -> None:
    module = _moved("f32", 64, width, masked=masked, turned=False)
    compiled = compile_kernel(lower_to_tileaa(module).module)
    assert any(remark.kind == "stride" for remark in compiled.remarks)


def test_a_stride_that_is_known_needs_none() -> None:
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "y": ptr("f32")}) as k:
        row = k.iota(shape=(64,), to="i32")
        held, _ = k.load_ptr_tko(_numbered(k, k.args.x, row * 3))
        k.store_ptr_tko(_numbered(k, k.args.y, row), held)
    compiled = compile_kernel(lower_to_tileaa(module.build()).module)
    assert not compiled.remarks


def test_indices_from_memory_need_none() -> None:
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "y": ptr("f32"), "of": ptr("i32"), "s": "i32"}) as k:
        row = k.iota(shape=(64,), to="i32")
        number, _ = k.load_ptr_tko(_numbered(k, k.args.of, row))
        held, _ = k.load_ptr_tko(_numbered(k, k.args.x, number * k.args.s))
        k.store_ptr_tko(_numbered(k, k.args.y, row), held)
    compiled = compile_kernel(lower_to_tileaa(module.build()).module)
    assert [remark.kind for remark in compiled.remarks] == ["gather"]


def _taken_apart(kind: str, tile: int) -> Any:
    """``y[i // 3 * of_y + i % 3] = x[i]`` of whole numbers below the end."""
    module = ModuleBuilder()
    sizes = dict.fromkeys(("count", "of_y"), "i32")
    with module.entry("part", {"x": ptr(kind), "y": ptr(kind)} | sizes) as k:
        block, _, _ = k.get_tile_block_id()
        flat = k.iota(shape=(tile,), to="i32") + block * tile
        inside = flat < k.args.count
        three = k.constant(3, flat.type)
        row = k.divi(flat, three, signedness="signed", rounding="zero")
        held, _ = k.load_ptr_tko(_numbered(k, k.args.x, flat), inside, 0)
        place = row * k.args.of_y + k.remi(flat, three, signedness="signed")
        k.store_ptr_tko(_numbered(k, k.args.y, place), held, inside)
    return module.build()


@pytest.mark.parametrize("of_y", [3, 4, 7])
@pytest.mark.parametrize("kind", ["i8", "f32", "f64"])
def test_flat_numbers_taken_apart(kind: str, of_y: int) -> None:
    """They follow one another again where the stride is that of dense rows."""
    module, count = _taken_apart(kind, 64), 250
    x = np.random.default_rng(of_y).integers(-60, 60, count).astype(_KINDS[kind])
    expected = np.zeros((-(-count // 3), of_y), x.dtype)
    expected[np.arange(count) // 3, np.arange(count) % 3] = x
    for options in VARIANTS:
        found = np.zeros(expected.size, x.dtype)
        program = Program(module, options=LaunchOptions(**options))
        program.launch("part", 4, (x, found, count, of_y))
        assert same_bits(found, expected.ravel()).all(), options


@pytest.mark.skipif(not cpu_target().is_x86, reason="levels of x86")
def test_lanes_at_any_stride_have_scalar_addresses() -> None:
    module = lower_to_tileaa(_moved("f32", 64, "i64", masked=False, turned=False)).module
    code = compile_kernel(module, None, CompileOptions(cpu="x86-64-v4")).llvm_ir
    # Instructions that gather are left for numbers that do not fit.
    assert code.count("load float, ptr") >= 16 and code.count(" store float ") >= 16


def test_no_more_lanes_are_accessed_apart_than_addresses_have_words() -> None:
    code = compile_kernel(lower_to_tileaa(_taken_apart("i8", 64)).module)
    assert not [remark for remark in code.remarks if remark.kind == "gather"]
    lanes = [int(line.split("masked.scatter.v")[1].split("i8")[0]) for line in code.llvm_ir.splitlines()
             if "call" in line and "masked.scatter.v" in line]  # fmt: skip
    assert lanes and max(lanes) <= code.target.vector_bits // 32
