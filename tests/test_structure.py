"""The laws of the architecture: imports point down and not in circles, files and functions stay reviewable,
imports stay cheap. Lists of exceptions may only shrink: an entry that is none any more fails, too."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "tilewright"

#: Layers from the bottom up; a package may import packages of lower layers, and itself.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"lazy"}),
    frozenset({"diagnostics", "garbage", "nesting", "own_files"}),
    frozenset({"numerics", "layouts", "model", "campaign"}),
    frozenset({"dialects"}),
    frozenset({"text", "bytecode", "analysis"}),
    frozenset({"builder", "passes"}),
    frozenset({"lowering"}),
    frozenset({"launching"}),
    frozenset({"machine", "cpu", "simulator", "gpu"}),
    frozenset({"explain"}),
    frozenset({"profiling"}),
    frozenset({"tuning"}),
    frozenset({"cutile"}),
    frozenset({"pytest"}),
    frozenset({"cli", "universe"}),
    frozenset({"__main__"}),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
#: The same inside ``dialects``.
DIALECT_LAYERS: tuple[frozenset[str], ...] = (
    frozenset(
        {"versions", "source_map", "facts", "keywords", "print_formats", "narrowing", "backends"}
        | {"loading"}
    ),
    frozenset({"syntax"}),
    frozenset({"declare"}),
    frozenset({"upstream", "cuda_tile"}),
    frozenset({"nvgpu", "nv_tileaa"}),
    frozenset({"arith"}),
    frozenset({"nv_tileas"}),
)
DIALECT_LEVEL = {name: level for level, names in enumerate(DIALECT_LAYERS) for name in names}
#: The package itself: its version, and lazy names that lead to any package.
ROOT = {"__init__"}

MAX_LINES = 900
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 8

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def _parsed(name: str) -> ast.Module:
    return ast.parse((SOURCE / name).read_text(encoding="utf-8"))


class Files(Mapping[str, ast.Module]):
    """The files of the package, parsed when somebody looks at them: every worker collects these tests, and one runs them."""

    def __init__(self) -> None:
        self._names = [path.relative_to(SOURCE).as_posix() for path in sorted(SOURCE.rglob("*.py"))]

    def __getitem__(self, name: str) -> ast.Module:
        return _parsed(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


FILES = Files()

#: Functions that are longer than they should be.
LONG_FUNCTIONS = frozenset(
    {
        "cli/profile.py:add_arguments",
        "cpu/codegen/kernel.py:emit",
        "lowering/nvgpu/contraction.py:_add_pieces",
        "simulator/ops/control.py:_while",
        "simulator/ops/copies.py:_copy",
        "simulator/ops/warpgroups.py:_store",
    }
)
#: Functions that take more than they should.
MANY_PARAMETERS = frozenset(
    {
        "cutile/searching.py:search",  # They are those of cuTile's own function.
        "machine/inspect/breakpoints.py:break_at",
        "machine/sanitize/reporting.py:add",
        "simulator/launch.py:simulate",
    }
)
#: Files that import each other when they are loaded.
CIRCLES = frozenset(
    {
        frozenset({f"tilewright.dialects.{dialect}.{name}" for name in ("types", "type_syntax")})
        for dialect in ("cuda_tile", "nv_tileaa")
    }
)


#: Files that need each other's types, beyond those that load each other; none in ``cpu``.
TYPE_CIRCLES = frozenset(
    frozenset(f"tilewright.{package}.{name}" for name in names.split())
    for package, names in (
        ("builder", "elementwise kernel structure values"),
        ("bytecode", "tables types"),
        ("cutile", "launching machines settings"),
        ("lowering.nvgpu", "elementwise hidden_memory rounding state table"),
        ("lowering.scheduled", "pipelines state table"),
        ("profiling", "launch running"),
        (
            "simulator",
            "address_space counters global_conflicts groups lane_conflicts memory polling "
            "proxies recording shadow state tensor_maps values",
        ),
        ("text", "attribute_parser locations"),
        ("text", "generic_form parser"),
    )
)


@cache
def functions_of(name: str) -> frozenset[str]:
    return frozenset(node.name for node in FILES[name].body if isinstance(node, Function))


def package_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[0]


@cache
def nodes(name: str) -> tuple[ast.AST, ...]:
    """All that is in a file. There are a million nodes, which several tests look at."""
    return tuple(ast.walk(FILES[name]))


@cache
def imported_packages(path: Path, package: str = "tilewright") -> frozenset[str]:
    """The parts of a package that a file imports, also within functions."""
    found: set[str] = set()
    inside = package.split(".")
    for node in nodes(path.relative_to(SOURCE).as_posix()):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            whole = node.module == package
            names = [f"{package}.{a.name}" for a in node.names] if whole else [node.module]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[: len(inside)] == inside and len(parts) > len(inside):
                found.add(parts[len(inside)])
    return frozenset(part for part in found if f"{package}.{part}" in MODULES)


def _upward(
    paths: Iterable[Path], root: Path, package: str, levels: Mapping[str, int]
) -> list[str]:
    """The imports that do not lead to a lower layer."""
    found: list[str] = []
    for path in paths:
        own = path.relative_to(root).with_suffix("").parts[0]
        if own not in levels:
            found.append(f"{own} is in no layer")
            continue
        name = path.relative_to(root).as_posix()
        found += [
            f"{name} imports {other}, which is not below {own}"
            for other in imported_packages(path, package) - {own}
            if levels.get(other, -1) >= levels[own]
        ]
    return found


def test_imports_point_down() -> None:
    paths = [path for path in SOURCE.rglob("*.py") if package_of(path) not in ROOT]
    assert _upward(paths, SOURCE, "tilewright", LEVEL) == []


def test_imports_between_dialects_point_down() -> None:
    root = SOURCE / "dialects"
    paths = {*root.rglob("*.py")} - {root / "__init__.py"}
    assert _upward(paths, root, "tilewright.dialects", DIALECT_LEVEL) == []


def test_files_stay_reviewable() -> None:
    long = {
        str(path.relative_to(SOURCE)): count
        for path in SOURCE.rglob("*.py")
        if (count := path.read_text(encoding="utf-8").count("\n")) > MAX_LINES
    }
    assert not long


def _functions(name: str) -> Iterator[Function]:
    return (node for node in nodes(name) if isinstance(node, Function))


def _parameters(function: Function) -> int:
    """How many a caller can give; ``self`` and ``cls`` are not given."""
    taken = function.args
    names = [a.arg for a in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_functions_stay_readable() -> None:
    found = {
        f"{name}:{function.name}"
        for name in FILES
        for function in _functions(name)
        if (function.end_lineno or 0) - function.lineno + 1 > MAX_FUNCTION_LINES
    }
    assert found <= LONG_FUNCTIONS, f"over {MAX_FUNCTION_LINES} lines: {found - LONG_FUNCTIONS}"
    assert found >= LONG_FUNCTIONS, f"no longer too long: {LONG_FUNCTIONS - found}"


def test_functions_take_few_parameters() -> None:
    found = {
        f"{name}:{function.name}"
        for name in FILES
        for function in _functions(name)
        if _parameters(function) > MAX_PARAMETERS
    }
    assert found <= MANY_PARAMETERS, f"over {MAX_PARAMETERS}: {found - MANY_PARAMETERS}"
    assert found >= MANY_PARAMETERS, f"no longer too many: {MANY_PARAMETERS - found}"


def _module(name: str) -> str:
    return "tilewright." + name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


#: The file of each module.
MODULES = {_module(name): name for name in FILES}


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _loaded(tree: ast.AST, types: bool) -> Iterator[tuple[str, str]]:
    """What a file imports when it is loaded: (module, name), the name empty for a whole module.
    ``types``: also what it imports for its annotations."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (*Function.__args__, ast.Lambda)) or (
            _is_for_types(node) and not types
        ):
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        else:
            yield from _loaded(node, types)


