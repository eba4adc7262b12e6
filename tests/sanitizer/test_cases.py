"""The corpus of seeded bugs is well-formed, and its twins are right on the reference machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.oracles import disassemble, requires_tileirdisasm
from tests.sanitizer.cases import CODES, FOLDER, Case, CaseError, cases, load

import tilewright
from tilewright import LaunchOptions, bytecode, machine
from tilewright.analysis.verifier import find_problems
from tilewright.diagnostics import Diagnostic, NamedLocation, Note, Severity, TileIRError

#: What ends a run on the plain reference machine as well, in every schedule.
FAULTS = frozenset(
    {
        "assertion-failed",
        "bad-step",
        "deadlock",
        "extent-too-large",
        "foreign-memory",
        "freed-memory",
        "inbounds-broken",
        "induction-overflow",
        "invalid-address",
        "misaligned-access",
        "outside-index-space",
        "read-only-memory",
        "step-limit",
        "sub-tile-index",
        "undefined-division",
    }
)
FAULTY = tuple(case for case in cases() if FAULTS.issuperset(case.expect))

SEEDS = range(3)

every_case = pytest.mark.parametrize("case", cases(), ids=lambda case: case.kind)


def run(case: Case, entry: str, seed: int) -> dict[str, np.ndarray | int | float]:
    """The arguments after a run of one of the two kernels on the plain reference machine."""
    arguments = case.arguments(seed)
    limit = case.limit or machine.DEFAULT_MAX_ITERATIONS
    values = list(arguments.values())
    tilewright.run(
        case.module(),
        case.symbol(entry),
        case.grid,
        values,
        options=LaunchOptions(seed=seed, max_iterations=limit, allow_overlap=True),
    )
    return arguments


def test_every_file_is_a_case() -> None:
    assert {case.path for case in cases()} == set(FOLDER.iterdir())


def test_every_code_has_a_case() -> None:
    assert {code for case in cases() for code in case.expect} == CODES


@every_case
def test_kernels_pass_the_verifier(case: Case) -> None:
    assert not find_problems(case.module(), hints="error")


@every_case
def test_bug_and_twin_differ(case: Case) -> None:
    bug, twin = (str(case.entry(name)) for name in ("bug", "twin"))
    assert bug.replace("@bug", "@twin", 1) != twin


@every_case
@pytest.mark.parametrize("seed", SEEDS)
def test_twin_is_right(case: Case, seed: int) -> None:
    assert case.twin_is_right(run(case, "twin", seed))


@every_case
def test_what_must_hold_does_not_hold_before(case: Case) -> None:
    assert case.twin is None or not case.twin_is_right(case.arguments())


@pytest.mark.parametrize("case", FAULTY, ids=lambda case: case.kind)
def test_faults_are_found_without_the_sanitizer(case: Case) -> None:
    found: list[Diagnostic] = []
    for seed in range(case.seeds):
        try:
            run(case, "bug", seed)
        except TileIRError as error:
            found += error.diagnostics
    assert not case.missing(found)
    assert not case.false_alarms(found)


@pytest.mark.rotates(2, 1)
@pytest.mark.oracle
@requires_tileirdisasm
@every_case
def test_tileirdisasm_accepts_the_kernels(case: Case) -> None:
    text = disassemble(bytecode.write(case.module()))
    for name in ("bug", "twin"):
        assert f"entry @{case.symbol(name)}(" in text


# The loader itself.

GOOD = """\
// kind: some-bug
// why: The first line,
// why: the second.
// expect: race
// launch: grid=2,3 x=iota:f32:4 n=5
// twin: x[0] == n
// seeds: 4
// limit: 10

entry @bug(%x: tile<ptr<f32>>, %n: tile<i32>) {
  // expected-error @below {{race: order}}
  return
}

entry @twin(%x: tile<ptr<f32>>, %n: tile<i32>) {
  return
}
"""


@pytest.fixture
def load_text(tmp_path: Path) -> Callable[[str], Case]:
    def write_and_load(text: str) -> Case:
        path = tmp_path / "some-bug.tileir"
        path.write_text(text, encoding="utf-8")
        return load(path)

    return write_and_load


def test_a_case_is_read(load_text: Callable[[str], Case]) -> None:
    case = load_text(GOOD)
    assert (case.kind, case.why, case.expect) == (
        "some-bug",
        "The first line, the second.",
        ("race",),
    )
    assert (case.grid, case.seeds, case.limit) == ((2, 3, 1), 4, 10)
    assert [(site.line, site.code, site.part) for site in case.sites] == [(12, "race", "order")]
    arguments = case.arguments()
    assert list(arguments) == ["x", "n"]
    assert arguments["x"].tolist() == [0, 1, 2, 3]
    assert arguments["n"] == 5
    assert not case.twin_is_right(arguments)
    arguments["x"][0] = 5
    assert case.twin_is_right(arguments)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("// kind: some-bug", "// kind: other", "not the name of the file"),
        ("// seeds: 4\n", "", "lacks seeds"),
        ("// seeds: 4", "// seeds: 0", "at least 1"),
        ("// limit: 10", "// limit: many", "at least 1"),
        ("// twin: x[0] == n\n// seeds: 4", "// seeds: 4\n// twin: none", "'twin' is out of place"),
        ("// seeds: 4", "// seeds: 4\n// seeds: 5", "'seeds' is out of place"),
        ("// twin:", "// twins:", "expected `// KEY: VALUE`"),
        ("grid=2,3", "grid=2x3", "expected grid"),
        ("// expect: race", "// expect: rice", "no code rice"),
        ("// expect: race", "// expect: deadlock", "other codes"),
        ("@below {{race: order}}", "{{race: order}}", "some-bug.tileir:11"),
        ("entry @twin(", "entry @second(", "expected the kernels"),
        ("entry @twin(%x", "entry @twin(%y", "other parameters"),
        (
            "%n: tile<i32>) {\n  return",
            "%n: tile<i32>) {\n  // expected-error @below {{race: order}}\n  return",
            "only @bug",
        ),
    ],
)
def test_bad_cases_are_refused(
    load_text: Callable[[str], Case], old: str, new: str, message: str
) -> None:
    assert old in GOOD
    with pytest.raises(CaseError, match=message):
        load_text(GOOD.replace(old, new))


def finding(code: str, message: str, line: int, note_line: int | None = None) -> Diagnostic:
    notes = (
        () if note_line is None else (Note("here", NamedLocation("some-bug.tileir", note_line)),)
    )
    location = NamedLocation("some-bug.tileir", line)
    return Diagnostic(Severity.ERROR, code, message, location, notes=notes)


@pytest.mark.parametrize(
    ("found", "is_met"),
    [
        (finding("race", "no order", 12), True),
        (finding("race", "no order", 3, note_line=12), True),
        (finding("race", "no order", 3), False),
        (finding("race", "something else", 12), False),
        (finding("deadlock", "no order", 12), False),
    ],
)
def test_findings_meet_sites(
    load_text: Callable[[str], Case], found: Diagnostic, is_met: bool
) -> None:
    case = load_text(GOOD)
    assert case.missing([found]) == ([] if is_met else list(case.sites))
    assert case.false_alarms([found]) == ([] if found.code == "race" else [found])
