"""Checks a program's assumptions where they are made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.attributes import BoundedAttr, DivByAttr, SameElementsAttr
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.ops import conversions, integer, matrix, misc
from tilewright.dialects.declare import enum_property
from tilewright.machine.compile import tile_type
from tilewright.machine.hooks import Hook
from tilewright.machine.sanitize.reporting import (
    BROKEN_ASSUME,
    NEGATIVE_SCALE,
    OVERFLOW_FLAG,
    SHIFT_TOO_FAR,
    show_index,
)
from tilewright.machine.sanitize.rules import before
from tilewright.machine.sanitize.translator import SanitizingTranslator
from tilewright.machine.values import Registers, TensorView
from tilewright.numerics import convert, int_ops
from tilewright.numerics.arrays import Array
from tilewright.numerics.element_types import FORMATS


def _determined(regs: Registers, lanes: Array, taints: tuple[int, ...]) -> Array:
    """The lanes whose operands are all determined: the others are somebody else's fault."""
    for slot in taints:
        if (taint := regs[slot]) is not None:
            lanes = lanes & ~taint.mask
    return lanes


def _first(value: Array, lanes: Array) -> int | float:
    return np.broadcast_to(value, lanes.shape)[lanes].flat[0].item()


@before(integer.AddIOp, integer.SubIOp, integer.MulIOp, integer.NegIOp, integer.ShLIOp)
def _overflow(op: TileOp, t: SanitizingTranslator) -> Hook | None:
    flag = enum_property(op, "overflow")
    if flag in ("", "none"):
        return None
    mnemonic = op.mnemonic()
    return _flagged(op, t, flag, lambda *operands: int_ops.wraps(mnemonic, *operands))


@before(conversions.TruncIOp)
def _truncation(op: TileOp, t: SanitizingTranslator) -> Hook | None:
    flag = enum_property(op, "overflow")
    if flag in ("", "none"):
        return None
    element, to = tile_type(op.operands[0]).element, tile_type(op.results[0]).element

    def wraps(source: Array) -> tuple[Array, Array]:
        return convert.trunci_wraps(source, element, to=to)

    return _flagged(op, t, flag, wraps)


def _flagged(
    op: TileOp, t: SanitizingTranslator, flag: str, wraps: Callable[..., tuple[Array, Array]]
) -> Hook:
    slots, taints, collector = t.slots(op.operands), t.taints(op.operands), t.collector

    def hook(regs: Registers) -> None:
        operands = [regs[slot] for slot in slots]
        lanes = int_ops.breaks_overflow_flag(flag, *wraps(*operands))
        if lanes.any() and (lanes := _determined(regs, lanes, taints)).any():
            shown = " and ".join(str(_first(value, lanes)) for value in operands)
            collector.add(
                OVERFLOW_FLAG,
                f"{op.mnemonic()} of {shown} overflows, but is marked {flag}{show_index(lanes)}",
                op,
            )

    return hook


@before(integer.ShLIOp, integer.ShRIOp)
def _shift(op: TileOp, t: SanitizingTranslator) -> Hook:
    value, amount = t.slots(op.operands)
    taints, collector = t.taints(op.operands), t.collector
    element = tile_type(op.operands[0]).element
    mask = FORMATS[element].mask

    def hook(regs: Registers) -> None:
        lanes = int_ops.shift_too_far(regs[value], regs[amount], element)
        if lanes.any() and (lanes := _determined(regs, lanes, taints)).any():
            collector.add(
                SHIFT_TOO_FAR,
                f"a shift by {int(_first(regs[amount], lanes)) & mask} of an element of "
                f"{FORMATS[element].bits} bits{show_index(lanes)}",
                op,
            )

    return hook


@before(matrix.MmaFScaledOp)
def _scales(op: TileOp, t: SanitizingTranslator) -> Hook | None:
    assert isinstance(op, matrix.MmaFScaledOp)
    if tile_type(op.lhs_scale).element != "f8E4M3FN":
        return None
    scales = [(t.slot(v), t.taint(v)) for v in (op.lhs_scale, op.rhs_scale)]
    collector = t.collector

    def hook(regs: Registers) -> None:
        for slot, taint in scales:
            negative = regs[slot].astype(np.float32) < 0
            if (lanes := _determined(regs, negative, (taint,))).any():
                collector.add(
                    NEGATIVE_SCALE,
                    f"the scale {float(regs[slot].astype(np.float32)[lanes].flat[0]):g} is "
                    f"negative{show_index(lanes)}",
                    op,
                )

    return hook


