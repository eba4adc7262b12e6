"""cuTile's tuner, answered by the performance model."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import Command
from tests.model.support import requires_tools

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from cuda.tile import tune  # noqa: E402

from tilewright.cutile import RefusedError, on  # noqa: E402
from tilewright.cutile.searching import described  # noqa: E402


@ct.kernel
def double(x, y, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, (i,), ct.load(x, (i,), (n,)) * 2)


@ct.kernel
def gather(tables, out, n: ct.Constant[int]):
    i = ct.bid(0)
    for k in range(len(tables)):
        ct.store(out, (i,), ct.load(tables[k], (i,), (n,)))


def sizes(x: Any, y: Any, configs: list[int], **options: Any) -> Any:
    return tune.exhaustive_search(
        configs,
        0,
        lambda n: (ct.cdiv(x.size, n),),
        double,
        lambda n: (x, y, n),
        quiet=True,
        **options,
    )


@requires_tools
@pytest.mark.oracle
def test_searches_are_ranked_and_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = np.ones(1 << 20, np.float32), np.zeros(1 << 20, np.float32)
    with on("reference", tune_for="h100"):
        found = sizes(x, y, [32, 100, 4096, 1024], single_run_timeout_sec=1e-9)
        again = sizes(x, y, [1024, 32])
    assert not y.any()
    times = [m.mean_us for m in found.successes]
    assert times == sorted(times) and found.best == found.successes[0]
    assert {m.config for m in found.successes} == {32, 1024, 4096}
    assert found.successes[-1].config == 32  # One warp instruction for 128 bytes.
    assert all((m.num_samples, m.error_margin_us) == (0, 0.0) for m in found.successes)
    ((config, error, message),) = found.failures
    assert config == 100 and issubclass(error, ct.TileError) and "power of two" in message
    # A copy through memory of 3.35 TB/s.
    assert times[0] > 2 * x.nbytes / 3.4e6
    by_config = {m.config: m.mean_us for m in found.successes}
    assert {m.config: m.mean_us for m in again.successes} == {n: by_config[n] for n in (32, 1024)}
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "tilewright: double: 4 configurations ranked by the model for H100 SXM, not timed",
        "tilewright: double: 2 configurations ranked by the model for H100 SXM, not timed",
    ]
    assert said.out == ""


@requires_tools
@pytest.mark.oracle
def test_hints_and_lists_count() -> None:
    tables = [np.ones(4096, np.float32) for _ in range(3)]
    out = np.zeros(4096, np.float32)
    with on("reference", tune_for="a100"):
        found = tune.exhaustive_search(
            [4, 8],
            0,
            lambda warps: (4,),
            gather,
            lambda warps: (tables, out, 1024),
            lambda warps: {"num_worker_warps": warps},
            quiet=True,
        )
    assert {m.config for m in found.successes} == {4, 8}
    assert len({m.mean_us for m in found.successes}) == 2


@requires_tools
@pytest.mark.oracle
def test_no_configuration_runs() -> None:
    x = np.ones(64, np.float32)
    with on("reference", tune_for="h100"):
        with pytest.raises(ValueError, match=r"(?s)No valid config.*Config: 3.*power of two"):
            sizes(x, x, [3, 5])
        with pytest.raises(ValueError, match="Search space is empty"):
            sizes(x, x, [])


def test_unknown_gpus_are_refused() -> None:
    with pytest.raises(RefusedError, match="no GPU 'v100'"):
        on("reference", tune_for="v100")


def test_configurations_of_any_make() -> None:
    @dataclass
    class Data:
        tm: int
        tn: int

    pair = namedtuple("pair", "tm tn")
    whole = {"tm": 1, "tn": 2}
    for made in (whole, Data(1, 2), pair(1, 2), SimpleNamespace(tm=1, tn=2)):
        assert described(made) == whole
    assert described(5) == {"config": 5}
    assert described((1, 2)) == {"config": (1, 2)}


PROGRAM = """
import numpy as np
import cuda.tile as ct
from cuda.tile.tune import exhaustive_search

@ct.kernel
def double(x, y, n: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, (i,), ct.load(x, (i,), (n,)) * 2)

x, y = np.ones(4096, np.float32), np.zeros(4096, np.float32)
found = exhaustive_search(
    [64, 256], 0, lambda n: (4096 // n,), double, lambda n: (x, y, n), quiet=True)
n = found.best.config
ct.launch(0, (4096 // n,), double, (x, y, n))
assert (y == 2).all()
print(found.best.num_samples)
"""


@requires_tools
@pytest.mark.oracle
def test_programs_under_run(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text(PROGRAM)
    ran = command("run", "--tune-for", "h100", path)
    assert (ran.status, ran.text) == (0, "0\n")
    assert "ranked by the model for H100 SXM, not timed" in ran.err
    timed = command("run", path)
    assert timed.status == 0 and int(timed.text) >= 5 and timed.err == ""
    wrong = command("run", "--tune-for", "v100", path)
    assert wrong.status == 2 and "no GPU 'v100'" in wrong.err
