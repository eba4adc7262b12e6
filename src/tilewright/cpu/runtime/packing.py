"""Launch arguments as the slots that compiled kernels read.

Nearly all launches pass contiguous arrays and plain numbers of the right types: those are packed in
a few microseconds. Everything else, right or wrong, goes through the checks that all machines share.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.cpu.runtime.buffers import tile_bytes
from tilewright.diagnostics import TileIRError
from tilewright.dialects.source_map import place_of
from tilewright.launching.arguments import ARRAY_DTYPES, check_grid, misaligned
from tilewright.launching.checks import check_launch, first_writes
from tilewright.launching.codes import BAD_ARGUMENT
from tilewright.launching.foreign_arrays import as_array
from tilewright.launching.modules import KernelOp
from tilewright.launching.value_types import TileLike, is_pointer, pointee_in, tile_like
from tilewright.numerics.arrays import Array, to_bytes
from tilewright.numerics.element_types import FORMATS

#: What needs no other look to see that it is no array of another library.
_PLAIN = frozenset({np.ndarray, int, float, bool})
_LISTS = frozenset({tuple, list})
ALL_MEMORY = (0, 2**64 - 1)
_STRUCT_FLOATS = {"f16": "<e", "f32": "<f", "f64": "<d"}


Span = tuple[int, int]
"""The address of a first byte, and that behind a last one."""


@dataclass(slots=True)
class Packed:
    """A launch that may begin.

    ``distinct``: no two arrays share memory, and there are no bare addresses. ``keep`` holds what the
    slots point to, as it was given, ``copies`` what they point to otherwise: tiles that are passed by
    value. ``spans`` is the memory of each pointer argument, where ``keep`` does not tell.
    """

    grid: tuple[int, int, int]
    slots: list[int]
    distinct: bool
    keep: Sequence[Any]
    spans: list[Span] | None = None
    copies: Sequence[Array] = ()


@dataclass(frozen=True, slots=True)
class _Pointer:
    dtypes: frozenset[np.dtype[Any]]
    is_written: bool


_Number = Callable[[Any], "int | None"]


class Packer:
    """Packs the arguments of one kernel."""

    def __init__(self, kernel: KernelOp) -> None:
        self._kernel = kernel
        self._place = place_of(kernel)
        self._last_grid: tuple[object, tuple[int, int, int]] = None, (1, 1, 1)
        self._types = [_launchable(kernel, n, p.type) for n, p in enumerate(kernel.block.args)]
        written = first_writes(kernel)
        self._specs: list[_Pointer | _Number] = [
            _Pointer(frozenset(ARRAY_DTYPES[pointee_in(ty)]), number in written or None in written)
            if is_pointer(ty)
            else _number_packer(ty)
            for number, ty in enumerate(self._types)
        ]

    def spans(self, packed: Packed) -> list[Span]:
        """The memory that each pointer argument stands for: ``ALL_MEMORY`` for a bare address."""
        if packed.spans is not None:
            return packed.spans
        found: list[Span] = []
        for spec, value in zip(self._specs, packed.keep, strict=True):
            if not isinstance(spec, _Pointer):
                continue
            is_array = isinstance(value, np.ndarray) and value.ndim > 0
            found.append(span_of(value) if is_array else ALL_MEMORY)
        return found

    def pack(self, grid: object, args: Sequence[object], *, allow_overlap: bool) -> Packed:
        """The slots for these arguments; a TileIRError with everything that is wrong with them."""
        quick = self._quickly(grid, args)
        if quick is None and isinstance(args, tuple | list):
            args = [
                value if type(value) in _PLAIN else as_array(value, f"argument {n}", self._place)
                for n, value in enumerate(args)
            ]
            quick = self._quickly(grid, args)
        if quick is not None and (allow_overlap or quick.distinct):
            return quick
        return self._carefully(grid, args, allow_overlap)

    def _quickly(self, grid: object, args: Sequence[Any]) -> Packed | None:
        """The usual case; None where anything is out of the ordinary."""
        if type(args) not in _LISTS or len(args) != len(self._specs):
            return None
        slots: list[int] = []
        spans: list[tuple[int, int]] = []
        for spec, value in zip(self._specs, args):
            if isinstance(spec, _Pointer):
                if type(value) is not np.ndarray or value.dtype not in spec.dtypes:
                    return None
                flags = value.flags
                if not flags.c_contiguous or (spec.is_written and not flags.writeable):
                    return None
                address, size = address_of(value), value.nbytes
                if not size or address % value.itemsize:
                    return None
                spans.append((address, address + size))
                slots.append(address)
            else:
                slot = spec(value)
                if slot is None:
                    return None
                slots.append(slot)
        return Packed(self._extents(grid), slots, are_apart(spans), tuple(args))

    def _extents(self, grid: object) -> tuple[int, int, int]:
        """The grid with three extents, checked if it is not that of the launch before."""
        if type(grid) is not tuple:
            return check_grid(grid, self._kernel)
        known, extents = self._last_grid
        if grid is known:
            return extents
        if grid != known or any(type(extent) is not int for extent in grid):
            extents = check_grid(grid, self._kernel)
            self._last_grid = grid, extents
        return extents

    def _carefully(self, grid: object, args: Sequence[object], allow_overlap: bool) -> Packed:
        checked = check_launch(
            self._kernel, grid, args, seed=0, max_iterations=1, allow_overlap=allow_overlap
        )
        given = checked.arguments
        slots: list[int] = []
        copies: list[Array] = []
        for value, ty in zip(given.values, self._types, strict=True):
            if ty.rank:
                copies.append(tile_bytes(ty, value))
                slots.append(copies[-1].ctypes.data)
            else:
                slots.append(_slot_of(value, ty))
        errors: list[TileIRError] = []
        for number, array in given.arrays.items():
            slots[number] = array.ctypes.data
            if (error := misaligned(number, array, slots[number], self._place)) is not None:
                errors.append(error)
        if errors:
            raise TileIRError([d for error in errors for d in error.diagnostics])
        spans = [np.lib.array_utils.byte_bounds(array) for array in given.arrays.values()]
        bare = any(is_pointer(ty) and n not in given.arrays for n, ty in enumerate(self._types))
        distinct = not bare and are_apart(spans)
        return Packed(checked.grid, slots, distinct, list(args), copies=copies)


def _address_by_interface(array: Array) -> int:
    return array.__array_interface__["data"][0]


def _address_by_layout(array: Array) -> int:
    return ctypes.c_void_p.from_address(id(array) + object.__basicsize__).value or 0


def _quickest_address() -> Callable[[Array], int]:
    """How the address of an array's first element is found: where NumPy's ABI puts it, right behind
    the head of the object. Its other ways make a dozen objects, which take longer than all the rest of
    packing."""
    sample = np.zeros(3)[1:]
    is_native = sys.implementation.name == "cpython"
    if is_native and _address_by_layout(sample) == _address_by_interface(sample):
        return _address_by_layout
    return _address_by_interface


address_of = _quickest_address()


def span_of(array: Array) -> Span:
    """The addresses of an array's first byte, and of that behind its last one."""
    first, behind = np.lib.array_utils.byte_bounds(array)
    return int(first), int(behind)


