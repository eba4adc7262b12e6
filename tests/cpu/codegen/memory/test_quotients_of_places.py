"""Elements at quotients of positions: several lanes read one element, and whole vectors are loaded for them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.support import same_bits
from tests.sampling import every_way

from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.target import cpu_target, missing_features
from tilewright.lowering import lower_to_tileaa
from tilewright.machine import Program as Reference

_KINDS = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "f16": np.float16, "i32": np.int32}
_V3 = "x86-64-v3"
VARIANTS: list[dict[str, Any]] = [{}, {"cpu": "generic"}, {"checked": True}]
if cpu_target().is_x86 and not missing_features(cpu_target(_V3)):
    VARIANTS.append({"cpu": _V3})
#: Numbers that wrap around are negative, and so are their remainders: the middle of the array is the first place.
_SIZE, _MIDDLE = 9000, 2000


def _each(k: Builder, value: Value, tile: int) -> Value:
    return k.broadcast(k.reshape(value, shape=[1]), shape=[tile])


def _kernel(kind: str, number: str, tile: int, shape: dict[str, int], *, masked: bool) -> Any:
    """``y[i] = x[(i // row) * of_row + (i % row + first) // by * step + more]``, of ``i`` from ``tile * block + start`` on."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr(kind), "y": ptr(kind), "start": number, "limit": number}) as k:
        block = k.get_tile_block_id()[0]
        block = block if number == "i32" else k.exti(block, to=number, signedness="signed")
        begin = block * tile + k.args.start * shape["times"]
        i = k.iota(shape=[tile], to=number) + _each(k, begin, tile)
        row, column = i // shape["row"], i % shape["row"]
        place = row * shape["of_row"] + (column + shape["first"]) // shape["by"] * shape["step"]
        x = k.offset(_each(k, k.args.x, tile), place + shape["more"])
        y = k.offset(_each(k, k.args.y, tile), i - _each(k, k.args.start * shape["times"], tile))
        if masked:
            on = place + shape["more"] < _each(k, k.args.limit, tile)
            held, _ = k.load_ptr_tko(x, on, k.zeros((tile,), kind))
        else:
            held, _ = k.load_ptr_tko(x)
        k.store_ptr_tko(y, held)
    return module.build()


def check_seed(seed: int) -> None:
    rng = random.Random(seed)
    kind, number = rng.choice(list(_KINDS)), rng.choice(("i32", "i32", "i64"))
    shape = {
        "row": rng.choice((8, 16, 24, 56, 64, 128, 512)),
        "by": rng.choice((1, 2, 2, 2, 3, 4, 4, 8, 16, 5)),
        "first": rng.choice((0, 0, 0, 1, 2, 4, 7, 8)),
        "times": rng.choice((1, 2, 4, 16, 64)),
        "step": rng.choice((1, 1, 1, 2, 3)),
        "more": _MIDDLE + rng.choice((0, 1, 5)),
        "of_row": rng.choice((0, 0, 8, 28, 33)),
    }
    tile, masked, start = (
        rng.choice((8, 16, 64, 256)),
        rng.random() < 0.5,
        rng.choice((0, 1, 2, 3, 8)),
    )
    if not shape["of_row"] and number == "i32":
        # Where a row begins does not matter: numbers may wrap within the tile, or within a vector.
        start = rng.choice((start, (1 << 31) // shape["times"] - rng.choice((1, 2, 5, 13)), -3))
    module = _kernel(kind, number, tile, shape, masked=masked)
    x = np.random.default_rng(seed).integers(-60, 60, _SIZE).astype(_KINDS[kind])
    limit, grid = rng.choice((0, _MIDDLE + 7, _MIDDLE + 40, _SIZE)), max(1, 512 // tile)
    y = np.zeros(grid * tile, _KINDS[kind])
    expected = y.copy()
    Reference(module).launch("k", grid, (x.copy(), expected, start, limit))
    others = VARIANTS[1:]
    # Of the other ways each has its share of the seeds.
    for options in VARIANTS if every_way() else (VARIANTS[0], others[seed % len(others)]):
        found = y.copy()
        Program(module, options=LaunchOptions(**options)).launch(
            "k", grid, (x.copy(), found, start, limit)
        )
        assert same_bits(found, expected).all(), (options, kind, number, tile, shape, start, limit)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("seed", range(40))
def test_they_are_those_of_the_reference(seed: int) -> None:
    check_seed(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_more_are_those_of_the_reference(seed: int) -> None:
    check_seed(seed)


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4", "generic"])
@pytest.mark.parametrize("by", [2, 4])
def test_they_are_not_gathered(by: int, cpu: str) -> None:
    if not cpu_target().is_x86 and cpu != "generic":
        pytest.skip("levels of x86")
    shape = {"row": 64, "by": by, "first": 0, "times": 64, "step": 1, "more": 0, "of_row": 32}
    module = lower_to_tileaa(_kernel("f32", "i32", 256, shape, masked=False)).module
    found = compile_kernel(module, None, CompileOptions(cpu=cpu))
    assert not [remark for remark in found.remarks if remark.kind == "gather"]


def _of_few_bits(number: str, by: int, tile: int, sign: str) -> Any:
    """``y[i] = x[300 + number(i + 64 * start) // by]``."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "y": ptr("f32"), "start": "i32"}) as k:
        first = k.get_tile_block_id()[0] * tile
        at = k.iota(shape=[tile], to="i32")
        narrow = k.trunci(at + _each(k, first + k.args.start * 64, tile), to=number)
        rounding = {"rounding": "negative_inf"} if sign == "signed" else {}
        found = k.divi(narrow, k.constant(by, narrow.type), signedness=sign, **rounding)
        place = k.exti(found, to="i32", signedness=sign) + 300
        held, _ = k.load_ptr_tko(k.offset(_each(k, k.args.x, tile), place))
        k.store_ptr_tko(k.offset(_each(k, k.args.y, tile), at + _each(k, first, tile)), held)
    return module.build()


@pytest.mark.parametrize("sign", ["signed", "unsigned"])
@pytest.mark.parametrize("tile", [64, 256])
@pytest.mark.parametrize("by", [2, 4, 64])
def test_numbers_of_few_bits(by: int, tile: int, sign: str) -> None:
    """Of i8, which wrap in each tile, or in the next."""
    module = _of_few_bits("i8", by, tile, sign)
    x = np.arange(600, dtype=np.float32)
    for start in (0, 1, 3):
        expected, found = np.zeros((2, 1024), np.float32)
        for program, y in ((Reference(module), expected), (Program(module), found)):
            program.launch("k", 1024 // tile, (x, y, start))
        np.testing.assert_array_equal(found, expected)


def test_chains_that_read_one_value_twice_take_no_longer_than_others() -> None:
    """Each is walked once: by every way that leads to it, 40 of them would be walked without end."""
    module = ModuleBuilder()
    names = {"x": ptr("f32"), "out": ptr("f32"), "by": "i32", "rounds": "i32"}
    with module.entry("k", names) as k:
        width, rows = 64, 4

        def scalar(value: Value) -> Value:
            return k.broadcast_to(value.reshape((1, 1)), (rows, width))

        column = k.broadcast_to(k.arange(width).reshape((1, width)), (rows, width))
        row = k.broadcast_to(k.arange(rows).reshape((rows, 1)), (rows, width))
        place, mask = column, (row >= 1) & (column < scalar(k.args.by))
        for step in range(40):
            place = place + place
            mask = (mask & (row < 3 + step)) & (mask & (column < 60 + step))
        quotient = place // scalar(k.args.by)

        def added(inner: Builder, index: Value, total: Value) -> Value:
            pointers = scalar(k.args.x) + (quotient & 63) + scalar(index)
            found, _ = inner.load_ptr_tko(pointers, mask, inner.full((rows, width), 0.0, "f32"))
            return total + found

        (total,) = k.for_(0, k.args.rounds, 1, [k.full((rows, width), 0.0, "f32")], added)
        k.store_ptr_tko(scalar(k.args.out) + row * width + column, total)
    compile_kernel(lower_to_tileaa(module.build()).module)
