"""Checks diagnostics against expectations in comments of the source.

An expectation is written in a ``//`` comment::

    %c = addi %a, %b : tile<i32>   // expected-error {{type-mismatch: found tile<f32>}}
    // expected-error @-1 {{found tile<f32>}}
    // expected-warning @below 2 {{unused-value}}
    // expected-note-re @+3 {{defined (here|there)}}

- The kind is ``expected-error``, ``expected-warning`` or ``expected-note``.
- The line is this one, ``@+N`` or ``@-N`` lines away, ``@above`` or ``@below`` (the nearest
  line that does not consist of expectations alone), or ``@unknown`` (no line of this file).
- The count is how many diagnostics must match, 1 by default.
- The text ``code: part`` requires exactly that code and a message that contains the part. Other
  text must occur in ``code: message``. With ``-re`` the text is a regular expression searched
  for in ``code: message``.

A comment that resembles an expectation but is not one is an error, so that a typo never disables a
check.

Every error and warning, and every separate note, must be expected. Notes attached to a diagnostic
can be expected, at their own line or, if they have none, at that of the diagnostic, but need not be,
so that explanations may grow.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright.diagnostics.codes import define_code, present_name
from tilewright.diagnostics.diagnostic import Collector, Diagnostic, Note, Severity
from tilewright.diagnostics.source import NamedLocation, SourceFile, SourceLocation, Span

UNEXPECTED_DIAGNOSTIC = define_code(
    "unexpected-diagnostic",
    "A diagnostic was reported that no comment expects.",
    "When diagnostics are verified, each error and warning must be announced by a comment such "
    "as `// expected-error {{code: text}}` on its line, or on another line with `@above`, "
    "`@below`, `@+N` or `@-N`.",
)
MISSING_DIAGNOSTIC = define_code(
    "missing-diagnostic",
    "A comment expects a diagnostic that was not reported.",
    "When diagnostics are verified, each `// expected-error {{code: text}}` comment must be "
    "matched by a diagnostic of that severity and text on the line that the comment refers to.",
)
MALFORMED_EXPECTATION = define_code(
    "malformed-expectation",
    "A comment that expects a diagnostic is malformed.",
    "The form is `// expected-error @+1 2 {{code: text}}`: a severity, then optionally a place "
    "(`@above`, `@below`, `@+N`, `@-N`, `@unknown`) and a count from 1 to 9999, then the text.",
)

_FORM = "// expected-error @+1 2 {{code: text}}"

_SEVERITIES = {str(severity): severity for severity in Severity}

# Anything that looks like an attempt at an expectation, so that typos are reported.
_ATTEMPT = re.compile(r"\bexpected-(?:(?:error|warning|note)(?![\w])|[\w-]+(?=[^{}]*\{\{))")
_EXPECTATION = re.compile(
    r"expected-(?P<kind>error|warning|note)(?P<regex>-re)?"
    r"[ \t]*(?:@(?P<place>[+-]\d{1,9}|above|below|unknown))?"
    r"(?:[ \t]*\b(?P<count>\d{1,4}))?"
    r"[ \t]*\{\{(?P<text>.*?)\}\}(?!\})"
)
_CODE_AND_PART = re.compile(r"(?P<code>[a-z][a-z0-9]*(?:-[a-z0-9]+)*): +(?P<part>.+)", re.DOTALL)


def split_input(text: str, marker: str = "// -----") -> list[str]:
    """Split ``text`` at the lines that consist of ``marker``.

    Each part begins with as many empty lines as precede it in ``text``, so that its line numbers are
    those of the whole.
    """
    parts: list[str] = []
    part: list[str] = []
    lines_before = 0
    for line_index, line in enumerate(text.split("\n")):
        if line.strip() == marker:
            parts.append("\n" * lines_before + "".join(part))
            part, lines_before = [], line_index + 1
        else:
            part.append(line + "\n")
    # Only the last line of the text has no line terminator.
    parts.append(("\n" * lines_before + "".join(part))[: -1 if part else None])
    return parts


def check_expectations(source: SourceFile, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return an error for every unexpected diagnostic, every missing one, and every malformed expectation.

    The result is empty if the diagnostics are exactly those that ``source`` expects. Errors are in
    source order, those without a line in it last.
    """
    collector = Collector()
    expectations = _parse(source, collector)
    events = [event for d in diagnostics for event in _events(source, d)]
    slots: dict[tuple[int | None, Severity], list[_Expectation]] = defaultdict(list)
    for expectation in expectations:
        slots[expectation.line, expectation.severity] += [expectation] * expectation.count
    by_place: dict[tuple[int | None, Severity], list[_Event]] = defaultdict(list)
    for event in events:
        by_place[event.line, event.severity].append(event)

    matched: dict[_Expectation, int] = defaultdict(int)
    left_over: list[_Event] = []
    for key in dict.fromkeys([*slots, *by_place]):
        pairing = _pair(slots[key], by_place[key])
        for slot_index in pairing.values():
            matched[slots[key][slot_index]] += 1
        left_over += [e for i, e in enumerate(by_place[key]) if i not in pairing]
    for event in left_over:
        if event.required:
            _report_unexpected(event, collector)
    for expectation in expectations:
        if matched[expectation] < expectation.count:
            _report_missing(expectation, matched[expectation], left_over, collector)
    return sorted(collector.diagnostics, key=lambda finding: _order(source, finding.location))


