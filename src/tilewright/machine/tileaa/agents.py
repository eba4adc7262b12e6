"""``execute``: an agent that runs concurrently with what follows, until one of its results is used.

The agent reads outside values as they were when it started. The operations after it continue until one uses a result,
or until the enclosing region ends; those wait for the agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from tilewright.analysis.tileaa.agents import first_user
from tilewright.dialects.nv_tileaa.ops.functions import ExecuteOp
from tilewright.dialects.nv_tileas.agents import AgentSwitchOp, AgentYieldOp
from tilewright.launching.external_functions import function_named
from tilewright.machine.compile import (
    CompiledBlock,
    Coroutine,
    Nested,
    Scope,
    Step,
    Translator,
    implements,
)
from tilewright.machine.fused_blocks import called
from tilewright.machine.ops.control_flow import copy_slots
from tilewright.machine.tileaa.coroutines import AgentCoroutine, Started, Wait, waiting
from tilewright.machine.tileaa.external_functions import plugin_step
from tilewright.machine.tileaa.functions import beginning, function_of
from tilewright.machine.values import ARENA, Registers

Begin = Callable[[Registers], Registers]
"""Creates the registers of an agent from those of the operation that starts it."""


@implements(ExecuteOp)
def _execute(op: ExecuteOp, t: Translator) -> Step | Nested:
    if op.body.blocks:
        return _agent(op, t, *_region(op, t))
    target = function_named(op)
    if target is None:
        return plugin_step(op, t)
    function = function_of(op, target.symbol, t)
    return _agent(op, t, beginning(t, function, op.operands), function.body, function.results)


def _region(op: ExecuteOp, t: Translator) -> tuple[Begin, CompiledBlock, tuple[int, ...]]:
    """Return the region of an agent: how its registers are created, its steps, and its result slots."""
    block = op.body.blocks[0]
    results = tuple(t.new_slot() for _ in op.results)
    enter = called(copy_slots(t.slots(op.operands), t.slots(block.args)))
    t.yields.append(Scope(results=results))
    body = t.block(block)
    t.yields.pop()

    def begin(regs: Registers) -> Registers:
        own = regs.copy()
        enter(own)
        return own

    return begin, body, results


def _agent(
    op: ExecuteOp, t: Translator, begin: Begin, body: CompiledBlock, results: tuple[int, ...]
) -> Nested:
    name, agents = _name(op), t.agents
    memory, coroutine_slot = t.machine.memory, t.new_slot()
    pairs = tuple(zip(t.slots(op.results), results, strict=True))
    assert agents is not None

    def run(regs: Registers, own: Registers) -> Coroutine:
        if body.suspends:
            yield from body.start(own)
        else:
            body.run(own)
        while own[ARENA]:
            memory.free(own[ARENA].pop())
        for target, source in pairs:
            regs[target] = own[source]
        return None

    def start(regs: Registers) -> Any:
        own = begin(regs)
        own[ARENA] = []
        coroutine = regs[coroutine_slot] = AgentCoroutine(name, run(regs, own))
        yield Started(coroutine)
        return None

    def join(regs: Registers) -> Any:
        coroutine: AgentCoroutine = regs[coroutine_slot]
        yield from waiting(_end_of(coroutine, op))
        return None

    t.waits.setdefault(first_user(op), []).append(Nested(join))
    return Nested(start)


def _end_of(agent: AgentCoroutine, op: Operation) -> Wait:
    return Wait(lambda: agent.has_ended, f"the end of {agent.name}", op)


def _name(op: ExecuteOp) -> str:
    named = op.properties.get("agent")
    return f"agent '{named.data}'" if isinstance(named, StringAttr) else "an agent"


@implements(AgentSwitchOp)
def _agent_switch(op: AgentSwitchOp, t: Translator) -> Nested:
    """The first agent is the tile block itself, and ends when all others have. Agents' values have separate
    slots."""
    bodies = [t.block(region.block) for region in op.agents]
    agents = t.agents
    assert agents is not None

    def run(body: CompiledBlock, regs: Registers) -> Coroutine:
        if body.suspends:
            yield from body.start(regs)
        else:
            body.run(regs)
        return None

    def start(regs: Registers) -> Any:
        others = [
            AgentCoroutine(f"agent {number}", run(body, regs))
            for number, body in enumerate(bodies[1:], start=1)
        ]
        for agent in others:
            yield Started(agent)
        yield from run(bodies[0], regs)
        for agent in others:
            yield from waiting(_end_of(agent, op))
        return None

    return Nested(start)


@implements(AgentYieldOp)
def _agent_yield(op: AgentYieldOp, t: Translator) -> None:
    """Ends the agent."""
