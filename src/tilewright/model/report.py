"""Prints profiles as text and as JSON."""

from __future__ import annotations

import json
import linecache
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from tilewright.model.profile import Origin, Profile
from tilewright.model.tables import KNOWN_ERROR, MODEL_VERSION, Gpu

#: The version of the JSON format.
FORMAT = 1
_BAR = 30
#: The number of lines, operations and reasons that the text lists.
_SHOWN = 8
#: The meanings of the names in ``Profile.shares``.
MEANINGS = {
    "memory": "memory of the GPU",
    "l2": "bytes between L2 and multiprocessor",
    "l1": "bytes through L1",
    "atomics": "atomic updates in L2",
    "contention": "serialized atomic updates of one address",
    "shared": "banks of shared memory",
    "issue": "issue of instructions",
    "tensor": "tensor units",
    "fma": "FMA units",
    "imad": "integer multiply-add",
    "alu": "integer and logic units",
    "half": "units of f16",
    "double": "units of f64",
    "sfu": "special functions and conversions",
    "uniform": "uniform data path",
    "lsu": "special registers and constants",
    "waiting": "no unit: latency bound",
}


@dataclass(frozen=True, slots=True)
class Launch:
    """A profiled launch: its name, and how many times it occurred."""

    name: str
    profile: Profile
    count: int = 1


@dataclass(frozen=True, slots=True)
class Cost:
    """The summed costs of the instructions of one line or operation, and their number."""

    name: str
    file: str
    line: int
    share: float
    stall: float
    executions: float
    instructions: int


def by_line(found: Profile) -> list[Cost]:
    """The costs of source lines, the most expensive first; the name is `no line` for code without one."""
    return _grouped(
        found, lambda origin: ("" if origin.line else "no line", origin.file, origin.line)
    )


def by_operation(found: Profile) -> list[Cost]:
    """The costs of operations by name, or of opcodes if the operation is unknown."""
    return _grouped(found, lambda origin: (origin.operation, "", 0))


def _grouped(found: Profile, key: Callable[[Origin], tuple[str, str, int]]) -> list[Cost]:
    sums: defaultdict[tuple[str, str, int], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0])
    for cost in found.costs:
        held = sums[key(cost.origin)]
        for place, number in enumerate((cost.share, cost.stall, cost.executions, 1)):
            held[place] += number
    costs = [Cost(*at, share, stall, runs, int(n)) for at, (share, stall, runs, n) in sums.items()]
    return sorted(costs, key=lambda cost: -cost.share)


def by_reason(found: Profile) -> list[tuple[str, float]]:
    """The reasons for which warps wait, as shares of all waiting, the longest first."""
    clocks: Counter[str] = Counter()
    for stall in found.stalls:
        clocks[stall.reason] += stall.clocks  # pyright: ignore[reportArgumentType]
    whole = sum(clocks.values()) or 1
    return [(name, number / whole) for name, number in clocks.most_common()]


def as_json(launches: Sequence[Launch]) -> str:
    """Profiles as JSON, without timelines; ``"modelled"`` marks them as estimates."""
    return json.dumps(as_data(launches), indent=1) + "\n"


def as_data(launches: Sequence[Launch]) -> dict[str, Any]:
    """The same as Python values, in the form of ``docs/schemas/profile.schema.json``. Times are in seconds."""
    return {
        "format": FORMAT,
        "modelled": True,
        "version": MODEL_VERSION,
        "known_error": KNOWN_ERROR,
        "seconds": sum(launch.profile.seconds * launch.count for launch in launches),
        "launches": [_data(launch) for launch in launches],
    }


_LEFT_OUT = frozenset(
    {"timeline", "version", "known_error", "costs", "stalls", "loops", "occupancy"}
)


def _data(launch: Launch) -> dict[str, Any]:
    found = launch.profile
    plain = {f.name: getattr(found, f.name) for f in fields(found) if f.name not in _LEFT_OUT}
    return {
        "name": launch.name,
        "count": launch.count,
        **plain,
        "grid": list(found.grid),
        "threads": list(found.threads),
        "blind": list(found.blind),
        "at_least": list(found.at_least),
        "hints": list(found.hints),
        "occupancy": asdict(found.occupancy),
        "loops": [asdict(loop) for loop in found.loops],
        "lines": [asdict(cost) for cost in by_line(found)],
        "operations": [asdict(cost) for cost in by_operation(found)],
        "instructions_by_cost": [asdict(cost) for cost in found.costs],
        "stalls": [asdict(stall) for stall in found.stalls],
    }


def as_text(launches: Sequence[Launch], gpu: Gpu) -> str:
    """Profiles as text, marked as modelled, with an overview before several launches."""
    lines: list[str] = []
    if len(launches) > 1:
        lines += [*_overview(launches, gpu), ""]
    for launch in launches:
        lines += [*_lines(launch, gpu), ""]
    return "\n".join(lines[:-1]) + "\n"


