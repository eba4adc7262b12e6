"""Statistics of tiles."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.machine.inspect import tile_stats


def test_of_floats() -> None:
    tile = np.array([[1.0, -0.0, np.nan], [np.inf, -np.inf, 4.0]], np.float32)
    stats = tile_stats(tile, bins=4)
    assert (stats.shape, stats.element, stats.count) == ((2, 3), "float32", 6)
    assert (stats.minimum, stats.maximum) == (-0.0, 4.0)
    assert stats.mean == pytest.approx(5 / 3)
    assert (stats.nans, stats.infinities, stats.zeros) == (1, 2, 1)
    assert stats.bin_edges == (0, 1, 2, 3, 4)
    assert stats.bin_counts == (1, 1, 0, 1)
    assert str(stats) == "min -0, max 4, mean 1.66667, 1 zero, 1 NaN, 2 infinite"


def test_of_integers_and_bools() -> None:
    stats = tile_stats(np.array([2**63 - 1, -(2**63)], np.int64))
    assert (stats.minimum, stats.maximum) == (-(2**63), 2**63 - 1)
    assert stats.bin_counts == (1, 0, 0, 0, 0, 0, 0, 1)
    bits = tile_stats(np.array([True, False, True]))
    assert (bits.minimum, bits.maximum, bits.zeros) == (0, 1, 1)
    assert str(tile_stats(np.array([0, 0, 7]))) == "min 0, max 7, mean 2.33333, 2 zeros"


def test_without_finite_elements() -> None:
    stats = tile_stats(np.full(3, np.nan))
    assert (stats.minimum, stats.mean, stats.bin_edges, stats.bin_counts) == (None, None, (), ())
    assert str(stats) == "no finite element, 3 NaN"
    assert str(tile_stats(np.empty(0))) == "no element"


@pytest.mark.parametrize(
    ("tile", "element", "minimum", "maximum"),
    [
        (np.array([1.5, -2], ml_dtypes.bfloat16), "bf16", -2.0, 1.5),
        (np.array([0.5, 448], ml_dtypes.float8_e4m3fn), "", 0.5, 448.0),
        (np.array([6, -6], ml_dtypes.float4_e2m1fn), "f4E2M1FN", -6.0, 6.0),
        # The bit pattern of 1.0: exponent 15, and the next larger number.
        (np.array([15 << 3, (15 << 3) + 1], np.uint8), "f8E5M3FNU", 1.0, 1.125),
        (np.array([2**64 - 1, 0], np.uint64), "ptr", 0, 2**64 - 1),
    ],
)
def test_of_other_types(tile: np.ndarray, element: str, minimum: float, maximum: float) -> None:
    stats = tile_stats(tile, element=element)
    assert (stats.minimum, stats.maximum) == (minimum, maximum)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=30), st.integers(1, 12))
def test_histogram_counts_every_finite_element_once(values: list[float], bins: int) -> None:
    tile = np.array(values, np.float64)
    stats = tile_stats(tile, bins=bins)
    finite = sorted(v for v in values if np.isfinite(v))
    assert sum(stats.bin_counts) == len(finite)
    if not finite:
        return
    edges = stats.bin_edges
    assert edges[0] == finite[0] and edges[-1] == finite[-1]
    assert list(edges) == sorted(edges)
    for number, (low, high) in enumerate(itertools.pairwise(edges)):
        last = number == len(edges) - 2
        inside = [v for v in finite if low <= v < high or (last and v == high)]
        assert stats.bin_counts[number] == len(inside)


def test_a_histogram_needs_a_bin() -> None:
    with pytest.raises(ValueError, match="at least one bin"):
        tile_stats(np.zeros(1), bins=0)
