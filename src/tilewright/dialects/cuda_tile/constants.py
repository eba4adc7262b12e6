"""Constant tiles: their attribute, its literal and its typed scalars.

A constant keeps the bit patterns of its elements, packed: exact for every type, small for splats,
and cheap to move to and from bytecode.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    FloatAttr,
    IntegerType,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

from tilewright.diagnostics import define_code
from tilewright.dialects.cuda_tile.type_syntax import element_by_spelling, format_type, parse_type
from tilewright.dialects.cuda_tile.types import ELEMENT_TYPES, NUMBER_NAMES, TileType, element_name
from tilewright.dialects.narrowing import is_float, is_integer
from tilewright.dialects.syntax.tokens import (
    consume,
    current_token,
    fail,
    previous_end,
    token_start,
    token_text,
)
from tilewright.numerics.element_types import CONSTANT_TYPES, FORMATS, ElementFormat
from tilewright.numerics.floats import (
    bits_to_float,
    float_to_bits,
    format_float,
    round_decimal_text,
)

BAD_CONSTANT = define_code(
    "bad-constant",
    "A constant's literal does not match its element type or its shape.",
    "Write `constant <ELEM: LITERAL> : tile<...>`. ELEM is the element type of the tile; a scalar "
    "LITERAL fills the tile, otherwise the brackets nest as deep as the rank and have the tile's "
    "extents. Float literals need a decimal point, or are hexadecimal bit patterns.",
)


def element_bytes(fmt: ElementFormat) -> int:
    """Bytes that one element takes in a constant's data."""
    return fmt.constant_bytes or 1


def packed(bits: Sequence[int], fmt: ElementFormat) -> bytes:
    """The data of elements with these patterns (non-negative)."""
    size = element_bytes(fmt)
    return b"".join(b.to_bytes(size, "little") for b in bits)


def without_copies(data: bytes, fmt: ElementFormat | None) -> BytesAttr:
    """The data of a tile: one element where all are equal. Of no format, elements are bytes. ``data`` holds one
    element or all, little-endian.
    """
    size = 1 if fmt is None else element_bytes(fmt)
    if len(data) > size and data == data[:size] * (len(data) // size):
        data = data[:size]
    return BytesAttr(data)


class PackedElements(ParametrizedAttribute):
    """The elements of a tile of some type.

    ``data`` holds the bit pattern of every element, little-endian, row-major, or of one element
    only where all are equal.
    """

    if TYPE_CHECKING:  # a field of the classes below, behind the type
        data: BytesAttr

    @property
    def format(self) -> ElementFormat:
        """The element type of the tile, as ``numerics`` describes it."""
        raise NotImplementedError

    @property
    def is_splat(self) -> bool:
        """Whether one element is stored, which all of the tile are."""
        return len(self.data.data) == element_bytes(self.format)

    def bits(self) -> list[int]:
        """The pattern of each element; a single one for a splat."""
        size, data = element_bytes(self.format), self.data.data
        return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]

    def check_size(self, count: int, shown: str) -> None:
        """Raise ``VerifyException`` unless there is data for one element or ``count``; ``shown`` is the type."""
        size = element_bytes(self.format)
        if len(self.data.data) not in (size, size * count):
            raise VerifyException(
                f"expected {size} or {size * count} bytes of data for '{shown}', "
                f"got {len(self.data.data)}"
            )


@irdl_attr_definition
class TileConstantAttr(PackedElements):
    """The value of a constant tile. One element takes its bytecode size; i1 takes a byte, 0 or 1."""

    name = "cuda_tile.dense"
    type: TileType
    data: BytesAttr

    def __init__(self, type: TileType, data: bytes):
        fmt = FORMATS[type.element] if type.element in CONSTANT_TYPES else None
        super().__init__(type, without_copies(data, fmt))

    @classmethod
    def from_bits(cls, type: TileType, bits: Sequence[int]) -> TileConstantAttr:
        """The constant with these element patterns (non-negative), or one for all elements."""
        return cls(type, packed(bits, FORMATS[type.element]))

    @classmethod
    def splat(cls, type: TileType, value: float | bool) -> TileConstantAttr:
        """The constant whose elements are all ``value``, rounded to nearest for floats."""
        return cls.from_bits(type, [value_to_bits(value, type.element)])

    @property
    def format(self) -> ElementFormat:
        """The element type of the tile, as ``numerics`` describes it."""
        return FORMATS[self.type.element]

    def values(self) -> list[float]:
        """The value of each element (a single one for a splat): signed ints, floats, 0 or 1."""
        return [bits_to_value(bits, self.type.element) for bits in self.bits()]

    def verify(self) -> None:
        if self.type.element not in CONSTANT_TYPES:
            raise VerifyException(
                f"constants of element type '{format_type(self.type.element_type)}' do not exist"
            )
        self.check_size(self.type.element_count, format_type(self.type))

    def literal(self) -> str:
        """``elem: literal``, as printed between ``<`` and ``>``."""
        spelled = format_type(self.type.element_type)
        return f"{spelled}: {format_elements(self, self.type.dims)}"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            value = parse_literal_and_type(parser)
        return (value.type, value.data)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<<{self.literal()}> : {format_type(self.type)}>")


