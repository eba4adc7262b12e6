"""The message for a kernel that accesses unmapped memory.

Such a kernel ends the process, as it would end a launch on a GPU; it cannot be caught. But a signal handler that only writes
a text can say what to do next. It speaks only while a kernel is running, and chains to the handler
that was there before.
"""

from __future__ import annotations

import ctypes
import os
import signal

from tilewright.cpu.runtime.driver import driver
from tilewright.cpu.runtime.engine import Library
from tilewright.cpu.runtime.libraries import library
from tilewright.cpu.runtime.once import once

MESSAGE = """
tilewright: a kernel has crashed: it accessed memory outside of its arrays.
tilewright: `tilewright sanitize` finds such accesses and shows where they are; `--checked` (in Python
tilewright: LaunchOptions(checked=True)) runs compiled code with checks.
"""

_SIGNALS = ("SIGSEGV", "SIGBUS")


def _handler_ir(data: bytes) -> str:
    """A signal handler. All that it calls may be called in one."""
    text = "".join(f"\\{byte:02X}" for byte in data)
    return f"""
@message = internal constant [{len(data)} x i8] c"{text}"
@previous = global [128 x ptr] zeroinitializer

declare i32 @is_running()
declare i64 @write(i32, ptr, i64)
declare ptr @signal(i32, ptr)

define void @on_crash(i32 %signal) {{
  %running = call i32 @is_running()
  %in_kernel = icmp ne i32 %running, 0
  br i1 %in_kernel, label %say, label %go_on
say:
  %written = call i64 @write(i32 2, ptr @message, i64 {len(data)})
  br label %go_on
go_on:
  %at = getelementptr [128 x ptr], ptr @previous, i32 0, i32 %signal
  %before = load ptr, ptr %at
  %ours = call ptr @signal(i32 %signal, ptr %before)
  ret void
}}
"""


@once
def report_crashes() -> Library | None:
    """Install the handler of signals of memory faults, once; None on systems without such signals.

    It prints a line if a kernel runs, and then does what the handler before it did.
    """
    if os.name != "posix":
        return None
    system = ctypes.CDLL(None)
    write, set_handler = (
        ctypes.cast(getattr(system, name), ctypes.c_void_p).value or 0
        for name in ("write", "signal")
    )
    imports = {"is_running": driver().is_running_address, "write": write, "signal": set_handler}
    found = library(_handler_ir(MESSAGE.encode()), ["on_crash", "previous"], imports)
    install = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(set_handler)
    previous = (ctypes.c_void_p * 128).from_address(found.address("previous"))
    for name in _SIGNALS:
        number = int(getattr(signal, name))
        previous[number] = install(number, found.address("on_crash"))
    return found
