"""Where an operation was read from: kept beside the operation, outside its semantics.

Parsers record; the verifier and the machines ask. Nothing is copied by ``clone``, so IR made by
a pass has no source of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Block, Operation

from tilewright.diagnostics import ByteSpan, NamedLocation, SourceFile, SourceLocation, Span

#: Names one part of an operation: ``("operand", "lhs", 0)``, ``("result", "", 1)``,
#: ``("type", "result", 0)``, ``("attr", "rounding_mode", 0)``, ``("region", "body", 0)``.
Part = tuple[str, str, int]


@dataclass(slots=True)
class TextSource:
    """Offsets of an operation and of its parts in a text; ends are exclusive."""

    file: SourceFile
    start: int
    end: int
    parts: dict[Part, tuple[int, int]] = field(default_factory=dict[Part, tuple[int, int]])

    def location(self, part: Part | None = None) -> SourceLocation:
        """The characters of a part, or of the whole operation where the part is not in the text."""
        start, end = (
            self.parts.get(part, (self.start, self.end)) if part else (self.start, self.end)
        )
        return Span(self.file, start, end)


@dataclass(slots=True)
class BytecodeSource:
    """The byte range of an encoded operation."""

    file_name: str
    start: int
    end: int
    what: str = ""

    def location(self, part: Part | None = None) -> SourceLocation:
        """The bytes of the operation in the file; parts have none of their own."""
        return ByteSpan(self.file_name, self.start, self.end, self.what)


@dataclass(slots=True)
class PythonSource:
    """The line of a Python program that made an operation."""

    file_name: str
    line: int

    def location(self, part: Part | None = None) -> SourceLocation:
        """The line of Python that made the operation."""
        return NamedLocation(self.file_name, self.line)


Source = TextSource | BytecodeSource | PythonSource

_FIELD = "_tilewright_source"


def set_source(op: Operation | Block, source: Source) -> None:
    """Remember where an operation or block was read from."""
    setattr(op, _FIELD, source)


def source_of(op: Operation | Block) -> Source | None:
    """Where it was read from; None for what was made since, or cloned."""
    return op.__dict__.get(_FIELD)


def location_of(op: Operation, part: Part | None = None) -> SourceLocation | None:
    """The location of an operation or of its part; that of the nearest enclosing operation with a
    known source where the operation has none itself."""
    current: Operation | None = op
    while current is not None:
        if (source := source_of(current)) is not None:
            return source.location(part if current is op else None)
        current = current.parent_op()
    return None
