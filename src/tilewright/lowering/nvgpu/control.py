"""``scf``: conditions and bounds are uniform across the block, so all threads take the same path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects import arith as A
from xdsl.dialects import scf
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileas.pipelines import PipelineIteratorType, StageType
from tilewright.dialects.nv_tileas.types import AsyncTokenType
from tilewright.dialects.upstream.arith import vectors as V
from tilewright.lowering.nvgpu.accumulators import to_fragments, to_tile
from tilewright.lowering.nvgpu.fragments import FragmentLayout, Fragments
from tilewright.lowering.nvgpu.mma import carried_layouts
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.table import lowers
from tilewright.lowering.nvgpu.types import I64, scalar_of


def is_order(ty: Attribute) -> bool:
    """Whether values of a type only order operations, and so have no run-time value."""
    return isinstance(ty, T.MemTokenType | AsyncTokenType)


def carried(low: ThreadLowering, values: Sequence[SSAValue]) -> list[SSAValue]:
    """The values that exist at run time: all but tokens.

    Raises ``TileIRError`` (``not-lowered-to-threads``) for types other than scalars, tiles, iterators and stages of
    pipelines.
    """
    found: list[SSAValue] = []
    for value in values:
        if is_order(value.type):
            continue
        if not T.is_scalar_or_tile(value.type) and not isinstance(
            value.type, PipelineIteratorType | StageType
        ):
            raise low.refuse(f"it carries a value of type '{value.type}'")
        found.append(value)
    return found


def _types(low: ThreadLowering, values: Sequence[SSAValue]) -> list[Attribute]:
    return [low.type_of(value.type) for value in carried(low, values)]


def bind_all(low: ThreadLowering, old: Sequence[SSAValue], new: Sequence[SSAValue]) -> None:
    """Bind the results or arguments of control flow; tokens have no run-time value."""
    given = iter(new)
    for value in old:
        low.bind(value, None if is_order(value.type) else next(given))


def block_of(
    low: ThreadLowering, op: Operation, old: Block, arguments: Sequence[SSAValue]
) -> Block:
    """A new block with the lowered operations of ``old``; its arguments are bound to ``arguments``."""
    new = Block(arg_types=_types(low, arguments))
    bind_all(low, arguments, new.args)
    with low.building(new):
        low.enter_regions(op)
        low.block_body(old)
    return new


def _yielded(low: ThreadLowering, op: Operation | None) -> list[SSAValue]:
    if op is None:
        return []
    found: list[SSAValue] = []
    for value in carried(low, op.operands):
        held = low.held[value]
        found += held.parts if isinstance(held, Fragments) else [low.value(value)]
    return found


@lowers("scf.if")
def lower_if(low: ThreadLowering, op: scf.IfOp) -> None:
    """The same ``scf.if`` on per-thread values; a select in the body of an element-wise region."""
    if low.lanes is not None:
        _choose(low, op)
        return
    regions: list[Region] = []
    for region in op.regions:
        blocks = list(region.blocks)
        if not blocks:
            regions.append(Region())
            continue
        regions.append(Region(block_of(low, op, blocks[0], ())))
    low.enter_regions(op)
    condition = low.value(op.operands[0])
    results = low.emit(scf.IfOp, (condition,), _types(low, op.results), regions=regions)
    bind_all(low, op.results, results)


def _choose(low: ThreadLowering, op: scf.IfOp) -> None:
    """Lower an ``scf.if`` whose condition differs by element: run both branches and select.

    Safe because neither has effects.
    """
    condition, outer = low.value(op.operands[0]), low.chosen
    found: list[list[SSAValue]] = []
    for region in op.regions:
        takes = low.binary(A.XOrIOp, condition, 1) if found else condition
        low.chosen = low.both(outer, takes)
        *operations, end = region.blocks[0].ops
        for inner in operations:
            low.lower(inner)
        found.append(low.values(carried(low, end.operands)))
    low.chosen = outer
    chosen = [low.select(condition, yes, no) for yes, no in zip(*found, strict=True)]
    bind_all(low, op.results, chosen)


def _refuse_in_body(low: ThreadLowering) -> None:
    if low.lanes is not None:
        raise low.refuse(
            "it is in a per-element body, whose trip count may differ between elements"
        )


@lowers("scf.yield")
def lower_yield(low: ThreadLowering, op: scf.YieldOp) -> None:
    """Yields the per-thread values. Tokens are dropped."""
    low.emit(scf.YieldOp, _yielded(low, op))


@lowers("scf.condition")
def lower_condition(low: ThreadLowering, op: scf.ConditionOp) -> None:
    """The condition and the per-thread values that are passed on."""
    low.emit(
        scf.ConditionOp, (low.value(op.operands[0]), *low.values(carried(low, op.operands[1:])))
    )


@lowers("scf.for")
def lower_for(low: ThreadLowering, op: scf.ForOp) -> None:
    """The same ``scf.for`` on per-thread values.

    A loop with unsigned bounds counts in 64 bits, or counts its iterations if the bounds have 64 bits. Raises
    ``not-lowered-to-threads`` within an element-wise region.
    """
    _refuse_in_body(low)
    bounds = [low.value(value) for value in op.operands[:3]]
    body = op.regions[0].blocks[0]
    counter = body.args[0]
    ty = low.type_of(counter.type)
    first, _, step = bounds
    is_wide = scalar_of(ty) == I64
    widens = "unsignedCmp" in op.attributes
    if widens and is_wide:
        bounds = [low.constant(0, I64), _iterations(low, *bounds), low.constant(1, I64)]
    elif widens:
        bounds = [low.one(V.ExtUIOp, (value,), I64) for value in bounds]
    layouts = carried_layouts(low, op)
    initial = _entering(low, op.operands[3:], layouts)
    types = [value.type for value in initial]
    new = Block(arg_types=[I64 if widens else ty, *types])
    new.args[0].name_hint = counter.name_hint
    with low.building(new):
        number: SSAValue = new.args[0]
        if widens and is_wide:
            number = low.plus(first, low.binary(A.MuliOp, number, step))
        elif widens:
            number = low.one(V.TruncIOp, (number,), ty)
        low.bind(counter, number)
        _bind_carried(low, body.args[1:], new.args[1:], layouts)
        low.enter_regions(op)
        low.block_body(body)
    low.enter_regions(op)
    results = low.emit(scf.ForOp, (*bounds, *initial), types, regions=[Region(new)])
    _bind_carried(low, op.results, results, layouts)
    for place in layouts:
        held = low.held[op.results[place]]
        assert isinstance(held, Fragments)
        low.bind(op.results[place], to_tile(low, held))


def _iterations(low: ThreadLowering, first: SSAValue, end: SSAValue, step: SSAValue) -> SSAValue:
    """How often a loop with unsigned bounds of 64 bits runs, at most the largest signed number: a loop of more never ends."""
    last = low.binary(A.SubiOp, low.binary(A.SubiOp, end, first), 1)
    rest = low.binary(A.DivUIOp, last, step)
    # One more would wrap where the step is 1 and the range all numbers.
    count = low.plus(low.binary(A.MinUIOp, rest, (1 << 63) - 2), 1)
    return low.select(low.compare("ult", first, end), count, low.constant(0, I64))


def _entering(
    low: ThreadLowering, values: Sequence[SSAValue], layouts: Mapping[int, FragmentLayout]
) -> list[SSAValue]:
    """The initial loop-carried values; accumulators enter as fragments."""
    carried(low, values)
    found: list[SSAValue] = []
    for number, value in enumerate(values):
        if number in layouts:
            found += to_fragments(low, low.value(value), layouts[number]).parts
        elif not is_order(value.type):
            found.append(low.value(value))
    return found


def _bind_carried(
    low: ThreadLowering,
    old: Sequence[SSAValue],
    new: Sequence[SSAValue],
    layouts: Mapping[int, FragmentLayout],
) -> None:
    """Bind the loop-carried values."""
    given = iter(new)
    for number, value in enumerate(old):
        layout = layouts.get(number)
        if layout is not None:
            parts = tuple(next(given) for _ in layout.places())
            low.bind(value, Fragments(layout, parts))
        else:
            low.bind(value, None if is_order(value.type) else next(given))


@lowers("scf.while")
def lower_while(low: ThreadLowering, op: scf.WhileOp) -> None:
    """The same ``scf.while`` on per-thread values.

    Raises ``not-lowered-to-threads`` within an element-wise region.
    """
    _refuse_in_body(low)
    initial = low.values(carried(low, op.operands))
    regions: list[Region] = []
    for region in op.regions:
        body = region.blocks[0]
        regions.append(Region(block_of(low, op, body, body.args)))
    low.enter_regions(op)
    results = low.emit(scf.WhileOp, initial, _types(low, op.results), regions=regions)
    bind_all(low, op.results, results)


@lowers("ub.poison")
def lower_poison(low: ThreadLowering, op: Any) -> None:
    """Poison becomes zero, since no defined program reads it."""
    result = op.results[0]
    if isinstance(result.type, T.MemTokenType):
        low.bind(result, None)
        return
    low.bind(result, low.constant(0, low.type_of(result.type)))
