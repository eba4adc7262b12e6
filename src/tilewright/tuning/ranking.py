"""Configurations ranked by modelled time, and those that cannot run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.campaign.jobs import Job, Outcome, Status
from tilewright.campaign.runner import Executor, run_campaign
from tilewright.campaign.store import Store


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration with the jobs that model and measure it. If it is known not to run, ``model`` is None and
    ``refused`` has the reason: an error code, which may be empty, and a message.
    """

    configuration: Mapping[str, Any]
    label: str
    model: Job | None = None
    measure: Job | None = None
    refused: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Ranked:
    """A configuration that runs: its modelled ``seconds``, the facts of its launches (``jobs.facts_of``), the
    measurement, and whether the modelled time is from an earlier run. ``ended``: how the launching program ended, if it
    failed.
    """

    configuration: Mapping[str, Any]
    label: str
    seconds: float
    launches: tuple[Mapping[str, Any], ...]
    ended: str = ""
    is_kept: bool = False
    measured: float | None = None
    samples: int = 0
    measure: Job | None = None

    @property
    def main(self) -> Mapping[str, Any]:
        """The facts of the launch with the largest total time."""
        return max(self.launches, key=lambda facts: facts["seconds"] * facts["count"])


@dataclass(frozen=True, slots=True)
class Refused:
    """A configuration that cannot run or could not be modelled: the status of its job, an error code, the reason."""

    configuration: Mapping[str, Any]
    label: str
    status: Status
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ranking:
    """The result of a search: ``ranked``, the fastest first, and ``refused``. ``measured_on``: the machine of the
    measured times. ``notes``: for users.
    """

    name: str
    ranked: tuple[Ranked, ...]
    refused: tuple[Refused, ...]
    measured_on: str = ""
    notes: tuple[str, ...] = field(default=())


#: A callback for outcomes: the outcome, its number, and their total.
Told = Callable[[Outcome, int, int], object] | None


def rank(
    name: str,
    candidates: Sequence[Candidate],
    running: Executor,
    store: Store,
    *,
    told: Told = None,
) -> Ranking:
    """Model the candidates and rank them, the fastest first; ties keep their order.

    ``told`` is called with each outcome, as ``run_campaign`` does. What cannot run, or be modelled, is refused in the
    result, not raised.
    """
    jobs = [candidate.model for candidate in candidates if candidate.model is not None]
    outcomes = iter(run_campaign(jobs, running, store, told=told))
    ranked: list[Ranked] = []
    refused: list[Refused] = []
    for candidate in candidates:
        what = candidate.configuration, candidate.label
        if candidate.model is None:
            refused.append(Refused(*what, Status.REFUSED, *candidate.refused))
            continue
        outcome = next(outcomes)
        if outcome.status is not Status.DONE:
            refused.append(Refused(*what, outcome.status, outcome.code, outcome.reason))
            continue
        value = outcome.value
        ranked.append(
            Ranked(
                *what,
                value["seconds"],
                tuple(value["launches"]),
                value["ended"],
                outcome.is_kept,
                measure=candidate.measure,
            )
        )
    ranked.sort(key=lambda each: each.seconds)
    return Ranking(name, tuple(ranked), tuple(refused), notes=tuple(_notes(ranked)))


def _notes(ranked: Iterable[Ranked]) -> list[str]:
    """The notes that apply to the whole ranking."""
    blind = {
        what: None for each in ranked for facts in each.launches for what in facts.get("blind", ())
    }
    notes = [f"the model ignores: {what}" for what in blind]
    ended = {each.ended: None for each in ranked if each.ended}
    return [*notes, *ended]


def measure_best(ranking: Ranking, count: int, machine: str, running: Executor) -> Ranking:
    """Measure the best ``count`` configurations, one at a time; they come first, ordered by measured time.

    Returns a new ranking; one whose measurement fails keeps its modelled time.
    """
    best = [each for each in ranking.ranked[:count] if each.measure is not None]
    jobs = [each.measure for each in best if each.measure is not None]
    measured: list[Ranked] = []
    notes = list(ranking.notes)
    for each, outcome in zip(best, run_campaign(jobs, running, Store()), strict=True):
        if outcome.status is Status.DONE:
            found = outcome.value
            each = replace(each, measured=found["seconds"], samples=found["samples"])
        else:
            notes.append(f"{each.label} could not be measured: {outcome.reason}")
        measured.append(each)
    measured.sort(key=lambda each: (each.measured is None, each.measured or 0.0))
    others = [each for each in ranking.ranked if all(each is not done for done in best)]
    return replace(
        ranking, ranked=(*measured, *others), measured_on=machine, notes=tuple(dict.fromkeys(notes))
    )
