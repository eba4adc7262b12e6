"""Element-wise integers and bit operations; every width from i1 to i64, signless."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import operand_def, prop_def, result_def, traits_def
from xdsl.traits import NoMemoryEffect, Pure

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile.base import TileOp, tile_op
from tilewright.dialects.cuda_tile.constraints import I1_TILE, INT_TILE, enum_field
from tilewright.dialects.cuda_tile.directives import OVERFLOW_SLOT, SIGNED_WORD, syntax
from tilewright.dialects.cuda_tile.enums import (
    ComparisonPredicateAttr,
    IntegerOverflow,
    IntegerOverflowAttr,
    RoundingMode,
    RoundingModeAttr,
    SignednessAttr,
)
from tilewright.dialects.cuda_tile.ops.floating_point import ROUNDING_NOT_SUPPORTED
from tilewright.dialects.declare import Report, attr, enum_property, examples, same_shape, same_type
from tilewright.dialects.syntax.directives import (
    EnumKeyword,
    EnumSlot,
)
from tilewright.dialects.versions import V13_2

GROUP = "integer"
BITWISE = "bitwise"

OVERFLOW_NOT_SUPPORTED = define_code(
    "overflow-not-supported",
    "The overflow flag does not exist for this operation.",
    "negi takes none, no_signed_wrap and no_wrap.",
)

OVERFLOW = enum_field(IntegerOverflowAttr)
NO_FLAGS = IntegerOverflowAttr(IntegerOverflow.NONE)
SIGNEDNESS = enum_field(SignednessAttr)
TAIL = syntax("attr-dict : type($result)")
FROM_RESULT: dict[str, str] = {"source": "result"}
FROM_RESULT_2: dict[str, str] = {"lhs": "result", "rhs": "result"}
WRAPS = ("an overflow that the overflow flag excludes",)


class TwoOperands(TileOp):
    """Two operands of one type, which is the result's."""

    lhs = operand_def(INT_TILE)
    rhs = operand_def(INT_TILE)
    result = result_def(INT_TILE)
    RELATIONS: ClassVar = (same_type("lhs", "rhs", "result"),)
    SYNTAX: ClassVar = syntax("$lhs, $rhs", *TAIL)
    INFER: ClassVar = FROM_RESULT_2


class Binary(TwoOperands):
    """As above, without effects and safe to execute anywhere."""

    traits = traits_def(Pure())


class Wrapping(Binary):
    """As above, with a promise that the result does not wrap."""

    overflow = prop_def(OVERFLOW, default_value=NO_FLAGS)
    SYNTAX: ClassVar = syntax("$lhs, $rhs", OVERFLOW_SLOT, *TAIL)
    UNDEFINED: ClassVar = WRAPS


class SignedBinary(Binary):
    """As above, in a reading of the numbers."""

    signedness = prop_def(SIGNEDNESS)
    SYNTAX: ClassVar = syntax("$lhs, $rhs", SIGNED_WORD, *TAIL)


@tile_op("addi", opcode=0x03, group=GROUP)
class AddIOp(Wrapping):
    """lhs + rhs modulo 2**width."""

    EXAMPLES: ClassVar = examples(
        """
        %x = iota : tile<4xi32>
        %y = constant <i32: 10> : tile<4xi32>
        %z = addi %x, %y : tile<4xi32>                       // 10, 11, 12, 13
        %w = addi %z, %y overflow<no_wrap> : tile<4xi32>     // does not wrap
        """,
    )


@tile_op("subi", opcode=0x68, group=GROUP)
class SubIOp(Wrapping):
    """lhs - rhs modulo 2**width."""

    EXAMPLES: ClassVar = examples(
        """
        %x = iota : tile<4xi32>
        %y = constant <i32: 1> : tile<4xi32>
        %z = subi %x, %y overflow<no_signed_wrap> : tile<4xi32>  // -1, 0, 1, 2
        """,
    )


@tile_op("muli", opcode=0x4E, group=GROUP)
class MulIOp(Wrapping):
    """lhs * rhs modulo 2**width."""

    EXAMPLES: ClassVar = examples(
        """
        %x = iota : tile<4xi32>
        %z = muli %x, %x overflow<no_unsigned_wrap> : tile<4xi32>  // 0, 1, 4, 9
        """,
    )


