"""``vector``: loads and stores of contiguous elements, and rearrangements in registers."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects import builtin as b
from xdsl.ir import Operation

from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.semantics import ELEMENTWISE
from tilewright.simulator import codes
from tilewright.simulator.compile import Step, Translator, implements
from tilewright.simulator.faults import Fault
from tilewright.simulator.memory import Index, MemRef, load, locate, spread, store
from tilewright.simulator.ops.elementwise import is_integer_scalar
from tilewright.simulator.ops.packed import is_packed, packed_load, packed_store
from tilewright.simulator.state import Warp
from tilewright.simulator.values import element_of, lanes, shape_of


def check_aligned(
    warp: Warp, memref: MemRef, place: Index, bytes_: int, size: int, op: Any
) -> None:
    """Raise ``Fault`` for misaligned vectors. Those of 4, 8 or 16 bytes must be aligned to their size, longer ones to
    16 bytes.

    ``bytes_`` is the size of the vector, ``size`` that of an element, which ``place`` counts.
    """
    needed = min(bytes_, 16)
    if needed & (needed - 1) or needed == size:
        return
    start = np.asarray(place) * size
    if not int(np.bitwise_or.reduce(start, axis=None)) & (needed - 1):
        return
    bad = (start % needed != 0) & (warp.mask if start.ndim else True)
    if bad.any():
        first = int(start[bad.argmax()]) if start.ndim else int(start)
        raise Fault(
            codes.MISALIGNED,
            f"{op.name} of {warp.name()} accesses {bytes_} bytes at byte {first} of "
            f"{memref.buffer.name}, which is not a multiple of {needed}",
            op,
        )


@implements("vector.load", wide=True)
def _load(op: Any, t: Translator) -> Step:
    """Loads a vector per lane, along the last dimension. Elements of less than a byte are unpacked.

    Raises ``Fault`` if out of bounds.
    """
    source, indices = t.slot(op.base), t.slots(op.indices)
    result, shape = t.slot(op.results[0]), shape_of(op.results[0].type)
    element = element_of(op.base.type)
    if is_packed(element):
        return packed_load(op, t)

    def step(warp: Warp) -> None:
        r = warp.regs
        memref = r[source]
        place = locate(warp, memref, [r[i] for i in indices], op, shape)
        check_aligned(warp, memref, place, shape[-1] * element.size, element.size, op)
        places = spread(place, memref, shape, warp.size)
        r[result] = load(warp, memref, places, element.dtype, op).reshape(warp.size, *shape)

    return step


@implements("vector.store", wide=True)
def _store(op: Any, t: Translator) -> Step:
    """Stores a vector per lane, along the last dimension."""
    value, target, indices = t.slot(op.vector), t.slot(op.base), t.slots(op.indices)
    shape, element = shape_of(op.vector.type), element_of(op.base.type)
    if is_packed(element):
        return packed_store(op, t)

    def step(warp: Warp) -> None:
        r = warp.regs
        memref = r[target]
        place = locate(warp, memref, [r[i] for i in indices], op, shape)
        check_aligned(warp, memref, place, shape[-1] * element.size, element.size, op)
        places = spread(place, memref, shape, warp.size)
        store(warp, memref, places, r[value].reshape(warp.size, -1), element.dtype, op)

    return step


@implements("vector.broadcast", "vector.splat", wide=True)
def _broadcast(op: Operation, t: Translator) -> Step:
    """Broadcasts along new leading dimensions and those of extent 1."""
    source, result = t.slot(op.operands[0]), t.slot(op.results[0])
    element, shape = element_of(op.results[0].type), shape_of(op.results[0].type)

    def step(warp: Warp) -> None:
        array = lanes(warp.regs[source], element.dtype, warp.size)
        missing = len(shape) - (array.ndim - 1)
        array = array.reshape(warp.size, *(1,) * missing, *array.shape[1:])
        warp.regs[result] = np.broadcast_to(array, (warp.size, *shape))

    return step


def _position(op: Any, t: Translator) -> list[tuple[bool, int]]:
    """Static positions (False), and the slots of dynamic ones (True)."""
    rest = list(t.slots(op.dynamic_position))
    return [
        (True, rest.pop(0)) if number == b.DYNAMIC_INDEX else (False, number)
        for number in op.static_position.get_values()
    ]


def _index(warp: Warp, items: list[tuple[bool, int]]) -> tuple[Any, ...]:
    """A NumPy index that includes the lane axis; positions may differ between lanes."""
    found = [warp.regs[number] if is_dynamic else number for is_dynamic, number in items]
    if any(isinstance(i, np.ndarray) for i in found):
        return (np.arange(warp.size), *found)
    return (slice(None), *found)


@implements("vector.extract", wide=True)
def _extract(op: Any, t: Translator) -> Step:
    """The element or subvector at a position, which may differ between lanes."""
    source, result = t.slot(op.vector), t.slot(op.results[0])
    items = _position(op, t)

    def step(warp: Warp) -> None:
        warp.regs[result] = warp.regs[source][_index(warp, items)]

    return step


@implements("vector.insert", wide=True)
def _insert(op: Any, t: Translator) -> Step:
    """The vector with the part at a position replaced."""
    source, target, result = t.slot(op.source), t.slot(op.dest), t.slot(op.results[0])
    items = _position(op, t)
    element = element_of(op.results[0].type)

    def step(warp: Warp) -> None:
        array = warp.regs[target].copy()
        array[_index(warp, items)] = lanes(warp.regs[source], element.dtype, warp.size)
        warp.regs[result] = array

    return step


@implements("vector.shape_cast", wide=True)
def _shape_cast(op: Any, t: Translator) -> Step:
    """The same elements in another shape, in row-major order."""
    source, result = t.slot(op.operands[0]), t.slot(op.results[0])
    shape = shape_of(op.results[0].type)

    def step(warp: Warp) -> None:
        warp.regs[result] = warp.regs[source].reshape(warp.size, *shape)

    return step


@implements("vector.bitcast", wide=True)
def _bitcast(op: Any, t: Translator) -> Step:
    """The same bits along the last dimension, the first element in the low bits."""
    source, result = t.slot(op.operands[0]), t.slot(op.results[0])
    old, new = element_of(op.operands[0].type), element_of(op.results[0].type)
    shape = shape_of(op.results[0].type)

    def step(warp: Warp) -> None:
        words = pack_bits(warp.regs[source], old.name, old.bits)
        warp.regs[result] = unpack_bits(words, new.name, new.bits).reshape(warp.size, *shape)

    return step


def pack_bits(array: Array, name: str, bits: int) -> Array:
    """The bytes of a vector's elements, lanes x bytes; 4-bit elements share a byte, the first in the low bits."""
    flat = np.ascontiguousarray(array).reshape(array.shape[0], -1)
    if bits != 4:
        return flat.view(np.uint8)
    nibbles = flat.view(np.uint8) & 0x0F
    return nibbles[:, 0::2] | nibbles[:, 1::2] << 4


