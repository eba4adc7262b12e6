"""Conversions between element types, and between pointers and integers."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile import constraints as K
from tilewright.dialects.cuda_tile.base import TileOp, tile_op, tile_types
from tilewright.dialects.cuda_tile.directives import OVERFLOW_SLOT, SIGNED_WORD, syntax
from tilewright.dialects.cuda_tile.enums import (
    IntegerOverflow,
    IntegerOverflowAttr,
    RoundingMode,
    RoundingModeAttr,
    SignednessAttr,
)
from tilewright.dialects.cuda_tile.ops.core import SOURCE_TO_RESULT
from tilewright.dialects.cuda_tile.ops.floating_point import (
    IEEE_MODES,
    NEAREST_EVEN,
    ROUNDING_NOT_SUPPORTED,
    rounding_slot,
)
from tilewright.dialects.declare import Report, attr, enum_property, examples, same_shape, type_of
from tilewright.dialects.syntax.directives import (
    Flag,
)
from tilewright.dialects.versions import V13_4
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.legality import ftof_rounding_modes

GROUP = "conversions"

WIDTH_RULE = define_code(
    "conversion-width",
    "The widths of source and result do not match the conversion.",
    "exti widens strictly, trunci narrows strictly, bitcast keeps the width (tf32 has 19 bits, "
    "i1 has 1).",
    wrong="%wide = trunci %n : tile<i32> -> tile<i64>",
    right="%wide = exti %n signed : tile<i32> -> tile<i64>",
)
NO_OP_CONVERSION = define_code("no-op-conversion", "ftof must change the element type.")

SIGNEDNESS = K.enum_field(SignednessAttr)
TYPES = syntax("attr-dict : type($from_) -> type($to)")
TO_ZERO = RoundingModeAttr(RoundingMode.NEAREST_INT_TO_ZERO)


def _widths(op: TileOp) -> tuple[int, int] | None:
    """(source, result) widths in significant bits, or None unless both are tiles of numbers."""
    types = tile_types(op.operands[0], op.results[0])
    if types is None or not all(ty.element in FORMATS for ty in types):
        return None
    return FORMATS[types[0].element].bits, FORMATS[types[1].element].bits


class Cast(TileOp):
    """The same bits under another type."""

    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_shape("source", "result"),)
    SYNTAX: ClassVar = SOURCE_TO_RESULT


class Conversion(TileOp):
    """What conversions of numbers share."""

    traits = traits_def(Pure())
    RELATIONS: ClassVar = (same_shape("from_", "to"),)


@tile_op("bitcast", opcode=0x09, group=GROUP)
class BitcastOp(Cast):
    """The same bits read as another element type of equal width."""

    source = operand_def(K.NUMBER_TILE)
    result = result_def(K.NUMBER_TILE)
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: 1.0> : tile<4xf32>
        %y = bitcast %x : tile<4xf32> -> tile<4xi32>  // 0x3F800000
        """,
    )

    def check(self, report: Report) -> None:
        widths = _widths(self)
        if widths is not None and widths[0] != widths[1]:
            report.error(
                WIDTH_RULE,
                f"types must be equal width, got {widths[0]} and {widths[1]} bits",
                type_of("result"),
            )


