"""A launch that cuTile refuses is refused in its own words, to the letter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from tests.cutile.message_cases import messages  # noqa: E402

from tilewright.cutile import on  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent


def test_messages_are_those_of_cutile() -> None:
    command = [sys.executable, "-m", "tests.cutile.message_cases"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=280
    )
    theirs = json.loads(done.stdout)
    with on():
        ours = messages(ct.launch)
    assert len(theirs) > 300
    assert {n: m for n, m in ours.items() if m != theirs[n]} == {}
    assert not any("accepted" in (ours[n], theirs[n]) for n in theirs)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_the_number_of_arguments(count: int) -> None:
    @ct.kernel
    def one(a):
        pass

    if count == 1:
        return
    with on(), pytest.raises(TypeError) as caught:
        ct.launch(0, (1,), one, (1,) * count)
    assert str(caught.value) == f"Kernel expects 1 argument but {count} were given"


def test_a_kernel_that_launches() -> None:
    """What stands for cuTile's functions is not compiled into kernels, as cuTile's own is not."""

    @ct.kernel
    def one():
        ct.launch(0, (1,), None, ())

    with on(), pytest.raises(ct.TileError) as caught:
        ct.launch(0, (1,), one, ())
    assert str(caught.value).startswith("launch() is not supported in device code\n")
