"""``tileas-split-depths``: multiply in parts along the depth of a product (k), where the operands of two iterations exceed
shared memory.

``a x b + c`` becomes ``a1 x b1 + (a0 x b0 + c)``: each part loads its own tiles, so that shared memory holds one or two
parts, not all. A loop that only loads and multiplies gets as many times more iterations, one for each part, so that the
next part is loaded while one is multiplied. Elsewhere, and if not even one iteration fits, parts follow one another; what is not loaded, such as
probabilities, is sliced.

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
from xdsl.dialects import scf
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from tilewright.analysis.tileaa.integers import is_splat
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
from tilewright.passes.tileaa.matching import integer_of
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.cleanup import erase_unused
from tilewright.passes.tileas.conversion_scratch import BESIDE_RINGS, EXCHANGES
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.schedule_builder import INDEX, ScheduleBuilder, put_behind
from tilewright.passes.tileas.smaller_tiles import (
    CannotSplitError,
    check_view,
    part_type,
    smaller_view,
)
from tilewright.passes.tileas.target import LEAST_SHARED_BYTES
from tilewright.passes.tileas.thread_products import MOST_BYTES, is_by_threads

#: The least depth of a part in elements and in bytes, that of the widest instruction; the most parts, which are written out.
LEAST_DEPTH, LEAST_DEPTH_BYTES, MOST_PARTS = 16, 32, 16
#: The axis of k of either operand.
_DEPTH = (1, 0)
_CASTS = (arith.IndexConversion, arith.Extension)


@dataclass(frozen=True)
class SplitDepths(FunctionPass):
    """Splits products whose operands exceed shared memory, along k.

    ``shared_bytes``: the shared memory that a block may take, in bytes.
    """

    name: ClassVar[str] = "tileas-split-depths"

    shared_bytes: int = LEAST_SHARED_BYTES

    def rewrite_function(self, func: FuncOp) -> None:
        split_depths(func, self.shared_bytes)


def split_depths(
    func: FuncOp, shared_bytes: int, remarks: Remarks | None = None, decided: int | None = None
) -> None:
    """Make products in as few parts along k as let the loaded operands of two parts fit into ``shared_bytes`` bytes.

    Those of loops if those of two iterations do not fit, others if those of one do not. ``decided``: those with large
    operands in so many parts, 1 for the whole. What cannot be split stays, and a remark says why. Tiles have no
    layouts yet.
    """
    remarks = Remarks() if remarks is None else remarks
    if decided is not None:
        _split_large(func, decided, remarks)
        return
    for loop in [op for op in func.walk() if isinstance(op, scf.ForOp)]:
        # Exchanges behind a loop of the function take the memory of its ring.
        alone = isinstance(loop.parent_op(), FuncOp)
        _shorten(loop, shared_bytes - (BESIDE_RINGS if alone else EXCHANGES), remarks)
    for op in [op for op in func.walk() if isinstance(op, DotOp)]:
        size = _operand_bytes([op])
        room = min(shared_bytes, MOST_BYTES) if is_by_threads(op) else shared_bytes
        if size <= room:
            continue
        parts = 2
        while 2 * size > parts * shared_bytes and parts < MOST_PARTS:
            parts *= 2
        _split(op, parts, size, remarks)


def _split_large(func: FuncOp, parts: int, remarks: Remarks) -> None:
    """Make the products in parts whose operands take half as much as the largest ones at least."""
    if parts == 1:
        return
    sizes = {op: _operand_bytes([op]) for op in func.walk() if isinstance(op, DotOp)}
    for op, size in sizes.items():
        if size and 2 * size >= max(sizes.values()):
            _split(op, parts, size, remarks)


def _split(op: DotOp, parts: int, size: int, remarks: Remarks) -> None:
    depth = T.dims_of(op.a.type)[-1]
    try:
        split_product(op, parts)
    except CannotSplitError as error:
        remarks.add("split", f"a product is not made in {parts} parts along k: {error}", op)
        return
    remarks.add(
        "split",
        f"a product is made in {parts} parts along k, {depth // parts} elements each: the tiles of "
        f"the whole take {size} bytes of shared memory",
        op,
        parts=parts,
        bytes=size,
    )


def _shorten(loop: scf.ForOp, budget: int, remarks: Remarks) -> None:
    """Let a loop take steps along k of which two fit into ``budget`` bytes, and one into what products by threads may take."""
    dots = [op for op in loop.body.block.ops if isinstance(op, DotOp)]
    if any(map(is_by_threads, dots)):
        budget = min(budget, 2 * MOST_BYTES)
    size = _operand_bytes(dots)
    if 2 * size <= budget:
        return
    parts = 2
    while 2 * size > parts * budget and parts < MOST_PARTS:
        parts *= 2
    try:
        shorten_steps(loop, parts)
    except CannotSplitError:
        return  # a ring of one stage remains, or parts that follow one another
    remarks.add(
        "split",
        f"a loop has {parts} iterations for each of its own, with a part of k each: the tiles of two of its own take "
        f"{2 * size} bytes of shared memory",
        loop,
        parts=parts,
        bytes=2 * size,
    )


def shorten_steps(loop: scf.ForOp, parts: int) -> None:
    """Give a loop ``parts`` iterations for each of its own, one for each part of k. Raises ``CannotSplitError``, and changes
    nothing, if the loop does more than to load and multiply."""
    _Steps(loop, parts).run()


def split_product(op: DotOp, parts: int) -> None:
    """Make a product in ``parts`` parts along k. Raises ``CannotSplitError``, and changes nothing, if that cannot be done."""
    _Depths([op], parts).run()


def _operand_bytes(dots: Sequence[DotOp]) -> int:
    """The bytes of what some products load through views, of which each tile counts once."""
    found = {
        value: _loaded_bytes(value, axis)
        for op in dots
        for value, axis in zip((op.a, op.b), _DEPTH, strict=True)
    }
    return sum(found.values())


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
    """Products of one depth while they are made in parts along k."""

    def __init__(self, dots: Sequence[DotOp], parts: int):
        self.dots, self.parts = dots, parts
        #: What is made in parts, and along which axis: all that uses it is, too.
        self.axes: dict[SSAValue, int] = {}
        self.made: dict[SSAValue, list[SSAValue]] = {}

    def run(self) -> None:
        """Rewrite the products, or raise ``CannotSplitError``."""
        self._check()
        others = self._used_by_others()
        if others:
            self._repeat(others)
        for dot in self.dots:
            self._multiply(dot)
        for value in self.axes:
            owner = value.owner
            if isinstance(owner, Operation) and not any(result.uses for result in owner.results):
                Rewriter.erase_op(owner)

    def _check(self) -> None:
        for dot in self.dots:
            self._check_product(dot)
            for value, axis in zip((dot.a, dot.b), _DEPTH, strict=True):
                if _is_loaded(value, axis):
                    self._follow(value, axis)

    def _used_by_others(self) -> list[SSAValue]:
        """What is not only made in parts, but used as a whole, too."""
        return [
            value
            for value in self.axes
            if any(not self._is_part_of(use.operation) for use in value.uses)
        ]

    def _repeat(self, others: Sequence[SSAValue]) -> None:
        """Make what others use, too, again for the products alone, from loads of their own."""
        wanted: list[SSAValue] = []
        for value in self.axes:  # users stand before what they are made of
            users = {result for use in value.uses for result in use.operation.results}
            if value in others or not users.isdisjoint(wanted):
                wanted.append(value)
        made: dict[SSAValue, SSAValue] = {}
        for value in reversed(wanted):
            old = value.owner
            assert isinstance(old, Operation) and isinstance(value, OpResult)
            new = old.clone()
            new.operands = [made.get(operand, operand) for operand in old.operands]
            Rewriter.insert_op(new, InsertPoint.after(old))
            made[value] = new.results[value.index]
            for former, token in zip(old.results[1:], new.results[1:], strict=True):
                joined = JoinMemTokenOp.create(operands=(former, token), result_types=(token.type,))
                inherit_location(joined, old)
                Rewriter.insert_op(joined, InsertPoint.after(new))
                former.replace_uses_with_if(
                    joined.results[0], lambda use, joined=joined: use.operation is not joined
                )
        kept = [value.owner for value in self.axes if value not in wanted]
        for user in (*kept, *self.dots):
            assert isinstance(user, Operation)
            user.operands = [made.get(operand, operand) for operand in user.operands]
        self.axes.clear()
        self._check()

    def _check_product(self, dot: DotOp) -> None:
        if dot.sfa is not None or len(T.dims_of(dot.c.type)) != 2:
            raise CannotSplitError("it has scales, or several matrices")
        if T.element_name(T.element_of(dot.c.type)) in ("f16", "bf16"):
            raise CannotSplitError("its accumulator is rounded to 16 bits")
        depth, least = T.dims_of(dot.a.type)[1], min(map(element_bytes, (dot.a.type, dot.b.type)))
        each = depth // self.parts
        if each < LEAST_DEPTH or each * least < LEAST_DEPTH_BYTES or self.parts > MOST_PARTS:
            raise CannotSplitError(f"k has {depth} elements")

    def _multiply(self, dot: DotOp) -> None:
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

    def _places(self, op: TiledLoadOp, axis: int) -> list[SSAValue]:
        """Where the tiles of the parts lie along an axis, counted in tiles of parts."""
        at = ScheduleBuilder(InsertPoint.before(op), op)
        first = at.one(arith.MuliOp, (op.indices[axis], at.index(self.parts)), INDEX)
        return [at.one(arith.AddiOp, (first, at.index(n)), INDEX) for n in range(self.parts)]

    @property
    def _count(self) -> int:
        """How many parts are written out side by side."""
        return self.parts

    def _is_part_of(self, op: Operation) -> bool:
        return op in self.dots or any(result in self.axes for result in op.results)

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
            [operand] * self._count if part is None else self._parts(operand, part)
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
            return [at.one(SplatOp, op.operands, ty)] * self._count
        if not is_splat(op):
            return []
        return [at.add(ConstantOp.from_bits(ty, op.bits())).results[0]] * self._count

    def _slices(self, value: SSAValue, axis: int) -> list[SSAValue]:
        ty, made = self._type(value, axis), list[SSAValue]()
        for part in range(self.parts):
            offsets = [0] * len(ty.dims)
            offsets[axis] = part * ty.dims[axis]
            properties = {"offsets": b.DenseArrayBase.from_list(b.i64, offsets)}
            new = ExtractSliceOp.create(
                operands=(value,), result_types=(ty,), properties=properties
            )
            inherit_location(new, self.dots[0])
            put_behind(value, new)
            made.append(new.result)
        return made

    def _loads(self, op: TiledLoadOp, axis: int) -> list[SSAValue]:
        view = smaller_view(op, axis, self.parts)
        at = ScheduleBuilder(InsertPoint.before(op), op)
        made: list[TiledLoadOp] = []
        for index in self._places(op, axis):
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


class _Steps(_Depths):
    """A loop that loads and multiplies, while it gets an iteration for each part of k."""

    def __init__(self, loop: scf.ForOp, parts: int):
        self.loop, self.body = loop, loop.body.block
        super().__init__([op for op in self.body.ops if isinstance(op, DotOp)], parts)
        self.old = self.body.args[0]

    def run(self) -> None:
        """Rewrite the loop, or raise ``CannotSplitError``."""
        self._check()
        if self._used_by_others():
            raise CannotSplitError("an operand is used as a whole, too")
        self._check_loop()
        #: The new loop's counter, from 0 by 1, and the part of an iteration.
        self.counter = self.body.insert_arg(INDEX, 0)
        self.counter.name_hint = self.old.name_hint
        assert self.body.first_op is not None
        self.top = ScheduleBuilder(InsertPoint.before(self.body.first_op), self.loop)
        parts = self.top.index(self.parts)
        whole = self.top.one(arith.DivUIOp, (self.counter, parts), INDEX)
        self.part = self.top.one(arith.RemUIOp, (self.counter, parts), INDEX)
        former = self._former(whole)
        for dot in self.dots:
            self._multiply(dot)
        self._count_parts()
        self.old.replace_all_uses_with(former)
        self.body.erase_arg(self.old)
        erase_unused(list(self.body.ops))

    def _check_loop(self) -> None:
        loop, end = self.loop, self.body.last_op
        assert end is not None
        sums = {dot.c: dot for dot in self.dots}
        for argument, value in zip(self.body.args[1:], end.operands, strict=True):
            dot = sums.pop(argument, None)
            if dot is None or value is not dot.result:
                raise CannotSplitError("the loop carries more than sums of products")
            if len(list(argument.uses)) > 1 or len(list(value.uses)) > 1:
                raise CannotSplitError("a sum is used in an iteration")
        if sums:
            raise CannotSplitError("a product is not added to a sum of the loop")
        for op in self.body.ops:
            loaded = isinstance(op, TiledLoadOp) and op.result in self.axes
            if op is not end and not loaded and (op.regions or not is_side_effect_free(op)):
                raise CannotSplitError(f"an iteration does more: '{op.name}'")
        wide = self.old.type not in (b.i32, b.i16, b.i8)
        if wide and integer_of(loop.lb) != 0:
            raise CannotSplitError("the loop does not count from 0")
        for dot in self.dots:
            for value, axis in zip((dot.a, dot.b), _DEPTH, strict=True):
                self._check_made(value, axis)

    def _check_made(self, value: SSAValue, axis: int) -> None:
        """Refuse what would be sliced: parts are not known before the loop runs."""
        owner = value.owner
        if value in self.axes and isinstance(owner, TiledLoadOp):
            return
        found = _slicing(value, axis)
        repeats = found is not None and all(part is None for part in found.operands)
        if value not in self.axes and not repeats:
            constant = isinstance(owner, SplatOp) or (
                isinstance(owner, ConstantOp) and is_splat(owner)
            )
            if not constant:
                raise CannotSplitError("an operand is not loaded")
            return
        assert found is not None and isinstance(owner, Operation)
        for operand, part in zip(owner.operands, found.operands, strict=True):
            if part is not None:
                self._check_made(operand, part)

    @property
    def _count(self) -> int:
        return 1

    def _places(self, op: TiledLoadOp, axis: int) -> list[SSAValue]:
        index = op.indices[axis]
        if self._is_counted(index):
            return [self.counter]
        at = ScheduleBuilder(InsertPoint.before(op), op)
        first = at.one(arith.MuliOp, (index, at.index(self.parts)), INDEX)
        return [at.one(arith.AddiOp, (first, self.part), INDEX)]

    def _is_counted(self, index: SSAValue) -> bool:
        """Whether a tile's index is the number of the former iteration: that of its part is that of the iteration."""
        while isinstance(index.owner, _CASTS):
            index = index.owner.operands[0]
        from_zero = integer_of(self.loop.lb) == 0 and integer_of(self.loop.step) == 1
        return index is self.old and from_zero

    def _former(self, whole: SSAValue) -> SSAValue:
        """The former counter in the former iteration ``whole``."""
        loop, ty, found = self.loop, self.old.type, whole
        if ty != INDEX:
            found = self.top.one(arith.IndexCastOp, (found,), ty)
        if integer_of(loop.step) != 1:
            found = self.top.one(arith.MuliOp, (found, loop.step), ty)
        if integer_of(loop.lb) != 0:
            found = self.top.one(arith.AddiOp, (found, loop.lb), ty)
        return found

    def _count_parts(self) -> None:
        """Let the loop count parts. Numbers of 32 bits and less have room in 64; a loop of so many iterations that
        they have none would not end."""
        loop = self.loop
        before = ScheduleBuilder(InsertPoint.before(loop), loop)
        signless = "unsignedCmp" in loop.attributes | loop.properties
        cast = arith.IndexCastUIOp if signless else arith.IndexCastOp
        given = [integer_of(value) for value in (loop.lb, loop.step)]
        lower, upper, step = (
            value if value.type == INDEX else before.one(cast, (value,), INDEX)
            for value in (loop.lb, loop.ub, loop.step)
        )
        if given[0] != 0:
            upper = before.one(arith.SubiOp, (upper, lower), INDEX)
        if given[1] != 1:
            upper = before.one(arith.CeilDivSIOp, (upper, step), INDEX)
        total = before.one(arith.MuliOp, (upper, before.index(self.parts)), INDEX)
        loop.operands = [before.index(0), total, before.index(1), *loop.iter_args]
        for held in (loop.attributes, loop.properties):
            held.pop("unsignedCmp", None)
