"""The packed-operand cache: packed operands that are reused by later tile blocks.

The tile blocks of a matrix product that a thread runs in succession often multiply by the same right operand, and those of the
next right one by the same left operands. Where nothing in the launch writes to the array of an operand, a packed panel remains
valid: it stays in the thread's arena for the rest of the launch, tagged with the tile that it was packed from. A loop over k has
a slot for each of its iterations; as many groups of such slots as there is room for serve tiles with different indices along the
other axis.

A left operand is copied where its rows are not dense along k, where its elements are converted, and where tiles end behind their
array. An operand that no other tile block reads, as in a batch of products, is packed anew each time, where the last one was: that
memory is in the first cache.

Which products cache their panels is decided for a whole function before code is generated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

from llvmlite import ir
from xdsl.ir import Operation, SSAValue

from tilewright.cpu.abi import PANELS_READY
from tilewright.cpu.codegen.analysis import effects
from tilewright.cpu.codegen.analysis.plan import Plan
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I8, I64
from tilewright.cpu.codegen.ir.types import Value
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.tiles import Tile, walk
from tilewright.cpu.codegen.memory.access import ViewLoad
from tilewright.cpu.codegen.products.accumulation import accumulation_kernel_of
from tilewright.cpu.codegen.products.running_sums import can_be_made_before, make_early
from tilewright.cpu.codegen.products.state import OperandOf, PackedOperand, Side
from tilewright.dialects.arith import ArithOp
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops import memory as M
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp
from tilewright.dialects.nv_tileaa.ops.hints import AssumeOp
from tilewright.dialects.nv_tileaa.ops.queues import GetProgramIdOp
from tilewright.dialects.nv_tileaa.ops.shapes import ExpandDimsOp, PermuteOp, ViewOp

#: The part of the last cache that panels of one kernel may take, and the slots of one product.
_SHARE_OF_CACHE = 8
MOST_SLOTS = 1024
FEWEST_SLOTS = 2
_WORD = 8
#: How many limits of what is packed a tag has.
_LIMITS = 2
#: Operations that only move or convert what one operand holds.
_MOVES = (PermuteOp, ViewOp, ExpandDimsOp)


def find_packed(
    ops: Iterable[Operation], plan: Plan, *, distinct_arguments: bool
) -> dict[OperandOf, M.TiledLoadOp]:
    """The operands of products that are tiles of memory that no block changes, and that several blocks read, with their
    loads."""
    every = list(ops)
    if not distinct_arguments or any(effects.orders(op) for op in every):
        return {}
    found: dict[OperandOf, M.TiledLoadOp] = {}
    for op in every:
        if not isinstance(op, DotOp) or op.sfa is not None or len(T.dims_of(op.b.type)) != 2:
            continue
        loads = {Side.LEFT: loaded_from(op.a, plan), Side.RIGHT: loaded_from(op.b, plan)}
        for side, load in loads.items():
            root = None if load is None else effects.root_of(load.operands[0])
            if load is None or root is None or any(effects.may_write(o, root) for o in every):
                continue
            if _is_read_again(load, loads[side.other]):
                found[op, side] = load
    return found


def _is_read_again(load: M.TiledLoadOp, other: M.TiledLoadOp | None) -> bool:
    """Whether blocks, or iterations, that differ in the other operand of a product may read the same tile: the other one has
    an index that is no constant, and that this one lacks."""
    if other is None:
        return True
    own = {_without_casts(index) for index in load.indices}
    return any(_sources(index) and _without_casts(index) not in own for index in other.indices)


def _without_casts(value: SSAValue) -> SSAValue:
    while isinstance(owner := value.owner, (ArithOp, AssumeOp)) and len(owner.operands) == 1:
        value = owner.operands[0]
    return value


def _sources(index: SSAValue) -> set[SSAValue]:
    """What an index is computed from by arithmetic, apart from constants."""
    pending, seen, found = [index], {index}, set[SSAValue]()
    while pending:
        value = pending.pop()
        owner = value.owner
        if isinstance(owner, (ArithOp, AssumeOp)):
            pending += [operand for operand in owner.operands if operand not in seen]
            seen.update(owner.operands)
        else:
            found.add(value)
    return found


def loaded_from(value: SSAValue, plan: Plan) -> M.TiledLoadOp | None:
    """The load that a tile comes from as it is, moved or converted, but never held in a buffer; None if there is
    none.
    """
    while value not in plan.kept:
        owner = value.owner
        if isinstance(owner, M.TiledLoadOp):
            plain = owner.is_weak and owner.mask is None
            return owner if plain else None
        if not isinstance(owner, (ArithOp, *_MOVES)):
            return None
        tiles = [v for v in owner.operands if isinstance(v.type, T.TileType)]
        if len(tiles) != 1 or len(owner.operands) != 1:
            return None
        value = tiles[0]
    return None


def open_panels(
    f: FunctionEmitter, operands: dict[OperandOf, M.TiledLoadOp]
) -> dict[OperandOf, PackedOperand]:
    """Make room for the panels, before anything else has a place; and, in the first call of a launch,
    say that there are none."""
    target = f.unit.target
    room = max(target.l2_bytes, target.l3_bytes // _SHARE_OF_CACHE) // max(len(operands), 1)
    kept: dict[OperandOf, PackedOperand] = {}
    for (op, side), load in operands.items():
        dims = T.dims_of((op.a if side is Side.LEFT else op.b).type)
        accumulation = accumulation_kernel_of(target, op)
        panel_bytes = prod(dims) * accumulation.panel.buffer_bytes
        if side is Side.LEFT:
            panel_bytes = dims[0] * accumulation.left_bytes(dims[1])
        slots = min(room // panel_bytes, MOST_SLOTS)
        if slots < FEWEST_SLOTS:
            continue
        # The tile may have been loaded with more axes than the product sees.
        words = 1 + 2 * len(T.dims_of(load.moved.type)) + _LIMITS
        tags = f.arena.place(slots * words * _WORD, 0, f.plan.end)
        panels = f.arena.place(slots * panel_bytes, 0, f.plan.end)
        loop = _loop_around(op)
        kept[op, side] = PackedOperand(
            load, loop, slots, words, panel_bytes, tags.offset, panels.offset
        )
    if kept:
        _forget_old(f, kept.values())
    return kept


def _loop_around(op: Operation) -> Operation | None:
    parent = op.parent_op()
    while parent is not None and parent.name != "scf.for":
        parent = parent.parent_op()
    return parent


def _forget_old(f: FunctionEmitter, kept: Iterable[PackedOperand]) -> None:
    b = f.builder
    ready_at = b.gep(f.frame.arena, [ir.Constant(I64, PANELS_READY)], source_etype=I8)
    ready = b.load(ready_at, typ=I64, align=_WORD)
    with b.if_then(b.icmp_unsigned("==", ready, ir.Constant(I64, 0)), likely=False):
        for one in kept:
            nest = LoopNest(b)
            number = nest.position(nest.loop(one.slots)).value
            at = _at(f, nest.inner, one.tags_at, number, one.words * _WORD)
            nest.inner.store(ir.Constant(I64, -1), at, align=_WORD)
            nest.close_all()
        b.store(ir.Constant(I64, 1), ready_at, align=_WORD)


def _at(f: FunctionEmitter, b: ir.IRBuilder, offset: int, number: Value, size: int) -> Value:
    first = b.gep(f.frame.arena, [ir.Constant(I64, offset)], source_etype=I8)
    return b.gep(first, [number], source_etype=ir.ArrayType(I8, size))


def choose_groups(f: FunctionEmitter, loop: Operation, bounds: tuple[Value, Value, Value]) -> None:
    """Before a loop: find out which slots its products use, given the loop's range and step."""
    for operand, kept in f.packed_panels.items():
        if kept.loop is not loop:
            continue
        b, bands = f.builder, f.frame.in_bands
        lower, upper, step = bounds
        span = b.add(b.sub(upper, lower), b.sub(step, ir.Constant(step.type, 1)))
        rounds = _divided(b, span, step)
        groups = b.udiv(ir.Constant(I64, kept.slots), _at_least_one(b, rounds))
        number: Value = ir.Constant(I64, 0)
        for index in kept.load.indices:
            soon = _may_change_soon(index, f.unit.order[0])
            if (soon or bands is not None) and can_be_made_before(loop, index, f.plan):
                make_early(f, index)
                moved = f.as_index(index)
                if not soon:
                    # It comes again in the next band, if there is one.
                    moved = b.select(bands, moved, ir.Constant(I64, 0))
                number = b.add(number, moved)
        group = b.urem(number, _at_least_one(b, groups))
        f.first_slots[operand] = b.mul(group, rounds)


