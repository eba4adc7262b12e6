"""The levels of a kernel's compilation, each computed on first use.

``LEVELS`` is the only list of them: pages, ``--save-ir`` and ``Compiled.text`` use it. A new level needs one entry, and
one property of :class:`Stages`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Operation

from tilewright.diagnostics import TileIRError, define_code
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.lowering import TileAAOptions, lower_to_tileaa
from tilewright.text import print_text

if TYPE_CHECKING:
    from tilewright.dialects.upstream.gpu.kernels import FuncOp
    from tilewright.gpu import Assembled, CompiledKernel
    from tilewright.gpu.tiles import TileProgram
    from tilewright.launching.modules import KernelOp

AnyKernel: TypeAlias = "KernelOp | FuncOp"
"""A kernel at any level of IR."""

UNKNOWN_LEVEL = define_code(
    "unknown-level",
    "The level is unknown, or the kernel does not have it.",
    "A Tile IR kernel is lowered through cuda_tile, nv_tileaa, nv_tileas, nvgpu, llvm and ptx to "
    "sass, and through nv_tileaa to asm, the assembly of this CPU. An nvgpu kernel starts at "
    "nvgpu. A kernel without a schedule has no nv_tileas.",
)

DEFAULT_TARGET = "sm_100"
#: The pipeline that `launching.threads` runs for GPUs.
TILEAA_PASSES = "tileaa"


class Stages:
    """All levels of a kernel of a verified module, for one GPU architecture.

    ``module``, of ``cuda_tile``, ``nv_tileaa`` or ``gpu``, is not changed. Accessing a level that cannot be generated
    raises ``TileIRError`` with the reason. ``lines``, if set before the textual levels are accessed, maps operations of
    ``nvgpu`` to lines, which these levels then include in the form that ``line_tables`` parses. ``number_of`` does the
    same for CPU assembly: it numbers operations of ``nv_tileaa``, with lines one higher.
    """

    def __init__(self, module: Operation, kernel: str, target: str = DEFAULT_TARGET):
        self.module, self.kernel, self.target = module, kernel, target
        self.lines: Mapping[Operation, int] | None = None
        self.number_of: Callable[[Operation], int | None] | None = None

    @property
    def is_of_threads(self) -> bool:
        """Whether the kernel is given as per-thread code."""
        return is_of_threads(self.module)

    @property
    def dialect_target(self) -> str:
        """The architecture for ``nv_tileaa``: without the suffix for specific features."""
        return self.target.rstrip("af")

    @cached_property
    def cuda_tile(self) -> ModuleOp:
        """The module as given, which must be of ``cuda_tile``; raises ``TileIRError`` otherwise."""
        if isinstance(self.module, ModuleOp):
            return self.module
        raise _has_none("cuda_tile", self.module)

    @cached_property
    def nv_tileaa(self) -> BuiltinModuleOp:
        """The module lowered to ``nv_tileaa``, or as given. Raises ``TileIRError`` for per-thread code."""
        if isinstance(self.module, ModuleOp):
            return lower_to_tileaa(self.module, TileAAOptions(self.dialect_target)).module
        if self.is_of_threads:
            raise _has_none("nv_tileaa", self.module)
        assert isinstance(self.module, BuiltinModuleOp)
        return self.module

    @cached_property
    def nv_tileaa_passes(self) -> BuiltinModuleOp:
        """A copy of ``nv_tileaa`` after the passes that machines run. Raises ``TileIRError`` for per-thread code."""
        from tilewright.passes import parse_pipeline, run_pipeline
        from tilewright.passes.base import clone_with_locations

        copy = clone_with_locations(self.nv_tileaa, {})
        assert isinstance(copy, BuiltinModuleOp)
        run_pipeline(copy, parse_pipeline(TILEAA_PASSES))
        return copy

    @cached_property
    def nvgpu(self) -> BuiltinModuleOp:
        """The kernel as per-thread code. Raises ``TileIRError`` if it cannot be lowered."""
        if self.is_of_threads:
            assert isinstance(self.module, BuiltinModuleOp)
            return self.module
        return self._tile_program.threads(self.kernel)

    @cached_property
    def _tile_program(self) -> TileProgram:
        from tilewright.gpu.tiles import TileProgram

        return TileProgram(self.module, self.target)

    @cached_property
    def nv_tileas(self) -> BuiltinModuleOp:
        """The kernel with layouts and a schedule. Raises ``TileIRError`` if it is lowered without."""
        if self.is_of_threads:
            raise _has_none("nv_tileas", self.module)
        program = self._tile_program
        program.threads(self.kernel)
        if (refused := program.fallbacks.get(self.kernel)) is not None:
            raise refused
        return program.scheduled(self.kernel)

    @cached_property
    def gpu_code(self) -> CompiledKernel:
        """The kernel as LLVM IR and PTX. Raises ``TileIRError`` if it cannot be compiled."""
        from tilewright.gpu import compile_kernel

        return compile_kernel(self.nvgpu, self.target, self.kernel, lines=self.lines)

    @cached_property
    def machine_code(self) -> Assembled:
        """The cubin from NVIDIA's assembler. Raises ``TileIRError`` if the assembler is missing."""
        return self.gpu_code.assemble()

    @cached_property
    def sass(self) -> str:
        """NVIDIA's disassembly of the machine code. Raises ``TileIRError`` if the disassembler is missing."""
        from tilewright.gpu import disassemble

        return disassemble(self.machine_code.cubin, lines=self.lines is not None)

    @cached_property
    def cpu_assembly(self) -> str:
        """The kernel in assembly for this processor. Raises ``TileIRError`` for per-thread code, and where the CPU
        machine cannot compile it.
        """
        from tilewright.cpu.compile import compile_kernel
        from tilewright.cpu.runtime import engine
        from tilewright.cpu.target import HOST, cpu_target

        if self.is_of_threads:
            raise _has_none("asm", self.module)
        target = cpu_target(HOST)
        compiled = compile_kernel(self.nv_tileaa, self.kernel, number_of=self.number_of)
        parsed = engine.parse_ir(compiled.llvm_ir, target)
        engine.optimize(parsed, target)
        return engine.emit_assembly(parsed, target)

    def text(self, level: str) -> str:
        """The text of a level. Raises ``TileIRError`` if there is no such level (``unknown-level``), or the kernel
        does not have it.
        """
        kind = LEVELS.get(level)
        if kind is None:
            raise TileIRError.single(
                UNKNOWN_LEVEL,
                f"there is no level '{level}'",
                help=f"the levels are {', '.join(LEVELS)}",
            )
        made = made_of(kind, self)
        return made if isinstance(made, str) else print_text(made)