def are_apart(spans: Sequence[Span]) -> bool:
    """Whether no two ranges of addresses have a byte in common."""
    reach = 0
    for start, end in sorted(spans):
        if start < reach:
            return False
        reach = end
    return True


def _launchable(kernel: KernelOp, number: int, ty: Any) -> TileLike:
    found = tile_like(ty)
    if found is None or (found.rank and is_pointer(found)):
        raise TileIRError.single(
            BAD_ARGUMENT,
            f"argument {number} cannot be passed on this machine: its type is '{ty}'",
            place_of(kernel),
            help="pass tiles through memory",
        )
    return found


def _slot_of(value: Array, ty: TileLike) -> int:
    """The bits of a rank-0 tile."""
    if is_pointer(ty):
        return int(value)
    return int.from_bytes(to_bytes(value, ty.element), "little")


def _number_packer(ty: TileLike) -> _Number:
    if ty.rank:
        return _no_quick_way
    fmt = FORMATS[ty.element]
    if fmt.is_float:
        return _float_packer(ty.element)
    low, high, mask = -(1 << (fmt.bits - 1)), fmt.mask, fmt.mask

    def pack_integer(value: Any) -> int | None:
        return value & mask if type(value) is int and low <= value <= high else None

    return pack_integer if fmt.bits > 1 else _no_quick_way


def _float_packer(element: str) -> _Number:
    form = _STRUCT_FLOATS.get(element)
    if form is None:
        return _no_quick_way
    pack = struct.Struct(form).pack

    def pack_float(value: Any) -> int | None:
        if type(value) is not float and type(value) is not int:
            return None
        try:
            return int.from_bytes(pack(value), "little")
        except (OverflowError, struct.error):
            return None

    return pack_float


def _no_quick_way(value: Any) -> int | None:
    return None
