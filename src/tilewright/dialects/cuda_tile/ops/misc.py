"""Assumptions and printing."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, OpResult
from xdsl.irdl import (
    operand_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile import constraints as K
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.attributes import (
    BoundedAttr,
    DivByAttr,
    SameElementsAttr,
    parse_predicate,
    print_predicate,
)
from tilewright.dialects.cuda_tile.base import TileOp, tile_op
from tilewright.dialects.cuda_tile.directives import parse_token_type, syntax
from tilewright.dialects.cuda_tile.ops.memory import MemoryOp
from tilewright.dialects.cuda_tile.ops.regions import type_list
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.declare import Report, attr, examples, same_type
from tilewright.dialects.syntax.directives import StringField, parse_operand, parse_types
from tilewright.dialects.syntax.engine import Directive, ParseState
from tilewright.dialects.versions import V13_2
from tilewright.numerics.element_types import FORMATS

GROUP = "misc"

ASSUME_RULE = define_code(
    "assume-predicate",
    "The assume predicate does not match the type of the value.",
    "div_by takes tiles of integers or pointers and tensor views; same_elements tiles of integers "
    "or pointers; bounded tiles of integers, with bounds inside the signed range.",
)
FORMAT_RULE = define_code(
    "print-format",
    "The format string of print_tko is incomplete, or does not match the number of operands.",
    "A conversion runs from `%` to the first of d i u o x X e E f F g G a A c s S p n; `%%` "
    "prints a percent sign.",
)

MAX_NAMED_ASSUMPTIONS = 32

_CONVERSIONS = frozenset("diuoxXeEfFgGaAcsSpn%")


class Predicate(Directive):
    """``div_by<16>``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.read(parser, "predicate", lambda: parse_predicate(parser))

    def print(self, printer: Printer, op: TileOp) -> None:
        printer.print_string(" ")
        print_predicate(printer, op.properties["predicate"])

    def grammar(self) -> str:
        return "(`div_by` | `same_elements` | `bounded`) `<` ... `>`"


@tile_op("assume", opcode=0x06, group=GROUP)
class AssumeOp(TileOp):
    """The value itself, with the promise that it fulfils the predicate."""

    predicate = prop_def(K.PREDICATE)
    value = operand_def(K.ANY_VALUE)
    result = result_def(K.ANY_VALUE)
    RELATIONS: ClassVar = (same_type("value", "result"),)
    SYNTAX: ClassVar = syntax(Predicate(), ", $value attr-dict : type($value)")
    INFER: ClassVar = {"result": "value"}
    EXAMPLES: ClassVar = examples(
        """
        %p = assume div_by<16>, %pf32 : tile<ptr<f32>>
        %m = assume bounded<0, 1024>, %n : tile<i32>
        %x = constant <i32: [0, 1, 2, 3, 8, 9, 10, 11]> : tile<8xi32>
        %y = assume div_by<4, every 4 along 0>, %x : tile<8xi32>
        %z = constant <i32: 5> : tile<8xi32>
        %w = assume same_elements<[8]>, %z : tile<8xi32>
        """,
    )
    UNDEFINED: ClassVar = ("a value that does not fulfil the predicate",)

    def result_name(self, index: int) -> str | None:
        """``assume_`` and the name that the operation behind the value proposes for it.

        Long chains of assumptions stop growing names at some point; the reference tools do not.
        """
        prefix, value = "assume", self.value
        for _ in range(MAX_NAMED_ASSUMPTIONS):
            owner = value.owner
            if not isinstance(owner, AssumeOp):
                break
            prefix, value = prefix + "_assume", owner.value
        owner = value.owner
        if not isinstance(owner, TileOp) or isinstance(owner, AssumeOp):
            return prefix
        position = value.index if isinstance(value, OpResult) else 0
        if position and len(owner.RESULT_NAMES) == 1:
            # Only the first value of a pack has a name of its own.
            return prefix + "_"
        proposed = owner.result_name(position)
        return f"{prefix}_{proposed}" if proposed else prefix

    def check(self, report: Report) -> None:
        predicate, ty = self.properties["predicate"], self.value.type
        if isinstance(predicate, DivByAttr):
            _check_div_by(report, predicate, ty)
        elif isinstance(predicate, SameElementsAttr):
            _check_same_elements(report, predicate, ty)
        elif isinstance(predicate, BoundedAttr):
            _check_bounded(report, predicate, ty)


def _complain(report: Report, message: str) -> None:
    report.error(ASSUME_RULE, message, attr("predicate"))


