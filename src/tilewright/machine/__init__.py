"""The reference machine: runs ``cuda_tile`` modules on NumPy, exactly and deterministically.

    result = run(module, "add", grid=(4,), args=(x, y, out))

``Program`` loads a module once for many launches.
"""

from tilewright.machine.launch import DEFAULT_MAX_ITERATIONS, Program, RunResult, run
from tilewright.machine.state import AssertionFailure
from tilewright.numerics.arithmetic import Arithmetic

__all__ = [
    "DEFAULT_MAX_ITERATIONS",
    "Arithmetic",
    "AssertionFailure",
    "Program",
    "RunResult",
    "run",
]
