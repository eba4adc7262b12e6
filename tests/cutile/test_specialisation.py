"""Our reading of launch arguments against that of cuTile's own extension."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")


def test_constraints_and_errors_are_those_of_cutile() -> None:
    """More than two thousand argument lists: the same constraints, the same errors."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.cutile.specialisation_cases"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    count, _, differing = run.stdout.splitlines()[-1].partition(" cases, ")
    assert int(count) > 2000
    assert differing == "0 differ", run.stdout[-3000:]
