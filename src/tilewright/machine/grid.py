"""Runs all tile blocks of a grid, in an order determined by the seed.

Blocks of kernels without switch points run one after the other. Otherwise each block is a coroutine, and ``schedules``
decides which one continues. All blocks of the grid are live at once, unless the number of resident blocks is limited.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from tilewright.diagnostics import Note
from tilewright.launching.orders import shuffled
from tilewright.machine.compile import CompiledBlock, Translator
from tilewright.machine.deadlocks import deadlock
from tilewright.machine.faults import Fault, as_error
from tilewright.machine.interrupts import note_loop
from tilewright.machine.repeats import deciding_slots
from tilewright.machine.schedules import BlockId, Live, schedule_of
from tilewright.machine.state import Machine
from tilewright.machine.values import ARENA, Registers

Progress = Callable[[int, int], object]
"""Called with (finished tile blocks, all tile blocks)."""

# Turns without a change of memory after which the state of a block is examined.
_MAX_QUIET_TURNS = 64
# Turns without a change of memory, per live block and in total, after which a run counts as stuck
# without proof. A proof fails, for instance, if blocks count their polls or have agents. A block
# that gives up waiting by itself does so earlier.
_MAX_IDLE_ROUNDS = 1000
_MAX_IDLE_TURNS = 500_000


class GridRun:
    """One launch of a translated kernel.

    Seed 0 starts tile blocks in ascending order, other seeds shuffle them. With ``resident``, at
    most that many blocks are live at once, and blocks start in ascending order whatever the seed,
    each when another has ended.
    """

    def __init__(
        self,
        machine: Machine,
        kernel: Translator,
        body: CompiledBlock,
        parameters: Iterable[tuple[int, object]],
        seed: int,
        progress: Progress | None,
        resident: int | None = None,
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
        self._resident = resident
        self._random = random.Random(seed) if seed else None
        self._schedule = schedule_of(seed, self._random, kernel)
        self._pending = self._order()
        self._deciding = deciding_slots(kernel)
        self._left = machine.grid[0] * machine.grid[1] * machine.grid[2]
        machine.random, machine.take_over = self._random, self._take_over
        self._progress = progress
        self._finished = 0

    def run(self) -> None:
        """Run every tile block to its end. Raises TileIRError at the first fault, and where all that are left wait."""
        # Steps compute without NumPy guards of their own; see ``unguarded``.
        with np.errstate(all="ignore"):
            if self._body.suspends:
                self._run_interleaved()
            else:
                self._run_one_by_one()

    def _order(self) -> Iterator[tuple[int, BlockId]]:
        """Yield all blocks with their numbers: x fastest, or shuffled."""
        x_count, y_count, z_count = self._machine.grid
        numbers: Iterable[int] = range(x_count * y_count * z_count)
        if self._random is not None and self._resident is None:
            numbers = shuffled(numbers, self._random)
        for number in numbers:
            rest, x = divmod(number, x_count)
            z, y = divmod(rest, y_count)
            self._left -= 1
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
        """Remove the block that would start next from the grid, and return it."""
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
        except KeyboardInterrupt as interrupt:
            note_loop(interrupt, block)
            raise

    def _run_interleaved(self) -> None:
        memory, schedule = self._machine.memory, self._schedule
        version, idle_turns = memory.version, 0
        live: Live | None = None
        try:
            while (live := self._next()) is not None:
                if not self._turn(live):
                    schedule.put(live)
                    if self._is_stuck(live, idle_turns):
                        raise self._deadlock(live)
                idle_turns += 1
                if memory.version != version:
                    version, idle_turns = memory.version, 0
        except Fault as fault:
            assert live is not None
            raise as_error(fault, [_in_block(live.block)]) from None
        except KeyboardInterrupt as interrupt:
            if live is not None:
                note_loop(interrupt, live.block)
            raise

    def _next(self) -> Live | None:
        """Return the block to run next, possibly a new one; None if all have ended."""
        schedule = self._schedule
        has_room = self._has_room(schedule.count())
        found = schedule.next(self._machine.memory.version, may_begin=has_room and self._left > 0)
        if found is None and has_room:
            for number, block in self._pending:
                registers = self._begin(block)
                return Live(number, block, registers, self._body.start(registers))
        return found

    def _has_room(self, count: int) -> bool:
        """Whether another block may start besides ``count`` live ones."""
        return self._resident is None or count < self._resident

    def _turn(self, live: Live) -> bool:
        """Run a block until the schedule switches away from it. Returns whether it has ended."""
        self._machine.check_time()
        self._enter(live.number, live.block)
        memory, coroutine, schedule = self._machine.memory, live.coroutine, self._schedule
        version = memory.version
        while True:
            try:
                live.paused_at = next(coroutine)
            except StopIteration:
                self._end(live.registers)
                return True
            changed = memory.version != version
            if schedule.stops(live, changed=changed):
                live.idle_at = -1 if changed else version
                return False
            version = memory.version

    def _is_stuck(self, live: Live, idle_turns: int) -> bool:
        """Whether all live blocks wait forever; ``live`` has just yielded."""
        version, count = self._machine.memory.version, self._schedule.count()
        if idle_turns < _MAX_QUIET_TURNS * count or (self._left and self._has_room(count)):
            return False
        if self._deciding is not None:
            live.repeats.note(version, live.paused_at, live.registers, self._deciding)
            if all(other.repeats.is_proven(version) for other in self._schedule.live()):
                return True
        return idle_turns > max(_MAX_IDLE_ROUNDS * count, _MAX_IDLE_TURNS)

    def _deadlock(self, live: Live) -> Fault:
        waiting = sorted(self._schedule.live(), key=lambda other: other.number)
        found = [(other.block, other.paused_at, other.registers) for other in waiting]
        fault = deadlock(found, self._kernel, self._machine.names, live.paused_at)
        if self._left:
            fault.notes = (*fault.notes, _not_begun(self._left, len(waiting)))
        return fault


def _not_begun(left: int, resident: int) -> Note:
    blocks = "tile block has" if left == 1 else "tile blocks have"
    room = "1 is" if resident == 1 else f"{resident} are"
    return Note(f"{left} {blocks} not started, as at most {room} resident at once")


def _in_block(block: BlockId) -> Note:
    return Note(f"in tile block {block}")
