"""Bounds checks in checked code: an access that fails one stops the run.

All elements of an access are checked before the first of them is touched. A pass over the tile finds its lowest and highest
address, which lie in one array in the common case. If not, each element is checked by itself: a tile of pointers
may go to several arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

from llvmlite import ir
from xdsl.ir import Operation

from tilewright.analysis.tileaa.geometry import cut_by
from tilewright.cpu.abi import AssertSite
from tilewright.cpu.codegen.emitter.function import FunctionEmitter, vector_axis
from tilewright.cpu.codegen.host.callbacks import call_host
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I64, pointee_of
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.indices import Coords, Index, Lane, fixed, lanes_in
from tilewright.cpu.codegen.loops.lane_strides import lane_strides_of
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.over_shapes import loops
from tilewright.cpu.codegen.loops.tiles import Tile
from tilewright.cpu.codegen.loops.value_ranges import reach
from tilewright.cpu.codegen.memory.range_search import holds, names_of
from tilewright.cpu.codegen.memory.views import (
    Memref,
    TilePosition,
    View,
    address_of,
    as_value,
    element_offset,
    inside_mask,
)
from tilewright.diagnostics import define_code
from tilewright.launching.assertions import OperationSource

OUTSIDE = define_code(
    "cpu-outside-memory",
    "An access of compiled code is outside the memory of its view or of the array of its pointer.",
    "Reported by code compiled with checks, at the first such access of a tile block. The run "
    "ends there and keeps what blocks before have written. Masked-off elements do not count.",
    help="mask the elements outside the array; `tilewright sanitize` reports the address and the "
    "array",
)

Addresses = Callable[[LoopNest, Coords], tuple[Lane, "Lane | None"]]
"""The addresses of the elements at a position as i64, and which of them are accessed (None: all)."""

_LAST_ADDRESS = (1 << 64) - 1
#: How many pointers in a row are looked at by formula.
_LONGEST_RUN = 1 << 16
#: Of shorter rows looking at both ends of each saves nothing.
_SHORTEST_ROW = 16


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


def _groups(op: Operation, axes: int) -> tuple[int, ...]:
    """Along each axis, how many tiles of the view of an access count as one: outside of the memref a tile may lie if the first
    of its group does not."""
    cutter = cut_by(op.operands[0])
    cut = None if cutter is None else cutter.cut
    return (1,) * axes if cut is None or not cut.groups else cut.groups


def check_indices(
    f: FunctionEmitter,
    op: Operation,
    view: View,
    indices: Sequence[Value | Tile],
    in_bounds: Sequence[bool],
) -> list[Value]:
    """The tile has a part in the memref, or another tile of its group begins there; all of it along axes that promise so.
    Gives the furthest coordinate of an element in the memref along each axis.

    Along an axis with a tile of indices those outside of the memref do not count, unless it promises
    that there are none.
    """
    b, furthest = f.builder, list[Value]()
    groups = _groups(op, len(view.dims))
    for position, (axis, step, extent) in enumerate(
        zip(view.axes, view.steps, view.dims, strict=True)
    ):
        size, index = as_value(view.memref.sizes[axis]), indices[position]
        promises = position < len(in_bounds) and in_bounds[position]
        promise = f"'{op.name}' is marked in bounds along axis {position}, but is not"
        if isinstance(index, Tile):
            highest, all_inside = _highest_index(f, index, size)
            if promises:
                require(f, op, all_inside, promise)
            furthest.append(highest)
            continue
        exact, whole = Exact(b), ir.Constant(I64, extent)
        origin = exact.times(index, as_value(step))
        exact.plus(origin, whole)
        first, group = origin, groups[position]
        if group > 1:
            within = b.urem(index, ir.Constant(index.type, group))
            first = b.mul(b.sub(index, within), as_value(step))
        inside = b.and_(exact.fine, b.icmp_unsigned("<", first, size))
        outside = f"'{op.name}' accesses a tile outside of its view along axis {position}"
        require(f, op, inside, outside)
        left = b.sub(size, origin)
        if group > 1:
            left = llvm.intrinsic(b, "usub.sat", [size, origin])
        if promises:
            require(f, op, b.icmp_unsigned(">=", left, whole), promise)
        count = llvm.intrinsic(b, "umin", [left, whole])
        last = b.sub(b.add(origin, count), ir.Constant(I64, 1))
        if group > 1:
            last = llvm.intrinsic(b, "umin", [last, b.sub(size, ir.Constant(I64, 1))])
        furthest.append(last)
    return furthest


def _highest_index(f: FunctionEmitter, indices: Tile, size: Value) -> tuple[Value, Value]:
    """The highest of the indices below a size, 0 without one; and whether all are."""
    b, zero = f.builder, ir.Constant(I64, 0)
    highest, fine = f.variable(zero), f.variable(ir.Constant(I1, 1))

    def body(nest: LoopNest, coords: Coords) -> None:
        inner, index = nest.inner, nest.eval(indices, coords).value
        inside = inner.icmp_unsigned("<", index, size)
        counted = inner.select(inside, index, zero)
        found = llvm.intrinsic(inner, "umax", [inner.load(highest, typ=I64), counted])
        inner.store(found, highest)
        inner.store(inner.and_(inner.load(fine, typ=I1), inside), fine)

    f.nest(indices.dims, [indices], body, lanes=1)
    return b.load(highest, typ=I64), b.load(fine, typ=I1)


class Exact:
    """Arithmetic on numbers that are not negative, which tells in ``fine`` whether all results so far
    are below 2**63; results are of no use where they are not."""

    def __init__(self, b: Builder) -> None:
        self._b = b
        self.fine: Value = ir.Constant(I1, 1)

    def times(self, x: Value, y: Value) -> Value:
        """The product; ``fine`` is false from then on if that is 2**63 or more."""
        return self._checked(self._b.umul_with_overflow(x, y))

    def plus(self, x: Value, y: Value) -> Value:
        """The sum; ``fine`` is false from then on if that is 2**63 or more."""
        return self._checked(self._b.uadd_with_overflow(x, y))

    def _checked(self, pair: Value) -> Value:
        b = self._b
        found, wraps = (b.extract_value(pair, part) for part in (0, 1))
        fits = b.and_(b.not_(wraps), b.icmp_signed(">=", found, ir.Constant(I64, 0)))
        self.fine = b.and_(self.fine, fits)
        return found


def check_reach(
    f: FunctionEmitter,
    op: Operation,
    memref: Memref,
    axes: Sequence[int],
    furthest: Sequence[Value],
) -> Value:
    """The furthest element of an access, given its coordinate along each axis, has a number below 2**63
    in the memref: no number wraps on the way there. Gives that number."""
    b = f.builder
    exact, last = Exact(b), ir.Constant(I64, 0)
    for axis, coordinate in zip(axes, furthest, strict=True):
        # That of an index may be too large, and hide behind a stride of 0.
        exact.plus(coordinate, ir.Constant(I64, 0))
        last = exact.plus(last, exact.times(coordinate, as_value(memref.strides[axis])))
    require(f, op, exact.fine, _message(f, op))
    return last


def check_address(f: FunctionEmitter, op: Operation, memref: Memref, last: Value) -> Value:
    """The address of the element with the number ``last``, and a check that it does not wrap."""
    b = f.builder
    exact = Exact(b)
    if memref.element.is_packed:
        reach = b.lshr(last, ir.Constant(I64, 1))
    else:
        reach = exact.times(last, ir.Constant(I64, memref.element.memory_bytes))
    end = b.uadd_with_overflow(b.ptrtoint(memref.pointer, I64), reach)
    fine = b.and_(exact.fine, b.not_(b.extract_value(end, 1)))
    require(f, op, fine, _message(f, op))
    return b.extract_value(end, 0)


# -- memory that is there ------------------------------------------------------------------------


def check_pointers(f: FunctionEmitter, op: Operation, pointers: Tile, mask: Tile | None) -> None:
    """Every element behind a tile of pointers lies in memory of the launch."""
    size = pointee_of(op.operands[0].type).memory_bytes

    def addresses(nest: LoopNest, coords: Coords) -> tuple[Lane, Lane | None]:
        return nest.eval(pointers, coords), None if mask is None else nest.eval(mask, coords)

    tiles = [pointers] if mask is None else [pointers, mask]
    f.flush()
    whole = _whole_run(f, op, pointers, size)
    if whole is None:
        whole = _whole_reach(f, op, pointers, mask, size)
    if whole is None:
        whole = _whole_rows(f, op, pointers, size)
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
    lane_steps = lane_strides_of(pointers, tuple(lanes))
    if lane_steps is None or lane_steps.limited:
        return None
    step = lane_steps.lanes[1]
    if step < 0 or not lane_steps.is_run(step):
        return None
    b, ends = f.builder, list[Value]()
    nest = LoopNest(b, masked=True)
    for position in (0, extent - 1):
        at = [fixed(0)] * len(pointers.dims)
        at[long[0]] = fixed(position)
        ends.append(nest.eval(pointers, tuple(at)).value)
    # Numbers that wrap on the way show in the last one.
    straight = b.icmp_unsigned("==", b.sub(ends[1], ends[0]), ir.Constant(I64, step * (extent - 1)))
    return b.and_(straight, _is_known(f, b, op, ends[0], ends[1], size))


def _whole_rows(f: FunctionEmitter, op: Operation, pointers: Tile, size: int) -> Value | None:
    """Whether one array has all between the ends of the rows, masked or not, where their elements rise along them by a formula, as
    in rows of a table that numbers from memory choose; None where no formula tells."""
    axis = vector_axis(pointers.dims)
    extent = pointers.dims[axis] if pointers.dims else 1
    if not _SHORTEST_ROW <= extent <= _LONGEST_RUN:
        return None
    at = [Index(0, None, 1 << 62)] * len(pointers.dims)
    at[axis] = Index(0, tuple(range(extent)), extent & -extent)
    found = lane_strides_of(pointers, tuple(at))
    if (
        found is None
        or not found.exact
        or found.limited
        or list(found.lanes) != sorted(found.lanes)
    ):
        return None
    b, further = f.builder, ir.Constant(I64, found.lanes[-1])
    low, high = (f.variable(ir.Constant(I64, start)) for start in (_LAST_ADDRESS, 0))
    rows = tuple(1 if n == axis else extent for n, extent in enumerate(pointers.dims))

    def body(nest: LoopNest, coords: Coords) -> None:
        inner, first = nest.inner, nest.eval(pointers, coords).value
        ends = ((low, "umin", first), (high, "umax", inner.add(first, further)))
        for cell, name, place in ends:
            best = llvm.intrinsic(inner, name, [inner.load(cell, typ=I64), place])
            inner.store(best, cell)

    nest = LoopNest(b, masked=True)
    loops(nest, rows, axis, 1, 1, body)
    nest.close_all()
    return _is_known(f, b, op, b.load(low, typ=I64), b.load(high, typ=I64), size)


def _whole_reach(
    f: FunctionEmitter, op: Operation, pointers: Tile, mask: Tile | None, size: int
) -> Value | None:
    """Whether one array has all between the lowest and the highest element that are accessed; None where formulas do not tell
    them."""
    b = f.builder
    found = reach(b, pointers, mask)
    if found is None:
        return None
    known = _is_known(f, b, op, found.first, found.last, size)
    return b.and_(found.fits, b.or_(found.none, known))


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
    b, fine = f.builder, f.variable(ir.Constant(I1, 1))
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
    low, high = (f.variable(llvm.number(ty, start)) for start in (_LAST_ADDRESS, 0))

    def body(nest: LoopNest, coords: Coords) -> None:
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


def check_position(
    f: FunctionEmitter, op: Operation, place: TilePosition, last: Value, mask: Tile | None
) -> None:
    """The elements of a tile of a view that are accessed lie in memory of the launch; ``last`` is the
    address of the furthest (``check_address``)."""
    b, packed = f.builder, place.element.is_packed
    size = 1 if packed else place.element.memory_bytes
    # Up to here nothing wraps: strides and coordinates are not negative, and the last is an address.
    first = b.ptrtoint(place.pointer, I64)
    if packed:
        half = b.lshr(place.first, ir.Constant(I64, 1))
        first = b.add(b.ptrtoint(place.base, I64), half)
    together = _is_known(f, b, op, first, last, size)
    if place.element.is_packed:
        require(f, op, together, _message(f, op))
        return

    def addresses(nest: LoopNest, coords: Coords) -> tuple[Lane, Lane | None]:
        where = address_of(nest, place, element_offset(nest, place, coords)[0])
        on = inside_mask(nest, place, coords)
        if mask is not None:
            chosen = nest.eval(mask, coords if mask.dims else ())
            on = chosen if on is None else nest.emit([on, chosen], lambda b, x, y: b.and_(x, y))
        return nest.emit([where], lambda b, p: b.ptrtoint(p, I64)), on

    f.flush()
    fine = f.variable(ir.Constant(I1, 1))
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

    def body(nest: LoopNest, coords: Coords) -> None:
        where, on = addresses(nest, coords)
        inner = nest.inner
        good = _is_known(f, inner, op, where.value, where.value, size)
        if on is not None:
            good = inner.or_(good, inner.not_(on.value))
        inner.store(inner.and_(inner.load(fine, typ=I1), good), fine)

    with b.if_then(b.not_(together), likely=False):
        nest = LoopNest(b, masked=True)
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
    return holds(f, b, op.operands[0], first, last, size)
