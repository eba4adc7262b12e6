"""Pointers, memrefs, conversions of types, and escapes to code from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind, Pure

from tilewright.dialects.cuda_tile.types import DYNAMIC, FLOAT_NAMES
from tilewright.dialects.declare import (
    Report,
    attr,
    enum_property,
    examples,
    int_property,
    operand,
    type_of,
)
from tilewright.dialects.facts import Elements, Pointing
from tilewright.dialects.nv_tileaa import codes
from tilewright.dialects.nv_tileaa import constraints as K
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import (
    ALL_SEGMENTS,
    TileAAOp,
    check_same_shape,
    is_set,
    require_block_scale,
    tileaa_op,
)
from tilewright.dialects.nv_tileaa.enums import RoundingModeAttr
from tilewright.dialects.nv_tileaa.ops.arithmetic import DIRECTED
from tilewright.dialects.nv_tileaa.signature import (
    UNIFORM,
    Arguments,
    Dictionary,
    Types,
)
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.numerics.element_types import FORMATS

GROUP = "pointer"


def _pointer(ty: Attribute) -> T.PtrType:
    element = T.element_of(ty)
    assert isinstance(element, T.PtrType)
    return element


class Converted(TileAAOp):
    """Elements that stay where they are, each as another number or pointer."""

    traits = traits_def(Pure())
    ELEMENTS: ClassVar = Elements.SAME_POSITION


@tileaa_op("addptr", group=GROUP)
class AddPtrOp(Converted):
    """The pointer moved by ``offset`` elements, read signed; tiles move lane by lane.

    A scalar may stand beside a tile. The pointee and the address space stay.
    """

    base = operand_def(K.PTRS)
    offset = operand_def(K.OFFSETS)
    result = result_def(K.PTRS)
    MEANING: ClassVar = "offset"
    COST: ClassVar = 1
    POINTS: ClassVar = Pointing.OPERANDS
    EXAMPLES: ClassVar = examples(
        "%p = nv_tileaa.addptr %p32, %i : !nv_tileaa.ptr<f32, 1>, index -> !nv_tileaa.ptr<f32, 1>",
        """
        %p = nv_tileaa.addptr %p16, %lanes
          : !nv_tileaa.ptr<f16, 1>, tile<8xindex> -> tile<8x!nv_tileaa.ptr<f16, 1>>
        """,
    )
    UNDEFINED: ClassVar = ("an address that overflows",)
    UNDEFINED_AT_USE: ClassVar = True

    def check(self, report: Report) -> None:
        base, result = _pointer(self.base.type), _pointer(self.result.type)
        if base.space != result.space:
            report.error(
                codes.ADDRESS_SPACE,
                f"expected the result to stay in address space {base.space}, got {result.space}",
                type_of("result"),
            )
        if base.pointee != result.pointee:
            report.error(
                codes.PROVENANCE,
                f"expected the result to point at '{format_type(base.pointee)}' as the base, got "
                f"'{format_type(result.pointee)}'",
                type_of("result"),
                help="nv_tileaa.bitcast changes the pointee",
            )
        pointee = T.element_name(base.pointee)
        if pointee in FORMATS and FORMATS[pointee].bits < 8 and pointee != "i1":
            report.error(
                codes.ELEMENT_TYPE,
                f"elements of {pointee} take less than a byte and have no addresses of their own",
                type_of("base"),
            )
        check_same_shape(self, report, ["base", "offset"], "result")


@tileaa_op("int_to_ptr", group=GROUP)
class IntToPtrOp(Converted):
    """The pointer to an address; it may point anywhere in its address space."""

    source = operand_def(K.I64)
    result = result_def(K.PTRS)
    MEANING: ClassVar = "int_to_ptr"
    COST: ClassVar = 0
    POINTS: ClassVar = Pointing.ADDRESS
    EXAMPLES: ClassVar = examples("%p = nv_tileaa.int_to_ptr %m : i64 -> !nv_tileaa.ptr<f32, 1>")

    def check(self, report: Report) -> None:
        check_same_shape(self, report, ["source"], "result")


@tileaa_op("ptr_to_int", group=GROUP)
class PtrToIntOp(Converted):
    """The address that a pointer holds; what it points at must be taken as known elsewhere."""

    source = operand_def(K.PTRS)
    result = result_def(K.I64)
    MEANING: ClassVar = "ptr_to_int"
    COST: ClassVar = 0
    EXAMPLES: ClassVar = examples("%a0 = nv_tileaa.ptr_to_int %p32 : !nv_tileaa.ptr<f32, 1> -> i64")

    def check(self, report: Report) -> None:
        check_same_shape(self, report, ["source"], "result")


@tileaa_op("make_memref", group=GROUP)
class MakeMemrefOp(TileAAOp):
    """A memref over the memory behind ``base``, moved by ``offset`` bytes.

    Dynamic extents and strides (in elements, read unsigned) are operands; static ones stand in the
    type. ``alias_scope`` names a set of objects that memrefs of other scopes do not overlap.
    """

    base = operand_def(K.PTR)
    offset = opt_operand_def(K.INDEX)
    sizes = var_operand_def(K.INDEX)
    strides = var_operand_def(K.INDEX)
    alias_scope = opt_prop_def(K.INT32)
    result = result_def(K.MEMREF)
    traits = traits_def(Pure())
    POINTS: ClassVar = Pointing.OPERANDS
    irdl_options = (ALL_SEGMENTS,)
    SYNTAX: ClassVar = (Arguments(), Dictionary(), Types(parens=True))
    EXAMPLES: ClassVar = examples(
        """
        %r = nv_tileaa.make_memref %p32, %i, %j, %j
          {operandSegmentSizes = array<i32: 1, 0, 2, 1>}
          : (!nv_tileaa.ptr<f32, 1>, index, index, index)
            -> !nv_tileaa.memref<?x?xf32, strides = [?, 1], 1>
        """,
        """
        %r = nv_tileaa.make_memref %p32, %i, %i, %j, %j, %i
          {alias_scope = 7, operandSegmentSizes = array<i32: 1, 1, 2, 2>}
          : (!nv_tileaa.ptr<f32, 1>, index, index, index, index, index)
            -> !nv_tileaa.memref<?x?xf32, alias_scope = 7, 1>
        """,
    )
    UNDEFINED: ClassVar = ("use of a memref with an alias scope to reach memory of another one",)
    UNDEFINED_AT_USE: ClassVar = True

    @classmethod
    def fits(cls, sizes: Mapping[str, int], results: Sequence[Attribute]) -> bool:
        memref = results[0] if results else None
        if not isinstance(memref, T.MemrefType):
            return True
        return sizes["sizes"] == memref.dims.count(DYNAMIC) and sizes[
            "strides"
        ] == memref.stride_dims.count(DYNAMIC)

    def check(self, report: Report) -> None:
        base, result = _pointer(self.base.type), self.result.type
        assert isinstance(result, T.MemrefType)
        for group, values, dims in (
            ("sizes", self.sizes, result.dims),
            ("strides", self.strides, result.stride_dims),
        ):
            if len(values) != (wanted := dims.count(DYNAMIC)):
                report.error(
                    codes.MEMREF_OPERANDS,
                    f"expected {wanted} {group}, one for each '?' of '{format_type(result)}', got "
                    f"{len(values)}",
                    operand(group),
                )
        if base.pointee != result.element_type:
            report.error(
                codes.POINTEE,
                f"expected a memref of '{format_type(base.pointee)}', the pointee of the base, got "
                f"'{format_type(result.element_type)}'",
                type_of("result"),
            )
        if base.space != result.space:
            report.error(
                codes.ADDRESS_SPACE,
                f"expected a memref in address space {base.space} of the base, got {result.space}",
                type_of("result"),
            )
        self._check_scope(report, result)

    def _check_scope(self, report: Report, result: T.MemrefType) -> None:
        """A scope in the type is that of the operation; a type may leave it out, and forget it."""
        given = self.properties.get("alias_scope")
        scope = given.value.data & 0xFFFFFFFF if isinstance(given, IntegerAttr) else None
        if result.alias_scope not in (None, scope):
            shown = ["none" if s is None else str(s) for s in (scope, result.alias_scope)]
            report.error(
                codes.PROVENANCE,
                f"expected the result to carry the alias_scope of the operation, {shown[0]}, got "
                f"{shown[1]}",
                type_of("result"),
            )


@tileaa_op("bitcast", group=GROUP)
class BitcastOp(Converted):
    """The same bits read as another type.

    Elements keep their width; or a tile of rank 1 is repacked into one of as many bits, first
    element lowest. Pointers become pointers to another type in the same address space.
    """

    source = operand_def(K.ELEMENTS)
    result = result_def(K.ELEMENTS)
    MEANING: ClassVar = "bitcast"
    COST: ClassVar = 1
    POINTS: ClassVar = Pointing.OPERANDS
    EXAMPLES: ClassVar = examples(
        "%s = nv_tileaa.bitcast %f : tile<8xf32> -> tile<8xi32>",
        "%s = nv_tileaa.bitcast %f : tile<8xf32> -> tile<32xi8>",
        "%s = nv_tileaa.bitcast %p32 : !nv_tileaa.ptr<f32, 1> -> !nv_tileaa.ptr<i32, 1>",
    )

    def check(self, report: Report) -> None:
        source, result = self.source.type, self.result.type
        old, new = T.element_of(source), T.element_of(result)
        if isinstance(old, T.PtrType) and isinstance(new, T.PtrType):
            if old.space != new.space:
                report.error(
                    codes.ADDRESS_SPACE,
                    f"expected the result to stay in address space {old.space}, got {new.space}",
                    type_of("result"),
                )
            check_same_shape(self, report, ["source"], "result")
            return
        formats = [FORMATS.get(T.element_name(ty)) for ty in (old, new)]
        if formats[0] is None or formats[1] is None:
            report.error(
                codes.CONVERSION,
                f"expected two types of numbers or two of pointers, got '{format_type(source)}' and "
                f"'{format_type(result)}'",
                type_of("result"),
                help="ptr_to_int and int_to_ptr convert between pointers and integers",
            )
            return
        dims = T.dims_of(source), T.dims_of(result)
        bits = [f.bits for f in formats if f is not None]
        repacks = len(dims[0]) == len(dims[1]) == 1
        same = bits[0] == bits[1] and dims[0] == dims[1]
        if not same and not (repacks and prod(dims[0]) * bits[0] == prod(dims[1]) * bits[1]):
            report.error(
                codes.CONVERSION,
                f"expected elements of equal width in equal shapes, or tiles of rank 1 with equally "
                f"many bits, got '{format_type(source)}' and '{format_type(result)}'",
                type_of("result"),
            )


#: Formats that fp_to_fp converts on targets with block scaling only; all others always.
SCALED_FORMATS = frozenset({"f8E8M0FNU", "f4E2M1FN", "f8E5M3FNU"})
#: How conversions between floats round; nearest_away takes ties away from zero.
CONVERSION_ROUNDINGS = (*DIRECTED, "nearest_away")


@tileaa_op("fp_to_fp", group=GROUP)
class FpToFpOp(Converted):
    """Floats in another format, rounded; the only operation that changes a float's width."""

    source = operand_def(K.ELEMENTS)
    rounding_mode = opt_prop_def(K.enum_kind(RoundingModeAttr))
    result = result_def(K.ELEMENTS)
    MEANING: ClassVar = "ftof"
    COST: ClassVar = 3
    EXAMPLES: ClassVar = examples(
        "%h = nv_tileaa.fp_to_fp %f {rounding_mode = nearest_even} : tile<8xf32> -> tile<8xf16>",
    )

    def check(self, report: Report) -> None:
        check_same_shape(self, report, ["source"], "result")
        names = {
            group: T.element_name(T.element_of(value.type))
            for group, value in (("source", self.source), ("result", self.result))
        }
        for group, name in names.items():
            if name not in FLOAT_NAMES:
                report.error(
                    codes.CONVERSION,
                    f"fp_to_fp {group} element type is not supported",
                    type_of(group),
                    label=f"'{name}' is not a float",
                )
                return
        if names["source"] == names["result"]:
            report.error(
                codes.CONVERSION,
                f"fp_to_fp must change the element type, but both are {names['source']}",
                type_of("result"),
            )
        for group, name in names.items():
            if name in SCALED_FORMATS:
                message = (
                    "fp_to_fp block-scaled format requires a target that supports block-scaled MMA"
                )
                require_block_scale(self, report, message, group)
                break
        mode = enum_property(self, "rounding_mode")
        if mode and mode not in CONVERSION_ROUNDINGS:
            report.error(
                codes.ROUNDING,
                f"'{self.name}' rounds to one of: {', '.join(CONVERSION_ROUNDINGS)}, but got: "
                f"{mode}",
                attr("rounding_mode"),
            )


