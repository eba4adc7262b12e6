"""A whole program with one configuration: what its launches take, by the model or by a machine. These are jobs of campaigns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.campaign.jobs import Job, content_key
from tilewright.cutile.compilation import ProgramRun
from tilewright.cutile.kept_programs import KeptProgram, refusal_of, run_kept
from tilewright.cutile.launching import Specialisation
from tilewright.cutile.settings import Launched, Settings
from tilewright.diagnostics import TileIRError
from tilewright.launching.described import Value, arguments_of, kind_of, memory_of_lists
from tilewright.tuning.codes import PROGRAM

_REPEATS = 3


def model_job(program: KeptProgram, gpu: str, static: bool, machine: str | None, label: str) -> Job:
    """The job of modelling a program's launches for the GPU of that text (``tuning.jobs.gpu_text``). With a
    ``machine`` they run there as well."""
    arguments = {"program": program, "gpu": gpu, "static": static, "machine": machine}
    key = content_key("model-program", program.key, gpu, static, machine)
    return Job("tilewright.cutile.tuned_programs:model_program", arguments, key, label)


def measure_job(program: KeptProgram, machine: str, label: str) -> Job:
    """The job of measuring a program's launches on a machine."""
    arguments = {"program": program, "machine": machine}
    key = content_key("measure-program", program.key, machine)
    return Job("tilewright.cutile.tuned_programs:measure_program", arguments, key, label)


def model_program(
    program: KeptProgram, gpu: str, static: bool, machine: str | None
) -> dict[str, Any]:
    """The modelled time of all launches together, and what a ranking says of each kind of them.

    Raises TileIRError if the program launches nothing, or makes a launch that cuTile refuses.
    """
    made: dict[tuple[object, ...], list[Any]] = {}

    def launched(
        compiled: Specialisation, grid: tuple[int, int, int], values: Sequence[Value]
    ) -> bool:
        if program.kernel in (None, compiled.entry, f"{compiled.entry}#{compiled.number}"):
            key = id(compiled.module), grid, *map(kind_of, values)
            made.setdefault(key, [compiled, grid, values, 0])[3] += 1
        return machine is not None

    run = run_kept(program, Settings(machine or "reference", instead=launched))
    if not made:
        raise _nothing(program, run)
    refused = run.error is not None and refusal_of(run.error)
    if refused:
        raise TileIRError.single(PROGRAM, refused)
    return _modelled(list(made.values()), program, gpu, static, _ended(run, machine))


def _modelled(
    made: Sequence[Sequence[Any]], program: KeptProgram, gpu: str, static: bool, ended: str
) -> dict[str, Any]:
    from tilewright.passes.tileas.decisions import Decisions
    from tilewright.profiling import Asked, Profiler
    from tilewright.tuning.fit import check_fits
    from tilewright.tuning.jobs import facts_of, gpu_of
    from tilewright.tuning.launches import with_hints

    asked = Asked(run_seconds=0.0) if static else Asked()
    modelled_for = gpu_of(gpu)
    profilers: dict[int, Profiler] = {}
    launches: list[dict[str, Any]] = []
    for compiled, grid, values, count in made:
        profiler = profilers.get(id(compiled.module))
        if profiler is None:
            module = with_hints(compiled.module, compiled.entry, program.hints)
            check_fits(module.entry(compiled.entry), modelled_for)
            profiler = profilers[id(compiled.module)] = Profiler(
                module, modelled_for, compiled.entry, Decisions.of(program.decisions)
            )
        memory = memory_of_lists(values)
        found = profiler.profile(grid, list(arguments_of(values)), memory=memory, asked=asked)
        launches.append(facts_of(compiled.entry, found, count))
    seconds = sum(facts["seconds"] * facts["count"] for facts in launches)
    return {"seconds": seconds, "launches": launches, "ended": ended}


def measure_program(program: KeptProgram, machine: str) -> dict[str, Any]:
    """The shortest time that all launches together take on a machine, in seconds, of several runs of the program.

    Raises TileIRError if it launches nothing.
    """
    from tilewright.tuning.jobs import seconds_of

    taken: list[float] = []
    for _ in range(_REPEATS):
        times: list[float] = []

        def launched(found: Launched, times: list[float] = times) -> None:
            if program.kernel in (None, found.kernel, f"{found.kernel}#{found.number}"):
                times.append(seconds_of(found.result, found.seconds))

        run = run_kept(program, Settings(machine, on_launch=launched))
        if not times:
            raise _nothing(program, run)
        taken.append(sum(times))
    return {"seconds": min(taken), "samples": _REPEATS}


def _ended(run: ProgramRun, machine: str | None) -> str:
    if not run.status:
        return ""
    why = "" if machine is not None else ", which were not run; --machine cpu runs them"
    return f"the program ended with an error after these launches{why}"


def _nothing(program: KeptProgram, run: ProgramRun) -> TileIRError:
    error = run.error
    if error is None:
        what = f"kernel '{program.kernel}'" if program.kernel else "cuTile kernel"
        return TileIRError.single(PROGRAM, f"the program launches no {what}")
    message = " ".join(str(error).split())
    return TileIRError.single(PROGRAM, refusal_of(error) or f"{type(error).__name__}: {message}")
