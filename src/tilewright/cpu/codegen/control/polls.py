"""Where kernels poll the stop flag and let signal handlers run."""

from __future__ import annotations

from llvmlite import ir
from xdsl.ir import Operation

from tilewright.cpu.abi import ATTEND_SYMBOL, RT_STOP
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I32, I64, PTR
from tilewright.cpu.codegen.ir.types import Value
from tilewright.dialects.nv_tileaa import types as T
from tilewright.launching.assertions import OperationSource

#: A loop over numbers alone that makes at most so many iterations does not look.
_SHORT = 1 << 10
_SELDOM = (1, 1 << 16)


def is_short(op: Operation, bounds: tuple[Value, Value, Value]) -> bool:
    """Whether a loop ends at once whatever it meets: a few iterations, without tiles or loops in them."""
    if not all(isinstance(bound, ir.Constant) for bound in bounds):
        return False
    lower, upper, step = (int(bound.constant) for bound in bounds)
    if step <= 0 or (upper - lower) // step >= _SHORT:
        return False
    inside = [inner for inner in op.walk() if inner is not op]
    return not any(
        inner.regions or any(isinstance(r.type, T.TileType) for r in inner.results)
        for inner in inside
    )


def poll(f: FunctionEmitter, op: Operation) -> None:
    """In each iteration of a loop: one load, and what it says in the rare case that it says something."""
    loops = f.unit.loops
    loops.append(OperationSource.of(op))
    b = f.builder
    stop = b.load(b.gep(f.frame.runtime, [ir.Constant(I32, RT_STOP)], source_etype=PTR), typ=PTR)
    asked = b.icmp_unsigned("!=", b.load_atomic(stop, "monotonic", 8, typ=I64), ir.Constant(I64, 0))
    attend, leave, stay = (b.append_basic_block(n) for n in ("attend", "stopped", "go_on"))
    b.cbranch(asked, attend, stay).set_weights(_SELDOM)
    b.position_at_end(attend)
    ends = b.icmp_unsigned("!=", attended(f, len(loops)), ir.Constant(I32, 0))
    b.cbranch(ends, leave, stay)
    b.position_at_end(leave)
    f.leave()
    b.position_at_end(stay)


def attended(f: FunctionEmitter, loop: int = 0) -> Value:
    """Do what is asked for (``abi``); nonzero where the run is to end. ``loop``: the number of the loop that asks, 0
    for none.
    """
    b = f.builder
    function = llvm.declare(b.module, ATTEND_SYMBOL, I32, [PTR, I64, PTR])
    return b.call(function, [f.frame.runtime, ir.Constant(I64, loop), f.frame.place])
