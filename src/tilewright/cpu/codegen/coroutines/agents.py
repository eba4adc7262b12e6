"""``execute``: an agent, whose region is a coroutine that alternates with the tile block.

It reads values from outside as they were when it began: scalars are arguments of its function, tiles are copied into its
memory, a part of the thread's arena. Its results lie there when it has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from llvmlite import ir
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue

from tilewright.analysis.tileaa import first_user
from tilewright.cpu.abi import COROUTINE_BYTES, SLOT_BYTES, UNTIL_ENDED
from tilewright.cpu.codegen.analysis.arena import Slot
from tilewright.cpu.codegen.analysis.plan import make_plan
from tilewright.cpu.codegen.control.control_flow import is_tile, parts
from tilewright.cpu.codegen.control.loop_values import rebuilt, types_of_parts
from tilewright.cpu.codegen.coroutines.agent_memory import FOREVER, AgentMemory
from tilewright.cpu.codegen.coroutines.scheduling import Agent, start, wait
from tilewright.cpu.codegen.emitter.function import Frame, FunctionEmitter
from tilewright.cpu.codegen.emitter.table import lowers
from tilewright.cpu.codegen.host.external_functions import call_out
from tilewright.cpu.codegen.ir.elements import I8, I64, PTR, element_of
from tilewright.cpu.codegen.ir.types import Builder, Type, Value
from tilewright.cpu.codegen.loops.tiles import Strided, buffer_tile
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import ExecuteOp

#: What marks a buffer in the memory of another coroutine: it is none of this one's.
_ELSEWHERE = -3


@lowers("execute")
def execute(f: FunctionEmitter, op: ExecuteOp) -> None:
    """Starts an agent as a coroutine of the block, or calls out where the body is an external function."""
    if not op.body.blocks:
        call_out(f, op)
        return
    coroutines = f.unit.coroutines
    assert coroutines is not None
    named = op.properties.get("agent")
    name = f"agent '{named.data}'" if isinstance(named, StringAttr) else "an agent"
    number, memory = coroutines.add(name), AgentMemory()
    coroutines.memories.append(memory)
    captured = _captured(op)
    made = _Function(f, op, number, memory).make(captured)
    b = f.builder
    for value, slot in made.taken.items():
        f.fill([(_seen_from(f, memory, value, slot, _ELSEWHERE), f.tile(value))])
    own = b.gep(f.frame.root, [memory.at(0)], source_etype=I8)
    handle = b.call(made.function, [own, *_frame_values(f), *parts(f, captured)])
    record = start(f, number, handle)

    def join() -> None:
        wait(f, op, UNTIL_ENDED, f"the end of {name}", record)
        given = iter(_load_scalars(f, op.results, own, made.scalars))
        for result, slot in zip(op.results, made.results, strict=True):
            if slot is None:
                f.values[result] = rebuilt(result.type, given)
            else:
                f.values[result] = _seen_from(f, memory, result, slot, None)

    f.joins.setdefault(first_user(op), []).append(join)


def _scalar_types(ty: Attribute) -> list[Type]:
    return [] if isinstance(ty, T.TileType) else types_of_parts(ty)


def _load_scalars(
    f: FunctionEmitter, results: Sequence[SSAValue], memory: Value, slot: Slot
) -> Iterator[Value]:
    b = f.builder
    at = slot.offset
    for result in results:
        for ty in _scalar_types(result.type):
            yield b.load(b.gep(memory, [ir.Constant(I64, at)], source_etype=I8), typ=ty)
            at += SLOT_BYTES


def _seen_from(
    f: FunctionEmitter, memory: AgentMemory, value: SSAValue, slot: Slot, mark: int | None
) -> Strided:
    """A tile in the memory of an agent, for a coroutine that the agent is not."""
    pointer = f.builder.gep(f.frame.root, [memory.at(slot.offset)], source_etype=I8)
    element, dims = element_of(value.type), T.dims_of(value.type)
    return replace(buffer_tile(element, dims, pointer, 0), slot=mark)


def _own_tile(g: FunctionEmitter, value: SSAValue, slot: Slot) -> Strided:
    """A tile in the memory of the agent whose code this is."""
    element, dims = element_of(value.type), T.dims_of(value.type)
    return buffer_tile(element, dims, g.pointer_to(slot), slot.offset)


def _captured(op: ExecuteOp) -> list[SSAValue]:
    """The operands, and what the region uses from outside."""
    found = dict.fromkeys(op.operands)
    inside: set[SSAValue] = set(op.body.blocks[0].args)
    for inner in op.body.walk():
        inside.update(inner.results)
        inside.update(
            arg for region in inner.regions for block in region.blocks for arg in block.args
        )
        found |= dict.fromkeys(value for value in inner.operands if value not in inside)
    return list(found)


def _frame_values(f: FunctionEmitter) -> list[Value]:
    frame = f.frame
    assert f.unit.coroutines is not None
    found = [frame.root, frame.runtime, frame.place, frame.end, *frame.grid, *frame.block_id]
    if frame.cursor is not None:
        found.append(frame.cursor)
    return found if f.unit.memory is None else [*found, f.unit.memory.table]


@dataclass(frozen=True, slots=True)
class _Made:
    """An agent's function, and where in its memory tiles and results lie."""

    function: ir.Function
    taken: dict[SSAValue, Slot]
    scalars: Slot
    results: list[Slot | None]