@dataclass(frozen=True, slots=True, eq=False)
class _Expectation:
    """An expected diagnostic. ``line`` is its line; ``span`` is where the comment is."""

    severity: Severity
    line: int | None
    count: int
    text: str
    regex: re.Pattern[str] | None
    span: Span

    def accepts(self, event: _Event) -> bool:
        full = f"{event.code}: {event.message}"
        if self.regex is not None:
            return self.regex.search(full) is not None
        if named := _CODE_AND_PART.fullmatch(self.text):
            if present_name(named["code"]) == event.code and named["part"] in event.message:
                return True
            # The message itself may contain words that look like a code.
            return self.text in event.message
        return self.text in full


@dataclass(frozen=True, slots=True, eq=False)
class _Event:
    """A diagnostic or attached note; ``line`` is None if it is on no line of the source."""

    severity: Severity
    line: int | None
    code: str
    message: str
    location: SourceLocation | None
    required: bool


def _events(source: SourceFile, diagnostic: Diagnostic) -> Iterable[_Event]:
    line = _line_in(source, diagnostic.location)
    code, place = diagnostic.code, diagnostic.location
    yield _Event(diagnostic.severity, line, code, diagnostic.message, place, True)
    for note in diagnostic.notes:
        note_line = line if note.location is None else _line_in(source, note.location)
        yield _Event(Severity.NOTE, note_line, code, note.message, note.location or place, False)


def _line_in(source: SourceFile, location: SourceLocation | None) -> int | None:
    if not isinstance(location, Span | NamedLocation) or location.file_name != source.name:
        return None
    return location.line or None


def _parse(source: SourceFile, collector: Collector) -> list[_Expectation]:
    """Return the expectations of a file in order. Malformed ones are reported to ``collector``."""
    found: list[_Expectation] = []
    matches: list[tuple[int, int, re.Match[str]]] = []
    designator_lines: set[int] = set()
    for line in range(1, source.line_count + 1):
        start, end = source.line_range(line)
        comment = source.text.find("//", start, end)
        if comment < 0 or source.text.find("expected-", comment, end) < 0:
            continue
        text = source.text[comment:end]
        if _only_expectations(source.text[start:end]):
            designator_lines.add(line)
        for match in _scan(text, source, comment, collector):
            matches.append((line, comment, match))
    for line, comment, match in matches:
        span = Span(source, comment + match.start(), comment + match.end())
        expectation = _build(match, span, line, designator_lines, collector)
        if expectation is not None:
            found.append(expectation)
    return found


def _only_expectations(line: str) -> bool:
    rest = _EXPECTATION.sub("", line).strip()
    return rest != line.strip() and rest.strip("/ \t") == ""


