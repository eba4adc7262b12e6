"""Modelled profiles of launches: compile a kernel, run some blocks on the simulator, and evaluate the performance
model.

``profile_launch`` profiles one launch; ``Profiler`` keeps what several launches of a kernel share. The model itself,
which reads any machine code, is in ``model``. See docs/model.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.lazy import lazy_names

if TYPE_CHECKING:
    from tilewright.profiling.launch import Asked, Profiler, profile_launch

__all__ = ["Asked", "Profiler", "profile_launch"]

__getattr__, __dir__ = lazy_names(globals(), {"launch": "Asked Profiler profile_launch"})
