"""Tilewright: CUDA Tile IR in Python, end to end.

The functions below are all that most users need; everything they return is xDSL IR, so xDSL's
walkers, builders and rewriters work on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.analysis.verifier import find_problems, verify
    from tilewright.builder import ModuleBuilder
    from tilewright.bytecode import is_bytecode, read, write
    from tilewright.diagnostics import Diagnostic, TileIRError
    from tilewright.launching.machine import MACHINES, load, run
    from tilewright.launching.options import LaunchOptions
    from tilewright.machine.sanitize import sanitize
    from tilewright.numerics.arithmetic import Arithmetic
    from tilewright.passes.pipelines import run_pipeline
    from tilewright.text import parse, print_text

__version__ = "0.1.0"

#: The module of each public name, imported on first use so that ``import tilewright`` is cheap.
_HOMES = {
    "Arithmetic": "tilewright.numerics.arithmetic",
    "Diagnostic": "tilewright.diagnostics",
    "LaunchOptions": "tilewright.launching.options",
    "MACHINES": "tilewright.launching.machine",
    "ModuleBuilder": "tilewright.builder",
    "TileIRError": "tilewright.diagnostics",
    "find_problems": "tilewright.analysis.verifier",
    "is_bytecode": "tilewright.bytecode",
    "parse": "tilewright.text",
    "print_text": "tilewright.text",
    "read": "tilewright.bytecode",
    "load": "tilewright.launching.machine",
    "run": "tilewright.launching.machine",
    "run_pipeline": "tilewright.passes.pipelines",
    "sanitize": "tilewright.machine.sanitize",
    "verify": "tilewright.analysis.verifier",
    "write": "tilewright.bytecode",
}

__all__ = [
    "MACHINES",
    "Arithmetic",
    "Diagnostic",
    "LaunchOptions",
    "ModuleBuilder",
    "TileIRError",
    "__version__",
    "find_problems",
    "is_bytecode",
    "load",
    "parse",
    "print_text",
    "read",
    "run",
    "run_pipeline",
    "sanitize",
    "verify",
    "write",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    from importlib import import_module

    from tilewright.garbage import rare_collections

    with rare_collections:
        return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
