"""Queues between the coroutines of a tile block: rings of tuples in the arena.

A queue counts, for each consumer of the kernel, how many tuples it has taken; consumers that the queue does not reach count
as if they had taken all. A tuple stays in its slot until every consumer has taken it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from llvmlite import ir
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from tilewright.analysis.tileaa import consumer_of, consumers_of, holders_of
from tilewright.cpu.abi import QUEUE_HEADER, SLOT_BYTES, UNTIL_MORE, UNTIL_ROOM
from tilewright.cpu.codegen.control.control_flow import assign, buffers, is_tile, last_use
from tilewright.cpu.codegen.coroutines.agent_memory import FOREVER
from tilewright.cpu.codegen.coroutines.scheduling import wait
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.emitter.table import lowers, refuse
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I8, I64, element_of
from tilewright.cpu.codegen.ir.types import Value
from tilewright.cpu.codegen.loops.tiles import buffer_tile
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import queues as Q
from tilewright.dialects.nv_tileaa.ops.functions import ExecuteOp

_ALIGNMENT = 64
_ALL = (1 << 63) - 1
#: What marks a buffer in a queue.
_IN_QUEUE = -4


def _aligned(size: int, alignment: int = _ALIGNMENT) -> int:
    return -(-size // alignment) * alignment


def _layout(ty: T.QueueType) -> tuple[list[int], int]:
    """Where the values of a tuple begin, and the size of a tuple."""
    offsets: list[int] = []
    size = 0
    for item in ty.item_types:
        tile = isinstance(item, T.TileType)
        size = _aligned(size, _ALIGNMENT if tile else SLOT_BYTES)
        offsets.append(size)
        size += prod(item.dims) * element_of(item).buffer_bytes if tile else SLOT_BYTES
    return offsets, _aligned(size)


def _header(f: FunctionEmitter) -> int:
    assert f.unit.coroutines is not None
    return _aligned((QUEUE_HEADER + len(f.unit.coroutines.consumers)) * SLOT_BYTES)


def _made_before(op: Q.CreateQueueOp) -> list[SSAValue]:
    """The values that, where an operation makes a queue, may hold one that it made in an earlier iteration
    of a loop."""
    found: list[SSAValue] = []
    for value in holders_of(op.result):
        owner = value.owner
        block = owner if isinstance(owner, Block) else owner.parent
        here = None if block is None else block.find_ancestor_op_in_block(op)
        if here is None or (isinstance(owner, Operation) and not owner.is_before_in_block(here)):
            continue
        if _agent_around(here) is not _agent_around(op):
            raise refuse(op, "its agent runs in a loop that carries it")
        found.append(value)
    return found


def _agent_around(op: Operation) -> Operation | None:
    agent = op.parent_op()
    while agent is not None and not isinstance(agent, ExecuteOp):
        agent = agent.parent_op()
    return agent


def _ring(f: FunctionEmitter, op: Q.CreateQueueOp, size: int) -> Value:
    """Memory for a queue: of as many rings as may be in use, one that is not."""
    held = [f.scalar(value) for value in _made_before(op)]
    if not held:
        return f.pointer_to(f.scratch(size, FOREVER))
    b, coroutines = f.builder, f.unit.coroutines
    assert coroutines is not None
    slots = [coroutines.rings.arena.place(size, 0, FOREVER) for _ in range(len(held) + 1)]
    rings = [
        b.gep(f.frame.root, [coroutines.rings.at(slot.offset)], source_etype=I8) for slot in slots
    ]
    chosen = rings[-1]
    for ring in rings[:-1]:
        free = llvm.all_of(b, [b.icmp_unsigned("!=", ring, other) for other in held])
        chosen = b.select(free, ring, chosen)
    return chosen


@lowers("create_queue")
def create_queue(f: FunctionEmitter, op: Q.CreateQueueOp) -> None:
    """A ring of ``depth`` places in the block's memory, behind a header that counts what was put in and taken out."""
    coroutines, ty = f.unit.coroutines, op.result.type
    assert coroutines is not None and isinstance(ty, T.QueueType)
    depth = int_property(op, "depth")
    _, size = _layout(ty)
    queue = _ring(f, op, _header(f) + depth * size)
    here = consumers_of(op.result)
    taken = [0 if consumer in here else _ALL for consumer in coroutines.consumers]
    for number, value in enumerate([depth, 0, len(taken), *taken]):
        f.builder.store(ir.Constant(I64, value), _slot(f, queue, number))
    f.values[op.result] = queue


