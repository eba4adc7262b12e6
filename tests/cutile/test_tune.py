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


@ct.kernel
def collatz(x, y, n: ct.Constant[int]):
    value = ct.load(x, (0,), (1,)).item()
    steps = 0
    while value != n:
        value = value + 0
        steps += 1
    ct.store(y, (0,), ct.full((1,), steps, ct.float32))


@pytest.mark.parametrize("machine", ["reference", "cpu"])
def test_a_configuration_that_takes_too_long_is_left_out(
    monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    monkeypatch.setattr("cuda.tile.tune._tune._MAX_REPEATS", 5)
    x, y = np.array([5], np.int32), np.full(1, -1, np.float32)
    with on(machine):
        found = tune.exhaustive_search(
            [4, 5],
            0,
            lambda n: (1,),
            collatz,
            lambda n: (x, y, n),
            quiet=True,
            single_run_timeout_sec=1.0,
        )
    assert [m.config for m in found.successes] == [5]
    ((config, error, message),) = found.failures
    assert (config, error.__name__) == (4, "TileLaunchTimeoutError")
    assert message == "CUDA kernel launch exceeded timeout 1.0 sec"
    assert y[0] == 0


@ct.kernel
def refuse(x):
    ct.assert_(ct.load(x, (0,), (1,)) > 0, "not positive")


def test_a_configuration_that_fails_is_told_as_cutile_tells_it() -> None:
    x = np.zeros(1, np.float32)
    with on(), pytest.raises(ValueError, match="No valid config") as caught:
        tune.exhaustive_search(
            [0], 0, lambda n: (1,), refuse, lambda n: (x,), quiet=True, single_run_timeout_sec=30.0
        )
    assert "RuntimeError: KernelError:" in str(caught.value)
    assert "not positive" in str(caught.value)
