"""Tables of factors of several products that add to the same accumulator.

The k loop of a product written for a GPU has short iterations. Where one microkernel call multiplies several of them, it
gets a table with an entry per iteration: where the rows of the left operand begin, their distance in bytes, where the
packed right operand begins, and how many terms there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I64, PTR
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.loop_nest import LoopNest

#: How many rounds are multiplied at once, where registers have one axis.
MOST_ROUNDS = 16
WORDS = 4
ENTRY = ir.ArrayType(I64, WORDS)
_WORD = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """The factors of one round."""

    left: Value
    left_step: Value
    right: Value
    depth: Value


@dataclass(frozen=True, slots=True)
class Table:
    """Entries, and how many there are: one at least."""

    pointer: Value
    count: Value


def write_entry(b: Builder, table: Value, number: Value, entry: Entry) -> None:
    """Let the entry of that number be this one."""
    fields = (entry.left, entry.left_step, entry.right, entry.depth)
    for place, value in enumerate(fields):
        b.store(value, _field(b, table, number, place), align=_WORD)


def each_round(
    nest: LoopNest,
    table: Table,
    start: Sequence[Value],
    body: Callable[[Entry, list[Value]], list[Value]],
) -> list[Value]:
    """Run a body for each entry at the innermost level of a nest; it is given values and gives the next
    ones. The last ones are returned."""

    def one(number: Value, before: list[Value]) -> list[Value]:
        b = nest.inner
        left, step, right, depth = (
            b.load(_field(b, table.pointer, number, place), typ=ty, align=_WORD)
            for place, ty in enumerate((PTR, I64, PTR, I64))
        )
        return body(Entry(left, step, right, depth), before)

    return llvm.count_with(nest.inner, table.count, start, one)


def _field(b: Builder, table: Value, number: Value, place: int) -> Value:
    entry = b.gep(table, [number], source_etype=ENTRY)
    return b.gep(entry, [ir.Constant(I64, place)], source_etype=I64)
