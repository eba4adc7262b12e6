"""GPU code of Tilewright beside that of NVIDIA's tileiras, from the same bytecode; no GPU is needed.

``python -m benchmarks.gpu_code [--kernels PATTERN ...] [--targets sm_90a ...] [--ours-only] [--record]``
prints a table for each target; ``--record`` (what ``python -m benchmarks gpu_code`` always does) writes
``results/gpu_code.json``, ``.md`` and ``.svg``, in which rows that were not run stay as they were.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from typing import Any

from benchmarks.gpu_cases import Case, cases
from benchmarks.gpu_compilers import TARGETS, Compiled, ours, simulate, tileiras
from benchmarks.gpu_report import record_rows, show
from tilewright.gpu.tools import disassemble_to_json
from tilewright.model.sass import Kernel, read_kernels

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
    "ATOM": ("ATOMG", "ATOMS", "RED", "ATOM"),
}
Row = dict[str, Any]


def facts(compiled: Compiled) -> Row:
    """What is read from machine code without running it."""
    kernel = read_kernels(compiled.cubin, disassemble_to_json)[0]
    loop = kernel.hot_loop()
    threads = kernel.file.threads or (0, 0, 0)
    return {
        "instructions": sum(kernel.mix.values()),
        "loop": len(kernel.body(loop)) if loop else 0,
        "loop_mix": _mix(i.base for i in kernel.body(loop)) if loop else {},
        "mix": _mix(kernel.mix.elements()),
        "registers": kernel.file.registers,
        "threads": threads[0] * threads[1] * threads[2],
        "spills": kernel.spills,
        "frame_bytes": kernel.file.frame_bytes,
        "shared_bytes": kernel.file.shared_bytes + compiled.dynamic_shared_bytes,
        **_timed(kernel, compiled),
    }


def _timed(kernel: Kernel, compiled: Compiled) -> Row:
    return {}


def _mix(bases: Iterable[str]) -> dict[str, int]:
    found = list(bases)
    counts = {name: sum(found.count(base) for base in held) for name, held in MIX.items()}
    return {name: count for name, count in counts.items() if count}


def rows_of(case: Case, target: str, *, ours_only: bool, runs: int) -> Iterator[Row]:
    """The rows of a kernel for a target: ours, then that of tileiras."""
    bytecode = case.bytecode()
    compilers = {"ours": ours} | ({} if ours_only else {"tileiras": tileiras})
    for name, compiler in compilers.items():
        compiled = compiler(bytecode, target, runs)
        row: Row = {"kernel": case.name, "group": case.group, "target": target, "compiler": name}
        if compiled.failure:
            yield row | {"failure": compiled.failure}
            continue
        row |= {"compile_seconds": round(statistics.median(compiled.seconds), 3)}
        row |= facts(compiled)
        if name == "ours":
            found = simulate(case, bytecode, target)
            kept = ("shared_waves", "bank_conflicts", "shared_accesses", "barriers")
            row["simulated"] = {key: found.counters[key] for key in kept if key in found.counters}
            if found.failure:
                row["simulated"]["failure"] = found.failure
        yield row


def measure(
    patterns: Sequence[str], targets: Sequence[str], *, ours_only: bool, runs: int
) -> list[Row]:
    """All rows that are asked for, one after the other; progress on standard error."""
    rows: list[Row] = []
    for case in cases():
        if patterns and not any(fnmatch(case.name, f"*{pattern}*") for pattern in patterns):
            continue
        for target in targets:
            sys.stderr.write(f"{case.name}, {target}\n")
            rows += rows_of(case, target, ours_only=ours_only, runs=runs)
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
    parser.add_argument("--runs", type=int, default=1, help="compilations that are timed (1)")
    options = parser.parse_args(argv)
    rows = measure(options.kernels, options.targets, ours_only=options.ours_only, runs=options.runs)
    print(show(rows))
    if options.record:
        print(f"recorded in {record_rows(rows)}")


if __name__ == "__main__":
    main()