def _check_div_by(report: Report, predicate: DivByAttr, ty: Attribute) -> None:
    group = predicate.group
    if isinstance(ty, T.TensorViewType):
        if group is not None:
            _complain(
                report, "'every'/'along' cannot be used if the constrained value is a tensor_view"
            )
        return
    if not isinstance(ty, T.TileType) or ty.element not in (*T.INTEGER_NAMES, "i4", "ptr"):
        shown = format_type(ty)
        _complain(
            report,
            f"div_by is valid only for tile of integer/pointer or tensor_view values, got '{shown}'",
        )
        return
    if group is None:
        return
    every, along = group
    if ty.rank == 0:
        _complain(report, "'every'/'along' cannot be used if the constrained value is a 0D tile")
    elif not 0 <= along < ty.rank:
        _complain(report, f"'along' ({along}) must be >= 0 and < tile rank ({ty.rank})")
    elif not 0 <= every <= ty.dims[along]:
        _complain(
            report,
            f"expects 'every' to be within 0 and the size of the respective dimension "
            f"({ty.dims[along]}), got {every}",
        )


def _check_same_elements(report: Report, predicate: SameElementsAttr, ty: Attribute) -> None:
    if not isinstance(ty, T.TileType) or ty.element not in (*T.INTEGER_NAMES, "i4", "ptr"):
        shown = format_type(ty)
        _complain(
            report, f"same_elements is valid only for tile of integer/pointer values, got '{shown}'"
        )
        return
    values = predicate.values.data
    if len(values) != ty.rank:
        _complain(
            report,
            f"expected number of values in same_elements ({len(values)}) to match rank of "
            f"constrained tile ({ty.rank})",
        )
        return
    for value, extent in zip(values, ty.dims, strict=True):
        if not 0 <= value <= extent:
            _complain(report, f"expected same_elements values within [0, {extent}], got {value}")


def _check_bounded(report: Report, predicate: BoundedAttr, ty: Attribute) -> None:
    if not isinstance(ty, T.TileType) or ty.element not in (*T.INTEGER_NAMES, "i4"):
        shown = format_type(ty)
        _complain(report, f"bounded is valid only for tile of integer values, got '{shown}'")
        return
    half = 1 << (FORMATS[ty.element].bits - 1)
    for what, bound in zip(("lower", "upper"), predicate.bounds, strict=True):
        if bound is not None and not -half <= bound < half:
            _complain(
                report,
                f"expects {what} bound to be within [{-half}, {half - 1}] for {ty.element}, got "
                f"{bound}",
            )


class PrintOperands(Directive):
    """``{, %arg}``, before the token."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.operands["args"] = []
        while parser.parse_optional_punctuation(","):
            parse_operand(parser, state, "args")

    def print(self, printer: Printer, op: TileOp) -> None:
        assert isinstance(op, PrintTkoOp)
        for value in op.args:
            printer.print_string(", ")
            printer.print_ssa_value(value)

    def grammar(self) -> str:
        return "{`,` %arg}"


class PrintTypes(Directive):
    """``[: types] -> token``; the old ``print`` shows neither arrow nor token."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        state.types["args"] = []
        if parser.parse_optional_punctuation(":"):
            parse_types(parser, state, "args")
        if parser.parse_optional_punctuation("->"):
            parse_token_type(parser)

    def print(self, printer: Printer, op: TileOp) -> None:
        assert isinstance(op, PrintTkoOp)
        types = f" : {type_list(op.args)}" if op.args else ""
        printer.print_string(f"{types} -> token")

    def grammar(self) -> str:
        return "[`:` types] `->` `token`"


@tile_op("print_tko", opcode=0x55, group=GROUP)
class PrintTkoOp(MemoryOp):
    """Prints tiles by a printf-like format, one conversion for each operand.

    Spelled ``print`` in 13.1, without tokens.
    """

    str_ = prop_def(K.STRING, prop_name="str")
    args = var_operand_def(K.ANY_TILE)
    SINCE_OF: ClassVar = {"token": V13_2, "result_token": V13_2}
    ALIASES: ClassVar = ("print",)
    SYNTAX: ClassVar = syntax(
        StringField("str"), PrintOperands(), "token-operand attr-dict", PrintTypes()
    )
    EXAMPLES: ClassVar = examples(
        r"""
        %x = iota : tile<4xi32>
        %t = print_tko "n is %d, x is %d\0A", %n, %x : tile<i32>, tile<4xi32> -> token
        %u = print_tko "100%% done" token=%t -> token
        """,
    )
    UNDEFINED: ClassVar = ("a conversion that does not fit its operand",)

    @property
    def format(self) -> str:
        """The format string, as C's ``printf`` takes it."""
        found = self.properties["str"]
        assert isinstance(found, StringAttr)
        return found.data

    def check(self, report: Report) -> None:
        count = count_conversions(self.format)
        if count is None:
            report.error(FORMAT_RULE, "found unterminated format expression", attr("str"))
        elif count != len(self.args):
            report.error(
                FORMAT_RULE,
                f"incorrect number of operands: expected {count}, found {len(self.args)}",
                attr("str"),
            )


def count_conversions(text: str) -> int | None:
    """Operands that a format string takes, or None where its last conversion does not end. ``%%`` takes none."""
    count, at = 0, 0
    while (at := text.find("%", at)) >= 0:
        at += 1
        start = at
        while at < len(text) and text[at] not in _CONVERSIONS:
            at += 1
        if at == len(text):
            return None
        count += not (text[at] == "%" and at == start)
        at += 1
    return count
