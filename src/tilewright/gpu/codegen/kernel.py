"""Generates kernels and the functions they call."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    UnrankedMemRefType,
)
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute, BlockArgument, Operation, Region

from tilewright.diagnostics import TileIRError
from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
from tilewright.dialects.source_map import location_of
from tilewright.dialects.syntax.types import format_type
from tilewright.dialects.upstream.gpu import kernels as gpu_kernels
from tilewright.dialects.upstream.gpu.kernels import CLUSTER_SIZES
from tilewright.gpu.abi import TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES, Field, Parameter
from tilewright.gpu.architectures import CLUSTER, REGISTER_UNIT, REGISTERS, Architecture
from tilewright.gpu.codegen import (
    arith,
    async_copy,
    block_reduce,
    control,
    gpu_ops,
    indexed,
    ir,
    layout,
    llvm_memory,
    math,
    matrix,
    mbarrier,
    memref,
    narrow_floats,
    nvvm,
    structured,
    tma,
    transfers,
    vector,
    vector_shapes,
    warpgroup,
)
from tilewright.gpu.codegen.control import result_type
from tilewright.gpu.codegen.function import Function
from tilewright.gpu.codegen.ir import Value
from tilewright.gpu.codegen.unit import Unit
from tilewright.gpu.codes import RECURSION, UNKNOWN_SYMBOL
from tilewright.launching.object_names import object_name

#: The modules that register handlers.
HANDLER_MODULES = (
    *(arith, async_copy, control, gpu_ops, indexed, llvm_memory, math, matrix, mbarrier),
    *(
        block_reduce,
        memref,
        narrow_floats,
        nvvm,
        structured,
        tma,
        transfers,
        vector,
        vector_shapes,
        warpgroup,
    ),
)
AnyFunction = gpu_kernels.FuncOp | func.FuncOp

#: Kernel attributes that become annotations for the assembler: three extents each.
_EXTENTS = {
    "gpu.known_block_size": "reqntid",
    "known_block_size": "reqntid",
    "nvvm.reqntid": "reqntid",
    "nvvm.maxntid": "maxntid",
    "gpu.known_cluster_size": "cluster_dim_",
    "known_cluster_size": "cluster_dim_",
    "nvvm.cluster_dim": "cluster_dim_",
}
_NUMBERS = {"nvvm.minctasm": "minctasm", "nvvm.maxnreg": "maxnreg"}
#: The threads of a block, and those along z, of all GPUs.
_MOST_THREADS, _MOST_THREADS_Z = 1024, 64
_BLOCK_SIZES = ("gpu.known_block_size", "known_block_size", "nvvm.reqntid")


def symbol_of(op: AnyFunction) -> str:
    """The name of a function, without ``@``."""
    return op.symbol if isinstance(op, gpu_kernels.FuncOp) else op.sym_name.data


def _extents(op: Operation, names: Sequence[str]) -> tuple[int, ...] | None:
    for name in names:
        found = op.attributes.get(name, op.properties.get(name))
        if isinstance(found, DenseArrayBase):
            numbers = [int(n) for n in found.get_values()]
            return tuple([*numbers, 1, 1][:3])
    return None


def block_size(op: Operation) -> tuple[int, ...] | None:
    """The block extents that a kernel specifies, x first, in threads, or None."""
    return _extents(op, _BLOCK_SIZES)


def cluster_size(op: Operation) -> tuple[int, ...] | None:
    """The cluster extents that a kernel specifies, x first, in blocks, or None."""
    return _extents(op, CLUSTER_SIZES)


# Kernels


def emit_kernel(unit: Unit, op: gpu_kernels.FuncOp) -> tuple[Parameter, ...]:
    """Emit a kernel; returns its parameters in order.

    Raises ``TileIRError`` at the first operation, type or feature that cannot be compiled.
    """
    name = object_name(op.symbol)
    f = Function(unit)
    mark = f.mark(name, op)
    f.block_size = block_size(op)
    if cluster_size(op) is not None:
        f.require(op, CLUSTER)
    parameters, spelled, constants = [], [], []
    for number, argument in enumerate(op.arguments):
        types, parameter = _parameter(op, argument, number)
        if isinstance(argument.type, TensorMapDescriptorType):
            constants.append(len(spelled) + 1)
        given = [Value(_type_of(ty), f"%p{len(spelled) + i}") for i, ty in enumerate(types)]
        spelled += [f"{ty} {value.ref}" for ty, value in zip(types, given, strict=True)]
        _take(f, argument, given)
        parameters.append(parameter)
    alignments = _alignments(op)
    for number, argument in enumerate(op.workgroup):
        size = memref.static_bytes(f, argument)
        base = unit.reserve_shared(f"{name}.workgroup.{number}", size, alignments.get(number))
        f.set_memref(argument, memref.fresh(f.layout(argument), base))
    for argument in op.private:
        f.set_memref(argument, memref.private_memory(f, argument, None))
    f.emit_region(op.body)
    head = f"define ptx_kernel void @{name}({', '.join(spelled)}) #0{mark}"
    unit.functions[name] = f"{head} {{\n{f.code.text()}\n}}"
    _annotate(unit, op, name, constants)
    return tuple(parameters)


def _type_of(spelled: str) -> str:
    """The type of a parameter without its attributes."""
    return "ptr" if spelled.startswith("ptr byval") else spelled


def _parameter(
    op: gpu_kernels.FuncOp, argument: BlockArgument, number: int
) -> tuple[list[str], Parameter]:
    """The LLVM parameters of an argument, with their attributes."""
    ty = argument.type
    name = argument.name_hint or f"arg{number}"
    if isinstance(ty, TensorMapDescriptorType):
        spelled = f"ptr byval([{TENSOR_MAP_BYTES} x i8]) align {TENSOR_MAP_ALIGNMENT}"
        return [spelled], Parameter(name, ty, (Field("tensor_map", TENSOR_MAP_BYTES),))
    if isinstance(ty, MemRefType):
        return _memref_parameter(op, ty, name)
    if isinstance(ty, UnrankedMemRefType):
        spelled = list(layout.parts(ty, location_of(op)))
        return spelled, Parameter(name, ty, (Field("rank", 8), Field("descriptor", 8)))
    if layout.scalar(ty) is None:
        raise layout.unsupported(
            f"a kernel cannot take a value of '{format_type(ty)}': only numbers, pointers, memrefs "
            "and tensor maps",
            location_of(op),
        )
    if isinstance(ty, LLVMPointerType) and layout.address_space(ty) not in (0, ir.GLOBAL):
        raise layout.unsupported(
            f"a kernel cannot take a pointer of '{format_type(ty)}': only those to global memory",
            location_of(op),
        )
    (spelled,) = layout.parts(ty)
    what = "pointer" if isinstance(ty, LLVMPointerType) else "value"
    return [spelled], Parameter(name, ty, (Field(what, _size(ty)),))


def _size(ty: Attribute) -> int:
    return layout.element_bytes(ty)


def _memref_parameter(
    op: gpu_kernels.FuncOp, ty: MemRefType, name: str
) -> tuple[list[str], Parameter]:
    found = layout.memref_layout(ty)
    if found is None or found.space not in (0, 1):
        raise layout.unsupported(
            f"a kernel cannot take a memref of '{format_type(ty)}': only strided ones in global "
            "memory",
            location_of(op),
        )
    rank = len(found.sizes)
    spelled = [found.pointer, found.pointer, *[ir.I64] * (1 + 2 * rank)]
    whats = ["allocated", "aligned", "offset"]
    whats += [f"size{i}" for i in range(rank)] + [f"stride{i}" for i in range(rank)]
    return spelled, Parameter(name, ty, tuple(Field(what, 8) for what in whats))


def _known_global(f: Function, given: Value) -> Value:
    """Tell LLVM that a generic pointer parameter points to global memory, by a cast there and back."""
    inside = f.code.op(ir.pointer(ir.GLOBAL), f"addrspacecast {given} to ptr addrspace(1)")
    return f.code.op("ptr", f"addrspacecast {inside} to ptr")


def _take(f: Function, argument: BlockArgument, given: Sequence[Value]) -> None:
    """Bind an argument to its LLVM parameters."""
    if isinstance(argument.type, LLVMPointerType):
        (pointer,) = given
        f.set(argument, _known_global(f, pointer) if pointer.type == "ptr" else pointer)
        return
    if not isinstance(argument.type, MemRefType):
        f.set(argument, *given)
        return
    _, base, offset, *numbers = given
    rank = len(numbers) // 2
    if base.type == "ptr":
        base = _known_global(f, base)
    made = layout.Memref(base, offset, tuple(numbers[:rank]), tuple(numbers[rank:]))
    f.set_memref(argument, made)


def _alignments(op: gpu_kernels.FuncOp) -> dict[int, int]:
    """The alignments of workgroup attributions, in bytes, by number."""
    found = op.properties.get("workgroup_attrib_attrs")
    alignments = {}
    for number, attributes in enumerate(found.data if isinstance(found, ArrayAttr) else ()):
        align = (
            attributes.data.get("llvm.align") if isinstance(attributes, DictionaryAttr) else None
        )
        if isinstance(align, IntegerAttr):
            alignments[number] = align.value.data
    return alignments


def _annotate(unit: Unit, op: Operation, name: str, constants: Sequence[int]) -> None:
    """Notes for the assembler: extents of the block and cluster, limits, constant parameters."""
    _check_block(op)
    notes: list[str] = []
    for attribute, note in _EXTENTS.items():
        if (extents := _extents(op, (attribute,))) is not None:
            notes += [f'!"{note}{axis}", i32 {n}' for axis, n in zip("xyz", extents, strict=True)]
    for attribute, note in _NUMBERS.items():
        found = op.attributes.get(attribute)
        if isinstance(found, IntegerAttr):
            number = _possible(unit.arch, attribute, found.value.data, block_size(op))
            notes.append(f'!"{note}", i32 {number}')
    if unit.trades_registers and not any(name in op.attributes for name in _NUMBERS):
        # ptxas ignores `setmaxnreg` unless it knows the register count of a warp.
        notes.append('!"minctasm", i32 1')
    unit.annotations += [f"!{{ptr @{name}, {note}}}" for note in notes]
    if constants:
        number = len(unit.annotations)
        listed = ", ".join(f"i32 {place}" for place in constants)
        unit.annotations += [
            f'!{{ptr @{name}, !"grid_constant", !{number + 1}}}',
            f"!{{{listed}}}",
        ]


def _check_block(op: Operation) -> None:
    """Raises ``gpu-unsupported`` for a block that no GPU has."""
    block = block_size(op)
    if block is None:
        return
    if min(block) < 1 or prod(block) > _MOST_THREADS or block[2:] > (_MOST_THREADS_Z,):
        raise layout.unsupported(
            f"no GPU has blocks of {block} threads: they have 1 to {_MOST_THREADS:,}, and up to "
            f"{_MOST_THREADS_Z} along z",
            location_of(op),
        )


def _possible(
    arch: Architecture, attribute: str, number: int, block: tuple[int, ...] | None
) -> int:
    """A register limit, clamped to what blocks of this size permit.

    ptxas ignores a limit above what a multiprocessor has, and may then limit a thread to 32 registers. With more
    registers than a block can have the kernel would not launch.
    """
    if block is None:
        return number
    threads = -(-block[0] * block[1] * block[2] // 32) * 32
    if attribute == "nvvm.minctasm":
        return max(min(number, arch.blocks_limit, arch.threads_limit // threads), 1)
    return min(number, REGISTERS // threads // REGISTER_UNIT * REGISTER_UNIT)


# Functions


def device_function(unit: Unit, name: str, caller: Operation) -> str:
    """The LLVM name of a device function, emitted on first use. Raises ``TileIRError`` for recursion, or if there is no
    body.
    """
    op = unit.symbols.get(name)
    if not isinstance(op, AnyFunction) or not _has_body(op):
        raise TileIRError.single(
            UNKNOWN_SYMBOL,
            f"there is no function '@{name}' with a body in the module of the kernel",
            location_of(caller),
        )
    spelled = f"function.{object_name(name)}"
    if unit.functions.get(spelled) == "":
        raise TileIRError.single(
            RECURSION, f"'@{name}' is recursive; kernels cannot recurse", location_of(caller)
        )
    if spelled not in unit.functions:
        emit_function(unit, op, spelled, "internal ", " alwaysinline")
    return spelled


def _has_body(op: AnyFunction) -> bool:
    return bool(op.body.blocks) and op.body.blocks[0].first_op is not None


def emit_function(
    unit: Unit, op: AnyFunction, name: str, linkage: str = "", attributes: str = ""
) -> None:
    """Emit a device function under an LLVM name.

    Parameters and results are the parts of values; several results are returned as a struct.
    """
    signature = op.signature if isinstance(op, gpu_kernels.FuncOp) else op.function_type
    location = location_of(op)
    results = [part for ty in signature.outputs.data for part in layout.parts(ty, location)]
    unit.functions[name] = ""
    f = Function(unit)
    mark = f.mark(name, op)
    body: Region = op.body
    given: list[Value] = []
    for argument in body.blocks[0].args:
        parts = [Value(ty, f"%p{len(given) + i}") for i, ty in enumerate(f.types(argument))]
        given += parts
        f.set(argument, *parts)
    f.emit_region(body)
    head = f"define {linkage}{result_type(results)} @{name}({', '.join(map(str, given))}) #0"
    del unit.functions[name]
    unit.functions[name] = f"{head}{attributes}{mark} {{\n{f.code.text()}\n}}"
