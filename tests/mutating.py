"""Operators of a module flipped, one at a time, to see whether tests notice.

As a plugin (``python -m pytest -p tests.mutating``) it loads one module of ours in a mutated form: the
variable ``TILEWRIGHT_MUTANT`` names the module and the number of the mutant, ``tilewright.passes.dce:3``.

By hand, for all mutants of a module or those of some lines::

    python -m tests.mutating tilewright.analysis.tileaa.bounds tests/analysis/tileaa/test_bounds.py --lines 225-250
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType

from tests.sampling import MUTANT

ROOT = Path(__file__).resolve().parent.parent
VARIABLE = MUTANT
LIMIT_S = 300

_FLIPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Site:
    """A place where a module can be mutated, in the order of :func:`sites`."""

    number: int
    line: int
    what: str


def _is_type(node: ast.AST) -> bool:
    """Whether a side of ``|`` is a type, as far as its spelling tells."""
    if isinstance(node, ast.BinOp):
        return _is_type(node.left) or _is_type(node.right)
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return (isinstance(node, ast.Constant) and node.value is None) or (
        name[:1].isupper() and not name.isupper()
    )


def _annotations(tree: ast.AST) -> list[ast.AST | None]:
    """The types that a function, a parameter or a variable is annotated with."""
    return [getattr(tree, "annotation", None), getattr(tree, "returns", None)]


def _places(tree: ast.AST) -> Iterator[tuple[ast.expr, int]]:
    """Expressions that hold an operator to flip, and which of their operators."""
    for node in ast.iter_child_nodes(tree):
        # What is only said, to people or of types: annotations are not evaluated.
        if isinstance(node, ast.Assert | ast.Raise | ast.JoinedStr) or node in _annotations(tree):
            continue
        if isinstance(node, ast.Compare):
            yield from ((node, index) for index, op in enumerate(node.ops) if type(op) in _FLIPS)
        elif (
            isinstance(node, ast.BoolOp)
            or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
            or (
                isinstance(node, ast.BinOp)
                and type(node.op) in _FLIPS
                and not (isinstance(node.op, ast.BitOr) and _is_type(node))
            )
            or (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in _NAMES
            )
        ):
            yield node, 0
        yield from _places(node)


def _flip(node: ast.expr, index: int) -> str:
    """Change an operator in place; what has been changed into what."""
    before = ast.unparse(node)
    if isinstance(node, ast.Compare):
        node.ops[index] = _FLIPS[type(node.ops[index])]()  # pyright: ignore[reportCallIssue, reportArgumentType]
    elif isinstance(node, ast.BoolOp | ast.BinOp):
        node.op = _FLIPS[type(node.op)]()  # pyright: ignore[reportAttributeAccessIssue]
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd()
        node.operand = ast.Call(ast.Name("bool", ast.Load()), [node.operand], [])
        ast.fix_missing_locations(node)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        node.func.id = _NAMES[node.func.id]
    return f"{before}  ->  {ast.unparse(node)}"


def sites(source: str) -> list[Site]:
    """Every mutant that a source has."""
    found: list[Site] = []
    for number, (node, index) in enumerate(_places(ast.parse(source))):
        found.append(Site(number, node.lineno, _flip(copy.deepcopy(node), index)))
    return found


def mutated(source: str, number: int) -> ast.Module:
    """The tree of a source with one operator flipped."""
    tree = ast.parse(source)
    node, index = list(_places(tree))[number]
    _flip(node, index)
    return ast.fix_missing_locations(tree)


class _Loader(SourceFileLoader):
    number = -1

    def get_code(self, fullname: str):
        source = self.get_data(self.path).decode()
        return compile(mutated(source, self.number), self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds one module, and has it loaded in a mutated form."""

    def __init__(self, module: str, number: int):
        self.module, self.number = module, number

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.module:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None and spec.origin is not None
        loader = _Loader(fullname, spec.origin)
        loader.number = self.number
        spec.loader = loader
        return spec


def file_of(module: str) -> Path:
    return ROOT / "src" / (module.replace(".", "/") + ".py")


def survives(module: str, number: int, tests: Sequence[str]) -> bool:
    """Whether tests pass with a mutant of a module in the place of it."""
    paths = (str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))
    environment = os.environ | {
        VARIABLE: f"{module}:{number}",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "tests.mutating"]
    command += ["-p", "no:cacheprovider", *tests]
    try:
        ran = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return False
    # A signal ends tests of native code: negative here, 139 and the like behind a shell.
    if ran.returncode not in (0, 1, 2) and 0 < ran.returncode < 128:
        raise RuntimeError(f"the tests could not run: {ran.stdout.decode()[-2000:]}")
    return ran.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description="Tell which mutants of a module survive tests.")
    parser.add_argument("module")
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--lines", default="1-1000000", help="FIRST-LAST")
    given = parser.parse_args()
    first, last = map(int, given.lines.split("-"))
    for site in sites(file_of(given.module).read_text(encoding="utf-8")):
        if first <= site.line <= last:
            kept = survives(given.module, site.number, given.tests)
            print(f"{'SURVIVES' if kept else 'killed  '} {site.line}: {site.what}", flush=True)


if VARIABLE in os.environ:
    _module, _, _number = os.environ[VARIABLE].partition(":")
    sys.meta_path.insert(0, _Finder(_module, int(_number)))

if __name__ == "__main__":
    main()
