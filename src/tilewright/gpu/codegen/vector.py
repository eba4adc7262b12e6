"""`vector`: vectors, whose rows are LLVM vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

from xdsl.dialects import vector
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.ir import Operation, SSAValue

from tilewright.dialects.upstream.base.shapes import bit_width, has_unit_stride
from tilewright.dialects.upstream.vector.memory import ALIGNMENT
from tilewright.gpu.codegen import ir, layout
from tilewright.gpu.codegen.arith import (
    LLVM_FLOATS,
    check_arithmetic,
    element_of,
    fast_flags,
    intrinsic,
    map_parts,
)
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.ir import Value
from tilewright.gpu.codegen.memref import load_element, memory_type, store_element


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The extents of a vector."""
    assert isinstance(value.type, VectorType)
    return tuple(value.type.get_shape())


def elements(f: Function, value: SSAValue) -> list[Value]:
    """The elements of a vector, in order."""
    count = sum(_width(row.type) for row in f.parts(value))
    return elements_at(f, value, range(count))


def _width(ty: str) -> int:
    """The number of elements of an LLVM vector type."""
    return int(ty[1 : ty.index(" ")])


def elements_at(f: Function, value: SSAValue, places: Sequence[int]) -> list[Value]:
    """The elements at positions. Others are not extracted: LLVM would remove them, but at a cost in compile time."""
    rows = f.parts(value)
    width = _width(rows[0].type)
    taken: dict[int, Value] = {}
    for place in sorted(set(places)):
        row, at = rows[place // width], place % width
        taken[place] = f.code.element(row, element_of(row.type), ir.integer(ir.I32, at))
    return [taken[place] for place in places]


def set_elements(f: Function, value: SSAValue, numbers: Sequence[Value]) -> None:
    """Set a vector from its elements, in order."""
    left = iter(numbers)
    rows = []
    for ty in f.types(value):
        row = Value(ty, "poison")
        for i in range(_width(ty)):
            row = f.code.with_element(row, next(left), ir.integer(ir.I32, i))
        rows.append(row)
    f.set(value, *rows)


# Parts of vectors


def _position(
    f: Function, static: DenseArrayBase[IntegerType], dynamic: Sequence[SSAValue], rank: int
) -> tuple[list[Value], Value]:
    """The positions along the leading dimensions, and the position in a row."""
    left = iter(dynamic)
    values = [
        f.value(next(left)) if n == DYNAMIC_INDEX else ir.index(int(n)) for n in static.get_values()
    ]
    return values[: max(rank - 1, 0)], values[rank - 1] if 0 < rank == len(values) else ir.index(0)


def _first_row(f: Function, shape: Sequence[int], leading: Sequence[Value]) -> Value:
    """The number of the first row at a position of the leading dimensions."""
    first = ir.index(0)
    for extent, place in zip(shape, leading, strict=False):
        first = f.code.add(f.code.mul(first, ir.index(extent)), place)
    return f.code.mul(first, ir.index(prod(shape[len(leading) : -1])))


def _starts(shape: Sequence[int], leading: Sequence[Value]) -> range:
    """The numbers that the first row may have."""
    return range(0, max(prod(shape[:-1]), 1), prod(shape[len(leading) : -1]))


@lowers("vector.extract")
def _extract(f: Function, op: Operation) -> None:
    """A row at a dynamic position is selected among all, as registers cannot be indexed."""
    assert isinstance(op, vector.ExtractOp)
    shape, parts = shape_of(op.vector), f.parts(op.vector)
    leading, place = _position(f, op.static_position, op.dynamic_position, len(shape))
    first, count = _first_row(f, shape, leading), prod(shape[len(leading) : -1])
    starts = _starts(shape, leading)
    if first.number is not None:
        chosen = list(parts[first.number : first.number + count])
    else:
        chosen = [Value(part.type, "poison") for part in parts[:count]]
        for start in starts:
            here = f.code.compare("eq", first, ir.index(start))
            rows = zip(parts[start : start + count], chosen, strict=True)
            chosen = [f.code.select(here, row, other) for row, other in rows]
    if isinstance(op.result.type, VectorType):
        f.set(op.result, *chosen)
        return
    (row,) = chosen
    f.set(op.result, f.code.element(row, element_of(row.type), place))


@lowers("vector.insert")
def _insert(f: Function, op: Operation) -> None:
    assert isinstance(op, vector.InsertOp)
    shape, parts = shape_of(op.dest), list(f.parts(op.dest))
    leading, place = _position(f, op.static_position, op.dynamic_position, len(shape))
    first, count = _first_row(f, shape, leading), prod(shape[len(leading) : -1])
    is_vector = isinstance(op.source.type, VectorType)
    for start in _starts(shape, leading):
        if first.number not in (None, start):
            continue
        old = parts[start : start + count]
        new = (
            list(f.parts(op.source))
            if is_vector
            else [f.code.with_element(old[0], f.value(op.source), place)]
        )
        if first.number is None:
            here = f.code.compare("eq", first, ir.index(start))
            new = [f.code.select(here, a, b) for a, b in zip(new, old, strict=True)]
        parts[start : start + count] = new
    f.set(op.result, *parts)


@lowers("vector.broadcast", "vector.splat")
def _broadcast(f: Function, op: Operation) -> None:
    (source,), (result,) = op.operands, op.results
    if isinstance(source.type, VectorType):
        _stretch(f, source, result)
        return
    number = f.value(source)
    rows = []
    for ty in dict.fromkeys(f.types(result)):
        width = int(ty[1 : ty.index(" ")])
        first = f.code.with_element(Value(ty, "poison"), number, ir.integer(ir.I32, 0))
        mask = f"<{width} x i32> zeroinitializer"
        rows.append(f.code.op(ty, f"shufflevector {first}, {ty} poison, {mask}"))
    f.set(result, *(rows * len(f.types(result))))


def _stretch(f: Function, source: SSAValue, result: SSAValue) -> None:
    """Broadcast a vector along dimensions that it lacks or has with extent 1."""
    wanted, given = shape_of(result), shape_of(source)
    padded = (1,) * (len(wanted) - len(given)) + given
    numbers = elements(f, source)
    chosen = []
    for place in product(*map(range, wanted)):
        at = 0
        for extent, where in zip(padded, place, strict=True):
            at = at * extent + (where if extent != 1 else 0)
        chosen.append(numbers[at])
    set_elements(f, result, chosen)


@lowers("vector.shape_cast")
def _shape_cast(f: Function, op: Operation) -> None:
    (source,), (result,) = op.operands, op.results
    if f.types(source) == f.types(result):
        f.set(result, *f.parts(source))
    else:
        set_elements(f, result, elements(f, source))


@lowers("vector.bitcast")
def _bitcast(f: Function, op: Operation) -> None:
    (source,), (result,) = op.operands, op.results
    pairs = zip(f.parts(source), f.types(result), strict=True)
    f.set(result, *(f.code.cast("bitcast", part, ty) for part, ty in pairs))


@lowers("vector.fma")
def _fma(f: Function, op: Operation) -> None:
    check_arithmetic(f, op, op.operands[0])
    map_parts(f, op, lambda a, b, c: intrinsic(f, "fma", a, b, c))


_REDUCTIONS = {
    "and": "and",
    "or": "or",
    "xor": "xor",
    "minui": "llvm.umin",
    "minsi": "llvm.smin",
    "maxui": "llvm.umax",
    "maxsi": "llvm.smax",
    "minnumf": "llvm.minnum",
    "maxnumf": "llvm.maxnum",
    "minimumf": "llvm.minimum",
    "maximumf": "llvm.maximum",
}


def combine(f: Function, kind: str, a: Value, b: Value, flags: str = "") -> Value:
    """One step of a reduction, by its keyword in `vector` and `gpu`.

    Raises ``TileIRError`` (``gpu-unsupported``) for a keyword of the other kind of numbers.
    """
    if kind in ("add", "mul"):
        prefix = "f" if a.type in LLVM_FLOATS else ""
        return f.code.binary(f"{prefix}{kind} {flags if prefix else ''}".rstrip(), a, b)
    found = _REDUCTIONS[kind]
    if kind.endswith("f") != (a.type in LLVM_FLOATS):
        raise layout.unsupported(f"'{kind}' does not combine values of '{a.type}'", None)
    if found.startswith("llvm."):
        is_float = a.type in LLVM_FLOATS
        return intrinsic(f, found.removeprefix("llvm."), a, b, flags=flags if is_float else "")
    return f.code.binary(found, a, b)


@lowers("vector.reduction")
def _reduction(f: Function, op: Operation) -> None:
    """Reduces in ascending order, starting from the accumulator if there is one."""
    assert isinstance(op, vector.ReductionOp)
    check_arithmetic(f, op, op.vector)
    numbers = elements(f, op.vector)
    if op.acc is not None:
        numbers.insert(0, f.value(op.acc))
    total, *others = numbers
    for number in others:
        total = combine(f, op.kind.data.value, total, number, fast_flags(op))
    f.set(op.dest, total)


# Vectors in memory


def _addresses(
    f: Function, memref: SSAValue, indices: Sequence[SSAValue], shape: Sequence[int]
) -> Callable[[tuple[int, ...]], Value]:
    """A function for the address of each element of a vector along the last dimensions of a memref."""
    made, found = f.memref(memref), f.layout(memref)
    start = f.linear_index(made, indices)
    strides = made.strides[len(made.strides) - len(shape) :]

    def address(place: tuple[int, ...]) -> Value:
        linear = start
        for where, stride in zip(place, strides, strict=True):
            linear = f.code.add(linear, f.code.mul(ir.index(where), stride))
        return f.address(made.pointer, found.element, linear)

    return address


def _is_dense(f: Function, memref: SSAValue) -> bool:
    assert isinstance(memref.type, MemRefType)
    return has_unit_stride(memref.type) and f.layout(memref).element != ir.I1


def _known_alignment(op: Operation, element: int) -> int:
    """The known alignment of an access in bytes: that of its attribute, else of an element."""
    found = op.attributes.get(ALIGNMENT, op.properties.get(ALIGNMENT))
    return max(found.value.data, element) if isinstance(found, IntegerAttr) else element


def read_vector(
    f: Function, op: Operation, memref: SSAValue, indices: Sequence[SSAValue], result: SSAValue
) -> None:
    """Load a vector, by rows if they are contiguous; ``indices`` are those of its first element.

    Raises ``TileIRError`` as ``memory_type``.
    """
    if layout.is_packed(f.layout(memref).element):
        _read_packed(f, op, memref, indices, result)
        return
    ty, shape = memory_type(f, op, memref), shape_of(result)
    align = layout.element_bytes(f.layout(memref).element)
    address = _addresses(f, memref, indices, shape)
    if _is_dense(f, memref) and shape and ty != ir.I1:
        rows = product(*map(range, shape[:-1]))
        (row_type,) = set(f.types(result))
        whole = _known_alignment(op, align) if len(shape) == 1 else align
        f.set(result, *(f.code.load(row_type, address((*row, 0)), whole) for row in rows))
        return
    places = product(*map(range, shape))
    set_elements(f, result, [load_element(f, ty, address(place), align) for place in places])


def write_vector(
    f: Function, op: Operation, value: SSAValue, memref: SSAValue, indices: Sequence[SSAValue]
) -> None:
    """Store a vector, by rows if they are contiguous; ``indices`` are those of its first element.

    Raises ``TileIRError`` as ``memory_type``.
    """
    if layout.is_packed(f.layout(memref).element):
        _write_packed(f, op, value, memref, indices)
        return
    ty, shape = memory_type(f, op, memref), shape_of(value)
    align = layout.element_bytes(f.layout(memref).element)
    address = _addresses(f, memref, indices, shape)
    if _is_dense(f, memref) and shape and ty != ir.I1:
        rows = product(*map(range, shape[:-1]))
        whole = _known_alignment(op, align) if len(shape) == 1 else align
        for row, part in zip(rows, f.parts(value), strict=True):
            f.code.store(part, address((*row, 0)), whole)
        return
    for place, number in zip(product(*map(range, shape)), elements(f, value), strict=True):
        store_element(f, number, address(place), align)


def _packed_rows(f: Function, op: Operation, memref: SSAValue, vector: SSAValue) -> str:
    """The type of the bytes of a row of packed elements. Raises ``TileIRError`` if they are not whole bytes."""
    shape = shape_of(vector)
    bits = (shape[-1] if shape else 1) * bit_width(f.layout(memref).element)
    if bits % 8 or not _is_dense(f, memref):
        raise f.refuse(op, "of elements of less than 8 bits takes whole bytes, side by side")
    return f"<{bits // 8} x i8>"


def _read_packed(
    f: Function, op: Operation, memref: SSAValue, indices: Sequence[SSAValue], result: SSAValue
) -> None:
    """Load rows that start at a byte boundary, as the program must ensure."""
    octets, shape = _packed_rows(f, op, memref, result), shape_of(result)
    address = _addresses(f, memref, indices, shape)
    rows = []
    for row, ty in zip(product(*map(range, shape[:-1])), f.types(result), strict=True):
        loaded = f.code.load(octets, address((*row, 0)), 1)
        rows.append(f.code.cast("bitcast", loaded, ty))
    f.set(result, *rows)


def _write_packed(
    f: Function, op: Operation, value: SSAValue, memref: SSAValue, indices: Sequence[SSAValue]
) -> None:
    octets, shape = _packed_rows(f, op, memref, value), shape_of(value)
    address = _addresses(f, memref, indices, shape)
    for row, part in zip(product(*map(range, shape[:-1])), f.parts(value), strict=True):
        f.code.store(f.code.cast("bitcast", part, octets), address((*row, 0)), 1)


def check_elements(f: Function, op: Operation, memref: SSAValue, value: SSAValue) -> None:
    """Raises ``TileIRError`` (``gpu-unsupported``) for memrefs whose elements are vectors."""
    assert isinstance(value.type, VectorType)
    if f.layout(memref).element != value.type.element_type:
        raise f.refuse(op, "between a vector and a memref of vectors is not compiled")


@lowers("vector.load")
def _load(f: Function, op: Operation) -> None:
    assert isinstance(op, vector.LoadOp)
    check_elements(f, op, op.base, op.result)
    read_vector(f, op, op.base, op.indices, op.result)


@lowers("vector.store")
def _store(f: Function, op: Operation) -> None:
    assert isinstance(op, vector.StoreOp)
    check_elements(f, op, op.base, op.vector)
    write_vector(f, op, op.vector, op.base, op.indices)


def element_if(
    f: Function, condition: Value, otherwise: Value, ty: str, address: Value, align: int
) -> Value:
    """Load an element under a condition, with another value otherwise; memory is not touched then."""
    inside, end = f.code.new_block("inside"), f.code.new_block("loaded")
    result = f.code.phi(end, ty)
    f.code.branch_if(condition, inside, end, (), [otherwise])
    f.code.start(inside)
    f.code.branch(end, [load_element(f, ty, address, align)])
    f.code.start(end)
    return result


def store_if(f: Function, condition: Value, value: Value, address: Value, align: int) -> None:
    """Store a number under a condition."""
    inside, end = f.code.new_block("inside"), f.code.new_block("stored")
    f.code.branch_if(condition, inside, end)
    f.code.start(inside)
    store_element(f, value, address, align)
    f.code.branch(end)
    f.code.start(end)
