"""Runs functions of the library on arrays, and measures how far off they are."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from tilewright.cpu import mathlib
from tilewright.cpu.runtime.engine import compile_ir, load_object
from tilewright.cpu.target import HOST, cpu_target

Array = np.ndarray[Any, Any]

DTYPES = {32: np.dtype(np.float32), 64: np.dtype(np.float64)}

#: The functions in float64, good to a few ulp of that: exact beside f32.
REFERENCES: dict[str, Callable[..., Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "atan2": np.arctan2,
    "pow": np.power,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
}


@cache
def native(name: str, bits: int, lanes: int, target_name: str = HOST) -> Callable[..., Array]:
    """The function over arrays of any length, ``lanes`` elements at a time."""
    target = cpu_target(target_name)
    module = ir.Module()
    function = mathlib.emit(module, name, lanes, bits, target.enabled)
    operands = len(function.args)
    _add_loop(module, function, lanes, bits)
    library = load_object(compile_ir(str(module), target), target, ["drive"])
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (operands + 1), ctypes.c_int64)(
        library.address("drive")
    )

    def run(*arrays: Array) -> Array:
        count = arrays[0].size
        padded = -(-count // lanes) * lanes
        inputs = [np.zeros(padded, DTYPES[bits]) for _ in arrays]
        for given, padded_input in zip(arrays, inputs, strict=True):
            padded_input[:count] = given
        output = np.empty(padded, DTYPES[bits])
        call(*(a.ctypes.data for a in (*inputs, output)), padded)
        return output[:count]

    run.library = library  # pyright: ignore[reportFunctionMemberAccess]
    return run


def _add_loop(module: ir.Module, function: ir.Function, lanes: int, bits: int) -> None:
    """``void @drive(ptr inputs..., ptr output, i64 count)``."""
    element = ir.FloatType() if bits == 32 else ir.DoubleType()
    index = ir.IntType(64)
    pointers = [element.as_pointer()] * (len(function.args) + 1)
    drive = ir.Function(module, ir.FunctionType(ir.VoidType(), [*pointers, index]), "drive")
    *inputs, output, count = drive.args
    entry, loop, done = (drive.append_basic_block(name) for name in ("entry", "loop", "done"))
    ir.IRBuilder(entry).branch(loop)
    ir.IRBuilder(done).ret_void()
    b = ir.IRBuilder(loop)
    at = b.phi(index)
    vector = function.args[0].type.as_pointer()
    values = [b.load(b.bitcast(b.gep(p, [at]), vector), align=bits // 8) for p in inputs]
    result = b.call(function, values)
    b.store(result, b.bitcast(b.gep(output, [at]), vector), align=bits // 8)
    following = b.add(at, index(lanes))
    at.add_incoming(index(0), entry)
    at.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, count), loop, done)


def errors32(got: Array, reference: Array) -> Array:
    """The distance of f32 results from float64 ones in ulp of f32; infinite where they disagree on
    NaN, an infinity or the sign of a zero."""
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(np.abs(reference))
        unit = np.ldexp(1.0, np.maximum(exponent - 24, -149))
        distance = np.abs(got.astype(np.float64) - reference) / unit
        # Where f32 has no number as large, the infinity is right.
        same = (np.isnan(got) & np.isnan(reference)) | (got == reference.astype(np.float32))
    exact_zero = reference == 0
    wrong_zero = exact_zero & (np.signbit(got) != np.signbit(reference))
    distance = np.where(same & ~np.isfinite(distance), 0.0, distance)
    distance = np.where(same & np.isinf(got), 0.0, distance)
    return np.where(wrong_zero | np.isnan(distance), np.inf, distance)


def spread32(count: int, seed: int) -> Array:
    """f32 numbers of every size and sign: one from each of ``count`` ranges of bit patterns."""
    generator = np.random.default_rng(seed)
    step = 2**32 // count
    patterns = np.arange(count, dtype=np.uint64) * step + generator.integers(0, step, count)
    return patterns.astype(np.uint32).view(np.float32)
