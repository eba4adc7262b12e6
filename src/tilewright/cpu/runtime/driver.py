"""The native loop in which a thread takes blocks of a grid and runs them.

Python is not involved: a thread enters once, takes chunks of consecutive blocks from counters that all threads share, and
leaves when none are left, when the run is to stop, or when it has taken as many chunks as it was allowed (so that the main
thread can look for signals).

A helping thread stays in native code for a moment when it is done (``serve``). If the next launch comes at once, it finds
the thread awake on a processor of its own, like the threads of OpenMP and OpenBLAS.
"""

from __future__ import annotations

import ctypes
import itertools
import platform
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.cpu.abi import (
    ARENA_OWNER,
    PANELS_READY,
    RT_ALONE,
    RT_ORDER,
    RT_RANGE,
    RT_SIGNALS,
    RT_WHERE,
)
from tilewright.cpu.runtime.engine import Library
from tilewright.cpu.runtime.libraries import library
from tilewright.cpu.runtime.once import once

#: How a thread leaves the loop: none is left to take, but others may still run some; it is to stop; it
#: has taken as many as it was allowed; all blocks of all threads have run.
ALL_DONE, STOPPED, MORE_TO_DO, FINISHED = 0, 1, 2, 3

#: What a mailbox says: its thread waits in Python, or in native code; or it has a job.
_AWAY, _LINGERS, HAS_JOB = 0, 1, 2
#: Nanoseconds for which a thread without a job stays in native code.
_LINGERING = 1_000_000 if hasattr(time, "CLOCK_MONOTONIC") else 0
_CLOCK = getattr(time, "CLOCK_MONOTONIC", 0)
_LOOKS = 64
#: How often a thread that has ended its part, and is about to say so, is looked at.
_LOOKS_FOR_END = 4000
_NO_LIMIT = 1 << 62
_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
PAUSE_DECLARED, PAUSE = _PAUSES.get(
    {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine()), ("", "")
)

#: Words of a launch: what handles signals, what stops it, and where it was then.
SIGNALS = 9
_FINISHED, _STOP, _WHERE, _STALLED = 18, 19, 20, 23
STALLED_BEHIND = 8 * (_STALLED - _FINISHED)
"""How many bytes behind ``finished`` lies what threads say of blocks that wait (``abi``)."""
#: The words of a range: its next block, and the one behind the last; the next range lies in another
#: cache line. A launch has room for some.
_RANGE, _ROOM = 8, 8
_NO_RANGES = (0,) * (_RANGE * _ROOM)
_RANGES_AT = 24

