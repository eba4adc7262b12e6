"""The search spaces of ``tilewright tune``: of the command line, and of programs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.cli.exits import Exit
from tilewright.cli.session import Session, UsageError
from tilewright.diagnostics import TileIRError

if TYPE_CHECKING:
    from tilewright.campaign.jobs import Outcome
    from tilewright.campaign.runner import Executor
    from tilewright.campaign.store import Store
    from tilewright.model.tables import Gpu
    from tilewright.tuning.ranking import Candidate, Ranking
    from tilewright.tuning.space import Axis

_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Searching:
    """The parameters shared by all searches of a command. ``measured``: how many of the best are measured."""

    options: argparse.Namespace
    session: Session
    gpu: Gpu
    running: Executor
    store: Store
    measured: int
    told: Callable[[Outcome, int, int], object]

    @property
    def machine(self) -> str:
        """The machine that configurations are measured on."""
        return self.options.measure_on


def of_searches(asked: Searching) -> tuple[list[Ranking], int]:
    """Run the searches that a program makes with cuTile's tuner. Returns rankings and the exit status.

    Raises TileIRError for a program that makes none, and its own error if it fails before the first.
    """
    from dataclasses import replace

    from tilewright.cli.programs import take
    from tilewright.cutile.settings import Settings
    from tilewright.tuning.codes import NO_SPACE
    from tilewright.tuning.searcher import Searcher

    options = asked.options
    _refuse_of_files(options)
    searcher = Searcher(
        asked.gpu,
        running=asked.running,
        store=asked.store,
        static=options.static,
        measure=(asked.measured, asked.machine),
        job_limit=options.job_limit,
        told=asked.told,
    )
    runs = options.machine is not None

    def with_searcher(settings: Settings) -> Settings:
        return replace(settings, searcher=searcher)

    try:
        program = take(
            options.file,
            options,
            asked.session,
            instead=lambda *launch: runs,
            settled=with_searcher,
        )
    except TileIRError:
        if not searcher.rankings:
            raise
        return searcher.rankings, Exit.OK
    if not searcher.rankings:
        raise TileIRError.single(
            NO_SPACE,
            f"'{options.file}' has no search space: it does not call cuda.tile.tune.exhaustive_search",
            help=_spaces(options.file),
        )
    return searcher.rankings, program.finish(0) if runs else Exit.OK


def _spaces(path: str) -> str:
    from tilewright.cutile.module_constants import constants_of

    try:
        found = constants_of(Path(path).read_bytes(), path)
    except (OSError, SyntaxError, ValueError):
        found = {}
    numbers = [name for name, value in found.items() if type(value) is int]
    if not numbers:
        return "give --hint, or --set for names that the program's arguments have as {NAME}"
    return f"give --hint, or --set for constants of the program: {', '.join(numbers)}"


def of_program(asked: Searching) -> list[Ranking]:
    """Search the space that the command line defines for a cuTile program.

    Raises UsageError for options of files, and where the program lacks a constant.
    """
    from tilewright.cutile.kept_programs import KeptProgram, imports_of
    from tilewright.cutile.tuned_programs import measure_job, model_job
    from tilewright.tuning.jobs import gpu_text
    from tilewright.tuning.ranking import Candidate, measure_best, rank

    options = asked.options
    _refuse_of_files(options)
    sets, hints, decided = _axes(asked)
    source = asked.session.read(options.file).data
    constants = _constants(sets, source, options.file, asked.session.program_arguments)
    imports = imports_of(Path(options.file), source)
    text = gpu_text(asked.gpu)
    candidates: list[Candidate] = []
    for configuration, label in _configurations([*sets, *hints, *decided], options):
        program = KeptProgram(
            options.file,
            source,
            tuple(_filled(word, configuration) for word in asked.session.program_arguments),
            {name: configuration[name] for name in constants},
            {axis.name: configuration[axis.name] for axis in hints},
            options.kernel,
            options.torch_cuda,
            imports,
            {axis.name: configuration[axis.name] for axis in decided},
        )
        job = model_job(program, text, options.static, options.machine, label)
        measured = (
            measure_job(program, asked.machine, label) if asked.measured and not decided else None
        )
        candidates.append(
            Candidate(configuration, label, _limited(job, options), _limited(measured, options))
        )
    _need_tools(options)
    name = options.kernel or Path(options.file).name
    found = rank(name, candidates, asked.running, asked.store, told=asked.told)
    return [_finished(found, asked, hints, measure_best)]


def of_file(asked: Searching) -> list[Ranking]:
    """Search the hints that the command line gives for a Tile IR kernel. Raises TileIRError if it gives none."""
    from dataclasses import replace

    from tilewright.tuning.codes import NO_SPACE
    from tilewright.tuning.launches import keep_launch, with_hints
    from tilewright.tuning.ranking import measure_best, rank

    options = asked.options
    _refuse_of_programs(options)
    _, hints, decided = _axes(asked)
    if not hints and not decided:
        raise TileIRError.single(
            NO_SPACE,
            f"there is no search space for '{options.file}'",
            help="for example --hint occupancy=1,2 --hint num_worker_warps_per_cta=4,8",
        )
    module, entry, grid, values = _launch_of(asked)
    searcher = _searcher_of(asked)
    candidates: list[Candidate] = []
    for configuration, label in _configurations([*hints, *decided], options):
        chosen = {axis.name: configuration[axis.name] for axis in hints}
        changed = with_hints(module, entry.symbol, chosen)
        launch = keep_launch(entry.symbol, changed, entry.symbol, grid, values)
        launch = replace(launch, decisions={a.name: configuration[a.name] for a in decided})
        candidates.append(searcher.candidate(configuration, label, launch))
    _need_tools(options)
    found = rank(entry.symbol, candidates, asked.running, asked.store, told=asked.told)
    return [_finished(found, asked, hints, measure_best)]


def _launch_of(asked: Searching) -> tuple[Any, Any, tuple[int, int, int], Any]:
    """Return the module of a file, one of its kernels, and the launch of the command line: grid and arguments."""
    from tilewright.cli.modules import load, machine_module
    from tilewright.cli.profile_launches import light
    from tilewright.cli.run import entry_of
    from tilewright.cli.run_specs import bind, parameters_of
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp

    options = asked.options
    _refuse_of_programs(options)
    module: Any = machine_module(load(options.file, options, asked.session), options.file)
    if not isinstance(module, ModuleOp):
        raise UsageError.because(f"'{options.file}' is not Tile IR")
    entry = entry_of(module, options.kernel)
    values = bind(parameters_of(entry), [light(text) for text in options.arguments], 0)
    return module, entry, options.grid or (1, 1, 1), values


def _searcher_of(asked: Searching) -> Any:
    from tilewright.tuning.searcher import Searcher

    return Searcher(
        asked.gpu,
        static=asked.options.static,
        measure=(asked.measured, asked.machine),
        job_limit=asked.options.job_limit,
    )


def of_decisions(asked: Searching) -> list[Ranking]:
    """Search over the compiler's decisions about the kernels of a program, or the kernel of a file.

    Raises UsageError for options that do not apply, TileIRError for bad input.
    """
    from tilewright.cli.programs import is_program
    from tilewright.tuning.decided import search
    from tilewright.tuning.ranking import measure_best

    options = asked.options
    if is_program(options.file):
        _refuse_of_files(options)
        name, candidate = options.kernel or Path(options.file).name, _of_program(asked)
    else:
        name, candidate = _of_launch(asked)
    _need_tools(options)
    found = search(name, candidate, asked.gpu, asked.running, asked.store, asked.told)
    return [_finished(found, asked, (), measure_best)]


def _of_program(asked: Searching) -> Callable[[Mapping[str, Any]], Candidate]:
    """Return a function that makes the candidate for decisions about a program's kernels."""
    from tilewright.cutile.kept_programs import KeptProgram, imports_of
    from tilewright.cutile.tuned_programs import model_job
    from tilewright.tuning.decided import label_of
    from tilewright.tuning.jobs import gpu_text
    from tilewright.tuning.ranking import Candidate

    options, text = asked.options, gpu_text(asked.gpu)
    source = asked.session.read(options.file).data
    imports = imports_of(Path(options.file), source)

    def candidate(decisions: Mapping[str, Any]) -> Candidate:
        words, kernel = tuple(asked.session.program_arguments), options.kernel
        shared = options.torch_cuda, imports, decisions
        program = KeptProgram(options.file, source, words, {}, {}, kernel, *shared)
        label = label_of(decisions)
        job = model_job(program, text, options.static, options.machine, label)
        return Candidate(decisions, label, _limited(job, options))

    return candidate


