"""The pass ``loop-split``: splits a loop that branches on its counter into two loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from tilewright.diagnostics import TileIRError, define_code
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.enums import (
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tilewright.dialects.cuda_tile.ops.control_flow import ForOp, IfOp
from tilewright.dialects.cuda_tile.ops.integer import (
    NO_FLAGS,
    AddIOp,
    CmpIOp,
    DivIOp,
    MaxIOp,
    MinIOp,
    MulIOp,
    SubIOp,
)
from tilewright.dialects.cuda_tile.ops.matrix import MmaFOp, MmaIOp
from tilewright.dialects.cuda_tile.ops.memory import LoadPtrTkoOp, StorePtrTkoOp
from tilewright.dialects.cuda_tile.ops.module import FUNCTIONS
from tilewright.dialects.cuda_tile.ops.reductions import ReduceOp
from tilewright.dialects.cuda_tile.ops.views import LoadViewTkoOp, StoreViewTkoOp
from tilewright.dialects.cuda_tile.types import TileType
from tilewright.dialects.declare import enum_property
from tilewright.dialects.source_map import location_of
from tilewright.numerics.element_types import FORMATS
from tilewright.passes.base import (
    TilePass,
    clone_with_locations,
    functions,
    insert_before,
    replace_op,
)
from tilewright.passes.matching import (
    branches,
    is_defined_in,
    make_constant,
    splat_of,
)
from tilewright.passes.rules_if import inline_branch

#: A discardable attribute that overrides the pass's threshold.
THRESHOLD_ATTRIBUTE = "cuda_tile.loop_split"

BAD_THRESHOLD = define_code(
    "loop-split-threshold",
    "The attribute cuda_tile.loop_split is a non-negative integer.",
    "It overrides the option split-threshold on an if, a for or an entry; 0 disables splitting.",
)

#: A branch that directly contains one of these is worth a split whatever its size.
COSTLY = (
    LoadPtrTkoOp,
    StorePtrTkoOp,
    LoadViewTkoOp,
    StoreViewTkoOp,
    MmaFOp,
    MmaIOp,
    ReduceOp,
    IfOp,
    ForOp,
)

_MIRRORED = {
    "less_than": "greater_than",
    "less_than_or_equal": "greater_than_or_equal",
    "greater_than": "less_than",
    "greater_than_or_equal": "less_than_or_equal",
}
#: Predicates that are true below the split point, and those for which the bound itself is below it.
_TRUE_BELOW = ("less_than", "less_than_or_equal")
_BOUND_BELOW = ("less_than_or_equal", "greater_than")

# Each split copies a body, so nested splits multiply. Beyond this growth splitting stops.
_GROWTH = 16
_ALWAYS_ALLOWED = 1 << 14


@dataclass(frozen=True)
class LoopSplit(TilePass):
    """Splits a ``for`` at the point where a comparison of its counter changes.

    Applies to an ``if`` directly in the body whose condition is a ``cmpi`` of the counter with a
    value defined outside the loop, by less_than, greater_than or their or_equal forms, in the
    signedness of the loop. The first loop runs below the split point, the second from it on;
    loop-carried values pass through both. Every if directly in the body with that condition is
    replaced by the branch it takes; if the comparison has other users it becomes a constant. Each
    run splits a ``for`` at most once.

    ``split-threshold``: a split pays if a branch has at least that many operations (1: always) or
    contains a load, store, mmaf, mmai, reduce, if or for; 0 turns the pass off. The integer
    attribute ``cuda_tile.loop_split`` on the if, for or entry overrides it, in this order.

    The split point is exact for every input: bounds are clamped to the loop's range before anything
    is added or multiplied. Cost: duplicates the body. A function grows to at most 16 times its size
    (or to 16384 operations, if that is more); then splitting stops.
    """

    name: ClassVar[str] = "loop-split"
    split_threshold: int = 1

    def __post_init__(self) -> None:
        if self.split_threshold < 0:
            raise ValueError(f"split-threshold must not be negative, got {self.split_threshold}")

    def rewrite(self, root: Operation) -> None:
        for function in functions(root):
            ops = list(function.walk())
            size = len(ops)
            limit = max(_GROWTH * size, _ALWAYS_ALLOWED)
            # An outer loop precedes its inner loops, so walking backwards visits inner loops first.
            for loop in reversed(ops):
                if not isinstance(loop, ForOp):
                    continue
                found = find_split(loop, self.split_threshold)
                if found is None:
                    continue
                size += sum(1 for _ in loop.walk())
                if size > limit:
                    break
                split(loop, found)


@dataclass(frozen=True, slots=True)
class Split:
    """Where a loop can be split. The predicate has the counter on its left."""

    comparison: CmpIOp
    predicate: str
    bound: SSAValue


def find_split(loop: ForOp, threshold: int) -> Split | None:
    """Return the first worthwhile split that an ``if`` directly in the body offers, or None.

    ``threshold``: the operations that a branch has at least; 1 splits always, 0 never. The attribute
    ``cuda_tile.loop_split`` of the branch, the loop or the entry overrides it. Raises ``TileIRError``
    (``loop-split-threshold``) if that is no such number.
    """
    body = loop.body.block
    for op in body.ops:
        if not isinstance(op, IfOp):
            continue
        split = _split_of(loop, body, op.condition)
        if split is not None and _pays(op, _threshold(op, loop, threshold)):
            return split
    return None


def _split_of(loop: ForOp, body: Block, condition: SSAValue) -> Split | None:
    comparison = condition.owner
    if not isinstance(comparison, CmpIOp):
        return None
    signedness = "unsigned" if _is_unsigned(loop) else "signed"
    predicate = enum_property(comparison, "comparison_predicate")
    if predicate not in _MIRRORED or enum_property(comparison, "signedness") != signedness:
        return None
    counter = body.args[0]
    if comparison.lhs is counter:
        bound = comparison.rhs
    elif comparison.rhs is counter:
        bound, predicate = comparison.lhs, _MIRRORED[predicate]
    else:
        return None
    # A signed i1 has no positive step, so there is nothing to gain.
    if is_defined_in(bound, body) or _counter_type(loop).element == "i1":
        return None
    return Split(comparison, predicate, bound)


def _is_unsigned(loop: ForOp) -> bool:
    return loop.unsignedCmp is not None


def _counter_type(loop: ForOp) -> TileType:
    ty = loop.lowerBound.type
    assert isinstance(ty, TileType)
    return ty


def _threshold(branch: IfOp, loop: ForOp, default: int) -> int:
    """Return the threshold for an ``if``: its own, its loop's, its entry's or the option."""
    function = loop.parent_op()
    while function is not None and not isinstance(function, FUNCTIONS):
        function = function.parent_op()
    for op in (branch, loop, function):
        attribute = None if op is None else op.attributes.get(THRESHOLD_ATTRIBUTE)
        if attribute is None or op is None:
            continue
        if isinstance(attribute, IntegerAttr) and attribute.value.data >= 0:
            return attribute.value.data
        raise TileIRError.single(
            BAD_THRESHOLD,
            f"expected '{THRESHOLD_ATTRIBUTE}' to be a non-negative integer, got {attribute}",
            location_of(op),
        )
    return default


def _pays(op: IfOp, threshold: int) -> bool:
    if threshold <= 1:
        return threshold == 1
    for block in branches(op):
        if block is None:
            continue
        inner = list(block.ops)[:-1]
        if len(inner) >= threshold or any(isinstance(o, COSTLY) for o in inner):
            return True
    return False


def split(loop: ForOp, where: Split) -> None:
    """Split a loop in place, as ``find_split`` found. The original becomes the second loop, so the users of its
    results stay.
    """
    rewriter = PatternRewriter(InsertPoint.before(loop))
    first_end, second_start = _boundaries(_Emitter(loop, rewriter), loop, where)
    values: dict[SSAValue, SSAValue] = {}
    first = clone_with_locations(loop, values)
    assert isinstance(first, ForOp)
    rewriter.insert(first, InsertPoint.before(loop))
    first.operands = (loop.lowerBound, first_end, loop.step, *loop.initValues)
    loop.operands = (second_start, loop.upperBound, loop.step, *first.results)
    comparison = values[where.comparison.result].owner
    assert isinstance(comparison, CmpIOp)
    below = where.predicate in _TRUE_BELOW
    _specialize(first, comparison, below, rewriter)
    _specialize(loop, where.comparison, not below, rewriter)


def _specialize(loop: ForOp, comparison: CmpIOp, value: bool, rewriter: PatternRewriter) -> None:
    """Specialize a loop for a comparison whose outcome is the same in every iteration."""
    for op in list(loop.body.block.ops):
        # Inlining a branch that ends in an exit erases everything after it.
        still_there = op.parent is not None
        if still_there and isinstance(op, IfOp) and op.condition is comparison.result:
            inline_branch(op, branches(op)[0 if value else 1], rewriter)
    if not comparison.result.uses:
        rewriter.erase(comparison)
        return
    ty = comparison.result.type
    assert isinstance(ty, TileType)
    replace_op(rewriter, comparison, make_constant(ty, value))


@dataclass(slots=True)
class _Emitter:
    """Emits scalar operations before a loop, in the signedness of its counter."""

    loop: ForOp
    rewriter: PatternRewriter

    def __call__(
        self, kind: type[TileOp], *operands: SSAValue, **properties: Attribute
    ) -> SSAValue:
        op = kind.create(operands=operands, properties=properties, result_types=[operands[0].type])
        insert_before(self.rewriter, self.loop, op)
        return op.results[0]

    def constant(self, number: int) -> SSAValue:
        op = make_constant(_counter_type(self.loop), number)
        insert_before(self.rewriter, self.loop, op)
        return op.result

    @property
    def signedness(self) -> SignednessAttr:
        unsigned = _is_unsigned(self.loop)
        return SignednessAttr(Signedness.UNSIGNED if unsigned else Signedness.SIGNED)

    def min(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self(MinIOp, lhs, rhs, signedness=self.signedness)

    def max(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self(MaxIOp, lhs, rhs, signedness=self.signedness)

    def add(self, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self(AddIOp, lhs, rhs, overflow=NO_FLAGS)


def _boundaries(emit: _Emitter, loop: ForOp, where: Split) -> tuple[SSAValue, SSAValue]:
    """Return the end of the first loop and the start of the second."""
    lower, upper, step = loop.lowerBound, loop.upperBound, loop.step
    point = _split_point(emit, loop, where)
    if splat_of(step) == 1:
        return emit.min(point, upper), emit.max(point, lower)
    # Round up to the loop's grid of counter values. Within the loop's bounds, the distance from
    # the lower bound is an unsigned number of the same width. The first grid point at or after
    # the split exists, since otherwise the counter would overflow before the upper bound.
    inside = emit.max(emit.min(point, upper), lower)
    distance = emit(SubIOp, inside, lower, overflow=NO_FLAGS)
    trips = emit(
        DivIOp,
        distance,
        step,
        signedness=SignednessAttr(Signedness.UNSIGNED),
        rounding=RoundingModeAttr(RoundingMode.POSITIVE_INF),
    )
    length = emit(MulIOp, trips, step, overflow=NO_FLAGS)
    on_grid = emit.add(lower, length)
    return emit.min(on_grid, upper), on_grid


def _split_point(emit: _Emitter, loop: ForOp, where: Split) -> SSAValue:
    """Return the least counter for which the comparison has its second outcome."""
    if where.predicate not in _BOUND_BELOW:
        return where.bound
    bits = FORMATS[_counter_type(loop).element].bits
    largest = (1 << bits) - 1 if _is_unsigned(loop) else (1 << (bits - 1)) - 1
    known = splat_of(where.bound)
    if known is not None:
        number = int(known) & ((1 << bits) - 1) if _is_unsigned(loop) else int(known)
        return emit.constant(min(number, largest - 1) + 1)
    # The counter is below the upper bound, hence at most largest - 1. A larger bound compares the
    # same, and adding one to the clamped bound cannot wrap.
    clamped = emit.min(where.bound, emit.constant(largest - 1))
    return emit.add(clamped, emit.constant(1))