def value_to_bits(value: float | bool, element: str) -> int:
    """The bits of a number in an element type: integers wrap, i1 is whether it is not zero, floats
    are rounded to nearest even."""
    fmt = FORMATS[element]
    if fmt.is_int:
        return int(value != 0) if fmt.bits == 1 else int(value) & fmt.mask
    return float_to_bits(float(value), fmt)


def bits_to_value(bits: int, element: str) -> float:
    """The number that the bits of an element mean; integers are signed, those of i1 are 0 and 1. Infinities and NaN
    are Python's.
    """
    fmt = FORMATS[element]
    if fmt.is_float:
        return bits_to_float(bits, fmt)
    if fmt.bits == 1:
        return bits & 1
    return bits - (1 << fmt.bits) if bits >> (fmt.bits - 1) else bits


def format_scalar(bits: int, fmt: ElementFormat) -> str:
    """One element as the reference tools print it."""
    if fmt.is_float:
        return format_float(bits, fmt)
    if fmt.bits == 1:
        return "true" if bits else "false"
    return str(bits_to_value(bits, fmt.name))


def format_elements(constant: PackedElements, dims: Sequence[int]) -> str:
    """The elements as text: one number for a splat, else lists nested in the shape ``dims``, in row-major order."""
    fmt = constant.format
    texts = [format_scalar(bits, fmt) for bits in constant.bits()]
    if constant.is_splat:
        return texts[0]
    for extent in reversed(dims):
        texts = ["[" + ", ".join(texts[i : i + extent]) + "]" for i in range(0, len(texts), extent)]
    return texts[0]


def parse_literal_and_type(parser: AttrParser) -> TileConstantAttr:
    """``<elem: literal> : type``, or the old ``dense<literal> : type``.

    Raises CodedParseError (``bad-constant``) for a literal that is not one of the type.
    """
    legacy = parser.parse_optional_keyword("dense") is not None
    with parser.in_angle_brackets():
        element: Attribute | None = None
        element_start = token_start(parser)
        if not legacy:
            element = _parse_element_type(parser)
            parser.parse_punctuation(":")
        literal_start = token_start(parser)
        literal = Literal(parser)
        literal_end = previous_end(parser)
    parser.parse_punctuation(":")
    type_start = token_start(parser)
    ty = parse_type(parser)
    if not isinstance(ty, TileType) or ty.element not in CONSTANT_TYPES:
        fail(
            parser,
            f"expected a tile of numbers other than i4 for a constant, got '{format_type(ty)}'",
            type_start,
            previous_end(parser),
            code=BAD_CONSTANT,
        )
    if element is not None and element != ty.element_type:
        fail(
            parser,
            f"mismatch between the element type '{format_type(element)}' of the literal and the "
            f"element type '{format_type(ty.element_type)}' of the tile",
            element_start,
            element_start + len(format_type(element)),
            code=BAD_CONSTANT,
        )
    return literal.resolve(parser, ty, literal_start, literal_end)


def _parse_element_type(parser: AttrParser) -> Attribute:
    text = token_text(parser)
    element = element_by_spelling(text)
    if element is None or element_name(element) not in NUMBER_NAMES:
        names = " or ".join(name for name in ELEMENT_TYPES if name in CONSTANT_TYPES)
        fail(parser, f"expect element type to be one of {names}, got '{text}'", code=BAD_CONSTANT)
    consume(parser)
    return element