def _overview(launches: Sequence[Launch], gpu: Gpu) -> Iterator[str]:
    whole = sum(launch.profile.seconds * launch.count for launch in launches)
    least = "at least " if any(launch.profile.at_least for launch in launches) else ""
    yield f"all launches on {gpu.title}: modelled {least}{time_of(whole)}"
    for launch in launches:
        seconds = launch.profile.seconds * launch.count
        often = f" ({launch.count} times)" if launch.count > 1 else ""
        yield f"  {seconds / whole:>4.0%} {time_of(seconds):>10}  {launch.name}{often}"


def _lines(launch: Launch, gpu: Gpu) -> Iterator[str]:
    found = launch.profile
    grid, block = (" x ".join(map(str, extents)) for extents in (found.grid, found.threads))
    often = f", {launch.count} times" if launch.count > 1 else ""
    yield f"{launch.name} on {gpu.title}: modelled {modelled_time(found)} ({found.clocks:,.0f} clocks){often}"
    yield from (f"  at least, because {why}" for why in found.at_least)
    yield f"  model {found.version}; known error: {found.known_error}"
    yield f"  grid {grid}, blocks of {block} threads"
    far = found.seconds / found.roofline_seconds if found.roofline_seconds else None
    roof = time_of(found.roofline_seconds)
    distance = f", {far:.2f} times the roofline of {roof}" if far else ""
    yield f"  bound by {MEANINGS.get(found.bound_by, found.bound_by)}{distance}"
    yield ""
    yield "utilization of each unit (modelled)"
    for name, share in found.shares.items():
        if share >= 0.005:
            yield f"  {name:<8} {share:>4.0%} {'#' * round(share * _BAR):<{_BAR}} {MEANINGS.get(name, '')}"
    yield ""
    yield from _resources(found)
    yield from _costs(found)
    if found.loops:
        yield ""
        yield "loops (iterations per warp; share of all instructions)"
        for loop in found.loops:
            share = loop.instructions / found.instructions
            yield (
                f"  {'  ' * loop.depth}{loop.name} at 0x{loop.address:x}: {loop.turns:g} "
                f"iterations of {loop.length} instructions, {share:.0%}"
            )
    yield ""
    yield from _knowledge(found)


def _knowledge(found: Profile) -> Iterator[str]:
    if found.simulated:
        yield f"conflicts, sectors and bytes: as in {found.simulated} blocks that were simulated"
    if found.hints:
        yield "what would help, according to the model"
        yield from (f"  {what}" for what in found.hints)
    if found.blind:
        yield "what the model ignores here"
        yield from (f"  {what}" for what in found.blind)


def _costs(found: Profile) -> Iterator[str]:
    lines = by_line(found)
    if any(cost.line for cost in lines):
        yield ""
        yield "cost by source line"
        for cost in lines[:_SHOWN]:
            where = f"{cost.file.rpartition('/')[2]}:{cost.line}" if cost.line else cost.name
            yield f"  {cost.share:>4.0%}  {where:<20} {source_line(cost.file, cost.line)}".rstrip()
    yield ""
    yield "cost by operation"
    for cost in by_operation(found)[:_SHOWN]:
        yield f"  {cost.share:>4.0%}  {cost.name} ({cost.instructions} instructions)"
    if found.stalls:
        yield ""
        yield "stalls (share of all stall time of a block that runs alone)"
        for name, share in by_reason(found)[:_SHOWN]:
            yield f"  {share:>4.0%}  {name}"


def source_line(file: str, line: int) -> str:
    """A line of a source file, counted from 1 and without surrounding blanks; empty if it cannot be read, or for line
    0.
    """
    return linecache.getline(file, line).strip() if line else ""


def _resources(found: Profile) -> Iterator[str]:
    occupancy = found.occupancy
    yield (
        f"occupancy: {occupancy.blocks} blocks, {occupancy.warps} of {occupancy.most_warps} warps; "
        f"limited by {occupancy.limit}"
    )
    yield f"waves of blocks: {found.rounds:.2f}; {found.tail:.0%} of their places are used"
    yield (
        f"registers {found.registers}, shared memory {found.shared_bytes} bytes, {found.spills} "
        "spill instructions"
    )
    yield (
        f"a block: {found.instructions:,.0f} warp instructions, {found.block_latency:,} clocks when alone"
    )
    yield (
        f"bytes: {byte_text(found.loaded_bytes)} loaded and {byte_text(found.stored_bytes)} stored through L2, "
        f"{byte_text(found.memory_bytes)} of memory"
    )
    if found.flops:
        yield f"tensor units: {found.flops / found.seconds / 1e12:.0f} Tflop/s"


def time_of(seconds: float) -> str:
    """A time in seconds as text, in ms or us."""
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.2f} us"


def modelled_time(found: Profile) -> str:
    """The time of a profile as text, marked if it is a lower bound."""
    return ("at least " if found.at_least else "") + time_of(found.seconds)


def byte_text(count: float) -> str:
    """A number of bytes as text."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} bytes"
