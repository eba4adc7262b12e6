"""Arguments described by a client: arrays as addresses, extents and strides.

Clients such as ``cutile`` analyse the arguments of a launch once, and pass the result to any machine with
``Program.launch_described``. Arrays may overlap, and may be empty.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tilewright.launching.accepted import Converted
from tilewright.numerics.arrays import Array


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The description of an array without its address.

    ``numbers`` are for the client's use. ``tiles``: extents and strides as kernel arguments; ``bits``: the same as
    unsigned integers. ``low``: offset of the lowest byte from the first element; ``size``: bytes from the lowest to the
    highest. ``strides`` are in elements.
    """

    numbers: tuple[int, int]
    tiles: tuple[Array, ...]
    bits: tuple[int, ...]
    low: int
    size: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class ArrayValue(NamedTuple):
    """An array argument: a pointer, its extents and its strides. ``owner`` keeps its memory alive.

    If ``is_on_gpu``, the host cannot access it, and only the machine ``cuda`` accepts it.
    """

    name: str
    address: int
    layout: Layout
    is_writable: bool
    owner: object
    is_on_gpu: bool = False

    @property
    def placement(self) -> tuple[int, Layout, bool]:
        """The part that machines need; equal layouts compare equal."""
        return self[1:4]

    @property
    def span(self) -> tuple[int, int]:
        """The address of its lowest byte, and the one past its highest; negative strides count."""
        first = self.address + self.layout.low
        return first, first + self.layout.size

    def as_numpy(self) -> Array:
        """A NumPy array over the same memory. The caller must keep the owner alive."""
        layout = self.layout
        if not layout.size:
            return np.empty(layout.shape, layout.dtype)
        buffer = host_bytes(self.address + layout.low, layout.size)
        steps = tuple(stride * layout.dtype.itemsize for stride in layout.strides)
        array: Array = np.ndarray(layout.shape, layout.dtype, buffer.data, -layout.low, steps)
        array.flags.writeable = self.is_writable
        return array


@dataclass(slots=True, eq=False)
class ListValue:
    """A list of arrays of one rank and element type: passed as a pointer to a table of them, and its length."""

    name: str
    items: list[ArrayValue]


Value = Array | ArrayValue | ListValue
"""One or more kernel parameters; a number is a rank-0 array of the parameter's type."""


class Given(NamedTuple):
    """An argument as the client was given it, and its value: None for a constant, which is part of the kernel's code."""

    argument: Any
    value: Value | None


_BYTE = ctypes.c_uint8


def host_bytes(address: int, size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The bytes of host memory from an address on, as a rank-1 array over that memory."""
    if size == 0:
        return np.empty(0, np.uint8)
    memory: Any = (_BYTE * size).from_address(address)
    return np.frombuffer(memory, np.uint8)


def row_of(value: ArrayValue) -> Array:
    """The memory of an array, from its lowest element to its highest, as a rank-1 array over it; read-only if the
    array is.

    For an array without elements an unrelated one of one element.
    """
    layout = value.layout
    if not layout.size:
        # An array without elements needs a pointer too; kernels must not dereference it.
        return np.empty(1, layout.dtype)
    row = host_bytes(value.address + layout.low, layout.size).view(layout.dtype)
    if not value.is_writable:
        row.flags.writeable = False
    return row


def table_of(value: ListValue) -> Array:
    """The table that a kernel receives for a list of arrays: a new rank-1 array of int64, in which each has its
    address, its extents and its strides, in elements.
    """
    records = [[item.address, *item.layout.shape, *item.layout.strides] for item in value.items]
    return np.array(records, np.int64).reshape(-1)


def arguments_of(values: Sequence[Value]) -> Iterator[object]:
    """The values of the kernel's parameters: arrays as rows, extents, strides, numbers."""
    for value in values:
        if isinstance(value, ArrayValue):
            yield row_of(value)
            yield from value.layout.shape
            yield from value.layout.strides
        elif isinstance(value, ListValue):
            yield table_of(value)
            yield len(value.items)
        else:
            yield value.item()


def memory_of_lists(values: Sequence[Value]) -> list[Array]:
    """The memory of the arrays in lists, which kernels access by address."""
    lists = (value for value in values if isinstance(value, ListValue))
    return [row_of(item) for value in lists for item in value.items]


def arrays_of(values: Sequence[Value]) -> list[ArrayValue]:
    """All arrays among the arguments, including those in lists."""
    found: list[ArrayValue] = []
    for value in values:
        if isinstance(value, ArrayValue):
            found.append(value)
        elif isinstance(value, ListValue):
            found += value.items
    return found


def kind_of(value: Value) -> object:
    """The properties of an argument that a modelled time depends on, comparable by equality."""
    if isinstance(value, ArrayValue):
        return value.layout.shape, value.layout.strides, value.layout.dtype
    if isinstance(value, ListValue):
        return tuple(map(kind_of, value.items))
    return value.item()


def converted(values: Sequence[Value]) -> Converted:
    """The arguments as ``check_launch`` returns them."""
    tiles: list[Array] = []
    arrays: dict[int, Array] = {}
    for value in values:
        if isinstance(value, ArrayValue):
            arrays[len(tiles)] = value.as_numpy()
            tiles += [np.zeros((), np.uint64), *value.layout.tiles]
        elif isinstance(value, ListValue):
            tiles += [np.zeros((), np.uint64), np.array(len(value.items), np.int32)]
        else:
            tiles.append(value)
    return Converted(tiles, arrays)
