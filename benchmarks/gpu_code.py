"""GPU code of Tilewright beside that of NVIDIA's tileiras, from the same bytecode; no GPU is needed.

``python -m benchmarks.gpu_code [--kernels PATTERN ...] [--targets sm_90a ...] [--ours-only] [--record]``
prints a table for each target; ``--record`` (what ``python -m benchmarks gpu_code`` always does) writes
``results/gpu_code.json``, ``.md`` and ``.svg``, in which rows that were not run stay as they were.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from typing import Any

from benchmarks.gpu_cases import Case, cases
from benchmarks.gpu_compilers import (
    TARGETS,
    Compiled,
    Simulated,
    in_process,
    ours,
    simulate,
    tileiras,
)
from benchmarks.gpu_report import record_rows, recorded_rows, show
from tilewright.diagnostics import TileIRError
from tilewright.gpu.tools import disassemble_to_json
from tilewright.model.sass import Kernel, read_kernels
from tilewright.model.tables import GPUS
from tilewright.model.timing import Options, Profile, hot_loop_name, profile
from tilewright.model.walk import LaunchShape, parameter_words

#: The opcodes whose counts are shown; what does a similar thing for other types counts as one.
MIX = {
    "LDG": ("LDG",),
    "STG": ("STG",),
    "LDS": ("LDS",),
    "STS": ("STS",),
    "LDSM": ("LDSM",),
    "STSM": ("STSM",),
    "LDGSTS": ("LDGSTS",),
    "UTMALDG": ("UTMALDG",),
    "UTMASTG": ("UTMASTG",),
    "HMMA": ("HMMA", "IMMA", "QMMA", "DMMA", "OMMA"),
    "HGMMA": ("HGMMA", "IGMMA", "QGMMA", "BGMMA"),
    "SHFL": ("SHFL",),
    "REDUX": ("REDUX",),
    "BAR": ("BAR",),
    "MUFU": ("MUFU",),
    "ATOM": ("ATOMG", "ATOMS", "RED", "REDG", "ATOM"),
}
Row = dict[str, Any]


def facts(
    compiled: Compiled, case: Case, shared_factor: float = 1.0, limit: float | None = None
) -> Row:
    """What is read from machine code without running it. ``limit``: CPU seconds that the model may take."""
    kernel = read_kernels(compiled.cubin, disassemble_to_json)[0]
    threads = kernel.file.threads or (128, 1, 1)
    row: Row = {
        "instructions": sum(kernel.mix.values()),
        "mix": _mix(kernel.mix.elements()),
        "registers": kernel.file.registers,
        "threads": threads[0] * threads[1] * threads[2],
        "spills": kernel.spills,
        "frame_bytes": kernel.file.frame_bytes,
        "shared_bytes": kernel.file.shared_bytes + compiled.dynamic_shared_bytes,
    }
    options = Options(
        dynamic_shared_bytes=compiled.dynamic_shared_bytes,
        footprint_bytes=case.array_bytes,
        shared_factor=shared_factor,
    )
    launch = LaunchShape(case.grid, threads, parameter_words(kernel, case.scalars()))

    def job() -> Row:
        try:
            found = _profiled(kernel, launch, options, case.turns)
        except TileIRError as error:
            return _unmodelled(kernel, str(error).splitlines()[0])
        return _loop_facts(kernel, hot_loop_name(found)) | _times(found)

    try:
        return row | (job() if limit is None else in_process(job, limit))
    except TimeoutError as error:
        return row | _unmodelled(kernel, str(error))


def _unmodelled(kernel: Kernel, why: str) -> Row:
    """What there is without a time: the longest loop stands for the hottest one."""
    longest = max(kernel.loops, key=lambda loop: len(kernel.body(loop)), default=None)
    return {"unmodelled": why} | _loop_facts(kernel, longest.name if longest else None)


#: The GPU on which the launches of an architecture are modelled.
_GPU_OF = {80: "a100", 90: "h100", 120: "rtx5090"}


def _profiled(kernel: Kernel, launch: LaunchShape, options: Options, turns: int) -> Profile:
    """What the model says of a launch whose loops on data turn so often, if that is known."""
    while True:
        try:
            return profile(kernel, GPUS[_GPU_OF[kernel.compute]], launch, options)
        except TileIRError as error:
            unknown = re.search(r"how often loop (\w+) of", str(error))
            if not turns or unknown is None or unknown[1] in options.trips:
                raise
            options = replace(options, trips={**options.trips, unknown[1]: turns})


def _loop_facts(kernel: Kernel, name: str | None) -> Row:
    loop = next((loop for loop in kernel.loops if loop.name == name), None)
    body = kernel.body(loop) if loop is not None else []
    return {"loop": len(body), "loop_mix": _mix(instruction.base for instruction in body)}


def _times(found: Profile) -> Row:
    return {
        "modelled_seconds": found.seconds,
        "bound_by": found.bound_by,
        "shares": {name: round(share, 3) for name, share in list(found.shares.items())[:5]},
        "blocks_per_sm": found.occupancy.blocks,
        "executed": round(found.instructions),
        "blind": list(found.blind),
    }


def _mix(bases: Iterable[str]) -> dict[str, int]:
    found = list(bases)
    counts = {name: sum(found.count(base) for base in held) for name, held in MIX.items()}
    return {name: count for name, count in counts.items() if count}


def rows_of(
    case: Case,
    target: str,
    *,
    ours_only: bool,
    runs: int,
    known: Row | None = None,
    limit: float | None = None,
) -> Iterator[Row]:
    """The rows of a kernel for a target: ours, then that of tileiras. ``known``: what the simulator said of
    ours before, which is not asked again; ``limit`` as of ``facts``."""
    bytecode = case.bytecode()
    compilers = {"ours": ours} | ({} if ours_only else {"tileiras": tileiras})
    for name, compiler in compilers.items():
        compiled = compiler(bytecode, target, runs)
        row: Row = {"kernel": case.name, "group": case.group, "target": target, "compiler": name}
        if compiled.failure:
            yield row | {"failure": compiled.failure}
            continue
        row |= {"compile_seconds": round(statistics.median(compiled.seconds), 3)}
        factor = 1.0
        if name == "ours":
            row["simulated"] = counted(simulate(case, bytecode, target)) if known is None else known
            factor = _conflict_factor(row["simulated"])
        yield row | facts(compiled, case, factor, limit)


def row_of_ours(case: Case, target: str, known: Row) -> Row:
    """The row of our code; ``known``: what the simulator said of it before."""
    return next(rows_of(case, target, ours_only=True, runs=1, known=known))


def counted(found: Simulated) -> Row:
    """What of the simulator's counters is recorded."""
    kept = ("shared_waves", "bank_conflicts", "shared_accesses", "barriers")
    row: Row = {key: found.counters[key] for key in kept if key in found.counters}
    return row | {"failure": found.failure} if found.failure else row


