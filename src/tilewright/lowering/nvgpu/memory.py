"""Loads and stores of global memory, and fences.

A thread may read what another one has written only behind a barrier, so there is one wherever an access might touch
what other threads have accessed since the last barrier. Tokens can only order more than that within a thread, which
executes in program order anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith as A
from xdsl.dialects import builtin as b
from xdsl.dialects import vector
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright.dialects.declare import enum_property
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.base import is_set
from tilewright.dialects.nv_tileaa.ops.access import Access
from tilewright.dialects.nv_tileaa.ops.memory import Load, Store
from tilewright.dialects.syntax.engine import values_of
from tilewright.dialects.upstream.arith import vectors as V
from tilewright.dialects.upstream.llvm import atomics as llvm_atomics
from tilewright.dialects.upstream.llvm import ops as L
from tilewright.dialects.upstream.llvm.syntax import ORDERINGS
from tilewright.lowering.nvgpu.address_ranges import (
    AddressRange,
    Order,
    address_range_of,
    padding_name,
)
from tilewright.lowering.nvgpu.contiguous import contiguous_access, memory_order, turned
from tilewright.lowering.nvgpu.elementwise import bits_constant
from tilewright.lowering.nvgpu.shared_conversion import SharedConversion
from tilewright.lowering.nvgpu.state import ThreadLowering
from tilewright.lowering.nvgpu.table import lowers
from tilewright.lowering.nvgpu.types import (
    GLOBAL_POINTER,
    I1,
    I8,
    I32,
    I64,
    element_bytes,
    element_type,
    scalar_of,
    vector_like,
)
from tilewright.numerics.element_types import FORMATS
from tilewright.numerics.floats import padding_bits

_SCOPES = {"tl_blk": "block", "cluster": "cluster", "gpu": "device", "sys": ""}
_TF32_MASK = -(1 << 13)


def pointers(low: ThreadLowering, addresses: SSAValue) -> SSAValue:
    """Cast addresses to pointers to global memory."""
    return low.one(L.IntToPtrOp, (addresses,), vector_like(addresses.type, GLOBAL_POINTER))


def in_memory(element: Attribute) -> Attribute:
    """The type of elements in memory: i1 takes a byte."""
    return I8 if element == I1 else element


def from_memory(low: ThreadLowering, value: SSAValue, name: str) -> SSAValue:
    """Convert loaded values to elements of type ``name``: i1 from a byte, tf32 with its low bits cleared."""
    if name == "i1":
        return low.compare("ne", value, low.constant(0, value.type))
    if name == "tf32":
        bits = low.one(A.BitcastOp, (value,), vector_like(value.type, I32))
        kept = low.binary(A.AndIOp, bits, _TF32_MASK)
        return low.one(A.BitcastOp, (kept,), value.type)
    return value


def to_memory(low: ThreadLowering, value: SSAValue) -> SSAValue:
    """Convert elements to their type in memory."""
    if scalar_of(value.type) == I1:
        return low.one(V.ExtUIOp, (value,), vector_like(value.type, I8))
    return value


def alignment(element: Attribute, width: b.IntegerType) -> dict[str, Attribute]:
    """The property for an access aligned to its element, in bytes."""
    return {"alignment": b.IntegerAttr(element_bytes(element), width)}


def ordering(op: Access) -> dict[str, Attribute]:
    """The ordering and scope properties of an atomic access; none for a weak one."""
    if op.semantic == "weak":
        return {}
    word = {"relaxed": "monotonic"}.get(op.semantic, op.semantic)
    scope = _SCOPES[enum_property(op, "mem_scope") or "gpu"]
    found: dict[str, Attribute] = {"ordering": b.IntegerAttr(ORDERINGS[word], I64)}
    if scope:
        found["syncscope"] = b.StringAttr(scope)
    return found


def spread(low: ThreadLowering, value: SSAValue, size: int) -> SSAValue:
    """Broadcast a tile, whose elements only owners have, to all copies, through shared memory."""
    if size >= low.threads:
        return value
    shared_conversion = SharedConversion(low)
    buffer = shared_conversion.buffer(scalar_of(value.type), size)
    shared_conversion.put(buffer, value)
    shared_conversion.meet()
    return shared_conversion.take(buffer, low.ids(size))


def tile_of(low: ThreadLowering, value: SSAValue) -> SSAValue:
    """A scalar as a vector of one element; a vector is returned as is."""
    return value if isinstance(value.type, b.VectorType) else low.splat(value, 1)


def element_name(value: SSAValue) -> str:
    """The name of the element type in memory, where an index is an i64."""
    element = T.element_of(value.type)
    return "i64" if isinstance(element, b.IndexType) else T.element_name(element)


@lowers("load", "tiled_load", "gather_load")
def load(low: ThreadLowering, op: Load) -> None:
    """Loads the thread's elements, masked and padded. Volatile and ordered loads go element by element.

    A barrier stands before if threads of the block may have written since the last one.
    """
    result = op.moved
    low.before_read()
    for token in op.results[1:]:
        low.bind(token, None)
    if is_set(op, "volatile") or ordering(op):
        low.bind(result, _load_each(low, op, address_range_of(low, op)))
        return
    element = element_type(T.element_of(result.type))
    assert element is not None
    held = in_memory(element)
    order = memory_order(low, op)
    straight = contiguous_access(low, op, order)
    if straight is None:
        low.bind(result, _load_places(low, op, held, None))
        return
    (loaded,) = low.either(
        straight.condition,
        lambda: [from_memory(low, straight.load(held), element_name(result))],
        lambda: [_load_places(low, op, held, order)],
    )
    if order is not None:
        loaded = turned(low, loaded, T.dims_of(result.type), order, back=True)
    low.bind(result, loaded)


def _load_places(low: ThreadLowering, op: Load, held: Attribute, order: Order | None) -> SSAValue:
    """Load each element from its own address."""
    result, place = op.moved, address_range_of(low, op, order)
    dims = T.dims_of(result.type)
    addresses = tile_of(low, place.addresses)
    ty = vector_like(addresses.type, held)
    count = low.layout(dims).registers
    mask = place.mask
    if mask is None:
        mask = low.constant(1, b.VectorType(I1, [count]))
    found = low.one(
        L.MaskedGatherOp,
        (pointers(low, addresses), tile_of(low, mask), low.constant(0, ty)),
        ty,
        alignment(held, I32),
    )
    loaded = from_memory(low, found, element_name(result))
    loaded = _with_background(low, op, place, loaded)
    return loaded if dims else low.first(loaded)


def _with_background(
    low: ThreadLowering, op: Load, place: AddressRange, loaded: SSAValue
) -> SSAValue:
    """The loaded elements, with ``other`` where masked off and padding where out of bounds."""
    result = op.moved
    (base,) = values_of(op, "base")
    name = element_name(result)
    others = values_of(op, "other")
    masks = values_of(op, "mask")
    if masks and others:
        other = low.operand(others[0], loaded.type)
        mask = tile_of(low, low.value(masks[0]))
        loaded = low.select(mask, loaded, other)
    if place.inside is None or (name[0] == "i" and padding_name(op, base, low) == "zero"):
        return loaded
    bits = padding_bits(padding_name(op, base, low), FORMATS[name])
    if bits == 0 and name != "f8E8M0FNU":
        return loaded
    padding = bits_constant(low, bits, name, loaded.type)
    if masks:
        mask = tile_of(low, low.value(masks[0]))
        return low.select(mask, low.select(place.inside, loaded, padding), loaded)
    return low.select(place.inside, loaded, padding)


def _load_each(low: ThreadLowering, op: Load, place: AddressRange) -> SSAValue:
    """Load each element by its owner and broadcast it: copies could see different values if others write meanwhile."""
    result = op.moved
    element = element_type(T.element_of(result.type))
    assert element is not None
    held = in_memory(element)
    properties = {**ordering(op), **alignment(held, I64)}
    if is_set(op, "volatile"):
        properties["volatile_"] = b.UnitAttr()

    def one(address: SSAValue, values: Sequence[SSAValue]) -> SSAValue:
        return low.one(L.LoadOp, (pointers(low, address),), held, properties)

    raw = each_element(low, result, place, (), held, one)
    assert raw is not None
    low.barrier()
    loaded = from_memory(low, raw, element_name(result))
    loaded = _with_background(low, op, place, loaded)
    return loaded if T.dims_of(result.type) else low.first(loaded)


def each_element(
    low: ThreadLowering,
    moved: SSAValue,
    place: AddressRange,
    values: Sequence[SSAValue],
    result: Attribute | None,
    make: Callable[[SSAValue, Sequence[SSAValue]], SSAValue | None],
    unchanged: SSAValue | None = None,
) -> SSAValue | None:
    """Build ``make`` on the address and values of each element, executed by its owner.

    With a ``result`` type the results are broadcast to all copies; where masked off the result is that of
    ``unchanged``, else zero.
    """
    layout = low.layout(T.dims_of(moved.type))
    addresses = tile_of(low, place.addresses)
    tiles = [tile_of(low, value) for value in values]
    rest = None if unchanged is None else tile_of(low, unchanged)
    mask = None if place.mask is None else tile_of(low, place.mask)
    owner = low.owned(layout.size)
    total = None
    if result is not None:
        total = rest or low.constant(0, b.VectorType(result, [layout.registers]))

    def element(of: SSAValue, at: int) -> SSAValue:
        taken = vector.ExtractOp(of, [at], scalar_of(of.type))
        return low.add(taken).results[0]

    for at in range(layout.registers):

        def work(at: int = at) -> Sequence[SSAValue]:
            made = make(element(addresses, at), [element(tile, at) for tile in tiles])
            return [] if made is None or result is None else [made]

        condition = low.both(None if mask is None else element(mask, at), owner)
        otherwise = [] if total is None else [element(total, at)]
        made = low.either(condition, work, lambda kept=otherwise: kept)
        if total is not None:
            insert = vector.InsertOp(made[0], total, [at])
            total = low.add(insert).results[0]
    return None if total is None else spread(low, total, layout.size)


@lowers("store", "tiled_store", "scatter_store")
def store(low: ThreadLowering, op: Store) -> None:
    """Stores the thread's elements, each by its owner. Volatile and ordered stores go element by element.

    A barrier stands before if threads of the block may have read or written since the last one.
    """
    low.before_write()
    for token in op.results:
        low.bind(token, None)
    value = to_memory(low, low.value(op.moved))
    held = scalar_of(value.type)
    if is_set(op, "volatile") or ordering(op):
        properties = {**ordering(op), **alignment(held, I64)}
        if is_set(op, "volatile"):
            properties["volatile_"] = b.UnitAttr()

        def one(address: SSAValue, values: Sequence[SSAValue]) -> None:
            low.emit(L.StoreOp, (values[0], pointers(low, address)), (), properties)

        if op.semantic == "release":
            low.barrier()
        each_element(low, op.moved, address_range_of(low, op), (value,), None, one)
        low.sync.writes = True
        return
    order = memory_order(low, op)
    straight = contiguous_access(low, op, order)
    if straight is None:
        _store_places(low, op, value, None)
        return
    if order is not None:
        value = turned(low, value, T.dims_of(op.moved.type), order, back=False)

    def whole() -> Sequence[SSAValue]:
        straight.store(value)
        return []

    def each() -> Sequence[SSAValue]:
        _store_places(low, op, value, order)
        return []

    low.either(straight.condition, whole, each)


def _store_places(low: ThreadLowering, op: Store, value: SSAValue, order: Order | None) -> None:
    """Store each element to its own address."""
    place, held = address_range_of(low, op, order), scalar_of(value.type)
    dims = T.dims_of(op.moved.type)
    addresses = tile_of(low, place.addresses)
    tile = tile_of(low, value)
    count = low.layout(dims).registers
    mask = low.both(
        None if place.mask is None else tile_of(low, place.mask),
        low.owned(low.layout(dims).size),
    )
    if mask is None:
        mask = low.constant(1, b.VectorType(I1, [count]))
    low.emit(
        L.MaskedScatterOp,
        (tile, pointers(low, addresses), tile_of(low, mask)),
        (),
        alignment(held, I32),
    )


@lowers("ext.fence")
def fence(low: ThreadLowering, op: Operation) -> None:
    """A barrier, and a fence at device scope, which acquires and releases."""
    low.barrier()
    low.emit(
        llvm_atomics.FenceOp,
        (),
        (),
        {
            "ordering": b.IntegerAttr(ORDERINGS["acq_rel"], I64),
            "syncscope": b.StringAttr("device"),
        },
    )
    low.bind(op.results[0], None)
