"""Extracts what an operation's class declares as plain values, for ``tilewright explain``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Operation
from xdsl.irdl import (
    OptOperandDef,
    OptPropertyDef,
    OptRegionDef,
    OptResultDef,
    VarOperandDef,
    VarRegionDef,
    VarResultDef,
)

from tilewright.diagnostics import find_code
from tilewright.dialects.cuda_tile.base import TileOp
from tilewright.dialects.cuda_tile.constraints import FieldKind
from tilewright.dialects.declare import TYPE_RELATION, DeclaredOp
from tilewright.dialects.syntax.engine import value_constraint
from tilewright.dialects.versions import format_version
from tilewright.passes.canonicalize import RULES, Rule

Facts = dict[str, Any]
"""JSON values by key."""

_COUNTS = {
    VarOperandDef: "any number",
    OptOperandDef: "optional",
    VarResultDef: "any number",
    OptResultDef: "optional",
    VarRegionDef: "any number",
    OptRegionDef: "optional",
    OptPropertyDef: "optional",
}
# Kept by xDSL to distinguish operand groups; not fields of the operation's own.
_SEGMENTS = frozenset({"operandSegmentSizes", "resultSegmentSizes"})
_MAX_CALL_DEPTH = 4


def op_facts(cls: type[DeclaredOp]) -> Facts:
    """Return everything that the class declares, in the order in which ``explain`` shows it.

    Operations of ``cuda_tile`` are named by their mnemonic, others by their full name. Only those of
    ``cuda_tile`` have aliases, a version and an opcode; for others these are empty or None.
    """
    definition = cls.get_irdl_definition()
    text = inspect.cleandoc(cls.__doc__ or "")
    is_tile_op = issubclass(cls, TileOp)
    name = cls.mnemonic() if is_tile_op else cls.name
    return {
        "kind": "operation",
        "name": name,
        "full_name": cls.name,
        "summary": text.partition("\n")[0],
        "description": text,
        "group": cls.GROUP,
        "aliases": list(cls.ALIASES) if is_tile_op else [],
        "since": format_version(cls.SINCE) if is_tile_op else None,
        "opcode": cls.OPCODE if is_tile_op else None,
        "syntax": f"{name} {' '.join(part.grammar() for part in cls.SYNTAX)}".rstrip(),
        "operands": [_value_facts(cls, name, group) for name, group in definition.operands],
        "results": [_value_facts(cls, name, group) for name, group in definition.results],
        "attributes": [
            _property_facts(cls, name, field)
            for name, field in definition.properties.items()
            if name not in _SEGMENTS
        ],
        "regions": [
            {"name": name, "count": _COUNTS.get(type(region), "one")}
            for name, region in definition.regions
        ],
        "relations": [str(relation) for relation in cls.RELATIONS],
        "undefined": list(cls.UNDEFINED),
        "traits": sorted(type(trait).__name__ for trait in cls.traits.traits),
        "rewrites": list(_rewrites_of(cls)),
        "codes": sorted(set(_codes_of(cls))),
        "examples": [inspect.cleandoc(example) for example in cls.EXAMPLES],
    }


def _value_facts(cls: type[DeclaredOp], name: str, group: Any) -> Facts:
    return {
        "name": name,
        "count": _COUNTS.get(type(group), "one"),
        "constraint": _words(value_constraint(group)),
        "since": _since_of(cls, name),
    }


def _property_facts(cls: type[DeclaredOp], name: str, field: Any) -> Facts:
    default = field.default_value
    facts: Facts = {
        "name": name,
        "count": "optional" if default is not None else _COUNTS.get(type(field), "one"),
        "constraint": _words(field.constr),
        "since": _since_of(cls, name),
        "default": None if default is None else _default_words(default),
    }
    kind = field.constr
    if isinstance(kind, FieldKind) and kind.wire == "enum" and kind.enum.SINCE:
        facts["value_since"] = {
            str(value): format_version(since) for value, since in kind.enum.SINCE.items()
        }
    return facts


def _since_of(cls: type[DeclaredOp], name: str) -> str | None:
    return format_version(cls.since_of(name)) if issubclass(cls, TileOp) else None


def _words(constraint: object) -> str:
    """Describe a constraint: ours in their own words, xDSL's by printing them."""
    return getattr(constraint, "description", None) or str(constraint)


def _default_words(default: Any) -> str:
    if isinstance(default, DenseArrayBase):
        return str(list(default.iter_values()))
    data = getattr(default, "data", None)
    return str(getattr(data, "value", default))


def _tileaa_rules() -> Mapping[type[Operation], Sequence[Rule]]:
    # Most queries are about cuda_tile, and importing these takes longer than answering them.
    from tilewright.passes.tileaa.canonicalize import RULES as TILEAA_RULES

    return TILEAA_RULES


def _rewrites_of(cls: type[DeclaredOp]) -> Iterator[str]:
    """Yield the rewrites of the operation by ``canonicalize``: the law that each rule states."""
    rules = RULES if issubclass(cls, TileOp) else _tileaa_rules()
    for rule in rules.get(cls, ()):
        law = inspect.cleandoc(rule.__doc__ or "").partition("\n\n")[0]
        if law:
            yield " ".join(law.split())


def _codes_of(cls: type[DeclaredOp]) -> Iterator[str]:
    """Yield the diagnostic codes that the operation's own syntax and rules can report.

    These are the code constants referred to by its methods, and by the dialect's functions that these
    call.
    """
    if cls.RELATIONS:
        yield TYPE_RELATION
    functions = [cls.check]
    functions += [type(directive).parse for directive in cls.SYNTAX]
    seen: set[CodeType] = set()
    for function in functions:
        yield from _codes_in(function, seen, _MAX_CALL_DEPTH, cls)


def _codes_in(
    function: object, seen: set[CodeType], depth: int, owner: type[DeclaredOp]
) -> Iterator[str]:
    if not isinstance(function, FunctionType) or not depth:
        return
    dialect = ".".join(owner.__module__.split(".")[:3])
    if not (function.__module__ or "").startswith(dialect):
        return
    for code in _with_nested(function.__code__):
        if code in seen:
            continue
        seen.add(code)
        for name in code.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, str) and find_code(value):
                yield value
            for called in (value, getattr(owner, name, None)):
                yield from _codes_in(called, seen, depth - 1, owner)


def _with_nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_nested(constant)
