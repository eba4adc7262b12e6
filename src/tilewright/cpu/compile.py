"""Kernels of ``nv_tileaa`` as LLVM IR."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from tilewright.cpu.abi import Site
from tilewright.cpu.codegen import kernel
from tilewright.cpu.codegen.plan import make_plan
from tilewright.cpu.codegen.table import refuse
from tilewright.cpu.prepare import prepared
from tilewright.cpu.target import HOST, CpuTarget, cpu_target
from tilewright.diagnostics import TileIRError, define_code
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp, GlobalOp
from tilewright.launching.assertions import OperationSource
from tilewright.lowering.calls import without_calls
from tilewright.passes.tileas.remarks import Remark, Remarks

UNKNOWN_KERNEL = define_code(
    "cpu-unknown-kernel",
    "The module has no kernel of that name.",
    "A kernel is a function with the mark `kernel` or a `kernel_spec`.",
)


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How kernels become code.

    ``cpu``: the name of a target (``target.cpu_target``). ``checked``: every access is checked; one
    outside of the memory of its view stops the run. ``distinct_arguments``: pointer arguments of one
    launch point into different arrays, as launches check it; without it, loads and stores through
    different arguments keep their order. ``plugins``: the names of the functions that launches have for
    foreign code.
    """

    cpu: str = HOST
    checked: bool = False
    distinct_arguments: bool = True
    plugins: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        return (
            f"{self.cpu} checked={self.checked} distinct={self.distinct_arguments} "
            f"plugins={sorted(self.plugins)}"
        )


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel as LLVM IR, with what the runtime must know to run it (see ``abi``).

    ``parameters`` are the types of the kernel's parameters. ``may_wait``: its blocks can wait for one
    another, so that all of them must make progress. ``asks_for_memory``: it wants the table of memory.
    ``has_agents``: it calls the scheduler of agents. ``takes_over``: its blocks take over the work of
    others.
    """

    llvm_ir: str
    symbol: str
    arena_bytes: int
    parameters: tuple[Attribute, ...]
    sites: tuple[Site, ...]
    may_wait: bool
    target: CpuTarget
    asks_for_memory: bool = False
    has_agents: bool = False
    takes_over: bool = False
    globals: tuple[str, ...] = field(default=())
    """Names of the globals that the code uses; ``symbol_of`` says which symbol stands for each."""
    updates: bool = False
    """Whether it has atomic operations."""
    may_be_alone: bool = False
    """Whether some of them need not be atomic where one thread runs the launch (``abi``)."""
    loops: tuple[OperationSource, ...] | None = None
    """Where its loops stand, by their numbers; None for code from the disk, where it is not kept."""
    remarks: tuple[Remark, ...] = ()
    """What was decided and why; none for code from the disk."""


def kernels_of(module: ModuleOp) -> dict[str, FuncOp]:
    """The kernels of a module by name."""
    found: dict[str, FuncOp] = {}
    for op in module.ops:
        if isinstance(op, FuncOp) and (is_set(op, "kernel") or "kernel_spec" in op.properties):
            found[op.symbol] = op
    return found


def prepared_kernel(
    module: ModuleOp, entry: str | None = None, options: CompileOptions = CompileOptions()
) -> FuncOp:
    """A kernel as code is made of it: without calls, after the pipeline ``cpu``."""
    return _kernel(module, entry, options, Remarks())


def plan_text(
    module: ModuleOp, entry: str | None = None, options: CompileOptions = CompileOptions()
) -> str:
    """What ``compile_kernel`` decides on before it makes code: which tiles get buffers."""
    func = _kernel(module, entry, options, Remarks())
    return make_plan(func.body.blocks[0], distinct_arguments=options.distinct_arguments).describe()


def compile_kernel(
    module: ModuleOp, entry: str | None = None, options: CompileOptions = CompileOptions()
) -> CompiledKernel:
    """The code of a kernel of a verified module; the only one where no name is given.

    Raises TileIRError for a name that the module lacks, and for operations without code.
    """
    remarks = Remarks()
    func = _kernel(module, entry, options, remarks)
    target = cpu_target(options.cpu)
    made = kernel.emit(
        func,
        target,
        checked=options.checked,
        distinct_arguments=options.distinct_arguments,
        globals_=_globals(module),
        plugins=options.plugins,
    )
    return CompiledKernel(
        str(made.module),
        made.symbol,
        made.arena_bytes,
        tuple(func.signature.inputs.data),
        tuple(made.sites),
        made.may_wait,
        target,
        made.asks_for_memory,
        made.has_agents,
        made.takes_over,
        made.globals,
        made.updates,
        made.may_be_alone,
        made.loops,
        (*remarks.found, *made.remarks),
    )


def _kernel(
    module: ModuleOp, entry: str | None, options: CompileOptions, remarks: Remarks
) -> FuncOp:
    """The kernel of that name, without calls, after the pipeline ``cpu``."""
    kernels = kernels_of(module)
    if entry is None and len(kernels) == 1:
        entry = next(iter(kernels))
    if entry not in kernels:
        raise TileIRError.single(
            UNKNOWN_KERNEL,
            f"there is no kernel '{entry}'" if entry else "there are several kernels; name one",
            help=f"there are: {', '.join(kernels) or 'none'}",
        )
    functions = {op.symbol: op for op in module.ops if isinstance(op, FuncOp)}
    func = without_calls(kernels[entry], functions, refuse, plugins=options.plugins)
    return prepared(func, remarks)


def _globals(module: ModuleOp) -> dict[str, Operation]:
    return {
        op.properties["sym_name"].data: op  # pyright: ignore[reportAttributeAccessIssue]
        for op in module.ops
        if isinstance(op, GlobalOp)
    }
