"""Source locations: source files, character spans and byte spans."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, eq=False)
class SourceFile:
    """A named text that maps offsets to lines and columns.

    Offsets count Unicode code points from 0. Lines and columns count from 1.
    """

    name: str
    text: str
    _line_starts: list[int] = field(default_factory=list[int], repr=False)

    def _starts(self) -> list[int]:
        if not self._line_starts:
            self._line_starts.append(0)
            find, at = self.text.find, 0
            while (at := find("\n", at) + 1) > 0:
                self._line_starts.append(at)
        return self._line_starts

    def position(self, offset: int) -> tuple[int, int]:
        """Return the 1-based (line, column) of a character offset. One behind the end counts on in the last line."""
        starts = self._starts()
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line_range(self, line: int) -> tuple[int, int]:
        """Return the (start, end) offsets of a 1-based line, without its terminator: a line feed, or CR LF.

        Raises IndexError for a line that the file does not have.
        """
        starts = self._starts()
        if line < 1:
            raise IndexError(f"lines count from 1, got {line}")
        start = starts[line - 1]
        if line == len(starts):
            return start, len(self.text)
        end = starts[line] - 1
        return start, end - 1 if end > start and self.text[end - 1] == "\r" else end

    def line_text(self, line: int) -> str:
        """Return the text of a 1-based line, without its terminator. Raises IndexError for a line that the file does
        not have.
        """
        start, end = self.line_range(line)
        return self.text[start:end]

    @property
    def line_count(self) -> int:
        """The number of lines, including the empty one after a final newline."""
        return len(self._starts())


@dataclass(frozen=True, slots=True)
class Span:
    """A range of characters of a source file, ``start`` inclusive, ``end`` exclusive."""

    file: SourceFile
    start: int
    end: int

    @property
    def file_name(self) -> str:
        """The name of the file, as given."""
        return self.file.name

    @property
    def line(self) -> int:
        """The 1-based line of the first character."""
        return self.file.position(self.start)[0]

    @property
    def column(self) -> int:
        """The 1-based column of the first character, in code points."""
        return self.file.position(self.start)[1]

    @property
    def end_line(self) -> int:
        """The 1-based line just after the last character."""
        return self.file.position(self.end)[0]

    @property
    def end_column(self) -> int:
        """The 1-based column just after the last character."""
        return self.file.position(self.end)[1]

    @property
    def text(self) -> str:
        """The characters of the range."""
        return self.file.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """A range of bytes of a binary file, ``offset`` inclusive, ``end`` exclusive, from 0.

    ``what`` describes the range where bytes alone would not help: a section, a function, an operation.
    """

    file_name: str
    offset: int
    end: int
    what: str = ""


@dataclass(frozen=True, slots=True)
class NamedLocation:
    """A location known only by file, line and column, such as a user's source line in debug info.

    ``line`` and ``column`` count from 1; 0 means unknown.
    """

    file_name: str
    line: int
    column: int = 0
    what: str = ""


#: The location of a diagnostic: in a text, in bytecode, or known only by name.
SourceLocation = Span | ByteSpan | NamedLocation
