"""Calls of functions: replaced by what the functions do, before anything is planned."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from tilewright.cpu.codegen.basics import symbol_name
from tilewright.cpu.codegen.table import refuse
from tilewright.dialects.nv_tileaa.ops.functions import CallOp, FuncOp
from tilewright.dialects.source_map import set_source, source_of


def without_calls(func: FuncOp, functions: Mapping[str, FuncOp]) -> FuncOp:
    """The function with the bodies of all that it calls in place of the calls.

    The function itself, which stays as it is, where it calls nothing. Refuses recursion.
    """
    if not any(isinstance(op, CallOp) for op in func.walk()):
        return func
    copy = _copy(func)
    _expand(copy, functions, (func.symbol,))
    return copy


def _copy(func: FuncOp) -> FuncOp:
    """A clone that keeps the places of operations."""
    copy = func.clone()
    for old, new in zip(func.walk(), copy.walk(), strict=True):
        if (source := source_of(old)) is not None:
            set_source(new, source)
    return copy


def _expand(func: FuncOp, functions: Mapping[str, FuncOp], active: tuple[str, ...]) -> None:
    for call in [op for op in func.walk() if isinstance(op, CallOp)]:
        name = symbol_name(call.properties["callee"])
        if name in active:
            raise refuse(call, f"'{name}' calls itself")
        callee = _copy(functions[name])
        _expand(callee, functions, (*active, name))
        _replace(call, callee)


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
