"""Generates the function that gives the key of a tile block (``analysis.lock_keys``)."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir
from xdsl.ir import SSAValue

from tilewright.cpu.abi import keys_symbol
from tilewright.cpu.codegen.analysis import lock_keys
from tilewright.cpu.codegen.analysis.plan import Plan
from tilewright.cpu.codegen.emitter.function import (
    Frame,
    FunctionEmitter,
    Unit,
)
from tilewright.cpu.codegen.emitter.grid import BLOCK_TYPE, block_coordinates
from tilewright.cpu.codegen.ir import llvm
from tilewright.cpu.codegen.ir.elements import I32, I64, PTR
from tilewright.cpu.codegen.ir.types import Builder, Value

Arguments = Callable[[Builder, Value], dict[SSAValue, object]]
"""What the parameters of the kernel hold, by the address of the slots."""


def make_keys(unit: Unit, plan: Plan, key: SSAValue, symbol: str, arguments: Arguments) -> None:
    """Add ``abi.keys_symbol``: it writes the key of each block of a range."""
    void = ir.VoidType()
    signature = ir.FunctionType(void, [PTR, PTR, I64, I64, PTR])
    function = ir.Function(unit.module, signature, keys_symbol(symbol))
    unit.prepare(function)
    slots, grid, begin, end, out = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    held = arguments(b, slots)
    x, y, z = (
        b.load(b.gep(grid, [ir.Constant(I64, axis)], source_etype=I32), typ=I32, align=4)
        for axis in range(3)
    )
    extents = x, y, z
    operations = lock_keys.formula(key) or []
    place, nowhere = llvm.stack(b, BLOCK_TYPE), ir.Constant(PTR, None)

    def one(inner: Builder, linear: Value) -> None:
        block_id = block_coordinates(inner, extents, linear, unit.order)
        frame = Frame(nowhere, nowhere, extents, block_id, place, nowhere, None, end)
        f = FunctionEmitter(unit, plan, inner, frame)
        f.values.update(held)
        for op in operations:
            f.operation(op)
        where = inner.gep(out, [inner.sub(linear, begin)], source_etype=I64)
        inner.store(f.scalar(key), where, align=8)

    llvm.count(b, begin, end, ir.Constant(I64, 1), one)
    b.ret_void()
