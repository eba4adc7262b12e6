"""Where along a row accesses through pointers need no checks: whole vectors from one place to another.

The formulas of addresses and masks are those that ``loops.value_ranges`` asks for a whole tile. Here numbers may change by a
constant from element to element along the row. What an access asks then, that a mask is on, that a limit
(``max(i, 0)``) changes nothing, that a quotient is always the same, that no number wraps, holds from one place of the row on,
or up to one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Index
from tilewright.cpu.codegen.loops.lane_strides import is_one_number, likely_side
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import (
    Elementwise,
    Mapped,
    Range,
    Remembered,
    Tile,
    Uniform,
    UniformWithin,
)
from tilewright.cpu.codegen.loops.value_ranges import (
    MOST_TILES,
    OFF,
    ON,
    Span,
    Spans,
    Unknown,
    keywords,
    number_of,
)


@dataclass
class RowSpans(Spans):
    """Spans of numbers along a row of a nest, and between which places of the row their conditions hold.

    ``coords`` are the positions of the tile that is looked at, ``row`` the one of them that runs along the vectors, ``axes``
    those of the other axes. ``begins`` and ``ends``: no place before the largest of the first, and none from the least of
    the second on, is known to need no checks. ``off``: from there on a mask is off, where ``exact`` holds; behind stores, those
    of all of them.
    """

    coords: Coords = ()
    row: Index | None = None
    axes: Sequence[Index] = ()
    extent: int = 1
    begins: list[Value] = field(default_factory=list)
    ends: list[Value] = field(default_factory=list)
    off: list[Value] = field(default_factory=list)
    exact: list[Value] = field(default_factory=list)
    """Where all hold, ``off`` is right: nothing but the comparisons of the mask changes along the row."""
    compared: set[int] = field(default_factory=set)
    """The ``ends``, by ``id``, that are places from which on the mask of a store is off."""
    stores: int = 0
    """How many stores have been looked at."""
    place: Value | None = None
    """Where a quotient that changes along the row is taken; None: in the middle."""
    level: int = 0
    """Within how many loops of the nest that is."""
    turns: bool = False
    """Whether there is such a quotient."""
    ranges: bool = False
    """Whether rows are looked at, not their vectors: numbers along those may be multiplied by others that only show when the code runs, and
    be divided."""
    patterns: bool = False
    """Whether vectors follow a pattern only where limits change nothing."""
    changed: set[int] = field(default_factory=set)
    """The tiles, by ``id``, that are not in one place what they are in another; or limits change them."""
    idle: dict[tuple[int, int], Value | None] = field(default_factory=dict)
    """By the ``id`` of pointers and mask of what is read: from where on the mask is off, as ``off``; None where that is not known."""

    def access(self, pointers: Tile, mask: Tile | None) -> None:
        """Add what an access asks. Raises ``Unknown`` where no formula tells."""
        self.most = len(self.known) + MOST_TILES
        self._offsets(pointers)
        if mask is not None:
            self.all_on(mask)

    def read(self, key: tuple[int, int], pointers: Tile, mask: Tile | None) -> None:
        """Add what an access asks that reads, and note under a key where it is idle. Raises ``Unknown`` where no formula tells."""
        before = len(self.off)
        self.access(pointers, mask)
        places, self.off = self.off[before:], self.off[:before]
        self.compared |= {id(place) for place in places}
        off = reduce(partial(_least, self.b), places) if places else None
        self.idle[key] = off if key not in self.idle or self.idle[key] is off else None

    def store(self, pointers: Tile, mask: Tile | None) -> None:
        """Add what a store asks, before all else; the masks of all stores tell where nothing is to be done. Raises ``Unknown``
        where no formula tells."""
        before, self.off = self.off, []
        self.access(pointers, mask)
        b, last = self.b, number_of(self.extent)
        self.compared |= {id(place) for place in self.off}
        self.exact = [
            *self.conditions,
            *(b.icmp_signed("<=", place, number_of(0)) for place in self.begins),
            *(b.icmp_signed(">=", p, last) for p in self.ends if id(p) not in self.compared),
        ]
        if self.stores:
            known = before and self.off
            places = [reduce(partial(_least, b), each) for each in (before, self.off) if known]
            self.off = [llvm.intrinsic(b, "smax", places)] if known else []
        self.stores += 1

    def store_anywhere(self) -> None:
        """There is a store of which nothing tells where it writes nothing."""
        self.off = []
        self.stores += 1

    def _offsets(self, pointers: Tile) -> None:
        if isinstance(pointers, Mapped):
            with self.through(pointers):
                self._offsets(pointers.source)
        elif isinstance(pointers, Elementwise) and pointers.name == "offset":
            self._offsets(pointers.operands[0])
            self.of(pointers.operands[1])
        elif not isinstance(pointers, Uniform):
            raise Unknown

    @contextmanager
    def through(self, mapped: Mapped) -> Iterator[None]:
        """Look at the source of a mapped tile, at its positions. Raises ``Unknown`` where no formula tells."""
        path, coords = self.path, self.coords
        inner = mapped.mapping(self.positions(), coords)
        if inner is None:
            raise Unknown
        self.path = path if isinstance(mapped, Remembered) else (*path, mapped.mapping)
        self.coords = inner
        try:
            yield
        finally:
            self.path, self.coords = path, coords

    def positions(self) -> LoopNest:
        """What positions are computed in."""
        return LoopNest(self.b)

    # -- formulas ----------------------------------------------------------------------------

    def places(self, tile: Range) -> Span:
        """The places of a range along the row, or along another axis. Raises ``Unknown`` where no formula tells."""
        (index,) = self.coords
        bits = (tile.dims[0] - 1).bit_length()
        if index is self.row:
            zero = number_of(0)
            return Span(zero, zero, bits, 1)
        if tile.dims[0] == 1 or any(index is axis for axis in self.axes):
            return super().places(tile)
        raise Unknown

    def extremum(self, tile: Elementwise) -> Span:
        """Numbers of the row where a limit changes nothing. Raises ``Unknown`` where no formula tells."""
        number, limit = tile.operands
        if is_one_number(number):
            number, limit = limit, number
        of, by = self.of(number), self.of(limit)
        if not of.slope and not by.slope:
            if self._asks_vectors(tile):
                self.free(tile)
                self._is(tile, number)
                return of
            self._is(tile, None)
            return super().extremum(tile)
        if by.slope or keywords(tile).get("signedness") != "signed":
            raise Unknown
        if tile.name == "maxi":
            self.at_least(of, by.high)
        else:
            self.at_most(of, by.low)
        self._is(tile, number)
        return of

    def _is(self, tile: Tile, other: Tile | None) -> None:
        """Note that a tile has the numbers of another one where it is looked at; None: of no single one."""
        key, known = id(tile), self.instead.pop(id(tile), other)
        if other is None or known is not other or key in self.changed:
            self.changed.add(key)
        else:
            self.instead[key] = other

    def either(self, tile: Elementwise) -> Span:
        """The side that is chosen for all. Raises ``Unknown`` where no formula tells."""
        condition, *sides = tile.operands
        if all(is_one_number(side) for side in sides):
            self._is(tile, None)
            self.one_side(tile)
            return super().either(tile)
        chosen = likely_side(tile)
        if chosen is None:
            raise Unknown
        self._holds(condition, (ON, OFF)[chosen])
        self._is(tile, sides[chosen])
        return self.of(sides[chosen])

    def decided(self, mask: Tile, relations: dict[str, str]) -> Value | None:
        """As for a tile, of numbers that do not change along the row. Raises ``Unknown`` where no formula tells."""
        if isinstance(mask, Elementwise) and any(self.of(each).slope for each in mask.operands):
            raise Unknown
        return super().decided(mask, relations)

    def _holds(self, mask: Tile, relations: dict[str, str]) -> None:
        """Require of two numbers that they are in a relation, by the name of their comparison."""
        if isinstance(mask, Mapped):
            with self.through(mask):
                self._holds(mask.source, relations)
            return
        if not isinstance(mask, Elementwise) or mask.name != "cmpi":
            raise Unknown
        words = keywords(mask)
        predicate = words.get("comparison_predicate", "")
        relation = relations.get(predicate, "")
        left, right = (self.of(operand) for operand in mask.operands)
        if not relation:
            raise Unknown
        unsigned = words.get("signedness", "signed") != "signed"
        if unsigned and predicate not in ("equal", "not_equal"):
            self.at_least(left, number_of(0))
            self.at_least(right, number_of(0))
        if relation == "!=":
            self._differs(self._difference(left, right))
        elif relation.startswith("<"):
            self._in_order(left, right, or_equal=relation == "<=")
        else:
            self._in_order(right, left, or_equal=relation == ">=")

    def multiply(self, left: Span, right: Span, width: int) -> Span:
        """Products of numbers along a row and a constant. Raises ``Unknown`` where no formula tells."""
        if not left.slope and not right.slope:
            return super().multiply(left, right, width)
        if left.slope:
            left, right = right, left
        by = left.low
        if left.slope or left.low is not left.high or not isinstance(by, ir.Constant):
            return super().multiply(self._range(left), self._range(right), width)
        if left.bits + right.bits > 62:
            raise Unknown
        b, factor = self.b, by.constant
        low = high = b.mul(right.low, by)
        if right.low is not right.high:
            high = b.mul(right.high, by)
        if factor < 0:
            low, high = high, low
        bits = left.bits + right.bits + 1
        return self.limited(Span(low, high, bits, right.slope * factor), width - 1)

    def _asks_vectors(self, tile: Elementwise) -> bool:
        """Whether a formula must not change along vectors of which rows are looked at."""
        return self.ranges and self.patterns and not all(map(is_one_number, tile.operands))

    def _range(self, span: Span) -> Span:
        """Numbers along rows as a range of them. Raises ``Unknown`` where they are those of a vector."""
        if not span.slope:
            return span
        if not self.ranges:
            raise Unknown
        b, rise = self.b, number_of(span.slope * (self.extent - 1))
        last = b.add(span.high if span.slope > 0 else span.low, rise)
        low, high = (span.low, last) if span.slope > 0 else (last, span.high)
        bits = max(span.bits, (abs(span.slope) * self.extent).bit_length()) + 1
        return Span(low, high, bits)

    def divided(self, tile: Elementwise) -> Span:
        """The quotient in the middle of the row, where it is that of all. Raises ``Unknown`` where no formula tells."""
        source = self.of(tile.operands[0])
        if not source.slope or self.ranges:
            asks = self._asks_vectors(tile)
            if asks and source.slope and source.low is not source.high:
                raise Unknown  # It changes along vectors, from another place on in each row.
            found = self._divided(tile, self._range(source))
            same = asks and not source.slope
            if same:
                self.conditions.append(self.b.icmp_signed("==", found.low, found.high))
            self._is(tile, self.one_number(tile, found.low) if same else None)
            return found
        words = keywords(tile)
        if words.get("signedness") != "signed":
            self.at_least(source, number_of(0))
        elif words.get("rounding") != "negative_inf":
            raise Unknown
        divisor, b = self.divisor(tile.operands[1]), self.b
        source = self.limited(source, 60)
        if source.low is not source.high:
            raise Unknown
        self.turns = True
        quotient = _rounded_down(b, self._number_there(source), divisor)
        first = b.mul(quotient, divisor)
        self.at_least(source, first)
        self.at_most(source, b.add(first, b.sub(divisor, number_of(1))))
        self._is(tile, self.quotient(tile, quotient))
        return Span(quotient, quotient, source.bits)

    def _number_there(self, span: Span) -> Value:
        """The number of the row at the place that is looked at."""
        place = number_of(self.extent // 2) if self.place is None else self.place
        return self.b.add(span.low, self.b.mul(place, number_of(span.slope)))

    def quotient(self, tile: Tile, number: Value) -> Tile | None:
        """A tile of one number, if it is known before the nest, or in a loop of it."""
        found = self.one_number(tile, number)
        return UniformWithin(found.element, found.dims, found.value, self.level)

    def limited(self, span: Span, bits: int) -> Span:
        """The span where its numbers have so many bits beside the sign, which may be a part of the row."""
        found = super().limited(span, bits)
        if not span.slope or found is span:
            return found
        # The ends at the first place may still need more.
        most = max(bits, (abs(span.slope) * self.extent).bit_length()) + 1
        return Span(span.low, span.high, min(most, span.bits), span.slope)

    # -- what is asked -----------------------------------------------------------------------

    def at_least(self, span: Span, limit: Value) -> None:
        """Require that no number is below a limit: from one place of the row on, or up to one."""
        if not span.slope:
            super().at_least(span, limit)
        elif span.slope > 0:
            self.begins.append(self._place_up(self.b.sub(limit, span.low), span.slope))
        else:
            self.ends.append(self._behind(self.b.sub(span.low, limit), -span.slope))

    def at_most(self, span: Span, limit: Value) -> None:
        """Require that no number is above a limit: from one place of the row on, or up to one."""
        if not span.slope:
            super().at_most(span, limit)
        elif span.slope > 0:
            self.ends.append(self._behind(self.b.sub(limit, span.high), span.slope))
        else:
            self.begins.append(self._place_up(self.b.sub(span.high, limit), -span.slope))

    def below(self, less: Span, more: Span, *, or_equal: bool) -> None:
        """Require that one number is below another, which a mask asks."""
        if self._in_order(less, more, or_equal=or_equal):
            self.off.append(self.ends[-1])

    def _in_order(self, less: Span, more: Span, *, or_equal: bool) -> bool:
        """Require that one number is below another. Whether it is not, then, from the new end on, if there is one."""
        if not less.slope and not more.slope:
            super().below(less, more, or_equal=or_equal)
            return False
        difference = self._difference(less, more)
        self.at_most(difference, number_of(0 if or_equal else -1))
        return difference.low is difference.high and difference.slope > 0

    def _differs(self, difference: Span) -> None:
        """Require a number that is not 0, on the side of 0 on which it is in the middle of the row."""
        if not difference.slope or difference.low is not difference.high:
            raise Unknown
        b, found = self.b, RowSpans(self.b, extent=self.extent)
        positive = b.icmp_signed(">", self._number_there(difference), number_of(0))
        found.at_least(difference, number_of(1))
        found.at_most(difference, number_of(-1))
        (begin,), (end,) = found.begins, found.ends
        if difference.slope < 0:
            positive = b.not_(positive)
        self.begins.append(b.select(positive, begin, number_of(0)))
        self.ends.append(b.select(positive, number_of(self.extent), end))

    def _difference(self, left: Span, right: Span) -> Span:
        left, right = (self.limited(span, 60) for span in (left, right))
        if max(left.bits, right.bits) > 61:
            raise Unknown
        b = self.b
        low = high = b.sub(left.low, right.high)
        if left.low is not left.high or right.low is not right.high:
            high = b.sub(left.high, right.low)
        bits = max(left.bits, right.bits) + 1
        return Span(low, high, bits, left.slope - right.slope)

    def _place_up(self, distance: Value, step: int) -> Value:
        """The first place at which so many steps have gone a distance."""
        if step == 1:
            return distance
        b = self.b
        return _rounded_down(b, b.add(distance, number_of(step - 1)), number_of(step))

    def _behind(self, distance: Value, step: int) -> Value:
        """The place behind the last one at which so many steps have not gone beyond a distance."""
        b = self.b
        places = distance if step == 1 else _rounded_down(b, distance, number_of(step))
        return b.add(places, number_of(1))


def _least(b: Builder, one: Value, other: Value) -> Value:
    return llvm.intrinsic(b, "smin", [one, other])


def _rounded_down(b: Builder, number: Value, by: Value) -> Value:
    below = b.sub(number, b.sub(by, number_of(1)))
    negative = b.icmp_signed("<", number, number_of(0))
    return b.sdiv(b.select(negative, below, number), by)


def _with_idle(b: Builder, spans: RowSpans, part: RowPart, width: int) -> RowPart:
    """The part of a row with what is idle behind it."""
    known = {key: place for key, place in spans.idle.items() if place is not None}
    if not known:
        return part
    extent, zero = number_of(spans.extent), number_of(0)
    holds = [
        *spans.conditions,
        *(b.icmp_signed("<=", place, zero) for place in spans.begins),
        *(b.icmp_signed(">=", p, extent) for p in spans.ends if id(p) not in spans.compared),
    ]
    place: Value = part.end
    for each in known.values():
        place = llvm.intrinsic(b, "smax", [place, each])
    place = llvm.intrinsic(b, "smin", [place, extent])
    place = b.and_(b.add(place, number_of(width - 1)), number_of(-width))
    exact = llvm.all_of(b, holds)
    place = place if exact is None else b.select(exact, place, part.total)
    return replace(part, idle_from=place, idle=frozenset(known))


@dataclass(frozen=True, slots=True)
class RowPart:
    """The places of a row from ``begin`` to ``end``, whole vectors, need no checks; from ``total`` on nothing is to be
    done. Both are 0 where no part of the row is known to need none. ``tail``: whether what is between ``end`` and ``total``
    needs no other check than that; None where that is not asked. From ``idle_from`` on, a whole vector, the ``idle`` accesses have
    their masks off: those with these ``id`` of their pointers and of their mask; None where that is not known of any. ``instead``: what
    tiles are that need no checks, by their ``id``."""

    begin: Value
    end: Value
    total: Value
    tail: Value | None = None
    idle_from: Value | None = None
    idle: frozenset[tuple[int, int]] = frozenset()
    instead: Mapping[int, Tile] = field(default_factory=dict[int, Tile])
    first: Value | None = None
    """Where what needs no checks begins, though no vector may."""
    reached: Value | None = None
    """Where it ends; 0 where nothing is known to need none."""
    turns: bool = False
    """Whether quotients change along the row."""
    only_pointers: bool = False
    """Whether all that is read but buffers is behind pointers."""
    exact: bool = False
    """Whether lanes may be left out, as all that is written is behind pointers, too."""
    limited: bool = False
    """Whether it is ``exact``, and checks are costly: vectors follow a pattern only where no limit is reached."""


def part_of_row(
    b: Builder,
    spans: RowSpans,
    limits: Sequence[Value],
    conditions: Sequence[Value],
    width: int,
    *,
    tail: bool,
) -> RowPart:
    """Where a row, of vectors of ``width`` elements, needs no checks: up to ``limits``, too, and only under ``conditions``.
    ``tail``: whether to ask for that of the part."""
    extent, zero = number_of(spans.extent), number_of(0)
    first, last, total = zero, extent, extent
    for place in spans.begins:
        first = llvm.intrinsic(b, "smax", [first, place])
    for place in (*spans.ends, *limits):
        last = llvm.intrinsic(b, "smin", [last, place])
    for place in spans.off:
        total = llvm.intrinsic(b, "smin", [total, place])
    always = ir.Constant(I1, 1)
    holds = llvm.all_of(b, [*spans.conditions, *conditions]) or always
    exact = llvm.all_of(b, spans.exact) or always
    if spans.off:
        total = b.select(exact, llvm.intrinsic(b, "smax", [total, zero]), extent)
    vector = number_of(-width)
    begin = llvm.intrinsic(b, "smin", [first, extent])
    begin = b.and_(b.add(begin, number_of(width - 1)), vector)
    end = b.and_(llvm.intrinsic(b, "smax", [last, zero]), vector)
    some = b.and_(b.icmp_signed("<", begin, end), holds)
    ends = [b.select(some, place, zero) for place in (begin, end)]
    part = RowPart(ends[0], ends[1], total, instead=spans.instead, turns=spans.turns)
    part = replace(part, first=first, reached=b.select(holds, last, zero))
    part = part if spans.off else _with_idle(b, spans, part, width)
    if not tail or not spans.off:
        return part
    before = b.or_(some, b.icmp_signed("==", begin, zero))
    asked = [holds, exact, before, b.icmp_signed("<=", total, last)]
    return replace(part, tail=llvm.all_of(b, asked))
