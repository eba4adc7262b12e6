"""Interchanges a loop that accumulates a tile with the reduction of that tile, so that it runs row by row.

A loop such as ``total += load(k)``, followed by ``sum(total, axis)``, traverses all of ``total`` in every iteration.
``sliced`` builds the kernel in which an outer loop goes over the rows of ``total`` and the loop over ``k`` runs
inside, on tiles of one row; the results are combined row by row. Like ``wide_blocks``, whose kernels it serves, it is
no pass of a pipeline: a slice of a tile at the edge of a view may lie outside the view altogether. The code generator
reads that as padding, as it does for the rest of such a tile.

Proof. Each row of the loop-carried tile is computed from the same row of the tiles that it loads, and from values
that are the same for all rows; element-wise operations, broadcasts, and reshapes that keep the axis act on each row
separately. Every row therefore goes through the same operations in the same order. The reduction behind the loop is
one commutative operation, which may take its elements in any order. The loop has no effects but weak loads, so it may
run once per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, IndexType, i64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from tilewright.analysis.tileaa.geometry import cut_by, int_array
from tilewright.analysis.tileaa.integers import is_splat
from tilewright.dialects import arith, facts
from tilewright.dialects.arith import ConstantOp
from tilewright.dialects.arith.base import numeric_element
from tilewright.dialects.declare import enum_property, int_property
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops.arithmetic import AddFOp
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import TiledLoadOp
from tilewright.dialects.nv_tileaa.ops.shapes import BlockTileOp, BroadcastOp, SplatOp
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import float_to_bits
from tilewright.passes.base import inherit_location

#: Reductions that can be combined row by row, starting from their neutral element.
_BY_ROW = (
    AddFOp,
    arith.AddiOp,
    arith.MaximumfOp,
    arith.MinimumfOp,
    arith.MaxnumfOp,
    arith.MinnumfOp,
)


Op = TypeVar("Op", bound=Operation)


class _CannotSliceError(Exception):
    """Something in a loop cannot be computed row by row."""


@dataclass(frozen=True, slots=True)
class Sum:
    """A loop and the reductions of its results: one for each result that is used, else None."""

    loop: scf.ForOp
    reductions: tuple[ReduceOp | None, ...]
    rows: int


def find_sums(function: FuncOp, least_bytes: int) -> list[Sum]:
    """Return the loops whose results are all reduced along an outer axis and take at least
    ``least_bytes`` bytes together."""
    found = (_sum_of(op, least_bytes) for op in function.walk() if isinstance(op, scf.ForOp))
    return [each for each in found if each is not None]


def _sum_of(loop: scf.ForOp, least_bytes: int) -> Sum | None:
    reductions: list[ReduceOp | None] = []
    rows: set[int] = set()
    size = 0
    for result in loop.results:
        users = [use.operation for use in result.uses]
        reduction = users[0] if len(users) == 1 else None
        if reduction is not None and not (isinstance(reduction, ReduceOp) and _is_plain(reduction)):
            return None
        if len(users) > 1 or (reduction is not None and reduction.parent is not loop.parent):
            return None
        reductions.append(reduction)
        if reduction is not None:
            dims, axis = T.dims_of(result.type), int_property(reduction, "axis")
            if all(extent == 1 for extent in dims[axis + 1 :]):
                return None
            rows.add(dims[axis])
            size += prod(dims) * FORMATS[numeric_element(result.type)].bits // 8
    if len(rows) != 1 or min(rows) < 2 or size < least_bytes:
        return None
    return Sum(loop, tuple(reductions), rows.pop())


def _is_plain(op: ReduceOp) -> bool:
    """Whether a reduction is of one tile, by one operation that can be combined row by row."""
    if len(op.results) != 1 or not T.dims_of(op.results[0].type) or "atom" in op.properties:
        return False
    block = op.regions[0].blocks[0]
    *inner, end = block.ops
    if len(inner) != 1 or list(end.operands) != list(inner[0].results):
        return False
    (only,) = inner
    nearest = not isinstance(only, AddFOp) or enum_property(only, "rounding_mode") in (
        "",
        "nearest_even",
    )
    return isinstance(only, _BY_ROW) and nearest and set(only.operands) == set(block.args)


def sliced(
    function: FuncOp, least_bytes: int
) -> tuple[FuncOp, dict[Operation, Operation], int] | None:
    """Return the kernel with its accumulating loops sliced, the original of each of its operations, and the
    largest number of rows of a sliced loop. None if there is no such loop."""
    if not find_sums(function, least_bytes):
        return None
    copy = function.clone()
    origin = dict(zip(copy.walk(), function.walk(), strict=True))
    for new, old in tuple(origin.items()):
        inherit_location(new, old)
    most = 0
    for found in find_sums(copy, least_bytes):
        try:
            _Slicing(found, origin).run()
        except _CannotSliceError:
            continue
        most = max(most, found.rows)
    return (copy, origin, most) if most else None


class _Slicing:
    """Wraps a loop over rows around a loop. New operations are kept in detached blocks until the whole
    rewrite is known to succeed."""

    def __init__(self, found: Sum, origin: dict[Operation, Operation]) -> None:
        self.found, self.origin = found, origin
        self.loop = found.loop
        self._before: list[Operation] = []
        self._outer, self._inner = Block(arg_types=[IndexType()]), Block()
        self._here = self._outer
        self._made: dict[tuple[SSAValue, int | None], SSAValue] = {}

    def run(self) -> None:
        numbers = [n for n, reduction in enumerate(self.found.reductions) if reduction is not None]
        reductions = [reduction for reduction in self.found.reductions if reduction is not None]
        axes = [int_property(reduction, "axis") for reduction in reductions]
        old = self.loop.body.blocks[0]
        end = old.last_op
        assert end is not None
        carried = [
            self._outer.insert_arg(reduction.results[0].type, 1 + n)
            for n, reduction in enumerate(reductions)
        ]
        begins = [
            self._row(self.loop.iter_args[n], axis) for n, axis in zip(numbers, axes, strict=True)
        ]
        self._inner = Block(arg_types=[old.args[0].type, *(value.type for value in begins)])
        self._made[old.args[0], None] = self._inner.args[0]
        for place, (n, axis) in enumerate(zip(numbers, axes, strict=True)):
            self._made[old.args[1 + n], axis] = self._inner.args[1 + place]
        self._here = self._inner
        self._check_effects(old)
        nexts = [self._row(end.operands[n], axis) for n, axis in zip(numbers, axes, strict=True)]
        self._inner.add_op(self._placed(scf.YieldOp(*nexts), end))
        bounds = (self.loop.lb, self.loop.ub, self.loop.step)
        inner = self._placed(scf.ForOp(*bounds, begins, self._inner), self.loop)
        inner.properties.update(self.loop.properties)
        inner.attributes.update(self.loop.attributes)
        self._outer.add_op(inner)
        totals = [
            self._combined(reduction, result, before)
            for reduction, result, before in zip(reductions, inner.results, carried, strict=True)
        ]
        self._outer.add_op(self._placed(scf.YieldOp(*totals), end))
        self._replace(reductions)

    def _check_effects(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, TiledLoadOp | scf.YieldOp) and not is_set(op, "volatile"):
                continue
            if op.regions or not is_side_effect_free(op):
                raise _CannotSliceError

    def _combined(self, reduction: ReduceOp, row: SSAValue, before: SSAValue) -> SSAValue:
        """Combine the reduced row of one iteration with the accumulator."""
        values: dict[SSAValue, SSAValue] = {reduction.operands[0]: row}
        reduced = self._placed(reduction.clone(values), reduction)
        self._outer.add_op(reduced)
        (only, _) = reduction.regions[0].blocks[0].ops
        combine = type(only).create(
            operands=[reduced.results[0], before],
            result_types=[before.type],
            properties=dict(only.properties),
        )
        self._outer.add_op(self._placed(combine, reduction))
        return combine.results[0]

    def _replace(self, reductions: Sequence[ReduceOp]) -> None:
        starts: list[SSAValue] = []
        for reduction in reductions:
            (only, _) = reduction.regions[0].blocks[0].ops
            ty = reduction.results[0].type
            fmt = FORMATS[numeric_element(ty)]
            number = facts.neutral(only, fmt.bits)
            assert number is not None
            bits = float_to_bits(number, fmt) if fmt.is_float else int(number)
            starts.append(self._ahead(ConstantOp.from_bits(ty, [bits])))
        low, high, step = (
            self._ahead(ConstantOp.from_bits(IndexType(), [n])) for n in (0, self.found.rows, 1)
        )
        outer = self._placed(scf.ForOp(low, high, step, starts, self._outer), self.loop)
        for op in (*self._before, outer):
            Rewriter.insert_op(op, InsertPoint.before(self.loop))
        for reduction, result in zip(reductions, outer.results, strict=True):
            reduction.results[0].replace_all_uses_with(result)
            Rewriter.erase_op(reduction)
        Rewriter.erase_op(self.loop)

    # -- values ------------------------------------------------------------------------------

    def _ahead(self, op: Operation) -> SSAValue:
        """Emit an operation before the loops."""
        self._before.append(self._placed(op, self.loop))
        return op.results[0]

    def _placed(self, op: Op, old: Operation) -> Op:
        inherit_location(op, old)
        for each in op.walk():
            self.origin.setdefault(each, self.origin.get(old, old))
        return op

    def _add(self, op: Operation, old: Operation) -> SSAValue:
        self._here.add_op(self._placed(op, old))
        return op.results[0]

    def _is_outside(self, value: SSAValue) -> bool:
        block = value.owner if isinstance(value, BlockArgument) else value.owner.parent
        while block is not None and block is not self.loop.body.blocks[0]:
            parent = block.parent_op()
            block = None if parent is None else parent.parent
        return block is None

    def _same(self, value: SSAValue) -> SSAValue:
        """Return a value that is the same for all rows, cloned into the current block if needed."""
        found = self._made.get((value, None))
        if found is None:
            found = value
            if not self._is_outside(value):
                owner = value.owner
                if not isinstance(owner, Operation) or isinstance(owner, TiledLoadOp):
                    raise _CannotSliceError
                operands = {each: self._same(each) for each in owner.operands}
                found = self._add(owner.clone(operands), owner)
            self._made[value, None] = found
        return found

    def _row(self, value: SSAValue, axis: int) -> SSAValue:
        """Return one row of a tile."""
        found = self._made.get((value, axis))
        if found is None:
            found = self._made[value, axis] = self._make_row(value, axis)
        return found

    def _make_row(self, value: SSAValue, axis: int) -> SSAValue:
        owner = value.owner
        if not isinstance(owner, Operation):
            raise _CannotSliceError
        ty = _of_one_row(value.type, axis)
        if is_splat(owner):
            assert isinstance(owner, ConstantOp)
            return self._add(ConstantOp.from_bits(ty, owner.bits()[:1]), owner)
        if isinstance(owner, SplatOp):
            return self._like(owner, [self._same(owner.operands[0])], ty)
        if isinstance(owner, BroadcastOp):
            source = owner.source
            repeated = T.dims_of(source.type)[axis] == 1
            return self._like(
                owner, [self._same(source) if repeated else self._row(source, axis)], ty
            )
        if isinstance(owner, TiledLoadOp) and value is owner.result:
            return self._loaded(owner, axis, ty)
        if owner.regions or not is_side_effect_free(owner) or len(owner.results) != 1:
            raise _CannotSliceError
        if facts.elements(owner) is Elements.SAME_POSITION:
            dims = T.dims_of(value.type)
            tiles = [v for v in owner.operands if T.dims_of(v.type)]
            if any(T.dims_of(v.type) != dims for v in tiles):
                raise _CannotSliceError
            operands = [
                self._row(v, axis) if T.dims_of(v.type) else self._same(v) for v in owner.operands
            ]
            return self._like(owner, operands, ty)
        if facts.elements(owner) is Elements.RESHAPED:
            inner = _axis_before(T.dims_of(owner.operands[0].type), T.dims_of(value.type), axis)
            return self._like(owner, [self._row(owner.operands[0], inner)], ty)
        raise _CannotSliceError

    def _like(self, op: Operation, operands: Sequence[SSAValue], ty: T.TileType) -> SSAValue:
        copy = op.clone()
        for place, value in enumerate(operands):
            copy.operands[place] = value
        _retype(copy.results[0], ty)
        return self._add(copy, op)

    def _loaded(self, op: TiledLoadOp, axis: int, ty: T.TileType) -> SSAValue:
        """Load one row of a tile in memory: a tile of the same view with tiles of one row."""
        if self._is_outside(op.result):
            raise _CannotSliceError  # memory may have changed since
        cutter = cut_by(op.base)
        cut = None if cutter is None else cutter.cut
        if (
            cutter is None
            or cutter is not op.base.owner
            or cut is None
            or self._here is not self._inner
        ):
            raise _CannotSliceError
        whole = cut.sparse_dim is None and T.dims_of(op.result.type) == tuple(cut.tile_dims)
        if op.mask is not None or "multimem" in op.properties or not (op.is_weak and whole):
            raise _CannotSliceError
        if cut.steps[axis] != cut.tile_dims[axis] or not self._is_outside(op.base):
            raise _CannotSliceError
        view = self._view(cutter, axis)
        copy = op.clone({value: self._same(value) for value in op.operands[1:]})
        copy.operands[0] = view
        place = 1 + axis  # after the view
        rows = self._ahead(ConstantOp.from_bits(IndexType(), [self.found.rows]))
        start = self._add(arith.MuliOp.of(copy.operands[place], rows), op)
        copy.operands[place] = self._add(arith.AddiOp.of(start, self._outer.args[0]), op)
        _retype(copy.results[0], ty)
        return self._add(copy, op)

    def _view(self, cutter: BlockTileOp, axis: int) -> SSAValue:
        copy = cutter.clone()
        for name in ("tileSizes", "traversalStrides"):
            if name in copy.properties:
                sizes = list(int_array(copy.properties[name]))
                sizes[axis] = 1
                copy.properties[name] = DenseArrayBase.from_list(i64, sizes)
        old = cutter.result.type
        assert isinstance(old, T.TiledViewType)
        dims = list(old.dims)
        dims[axis] = 1
        _retype(copy.result, T.TiledViewType(dims, old.source))
        return self._ahead(copy)


def _of_one_row(ty: object, axis: int) -> T.TileType:
    assert isinstance(ty, T.TileType)
    dims = list(ty.dims)
    dims[axis] = 1
    return T.TileType(dims, ty.element_type)


def _axis_before(source: Sequence[int], result: Sequence[int], axis: int) -> int:
    """Return the axis of a reshape's source that corresponds to ``axis`` of its result."""
    for place, extent in enumerate(source):
        if extent == result[axis] and prod(source[:place]) == prod(result[:axis]):
            return place
    raise _CannotSliceError


def _retype(value: SSAValue, ty: T.TileType | T.TiledViewType) -> None:
    value._type = ty  # pyright: ignore[reportPrivateUsage]
