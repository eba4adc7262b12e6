"""Gathers that ask first whether lanes lie as they likely do: each behind the one before, or near one another.

A *run* is a vector in memory as it lies. Lanes out of a *window*, too, come from one vector, turned by a vector of numbers: places of a
formula that reaches a limit (``max(i, 0)`` at the edge of an image), or that no pattern describes, such as neighbours of pixels of three
colours and an image in another size (``loops.likely_lanes``). Where the answer is no, lanes are gathered (``lane_gathers``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I8, I32, I64, PTR, Element
from tilewright.cpu.codegen.ir.masked import masked_load
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.memory.lane_gathers import (
    PAGE,
    WORD_BYTES,
    gather_behind,
    gather_from,
    joined,
    narrow,
    part_of,
)
from tilewright.cpu.target import CpuTarget

#: How many elements in front of the first lane a window begins at most.
_MOST_BEFORE = 4


@dataclass(frozen=True, slots=True)
class Places:
    """Where the elements of a vector lie: ``numbers`` of them behind a base, or at addresses, where that is None."""

    base: Value | None
    numbers: Value
    element: Element

    @property
    def lanes(self) -> int:
        """How many elements there are."""
        return llvm.lanes_of(self.numbers.type)

    def gather(self, b: Builder, on: Value, fallback: Value) -> Value:
        """The elements wherever they lie, ``fallback`` where the mask is off."""
        if self.base is None:
            pointers = b.inttoptr(self.numbers, llvm.shaped(PTR, self.numbers.type))
            return gather_from(b, pointers, self.element, on, fallback)
        unit = self.element.buffer_bytes
        return gather_behind(b, self.base, self.numbers, unit, self.element, on, fallback)

    def part(self, b: Builder, first: int, lanes: int) -> Places:
        """Those of so many lanes, from one on."""
        return Places(self.base, part_of(b, self.numbers, first, lanes), self.element)

    def first(self, b: Builder, before: int = 0) -> Value:
        """A pointer to the first one, or to so many elements in front of it."""
        number, unit = self._first(b), ir.IntType(8 * self.element.buffer_bytes)
        if self.base is None:
            found = b.inttoptr(number, PTR)
        else:
            found = b.gep(self.base, [number], source_etype=unit)
        return b.gep(found, [ir.Constant(I64, -before)], source_etype=unit) if before else found

    @property
    def step(self) -> int:
        """What the next element is away from one, in numbers."""
        return 1 if self.base is not None else self.element.buffer_bytes

    def behind(self, b: Builder, before: int = 0) -> Value:
        """How far each lies behind the first one, in numbers, and ``before`` elements more."""
        first = self._first(b)
        if before:
            first = b.sub(first, ir.Constant(first.type, before * self.step))
        return b.sub(self.numbers, llvm.splat(b, first, self.lanes))

    def none_wraps(self, b: Builder, reach: int, before: int = 0) -> list[Value]:
        """Whether numbers up to ``reach`` more than the first one, and ``before`` less, are numbers of the type: where one wraps,
        the difference is small, and the distance is not."""
        if self.base is None:
            return []
        first = self._first(b)
        half = 1 << (first.type.width - 1)
        fits = [b.icmp_signed("<", first, ir.Constant(first.type, half - reach))]
        if before:
            fits.append(b.icmp_signed(">=", first, ir.Constant(first.type, before - half)))
        return fits

    def _first(self, b: Builder) -> Value:
        return b.extract_element(self.numbers, ir.Constant(I32, 0))


@dataclass(frozen=True, slots=True)
class Run:
    """Each element behind the one before."""

    #: Whether that shows in the last one alone.
    by_last: bool = False

    question = "they turn out to follow one another"

    def holds(self, b: Builder, places: Places, on: Value) -> Value:
        """Whether the lanes that are on lie so."""
        lanes, step = places.lanes, places.step
        behind = places.behind(b)
        wide = llvm.scalar_of(behind.type)
        if self.by_last:
            last = b.extract_element(behind, ir.Constant(I32, lanes - 1))
            return b.icmp_signed("==", last, ir.Constant(wide, (lanes - 1) * step))
        steps = llvm.int_lanes([lane * step for lane in range(lanes)], wide)
        follow = _is_zero(b, b.xor(behind, steps), on)
        return llvm.all_of(b, [follow, *places.none_wraps(b, lanes)]) or follow

    def read(self, b: Builder, places: Places, on: Value, fallback: Value) -> Value:
        """The elements, which lie so."""
        ty = ir.VectorType(places.element.buffer, places.lanes)
        if llvm.is_all_on(on):
            return b.load(places.first(b), typ=ty, align=places.element.buffer_bytes)
        return masked_load(b, places.first(b), ty, on, fallback)


@dataclass(frozen=True, slots=True)
class Window:
    """So many lanes within so many bytes, from ``before`` elements in front of the first of them on."""

    lanes: int
    size: int
    before: int = 0

    @staticmethod
    def of_all(target: CpuTarget, element: Element, lanes: int) -> Window | None:
        """That of all of so many lanes, which a formula has side by side up to a limit, or of their parts."""
        words = _WIDE_BYTES // WORD_BYTES
        if element.buffer_bytes == WORD_BYTES and lanes == words and target.has("avx512f"):
            return Window(lanes, _WIDE_BYTES)
        return Window.of(target, element, lanes)

    @staticmethod
    def of(target: CpuTarget, element: Element, lanes: int, before: int = 0) -> Window | None:
        """That of the largest part of so many lanes; None where the processor turns no such lanes by a vector of numbers."""
        size = element.buffer_bytes
        if size not in _TURNS:
            return None
        bytes_, feature = _TURNS[size]
        held = min(lanes, _MOST_LANES, bytes_ // size)
        if not target.is_x86 or not target.has(feature) or lanes % held or held < _FEWEST_LANES:
            return None
        return Window(held, bytes_, before)

    @property
    def question(self) -> str:
        """What the code asks, for remarks."""
        return f"those of {self.lanes} lanes turn out to lie within one vector"

    def holds(self, b: Builder, places: Places, on: Value) -> Value:
        """Whether the lanes that are on lie so, and the window may be read: it has a lane that is on, and no page ends in it."""
        held = self.size // places.element.buffer_bytes
        beyond = ~(held * places.step - 1)
        near: list[Value] = []
        for first in range(0, places.lanes, self.lanes):
            group, mask = places.part(b, first, self.lanes), part_of(b, on, first, self.lanes)
            behind = group.behind(b, self.before)
            near.append(_is_zero(b, b.and_(behind, llvm.number(behind.type, beyond)), mask))
            near += group.none_wraps(b, held, self.before)
            address = b.ptrtoint(group.first(b, self.before), I64)
            inside = b.and_(address, ir.Constant(I64, PAGE - 1))
            near.append(b.icmp_unsigned("<=", inside, ir.Constant(I64, PAGE - self.size)))
            if not llvm.is_all_on(on):
                near.append(llvm.any_lane(b, mask))
        return llvm.all_of(b, near) or ir.Constant(I1, 1)

    def read(self, b: Builder, places: Places, on: Value, fallback: Value) -> Value:
        """The elements, which lie so."""

        def part(first: int) -> Value:
            return self._turned(b, places.part(b, first, self.lanes))

        found = joined(b, part, places.lanes, self.lanes)
        return found if llvm.is_all_on(on) else b.select(on, found, fallback)

    def _turned(self, b: Builder, places: Places) -> Value:
        """The elements of one group: words, or bytes, of the window in the order of their numbers."""
        element = places.element
        size, of_words = element.buffer_bytes, element.buffer_bytes >= WORD_BYTES
        unit = I32 if of_words else I8
        parts, count = 8 * size // unit.width, 8 * self.size // unit.width
        words = ir.VectorType(unit, count)
        held = b.load(places.first(b, self.before), typ=words, align=size)
        order = places.behind(b, self.before)
        if order.type.element != unit:
            order = b.trunc(order, llvm.shaped(unit, order.type))
        if places.step > parts:
            order = b.lshr(order, llvm.number(order.type, 2))
        elif places.step < parts:
            order = b.mul(order, llvm.number(order.type, parts))
        if parts > 1:
            # Both parts of an element.
            later = b.add(order, llvm.number(order.type, 1))
            order = llvm.shuffle(
                b,
                order,
                later,
                [at for lane in range(self.lanes) for at in (lane, lane + self.lanes)],
            )
        total = self.lanes * parts
        if total < count:
            order = llvm.shuffle(b, order, order, [at % total for at in range(count)])
        name = "avx2.permd" if of_words else "ssse3.pshuf.b.128"
        if self.size == _WIDE_BYTES:
            name = "avx512.permvar.si.512"
        turn = llvm.declare(b.module, f"llvm.x86.{name}", words, [words, words])
        turned = b.call(turn, [held, order])
        if total < count:
            turned = llvm.shuffle(b, turned, turned, range(total))
        return b.bitcast(turned, ir.VectorType(element.buffer, self.lanes))


#: The bytes of a window, by the size of elements, and what turns it by a vector of numbers.
_TURNS = {1: (16, "ssse3"), 2: (16, "ssse3"), 4: (32, "avx2"), 8: (32, "avx2")}
_FEWEST_LANES, _MOST_LANES = 4, 8
#: The bytes of a window of all lanes of a vector with AVX-512.
_WIDE_BYTES = 64

Guess = Run | Window


def guess_of(
    target: CpuTarget, lists: Sequence[Sequence[int]] | None, element: Element
) -> Guess | None:
    """What is worth asking for, of lanes that likely lie so many bytes behind the first one, by some examples."""
    size = element.buffer_bytes
    if lists is None:
        return None
    if all(place == lane * size for lanes in lists for lane, place in enumerate(lanes)):
        return Run()
    window = Window.of(target, element, len(lists[0]))
    if window is None:
        return None
    behind = [
        place - lanes[first]
        for lanes in lists
        for first in range(0, len(lanes), window.lanes)
        for place in lanes[first : first + window.lanes]
    ]
    before = -min(behind)
    if before % size or before > _MOST_BEFORE * size or max(behind) + before >= window.size:
        return None
    return Window(window.lanes, window.size, before // size)


def gather_guessed(
    b: Builder, places: Places, on: Value, fallback: Value, guesses: Sequence[Guess]
) -> Value:
    """The buffer form of elements, ``fallback`` where the mask is off: as the first guess has it that holds, else gathered."""
    if places.base is not None:
        base, numbers = narrow(b, places.base, places.numbers, places.element.buffer_bytes)
        places = Places(base, numbers, places.element)
    found: list[tuple[Value, ir.Block]] = []
    done = b.append_basic_block("read")
    for guess in guesses:
        as_guessed, otherwise = (b.append_basic_block(name) for name in ("guessed", "apart"))
        b.cbranch(guess.holds(b, places, on), as_guessed, otherwise)
        b.position_at_end(as_guessed)
        found.append((guess.read(b, places, on, fallback), b.block))
        b.branch(done)
        b.position_at_end(otherwise)
    found.append((places.gather(b, on, fallback), b.block))
    b.branch(done)
    b.position_at_end(done)
    result = b.phi(found[0][0].type)
    for value, block in found:
        result.add_incoming(value, block)
    return result


def _is_zero(b: Builder, numbers: Value, on: Value) -> Value:
    """Whether numbers are zero in all lanes that are on."""
    if not llvm.is_all_on(on):
        numbers = b.and_(numbers, b.sext(on, numbers.type))
    wide = llvm.scalar_of(numbers.type)
    total = llvm.intrinsic(b, "vector.reduce.or", [numbers], wide)
    return b.icmp_signed("==", total, ir.Constant(wide, 0))
