"""Atomic operations of ``llvm``, and the rules that accesses to memory share."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, DenseArrayBase, IntegerAttr, IntegerType
from xdsl.dialects.llvm import LLVMPointerType, LLVMStructType
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from tilewright.dialects.declare import Report, attr, examples, operand, same_type, type_of
from tilewright.dialects.syntax.directives import Flag, NumberedWord
from tilewright.dialects.syntax.engine import ParseState
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.base import codes
from tilewright.dialects.upstream.base.constraints import FLAG, INT64, STRING, Kind
from tilewright.dialects.upstream.base.directives import ATTRIBUTES, syntax
from tilewright.dialects.upstream.base.operations import UpstreamOp, upstream_op
from tilewright.dialects.upstream.base.shapes import bit_width
from tilewright.dialects.upstream.llvm.syntax import (
    BIN_OP,
    BIN_OP_WORD,
    BIN_OPS,
    ORDERING,
    ORDERING_WORD,
    ORDERINGS,
    POINTER,
    STRUCT,
    VALUE,
    Member,
    MemberType,
    Scope,
    is_integer,
    member_type,
    ordering_of,
)

UNORDERED = "two threads access the same memory, one writes, and not both accesses are atomic"
OUTSIDE = "an accessed address is not allocated memory, or not aligned as stated"


# Rules of all accesses


def check_alignment(op: UpstreamOp, report: Report) -> None:
    """The rule of every stated alignment."""
    found = op.properties.get("alignment")
    if isinstance(found, IntegerAttr):
        number = found.value.data
        if number <= 0 or number & (number - 1):
            report.error(
                codes.LLVM_ALIGNMENT,
                f"expected the alignment to be a power of two, got {number}",
                attr("alignment"),
            )


def is_atomic(ty: Attribute) -> bool:
    """Whether memory can hold a value that is read and written as a whole: 8, 16, 32 ... bits."""
    bits = 64 if isinstance(ty, LLVMPointerType) else bit_width(ty)
    return bits >= 8 and not bits & (bits - 1) and bits <= 128


# Atomic updates


def _is_ieee(ty: Attribute) -> bool:
    """Whether LLVM has arithmetic of a type of floats."""
    return isinstance(ty, AnyFloat) and bit_width(ty) >= 16


def _fits_update(keyword: str, ty: Attribute) -> bool:
    if keyword == "xchg":
        return is_atomic(ty)
    if keyword.startswith("f"):
        return _is_ieee(ty)
    return is_integer(ty) and bit_width(ty) in (8, 16, 32, 64)


@upstream_op("llvm", "atomicrmw")
class AtomicRMWOp(UpstreamOp):
    """Combines ``val`` with what is in memory, undivided; gives what was there.

    `add`, `sub`, `_and`, `_or`, `_xor`, `nand`, `xchg`; `max`, `min` of signed and `umax`, `umin` of
    unsigned integers; `fadd`, `fsub`; `fmax`, `fmin`, which prefer a number to NaN; `uinc_wrap` counts
    up to ``val`` and then from 0, `udec_wrap` down to 0 and then from ``val``.
    """

    ptr = operand_def(POINTER)
    val = operand_def(VALUE)
    bin_op = prop_def(BIN_OP)
    ordering = prop_def(ORDERING)
    syncscope = opt_prop_def(STRING)
    alignment = opt_prop_def(INT64)
    volatile_ = opt_prop_def(FLAG)
    res = result_def(VALUE)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    UNDEFINED: ClassVar = (OUTSIDE, UNORDERED)
    RELATIONS: ClassVar = (same_type("val", "res"),)
    INFER: ClassVar = {"res": "val"}
    HIDDEN: ClassVar = frozenset({"volatile_", "ordering", "syncscope", "bin_op"})
    SYNTAX: ClassVar = syntax(
        Flag("volatile_", "volatile"),
        BIN_OP_WORD,
        "$ptr, $val",
        Scope(),
        ORDERING_WORD,
        "attr-dict : type($ptr), type($val)",
    )
    EXAMPLES: ClassVar = examples(
        """
        %p0 = llvm.mlir.zero : !llvm.ptr<1>
        %x = arith.constant 1.0 : f32
        %old = llvm.atomicrmw fadd %p0, %x syncscope("device") monotonic : !llvm.ptr<1>, f32
        """
    )

    @property
    def keyword(self) -> str:
        """The operation's keyword."""
        number = self.properties["bin_op"]
        assert isinstance(number, IntegerAttr)
        return BIN_OPS[number.value.data]

    def check(self, report: Report) -> None:
        check_alignment(self, report)
        if ordering_of(self) in ("", "unordered"):
            report.error(
                codes.LLVM_ORDERING, "expected at least the ordering monotonic", attr("ordering")
            )
        if not _fits_update(self.keyword, self.val.type):
            report.error(
                codes.LLVM_ATOMIC_TYPE,
                f"there is no atomic update {self.keyword} of '{format_type(self.val.type)}'",
                operand("val"),
            )


def _exchanged(state: ParseState) -> list[Attribute]:
    (ty,) = state.types["val"]
    return [exchange_type(ty)]


