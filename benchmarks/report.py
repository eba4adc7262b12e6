"""Tables of results, as text and as recorded files."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.figure import figure
from benchmarks.timing import Sample

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one measurement. ``name`` is the file that it is recorded in."""

    name: str
    title: str
    head: Sequence[str]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        samples: dict[str, Sample],
        reference: str,
        count: int | None = None,
    ) -> Table:
        """Medians, spreads and ratios to the reference; operations per second where counted."""
        base = samples[reference].median
        head = ["job", "median", "min..max", f"time / {reference}"]
        if count is not None:
            head.append("ops/s")
        rows: list[tuple[str, ...]] = []
        for job, sample in samples.items():
            row = [job, f"{sample.median * 1e3:.1f} ms", f"{sample.spread} s"]
            row.append(f"{sample.median / base:.2f}")
            if count is not None:
                row.append(f"{count / sample.median:,.0f}")
            rows.append(tuple(row))
        return cls(name, title, head, rows)

    def markdown(self) -> str:
        lines = [
            f"### {self.title}",
            "",
            "| " + " | ".join(self.head) + " |",
            "|" + "---|" * len(self.head),
        ]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"


def machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def record(group: str, tables: Sequence[Table]) -> Path:
    """Write one group of tables as Markdown and JSON, and a figure of ratios where it has any; returns
    the Markdown file."""
    RESULTS.mkdir(exist_ok=True)
    text = f"Measured on {machine()}; medians of interleaved runs.\n\n"
    text += "\n".join(table.markdown() for table in tables)
    path = RESULTS / f"{group}.md"
    path.write_text(text, encoding="utf-8")
    data = {t.name: {"title": t.title, "head": list(t.head), "rows": t.rows} for t in tables}
    (RESULTS / f"{group}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if (drawn := figure(data, machine())) is not None:
        (RESULTS / f"{group}.svg").write_text(drawn, encoding="utf-8")
    return path