_IR = f"""
%runtime = type {{ ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, i64, ptr }}
%launch = type {{
  ptr, ptr, ptr, i64, i64, i64, ptr, i64, i64, [7 x i64], i64, i64, i64, i32, [4 x i64],
  [{_ROOM} x %range], i32, i32, i32, i32, [0 x i64]
}}
%range = type {{ i64, i64, [6 x i64] }}

@running = internal global i32 0

declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

define i32 @take_blocks(ptr %launch, ptr %arena, i64 %allowed, i64 %me) {{
  %one_more = atomicrmw add ptr @running, i32 1 monotonic
  %result = call i32 @take_blocks_counted(ptr %launch, ptr %arena, i64 %allowed, i64 %me)
  %one_less = atomicrmw sub ptr @running, i32 1 monotonic
  ret i32 %result
}}

define i32 @is_running() {{
  %count = load atomic i32, ptr @running monotonic, align 4
  ret i32 %count
}}

define internal i32 @take_blocks_counted(ptr %launch, ptr %arena, i64 %allowed, i64 %me) {{
entry:
  %rt = alloca %runtime
  %kernel = load ptr, ptr %launch
  %host_at = getelementptr %launch, ptr %launch, i32 0, i32 1
  %host = load ptr, ptr %host_at
  %user_at = getelementptr %launch, ptr %launch, i32 0, i32 2
  %user = load ptr, ptr %user_at
  %chunk_at = getelementptr %launch, ptr %launch, i32 0, i32 4
  %chunk = load i64, ptr %chunk_at
  %shares_at = getelementptr %launch, ptr %launch, i32 0, i32 5
  %shares_given = load i64, ptr %shares_at
  %shares = call i64 @llvm.umax.i64(i64 %shares_given, i64 1)
  %ranges_at = getelementptr %launch, ptr %launch, i32 0, i32 6
  %ranges_given = load ptr, ptr %ranges_at
  %count_at = getelementptr %launch, ptr %launch, i32 0, i32 7
  %count_given = load i64, ptr %count_at
  %serial_at = getelementptr %launch, ptr %launch, i32 0, i32 8
  %all = getelementptr %launch, ptr %launch, i32 0, i32 10
  %finished = getelementptr %launch, ptr %launch, i32 0, i32 12
  %stop = getelementptr %launch, ptr %launch, i32 0, i32 13
  %grid = getelementptr %launch, ptr %launch, i32 0, i32 16
  %args = getelementptr %launch, ptr %launch, i32 0, i32 20
  %split = icmp ne ptr %ranges_given, null
  %ranges = select i1 %split, ptr %ranges_given, ptr %all
  %count = select i1 %split, i64 %count_given, i64 1
  %serial = load i64, ptr %serial_at
  %owner_at = getelementptr i8, ptr %arena, i64 {ARENA_OWNER}
  %ready_at = getelementptr i8, ptr %arena, i64 {PANELS_READY}
  %owner = load i64, ptr %owner_at
  %ready = load i64, ptr %ready_at
  %ours = icmp eq i64 %owner, %serial
  %still_ready = select i1 %ours, i64 %ready, i64 0
  store i64 %serial, ptr %owner_at
  store i64 %still_ready, ptr %ready_at
  store ptr %arena, ptr %rt
  %rt_host = getelementptr %runtime, ptr %rt, i32 0, i32 1
  store ptr %host, ptr %rt_host
  %rt_user = getelementptr %runtime, ptr %rt, i32 0, i32 2
  store ptr %user, ptr %rt_user
  %rt_stop = getelementptr %runtime, ptr %rt, i32 0, i32 3
  store ptr %stop, ptr %rt_stop
  %rt_next = getelementptr %runtime, ptr %rt, i32 0, i32 {RT_RANGE}
  %rt_finished = getelementptr %runtime, ptr %rt, i32 0, i32 5
  store ptr %finished, ptr %rt_finished
  %signals_at = getelementptr %launch, ptr %launch, i32 0, i32 9
  %signals_given = load ptr, ptr %signals_at
  %launches = icmp eq i64 %me, 0
  %signals = select i1 %launches, ptr %signals_given, ptr null
  %rt_signals = getelementptr %runtime, ptr %rt, i32 0, i32 {RT_SIGNALS}
  store ptr %signals, ptr %rt_signals
  %where = getelementptr %launch, ptr %launch, i32 0, i32 14
  %rt_where = getelementptr %runtime, ptr %rt, i32 0, i32 {RT_WHERE}
  store ptr %where, ptr %rt_where
  %alone_at = getelementptr %launch, ptr %launch, i32 0, i32 9, i32 1
  %alone = load i64, ptr %alone_at
  %rt_alone = getelementptr %runtime, ptr %rt, i32 0, i32 {RT_ALONE}
  store i64 %alone, ptr %rt_alone
  %order_at = getelementptr %launch, ptr %launch, i32 0, i32 9, i32 2
  %order = load ptr, ptr %order_at
  %rt_order = getelementptr %runtime, ptr %rt, i32 0, i32 {RT_ORDER}
  store ptr %order, ptr %rt_order
  br label %again
again:
  %left = phi i64 [ %allowed, %entry ], [ %left_after, %took ]
  %passed_before = phi i64 [ 0, %entry ], [ %passed, %took ]
  %none_left = icmp eq i64 %left, 0
  br i1 %none_left, label %more, label %look
look:
  %flag = load atomic i32, ptr %stop monotonic, align 4
  %stopping = icmp ne i32 %flag, 0
  br i1 %stopping, label %stopped, label %ask
ask:
  %passed = phi i64 [ %passed_before, %look ], [ %passed_more, %further ]
  %sum = add i64 %me, %passed
  %number = urem i64 %sum, %count
  %next = getelementptr %range, ptr %ranges, i64 %number
  %bound_at = getelementptr %range, ptr %next, i32 0, i32 1
  %bound = load i64, ptr %bound_at
  %first_seen = load atomic i64, ptr %next monotonic, align 8
  br label %take
take:
  %begin = phi i64 [ %first_seen, %ask ], [ %seen, %try ]
  %over = icmp sge i64 %begin, %bound
  br i1 %over, label %further, label %try
further:
  %passed_more = add i64 %passed, 1
  %none = icmp uge i64 %passed_more, %count
  br i1 %none, label %done, label %ask
try:
  %rest = sub i64 %bound, %begin
  %share = udiv i64 %rest, %shares
  %some = call i64 @llvm.umax.i64(i64 %share, i64 1)
  %size = call i64 @llvm.umin.i64(i64 %some, i64 %chunk)
  %end = add i64 %begin, %size
  %exchange = cmpxchg ptr %next, i64 %begin, i64 %end monotonic monotonic
  %seen = extractvalue {{ i64, i1 }} %exchange, 0
  %mine = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %mine, label %run, label %take
run:
  store ptr %next, ptr %rt_next
  %result = call i32 %kernel(ptr %args, ptr %grid, ptr %rt, i64 %begin, i64 %end)
  %failed = icmp ne i32 %result, 0
  br i1 %failed, label %fail, label %took
took:
  %size_done = sub i64 %end, %begin
  %before = atomicrmw add ptr %finished, i64 %size_done release
  %left_after = sub i64 %left, 1
  br label %again
fail:
  store atomic i32 %result, ptr %stop monotonic, align 4
  br label %stopped
done:
  ret i32 {ALL_DONE}
stopped:
  ret i32 {STOPPED}
more:
  ret i32 {MORE_TO_DO}
}}

{PAUSE_DECLARED}

define i32 @work(ptr %launch, ptr %arena, i64 %allowed, i64 %looks) {{
entry:
  %result = call i32 @take_blocks(ptr %launch, ptr %arena, i64 %allowed, i64 0)
  %all_taken = icmp eq i32 %result, {ALL_DONE}
  br i1 %all_taken, label %wait, label %out
out:
  ret i32 %result
wait:
  %total_at = getelementptr %launch, ptr %launch, i32 0, i32 3
  %total = load i64, ptr %total_at
  %finished_at = getelementptr %launch, ptr %launch, i32 0, i32 12
  br label %look
look:
  %number = phi i64 [ 0, %wait ], [ %following, %again ]
  %finished = load atomic i64, ptr %finished_at acquire, align 8
  %is_finished = icmp sge i64 %finished, %total
  br i1 %is_finished, label %all, label %again
again:
  {PAUSE}
  %following = add i64 %number, 1
  %further = icmp slt i64 %following, %looks
  br i1 %further, label %look, label %some
all:
  ret i32 {FINISHED}
some:
  ret i32 {ALL_DONE}
}}

define internal void @set_back(ptr %launch, i64 %signals, i64 %serial) {{
  %serial_at = getelementptr i64, ptr %launch, i64 8
  store i64 %serial, ptr %serial_at
  %signals_at = getelementptr i64, ptr %launch, i64 {SIGNALS}
  store i64 %signals, ptr %signals_at
  %next_at = getelementptr i64, ptr %launch, i64 16
  store i64 0, ptr %next_at
  %finished_at = getelementptr i64, ptr %launch, i64 18
  store i64 0, ptr %finished_at
  %stop_at = getelementptr i64, ptr %launch, i64 {_STOP}
  store i64 0, ptr %stop_at
  %where_at = getelementptr i64, ptr %launch, i64 {_WHERE}
  store i64 0, ptr %where_at
  ret void
}}

define i32 @again(ptr %launch, ptr %arena, i64 %allowed, i64 %signals, i64 %serial) {{
  call void @set_back(ptr %launch, i64 %signals, i64 %serial)
  %result = call i32 @work(ptr %launch, ptr %arena, i64 %allowed, i64 1)
  ret i32 %result
}}

; Whether a thread waits in native code; one that is about to says so soon.
define internal i1 @lingers(ptr %box) {{
entry:
  br label %look
look:
  %number = phi i64 [ 0, %entry ], [ %following, %again ]
  %state = load atomic i32, ptr %box acquire, align 4
  %works = icmp eq i32 %state, {HAS_JOB}
  br i1 %works, label %again, label %out
again:
  {PAUSE}
  %following = add i64 %number, 1
  %further = icmp slt i64 %following, {_LOOKS_FOR_END}
  br i1 %further, label %look, label %out
out:
  %is = icmp eq i32 %state, {_LINGERS}
  ret i1 %is
}}

define i32 @are_there(ptr %boxes, i64 %count) {{
entry:
  br label %each
each:
  %number = phi i64 [ 0, %entry ], [ %following, %there ]
  %box_at = getelementptr ptr, ptr %boxes, i64 %number
  %box = load ptr, ptr %box_at
  %is = call i1 @lingers(ptr %box)
  br i1 %is, label %there, label %away
there:
  %following = add i64 %number, 1
  %further = icmp slt i64 %following, %count
  br i1 %further, label %each, label %all
all:
  ret i32 1
away:
  ret i32 0
}}

define i32 @together(ptr %launch, ptr %arena, i64 %allowed, i64 %signals, i64 %serial,
                     ptr %boxes, i64 %count, i64 %looks) {{
entry:
  call void @set_back(ptr %launch, i64 %signals, i64 %serial)
  %ranges_at = getelementptr i64, ptr %launch, i64 6
  %ranges = load ptr, ptr %ranges_at
  %total_at = getelementptr i64, ptr %launch, i64 3
  %total = load i64, ptr %total_at
  %threads = add i64 %count, 1
  br label %range
range:
  %number = phi i64 [ 0, %entry ], [ %following, %range ]
  %begin = phi i64 [ 0, %entry ], [ %end, %range ]
  %following = add i64 %number, 1
  %share = mul i64 %total, %following
  %end = udiv i64 %share, %threads
  %range_at = getelementptr %range, ptr %ranges, i64 %number
  %end_at = getelementptr i64, ptr %range_at, i64 1
  store i64 %begin, ptr %range_at
  store i64 %end, ptr %end_at
  %further = icmp ult i64 %number, %count
  br i1 %further, label %range, label %ranged
ranged:
  br label %post
post:
  %helper = phi i64 [ 0, %ranged ], [ %next_helper, %posted ]
  %box_at = getelementptr ptr, ptr %boxes, i64 %helper
  %box = load ptr, ptr %box_at
  %state = load atomic i32, ptr %box acquire, align 4
  %waits = icmp eq i32 %state, {_LINGERS}
  br i1 %waits, label %fill, label %posted
fill:
  ; Only this thread gives it work, so that it reads this when it has the job, or not at all.
  %launch_at = getelementptr i8, ptr %box, i64 8
  store ptr %launch, ptr %launch_at
  %number_at = getelementptr i8, ptr %box, i64 24
  %its_number = add i64 %helper, 1
  store i64 %its_number, ptr %number_at
  %exchange = cmpxchg ptr %box, i32 {_LINGERS}, i32 {HAS_JOB} acq_rel acquire
  br label %posted
posted:
  %next_helper = add i64 %helper, 1
  %more = icmp ult i64 %next_helper, %count
  br i1 %more, label %post, label %begin_work
begin_work:
  %result = call i32 @work(ptr %launch, ptr %arena, i64 %allowed, i64 %looks)
  ret i32 %result
}}

declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() {{
  %time = alloca {{ i64, i64 }}
  %failed = call i32 @clock_gettime(i32 {_CLOCK}, ptr %time)
  %seconds = load i64, ptr %time
  %rest_at = getelementptr {{ i64, i64 }}, ptr %time, i32 0, i32 1
  %rest = load i64, ptr %rest_at
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}}

define internal i1 @comes(ptr %box, i32 %wanted, i64 %looks) {{
entry:
  br label %look
look:
  %number = phi i64 [ 0, %entry ], [ %following, %other ]
  %state = load atomic i32, ptr %box acquire, align 4
  %is = icmp eq i32 %state, %wanted
  br i1 %is, label %yes, label %other
other:
  {PAUSE}
  %following = add i64 %number, 1
  %further = icmp slt i64 %following, %looks
  br i1 %further, label %look, label %no
yes:
  ret i1 1
no:
  ret i1 0
}}

define void @serve(ptr %box) {{
entry:
  %launch_at = getelementptr i8, ptr %box, i64 8
  %arena_at = getelementptr i8, ptr %box, i64 16
  %number_at = getelementptr i8, ptr %box, i64 24
  %asked = load atomic i32, ptr %box acquire, align 4
  %has_job = icmp eq i32 %asked, {HAS_JOB}
  br i1 %has_job, label %job, label %out
job:
  %launch = load ptr, ptr %launch_at
  %arena = load ptr, ptr %arena_at
  %me = load i64, ptr %number_at
  %result = call i32 @take_blocks(ptr %launch, ptr %arena, i64 {_NO_LIMIT}, i64 %me)
  store atomic i32 {_LINGERS}, ptr %box release, align 4
  %since = call i64 @now()
  br label %linger
linger:
  %next = call i1 @comes(ptr %box, i32 {HAS_JOB}, i64 {_LOOKS})
  br i1 %next, label %job, label %clock
clock:
  %time = call i64 @now()
  %passed = sub i64 %time, %since
  %waits = icmp slt i64 %passed, {_LINGERING}
  br i1 %waits, label %linger, label %leave
leave:
  %exchange = cmpxchg ptr %box, i32 {_LINGERS}, i32 {_AWAY} acq_rel acquire
  %left = extractvalue {{ i32, i1 }} %exchange, 1
  br i1 %left, label %out, label %job
out:
  ret void
}}

define i32 @post(ptr %box) {{
  %exchange = cmpxchg ptr %box, i32 {_LINGERS}, i32 {HAS_JOB} acq_rel acquire
  %taken = extractvalue {{ i32, i1 }} %exchange, 1
  br i1 %taken, label %there, label %away
there:
  ret i32 1
away:
  store atomic i32 {HAS_JOB}, ptr %box release, align 4
  ret i32 0
}}

define i32 @is_done(ptr %box, i64 %looks) {{
entry:
  br label %look
look:
  %number = phi i64 [ 0, %entry ], [ %following, %again ]
  %state = load atomic i32, ptr %box acquire, align 4
  %works = icmp eq i32 %state, {HAS_JOB}
  br i1 %works, label %again, label %yes
again:
  {PAUSE}
  %following = add i64 %number, 1
  %further = icmp slt i64 %following, %looks
  br i1 %further, label %look, label %no
yes:
  ret i32 1
no:
  ret i32 0
}}
"""