def _conflict_factor(counters: Row) -> float:
    """How many times more waves of shared memory were counted than the data needs."""
    waves = counters.get("shared_waves", 0)
    needed = waves - counters.get("bank_conflicts", 0)
    return waves / needed if needed else 1.0


def measure(
    patterns: Sequence[str],
    targets: Sequence[str],
    *,
    ours_only: bool = False,
    runs: int = 1,
    simulated: bool = True,
    record: bool = False,
) -> list[Row]:
    """All rows that are asked for, one after the other; progress on standard error. Unless ``simulated``, what
    the simulator said comes from the record. With ``record`` those of a kernel are recorded at once, so that
    a run that is stopped keeps what it has."""
    rows: list[Row] = []
    before = {
        (row["kernel"], row["target"]): row.get("simulated")
        for row in ([] if simulated else recorded_rows())
        if row["compiler"] == "ours"
    }
    for case in cases():
        if patterns and not any(fnmatch(case.name, f"*{pattern}*") for pattern in patterns):
            continue
        for target in targets:
            sys.stderr.write(f"{case.name}, {target}\n")
            known = before.get((case.name, target))
            new = list(rows_of(case, target, ours_only=ours_only, runs=runs, known=known))
            rows += new
            if record:
                record_rows(new)
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.gpu_code", description=__doc__)
    parser.add_argument(
        "--kernels", nargs="*", default=[], metavar="PATTERN", help="parts of names"
    )
    parser.add_argument(
        "--targets", nargs="*", default=TARGETS, metavar="SM", help=", ".join(TARGETS)
    )
    parser.add_argument("--ours-only", action="store_true", help="leave tileiras out")
    parser.add_argument("--record", action="store_true", help="write the rows into the results")
    parser.add_argument(
        "--no-simulation",
        action="store_true",
        help="take waves and conflicts of our code from the record: right where it has not changed",
    )
    parser.add_argument("--runs", type=int, default=1, help="compilations that are timed (1)")
    options = parser.parse_args(argv)
    rows = measure(
        options.kernels,
        options.targets,
        ours_only=options.ours_only,
        runs=options.runs,
        simulated=not options.no_simulation,
        record=options.record,
    )
    print(show(rows))
    if options.record:
        print(f"recorded in {record_rows(rows)}")


if __name__ == "__main__":
    main()
