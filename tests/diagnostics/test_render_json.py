"""JSON output: its schema, and the way back."""

from __future__ import annotations

import json

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
    Span,
    TileIRError,
    from_json,
    to_json,
)

FILE = SourceFile("k.tileir", "one\ntwo 日\r\nthree")


def test_schema_of_a_text_diagnostic() -> None:
    diagnostic = Diagnostic(
        Severity.ERROR,
        "type-mismatch",
        "expected i32, found f32",
        Span(FILE, 4, 9),
        "this",
        (Note("made by", NamedLocation("k.py", 7, 0, "kernel k")), Note("a fact")),
        "cast it",
    )
    nowhere = {
        "file": None,
        "line": None,
        "column": None,
        "end_line": None,
        "end_column": None,
        "start": None,
        "end": None,
        "byte_offset": None,
        "byte_end": None,
        "what": "",
    }
    assert to_json([diagnostic]) == [
        {
            **nowhere,
            "severity": "error",
            "code": "type-mismatch",
            "message": "expected i32, found f32",
            "label": "this",
            "help": "cast it",
            "file": "k.tileir",
            "line": 2,
            "column": 1,
            "end_line": 2,
            "end_column": 6,
            "start": 4,
            "end": 9,
            "notes": [
                {
                    **nowhere,
                    "message": "made by",
                    "file": "k.py",
                    "line": 7,
                    "what": "kernel k",
                },
                {**nowhere, "message": "a fact"},
            ],
        }
    ]


def test_schema_of_a_binary_diagnostic() -> None:
    place = ByteSpan("k.tileirbc", 31, 33, "function @k")
    (entry,) = to_json([Diagnostic(Severity.WARNING, "c", "m", place)])
    assert (entry["byte_offset"], entry["byte_end"], entry["what"]) == (31, 33, "function @k")
    assert (entry["file"], entry["line"], entry["start"]) == ("k.tileirbc", None, None)


# Any that UTF-8 can encode; hypothesis finds them by trying a million where it is not told which.
characters = st.characters(exclude_categories=["Cs"])
text = st.text(characters, max_size=8)
offsets = st.integers(0, len(FILE.text))
places = st.one_of(
    st.none(),
    st.tuples(offsets, offsets).map(lambda pair: Span(FILE, min(pair), max(pair))),
    st.builds(ByteSpan, text, st.integers(0, 2**64), st.integers(0, 2**64), text),
    st.builds(NamedLocation, text, st.integers(0, 99), st.integers(0, 99), text),
)
notes = st.lists(st.builds(Note, text, places), max_size=3).map(tuple)
diagnostics = st.builds(
    Diagnostic, st.sampled_from(Severity), text, text, places, text, notes, text
)


@given(st.lists(diagnostics, max_size=3))
def test_round_trip_through_json_text(found: list[Diagnostic]) -> None:
    document = json.loads(json.dumps(to_json(found)))
    assert from_json(document, {FILE.name: FILE}) == found


def test_a_span_of_an_unknown_or_shorter_file_keeps_its_beginning() -> None:
    document = to_json([Diagnostic(Severity.ERROR, "c", "m", Span(FILE, 4, 9))])
    expected = [Diagnostic(Severity.ERROR, "c", "m", NamedLocation("k.tileir", 2, 1))]
    assert from_json(document) == expected
    assert from_json(document, {FILE.name: SourceFile(FILE.name, "one\n")}) == expected


GOOD = to_json([Diagnostic(Severity.ERROR, "c", "m", ByteSpan("f", 1, 2), notes=(Note("n"),))])[0]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "expected a list of diagnostics at the document, found {}"),
        (None, "expected a list of diagnostics at the document, found nothing"),
        ([3], "expected an object at [0], found 3"),
        ([GOOD, {}], "expected a string at [1].severity, found nothing"),
        (
            [{**GOOD, "severity": "fatal"}],
            'expected "error" or "warning" or "note" at [0].severity, found \'fatal\'',
        ),
        ([{**GOOD, "code": 3}], "expected a string at [0].code, found 3"),
        ([{**GOOD, "file": 3}], "expected a string at [0].file, found 3"),
        (
            [{**GOOD, "byte_offset": True}],
            "expected a number of at least 0, or null at [0].byte_offset, found True",
        ),
        (
            [{**GOOD, "byte_end": -1}],
            "expected a number of at least 0, or null at [0].byte_end, found -1",
        ),
        ([{**GOOD, "notes": {}}], "expected a list at [0].notes, found {}"),
        ([{**GOOD, "notes": [[]]}], "expected an object at [0].notes[0], found []"),
        ([{**GOOD, "help": None}], "expected a string at [0].help, found nothing"),
        (["x" * 99], f"expected an object at [0], found '{'x' * 56}..."),
    ],
)
def test_other_values_are_refused_by_name(document: object, message: str) -> None:
    with pytest.raises(TileIRError) as caught:
        from_json(document)
    (finding,) = caught.value.diagnostics
    assert (finding.code, finding.message) == ("malformed-diagnostic-json", message)


def test_keys_of_later_versions_are_ignored() -> None:
    assert to_json(from_json([{**GOOD, "new": 1}])) == [GOOD]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(characters, max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD]), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from([*GOOD]), json_values))
def test_any_json_is_read_or_refused(changes: dict[str, object]) -> None:
    try:
        found = from_json([{**GOOD, **changes}])
    except TileIRError as refusal:
        assert refusal.diagnostics[0].code == "malformed-diagnostic-json"
    else:
        assert len(found) == 1
