"""Locks of threads that update one array in a closed launch (``abi``): nobody else updates it meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I8, I32, I64, PTR
from tilewright.cpu.codegen.ir.types import Builder, Value

LINE = 64
_PAGE = 1 << 12
"""Bytes under one lock."""
_PAGES = 256
"""Locks of pages: more than threads are likely to want at the same time."""


def locks_of(module: ir.Module, name: str, many: int) -> Value:
    """A row of locks, in lines of their own: launches of the kernel are closed, so one set will do."""
    return llvm.zeros(module, name, many * LINE, LINE)


def lock_at(b: Builder, locks: Value, number: Value) -> Value:
    """The lock with a number."""
    return b.gep(locks, [b.mul(number, ir.Constant(I64, LINE))], source_etype=I8)


def acquire(b: Builder, lock: Value) -> None:
    """Spin until the lock is taken; its holder has some microseconds of work."""
    again, there = b.append_basic_block("acquire"), b.append_basic_block("acquired")
    b.branch(again)
    b.position_at_end(again)
    found = b.atomic_rmw("xchg", lock, ir.Constant(I32, 1), "acquire")
    b.cbranch(b.icmp_unsigned("==", found, ir.Constant(I32, 0)), there, again)
    b.position_at_end(there)


def release(b: Builder, lock: Value) -> None:
    """Let others take the lock."""
    llvm.store_atomic(b, ir.Constant(I32, 0), lock, "release", 4)


@dataclass(frozen=True, slots=True)
class PageLocks:
    """The locks under which a call updates an array that has no private copy.

    A lock is for all pages of memory whose numbers agree in their last bits. A thread holds one at most, and keeps it until it comes
    to a page with another, so that a row takes one or two. ``on`` says whether the updates of this call go under locks.
    """

    on: Value

    def held_by(self, b: Builder) -> Held:
        """No lock yet."""
        with b.goto_entry_block():
            held = llvm.stack(b, PTR)
        b.store(ir.Constant(PTR, None), held)
        return Held(locks_of(b.module, "pages", _PAGES), held)


@dataclass(frozen=True, slots=True)
class Held:
    """The lock that a thread holds: ``lock`` is where its address stands, null where it holds none."""

    table: Value
    lock: Value

    def take(self, b: Builder, address: Value) -> None:
        """Hold the lock of what lies at an address, a number."""
        page = b.and_(b.udiv(address, ir.Constant(I64, _PAGE)), ir.Constant(I64, _PAGES - 1))
        wanted = lock_at(b, self.table, page)
        with b.if_then(b.icmp_unsigned("!=", b.load(self.lock, typ=PTR), wanted), likely=False):
            self.drop(b)
            acquire(b, wanted)
            b.store(wanted, self.lock)

    def drop(self, b: Builder) -> None:
        """Hold none."""
        held = b.load(self.lock, typ=PTR)
        with b.if_then(b.icmp_unsigned("!=", held, ir.Constant(PTR, None))):
            release(b, held)
            b.store(ir.Constant(PTR, None), self.lock)

    def over(
        self,
        b: Builder,
        address: Value,
        size: int,
        lanes: int,
        act: Callable[[Builder, Value | None], None],
    ) -> None:
        """Do something to lanes side by side that have ``size`` bytes each: to all of them (None), or one page after the
        other, to those lanes that lie in it."""
        last = b.add(address, ir.Constant(I64, (lanes - 1) * size))
        behind = b.and_(last, ir.Constant(I64, -_PAGE))
        with b.if_else(b.icmp_unsigned("<=", behind, address), likely=True) as (one, two):
            with one:
                self.take(b, address)
                act(b, None)
            with two:
                places = b.add(
                    llvm.splat(b, address, lanes), llvm.int_lanes([n * size for n in range(lanes)])
                )
                before = b.icmp_unsigned("<", places, llvm.splat(b, behind, lanes))
                for place, among in ((address, before), (behind, b.not_(before))):
                    self.take(b, place)
                    act(b, among)
