"""Each kernel of this package computes on every machine what its reference says."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from tests.corpus.launching import check_outputs  # noqa: E402
from tests.cutile.api._cases import SIMULATOR, Case, all_cases  # noqa: E402

from tilewright.cutile import RefusedError, launch, on  # noqa: E402

MACHINES = ("reference", "cpu")


def check(case: Case, machine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A machine computes what the case says, or refuses it in the words that it says."""
    if machine in case.refused:
        with pytest.raises(RefusedError, match=case.refused[machine]):
            case.run(machine)
        return
    before, after = case.run(machine)
    assert not check_outputs(case.launch, before, after), machine
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(case.launch.prints), machine


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_it_computes_what_it_must(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    assert not case.refused.keys() >= set(MACHINES)
    for machine in MACHINES:
        check(case, machine, capsys)


@pytest.mark.rotates(3, 1)
@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_threads_compute_it(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    check(case, SIMULATOR, capsys)


@pytest.mark.rotates(3)
@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)
def test_the_sanitizer_has_nothing_to_say(case: Case) -> None:
    with on("reference", sanitize=True):
        case.run(None)


@ct.kernel
def far_apart(x: ct.IndexedWithInt64, y: ct.IndexedWithInt64, out):
    last = y.shape[0] - 1
    total = ct.load(x, (1, 0), (1, 8)) + ct.load(y, (last, 0), (1, 8))
    lane = ct.arange(8, dtype=ct.int64)
    ct.store(out, (0,), total.reshape((8,)) + ct.gather(y, (last - 1, lane)))
    ct.scatter(x, (0, lane), ct.gather(x, (1, lane)))


@pytest.mark.parametrize("machine", MACHINES)
def test_offsets_and_indices_beyond_32_bits(machine: str) -> None:
    stride = 2**33 + 64
    try:
        # Only the pages that are touched take memory.
        pages = np.frombuffer(mmap.mmap(-1, stride + 4096), np.float32)
    except OSError as error:
        pytest.skip(f"8 GiB of addresses are not to be had: {error}")
    x = np.lib.stride_tricks.as_strided(pages, (2, 8), (stride, 4))
    x[1] = np.arange(8)
    row = np.full(8, 0.5, np.float32)
    y = np.lib.stride_tricks.as_strided(row, (2**33, 8), (0, 4))
    out = np.zeros(8, np.float32)
    launch(0, (1,), far_apart, (x, y, out), machine=machine)
    assert (out == np.arange(8) + 1).all()
    assert (x[0] == np.arange(8)).all()
