"""Packs launch arguments into the slots that compiled kernels read.

Nearly all launches pass contiguous arrays and plain numbers of the right types; those take the fast path
(``argument_fast_path``). Everything else, right or wrong, goes through the checks that all machines share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.cpu.runtime.argument_fast_path import Slots, Span, are_apart, fast_path
from tilewright.cpu.runtime.buffers import tile_bytes
from tilewright.cpu.runtime.modules import LaunchedKernel
from tilewright.cpu.runtime.native_packing import NativePacker, native_packer
from tilewright.launching.accepted import check_grid
from tilewright.launching.array_interchange import in_numpy
from tilewright.launching.interfaces import PassedType
from tilewright.numerics.arrays import Array, to_bytes

ALL_MEMORY = (0, 2**64 - 1)
_NUMBERS: tuple[type[np.generic], ...] = (np.integer, np.float32, np.float64)


@dataclass(slots=True)
class Packed:
    """A launch that may begin.

    ``distinct``: no array that the kernel may write to shares memory with another one, and there are
    no bare addresses. ``keep`` holds what the
    slots point to, as it was given, ``copies`` what they point to otherwise: tiles that are passed by
    value. ``spans`` is the memory of each pointer argument, where ``keep`` does not tell.
    """

    grid: tuple[int, int, int]
    slots: list[int]
    distinct: bool
    keep: Sequence[Any]
    spans: list[Span] | None = None
    copies: Sequence[Array] = ()


class Packer:
    """Packs the arguments of one kernel."""

    def __init__(self, kernel: LaunchedKernel) -> None:
        self._kernel = kernel
        self._interface = interface = kernel.interface
        self._last_grid: tuple[object, tuple[int, int, int]] = None, (1, 1, 1)
        self._types = [parameter.type for parameter in interface.parameters]
        self._written = frozenset(filter(interface.may_write, range(len(self._types))))

    @cached_property
    def native(self) -> NativePacker | None:
        """How native code packs the arguments; None for kernels whose parameters it does not know."""
        return native_packer(self._types, self._written)

    @cached_property
    def arrays(self) -> tuple[int, ...]:
        """The numbers of the parameters that are pointers."""
        return tuple(number for number, ty in enumerate(self._types) if ty.is_pointer)

    @cached_property
    def _quick(self) -> Callable[[Sequence[Any]], Slots | None]:
        return fast_path(self._types, self._written)

    def spans(self, packed: Packed) -> list[Span]:
        """The addresses of memory that each pointer argument stands for: ``ALL_MEMORY`` for a bare address."""
        if packed.spans is not None:
            return packed.spans
        found: list[Span] = []
        for ty, value in zip(self._types, packed.keep, strict=True):
            if not ty.is_pointer:
                continue
            found.append(span_of(value) if isinstance(value, np.ndarray) else ALL_MEMORY)
        return found

    def pack(self, grid: object, args: Sequence[object], *, allow_overlap: bool) -> Packed:
        """The slots for these arguments; arrays behind pointers stay where they are, tiles are copied.

        Raises ``TileIRError`` with everything that is wrong with them, overlaps included unless ``allow_overlap``.
        """
        quick = self._quickly(grid, args)
        if quick is None:
            args = in_numpy(args, lambda: self._kernel.location)
            plain = with_plain_numbers(args) if isinstance(args, tuple | list) else None
            quick = self._quickly(grid, plain or args)
        if quick is not None and (allow_overlap or quick.distinct):
            return quick
        return self._carefully(grid, args, allow_overlap)

    def _quickly(self, grid: object, args: Sequence[Any]) -> Packed | None:
        """The usual case; None where anything is out of the ordinary."""
        found = self._quick(args)
        if found is None:
            return None
        slots, distinct = found
        return Packed(self._extents(grid), slots, distinct, tuple(args))

    def _extents(self, grid: object) -> tuple[int, int, int]:
        """The grid with three extents, checked if it is not that of the launch before."""
        if type(grid) is not tuple:
            return check_grid(grid, self._interface.promised_grid)
        known, extents = self._last_grid
        if grid is known:
            return extents
        if grid != known or any(type(extent) is not int for extent in grid):
            extents = check_grid(grid, self._interface.promised_grid)
            self._last_grid = grid, extents
        return extents

    def _carefully(self, grid: object, args: Sequence[object], allow_overlap: bool) -> Packed:
        # Imported where it is needed: it looks at the operation.
        from tilewright.launching.checks import check_alignment, check_launch

        kernel = self._kernel
        checked = check_launch(
            kernel.op, grid, args, allow_overlap=allow_overlap, writes=kernel.writes
        )
        given = checked.arguments
        slots: list[int] = []
        copies: list[Array] = []
        for value, ty in zip(given.values, self._types, strict=True):
            if ty.dims:
                copies.append(tile_bytes(ty, value))
                slots.append(copies[-1].ctypes.data)
            else:
                slots.append(_slot_of(value, ty))
        check_alignment(kernel.op, given.arrays)
        for number, array in given.arrays.items():
            slots[number] = array.ctypes.data
        reaches = [(*span_of(array), n in self._written) for n, array in given.arrays.items()]
        bare = any(ty.is_pointer and n not in given.arrays for n, ty in enumerate(self._types))
        distinct = not bare and are_apart(reaches)
        return Packed(checked.grid, slots, distinct, list(args), copies=copies)


def with_plain_numbers(args: Sequence[Any]) -> tuple[Any, ...] | None:
    """Arguments with NumPy's integers, f32 and f64 as Python's numbers; None where there are none of those."""
    if not any(isinstance(each, _NUMBERS) for each in args):
        return None
    return tuple([each.item() if isinstance(each, _NUMBERS) else each for each in args])


def span_of(array: Array) -> Span:
    """The addresses of an array's first byte, and of that behind its last one."""
    first, behind = np.lib.array_utils.byte_bounds(array)
    return int(first), int(behind)


def _slot_of(value: Array, ty: PassedType) -> int:
    """The bits of a rank-0 tile."""
    if ty.is_pointer:
        return int(value)
    return int.from_bytes(to_bytes(value, ty.element), "little")
