"""``tilewright tune``: finds the fastest configuration of a kernel by the performance model."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from tilewright.cli.campaigns import add_campaign_options, store_of, where_of
from tilewright.cli.exits import Exit
from tilewright.cli.modules import add_reading_options
from tilewright.cli.programs import add_program_options, is_program
from tilewright.cli.run import grid_extents
from tilewright.cli.session import Session, UsageError

if TYPE_CHECKING:
    from tilewright.model.tables import Gpu
    from tilewright.tuning.ranking import Ranking

#: How many configurations are measured if there is a GPU.
_MEASURED = 3
_EPILOG = """\
Times are predicted for the given GPU, and the best few configurations are measured if there is one. A cuTile program that
calls cuda.tile.tune.exhaustive_search defines its own search space; --set gives other values to constants of its
module or to {NAME} in its arguments; --hint sets compiler hints.

  tilewright tune program.py
  tilewright tune program.py --gpu a100 --set TM=64,128 --set TN=64,128 --where 'TM*TN <= 16384'
  tilewright tune program.py --set TILE=64,128 -- --tile {TILE}
  tilewright tune product.tileir --grid 64,64 --arg ... --hint occupancy=1,2 --hint num_worker_warps_per_cta=4,8
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "file", metavar="FILE", help="a cuTile program, or Tile IR as text or bytecode"
    )
    parser.add_argument(
        "--gpu",
        default="h100",
        metavar="GPU",
        help="a100, h100 (the default), h200, b200, rtx4090, rtx5090",
    )
    parser.add_argument(
        "--set",
        dest="sets",
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="comma-separated values of a constant of the program; may be repeated",
    )
    parser.add_argument(
        "--hint",
        dest="hints",
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="values of a compiler hint: occupancy, num_worker_warps_per_cta, num_cta_in_cga",
    )
    _add_decisions(parser)
    parser.add_argument(
        "--where",
        dest="conditions",
        action="append",
        default=[],
        metavar="EXPRESSION",
        help="filter configurations by an expression, such as 'TM*TN <= 16384'",
    )
    parser.add_argument(
        "--kernel", "--entry", metavar="NAME", help="consider launches of this kernel only"
    )
    parser.add_argument("--grid", type=grid_extents, metavar="X[,Y[,Z]]", help="blocks (1)")
    parser.add_argument(
        "--arg", dest="arguments", action="append", default=[], metavar="[NAME=]SPEC"
    )
    parser.add_argument(
        "--static",
        action="store_true",
        help="analyse the code only, without simulating blocks",
    )
    parser.add_argument(
        "--constants", metavar="FILE", help="JSON file with measured constants of the GPU"
    )
    _add_measuring(parser)
    parser.add_argument("--json", action="store_true", help="print all results as JSON")
    add_reading_options(parser)
    add_campaign_options(parser)
    add_program_options(parser, kernel=False)


def _add_decisions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--decide",
        dest="decided",
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="values of a compiler decision: warps, stages, agents, grid, width, band, resident, parts or "
        "depths",
    )
    parser.add_argument(
        "--search",
        action="store_true",
        help="local search over the compiler's decisions, starting from its own",
    )
    parser.add_argument(
        "--save",
        metavar="FILE",
        help="write the best decisions to a file, for compile --decisions",
    )


def _add_measuring(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--measure",
        type=int,
        metavar="N",
        help=f"measure the N best configurations (default: {_MEASURED} if there is a GPU, else 0)",
    )
    parser.add_argument(
        "--measure-on",
        default="cuda",
        metavar="MACHINE",
        help="the machine to measure on: cuda (default), or cpu",
    )


def execute(options: argparse.Namespace, session: Session) -> int:
    """Print the ranking of each search. Returns the exit status."""
    from tilewright.campaign.runner import executor
    from tilewright.cli import tune_searches
    from tilewright.cli.progress import working
    from tilewright.model.tables import gpu_named, load_constants

    _check_decisions(options)
    if options.save_ir is not None:
        raise UsageError.because("--save-ir does not apply to tune")
    gpu = gpu_named(options.gpu)
    if options.constants is not None:
        gpu = load_constants(session.read(options.constants).data.decode("utf-8", "replace"), gpu)
    count, unmeasured = _measured(options)
    store = store_of(options, options.file)
    status = int(Exit.OK)
    with working(f"ranking for {gpu.title}") as progress, executor(where_of(options)) as running:

        def told(outcome: object, done: int, total: int) -> None:
            if progress is not None:
                progress(done, total)

        searching = tune_searches.Searching(options, session, gpu, running, store, count, told)
        if options.search:
            rankings = tune_searches.of_decisions(searching)
        elif is_program(options.file) and not (options.sets or options.hints or options.decided):
            rankings, status = tune_searches.of_searches(searching)
        elif is_program(options.file):
            rankings = tune_searches.of_program(searching)
        else:
            rankings = tune_searches.of_file(searching)
    if options.save is not None:
        _save(rankings, options, session, gpu)
    _write(rankings, options, session, gpu, unmeasured)
    return status or (Exit.OK if all(ranking.ranked for ranking in rankings) else Exit.FINDINGS)


def _check_decisions(options: argparse.Namespace) -> None:
    """Raise UsageError for conflicting options about decisions."""
    if options.search and (options.sets or options.hints or options.decided or options.conditions):
        raise UsageError.because(
            "--search cannot be combined with --set, --hint, --decide or --where"
        )
    if options.save is not None and (
        options.sets or options.hints or not (options.search or options.decided)
    ):
        raise UsageError.because("--save requires --search, or --decide alone")
    if (options.search or options.decided) and options.measure_on != "cuda":
        raise UsageError.because(f"--measure-on {options.measure_on} has no GPU decisions")


def _save(rankings: list[Ranking], options: argparse.Namespace, session: Session, gpu: Gpu) -> None:
    """Write the record of the best decisions."""
    from tilewright.cli.outputs import write_text
    from tilewright.tuning.decided import OWN, record_of

    ranked = rankings[0].ranked if len(rankings) == 1 else ()
    if ranked:
        own = next((each.seconds for each in ranked if each.label == OWN), None)
        is_file = not is_program(options.file)
        kernel = rankings[0].name if is_file else options.kernel
        write_text(session, options.save, record_of(ranked[0], own, kernel, gpu))


def _measured(options: argparse.Namespace) -> tuple[int, str]:
    """Return how many configurations are measured, and why none is if nobody asked for that."""
    from tilewright.diagnostics import TileIRError
    from tilewright.launching.machine import machine_named

    if options.measure is not None and options.measure < 0:
        raise UsageError.because("--measure: expected a number of at least 0")
    if options.measure == 0:
        return 0, ""
    try:
        machine_named(options.measure_on).check()
    except TileIRError as error:
        if options.measure is not None or options.measure_on != "cuda":
            raise
        return 0, f"no configuration was measured: {error.diagnostics[0].message}"
    return (_MEASURED if options.measure is None else options.measure), ""


def _write(
    rankings: list[Ranking],
    options: argparse.Namespace,
    session: Session,
    gpu: Gpu,
    unmeasured: str,
) -> None:
    from tilewright.tuning.report import as_data, as_text

    if options.json:
        data = as_data(rankings, gpu, options.file)
        session.write_stdout(
            json.dumps({**data, "unmeasured": unmeasured or None}, indent=1) + "\n"
        )
        return
    session.write_stdout(as_text(rankings, gpu))
    if unmeasured:
        session.write_stdout(unmeasured + "\n")
