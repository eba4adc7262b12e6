"""The text of functions, as llvmlite writes it, in less time.

llvmlite asks each value for its name and each type for its text wherever they stand, through formats and caches. Here
the names of a function's values are made once, and the instructions of which most code consists have a rule each.
All others, and whatever has metadata, are written by llvmlite. The text is the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as I


class _Texts(dict[int, str]):
    """The texts of types and of operands, by identity."""

    def __init__(self, function: ir.Function) -> None:
        super().__init__()
        self._held: list[object] = []
        for value in (*function.args, *function.blocks):
            self[id(value)] = value.get_reference()
        for block in function.blocks:
            for each in block.instructions:
                name: str = each.name
                plain = "\\" not in name and '"' not in name
                self[id(each)] = f'%"{name}"' if plain else each.get_reference()

    def type(self, ty: Any) -> str:
        """How a type is written."""
        try:
            return self[id(ty)]
        except KeyError:
            return self._keep(ty, str(ty))

    def name(self, value: Any) -> str:
        """A value as an operand, without its type."""
        try:
            return self[id(value)]
        except KeyError:
            return self._keep(value, value.get_reference())

    def typed(self, value: Any) -> str:
        """A value as an operand, behind its type."""
        ty = value.type
        try:
            return f"{self[id(ty)]} {self[id(value)]}"
        except KeyError:
            return f"{self.type(ty)} {self.name(value)}"

    def _keep(self, each: object, text: str) -> str:
        self._held.append(each)  # Else another object could get its identity.
        self[id(each)] = text
        return text


def _plain(t: _Texts, i: Any) -> str:
    opname = " ".join([i.opname, *i.flags]) if i.flags else i.opname
    return f"{opname} {t.type(i.type)} {', '.join([t.name(op) for op in i.operands])}"


def _typed(t: _Texts, i: Any) -> str:
    return f"{i.opname} {', '.join([t.typed(op) for op in i.operands])}"


def _compare(t: _Texts, i: Any) -> str:
    lhs, rhs = i.operands
    flags = "".join([f" {flag}" for flag in i.flags])
    return f"{i.opname}{flags} {i.op} {t.type(lhs.type)} {t.name(lhs)}, {t.name(rhs)}"


def _cast(t: _Texts, i: Any) -> str:
    return f"{i.opname} {t.typed(i.operands[0])} to {t.type(i.type)}"


def _select(t: _Texts, i: Any) -> str:
    condition, lhs, rhs = i.operands
    return f"select {' '.join(i.flags)} {t.typed(condition)}, {t.typed(lhs)}, {t.typed(rhs)}"


def _align(i: Any) -> str:
    return "" if i.align is None else f", align {i.align}"


def _load(t: _Texts, i: Any) -> str:
    return f"load {t.type(i.type)}, {t.typed(i.operands[0])}{_align(i)}"


def _store(t: _Texts, i: Any) -> str:
    value, pointer = i.operands
    return f"store {t.typed(value)}, {t.typed(pointer)}{_align(i)}"


def _element_pointer(t: _Texts, i: Any) -> str:
    opname = "getelementptr inbounds" if i.inbounds else "getelementptr"
    indices = ", ".join([t.typed(index) for index in i.indices])
    return f"{opname} {t.type(i.source_etype)}, {t.typed(i.pointer)}, {indices}"


def _phi(t: _Texts, i: Any) -> str:
    incoming = ", ".join([f"[{t.name(value)}, {t.name(block)}]" for value, block in i.incomings])
    return f"phi {' '.join(i.flags)} {t.type(i.type)} {incoming}"


def _call(t: _Texts, i: Any) -> str:
    """A call that says nothing of itself nor of its arguments; empty for others."""
    kind = i.callee.function_type
    if kind.var_arg or i.cconv or i.tail or i.fastmath or i.attributes or i.arg_attributes:
        return ""
    arguments = ", ".join([t.typed(argument) for argument in i.args])
    return f"call {t.type(kind.return_type)} {t.name(i.callee)}({arguments})"


_RULES: dict[type, Callable[[_Texts, Any], str]] = {
    ir.Instruction: _plain,
    I.ICMPInstr: _compare,
    I.FCMPInstr: _compare,
    I.CastInstr: _cast,
    I.SelectInstr: _select,
    I.LoadInstr: _load,
    I.StoreInstr: _store,
    I.GEPInstr: _element_pointer,
    I.PhiInstr: _phi,
    I.CallInstr: _call,
    I.ExtractElement: _typed,
    I.InsertElement: _typed,
    I.ShuffleVector: _typed,
    I.Branch: _typed,
    I.ConditionalBranch: _typed,
}


def _line(t: _Texts, i: Any) -> str:
    rule = _RULES.get(type(i))
    text = "" if rule is None or i.metadata else rule(t, i)
    if not text:
        return f"  {i}\n"
    if isinstance(i.type, ir.VoidType):
        return f"  {text}\n"
    return f"  {t[id(i)]} = {text}\n"


def text_of(function: ir.Function) -> str:
    """A function in LLVM's syntax: ``str(function)``."""
    parts: list[str] = []
    function.descr_prototype(parts)
    if function.blocks:
        texts = _Texts(function)
        parts.append("{\n")
        for block in function.blocks:
            parts.append(f"{block._format_name()}:\n")
            parts += [_line(texts, instruction) for instruction in block.instructions]
        parts.append("}\n")
    return "".join(parts)
