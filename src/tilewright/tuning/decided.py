"""A search over the compiler's decisions about a kernel, and the record of its result.

Decisions interact little, so the search is a hill climb: starting from the compiler's own decisions it tries every
other value of each decision, continues from the fastest, and ends when no single change is faster. Each configuration
is compiled and modelled as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.campaign.runner import Executor
from tilewright.campaign.store import Store
from tilewright.diagnostics import TileIRError
from tilewright.model.tables import MODEL_VERSION, TARGETS, Gpu
from tilewright.passes.tileas.decisions import Decisions
from tilewright.tuning.codes import BAD_RECORD
from tilewright.tuning.ranking import Candidate, Ranked, Ranking, Told, rank

Values = Mapping[str, Any]
#: The values that are tried; agents only if tensor maps fill pipelines.
_WARPS, _STAGES, _WIDTHS, _BANDS = (2, 4, 8, 16), (1, 2, 3, 4, 6), (4, 8), (0, 4, 8, 16)
_RESIDENT = (0, 2, 3, 4)
_PARTS = (1, 2, 4)
_WITH_TENSOR_MAPS = 90
#: The maximum number of steps, and the relative improvement that a step must make.
MOST_STEPS, LEAST = 4, 1e-3
OWN = "as compiled"


def search(
    name: str,
    candidate: Callable[[Values], Candidate],
    gpu: Gpu,
    running: Executor,
    store: Store,
    told: Told = None,
) -> Ranking:
    """Rank all decisions that were tried; ``candidate`` creates the jobs of a configuration."""
    known: dict[str, Ranked] = {}
    refused = {}
    waiting = [candidate({})]
    best: Ranked | None = None
    steps = 0
    while waiting:
        found = rank(name, waiting, running, store, told=told)
        known |= {each.label: each for each in found.ranked}
        refused |= {each.label: each for each in found.refused}
        fastest = min(known.values(), key=lambda each: each.seconds, default=None)
        if fastest is None or steps == MOST_STEPS:
            break
        if best is not None and fastest.seconds > (1 - LEAST) * best.seconds:
            break
        best, steps = fastest, steps + 1
        made = [candidate(each) for each in changed(best, gpu)]
        waiting = [each for each in made if each.label not in known and each.label not in refused]
    ranked = tuple(sorted(known.values(), key=_order))
    note = f"{len(ranked)} decisions were tried, one change at a time"
    return Ranking(name, ranked, tuple(refused.values()), notes=(note,))


def _order(each: Ranked) -> tuple[float, int, float]:
    """Sort key: of equal times, the configuration with fewer decisions comes first."""
    return float(f"{each.seconds:.3g}"), len(each.configuration), each.seconds


def changed(best: Ranked, gpu: Gpu) -> Iterator[dict[str, Any]]:
    """The decisions with each single one changed."""
    own = dict(best.configuration)
    for name, values in _axes(best, gpu).items():
        for value in values:
            if own.get(name) != value:
                # A grid is only valid for its number of warps.
                kept = {n: v for n, v in own.items() if not (name == "warps" and n == "grid")}
                yield {**kept, name: value}


def _axes(best: Ranked, gpu: Gpu) -> dict[str, tuple[object, ...]]:
    decided = best.configuration.get("warps")
    threads = best.main["threads"][0] // 32
    # With agents, the block has more warps than those that hold tiles.
    counts = [decided] if decided else [n for n in (4, 8) if n <= threads]
    grids = [f"{1 << n}x{count >> n}" for count in counts for n in range(count.bit_length())]
    agents = ("on", "off") if gpu.compute >= _WITH_TENSOR_MAPS else ()
    return {
        "warps": _WARPS,
        "stages": _STAGES,
        "agents": agents,
        "grid": tuple(grids),
        "width": _WIDTHS,
        "band": _BANDS,
        "resident": _RESIDENT,
        "parts": _PARTS,
        "depths": _PARTS,
    }


def label_of(decisions: Values) -> str:
    """Decisions as text."""
    return " ".join(f"{name}={value}" for name, value in decisions.items()) or OWN


@dataclass(frozen=True, slots=True)
class Record:
    """The best decisions found for a kernel (None: of any name) and a target."""

    decisions: Decisions
    kernel: str | None
    target: str


def record_of(best: Ranked, own: float | None, kernel: str | None, gpu: Gpu) -> str:
    """The record of a search as JSON. ``own``: the modelled seconds with the compiler's own decisions."""
    data = {
        "decisions": Decisions.of(best.configuration).as_data(),
        "kernel": kernel,
        "target": TARGETS[gpu.compute],
        "gpu": gpu.name,
        "modelled": True,
        "model": MODEL_VERSION,
        "seconds": best.seconds,
        "seconds_as_compiled": own,
    }
    return json.dumps(data, indent=1) + "\n"


def read_record(text: str, name: str) -> Record:
    """Parse the result of ``record_of``. Raises ``TileIRError`` (``tune-bad-record``, ``bad-decision``) for anything
    else.
    """
    try:
        data = json.loads(text)
        kernel, target, decisions = data["kernel"], data["target"], dict(data["decisions"])
        if not isinstance(target, str) or not isinstance(kernel, str | None):
            raise TypeError("kernel and target are names")
    except (KeyError, TypeError, ValueError) as error:
        raise TileIRError.single(
            BAD_RECORD,
            f"'{name}' is not a record of decisions: {type(error).__name__}: {error}",
            help="`tilewright tune FILE --search --save RECORD` writes one",
        ) from error
    return Record(Decisions.of(decisions), kernel, target)
