"""The runnable parts of a module, at either level of IR: its kernels and the contents of its globals.

A ``cuda_tile`` module has entries; a builtin module of ``nv_tileaa`` has functions, of which those with a kernel
attribute or a ``kernel_spec`` are kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Operation

from tilewright.diagnostics import TileIRError
from tilewright.dialects import nv_tileaa
from tilewright.dialects.cuda_tile.ops import module as cuda
from tilewright.dialects.nv_tileaa import types as A
from tilewright.dialects.nv_tileaa.types import strides_of
from tilewright.dialects.source_map import location_of
from tilewright.launching.codes import UNKNOWN_ENTRY, UNSUPPORTED
from tilewright.launching.constants import array_of_constant, elements_of
from tilewright.launching.global_memory import GlobalMemory
from tilewright.numerics.arrays import Array, dtype_of, to_bytes

if TYPE_CHECKING:
    # Importing nv_tileaa takes longer than running a small kernel of cuda_tile.
    from tilewright.dialects.nv_tileaa.ops.functions import FuncOp, GlobalOp

KernelOp: TypeAlias = "cuda.EntryOp | FuncOp"
Module = cuda.ModuleOp | BuiltinModuleOp


def runnable_module(module: Operation) -> Module:
    """The module that runs: the operation itself, or the only one nested in a builtin module.

    Raises ``TypeError`` if there is neither a ``cuda_tile`` module nor one of ``nv_tileaa``.
    """
    if isinstance(module, cuda.ModuleOp):
        return module
    if isinstance(module, BuiltinModuleOp):
        held = list(module.body.block.ops) if module.body.blocks else []
        inner = [op for op in held if isinstance(op, cuda.ModuleOp)]
        if len(inner) == 1:
            return inner[0]
        if any(op.dialect_name() == nv_tileaa.NAME for op in held):
            return module
        nested = [op for op in held if isinstance(op, BuiltinModuleOp)]
        if len(nested) == 1:
            return runnable_module(nested[0])
    raise TypeError(f"expected a cuda_tile module or one of nv_tileaa, got '{module.name}'")


def is_tile_ir(module: Operation) -> bool:
    """Whether an operation is or contains a ``cuda_tile`` module or ``nv_tileaa`` functions."""
    return any(op.name in ("cuda_tile.module", nv_tileaa.FUNC) for op in module.walk())


def is_tileaa(module: Module) -> bool:
    """Whether a module is of ``nv_tileaa`` rather than ``cuda_tile``."""
    return isinstance(module, BuiltinModuleOp)


def kernels_of(module: Module) -> Sequence[KernelOp]:
    """The kernels of a module, in order."""
    if isinstance(module, cuda.ModuleOp):
        return list(module.entries)
    from tilewright.dialects.nv_tileaa.ops.functions import FuncOp

    return [op for op in module.body.block.ops if isinstance(op, FuncOp) and op.is_kernel]


def kernel_of(module: Operation, name: str | None) -> KernelOp:
    """The kernel of that name; for None the only one. Raises ``TileIRError`` (``unknown-entry``) if there is none."""
    runnable = runnable_module(module)
    kernels = kernels_of(runnable)
    found = [op for op in kernels if name is None or op.symbol == name]
    if len(found) == 1:
        return found[0]
    known = ", ".join(op.symbol for op in kernels) or "none"
    wanted = "one kernel" if name is None else f"a kernel '{name}'"
    raise TileIRError.single(
        UNKNOWN_ENTRY,
        f"expected {wanted} in the module; kernels: {known}",
        location_of(runnable),
        help=_help(runnable),
    )


def cuda_kernel_of(module: Operation, name: str | None, who: str) -> cuda.EntryOp:
    """The kernel, for callers that only support ``cuda_tile``, which ``who`` names in the message.

    Raises ``TileIRError`` for another level, and as ``kernel_of`` does.
    """
    found = kernel_of(module, name)
    if isinstance(found, cuda.EntryOp):
        return found
    raise TileIRError.single(
        UNSUPPORTED,
        f"kernel '{found.symbol}' is of nv_tileaa, but {who} cannot look into kernels of that level",
        location_of(found),
        help="give the module of cuda_tile that it was lowered from",
    )


def _help(module: Module) -> str:
    if isinstance(module, cuda.ModuleOp) or kernels_of(module):
        return ""
    return "a kernel is an nv_tileaa.func with `attributes {kernel}` or a kernel_spec"


def globals_of(module: Module) -> Sequence[GlobalMemory]:
    """The globals of a module, in order."""
    if isinstance(module, cuda.ModuleOp):
        return [_of_cuda_tile(op) for op in module.globals]
    from tilewright.dialects.nv_tileaa.ops.functions import GlobalOp

    return [_of_tileaa(op) for op in module.body.block.ops if isinstance(op, GlobalOp)]


def _of_cuda_tile(op: cuda.GlobalOp) -> GlobalMemory:
    constant = op.value_constant
    element = constant.type.element
    return GlobalMemory(
        op.symbol,
        to_bytes(array_of_constant(constant), element),
        element,
        op.alignment_value,
        op.is_constant,
        op.is_private,
    )


def _of_tileaa(op: GlobalOp) -> GlobalMemory:
    from tilewright.dialects.nv_tileaa.base import is_set

    ty = op.properties["type"]
    assert isinstance(ty, A.MemrefType)
    element = A.element_name(ty.element_type)
    value, alignment = op.properties.get("value"), op.properties.get("alignment")
    tile = np.zeros(ty.dims, dtype_of(element))
    if value is not None:
        tile[...] = elements_of(value, element, ty.dims)
    return GlobalMemory(
        op.properties["sym_name"].data,  # pyright: ignore[reportAttributeAccessIssue]
        to_bytes(_laid_out(tile, strides_of(ty)), element),
        element,
        alignment.value.data if isinstance(alignment, IntegerAttr) else 1,
        is_set(op, "constant"),
        op.attributes.get("sym_visibility") == StringAttr("private"),
    )


def _laid_out(tile: Array, strides: tuple[int, ...]) -> Array:
    """The memory image of a tile with strides; gaps are zero."""
    reach = sum((extent - 1) * stride for extent, stride in zip(tile.shape, strides, strict=True))
    memory = np.zeros(reach + 1, tile.dtype)
    steps = tuple(stride * tile.itemsize for stride in strides)
    np.ndarray(tile.shape, tile.dtype, memory, 0, steps)[...] = tile
    return memory
