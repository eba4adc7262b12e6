"""Numbers as truth values, of every element type: false where they are zero."""

from __future__ import annotations

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from tilewright.cutile import launch, on  # noqa: E402
from tilewright.cutile.arrays import NUMPY_DTYPES  # noqa: E402


@ct.kernel
def truth(x, out):
    ct.store(out, (0,), ct.load(x, (0,), (8,)).astype(ct.bool_))


@pytest.mark.parametrize("machine", ["reference", "cpu"])
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_zero_alone_is_false(machine: str, dtype: str) -> None:
    numbers = [0, 1, 2, 100, 0, -0.0, 0.5, -3, np.nan, np.inf, 1e-3, 0, 0, 0, 0, 7]
    is_float = dtype.startswith(("float", "bfloat"))
    with np.errstate(all="ignore"):
        x = np.array(numbers if is_float else numbers[:5] + [0] * 11).astype(NUMPY_DTYPES[dtype])
    for half in (x[:8], x[8:]):
        out = np.zeros(8, np.bool_)
        launch(0, (1,), truth, (half, out), machine=machine)
        # The type without zero has none.
        assert (out == (half.astype(np.float64) != 0)).all()


def test_the_sanitizer_has_nothing_to_say() -> None:
    out = np.zeros(8, np.bool_)
    with on(sanitize=True):
        ct.launch(0, (1,), truth, (np.array([0, 0.5, -1, 3, 0, 0, 0, 0], np.float32), out))
    assert out.tolist() == [False, True, True, True, False, False, False, False]