def _of_launch(asked: Searching) -> tuple[str, Callable[[Mapping[str, Any]], Candidate]]:
    """Return the kernel of a file, and a function that makes the candidate for decisions about it."""
    from dataclasses import replace

    from tilewright.tuning.decided import label_of
    from tilewright.tuning.launches import keep_launch

    module, entry, grid, values = _launch_of(asked)
    searcher = _searcher_of(asked)
    launch = keep_launch(entry.symbol, module, entry.symbol, grid, values)

    def candidate(decisions: Mapping[str, Any]) -> Candidate:
        decided = replace(launch, decisions=decisions)
        return searcher.candidate(dict(decisions), label_of(decisions), decided)

    return entry.symbol, candidate


def _finished(
    found: Ranking, asked: Searching, hints: Sequence[Axis], measure_best: Callable[..., Ranking]
) -> Ranking:
    """Return the ranking with measurements, and with remarks about the hints."""
    from dataclasses import replace

    from tilewright.campaign.runner import Where, executor
    from tilewright.tuning.hints import UNUSED

    if asked.measured:
        # One at a time, since they would otherwise share the GPU.
        with executor(Where(1)) as alone:
            found = measure_best(found, asked.measured, asked.machine, alone)
    if any(axis.name == UNUSED and len(axis.values) > 1 for axis in hints):
        note = f"the compiler ignores {UNUSED}, so it does not change the time"
        found = replace(found, notes=(*found.notes, note))
    return found


