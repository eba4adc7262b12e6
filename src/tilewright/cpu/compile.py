"""Compiles kernels of ``nv_tileaa`` to LLVM IR."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright.cpu.codegen import kernel
from tilewright.cpu.codegen.analysis.plan import make_plan
from tilewright.cpu.codegen.emitter.table import refuse
from tilewright.cpu.codegen.ir.debug_info import NumberOf
from tilewright.cpu.compiled_kernels import DEFAULT_COMPILING, CompiledKernel, CompileOptions
from tilewright.cpu.prepare import prepared
from tilewright.cpu.target import cpu_target
from tilewright.diagnostics import TileIRError, define_code
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp, GlobalOp
from tilewright.garbage import rare_collections
from tilewright.lowering.calls import without_calls
from tilewright.nesting import deep_recursion
from tilewright.passes.tileas.remarks import Remarks

UNKNOWN_KERNEL = define_code(
    "cpu-unknown-kernel",
    "The module has no kernel of that name.",
    "A kernel is a function with the attribute `kernel` or a `kernel_spec`.",
)


def kernels_of(module: ModuleOp) -> dict[str, FuncOp]:
    """The kernels of a module by name."""
    found: dict[str, FuncOp] = {}
    for op in module.ops:
        if isinstance(op, FuncOp) and (is_set(op, "kernel") or "kernel_spec" in op.properties):
            found[op.symbol] = op
    return found


def plan_text(
    module: ModuleOp, entry: str | None = None, options: CompileOptions = DEFAULT_COMPILING
) -> str:
    """What ``compile_kernel`` decides on before it makes code: which tiles get buffers.

    Raises ``TileIRError`` as ``compile_kernel``.
    """
    func = _kernel(module, entry, options, Remarks())
    return make_plan(func.body.blocks[0], distinct_arguments=options.distinct_arguments).describe()


@rare_collections
@deep_recursion()
def compile_kernel(
    module: ModuleOp,
    entry: str | None = None,
    options: CompileOptions = DEFAULT_COMPILING,
    number_of: NumberOf | None = None,
) -> CompiledKernel:
    """The code of a kernel of a verified module; the only one where no name is given.

    ``number_of`` gives operations after the pipeline ``cpu`` numbers from 0: the code then tells by debug
    information, in which the lines are the numbers plus one, what each instruction is from.

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
        number_of=number_of,
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
        made.has_keys,
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
    return prepared(func, remarks, cpu_target(options.cpu).register_bytes)


def _globals(module: ModuleOp) -> dict[str, Operation]:
    return {
        op.properties["sym_name"].data: op  # pyright: ignore[reportAttributeAccessIssue]
        for op in module.ops
        if isinstance(op, GlobalOp)
    }
