"""Random cuTile programs that gather by formulas leave the same on the CPU machine, however it compiles them, as on the reference
machine."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from tests.cpu.levels import runnable  # noqa: E402
from tests.cutile.gathers import Program  # noqa: E402

import tilewright.cutile  # noqa: E402

#: Programs in every run, and with --long.
USUAL, LONG, BATCH = 24, 2000, 50
WAYS: tuple[dict[str, Any], ...] = (
    {"threads": 1},
    {"threads": 1, "checked": True},
    *({"threads": 1, "cpu": cpu} for cpu in runnable("x86-64-v3", "x86-64-v2")),
)


def check_seed(seed: int, folder: Path) -> None:
    program = Program(seed)
    path = folder / f"gathers_{seed}.py"
    path.write_text(program.text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    expected: list[bytes] = []
    for machine, options in (("reference", {}), *(("cpu", way) for way in WAYS)):
        grid, arguments = program.arguments()
        with tilewright.cutile.on(machine, **options):
            ct.launch(0, grid, module.k, tuple(arguments))
        found = [each.tobytes() for each in arguments if isinstance(each, np.ndarray)]
        assert not expected or found == expected, (options, program.text)
        expected = found


@pytest.mark.rotates(3)
@pytest.mark.parametrize("seed", range(USUAL))
def test_gathers_by_formulas(seed: int, tmp_path: Path) -> None:
    check_seed(seed, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 1000 + LONG, BATCH))
def test_more_gathers_by_formulas(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + BATCH):
        check_seed(seed, tmp_path)
