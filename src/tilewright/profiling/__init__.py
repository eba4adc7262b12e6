"""How long launches of our own kernels would take on a GPU: compiled, some blocks run on the simulator, then modelled.

``profile_launch`` is the function for one launch; ``Profiler`` keeps what several launches of a kernel share. The model
itself, which reads any machine code, is in ``model``. See docs/model.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.profiling.launch import Asked, Profiler, profile_launch

__all__ = ["Asked", "Profiler", "profile_launch"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from tilewright.profiling import launch

        return getattr(launch, name)
    raise AttributeError(f"module 'tilewright.profiling' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
