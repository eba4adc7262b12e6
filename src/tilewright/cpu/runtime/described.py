"""Packs arguments that a client has already described."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.cpu.runtime.argument_fast_path import Span, are_apart
from tilewright.cpu.runtime.packing import ALL_MEMORY, Packed
from tilewright.diagnostics import TileIRError
from tilewright.dialects.source_map import location_of
from tilewright.launching.checks import first_writes
from tilewright.launching.codes import BAD_ARGUMENT, READ_ONLY_MEMORY, source_note
from tilewright.launching.described import ArrayValue, ListValue, Value, table_of
from tilewright.launching.modules import KernelOp


class DescribedPacker:
    """Packs the described arguments of one kernel."""

    def __init__(self, kernel: KernelOp):
        self._kernel = kernel
        self._written = first_writes(kernel)

    def pack(self, grid: tuple[int, int, int], values: Sequence[Value]) -> Packed:
        """The slots for the arguments; a TileIRError where they are not fit for this kernel."""
        slots: list[int] = []
        spans: list[Span] = []
        written: list[bool] = []
        keep: list[object] = [values]
        for value in values:
            if type(value) is ArrayValue:
                _, address, layout, is_writable, _, _ = value
                if address % layout.dtype.itemsize:
                    raise self._misaligned(value)
                if not is_writable:
                    self._check_unwritten(value, len(slots))
                first = address + layout.low
                spans.append((first, first + layout.size))
                written.append(self._may_write(len(slots)))
                slots.append(address)
                slots += layout.bits
            elif type(value) is ListValue:
                # The arrays of a list may share memory with others, and nobody looks.
                spans.append(ALL_MEMORY)
                written.append(self._may_write(len(slots)))
                for item in value.items:
                    if item.address % item.layout.dtype.itemsize:
                        raise self._misaligned(item)
                table = table_of(value)
                slots += (table.ctypes.data, len(value.items))
                keep.append(table)
            else:
                assert isinstance(value, np.ndarray)
                slots.append(int.from_bytes(value.tobytes(), "little"))
        reaches = [(*span, may_write) for span, may_write in zip(spans, written, strict=True)]
        return Packed(grid, slots, are_apart(reaches), keep, spans)

    def _may_write(self, parameter: int) -> bool:
        return parameter in self._written or None in self._written

    def _misaligned(self, value: ArrayValue) -> TileIRError:
        """The error for an array whose elements are not where elements may be."""
        size = value.layout.dtype.itemsize
        return TileIRError.single(
            BAD_ARGUMENT,
            f"{value.name} starts {value.address % size} bytes past a multiple of its element "
            f"size, {size} bytes",
            location_of(self._kernel),
            help="pass a copy of the array",
        )

    def _check_unwritten(self, value: ArrayValue, parameter: int) -> None:
        """A TileIRError for an array that is read-only and that the kernel writes to."""
        write = self._written.get(parameter)
        if write is not None:
            raise TileIRError.single(
                READ_ONLY_MEMORY,
                f"{value.name} is a read-only array, but the kernel writes to it",
                location_of(write),
                notes=source_note(write),
                help="pass a copy of the array",
            )
