"""Renders diagnostics as text for a terminal: location, underlined source, notes, suggested fix."""

from __future__ import annotations

import linecache
import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from tilewright.diagnostics.diagnostic import Diagnostic, Note, Severity
from tilewright.diagnostics.display import display_width, printable, view_line
from tilewright.diagnostics.source import ByteSpan, NamedLocation, SourceFile, SourceLocation, Span

_MIN_WIDTH = 40
# The width of line numbers or byte addresses of up to six digits, and the bar.
_GUTTER_WIDTH = len("999999 | ")
_RESET = "\x1b[0m"
_GUTTER_COLOR = "\x1b[1;34m"
_BOLD = "\x1b[1m"
_HELP_COLOR = "\x1b[1;32m"
_SEVERITY_COLORS = {
    Severity.ERROR: "\x1b[1;31m",
    Severity.WARNING: "\x1b[1;33m",
    Severity.NOTE: "\x1b[1;36m",
}

# A span over more lines shows only its first and last lines.
_MAX_SPAN_LINES = 6
_SPAN_HEAD_LINES = 3
_SPAN_TAIL_LINES = 2

_MAX_HEX_ROWS = 3
_HEX_ROW_BYTES = (16, 8, 4)  # the first that fits the width; the last fits the minimum width

# A debug location may name any file; a larger one is not a source file.
_MAX_SOURCE_BYTES = 16 << 20


def render(
    diagnostics: Iterable[Diagnostic],
    *,
    color: bool = False,
    width: int = 100,
    context_lines: int = 0,
    binaries: Mapping[str, bytes] | None = None,
) -> str:
    """Return all diagnostics in the given order and a line that counts them; "" if there are none.

    The result does not end with a newline. ``width`` is the number of terminal columns (at least 40) to
    which source lines are cut; messages are never cut. ``context_lines`` is the number of unmarked
    lines, or rows of bytes, around each marked one. ``binaries`` maps the names of binary files to
    their bytes, for hex dumps. ``color`` adds ANSI sequences; the environment is not consulted. Input
    text can never add such sequences, since control characters are replaced.

    Reads only files that a ``NamedLocation`` names. One that cannot be read, or is not a regular file,
    is shown by name only, unless it is the name of input entered in a notebook or an interactive session.
    """
    renderer = _Renderer(color, max(width, _MIN_WIDTH), max(context_lines, 0), binaries or {})
    counts: Counter[Severity] = Counter()
    blocks: list[str] = []
    for diagnostic in diagnostics:
        counts[diagnostic.severity] += 1
        blocks.append(renderer.block(diagnostic))
    if not blocks:
        return ""
    blocks.append(renderer.summary(counts))
    return "\n\n".join(blocks)


class _Shape(Enum):
    """How a line uses the gutter."""

    HEAD = auto()
    ARROW = auto()
    BAR = auto()
    GAP = auto()
    FACT = auto()


@dataclass(frozen=True, slots=True)
class _Line:
    shape: _Shape
    body: str = ""
    gutter: str = ""


_BLANK_BAR = _Line(_Shape.BAR)
_GAP = _Line(_Shape.GAP)


