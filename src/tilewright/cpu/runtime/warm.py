"""Warm launches: the same kernel, grid and options as the launch before, and arguments of the usual kinds.

The first launch's results are kept, with the words that the native loop reads, so that a launch only checks and packs
arguments (``native_packing``), resets those words, and runs the blocks. Arguments may differ each time, and everything that code depends
on is checked each time. Anything else is left to ``Program.launch``.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from tilewright.cpu.runtime.driver import ALL_DONE, FINISHED, MORE_TO_DO, LaunchState, driver
from tilewright.cpu.runtime.interrupts import WATCHER
from tilewright.cpu.runtime.kernels import NativeKernel
from tilewright.cpu.runtime.native_packing import NativePacker
from tilewright.cpu.runtime.packing import Packed, with_plain_numbers
from tilewright.cpu.runtime.pool import (
    POOL,
    WORTH_SHARING_AWAKE,
    ChunkFeedback,
    at_once,
    is_for_one,
)
from tilewright.cpu.runtime.repeated_arguments import RepeatedArguments
from tilewright.launching.options import LaunchOptions
from tilewright.launching.result import RunResult
from tilewright.numerics.arrays import Array


class WarmLaunch:
    """A launch that can be made again. ``given`` are the options that its caller gave."""

    __slots__ = (
        *(
            "_again",
            "_arena_bytes",
            "_kinds",
            "_mine",
            "_outputs",
            "_offset",
            "_feedback",
            "_packer",
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
        self._feedback = kernel.feedback
        # A thread may still look at the last launch that it has helped with when one begins that it has no part in.
        self._shared: LaunchState | None = None
        self._arena_bytes, self._again = kernel.compiled.arena_bytes, driver().again
        self._outputs = _picker(arrays)
        # Who has it uses the words; another thread, or a handler of signals, launches in full.
        self._mine = threading.Lock()
        self._offset = state.slots_address - state.address
        count = len(state.words) - self._offset // 8
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
        return RunResult(self._outputs(args))

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
        packer, total, feedback = self._packer, self._total, self._feedback
        if packer is None or not self._mine.acquire(blocking=False):
            return False
        try:
            state = self._chosen(total, feedback)
            return bool(packer.pack(args, state.slots_address)) and self._run(
                state, total, feedback
            )
        finally:
            self._mine.release()

    def launch_packed(self, grid: tuple[int, int, int], packed: Packed) -> bool:
        """Whether the launch was like the one before and has run."""
        total, feedback = self._total, self._feedback
        if grid != self.grid or not packed.distinct:
            return False
        if not self._mine.acquire(blocking=False):
            return False
        try:
            state = self._chosen(total, feedback)
            self._write(state.words, self._offset, *packed.slots)
            return self._run(state, total, feedback)
        finally:
            self._mine.release()

    def _chosen(self, total: int, feedback: ChunkFeedback) -> LaunchState:
        """The state of the launch: another one where several threads share it."""
        threads = self._threads
        if is_for_one(total, threads, feedback, WORTH_SHARING_AWAKE):
            return self.state
        if is_for_one(total, threads, feedback) and not POOL.is_awake(min(threads, total)):
            return self.state
        if self._shared is None:
            self._shared = self.state.copy()
        return self._shared

    def _run(self, state: LaunchState, total: int, feedback: ChunkFeedback) -> bool:
        """Whether the launch was made: not where threads that are to share it sleep."""
        if state is not self.state:
            return POOL.run_again(state, self._arena_bytes, self._threads, feedback)
        allowed, started = 1, 0.0
        own = POOL.take_arena()
        if total > 1:
            state.chunk, allowed = at_once(total, feedback)
            started = time.perf_counter()
        watched = WATCHER.begin_again(state)
        try:
            arena = own.address(self._arena_bytes)
            signals = WATCHER.signals.address if watched else 0
            where = state.address
            result = self._again(where, arena, allowed, signals, state.new_serial())
            while result == MORE_TO_DO:
                result = driver().work(where, arena, allowed, 1)
        finally:
            if watched:
                WATCHER.end(state)
            POOL.give_back_arena(own)
        if total > 1:
            feedback.learn((time.perf_counter() - started) / total)
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
