"""Write docs/reference/api.md from the docstrings of the public names: ``python tools/api_reference.py``.

With ``--check`` nothing is written, and the exit code is 1 where the page is not up to date.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "api.md"

#: Columns of a declaration that stays on one line.
WIDTH = 100
STABLE, PROVISIONAL = "Stable", "Provisional"


class Surface(NamedTuple):
    """A module whose ``__all__`` is public, and what is promised of it."""

    module: str
    promise: str
    pages: tuple[str, ...] = ()


SURFACES = (
    Surface("tilewright", STABLE, ("machines", "passes", "sanitizer")),
    Surface("tilewright.builder", STABLE, ("builder",)),
    Surface("tilewright.cutile", STABLE, ("cutile",)),
    Surface("tilewright.diagnostics", STABLE, ("json",)),
    Surface("tilewright.passes", STABLE, ("passes", "own_passes")),
    Surface("tilewright.machine.inspect", PROVISIONAL, ("debugging",)),
    Surface("tilewright.machine.sanitize", PROVISIONAL, ("sanitizer",)),
    Surface("tilewright.text", PROVISIONAL),
    Surface("tilewright.bytecode", PROVISIONAL),
    Surface("tilewright.analysis.tileaa", PROVISIONAL, ("analyses",)),
    Surface("tilewright.lowering", PROVISIONAL, ("lowering",)),
    Surface("tilewright.simulator", PROVISIONAL, ("simulator",)),
    Surface("tilewright.gpu", PROVISIONAL, ("gpu",)),
    Surface("tilewright.layouts", PROVISIONAL, ("nv_tileas",)),
)

HEAD = """\
# API reference

Made by `tools/api_reference.py` from the docstrings; do not edit it.

* **Stable**: a name, its parameters and what it promises change only with a warning for one version. Diagnostic codes, names of passes
  and options, and the forms of JSON ([json.md](../json.md)) are stable, too.
* **Provisional**: meant for use, documented and tested, but a version may change it without a warning.
* What is not on this page, and every name that begins with an underscore, is internal. The classes of operations, types and attributes
  (`tilewright.dialects`) follow the dialects: those of `cuda_tile` are stable, the others provisional.
