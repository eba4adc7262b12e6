"""``scf`` and functions: scalars become phis, tiles lie in buffers that every path fills."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from tilewright.cpu.abi import LOOKS
from tilewright.cpu.codegen.analysis import effects
from tilewright.cpu.codegen.control.loop_values import parts_of, rebuilt
from tilewright.cpu.codegen.control.polls import is_short, poll
from tilewright.cpu.codegen.elementwise.operations import is_poison
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.emitter.table import lowers
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import element_of
from tilewright.cpu.codegen.ir.types import Value
from tilewright.cpu.codegen.loops.tiles import (
    Strided,
    by_slot,
    is_same_buffer,
    only_in_step,
    reads_any,
)
from tilewright.cpu.codegen.products import deferred, extents, packed_operands, running_sums
from tilewright.cpu.codegen.products.state import Round
from tilewright.dialects.nv_tileaa import types as T


def is_tile(value: SSAValue) -> bool:
    """Whether a value is a tile, not a scalar."""
    return isinstance(value.type, T.TileType)


def parts(f: FunctionEmitter, values: Sequence[SSAValue]) -> list[Value]:
    """The numbers of all values that are no tiles."""
    return [part for v in values if not is_tile(v) for part in parts_of(f.values[v])]


def buffers(f: FunctionEmitter, values: Sequence[SSAValue], last: int) -> list[Strided | None]:
    """A buffer for each tile among the values, in use until position ``last``; None for each other value."""
    return [
        f.carried_buffer(element_of(v.type), T.dims_of(v.type), last) if is_tile(v) else None
        for v in values
    ]


def last_use(f: FunctionEmitter, op: Operation) -> int:
    """The last position at which a tile is read that an operation's regions make, or its results."""
    last = f.plan.last_inside[op]
    return max([last, *(f.plan.last_use(r) for r in op.results if is_tile(r))])


def assign(
    f: FunctionEmitter, targets: Sequence[Strided | None], values: Sequence[SSAValue]
) -> None:
    """Write tiles to buffers, all at once: what they are computed from may be in these buffers."""
    pairs = [
        (target, f.tile(value))
        for target, value in zip(targets, values, strict=True)
        if target is not None
    ]
    pairs = [(t, v) for t, v in pairs if not is_same_buffer(t, v) and not is_poison(v)]
    while pairs:
        together = [pair for pair in pairs if pair[0].dims == pairs[0][0].dims]
        others = [pair for pair in pairs if pair[0].dims != pairs[0][0].dims]
        slots = by_slot(target for target, _ in together)
        safe = all(only_in_step(value, slots) for _, value in together)
        crossing = any(reads_any(value, slots) for _, value in others)
        if safe and not crossing:
            f.fill(together)
        else:
            pairs = [(target, f.keep(value, f.now)) for target, value in pairs]
            for pair in pairs:
                f.fill([pair])
            return
        pairs = others


@lowers("scf.if")
def lower_if(f: FunctionEmitter, op: Operation) -> None:
    """A branch; tiles that both sides give are written into buffers of the results, scalars join in phis."""
    b = f.builder
    targets = _buffers_of_results(f, op)
    regions = [region for region in op.regions if region.blocks]
    condition = f.scalar(op.operands[0])
    names = ("then", "else") if len(regions) == 2 else ("then",)
    blocks = [b.append_basic_block(name) for name in names]
    done = b.append_basic_block("endif")
    b.cbranch(condition, blocks[0], blocks[1] if len(blocks) == 2 else done)
    found: list[tuple[list[Value], ir.Block]] = []
    for block, region in zip(blocks, regions, strict=True):
        b.position_at_end(block)
        inner = region.blocks[0]
        f.block(inner)
        last = inner.last_op
        operands = list(last.operands) if last is not None and op.results else []
        assign(f, targets, operands) if operands else None
        scalars = parts(f, operands)
        found.append((scalars, b.block))
        if not b.block.is_terminated:
            b.branch(done)
    b.position_at_end(done)
    _results(f, op.results, targets, llvm.merge(b, found) if op.results else [])


def _results(
    f: FunctionEmitter,
    values: Sequence[SSAValue],
    targets: Sequence[Strided | None],
    scalars: Sequence[Value],
) -> None:
    """Bind values that control brought along."""
    given = iter(scalars)
    for value, target in zip(values, targets, strict=True):
        f.values[value] = rebuilt(value.type, given) if target is None else target


def _buffers_of_results(f: FunctionEmitter, op: Operation) -> list[Strided | None]:
    """A buffer for each tile that a loop carries or a branch gives; that of the loop around it where it goes on with its tile."""
    last = last_use(f, op)
    found: list[Strided | None] = []
    for result in op.results:
        there = f.targets.get(result)
        found += [there] if isinstance(there, Strided) else buffers(f, [result], last)
    return found


