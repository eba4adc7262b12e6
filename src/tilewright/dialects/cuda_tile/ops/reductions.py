"""Reductions and scans along a dimension, over a body of pure operations."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, BoolAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import prop_def, region_def, traits_def, var_operand_def, var_result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, NoMemoryEffect, RecursiveMemoryEffect, is_side_effect_free

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile import constraints as K
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.base import TileOp, tile_op, tile_types
from tilewright.dialects.cuda_tile.constants import (
    BAD_CONSTANT,
    FloatBitsAttr,
    format_scalar,
    parse_scalar,
    scalar_bits,
    scalar_literal,
)
from tilewright.dialects.cuda_tile.directives import syntax
from tilewright.dialects.cuda_tile.ops.control_flow import (
    BODY_ARGUMENTS,
    CARRIED_TYPES,
    ForOp,
    LoopOp,
    YieldOp,
    show_types,
)
from tilewright.dialects.cuda_tile.ops.core import DIM_RULE, SHAPE_RULE, SUB_BYTE
from tilewright.dialects.cuda_tile.ops.regions import (
    parse_body,
    parse_typed_arguments,
    print_body,
    print_typed_arguments,
)
from tilewright.dialects.cuda_tile.type_syntax import element_by_spelling, format_type, parse_type
from tilewright.dialects.declare import (
    Related,
    Report,
    attr,
    examples,
    int_property,
    operand,
    same_shape,
    type_of,
)
from tilewright.dialects.narrowing import is_array
from tilewright.dialects.syntax.directives import (
    IntField,
)
from tilewright.dialects.syntax.engine import Directive, ParseState
from tilewright.dialects.syntax.tokens import (
    fail,
    new_line,
    previous_end,
    token_start,
    token_text,
)
from tilewright.numerics.element_types import FORMATS

GROUP = "core"

OPERAND_COUNT = define_code(
    "operand-count", "An operation has too few operands, or inconsistent counts."
)
IDENTITY_TYPE = define_code(
    "identity-type", "Each identity must be a scalar of its operand's element type."
)
IMPURE_BODY = define_code(
    "impure-body",
    "The body of reduce and scan may contain only operations without memory effects.",
    "Loads, stores, atomics, prints, assertions, assume, alloca and loops are not allowed.",
)


class Identities(Directive):
    """``identities=[0.000000e+00 : f32, ...]``: one typed scalar for each operand."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        parser.parse_keyword("identities")
        parser.parse_punctuation("=")
        state.read(
            parser,
            "identities",
            lambda: ArrayAttr(
                parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, lambda: parse_identity(parser)
                )
            ),
        )

    def print(self, printer: Printer, op: TileOp) -> None:
        array = op.properties["identities"]
        assert is_array(array)
        printer.print_string(f" identities=[{', '.join(map(format_identity, array.data))}]")

    def grammar(self) -> str:
        return "`identities` `=` `[` SCALAR `:` ELEM {`,` ...} `]`"


def parse_identity(parser: Parser) -> Attribute:
    """A typed scalar; floats keep their bits, bare integers are i64 and bare floats f64.

    Raises CodedParseError (``bad-constant``) for a type that is none of numbers.
    """
    start = token_start(parser)
    text = parse_scalar(parser)
    if text in ("true", "false"):
        return IntegerAttr(int(text == "true"), IntegerType(1))
    default = "f64" if "." in text else "i64"
    element: Attribute = T.ELEMENT_TYPES[default]
    if parser.parse_optional_punctuation(":"):
        spelled = token_text(parser)
        element = parse_type(parser)
        if element_by_spelling(spelled) is None:
            fail(
                parser,
                f"expected a number type for an identity, got '{format_type(element)}'",
                start,
                previous_end(parser),
                code=BAD_CONSTANT,
            )
    return make_identity(parser, text, T.element_name(element), start)


def make_identity(parser: Parser, text: str, element: str, offset: int) -> Attribute:
    """The identity that a number in the text is, in an element type.

    Raises CodedParseError (``bad-constant``) at ``offset`` for i4, which bytecode has no identities of, and for
    numbers out of range.
    """
    fmt = FORMATS[element]
    if fmt.name == "i4":
        fail(parser, "identities of type i4 cannot be written", offset, code=BAD_CONSTANT)
    bits = scalar_literal(parser, text, fmt, offset)
    return identity(element, bits)


def identity(element: str, bits: int) -> Attribute:
    """The identity attribute with this bit pattern."""
    fmt = FORMATS[element]
    if fmt.is_float:
        return FloatBitsAttr(T.ELEMENT_TYPES[element], bits)
    signed = bits - (1 << fmt.bits) if fmt.bits > 1 and bits >> (fmt.bits - 1) else bits
    return IntegerAttr(signed, IntegerType(fmt.bits))


