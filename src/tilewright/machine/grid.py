"""Running all tile blocks of a grid, in an order that the seed determines.

Blocks whose kernel has no switch points run one after the other. Otherwise each block is a
coroutine. With seed 0 a block keeps running until it ends or comes to a switch point without
having changed memory since the last one: then it may be waiting, and the next block goes on. With
another seed the order of blocks is shuffled and every switch point is a coin toss.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.diagnostics import Note
from tilewright.machine.compile import CompiledBlock, Coroutine, Translator
from tilewright.machine.deadlocks import deadlock
from tilewright.machine.faults import Fault, as_error
from tilewright.machine.state import Machine
from tilewright.machine.values import ARENA, Registers

if TYPE_CHECKING:
    from xdsl.ir import Operation

Progress = Callable[[int, int], object]
"""Told (finished tile blocks, all tile blocks)."""

BlockId = tuple[int, int, int]

# Rounds over all live blocks in which memory stays as it is before the run counts as stuck. A
# block that gives up waiting by itself does so long before.
_MAX_IDLE_ROUNDS = 1000


@dataclass(slots=True)
class _Live:
    """A tile block that has begun and not ended."""

    number: int
    block: BlockId
    registers: Registers
    coroutine: Coroutine
    paused_at: Operation | None = None


class GridRun:
    """One launch of a translated kernel."""

    def __init__(
        self,
        machine: Machine,
        kernel: Translator,
        body: CompiledBlock,
        parameters: Iterable[tuple[int, object]],
        seed: int,
        progress: Progress | None,
    ):
        self._machine = machine
        self._kernel = kernel
        self._body = body
        self._block_slots = kernel.block_slots
        self._template = list(kernel.registers)
        for slot, value in parameters:
            self._template[slot] = value
        for slot, axis in kernel.grid_slots:
            self._template[slot] = np.array(machine.grid[axis], np.int32)
        self._random = random.Random(seed) if seed else None
        self._pending = self._order()
        machine.random, machine.take_over = self._random, self._take_over
        self._progress = progress
        self._finished = 0

    def run(self) -> None:
        """Run every tile block to its end; a TileIRError at the first fault."""
        # Steps compute without guards of their own; see ``unguarded``.
        with np.errstate(all="ignore"):
            if self._body.suspends:
                self._run_interleaved()
            else:
                self._run_one_by_one()

    def _order(self) -> Iterator[tuple[int, BlockId]]:
        """All blocks with their numbers: x fastest, or shuffled."""
        x_count, y_count, z_count = self._machine.grid
        numbers: range | list[int] = range(x_count * y_count * z_count)
        if self._random is not None:
            numbers = list(numbers)
            self._random.shuffle(numbers)
        for number in numbers:
            rest, x = divmod(number, x_count)
            z, y = divmod(rest, y_count)
            yield number, (x, y, z)

    def _begin(self, block: BlockId) -> Registers:
        registers = self._template.copy()
        registers[ARENA] = []
        for slot, axis in self._block_slots:
            registers[slot] = np.array(block[axis], np.int32)
        return registers

    def _enter(self, number: int, block: BlockId) -> None:
        self._machine.block = block
        self._machine.memory.current_block = number

    def _end(self, registers: Registers) -> None:
        arena = registers[ARENA]
        while arena:
            self._machine.memory.free(arena.pop())
        self._count()

    def _take_over(self) -> BlockId | None:
        """Take the block that would begin next out of the grid."""
        for _, block in self._pending:
            self._count()
            return block
        return None

    def _count(self) -> None:
        self._finished += 1
        if self._progress is not None:
            x_count, y_count, z_count = self._machine.grid
            self._progress(self._finished, x_count * y_count * z_count)

    def _run_one_by_one(self) -> None:
        run = self._body.run
        block: BlockId = (0, 0, 0)
        try:
            for number, block in self._pending:
                self._machine.check_time()
                self._enter(number, block)
                registers = self._begin(block)
                run(registers)
                self._end(registers)
        except Fault as fault:
            raise as_error(fault, [_in_block(block)]) from None

    def _run_interleaved(self) -> None:
        waiting: deque[_Live] = deque()
        version, idle_turns = self._machine.memory.version, 0
        live: _Live | None = None
        try:
            while (live := self._next(waiting)) is not None:
                if not self._turn(live):
                    waiting.append(live)
                    if len(waiting) * _MAX_IDLE_ROUNDS < idle_turns:
                        raise self._deadlock(live, waiting)
                idle_turns += 1
                if self._machine.memory.version != version:
                    version, idle_turns = self._machine.memory.version, 0
        except Fault as fault:
            assert live is not None
            raise as_error(fault, [_in_block(live.block)]) from None

    def _next(self, waiting: deque[_Live]) -> _Live | None:
        """The block whose turn it is: a new one while there are any (with a seed, or any other)."""
        if self._random is not None and waiting and self._random.random() < 0.5:
            waiting.rotate(self._random.randrange(len(waiting)))
            return waiting.popleft()
        for number, block in self._pending:
            registers = self._begin(block)
            return _Live(number, block, registers, self._body.start(registers))
        return waiting.popleft() if waiting else None

    def _turn(self, live: _Live) -> bool:
        """Let a block run for a while; whether it has ended."""
        self._machine.check_time()
        self._enter(live.number, live.block)
        memory, coroutine = self._machine.memory, live.coroutine
        version = memory.version
        while True:
            try:
                live.paused_at = next(coroutine)
            except StopIteration:
                self._end(live.registers)
                return True
            if memory.version == version or (
                self._random is not None and self._random.random() < 0.5
            ):
                return False
            version = memory.version

    def _deadlock(self, live: _Live, waiting: deque[_Live]) -> Fault:
        found = [(other.block, other.paused_at, other.registers) for other in waiting]
        return deadlock(found, self._kernel, self._machine.names, live.paused_at)


def _in_block(block: BlockId) -> Note:
    return Note(f"in tile block {block}")
