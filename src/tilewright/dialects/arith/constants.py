"""Constants: scalars and tiles, exact to the bit, and how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, NoReturn, Self

from xdsl.dialects.builtin import (
    BytesAttr,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, prop_def, result_def, traits_def
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects.arith import codes
from tilewright.dialects.arith.base import ArithOp, arith_op, numeric_element
from tilewright.dialects.cuda_tile.constants import (
    BAD_CONSTANT,
    FloatBitsAttr,
    Literal,
    PackedElements,
    bits_to_value,
    format_elements,
    format_scalar,
    packed,
    parse_scalar,
    scalar_literal,
    value_to_bits,
    without_copies,
)
from tilewright.dialects.cuda_tile.types import ELEMENT_NAMES
from tilewright.dialects.declare import Report, attr, examples
from tilewright.dialects.facts import Elements
from tilewright.dialects.narrowing import is_float, is_integer, is_integer_type
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.constraints import ElementKind, PropertyKind
from tilewright.dialects.nv_tileaa.signature import Dictionary
from tilewright.dialects.nv_tileaa.type_syntax import format_type, parse_type
from tilewright.dialects.syntax.engine import Directive, ParseState
from tilewright.dialects.syntax.tokens import fail, previous_end, token_start, token_text
from tilewright.numerics.element_types import FORMATS, ElementFormat
from tilewright.numerics.floats import float_to_bits


def format_of(ty: Attribute) -> ElementFormat | None:
    """The format of the elements of a type of numbers or index; None for pointers and others."""
    return FORMATS.get(numeric_element(ty))


@irdl_attr_definition
class ElementsAttr(PackedElements):
    """The value of a constant tile. An element takes whole bytes, tf32 three of them, ``index`` eight."""

    name = "arith.elements"
    type: T.TileType
    data: BytesAttr

    def __init__(self, type: T.TileType, data: bytes):
        super().__init__(type, without_copies(data, format_of(type)))

    @classmethod
    def from_bits(cls, type: T.TileType, bits: Sequence[int]) -> Self:
        """The constant with these element patterns (non-negative), or one for all elements, in row-major order."""
        fmt = format_of(type)
        assert fmt is not None, type
        return cls(type, packed(bits, fmt))

    @property
    def format(self) -> ElementFormat:
        """The element type of the tile, as ``numerics`` describes it."""
        found = format_of(self.type)
        assert found is not None
        return found

    def verify(self) -> None:
        if format_of(self.type) is None:
            raise VerifyException(
                f"constants of type '{format_type(self.type)}' do not exist: a constant tile has "
                "elements that are numbers or index"
            )
        self.check_size(prod(self.type.dims), format_type(self.type))

    def literal(self) -> str:
        """``dense<...>`` without the type."""
        return f"dense<{format_elements(self, self.type.dims)}>"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            value = parse_value(parser)
            if not isinstance(value, ElementsAttr):
                fail(parser, "expected dense<...> and the type of a tile", code=BAD_CONSTANT)
        return (value.type, value.data)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.literal()} : {format_type(self.type)}>")


def scalar_value(ty: Attribute, bits: int) -> Attribute:
    """The attribute of a scalar constant with this bit pattern."""
    fmt = format_of(ty)
    assert fmt is not None, ty
    if fmt.is_float:
        return FloatBitsAttr(ty, bits)
    assert is_integer_type(ty)
    return IntegerAttr(int(bits_to_value(bits, fmt.name)), ty)


def constant_value(ty: Attribute, bits: Sequence[int]) -> Attribute:
    """The value of a constant of a scalar or tile type: one pattern, or one for each element."""
    if isinstance(ty, T.TileType):
        return ElementsAttr.from_bits(ty, bits)
    (pattern,) = bits
    return scalar_value(ty, pattern)


def bits_of_value(value: Attribute) -> list[int]:
    """The bit patterns of a constant's value: of each element, or one of all."""
    if isinstance(value, ElementsAttr):
        return value.bits()
    if isinstance(value, FloatBitsAttr):
        return [value.bits_value]
    assert is_integer(value)
    fmt = format_of(value.type)
    assert fmt is not None
    return [value.value.data & fmt.mask]


def type_of_value(value: Attribute) -> Attribute:
    """The type of the constant that has this value."""
    assert isinstance(value, ElementsAttr | FloatBitsAttr) or is_integer(value)
    return value.type


def show_value(value: Attribute) -> str:
    """A value as it is written, with its type where it needs one."""
    ty = type_of_value(value)
    if isinstance(value, ElementsAttr):
        return f"{value.literal()} : {format_type(ty)}"
    fmt = format_of(ty)
    assert fmt is not None
    text = format_scalar(bits_of_value(value)[0], fmt)
    return text if fmt.name == "i1" else f"{text} : {format_type(ty)}"


def parse_value(parser: AttrParser) -> Attribute:
    """``dense<...> : tile<...>``, ``NUMBER : type``, ``true`` or ``false``; or an attribute.

    Bare integers are i64 and bare floats f64, as everywhere in MLIR. Raises CodedParseError for a type that holds no
    numbers, and for numbers that it does not hold.
    """
    start, text = token_start(parser), token_text(parser)
    if text.startswith("#"):
        return _exact(parser.parse_attribute())
    if parser.parse_optional_keyword("dense"):
        with parser.in_angle_brackets():
            literal_start = token_start(parser)
            literal = Literal(parser)
            literal_end = previous_end(parser)
        return _dense(parser, literal, literal_start, literal_end)
    text = parse_scalar(parser)
    if text in ("true", "false"):
        ty: Attribute = IntegerType(1)
    else:
        ty = FORMAT_DEFAULTS["." in text]
    if parser.parse_optional_punctuation(":"):
        type_start = token_start(parser)
        ty = parse_type(parser)
        if isinstance(ty, T.TileType):
            _bad_type(parser, ty, type_start, f"write dense<{text}> for a tile of equal elements")
        if format_of(ty) is None:
            _bad_type(parser, ty, type_start, "a constant is a number or a tile of numbers")
    fmt = format_of(ty)
    assert fmt is not None
    return scalar_value(ty, scalar_literal(parser, text, fmt, start))