@tile_op("exti", opcode=0x25, group=GROUP)
class ExtIOp(Conversion):
    """Extends integers to a wider type: with copies of the sign, or with zeros."""

    from_ = operand_def(K.INT_OR_I4_TILE)
    to = result_def(K.INT_OR_I4_TILE)
    signedness = prop_def(SIGNEDNESS)
    SYNTAX: ClassVar = syntax("$from_", SIGNED_WORD, *TYPES)
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <i8: [-1, 1]> : tile<2xi8>
        %s = exti %x signed : tile<2xi8> -> tile<2xi32>    // -1, 1
        %u = exti %x unsigned : tile<2xi8> -> tile<2xi32>  // 255, 1
        """,
    )

    def check(self, report: Report) -> None:
        widths = _widths(self)
        if widths is not None and widths[0] >= widths[1]:
            report.error(
                WIDTH_RULE,
                f"extending to smaller or identical integer: from {widths[0]} to {widths[1]} bits",
                type_of("to"),
            )


@tile_op("trunci", opcode=0x6B, group=GROUP)
class TruncIOp(Conversion):
    """Keeps the low bits of integers.

    Flags promise what the dropped bits are: copies of the new sign bit (no_signed_wrap), zeros
    (no_unsigned_wrap), or both.
    """

    from_ = operand_def(K.INT_OR_I4_TILE)
    to = result_def(K.INT_OR_I4_TILE)
    overflow = prop_def(
        K.enum_field(IntegerOverflowAttr), default_value=IntegerOverflowAttr(IntegerOverflow.NONE)
    )
    SYNTAX: ClassVar = syntax("$from_", OVERFLOW_SLOT, *TYPES)
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <i32: [258, 3]> : tile<2xi32>
        %y = trunci %x : tile<2xi32> -> tile<2xi8>  // 2, 3
        %z = trunci %x overflow<no_wrap> : tile<2xi32> -> tile<2xi16>
        """,
    )
    UNDEFINED: ClassVar = ("dropped bits other than the overflow flag states",)

    def check(self, report: Report) -> None:
        widths = _widths(self)
        if widths is not None and widths[0] <= widths[1]:
            report.error(
                WIDTH_RULE,
                f"truncating to larger or identical integer: from {widths[0]} to {widths[1]} bits",
                type_of("to"),
            )


@tile_op("ftof", opcode=0x2A, group=GROUP)
class FToFOp(Conversion):
    """Converts between float types, rounded once in the given mode.

    Types without infinity saturate; NaN stays NaN where the result has one. Conversions to
    f8E8M0FNU have no default mode: zero or positive_inf must be written.
    """

    from_ = operand_def(K.FLOAT_TILE)
    to = result_def(K.FLOAT_TILE)
    rounding_mode = prop_def(K.enum_field(RoundingModeAttr), default_value=NEAREST_EVEN)
    SYNTAX: ClassVar = syntax("$from_", rounding_slot(*IEEE_MODES, "nearest_away"), *TYPES)
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [0.1, 70000.0]> : tile<2xf32>
        %h = ftof %x : tile<2xf32> -> tile<2xf16>  // 0.0999756, inf
        %z = ftof %x rounding<zero> : tile<2xf32> -> tile<2xbf16>
        %scale = ftof %x rounding<positive_inf> : tile<2xf32> -> tile<2xf8E8M0FNU>
        """,
    )

    def check(self, report: Report) -> None:
        types = tile_types(self.operands[0], self.results[0])
        if types is None:
            return
        source, result = types
        if source == result:
            report.error(
                NO_OP_CONVERSION,
                f"converting tiles must not be a no-op: both types have {source.element} elements",
                type_of("to"),
            )
            return
        mode = enum_property(self, "rounding_mode")
        allowed = ftof_rounding_modes(source.element, result.element)
        if mode not in allowed:
            report.error(
                ROUNDING_NOT_SUPPORTED,
                f"conversion from {source.element} to {result.element} does not support rounding "
                f"mode '{mode}'. Only {' and '.join(repr(m) for m in allowed)} are supported",
                attr("rounding_mode"),
            )


@tile_op("ftoi", opcode=0x2B, group=GROUP)
class FToIOp(Conversion):
    """Truncates floats to integers.

    With saturating, values out of range take the nearest bound and NaN gives 0.
    """

    from_ = operand_def(K.FLOAT_TILE)
    to = result_def(K.INT_TILE)
    signedness = prop_def(SIGNEDNESS)
    rounding_mode = prop_def(K.enum_field(RoundingModeAttr), default_value=TO_ZERO)
    saturating = opt_prop_def(K.UNIT)
    SINCE_OF: ClassVar = {"saturating": V13_4}
    SYNTAX: ClassVar = syntax(
        "$from_",
        SIGNED_WORD,
        rounding_slot("nearest_int_to_zero", default="nearest_int_to_zero"),
        Flag("saturating"),
        *TYPES,
    )
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [2.75, -2.75]> : tile<2xf32>
        %y = ftoi %x signed : tile<2xf32> -> tile<2xi32>                // 2, -2
        %z = ftoi %x unsigned saturating : tile<2xf32> -> tile<2xi32>   // 2, 0
        """,
    )
    UNDEFINED: ClassVar = ("without saturating: NaN, or a value outside the result's range",)
    UNDEFINED_AT_USE: ClassVar = True

    def check(self, report: Report) -> None:
        mode = enum_property(self, "rounding_mode")
        if mode != "nearest_int_to_zero":
            report.error(
                ROUNDING_NOT_SUPPORTED,
                f"expected rounding mode to be one of: nearest_int_to_zero, got: '{mode}'",
                attr("rounding_mode"),
            )


