"""Random kernels, with loops and exits in every place, compute what the reference machine computes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cpu.codegen.support import load
from tests.passes.generator import OUT_WORDS, kernel
from tests.passes.test_properties import INPUTS

from tilewright import run
from tilewright.lowering import lower_to_tileaa
from tilewright.text import parse


def check_seed(seed: int) -> None:
    module = parse(kernel(seed), f"random_{seed}.tileir")
    loaded = load(lower_to_tileaa(module).module)  # pyright: ignore[reportArgumentType]
    for values in INPUTS:
        expected, found = (np.full(OUT_WORDS, -7, np.int32) for _ in range(2))
        run(module, "k", (1, 1, 1), (*values, expected))
        assert loaded.run((1,), [*values, found]) == 0
        assert found.tolist() == expected.tolist(), f"seed {seed}, inputs {values}"


@pytest.mark.rotates(2)
@pytest.mark.parametrize("seed", range(24))
def test_results_are_those_of_the_reference(seed: int) -> None:
    check_seed(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_many_results_are_those_of_the_reference(seed: int) -> None:
    check_seed(seed)
