"""The grid, and taking over tile blocks that have not begun."""

from __future__ import annotations

from llvmlite import ir
from xdsl.ir import Operation

from tilewright.cpu.abi import NO_BLOCK, RT_FINISHED, RT_RANGE
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.emitter.grid import block_coordinates
from tilewright.cpu.codegen.emitter.table import lowers
from tilewright.cpu.codegen.ir.elements import I64, PTR
from tilewright.cpu.codegen.ir.types import Value
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa.ops import queues as Q


@lowers("get_program_id")
def program_id(f: FunctionEmitter, op: Q.GetProgramIdOp) -> None:
    """The number of the block along the axis, or of the one that was taken over: i32."""
    place = f.frame.block_id
    if op.program_id is not None:
        place = block_coordinates(f.builder, f.frame.grid, f.scalar(op.program_id))
    f.values[op.result] = place[int_property(op, "axis")]


@lowers("get_num_programs")
def program_count(f: FunctionEmitter, op: Q.GetNumProgramsOp) -> None:
    """The blocks of the grid along the axis: i32."""
    f.values[op.result] = f.frame.grid[int_property(op, "axis")]


@lowers("cancel_next_program_id")
def cancel_next(f: FunctionEmitter, op: Operation) -> None:
    """The next block of those that the calling thread has taken, else the next that nobody has."""
    b, cursor = f.builder, f.frame.cursor
    assert cursor is not None
    one, none = ir.Constant(I64, 1), ir.Constant(I64, NO_BLOCK)
    following = b.add(b.load(cursor, typ=I64), one)
    ours, others, done = (b.append_basic_block(name) for name in ("ours", "others", "taken_over"))
    b.cbranch(b.icmp_signed("<", following, f.frame.end), ours, others)
    b.position_at_end(ours)
    b.store(following, cursor)
    b.branch(done)
    b.position_at_end(others)
    counter = _runtime(f, RT_RANGE)
    taken = b.atomic_rmw("add", counter, one, "monotonic")
    bound = b.load(b.gep(counter, [one], source_etype=I64), typ=I64)
    there = b.icmp_signed("<", taken, bound)
    b.atomic_rmw("add", _runtime(f, RT_FINISHED), b.zext(there, I64), "monotonic")
    found = b.select(there, taken, none)
    b.branch(done)
    b.position_at_end(done)
    result = b.phi(I64)
    result.add_incoming(following, ours)
    result.add_incoming(found, others)
    f.values[op.results[0]] = result


def _runtime(f: FunctionEmitter, field: int) -> Value:
    b = f.builder
    return b.load(b.gep(f.frame.runtime, [ir.Constant(I64, field)], source_etype=PTR), typ=PTR)


@lowers("is_valid_program_id")
def is_valid(f: FunctionEmitter, op: Q.IsValidProgramIdOp) -> None:
    """Whether a block was taken over; none is marked by a number that no block has."""
    found = f.scalar(op.program_id)
    f.values[op.result] = f.builder.icmp_signed("!=", found, ir.Constant(I64, NO_BLOCK))
