"""Merges neighbouring tile blocks into one, or splits one into several: a kernel with other tiles and another grid.

``widened`` builds the kernel whose tile block does the work of ``factor`` consecutive blocks along an axis of the grid;
``thinned`` the one that needs a block per row of tiles. Neither is a pass of a pipeline, since the grid must shrink or
grow accordingly.

Merging is possible where the block's index along the axis does nothing but select tiles of views, and say where a block's
places begin, and where every tile that depends on either has one axis along which the tiles of neighbouring blocks lie side by
side. Each element is then computed by the same operations, in the same order, as before. Places are sums of a range of ``E``
numbers and ``E`` times the index, as masks of triangles and edges compare them: those of neighbouring blocks follow one another.

Proof. A view's tile ``g`` of ``factor * E`` elements consists of its tiles ``factor * g`` and following of ``E``
elements, edges included. By induction over the operations, the wide value of each tile is the concatenation of its
neighbours' values: element-wise operations, and reductions and scans along other axes, act on each row separately,
products on each column of their right operand, and a tile that is the same for all neighbours is repeated. Only weak
accesses are admitted, and every store is to the block's own tile, so that blocks which access common memory have a
race anyway; and nothing else has effects. Read from the wide kernel to the narrow one, this proves ``thinned``. A row
of a tile at the edge of a view may lie outside the view altogether: code reads it as padding and does not write it,
as it does for the rest of such a tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator, is_side_effect_free

from tilewright.analysis.tileaa.geometry import cut_by, int_array
from tilewright.analysis.tileaa.integers import is_splat
from tilewright.analysis.tileaa.slices import slicings
from tilewright.dialects import facts
from tilewright.dialects.arith import AddiOp, ConstantOp, IndexConversion, MuliOp
from tilewright.dialects.declare import int_property
from tilewright.dialects.facts import Elements
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp, ReduceOp, ScanOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp, ReturnOp
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp, CreateMemTokenOp, JoinMemTokenOp
from tilewright.dialects.nv_tileaa.ops.memory import Load, TiledLoadOp, TiledStoreOp
from tilewright.dialects.nv_tileaa.ops.queues import GetProgramIdOp
from tilewright.dialects.nv_tileaa.ops.shapes import (
    BlockTileOp,
    BroadcastOp,
    MakeRangeOp,
    SplatOp,
)
from tilewright.dialects.syntax.engine import values_of
from tilewright.passes.base import inherit_location
from tilewright.passes.tileaa.matching import integer_of

_PLAIN = (CreateMemTokenOp, JoinMemTokenOp, AssumeOp)


class CannotWidenError(Exception):
    """The blocks of a kernel cannot be merged; the message says why."""


@dataclass(slots=True)
class Widths:
    """For each tile that differs from block to block (``side``), the axis along which the tiles of neighbouring
    blocks are adjacent."""

    axis: int
    """The grid axis."""
    side: dict[SSAValue, int] = field(default_factory=dict)
    numbers: set[SSAValue] = field(default_factory=set)
    """Values that hold the block's index along the axis."""
    loads: list[TiledLoadOp] = field(default_factory=list)
    """Loads of tiles that differ from block to block."""
    starts: dict[SSAValue, tuple[SSAValue, int]] = field(default_factory=dict)
    """Multiples of such numbers, also repeated as tiles, with the number and the factor."""


def widths(function: FuncOp, axis: int) -> Widths:
    """Analyse how a kernel can be widened along a grid axis; changes nothing. Raises ``CannotWidenError`` if it
    cannot.
    """
    found = Widths(axis)
    _Analysis(found).block(function.body.blocks[0])
    found.loads = [
        op for op in function.walk() if isinstance(op, TiledLoadOp) and op.result in found.side
    ]
    return found


def widened(
    function: FuncOp, found: Widths, factor: int
) -> tuple[FuncOp, dict[Operation, Operation]]:
    """Return the kernel that does the work of ``factor`` blocks, and the original of each of its operations.

    ``function`` stays as it is. The grid must shrink along the axis by the same factor.
    """
    return _resized(function, found, lambda extent: extent * factor)


