"""Compiled kernels ready to be called: from memory, from disk, or compiled now."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tilewright.cpu.abi import keys_symbol, symbol_of
from tilewright.cpu.compiled_kernels import CompiledKernel, CompileOptions
from tilewright.cpu.runtime.coroutine_scheduler import coroutine_symbols
from tilewright.cpu.runtime.engine import (
    DEFAULT_LEVEL,
    Library,
    OptLevel,
    Timings,
    compile_ir,
    load_object,
)
from tilewright.cpu.runtime.interrupts import attention_symbols
from tilewright.cpu.runtime.modules import LaunchedKernel, LaunchedModule
from tilewright.cpu.runtime.pool import Choice, ChunkFeedback
from tilewright.cpu.runtime.records import find_record, put_record, record_key
from tilewright.cpu.runtime.waiting import waiting_symbols
from tilewright.diagnostics import TileIRError
from tilewright.garbage import rare_collections
from tilewright.launching.disk_cache import disk_cache, key_of
from tilewright.nesting import deep_recursion

_IN_MEMORY = 256


@dataclass(frozen=True, slots=True)
class NativeKernel:
    """A kernel in this process: where its function is, and what it needs."""

    compiled: CompiledKernel
    address: int
    library: Library
    keys: int = 0
    """The address of what gives the keys of blocks; 0 where there is none."""
    feedback: ChunkFeedback = field(default_factory=ChunkFeedback)
    choice: Choice = field(default_factory=Choice)


_libraries: OrderedDict[tuple[object, ...], Library] = OrderedDict()
_lock = threading.Lock()


def object_key(compiled: CompiledKernel, level: OptLevel) -> str:
    """The key of a kernel's object code."""
    return key_of(["object", compiled.target.key, level.key, compiled.llvm_ir])


def object_code(
    compiled: CompiledKernel, level: OptLevel, timings: Timings, *, anew: bool = False
) -> bytes:
    """The object code of a kernel, from the disk if it is there; ``anew``: made in any case, and kept.

    Raises ``TileIRError`` as ``compile_ir``.
    """
    cache = disk_cache()
    key = object_key(compiled, level)
    if cache is not None and not anew:
        with timings.stage("look on disk"):
            found = cache.get(key)
        if found is not None:
            return found
    made = compile_ir(compiled.llvm_ir, compiled.target, level, timings)
    if cache is not None:
        with timings.stage("write to disk"):
            cache.put(key, made)
    return made


@rare_collections
@deep_recursion()
def prepare_kernel(
    module: LaunchedModule,
    kernel: LaunchedKernel,
    options: CompileOptions,
    level: OptLevel,
    global_addresses: Mapping[str, int],
    timings: Timings,
) -> NativeKernel:
    """A kernel of a module that can be called, from the disk cache or compiled now.

    ``global_addresses`` are those of the module's globals.
    Raises ``TileIRError`` if the kernel cannot be compiled, or its code cannot be linked.
    """
    cache, symbol = disk_cache(), kernel.interface.symbol
    record = None
    if cache is not None:
        with timings.stage("look on disk"):
            record = record_key(module.digest, symbol, options, level)
            found = find_record(cache, record, symbol, options) if record else None
        if (
            found is not None
            and record is not None
            and global_addresses.keys() >= {*found[0].globals}
        ):
            compiled, code = found
            # What does not link counts as absent.
            with contextlib.suppress(TileIRError):
                return _in_memory(compiled, record, lambda: code, global_addresses, timings)
    # Imported where it is needed: half a second that a kernel from the disk does without.
    from tilewright.cpu.compile import compile_kernel

    with timings.stage("lower to nv_tileaa"):
        tileaa = module.lowered
    with timings.stage("generate LLVM IR"):
        compiled = compile_kernel(tileaa, symbol, options)
    native = load_kernel(compiled, global_addresses, level, timings)
    if cache is not None and record is not None:
        put_record(cache, record, compiled, object_key(compiled, level))
    return native


def load_kernel(
    compiled: CompiledKernel,
    global_addresses: Mapping[str, int],
    level: OptLevel = DEFAULT_LEVEL,
    timings: Timings | None = None,
) -> NativeKernel:
    """A kernel that can be called. ``global_addresses`` are those of the globals of its module.

    Code from the disk that does not link is made anew. Raises ``TileIRError`` as ``load_object``.
    """
    clock = Timings() if timings is None else timings
    key = object_key(compiled, level)

    def load(anew: bool = False) -> NativeKernel:
        def code() -> bytes:
            return object_code(compiled, level, clock, anew=anew)

        return _in_memory(compiled, key, code, global_addresses, clock)

    try:
        return load()
    except TileIRError:
        if disk_cache() is None:
            raise
        # It may be from the disk, and no code at all.
        return load(anew=True)


def _in_memory(
    compiled: CompiledKernel,
    key: str,
    code: Callable[[], bytes],
    global_addresses: Mapping[str, int],
    timings: Timings,
) -> NativeKernel:
    """The kernel in this process, linked if it is not here yet."""
    imports = {symbol_of("global", name): global_addresses[name] for name in compiled.globals}
    imports |= attention_symbols()
    if compiled.has_agents:
        imports |= coroutine_symbols()
    if compiled.may_wait:
        imports |= waiting_symbols()
    symbols = [compiled.symbol]
    if compiled.has_keys:
        symbols.append(keys_symbol(compiled.symbol))
    full_key = (key, tuple(sorted(imports.items())))
    with _lock:
        library = _libraries.get(full_key)
        if library is None:
            data = code()
            with timings.stage("link"):
                library = load_object(data, compiled.target, symbols, imports)
            _libraries[full_key] = library
            if len(_libraries) > _IN_MEMORY:
                _libraries.popitem(last=False)
        else:
            _libraries.move_to_end(full_key)
    address = library.address(compiled.symbol)
    keys = library.address(keys_symbol(compiled.symbol)) if compiled.has_keys else 0
    return NativeKernel(compiled, address, library, keys)
