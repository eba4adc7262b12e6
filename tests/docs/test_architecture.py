"""docs/architecture.md: its table has every package in the order of imports, and counts as the dialects do."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.test_structure import LEVEL, SOURCE, imported_packages, package_of

from tilewright.dialects import cuda_tile, nv_tileaa, nv_tileas

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
TABLE = TEXT.split("## Packages")[1].split("\n\n")[1]
ROWS = [
    {name.removesuffix(".py") for name in re.findall(r"`([\w.]+)`", row.split("|")[1])}
    for row in TABLE.splitlines()[2:]
]


def test_every_package_has_a_row() -> None:
    named = [name for row in ROWS for name in row]
    assert sorted(named) == sorted(LEVEL.keys() - {"__main__"})


def test_rows_stand_in_the_order_of_imports() -> None:
    above = {name: set().union(*ROWS[: at + 1]) for at, row in enumerate(ROWS) for name in row}
    for path in SOURCE.rglob("*.py"):
        if (package := package_of(path)) in above:
            assert imported_packages(path) <= above[package], path.relative_to(SOURCE)


def test_machines_do_not_import_each_other() -> None:
    machines = {"machine", "cpu", "simulator", "gpu"}
    assert len({LEVEL[name] for name in machines}) == 1
    for path in SOURCE.rglob("*.py"):
        if (package := package_of(path)) in machines:
            assert imported_packages(path) & machines <= {package}, path.relative_to(SOURCE)


def test_operations_are_counted() -> None:
    counts = {
        dialect.name: [op.name for op in dialect.operations]
        for dialect in (cuda_tile.load(), nv_tileaa.load(), nv_tileas.load())
    }
    further = sum(".ext." in name for name in counts["nv_tileaa"])
    assert f"`cuda_tile` ({len(counts['cuda_tile'])} operations)" in TABLE
    assert f"`nv_tileaa` ({len(counts['nv_tileaa']) - further}, and {further} ext" in TABLE
    assert f"`nv_tileas` ({len(counts['nv_tileas'])})" in TABLE


#: The marks by which tests skip where a tool of NVIDIA's is missing.
_TOOLS = re.compile(r"\brequires_(?:ptxas|nvdisasm|tileiras|tileirdisasm|tools)\b")


def test_tests_that_need_a_tool_are_marked() -> None:
    missing: list[str] = []
    for path in (ROOT / "tests").rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        if not _TOOLS.search(text):
            continue
        body = ast.parse(text).body
        shared = " ".join(
            ast.unparse(node) for node in body if isinstance(node, ast.Assign | ast.AnnAssign)
        )
        shared = shared if "pytestmark" in shared else ""
        for node in body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                marks = " ".join(map(ast.unparse, node.decorator_list)) + shared
                if _TOOLS.search(marks) and "pytest.mark.oracle" not in marks:
                    missing.append(f"{path.relative_to(ROOT)}::{node.name}")
    assert missing == []