class _Function:
    """Makes the function of an agent: its memory, its frame, and the scalars that it takes."""

    def __init__(self, f: FunctionEmitter, op: ExecuteOp, number: int, memory: AgentMemory) -> None:
        self._f, self._op, self._number, self._memory = f, op, number, memory

    def make(self, captured: Sequence[SSAValue]) -> _Made:
        f, op = self._f, self._op
        outside = parts(f, captured)
        frame = _frame_values(f)
        types = [
            PTR,
            *(v.type for v in frame),
            *(ty for v in captured for ty in _scalar_types(v.type)),
        ]
        name = f"{f.unit.module.name}.agent.{self._number}"
        function = ir.Function(f.unit.module, ir.FunctionType(PTR, types), name)
        function.linkage = "internal"
        f.unit.prepare(function)
        b = ir.IRBuilder(function.append_basic_block("entry"))
        body = b.append_basic_block("begin")
        b.branch(body)
        b.position_at_end(body)
        g = self._emitter(b, function)
        scalars = function.args[1 + len(frame) :]
        assert len(scalars) == len(outside)
        taken = self._bind(g, captured, iter(scalars))
        record = b.gep(g.frame.root, [self._record()], source_etype=I8)
        agent = g.coroutine = Agent(b, record)
        region = op.body.blocks[0]
        end = region.last_op
        assert end is not None
        slots = [self._room(g, value) if is_tile(value) else None for value in op.results]
        room = g.arena.place(
            SLOT_BYTES * sum(len(_scalar_types(v.type)) for v in op.results), 0, FOREVER
        )
        with agent.stopping(g):
            g.block(region)
            self._store_results(g, end.operands, slots, room)
        agent.close(b)
        return _Made(function, taken, room, slots)

    def _record(self) -> Value:
        coroutines = self._f.unit.coroutines
        assert coroutines is not None
        return coroutines.board.at(self._number * COROUTINE_BYTES)

    def _emitter(self, b: Builder, function: ir.Function) -> FunctionEmitter:
        memory, root, runtime, place, end, gx, gy, gz, x, y, z, *rest = function.args
        given = iter(rest)
        cursor = None if self._f.frame.cursor is None else next(given)
        frame = Frame(memory, runtime, (gx, gy, gz), (x, y, z), place, root, cursor, end)
        unit = self._f.unit
        if unit.memory is not None:
            unit = replace(unit, memory=unit.memory.with_table(next(given)))
        plan = make_plan(self._op.body.blocks[0], distinct_arguments=False)
        plan.non_temporal = set()
        g = FunctionEmitter(unit, plan, b, frame)
        g.arena, g.memory = self._memory.arena, self._memory
        return g

    def _room(self, g: FunctionEmitter, value: SSAValue) -> Slot:
        size = prod(T.dims_of(value.type)) * element_of(value.type).buffer_bytes
        return g.arena.place(size, 0, FOREVER)

    def _bind(
        self, g: FunctionEmitter, captured: Sequence[SSAValue], scalars: Iterator[Value]
    ) -> dict[SSAValue, Slot]:
        """Values from outside, as the agent sees them; where tiles are to be copied to."""
        taken: dict[SSAValue, Slot] = {}
        for value in captured:
            if is_tile(value):
                slot = taken[value] = self._room(g, value)
                g.values[value] = _own_tile(g, value, slot)
            else:
                g.values[value] = rebuilt(value.type, scalars)
        arguments = self._op.body.blocks[0].args
        for argument, operand in zip(arguments, self._op.operands, strict=True):
            g.values[argument] = g.values[operand]
        return taken

    def _store_results(
        self,
        g: FunctionEmitter,
        values: Sequence[SSAValue],
        slots: Sequence[Slot | None],
        room: Slot,
    ) -> None:
        for value, slot in zip(values, slots, strict=True):
            if slot is not None:
                g.fill([(_own_tile(g, value, slot), g.tile(value))])
        memory = g.pointer_to(room)
        for number, part in enumerate(parts(g, values)):
            at = ir.Constant(I64, number * SLOT_BYTES)
            g.builder.store(part, g.builder.gep(memory, [at], source_etype=I8))
