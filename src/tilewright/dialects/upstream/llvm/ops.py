"""Operations of ``llvm`` on pointers: casts, addresses, accesses of memory.

Pointers are addresses of 64 bits. A vector of pointers is written `vector<8x!llvm.ptr<1>>`, as
LLVM 21 and later do; `!llvm.vec<8 x ptr<1>>` of older ones is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.dialects.llvm import LLVMArrayType, LLVMStructType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from tilewright.dialects.declare import Report, attr, examples, operand, type_of
from tilewright.dialects.narrowing import is_vector
from tilewright.dialects.syntax.directives import (
    Flag,
)
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import codes
from tilewright.dialects.upstream.base import constraints as K
from tilewright.dialects.upstream.base.directives import syntax
from tilewright.dialects.upstream.base.operations import UpstreamOp, upstream_op
from tilewright.dialects.upstream.llvm.atomics import (
    OUTSIDE,
    UNORDERED,
    check_alignment,
    is_atomic,
)
from tilewright.dialects.upstream.llvm.syntax import (
    DYNAMIC_INDEX,
    INTEGERS,
    MASK,
    ORDERING,
    POINTER,
    POINTER_VECTOR,
    POINTERS,
    VALUE,
    VALUE_VECTOR,
    Atomic,
    ElementType,
    FunctionType,
    GepIndices,
    lane_count,
    ordering_of,
)


class CastOp(UpstreamOp):
    """A value of one type as one of another."""

    traits = traits_def(Pure())
    SYNTAX: ClassVar = syntax("$arg attr-dict : type($arg) to type($res)")

    def check(self, report: Report) -> None:
        source, result = self.operands[0].type, self.results[0].type
        if lane_count(source) != lane_count(result):
            report.error(
                codes.LLVM_ACCESS,
                f"expected as many elements of the result, got '{format_type(source)}' to "
                f"'{format_type(result)}'",
                type_of("res"),
            )


@upstream_op("llvm", "ptrtoint")
class PtrToIntOp(CastOp):
    """The address that a pointer is, or those of a vector of pointers."""

    arg = operand_def(POINTERS)
    res = result_def(INTEGERS)

    EXAMPLES: ClassVar = examples(
        """
        %null = llvm.mlir.zero : !llvm.ptr<1>
        %address = llvm.ptrtoint %null : !llvm.ptr<1> to i64
        """
    )


@upstream_op("llvm", "inttoptr")
class IntToPtrOp(CastOp):
    """The pointer that an address is, or those of a vector of addresses."""

    arg = operand_def(INTEGERS)
    res = result_def(POINTERS)

    EXAMPLES: ClassVar = examples(
        """
        %where = arith.constant dense<4096> : vector<8xi64>
        %ps = llvm.inttoptr %where : vector<8xi64> to vector<8x!llvm.ptr<1>>
        """
    )


@upstream_op("llvm", "addrspacecast")
class AddrSpaceCastOp(CastOp):
    """The same place, by a pointer of another space."""

    arg = operand_def(POINTERS)
    res = result_def(POINTERS)

    EXAMPLES: ClassVar = examples(
        """
        %null = llvm.mlir.zero : !llvm.ptr<1>
        %generic = llvm.addrspacecast %null : !llvm.ptr<1> to !llvm.ptr
        """
    )


@upstream_op("llvm", "getelementptr")
class GetElementPtrOp(UpstreamOp):
    """The pointer so many elements behind another; further places are those inside an element.

    With a vector of pointers or of places, a vector of pointers.
    """

    base = operand_def(POINTERS)
    dynamicIndices = var_operand_def(INTEGERS)
    rawConstantIndices = prop_def(K.Kind("an array of 32-bit integers", DenseArrayBase))
    elem_type = prop_def(K.Kind("a type", Attribute))
    inbounds = opt_prop_def(K.FLAG)
    noWrapFlags = opt_prop_def(K.INT32)
    res = result_def(POINTERS)

    traits = traits_def(Pure())
    HIDDEN: ClassVar = frozenset({"rawConstantIndices", "elem_type", "inbounds"})
    SYNTAX: ClassVar = syntax(
        Flag("inbounds"),
        "$base",
        GepIndices(),
        "attr-dict",
        FunctionType(("base", "dynamicIndices"), "res"),
        ElementType(),
    )
    EXAMPLES: ClassVar = examples(
        """
        %null = llvm.mlir.zero : !llvm.ptr<1>
        %far = arith.constant dense<[0, 2, 4, 6]> : vector<4xi64>
        %ps = llvm.getelementptr %null[%far] : (!llvm.ptr<1>, vector<4xi64>) -> vector<4x!llvm.ptr<1>>, f32
        %second = llvm.getelementptr inbounds %null[1] : (!llvm.ptr<1>) -> !llvm.ptr<1>, f32
        """
    )

    @property
    def places(self) -> list[int | SSAValue]:
        """The places: numbers, and operands."""
        raw, values = self.properties["rawConstantIndices"], iter(self.dynamicIndices)
        assert isinstance(raw, DenseArrayBase)
        return [next(values) if n == DYNAMIC_INDEX else int(n) for n in raw.get_values()]

    def check(self, report: Report) -> None:
        raw = self.properties["rawConstantIndices"]
        assert isinstance(raw, DenseArrayBase)
        numbers = list(raw.get_values())
        if not numbers or numbers.count(DYNAMIC_INDEX) != len(self.dynamicIndices):
            report.error(
                codes.LLVM_POSITION,
                f"expected {numbers.count(DYNAMIC_INDEX)} places as operands and one place at "
                f"least, got {len(self.dynamicIndices)} of {len(numbers)}",
                attr("rawConstantIndices"),
            )
        elif (wrong := _misplaced(self.properties["elem_type"], numbers[1:])) is not None:
            report.error(codes.LLVM_POSITION, wrong, attr("rawConstantIndices"))
        counts = {lane_count(v.type) for v in self.operands} - {None}
        if counts != {lane_count(self.res.type)} - {None}:
            report.error(
                codes.LLVM_ACCESS,
                f"expected pointers and places of one length, got '{format_type(self.res.type)}'",
                type_of("res"),
            )


def _misplaced(ty: Attribute, places: Sequence[int]) -> str | None:
    """Why there is no element at places inside one of a type; None if there is. ``DYNAMIC_INDEX``: an operand."""
    for place in places:
        if isinstance(ty, LLVMStructType):
            members = ty.types.data
            if place == DYNAMIC_INDEX:
                return f"expected a number for a member of '{format_type(ty)}', got an operand"
            if not 0 <= place < len(members):
                return f"expected one of {len(members)} members of '{format_type(ty)}', got {place}"
            ty = members[place]
        elif isinstance(ty, LLVMArrayType):
            ty = ty.type
        elif is_vector(ty):
            ty = ty.element_type
        else:
            return f"expected no place inside of '{format_type(ty)}', got {len(places)} places"
    return None


# Many addresses


def _check_lanes(
    op: MaskedGatherOp | MaskedScatterOp, names: tuple[str, ...], report: Report
) -> None:
    wanted = lane_count(op.ptrs.type)
    for name in names:
        value = getattr(op, name)
        if value is not None and lane_count(value.type) != wanted:
            report.error(
                codes.LLVM_ACCESS,
                f"expected '{name}' to have the {wanted} elements of 'ptrs', got "
                f"'{format_type(value.type)}'",
                type_of(name) if name == "res" else operand(name),
            )
    check_alignment(op, report)


@upstream_op("llvm", "intr.masked.gather")
class MaskedGatherOp(UpstreamOp):
    """Loads the element that each pointer points at, where the mask holds.

    Elsewhere the result has that of ``pass_thru``, and without it any.
    """

    ptrs = operand_def(POINTER_VECTOR)
    mask = operand_def(MASK)
    pass_thru = opt_operand_def(VALUE_VECTOR)
    alignment = prop_def(K.INT32)
    res = result_def(VALUE_VECTOR)

    traits = traits_def(MemoryReadEffect())
    UNDEFINED: ClassVar = (OUTSIDE,)
    SYNTAX: ClassVar = syntax(
        "$ptrs, $mask (, $pass_thru)? attr-dict", FunctionType(("ptrs", "mask", "pass_thru"), "res")
    )
    EXAMPLES: ClassVar = examples(
        """
        %where = arith.constant dense<4096> : vector<4xi64>
        %ps = llvm.inttoptr %where : vector<4xi64> to vector<4x!llvm.ptr<1>>
        %m = arith.constant dense<true> : vector<4xi1>
        %old = arith.constant dense<0.0> : vector<4xf32>
        %x = llvm.intr.masked.gather %ps, %m, %old {alignment = 4 : i32} : (vector<4x!llvm.ptr<1>>, vector<4xi1>, vector<4xf32>) -> vector<4xf32>
        """
    )

    def check(self, report: Report) -> None:
        _check_lanes(self, ("mask", "res"), report)
        if self.pass_thru is not None and self.pass_thru.type != self.res.type:
            report.error(
                codes.LLVM_ACCESS,
                f"expected 'pass_thru' to have the type '{format_type(self.res.type)}' of the "
                f"result, got '{format_type(self.pass_thru.type)}'",
                operand("pass_thru"),
            )


@upstream_op("llvm", "intr.masked.scatter")
class MaskedScatterOp(UpstreamOp):
    """Stores elements where the mask holds; of several to one address, the last one remains."""

    value = operand_def(VALUE_VECTOR)
    ptrs = operand_def(POINTER_VECTOR)
    mask = operand_def(MASK)
    alignment = prop_def(K.INT32)

    traits = traits_def(MemoryWriteEffect())
    UNDEFINED: ClassVar = (OUTSIDE,)
    SYNTAX: ClassVar = syntax(
        "$value, $ptrs, $mask attr-dict : type($value), type($mask) into type($ptrs)"
    )
    EXAMPLES: ClassVar = examples(
        """
        %where = arith.constant dense<4096> : vector<4xi64>
        %ps = llvm.inttoptr %where : vector<4xi64> to vector<4x!llvm.ptr<1>>
        %m = arith.constant dense<true> : vector<4xi1>
        %x = arith.constant dense<0.0> : vector<4xf32>
        llvm.intr.masked.scatter %x, %ps, %m {alignment = 4 : i32} : vector<4xf32>, vector<4xi1> into vector<4x!llvm.ptr<1>>
        """
    )

    def check(self, report: Report) -> None:
        _check_lanes(self, ("mask", "value"), report)


# One address


def _check_access(
    op: LoadOp | StoreOp, value: Attribute, wrong: tuple[str, ...], report: Report
) -> None:
    """The rules of accesses that may be atomic; ``wrong`` are the orderings that they cannot have."""
    check_alignment(op, report)
    ordering = ordering_of(op)
    if not ordering:
        if "syncscope" in op.properties:
            report.error(
                codes.LLVM_ORDERING,
                "expected no scope of an access that is not atomic",
                attr("syncscope"),
            )
        return
    if ordering in wrong:
        report.error(
            codes.LLVM_ORDERING,
            f"a {'load' if isinstance(op, LoadOp) else 'store'} cannot be {ordering}",
            attr("ordering"),
        )
    if not is_atomic(value):
        report.error(
            codes.LLVM_ATOMIC_TYPE,
            f"there is no atomic access to '{format_type(value)}'",
            type_of("res") if isinstance(op, LoadOp) else operand("value"),
        )
    if "alignment" not in op.properties:
        report.error(codes.LLVM_ALIGNMENT, "expected an atomic access to state its alignment")


@upstream_op("llvm", "load")
class LoadOp(UpstreamOp):
    """Loads the value that a pointer points at. Without ``alignment`` it has that of its type."""

    addr = operand_def(POINTER)
    alignment = opt_prop_def(K.INT64)
    volatile_ = opt_prop_def(K.FLAG)
    nontemporal = opt_prop_def(K.FLAG)
    invariant = opt_prop_def(K.FLAG)
    ordering = opt_prop_def(ORDERING)
    syncscope = opt_prop_def(K.STRING)
    res = result_def(VALUE)

    traits = traits_def(MemoryReadEffect())
    UNDEFINED: ClassVar = (OUTSIDE, UNORDERED)
    HIDDEN: ClassVar = frozenset({"volatile_", "invariant", "ordering", "syncscope"})
    SYNTAX: ClassVar = syntax(
        Flag("volatile_", "volatile"),
        "$addr",
        Atomic(),
        Flag("invariant"),
        "attr-dict : type($addr) -> type($res)",
    )
    EXAMPLES: ClassVar = examples(
        """
        %p0 = llvm.mlir.zero : !llvm.ptr<1>
        %x = llvm.load %p0 {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
        %y = llvm.load %p0 atomic syncscope("device") acquire {alignment = 4 : i64} : !llvm.ptr<1> -> i32
        """
    )

    def check(self, report: Report) -> None:
        _check_access(self, self.res.type, ("release", "acq_rel"), report)


@upstream_op("llvm", "store")
class StoreOp(UpstreamOp):
    """Stores a value where a pointer points to."""

    value = operand_def(VALUE)
    addr = operand_def(POINTER)
    alignment = opt_prop_def(K.INT64)
    volatile_ = opt_prop_def(K.FLAG)
    nontemporal = opt_prop_def(K.FLAG)
    ordering = opt_prop_def(ORDERING)
    syncscope = opt_prop_def(K.STRING)

    traits = traits_def(MemoryWriteEffect())
    UNDEFINED: ClassVar = (OUTSIDE, UNORDERED)
    HIDDEN: ClassVar = frozenset({"volatile_", "ordering", "syncscope"})
    SYNTAX: ClassVar = syntax(
        Flag("volatile_", "volatile"),
        "$value, $addr",
        Atomic(),
        "attr-dict : type($value), type($addr)",
    )
    EXAMPLES: ClassVar = examples(
        """
        %p0 = llvm.mlir.zero : !llvm.ptr<1>
        %x = arith.constant 1 : i32
        llvm.store %x, %p0 atomic syncscope("device") release {alignment = 4 : i64} : i32, !llvm.ptr<1>
        """
    )

    def check(self, report: Report) -> None:
        _check_access(self, self.value.type, ("acquire", "acq_rel"), report)
