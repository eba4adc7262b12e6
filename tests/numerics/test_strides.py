"""Strides of dense arrays are those that NumPy has."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.numerics.strides import row_major


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (4, 1, 7), (1, 1), (3, 2, 5, 4)])
def test_as_numpy_has_them(shape: tuple[int, ...]) -> None:
    strides = np.empty(shape, np.int8).strides
    assert row_major(shape) == strides
    assert row_major(list(shape)) == strides


def test_an_extent_of_zero() -> None:
    assert row_major((3, 0, 2)) == (0, 2, 1)