@tile_op("shli", opcode=0x60, group=GROUP)
class ShLIOp(Wrapping):
    """lhs shifted left by rhs bits, zeros coming in; rhs is read unsigned.

    A shift by the width or more gives 0.
    """

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <i32: 1> : tile<4xi32>
        %bits = iota : tile<4xi32>
        %z = shli %x, %bits overflow<no_wrap> : tile<4xi32>  // 1, 2, 4, 8
        """,
    )
    UNDEFINED: ClassVar = (*WRAPS, "a shift by the width or more")


@tile_op("maxi", opcode=0x46, group=GROUP)
class MaxIOp(SignedBinary):
    """The larger element in the reading given by signedness."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <i32: [-1, 5]> : tile<2xi32>
        %y = constant <i32: 2> : tile<2xi32>
        %s = maxi %x, %y signed : tile<2xi32>    // 2, 5
        %u = maxi %x, %y unsigned : tile<2xi32>  // -1 (the largest number), 5
        """,
    )


@tile_op("mini", opcode=0x48, group=GROUP)
class MinIOp(SignedBinary):
    """The smaller element in the reading given by signedness."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <i32: [-1, 5]> : tile<2xi32>
        %y = constant <i32: 2> : tile<2xi32>
        %s = mini %x, %y signed : tile<2xi32>    // -1, 2
        %u = mini %x, %y unsigned : tile<2xi32>  // 2, 2
        """,
    )


@tile_op("remi", opcode=0x5A, group=GROUP)
class RemIOp(SignedBinary):
    """lhs - trunc(lhs / rhs) * rhs; the sign follows lhs."""

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <i32: [7, -7]> : tile<2xi32>
        %y = constant <i32: 3> : tile<2xi32>
        %z = remi %x, %y signed : tile<2xi32>  // 1, -1
        """,
    )
    UNDEFINED: ClassVar = ("a zero in rhs",)


@tile_op("shri", opcode=0x61, group=GROUP)
class ShRIOp(SignedBinary):
    """lhs shifted right by rhs bits; signed fills with the sign, unsigned with zeros.

    rhs is read unsigned.
    """

    EXAMPLES: ClassVar = examples(
        """
        %x = constant <i8: [-8, 8]> : tile<2xi8>
        %one = constant <i8: 1> : tile<2xi8>
        %s = shri %x, %one signed : tile<2xi8>    // -4, 4
        %u = shri %x, %one unsigned : tile<2xi8>  // 124, 4
        """,
    )
    UNDEFINED: ClassVar = ("a shift by the width or more",)


@tile_op("andi", opcode=0x04, group=BITWISE)
class AndIOp(Binary):
    """Bitwise and."""

    EXAMPLES: ClassVar = examples(
        """
        %x = iota : tile<4xi32>
        %mask = constant <i32: 1> : tile<4xi32>
        %odd = andi %x, %mask : tile<4xi32>  // 0, 1, 0, 1
        """,
    )


@tile_op("ori", opcode=0x52, group=BITWISE)
class OrIOp(Binary):
    """Bitwise or."""

    EXAMPLES: ClassVar = examples(
        """
        %x = iota : tile<4xi32>
        %bit = constant <i32: 4> : tile<4xi32>
        %y = ori %x, %bit : tile<4xi32>  // 4, 5, 6, 7
        """,
    )


@tile_op("xori", opcode=0x6C, group=BITWISE)
class XOrIOp(Binary):
    """Bitwise exclusive or."""

    EXAMPLES: ClassVar = examples(
        """
        %c = constant <i1: [true, false]> : tile<2xi1>
        %true = constant <i1: true> : tile<2xi1>
        %not = xori %c, %true : tile<2xi1>  // false, true
        """,
    )