class _Renderer:
    """The options of one call, and the source files read for it."""

    def __init__(
        self, color: bool, width: int, context_lines: int, binaries: Mapping[str, bytes]
    ) -> None:
        self._color = color
        self._source_width = width - _GUTTER_WIDTH
        self._context_lines = context_lines
        self._binaries = binaries
        self._sources: dict[str, SourceFile | None] = {}

    def block(self, diagnostic: Diagnostic) -> str:
        color = _SEVERITY_COLORS[diagnostic.severity]
        title = f"{diagnostic.severity}[{printable(diagnostic.code)}]"
        lines = self._headline(title, color, diagnostic.message, _BOLD)
        lines += self._place_lines(diagnostic.location, diagnostic.label, color)
        for note in diagnostic.notes:
            lines += self._note_lines(note)
        if diagnostic.help:
            lines += self._headline("help", _HELP_COLOR, diagnostic.help)
        return self._lay_out(lines)

    def summary(self, counts: Counter[Severity]) -> str:
        """ "2 errors, 1 warning", the most severe first."""
        parts: list[str] = []
        for severity in Severity:
            if count := counts[severity]:
                words = f"{count} {severity}{'' if count == 1 else 's'}"
                parts.append(self._paint(words, _SEVERITY_COLORS[severity]))
        return ", ".join(parts)

    def _paint(self, text: str, color: str) -> str:
        return f"{color}{text}{_RESET}" if self._color and text and color else text

    def _headline(
        self, title: str, color: str, message: str, message_color: str = ""
    ) -> list[_Line]:
        first, *rest = (printable(part) for part in message.split("\n"))
        title = self._paint(f"{title}:", color)
        lines = [_Line(_Shape.HEAD, f"{title} {self._paint(first, message_color)}")]
        lines += [_Line(_Shape.HEAD, f"    {self._paint(part, message_color)}") for part in rest]
        return lines

    def _note_lines(self, note: Note) -> list[_Line]:
        if note.location is None:
            return _fact_lines(note.message)
        color = _SEVERITY_COLORS[Severity.NOTE]
        return [
            *self._headline("note", color, note.message),
            *self._place_lines(note.location, "", color),
        ]

    def _place_lines(self, location: SourceLocation | None, label: str, color: str) -> list[_Line]:
        """Return the ``-->`` line and what can be shown of the location, always with the label."""
        label = printable(" ".join(label.split("\n")))
        lines: list[_Line] = []
        snippet: list[_Line] = []
        if location is not None:
            lines.append(_Line(_Shape.ARROW, printable(describe_location(location))))
            snippet = self._snippet(location, label, color)
        if snippet:
            lines += [_BLANK_BAR, *snippet]
        elif label:
            lines.append(_Line(_Shape.FACT, label))
        return lines

    def _snippet(self, location: SourceLocation, label: str, color: str) -> list[_Line]:
        """Return the marked source with the label, or nothing if there is no source or no column."""
        match location:
            case Span(file, start, end):
                return self._text_snippet(file, start, max(start, end), label, color)
            case NamedLocation(file_name, line, column):
                file = self._source(file_name)
                if file is None or not 1 <= line <= file.line_count:
                    return []
                return self._named_snippet(file, line, column, label, color)
            case ByteSpan():
                data = self._binaries.get(location.file_name)
                if data is None or not 0 <= location.offset <= len(data):
                    return []
                return self._hex_snippet(data, location, label, color)

    def _source(self, file_name: str) -> SourceFile | None:
        if file_name not in self._sources:
            self._sources[file_name] = _read_source(file_name)
        return self._sources[file_name]

    def _text_snippet(
        self, file: SourceFile, start: int, end: int, label: str, color: str
    ) -> list[_Line]:
        length = len(file.text)
        start, end = max(0, min(start, length)), min(end, length)
        first = file.position(start)[0]
        # The line of the last character, so that a span ending after a newline stays on its line.
        last = file.position(max(start, end - 1))[0]
        before = range(max(1, first - self._context_lines), first)
        after = range(last + 1, min(file.line_count, last + self._context_lines) + 1)
        if first == last:
            view = view_line(file.text, file.line_range(first), (start, end), self._source_width)
            body = [_Line(_Shape.BAR, view.text, str(first))]
            body += self._mark_lines(view.start, view.end, label, color)
            indent = ""
        else:
            body = self._multi_line_body(file, (start, end), (first, last), label, color)
            indent = "  "
        return [
            *self._plain_lines(file, before, indent, len(indent)),
            *body,
            *self._plain_lines(file, after, indent, len(indent)),
        ]

    def _named_snippet(
        self, file: SourceFile, line: int, column: int, label: str, color: str
    ) -> list[_Line]:
        start, end = file.line_range(line)
        if column > 0:
            at = min(start + column - 1, end)
            return self._text_snippet(file, at, at, label, color)
        lines = [*self._plain_lines(file, range(line, line + 1))]
        if label:
            lines.append(_Line(_Shape.FACT, label))
        return lines

    def _plain_lines(
        self, file: SourceFile, numbers: range, indent: str = "", indent_width: int = 0
    ) -> Iterable[_Line]:
        """Yield unmarked lines, cut on the right. ``indent_width`` counts columns, not colour codes."""
        for number in numbers:
            start, end = file.line_range(number)
            width = self._source_width - indent_width
            view = view_line(file.text, (start, end), (start, start), width)
            yield _Line(_Shape.BAR, indent + view.text, str(number))

    def _mark_lines(self, start: int, end: int, label: str, color: str) -> list[_Line]:
        """Return carets under columns [start, end), with the label."""
        carets = " " * start + self._paint("^" * (end - start), color)
        return self._with_label(carets, start, end, label, color)

    def _with_label(self, marks: str, start: int, end: int, label: str, color: str) -> list[_Line]:
        """Return the marks, with the label after column ``end``, or below if it is too wide there."""
        painted = self._paint(label, color)
        label_width = display_width(label)
        if end + 1 + label_width <= self._source_width:
            return [_Line(_Shape.BAR, f"{marks} {painted}")]
        indent = max(0, min(start, self._source_width - label_width))
        return [_Line(_Shape.BAR, marks), _Line(_Shape.BAR, " " * indent + painted)]

    def _multi_line_body(
        self,
        file: SourceFile,
        span: tuple[int, int],
        lines: tuple[int, int],
        label: str,
        color: str,
    ) -> list[_Line]:
        """Return the lines of a span beside a bar from its first to its last character."""
        (start, end), (first, last) = span, lines
        side = self._paint("|", color) + " "
        width = self._source_width - 2
        line_start, line_end = file.line_range(first)
        opening = view_line(file.text, (line_start, line_end), (start, line_end), width)
        if file.text[line_start:start].strip():
            hook = " " + "_" * (opening.start + 1) + "^"
            body = [
                _Line(_Shape.BAR, f"  {opening.text}", str(first)),
                _Line(_Shape.BAR, self._paint(hook, color)),
            ]
        else:
            body = [_Line(_Shape.BAR, f"{self._paint('/', color)} {opening.text}", str(first))]
        if last - first + 1 > _MAX_SPAN_LINES:
            head = range(first + 1, first + _SPAN_HEAD_LINES)
            tail = range(last - _SPAN_TAIL_LINES + 1, last)
            body += [*self._plain_lines(file, head, side, 2), _GAP]
        else:
            tail = range(first + 1, last)
        body += self._plain_lines(file, tail, side, 2)
        line_start, line_end = file.line_range(last)
        end = min(end, line_end)
        closing = view_line(
            file.text, (line_start, line_end), (max(end - 1, line_start), end), width
        )
        hook = self._paint("|" + "_" * closing.end + "^", color)
        return [
            *body,
            _Line(_Shape.BAR, side + closing.text, str(last)),
            *self._with_label(hook, closing.end + 1, closing.end + 2, label, color),
        ]

    def _hex_snippet(self, data: bytes, place: ByteSpan, label: str, color: str) -> list[_Line]:
        """Return rows of bytes with carets under those of the span; an end of file is marked, too."""
        digits = max(4, len(f"{len(data):x}"))
        per_row = next(
            count
            for count in _HEX_ROW_BYTES
            if len(_hex_row(bytes(count), count)) <= self._source_width
        )
        end = min(max(place.end, place.offset + 1), len(data))
        last_row = max(len(data) - 1, 0) // per_row
        first = min(place.offset // per_row, last_row)
        last = max(first, (end - 1) // per_row)
        shown_last = min(last, first + _MAX_HEX_ROWS - 1)
        # What follows a cut still belongs to the span, so it must not appear as unmarked context.
        context_after = self._context_lines if shown_last == last else 0
        first_shown = max(0, first - self._context_lines)
        lines: list[_Line] = []
        for row in range(first_shown, min(last_row, shown_last + context_after) + 1):
            row_start = row * per_row
            chunk = data[row_start : row_start + per_row]
            lines.append(_Line(_Shape.BAR, _hex_row(chunk, per_row), f"{row_start:0{digits}x}"))
            if first <= row <= shown_last:
                marked_from = max(place.offset - row_start, 0)
                marked_to = max(min(end - row_start, per_row), marked_from + 1)
                columns = _hex_column(marked_from, per_row), _hex_column(marked_to - 1, per_row) + 2
                row_label = label if row == shown_last else ""
                lines += self._mark_lines(*columns, row_label, color)
        return lines if shown_last == last else [*lines, _GAP]

    def _lay_out(self, lines: list[_Line]) -> str:
        """Join the lines, with one gutter wide enough for every number of the block."""
        gutter_width = max([1, *(len(line.gutter) for line in lines)])
        pad = " " * gutter_width
        prefixes = {
            _Shape.ARROW: self._paint(f"{pad}-->", _GUTTER_COLOR),
            _Shape.FACT: self._paint(f"{pad} =", _GUTTER_COLOR),
            _Shape.GAP: self._paint("...", _GUTTER_COLOR),
        }
        out: list[str] = []
        for line in lines:
            if line.shape is _Shape.HEAD:
                out.append(line.body.rstrip())
                continue
            prefix = prefixes.get(line.shape) or self._paint(
                f"{line.gutter:>{gutter_width}} |", _GUTTER_COLOR
            )
            out.append(f"{prefix} {line.body}".rstrip())
        return "\n".join(out)


def _fact_lines(message: str) -> list[_Line]:
    first, *rest = (printable(part) for part in message.split("\n"))
    lines = [_Line(_Shape.FACT, first)]
    lines += [_Line(_Shape.BAR, f"  {part}") for part in rest]
    return lines


def describe_location(location: SourceLocation) -> str:
    """Return ``file:line:column`` or ``file: byte 0x1f``, with the location's description if any."""
    what = ""
    match location:
        case Span():
            where = f"{location.file_name}:{location.line}:{location.column}"
        case NamedLocation(file_name, line, column, what):
            where = ":".join([file_name, *(str(part) for part in (line, column) if part > 0)])
        case ByteSpan(file_name, offset, end, what):
            where = f"{file_name}: byte 0x{offset:x}"
            if end - offset > 1:
                where = f"{file_name}: bytes 0x{offset:x} to 0x{end - 1:x}"
    return f"{where} (in {what})" if what else where


def _hex_column(byte: int, per_row: int) -> int:
    """Return the column of a byte's first digit in a row; a gap separates the halves of a row."""
    return 3 * byte + (1 if byte >= per_row // 2 else 0)


def _hex_row(chunk: bytes, per_row: int) -> str:
    halves = chunk[: per_row // 2], chunk[per_row // 2 :]
    digits = "  ".join(half.hex(" ") for half in halves if half)
    letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in chunk)
    return f"{digits:<{_hex_column(per_row, per_row)}}  |{letters}|"


def _read_source(file_name: str) -> SourceFile | None:
    """Return the file's text, or None if it cannot be read, is not a regular file, or is too large.

    Notebook cells and lines of an interactive session have file names, too. Their text comes from where
    Python itself finds it for tracebacks.
    """
    try:
        status = os.stat(file_name)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_SOURCE_BYTES:
            return None
        with open(file_name, "rb") as stream:
            data = stream.read(_MAX_SOURCE_BYTES)
    except (OSError, ValueError):  # ValueError: an invalid file name
        return _interactive_source(file_name)
    return SourceFile(file_name, data.decode("utf-8", errors="replace"))


def _interactive_source(file_name: str) -> SourceFile | None:
    """Return the text that a session has entered under this name. Does not read files, since ``linecache``
    would search the directories of ``sys.path`` for one."""
    entry = linecache.cache.get(file_name)
    if entry is None:
        return None
    if len(entry) == 1:
        # Lazily loaded sources, such as modules in an archive, are read now.
        return SourceFile(file_name, "".join(linecache.getlines(file_name)))
    return SourceFile(file_name, "".join(entry[2]))
