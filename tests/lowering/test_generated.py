"""Random programs compute the same bits before and after the lowering, and after the passes on it.

Two generators: arithmetic and control flow with every kind of exit, and tiles with memory, views,
reductions, products and atomics in two tile blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.passes.generator import OUT_WORDS, kernel
from tests.passes.generator_tiles import COLUMNS, COUNTERS, ROWS, tile_kernel

from tilewright import run
from tilewright.lowering import lower_to_tileaa
from tilewright.passes import TilePass, parse_pipeline, run_pipeline
from tilewright.text import parse

#: Programs for each generator: in every run, and with --long.
USUAL, LONG = 100, 25_400
BATCH, LONG_BATCH = 25, 500
#: Of so many programs one goes through the passes, too; verifier and order guard watch each pass.
PASSES_EVERY = 8


def arithmetic_arguments(seed: int) -> tuple[tuple[int, int, int], list[Any]]:
    rng = np.random.default_rng(seed)
    x, y, z = (int(n) for n in rng.choice([0, 1, 3, 5, -3, 100, -(2**31), 2**31 - 1], 3))
    return (1, 1, 1), [x, y, z, bool(seed % 2), np.full(OUT_WORDS, -7, np.int32)]


def tile_arguments(seed: int) -> tuple[tuple[int, int, int], list[Any]]:
    rng = np.random.default_rng(seed)
    x, y, z = (int(n) for n in rng.integers(-50, 50, 3))
    arrays = [
        np.full(OUT_WORDS * 2, -7, np.int32),
        rng.standard_normal(ROWS * COLUMNS).astype(np.float32),
        np.zeros(2 * ROWS * COLUMNS, np.float32),
        np.zeros(COUNTERS, np.int32),
    ]
    return (2, 1, 1), [x, y, z, bool(seed % 2), *arrays, int(rng.integers(13, ROWS + 1))]


Arguments = Callable[[int], tuple[tuple[int, int, int], list[Any]]]
GENERATORS: dict[str, tuple[Callable[[int], str], Arguments]] = {
    "arithmetic": (kernel, arithmetic_arguments),
    "tiles": (tile_kernel, tile_arguments),
}


def outcome(module: Any, arguments: Arguments, seed: int) -> tuple[list[bytes], str]:
    """The bytes of all arrays after a run, and what was printed."""
    grid, values = arguments(seed)
    result = run(module, "k", grid, values)
    return [v.tobytes() for v in values if isinstance(v, np.ndarray)], result.text


def check_seed(name: str, seed: int) -> None:
    generate, arguments = GENERATORS[name]
    module = parse(generate(seed), f"{name}_{seed}.tileir")
    expected = outcome(module, arguments, seed)
    lowered = lower_to_tileaa(module).module
    assert outcome(lowered, arguments, seed) == expected, f"{name} {seed}, lowered"
    if seed % PASSES_EVERY == 0:
        check_passes(name, seed, lowered, expected)


def check_passes(name: str, seed: int, lowered: Any, expected: tuple[list[bytes], str]) -> None:
    """Results stay after one pass of the pipeline, another one for each seed, and after the last."""
    arguments = GENERATORS[name][1]
    passes = parse_pipeline("tileaa")
    chosen = passes[seed // PASSES_EVERY % len(passes)]

    def check(done: TilePass, module: Any) -> None:
        if done is chosen or done is passes[-1]:
            assert outcome(module, arguments, seed) == expected, f"{name} {seed}, after {done}"

    run_pipeline(lowered, passes, verify_each=True, after_pass=check)


@pytest.mark.parametrize("first", range(0, USUAL, BATCH))
@pytest.mark.parametrize("name", GENERATORS)
def test_results_stay(name: str, first: int) -> None:
    for seed in range(first, first + BATCH):
        check_seed(name, seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(USUAL, USUAL + LONG, LONG_BATCH))
@pytest.mark.parametrize("name", GENERATORS)
def test_results_stay_in_many_programs(name: str, first: int) -> None:
    for seed in range(first, first + LONG_BATCH):
        check_seed(name, seed)


def test_results_differ() -> None:
    """What is compared is not all the same."""
    for name, (generate, arguments) in GENERATORS.items():
        found = {str(outcome(parse(generate(seed)), arguments, seed)) for seed in range(8)}
        assert len(found) > 4, name


def test_programs_hold_what_they_promise() -> None:
    """The generators reach loops, branches, exits, views, reductions and atomics."""
    texts = "\n".join(tile_kernel(seed) for seed in range(60))
    for word in (
        "for ",
        "loop ",
        "if ",
        "break",
        "continue",
        "load_view_tko",
        "store_view_tko",
        "load_ptr_tko",
        "store_ptr_tko",
        "atomic_rmw_tko",
        "reduce",
        "scan",
        "mmaf",
        "dim_map",
        "print_tko",
    ):
        assert word in texts, word