def unpack_bits(octets: Array, name: str, bits: int) -> Array:
    """The elements of these bytes, lanes x elements; the inverse of ``pack_bits``."""
    if bits != 4:
        return np.ascontiguousarray(octets).view(dtype_of(name))
    nibbles = np.stack((octets & 0x0F, octets >> 4), axis=-1).reshape(octets.shape[0], -1)
    if name[0] == "f":
        return nibbles.astype(np.uint8).view(dtype_of(name))
    return ((nibbles << 4).astype(np.uint8).view(np.int8)) >> 4


_REDUCTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "add": ("add", {}),
    "mul": ("mul", {}),
    "minui": ("mini", {"signedness": "unsigned"}),
    "minsi": ("mini", {"signedness": "signed"}),
    "maxui": ("maxi", {"signedness": "unsigned"}),
    "maxsi": ("maxi", {"signedness": "signed"}),
    "minnumf": ("minf", {}),
    "maxnumf": ("maxf", {}),
    "minimumf": ("minf", {"propagate_nan": True}),
    "maximumf": ("maxf", {"propagate_nan": True}),
    "and": ("andi", {}),
    "or": ("ori", {}),
    "xor": ("xori", {}),
}


def combine(kind: str, left: Array, right: Array, name: str) -> Array:
    """Combine two arrays as a reduction kind of ``vector`` specifies: ``add``, ``minsi``, ``maximumf``.

    Raises ``Fault`` if it does not fit the element type.
    """
    function, keywords = _REDUCTIONS[kind]
    if function not in ("add", "mul") and (function[-1] == "f") != (name[0] in "fbt"):
        raise Fault(codes.UNSUPPORTED, f"'{kind}' does not combine values of {name}")
    if function in ("add", "mul"):
        function += "f" if name[0] in "fbt" else "i"
    return ELEMENTWISE[function](left, right, name, **keywords)


@implements("vector.reduction", wide=True)
def _reduction(op: Any, t: Translator) -> Step:
    """Reduces in ascending order, starting from ``acc`` if there is one."""
    source, result = t.slot(op.vector), t.slot(op.results[0])
    acc = None if op.acc is None else t.slot(op.acc)
    kind, element = str(op.kind.data), element_of(op.vector.type)
    whole = is_integer_scalar(op.results[0].type)

    def step(warp: Warp) -> None:
        array = warp.regs[source]
        columns = [array[:, i] for i in range(array.shape[1])]
        total = columns.pop(0) if acc is None else lanes(warp.regs[acc], element.dtype, warp.size)
        for column in columns:
            total = combine(kind, total, column, element.name)
        warp.regs[result] = total

    assert whole or element.is_float
    return step
