"""Converts tiles to accumulator fragments and back, through shared memory."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import builtin as b
from xdsl.dialects.arith import AndIOp, ConstantOp, ShRUIOp
from xdsl.ir import SSAValue

from tilewright.lowering.nvgpu.fragments import FragmentLayout, Fragments
from tilewright.lowering.nvgpu.matrices import Index, Matrix, matrix
from tilewright.lowering.nvgpu.shared_conversion import SharedConversion
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.types import element_bytes
from tilewright.lowering.nvgpu.vectors import as_index, joined, moved, part, stacked

#: The shared memory that a conversion to or from fragments aims to stay within, in bytes.
_ROOM = 40 << 10
#: Padding elements after each row, so that the rows of a fragment fall into different banks.
_PADDING = 8


def lane(low: ThreadLowering) -> SSAValue:
    """The lane of the thread in its warp, an i32 from 0 to 31."""
    return low.binary(AndIOp, low.thread(), 31)


def warp_place(low: ThreadLowering, layout: FragmentLayout) -> list[SSAValue]:
    """The position of the warp in the grid of warps: matrix, row, column, each an i32."""
    number = low.binary(ShRUIOp, low.thread(), 5)
    found: list[SSAValue] = []
    for extent in reversed(layout.grid):
        found.append(low.binary(AndIOp, number, extent - 1))
        if extent > 1:
            number = low.binary(ShRUIOp, number, extent.bit_length() - 1)
    return found[::-1]


def _first_place(low: ThreadLowering, layout: FragmentLayout) -> Index:
    """Row and column of the first element of the thread's first fragment; batched matrices are stacked by rows."""
    with low.building(low.prologue):
        batch, row, column = warp_place(low, layout)
        within = lane(low)
        down = low.plus(low.times(batch, layout.rows), low.times(row, layout.m))
        down = low.plus(down, low.binary(ShRUIOp, within, 2))
        across = low.times(low.binary(AndIOp, within, 3), 2)
        across = low.plus(low.times(column, layout.n), across)
        return as_index(low, down), as_index(low, across)


def _steps(layout: FragmentLayout, place: tuple[int, int, int]) -> tuple[int, int]:
    """The offset, in rows and columns, of one of a thread's fragments from its first one."""
    batch, row, column = place
    batches, rows, columns = layout.grid
    return (
        batch * batches * layout.rows + row * rows * layout.m,
        column * columns * layout.n,
    )


def _rounds(low: ThreadLowering, layout: FragmentLayout) -> list[tuple[int, list[int]]]:
    """The steps of a conversion: for each, its first row and the numbers of the fragments it covers.

    There are as few steps as ``_ROOM`` permits. Each covers whole fragments of every warp and whole chunks of every
    thread.
    """
    rows = layout.batches * layout.rows
    stride = layout.columns + _padding(layout)
    per_round = rows
    batches, down, _ = layout.counts
    least = rows // (batches if layout.batches > 1 else down)
    dealt = low.threads * low.layout((rows, layout.columns)).chunk
    while per_round * stride * element_bytes(layout.element) > _ROOM:
        if per_round // 2 < least or per_round // 2 * layout.columns < dealt:
            break
        per_round //= 2
    steps = [_steps(layout, place)[0] for place in layout.places()]
    return [
        (first, [n for n, step in enumerate(steps) if first <= step < first + per_round])
        for first in range(0, rows, per_round)
    ]


def _padding(layout: FragmentLayout) -> int:
    return 0 if layout.columns == 8 else _PADDING


def _matrix(low: ThreadLowering, layout: FragmentLayout, first: int, rounds: int) -> Matrix:
    """A buffer in shared memory for the rows of one step, from row ``first``."""
    rows = layout.batches * layout.rows
    return matrix(
        SharedConversion(low),
        low,
        layout.element,
        (rows, layout.columns),
        _padding(layout),
        rows=rows // rounds,
        first=first,
    )


def to_fragments(low: ThreadLowering, value: SSAValue, layout: FragmentLayout) -> Fragments:
    """Convert a tile to fragments, through shared memory; a splat constant needs no exchange.

    Adds barriers. The matrix goes in rounds if it does not fit shared memory as a whole.
    """
    places = list(layout.places())
    number = _splat(value)
    if number is not None:
        return Fragments(layout, (low.constant(number, layout.vector),) * len(places))
    start = _first_place(low, layout)
    parts: dict[int, SSAValue] = {}
    rounds = _rounds(low, layout)
    for first, numbers in rounds:
        room = _matrix(low, layout, first, len(rounds))
        room.put(value)
        low.barrier()
        for at in numbers:
            rows = [room.read(place, 2) for place in _rows(low, layout, start, places[at], first)]
            parts[at] = stacked(low, rows)
    return Fragments(layout, tuple(parts[at] for at in range(len(places))))


def to_tile(low: ThreadLowering, held: Fragments) -> SSAValue:
    """Convert fragments to a tile in the common layout, through shared memory."""
    layout = held.layout
    places = list(layout.places())
    start = _first_place(low, layout)
    rounds = _rounds(low, layout)
    used = None
    if 32 * layout.warps < low.threads:
        with low.building(low.prologue):
            used = low.compare("ult", low.thread(), 32 * layout.warps)
    chunks: list[SSAValue] = []
    for first, numbers in rounds:
        room = _matrix(low, layout, first, len(rounds))

        def write(
            room: Matrix = room, first: int = first, numbers: Sequence[int] = numbers
        ) -> Sequence[SSAValue]:
            for at in numbers:
                where = _rows(low, layout, start, places[at], first)
                for row, place in enumerate(where):
                    room.write(place, part(low, held.parts[at], row))
            return ()

        low.either(used, write)
        low.barrier()
        chunks += room.take()
    return joined(low, chunks)


def _rows(
    low: ThreadLowering,
    layout: FragmentLayout,
    start: Index,
    place: tuple[int, int, int],
    first: int,
) -> list[Index]:
    """The positions of the rows of a fragment in the buffer that starts at row ``first``."""
    down, across = _steps(layout, place)
    with low.building(low.prologue):
        column = moved(low, start[1], across)
        return [
            (moved(low, start[0], down - first + 8 * row), column) for row in range(layout.m // 8)
        ]


def _splat(value: SSAValue) -> float | None:
    """The value of a splat constant, else None."""
    owner = value.owner
    if not isinstance(owner, ConstantOp):
        return None
    found = owner.value
    if not isinstance(found, b.DenseIntOrFPElementsAttr) or not found.is_splat():
        return None
    (number, *_) = found.get_values()
    assert isinstance(number, int | float)
    return number
