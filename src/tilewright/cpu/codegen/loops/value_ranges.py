"""The range of an integer tile's values, computed at run time, once per tile.

An access through pointers whose offsets do not wrap, and whose mask is on everywhere, is a vector load or store without a
mask. Index arithmetic in 32 bits may wrap, and masks are off at the edges of arrays. The ends of the tile decide both,
so the check costs a few scalar operations per tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Mapping as MappingOf
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import islice
from math import prod

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I64
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import fixed
from tilewright.cpu.codegen.loops.lane_strides import is_one_number, likely_side, needs_limits
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import (
    Elementwise,
    Mapped,
    Mapping,
    Range,
    Remembered,
    Tile,
    Uniform,
    is_formula,
    walk,
)

#: Element types whose registers hold the number, read as signed.
_WIDTHS = {"i16": 16, "i32": 32, "i64": 64, "index": 64}
MOST_TILES = 64
"""How many tiles are looked at for one access."""


@dataclass(frozen=True, slots=True)
class Whole:
    """What is known of an access when its numbers stay in their types.

    ``fits``: that they do (None: always). ``clear``: that no limit is reached, either. ``settled`` are the tiles, by ``id``, that lose nothing then
    when they are extended. ``on``: implies, with ``clear``, that the mask is on everywhere; None where
    nothing tells, or nothing has to. ``free`` are the tiles that no limit changes where ``clear`` holds (``max(i, 0)`` where no ``i`` is
    negative), quotients that are all the same, and numbers
    of which one side is chosen for all.
    """

    fits: Value | None
    settled: frozenset[int]
    on: Value | None
    clear: Value | None = None
    free: frozenset[int] = frozenset()
    instead: MappingOf[int, Tile] = field(default_factory=dict[int, Tile])
    """What ``free`` tiles are then, by their ``id``: what is limited, the quotient, the side that is chosen."""

    def known(self, *, masked: bool) -> tuple[frozenset[int], frozenset[int]]:
        """The tiles of which lane strides may take for granted what holds under ``clear``: that they do not wrap, and that they
        reach no limit. Code for tiles that do not fit looks at each vector for limits: most of a tile at an edge has not
        reached them."""
        return self.settled, frozenset() if masked else self.free

    @property
    def guard(self) -> Value | None:
        """Holds where the access stays in memory that is known, and its mask, if there is one, is
        on."""
        return self.clear if self.on is None else self.on


def whole_access(b: Builder, pointers: Tile, mask: Tile | None) -> Whole | None:
    """Code that tells whether an access can be made by whole vectors; None where none is known.

    The condition may be false for an access that could.
    """
    spans = Spans(b)
    extended = _extended(pointers)
    unknown = {id(tile) for tile, wide in extended if not spans.attempt(lambda t=wide: spans.of(t))}
    settled = frozenset(id(tile) for tile, _ in extended) - unknown
    fits, free = llvm.all_of(b, spans.conditions), frozenset[int]()
    if needs_limits(pointers, settled):
        free = frozenset(
            id(t) for t in _limits(pointers) if spans.attempt(lambda t=t: spans.free(t))
        )
    clear, on = llvm.all_of(b, spans.conditions) if free else fits, None
    if mask is not None and spans.attempt(lambda: spans.all_on(mask)):
        on = llvm.all_of(b, spans.conditions)
    if not settled and not free and on is None:
        return None
    return Whole(fits, settled, on, clear, free, spans.instead)


def whole_in_row(pointers: Tile) -> Whole:
    """What is known of an access whose formula, and mask, have been looked at for a row (``loops.row_spans``), save for what
    its tiles are there."""
    settled = frozenset(id(tile) for tile, _ in _extended(pointers))
    free = frozenset(id(tile) for tile in _limits(pointers))
    return Whole(None, settled, ir.Constant(I1, 1), free=free)


def needs_free(pointers: Tile) -> bool:
    """Whether lanes of an access follow a pattern only where no limit is reached, and none of its numbers is lost."""
    return needs_limits(pointers, frozenset(id(tile) for tile, _ in _extended(pointers)))


def conjuncts(mask: Tile) -> list[Tile]:
    """The masks of which one is the conjunction, each once, in their order."""
    found: list[Tile] = []
    pending, seen = [mask], set[int]()
    while pending:
        tile = pending.pop()
        if id(tile) in seen:
            continue
        seen.add(id(tile))
        if isinstance(tile, Elementwise) and tile.name == "andi":
            pending += reversed(tile.operands)
        else:
            found.append(tile)
    return found


def bits_of(tile: Tile) -> int:
    """How many bits the numbers of a tile of integers have."""
    return _WIDTHS[tile.element.name]


def _limits(pointers: Tile) -> list[Elementwise]:
    """The tiles of addresses' formulas that are limited, quotients, and what is chosen."""
    tiles = [tile for tile in islice(walk(pointers), MOST_TILES) if isinstance(tile, Elementwise)]
    return [tile for tile in tiles if tile.name in _CHANGING]


