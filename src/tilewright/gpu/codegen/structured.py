"""Loops over index ranges, scoped allocations, and memory that kernels allocate."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, Region

from tilewright.dialects.upstream.memref.transpose import TransposeOp
from tilewright.gpu.codegen import ir, layout
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.ir import Value
from tilewright.gpu.codegen.layout import Memref
from tilewright.gpu.codegen.memref import dense_strides, fresh, private_memory, static_bytes

#: The alignment of memory that `malloc` returns, in bytes.
_HEAP_ALIGNMENT = 16


@lowers("scf.parallel")
def _parallel(f: Function, op: Operation) -> None:
    """Each thread runs all iterations, the last dimension fastest."""
    assert isinstance(op, scf.ParallelOp)
    block = op.body.block
    end = block.last_op
    assert isinstance(end, scf.ReduceOp)

    def body(carried: list[Value]) -> list[Value]:
        for inner in block.ops:
            if inner is not end:
                f.emit(inner)
        return _reduced(f, end, carried)

    bounds = list(zip(op.lowerBound, op.upperBound, op.step, block.args, strict=True))

    def loop(axis: int, carried: list[Value]) -> list[Value]:
        if axis == len(bounds):
            return body(carried)
        low, high, step, variable = bounds[axis]
        head, inside, after = (f.code.new_block(name) for name in ("places", "place", "done"))
        place = f.code.phi(head, ir.I64)
        merged = [f.code.phi(head, value.type) for value in carried]
        f.code.branch(head, [f.value(low), *carried])
        f.code.start(head)
        f.code.branch_if(f.code.compare("slt", place, f.value(high)), inside, after)
        f.code.start(inside)
        f.set(variable, place)
        made = loop(axis + 1, merged)
        following = f.code.op(ir.I64, f"add nsw {place}, {f.value(step).ref}")
        f.code.branch(head, [following, *made])
        f.code.start(after)
        return merged

    f.set_all(op.res, loop(0, f.all_parts(op.initVals)))


def _reduced(f: Function, end: scf.ReduceOp, carried: list[Value]) -> list[Value]:
    """Combine the accumulated values with those of an iteration."""
    left, found = list(carried), []
    for region, value in zip(end.reductions, end.args, strict=True):
        count = len(f.types(value))
        given, left = left[:count], left[count:]
        found += combined(f, region, given, list(f.parts(value)))
    return found


def combined(
    f: Function, region: Region, first: Sequence[Value], second: Sequence[Value]
) -> list[Value]:
    """Emit a region on two sets of values; returns its results."""
    end = f.code.new_block("combined")
    results = [f.code.phi(end, value.type) for value in first]
    f.set_all(region.blocks[0].args, [*first, *second])
    f.exits.append(lambda last: f.code.branch(end, f.all_parts(last.operands)))
    f.emit_region(region)
    f.exits.pop()
    f.code.start(end)
    return results


@lowers("memref.alloca_scope")
def _alloca_scope(f: Function, op: Operation) -> None:
    assert isinstance(op, memref.AllocaScopeOp)
    end = f.code.new_block("endscope")
    f.set_all(op.res, [f.code.phi(end, ty) for value in op.res for ty in f.types(value)])
    f.exits.append(lambda last: f.code.branch(end, f.all_parts(last.operands)))
    f.emit_region(op.scope)
    f.exits.pop()
    f.code.start(end)


@lowers("scf.reduce.return", "memref.alloca_scope.return", "gpu.yield")
def _leave(f: Function, op: Operation) -> None:
    f.exits[-1](op)


@lowers("builtin.unrealized_conversion_cast")
def _cast(f: Function, op: Operation) -> None:
    """The same LLVM values under other MLIR types."""
    if len(op.operands) != 1 or len(op.results) != 1:
        raise f.refuse(op, "is compiled for one value only")
    if f.types(op.operands[0]) != f.types(op.results[0]):
        raise f.refuse(op, "is compiled between types that are the same in LLVM only")
    f.set(op.results[0], *f.parts(op.operands[0]))


@lowers("memref.transpose")
def _transpose(f: Function, op: Operation) -> None:
    assert isinstance(op, TransposeOp)
    source = f.memref(op.source)
    f.set_memref(
        op.result,
        Memref(
            source.pointer,
            source.offset,
            tuple(source.sizes[axis] for axis in op.order),
            tuple(source.strides[axis] for axis in op.order),
        ),
    )


# Memory


@lowers("memref.alloc")
def _alloc(f: Function, op: Operation) -> None:
    """Allocates shared memory for the block, or memory of each thread, local or from the device's heap."""
    assert isinstance(op, memref.AllocOp)
    found = f.layout(op.memref)
    alignment = op.properties.get("alignment")
    align = alignment.value.data if isinstance(alignment, IntegerAttr) else None
    if found.space == ir.SHARED:
        size = static_bytes(f, op.memref)
        base = f.unit.reserve_shared(f.unit.unique("alloc"), size, align)
        f.set_memref(op.memref, fresh(found, base))
    elif found.space == ir.LOCAL:
        f.set_memref(op.memref, private_memory(f, op.memref, align))
    else:
        _from_heap(f, op, found, align or 1)


def _from_heap(f: Function, op: memref.AllocOp, found: layout.MemrefLayout, align: int) -> None:
    if found.space not in (ir.GENERIC, ir.GLOBAL) or op.symbol_operands or found.offset != 0:
        raise f.refuse(op, "is compiled for memory without a layout only")
    if align > _HEAP_ALIGNMENT:
        raise f.refuse(op, f"takes memory that is aligned to {_HEAP_ALIGNMENT} bytes")
    if layout.is_packed(found.element):
        raise f.refuse(op, "takes elements of whole bytes")
    left = iter(op.dynamic_sizes)
    sizes = [f.value(next(left)) if n is None else ir.index(n) for n in found.sizes]
    total = ir.index(layout.element_bytes(found.element))
    for size in sizes:
        total = f.code.mul(total, size)
    place = f.code.cast("addrspacecast", f.code.call("malloc", "ptr", [total]), found.pointer)
    f.set_memref(op.memref, Memref(place, ir.index(0), tuple(sizes), dense_strides(f, sizes)))


@lowers("memref.dealloc")
def _dealloc(f: Function, op: Operation) -> None:
    (given,) = op.operands
    space = f.layout(given).space
    if space in (ir.GENERIC, ir.GLOBAL):
        f.code.call("free", "void", [f.code.cast("addrspacecast", f.memref(given).pointer, "ptr")])
