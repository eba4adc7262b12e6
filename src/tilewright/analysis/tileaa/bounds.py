"""Which accesses are provably in bounds, and which could be bulk copies by descriptor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tilewright.analysis.tileaa.geometry import (
    Axis,
    Extent,
    cut_by,
    int_of,
    made_by,
    source_of_assumes,
    view_axes,
)
from tilewright.analysis.tileaa.patterns import Patterns
from tilewright.analysis.tileaa.ranges import Ranges
from tilewright.dialects.arith import Extension, IndexConversion, TruncIOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import DivByAttr
from tilewright.dialects.nv_tileaa.base import int_list, is_set
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.memory import TiledAtomicRMWOp, TiledLoadOp, TiledStoreOp
from tilewright.dialects.nv_tileaa.ops.shapes import GetDimSizeOp
from tilewright.dialects.syntax.engine import values_of
from tilewright.numerics.element_types import FORMATS

Verdict = Literal["inside", "begins inside", "unknown"]

#: Limits of a bulk copy: extents of its box, number of axes, alignment in bytes.
_MAX_BOX = 256
_MAX_RANK = 5
_ALIGNMENT = 16
#: The accesses of tiles of views.
TILED_ACCESSES = (TiledLoadOp, TiledStoreOp, TiledAtomicRMWOp)


@dataclass(frozen=True, slots=True)
class AxisBounds:
    """What is known of an access along one axis of its tile, and why.

    ``inside``: all elements are in bounds. ``begins inside``: the first is, the last may not be.
    """

    verdict: Verdict
    why: str

    def __str__(self) -> str:
        return f"{self.verdict} ({self.why})" if self.why else self.verdict


class Bounds:
    """Bounds and bulk-copy facts about the accesses of a function."""

    def __init__(self, ranges: Ranges, patterns: Patterns):
        self.ranges = ranges
        self.patterns = patterns

    def of(self, access: Access) -> tuple[AxisBounds, ...]:
        """Return one fact per axis of the tile; none if the base is neither a view nor a memref.

        A fact may understate what holds, never overstate it: ``unknown`` says nothing.
        """
        base = access.operands[0]
        if not isinstance(base.type, T.MemrefType | T.TiledViewType):
            return ()
        moved = T.dims_of(access.moved.type)
        indices = values_of(access, "indices")
        axes = view_axes(source_of_assumes(base), moved)
        if axes is None:
            return (AxisBounds("unknown", "the view is created elsewhere"),) * len(indices)
        promised = _promises(access, len(indices))
        return tuple(
            AxisBounds("inside", "stated by in_bounds")
            if promised[number]
            else self._axis(axis, index)
            for number, (axis, index) in enumerate(zip(axes, indices, strict=True))
        )

    def inside(self, access: Access) -> bool:
        """Whether no element of an access is outside its memref."""
        facts = self.of(access)
        return bool(facts) and all(fact.verdict == "inside" for fact in facts)

    def _axis(self, axis: Axis, index: SSAValue) -> AxisBounds:
        found = self.ranges.of(index)
        if found.low < 0:
            return AxisBounds("unknown", f"the index is in {found}")
        if axis.sparse:
            last, tile = found.high, 1
        else:
            last, tile = found.high * axis.step, axis.tile
        extent = self._least(axis.extent)
        if last + tile <= extent:
            return AxisBounds("inside", f"index {found}, extent at least {extent}")
        if not axis.sparse and _counts_tiles(axis, index):
            if axis.step == axis.tile and self._divides(axis.tile, axis.extent):
                return AxisBounds("inside", f"index below the number of tiles, {axis.tile} divides")
            return AxisBounds("begins inside", "index below the number of tiles")
        return AxisBounds("unknown", f"index {found}, extent at least {extent}")

    def _least(self, extent: Extent) -> int:
        if extent is None:
            return 0
        return extent if isinstance(extent, int) else max(self.ranges.of(extent).low, 0)

    def _divides(self, tile: int, extent: Extent) -> bool:
        if extent is None:
            return False
        if isinstance(extent, int):
            return extent % tile == 0
        return self.patterns.of(extent).divisor % tile == 0


def _promises(access: Access, count: int) -> list[bool]:
    facts = access.properties.get("in_bounds")
    return [False] * count if facts is None else [bool(fact) for fact in int_list(facts)]


def _behind_casts(value: SSAValue) -> SSAValue:
    """Return the value below casts that preserve numbers under 2**31."""
    while isinstance(value.owner, Operation):
        if isinstance(value.owner, AssumeOp | IndexConversion | Extension | TruncIOp):
            value = value.owner.operands[0]
        else:
            break
    return value


def _loop_bound(index: SSAValue) -> SSAValue | None:
    """Return the upper bound of the loop whose counter an index is, if it starts at zero or above."""
    value = _behind_casts(index)
    if not isinstance(value, BlockArgument) or value.index != 0:
        return None
    loop = value.owner.parent_op() if isinstance(value.owner, Block) else None
    return loop.ub if isinstance(loop, scf.ForOp) else None


def _counts_tiles(axis: Axis, index: SSAValue) -> bool:
    """Whether an index is the counter of a loop that ends at the number of tiles along the axis."""
    bound = _loop_bound(index)
    counted = None if bound is None else _behind_casts(bound).owner
    if not isinstance(counted, GetDimSizeOp):
        return False
    axes = view_axes(source_of_assumes(counted.source), ())
    number = int_of(counted.axis)
    if axes is None or number is None:
        return False
    other = axes[number]
    return other.step == axis.step and other.extent is not None and other.extent == axis.extent


@dataclass(frozen=True, slots=True)
class BulkCopy:
    """Whether an access could be a bulk copy by descriptor (TMA), and the obstacles if not."""

    obstacles: tuple[str, ...]

    @property
    def eligible(self) -> bool:
        """Whether nothing prevents a copy by the tensor memory accelerator."""
        return not self.obstacles

    def __str__(self) -> str:
        return "eligible" if self.eligible else "; ".join(self.obstacles)


class BulkCopies:
    """Determines which tiled accesses hardware could do as one bulk copy, as far as provable."""

    def __init__(self, patterns: Patterns):
        self.patterns = patterns

    def of(self, access: Access) -> BulkCopy:
        """Return all obstacles to one bulk copy by a tensor map. Ranks and boxes count axes of the tile.

        What cannot be proven, such as an alignment, is an obstacle. The rules are CUDA's for
        ``cuTensorMapEncodeTiled``.
        """
        base = source_of_assumes(access.operands[0])
        cutter = cut_by(base)
        if cutter is None:
            return BulkCopy(("the base is not a partitioned view",))
        axes = view_axes(base, ())
        if axes is None:
            return BulkCopy(("an axis of the tile covers several axes of the memory",))
        checks = (
            *self._rules_of_access(access, axes),
            *self._rules_of_shape(cutter.source, axes),
            *self._rules_of_alignment(cutter.source, axes),
        )
        return BulkCopy(checks)

    def _rules_of_access(self, access: Access, axes: Sequence[Axis]) -> list[str]:
        found = []
        if access.semantic != "weak" and not isinstance(access, TiledAtomicRMWOp):
            found.append(f"{access.semantic} accesses cannot be bulk copies")
        if "allow_tma" in access.properties and not is_set(access, "allow_tma"):
            found.append("the program forbids it")
        if any(operand in access.operands for operand in getattr(access, "mask", None) or ()):
            found.append("it has a mask")
        if any(axis.sparse for axis in axes):
            found.append("indices select the elements of an axis one by one")
        return found

    def _rules_of_shape(self, memref: SSAValue, axes: Sequence[Axis]) -> list[str]:
        found, bits = [], _element_bits(memref)
        if bits < 8:
            found.append(f"elements of {bits} bits share their bytes")
        if len(axes) > _MAX_RANK:
            found.append(f"more than {_MAX_RANK} axes")
        wide = [axis.tile for axis in axes if axis.tile > _MAX_BOX]
        if wide:
            found.append(f"a box of {wide[0]} elements along an axis, more than {_MAX_BOX}")
        inner = [axis for axis in axes if axis.stride == 1]
        if not inner:
            found.append("no axis is known to have stride 1")
        elif (size := inner[0].tile * bits // 8) % _ALIGNMENT:
            found.append(f"rows of {size} bytes, not a multiple of {_ALIGNMENT}")
        return found

    def _rules_of_alignment(self, memref: SSAValue, axes: Sequence[Axis]) -> list[str]:
        found = []
        if (known := self.alignment(memref)) < _ALIGNMENT:
            found.append(f"the address is known to be a multiple of {known} bytes only")
        bits = _element_bits(memref)
        for number, axis in enumerate(axes):
            if axis.stride == 1:
                continue
            if (bytes_ := self._divisor(axis.stride) * bits // 8) % _ALIGNMENT:
                found.append(
                    f"the stride of axis {number} is known to be a multiple of {bytes_} bytes only"
                )
        return found

    def _divisor(self, extent: Extent) -> int:
        if extent is None:
            return 1
        return (extent & -extent) if isinstance(extent, int) else self.patterns.of(extent).divisor

    def alignment(self, memref: SSAValue) -> int:
        """Return the largest power of two known to divide the address of a memref's first element, in bytes."""
        known = 1
        while isinstance(memref.owner, AssumeOp):
            for predicate in memref.owner.predicates:
                if isinstance(predicate, DivByAttr) and predicate.group == (None, None):
                    known = max(known, predicate.divisor.data)
            memref = memref.owner.value
        maker = made_by(memref)
        if maker is None:
            return known
        base = self.patterns.of(maker.base).divisor
        if maker.offset is not None:
            base = min(base, self.patterns.of(maker.offset).divisor)
        return max(known, base)


def _element_bits(memref: SSAValue) -> int:
    ty = memref.type
    assert isinstance(ty, T.MemrefType)
    return FORMATS[T.element_name(ty.element_type)].storage_bits
