"""The largest elements of each row and their places, one after the other."""
# $ tilewright run examples/cutile/top_k.py

import math

import cuda.tile as ct
import numpy as np

K = 8


@ct.kernel
def top_k(x, values, places, width: ct.Constant[int]):
    row = ct.bid(0)
    tile = ct.load(x, (row, 0), (1, width), padding_mode=ct.PaddingMode.NEG_INF)
    lane = ct.arange(width, dtype=ct.int32)[None, :]
    for i in range(K):
        at = ct.argmax(tile, 1, keepdims=True)
        ct.store(values, (row, i), ct.max(tile, 1, keepdims=True))
        ct.store(places, (row, i), at)
        tile = ct.where(lane == at, -math.inf, tile)


def main() -> list[np.ndarray]:
    x = np.random.default_rng(0).standard_normal((6, 100), np.float32)
    values, places = np.empty((6, K), np.float32), np.empty((6, K), np.int32)
    ct.launch(0, (6,), top_k, (x, values, places, 128))
    expected = np.argsort(-x, 1, kind="stable")[:, :K]
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, 1))
    print("top-k: OK")
    return [values, places]


if __name__ == "__main__":
    main()