@lowers("scf.for")
def lower_for(f: FunctionEmitter, op: Operation) -> None:
    """A counted loop; tiles that it carries lie in buffers, scalars in phis."""
    b = f.builder
    lower, upper, step = (f.scalar(v) for v in op.operands[:3])
    initial = op.operands[3:]
    body = op.regions[0].blocks[0]
    targets = _buffers_of_results(f, op)
    carried_sums = running_sums.of_loop(f, op)
    fresh = running_sums.fresh_positions(carried_sums)
    assign(f, [None if n in fresh else t for n, t in enumerate(targets)], initial)
    running_sums.destinations(f, carried_sums)
    extents.observe(f, op)
    packed_operands.choose_groups(f, op, (lower, upper, step))
    deferred.open_rounds(f, op)
    starts = parts(f, initial)
    compare = b.icmp_unsigned if "unsignedCmp" in op.attributes else b.icmp_signed
    entry, inside, after = b.block, b.append_basic_block("for"), b.append_basic_block("endfor")
    never = b.append_basic_block("never") if fresh else after
    b.cbranch(compare("<", lower, upper), inside, never)
    left = entry
    if fresh:
        b.position_at_end(never)
        assign(f, [t if n in fresh else None for n, t in enumerate(targets)], initial)
        left = b.block
        b.branch(after)
    b.position_at_end(inside)
    counter = b.phi(lower.type)
    counter.add_incoming(lower, entry)
    carried = [b.phi(value.type) for value in starts]
    for phi, value in zip(carried, starts, strict=True):
        phi.add_incoming(value, entry)
    f.values[body.args[0]] = counter
    f.rounds[op] = Round(counter, lower, upper, step)
    _results(f, body.args[1:], targets, carried)
    for value, argument in f.plan.in_place.items():
        if argument in body.args:
            f.targets[value] = f.values[argument]
    if not is_short(op, (lower, upper, step)):
        poll(f, op)
    f.block(body)
    assert body.last_op is not None
    f.now = f.plan.position[body.last_op]
    following = body.last_op.operands
    assign(f, targets, following)
    scalars = parts(f, following)
    again = b.icmp_unsigned(">", b.sub(upper, counter), step)
    advanced = b.add(counter, step)
    latch = b.block
    counter.add_incoming(advanced, latch)
    for phi, value in zip(carried, scalars, strict=True):
        phi.add_incoming(value, latch)
    b.cbranch(again, inside, after)
    b.position_at_end(after)
    results = llvm.merge(b, [(starts, left), (scalars, latch)]) if starts else []
    _results(f, op.results, targets, results)


@lowers("scf.while")
def lower_while(f: FunctionEmitter, op: Operation) -> None:
    """A loop whose test comes first; what its regions hand on lies in buffers."""
    b = f.builder
    before, after = (region.blocks[0] for region in op.regions)
    last = last_use(f, op)
    states = buffers(f, before.args, last)
    held: dict[SSAValue, Strided | None] = dict(zip(before.args, states, strict=True))
    passed = [
        held[first] if (first := f.plan.handed_back.get(result)) else buffers(f, [result], last)[0]
        for result in op.results
    ]
    test = before.last_op
    assert test is not None
    for value, argument, target in zip(test.operands[1:], after.args, passed, strict=True):
        if f.plan.in_place.get(value) is argument and target is not None:
            f.targets[value] = target
    assign(f, states, op.operands)
    starts = parts(f, op.operands)
    entry, head = b.block, b.append_basic_block("while")
    b.branch(head)
    b.position_at_end(head)
    carried = [b.phi(value.type) for value in starts]
    for phi, value in zip(carried, starts, strict=True):
        phi.add_incoming(value, entry)
    _results(f, before.args, states, carried)
    poll(f, op)
    f.block(before)
    f.now = f.plan.position[test]
    flag, *handed = test.operands
    assign(f, passed, handed)
    scalars = parts(f, handed)
    step, done = b.append_basic_block("do"), b.append_basic_block("endwhile")
    b.cbranch(f.scalar(flag), step, done)
    b.position_at_end(step)
    _results(f, after.args, passed, scalars)
    f.block(after)
    assert after.last_op is not None
    f.now = f.plan.position[after.last_op]
    following = after.last_op.operands
    assign(f, states, following)
    scalars_again = parts(f, following)
    may_wait = effects.waits(op)
    if may_wait:
        _give_way(f, op)
    for phi, value in zip(carried, scalars_again, strict=True):
        phi.add_incoming(value, b.block)
    b.branch(head)
    b.position_at_end(done)
    if may_wait and f.waiting is not None:
        f.waiting.end_loop(b, op)
    _results(f, op.results, passed, scalars)


def _give_way(f: FunctionEmitter, op: Operation) -> None:
    """Let others go on where a loop may be waiting for them."""
    if f.coroutine is not None:
        f.coroutine.give_way(f, LOOKS)
    if f.waiting is not None:
        f.waiting.end_round(f.builder, op, alone=f.coroutine is None)


@lowers("return")
def lower_return(f: FunctionEmitter, op: Operation) -> None:
    """The end of a block; of an inlined function the call binds the results."""
