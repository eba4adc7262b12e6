"""Lowers whole modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import builtin as b
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.analysis.tileaa import Facts
from tilewright.diagnostics import Collector, TileIRError
from tilewright.dialects.arith.constants import format_of
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import KernelSpecAttr
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp, GlobalOp, ReturnOp
from tilewright.dialects.source_map import location_of, set_source, source_of
from tilewright.dialects.upstream.gpu import kernels as gpu_kernels
from tilewright.dialects.upstream.llvm import ops as llvm
from tilewright.garbage import rare_collections
from tilewright.lowering.calls import without_calls
from tilewright.lowering.nvgpu import (
    address_ranges,
    atomics,
    contraction,
    control,
    effects,
    elementwise,
    hidden_memory,
    memory,
    printing,
    reductions,
    shapes,
)
from tilewright.lowering.nvgpu.hidden_memory import GivenMemory, block_number
from tilewright.lowering.nvgpu.options import NOT_LOWERED, NvgpuOptions
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.table import RULES
from tilewright.lowering.nvgpu.tensor_maps import TensorMapPlan
from tilewright.lowering.nvgpu.types import (
    GLOBAL_POINTER,
    I8,
    I32,
    I64,
    SHARED_SPACE,
    element_bytes,
    element_type,
)
from tilewright.model.choices import gpu_of
from tilewright.nesting import deep_recursion
from tilewright.passes.tileas.warp_counts import check_warps

#: The modules that register rules in the table.
FAMILIES = (
    address_ranges,
    atomics,
    contraction,
    control,
    effects,
    elementwise,
    hidden_memory,
    memory,
    printing,
    reductions,
    shapes,
)
_SHARED_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class ThreadKernel:
    """How to launch a kernel.

    A block has ``threads`` threads. The parameters are the kernel's own arguments, a pointer to each of ``globals``, a
    pointer to ``scratch_bytes`` bytes for each block of the grid unless that is 0, and the ``tensor_maps``. ``blocks`` is the
    number of blocks per multiprocessor for which the assembler leaves registers, or 0 if it is told the registers per thread.
    """

    threads: int
    globals: tuple[str, ...]
    scratch_bytes: int
    tensor_maps: tuple[TensorMapPlan, ...] = ()
    blocks: int = 0


@dataclass(frozen=True, slots=True)
class LoweredThreads:
    """The result of the lowering: a module with a ``gpu.module`` that has the kernels.

    ``origins`` maps each operation in ``module`` to the ``nv_tileaa`` operation it was lowered from; ``kernels`` says
    by name how to launch each one.
    """

    module: b.ModuleOp
    origins: Mapping[Operation, Operation]
    kernels: Mapping[str, ThreadKernel]


def lower_to_nvgpu(
    module: b.ModuleOp, options: NvgpuOptions | None = None, entry: str | None = None
) -> LoweredThreads:
    """Lower the kernels of a verified ``nv_tileaa`` module to per-thread code; with ``entry``, only that kernel.

    The elements of a tile are distributed over the threads of a block (``layouts``). A pointer parameter becomes
    ``!llvm.ptr<1>``, a number stays one; pointers to other memory follow (``ThreadKernel``). Calls are inlined. The
    input module is not changed, and the result verifies.

    Raises ``TileIRError`` (``not-lowered-to-threads``), with one diagnostic for each kernel that is refused.
    """
    return lower_kernels(module, options or NvgpuOptions(), entry, Kernel)


@rare_collections
@deep_recursion()
def lower_kernels(
    module: b.ModuleOp, options: NvgpuOptions, entry: str | None, kind: type[Kernel]
) -> LoweredThreads:
    """Lower the kernels of a module, each with a new object of ``kind``; see ``lower_to_nvgpu``.

    Raises ``TileIRError`` (``not-lowered-to-threads``), with one diagnostic for each kernel that is refused.
    """
    problems = Collector()
    body = Block()
    origins: dict[Operation, Operation] = {}
    kernels: dict[str, ThreadKernel] = {}
    functions = {op.symbol: op for op in module.ops if isinstance(op, FuncOp)}
    globals_ = {
        op.properties["sym_name"].data: op  # pyright: ignore[reportAttributeAccessIssue]
        for op in module.ops
        if isinstance(op, GlobalOp)
    }
    for name, func in functions.items():
        is_kernel = is_set(func, "kernel") or "kernel_spec" in func.properties
        if not is_kernel or entry not in (None, name):
            continue
        try:
            low = kind(func, options, functions, globals_)
            new = low.lowered()
        except TileIRError as error:
            problems.diagnostics += error.diagnostics
            continue
        for table in low.constant_tables:
            body.add_op(table)
        body.add_op(new)
        origins |= low.origins
        kernels[name] = ThreadKernel(
            low.block_threads,
            low.given.globals,
            low.given.scratch_bytes,
            low.tensor_maps,
            _blocks(new),
        )
    problems.raise_if_errors()
    inner = gpu_kernels.ModuleOp.create(
        properties={"sym_name": b.StringAttr("kernels")}, regions=[Region(body)]
    )
    return LoweredThreads(
        b.ModuleOp([inner], {"gpu.container_module": b.UnitAttr()}), origins, kernels
    )


def warps_of(func: FuncOp, options: NvgpuOptions) -> int:
    """The number of warps per block: that of the kernel's spec, else the option.

    Raises ``TileIRError`` (``bad-block-warps``) where it is no power of two up to 32.
    """
    spec = func.properties.get("kernel_spec")
    warps = spec.integer("numWarps") if isinstance(spec, KernelSpecAttr) else options.num_warps
    check_warps(warps)
    return warps


class Kernel(ThreadLowering):
    """The lowering of one kernel."""

    def __init__(
        self,
        func: FuncOp,
        options: NvgpuOptions,
        functions: Mapping[str, FuncOp],
        globals_: Mapping[str, GlobalOp],
    ):
        super().__init__(options, 32 * warps_of(func, options))
        self.shared_alignment = _SHARED_ALIGNMENT
        self.op = func
        self.func = without_calls(func, functions, self.refusal)
        self._check_elements()
        self._globals = globals_
        self._facts = Facts(self.func)
        self._given = GivenMemory.of(self.func.walk())
        self._addresses: dict[str, SSAValue] = {}
        self._scratch_memory: SSAValue | None = None

    @staticmethod
    def refusal(op: Operation, why: str) -> TileIRError:
        """Returns the error ``not-lowered-to-threads`` at an operation, to be raised."""
        return TileIRError.single(
            NOT_LOWERED, f"'{op.name}' cannot be lowered to per-thread code: {why}", location_of(op)
        )

    def _check_elements(self) -> None:
        """Refuse tiles and scalars of element types that have no per-thread form."""
        for op in self.func.walk():
            for result in op.results:
                ty = (
                    T.element_of(result.type)
                    if isinstance(result.type, T.TileType)
                    else result.type
                )
                is_number = isinstance(result.type, T.TileType) or format_of(ty) is not None
                if is_number and element_type(ty) is None:
                    raise self.refusal(op, f"per-thread code has no values of type '{result.type}'")

    @property
    def facts(self) -> Facts:
        return self._facts

    @property
    def given(self) -> GivenMemory:
        return self._given

    def given_address(self, name: str) -> SSAValue:
        return self._addresses[name]

    def global_type(self, name: str) -> T.MemrefType:
        found = self._globals[name].properties["type"]
        assert isinstance(found, T.MemrefType)
        return found

    def scratch_of_block(self) -> SSAValue:
        assert self._scratch_memory is not None
        return self._scratch_memory

    def table_name(self) -> str:
        return f"{self.func.symbol}_table_{len(self.constant_tables)}"

    def lower(self, op: Operation) -> None:
        """Lower one operation by its rule. Raises ``TileIRError`` (``not-lowered-to-threads``) if it has none."""
        outer, self.op = self.op, op
        rule = RULES.rule_of(op)
        if rule is None:
            raise self.refuse(RULES.reason(op, "it has no lowering"))
        rule(self, op)
        self.op = outer

    def lowered(self) -> gpu_kernels.FuncOp:
        """Lower the kernel. Its parameters are the kernel's own, pointers to memory that launches pass, and tensor
        maps.
        """
        func = self.func
        source = func.body.blocks[0]
        types = [self._parameter_type(argument) for argument in source.args]
        types += [GLOBAL_POINTER] * self.given.pointers
        types += [plan.type for plan in self.tensor_maps]
        entry = Block(arg_types=types)
        own = len(source.args)
        for argument, new in zip(source.args, entry.args[:own], strict=True):
            self._bind_parameter(argument, new)
        maps = own + self.given.pointers
        self._take_memory(entry.args[own:maps])
        self.take_tensor_maps(entry.args[maps:])
        for op in source.ops:
            if isinstance(op, ReturnOp):
                break
            self.lower(op)
        self.emit(gpu_kernels.ReturnOp)
        self._assemble(entry)
        return self._function(entry, types)

    def limits(self, shared_bytes: int) -> dict[str, Attribute]:
        """The register limits of the kernel, as attributes for the assembler; it uses ``shared_bytes`` bytes of
        shared memory.
        """
        return _limits(self.func, self.options.compute, shared_bytes)

    @property
    def block_threads(self) -> int:
        """The number of threads per block of a launch."""
        return self.threads

    @property
    def tensor_maps(self) -> tuple[TensorMapPlan, ...]:
        """The tensor maps that a launch has to create for the kernel."""
        return ()

    def take_tensor_maps(self, arguments: Sequence[SSAValue]) -> None:
        """Receive the parameters that pass the tensor maps."""

    def _parameter_type(self, argument: SSAValue) -> Attribute:
        if isinstance(argument.type, T.PtrType):
            return GLOBAL_POINTER
        return self.type_of(argument.type)

    def _bind_parameter(self, old: SSAValue, new: SSAValue) -> None:
        new.name_hint = old.name_hint
        if isinstance(old.type, T.PtrType):
            with self.building(self.prologue):
                address = self.one(llvm.PtrToIntOp, (new,), I64)
            self.held[old] = address
        else:
            self.held[old] = new

    def _take_memory(self, pointers: Sequence[SSAValue]) -> None:
        """Compute the addresses of the memory that the launch passes beside the arguments."""
        with self.building(self.prologue):
            for name, pointer in zip(self.given.globals, pointers, strict=False):
                pointer.name_hint = name if SSAValue.is_valid_name(name) else None
                self._addresses[name] = self.one(llvm.PtrToIntOp, (pointer,), I64)
            if self.given.scratch_bytes:
                pointers[-1].name_hint = "scratch"
                base = self.one(llvm.PtrToIntOp, (pointers[-1],), I64)
                offset = self.times(block_number(self), self.given.scratch_bytes)
                self._scratch_memory = self.plus(base, offset)

    def _assemble(self, entry: Block) -> None:
        """Put the prologue and the lowered code into ``entry``, and give the exchange buffer its size."""
        for part in (self.prologue, self.block):
            for op in list(part.ops):
                op.detach()
                entry.add_op(op)
        if self._scratch is None:
            return
        size = max(self.scratch_bytes, _SHARED_ALIGNMENT)
        ty = b.MemRefType(I8, [size], memory_space=SHARED_SPACE)
        memory = entry.insert_arg(ty, len(entry.args))
        memory.name_hint = "exchange"
        placeholder = self._scratch.owner
        assert isinstance(placeholder, Operation)
        self._scratch.replace_all_uses_with(memory)
        placeholder.detach()
        placeholder.erase()
        self.origins.pop(placeholder, None)

    def _function(self, entry: Block, types: list[Attribute]) -> gpu_kernels.FuncOp:
        func = self.func
        attributes: dict[str, Attribute] = {
            "sym_name": b.StringAttr(func.symbol),
            gpu_kernels.KERNEL: b.UnitAttr(),
            "gpu.known_block_size": b.DenseArrayBase.from_list(I32, [self.block_threads, 1, 1]),
        }
        attributes |= self.limits(sum(map(_bytes_of, entry.args[len(types) :])))
        properties: dict[str, Attribute] = {"function_type": b.FunctionType.from_lists(types, [])}
        extra = len(entry.args) - len(types)
        if extra:
            attributes[gpu_kernels.WORKGROUP_COUNT] = b.IntegerAttr(extra, I64)
            alignment = b.DictionaryAttr({"llvm.align": b.IntegerAttr(self.shared_alignment, I64)})
            properties["workgroup_attrib_attrs"] = b.ArrayAttr([alignment])
        new = gpu_kernels.FuncOp.create(
            properties=properties, attributes=attributes, regions=[Region(entry)]
        )
        new.location = func.location
        if (place := source_of(func)) is not None:
            set_source(new, place)
        self.origins[new] = func
        return new


def _limits(func: FuncOp, compute: int, shared_bytes: int) -> dict[str, Attribute]:
    """How many registers the assembler may give a thread: as many as fit, with as many blocks on a
    multiprocessor as the kernel asks for and as its shared memory holds. Told neither, ptxas may fall to 32 of them."""
    spec = func.properties.get("kernel_spec")
    found = spec if isinstance(spec, KernelSpecAttr) else None
    if found is not None and (registers := found.integer("maxRegs")):
        return {"nvvm.maxnreg": b.IntegerAttr(registers, I32)}
    occupancy = 1 if found is None else max(found.integer("occupancy"), 1)
    if (gpu := gpu_of(compute)) is not None:
        each = shared_bytes + gpu["reserved_shared_bytes"]
        occupancy = max(min(occupancy, int(gpu["shared_bytes"] // each)), 1)
    return {"nvvm.minctasm": b.IntegerAttr(occupancy, I32)}


def _bytes_of(memory: SSAValue) -> int:
    """The bytes of an allocation in shared memory."""
    ty = memory.type
    assert isinstance(ty, b.MemRefType)
    return prod(ty.get_shape()) * element_bytes(ty.element_type)


def _blocks(function: gpu_kernels.FuncOp) -> int:
    """For how many blocks on a multiprocessor the assembler leaves registers; 0 where it is told the registers."""
    held = function.attributes.get("nvvm.minctasm")
    return held.value.data if isinstance(held, b.IntegerAttr) else 0
