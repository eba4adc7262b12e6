"""``tilewright sanitize``: run a kernel with every check enabled and report violations."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tilewright.cli.arguments import positive
from tilewright.cli.exits import Exit
from tilewright.cli.modules import add_reading_options, load, machine_module
from tilewright.cli.progress import working
from tilewright.cli.run import add_launch_arguments, add_result_arguments, arithmetic_of, entry_of
from tilewright.cli.session import Session

if TYPE_CHECKING:
    from tilewright.machine.sanitize import SanitizeReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_launch_arguments(parser)
    add_result_arguments(parser)
    parser.add_argument(
        "--seeds",
        type=positive,
        metavar="N",
        help="number of schedules, from --seed on (default 4)",
    )
    parser.add_argument(
        "--resident",
        type=positive,
        metavar="N",
        help="at most N tile blocks are live at once, started in ascending order; finds blocks "
        "that wait for one that cannot start; 1 runs them sequentially (default: all)",
    )
    parser.add_argument("--no-races", action="store_true", help="do not check for races; faster")
    parser.add_argument(
        "--format",
        choices=("text", "json", "sarif"),
        default="text",
        help="output format: text on stderr, JSON and SARIF on stdout",
    )
    parser.add_argument("--html", metavar="FILE", help="also write the report as an HTML page")
    add_reading_options(parser)


def execute(options: argparse.Namespace, session: Session) -> int:
    module = machine_module(load(options.file, options, session), options.file)
    entry = entry_of(module, options.entry)
    from tilewright.cli.run_results import Results
    from tilewright.cli.run_specs import bind, parameters_of
    from tilewright.launching.options import LaunchOptions
    from tilewright.machine.sanitize import sanitize

    parameters = parameters_of(entry)
    values = bind(parameters, options.arguments, options.seed)
    results = Results(parameters, values, options)
    arithmetic = arithmetic_of(options, session)
    with working(f"checking {entry.symbol}") as progress:
        wanted = LaunchOptions(
            seed=options.seed,
            seeds=options.seeds,
            races=not options.no_races,
            max_iterations=options.max_iterations,
            time_limit=options.time_limit,
            resident=options.resident,
            allow_overlap=True,
            progress=progress,
            arithmetic=arithmetic,
        )
        report = sanitize(module, entry.symbol, options.grid, values, wanted)
    differing = []
    if report.result is not None:
        results.save(session)
        differing = results.compare()
        if options.format == "text":
            session.write_stdout(results.shown())
    session.report(differing)
    _write(report, options, session)
    if options.html is not None:
        from tilewright.cli.outputs import write_text
        from tilewright.machine.sanitize import render_html

        write_text(session, options.html, render_html(report, module))
    return Exit.OK if report.is_clean and not differing else Exit.FINDINGS


def _write(report: SanitizeReport, options: argparse.Namespace, session: Session) -> None:
    if options.format == "text":
        session.report(report.diagnostics)
        if report.is_clean:
            count = len(report.seeds)
            schedules = "1 schedule" if count == 1 else f"{count} schedules"
            session.say(f"no errors found under {schedules}")
        return
    import json

    from tilewright.diagnostics import to_sarif
    from tilewright.machine.sanitize import to_json

    data = to_sarif(report.diagnostics) if options.format == "sarif" else to_json(report)
    session.write_stdout(json.dumps(data, indent=2) + "\n")
