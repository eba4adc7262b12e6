"""Compiles LLVM IR to object code, and loads object code into this process.

Every step is a function of its own, so that each can be shown, measured and cached.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

from tilewright.cpu.abi import YIELD_SYMBOL
from tilewright.cpu.runtime.once import once
from tilewright.cpu.target import UNKNOWN_CPU, CpuTarget, missing_features
from tilewright.diagnostics import TileIRError, define_code
from tilewright.launching.native_code import binding as llvm

JIT_FAILED = define_code(
    "jit-failed",
    "LLVM rejected code that Tilewright generated, or cannot load it.",
    "This is a bug of Tilewright, not of the kernel. `tilewright compile --emit llvm` shows the "
    "code; please report it together with the kernel.",
)


@dataclass(frozen=True, slots=True)
class OptLevel:
    """How much LLVM does to the code.

    ``speed`` 0 inlines only. 1, the default, also simplifies what is there: generated code is made of
    vectors already and gains nothing from LLVM's loop transformations, which cost most of the time.
    2 and 3 are LLVM's own pipelines of these levels, with its vectorisers and its unrolling where
    asked for.
    """

    speed: int = 1
    vectorize: bool = False
    unroll: bool = False

    @property
    def key(self) -> str:
        """A text that is the same for levels that make the same code: what is on disk may be that of other passes."""
        passes = ",".join(_PIPELINES.get(self.speed, ()))
        return f"O{self.speed} vectorize={self.vectorize} unroll={self.unroll} {passes}"


#: The passes of the levels that are ours.
_PIPELINES: Mapping[int, tuple[str, ...]] = MappingProxyType(
    {
        0: ("always_inliner",),
        # Long code is cut into functions, each of which is called once: what is constant there, such as that
        # a tile lies inside of its view, must be seen inside of it.
        1: (
            "always_inliner",
            "ipsccp",
            "sroa",
            "simplify_cfg",
            "instruction_combine",
            "aggressive_instcombine",
            "simplify_cfg",
        ),
    }
)
DEFAULT_LEVEL = OptLevel()


@dataclass(slots=True)
class Timings:
    """Seconds by stage, in the order in which stages began; a repeated stage adds up."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the seconds of wall time that pass inside to a stage, also where that ends in an
        error."""
        started = time.perf_counter()
        self.seconds.setdefault(name, 0.0)
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - started

    @property
    def total(self) -> float:
        """The seconds of all stages."""
        return sum(self.seconds.values())


def parse_ir(ir: str, target: CpuTarget) -> llvm.ModuleRef:
    """The verified module of a text of LLVM IR.

    Raises ``TileIRError`` (``jit-failed``) if LLVM does not accept it.
    """
    try:
        module = llvm.parse_assembly(ir, llvm.create_context())
        module.triple, module.data_layout = target.triple, target.data_layout
        module.verify()
    except RuntimeError as error:
        raise _failed("LLVM does not accept the generated code", error) from error
    return module


def optimize(module: llvm.ModuleRef, target: CpuTarget, level: OptLevel = DEFAULT_LEVEL) -> None:
    """Run LLVM's passes on a module, in place."""
    options = llvm.create_pipeline_tuning_options(max(level.speed, 2))
    options.loop_vectorization = options.slp_vectorization = level.vectorize
    options.loop_interleaving = level.vectorize
    options.loop_unrolling = level.unroll
    builder = llvm.create_pass_builder(target.create_machine(), options)
    if _has_coroutines(module):
        # LLVM's own pipeline without optimisation splits them.
        plain = llvm.create_pipeline_tuning_options(0)
        splitting = llvm.create_pass_builder(target.create_machine(), plain)
        splitting.getModulePassManager().run(module, splitting)
    if level.speed not in _PIPELINES:
        builder.getModulePassManager().run(module, builder)
        return
    passes = llvm.create_new_module_pass_manager()
    for name in _PIPELINES[level.speed]:
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)


def _has_coroutines(module: llvm.ModuleRef) -> bool:
    return any("llvm.coro." in function.name for function in module.functions)


def emit_object(module: llvm.ModuleRef, target: CpuTarget) -> bytes:
    """The object file of a module."""
    return target.create_machine().emit_object(module)


def emit_assembly(module: llvm.ModuleRef, target: CpuTarget) -> str:
    """The assembly text of a module."""
    return target.create_machine().emit_assembly(module)


def compile_ir(
    ir: str,
    target: CpuTarget,
    level: OptLevel = DEFAULT_LEVEL,
    timings: Timings | None = None,
) -> bytes:
    """The object file of a text of LLVM IR: parsed, optimised, emitted.

    ``timings`` gets the time of each stage. Raises ``TileIRError`` (``jit-failed``) if LLVM does not accept the text.
    """
    clock = Timings() if timings is None else timings
    with clock.stage("parse LLVM IR"):
        module = parse_ir(ir, target)
    with clock.stage("optimise"):
        optimize(module, target, level)
    with clock.stage("emit object"):
        return emit_object(module, target)


class Library:
    """Object code in this process. Addresses hold as long as the object lives."""

    def __init__(self, tracker: llvm.ResourceTracker) -> None:
        self._tracker = tracker

    def address(self, symbol: str) -> int:
        """The address of an exported symbol; a ``KeyError`` for others."""
        return self._tracker[symbol]


_numbers = itertools.count()


@once
def _linker() -> llvm.LLJIT:
    """The one linker of the process; it is never closed, libraries are unloaded one by one."""
    return llvm.create_lljit_compiler(use_jit_link=True, suppress_errors=True)


def load_object(
    data: bytes,
    target: CpuTarget,
    symbols: Iterable[str],
    imports: Mapping[str, int] | None = None,
) -> Library:
    """Link an object file into this process. ``imports`` are addresses of undefined symbols.

    Raises ``TileIRError`` where the host cannot run the target's code (``unknown-cpu``), or where the object does not
    link (``jit-failed``).
    """
    if missing := missing_features(target):
        raise TileIRError.single(
            UNKNOWN_CPU,
            f"code for {target.name} cannot run here: this CPU lacks {', '.join(missing)}",
        )
    builder = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
    for name, address in {YIELD_SYMBOL: _yield_address(), **(imports or {})}.items():
        builder.import_symbol(name, address)
    for symbol in symbols:
        builder.export_symbol(symbol)
    try:
        return Library(builder.link(_linker(), f"tilewright.{next(_numbers)}"))
    except RuntimeError as error:
        raise _failed("the object code cannot be loaded", error) from error


@once
def _yield_address() -> int:
    """The address of the system's function that gives up a time slice."""
    name = "SwitchToThread" if os.name == "nt" else "sched_yield"
    library = ctypes.WinDLL("kernel32") if os.name == "nt" else ctypes.CDLL(None)  # pyright: ignore[reportAttributeAccessIssue]
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None
    return address


def _failed(what: str, error: RuntimeError) -> TileIRError:
    return TileIRError.single(JIT_FAILED, f"{what}: {str(error).strip()}")
