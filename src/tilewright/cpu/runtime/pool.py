"""The thread pool that runs grids.

Threads are started when first needed and wait for the next launch. The native loop of ``driver`` distributes a grid; this
module decides how many threads take part, and in chunks of how many blocks. The calling thread works as well, and returns to
Python a few times a second to look for Ctrl-C.
"""

from __future__ import annotations

import math
import os
import threading
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from ctypes import addressof
from dataclasses import dataclass, field

from tilewright.cpu.runtime.arena import Arena
from tilewright.cpu.runtime.driver import (
    FINISHED,
    HAS_JOB,
    MORE_TO_DO,
    LaunchState,
    Mailbox,
    driver,
)
from tilewright.cpu.runtime.interrupts import WATCHER
from tilewright.cpu.runtime.thread_affinity import ANYWHERE, keep_away, own_processor
from tilewright.cpu.target import usable_cores
from tilewright.diagnostics import TileIRError, define_code

BAD_THREADS = define_code(
    "bad-threads",
    "The number of threads is invalid.",
    "`threads`, `--threads` and the environment variable TILEWRIGHT_THREADS take an integer from 1 "
    "to 1024. Without one, a launch uses the cores that the process may use.",
)

THREADS_VARIABLE = "TILEWRIGHT_THREADS"
_MAX_THREADS = 1024

# Waking a thread and waiting for it takes about 20 us.
_WORTH_SHARING = 50e-6
#: With one that is awake it takes some.
WORTH_SHARING_AWAKE = 12e-6
# The longest that Ctrl-C waits, but for a block that takes longer.
_SLICE = 0.05
_CHUNK_SECONDS = 0.01
_CHUNKS_PER_THREAD = 16
#: Towards the end a thread takes this part of what would be its share of the blocks that are left.
_SHARES_PER_THREAD = 4
#: The blocks of a chunk while nobody knows how long one takes.
_FIRST_CHUNK = 8
#: How often a thread that has ended its part looks for the others before it sleeps (for some tenths of a
#: millisecond), and how long it sleeps then.
_LOOKS = 20_000
_TRIALS = 6
_SHORTEST_PAUSE, _LONGEST_PAUSE = 50e-6, 1e-3
#: How often a thread that is late with its part of the launch before is looked at: some tens of microseconds.
_LOOKS_FOR_LATE = 1000

Progress = Callable[[int, int], object]


def thread_count(requested: int | None = None) -> int:
    """How many threads to use: as asked for, or as the environment says, or one for each usable core.

    Raises ``TileIRError`` (``bad-threads``) for anything else than a number from 1 to ``_MAX_THREADS``.
    """
    text = os.environ.get(THREADS_VARIABLE, "").strip()
    if requested is None and not text:
        return usable_cores()
    wanted: object = text if requested is None else requested
    source = THREADS_VARIABLE if requested is None else "threads"
    number = int(text) if requested is None and text.isdecimal() else requested
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= _MAX_THREADS:
        raise TileIRError.single(
            BAD_THREADS, f"{source} must be an integer from 1 to {_MAX_THREADS}, not {wanted!r}"
        )
    return number


@dataclass(slots=True)
class ChunkFeedback:
    """How long a kernel takes for one block, by the last launches; 0 before the first."""

    seconds: float = 0.0

    def learn(self, seconds: float) -> None:
        """Note the seconds of another launch, for a block; each counts half as much as the one
        after it."""
        self.seconds = seconds if not self.seconds else 0.5 * (self.seconds + seconds)


