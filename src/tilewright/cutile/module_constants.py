"""Constants of a program's module with other values than its text gives them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

_NESTED = (ast.If, ast.Try, ast.With, ast.For, ast.While)


def constants_of(source: bytes, path: str) -> dict[str, Any]:
    """The names that a module gives literal values to, outside of functions and classes, with the last of them.

    A SyntaxError for what is no Python.
    """
    tree = ast.parse(source, path)
    return {name: ast.literal_eval(node.value) for name, node in _assignments(tree.body)}


def with_constants(source: bytes, path: str, values: Mapping[str, Any]) -> ast.Module:
    """A module in which these constants have these values, at the same lines. Raises SyntaxError for what is no
    Python.
    """
    tree = ast.parse(source, path)
    for name, node in _assignments(tree.body):
        if name in values:
            made = ast.parse(repr(values[name]), mode="eval").body
            for inner in ast.walk(made):
                ast.copy_location(inner, node.value)
            node.value = made
    return ast.fix_missing_locations(tree)


class _Literal:
    """Where a literal stands that a name is given; ``value`` may be replaced."""

    def __init__(self, holder: Any, field: str, at: int | None = None):
        self._holder, self._field, self._at = holder, field, at

    @property
    def value(self) -> ast.expr:
        held = getattr(self._holder, self._field)
        return held if self._at is None else held[self._at]

    @value.setter
    def value(self, made: ast.expr) -> None:
        if self._at is None:
            setattr(self._holder, self._field, made)
        else:
            getattr(self._holder, self._field)[self._at] = made


def _assignments(body: list[ast.stmt]) -> Iterator[tuple[str, _Literal]]:
    for node in body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _parts(target, node)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from _parts(node.target, node)
        elif isinstance(node, _NESTED):
            for part in ("body", "orelse", "finalbody"):
                yield from _assignments(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from _assignments(handler.body)


def _parts(target: ast.expr, node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[str, _Literal]]:
    """``A = 1``, and ``A, B = 1, 2``."""
    value = node.value
    if isinstance(target, ast.Name) and _is_literal(value):
        yield target.id, _Literal(node, "value")
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        for at, (name, part) in enumerate(zip(target.elts, value.elts, strict=False)):
            if isinstance(name, ast.Name) and _is_literal(part):
                yield name.id, _Literal(value, "elts", at)


def _is_literal(node: ast.expr | None) -> bool:
    if node is None:
        return False
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True
