"""Lanes at known small distances in memory: every other element, one channel of three or four, a row read backwards.

They are loaded as whole vectors and selected in registers, and stored as whole vectors under masks, which takes a fraction of
the time of gathers and scatters.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I64
from tilewright.cpu.codegen.ir.masked import masked_load, masked_store, store_whole
from tilewright.cpu.codegen.ir.types import Builder, Type, Value
from tilewright.cpu.codegen.loops.windows import moved

#: Vectors of so many bytes are rearranged in any order in one step, or two, by any processor.
_ANY_ORDER_BYTES = 16
#: From how many vectors lanes are picked.
_MOST_VECTORS = 4
#: Strides that code is made for, where the stride only shows when it runs.
SMALL_STRIDES = (2, 3, 4)
#: Stands for all others.
ANY_STRIDE = 0

Distances = tuple[int, ...]
"""How many elements behind an address each lane lies."""


def nearby(distances: Distances | None) -> Distances | None:
    """The distances if what lies between the first and the last lane is few vectors, or less than one; else None."""
    if distances is None:
        return None
    lanes, span = len(distances), _span(distances)
    if lanes < 2 or lanes & (lanes - 1) or not 2 <= span <= _MOST_VECTORS * lanes:
        return None
    return distances


def _span(distances: Distances) -> int:
    return max(distances) - min(distances) + 1


def _starts(distances: Distances, width: int) -> list[int]:
    """Where vectors of a width begin that hold all lanes, and nothing before the first or behind the last one."""
    first, last = min(distances), max(distances)
    found = [
        start
        for start in range(first, last + 2 - width, width)
        if any(start <= distance < start + width for distance in distances)
    ]
    covered = found[-1] + width if found else first
    return found if covered > last else [*found, last + 1 - width]


def _width(b: Builder, distances: Distances, unit: Type) -> int:
    """How long the vectors are from which lanes are picked: longer than that of the lanes where two hold all of them
    and the processor picks from such in one step."""
    target, size = llvm.target_of(b), max(1, llvm.scalar_bytes(unit))
    widest = _ANY_ORDER_BYTES
    if target.has("avx512vbmi" if size == 1 else "avx512bw" if size == 2 else "avx512f"):
        widest = target.vector_bits // 8
    width, span = len(distances), _span(distances)
    while width > span:
        width //= 2
    while 2 * width < span and 2 * width * size <= widest:
        width *= 2
    return width if 2 * width >= span else len(distances)


def _masked_width(distances: Distances) -> int:
    """How long they are under masks: no longer than the lanes."""
    width, span = len(distances), _span(distances)
    while width > span:
        width //= 2
    return width


def load_near(
    b: Builder, pointer: Value, distances: Distances, unit: Type, on: Value | None = None
) -> Value:
    """The elements of a type at these distances, which must be ``nearby``, or anything where a mask is off;
    nothing is read there."""
    lanes = len(distances)
    width = _width(b, distances, unit) if on is None else _masked_width(distances)
    ty = ir.VectorType(unit, width)
    starts = _starts(distances, width)
    size = max(1, llvm.scalar_bytes(unit))
    vectors: list[Value] = []
    for start in starts:
        where = _at(b, pointer, start, unit)
        if on is None:
            vectors.append(b.load(where, typ=ty, align=size))
            continue
        chosen = _read_by_any(b, on, distances, start, width)
        vectors.append(masked_load(b, where, ty, chosen, align=size))
    wanted: list[tuple[Value, int]] = []
    for distance in distances:
        number = max(n for n, start in enumerate(starts) if start <= distance)
        wanted.append((vectors[number], distance - starts[number]))
    if width == lanes:
        return moved(b, wanted)
    place = {id(vector): width * number for number, vector in enumerate(vectors)}
    order = [place[id(vector)] + lane for vector, lane in wanted]
    return llvm.shuffle(b, vectors[0], vectors[-1], order)


def _read_by_any(b: Builder, on: Value, distances: Distances, start: int, width: int) -> Value:
    """Which elements of the vector at a distance are read by a lane whose mask is on; several lanes may read one."""
    readers: dict[int, list[tuple[Value, int]]] = {}
    for lane, distance in enumerate(distances):
        readers.setdefault(distance - start, []).append((on, lane))
    rows = [
        readers.get(element, []) if element < width else [] for element in range(len(distances))
    ]
    found = _spread_mask(b, [next(iter(row), None) for row in rows])
    for turn in range(1, max(map(len, rows))):
        others = [row[turn] if turn < len(row) else None for row in rows]
        found = b.or_(found, _spread_mask(b, others))
    return found if width == len(distances) else llvm.shuffle(b, found, found, range(width))


def _spread_mask(b: Builder, lanes: Sequence[tuple[Value, int] | None]) -> Value:
    """A mask of lanes of another one, off where there is none."""
    off = ir.Constant(ir.VectorType(I1, len(lanes)), [0] * len(lanes))
    return moved(b, [lane or (off, 0) for lane in lanes])


def store_near(
    b: Builder,
    pointer: Value,
    parts: Sequence[tuple[Distances, Value]],
    on: Value | None = None,
) -> bool:
    """Write the lanes of vectors of one type at distances that are ``nearby``, where a mask is on for all of them;
    False, and nothing, if two lanes go to one place."""
    lane_at = {
        distance: (data, lane)
        for distances, data in parts
        for lane, distance in enumerate(distances)
    }
    ty = parts[0][1].type
    lanes = llvm.lanes_of(ty)
    if len(lane_at) < lanes * len(parts):
        return False
    size = max(1, llvm.scalar_bytes(ty.element))
    for start in range(min(lane_at), max(lane_at) + 1, lanes):
        taken = [lane_at.get(place) for place in range(start, start + lanes)]
        found = next((lane for lane in taken if lane is not None), None)
        if found is None:
            continue
        data = moved(b, [lane or (found[0], place) for place, lane in enumerate(taken)])
        where = _at(b, pointer, start, ty.element)
        if None not in taken and on is None:
            store_whole(b, data, where, size)
            continue
        if on is None:
            chosen = ir.Constant(
                ir.VectorType(I1, lanes), [int(each is not None) for each in taken]
            )
        else:
            chosen = _spread_mask(b, [None if each is None else (on, each[1]) for each in taken])
        masked_store(b, data, where, chosen)
    return True


def _at(b: Builder, pointer: Value, distance: int, unit: Type) -> Value:
    if not distance:
        return pointer
    return b.gep(pointer, [ir.Constant(I64, distance)], source_etype=unit)
