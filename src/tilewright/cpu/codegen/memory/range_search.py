"""Run-time checks whether addresses lie in memory that a launch may access."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from tilewright.analysis.tileaa import Root
from tilewright.cpu.abi import SLOT_BYTES
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir.elements import I1, I8, I64, PTR
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.memory.noalias_ranges import NoaliasRanges, aligned, global_bytes
from tilewright.dialects.nv_tileaa import types as T


def names_of(roots: Iterable[Root]) -> str:
    """The memory that pointers are derived from, in words."""
    return " and of ".join(
        {"argument": f"argument {root.name}", "global": f"@{root.name}"}.get(
            root.kind, "what 'alloca' gave"
        )
        for root in roots
    )


def holds(
    f: FunctionEmitter, b: Builder, base: SSAValue, first: Value, last: Value, size: int
) -> Value:
    """Whether one array has the elements of ``size`` bytes at two addresses and all between: one
    of those that ``base`` may point to."""
    memory = f.unit.memory
    assert memory is not None
    roots = memory.roots(base)
    if roots is not None:
        spans = [_span(f, b, memory, root) for root in roots]
        return reduce(b.or_, (_within(b, span, first, last, size) for span in spans))
    bytes_ = ir.Constant(I64, size)
    found = b.call(_search(f), [memory.table, first, last, bytes_])
    for number in memory.scratch:
        span = _span(f, b, memory, Root("alloca", number))
        found = b.or_(found, _within(b, span, first, last, size))
    return found


def _span(f: FunctionEmitter, b: Builder, memory: NoaliasRanges, root: Root) -> tuple[Value, Value]:
    if root.kind == "argument":
        return memory.of_parameter(b, int(root.name))
    if root.kind == "global":
        first = b.ptrtoint(f.unit.global_pointers[root.name], I64)
        size = global_bytes(_type_of_global(f.unit.globals_, root.name))
        return first, b.add(first, ir.Constant(I64, size))
    offset, size, alignment = memory.scratch[root.name]
    first = aligned(b, b.add(b.ptrtoint(f.frame.root, I64), offset), alignment)
    return first, b.add(first, ir.Constant(I64, size))


def _type_of_global(declared: Mapping[str, Operation], name: str) -> T.MemrefType:
    ty = declared[name].properties["type"]
    assert isinstance(ty, T.MemrefType)
    return ty


def _within(b: Builder, span: tuple[Value, Value], first: Value, last: Value, size: int) -> Value:
    begin, behind = span
    after = b.icmp_unsigned(">=", first, begin)
    # Elements that wrap around the end of all addresses would begin behind the last.
    after = b.and_(after, b.icmp_unsigned("<=", first, last))
    return b.and_(after, b.icmp_unsigned("<=", last, b.sub(behind, ir.Constant(I64, size))))


def _search(f: FunctionEmitter) -> ir.Function:
    """``i1 (table, first, last, size)``: whether an entry of the table has all of it."""
    module = f.unit.module
    if (known := module.globals.get("in_a_range")) is not None:
        assert isinstance(known, ir.Function)
        return known
    function = ir.Function(module, ir.FunctionType(I1, [PTR, I64, I64, I64]), "in_a_range")
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
