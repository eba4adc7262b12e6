"""Diagnostics as data: what is wrong, where, and what is related to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tilewright.diagnostics.source import ByteSpan, NamedLocation, SourceLocation, Span
from tilewright.diagnostics.tracebacks import cell_traceback, hide_callers

#: What is said about hostile input is not as long as the input.
MAX_MESSAGE_LENGTH = 2000
_KEPT_AT_THE_END = 200


def shortened(message: str) -> str:
    """The message, without its middle if it is too long to be read."""
    if len(message) <= MAX_MESSAGE_LENGTH:
        return message
    head = message[: MAX_MESSAGE_LENGTH - _KEPT_AT_THE_END - 5]
    return f"{head} ... {message[-_KEPT_AT_THE_END:]}"


class Severity(StrEnum):
    """How bad a finding is: an error, a warning, or a note that explains one of these."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Note:
    """A further location or fact that explains a diagnostic."""

    message: str
    location: SourceLocation | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", shortened(self.message))


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding.

    ``code`` is stable and is what ``tilewright explain CODE`` takes. ``message`` says what is
    wrong in one sentence, expected and found included, in at most ``MAX_MESSAGE_LENGTH``
    characters. ``label`` is the short text beside the
    underlined location. ``help`` proposes a mend.
    """

    severity: Severity
    code: str
    message: str
    location: SourceLocation | None = None
    label: str = ""
    notes: tuple[Note, ...] = ()
    help: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", shortened(self.message))

    @property
    def file(self) -> str | None:
        """The name of the file of the location; None where there is no location."""
        return None if self.location is None else self.location.file_name

    @property
    def line(self) -> int | None:
        """1-based line, or None where the location is a byte range or unknown."""
        return self.location.line if isinstance(self.location, Span | NamedLocation) else None

    @property
    def column(self) -> int | None:
        """1-based column, or None where the location is a byte range or unknown."""
        return self.location.column if isinstance(self.location, Span | NamedLocation) else None

    @property
    def end(self) -> tuple[int, int] | None:
        """1-based (line, column) just after the location, for text spans."""
        if isinstance(self.location, Span):
            return self.location.end_line, self.location.end_column
        return None

    @property
    def byte_offset(self) -> int | None:
        """Where a range of bytes begins, counted from 0; None where the location is in a text or unknown."""
        return self.location.offset if isinstance(self.location, ByteSpan) else None

    @property
    def is_error(self) -> bool:
        """Whether the severity is ERROR: those make a reader or the verifier fail."""
        return self.severity is Severity.ERROR

    def with_notes(self, *notes: Note) -> Diagnostic:
        """The diagnostic with further notes behind its own."""
        return replace(self, notes=self.notes + notes)

    def _repr_html_(self) -> str:
        """The diagnostic with its lines of source, for notebooks."""
        from tilewright.diagnostics.render_html import render_html

        return render_html([self])

    def brief(self) -> str:
        """``file:line:column: error[code]: message`` on one line."""
        where = ""
        if self.location is not None:
            where = self.location.file_name
            if self.line:
                where += f":{self.line}"
                if self.column:
                    where += f":{self.column}"
            elif self.byte_offset is not None:
                where += f":byte 0x{self.byte_offset:x}"
            where += ": "
        return f"{where}{self.severity}[{self.code}]: {self.message}"


class TileIRError(Exception):
    """Bad input. ``diagnostics`` holds every finding, errors and warnings, in source order.

    ``partial`` is what could be read all the same, where a reader goes on after errors: a list of
    operations without those that had errors. It is for finding further errors only.
    """

    # The name by which it is caught, in the lines that tracebacks end with.
    __module__ = "tilewright"

    def __init__(self, diagnostics: Iterable[Diagnostic], partial: Sequence[object] = ()):
        hide_callers()
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        self.partial: tuple[object, ...] = tuple(partial)
        super().__init__("\n".join(d.brief() for d in self.diagnostics))

    def _repr_html_(self) -> str:
        """The diagnostics with their lines of source, for notebooks."""
        from tilewright.diagnostics.render_html import render_html

        return render_html(self.diagnostics)

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of an exception that nobody catches, by line."""
        return cell_traceback(self)

    @classmethod
    def single(
        cls,
        code: str,
        message: str,
        location: SourceLocation | None = None,
        *,
        label: str = "",
        notes: Iterable[Note] = (),
        help: str = "",
    ) -> TileIRError:
        """An exception with one error diagnostic."""
        return cls([Diagnostic(Severity.ERROR, code, message, location, label, tuple(notes), help)])


class Collector:
    """Gathers diagnostics of one run; raises them together."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []

    def error(
        self,
        code: str,
        message: str,
        location: SourceLocation | None = None,
        *,
        label: str = "",
        notes: Iterable[Note] = (),
        help: str = "",
    ) -> None:
        """Gather an error; ``code`` is one that :func:`define_code` has registered."""
        self.diagnostics.append(
            Diagnostic(Severity.ERROR, code, message, location, label, tuple(notes), help)
        )

    def warning(
        self,
        code: str,
        message: str,
        location: SourceLocation | None = None,
        *,
        label: str = "",
        notes: Iterable[Note] = (),
        help: str = "",
    ) -> None:
        """Gather a warning; it raises nothing on its own."""
        self.diagnostics.append(
            Diagnostic(Severity.WARNING, code, message, location, label, tuple(notes), help)
        )

    @property
    def has_errors(self) -> bool:
        """Whether anything gathered is an error."""
        return any(d.is_error for d in self.diagnostics)

    def raise_if_errors(self) -> None:
        """Raises ``TileIRError`` with everything gathered, warnings too, if an error is among it."""
        if self.has_errors:
            raise TileIRError(self.diagnostics)