_CHANGING = ("maxi", "mini", "divi", "select")


def _extended(pointers: Tile) -> list[tuple[Tile, Tile]]:
    """The narrow tiles of numbers that are extended on the way to addresses, each with the tile whose span
    shows that nothing is lost then: what an unsigned extension makes of -1 is far away."""
    found: list[tuple[Tile, Tile]] = []
    pending = [pointers]
    seen: set[int] = set()
    while pending and len(seen) < MOST_TILES:
        tile = pending.pop()
        if id(tile) in seen:
            continue
        seen.add(id(tile))
        if isinstance(tile, Mapped):
            pending.append(tile.source)
        elif isinstance(tile, Elementwise):
            narrow = tile.operands[1:] if tile.name == "offset" else tile.operands
            if tile.name in ("offset", "exti"):
                wide = tile if tile.name == "exti" else None
                found += [(t, wide or t) for t in narrow if _WIDTHS.get(t.element.name, 64) < 64]
            pending += tile.operands
    return found


@dataclass(frozen=True, slots=True)
class Reach:
    """The addresses of the lowest and the highest element of an access. ``fits``: they are right; ``none``: no element is
    accessed."""

    first: Value
    last: Value
    fits: Value
    none: Value


def reach(b: Builder, pointers: Tile, mask: Tile | None) -> Reach | None:
    """What an access through pointers reaches, in bytes, where its mask is on; None where no formula tells.

    It may be more than the access touches, never less.
    """
    spans = Spans(b)
    if mask is not None:
        spans.assume(mask)
    ends: list[tuple[Value, Value]] = []
    if not spans.attempt(lambda: ends.append(spans.addresses(pointers))):
        return None
    always, never = (ir.Constant(I1, bit) for bit in (1, 0))
    fits = llvm.all_of(b, spans.conditions) or always
    return Reach(*ends[0], fits, reduce(b.or_, spans.empty, never))


@dataclass(frozen=True, slots=True)
class Span:
    """The least and the largest number of a tile as i64. All are at least ``-2 ** bits`` and
    below ``2 ** bits``. ``slope`` is by how much more they are for each element along a row (``loops.row_spans``), where
    ends are those of its first element."""

    low: Value
    high: Value
    bits: int
    slope: int = 0


_Place = tuple[int, tuple[Mapping, ...]]
"""A tile, by its ``id``, and the mappings by which it is reached."""
_State = tuple[int, int, dict[_Place, Span], dict[int, Tile]]


class Unknown(Exception):
    """No formula tells."""


