"""A kernel as one LLVM function over a range of blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from llvmlite import ir
from xdsl.ir import Block, Operation

from tilewright.cpu.abi import DONE, SLOT_BYTES, STOPPED, Site
from tilewright.cpu.codegen import (
    atomics,
    basics,
    bodies,
    contraction,
    control_flow,
    convolution,
    effects,
    folds,
    gathers,
    histogram,
    llvm,
    memory,
    memrefs,
    pointers,
    private,
    reports,
    reuse,
    sums,
    tiled,
)
from tilewright.cpu.codegen.elements import ELEMENTS, I1, I8, I32, I64, PTR, Element, element_of
from tilewright.cpu.codegen.function import BLOCK_TYPE, Frame, FunctionEmitter, Unit
from tilewright.cpu.codegen.irtypes import Builder, Value
from tilewright.cpu.codegen.known_memory import KnownMemory
from tilewright.cpu.codegen.plan import make_plan
from tilewright.cpu.target import CpuTarget
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp

#: The files that fill the table of lowerings.
FAMILIES = (
    *(atomics, basics, bodies, contraction, control_flow, convolution),
    *(folds, gathers, histogram, memory, memrefs, pointers, reports, tiled),
)


@dataclass(frozen=True, slots=True)
class Made:
    """The LLVM module of a kernel, and what the runtime must know."""

    module: ir.Module
    arena_bytes: int
    sites: list[Site]
    may_wait: bool
    asks_for_memory: bool
    globals: tuple[str, ...]


def emit(
    func: FuncOp,
    target: CpuTarget,
    *,
    checked: bool,
    distinct_arguments: bool,
    globals_: Mapping[str, Operation],
) -> Made:
    """The code of a kernel."""
    module = llvm.TargetModule(func.symbol, target)
    unit = Unit(module, target, checked, globals_=globals_)
    body = func.body.blocks[0]
    plan = make_plan(body, distinct_arguments=distinct_arguments)
    function = ir.Function(module, ir.FunctionType(I32, [PTR, PTR, PTR, I64, I64]), func.symbol)
    unit.prepare(function)
    for argument, name in zip(function.args, ("args", "grid", "rt", "begin", "end"), strict=True):
        argument.name = name
    b = ir.IRBuilder(function.append_basic_block("entry"))
    f = FunctionEmitter(unit, plan, b, _frame(b, function))
    for number, argument in enumerate(body.args):
        f.values[argument] = _parameter(b, function.args[0], number, element_of(argument.type))
    targets = private.find_targets(func, distinct_arguments=distinct_arguments)
    if checked or targets:
        table = _parameter(b, function.args[0], len(body.args), ELEMENTS["ptr"])
        unit.memory = KnownMemory(func, b.inttoptr(table, PTR))
        count = b.sub(function.args[4], function.args[3])
        f.copies = private.open_copies(f, targets, partial(_span, f, unit.memory, body), count)
    products = reuse.find_kept(func.walk(), plan, distinct_arguments=distinct_arguments)
    f.kept_panels = reuse.open_panels(f, products)
    f.sums = sums.find_sums(func.walk(), plan, target, checked=checked)
    _blocks(f, function, body)
    may_wait = any(effects.waits(op) for op in func.walk())
    asks = unit.memory is not None
    return Made(module, f.arena.size, unit.sites, may_wait, asks, tuple(unit.global_pointers))


def _span(f: FunctionEmitter, memory: KnownMemory, body: Block, number: int) -> tuple[Value, Value]:
    """The address that a parameter holds, and that behind its array."""
    return f.scalar(body.args[number]), memory.of_parameter(f.builder, number)[1]


def _parameter(b: Builder, slots: Value, number: int, element: Element) -> Value:
    offset = ir.Constant(I64, number * SLOT_BYTES)
    where = b.gep(slots, [offset], source_etype=I8)
    value = b.load(where, typ=element.buffer, align=SLOT_BYTES)
    if element.register == I1:
        return b.icmp_unsigned("!=", value, ir.Constant(I8, 0))
    return value


def _frame(b: Builder, function: ir.Function) -> Frame:
    """What is the same for all blocks; the coordinates of the block are filled in later."""
    _, grid, runtime, _, _ = function.args
    extents = tuple(
        b.load(b.gep(grid, [ir.Constant(I64, axis)], source_etype=I32), typ=I32, align=4)
        for axis in range(3)
    )
    arena = b.load(runtime, typ=PTR)
    place = llvm.stack(b, BLOCK_TYPE)
    return Frame(arena, runtime, extents, extents, place)  # pyright: ignore[reportArgumentType]


def _blocks(f: FunctionEmitter, function: ir.Function, body: object) -> None:
    """The loop over the blocks of the range."""
    b = f.builder
    _, _, runtime, begin, end = function.args
    stop = b.load(b.gep(runtime, [ir.Constant(I32, 3)], source_etype=PTR), typ=PTR)
    entry = b.block
    head, run, leave = (b.append_basic_block(n) for n in ("next_block", "run_block", "leave"))
    stopped, finished = b.append_basic_block("stop"), b.append_basic_block("finished")
    f.stopped = stopped
    b.cbranch(b.icmp_signed("<", begin, end), head, finished)
    b.position_at_end(head)
    linear = b.phi(I64)
    linear.add_incoming(begin, entry)
    asked = b.load_atomic(stop, "monotonic", 4, typ=I32)
    b.cbranch(b.icmp_signed("!=", asked, ir.Constant(I32, 0)), stopped, run)
    b.position_at_end(run)
    f.frame = _at_block(b, f.frame, linear)
    f.block(body)  # pyright: ignore[reportArgumentType]
    b.branch(leave)
    b.position_at_end(leave)
    following = b.add(linear, ir.Constant(I64, 1))
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
    private.close_copies(b, f.copies.values())
    if f.unit.streams:
        llvm.fence_stores(b)
    b.ret(result)


def _at_block(b: Builder, frame: Frame, linear: Value) -> Frame:
    width, height = (b.zext(extent, I64) for extent in frame.grid[:2])
    rest = b.udiv(linear, width)
    parts = (b.urem(linear, width), b.urem(rest, height), b.udiv(rest, height))
    block_id = tuple(b.trunc(part, I32) for part in parts)
    for axis, part in enumerate(block_id):
        where = b.gep(frame.place, [ir.Constant(I64, axis)], source_etype=I32)
        b.store(part, where, align=4)
    return Frame(frame.arena, frame.runtime, frame.grid, block_id, frame.place)  # pyright: ignore[reportArgumentType]