def format_identity(value: Attribute) -> str:
    """As the reference tools print it: i64, f64 in decimal and i1 without their type."""
    found = scalar_bits(value)
    if found is None:
        return str(value)
    element, bits = found
    text = format_scalar(bits, FORMATS[element])
    bare = element in ("i1", "i64") or (element == "f64" and not text.startswith("0x"))
    return text if bare else f"{text} : {format_type(T.ELEMENT_TYPES[element])}"


class BodyWithArguments(Directive):
    """``(%a: T, %b: T) { ... }``, on a line of its own."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        arguments = parse_typed_arguments(parser)
        parse_body(parser, state, arguments, YieldOp)

    def print(self, printer: Printer, op: TileOp) -> None:
        printer.print_string(" ")
        new_line(printer)
        print_typed_arguments(printer, op.regions[0].blocks[0])
        print_body(printer, op.regions[0])

    def grammar(self) -> str:
        return "`(` %arg `:` type {`,` ...} `)` REGION"


class ReduceOrScan(TileOp):
    """Fields and rules that reduce and scan share."""

    operands_ = var_operand_def(K.ANY_TILE)
    identities = prop_def(K.ARRAY)
    body = region_def()
    results_ = var_result_def(K.ANY_TILE)
    traits = traits_def(RecursiveMemoryEffect())
    RELATIONS: ClassVar = (same_shape("operands_"),)

    def check(self, report: Report) -> None:
        operands = list(self.operands)
        identities = self.properties.get("identities")
        if not operands:
            report.error(OPERAND_COUNT, "expected at least one operand, got none")
            return
        if len(self.results) != len(operands):
            report.error(
                OPERAND_COUNT,
                f"expected as many results as operands, {len(operands)}, got {len(self.results)}",
            )
            return
        types = tile_types(*operands)
        if types is None or not is_array(identities):
            return
        if any(ty.element == "f4E2M1FN" for ty in types):
            report.error(SUB_BYTE, "cannot operate on sub-byte type F4E2M1FN")
            return
        self._check_identities(report, identities, types)
        dim, rank = int_property(self, "dim"), types[0].rank
        if dim < 0 or dim >= rank:
            report.error(DIM_RULE, f"dimension ({dim}) is out of bound [0, {rank})", attr("dim"))
        else:
            self._check_results(report, types, dim)
        self._check_body(report, types)

    def _check_identities(
        self, report: Report, identities: ArrayAttr, types: tuple[T.TileType, ...]
    ) -> None:
        if len(identities.data) != len(types):
            report.error(
                OPERAND_COUNT,
                f"expected {len(types)} identities, one for each operand, got "
                f"{len(identities.data)}",
                attr("identities"),
            )
            return
        halves = {"f16", "bf16"}
        for index, (value, ty) in enumerate(zip(identities.data, types, strict=True)):
            found = scalar_bits(value)
            name = "none" if found is None else found[0]
            if name != ty.element and {name, ty.element} != halves:
                report.error(
                    IDENTITY_TYPE,
                    f"expected identity {index} to have type '{ty.element}', the element type of "
                    f"its operand, got '{name}'",
                    attr("identities"),
                )

    def _check_results(self, report: Report, types: tuple[T.TileType, ...], dim: int) -> None:
        for index, (ty, result) in enumerate(zip(types, self.results, strict=True)):
            wanted = self.result_type(ty, dim)
            if result.type != wanted:
                report.error(
                    SHAPE_RULE,
                    f"expected result {index} to be '{format_type(wanted)}', got "
                    f"'{format_type(result.type)}'",
                    type_of("results_", index),
                )

    def result_type(self, ty: T.TileType, dim: int) -> T.TileType:
        """The type of a result, from that of its operand."""
        raise NotImplementedError

    def _check_body(self, report: Report, types: tuple[T.TileType, ...]) -> None:
        region = self.regions[0]
        if not region.blocks:
            return
        block = region.blocks[0]
        scalars = [T.tile((), ty.element_type) for ty in types]
        wanted: list[Attribute] = [ty for scalar in scalars for ty in (scalar, scalar)]
        given = [a.type for a in block.args]
        if given != wanted:
            report.error(
                BODY_ARGUMENTS,
                f"expect {len(wanted)} block arguments but got {len(given)}"
                if len(given) != len(wanted)
                else f"expected block arguments of types {show_types(wanted)}, two for each "
                f"operand, got {show_types(given)}",
                ("region", "", 0),
            )
        last = block.last_op
        if isinstance(last, YieldOp):
            yielded = [v.type for v in last.operands]
            if yielded != scalars:
                report.error(
                    CARRIED_TYPES,
                    f"expected the body to yield {show_types(scalars)}, got {show_types(yielded)}",
                    operand("operands_"),
                    at=last,
                )
        for op in block.ops:
            if not has_no_memory_effect(op):
                report.error(
                    IMPURE_BODY,
                    f"only memory-effect-free operations are allowed inside '{self.name}', got "
                    f"'{op.name}'",
                    at=op,
                    notes=(Related(f"the {self.mnemonic()} is here", self),),
                )


def has_no_memory_effect(op: Operation) -> bool:
    """Whether an operation and all in its regions touch no memory and surely end."""
    waiting = [op]
    while waiting:
        current = waiting.pop()
        if isinstance(current, ForOp | LoopOp):
            return False
        if current.has_trait(RecursiveMemoryEffect, value_if_unregistered=False):
            waiting += [
                inner
                for region in current.regions
                for block in region.blocks
                for inner in block.ops
            ]
        elif not _touches_nothing(current):
            return False
    return True


def _touches_nothing(op: Operation) -> bool:
    return (
        op.has_trait(IsTerminator, value_if_unregistered=False)
        or op.has_trait(NoMemoryEffect, value_if_unregistered=False)
        or is_side_effect_free(op)
    )


FOLD_HEAD = syntax("$operands_* attr-dict", IntField("dim", 32, spaced=False))
FOLD_TAIL = syntax(Identities(), ": types($operands_) -> types($results_)", BodyWithArguments())


@tile_op("reduce", opcode=0x58, group=GROUP)
class ReduceOp(ReduceOrScan):
    """Combines the elements along dimension ``dim`` into one, which removes the dimension.

    The body gets two values for each operand, that of lower indices first, and yields their
    combination. It must be associative and commutative with the given identities; the order of
    combination is not fixed.
    """

    dim = prop_def(K.INT32)
    RESULT_NAMES: ClassVar = ("reduce",)
    SYNTAX: ClassVar = (*FOLD_HEAD, *FOLD_TAIL)
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <f32: [[1.0, 2.0], [3.0, 4.0]]> : tile<2x2xf32>
        %sum = reduce %x dim=1 identities=[0.0 : f32] : tile<2x2xf32> -> tile<2xf32>
        (%a: tile<f32>, %b: tile<f32>) {
          %s = addf %a, %b : tile<f32>
          yield %s : tile<f32>
        }  // 3.0, 7.0
        """,
        """
        %x = constant <i32: [5, 1, 7, 3]> : tile<4xi32>
        %i = iota : tile<4xi32>
        // The largest number and its position.
        %best:2 = reduce %x, %i dim=0 identities=[-2147483648 : i32, 0 : i32]
          : tile<4xi32>, tile<4xi32> -> tile<i32>, tile<i32>
        (%a: tile<i32>, %b: tile<i32>, %ia: tile<i32>, %ib: tile<i32>) {
          %c = cmpi greater_than %a, %b, signed : tile<i32> -> tile<i1>
          %m = select %c, %a, %b : tile<i1>, tile<i32>
          %j = select %c, %ia, %ib : tile<i1>, tile<i32>
          yield %m, %j : tile<i32>, tile<i32>
        }
        """,
    )

    def result_type(self, ty: T.TileType, dim: int) -> T.TileType:
        return ty.with_shape(ty.dims[:dim] + ty.dims[dim + 1 :])


