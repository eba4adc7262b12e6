"""The changes of a pass to the text of a module, as a diff."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

_CONTEXT = 2


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a diff with its line numbers, from 1, before and after the pass."""

    kind: Literal["same", "removed", "added"]
    before: int | None
    after: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A pass that has run, its duration, and its changes, in order."""

    name: str
    seconds: float
    hunks: tuple[tuple[DiffLine, ...], ...]

    def count(self, kind: str) -> int:
        """The number of lines ``added``, ``removed``, or of context (``same``)."""
        return sum(line.kind == kind for hunk in self.hunks for line in hunk)


def compare(name: str, seconds: float, before: Sequence[str], after: Sequence[str]) -> Change:
    """The diff between the lines of a module's text before and after a pass, which took ``seconds``."""
    groups = SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT)
    hunks: list[tuple[DiffLine, ...]] = []
    for group in groups:
        lines: list[DiffLine] = []
        for tag, first, end, new_first, new_end in group:
            if tag == "equal":
                pairs = zip(range(first, end), range(new_first, new_end), strict=True)
                lines += [DiffLine("same", i + 1, j + 1, before[i]) for i, j in pairs]
                continue
            lines += [DiffLine("removed", i + 1, None, before[i]) for i in range(first, end)]
            lines += [DiffLine("added", None, j + 1, after[j]) for j in range(new_first, new_end)]
        hunks.append(tuple(lines))
    return Change(name, seconds, tuple(hunks))
