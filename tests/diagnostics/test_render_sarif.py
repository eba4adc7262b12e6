"""The SARIF log: its content, and the rules of the SARIF 2.1.0 schema that matter to it."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright
from tilewright.diagnostics import (
    ByteSpan,
    Diagnostic,
    NamedLocation,
    Note,
    Severity,
    SourceFile,
    SourceLocation,
    Span,
    expectations,
    find_code,
    to_sarif,
)

FILE = SourceFile("dir/k 1.tileir", "one\ntwo 日\r\nthree")

# Allowed and required properties of the objects used, after the published schema.
OBJECTS: dict[str, tuple[set[str], set[str]]] = {
    "log": ({"$schema", "version", "runs"}, {"version", "runs"}),
    "run": ({"tool", "columnKind", "results"}, {"tool"}),
    "tool": ({"driver"}, {"driver"}),
    "driver": ({"name", "version", "rules"}, {"name"}),
    "rule": ({"id", "shortDescription", "fullDescription", "help"}, {"id"}),
    "result": (
        {"ruleId", "ruleIndex", "level", "message", "locations", "relatedLocations"},
        {"message"},
    ),
    "location": ({"id", "physicalLocation", "logicalLocations", "message"}, set()),
    "physicalLocation": ({"artifactLocation", "region"}, {"artifactLocation"}),
    "message": ({"text"}, {"text"}),
    "region": (
        {
            *("startLine", "startColumn", "endLine", "endColumn"),
            *("charOffset", "charLength", "byteOffset", "byteLength"),
        },
        set(),
    ),
}
# RFC 3986: the characters of a URI reference.
URI_REFERENCE = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-F]{2})*")


def check_object(kind: str, value: dict[str, Any]) -> dict[str, Any]:
    allowed, required = OBJECTS[kind]
    assert required <= value.keys() <= allowed
    return value


def check_message(value: dict[str, Any]) -> None:
    text = check_object("message", value)["text"]
    assert isinstance(text, str)
    without_pairs = text.replace("{{", "").replace("}}", "")
    assert not set("{}") & set(without_pairs), "a single brace is a placeholder"
    assert not re.search(r"(?<!\\)\[[^\[\]]*\]\(", text), "an embedded link"


def check_region(value: dict[str, int]) -> None:
    region = check_object("region", value)
    assert all(type(number) is int for number in region.values())
    assert {"startLine", "byteOffset"} & region.keys(), "a region begins somewhere"
    for key in ("startLine", "startColumn", "endLine", "endColumn"):
        assert region.get(key, 1) >= 1
    for key in ("charOffset", "charLength", "byteOffset", "byteLength"):
        assert region.get(key, 0) >= 0
    if "endLine" in region:
        begin = region["startLine"], region["startColumn"]
        assert begin <= (region["endLine"], region["endColumn"])


def check_location(value: dict[str, Any]) -> None:
    location = check_object("location", value)
    physical = check_object("physicalLocation", location["physicalLocation"])
    assert physical["artifactLocation"].keys() == {"uri"}
    assert URI_REFERENCE.fullmatch(physical["artifactLocation"]["uri"])
    if "region" in physical:
        check_region(physical["region"])
    if "message" in location:
        check_message(location["message"])
    for logical in location.get("logicalLocations", []):
        assert logical.keys() == {"fullyQualifiedName"}


def check_log(log: dict[str, Any]) -> dict[str, Any]:
    """Assert that the log obeys the schema; return its only run."""
    assert json.loads(json.dumps(log)) == log
    check_object("log", log)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    check_object("run", run)
    assert run["columnKind"] in {"utf16CodeUnits", "unicodeCodePoints"}
    rules = check_object("driver", check_object("tool", run["tool"])["driver"])["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for rule in rules:
        check_object("rule", rule)
        for key in rule.keys() - {"id"}:
            check_message(rule[key])
    for result in run["results"]:
        check_object("result", result)
        check_message(result["message"])
        assert result["level"] in {"none", "note", "warning", "error"}
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        related = result.get("relatedLocations", [])
        for location in [*result.get("locations", []), *related]:
            check_location(location)
        assert all(type(location["id"]) is int and location["id"] >= 0 for location in related)
        assert len({location["id"] for location in related}) == len(related)
    return run


def only_result(diagnostic: Diagnostic) -> dict[str, Any]:
    (result,) = check_log(to_sarif([diagnostic]))["results"]
    return result


def region_of(location: SourceLocation) -> dict[str, int] | None:
    result = only_result(Diagnostic(Severity.ERROR, "c", "m", location))
    return result["locations"][0]["physicalLocation"].get("region")


def uri_of(name: str) -> str:
    result = only_result(Diagnostic(Severity.ERROR, "c", "m", NamedLocation(name, 1)))
    return result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]


def test_an_empty_run_names_the_tool() -> None:
    run = check_log(to_sarif([]))
    assert run["results"] == []
    assert run["tool"]["driver"] == {
        "name": "tilewright",
        "version": tilewright.__version__,
        "rules": [],
    }


def test_a_result_with_everything() -> None:
    diagnostic = Diagnostic(
        Severity.WARNING,
        "c",
        "expected {i32}",
        Span(FILE, 4, 9),
        "this",
        (Note("a fact"), Note("made by", NamedLocation("k.py", 7, 2, "kernel k"))),
        "cast it",
    )
    assert only_result(diagnostic) == {
        "ruleId": "c",
        "ruleIndex": 0,
        "level": "warning",
        "message": {"text": "expected {{i32}}\na fact\nhelp: cast it"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "dir/k%201.tileir"},
                    "region": {
                        "startLine": 2,
                        "startColumn": 1,
                        "endLine": 2,
                        "endColumn": 6,
                        "charOffset": 4,
                        "charLength": 5,
                    },
                },
                "message": {"text": "this"},
            }
        ],
        "relatedLocations": [
            {
                "id": 2,
                "physicalLocation": {
                    "artifactLocation": {"uri": "k.py"},
                    "region": {"startLine": 7, "startColumn": 2},
                },
                "logicalLocations": [{"fullyQualifiedName": "kernel k"}],
                "message": {"text": "made by"},
            }
        ],
    }


def test_regions_of_other_places() -> None:
    assert region_of(ByteSpan("k", 31, 33)) == {"byteOffset": 31, "byteLength": 2}
    assert region_of(ByteSpan("k", 31, 31)) == {"byteOffset": 31, "byteLength": 0}
    assert region_of(NamedLocation("k", 7)) == {"startLine": 7}
    assert region_of(NamedLocation("k", 0)) is None
    assert "locations" not in only_result(Diagnostic(Severity.NOTE, "c", "m"))


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("a/b.py", "a/b.py"),
        ("/a/b c.py", "file:///a/b%20c.py"),
        ("C:\\a\\b.py", "file:///C:/a/b.py"),
        ("<stdin>", "%3Cstdin%3E"),
        ("odd:name", "odd%3Aname"),
        ("日", "%E6%97%A5"),
        ("\udcff", "%3F"),
    ],
)
def test_file_names_become_uri_references(name: str, uri: str) -> None:
    assert uri_of(name) == uri


def test_rules_are_the_codes_that_occur_described_from_the_registry() -> None:
    codes = ["unregistered", "malformed-expectation", "unregistered", "missing-diagnostic"]
    run = check_log(to_sarif([Diagnostic(Severity.ERROR, code, "m") for code in codes]))
    missing = find_code(expectations.MISSING_DIAGNOSTIC)
    assert missing is not None
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [
        "malformed-expectation",
        "missing-diagnostic",
        "unregistered",
    ]
    assert rules[1]["shortDescription"]["text"] == missing.summary
    help_text = rules[1]["help"]["text"]
    assert help_text.replace("{{{{", "{{").replace("}}}}", "}}") == missing.explanation
    assert rules[2] == {"id": "unregistered"}
    assert [result["ruleIndex"] for result in run["results"]] == [2, 0, 2, 1]


def test_text_is_never_read_as_a_link_or_placeholder() -> None:
    result = only_result(Diagnostic(Severity.ERROR, "c", "out[64:128](1) is {0}"))
    assert result["message"]["text"] == "out\\[64:128](1) is {{0}}"


text = st.text(alphabet="a{}[]()\\%/:日\ud800 ", max_size=8)
offsets = st.integers(0, len(FILE.text))
places = st.one_of(
    st.none(),
    st.tuples(offsets, offsets).map(lambda pair: Span(FILE, min(pair), max(pair))),
    st.builds(ByteSpan, text, st.integers(0, 99), st.integers(0, 99), text),
    st.builds(NamedLocation, text, st.integers(0, 9), st.integers(0, 9), text),
)
notes = st.lists(st.builds(Note, text, places), max_size=3).map(tuple)
diagnostics = st.builds(
    Diagnostic, st.sampled_from(Severity), text, text, places, text, notes, text
)


@given(st.lists(diagnostics, max_size=3))
def test_every_log_obeys_the_schema(found: list[Diagnostic]) -> None:
    run = check_log(to_sarif(found))
    assert [result["ruleId"] for result in run["results"]] == [d.code for d in found]
    for result, diagnostic in zip(run["results"], found, strict=True):
        place = diagnostic.location
        if isinstance(place, Span):
            location = result["locations"][0]["physicalLocation"]
            assert unquote(location["artifactLocation"]["uri"]) == FILE.name
            region = location["region"]
            begin, length = region["charOffset"], region["charLength"]
            assert FILE.text[begin : begin + length] == place.text
