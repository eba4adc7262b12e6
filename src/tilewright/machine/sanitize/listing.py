"""The texts that a report shows: the module's, and the source files that its kernels came from."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.ir import Operation

from tilewright.diagnostics import SourceFile, SourceLocation, Span
from tilewright.dialects.cuda_tile.debug_info import source_position
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.dialects.source_map import TextSource, source_of
from tilewright.text import parse, print_text

_MAX_SOURCE_BYTES = 4_000_000
_PRINTED = "printed module"


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a listing: a 1-based line, and the half-open columns from 0 that are meant."""

    line: int
    start: int
    end: int


@dataclass(slots=True)
class Listings:
    """The text of a module, and of its source files by name as debug information gives it.

    ``module`` is the text that it was read from, else one that is printed for it.
    """

    module: SourceFile
    sources: dict[str, SourceFile]
    is_printed: bool
    _op_at: dict[object, Operation] = field(default_factory=dict[object, "Operation"])
    _spans: dict[Operation, Span] = field(default_factory=dict["Operation", Span])

    @classmethod
    def of(cls, module: Operation, sources: Mapping[str, str]) -> Listings:
        """``sources`` gives texts of source files by name; others are read where they exist.

        A module that was not read from a text is printed, and shown as it is printed.
        """
        texts = {name: SourceFile(name, text) for name, text in sources.items()}
        origin = source_of(next((op for op in module.walk() if source_of(op)), module))
        if isinstance(origin, TextSource):
            found = cls(origin.file, texts, False)
            spanned = module
        else:
            printed = print_text(module)
            file = SourceFile(_PRINTED, printed)
            found = cls(file, texts, True)
            spanned = parse(printed, _PRINTED, allow_unregistered=True)
        for op, twin in zip(_tile_module(module).walk(), _tile_module(spanned).walk(), strict=True):
            source, shown = source_of(op), source_of(twin)
            if isinstance(shown, TextSource):
                found._spans[op] = Span(found.module, shown.start, shown.end)
            if source is not None:
                found._op_at.setdefault(_key(source.location()), op)
        return found

    def operation(self, location: SourceLocation | None) -> Operation | None:
        """The operation that a finding's place is that of; None for a place of no operation."""
        return None if location is None else self._op_at.get(_key(location))

    def site(self, op: Operation) -> Site | None:
        """Where an operation begins in the text of the module; its first line only."""
        span = self._spans.get(op)
        if span is None:
            return None
        first, end = self.module.line_range(span.line)
        return Site(span.line, span.start - first, min(span.end, end) - first)

    def source_site(self, op: Operation) -> tuple[SourceFile, Site] | None:
        """Where the operation comes from in a source file; None without debug info or file."""
        position = source_position(op.location)
        if position is None:
            return None
        name, line, column = position
        file = self.sources.get(name) or read_source(name)
        if file is None or not 1 <= line <= file.line_count:
            return None
        self.sources[name] = file
        text = file.line_text(line)
        start = min(max(column - 1, 0), len(text))
        return file, Site(line, start, len(text))


def _tile_module(module: Operation) -> Operation:
    return next(op for op in module.walk() if isinstance(op, ModuleOp))


def _key(location: SourceLocation) -> object:
    return (location.start, location.end) if isinstance(location, Span) else location


def read_source(name: str) -> SourceFile | None:
    """A file's text; None if it is no regular file of a sane size, or cannot be read."""
    try:
        status = os.stat(name)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_SOURCE_BYTES:
            return None
        with open(name, "rb") as stream:
            return SourceFile(name, stream.read().decode("utf-8", "replace"))
    except (OSError, ValueError):  # ValueError: a name that no file system can hold
        return None
