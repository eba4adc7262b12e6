"""Launches on machines that run in the address space of the host, such as the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tilewright.cutile.arrays import NUMPY_DTYPES, host_bytes
from tilewright.cutile.parameters import ArrayValue, ListValue, Value

if TYPE_CHECKING:
    from tilewright.cutile.scope import Settings


class HostProgram(Protocol):
    """A loaded module that takes arrays and addresses of the host."""

    def launch(
        self,
        entry: str | None = ...,
        grid: int | Sequence[int] = ...,
        args: Sequence[object] = ...,
        *,
        allow_overlap: bool = ...,
        print_to: Callable[[str], object] | None = ...,
    ) -> object: ...


class CompiledKernel:
    """A compiled kernel of a :class:`HostProgram`, which several threads may launch at once."""

    def __init__(self, program: HostProgram, entry: str):
        self._program, self._entry = program, entry

    def launch(
        self, grid: tuple[int, int, int], values: Sequence[Value], settings: Settings
    ) -> None:
        self._program.launch(
            self._entry,
            grid,
            _arguments(values),
            allow_overlap=True,
            print_to=settings.print_to,
        )


def _arguments(values: Sequence[Value]) -> list[object]:
    # The arrays of a list may share memory with others, which the machine cannot see: where there is
    # one, it gets bare addresses, of which it assumes nothing.
    has_list = any(type(value) is ListValue for value in values)
    found: list[object] = []
    for value in values:
        if type(value) is ArrayValue:
            found.append(value.address if has_list else _row(value))
            found += value.layout.shape
            found += value.layout.strides
        elif type(value) is ListValue:
            found.append(_table(value))
            found.append(len(value.items))
        else:
            assert isinstance(value, np.ndarray)
            found.append(value.item())
    return found


def _row(value: ArrayValue) -> np.ndarray[Any, Any]:
    """The memory that an array lies in, from its first element to its last, as one row of them."""
    layout = value.layout
    dtype = NUMPY_DTYPES[layout.dtype]
    if not layout.size:
        # A pointer is wanted also for an array without elements; no kernel may go through it.
        return np.empty(1, dtype)
    row = host_bytes(value.address + layout.low, layout.size).view(dtype)
    if not value.is_writable:
        row.flags.writeable = False
    return row


def _table(value: ListValue) -> np.ndarray[Any, Any]:
    """The records that a kernel gets for a list of arrays."""
    records = [[item.address, *item.layout.shape, *item.layout.strides] for item in value.items]
    return np.array(records, np.int64).reshape(-1)
