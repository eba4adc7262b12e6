"""Layouts of a tile whose elements are made of several neighbours of another one, or are taken apart into them."""

from __future__ import annotations

from tilewright.layouts import gf2
from tilewright.layouts.layout import Layout


def wide_layout(narrow: Layout, bits: int) -> Layout | None:
    """The layout of elements that are each made of ``2**bits`` neighbours in a layout; None if a thread does not hold all of
    them for each of its own."""
    low = (1 << bits) - 1
    inner = [1 << bit for bit in range(bits)]
    rest = [basis for basis in narrow.register if basis not in inner]
    if len(rest) + bits != len(narrow.register):
        return None
    if any(basis & low for basis in (*rest, *narrow.thread)):
        return None
    register, lane, warp = (
        tuple(basis >> bits for basis in bases) for bases in (rest, narrow.lane, narrow.warp)
    )
    return Layout(narrow.size >> bits, register, lane, warp)


def narrow_layout(wide: Layout, bits: int) -> Layout:
    """The layout of elements of which ``2**bits`` neighbours are one in a layout."""
    register, lane, warp = (
        tuple(basis << bits for basis in bases) for bases in (wide.register, wide.lane, wide.warp)
    )
    inner = tuple(1 << bit for bit in range(bits))
    return Layout(wide.size << bits, (*inner, *register), lane, warp)


def narrow_registers(narrow: Layout, bits: int) -> tuple[int, ...]:
    """The registers of a layout in the order of ``wide_layout``, those of an element side by side, the first one first."""
    inner = [1 << bit for bit in range(bits)]
    rest = [basis for basis in narrow.register if basis not in inner]
    return gf2.sums([1 << narrow.register.index(basis) for basis in (*inner, *rest)])
