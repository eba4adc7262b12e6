"""Negative float64 identities, whose sign cuTile 1.7 writes where no reader finds it."""

from __future__ import annotations

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from tilewright.cutile import launch, on  # noqa: E402


@ct.kernel
def largest(x, values, places):
    tile = ct.load(x, (0, 0), (4, 8))
    ct.store(values, (0,), ct.max(tile, 1))
    ct.store(places, (0,), ct.argmax(tile, 1))


@ct.kernel
def smallest(x, values, places):
    tile = ct.load(x, (0, 0), (4, 8))
    ct.store(values, (0,), ct.min(tile, 1))
    ct.store(places, (0,), ct.argmin(tile, 1))


def larger(a, b):
    return ct.maximum(a, b)


@ct.kernel
def own(x, values, sums):
    tile = ct.load(x, (0, 0), (4, 8))
    ct.store(values, (0,), ct.reduce(tile, 1, larger, -1e300))
    ct.store(sums, (0, 0), ct.scan(tile, 1, larger, -1e300))


@pytest.mark.parametrize("machine", ["reference", "cpu"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint64])
def test_extrema_of_wide_numbers(machine: str, dtype: type) -> None:
    rng = np.random.default_rng(0)
    x = rng.permutation(32).reshape(4, 8).astype(dtype)
    # Numbers of one sign, and of the upper half where there is none.
    x = x + dtype(2**63) if dtype is np.uint64 else x - dtype(1000)
    for kernel, extreme, place in (
        (largest, np.max, np.argmax),
        (smallest, np.min, np.argmin),
    ):
        values, places = np.zeros(4, dtype), np.zeros(4, np.int32)
        launch(0, (1,), kernel, (x, values, places), machine=machine)
        assert (values == extreme(x, axis=1)).all()
        assert (places == place(x, axis=1)).all()


@pytest.mark.parametrize("machine", ["reference", "cpu"])
def test_identities_of_the_program(machine: str) -> None:
    x = -1.0 - np.random.default_rng(0).permutation(32).reshape(4, 8)
    values, highest = np.zeros(4), np.zeros((4, 8))
    launch(0, (1,), own, (x, values, highest), machine=machine)
    assert (values == x.max(axis=1)).all()
    assert (highest == np.maximum.accumulate(x, axis=1)).all()


def test_the_sanitizer_has_nothing_to_say() -> None:
    values, places = np.zeros(4), np.zeros(4, np.int32)
    with on(sanitize=True):
        ct.launch(0, (1,), largest, (-np.ones((4, 8)), values, places))
    assert (values == -1).all()
