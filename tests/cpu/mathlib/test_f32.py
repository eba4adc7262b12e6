"""f32 functions against float64, over every range of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cpu.mathlib.driver import REFERENCES, errors32, native, spread32

from tilewright.cpu.mathlib import FUNCTIONS
from tilewright.cpu.target import HOST, cpu_target, missing_features

ONE = [name for name, about in FUNCTIONS.items() if about.operands == 1]
TWO = [name for name, about in FUNCTIONS.items() if about.operands == 2]

EDGES = np.array(
    [
        *(0, np.inf, np.nan, 1, 2, 0.5, 3, 1.5, 1e-45, 1e-38, 3.4e38, 88.7, 89.5, 103.9, 104.5),
        *(126.9, 128, 149, 150, 151, 1e10, 16777215, 16777216, 32767.9, 32768, 2.0**30),
    ],
    np.float32,
)
SIGNED_EDGES = np.concatenate([EDGES, -EDGES])


def reference(name: str, *arrays: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return REFERENCES[name](*(a.astype(np.float64) for a in arrays))


def check(name: str, arrays: tuple[np.ndarray, ...], lanes: int = 16, target: str = HOST) -> None:
    found = errors32(native(name, 32, lanes, target)(*arrays), reference(name, *arrays))
    worst = int(np.argmax(found))
    at = [float(a[worst]) for a in arrays]
    assert found[worst] < FUNCTIONS[name].bound32, f"{name}{at}: {found[worst]} ulp"


@pytest.mark.parametrize("name", ONE)
def test_whole_range(name: str) -> None:
    check(name, (np.concatenate([SIGNED_EDGES, spread32(1 << 20, 1)]),))


@pytest.mark.parametrize("name", ONE)
def test_usual_arguments(name: str) -> None:
    generator = np.random.default_rng(2)
    sizes = generator.uniform(-10, 10, 1 << 20).astype(np.float32)
    check(name, (sizes,))


@pytest.mark.parametrize("name", ONE)
def test_every_f16(name: str) -> None:
    halves = np.arange(1 << 16).astype(np.uint16).view(np.float16)
    check(name, (halves.astype(np.float32),))


@pytest.mark.parametrize("name", TWO)
def test_pairs(name: str) -> None:
    generator = np.random.default_rng(3)
    count = 1 << 18
    edges = [a.ravel() for a in np.meshgrid(SIGNED_EDGES, SIGNED_EDGES)]
    spread = [generator.permutation(spread32(count, seed)) for seed in (4, 5)]
    near = [generator.normal(size=count) * 4, generator.normal(size=count) * 10]
    whole = [generator.integers(-40, 40, count), generator.integers(-30, 30, count)]
    first, second = (
        np.concatenate([part.astype(np.float32) for part in parts])
        for parts in zip(edges, spread, near, whole, strict=True)
    )
    check(name, (first, second))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_near_multiples_of_a_right_angle(name: str) -> None:
    whole = np.arange(1, 200_000, dtype=np.float64) * (np.pi / 2)
    check(name, (whole.astype(np.float32),))
    check(name, ((whole * 2.0**70).astype(np.float32),))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("lanes", [1, 2, 3, 7, 64])
def test_any_number_of_lanes_gives_the_same_bits(name: str, lanes: int) -> None:
    count = 4 * 64
    arrays = [
        np.concatenate([SIGNED_EDGES, spread32(count, seed)])
        for seed in range(FUNCTIONS[name].operands)
    ]
    usual, found = native(name, 32, 16)(*arrays), native(name, 32, lanes)(*arrays)
    np.testing.assert_array_equal(found, usual)
    np.testing.assert_array_equal(np.signbit(found)[found == 0], np.signbit(usual)[found == 0])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_generic_cpu(name: str) -> None:
    arrays = [
        np.concatenate([SIGNED_EDGES, spread32(1 << 10, seed)])
        for seed in range(FUNCTIONS[name].operands)
    ]
    check(name, tuple(arrays), lanes=4, target="generic")


@pytest.mark.skipif(not cpu_target().has("avx2"), reason="the CPU has no AVX2")
@pytest.mark.parametrize("name", ["exp", "sin", "pow"])
def test_avx2(name: str) -> None:
    arrays = [
        np.concatenate([SIGNED_EDGES, spread32(1 << 14, seed)])
        for seed in range(FUNCTIONS[name].operands)
    ]
    check(name, tuple(arrays), lanes=8, target="x86-64-v3")


LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4") if cpu_target().is_x86 else ()


@pytest.mark.parametrize("target", [t for t in LEVELS if not missing_features(cpu_target(t))])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_processor_gives_the_same_bits(name: str, target: str) -> None:
    arrays = [
        np.concatenate([SIGNED_EDGES, spread32(1 << 14, seed)])
        for seed in range(FUNCTIONS[name].operands)
    ]
    if name.startswith("exp"):
        # Where results are subnormal, and where they overflow.
        arrays[0] = np.concatenate(
            [arrays[0], np.linspace(-151, -80, 1 << 16), np.linspace(88, 129, 1 << 14)],
            dtype=np.float32,
        )
    usual, found = (native(name, 32, 16, t)(*arrays) for t in (HOST, target))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(usual))
    numbers = ~np.isnan(usual)
    np.testing.assert_array_equal(found.view(np.int32)[numbers], usual.view(np.int32)[numbers])
