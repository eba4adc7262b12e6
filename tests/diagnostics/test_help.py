"""Diagnostics of a run suggest a fix: their own, or that of their code."""

from __future__ import annotations

from importlib import import_module

import pytest

from tilewright.diagnostics import Diagnostic, Severity, find_code
from tilewright.diagnostics.codes import help_of
from tilewright.machine.faults import BAD_STEP

#: Modules whose codes a running kernel is reported with.
MODULES = (
    "cpu.codegen.memory.checks",
    "launching.codes",
    "launching.time_limits",
    "machine.faults",
    "machine.nan_report",
    "machine.sanitize.alias_assumptions",
    "machine.sanitize.reporting",
    "machine.tileaa.faults",
    "machine.tileaa.pipelines",
    "machine.tileaa.placement",
    "simulator.codes",
)
#: Reported before a kernel runs, about the launch; the message says what is expected.
OF_LAUNCHES = {
    *("bad-argument", "bad-grid", "llvmlite-missing", "unknown-entry"),
    *("sim-argument", "sim-kernel", "sim-tensor-map"),
}
#: Every diagnostic with one of these has a more specific suggestion; the cases of the sanitizer check that.
SPECIFIC = {"noalias-violation", "race", "uninitialized-value"}


@pytest.mark.parametrize("name", MODULES)
def test_codes_of_a_run_suggest_a_fix(name: str) -> None:
    module = import_module(f"tilewright.{name}")
    values = {value for key, value in vars(module).items() if key.isupper() and type(value) is str}
    codes = {value for value in values if find_code(value) is not None}
    assert codes
    assert {code for code in codes if not help_of(code)} <= OF_LAUNCHES | SPECIFIC


def test_the_help_of_a_code_gives_way_to_a_specific_one() -> None:
    general = Diagnostic(Severity.ERROR, BAD_STEP, "wrong")
    specific = Diagnostic(Severity.ERROR, BAD_STEP, "wrong", help="do that")
    assert (general.help, specific.help) == (help_of(BAD_STEP), "do that")
    assert general.help.startswith("use a positive step")
    assert Diagnostic(Severity.ERROR, "no-such-code", "wrong").help == ""
