"""Diagnostics as data: what is wrong, where, and related information."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tilewright.diagnostics.codes import help_of
from tilewright.diagnostics.source import ByteSpan, NamedLocation, SourceLocation, Span
from tilewright.diagnostics.tracebacks import cell_traceback, hide_callers

#: Limits messages about hostile input, which would otherwise be as long as the input.
MAX_MESSAGE_LENGTH = 2000
_KEPT_AT_THE_END = 200


def shortened(message: str) -> str:
    """Return the message, with its middle cut out if it has more than ``MAX_MESSAGE_LENGTH`` characters."""
    if len(message) <= MAX_MESSAGE_LENGTH:
        return message
    head = message[: MAX_MESSAGE_LENGTH - _KEPT_AT_THE_END - 5]
    return f"{head} ... {message[-_KEPT_AT_THE_END:]}"


class Severity(StrEnum):
    """The severity of a diagnostic: an error, a warning, or a note that explains one of these."""

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
    """One error, warning or note.

    ``code`` is stable; ``tilewright explain CODE`` explains it. ``message`` says what is wrong in one
    sentence, with expected and found values, in at most ``MAX_MESSAGE_LENGTH`` characters. ``label``
    is the short text beside the underlined location. ``help`` suggests a fix: by default the one of the code.
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
        if not self.help:
            object.__setattr__(self, "help", help_of(self.code))

    @property
    def file(self) -> str | None:
        """The file name of the location, or None without a location."""
        return None if self.location is None else self.location.file_name

    @property
    def line(self) -> int | None:
        """1-based line, or None if the location is a byte range or unknown."""
        return self.location.line if isinstance(self.location, Span | NamedLocation) else None

    @property
    def column(self) -> int | None:
        """1-based column, or None if the location is a byte range or unknown."""
        return self.location.column if isinstance(self.location, Span | NamedLocation) else None

    @property
    def end(self) -> tuple[int, int] | None:
        """1-based (line, column) just after the location, for text spans; else None."""
        if isinstance(self.location, Span):
            return self.location.end_line, self.location.end_column
        return None

    @property
    def byte_offset(self) -> int | None:
        """The start of a byte range, from 0, or None if the location is in a text or unknown."""
        return self.location.offset if isinstance(self.location, ByteSpan) else None

    @property
    def is_error(self) -> bool:
        """Whether the severity is ERROR, which makes a reader or the verifier fail."""
        return self.severity is Severity.ERROR

    def with_notes(self, *notes: Note) -> Diagnostic:
        """Return the diagnostic with further notes after its own."""
        return replace(self, notes=self.notes + notes)

    def _repr_html_(self) -> str:
        """Return the diagnostic with its source lines, for notebooks."""
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
    """Bad input. ``diagnostics`` holds every error and warning, in source order.

    ``partial`` is what a reader could read despite errors, if it continues after them: a list of
    operations, without those that had errors. Use it only to find further errors.
    """

    # The qualified name in the last line of tracebacks, by which users catch it.
    __module__ = "tilewright"

    def __init__(self, diagnostics: Iterable[Diagnostic], partial: Sequence[object] = ()):
        hide_callers()
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        self.partial: tuple[object, ...] = tuple(partial)
        super().__init__("\n".join(d.brief() for d in self.diagnostics))

    def _repr_html_(self) -> str:
        """Return the diagnostics with their source lines, for notebooks."""
        from tilewright.diagnostics.render_html import render_html

        return render_html(self.diagnostics)

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows for an uncaught exception."""
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
        """Return an exception with one error diagnostic; it is not raised here."""
        return cls([Diagnostic(Severity.ERROR, code, message, location, label, tuple(notes), help)])


class Collector:
    """Collects the diagnostics of one run, and raises them together."""

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
        """Add an error; ``code`` is registered by :func:`define_code`."""
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
        """Add a warning, which does not raise on its own."""
        self.diagnostics.append(
            Diagnostic(Severity.WARNING, code, message, location, label, tuple(notes), help)
        )

    @property
    def has_errors(self) -> bool:
        """Whether anything collected is an error."""
        return any(d.is_error for d in self.diagnostics)

    def raise_if_errors(self) -> None:
        """Raise ``TileIRError`` with everything collected, including warnings, if any of it is an error."""
        if self.has_errors:
            raise TileIRError(self.diagnostics)
