"""Arguments for machines that run in the address space of the host, such as the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.cutile.arrays import NUMPY_DTYPES, host_bytes
from tilewright.cutile.parameters import ArrayValue, ListValue


def row_of(value: ArrayValue) -> np.ndarray[Any, Any]:
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


def table_of(value: ListValue) -> np.ndarray[Any, Any]:
    """The records that a kernel gets for a list of arrays."""
    records = [[item.address, *item.layout.shape, *item.layout.strides] for item in value.items]
    return np.array(records, np.int64).reshape(-1)
