"""Operations of ``memref`` that xDSL lacks, or has no custom form of."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerAttr,
    MemRefType,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects.declare import Report, attr, examples, operand, same_type, type_of
from tilewright.dialects.narrowing import is_dense, is_memref, is_number_type, memref_type
from tilewright.dialects.syntax.directives import NumberedWord, format_symbol, parse_type_into
from tilewright.dialects.syntax.engine import Directive, ParseState, shown_type, values_of
from tilewright.dialects.syntax.tokens import fail
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import codes
from tilewright.dialects.upstream.base import constraints as K
from tilewright.dialects.upstream.base.directives import ATTRIBUTES, syntax
from tilewright.dialects.upstream.base.operations import UpstreamOp, upstream_op

#: The numbers of ``memref.atomic_rmw``'s operations, by keyword.
RMW_KINDS = {
    "addf": 0,
    "addi": 1,
    "assign": 2,
    "maximumf": 3,
    "maxs": 4,
    "maxu": 5,
    "minimumf": 6,
    "mins": 7,
    "minu": 8,
    "mulf": 9,
    "muli": 10,
    "ori": 11,
    "andi": 12,
    "maxnumf": 13,
    "minnumf": 14,
}
RMW_KEYWORDS = {number: keyword for keyword, number in RMW_KINDS.items()}
_OF_FLOATS = {"addf", "mulf", "maximumf", "minimumf", "maxnumf", "minnumf"}


class GlobalHead(Directive):
    """``["private"] [constant] @NAME : TYPE [= VALUE | = uninitialized]``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        if (visibility := parser.parse_optional_str_literal()) is not None:
            state.properties["sym_visibility"] = StringAttr(visibility)
        if parser.parse_optional_keyword("constant"):
            state.properties["constant"] = UnitAttr()
        state.read(parser, "sym_name", parser.parse_symbol_name)
        parser.parse_punctuation(":")
        state.read(parser, "type", lambda: state.type_syntax.parse(parser))
        if parser.parse_optional_punctuation("="):
            ty = state.properties["type"]
            state.read(parser, "initial_value", lambda: self._value(parser, ty))

    def _value(self, parser: Parser, ty: Attribute) -> Attribute:
        if parser.parse_optional_keyword("uninitialized"):
            return UnitAttr()
        if not is_memref(ty):
            fail(parser, f"expected a memref for the initial value, got '{format_type(ty)}'")
        if not is_number_type(element := ty.element_type):
            fail(
                parser,
                f"expected a memref of numbers for the initial value, got '{format_type(ty)}'",
            )
        parser.parse_keyword("dense")
        return parser.parse_dense_int_or_fp_elements_attr(TensorType(element, ty.get_shape()))

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        assert isinstance(op, GlobalOp)
        if isinstance(visibility := op.sym_visibility, StringAttr):
            printer.print_string(f' "{visibility.data}"')
        name = op.properties["sym_name"]
        assert isinstance(name, StringAttr)
        constant = " constant" if op.constant is not None else ""
        shown = format_type(op.properties["type"])
        printer.print_string(f"{constant} {format_symbol(name.data)} : {shown}")
        value = op.initial_value
        if isinstance(value, UnitAttr):
            printer.print_string(" = uninitialized")
        elif is_dense(value):
            printer.print_string(" = ")
            printer.print_string(format_type(value).rpartition(" : ")[0])

    def grammar(self) -> str:
        return "[STRING] [`constant`] @NAME `:` TYPE [`=` (`uninitialized` | `dense` `<` ... `>`)]"


@upstream_op("memref", "global")
class GlobalOp(UpstreamOp):
    """Memory with a name. In space 3 it is memory that each block has."""

    sym_name = prop_def(K.STRING)
    sym_visibility = opt_prop_def(K.STRING)
    type = prop_def(K.MEMREF_TYPE)
    initial_value = opt_prop_def(K.Kind("a dense or unit attribute", Attribute))
    constant = opt_prop_def(K.FLAG)
    alignment = opt_prop_def(K.INT64)

    traits = traits_def(SymbolOpInterface())
    HIDDEN: ClassVar = frozenset(
        {"sym_name", "sym_visibility", "type", "initial_value", "constant"}
    )
    SYNTAX: ClassVar = (GlobalHead(), ATTRIBUTES)
    EXAMPLES: ClassVar = examples(
        """
        module {
          memref.global "private" @tiles : memref<64x64xf16, 3> = uninitialized {alignment = 1024 : i64}
          memref.global constant @table : memref<2xf32> = dense<[1.0, 2.0]>
        }
        """
    )

    def check(self, report: Report) -> None:
        alignment = self.alignment
        if isinstance(alignment, IntegerAttr):
            number = alignment.value.data
            if number <= 0 or number & (number - 1):
                report.error(
                    codes.ALIGNMENT,
                    f"expected the alignment to be a power of two, got {number}",
                    attr("alignment"),
                )
        ty, value = self.properties["type"], self.initial_value
        if is_dense(value) and is_memref(ty):
            found = (value.type.get_shape(), value.get_element_type())
            if found != (ty.get_shape(), ty.element_type):
                report.error(
                    codes.INITIAL_VALUE,
                    f"expected an initial value like '{format_type(ty)}', got "
                    f"'{format_type(value.type)}'",
                    attr("initial_value"),
                )


