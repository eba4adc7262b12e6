"""Integers: arithmetic and bits."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import operand_def, opt_prop_def, result_def, traits_def
from xdsl.traits import NoMemoryEffect, Pure

from tilewright.dialects.arith.base import (
    BINARY,
    OVERFLOW,
    SIGNED,
    UNARY,
    UNSIGNED,
    WORD,
    WRAPPING_BINARY,
    ArithOp,
    arith_op,
)
from tilewright.dialects.declare import examples, same_type
from tilewright.dialects.facts import Extreme

WRAPS = ("an overflow that the overflow flags exclude",)
TOO_FAR = ("a shift by the width or more",)
ZERO_DIVISOR = ("a zero in rhs",)
OVERFLOWING_DIVISION = (*ZERO_DIVISOR, "the smallest value divided by -1")


class IntegerPair(ArithOp):
    """Two operands of one type, which is the result's; may be undefined for some of them."""

    lhs = operand_def(WORD)
    rhs = operand_def(WORD)
    result = result_def(WORD)
    RELATIONS: ClassVar = (same_type("lhs", "rhs", "result"),)
    SYNTAX: ClassVar = BINARY
    INFER: ClassVar = {"lhs": "result", "rhs": "result"}


class IntegerBinary(IntegerPair):
    """As above, safe to execute anywhere."""

    traits = traits_def(Pure())


class Division(IntegerPair):
    """As above, but not to be executed where the program does not."""

    traits = traits_def(NoMemoryEffect())
    COST: ClassVar = 20
    COST_BY_POWER_OF_TWO: ClassVar = 2


class Wrapping(IntegerBinary):
    """As above, with promises that the result does not wrap: nsw read signed, nuw unsigned."""

    overflow_flags = opt_prop_def(OVERFLOW, prop_name="overflowFlags")
    SYNTAX: ClassVar = WRAPPING_BINARY
    HIDDEN: ClassVar = frozenset({"overflowFlags"})
    UNDEFINED: ClassVar = WRAPS


@arith_op("arith.addi", group="integer")
class AddiOp(Wrapping):
    """lhs + rhs modulo 2**width."""

    NEUTRAL: ClassVar = 0
    EXAMPLES: ClassVar = examples(
        "%s = arith.addi %k, %k : tile<8xi32>",
        "%s = arith.addi %n, %n overflow<nsw, nuw> : i32",
    )


@arith_op("arith.subi", group="integer")
class SubiOp(Wrapping):
    """lhs - rhs modulo 2**width."""

    RIGHT_NEUTRAL: ClassVar = 0
    SOURCE: ClassVar = "subi, negi"
    EXAMPLES: ClassVar = examples("%s = arith.subi %i, %j overflow<nsw> : index")


@arith_op("arith.muli", group="integer")
class MuliOp(Wrapping):
    """lhs * rhs modulo 2**width."""

    NEUTRAL: ClassVar = 1
    EXAMPLES: ClassVar = examples("%s = arith.muli %k, %k overflow<nuw> : tile<8xi32>")


@arith_op("arith.divsi", group="integer")
class DivSIOp(Division):
    """lhs / rhs, both read signed, rounded to zero."""

    MEANING: ClassVar = "divi"
    KEYWORDS: ClassVar = {**SIGNED, "rounding": "zero"}
    RIGHT_NEUTRAL: ClassVar = 1
    EXAMPLES: ClassVar = examples("%s = arith.divsi %k, %k : tile<8xi32>")
    UNDEFINED: ClassVar = OVERFLOWING_DIVISION


@arith_op("arith.divui", group="integer")
class DivUIOp(Division):
    """lhs / rhs, both read unsigned, rounded down."""

    MEANING: ClassVar = "divi"
    KEYWORDS: ClassVar = {**UNSIGNED, "rounding": "zero"}
    RIGHT_NEUTRAL: ClassVar = 1
    EXAMPLES: ClassVar = examples("%s = arith.divui %n, %n : i32")
    UNDEFINED: ClassVar = ZERO_DIVISOR


@arith_op("arith.ceildivsi", group="integer")
class CeilDivSIOp(Division):
    """lhs / rhs, both read signed, rounded up."""

    MEANING: ClassVar = "divi"
    KEYWORDS: ClassVar = {**SIGNED, "rounding": "positive_inf"}
    EXAMPLES: ClassVar = examples("%s = arith.ceildivsi %n, %n : i32")
    UNDEFINED: ClassVar = OVERFLOWING_DIVISION


@arith_op("arith.ceildivui", group="integer")
class CeilDivUIOp(Division):
    """lhs / rhs, both read unsigned, rounded up."""

    MEANING: ClassVar = "divi"
    KEYWORDS: ClassVar = {**UNSIGNED, "rounding": "positive_inf"}
    EXAMPLES: ClassVar = examples("%s = arith.ceildivui %i, %j : index")
    UNDEFINED: ClassVar = ZERO_DIVISOR


@arith_op("arith.floordivsi", group="integer")
class FloorDivSIOp(Division):
    """lhs / rhs, both read signed, rounded down."""

    MEANING: ClassVar = "divi"
    KEYWORDS: ClassVar = {**SIGNED, "rounding": "negative_inf"}
    EXAMPLES: ClassVar = examples("%s = arith.floordivsi %k, %k : tile<8xi32>")
    UNDEFINED: ClassVar = OVERFLOWING_DIVISION


