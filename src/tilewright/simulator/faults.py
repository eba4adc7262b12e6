"""The diagnostics of a run, collected once per pair of locations, and the fault that ends a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.ir import Operation

from tilewright.diagnostics import Diagnostic, Note, Severity
from tilewright.dialects.source_map import location_of


class Fault(Exception):
    """An error of a kernel after which it cannot continue."""

    def __init__(
        self,
        code: str,
        message: str,
        op: Operation | None = None,
        *,
        notes: Iterable[Note] = (),
        help: str = "",
    ):
        super().__init__(message)
        self.code, self.message, self.op = code, message, op
        self.notes, self.help = tuple(notes), help

    def diagnostic(self) -> Diagnostic:
        """The fault as an error at the location of its operation."""
        location = None if self.op is None else location_of(self.op)
        return Diagnostic(
            Severity.ERROR, self.code, self.message, location, notes=self.notes, help=self.help
        )


class OneByOne(Exception):
    """Raised by a step that a group cannot run for all warps at once, before it has changed anything."""


def note_at(message: str, op: Operation | None) -> Note:
    """A note at the location of an operation."""
    return Note(message, None if op is None else location_of(op))


@dataclass(slots=True)
class DiagnosticCollector:
    """Collects errors after which a kernel continues, up to ``limit``."""

    limit: int = 50
    diagnostics: list[Diagnostic] = field(default_factory=list)
    _seen: set[tuple[object, ...]] = field(default_factory=set)

    def add(
        self,
        code: str,
        message: str,
        op: Operation | None,
        *,
        other: Operation | None = None,
        notes: Iterable[Note] = (),
        help: str = "",
        severity: Severity = Severity.ERROR,
        key: object = None,
    ) -> None:
        """Add a diagnostic, once for each code and pair of operations."""
        identity = (code, op, other, key)
        if identity in self._seen or len(self.diagnostics) >= self.limit:
            return
        self._seen.add(identity)
        location = None if op is None else location_of(op)
        self.diagnostics.append(
            Diagnostic(severity, code, message, location, notes=tuple(notes), help=help)
        )
