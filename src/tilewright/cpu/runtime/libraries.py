"""Native functions of the runtime itself, written in LLVM IR and compiled once per machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

from tilewright.cpu.runtime.engine import DEFAULT_LEVEL, Library, compile_ir, load_object
from tilewright.cpu.target import GENERIC, cpu_target
from tilewright.diagnostics import TileIRError
from tilewright.launching.disk_cache import disk_cache, key_of


def library(ir: str, symbols: Iterable[str], imports: Mapping[str, int] | None = None) -> Library:
    """The functions of a text of LLVM IR in this process, from the disk if they are there.

    ``imports`` are addresses of what it only declares, beside the functions of the process; the text must not hold
    any, or it would be another one in each process. Raises ``TileIRError`` (``jit-failed``) if it does not compile or
    link.
    """
    target, cache = cpu_target(GENERIC), disk_cache()
    if cache is None:
        return load_object(compile_ir(ir, target), target, symbols, imports)
    key, names = key_of(["library", target.key, DEFAULT_LEVEL.key, ir]), list(symbols)
    stored = cache.get(key)
    if stored is not None:
        # What does not link counts as absent.
        with contextlib.suppress(TileIRError):
            return load_object(stored, target, names, imports)
    code = compile_ir(ir, target)
    cache.put(key, code)
    return load_object(code, target, names, imports)
