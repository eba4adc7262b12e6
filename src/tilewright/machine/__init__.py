"""The reference machine: runs modules of ``cuda_tile`` and ``nv_tileaa`` on NumPy, exactly and
deterministically.

    result = run(module, "add", grid=(4,), args=(x, y, out))

``Program`` loads a module once for many launches.
"""

from tilewright.launching.assertions import AssertionFailure
from tilewright.machine.launch import DEFAULT_MAX_ITERATIONS, Plugin, Program, RunResult, run
from tilewright.numerics.arithmetic import Arithmetic

__all__ = [
    "DEFAULT_MAX_ITERATIONS",
    "Arithmetic",
    "AssertionFailure",
    "Plugin",
    "Program",
    "RunResult",
    "run",
]
