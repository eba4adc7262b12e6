"""``tileas-schedule``: keep products of warpgroups (``wgmma``) in flight across the end of a loop iteration.

A loop of the form ::

    fill a stage for iteration i + stages - 1; wait for the stage of iteration i, multiply, release it

becomes one that waits for the stage of iteration i, starts the product, waits for the product of the iteration before,
releases its stage, and refills that. The tensor cores have a product queued while threads wait for data, release and fill stages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.asynchronous import (
    AsyncDotOp,
    AsyncWaitOp,
    CreateNoneOp,
    FutureWaitOp,
)
from tilewright.dialects.nv_tileas.storage import at_level
from tilewright.dialects.nv_tileas.types import ASYNC_TOKEN
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.hoist_loads import hoist_loads
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.schedule_builder import ScheduleBuilder, carrying

#: The products that go on when an iteration ends: its own.
GOING = 1


@dataclass(frozen=True)
class Schedule(FunctionPass):
    """Keeps warpgroup products in flight across loop iterations."""

    name: ClassVar[str] = "tileas-schedule"

    def rewrite_function(self, func: FuncOp) -> None:
        schedule_products(func)


def schedule_products(func: FuncOp, remarks: Remarks | None = None) -> None:
    """Let the products of a function that can go on into the next iteration of their loop do so, in place.

    Few bytes that an iteration loads for its sums come while they are made. Applies to products by ``wgmma``; remarks
    (``in-flight``) say why others wait.
    """
    remarks = Remarks() if remarks is None else remarks
    hoist_loads(func, remarks)
    for op in list(func.walk()):
        if isinstance(op, S.DotOp) and S.atom_of(op) == "wgmma":
            found = _running(op)
            if isinstance(found, _Running):
                found.rewrite()
                remarks.add("in-flight", "a product stays in flight across iterations", op)
            elif isinstance(op.parent_op(), scf.ForOp):
                remarks.add("in-flight", f"product not kept in flight: {found}", op)


@dataclass(frozen=True, slots=True)
class _Running:
    """A product whose sums a loop carries, and nothing else touches, of operands in a pipeline."""

    dot: S.DotOp
    loop: scf.ForOp
    number: int
    wait: P.ConsumerWaitOp
    release: P.ConsumerReleaseOp

    def rewrite(self) -> None:
        """The loop with the product going on; behind it the sums are waited for."""
        loop, body, dot = self.loop, self.loop.body.block, self.dot
        before = ScheduleBuilder(InsertPoint.before(loop), loop)
        none = before.one(CreateNoneOp, (), ASYNC_TOKEN)
        nothing = before.one(P.CreateNullTokenOp, (self.wait.pipeline,), P.STAGE)
        token, stage = (body.insert_arg(ty, len(body.args)) for ty in (none.type, nothing.type))
        token.name_hint, stage.name_hint = "before", "held"
        here = ScheduleBuilder(InsertPoint.before(dot), dot)
        started = AsyncDotOp.create(
            operands=dot.operands,
            result_types=(dot.result.type, ASYNC_TOKEN),
            properties=dot.properties,
            attributes=dot.attributes,
        )
        here.add(started)
        started.result.name_hint = dot.result.name_hint
        dot.result.replace_all_uses_with(started.result)
        pending = {"pending": b.IntegerAttr(GOING, b.i64)}
        here.add(AsyncWaitOp.create(operands=(token,), properties=pending))
        freed = here.add(P.ConsumerReleaseOp.create(operands=(self.wait.pipeline, stage)))
        for dead in (dot, self.release):
            dead.detach()
            dead.erase()
        self._fill_behind(freed)
        end = body.last_op
        assert end is not None
        end.operands = [*end.operands, started.token, self.wait.result]
        new = carrying(loop, (none, nothing))
        self._take_sums(new)

    def _fill_behind(self, freed: Operation) -> None:
        """What fills a stage comes behind the release of the stage that it waits for."""
        body = self.loop.body.block
        for op in list(body.ops):
            if op is freed:
                return
            if isinstance(op, scf.IfOp) and any(
                isinstance(inner, P.ProducerAcquireOp) and inner.pipeline is self.wait.pipeline
                for inner in op.walk()
            ):
                op.detach()
                body.insert_op_after(op, freed)

    def _take_sums(self, loop: scf.ForOp) -> None:
        sums, token, stage = loop.results[self.number], *loop.results[-2:]
        after = ScheduleBuilder(InsertPoint.after(loop), loop)
        taken = FutureWaitOp.create(operands=(sums, token), result_types=(sums.type,))
        sums.replace_all_uses_with(taken.result)
        taken.operands = (sums, token)
        taken.result.name_hint = sums.name_hint
        after.add(taken)
        after.add(P.ConsumerReleaseOp.create(operands=(self.wait.pipeline, stage)))


def _running(dot: S.DotOp) -> _Running | str:
    """How a product may go on, or why it is waited for in its own iteration."""
    loop = dot.parent_op()
    if not isinstance(loop, scf.ForOp):
        return "it is not in a loop"
    body = loop.body.block
    if T.element_name(T.element_of(dot.c.type)) == "f16":
        return "its accumulator is rounded to f16"
    uses = list(dot.result.uses)
    if len(uses) != 1 or uses[0].operation is not body.last_op:
        return "the iteration uses its accumulator"
    number = uses[0].index
    c = dot.c
    if not isinstance(c, BlockArgument) or c.owner is not body or c.index != number + 1:
        return "it does not accumulate onto the product of the previous iteration"
    if len(list(c.uses)) != 1:
        return "the iteration uses the accumulator of the previous one"
    stages = [_stage_of(value) for value in (dot.a, dot.b)]
    reads = set(stages)
    (read, *others) = reads
    if others or read is None or read.parent is not body:
        return "its operands do not come from one stage of a pipeline"
    views = [use.operation for view in read.views for use in view.uses]
    if any(at_level(user_of(user), body) is not dot for user in views):
        return "the iteration has another read of the stage"
    wait, release = read.stage.owner, None
    for use in read.stage.uses:
        if isinstance(use.operation, P.ConsumerReleaseOp):
            release = use.operation
    if not isinstance(wait, P.ConsumerWaitOp) or release is None or release.parent is not body:
        return "its stage is not released in the same iteration"
    if P.stages_of(wait.pipeline) == 1:
        return "its operands have a single stage, which is refilled as soon as it is read"
    return _Running(dot, loop, number, wait, release)


def user_of(op: Operation) -> Operation:
    """What uses a view in the end, where its axes only change their order before."""
    while isinstance(op, S.PermuteViewOp):
        users = {use.operation for use in op.result.uses}
        if len(users) != 1:
            return op
        (op,) = users
    return op


def _stage_of(value: SSAValue) -> P.ConsumerReadOp | None:
    """What opened the stage that an operand lies in."""
    owner = value.owner
    while isinstance(owner, S.PermuteViewOp | S.ExtractSliceOp):
        owner = owner.source.owner
    return owner if isinstance(owner, P.ConsumerReadOp) else None
