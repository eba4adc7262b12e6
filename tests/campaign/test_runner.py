"""Campaigns resume: what a file has is not run again, however the campaign before ended."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.campaign.sample_jobs import job

from tilewright.campaign.jobs import Job, Outcome, Status, content_key, run_job
from tilewright.campaign.runner import Where, executor, run_campaign
from tilewright.campaign.store import Store
from tilewright.campaign.worker_processes import InProcess
from tilewright.diagnostics import TileIRError


class Interrupted(InProcess):
    """Is interrupted behind some jobs, as by Ctrl-C."""

    def __init__(self, behind: int):
        self._behind = behind

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        for number, each in enumerate(jobs):
            if number == self._behind:
                raise KeyboardInterrupt
            yield run_job(each)


def logged(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()]


def test_a_campaign_resumes(tmp_path: Path) -> None:
    log, kept = tmp_path / "log", tmp_path / "folder" / "kept.jsonl"
    jobs = [job("count", f"{n}", log=str(log), number=n) for n in range(5)]
    with pytest.raises(KeyboardInterrupt):
        run_campaign(jobs, Interrupted(3), Store(kept))
    assert logged(log) == [0, 1, 2]
    told: list[tuple[str, int, int]] = []
    found = run_campaign(
        jobs,
        InProcess(),
        Store(kept),
        told=lambda o, done, total: told.append((o.label, done, total)),
    )
    assert logged(log) == [0, 1, 2, 3, 4]
    assert [outcome.value for outcome in found] == [0, 1, 2, 3, 4]
    assert [outcome.is_kept for outcome in found] == [True, True, True, False, False]
    assert [row[1:] for row in told] == [(n, 5) for n in range(1, 6)]
    run_campaign(jobs, InProcess(), Store(kept))
    assert logged(log) == [0, 1, 2, 3, 4]


def test_equal_jobs_run_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    jobs = [job("count", label, log=str(log), number=7) for label in ("a", "b")]
    found = run_campaign(jobs, InProcess(), Store())
    assert [(outcome.label, outcome.value) for outcome in found] == [("a", 7), ("b", 7)]
    assert logged(log) == [7]


def test_what_may_go_better_is_tried_again(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    jobs = [job("fail"), job("refuse"), job("square", number=3)]
    run_campaign(jobs, InProcess(), Store(kept))
    found = run_campaign(jobs, InProcess(), Store(kept))
    assert [outcome.is_kept for outcome in found] == [False, True, True]
    assert found[1].code == "test-campaign-refused"


def test_what_a_machine_lacks_another_may_have() -> None:
    store = Store()
    for code, kept in (("gpu-missing-tool", False), ("gpu-not-available", False), ("other", True)):
        store.add(Outcome("k", "label", Status.REFUSED, code=code))
        assert (store.get("k") is not None) == kept


def test_a_line_that_was_cut_is_no_error(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    jobs = [job("square", f"{n}", number=n) for n in range(3)]
    run_campaign(jobs, InProcess(), Store(kept))
    data = kept.read_bytes()
    for length in range(len(data)):
        kept.write_bytes(data[:length])
        whole = data[:length].count(b"\n")
        store = Store(kept)
        # A line that only lacks its end is as good.
        known = sum(store.get(each.key) is not None for each in jobs)
        assert known in (whole, whole + 1)
    kept.write_bytes(data[:-20])
    found = run_campaign(jobs, InProcess(), Store(kept))
    assert [outcome.is_kept for outcome in found] == [True, True, False]
    again = run_campaign(jobs, InProcess(), Store(kept))
    assert all(outcome.is_kept for outcome in again)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text('{"something": "else"}\n{"more": 1}\n')
    with pytest.raises(TileIRError, match="line 1"):
        Store(path)
    assert Store(path, is_default=True).get("k") is None
    with pytest.raises(TileIRError, match="cannot read"):
        Store(tmp_path)
    file = tmp_path / "file"
    file.write_text("")
    outcome = run_job(job("square", number=3))
    with pytest.raises(TileIRError, match="cannot write"):
        Store(file / "kept.jsonl").add(outcome)
    Store(file / "kept.jsonl", is_default=True).add(outcome)


_LINE = {
    "key": "k",
    "label": "l",
    "status": "done",
    "value": 1,
    "code": "",
    "reason": "",
    "seconds": 1,
}


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        "12",
        "[]",
        *(
            json.dumps(_LINE | {field: value})
            for field in ("key", "label", "code")
            for value in (1, [], {})
        ),
        json.dumps(_LINE | {"seconds": "long"}),
        json.dumps(_LINE | {"status": []}),
    ],
    ids=range(14),
)
def test_lines_of_another_layout_are_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_text(f"{line}\n{line}\n")
    with pytest.raises(TileIRError, match="line 1"):
        Store(path)
    assert Store(path, is_default=True).get("k") is None


@pytest.mark.timeout(20)
def test_what_is_no_file_of_ones_own_is_not_waited_for(tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("there are no pipes with names")
    pipe, text = tmp_path / "pipe", json.dumps(_LINE) + "\n"
    os.mkfifo(pipe)
    with pytest.raises(TileIRError, match="not a regular file"):
        Store(pipe)
    open_to_all, link = tmp_path / "all.jsonl", tmp_path / "link.jsonl"
    open_to_all.write_text(text)
    open_to_all.chmod(0o666)
    link.symlink_to(open_to_all)
    for path in (pipe, open_to_all, link):
        assert Store(path, is_default=True).get("k") is None
    for path in (open_to_all, link):
        assert Store(path).get("k") is not None


def test_a_file_that_nobody_named_is_written_for_oneself(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Store(tmp_path / "kept.jsonl", is_default=True).add(run_job(job("square", number=3)))
    finally:
        os.umask(before)
    assert Store(tmp_path / "kept.jsonl", is_default=True).get(job("square", number=3).key)


def test_a_file_has_plain_json(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    run_campaign([job("square", number=4)], InProcess(), Store(kept))
    (line,) = kept.read_text().splitlines()
    held = json.loads(line)
    assert (held["status"], held["value"], held["label"]) == ("done", 16, "square")


def test_keys_tell_parts_apart() -> None:
    keys = [content_key(*parts) for parts in (("ab", "c"), ("a", "bc"), (b"ab", "c"), ("abc",))]
    assert len(set(keys)) == 4
    assert content_key({"a": 1, "b": 2}) == content_key({"b": 2, "a": 1})


def test_processes_serve_a_campaign(tmp_path: Path) -> None:
    jobs = [job("square", f"{n}", number=n) for n in range(4)]
    with executor(Where(2)) as running:
        found = run_campaign([*jobs, job("die")], running, Store(tmp_path / "kept"))
    assert [outcome.value for outcome in found] == [0, 1, 4, 9, None]
    assert found[-1].status is Status.LOST
