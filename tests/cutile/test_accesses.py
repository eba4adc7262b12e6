"""Random cuTile programs of ordered accesses leave the same wherever they run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ct = pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from tests.cutile.accesses import ROWS, access_arguments, access_program  # noqa: E402

import tilewright.cutile  # noqa: E402

#: Programs in every run, and with --long.
USUAL, LONG, BATCH = 12, 3000, 100
#: What runs a program beside the reference machine, two for each in rotation.
LEGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("cpu", {}),
    ("sim:sm_80", {}),
    ("cpu", {"checked": True}),
    ("sim:sm_90a", {}),
    ("cpu", {"threads": 2}),
    ("sim:sm_120a", {}),
)


def check_seed(seed: int, folder: Path) -> None:
    path = folder / f"accesses_{seed}.py"
    path.write_text(access_program(seed))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    expected = access_arguments(seed)
    tilewright.cutile.launch(0, (ROWS,), module.k, tuple(expected), machine="reference")
    for number in (2 * seed, 2 * seed + 1):
        machine, options = LEGS[number % len(LEGS)]
        found = access_arguments(seed)
        with tilewright.cutile.on(machine, **options):
            ct.launch(0, (ROWS,), module.k, tuple(found))
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(got, wanted, err_msg=f"{seed} {machine} {options}")


@pytest.mark.rotates(3)
@pytest.mark.parametrize("seed", range(USUAL))
def test_accesses_are_the_same_everywhere(seed: int, tmp_path: Path) -> None:
    check_seed(seed, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("first", range(USUAL, USUAL + LONG, BATCH))
def test_accesses_of_many_are_the_same_everywhere(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + BATCH):
        check_seed(seed, tmp_path)
