"""The native loop in which a thread takes blocks of a grid and runs them.

Python is not in it: a thread enters once, takes chunks of consecutive blocks from a counter that all
threads share, and leaves when there are none left, when the run is to stop, or when it has taken as
many chunks as it was allowed (so that the main thread can look for signals).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tilewright.cpu.runtime.engine import Library, compile_ir, load_object
from tilewright.cpu.target import GENERIC, cpu_target

ALL_DONE, STOPPED, MORE_TO_DO = 0, 1, 2

_IR = f"""
%runtime = type {{ ptr, ptr, ptr, ptr }}
%launch = type {{ ptr, ptr, ptr, ptr, ptr, i64, i64, [8 x i64], i64, i64, i32 }}

@running = internal global i32 0

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
  %next = getelementptr %launch, ptr %launch, i32 0, i32 8
  %finished = getelementptr %launch, ptr %launch, i32 0, i32 9
  %stop = getelementptr %launch, ptr %launch, i32 0, i32 10
  store ptr %arena, ptr %rt
  %rt_host = getelementptr %runtime, ptr %rt, i32 0, i32 1
  store ptr %host, ptr %rt_host
  %rt_user = getelementptr %runtime, ptr %rt, i32 0, i32 2
  store ptr %user, ptr %rt_user
  %rt_stop = getelementptr %runtime, ptr %rt, i32 0, i32 3
  store ptr %stop, ptr %rt_stop
  br label %again
again:
  %left = phi i64 [ %allowed, %entry ], [ %left_after, %took ]
  %none_left = icmp eq i64 %left, 0
  br i1 %none_left, label %more, label %look
look:
  %flag = load atomic i32, ptr %stop monotonic, align 4
  %stopping = icmp ne i32 %flag, 0
  br i1 %stopping, label %stopped, label %take
take:
  %begin = atomicrmw add ptr %next, i64 %chunk monotonic
  %over = icmp sge i64 %begin, %total
  br i1 %over, label %done, label %run
run:
  %full = add i64 %begin, %chunk
  %cut = icmp sgt i64 %full, %total
  %end = select i1 %cut, i64 %total, i64 %full
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


class LaunchState(ctypes.Structure):
    """One launch, as the native loop sees it.

    ``next`` is the first block that nobody has taken, ``finished`` counts blocks. What changes
    stands in other cache lines than what does not.
    """

    _fields_ = (
        ("kernel", ctypes.c_void_p),
        ("args", ctypes.c_void_p),
        ("grid", ctypes.c_void_p),
        ("host_call", ctypes.c_void_p),
        ("user", ctypes.c_void_p),
        ("total", ctypes.c_int64),
        ("chunk", ctypes.c_int64),
        ("_space", ctypes.c_int64 * 8),
        ("next", ctypes.c_int64),
        ("finished", ctypes.c_int64),
        ("stop", ctypes.c_int32),
    )


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