def rows_of(found: Widths) -> int:
    """Return how many rows a block's tiles have along the axis; 1 if the kernel cannot be thinned."""
    extents = {T.dims_of(value.type)[axis] for value, axis in found.side.items()}
    return extents.pop() if len(extents) == 1 else 1


def thinned(function: FuncOp, found: Widths) -> tuple[FuncOp, dict[Operation, Operation]]:
    """Return the kernel with tiles of one row, of which ``rows_of`` consecutive blocks along the axis do the work
    of one, and the original of each of its operations."""
    return _resized(function, found, lambda extent: 1)


def _resized(
    function: FuncOp, found: Widths, resize: Callable[[int], int]
) -> tuple[FuncOp, dict[Operation, Operation]]:
    """Return the kernel with resized tiles along the axis, and the original of each of its operations."""
    copy = function.clone()
    origin = dict(zip(copy.walk(), function.walk(), strict=True))
    values = dict(zip(_values(function), _values(copy), strict=True))
    for new, old in tuple(origin.items()):
        inherit_location(new, old)
    side = {values[value]: axis for value, axis in found.side.items()}
    numbers = {values[value] for value in found.numbers}
    starts = {values[start]: (values[n], step) for start, (n, step) in found.starts.items()}
    _Rewriting(resize, side, numbers, starts, origin).function(copy)
    return copy, origin


def _values(function: FuncOp) -> Iterable[SSAValue]:
    for op in function.walk():
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.args


@dataclass(frozen=True, slots=True)
class _Step:
    """How an operation acts on wide tiles: the axis along which each operand must be wide, and along which each
    result is. None for values that are the same in all blocks."""

    needs: Sequence[int | None]
    gives: Sequence[int | None]


class _Analysis:
    def __init__(self, found: Widths) -> None:
        self.side, self.numbers, self.axis = found.side, found.numbers, found.axis
        self.starts = found.starts

    def block(self, block: Block) -> None:
        for op in block.ops:
            self.operation(op)

    def operation(self, op: Operation) -> None:
        if isinstance(op, GetProgramIdOp):
            if op.program_id is not None:
                raise CannotWidenError("it depends on the indices of other blocks")
            if int_property(op, "axis") == self.axis:
                self.numbers.add(op.result)
            return
        if isinstance(op, scf.ForOp):
            self._loop(op)
            return
        if isinstance(op, scf.YieldOp):
            return
        if isinstance(op, IndexConversion) and op.operands[0] in self.numbers:
            self.numbers.add(op.results[0])
            return
        if (start := _start_of(op, self.numbers, self.starts)) is not None:
            self.starts[op.results[0]] = start
            return
        if _place_of(op, self.starts) is not None:
            self.side[op.results[0]] = 0
            return
        step = step_of(op, self.side, {*self.numbers, *self.starts})
        if step is None:
            return
        for operand, axis in zip(op.operands, step.needs, strict=True):
            if axis is not None:
                self.require(operand, axis)
        for result, axis in zip(op.results, step.gives, strict=True):
            if axis is None:
                self.side.pop(result, None)
            else:
                self.side[result] = axis

    def require(self, value: SSAValue, axis: int) -> None:
        if self.side.get(value, axis) != axis:
            raise CannotWidenError("operands are batched along different axes")
        if value in self.side:
            return
        if _is_carried(value):
            self.side[value] = axis  # the loop checks its initial and yielded values later
        elif not can_repeat(value, axis):
            raise CannotWidenError(
                "a tile that is uniform across blocks would have to be broadcast"
            )

    def _loop(self, op: scf.ForOp) -> None:
        block = op.body.blocks[0]
        if any(value in self.numbers or value in self.starts for value in op.operands):
            raise CannotWidenError("a loop depends on the block index")
        end = block.last_op
        assert end is not None
        for argument, begin in zip(block.args[1:], op.iter_args, strict=True):
            if begin in self.side:
                self.side[argument] = self.side[begin]
        while True:
            before = len(self.side.keys() & set(block.args))
            self.block(block)
            for argument, value in zip(block.args[1:], end.operands, strict=True):
                if value in self.side:
                    self.side.setdefault(argument, self.side[value])
            if len(self.side.keys() & set(block.args)) == before:
                break
        groups = zip(block.args[1:], op.iter_args, end.operands, op.results, strict=True)
        for argument, begin, value, result in groups:
            if argument in self.side:
                self.require(begin, self.side[argument])
                self.require(value, self.side[argument])
                self.side[result] = self.side[argument]


