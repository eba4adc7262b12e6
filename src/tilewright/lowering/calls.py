"""Inlines function calls, before anything is planned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from tilewright.diagnostics import TileIRError
from tilewright.dialects.nv_tileaa.ops.functions import (
    CallOp,
    ExecuteOp,
    FuncOp,
    PluginOp,
    ReturnOp,
    YieldOp,
)
from tilewright.dialects.nv_tileaa.ops.symbols import reference
from tilewright.dialects.source_map import set_source, source_of

Refuse = Callable[[Operation, str], TileIRError]
"""Makes the error that an operation is refused, from the operation and the reason."""


def without_calls(
    func: FuncOp,
    functions: Mapping[str, FuncOp],
    refuse: Refuse,
    *,
    plugins: Collection[str] = (),
) -> FuncOp:
    """A copy of the function with all calls inlined, or the function itself if it has none.

    An ``execute`` of a function gets its body as region. ``plugins`` are names that a plugin operation resolves
    elsewhere, even if the module has a function of that name. Recursion raises the error of ``refuse``.
    """
    expansion = _Expansion(functions, refuse, plugins)
    if not any(expansion.callee(op) for op in func.walk()):
        return func
    copy = copy_function(func)
    expansion.expand(copy, (func.symbol,))
    return copy


def copy_function(func: FuncOp) -> FuncOp:
    """Clone a function, with source locations."""
    copy = func.clone()
    for old, new in zip(func.walk(), copy.walk(), strict=True):
        if (source := source_of(old)) is not None:
            set_source(new, source)
    return copy


@dataclass(frozen=True, slots=True)
class _Expansion:
    functions: Mapping[str, FuncOp]
    refuse: Refuse
    plugins: Collection[str]

    def callee(self, op: Operation) -> str | None:
        """The module's function that an operation calls, if it has no body of its own."""
        if isinstance(op, CallOp):
            return reference(op, "callee")
        if not isinstance(op, PluginOp | ExecuteOp) or "symbol" not in op.properties:
            return None
        name = reference(op, "symbol")
        taken = isinstance(op, PluginOp) and name in self.plugins
        return name if name in self.functions and not taken else None

    def expand(self, func: FuncOp, active: tuple[str, ...]) -> None:
        for call in list(func.walk()):
            name = self.callee(call)
            if name is None:
                continue
            if name in active:
                raise self.refuse(call, f"'{name}' is recursive")
            body = copy_function(self.functions[name])
            self.expand(body, (*active, name))
            if isinstance(call, ExecuteOp):
                _become_region(call, body)
            else:
                _replace(call, body)


def _become_region(agent: ExecuteOp, callee: FuncOp) -> None:
    block = callee.body.detach_block(0)
    end = block.last_op
    assert end is not None
    block.insert_op_before(YieldOp.create(operands=end.operands), end)
    end.detach()
    end.erase()
    del agent.properties["symbol"]
    agent.body.add_block(block)


def _replace(call: Operation, callee: FuncOp) -> None:
    block = call.parent
    body = callee.body.blocks[0]
    assert block is not None
    for argument, value in zip(tuple(body.args), call.operands, strict=True):
        argument.replace_all_uses_with(value)
    results: list[SSAValue] = []
    for op in list(body.ops):
        op.detach()
        if isinstance(op, ReturnOp):
            results = list(op.operands)
            op.drop_all_references()
        else:
            block.insert_op_before(op, call)
    for old, new in zip(call.results, results, strict=True):
        old.replace_all_uses_with(new)
    call.detach()
    call.erase()
