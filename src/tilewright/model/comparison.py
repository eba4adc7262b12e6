"""Compares two profiles: before and after."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.diagnostics import TileIRError
from tilewright.model.codes import BAD_COMPARISON
from tilewright.model.report import FORMAT, Launch, as_data, time_of

#: What is compared besides times and shares.
_NUMBERS = {
    "registers": "registers",
    "spills": "instructions for spills",
    "shared_bytes": "bytes of shared memory",
    "instructions": "warp instructions of a block",
    "block_latency": "clocks of a block alone",
    "loaded_bytes": "bytes loaded through L2",
    "memory_bytes": "bytes of memory",
}
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Change:
    """A number before and after; ``is_share`` for shares of a launch's time."""

    name: str
    before: float
    after: float
    is_share: bool = False


@dataclass(frozen=True, slots=True)
class Compared:
    """A launch of both runs with its changes; ``before`` is None for a new one."""

    name: str
    before: float | None
    after: float
    numbers: tuple[Change, ...]
    lines: tuple[Change, ...]


def read_profile(text: str, name: str) -> dict[str, Any]:
    """Parse the output of ``profile --json``. Raises ``TileIRError`` (``model-bad-comparison``) for anything else."""
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            raise ValueError(f"its format is {data['format']!r}, expected {FORMAT}")
        for launch in data["launches"]:
            _ = launch["name"], float(launch["seconds"]), launch["shares"], launch["lines"]
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise TileIRError.single(
            BAD_COMPARISON,
            f"'{name}' is not a profile to compare with: {error}",
            help="`tilewright profile ... --json > FILE` writes one",
        ) from error
    return data


def compared(before: Mapping[str, Any], launches: Sequence[Launch]) -> list[Compared]:
    """Match launches by name with those before, in their order. If each run has one launch, these are matched.

    ``before`` is what ``read_profile`` returns. A launch without a counterpart is new.
    """
    after = as_data(launches)["launches"]
    held: list[dict[str, Any]] = list(before["launches"])
    found: list[Compared] = []
    for launch in after:
        same = next((old for old in held if old["name"] == launch["name"]), None)
        if same is None and len(held) == len(after) == 1:
            same = held[0]
        found.append(_of(same, launch))
    return found


def _of(before: dict[str, Any] | None, after: dict[str, Any]) -> Compared:
    if before is None:
        return Compared(after["name"], None, after["seconds"], (), ())
    numbers = [
        Change(words, before[name], after[name])
        for name, words in _NUMBERS.items()
        if name in before and before[name] != after[name]
    ]
    units = {**dict.fromkeys(after["shares"]), **dict.fromkeys(before["shares"])}
    numbers += [
        Change(unit, before["shares"].get(unit, 0), after["shares"].get(unit, 0), is_share=True)
        for unit in units
    ]
    old = {_line(cost): cost["share"] * before["seconds"] for cost in before["lines"]}
    new = {_line(cost): cost["share"] * after["seconds"] for cost in after["lines"]}
    lines = [Change(name, old.get(name, 0), new.get(name, 0)) for name in {**new, **old}]
    lines.sort(key=lambda change: -abs(change.after - change.before))
    return Compared(
        after["name"], before["seconds"], after["seconds"], tuple(numbers), tuple(lines)
    )


def _line(cost: dict[str, Any]) -> str:
    return f"{cost['file'].rpartition('/')[2]}:{cost['line']}" if cost["line"] else cost["name"]


def comparison_text(found: Sequence[Compared], name: str) -> str:
    """The differences between two profiles, launch by launch, compared with the file ``name``."""
    return "\n".join(_lines(found, name)) + "\n"


def _lines(found: Sequence[Compared], name: str) -> Iterator[str]:
    yield f"compared with {name} (modelled, before -> after)"
    for each in found:
        if each.before is None:
            yield f"  {each.name}: {time_of(each.after)}, new"
            continue
        yield (
            f"  {each.name}: {time_of(each.before)} -> {time_of(each.after)} "
            f"({each.after / each.before:.2f} times)"
        )
        for change in each.numbers:
            if change.is_share:
                if abs(change.after - change.before) >= 0.01:
                    yield f"    {change.name:<10} {change.before:>5.0%} -> {change.after:.0%}"
            else:
                yield f"    {change.name}: {change.before:,.0f} -> {change.after:,.0f}"
        for change in each.lines[:_SHOWN]:
            if max(change.before, change.after) >= 0.01 * each.after:
                yield f"    {change.name:<24} {time_of(change.before)} -> {time_of(change.after)}"
