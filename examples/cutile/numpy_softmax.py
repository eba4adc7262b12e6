"""Softmax of rows with NumPy alone."""
# $ python examples/cutile/numpy_softmax.py

import cuda.tile as ct
import numpy as np

from tilewright.cutile import launch


@ct.kernel
def softmax(x, y, width: ct.Constant[int]):
    row = ct.bid(0)
    tile = ct.load(x, (row, 0), (1, width), padding_mode=ct.PaddingMode.NEG_INF)
    power = ct.exp(tile - ct.max(tile, 1, keepdims=True))
    ct.store(y, (row, 0), power / ct.sum(power, 1, keepdims=True))


def main() -> list[np.ndarray]:
    x = np.random.default_rng(0).standard_normal((12, 100), np.float32)
    y = np.empty_like(x)
    launch(0, (x.shape[0],), softmax, (x, y, 128))
    power = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, power / power.sum(1, keepdims=True), rtol=2e-6)
    print("softmax, NumPy: OK")
    return [y]


if __name__ == "__main__":
    main()
