"""Float conversions: 8 and 4 bits, tf32, rounding modes, and to integers.

Uses an instruction where the architecture has one, else a few integer operations with the same result. Conversions to 8
or 4 bits saturate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    FloatTF32Type,
)
from xdsl.ir import Attribute, Operation

from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.arith.floats import rounding_of
from tilewright.dialects.upstream.nvvm.conversions import ToTf32
from tilewright.gpu.architectures import (
    FP4_CONVERSIONS,
    FP8_CONVERSIONS,
    TF32_ROUNDING,
    TF32_SATURATION,
    TF32_SATURATION_AWAY,
    Feature,
)
from tilewright.gpu.codegen import ir
from tilewright.gpu.codegen.arith import (
    LLVM_FLOATS,
    check_arithmetic,
    element_of,
    element_type,
    intrinsic,
    like,
    mangled,
    splat,
)
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.ir import F32, F64, I8, I16, I32, Value

HALF = "half"


@dataclass(frozen=True, slots=True)
class Format:
    """A narrow float format, and its PTX name.

    ``nan`` is the pattern of NaN; in a format without NaN it becomes the largest number.
    """

    name: str
    bits: int
    mantissa: int
    bias: int
    largest: int
    nan: int
    ptx: str
    feature: Feature

    @property
    def integer(self) -> str:
        """The LLVM integer type of the same width."""
        return f"i{self.bits}"


FORMATS: dict[type[Attribute], Format] = {
    Float8E4M3FNType: Format("f8E4M3FN", 8, 3, 7, 0x7E, 0x7F, "e4m3", FP8_CONVERSIONS),
    Float8E5M2Type: Format("f8E5M2", 8, 2, 15, 0x7B, 0x7F, "e5m2", FP8_CONVERSIONS),
    Float4E2M1FNType: Format("f4E2M1FN", 4, 1, 1, 0x7, 0x7, "e2m1", FP4_CONVERSIONS),
}
_SCALE_NAN, _SCALE_LARGEST = 255, 254
_F32_INFINITY, _F32_MAGNITUDE = 0x7F800000, 0x7FFFFFFF
_TF32_DROPPED = 13
#: PTX rounding modes that LLVM cannot express.
_DIRECTED = {"toward_zero": "rz", "downward": "rm", "upward": "rp"}
_PTX_FLOATS = {HALF: "f16", "bfloat": "bf16", F32: "f32", F64: "f64"}


def is_narrow(ty: Attribute) -> bool:
    """Whether LLVM has no arithmetic for a float type."""
    return type(element_type(ty)) in (*FORMATS, Float8E8M0FNUType, FloatTF32Type)


class _Vectors:
    """Operations between integers, or integer vectors, and constants."""

    def __init__(self, f: Function) -> None:
        self.f, self.code = f, f.code

    def constant(self, like_: Value, number: int) -> Value:
        return splat(ir.integer(element_of(like_.type), number), like_.type)

    def op(self, opcode: str, a: Value, number: int) -> Value:
        return self.code.binary(opcode, a, self.constant(a, number))

    def bits(self, value: Value) -> Value:
        """The bits of an f32 or f64."""
        integer = I32 if element_of(value.type) == F32 else ir.I64
        return self.code.cast("bitcast", value, like(value.type, integer))

    def test(self, predicate: str, a: Value, number: int) -> Value:
        return self.code.op(
            like(a.type, "i1"), f"icmp {predicate} {a}, {self.constant(a, number).ref}"
        )

    def choose(self, condition: Value, number: int, other: Value) -> Value:
        return self.code.select(condition, self.constant(other, number), other)


# To and from f32


def _to_f32(f: Function, value: Value, *, further: bool) -> Value:
    """A value as f32. With ``further`` rounding to come, f64 is rounded to odd, so that rounding twice is exact."""
    given = element_of(value.type)
    target = like(value.type, F32)
    if given != F64:
        return f.code.cast("fpext", value, target)
    near = f.code.cast("fptrunc", value, target)
    if not further:
        return near
    v = _Vectors(f)
    back, bit = f.code.cast("fpext", near, value.type), like(value.type, "i1")
    sizes = [intrinsic(f, "fabs", x) for x in (back, value)]
    above = f.code.op(bit, f"fcmp ogt {sizes[0]}, {sizes[1].ref}")
    inexact = f.code.op(bit, f"fcmp one {back}, {value.ref}")
    bits = v.bits(near)
    bits = f.code.select(above, v.op("sub", bits, 1), bits)
    bits = f.code.binary("or", bits, f.code.cast("zext", inexact, bits.type))
    return f.code.cast("bitcast", bits, target)


# 8 and 4 bits


def _encode(f: Function, value: Value, fmt: Format) -> Value:
    """Encode f32, rounded to nearest even."""
    if fmt.feature.is_in(f.unit.arch):
        return _in_pairs(f, value, fmt)
    v = _Vectors(f)
    bits = v.bits(value)
    sign = v.op("shl", v.op("lshr", bits, 31), fmt.bits - 1)
    size = v.op("and", bits, _F32_MAGNITUDE)
    dropped = 23 - fmt.mantissa
    last = v.op("and", v.op("lshr", size, dropped), 1)
    raised = f.code.binary("add", v.op("add", size, (1 << dropped - 1) - 1), last)
    normal = v.op("sub", v.op("lshr", raised, dropped), (127 - fmt.bias) << fmt.mantissa)
    # Adding a number whose ulp is the smallest subnormal rounds to that.
    magic = (127 - fmt.bias + dropped + 1) << 23
    aside = f.code.cast("bitcast", v.constant(bits, magic), value.type)
    small = f.code.cast("bitcast", size, value.type)
    subnormal = v.op("sub", v.bits(f.code.binary("fadd", small, aside)), magic)
    is_small = v.test("ult", size, (128 - fmt.bias) << 23)
    code = f.code.select(is_small, subnormal, normal)
    code = v.choose(v.test("ugt", code, fmt.largest), fmt.largest, code)
    code = f.code.binary("or", code, sign)
    code = v.choose(v.test("ugt", size, _F32_INFINITY), fmt.nan, code)
    return f.code.cast("trunc", code, like(value.type, fmt.integer))


def _count(ty: str) -> int | None:
    """The number of elements of a vector; None for a scalar."""
    return int(ty[1 : ty.index(" ")]) if ty.startswith("<") else None


def _elements(f: Function, value: Value) -> list[Value]:
    count = _count(value.type)
    if count is None:
        return [value]
    ty = element_of(value.type)
    return [f.code.element(value, ty, ir.integer(I32, place)) for place in range(count)]


def _vector(f: Function, elements: list[Value]) -> Value:
    made = Value(f"<{len(elements)} x {elements[0].type}>", "poison")
    for place, element in enumerate(elements):
        made = f.code.with_element(made, element, ir.integer(I32, place))
    return made


def _in_pairs(f: Function, value: Value, fmt: Format) -> Value:
    """Encode f32 by the instruction that converts two numbers."""
    f.unit.isa = max(f.unit.isa, fmt.feature.isa)
    name = f"cvt.rn.satfinite.{fmt.ptx}x2.f32"
    text = f"{name} $0, $1, $2;"
    if fmt.bits == 4:
        text = f"{{ .reg .b8 t; {name} t, $1, $2; mov.b32 $0, {{t, t, t, t}}; }}"
    register, pair = (I32, I8) if fmt.bits == 4 else (I16, I16)
    elements = _elements(f, value)
    padded = [*elements, ir.floating(F32, 0.0)] if len(elements) % 2 else elements
    found = []
    for low, high in zip(padded[::2], padded[1::2], strict=True):
        (made,) = f.code.asm(text, [register], [high, low], pure=True)
        found.append(f.code.cast("trunc", made, pair))
    return _unpack(f, found, value.type, fmt)


def _unpack(f: Function, pairs: list[Value], ty: str, fmt: Format) -> Value:
    """Unpack the elements of pairs, in the shape of ``ty``."""
    count, target = _count(ty), like(ty, fmt.integer)
    if count is None:
        return f.code.cast("trunc", pairs[0], target)
    whole = f.code.cast("bitcast", _vector(f, pairs), f"<{2 * len(pairs)} x {fmt.integer}>")
    if count == 2 * len(pairs):
        return whole
    places = ", ".join(f"i32 {n}" for n in range(count))
    return f.code.op(
        target, f"shufflevector {whole}, {whole.type} poison, <{count} x i32> <{places}>"
    )


def _decode(f: Function, value: Value, fmt: Format) -> Value:
    """Decode to f16, which holds all values exactly."""
    if fmt.feature.is_in(f.unit.arch):
        return _decode_pairs(f, value, fmt)
    if fmt.bits == 8 and (_count(value.type) or 1) > 1:
        return _decode_words(f, value, fmt)
    v = _Vectors(f)
    bits = f.code.cast("zext", value, like(value.type, I16))
    size = v.op("and", bits, (1 << fmt.bits - 1) - 1)
    sign = v.op("shl", v.op("lshr", bits, fmt.bits - 1), 15)
    # As an f16 the pattern is too small by the difference of the biases.
    placed = v.op("shl", size, 10 - fmt.mantissa)
    ty = like(value.type, HALF)
    number = f.code.cast("bitcast", placed, ty)
    if fmt.bias != 15:
        number = f.code.binary("fmul", number, splat(ir.floating(HALF, 2.0 ** (15 - fmt.bias)), ty))
    found = f.code.cast("bitcast", number, bits.type)
    if fmt.nan > fmt.largest:
        # The infinities of f8E5M2 have the pattern of those of f16.
        least = 0x7F if fmt.mantissa == 3 else 0x7D
        found = v.choose(v.test("uge", size, least), 0x7E00, found)
    return f.code.cast("bitcast", f.code.binary("or", found, sign), ty)


def _decode_words(f: Function, value: Value, fmt: Format) -> Value:
    """Decode bytes two at a time in a 32-bit word, each as the upper byte of a half."""
    count = _count(value.type)
    assert count is not None
    zero = ir.integer(I8, 0)
    elements = _elements(f, value)
    halves: list[Value] = []
    for first in range(0, count, 2):
        pair = [*elements[first : first + 2], zero]
        word = _vector(f, [zero, pair[0], zero, pair[1]])
        found = f.code.cast("bitcast", word, I32)
        if fmt.mantissa == 3:
            found = _rebiased(f, found)
        halves += _elements(f, f.code.cast("bitcast", found, f"<2 x {HALF}>"))
    return _vector(f, halves[:count])


def _rebiased(f: Function, word: Value) -> Value:
    """Decode two f8E4M3FN, in the upper bytes of halves, to f16."""
    v = _Vectors(f)
    placed = v.op("and", v.op("lshr", word, 1), 0x3F803F80)
    placed = f.code.binary("or", placed, v.op("and", word, 0x80008000))
    ty = f"<2 x {HALF}>"
    scale = splat(ir.floating(HALF, 256.0), ty)
    number = f.code.binary("fmul", f.code.cast("bitcast", placed, ty), scale)
    # Only NaN has seven bits that carry into the eighth when incremented; all its exponent bits are set.
    nan = v.op("and", v.op("add", v.op("and", word, 0x7F007F00), 0x01000100), 0x80008000)
    exponent = f.code.binary("sub", nan, v.op("lshr", nan, 5))
    return f.code.binary("or", f.code.cast("bitcast", number, I32), exponent)


def _decode_pairs(f: Function, value: Value, fmt: Format) -> Value:
    """Decode by the instruction that converts two numbers."""
    f.unit.isa = max(f.unit.isa, fmt.feature.isa)
    name = f"cvt.rn.f16x2.{fmt.ptx}x2"
    text = f"{name} $0, $1;"
    if fmt.bits == 4:
        text = f"{{ .reg .b8 t; mov.b32 {{t, _, _, _}}, $1; {name} $0, t; }}"
    register, pair = (I32, I8) if fmt.bits == 4 else (I16, I16)
    count = _count(value.type)
    if count is None:
        packed = [f.code.cast("zext", value, pair)]
    else:
        if count % 2:
            zero = ir.integer(fmt.integer, 0)
            value = _vector(f, [*_elements(f, value), zero])
        words = f.code.cast("bitcast", value, f"<{(count + 1) // 2} x {pair}>")
        packed = _elements(f, words)
    halves: list[Value] = []
    for word in packed:
        wide = f.code.cast("zext", word, register)
        (made,) = f.code.asm(text, [I32], [wide], pure=True)
        halves += _elements(f, f.code.cast("bitcast", made, f"<2 x {HALF}>"))
    return halves[0] if count is None else _vector(f, halves[:count])


# Powers of two


def _encode_scale(f: Function, value: Value, rounding: str) -> Value:
    """Encode the magnitude of f32 as f8E8M0FNU, at least its smallest value."""
    v = _Vectors(f)
    size = v.op("and", v.bits(value), _F32_MAGNITUDE)
    added, least = {
        "toward_zero": (0, 0x800000),
        "downward": (0, 0x800000),
        "upward": (0x7FFFFF, 0x400001),
    }.get(rounding, (0x400000, 0x600000))
    normal = v.op("lshr", v.op("add", size, added), 23)
    small = f.code.cast("zext", v.test("uge", size, least), size.type)
    code = f.code.select(v.test("ult", size, 0x800000), small, normal)
    code = v.choose(v.test("ugt", code, _SCALE_LARGEST), _SCALE_LARGEST, code)
    code = v.choose(v.test("ugt", size, _F32_INFINITY), _SCALE_NAN, code)
    return f.code.cast("trunc", code, like(value.type, I8))


def _decode_scale(f: Function, value: Value) -> Value:
    """Decode f8E8M0FNU to f32."""
    v = _Vectors(f)
    code = f.code.cast("zext", value, like(value.type, I32))
    bits = v.op("shl", code, 23)
    for pattern in (0, _SCALE_NAN):
        # The smallest is a subnormal f32; the largest pattern is NaN, not infinity.
        special = v.constant(code, 0x400000 if pattern == 0 else 0x7FC00000)
        bits = f.code.select(v.test("eq", code, pattern), special, bits)
    return f.code.cast("bitcast", bits, like(value.type, F32))


# tf32

_TF32_MODES = {"to_nearest_even": "rn", "to_nearest_away": "rna", "toward_zero": "rz"}


def _to_tf32(f: Function, op: Operation, value: Value, rounding: str) -> Value:
    """Round f32 to tf32, held as f32."""
    mode = _TF32_MODES.get(rounding)
    if mode is None:
        raise f.refuse(op, f"has no rounding {rounding} to tf32")
    if mode == "rna" or TF32_ROUNDING.is_in(f.unit.arch):
        if mode != "rna":
            f.unit.isa = max(f.unit.isa, TF32_ROUNDING.isa)
        return _each(f, value, lambda x: _as_tf32(f, x, f"cvt.{mode}.tf32.f32"))
    v = _Vectors(f)
    bits = v.bits(value)
    kept = bits
    if mode == "rn":
        last = v.op("and", v.op("lshr", bits, _TF32_DROPPED), 1)
        kept = f.code.binary("add", v.op("add", bits, (1 << _TF32_DROPPED - 1) - 1), last)
    kept = v.op("and", kept, -(1 << _TF32_DROPPED))
    size = v.op("and", bits, _F32_MAGNITUDE)
    kept = v.choose(v.test("ugt", size, _F32_INFINITY), 0x7FFFE000, kept)
    return f.code.cast("bitcast", kept, value.type)


def _as_tf32(f: Function, value: Value, instruction: str) -> Value:
    (bits,) = f.code.asm(f"{instruction} $0, $1;", [I32], [value], pure=True)
    return f.code.cast("bitcast", bits, F32)


def _each(f: Function, value: Value, one: Callable[[Value], Value]) -> Value:
    """Apply a scalar function to each element."""
    made = [one(element) for element in _elements(f, value)]
    return made[0] if _count(value.type) is None else _vector(f, made)


@lowers("nvvm.cvt.float.to.tf32", "nvvm.convert.float.to.tf32")
def _convert_to_tf32(f: Function, op: Operation) -> None:
    assert isinstance(op, ToTf32)
    mode = op.rounding
    if op.saturates:
        f.require(op, TF32_SATURATION_AWAY if mode == "rna" else TF32_SATURATION)
    elif mode != "rna":
        f.require(op, TF32_ROUNDING)
    words = [
        mode,
        *(["satfinite"] if op.saturates else []),
        *(["relu"] if op.drops_negative else []),
    ]
    text = f"cvt.{'.'.join(words)}.tf32.f32 $0, $1;"
    (bits,) = f.code.asm(text, [I32], [f.value(op.src)], pure=True)
    f.set(op.res, bits)


# The operations


def _directed(f: Function, op: Operation, value: Value, ty: str, rounding: str) -> Value:
    """A conversion to a narrower LLVM float with directed rounding, by PTX."""
    mode = _DIRECTED.get(rounding)
    source, target = element_of(value.type), element_of(ty)
    if mode is None or (target == "bfloat" and mode != "rz"):
        raise f.refuse(op, f"has no rounding {rounding} from {source} to {target} in PTX")
    if source == F64 and target != F32:
        # Rounding twice in the same direction is exact.
        value = _directed(f, op, value, like(ty, F32), rounding)
        source = F32
    text = f"cvt.{mode}.{_PTX_FLOATS[target]}.{_PTX_FLOATS[source]} $0, $1;"
    register = I16 if target in (HALF, "bfloat") else target

    def one(element: Value) -> Value:
        (made,) = f.code.asm(text, [register], [element], pure=True)
        return f.code.cast("bitcast", made, target)

    return _each(f, value, one)


def _widened(f: Function, value: Value, ty: Attribute) -> Value:
    """Convert any float to a type with LLVM arithmetic."""
    ty = element_type(ty)
    if (fmt := FORMATS.get(type(ty))) is not None:
        return _decode(f, value, fmt)
    return _decode_scale(f, value) if isinstance(ty, Float8E8M0FNUType) else value


def convert(
    f: Function, op: Operation, value: Value, source: Attribute, target: Attribute, ty: str
) -> Value:
    """Convert between float types, with the rounding mode of the operation, once.

    ``ty`` is the LLVM type of the result. Results of 8 and fewer bits are the largest number where they would be
    infinite. Raises ``TileIRError`` (``gpu-unsupported``) for a rounding that PTX does not have between the types.
    """
    rounding, wanted = rounding_of(op), element_type(target)  # pyright: ignore[reportArgumentType]
    value = _widened(f, value, source)
    if isinstance(wanted, Float8E8M0FNUType):
        return _encode_scale(f, _to_f32(f, value, further=True), rounding)
    if isinstance(wanted, FloatTF32Type):
        return _to_tf32(f, op, _to_f32(f, value, further=True), rounding)
    if (fmt := FORMATS.get(type(wanted))) is not None:
        if rounding != "to_nearest_even":
            raise f.refuse(op, f"has no rounding {rounding} to '{format_type(wanted)}'")
        return _encode(f, _to_f32(f, value, further=True), fmt)
    given, wanted_type = element_of(value.type), element_of(ty)
    assert {given, wanted_type} <= LLVM_FLOATS
    if given == wanted_type:
        return value
    if _SIZES[given] < _SIZES[wanted_type]:
        return f.code.cast("fpext", value, ty)
    if _SIZES[given] == _SIZES[wanted_type]:
        return f.code.cast("fptrunc", f.code.cast("fpext", value, like(ty, F32)), ty)
    if rounding != "to_nearest_even":
        return _directed(f, op, value, ty, rounding)
    return f.code.cast("fptrunc", value, ty)


_SIZES = {HALF: 16, "bfloat": 16, F32: 32, F64: 64}


@lowers("arith.extf", "arith.truncf")
def _convert(f: Function, op: Operation) -> None:
    source, target = op.operands[0].type, op.results[0].type
    pairs = zip(f.parts(op.operands[0]), f.types(op.results[0]), strict=True)
    f.set(op.results[0], *(convert(f, op, value, source, target, ty) for value, ty in pairs))


@lowers("arith.fptosi", "arith.fptoui")
def _to_integer(f: Function, op: Operation) -> None:
    """Saturates, and NaN becomes 0, as on the simulator; LLVM's plain conversion is undefined there.

    For f32 to 32 bits that is what the instruction does; otherwise LLVM expands it.
    """
    check_arithmetic(f, op, op.operands[0], op.results[0])
    sign = op.name[-2]
    made: list[Value] = []
    for value, ty in zip(f.parts(op.operands[0]), f.types(op.results[0]), strict=True):
        if element_of(ty) != I32 or element_of(value.type) == F64:
            name = f"llvm.fpto{sign}i.sat.{mangled(ty)}.{mangled(value.type)}"
            made.append(f.code.call(name, ty, [value]))
            continue
        wide = f.code.cast("fpext", value, like(value.type, F32))
        name = "llvm.nvvm.f2i.rz" if sign == "s" else "llvm.nvvm.f2ui.rz"
        made.append(_each(f, wide, lambda part, name=name: f.code.call(name, I32, [part])))
    f.set(op.results[0], *made)
