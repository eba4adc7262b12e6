"""Generates a kernel as one LLVM function over a range of blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from llvmlite import ir
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tilewright.cpu.abi import ALONE, CLOSED, DONE, SLOT_BYTES, STOPPED, Site, symbol_of
from tilewright.cpu.codegen import block_groups
from tilewright.cpu.codegen.analysis import (
    block_bands,
    block_order,
    effects,
    extrema,
    lock_keys,
    nans,
    strips,
)
from tilewright.cpu.codegen.analysis.plan import Plan, make_plan
from tilewright.cpu.codegen.block_groups import Together
from tilewright.cpu.codegen.control import block_keys, control_flow, programs
from tilewright.cpu.codegen.coroutines import agents, queues, waiting_blocks
from tilewright.cpu.codegen.coroutines.agent_memory import find_coroutines
from tilewright.cpu.codegen.coroutines.scheduling import TileBlock
from tilewright.cpu.codegen.elementwise import operations
from tilewright.cpu.codegen.emitter.function import (
    Frame,
    FunctionEmitter,
    Unit,
)
from tilewright.cpu.codegen.emitter.grid import BLOCK_TYPE, block_coordinates
from tilewright.cpu.codegen.host import external_functions, reports
from tilewright.cpu.codegen.ir import entry, llvm, outlining
from tilewright.cpu.codegen.ir.debug_info import NumberOf, Origins
from tilewright.cpu.codegen.ir.elements import ELEMENTS, I1, I8, I32, I64, PTR, Element, element_of
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.tiles import Strided
from tilewright.cpu.codegen.memory import (
    atomics,
    gathers,
    histogram,
    kernel_memory,
    memrefs,
    pointers,
    privatization,
    single_thread,
    view_access,
)
from tilewright.cpu.codegen.memory.noalias_ranges import NoaliasRanges
from tilewright.cpu.codegen.memory.privatization_merge import close_copies
from tilewright.cpu.codegen.products import (
    bands,
    contraction,
    convolution,
    deferred,
    observed,
    packed_operands,
    running_sums,
)
from tilewright.cpu.codegen.reductions import reduce, scan, vector_bodies
from tilewright.cpu.target import CpuTarget
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.queues import CancelNextProgramIdOp
from tilewright.launching.assertions import OperationSource
from tilewright.numerics.strides import row_major
from tilewright.passes.tileas.remarks import Remark

#: The files that fill the table of lowerings.
FAMILIES = (
    *(agents, atomics, contraction, control_flow, convolution, external_functions, gathers),
    *(histogram, memrefs, operations, kernel_memory, pointers, programs, queues, reduce, scan),
    *(reports, vector_bodies, view_access),
)


@dataclass(frozen=True, slots=True)
class Made:
    """The LLVM module of a kernel, and what the runtime must know."""

    module: ir.Module
    symbol: str
    arena_bytes: int
    sites: list[Site]
    may_wait: bool
    asks_for_memory: bool
    has_agents: bool
    takes_over: bool
    globals: tuple[str, ...]
    loops: tuple[OperationSource, ...]
    updates: bool
    may_be_alone: bool
    has_keys: bool
    remarks: tuple[Remark, ...]


def emit(
    func: FuncOp,
    target: CpuTarget,
    *,
    checked: bool,
    distinct_arguments: bool,
    globals_: Mapping[str, Operation],
    plugins: Collection[str],
    number_of: NumberOf | None = None,
) -> Made:
    """The code of a kernel. With ``number_of`` it tells which operation each instruction is from.

    ``distinct_arguments``: the memory of arrays does not overlap. ``checked``: accesses are checked against the
    memory of the launch. Raises ``TileIRError`` (``cpu-unsupported``) at an operation without code.
    """
    symbol = symbol_of("kernel", func.symbol)
    module = llvm.TargetModule(symbol, target)
    unit = Unit(module, target, checked, globals_=globals_, plugins=plugins)
    origin: dict[Operation, Operation] = {}
    if number_of is not None:
        unit.origins = module.origins = Origins(module, lambda op: number_of(origin.get(op, op)))
    ops = list(func.walk())
    unit.coroutines = find_coroutines(ops, unit.sites)
    unit.order = block_order.order_of_blocks(ops)
    unit.right_axes = block_order.axes_of_rights(ops)
    if unit.order != block_order.ROW_BY_ROW:
        axes = ", then ".join("xyz"[axis] for axis in unit.order)
        unit.remarks.add("order", f"consecutive blocks run along {axes}")
    body = func.body.blocks[0]

    def plan_of(body: Block) -> Plan:
        return make_plan(
            body,
            distinct_arguments=distinct_arguments,
            groups=unit.coroutines is None,
            # Half of the registers; the others hold what is being computed.
            run_bytes=target.vector_registers * target.vector_bits // 16,
            grid_axis=unit.order[0],
        )

    plan = plan_of(body)
    may_wait = any(effects.waits(op) for op in ops)
    resumed = may_wait or unit.coroutines is not None
    aligned = entry.aligns_stack(module, target, resumed=resumed)
    function = _function(module, symbol, may_wait=may_wait, inside=aligned)
    unit.prepare(function)
    for argument, name in zip(function.args, ("args", "grid", "rt", "begin", "end"), strict=True):
        argument.name = name
    b = ir.IRBuilder(function.append_basic_block("entry"))
    takes_over = any(isinstance(op, CancelNextProgramIdOp) for op in ops)
    place, cursor = llvm.stack(b, BLOCK_TYPE), llvm.stack(b, I64) if takes_over else None
    waiting = _waiting(b, function) if may_wait else None
    f = FunctionEmitter(unit, plan, b, _frame(b, function, place, cursor))
    f.waiting = waiting
    f.values |= _arguments(body, b, function.args[0])
    if (
        unit.coroutines is None
        and not may_wait
        and any(single_thread.can_be_alone(op) for op in ops)
    ):
        f.alone = single_thread.is_launch(b, function.args[2], ALONE)
    targets = privatization.find_targets(func, distinct_arguments=distinct_arguments)
    privatization.tell_why_not(unit.remarks, ops, targets)
    for value, reason in plan.reasons.items():
        assert isinstance(value.owner, Operation)
        unit.remarks.add("buffer", f"a tile is kept in a buffer: {reason}", value.owner)
    if checked or targets:
        table = _parameter(b, function.args[0], len(body.args), ELEMENTS["ptr"])
        unit.memory = NoaliasRanges(func, b.inttoptr(table, PTR))
    blocks = _counted(f, function) if targets else None
    if blocks is not None and unit.memory is not None:
        f.copies = privatization.open_copies(
            f, targets, partial(_span, f, unit.memory, body), blocks
        )
    if unit.coroutines is not None:
        # What follows concerns all operations of a kernel, and knows nothing of agents.
        ops, f.coroutine = [], TileBlock(f)
    products = packed_operands.find_packed(ops, plan, distinct_arguments=distinct_arguments)
    f.packed_panels = packed_operands.open_panels(f, products)
    f.sums = running_sums.find_sums(ops, plan, target, checked=checked)
    f.observed = observed.find_observed(ops, plan)
    f.canonical = nans.find_canonical(func.walk())
    f.quiet = nans.find_quiet(func.walk())
    f.by_keys = extrema.find_by_keys(func.walk(), target)
    f.deferred = deferred.find_deferred(ops, plan, target, f.packed_panels)
    wide = None
    if not may_wait:
        wide = strips.find_strips(
            func,
            ops,
            plan,
            plan_of,
            distinct_arguments=distinct_arguments,
            streams=reduce.streams(target),
        )
    unit.rows_at_once = wide is not None and wide.rows_at_once
    unit.reshapes_blocks = wide is not None
    if wide is not None:
        origin |= wide.origin
        unit.remarks.add("strip", strips.described(wide))
    together = None if wide is None else Together(wide, plan_of(wide.function.body.blocks[0]))
    height = None
    if together is None and unit.coroutines is None:
        height = bands.height_of(f, block_bands.find_bands(ops, unit.order, target))
    _blocks(f, function, body, together, blocks, height)
    outlining.outline(unit.parts, target)
    asks = unit.memory is not None
    size = f.arena.size if unit.coroutines is None else unit.coroutines.settle(f.arena.size)
    if may_wait:
        unit.prepare(waiting_blocks.make_kernel(module, symbol, function, size))
    elif aligned:
        unit.prepare(entry.make_entry(module, symbol, function))
    key = lock_keys.find_key(list(func.walk())) if may_wait and distinct_arguments else None
    if key is not None and unit.origins is None:
        block_keys.make_keys(unit, plan, key, symbol, partial(_arguments, body))
    if key is not None:
        message = "blocks that may wait for each other run on one thread, in order"
        unit.remarks.add("order", message)
    return Made(
        module,
        symbol,
        size,
        unit.sites,
        may_wait,
        asks,
        unit.coroutines is not None,
        takes_over,
        tuple(unit.global_pointers),
        tuple(unit.loops),
        any(effects.updates(op) for op in func.walk()),
        f.alone is not None,
        key is not None and unit.origins is None,
        tuple(unit.remarks.found),
    )


def _counted(f: FunctionEmitter, function: ir.Function) -> privatization.Blocks:
    b = f.builder
    _, grid, runtime, begin, end = function.args
    x, y, z = (b.zext(extent, I64) for extent in f.frame.grid)
    where = b.gep(grid, [ir.Constant(I64, 3)], source_etype=I32)
    threads = b.zext(b.load(where, typ=I32, align=4), I64)
    closed = None if f.alone is None else single_thread.is_launch(b, runtime, CLOSED)
    total = b.mul(b.mul(x, y), z)
    return privatization.Blocks(b.sub(end, begin), total, threads, closed)


def _span(
    f: FunctionEmitter, memory: NoaliasRanges, body: Block, number: int
) -> tuple[Value, Value]:
    """The address that a parameter holds, and that behind its array."""
    return f.scalar(body.args[number]), memory.of_parameter(f.builder, number)[1]


def _arguments(body: Block, b: Builder, slots: Value) -> dict[SSAValue, object]:
    """What all parameters hold."""
    return {held: _argument(b, slots, n, held.type) for n, held in enumerate(body.args)}


def _argument(b: Builder, slots: Value, number: int, ty: Attribute) -> object:
    """What a parameter holds; a tile is passed by its address."""
    if not isinstance(ty, T.TileType):
        return _parameter(b, slots, number, element_of(ty))
    address = b.inttoptr(_parameter(b, slots, number, ELEMENTS["ptr"]), PTR)
    return Strided(element_of(ty), ty.dims, address, row_major(ty.dims))


def _parameter(b: Builder, slots: Value, number: int, element: Element) -> Value:
    offset = ir.Constant(I64, number * SLOT_BYTES)
    where = b.gep(slots, [offset], source_etype=I8)
    value = b.load(where, typ=element.buffer, align=SLOT_BYTES)
    if element.register == I1:
        return b.icmp_unsigned("!=", value, ir.Constant(I8, 0))
    return value


def _function(
    module: ir.Module, symbol: str, *, may_wait: bool, inside: bool = False
) -> ir.Function:
    """The function of a range of blocks: the kernel, what it calls (``inside``), or the coroutine that it hands on."""
    result, name = (PTR, f"{symbol}.block") if may_wait else (I32, symbol)
    name = f"{symbol}.blocks" if inside else name
    function = ir.Function(module, ir.FunctionType(result, [PTR, PTR, PTR, I64, I64]), name)
    if may_wait or inside:
        function.linkage = "internal"
    return function


def _waiting(b: Builder, function: ir.Function) -> waiting_blocks.Waiting:
    body = b.append_basic_block("begin")
    b.branch(body)
    b.position_at_end(body)
    return waiting_blocks.Waiting(b, function.args[2])


def _frame(b: Builder, function: ir.Function, place: Value, cursor: Value | None) -> Frame:
    """What is the same for all blocks; the coordinates of the block are filled in later."""
    _, grid, runtime, _, _ = function.args
    extents = tuple(
        b.load(b.gep(grid, [ir.Constant(I64, axis)], source_etype=I32), typ=I32, align=4)
        for axis in range(3)
    )
    arena = b.load(runtime, typ=PTR)
    return Frame(arena, runtime, extents, extents, place, arena, cursor, function.args[4])


def _blocks(
    f: FunctionEmitter,
    function: ir.Function,
    body: Block,
    together: Together | None,
    counted: privatization.Blocks | None,
    height: Value | None,
) -> None:
    """The loop over the blocks of the range; ``height``: that of bands of blocks, where there are any."""
    b = f.builder
    _, _, runtime, begin, end = function.args
    stop = b.load(b.gep(runtime, [ir.Constant(I32, 3)], source_etype=PTR), typ=PTR)
    entry = b.block
    head, run, leave = (b.append_basic_block(n) for n in ("next_block", "run_block", "leave"))
    stopped, finished = b.append_basic_block("stop"), b.append_basic_block("finished")
    f.stopped = stopped
    shares = None if together is None else block_groups.shares(f, function, body, together)
    b.cbranch(b.icmp_signed("<", begin, end), head, finished)
    b.position_at_end(head)
    linear = b.phi(I64)
    linear.add_incoming(begin, entry)
    asked = b.load_atomic(stop, "monotonic", 4, typ=I32)
    b.cbranch(b.icmp_signed("!=", asked, ir.Constant(I32, 0)), stopped, run)
    b.position_at_end(run)
    f.frame = _at_block(b, f.frame, linear, f.unit.order, height)
    if f.frame.cursor is not None:
        b.store(linear, f.frame.cursor)
    skipped: Value = ir.Constant(I64, 0)
    if together is None or shares is None:
        f.block(body)
    else:
        skipped = block_groups.alone_or_together(f, body, together, shares)
    b.branch(leave)
    b.position_at_end(leave)
    last = linear if f.frame.cursor is None else b.load(f.frame.cursor, typ=I64)
    following = b.add(b.add(last, skipped), ir.Constant(I64, 1))
    linear.add_incoming(following, leave)
    b.cbranch(b.icmp_signed("<", following, end), head, finished)
    out = b.append_basic_block("out")
    ends = ((finished, DONE), (stopped, STOPPED))
    for block, _ in ends:
        b.position_at_end(block)
        b.branch(out)
    b.position_at_end(out)
    result = b.phi(I32)
    for block, code in ends:
        result.add_incoming(ir.Constant(I32, code), block)
    if isinstance(f.coroutine, TileBlock):
        f.coroutine.end_all(b)
    if counted is not None:
        close_copies(b, f.copies.values(), begin, counted.total, counted.closed)
    if f.unit.has_non_temporal_stores:
        llvm.fence_stores(b)
    if f.waiting is None:
        b.ret(result)
    else:
        f.waiting.close(b, result)


def _at_block(
    b: Builder, frame: Frame, linear: Value, order: block_order.Order, height: Value | None
) -> Frame:
    block_id = block_coordinates(b, frame.grid, linear, order, height)
    for axis, part in enumerate(block_id):
        where = b.gep(frame.place, [ir.Constant(I64, axis)], source_etype=I32)
        b.store(part, where, align=4)
    return replace(frame, block_id=block_id)