@arith_op("arith.remsi", group="integer")
class RemSIOp(Division):
    """lhs - trunc(lhs / rhs) * rhs, both read signed; the sign follows lhs.

    0 for the smallest value and -1, which upstream leaves undefined.
    """

    MEANING: ClassVar = "remi"
    KEYWORDS: ClassVar = SIGNED
    EXAMPLES: ClassVar = examples("%s = arith.remsi %k, %k : tile<8xi32>")
    UNDEFINED: ClassVar = ZERO_DIVISOR


@arith_op("arith.remui", group="integer")
class RemUIOp(Division):
    """lhs - floor(lhs / rhs) * rhs, both read unsigned."""

    MEANING: ClassVar = "remi"
    KEYWORDS: ClassVar = UNSIGNED
    EXAMPLES: ClassVar = examples("%s = arith.remui %n, %n : i32")
    UNDEFINED: ClassVar = ZERO_DIVISOR


@arith_op("arith.maxsi", group="integer")
class MaxSIOp(IntegerBinary):
    """The larger element, read signed."""

    MEANING: ClassVar = "maxi"
    KEYWORDS: ClassVar = SIGNED
    NEUTRAL: ClassVar = Extreme.LOWEST
    EXAMPLES: ClassVar = examples("%s = arith.maxsi %k, %k : tile<8xi32>")


@arith_op("arith.maxui", group="integer")
class MaxUIOp(IntegerBinary):
    """The larger element, read unsigned."""

    MEANING: ClassVar = "maxi"
    KEYWORDS: ClassVar = UNSIGNED
    NEUTRAL: ClassVar = 0
    EXAMPLES: ClassVar = examples("%s = arith.maxui %i, %j : index")


@arith_op("arith.minsi", group="integer")
class MinSIOp(IntegerBinary):
    """The smaller element, read signed."""

    MEANING: ClassVar = "mini"
    KEYWORDS: ClassVar = SIGNED
    NEUTRAL: ClassVar = Extreme.HIGHEST
    EXAMPLES: ClassVar = examples("%s = arith.minsi %k, %k : tile<8xi32>")


@arith_op("arith.minui", group="integer")
class MinUIOp(IntegerBinary):
    """The smaller element, read unsigned."""

    MEANING: ClassVar = "mini"
    KEYWORDS: ClassVar = UNSIGNED
    NEUTRAL: ClassVar = -1
    EXAMPLES: ClassVar = examples("%s = arith.minui %n, %n : i32")


@arith_op("arith.andi", group="bitwise")
class AndIOp(IntegerBinary):
    """Bitwise and."""

    NEUTRAL: ClassVar = -1
    EXAMPLES: ClassVar = examples("%s = arith.andi %mask, %mask : tile<8xi1>")


@arith_op("arith.ori", group="bitwise")
class OrIOp(IntegerBinary):
    """Bitwise or."""

    NEUTRAL: ClassVar = 0
    EXAMPLES: ClassVar = examples("%s = arith.ori %k, %k : tile<8xi32>")


@arith_op("arith.xori", group="bitwise")
class XOrIOp(IntegerBinary):
    """Bitwise exclusive or."""

    NEUTRAL: ClassVar = 0
    EXAMPLES: ClassVar = examples("%s = arith.xori %c, %c : i1")


@arith_op("arith.shli", group="bitwise")
class ShLIOp(Wrapping):
    """lhs shifted left by rhs bits, read unsigned; zeros come in.

    A shift by the width or more gives 0.
    """

    RIGHT_NEUTRAL: ClassVar = 0
    EXAMPLES: ClassVar = examples("%s = arith.shli %k, %k overflow<nsw> : tile<8xi32>")
    UNDEFINED: ClassVar = (*WRAPS, *TOO_FAR)


@arith_op("arith.shrsi", group="bitwise")
class ShRSIOp(IntegerBinary):
    """lhs shifted right by rhs bits, read unsigned; copies of the sign come in."""

    MEANING: ClassVar = "shri"
    KEYWORDS: ClassVar = SIGNED
    RIGHT_NEUTRAL: ClassVar = 0
    EXAMPLES: ClassVar = examples("%s = arith.shrsi %k, %k : tile<8xi32>")
    UNDEFINED: ClassVar = TOO_FAR


@arith_op("arith.shrui", group="bitwise")
class ShRUIOp(IntegerBinary):
    """lhs shifted right by rhs bits, read unsigned; zeros come in."""

    MEANING: ClassVar = "shri"
    KEYWORDS: ClassVar = UNSIGNED
    RIGHT_NEUTRAL: ClassVar = 0
    EXAMPLES: ClassVar = examples("%s = arith.shrui %n, %n : i32")
    UNDEFINED: ClassVar = TOO_FAR


@arith_op("math.absi", group="integer")
class AbsIOp(ArithOp):
    """The magnitude of a signed number, to be read unsigned: the smallest number stays."""

    source = operand_def(WORD)
    result = result_def(WORD)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("source", "result"),)
    SYNTAX: ClassVar = UNARY
    INFER: ClassVar = {"source": "result"}
    EXAMPLES: ClassVar = examples("%s = math.absi %k : tile<8xi32>")
