"""Determines the launches for ``tilewright profile``: of programs, of modules, of machine code."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tilewright.cli.modules import load
from tilewright.cli.profile_arguments import Arguments, read_arguments
from tilewright.cli.progress import working
from tilewright.cli.session import Session, UsageError

if TYPE_CHECKING:
    from tilewright.model.report import Launch
    from tilewright.model.sass import Kernel
    from tilewright.model.tables import Gpu
    from tilewright.profiling import Asked, Profiler

#: Larger arrays are zeros: their contents only matter to data-dependent loops.
_FILLED = 1 << 22
_SIZED = re.compile(
    r"(?P<head>(array:)?)(random|normal|ones|iota|full):(?P<rest>\w+:(?P<dims>\d+(x\d+)*))"
)

_OF_LAUNCHES = {"grid": "grid", "block": "block", "cubin": "cubin"}


def of_program(options: argparse.Namespace, session: Session, gpu: Gpu) -> tuple[list[Launch], int]:
    """Return the launches of a cuTile program, grouped by kind, and the exit status.

    Raises UsageError for options that describe a launch.
    """
    from tilewright.cli.programs import take
    from tilewright.launching.described import Value, kind_of
    from tilewright.model.report import Launch
    from tilewright.profiling import Profiler

    for name, shown in _OF_LAUNCHES.items():
        if getattr(options, name) is not None:
            raise UsageError.because(
                f"--{shown} does not apply to programs, which launch kernels themselves"
            )
    if options.arguments:
        raise UsageError.because(
            "--arg does not apply to programs, which launch kernels themselves"
        )
    made: dict[tuple[object, ...], list[Any]] = {}

    def launched(compiled: Any, grid: tuple[int, int, int], values: Sequence[Value]) -> bool:
        key = id(compiled.module), grid, *map(kind_of, values)
        made.setdefault(key, [compiled, grid, values, 0])[3] += 1
        return options.machine is not None

    program = take(options.file, options, session, instead=launched)
    expected = program.status != 0 and options.machine is None
    if expected:
        session.say(
            "note: the program failed after these launches, which were not run; use --machine cpu "
            "for programs that depend on results"
        )
    labels = {id(taken.kernel.module): taken for taken in program.chosen}
    profilers: dict[int, Profiler] = {}
    found: list[Launch] = []
    for compiled, grid, values, count in made.values():
        taken = labels.get(id(compiled.module))
        if taken is None:
            continue
        with working(f"profiling {taken.label}"):
            profiler = profilers.get(id(compiled.module))
            if profiler is None:
                profiler = Profiler(compiled.module, gpu, compiled.entry)
                profilers[id(compiled.module)] = profiler
            name = _name(taken.label, grid, values, [m for m in made.values() if m[0] is compiled])
            found.append(Launch(name, _described(profiler, grid, values, options), count))
    return found, 0 if expected else program.finish(0)


def _name(
    label: str, grid: tuple[int, int, int], values: Sequence[Any], same: Sequence[Sequence[Any]]
) -> str:
    """Return a kernel's name, with its grid if it is launched in several ways, and extents if that is not enough."""
    from tilewright.launching.described import ArrayValue

    if len(same) == 1:
        return label
    name = f"{label} on {'x'.join(map(str, grid))}"
    if sum(other[1] == grid for other in same) > 1:
        shapes = ["x".join(map(str, v.layout.shape)) for v in values if isinstance(v, ArrayValue)]
        name += f" of {', '.join(shapes)}"
    return name


def _described(
    profiler: Profiler,
    grid: tuple[int, int, int],
    values: Sequence[Any],
    options: argparse.Namespace,
) -> Any:
    from tilewright.launching.described import arguments_of, memory_of_lists

    given = list(arguments_of(values))
    asked = _asked(options, profiler.code_for(grid, given).kernel)
    return profiler.profile(grid, given, memory=memory_of_lists(values), asked=asked)


def _asked(options: argparse.Namespace, kernel: Kernel) -> Asked:
    from tilewright.profiling import Asked

    asked = Asked(
        block=options.block,
        dynamic_shared_bytes=options.dynamic_shared or 0,
        trips=_trips(options.trips, kernel),
        footprint_bytes=options.footprint,
    )
    return replace(asked, run_seconds=0.0) if options.static else asked


