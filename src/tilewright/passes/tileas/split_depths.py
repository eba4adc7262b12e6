"""``tileas-split-depths``: multiply in parts along the depth of a product (k) whose operands exceed shared memory.

``a x b + c`` becomes ``a1 x b1 + (a0 x b0 + c)``: each part loads its own tiles, so that shared memory holds one or two
parts, not all. What is not loaded, such as probabilities, is sliced.

Proof. The tiles of the parts are disjoint slices of the whole along k, by the rules of ``analysis/tileaa/slices.py``, and make it
up together; a product is the sum of products of such slices. Each part rounds its sum to the type of the accumulator, as
the instructions do that the product is made of anyway: the result is within the bound of the product. An accumulator of f16
would be rounded more often than the product says, and stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects import builtin as b
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tilewright.analysis.tileaa.slices import Slicing, slicings
from tilewright.dialects import arith
from tilewright.dialects.arith.constants import ConstantOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.hints import JoinMemTokenOp
from tilewright.dialects.nv_tileaa.ops.memory import TiledLoadOp
from tilewright.dialects.nv_tileaa.ops.shapes import ExtractSliceOp, SplatOp
from tilewright.passes.base import inherit_location
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.schedule_builder import INDEX, ScheduleBuilder
from tilewright.passes.tileas.smaller_tiles import (
    CannotSplitError,
    check_view,
    part_type,
    smaller_view,
)
from tilewright.passes.tileas.target import LEAST_SHARED_BYTES

#: The least depth of a part in elements and in bytes, that of the widest instruction; the most parts, which are written out.
LEAST_DEPTH, LEAST_DEPTH_BYTES, MOST_PARTS = 16, 32, 16
#: The axis of k of either operand.
_DEPTH = (1, 0)


@dataclass(frozen=True)
class SplitDepths(FunctionPass):
    """Splits products whose operands exceed shared memory, along k."""

    name: ClassVar[str] = "tileas-split-depths"

    shared_bytes: int = LEAST_SHARED_BYTES

    def rewrite_function(self, func: FuncOp) -> None:
        split_depths(func, self.shared_bytes)


def split_depths(func: FuncOp, shared_bytes: int, remarks: Remarks | None = None) -> None:
    """Make the products of a function in as few parts along k as let the loaded operands of two parts fit into
    ``shared_bytes``, if those of the whole do not fit."""
    remarks = Remarks() if remarks is None else remarks
    for op in [op for op in func.walk() if isinstance(op, DotOp)]:
        size = sum(
            _loaded_bytes(value, axis) for value, axis in zip((op.a, op.b), _DEPTH, strict=True)
        )
        if size <= shared_bytes:
            continue
        parts = 2
        while 2 * size > parts * shared_bytes:
            parts *= 2
        depth = T.dims_of(op.a.type)[-1]
        try:
            _Depths(op, parts).run()
        except CannotSplitError as error:
            remarks.add("split", f"a product is not made in {parts} parts along k: {error}", op)
            continue
        remarks.add(
            "split",
            f"a product is made in {parts} parts along k, {depth // parts} elements each: the tiles of "
            f"the whole take {size} bytes of shared memory",
            op,
            parts=parts,
            bytes=size,
        )


def split_product(op: DotOp, parts: int) -> None:
    """Make a product in ``parts`` parts along k. Raises ``CannotSplitError``, and changes nothing, if that cannot be done."""
    _Depths(op, parts).run()


def _loaded_bytes(value: SSAValue, axis: int) -> int:
    """The bytes of an operand that is loaded through a view, 0 for another one."""
    if len(T.dims_of(value.type)) != 2 or not _is_loaded(value, axis):
        return 0
    return prod(T.dims_of(value.type)) * element_bytes(value.type)


def _is_loaded(value: SSAValue, axis: int) -> bool:
    """Whether the parts of a value along an axis come from tiles of a view."""
    owner = value.owner
    if isinstance(owner, TiledLoadOp):
        return True
    found = _slicing(value, axis)
    return found is not None and any(
        part is not None and _is_loaded(operand, part)
        for operand, part in zip(owner.operands, found.operands, strict=True)  # pyright: ignore[reportAttributeAccessIssue]
    )


def _slicing(value: SSAValue, axis: int) -> Slicing | None:
    """How a value is made of slices of others, but not by products or reductions, which would be done again."""
    op = value.owner
    if not isinstance(op, Operation) or op.regions or isinstance(op, DotOp):
        return None
    return next((found for found in slicings(op) if found.result == axis), None)


class _Depths:
    """A product while it is made in parts along k."""

    def __init__(self, dot: DotOp, parts: int):
        self.dot, self.parts = dot, parts
        #: What is made in parts, and along which axis: all that uses it is, too.
        self.axes: dict[SSAValue, int] = {}
        self.made: dict[SSAValue, list[SSAValue]] = {}

    def run(self) -> None:
        """Rewrite the product, or raise ``CannotSplitError``."""
        dot = self.dot
        if dot.sfa is not None or len(T.dims_of(dot.c.type)) != 2:
            raise CannotSplitError("it has scales, or several matrices")
        if T.element_name(T.element_of(dot.c.type)) in ("f16", "bf16"):
            raise CannotSplitError("its accumulator is rounded to 16 bits")
        depth, least = T.dims_of(dot.a.type)[1], min(map(element_bytes, (dot.a.type, dot.b.type)))
        each = depth // self.parts
        if each < LEAST_DEPTH or each * least < LEAST_DEPTH_BYTES or self.parts > MOST_PARTS:
            raise CannotSplitError(f"k has {depth} elements")
        for value, axis in zip((dot.a, dot.b), _DEPTH, strict=True):
            if _is_loaded(value, axis):
                self._follow(value, axis)
        for value in self.axes:
            if any(not self._is_part_of(use.operation) for use in value.uses):
                raise CannotSplitError("an operand is used as a whole, too")
        operands = [
            self._parts(value, axis) for value, axis in zip((dot.a, dot.b), _DEPTH, strict=True)
        ]
        at, total = ScheduleBuilder(InsertPoint.before(dot), dot), dot.c
        for one, other in zip(*operands, strict=True):
            new = dot.clone()
            new.operands = [one, other, total]
            at.add(new)
            total = new.result
        total.name_hint = dot.result.name_hint
        dot.result.replace_all_uses_with(total)
        Rewriter.erase_op(dot)
        for value in self.axes:
            owner = value.owner
            if isinstance(owner, Operation) and not any(result.uses for result in owner.results):
                Rewriter.erase_op(owner)

    def _is_part_of(self, op: Operation) -> bool:
        return op is self.dot or any(result in self.axes for result in op.results)

    def _follow(self, value: SSAValue, axis: int) -> None:
        """Note what a value is made of, back to its tiles of views."""
        if self.axes.setdefault(value, axis) != axis:
            raise CannotSplitError("an operand is split along two axes")
        owner = value.owner
        if isinstance(owner, TiledLoadOp):
            check_view(owner, value.type, axis)
            return
        found = _slicing(value, axis)
        assert isinstance(owner, Operation) and found is not None
        for operand, part in zip(owner.operands, found.operands, strict=True):
            if part is not None and _is_loaded(operand, part):
                self._follow(operand, part)

    def _parts(self, value: SSAValue, axis: int) -> Sequence[SSAValue]:
        """The parts of a value along an axis, made beside it."""
        found = self.made.get(value)
        if found is None:
            found = self.made[value] = self._make(value, axis)
        return found

    def _make(self, value: SSAValue, axis: int) -> list[SSAValue]:
        owner = value.owner
        if isinstance(owner, TiledLoadOp) and value in self.axes:
            return self._loads(owner, axis)
        found = _slicing(value, axis)
        repeats = found is not None and not any(part is not None for part in found.operands)
        if value not in self.axes and not repeats:
            return self._constant(value, axis) or self._slices(value, axis)
        assert isinstance(owner, Operation) and found is not None
        given = [
            [operand] * self.parts if part is None else self._parts(operand, part)
            for operand, part in zip(owner.operands, found.operands, strict=True)
        ]
        at = ScheduleBuilder(InsertPoint.before(owner), owner)
        made: list[SSAValue] = []
        for operands in zip(*given, strict=True):
            new = owner.clone()
            new.operands = operands
            new.results[0]._type = self._type(value, axis)
            made.append(at.add(new).results[0])
        return made

    def _constant(self, value: SSAValue, axis: int) -> list[SSAValue]:
        """The parts of a tile of equal elements; nothing for another one."""
        op = value.owner
        if not isinstance(op, ConstantOp | SplatOp):
            return []
        at, ty = ScheduleBuilder(InsertPoint.before(op), op), self._type(value, axis)
        if isinstance(op, SplatOp):
            return [at.one(SplatOp, op.operands, ty)] * self.parts
        if not op.properties["value"].is_splat:  # pyright: ignore[reportAttributeAccessIssue]
            return []
        return [at.add(ConstantOp.from_bits(ty, op.bits())).results[0]] * self.parts

    def _slices(self, value: SSAValue, axis: int) -> list[SSAValue]:
        at = ScheduleBuilder(InsertPoint.before(self.dot), self.dot)
        ty, made = self._type(value, axis), list[SSAValue]()
        for part in range(self.parts):
            offsets = [0] * len(ty.dims)
            offsets[axis] = part * ty.dims[axis]
            properties = {"offsets": b.DenseArrayBase.from_list(b.i64, offsets)}
            new = ExtractSliceOp.create(
                operands=(value,), result_types=(ty,), properties=properties
            )
            made.append(at.add(new).results[0])
        return made

    def _loads(self, op: TiledLoadOp, axis: int) -> list[SSAValue]:
        view = smaller_view(op, axis, self.parts)
        at = ScheduleBuilder(InsertPoint.before(op), op)
        first = at.one(arith.MuliOp, (op.indices[axis], at.index(self.parts)), INDEX)
        made: list[TiledLoadOp] = []
        for part in range(self.parts):
            index = at.one(arith.AddiOp, (first, at.index(part)), INDEX)
            new = op.clone()
            new.operands = [view, *op.operands[1 : 1 + axis], index, *op.operands[2 + axis :]]
            new.result._type = self._type(op.result, axis)
            new.result.name_hint = op.result.name_hint
            at.add(new)
            made.append(new)
        for old, *new in zip(op.results[1:], *(load.results[1:] for load in made), strict=True):
            joined = JoinMemTokenOp.create(operands=new, result_types=(old.type,))
            inherit_location(joined, op)
            Rewriter.insert_op(joined, InsertPoint.before(op))
            old.replace_all_uses_with(joined.results[0])
        return [load.result for load in made]

    def _type(self, value: SSAValue, axis: int) -> T.TileType:
        return part_type(value.type, axis, self.parts)
