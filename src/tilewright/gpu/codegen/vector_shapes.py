"""`vector`: operations that move elements between registers, by position."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from xdsl.ir import Operation, SSAValue

from tilewright.dialects.declare import enum_property
from tilewright.dialects.upstream.vector import shapes
from tilewright.gpu.codegen import ir
from tilewright.gpu.codegen.arith import check_arithmetic, element_of
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.ir import Value
from tilewright.gpu.codegen.vector import combine, elements, elements_at, set_elements, shape_of


def _flat(place: Sequence[int], shape: Sequence[int]) -> int:
    """The row-major number of an element."""
    total = 0
    for where, extent in zip(place, shape, strict=True):
        total = total * extent + where
    return total


def _places(shape: Sequence[int]) -> product[tuple[int, ...]]:
    return product(*map(range, shape))


@lowers("vector.shuffle")
def _shuffle(f: Function, op: Operation) -> None:
    assert isinstance(op, shapes.ShuffleOp)
    size, count = prod(shape_of(op.v1)[1:]), prod(shape_of(op.v1))
    # Mask entries of -1 are undefined, so any element will do.
    starts = [max(place, 0) * size for place in shapes.numbers_of(op, "mask")]
    wanted = [start + at for start in starts for at in range(size)]
    first = iter(elements_at(f, op.v1, [at for at in wanted if at < count]))
    second = iter(elements_at(f, op.v2, [at - count for at in wanted if at >= count]))
    set_elements(f, op.result, [next(first if at < count else second) for at in wanted])


@lowers("vector.transpose")
def _transpose(f: Function, op: Operation) -> None:
    assert isinstance(op, shapes.TransposeOp)
    shape, order = shape_of(op.vector), shapes.numbers_of(op, "permutation")
    given, numbers = elements(f, op.vector), []
    for place in _places(shape_of(op.result)):
        source = [0] * len(shape)
        for axis, where in zip(order, place, strict=True):
            source[axis] = where
        numbers.append(given[_flat(source, shape)])
    set_elements(f, op.result, numbers)


@lowers("vector.extract_strided_slice")
def _extract_slice(f: Function, op: Operation) -> None:
    assert isinstance(op, shapes.ExtractStridedSliceOp)
    shape, offsets = shape_of(op.vector), shapes.numbers_of(op, "offsets")
    starts = (*offsets, *(0,) * (len(shape) - len(offsets)))
    places = [
        _flat([a + b for a, b in zip(place, starts, strict=True)], shape)
        for place in _places(shape_of(op.result))
    ]
    set_elements(f, op.result, elements_at(f, op.vector, places))


@lowers("vector.insert_strided_slice")
def _insert_slice(f: Function, op: Operation) -> None:
    assert isinstance(op, shapes.InsertStridedSliceOp)
    shape, offsets = shape_of(op.dest), shapes.numbers_of(op, "offsets")
    source = shape_of(op.source)
    leading = (0,) * (len(shape) - len(source))
    numbers = elements(f, op.dest)
    for place, number in zip(_places(source), elements(f, op.source), strict=True):
        where = [a + b for a, b in zip((*leading, *place), offsets, strict=True)]
        numbers[_flat(where, shape)] = number
    set_elements(f, op.res, numbers)


def _position(f: Function, position: SSAValue | None) -> Value:
    return ir.index(0) if position is None else f.value(position)


@lowers("vector.extractelement")
def _extract_element(f: Function, op: Operation) -> None:
    assert isinstance(op, shapes.ExtractElementOp)
    (row,) = f.parts(op.vector)
    place = _position(f, op.position)
    f.set(op.result, f.code.element(row, element_of(row.type), place))


@lowers("vector.insertelement")
def _insert_element(f: Function, op: Operation) -> None:
    assert isinstance(op, shapes.InsertElementOp)
    (row,) = f.parts(op.dest)
    place = _position(f, op.position)
    f.set(op.result, f.code.with_element(row, f.value(op.source), place))


@lowers("vector.from_elements")
def _from_elements(f: Function, op: Operation) -> None:
    set_elements(f, op.results[0], [f.value(value) for value in op.operands])


@lowers("vector.interleave")
def _interleave(f: Function, op: Operation) -> None:
    pairs = zip(*(elements(f, value) for value in op.operands), strict=True)
    set_elements(f, op.results[0], [number for pair in pairs for number in pair])


@lowers("vector.deinterleave")
def _deinterleave(f: Function, op: Operation) -> None:
    given = elements(f, op.operands[0])
    for first, result in enumerate(op.results):
        set_elements(f, result, given[first::2])


@lowers("vector.step")
def _step(f: Function, op: Operation) -> None:
    (count,) = shape_of(op.results[0])
    set_elements(f, op.results[0], [ir.index(n) for n in range(count)])


_TRUE, _FALSE = Value(ir.I1, "true"), Value(ir.I1, "false")


@lowers("vector.create_mask")
def _create_mask(f: Function, op: Operation) -> None:
    (result,) = op.results
    bits = []
    for place in _places(shape_of(result) or (1,)):
        inside = _TRUE
        for where, extent in zip(place, op.operands, strict=True):
            bit = f.code.compare("sgt", f.value(extent), ir.index(where))
            inside = bit if inside is _TRUE else f.code.binary("and", inside, bit)
        bits.append(inside)
    set_elements(f, result, bits)


@lowers("vector.constant_mask")
def _constant_mask(f: Function, op: Operation) -> None:
    assert isinstance(op, shapes.ConstantMaskOp)
    sizes = shapes.numbers_of(op, "mask_dim_sizes")
    places = _places(shape_of(op.result) or (1,))
    below = [all(a < b for a, b in zip(place, sizes, strict=True)) for place in places]
    set_elements(f, op.result, [_TRUE if holds else _FALSE for holds in below])


@lowers("vector.multi_reduction")
def _multi_reduction(f: Function, op: Operation) -> None:
    """Reduces in row-major order, starting from the accumulator."""
    assert isinstance(op, shapes.MultiReductionOp)
    check_arithmetic(f, op, op.source)
    shape, reduced = shape_of(op.source), shapes.numbers_of(op, "reduction_dims")
    kept = [axis for axis in range(len(shape)) if axis not in reduced]
    kind = enum_property(op, "kind")
    is_number = not shapes.shape_of(op.dest.type)
    totals = [f.value(op.acc)] if is_number else elements(f, op.acc)
    for place, number in zip(_places(shape), elements(f, op.source), strict=True):
        where = _flat([place[axis] for axis in kept], [shape[axis] for axis in kept])
        totals[where] = combine(f, kind, totals[where], number)
    if is_number:
        f.set(op.dest, totals[0])
    else:
        set_elements(f, op.dest, totals)
