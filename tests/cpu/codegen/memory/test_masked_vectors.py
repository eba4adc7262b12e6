"""Vectors in memory under any mask: the reference machine agrees, and no page is touched on which no lane is on."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.support import Guarded, same_bits

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.runtime.engine import emit_assembly, optimize, parse_ir
from tilewright.cpu.target import cpu_target, missing_features
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pages are protected by mprotect")

ELEMENTS = ["i8", "i16", "f16", "bf16", "f8E4M3FN", "i1", "f32", "i32", "f64", "i64"]
PROCESSORS = ["host", "generic", "x86-64-v3"]


def _kernel(element: str, width: int) -> Any:
    """``out[i] = x[i]`` where ``mask[i]``, both ways: what is not read is 1 in ``all``, what is not written stays in ``out``."""
    module = ModuleBuilder()
    names = ("x", "all", "out")
    with module.entry("k", dict.fromkeys(names, ptr(element)) | {"mask": ptr("i32")}) as k:
        place = k.get_tile_block_id()[0] * width + k.arange(width)

        def at(base: Value) -> Value:
            return k.broadcast_to(base.reshape(1), (width,)) + place

        flags, _ = k.load_ptr_tko(at(k.args.mask))
        x, _ = k.load_ptr_tko(at(k.args.x), flags != 0, k.full((width,), 1, element))
        k.store_ptr_tko(at(k.args.all), x)
        k.store_ptr_tko(at(k.args.out), x, flags != 0)
    return module.build()


def _masks(width: int) -> np.ndarray[Any, Any]:
    """Masks of tiles: all, none, up to an element, from one on, one element, some, most."""
    rng, places = np.random.default_rng(width), np.arange(width)
    rows = [places < limit for limit in (width, 0, 1, 2, 3, 5, 7, width - 1, width // 2 + 1)]
    rows += [places >= limit for limit in (1, width - 1, width // 2 - 1)]
    rows += [places == limit for limit in (0, width // 3, width - 1)]
    rows += [rng.random(width) < part for part in (0.1, 0.5, 0.9) for _ in range(3)]
    return np.array(rows)


@pytest.mark.rotates(6)
@pytest.mark.parametrize("cpu", PROCESSORS)
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("width", [2, 16, 64])
def test_any_mask(element: str, width: int, cpu: str) -> None:
    if cpu.startswith("x86") and missing_features(cpu_target(cpu)):
        pytest.skip(f"code for {cpu} cannot run here")
    kernel, dtype = _kernel(element, width), dtype_of(element)
    program = Program(kernel, options=LaunchOptions(threads=1, cpu=cpu))
    for mask in _masks(width):
        x = np.random.default_rng(3).integers(0, 2, width).astype(dtype)
        wanted = [np.zeros(width, dtype) for _ in range(2)]
        flags = mask.astype(np.int32)
        tilewright.run(kernel, "k", (1, 1, 1), (x, *wanted, flags))
        on = np.flatnonzero(mask)
        first, last = (on[0], on[-1] + 1) if len(on) else (0, 0)
        for at_end in (True, False):
            # Only what lies between the first and the last element that are on is there.
            there = [Guarded(each[first:last], at_end=at_end) for each in (x, wanted[1])]
            there[1].array[...] = 0
            whole, moved = np.zeros(width, dtype), int(first) * dtype.itemsize
            places = [each.array.ctypes.data - moved for each in there]
            program.launch(None, 1, (places[0], whole, places[1], flags))
            assert same_bits(whole, wanted[0]).all(), mask
            assert same_bits(there[1].array, wanted[1][first:last]).all(), mask


@pytest.mark.skipif(not cpu_target().is_x86, reason="code is made for x86")
@pytest.mark.parametrize("element", ["i8", "f16", "f32", "f64"])
def test_no_lane_is_looked_at_by_itself(element: str) -> None:
    target = cpu_target("x86-64-v3")
    module = lower_to_tileaa(_kernel(element, 64)).module
    text = compile_kernel(module, None, CompileOptions(cpu="x86-64-v3")).llvm_ir
    found = parse_ir(text, target)
    optimize(found, target)
    assert "llvm.masked.store" not in str(found)
    code = emit_assembly(found, target)
    assert "pinsr" not in code and "pextr" not in code


@pytest.mark.skipif(not cpu_target().is_x86, reason="there are no levels")
@pytest.mark.parametrize("through", ["pointers", "view"])
@pytest.mark.parametrize("element", ["f32", "i32", "f64", "i64"])
def test_choices_in_place_are_stored_whole(element: str, through: str) -> None:
    """LLVM would store them under a mask, lane by lane on some processors."""
    module, count = ModuleBuilder(), 256
    with module.entry("k", {"x": ptr(element), "n": "i32"}) as k:
        i, _, _ = k.get_tile_block_id()
        zero = k.zeros((count,), element)
        if through == "view":
            whole = k.make_tensor_view(k.args.x, [k.args.n], [1])
            tiles = k.partition(whole, tile=(count,))
            x, _ = k.load_view_tko(tiles, [i])
            k.store_view_tko(k.select(x < zero, zero, x), tiles, [i])
        else:
            places = k.broadcast_to(k.args.x.reshape(1), (count,)) + (i * count + k.arange(count))
            x, _ = k.load_ptr_tko(places)
            k.store_ptr_tko(places, k.select(x < zero, zero, x))
    options = CompileOptions(cpu="x86-64-v3")
    compiled = compile_kernel(lower_to_tileaa(module.build()).module, options=options)
    made = parse_ir(compiled.llvm_ir, compiled.target)
    optimize(made, compiled.target)
    lines = emit_assembly(made, compiled.target).splitlines()
    assert not [line for line in lines if "maskmov" in line and line.endswith(")")]


def _rows(step: int) -> Any:
    """``out[r, i] = x[r - 2, step * i]`` for the rows that there are, from the first on."""
    module, rows, width = ModuleBuilder(), 4, 64
    names = {"x": ptr("f32"), "out": ptr("f32"), "height": "i32", "width": "i32"}
    with module.entry("k", names) as k:

        def whole(value: Value) -> Value:
            return k.broadcast_to(value, (rows, width))

        def scalar(value: Value) -> Value:
            return whole(value.reshape((1, 1)))

        row = whole((k.get_tile_block_id()[0] * rows + k.arange(rows)).reshape((rows, 1)))
        column = whole(k.arange(width).reshape((1, width)))
        inside = (row >= 2) & (row - 2 < scalar(k.args.height)) & (column < scalar(k.args.width))
        source = (row - 2) * (step * width) + column * step
        x, _ = k.load_ptr_tko(scalar(k.args.x) + source, inside, k.full((rows, width), 7.0, "f32"))
        k.store_ptr_tko(scalar(k.args.out) + (row * width + column), x)
    return module.build()


@pytest.mark.parametrize("step", [1, 2])
def test_rows_that_are_off_are_not_looked_for(step: int) -> None:
    """A processor looks for the page even if no lane is on, and takes long where there is none: in front of an array."""
    module = _rows(step)
    text = compile_kernel(
        lower_to_tileaa(module).module, None, CompileOptions(cpu="x86-64-v4")
    ).llvm_ir
    assert re.search(r'select +i1 \S+, ptr \S+, ptr @"nothing"', text)
    x = np.arange(6 * 64 * step, dtype=np.float32)
    expected = np.full((8, 64), 7, np.float32)
    expected[2:, :60] = x.reshape(6, -1)[:, : 60 * step : step]
    given = Guarded(x, at_end=False)
    for cpu in ("host", "generic"):
        out = np.zeros((8, 64), np.float32)
        Program(module, LaunchOptions(cpu=cpu)).launch("k", 2, (given.array, out, 6, 60))
        assert (out == expected).all()
