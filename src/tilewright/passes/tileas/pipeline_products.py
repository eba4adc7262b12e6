"""``tileas-ahead``: start the product of the next iteration before using the accumulator of this one.

A loop of the form ::

    wait for a stage, multiply, release it; compute with the accumulator S(i)

becomes ::

    product 0
    for all iterations but the last: start product i + 1; compute with S(i); wait for the product, release its stage
    compute with the last accumulator

In attention the tensor cores then run ``Q K`` of the next iteration while the threads compute the softmax of this one.
The second product, ``P V``, which accumulates across iterations, continues while the next iteration begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from tilewright.dialects import arith
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.asynchronous import AsyncDotOp, CreateNoneOp, FutureWaitOp
from tilewright.dialects.nv_tileas.elementwise import is_elementwise
from tilewright.dialects.nv_tileas.storage import at_level
from tilewright.dialects.nv_tileas.types import ASYNC_TOKEN
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.element_work import element_work
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.producer_order import reorder_fills
from tilewright.passes.tileas.product_candidates import (
    Candidate,
    ProductInFlight,
    fills,
    find_candidate,
    shared,
)
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.schedule_builder import BELOW, BELOW_UNSIGNED, ScheduleBuilder
from tilewright.passes.tileas.warp_counts import DEFAULT_WARPS, block_warps

#: Instructions per accumulator element up to which the iteration uses the accumulator before the next product starts, so that
#: that product can take its registers. Longer work, such as an exponential, overlaps with the product.
_BEFORE = 2


@dataclass(frozen=True)
class PipelineProducts(FunctionPass):
    """Starts the product of the next iteration before the accumulator of this one is used."""

    name: ClassVar[str] = "tileas-ahead"

    num_warps: int = DEFAULT_WARPS

    def rewrite_function(self, func: FuncOp) -> None:
        pipeline_products(func, block_warps(func, self.num_warps))


def pipeline_products(func: FuncOp, warps: int, remarks: Remarks | None = None) -> None:
    """Start the products of loops one iteration ahead, in place, if they are candidates and registers suffice.

    ``warps``: those of a block. Applies to products by ``wgmma``; remarks (``in-flight``) say which, and why others
    are not.
    """
    remarks = Remarks() if remarks is None else remarks
    for op in list(func.walk()):
        if not isinstance(op, S.DotOp) or S.atom_of(op) != "wgmma" or op.parent is None:
            continue
        found = find_candidate(op, warps)
        if isinstance(found, Candidate):
            remarks.add_instead(
                "in-flight",
                "the product of the next iteration starts before the accumulator of this one is used",
                op,
            )
            if found.in_flight is not None:
                why = "a product stays in flight across iterations"
                remarks.add_instead("in-flight", why, found.in_flight.dot)
            pipelines = found.pipelines
            _PipelinedLoop(found).rewrite()
            reorder_fills(func, pipelines)
        elif found:
            remarks.add("in-flight", f"product not started an iteration ahead: {found}", op)


class _PipelinedLoop:
    """The rewrite of a loop whose product starts one iteration ahead."""

    def __init__(self, found: Candidate):
        self.found, self.dot, self.loop, self.in_flight = (
            found,
            found.dot,
            found.loop,
            found.in_flight,
        )

    @property
    def body(self) -> Block:
        return self.loop.body.block

    def rewrite(self) -> None:
        """Replace the loop: each iteration starts the product of the next one. A loop without iterations starts none."""
        loop = self.loop
        before = ScheduleBuilder(InsertPoint.before(loop), loop)
        below = BELOW_UNSIGNED if "unsignedCmp" in loop.attributes else BELOW
        lower, upper, step = loop.operands[:3]
        some = before.compare(below, lower, upper)
        rounds, none = Block(), Block([scf.YieldOp.create(operands=loop.operands[3:])])
        chosen = scf.IfOp.create(
            operands=(some,),
            result_types=[result.type for result in loop.results],
            regions=[Region(rounds), Region(none)],
        )
        before.add(chosen)
        for old, new in zip(loop.results, chosen.results, strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        builder = ScheduleBuilder(InsertPoint.at_end(rounds), loop)
        given, sums = self._first_product(builder)
        second = builder.one(arith.AddiOp, (lower, step), lower.type)
        start = builder.select(builder.compare(below, lower, second), second, upper)
        given += [lower, sums]
        if self.in_flight is not None:
            given.append(builder.one(CreateNoneOp, (), ASYNC_TOKEN))
            given.append(builder.one(P.CreateNullTokenOp, (self.in_flight.wait.pipeline,), P.STAGE))
        iteration = self._advance_product()
        self.loop = _loop_from(loop, start, given)
        builder.add(self.loop)
        builder.add(scf.YieldOp.create(operands=iteration.last(builder, self)))

    def _first_product(self, builder: ScheduleBuilder) -> tuple[list[SSAValue], SSAValue]:
        """Emit the product of iteration 0. Returns the initial loop-carried values and the accumulator."""
        body, loop = self.body, self.loop
        end = body.last_op
        assert end is not None
        values: dict[SSAValue, SSAValue] = {body.args[0]: loop.operands[0]}
        values |= {
            body.args[1 + number]: loop.operands[3 + number] for number in self.found.carried
        }
        for op in (*self.found.early, self.dot, *self.found.releases):
            builder.add(op.clone(values))
        given = list(loop.operands[3:])
        for number in self.found.carried:
            given[number] = values.get(end.operands[number], end.operands[number])
        return given, values[self.dot.result]

    def _advance_product(self) -> _Iteration:
        """Let the counter and the operands of the product in the body be those of the next iteration.

        The loop then also carries the counter and the accumulator of the current iteration.
        """
        body, dot = self.body, self.dot
        end, counter = body.last_op, body.args[0]
        assert end is not None
        own = {*self.found.early, dot, *self.found.releases}
        _rematerialize_shared(self.found, own)
        late = [op for op in body.ops if op not in own and op is not end]
        types = (counter.type, dot.result.type)
        behind, current = (body.insert_arg(ty, len(body.args)) for ty in types)
        current.name_hint = dot.result.name_hint
        for use in list(counter.uses):
            if use.operation not in own:
                use.operation.operands[use.index] = behind
        dot.result.replace_all_uses_with(current)
        early, behind_reduction = self._anchors(late, current)
        here = ScheduleBuilder(
            InsertPoint.before(behind_reduction if self.in_flight else early), dot
        )
        iteration = _Iteration(late, len(end.operands))
        end.operands = [*end.operands, counter]
        if self.in_flight is not None and not self.found.overlaps:
            self._take(self.in_flight, iteration, ScheduleBuilder(InsertPoint.before(early), dot))
        for op in self.found.early:
            op.detach()
            here.add(op)
        if self.in_flight is not None and self.found.overlaps:
            self._take(self.in_flight, iteration, here)
        started = here.add(_started(dot))
        started.results[0].name_hint = "ahead"
        last = ScheduleBuilder(InsertPoint.before(end), dot)
        following = FutureWaitOp.create(
            operands=started.results,
            result_types=(dot.result.type,),
            properties={} if self.in_flight is None else {"pending": b.IntegerAttr(1, b.i64)},
        )
        last.add(following)
        for op in self.found.releases:
            op.detach()
            last.add(op)
        dot.detach()
        dot.erase()
        end.operands = [*end.operands, following.result]
        if self.in_flight is not None:
            self._leave_in_flight(self.in_flight, iteration)
        return iteration

    def _take(
        self, in_flight: ProductInFlight, iteration: _Iteration, here: ScheduleBuilder
    ) -> None:
        """Wait for the second product of the previous iteration, and release its stage."""
        body = self.body
        token, stage = (body.insert_arg(ty, len(body.args)) for ty in (ASYNC_TOKEN, P.STAGE))
        sums = body.args[1 + in_flight.number]
        taken = FutureWaitOp.create(operands=(sums, token), result_types=(sums.type,))
        here.add(taken)
        sums.replace_all_uses_with(taken.result)
        taken.operands = (sums, token)
        taken.result.name_hint = sums.name_hint
        here.add(P.ConsumerReleaseOp.create(operands=(in_flight.wait.pipeline, stage)))
        for op in iteration.ops:
            if fills(op):
                op.detach()
                here.add(op)
        iteration.taken = {taken.result: sums}

    def _leave_in_flight(self, in_flight: ProductInFlight, iteration: _Iteration) -> None:
        """Start the second product without waiting for it; the next iteration waits."""
        dot, end = in_flight.dot, self.body.last_op
        assert end is not None
        started = ScheduleBuilder(InsertPoint.before(dot), dot).add(_started(dot))
        dot.result.replace_all_uses_with(started.results[0])
        for op in (dot, in_flight.release):
            op.detach()
        iteration.made = {started.results[0]: dot.result}
        end.operands = [*end.operands, started.results[1], in_flight.wait.result]

    def _anchors(self, late: Sequence[Operation], sums: SSAValue) -> tuple[Operation, Operation]:
        """In front of what the iteration may wait for tensor cores, and have them start: at first where the sums are used,
        then where they have been reduced. What makes a tile of the sums, and nothing else does, comes before, and so does
        what uses them last where little is computed up to there: the next ones may have their registers. Both stay behind
        what fills stages, and before what uses other sums."""
        body, end = self.body, self.body.last_op
        assert end is not None
        places = {op: number for number, op in enumerate((*late, end))}
        elements = prod(T.dims_of(sums.type))
        tops = [at_level(use.operation, body) for use in sums.uses]
        first = min(places[top] for top in tops)
        if len(tops) == 1 and is_elementwise(tops[0]):
            first += 1
        filled = max((number for op, number in places.items() if fills(op)), default=-1)
        first = max(first, filled + 1)
        second = next(
            (n + 1 for op, n in places.items() if n >= first and op.name == tile_ops.REDUCE), first
        )
        ordered = list(places)
        for place in sorted(places[top] for top in tops if is_elementwise(top)):
            if place >= second and element_work(ordered[second:place]) <= _BEFORE * elements:
                second = place + 1
        if self.in_flight is not None:
            carried = body.args[1 + self.in_flight.number]
            used = min(places[at_level(use.operation, body)] for use in carried.uses)
            first, second = min(first, used), min(second, used)
        return ordered[first], ordered[second]


@dataclass(slots=True)
class _Iteration:
    """What an iteration does with the sums of its product, in order, in a body that has the next product, too. ``count``: the
    values that the loop carried before."""

    ops: list[Operation]
    count: int
    taken: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    made: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def last(self, builder: ScheduleBuilder, ahead: _PipelinedLoop) -> list[SSAValue]:
        """What the last iteration does, behind the loop, where it waits for its second product; what all iterations leave."""
        loop, in_flight = ahead.loop, ahead.in_flight
        body = loop.body.block
        end = body.last_op
        assert end is not None
        values: dict[SSAValue, SSAValue] = dict(zip(body.args[1:], loop.results, strict=True))
        if in_flight is not None:
            token, stage = loop.results[-2:]
            for result, sums in self.taken.items():
                found = FutureWaitOp.create(
                    operands=(values[sums], token), result_types=(sums.type,)
                )
                values[result] = builder.add(found).results[0]
            builder.add(P.ConsumerReleaseOp.create(operands=(in_flight.wait.pipeline, stage)))
        for op in self.ops:
            builder.add(op.clone(values))
        values |= {started: values[dot] for started, dot in self.made.items()}
        if in_flight is not None:
            in_flight.release.erase()
            in_flight.dot.erase()
        return [
            loop.results[number] if number in ahead.found.carried else values.get(value, value)
            for number, value in enumerate(end.operands[: self.count])
        ]


def _started(dot: S.DotOp) -> AsyncDotOp:
    """A product that goes on, instead of one that is waited for."""
    return AsyncDotOp.create(
        operands=dot.operands,
        result_types=(dot.result.type, ASYNC_TOKEN),
        properties=dot.properties,
        attributes=dot.attributes,
    )


def _loop_from(loop: scf.ForOp, start: SSAValue, given: Sequence[SSAValue]) -> scf.ForOp:
    """The loop from ``start`` on, that begins with what is ``given``; in the place of none."""
    region = loop.body
    loop.detach_region(region)
    new = scf.ForOp.create(
        operands=[start, *loop.operands[1:3], *given],
        result_types=[value.type for value in given],
        attributes=loop.attributes,
        properties=loop.properties,
        regions=[region],
    )
    for result, argument in zip(new.results, region.block.args[1:], strict=True):
        result.name_hint = argument.name_hint
    loop.detach()
    loop.erase()
    return new


def _rematerialize_shared(found: Candidate, own: set[Operation]) -> None:
    """Compute again for the others what they share with the product."""
    values: dict[SSAValue, SSAValue] = {}
    for op in shared(found.early, own, found.loop, found.carried):
        again = op.clone(values)
        ScheduleBuilder(InsertPoint.after(op), op).add(again)
        for mine, result in zip(op.results, again.results, strict=True):
            for use in list(mine.uses):
                if use.operation not in own and not found.keeps(use):
                    use.operation.operands[use.index] = result
