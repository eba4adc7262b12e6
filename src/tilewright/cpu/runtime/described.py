"""Packs arguments that a client has already described."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.cpu.runtime.argument_fast_path import are_apart
from tilewright.cpu.runtime.modules import LaunchedKernel
from tilewright.cpu.runtime.packing import ALL_MEMORY, Packed
from tilewright.diagnostics import TileIRError
from tilewright.launching.codes import BAD_ARGUMENT, READ_ONLY_MEMORY, source_note
from tilewright.launching.described import ArrayValue, ListValue, Value, table_of


class DescribedPacker:
    """Packs the described arguments of one kernel."""

    def __init__(self, kernel: LaunchedKernel):
        self._kernel = kernel
        self.written = kernel.interface.written
        """The numbers of the parameters that the kernel may write through; None for any."""
        self._may_write_any = None in self.written

    def pack(self, grid: tuple[int, int, int], values: Sequence[Value]) -> Packed:
        """The slots for the arguments; arrays stay where they are.

        Raises ``TileIRError`` (``bad-argument``, ``read-only-memory``) where they are not fit for this kernel:
        misaligned, or read-only where it writes.
        """
        slots: list[int] = []
        reaches: list[tuple[int, int, bool]] = []
        keep: list[object] = [values]
        written, may_write_any = self.written, self._may_write_any
        for value in values:
            may_write = may_write_any or len(slots) in written
            if type(value) is ArrayValue:
                _, address, layout, is_writable, _, _ = value
                if address % layout.dtype.itemsize:
                    raise self._misaligned(value)
                if not is_writable:
                    self._check_unwritten(value, len(slots))
                first = address + layout.low
                reaches.append((first, first + layout.size, may_write))
                slots.append(address)
                slots += layout.bits
            elif type(value) is ListValue:
                # The arrays of a list may share memory with others, and nobody looks.
                reaches.append((*ALL_MEMORY, may_write))
                for item in value.items:
                    if item.address % item.layout.dtype.itemsize:
                        raise self._misaligned(item)
                table = table_of(value)
                slots += (table.ctypes.data, len(value.items))
                keep.append(table)
            else:
                assert isinstance(value, np.ndarray)
                slots.append(int.from_bytes(value.tobytes(), "little"))
        return Packed(grid, slots, are_apart(reaches), keep, [reach[:2] for reach in reaches])

    def _misaligned(self, value: ArrayValue) -> TileIRError:
        """The error for an array whose elements are not where elements may be."""
        size = value.layout.dtype.itemsize
        return TileIRError.single(
            BAD_ARGUMENT,
            f"{value.name} starts {value.address % size} bytes past a multiple of its element "
            f"size, {size} bytes",
            self._kernel.location,
            help="pass a copy of the array",
        )

    def _check_unwritten(self, value: ArrayValue, parameter: int) -> None:
        """A TileIRError for an array that is read-only and that the kernel writes to."""
        if parameter in self.written:
            from tilewright.dialects.source_map import location_of

            write = self._kernel.writes[parameter]
            raise TileIRError.single(
                READ_ONLY_MEMORY,
                f"{value.name} is a read-only array, but the kernel writes to it",
                location_of(write),
                notes=source_note(write),
                help="pass a copy of the array",
            )
