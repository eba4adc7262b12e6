"""Elements to anywhere in memory: which lanes are written, and that nothing is written elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.memory.test_lane_gathers import KINDS, LEVELS
from tests.cpu.codegen.support import same_bits
from tests.machine.tileaa.support import checked, element, kernel_text

from tilewright import LaunchOptions
from tilewright.cpu import Program
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.target import cpu_target

LONG = 700


def _body(dtype: Any, wide: bool, tile: int) -> str:
    """``memory[at] = given`` where ``on`` is not zero."""
    kind, number = element(np.zeros(1, dtype)), "i64" if wide else "i32"
    pointers, flags = f"tile<{tile}x!nv_tileaa.ptr<{kind}, 1>>", f"tile<{tile}xi1>"
    places, ty = f"tile<{tile}x{number}>", f"tile<{tile}x{kind}>"
    return "\n".join(
        [
            f"%none = arith.constant dense<0> : tile<{tile}xi32>",
            f"%chosen = arith.cmpi ne, %on, %none : tile<{tile}xi32>",
            f"%ps = nv_tileaa.splat %ptr_memory : !nv_tileaa.ptr<{kind}, 1> -> {pointers}",
            f"%there = nv_tileaa.addptr %ps, %at : {pointers}, {places} -> {pointers}",
            f"nv_tileaa.store %there, %given, %chosen : {pointers}, {ty}, {flags}",
            f"%out = arith.constant dense<0> : tile<{tile}xi32>",
        ]
    )


def _module(dtype: Any, wide: bool, tile: int) -> Any:
    inputs = {
        "memory": np.zeros(LONG, dtype),
        "at": np.zeros(tile, np.int64 if wide else np.int32),
        "on": np.zeros(tile, np.int32),
        "given": np.zeros(tile, dtype),
    }
    outputs = {"out": np.zeros(tile, np.int32)}
    return checked(kernel_text(_body(dtype, wide, tile), inputs, outputs, ""))


@pytest.mark.parametrize("tile", [1, 2, 4, 8, 16, 64])
@pytest.mark.parametrize("wide", [False, True], ids=["i32", "i64"])
@pytest.mark.parametrize("dtype", KINDS)
def test_lanes_that_are_off_are_not_written(dtype: Any, wide: bool, tile: int) -> None:
    rng = np.random.default_rng(tile)
    module = _module(dtype, wide, tile)
    programs = {cpu: Program(module, options=LaunchOptions(cpu=cpu)) for cpu in LEVELS}
    # Nothing lies where lanes that are off point to.
    far = 1 << 42 if wide else 1 << 30
    for chosen in (np.ones(tile), np.zeros(tile), rng.integers(0, 2, tile)):
        on = chosen.astype(np.int32)
        # The last lane of several that go to one place stays.
        there = rng.integers(0, LONG if tile < 8 else tile // 2, tile)
        places = np.where(on != 0, there, far * rng.choice((-1, 1), tile))
        given = rng.integers(-50, 50, tile).astype(dtype)
        right = rng.integers(-50, 50, LONG).astype(dtype)
        before = right.copy()
        for lane in np.flatnonzero(on):
            right[there[lane]] = given[lane]
        for cpu, program in programs.items():
            memory = before.copy()
            at = places.astype(np.int64 if wide else np.int32)
            program.launch("k", 1, [memory, at, on, given, np.zeros(tile, np.int32)])
            assert same_bits(memory, right).all(), (cpu, on)


@pytest.mark.skipif(not cpu_target().is_x86, reason="levels of x86")
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64])
def test_no_lane_has_a_branch_of_its_own(dtype: Any) -> None:
    """LLVM makes one for each lane of ``masked.scatter`` where the processor scatters nothing."""
    compiled = compile_kernel(_module(dtype, False, 64), None, CompileOptions(cpu="x86-64-v3"))
    assert "masked.scatter" not in compiled.llvm_ir
