"""Checks the arguments of a launch before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import builtin as b
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute, BlockArgument

from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
from tilewright.dialects.upstream.gpu.spaces import GLOBAL, space_number
from tilewright.numerics.arrays import Array
from tilewright.numerics.strides import row_major
from tilewright.simulator import codes
from tilewright.simulator.address_space import address_of
from tilewright.simulator.faults import Fault
from tilewright.simulator.global_memory import check_space
from tilewright.simulator.memory import Buffer, MemRef
from tilewright.simulator.ops.elementwise import is_integer_scalar, to_elements
from tilewright.simulator.ops.packed import is_packed, packed_shape
from tilewright.simulator.state import WARP_SIZE
from tilewright.simulator.tensor_maps import TensorMap, encode
from tilewright.simulator.values import Element, element_of

_DYNAMIC = b.DYNAMIC_INDEX


def bind(parameters: Sequence[BlockArgument], args: Sequence[Any]) -> list[Any]:
    """The values of the parameters. Raises ``Fault`` with the name of a parameter that does not fit its argument.

    Arrays become memrefs over their own memory, tensor maps, or addresses; nothing is copied.
    """
    if len(args) != len(parameters):
        raise Fault(
            codes.ARGUMENT,
            f"the kernel has {len(parameters)} parameters, got {len(args)} arguments",
        )
    return [
        _bound(parameter.type, arg, parameter.name_hint or f"arg{index}")
        for index, (parameter, arg) in enumerate(zip(parameters, args))
    ]


def memory_of(
    parameters: Sequence[BlockArgument], args: Sequence[Any], further: Sequence[Any]
) -> list[Buffer]:
    """The memory that a launch may access: the arrays among its arguments, and ``further``.

    The arrays are shared, not copied. Raises ``Fault`` for what is no array in ``further``.
    """
    found: list[Buffer] = []
    for index, (parameter, arg) in enumerate(zip(parameters, args)):
        if isinstance(parameter.type, TensorMapDescriptorType) and isinstance(arg, TensorMap):
            arg = arg.tensor
        if isinstance(arg, np.ndarray):
            name = f"argument '{parameter.name_hint or f'arg{index}'}'"
            found.append(_buffer(arg, name))
    for index, array in enumerate(further):
        if not isinstance(array, np.ndarray):
            raise _unfit(f"memory[{index}]", "a NumPy array", array)
        found.append(_buffer(array, f"memory[{index}]"))
    return found


def _buffer(array: Array, name: str) -> Buffer:
    return Buffer(_bytes_of(array), GLOBAL, name, read_only=not array.flags.writeable, keeps=array)


def _pointer(ty: LLVMPointerType, arg: Any, name: str) -> int:
    """The address of an array, or a given address."""
    check_space(ty)
    if isinstance(arg, np.ndarray):
        return address_of(arg)
    if isinstance(arg, np.integer):
        arg = int(arg)
    if not isinstance(arg, int) or isinstance(arg, bool) or not 0 <= arg < 1 << 63:
        raise _unfit(name, "a NumPy array or an address", arg)
    return arg


def _bound(ty: Attribute, arg: Any, name: str) -> Any:
    if isinstance(ty, LLVMPointerType):
        return _pointer(ty, arg, name)
    if isinstance(ty, b.MemRefType):
        return _memref(ty, arg, name)
    if isinstance(ty, TensorMapDescriptorType):
        return _tensor_map(ty, arg, name)
    if isinstance(ty, b.IntegerType | b.IndexType | b.AnyFloat):
        return _number(ty, arg, name)
    raise Fault(codes.ARGUMENT, f"parameter '{name}' has the type '{ty}', which cannot be passed")


def _number(ty: Attribute, arg: Any, name: str) -> Any:
    element = element_of(ty)
    if isinstance(arg, np.generic):
        arg = arg.item()
    if is_integer_scalar(ty):
        if not isinstance(arg, int):
            raise _unfit(name, "an integer", arg)
        if element.bits == 1:
            return bool(arg)
        if not -(1 << (element.bits - 1)) <= arg < 1 << element.bits:
            raise Fault(codes.ARGUMENT, f"{arg} does not fit parameter '{name}' of {element.name}")
        half = 1 << (element.bits - 1)
        return ((arg + half) & ((1 << element.bits) - 1)) - half
    if not isinstance(arg, int | float):
        raise _unfit(name, "a number", arg)
    return np.full(WARP_SIZE, to_elements(np.array([float(arg)]), element)[0])


def _unfit(name: str, wanted: str, arg: Any) -> Fault:
    return Fault(
        codes.ARGUMENT, f"parameter '{name}' takes {wanted}, got {type(arg).__name__} {arg!r:.60}"
    )


def _tensor_map(ty: TensorMapDescriptorType, arg: Any, name: str) -> TensorMap:
    if isinstance(arg, TensorMap):
        wanted = tuple(ty.tensor.get_shape()), ty.swizzle.keyword, ty.oob.keyword
        found = arg.box, arg.swizzle, arg.oob
        if wanted != found:
            raise Fault(
                codes.ARGUMENT, f"parameter '{name}' is a tensor map of {wanted}, got {found}"
            )
        arg = arg.tensor
    if not isinstance(arg, np.ndarray):
        raise _unfit(name, "an array or a TensorMap", arg)
    return encode(arg, ty, element_of(ty.tensor), name)


def _memref(ty: b.MemRefType, arg: Any, name: str) -> MemRef:
    element = element_of(ty)
    if space_number(ty.memory_space) not in (0, GLOBAL):
        raise Fault(codes.ARGUMENT, f"parameter '{name}' is not a memref to global memory: '{ty}'")
    if not isinstance(arg, np.ndarray):
        raise _unfit(name, "a NumPy array", arg)
    if is_packed(element):
        sizes, strides = packed_shape(ty, arg, name)
        return MemRef(_buffer(arg, f"argument '{name}'"), 0, sizes, strides)
    shape = ty.get_shape()
    if arg.ndim != len(shape):
        raise Fault(
            codes.ARGUMENT, f"parameter '{name}' takes arrays of rank {len(shape)}, got {arg.ndim}"
        )
    if not _fits(arg.dtype, element):
        raise Fault(
            codes.ARGUMENT,
            f"parameter '{name}' takes arrays of {element.dtype}, got {arg.dtype}",
        )
    for axis, (wanted, found) in enumerate(zip(shape, arg.shape)):
        if wanted not in (_DYNAMIC, found):
            raise Fault(
                codes.ARGUMENT,
                f"dimension {axis} of parameter '{name}' has {wanted} elements, got {found}",
            )
    strides = _strides(ty, arg, name)
    if arg.ctypes.data % element.size:
        raise Fault(codes.ARGUMENT, f"the array for parameter '{name}' is not aligned")
    return MemRef(_buffer(arg, f"argument '{name}'"), 0, arg.shape, strides)


def _fits(given: np.dtype[Any], element: Element) -> bool:
    """Whether elements of a dtype may be passed. Signed and unsigned integers of a width are interchangeable."""
    wanted = np.dtype(np.uint8) if element.bits == 1 else element.dtype
    same_size = given.itemsize == wanted.itemsize
    return given in (wanted, element.dtype) or (
        same_size and not element.is_float and given.kind in "iu"
    )


def _strides(ty: b.MemRefType, arg: Array, name: str) -> tuple[int, ...]:
    """The strides of an array in elements, checked against the type."""
    size = arg.itemsize
    found = tuple(stride // size for stride in arg.strides)
    if any(stride % size or stride < 0 for stride in arg.strides):
        raise Fault(codes.ARGUMENT, f"the strides of the array for '{name}' are {arg.strides}")
    if isinstance(ty.layout, b.StridedLayoutAttr):
        wanted = [None if isinstance(s, b.NoneAttr) else s.data for s in ty.layout.strides]
    elif isinstance(ty.layout, b.NoneAttr):
        wanted = list(row_major(arg.shape))
    else:
        raise Fault(codes.UNSUPPORTED, f"parameter '{name}' has the layout '{ty.layout}'")
    for axis, (given, needed) in enumerate(zip(found, wanted)):
        if needed not in (None, given) and arg.shape[axis] > 1:
            raise Fault(
                codes.ARGUMENT,
                f"the array for parameter '{name}' has strides of {found} elements, expected "
                f"{wanted}",
                help="pass a contiguous array, or give the memref a strided layout",
            )
    return tuple(g if n is None else n for g, n in zip(found, wanted))


def _bytes_of(array: Array) -> Array:
    """The memory of an array from its lowest to its highest byte."""
    array = array.view(np.ndarray)  # Subclasses have shapes and views of their own.
    # An axis that runs backward begins at its highest element.
    array = array[(*(slice(None, None, -1 if s < 0 else 1) for s in array.strides), ...)]
    if array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8)
    if not array.size:
        return np.zeros(0, np.uint8)
    last = sum((extent - 1) * stride for extent, stride in zip(array.shape, array.strides))
    # A flat view from the first element to the last; a strided array does not extend beyond it.
    count = last // array.itemsize + 1
    assert count >= prod(array.shape) or 0 in array.strides
    # NumPy does not know the buffer format of 1-byte floats such as f8E5M2.
    words = array.view(f"u{array.itemsize}")
    flat = np.lib.stride_tricks.as_strided(words, (count,), (array.itemsize,))
    return flat.view(np.uint8)