@dataclass(frozen=True, slots=True)
class LevelKind:
    """A level: its title, file suffix, and the function that generates it as IR or text.

    ``language`` selects the highlighting. ``is_of_target``: it depends on the architecture.
    """

    title: str
    suffix: str
    language: str
    make: Callable[[Stages], Operation | str]
    is_of_target: bool = True


LEVELS: Mapping[str, LevelKind] = MappingProxyType(
    {
        "cuda_tile": LevelKind("cuda_tile", "tileir", "mlir", lambda s: s.cuda_tile, False),
        "nv_tileaa": LevelKind("nv_tileaa, as lowered", "mlir", "mlir", lambda s: s.nv_tileaa),
        "nv_tileaa_passes": LevelKind(
            "nv_tileaa, after the passes", "mlir", "mlir", lambda s: s.nv_tileaa_passes
        ),
        "nv_tileas": LevelKind("nv_tileas, scheduled", "mlir", "mlir", lambda s: s.nv_tileas),
        "nvgpu": LevelKind("nvgpu", "mlir", "mlir", lambda s: s.nvgpu),
        "llvm": LevelKind("LLVM IR", "ll", "llvm", lambda s: s.gpu_code.llvm_ir),
        "ptx": LevelKind("PTX", "ptx", "ptx", lambda s: s.gpu_code.ptx),
        "sass": LevelKind("SASS", "sass", "sass", lambda s: s.sass),
        "asm": LevelKind("CPU assembly", "s", "asm", lambda s: s.cpu_assembly, False),
    }
)
"""All levels by name, from the highest."""


def made_of(kind: LevelKind, stages: Stages) -> Operation | str:
    """Generate a level. Raises ``TileIRError`` if that fails, including for missing packages."""
    from tilewright.gpu.codes import MISSING_TOOL

    try:
        return kind.make(stages)
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name == "tilewright":
            raise
        raise TileIRError.single(
            MISSING_TOOL,
            f"{kind.title} needs {name}, which is not installed",
            help=f"pip install {name}",
        ) from error


def is_of_threads(module: Operation) -> bool:
    """Whether the kernels of a module are given as per-thread code."""
    return any(op.name == "gpu.module" for op in module.walk())


def thread_kernel(module: Operation, name: str | None) -> FuncOp:
    """The kernel of that name, or the only one. Raises ``TileIRError`` if there is none."""
    from tilewright.gpu.codes import UNKNOWN_KERNEL
    from tilewright.gpu.compile import kernels_of

    assert isinstance(module, BuiltinModuleOp)
    kernels = kernels_of(module)
    chosen = next(iter(kernels)) if name is None and len(kernels) == 1 else name
    if chosen is None or chosen not in kernels:
        what = "one kernel" if name is None else f"a kernel '{name}'"
        raise TileIRError.single(
            UNKNOWN_KERNEL, f"expected {what}; kernels: {', '.join(kernels) or 'none'}"
        )
    return kernels[chosen]


def checked_target(target: str) -> None:
    """Raise ``TileIRError`` for an unknown architecture.

    Some known ones are not supported by code generation; the levels that need it raise the error.
    """
    TileAAOptions(target.rstrip("af"))


def _has_none(level: str, module: Operation) -> TileIRError:
    what = "nvgpu" if is_of_threads(module) else "nv_tileaa"
    return TileIRError.single(UNKNOWN_LEVEL, f"a kernel given as {what} has no level '{level}'")
