"""The sanitizer finds every seeded bug, where it is, and nothing in the twins."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.sanitizer.cases import Case, cases

from tilewright import LaunchOptions
from tilewright.diagnostics import Diagnostic
from tilewright.machine import DEFAULT_MAX_ITERATIONS
from tilewright.machine.sanitize import sanitize

TWIN_SEEDS = range(3)

every_case = pytest.mark.parametrize("case", cases(), ids=lambda case: case.kind)


def findings(case: Case, entry: str, seeds: Iterable[int]) -> tuple[Diagnostic, ...]:
    report = sanitize(
        case.module(),
        case.symbol(entry),
        case.grid,
        list(case.arguments().values()),
        options=LaunchOptions(
            seeds=tuple(seeds),
            max_iterations=case.limit or DEFAULT_MAX_ITERATIONS,
            allow_overlap=True,
        ),
    )
    return report.diagnostics


@every_case
def test_the_bug_is_found(case: Case) -> None:
    found = findings(case, "bug", range(case.seeds))
    assert case.missing(found) == [], [d.brief() for d in found]
    assert all(d.help for d in found)
    assert case.false_alarms(found) == []


@every_case
def test_the_twin_is_clean(case: Case) -> None:
    found = findings(case, "twin", TWIN_SEEDS)
    assert [d.brief() for d in found] == []
