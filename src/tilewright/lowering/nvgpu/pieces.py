"""Tiles larger than a block's shared memory, exchanged piece by piece.

The bits of an element's number say where it is: the lowest ones and those from ``dealt`` on select the register, those
in between the thread. A tile that is cut in two along an upper bit is therefore two tiles in the layout of their size,
and each thread holds half of its registers of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xdsl.dialects import builtin as b
from xdsl.dialects.arith import AndIOp
from xdsl.ir import SSAValue

from tilewright.dialects.upstream.vector.shapes import ShuffleOp
from tilewright.lowering.nvgpu.layouts import CHUNK
from tilewright.lowering.nvgpu.shared_conversion import SharedConversion, held_bytes
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.types import scalar_of
from tilewright.lowering.nvgpu.vectors import joined, length


def dealt(low: ThreadLowering) -> int:
    """The number of elements that are distributed, a chunk per thread, before a thread gets its second chunk."""
    return CHUNK * low.threads


def fits(low: ThreadLowering, values: Sequence[SSAValue], size: int, *, beside: int = 0) -> bool:
    """Whether tiles of ``size`` elements, of the types of ``values``, fit into shared memory together, with ``beside``
    further bytes.
    """
    total = beside + sum(held_bytes(scalar_of(value.type), size) for value in values)
    return total <= low.options.shared_bytes - low.conversion_start


def registers(low: ThreadLowering, value: SSAValue, numbers: Sequence[int]) -> SSAValue:
    """Select registers of a thread."""
    mask = b.DenseArrayBase.from_list(b.i64, list(numbers))
    ty = b.VectorType(scalar_of(value.type), [len(numbers)])
    return low.one(ShuffleOp, (value, value), ty, {"mask": mask})


def cut(low: ThreadLowering, value: SSAValue, count: int) -> list[SSAValue]:
    """Cut a tile into ``count`` contiguous tiles, each of at least ``dealt`` elements."""
    size = length(value) // count
    return [
        registers(low, value, range(number * size, (number + 1) * size)) for number in range(count)
    ]


def halves(low: ThreadLowering, value: SSAValue, distance: int) -> tuple[SSAValue, SSAValue]:
    """Split a tile by the bit ``distance`` of the element number: clear, then set. ``distance`` is at least ``dealt``.

    Each half has the layout of a tile of half the size, as if the bit were not there.
    """
    step, every = distance // low.threads, range(length(value))
    parts = ([n for n in every if bool(n & step) is upper] for upper in (False, True))
    first, second = (registers(low, value, numbers) for numbers in parts)
    return first, second


def gathered(
    low: ThreadLowering, value: SSAValue, size: int, places: SSAValue, mask: SSAValue | None = None
) -> SSAValue:
    """Gather elements of a tile of ``size`` elements at ``places``, their row-major numbers.

    Zeros where the mask is false. Goes through shared memory: at once if the tile fits, else piece by piece.
    """
    count = 1
    while not fits(low, [value], size // count) and size // count > dealt(low):
        count *= 2
    if count == 1:
        shared_conversion = SharedConversion(low)
        buffer = shared_conversion.buffer(scalar_of(value.type), size)
        shared_conversion.put(buffer, value)
        shared_conversion.meet()
        return shared_conversion.take(buffer, places, mask)
    each, total = size // count, None
    numbers = low.binary(AndIOp, places, each - 1)
    for number, piece in enumerate(cut(low, value, count)):
        shared_conversion = SharedConversion(low)
        buffer = shared_conversion.buffer(scalar_of(value.type), each)
        shared_conversion.put(buffer, piece)
        shared_conversion.meet()
        past = low.compare("uge", places, number * each)
        here = low.both(low.both(past, low.compare("ult", places, (number + 1) * each)), mask)
        assert here is not None
        found = shared_conversion.take(buffer, numbers, here)
        total = found if total is None else low.select(here, found, total)
    assert total is not None
    return total


def in_two(low: ThreadLowering, value: SSAValue, size: int) -> list[SSAValue] | None:
    """A tile too large for shared memory, cut in two; None if that is not needed or not possible."""
    if fits(low, [value], size) or size < 2 * dealt(low):
        return None
    return cut(low, value, 2)


def together(low: ThreadLowering, parts: Sequence[SSAValue]) -> SSAValue:
    """Concatenate tiles that ``cut`` made."""
    return joined(low, parts)


def rearranged(
    low: ThreadLowering,
    source: SSAValue,
    source_dims: tuple[int, ...],
    dims: tuple[int, ...],
    place: Callable[[Sequence[SSAValue]], Sequence[SSAValue]],
) -> SSAValue:
    """The tile of ``dims`` whose element at given coordinates is the element of ``source`` at ``place(coordinates)``.

    Coordinates are vectors of i32, one for each axis.
    """
    if prod(source_dims) == 1:
        count = low.layout(dims).registers
        return source if count == 1 else low.splat(low.first(source), count)
    places = low.linear(place(low.coordinates(dims)), source_dims)
    return gathered(low, source, prod(source_dims), places)
