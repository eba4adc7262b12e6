"""Jobs on processes of this machine: whatever one does, the others have their outcomes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.campaign.sample_jobs import job

from tilewright.campaign.jobs import Job, Outcome, Status, run_job
from tilewright.campaign.worker_processes import InProcess, LocalProcesses


@pytest.fixture
def processes() -> Iterator[LocalProcesses]:
    with LocalProcesses(2) as found:
        yield found


def by_label(outcomes: Iterator[Outcome]) -> dict[str, Outcome]:
    return {outcome.label: outcome for outcome in outcomes}


def test_all_jobs_end(processes: LocalProcesses) -> None:
    jobs = [job("square", f"{n}", number=n) for n in range(9)]
    found = by_label(processes.run(jobs))
    assert {label: outcome.value for label, outcome in found.items()} == {
        f"{n}": n * n for n in range(9)
    }
    assert all(outcome.status is Status.DONE for outcome in found.values())


def test_one_that_dies_harms_no_other(processes: LocalProcesses) -> None:
    jobs = [job("die"), *(job("square", f"{n}", number=n) for n in range(6))]
    found = by_label(processes.run(jobs))
    assert found["die"].status is Status.LOST
    assert "2 times" in found["die"].reason and "the last words" in found["die"].reason
    assert [found[f"{n}"].value for n in range(6)] == [n * n for n in range(6)]


def test_a_job_is_tried_again(processes: LocalProcesses, tmp_path: Path) -> None:
    (found,) = processes.run([job("die_once", marker=str(tmp_path / "marker"))])
    assert (found.status, found.value) == (Status.DONE, "survived")


def test_time_limits_hold(processes: LocalProcesses) -> None:
    started = time.monotonic()
    jobs = [job("sleep", limit=1.5, seconds=60), job("square", number=3)]
    found = by_label(processes.run(jobs))
    assert (found["sleep"].status, found["sleep"].reason) == (
        Status.LATE,
        "it took longer than 1.5 s",
    )
    assert found["square"].value == 9
    assert time.monotonic() - started < 30


def test_what_jobs_print_is_no_answer(processes: LocalProcesses) -> None:
    found = [*processes.run([job("print_much"), job("square", number=2)])]
    assert sorted(outcome.value for outcome in found) == [1, 4]


def test_a_campaign_that_is_left_ends_its_processes() -> None:
    with LocalProcesses(1) as processes:
        running = processes.run([job("square", number=2), job("sleep", seconds=600)])
        assert next(running).value == 4
    deadline = time.monotonic() + 20

    def serving() -> bool:
        return any("serve" in thread.name for thread in threading.enumerate())

    while serving() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not serving()


@pytest.mark.parametrize("run", [run_job, lambda job: next(InProcess().run([job]))])
def test_failures_are_outcomes(run) -> None:
    refused = run(job("refuse"))
    assert (refused.status, refused.code, refused.reason) == (
        Status.REFUSED,
        "test-campaign-refused",
        "not this one",
    )
    failed = run(job("fail"))
    assert failed.status is Status.FAILED
    assert failed.reason.startswith("ZeroDivisionError: by nothing (sample_jobs.py:")
    missing = run(Job("tests.campaign.sample_jobs:nothing", {}, "k", "nothing"))
    assert (missing.status, "no attribute 'nothing'" in missing.reason) == (Status.FAILED, True)


def test_another_tilewright_is_refused() -> None:
    other = Job("operator:add", {}, "k", "add", source="another")
    found = run_job(other)
    assert found.status is Status.FAILED
    assert "install the same version on all machines" in found.reason