@dataclass(slots=True)
class Choice:
    """Whether a kernel is faster on one thread, without atomic operations, or on several, with them.

    Each is tried some times in a row, as the first time finds cold memory, no measured chunk size, and threads that sleep; then
    the one that took less for a block at its best is chosen.
    """

    _alone: list[float] = field(default_factory=list)
    _together: list[float] = field(default_factory=list)

    def alone_is_next(self) -> bool:
        """Whether the next launch should have one thread."""
        if len(self._together) < _TRIALS or len(self._alone) < _TRIALS:
            return len(self._together) == _TRIALS
        return min(self._alone) < min(self._together)

    @property
    def is_alone(self) -> bool:
        """Whether both were tried, and all later launches should have one thread."""
        return len(self._alone) == _TRIALS and self.alone_is_next()

    def learn(self, seconds: float, *, alone: bool) -> None:
        """Note the seconds that a launch took for a block; the first few launches of each kind count."""
        found = self._alone if alone else self._together
        if len(found) < _TRIALS:
            found.append(seconds)


class Worker:
    """A thread that waits for launches to help with, and its arena."""

    def __init__(self) -> None:
        self.arena = Arena()
        self._box = Mailbox()
        self._where = addressof(self._box)
        self._go = threading.Lock()
        self._go.acquire()
        self._is_called = True
        self._away_from = ANYWHERE
        self._looks_at: object = None
        self._thread = threading.Thread(target=self._serve, name="tilewright", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        serve = driver().serve
        while True:
            self._go.acquire()
            serve(self._where)

    def get_ready(self, arena_bytes: int) -> bool:
        """Find memory for the next launch, unless the thread is late. A launch is over when all its blocks have run,
        whether or not the thread has seen that none is left for it. On a busy machine it may not get a processor
        for milliseconds, which the next launch does not wait for: it goes without the thread. Raises
        ``TileIRError`` (``cpu-out-of-memory``).
        """
        if self._box.state == HAS_JOB:
            self._call()
            if not driver().is_done(self._where, _LOOKS_FOR_LATE):
                return False
        self.arena.address(arena_bytes)
        return True

    @property
    def mailbox(self) -> int:
        """The address of its mailbox."""
        return self._where

    def look_at(self, state: LaunchState, arena_bytes: int) -> None:
        """What helping with launches of this state takes, for threads that stay awake: memory, and that the state
        lives as long as the thread may look at it."""
        self._looks_at = state.memory
        self._box.arena = self.arena.address(arena_bytes)

    def begin(
        self, state: LaunchState, arena_bytes: int, number: int, *, elsewhere: bool = False
    ) -> None:
        """Help with a launch, as the thread of that number; ``elsewhere``: on another processor than the
        calling thread. It must be ready (``get_ready``)."""
        self._looks_at = state.memory
        self._box.launch = state.address
        self._box.arena = self.arena.address(arena_bytes)
        self._box.number = number
        self._is_called = False
        self._is_called = bool(driver().post(self._where))
        if not self._is_called:
            # It sleeps, and would wake up here.
            self._keep_away_from(own_processor() if elsewhere else ANYWHERE)
            self._call()

    def _keep_away_from(self, processor: int) -> None:
        if processor != self._away_from:
            keep_away(self._thread.native_id, processor)
            self._away_from = processor

    def _call(self) -> None:
        """Bring the thread out of Python, where it waits there; without a job it goes back."""
        if not self._is_called:
            self._is_called = True
            with suppress(
                RuntimeError
            ):  # It has been called, but Ctrl-C came before that was noted.
                self._go.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Whether the thread has done its part, waiting for it at most ``timeout`` seconds; None: for ever."""
        self._call()
        is_done, deadline = driver().is_done, _deadline(timeout)
        if is_done(self._where, _LOOKS):
            return True
        pause = _SHORTEST_PAUSE
        while not is_done(self._where, 1):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
        return True


def _deadline(timeout: float | None) -> float:
    return math.inf if timeout is None else time.monotonic() + timeout


@dataclass(slots=True)
class Pool:
    """Threads of this process. One launch at a time uses them; another one meanwhile goes without."""

    _workers: list[Worker] = field(default_factory=list)
    _busy: threading.Lock = field(default_factory=threading.Lock)
    _own: threading.local = field(default_factory=threading.local)
    _boxes: array[int] = field(default_factory=lambda: array("Q"))

    def run(
        self,
        state: LaunchState,
        arena_bytes: int,
        threads: int,
        feedback: ChunkFeedback,
        progress: Progress | None = None,
        *,
        divide: Callable[[LaunchState, int], object] | None = LaunchState.divide,
        gathers: bool = False,
    ) -> None:
        """Run all blocks of a launch, unless it is stopped on the way. ``divide`` gives so many
        threads ranges of their own to begin with. ``gathers``: a call of the kernel gathers what it hands on at its end, so that
        chunks are to be large."""
        total = state.total
        alone = is_for_one(total, threads, feedback)
        # Asked for first, as only ``with`` is sure to give back what it took, whenever Ctrl-C comes.
        if alone or self._busy.locked():
            state.chunk, state.shares = _chunk(total, 1, feedback), 1
            self._share(state, arena_bytes, 1, feedback, progress)
            return
        with self._busy:
            most = min(threads, total) - 1
            self._grow(most)
            helpers = [each for each in self._workers[:most] if each.get_ready(arena_bytes)]
            parts = 1 if gathers else _CHUNKS_PER_THREAD
            state.chunk = _chunk(total, len(helpers) + 1, feedback, parts)
            state.shares = 1 if gathers else _SHARES_PER_THREAD
            if divide is not None:
                divide(state, len(helpers) + 1)
            else:
                state.shares *= len(helpers) + 1
            self._with_helpers(helpers, state, arena_bytes, feedback, progress)

    def is_awake(self, threads: int) -> bool:
        """Whether so many threads, with the calling one, could begin at once."""
        helpers = threads - 1
        if len(self._workers) < helpers or self._busy.locked():
            return False
        return bool(driver().are_there(self._mailboxes(helpers), helpers))

    def run_again(
        self, state: LaunchState, arena_bytes: int, threads: int, feedback: ChunkFeedback
    ) -> bool:
        """Run a launch that is over once more, on threads that are awake; whether it was done: else another launch
        has them, or one of them sleeps. All that is looked at in ``run`` is to be as it was."""
        total, helpers = state.total, min(threads, state.total) - 1
        if len(self._workers) < helpers or self._busy.locked():
            return False
        with self._busy:
            return self._run_again(state, arena_bytes, helpers, feedback, total)

    def _run_again(
        self,
        state: LaunchState,
        arena_bytes: int,
        helpers: int,
        feedback: ChunkFeedback,
        total: int,
    ) -> bool:
        native, boxes = driver(), self._mailboxes(helpers)
        if not native.are_there(boxes, helpers):
            return False
        workers = self._workers[:helpers]
        for worker in workers:
            worker.look_at(state, arena_bytes)
        chunk = _chunk(total, helpers + 1, feedback)
        state.chunk, state.shares = chunk, _SHARES_PER_THREAD
        if state.shared_by != helpers + 1:
            state.divide(helpers + 1)
        own, where = self.take_arena(), state.address
        chunk_seconds = feedback.seconds * chunk
        allowed = max(1, int(_SLICE / chunk_seconds)) if chunk_seconds else 1
        finished, started = False, time.perf_counter()
        watched = WATCHER.begin_again(state)
        try:
            arena = own.address(arena_bytes)
            signals = WATCHER.signals.address if watched else 0
            serial = state.new_serial()
            result = native.together(where, arena, allowed, signals, serial, boxes, helpers, _LOOKS)
            while result == MORE_TO_DO:
                result = native.work(where, arena, allowed, _LOOKS)
            finished = result == FINISHED
        except BaseException:
            state.stop = 1
            raise
        finally:
            if watched:
                WATCHER.end(state)
            if not finished:
                _join(workers, state)
            self.give_back_arena(own)
        feedback.learn((time.perf_counter() - started) * (helpers + 1) / total)
        return True

    def _mailboxes(self, count: int) -> int:
        """The address of the mailboxes' addresses."""
        if len(self._boxes) < count:
            self._boxes = array("Q", [worker.mailbox for worker in self._workers])
        return self._boxes.buffer_info()[0]

    def _grow(self, count: int) -> None:
        """Have so many threads, or as many as the system starts."""
        with suppress(RuntimeError):
            while len(self._workers) < count:
                self._workers.append(Worker())

    def _with_helpers(
        self,
        helpers: list[Worker],
        state: LaunchState,
        arena_bytes: int,
        feedback: ChunkFeedback,
        progress: Progress | None,
    ) -> None:
        begun: list[Worker] = []
        finished = False
        try:
            for number, helper in enumerate(helpers, start=1):
                begun.append(helper)
                helper.begin(state, arena_bytes, number, elsewhere=True)
            finished = self._share(state, arena_bytes, len(helpers) + 1, feedback, progress)
        except BaseException:
            state.stop = 1
            raise
        finally:
            if not finished:
                _join(begun, state)

    def _share(
        self,
        state: LaunchState,
        arena_bytes: int,
        threads: int,
        feedback: ChunkFeedback,
        progress: Progress | None,
    ) -> bool:
        """The calling thread's share of the work; whether all is known to be finished."""
        own = self.take_arena()
        work, where, total = driver().work, state.address, state.total
        chunk_seconds = feedback.seconds * state.chunk
        allowed = max(1, int(_SLICE / chunk_seconds)) if chunk_seconds else 1
        started = time.perf_counter()
        try:
            arena = own.address(arena_bytes)
            WATCHER.begin(state)
            while (result := work(where, arena, allowed, _LOOKS)) == MORE_TO_DO:
                if progress is not None:
                    progress(state.finished, total)
        finally:
            WATCHER.end(state)
            self.give_back_arena(own)
        if not state.stop:
            feedback.learn((time.perf_counter() - started) * threads / total)
        return result == FINISHED

    def take_arena(self) -> Arena:
        """The calling thread's arena, to be given back. A launch that begins before that, as from the progress of
        this one or a function that a kernel calls, has another: this one holds tiles, and must not move."""
        found = getattr(self._own, "arena", None) or Arena()
        self._own.arena = None
        return found

    def give_back_arena(self, arena: Arena) -> None:
        """The next launch of the calling thread uses the arena."""
        self._own.arena = arena


def is_for_one(
    total: int, threads: int, feedback: ChunkFeedback, worth: float = _WORTH_SHARING
) -> bool:
    """Whether the calling thread runs a grid alone, by the launches before: it takes less than ``worth`` seconds."""
    return threads == 1 or total == 1 or 0 < feedback.seconds * total < worth


def at_once(total: int, feedback: ChunkFeedback) -> tuple[int, int]:
    """For a thread that runs a grid alone: how many blocks it takes in a chunk, and how many chunks before it
    looks for signals."""
    chunk = _chunk(total, 1, feedback)
    seconds = feedback.seconds * chunk
    return chunk, max(1, int(_SLICE / seconds)) if seconds else 1


def _chunk(
    total: int, threads: int, feedback: ChunkFeedback, parts: int = _CHUNKS_PER_THREAD
) -> int:
    """How many blocks a thread takes at most at once: few enough to share them well, where other work
    holds a thread up, and to stop soon."""
    in_time = int(_CHUNK_SECONDS / feedback.seconds) if feedback.seconds else _FIRST_CHUNK
    return max(1, min(in_time, -(-total // threads) // parts))


def _join(workers: list[Worker], state: LaunchState) -> None:
    """Wait for threads, Ctrl-C or not: they use memory that the launch owns. What the handler of a signal
    raises makes them stop, and is raised when they have."""
    raised: BaseException | None = None
    for worker in workers:
        while True:
            try:
                worker.wait()
                break
            except BaseException as error:  # noqa: BLE001 (a handler of signals may raise anything)
                raised, state.stop = error, 1
    if raised is not None:
        raise raised


POOL = Pool()


def _after_fork() -> None:
    """Threads do not live on in a forked process; begin anew."""
    POOL.__init__()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
