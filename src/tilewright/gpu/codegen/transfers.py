"""`vector`: transfers with bounds checks, permutations and masks, and masked rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.dialects import vector
from xdsl.dialects.builtin import ArrayAttr, BoolAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from tilewright.gpu.codegen import ir, layout
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.ir import Value
from tilewright.gpu.codegen.memref import load_element, memory_type, store_element
from tilewright.gpu.codegen.vector import (
    check_elements,
    element_if,
    elements,
    read_vector,
    set_elements,
    shape_of,
    store_if,
    write_vector,
)

_Transfer = vector.TransferReadOp | vector.TransferWriteOp


def _is_plain(op: _Transfer, rank: int) -> bool:
    """Whether a transfer is contiguous along the last dimensions, in bounds, and unmasked."""
    mapping = op.permutation_map.data
    if op.mask is not None or rank > mapping.num_dims:
        return False
    if mapping != mapping.minor_identity(mapping.num_dims, rank):
        return False
    return all(_flags(op))


def _flags(op: _Transfer) -> list[bool]:
    bounds: ArrayAttr[BoolAttr] = op.in_bounds
    return [isinstance(b, IntegerAttr) and bool(b.value.data) for b in bounds.data]


@dataclass(frozen=True, slots=True)
class _Element:
    """An element of a transfer: its address, and its condition, if any."""

    address: Value
    condition: Value | None


def _elements_of(f: Function, op: _Transfer, value: SSAValue) -> Iterator[_Element]:
    """Yields the elements of a vector in order; their code is emitted on demand."""
    made, found = f.memref(op.source), f.layout(op.source)
    flags = _flags(op)
    along = {
        expr.position: axis
        for axis, expr in enumerate(op.permutation_map.data.results)
        if isinstance(expr, AffineDimExpr)
    }
    masked = [along[dim] for dim in sorted(along)]
    bits = _mask_bits(f, op.mask, masked, shape_of(value))
    for place in product(*map(range, shape_of(value))):
        linear, condition = made.offset, bits.get(tuple(place[axis] for axis in masked))
        for dim, index in enumerate(op.indices):
            at = f.value(index)
            if dim in along:
                at = f.code.add(at, ir.index(place[along[dim]]))
                if not flags[along[dim]]:
                    inside = f.code.compare("ult", at, made.sizes[dim])
                    condition = _both(f, condition, inside)
            linear = f.code.add(linear, f.code.mul(at, made.strides[dim]))
        yield _Element(f.address(made.pointer, found.element, linear), condition)


def _both(f: Function, one: Value | None, other: Value) -> Value:
    return other if one is None else f.code.binary("and", one, other)


def _mask_bits(
    f: Function, mask: SSAValue | None, axes: Sequence[int], shape: Sequence[int]
) -> dict[tuple[int, ...], Value]:
    """The bits of a mask by position. It has the dimensions of the memref along which the vector goes, in order."""
    if mask is None:
        return {}
    places = product(*(range(shape[axis]) for axis in axes))
    return dict(zip(places, elements(f, mask), strict=True))


@lowers("vector.transfer_read")
def _transfer_read(f: Function, op: Operation) -> None:
    assert isinstance(op, vector.TransferReadOp)
    check_elements(f, op, op.source, op.result)
    if _is_plain(op, len(shape_of(op.result))):
        read_vector(f, op, op.source, op.indices, op.result)
        return
    ty = memory_type(f, op, op.source)
    align = layout.element_bytes(f.layout(op.source).element)
    padding, numbers = f.value(op.padding), []
    for element in _elements_of(f, op, op.result):
        if element.condition is None:
            numbers.append(load_element(f, ty, element.address, align))
        else:
            numbers.append(element_if(f, element.condition, padding, ty, element.address, align))
    set_elements(f, op.result, numbers)


@lowers("vector.transfer_write")
def _transfer_write(f: Function, op: Operation) -> None:
    assert isinstance(op, vector.TransferWriteOp)
    check_elements(f, op, op.source, op.vector)
    if _is_plain(op, len(shape_of(op.vector))):
        write_vector(f, op, op.vector, op.source, op.indices)
        return
    memory_type(f, op, op.source)
    align = layout.element_bytes(f.layout(op.source).element)
    numbers = elements(f, op.vector)
    for number, element in zip(numbers, _elements_of(f, op, op.vector), strict=True):
        if element.condition is None:
            store_element(f, number, element.address, align)
        else:
            store_if(f, element.condition, number, element.address, align)


class _Row:
    """Consecutive elements along the last dimension of a memref."""

    def __init__(self, f: Function, op: Operation, base: SSAValue, indices: Sequence[SSAValue]):
        self.f, made = f, f.memref(base)
        self.pointer, self.element = made.pointer, f.layout(base).element
        self.start = f.linear_index(made, indices)
        self.stride = made.strides[-1] if made.strides else ir.index(1)
        self.ty = memory_type(f, op, base)
        self.align = layout.element_bytes(self.element)

    def address(self, along: Value) -> Value:
        """The address of the element at offset ``along`` from the first."""
        code = self.f.code
        return self.f.address(
            self.pointer, self.element, code.add(self.start, code.mul(along, self.stride))
        )


def _distances(f: Function, bits: Sequence[Value], packs: bool) -> Iterator[Value]:
    """The offset of each element: its index, or with ``packs`` the number of wanted elements before it."""
    count = ir.index(0)
    for place, bit in enumerate(bits):
        yield count if packs else ir.index(place)
        if packs:
            count = f.code.add(count, f.code.resize(bit, ir.I64))


@lowers("vector.maskedload", "vector.expandload")
def _masked_load(f: Function, op: Operation) -> None:
    base, *indices, mask, otherwise = op.operands
    (result,) = op.results
    check_elements(f, op, base, result)
    row, bits = _Row(f, op, base, indices), elements(f, mask)
    numbers = []
    others = elements(f, otherwise)
    packs = op.name == "vector.expandload"
    for bit, other, along in zip(bits, others, _distances(f, bits, packs), strict=True):
        address = row.address(along)
        numbers.append(element_if(f, bit, other, row.ty, address, row.align))
    set_elements(f, result, numbers)


@lowers("vector.maskedstore", "vector.compressstore")
def _masked_store(f: Function, op: Operation) -> None:
    base, *indices, mask, value = op.operands
    check_elements(f, op, base, value)
    row, bits = _Row(f, op, base, indices), elements(f, mask)
    packs = op.name == "vector.compressstore"
    numbers = elements(f, value)
    for bit, number, along in zip(bits, numbers, _distances(f, bits, packs), strict=True):
        store_if(f, bit, number, row.address(along), row.align)
