"""Checks for all blocks of a launch at once, in front of the loop over blocks: where they hold, what blocks do together needs none of
its own (``block_groups``).

They concern accesses through views at indices that are numbers of blocks, counters of loops, or the same for all: the largest
of each must lie in its view, and the whole memory of the view in its array. Where that is not known, blocks go one by one, and check.
"""

from __future__ import annotations

from collections.abc import Iterable

from llvmlite import ir
from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from tilewright.analysis.tileaa.geometry import cut_by
from tilewright.cpu.codegen.analysis.known_numbers import CASTS, known_number
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I64
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.memory.access import indices_of
from tilewright.cpu.codegen.memory.checks import Exact
from tilewright.cpu.codegen.memory.range_search import holds
from tilewright.cpu.codegen.memory.views import Memref, View, as_value
from tilewright.dialects.declare import bool_values, int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.hints import CreateMemTokenOp
from tilewright.dialects.nv_tileaa.ops.memory import Load, Store, TiledLoadOp, TiledStoreOp
from tilewright.dialects.nv_tileaa.ops.queues import GetProgramIdOp


class _Unknown(Exception):
    """Something of which nothing is known in front of the loop over blocks."""


def all_inside(f: FunctionEmitter, body: Block, ops: Iterable[Operation]) -> Value:
    """Whether no access of any block can be outside of its view, or its view outside of its array."""
    here = FunctionEmitter(f.unit, f.plan, f.builder, f.frame)
    here.values |= f.values
    for op in body.ops:
        if _is_the_same_for_all(here, op):
            here.operation(op)
    accesses = [op for op in ops if isinstance(op, Load | Store)]
    try:
        found = [each for op in accesses for each in _conditions(here, op)]
    except _Unknown:
        return ir.Constant(I1, 0)
    return llvm.all_of(f.builder, found) or ir.Constant(I1, 1)


def _is_the_same_for_all(here: FunctionEmitter, op: Operation) -> bool:
    """Whether an operation computes numbers and views of what is known already."""
    return (
        not op.regions
        and is_side_effect_free(op)
        and not isinstance(op, GetProgramIdOp | CreateMemTokenOp | Load)
        and not any(T.dims_of(result.type) for result in op.results)
        and all(value in here.values for value in op.operands)
    )


def _conditions(here: FunctionEmitter, op: Operation) -> list[Value]:
    """What must hold for an access. Raises ``_Unknown``."""
    view = here.values.get(op.operands[0])
    if not isinstance(op, TiledLoadOp | TiledStoreOp) or not isinstance(view, View):
        raise _Unknown
    cutter = cut_by(op.operands[0])
    cut = None if cutter is None else cutter.cut
    grouped = cut is not None and any(count > 1 for count in cut.groups or ())
    if grouped or view.sparse is not None or view.memref.element.is_packed:
        raise _Unknown
    b, promises = here.builder, bool_values(op.properties.get("in_bounds"))
    found: list[Value] = []
    for position, index in enumerate(indices_of(op)):
        axis, step, extent = view.axes[position], view.steps[position], view.dims[position]
        size, exact = as_value(view.memref.sizes[axis]), Exact(b)
        last = exact.times(_most(here, index), as_value(step))
        if position < len(promises) and promises[position]:
            end = exact.plus(last, ir.Constant(I64, extent))
            found.append(b.icmp_unsigned("<=", end, size))
        found += [exact.fine, b.icmp_unsigned("<", last, size)]
    return [*found, *_memory_is_there(here, op.operands[0], view.memref)]


def _memory_is_there(here: FunctionEmitter, base: SSAValue, memref: Memref) -> list[Value]:
    """The elements of a memref, from the first to the last, lie in one array."""
    b, exact = here.builder, Exact(here.builder)
    last, one = ir.Constant(I64, 0), ir.Constant(I64, 1)
    some: list[Value] = []
    for size, stride in zip(memref.sizes, memref.strides, strict=True):
        some.append(b.icmp_unsigned(">", as_value(size), ir.Constant(I64, 0)))
        furthest = exact.times(b.sub(as_value(size), one), as_value(stride))
        last = exact.plus(last, furthest)
    bytes_ = memref.element.memory_bytes
    reach = exact.times(last, ir.Constant(I64, bytes_))
    first = b.ptrtoint(memref.pointer, I64)
    end = exact.plus(first, reach)
    return [*some, exact.fine, holds(here, b, base, first, end, bytes_)]


def _most(here: FunctionEmitter, index: SSAValue) -> Value:
    """The largest number that an index has in any block and iteration, of 64 bits. Raises ``_Unknown``."""
    b, one = here.builder, ir.Constant(I64, 1)
    if index in here.values:
        return here.as_index(index)
    owner = index.owner
    if isinstance(owner, Block):
        loop = owner.parent_op()
        if not isinstance(loop, scf.ForOp) or index is not owner.args[0]:
            raise _Unknown
        first = known_number(loop.lb)
        if first is None or first < 0 or loop.ub not in here.values:
            raise _Unknown
        return b.sub(here.as_index(loop.ub), one)
    if isinstance(owner, GetProgramIdOp) and owner.program_id is None:
        return b.sub(_wide(b, here.frame.grid[int_property(owner, "axis")]), one)
    if isinstance(owner, Operation) and owner.name in CASTS:
        return _most(here, owner.operands[0])
    raise _Unknown


def _wide(b: Builder, number: Value) -> Value:
    return number if number.type == I64 else b.zext(number, I64)
