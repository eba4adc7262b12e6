"""Checks of accesses in checked code: an access that fails one stops the run.

All elements of an access are looked at before the first of them is touched. A pass over the tile finds
its lowest and highest address, which lie in one array if all is well. Where they do not, each element
is looked at by itself: a tile of pointers may go to several arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

from llvmlite import ir
from xdsl.ir import Operation

from tilewright.cpu.abi import AssertSite
from tilewright.cpu.codegen import llvm
from tilewright.cpu.codegen.elements import I1, I64, pointee_of
from tilewright.cpu.codegen.function import FunctionEmitter, loops, vector_axis
from tilewright.cpu.codegen.hosts import call_host
from tilewright.cpu.codegen.indices import Coords, Index, Lane, fixed, lanes_in
from tilewright.cpu.codegen.irtypes import Builder, Value
from tilewright.cpu.codegen.known_memory import names_of
from tilewright.cpu.codegen.nests import Nest
from tilewright.cpu.codegen.slopes import lane_deltas
from tilewright.cpu.codegen.tiles import Tile
from tilewright.cpu.codegen.views import (
    Place,
    View,
    address_of,
    as_value,
    element_offset,
    inside_mask,
    scaled,
)
from tilewright.diagnostics import define_code
from tilewright.launching.assertions import OperationSource

OUTSIDE = define_code(
    "cpu-outside-memory",
    "An access of compiled code leaves the memory of its view, or the array that its pointer comes from.",
    "Reported by code that was compiled with checks, at the first such access of a tile block. The "
    "run ends there; what was written before stays. Elements that a mask turns off do not count.",
)

Addresses = Callable[[Nest, Coords], tuple[Lane, "Lane | None"]]
"""The addresses of the elements at a position as i64, and which of them are accessed (None: all)."""

_LAST_ADDRESS = (1 << 64) - 1
#: How many pointers in a row are looked at by formula.
_LONGEST_RUN = 1 << 16


def require(f: FunctionEmitter, op: Operation, condition: Value, message: str) -> None:
    """Stop the run with a message at the place of an operation unless a condition holds.

    The host gets it as a failed check, and the call ends with this block.
    """
    b = f.builder
    site = len(f.unit.sites)
    f.unit.sites.append(AssertSite(message, (), OperationSource.of(op), OUTSIDE))
    broken, fine = b.append_basic_block("broken"), b.append_basic_block("fine")
    b.cbranch(condition, fine, broken)
    b.position_at_end(broken)
    payload = f.pointer_to(f.scratch(8))
    b.store(ir.Constant(I64, 0), payload)
    call_host(f, site, payload, ir.Constant(I64, 1))
    f.leave()
    b.position_at_end(fine)


def check_indices(
    f: FunctionEmitter,
    op: Operation,
    view: View,
    indices: Sequence[Value],
    in_bounds: Sequence[bool],
) -> None:
    """The tile has a part in the memref; all of it along axes that promise so."""
    b = f.builder
    for position, (axis, step, extent) in enumerate(
        zip(view.axes, view.steps, view.dims, strict=True)
    ):
        size = as_value(view.memref.sizes[axis])
        origin = scaled(b, indices[position], step)
        inside = b.icmp_unsigned("<", origin, size)
        require(
            f,
            op,
            inside,
            f"'{op.name}' goes to a tile outside of the memory of its view along axis {position}",
        )
        if position < len(in_bounds) and in_bounds[position]:
            left = b.sub(size, origin)
            whole = b.icmp_unsigned(">=", left, ir.Constant(I64, extent))
            promise = f"'{op.name}' promises to stay inside along axis {position}, and does not"
            require(f, op, whole, promise)


# -- memory that is there ------------------------------------------------------------------------


def check_pointers(f: FunctionEmitter, op: Operation, pointers: Tile, mask: Tile | None) -> None:
    """Every element behind a tile of pointers lies in memory of the launch."""
    size = pointee_of(op.operands[0].type).memory_bytes

    def addresses(nest: Nest, coords: Coords) -> tuple[Lane, Lane | None]:
        return nest.eval(pointers, coords), None if mask is None else nest.eval(mask, coords)

    tiles = [pointers] if mask is None else [pointers, mask]
    f.flush()
    whole = _whole_run(f, op, pointers, size)
    check_addresses(f, op, pointers.dims, tiles, size, addresses, whole)


def _whole_run(f: FunctionEmitter, op: Operation, pointers: Tile, size: int) -> Value | None:
    """Whether the pointers, masked or not, follow one another through one array; None where nothing
    is known of them."""
    long = [axis for axis, extent in enumerate(pointers.dims) if extent > 1]
    if len(long) != 1 or pointers.dims[long[0]] > _LONGEST_RUN:
        return None
    extent = pointers.dims[long[0]]
    lanes = [Index(0, None, 1 << 62)] * len(pointers.dims)
    lanes[long[0]] = Index(0, tuple(range(extent)), 1)
    deltas = lane_deltas(pointers, tuple(lanes))
    if deltas is None:
        return None
    step = deltas.lanes[1]
    if step < 0 or not deltas.is_run(step):
        return None
    b, ends = f.builder, list[Value]()
    nest = Nest(b, masked=True)
    for position in (0, extent - 1):
        at = [fixed(0)] * len(pointers.dims)
        at[long[0]] = fixed(position)
        ends.append(nest.eval(pointers, tuple(at)).value)
    # Numbers that wrap on the way show in the last one.
    straight = b.icmp_unsigned("==", b.sub(ends[1], ends[0]), ir.Constant(I64, step * (extent - 1)))
    return b.and_(straight, _is_known(f, b, op, ends[0], ends[1], size))


def check_addresses(
    f: FunctionEmitter,
    op: Operation,
    dims: Sequence[int],
    tiles: Sequence[Tile],
    size: int,
    addresses: Addresses,
    sure: Value | None = None,
) -> None:
    """Elements of ``size`` bytes at these addresses, computed from ``tiles``, lie in memory of the
    launch; ``sure``: a condition under which they do."""
    f.flush()
    b, fine = f.builder, _cell(f, ir.Constant(I1, 1))
    with nullcontext() if sure is None else b.if_then(b.not_(sure), likely=False):
        together = _lie_together(f, op, dims, tiles, size, addresses)
        _look_at_each(f, op, dims, size, addresses, together, fine)
    require(f, op, b.load(fine, typ=I1), _message(f, op))


def _lie_together(
    f: FunctionEmitter,
    op: Operation,
    dims: Sequence[int],
    tiles: Sequence[Tile],
    size: int,
    addresses: Addresses,
) -> Value:
    """Whether one array has all elements that are accessed."""
    b = f.builder
    lanes = f.lanes(tiles, dims[vector_axis(dims)]) if dims else 1
    ty = llvm.vector(I64, lanes if lanes > 1 else 0)
    low, high = (_cell(f, llvm.number(ty, start)) for start in (_LAST_ADDRESS, 0))

    def body(nest: Nest, coords: Coords) -> None:
        width = lanes_in(coords)
        where, on = addresses(nest, coords)
        found = nest.widened(where, width).value
        chosen = None if on is None else nest.widened(on, width).value
        for cell, passive, name in ((low, _LAST_ADDRESS, "umin"), (high, 0, "umax")):
            inner, value = nest.inner, found
            if chosen is not None:
                value = inner.select(chosen, found, llvm.number(ty, passive))
            best = llvm.intrinsic(inner, name, [inner.load(cell, typ=ty), value])
            inner.store(best, cell)

    f.nest(dims, tiles, body, lanes=lanes)
    first, last = b.load(low, typ=ty), b.load(high, typ=ty)
    if lanes > 1:
        first = llvm.intrinsic(b, "vector.reduce.umin", [first], I64)
        last = llvm.intrinsic(b, "vector.reduce.umax", [last], I64)
    return b.or_(b.icmp_unsigned(">", first, last), _is_known(f, b, op, first, last, size))


def check_place(f: FunctionEmitter, op: Operation, place: Place, mask: Tile | None) -> None:
    """The elements of a tile of a view that are accessed lie in memory of the launch."""
    b, bits = f.builder, place.element.format.bits if place.element.is_packed else 0
    bits = bits or 8 * place.element.buffer_bytes
    first = last = place.first
    for extent, limit, stride in zip(place.dims, place.limits, place.strides, strict=True):
        count = ir.Constant(I64, extent) if limit is None else limit
        reach = b.mul(b.sub(count, ir.Constant(I64, 1)), as_value(stride))
        zero = ir.Constant(I64, 0)
        first = b.add(first, llvm.intrinsic(b, "smin", [reach, zero]))
        last = b.add(last, llvm.intrinsic(b, "smax", [reach, zero]))
    base = b.ptrtoint(place.base, I64)
    ends = [
        b.add(base, b.ashr(b.mul(at, ir.Constant(I64, bits)), ir.Constant(I64, 3)))
        for at in (first, last)
    ]
    size = -(-bits // 8)
    together = _is_known(f, b, op, ends[0], ends[1], size)
    if place.element.is_packed:
        require(f, op, together, _message(f, op))
        return

    def addresses(nest: Nest, coords: Coords) -> tuple[Lane, Lane | None]:
        where = address_of(nest, place, element_offset(nest, place, coords)[0])
        on = inside_mask(nest, place, coords)
        if mask is not None:
            chosen = nest.eval(mask, coords if mask.dims else ())
            on = chosen if on is None else nest.emit([on, chosen], lambda b, x, y: b.and_(x, y))
        return nest.emit([where], lambda b, p: b.ptrtoint(p, I64)), on

    f.flush()
    fine = _cell(f, ir.Constant(I1, 1))
    _look_at_each(f, op, place.dims, size, addresses, together, fine)
    require(f, op, b.load(fine, typ=I1), _message(f, op))


def _look_at_each(
    f: FunctionEmitter,
    op: Operation,
    dims: Sequence[int],
    size: int,
    addresses: Addresses,
    together: Value,
    fine: Value,
) -> None:
    """Look at each element by itself unless all of them lie together; one outside makes the variable
    ``fine`` false."""
    b = f.builder

    def body(nest: Nest, coords: Coords) -> None:
        where, on = addresses(nest, coords)
        inner = nest.inner
        good = _is_known(f, inner, op, where.value, where.value, size)
        if on is not None:
            good = inner.or_(good, inner.not_(on.value))
        inner.store(inner.and_(inner.load(fine, typ=I1), good), fine)

    with b.if_then(b.not_(together), likely=False):
        nest = Nest(b, masked=True)
        loops(nest, dims, vector_axis(dims), 1, 1, body)
        nest.close_all()


def _message(f: FunctionEmitter, op: Operation) -> str:
    assert f.unit.memory is not None
    roots = f.unit.memory.roots(op.operands[0])
    where = "all arrays of the launch" if roots is None else f"the memory of {names_of(roots)}"
    return f"'{op.name}' accesses memory outside of {where}"


def _is_known(
    f: FunctionEmitter, b: Builder, op: Operation, first: Value, last: Value, size: int
) -> Value:
    """Whether one array that an access may go to has the elements of ``size`` bytes at two addresses
    and all between."""
    assert f.unit.memory is not None
    return f.unit.memory.holds(f, b, op.operands[0], first, last, size)


def _cell(f: FunctionEmitter, value: Value) -> Value:
    """A variable with this value."""
    with f.builder.goto_entry_block():
        cell = llvm.stack(f.builder, value.type)
    f.builder.store(value, cell)
    return cell