def _may_change_soon(index: SSAValue, fastest: int) -> bool:
    """Whether an index may differ between a tile block and the one that a thread runs next; ``fastest``: the axis of the grid
    along which they differ.

    Where it does not depend on the number along that axis, blocks with one index follow
    one another. Then panels of the next index take the same slots, which lie in the caches already.
    """
    return any(
        not isinstance(source.owner, GetProgramIdOp)
        or int_property(source.owner, "axis") == fastest
        for source in _sources(index)
    )


def _divided(b: ir.IRBuilder, number: Value, step: Value) -> Value:
    """The quotient as an i64. The step of a loop without rounds may be zero."""
    number = _as_i64(b, number)
    if isinstance(step, ir.Constant) and step.constant == 1:
        return number
    return b.udiv(number, _at_least_one(b, _as_i64(b, step)))


def _as_i64(b: ir.IRBuilder, number: Value) -> Value:
    return number if number.type == I64 else b.zext(number, I64)


def _at_least_one(b: ir.IRBuilder, number: Value) -> Value:
    return llvm.intrinsic(b, "umax", [number, ir.Constant(I64, 1)])


def panel_of(
    f: FunctionEmitter,
    operand: OperandOf,
    source: Tile,
    limits: Sequence[Value],
    pack: Callable[[Value], None],
) -> Value | None:
    """The address of the packed operand, packed by ``pack`` up to some limits unless it is there already; None
    where it is not kept, or cannot be told from others."""
    kept = f.packed_panels.get(operand)
    loads = [tile for tile in walk(source) if isinstance(tile, ViewLoad)]
    if kept is None or len(loads) != 1:
        return None
    f.flush()
    b = f.builder
    slot = _slot(f, operand, kept)
    tag_at = _at(f, b, kept.tags_at, slot, kept.words * _WORD)
    panel_at = _at(f, b, kept.panels_at, slot, kept.panel_bytes)
    tag = [*_tag(f, loads[0]), *limits]
    assert len(tag) <= kept.words
    places = [
        b.gep(tag_at, [ir.Constant(I64, number)], source_etype=I64) for number in range(len(tag))
    ]
    differs: Value = ir.Constant(ir.IntType(1), 0)
    for place, word in zip(places, tag, strict=True):
        known = b.load(place, typ=I64, align=_WORD)
        differs = b.or_(differs, b.icmp_unsigned("!=", known, word))
    with b.if_then(differs):
        for place, word in zip(places, tag, strict=True):
            b.store(word, place, align=_WORD)
        pack(panel_at)
    return panel_at