def _axes(asked: Searching) -> tuple[list[Axis], list[Axis], list[Axis]]:
    """Return the axes given on the command line: constants, hints, decisions."""
    from tilewright.model.tables import TARGETS
    from tilewright.passes.tileas.decisions import Decisions
    from tilewright.tuning.hints import check_axis
    from tilewright.tuning.space import axis_of

    target = TARGETS[asked.gpu.compute].rstrip("af")
    try:
        sets = [axis_of(text) for text in asked.options.sets]
        hints = [check_axis(axis_of(text), target) for text in asked.options.hints]
        decided = [axis_of(text) for text in asked.options.decided]
        for axis in decided:
            for value in axis.values:
                Decisions.of({axis.name: value})
    except TileIRError as error:
        raise UsageError(error.diagnostics) from error
    return sets, hints, decided


def _configurations(
    axes: Sequence[Axis], options: argparse.Namespace
) -> list[tuple[dict[str, Any], str]]:
    from tilewright.tuning.space import condition_of, configurations, spelled

    try:
        conditions = [condition_of(t, [axis.name for axis in axes]) for t in options.conditions]
        return [(each, spelled(each)) for each in configurations(axes, conditions)]
    except TileIRError as error:
        raise UsageError(error.diagnostics) from error


def _constants(
    sets: Sequence[Axis], source: bytes, path: str, arguments: Sequence[str]
) -> list[str]:
    """Return the names that are constants of the module; others must occur in the arguments.

    Raises UsageError if one does not.
    """
    from tilewright.cutile.module_constants import constants_of

    try:
        known = constants_of(source, path)
    except (SyntaxError, ValueError) as error:
        raise UsageError.because(f"'{path}' is not valid Python: {error}") from None
    in_arguments = {name for word in arguments for name in _PLACE.findall(word)}
    found: list[str] = []
    for axis in sets:
        if axis.name in known:
            found.append(axis.name)
        elif axis.name not in in_arguments:
            listed = ", ".join(known) or "none"
            raise UsageError.because(
                f"--set {axis.name}: '{path}' has neither a literal constant of that name nor an "
                f"argument {{{axis.name}}}",
                help=f"its constants: {listed}",
            )
    return found


def _filled(word: str, configuration: dict[str, Any]) -> str:
    """Substitute values for names in a word of the program's arguments."""
    return _PLACE.sub(lambda at: str(configuration.get(at[1], at[0])), word)


def _need_tools(options: argparse.Namespace) -> None:
    """Raise TileIRError if a tool is missing here, which every configuration would otherwise report."""
    from tilewright.gpu.tools import need

    for tool in ("ptxas", "nvdisasm"):
        if options.dask is None:
            need(f"bin/{tool}", "the performance model")


def _limited(job: Any, options: argparse.Namespace) -> Any:
    from dataclasses import replace

    return None if job is None else replace(job, time_limit=options.job_limit)


def _refuse_of_programs(options: argparse.Namespace) -> None:
    for name in ("machine", "sets"):
        if getattr(options, name):
            shown = "set" if name == "sets" else name
            raise UsageError.because(f"--{shown} requires a cuTile program")


def _refuse_of_files(options: argparse.Namespace) -> None:
    for name, shown in {"grid": "grid", "arguments": "arg"}.items():
        if getattr(options, name):
            raise UsageError.because(
                f"--{shown} does not apply to programs, which launch kernels themselves"
            )
