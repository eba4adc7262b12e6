"""The blocks that stand for a grid."""

from __future__ import annotations

import math

import pytest

from tilewright.model.sampling import samples


@pytest.mark.parametrize(
    "grid",
    [(1, 1, 1), (2, 1, 1), (7, 1, 1), (4096, 1, 1), (64, 64, 1), (3, 5, 1), (9, 4, 7), (1, 1, 50)],
)
def test_samples_stand_for_all_blocks(grid: tuple[int, int, int]) -> None:
    found = samples(grid)
    assert sum(found.values()) == pytest.approx(math.prod(grid))
    assert all(0 <= n < extent for place in found for n, extent in zip(place, grid, strict=True))
    assert len(found) <= 12
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert tuple(extent - 1 for extent in grid) in found


@pytest.mark.parametrize("extent", [3, 5, 16, 100, 257])
def test_what_grows_evenly_along_an_axis_comes_out_right(extent: int) -> None:
    """As the turns of causal attention do."""
    found = samples((extent, 1, 1))
    mean = sum(place[0] * weight for place, weight in found.items()) / extent
    assert mean == pytest.approx((extent - 1) / 2, abs=0.5)
