"""Every rule of the verifier has a program that breaks it and a nearest twin that does not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.verifier.programs import Program, programs
from tests.verifier.test_structure_rules import BROKEN

import tilewright
from tilewright.diagnostics import SourceFile, check_expectations

SOURCE = Path(tilewright.__file__).parent

#: Where the codes of the dialect, of its syntax and of the verifier are defined.
PACKAGES = (
    SOURCE / "dialects" / "declare.py",
    SOURCE / "dialects" / "cuda_tile",
    SOURCE / "dialects" / "syntax",
    *(
        SOURCE / "analysis" / f"{name}.py"
        for name in ("structure", "dominance", "symbols", "debug_rules", "hints", "verifier")
    ),
)

#: Codes that no case has, with the test that has them instead.
TESTED_ELSEWHERE = {
    "dialect-rule": "test_operations_of_other_dialects_follow_their_own_rules",
    "isolated-region": "test_isolated_regions_see_no_outer_values",
    "unregistered-op": "test_unregistered_operations_are_refused_unless_allowed",
}


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_reports_exactly_what_the_comments_say(program: Program) -> None:
    source = SourceFile(program.file, program.text)
    findings = check_expectations(source, program.diagnostics())
    assert not findings, "\n".join(finding.brief() for finding in findings)


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_programs_come_in_pairs(program: Program) -> None:
    rejected = "expected-error" in program.text or "expected-warning" in program.text
    assert rejected != program.is_twin


def test_rules_have_names_of_their_own() -> None:
    names = [program.name for program in programs()]
    assert sorted(set(names)) == sorted(names)


def defined_codes() -> set[str]:
    """The names in all calls of ``define_code`` in these packages."""
    found: set[str] = set()
    for package in PACKAGES:
        for path in [package] if package.is_file() else package.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                    continue
                if node.func.id == "define_code" and isinstance(node.args[0], ast.Constant):
                    found.add(str(node.args[0].value))
    return found


def test_every_code_is_reported_by_some_case() -> None:
    reported = {d.code for program in programs() for d in program.diagnostics()}
    reported |= {code for _, expected in BROKEN.values() for code in expected}
    assert defined_codes() - reported == TESTED_ELSEWHERE.keys()