def _start_of(
    op: Operation, numbers: set[SSAValue], starts: dict[SSAValue, tuple[SSAValue, int]]
) -> tuple[SSAValue, int] | None:
    """Return the number of which an operation makes a multiple, or repeats one, and the factor; None for others."""
    if isinstance(op, SplatOp | BroadcastOp):
        return starts.get(op.operands[0])
    if not isinstance(op, MuliOp):
        return None
    for number, factor in (op.operands, reversed(op.operands)):
        step = integer_of(factor) if number in numbers else None
        if step is not None and step > 0:
            return number, step
    return None


def _place_of(
    op: Operation, starts: dict[SSAValue, tuple[SSAValue, int]]
) -> tuple[MakeRangeOp, tuple[SSAValue, int]] | None:
    """Return the range, and the number and its factor, of which an operation makes the places of a block, if those of the next one
    follow; else None."""
    if not isinstance(op, AddiOp):
        return None
    for one, other in (op.operands, reversed(op.operands)):
        start, owner = starts.get(one), other.owner
        if start is not None and isinstance(owner, MakeRangeOp) and not owner.bounds:
            return (owner, start) if T.dims_of(op.result.type) == (start[1],) else None
    return None


def step_of(op: Operation, side: dict[SSAValue, int], numbers: set[SSAValue]) -> _Step | None:
    """Return how an operation acts on wide tiles, or None if it does the same in all blocks.

    ``side`` has the axis of each tile that differs from block to block, ``numbers`` the values that hold the block's
    index. Raises ``CannotWidenError`` if it uses either in any other way than by tiles, or may have effects of its
    own.
    """
    if isinstance(op, TiledLoadOp | TiledStoreOp) and any(v in numbers for v in op.operands):
        return _access(op, numbers)
    if any(value in numbers for inner in op.walk() for value in inner.operands):
        raise CannotWidenError(f"the block index is used by '{op.name}'")
    if not any(value in side for value in op.operands):
        if not _is_plain(op):
            raise CannotWidenError(f"'{op.name}' may have effects")
        return None
    for slicing in slicings(op):
        if isinstance(op, DotOp) and (slicing.result != 1 or op.b not in side):
            continue  # blocks share the left operand of a product of matrices
        axes = slicing.operands
        if all(side.get(v, axis) == axis for v, axis in zip(op.operands, axes, strict=True)):
            return _Step(axes, [slicing.result] * len(op.results))
    raise CannotWidenError(f"'{op.name}' makes its result of tiles of several blocks")


def _is_plain(op: Operation) -> bool:
    """Whether executing an operation once for all blocks equals executing it in each."""
    if op.has_trait(IsTerminator) or isinstance(op, (*_PLAIN, ReturnOp)):
        return True
    if isinstance(op, Load):
        return op.is_weak
    if isinstance(op, ReduceOp | ScanOp):
        return all(
            is_side_effect_free(inner) or inner.has_trait(IsTerminator) for inner in op.walk()
        )
    return not op.regions and is_side_effect_free(op)


def _access(op: TiledLoadOp | TiledStoreOp, numbers: set[SSAValue]) -> _Step:
    indices = values_of(op, "indices")
    places = [place for place, index in enumerate(indices) if index in numbers]
    cutter = cut_by(op.base)
    cut = None if cutter is None else cutter.cut
    if cutter is not op.base.owner or cut is None or cut.sparse_dim is not None or len(places) != 1:
        raise CannotWidenError("the block index selects something other than a tile of a view")
    if op.mask is not None or "multimem" in op.properties or not op.is_weak:
        raise CannotWidenError("an access is masked, or not weak")
    (place,) = places
    moved = op.result if isinstance(op, TiledLoadOp) else values_of(op, "value")[0]
    if cut.steps[place] != cut.tile_dims[place] or T.dims_of(moved.type) != tuple(cut.tile_dims):
        raise CannotWidenError("the tiles of a view overlap or leave gaps")
    needs = [place if value is moved else None for value in op.operands]
    gives = [place if value is moved else None for value in op.results]
    return _Step(needs, gives)


