"""``tilewright run PROGRAM.py`` and ``sanitize PROGRAM.py``: a cuTile program on one of our machines."""

from __future__ import annotations

import argparse
import atexit
import sys
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext, redirect_stdout
from typing import TYPE_CHECKING

from tilewright.cli import programs
from tilewright.cli.arguments import positive
from tilewright.cli.exits import EXIT_STATUS_HELP, Exit
from tilewright.cli.launch_log import LaunchLog
from tilewright.cli.launch_options import add_find_nan, add_time_limit
from tilewright.cli.session import Session, UsageError, refuse_endless_numbers

if TYPE_CHECKING:
    from tilewright.cutile.settings import Settings
    from tilewright.cutile.stops import LineBreakpoint
    from tilewright.launching.options import LaunchOptions


def _parser(command: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"tilewright {command}",
        usage=f"tilewright {command} [OPTIONS] PROGRAM.py [ARGUMENTS]",
        description="Run a cuTile program without a GPU.",
        epilog=EXIT_STATUS_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--machine",
        metavar="NAME",
        help="what runs the kernels: reference (default), cpu, sim:ARCH, cuda",
    )
    parser.add_argument(
        "--torch-cuda",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="serve torch's device cuda by the CPU (default)",
    )
    parser.add_argument(
        "--kernel",
        metavar="NAME[#N]",
        help="check, record, stop and draw this kernel only; of several specialisations the N-th",
    )
    parser.add_argument(
        "--save-ir",
        metavar="DIR",
        help="keep bytecode, and the text of every level, in a directory",
    )
    parser.add_argument(
        "--break",
        dest="breakpoints",
        action="append",
        default=[],
        type=_line,
        metavar="FILE:LINE",
        help="stop there, in Python's debugger on a terminal: tiles are arrays; may be repeated",
    )
    _add_checks(parser, command)
    _add_options_of_machines(parser)
    from tilewright.cli.run_trace import add_trace_arguments

    add_trace_arguments(parser)
    if command == "run":
        parser.add_argument(
            "--tune-for",
            metavar="GPU",
            help="answer cuda.tile.tune by the performance model for this GPU, such as h100, instead of the clock",
        )
        parser.add_argument(
            "--json", action="store_true", help="tell about all launches as JSON on stdout"
        )
    return parser


def _add_checks(parser: argparse.ArgumentParser, command: str) -> None:
    group = parser.add_argument_group("checks")
    if command == "run":
        group.add_argument(
            "--sanitize", action="store_true", help="run every launch with every check on"
        )
    else:
        group.add_argument(
            "--format",
            choices=("text", "json", "sarif"),
            default="text",
            help="how findings are written: text on stderr, JSON and SARIF on stdout",
        )
        group.add_argument(
            "--html", metavar="FILE", help="write a page for a browser of what was found, too"
        )
    needs = "; needs --sanitize" if command == "run" else ""
    group.add_argument(
        "--seeds",
        type=positive,
        metavar="N",
        help=f"schedules that each launch is checked under (default 4){needs}"
        + (", or --machine sim:ARCH (default 1)" if needs else ""),
    )
    group.add_argument(
        "--no-races", action="store_true", help=f"leave the search for races out{needs}"
    )
    group.add_argument(
        "--seed", type=int, default=0, metavar="N", help="the (first) schedule (default 0)"
    )
    group.add_argument(
        "--resident",
        type=positive,
        metavar="N",
        help="no more than N tile blocks are live at once, in ascending order; 1 runs them one "
        "after the other (default: all)",
    )


def _add_options_of_machines(parser: argparse.ArgumentParser) -> None:
    from tilewright.cli.run import parse_arithmetic

    group = parser.add_argument_group("machines")
    group.add_argument(
        "--max-iterations", type=positive, metavar="N", help="a loop that takes longer is an error"
    )
    group.add_argument(
        "--arithmetic",
        type=parse_arithmetic,
        metavar="KEY=VALUE,...",
        help="compute what Tile IR leaves open more as hardware does (reference)",
    )
    group.add_argument("--threads", type=positive, metavar="N", help="threads (cpu)")
    group.add_argument("--checked", action="store_true", help="check every access to memory (cpu)")
    group.add_argument("--cpu", metavar="NAME", help="the processor that code is made for (cpu)")
    group.add_argument(
        "--numerics",
        choices=("tensor-core", "exact", "portable"),
        help="how products of matrices add (sim)",
    )
    group.add_argument(
        "--registers", type=positive, metavar="N", help="registers of a thread, for occupancy (sim)"
    )
    group.add_argument(
        "--counters", action="store_true", help="show what each launch counted (sim)"
    )
    group.add_argument(
        "--timeline",
        metavar="FILE",
        help="draw what the warps of the first block did in a launch, as .html or .svg (sim)",
    )
    group.add_argument(
        "--timeline-launch",
        type=positive,
        metavar="N",
        help="the launch to draw, of those of --kernel if it is given (default 1)",
    )
    add_time_limit(group)
    add_find_nan(group)


def _line(text: str) -> LineBreakpoint:
    file, colon, line = text.rpartition(":")
    if not colon or not line.isdecimal():
        raise argparse.ArgumentTypeError(f"expected FILE:LINE, found '{text}'")
    from tilewright.cutile.stops import LineBreakpoint

    return LineBreakpoint(file, int(line))


