"""cuTile's autotuner times configurations on our machine."""

from __future__ import annotations

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from cuda.tile import tune  # noqa: E402

from tilewright.cutile import on  # noqa: E402


@ct.kernel
def double(x, y, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, (i,), ct.load(x, (i,), (n,)) * 2)


@pytest.mark.parametrize("timeout", [None, 5.0])
def test_every_configuration_is_timed(
    monkeypatch: pytest.MonkeyPatch, timeout: float | None
) -> None:
    monkeypatch.setattr("cuda.tile.tune._tune._MAX_REPEATS", 10)
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    with on():
        found = tune.exhaustive_search(
            [8, 16, 3],
            0,
            lambda n: (64 // n,),
            double,
            lambda n: (x, y, n),
            lambda n: {"num_ctas": ct.ByTarget(sm_100=2), "occupancy": 4},
            quiet=True,
            single_run_timeout_sec=timeout,
        )
    assert {m.config for m in found.successes} == {8, 16}
    assert all(m.mean_us > 0 for m in found.successes)
    # The extents of tiles are powers of two: cuTile's compiler refuses the third.
    ((config, error, _),) = found.failures
    assert config == 3
    assert issubclass(error, ct.TileError)
    assert (y == 2 * x).all()
