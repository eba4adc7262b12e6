"""A whole program with one configuration: what its launches take, by the model or by a machine. These are jobs of campaigns."""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.campaign.jobs import Job, content_key
from tilewright.cutile.compilation import ProgramRun, compile_program
from tilewright.cutile.frontend import front_end, refusal
from tilewright.cutile.launching import Specialisation
from tilewright.cutile.scope import Launched, Settings
from tilewright.diagnostics import TileIRError
from tilewright.launching.described import Value, arguments_of, kind_of, memory_of_lists
from tilewright.launching.options import LaunchOptions
from tilewright.tuning.codes import PROGRAM

_REPEATS = 3


@dataclass(frozen=True, slots=True)
class TunedProgram:
    """A program with one configuration.

    ``source`` is its text, ``arguments`` are its own, ``constants`` of its module have these values, and ``hints`` go to
    all of its kernels. ``kernel``: only launches of this one count. ``torch_cuda``: torch's device is served by the CPU.
    ``imports`` is a hash of the files of its folder that it imports.
    """

    path: str
    source: bytes
    arguments: tuple[str, ...]
    constants: Mapping[str, Any]
    hints: Mapping[str, Any]
    kernel: str | None = None
    torch_cuda: bool = True
    imports: str = ""

    @property
    def key(self) -> str:
        """A hash of what its modelled time depends on."""
        configuration = [sorted(map(repr, held.items())) for held in (self.constants, self.hints)]
        release = list(front_end().release)
        return content_key(
            self.source, self.imports, list(self.arguments), configuration, self.kernel, release
        )


def model_job(program: TunedProgram, gpu: str, static: bool, machine: str | None, label: str) -> Job:
    """The job of modelling a program's launches for the GPU of that text (``tuning.jobs.gpu_text``). With a
    ``machine`` they run there as well."""
    arguments = {"program": program, "gpu": gpu, "static": static, "machine": machine}
    key = content_key("model-program", program.key, gpu, static, machine)
    return Job("tilewright.cutile.tuned_programs:model_program", arguments, key, label)


def measure_job(program: TunedProgram, machine: str, label: str) -> Job:
    """The job of measuring a program's launches on a machine."""
    arguments = {"program": program, "machine": machine}
    key = content_key("measure-program", program.key, machine)
    return Job("tilewright.cutile.tuned_programs:measure_program", arguments, key, label)


def model_program(
    program: TunedProgram, gpu: str, static: bool, machine: str | None
) -> dict[str, Any]:
    """The modelled time of all launches together, and what a ranking says of each kind of them."""
    made: dict[tuple[object, ...], list[Any]] = {}

    def launched(
        compiled: Specialisation, grid: tuple[int, int, int], values: Sequence[Value]
    ) -> bool:
        if program.kernel in (None, compiled.entry, f"{compiled.entry}#{compiled.number}"):
            key = id(compiled.module), grid, *map(kind_of, values)
            made.setdefault(key, [compiled, grid, values, 0])[3] += 1
        return machine is not None

    run = _run(program, Settings(machine or "reference", instead=launched))
    if not made:
        raise _nothing(program, run)
    refused = run.error is not None and _refusal(run.error)
    if refused:
        raise TileIRError.single(PROGRAM, refused)
    return _modelled(list(made.values()), program, gpu, static, _ended(run, machine))


def _modelled(
    made: Sequence[Sequence[Any]], program: TunedProgram, gpu: str, static: bool, ended: str
) -> dict[str, Any]:
    from tilewright.profiling import Asked, Profiler
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
            profiler = profilers[id(compiled.module)] = Profiler(
                module, modelled_for, compiled.entry
            )
        memory = memory_of_lists(values)
        found = profiler.profile(grid, list(arguments_of(values)), memory=memory, asked=asked)
        launches.append(facts_of(compiled.entry, found, count))
    seconds = sum(facts["seconds"] * facts["count"] for facts in launches)
    return {"seconds": seconds, "launches": launches, "ended": ended}


def measure_program(program: TunedProgram, machine: str) -> dict[str, Any]:
    """The shortest time that all launches together take on a machine, in seconds, of several runs of the program."""
    from tilewright.tuning.jobs import seconds_of

    taken: list[float] = []
    for _ in range(_REPEATS):
        times: list[float] = []

        def launched(found: Launched, times: list[float] = times) -> None:
            if program.kernel in (None, found.kernel, f"{found.kernel}#{found.number}"):
                times.append(seconds_of(found.result, found.seconds))

        run = _run(program, Settings(machine, on_launch=launched))
        if not times:
            raise _nothing(program, run)
        taken.append(sum(times))
    return {"seconds": min(taken), "samples": _REPEATS}


def _run(program: TunedProgram, settings: Settings) -> ProgramRun:
    from dataclasses import replace

    quiet = LaunchOptions(print_to=lambda text: None)
    settings = replace(settings, options=quiet, cuda_is_host=program.torch_cuda)
    with _file_of(program) as path, _modules_of(Path(path).resolve().parent):
        return compile_program(
            path,
            program.arguments,
            settings,
            torch_cuda=program.torch_cuda,
            stdout=io.StringIO(),
            constants=program.constants,
        )


@contextmanager
def _file_of(program: TunedProgram) -> Iterator[str]:
    """The program as a file: its own where this machine has it, else another with the same text."""
    own = Path(program.path)
    try:
        is_here = own.read_bytes() == program.source
    except OSError:
        is_here = False
    if is_here:
        yield program.path
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / own.name
        path.write_bytes(program.source)
        yield str(path)


@contextmanager
def _modules_of(folder: Path) -> Iterator[None]:
    """Modules of a program's own folder are imported anew by the next program."""
    before = set(sys.modules)
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).resolve().is_relative_to(folder) and "site-packages" not in file:
                del sys.modules[name]


def _refusal(error: BaseException) -> str:
    """Why a program cannot go on with these values, whatever its launches compute; empty where it could."""
    if (found := refusal(error)) is not None:
        return f"cuTile refuses a kernel: {found[0]}"
    return error.diagnostics[0].message if isinstance(error, TileIRError) else ""


def _ended(run: ProgramRun, machine: str | None) -> str:
    if not run.status:
        return ""
    why = "" if machine is not None else ", which were not run; --machine cpu runs them"
    return f"the program ended with an error after these launches{why}"


def _nothing(program: TunedProgram, run: ProgramRun) -> TileIRError:
    error = run.error
    if error is None:
        what = f"kernel '{program.kernel}'" if program.kernel else "cuTile kernel"
        return TileIRError.single(PROGRAM, f"the program launches no {what}")
    message = " ".join(str(error).split())
    return TileIRError.single(PROGRAM, _refusal(error) or f"{type(error).__name__}: {message}")
