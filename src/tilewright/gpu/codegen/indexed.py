"""`vector.gather` and `vector.scatter`: one predicated access per element."""

from __future__ import annotations

import re
from collections.abc import Callable

from xdsl.ir import Operation, SSAValue

from tilewright.dialects.upstream.vector.indexed import GatherOp, ScatterOp
from tilewright.gpu.codegen import ir, layout
from tilewright.gpu.codegen.function import Function, lowers
from tilewright.gpu.codegen.ir import Value
from tilewright.gpu.codegen.memref import load_element, memory_type, store_element
from tilewright.gpu.codegen.vector import elements, set_elements

_ALL_TRUE = re.compile(r"<i1 (1|true)(, i1 (1|true))*>|splat \(i1 (1|true)\)")


def always(f: Function, mask: SSAValue) -> bool:
    """Whether a mask is known to be all true."""
    return all(_ALL_TRUE.fullmatch(part.ref) for part in f.parts(mask))


def guarded(
    f: Function, condition: Value | None, make: Callable[[], Value | None], other: Value | None
) -> Value | None:
    """Emit ``make`` under a condition; the result is ``other`` where it is false, None if that is None."""
    if condition is None:
        return make()
    there, after = f.code.new_block("there"), f.code.new_block("after")
    if other is None:
        f.code.branch_if(condition, there, after)
        f.code.start(there)
        make()
        f.code.branch(after)
        f.code.start(after)
        return None
    merged = f.code.phi(after, other.type)
    f.code.branch_if(condition, there, after, (), (other,))
    f.code.start(there)
    made = make()
    assert made is not None
    f.code.branch(after, (made,))
    f.code.start(after)
    return merged


def _addresses(f: Function, op: GatherOp | ScatterOp) -> list[Callable[[], Value]]:
    """Functions that emit the address of each element."""
    memref, unit = f.memref(op.base), layout.element_bytes(f.layout(op.base).element)
    start = f.linear_index(memref, op.indices)
    stride = memref.strides[-1]

    def address(number: Value) -> Value:
        along = f.code.mul(f.code.resize(number, ir.I64, signed=True), stride)
        base = f.code.offset(memref.pointer, f"i{8 * unit}", start)
        return f.code.offset(base, f"i{8 * unit}", along)

    return [lambda n=n: address(n) for n in elements(f, op.index_vec)]


def _conditions(f: Function, mask: SSAValue, count: int) -> list[Value | None]:
    return [None] * count if always(f, mask) else list(elements(f, mask))


@lowers("vector.gather")
def _gather(f: Function, op: Operation) -> None:
    assert isinstance(op, GatherOp)
    ty = memory_type(f, op, op.base)
    align = layout.element_bytes(f.layout(op.base).element)
    addresses = _addresses(f, op)
    conditions = _conditions(f, op.mask, len(addresses))
    found: list[Value] = []
    for where, condition, other in zip(
        addresses, conditions, elements(f, op.pass_thru), strict=True
    ):
        value = guarded(
            f, condition, lambda where=where: load_element(f, ty, where(), align), other
        )
        assert value is not None
        found.append(value)
    set_elements(f, op.result, found)


@lowers("vector.scatter")
def _scatter(f: Function, op: Operation) -> None:
    assert isinstance(op, ScatterOp)
    memory_type(f, op, op.base)
    align = layout.element_bytes(f.layout(op.base).element)
    addresses = _addresses(f, op)
    conditions = _conditions(f, op.mask, len(addresses))
    for where, condition, value in zip(
        addresses, conditions, elements(f, op.valueToStore), strict=True
    ):

        def write(value: Value = value, where: Callable[[], Value] = where) -> None:
            store_element(f, value, where(), align)

        guarded(f, condition, write, None)