def _scan(
    comment: str, source: SourceFile, offset: int, collector: Collector
) -> Iterable[re.Match[str]]:
    position = 0
    while attempt := _ATTEMPT.search(comment, position):
        match = _EXPECTATION.match(comment, attempt.start())
        if match is not None:
            position = match.end()
            yield match
            continue
        position = attempt.end()
        collector.error(
            MALFORMED_EXPECTATION,
            "this expectation cannot be understood",
            Span(source, offset + attempt.start(), offset + attempt.end()),
            help=f"write it as `{_FORM}`",
        )


def _build(
    match: re.Match[str],
    span: Span,
    line: int,
    designator_lines: set[int],
    collector: Collector,
) -> _Expectation | None:
    text = match["text"].strip()
    if not text:
        collector.error(MALFORMED_EXPECTATION, "the expected text is empty", span)
        return None
    count = int(match["count"] or 1)
    if count == 0:
        collector.error(MALFORMED_EXPECTATION, "the count is 0, expected at least 1", span)
        return None
    regex: re.Pattern[str] | None = None
    if match["regex"]:
        try:
            regex = re.compile(text)
        except (re.error, OverflowError) as error:
            message = f"the regular expression is not valid: {error}"
            collector.error(MALFORMED_EXPECTATION, message, span)
            return None
    target = _target_line(match["place"], line, designator_lines)
    last_line = span.file.line_count
    if target is not None and not 1 <= target <= last_line:
        collector.error(
            MALFORMED_EXPECTATION,
            f"`@{match['place']}` means line {target}, but the file has lines 1 to {last_line}",
            span,
        )
        return None
    return _Expectation(_SEVERITIES[match["kind"]], target, count, text, regex, span)


def _target_line(place: str | None, line: int, designator_lines: set[int]) -> int | None:
    if place is None:
        return line
    if place == "unknown":
        return None
    steps = {"above": -1, "below": 1}
    if place not in steps:
        return line + int(place)
    step = steps[place]
    line += step
    while line in designator_lines:
        line += step
    return line


def _pair(slots: Sequence[_Expectation], events: Sequence[_Event]) -> dict[int, int]:
    """Return a maximum matching of events to slots that accept them: event index to slot index.

    A greedy choice could let a loose expectation take the diagnostic that a strict one needs. Events
    that must be expected are matched before optional ones.
    """
    event_of: dict[int, int] = {}
    order = sorted(range(len(events)), key=lambda index: not events[index].required)
    accepting = [[i for i, slot in enumerate(slots) if slot.accepts(event)] for event in events]
    for root in order:
        # Breadth-first search for an augmenting path to a free slot.
        reached_from: dict[int, int] = {}
        queue = deque([root])
        free: int | None = None
        while queue and free is None:
            event = queue.popleft()
            for slot in accepting[event]:
                if slot in reached_from:
                    continue
                reached_from[slot] = event
                if slot not in event_of:
                    free = slot
                    break
                queue.append(event_of[slot])
        slot_of = {event: slot for slot, event in event_of.items()}
        while free is not None:
            event = reached_from[free]
            event_of[free] = event
            free = slot_of.get(event)
    return {event: slot for slot, event in event_of.items()}


def _report_unexpected(event: _Event, collector: Collector) -> None:
    collector.error(
        UNEXPECTED_DIAGNOSTIC,
        f"unexpected {event.severity}: {event.code}: {event.message}",
        event.location,
        help=f"if it is right, announce it: `// expected-{event.severity} {{{{{event.code}: ...}}}}`",
    )


def _report_missing(
    expectation: _Expectation, found: int, left_over: Sequence[_Event], collector: Collector
) -> None:
    where = "without a line" if expectation.line is None else f"on line {expectation.line}"
    message = f"expected {expectation.severity} {where} was not reported: {expectation.text}"
    if expectation.count > 1:
        message += f" (expected {expectation.count}, found {found})"
    near = [event for event in left_over if expectation.accepts(event)]
    notes = [
        Note(f"a matching {event.severity} was reported here", event.location) for event in near[:3]
    ]
    collector.error(MISSING_DIAGNOSTIC, message, expectation.span, notes=notes)


def _order(source: SourceFile, location: SourceLocation | None) -> tuple[int, int]:
    line = _line_in(source, location)
    if line is None or not isinstance(location, Span | NamedLocation):
        return source.line_count + 1, 0
    return line, location.column
