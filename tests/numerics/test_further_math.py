"""Bits of integers, counted by Python, in every width."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.numerics import further_math
from tilewright.numerics.arrays import dtype_of

_NUMBERS = (0, 1, 2, 3, 40, 63, 64, 100, 127, -1, -2, -64, -128)


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_counts_of_bits(width: int) -> None:
    element = f"i{width}"
    numbers = [*_NUMBERS, (1 << width - 1) - 1, -(1 << width - 1)]
    patterns = [number & ((1 << width) - 1) for number in numbers]
    source = np.array(numbers, dtype_of(element))
    texts = [f"{pattern:0{width}b}" for pattern in patterns]
    leading = [len(text) - len(text.lstrip("0")) for text in texts]
    trailing = [len(text) - len(text.rstrip("0")) for text in texts]
    assert further_math.ctlz(source, element).tolist() == leading
    assert further_math.cttz(source, element).tolist() == trailing
