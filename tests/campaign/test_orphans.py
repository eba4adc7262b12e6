"""However a campaign ends, no process of it lives on: neither those that run jobs, nor those that jobs have started.

Each holds a fifo open for writing. When the last one is gone, whoever reads it comes to its end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.campaign.conftest import PATIENCE, ROOT, Fifo, default_signals, end_who_asks
from tests.campaign.sample_jobs import job

from tilewright.campaign.jobs import Status
from tilewright.campaign.worker_processes import LocalProcesses

pytestmark = pytest.mark.skipif(os.name != "posix", reason="fifos and signals are of POSIX")


def test_a_job_that_is_late_takes_its_processes_with_it(fifo: Fifo) -> None:
    with LocalProcesses(1) as processes:
        (found,) = processes.run([job("wait_with_child", limit=5.0, fifo=fifo.path)])
        assert found.status is Status.LATE
        fifo.wait_for(1)
        fifo.wait_for_end()


def test_a_job_that_dies_takes_its_processes_with_it(fifo: Fifo) -> None:
    with LocalProcesses(1) as processes:
        (found,) = processes.run([job("wait_with_child", fifo=fifo.path, then="die")])
        assert found.status is Status.LOST
        fifo.wait_for(2)
        fifo.wait_for_end()


def test_an_error_of_who_asks_ends_all(fifo: Fifo) -> None:
    jobs = [
        job("square", number=2),
        *(job("wait_with_child", f"{n}", fifo=fifo.path) for n in (1, 2)),
    ]
    with pytest.raises(ZeroDivisionError), LocalProcesses(3) as processes:
        for _ in processes.run(jobs):
            fifo.wait_for(2)
            raise ZeroDivisionError
    fifo.wait_for_end()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_signals_to_who_asks_end_all(fifo: Fifo, number: signal.Signals) -> None:
    end_who_asks(fifo, number)


PROGRAM = """
import os, subprocess, sys, time

SIZE = 1
held = os.open(sys.argv[1], os.O_WRONLY)
os.set_inheritable(held, True)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], close_fds=False)
os.write(held, b"+")
time.sleep(600)
"""


@pytest.mark.usefixtures("lean_processes")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.rotates(2)
def test_a_search_that_is_interrupted(fifo: Fifo, tmp_path: Path, number: signal.Signals) -> None:
    """`tilewright tune`, by Ctrl-C, which reaches the whole group of a terminal."""
    pytest.importorskip("cuda.tile")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = [
        "tune",
        str(program),
        "--set",
        "SIZE=1,2",
        "--jobs",
        "2",
        "--no-keep",
        "--measure",
        "0",
    ]
    # Tools of NVIDIA's are asked for at first, and not needed here.
    called = (
        "import sys, tilewright.gpu.tools as tools; tools.need = lambda *asked: None; "
        "from tilewright.cli.main import main; sys.exit(main())"
    )
    asking = subprocess.Popen(
        [sys.executable, "-c", called, *words, "--", fifo.path],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=default_signals,
    )
    try:
        fifo.wait_for(2)
        os.killpg(asking.pid, number)
        said, _ = asking.communicate(timeout=PATIENCE)
    finally:
        asking.kill()
        asking.wait()
    assert asking.returncode in (130, -number), said
    assert b"Traceback" not in said
    fifo.wait_for_end()
