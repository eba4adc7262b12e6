"""Reductions.

Along an inner axis the elements of one row are spread over lanes and accumulators; along an outer axis each lane is a row
of its own, and elements are taken in order. A body that is one commutative operation takes elements in any order, and so
does one that selects one of two elements (``analysis.tileaa.choices``); others keep the order of elements, which
associativity allows to cut into runs: lane i then takes the i-th run.

Only elements are combined; the operation's identities take no part, as on all machines. The accumulator of a commutative
operation starts with its neutral number (NaN for a maximum that drops NaN, -0 for a sum), any other with the first element it
gets. One that selects starts with its first elements before the loop, which meets them again: that
changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from xdsl.ir import SSAValue

from tilewright.cpu.codegen.analysis import cost_model
from tilewright.cpu.codegen.elementwise.formats import narrow, widen
from tilewright.cpu.codegen.emitter.function import (
    FunctionEmitter,
    vector_axis,
)
from tilewright.cpu.codegen.emitter.table import lowers
from tilewright.cpu.codegen.emitter.vector_lengths import lanes_in_words, unroll_of
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import (
    ELEMENTS,
    I64,
    bits_constant,
    element_of,
)
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops import even_odd, held
from tilewright.cpu.codegen.loops.indices import Coords, Index, Lane, fixed
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.over_shapes import loops
from tilewright.cpu.codegen.loops.row_ends import (
    PADDING_REMARK,
    Into,
    RowEnd,
    end_of_part,
    rest_of_row,
)
from tilewright.cpu.codegen.loops.row_spans import RowPart
from tilewright.cpu.codegen.loops.tiles import (
    Elementwise,
    Emit,
    Strided,
    Tile,
    Written,
    store_at,
    walk,
)
from tilewright.cpu.codegen.memory.access import ViewLoad
from tilewright.cpu.codegen.memory.pointers import PointerLoad
from tilewright.cpu.codegen.reductions import squares
from tilewright.cpu.codegen.reductions.combination import (
    Combination,
    combination_of,
    elements_at,
    put_at,
    together,
    with_axis,
)
from tilewright.cpu.codegen.reductions.orientation import ACROSS_ROWS, lanes_may_be_rows
from tilewright.cpu.codegen.reductions.scalar_bodies import combine_each
from tilewright.cpu.codegen.reductions.squares import Row
from tilewright.cpu.target import CpuTarget
from tilewright.dialects.declare import enum_property, int_property
from tilewright.dialects.nv_tileaa.ops.arithmetic import AddFOp
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.numerics.floats import float_to_bits

_ACCUMULATORS = 4
#: The same where each element is checked, and much is computed of each.
_MASKED_ACCUMULATORS = 2
#: How many rows are read at once where several streams come faster than one.
_STREAMS = 4
#: Rows of so many arrays, and of one if they are no longer than so many bytes, are reduced one after the other: as they follow one
#: another in memory, that is one stream for each array, and has no end. (On a Zen 3, products of two arrays of rows of 1200 bytes took
#: half of the time that four rows at once take, of 4 KiB 0.75 to 0.85; sums of one array 0.7 to 0.75 up to 1200 bytes, 1.05 of 4 KB.)
_ENOUGH_ARRAYS, _SHORT_ROW = 2, 2 << 10
#: How many runs of a row are taken side by side where elements keep their order, and how many steps there are at least for
#: each that waits for the one before.
_MOST_RUNS, _STEPS_AT_ONCE = 16, 8
#: How many blocks of as many vectors as these have lanes a row has at least that is read from one end to the other.
_FEWEST_BLOCKS = 4
#: How many rows at once are added to sums in memory: streams that the processor still sees.
_ROWS_AT_ONCE = 8
#: How long rows may be that are taken apart in registers (``loops.strided_lanes``), and how many there are at least.
_NEAR, _FEWEST_ROWS = 4, 8


@lowers("reduce")
def reduce(f: FunctionEmitter, op: ReduceOp) -> None:
    """Combines along an axis, in several lanes and rounds at once, which come together at the end; a body that is not
    element-wise runs once a step."""
    if not cost_model.is_body_of_elements(op):
        combine_each(f, op, int_property(op, "axis"))
        return
    combination = combination_of(f, op, f.read_once(op))
    wide = _is_sum_of_bf16(combination, op)
    combination = _in_f32(combination) if wide else combination
    rest = tuple(extent for axis, extent in enumerate(combination.dims) if axis != combination.axis)
    pairs = zip(combination.elements, op.results, strict=True) if rest else ()
    targets = [f.buffer(element, rest, f.plan.last_use(result)) for element, result in pairs]
    inner = all(extent == 1 for extent in combination.dims[combination.axis + 1 :])
    inner = inner and combination.dims[combination.axis] > 1
    make = _along_rows if combination.commutes else _in_order
    if not inner or _are_short(combination, rest):
        make = _across_rows
    elif _lanes_are_rows(f, combination, rest):
        f.unit.remarks.add("loop", ACROSS_ROWS, op)
        make = _across_rows
    elif squares.are_written_out(f, combination, rest):
        f.unit.remarks.add("loop", squares.REMARK, op)
        make = squares.in_squares
    if make is _across_rows and _has_wide_rows(f, combination, rest):
        make = _row_by_row
    if make is not _in_order:
        along = make is _along_rows
        _, words = _lanes(f, combination) if along else _lanes_across(f, combination, rest)
        if words:
            f.unit.remarks.add("loop", even_odd.REMARK, op)
    into, lanes = targets, _lanes(f, combination)[0] if make is _along_rows else 1
    later = squares.come_together_later(f, combination, rest, lanes)
    if later:
        f.unit.remarks.add("loop", squares.REMARK, op)
        into = [f.buffer(element, (*rest, lanes), f.now) for element in combination.elements]

    def one(masked: bool) -> list[Value]:
        if make is not _along_rows or combination.neutral is None:
            return make(f, combination, rest, into, masked)
        return _versions_along_rows(f, op, combination, rest, into, masked)

    found = f.versions_for(combination.tiles, one)
    f.settle()
    if later:
        squares.from_lanes(f, combination, rest, into, targets)
    for position, result in enumerate(op.results):
        f.values[result] = targets[position] if rest else found[position]
        if wide:
            element = element_of(result.type)
            _finish(f, result, lambda b, x, element=element: narrow(b, x, element))
        elif combination.keys is not None:
            _finish(f, result, combination.keys[position].decode)


def _versions_along_rows(
    f: FunctionEmitter,
    op: ReduceOp,
    combination: Combination,
    rest: tuple[int, ...],
    targets: Sequence[Strided],
    masked: bool,
) -> list[Value]:
    """The code with checks, or without, in versions for rows that end before their tile."""
    dims, axis = combination.dims, combination.axis
    lanes, _ = _lanes(f, combination)
    _, rounds = _side_by_side(f, combination, rest)
    if not masked:
        padding = f.row_padding(combination.tiles, dims, axis, lanes, rounds)
        if padding is None:
            return _along_rows(f, combination, rest, targets, masked)
        f.unit.remarks.add("loop", PADDING_REMARK, op)

        def padded(full: bool) -> list[Value]:
            end = None if full else padding
            return _along_rows(f, combination, rest, targets, False, end)

        return f.versions([padding.only], padded)
    end = f.row_end(combination.tiles, dims, axis, lanes, rounds)
    part = None
    if end is None:
        part = f.row_part(combination.tiles, (dims, axis, lanes), Into(None, ()), ())
    if isinstance(part, RowPart):
        end = end_of_part(f.builder, part, dims[axis], lanes, rounds)

    def either(masked: bool) -> list[Value]:
        return _along_rows(f, combination, rest, targets, masked, None if masked else end)

    return f.cut_rows(end, either)


def _is_sum_of_bf16(combination: Combination, op: ReduceOp) -> bool:
    """Whether all that a reduction does is to add bf16 numbers, which may be done in f32, without
    rounding after each, as these have the same range."""
    *adding, _ = op.regions[0].blocks[0].ops
    return combination.neutral is not None and all(
        isinstance(each, AddFOp)
        and enum_property(each, "rounding_mode") in ("", "nearest_even")
        and element_of(each.results[0].type).name == "bf16"
        for each in adding
    )


def _in_f32(combination: Combination) -> Combination:
    """The same sums in f32."""
    single = ELEMENTS["f32"]

    def exact(tile: Tile) -> Tile:
        return Elementwise(single, tile.dims, (tile,), lambda b, x: widen(b, x, tile.element))

    def add(b: Builder, values: Sequence[Value], **_: object) -> list[Value]:
        return [b.fadd(*pair) for pair in zip(values[::2], values[1::2], strict=True)]

    zero = bits_constant(single, float_to_bits(-0.0, single.format))
    tiles = tuple(exact(tile) for tile in combination.tiles)
    return Combination(tiles, combination.axis, add, (zero,) * len(tiles))


def _finish(f: FunctionEmitter, result: SSAValue, emit: Emit) -> None:
    """Let a result be what becomes of the one that is held."""
    element, found = element_of(result.type), f.values[result]
    if isinstance(found, Strided):
        finished = Elementwise(element, found.dims, (found,), emit)
        f.values[result] = f.keep(finished, f.plan.last_use(result))
    else:
        f.values[result] = emit(f.builder, f.scalar(result))


def _across_rows(
    f: FunctionEmitter,
    combination: Combination,
    rest: tuple[int, ...],
    targets: Sequence[Strided],
    masked: bool,
) -> list[Value]:
    """Each lane is a row: the elements of a row one after the other."""
    nest = LoopNest(f.builder, masked=masked, work=f.now)
    along = vector_axis(rest)
    lanes, in_words = _lanes_across(f, combination, rest)
    nest.in_words = lanes if in_words else 0
    found: list[Value] = []

    def put(coords: Coords, values: list[Value]) -> None:
        if targets:
            put_at(nest, targets, coords, values)
        else:
            found.extend(values)

    batch: list[Coords] = []
    unroll = 1 if masked else _ACCUMULATORS // 2 if in_words else _ACCUMULATORS

    def collect(inner: LoopNest, coords: Coords) -> None:
        batch.append(coords)
        if len(batch) == rounds:
            results = _columns(inner, combination, batch, lanes)
            for place, values in zip(batch, results, strict=True):
                put(place, values)

    rounds = min(unroll, max(rest[along] // lanes, 1)) if rest else 1
    loops(nest, rest, along, lanes, rounds, collect)
    nest.close_all()
    return found


def _columns(
    nest: LoopNest, combination: Combination, several: Sequence[Coords], lanes: int
) -> list[list[Value]]:
    """What the rows come to that the lanes of several vectors are."""
    extent, count = combination.dims[combination.axis], len(combination.tiles)
    if extent <= _NEAR:
        return [_written_out(nest, combination, coords) for coords in several]
    places = [_in_words(at, lanes) for at in several] if nest.in_words else several
    if combination.chooses:
        start = [v for at in places for v in elements_at(nest, combination, at, fixed(0))]
    else:
        start = [v for _ in several for v in combination.start(lanes if lanes > 1 else 0)]
    depth = nest.depth
    together = min(_STEPS_AT_ONCE, extent)
    if combination.commutes or combination.is_long:
        together = min(_together_across(combination), extent)
    index = nest.loop(extent, together)
    looped = nest.depth > depth
    state = [nest.carried(value) for value in start] if looped else start
    after: list[Value] = []
    for coords in places:
        elements = _several(nest, combination, coords, index, together)
        before = state[len(after) : len(after) + count]
        after += combination.first_or_step(nest.inner, elements, before, index, looped=looped)
    if looped:
        nest.close(list(zip(state, after, strict=True)))
    if nest.in_words:
        after = [even_odd.to_run(nest.inner, value) for value in after]
    return [after[at : at + count] for at in range(0, len(after), count)]


def _together_across(combination: Combination) -> int:
    """How many elements, one behind the other in rows across lanes, are combined before they are added to what is accumulated; the same
    whatever lies beside them. Sums of floats wait for one another; integers do not, nor should what chooses, which in
    order asks less."""
    waits = combination.neutral is not None and combination.has_floats
    return _ACCUMULATORS if waits and not combination.is_long else 1


def _several(
    nest: LoopNest, combination: Combination, coords: Coords, first: Index, count: int
) -> list[Value]:
    """What so many elements along the axis come to, neighbours first."""
    if count == 1:
        return elements_at(nest, combination, coords, first)
    half = count // 2
    before = _several(nest, combination, coords, first, half)
    later = _several(nest, combination, coords, nest.shift(first, half), half)
    return combination.step(nest.inner, later, before)


def _written_out(nest: LoopNest, combination: Combination, coords: Coords) -> list[Value]:
    """The few elements along the axis combined. Their places are constants, so that it is known which of them
    share a vector."""
    state = elements_at(nest, combination, coords, fixed(0))
    for number in range(1, combination.dims[combination.axis]):
        elements = elements_at(nest, combination, coords, fixed(number))
        state = combination.step(nest.inner, elements, state, in_order=combination.chooses)
    return state


def _has_wide_rows(f: FunctionEmitter, combination: Combination, rest: tuple[int, ...]) -> bool:
    """Whether the elements that each step takes fill more registers than there are accumulators."""
    if not rest or combination.dims[combination.axis] <= _ROWS_AT_ONCE:
        return False
    if not combination.commutes and combination.is_long:
        return False
    along = vector_axis(rest)
    below = (
        along >= combination.axis
    )  # else each step would take elements that do not lie side by side
    cheap = unroll_of(combination.tiles) > 1
    return below and cheap and rest[along] > _ACCUMULATORS * f.lanes(combination.tiles, rest[along])


def _are_short(combination: Combination, rest: tuple[int, ...]) -> bool:
    """Whether several rows lie in one vector, which is taken apart at once, so that each lane is a row."""
    extent = combination.dims[combination.axis]
    return bool(rest) and extent <= _NEAR and rest[vector_axis(rest)] >= _FEWEST_ROWS


def _lanes_are_rows(f: FunctionEmitter, combination: Combination, rest: tuple[int, ...]) -> bool:
    """Whether each lane of whole vectors is a row though rows are long, as nothing that is read changes along both."""
    dims, axis = combination.dims, combination.axis
    if not rest or combination.is_long or f.unit.reshapes_blocks:
        return False
    along = vector_axis(rest)
    rows = along if along < axis else along + 1
    lanes = f.lanes(combination.tiles, rest[along])
    if lanes == 1 or lanes < f.lanes(combination.tiles, dims[axis]):
        return False
    return lanes_may_be_rows(f.builder, combination, rows, lanes)


def _row_by_row(
    f: FunctionEmitter,
    combination: Combination,
    rest: tuple[int, ...],
    targets: Sequence[Strided],
    masked: bool,
) -> list[Value]:
    """Each lane is a row, and some steps are made along whole rows of memory, from one end to the
    other, before the next ones: what is accumulated lies in the buffers of the results meanwhile."""
    nest = LoopNest(f.builder, masked=masked, work=f.now)
    along = vector_axis(rest)
    lanes, in_words = _lanes_across(f, combination, rest)
    nest.in_words = lanes if in_words else 0
    width = lanes if lanes > 1 else 0
    run = tuple(range(lanes)) if width else None

    def begin(nest: LoopNest, coords: Coords) -> None:
        if not combination.commutes:
            first = _several(nest, combination, coords, fixed(0), _ROWS_AT_ONCE)
        elif combination.chooses:
            first = elements_at(nest, combination, coords, fixed(0))
        else:
            first = combination.start(width)
        put_at(nest, targets, coords, first)

    loops(nest, rest, along, lanes, 1, begin)
    nest.close_all()
    coords = [nest.loop(n) if axis != along else fixed(0) for axis, n in enumerate(rest)]
    done = 0 if combination.commutes else _ROWS_AT_ONCE
    first = nest.shift(nest.loop(combination.dims[combination.axis] - done, _ROWS_AT_ONCE), done)
    column = nest.loop(rest[along], lanes)
    coords[along] = Index(column.base, run, column.align)
    here = tuple(coords)
    state = [nest.vector(target, here) for target in targets]
    if combination.commutes:
        step = _together_across(combination)
        for number in range(0, _ROWS_AT_ONCE, step):
            place = _in_words(here, lanes) if in_words else here
            elements = _several(nest, combination, place, nest.shift(first, number), step)
            if in_words:
                elements = [even_odd.to_run(nest.inner, value) for value in elements]
            state = combination.step(nest.inner, elements, state, in_order=combination.chooses)
    else:
        following = _several(nest, combination, here, first, _ROWS_AT_ONCE)
        state = combination.step(nest.inner, following, state)
    put_at(nest, targets, here, state)
    nest.close_all()
    return []


def _along_rows(
    f: FunctionEmitter,
    combination: Combination,
    rest: tuple[int, ...],
    targets: Sequence[Strided],
    masked: bool,
    end: RowEnd | None = None,
) -> list[Value]:
    """Lanes and accumulators share a row, or several; ``end``: only rows end behind their array (``loops.row_ends``)."""
    nest = LoopNest(f.builder, masked=masked, work=f.now)
    extent, count = combination.dims[combination.axis], len(combination.tiles)
    lanes, in_words = _lanes(f, combination)
    nest.in_words = lanes if in_words else 0
    together, most = _side_by_side(f, combination, rest)
    if masked and unroll_of(combination.tiles) == 1:
        most = min(most, _MASKED_ACCUMULATORS)
    rounds = min(most, extent // lanes)
    if end is not None:
        rounds = end.step // lanes
    run = even_odd.of_words(lanes) if in_words else tuple(range(lanes)) if lanes > 1 else None
    rows = _rows_of(nest, rest, together)

    def elements(row: Sequence[Index], place: Index) -> list[Value]:
        return elements_at(nest, combination, row, Index(place.base, run, place.align))

    start = _begun(combination, elements, rows, rounds, lanes)
    written_out = end is None and extent <= lanes * held.vectors(f.unit.target, combination.tiles)
    depth = nest.depth
    step, limit = lanes * rounds, None if end is None else end.whole
    base = fixed(0) if written_out else nest.loop(extent, step, limit=limit)
    looped = nest.depth > depth
    state: list[Any] = [nest.carried(value) for value in start] if looped else list(start)

    def following(base: Index, state: Sequence[Value], *, looped: bool) -> list[Value]:
        after: list[Value] = []
        for row in rows:
            for number in range(rounds):
                found = elements(row, nest.shift(base, number * lanes))
                before = state[len(after) : len(after) + count]
                after += combination.first_or_step(nest.inner, found, before, base, looped=looped)
        return after

    after = following(base, state, looped=looped)
    for begin in range(step, extent if written_out else 0, step):
        after = following(fixed(begin), after, looped=combination.commutes)
    if looped:
        nest.close(list(zip(state, after, strict=True)))
    values: list[Value] = []
    each = rounds * count
    for number, row in enumerate(rows):
        own = after[number * each : (number + 1) * each]
        if end is not None:
            own[:count] = _rest_of_row(nest, combination, row, end, run, own[:count])
        values = _put_row(nest, combination, targets, row, _in_one_vector(nest, combination, own))
    nest.close_all()
    return values


def _put_row(
    nest: LoopNest,
    combination: Combination,
    targets: Sequence[Strided],
    row: Sequence[Index],
    found: list[Value],
) -> list[Value]:
    """Write what a row comes to where it goes, if anywhere: a number, or all lanes where there is an axis for them."""
    if targets and len(targets[0].dims) > len(row):
        lanes = targets[0].dims[-1]
        put_at(nest, targets, (*row, Index(0, tuple(range(lanes)), lanes)), found)
        return []
    values = combination.across_lanes(nest.inner, found)
    if targets:
        put_at(nest, targets, tuple(row), values)
    return values


def _begun(
    combination: Combination,
    elements: Callable[[Sequence[Index], Index], list[Value]],
    rows: Sequence[Sequence[Index]],
    rounds: int,
    lanes: int,
) -> list[Value]:
    """What the accumulators of rows begin with."""
    if not combination.chooses:
        width = lanes if lanes > 1 else 0
        return [value for _ in range(len(rows) * rounds) for value in combination.start(width)]
    first = [Index(number * lanes, None, lanes) for number in range(rounds)]
    return [value for row in rows for place in first for value in elements(row, place)]


def _in_one_vector(nest: LoopNest, combination: Combination, own: list[Value]) -> list[Value]:
    """What the accumulators of a row come to, lane by lane."""
    found = together(nest, combination, own)
    if nest.in_words:
        # So that all numbers of the row come together in the order that they do elsewhere.
        found = [even_odd.to_run(nest.inner, value) for value in found]
    return found


def _lanes(f: FunctionEmitter, combination: Combination) -> tuple[int, bool]:
    """The lanes of vectors along a row, and whether they are in the order of words, as any is as good."""
    dims, axis, tiles = combination.dims, combination.axis, combination.tiles
    lanes = f.lanes(tiles, dims[axis])
    words = lanes_in_words(f.builder, f.unit.target, tiles, dims, axis, lanes, ordered=False)
    return words or lanes, bool(words)


def _lanes_across(
    f: FunctionEmitter, combination: Combination, rest: tuple[int, ...]
) -> tuple[int, bool]:
    """The lanes of vectors across rows, and whether they are computed in the order of words."""
    if not rest:
        return 1, False
    tiles, along = combination.tiles, vector_axis(rest)
    axis = along if along < combination.axis else along + 1
    lanes = f.lanes(tiles, rest[along])
    dims, extent = combination.dims, combination.dims[combination.axis]
    if extent <= _NEAR:
        return lanes, False
    words = lanes_in_words(f.builder, f.unit.target, tiles, dims, axis, lanes, ordered=False)
    return words or lanes, bool(words)


def _in_words(coords: Coords, lanes: int) -> Coords:
    found = even_odd.in_words(coords, lanes)
    assert found is not None
    return found


def streams(target: CpuTarget) -> int:
    """How many rows are best read at once: of several some processors fetch more ahead than of one. (A matrix of 4096 x 4096 f32
    times a vector on a Zen 3: four rows at once in three quarters of the time. Those with AVX-512 have not shown it.)"""
    return 1 if target.has("avx512f") else _STREAMS


def _side_by_side(
    f: FunctionEmitter, combination: Combination, rest: tuple[int, ...]
) -> tuple[int, int]:
    """How many rows a nest reduces at once, and how many vectors of each it combines side by side, as what waits for itself needs:
    half of the registers hold them. The second number is the same for the only row of a block that others run together with, and
    for a row that is taken out of a block's."""
    target, rows = f.unit.target, rest[vector_axis(rest)] if rest else 1
    most = streams(target)
    if most == 1:
        lanes, in_words = _lanes(f, combination)
        usual = f.lanes(combination.tiles, combination.dims[combination.axis])
        return 1, max(_ACCUMULATORS * usual // lanes, 1) if in_words else _ACCUMULATORS
    room = max(target.vector_registers // 2 // len(combination.tiles), 1)
    room = 1 << room.bit_length() - 1
    together = min(most, room, most if f.unit.rows_at_once else rows * f.rows_in_turn)
    if not f.unit.rows_at_once and _one_by_one(combination):
        together = 1
    return min(together, rows), min(room // together, _ACCUMULATORS)


def _one_by_one(combination: Combination) -> bool:
    """Whether rows are read one after the other, as the streams that this takes are enough, or there are none: rows lie in the
    cache."""
    read = (tile for tile in walk(*combination.tiles) if isinstance(tile, (ViewLoad, PointerLoad)))
    found = [tile for tile in read if tile.dims == combination.dims]
    if combination.chooses:
        return False
    if not found:
        return True
    if len(combination.tiles) > 1:
        return False
    row = combination.dims[combination.axis]
    short = any(row * tile.element.memory_bytes <= _SHORT_ROW for tile in found)
    return short or len(found) >= _ENOUGH_ARRAYS


def _rows_of(nest: LoopNest, rest: tuple[int, ...], together: int) -> list[list[Index]]:
    """Open loops over rows, so many of which are taken together, and give their positions."""
    along = vector_axis(rest) if rest else 0
    first = [nest.loop(n, together if axis == along else 1) for axis, n in enumerate(rest)]
    rows = [list(first) for _ in range(together)]
    for number, row in enumerate(rows[1:], 1):
        row[along] = nest.shift(first[along], number)
    return rows


def _in_order(
    f: FunctionEmitter,
    combination: Combination,
    rest: tuple[int, ...],
    targets: Sequence[Strided],
    masked: bool,
) -> list[Value]:
    """Lane i takes the i-th run of a row. One vector of each run is combined, neighbour with neighbour, until each lane holds
    what its own one comes to: vectors lie in memory as they are, and what is accumulated waits for one step only. A long row
    is read from one end to the other first, by blocks of which each comes to one vector in a buffer."""
    nest = LoopNest(f.builder, masked=masked, work=f.now)
    extent = combination.dims[combination.axis]
    lanes = min(f.lanes(combination.tiles, extent), 4 if combination.is_long else _MOST_RUNS)
    buffers: list[Strided] = []
    if lanes > 1 and extent >= _FEWEST_BLOCKS * lanes * lanes:
        length = extent // lanes
        buffers = [f.buffer(element, (length,), f.now) for element in combination.elements]
    coords = [nest.loop(size) for size in rest]
    row = Row(nest, combination, lanes, lambda at: elements_at(nest, combination, coords, at))
    if buffers:
        base = nest.loop(extent, lanes * lanes)
        block = row.combined(base, lanes, lanes)
        put_at(nest, buffers, (row.vector(nest.high_bits(base, lanes)),), block)
        nest.close()
        # A nest of its own, as what buffers hold is another thing for each row.
        again = LoopNest(nest.inner, work=f.now)
        row = Row(again, combination, lanes, lambda at: [again.vector(t, (at,)) for t in buffers])
        extent //= lanes
    values = combination.across_lanes(nest.inner, _runs(row, extent))
    if targets:
        put_at(nest, targets, tuple(coords), values)
    nest.close_all()
    return values


def _runs(row: Row, extent: int) -> list[Value]:
    """What the runs of a row come to, one in each lane."""
    nest, combination, lanes = row.nest, row.combination, row.lanes
    runs = min(extent // lanes, lanes)
    rounds = 1 if combination.is_long else max(_STEPS_AT_ONCE // runs, 1)
    rounds = min(rounds, extent // (runs * lanes))
    start = combination.start(lanes if lanes > 1 else 0)
    depth = nest.depth
    base = nest.loop(extent // runs, lanes * rounds)
    looped = nest.depth > depth
    state: list[Any] = [nest.carried(value) for value in start] if looped else start
    found: list[Value] = []
    for number in range(rounds):
        following = row.combined(nest.shift(base, number * lanes), runs, extent // runs)
        found = combination.step(nest.inner, following, found) if number else following
    after = combination.first_or_step(nest.inner, found, state, base, looped=looped)
    if looped:
        nest.close(list(zip(state, after, strict=True)))
    return after


def _rest_of_row(
    nest: LoopNest,
    combination: Combination,
    coords: list[Index],
    end: RowEnd,
    run: Sequence[int] | None,
    before: list[Value],
) -> list[Value]:
    """What is accumulated after the vectors that need checks, one after the other; ``run``: the order of their lanes."""
    lanes = len(run or (0,))
    base = rest_of_row(nest, combination.dims[combination.axis], end, lanes, None)
    state: list[Any] = [nest.carried(value) for value in before]
    offsets = None if run is None else tuple(run)
    elements = elements_at(nest, combination, coords, Index(base.base, offsets, base.align))
    after = combination.step(nest.inner, elements, state)
    until = None
    if end.same is not None:
        # All vectors from here on are the same, and this one has changed nothing.
        b, place = nest.inner, nest.position(base)
        behind = b.icmp_unsigned(">=", place.value, end.same)
        until = llvm.all_of(
            b, [behind, *(_same_bits(b, *pair) for pair in zip(state, after, strict=True))]
        )
    written = {id(t): t for t in walk(*combination.tiles) if isinstance(t, Written)}
    index = Index(base.base, tuple(range(lanes)), base.align)
    at = with_axis(coords, combination.axis, index)
    last = [(tile.target, nest.vector(tile, at)) for tile in written.values()]
    following = nest.emit([nest.position(base)], lambda b, p: b.add(p, ir.Constant(I64, lanes)))
    nest.close(list(zip(state, after, strict=True)), until)
    if until is not None and last:
        _fill_row(nest, combination, coords, following.value, last)
    return after


def _fill_row(
    nest: LoopNest,
    combination: Combination,
    coords: list[Index],
    start: Value,
    last: Sequence[tuple[Strided, Value]],
) -> None:
    """Write vectors to the rest of the rows of buffers, of which all elements are the same."""
    lanes, extent = llvm.lanes_of(last[0][1].type), combination.dims[combination.axis]
    left = nest.inner.sub(ir.Constant(I64, extent), start)
    with nest.where(nest.inner.icmp_signed(">", left, ir.Constant(I64, 0))):
        base = nest.plus(nest.loop(extent, lanes, limit=left), Lane(start), lanes)
        at = with_axis(coords, combination.axis, Index(base.base, tuple(range(lanes)), base.align))
        for target, value in last:
            store_at(nest, target.pointer, target.element, target.offset(nest, at), value)
        nest.close()


def _same_bits(b: Builder, one: Value, other: Value) -> Value:
    """Whether two vectors are the same, bit by bit."""
    scalar = llvm.scalar_of(one.type)
    if not isinstance(scalar, ir.IntType):
        words = llvm.shaped(ir.IntType(8 * llvm.scalar_bytes(scalar)), one.type)
        one, other = b.bitcast(one, words), b.bitcast(other, words)
    return b.not_(llvm.any_lane(b, b.icmp_unsigned("!=", one, other)))
