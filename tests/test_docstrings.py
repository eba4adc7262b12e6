"""Errors are part of what a function promises: a public one whose body raises names the class in its docstring.

What counts is read from the text of the package: ``raise``, with helpers that return an error resolved by
their annotation, and calls of helpers that never return (``fail``), by what they raise themselves.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest
from tests.test_structure import FILES, TOLD_ELSEWHERE, Function, nodes

#: Errors that no caller expects, of mistakes of our own: a case that cannot be, and a method that a class must fill.
OWN_MISTAKES = frozenset({"AssertionError", "NotImplementedError"})
#: Errors of other packages that ours raise: of xDSL, argparse and torch.
FOREIGN = frozenset({"ParseError", "VerifyException", "ArgumentTypeError", "OutOfMemoryError"})
#: Methods of others, called by them: what they raise is said there.
OF_OTHERS = {
    "verify": "xDSL's of attributes, types and constraints: VerifyException is how it answers",
    "verify_": "the same of operations",
    "parse": "xDSL's of operations, and ours of directives: ParseError at the token that does not fit",
    "parse_parameters": "xDSL's of attributes and types: the same",
}
#: What says that a function raises what another one does: "Raises as ``tile`` does", "errors are those of ``add``".
ELSEWHERE = re.compile(
    r"\b(?:[Rr]aises?|[Ee]rrors?|[Rr]efuses?|[Ff]ails?)\s[^.]*?\b(?:like|as|those)\b"
)
#: A diagnostic code says the class of the error that has it: "Raises ``not-lowered`` for packed elements".
CODED = re.compile(r"\b[Rr]aises?\s[^.]*``[a-z0-9]+(?:-[a-z0-9]+)+``")


class Known(NamedTuple):
    """A function or method of the package, and where it stands."""

    file: str
    holder: ast.Module | ast.ClassDef
    function: ast.FunctionDef | ast.AsyncFunctionDef


def _everything() -> Iterator[Known]:
    for name, tree in FILES.items():
        for holder in (tree, *(node for node in nodes(name) if isinstance(node, ast.ClassDef))):
            for function in holder.body:
                if isinstance(function, Function):
                    yield Known(name, holder, function)


@cache
def _by_name() -> dict[str, list[Known]]:
    found: dict[str, list[Known]] = defaultdict(list)
    for known in _everything():
        found[known.function.name].append(known)
    return found


@cache
def _classes() -> dict[str, list[ast.ClassDef]]:
    found: dict[str, list[ast.ClassDef]] = defaultdict(list)
    for name in FILES:
        for node in nodes(name):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(node)
    return found


def _last_name(node: ast.AST) -> str:
    """``c`` of ``a.b.c``, of ``c[...]`` and of ``c(...)``."""
    match node:
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return _last_name(inner)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


@cache
def lineage(error: str) -> frozenset[str]:
    """The names of a class of errors and of those above it, but for Exception; empty for what is none."""
    if isinstance(cls := getattr(builtins, error, None), type) and issubclass(cls, BaseException):
        return frozenset(c.__name__ for c in cls.__mro__) - {"object", "Exception", "BaseException"}
    above = {b for cls in _classes().get(error, ()) for b in map(_last_name, cls.bases)}
    names = frozenset[str]().union(*map(lineage, above))
    ends = above & {"Exception", "BaseException", *FOREIGN}
    if error in FOREIGN:
        return frozenset({error})
    return names | {error} if names or ends else frozenset()


def _own_nodes(body: list[ast.stmt]) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """What runs when the body does, each with the names of errors that are caught around it."""
    waiting: list[tuple[ast.AST, frozenset[str]]] = [(node, frozenset()) for node in body]
    while waiting:
        node, caught = waiting.pop()
        if isinstance(node, (*Function.__args__, ast.ClassDef, ast.Lambda)):
            continue
        yield node, caught
        inside = caught
        if isinstance(node, ast.Try):
            inside |= {
                _last_name(each)
                for handler in node.handlers
                if handler.type is not None
                for each in getattr(handler.type, "elts", [handler.type])
            }
        for child in ast.iter_child_nodes(node):
            is_tried = isinstance(node, ast.Try) and child in node.body
            waiting.append((child, inside if is_tried else caught))


@cache
def _imported(file: str) -> dict[str, str]:
    """The file that each name imported from the package comes from, or the folder of a package."""
    return {
        alias.asname or alias.name: node.module.removeprefix("tilewright.").replace(".", "/")
        for node in nodes(file)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tilewright.")
        for alias in node.names
        if node.module is not None
    }


def _helper(name: str, file: str, *, is_method: bool = False) -> list[Known]:
    """The functions that a name can be: of the same file, of the one it is imported from, else the only one,
    of methods the only one of the package."""
    found = _by_name().get(name, [])
    if is_method and (methods := [k for k in found if isinstance(k.holder, ast.ClassDef)]):
        package = file.partition("/")[0] + "/"
        found = [k for k in methods if k.file.startswith(package)] or methods
    if own := [known for known in found if known.file == file]:
        return own
    if (source := _imported(file).get(name)) is not None:
        return [k for k in found if k.file.startswith((f"{source}.py", f"{source}/"))]
    return found if len(found) == 1 else []


def _made_by(node: ast.expr, file: str) -> set[str]:
    """The classes of errors that the operand of a ``raise`` can be."""
    inner = node.func if isinstance(node, ast.Call) else node
    names = [inner.attr, _last_name(inner.value)] if isinstance(inner, ast.Attribute) else []
    for name in (*names, _last_name(inner)):
        if lineage(name):
            return {name}
        if isinstance(node, ast.Call):
            returned = {
                each.strip(" \"'")
                for known in _helper(name, file, is_method=isinstance(inner, ast.Attribute))
                if known.function.returns is not None
                for each in ast.unparse(known.function.returns).split("|")
            }
            if found := {each for each in returned if lineage(each)}:
                return found
    return set()


@cache
def raised(file: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """The classes of errors that leave a function from its own ``raise`` statements, and from helpers that
    never return."""
    found: set[str] = set()
    for node, caught in _own_nodes(function.body):
        if isinstance(node, ast.Raise) and node.exc is not None:
            made = _made_by(node.exc, file)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            made = _never_returns(_last_name(node.value.func), file, function.name)
        else:
            continue
        found |= {each for each in made if not lineage(each) & caught}
    return frozenset(found)


def _never_returns(name: str, file: str, around: str) -> set[str]:
    found = _helper(name, file)
    if name == around or not found:
        return set()
    if any(
        k.function.returns is None or _last_name(k.function.returns) != "NoReturn" for k in found
    ):
        return set()
    return {each for known in found for each in raised(known.file, known.function)}


def _told(known: Known) -> str | None:
    """What is said of a method: by itself, by the methods that it overrides, and by their classes; None where
    it overrides one of another package, which is what says it."""
    said = [ast.get_docstring(known.function)]
    around: list[str] = []
    waiting = [known.holder] if isinstance(known.holder, ast.ClassDef) else []
    seen: set[str] = set()
    while waiting:
        cls = waiting.pop()
        around.append(ast.get_docstring(cls) or "")
        for function in cls.body:
            if isinstance(function, Function) and function.name == known.function.name:
                said.append(ast.get_docstring(function))
        for base in {_last_name(base) for base in cls.bases} - seen:
            seen.add(base)
            waiting += _classes().get(base, ())
    if not any(said):
        return None
    return "\n".join([*filter(None, said), *around])


def _is_public(known: Known) -> bool:
    names = (known.function.name, getattr(known.holder, "name", ""))
    return not any(name.startswith("_") for name in names)


def _is_said_elsewhere(known: Known) -> bool:
    name = known.function.name
    if name in OF_OTHERS and isinstance(known.holder, ast.ClassDef):
        return True
    return isinstance(known.holder, ast.Module) and any(
        known.file.startswith(prefix) and name in names for prefix, names in TOLD_ELSEWHERE.items()
    )


def _unsaid() -> Iterator[str]:
    for known in _everything():
        if not _is_public(known) or _is_said_elsewhere(known):
            continue
        errors = raised(known.file, known.function) - OWN_MISTAKES
        if not errors or (told := _told(known)) is None or ELSEWHERE.search(told):
            continue
        words = {*re.findall(r"\w+", told), *(["TileIRError"] if CODED.search(told) else ())}
        missing = [e for e in errors if not lineage(e) & words]
        if missing:
            holder = getattr(known.holder, "name", "")
            yield f"{known.file}:{holder}.{known.function.name}: {', '.join(sorted(missing))}"


def test_public_functions_say_what_they_raise() -> None:
    found = list(_unsaid())
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ("raise ValueError('x')", {"ValueError"}),
        ("raise TileIRError.single(CODE, 'x')", {"TileIRError"}),
        ("raise truncated(3)", {"DecodeError"}),  # by its annotation
        ("raise self.truncated(3) from None", {"DecodeError"}),
        ("fail('x', 'y')", {"BuilderError"}),  # which never returns
        ("if x:\n        raise TypeError\n    raise KeyError", {"TypeError", "KeyError"}),
        ("try:\n        raise KeyError\n    except LookupError:\n        pass", set()),
        ("try:\n        x()\n    except KeyError:\n        raise TypeError", {"TypeError"}),
        ("try:\n        x()\n    except KeyError as e:\n        raise", set()),
        ("def inner():\n        raise KeyError\n    return inner", set()),
    ],
)
def test_what_leaves_a_function_is_found(body: str, errors: set[str]) -> None:
    file = "bytecode/encoding.py" if "truncated" in body else "builder/errors.py"
    function = ast.parse(f"def f(self):\n    {body}\n").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert raised(file, function) == errors


def test_classes_of_errors_are_known_with_those_above() -> None:
    assert {"BuilderError", "TileIRError", "TypeError"} <= lineage("BuilderError")
    assert lineage("CodedParseError") >= {"CodedParseError", "ParseError"}
    assert lineage("Builder") == frozenset()


def test_other_methods_may_say_it() -> None:
    """Each of these is a method that classes of ours have, and whose rule is another package's."""
    held = {k.function.name for k in _everything() if isinstance(k.holder, ast.ClassDef)}
    assert OF_OTHERS.keys() <= held