@dataclass(slots=True)
class Spans:
    """Spans under construction, and the conditions under which they hold."""

    b: Builder
    conditions: list[Value] = field(default_factory=list)
    known: dict[_Place, Span] = field(default_factory=dict)
    limits: dict[_Place, list[tuple[Value | None, Value | None, int]]] = field(default_factory=dict)
    """What a mask tells of the numbers of a tile at the places of the elements that it leaves on: those
    below, and those above, are not among them. The limits have so many bits."""
    most: int = MOST_TILES
    """How many spans may be known."""
    empty: list[Value] = field(default_factory=list)
    """Each of them: no number is within its limits."""
    instead: dict[int, Tile] = field(default_factory=dict[int, Tile])
    """What tiles are where limits change nothing, quotients are the same, and one side is chosen for all."""
    path: tuple[Mapping, ...] = ()
    """By which mappings the tile that is looked at is reached from the access. Tiles that are reached by equal ones are read
    at the same places."""

    def attempt(self, make: Callable[[], object]) -> bool:
        """Whether something is known. What it takes to hold is added to the conditions only then."""
        before = self._state()
        try:
            make()
        except Unknown:
            self._go_back(before)
            return False
        return True

    def _state(self) -> _State:
        return len(self.conditions), len(self.empty), dict(self.known), dict(self.instead)

    def _go_back(self, state: _State) -> None:
        """Forget what was found since, which may hold only under conditions that are not kept."""
        conditions, empty, self.known, self.instead = state
        del self.conditions[conditions:]
        del self.empty[empty:]

    def of(self, tile: Tile) -> Span:
        """The span of a tile's numbers, where it is looked at. Raises ``Unknown`` where no formula tells."""
        key = id(tile), self.path
        if key not in self.known:
            if len(self.known) >= self.most or tile.element.name not in _WIDTHS:
                raise Unknown
            self.known[key] = self._within_limits(self._computed_or_limited(tile), key)
        return self.known[key]

    def _computed_or_limited(self, tile: Tile) -> Span:
        """The span that the formula of a tile gives; where there is none, such as for indices from memory, what the mask leaves
        of all numbers."""
        before = self._state()
        try:
            return self._compute(tile)
        except Unknown:
            if prod(tile.dims) == 1 and is_formula(tile, MOST_TILES):
                self._go_back(before)
                at = tuple(fixed(0) for _ in tile.dims)
                return self.uniform(LoopNest(self.b).eval(tile, at).value, bits_of(tile))
            limits = self.limits.get((id(tile), self.path), ())
            least = next((low for low, _, _ in limits if low is not None), None)
            most = next((high for _, high, _ in limits if high is not None), None)
            if least is None or most is None:
                raise
            self._go_back(before)
            return Span(least, most, max(bits for _, _, bits in limits))

    @contextmanager
    def through(self, mapped: Mapped) -> Iterator[None]:
        """Look at the source of a mapped tile meanwhile."""
        before = self.path
        if not isinstance(mapped, Remembered):  # that is read at the same places
            self.path = (*before, mapped.mapping)
        try:
            yield
        finally:
            self.path = before

    def _within_limits(self, span: Span, place: _Place) -> Span:
        b, low, high = self.b, span.low, span.high
        for least, most, _ in self.limits.get(place, ()):
            if least is not None:
                low = b.select(b.icmp_signed("<", low, least), least, low)
            if most is not None:
                high = b.select(b.icmp_signed(">", high, most), most, high)
        if low is not span.low or high is not span.high:
            self.empty.append(b.icmp_signed(">", low, high))
        return replace(span, low=low, high=high)

    def assume(self, mask: Tile) -> None:
        """Take what a mask says of numbers where it is on."""
        if isinstance(mask, Mapped):
            with self.through(mask):
                self.assume(mask.source)
        elif isinstance(mask, Elementwise) and mask.name == "andi":
            for operand in conjuncts(mask):
                self.assume(operand)
        elif isinstance(mask, Elementwise) and mask.name == "cmpi":
            self.attempt(lambda: self._assume_compared(mask))

    def _assume_compared(self, mask: Elementwise) -> None:
        words, (number, limit) = keywords(mask), mask.operands
        predicate = words.get("comparison_predicate", "")
        by, one = self.of(limit), number_of(0 if predicate.endswith("equal") else 1)
        if predicate in ("less_than", "less_than_or_equal"):
            bounds: tuple[Value | None, Value | None] = None, self.b.sub(by.high, one)
            if words.get("signedness") != "signed":
                self.require(">=", by.low, 0)
                bounds = number_of(0), bounds[1]
        elif predicate in ("greater_than", "greater_than_or_equal"):
            if words.get("signedness") != "signed":
                raise Unknown
            bounds = self.b.add(by.low, one), None
        else:
            raise Unknown
        # One less, or one more, may take one bit more.
        self._limit(number, (*bounds, by.bits + 1))

    def _limit(self, number: Tile, bounds: tuple[Value | None, Value | None, int]) -> None:
        """Note limits of a tile, and of those that have the same numbers."""
        self.limits.setdefault((id(number), self.path), []).append(bounds)
        if isinstance(number, Mapped):
            with self.through(number):
                self._limit(number.source, bounds)
        elif (
            isinstance(number, Elementwise)
            and number.name == "exti"
            and keywords(number).get("signedness") == "signed"
        ):
            self._limit(number.operands[0], bounds)

    def addresses(self, pointers: Tile) -> tuple[Value, Value]:
        """The lowest and the highest address among pointers that are offset from one. Raises ``Unknown`` where no formula
        tells."""
        if isinstance(pointers, Uniform):
            return pointers.value, pointers.value
        if isinstance(pointers, Mapped):
            with self.through(pointers):
                return self.addresses(pointers.source)
        if not isinstance(pointers, Elementwise) or pointers.name != "offset":
            raise Unknown
        first, last = self.addresses(pointers.operands[0])
        span, unit = self.limited(self.of(pointers.operands[1]), 56), number_of(pointers.unit)
        b = self.b
        return b.add(first, b.mul(span.low, unit)), b.add(last, b.mul(span.high, unit))

    def free(self, tile: Elementwise) -> None:
        """Add the condition that a limit changes nothing, that quotients are the same, or that one side is chosen for all.

        Raises ``Unknown`` where no formula tells.
        """
        if tile.name == "divi":
            found = self.of(tile)
            self.conditions.append(self.b.icmp_signed("==", found.low, found.high))
            self.instead[id(tile)] = self.one_number(tile, found.low)
            return
        if tile.name == "select":
            self.one_side(tile)
            side = likely_side(tile)
            if side is not None:
                self.instead[id(tile)] = tile.operands[1 + side]
            return
        number, limit = tile.operands
        if is_one_number(number):
            number, limit = limit, number
        if not is_one_number(limit) or keywords(tile).get("signedness") != "signed":
            raise Unknown
        of, by = self.of(number), self.of(limit)
        less, more = (by.high, of.low) if tile.name == "maxi" else (of.high, by.low)
        self.conditions.append(self.b.icmp_signed("<=", less, more))
        self.instead[id(tile)] = number

    def one_number(self, tile: Tile, number: Value) -> Uniform:
        """A tile of the same number everywhere, an i64."""
        ty = tile.element.register
        return Uniform(tile.element, tile.dims, number if ty == I64 else self.b.trunc(number, ty))

    def one_side(self, tile: Elementwise) -> None:
        """Add the condition that the likely side is chosen for all; either one, if neither is.

        Raises ``Unknown`` where no formula tells.
        """
        condition, likely = tile.operands[0], likely_side(tile)
        found: list[Value] = []
        for side, names in enumerate((ON, OFF)):
            asked = likely in (side, None)
            if asked and (holds := self.decided(condition, names)) is not None:
                found.append(holds)
        if not found:
            raise Unknown
        self.conditions.append(reduce(self.b.or_, found))

    def decided(self, mask: Tile, relations: dict[str, str]) -> Value | None:
        """Under which condition two numbers are in a relation, or not, everywhere; None where nothing tells.

        Raises ``Unknown`` where no formula gives the numbers.
        """
        if isinstance(mask, Mapped):
            with self.through(mask):
                return self.decided(mask.source, relations)
        if not isinstance(mask, Elementwise) or mask.name != "cmpi":
            return None
        words, b = keywords(mask), self.b
        left, right = (self.of(operand) for operand in mask.operands)
        predicate = words.get("comparison_predicate", "")
        relation = relations.get(predicate, "")
        if words.get("signedness", "signed") != "signed" and predicate not in (
            "equal",
            "not_equal",
        ):
            self.require(">=", left.low, 0)
            self.require(">=", right.low, 0)
        if relation == "!=":
            return b.or_(
                b.icmp_signed("<", left.high, right.low), b.icmp_signed(">", left.low, right.high)
            )
        if not relation:
            return None
        ends = (left.high, right.low) if relation.startswith("<") else (left.low, right.high)
        return b.icmp_signed(relation, *ends)

    def all_on(self, mask: Tile) -> None:
        """Add conditions under which a mask is on everywhere. Raises ``Unknown`` where no formula
        tells."""
        if isinstance(mask, Mapped):
            with self.through(mask):
                self.all_on(mask.source)
        elif isinstance(mask, Uniform):
            self.conditions.append(mask.value)
        elif isinstance(mask, Elementwise) and mask.name == "andi":
            for operand in conjuncts(mask):
                self.all_on(operand)
        elif isinstance(mask, Elementwise) and mask.name == "cmpi":
            self._compared(mask)
        else:
            raise Unknown

    def _compared(self, mask: Elementwise) -> None:
        words = keywords(mask)
        less, more = (self.of(operand) for operand in mask.operands)
        predicate = words.get("comparison_predicate", "")
        if predicate in ("greater_than", "greater_than_or_equal"):
            less, more = more, less
        elif predicate not in ("less_than", "less_than_or_equal"):
            raise Unknown
        if words.get("signedness", "signed") != "signed":
            self.at_least(less, number_of(0))
        self.below(less, more, or_equal=predicate.endswith("equal"))

    def below(self, less: Span, more: Span, *, or_equal: bool) -> None:
        """Require that one number is below another everywhere."""
        relation = "<=" if or_equal else "<"
        self.conditions.append(self.b.icmp_signed(relation, less.high, more.low))

    def _compute(self, tile: Tile) -> Span:
        width = _WIDTHS[tile.element.name]
        if isinstance(tile, Uniform):
            return self.uniform(tile.value, width)
        if isinstance(tile, Mapped):
            with self.through(tile):
                return self.of(tile.source)
        if isinstance(tile, Range):
            return self._add(self.uniform(tile.start, width), self.places(tile), width)
        if not isinstance(tile, Elementwise):
            raise Unknown
        if tile.name == "exti":
            source = self.of(tile.operands[0])
            if keywords(tile).get("signedness") != "signed":
                self.at_least(source, number_of(0))
            return source
        if tile.name == "divi":
            return self.divided(tile)
        if tile.name in ("maxi", "mini"):
            return self.extremum(tile)
        if tile.name == "select":
            return self.either(tile)
        if tile.name not in ("addi", "subi", "muli", "shli"):
            raise Unknown
        left, right = (self.of(operand) for operand in tile.operands)
        if tile.name == "addi":
            return self._add(left, right, width)
        if tile.name == "subi":
            low = self.b.neg(right.high)
            high = low if right.low is right.high else self.b.neg(right.low)
            minus = Span(low, high, right.bits, -right.slope)
            if right.bits >= 63:
                raise Unknown
            return self._add(left, minus, width)
        if tile.name == "shli":
            right = _power(tile.operands[1], width)
        return self.multiply(left, right, width)

    def places(self, tile: Range) -> Span:
        """From 0 to the last place of a range."""
        last, first = tile.dims[0] - 1, number_of(0)
        return Span(first, number_of(last) if last else first, last.bit_length())

    def extremum(self, tile: Elementwise) -> Span:
        """The span of ``maxi`` or ``mini``. Raises ``Unknown`` for unsigned ones."""
        if keywords(tile).get("signedness") != "signed":
            raise Unknown
        left, right = (self.of(operand) for operand in tile.operands)
        relation = ">" if tile.name == "maxi" else "<"

        def best(x: Value, y: Value) -> Value:
            return self.b.select(self.b.icmp_signed(relation, x, y), x, y)

        bits = max(left.bits, right.bits)
        return Span(best(left.low, right.low), best(left.high, right.high), bits)

    def either(self, tile: Elementwise) -> Span:
        """From the least to the largest number of both sides."""
        left, right = (self.of(operand) for operand in tile.operands[1:])
        b = self.b
        low = b.select(b.icmp_signed("<", left.low, right.low), left.low, right.low)
        high = b.select(b.icmp_signed(">", left.high, right.high), left.high, right.high)
        return Span(low, high, max(left.bits, right.bits))

    def divided(self, tile: Elementwise) -> Span:
        """The quotients by one positive number, rounded down, which rise with the dividend. Raises ``Unknown`` where no formula
        tells."""
        return self._divided(tile, self.of(tile.operands[0]))

    def _divided(self, tile: Elementwise, source: Span) -> Span:
        divisor, words = self.divisor(tile.operands[1]), keywords(tile)
        signed = words.get("signedness") == "signed"
        down = not signed or words.get("rounding") == "negative_inf"
        if not down:
            raise Unknown
        if not signed:
            self.at_least(source, number_of(0))
        b = self.b

        def quotient(number: Value) -> Value:
            below = b.sub(number, b.sub(divisor, number_of(1)))
            negative = b.icmp_signed("<", number, number_of(0))
            return b.sdiv(b.select(negative, below, number), divisor)

        source = self.limited(source, 61)
        low = high = quotient(source.low)
        if source.low is not source.high:
            high = quotient(source.high)
        return Span(low, high, source.bits)

    def divisor(self, tile: Tile) -> Value:
        """The number of a tile of one number, which is required to be positive, by which division does not trap.

        Raises ``Unknown`` for tiles of several.
        """
        if not is_one_number(tile):
            raise Unknown
        span = self.of(tile)
        if isinstance(span.low, ir.Constant):
            if span.low.constant <= 0:
                raise Unknown
            return span.low
        span = self.limited(span, 61)
        self.require(">=", span.low, 1)
        one = number_of(1)
        return self.b.select(self.b.icmp_signed("<", span.low, one), one, span.low)

    def uniform(self, value: Value, width: int) -> Span:
        """The span of a number of so many bits. Raises ``Unknown`` for constants that are no integers."""
        if isinstance(value, ir.Constant):
            if not isinstance(value.constant, int):
                raise Unknown
            number = value.constant % (1 << width)
            number -= (number >> (width - 1)) << width
            known = number_of(number)
            return Span(known, known, abs(number).bit_length())
        bits = width - 1
        if isinstance(value, ir.CastInstr) and value.opname in ("sext", "zext"):
            bits = min(bits, value.operands[0].type.width - (value.opname == "sext"))
        wide = value if width == 64 else self.b.sext(value, I64)
        return Span(wide, wide, bits)

    def _add(self, left: Span, right: Span, width: int) -> Span:
        left, right = self.limited(left, 61), self.limited(right, 61)
        low = high = self.b.add(left.low, right.low)
        if left.low is not left.high or right.low is not right.high:
            high = self.b.add(left.high, right.high)
        bits = max(left.bits, right.bits) + 1
        return self.limited(Span(low, high, bits, left.slope + right.slope), width - 1)

    def multiply(self, left: Span, right: Span, width: int) -> Span:
        """The span of products, in a type of so many bits, which none leaves: that is required."""
        if left.bits + right.bits > 62:
            left, right = self.limited(left, 31), self.limited(right, 31)
        b = self.b
        if left.low is left.high and right.low is right.high:
            product = b.mul(left.low, right.low)
            return self.limited(Span(product, product, left.bits + right.bits + 1), width - 1)
        ends = [(left.low, right.low), (left.high, right.low)]
        if right.low is not right.high:
            ends += [(left.low, right.high), (left.high, right.high)]
        products = [b.mul(x, y) for x, y in ends]
        low = high = products[0]
        for other in products[1:]:
            low = b.select(b.icmp_signed("<", other, low), other, low)
            high = b.select(b.icmp_signed(">", other, high), other, high)
        return self.limited(Span(low, high, left.bits + right.bits + 1), width - 1)

    def limited(self, span: Span, bits: int) -> Span:
        """The span where its numbers have so many bits beside the sign."""
        if span.bits <= bits:
            return span
        self.at_least(span, number_of(-(1 << bits)))
        self.at_most(span, number_of((1 << bits) - 1))
        return replace(span, bits=bits)

    def at_least(self, span: Span, limit: Value) -> None:
        """Require that no number is below a limit."""
        self.conditions.append(self.b.icmp_signed(">=", span.low, limit))

    def at_most(self, span: Span, limit: Value) -> None:
        """Require that no number is above a limit."""
        self.conditions.append(self.b.icmp_signed("<=", span.high, limit))

    def require(self, relation: str, value: Value, limit: int) -> None:
        """Require a signed relation of a number to a limit."""
        self.conditions.append(self.b.icmp_signed(relation, value, number_of(limit)))


#: Relations of two numbers that mean that a comparison holds, and that it does not.
ON = {
    "less_than": "<",
    "less_than_or_equal": "<=",
    "greater_than": ">",
    "greater_than_or_equal": ">=",
    "not_equal": "!=",
}
OFF = {
    "less_than": ">=",
    "less_than_or_equal": ">",
    "greater_than": "<=",
    "greater_than_or_equal": "<",
    "equal": "!=",
}


def _power(amount: Tile, width: int) -> Span:
    """What a shift to the left multiplies by."""
    value = amount.value if isinstance(amount, Uniform) else None
    if not isinstance(value, ir.Constant) or not 0 <= value.constant < min(width, 31):
        raise Unknown
    factor = 1 << value.constant
    known = number_of(factor)
    return Span(known, known, factor.bit_length())


def keywords(tile: Elementwise) -> dict[str, str]:
    """What the operation of a tile is made with."""
    return tile.emit.keywords if isinstance(tile.emit, partial) else {}


def number_of(value: int) -> Value:
    """A constant i64."""
    return ir.Constant(I64, value)