@before(misc.AssumeOp)
def _assume(op: TileOp, t: SanitizingTranslator) -> Hook | None:
    predicate = op.properties["predicate"]
    value, taint, collector = t.slot(op.operands[0]), t.taint(op.operands[0]), t.collector
    broken = _checker(predicate, op.operands[0].type)

    def hook(regs: Registers) -> None:
        lanes, explain = broken(regs[value])
        if lanes.any() and (lanes := _determined(regs, lanes, (taint,))).any():
            collector.add(BROKEN_ASSUME, f"{explain(lanes)}{show_index(lanes)}", op)

    return hook


Broken = Callable[[object], tuple[Array, Callable[[Array], str]]]


def _checker(predicate: object, ty: object) -> Broken:
    if isinstance(predicate, BoundedAttr):
        return _bounded(predicate)
    if isinstance(predicate, SameElementsAttr):
        return _same_elements(predicate)
    assert isinstance(predicate, DivByAttr)
    if isinstance(ty, T.TensorViewType):
        return _aligned_view(predicate)
    assert isinstance(ty, T.TileType)
    return _divisible(predicate, ty)


def _signed(value: object) -> Array:
    """The signed reading of a tile; true is -1."""
    tile = np.asarray(value)
    return -tile.astype(np.int8) if tile.dtype == np.bool_ else tile


def _bounded(predicate: BoundedAttr) -> Broken:
    lower, upper = predicate.bounds

    def broken(value: object) -> tuple[Array, Callable[[Array], str]]:
        numbers = _signed(value)
        lanes = np.zeros(numbers.shape, np.bool_)
        if lower is not None:
            lanes = lanes | (numbers < lower)
        if upper is not None:
            lanes = lanes | (numbers > upper)
        return (
            np.asarray(lanes),
            lambda found: (
                f"{_first(numbers, found)} is outside "
                f"[{'-inf' if lower is None else lower}, {'inf' if upper is None else upper}]"
            ),
        )

    return broken


def _same_elements(predicate: SameElementsAttr) -> Broken:
    sizes = predicate.values.data

    def broken(value: object) -> tuple[Array, Callable[[Array], str]]:
        numbers = np.asarray(value)
        reference = numbers
        for axis, size in enumerate(sizes):
            if size > 1:
                extent: int = numbers.shape[axis]
                starts = np.arange(extent) // size * size
                reference = np.take(reference, starts, axis)
        lanes = np.asarray(numbers != reference)
        return (
            lanes,
            lambda found: (
                f"{_first(numbers, found)} differs from {_first(reference, found)}, the first element "
                f"of its group"
            ),
        )

    return broken


def _divisible(predicate: DivByAttr, ty: T.TileType) -> Broken:
    divisor, group = predicate.divisor.data, predicate.group
    step = 1
    if isinstance(ty.element_type, T.PtrType):
        step = max(FORMATS[T.element_name(ty.element_type.pointee)].storage_bits // 8, 1)

    def broken(value: object) -> tuple[Array, Callable[[Array], str]]:
        tile = np.asarray(value)
        numbers = tile if tile.dtype == np.uint64 else _signed(tile).astype(np.int64)
        expected = numbers
        if group is not None and group[0] > 1:
            every, along = group
            extent: int = numbers.shape[along]
            within = np.arange(extent) % every
            shape = [1] * numbers.ndim
            shape[along] = -1
            expected = numbers - (within * step).astype(numbers.dtype).reshape(shape)
        lanes = np.asarray(expected & numbers.dtype.type(divisor - 1)) != 0
        if group is not None and group[0] > 1:
            every, along = group
            extent: int = numbers.shape[along]
            starts = np.arange(extent) // every * every
            lanes = lanes | (np.take(expected, starts, along) != expected)
        return (
            np.asarray(lanes),
            lambda found: f"{_first(numbers, found)} is not divisible by {divisor}",
        )

    return broken


def _aligned_view(predicate: DivByAttr) -> Broken:
    divisor = predicate.divisor.data

    def broken(value: object) -> tuple[Array, Callable[[Array], str]]:
        assert isinstance(value, TensorView)
        lanes = np.array(value.base % divisor != 0)
        return (
            lanes,
            lambda found: f"the base address {value.base:#x} is not divisible by {divisor}",
        )

    return broken
