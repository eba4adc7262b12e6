"""Many matrix products in one launch: a batch of one shape, and a group of different shapes."""
# $ tilewright run examples/cutile/matrix_product_groups.py

import cuda.tile as ct
import numpy as np
from ml_dtypes import bfloat16

ZERO = ct.PaddingMode.ZERO
TM, TN, TK = 16, 16, 16


@ct.kernel
def batched(a, b, c):
    n, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((1, TM, TN), ct.float32)
    for k in range(ct.num_tiles(a, 2, (1, TM, TK))):
        x = ct.load(a, (n, i, k), (1, TM, TK), padding_mode=ZERO)
        y = ct.load(b, (n, k, j), (1, TK, TN), padding_mode=ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, (n, i, j), total.astype(c.dtype))


@ct.kernel
def grouped(xs, ys, outs):
    blocks = ct.num_blocks(0)
    start = 0
    for group in range(len(xs)):
        x, y, out = xs[group], ys[group], outs[group]
        across = ct.num_tiles(out, 1, (TM, TN))
        count = ct.num_tiles(out, 0, (TM, TN)) * across
        # The tiles of all groups are dealt to the blocks in turn.
        for tile in range((ct.bid(0) - start) % blocks, count, blocks):
            i, j = tile // across, tile % across
            total = ct.zeros((TM, TN), ct.float32)
            for k in range(ct.num_tiles(x, 1, (TM, TK))):
                left = ct.load(x, (i, k), (TM, TK), padding_mode=ZERO)
                right = ct.load(y, (k, j), (TK, TN), padding_mode=ZERO)
                total = ct.mma(left, right, total)
            ct.store(out, (i, j), total.astype(out.dtype))
        start += count


def main() -> list[np.ndarray]:
    rng = np.random.default_rng(0)

    def normal(dtype: type, *shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32).astype(dtype)

    a, b = normal(bfloat16, 3, 40, 24), normal(bfloat16, 3, 24, 20)
    c = np.empty((3, 40, 20), bfloat16)
    ct.launch(0, (3, ct.cdiv(40, TM), ct.cdiv(20, TN)), batched, (a, b, c))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c.astype(np.float64), expected, rtol=2**-8, atol=1e-5)

    shapes = [(40, 24, 20), (8, 50, 33), (16, 16, 16)]
    xs = [normal(np.float16, m, k) for m, k, _ in shapes]
    ys = [normal(np.float16, k, n) for _, k, n in shapes]
    outs = [np.empty((m, n), np.float16) for m, _, n in shapes]
    ct.launch(0, (4,), grouped, (xs, ys, outs))
    for x, y, out in zip(xs, ys, outs, strict=True):
        expected = x.astype(np.float64) @ y.astype(np.float64)
        np.testing.assert_allclose(out, expected, rtol=2e-3, atol=1e-4)
    print("matrix product (batched, grouped): OK")
    return [c, *outs]


if __name__ == "__main__":
    main()
