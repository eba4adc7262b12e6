"""Lane strides: how an integer or address tile changes from lane to lane, where its formula tells."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd
from types import MappingProxyType

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I64
from tilewright.cpu.codegen.ir.types import Value
from tilewright.cpu.codegen.loops.indices import Coords, Index, Lane, lanes_in
from tilewright.cpu.codegen.loops.last_bits import divisor_of, last_bits
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import (
    Elementwise,
    Mapped,
    Mapping,
    PointerAccess,
    Range,
    Tile,
    Uniform,
    walk,
)

_LIMIT = 1 << 31
#: Vectors have no more lanes than the first, and need not be shorter than the last for a pattern.
_LENGTHS = (64, 32, 16, 8)
_MOST_SHIFT = 15
_NOTHING: MappingOf[int, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LaneStrides:
    """What each lane has more than the first. ``exact``: no number wraps on the way; else a number
    of 32 bits or less may, which can only be told when the code runs. ``limited``: only if
    no limit (``max(i, 0)``) has been reached, quotients are all the same, and one side is chosen for all, which the code has to look at in each lane."""

    lanes: tuple[int, ...]
    exact: bool
    limited: bool = False

    def is_run(self, step: int) -> bool:
        """Whether each lane is ``step`` more than the one before."""
        return all(delta == lane * step for lane, delta in enumerate(self.lanes))

    @property
    def is_zero(self) -> bool:
        """Whether all lanes have the address of the first one."""
        return not self.limited and not any(self.lanes)


def lane_strides_of(
    tile: Tile,
    coords: Coords,
    settled: frozenset[int] = frozenset(),
    free: frozenset[int] = frozenset(),
    factors: MappingOf[int, int] = _NOTHING,
) -> LaneStrides | None:
    """The lane strides of a tile at a position; None where no formula gives them. ``settled``:
    the tiles, by ``id``, whose numbers are known not to wrap; ``free``: those that reach no limit. ``factors``: what
    numbers that only show when the code runs are taken for, by the ``id`` of their values."""
    pattern = tuple(Index(0, index.offsets, index.align) for index in coords)
    known = _Known(settled, free, factors, coords=coords)
    found = _lane_steps(tile, pattern, lanes_in(coords), known)
    if found is None or not found.lanes[0]:
        return found
    # The first lane of a vector over two rows, or of a second half, does not lie at its base.
    first = found.lanes[0]
    return LaneStrides(tuple(delta - first for delta in found.lanes), found.exact, found.limited)


def unknown_stride(
    tile: Tile, settled: frozenset[int], free: frozenset[int], size: int
) -> Value | None:
    """How many elements of ``size`` bytes the addresses of a tile lie apart along its last axis, where that is one
    number that only shows when the code runs; else None."""
    axis = max((axis for axis, extent in enumerate(tile.dims) if extent > 1), default=None)
    if axis is None:
        return None
    lanes = min(tile.dims[axis], _LENGTHS[-1])
    at = [Index(0, None, 1 << 62)] * len(tile.dims)
    at[axis] = Index(0, tuple(range(lanes)), lanes)
    known = _Known(settled, free, coords=tuple(at))
    if _lane_steps(tile, tuple(at), lanes, known) is not None or len(known.asked) != 1:
        return None
    (number,) = known.asked.values()
    found = lane_strides_of(tile, tuple(at), settled, free, {id(number): 2})
    if found is None or not found.exact or not found.is_run(2 * size):
        return None
    return number


def follows_none(tile: Tile, settled: frozenset[int]) -> bool:
    """Whether no formula tells how vectors along the last axis change from lane to lane."""
    return max(tile.dims, default=1) > 1 and along_last(tile, settled) is None


def along_last(tile: Tile, settled: frozenset[int]) -> LaneStrides | None:
    """The lane strides of vectors along the last axis of several elements; None without one, and where no formula gives
    them."""
    axis = max((axis for axis, extent in enumerate(tile.dims) if extent > 1), default=None)
    if axis is None:
        return None
    lanes = min(tile.dims[axis], _LENGTHS[-1])
    at = [Index(0, None, 1 << 62)] * len(tile.dims)
    at[axis] = Index(0, tuple(range(lanes)), lanes)
    return lane_strides_of(tile, tuple(at), settled)


def needs_limits(tile: Tile, settled: frozenset[int]) -> bool:
    """Whether vectors along the last axis follow a pattern only where no limit is reached."""
    lanes = min(tile.dims[-1], _LENGTHS[-1]) if tile.dims else 1
    if lanes < 2:
        return False
    at = [Index(0, None, 1 << 62)] * (len(tile.dims) - 1)
    found = lane_strides_of(tile, (*at, Index(0, tuple(range(lanes)), lanes)), settled)
    return found is not None and found.limited


def most_lanes(tile: Tile, settled: frozenset[int]) -> int | None:
    """How many lanes along the last axis follow a pattern at most, where quotients of positions decide on it; None
    where none do, or no number of lanes does. Fewer for which that is certain are better than more of which each vector has to be asked."""
    if not any(isinstance(part, Elementwise) and part.name == "divi" for part in walk(tile)):
        return None
    at = [Index(0, None, 1 << 62)] * (len(tile.dims) - 1)
    most: int | None = None
    for lanes in _LENGTHS:
        along = Index(0, tuple(range(lanes)), lanes)
        found = lane_strides_of(tile, (*at, along), settled) if lanes <= tile.dims[-1] else None
        if found is not None and not found.limited:
            return lanes
        most = most or (None if found is None else lanes)
    return most


def access_needs_alignment(
    tiles: Sequence[Tile], through: Sequence[PointerAccess], axis: int, lanes: int
) -> bool:
    """Whether that goes for pointers through which tiles are read, or others are written."""
    accesses = [*(tile.through_pointers for tile in walk(*tiles)), *through]
    return any(
        access is not None and _needs_alignment(access.pointers, axis, lanes) for access in accesses
    )


def _needs_alignment(tile: Tile, axis: int, lanes: int) -> bool:
    """Whether how vectors along an axis change from lane to lane is only known of those at multiples of their length."""
    found: list[LaneStrides | None] = []
    for align in (lanes, 1):
        at = [Index(0, None, 1 << 62)] * len(tile.dims)
        at[axis] = Index(Lane(ir.Constant(I64, 0)), tuple(range(lanes)), align)
        found.append(lane_strides_of(tile, tuple(at)))
    return found[0] != found[1]


def is_one_number(tile: Tile) -> bool:
    """Whether all elements of a tile are known to be the same."""
    while isinstance(tile, Mapped):
        tile = tile.source
    return isinstance(tile, Uniform)


def likely_side(tile: Elementwise, known: dict[int, int | None] | None = None) -> int | None:
    """Which of two sides a ``select`` likely chooses for all: the one that is not one number, if the other is; of two that run in opposite
    directions, as where places are mirrored at an end, the one that rises. None: nothing tells. ``known``: directions by ``id``, which
    are noted there."""
    single = [is_one_number(side) for side in tile.operands[1:]]
    if any(single):
        return None if all(single) else single.index(False)
    known = {} if known is None else known
    found = [_direction(side, known) for side in tile.operands[1:]]
    return found.index(1) if sorted(found, key=str) == [-1, 1] else None


def _direction(tile: Tile, known: dict[int, int | None]) -> int | None:
    """Whether numbers rise (1) or fall (-1) along a range, where they do not wrap, or are the same (0); None where nothing
    tells."""
    if id(tile) not in known:
        known[id(tile)] = _direction_of(tile, known)
    return known[id(tile)]


def _direction_of(tile: Tile, known: dict[int, int | None]) -> int | None:
    if is_one_number(tile):
        return 0
    if isinstance(tile, Range):
        return 1
    if isinstance(tile, Mapped):
        return _direction(tile.source, known)
    if not isinstance(tile, Elementwise):
        return None
    if tile.name == "select":
        side = likely_side(tile, known)
        return None if side is None else _direction(tile.operands[1 + side], known)
    if tile.name not in _MOVING:
        return None
    if tile.name == "exti":
        return _direction(tile.operands[0], known)
    left, right = (_direction(operand, known) for operand in tile.operands)
    if left is None or right is None:
        return None
    if tile.name == "muli":
        by = _sign_of(tile.operands[0 if right else 1])
        return None if by is None else (right or left) * by
    moving = {each for each in (left, -right if tile.name == "subi" else right) if each}
    return None if len(moving) > 1 else sum(moving)


_MOVING = frozenset({"addi", "subi", "muli", "shli", "exti", "maxi", "mini"})


def _sign_of(tile: Tile) -> int | None:
    """The sign of a tile of one constant."""
    while isinstance(tile, Mapped):
        tile = tile.source
    if not isinstance(tile, Uniform) or not isinstance(tile.value, ir.Constant):
        return None
    number = llvm.signed_of(tile.value)
    return None if not number else 1 if number > 0 else -1


@dataclass(slots=True)
class _Known:
    settled: frozenset[int]
    free: frozenset[int]
    factors: MappingOf[int, int] = field(default_factory=dict[int, int])
    asked: dict[int, Value] = field(default_factory=dict)
    """Factors of which nothing is known."""
    coords: Coords = ()
    """The positions that are asked for."""
    path: tuple[Mapping, ...] = ()
    """By which mappings the tile that is looked at is reached from there."""
    lane_steps: dict[tuple[object, ...], LaneStrides | None] = field(default_factory=dict)


def _lane_steps(tile: Tile, coords: Coords, lanes: int, known: _Known) -> LaneStrides | None:
    key = (id(tile), known.path, *((*index.key, index.align) for index in coords))
    if key not in known.lane_steps:
        found = _compute(tile, coords, lanes, known)
        if found is not None and id(tile) in known.settled:
            found = LaneStrides(found.lanes, not found.limited, found.limited)
        known.lane_steps[key] = found
    return known.lane_steps[key]


def _compute(tile: Tile, coords: Coords, lanes: int, known: _Known) -> LaneStrides | None:
    if all(index.offsets is None for index in coords) or isinstance(tile, Uniform):
        return LaneStrides((0,) * lanes, True)
    if isinstance(tile, Range):
        offsets = coords[0].offsets
        assert offsets is not None
        starts_low = isinstance(tile.start, ir.Constant) and tile.start.constant == 0
        return _settled(offsets, tile, starts_low)
    if isinstance(tile, Mapped):
        inner = tile.mapping(LoopNest(None), coords)
        if inner is None:
            return None
        before = known.path
        known.path = (*before, tile.mapping)
        try:
            return _lane_steps(tile.source, inner, lanes, known)
        finally:
            known.path = before
    if isinstance(tile, Elementwise) and tile.name == "divi":
        aligned = _aligned_quotient(tile, coords, lanes, known)
        if aligned is not None:
            return aligned
    if isinstance(tile, Elementwise) and (tile.name == "muli" or tile.name in _FORMULAS):
        operands = tile.operands[1:] if tile.name == "select" else tile.operands
        found = [_lane_steps(operand, coords, lanes, known) for operand in operands]
        parts = [part for part in found if part is not None]
        if len(parts) < len(found):
            return None
        if tile.name == "muli":
            found = _product(tile, parts[0], parts[1], known)
        else:
            found = _FORMULAS[tile.name](tile, *parts)
        if found is not None and id(tile) in known.free:
            limited = any(part.limited for part in parts)
            return LaneStrides(found.lanes, not limited, limited)
        return found
    return None


def _settled(lanes: tuple[int, ...], tile: Tile, exact: bool) -> LaneStrides:
    wide = llvm.scalar_of(tile.element.register).width == 64
    return LaneStrides(lanes, exact or wide)


def _sum(tile: Elementwise, lhs: LaneStrides, rhs: LaneStrides) -> LaneStrides:
    lanes = tuple(x + y for x, y in zip(lhs.lanes, rhs.lanes, strict=True))
    fixed = not any(lanes)
    exact = lhs.exact and rhs.exact
    limited = lhs.limited or rhs.limited
    if fixed and exact and not limited:
        return LaneStrides(lanes, True)
    return _combined(tile, lanes, exact, limited)


def _difference(tile: Elementwise, lhs: LaneStrides, rhs: LaneStrides) -> LaneStrides:
    minus = tuple(-delta for delta in rhs.lanes)
    return _sum(tile, lhs, LaneStrides(minus, rhs.exact, rhs.limited))


def _combined(
    tile: Elementwise, lanes: tuple[int, ...], exact: bool, limited: bool = False
) -> LaneStrides:
    wide = tile.element.name in ("i64", "index", "ptr")
    return LaneStrides(lanes, exact and wide, limited)


def _limit(tile: Elementwise, lhs: LaneStrides, rhs: LaneStrides) -> LaneStrides | None:
    """Numbers up to a limit that is the same for all, or from one on."""
    if lhs.is_zero and rhs.is_zero:
        return LaneStrides(lhs.lanes, lhs.exact and rhs.exact)
    if lhs.is_zero == rhs.is_zero:
        return None
    return LaneStrides(rhs.lanes if lhs.is_zero else lhs.lanes, False, True)


def _chosen(tile: Elementwise, lhs: LaneStrides, rhs: LaneStrides) -> LaneStrides | None:
    """One of two, where the same one is chosen for all."""
    if lhs.lanes == rhs.lanes:
        return LaneStrides(lhs.lanes, False, True)
    side = likely_side(tile)
    return None if side is None else LaneStrides((lhs, rhs)[side].lanes, False, True)


def _quotient(tile: Elementwise, lhs: LaneStrides, rhs: LaneStrides) -> LaneStrides | None:
    """Quotients by one number, where they are the same."""
    if not rhs.is_zero:
        return None
    fixed = lhs.is_zero
    return LaneStrides((0,) * len(lhs.lanes), fixed and lhs.exact and rhs.exact, not fixed)


def _aligned_quotient(
    tile: Elementwise, coords: Coords, lanes: int, known: _Known
) -> LaneStrides | None:
    """Quotients by a constant of numbers of which the last bits are known in the first lane: how they change from lane to lane
    follows, or that they do not."""
    number, divisor = tile.operands[0], divisor_of(tile)
    if not divisor:
        return None
    found = _lane_steps(number, coords, lanes, known)
    if found is None or found.limited:
        return None
    rest, modulus = last_bits(number, known.coords, known.path)
    ends = [rest + delta for delta in (min(found.lanes), max(found.lanes))]
    if modulus % divisor == 0:
        quotients = tuple((rest + delta) // divisor - rest // divisor for delta in found.lanes)
        return LaneStrides(quotients, found.exact)
    if ends[0] >= 0 and ends[1] < gcd(modulus, divisor):
        return LaneStrides((0,) * lanes, found.exact)
    return None


def _product(
    tile: Elementwise, lhs: LaneStrides, rhs: LaneStrides, known: _Known
) -> LaneStrides | None:
    if lhs.is_zero and rhs.is_zero:
        return LaneStrides(lhs.lanes, lhs.exact and rhs.exact)
    if not any((*lhs.lanes, *rhs.lanes)):
        return _combined(tile, lhs.lanes, lhs.exact and rhs.exact, True)
    for part, other, operand in ((lhs, rhs, tile.operands[1]), (rhs, lhs, tile.operands[0])):
        if other.is_zero and isinstance(operand, Uniform):
            factor = _factor(operand.value, known)
            if factor is not None:
                lanes = tuple(delta * factor for delta in part.lanes)
                if all(abs(delta) < _LIMIT for delta in lanes):
                    return _combined(tile, lanes, part.exact, part.limited)
    return None


def _factor(value: Value, known: _Known) -> int | None:
    if isinstance(value, ir.Constant):
        return llvm.signed_of(value)
    if id(value) not in known.factors:
        known.asked[id(value)] = value
    return known.factors.get(id(value))


def _shifted(tile: Elementwise, lhs: LaneStrides, rhs: LaneStrides) -> LaneStrides | None:
    amount = tile.operands[1]
    if lhs.is_zero and rhs.is_zero:
        return LaneStrides(lhs.lanes, lhs.exact and rhs.exact)
    if not isinstance(amount, Uniform) or not isinstance(amount.value, ir.Constant):
        return None
    by = amount.value.constant
    if not isinstance(by, int) or not 0 <= by < _MOST_SHIFT:
        return None
    return _combined(tile, tuple(delta << by for delta in lhs.lanes), lhs.exact, lhs.limited)


def _same(tile: Elementwise, source: LaneStrides) -> LaneStrides:
    return source


def _moved(tile: Elementwise, base: LaneStrides, offset: LaneStrides) -> LaneStrides:
    lanes = tuple(x + y * tile.unit for x, y in zip(base.lanes, offset.lanes, strict=True))
    limited = base.limited or offset.limited
    return LaneStrides(lanes, base.exact and offset.exact, limited)


_FORMULAS = {
    "addi": _sum,
    "subi": _difference,
    "shli": _shifted,
    "exti": _same,
    "offset": _moved,
    "maxi": _limit,
    "mini": _limit,
    "divi": _quotient,
    "select": _chosen,
}
