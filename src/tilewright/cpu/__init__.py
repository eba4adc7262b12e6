"""The CPU machine: kernels as native code for this computer, fast and without a GPU.

    result = run(module, "add", grid=(4,), args=(x, y, out))

``Program`` loads a module once for many launches. It has the interface of the reference machine's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.cpu.runtime.launch import Program, run

__all__ = ["Program", "run"]


def __getattr__(name: str) -> object:
    # Loaded when used: parts of this package are useful without a JIT.
    if name not in __all__:
        raise AttributeError(f"module 'tilewright.cpu' has no attribute {name!r}")
    from tilewright.cpu.runtime import launch

    return getattr(launch, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
