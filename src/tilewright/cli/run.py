"""``tilewright run``: run a kernel and show its results."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, cast

from tilewright.cli.exits import Exit
from tilewright.cli.launch_options import add_find_nan, add_time_limit
from tilewright.cli.modules import (
    add_reading_options,
    is_read_plainly,
    machine_module,
    read_module,
)
from tilewright.cli.progress import working
from tilewright.cli.run_machine import add_machine_arguments, launch_options
from tilewright.cli.run_sim import add_sim_arguments
from tilewright.cli.run_trace import add_trace_arguments, trace_of, written
from tilewright.cli.session import Session, UsageError

if TYPE_CHECKING:
    from tilewright.cli.modules import Module
    from tilewright.cli.run_results import Results
    from tilewright.cli.run_specs import Parameter
    from tilewright.gpu.launch import LaunchResult
    from tilewright.launching.machine import Machine, Program
    from tilewright.launching.modules import KernelOp
    from tilewright.launching.options import LaunchOptions
    from tilewright.launching.result import RunResult
    from tilewright.launching.sources import ModuleSource
    from tilewright.numerics.arithmetic import Arithmetic
    from tilewright.simulator import SimulationResult

_EPILOG = """\
A SPEC is one of
  a.npy  data.npz:key              an array from a file
  random:f32:128x64[:seed]         floats in [0, 1), integers over the whole type
  normal:f32:128x64[:seed]         floats of the standard normal distribution
  zeros:f32:1000  ones:f32:8x8     all 0, or all 1
  iota:i32:256                     0, 1, 2, ...
  full:f32:16:3.5                  all elements 3.5
  i32:5  f32:1.5  5  1.5  true     a number, of the parameter's type
  part:x, part:x:4:12              the array given for x, or some of its elements,
                                   in place
  array:SPEC                       an array as cuTile passes it: pointer, extents, strides
Parameters are named as in the text, without %; arg0, arg1, ... always work, too.

A FILE that ends in .py is a cuTile program: tilewright run [OPTIONS] PROGRAM.py [ARGUMENTS]. It passes its
own arguments, so it has fewer launch options, and has --break, --sanitize and --save-ir:
see tilewright run --help PROGRAM.py.
"""


def add_launch_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which kernel to launch, on which grid, with which arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="text or bytecode; - is standard input")
    parser.add_argument("--entry", metavar="NAME", help="the kernel, if the module has several")
    parser.add_argument(
        "--grid",
        type=grid_extents,
        default=(1, 1, 1),
        metavar="X[,Y[,Z]]",
        help="grid of tile blocks (default 1)",
    )
    parser.add_argument(
        "--arg",
        dest="arguments",
        action="append",
        default=[],
        metavar="[NAME=]SPEC",
        help="an argument; without NAME for the first unassigned parameter",
    )
    parser.add_argument(
        "--seed",
        type=count_of,
        default=0,
        metavar="N",
        help="seed of random arguments and of the schedule of tile blocks (default 0)",
    )
    parser.add_argument(
        "--max-iterations",
        type=count_of,
        default=10_000_000,
        metavar="N",
        help="limit on the iterations of a loop (default 10000000)",
    )
    add_time_limit(parser)
    parser.add_argument(
        "--arithmetic",
        type=parse_arithmetic,
        metavar="KEY=VALUE,...",
        help="compute what Tile IR leaves unspecified closer to hardware: f32_products=tf32, "
        "accumulation=blocks:16, reductions=tree, approximations=hardware, "
        "flush_denormal_addf=true; see docs/machine.md",
    )


def add_result_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for the arrays that the kernel wrote."""
    results = parser.add_argument_group("results")
    results.add_argument(
        "--out", action="append", default=[], metavar="NAME=OUT", help="save an array as .npy"
    )
    results.add_argument("--out-dir", metavar="DIR", help="save every array as DIR/NAME.npy")
    results.add_argument(
        "--print", action="append", default=[], metavar="NAME", help="print an array to stdout"
    )
    results.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="NAME=SPEC",
        help="compare an array with a SPEC; exit 1 if it differs",
    )
    limits = parser.add_argument_group("tolerance of --expect (default: bit-identical)")
    limits.add_argument("--atol", type=_positive, metavar="A", help="absolute error")
    limits.add_argument("--rtol", type=_positive, metavar="R", help="relative error")
    limits.add_argument(
        "--ulp", type=_positive, metavar="N", help="error in units in the last place"
    )
    limits.add_argument("--exact", action="store_true", help="bit-identical")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_launch_arguments(parser)
    add_result_arguments(parser)
    add_machine_arguments(parser)
    add_sim_arguments(parser)
    add_trace_arguments(parser)
    add_find_nan(parser)
    parser.add_argument("--json", action="store_true", help="report the run as JSON on stdout")
    add_reading_options(parser)