def _loaded_modules(module: str, *, types: bool = False) -> set[str]:
    """The modules of ours that loading a module loads by its own imports; packages around them come
    along, but need not be complete."""
    found: set[str] = set()
    for source, name in _loaded(FILES[MODULES[module]], types):
        inner = f"{source}.{name}"
        found |= {inner if inner in MODULES else source} & MODULES.keys()
    return found - {module}


def circles(graph: Mapping[str, Collection[str]]) -> set[frozenset[str]]:
    """The sets of more than one node that can all reach each other."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        found: set[str] = set()
        waiting = [start]
        while waiting:
            for other in graph[waiting.pop()]:
                if other not in found:
                    found.add(other)
                    waiting.append(other)
        reached[start] = found
    return {
        frozenset(other for other in found if node in reached[other])
        for node, found in reached.items()
        if node in found
    }


def test_no_files_import_each_other() -> None:
    found = circles({module: _loaded_modules(module) for module in MODULES})
    assert found <= CIRCLES, [sorted(circle) for circle in found - CIRCLES]
    assert found >= CIRCLES, f"resolved: {[sorted(circle) for circle in CIRCLES - found]}"


def test_no_files_need_each_others_types() -> None:
    """Nor do they hide a circle behind ``TYPE_CHECKING``."""
    modules = MODULES.keys() - {"tilewright"}  # leads to any
    found = circles({module: _loaded_modules(module, types=True) & modules for module in modules})
    found -= CIRCLES
    assert found <= TYPE_CIRCLES, [sorted(circle) for circle in found - TYPE_CIRCLES]
    assert found >= TYPE_CIRCLES, f"resolved: {[sorted(circle) for circle in TYPE_CIRCLES - found]}"


def test_circles_are_found() -> None:
    graph = {"a": ["b"], "b": ["c"], "c": ["b"], "d": ["e"], "e": ["f", "a"], "f": ["d"], "g": []}
    assert circles(graph) == {frozenset("bc"), frozenset("def")}


#: What tells of functions that many modules have under one name: the protocol that they fill, or who calls them.
TOLD_ELSEWHERE = {
    "cli/": {"add_arguments", "execute"},  # of SubCommand (cli/main.py)
    "pytest.py": {
        name for name in functions_of("pytest.py") if name.startswith("pytest_")
    },  # hooks
}


def _overrides_documented(module: str, holder: ast.AST, name: str) -> bool:
    """Whether a method does what a class above its own tells of it."""
    if not isinstance(holder, ast.ClassDef) or not holder.bases:
        return False
    try:
        above = getattr(importlib.import_module(module), holder.name).__mro__[1:]
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return True  # Classes above those of torch are seen where it is installed.
    return any(getattr(cls.__dict__.get(name), "__doc__", None) for cls in above)


def _is_told_elsewhere(module: str, name: str) -> bool:
    return any(
        module.startswith(prefix) and name in names for prefix, names in TOLD_ELSEWHERE.items()
    )


def test_public_functions_are_documented() -> None:
    """Every public function and method says what it is for: itself, the base class whose method it overrides,
    or what ``TOLD_ELSEWHERE`` names."""
    found = [
        f"{name}:{getattr(holder, 'name', '')}.{function.name}"
        for name, tree in FILES.items()
        for holder in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef)))
        if not getattr(holder, "name", "").startswith("_")
        for function in holder.body
        if isinstance(function, Function) and not function.name.startswith("_")
        if not any(ast.unparse(each).endswith(".setter") for each in function.decorator_list)
        if ast.get_docstring(function) is None
        if not (isinstance(holder, ast.Module) and _is_told_elsewhere(name, function.name))
        if not _overrides_documented(_module(name), holder, function.name)
    ]
    assert not found, found


def test_what_is_told_elsewhere_is_told_there() -> None:
    from tilewright.cli.main import SubCommand

    assert all(getattr(SubCommand, name).__doc__ for name in TOLD_ELSEWHERE["cli/"])
    for prefix, names in TOLD_ELSEWHERE.items():
        files = [name for name in FILES if name.startswith(prefix)]
        assert names <= {each for name in files for each in functions_of(name)}


def test_docstrings_are_no_echo_of_the_name() -> None:
    """A docstring whose words are those of the name and of the class around it tells nothing."""
    found = [
        f"{name}:{function.name}: {text}"
        for name, tree in FILES.items()
        for holder in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef)))
        for function in holder.body
        if isinstance(function, Function) and (text := ast.get_docstring(function))
        if not _words(text)
        - _words(function.name)
        - {"the", "a", "an", "of", "is", "whether", "its", "it"}
    ]
    assert not found, found


def _words(text: str) -> set[str]:
    return {word.rstrip("s") for word in re.findall("[a-z0-9]+", text.lower())}


def test_nothing_below_asks_the_root() -> None:
    """The root's lazy names lead upwards; below, only the version is of use."""
    found = [
        f"{name}:{node.lineno}"
        for name in FILES
        if name != "__init__.py" and not name.startswith("cli/")
        for node in nodes(name)
        if (
            isinstance(node, ast.ImportFrom)
            and node.module == "tilewright"
            and any(
                a.name != "__version__" and f"tilewright.{a.name}" not in MODULES
                for a in node.names
            )
        )
        or (isinstance(node, ast.Import) and any(a.name == "tilewright" for a in node.names))
    ]
    assert not found


def test_private_names_of_parser_and_printer_stay_in_one_place() -> None:
    found = {
        f"{name}:{node.lineno}"
        for name in FILES
        if name != "dialects/syntax/tokens.py" and not name.startswith(("text/", "cli/"))
        for node in nodes(name)
        if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr)
        if isinstance(node.value, ast.Name) and node.value.id in {"parser", "printer"}
    }
    assert not found, found


def test_import_loads_nothing_heavy() -> None:
    program = (
        "import sys, tilewright\n"
        "heavy = {'numpy', 'xdsl', 'llvmlite', 'rich', 'cuda', 'ml_dtypes'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_public_names_exist() -> None:
    import tilewright

    for name in tilewright.__all__:
        assert getattr(tilewright, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tilewright.nothing
