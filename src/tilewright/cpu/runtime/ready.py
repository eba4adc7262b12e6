"""Work of a process's first launch that can be done ahead of it."""

from __future__ import annotations

from tilewright.cpu.runtime.crash import report_crashes
from tilewright.cpu.runtime.driver import driver
from tilewright.cpu.runtime.records import compiler_facts
from tilewright.cpu.target import cpu_target


def get_ready() -> None:
    """Start LLVM, load the loop that runs blocks and the handler of crashes, and look at the sources
    that decide on the keys of compiled kernels."""
    cpu_target()
    driver()
    report_crashes()
    compiler_facts()
