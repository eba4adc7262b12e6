"""Three matrix products: a block for each tile, a few blocks for all tiles, and split sums."""
# $ tilewright run examples/cutile/matrix_product.py

import cuda.tile as ct
import numpy as np

ZERO = ct.PaddingMode.ZERO
TM, TN, TK = 32, 32, 16


def tile_of_product(a, b, i, j, first, step):
    """The tile (i, j) of the product, summed over each ``step``-th tile from the ``first``."""
    total = ct.zeros((TM, TN), ct.float32)
    for k in range(first, ct.num_tiles(a, 1, (TM, TK)), step):
        x = ct.load(a, (i, k), (TM, TK), padding_mode=ZERO)
        y = ct.load(b, (k, j), (TK, TN), padding_mode=ZERO)
        total = ct.mma(x, y, total)
    return total


@ct.kernel
def plain(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(c, (i, j), tile_of_product(a, b, i, j, 0, 1).astype(c.dtype))


@ct.kernel
def persistent(a, b, c):
    across = ct.num_tiles(c, 1, (TM, TN))
    for tile in range(ct.bid(0), ct.num_tiles(c, 0, (TM, TN)) * across, ct.num_blocks(0)):
        i, j = tile // across, tile % across
        ct.store(c, (i, j), tile_of_product(a, b, i, j, 0, 1).astype(c.dtype))


@ct.kernel
def split_k(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    part = tile_of_product(a, b, i, j, ct.bid(2), ct.num_blocks(2))
    rows = i * TM + ct.arange(TM, dtype=ct.int32)
    columns = j * TN + ct.arange(TN, dtype=ct.int32)
    ct.atomic_add(c, (rows[:, None], columns[None, :]), part)


def main() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((100, 80), np.float32).astype(np.float16)
    b = rng.standard_normal((80, 72), np.float32).astype(np.float16)
    grid = ct.cdiv(100, TM), ct.cdiv(72, TN)
    results = [np.empty((100, 72), np.float16) for _ in range(2)]
    results.append(np.zeros((100, 72), np.float32))
    ct.launch(0, grid, plain, (a, b, results[0]))
    ct.launch(0, (5,), persistent, (a, b, results[1]))
    ct.launch(0, (*grid, 3), split_k, (a, b, results[2]))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    for c in results:
        np.testing.assert_allclose(c, expected, rtol=2e-3, atol=1e-4)
    print("matrix product (plain, persistent, split-K): OK")
    return results


if __name__ == "__main__":
    main()
