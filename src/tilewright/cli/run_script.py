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
        help="the machine that runs kernels: reference (default), cpu, sim:ARCH or cuda",
    )
    parser.add_argument(
        "--torch-cuda",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="emulate torch's cuda device on the CPU (default)",
    )
    parser.add_argument(
        "--kernel",
        metavar="NAME[#N]",
        help="check, record, stop and draw only this kernel; #N selects the N-th specialisation",
    )
    parser.add_argument(
        "--save-ir",
        metavar="DIR",
        help="save bytecode and the text of every level to a directory",
    )
    parser.add_argument(
        "--break",
        dest="breakpoints",
        action="append",
        default=[],
        type=_line,
        metavar="FILE:LINE",
        help="set a breakpoint, which opens Python's debugger on a terminal; may be repeated",
    )
    _add_checks(parser, command)
    _add_options_of_machines(parser)
    from tilewright.cli.run_trace import add_trace_arguments

    add_trace_arguments(parser)
    if command == "run":
        parser.add_argument(
            "--tune-for",
            metavar="GPU",
            help="let cuda.tile.tune rank by the performance model of this GPU, such as h100, instead of timing",
        )
        parser.add_argument(
            "--json", action="store_true", help="report all launches as JSON on stdout"
        )
    return parser


def _add_checks(parser: argparse.ArgumentParser, command: str) -> None:
    group = parser.add_argument_group("checks")
    if command == "run":
        group.add_argument(
            "--sanitize", action="store_true", help="run every launch with all checks enabled"
        )
    else:
        group.add_argument(
            "--format",
            choices=("text", "json", "sarif"),
            default="text",
            help="output format: text on stderr, JSON and SARIF on stdout",
        )
        group.add_argument("--html", metavar="FILE", help="also write the report as an HTML page")
    needs = "; needs --sanitize" if command == "run" else ""
    group.add_argument(
        "--seeds",
        type=positive,
        metavar="N",
        help=f"number of schedules per launch (default 4){needs}"
        + (", or --machine sim:ARCH (default 1)" if needs else ""),
    )
    group.add_argument("--no-races", action="store_true", help=f"do not check for races{needs}")
    group.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the first schedule (default 0)"
    )
    group.add_argument(
        "--resident",
        type=positive,
        metavar="N",
        help="at most N tile blocks are live at once, started in ascending order; 1 runs them "
        "sequentially (default: all)",
    )


def _add_options_of_machines(parser: argparse.ArgumentParser) -> None:
    from tilewright.cli.run import parse_arithmetic

    group = parser.add_argument_group("machines")
    group.add_argument(
        "--max-iterations", type=positive, metavar="N", help="limit on the iterations of a loop"
    )
    group.add_argument(
        "--arithmetic",
        type=parse_arithmetic,
        metavar="KEY=VALUE,...",
        help="compute what Tile IR leaves unspecified closer to hardware (reference)",
    )
    group.add_argument("--threads", type=positive, metavar="N", help="threads (cpu)")
    group.add_argument(
        "--checked", action="store_true", help="bounds-check every memory access (cpu)"
    )
    group.add_argument("--cpu", metavar="NAME", help="target processor (cpu)")
    group.add_argument(
        "--numerics",
        choices=("tensor-core", "exact", "portable"),
        help="accumulation of matrix products (sim)",
    )
    group.add_argument(
        "--registers",
        type=positive,
        metavar="N",
        help="registers per thread, for the occupancy (sim)",
    )
    group.add_argument(
        "--counters", action="store_true", help="print the counters of each launch (sim)"
    )
    group.add_argument(
        "--timeline",
        metavar="FILE",
        help="write a timeline of the warps of the first block of a launch, as .html or .svg (sim)",
    )
    group.add_argument(
        "--timeline-launch",
        type=positive,
        metavar="N",
        help="the launch of the timeline, counted among those of --kernel if given (default 1)",
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
        parser.error(f"--sanitize cannot be combined with {what}")
    if options.sanitizes and options.find_nan:
        parser.error("--sanitize cannot be combined with --find-nan")
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
