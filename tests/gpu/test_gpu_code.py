"""A ratchet: static facts of our GPU code are no worse than those that are recorded.

Where code gets better, or a change makes it worse for a reason, record anew:

    python -m benchmarks.gpu_code --ours-only --record --kernels 'vector add' softmax ...
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.corpus import CUTILE_MISSING, cutile_available
from tests.model.support import requires_tools

#: Cheap kernels, and how much more than recorded is still the same: of instructions and modelled time a share,
#: since versions of LLVM and ptxas differ a little.
KERNELS = (
    "vector add f16 4096",
    "softmax f16 1x1024",
    "prefix sum f32 1024",
    "product f16 64x64x64",
    "product f16 256x128x32",
    "product tf32 128x128x32",
    "product i8 128x128x128",
    "convolution f16 3x3, 64 to 64",
)
TARGETS = ("sm_80", "sm_90a", "sm_120a")
MARGIN = 0.05
#: Facts that may not grow at all.
EXACT = ("spills", "frame_bytes", "shared_bytes")

pytestmark = [
    requires_tools,
    pytest.mark.oracle,
    pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_code_is_no_worse_than_recorded(name: str, target: str) -> None:
    from benchmarks.gpu_cases import cases
    from benchmarks.gpu_code import row_of_ours
    from benchmarks.gpu_report import recorded_rows

    recorded = {(row["kernel"], row["target"], row["compiler"]): row for row in recorded_rows()}
    old = recorded[name, target, "ours"]
    case = next(case for case in cases() if case.name == name)
    new = row_of_ours(case, target, known=old["simulated"])
    assert "failure" not in new, new
    for fact in EXACT:
        assert new[fact] <= old[fact], fact
    assert new["mix"].get("BAR", 0) <= old["mix"].get("BAR", 0)
    for fact in ("instructions", "loop", "executed", "modelled_seconds"):
        assert new[fact] <= old[fact] * (1 + MARGIN), fact


def test_code_without_a_modelled_time_has_its_other_facts() -> None:
    """A loop that turns as often as data say, of which nothing is known."""
    from benchmarks.gpu_code import row_of_ours
    from benchmarks.gpu_unseen import cases

    case = next(case for case in cases() if case.name == "embedding gradient bf16 16x256")
    row = row_of_ours(replace(case, turns=0), "sm_90a", known={})
    assert "how often loop" in row["unmodelled"]
    assert row["instructions"] > row["loop"] > 0
    assert "modelled_seconds" not in row