class RmwTypes(Directive):
    """``: (T, memref<...xT>) -> T``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        parser.parse_punctuation(":")
        parser.parse_punctuation("(")
        parse_type_into(parser, state, "value")
        parser.parse_punctuation(",")
        parse_type_into(parser, state, "memref")
        parser.parse_punctuation(")")
        parser.parse_punctuation("->")
        parse_type_into(parser, state, "result")

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        value, target, result = (
            shown_type(op, values_of(op, name)[0]) for name in ("value", "memref", "result")
        )
        printer.print_string(f" : ({value}, {target}) -> {result}")

    def grammar(self) -> str:
        return "`:` `(` type(%value) `,` type(%memref) `)` `->` type(%result)"


@upstream_op("memref", "atomic_rmw")
class AtomicRMWOp(UpstreamOp):
    """Combines ``value`` with an element of memory, undivided; gives what was there."""

    value = operand_def(K.ANY_VALUE)
    memref = operand_def(K.MEMREF)
    indices = var_operand_def(K.INDEX)
    kind = prop_def(
        K.Kind(
            "the number of an operation",
            IntegerAttr,
            lambda a: isinstance(a, IntegerAttr) and a.value.data in RMW_KEYWORDS,
        )
    )
    result = result_def(K.ANY_VALUE)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    RELATIONS: ClassVar = (same_type("value", "result"),)
    HIDDEN: ClassVar = frozenset({"kind"})
    SYNTAX: ClassVar = syntax(
        NumberedWord("kind", RMW_KINDS), "$value, $memref[$indices*] attr-dict", RmwTypes()
    )
    EXAMPLES: ClassVar = examples(
        """
        %x = arith.constant 1.0 : f32
        %old = memref.atomic_rmw addf %x, %big[%i, %j] : (f32, memref<128x128xf32, 3>) -> f32
        """
    )

    def check(self, report: Report) -> None:
        target, value = memref_type(self.memref), self.value.type
        if target.element_type != value:
            report.error(
                codes.ELEMENT_TYPE,
                f"expected 'value' to have the element type '{format_type(target.element_type)}' "
                f"of 'memref', got '{format_type(value)}'",
                type_of("value"),
            )
        kind = self.properties["kind"]
        assert isinstance(kind, IntegerAttr)
        keyword = RMW_KEYWORDS[kind.value.data]
        if keyword != "assign" and (keyword in _OF_FLOATS) != isinstance(value, AnyFloat):
            report.error(
                codes.REDUCTION,
                f"'{keyword}' does not combine values of '{format_type(value)}'",
                attr("kind"),
            )
        if len(self.indices) != target.get_num_dims():
            report.error(
                codes.INDEX_COUNT,
                f"expected {target.get_num_dims()} indices of 'memref', got {len(self.indices)}",
                operand("indices"),
            )


_CAST = "$source attr-dict `:` type($source) `to` type($dest)"
FORMATS: dict[type[Operation], str] = {
    memref.CastOp: _CAST,
    memref.MemorySpaceCastOp: _CAST,
    memref.RankOp: "$source attr-dict `:` type($source)",
    memref.CopyOp: "$source `,` $destination attr-dict `:` type($source) `to` type($destination)",
    memref.AllocaScopeReturnOp: "attr-dict ($ops^ `:` type($ops))?",
    memref.ExtractAlignedPointerAsIndexOp: "$source attr-dict `:` type($source) `->` type($aligned_pointer)",
}


class LoadOp(memref.LoadOp):
    """xDSL's, whose verifier stops where there is another number of indices."""

    def verify_(self) -> None:
        """One index for each axis, which upstream checks and xDSL does not; then xDSL's rules."""
        _check_index_count(self.memref.type, len(self.indices))
        super().verify_()


class StoreOp(memref.StoreOp):
    """xDSL's, whose verifier stops where there is another number of indices."""

    def verify_(self) -> None:
        """One index for each axis, which upstream checks and xDSL does not; then xDSL's rules."""
        _check_index_count(self.memref.type, len(self.indices))
        super().verify_()


def _check_index_count(ty: Attribute, count: int) -> None:
    if isinstance(ty, MemRefType) and count != ty.get_num_dims():
        raise VerifyException(f"expected {ty.get_num_dims()} indices, got {count}")