class Literal:
    """A parsed literal whose element type is not known yet: tokens with their offsets."""

    def __init__(self, parser: AttrParser):
        self.tokens: list[tuple[str, int]] = []
        self.shape: tuple[int, ...] | None = None
        self.hex_data: bytes | None = None
        if current_token(parser).kind is MLIRTokenKind.STRING_LIT:
            self._parse_hex_string(parser)
        else:
            self.shape = self._parse(parser)

    def _parse_hex_string(self, parser: AttrParser) -> None:
        start = token_start(parser)
        text = parser.parse_str_literal()
        try:
            if not text.startswith("0x"):
                raise ValueError
            self.hex_data = bytes.fromhex(text[2:])
        except ValueError:
            fail(
                parser,
                'expected a hexadecimal string such as "0x00FF" of the elements\' bytes',
                start,
                previous_end(parser),
                code=BAD_CONSTANT,
            )

    def _parse(self, parser: AttrParser) -> tuple[int, ...]:
        """Read nested lists without recursion; returns the shape, () for a scalar."""
        if token_text(parser) != "[":
            self._parse_scalar(parser)
            return ()
        extents: list[int] = []
        counts: list[int] = []
        while True:
            text = token_text(parser)
            if text == "[":
                consume(parser)
                counts.append(0)
                if token_text(parser) == "]":
                    fail(parser, "dense attribute cannot be empty", code=BAD_CONSTANT)
                continue
            self._parse_scalar_at(parser, len(counts), extents)
            counts[-1] += 1
            while not parser.parse_optional_punctuation(","):
                self._close(parser, counts, extents)
                if not counts:
                    return tuple(extents)
                counts[-1] += 1

    def _parse_scalar_at(self, parser: AttrParser, depth: int, extents: list[int]) -> None:
        if not extents:
            extents.extend([-1] * depth)
        if depth != len(extents):
            self._inconsistent(parser)
        self._parse_scalar(parser)

    def _close(self, parser: AttrParser, counts: list[int], extents: list[int]) -> None:
        parser.parse_punctuation("]")
        depth = len(counts)
        count = counts.pop()
        if extents[depth - 1] in (-1, count):
            extents[depth - 1] = count
        else:
            self._inconsistent(parser)

    def _inconsistent(self, parser: AttrParser) -> None:
        fail(
            parser,
            "tensor literal is invalid; ranks are not consistent between elements",
            code=BAD_CONSTANT,
        )

    def _parse_scalar(self, parser: AttrParser) -> None:
        start = token_start(parser)
        self.tokens.append((parse_scalar(parser), start))

    def resolve(self, parser: AttrParser, ty: TileType, start: int, end: int) -> TileConstantAttr:
        """The constant that the literal is as a tile of a type; ``start`` and ``end`` are where its
        text lies. Raises CodedParseError (``bad-constant``) where it does not fit.
        """
        data = self.data(parser, FORMATS[ty.element], ty.dims, format_type(ty), start, end)
        return TileConstantAttr(ty, data)

    def data(
        self,
        parser: AttrParser,
        fmt: ElementFormat,
        dims: tuple[int, ...],
        shown: str,
        start: int,
        end: int,
    ) -> bytes:
        """The packed elements of a tile of shape ``dims``, or one for all; ``shown`` is its type,
        and the range is that of the literal.

        Elements are little-endian, of ``element_bytes(fmt)`` bytes each. Raises CodedParseError (``bad-constant``) if
        the literal has another shape, or numbers that the format does not hold.
        """
        size = element_bytes(fmt)
        if self.hex_data is not None:
            if len(self.hex_data) not in (size, size * prod(dims)):
                fail(
                    parser,
                    f"expected {size * prod(dims)} bytes for '{shown}', got {len(self.hex_data)}",
                    start,
                    end,
                    code=BAD_CONSTANT,
                )
            return self.hex_data
        if self.shape != () and self.shape != dims:
            got = ", ".join(map(str, self.shape or ()))
            expected = ", ".join(map(str, dims))
            fail(
                parser,
                f"inferred shape of elements literal ([{got}]) does not match type ([{expected}])",
                start,
                end,
                code=BAD_CONSTANT,
            )
        memo: dict[str, bytes] = {}
        elements: list[bytes] = []
        for text, offset in self.tokens:
            if (known := memo.get(text)) is None:
                bits = scalar_literal(parser, text, fmt, offset)
                known = memo[text] = bits.to_bytes(size, "little")
            elements.append(known)
        assert len(elements) in (1, prod(dims))
        return b"".join(elements)


def parse_scalar(parser: AttrParser) -> str:
    """The text of one number, ``true`` or ``false``, with its sign. Raises CodedParseError for another token."""
    negative = parser.parse_optional_punctuation("-") is not None
    token = current_token(parser)
    is_bool = token.kind is MLIRTokenKind.BARE_IDENT and token.text in ("true", "false")
    if not is_bool and token.kind not in (MLIRTokenKind.INTEGER_LIT, MLIRTokenKind.FLOAT_LIT):
        found = token.text or "the end of the file"
        fail(parser, f"expected a number, true or false, found '{found}'", code=BAD_CONSTANT)
    text = consume(parser)
    return "-" + text if negative else text