class Reverse(Directive):
    """``reverse=false``"""

    def parse(self, parser: Parser, state: ParseState) -> None:
        parser.parse_keyword("reverse")
        parser.parse_punctuation("=")
        state.properties["reverse"] = BoolAttr.from_bool(parser.parse_boolean())

    def print(self, printer: Printer, op: TileOp) -> None:
        assert isinstance(op, ScanOp)
        printer.print_string(f" reverse={'true' if op.is_reverse else 'false'}")

    def grammar(self) -> str:
        return "`reverse` `=` (`true` | `false`)"


@tile_op("scan", opcode=0x5E, group=GROUP)
class ScanOp(ReduceOrScan):
    """Inclusive scan along dimension ``dim``: each element combined with all before it.

    With ``reverse`` it runs from the last element down. The body is as for reduce: what comes before
    is first, the element second.
    """

    dim = prop_def(K.INT32)
    reverse = prop_def(K.BOOL)
    SYNTAX: ClassVar = (*FOLD_HEAD, Reverse(), *FOLD_TAIL)
    EXAMPLES: ClassVar = examples(
        """
        %x = constant <i32: [1, 2, 3, 4]> : tile<4xi32>
        %sums = scan %x dim=0 reverse=false identities=[0 : i32] : tile<4xi32> -> tile<4xi32>
        (%a: tile<i32>, %b: tile<i32>) {
          %s = addi %a, %b : tile<i32>
          yield %s : tile<i32>
        }  // 1, 3, 6, 10
        """,
        """
        %x = constant <i32: [1, 2, 3, 4]> : tile<4xi32>
        %sums = scan %x dim=0 reverse=true identities=[0 : i32] : tile<4xi32> -> tile<4xi32>
        (%a: tile<i32>, %b: tile<i32>) {
          %s = addi %a, %b : tile<i32>
          yield %s : tile<i32>
        }  // 10, 9, 7, 4
        """,
    )

    @property
    def is_reverse(self) -> bool:
        """Whether it goes from the last element to the first."""
        return bool(int_property(self, "reverse"))

    def result_type(self, ty: T.TileType, dim: int) -> T.TileType:
        return ty
