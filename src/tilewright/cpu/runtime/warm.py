"""Warm launches: the same kernel, grid and options as the launch before, and arguments of the usual kinds.

One of a kernel with atomic updates is made again where it is to be alone, on one thread, and no other that updates memory runs.

The first launch's results are kept, with the words that the native loop reads, so that a launch only checks and packs
arguments (``native_packing``), resets those words, and runs the blocks. Arguments may differ each time, and everything that code depends
on is checked each time. Anything else is left to ``Program.launch``.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from tilewright.cpu.abi import ALONE
from tilewright.cpu.runtime.arena import Arena
from tilewright.cpu.runtime.driver import ALL_DONE, FINISHED, MORE_TO_DO, LaunchState, driver
from tilewright.cpu.runtime.interrupts import WATCHER
from tilewright.cpu.runtime.kernels import NativeKernel
from tilewright.cpu.runtime.launch_orders import NOT_LIKE, LaunchOrder
from tilewright.cpu.runtime.native_packing import NativePacker
from tilewright.cpu.runtime.packing import Packed, with_plain_numbers
from tilewright.cpu.runtime.pool import (
    POOL,
    WORTH_SHARING_AWAKE,
    at_once,
    is_for_one,
)
from tilewright.cpu.runtime.repeated_arguments import RepeatedArguments
from tilewright.cpu.runtime.updates import UPDATE_LOCK
from tilewright.launching.options import LaunchOptions
from tilewright.launching.result import RunResult, result_of
from tilewright.numerics.arrays import Array

#: Bytes of tiles that a kernel has to itself between launches.
_LITTLE = 1 << 12


class WarmLaunch:
    """A launch that can be made again. ``given`` are the options that its caller gave."""

    __slots__ = (
        *(
            "_again",
            "_arena",
            "_arena_bytes",
            "_feedback",
            "_free",
            "_kinds",
            "_outputs",
            "_offset",
            "_order",
            "_packer",
            "_updates",
        ),
        *("_shared", "_threads", "_total", "_write", "given", "grid", "kernel", "state"),
    )

    def __init__(
        self,
        kernel: NativeKernel,
        packer: NativePacker | RepeatedArguments | None,
        state: LaunchState,
        grid: tuple[int, ...],
        given: LaunchOptions | None,
        threads: int,
        arrays: tuple[int, ...],
    ) -> None:
        """``state`` is that of a launch with this grid, which is over; ``arrays`` are the numbers of the
        arguments that are arrays. Without a packer arguments come packed."""
        self.kernel, self.given, self.grid, self.state = kernel, given, grid, state
        self._kinds = [type(extent) for extent in grid]
        self._packer, self._threads, self._total = packer, threads, state.total
        self._feedback, self._updates = kernel.feedback, kernel.compiled.updates
        if self._updates:
            state.alone = ALONE
        # A thread may still look at the last launch that it has helped with when one begins that it has no part in.
        self._shared: LaunchState | None = None
        self._arena_bytes, self._again = kernel.compiled.arena_bytes, driver().again
        self._outputs = _picker(arrays)
        # Who has taken it uses the words; another thread, or a handler of signals, launches in full.
        self._free = [state]
        # A kernel with few tiles in memory, or none, has some of its own.
        self._arena: Arena | None = None
        self._order: LaunchOrder | None = None
        if self._arena_bytes <= _LITTLE:
            self._arena = Arena()
            if packer is not None:
                self._order = packer.order(state, self._arena.address(self._arena_bytes))
        self._offset = state.slots_address - state.address
        count = len(state.words) - self._offset // 8 - kernel.compiled.asks_for_memory
        self._write = struct.Struct(f"={count}Q").pack_into

    def is_for(self, kernel: NativeKernel, grid: object, given: LaunchOptions | None) -> bool:
        """Whether launches of this kind are those that it makes."""
        return self.kernel is kernel and self.grid == grid and self.given is given

    def launch(self, grid: object, args: object) -> RunResult | None:
        """What the launch gave; None where it is not like the one before, and nothing has run.

        Raises what a launch raises.
        """
        if grid is not self.grid and not self._is_on(grid):
            return None
        if type(args) is list:
            args = tuple(args)
        if type(args) is not tuple:
            return None
        if not self.repeat(args):
            plain = with_plain_numbers(args)
            if plain is None or not self.repeat(plain):
                return None
        return result_of(self._outputs(args))

    def _is_on(self, grid: object) -> bool:
        """Whether a grid is that of the launch before."""
        found = as_tuple(grid)
        return (
            found is not None
            and found == self.grid
            and [type(each) for each in found] == self._kinds
        )

    def repeat(self, args: tuple[Any, ...]) -> bool:
        """Whether the arguments are like those of the launch before, and the launch, on the same grid, was made."""
        packer, own = self._packer, self._taken()
        if own is None:
            return False
        try:
            if self._updates and not UPDATE_LOCK.take(own):
                return False
            state, order = self._chosen(own), self._order
            if order is not None and self._arena is not None and state is own:
                return self._run_in(self._arena, state, order, args)
            if packer is None or not packer.pack(args, state.slots_address):
                return False
            return self._run(state, alone=state is own)
        finally:
            self._give_back(own)

    def launch_packed(self, grid: tuple[int, int, int], packed: Packed) -> bool:
        """Whether the launch was like the one before and has run."""
        if grid != self.grid or not packed.distinct:
            return False
        own = self._taken()
        if own is None:
            return False
        try:
            if self._updates and not UPDATE_LOCK.take(own):
                return False
            state = self._chosen(own)
            self._write(state.words, self._offset, *packed.slots)
            return self._run(state, alone=state is own)
        finally:
            self._give_back(own)

    def _taken(self) -> LaunchState | None:
        """The words of this launch, to be given back; None where it is to be made in full."""
        if self._updates and not self._is_for_one():
            return None
        try:
            return self._free.pop()
        except IndexError:
            return None

    def _give_back(self, own: LaunchState) -> None:
        if self._updates:
            UPDATE_LOCK.give_back(own)
        self._free.append(own)

    def _is_for_one(self) -> bool:
        """Whether a launch that updates memory is to have one thread."""
        return self._threads == 1 or self._total == 1 or self.kernel.choice.is_alone

    def _chosen(self, own: LaunchState) -> LaunchState:
        """The state of the launch: another one where several threads share it."""
        threads, total = self._threads, self._total
        if threads == 1 or total == 1 or self._updates:
            return own
        feedback = self._feedback
        if is_for_one(total, threads, feedback, WORTH_SHARING_AWAKE):
            return own
        if is_for_one(total, threads, feedback) and not POOL.is_awake(min(threads, total)):
            return own
        if self._shared is None:
            self._shared = own.copy()
        return self._shared

    def _run(self, state: LaunchState, *, alone: bool) -> bool:
        """Whether the launch was made: not where threads that are to share it sleep."""
        if not alone:
            return POOL.run_again(state, self._arena_bytes, self._threads, self._feedback)
        if self._arena is not None:
            return self._run_in(self._arena, state)
        arena = POOL.take_arena()
        try:
            return self._run_in(arena, state)
        finally:
            POOL.give_back_arena(arena)

    def _run_in(
        self,
        own: Arena,
        state: LaunchState,
        order: LaunchOrder | None = None,
        args: tuple[Any, ...] = (),
    ) -> bool:
        """On the calling thread; with an order, which has that arena, if the arguments are like those before."""
        total, allowed, started = self._total, 1, 0.0
        if total > 1:
            state.chunk, allowed = at_once(total, self._feedback)
            started = time.perf_counter()
        arena, where = own.address(self._arena_bytes), state.address
        watched = WATCHER.begin_again(state)
        try:
            signals = WATCHER.signals.address if watched else 0
            if order is not None:
                result = order.run(args, allowed, signals)
            else:
                result = self._again(where, arena, allowed, signals, state.new_serial())
            while result == MORE_TO_DO:
                result = driver().work(where, arena, allowed, 1)
        finally:
            if watched:
                WATCHER.end(state)
        if result == NOT_LIKE:
            return False
        if total > 1:
            self._feedback.learn((time.perf_counter() - started) / total)
        assert result in (FINISHED, ALL_DONE), "a kernel stopped without a diagnostic"
        return True


def as_tuple(grid: object) -> tuple[Any, ...] | None:
    """A grid that is a number, a list or a tuple, as a tuple; None for others. Its extents are not checked."""
    if type(grid) is tuple:
        return grid
    if type(grid) is int:
        return (grid,)
    return tuple(grid) if type(grid) is list else None


def _picker(numbers: tuple[int, ...]) -> Callable[[tuple[Any, ...]], tuple[Array, ...]]:
    """Those items of a tuple, as a tuple."""
    if len(numbers) > 1:
        return itemgetter(*numbers)
    return lambda args: tuple([args[number] for number in numbers])