_serials = itertools.count(1)


_WORD = 8
_UNSIGNED = "Q"
#: What asks for attention is the upper half of a word, which is not written as a whole: threads write
#: to the lower one.
_ATTENTION, _ATTENTION_AT = ctypes.c_int32, _STOP * _WORD + 4
_LOW = (1 << 32) - 1


def _word(place: int) -> Any:
    def read(self: LaunchState) -> int:
        return self.words[place]

    def write(self: LaunchState, value: int) -> None:
        self.words[place] = value

    return property(read, write)


class LaunchState:
    """One launch, as the native loop sees it; ``keep`` lives as long.

    All is in one array of words, with the grid and the slots that the kernel reads: a launch that
    follows a large one finds cold caches, and feels every object that it makes.

    The blocks lie in ranges: one for all threads, from ``next`` to its end, or, after ``divide``, one
    for each thread, so that blocks side by side, which often read the same memory, run on one thread.
    A thread takes chunks from the front of its own range, and then from the others. A chunk is one of
    ``shares`` equal parts of what is left, but at most ``chunk`` blocks: chunks get smaller towards the
    end, so that all threads end together. ``finished`` counts blocks. What changes stands in other
    cache lines than what does not.
    """

    host_call, user, total = _word(1), _word(2), _word(3)
    chunk, shares, _ranges_at, _range_count = _word(4), _word(5), _word(6), _word(7)
    alone = _word(10)
    _order_at = _word(11)
    next, finished = _word(16), _word(_FINISHED)
    #: Whether the launch was stopped because its time was over.
    expired = False

    def __init__(
        self,
        kernel: int,
        slots: Sequence[int],
        grid: tuple[int, int, int],
        keep: object = None,
        threads: int = 1,
    ) -> None:
        # In the order of ``%launch``.
        x, y, z = grid
        total = x * y * z
        steady = kernel, 0, 0, total, 1, 0, 0, 0, next(_serials), 0, 0, 0, 0, 0, 0, 0
        changing = 0, total, 0, 0, 0, 0, 0, 0
        words = (*steady, *changing, *_NO_RANGES, x | y << 32, z | threads << 32, *slots)
        self.words = array(_UNSIGNED, words)
        self.address = self.words.buffer_info()[0]
        self.keep = keep
        self._ranges = self.words
        self._order: array[int] | None = None

    def copy(self) -> LaunchState:
        """The same launch once more, for which nothing has been taken yet."""
        words = self.words
        grid = self.grid_address - self.address
        extents = words[grid // _WORD : grid // _WORD + 2]
        x, y, z, threads = extents[0] & _LOW, extents[0] >> 32, extents[1] & _LOW, extents[1] >> 32
        slots = words[grid // _WORD + 2 :]
        return LaunchState(words[0], slots, (x, y, z), self.keep, threads)

    def divide(self, threads: int, ends: Sequence[int] = ()) -> None:
        """Give each thread a range of its own: of equally many blocks, unless ``ends`` says where each but
        the last one ends."""
        ranges, place, address = self.words, _RANGES_AT, self.address
        if threads > _ROOM:
            self._ranges = ranges = array(_UNSIGNED, bytes(_WORD * _RANGE * threads))
            place, address = 0, ranges.buffer_info()[0]
        self._ranges_at, self._range_count = address + _WORD * place, threads
        total, begin = self.total, 0
        ends = ends or [total * number // threads for number in range(1, threads)]
        for end in (*ends, total):
            ranges[place], ranges[place + 1] = begin, end
            begin, place = end, place + _RANGE

    def arrange(self, order: array[int]) -> None:
        """Let blocks that may wait begin in this order, a permutation of their numbers."""
        self._order, self._order_at = order, order.buffer_info()[0]

    @property
    def begun(self) -> int:
        """How many blocks threads have taken."""
        if not self._range_count:
            return min(self.next, self.total)
        count, begin = 0, 0
        for following, end in self._parts():
            count += min(following, end) - begin
            begin = end
        return count

    @property
    def arranged(self) -> tuple[list[int], list[tuple[int, int]]]:
        """The order of blocks, if one was given, and the ranges of threads in it, if there are any."""
        return list(self._order or ()), self._parts()

    def _parts(self) -> list[tuple[int, int]]:
        """The next block of each thread's range, and its end."""
        place = _RANGES_AT if self._ranges is self.words else 0
        places = range(place, place + _RANGE * self._range_count, _RANGE)
        return [(self._ranges[each], self._ranges[each + 1]) for each in places]

    @property
    def shared_by(self) -> int:
        """How many threads have ranges of their own; 0 where none has."""
        return self._range_count

    @property
    def grid_address(self) -> int:
        """Where the extents of the grid lie."""
        return self.address + _WORD * (_RANGES_AT + len(_NO_RANGES))

    @property
    def slots_address(self) -> int:
        """The address of the arguments' slots."""
        return self.grid_address + 2 * _WORD

    @staticmethod
    def new_serial() -> int:
        """The number of another launch."""
        return next(_serials)

    @property
    def stop(self) -> int:
        """Nonzero where the run is to end early. Beside it stands what asks for attention."""
        return self.words[_STOP] & _LOW

    @stop.setter
    def stop(self, value: int) -> None:
        self.words[_STOP] = value

    def attract(self) -> None:
        """Ask the loops of the kernel to look at signals (``abi``)."""
        _ATTENTION.from_address(self.address + _ATTENTION_AT).value = 1

    @property
    def stopped_in(self) -> tuple[int, tuple[int, int, int]] | None:
        """The number of the loop, from 0, and the tile block that was in it when the run was stopped; None
        where it was in no loop."""
        number, plane, z = self.words[_WHERE : _WHERE + 3]
        return (number - 1, (plane & _LOW, plane >> 32, z)) if number else None

    @property
    def stalled(self) -> tuple[int, int]:
        """How many threads run blocks that may wait, and how many see nothing but looks in vain."""
        word = self.words[_STALLED]
        return word & _LOW, word >> 32

    @property
    def memory(self) -> object:
        """What the native loop looks at, apart from what the kernel does."""
        return self.words, self._ranges, self._order


class Mailbox(ctypes.Structure):
    """What a helping thread is to do: a launch, the arena that it has for it, and its number there."""

    _fields_ = (
        ("state", ctypes.c_int32),
        ("launch", ctypes.c_void_p),
        ("arena", ctypes.c_void_p),
        ("number", ctypes.c_int64),
        ("_space", ctypes.c_int64 * 12),
    )


@dataclass(frozen=True, slots=True)
class Driver:
    """The native functions.

    ``take_blocks(launch, arena, allowed chunks, number of the thread)`` gives ALL_DONE, STOPPED or
    MORE_TO_DO. ``work(launch, arena, allowed chunks, looks)`` is for the thread that launches, whose
    number is 0: when none is left to take it looks that many times whether the others are through, and
    gives FINISHED if so. ``again(launch, arena, allowed chunks, address of what handles signals, serial)`` does
    that for a launch that is over, anew, on the calling thread alone; ``together(..., boxes, count, looks)`` with the
    threads of so many mailboxes, as far as they are in ``serve`` and do nothing, and ``are_there(boxes, count)`` tells
    whether all are. Their arenas must be in the mailboxes, and the launch divided for them. ``serve(box)`` does the job of a mailbox, if there is one, and those that come soon
    afterwards. ``post(box)``: there is a job; not 0 if the thread is in ``serve``, else someone must
    call that. ``is_done(box, looks)``: whether the job is done, after that many looks at the most.
    """

    take_blocks: Callable[[int, int, int, int], int]
    work: Callable[[int, int, int, int], int]
    again: Callable[[int, int, int, int, int], int]
    together: Callable[[int, int, int, int, int, int, int, int], int]
    are_there: Callable[[int, int], int]
    serve: Callable[[int], None]
    post: Callable[[int], int]
    is_done: Callable[[int, int], int]
    again_address: int
    is_running_address: int
    """``i32 ()``: whether a thread is in the loop; may be called by a signal handler."""
    _library: Library


@once
def driver() -> Driver:
    """The functions as native code; compiled when first used. Raises ``TileIRError`` (``jit-failed``) where that
    fails.
    """
    names = (
        "take_blocks",
        "work",
        "again",
        "together",
        "are_there",
        "serve",
        "post",
        "is_done",
        "is_running",
    )
    found = library(_IR, names)
    pointer, word, wide = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64

    def function(name: str, *signature: object) -> Any:
        return ctypes.CFUNCTYPE(*signature)(found.address(name))  # pyright: ignore[reportArgumentType]

    return Driver(
        function("take_blocks", word, pointer, pointer, wide, wide),
        function("work", word, pointer, pointer, wide, wide),
        function("again", word, pointer, pointer, wide, wide, wide),
        function("together", word, pointer, pointer, wide, wide, wide, pointer, wide, wide),
        function("are_there", word, pointer, wide),
        function("serve", None, pointer),
        function("post", word, pointer),
        function("is_done", word, pointer, wide),
        found.address("again"),
        found.address("is_running"),
        found,
    )
