"""Layouts for reductions and scans along an axis."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.layouts import Layout
from tilewright.layouts.layout import axis_bits, bits_of
from tilewright.layouts.reductions import beyond_warps, index_bits_along

#: The most parts along an axis that each thread adds up for itself.
MOST_PARTS = 32
#: Neighbours along the axis that a thread holds: 16 bytes of 32 bits.
CHUNK = 4


def scans_well(layout: Layout, dims: Sequence[int], axis: int) -> bool:
    """Whether a scan along an axis can be made in a layout, and warps have little to tell one another."""
    places = index_bits_along(layout, dims, axis)
    if places is None:
        return False
    parts = beyond_warps(places)
    return parts <= max(MOST_PARTS, 1 << len(layout.warp))


def scan_layout(dims: Sequence[int], axis: int, threads: int) -> Layout:
    """A layout for a scan: along the axis neighbours in registers, then lanes, then registers again, and
    warps above; as far as other axes leave warps over."""
    first = list(axis_bits(dims)[axis])
    others = [bit for at in reversed(range(len(dims))) if at != axis for bit in axis_bits(dims)[at]]
    over = bits_of(threads)
    free = max(len(first) + len(others) - over, 0)
    inner = min(bits_of(CHUNK), len(first), free)
    along = first[inner:] + others
    lanes, rest = along[:5], along[5:]
    count = min(max(over - 5, 0), len(rest))
    apart = [bit for bit in rest if bit in others]
    upper = [bit for bit in rest if bit not in others]
    warps = apart[:count]
    if len(warps) < count:
        warps += upper[-(count - len(warps)) :]
    register = first[:inner] + [bit for bit in rest if bit not in warps]
    thread = [1 << bit for bit in (*lanes, *warps)]
    thread += [0] * (over - len(thread))
    size = 1 << len(first) + len(others)
    return Layout(size, tuple(1 << bit for bit in register), tuple(thread[:5]), tuple(thread[5:]))