@tile_op("mulhii", opcode=0x4D, group=GROUP)
class MulhiIOp(TileOp):
    """The high half of the unsigned 2*width-bit product of x and y."""

    x = operand_def(INT_TILE)
    y = operand_def(INT_TILE)
    result = result_def(INT_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("x", "y", "result"),)
    SYNTAX: ClassVar = syntax("$x, $y", *TAIL)
    INFER: ClassVar = {"x": "result", "y": "result"}
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <i32: 0x40000000> : tile<8xi32>
        %y = iota : tile<8xi32>
        %high = mulhii %x, %y : tile<8xi32>  // 0, 0, 0, 0, 1, 1, 1, 1
        %low = muli %x, %y : tile<8xi32>
        """,
    )


@tile_op("divi", opcode=0x15, group=GROUP)
class DivIOp(TwoOperands):
    """lhs / rhs rounded to an integer: to zero by default, down or up on demand."""

    signedness = prop_def(SIGNEDNESS)
    rounding = prop_def(
        enum_field(RoundingModeAttr), default_value=RoundingModeAttr(RoundingMode.ZERO)
    )
    traits = traits_def(NoMemoryEffect())
    SYNTAX: ClassVar = syntax(
        "$lhs, $rhs",
        SIGNED_WORD,
        EnumSlot("rounding", RoundingModeAttr, "rounding", "zero"),
        *TAIL,
    )
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <i32: [7, -7]> : tile<2xi32>
        %y = constant <i32: 2> : tile<2xi32>
        %zero = divi %x, %y signed : tile<2xi32>                         // 3, -3
        %down = divi %x, %y signed rounding<negative_inf> : tile<2xi32>  // 3, -4
        %up = divi %x, %y signed rounding<positive_inf> : tile<2xi32>    // 4, -3
        """,
    )
    UNDEFINED: ClassVar = ("a zero in rhs", "signed: the smallest value divided by -1")

    def check(self, report: Report) -> None:
        mode = enum_property(self, "rounding")
        if mode not in ("zero", "negative_inf", "positive_inf"):
            report.error(
                ROUNDING_NOT_SUPPORTED,
                f"expected rounding mode to be one of: zero, negative_inf, positive_inf, "
                f"got: '{mode}'",
                attr("rounding"),
            )
        elif mode == "negative_inf" and enum_property(self, "signedness") == "unsigned":
            report.error(
                ROUNDING_NOT_SUPPORTED,
                "rounding mode 'negative_inf' is not allowed with 'unsigned' flag",
                attr("rounding"),
                help="leave the rounding out: for unsigned values it is the same as zero",
            )


@tile_op("absi", opcode=0x01, group=GROUP)
class AbsIOp(TileOp):
    """|source|, reading source signed and the result unsigned, so that it always fits."""

    source = operand_def(INT_TILE)
    result = result_def(INT_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("source", "result"),)
    SYNTAX: ClassVar = syntax("$source", *TAIL)
    INFER: ClassVar = FROM_RESULT
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <i8: [-128, 5]> : tile<2xi8>
        %y = absi %x : tile<2xi8>  // 128 read unsigned, 5
        """,
    )


@tile_op("negi", opcode=0x50, group=GROUP)
class NegIOp(TileOp):
    """-source modulo 2**width."""

    overflow = prop_def(OVERFLOW, default_value=NO_FLAGS)
    source = operand_def(INT_TILE)
    result = result_def(INT_TILE)
    traits = traits_def(Pure())
    SINCE_OF: ClassVar = {"overflow": V13_2}
    RELATIONS: ClassVar = (same_type("source", "result"),)
    SYNTAX: ClassVar = syntax("$source", OVERFLOW_SLOT, *TAIL)
    INFER: ClassVar = FROM_RESULT
    EXAMPLES: ClassVar = examples(
        """
        %x = iota : tile<4xi32>
        %y = negi %x overflow<no_signed_wrap> : tile<4xi32>  // 0, -1, -2, -3
        """,
    )
    UNDEFINED: ClassVar = WRAPS

    def check(self, report: Report) -> None:
        if enum_property(self, "overflow") == "no_unsigned_wrap":
            report.error(
                OVERFLOW_NOT_SUPPORTED,
                "'no_unsigned_wrap' overflow flag is not supported",
                attr("overflow"),
            )


@tile_op("cmpi", opcode=0x0F, group=GROUP)
class CmpIOp(TileOp):
    """Compares element by element, in the reading given by signedness."""

    comparison_predicate = prop_def(enum_field(ComparisonPredicateAttr))
    signedness = prop_def(SIGNEDNESS)
    lhs = operand_def(INT_TILE)
    rhs = operand_def(INT_TILE)
    result = result_def(I1_TILE)
    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_type("lhs", "rhs"), same_shape("lhs", "result"))
    SYNTAX: ClassVar = syntax(
        EnumKeyword("comparison_predicate", ComparisonPredicateAttr),
        "$lhs, $rhs,",
        SIGNED_WORD,
        "attr-dict : type($lhs) -> type($result)",
    )
    INFER: ClassVar = {"rhs": "lhs"}
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <i32: [-1, 1]> : tile<2xi32>
        %y = constant <i32: 0> : tile<2xi32>
        %s = cmpi less_than %x, %y, signed : tile<2xi32> -> tile<2xi1>    // true, false
        %u = cmpi less_than %x, %y, unsigned : tile<2xi32> -> tile<2xi1>  // false, false
        """,
    )
