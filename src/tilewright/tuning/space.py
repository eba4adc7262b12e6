"""The configurations of a search: values by name, and conditions on them."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from tilewright.diagnostics import TileIRError
from tilewright.tuning.codes import BAD_SPACE

#: The limit of configurations; more are assumed to be a mistake.
MOST = 100_000
_FUNCTIONS = {"min": min, "max": max, "abs": abs, "cdiv": lambda a, b: -(-a // b)}

Configuration = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Axis:
    """A name and the values that it takes."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """A Python expression over the names of the axes that configurations must satisfy."""

    text: str
    code: CodeType

    def holds(self, configuration: Configuration) -> bool:
        """Whether a configuration satisfies it. Raises ``TileIRError`` if the evaluation fails."""
        try:
            return bool(eval(self.code, {"__builtins__": {}, **_FUNCTIONS}, dict(configuration)))
        except Exception as error:
            raise _bad(f"--where '{self.text}': {type(error).__name__}: {error}") from error


def axis_of(text: str) -> Axis:
    """Parse ``NAME=VALUE,VALUE``. Values are Python literals, else words. Raises ``TileIRError`` (``tune-bad-space``)
    for anything else.
    """
    name, equals, listed = text.partition("=")
    name = name.strip()
    if not equals or not name.isidentifier():
        raise _bad(f"expected NAME=VALUE,VALUE, found '{text}'")
    values = _literals(listed)
    for value in values:
        if sum(value == v and type(value) is type(v) for v in values) > 1:
            raise _bad(f"'{text}': {value} is listed twice")
    if "" in values:
        raise _bad(f"'{text}': a value is missing")
    return Axis(name, tuple(values))


def _literals(listed: str) -> list[Any]:
    try:
        return list(ast.literal_eval(f"({listed},)"))
    except (ValueError, SyntaxError):
        pass
    values: list[Any] = []
    for word in map(str.strip, listed.split(",")):
        try:
            values.append(ast.literal_eval(word))
        except (ValueError, SyntaxError):
            values.append(word)
    return values


def condition_of(text: str, names: Sequence[str]) -> Condition:
    """Parse a condition over these names. Raises ``TileIRError`` (``tune-bad-space``) for invalid expressions and
    unknown names.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise _bad(f"--where '{text}' is not a Python expression") from error
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if unknown := sorted(used - set(names) - set(_FUNCTIONS)):
        raise _bad(f"--where '{text}': unknown name {unknown[0]}; known: {', '.join(names)}")
    return Condition(text, compile(tree, "--where", "eval"))


def configurations(
    axes: Sequence[Axis], conditions: Sequence[Condition] = ()
) -> list[dict[str, Any]]:
    """All combinations that satisfy the conditions, the last axis varying fastest. Raises ``TileIRError`` if there are
    none.
    """
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise _bad(f"{name} is given twice")
    if (count := math.prod(len(axis.values) for axis in axes)) > MOST:
        raise _bad(f"there are {count:,} configurations; at most {MOST:,} are tried")
    products = itertools.product(*(axis.values for axis in axes))
    found = [dict(zip(names, values, strict=True)) for values in products]
    found = [each for each in found if all(c.holds(each) for c in conditions)]
    if not found:
        raise _bad("no configuration satisfies the conditions")
    return found


def spelled(configuration: Configuration) -> str:
    """A configuration as text: ``TM=64 TN=128``."""
    return " ".join(f"{name}={value}" for name, value in configuration.items())


def _bad(message: str) -> TileIRError:
    return TileIRError.single(BAD_SPACE, message)
