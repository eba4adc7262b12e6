"""Memory of 4-bit elements, two in each byte: the first in its low bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import builtin as b
from xdsl.ir import Operation

from tilewright.numerics.arrays import Array
from tilewright.numerics.strides import row_major
from tilewright.simulator import codes
from tilewright.simulator.compile import Step, Translator
from tilewright.simulator.faults import Fault
from tilewright.simulator.memory import Index, MemRef, load, locate, spread, store
from tilewright.simulator.state import Warp
from tilewright.simulator.values import Element, shape_of

#: Elements per byte.
PER_BYTE = 2


def is_packed(element: Element) -> bool:
    """Whether elements share bytes in memory."""
    return 1 < element.bits < 8


def need_whole_bytes(element: Element, op: Operation) -> None:
    """Raise ``Fault`` for operations on single elements that share a byte."""
    if is_packed(element):
        raise Fault(
            codes.UNSUPPORTED,
            f"{op.name} reaches single elements of {element.bits} bits, which share their byte",
            op,
            help="load and store vectors of an even number of them",
        )


def whole_bytes(place: Index, warp: Warp, op: Operation) -> Index:
    """The byte in which elements start. Raises ``Fault`` if an active lane starts in the middle of one."""
    odd = np.asarray(place) % PER_BYTE != 0
    if (odd & warp.mask).any():
        raise Fault(
            codes.MISALIGNED, f"{op.name} of {warp.name()} starts in the middle of a byte", op
        )
    return place // PER_BYTE


def _byte_places(
    warp: Warp, memref: MemRef, indices: Sequence[Any], shape: tuple[int, ...], op: Operation
) -> Array:
    """Lanes x bytes of a vector whose rows are contiguous whole bytes."""
    place = locate(warp, memref, indices, op, shape)
    whole_bytes(place, warp, op)
    steps = memref.strides[len(memref.strides) - len(shape) :]
    uneven = any(n > 1 and stride % PER_BYTE for n, stride in zip(shape[:-1], steps))
    if shape[-1] % PER_BYTE or steps[-1] != 1 or uneven:
        raise Fault(
            codes.UNSUPPORTED,
            f"{op.name} of 4-bit elements takes whole bytes, side by side",
            op,
        )
    places = spread(place, memref, shape, warp.size)
    return places[:, ::PER_BYTE] // PER_BYTE


def packed_load(op: Any, t: Translator) -> Step:
    """``vector.load`` of 4-bit elements."""
    from tilewright.simulator.ops.vectors import check_aligned, unpack_bits

    source, indices = t.slot(op.base), t.slots(op.indices)
    result, shape = t.slot(op.results[0]), shape_of(op.results[0].type)

    def step(warp: Warp) -> None:
        r = warp.regs
        memref = r[source]
        places = _byte_places(warp, memref, [r[i] for i in indices], shape, op)
        check_aligned(warp, memref, places[:, 0], shape[-1] // PER_BYTE, 1, op)
        found = load(warp, memref, places, np.dtype(np.uint8), op)
        r[result] = unpack_bits(found, "i4", 4).reshape(warp.size, *shape)

    return step


def packed_store(op: Any, t: Translator) -> Step:
    """``vector.store`` of 4-bit elements."""
    from tilewright.simulator.ops.vectors import check_aligned, pack_bits

    value, target, indices = t.slot(op.vector), t.slot(op.base), t.slots(op.indices)
    shape = shape_of(op.vector.type)

    def step(warp: Warp) -> None:
        r = warp.regs
        memref = r[target]
        places = _byte_places(warp, memref, [r[i] for i in indices], shape, op)
        check_aligned(warp, memref, places[:, 0], shape[-1] // PER_BYTE, 1, op)
        octets = pack_bits(r[value].astype(np.int8), "i4", 4)
        store(warp, memref, places, octets, np.dtype(np.uint8), op)

    return step


def packed_shape(
    ty: b.MemRefType, array: Array, name: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Extents and strides, in elements, of a parameter whose array has two elements per byte.

    The array has half the last extent and must be contiguous; raises ``Fault`` otherwise.
    """
    shape = (*array.shape[:-1], PER_BYTE * array.shape[-1]) if array.ndim else ()
    wanted = tuple(ty.get_shape())
    fits = len(shape) == len(wanted) and all(
        given in (extent, b.DYNAMIC_INDEX) for given, extent in zip(wanted, shape)
    )
    if array.dtype not in (np.int8, np.uint8) or not fits or not array.flags.c_contiguous:
        raise Fault(
            codes.ARGUMENT,
            f"parameter '{name}' takes a contiguous array of bytes with two elements in each, half "
            f"as many along the last dimension of '{ty}'; got {array.dtype} of {array.shape}",
        )
    if not isinstance(ty.layout, b.NoneAttr):
        raise Fault(codes.UNSUPPORTED, f"parameter '{name}' of 4-bit elements has a layout")
    return shape, row_major(shape)
