"""The memory that a launch may access, as the code sees it when it runs.

What a pointer may point to is known where the analysis sees what it is derived from: the array of a
parameter, a global, scratch memory of the block. All other pointers may point to any of these, and
to arrays of the launch that no parameter stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from tilewright.analysis.tileaa import Provenances, Root
from tilewright.cpu.abi import SLOT_BYTES
from tilewright.cpu.codegen.ir.elements import ELEMENTS, I1, I8, I64, PTR
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.extensions import AllocaOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.launching.modules import strides_of

if TYPE_CHECKING:
    from tilewright.cpu.codegen.emitter.function import FunctionEmitter

_ENTRY_BYTES = 2 * SLOT_BYTES
_KNOWN = frozenset({"argument", "global", "alloca"})


class KnownMemory:
    """``table`` points to the table of memory (``abi``)."""

    def __init__(self, func: FuncOp, table: Value) -> None:
        self._func = func
        self.table = table
        parameters = func.body.blocks[0].args
        pointers = [n for n, value in enumerate(parameters) if isinstance(value.type, T.PtrType)]
        self._entries = {number: entry for entry, number in enumerate(pointers)}
        allocations = (op for op in func.walk() if isinstance(op, AllocaOp))
        self._numbers: dict[Operation, str] = {op: str(n) for n, op in enumerate(allocations)}
        self._scratch: dict[str, tuple[Value, int, int]] = {}

    @cached_property
    def provenances(self) -> Provenances:
        return Provenances(self._func)

    def with_table(self, table: Value) -> KnownMemory:
        """The same memory, in another function, where its table is another value."""
        other = copy(self)
        other.table = table
        return other

    def add_scratch(self, op: Operation, offset: Value, size: int, alignment: int) -> None:
        """What an operation allocates: bytes of the thread's arena, from the first aligned one behind
        an offset on."""
        self._scratch[self._numbers[op]] = (offset, size, alignment)

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

    def holds(
        self, f: FunctionEmitter, b: Builder, base: SSAValue, first: Value, last: Value, size: int
    ) -> Value:
        """Whether one array has the elements of ``size`` bytes at two addresses and all between: one
        of those that ``base`` may point to."""
        roots = self.roots(base)
        if roots is not None:
            spans = [self._span(f, b, root) for root in roots]
            return reduce(b.or_, (_within(b, span, first, last, size) for span in spans))
        bytes_ = ir.Constant(I64, size)
        found = b.call(_search(f), [self.table, first, last, bytes_])
        for number in self._scratch:
            span = self._span(f, b, Root("alloca", number))
            found = b.or_(found, _within(b, span, first, last, size))
        return found

    def _span(self, f: FunctionEmitter, b: Builder, root: Root) -> tuple[Value, Value]:
        if root.kind == "argument":
            return self.of_parameter(b, int(root.name))
        if root.kind == "global":
            first = b.ptrtoint(f.unit.global_pointers[root.name], I64)
            size = global_bytes(_type_of_global(f.unit.globals_, root.name))
            return first, b.add(first, ir.Constant(I64, size))
        offset, size, alignment = self._scratch[root.name]
        first = aligned(b, b.add(b.ptrtoint(f.frame.root, I64), offset), alignment)
        return first, b.add(first, ir.Constant(I64, size))


def names_of(roots: Iterable[Root]) -> str:
    """The memory that pointers are derived from, in words."""
    return " and of ".join(
        {"argument": f"argument {root.name}", "global": f"@{root.name}"}.get(
            root.kind, "what 'alloca' gave"
        )
        for root in roots
    )


def global_bytes(ty: T.MemrefType) -> int:
    """The size of a global's memory, up to its last element."""
    reach = sum((n - 1) * step for n, step in zip(ty.dims, strides_of(ty), strict=True))
    return ELEMENTS[T.element_name(ty.element_type)].format.bytes_for(reach + 1)


def _type_of_global(declared: Mapping[str, Operation], name: str) -> T.MemrefType:
    ty = declared[name].properties["type"]
    assert isinstance(ty, T.MemrefType)
    return ty


def aligned(b: Builder, address: Value, alignment: int) -> Value:
    """The first multiple of a power of two from an address on."""
    raised = b.add(address, ir.Constant(I64, alignment - 1))
    return b.and_(raised, ir.Constant(I64, -alignment))


def _within(b: Builder, span: tuple[Value, Value], first: Value, last: Value, size: int) -> Value:
    begin, behind = span
    after = b.icmp_unsigned(">=", first, begin)
    # Elements that wrap around the end of all addresses would begin behind the last.
    after = b.and_(after, b.icmp_unsigned("<=", first, last))
    return b.and_(after, b.icmp_unsigned("<=", last, b.sub(behind, ir.Constant(I64, size))))


def _search(f: FunctionEmitter) -> ir.Function:
    """``i1 (table, first, last, size)``: whether an entry of the table has all of it."""
    module = f.unit.module
    if (known := module.globals.get("in_known_memory")) is not None:
        assert isinstance(known, ir.Function)
        return known
    function = ir.Function(module, ir.FunctionType(I1, [PTR, I64, I64, I64]), "in_known_memory")
    function.linkage = "internal"
    f.unit.prepare(function)
    table, first, last, size = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    look, further, there, nowhere = (
        b.append_basic_block(name) for name in ("look", "further", "there", "nowhere")
    )
    entry, zero, one = b.block, ir.Constant(I64, 0), ir.Constant(I64, 1)
    count = b.load(table, typ=I64)
    b.cbranch(b.icmp_unsigned("==", count, zero), nowhere, look)
    b.position_at_end(look)
    number = b.phi(I64)
    number.add_incoming(zero, entry)
    at = b.add(b.mul(number, ir.Constant(I64, 2 * SLOT_BYTES)), ir.Constant(I64, SLOT_BYTES))
    begin_at = b.gep(table, [at], source_etype=I8)
    end_at = b.gep(begin_at, [ir.Constant(I64, SLOT_BYTES)], source_etype=I8)
    after = b.icmp_unsigned(">=", first, b.load(begin_at, typ=I64))
    after = b.and_(after, b.icmp_unsigned("<=", first, last))
    before = b.icmp_unsigned("<=", last, b.sub(b.load(end_at, typ=I64), size))
    b.cbranch(b.and_(after, before), there, further)
    b.position_at_end(further)
    following = b.add(number, one)
    number.add_incoming(following, further)
    b.cbranch(b.icmp_unsigned("<", following, count), look, nowhere)
    for block, result in ((there, 1), (nowhere, 0)):
        b.position_at_end(block)
        b.ret(ir.Constant(I1, result))
    return function
