"""Latencies of blocks that run alone, one event-driven run per kind of block, and what their warps wait for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.model.multiprocessor import BlockProgram, Multiprocessor, Rates, Result, WaitKey

#: The simulated steps for all kinds of blocks together; the rest is extrapolated at the same rate.
_STEPS = 300_000


@dataclass(frozen=True, slots=True)
class BlockTimes:
    """The mean latency and waits of a block that is alone.

    ``latency``: clocks of a block, the mean over kinds; ``heaviest``: the run of the kind with the largest weight.
    ``waits``: clocks of the warps of a block, the mean over kinds. ``forced``: waits that nothing in the code ends.
    ``cut``: a run was truncated.
    """

    latency: float
    heaviest: Result
    waits: Mapping[WaitKey, float]
    forced: int
    cut: bool


def time_blocks(
    programs: Sequence[tuple[BlockProgram, float]], rates: Rates, logged: int
) -> BlockTimes:
    """Time blocks with their weights in the grid. ``logged`` limits the log entries of a warp, which only the heaviest
    has.
    """
    kinds: dict[int, tuple[BlockProgram, float]] = {}
    for program, weight in programs:
        kinds[id(program)] = program, weight + kinds.get(id(program), (program, 0.0))[1]
    ordered = sorted(kinds.values(), key=lambda kind: -kind[1])
    whole = sum(weight for _, weight in ordered)
    latency, forced, cut = 0.0, 0, False
    waits: defaultdict[WaitKey, float] = defaultdict(float)
    runs: list[Result] = []
    for program, weight in ordered:
        run = Multiprocessor(program, rates, _STEPS // len(ordered), 0 if runs else logged).run()
        runs.append(run)
        part = weight / whole
        latency += run.end * part
        forced, cut = max(forced, run.forced), cut or run.cut
        seen = part * program.size() / max(1, run.executed)
        for key, clocks in run.waits.items():
            waits[key] += clocks * seen
        for key, clocks in _fixed(program).items():
            waits[key] += clocks * part
    return BlockTimes(latency, runs[0], waits, forced, cut)


def _fixed(program: BlockProgram) -> Counter[WaitKey]:
    """The fixed latencies of the instructions that a block executes."""
    counts: Counter[int] = Counter()
    for route in program.routes:
        counts.update(route.blocks)
    found: Counter[WaitKey] = Counter()
    for number, times in counts.items():
        for step in program.steps[number]:
            for index, clocks in step.stalls:
                found[index, index, ""] += clocks * times
    return found
