"""The native loop in which a thread takes blocks of a grid and runs them.

Python is not in it: a thread enters once, takes chunks of consecutive blocks from a counter that all
threads share, and leaves when there are none left, when the run is to stop, or when it has taken as
many chunks as it was allowed (so that the main thread can look for signals).
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tilewright.cpu.abi import ARENA_OWNER, PANELS_READY
from tilewright.cpu.runtime.engine import Library, compile_ir, load_object
from tilewright.cpu.target import GENERIC, cpu_target

ALL_DONE, STOPPED, MORE_TO_DO = 0, 1, 2

_IR = f"""
%runtime = type {{ ptr, ptr, ptr, ptr, ptr, ptr }}
%launch = type {{ ptr, ptr, ptr, ptr, ptr, i64, i64, i64, [8 x i64], i64, i64, i32, i64 }}

@running = internal global i32 0

declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)

define i32 @take_blocks(ptr %launch, ptr %arena, i64 %allowed) {{
  %one_more = atomicrmw add ptr @running, i32 1 monotonic
  %result = call i32 @take_blocks_counted(ptr %launch, ptr %arena, i64 %allowed)
  %one_less = atomicrmw sub ptr @running, i32 1 monotonic
  ret i32 %result
}}

define i32 @is_running() {{
  %count = load atomic i32, ptr @running monotonic, align 4
  ret i32 %count
}}

define internal i32 @take_blocks_counted(ptr %launch, ptr %arena, i64 %allowed) {{
entry:
  %rt = alloca %runtime
  %kernel = load ptr, ptr %launch
  %args_at = getelementptr %launch, ptr %launch, i32 0, i32 1
  %args = load ptr, ptr %args_at
  %grid_at = getelementptr %launch, ptr %launch, i32 0, i32 2
  %grid = load ptr, ptr %grid_at
  %host_at = getelementptr %launch, ptr %launch, i32 0, i32 3
  %host = load ptr, ptr %host_at
  %user_at = getelementptr %launch, ptr %launch, i32 0, i32 4
  %user = load ptr, ptr %user_at
  %total_at = getelementptr %launch, ptr %launch, i32 0, i32 5
  %total = load i64, ptr %total_at
  %chunk_at = getelementptr %launch, ptr %launch, i32 0, i32 6
  %chunk = load i64, ptr %chunk_at
  %shares_at = getelementptr %launch, ptr %launch, i32 0, i32 7
  %shares_given = load i64, ptr %shares_at
  %shares = call i64 @llvm.umax.i64(i64 %shares_given, i64 1)
  %next = getelementptr %launch, ptr %launch, i32 0, i32 9
  %finished = getelementptr %launch, ptr %launch, i32 0, i32 10
  %stop = getelementptr %launch, ptr %launch, i32 0, i32 11
  %serial_at = getelementptr %launch, ptr %launch, i32 0, i32 12
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
  %rt_next = getelementptr %runtime, ptr %rt, i32 0, i32 4
  store ptr %next, ptr %rt_next
  %rt_total = getelementptr %runtime, ptr %rt, i32 0, i32 5
  store ptr %total_at, ptr %rt_total
  br label %again
again:
  %left = phi i64 [ %allowed, %entry ], [ %left_after, %took ]
  %none_left = icmp eq i64 %left, 0
  br i1 %none_left, label %more, label %look
look:
  %flag = load atomic i32, ptr %stop monotonic, align 4
  %stopping = icmp ne i32 %flag, 0
  br i1 %stopping, label %stopped, label %ask
ask:
  %first_seen = load atomic i64, ptr %next monotonic, align 8
  br label %take
take:
  %begin = phi i64 [ %first_seen, %ask ], [ %seen, %try ]
  %over = icmp sge i64 %begin, %total
  br i1 %over, label %done, label %try
try:
  %rest = sub i64 %total, %begin
  %share = udiv i64 %rest, %shares
  %some = call i64 @llvm.umax.i64(i64 %share, i64 1)
  %size = call i64 @llvm.umin.i64(i64 %some, i64 %chunk)
  %end = add i64 %begin, %size
  %exchange = cmpxchg ptr %next, i64 %begin, i64 %end monotonic monotonic
  %seen = extractvalue {{ i64, i1 }} %exchange, 0
  %mine = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %mine, label %run, label %take
run:
  %result = call i32 %kernel(ptr %args, ptr %grid, ptr %rt, i64 %begin, i64 %end)
  %failed = icmp ne i32 %result, 0
  br i1 %failed, label %fail, label %took
took:
  %count = sub i64 %end, %begin
  %before = atomicrmw add ptr %finished, i64 %count monotonic
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
"""


_serials = itertools.count(1)


class LaunchState(ctypes.Structure):
    """One launch, as the native loop sees it.

    A chunk is one of ``shares`` equal parts of the blocks that are left, but at most ``chunk`` of
    them: chunks get smaller towards the end, so that all threads end together. ``next`` is the first
    block that nobody has taken, ``finished`` counts blocks. What changes stands in other cache lines
    than what does not.
    """

    _fields_ = (
        ("kernel", ctypes.c_void_p),
        ("args", ctypes.c_void_p),
        ("grid", ctypes.c_void_p),
        ("host_call", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
        ("total", ctypes.c_int64),
        ("chunk", ctypes.c_int64),
        ("shares", ctypes.c_int64),
        ("_space", ctypes.c_int64 * 8),
        ("next", ctypes.c_int64),
        ("finished", ctypes.c_int64),
        ("stop", ctypes.c_int32),
        ("serial", ctypes.c_int64),
    )

    def __init__(self, *values: int) -> None:
        super().__init__(*values)
        self.serial = next(_serials)


@dataclass(frozen=True, slots=True)
class Driver:
    """``take_blocks(state, arena, allowed chunks)`` gives ALL_DONE, STOPPED or MORE_TO_DO."""

    take_blocks: Callable[[int, int, int], int]
    is_running_address: int
    """``i32 ()``: whether a thread is in the loop; may be called by a signal handler."""
    _library: Library


@cache
def driver() -> Driver:
    """The loop as native code; compiled when first used."""
    target = cpu_target(GENERIC)
    library = load_object(compile_ir(_IR, target), target, ["take_blocks", "is_running"])
    signature = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return Driver(signature(library.address("take_blocks")), library.address("is_running"), library)
