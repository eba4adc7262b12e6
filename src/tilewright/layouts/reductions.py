"""Where the bits of one coordinate live (register, lane or warp), for reductions and scans along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import prod

from tilewright.layouts.layout import Layout, axis_bits


@dataclass(frozen=True, slots=True)
class IndexBit:
    """A bit of the number of a ``register``, a ``lane`` or a ``warp``."""

    kind: str
    bit: int


def index_bits_along(layout: Layout, dims: Sequence[int], axis: int) -> tuple[IndexBit, ...] | None:
    """For each bit of the coordinate along an axis, from the lowest, the index bit that determines it.

    None if a coordinate bit depends on several bits, or if one also affects other axes.
    """
    bits = axis_bits(dims)[axis]
    mask = sum(1 << bit for bit in bits)
    found: dict[int, IndexBit] = {}
    for kind in ("register", "lane", "warp"):
        for number, basis in enumerate(getattr(layout, kind)):
            if not basis & mask:
                continue
            if basis & (basis - 1) or basis in found:
                return None
            found[basis] = IndexBit(kind, number)
    if len(found) != len(bits):
        return None
    return tuple(found[1 << bit] for bit in bits)


def leading(places: Sequence[IndexBit], kind: str) -> tuple[IndexBit, ...]:
    """The index bits of a kind (``register``, ``lane`` or ``warp``) at the start of ``places``."""
    return tuple(takewhile(lambda place: place.kind == kind, places))


def beyond_warps(places: Sequence[IndexBit]) -> int:
    """The number of partial results along the axis after folding within warps; 1 if no bit is of a warp."""
    below = [place.kind for place in places].index("warp") if has_warps(places) else len(places)
    return 1 << len(places) - below


def has_warps(places: Sequence[IndexBit]) -> bool:
    """Whether the folded elements are in different warps."""
    return any(place.kind == "warp" for place in places)


def totals_layout(
    layout: Layout, dims: Sequence[int], axis: int, places: Sequence[IndexBit]
) -> tuple[Layout, Layout]:
    """Two layouts of the parts of an axis that ``places``, its upper bits, distinguish: one where each thread has its
    own parts, and one where it has all parts of its row.

    The part is the upper bits of the element's number. In the first layout registers are those of ``places`` and of
    other axes, in order; in the second the bits of the part come last.
    """
    bits = axis_bits(dims)[axis]
    low = bits.stop - len(places)
    others = layout.bits - len(bits)
    below = iter(range(others))
    bit_to: list[int | None] = []
    for bit in range(layout.bits):
        if bit in bits:
            bit_to.append(others + bit - low if bit >= low else None)
        else:
            bit_to.append(next(below))
    kept = layout.mapped(1 << others + len(places), bit_to)
    # Registers along the axis below the parts have no elements in the tile of parts.
    mask = sum(1 << bit for bit in range(bits.start, low))
    own = kept.with_registers(
        [
            basis
            for basis, given in zip(kept.register, layout.register, strict=True)
            if not given & mask
        ]
    )
    rest = (1 << others) - 1
    register = [basis for basis in own.register if not basis & ~rest]
    register += [1 << others + number for number in range(len(places))]
    everything = Layout(
        own.size,
        tuple(register),
        tuple(basis & rest for basis in own.lane),
        tuple(basis & rest for basis in own.warp),
    )
    return own, everything


def partials_layouts(
    layout: Layout, dims: Sequence[int], axis: int
) -> tuple[Layout, Layout] | None:
    """The layout of each warp's partial result along an axis, and one in which all threads have those of all warps.
    None if a single warp has the whole axis.

    Elements are numbered as in the tile without the axis, with the part in the upper bits, which are the last register
    bits of the second layout.
    """
    mask = sum(1 << bit for bit in axis_bits(dims)[axis])
    warps = [bit for bit, basis in enumerate(layout.warp) if basis & mask]
    if not warps:
        return None
    rest, size = layout.sliced(dims, axis), prod(dims) // dims[axis]
    parts = list(rest.warp)
    for number, bit in enumerate(warps):
        parts[bit] = size << number
    total = size << len(warps)
    own = Layout(total, rest.register, rest.lane, tuple(parts))
    numbers = [size << number for number in range(len(warps))]
    return own, Layout(total, (*rest.register, *numbers), rest.lane, rest.warp)
