"""Kernels written by hand in LLVM IR, for tests that need no code generator."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.cpu.abi import Site
from tilewright.cpu.compiled_kernels import CompiledKernel
from tilewright.cpu.runtime.driver import LaunchState
from tilewright.cpu.runtime.kernels import NativeKernel, load_kernel
from tilewright.cpu.target import cpu_target

HEAD = "define i32 @k(ptr %args, ptr %grid, ptr %rt, i64 %begin, i64 %end)"

#: Adds 1 to element ``i`` of its array of i64 for each block ``i``.
COUNT = f"""{HEAD} {{
entry:
  %data = load ptr, ptr %args
  br label %block
block:
  %i = phi i64 [ %begin, %entry ], [ %next, %block ]
  %at = getelementptr i64, ptr %data, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %block, label %done
done:
  ret i32 0
}}
"""

#: Writes how many blocks a call has to the element of the first one.
CHUNKS = f"""{HEAD} {{
  %data = load ptr, ptr %args
  %at = getelementptr i64, ptr %data, i64 %begin
  %size = sub i64 %end, %begin
  store i64 %size, ptr %at
  ret i32 0
}}
"""

#: Each block counts to a number in its second argument.
BUSY = f"""{HEAD} {{
entry:
  %limit_at = getelementptr i64, ptr %args, i64 1
  %limit = load i64, ptr %limit_at
  %blocks = sub i64 %end, %begin
  %steps = mul i64 %blocks, %limit
  %here = alloca i64
  br label %step
step:
  %i = phi i64 [ 0, %entry ], [ %next, %step ]
  store volatile i64 %i, ptr %here
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %steps
  br i1 %more, label %step, label %done
done:
  ret i32 0
}}
"""

#: Every block calls the host once for site 0, with the bytes of its array as the payload.
REPORT = f"""{HEAD} {{
entry:
  %payload = load ptr, ptr %args
  %count_at = getelementptr i64, ptr %args, i64 1
  %count = load i64, ptr %count_at
  %host_at = getelementptr ptr, ptr %rt, i64 1
  %host = load ptr, ptr %host_at
  %user_at = getelementptr ptr, ptr %rt, i64 2
  %user = load ptr, ptr %user_at
  %place = alloca [3 x i32]
  br label %block
block:
  %i = phi i64 [ %begin, %entry ], [ %next, %block ]
  %x = trunc i64 %i to i32
  store [3 x i32] zeroinitializer, ptr %place
  store i32 %x, ptr %place
  call void %host(ptr %user, i32 0, ptr %place, ptr %payload, i64 %count)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %block, label %done
done:
  ret i32 0
}}
"""

#: Reads from address 8.
CRASH = f"""{HEAD} {{
  %bad = inttoptr i64 8 to ptr
  %value = load volatile i32, ptr %bad
  ret i32 0
}}
"""


def compiled(ir: str, sites: tuple[Site, ...] = (), arena_bytes: int = 0) -> CompiledKernel:
    return CompiledKernel(ir, "k", arena_bytes, (), sites, False, cpu_target())


def native(ir: str) -> NativeKernel:
    return load_kernel(compiled(ir), {})


class Launch:
    """A launch of a kernel on an array and a number; keeps alive what the kernel uses."""

    def __init__(self, kernel: NativeKernel, total: int, array: Any = None, number: int = 0):
        self.array = np.zeros(1, np.int64) if array is None else array
        # What the state points to lives as long as it, also where a test holds on to nothing else.
        slots = (self.array.ctypes.data, number)
        self.state = LaunchState(kernel.address, slots, (total, 1, 1), (self.array, kernel))
