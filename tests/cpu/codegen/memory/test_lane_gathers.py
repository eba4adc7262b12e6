"""Elements from anywhere in memory: which lanes are read, by which instruction, and that others are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.support import same_bits
from tests.machine.tileaa.support import checked, element, kernel_text

from tilewright import LaunchOptions
from tilewright.cpu import Program
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.runtime import engine
from tilewright.cpu.target import cpu_target, missing_features

_IS_X86 = cpu_target().is_x86
LEVELS = ["host", "generic"]
if _IS_X86:
    LEVELS += [name for name in ("x86-64-v3",) if not missing_features(cpu_target(name))]
KINDS = (np.float32, np.float64, np.int32, np.int64, np.float16, np.int8, np.bool_)


def _body(dtype: Any, wide: bool, tile: int, *, masked: bool) -> str:
    """``memory[at]`` where ``on`` is not zero, ``other`` elsewhere."""
    kind, number = element(np.zeros(1, dtype)), "i64" if wide else "i32"
    pointers, flags = f"tile<{tile}x!nv_tileaa.ptr<{kind}, 1>>", f"tile<{tile}xi1>"
    places, ty = f"tile<{tile}x{number}>", f"tile<{tile}x{kind}>"
    on, kinds = (", %chosen, %other", f", {flags}, {ty}") if masked else ("", "")
    return "\n".join(
        [
            f"%none = arith.constant dense<0> : tile<{tile}xi32>",
            f"%chosen = arith.cmpi ne, %on, %none : tile<{tile}xi32>",
            f"%ps = nv_tileaa.splat %ptr_memory : !nv_tileaa.ptr<{kind}, 1> -> {pointers}",
            f"%there = nv_tileaa.addptr %ps, %at : {pointers}, {places} -> {pointers}",
            f"%out = nv_tileaa.load %there{on} : {pointers}{kinds} -> {ty}",
        ]
    )


@pytest.mark.parametrize("tile", [1, 2, 4, 8, 16, 64])
@pytest.mark.parametrize("wide", [False, True], ids=["i32", "i64"])
@pytest.mark.parametrize("dtype", KINDS)
def test_lanes_that_are_off_are_not_read(dtype: Any, wide: bool, tile: int) -> None:
    rng = np.random.default_rng(tile)
    memory = rng.integers(-50, 50, 700).astype(dtype)
    # Nothing lies where lanes that are off point to.
    far = 1 << 42 if wide else 1 << 30
    for chosen in (np.ones(tile), np.zeros(tile), rng.integers(0, 2, tile)):
        on = chosen.astype(np.int32)
        places = np.where(on != 0, rng.integers(0, 700, tile), far * rng.choice((-1, 1), tile))
        inputs = {
            "memory": memory,
            "at": places.astype(np.int64 if wide else np.int32),
            "on": on,
            "other": rng.integers(-50, 50, tile).astype(dtype),
        }
        right = np.where(on != 0, memory[np.where(on != 0, places, 0)], inputs["other"])
        text = kernel_text(
            _body(dtype, wide, tile, masked=True), inputs, {"out": np.zeros(tile, dtype)}, ""
        )
        module = checked(text)
        for cpu in LEVELS:
            out = np.zeros(tile, dtype)
            given = [array.copy() for array in inputs.values()]
            Program(module, options=LaunchOptions(cpu=cpu)).launch("k", 1, [*given, out])
            assert same_bits(out, right).all(), (cpu, on)


def _code(dtype: Any, wide: bool, cpu: str, *, masked: bool = True) -> str:
    inputs = {
        "memory": np.zeros(700, dtype),
        "at": np.zeros(64, np.int64 if wide else np.int32),
        "on": np.zeros(64, np.int32),
        "other": np.zeros(64, dtype),
    }
    body = _body(dtype, wide, 64, masked=masked)
    module = checked(kernel_text(body, inputs, {"out": np.zeros(64, dtype)}, ""))
    compiled = compile_kernel(module, None, CompileOptions(cpu=cpu))
    parsed = engine.parse_ir(compiled.llvm_ir, cpu_target(cpu))
    engine.optimize(parsed, cpu_target(cpu))
    return engine.emit_assembly(parsed, cpu_target(cpu))


@pytest.mark.skipif(not _IS_X86, reason="instructions of x86")
@pytest.mark.parametrize(
    ("dtype", "wide", "instruction"),
    [
        (np.float32, False, "vgatherdps"),
        (np.float32, True, "vgatherqps"),
        (np.int32, False, "vpgatherdd"),
        (np.float64, False, "vgatherdpd"),
        (np.int64, True, "vpgatherqq"),
        (np.float16, False, "vpgatherqd"),
        (np.int8, True, "vpgatherqd"),
    ],
)
def test_avx2_takes_no_branch_for_a_lane(dtype: Any, wide: bool, instruction: str) -> None:
    for cpu in ("x86-64-v3", "x86-64-v4"):
        assert instruction in _code(dtype, wide, cpu), cpu
