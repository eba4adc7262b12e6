"""Diagnostics as a SARIF 2.1.0 log, which code hosts and editors show beside the source."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

from tilewright.diagnostics.codes import find_code
from tilewright.diagnostics.diagnostic import Diagnostic, Severity
from tilewright.diagnostics.source import ByteSpan, NamedLocation, SourceLocation, Span

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}

_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]")
_LINK_LIKE = re.compile(r"\[(?=[^\[\]]*\]\()")


def to_sarif(diagnostics: Iterable[Diagnostic]) -> dict[str, object]:
    """Return a log with one run, made of JSON types only, with the results in the given order (SARIF 2.1.0).

    The rules are the codes that occur, by name, described from the registry. Columns and character
    offsets count Unicode code points. Notes with a location are related locations. Facts without one,
    and the help, follow the message text.
    """
    found = list(diagnostics)
    codes = sorted({diagnostic.code for diagnostic in found})
    rule_index = {code: index for index, code in enumerate(codes)}
    driver: dict[str, object] = {
        "name": "tilewright",
        "version": _version(),
        "rules": [_rule(code) for code in codes],
    }
    run: dict[str, object] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(diagnostic, rule_index[diagnostic.code]) for diagnostic in found],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _version() -> str:
    # Deferred, since the top-level module is not loaded yet when this one is.
    from tilewright import __version__

    return __version__


def _rule(name: str) -> dict[str, object]:
    rule: dict[str, object] = {"id": name}
    code = find_code(name)
    if code is None:
        return rule
    rule["shortDescription"] = _message(code.summary)
    if code.explanation:
        rule["fullDescription"] = _message(code.explanation)
    parts = [code.explanation or code.summary]
    if code.help:
        parts.append(f"Help: {code.help}.")
    if code.wrong:
        parts.append(f"Wrong:\n\n{code.wrong}")
    if code.right:
        parts.append(f"Right:\n\n{code.right}")
    rule["help"] = _message("\n\n".join(parts))
    return rule


def _result(diagnostic: Diagnostic, rule_index: int) -> dict[str, object]:
    facts = [note.message for note in diagnostic.notes if note.location is None]
    help_lines = [f"help: {diagnostic.help}"] if diagnostic.help else []
    result: dict[str, object] = {
        "ruleId": diagnostic.code,
        "ruleIndex": rule_index,
        "level": _LEVELS[diagnostic.severity],
        "message": _message("\n".join([diagnostic.message, *facts, *help_lines])),
    }
    if diagnostic.location is not None:
        result["locations"] = [_location(diagnostic.location, diagnostic.label)]
    related = [
        {"id": number, **_location(note.location, note.message)}
        for number, note in enumerate(diagnostic.notes, start=1)
        if note.location is not None
    ]
    if related:
        result["relatedLocations"] = related
    return result


def _location(place: SourceLocation, message: str) -> dict[str, object]:
    physical: dict[str, object] = {"artifactLocation": {"uri": _uri(place.file_name)}}
    region = _region(place)
    if region:
        physical["region"] = region
    location: dict[str, object] = {"physicalLocation": physical}
    if isinstance(place, ByteSpan | NamedLocation) and place.what:
        location["logicalLocations"] = [{"fullyQualifiedName": place.what}]
    if message:
        location["message"] = _message(message)
    return location


def _region(location: SourceLocation) -> dict[str, object]:
    """Return a region: lines and columns from 1, the end column exclusive; offsets from 0."""
    match location:
        case Span(_, start, end):
            return {
                "startLine": location.line,
                "startColumn": location.column,
                "endLine": location.end_line,
                "endColumn": location.end_column,
                "charOffset": start,
                "charLength": end - start,
            }
        case ByteSpan(_, offset, end):
            return {"byteOffset": offset, "byteLength": max(end - offset, 0)}
        case NamedLocation(_, line, column):
            known = {"startLine": line, "startColumn": column} if line > 0 else {}
            return {key: number for key, number in known.items() if number > 0}


def _message(text: str) -> dict[str, object]:
    """Return a literal message, escaped: SARIF reads braces as placeholders and ``[a](b)`` as a link."""
    literal = text.replace("{", "{{").replace("}", "}}")
    return {"text": _LINK_LIKE.sub(r"\\[", literal)}


def _uri(file_name: str) -> str:
    """Return a URI reference: relative for a relative name, ``file:`` for an absolute one."""
    if _WINDOWS_PATH.match(file_name):
        return (
            "file:///" + file_name[:2] + quote(file_name[2:].replace("\\", "/"), errors="replace")
        )
    path = quote(file_name, errors="replace")
    return f"file://{path}" if path.startswith("/") else path