def grid_extents(text: str) -> tuple[int, int, int]:
    """Parse a grid option into three extents, x first: ``4``, ``4,2`` or ``4x2x1``; missing ones are 1.

    Raises ArgumentTypeError, whose message argparse shows, for anything else.
    """
    parts = text.replace("x", ",").split(",")
    if len(parts) > 3 or not all(part.strip().isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"expected one to three numbers, found '{text}'")
    x, y, z = [*map(int, parts), 1, 1][:3]
    return x, y, z


def count_of(text: str) -> int:
    """Parse a number option, of at least 0. Raises ArgumentTypeError, whose message argparse shows, for anything
    else.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, found '{text}'")
    return int(text)


def parse_arithmetic(text: str) -> Arithmetic:
    """Parse an arithmetic option. Raises ArgumentTypeError, whose message argparse shows, with the reason."""
    from tilewright.diagnostics import TileIRError
    from tilewright.numerics.arithmetic import Arithmetic

    try:
        return Arithmetic.parse(text)
    except TileIRError as error:
        raise argparse.ArgumentTypeError(error.diagnostics[0].message) from None


def arithmetic_of(options: argparse.Namespace, session: Session) -> Arithmetic:
    """Return the requested arithmetic, and report it unless it is the reference."""
    from tilewright.numerics.arithmetic import REFERENCE

    chosen: Arithmetic = options.arithmetic or REFERENCE
    if not chosen.is_reference:
        session.say(f"arithmetic: {chosen}")
    return chosen


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, found '{text}'")
    return value


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A kernel of the file: how a machine loads its module, and the parameters for arguments."""

    name: str
    load: Callable[[LaunchOptions], Program]
    parameters: Sequence[Parameter]
    level: str


def _kernel(options: argparse.Namespace, machine: Machine, session: Session) -> _Kernel:
    """Return the kernel that the command line names; of ``nvgpu`` if the machine runs threads.

    The file is only read as a module if the machine does not know it.
    """
    from tilewright.launching.sources import ModuleSource

    file = session.read(options.file)
    source = ModuleSource(file.data, file.name) if is_read_plainly(options) else None
    found = None if source is None else _known_kernel(options, machine, source)
    if found is not None:
        return found
    module, warnings = read_module(file, options)
    session.report(warnings)
    kernel = _read_kernel(options, machine, module)
    if source is None or warnings:
        return kernel

    def load(wanted: LaunchOptions) -> Program:
        program = kernel.load(wanted)
        machine.remember(source, program)
        return program

    return replace(kernel, load=load)


def _known_kernel(
    options: argparse.Namespace, machine: Machine, source: ModuleSource
) -> _Kernel | None:
    """Return the kernel if the machine knows the module; None if not, and if there is no such kernel."""
    from tilewright.cli.run_specs import parameters_in
    from tilewright.launching.options import TILE_IR

    known = machine.known(source)
    interface = None if known is None else known.interface(options.entry)
    if known is None or interface is None:
        return None
    return _Kernel(interface.symbol, known.load, parameters_in(interface), TILE_IR)


