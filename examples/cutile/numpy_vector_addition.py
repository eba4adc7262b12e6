"""Vector addition with NumPy alone: ``tilewright.cutile.launch`` needs neither torch nor a GPU."""
# $ python examples/cutile/numpy_vector_addition.py

import cuda.tile as ct
import numpy as np

from tilewright.cutile import launch

TILE = 256


@ct.kernel
def add(a, b, c):
    i = ct.bid(0)
    tile = ct.load(a, (i,), (TILE,)) + ct.load(b, (i,), (TILE,))
    ct.store(c, (i,), tile)


def main() -> list[np.ndarray]:
    a, b = np.random.default_rng(0).random((2, 1000), np.float32)
    c = np.empty_like(a)
    launch(0, (ct.cdiv(1000, TILE),), add, (a, b, c))
    np.testing.assert_array_equal(c, a + b)
    print("vector addition, NumPy: OK")
    return [c]


if __name__ == "__main__":
    main()