_I64, _F64 = (next(t for t, n in ELEMENT_NAMES.items() if n == name) for name in ("i64", "f64"))
#: The types of bare numbers: without and with a decimal point.
FORMAT_DEFAULTS: tuple[Attribute, Attribute] = (_I64, _F64)


def _dense(parser: AttrParser, literal: Literal, start: int, end: int) -> ElementsAttr:
    parser.parse_punctuation(":")
    type_start = token_start(parser)
    ty = parse_type(parser)
    fmt = format_of(ty)
    if not isinstance(ty, T.TileType) or fmt is None:
        _bad_type(parser, ty, type_start, "dense<...> is a tile of numbers or index")
    return ElementsAttr(ty, literal.data(parser, fmt, ty.dims, format_type(ty), start, end))


def _bad_type(parser: AttrParser, ty: Attribute, start: int, help: str) -> NoReturn:
    fail(
        parser,
        f"a constant cannot be written so for the type '{format_type(ty)}'",
        start,
        previous_end(parser),
        code=BAD_CONSTANT,
        help=help,
    )


def _exact(value: Attribute) -> Attribute:
    """Floats of MLIR's own attribute as bit patterns."""
    if is_float(value) and (fmt := format_of(value.type)) is not None:
        return FloatBitsAttr(value.type, float_to_bits(value.value.data, fmt))
    return value


@dataclass(frozen=True, slots=True)
class ConstantValue(Directive):
    """The value and, in it, the type of a constant."""

    def parse(self, parser: Parser, state: ParseState) -> None:
        start = token_start(parser)
        value = parse_value(parser)
        end = previous_end(parser)
        if not (isinstance(value, ElementsAttr | FloatBitsAttr) or is_integer(value)):
            fail(parser, f"expected a constant, found {value}", start, end, code=BAD_CONSTANT)
        state.properties["value"] = value
        state.types["result"] = [type_of_value(value)]
        state.mark(("attr", "value", 0), start, end)

    def print(self, printer: Printer, op: IRDLOperation) -> None:
        printer.print_string(" " + show_value(op.properties["value"]))

    def grammar(self) -> str:
        return "(NUMBER [`:` type] | `true` | `false` | `dense` `<` LITERAL `>` `:` type)"


VALUE = PropertyKind(
    "a typed number or the elements of a tile", (IntegerAttr, FloatBitsAttr, ElementsAttr)
)
CONSTANT = ElementKind("a scalar or tile of numbers or index", frozenset(FORMATS) | {"index"})


@arith_op("arith.constant", group="constant")
class ConstantOp(ArithOp):
    """A value that is known: a number, or a tile of numbers.

    Floats keep their bit patterns, those of NaN included. It has no operands, and no meaning in
    terms of elements: ``bits`` are its value.
    """

    value = prop_def(VALUE)
    result = result_def(CONSTANT)
    traits = traits_def(Pure(), ConstantLike())
    ELEMENTS: ClassVar = Elements.MADE
    COST: ClassVar = 0
    HIDDEN: ClassVar = frozenset({"value"})
    PROPERTY_PARSERS: ClassVar = {"value": parse_value}
    MEANING: ClassVar = ""
    SOURCE: ClassVar = "constant"
    SYNTAX: ClassVar = (Dictionary(), ConstantValue())
    EXAMPLES: ClassVar = examples(
        "%s = arith.constant -1 : i32",
        "%s = arith.constant true",
        "%s = arith.constant 0x7FC00001 : f32",
        "%s = arith.constant dense<0.0> : tile<128xf32>",
        "%s = arith.constant dense<[[1, 2], [3, 4]]> : tile<2x2xi8>",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if is_float(value := self.properties.get("value")):
            self.properties["value"] = _exact(value)

    @classmethod
    def from_bits(cls, ty: Attribute, bits: Sequence[int]) -> Self:
        """The constant of a scalar or tile type with these patterns, or one for all elements."""
        return cls.from_attribute(constant_value(ty, bits))

    @classmethod
    def from_value(cls, ty: Attribute, value: float | bool) -> Self:
        """The constant, of a scalar or tile type, whose elements are all ``value``, rounded to
        nearest for floats."""
        return cls.from_bits(ty, [value_to_bits(value, numeric_element(ty))])

    @classmethod
    def from_attribute(cls, value: Attribute) -> Self:
        """The constant of a value: a typed number or the elements of a tile."""
        return cls.create(result_types=[type_of_value(value)], properties={"value": value})

    def bits(self) -> list[int]:
        """The bit pattern of each element; a single one for scalars and where all are equal."""
        return bits_of_value(self.properties["value"])

    def check(self, report: Report) -> None:
        value, result = self.properties["value"], self.result.type
        if type_of_value(value) != result:
            report.error(
                codes.CONSTANT,
                f"the value is of type '{format_type(type_of_value(value))}', but the result of "
                f"type '{format_type(result)}'",
                attr("value"),
            )