def scalar_literal(parser: AttrParser, text: str, fmt: ElementFormat, offset: int) -> int:
    """The bit pattern of a number's text in a format; hexadecimal floats are patterns, decimal ones are rounded to
    nearest even.

    Raises CodedParseError (``bad-constant``) at ``offset`` for numbers out of range, and for floats without a
    decimal point.
    """
    end = offset + len(text)
    if fmt.is_int:
        return _int_literal(parser, text, fmt, offset, end)
    if text.lstrip("-").lower().startswith("0x"):
        bits = int(text, 16)
        if not 0 <= bits <= fmt.mask:
            fail(parser, "float constant out of range for type", offset, end, code=BAD_CONSTANT)
        return bits
    if "." not in text:
        fail(
            parser,
            f"expected a float literal for '{fmt.name}', got '{text}'",
            offset,
            end,
            code=BAD_CONSTANT,
            help="write a decimal point, as in 1.0, or the bit pattern in hexadecimal",
        )
    try:
        return round_decimal_text(text, fmt)
    except ValueError as error:
        fail(parser, str(error), offset, end, code=BAD_CONSTANT)


def _int_literal(parser: AttrParser, text: str, fmt: ElementFormat, offset: int, end: int) -> int:
    if text in ("true", "false"):
        if fmt.bits != 1:
            fail(
                parser,
                f"expected integer value for '{fmt.name}', got '{text}'",
                offset,
                end,
                code=BAD_CONSTANT,
            )
        return int(text == "true")
    if "." in text or text in ("-true", "-false"):
        fail(
            parser,
            f"expected integer value for '{fmt.name}', got '{text}'",
            offset,
            end,
            code=BAD_CONSTANT,
        )
    value = int(text, 16 if "0x" in text else 10) if len(text) < 64 else 1 << 64
    low = -1 if fmt.bits == 1 else -(1 << (fmt.bits - 1))
    if not low <= value <= fmt.mask:
        fail(
            parser,
            f"integer constant out of range for type '{fmt.name}': {text}",
            offset,
            end,
            code=BAD_CONSTANT,
        )
    return int(value != 0) if fmt.bits == 1 else value & fmt.mask


def scalar_bits(attribute: Attribute) -> tuple[str, int] | None:
    """(element name, bit pattern) of a typed scalar attribute, or None for any other."""
    if isinstance(attribute, FloatBitsAttr):
        return element_name(attribute.type), attribute.bits_value
    if is_integer(attribute) and isinstance(attribute.type, IntegerType):
        name = element_name(attribute.type)
        return (name, attribute.value.data & FORMATS[name].mask) if name in FORMATS else None
    if is_float(attribute):
        name = element_name(attribute.type)
        if name in FORMATS:
            return name, float_to_bits(attribute.value.data, FORMATS[name])
    return None


@irdl_attr_definition
class FloatBitsAttr(ParametrizedAttribute):
    """A float scalar that keeps its exact bit pattern, NaN payloads included.

    Identities of ``reduce`` and ``scan`` are of this kind; it prints like MLIR's float attribute.
    """

    name = "cuda_tile.float_bits"
    type: Attribute
    bits: BytesAttr

    def __init__(self, type: Attribute, bits: int):
        super().__init__(type, BytesAttr(bits.to_bytes(8, "little")))

    @property
    def bits_value(self) -> int:
        """The bits as an unsigned integer; they are stored least byte first."""
        return int.from_bytes(self.bits.data, "little")

    @property
    def value(self) -> float:
        """The number, which a float of 64 bits holds for every element type."""
        return bits_to_float(self.bits_value, FORMATS[element_name(self.type)])

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            start = token_start(parser)
            bits = parser.parse_integer(allow_boolean=False, allow_negative=False)
            if bits >= 1 << 64:
                fail(parser, "a bit pattern has at most 64 bits", start, code=BAD_CONSTANT)
            parser.parse_punctuation(":")
            ty = parse_type(parser)
        return (ty, BytesAttr(bits.to_bytes(8, "little")))

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.bits_value:#x} : {format_type(self.type)}>")


def exact_float(type: Attribute, bits: int) -> FloatAttr | FloatBitsAttr:
    """A float scalar of this bit pattern: MLIR's own attribute where that can hold it.

    It cannot hold the payload of a NaN, nor types that MLIR does not have.
    """
    fmt = FORMATS[element_name(type)]
    value = bits_to_float(bits, fmt)
    if isinstance(type, AnyFloat) and float_to_bits(value, fmt) == bits:
        return FloatAttr(value, type)
    return FloatBitsAttr(type, bits)
