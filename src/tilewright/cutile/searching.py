"""cuTile's tuner, answered by the performance model instead of a GPU's clock."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilewright.cutile.frontend import front_end
from tilewright.cutile.launching import checked_launch
from tilewright.diagnostics.tracebacks import hides_frames
from tilewright.tuning.ranking import Candidate, Ranking
from tilewright.tuning.searcher import Searcher, searcher_for

if TYPE_CHECKING:
    from tilewright.cutile.settings import Settings

__tracebackhide__ = hides_frames


class DoesNotFitError(RuntimeError):
    """A configuration of a search that cannot run on the GPU that is modelled, or of which nothing is known."""


def searcher_of(settings: Settings) -> Searcher | None:
    """Who answers searches by the model; None where they are timed."""
    if settings.searcher is not None or settings.tune_for is None:
        return settings.searcher
    return searcher_for(settings.tune_for, _say)


def _say(text: str) -> None:
    sys.stderr.write(f"tilewright: {text}\n")


def search(
    searcher: Searcher,
    search_space: Sequence[Any],
    stream: Any,
    grid_fn: Callable[[Any], tuple[int, ...]],
    kernel: Any,
    args_fn: Callable[[Any], tuple[Any, ...]],
    hints_fn: Callable[[Any], dict[str, Any]] | None = None,
    *,
    quiet: bool = False,
    single_run_timeout_sec: float | None = None,
    flush_l2: bool = True,
) -> Any:
    """What ``cuda.tile.tune.exhaustive_search`` gives, with modelled times in the place of measured ones.

    Nothing is launched. A configuration that is not measured has no samples and no margin. Raises ValueError for an
    empty space and where no configuration can run, as cuTile does.
    """
    if len(search_space) == 0:
        raise ValueError("Search space is empty.")
    configurations = list(search_space)
    candidates: list[Candidate] = []
    raised: dict[int, Exception] = {}
    names: dict[str, None] = {}
    for number, chosen in enumerate(configurations):
        grid = grid_fn(chosen)
        made = kernel if isinstance(kernel, front_end().kernel_type) else kernel(chosen)
        made = made.replace_hints(**(hints_fn(chosen) if hints_fn is not None else {}))
        names[made._annotated_function.pyfunc.__name__] = None
        told = described(chosen)
        label = _label(chosen, told)
        try:
            candidates.append(
                _candidate(searcher, told, label, stream, grid, made, args_fn(chosen))
            )
        except Exception as error:  # noqa: BLE001 (cuTile's tuner tells of any, and goes on)
            raised[number] = error
            reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            candidates.append(Candidate(told, label, refused=("", reason)))
    found = searcher.search(", ".join(names), candidates)
    result = _result(found, candidates, configurations, raised)
    if not quiet:
        print(result)
    return result


def _candidate(
    searcher: Searcher,
    configuration: dict[str, Any],
    label: str,
    stream: Any,
    grid: Any,
    kernel: Any,
    arguments: Any,
) -> Candidate:
    from tilewright.tuning.launches import keep_described

    dispatcher, extents = checked_launch(stream, grid, kernel, arguments)
    key, values = dispatcher.read(arguments)
    compiled = dispatcher.compiled(key)
    if 0 in extents:
        raise RuntimeError("Failed to launch cuTile kernel: invalid argument")
    launch = keep_described(compiled.entry, compiled.module, compiled.entry, extents, values)
    return searcher.candidate(configuration, label, launch)


def described(chosen: Any) -> dict[str, Any]:
    """A configuration of a program, whatever it is made of, as names and values."""
    if isinstance(chosen, dict):
        return {str(name): value for name, value in chosen.items()}
    if dataclasses.is_dataclass(chosen) and not isinstance(chosen, type):
        return {f.name: getattr(chosen, f.name) for f in dataclasses.fields(chosen)}
    if isinstance(chosen, tuple) and hasattr(chosen, "_asdict"):
        return dict(chosen._asdict())  # pyright: ignore[reportAttributeAccessIssue]
    held = getattr(chosen, "__dict__", None)
    if held and not callable(chosen):
        return dict(held)
    return {"config": chosen}


def _label(chosen: Any, told: dict[str, Any]) -> str:
    from tilewright.tuning.space import spelled

    return str(chosen) if set(told) == {"config"} else spelled(told)


def _result(
    found: Ranking,
    candidates: Sequence[Candidate],
    configurations: Sequence[Any],
    raised: dict[int, Exception],
) -> Any:
    """cuTile's own result."""
    tune = import_module("cuda.tile.tune")
    # A ranking has the descriptions that it was given.
    places = {id(candidate.configuration): n for n, candidate in enumerate(candidates)}
    measurements = [
        tune.Measurement(
            config=configurations[places[id(each.configuration)]],
            mean_us=(each.seconds if each.measured is None else each.measured) * 1e6,
            num_samples=each.samples,
            error_margin_us=0.0,
        )
        for each in found.ranked
    ]
    failures: list[tuple[Any, type[BaseException], str]] = []
    for each in found.refused:
        number = places[id(each.configuration)]
        error = raised.get(number) or DoesNotFitError(each.reason)
        failures.append((configurations[number], type(error), str(error)))
    if not measurements:
        chosen, kind, message = failures[0]
        raise ValueError(
            f"No valid config found in search space.\nConfig: {chosen}\n{kind.__name__}: {message}"
        )
    return tune.TuningResult(
        best=measurements[0], successes=tuple(measurements), failures=tuple(failures)
    )
