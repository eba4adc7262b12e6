"""Matrix products."""

from __future__ import annotations

from tilewright.dialects.cuda_tile.base import enum_property
from tilewright.dialects.cuda_tile.ops import matrix
from tilewright.machine.compile import Step, Translator, implements, tile_type
from tilewright.machine.values import Registers
from tilewright.numerics.accumulation import mmaf_of, mmaf_scaled_of
from tilewright.numerics.matrix import mmai


@implements(matrix.MmaFOp)
def float_product(op: matrix.MmaFOp, t: Translator) -> Step:
    lhs, rhs, acc, result = t.slots((op.lhs, op.rhs, op.acc, op.result))
    element, acc_element = tile_type(op.lhs).element, tile_type(op.acc).element
    mmaf = mmaf_of(t.arithmetic, element)

    def step(regs: Registers) -> None:
        regs[result] = mmaf(regs[lhs], regs[rhs], regs[acc], element, acc_element=acc_element)

    return step


@implements(matrix.MmaIOp)
def integer_product(op: matrix.MmaIOp, t: Translator) -> Step:
    lhs, rhs, acc, result = t.slots((op.lhs, op.rhs, op.acc, op.result))
    signed_lhs = enum_property(op, "signedness_lhs")
    signed_rhs = enum_property(op, "signedness_rhs")

    def step(regs: Registers) -> None:
        regs[result] = mmai(
            regs[lhs],
            regs[rhs],
            regs[acc],
            "i8",
            signedness_lhs=signed_lhs,
            signedness_rhs=signed_rhs,
        )

    return step


@implements(matrix.MmaFScaledOp)
def scaled_product(op: matrix.MmaFScaledOp, t: Translator) -> Step:
    lhs, rhs, acc, result = t.slots((op.lhs, op.rhs, op.acc, op.result))
    lhs_scale, rhs_scale = t.slots((op.lhs_scale, op.rhs_scale))
    element, scale = tile_type(op.lhs).element, tile_type(op.lhs_scale).element
    mmaf_scaled = mmaf_scaled_of(t.arithmetic)

    def step(regs: Registers) -> None:
        regs[result] = mmaf_scaled(
            regs[lhs],
            regs[rhs],
            regs[acc],
            regs[lhs_scale],
            regs[rhs_scale],
            element,
            scale_element=scale,
        )

    return step
