"""Element types as LLVM sees them: in registers, in tile buffers and in memory.

| Element | Register | Buffer | Memory |
|---|---|---|---|
| i1 | i1 | i8, 0 or 1 | i8, any nonzero byte is true |
| i8 i16 i32 i64 | the same | the same | the same |
| index, pointers | i64 | i64 | pointers i64 |
| f16 f32 f64 | half, float, double | the same | the same |
| tf32 | float, the low 13 bits zero | float | float |
| bf16 | i16, the bits | i16 | i16 |
| 8-bit floats | i8, the bits | i8 | i8 |
| f4E2M1FN, i4 | i8, the bits in the low half | i8 | two in a byte, the first in the low half |
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir
from xdsl.ir import Attribute

from tilewright.cpu.codegen.ir.types import Constant, Type
from tilewright.dialects.nv_tileaa import types as T
from tilewright.numerics.element_types import FORMATS, ElementFormat

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
HALF, FLOAT, DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()
PTR = ir.PointerType()
VOID = ir.VoidType()


@dataclass(frozen=True, slots=True)
class Element:
    """An element type: its name in Tile IR (``index`` and ``ptr`` beside those of ``FORMATS``),
    and the LLVM types that hold it."""

    name: str
    register: Type
    buffer: Type
    buffer_bytes: int

    @property
    def format(self) -> ElementFormat:
        """The element type's bits and ranges; a KeyError for pointers and ``index``."""
        return FORMATS[self.name]

    @property
    def is_float(self) -> bool:
        """Whether elements are numbers of floating point, of any width."""
        return self.name in FORMATS and FORMATS[self.name].is_float

    @property
    def is_packed(self) -> bool:
        """Whether two elements share a byte of memory."""
        return self.name in ("f4E2M1FN", "i4")

    @property
    def memory_bytes(self) -> int:
        """Bytes of one element in memory; 1 for packed elements."""
        return self.buffer_bytes

    @property
    def lanes_bits(self) -> int:
        """The width of the registers in which arithmetic on the element is done."""
        if self.name == "bf16" or self.register is HALF:
            return 32
        return max(8, self.buffer_bytes * 8)


def _element(name: str, register: Type, size: int, buffer: Type | None = None) -> Element:
    return Element(name, register, buffer or register, size)


_ROWS = (
    _element("i1", I1, 1, I8),
    _element("i4", I8, 1),
    _element("i8", I8, 1),
    _element("i16", I16, 2),
    _element("i32", I32, 4),
    _element("i64", I64, 8),
    _element("index", I64, 8),
    _element("ptr", I64, 8),
    _element("f16", HALF, 2),
    _element("bf16", I16, 2),
    _element("f32", FLOAT, 4),
    _element("tf32", FLOAT, 4),
    _element("f64", DOUBLE, 8),
    _element("f8E4M3FN", I8, 1),
    _element("f8E5M2", I8, 1),
    _element("f8E8M0FNU", I8, 1),
    _element("f8E5M3FNU", I8, 1),
    _element("f4E2M1FN", I8, 1),
)

ELEMENTS: dict[str, Element] = {row.name: row for row in _ROWS}
"""Every element type by its name."""

F32, F64 = ELEMENTS["f32"], ELEMENTS["f64"]


def element_of(ty: Attribute) -> Element:
    """The element type of a tile, or of a scalar."""
    return ELEMENTS[T.element_name(T.element_of(ty))]


def pointee_of(ty: Attribute) -> Element:
    """The element type behind a pointer or a tile of pointers."""
    pointer = T.element_of(ty)
    assert isinstance(pointer, T.PtrType)
    return ELEMENTS[T.element_name(pointer.pointee)]


def bits_constant(element: Element, bits: int) -> Constant:
    """The register constant of a bit pattern (of ``FORMATS``; two's complement for integers)."""
    register = element.register
    if isinstance(register, ir.IntType):
        return ir.Constant(register, bits & ((1 << register.width) - 1))
    fmt = element.format
    if element.name == "tf32":
        return float_constant(FLOAT, bits << 13)
    assert fmt.storage_bits in (16, 32, 64)
    return float_constant(register, bits)


class Literal(ir.Constant):
    """A constant by its text, without the type."""

    def __init__(self, ty: Type, text: str) -> None:
        self.type = ty
        self.constant = text

    def get_reference(self) -> str:
        """The constant as LLVM's text has it."""
        return self.constant


def float_constant(ty: Type, bits: int) -> Constant:
    """The constant of a float type with these bits, as LLVM writes it: an f32 as the f64 of the same value."""
    if ty == HALF:
        return Literal(ty, f"0xH{bits & 0xFFFF:04X}")
    if ty == FLOAT:
        return Literal(ty, f"0x{_widened(bits):016X}")
    return Literal(ty, f"0x{bits & (1 << 64) - 1:016X}")


def _widened(bits: int) -> int:
    """The f64 pattern of an f32 pattern, by which LLVM writes float constants."""
    sign, exponent, mantissa = bits >> 31 & 1, bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        wide = 0x7FF << 52 | mantissa << 29
    elif exponent:
        wide = exponent - 127 + 1023 << 52 | mantissa << 29
    elif mantissa:
        shift = 24 - mantissa.bit_length()
        wide = -126 - shift + 1023 << 52 | (mantissa << shift & 0x7FFFFF) << 29
    else:
        wide = 0
    return sign << 63 | wide