def is_shared(f: FunctionEmitter, operand: OperandOf) -> Value:
    """Whether the slot of the loop's round is that of later rounds too."""
    kept = f.packed_panels[operand]
    if kept.loop is None:
        return ir.Constant(ir.IntType(1), 1)
    last = ir.Constant(I64, kept.slots - 1)
    return f.builder.icmp_unsigned("==", _slot(f, operand, kept), last)


def _tag(f: FunctionEmitter, load: ViewLoad) -> Sequence[Value]:
    """What decides on the elements of a tile: where it begins, how it lies, where it ends."""
    place = load.place
    strides = [stride for stride in place.strides if not isinstance(stride, int)]
    limits = [limit for limit in place.limits if limit is not None]
    return [f.builder.ptrtoint(place.pointer, I64), *strides, *limits]


def _slot(f: FunctionEmitter, operand: OperandOf, kept: PackedOperand) -> Value:
    """The slot of the loop's round; all rounds beyond the slots share the last one."""
    if kept.loop is None:
        return ir.Constant(I64, 0)
    now, b = f.rounds[kept.loop], f.builder
    number = _divided(b, b.sub(now.counter, now.lower), now.step)
    last = ir.Constant(I64, kept.slots - 1)
    return llvm.intrinsic(b, "umin", [b.add(f.first_slots[operand], number), last])
