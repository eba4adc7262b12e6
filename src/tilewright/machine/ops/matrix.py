"""Matrix products."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilewright.dialects.cuda_tile.ops import matrix
from tilewright.dialects.declare import enum_property
from tilewright.machine.compile import Step, Translator, implements, tile_type
from tilewright.machine.fused_blocks import inline
from tilewright.machine.values import Registers
from tilewright.numerics.accumulation import mmaf_of, mmaf_scaled_of
from tilewright.numerics.arrays import dtype_of
from tilewright.numerics.matrix import mmai, multiply_add
from tilewright.numerics.rounding import unguarded


@implements(matrix.MmaFOp)
def _float_product(op: matrix.MmaFOp, t: Translator) -> Step:
    return float_step(t, op.lhs, op.rhs, op.acc, op.result)


def float_step(t: Translator, a: SSAValue, b: SSAValue, c: SSAValue, d: SSAValue) -> Step:
    """d = a x b + c on floats."""
    lhs, rhs, acc, result = t.slots((a, b, c, d))
    element, acc_element = tile_type(a).element, tile_type(c).element
    mmaf = unguarded(mmaf_of(t.arithmetic, element))

    def step(regs: Registers) -> None:
        regs[result] = mmaf(regs[lhs], regs[rhs], regs[acc], element, acc_element=acc_element)

    # The default product, as ``matrix.mmaf`` computes it.
    is_usual = t.arithmetic.accumulation == "blas" and acc_element == "f32"
    if not is_usual or dtype_of(element).itemsize == 4:
        return step
    return inline(
        "lhs, rhs = regs[{lhs}], regs[{rhs}]\n"
        "wide_lhs, wide_rhs = {wide}(id(lhs)), {wide}(id(rhs))\n"
        "if wide_lhs is None: wide_lhs = {widened}(lhs)\n"
        "if wide_rhs is None: wide_rhs = {widened}(rhs)\n"
        "regs[{result}] = {multiply_add}(wide_lhs, wide_rhs, regs[{acc}])",
        lhs=lhs,
        rhs=rhs,
        acc=acc,
        result=result,
        wide=t.machine.memo.wide.get,
        widened=t.machine.memo.widened,
        multiply_add=multiply_add,
    )


@implements(matrix.MmaIOp)
def _integer_product(op: matrix.MmaIOp, t: Translator) -> Step:
    signs = enum_property(op, "signedness_lhs"), enum_property(op, "signedness_rhs")
    return integer_step(t, op.lhs, op.rhs, op.acc, op.result, signs)


def integer_step(
    t: Translator, a: SSAValue, b: SSAValue, c: SSAValue, d: SSAValue, signs: tuple[str, str]
) -> Step:
    """d = a x b + c on integers, with a and b read in these signednesses."""
    lhs, rhs, acc, result = t.slots((a, b, c, d))
    signed_lhs, signed_rhs = signs

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
def _scaled_product(op: matrix.MmaFScaledOp, t: Translator) -> Step:
    return scaled_step(t, (op.lhs, op.rhs, op.acc, op.lhs_scale, op.rhs_scale), op.result)


def scaled_step(t: Translator, operands: tuple[SSAValue, ...], d: SSAValue) -> Step:
    """d = a x b + c with scale factors; the operands are a, b, c, and the scales of a and b."""
    lhs, rhs, acc, lhs_scale, rhs_scale = t.slots(operands)
    result = t.slot(d)
    element, scale = tile_type(operands[0]).element, tile_type(operands[3]).element
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