def of_file(options: argparse.Namespace, session: Session, gpu: Gpu) -> Launch:
    """Return the launch of a kernel of a module or of machine code.

    Raises UsageError for an empty launch, TileIRError for bad input.
    """
    grid = options.grid or (1, 1, 1)
    if math.prod(grid) < 1 or (options.block is not None and math.prod(options.block) < 1):
        raise UsageError.because("an extent of the launch is 0")
    if options.cubin is not None:
        return _static(_from_cubin(options, session), options, gpu, grid)
    from tilewright.cli.compile_gpu import gpu_module
    from tilewright.cli.modules import machine_module
    from tilewright.cli.run import entry_of
    from tilewright.cli.run_sim import parameters_of as parameters_of_threads
    from tilewright.cli.run_sim import thread_kernel
    from tilewright.cli.run_specs import bind, parameters_of
    from tilewright.launching.modules import is_tile_ir
    from tilewright.profiling import Profiler

    module: Any = load(options.file, options, session)
    if is_tile_ir(module):
        module = machine_module(module, options.file)
        entry = entry_of(module, options.kernel)
        name, parameters = entry.symbol, parameters_of(entry)
    else:
        module = gpu_module(module)
        function = thread_kernel(module, options.kernel)
        name, parameters = function.symbol, parameters_of_threads(function)
    given = read_arguments(options.arguments, [parameter.name for parameter in parameters])
    with working(f"profiling {name}"):
        profiler = Profiler(module, gpu, name)
        if options.static or None in given.values:
            return _static(_of_profiler(profiler, parameters), options, gpu, grid)
        values = bind(parameters, [light(text) for text in options.arguments], 0)
        from tilewright.model.report import Launch

        asked = _asked(options, profiler.code_for(grid, values).kernel)
        return Launch(name, profiler.profile(grid, values, asked=asked))


def light(text: str) -> str:
    """Return a SPEC; of zeros for a large array."""
    name, equals, spec = (
        text.partition("=") if re.match(r"[A-Za-z_][\w$.\-]*=", text) else ("", "", text)
    )
    match = _SIZED.match(spec)
    if match is None or math.prod(map(int, match["dims"].split("x"))) <= _FILLED:
        return text
    return f"{name}{equals}{match['head']}zeros:{match['rest']}"


@dataclass(frozen=True, slots=True)
class _Code:
    """Machine code of a kernel, and the ``names`` of its parameters if known."""

    kernel: Kernel
    names: Sequence[str]
    dynamic_shared: int
    origins: Any


def _of_profiler(profiler: Profiler, parameters: Sequence[Any]) -> _Code:
    names = [parameter.name for parameter in parameters]
    code = profiler.code
    return _Code(code.kernel, names, code.compiled.dynamic_shared_bytes, code.origins)


def _from_cubin(options: argparse.Namespace, session: Session) -> _Code:
    from tilewright.gpu.tools import disassemble_to_json
    from tilewright.model.sass import kernel_named, read_kernels

    kernels = read_kernels(session.read(options.cubin).data, disassemble_to_json)
    return _Code(kernel_named(kernels, options.kernel), (), 0, {})


def _static(
    code: _Code, options: argparse.Namespace, gpu: Gpu, grid: tuple[int, int, int]
) -> Launch:
    """Profile machine code with what is known of the launch."""
    from tilewright.model.profile import Options
    from tilewright.model.report import Launch
    from tilewright.model.timing import profile
    from tilewright.model.walk import LaunchShape, parameter_words

    kernel = code.kernel
    names = list(code.names) or [f"arg{number}" for number in range(len(kernel.file.parameters))]
    given: Arguments = read_arguments(options.arguments, names)
    launch = LaunchShape(
        grid,
        _threads(kernel, options),
        parameter_words(kernel, _sized(kernel, given.values)),
    )
    known = Options(
        trips=_trips(options.trips, kernel),
        dynamic_shared_bytes=code.dynamic_shared + (options.dynamic_shared or 0),
        footprint_bytes=options.footprint if options.footprint is not None else given.array_bytes,
        origins=code.origins,
    )
    with working(f"profiling {kernel.name}"):
        return Launch(kernel.name, profile(kernel, gpu, launch, known))


def _threads(kernel: Kernel, options: argparse.Namespace) -> tuple[int, int, int]:
    said = kernel.file.threads
    if options.block is not None:
        if said is not None and kernel.file.exact_threads and options.block != said:
            raise UsageError.because(
                f"'{kernel.name}' requires blocks of {said}, not {options.block}"
            )
        return options.block
    if said is None or not kernel.file.exact_threads:
        raise UsageError.because(
            "the code does not state its threads per block", help="add --block"
        )
    return said


def _sized(
    kernel: Kernel, values: Sequence[int | float | None]
) -> list[tuple[int, int | float | None]]:
    """Return the values with the byte sizes of their parameters."""
    places = kernel.file.parameters
    if len(values) > len(places):
        values = values[: len(places)]
    return [(place.size, value) for place, value in zip(places, values, strict=False)]


def _trips(given: Sequence[str], kernel: Kernel) -> dict[str, int]:
    names = [loop.name for loop in kernel.loops if not loop.waits]
    found: dict[str, int] = {}
    for text in given:
        name, _, count = text.partition("=")
        if name not in names or not count.isdecimal() or int(count) < 1:
            raise UsageError.because(
                f"'{text}' is not of the form LOOP=N",
                help=f"loops of '{kernel.name}': {', '.join(names) or 'none'}",
            )
        found[name] = int(count)
    return found
