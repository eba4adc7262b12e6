"""``tilewright check --campaign``: a directory of programs and kernels, on several machines, under several seeds."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.cli.campaigns import store_of, where_of
from tilewright.cli.exits import Exit
from tilewright.cli.session import Session, UsageError
from tilewright.diagnostics import TileIRError, define_code

if TYPE_CHECKING:
    from tilewright.campaign.jobs import Job, Outcome
    from tilewright.cli.campaign_jobs import Task

DIFFERS = define_code(
    "campaign-differs",
    "A machine's results differ from those of the reference machine in a comparing campaign.",
    "Each launch runs on both with the same arrays. Machines accumulate in different orders, so "
    "floats differ slightly; --rtol and --atol set the tolerance.",
)
#: The version of the JSON format.
FORMAT = 1
_JOBS = "tilewright.cli.campaign_jobs"
_KERNELS = (".tileir", ".mlir", ".tileirbc")
#: A comment that says how to run the file, such as `// $ tilewright run FILE --grid 8`.
_COMMAND = re.compile(rb"^(?://|#) \$ tilewright run (.+)$", re.MULTILINE)
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Planned:
    """A job of the campaign: a program, the machine and the seed; None for a file that is only verified."""

    program: str
    machine: str | None
    seed: int | None
    job: Job


def add_campaign_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options specific to campaigns."""
    from tilewright.cli.arguments import positive
    from tilewright.cli.campaigns import add_campaign_options

    group = parser.add_argument_group(
        "campaigns",
        "check all programs (.py) and kernels (.tileir, .mlir, .tileirbc) of a folder",
    )
    group.add_argument("--campaign", metavar="FOLDER", help="check everything in this folder")
    group.add_argument(
        "--machines",
        type=lambda text: [name.strip() for name in text.split(",")],
        default=None,
        metavar="NAMES",
        help="comma-separated machines (default: reference)",
    )
    group.add_argument(
        "--seeds",
        type=positive,
        default=None,
        metavar="N",
        help="schedules per program (default 2)",
    )
    group.add_argument(
        "--compare",
        action="store_true",
        help="compare the results of machines with those of the reference machine, instead of running with all checks enabled",
    )
    group.add_argument("--rtol", type=float, metavar="R", help="tolerance for --compare")
    group.add_argument("--atol", type=float, metavar="A", help="tolerance for --compare")
    add_campaign_options(parser)


def execute(options: argparse.Namespace, session: Session) -> int:
    """Run the campaign and write its report. Returns 0 if nothing was found, 1 if something was, or if a job failed or
    was lost."""
    from tilewright.campaign.runner import executor, run_campaign
    from tilewright.cli.progress import working

    folder = Path(options.campaign)
    if options.files:
        raise UsageError.because("--campaign cannot be combined with files")
    if options.format == "sarif":
        raise UsageError.because("--campaign supports --format text and json only")
    if not folder.is_dir():
        raise UsageError.because(f"'{folder}' is not a folder")
    planned = list(_planned(folder, options))
    if not planned:
        raise UsageError.because(f"'{folder}' contains no program (.py) or kernel (.tileir)")
    store = store_of(options, options.campaign)
    with working(f"checking {folder}") as progress, executor(where_of(options)) as running:

        def told(outcome: Outcome, done: int, total: int) -> None:
            if progress is not None:
                progress(done, total)

        outcomes = run_campaign([each.job for each in planned], running, store, told=told)
    rows = [_row(each, outcome) for each, outcome in zip(planned, outcomes, strict=True)]
    if options.format == "json":
        data = {
            "format": FORMAT,
            "campaign": str(folder),
            "compares": options.compare,
            "jobs": rows,
            "counts": dict(Counter(row["status"] for row in rows)),
        }
        session.write_stdout(json.dumps(data, indent=1) + "\n")
    else:
        session.write_stdout("".join(f"{line}\n" for line in _lines(rows, options)))
    return Exit.OK if all(row["status"] == "clean" for row in rows) else Exit.FINDINGS


def _planned(folder: Path, options: argparse.Namespace) -> Iterator[Planned]:
    tasks = list(_tasks(options))
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if any(part.startswith((".", "__")) for part in path.relative_to(folder).parts):
            continue
        if path.suffix == ".py":
            source = path.read_bytes()
            # A module without launches is not a program.
            if b"cuda.tile" in source and b"launch" in source:
                for task in tasks:
                    yield _of_program(path, name, source, task, options)
        elif path.suffix in _KERNELS:
            yield from _of_kernel(path, name, path.read_bytes(), tasks, options)


def _tasks(options: argparse.Namespace) -> Iterator[Task]:
    from tilewright.cli.campaign_jobs import REFERENCE, Task
    from tilewright.launching.machine import machine_named
    from tilewright.launching.options import MOST_SCHEDULES, options_of_kind

    names = options.machines or (["cpu"] if options.compare else [REFERENCE])
    try:
        machines = [machine_named(name) for name in dict.fromkeys(names)]
        for machine in machines:
            machine.check()
    except TileIRError as error:
        raise UsageError(error.diagnostics) from error
    if options.compare and any(machine.name == REFERENCE for machine in machines):
        raise UsageError.because("--compare needs a machine other than reference")
    if not options.compare and (options.rtol is not None or options.atol is not None):
        raise UsageError.because("--rtol and --atol require --compare")
    if options.seeds is not None and options.seeds > MOST_SCHEDULES:
        raise UsageError.because(f"--seeds is at most {MOST_SCHEDULES:,}")
    for machine in machines:
        has_seeds = "seed" in options_of_kind(machine.capabilities.kind)
        for seed in range((options.seeds or 2) if has_seeds else 1):
            yield Task(machine.name, seed, options.compare, options.rtol, options.atol)


