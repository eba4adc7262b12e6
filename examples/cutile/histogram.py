"""A histogram: each block counts for itself and adds its counts to the shared ones at once."""
# $ tilewright run examples/cutile/histogram.py

import cuda.tile as ct
import numpy as np

TILE, BINS = 128, 16


@ct.kernel
def histogram(x, counts):
    lane = ct.arange(BINS, dtype=ct.int32)
    own = ct.zeros((BINS,), ct.int32)
    for i in range(ct.bid(0), ct.num_tiles(x, 0, (TILE,)), ct.num_blocks(0)):
        tile = ct.load(x, (i,), (TILE,), padding_mode=ct.PaddingMode.NEG_INF)
        # Numbers from 0 to 1; those of the padding are in no bin.
        bins = ct.floor(tile * BINS)
        own += ct.sum((bins[:, None] == lane[None, :].astype(ct.float32)).astype(ct.int32), 0)
    ct.atomic_add(counts, lane, own)


def main() -> list[np.ndarray]:
    x = np.random.default_rng(0).random(3000, np.float32) ** 2
    counts = np.zeros(BINS, np.int32)
    ct.launch(0, (5,), histogram, (x, counts))
    expected, _ = np.histogram(x, BINS, (0, 1))
    np.testing.assert_array_equal(counts, expected)
    print("histogram: OK")
    return [counts]


if __name__ == "__main__":
    main()
