"""Defers the products of a loop and makes several iterations' products at once.

Tiles of kernels written for GPUs are shallow along k. Multiplying in each iteration would load and store the whole
accumulator for few products. Where a loop carries an accumulator, its body writes no memory, and the factors are tiles in
memory, an iteration only records where its factors lie (``factors``); the product is made once enough iterations are recorded, and
in the last one. The order of accumulation does not change.

Which products qualify is decided for a whole function before code is generated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from llvmlite import ir
from xdsl.ir import BlockArgument, Operation

from tilewright.cpu.codegen.analysis import effects
from tilewright.cpu.codegen.analysis.plan import Plan
from tilewright.cpu.codegen.emitter.function import FunctionEmitter
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I1, I8, I64, element_of
from tilewright.cpu.codegen.ir.types import Value
from tilewright.cpu.codegen.products.accumulation import FEW_ROWS, accumulation_kernel_of
from tilewright.cpu.codegen.products.factors import MOST_ROUNDS, WORDS, Entry, write_entry
from tilewright.cpu.codegen.products.packed_operands import loaded_from
from tilewright.cpu.codegen.products.state import Deferred, Gathered, OperandOf, Side
from tilewright.cpu.target import CpuTarget
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.ops.contraction import DotOp

#: How deep products are made: the bytes of a row of the left operand, so that some rows stay in the first cache.
_ROW_BYTES = 2048
#: The same where registers have two axes: rows come from the second cache anyway, and sums are loaded and stored less often.
_ROW_BYTES_OF_TWO_AXES = 4096
_MOST_ROUNDS_OF_TWO_AXES = 64
#: Products of fewer rows wait only where their right operand is packed for several blocks.
_FEWEST_ROWS = 32


def find_deferred(
    ops: Iterable[Operation], plan: Plan, target: CpuTarget, kept: Collection[OperandOf] = ()
) -> dict[DotOp, Deferred]:
    """The products of a function that are made for several iterations at once; ``kept``: the operands that stay packed for other
    blocks."""
    found: dict[DotOp, Deferred] = {}
    for op in ops:
        if not isinstance(op, DotOp) or op.sfa is not None or len(T.dims_of(op.b.type)) != 2:
            continue
        loop = _only_carried(op, plan)
        (m, k), n = T.dims_of(op.a.type), T.dims_of(op.b.type)[1]
        accumulation = accumulation_kernel_of(target, op)
        exact = accumulation.accumulator == element_of(op.result.type)
        if loop is None or not exact:
            continue
        # Fewer rows read the right operand where it lies, or pack it for themselves, which all rounds at once have no room for.
        # Of bytes that need sums of rows, one round is faster than several then.
        again = accumulation.group > 1 and m > FEW_ROWS and (op, Side.RIGHT) in kept
        again = again and not accumulation.row_factor
        if m < _FEWEST_ROWS and not again:
            continue
        size, left_row = accumulation.panel.buffer_bytes, accumulation.left_bytes(k)
        two_axes = accumulation.in_tiles(target, m, n, k)
        row_bytes, rounds = _ROW_BYTES, MOST_ROUNDS
        if two_axes:
            row_bytes, rounds = _ROW_BYTES_OF_TWO_AXES, _MOST_ROUNDS_OF_TWO_AXES
        most = min(row_bytes // left_row, rounds)
        loads = [loaded_from(factor, plan) for factor in (op.a, op.b)]
        if most < 2 or None in loads or any(map(effects.orders_or_writes, loop.walk())):
            continue
        found[op] = Deferred(loop, most, m * left_row, k * n * size)
    return found


def _only_carried(op: DotOp, plan: Plan) -> Operation | None:
    """The loop that hands the sum of a product to the next iteration, if nothing else there reads it."""
    argument = plan.in_place.get(op.result)
    if not isinstance(argument, BlockArgument) or argument.owner is not op.parent:
        return None
    loop = argument.owner.parent_op()
    used = len(list(argument.uses)), len(list(op.result.uses))
    alone = op.c is argument and used == (1, 1)
    return loop if loop is not None and loop.name == "scf.for" and alone else None


# -- code ----------------------------------------------------------------------------------------


def open_rounds(f: FunctionEmitter, loop: Operation) -> None:
    """Before a loop: no iteration waits."""
    for op, deferred in f.deferred.items():
        if deferred.loop is not loop:
            continue
        last = f.plan.last_inside[loop]
        left = f.pointer_to(f.scratch(deferred.most * deferred.left_bytes, last))
        right = None
        if (op, Side.RIGHT) not in f.packed_panels:
            right = f.pointer_to(f.scratch(deferred.most * deferred.right_bytes, last))
        b = f.builder
        with b.goto_entry_block():
            table = llvm.stack(b, ir.ArrayType(I64, WORDS * deferred.most))
            count, begun, cut = llvm.stack(b, I64), llvm.stack(b, I1), llvm.stack(b, I1)
        b.store(ir.Constant(I64, 0), count)
        for cell in (begun, cut):
            b.store(ir.Constant(I1, 0), cell)
        f.gathered[op] = Gathered(table, count, begun, cut, left, right)


def room_for(f: FunctionEmitter, first: Value, gathered: Gathered, size: int) -> Value:
    """Where the copy of a factor of this iteration goes; each takes ``size`` bytes behind ``first``."""
    b = f.builder
    number = b.load(gathered.count, typ=I64)
    return b.gep(first, [b.mul(number, ir.Constant(I64, size))], source_etype=I8)


def put_off(
    f: FunctionEmitter,
    op: DotOp,
    entry: Entry,
    cut: Value | None,
    now: Value,
    multiply: Callable[[Value, Value, Value, Value | None], None],
) -> None:
    """Let the product of this iteration wait, or make it with those that wait.

    It is made where ``now`` holds, in the last round, and when no more may wait, by ``multiply(table,
    count, first, cut)``; ``first``: no other has been made; ``cut``: the round has fewer terms than its
    tiles, and then one of them has; None where that cannot be.
    """
    deferred, gathered, b = f.deferred[op], f.gathered[op], f.builder
    number = b.load(gathered.count, typ=I64)
    write_entry(b, gathered.table, number, entry)
    if cut is not None:
        cut = b.or_(cut, b.load(gathered.cut, typ=I1))
        b.store(cut, gathered.cut)
    count = b.add(number, ir.Constant(I64, 1))
    this = f.rounds[deferred.loop]
    last = b.icmp_unsigned("<=", b.sub(this.upper, this.counter), this.step)
    full = b.icmp_unsigned("==", count, ir.Constant(I64, deferred.most))
    b.store(count, gathered.count)
    with b.if_then(b.or_(now, b.or_(last, full))):
        first = b.not_(b.load(gathered.begun, typ=I1))
        multiply(gathered.table, count, first, cut)
        b.store(ir.Constant(I1, 1), gathered.begun)
        b.store(ir.Constant(I1, 0), gathered.cut)
        b.store(ir.Constant(I64, 0), gathered.count)