def _slot(f: FunctionEmitter, queue: Value, number: int) -> Value:
    return f.builder.gep(queue, [ir.Constant(I64, number)], source_etype=I64)


def _tuple(f: FunctionEmitter, queue: Value, ty: T.QueueType, number: Value) -> Value:
    """The address of the tuple with a number, counted from the beginning."""
    b = f.builder
    place = b.urem(number, b.load(queue, typ=I64))
    offset = b.mul(place, ir.Constant(I64, _layout(ty)[1]))
    return b.gep(queue, [b.add(offset, ir.Constant(I64, _header(f)))], source_etype=I8)


def _at(f: FunctionEmitter, where: Value, offset: int) -> Value:
    return f.builder.gep(where, [ir.Constant(I64, offset)], source_etype=I8)


@lowers(Q.QueuePutOp)
def put(f: FunctionEmitter, op: Q.QueuePutOp) -> None:
    """A region computes the tuple before the queue is asked for room."""
    values: Sequence[SSAValue] = op.values
    if op.body.blocks:
        values = _inline(f, op)
    b, queue, ty = f.builder, f.scalar(op.queue), op.queue.type
    assert isinstance(ty, T.QueueType)
    wait(f, op, UNTIL_ROOM, _room_wanted(op), queue)
    count_at = _slot(f, queue, 1)
    count = b.load(count_at, typ=I64)
    where = _tuple(f, queue, ty, count)
    for value, offset in zip(values, _layout(ty)[0], strict=True):
        pointer = _at(f, where, offset)
        if is_tile(value):
            tile = f.tile(value)
            f.fill([(buffer_tile(tile.element, tile.dims, pointer, _IN_QUEUE), tile)])
        else:
            b.store(f.scalar(value), pointer)
    b.store(b.add(count, ir.Constant(I64, 1)), count_at)


@lowers(Q.QueueGetOp)
def get(f: FunctionEmitter, op: Q.QueueGetOp) -> None:
    """A region works on the tuple when it has left the queue."""
    b, coroutines, queue, ty = f.builder, f.unit.coroutines, f.scalar(op.queue), op.queue.type
    assert coroutines is not None and isinstance(ty, T.QueueType)
    name = consumer_of(op)
    consumer = coroutines.consumers.index(name)
    wait(f, op, UNTIL_MORE, f"a tuple for consumer {name} of an empty queue", queue, consumer)
    count_at = _slot(f, queue, QUEUE_HEADER + consumer)
    count = b.load(count_at, typ=I64)
    where = _tuple(f, queue, ty, count)
    targets: Sequence[SSAValue] = op.body.blocks[0].args if op.body.blocks else op.results
    last = last_use(f, op)
    for target, item, offset in zip(targets, ty.item_types, _layout(ty)[0], strict=True):
        f.values[target] = _take(f, item, _at(f, where, offset), last)
    b.store(b.add(count, ir.Constant(I64, 1)), count_at)
    if op.body.blocks:
        kept = buffers(f, op.results, last)
        values = _inline(f, op)
        assign(f, kept, values)
        for result, value, buffer in zip(op.results, values, kept, strict=True):
            f.values[result] = buffer or f.values[value]


def _take(f: FunctionEmitter, item: Attribute, pointer: Value, last: int) -> object:
    """A value of a tuple; a tile is copied, since its place may be filled again."""
    if not isinstance(item, T.TileType):
        return f.builder.load(pointer, typ=element_of(item).register)
    element, dims = element_of(item), item.dims
    buffer = f.buffer(element, dims, last)
    f.fill([(buffer, buffer_tile(element, dims, pointer, _IN_QUEUE))])
    return buffer


def _inline(f: FunctionEmitter, op: Operation) -> Sequence[SSAValue]:
    """The code of a region; what it gives."""
    block = op.regions[0].blocks[0]
    f.block(block)
    end = block.last_op
    assert end is not None
    return end.operands


def _room_wanted(op: Q.QueuePutOp) -> str:
    made: SSAValue = op.queue
    while isinstance(made, BlockArgument) and isinstance(
        agent := made.block.parent_op(), ExecuteOp
    ):
        made = agent.operands[made.index]
    owner = made.owner
    if isinstance(owner, Q.CreateQueueOp):
        return f"room in a queue of depth {int_property(owner, 'depth')}"
    return "room in a queue"
