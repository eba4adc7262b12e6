"""The ``tilewright`` command: finds and runs the sub-command, and turns failures into messages.

A sub-command is a module with two functions, ``add_arguments(parser)`` and
``execute(options, session) -> int``. It is imported only when used.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Protocol, cast

from tilewright import __version__
from tilewright.cli import programs
from tilewright.cli.exits import EXIT_STATUS_HELP, Exit
from tilewright.cli.session import (
    OUT_OF_MEMORY,
    OutputClosedError,
    Session,
    UsageError,
    refuse_endless_numbers,
)
from tilewright.diagnostics import TileIRError
from tilewright.garbage import rare_collections

PROGRAM = "tilewright"


class SubCommand(Protocol):
    """The interface of a sub-command's module."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options and arguments of the sub-command. Must not import anything heavy, since
        ``--help`` calls it."""

    def execute(self, options: argparse.Namespace, session: Session) -> int:
        """Run the sub-command and return the exit status. Raises TileIRError for bad input, UsageError for
        conflicting options."""
        ...


#: The module and the summary of each sub-command, in the order of ``--help``.
COMMANDS: dict[str, tuple[str, str]] = {
    "check": ("check", "verify files of text or bytecode and report all errors"),
    "dis": ("disassemble", "print bytecode or text as text"),
    "as": ("assemble", "write text or bytecode as bytecode"),
    "opt": ("optimize", "run passes and show their effects"),
    "run": ("run", "run a kernel or a cuTile program"),
    "compile": ("compile", "compile a kernel to native code and show the intermediate stages"),
    "profile": ("profile", "predict the performance of a kernel on a GPU; needs no GPU"),
    "tune": ("tune", "rank configurations of a kernel for a GPU by predicted time; needs no GPU"),
    "sanitize": ("sanitize", "run a kernel with all checks enabled, under several schedules"),
    "cache": ("cache", "show or clear the cache of compiled kernels"),
    "explain": (
        "explain",
        "explain an operation, type or diagnostic code, or write an HTML page about a kernel",
    ),
    "completion": ("completion", "print a completion script for a shell"),
}


def build_parser(filled: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the command's parser; only the sub-commands in ``filled`` get their options."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Read, write, verify, optimise and run CUDA Tile IR.",
        epilog=EXIT_STATUS_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    wanted = set(filled)
    for name, (_, summary) in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name in wanted:
            _module_of(name).add_arguments(sub)
            sub.add_argument(
                "--color",
                choices=("auto", "always", "never"),
                default="auto",
                help="colour diagnostics; auto: on a terminal, unless NO_COLOR is set",
            )
    return parser


def _module_of(command: str) -> SubCommand:
    return cast("SubCommand", import_module(f"tilewright.cli.{COMMANDS[command][0]}"))


#: Modules whose presence means that destructors must run: executed programs, and Triton.
_WITH_DESTRUCTORS = ("tilewright.cli.run_script", "triton")


def command() -> int:
    """Run ``main`` as the last action of a process. Returns the exit status.

    When Python exits it collects garbage once more, which takes half a second with torch and IR modules in
    memory. The operating system reclaims that memory faster. Destructors of an executed program still run, as
    Python itself would run them.
    """
    status = main()
    if sys.modules.keys().isdisjoint(_WITH_DESTRUCTORS):
        gc.freeze()
    return status


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (without the program's name) and return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] in (["run"], ["sanitize"]):
        try:
            if programs.split(arguments)[1] is not None:
                from tilewright.cli import run_script

                return run_script.main(arguments, owns_process=argv is None)
        except KeyboardInterrupt as stop:  # not while the program itself runs
            return _interrupted(Session(arguments), stop)
    own, theirs = programs.split(arguments)
    session = Session(arguments, theirs or ())
    with rare_collections:
        return _guarded(own, session)


def _guarded(arguments: list[str], session: Session) -> int:
    """Run the command; every failure becomes a message and an exit status."""
    try:
        return _run(arguments, session)
    except UsageError as error:
        session.report(error.diagnostics)
        return Exit.USAGE
    except TileIRError as error:
        session.report(error.diagnostics)
        return Exit.FINDINGS
    except (OutputClosedError, BrokenPipeError):
        return Exit.OUTPUT_CLOSED
    except KeyboardInterrupt as stop:
        return _interrupted(session, stop)
    except MemoryError:
        pass  # the frames it holds keep the memory alive until here
    except Exception as error:  # noqa: BLE001 (the top: what arrives here is a bug of ours)
        with contextlib.suppress(MemoryError):
            return _report_bug(session, error)
    gc.collect()
    found = UsageError.because("out of memory", code=OUT_OF_MEMORY)
    session.report(found.diagnostics)
    return Exit.FINDINGS


def _interrupted(session: Session, stop: KeyboardInterrupt) -> int:
    """Report the interruption, and in which loop a kernel was, if its machine recorded that."""
    where = [note.removeprefix(f"{PROGRAM}: ") for note in getattr(stop, "__notes__", ())]
    session.say("; ".join([f"{PROGRAM}: interrupted", *where]))
    return Exit.INTERRUPTED


def _run(arguments: list[str], session: Session) -> int:
    # Top-level options take no values, so the first word without a dash is the sub-command.
    command = next((word for word in arguments if not word.startswith("-")), "")
    refuse_endless_numbers(arguments)
    try:
        options = build_parser([command]).parse_args(arguments)
    except SystemExit as stop:  # argparse exits this way: 0 after --help, 2 after an error
        session.write_stdout("")
        return stop.code if isinstance(stop.code, int) else Exit.USAGE
    session.color = options.color
    return int(_module_of(options.command).execute(options, session))


def _report_bug(session: Session, error: Exception) -> int:
    from tilewright.cli.crash import describe, write_reproducer

    session.say(f"{PROGRAM}: internal error, this is a bug in tilewright: {describe(error)}")
    try:
        path = write_reproducer(session, error)
    except OSError as failure:
        session.say(f"{PROGRAM}: cannot write the crash report: {failure}")
    else:
        session.say(f"{PROGRAM}: command, inputs and traceback are in {path}; please report it")
    return Exit.INTERNAL
