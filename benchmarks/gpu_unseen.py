"""GPU code of kernels that nobody tuned for, beside that of NVIDIA's tileiras, as ``gpu_code`` reads and models it.

``python -m benchmarks.gpu_unseen [--kernels PATTERN ...] [--targets sm_90a ...] [--ours-only] [--record]``
first runs a small launch of each kernel on the simulator, and compares with the reference machine; then tells what
is worth a look: refused, wrong, fallen back, spills, bank conflicts, slower than tileiras by more than 10 %, twice its
compile time. ``--record`` writes ``results/gpu_unseen.json``, ``.md`` and ``.svg``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from typing import Any

import ml_dtypes
import numpy as np

from benchmarks import gpu_unseen_attention as attention
from benchmarks import gpu_unseen_fresh as fresh
from benchmarks import gpu_unseen_fresh_rows as fresh_rows
from benchmarks import gpu_unseen_models as models
from benchmarks import gpu_unseen_more as more
from benchmarks import gpu_unseen_moves as moves
from benchmarks import gpu_unseen_products as products
from benchmarks import gpu_unseen_rows as rows
from benchmarks.gpu_cases import Case, strides_of
from benchmarks.gpu_code import counted, rows_of
from benchmarks.gpu_compilers import SIMULATE_LIMIT, TARGETS, in_process, simulate
from benchmarks.gpu_references import DTYPES, name_of
from benchmarks.gpu_report import pairs, ratio, record_rows, recorded_rows, show
from benchmarks.report import RESULTS

JSON_FILE = RESULTS / "gpu_unseen.json"
Row = dict[str, Any]
Array = np.ndarray[Any, Any]

_DTYPES = dict(DTYPES) | {
    "float64": np.float64,
    "int64": np.int64,
    "uint8": np.uint8,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
#: The largest error in the norm of an array, relative to it, by its type: two ways of summing up, of which each rounds
#: factors on the way to f16 or bf16.
BOUNDS = {
    "float64": 1e-12,
    "float32": 2e-3,
    "float16": 4e-3,
    "bfloat16": 2e-2,
    "int8": 1e-2,
    "float8_e4m3fn": 8e-2,
    "float8_e5m2": 1.5e-1,
}
#: Of results that are sums in the type itself: either side rounds a square, two sums, and eight steps of a sum of 256,
#: each time by 2**-9 at most.
_ROUNDED = {("norms_of_rows", "bfloat16"): 2 * 11 * 2**-9}
#: CPU seconds that the model may take for a launch: loops on data, taken at their word, may not end.
MODEL_LIMIT = 60.0
#: Slower than tileiras, and more seconds of compilation than it takes, beyond which a row is worth a look.
SLOWER, COMPILE_RATIO, COMPILE_SECONDS = 1.1, 2.0, 10.0


def cases() -> tuple[Case, ...]:
    """All of them, in the order of the table."""
    return (
        *attention.cases(),
        *products.cases(),
        *rows.cases(),
        *moves.cases(),
        *more.cases(),
        *models.cases(),
        *fresh.cases(),
        *fresh_rows.cases(),
    )


#: Contents of arrays that cannot be arbitrary, by function and number of the array: from extents and a generator.
_CONTENTS: Mapping[tuple[str, int], Callable[[Any, np.random.Generator], Array]] = {
    ("paged", 4): lambda e, rng: rng.integers(70, 200, e),
    ("ragged", 3): lambda e, rng: np.linspace(0, 100, e[0]),
    ("masked", 3): lambda e, rng: rng.integers(0, 2, e),
    ("linear_attention", 3): lambda e, rng: -0.1 * rng.random(e),
    ("table_weights", 1): lambda e, rng: rng.integers(0, 16, e),
    ("experts", 2): lambda e, rng: rng.permutation(e[0]),
    ("adam", 4): lambda e, rng: rng.random(e),
    ("state_space", 1): lambda e, rng: 0.1 * rng.random(e),
    ("state_space", 2): lambda e, rng: -rng.random(e),
    ("count_bytes", 0): lambda e, rng: rng.integers(0, 256, e),
    ("products_across", 0): lambda e, rng: 1 + 0.01 * rng.standard_normal(e),
    ("locked_split", 3): lambda e, rng: np.zeros(e),
    ("gathered_gate", 3): lambda e, rng: rng.permutation(e[0]),
    ("weighted_rows", 2): lambda e, rng: rng.permutation(math.prod(e)).reshape(e),
    ("table_gradient", 1): lambda e, rng: rng.permutation(e[0]),
    ("bins_by_places", 0): lambda e, rng: rng.random(e),
    ("all_gradients", 4): lambda e, rng: 3 + rng.random(e),
    ("sorted_rows", 0): lambda e, rng: rng.integers(-(1 << 31), 1 << 31, e),
    ("delta_rule", 1): lambda e, rng: 0.1 * rng.standard_normal(e),
    ("delta_rule", 3): lambda e, rng: 0.1 * rng.random(e),
}


def values_of(case: Case, seed: int) -> list[Any]:
    """The arguments of the entry for the small launch, drawn anew for each seed."""
    rng = np.random.default_rng(seed)
    values: list[Any] = []
    number = 0
    for argument in case.few:
        if isinstance(argument, float):
            values.append(np.float32(argument))
        elif len(argument) == 2:
            dtype, extents = argument
            kind = np.dtype(_DTYPES[name_of(dtype)])
            make = _CONTENTS.get((case.kernel._pyfunc.__name__, number))
            drawn = make(extents, rng) if make else _drawn(kind, extents, rng)
            values += [drawn.astype(kind), *extents, *strides_of(extents)]
            number += 1
    return values


def _drawn(kind: np.dtype[Any], extents: Any, rng: np.random.Generator) -> Array:
    if kind.itemsize == 1 and kind.kind in "iu":
        return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, extents)
    if kind.kind in "iu":
        # Places in arrays, which have 4 rows at least.
        return rng.integers(0, 4, extents)
    return rng.standard_normal(extents)


def reference(case: Case, bytecode: bytes, seed: int) -> list[Any]:
    """The arguments of the small launch after it on the reference machine."""

    def job() -> list[Any]:
        import tilewright
        from tilewright.machine import Program

        values = values_of(case, seed)
        Program(tilewright.read(bytecode)).launch(None, case.few_grid, values)
        return values

    return in_process(job, SIMULATE_LIMIT)


def difference(got: Array, wanted: Array) -> float:
    """The distance in the norm, relative to what is wanted; what is no number has to be the same."""
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    odd = ~np.isfinite(b)
    if not np.array_equal(a[odd], b[odd], equal_nan=True):
        return math.inf
    distance = float(np.linalg.norm(np.where(odd, 0, a) - np.where(odd, 0, b)))
    norm = float(np.linalg.norm(np.where(odd, 0, b)))
    return distance / norm if norm else distance


def judged(case: Case, bytecode: bytes, target: str, wanted: Sequence[Any], seed: int) -> Row:
    """What a small launch of our code counts, and ``wrong`` where it differs from the reference machine."""
    found = simulate(case, bytecode, target, values_of(case, seed))
    row = counted(found)
    if found.fallback:
        row["fallback"] = found.fallback
    if not found.values:
        return row
    worst, wrong = 0.0, ""
    for got, value in zip(found.values, wanted, strict=True):
        if isinstance(got, np.ndarray):
            error = difference(got, value)
            worst = max(worst, error)
            kind = got.dtype.name
            bound = _ROUNDED.get((case.kernel._pyfunc.__name__, kind), BOUNDS.get(kind, 0.0))
            if not error <= bound:
                wrong = f"{got.dtype.name} differs by {error:.2g}"
    return row | {"error": float(f"{worst:.2g}")} | ({"wrong": wrong} if wrong else {})


def findings(both: Sequence[Row]) -> Iterator[str]:
    """What is worth a look, of each kernel and target."""
    for mine, theirs in pairs(both):
        if mine is None:
            continue
        said = list(_findings_of(mine, theirs))
        if said:
            yield f"{mine['target']:8} {mine['kernel']}: {', '.join(said)}"


def _findings_of(mine: Mapping[str, Any], theirs: Mapping[str, Any] | None) -> Iterator[str]:
    if "failure" in mine:
        yield f"refused: {mine['failure']}"
        return
    simulated = mine["simulated"]
    yield from (f"{key}: {simulated[key]}" for key in _SAID if simulated.get(key))
    if mine["spills"]:
        yield f"{mine['spills']} spills"
    times = ratio((mine, theirs), "modelled_seconds")
    if times is not None and times > SLOWER:
        yield f"{times:.2f} of tileiras' time, by {mine['bound_by']}"
    compiling = ratio((mine, theirs), "compile_seconds")
    if (compiling or 0) > COMPILE_RATIO or mine["compile_seconds"] > COMPILE_SECONDS:
        yield f"compiles in {mine['compile_seconds']:.2f} s" + (
            f", {compiling:.1f} of tileiras'" if compiling else ""
        )
    if "unmodelled" in mine:
        yield mine["unmodelled"]


_SAID = ("wrong", "failure", "fallback", "bank_conflicts")


def measure(
    patterns: Sequence[str],
    targets: Sequence[str],
    *,
    ours_only: bool = False,
    simulated: bool = True,
    record: bool = False,
    seed: int = 0,
) -> list[Row]:
    """All rows that are asked for; each is told and, with ``record``, recorded at once. Unless ``simulated``, what
    the simulator said comes from the record."""
    made: list[Row] = []
    before = {
        (row["kernel"], row["target"]): row.get("simulated", {})
        for row in recorded_rows(JSON_FILE)
        if row["compiler"] == "ours"
    }
    for case in cases():
        if patterns and not any(fnmatch(case.name, f"*{pattern}*") for pattern in patterns):
            continue
        bytecode = case.bytecode()
        try:
            wanted = reference(case, bytecode, seed) if simulated else []
        except (TimeoutError, RuntimeError) as error:
            sys.stderr.write(f"{case.name}: no reference: {error}\n")
            continue
        for target in targets:
            known = before.get((case.name, target), {})
            if simulated:
                known = judged(case, bytecode, target, wanted, seed)
            new = list(
                rows_of(case, target, ours_only=ours_only, runs=1, known=known, limit=MODEL_LIMIT)
            )
            for line in findings(new) if any(findings(new)) else [f"{target:8} {case.name}"]:
                sys.stderr.write(line + "\n")
            made += new
            if record:
                record_rows(new, JSON_FILE)
    return made


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.gpu_unseen", description=__doc__)
    parser.add_argument(
        "--kernels", nargs="*", default=[], metavar="PATTERN", help="parts of names"
    )
    parser.add_argument(
        "--targets", nargs="*", default=TARGETS, metavar="SM", help=", ".join(TARGETS)
    )
    parser.add_argument("--ours-only", action="store_true", help="leave tileiras out")
    parser.add_argument("--record", action="store_true", help="write the rows into the results")
    parser.add_argument(
        "--no-simulation", action="store_true", help="take what the simulator said from the record"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the inputs of small launches (0)")
    parser.add_argument("--findings", action="store_true", help="tell those of recorded rows")
    options = parser.parse_args(argv)
    if options.findings:
        print("\n".join(findings(recorded_rows(JSON_FILE))))
        return
    found = measure(
        options.kernels,
        options.targets,
        ours_only=options.ours_only,
        simulated=not options.no_simulation,
        record=options.record,
        seed=options.seed,
    )
    print(show(found))
    print("\n".join(findings(found)))


if __name__ == "__main__":
    main()
