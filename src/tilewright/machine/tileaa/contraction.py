"""Products, convolutions, reductions, scans and histograms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.dialects.declare import enum_property, int_property
from tilewright.dialects.nv_tileaa.attributes import ConvParamsAttr
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops import contraction
from tilewright.dialects.nv_tileaa.ops.functions import YieldOp
from tilewright.launching.value_types import tile_type
from tilewright.machine.compile import Step, Translator, implements
from tilewright.machine.ops.matrix import float_step, integer_step, scaled_step
from tilewright.machine.ops.reductions import YIELDS, reduce_step, scan_step
from tilewright.machine.ops.views import padding_of
from tilewright.machine.values import Registers
from tilewright.numerics.accumulation import mmaf_of
from tilewright.numerics.arrays import Array
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.int_ops import as_numbers


@implements(contraction.DotOp)
def _dot(op: contraction.DotOp, t: Translator) -> Step:
    if op.sfa is not None and op.sfb is not None:
        return scaled_step(t, (op.a, op.b, op.c, op.sfa, op.sfb), op.result)
    if FORMATS[tile_type(op.a).element].is_float:
        return float_step(t, op.a, op.b, op.c, op.result)
    signs = enum_property(op, "signedness_a"), enum_property(op, "signedness_b")
    return integer_step(t, op.a, op.b, op.c, op.result, signs)


@implements(contraction.ReduceOp)
def _reduce(op: contraction.ReduceOp, t: Translator) -> Step:
    return reduce_step(op, t, int_property(op, "axis"))


@implements(contraction.ScanOp)
def _scan(op: contraction.ScanOp, t: Translator) -> Step:
    return scan_step(op, t, int_property(op, "axis"), reverse=is_set(op, "reverse"))


YIELDS.add(YieldOp)


@implements(contraction.HistogramOp)
def _histogram(op: contraction.HistogramOp, t: Translator) -> Step:
    """Values that are not an index of the result are not counted; counts wrap in 32 bits."""
    source, mask, result = t.slot(op.source), t.optional(op.mask), t.slot(op.result)
    count = tile_type(op.result).element_count

    def step(regs: Registers) -> None:
        # i1 counts as 0 and 1; wider integers are read signed.
        numbers = as_numbers(regs[source], "unsigned" if regs[source].dtype == bool else "signed")
        chosen = (numbers >= 0) & (numbers < count)
        if mask is not None:
            chosen &= regs[mask]
        counts = np.bincount(numbers[chosen].astype(np.int64), minlength=count)
        regs[result] = counts.astype(np.int32)

    return step


@dataclass(frozen=True, slots=True)
class Convolution:
    """The parameters of a convolution; every field has one entry per spatial axis."""

    taps: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]

    @classmethod
    def of(cls, params: ConvParamsAttr) -> Convolution:
        """Return the parameters of the attribute, one entry per spatial axis."""
        names = ("filter", "stride", "dilation", "padding_low", "padding_high")
        return cls(*(params.integers(name) for name in names))

    def positions(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Return how many positions the filter has along each axis of an activation."""
        return tuple(
            (extent + low + high - dilation * (taps - 1) - 1) // stride + 1
            for extent, taps, stride, dilation, low, high in zip(
                extents, self.taps, self.stride, self.dilation, self.low, self.high, strict=True
            )
        )

    def windows(self, activation: Array, padding: Array) -> Array:
        """Return (N, positions..., taps..., C) of an activation (N, extents..., C). ``padding``, of rank 0,
        is used out of bounds. The result is a new array.
        """
        spatial = len(self.taps)
        border = tuple(zip((0, *self.low, 0), (0, *self.high, 0), strict=True))
        shape = [low + n + high for (low, high), n in zip(border, activation.shape, strict=True)]
        padded = np.full(shape, padding, activation.dtype)
        inside = [slice(low, low + n) for (low, _), n in zip(border, activation.shape, strict=True)]
        padded[tuple(inside)] = activation
        places = self.positions(activation.shape[1:-1])
        index = [
            (np.arange(count)[:, None] * stride + np.arange(taps) * dilation).reshape(
                *(count if i == axis else 1 for i in range(spatial)),
                *(taps if i == axis else 1 for i in range(spatial)),
            )
            for axis, (count, taps, stride, dilation) in enumerate(
                zip(places, self.taps, self.stride, self.dilation, strict=True)
            )
        ]
        return padded[(slice(None), *index)]


@implements(contraction.ConvDotOp)
def _conv_dot(op: contraction.ConvDotOp, t: Translator) -> Step:
    """Computes a convolution as a matrix product of the activation's windows and the filter.

    The filter and the accumulator have the axes of the activation, except that the filter has output
    channels in place of the batch, and the accumulator has them in place of the channels.
    """
    params, layout = op.properties["conv_params"], enum_property(op, "activation_layout")
    assert isinstance(params, ConvParamsAttr)
    convolution = Convolution.of(params)
    to_last = _channels_last(layout)
    activation, weights, acc = (tile_type(v) for v in (op.activation, op.filter, op.acc))
    _refuse_uninitialized(op, convolution, [to_last(v.dims) for v in (activation, weights, acc)])
    element, acc_element = activation.element, acc.element
    padding = padding_of(enum_property(op, "padding_value") or "zero", (), element)
    slots = t.slots((op.activation, op.filter, op.acc, op.result))
    mmaf = mmaf_of(t.arithmetic, element)
    axes = to_last(tuple(range(len(layout))))
    back = tuple(axes.index(axis) for axis in range(len(layout)))

    def step(regs: Registers) -> None:
        x, w, c = (regs[slot].transpose(axes) for slot in slots[:3])
        windows = convolution.windows(x, padding)
        rows = windows.reshape(c.size // c.shape[-1], -1)
        columns = w.reshape(w.shape[0], -1).T
        product = mmaf(rows, columns, c.reshape(-1, c.shape[-1]), element, acc_element=acc_element)
        regs[slots[3]] = product.reshape(c.shape).transpose(back)

    return step


def _channels_last(layout: str) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """Return a function that permutes a layout's axes to batch, spatial axes, channels."""
    if layout.endswith("c"):
        return lambda dims: dims
    return lambda dims: (dims[0], *dims[2:], dims[1])


def _refuse_uninitialized(
    op: contraction.ConvDotOp, convolution: Convolution, shapes: Sequence[tuple[int, ...]]
) -> None:
    activation, weights, acc = shapes
    problem = ""
    positions = convolution.positions(activation[1:-1])
    if not FORMATS[tile_type(op.activation).element].is_float:
        problem = "the signedness of its integers is unspecified"
    elif any(extent < 0 for extent in (*convolution.low, *convolution.high)):
        problem = "its padding is negative"
    elif weights[1:-1] != convolution.taps or weights[-1] != activation[-1]:
        problem = (
            f"expected a filter of taps {list(convolution.taps)} and {activation[-1]} channels, got "
            f"{list(weights[1:-1])} and {weights[-1]}"
        )
    elif acc != (activation[0], *positions, weights[0]):
        problem = (
            f"the filter fits {list(positions)} times, into {weights[0]} channels, but the "
            f"accumulator has {list(acc[1:-1])} and {acc[-1]}"
        )
    if problem:
        raise Translator.refusal(op, f"'conv_dot' cannot be run: {problem}")
