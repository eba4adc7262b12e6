"""Single atomic updates: one instruction, or a compare-exchange loop."""

from __future__ import annotations

from llvmlite import ir

from tilewright.cpu.codegen.elementwise import EMITTERS
from tilewright.cpu.codegen.ir.elements import Element
from tilewright.cpu.codegen.ir.types import Builder, Type, Value

_NATIVE = {
    "add": "add",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "xchg": "xchg",
    "min": "min",
    "max": "max",
    "umin": "umin",
    "umax": "umax",
}
ON_FAILURE = {
    "monotonic": "monotonic",
    "acquire": "acquire",
    "release": "monotonic",
    "acq_rel": "acquire",
}
"""What a failed exchange is ordered as: it does not release."""


def update_one(
    b: Builder, mode: str, where: Value, data: Value, element: Element, ordering: str
) -> Value:
    """Update the number at a pointer, with a memory ordering of LLVM; what it was before."""
    if mode == "addf":
        return _add_float(b, where, data, element, ordering)
    return b.atomic_rmw(_NATIVE[mode], where, data, ordering)


def bits_type(element: Element) -> Type:
    """The integer as wide as an element."""
    return ir.IntType(element.buffer_bytes * 8)


def _add_float(b: Builder, where: Value, data: Value, element: Element, ordering: str) -> Value:
    """Load, add, and try to put the sum there until nothing came in between."""
    words = bits_type(element)
    first = b.load_atomic(where, "monotonic", element.buffer_bytes, typ=words)
    before = b.block
    again, done = b.append_basic_block("add"), b.append_basic_block("added")
    b.branch(again)
    b.position_at_end(again)
    seen = b.phi(words)
    seen.add_incoming(first, before)
    old = b.bitcast(seen, element.register)
    total = EMITTERS["addf"](b, old, data, element=element)
    found = b.cmpxchg(where, seen, b.bitcast(total, words), ordering, ON_FAILURE[ordering])
    seen.add_incoming(b.extract_value(found, 0), b.block)
    b.cbranch(b.extract_value(found, 1), done, again)
    b.position_at_end(done)
    return old
