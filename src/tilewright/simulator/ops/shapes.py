"""``vector``: assembling, splitting, and moving elements between registers."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from xdsl.dialects import builtin as b
from xdsl.ir import Operation

from tilewright.dialects.upstream.vector.shapes import numbers_of
from tilewright.numerics.arrays import Array
from tilewright.simulator import codes
from tilewright.simulator.compile import Step, Translator, implements
from tilewright.simulator.faults import Fault
from tilewright.simulator.ops.elementwise import collapse, is_integer_scalar
from tilewright.simulator.ops.vectors import combine
from tilewright.simulator.state import WARP_SIZE, Warp
from tilewright.simulator.values import element_of, lanes, shape_of


@implements("vector.shuffle", wide=True)
def _shuffle(op: Any, t: Translator) -> Step:
    """Selects elements of both vectors. The elements of mask -1 are undefined; here they are the first."""
    left, right, result = t.slot(op.v1), t.slot(op.v2), t.slot(op.results[0])
    places = np.maximum(np.array(numbers_of(op, "mask"), np.int64), 0)
    flat = not shape_of(op.v1.type)

    def step(warp: Warp) -> None:
        both = [warp.regs[left], warp.regs[right]]
        if flat:
            both = [array.reshape(warp.size, 1) for array in both]
        warp.regs[result] = np.concatenate(both, axis=1)[:, places]

    return step


@implements("vector.transpose", wide=True)
def _transpose(op: Any, t: Translator) -> Step:
    """Permutes the dimensions of a vector; the lane axis stays first."""
    source, result = t.slot(op.vector), t.slot(op.results[0])
    axes = (0, *(axis + 1 for axis in numbers_of(op, "permutation")))

    def step(warp: Warp) -> None:
        warp.regs[result] = np.ascontiguousarray(warp.regs[source].transpose(axes))

    return step


@implements("vector.extract_strided_slice", wide=True)
def _extract_slice(op: Any, t: Translator) -> Step:
    """The part of a vector at ``offsets``, of ``sizes``; strides are 1."""
    source, result = t.slot(op.vector), t.slot(op.results[0])
    offsets, sizes = numbers_of(op, "offsets"), numbers_of(op, "sizes")
    where = (slice(None), *(slice(o, o + n) for o, n in zip(offsets, sizes)))

    def step(warp: Warp) -> None:
        warp.regs[result] = np.ascontiguousarray(warp.regs[source][where])

    return step


@implements("vector.insert_strided_slice", wide=True)
def _insert_slice(op: Any, t: Translator) -> Step:
    """The destination with the source inserted at ``offsets``, in its last dimensions."""
    source, target, result = t.slot(op.source), t.slot(op.dest), t.slot(op.results[0])
    offsets, shape = numbers_of(op, "offsets"), shape_of(op.source.type)
    leading = len(offsets) - len(shape)
    where = (
        slice(None),
        *offsets[:leading],
        *(slice(o, o + n) for o, n in zip(offsets[leading:], shape)),
    )

    def step(warp: Warp) -> None:
        array = np.array(warp.regs[target])
        array[where] = warp.regs[source]
        warp.regs[result] = array

    return step


def _place(warp: Warp, value: Any, size: int, op: Operation) -> Any:
    """A position in a vector, per lane. Raises ``Fault`` if it is out of bounds in an active lane."""
    places = lanes(value, np.dtype(np.int64), warp.size)
    bad = (places < 0) | (places >= size)
    if (bad & warp.mask).any():
        raise Fault(
            codes.OUT_OF_BOUNDS,
            f"{op.name} of {warp.name()} selects element {int(places[(bad & warp.mask).argmax()])} "
            f"of {size}",
            op,
        )
    return np.where(bad, 0, places)


@implements("vector.extractelement", wide=True)
def _extract_element(op: Any, t: Translator) -> Step:
    """The element at a position, per lane; that of a vector of rank 0 without one."""
    source, result = t.slot(op.vector), t.slot(op.results[0])
    shape, position = shape_of(op.vector.type), None
    if op.position is not None:
        position = t.slot(op.position)

    def step(warp: Warp) -> None:
        array = warp.regs[source]
        if position is None:
            warp.regs[result] = array.reshape(warp.size)
        else:
            place = _place(warp, warp.regs[position], shape[0], op)
            warp.regs[result] = array[np.arange(warp.size), place]

    return step


@implements("vector.insertelement", wide=True)
def _insert_element(op: Any, t: Translator) -> Step:
    """The vector with the element at a position replaced, per lane."""
    source, target, result = t.slot(op.source), t.slot(op.dest), t.slot(op.results[0])
    shape, element, position = shape_of(op.dest.type), element_of(op.dest.type), None
    if op.position is not None:
        position = t.slot(op.position)

    def step(warp: Warp) -> None:
        array = np.array(warp.regs[target])
        value = lanes(warp.regs[source], element.dtype, warp.size)
        if position is None:
            array = value.copy()
        else:
            place = _place(warp, warp.regs[position], shape[0], op)
            array[np.arange(warp.size), place] = value
        warp.regs[result] = array

    return step


def _mask(shape: tuple[int, ...], sizes: list[Array]) -> Array:
    """Lanes x the shape: whether a position is below the sizes of each lane."""
    count = len(sizes[0])
    found = np.ones((count, *shape), np.bool_)
    for axis, size in enumerate(sizes):
        line = (1,) * (axis + 1) + (-1,) + (1,) * (len(shape) - axis - 1)
        found &= np.arange(shape[axis]).reshape(line) < size.reshape(count, *(1,) * len(shape))
    return found


@implements("vector.create_mask", wide=True)
def _create_mask(op: Any, t: Translator) -> Step:
    """True below the given size along every dimension. Sizes may differ between lanes; negative ones count as 0."""
    sizes, result, shape = t.slots(op.operands), t.slot(op.results[0]), shape_of(op.results[0].type)

    def step(warp: Warp) -> None:
        given = [lanes(warp.regs[size], np.dtype(np.int64), warp.size) for size in sizes]
        if shape:
            warp.regs[result] = _mask(shape, given)
        else:
            warp.regs[result] = given[0] > 0

    return step


@implements("vector.constant_mask")
def _constant_mask(op: Any, t: Translator) -> None:
    """The mask of constant sizes, a preset."""
    shape, sizes = shape_of(op.results[0].type), numbers_of(op, "mask_dim_sizes")
    given = [np.full(WARP_SIZE, size) for size in sizes]
    t.preset(op.results[0], _mask(shape, given) if shape else given[0] > 0)


@implements("vector.step")
def _step(op: Any, t: Translator) -> None:
    """0, 1, 2, ... as a vector of ``index``, a preset."""
    (count,) = shape_of(op.results[0].type)
    t.preset(op.results[0], np.tile(np.arange(count), (WARP_SIZE, 1)))


@implements("vector.from_elements", wide=True)
def _from_elements(op: Any, t: Translator) -> Step:
    """A vector of the operands, in row-major order."""
    sources, result = t.slots(op.operands), t.slot(op.results[0])
    element, shape = element_of(op.results[0].type), shape_of(op.results[0].type)

    def step(warp: Warp) -> None:
        columns = [lanes(warp.regs[source], element.dtype, warp.size) for source in sources]
        warp.regs[result] = np.stack(columns, axis=1).reshape(warp.size, *shape)

    return step


@implements("vector.interleave", wide=True)
def _interleave(op: Any, t: Translator) -> Step:
    """The elements of both vectors alternately, along the last dimension."""
    left, right, result = t.slot(op.lhs), t.slot(op.rhs), t.slot(op.results[0])
    shape = shape_of(op.results[0].type)

    def step(warp: Warp) -> None:
        both = np.stack((warp.regs[left], warp.regs[right]), axis=-1)
        warp.regs[result] = both.reshape(warp.size, *shape)

    return step


@implements("vector.deinterleave", wide=True)
def _deinterleave(op: Any, t: Translator) -> Step:
    """The elements at even and at odd positions along the last dimension."""
    source, (even, odd) = t.slot(op.source), t.slots(op.results)

    def step(warp: Warp) -> None:
        array = warp.regs[source]
        warp.regs[even] = np.ascontiguousarray(array[..., 0::2])
        warp.regs[odd] = np.ascontiguousarray(array[..., 1::2])

    return step


@implements("vector.multi_reduction")
def _multi_reduction(op: Any, t: Translator) -> Step:
    """Reduces dimensions in row-major order, starting from ``acc``."""
    source, acc, result = t.slot(op.source), t.slot(op.acc), t.slot(op.results[0])
    element, ty = element_of(op.source.type), op.results[0].type
    kind, shape = str(op.properties["kind"].data), shape_of(op.source.type)
    reduced = set(numbers_of(op, "reduction_dims"))
    axes = [range(n) if axis in reduced else (slice(None),) for axis, n in enumerate(shape)]
    places = [(slice(None), *place) for place in product(*axes)]

    def step(warp: Warp) -> None:
        array, given = warp.regs[source], warp.regs[acc]
        total = lanes(given, element.dtype)
        for place in places:
            total = combine(kind, total, array[place], element.name)
        are_numbers = isinstance(given, int) and bool((total == total[:1]).all())
        if are_numbers and is_integer_scalar(ty):
            warp.regs[result] = collapse(total, element)
        else:
            warp.regs[result] = total

    if isinstance(ty, b.VectorType) or element.is_float or is_integer_scalar(ty):
        return step
    raise Fault(codes.UNSUPPORTED, f"the simulator does not reduce to '{ty}'", op)
