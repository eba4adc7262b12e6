"""``pytest -p tilewright.pytest`` on test-suites of cuTile's users."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

SUITE = """
import numpy as np
import pytest
import cuda.tile as ct
from cuda.tile import launch

@ct.kernel
def increment(x):
    i = ct.bid(0)
    ct.store(x, (i,), ct.load(x, (i,), (4,)) + 1)

@ct.kernel
def clash(x):
    ct.store(x, (0,), ct.full((4,), ct.bid(0), x.dtype))

def test_increment():
    x = np.zeros(8, np.float32)
    launch(0, (2,), increment, (x,))
    assert (x == 1).all()

def test_clash():
    ct.launch(0, (2,), clash, (np.zeros(4, np.float32),))

def test_refused():
    from cuda.tile._cext import launch_extended
    launch_extended(0, (1,), (1,), increment, ())
"""

TORCH_SUITE = """
import torch
import pytest
import cuda.tile as ct

assert torch.cuda.is_available()

@ct.kernel
def increment(x):
    i = ct.bid(0)
    ct.store(x, (i,), ct.load(x, (i,), (4,)) + 1)

@pytest.mark.parametrize("device", ["cuda"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32])
def test_increment(device, dtype):
    x = torch.zeros(8, device=device, dtype=dtype)
    ct.launch(torch.cuda.current_stream(), (2,), increment, (x,))
    torch.testing.assert_close(x, torch.ones(8, device=device, dtype=dtype))
"""


def run(
    suite: str, directory: Path, *options: str, conftest: str = "import cuda.tile\n"
) -> tuple[str, int]:
    (directory / "test_suite.py").write_text(suite)
    (directory / "conftest.py").write_text(conftest)
    environment = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            *options,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        env=environment,
    )
    return done.stdout + done.stderr, done.returncode


NAMED = ("-p", "tilewright.pytest")


def test_a_suite_runs_where_a_conftest_names_the_plugin(tmp_path: Path) -> None:
    output, status = run(SUITE, tmp_path, conftest="pytest_plugins = ['tilewright.pytest']\n")
    assert "2 passed" in output
    assert "1 failed" in output
    assert "RefusedError" in output
    assert status == 1
    assert "tilewright: cuTile launches run on the reference machine" in output


def test_refused_tests_are_skipped_when_asked(tmp_path: Path) -> None:
    output, status = run(SUITE, tmp_path, *NAMED, "--tilewright-skip-refused", "-rs")
    assert "2 passed, 1 skipped" in output
    assert "no machine of Tilewright supports" in output
    assert status == 0


def test_the_sanitizer_fails_a_test(tmp_path: Path) -> None:
    output, _ = run(SUITE, tmp_path, *NAMED, "--tilewright-sanitize", "--tilewright-skip-refused")
    assert "1 failed, 1 passed, 1 skipped" in output
    assert "error[race]" in output


def test_an_unknown_machine_is_an_error_of_usage(tmp_path: Path) -> None:
    output, status = run(SUITE, tmp_path, *NAMED, "--tilewright-machine=nothing")
    assert "there is no machine 'nothing'" in output
    assert status == pytest.ExitCode.USAGE_ERROR


@pytest.mark.usefixtures("torch")
@pytest.mark.rotates(2)
def test_a_suite_over_torch_devices_runs(tmp_path: Path) -> None:
    output, status = run(TORCH_SUITE, tmp_path, *NAMED)
    assert "3 passed" in output, output
    assert status == 0
