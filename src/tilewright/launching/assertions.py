"""Failed assertions, and the error that they make of a launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from tilewright.diagnostics import Diagnostic, Note, Severity, SourceLocation, TileIRError
from tilewright.dialects.cuda_tile.debug_info import source_position
from tilewright.dialects.source_map import location_of
from tilewright.launching.codes import ASSERTION_FAILED, source_note_at

MAX_SHOWN_FAILURES = 20


@dataclass(frozen=True, slots=True)
class OperationSource:
    """Where an operation stands: in the program that was read, and, by debug information, in the
    kernel's own source: file, line, column."""

    location: SourceLocation | None = None
    position: tuple[str, int, int] | None = None

    @classmethod
    def of(cls, op: Operation) -> OperationSource:
        """Where an operation was read, and where its debug information says that it comes from."""
        return cls(location_of(op), source_position(op.location))

    @property
    def file(self) -> str:
        """The file of the kernel's own source, else that of the program that was read; "" for neither."""
        if self.position is not None:
            return self.position[0]
        return "" if self.location is None else self.location.file_name

    @property
    def line(self) -> int:
        """The line in that file, from 1; 0 where it is not known."""
        if self.position is not None:
            return self.position[1]
        return getattr(self.location, "line", 0) or 0

    @property
    def notes(self) -> tuple[Note, ...]:
        """A note that names the line of the kernel's own source, where that is known."""
        return source_note_at(self.position)


@dataclass(frozen=True, slots=True)
class AssertionFailure:
    """One false element of an assert: where in the tile, in which tile block, with what message.

    ``compared`` is the comparison that does not hold, with the values of this element on both
    sides; "" where the condition is none, and on machines that do not tell.
    """

    message: str
    index: tuple[int, ...]
    block: tuple[int, int, int]
    source: OperationSource
    compared: str = field(default="", compare=False)


def assertion_error(failures: Sequence[AssertionFailure]) -> TileIRError:
    """The error for failed assertions, the first ones each with a diagnostic."""
    found = [_diagnostic(failure) for failure in failures[:MAX_SHOWN_FAILURES]]
    if len(failures) > len(found):
        more = Note(f"{len(failures) - len(found)} more elements failed")
        found[-1] = found[-1].with_notes(more)
    return TileIRError(found)


def _diagnostic(failure: AssertionFailure) -> Diagnostic:
    where = f" at element {list(failure.index)}" if failure.index else ""
    return Diagnostic(
        Severity.ERROR,
        ASSERTION_FAILED,
        f"assertion failed in tile block {failure.block}{where}: {failure.message}",
        failure.source.location,
        notes=(*failure.source.notes, *([Note(failure.compared)] if failure.compared else ())),
    )
