"""Random programs compute the same on the reference machine and as threads on the simulator.

Integer arrays and what is printed are the same; products of floats are added in another order. One of
four is lowered without a schedule.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.lowering.test_generated import GENERATORS

from tilewright import LaunchOptions, run
from tilewright.machine import Arithmetic
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

pytestmark = pytest.mark.usefixtures("verified_threads")

#: Programs of each generator: in every run, and with --long.
USUAL, LONG = 20, 1000
BATCH = 10


def _check(name: str, seed: int) -> None:
    generate, arguments = GENERATORS[name]
    module = parse(generate(seed), f"{name}_{seed}.tileir")
    grid, expected = arguments(seed)
    text = run(
        module, "k", grid, expected, options=LaunchOptions(arithmetic=Arithmetic(reductions="tree"))
    ).text
    _, found = arguments(seed)
    printed: list[str] = []
    # Another order of warps for each program.
    TileProgram(module, "sm_90a").launch(
        "k",
        grid,
        found,
        options=LaunchOptions(print_to=printed.append, seed=seed, optimization=int(seed % 4 != 0)),
    )
    assert "".join(printed) == text, f"{name} {seed}"
    for wanted, got in zip(expected, found, strict=True):
        if isinstance(wanted, np.ndarray):
            bound = 1e-5 if wanted.dtype.kind == "f" else 0
            np.testing.assert_allclose(
                got, wanted, rtol=bound, atol=bound, err_msg=f"{name} {seed}"
            )


@pytest.mark.parametrize("first", range(0, USUAL, BATCH))
@pytest.mark.parametrize("name", GENERATORS)
def test_results_agree(name: str, first: int) -> None:
    for seed in range(first, first + BATCH):
        _check(name, seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(USUAL, USUAL + LONG, BATCH))
@pytest.mark.parametrize("name", GENERATORS)
def test_results_agree_in_many_programs(name: str, first: int) -> None:
    for seed in range(first, first + BATCH):
        _check(name, seed)
