"""``pick-elements``: reads the one element that a reduction of zeros and one element is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from xdsl.dialects.builtin import IndexType, IntegerAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from tilewright.analysis.tileaa.facts import Facts
from tilewright.analysis.tileaa.ranges import Range
from tilewright.dialects import arith
from tilewright.dialects.arith.base import numeric_element
from tilewright.dialects.arith.constants import ConstantOp
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.arithmetic import AddFOp
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.shapes import (
    BroadcastOp,
    ExpandDimsOp,
    ExtractOp,
    ExtractSliceOp,
    MakeRangeOp,
    SplatOp,
    ViewOp,
)
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import is_nan
from tilewright.passes.base import inherit_location
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.matching import REPEATING, erase_with_sources

_EXTREMA = (
    arith.MaximumfOp,
    arith.MinimumfOp,
    arith.MaxnumfOp,
    arith.MinnumfOp,
    arith.MaxSIOp,
    arith.MinSIOp,
    arith.MaxUIOp,
    arith.MinUIOp,
)
#: Sums whose value that adds nothing has all bits 0; +0 twice is +0 under every rounding.
_SUMS = (AddFOp, arith.AddiOp, arith.OrIOp, arith.XOrIOp)


@dataclass(frozen=True)
class PickElements(TileAAPass):
    """Replaces a reduction over ``select(make_range == k, x, c)`` by element ``k`` of ``x`` along that axis.

    Tile programs have no other way to name a row by a number that is known only at run time: forward
    substitution, eliminations and searches are written so. ``k`` is one number for the whole tile,
    ``c`` a constant, and the reduction combines by one operation two elements ``c`` to ``c``: 0 for sums,
    any number but NaN for a minimum or maximum. The range may be moved by numbers of the same kind.

    Proof. At most one element of the range equals ``k``. If one does, ``c`` is combined with ``x[k]``
    once, as in the order that takes all ``c`` first; since the operation combines ``c`` and ``c`` to ``c``,
    and a reduction may take its elements in any order, this is one of its results: for the operations
    here, the only one. That keeps even what combining does to the element: -0 + 0 is +0. If none does,
    all elements are ``c``. Where ``k`` is not proven to be in the range, a select decides.
    Other elements of ``x`` are never seen. Cost: one walk, and the ranges of integers.
    """

    name: ClassVar[str] = "pick-elements"

    def rewrite_function(self, function: FuncOp) -> None:
        pick_elements(function)


def picks(function: FuncOp) -> list[Operation]:
    """Return the reductions of a function that are about one element."""
    return [op for op in function.walk() if isinstance(op, ReduceOp) and _pick(op) is not None]


def pick_elements(function: FuncOp) -> None:
    """Replace the reductions that ``picks`` names in place, and erase what becomes unused."""
    ranges = Facts(function).ranges
    for op in picks(function):
        assert isinstance(op, ReduceOp)
        found = _pick(op)
        assert found is not None
        _Picking(op, found, ranges.of(found.number)).replace()


class _Pick(NamedTuple):
    """What a reduction is about: an element of a tile, by the number that equals those of a range."""

    tile: SSAValue
    other: ConstantOp
    """What stands in the place of all other elements."""
    number: SSAValue
    start: int
    """The first number of the range."""
    terms: tuple[SSAValue, ...]
    """Numbers that are added to those of the range."""


def _pick(op: ReduceOp) -> _Pick | None:
    if len(op.operands) != 1:
        return None
    select = op.operands[0].owner
    if not isinstance(select, arith.SelectOp):
        return None
    axis = int_property(op, "axis")
    extent = T.dims_of(op.operands[0].type)[axis]
    mask, then, other = select.operands
    found = _compared(mask, axis)
    if found is None or extent == 1:
        return None
    equal, number, start, terms = found
    if not equal:
        then, other = other, then
    constant = _below(other).owner
    if not isinstance(constant, ConstantOp) or not _is_kept(op, constant):
        return None
    return _Pick(then, constant, number, start, terms)


def _is_kept(op: ReduceOp, constant: ConstantOp) -> bool:
    """Whether the operation of a reduction is known to combine two elements of this constant to it."""
    block = op.regions[0].blocks[0]
    inner: list[Operation] = list(block.ops)
    if len(inner) != 2 or set(inner[0].operands) != set(block.args):
        return False
    if list(inner[1].operands) != list(inner[0].results) or len(constant.bits()) != 1:
        return False
    (bits,), fmt = constant.bits(), FORMATS[numeric_element(constant.result.type)]
    if isinstance(inner[0], _EXTREMA):
        return not (fmt.is_float and is_nan(bits, fmt))
    return isinstance(inner[0], _SUMS) and bits == 0


def _compared(mask: SSAValue, axis: int) -> tuple[bool, SSAValue, int, tuple[SSAValue, ...]] | None:
    """A mask as ``range == number`` along an axis: whether the comparison is ``eq``, not ``ne``; the number;
    the start of the range and what is added to it. None for other masks."""
    along = _axis_below(mask, axis)
    if along is None:
        return None
    compare, axis = along
    if not isinstance(compare.owner, arith.CmpiOp):
        return None
    name = compare.owner.NAMES[compare.owner.predicate.value.data]
    if name not in ("eq", "ne"):
        return None
    for side, number in (compare.owner.operands, reversed(compare.owner.operands)):
        found, scalar = _range_along(side, axis), _below(number)
        if found is not None and not T.dims_of(scalar.type):
            return name == "eq", scalar, found[0], found[1]
    return None


def _range_along(value: SSAValue, axis: int) -> tuple[int, tuple[SSAValue, ...]] | None:
    """The first number of a range along an axis, repeated along all others, and the numbers added to it."""
    terms: list[SSAValue] = []
    while (along := _axis_below(value, axis)) is not None:
        (value, axis), owner = along, along[0].owner
        if isinstance(owner, MakeRangeOp) and not owner.bounds:
            return int_property(owner, "start"), tuple(terms)
        if not isinstance(owner, arith.AddiOp):
            return None
        operands = sorted(owner.operands, key=lambda each: not T.dims_of(_below(each).type))
        value, term = operands[0], _below(operands[1])
        if T.dims_of(term.type):
            return None
        terms.append(term)
    return None


def _below(value: SSAValue) -> SSAValue:
    """Return the value below repetitions and reshapes."""
    while isinstance(value.owner, REPEATING):
        value = value.owner.operands[0]
    return value


def _axis_below(value: SSAValue, axis: int) -> tuple[SSAValue, int] | None:
    """Return the value below repetitions along other axes and changes of axes of extent 1, and the axis there.

    None where elements along the axis are not those of one axis below.
    """
    while isinstance(owner := value.owner, BroadcastOp | ExpandDimsOp | ViewOp):
        dims, source = T.dims_of(value.type), owner.operands[0]
        below = T.dims_of(source.type)
        if isinstance(owner, BroadcastOp):
            if below[axis] != dims[axis]:
                return None
        else:
            place = sum(extent != 1 for extent in dims[:axis])
            long = [at for at, extent in enumerate(below) if extent != 1]
            if dims[axis] == 1 or [e for e in dims if e != 1] != [e for e in below if e != 1]:
                return None
            axis = long[place]
        value = source
    return value, axis


@dataclass(slots=True)
class _Picking:
    """The operations that replace a reduction, which come before it."""

    op: ReduceOp
    pick: _Pick
    range: Range
    """What the number is known to be."""

    def replace(self) -> None:
        """Put the element in the place of the reduction, and erase what nothing else uses."""
        op, (result,) = self.op, self.op.results
        axis, dims = int_property(op, "axis"), T.dims_of(self.pick.tile.type)
        ends = Range(self.pick.start, self.pick.start + dims[axis] - 1)
        proven = self.range.within(ends) and not self.pick.terms
        index = self._index(dims[axis], proven=proven)
        found = self._element(index, axis, dims)
        combine = op.regions[0].blocks[0].first_op
        assert combine is not None
        other = self._other(found)
        properties = dict(combine.properties)
        found = self._add(
            type(combine).create(
                operands=[found, other], result_types=[found.type], properties=properties
            )
        )
        if not proven:
            found = self._add(arith.SelectOp.of(self._inside(dims[axis], found), found, other))
        found.name_hint = result.name_hint
        result.replace_all_uses_with(found)
        erase_with_sources(op, lambda each: not each.regions and is_side_effect_free(each))

    def _index(self, extent: int, *, proven: bool) -> SSAValue:
        """The place along the axis, inside of the tile whatever the number is."""
        place = self._place()
        if not proven:
            place = self._add(arith.MinUIOp.of(place, self._constant(place, extent - 1)))
        if isinstance(place.type, IndexType):
            return place
        cast = arith.IndexCastUIOp.create(operands=[place], result_types=[IndexType()])
        return self._add(cast)

    def _place(self) -> SSAValue:
        """The number less the first of the range: inside of the tile where it is below the extent, unsigned."""
        number, start = self.pick.number, self.pick.start
        terms = [*self.pick.terms, *([self._constant(number, start)] if start else [])]
        for term in terms:
            number = self._add(arith.SubiOp.of(number, term))
        return number

    def _element(self, index: SSAValue, axis: int, dims: tuple[int, ...]) -> SSAValue:
        """The part of the tile at an index along an axis, without that axis."""
        tile = self.pick.tile
        element = T.element_of(tile.type)
        if axis == 0:
            rest = T.tile_or_scalar(dims[1:], element)
            return self._add(ExtractOp.create(operands=[tile, index], result_types=[rest]))
        zero = self._add(ConstantOp.from_value(IndexType(), 0))
        offsets = [index if at == axis else zero for at in range(len(dims))]
        part = tuple(1 if at == axis else extent for at, extent in enumerate(dims))
        found = self._add(
            ExtractSliceOp.create(
                operands=[tile, *offsets], result_types=[T.TileType(part, element)]
            )
        )
        shape = T.TileType(dims[:axis] + dims[axis + 1 :], element)
        return self._add(ViewOp.create(operands=[found], result_types=[shape]))

    def _other(self, like: SSAValue) -> SSAValue:
        return self._add(ConstantOp.from_bits(like.type, self.pick.other.bits()))

    def _inside(self, extent: int, like: SSAValue) -> SSAValue:
        """Whether the number is one of the range, for each element of the result."""
        place = self._place()
        below = IntegerAttr(arith.CmpiOp.NAMES.index("ult"), i64)
        compare = arith.CmpiOp.of(place, self._constant(place, extent), predicate=below)
        found, dims = self._add(compare), T.dims_of(like.type)
        if not dims:
            return found
        ty = T.TileType(dims, found.type)
        return self._add(SplatOp.create(operands=[found], result_types=[ty]))

    def _constant(self, like: SSAValue, number: int) -> SSAValue:
        return self._add(ConstantOp.from_value(like.type, number))

    def _add(self, op: Operation) -> SSAValue:
        inherit_location(op, self.op)
        Rewriter.insert_op(op, InsertPoint.before(self.op))
        return op.results[0]
