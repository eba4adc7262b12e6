"""What is said when a kernel crashes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_CRASH = """
import {extra}
from tests.cpu.runtime.hand_written import CRASH, Launch, native
from tilewright.cpu.runtime.crash import report_crashes
from tilewright.cpu.runtime.pool import POOL, ChunkFeedback
{before}
report_crashes()
launch = Launch(native(CRASH), 4)
POOL.run(launch.state, 0, {threads}, ChunkFeedback())
"""
_OTHER_CRASH = """
import ctypes
from tilewright.cpu.runtime.crash import report_crashes
report_crashes()
ctypes.string_at(8, 1)
"""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_the_message_names_what_helps(threads: int) -> None:
    outcome = run(_CRASH.format(extra="os", before="", threads=threads))
    assert outcome.returncode == -11
    assert "a kernel has crashed" in outcome.stderr
    assert "tilewright sanitize" in outcome.stderr
    assert "--checked" in outcome.stderr


def test_the_handler_before_is_called_too() -> None:
    before = "faulthandler.enable()"
    outcome = run(_CRASH.format(extra="faulthandler", before=before, threads=1))
    assert outcome.returncode == -11
    assert outcome.stderr.index("a kernel has crashed") < outcome.stderr.index("Fatal Python error")


def test_crashes_of_others_are_not_commented() -> None:
    outcome = run(_OTHER_CRASH)
    assert outcome.returncode == -11
    assert "tilewright:" not in outcome.stderr
