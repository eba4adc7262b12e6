"""Volume: the machines and readers under more than a suite has time for.

    python -m tests.volume PART [--seconds N] [--first SEED]

Parts are the functions of ``PARTS``. Each takes as many seeds as fit into the seconds of processor time,
and prints as JSON what it did; a failure names its seed and goes on. Results are recorded in
``benchmarks/results/volume.md``.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tests.bytecode import test_fuzz
from tests.cpu.codegen import test_checked_random
from tests.every_machine import MACHINES
from tests.lowering.test_generated import GENERATORS
from tests.text import test_mutations

from tilewright.cpu import Program
from tilewright.diagnostics import TileIRError
from tilewright.machine import Program as Reference
from tilewright.passes.pipelines import run_pipeline
from tilewright.text import parse

Counts = dict[str, int]
LEVELS = ("O0", "O1", "O2", "O3")


def _agree(expected: list[Any], found: list[Any], seed: str) -> None:
    """Integers are the same; floats within what another order of a few sums may change."""
    for wanted, got in zip(expected, found, strict=True):
        if isinstance(wanted, np.ndarray):
            bound = 1e-5 if wanted.dtype.kind == "f" else 0
            np.testing.assert_allclose(got, wanted, rtol=bound, atol=bound, err_msg=seed)


def programs(seed: int, counts: Counts) -> None:
    """A random program on every machine, and after every pipeline on the reference machine."""
    for name, (generate, arguments) in GENERATORS.items():
        text = generate(seed)
        grid, expected = arguments(seed)
        Reference(parse(text)).launch("k", grid, expected)
        for level in LEVELS:
            module = parse(text)
            run_pipeline(module, level)
            _, found = arguments(seed)
            Reference(module).launch("k", grid, found)
            _agree(expected, found, f"{name} {seed} {level}")
            counts["runs"] = counts.get("runs", 0) + 1
        extents = tuple([*([grid] if isinstance(grid, int) else grid), 1, 1][:3])
        for machine, launch in MACHINES.items():
            _, found = arguments(seed)
            launch(parse(text), extents, found)  # pyright: ignore[reportArgumentType]
            _agree(expected, found, f"{name} {seed} {machine}")
            counts["runs"] = counts.get("runs", 0) + 1


def bytecode(seed: int, counts: Counts) -> None:
    """100 mutations of a bytecode file."""
    rng, files = random.Random(seed), test_fuzz.seeds()
    for _ in range(100):
        accepted = test_fuzz.check(test_fuzz.mutate(rng.choice(files)[1], rng))
        kind = "accepted" if accepted else "refused"
        counts[kind] = counts.get(kind, 0) + 1


def texts(seed: int, counts: Counts) -> None:
    """100 damaged texts."""
    rng, sources = random.Random(seed), test_mutations.sources()
    for _ in range(100):
        text = rng.choice(sources)
        text = test_mutations.damage(text, test_mutations.token_spans(text), rng) or "}"
        kind = "accepted"
        try:
            parse(text, allow_unregistered=rng.random() < 0.5)
        except TileIRError as error:
            assert error.diagnostics
            kind = "refused"
        counts[kind] = counts.get(kind, 0) + 1


def checked(seed: int, counts: Counts) -> None:
    """A random kernel with checks against the reference machine."""
    ran, refused = test_checked_random.compare(seed)
    counts["ran"] = counts.get("ran", 0) + ran
    counts["refused"] = counts.get("refused", 0) + refused


def kernels(seed: int, counts: Counts) -> None:
    """A kernel that no other seed has, launched ten times on the CPU."""
    text = f"""cuda_tile.module @m {{ entry @k(%x: tile<ptr<i32>>) {{
      %c = constant <i32: {seed}> : tile<i32>
      %u = store_ptr_tko weak %x, %c : tile<ptr<i32>>, tile<i32> -> token
      return }} }}"""
    program = Program(parse(text))
    for _ in range(10):
        x = np.zeros(1, np.int32)
        program.launch("k", 1, [x])
        assert x[0] == seed
        counts["launches"] = counts.get("launches", 0) + 1
    if seed % 50 == 0:
        gc.collect()
    counts["peak_kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


PARTS: dict[str, Callable[[int, Counts], None]] = {
    part.__name__: part for part in (programs, bytecode, texts, checked, kernels)
}


def _seeds(first: int, seconds: float) -> Iterator[int]:
    end = time.process_time() + seconds
    while time.process_time() < end:
        yield first
        first += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    counts: Counts = {"seeds": 0, "failures": 0}
    start = time.process_time()
    for seed in _seeds(options.first, options.seconds):
        counts["seeds"] += 1
        try:
            PARTS[options.part](seed, counts)
        except (AssertionError, TileIRError) as error:
            counts["failures"] += 1
            print(f"seed {seed}: {str(error)[:2000]}", file=sys.stderr)
    used = round(time.process_time() - start)
    print(json.dumps({"part": options.part, "first": options.first, "cpu_s": used, **counts}))
    return int(counts["failures"] > 0)


if __name__ == "__main__":
    sys.exit(main())
