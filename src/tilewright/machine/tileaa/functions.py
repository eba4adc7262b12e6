"""Functions: kernels, calls and returns. Every call has its own registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from tilewright.dialects.nv_tileaa.ops import functions, queues
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.symbols import reference, symbols_around
from tilewright.dialects.nv_tileas.agents import AgentSwitchOp
from tilewright.machine.compile import (
    CompiledBlock,
    Coroutine,
    Nested,
    Scope,
    Step,
    Translator,
    implements,
)
from tilewright.machine.ops.control_flow import give_results
from tilewright.machine.tileaa.coroutines import with_coroutines
from tilewright.machine.values import ARENA, Registers

_AGENT_OPS = (functions.ExecuteOp, queues.QueueGetOp, queues.QueuePutOp, AgentSwitchOp)


def translate_kernel(op: FuncOp, t: Translator) -> CompiledBlock:
    """Return the body of a kernel. If the module has agents or queues, they take turns in it."""
    root: Operation = op
    while (parent := root.parent_op()) is not None:
        root = parent
    if not any(isinstance(inner, _AGENT_OPS) for inner in root.walk()):
        return t.block(op.block)
    t.agents = t.new_slot()
    return with_coroutines(t, t.block(op.block))


@dataclass(slots=True)
class Function:
    """A translated function, with the slots of its arguments and results."""

    translator: Translator
    body: CompiledBlock
    arguments: tuple[int, ...]
    results: tuple[int, ...]

    def frame(self, regs: Registers, agents: int | None, values: Sequence[object]) -> Registers:
        """Return registers for one call, from a caller whose agents are in the slot ``agents``."""
        t = self.translator
        frame = t.registers.copy()
        frame[ARENA] = regs[ARENA]
        if t.agents is not None and agents is not None:
            frame[t.agents] = regs[agents]
        for slot, axis in t.block_slots:
            frame[slot] = np.array(t.machine.block[axis], np.int32)
        for slot, axis in t.grid_slots:
            frame[slot] = np.array(t.machine.grid[axis], np.int32)
        for slot, value in zip(self.arguments, values, strict=True):
            frame[slot] = value
        return frame


_IN_PROGRESS = object()


def function_of(op: Operation, name: str, t: Translator) -> Function:
    """Return the function that an operation refers to, translated once per kernel. Raises ``Fault`` if it is
    recursive.
    """
    found = t.functions.get(name)
    if found is _IN_PROGRESS:
        raise t.refusal(op, f"function '{name}' is recursive; functions of kernels cannot recurse")
    if found is None:
        target = (symbols_around(op) or {})[name]
        assert isinstance(target, FuncOp)
        t.functions[name] = _IN_PROGRESS
        inner = t.for_function()
        if t.agents is not None:
            inner.agents = inner.new_slot()
        results = tuple(inner.new_slot() for _ in target.signature.outputs.data)
        inner.yields.append(Scope(results=results))
        body = inner.block(target.block)
        found = t.functions[name] = Function(inner, body, inner.slots(target.block.args), results)
    return found


implements(functions.ReturnOp, functions.YieldOp, queues.QueueYieldOp)(give_results)


@implements(functions.CallOp)
def _call(op: functions.CallOp, t: Translator) -> Step | Nested:
    function = function_of(op, reference(op, "callee"), t)
    return call_step(t, function, op.operands, op.results)


def call_step(
    t: Translator, function: Function, operands: Sequence[SSAValue], made: Sequence[SSAValue]
) -> Step | Nested:
    """Calls a function of the module."""
    begin = beginning(t, function, operands)
    results = tuple(zip(t.slots(made), function.results, strict=True))
    body = function.body

    def end(regs: Registers, frame: Registers) -> None:
        for target, source in results:
            regs[target] = frame[source]

    def step(regs: Registers) -> None:
        frame = begin(regs)
        body.run(frame)
        end(regs, frame)

    def start(regs: Registers) -> Coroutine:
        frame = begin(regs)
        yield from body.start(frame)
        end(regs, frame)
        return None

    return Nested(start) if body.suspends else step


def beginning(
    t: Translator, function: Function, operands: Sequence[SSAValue]
) -> Callable[[Registers], Registers]:
    """Return a function that creates the registers of a call from those of the caller."""
    agents, slots = t.agents, t.slots(operands)

    def begin(regs: Registers) -> Registers:
        return function.frame(regs, agents, [regs[slot] for slot in slots])

    return begin