"""


class MissingDocstring(Exception):
    """A public name says nothing."""


def page() -> str:
    """The text of the page."""
    rows = (
        f"| [`{s.module}`](#{_anchor(s.module)}) | {s.promise.lower()} | "
        f"{_first_paragraph(import_module(s.module).__doc__ or '')} |\n"
        for s in SURFACES
    )
    table = "| module | promise | what it has |\n| --- | --- | --- |\n" + "".join(rows)
    return "\n".join((HEAD, table, *map(_section, SURFACES)))


def _anchor(title: str) -> str:
    return title.replace(".", "")


def _section(surface: Surface) -> str:
    module = import_module(surface.module)
    more = ", ".join(f"[{page}.md](../{page}.md)" for page in surface.pages)
    lines = [
        f"## {surface.module}",
        "",
        surface.promise + "." + (f" More: {more}." if more else ""),
    ]
    for name in sorted(module.__all__, key=lambda name: (name.lower(), name)):
        if not name.startswith("_"):
            lines += ["", *_entry(surface.module, name, getattr(module, name))]
    return "\n".join(lines) + "\n"


def _entry(module: str, name: str, value: object) -> Iterator[str]:
    text = _documentation(name, value)
    if not text:
        raise MissingDocstring(f"{module}.{name} has no docstring")
    yield f"### {name}"
    if shown := _declaration(name, value):
        yield from ("", "```", shown, "```")
    yield from ("", text)
    if isinstance(value, type):
        members = list(_members(value))
        if members:
            yield ""
            yield from members


def _declaration(name: str, value: object) -> str:
    """How a class or function is called; nothing for a constant."""
    if not isinstance(value, type):
        return _signature(name, value) if inspect.isroutine(value) else ""
    for base in (enum.Enum, Exception):
        if issubclass(value, base):
            return f"class {name}({base.__name__})"
    return "class " + _signature(name, value).removesuffix(" -> None")


def _signature(name: str, value: object, *, bound: bool = False) -> str:
    """A call with its parameters, each on a line of its own where they are many."""
    found = inspect.signature(value)  # pyright: ignore[reportArgumentType]
    public = [each for each in found.parameters.values() if each.name[0] != "_"][bound:]
    shown, kinds = [_parameter(each) for each in public], [each.kind for each in public]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        shown.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    gives = "" if found.return_annotation is found.empty else f" -> {found.return_annotation}"
    line = f"{name}({', '.join(shown)}){gives}"
    if len(line) <= WIDTH or bound:
        return line
    return f"{name}(\n" + "".join(f"    {each},\n" for each in shown) + f"){gives}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {parameter.annotation}"
    if parameter.default is parameter.empty:
        return text
    between = "=" if parameter.annotation is parameter.empty else " = "
    return f"{text}{between}{_default(parameter.default)}"


def _default(value: object) -> str:
    """A default as one may write it; `...` for what is made anew for each object."""
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}()"
    if inspect.isroutine(value):
        return value.__name__
    return "..." if " object" in repr(value) or repr(value).startswith("<") else repr(value)


def _documentation(name: str, value: object) -> str:
    if isinstance(value, type) or inspect.isroutine(value):
        text = inspect.cleandoc(value.__doc__ or "")
        made_by_dataclass = isinstance(value, type) and text.startswith(f"{name}(")
        return "" if made_by_dataclass else _first_paragraph(text)
    return _comment(name, value)


def _first_paragraph(text: str) -> str:
    """As Markdown: double backticks and roles become single backticks."""
    joined = " ".join(inspect.cleandoc(text).split("\n\n")[0].split())
    joined = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", joined)
    return joined.replace("``", "`")


def _comment(name: str, value: object) -> str:
    """What stands above or below the assignment of a constant, in the module that has it."""
    for module in [m for n, m in sorted(sys.modules.items()) if n.startswith("tilewright")]:
        if vars(module).get(name) is value and module.__file__ is not None:
            source = Path(module.__file__).read_text(encoding="utf-8")
            if text := _comment_in(source, name):
                return _first_paragraph(text)
    return ""


def _comment_in(source: str, name: str) -> str:
    lines, body = source.splitlines(), ast.parse(source).body
    for at, node in enumerate(body):
        targets: Sequence[ast.expr] = ()
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = (node.target,)
        if not any(isinstance(target, ast.Name) and target.id == name for target in targets):
            continue
        after = body[at + 1] if at + 1 < len(body) else None
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            return str(after.value.value)
        above: list[str] = []
        line = node.lineno - 2
        while line >= 0 and lines[line].startswith("#:"):
            above.insert(0, lines[line].removeprefix("#:"))
            line -= 1
        return "\n".join(above)
    return ""


def _members(cls: type) -> Iterator[str]:
    """The documented public methods and properties that the class itself defines."""
    generated = _operations() if cls.__module__.startswith("tilewright.builder") else frozenset()
    if generated & vars(cls).keys():
        yield "* one method for each operation of `cuda_tile`, named by its mnemonic"
    for name, value in vars(cls).items():
        if name.startswith("_") or name in generated:
            continue
        inner = getattr(value, "__func__", value)
        if isinstance(inner, property):
            shown, text = name, inner.__doc__
        elif inspect.isfunction(inner):
            held = not isinstance(value, staticmethod)
            shown, text = _signature(name, inner, bound=held), inner.__doc__
        else:
            continue
        if text:
            yield f"* `{shown}`: {_first_paragraph(text)}"


def _operations() -> frozenset[str]:
    from tilewright.dialects.cuda_tile import load

    names = {op.name.partition(".")[2] for op in load().operations}
    return frozenset(names | {f"{name}_" for name in names})


def main(arguments: Sequence[str]) -> int:
    text = page()
    if "--check" in arguments:
        same = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text
        if not same:
            print(f"{PAGE.relative_to(ROOT)} is old: python tools/api_reference.py writes it anew")
        return 0 if same else 1
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
