"""The programs in ``cases/``: each rejected program is followed by its nearest legal twin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilewright.analysis.hints import HintMode
from tilewright.analysis.verifier import find_problems
from tilewright.diagnostics import Diagnostic, TileIRError, split_input
from tilewright.text import parse

CASES = Path(__file__).parent / "cases"
_HINTS = re.compile(r"^// hints=(warn|error)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Program:
    """A part of a case file. ``rule`` is the comment above the rejected program of the pair."""

    file: str
    rule: str
    text: str
    is_twin: bool
    hints: HintMode

    @property
    def name(self) -> str:
        """Identifies the program in the output of pytest and in tables of exceptions."""
        return f"{self.file}: {self.rule}" + (" (twin)" if self.is_twin else "")

    def diagnostics(self) -> list[Diagnostic]:
        """What the parser, or after it the verifier, finds."""
        try:
            module = parse(self.text, self.file)
        except TileIRError as error:
            return list(error.diagnostics)
        return find_problems(module, hints=self.hints)


@cache
def programs() -> tuple[Program, ...]:
    """All programs, those of a pair next to each other."""
    found: list[Program] = []
    for path in sorted(CASES.glob("*.tileir")):
        text = path.read_text(encoding="utf-8")
        asked = _HINTS.search(text)
        hints: HintMode = asked[1] if asked else "ignore"  # pyright: ignore[reportAssignmentType]
        rule = ""
        for index, part in enumerate(split_input(text)):
            if index % 2 == 0:
                comments = [line for line in part.splitlines() if line.startswith("// ")]
                rule = [c for c in comments if "expected-" not in c][-1].removeprefix("// ")
            found.append(Program(path.name, rule, part, index % 2 == 1, hints))
    return tuple(found)
