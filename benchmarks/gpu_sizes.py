"""The kernels of ``gpu_code`` and ``gpu_unseen`` in sizes and element types that nobody chose, beside NVIDIA's tileiras.

``python -m benchmarks.gpu_sizes [--seeds FROM TO] [--targets sm_90a ...] [--ours-only] [--record]``
draws a kernel and an architecture for each seed, scales some of its tile sizes by a quarter to four, at times changes an element type,
and compares code, modelled time and compile time as ``gpu_unseen`` does. Variants whose tiles are no larger than the kernel's
own run on the simulator, too, beside the reference machine. A seed stands for the same variant on every machine.
``--record`` writes ``results/gpu_sizes.json``, ``.md`` and ``.svg``.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import cuda.tile as ct

from benchmarks import gpu_unseen
from benchmarks.gpu_cases import Case
from benchmarks.gpu_cases import cases as table
from benchmarks.gpu_code import rows_of
from benchmarks.gpu_compilers import SIMULATE_LIMIT, TARGETS, in_process
from benchmarks.gpu_report import record_rows, show
from benchmarks.gpu_unseen import MODEL_LIMIT, Row, findings, judged, values_of
from benchmarks.report import RESULTS

JSON_FILE = RESULTS / "gpu_sizes.json"
#: What a tile size is multiplied by, and the largest one.
_FACTORS, _MOST = (0.25, 0.5, 0.5, 2, 2, 4), 16384
#: How often a size, and an element type, changes.
_RESIZED, _RETYPED = 0.55, 0.35
_TYPES = (ct.float16, ct.bfloat16, ct.float32, ct.float8_e4m3fn, ct.int8, ct.float64)
#: Extents of arrays up to this many elements are those of tiles: they change along with them.
_OF_TILES = 512


def variant(seed: int) -> tuple[Case, bool] | None:
    """The kernel of a seed, and whether none of its tiles has grown; None where nothing changes."""
    draw = random.Random(seed)
    case = draw.choice([*gpu_unseen.cases(), *table()])
    sizes: dict[int, int] = {}
    for number, argument in enumerate(case.arguments):
        if _is_size(argument) and draw.random() < _RESIZED:
            size = int(argument[0] * draw.choice(_FACTORS))
            if 1 <= size <= _MOST and size != argument[0]:
                sizes[number] = size
    grown = any(size > case.arguments[number][0] for number, size in sizes.items())
    said = [f"{case.arguments[number][0]} to {size}" for number, size in sizes.items()]
    types: dict[Any, Any] = {}
    arrays = [argument for argument in case.arguments if _is_array(argument)]
    held = sorted({dtype for dtype, _ in arrays if dtype in _TYPES}, key=str)
    if held and draw.random() < _RETYPED:
        old, new = draw.choice(held), draw.choice(_TYPES)
        if old is not new:
            types[old] = new
            said.append(f"{old} to {new}")
    if not said:
        return None
    name = f"{case.name}: {', '.join(said)} ({seed})"
    arguments, few = (
        tuple(_changed(given, case, sizes, types, grown=grown))
        for given in (case.arguments, case.few)
    )
    return replace(case, name=name, group="sizes", arguments=arguments, few=few), not grown


def _is_size(argument: Any) -> bool:
    return (
        isinstance(argument, tuple)
        and len(argument) == 1
        and type(argument[0]) is int
        and argument[0] > 1
    )


def _is_array(argument: Any) -> bool:
    return isinstance(argument, tuple) and len(argument) == 2


def _changed(
    given: Sequence[Any], case: Case, sizes: dict[int, int], types: dict[Any, Any], *, grown: bool
) -> list[Any]:
    """Arguments with other sizes and types; arrays are four times as long where tiles have grown."""
    scaled = {case.arguments[number][0]: size for number, size in sizes.items()}

    def extent(old: int) -> int:
        if old <= _OF_TILES and old in scaled:
            return scaled[old]
        return 4 * old if old > _OF_TILES else old

    found: list[Any] = []
    for number, argument in enumerate(given):
        if number in sizes and _is_size(argument):
            found.append((sizes[number],))
        elif _is_array(argument):
            dtype, extents = argument
            extents = tuple(map(extent, extents)) if grown else extents
            found.append((types.get(dtype, dtype), extents))
        else:
            found.append(argument)
    return found


def measure(
    seeds: Sequence[int], targets: Sequence[str], *, ours_only: bool = False, record: bool = False
) -> list[Row]:
    """The rows of some seeds, each of which is told and, with ``record``, recorded at once. What cuTile refuses has none."""
    made: list[Row] = []
    for seed in seeds:
        found = variant(seed)
        if found is None:
            continue
        case, runs = found
        target = random.Random(seed + 1).choice(list(targets))
        try:
            bytecode = case.bytecode()
        except ct.TileError as error:  # sizes that the kernel's author did not mean
            sys.stderr.write(f"{case.name}: cuTile refuses it: {type(error).__name__}\n")
            continue
        simulated: Row = {}
        if runs:
            wanted = _reference(case, bytecode, seed)
            if isinstance(wanted, str):
                sys.stderr.write(f"{case.name}: no reference: {wanted}\n")
            else:
                simulated = judged(case, bytecode, target, wanted, seed)
        new = list(
            rows_of(case, target, ours_only=ours_only, runs=1, known=simulated, limit=MODEL_LIMIT)
        )
        for line in list(findings(new)) or [f"{target:8} {case.name}"]:
            sys.stderr.write(line + "\n")
        made += new
        if record:
            record_rows(new, JSON_FILE)
    return made


def _reference(case: Case, bytecode: bytes, seed: int) -> list[Any] | str:
    """The arguments of the small launch after it on the reference machine; why there is none, as where tiles that are smaller
    lie outside of an array."""

    def job() -> list[Any] | str:
        import tilewright
        from tilewright.machine import Program

        values = values_of(case, seed)
        try:
            Program(tilewright.read(bytecode)).launch(None, case.few_grid, values)
        except tilewright.TileIRError as error:
            return error.diagnostics[0].message
        return values

    try:
        return in_process(job, SIMULATE_LIMIT)
    except (TimeoutError, RuntimeError) as error:
        return str(error)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.gpu_sizes", description=__doc__)
    parser.add_argument(
        "--seeds", nargs=2, type=int, default=(0, 60), metavar=("FROM", "TO"), help="(0 60)"
    )
    parser.add_argument(
        "--targets", nargs="*", default=TARGETS, metavar="SM", help=", ".join(TARGETS)
    )
    parser.add_argument("--ours-only", action="store_true", help="leave tileiras out")
    parser.add_argument("--record", action="store_true", help="write the rows into the results")
    options = parser.parse_args(argv)
    found = measure(
        range(*options.seeds), options.targets, ours_only=options.ours_only, record=options.record
    )
    print(show(found))
    print("\n".join(findings(found)))


if __name__ == "__main__":
    main()
