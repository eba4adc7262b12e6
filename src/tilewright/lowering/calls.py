"""Calls of functions: replaced by what the functions do, before anything is planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.ir import Operation, SSAValue

from tilewright.diagnostics import TileIRError
from tilewright.dialects.nv_tileaa.ops.functions import CallOp, FuncOp
from tilewright.dialects.nv_tileaa.ops.symbols import reference
from tilewright.dialects.source_map import set_source, source_of

Refuse = Callable[[Operation, str], TileIRError]
"""The error that an operation is refused, and why."""


def without_calls(func: FuncOp, functions: Mapping[str, FuncOp], refuse: Refuse) -> FuncOp:
    """The function with the bodies of all that it calls in place of the calls.

    The function itself, which stays as it is, where it calls nothing. Recursion raises what
    ``refuse`` makes of it.
    """
    if not any(isinstance(op, CallOp) for op in func.walk()):
        return func
    copy = _copy(func)
    _expand(copy, functions, (func.symbol,), refuse)
    return copy


def _copy(func: FuncOp) -> FuncOp:
    """A clone that keeps the places of operations."""
    copy = func.clone()
    for old, new in zip(func.walk(), copy.walk(), strict=True):
        if (source := source_of(old)) is not None:
            set_source(new, source)
    return copy


def _expand(
    func: FuncOp, functions: Mapping[str, FuncOp], active: tuple[str, ...], refuse: Refuse
) -> None:
    for call in [op for op in func.walk() if isinstance(op, CallOp)]:
        name = reference(call, "callee")
        if name in active:
            raise refuse(call, f"'{name}' calls itself")
        body = _copy(functions[name])
        _expand(body, functions, (*active, name), refuse)
        _replace(call, body)


def _replace(call: CallOp, callee: FuncOp) -> None:
    block = call.parent
    body = callee.body.blocks[0]
    assert block is not None
    for argument, value in zip(tuple(body.args), call.operands, strict=True):
        argument.replace_all_uses_with(value)
    results: list[SSAValue] = []
    for op in list(body.ops):
        op.detach()
        if op.name == "nv_tileaa.return":
            results = list(op.operands)
            op.drop_all_references()
        else:
            block.insert_op_before(op, call)
    for old, new in zip(call.results, results, strict=True):
        old.replace_all_uses_with(new)
    call.detach()
    call.erase()
