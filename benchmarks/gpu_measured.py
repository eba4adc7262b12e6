"""The results of ``benchmarks.gpu`` as text, and the measured constants as the model reads them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.gpu_report import recorded_rows
from benchmarks.report import Table

Row = Mapping[str, Any]
_COMPILERS = ("ours", "tileiras", "torch", "triton")


def report(data: Row) -> str:
    """All that was found, as Markdown."""
    about = f"{data.get('gpu') or 'No GPU'}, driver {data.get('driver') or 'unknown'}"
    lines = [
        f"Measured on {about}, {data.get('when', '')}, commit {data.get('commit', '')}; medians of interleaved "
        "samples with a cold L2. Ratios are our time by theirs: below 1 we are faster.",
        "",
        f"Clocks at the start: {_listed(data.get('clocks', {}))}; at the end: "
        f"{_listed(data.get('clocks after', {}))}.",
        "",
        f"Versions: {_listed(data.get('versions', {}))}.",
        "",
        f"Tests: {data.get('tests', {}).get('summary') or data.get('tests', {}).get('failure', 'not run')}.",
        "",
    ]
    rows = data.get("rows", [])
    kernels = [row for row in rows if row["job"].startswith("kernel:")]
    constants = [row for row in rows if row["job"].startswith("constant:")]
    if kernels:
        lines += [_kernels(kernels, str(data.get("target", ""))), "", _means(kernels), ""]
    if constants:
        lines.append(_constants(constants))
    return "\n".join(lines)


def _listed(facts: Row) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items()) or "not known"


def _kernels(rows: Sequence[Row], target: str) -> str:
    modelled = {
        row["kernel"]: row["modelled_seconds"]
        for row in recorded_rows()
        if row["target"] == target and row["compiler"] == "ours" and "modelled_seconds" in row
    }
    head = ["kernel", "right", "ours", *(f"ours / {name}" for name in _COMPILERS[1:]), "modelled"]
    table = Table("gpu", "Kernels", [*head, "remarks"])
    for row in rows:
        seconds = row.get("seconds", {})
        mine = seconds.get("ours")
        name = row["job"].partition(":")[2]
        right = row.get("right", {})
        said = {True: "yes", False: "NO", None: "-"}[right.get("ours")]
        model = modelled.get(name)
        remarks = [f"{k}: {v}" for k, v in row.get("failures", {}).items()]
        remarks += [f"{k} is wrong" for k, v in right.items() if not v and k != "ours"]
        remarks += [row["failure"]] if "failure" in row else []
        cells = [name, said, "-" if mine is None else f"{mine * 1e6:.1f} us"]
        cells += [_ratio(mine, seconds.get(other)) for other in _COMPILERS[1:]]
        cells += ["-" if model is None else f"{model * 1e6:.1f} us", "; ".join(remarks)]
        table.rows.append(tuple(cells))
    return table.markdown()


def _ratio(mine: float | None, other: float | None) -> str:
    return "-" if mine is None or not other else f"{mine / other:.2f}"


def _means(rows: Sequence[Row]) -> str:
    parts: list[str] = []
    for name in _COMPILERS[1:]:
        ratios = [
            row["seconds"]["ours"] / row["seconds"][name]
            for row in rows
            if row.get("right", {}).get("ours") and {"ours", name} <= row.get("seconds", {}).keys()
        ]
        if ratios:
            mean = math.exp(sum(math.log(max(r, 1e-12)) for r in ratios) / len(ratios))
            parts.append(f"{name} {mean:.2f} over {len(ratios)}, worst {max(ratios):.2f}")
    return f"Geometric means of ratios: {'; '.join(parts) or 'none'}."


def _constants(rows: Sequence[Row]) -> str:
    table = Table(
        "constants", "Constants of the model", ["constant", "measured", "model", "remarks"]
    )
    for row in rows:
        value, known = row.get("value"), row.get("model")
        cells = [row["job"].partition(":")[2]]
        cells += ["-" if n is None else f"{n:.4g}" for n in (value, known)]
        table.rows.append((*cells, row.get("failure", "")))
    return table.markdown()


def constants_file(data: Row) -> dict[str, str]:
    """By file name, the constants that were measured, as ``tilewright.model.tables.load_constants`` reads them;
    none where nothing was."""
    found: dict[str, Any] = {}
    gpu = ""
    for row in data.get("rows", []):
        value = row.get("value")
        if "constant" not in row or not isinstance(value, float) or not 0 < value < math.inf:
            continue
        gpu = row["gpu"]
        source = (
            f"measured at {row['clock'] / 1e9:.3f} GHz, driver {data.get('driver') or 'unknown'}"
        )
        found[row["constant"]] = {"value": value, "source": source}
    if not found:
        return {}
    return {f"constants_{gpu}.json": json.dumps({"gpu": gpu, "constants": found}, indent=1) + "\n"}
