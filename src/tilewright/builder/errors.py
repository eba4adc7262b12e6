"""Errors in calls of the builder, raised immediately and located at the caller's line of Python."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from tilewright.diagnostics import Diagnostic, NamedLocation, Severity, TileIRError, define_code

BUILDER = define_code(
    "builder",
    "A call of the builder does not build a valid operation.",
    "Operands, keywords or types are not those of the operation; `help(k.addf)` and `tilewright "
    "explain addf` list what an operation takes.",
)

_OURS = (str(Path(__file__).parent), contextlib.__file__)


class BuilderError(TileIRError, TypeError, ValueError):
    """A call that does not form a legal operation. ``diagnostics`` names the operation and the line."""


def caller() -> tuple[str, int]:
    """Return (file, line) of the nearest frame outside of the builder."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def fail(what: str, message: str, help: str = "") -> NoReturn:
    """Raise ``BuilderError`` with one error, of code ``builder``, about an operation or operator named ``what``.

    It is located at the line of Python outside of the builder that made the call; ``help`` suggests a fix.
    """
    # The name of the operation comes first, as part of the sentence or as a label.
    text = message if message.startswith(what) else f"{what}: {message}"
    location = NamedLocation(*caller())
    raise BuilderError([Diagnostic(Severity.ERROR, BUILDER, text, location, help=help)])


def fail_with(what: str, problems: Iterable[Diagnostic]) -> NoReturn:
    """Raise ``BuilderError`` with the verifier's errors about an operation named ``what``.

    They keep their codes; their location becomes the line of Python outside of the builder that made the call.
    """
    location = NamedLocation(*caller())
    raise BuilderError(
        Diagnostic(d.severity, d.code, f"{what}: {d.message}", location, d.label, (), d.help)
        for d in problems
    )
