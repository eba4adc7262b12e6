"""Assigns tile blocks that wait for one another, those with the same key, to one thread.

``codegen.analysis.lock_keys`` tells what a key is, and why that order is as good as any.
"""

from __future__ import annotations

import ctypes
from array import array

import numpy as np

from tilewright.cpu.runtime.driver import LaunchState

#: Grids of more blocks keep their order.
_MOST_BLOCKS = 1 << 20
_POINTER, _WIDE = ctypes.c_void_p, ctypes.c_int64
_KEYS = ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _WIDE, _WIDE, _POINTER)


def arranged_by_key(state: LaunchState, threads: int, keys: int) -> None:
    """Give each of several threads the blocks of some keys, in their order. Nothing changes where there are
    fewer keys than threads.

    ``keys`` is the address of the function that gives them (``abi``).
    """
    total = state.total
    if not threads <= total <= _MOST_BLOCKS:
        return
    found = np.empty(total, np.int64)
    _KEYS(keys)(state.slots_address, state.grid_address, 0, total, found.ctypes.data)
    held = np.sort(found)
    if np.count_nonzero(np.diff(held)) + 1 < threads:
        return
    ends = [_nearest_end(held, total * number // threads) for number in range(1, threads)]
    firsts = held[ends]
    owners = np.searchsorted(firsts, found, "right").astype(np.uint16)
    order = np.argsort(owners, kind="stable").astype(np.int64)
    state.arrange(array("q", order.tobytes()))
    state.divide(threads, ends)


def _nearest_end(keys: np.ndarray[tuple[int], np.dtype[np.int64]], wanted: int) -> int:
    """Where the blocks of a key begin, near a place in sorted keys, but not with the first one."""
    key = keys[wanted]
    begin, end = (int(np.searchsorted(keys, key, side)) for side in ("left", "right"))
    return begin if begin and (wanted - begin < end - wanted or end == len(keys)) else end
