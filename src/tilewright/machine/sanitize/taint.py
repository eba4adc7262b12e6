"""How uninitialized elements spread through operations, and where they are reported."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tilewright.dialects.cuda_tile.base import OPERATIONS, TileOp
from tilewright.dialects.cuda_tile.ops import (
    control_flow,
    conversions,
    core,
    integer,
    matrix,
    misc,
    reductions,
    views,
)
from tilewright.dialects.declare import int_property
from tilewright.machine.compile import pointee_of, tile_type
from tilewright.machine.fused_blocks import inline
from tilewright.machine.hooks import Hook
from tilewright.machine.ops.elementwise import attributes_of, is_elementwise
from tilewright.machine.sanitize.reporting import (
    FLOAT_TO_INT,
    OFFSET_OVERFLOW,
    Origin,
    Taint,
    join,
    merge,
)
from tilewright.machine.sanitize.rules import after, before
from tilewright.machine.sanitize.translator import SanitizingTranslator, none_of
from tilewright.machine.values import Registers
from tilewright.numerics import convert, pointers
from tilewright.numerics.arrays import Array
from tilewright.numerics.element_types import FORMATS

_MERGED = tuple(
    cls
    for cls in OPERATIONS.values()
    if cls not in (core.SelectOp, conversions.FToIOp, core.OffsetOp, integer.AndIOp, integer.OrIOp)
)


def _spread(op: TileOp, t: SanitizingTranslator) -> Hook | None:
    """Element-wise: uninitialized where any operand is."""
    if not is_elementwise(op):
        return None
    sources, result = t.taints(op.operands), t.taint(op.results[0])
    if len(sources) == 2:
        first, second = sources

        return inline(
            f"one, other = regs[{first}], regs[{second}]\n"
            f"regs[{result}] = one if other is None else other if one is None else one.joined(other)"
        )

    def any_number(regs: Registers) -> None:
        regs[result] = join([regs[slot] for slot in sources])

    return any_number


for _cls in _MERGED:
    after(_cls)(_spread)


@after(core.SelectOp)
def _select(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, core.SelectOp)
    condition, result = t.slot(op.cond), t.taint(op.result)
    arms = t.taints((op.cond, op.val_if_true, op.val_if_false))

    def hook(regs: Registers) -> None:
        found: list[Taint | None] = [regs[slot] for slot in arms]
        choice, chosen, other = found
        if choice is None and chosen is None and other is None:
            regs[result] = None
            return
        taken = regs[condition]
        parts = [choice]
        if chosen is not None:
            parts.append(chosen.mapped(lambda mask: mask & taken))
        if other is not None:
            parts.append(other.mapped(lambda mask: mask & ~taken))
        regs[result] = join(parts)

    return hook


@after(integer.AndIOp, integer.OrIOp)
def _masked(op: TileOp, t: SanitizingTranslator) -> Hook:
    """A determined zero decides an and, a determined all-ones an or: that is how masks are joined."""
    values, taints = t.slots(op.operands), t.taints(op.operands)
    result = t.taint(op.results[0])
    width = FORMATS[tile_type(op.results[0]).element].bits
    deciding = 0 if isinstance(op, integer.AndIOp) else 1 if width == 1 else -1

    def hook(regs: Registers) -> None:
        lhs: Taint | None = regs[taints[0]]
        rhs: Taint | None = regs[taints[1]]
        if lhs is None and rhs is None:
            regs[result] = None
            return
        parts: list[Taint | None] = []
        for own, other_value, other in ((lhs, values[1], rhs), (rhs, values[0], lhs)):
            if own is None:
                continue
            decided = np.asarray(regs[other_value] == deciding)
            if other is not None:
                decided = decided & ~other.mask
            parts.append(own.mapped(partial(_outside, decided)))
        regs[result] = join(parts)

    return hook


def _lines(shape: tuple[int, ...], axis: int, dims: tuple[int, ...], mask: Array) -> Array:
    """The elements of a product whose row (axis -1) or column (axis -2) of a factor is marked."""
    marked = np.broadcast_to(mask, shape).any(axis=axis, keepdims=True)
    return np.broadcast_to(marked, dims)


def _outside(decided: Array, mask: Array) -> Array:
    return mask & ~decided


def _with_own(
    t: SanitizingTranslator,
    op: TileOp,
    undefined: Callable[[Registers], Array],
    explain: Callable[[Registers, Array], str],
    code: str,
) -> Hook:
    """As element-wise, with the elements that the operation itself leaves uninitialized."""
    sources, result = t.taints(op.operands), t.taint(op.results[0])

    def hook(regs: Registers) -> None:
        found = join([regs[slot] for slot in sources])
        lanes = undefined(regs)
        if lanes.any():
            if found is not None:
                lanes = lanes & ~found.mask
            if lanes.any():
                own = Taint(lanes, (Origin(op, explain(regs, lanes), code),))
                found = own if found is None else found.joined(own)
        regs[result] = found

    return hook


@after(conversions.FToIOp)
def _float_to_int(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, conversions.FToIOp)
    if "saturating" in op.properties:
        hook = _spread(op, t)
        assert hook is not None
        return hook
    source = t.slot(op.operands[0])
    element = tile_type(op.operands[0]).element
    keywords = attributes_of(op)
    to, signedness = keywords["to"], keywords["signedness"]

    def undefined(regs: Registers) -> Array:
        return convert.ftoi_undefined(regs[source], element, to=to, signedness=signedness)

    def explain(regs: Registers, lanes: Array) -> str:
        value = float(np.asarray(regs[source])[lanes].flat[0])
        return f"{value:g} is outside the range of {signedness} {to}"

    return _with_own(t, op, undefined, explain, FLOAT_TO_INT)


@after(core.OffsetOp)
def _offset(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, core.OffsetOp)
    ptr, amount = t.slot(op.ptr), t.slot(op.offset)
    element, pointee = tile_type(op.offset).element, pointee_of(op.ptr)

    def undefined(regs: Registers) -> Array:
        return pointers.offset_undefined(regs[ptr], regs[amount], element, pointee=pointee)

    def explain(regs: Registers, lanes: Array) -> str:
        address = int(np.asarray(regs[ptr])[lanes].flat[0])
        number = int(np.asarray(regs[amount])[lanes].flat[0])
        return f"the address {address:#x} moved by {number} elements of {pointee} leaves 64 bits"

    return _with_own(t, op, undefined, explain, OFFSET_OVERFLOW)


def _mapped(
    op: TileOp, t: SanitizingTranslator, function: Callable[[Registers, Array], Array]
) -> Hook:
    """A rearrangement of the only tile operand."""
    source, result = t.taint(op.operands[0]), t.taint(op.results[0])
    dims = tile_type(op.operands[0]).dims

    def hook(regs: Registers) -> None:
        taint: Taint | None = regs[source]
        if taint is not None:
            taint = taint.mapped(lambda mask: function(regs, np.broadcast_to(mask, dims)))
        regs[result] = taint

    return hook


@after(core.ReshapeOp)
def _reshape(op: TileOp, t: SanitizingTranslator) -> Hook:
    dims = tile_type(op.results[0]).dims
    return _mapped(op, t, lambda regs, mask: mask.reshape(dims))


@after(core.BroadcastOp)
def _broadcast(op: TileOp, t: SanitizingTranslator) -> Hook:
    dims = tile_type(op.results[0]).dims
    return _mapped(op, t, lambda regs, mask: np.broadcast_to(mask, dims))


@after(core.PermuteOp)
def _permute(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, core.PermuteOp)
    axes = op.axes
    return _mapped(op, t, lambda regs, mask: mask.transpose(axes))


def _window(
    op: core.ExtractOp | core.InsertOp, t: SanitizingTranslator, part: tuple[int, ...]
) -> Callable[[Registers], tuple[slice, ...]]:
    indices = t.slots(op.indices)

    def window(regs: Registers) -> tuple[slice, ...]:
        starts = [
            (regs[slot].item() & 0xFFFFFFFF) * n for slot, n in zip(indices, part, strict=True)
        ]
        return tuple(slice(start, start + n) for start, n in zip(starts, part, strict=True))

    return window


@after(core.ExtractOp)
def _extract(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, core.ExtractOp)
    window = _window(op, t, tile_type(op.result).dims)
    return _mapped(op, t, lambda regs, mask: mask[window(regs)])


@after(core.InsertOp)
def _insert(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, core.InsertOp)
    part, whole = tile_type(op.source).dims, tile_type(op.destination).dims
    window = _window(op, t, part)
    source, destination, result = t.taints((op.source, op.destination, op.result))

    def hook(regs: Registers) -> None:
        inner, outer = regs[source], regs[destination]
        if inner is None and outer is None:
            regs[result] = None
            return
        mask = (
            np.zeros(whole, np.bool_)
            if outer is None
            else np.broadcast_to(outer.mask, whole).copy()
        )
        mask[window(regs)] = False if inner is None else inner.mask
        taint = Taint(mask, merge(*[() if x is None else x.origins for x in (inner, outer)]))
        regs[result] = taint if mask.any() else None

    return hook


@after(core.CatOp)
def _cat(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, core.CatOp)
    shapes = tile_type(op.lhs).dims, tile_type(op.rhs).dims
    dim = int_property(op, "dim")
    sources, result = t.taints((op.lhs, op.rhs)), t.taint(op.result)

    def hook(regs: Registers) -> None:
        parts = [regs[slot] for slot in sources]
        if parts == [None, None]:
            regs[result] = None
            return
        masks = [
            np.zeros(dims, np.bool_) if part is None else np.broadcast_to(part.mask, dims)
            for part, dims in zip(parts, shapes, strict=True)
        ]
        origins = merge(*[() if part is None else part.origins for part in parts])
        regs[result] = Taint(np.concatenate(masks, dim), origins)

    return hook


def _width(element: str) -> int:
    return 32 if element == "tf32" else FORMATS[element].bits


def _regrouped(mask: Array, bits_from: int, bits_to: int) -> Array:
    """Uninitialized elements of one width, seen in another: whatever shares a bit."""
    if bits_from >= bits_to:
        return np.repeat(mask, bits_from // bits_to)
    return np.asarray(mask.reshape(-1, bits_to // bits_from).any(axis=1))


@after(core.PackOp, core.UnpackOp)
def _pack(op: TileOp, t: SanitizingTranslator) -> Hook:
    widths = [_width(tile_type(v).element) for v in (op.operands[0], op.results[0])]
    return _mapped(op, t, lambda regs, mask: _regrouped(mask, *widths))


@after(reductions.ReduceOp, reductions.ScanOp)
def _fold(op: TileOp, t: SanitizingTranslator) -> Hook:
    """Any uninitialized element makes what it is combined into uninitialized."""
    dim = int_property(op, "dim")
    sources, results = t.taints(op.operands), t.taints(op.results)
    dims = tile_type(op.operands[0]).dims
    reverse = isinstance(op, reductions.ScanOp) and op.is_reverse
    is_scan = isinstance(op, reductions.ScanOp)

    def combine(mask: Array) -> Array:
        mask = np.broadcast_to(mask, dims)
        if not is_scan:
            return np.asarray(mask.any(axis=dim))
        turned = np.flip(mask, dim) if reverse else mask
        run = np.logical_or.accumulate(turned, axis=dim)
        return np.asarray(np.flip(run, dim) if reverse else run)

    def hook(regs: Registers) -> None:
        found = join([regs[slot] for slot in sources])
        taint = None if found is None else found.mapped(combine)
        for slot in results:
            regs[slot] = taint

    return hook


@after(matrix.MmaFOp, matrix.MmaIOp, matrix.MmaFScaledOp)
def _product(op: TileOp, t: SanitizingTranslator) -> Hook:
    """An uninitialized element of lhs spoils its row, one of rhs its column."""
    slots = {name: t.taint(v) for name, v in zip(_PRODUCT, op.operands, strict=False)}
    shapes = {n: tile_type(v).dims for n, v in zip(_PRODUCT, op.operands, strict=False)}
    result = t.taint(op.results[0])
    dims = tile_type(op.results[0]).dims

    def hook(regs: Registers) -> None:
        parts: list[Taint | None] = []
        for name, slot in slots.items():
            taint: Taint | None = regs[slot]
            if taint is not None and name != "acc":
                axis = -1 if name.startswith("lhs") else -2
                taint = taint.mapped(partial(_lines, shapes[name], axis, dims))
            parts.append(taint)
        regs[result] = join(parts)

    none = none_of(slots.values())
    return inline(f"if {none}: regs[{result}] = None\nelse: {{hook}}(regs)", hook=hook)


_PRODUCT = ("lhs", "rhs", "acc", "lhs_scale", "rhs_scale")


@after(misc.AssumeOp)
def _assume(op: TileOp, t: SanitizingTranslator) -> Hook:
    source, result = t.taint(op.operands[0]), t.taint(op.results[0])

    def hook(regs: Registers) -> None:
        regs[result] = regs[source]

    return hook


def _report_all(what: str) -> Callable[[TileOp, SanitizingTranslator], Hook]:
    """Every operand matters."""
    return lambda op, t: t.sinks(op, op.operands, what)


before(control_flow.IfOp)(_report_all("the condition of a branch"))
before(control_flow.AssertOp)(_report_all("the condition of an assertion"))
before(misc.PrintTkoOp)(_report_all("printed output"))
before(views.MakeTensorViewOp)(_report_all("an address or extent of a view"))


@before(control_flow.ForOp)
def _bounds(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, control_flow.ForOp)
    return t.sinks(op, (op.lowerBound, op.upperBound, op.step), "a bound of a loop")


@before(core.ExtractOp, core.InsertOp)
def _indices(op: TileOp, t: SanitizingTranslator) -> Hook:
    assert isinstance(op, core.ExtractOp | core.InsertOp)
    return t.sinks(op, op.indices, "an index")
