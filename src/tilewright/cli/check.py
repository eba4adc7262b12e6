"""``tilewright check``: report every error in files."""

from __future__ import annotations

import argparse

from tilewright.cli.check_campaign import add_campaign_arguments
from tilewright.cli.exits import Exit
from tilewright.cli.modules import add_reading_options, all_diagnostics, parse_source
from tilewright.cli.programs import (
    add_program_options,
    is_program,
    listed,
    refuse_program_options,
    take,
)
from tilewright.cli.session import Session, UsageError
from tilewright.diagnostics import Diagnostic, TileIRError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="text or bytecode; - is standard input; or a cuTile program",
    )
    parser.add_argument(
        "--format",
        choices=("text", "json", "sarif"),
        default="text",
        help="output format: text on stderr, JSON and SARIF on stdout",
    )
    hints = parser.add_mutually_exclusive_group()
    hints.add_argument(
        "--warn-hints",
        dest="hints",
        action="store_const",
        const="warn",
        default="ignore",
        help="warn about optimisation hints that a compiler would ignore or refuse",
    )
    hints.add_argument(
        "--error-hints",
        dest="hints",
        action="store_const",
        const="error",
        help="report such hints as errors",
    )
    add_reading_options(parser)
    add_program_options(parser)
    add_campaign_arguments(parser)
    parser.set_defaults(usage=parser.format_usage)


def execute(options: argparse.Namespace, session: Session) -> int:
    """Check every file, regardless of errors in earlier ones. Returns the exit status. Raises UsageError for options
    that do not go together.
    """
    if options.campaign is not None:
        from tilewright.cli.check_campaign import execute as run_campaign

        return run_campaign(options, session)
    if not options.files:
        session.say(options.usage().rstrip())
        raise UsageError.because("no input to check", help="give a FILE or --campaign FOLDER")
    for name in ("machines", "seeds", "compare", "resume", "dask", "jobs"):
        if getattr(options, name):
            raise UsageError.because(f"--{name} requires --campaign FOLDER")
    if is_program(options.files[-1]):
        return _check_program(options, session)
    refuse_program_options(options, options.files[0])
    found: list[Diagnostic] = []
    status = Exit.OK
    for path in options.files:
        try:
            problems = _problems(path, options, session)
        except UsageError as error:
            problems = list(error.diagnostics)
            status = Exit.USAGE
        if status is Exit.OK and any(problem.is_error for problem in problems):
            status = Exit.FINDINGS
        found += problems
    _show(found, options.format, session)
    return status


def _check_program(options: argparse.Namespace, session: Session) -> int:
    """Check each kernel that a cuTile program compiles; locations are lines of Python."""
    if len(options.files) > 1:
        raise UsageError.because("a cuTile program must be the only FILE; it comes first")
    program = take(options.files[0], options, session)
    from tilewright.analysis import verifier
    from tilewright.cutile.errors import diagnostics_in_python

    found: list[Diagnostic] = []
    for taken in program.chosen:
        module = taken.kernel.module
        found += diagnostics_in_python(verifier.find_problems(module, hints=options.hints), module)
    _show(found, options.format, session)
    if not found:
        session.say(f"checked {listed(program.chosen)}: no errors found")
    is_wrong = any(problem.is_error for problem in found)
    return program.finish(Exit.FINDINGS if is_wrong else Exit.OK)


def _problems(path: str, options: argparse.Namespace, session: Session) -> list[Diagnostic]:
    source = session.read(path)
    warnings: list[Diagnostic] = []
    try:
        module = parse_source(source, options, warnings)
    except TileIRError as error:
        return [*warnings, *all_diagnostics(error)]
    from tilewright.analysis import verifier

    return warnings + verifier.find_problems(
        module, allow_unregistered=options.allow_unregistered, hints=options.hints
    )


def _show(found: list[Diagnostic], form: str, session: Session) -> None:
    if form == "text":
        session.report(found)
        return
    import json

    from tilewright.diagnostics import to_json, to_sarif

    document = to_json(found) if form == "json" else to_sarif(found)
    session.write_stdout(json.dumps(document, indent=2) + "\n")
