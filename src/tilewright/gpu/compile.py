"""Compiles kernels of ``nvgpu`` to PTX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tilewright.diagnostics import TileIRError
from tilewright.dialects.source_map import location_of
from tilewright.dialects.upstream.gpu import kernels as gpu_kernels
from tilewright.garbage import rare_collections
from tilewright.gpu.abi import Parameter
from tilewright.gpu.architectures import Architecture, architecture
from tilewright.gpu.budget import DEFAULT_SECONDS, Work, run_within
from tilewright.gpu.codegen import kernel
from tilewright.gpu.codegen.line_table import LineTable
from tilewright.gpu.codegen.unit import Unit
from tilewright.gpu.codes import SHARED_MEMORY, UNKNOWN_KERNEL
from tilewright.gpu.messages import Site
from tilewright.gpu.recording import record_messages
from tilewright.gpu.register_pool import check_register_pool
from tilewright.gpu.tools import Assembled, assemble
from tilewright.launching.object_names import object_name
from tilewright.nesting import deep_recursion


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options of the compilation.

    ``approximate_math``: functions of `math` become single instructions, which are fast and inaccurate by some units in
    the last place; otherwise they are calls of libdevice. ``optimize``: run LLVM's passes. ``seconds``: the CPU time
    limit of LLVM, 0 for none. ``record``: prints and failed assertions are recorded in a buffer of the launch
    (``CompiledKernel.sites``); otherwise the driver prints, and a failed assertion ends the kernel. ``lines``: debug
    information maps instructions to operations (``CompiledKernel.operations``); the code is otherwise the same.
    """

    approximate_math: bool = False
    optimize: bool = True
    seconds: float = DEFAULT_SECONDS
    record: bool = False
    lines: bool = False


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel as PTX, with the data that a launch needs.

    ``name`` is that of the PTX entry (``object_names``). ``shared_bytes`` is static shared memory. Beyond 48 KiB it
    must be passed by the launch as ``dynamic_shared_bytes``, in front of the memory for `gpu.dynamic_shared_memory`,
    which the kernel has if ``uses_dynamic_shared``. ``block`` and ``cluster`` are the extents that the kernel requires,
    if any. ``isa`` is the PTX version times ten. ``sites`` describe the records that the kernel writes to the buffer
    that its last parameter points to; without sites there is no such parameter.
    """

    name: str
    arch: Architecture
    ptx: str
    llvm_ir: str
    parameters: tuple[Parameter, ...]
    shared_bytes: int
    dynamic_shared_bytes: int
    uses_dynamic_shared: bool
    block: tuple[int, ...] | None
    cluster: tuple[int, ...] | None
    isa: int
    sites: tuple[Site, ...] = ()
    operations: tuple[Operation, ...] = ()
    """With ``CompileOptions.lines``: line n of the debug information is the n-th operation, from 1."""

    def assemble(self) -> Assembled:
        """The machine code by ptxas, with line information if the PTX has it.

        Raises ``TileIRError`` as ``tools.assemble``.
        """
        return assemble(self.ptx, self.arch.name)


def kernels_of(module: ModuleOp) -> dict[str, gpu_kernels.FuncOp]:
    """The kernels of a module by name, or as `module::kernel` if names collide."""
    found: list[tuple[str, gpu_kernels.FuncOp]] = []
    for op in module.walk():
        if isinstance(op, gpu_kernels.FuncOp) and op.is_kernel:
            parent = op.parent_op()
            owner = parent.properties["sym_name"].data if parent is not None else ""  # pyright: ignore[reportAttributeAccessIssue]
            found.append((owner, op))
    names = [op.symbol for _, op in found]
    return {
        op.symbol if names.count(op.symbol) == 1 else f"{owner}::{op.symbol}": op
        for owner, op in found
    }


@rare_collections
@deep_recursion()
def compile_kernel(
    module: ModuleOp,
    arch: str,
    entry: str | None = None,
    options: CompileOptions = CompileOptions(),
    *,
    lines: Mapping[Operation, int] | None = None,
) -> CompiledKernel:
    """Compile a kernel of a verified module to PTX, by default the only one.

    ``lines`` maps operations to lines, from 1, of a text of the module. They are emitted as line directives; the code
    is otherwise the same.

    Raises ``TileIRError`` for unknown names, operations that cannot be compiled, and those that the architecture lacks.
    """
    chosen = architecture(arch)
    op = _kernel(module, entry)
    sites: tuple[Site, ...] = ()
    if options.record:
        recorded = record_messages(module, op)
        op, sites = recorded.kernel, recorded.sites
    operations = tuple(op.walk()) if options.lines else ()
    if options.lines:
        lines = {inner: number for number, inner in enumerate(operations, 1)}
    table = None if lines is None else LineTable(lines)
    unit = Unit(chosen, _symbols(op), options.approximate_math, table)
    parameters = kernel.emit_kernel(unit, op)
    check_register_pool(op, kernel.block_size(op))
    if max(unit.shared_bytes, unit.given_shared_bytes) > chosen.shared_limit:
        raise TileIRError.single(
            SHARED_MEMORY,
            f"the kernel needs {unit.shared_bytes} bytes of shared memory, but a block of "
            f"{chosen.name} has at most {chosen.shared_limit}",
            location_of(op),
            help="use smaller tiles, or fewer stages",
        )
    ptx, text = _finish(unit, options, op)
    return CompiledKernel(
        object_name(op.symbol),
        chosen,
        ptx,
        text,
        parameters,
        unit.shared_bytes,
        unit.given_shared_bytes,
        unit.uses_dynamic_shared,
        kernel.block_size(op),
        kernel.cluster_size(op),
        unit.isa,
        sites,
        operations,
    )


@dataclass(frozen=True, slots=True)
class CompiledFunction:
    """A device function as PTX.

    Its parameters and results are the parts of values: of a memref the pointer, then the dynamic ones of offset, sizes
    and strides.
    """

    name: str
    ptx: str
    llvm_ir: str


def compile_function(
    module: ModuleOp, arch: str, name: str, options: CompileOptions = CompileOptions()
) -> CompiledFunction:
    """Compile a device function to PTX. Raises ``TileIRError`` as ``compile_kernel`` does."""
    chosen = architecture(arch)
    found = next(
        (
            op
            for op in module.walk()
            if isinstance(op, kernel.AnyFunction) and kernel.symbol_of(op) == name
        ),
        None,
    )
    if found is None:
        raise TileIRError.single(UNKNOWN_KERNEL, f"there is no function '{name}'")
    unit = Unit(chosen, _symbols(found), options.approximate_math)
    spelled = object_name(name)
    kernel.emit_function(unit, found, spelled)
    ptx, text = _finish(unit, options, found)
    return CompiledFunction(spelled, ptx, text)


def _finish(unit: Unit, options: CompileOptions, op: Operation) -> tuple[str, str]:
    """The PTX and the LLVM IR of a module."""
    work = Work(unit.text(), unit.arch.name, unit.isa, unit.uses_libdevice, options.optimize)
    return run_within(work, options.seconds, location_of(op))


def _kernel(module: ModuleOp, entry: str | None) -> gpu_kernels.FuncOp:
    kernels = kernels_of(module)
    if entry is None and len(kernels) == 1:
        entry = next(iter(kernels))
    if entry not in kernels:
        what = "there are several kernels; name one" if len(kernels) > 1 else "there is no kernel"
        raise TileIRError.single(
            UNKNOWN_KERNEL,
            f"there is no kernel '{entry}'" if entry else what,
            help=f"there are: {', '.join(kernels) or 'none'}",
        )
    return kernels[entry]


def _symbols(op: Operation) -> dict[str, Operation]:
    """The symbols visible to a function: those of its module, then those of enclosing modules."""
    found: dict[str, Operation] = {}
    around = op.parent_op()
    while around is not None:
        for region in around.regions:
            for block in region.blocks:
                for member in block.ops:
                    if isinstance(member, func.FuncOp | gpu_kernels.FuncOp):
                        found.setdefault(kernel.symbol_of(member), member)
                    elif member.name == "memref.global":
                        name = member.properties["sym_name"].data  # pyright: ignore[reportAttributeAccessIssue]
                        found.setdefault(name, member)
        around = around.parent_op()
    return found
