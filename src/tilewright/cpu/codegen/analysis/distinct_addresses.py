"""Tiles of pointers no two of which are the same, by the formulas that they are computed by."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tilewright.analysis.tileaa.integers import known_integers, width_of
from tilewright.dialects.arith import ConstantOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.pointers import AddPtrOp
from tilewright.dialects.nv_tileaa.ops.shapes import (
    BroadcastOp,
    ExpandDimsOp,
    MakeRangeOp,
    SplatOp,
    ViewOp,
)

_EXTENSIONS = frozenset({"arith.extsi", "arith.extui"})
_EVEN = frozenset({"arith.addi", "arith.subi", "arith.muli"})
_SHAPES = (ExpandDimsOp, ViewOp, AssumeOp)
#: In so many bits lie the bytes of the longest element, and in so many an address.
_ELEMENT_BITS, _ADDRESS_BITS = 4, 64


def are_distinct(pointers: SSAValue) -> bool:
    """Whether no two pointers of a tile are the same, which has one axis of more than one element.

    Their offsets must rise evenly from element to element before they are made wider, and may be multiplied by a constant after that:
    ``p + (i64) (first + range) * stride``. Numbers may wrap around: what differs does so still.
    """
    owner = pointers.owner
    while isinstance(owner, _SHAPES):
        pointers = owner.operands[0]
        owner = pointers.owner
    if not isinstance(owner, AddPtrOp) or not _is_uniform(owner.base):
        return False
    bits = _window(owner.offset)
    return bits is not None and bits + _ELEMENT_BITS <= _ADDRESS_BITS


def _window(value: SSAValue) -> int | None:
    """In how many bits the numbers of a tile lie, counted from one of them, if no two are the same; else None."""
    dims = T.dims_of(value.type)
    if sum(extent > 1 for extent in dims) != 1:
        return None
    step, width = _step(value), width_of(value.type)
    if width is None:
        return None
    if step and abs(step) * (max(dims) - 1) < 1 << width:
        return (abs(step) * (max(dims) - 1)).bit_length()
    owner = value.owner
    if not isinstance(owner, Operation):
        return None
    if owner.name in _EXTENSIONS:
        # Numbers that wrapped around are far apart now, but no further than the narrow type reaches.
        return None if _window(owner.operands[0]) is None else width_of(owner.operands[0].type)
    if isinstance(owner, _SHAPES):
        return _window(owner.operands[0])
    if owner.name == "arith.addi":
        for one, other in (owner.operands, reversed(owner.operands)):
            if _is_uniform(one):
                return _window(other)
    if owner.name == "arith.muli":
        for one, other in (owner.operands, reversed(owner.operands)):
            factor, bits = _constant(one), _window(other)
            if factor and bits is not None and bits + factor.bit_length() <= width:
                return bits + factor.bit_length()
    return None


def _step(value: SSAValue) -> int | None:
    """By how much the numbers of a tile rise from one to the next along its only axis, modulo their width; None where that is
    not known."""
    if _is_uniform(value):
        return 0
    owner = value.owner
    if isinstance(owner, MakeRangeOp):
        return 1
    if isinstance(owner, _SHAPES):
        return _step(owner.operands[0])
    if not isinstance(owner, Operation) or owner.name not in _EVEN:
        return None
    one, other = owner.operands
    first, second = _step(one), _step(other)
    if first is None or second is None:
        return None
    if owner.name == "arith.muli":
        for factor, step in ((_constant(one), second), (_constant(other), first)):
            if factor is not None:
                return factor * step
        return None
    return first + second if owner.name == "arith.addi" else first - second


def _is_uniform(value: SSAValue) -> bool:
    """Whether all elements are the same."""
    owner = value.owner
    if not isinstance(value.type, T.TileType) or all(n == 1 for n in T.dims_of(value.type)):
        return True
    if isinstance(owner, BroadcastOp | ExpandDimsOp | ViewOp | AssumeOp):
        return _is_uniform(owner.operands[0])
    return isinstance(owner, SplatOp) or _constant(value) is not None


def _constant(value: SSAValue) -> int | None:
    """The number that all elements are; None where it is not known."""
    owner = value.owner
    if isinstance(owner, BroadcastOp | ExpandDimsOp | ViewOp | SplatOp | AssumeOp):
        return _constant(owner.operands[0])
    found = known_integers(owner) if isinstance(owner, ConstantOp) else None
    return found[0] if found is not None and len(set(found)) == 1 else None
