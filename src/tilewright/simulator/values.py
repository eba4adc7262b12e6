"""Representation of a warp's values.

Integers and indices are a Python int if all lanes have the same (``bool`` for i1), else an array with a lane axis: 32,
or as many as a group of warps has. Floats always have the lane axis, and vectors have it in front of their own axes.
Everything else, memrefs and tokens and accumulators, is one object per warp.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from xdsl.dialects import builtin as b
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute

from tilewright.numerics.arrays import Array, dtype_of
from tilewright.simulator import codes
from tilewright.simulator.faults import Fault
from tilewright.simulator.state import WARP_SIZE

_FLOATS: dict[type[Attribute], str] = {
    b.Float16Type: "f16",
    b.BFloat16Type: "bf16",
    b.Float32Type: "f32",
    b.FloatTF32Type: "tf32",
    b.Float64Type: "f64",
    b.Float8E4M3FNType: "f8E4M3FN",
    b.Float8E5M2Type: "f8E5M2",
    b.Float8E8M0FNUType: "f8E8M0FNU",
    b.Float4E2M1FNType: "f4E2M1FN",
}
#: The bits of float types that registers hold in whole bytes.
_BITS = {"f4E2M1FN": 4}
_WIDTHS = (1, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Element:
    """An element type: its name in ``numerics``, its NumPy type, and its width in bits."""

    name: str
    dtype: np.dtype[Any]
    bits: int

    @property
    def size(self) -> int:
        """The size of an element in NumPy, in bytes."""
        return self.dtype.itemsize

    @property
    def stored_bits(self) -> int:
        """The bits of an element in memory: 4-bit elements share a byte."""
        return self.bits if 1 < self.bits < 8 else 8 * self.size

    @property
    def is_float(self) -> bool:
        """Whether the type is a float."""
        return self.name[0] in "fbt"


def element_of(ty: Attribute) -> Element:
    """The element of a scalar, vector or memref type. Raises ``Fault`` for other types."""
    if isinstance(ty, b.VectorType | b.MemRefType):
        ty = ty.element_type
    if isinstance(ty, b.IndexType | LLVMPointerType):
        return Element("i64", np.dtype(np.int64), 64)
    if isinstance(ty, b.IntegerType) and ty.width.data in _WIDTHS:
        name = f"i{ty.width.data}"
        return Element(name, dtype_of(name), ty.width.data)
    name = _FLOATS.get(type(ty))
    if name is None:
        raise Fault(codes.UNSUPPORTED, f"the simulator has no values of type '{ty}'")
    return Element(name, dtype_of(name), _BITS.get(name, dtype_of(name).itemsize * 8))


def shape_of(ty: Attribute) -> tuple[int, ...]:
    """The shape of a vector type; empty for a scalar."""
    return ty.get_shape() if isinstance(ty, b.VectorType) else ()


def lanes(value: Any, dtype: np.dtype[Any], size: int = WARP_SIZE) -> Array:
    """A value as an array with a lane axis, (``size``, ...), which must not be written to: it may be the value
    itself.
    """
    if isinstance(value, np.ndarray):
        return value if value.dtype == dtype else value.astype(dtype)
    return _everywhere(value, dtype, size)


@lru_cache(1 << 12)
def _everywhere(value: int, dtype: np.dtype[Any], size: int) -> Array:
    return np.full(size, value, dtype)


def uniform(value: Any, mask: Array) -> int | None:
    """The value of all active lanes, or None if they differ. ``mask`` selects at least one."""
    if isinstance(value, int):
        return value
    found = value[mask]
    first = found[0]
    return int(first) if (found == first).all() else None


def merge(mask: Array, new: Any, old: Any) -> Any:
    """``new`` for the lanes in the mask, ``old`` for the others.

    Arrays are (lanes, ...), of the dtype of the array among the two; the mask is (lanes,). Where there is no ``old``
    (None) or both are the same, it is ``new`` itself. Raises ``Fault`` for memrefs and descriptors that differ
    between lanes in more than their offset.
    """
    if old is None or new is old:
        return new
    if isinstance(new, int) and isinstance(old, int):
        if new == old:
            return new
        dtype = np.bool_ if isinstance(new, bool) else np.int64
        return np.where(mask, np.asarray(new, dtype), np.asarray(old, dtype))
    if isinstance(new, np.ndarray) or isinstance(old, np.ndarray):
        like = new if isinstance(new, np.ndarray) else old
        # A uniform number takes the type of the array.
        new = new if isinstance(new, np.ndarray) else np.full(mask.size, new, like.dtype)
        old = old if isinstance(old, np.ndarray) else np.full(mask.size, old, like.dtype)
        shape = (mask.size,) + (1,) * (like.ndim - 1)
        return np.where(mask.reshape(shape), new, old)
    if mask.size > WARP_SIZE:
        return _merge_parts(mask, new, old)
    from tilewright.simulator.memory import MemRef

    if isinstance(new, MemRef) and isinstance(old, MemRef):
        kinds = [(m.buffer, m.sizes, m.strides, m.base) for m in (new, old)]
        if kinds[0] == kinds[1]:
            offset = merge(mask, new.offset, old.offset)
            return MemRef(new.buffer, offset, new.sizes, new.strides, new.base)
    raise Fault(
        codes.UNSUPPORTED,
        "lanes of a warp have different memrefs, accumulators or descriptors in one value",
    )


def _merge_parts(mask: Array, new: Any, old: Any) -> Any:
    """``merge`` for the warps of a group, each of which may have an object of its own."""
    from tilewright.simulator.groups import join, part

    found: list[Any] = []
    for number, own in enumerate(mask.reshape(-1, WARP_SIZE)):
        one, other = part(new, number), part(old, number)
        found.append(one if own.all() else merge(own, one, other) if own.any() else other)
    return join(found)
