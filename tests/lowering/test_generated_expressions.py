"""Random expressions at hard values: the same bits after every pipeline and on every machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.every_machine import MACHINES
from tests.passes.generator_expressions import (
    expression_arguments,
    expression_kernel,
    same,
)

from tilewright import verify
from tilewright.machine import Program
from tilewright.passes.pipelines import run_pipeline
from tilewright.text import parse

PIPELINES = ("O1", "O2", "O3")
#: Pipelines on the reference machine, and machines, of which a program takes a few in rotation.
LEGS = (*PIPELINES, *(name for name in MACHINES if name not in ("reference", "cpu-generic")))
PROGRAMS, LONG_PROGRAMS = 40, 2000


def legs_of(seed: int, count: int) -> list[str]:
    return [LEGS[(seed * count + n) % len(LEGS)] for n in range(count)]


def _run(leg: str, module: Any, grid: tuple[int, int, int], arguments: list[Any]) -> None:
    if leg in PIPELINES:
        run_pipeline(module, leg)
        leg = "reference"
    MACHINES[leg](module, grid, arguments)


def check_seed(seed: int, legs: list[str]) -> None:
    module = parse(expression_kernel(seed), f"expressions_{seed}.tileir")
    verify(module)
    grid, expected = expression_arguments(seed)
    Program(module).launch("k", grid, expected)
    for leg in legs:
        _, found = expression_arguments(seed)
        _run(leg, module.clone() if leg in PIPELINES else module, grid, found)
        assert same(expected, found), f"{seed} {leg}"


@pytest.mark.rotates(2)
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_bits_stay(seed: int) -> None:
    check_seed(seed, legs_of(seed, 3))


@pytest.mark.long
@pytest.mark.parametrize("first", range(PROGRAMS, PROGRAMS + LONG_PROGRAMS, 100))
def test_bits_stay_in_many_programs(first: int) -> None:
    for seed in range(first, first + 100):
        check_seed(seed, list(LEGS))


def test_programs_reach_what_they_are_for() -> None:
    texts = "\n".join(expression_kernel(seed) for seed in range(60))
    for word in (
        "divi",
        "remi",
        "mulhii",
        "shri",
        "fma",
        "maxf",
        "select",
        "bitcast",
        "saturating",
        "f8E5M2",
        "tf32",
    ):
        assert word in texts, word
    found = [arrays for seed in range(4) for arrays in expression_arguments(seed)[1][:8]]
    assert any(np.isnan(array).any() for array in found if array.dtype.kind == "f")
