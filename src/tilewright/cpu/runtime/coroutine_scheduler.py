"""The native scheduler of agents: picks the coroutine that runs when one of a tile block must wait.

A coroutine is an agent or, as the first one, the tile block itself. Agents are LLVM coroutines; the tile block runs on its
thread's stack and calls the scheduler where it must wait, which resumes the others, one at a time, until the block can
continue. Live coroutines form a ring, in the order in which they were started. After one that waits comes the next
that can continue; one that was just started runs at once.

``abi`` defines how coroutines and queues lie in memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.cpu.abi import (
    ALL_WAIT,
    CAN_GO_ON,
    COROUTINE_TYPE,
    END_COROUTINES,
    LIST_COROUTINES,
    LOOKED,
    LOOKS,
    RUN_COROUTINES,
    STARTS,
    TO_STOP,
    UNTIL_ENDED,
    UNTIL_MORE,
    UNTIL_ROOM,
    WENT_ON,
)
from tilewright.cpu.runtime.engine import Library
from tilewright.cpu.runtime.libraries import library
from tilewright.cpu.runtime.once import once

_SYMBOLS = (CAN_GO_ON, RUN_COROUTINES, END_COROUTINES, LIST_COROUTINES)

_IR = f"""
%coroutine = type {COROUTINE_TYPE}
%queue = type {{ i64, i64, i64 }}

declare void @llvm.coro.resume(ptr)
declare void @llvm.coro.destroy(ptr)
declare i1 @llvm.coro.done(ptr)

define i1 @{CAN_GO_ON}(ptr %coroutine) {{
  %kind_at = getelementptr %coroutine, ptr %coroutine, i32 0, i32 3
  %kind = load i32, ptr %kind_at
  %object_at = getelementptr %coroutine, ptr %coroutine, i32 0, i32 5
  %object = load ptr, ptr %object_at
  switch i32 %kind, label %yes [
    i32 {UNTIL_ENDED}, label %ended
    i32 {UNTIL_MORE}, label %more
    i32 {UNTIL_ROOM}, label %room
  ]
yes:
  ret i1 1
ended:
  %ended_at = getelementptr %coroutine, ptr %object, i32 0, i32 7
  %flag = load i32, ptr %ended_at
  %is_over = icmp ne i32 %flag, 0
  ret i1 %is_over
more:
  %consumer_at = getelementptr %coroutine, ptr %coroutine, i32 0, i32 6
  %consumer = load i64, ptr %consumer_at
  %all_taken = getelementptr %queue, ptr %object, i32 1
  %taken_at = getelementptr i64, ptr %all_taken, i64 %consumer
  %taken = load i64, ptr %taken_at
  %put_at = getelementptr %queue, ptr %object, i32 0, i32 1
  %put = load i64, ptr %put_at
  %has_more = icmp slt i64 %taken, %put
  ret i1 %has_more
room:
  %depth = load i64, ptr %object
  %given_at = getelementptr %queue, ptr %object, i32 0, i32 1
  %given = load i64, ptr %given_at
  %count_at = getelementptr %queue, ptr %object, i32 0, i32 2
  %count = load i64, ptr %count_at
  %first = getelementptr %queue, ptr %object, i32 1
  br label %each
each:
  %number = phi i64 [ 0, %room ], [ %following, %each ]
  %least = phi i64 [ %given, %room ], [ %lesser, %each ]
  %at = getelementptr i64, ptr %first, i64 %number
  %had = load i64, ptr %at
  %is_less = icmp slt i64 %had, %least
  %lesser = select i1 %is_less, i64 %had, i64 %least
  %following = add i64 %number, 1
  %further = icmp slt i64 %following, %count
  br i1 %further, label %each, label %known
known:
  %held = sub i64 %given, %lesser
  %has_room = icmp slt i64 %held, %depth
  ret i1 %has_room
}}

