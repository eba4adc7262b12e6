"""Failed assertions, and the error with which a launch reports them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.diagnostics import Diagnostic, Note, Severity, SourceLocation, TileIRError
from tilewright.launching.codes import ASSERTION_FAILED, source_note_at

if TYPE_CHECKING:
    from xdsl.ir import Operation

MAX_SHOWN_FAILURES = 20


@dataclass(frozen=True, slots=True)
class OperationSource:
    """The source of an operation: its location in the program that was read, and, from debug information, its position
    in the kernel's own source as (file, line, column).
    """

    location: SourceLocation | None = None
    position: tuple[str, int, int] | None = None

    @classmethod
    def of(cls, op: Operation) -> OperationSource:
        """The location and the debug position of an operation."""
        # Imported here because launches of compiled code need failures, but no dialects.
        from tilewright.dialects.cuda_tile.debug_info import source_position
        from tilewright.dialects.source_map import location_of

        return cls(location_of(op), source_position(op.location))

    @property
    def file(self) -> str:
        """The file of the kernel's own source, else of the program that was read; "" if neither is known."""
        if self.position is not None:
            return self.position[0]
        return "" if self.location is None else self.location.file_name

    @property
    def line(self) -> int:
        """The line in that file, from 1; 0 if unknown."""
        if self.position is not None:
            return self.position[1]
        return getattr(self.location, "line", 0) or 0

    @property
    def notes(self) -> tuple[Note, ...]:
        """A note with the position in the kernel's own source, if known."""
        return source_note_at(self.position)


@dataclass(frozen=True, slots=True)
class AssertionFailure:
    """One false element of an assert: its index in the tile, the tile block, and the message.

    ``compared`` is the comparison that failed, with both operands' values for this element; "" if the condition is not
    a comparison, and on machines that do not report it.
    """

    message: str
    index: tuple[int, ...]
    block: tuple[int, int, int]
    source: OperationSource
    compared: str = field(default="", compare=False)


def assertion_error(failures: Sequence[AssertionFailure]) -> TileIRError:
    """The error for failed assertions: one diagnostic each, up to ``MAX_SHOWN_FAILURES``."""
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
