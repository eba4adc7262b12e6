"""Prefix sums of a long vector in three launches: sums of tiles, their prefix sums, the rest."""
# $ tilewright run examples/cutile/prefix_sum.py

import cuda.tile as ct
import numpy as np

TILE = 128
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def sum_tiles(x, sums):
    i = ct.bid(0)
    ct.store(sums, (i,), ct.sum(ct.load(x, (i,), (TILE,), padding_mode=ZERO)))


@ct.kernel
def scan_sums(sums):
    tile = ct.load(sums, (0,), (TILE,), padding_mode=ZERO)
    ct.store(sums, (0,), ct.cumsum(tile))


@ct.kernel
def scan_tiles(x, sums, y):
    i = ct.bid(0)
    before = ct.gather(sums, i - 1)  # 0 before the first
    tile = ct.load(x, (i,), (TILE,), padding_mode=ZERO)
    ct.store(y, (i,), ct.cumsum(tile) + before)


def main() -> list[np.ndarray]:
    x = np.random.default_rng(0).integers(-100, 100, 3000)
    tiles = ct.cdiv(3000, TILE)
    sums, y = np.empty(tiles, x.dtype), np.empty_like(x)
    ct.launch(0, (tiles,), sum_tiles, (x, sums))
    ct.launch(0, (1,), scan_sums, (sums,))
    ct.launch(0, (tiles,), scan_tiles, (x, sums, y))
    np.testing.assert_array_equal(y, x.cumsum())
    print("prefix sum: OK")
    return [y]


if __name__ == "__main__":
    main()
