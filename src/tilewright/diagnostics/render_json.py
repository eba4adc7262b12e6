"""Diagnostics as plain JSON values, for other programs, and back.

Each diagnostic is an object; every key is always present, and ``null`` means "not known":

========================  ======================================================================
``severity``              ``"error"``, ``"warning"`` or ``"note"``
``code``                  the stable code
``message``               what is wrong
``label``                 the short text beside the location, or ``""``
``help``                  a suggested fix, or ``""``
``notes``                 a list of objects with ``message`` and the location keys below
========================  ======================================================================

A diagnostic and each of its notes have these location keys:

========================  ======================================================================
``file``                  file name as given by the user, ``null`` without a location
``line``, ``column``      from 1; of the first character
``end_line``,             from 1; just after the last character; text spans only
``end_column``
``start``, ``end``        character offsets from 0, ``end`` exclusive; text spans only
``byte_offset``,          offsets from 0, ``byte_end`` exclusive; binary files only
``byte_end``
``what``                  the location in words (a function, a section), or ``""``
========================  ======================================================================

Columns and character offsets count Unicode code points. New keys may be added; those above keep
their meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

from tilewright.diagnostics.codes import define_code
from tilewright.diagnostics.diagnostic import Diagnostic, Note, Severity, TileIRError
from tilewright.diagnostics.source import ByteSpan, NamedLocation, SourceFile, SourceLocation, Span

MALFORMED_DIAGNOSTIC_JSON = define_code(
    "malformed-diagnostic-json",
    "A JSON value does not describe diagnostics.",
    "Diagnostics are read back from a list of objects as this version of the tool writes them. "
    "The message names the key whose value is missing or of the wrong kind.",
)

_NO_PLACE: dict[str, object] = {
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

_T = TypeVar("_T")


def to_json(diagnostics: Iterable[Diagnostic]) -> list[dict[str, object]]:
    """Return one object per diagnostic, in order, made of JSON types only (docs/json.md has the schema).

    Lines and columns count from 1, offsets from 0: characters in a text, bytes in a binary file.
    """
    return [
        {
            "severity": str(diagnostic.severity),
            "code": diagnostic.code,
            "message": diagnostic.message,
            "label": diagnostic.label,
            "help": diagnostic.help,
            **location_to_json(diagnostic.location),
            "notes": [
                {"message": note.message, **location_to_json(note.location)}
                for note in diagnostic.notes
            ],
        }
        for diagnostic in diagnostics
    ]


def from_json(value: object, sources: Mapping[str, SourceFile] | None = None) -> list[Diagnostic]:
    """Return the diagnostics from which :func:`to_json` made ``value``.

    ``sources`` maps names to source files; text spans in these files are restored as spans. A span in
    any other file, or beyond the end of its file, becomes a ``NamedLocation``, which keeps its start
    but not its end. Raises ``TileIRError`` for a value of another form. Unknown keys are ignored.
    """
    if not isinstance(value, list):
        raise _malformed("a list of diagnostics", value, "the document")
    known = sources or {}
    entries = cast("list[object]", value)
    return [_read_diagnostic(entry, f"[{index}]", known) for index, entry in enumerate(entries)]


def location_to_json(location: SourceLocation | None) -> dict[str, object]:
    """Return the location keys; those that are not known are None, or empty."""
    fields = _NO_PLACE.copy()
    match location:
        case None:
            return fields
        case Span(_, start, end):
            fields |= {"line": location.line, "column": location.column, "start": start, "end": end}
            fields |= {"end_line": location.end_line, "end_column": location.end_column}
        case ByteSpan(_, offset, byte_end, what):
            fields |= {"byte_offset": offset, "byte_end": byte_end, "what": what}
        case NamedLocation(_, line, column, what):
            fields |= {"line": line or None, "column": column or None, "what": what}
    fields["file"] = location.file_name
    return fields


class _Object:
    """A JSON object with typed, checked access. ``path`` is its position, for messages."""

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, dict):
            raise _malformed("an object", value, path)
        self._fields = cast("dict[object, object]", value)
        self._path = path

    def get(self, key: str, kind: type[_T], words: str) -> _T:
        value = self._fields.get(key)
        # bool is an int in Python but not in JSON.
        if not isinstance(value, kind) or isinstance(value, bool):
            raise _malformed(words, value, f"{self._path}.{key}")
        return value

    def text(self, key: str) -> str:
        return self.get(key, str, "a string")

    def number(self, key: str) -> int | None:
        if self._fields.get(key) is None:
            return None
        count = self.get(key, int, "a number of at least 0, or null")
        if count < 0:
            raise _malformed("a number of at least 0, or null", count, f"{self._path}.{key}")
        return count

    def place(self, sources: Mapping[str, SourceFile]) -> SourceLocation | None:
        if self._fields.get("file") is None:
            return None
        file, what = self.text("file"), self.text("what")
        offset, byte_end = self.number("byte_offset"), self.number("byte_end")
        if offset is not None:
            return ByteSpan(file, offset, offset if byte_end is None else byte_end, what)
        start, end = self.number("start"), self.number("end")
        source = sources.get(file)
        if (
            source is not None
            and start is not None
            and end is not None
            and start <= end <= len(source.text)  # the file may have changed since
        ):
            return Span(source, start, end)
        return NamedLocation(file, self.number("line") or 0, self.number("column") or 0, what)

    def list(self, key: str) -> list[_Object]:
        entries = cast("list[object]", self.get(key, list, "a list"))
        return [_Object(entry, f"{self._path}.{key}[{i}]") for i, entry in enumerate(entries)]


def _read_diagnostic(value: object, path: str, sources: Mapping[str, SourceFile]) -> Diagnostic:
    fields = _Object(value, path)
    severity = fields.text("severity")
    if severity not in {str(known) for known in Severity}:
        words = " or ".join(f'"{known}"' for known in Severity)
        raise _malformed(words, severity, f"{path}.severity")
    return Diagnostic(
        Severity(severity),
        fields.text("code"),
        fields.text("message"),
        fields.place(sources),
        fields.text("label"),
        tuple(Note(note.text("message"), note.place(sources)) for note in fields.list("notes")),
        fields.text("help"),
    )


def _malformed(expected: str, found: object, path: str) -> TileIRError:
    shown = "nothing" if found is None else repr(found)
    if len(shown) > 60:
        shown = shown[:57] + "..."
    return TileIRError.single(
        MALFORMED_DIAGNOSTIC_JSON, f"expected {expected} at {path}, found {shown}"
    )
