"""The CPU machine: compiles kernels to native code and runs them on this computer, without a GPU.

    result = run(module, "add", grid=(4,), args=(x, y, out))

``Program`` loads a module once for many launches. It has the interface of the reference machine's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.lazy import lazy_names

if TYPE_CHECKING:
    from tilewright.cpu.runtime.launch import Program, run

__all__ = ["Program", "run"]

__getattr__, __dir__ = lazy_names(globals(), {"runtime.launch": "Program run"})
