"""`memref`: allocations, accesses and views."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    SymbolRefAttr,
    UnrankedMemRefType,
)
from xdsl.ir import Operation, SSAValue

from tilewright.diagnostics import TileIRError
from tilewright.dialects.source_map import location_of
from tilewright.dialects.upstream.base.shapes import bit_width
from tilewright.dialects.upstream.memref.ops import RMW_KEYWORDS, GlobalOp
from tilewright.gpu.codegen import ir, layout
from tilewright.gpu.codegen.arith import LLVM_FLOATS
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.ir import Value
from tilewright.gpu.codegen.layout import Memref
from tilewright.gpu.codegen.unit import OWN_BYTES
from tilewright.gpu.codes import UNKNOWN_SYMBOL
from tilewright.launching.object_names import object_name


def memory_type(f: Function, op: Operation, memref_value: SSAValue) -> str:
    """The LLVM type of an element in memory.

    Raises ``TileIRError`` (``gpu-unsupported``) for elements that share bytes, and for those that are no numbers.
    """
    element = f.layout(memref_value).element
    if layout.is_packed(element):
        raise f.refuse(op, "accesses single elements narrower than 8 bits, which share a byte")
    found = layout.scalar(element)
    if found is None:
        raise f.refuse(op, "accesses elements that are not numbers")
    return found


def load_element(f: Function, ty: str, address: Value, align: int) -> Value:
    """Load an element, aligned to ``align`` bytes; an i1 takes a byte."""
    if ty == ir.I1:
        return f.code.op(ir.I1, f"trunc {f.code.load(ir.I8, address, 1)} to i1")
    return f.code.load(ty, address, align)


def store_element(f: Function, value: Value, address: Value, align: int) -> None:
    """Store an element, aligned to ``align`` bytes; an i1 is stored as a byte, 0 or 1."""
    if value.type == ir.I1:
        value = f.code.cast("zext", value, ir.I8)
    f.code.store(value, address, align)


@lowers("memref.load")
def _load(f: Function, op: Operation) -> None:
    assert isinstance(op, memref.LoadOp)
    ty = memory_type(f, op, op.memref)
    align = layout.element_bytes(f.layout(op.memref).element)
    address = f.element_address(op.memref, op.indices)
    f.set(op.res, load_element(f, ty, address, align))


@lowers("memref.store")
def _store(f: Function, op: Operation) -> None:
    assert isinstance(op, memref.StoreOp)
    memory_type(f, op, op.memref)
    align = layout.element_bytes(f.layout(op.memref).element)
    store_element(f, f.value(op.value), f.element_address(op.memref, op.indices), align)


#: LLVM's operations for `memref.atomic_rmw`, by keyword.
_ATOMICS = {
    "addf": "fadd",
    "addi": "add",
    "assign": "xchg",
    "maxs": "max",
    "maxu": "umax",
    "mins": "min",
    "minu": "umin",
    "ori": "or",
    "andi": "and",
    "maxnumf": "fmax",
    "minnumf": "fmin",
    "maximumf": "fmaximum",
    "minimumf": "fminimum",
}
_COMPUTED = {"mulf": "fmul", "muli": "mul"}


@lowers("memref.atomic_rmw")
def _atomic(f: Function, op: Operation) -> None:
    """Relaxed and at device scope, as atomic updates of kernels are."""
    value, target, *indices = op.operands
    kind = op.properties["kind"]
    assert isinstance(kind, IntegerAttr)
    keyword = RMW_KEYWORDS[kind.value.data]
    ty = memory_type(f, op, target)
    address = f.element_address(target, indices)
    scope = 'syncscope("device") monotonic'
    if keyword in _COMPUTED:
        f.set(op.results[0], _compare_and_swap(f, ty, address, f.value(value), _COMPUTED[keyword]))
        return
    given = f"{address}, {f.value(value)} {scope}"
    f.set(op.results[0], f.code.op(ty, f"atomicrmw {_ATOMICS[keyword]} {given}"))


def _compare_and_swap(f: Function, ty: str, address: Value, value: Value, opcode: str) -> Value:
    """An atomic update by a compare-and-swap loop; returns the old value."""
    width = {"half": 16, "bfloat": 16, "float": 32, "double": 64}.get(ty) or int(ty[1:])
    bits = f"i{width}"
    loop, end = f.code.new_block("retry"), f.code.new_block("swapped")
    first = f.code.op(bits, f"load atomic {bits}, {address} monotonic, align {width // 8}")
    seen = f.code.phi(loop, bits)
    f.code.branch(loop, [first])
    f.code.start(loop)
    old = f.code.cast("bitcast", seen, ty)
    new = f.code.cast("bitcast", f.code.binary(opcode, old, value), bits)
    both = f"{{ {bits}, i1 }}"
    exchange = f'cmpxchg {address}, {seen}, {new} syncscope("device") monotonic monotonic'
    pair = f.code.op(both, exchange)
    found, done = f.code.extract(pair, bits, 0), f.code.extract(pair, ir.I1, 1)
    f.code.branch_if(done, end, loop, (), [found])
    f.code.start(end)
    return old


# Allocations


@lowers("memref.alloca")
def _alloca(f: Function, op: Operation) -> None:
    assert isinstance(op, memref.AllocaOp)
    found = f.layout(op.memref)
    if found.space not in (0, 5) or op.dynamic_sizes:
        raise f.refuse(op, "is compiled for thread-local memory of static size only")
    f.set_memref(op.memref, private_memory(f, op.memref, _alignment(op)))


def private_memory(f: Function, value: SSAValue, align: int | None) -> Memref:
    """Thread-local memory for a memref of static size, aligned to ``align`` bytes, by default 16 or more.

    Raises ``TileIRError`` (``gpu-unsupported``) for dynamic ones.
    """
    found = f.layout(value)
    size = static_bytes(f, value)
    place = f.code.alloca(f"[{size} x i8]", align or max(16, layout.element_bytes(found.element)))
    if found.space:
        # After the allocas at the head of the function.
        place = f.code.op(found.pointer, f"addrspacecast {place} to {found.pointer}")
    return fresh(found, place)


def fresh(found: layout.MemrefLayout, place: Value) -> Memref:
    """A memref of static extents at a pointer."""
    sizes = tuple(ir.index(n or 0) for n in found.sizes)
    return Memref(
        place, ir.index(found.offset or 0), sizes, tuple(ir.index(n or 0) for n in found.strides)
    )


def static_bytes(f: Function, value: SSAValue) -> int:
    """The size of a static memref in bytes, with the gaps that its strides leave.

    Raises ``TileIRError`` (``gpu-unsupported``) for dynamic ones.
    """
    found = f.layout(value)
    if None in (*found.sizes, *found.strides, found.offset):
        owner = value.owner
        at = owner if isinstance(owner, Operation) else owner.parent_op()
        raise layout.unsupported(
            "memory that a kernel allocates needs static extents and strides",
            location_of(at) if at is not None else None,
        )
    extents = [(size or 0, stride or 0) for size, stride in zip(found.sizes, found.strides)]
    if not all(size for size, _ in extents):
        return 0
    last = (found.offset or 0) + sum((size - 1) * stride for size, stride in extents)
    if layout.is_packed(found.element):
        return ((last + 1) * bit_width(found.element) + 7) // 8
    return (last + 1) * layout.element_bytes(found.element)


def _alignment(op: Operation) -> int | None:
    found = op.properties.get("alignment")
    return found.value.data if isinstance(found, IntegerAttr) else None


@lowers("memref.get_global")
def _get_global(f: Function, op: Operation) -> None:
    assert isinstance(op, memref.GetGlobalOp)
    name = op.name_
    assert isinstance(name, SymbolRefAttr)
    source = f.unit.symbols.get(name.string_value())
    if not isinstance(source, GlobalOp):
        raise TileIRError.single(
            UNKNOWN_SYMBOL,
            f"there is no memref.global '@{name.string_value()}' in the module of the kernel",
            location_of(op),
        )
    found = f.layout(op.memref)
    size = static_bytes(f, op.memref)
    symbol = f"global.{object_name(name.string_value())}"
    if found.space == ir.SHARED:
        if isinstance(source.initial_value, DenseIntOrFPElementsAttr):
            raise f.refuse(op, "names shared memory with initial values, which is not supported")
        base = f.unit.reserve_shared(symbol, size, _alignment(source))
    else:
        base = _global_memory(f, op, source, symbol, size)
    f.set_memref(op.memref, fresh(found, base))


def _global_memory(f: Function, op: Operation, source: GlobalOp, name: str, size: int) -> Value:
    """Device memory that lives as long as the module."""
    assert isinstance(op, memref.GetGlobalOp)
    found = f.layout(op.memref)
    if found.space not in (0, 1, 4):
        raise f.refuse(op, "names memory in an address space without globals")
    space = found.space or ir.GLOBAL
    value = source.initial_value
    element = memory_type(f, op, op.memref)
    count = size // layout.element_bytes(found.element)
    content = "zeroinitializer"
    if isinstance(value, DenseIntOrFPElementsAttr):
        content = _dense(value, element, count)
    stored = ir.I8 if element == ir.I1 else element
    align = _alignment(source) or 16
    constant = "constant" if source.constant is not None else "global"
    f.unit.globals[name] = (
        f"@{name} = internal addrspace({space}) {constant} [{count} x {stored}] {content}, "
        f"align {align}"
    )
    base = Value(ir.pointer(space), f"@{name}")
    if found.space == space:
        return base
    return f.code.op(found.pointer, f"addrspacecast {base} to {found.pointer}")


def _dense(value: DenseIntOrFPElementsAttr, element: str, count: int) -> str:
    numbers = list(value.get_values())
    numbers *= count if len(numbers) == 1 else 1
    stored = ir.I8 if element == ir.I1 else element
    make = ir.floating if element in LLVM_FLOATS else ir.integer
    return "[" + ", ".join(str(make(stored, n)) for n in numbers) + "]"  # pyright: ignore[reportArgumentType]


@lowers("gpu.dynamic_shared_memory")
def _dynamic_shared(f: Function, op: Operation) -> None:
    (result,) = op.results
    base = f.unit.dynamic_shared()
    (size,) = f.code.asm("mov.u32 $0, %dynamic_smem_size;", [ir.I32], pure=True)
    extent = f.code.resize(f.code.binary("sub", size, OWN_BYTES), ir.I64)
    if len(f.layout(result).sizes) != 1 or layout.element_bytes(f.layout(result).element) != 1:
        raise f.refuse(op, "is compiled as a row of bytes only")
    f.set_memref(result, Memref(base, ir.index(0), (extent,), (ir.index(1),)))


# Views


def _mixed(f: Function, static: Sequence[int], dynamic: Sequence[SSAValue]) -> list[Value]:
    """Static numbers as constants, dynamic ones as values."""
    left = iter(dynamic)
    return [f.value(next(left)) if n == DYNAMIC_INDEX else ir.index(n) for n in static]


def _numbers(attribute: DenseArrayBase[IntegerType]) -> Sequence[int]:
    return [int(n) for n in attribute.get_values()]


@lowers("memref.subview")
def _subview(f: Function, op: Operation) -> None:
    assert isinstance(op, memref.SubviewOp)
    source = f.memref(op.source)
    offsets = _mixed(f, _numbers(op.static_offsets), op.offsets)
    sizes = _mixed(f, _numbers(op.static_sizes), op.sizes)
    steps = _mixed(f, _numbers(op.static_strides), op.strides)
    start = source.offset
    for place, stride in zip(offsets, source.strides, strict=True):
        start = f.code.add(start, f.code.mul(place, stride))
    strides = [f.code.mul(a, b) for a, b in zip(steps, source.strides, strict=True)]
    kept = _kept_dimensions(_numbers(op.static_sizes), f.layout(op.result))
    if kept is None:
        raise f.refuse(op, "drops dimensions whose extent is not 1")
    f.set_memref(
        op.result,
        Memref(
            source.pointer,
            start,
            tuple(sizes[i] for i in kept),
            tuple(strides[i] for i in kept),
        ),
    )


def _kept_dimensions(sizes: Sequence[int], result: layout.MemrefLayout) -> list[int] | None:
    """The dimensions of a view that the result keeps, others having extent 1; None if none fit."""
    left = len(sizes) - len(result.sizes)
    kept: list[int] = []
    for i, size in enumerate(sizes):
        wanted = result.sizes[len(kept)] if len(kept) < len(result.sizes) else None
        is_wanted = len(kept) < len(result.sizes) and (wanted is None or wanted == size)
        if left and size == 1 and not (is_wanted and wanted == 1 and left == 0):
            left -= 1
        else:
            kept.append(i)
    return kept if len(kept) == len(result.sizes) else None


@lowers("memref.cast")
def _cast(f: Function, op: Operation) -> None:
    assert isinstance(op, memref.CastOp)
    source, result = op.source, op.dest
    if isinstance(source.type, MemRefType) and isinstance(result.type, MemRefType):
        f.set_memref(result, f.memref(source))
    elif isinstance(source.type, MemRefType) and isinstance(result.type, UnrankedMemRefType):
        _unranked(f, source, result)
    else:
        raise f.refuse(op, "from a memref without rank is not compiled")


def _unranked(f: Function, source: SSAValue, result: SSAValue) -> None:
    """The rank, and a pointer to a descriptor in thread-local memory, as upstream defines it."""
    made = f.memref(source)
    fields = [made.offset, *made.sizes, *made.strides]
    place = f.code.alloca(f"[{16 + 8 * len(fields)} x i8]", 8)
    for i, pointer in enumerate((made.pointer, made.pointer)):
        generic = f.code.cast("addrspacecast", pointer, "ptr")
        f.code.store(generic, f.code.offset(place, "i64", ir.index(i)), 8)
    for i, field in enumerate(fields, 2):
        f.code.store(field, f.code.offset(place, "i64", ir.index(i)), 8)
    _, pointer_type = f.types(result)
    f.set(
        result,
        ir.index(len(made.sizes)),
        f.code.cast("addrspacecast", place, pointer_type),
    )


@lowers("memref.memory_space_cast")
def _space_cast(f: Function, op: Operation) -> None:
    assert isinstance(op, memref.MemorySpaceCastOp)
    source = f.memref(op.source)
    wanted = f.layout(op.dest).pointer
    if "ptr" not in (wanted, source.pointer.type) and wanted != source.pointer.type:
        raise f.refuse(op, "is compiled to and from memory without a space only")
    base = f.code.cast("addrspacecast", source.pointer, wanted)
    f.set_memref(op.dest, Memref(base, source.offset, source.sizes, source.strides))


@lowers("memref.reinterpret_cast")
def _reinterpret(f: Function, op: Operation) -> None:
    assert isinstance(op, memref.ReinterpretCastOp)
    (offset,) = _mixed(f, _numbers(op.static_offsets), op.offsets)
    sizes = _mixed(f, _numbers(op.static_sizes), op.sizes)
    strides = _mixed(f, _numbers(op.static_strides), op.strides)
    f.set_memref(
        op.result, Memref(f.memref(op.source).pointer, offset, tuple(sizes), tuple(strides))
    )


@lowers("memref.view")
def _view(f: Function, op: Operation) -> None:
    assert isinstance(op, memref.ViewOp)
    source = f.memref(op.source)
    place = f.code.add(source.offset, f.value(op.byte_shift))
    base = f.code.offset(source.pointer, ir.I8, place)
    left = iter(op.sizes)
    sizes = [f.value(next(left)) if n is None else ir.index(n) for n in f.layout(op.result).sizes]
    f.set_memref(op.result, Memref(base, ir.index(0), tuple(sizes), dense_strides(f, sizes)))


def dense_strides(f: Function, sizes: Sequence[Value]) -> tuple[Value, ...]:
    """The strides of a row-major memref of these extents, in elements."""
    strides: list[Value] = []
    step = ir.index(1)
    for size in reversed(sizes):
        strides.insert(0, step)
        step = f.code.mul(step, size)
    return tuple(strides)


def _groups(op: memref.AlterShapeOperation) -> list[list[int]]:
    found: ArrayAttr[ArrayAttr[IntegerAttr]] = op.reassociation
    return [[n.value.data for n in group.data] for group in found.data]


@lowers("memref.expand_shape")
def _expand(f: Function, op: Operation) -> None:
    assert isinstance(op, memref.ExpandShapeOp)
    source = f.memref(op.src)
    sizes = _mixed(f, _numbers(op.static_output_shape), op.output_shape)
    strides: list[Value] = [ir.index(1)] * len(sizes)
    for group, stride in zip(_groups(op), source.strides, strict=False):
        step = stride
        for place in reversed(group):
            strides[place] = step
            step = f.code.mul(step, sizes[place])
    f.set_memref(op.result, Memref(source.pointer, source.offset, tuple(sizes), tuple(strides)))


@lowers("memref.collapse_shape")
def _collapse(f: Function, op: Operation) -> None:
    assert isinstance(op, memref.CollapseShapeOp)
    source = f.memref(op.src)
    sizes, strides = [], []
    for group in _groups(op):
        size = ir.index(1)
        for place in group:
            size = f.code.mul(size, source.sizes[place])
        # The stride is that of the innermost dimension with more than one element.
        inner = [p for p in group if source.sizes[p].number != 1] or group
        sizes.append(size)
        strides.append(source.strides[inner[-1]])
    f.set_memref(op.result, Memref(source.pointer, source.offset, tuple(sizes), tuple(strides)))


@lowers("memref.extract_strided_metadata")
def _metadata(f: Function, op: Operation) -> None:
    assert isinstance(op, memref.ExtractStridedMetaDataOp)
    source = f.memref(op.source)
    f.set_memref(op.base_buffer, Memref(source.pointer, ir.index(0), (), ()))
    f.set(op.offset, source.offset)
    for results, values in ((op.sizes, source.sizes), (op.strides, source.strides)):
        for result, value in zip(results, values, strict=True):
            f.set(result, value)


@lowers("memref.extract_aligned_pointer_as_index")
def _pointer_as_index(f: Function, op: Operation) -> None:
    assert isinstance(op, memref.ExtractAlignedPointerAsIndexOp)
    base = f.memref(op.source).pointer
    f.set(op.aligned_pointer, f.code.op(ir.I64, f"ptrtoint {base} to i64"))


@lowers("memref.assume_alignment")
def _assume_alignment(f: Function, op: Operation) -> None:
    """The assumption is not used."""
    for result in op.results:
        f.set_memref(result, f.memref(op.operands[0]))


@lowers("memref.dim")
def _dim(f: Function, op: Operation) -> None:
    assert isinstance(op, memref.DimOp)
    if not isinstance(op.source.type, MemRefType):
        raise f.refuse(op, "of a memref without rank is not compiled")
    place = f.value(op.index)
    sizes = f.memref(op.source).sizes
    if place.number is not None and 0 <= place.number < len(sizes):
        f.set(op.result, sizes[place.number])
        return
    found = Value(ir.I64, "poison")
    for i, size in enumerate(sizes):
        found = f.code.select(f.code.compare("eq", place, ir.index(i)), size, found)
    f.set(op.result, found)


@lowers("memref.rank")
def _rank(f: Function, op: Operation) -> None:
    (source,), (result,) = op.operands, op.results
    if isinstance(source.type, UnrankedMemRefType):
        f.set(result, f.parts(source)[0])
    else:
        f.set(result, ir.index(len(f.memref(source).sizes)))


@lowers("memref.copy")
def _copy(f: Function, op: Operation) -> None:
    """Each thread copies all elements, in order."""
    assert isinstance(op, memref.CopyOp)
    source, target = f.memref(op.source), f.memref(op.destination)
    ty = memory_type(f, op, op.source)
    align = layout.element_bytes(f.layout(op.source).element)
    element = f.layout(op.source).element

    def copy(places: list[Value]) -> None:
        addresses = []
        for side in (source, target):
            linear = side.offset
            for place, stride in zip(places, side.strides, strict=True):
                linear = f.code.add(linear, f.code.mul(place, stride))
            addresses.append(f.address(side.pointer, element, linear))
        store_element(f, load_element(f, ty, addresses[0], align), addresses[1], align)

    _nest(f, source.sizes, [], copy)


def _nest(
    f: Function, sizes: Sequence[Value], places: list[Value], body: Callable[[list[Value]], None]
) -> None:
    """Emit loops over all positions of an array, outermost dimension first."""
    if not sizes:
        body(places)
        return
    head, inside, end = (f.code.new_block(name) for name in ("copy", "each", "copied"))
    place = f.code.phi(head, ir.I64)
    f.code.branch(head, [ir.index(0)])
    f.code.start(head)
    f.code.branch_if(f.code.compare("slt", place, sizes[0]), inside, end)
    f.code.start(inside)
    _nest(f, sizes[1:], [*places, place], body)
    f.code.branch(head, [f.code.add(place, ir.index(1))])
    f.code.start(end)
