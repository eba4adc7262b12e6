"""Convolution of images as a sum of matrix products, one for each place of the filter.

Pixels beyond the border count as 0: a gather gives that for indices outside of the array.
"""

import cuda.tile as ct
import torch

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


def main() -> list[torch.Tensor]:
    torch.manual_seed(0)
    image = torch.randn(2, 6, 20, 8, device="cuda")
    filters = torch.randn(3, 5, 8, 16, device="cuda")
    out = torch.empty(2, 6, 20, 16, device="cuda")
    grid = 2, 6, ct.cdiv(20, PIXELS)
    ct.launch(torch.cuda.current_stream(), grid, convolve, (image, filters, out, 8, 16))
    expected = torch.nn.functional.conv2d(
        image.permute(0, 3, 1, 2), filters.permute(3, 2, 0, 1), padding="same"
    )
    torch.testing.assert_close(out, expected.permute(0, 2, 3, 1), rtol=1e-5, atol=1e-5)
    print("convolution: OK")
    return [out]


if __name__ == "__main__":
    main()