class PureUnlessMarked(MemoryEffect):
    """No effects, unless ``pure = false``: then as if it read and wrote any memory."""

    @classmethod
    def get_effects(cls, op: object) -> set[EffectInstance]:
        assert isinstance(op, TileAAOp)
        if "pure" not in op.properties or is_set(op, "pure"):
            return set()
        return {EffectInstance(MemoryEffectKind.READ), EffectInstance(MemoryEffectKind.WRITE)}


class PerElementCall(TileAAOp):
    """Rules that the calls of external code share: one call for each element."""

    def check(self, report: Report) -> None:
        dims = [T.dims_of(v.type) for v in (*self.operands, *self.results)]
        shaped = next((d for d in dims if d), ())
        for group, values in (("arguments", self.operands), ("results_", self.results)):
            for index, value in enumerate(values):
                if T.dims_of(value.type) != shaped:
                    report.error(
                        codes.SHAPE,
                        f"expected all operands and results to have one shape, "
                        f"[{T.show_dims(shaped)}], got '{format_type(value.type)}'",
                        type_of(group, index),
                    )
                    return
        for name in ("symbol", "asm_string", "intrinsic"):
            found = self.properties.get(name)
            if isinstance(found, StringAttr) and not found.data:
                report.error(codes.CONVERSION, f"'{name}' must not be empty", attr(name))