def exchange_type(ty: Attribute) -> LLVMStructType:
    """What a compare-and-exchange gives: what was there, and whether it was exchanged."""
    return LLVMStructType.from_type_list([ty, IntegerType(1)])


@upstream_op("llvm", "cmpxchg")
class AtomicCmpXchgOp(UpstreamOp):
    """Replaces what is in memory by ``val`` where it has the bits of ``cmp``, undivided."""

    ptr = operand_def(POINTER)
    cmp = operand_def(VALUE)
    val = operand_def(VALUE)
    success_ordering = prop_def(ORDERING)
    failure_ordering = prop_def(ORDERING)
    syncscope = opt_prop_def(STRING)
    alignment = opt_prop_def(INT64)
    weak = opt_prop_def(FLAG)
    volatile_ = opt_prop_def(FLAG)
    res = result_def(STRUCT)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    UNDEFINED: ClassVar = (OUTSIDE, UNORDERED)
    RELATIONS: ClassVar = (same_type("cmp", "val"),)
    INFER: ClassVar = {"cmp": "val", "res": _exchanged}
    HIDDEN: ClassVar = frozenset(
        {"weak", "volatile_", "success_ordering", "failure_ordering", "syncscope"}
    )
    SYNTAX: ClassVar = syntax(
        Flag("weak"),
        Flag("volatile_", "volatile"),
        "$ptr, $cmp, $val",
        Scope(),
        NumberedWord("success_ordering", ORDERINGS),
        NumberedWord("failure_ordering", ORDERINGS),
        "attr-dict : type($ptr), type($val)",
    )
    EXAMPLES: ClassVar = examples(
        """
        %p0 = llvm.mlir.zero : !llvm.ptr<1>
        %free = arith.constant 0 : i32
        %taken = arith.constant 1 : i32
        %found = llvm.cmpxchg %p0, %free, %taken syncscope("device") acquire monotonic : !llvm.ptr<1>, i32
        """
    )

    def check(self, report: Report) -> None:
        check_alignment(self, report)
        for name in ("success_ordering", "failure_ordering"):
            if ordering_of(self, name) in ("", "unordered"):
                report.error(
                    codes.LLVM_ORDERING, "expected at least the ordering monotonic", attr(name)
                )
        if (failure := ordering_of(self, "failure_ordering")) in ("release", "acq_rel"):
            report.error(
                codes.LLVM_ORDERING,
                f"what does not write cannot be {failure}",
                attr("failure_ordering"),
            )
        if not is_atomic(self.val.type) or isinstance(self.val.type, AnyFloat):
            report.error(
                codes.LLVM_ATOMIC_TYPE,
                f"there is no compare-and-exchange of '{format_type(self.val.type)}'",
                operand("val"),
            )
        if self.res.type != exchange_type(self.val.type):
            report.error(
                codes.LLVM_ACCESS,
                f"expected the result to be '{format_type(exchange_type(self.val.type))}', got "
                f"'{format_type(self.res.type)}'",
                type_of("res"),
            )


@upstream_op("llvm", "fence")
class FenceOp(UpstreamOp):
    """Orders the thread's accesses before it and behind it for the threads of its scope."""

    ordering = prop_def(ORDERING)
    syncscope = opt_prop_def(STRING)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    HIDDEN: ClassVar = frozenset({"ordering", "syncscope"})
    SYNTAX: ClassVar = (Scope(), ORDERING_WORD, ATTRIBUTES)
    EXAMPLES: ClassVar = examples('llvm.fence syncscope("device") acq_rel')

    def check(self, report: Report) -> None:
        if (found := ordering_of(self)) in ("", "unordered", "monotonic"):
            report.error(
                codes.LLVM_ORDERING,
                f"expected acquire, release, acq_rel or seq_cst, got {found or 'no ordering'}",
                attr("ordering"),
            )


@upstream_op("llvm", "extractvalue")
class ExtractValueOp(UpstreamOp):
    """A member of a struct."""

    container = operand_def(STRUCT)
    position = prop_def(Kind("an array of 64-bit integers", DenseArrayBase))
    res = result_def(Kind("a value of any type", Attribute))

    traits = traits_def(Pure())
    HIDDEN: ClassVar = frozenset({"position"})
    SYNTAX: ClassVar = syntax("$container", Member(), "attr-dict :", MemberType())
    EXAMPLES: ClassVar = examples(
        """
        %p0 = llvm.mlir.zero : !llvm.ptr<1>
        %x = arith.constant 1 : i32
        %s = llvm.cmpxchg %p0, %x, %x monotonic monotonic : !llvm.ptr<1>, i32
        %done = llvm.extractvalue %s[1] : !llvm.struct<(i32, i1)>
        """
    )

    def check(self, report: Report) -> None:
        found = member_type(self.container.type, self.properties["position"])
        if found != self.res.type:
            shown = "no such member" if found is None else f"'{format_type(found)}'"
            report.error(
                codes.LLVM_POSITION,
                f"expected the type of a member of '{format_type(self.container.type)}', got "
                f"'{format_type(self.res.type)}' for {shown}",
                attr("position"),
            )
