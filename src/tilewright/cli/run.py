"""``tilewright run``: run a kernel and look at its results."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from tilewright.cli.exits import Exit
from tilewright.cli.modules import add_reading_options, load, machine_module
from tilewright.cli.progress import working
from tilewright.cli.run_cuda import execute as run_on_gpu
from tilewright.cli.run_cuda import is_cuda
from tilewright.cli.run_machine import add_machine_arguments, machine_runner
from tilewright.cli.run_sim import add_sim_arguments, is_simulator
from tilewright.cli.run_sim import execute as simulate
from tilewright.cli.run_trace import add_trace_arguments
from tilewright.cli.session import Session, UsageError

if TYPE_CHECKING:
    from tilewright.cli.modules import Module
    from tilewright.launching.modules import KernelOp
    from tilewright.numerics.arithmetic import Arithmetic

_EPILOG = """\
A SPEC is one of
  a.npy  data.npz:key              an array from a file
  random:f32:128x64[:seed]         floats in [0, 1), integers over the whole type
  normal:f32:128x64[:seed]         floats of the standard normal distribution
  zeros:f32:1000  ones:f32:8x8     0, or 1, everywhere
  iota:i32:256                     0, 1, 2, ...
  full:f32:16:3.5                  one number everywhere
  i32:5  f32:1.5  5  1.5  true     a number, of the parameter's type
  part:x, part:x:4:12              the array given for x before, or some of its elements,
                                   in place
  array:SPEC                       an array as cuTile passes it: pointer, extents, strides
A parameter has the name that the text gives it, without %; arg0, arg1, ... always work too.

A FILE that ends in .py is a cuTile program: tilewright run [OPTIONS] SCRIPT.py [ARGUMENTS] with the
options --machine, --sanitize, --seeds, --seed, --resident, --trace and --no-torch-cuda.
"""


def add_launch_arguments(parser: argparse.ArgumentParser) -> None:
    """What tells which kernel to launch, on which grid, with which arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="text or bytecode; - is standard input")
    parser.add_argument("--entry", metavar="NAME", help="the kernel, if the module has several")
    parser.add_argument(
        "--grid",
        type=grid_extents,
        default=(1, 1, 1),
        metavar="X[,Y[,Z]]",
        help="tile blocks (default 1)",
    )
    parser.add_argument(
        "--arg",
        dest="arguments",
        action="append",
        default=[],
        metavar="[NAME=]SPEC",
        help="an argument; without a name it goes to the first parameter that is free",
    )
    parser.add_argument(
        "--seed",
        type=count_of,
        default=0,
        metavar="N",
        help="decides on random arguments and on the order of tile blocks (default 0)",
    )
    parser.add_argument(
        "--max-iterations",
        type=count_of,
        default=10_000_000,
        metavar="N",
        help="a loop that takes longer is an error (default 10000000)",
    )
    parser.add_argument(
        "--arithmetic",
        type=parse_arithmetic,
        metavar="KEY=VALUE,...",
        help="compute what Tile IR leaves open more as hardware does: f32_products=tf32, "
        "accumulation=blocks:16, reductions=tree, approximations=hardware, "
        "flush_denormal_addf=true; docs/machine.md explains them",
    )


def add_result_arguments(parser: argparse.ArgumentParser) -> None:
    """What is done with the arrays that the kernel wrote."""
    results = parser.add_argument_group("results")
    results.add_argument(
        "--out", action="append", default=[], metavar="NAME=OUT", help="save an array as .npy"
    )
    results.add_argument("--out-dir", metavar="DIR", help="save every array as DIR/NAME.npy")
    results.add_argument(
        "--print", action="append", default=[], metavar="NAME", help="show an array on stdout"
    )
    results.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="NAME=SPEC",
        help="compare an array with a SPEC; exit 1 if it differs",
    )
    limits = parser.add_argument_group(
        "how far results may be from the expected ones (default: the same bits)"
    )
    limits.add_argument("--atol", type=_positive, metavar="A", help="absolute error")
    limits.add_argument(
        "--rtol", type=_positive, metavar="R", help="error relative to the expected"
    )
    limits.add_argument("--ulp", type=_positive, metavar="N", help="units in the last place")
    limits.add_argument("--exact", action="store_true", help="the same bits")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_launch_arguments(parser)
    add_result_arguments(parser)
    add_machine_arguments(parser)
    add_sim_arguments(parser)
    add_trace_arguments(parser)
    parser.add_argument("--json", action="store_true", help="tell about the run as JSON on stdout")
    add_reading_options(parser)


def grid_extents(text: str) -> tuple[int, int, int]:
    """The grid that an option names, with three extents."""
    parts = text.replace("x", ",").split(",")
    if len(parts) > 3 or not all(part.strip().isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"expected one to three numbers, found '{text}'")
    x, y, z = [*map(int, parts), 1, 1][:3]
    return x, y, z


def count_of(text: str) -> int:
    """The number that an option names."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, found '{text}'")
    return int(text)


def parse_arithmetic(text: str) -> Arithmetic:
    from tilewright.diagnostics import TileIRError
    from tilewright.numerics.arithmetic import Arithmetic

    try:
        return Arithmetic.parse(text)
    except TileIRError as error:
        raise argparse.ArgumentTypeError(error.diagnostics[0].message) from None


def arithmetic_of(options: argparse.Namespace, session: Session) -> Arithmetic:
    """The arithmetic that is asked for, which is said unless it is the reference."""
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


def execute(options: argparse.Namespace, session: Session) -> int:
    if is_simulator(options):
        return simulate(options, session)
    if is_cuda(options):
        return run_on_gpu(options, session)
    module = machine_module(load(options.file, options, session), options.file)
    entry = entry_of(module, options.entry)
    from tilewright.cli.run_results import Results
    from tilewright.cli.run_specs import bind, parameters_of

    parameters = parameters_of(entry)
    values = bind(parameters, options.arguments, options.seed)
    # Whatever is wrong with the command line is found before the kernel runs.
    results = Results(parameters, values, options)
    run = machine_runner(options, session)
    printed: list[str] = []

    def emit(text: str) -> None:
        printed.append(text)
        if not options.json:
            session.write_stdout(text)

    arithmetic = arithmetic_of(options, session)
    started = time.perf_counter()
    with working(f"running {entry.symbol}") as progress:
        run(
            module,
            entry.symbol,
            options.grid,
            values,
            seed=options.seed,
            max_iterations=options.max_iterations,
            # Arrays overlap only where `part:` asks for it.
            allow_overlap=True,
            print_to=emit,
            progress=progress,
            arithmetic=arithmetic,
        )
    seconds = time.perf_counter() - started
    results.save(session)
    differing = results.compare()
    if options.json:
        launch = {
            "entry": entry.symbol,
            "machine": options.machine,
            "grid": list(options.grid),
            "seed": options.seed,
            "arithmetic": str(arithmetic),
        }
        session.write_stdout(results.to_json({**launch, "seconds": seconds, "printed": printed}))
    else:
        session.write_stdout(results.shown())
    session.report(differing)
    return Exit.FINDINGS if differing else Exit.OK


def entry_of(module: Module, name: str | None) -> KernelOp:
    """The kernel of that name, or the only one; a UsageError where there is none."""
    from tilewright.diagnostics import TileIRError
    from tilewright.launching.modules import kernel_of

    try:
        return kernel_of(module, name)
    except TileIRError as error:
        message = error.diagnostics[0].message
        raise UsageError.because(message, help="name one with --entry") from None
