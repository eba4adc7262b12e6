"""Grids whose tile blocks wait for one another: blocks are coroutines, several per thread.

A thread takes a block and runs it until it has polled memory in vain (``codegen.coroutines.waiting_blocks``). It then
resumes others that it has begun, and begins another one when those poll in vain, too. Blocks begin in ascending order, at least ``IN_FLIGHT`` at once on each
thread. As on a GPU, a block must not wait for one that begins only after it has ended. Each block has an arena of its own,
which the next one takes over.

Deadlocks are detected from the outside. The threads say whether they have seen nothing but polls in vain for many
iterations; when all do, while the process uses some seconds of processor time (or three times as long passes, where it does
not get them), nothing will come. Loops that also work could be waiting, too: there it is a deadlock if no
block ends although all of them have used a lot of processor time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tilewright.cpu.abi import (
    ARENA_ALIGNMENT,
    ARENA_PREFIX,
    DONE,
    PANELS_READY,
    RT_FINISHED,
    RT_LOOKS,
    RT_ORDER,
    RT_RANGE,
    RT_RESULT,
    RT_STOP,
    RT_WORDS,
    RUN_WAITING,
    STOPPED,
    YIELD_SYMBOL,
)
from tilewright.cpu.runtime.driver import PAUSE, PAUSE_DECLARED, STALLED_BEHIND, LaunchState
from tilewright.cpu.runtime.engine import Library
from tilewright.cpu.runtime.interrupts import WATCHER
from tilewright.cpu.runtime.libraries import library
from tilewright.cpu.runtime.once import once
from tilewright.diagnostics import TileIRError
from tilewright.launching.codes import DEADLOCK

IN_FLIGHT, _MOST = 512, 4096
#: Bytes of tiles up to which a thread begins more blocks than ``IN_FLIGHT``.
_MOST_BYTES = 1 << 29
DEADLOCK_TIMEOUT = 10.0
"""Seconds of processor time in which nothing comes of any block."""

#: How many looks in vain a thread makes, at the blocks that it has begun, before it begins another.
_LOOKS_FIRST = 4
#: After how many iterations of looks in vain a thread says so, and in how many it gives up its time slice once.
_ROUNDS, _YIELD_ROUNDS = 1 << 12, 1 << 6

#: Where other processes take the processors, so many looks of the watcher stand for a second of processor time.
_MOST_LOOKS = 30

#: What stands behind the runtime of a block: its handle, and the next one of those that wait for a block.
_HANDLE, _NEXT_FREE = RT_WORDS + 2, RT_WORDS + 3
_FIBER = 128
"""Bytes of it."""

_IR = f"""
%fiber = type [{_FIBER // 8} x i64]

declare void @llvm.coro.resume(ptr)
declare void @llvm.coro.destroy(ptr)
declare i1 @llvm.coro.done(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @{YIELD_SYMBOL}()
{PAUSE_DECLARED}

; Memory for another block: its runtime, and behind it an arena; null where there is none.
define internal ptr @new_fiber(ptr %rt, i64 %size) {{
  %needed = add i64 %size, {_FIBER + ARENA_PREFIX + ARENA_ALIGNMENT}
  %memory = call ptr @malloc(i64 %needed)
  %none = icmp eq ptr %memory, null
  br i1 %none, label %out, label %fill
fill:
  call void @llvm.memcpy.p0.p0.i64(ptr %memory, ptr %rt, i64 {8 * RT_WORDS}, i1 0)
  %first = ptrtoint ptr %memory to i64
  %behind = add i64 %first, {_FIBER + ARENA_PREFIX + ARENA_ALIGNMENT - 1}
  %aligned = and i64 %behind, {-ARENA_ALIGNMENT}
  %arena = inttoptr i64 %aligned to ptr
  store ptr %arena, ptr %memory
  %ready = getelementptr i8, ptr %arena, i64 {PANELS_READY}
  store i64 0, ptr %ready
  br label %out
out:
  ret ptr %memory
}}

; The number of a block that nobody has begun, of the given ones or of the launch; -1 where there is none.
define internal i64 @another(ptr %own, i64 %end, ptr %range, ptr %taken) {{
  %next = load i64, ptr %own
  %is_own = icmp slt i64 %next, %end
  br i1 %is_own, label %given, label %look
given:
  %following = add i64 %next, 1
  store i64 %following, ptr %own
  ret i64 %next
look:
  %nothing = icmp eq ptr %range, null
  br i1 %nothing, label %none, label %ask
ask:
  %bound_at = getelementptr i64, ptr %range, i64 1
  %bound = load i64, ptr %bound_at
  %first = load atomic i64, ptr %range monotonic, align 8
  br label %try
try:
  %seen = phi i64 [ %first, %ask ], [ %found, %take ]
  %over = icmp sge i64 %seen, %bound
  br i1 %over, label %none, label %take
take:
  %after = add i64 %seen, 1
  %exchange = cmpxchg ptr %range, i64 %seen, i64 %after monotonic monotonic
  %found = extractvalue {{ i64, i1 }} %exchange, 0
  %mine = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %mine, label %got, label %try
got:
  %count = load i64, ptr %taken
  %more = add i64 %count, 1
  store i64 %more, ptr %taken
  ret i64 %seen
none:
  ret i64 -1
}}

; Say that this thread sees nothing but looks in vain (1), or something else again (0).
define internal void @say(ptr %finished, ptr %said, i32 %what) {{
  %nobody = icmp eq ptr %finished, null
  br i1 %nobody, label %out, label %compare
compare:
  %before = load i32, ptr %said
  %same = icmp eq i32 %before, %what
  br i1 %same, label %out, label %tell
tell:
  store i32 %what, ptr %said
  %change = sub i32 %what, %before
  %at = getelementptr i8, ptr %finished, i64 {STALLED_BEHIND + 4}
  %old = atomicrmw add ptr %at, i32 %change monotonic
  br label %out
out:
  ret void
}}

define internal void @come_or_go(ptr %finished, i32 %change) {{
  %nobody = icmp eq ptr %finished, null
  br i1 %nobody, label %out, label %tell
tell:
  %at = getelementptr i8, ptr %finished, i64 {STALLED_BEHIND}
  %old = atomicrmw add ptr %at, i32 %change monotonic
  br label %out
out:
  ret void
}}

define internal void @count_ends(ptr %finished, i64 %ends) {{
  %nobody = icmp eq ptr %finished, null
  br i1 %nobody, label %out, label %tell
tell:
  %old = atomicrmw add ptr %finished, i64 %ends release
  br label %out
out:
  ret void
}}

define i32 @{RUN_WAITING}(ptr %args, ptr %grid, ptr %rt, i64 %begin, i64 %end, ptr %block, i64 %size) {{
entry:
  %first = alloca %fiber
  %own = alloca i64
  %taken = alloca i64
  %said = alloca i32
  %running = alloca [{_MOST} x ptr]
  %some_bytes = call i64 @llvm.umax.i64(i64 %size, i64 1)
  %fitting = udiv i64 {_MOST_BYTES}, %some_bytes
  %at_least = call i64 @llvm.umax.i64(i64 %fitting, i64 {IN_FLIGHT})
  %at_most = call i64 @llvm.umin.i64(i64 %at_least, i64 {_MOST})
  call void @llvm.memcpy.p0.p0.i64(ptr %first, ptr %rt, i64 {8 * RT_WORDS}, i1 0)
  %first_next = getelementptr i64, ptr %first, i64 {_NEXT_FREE}
  store ptr null, ptr %first_next
  store i64 %begin, ptr %own
  store i64 0, ptr %taken
  store i32 0, ptr %said
  %stop_at = getelementptr ptr, ptr %rt, i64 {RT_STOP}
  %stop = load ptr, ptr %stop_at
  %range_at = getelementptr ptr, ptr %rt, i64 {RT_RANGE}
  %range = load ptr, ptr %range_at
  %finished_at = getelementptr ptr, ptr %rt, i64 {RT_FINISHED}
  %finished = load ptr, ptr %finished_at
  %order_at = getelementptr ptr, ptr %rt, i64 {RT_ORDER}
  %order = load ptr, ptr %order_at
  %in_order = icmp eq ptr %order, null
  call void @come_or_go(ptr %finished, i32 1)
  br label %choose
choose:
  ; Of the blocks in flight: how many, the last one resumed; looks in vain since something came; the same since
  ; a block began; ends that were counted; memory without a block; the most blocks; the outcome.
  %count = phi i64 [ 0, %entry ], [ %count_now, %went ]
  %place = phi i64 [ 0, %entry ], [ %place_now, %went ]
  %vain = phi i64 [ 0, %entry ], [ %vain_now, %went ]
  %since = phi i64 [ 0, %entry ], [ %since_now, %went ]
  %counted = phi i64 [ 0, %entry ], [ %counted_now, %went ]
  %free = phi ptr [ %first, %entry ], [ %free_now, %went ]
  %most = phi i64 [ %at_most, %entry ], [ %most_now, %went ]
  %outcome = phi i64 [ {DONE}, %entry ], [ %outcome_now, %went ]
  %flag = load atomic i32, ptr %stop monotonic, align 4
  %stopping = icmp ne i32 %flag, 0
  %has_room = icmp ult i64 %count, %most
  %few = icmp ult i64 %count, {_LOOKS_FIRST}
  %looks_first = select i1 %few, i64 %count, i64 {_LOOKS_FIRST}
  %looked = icmp uge i64 %since, %looks_first
  %may = and i1 %has_room, %looked
  %goes_on = xor i1 %stopping, 1
  %begins = and i1 %may, %goes_on
  br i1 %begins, label %find, label %old
find:
  %has_memory = icmp ne ptr %free, null
  br i1 %has_memory, label %take_free, label %make
make:
  %made = call ptr @new_fiber(ptr %rt, i64 %size)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %old, label %which
take_free:
  %next_free_at = getelementptr i64, ptr %free, i64 {_NEXT_FREE}
  %next_free = load ptr, ptr %next_free_at
  br label %which
which:
  %fiber = phi ptr [ %made, %make ], [ %free, %take_free ]
  %free_left = phi ptr [ null, %make ], [ %next_free, %take_free ]
  %number = call i64 @another(ptr %own, i64 %end, ptr %range, ptr %taken)
  %is_none = icmp slt i64 %number, 0
  br i1 %is_none, label %give_back, label %arrange
give_back:
  %back_at = getelementptr i64, ptr %fiber, i64 {_NEXT_FREE}
  store ptr %free_left, ptr %back_at
  br label %old
arrange:
  br i1 %in_order, label %start, label %look_up
look_up:
  %linear_at = getelementptr i64, ptr %order, i64 %number
  %linear_found = load i64, ptr %linear_at
  br label %start
start:
  %linear = phi i64 [ %number, %arrange ], [ %linear_found, %look_up ]
  %behind = add i64 %linear, 1
  %looks_at = getelementptr i64, ptr %fiber, i64 {RT_LOOKS}
  store i64 0, ptr %looks_at
  %result_at = getelementptr i64, ptr %fiber, i64 {RT_RESULT}
  store i64 {DONE}, ptr %result_at
  %handle_new = call ptr %block(ptr %args, ptr %grid, ptr %fiber, i64 %linear, i64 %behind)
  %handle_at = getelementptr i64, ptr %fiber, i64 {_HANDLE}
  store ptr %handle_new, ptr %handle_at
  %slot = getelementptr ptr, ptr %running, i64 %count
  store ptr %fiber, ptr %slot
  %one_more = add i64 %count, 1
  br label %resume
old:
  ; None is left to begin, or no memory for it: those in flight are all for now.
  %free_old = phi ptr [ %free, %choose ], [ null, %make ], [ %fiber, %give_back ]
  %most_old = phi i64 [ %most, %choose ], [ %count, %make ], [ 0, %give_back ]
  %nobody = icmp eq i64 %count, 0
  br i1 %nobody, label %over, label %turn
turn:
  %following = add i64 %place, 1
  %wraps = icmp uge i64 %following, %count
  %turned = select i1 %wraps, i64 0, i64 %following
  br label %resume
resume:
  %at = phi i64 [ %count, %start ], [ %turned, %turn ]
  %count_then = phi i64 [ %one_more, %start ], [ %count, %turn ]
  %free_then = phi ptr [ %free_left, %start ], [ %free_old, %turn ]
  %most_then = phi i64 [ %most, %start ], [ %most_old, %turn ]
  %since_then = phi i64 [ 0, %start ], [ %since, %turn ]
  %is_new = phi i1 [ 1, %start ], [ 0, %turn ]
  %chosen_at = getelementptr ptr, ptr %running, i64 %at
  %chosen = load ptr, ptr %chosen_at
  %chosen_handle_at = getelementptr i64, ptr %chosen, i64 {_HANDLE}
  %handle = load ptr, ptr %chosen_handle_at
  call void @llvm.coro.resume(ptr %handle)
  %is_done = call i1 @llvm.coro.done(ptr %handle)
  br i1 %is_done, label %ended, label %waits
waits:
  %chosen_looks_at = getelementptr i64, ptr %chosen, i64 {RT_LOOKS}
  %looks = load i64, ptr %chosen_looks_at
  %again_in_vain = icmp ugt i64 %looks, 1
  %old_fiber = xor i1 %is_new, 1
  %in_vain = and i1 %again_in_vain, %old_fiber
  %vain_more = add i64 %vain, 1
  %vain_then = select i1 %in_vain, i64 %vain_more, i64 0
  %since_more = add i64 %since_then, 1
  %round = mul i64 %count_then, {_YIELD_ROUNDS}
  %rest = urem i64 %vain_then, %round
  %long = icmp eq i64 %rest, 0
  %yields = and i1 %in_vain, %long
  br i1 %yields, label %rest_a_while, label %look_on
look_on:
  %whole_round = icmp uge i64 %vain_then, %count_then
  br i1 %whole_round, label %pause, label %look_at_once
pause:
  {PAUSE}
  br label %went_on
look_at_once:
  %something = icmp eq i64 %vain_then, 0
  br i1 %something, label %came, label %went_on
came:
  call void @say(ptr %finished, ptr %said, i32 0)
  br label %went_on
rest_a_while:
  call void @{YIELD_SYMBOL}()
  %rounds = mul i64 %count_then, {_ROUNDS}
  %stuck = icmp uge i64 %vain_then, %rounds
  br i1 %stuck, label %tell, label %went_on
tell:
  call void @say(ptr %finished, ptr %said, i32 1)
  br label %went_on
went_on:
  br label %went
ended:
  %chosen_result_at = getelementptr i64, ptr %chosen, i64 {RT_RESULT}
  %result = load i64, ptr %chosen_result_at
  call void @llvm.coro.destroy(ptr %handle)
  %last = sub i64 %count_then, 1
  %last_at = getelementptr ptr, ptr %running, i64 %last
  %last_fiber = load ptr, ptr %last_at
  store ptr %last_fiber, ptr %chosen_at
  %freed_at = getelementptr i64, ptr %chosen, i64 {_NEXT_FREE}
  store ptr %free_then, ptr %freed_at
  call void @say(ptr %finished, ptr %said, i32 0)
  %good = icmp eq i64 %result, {DONE}
  br i1 %good, label %count_end, label %fail
fail:
  store atomic i32 {STOPPED}, ptr %stop monotonic, align 4
  br label %went
count_end:
  ; The runtime counts as many ends as blocks were given when the call returns.
  %taken_now = load i64, ptr %taken
  %counts = icmp slt i64 %counted, %taken_now
  %one_end = zext i1 %counts to i64
  %counted_more = add i64 %counted, %one_end
  call void @count_ends(ptr %finished, i64 %one_end)
  br label %went
went:
  %count_now = phi i64 [ %count_then, %went_on ], [ %last, %fail ], [ %last, %count_end ]
  %vain_now = phi i64 [ %vain_then, %went_on ], [ 0, %fail ], [ 0, %count_end ]
  %since_now = phi i64 [ %since_more, %went_on ], [ %since_then, %fail ], [ %since_then, %count_end ]
  %counted_now = phi i64 [ %counted, %went_on ], [ %counted, %fail ], [ %counted_more, %count_end ]
  %free_now = phi ptr [ %free_then, %went_on ], [ %chosen, %fail ], [ %chosen, %count_end ]
  %outcome_now = phi i64 [ %outcome, %went_on ], [ %result, %fail ], [ %outcome, %count_end ]
  %most_now = phi i64 [ %most_then, %went_on ], [ %most_then, %fail ], [ %most_then, %count_end ]
  %place_now = phi i64 [ %at, %went_on ], [ %at, %fail ], [ %at, %count_end ]
  br label %choose
over:
  %taken_all = load i64, ptr %taken
  %all_ended = icmp eq i64 %outcome, {DONE}
  %all_counted = select i1 %all_ended, i64 %taken_all, i64 %counted
  %uncounted = sub i64 %all_counted, %counted
  call void @count_ends(ptr %finished, i64 %uncounted)
  call void @come_or_go(ptr %finished, i32 -1)
  br label %release
release:
  %held = phi ptr [ %free_old, %over ], [ %held_next, %next ]
  %all = icmp eq ptr %held, null
  br i1 %all, label %out, label %one
one:
  %held_next_at = getelementptr i64, ptr %held, i64 {_NEXT_FREE}
  %held_next = load ptr, ptr %held_next_at
  %is_first = icmp eq ptr %held, %first
  br i1 %is_first, label %next, label %drop
drop:
  call void @free(ptr %held)
  br label %next
next:
  br label %release
out:
  %own_left = load i64, ptr %own
  %all_begun = icmp sge i64 %own_left, %end
  %code_then = select i1 %all_begun, i64 %outcome, i64 {STOPPED}
  %code = trunc i64 %code_then to i32
  ret i32 %code
}}
"""


@once
def _library() -> Library:
    return library(_IR, [RUN_WAITING])


@once
def waiting_symbols() -> Mapping[str, int]:
    """The address of what runs blocks that wait, by the name under which kernels call it."""
    return {RUN_WAITING: _library().address(RUN_WAITING)}


@dataclass(slots=True)
class _DeadlockWatch:
    """Whether a launch gets on, asked from time to time."""

    state: LaunchState
    seconds: float
    found: str | None = None
    _seen: tuple[int, int] = (-1, -1)
    _since: float = 0.0
    _vain_since: float | None = None
    _looks: int = 0
    """How often in a row it was asked, and all threads saw nothing but looks in vain."""

    def is_over(self) -> bool:
        state, now = self.state, time.process_time()
        finished, begun = seen = state.finished, state.begun
        if seen != self._seen:
            self._seen, self._since, self._vain_since = seen, now, None
            return False
        inside, stuck = state.stalled
        if not inside or stuck < inside:
            self._vain_since = None
        elif self._vain_since is None:
            self._vain_since, self._looks = now, 0
        else:
            self._looks += 1
        if self._vain_since is not None and (
            now - self._vain_since > self.seconds or self._looks > _MOST_LOOKS * self.seconds
        ):
            self.found = f"they have only polled memory for {self.seconds:g} s or more"
        in_flight = begun - finished
        if now - self._since > self.seconds * max(in_flight, 1) and inside:
            self.found = f"none has ended in {self.seconds:g} s of processor time each"
        return self.found is not None

    def error(self) -> TileIRError:
        state = self.state
        in_flight = state.begun - state.finished
        return TileIRError.single(
            DEADLOCK,
            f"{state.finished} of {state.total} tile blocks have ended, and {in_flight} appear "
            f"deadlocked: {self.found}",
            help=f"at least {IN_FLIGHT} tile blocks are in flight at once, the first ones first; "
            "`tilewright run` on the reference machine finds deadlocks exactly",
        )


@contextmanager
def watched_for_deadlock(state: LaunchState, timeout: float = DEADLOCK_TIMEOUT) -> Iterator[None]:
    """While a launch runs whose blocks may wait for one another: it is stopped where they seem to do so for ever.

    That is, if they only poll memory for ``timeout`` seconds of processor time, or none ends in as long for each.
    Raises ``TileIRError`` (``deadlock``) at the end of the context. A block that is alone may wait for another
    launch.
    """
    if state.total == 1:
        yield
        return
    watched = _DeadlockWatch(state, timeout)
    forget = WATCHER.guarded(state, watched.is_over)
    try:
        yield
    finally:
        forget()
    if watched.found is None:
        return
    if state.finished < state.total:
        raise watched.error()
    # What was waited for came after all, just then.
    state.stop = 0
