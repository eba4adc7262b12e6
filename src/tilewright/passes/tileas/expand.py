"""``tileas-expand``: software-pipeline asynchronous copies by moving their start to earlier iterations.

A loop of the form ::

    start the copies of iteration i {ahead = n}; wait for them; compute

becomes a prologue that starts n iterations' copies, followed by ::

    wait for the copies of iteration i; compute; start those of iteration i + n

Copies of iterations that do not exist are not started. Copies by threads (``cp.async``) form groups that complete in order;
copies by tensor maps go to the stages of a pipeline, whose barriers say when a stage is full.

If n equals the number of stages, a stage is refilled behind its last reader in the iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import builtin as b
from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from tilewright.dialects import arith
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import Load
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.asynchronous import AsyncCopy, AsyncGroupOp, AsyncWaitOp
from tilewright.dialects.nv_tileas.storage import at_level, base_of
from tilewright.dialects.nv_tileas.types import ASYNC_TOKEN, TiledViewType
from tilewright.numerics.element_types import FORMATS
from tilewright.passes.tileaa.matching import integer_of
from tilewright.passes.tileas import tile_ops
from tilewright.passes.tileas.cleanup import erase_unused
from tilewright.passes.tileas.function_pass import FunctionPass
from tilewright.passes.tileas.schedule_builder import (
    BELOW,
    BELOW_UNSIGNED,
    EQUAL,
    INDEX,
    ScheduleBuilder,
    carrying,
)

_MOVES = (tile_ops.PERMUTE, *tile_ops.RESHAPES)
#: The bits of a register.
_WORD = 32


@dataclass(frozen=True)
class Expand(FunctionPass):
    """Moves the start of asynchronous copies to earlier iterations of their loop."""

    name: ClassVar[str] = "tileas-expand"

    def rewrite_function(self, func: FuncOp) -> None:
        expand(func)


def expand(func: FuncOp) -> None:
    """Expand the loops of a function whose copies say how many iterations ahead they start, in place.

    Pipelines (copies by tensor maps) come before groups (``cp.async`` of threads), and outer loops before inner ones. Both read
    ``ahead`` of the operation that closes the copies of an iteration, and remove it: it then starts the copies of ``ahead``
    iterations in front of the loop, which carries one counter more, of the iteration whose copies start next.
    A loop stays as it is, and so right but slower, where this order cannot be had: its commits have different ``ahead``, its
    iterators or stages are not carried by the loop, or, with as many iterations ahead as there are stages, an iteration does not
    release a stage exactly once. Nothing is raised.
    """
    for op in list(func.walk()):
        if isinstance(op, scf.ForOp):
            _expand_groups(_expand_pipelines(op))


@dataclass(frozen=True, slots=True)
class _Counters:
    """The counter of an iteration and that of the iteration before it, where that is known, and the bound of the loop."""

    before: SSAValue | None
    own: SSAValue
    upper: SSAValue


class _Starts:
    """The operations of a loop that start the copies of an iteration, and what in the iteration they come from."""

    def __init__(self, loop: scf.ForOp, starts: Sequence[Operation]):
        self.loop, self.body, self.starts = loop, loop.body.block, starts
        found = _sources(self.body, starts)
        self.needs = [op for op in self.body.ops if op in found]

    @property
    def loaded(self) -> list[Load]:
        """The loads that have to be made before the copies can begin."""
        return [op for op in self.needs if isinstance(op, Load)]

    def of_round(
        self, builder: ScheduleBuilder, counters: _Counters, given: Mapping[SSAValue, SSAValue]
    ) -> None:
        """Start the copies of an iteration, if there is such an iteration. ``given``: what stands for values of the iteration."""
        block = Block()
        inner = ScheduleBuilder(InsertPoint.at_end(block), self.loop)
        values: dict[SSAValue, SSAValue] = {self.body.args[0]: counters.own, **given}
        for op in self.starts:
            self._copy_needs(inner, _sources(self.body, [op]), values)
            inner.add(op.clone(values)).properties.pop("ahead", None)
        inner.add(scf.YieldOp.create())
        erase_unused(list(block.ops))
        empty = Block([scf.YieldOp.create()])
        condition = self.is_round(builder, counters)
        builder.add(scf.IfOp.create(operands=(condition,), regions=[Region(block), Region(empty)]))

    def _copy_needs(
        self, inner: ScheduleBuilder, wanted: Iterable[Operation], values: dict[SSAValue, SSAValue]
    ) -> list[Operation]:
        """Copies of what operations come from, as far as there are none in ``values`` yet."""
        needed = set(wanted)
        missing = [op for op in self.needs if op in needed and op.results[0] not in values]
        return [inner.add(op.clone(values)) for op in missing]

    def is_round(self, builder: ScheduleBuilder, counters: _Counters) -> SSAValue:
        """Whether there is an iteration: its counter is below the bound, and has not wrapped."""
        below = BELOW_UNSIGNED if "unsignedCmp" in self.loop.attributes else BELOW
        condition = builder.compare(below, counters.own, counters.upper)
        if counters.before is None:
            return condition
        grows = builder.compare(below, counters.before, counters.own)
        return builder.one(arith.AndIOp, (condition, grows), b.i1)

    def load_early(self, builder: ScheduleBuilder, counters: _Counters) -> dict[SSAValue, SSAValue]:
        """Load what says where the copies of an iteration lie, at the beginning of the iteration that starts them at its end; where
        there is no such iteration, what says it of the iteration that runs. The values by those that they stand for."""
        wanted = self.loaded
        if not wanted:
            return {}
        own: SSAValue = self.body.args[0]
        values: dict[SSAValue, SSAValue] = {
            own: builder.select(self.is_round(builder, counters), counters.own, own)
        }
        made = self._copy_needs(builder, {*wanted, *_sources(self.body, wanted)}, values)
        found: dict[SSAValue, SSAValue] = {op.moved: values[op.moved] for op in wanted}
        erase_unused(made, keep=set(found.values()))
        return found

    def erase(self) -> None:
        """Take the operations away, and what nothing else needs."""
        for op in reversed(self.starts):
            op.detach()
            op.erase()
        erase_unused(self.needs)


def _sources(body: Block, ops: Iterable[Operation]) -> set[Operation]:
    """The operations of a block that give what others take, and what these take, but not the others themselves."""
    own = set(ops)
    found: set[Operation] = set()
    waiting = [value for op in own for value in op.operands]
    while waiting:
        owner = waiting.pop().owner
        if isinstance(owner, Operation) and owner.parent is body and owner not in found | own:
            found.add(owner)
            waiting += owner.operands
    return found


def _ahead(op: AsyncGroupOp | P.ProducerCommitOp) -> int:
    """How many iterations before its own an operation says that the copies start."""
    return int_property(op, "ahead") if "ahead" in op.properties else 0


# Pipelines.


def _expand_pipelines(loop: scf.ForOp) -> scf.ForOp:
    """Let the stages of pipelines be filled rounds ahead; the loop that there is then."""
    body = loop.body.block
    commits = [op for op in body.ops if isinstance(op, P.ProducerCommitOp) and _ahead(op)]
    acquired = [_acquired(op) for op in commits]
    iterators = [op.iterator for op in acquired]
    carried = [it for it in iterators if isinstance(it, BlockArgument) and it.owner is body]
    rounds = {_ahead(op) for op in commits}
    if len(carried) < len(commits) or len(rounds) != 1:
        return loop
    pipelines = [op.pipeline for op in commits]
    starts = [_Starts(loop, _filling(acquired))]
    places = [InsertPoint.at_start(body)]
    refills = any(_ahead(op) >= P.stages_of(op.pipeline) for op in commits)
    if refills:
        releases = [_release(body, pipeline) for pipeline in pipelines]
        places = [InsertPoint.after(op) for op in releases if op is not None]
        if len(places) < len(commits):
            return loop
        starts = [_Starts(loop, _filling([op])) for op in acquired]
    before = ScheduleBuilder(InsertPoint.before(loop), loop)
    lower, upper, step = loop.operands[:3]
    counters = _Counters(None, lower, upper)
    now: list[SSAValue] = [loop.operands[2 + it.index] for it in carried]
    for _ in range(rounds.pop()):
        for each in starts:
            each.of_round(before, counters, dict(zip(carried, now, strict=True)))
        now = _following(before, pipelines, now)
        counters = _Counters(
            counters.own, before.one(arith.AddiOp, (counters.own, step), lower.type), upper
        )
    more = [counters.own, *now]
    counter, *own = (body.insert_arg(value.type, len(body.args)) for value in more)
    counter.name_hint = "ahead"
    given = dict[SSAValue, SSAValue](zip(carried, own, strict=True))
    builders = [ScheduleBuilder(place, loop) for place in places]
    for each, builder in zip(starts, builders, strict=True):
        each.of_round(builder, _Counters(body.args[0], counter, upper), given)
    end = body.last_op
    assert end is not None
    inner = ScheduleBuilder(InsertPoint.before(end), loop) if refills else builders[0]
    following = [inner.one(arith.AddiOp, (counter, step), counter.type)]
    following += _following(inner, pipelines, own)
    for each in starts:
        each.erase()
    end.operands = [*end.operands, *following]
    return carrying(loop, more)


def _filling(acquired: Sequence[P.ProducerAcquireOp]) -> list[Operation]:
    """What fills the stages that were acquired in a block, in order."""
    filled = {use.operation for op in acquired for use in op.result.uses} | {*acquired}
    block = acquired[0].parent
    assert block is not None
    return [op for op in block.ops if op in filled]


def _release(body: Block, pipeline: SSAValue) -> Operation | None:
    """What gives the stages of a pipeline back in an iteration."""
    found = [
        op for op in body.ops if isinstance(op, P.ConsumerReleaseOp) and op.pipeline is pipeline
    ]
    return found[0] if len(found) == 1 else None


def _acquired(commit: P.ProducerCommitOp) -> P.ProducerAcquireOp:
    made = commit.stage.owner
    assert isinstance(made, P.ProducerAcquireOp)
    return made


def _following(
    builder: ScheduleBuilder, pipelines: Sequence[SSAValue], iterators: Sequence[SSAValue]
) -> list[SSAValue]:
    """What stands for the next stages of pipelines."""
    return [
        builder.one(P.IncIterOp, pair, P.ITERATOR)
        for pair in zip(pipelines, iterators, strict=True)
    ]


# Groups of copies by threads.


def _expand_groups(loop: scf.ForOp) -> None:
    """Let the copies of a ring start rounds ahead."""
    body = loop.body.block
    groups = [op for op in body.ops if isinstance(op, AsyncGroupOp) and _ahead(op)]
    refilled = [_refilled(loop, group) for group in groups]
    if groups and all(each is not None for each in refilled):
        _refill(loop, [each for each in refilled if each is not None])
        return
    if len(groups) != 1:
        return
    (group,) = groups
    copies = [op for op in body.ops if isinstance(op, AsyncCopy) and op.is_before_in_block(group)]
    waits = [use.operation for use in group.result.uses]
    slots = {_slot(op) for op in copies}
    stages = min((_stages(op) for op in copies), default=0)
    if len(waits) != 1 or len(slots) != 1 or _ahead(group) >= stages:
        return
    (wait,), (slot,) = waits, slots
    if isinstance(wait, AsyncWaitOp) and _starts_at_zero(slot, loop):
        assert isinstance(slot, BlockArgument)
        _Ring(_Starts(loop, copies), group, wait, slot, stages).expand()


@dataclass(frozen=True, slots=True)
class _Refilled:
    """Storage of one stage that a loop fills for its next iteration where this one has read it for the last time: what
    starts the copies, closes their group, waits for it, and the last operation that reads."""

    starts: _Starts
    group: AsyncGroupOp
    wait: AsyncWaitOp
    last: Operation


def _refilled(loop: scf.ForOp, group: AsyncGroupOp) -> _Refilled | None:
    """The storages that the copies of a group fill, if an iteration fills them for the next one."""
    body = loop.body.block
    copies: list[Operation] = []
    before = group.prev_op
    while before is not None and not isinstance(before, AsyncGroupOp):
        if isinstance(before, AsyncCopy):
            copies.insert(0, before)
        before = before.prev_op
    waits = [use.operation for use in group.result.uses]
    if not copies or len(waits) != 1 or not isinstance(wait := waits[0], AsyncWaitOp):
        return None
    storages = {base_of(op.target) for op in copies if isinstance(op, AsyncCopy)}
    if {_ahead(group), *(_stages_of(storage) for storage in storages)} != {1}:
        return None
    readers = {
        at_level(op, body)
        for op in body.walk()
        if not isinstance(op, AsyncCopy | S.ExtractSliceOp | S.PermuteViewOp)
        and any(
            isinstance(value.type, TiledViewType) and base_of(value) in storages
            for value in op.operands
        )
    }
    last = next((op for op in reversed(list(body.ops)) if op in readers), None)
    if last is None or not wait.is_before_in_block(last):
        return None
    return _Refilled(_Starts(loop, copies), group, wait, _behind_packed(last, body))


def _behind_packed(op: Operation, body: Block) -> Operation:
    """The first operation from ``op`` on behind which nothing is in registers as threads have read it from storage, with
    elements narrower than a register: a condition, as for copies, takes such registers apart."""
    order = {op: number for number, op in enumerate(body.ops)}
    ends = {each: _last_packed(each, order) for each in body.ops if isinstance(each, S.LocalLoadOp)}
    for start, end in ends.items():
        if order[start] <= order[op] < order[end]:
            op = end
    return op


def _last_packed(load: Operation, order: Mapping[Operation, int]) -> Operation:
    """The last operation that takes elements narrower than a register which come from what was read; the reading itself if
    there is none."""
    found, waiting = load, [load]
    while waiting:
        for value in tile_ops.tiles_of(waiting.pop().results):
            if FORMATS[T.element_name(T.element_of(value.type))].storage_bits >= _WORD:
                continue
            for user in {use.operation for use in value.uses} & order.keys():
                if not isinstance(user, scf.YieldOp):
                    found = max(found, user, key=order.__getitem__)
                    if tile_ops.is_elementwise(user) or user.name in _MOVES:
                        waiting.append(user)
    return found


def _refill(loop: scf.ForOp, found: Sequence[_Refilled]) -> None:
    """Let each storage be filled for the next iteration behind what reads it last in this one."""
    body = loop.body.block
    order = {op: number for number, op in enumerate(body.ops)}
    found = sorted(found, key=lambda each: order[each.last])
    before = ScheduleBuilder(InsertPoint.before(loop), loop)
    lower, upper, step = loop.operands[:3]
    tokens: list[SSAValue] = []
    for each in found:
        each.starts.of_round(before, _Counters(None, lower, upper), {})
        tokens.append(before.one(AsyncGroupOp, (), ASYNC_TOKEN))
    under_way = [body.insert_arg(token.type, len(body.args)) for token in tokens]
    inner = ScheduleBuilder(InsertPoint.at_start(body), loop)
    following = inner.one(arith.AddiOp, (body.args[0], step), lower.type)
    counters = _Counters(body.args[0], following, upper)
    early = [each.starts.load_early(inner, counters) for each in found]
    started: list[SSAValue] = []
    ends: dict[Operation, Operation] = {}
    for number, each in enumerate(found):
        # Those behind it in the iteration before, and those in front of its wait in this one.
        later = [*found[number + 1 :], *(o for o in found if order[o.last] < order[each.wait])]
        here = ScheduleBuilder(InsertPoint.before(each.wait), each.wait)
        pending = {"pending": b.IntegerAttr(len(later), b.i64)}
        here.add(AsyncWaitOp.create(operands=(under_way[number],), properties=pending))
        # Behind the group before it, if that starts at the same place: groups end in their order.
        last = ends.get(each.last, each.last)
        behind = ScheduleBuilder(InsertPoint.after(last), loop)
        each.starts.of_round(behind, counters, early[number])
        group = behind.add(AsyncGroupOp.create(result_types=(ASYNC_TOKEN,)))
        ends[each.last] = group
        started.append(group.results[0])
    for each in found:
        for dead in (each.wait, each.group):
            dead.detach()
            dead.erase()
        each.starts.erase()
    end = body.last_op
    assert end is not None
    end.operands = [*end.operands, *started]
    carrying(loop, tokens)


def _slot(copy: AsyncCopy) -> SSAValue | None:
    """The number of the stage that a copy fills."""
    made = copy.target.owner
    return made.index if isinstance(made, S.ExtractSliceOp) else None


def _starts_at_zero(slot: SSAValue | None, loop: scf.ForOp) -> bool:
    """Whether a loop carries the number of a stage, the first one at first."""
    if not isinstance(slot, BlockArgument) or slot.owner is not loop.body.block or not slot.index:
        return False
    return integer_of(loop.operands[2 + slot.index]) == 0


@dataclass(frozen=True, slots=True)
class _Ring:
    """What starts the copies of a loop's rounds into the stages of rings, closes their group, waits for it; ``slot``: the
    number of the stage that an iteration reads."""

    starts: _Starts
    group: AsyncGroupOp
    wait: AsyncWaitOp
    slot: BlockArgument
    stages: int

    def expand(self) -> None:
        starts, loop, body = self.starts, self.starts.loop, self.starts.body
        rounds, stages = _ahead(self.group), self.stages
        before = ScheduleBuilder(InsertPoint.before(loop), loop)
        lower, upper, step = loop.operands[:3]
        counters = _Counters(None, lower, upper)
        tokens: list[SSAValue] = []
        for number in range(rounds):
            starts.of_round(before, counters, {self.slot: before.index(number)})
            tokens.append(before.one(AsyncGroupOp, (), ASYNC_TOKEN))
            counters = _Counters(
                counters.own, before.one(arith.AddiOp, (counters.own, step), lower.type), upper
            )
        # Carried beside what the loop carried: the counter of the iteration that is started, and the groups under way.
        more = [counters.own, *tokens]
        counter, *under_way = (body.insert_arg(value.type, len(body.args)) for value in more)
        counter.name_hint = "ahead"
        inner = ScheduleBuilder(InsertPoint.at_start(body), loop)
        inner.add(
            AsyncWaitOp.create(
                operands=(under_way[0],),
                properties={"pending": b.IntegerAttr(rounds - 1, b.i64)},
            )
        )
        given = {self.slot: self._filled(inner, rounds)}
        own = _Counters(body.args[0], counter, upper)
        early = starts.load_early(inner, own)
        end = body.last_op
        assert end is not None
        starter = ScheduleBuilder(InsertPoint.before(end), loop)
        starter = starter if early or (stages > 2 and self._starts_late()) else inner
        starts.of_round(starter, own, {**given, **early})
        started = starter.one(AsyncGroupOp, (), ASYNC_TOKEN)
        following = inner.one(arith.AddiOp, (counter, step), counter.type)
        for dead in (self.wait, self.group):
            dead.detach()
            dead.erase()
        starts.erase()
        end.operands = [*end.operands, following, *under_way[1:], started]
        carrying(loop, more)

    def _filled(self, builder: ScheduleBuilder, rounds: int) -> SSAValue:
        """The number of the stage that is filled while an iteration reads its own."""
        stages = self.stages
        if rounds == stages - 1:
            is_first = builder.compare(EQUAL, self.slot, builder.index(0))
            before = builder.one(arith.SubiOp, (self.slot, builder.index(1)), INDEX)
            return builder.select(is_first, builder.index(stages - 1), before)
        wraps = builder.index(stages - rounds)
        ahead = builder.one(arith.AddiOp, (self.slot, builder.index(rounds)), INDEX)
        again = builder.one(arith.SubiOp, (self.slot, wraps), INDEX)
        return builder.select(builder.compare(BELOW_UNSIGNED, self.slot, wraps), ahead, again)

    def _starts_late(self) -> bool:
        """Whether an iteration starts its copies when it has done the rest: behind the products threads compute addresses while the
        tensor cores are busy, and not while all of them wait. Where threads wait for other loads, too, copies go on
        meanwhile, and where there is no product."""
        ops = list(self.starts.body.walk())
        return any(isinstance(op, S.Product) for op in ops) and not any(
            op.name in tile_ops.LOADS for op in ops
        )


def _stages(copy: AsyncCopy) -> int:
    """The stages of the ring that a copy fills one of."""
    return _stages_of(base_of(copy.target))


def _stages_of(storage: SSAValue) -> int:
    ty = storage.type
    assert isinstance(ty, TiledViewType)
    return ty.stages