def _is_carried(value: SSAValue) -> bool:
    """Whether a value is a loop-carried tile."""
    if not isinstance(value, BlockArgument) or not isinstance(value.type, T.TileType):
        return False
    return isinstance(value.block.parent_op(), scf.ForOp)


def can_repeat(value: SSAValue, axis: int) -> bool:
    """Whether a tile that is the same in all blocks can be concatenated with itself along an axis."""
    dims = T.dims_of(value.type)
    if dims[axis] == 1:
        return True
    owner = value.owner
    if not isinstance(owner, Operation):
        return False
    if is_splat(owner) or isinstance(owner, SplatOp):
        return True
    if isinstance(owner, BroadcastOp):
        return T.dims_of(owner.source.type)[axis] == 1 or can_repeat(owner.source, axis)
    if facts.elements(owner) is not Elements.SAME_POSITION or not is_side_effect_free(owner):
        return False
    tiles = [v for v in owner.operands if isinstance(v.type, T.TileType)]
    return all(T.dims_of(v.type) == dims and can_repeat(v, axis) for v in tiles)


class _Rewriting:
    """Widens or thins a copy of a kernel in place."""

    def __init__(
        self,
        resize: Callable[[int], int],
        side: dict[SSAValue, int],
        numbers: set[SSAValue],
        starts: dict[SSAValue, tuple[SSAValue, int]],
        origin: dict[Operation, Operation],
    ) -> None:
        self.resize, self.side, self.numbers, self.origin = resize, side, numbers, origin
        self.starts = starts
        self._repeated: dict[tuple[SSAValue, int], SSAValue] = {}
        self._views: dict[tuple[SSAValue, int], SSAValue] = {}

    def function(self, function: FuncOp) -> None:
        ops = list(function.walk())
        steps = {op: self._step(op) for op in ops}
        for op in ops:
            step = steps[op]
            place = _place_of(op, self.starts)
            if place is not None:
                self._begin(op, *place)
            elif step is not None:
                self._needs(op, step.needs)
                if isinstance(op, TiledLoadOp | TiledStoreOp):
                    place = next(axis for axis in (*step.needs, *step.gives) if axis is not None)
                    op.operands[0] = self._view(op.operands[0], place)
        for value, axis in self.side.items():
            _retype(value, self._wide(value, axis))

    def _step(self, op: Operation) -> _Step | None:
        if isinstance(op, scf.ForOp):
            gives = [self.side.get(value) for value in op.results]
            return _Step([*[None] * (len(op.operands) - len(gives)), *gives], gives)
        if isinstance(op, scf.YieldOp) and isinstance(loop := op.parent_op(), scf.ForOp):
            gives = [self.side.get(value) for value in loop.results]
            return _Step(gives, ())
        if isinstance(op, FuncOp | GetProgramIdOp) or _is_inside_fold(op):
            return None
        if isinstance(op, IndexConversion) and op.operands[0] in self.numbers:
            return None
        if (op.results and op.results[0] in self.starts) or _place_of(op, self.starts) is not None:
            return None
        return step_of(op, self.side, self.numbers)

    def _begin(self, op: Operation, numbers: MakeRangeOp, start: tuple[SSAValue, int]) -> None:
        """Let the places of a block begin at a multiple of its new extent."""
        number, old = start
        extent, element = self.resize(old), number.type
        first = int_property(numbers, "start")
        wide = T.TileType([extent], element)
        factor = ConstantOp.from_bits(element, [extent])
        product = MuliOp.create(operands=[number, factor.result], result_types=[element])
        single = SplatOp.create(operands=[product.result], result_types=[T.TileType([1], element)])
        begin = BroadcastOp.create(operands=[single.result], result_types=[wide])
        counted = MakeRangeOp.create(
            result_types=[wide],
            properties={
                "start": IntegerAttr(first, i64),
                "end": IntegerAttr(first + extent, i64),
            },
        )
        for made in (factor, product, single, begin, counted):
            inherit_location(made, op)
            self.origin[made] = self.origin[op]
            Rewriter.insert_op(made, InsertPoint.before(op))
        op.operands[0], op.operands[1] = begin.result, counted.result

    def _needs(self, op: Operation, needs: Sequence[int | None]) -> None:
        for place, axis in enumerate(needs):
            value = op.operands[place]
            if axis is not None and value not in self.side:
                op.operands[place] = self._repeat(value, axis)

    def _wide(self, value: SSAValue, axis: int) -> T.TileType:
        ty = value.type
        assert isinstance(ty, T.TileType)
        dims = list(ty.dims)
        dims[axis] = self.resize(dims[axis])
        return T.TileType(dims, ty.element_type)

    def _view(self, view: SSAValue, place: int) -> SSAValue:
        """Return the same view with resized tiles."""
        found = self._views.get((view, place))
        if found is None:
            owner = view.owner
            assert isinstance(owner, BlockTileOp) and isinstance(view.type, T.TiledViewType)
            copy = owner.clone()
            for name in ("tileSizes", "traversalStrides"):
                if name in copy.properties:
                    sizes = list(int_array(copy.properties[name]))
                    sizes[place] = self.resize(sizes[place])
                    copy.properties[name] = DenseArrayBase.from_list(i64, sizes)
            dims = list(view.type.dims)
            dims[place] = self.resize(dims[place])
            _retype(copy.result, T.TiledViewType(dims, view.type.source))
            found = self._views[view, place] = self._insert(copy, owner).results[0]
        return found

    def _repeat(self, value: SSAValue, axis: int) -> SSAValue:
        """Return a tile that is the same in all blocks, repeated once for each merged block."""
        found = self._repeated.get((value, axis))
        if found is None:
            found = self._repeated[value, axis] = self._make_repeated(value, axis)
        return found

    def _make_repeated(self, value: SSAValue, axis: int) -> SSAValue:
        owner, wide = value.owner, self._wide(value, axis)
        if not isinstance(owner, Operation):
            return self._broadcast(value, wide)
        if is_splat(owner):
            assert isinstance(owner, ConstantOp)
            return self._insert(ConstantOp.from_bits(wide, owner.bits()), owner).results[0]
        copy = owner.clone()
        if isinstance(owner, BroadcastOp):
            if T.dims_of(owner.source.type)[axis] > 1:
                copy.operands[0] = self._repeat(owner.source, axis)
        elif T.dims_of(value.type)[axis] == 1 and not isinstance(owner, SplatOp):
            return self._broadcast(value, wide)
        else:
            for place, operand in enumerate(owner.operands):
                if isinstance(operand.type, T.TileType):
                    copy.operands[place] = self._repeat(operand, axis)
        _retype(copy.results[0], wide)
        return self._insert(copy, owner).results[0]

    def _broadcast(self, value: SSAValue, wide: T.TileType) -> SSAValue:
        made = BroadcastOp.create(operands=[value], result_types=[wide])
        owner = value.owner
        if isinstance(owner, Operation):
            return self._insert(made, owner).results[0]
        assert isinstance(value, BlockArgument)
        Rewriter.insert_op(made, InsertPoint.at_start(value.block))
        return made.result

    def _insert(self, made: Operation, behind: Operation) -> Operation:
        inherit_location(made, behind)
        if behind in self.origin:
            self.origin[made] = self.origin[behind]
        Rewriter.insert_op(made, InsertPoint.after(behind))
        return made


def _is_inside_fold(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, FuncOp | scf.ForOp):
        if isinstance(parent, ReduceOp | ScanOp):
            return True
        parent = parent.parent_op()
    return False


def _retype(value: SSAValue, ty: T.TileType | T.TiledViewType) -> None:
    value._type = ty  # pyright: ignore[reportPrivateUsage]
