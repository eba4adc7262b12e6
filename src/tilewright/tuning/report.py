"""Rankings as text and as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.model.report import time_of
from tilewright.model.tables import KNOWN_ERROR, MODEL_VERSION, Gpu
from tilewright.tuning.ranking import Ranked, Ranking, Refused

#: The version of the JSON format.
FORMAT = 1
_SHOWN = 20
_PLAIN = (str, int, float, bool, type(None))


def as_data(rankings: Sequence[Ranking], gpu: Gpu, subject: str) -> dict[str, Any]:
    """The rankings with all details, as JSON data."""
    return {
        "format": FORMAT,
        "modelled": True,
        "version": MODEL_VERSION,
        "known_error": KNOWN_ERROR,
        "gpu": gpu.name,
        "subject": subject,
        "searches": [_search(ranking) for ranking in rankings],
    }


def _search(ranking: Ranking) -> dict[str, Any]:
    return {
        "name": ranking.name,
        "ranked": [
            {
                "configuration": _configuration(each.configuration),
                "seconds": each.seconds,
                "measured_seconds": each.measured,
                "kept": each.is_kept,
                "launches": [dict(facts) for facts in each.launches],
            }
            for each in ranking.ranked
        ],
        "refused": [
            {
                "configuration": _configuration(each.configuration),
                "status": each.status,
                "code": each.code,
                "reason": each.reason,
            }
            for each in ranking.refused
        ],
        "measured_on": ranking.measured_on or None,
        "notes": list(ranking.notes),
    }


def _configuration(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        str(name): value if isinstance(value, _PLAIN) else repr(value)
        for name, value in found.items()
    }


def as_text(rankings: Sequence[Ranking], gpu: Gpu, *, shown: int = _SHOWN) -> str:
    """Rankings as text; the first line of each says that its times are modelled."""
    return "\n".join(line for ranking in rankings for line in (*_lines(ranking, gpu, shown), ""))


def _lines(ranking: Ranking, gpu: Gpu, shown: int) -> Iterator[str]:
    count = len(ranking.ranked) + len(ranking.refused)
    many = "1 configuration" if count == 1 else f"{count} configurations"
    kept = sum(each.is_kept for each in ranking.ranked)
    held = f", {kept} of them from an earlier run" if kept else ""
    yield f"{ranking.name}: {many} on {gpu.title}, modelled{held}"
    yield f"  model {MODEL_VERSION}; known error: {KNOWN_ERROR}"
    if ranking.ranked:
        yield ""
        yield from _table(ranking, shown)
    if ranking.refused:
        yield ""
        are = "1 configuration is" if len(ranking.refused) == 1 else "configurations are"
        number = "" if len(ranking.refused) == 1 else f"{len(ranking.refused)} "
        yield f"{number}{are} skipped"
        yield from _reasons(ranking.refused)
    if ranking.notes:
        yield ""
        yield from (f"note: {note}" for note in ranking.notes)


def _table(ranking: Ranking, shown: int) -> Iterator[str]:
    has_measured = bool(ranking.measured_on)
    head = ["", "modelled", "bound by", "blocks", "warps", "registers", "spills", "shared memory"]
    if has_measured:
        head.insert(1, f"measured on {ranking.measured_on}")
    rows = [_row(each, has_measured) for each in ranking.ranked[:shown]]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        yield "  ".join(cells).rstrip()
    if len(ranking.ranked) > shown:
        yield f"... and {len(ranking.ranked) - shown} more, which --json has"


def _row(each: Ranked, has_measured: bool) -> list[str]:
    facts = each.main
    row = [
        each.label,
        time_of(each.seconds),
        str(facts["bound_by"]),
        str(facts["blocks"]),
        f"{facts['warps']}/{facts['most_warps']}",
        str(facts["registers"]),
        str(facts["spills"]),
        str(facts["shared_bytes"]),
    ]
    if has_measured:
        row.insert(1, "" if each.measured is None else time_of(each.measured))
    return row


def _reasons(refused: Sequence[Refused]) -> Iterator[str]:
    """The reasons, each with the configurations to which it applies."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for each in refused:
        by_reason[each.reason].append(each.label)
    for reason, labels in by_reason.items():
        more = f" and {len(labels) - 3} more" if len(labels) > 3 else ""
        yield f"  {', '.join(labels[:3])}{more}: {reason}"
