"""The code of bands of tile blocks (``analysis.block_bands``): how high they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llvmlite import ir

from tilewright.cpu.codegen.analysis.block_bands import Strip
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I64
from tilewright.cpu.codegen.ir.types import Value
from tilewright.cpu.codegen.products.running_sums import make_early

#: What part of the second cache operands may take, in percent; the results and what streams through it have the rest.
_SHARE = 66


def height_of(f: FunctionEmitter, strips: Sequence[Strip]) -> Value | None:
    """How many blocks a band is high, computed in front of the loop over blocks; None without bands."""
    if not strips:
        return None
    b, one = f.builder, ir.Constant(I64, 1)
    left = right = ir.Constant(I64, 0)
    for strip in strips:
        rounds: Value = one
        for bounds in strip.ranges:
            for value in bounds:
                make_early(f, value)
            first, bound, step = (f.as_index(value) for value in bounds)
            count = b.udiv(b.add(b.sub(bound, first), b.sub(step, one)), _at_least_one(f, step))
            rounds = b.mul(rounds, _at_least_one(f, count))
        left = b.add(left, b.mul(rounds, ir.Constant(I64, strip.left)))
        right = b.add(right, b.mul(rounds, ir.Constant(I64, strip.right)))
    room = ir.Constant(I64, f.unit.target.l2_bytes * _SHARE // 100)
    room = b.sub(room, llvm.intrinsic(b, "umin", [right, room]))
    axes = ["xyz"[axis] for axis in f.unit.order[:2]]
    f.unit.remarks.add(
        "order",
        f"blocks run in bands along {axes[1]}, of as many along {axes[0]} as have their left operands"
        " in the second cache",
    )
    height = _at_least_one(f, b.udiv(room, _at_least_one(f, left)))
    extent = b.zext(f.frame.grid[f.unit.order[0]], I64)
    f.frame = replace(f.frame, in_bands=b.icmp_unsigned("<", height, extent))
    return height


def _at_least_one(f: FunctionEmitter, number: Value) -> Value:
    return llvm.intrinsic(f.builder, "umax", [number, ir.Constant(I64, 1)])
