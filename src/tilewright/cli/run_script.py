"""``tilewright run SCRIPT.py``: a cuTile program, unmodified, on a machine of ours."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.cli.exits import EXIT_STATUS_HELP, Exit

if TYPE_CHECKING:
    from tilewright.cutile.machines import TraceSink
    from tilewright.cutile.scope import Settings
    from tilewright.machine.inspect.trace import Trace

_DEFAULT_SEEDS = 4


def is_script_run(arguments: Sequence[str]) -> bool:
    """Whether a command line runs a Python program: its first word with that ending follows run."""
    return list(arguments[:1]) == ["run"] and _script_position(arguments) is not None


def _script_position(arguments: Sequence[str]) -> int | None:
    found = (n for n, word in enumerate(arguments) if word.endswith(".py") and word[:1] != "-")
    position = next(found, None)
    # A file of Tile IR takes arguments by options only, so that no other word may come before.
    if position is None or any(
        word in ("--arg", "-") or Path(word).suffix in (".tileir", ".mlir", ".tileirbc")
        for word in arguments[:position]
    ):
        return None
    return position


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tilewright run",
        usage="tilewright run [OPTIONS] SCRIPT.py [ARGUMENTS]",
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
        "--sanitize", action="store_true", help="run every launch with every check on"
    )
    parser.add_argument(
        "--seeds",
        type=_count,
        metavar="N",
        help=f"schedules that each launch is checked under (default {_DEFAULT_SEEDS}); "
        "needs --sanitize",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="the (first) schedule (default 0)"
    )
    parser.add_argument(
        "--resident",
        type=_count,
        metavar="N",
        help="no more than N tile blocks are live at once, in ascending order; 1 runs them one "
        "after the other (default: all)",
    )
    parser.add_argument(
        "--trace", metavar="FILE", help="write what every tile block does, as JSON lines"
    )
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, found '{text}'")
    return int(text)


def main(arguments: Sequence[str]) -> int:
    """Run ``run OPTIONS SCRIPT.py ARGUMENTS``; the exit status is that of the program."""
    position = _script_position(arguments)
    assert position is not None
    parser = _parser()
    try:
        options = parser.parse_args(list(arguments[1:position]))
        _check(parser, options)
    except SystemExit as stop:  # how argparse ends
        return stop.code if isinstance(stop.code, int) else Exit.USAGE
    return _run(options, arguments[position], arguments[position + 1 :])


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if options.seeds is not None and not options.sanitize:
        parser.error("--seeds needs --sanitize")
    if options.sanitize and options.trace:
        parser.error("--sanitize and --trace do not go together")
    if options.seed < 0:
        parser.error("--seed: expected a number of at least 0")


def _run(options: argparse.Namespace, script: str, arguments: Sequence[str]) -> int:
    from tilewright.cutile.errors import RefusedError
    from tilewright.cutile.frontend import FrontEndError
    from tilewright.cutile.machines import check_settings
    from tilewright.cutile.program import hosting, run_program

    if not Path(script).is_file():
        return _fail(f"cannot read '{script}': No such file")
    with ExitStack() as stack:
        try:
            settings = _settings(options)
            check_settings(settings)
            stack.enter_context(hosting(settings, torch_cuda=options.torch_cuda))
        except RefusedError as error:
            return _fail(error.diagnostics[0].message)
        except (FrontEndError, OSError) as error:
            return _fail(str(error))
        return run_program(script, arguments)


def _fail(message: str) -> int:
    print(f"tilewright run: {message}", file=sys.stderr)
    return Exit.USAGE


def _settings(options: argparse.Namespace) -> Settings:
    from tilewright.cutile.scope import Settings, write_stdout
    from tilewright.launching.machine import DEFAULT_MACHINE
    from tilewright.launching.options import LaunchOptions

    return Settings(
        options.machine or DEFAULT_MACHINE,
        LaunchOptions(
            sanitize=options.sanitize,
            seed=options.seed,
            resident=options.resident,
            seeds=options.seeds or (_DEFAULT_SEEDS if options.sanitize else 1),
            print_to=write_stdout,
        ),
        trace=_sink(options.trace),
        cuda_is_host=options.torch_cuda,
    )


def _sink(path: str | None) -> TraceSink | None:
    """What appends the records of each launch to a file, which is emptied first."""
    if path is None:
        return None
    file = Path(path)
    file.write_text("")

    def write(trace: Trace) -> None:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(trace.to_json_lines())

    return write
