"""Kernels that nobody tuned for: they are scheduled as a whole, and right on the simulator."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.corpus import CUTILE_MISSING, cutile_available
from tests.sampling import is_long

#: Of each family some that are quick; the others run in ``benchmarks.gpu_unseen``.
KERNELS = (
    "decode GQA split f16 d64 16x64",
    "attention byte mask bf16 d64 64x128",
    "product A turned f16 64x64x32",
    "product 4 bits bf16 16 rows",
    "small products f64 4x16x16x16",
    "experts f16 64x128x64",
    "rms norm backward bf16 4096",
    "group norm f16 8x512",
    "quantise f8 groups 16x8x128",
    "selective scan f32 64x16",
    "permute f16 (2, 0, 1)",
    "embedding gradient bf16 16x256",
    "attention backward GQA keys f16 d128 64x32",
    "product i8 group scales f16 16 rows",
)
TARGETS = ("sm_80", "sm_90a", "sm_120a")

pytestmark = pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)


@pytest.mark.rotates(2)
@pytest.mark.parametrize("name", KERNELS)
def test_small_launches_are_right(name: str) -> None:
    from benchmarks.gpu_unseen import cases, judged, reference

    (case,) = (case for case in cases() if case.name == name)
    bytecode = case.bytecode()
    wanted = reference(case, bytecode, seed=1)
    # Another one for each kernel, unless the run is a long one.
    for target in TARGETS if is_long() else TARGETS[KERNELS.index(name) % len(TARGETS) :][:1]:
        found = judged(case, bytecode, target, wanted, seed=1)
        for key in ("wrong", "failure", "fallback"):
            assert key not in found, (target, found)
        assert found["error"] >= 0


def test_names_are_unique() -> None:
    from benchmarks.gpu_unseen import cases

    names = [case.name for case in cases()]
    assert len(set(names)) == len(names) >= 100


def test_differences_are_found() -> None:
    from benchmarks.gpu_unseen import difference

    wanted = np.array([1.0, np.nan, np.inf, 2.0])
    assert difference(wanted, wanted) == 0
    assert difference(np.array([1.0, 0.0, np.inf, 2.0]), wanted) == np.inf
    assert difference(np.array([1.0, np.nan, -np.inf, 2.0]), wanted) == np.inf
    assert difference(np.array([1.0, np.nan, np.inf, 3.0]), wanted) == pytest.approx(1 / 5**0.5)


def test_what_is_recorded_is_right() -> None:
    from benchmarks.gpu_unseen import JSON_FILE

    rows = json.loads(JSON_FILE.read_text(encoding="utf-8"))["rows"]
    mine = [row for row in rows if row["compiler"] == "ours"]
    assert mine
    for row in mine:
        assert "failure" not in row, row
        for key in ("wrong", "failure", "fallback"):
            assert key not in row["simulated"], row
