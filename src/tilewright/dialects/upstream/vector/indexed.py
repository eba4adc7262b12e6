"""``vector.gather`` and ``vector.scatter``: elements of memory that a vector of indices selects."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.irdl import IRDLOperation, operand_def, result_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer

from tilewright.dialects.declare import Report, examples, type_of
from tilewright.dialects.narrowing import memref_type, vector_type
from tilewright.dialects.syntax.directives import (
    parse_operand,
)
from tilewright.dialects.syntax.engine import Directive, ParseState, values_of
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import codes
from tilewright.dialects.upstream.base.constraints import INDEX, MEMREF, VECTOR
from tilewright.dialects.upstream.base.directives import syntax
from tilewright.dialects.upstream.base.operations import UpstreamOp, upstream_op


class Selected(Directive):
    """``%base[%i, ...] [%index_vec]``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        parse_operand(parser, state, "base")
        state.operands["indices"] = []
        parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parse_operand(parser, state, "indices")
        )
        parser.parse_punctuation("[")
        parse_operand(parser, state, "index_vec")
        parser.parse_punctuation("]")

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(values_of(op, "base")[0])
        printer.print_string("[")
        printer.print_list(values_of(op, "indices"), printer.print_ssa_value)
        printer.print_string("] [")
        printer.print_ssa_value(values_of(op, "index_vec")[0])
        printer.print_string("]")

    def grammar(self) -> str:
        return "%base `[` [%indices {`,` %indices}] `]` `[` %index_vec `]`"


_SHARED_SYNTAX = syntax(Selected(), ", $mask,")
_SHARED_TYPES = syntax("attr-dict : type($base), type($index_vec), type($mask),")


class IndexedOp(UpstreamOp):
    """What a gather and a scatter check; ``MOVED`` names the vector that moves."""

    MOVED: ClassVar[str] = ""

    def check(self, report: Report) -> None:
        moved, index, mask = (
            vector_type(values_of(self, name)[0]) for name in (self.MOVED, "index_vec", "mask")
        )
        base = memref_type(values_of(self, "base")[0])
        if base.element_type != moved.element_type:
            report.error(
                codes.ELEMENT_TYPE,
                f"expected a vector of '{format_type(base.element_type)}', got "
                f"'{format_type(moved)}'",
                type_of(self.MOVED),
            )
        if base.get_num_dims() != len(values_of(self, "indices")):
            report.error(
                codes.INDEX_COUNT,
                f"expected {base.get_num_dims()} indices, got {len(values_of(self, 'indices'))}",
            )
        if not isinstance(index.element_type, IndexType | IntegerType):
            report.error(
                codes.ELEMENT_TYPE,
                f"expected a vector of integers or indices, got '{format_type(index)}'",
                type_of("index_vec"),
            )
        for name, found in (("index_vec", index), ("mask", mask)):
            if found.get_shape() != moved.get_shape():
                report.error(
                    codes.FRAGMENT,
                    f"expected the shape of '{format_type(moved)}', got '{format_type(found)}'",
                    type_of(name),
                )
        if mask.element_type != IntegerType(1):
            report.error(
                codes.ELEMENT_TYPE,
                f"expected a vector of i1, got '{format_type(mask)}'",
                type_of("mask"),
            )


@upstream_op("vector", "gather")
class GatherOp(IndexedOp):
    """For each element of the mask that holds the element of memory at the index, counted along the
    last dimension from the given place; the element of ``pass_thru`` for the others."""

    base = operand_def(MEMREF)
    indices = var_operand_def(INDEX)
    index_vec = operand_def(VECTOR)
    mask = operand_def(VECTOR)
    pass_thru = operand_def(VECTOR)
    result = result_def(VECTOR)

    MOVED: ClassVar = "pass_thru"
    SYNTAX: ClassVar = syntax(
        *_SHARED_SYNTAX, "$pass_thru", *_SHARED_TYPES, "type($pass_thru) into type($result)"
    )
    EXAMPLES: ClassVar = examples(
        """
        %z = arith.constant 0 : index
        %which = arith.constant dense<[3, 1]> : vector<2xi32>
        %mask = arith.constant dense<true> : vector<2xi1>
        %w = arith.constant dense<0.0> : vector<2xf32>
        %m4 = memref.alloca() : memref<4xf32>
        %x = vector.gather %m4[%z] [%which], %mask, %w : memref<4xf32>, vector<2xi32>, vector<2xi1>, vector<2xf32> into vector<2xf32>
        """
    )

    def check(self, report: Report) -> None:
        super().check(report)
        if self.result.type != self.pass_thru.type:
            report.error(
                codes.FRAGMENT,
                f"expected '{format_type(self.pass_thru.type)}' as the result, got "
                f"'{format_type(self.result.type)}'",
                type_of("result"),
            )


@upstream_op("vector", "scatter")
class ScatterOp(IndexedOp):
    """Writes each element of the vector, where the mask holds, to the element of memory at the index,
    counted along the last dimension from the given place; of two at one place the later one stays."""

    base = operand_def(MEMREF)
    indices = var_operand_def(INDEX)
    index_vec = operand_def(VECTOR)
    mask = operand_def(VECTOR)
    valueToStore = operand_def(VECTOR)

    MOVED: ClassVar = "valueToStore"
    SYNTAX: ClassVar = syntax(
        *_SHARED_SYNTAX, "$valueToStore", *_SHARED_TYPES, "type($valueToStore)"
    )
    EXAMPLES: ClassVar = examples(
        """
        %z = arith.constant 0 : index
        %which = arith.constant dense<[3, 1]> : vector<2xi32>
        %mask = arith.constant dense<true> : vector<2xi1>
        %w = arith.constant dense<0.0> : vector<2xf32>
        %m4 = memref.alloca() : memref<4xf32>
        vector.scatter %m4[%z] [%which], %mask, %w : memref<4xf32>, vector<2xi32>, vector<2xi1>, vector<2xf32>
        """
    )
