"""The Hopper product of the dialect's tests runs, and the mistakes in its twins are found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.dialects.nvgpu.programs import BROKEN_HOPPER, HOPPER

from tilewright import LaunchOptions
from tilewright.simulator import Program, SimulationResult

SEEDS = range(4)


def _run(text: str, seed: int, d: Any) -> SimulationResult:
    a, b = _operands()
    return Program.parse(text).launch(
        None, 1, [a, b, d, 2], options=LaunchOptions(block=256, strict=False, seed=seed)
    )


def _operands() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 9, (64, 64)).astype(np.float16) for _ in range(2))
    return a, b


@pytest.mark.parametrize("seed", SEEDS)
def test_the_product_is_right(seed: int) -> None:
    """The tiles are multiplied once for each step; B is read as it lies."""
    d = np.zeros((64, 64), np.float32)
    result = _run(HOPPER, seed, d)
    assert not result.diagnostics, [f.brief() for f in result.diagnostics]
    a, b = _operands()
    assert (d == 2 * (a.astype(np.float32) @ b.astype(np.float32))).all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", BROKEN_HOPPER)
def test_the_mistake_is_found(name: str, seed: int) -> None:
    text, codes = BROKEN_HOPPER[name]
    assert text != HOPPER
    found = _run(text, seed, np.zeros((64, 64), np.float32)).diagnostics
    assert found and {finding.code for finding in found} <= codes
