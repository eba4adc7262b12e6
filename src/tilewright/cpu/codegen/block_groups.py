"""Runs neighbouring tile blocks as one (``analysis.strips``) in a thread's loop over blocks.

The function contains the kernel's code twice: for one block, and for a group. A group runs when the loop reaches its first
block; its other blocks then have nothing left to do. Where groups run row by row, one block runs a
stretch of them: all groups along the axis of the grid or, where that leaves too few stretches for all threads, a part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from llvmlite import ir
from xdsl.ir import Block

from tilewright.cpu.codegen.analysis import extrema, nans, strips
from tilewright.cpu.codegen.analysis.plan import Plan
from tilewright.cpu.codegen.analysis.strips import Strips
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir.elements import I1, I32, I64
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.memory.grid_checks import all_inside
from tilewright.cpu.codegen.products import deferred, running_sums
from tilewright.cpu.codegen.products.direct_operands import is_alone


@dataclass(frozen=True, slots=True)
class Together:
    """How blocks run together, and the plan of what one does for all."""

    strips: Strips
    plan: Plan


@dataclass(frozen=True, slots=True)
class Shares:
    """What a launch makes of that: the same for all blocks. Numbers of 32 bits."""

    whole: Value
    """The blocks along the axis of the grid that are of complete groups; 0 if all run by themselves."""
    groups: Value
    """Those groups."""
    stretch: Value
    """How many of them one block runs."""


def shares(f: FunctionEmitter, function: ir.Function, body: Block, together: Together) -> Shares:
    """Who runs what, computed in front of the loop over blocks."""
    b, found = f.builder, together.strips
    bits = found.factor.bit_length() - 1
    extent = f.frame.grid[found.axis]
    x, y, z = (b.zext(each, I64) for each in f.frame.grid)
    lines = b.udiv(b.mul(b.mul(x, y), z), b.zext(extent, I64))
    along = b.lshr(extent, ir.Constant(I32, bits))
    groups = b.mul(lines, b.zext(along, I64))
    where = b.gep(function.args[1], [ir.Constant(I64, 3)], source_etype=I32)
    threads = b.zext(b.load(where, typ=I32, align=4), I64)
    twice = b.add(threads, threads)
    enough = ir.Constant(I1, 1) if found.each else _go_round(b, groups, threads, twice)
    if f.checked:
        enough = b.and_(enough, all_inside(f, body, list(body.walk())))
    for number in found.strides:
        stride = f.scalar(body.args[number])
        short = b.icmp_unsigned("<=", stride, ir.Constant(stride.type, strips.NEAR))
        enough = b.and_(enough, short)
    for op in f.unit.right_axes:
        # Blocks by themselves keep packed panels for others.
        enough = b.and_(enough, is_alone(f, op))
    for axis, height in found.heights:
        # Rows are numbered as blocks are, by 32 bits with a sign.
        fit = ir.Constant(I32, (1 << 31) // height)
        enough = b.and_(enough, b.icmp_unsigned("<=", f.frame.grid[axis], fit))
    whole = b.select(enough, b.shl(along, ir.Constant(I32, bits)), ir.Constant(I32, 0))
    if not found.heights or found.each:
        return Shares(whole, along, ir.Constant(I32, 1))
    # As many stretches of each line as give every thread two, unless there are lines enough.
    one = ir.Constant(I64, 1)
    parts = b.udiv(b.sub(b.add(twice, lines), one), lines)
    parts = b.trunc(b.select(_go_round(b, lines, threads, twice), one, parts), I32)
    stretch = b.udiv(b.sub(b.add(along, parts), ir.Constant(I32, 1)), parts)
    return Shares(
        whole,
        along,
        b.or_(stretch, b.zext(b.icmp_unsigned("==", stretch, ir.Constant(I32, 0)), I32)),
    )


def _go_round(b: Builder, pieces: Value, threads: Value, twice: Value) -> Value:
    """Whether there are pieces enough for all threads to end at about the same time."""
    many = b.icmp_unsigned(">", b.add(pieces, ir.Constant(I64, 2)), twice)
    return b.or_(many, b.icmp_unsigned("==", pieces, threads))


def alone_or_together(f: FunctionEmitter, body: Block, together: Together, shares: Shares) -> Value:
    """A block: by itself, or, if it is the first one of what runs together, all of that. The result is how many blocks
    behind it have nothing to do, of 64 bits."""
    b, found = f.builder, together.strips
    bits = found.factor.bit_length() - 1
    here = f.frame.block_id[found.axis]
    names = ("group", "together", "alone", "rest")
    of_group, run, alone, rest = (b.append_basic_block(name) for name in names)
    b.cbranch(b.icmp_unsigned("<", here, shares.whole), of_group, alone)
    b.position_at_end(alone)
    f.rarely = True
    f.block(body)
    ends = [(ir.Constant(I64, 0), b.block)]
    b.branch(rest)
    b.position_at_end(of_group)
    group = b.lshr(here, ir.Constant(I32, bits))
    inside = b.and_(here, ir.Constant(I32, found.factor - 1))
    left = b.or_(inside, b.urem(group, shares.stretch)) if found.heights else inside
    ends.append((ir.Constant(I64, 0), b.block))
    b.cbranch(b.icmp_unsigned("==", left, ir.Constant(I32, 0)), run, rest)
    b.position_at_end(run)
    g = _emitter(f, body, together)
    wide = found.function.body.blocks[0]
    if found.heights:
        behind = b.add(group, shares.stretch)
        fits = b.icmp_unsigned("<", behind, shares.groups)
        behind = b.select(fits, behind, shares.groups)
        _row_by_row(f, g, wide, found, (group, behind))
    else:
        behind = b.add(group, ir.Constant(I32, 1))
        _at(g, f, {found.axis: group})
        g.block(wide)
    done = b.shl(b.sub(behind, group), ir.Constant(I32, bits))
    skipped = b.zext(b.sub(done, ir.Constant(I32, 1)), I64)
    follow = f.unit.order[0] == found.axis
    ends.append((skipped if follow else ir.Constant(I64, 0), b.block))
    b.branch(rest)
    b.position_at_end(rest)
    f.arena.size = g.arena.size
    result = b.phi(I64)
    for value, block in ends:
        result.add_incoming(value, block)
    return result


def _row_by_row(
    f: FunctionEmitter, g: FunctionEmitter, wide: Block, found: Strips, groups: tuple[Value, Value]
) -> None:
    """The first row of all groups, then the second, and so on."""
    b = f.builder

    def rows(heights: tuple[tuple[int, int], ...], place: dict[int, Value]) -> None:
        if heights:
            (axis, height), *others = heights
            first = b.mul(f.frame.block_id[axis], ir.Constant(I32, height))
            behind = b.add(first, ir.Constant(I32, height))
            _loop(b, first, behind, lambda row: rows(tuple(others), place | {axis: row}))
        else:
            _loop(b, *groups, lambda group: along(place | {found.axis: group}))

    def along(place: dict[int, Value]) -> None:
        _at(g, f, place)
        g.block(wide)

    rows(found.heights, {})


def _loop(b: Builder, first: Value, behind: Value, body: Callable[[Value], None]) -> None:
    """``body`` for each number from the first on, of which there is at least one."""
    before = b.block
    head, out = b.append_basic_block("next"), b.append_basic_block("behind")
    b.branch(head)
    b.position_at_end(head)
    number = b.phi(I32)
    number.add_incoming(first, before)
    body(number)
    following = b.add(number, ir.Constant(I32, 1))
    number.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("<", following, behind), head, out)
    b.position_at_end(out)


def _at(g: FunctionEmitter, f: FunctionEmitter, place: dict[int, Value]) -> None:
    parts = f.frame.block_id
    x, y, z = (place.get(axis, part) for axis, part in enumerate(parts))
    g.frame = replace(f.frame, block_id=(x, y, z))


def _emitter(f: FunctionEmitter, narrow: Block, together: Together) -> FunctionEmitter:
    """What makes the code of a group, behind that of a block; panels that blocks keep stay."""
    function, target = together.strips.function, f.unit.target
    ops, body = list(function.walk()), function.body.blocks[0]
    g = FunctionEmitter(f.unit, together.plan, f.builder, f.frame)
    g.stopped = f.stopped
    g.checks = False  # One check, in front of the loop over blocks, is for all of them.
    if together.strips.each:
        ((_, g.rows_in_turn),) = together.strips.heights
    g.arena.size = f.arena.size
    for number, argument in enumerate(body.args):
        g.values[argument] = f.values[narrow.args[number]]
    g.sums = running_sums.find_sums(ops, together.plan, target, checked=False)
    g.canonical, g.quiet = nans.find_canonical(ops), nans.find_quiet(ops)
    g.by_keys = extrema.find_by_keys(ops, target)
    g.deferred = deferred.find_deferred(ops, together.plan, target)
    return g
