"""Kernels that the CPU machine was not tuned for, written in cuTile as for a GPU, beside the best of
NumPy, torch, torch.compile and numba (where it is installed) on the same arrays.

All use ``TILEWRIGHT_THREADS`` threads, or one for each core. Every result is checked before it is
measured; jobs of a row run in turn, with pauses in which threads of the one before stop looking for
work, and ratios are those of medians. Rows stand in modules of their own, listed in ``ROOMS``: a
module has ``rows()``, which gives functions that make a row.

``python -m benchmarks.unseen [--runs N] [--record] [WORD ...]`` measures the rows with such a word in their
name; ``--record`` writes ``results/unseen-THREADS.md`` and ``.json``. ``--checked`` measures what checked code costs
instead, beside the code without checks (``results/checked-THREADS.md``). Results of processors without vectors of 512 bits
have the width in their name, as ``unseen-1-256``.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module

import torch

from benchmarks.report import RESULTS, Table, record
from benchmarks.timing import interleaved_reports, timed
from benchmarks.unseen_rows import Row
from tilewright.cpu.runtime.pool import thread_count
from tilewright.cpu.target import cpu_target
from tilewright.cutile import on

#: Modules of rows, and what they are about.
ROOMS = {
    "unseen_atomics": "Atomic updates in the default order",
    "unseen_callers_data": "Pictures and tables of data, written as by a caller",
    "unseen_callers_science": "Sparse matrices, chemistry, ensembles, rays, written as by a caller",
    "unseen_callers_usual": "Usual operators, written as by a caller",
    "unseen_daily": "Gradients, vocabularies, quantising, optimizers, written last",
    "unseen_daily_fields": "Images and lattices, written last",
    "unseen_daily_models": "Attention, caches, quantised weights, written last",
    "unseen_daily_numbers": "Scans, recurrences, bits, codes, graphs, written last",
    "unseen_edges": "Tiles that are not whole, short numbers, masks by minus infinity",
    "unseen_elements": "One pass of arithmetic",
    "unseen_flat": "Flat indices of images, products that do not fill their tiles",
    "unseen_fresh": "Programs of many fields",
    "unseen_guests": "Graphs, searches, prices, series, written as by a guest",
    "unseen_guests_fields": "Images, waves, flows on grids, written as by a guest",
    "unseen_guests_models": "Norms, losses, convolutions, gradients, written as by a guest",
    "unseen_guests_numbers": "Sorting, packing, transforms, recurrences, texts, written as by a guest",
    "unseen_guests_places": "Particles, rays, points, small matrices, written as by a guest",
    "unseen_guests_products": "Products, experts, quantised weights, written as by a guest",
    "unseen_guests_sequences": "Attention, recurrences, sounds, words, written as by a guest",
    "unseen_later": "Norms, losses, optimizers and quantising, written later",
    "unseen_later_fields": "Images, stencils, simulations, clusters, written later",
    "unseen_later_models": "Attention, experts and layers, written later",
    "unseen_later_numbers": "Axes, recurrences, bits, bytes, linear algebra, written later",
    "unseen_later_sequences": "Embeddings, recurrences, ragged batches, written later",
    "unseen_linear": "Layers and their gradients, scores, small products",
    "unseen_models": "Pieces of models and of simulations",
    "unseen_moves": "Cut, joined and reshaped tiles",
    "unseen_newcomers_kinds": "Orders, windows, powers, joined tiles, small products, short code, written as by a newcomer",
    "unseen_newcomers_usual": "Layers and data between them, written as by a newcomer",
    "unseen_places": "Tiles changed in place, masks of places, branches that store",
    "unseen_plain": "Prices, fractals, colours, columns, triangles, simple layers, written after the machine",
    "unseen_powers": "Constant exponents",
    "unseen_products": "Matrix products",
    "unseen_reductions": "Reductions of several values",
    "unseen_regulars_usual": "Usual operators, written as by a regular",
    "unseen_regulars_work": "Pictures, matrices, particles, tables, written as by a regular",
    "unseen_shifts": "Gathers whose lanes follow one another",
    "unseen_siblings": "Sums over one tile, reciprocal roots, quantising, optimizers",
    "unseen_strangers_fields": "Images, signals, grids, written as by a stranger",
    "unseen_strangers_models": "Learned models, written as by a stranger",
    "unseen_strangers_numbers": "Sorting, packing, small systems, statistics, written as by a stranger",
    "unseen_strides": "Elements at distances",
    "unseen_strips": "Short pieces of long rows",
    "unseen_together": "Blocks that work on one result together, and several arrays in and out",
    "unseen_trades": "Tables, graphs, texts and series, written after all others",
    "unseen_trades_fields": "Morphology, layers, patches, reactions, written after all others",
    "unseen_trades_models": "Layers, losses, optimizers, blocks, written after all others",
    "unseen_trades_places": "Points, rays, small matrices, mixtures, written after all others",
    "unseen_turned": "Axes exchanged",
    "unseen_waiting": "Blocks that wait for one another",
    "unseen_windows": "Windows and taps, short rows, batches of products",
}
_OURS = "Tilewright"
_LONG_ENOUGH = 0.25
_WIDEST = 512
_HEAD = ("kernel", _OURS, "best of the others", "its time", "best / ours")
_CHECKED_HEAD = ("kernel", "without checks", "checked", "checked / without")


def tables(runs: int) -> list[Table]:
    """A table for each room; its last row is the geometric mean of the ratios."""
    return list(_tables(runs, ()))


def _tables(runs: int, words: tuple[str, ...], *, checked: bool = False) -> Iterator[Table]:
    threads = thread_count()
    torch.set_num_threads(threads)
    measured, head = (_cost_of_checks, _CHECKED_HEAD) if checked else (_measured, _HEAD)
    for room, title in ROOMS.items():
        table = Table(f"{room}-{threads}", f"{title}, {threads} threads", head)
        ratios: list[float] = []
        for make in import_module(f"benchmarks.{room}").rows():
            row = make()
            if words and not any(word in f"{room} {row.name}" for word in words):
                continue
            cells, ratio = measured(row, runs)
            print(" | ".join(cells), flush=True)
            table.rows.append(cells)
            ratios.append(ratio)
        if ratios:
            table.rows.append(_mean_row(ratios, len(head)))
            yield table


def _measured(row: Row, runs: int) -> tuple[tuple[str, ...], float]:
    jobs = {_OURS: row.job()} | row.peers
    for peer in row.peers.values():  # what compiles does it now
        peer()
    with on("cpu"):
        samples = interleaved_reports(
            {name: timed(job) for name, job in jobs.items()},
            runs,
            awake=True,
            quiet=True,
            long_enough=_LONG_ENOUGH,
        )
    ours = samples.pop(_OURS).median
    best = min(samples, key=lambda name: samples[name].median)
    time = samples[best].median
    ratio = time / ours
    cells = (row.name, f"{ours * 1e3:.3f} ms", best, f"{time * 1e3:.3f} ms", f"{ratio:.2f}")
    return cells, ratio


def _cost_of_checks(row: Row, runs: int) -> tuple[tuple[str, ...], float]:
    """What ``checked=True`` costs."""
    launch = row.job()

    def under(*, checked: bool) -> Callable[[], float]:
        def measure() -> float:
            with on("cpu", checked=checked):
                return timed(launch)()

        return measure

    jobs = {name: under(checked=name == "checked") for name in _CHECKED_HEAD[1:3]}
    samples = interleaved_reports(jobs, runs, awake=True, long_enough=_LONG_ENOUGH)
    plain, checked = (samples[name].median for name in jobs)
    ratio = checked / plain
    return (row.name, f"{plain * 1e3:.3f} ms", f"{checked * 1e3:.3f} ms", f"{ratio:.2f}"), ratio


def _with_recorded(tables: list[Table], kind: str) -> list[Table]:
    """Tables with the rows that are recorded, in the place of which the rows of before come where they were measured anew."""
    path = RESULTS / f"{_group(kind)}.json"
    head = _CHECKED_HEAD if kind == "checked" else _HEAD
    held = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    new = {table.name: {row[0]: row for row in table.rows[:-1]} for table in tables}
    found: list[Table] = []
    for room, title in ROOMS.items():
        name = f"{room}-{thread_count()}"
        old = {row[0]: tuple(row) for row in held.get(name, {"rows": [()]})["rows"][:-1]}
        rows = list((old | new.get(name, {})).values())
        if rows:
            rows.append(_mean_row([float(row[-1]) for row in rows], len(head)))
            found.append(Table(name, f"{title}, {thread_count()} threads", head, rows))
    return found


def _group(kind: str) -> str:
    """What results of a kind are written as on this processor."""
    bits = cpu_target().vector_bits
    return f"{kind}-{thread_count()}" + ("" if bits == _WIDEST else f"-{bits}")


def _mean_row(ratios: Sequence[float], columns: int = len(_HEAD)) -> tuple[str, ...]:
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return ("geometric mean", *[""] * (columns - 2), f"{mean:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.unseen", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="rows with one of these words")
    parser.add_argument("--runs", type=int, default=7, help="counted runs of each job (7)")
    parser.add_argument("--record", action="store_true", help="write the results")
    parser.add_argument("--checked", action="store_true", help="what checked code costs")
    options = parser.parse_args()
    found: list[Table] = []
    for table in _tables(options.runs, tuple(options.words), checked=options.checked):
        print(table.markdown())
        found.append(table)
    kind, summary = ("checked", _summary_of_checks) if options.checked else ("unseen", _summary)
    print(summary(found).markdown())
    if options.record:
        found = _with_recorded(found, kind) if options.words else found
        found.insert(0, summary(found))
        record(_group(kind), found)


def _summary_of_checks(tables: list[Table]) -> Table:
    """What checks cost over the rows of all tables."""
    ratios = [float(row[-1]) for table in tables for row in table.rows[:-1]]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
    head = ("rows", "geometric mean", "worst", "above 2", "above 1.5")
    table = Table(f"checked-{thread_count()}", "What checks cost, all rows", head)
    above = [sum(ratio > limit for ratio in ratios) for limit in (2.0, 1.5)]
    worst = f"{max(ratios, default=math.nan):.2f}"
    table.rows.append((str(len(ratios)), f"{mean:.2f}", worst, *map(str, above)))
    return table


def _summary(tables: list[Table]) -> Table:
    """What the rows of all tables come to."""
    ratios = [float(row[-1]) for table in tables for row in table.rows[:-1]]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
    below = [sum(ratio < limit for ratio in ratios) for limit in (0.5, 0.8, 1.0)]
    table = Table(
        f"unseen-{thread_count()}",
        "All rows",
        ("rows", "geometric mean", "worst", "below 0.5", "below 0.8", "below 1"),
    )
    worst = f"{min(ratios, default=math.nan):.2f}"
    table.rows.append((str(len(ratios)), f"{mean:.2f}", worst, *map(str, below)))
    return table


if __name__ == "__main__":
    main()