def main(arguments: Sequence[str], *, owns_process: bool = False) -> int:
    """Run ``run OPTIONS PROGRAM.py ARGUMENTS``. Returns the program's exit status, or one that reports
    findings.

    With ``owns_process``, launches during interpreter shutdown are served, too.
    """
    own, theirs = programs.split(arguments)
    parser = _parser(own[0])
    try:
        options = parser.parse_args(own[1:-1])
        options.command = own[0]
        _check(parser, options)
    except SystemExit as stop:  # argparse exits this way
        return stop.code if isinstance(stop.code, int) else Exit.USAGE
    session = Session(arguments, theirs or ())
    try:
        refuse_endless_numbers(own[1:-1])
        if owns_process:
            # Registered before the program's own exit functions, so that the program's run first.
            stack = ExitStack()
            atexit.register(stack.close)
            return _run(options, own[-1], session, stack)
        with ExitStack() as stack:
            return _run(options, own[-1], session, stack)
    except UsageError as error:
        session.report(error.diagnostics)
        return Exit.USAGE


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    options.sanitizes = options.command == "sanitize" or options.sanitize
    is_sim = (options.machine or "").partition(":")[0] == "sim"
    if not options.sanitizes:
        if options.no_races:
            parser.error("--no-races needs --sanitize")
        if options.seeds and not is_sim:
            parser.error("--seeds needs --sanitize or --machine sim:ARCH")
    if options.sanitizes and (options.trace or options.breakpoints):
        what = "--trace" if options.trace else "--break"
        parser.error(f"--sanitize and {what} do not go together")
    if options.sanitizes and options.find_nan:
        parser.error("--sanitize and --find-nan do not go together")
    if options.seed < 0:
        parser.error("--seed: expected a number of at least 0")
    if options.trace is None:
        for name in ("block", "values", "limit", "format"):
            if getattr(options, f"trace_{name}") is not None:
                parser.error(f"--trace-{name} needs --trace FILE")
    if options.timeline_launch and not options.timeline:
        parser.error("--timeline-launch needs --timeline FILE")
    for name in ("counters", "timeline"):
        if getattr(options, name) and not is_sim:
            parser.error(f"--{name} needs --machine sim:ARCH")


def _run(options: argparse.Namespace, script: str, session: Session, stack: ExitStack) -> int:
    """Return the exit status. What serves the program's launches is left open in ``stack``."""
    from tilewright.cutile.errors import RefusedError
    from tilewright.cutile.frontend import FrontEndError
    from tilewright.cutile.machines import check_settings
    from tilewright.cutile.program import hosting, run_program, show_exception

    session.check_readable(script)
    log = LaunchLog(options, session)
    try:
        settings = _settings(options, log)
        check_settings(settings)
        stack.enter_context(hosting(settings, torch_cuda=options.torch_cuda))
    except RefusedError as error:
        return _fail(options, error.diagnostics[0].message)
    except (FrontEndError, OSError) as error:
        return _fail(options, str(error))
    closed = False

    def show(error: BaseException) -> None:
        nonlocal closed
        closed = session.is_of_closed_stdout(error)
        if not closed:
            show_exception(error)

    try:
        with redirect_stdout(sys.stderr) if log.owns_stdout else nullcontext():
            status = run_program(script, session.program_arguments, show=show)
    except BrokenPipeError as error:  # while flushing the program's output
        closed = session.is_of_closed_stdout(error)
        if not closed:
            raise
        return Exit.OUTPUT_CLOSED
    return Exit.OUTPUT_CLOSED if closed else log.finish(script, status)


def _fail(options: argparse.Namespace, message: str) -> int:
    print(f"tilewright {options.command}: {message}", file=sys.stderr)
    return Exit.USAGE


#: Launch options by their command line names, as far as they are given.
_GIVEN = (
    *("max_iterations", "arithmetic", "threads", "checked", "cpu", "numerics", "registers"),
    *("find_nan", "time_limit"),
)


def _settings(options: argparse.Namespace, log: LaunchLog) -> Settings:
    from tilewright.cutile.settings import Settings
    from tilewright.launching.machine import DEFAULT_MACHINE

    return Settings(
        options.machine or DEFAULT_MACHINE,
        _launch_options(options, log),
        trace=log.keep_trace if options.trace else None,
        cuda_is_host=options.torch_cuda,
        on_compile=log.keep_kernel,
        on_launch=log.keep_launch if log.wants_launches else None,
        on_report=log.sanitized.keep if options.command == "sanitize" else None,
        only=options.kernel,
        tune_for=getattr(options, "tune_for", None),
    )


def _launch_options(options: argparse.Namespace, log: LaunchLog) -> LaunchOptions:
    from tilewright.cutile.settings import write_stdout
    from tilewright.launching.options import LaunchOptions

    given = {name: getattr(options, name) for name in _GIVEN if getattr(options, name)}
    if options.trace:
        given["trace"] = log.trace
    return LaunchOptions(
        sanitize=options.sanitizes,
        races=not options.no_races,
        seed=options.seed,
        resident=options.resident,
        seeds=options.seeds,
        breakpoints=log.stops(),
        print_to=write_stdout,
        **given,
    )
