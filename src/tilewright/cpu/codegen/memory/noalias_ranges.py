"""The memory ranges that a launch may access, as generated code sees them.

Where the analysis knows what a pointer is derived from, it may point only to that: the array of a parameter, a global,
scratch memory of the block. All other pointers may point to any of these, and to arrays of the launch that no
parameter stands for.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from tilewright.analysis.tileaa import Provenances, Root
from tilewright.cpu.abi import SLOT_BYTES
from tilewright.cpu.codegen.ir.elements import ELEMENTS, I8, I64
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.extensions import AllocaOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.types import strides_of

_ENTRY_BYTES = 2 * SLOT_BYTES
_KNOWN = frozenset({"argument", "global", "alloca"})


class NoaliasRanges:
    """``table`` points to the table of memory (``abi``)."""

    def __init__(self, func: FuncOp, table: Value) -> None:
        self._func = func
        self.table = table
        parameters = func.body.blocks[0].args
        pointers = [n for n, value in enumerate(parameters) if isinstance(value.type, T.PtrType)]
        self._entries = {number: entry for entry, number in enumerate(pointers)}
        allocations = (op for op in func.walk() if isinstance(op, AllocaOp))
        self._numbers: dict[Operation, str] = {op: str(n) for n, op in enumerate(allocations)}
        self.scratch: dict[str, tuple[Value, int, int]] = {}
        """For each allocation where it begins in the thread's arena, its bytes and their alignment."""

    @cached_property
    def provenances(self) -> Provenances:
        """From which memory the pointers of the function come; worked out when first asked for."""
        return Provenances(self._func)

    def with_table(self, table: Value) -> NoaliasRanges:
        """The same memory, in another function, where its table is another value."""
        other = copy(self)
        other.table = table
        return other

    def add_scratch(self, op: Operation, offset: Value, size: int, alignment: int) -> None:
        """What an operation allocates: bytes of the thread's arena, from the first aligned one behind
        an offset on."""
        self.scratch[self._numbers[op]] = (offset, size, alignment)

    def of_parameter(self, b: Builder, number: int) -> tuple[Value, Value]:
        """The address of the first byte that a pointer parameter stands for, and behind the last."""
        start = SLOT_BYTES + _ENTRY_BYTES * self._entries[number]
        first, behind = (
            b.load(b.gep(self.table, [ir.Constant(I64, at)], source_etype=I8), typ=I64)
            for at in (start, start + SLOT_BYTES)
        )
        return first, behind

    def roots(self, base: SSAValue) -> list[Root] | None:
        """What a pointer or view is derived from, if all of it is known."""
        found = self.provenances.of(base).roots
        return sorted(found) if found and all(root.kind in _KNOWN for root in found) else None


def global_bytes(ty: T.MemrefType) -> int:
    """The size of a global's memory in bytes, up to its last element."""
    reach = sum((n - 1) * step for n, step in zip(ty.dims, strides_of(ty), strict=True))
    return ELEMENTS[T.element_name(ty.element_type)].format.bytes_for(reach + 1)


def aligned(b: Builder, address: Value, alignment: int) -> Value:
    """The first multiple of a power of two from an address on."""
    raised = b.add(address, ir.Constant(I64, alignment - 1))
    return b.and_(raised, ir.Constant(I64, -alignment))