def _read_kernel(options: argparse.Namespace, machine: Machine, module: Module) -> _Kernel:
    """Return the kernel of a module that was read."""
    from tilewright.cli import run_sim, run_specs
    from tilewright.launching.modules import is_tile_ir
    from tilewright.launching.options import NVGPU, TILE_IR

    if is_tile_ir(module) or "nvgpu" not in machine.capabilities.levels:
        held = machine_module(module, options.file)
        entry = entry_of(held, options.entry)
        parameters = run_specs.parameters_of(entry)
        return _Kernel(entry.symbol, partial(machine.load, held), parameters, TILE_IR)
    kernel = run_sim.thread_kernel(module, options.entry)
    if options.block is None and machine.capabilities.kind == "sim":
        raise UsageError.because(
            "the simulator needs the number of threads per block", help="add --block"
        )
    parameters = run_sim.parameters_of(kernel)
    return _Kernel(kernel.symbol, partial(machine.load, module), parameters, NVGPU)


def execute(options: argparse.Namespace, session: Session) -> int:
    """Run a kernel on the requested machine and report errors. Arrays are saved even then, if the machine
    returns a result besides an error."""
    from tilewright.cli.run_results import Results
    from tilewright.cli.run_specs import bind, with_elements
    from tilewright.launching.machine import machine_named

    machine = machine_named(options.machine)
    trace = trace_of(options)
    kernel = _kernel(options, machine, session)
    printed: list[str] = []

    def emit(text: str) -> None:
        printed.append(text)
        if not options.json:
            session.write_stdout(text)

    # Arrays overlap only if `part:` asks for it.
    further = {"allow_overlap": True, "print_to": emit, "trace": trace, "strict": False}
    wanted = launch_options(options, machine, kernel.level, **further)
    values = bind(kernel.parameters, options.arguments, options.seed)
    parameters = with_elements(kernel.parameters, values)
    # Report all command line errors before the kernel runs.
    results = Results(parameters, values, options)
    arithmetic_of(options, session)
    machine.check()
    program = kernel.load(wanted)
    started = time.perf_counter()
    with working(f"running {kernel.name}") as progress, written(trace, options, session):
        if "progress" in machine.capabilities.options:
            wanted = replace(wanted, progress=progress)
        found = program.launch(kernel.name, options.grid, values, wanted)
    seconds = time.perf_counter() - started
    results.save(session)
    return _report(options, session, results, kernel, found, {"seconds": seconds}, printed)


def _report(
    options: argparse.Namespace,
    session: Session,
    results: Results,
    kernel: _Kernel,
    found: RunResult,
    facts: dict[str, object],
    printed: list[str],
) -> int:
    """Show what was requested. Returns the exit status."""
    from tilewright.cli import run_sim

    simulated = cast("SimulationResult", found) if hasattr(found, "counters") else None
    device = getattr(found, "device", None)
    if simulated is not None:
        run_sim.draw(simulated, options.timeline, kernel.name, session)
        facts = run_sim.facts(simulated)
    elif device is not None:
        facts = {"device": device, "milliseconds": cast("LaunchResult", found).milliseconds}
    is_complete = simulated is None or simulated.completed
    differing = results.compare() if is_complete else []
    if options.json:
        launch = {
            "entry": kernel.name,
            "machine": options.machine,
            "grid": list(options.grid),
            "seed": options.seed,
            "arithmetic": str(found.arithmetic),
        }
        session.write_stdout(results.to_json({**launch, **facts, "printed": printed}))
    else:
        session.write_stdout(results.shown())
        if simulated is not None and options.counters:
            session.write_stdout(run_sim.counted(simulated))
        if device is not None:
            session.say(f"{kernel.name} on {device}: {facts['milliseconds']:.3f} ms")
    errors = () if simulated is None else simulated.errors
    session.report([*(() if simulated is None else simulated.diagnostics), *differing])
    return Exit.FINDINGS if errors or differing else Exit.OK


def entry_of(module: Module, name: str | None) -> KernelOp:
    """Return the kernel of that name, or the only one. Raises UsageError if there is none."""
    from tilewright.diagnostics import TileIRError
    from tilewright.launching.modules import kernel_of

    try:
        return kernel_of(module, name)
    except TileIRError as error:
        message = error.diagnostics[0].message
        raise UsageError.because(message, help="name one with --entry") from None
