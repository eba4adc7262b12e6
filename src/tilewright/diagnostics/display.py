"""How characters appear on a terminal: widths, safe substitutes, and windows into long lines."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate
from unicodedata import category, east_asian_width

_TAB = "    "
_ELLIPSIS = "..."

# Format characters (Cf) are invisible and may reorder text. Control characters and line
# separators would break the layout or control the terminal. Lone surrogates cannot be encoded.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_ZERO_WIDTH = frozenset({"Mn", "Me"})
_WIDE = frozenset({"W", "F"})


def char_cells(char: str) -> tuple[str, int]:
    """Return what to print for one input character, and its width in terminal columns.

    A tab becomes four spaces at any column, so that a window into a line does not depend on what
    precedes it. Characters that could hide text or control the terminal become visible ones.
    """
    if " " <= char <= "~":
        return char, 1
    if char == "\t":
        return _TAB, len(_TAB)
    if char < " ":
        return chr(0x2400 + ord(char)), 1
    if char == "\x7f":
        return "\u2421", 1
    kind = category(char)
    if kind in _HIDDEN:
        return "\ufffd", 1
    if kind in _ZERO_WIDTH:
        return char, 0
    return char, 2 if east_asian_width(char) in _WIDE else 1


def printable(text: str) -> str:
    """Return ``text`` with every invisible or terminal-controlling character made visible."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char_cells(char)[0] for char in text)


def encoded(text: str) -> bytes:
    """``text`` in UTF-8; lone surrogates are the bytes that readers keep in them where a string is no UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def display_width(text: str) -> int:
    """Return the number of terminal columns that ``printable(text)`` takes."""
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(char_cells(char)[1] for char in text)


@dataclass(frozen=True, slots=True)
class View:
    """The visible part of a line. ``start`` and ``end`` are the marked columns, from 0."""

    text: str
    start: int
    end: int


def view_line(
    text: str, line_range: tuple[int, int], mark: tuple[int, int], max_width: int
) -> View:
    """Return the part of a line around ``mark`` that fits ``max_width`` columns.

    Both ranges are offsets into ``text``. At least one column is marked. Work and result are bounded
    by ``max_width``, whatever the length of the line.
    """
    line_start, line_end = line_range
    mark_start = min(max(mark[0], line_start), line_end)
    mark_end = min(max(mark[1], mark_start), line_end)
    # Two characters per column leave room for combining marks; further ones are cut off.
    low = max(line_start, mark_start - 2 * max_width)
    high = min(line_end, mark_start + 2 * max_width)
    cells = [char_cells(char) for char in text[low:high]]
    columns = [0, *accumulate(width for _, width in cells)]
    first_marked, after_marked = mark_start - low, min(mark_end, high) - low

    first, last = 0, len(cells)
    if low > line_start or high < line_end or columns[-1] > max_width:
        first, last = _window(
            columns, first_marked, after_marked, max_width, at_line_end=high == line_end
        )
        while first < first_marked and cells[first][1] == 0:
            first += 1
    before = _ELLIPSIS if first > 0 or low > line_start else ""
    after = _ELLIPSIS if last < len(cells) or high < line_end else ""
    shown = before + "".join(shape for shape, _ in cells[first:last]) + after

    shift = len(before) - columns[first]
    start = columns[first_marked] + shift
    end = columns[min(after_marked, last)] + shift
    if end <= start and first < first_marked < len(cells) and cells[first_marked][1] == 0:
        start -= 1  # a combining mark is displayed on the preceding character
    return View(shown, start, max(end, start + 1))


def _window(
    columns: list[int], first_marked: int, after_marked: int, max_width: int, *, at_line_end: bool
) -> tuple[int, int]:
    """Return the range of cells to show: centred on the mark, or its start if it is too long."""
    room = max(max_width - 2 * len(_ELLIPSIS), 1)
    mark_width = columns[after_marked] - columns[first_marked]
    lead = max(room - mark_width, room // 4) // 2
    left = columns[first_marked] - lead
    if at_line_end:
        left = min(left, columns[-1] - room)
    first = min(bisect_left(columns, max(left, 0)), first_marked)
    return first, bisect_right(columns, columns[first] + room) - 1