class PerElementFunction(PerElementCall):
    """The same of calls that have one result."""

    def check(self, report: Report) -> None:
        super().check(report)
        if len(self.results) != 1:
            report.error(codes.COUNT, f"expected one result, got {len(self.results)}")


@tileaa_op("extern_elementwise", group=GROUP)
class ExternElementwiseOp(PerElementFunction):
    """Calls a device function from a library for each element."""

    arguments = var_operand_def(K.ELEMENTS)
    symbol = prop_def(K.STRING)
    libname = opt_prop_def(K.STRING)
    libpath = opt_prop_def(K.STRING)
    pure = opt_prop_def(K.BOOL)
    results_ = var_result_def(K.ELEMENTS)
    traits = traits_def(PureUnlessMarked())
    SYNTAX: ClassVar = UNIFORM
    EXAMPLES: ClassVar = examples(
        """
        %y = nv_tileaa.extern_elementwise %f {symbol = "__nv_erff", libname = "libdevice"}
          : tile<8xf32>
        """,
    )
    UNDEFINED: ClassVar = ("a function of another signature", "effects in spite of purity")


@tileaa_op("elementwise_inline_asm", group=GROUP)
class ElementwiseInlineAsmOp(PerElementCall):
    """Runs assembly for each ``packed_element`` elements."""

    arguments = var_operand_def(K.ELEMENTS)
    asm_string = prop_def(K.STRING)
    constraints = prop_def(K.STRING)
    packed_element = opt_prop_def(K.INT32)
    pure = opt_prop_def(K.BOOL)
    results_ = var_result_def(K.ELEMENTS)
    traits = traits_def(PureUnlessMarked())
    SYNTAX: ClassVar = UNIFORM
    EXAMPLES: ClassVar = examples(
        """
        %y = nv_tileaa.elementwise_inline_asm %k
          {asm_string = "brev.b32 $0, $1;", constraints = "=r,r", packed_element = 1, pure = true}
          : tile<8xi32>
        """,
        """
        nv_tileaa.elementwise_inline_asm %k
          {asm_string = "// $0", constraints = "r", pure = false} : tile<8xi32> -> ()
        """,
    )
    UNDEFINED: ClassVar = ("assembly that does not fit its constraints",)

    def check(self, report: Report) -> None:
        super().check(report)
        if "packed_element" in self.properties and int_property(self, "packed_element") <= 0:
            report.error(
                codes.COUNT,
                f"packed_element must be positive, got {int_property(self, 'packed_element')}",
                attr("packed_element"),
            )


@tileaa_op("call_elementwise_intrinsic", group=GROUP)
class CallElementwiseIntrinsicOp(PerElementFunction):
    """Calls an intrinsic function of the code generator for each element."""

    arguments = var_operand_def(K.ELEMENTS)
    intrinsic = prop_def(K.STRING)
    pure = opt_prop_def(K.FLAG)
    results_ = var_result_def(K.ELEMENTS)
    traits = traits_def(PureUnlessMarked())
    SYNTAX: ClassVar = UNIFORM
    EXAMPLES: ClassVar = examples(
        """
        %y = nv_tileaa.call_elementwise_intrinsic %k {intrinsic = "llvm.ctpop"} : tile<8xi32>
        """,
    )
