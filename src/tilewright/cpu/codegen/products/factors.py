"""Tables of factors of several products that add to the same accumulator.

The k loop of a product written for a GPU has short iterations. Where one microkernel call multiplies several of them, it
gets a table with an entry per iteration: where the rows of the left operand begin, their distance in bytes, and where the
packed right operand begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen.ir.elements import I64, PTR
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.loop_nest import LoopNest

ENTRY = ir.ArrayType(I64, 3)
_WORD = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """The factors of one round."""

    left: Value
    left_step: Value
    right: Value


@dataclass(frozen=True, slots=True)
class Table:
    """Entries, and how many there are: one at least."""

    pointer: Value
    count: Value


def write_entry(b: Builder, table: Value, number: Value, entry: Entry) -> None:
    """Let the entry of that number be this one."""
    for place, value in enumerate((entry.left, entry.left_step, entry.right)):
        b.store(value, _field(b, table, number, place), align=_WORD)


def each_round(
    nest: LoopNest,
    table: Table,
    start: Sequence[Value],
    body: Callable[[Entry, list[Value]], list[Value]],
) -> list[Value]:
    """Run a body for each entry at the innermost level of a nest; it is given values and gives the next
    ones. The last ones are returned."""
    b = nest.inner
    before, again = b.block, b.append_basic_block("round")
    b.branch(again)
    b.position_at_end(again)
    number = b.phi(I64)
    number.add_incoming(ir.Constant(I64, 0), before)
    phis = [b.phi(value.type) for value in start]
    for phi, value in zip(phis, start, strict=True):
        phi.add_incoming(value, before)
    left, step, right = (
        b.load(_field(b, table.pointer, number, place), typ=ty, align=_WORD)
        for place, ty in enumerate((PTR, I64, PTR))
    )
    following = body(Entry(left, step, right), list(phis))
    b = nest.inner
    for phi, value in zip(phis, following, strict=True):
        phi.add_incoming(value, b.block)
    advanced = b.add(number, ir.Constant(I64, 1), flags=["nuw", "nsw"])
    number.add_incoming(advanced, b.block)
    after = b.append_basic_block("summed")
    b.cbranch(b.icmp_unsigned("<", advanced, table.count), again, after)
    b.position_at_end(after)
    return following


def _field(b: Builder, table: Value, number: Value, place: int) -> Value:
    entry = b.gep(table, [number], source_etype=ENTRY)
    return b.gep(entry, [ir.Constant(I64, place)], source_etype=I64)