@tile_op("itof", opcode=0x3B, group=GROUP)
class IToFOp(Conversion):
    """Converts integers to floats, rounded to nearest even."""

    from_ = operand_def(K.INT_TILE)
    to = result_def(K.FLOAT_TILE)
    signedness = prop_def(SIGNEDNESS)
    rounding_mode = prop_def(K.enum_field(RoundingModeAttr), default_value=NEAREST_EVEN)
    SYNTAX: ClassVar = syntax("$from_", SIGNED_WORD, rounding_slot(*IEEE_MODES), *TYPES)
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <i8: [-1, 1]> : tile<2xi8>
        %s = itof %x signed : tile<2xi8> -> tile<2xf32>    // -1.0, 1.0
        %u = itof %x unsigned : tile<2xi8> -> tile<2xf32>  // 255.0, 1.0
        """,
    )

    def check(self, report: Report) -> None:
        types = tile_types(self.results[0])
        if types is not None and types[0].element == "f8E8M0FNU":
            report.error(
                ROUNDING_NOT_SUPPORTED,
                "conversion from integer to f8E8M0FNU is not supported",
                type_of("to"),
            )
        mode = enum_property(self, "rounding_mode")
        if mode != "nearest_even":
            report.error(
                ROUNDING_NOT_SUPPORTED,
                f"expected rounding mode to be one of: nearest_even, got: '{mode}'",
                attr("rounding_mode"),
            )


@tile_op("int_to_ptr", opcode=0x33, group=GROUP)
class IntToPtrOp(Cast):
    """Addresses from 64-bit unsigned integers."""

    source = operand_def(K.I64_TILE)
    result = result_def(K.PTR_TILE)
    EXAMPLES: ClassVar = examples(
        """
        %address = ptr_to_int %pf32 : tile<ptr<f32>> -> tile<i64>
        %p = int_to_ptr %address : tile<i64> -> tile<ptr<f32>>
        """,
    )


@tile_op("ptr_to_int", opcode=0x56, group=GROUP)
class PtrToIntOp(Cast):
    """Addresses as 64-bit unsigned integers."""

    source = operand_def(K.PTR_TILE)
    result = result_def(K.I64_TILE)
    EXAMPLES: ClassVar = examples(
        """
        %address = ptr_to_int %pf32 : tile<ptr<f32>> -> tile<i64>
        """,
    )


@tile_op("ptr_to_ptr", opcode=0x57, group=GROUP)
class PtrToPtrOp(Cast):
    """The same addresses, for elements of another type."""

    source = operand_def(K.PTR_TILE)
    result = result_def(K.PTR_TILE)
    EXAMPLES: ClassVar = examples(
        """
        %p = ptr_to_ptr %pf32 : tile<ptr<f32>> -> tile<ptr<i32>>
        %bits, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
        """,
    )
