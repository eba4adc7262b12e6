"""``one-axis``: integers of a tile with one long axis are computed on a tile of that axis alone, where they are divided."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from tilewright.dialects import arith, facts
from tilewright.dialects.arith.base import ArithOp
from tilewright.dialects.arith.constants import ConstantOp
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.shapes import (
    BroadcastOp,
    ExpandDimsOp,
    SplatOp,
    ViewOp,
)
from tilewright.passes.base import inherit_location
from tilewright.passes.tileaa.base import TileAAPass
from tilewright.passes.tileaa.matching import REPEATING

_DIVISIONS = (arith.FloorDivSIOp, arith.DivUIOp, arith.DivSIOp, arith.RemSIOp, arith.RemUIOp)
_INTEGERS = frozenset({"i1", "i8", "i16", "i32", "i64"})


@dataclass(frozen=True)
class OneAxis(TileAAPass):
    """Computes integers of tiles such as ``1 x N`` as tiles of ``N``, and gives those their axes of one element back.

    Places of a row or of a column are ranges with an axis put in, ``arange(N).reshape((1, N))``, of which quotients and remainders are
    taken. ``split-divisions``, which comes next, knows ranges. Kernels without such quotients stay as they are.

    Proof. Both tiles have the same elements in the same order, and element-wise operations ask for no more. Cost: one walk.
    """

    name: ClassVar[str] = "one-axis"

    def rewrite_function(self, function: FuncOp) -> None:
        if on_one_axis(function):
            one_axis(function)


def on_one_axis(function: FuncOp) -> list[Operation]:
    """Return the operations of a function that are computed on one axis; none if no quotient or remainder is among them."""
    flat: set[SSAValue] = set()
    found: list[Operation] = []
    for op in function.walk():
        if _is_spread(op):
            flat.add(op.results[0])
        elif _is_computed(op) and all(
            value in flat or _number_of(value) is not None for value in op.operands
        ):
            flat.add(op.results[0])
            found.append(op)
    return found if any(isinstance(op, _DIVISIONS) for op in found) else []


def one_axis(function: FuncOp) -> None:
    """Compute what ``on_one_axis`` finds on tiles of one axis, in place."""
    moving = _Moving(function.body.block)
    wanted = set(on_one_axis(function))
    for op in list(function.walk()):
        if _is_spread(op):
            moving.flat[op.results[0]] = op.operands[0]
        elif op in wanted:
            moving.operation(op)
    for view in reversed(moving.views):
        if view.results[0].first_use is None:
            Rewriter.erase_op(view)


@dataclass(slots=True)
class _Moving:
    """The rewrites of one function, in program order."""

    body: Block
    flat: dict[SSAValue, SSAValue] = field(default_factory=dict)
    """Tiles of one axis with the elements of others."""
    views: list[Operation] = field(default_factory=list)
    """What gives them their other axes back."""
    _numbers: dict[tuple[SSAValue, int, Block | None], SSAValue] = field(default_factory=dict)
    """Numbers as tiles of an extent, by the block in which they can be used: the same for the same ones."""

    def operation(self, op: Operation) -> None:
        """Compute an operation on one axis."""
        (result,) = op.results
        extent = prod(T.dims_of(result.type))
        made = type(op).create(
            operands=[
                self.flat[value] if value in self.flat else self._repeated(value, extent, op)
                for value in op.operands
            ],
            result_types=[T.TileType((extent,), T.element_of(result.type))],
            properties=dict(op.properties),
        )
        row = _inserted(made, op)
        row.name_hint = result.name_hint
        found = _inserted(ViewOp.create(operands=[row], result_types=[result.type]), op)
        self.flat[found] = row
        self.views.append(found.owner)  # pyright: ignore[reportArgumentType]
        result.replace_all_uses_with(found)
        Rewriter.erase_op(op)

    def _repeated(self, value: SSAValue, extent: int, op: Operation) -> SSAValue:
        number = _number_of(value)
        assert number is not None
        # Constants are the same wherever they are used, so that others see it.
        first = self.body.first_op if isinstance(number.owner, ConstantOp) else None
        key = (number, extent, op.parent if first is None else None)
        if key not in self._numbers:
            self._numbers[key] = _as_row(number, extent, first or op)
        return self._numbers[key]


def _as_row(number: SSAValue, extent: int, op: Operation) -> SSAValue:
    """Return a number in all elements of a tile of one axis, in front of an operation."""
    element = T.element_of(number.type)
    row, single = T.TileType((extent,), element), T.TileType((1,), element)
    if isinstance(number.owner, ConstantOp):
        return _inserted(ConstantOp.from_bits(row, number.owner.bits()[:1]), op)
    kind = ViewOp if T.dims_of(number.type) else SplatOp
    one = _inserted(kind.create(operands=[number], result_types=[single]), op)
    return _inserted(BroadcastOp.create(operands=[one], result_types=[row]), op)


def _inserted(made: Operation, op: Operation) -> SSAValue:
    inherit_location(made, op)
    Rewriter.insert_op(made, InsertPoint.before(op))
    return made.results[0]


def _is_spread(op: Operation) -> bool:
    """Whether an operation puts axes of one element into a tile of one axis."""
    if not isinstance(op, ExpandDimsOp | ViewOp) or not _has_one_axis(op.results[0]):
        return False
    source = op.operands[0]
    return len(T.dims_of(source.type)) == 1 and isinstance(source.type, T.TileType)


def _is_computed(op: Operation) -> bool:
    """Whether an operation computes integers element by element, of a tile with one long axis among others."""
    if not isinstance(op, ArithOp) or len(op.results) != 1 or not op.operands:
        return False
    if not _has_one_axis(op.results[0]) or facts.elements(op) is not Elements.SAME_POSITION:
        return False
    if op.regions or not is_side_effect_free(op):
        return False
    dims = T.dims_of(op.results[0].type)
    values = (*op.operands, *op.results)
    return all(
        T.dims_of(value.type) == dims and T.element_name(T.element_of(value.type)) in _INTEGERS
        for value in values
    )


def _has_one_axis(value: SSAValue) -> bool:
    if not isinstance(value.type, T.TileType):
        return False
    dims = T.dims_of(value.type)
    return len(dims) > 1 and sum(extent > 1 for extent in dims) == 1


def _number_of(value: SSAValue) -> SSAValue | None:
    """Return the number, constant tile or tile of one element that a tile repeats; None if its elements may differ."""
    while isinstance(value.owner, REPEATING) and prod(T.dims_of(value.type)) > 1:
        value = value.owner.operands[0]
    owner = value.owner
    if isinstance(owner, ConstantOp) and len(owner.bits()) == 1:
        return value
    return value if prod(T.dims_of(value.type)) == 1 else None
