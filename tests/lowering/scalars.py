"""Runs functions of ``nv_tileaa`` on single integers, to check control flow on its own.

It knows what the kernels of :mod:`tests.lowering.nests` become. Poison may be passed on, but not
looked at: computing, deciding or printing with it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.dialects.ub import PoisonOp
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import arith
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp, ReturnOp
from tilewright.dialects.nv_tileaa.ops.hints import CreateMemTokenOp, PrintOp

POISON = object()
TOKEN = object()
Value = object

_WIDTH = 32


def _wrap(value: int) -> int:
    return (value + (1 << (_WIDTH - 1))) % (1 << _WIDTH) - (1 << (_WIDTH - 1))


_ARITHMETIC: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda a, b: _wrap(a + b),
    arith.MuliOp: lambda a, b: _wrap(a * b),
    arith.XOrIOp: lambda a, b: a ^ b,
    arith.OrIOp: lambda a, b: a | b,
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "slt": lambda a, b: a < b,
    "sge": lambda a, b: a >= b,
    "sgt": lambda a, b: a > b,
    "eq": lambda a, b: a == b,
}


class Run:
    """One execution; ``text`` is what was printed, ``steps`` how many operations ran."""

    def __init__(self, function: FuncOp, arguments: Sequence[int]):
        self.values: dict[SSAValue, Value] = {}
        self.text = ""
        self.steps = 0
        block = function.body.block
        self.bind(block.args, arguments)
        self.block(block)

    def bind(self, names: Sequence[SSAValue], values: Sequence[Value]) -> None:
        for name, value in zip(names, values, strict=True):
            self.values[name] = value

    def number(self, name: SSAValue) -> int:
        value = self.values[name]
        assert isinstance(value, int), f"{name} is looked at, but it is {value}"
        return value

    def block(self, block: Block) -> list[Value]:
        """Run a block; gives the operands of its terminator."""
        for op in block.ops:
            self.steps += 1
            if isinstance(op, scf.YieldOp | scf.ConditionOp | ReturnOp):
                return [self.values[v] for v in op.operands]
            self.bind(op.results, self.results(op))
        raise AssertionError("a block without terminator")

    def results(self, op: Operation) -> Sequence[Value]:
        match op:
            case PoisonOp():
                return [POISON]
            case CreateMemTokenOp():
                return [TOKEN]
            case arith.ConstantOp():
                return [op.properties["value"].value.data]  # pyright: ignore[reportAttributeAccessIssue]
            case arith.TruncIOp():
                return [self.number(op.source) & 1]
            case arith.CmpiOp():
                compare = _COMPARISONS[op.predicate_name]
                return [int(compare(self.number(op.lhs), self.number(op.rhs)))]
            case PrintOp():
                return [self.print(op)]
            case scf.IfOp():
                region = op.true_region if self.number(op.cond) else op.false_region
                return self.block(region.block) if region.blocks else []
            case scf.ForOp():
                return self.for_(op)
            case scf.WhileOp():
                return self.while_(op)
            case _:
                lhs, rhs = op.operands
                return [_ARITHMETIC[type(op)](self.number(lhs), self.number(rhs))]

    def print(self, op: PrintOp) -> Value:
        *arguments, token = op.args
        assert self.values[token] is TOKEN
        form = op.properties["format"]
        assert isinstance(form, StringAttr)
        self.text += form.data % tuple(self.number(a) for a in arguments)
        return TOKEN

    def for_(self, op: scf.ForOp) -> list[Value]:
        carried: list[Value] = [self.values[v] for v in op.iter_args]
        assert "unsignedCmp" not in op.attributes or isinstance(
            op.attributes["unsignedCmp"], UnitAttr
        )
        for counter in range(self.number(op.lb), self.number(op.ub), self.number(op.step)):
            self.bind(op.body.block.args, [counter, *carried])
            carried = self.block(op.body.block)
        return carried

    def while_(self, op: scf.WhileOp) -> list[Value]:
        carried: list[Value] = [self.values[v] for v in op.arguments]
        while True:
            self.bind(op.before_region.block.args, carried)
            goes_on, *passed = self.block(op.before_region.block)
            assert isinstance(goes_on, int), "a loop that decides by poison"
            if not goes_on:
                return passed
            self.bind(op.after_region.block.args, passed)
            carried = self.block(op.after_region.block)
