"""Asks for rows that numbers from memory choose before their numbers are due (``analysis.indirect_rows``).

The number of a later iteration is read where that is safe whatever the program does next: in the page that this one's number
has just been read from, and in checked code in its array. It only says which memory to ask for, so that it need not be the one that the program will find there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from tilewright.cpu.codegen.analysis.indirect_rows import IndirectRows
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I64, PTR, element_of, pointee_of
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.tiles import Uniform
from tilewright.cpu.codegen.memory.range_search import holds
from tilewright.cpu.codegen.memory.views import View, as_value, scaled
from tilewright.dialects.arith import CmpiOp, ConstantOp
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.memory import TiledLoadOp
from tilewright.dialects.nv_tileaa.ops.pointers import AddPtrOp
from tilewright.dialects.nv_tileaa.ops.shapes import (
    BroadcastOp,
    ExpandDimsOp,
    MakeRangeOp,
    SplatOp,
    ViewOp,
)

REMARK = "rows that numbers from memory choose are asked for {} iterations ahead"
_PAGE, _LINE = 4096, 64
#: Of a longer row the processor fetches the rest by itself.
_MOST_LINES = 16
#: More bytes go to the second cache.
_NEAR = 1 << 14
_SAME = (SplatOp, BroadcastOp, ExpandDimsOp, ViewOp, AssumeOp)
_ARITHMETIC: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "arith.addi": lambda b, x, y: b.add(x, y),
    "arith.subi": lambda b, x, y: b.sub(x, y),
    "arith.muli": lambda b, x, y: b.mul(x, y),
    "arith.andi": lambda b, x, y: b.and_(x, y),
    "arith.minsi": lambda b, x, y: b.select(b.icmp_signed("<", x, y), x, y),
    "arith.maxsi": lambda b, x, y: b.select(b.icmp_signed(">", x, y), x, y),
}
_RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_CASTS = {
    "arith.extsi": "sext",
    "arith.extui": "zext",
    "arith.trunci": "trunc",
    "arith.index_cast": "sext",
    "arith.index_castui": "zext",
}


class _Unknown(Exception):
    """Something that is not computed at a single element."""


def ask_for_rows(f: FunctionEmitter, op: Operation) -> None:
    """Where an operation reads rows: ask for those of a later iteration, if the plan says so."""
    rows = f.plan.indirect_rows.get(op)
    element = None if rows is None else element_of(rows.numbers.type)
    if rows is None or element is None or element.buffer != element.register:
        return
    if f.rarely:
        return
    b, size = f.builder, element.buffer_bytes
    try:
        here, readable = _place_of_numbers(f, rows)
    except _Unknown:
        return
    first = b.add(here, ir.Constant(I64, rows.further * size))
    # The last byte decides: numbers need not be aligned.
    last = b.add(first, ir.Constant(I64, rows.rows * size - 1))
    in_page = (
        b.icmp_unsigned("<", b.xor(here, at), ir.Constant(I64, _PAGE)) for at in (first, last)
    )
    conditions = [*in_page, readable]
    if f.checked:
        conditions.append(holds(f, b, rows.source.operands[0], first, last, 1))
    near = rows.rows * rows.row_bytes <= _NEAR
    known = True

    def ask(b: Builder, at: Value) -> None:
        nonlocal known
        try:
            start = _start_of_row(f, rows, b.load(b.inttoptr(at, PTR), typ=element.buffer))
        except _Unknown:
            known = False
            return
        for line in range(min(-(-rows.row_bytes // _LINE), _MOST_LINES)):
            place = b.add(start, ir.Constant(I64, line * _LINE))
            llvm.prefetch(b, b.inttoptr(place, PTR), near=near)

    with b.if_then(llvm.all_of(b, conditions) or ir.Constant(I1, 1)):
        if rows.rows == 1:
            ask(b, first)
        else:
            llvm.count(b, first, last, ir.Constant(I64, size), ask)
    if known:
        f.unit.remarks.add("loop", REMARK.format(rows.ahead), rows.load)


def _place_of_numbers(f: FunctionEmitter, rows: IndirectRows) -> tuple[Value, Value]:
    """The address of the first number that has been read, and whether it has."""
    at, source = _Element(f), rows.source
    if isinstance(source, TiledLoadOp):
        return _start_of_tile(f, source, at, bounds=True)
    mask = ir.Constant(I1, 1) if source.mask is None else at.number(source.mask)
    return at.number(source.base), mask


def _start_of_row(f: FunctionEmitter, rows: IndirectRows, number: Value) -> Value:
    """The address of the first element of the row with a number."""
    at = _Element(f, {rows.numbers: number})
    if isinstance(rows.load, TiledLoadOp):
        return _start_of_tile(f, rows.load, at, bounds=False)[0]
    return at.number(rows.load.base)


def _start_of_tile(
    f: FunctionEmitter, load: TiledLoadOp, at: _Element, *, bounds: bool
) -> tuple[Value, Value]:
    """The address of the first element of a tile, and, if ``bounds`` are asked for, whether it lies in its array."""
    view, b = f.values[load.operands[0]], f.builder
    if not isinstance(view, View) or view.sparse is not None:
        raise _Unknown
    address = b.ptrtoint(view.memref.pointer, I64)
    inside: list[Value] = []
    for index, axis, step in zip(load.indices, view.axes, view.steps, strict=True):
        number = at.number(index)
        number = number if number.type == I64 else b.zext(number, I64)
        place = scaled(b, number, step)
        if bounds:
            inside.append(b.icmp_unsigned("<", place, as_value(view.memref.sizes[axis])))
        behind = scaled(b, place, view.memref.strides[axis])
        address = b.add(address, scaled(b, behind, view.memref.element.buffer_bytes))
    return address, llvm.all_of(b, inside) or ir.Constant(I1, 1)


@dataclass(slots=True)
class _Element:
    """Computes numbers at the first element of tiles, where ``given`` values stand in for others."""

    f: FunctionEmitter
    given: dict[SSAValue, Value] = field(default_factory=dict)
    _found: dict[SSAValue, Value] = field(default_factory=dict)

    def number(self, value: SSAValue) -> Value:
        """The element, a pointer as an integer. Raises ``_Unknown`` where it is not made of what is known by now."""
        if value in self.given:
            return self.given[value]
        if value not in self._found:
            self._found[value] = self._compute(value)
        return self._found[value]

    def _compute(self, value: SSAValue) -> Value:
        owner, b = value.owner, self.f.builder
        known: Any = self.f.values.get(value)
        if not isinstance(owner, Operation) or not self._depends(value):
            if isinstance(known, ir.Value):
                return known
            if isinstance(known, Uniform):
                return known.value
        if not isinstance(owner, Operation):
            raise _Unknown
        if isinstance(owner, _SAME):
            return self.number(owner.operands[0])
        register = element_of(value.type).register
        if isinstance(owner, MakeRangeOp) and not owner.operands:
            return ir.Constant(register, int_property(owner, "start"))
        if isinstance(owner, ConstantOp):
            return ir.Constant(register, owner.bits()[0])
        if isinstance(owner, AddPtrOp):
            base, offset = self.number(owner.base), self.number(owner.offset)
            offset = offset if offset.type == I64 else b.sext(offset, I64)
            size = pointee_of(value.type).buffer_bytes
            return b.add(base, b.mul(offset, ir.Constant(I64, size)))
        if owner.name in _CASTS:
            inner = self.number(owner.operands[0])
            return (
                inner if inner.type == register else getattr(b, _CASTS[owner.name])(inner, register)
            )
        if owner.name in _ARITHMETIC:
            return _ARITHMETIC[owner.name](b, *map(self.number, owner.operands))
        if isinstance(owner, CmpiOp):
            return self._compared(owner)
        raise _Unknown

    def _compared(self, op: CmpiOp) -> Value:
        b, name = self.f.builder, op.predicate_name
        compare = b.icmp_unsigned if name[0] == "u" else b.icmp_signed
        return compare(_RELATIONS[name[-2:]], self.number(op.lhs), self.number(op.rhs))

    def _depends(self, value: SSAValue) -> bool:
        """Whether what is given matters to a value."""
        pending, seen = [value], {value}
        while pending:
            value = pending.pop()
            if value in self.given:
                return True
            if isinstance(value.owner, Operation):
                new = [each for each in value.owner.operands if each not in seen]
                seen.update(new)
                pending += new
        return False
