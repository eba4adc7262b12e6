"""Pipelines of ``nv_tileas``. A block that would wait forever faults, and a stage that is not full holds noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.diagnostics import define_code
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.dialects.nv_tileas.types import TiledViewType
from tilewright.machine.compile import Nested, Step, SwitchPoint, Translator, implements
from tilewright.machine.faults import Fault
from tilewright.machine.tileaa.coroutines import PAUSE, Coroutines, Wait, waiting
from tilewright.machine.tileaa.placement import load_of, noise
from tilewright.machine.values import Registers
from tilewright.numerics.arrays import Array

WAITS_FOR_EVER = define_code(
    "pipeline-waits-for-ever",
    "A block waits for a pipeline stage that will never be filled or released.",
    "A stage is acquired when it is empty and waited for when it has been committed, in the order of the "
    "iterators of both sides.",
    help="commit and release every stage once, in the order of the iterators of both sides",
)
#: The stage of an iterator that has none.
_NONE = -1
_EMPTY, _ACQUIRED, _FULL, _READ = "empty", "acquired", "full", "read"


@dataclass(slots=True)
class Ring:
    """A pipeline of a block: its storage, the state of each stage, its current iteration, and the operations
    in flight for it."""

    buffers: list[Array]
    states: list[str]
    rounds: list[int]
    started: list[list[tuple[Array, Array]]] = field(
        default_factory=list[list[tuple[Array, Array]]]
    )

    def is_ready(self, number: int, wanted: str) -> bool:
        """Whether the stage of an iterator is in the wanted state."""
        round_, slot = divmod(number, len(self.states))
        expected = round_ if wanted == _EMPTY else round_ + 1
        return self.states[slot] == wanted and self.rounds[slot] == expected

    def take(self, number: int, wanted: str, taken: str, verb: str) -> int:
        """Acquire the stage of an iterator. Returns its index.

        ``number`` counts iterations from 0, over all rounds of the ring; ``wanted`` is the state that the stage must
        be in, ``taken`` the one that it is in afterwards. Raises ``Fault`` if it is in another.
        """
        round_, slot = divmod(number, len(self.states))
        if not self.is_ready(number, wanted):
            raise Fault(
                WAITS_FOR_EVER,
                f"{verb} stage {slot} of iteration {round_}, which is {self.states[slot]} in "
                f"iteration {self.rounds[slot] - (wanted != _EMPTY)}",
            )
        self.states[slot] = taken
        return slot


def _when_ready(
    op: P.ProducerAcquireOp | P.ConsumerWaitOp, t: Translator, wanted: str, step: Step
) -> Step | Nested:
    """Return a step that acquires a stage; with agents, it waits until another one makes it ready."""
    if t.agents is None:
        return step
    ring, given = t.slots((op.pipeline, op.iterator))

    def start(regs: Registers) -> Any:
        held: Ring = regs[ring]
        number = regs[given]
        what = f"stage {number % len(held.states)} of a pipeline to be {wanted}"
        yield from waiting(Wait(lambda: held.is_ready(number, wanted), what, op))
        step(regs)
        return None

    return Nested(start)


def _making_ready(t: Translator, step: Step) -> Step | Nested:
    """Return a step that another agent may wait for."""
    agents = t.agents
    if agents is None:
        return step

    def start(regs: Registers) -> Any:
        step(regs)
        coroutines: Coroutines = regs[agents]
        coroutines.moved()
        yield PAUSE
        return None

    return Nested(start)


@implements(P.CreatePipelineOp)
def _create_pipeline(op: P.CreatePipelineOp, t: Translator) -> Step:
    storages, result = t.slots(op.storages), t.slot(op.result)
    ty = op.result.type
    assert isinstance(ty, P.PipelineType)
    stages = ty.stages.data

    def step(regs: Registers) -> None:
        regs[result] = Ring(
            [regs[slot] for slot in storages],
            [_EMPTY] * stages,
            [0] * stages,
            [[] for _ in range(stages)],
        )

    return step


@implements(P.CreateIteratorOp)
def _create_iterator(op: P.CreateIteratorOp, t: Translator) -> None:
    t.preset(op.result, 0)


@implements(P.CreateNullTokenOp)
def _create_null_token(op: P.CreateNullTokenOp, t: Translator) -> None:
    t.preset(op.result, _NONE)


@implements(P.IncIterOp)
def _inc_iter(op: P.IncIterOp, t: Translator) -> Step:
    given, result = t.slot(op.iterator), t.slot(op.result)

    def step(regs: Registers) -> None:
        regs[result] = regs[given] + 1

    return step


@implements(P.ProducerAcquireOp)
def _producer_acquire(op: P.ProducerAcquireOp, t: Translator) -> Step | Nested:
    ring, given, result = t.slots((op.pipeline, op.iterator, op.result))

    def step(regs: Registers) -> None:
        held: Ring = regs[ring]
        regs[result] = held.take(regs[given], _EMPTY, _ACQUIRED, "a producer acquires")

    return _when_ready(op, t, _EMPTY, step)


@implements(P.ConsumerWaitOp)
def _consumer_wait(op: P.ConsumerWaitOp, t: Translator) -> Step | Nested:
    ring, given, result = t.slots((op.pipeline, op.iterator, op.result))

    def step(regs: Registers) -> None:
        held: Ring = regs[ring]
        slot = regs[result] = held.take(regs[given], _FULL, _READ, "a consumer waits for")
        for target, value in held.started[slot]:
            target[...] = value
        held.started[slot] = []

    return _when_ready(op, t, _FULL, step)


@implements(P.ProducerWriteOp, P.ConsumerReadOp)
def _open_stage(op: P.ProducerWriteOp | P.ConsumerReadOp, t: Translator) -> Step:
    ring, stage, *results = t.slots((op.pipeline, op.stage, *op.views))
    types = [value.type for value in op.views]
    shapes = [ty.dims for ty in types if isinstance(ty, TiledViewType)]

    def step(regs: Registers) -> None:
        held: Ring = regs[ring]
        for result, buffer, shape in zip(results, held.buffers, shapes, strict=True):
            regs[result] = buffer[regs[stage]].reshape(shape)

    return step


@implements(P.ProducerCommitOp)
def _producer_commit(op: P.ProducerCommitOp, t: Translator) -> Step | Nested:
    ring, stage = t.slots((op.pipeline, op.stage))

    def step(regs: Registers) -> None:
        held: Ring = regs[ring]
        held.states[regs[stage]] = _FULL
        held.rounds[regs[stage]] += 1

    return _making_ready(t, step)


@implements(P.ConsumerReleaseOp)
def _consumer_release(op: P.ConsumerReleaseOp, t: Translator) -> Step | Nested:
    ring, stage = t.slots((op.pipeline, op.stage))
    ty = op.pipeline.type
    assert isinstance(ty, P.PipelineType)

    def step(regs: Registers) -> None:
        held: Ring = regs[ring]
        if regs[stage] == _NONE:
            return
        held.states[regs[stage]] = _EMPTY
        for buffer, view in zip(held.buffers, ty.views, strict=True):
            buffer[regs[stage]] = noise(view).reshape(buffer.shape[1:])

    return _making_ready(t, step)


@implements(P.MakeTiledTmaDescOp)
def _make_tiled_tma_desc(op: P.MakeTiledTmaDescOp, t: Translator) -> None:
    t.preset(op.result, 0)


@implements(P.AsyncTiledTmaLoadOp)
def _async_tiled_tma_load(op: P.AsyncTiledTmaLoadOp, t: Translator) -> Step | SwitchPoint | Nested:
    target_type, made = op.target.type, op.desc.owner
    assert isinstance(target_type, TiledViewType)
    if not isinstance(made, P.MakeTiledTmaDescOp):
        raise Translator.refusal(op, f"'{op.name}' with a descriptor from outside the function")
    load, scratch = load_of(t, op, made.base)
    target, stage = t.slot(op.target), t.slot(op.stage)
    opened = next(
        use.operation for use in op.stage.uses if isinstance(use.operation, P.ProducerWriteOp)
    )
    ring = t.slot(opened.pipeline)

    def step(regs: Registers) -> None:
        load(regs)
        held: Ring = regs[ring]
        array: Array = regs[target]
        array[...] = noise(target_type)
        started: int = regs[stage]
        held.started[started].append((array, np.array(regs[scratch])))

    return step
