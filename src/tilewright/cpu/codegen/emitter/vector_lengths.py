"""How many elements loop nests handle at once."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tilewright.cpu.codegen.elementwise.narrow_fma import waits_long
from tilewright.cpu.codegen.ir.elements import I64
from tilewright.cpu.codegen.ir.types import Builder
from tilewright.cpu.codegen.loops.even_odd import in_run, of_words
from tilewright.cpu.codegen.loops.indices import Index, Lane
from tilewright.cpu.codegen.loops.leaves import NoPatternError, leaves
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

#: What the order of words saves, in moves of a vector of f32 for each, of what is read and of what is written; what is not bf16 is
#: put in order by one, either way.
_READ, _WRITTEN, _ORDERED = 1, 2, -1
#: Nests with more tiles would not keep vectors twice as long in registers.
_MOST_IN_WORDS = 96
#: What is done with the bits of bf16.
_WITHOUT_F32 = frozenset({"select", "negf", "absf"})


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
                found.append(_bits(tile))
    return max(found, default=32)


def _bits(tile: Tile) -> int:
    """The width in bits of the registers in which a tile is computed: f16 and bf16 that are only moved stay as they are."""
    moved = not isinstance(tile, Elementwise) or tile.name in _WITHOUT_F32
    usual = tile.element.lanes_bits
    return min(usual, 8 * tile.element.buffer_bytes) if moved else usual


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


def lanes_in_words(
    b: Builder,
    target: CpuTarget,
    tiles: Sequence[Tile],
    dims: Sequence[int],
    axis: int,
    width: int,
    *,
    ordered: bool = True,
) -> int:
    """The lanes of vectors that are better computed in the order of words (``loops.even_odd``), of a nest over tiles of a shape whose
    vectors have ``width`` elements along an axis; 0 where none are. ``ordered``: whether results go back to the order of
    memory."""
    single = target.vector_bits // 32
    lanes = max(width, 2 * single)
    if not target.has("avx2") or not dims or width < single or dims[axis] < lanes:
        return 0
    every = list(walk(*tiles))
    if widest_bits(tiles) != 32 or len(every) > _MOST_IN_WORDS:
        return 0
    if any(tile.most_lanes is not None for tile in every):
        return 0
    roots = [tile for tile in tiles if isinstance(tile, Elementwise) and tile.element.name != "i1"]
    if not all(map(_counts, roots)) or not any(map(_is_in_f32, every)):
        return 0
    coords = [Index(Lane(ir.Constant(I64, 0)), None, lanes) for _ in dims]
    coords[axis] = Index(Lane(ir.Constant(I64, 0)), of_words(lanes), lanes)
    saved = 0
    if ordered:
        saved = sum(_WRITTEN if tile.element.name == "bf16" else _ORDERED for tile in roots)
    try:
        for leaf, at in leaves(b, roots, tuple(coords), behind=False):
            if not _counts(leaf) or leaf.gathers or in_run(at, lanes) is None:
                return 0
            saved += _READ if leaf.element.name == "bf16" else _ORDERED
    except NoPatternError:
        return 0
    return lanes if saved > 0 else 0


def _is_in_f32(tile: Tile) -> bool:
    """Whether numbers of bf16 become numbers of f32 for a tile, or the other way."""
    return (
        isinstance(tile, Elementwise)
        and tile.element.name in ("bf16", "f32")
        and tile.name not in _WITHOUT_F32
        and any(operand.element.name == "bf16" for operand in tile.operands)
    )


def _counts(tile: Tile) -> bool:
    return tile.element.name in ("bf16", "f32", "i32")
