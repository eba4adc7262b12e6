"""What of the Python language the kernels of this package use, read off their source."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module

from tests.cutile.api._cases import THEMES


def _is(*kinds: type[ast.AST]) -> Callable[[ast.AST], bool]:
    return lambda node: isinstance(node, kinds)


def _holds(outer: type[ast.AST], *inner: type[ast.AST]) -> Callable[[ast.AST], bool]:
    """A node of a kind with one of other kinds somewhere below it."""

    def test(node: ast.AST) -> bool:
        below = (child for child in ast.walk(node) if child is not node)
        return isinstance(node, outer) and any(isinstance(child, inner) for child in below)

    return test


def _calls(name: str) -> Callable[[ast.AST], bool]:
    return lambda node: isinstance(node, ast.Call) and ast.unparse(node.func) == name


FEATURES: Mapping[str, Callable[[ast.AST], bool]] = {
    "`for` over a range": lambda n: isinstance(n, ast.For) and _calls("range")(n.iter),
    "`while`": _is(ast.While),
    "`break`": _is(ast.Break),
    "`continue`": _is(ast.Continue),
    "`return` from a loop": _holds(ast.For, ast.Return),
    "`return` from a branch": _holds(ast.If, ast.Return),
    "`if`, `elif`, `else`": lambda n: isinstance(n, ast.If) and bool(n.orelse),
    "conditional expressions": _is(ast.IfExp),
    "`and`, `or`": _is(ast.BoolOp),
    "`not`": _is(ast.Not),
    "augmented assignment": _is(ast.AugAssign),
    "assignment to tuples": lambda n: (
        isinstance(n, ast.Assign) and any(isinstance(target, ast.Tuple) for target in n.targets)
    ),
    "slices of tuples": _is(ast.Slice),
    "starred arguments": lambda n: (
        isinstance(n, ast.Call) and any(isinstance(argument, ast.Starred) for argument in n.args)
    ),
    "`in`, `not in`": _is(ast.In, ast.NotIn),
    "generators in tuples": _calls("tuple"),
    "lambda expressions": _is(ast.Lambda),
    "inner functions (closures)": _holds(ast.FunctionDef, ast.FunctionDef),
    "default values and keywords": lambda n: (
        isinstance(n, ast.FunctionDef) and bool(n.args.kwonlyargs)
    ),
    "dataclasses": _calls("dataclasses.replace"),
    "methods": lambda n: isinstance(n, ast.Attribute) and n.attr == "kind",
    "enums": _calls("Kind"),
    "global constants": lambda n: isinstance(n, ast.Name) and n.id == "SHIFT",
    "formatted strings": _is(ast.JoinedStr),
    "`raise` at compile time": _is(ast.Raise),
}


def _functions() -> Iterator[ast.FunctionDef]:
    """The kernels of all modules and what they call; only functions of the host are annotated."""
    for theme in THEMES:
        tree = ast.parse(inspect.getsource(import_module(f"tests.cutile.api.{theme}")))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.returns is None:
                node.decorator_list = []
                yield node


def users_of_features() -> dict[str, list[str]]:
    """The functions that use each feature, by name."""
    functions = list(_functions())
    return {
        feature: [f.name for f in functions if any(test(node) for node in ast.walk(f))]
        for feature, test in FEATURES.items()
    }
