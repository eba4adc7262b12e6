"""Plans the cheapest conversion between two layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tilewright.layouts import gf2
from tilewright.layouts.lane_moves import LaneMoves, plan_lane_moves
from tilewright.layouts.layout import Layout, bits_of
from tilewright.layouts.shared import ROW_BYTES, SharedLayout

#: The width in bytes of a thread's widest access.
WIDEST = 16
#: Plans that are kept: passes ask for the same ones again and again.
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class SharedConversion:
    """A conversion through shared memory: threads write vectors of ``write`` adjacent elements, and read vectors of
    ``read``.

    Registers are permuted first: register r of ``source`` is register ``source_order[r]`` of the given layout, and
    likewise for ``target``.
    """

    shared: SharedLayout
    source: Layout
    source_order: tuple[int, ...]
    target: Layout
    target_order: tuple[int, ...]
    write: int
    read: int


@dataclass(frozen=True, slots=True)
class Conversion:
    """How registers of the target are filled. Exactly one field is set.

    ``registers``: register r of the target is ``registers[r]`` of the source in the same thread. ``lanes``: moves
    within warps. ``shared_conversion``: through shared memory.
    """

    registers: tuple[int, ...] | None = None
    lanes: LaneMoves | None = None
    shared_conversion: SharedConversion | None = None


@lru_cache(maxsize=_REMEMBERED)
def plan_conversion(source: Layout, target: Layout, element_bytes: int) -> Conversion:
    """The cheapest conversion of a tile from layout ``source`` to ``target``, in the same block of threads.

    In order of preference: renamed registers, moves within warps, shared memory. ``element_bytes`` is a power of two
    up to 16. Raises ``ValueError`` if the layouts are of different tiles or blocks.
    """
    if source.size != target.size or (len(source.lane), len(source.warp)) != (
        len(target.lane),
        len(target.warp),
    ):
        raise ValueError("layouts of different tiles or blocks")
    renamed = _renamed(source, target)
    if renamed is not None:
        return Conversion(registers=renamed)
    lanes = plan_lane_moves(source, target)
    if lanes is not None:
        return Conversion(lanes=lanes)
    return Conversion(shared_conversion=plan_shared_conversion(source, target, element_bytes))


def _renamed(source: Layout, target: Layout) -> tuple[int, ...] | None:
    """For each register of the target, the register of the source in the same thread; None if there is none."""
    own = gf2.Space(source.register)
    if any(one ^ other not in own for one, other in zip(source.thread, target.thread, strict=True)):
        return None
    if any(one != other for one, other in zip(source.thread, target.thread, strict=True)):
        # The register would depend on the thread.
        return None
    return gf2.solve_all(source.register, target.register)


def halving_bit(source: Layout, target: Layout) -> int | None:
    """A bit of an element's number that one bit of the registers alone says in both layouts: by it, a conversion can be made in
    two halves, one after the other. None if there is none."""
    for bit in reversed(range(source.bits)):
        holders = [
            [basis for basis in layout.bases if basis >> bit & 1] for layout in (source, target)
        ]
        pure = all(held == [1 << bit] for held in holders)
        if pure and all(1 << bit in layout.register for layout in (source, target)):
            return bit
    return None


@lru_cache(maxsize=_REMEMBERED)
def plan_shared_conversion(source: Layout, target: Layout, element_bytes: int) -> SharedConversion:
    """A conversion through shared memory without bank conflicts on either side, with the widest vectors common to both,
    else those of one side.

    The position of an element is a linear function of its number. The lowest bits are the offset in a vector, then
    those that select the bank, on which the lanes of a phase must differ for both sides; the rest select the row. The
    row space must intersect neither side's lane space. Such a space exists because both have the same dimension; it is
    spanned by sums of their vectors.
    """
    most = bits_of(WIDEST // element_bytes)
    bits = source.bits
    common = gf2.intersection(gf2.independent(source.register), gf2.independent(target.register))
    vector = _least(common)[:most]
    _widen(vector, source, target, element_bytes)
    row = bits_of(ROW_BYTES // element_bytes)
    lanes = [_phase(layout, vector, row - len(vector)) for layout in (source, target)]
    banks, rows = _split(vector, lanes[0], lanes[1], bits, row)
    basis_elements = vector + banks + rows
    places = [0] * bits
    for bit in range(bits):
        solution = gf2.solve(basis_elements, 1 << bit)
        assert solution is not None
        places[bit] = solution
    shared = SharedLayout(tuple(places))
    sides: list[tuple[Layout, tuple[int, ...], int]] = []
    for layout in (source, target):
        ordered, order = ordered_for(layout, shared, element_bytes)
        sides.append((ordered, order, shared.vector(ordered, 1 << most)))
    (one, one_order, write), (other, other_order, read) = sides
    return SharedConversion(shared, one, one_order, other, other_order, write, read)


def shared_between(
    source: Layout, target: Layout, element_bytes: int, vector: Sequence[int]
) -> SharedLayout:
    """A shared layout in which the elements spanned by ``vector`` are adjacent, in its order, without bank conflicts on
    either side: ``source`` accesses whole vectors, ``target`` vectors or words in them.
    """
    row = bits_of(ROW_BYTES // element_bytes)
    inner = list(vector)
    lanes = [_phase(layout, inner, row - len(inner)) for layout in (source, target)]
    banks, rows = _split(inner, lanes[0], lanes[1], source.bits, row)
    elements = inner + banks + rows
    places: list[int] = []
    for bit in range(source.bits):
        solution = gf2.solve(elements, 1 << bit)
        assert solution is not None
        places.append(solution)
    return SharedLayout(tuple(places))


def _least(vectors: Sequence[int]) -> list[int]:
    """The basis of the same space with the smallest numbers, ascending."""
    rows = sorted(gf2.independent(vectors))
    for position, row in enumerate(rows):
        for other in range(position):
            lead = 1 << (rows[other].bit_length() - 1)
            if row & lead:
                row ^= rows[other]
        rows[position] = row
    changed = True
    while changed:
        changed = False
        rows.sort()
        for i, one in enumerate(rows):
            for j, other in enumerate(rows):
                if i != j and one ^ other < one:
                    rows[i], changed = one ^ other, True
                    one = rows[i]
    return sorted(rows)


def _widen(vector: list[int], source: Layout, target: Layout, element_bytes: int) -> None:
    """Extend a common vector by basis vectors of one side while the other, which then moves single elements, stays free
    of conflicts; at least to the 4 bytes of a bank.
    """
    most = bits_of(WIDEST // element_bytes)
    word = bits_of(max(4 // element_bytes, 1))
    for own, other in ((target, source), (source, target)):
        candidates = _least(own.register)
        while len(vector) < most:
            space = gf2.Space(vector)
            found = next((basis for basis in candidates if space.add(basis)), None)
            if found is None:
                break
            lanes = sum(space.add(basis) for basis in other.lane)
            if len(vector) >= word and lanes > 5 - (len(vector) + 1 - word):
                return
            vector.append(found)


def _phase(layout: Layout, vector: Sequence[int], count: int) -> list[int]:
    """The independent vectors of the lanes that access shared memory in one phase; at most ``count``."""
    space = gf2.Space(vector)
    return [basis for basis in layout.lane if space.add(basis)][:count]


def _split(
    vector: list[int], one: list[int], other: list[int], bits: int, row: int
) -> tuple[list[int], list[int]]:
    """Split the space outside of vectors into the basis of bank bits and the basis of row bits."""
    width = min(row, bits) - len(vector)
    inner = gf2.Space(vector)
    both = gf2.intersection(gf2.independent([*vector, *one]), gf2.independent([*vector, *other]))
    banks = [basis for basis in both if inner.add(basis)]
    space = gf2.Space([*vector, *banks])
    mine = [basis for basis in one if space.add(basis)]
    space = gf2.Space([*vector, *banks])
    theirs = [basis for basis in other if space.add(basis)]
    pairs = min(len(mine), len(theirs))
    banks += mine
    rows = [a ^ b for a, b in zip(mine[:pairs], theirs[:pairs], strict=True)]
    # The remaining vectors of the longer side select banks of their own.
    banks += theirs[pairs:]
    known = gf2.Space([*vector, *banks, *rows])
    rest = [1 << bit for bit in range(bits) if known.add(1 << bit)]
    missing = max(width - len(banks), 0)
    return banks + rest[:missing], rows + rest[missing:]


@lru_cache(maxsize=_REMEMBERED)
def ordered_for(
    layout: Layout, shared: SharedLayout, element_bytes: int
) -> tuple[Layout, tuple[int, ...]]:
    """The layout with its registers reordered so that adjacent elements in memory are in successive registers.

    Returns also each register's number in the given layout. Vectors have up to 16 bytes.
    """
    most = bits_of(WIDEST // element_bytes)
    inverse = shared.inverse
    space = gf2.Space()
    register: list[int] = []
    own = gf2.Space(layout.register)
    for bit in range(min(most, len(inverse))):
        if inverse[bit] not in own:
            break
        register.append(inverse[bit])
        space.add(inverse[bit])
    inner = list(register)
    for basis in layout.register:
        if space.add(basis):
            for bit, vector in enumerate(inner):
                if shared.place(basis) >> bit & 1:
                    basis ^= vector
            register.append(basis)
    ordered = layout.with_registers(register)
    order = gf2.solve_all(layout.register, ordered.register)
    assert order is not None
    return ordered, order


def waves_of(layout: Layout, shared: SharedLayout, element_bytes: int) -> int:
    """The waves by which threads write or read storage in a layout, where one would do; 1 means no bank conflicts.

    Accesses are as wide as both allow. The worst phase of a warp decides.
    """
    ordered, _ = ordered_for(layout, shared, element_bytes)
    return shared.waves(ordered, shared.vector(ordered, WIDEST // element_bytes), element_bytes)
