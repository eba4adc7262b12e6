"""``python -m benchmarks [--runs N] [GROUP ...]``: measure, print and record."""

from __future__ import annotations

import argparse
from importlib import import_module

from benchmarks.report import record

GROUPS = (
    *("reading", "interpreting", "cpu", "unseen", "cutile", "lowering"),
    *("simulator", "races", "gpu_code", "launching"),
)

#: Groups that keep rows of their own, of which some can be measured anew.
OWN_RECORDS = frozenset({"gpu_code"})


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"one of {', '.join(GROUPS)}")
    parser.add_argument("--runs", type=int, default=7, help="counted runs of each job (7)")
    options = parser.parse_args()
    for group in options.groups or GROUPS:
        if group not in GROUPS:
            parser.error(f"unknown group {group}; known: {', '.join(GROUPS)}")
        module = import_module(f"benchmarks.{group}")
        if group in OWN_RECORDS:
            module.main(["--record", "--runs", str(options.runs)])
            continue
        tables = module.tables(options.runs)
        print("\n".join(table.markdown() for table in tables))
        print(f"recorded in {record(group, tables)}\n")


if __name__ == "__main__":
    main()
