"""Broadcasts of tiles with layouts: which source register each result register copies."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.layouts import gf2
from tilewright.layouts.layout import Layout, axis_bits


def broadcast_registers(
    own: Layout, layout: Layout, given: Sequence[int], wanted: Sequence[int]
) -> list[int] | None:
    """For each register of a tile of extents ``wanted`` in ``layout``, the register with the same element of the
    source, of extents ``given`` in ``own``.

    None if a thread does not hold the element, or if the register depends on the thread.
    """
    spread = tuple(_source_of(basis, given, wanted) for basis in layout.thread)
    if spread != own.thread:
        return None
    found: list[int] = []
    for offset in layout.offsets:
        register = gf2.solve(own.register, _source_of(offset, given, wanted))
        if register is None:
            return None
        found.append(register)
    return found


def _source_of(number: int, given: Sequence[int], wanted: Sequence[int]) -> int:
    """The source element that is broadcast to element ``number`` of the result."""
    found = below = 0
    for extent, bits in reversed(list(zip(given, axis_bits(wanted), strict=True))):
        if extent == 1:
            continue
        for bit in bits:
            found |= (number >> bit & 1) << below
            below += 1
    return found
