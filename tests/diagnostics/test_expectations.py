"""Expectation comments: what meets them, what fails them, and how the failure is told."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.diagnostics import (
    ByteSpan,
    Diagnostic,
    NamedLocation,
    Note,
    Severity,
    SourceFile,
    SourceLocation,
    Span,
    check_expectations,
    define_code,
    find_code,
    render,
    split_input,
)

NAME = "t.tileir"


def at(line: int) -> NamedLocation:
    return NamedLocation(NAME, line, 1)


def error(line: int, text: str = "race: two stores overlap") -> Diagnostic:
    return reported(Severity.ERROR, line, text)


def reported(severity: Severity, line: int, text: str) -> Diagnostic:
    code, message = text.split(": ", 1)
    return Diagnostic(severity, code, message, at(line))


def check(text: str, *diagnostics: Diagnostic) -> list[str]:
    """``line code`` of each finding."""
    findings = check_expectations(SourceFile(NAME, text), diagnostics)
    assert all(finding.severity is Severity.ERROR for finding in findings)
    return [f"{finding.line} {finding.code}" for finding in findings]


UNEXPECTED = "unexpected-diagnostic"
MISSING = "missing-diagnostic"
MALFORMED = "malformed-expectation"


def test_nothing_expected_and_nothing_reported() -> None:
    assert check("// a comment\nop") == []


@pytest.mark.parametrize(
    "text",
    [
        "race: two stores overlap",
        "race: stores",
        "race",
        "race:",
        "two stores",
        "race: two st",
        "  race: overlap  ",
    ],
)
def test_texts_that_match(text: str) -> None:
    assert check(f"op // expected-error {{{{{text}}}}}", error(1)) == []


@pytest.mark.parametrize(
    "text", ["ace: two stores", "race: two loads", "Race", "rac: stores", "x", "very-race: stores"]
)
def test_texts_that_do_not_match(text: str) -> None:
    found = check(f"op // expected-error {{{{{text}}}}}", error(1))
    assert sorted(found) == [f"1 {MISSING}", f"1 {UNEXPECTED}"]


def test_a_code_is_whole_where_one_is_given() -> None:
    source = "op // expected-error {{race: stores}}"
    assert len(check(source, error(1, "no-race: stores"))) == 2
    # Words before a colon may also be part of the message.
    assert check(source, error(1, "other: found race: stores")) == []


def test_the_former_name_of_a_code_means_the_code() -> None:
    define_code("a-code-of-today", "A test.", was=("a-former-code",))
    source = "op // expected-error {{a-former-code: stores}}"
    with pytest.warns(DeprecationWarning, match="a-former-code is called a-code-of-today"):
        assert check(source, error(1, "a-code-of-today: two stores")) == []
    with pytest.warns(DeprecationWarning):
        found = find_code("a-former-code")
    assert found is not None and found.name == "a-code-of-today"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("op // expected-error {{race}}", 1),
        ("// expected-error @+1 {{race}}\nop", 2),
        ("// expected-error@+1 {{race}}\nop", 2),
        ("// expected-error @+2{{race}}\n\nop", 3),
        ("op\n// expected-error @-1 {{race}}", 1),
        ("// expected-error @below {{race}}\nop", 2),
        ("op\n// expected-error @above {{race}}", 1),
        ("// expected-error @below {{race}}\n// expected-note @below {{a}}\nop", 3),
        ("op\n// expected-note @above {{a}}\n// expected-error @above {{race}}", 1),
        ("op //expected-error{{race}}", 1),
        ("op /// prose, then expected-error {{race}}\r\n", 1),
        ("// expected-error @+1 1 {{race}}\n", 2),
    ],
)
def test_places(source: str, line: int) -> None:
    noted = error(line).with_notes(Note("a"))
    assert check(source, noted) == []
    others = [error(n).with_notes(Note("a")) for n in range(1, 5) if n != line]
    for other in others:
        codes = {finding.split()[1] for finding in check(source, other)}
        assert codes == {MISSING, UNEXPECTED}


def test_unknown_place_means_no_line_of_this_file() -> None:
    source = "// expected-error @unknown {{race}}"
    places: list[SourceLocation | None] = [
        None,
        ByteSpan(NAME, 3, 4),
        NamedLocation(NAME, 0),
        NamedLocation("other", 1),
        Span(SourceFile("other", "x"), 0, 1),
    ]
    for place in places:
        assert check(source, Diagnostic(Severity.ERROR, "race", "m", place)) == []
    assert check(source, error(1)) == [f"1 {UNEXPECTED}", f"1 {MISSING}"]


def test_severity_must_be_the_one_expected() -> None:
    for expected, actual in itertools.product(Severity, Severity):
        findings = check(
            f"op // expected-{expected} {{{{race}}}}", reported(actual, 1, "race: stores")
        )
        assert len(findings) == (0 if expected is actual else 2)


@pytest.mark.parametrize("reports", range(5))
def test_counts_are_exact(reports: int) -> None:
    findings = check_expectations(
        SourceFile(NAME, "op // expected-error 2 {{race}}"), [error(1)] * reports
    )
    if reports < 2:
        (finding,) = findings
        assert finding.message.endswith(f"(expected 2, found {reports})")
    else:
        assert [finding.code for finding in findings] == [UNEXPECTED] * (reports - 2)


def test_several_on_one_line() -> None:
    source = "op // expected-error {{race: two}} expected-warning {{unused}}"
    unused = reported(Severity.WARNING, 1, "unused: nothing reads it")
    assert check(source, error(1), unused) == []
    assert check(source, error(1)) == [f"1 {MISSING}"]


def test_a_loose_expectation_does_not_starve_a_strict_one() -> None:
    loose, strict = "{{race}}", "{{race: first}}"
    reports = [error(1, "race: first"), error(1, "race: second")]
    for one, other in itertools.permutations([loose, strict]):
        source = f"op // expected-error {one} expected-error {other}"
        for order in itertools.permutations(reports):
            assert check(source, *order) == []


@given(st.permutations(range(6)), st.permutations(range(6)))
def test_pairing_is_found_whenever_there_is_one(slots: list[int], events: list[int]) -> None:
    # Expectation n accepts the reports n and n + 1, so there is exactly one way to pair all.
    comments = " ".join(f"expected-error-re {{{{[{n}{min(n + 1, 5)}]$}}}}" for n in slots)
    reports = [error(1, f"code: number {n}") for n in events]
    assert check(f"op // {comments}", *reports) == []
    assert check(f"op // {comments}", *reports[1:]) == [f"1 {MISSING}"]


def test_regular_expressions_search_code_and_message() -> None:
    source = r"op // expected-error-re {{^race: (one|two) stores? over.ap$}}"
    assert check(source, error(1)) == []
    assert len(check(source, error(1, "race: three stores overlap"))) == 2
    # Without -re the same characters are plain text.
    assert len(check(source.replace("-re", ""), error(1))) == 2


def test_text_may_contain_braces() -> None:
    source = "op // expected-error {{found {i32}}}"
    assert check(source, error(1, "type: found {i32}")) == []
    assert len(check(source, error(1, "type: found {i32"))) == 2


def test_attached_notes_may_be_expected_but_need_not_be() -> None:
    noted = error(2).with_notes(Note("read here", at(1)), Note("no order"), Note("else", None))
    source = "a {0}\nb // expected-error {{{{race}}}} {1}"
    assert check(source.format("", ""), noted) == []
    here, fact = "// expected-note {{race: read here}}", "expected-note {{no order}}"
    assert check(source.format(here, fact), noted) == []
    assert check(source.format("", "expected-note {{read here}}"), noted) == [f"2 {MISSING}"]


def test_a_note_that_stands_alone_must_be_expected() -> None:
    note = reported(Severity.NOTE, 1, "hint: m")
    assert check("op", note) == [f"1 {UNEXPECTED}"]
    assert check("op // expected-note {{hint}}", note) == []
    # It takes the expectation that an attached note could have had too.
    attached = error(1, "hint: n").with_notes(Note("m"))
    source = "op // expected-note {{hint: m}} expected-error {{hint: n}}"
    assert check(source, attached, note) == []


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("expected-error {{no end", "cannot be understood"),
        ("expected-error race", "cannot be understood"),
        ("expected-error @here {{race}}", "cannot be understood"),
        ("expected-error @1 {{race}}", "cannot be understood"),
        ("expected-error two {{race}}", "cannot be understood"),
        ("expected-error 10000 {{race}}", "cannot be understood"),
        ("expected-errors {{race}}", "cannot be understood"),
        ("expected-remark {{race}}", "cannot be understood"),
        ("expected-error {{}}", "the expected text is empty"),
        ("expected-error {{  }}", "the expected text is empty"),
        ("expected-error 0 {{race}}", "the count is 0, expected at least 1"),
        ("expected-error-re {{(}}", "the regular expression is not valid: "),
        ("expected-error @-1 {{race}}", "`@-1` means line 0, but the file has lines 1 to 1"),
        ("expected-error @+1 {{race}}", "`@+1` means line 2, but the file has lines 1 to 1"),
        ("expected-error @below {{race}}", "`@below` means line 2, but"),
        ("expected-error @above {{race}}", "`@above` means line 0, but"),
    ],
)
def test_malformed_expectations_are_errors(comment: str, message: str) -> None:
    source = SourceFile(NAME, f"op // {comment}")
    (finding,) = check_expectations(source, [])
    assert finding.code == MALFORMED
    assert message in finding.message
    assert finding.line == 1
    assert finding.column == len("op // ") + 1


def test_a_malformed_expectation_does_not_hide_the_next() -> None:
    source = "op // expected-error @x {{a}} expected-error {{race}}"
    assert check(source, error(1)) == [f"1 {MALFORMED}"]
    assert check(source) == [f"1 {MALFORMED}", f"1 {MISSING}"]


def test_words_outside_comments_and_other_words_are_no_expectations() -> None:
    assert check('op {expected-error} "expected-error {{race}}"') == []
    assert check("// the expected-value is {{ 3 }}") == [f"1 {MALFORMED}"]
    assert check("// the expected-value is 3") == []


def test_findings_are_in_source_order() -> None:
    source = "a\nb // expected-error {{b}}\nc // expected-error @x {{c}}\nd"
    elsewhere = Diagnostic(Severity.ERROR, "e", "m")
    assert check(source, elsewhere, error(4), error(1)) == [
        f"1 {UNEXPECTED}",
        f"2 {MISSING}",
        f"3 {MALFORMED}",
        f"4 {UNEXPECTED}",
        f"None {UNEXPECTED}",
    ]


def test_how_failures_read() -> None:
    source = SourceFile(NAME, "a\nb // expected-error {{race: stores}}\n")
    misplaced = Diagnostic(Severity.ERROR, "race", "two stores overlap", Span(source, 0, 1))
    assert render(check_expectations(source, [misplaced])) == "\n".join(
        [
            "error[unexpected-diagnostic]: unexpected error: race: two stores overlap",
            " --> t.tileir:1:1",
            "  |",
            "1 | a",
            "  | ^",
            "help: if it is right, announce it: `// expected-error {{race: ...}}`",
            "",
            "error[missing-diagnostic]: expected error on line 2 was not reported: race: stores",
            " --> t.tileir:2:6",
            "  |",
            "2 | b // expected-error {{race: stores}}",
            "  |      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
            "note: a matching error was reported here",
            " --> t.tileir:1:1",
            "  |",
            "1 | a",
            "  | ^",
            "",
            "2 errors",
        ]
    )


def test_split_keeps_line_numbers() -> None:
    text = "a\nb\n// -----\nc\n  // -----  \n// ----- not alone\nd"
    assert split_input(text) == ["a\nb\n", "\n\n\nc\n", "\n\n\n\n\n// ----- not alone\nd"]


def test_split_of_odd_texts() -> None:
    assert split_input("") == [""]
    assert split_input("a") == ["a"]
    assert split_input("a\n") == ["a\n"]
    assert split_input("// -----") == ["", "\n"]
    assert split_input("// -----\n") == ["", "\n"]
    assert split_input("a\r\n// -----\r\nb\r\n") == ["a\r\n", "\n\nb\r\n"]
    assert split_input("a\n---\nb", marker="---") == ["a\n", "\n\nb"]


@given(st.lists(st.sampled_from(["a", "", "b\r", "// -----", "// ----- x"]), max_size=12))
def test_split_parts_cover_the_text_line_by_line(lines: list[str]) -> None:
    text = "\n".join(lines)
    parts = [SourceFile("f", part) for part in split_input(text)]
    assert len(parts) == 1 + lines.count("// -----")
    whole = SourceFile("f", text)
    for line in range(1, whole.line_count + 1):
        content = whole.line_text(line)
        shown = [part.line_text(line) for part in parts if line <= part.line_count]
        expected = "" if content == "// -----" else content
        assert [text for text in shown if text] == ([expected] if expected else [])


def test_expectations_in_a_part_speak_of_the_whole_file() -> None:
    text = "a\n// -----\n// expected-error @+1 {{race}}\nb\n// -----\nc"
    first, second, third = (SourceFile(NAME, part) for part in split_input(text))
    assert check_expectations(first, []) == []
    assert check_expectations(second, [error(4)]) == []
    assert [finding.line for finding in check_expectations(second, [])] == [3]
    assert check_expectations(third, []) == []
