"""Text in, text out: each file under ``cases`` holds functions, a pipeline and what it gives.

The first line names the pipeline, ``// pass: canonicalize``; behind ``// ----- expected`` stands
the result, which ``pytest --bless`` writes. Independent of that, a function called ``fires...``
must change and one called ``stays...`` must not.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from xdsl.ir import Operation

from tilewright.analysis.verifier import verify
from tilewright.dialects.cuda_tile.ops.module import Function, ModuleOp
from tilewright.passes import PASSES, canonicalize, run_pipeline
from tilewright.passes.base import TilePass, functions
from tilewright.text import parse, print_text

CASES = sorted((Path(__file__).parent / "cases").glob("*.tileir"))
HEADER = "// pass: "
SEPARATOR = "// ----- expected\n"
REPEATABLE = {"canonicalize", "cse", "dce", "licm", "fuse-fma"}


def read(path: Path) -> tuple[str, str, str]:
    """(pipeline, input, expected output) of a case."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith(HEADER), f"{path.name} has no `{HEADER}` line"
    source, _, expected = text.partition(SEPARATOR)
    return source.splitlines()[0].removeprefix(HEADER), source, expected


def parse_module(source: str, name: str) -> ModuleOp:
    module = parse(source, name)
    assert isinstance(module, ModuleOp)
    return module


def printed_functions(module: ModuleOp) -> dict[str, str]:
    """The text of each function alone, so that value numbers do not depend on the others."""
    texts: dict[str, str] = {}
    for function in functions(module):
        alone = ModuleOp.make()
        alone.block.add_op(function.clone())
        texts[function.symbol] = print_text(alone, bare=True)
    return texts


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path, request: pytest.FixtureRequest) -> None:
    pipeline, source, expected = read(path)
    module = parse_module(source, path.name)
    before = printed_functions(module)
    run_pipeline(module, pipeline, verify_each=True)
    after = printed_functions(module)
    for name in before:
        assert name.startswith(("fires", "stays")), f"{name} says neither fires nor stays"
        if name.startswith("stays"):
            assert after[name] == before[name]
        else:
            assert after[name] != before[name]
    got = print_text(module, bare=True)
    if request.config.getoption("--bless"):
        path.write_text(f"{source.rstrip()}\n\n{SEPARATOR}{got.rstrip()}\n", encoding="utf-8")
        return
    assert got.rstrip() == expected.rstrip()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_result_is_read_back(path: Path) -> None:
    pipeline, source, _ = read(path)
    module = parse_module(source, path.name)
    run_pipeline(module, pipeline)
    text = print_text(module, bare=True)
    again = parse_module(text, path.name)
    verify(again)
    assert print_text(again, bare=True) == text


@pytest.mark.parametrize(
    "path", [p for p in CASES if read(p)[0] in REPEATABLE], ids=lambda path: path.stem
)
def test_second_run_changes_nothing(path: Path) -> None:
    pipeline, source, _ = read(path)
    module = parse_module(source, path.name)
    run_pipeline(module, pipeline)
    once = print_text(module)
    run_pipeline(module, pipeline)
    assert print_text(module) == once


def _tables() -> dict[str, Mapping[type[Operation], tuple[canonicalize.Rule, ...]]]:
    """The rules of each pass on ``cuda_tile`` whose module has a table of them."""
    modules = {
        name: sys.modules[PASSES[name].__module__]
        for name in PASSES
        if PASSES.is_own(name) and PASSES[name].LEVEL == TilePass.LEVEL
    }
    return {name: module.RULES for name, module in modules.items() if hasattr(module, "RULES")}


def test_every_rule_has_a_case() -> None:
    """A rule of a pass is exercised by a case: it fires in one of them."""
    tables = _tables()
    assert {"canonicalize", "fuse-fma"} <= tables.keys()
    rules = {rule for table in tables.values() for group in table.values() for rule in group}
    fired: set[object] = set()
    for path in CASES:
        pipeline, source, _ = read(path)
        if (table := tables.get(pipeline)) is None:
            continue

        def watched(rule: canonicalize.Rule) -> canonicalize.Rule:
            def call(op: object, rewriter: object) -> None:
                rule(op, rewriter)  # pyright: ignore[reportArgumentType]
                if rewriter.has_done_action:  # pyright: ignore[reportAttributeAccessIssue]
                    fired.add(rule)

            return call

        module = parse_module(source, path.name)
        spied = {kind: tuple(map(watched, group)) for kind, group in table.items()}
        canonicalize.apply_rules(module, spied)
    assert {rule.__name__ for rule in rules - fired} == set()  # pyright: ignore


def test_functions_are_found() -> None:
    module = parse_module("entry @a() {\n return\n}\nentry @b() {\n return\n}\n", "two.tileir")
    assert [f.symbol for f in functions(module) if isinstance(f, Function)] == ["a", "b"]
