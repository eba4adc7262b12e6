"""Answers the tuning searches of programs with the performance model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from tilewright.campaign.jobs import Outcome
from tilewright.campaign.runner import Executor, Where, executor
from tilewright.campaign.store import Store
from tilewright.tuning.jobs import gpu_text, measure_job, model_job
from tilewright.tuning.launches import KeptLaunch
from tilewright.tuning.ranking import Candidate, Ranking, measure_best, rank

if TYPE_CHECKING:
    from tilewright.model.tables import Gpu

Say = Callable[[str], object]


class Searcher:
    """Ranks the configurations of each search for a GPU, and measures the best few on request.

    ``running``: the executor of jobs, by default processes of this machine. ``static``: no block is run on the
    simulator. ``measure``: the number of configurations to measure, and the machine. ``job_limit``: seconds per
    configuration. ``rankings``: the results of all searches.
    """

    def __init__(
        self,
        gpu: Gpu,
        *,
        running: Executor | None = None,
        store: Store | None = None,
        static: bool = False,
        measure: tuple[int, str] = (0, ""),
        job_limit: float | None = None,
        told: Callable[[Outcome, int, int], object] | None = None,
        say: Say | None = None,
    ):
        self.gpu = gpu
        self.rankings: list[Ranking] = []
        self._text = gpu_text(gpu)
        self._running, self._store, self._static = running, store or Store(), static
        (self._measure, self._machine), self._told, self._say = measure, told, say
        self._limit = job_limit

    def candidate(
        self, configuration: dict[str, object], label: str, launch: KeptLaunch
    ) -> Candidate:
        """A candidate that makes the given launch."""
        model = replace(model_job(launch, self._text, self._static, label), time_limit=self._limit)
        measured = None
        if self._measure and not launch.memory:
            measured = replace(measure_job(launch, self._machine, label), time_limit=self._limit)
        return Candidate(configuration, label, model, measured)

    def search(self, name: str, candidates: Sequence[Candidate]) -> Ranking:
        """Rank the candidates of a search, and record the result."""
        if self._running is not None:
            return self._search(name, candidates, self._running)
        with executor(Where()) as running:
            return self._search(name, candidates, running)

    def _search(self, name: str, candidates: Sequence[Candidate], running: Executor) -> Ranking:
        found = rank(name, candidates, running, self._store, told=self._told)
        if self._measure:
            # Measured one at a time, so that jobs do not share the GPU.
            with executor(Where(1)) as alone:
                found = measure_best(found, self._measure, self._machine, alone)
        self.rankings.append(found)
        if self._say is not None:
            self._say(
                f"{name}: {len(candidates)} configurations ranked by the model for {self.gpu.title}, not timed"
            )
        return found


@cache
def searcher_for(gpu: str, say: Say | None = None) -> Searcher:
    """The searcher of this process for a GPU by name. Raises ``TileIRError`` if there is no such GPU."""
    from tilewright.model.tables import gpu_named

    return Searcher(gpu_named(gpu), say=say)
