"""How many elements loop nests handle at once."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.cpu.codegen.elementwise.narrow_fma import waits_long
from tilewright.cpu.codegen.loops.tiles import Elementwise, Joined, Range, Tile, walk
from tilewright.cpu.target import CpuTarget

#: Loop nests over less work than this many tiles per element handle several vectors in an iteration.
_UNROLLED_TILES = 12
UNROLL = 4
#: So many registers are computed at once in nests with so many operations that wait long, but not with more tiles than that.
_SIDE_BY_SIDE, _CHAIN, _MOST_SIDE_BY_SIDE = 4, 3, 64

#: How many vectors an iteration handles where elements depend on their places, which are constants then.
_WRITTEN_OUT = 16
#: How many tiles an iteration computes at most where that many vectors of all that it reads are more than that, but where tiles
#: are joined: places only say where to read then, or what to compare with, and the compiler would take seconds.
_MOST_WRITTEN_OUT = 2048


def widest_bits(tiles: Sequence[Tile]) -> int:
    """The width in bits of the widest numbers that a nest over these tiles computes with."""
    found: list[int] = []
    seen: set[int] = set()
    pending = list(tiles)
    while pending:
        tile = pending.pop()
        if id(tile) not in seen:
            seen.add(id(tile))
            pending += tile.computed
            if tile.element.name not in ("index", "ptr"):
                found.append(tile.element.lanes_bits)
    return max(found, default=32)


def unroll_of(tiles: Sequence[Tile]) -> int:
    """How many vectors an iteration of the innermost loop handles."""
    count = sum(1 for _ in walk(*tiles))
    return UNROLL if count <= _UNROLLED_TILES else 1


def registers_at_once(tiles: Sequence[Tile], target: CpuTarget) -> int:
    """How many registers a nest computes at once in the place of one: several in a chain of operations that wait long."""
    every = list(walk(*tiles))
    fused = [tile for tile in every if isinstance(tile, Elementwise) and tile.name == "fma"]
    long = sum(waits_long(tile.element, target) for tile in fused)
    return _SIDE_BY_SIDE if long >= _CHAIN and len(every) <= _MOST_SIDE_BY_SIDE else 1


def written_out(tiles: Sequence[Tile], usual: int) -> int:
    """How many vectors an iteration handles of tiles whose elements may depend on their places; ``usual`` where they do not."""
    if not depends_on_place(tiles):
        return usual
    every, rounds = list(walk(*tiles)), _WRITTEN_OUT
    if not any(isinstance(tile, Joined) for tile in every):
        while rounds > usual and rounds * len(every) > _MOST_WRITTEN_OUT:
            rounds //= 2
    return rounds


def depends_on_place(tiles: Sequence[Tile]) -> bool:
    """Whether elements are computed or chosen by where they stand, which constants can tell."""
    return any(isinstance(tile, (Joined, Range)) for tile in walk(*tiles))