def _of_program(
    path: Path, name: str, source: bytes, task: Task, options: argparse.Namespace
) -> Planned:
    from tilewright.campaign.jobs import Job, content_key
    from tilewright.cutile.kept_programs import KeptProgram, imports_of

    words = _words(source)
    arguments = tuple(words[1:]) if words and words[0].endswith(path.name) else ()
    program = KeptProgram(
        str(path.resolve()),
        source,
        arguments,
        torch_cuda=options.torch_cuda,
        imports=imports_of(path, source),
    )
    key = content_key("check-program", program.key, task.data)
    label = f"{name} on {task.machine}, seed {task.seed}"
    given = {"program": program, "task": task}
    job = Job(f"{_JOBS}:check_program", given, key, label, options.job_limit)
    return Planned(name, task.machine, task.seed, job)


def _words(source: bytes) -> list[str]:
    """Return the words of the first `tilewright run` command in a file, from the file name on."""
    found = _COMMAND.search(source)
    if found is None:
        return []
    words = shlex.split(found[1].decode("utf-8", "replace"))
    at = next((n for n, word in enumerate(words) if word.endswith((".py", *_KERNELS))), None)
    return [] if at is None else words[at:]


def _of_kernel(
    path: Path, name: str, source: bytes, tasks: Sequence[Task], options: argparse.Namespace
) -> Iterator[Planned]:
    """Yield a launch on each machine if the file says how to launch it; otherwise the file is only verified."""
    from tilewright.campaign.jobs import Job, content_key
    from tilewright.cli.run import grid_extents

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--grid", type=grid_extents, default=(1, 1, 1))
    parser.add_argument("--arg", dest="arguments", action="append", default=[])
    parser.add_argument("--entry", default=None)
    parser.add_argument("--machine", default=None)
    try:
        launch, _ = parser.parse_known_args(_words(source)[1:])
    except argparse.ArgumentError as error:
        raise UsageError.because(f"'{path}' has an invalid run line: {error}") from None
    if not launch.arguments or launch.machine is not None:
        key = content_key("verify", source)
        given: dict[str, Any] = {"name": name, "source": source}
        yield Planned(name, None, None, Job(f"{_JOBS}:verify_file", given, key, name))
        return
    for task in tasks:
        given = {
            "name": name,
            "source": source,
            "entry": launch.entry,
            "grid": launch.grid,
            "arguments": launch.arguments,
            "task": task,
        }
        key = content_key(
            "check-file", source, launch.entry, list(launch.grid), launch.arguments, task.data
        )
        label = f"{name} on {task.machine}, seed {task.seed}"
        job = Job(f"{_JOBS}:check_file", given, key, label, options.job_limit)
        yield Planned(name, task.machine, task.seed, job)


def _row(planned: Planned, outcome: Outcome) -> dict[str, Any]:
    from tilewright.campaign.jobs import Status

    row: dict[str, Any] = {
        "program": planned.program,
        "machine": planned.machine,
        "seed": planned.seed,
        "status": str(outcome.status),
        "findings": [],
        "notes": [],
        "launches": 0,
        "reason": outcome.reason,
        "seconds": outcome.seconds,
        "kept": outcome.is_kept,
    }
    if outcome.status is Status.DONE:
        row = {**row, **outcome.value}
        row["status"] = "findings" if row["findings"] else "clean"
    elif outcome.status is Status.REFUSED:
        finding = {"code": outcome.code, "message": outcome.reason, "place": ""}
        row = {**row, "status": "findings", "findings": [finding]}
    return row


def _lines(rows: Sequence[dict[str, Any]], options: argparse.Namespace) -> Iterator[str]:
    programs = len({row["program"] for row in rows})
    kept = sum(row["kept"] for row in rows)
    earlier = f", {kept} of them from an earlier run" if kept else ""
    how = "compared with the reference machine" if options.compare else "with all checks enabled"
    yield f"{options.campaign}: {programs} files, {len(rows)} jobs, {how}{earlier}"
    for row in rows:
        if row["status"] == "clean":
            continue
        where = "" if row["machine"] is None else f" on {row['machine']}, seed {row['seed']}"
        if row["status"] != "findings":
            yield f"  {row['status']:<8} {row['program']}{where}: {row['reason']}"
            continue
        for finding in row["findings"][:_SHOWN]:
            place = f" ({finding['place']})" if finding["place"] else ""
            yield f"  found    {row['program']}{where}: {finding['code']}: {finding['message']}{place}"
        if len(row["findings"]) > _SHOWN:
            yield f"           and {len(row['findings']) - _SHOWN} more"
    for note in {f"{row['program']}: {note}": None for row in rows for note in row["notes"]}:
        yield f"  note     {note}"
    counts = Counter(row["status"] for row in rows)
    names = {"clean": "clean", "findings": "with findings", "failed": "failed", "lost": "lost"}
    names["late"] = "took too long"
    yield ", ".join(
        f"{counts[status]} {words}" for status, words in names.items() if counts[status]
    )
