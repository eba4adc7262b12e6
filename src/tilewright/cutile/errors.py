"""What a launch can end with, in terms of the user's Python source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.diagnostics import (
    Diagnostic,
    NamedLocation,
    Note,
    Severity,
    SourceLocation,
    TileIRError,
    define_code,
)
from tilewright.launching.codes import UNSUPPORTED

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Operation

REFUSED = define_code(
    "launch-refused",
    "A launch uses a feature that the chosen machine does not support.",
    "The message names the feature, and a machine that supports it if there is one.",
)

#: The codes by which machines say that they do not run something.
_REFUSALS = frozenset({UNSUPPORTED, "not-lowered-to-threads", "sim-unsupported"})
#: The note of the machine that has the place of an operation in the kernel's own source.
_SOURCE_NOTE = "the source of this operation"
#: What helps who writes Python, where Tile IR's own help is of no use to them: the start of a message and the help. cuTile gives `//` a
#: rounding that unsigned integers do not have, and no way to leave it out.
_HELP = (
    (
        "rounding mode 'negative_inf' is not allowed with 'unsigned'",
        "cuTile's `//` does not divide unsigned integers: divide them as signed ones, "
        "`ct.astype(x, ct.int64) // y`; by a power of two shift them, `x >> n`",
    ),
)
#: Where cuTile's own functions are, of which methods of tiles are made.
_CUTILE = "/cuda/tile/"


_FORMATTED = re.compile(r"unsupported format string passed to (.+)\.__format__", re.DOTALL)


def type_name(value: object) -> str:
    """The name of an object's type as cuTile's extension writes it, with or without its module.

    It is what C knows of the type: with the module for types that are written in C outside of
    ``builtins``, and without it for classes of Python.
    """
    try:
        object.__format__(value, "?")
    except TypeError as error:
        found = _FORMATTED.fullmatch(str(error))
        if found is not None:
            return found[1]
    return type(value).__name__


class KernelError(TileIRError, RuntimeError):
    """A kernel did what it must not do, or an assertion in it failed.

    ``diagnostics`` say what and where, in the Python source of the kernel; as a string it is all of
    them with the lines of source.
    """

    __module__ = "tilewright.cutile"

    def __str__(self) -> str:
        from tilewright.diagnostics import render

        return render(self.diagnostics)


class RefusedError(KernelError):
    """The machine does not do what a launch asks for; nothing has run."""

    __module__ = "tilewright.cutile"

    def __init__(self, message: str | Sequence[Diagnostic]):
        found = (
            [Diagnostic(Severity.ERROR, REFUSED, message)] if isinstance(message, str) else message
        )
        super().__init__(found)


def in_python(error: TileIRError, module: Operation | None = None) -> KernelError:
    """The error with lines of the kernel's Python source as its places.

    ``module`` is what ran: its debug information also tells which functions the kernel was in.
    """
    locations = {} if module is None else _locations(module)
    found = [location_in_python(diagnostic, locations) for diagnostic in error.diagnostics]
    if any(diagnostic.code in _REFUSALS for diagnostic in found):
        return RefusedError(found)
    return type(error)(found) if isinstance(error, KernelError) else KernelError(found)


def refused_as_by_cutile(diagnostic: Diagnostic) -> str:
    """What stands in cuTile's own exception for a refusal of Tile IR: the message, and what helps."""
    found = [text for start, text in _HELP if diagnostic.message.startswith(start)]
    hint = found[0] if found else diagnostic.help
    return f"{diagnostic.message}\nhelp: {hint}" if hint else diagnostic.message


def diagnostics_in_python(found: Iterable[Diagnostic], module: Operation) -> list[Diagnostic]:
    """Findings about a module at the lines of Python that they come from."""
    locations = _locations(module)
    return [location_in_python(diagnostic, locations) for diagnostic in found]


def _locations(module: Operation) -> dict[SourceLocation, Attribute]:
    """Where in the source each operation comes from, by its place in the bytecode."""
    from tilewright.dialects.source_map import location_of

    found: dict[SourceLocation, Attribute] = {}
    for op in module.walk():
        location = location_of(op)
        if location is not None:
            found.setdefault(location, op.location)
    return found


def location_in_python(
    diagnostic: Diagnostic, locations: Mapping[SourceLocation, Attribute]
) -> Diagnostic:
    """A finding at the line of Python that it comes from, where debug information tells it."""
    frames = _frames_at(diagnostic.location, locations)
    if not frames:
        return diagnostic
    notes: list[Note] = []
    for note in diagnostic.notes:
        if note.message == _SOURCE_NOTE:
            continue
        inner = _frames_at(note.location, locations)
        notes.append(replace(note, location=inner[0]) if inner else note)
    calls = [Note(f"called here, by {f.what}" if f.what else "called here", f) for f in frames[1:]]
    return replace(diagnostic, location=frames[0], notes=(*calls, *notes))


def _frames_at(
    location: SourceLocation | None, locations: Mapping[SourceLocation, Attribute]
) -> tuple[NamedLocation, ...]:
    return () if location is None or location not in locations else frames_of(locations[location])


def frames_of(location: Attribute) -> tuple[NamedLocation, ...]:
    """The positions in the source that a location stands for, from the innermost call outwards; those in
    cuTile's own functions, which stand for an operation at their caller's, only where there are no others."""
    from tilewright.dialects.cuda_tile.debug_info import CALL_SITES

    frames: list[NamedLocation] = []
    stack = [location]
    while stack:
        found = stack.pop()
        if isinstance(found, CALL_SITES):
            stack += (found.caller, found.callee)
        elif (frame := _frame(found)) is not None:
            frames.append(frame)
    return tuple(f for f in frames if _CUTILE not in f.file_name.replace("\\", "/")) or tuple(
        frames
    )


def _frame(location: Attribute) -> NamedLocation | None:
    from tilewright.dialects.cuda_tile.debug_info import (
        debug_location,
        source_position,
        subprogram_of,
    )

    position = source_position(location)
    if position is None:
        return None
    file, line, column = position
    inner = debug_location(location)
    subprogram = None if inner is None else subprogram_of(inner.scope)
    # cuTile passes on Python's columns, which count from 0.
    name = "" if subprogram is None else subprogram.function_name.data
    return NamedLocation(file, line, column + 1, name)
