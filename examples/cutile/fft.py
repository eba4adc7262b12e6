"""Fourier transforms of 256 points as two products with matrices of 16 by 16."""
# $ tilewright run examples/cutile/fft.py
#
# With n = 16 a + b and k = c + 16 d, the transform is a transform over a, a turn of each element by
# its own angle, and a transform over b.

import math

import cuda.tile as ct
import numpy as np

SIDE = 16
POINTS = SIDE * SIDE


def roots(period):
    """The matrix of exp(-2 pi i a b / period) for a and b below 16, its real and imaginary part."""
    lane = ct.arange(SIDE, dtype=ct.int32)
    # Whole turns are taken off while they are integers: angles stay small and exact.
    step = lane[:, None] * lane[None, :] % period
    angle = step.astype(ct.float32) * (-2 * math.pi / period)
    return ct.cos(angle), ct.sin(angle)


def product(x, y):
    """The product of two matrices of complex numbers."""
    (a, b), (c, d) = x, y
    return ct.matmul(a, c) - ct.matmul(b, d), ct.matmul(a, d) + ct.matmul(b, c)


@ct.kernel
def transform(real, imaginary, out_real, out_imaginary):
    row = ct.bid(0)
    re = ct.load(real, (row, 0), (1, POINTS)).reshape((SIDE, SIDE))
    im = ct.load(imaginary, (row, 0), (1, POINTS)).reshape((SIDE, SIDE))
    matrix = roots(SIDE)
    re, im = product(matrix, (re, im))
    turn_re, turn_im = roots(POINTS)
    re, im = re * turn_re - im * turn_im, re * turn_im + im * turn_re
    re, im = product((re, im), matrix)
    ct.store(out_real, (row, 0), re.transpose().reshape((1, POINTS)))
    ct.store(out_imaginary, (row, 0), im.transpose().reshape((1, POINTS)))


def main() -> list[np.ndarray]:
    real, imaginary = np.random.default_rng(0).standard_normal((2, 6, POINTS), np.float32)
    out = np.empty((2, 6, POINTS), np.float32)
    ct.launch(0, (6,), transform, (real, imaginary, out[0], out[1]))
    expected = np.fft.fft(real + 1j * imaginary)
    # The error is that of sums of 256 magnitudes of about 1, however small the result is.
    np.testing.assert_allclose(out[0], expected.real, rtol=1e-5, atol=5e-5)
    np.testing.assert_allclose(out[1], expected.imag, rtol=1e-5, atol=5e-5)
    print("FFT: OK")
    return [out]


if __name__ == "__main__":
    main()
