"""Collects diagnostics about operations, at the locations they were read from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from xdsl.ir import Operation

from tilewright.diagnostics import (
    ByteSpan,
    Diagnostic,
    NamedLocation,
    Note,
    Severity,
    SourceLocation,
    Span,
)
from tilewright.dialects.cuda_tile.debug_info import source_position
from tilewright.dialects.cuda_tile.ops.module import FUNCTIONS
from tilewright.dialects.declare import Details, Related
from tilewright.dialects.source_map import Part, TextSource, location_of, source_of

#: Where to point if a part is not in the text; types, for instance, are often inferred.
_OTHER_KIND = {"type": "operand", "operand": "type"}


def best_location(op: Operation, part: Part | None) -> SourceLocation | None:
    """Return the location of a part, else of its value or type, else of the operation; None if nothing is known."""
    source = source_of(op)
    if part is not None and isinstance(source, TextSource):
        kind, name, index = part
        for candidate in (part, (_OTHER_KIND.get(kind, kind), name, index)):
            if candidate in source.parts:
                return source.location(candidate)
    return location_of(op)


class DiagnosticCollector:
    """The diagnostics of one run."""

    def __init__(self) -> None:
        self._found: list[Diagnostic] = []

    def add(
        self,
        severity: Severity,
        code: str,
        message: str,
        op: Operation,
        part: Part | None = None,
        notes: Sequence[Related] = (),
        help: str = "",
        label: str = "",
    ) -> None:
        """Add a diagnostic at a part of an operation, at the best location known. If it has no location
        in a text, a note shows the operation."""
        place = best_location(op, part)
        related = [Note(n.message, best_location(n.op, n.part)) for n in notes]
        if not isinstance(place, Span):
            related.append(_context(op))
        self._found.append(Diagnostic(severity, code, message, place, label, tuple(related), help))

    def error(
        self,
        code: str,
        message: str,
        op: Operation,
        part: Part | None = None,
        *,
        notes: Sequence[Related] = (),
        help: str = "",
    ) -> None:
        """Like :meth:`add`, with severity error."""
        self.add(Severity.ERROR, code, message, op, part, notes, help)

    def __len__(self) -> int:
        return len(self._found)

    def in_source_order(self) -> list[Diagnostic]:
        """Return the diagnostics by file and position; those without a location last, in discovery order."""
        return sorted(self._found, key=_position)


class OpReport:
    """Reports on ``op``; the caller sets it as it moves from operation to operation."""

    def __init__(self, collector: DiagnosticCollector, op: Operation):
        self.collector = collector
        self.op = op

    def error(
        self, code: str, message: str, part: Part | None = None, **details: Unpack[Details]
    ) -> None:
        """See :meth:`Report.error <tilewright.dialects.declare.Report.error>`."""
        self._add(Severity.ERROR, code, message, part, **details)

    def warning(
        self, code: str, message: str, part: Part | None = None, **details: Unpack[Details]
    ) -> None:
        """See :meth:`Report.warning <tilewright.dialects.declare.Report.warning>`."""
        self._add(Severity.WARNING, code, message, part, **details)

    def _add(
        self,
        severity: Severity,
        code: str,
        message: str,
        part: Part | None,
        at: Operation | None = None,
        **more: Any,
    ) -> None:
        self.collector.add(severity, code, message, at or self.op, part, **more)


def _position(diagnostic: Diagnostic) -> tuple[int, str, int]:
    match diagnostic.location:
        case Span(file, start):
            return 0, file.name, start
        case ByteSpan(file_name, offset):
            return 1, file_name, offset
        case NamedLocation(file_name, line):
            return 2, file_name, line
        case _:
            return 3, "", 0


def _context(op: Operation) -> Note:
    """A note that names the operation and its program line, for when there is no text to show."""
    current: Operation | None = op
    while current is not None and not isinstance(current, FUNCTIONS):
        current = current.parent_op()
    where = f" in @{current.symbol}" if current is not None and current is not op else ""
    position = source_position(op.location)
    if position is None:
        return Note(f"the operation is '{op.name}'{where}")
    return Note(
        f"the operation is '{op.name}'{where}, made for this line", NamedLocation(*position)
    )
