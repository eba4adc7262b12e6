"""Jobs on a Dask cluster; one of this machine stands for many machines."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.campaign.conftest import Fifo, end_who_asks
from tests.campaign.sample_jobs import job

from tilewright.campaign.jobs import Status
from tilewright.campaign.runner import Where, executor, run_campaign
from tilewright.campaign.store import Store
from tilewright.diagnostics import TileIRError

distributed = pytest.importorskip(
    "distributed", reason="Dask is not installed (pip install distributed)"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None
    ) as found:
        yield found


def test_a_campaign_on_a_cluster(cluster: Any, tmp_path: Path) -> None:
    marker = str(tmp_path / "marker")
    jobs = [
        *(job("square", f"{n}", number=n) for n in range(8)),
        job("die"),
        job("die_once", marker=marker),
        job("refuse"),
        job("sleep", limit=1.0, seconds=60),
    ]
    kept = tmp_path / "kept.jsonl"
    with executor(Where(dask=cluster.scheduler_address)) as running:
        found = run_campaign(jobs, running, Store(kept))
    assert [outcome.value for outcome in found[:8]] == [n * n for n in range(8)]
    assert [outcome.status for outcome in found[8:]] == [
        Status.LOST,
        Status.DONE,
        Status.REFUSED,
        Status.LATE,
    ]
    with executor(Where(dask=cluster.scheduler_address)) as running:
        again = run_campaign(jobs[:8], running, Store(kept))
    assert all(outcome.is_kept for outcome in again)


def test_jobs_of_a_worker_that_dies_go_to_another(cluster: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    slow = [job("sleep", f"sleep {n}", seconds=0.8 + n / 1000) for n in range(8)]
    jobs = [*slow, job("count", log=str(log), number=1)]
    processes = [worker.process.pid for worker in cluster.workers.values()]

    def kill() -> None:
        time.sleep(1.0)
        os.kill(processes[0], 9)

    threading.Thread(target=kill, daemon=True).start()
    with executor(Where(dask=cluster.scheduler_address)) as running:
        found = run_campaign(jobs, running, Store())
    assert [outcome.status for outcome in found] == [Status.DONE] * 9


@pytest.mark.skipif(os.name != "posix", reason="fifos and signals are of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.rotates(2)
def test_what_runs_for_who_is_gone_ends(cluster: Any, fifo: Fifo, number: signal.Signals) -> None:
    address = cluster.scheduler_address
    end_who_asks(fifo, number, address)
    with executor(Where(dask=address)) as running:
        (found,) = running.run([job("square", number=3)])
    assert found.value == 9


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.campaign.dask_cluster._CONNECT_SECONDS", 1)
    with (
        pytest.raises(TileIRError, match=r"\[campaign-no-dask\]: no Dask scheduler answers"),
        executor(Where(dask="tcp://127.0.0.1:9")),
    ):
        pass
