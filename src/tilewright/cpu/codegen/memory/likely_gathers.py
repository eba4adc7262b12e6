"""Elements of up to four bytes whose places follow a formula that no pattern describes, such as neighbours of pixels of three colours,
or an image in another size.

Where the formula tells that they likely follow one another (``loops.likely_lanes``), or lie near one another, the code asks whether they
do, and takes them out of one vector in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I8, I32, I64, Element
from tilewright.cpu.codegen.ir.masked import masked_load
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.memory.lane_gathers import (
    PAGE,
    WORD_BYTES,
    gather_behind,
    joined,
    narrow,
    part_of,
)

#: Of so many lanes each comes out of one window.
_LANES = 8
#: The bytes of a window, by the size of elements, and what turns it by a vector of numbers.
_WINDOWS = {1: (16, "ssse3"), 2: (16, "ssse3"), 4: (32, "avx2")}
_MOST_BEFORE = 4


@dataclass(frozen=True, slots=True)
class Likely:
    """How elements likely lie: each behind the one before, or those of a few lanes within a window, which begins ``before`` the
    first of them, counted in elements."""

    is_run: bool
    before: int = 0

    @property
    def question(self) -> str:
        """What the code asks, for remarks."""
        if self.is_run:
            return "they turn out to follow one another"
        return f"those of {_LANES} lanes turn out to lie within one vector"


def likely_of(lists: Sequence[Sequence[int]] | None, element: Element) -> Likely | None:
    """What is worth asking for, of lanes that likely lie so many bytes behind the first one, by some examples."""
    size = element.buffer_bytes
    if lists is None or size not in _WINDOWS or len(lists[0]) % _LANES:
        return None
    if all(place == lane * size for lanes in lists for lane, place in enumerate(lanes)):
        return Likely(is_run=True)
    behind = [
        place - lanes[first]
        for lanes in lists
        for first in range(0, len(lanes), _LANES)
        for place in lanes[first : first + _LANES]
    ]
    before = -min(behind)
    if before % size or before > _MOST_BEFORE or max(behind) + before >= _WINDOWS[size][0]:
        return None
    return Likely(is_run=False, before=before // size)


def gather_likely(
    b: Builder,
    base: Value,
    offsets: Value,
    element: Element,
    on: Value,
    fallback: Value,
    likely: Likely,
) -> Value:
    """``gather_behind`` for offsets in elements that likely lie so."""
    target = llvm.target_of(b)
    if not likely.is_run and not (target.is_x86 and target.has(_WINDOWS[element.buffer_bytes][1])):
        return gather_behind(b, base, offsets, element.buffer_bytes, element, on, fallback)
    ask, read = _follow, _run
    if not likely.is_run:
        ask, read = partial(_lie_near, before=likely.before), partial(_window, before=likely.before)
    start, places = narrow(b, base, offsets, element.buffer_bytes)
    blocks = [b.append_basic_block(name) for name in ("together", "apart", "read")]
    b.cbranch(ask(b, start, places, element, on), blocks[0], blocks[1])
    b.position_at_end(blocks[0])
    together = read(b, start, places, element, on, fallback)
    ends = [b.block]
    b.branch(blocks[2])
    b.position_at_end(blocks[1])
    gathered = gather_behind(b, base, offsets, element.buffer_bytes, element, on, fallback)
    ends.append(b.block)
    b.branch(blocks[2])
    b.position_at_end(blocks[2])
    found = b.phi(together.type)
    found.add_incoming(together, ends[0])
    found.add_incoming(gathered, ends[1])
    return found


def _first(b: Builder, places: Value) -> Value:
    return b.extract_element(places, ir.Constant(I32, 0))


def _behind(b: Builder, places: Value, before: int = 0) -> Value:
    """How far behind the first one each is, and ``before`` more."""
    first = _first(b, places)
    if before:
        first = b.sub(first, ir.Constant(first.type, before))
    return b.sub(places, llvm.splat(b, first, llvm.lanes_of(places.type)))


def _none_wraps(b: Builder, places: Value, reach: int, before: int = 0) -> list[Value]:
    """Whether numbers up to ``reach`` more than the first one, and ``before`` less, are numbers of the type: where one wraps, the
    difference is small, and the distance is not."""
    first = _first(b, places)
    half = 1 << (first.type.width - 1)
    fits = [b.icmp_signed("<", first, ir.Constant(first.type, half - reach))]
    if before:
        fits.append(b.icmp_signed(">=", first, ir.Constant(first.type, before - half)))
    return fits


def _is_zero(b: Builder, numbers: Value, on: Value) -> Value:
    """Whether numbers are zero in all lanes that are on."""
    if not llvm.is_all_on(on):
        numbers = b.and_(numbers, b.sext(on, numbers.type))
    wide = llvm.scalar_of(numbers.type)
    total = llvm.intrinsic(b, "vector.reduce.or", [numbers], wide)
    return b.icmp_signed("==", total, ir.Constant(wide, 0))


def _follow(b: Builder, start: Value, places: Value, element: Element, on: Value) -> Value:
    lanes = llvm.lanes_of(places.type)
    wide = llvm.scalar_of(places.type)
    steps = ir.Constant(places.type, [ir.Constant(wide, lane) for lane in range(lanes)])
    follow = _is_zero(b, b.xor(_behind(b, places), steps), on)
    (fits,) = _none_wraps(b, places, lanes)
    return b.and_(follow, fits)


def _run(
    b: Builder, start: Value, places: Value, element: Element, on: Value, fallback: Value
) -> Value:
    ty = ir.VectorType(element.buffer, llvm.lanes_of(places.type))
    where = _address(b, start, places, element)
    if llvm.is_all_on(on):
        return b.load(where, typ=ty, align=element.buffer_bytes)
    return masked_load(b, where, ty, on, fallback)


def _address(b: Builder, start: Value, places: Value, element: Element, before: int = 0) -> Value:
    unit = ir.IntType(8 * element.buffer_bytes)
    found = b.gep(start, [_first(b, places)], source_etype=unit)
    return b.gep(found, [ir.Constant(I64, -before)], source_etype=unit) if before else found


def _groups(b: Builder, *values: Value) -> list[tuple[Value, ...]]:
    lanes = llvm.lanes_of(values[0].type)
    return [
        tuple(part_of(b, value, first, _LANES) for value in values)
        for first in range(0, lanes, _LANES)
    ]


def _lie_near(
    b: Builder, start: Value, places: Value, element: Element, on: Value, *, before: int
) -> Value:
    """Also that a window may be read: it has a lane that is on, and no page ends in it."""
    near: list[Value] = []
    size, _ = _WINDOWS[element.buffer_bytes]
    held = size // element.buffer_bytes
    last = ir.Constant(I64, PAGE - size)
    all_on = llvm.is_all_on(on)
    for group, mask in _groups(b, places, on):
        beyond = b.and_(_behind(b, group, before), llvm.number(group.type, ~(held - 1)))
        near += [_is_zero(b, beyond, mask), *_none_wraps(b, group, held, before)]
        address = b.ptrtoint(_address(b, start, group, element, before), I64)
        inside = b.and_(address, ir.Constant(I64, PAGE - 1))
        near.append(b.icmp_unsigned("<=", inside, last))
        if not all_on:
            near.append(llvm.any_lane(b, mask))
    total = near[0]
    for each in near[1:]:
        total = b.and_(total, each)
    return total


def _window(
    b: Builder,
    start: Value,
    places: Value,
    element: Element,
    on: Value,
    fallback: Value,
    *,
    before: int,
) -> Value:
    lanes = llvm.lanes_of(places.type)
    parts = [_turned(b, start, group, element, before) for (group,) in _groups(b, places)]
    found = joined(b, lambda first: parts[first // _LANES], lanes, _LANES)
    return found if llvm.is_all_on(on) else b.select(on, found, fallback)


def _turned(b: Builder, start: Value, places: Value, element: Element, before: int) -> Value:
    """The elements of one group."""
    size = element.buffer_bytes
    if size == WORD_BYTES:
        return _turned_words(b, start, places, element, before)
    window = ir.VectorType(I8, _WINDOWS[size][0])
    held = b.load(_address(b, start, places, element, before), typ=window, align=size)
    short = ir.VectorType(ir.IntType(8 * size), _LANES)
    order = b.trunc(_behind(b, places, before), short)
    if size == 2:
        # Both bytes of an element: twice its place, and one more.
        order = b.add(b.mul(order, llvm.number(short, 0x0202)), llvm.number(short, 0x0100))
        order = b.bitcast(order, window)
    else:
        order = llvm.shuffle(b, order, order, [lane % _LANES for lane in range(window.count)])
    turned = b.call(
        llvm.declare(b.module, "llvm.x86.ssse3.pshuf.b.128", window, [window, window]),
        [held, order],
    )
    if size == 1:
        turned = llvm.shuffle(b, turned, turned, range(_LANES))
    return b.bitcast(turned, ir.VectorType(element.buffer, _LANES))


def _turned_words(b: Builder, start: Value, places: Value, element: Element, before: int) -> Value:
    ty, words = ir.VectorType(element.buffer, _LANES), ir.VectorType(I32, _LANES)
    held = b.load(_address(b, start, places, element, before), typ=ty, align=WORD_BYTES)
    order = _behind(b, places, before)
    order = order if order.type == words else b.trunc(order, words)
    name = f"llvm.x86.avx2.perm{'ps' if isinstance(element.buffer, ir.FloatType) else 'd'}"
    return b.call(llvm.declare(b.module, name, ty, [ty, words]), [held, order])
