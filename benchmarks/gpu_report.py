"""The rows of ``gpu_code`` as text, and as recorded files."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import RESULTS, Table, machine

JSON_FILE = RESULTS / "gpu_code.json"
Row = Mapping[str, Any]
_KEY = ("kernel", "target", "compiler")
_COMPILERS = ("ours", "tileiras")


def recorded_rows(path: Path = JSON_FILE) -> list[dict[str, Any]]:
    """The rows that are recorded; none where nothing is."""
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []


def _key(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in _KEY)


def merged(old: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """The new rows in place of old ones of the same kernel, target and compiler."""
    held = {_key(row): row for row in old} | {_key(row): row for row in new}
    return list(held.values())


def record_rows(rows: Sequence[Row], file: Path = JSON_FILE) -> Path:
    """Write the rows beside those that are recorded in a file; returns the Markdown file beside it."""
    from benchmarks.gpu_figure import drawing

    together = merged(recorded_rows(file), rows)
    RESULTS.mkdir(exist_ok=True)
    data = {"machine": machine(), "rows": together}
    file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    path = file.with_suffix(".md")
    path.write_text(show(together), encoding="utf-8")
    file.with_suffix(".svg").write_text(drawing(together), encoding="utf-8")
    return path


def show(rows: Sequence[Row]) -> str:
    """A summary and tables for each target, as Markdown."""
    parts = [_HEAD.format(machine=machine()), summary(rows).markdown()]
    for target in dict.fromkeys(row["target"] for row in rows):
        here = [row for row in rows if row["target"] == target]
        parts += [
            table.markdown() for table in (_code_table(target, here), _mix_table(target, here))
        ]
    return "\n".join(parts)


_HEAD = """\
Compiled on {machine}. Code is read, not run: `a / b` is ours / tileiras', from the same bytecode. "Loop" is
the length of the hot loop in instructions, "spills" the instructions that access local memory, "waves"
the simulated accesses of shared memory in a small launch of our code (of these "conflicts" more than the
data needs), "modelled" what the performance model of docs/model.md says of a whole launch. These conflicts count in the modelled time
of our code; `tileiras`' code, which no simulator runs, is taken to have none, so that ratios can be too high for ours, not too low.
"""


def pairs(rows: Sequence[Row]) -> list[tuple[Row | None, Row | None]]:
    """Ours and tileiras' rows of each kernel and target."""
    held = {_key(row): row for row in rows}
    keys = dict.fromkeys((row["kernel"], row["target"]) for row in rows)
    return [tuple(held.get((*key, name)) for name in _COMPILERS) for key in keys]  # pyright: ignore[reportReturnType]


def ratio(pair: tuple[Row | None, Row | None], name: str) -> float | None:
    """Ours over theirs of one number; None where one is missing, or theirs is 0."""
    values = [row.get(name) if row is not None else None for row in pair]
    return values[0] / values[1] if None not in values and values[1] else None


def summary(rows: Sequence[Row]) -> Table:
    """Geometric means and worst cases for each target."""
    table = Table(
        "gpu_code",
        "Ours / tileiras",
        (
            "target",
            "kernels of both",
            "modelled time, mean",
            "worst",
            "compile time, median",
            "worst",
        ),
    )
    for target in dict.fromkeys(row["target"] for row in rows):
        both = pairs([row for row in rows if row["target"] == target])
        times = _found(ratio(pair, "modelled_seconds") for pair in both)
        compiling = _found(ratio(pair, "compile_seconds") for pair in both)
        cells = (
            [f"{math.exp(statistics.fmean(map(math.log, times))):.2f}", f"{max(times):.2f}"]
            if times
            else ["", ""]
        )
        cells += (
            [f"{statistics.median(compiling):.2f}", f"{max(compiling):.2f}"]
            if compiling
            else ["", ""]
        )
        table.rows.append((target, str(len(compiling)), *cells))
    return table


def _found(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _code_table(target: str, rows: Sequence[Row]) -> Table:
    head = ("kernel", "modelled us", "ratio", "bound by", "instructions", "loop", "registers")
    head += ("spills", "shared KiB", "BAR", "waves", "conflicts", "compile s")
    table = Table("code", f"{target}: code", head)
    for pair in pairs(rows):
        mine = pair[0] or {}
        simulated = mine.get("simulated", {})
        found = ratio(pair, "modelled_seconds")
        table.rows.append(
            (
                str((pair[0] or pair[1] or {})["kernel"]),
                _both(pair, lambda row: _microseconds(row.get("modelled_seconds"))),
                f"{found:.2f}" if found is not None else "",
                _both(pair, lambda row: row.get("bound_by", "")),
                _both(pair, lambda row: row.get("instructions")),
                _both(pair, lambda row: row.get("loop")),
                _both(pair, lambda row: row.get("registers")),
                _both(pair, lambda row: row.get("spills")),
                _both(
                    pair, lambda row: row["shared_bytes"] >> 10 if "shared_bytes" in row else None
                ),
                _both(pair, lambda row: row.get("mix", {}).get("BAR", 0)),
                str(simulated.get("shared_waves", simulated.get("failure", "")))[:40],
                str(simulated.get("bank_conflicts", "")),
                _both(pair, lambda row: row.get("compile_seconds")),
            )
        )
    return table


def _both(pair: tuple[Row | None, Row | None], cell: Any) -> str:
    shown = []
    for row in pair:
        if row is not None and "failure" in row:
            shown.append("refused")
        elif row is not None:
            value = cell(row)
            shown.append("" if value is None else str(value))
    return " / ".join(shown)


def _microseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:.4g}"


def _mix_table(target: str, rows: Sequence[Row]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row.get("mix", {})))
    table = Table("mix", f"{target}: instructions of a kind", ("kernel", *names))
    for pair in pairs(rows):
        cells = [
            _both(pair, lambda row, name=name: row.get("mix", {}).get(name, 0)) for name in names
        ]
        name = str((pair[0] or pair[1] or {})["kernel"])
        table.rows.append((name, *("" if cell in ("0", "0 / 0") else cell for cell in cells)))
    return table
