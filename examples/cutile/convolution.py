"""Convolution of images as a sum of matrix products, one for each place of the filter."""
# $ tilewright run examples/cutile/convolution.py
#
# Pixels beyond the border count as 0: a gather gives that for indices outside of the array.

import cuda.tile as ct
import numpy as np

PIXELS = 16


@ct.kernel
def convolve(image, filters, out, inputs: ct.Constant[int], outputs: ct.Constant[int]):
    """``image`` (n, height, width, inputs), ``filters`` (rows, columns, inputs, outputs)."""
    n, row, start = ct.bid(0), ct.bid(1), ct.bid(2)
    columns = start * PIXELS + ct.arange(PIXELS, dtype=ct.int32)
    channels = ct.arange(inputs, dtype=ct.int32)
    total = ct.zeros((PIXELS, outputs), ct.float32)
    height, width = filters.shape[0], filters.shape[1]
    for i in range(height):
        for j in range(width):
            place = (n, row + i - height // 2, columns[:, None] + j - width // 2, channels[None, :])
            pixels = ct.gather(image, place)
            weights = ct.load(filters, (i, j, 0, 0), (1, 1, inputs, outputs))
            total = ct.mma(pixels, weights.reshape((inputs, outputs)), total)
    ct.store(out, (n, row, start, 0), total.reshape((1, 1, PIXELS, outputs)))


def main() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    image = rng.standard_normal((2, 6, 20, 8), np.float32)
    filters = rng.standard_normal((3, 5, 8, 16), np.float32)
    out = np.empty((2, 6, 20, 16), np.float32)
    ct.launch(0, (2, 6, ct.cdiv(20, PIXELS)), convolve, (image, filters, out, 8, 16))
    padded = np.pad(image.astype(np.float64), ((0, 0), (1, 1), (2, 2), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 5), (1, 2))
    expected = np.einsum("nhwcij,ijco->nhwo", windows, filters)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    print("convolution: OK")
    return [out]


if __name__ == "__main__":
    main()
