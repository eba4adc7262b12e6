"""The reciprocal root of f32 is rounded correctly, whatever the processor estimates."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cpu.mathlib.driver import native

from tilewright.cpu.mathlib import FUNCTIONS
from tilewright.cpu.target import HOST, cpu_target, missing_features

#: Vectors and processors that take different ways.
WAYS = [(16, HOST), (8, HOST), (8, "x86-64-v3"), (4, "x86-64-v3"), (1, HOST)]


@pytest.mark.parametrize(("lanes", "target"), WAYS)
def test_every_significand(lanes: int, target: str) -> None:
    if missing_features(cpu_target(target)):
        pytest.skip(f"this processor does not run code for {target}")
    function = native("rsqrt", 32, lanes, target)
    # From 1 to 4: all significands, for even and for odd exponents.
    for first in range(0x3F800000, 0x40800000, 1 << 20):
        x = np.arange(first, first + (1 << 20), dtype=np.uint32).view(np.float32)
        right = (1 / np.sqrt(x.astype(np.longdouble))).astype(np.float32)
        assert (function(x) == right).all()


@pytest.mark.parametrize(("lanes", "target"), WAYS)
def test_every_exponent_and_the_ends(lanes: int, target: str) -> None:
    if missing_features(cpu_target(target)):
        pytest.skip(f"this processor does not run code for {target}")
    bits = np.arange(1 << 12, dtype=np.uint64) << 20
    x = np.concatenate([bits, bits + 1, bits + 0xFFFFF]).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        right = (1 / np.sqrt(x.astype(np.longdouble))).astype(np.float32)
    found = native("rsqrt", 32, lanes, target)(x)
    same = (found.view(np.uint32) == right.view(np.uint32)) | (np.isnan(found) & np.isnan(right))
    assert same.all()


def test_the_bounds_are_those_of_a_power() -> None:
    """What lets ``constant-powers`` use it for the exponent -0.5."""
    assert FUNCTIONS["rsqrt"].bound32 <= FUNCTIONS["pow"].bound32
