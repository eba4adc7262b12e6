"""Widening by tables gives what converting gives, bit for bit."""

import numpy as np
import pytest

from tilewright.numerics.arrays import bits_of, dtype_of, from_bits
from tilewright.numerics.widening import as_f32, as_f64

NARROW = ("f16", "bf16", "f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN")
WIDE = {"f32": as_f32, "f64": as_f64}


def _all_values(element: str) -> np.ndarray:
    """Every bit pattern, often enough to be looked up."""
    count = 1 << 8 * dtype_of(element).itemsize
    return from_bits(np.resize(np.arange(count), max(count, 4096)).astype(np.uint32), element)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("element", NARROW)
def test_every_pattern(element, wide):
    values = _all_values(element)
    found = WIDE[wide](values)
    assert found.dtype == dtype_of(wide)
    expected = values.astype(dtype_of(wide))
    assert np.array_equal(bits_of(found, wide), bits_of(expected, wide))
    # Few elements are converted, not looked up.
    few = WIDE[wide](values[-8:])
    assert np.array_equal(bits_of(few, wide), bits_of(expected[-8:], wide))


@pytest.mark.parametrize("element", NARROW)
def test_shapes_and_strides(element):
    values = _all_values(element)[:4096].reshape(4, 16, 64)
    for view in (values.transpose(2, 0, 1), values[:, ::2, ::-1], values[:0]):
        found = as_f32(view)
        assert found.shape == view.shape
        assert np.array_equal(
            bits_of(found, "f32"),
            bits_of(np.array([as_f32(v) for v in view.flat]), "f32").reshape(view.shape),
        )
    assert as_f32(values[0, 0, 0]).shape == ()


def test_wide_arrays_stay():
    for element, wide in WIDE.items():
        array = np.ones(1000, dtype_of(element))
        assert wide(array) is array
    assert as_f64(np.ones(3, np.float32)).dtype == np.float64