define i32 @{RUN_COROUTINES}(ptr %main, ptr %wanted, ptr %stop) {{
entry:
  br label %search
search:
  %from = phi ptr [ %wanted, %entry ], [ %next, %ended ], [ %chosen, %yielded ]
  br label %look
look:
  %coroutine = phi ptr [ %from, %search ], [ %second, %other ]
  %ready = call i1 @{CAN_GO_ON}(ptr %coroutine)
  br i1 %ready, label %found, label %other
other:
  %second_at = getelementptr %coroutine, ptr %coroutine, i32 0, i32 1
  %second = load ptr, ptr %second_at
  %around = icmp eq ptr %second, %from
  br i1 %around, label %nobody, label %look
found:
  %kind_at = getelementptr %coroutine, ptr %coroutine, i32 0, i32 3
  store i32 0, ptr %kind_at
  %is_main = icmp eq ptr %coroutine, %main
  br i1 %is_main, label %back, label %resume
resume:
  %event_at = getelementptr %coroutine, ptr %coroutine, i32 0, i32 8
  store i32 0, ptr %event_at
  %handle = load ptr, ptr %coroutine
  call void @llvm.coro.resume(ptr %handle)
  %flag = load atomic i32, ptr %stop monotonic, align 4
  %stopping = icmp ne i32 %flag, 0
  br i1 %stopping, label %stopped, label %after
after:
  %next_at = getelementptr %coroutine, ptr %coroutine, i32 0, i32 1
  %next = load ptr, ptr %next_at
  %done = call i1 @llvm.coro.done(ptr %handle)
  br i1 %done, label %ended, label %yielded
ended:
  call void @unlink(ptr %coroutine)
  br label %search
yielded:
  %event = load i32, ptr %event_at
  %started = icmp eq i32 %event, {STARTS}
  %last_at = getelementptr %coroutine, ptr %main, i32 0, i32 2
  %last = load ptr, ptr %last_at
  %chosen = select i1 %started, ptr %last, ptr %next
  %looks = icmp eq i32 %event, {LOOKS}
  br i1 %looks, label %looked, label %search
looked:
  %then_at = getelementptr %coroutine, ptr %main, i32 0, i32 7
  store ptr %next, ptr %then_at
  ret i32 {LOOKED}
back:
  ret i32 {WENT_ON}
nobody:
  ret i32 {ALL_WAIT}
stopped:
  ret i32 {TO_STOP}
}}

define internal void @unlink(ptr %coroutine) {{
  %ended_at = getelementptr %coroutine, ptr %coroutine, i32 0, i32 7
  store i32 1, ptr %ended_at
  %next_at = getelementptr %coroutine, ptr %coroutine, i32 0, i32 1
  %next = load ptr, ptr %next_at
  %prev_at = getelementptr %coroutine, ptr %coroutine, i32 0, i32 2
  %prev = load ptr, ptr %prev_at
  %prevs_next = getelementptr %coroutine, ptr %prev, i32 0, i32 1
  store ptr %next, ptr %prevs_next
  %nexts_prev = getelementptr %coroutine, ptr %next, i32 0, i32 2
  store ptr %prev, ptr %nexts_prev
  %handle = load ptr, ptr %coroutine
  call void @llvm.coro.destroy(ptr %handle)
  ret void
}}

define void @{END_COROUTINES}(ptr %main) {{
  %next_at = getelementptr %coroutine, ptr %main, i32 0, i32 1
  br label %look
look:
  %coroutine = load ptr, ptr %next_at
  %alone = icmp eq ptr %coroutine, %main
  br i1 %alone, label %out, label %end
end:
  call void @unlink(ptr %coroutine)
  br label %look
out:
  ret void
}}

define i64 @{LIST_COROUTINES}(ptr %main, ptr %list) {{
entry:
  br label %each
each:
  %coroutine = phi ptr [ %main, %entry ], [ %next, %each ]
  %count = phi i64 [ 0, %entry ], [ %more, %each ]
  %name_at = getelementptr %coroutine, ptr %coroutine, i32 0, i32 9
  %name = load i64, ptr %name_at
  %place_at = getelementptr %coroutine, ptr %coroutine, i32 0, i32 4
  %place = load i32, ptr %place_at
  %place_wide = zext i32 %place to i64
  %at = getelementptr i64, ptr %list, i64 %count
  store i64 %name, ptr %at
  %beside = getelementptr i64, ptr %at, i64 1
  store i64 %place_wide, ptr %beside
  %more = add i64 %count, 2
  %next_at = getelementptr %coroutine, ptr %coroutine, i32 0, i32 1
  %next = load ptr, ptr %next_at
  %around = icmp eq ptr %next, %main
  br i1 %around, label %out, label %each
out:
  ret i64 %more
}}
"""


@once
def _library() -> Library:
    return library(_IR, _SYMBOLS)


@once
def coroutine_symbols() -> Mapping[str, int]:
    """The addresses of the scheduler's functions, by the names under which kernels call them."""
    return {name: _library().address(name) for name in _SYMBOLS}
