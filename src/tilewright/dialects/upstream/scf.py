"""``scf``: custom forms of ``parallel``, ``reduce`` and ``while``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Self

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType, UnitAttr, i1
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import SingleBlockImplicitTerminator, ensure_terminator

from tilewright.dialects.upstream.base.operations import extended

#: The discardable attribute of an ``scf.for`` whose bounds are compared unsigned.
UNSIGNED_COMPARISON = "unsignedCmp"


class ParallelOp(scf.ParallelOp):
    """``scf.parallel (%i, ...) = (%low, ...) to (...) step (...) [init (...)] [-> types] { ... }``"""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """``(%i, ...) = (...) to (...) step (...) init (...) -> types region``, as upstream writes
        it."""
        variables = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False)
        )
        parser.parse_punctuation("=")
        low = _places(parser)
        parser.parse_keyword("to")
        high = _places(parser)
        parser.parse_keyword("step")
        step = _places(parser)
        position = parser.pos
        inits = _values(parser) if parser.parse_optional_keyword("init") else []
        types = arrow_types(parser)
        body = parser.parse_region([variable.resolve(IndexType()) for variable in variables])
        attributes = parser.parse_optional_attr_dict()
        op = cls(low, high, step, body, parser.resolve_operands(inits, types, position))
        op.attributes |= attributes
        for trait in op.get_traits_of_type(SingleBlockImplicitTerminator):
            ensure_terminator(op, trait)
        return op

    def print(self, printer: Printer) -> None:
        """What ``parse`` reads."""

        def listed(values: Sequence[SSAValue]) -> None:
            with printer.in_parens():
                printer.print_list(values, printer.print_ssa_value)

        printer.print_string(" ")
        listed(self.body.block.args)
        for word, values in (("=", self.lowerBound), ("to", self.upperBound), ("step", self.step)):
            printer.print_string(f" {word} ")
            listed(values)
        if self.initVals:
            printer.print_string(" init ")
            listed(self.initVals)
            printer.print_string(" -> ")
            with printer.in_parens():
                printer.print_list(self.result_types, printer.print_attribute)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)
        printer.print_op_attributes(self.attributes)


def _values(parser: Parser) -> list[UnresolvedOperand]:
    return parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, parser.parse_unresolved_operand
    )


def _places(parser: Parser) -> list[SSAValue]:
    return [parser.resolve_operand(value, IndexType()) for value in _values(parser)]


def arrow_types(parser: Parser) -> list[Attribute]:
    """``-> T`` or ``-> (T, ...)``, or nothing."""
    if not parser.parse_optional_punctuation("->"):
        return []
    listed = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return [parser.parse_type()] if listed is None else list(listed)


class ReduceOp(scf.ReduceOp):
    """``scf.reduce[(%a, ... : types) { ... }, ...]``: a region for each value."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """``(%a, ... : types) { regions }``: a region for each value, none without."""
        values: list[SSAValue] = []
        regions: list[Region] = []
        if parser.parse_optional_punctuation("("):
            position = parser.pos
            given = parser.parse_comma_separated_list(
                parser.Delimiter.NONE, parser.parse_unresolved_operand
            )
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            parser.parse_punctuation(")")
            values = list(parser.resolve_operands(given, types, position))
            regions = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_region)
        op = cls(values, regions)
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        """What ``parse`` reads."""
        if self.args:
            with printer.in_parens():
                printer.print_list(self.args, printer.print_ssa_value)
                printer.print_string(" : ")
                printer.print_list(self.args.types, printer.print_attribute)
            printer.print_string(" ")
            printer.print_list(self.reductions, printer.print_region)
        printer.print_op_attributes(self.attributes)


def parse_if(parser: Parser) -> scf.IfOp:
    """``scf.if %c [-> T | -> (T, ...)] { ... } [else { ... }]``, from the condition on; xDSL's form has the
    parentheses also around one type."""
    condition = parser.parse_operand(i1)
    types = arrow_types(parser)
    then = scf.IfOp.parse_region_with_yield(parser)
    has_else = parser.parse_optional_keyword("else") is not None
    otherwise = scf.IfOp.parse_region_with_yield(parser) if has_else else Region()
    return scf.IfOp(condition, types, then, otherwise, parser.parse_optional_attr_dict())


def parse_for(parser: Parser) -> scf.ForOp:
    """``scf.for [unsigned] %i = %a to %b step %c [iter_args(%x = %y, ...) -> T | -> (T, ...)] [: T] { ... }``,
    from behind the name on.

    Of ``unsigned``, for which xDSL's operation has no field, an attribute stands.
    """
    unsigned = parser.parse_optional_keyword("unsigned") is not None
    variable, low = _assignment(parser)
    parser.parse_keyword("to")
    high = parser.parse_unresolved_operand()
    parser.parse_keyword("step")
    bounds = (low, high, parser.parse_unresolved_operand())
    pairs: list[tuple[Parser.UnresolvedArgument, UnresolvedOperand]] = []
    types: list[Attribute] = []
    start = parser.pos
    if parser.parse_optional_keyword("iter_args"):
        pairs = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: _assignment(parser)
        )
        types = arrow_types(parser)
    carried = parser.resolve_operands([value for _, value in pairs], types, start)
    ty = parser.parse_type() if parser.parse_optional_punctuation(":") else IndexType()
    low_value, high_value, step = (parser.resolve_operand(value, ty) for value in bounds)
    arguments = [argument.resolve(each) for (argument, _), each in zip(pairs, types, strict=True)]
    body = parser.parse_region((variable.resolve(ty), *arguments))
    op = scf.ForOp(low_value, high_value, step, carried, body)
    op.attributes |= parser.parse_optional_attr_dict()
    if unsigned:
        op.attributes[UNSIGNED_COMPARISON] = UnitAttr()
    if not pairs:
        for trait in op.get_traits_of_type(SingleBlockImplicitTerminator):
            ensure_terminator(op, trait)
    return op


def parse_while(parser: Parser) -> scf.WhileOp:
    """``scf.while [(%a = %b, ...)] : (types) -> types { ... } do { ... }``, from the ``(`` on.

    xDSL's form has the parentheses also where nothing is carried, upstream's leaves them out.
    """
    pairs = (
        parser.parse_optional_comma_separated_list(
            parser.Delimiter.PAREN, lambda: _assignment(parser)
        )
        or []
    )
    parser.parse_punctuation(":")
    start = parser.pos
    types = parser.parse_function_type()
    inputs = types.inputs.data
    if len(pairs) != len(inputs):
        parser.raise_error(
            f"expected {len(pairs)} types, one for each carried value, got {len(inputs)}",
            start,
            parser.pos,
        )
    arguments = [argument.resolve(ty) for (argument, _), ty in zip(pairs, inputs, strict=True)]
    operands = [
        parser.resolve_operand(value, ty) for (_, value), ty in zip(pairs, inputs, strict=True)
    ]
    before = parser.parse_region(arguments)
    parser.parse_characters("do")
    after = parser.parse_region()
    op = scf.WhileOp(operands, types.outputs.data, before, after)
    if (attributes := parser.parse_optional_attr_dict_with_keyword()) is not None:
        op.attributes |= attributes.data
    return op


#: Where xDSL's form is narrower than upstream's.
CUSTOM_FORMS: Mapping[str, Callable[[Parser], Operation]] = {
    "scf.for": parse_for,
    "scf.if": parse_if,
    "scf.while": parse_while,
}


def print_while(printer: Printer, op: scf.WhileOp) -> None:
    """As ``parse_while`` reads it, from behind the name on."""
    if op.arguments:
        op.print(printer)
        return
    printer.print_string(" : ")
    printer.print_operation_type(op)
    printer.print_string(" ")
    printer.print_region(op.before_region, print_entry_block_args=False)
    printer.print_string(" do ")
    printer.print_region(op.after_region)
    if op.attributes:
        printer.print_op_attributes(op.attributes, print_keyword=True)


def _assignment(parser: Parser) -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
    argument = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    return argument, parser.parse_unresolved_operand()


@cache
def load() -> Dialect:
    """xDSL's dialect with the custom forms that are here."""
    return extended(scf.Scf, (ParallelOp, ReduceOp))
