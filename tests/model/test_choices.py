"""What the compiler asks the model."""

from __future__ import annotations

import pytest

from tilewright.model.choices import MOST_STAGES, RING_STAGES, gpu_of, stages_that_hide
from tilewright.model.tables import GPUS, Gpu

A100 = GPUS["a100"]


def test_each_architecture_has_a_gpu() -> None:
    assert [gpu_of(compute) for compute in (80, 89, 90, 100, 120)] == [
        GPUS[name] for name in ("a100", "rtx4090", "h100", "b200", "rtx5090")
    ]
    assert gpu_of(75) is None


def test_stages_by_hand() -> None:
    """466 clocks of memory behind turns of 400, 200 and 100 clocks."""
    assert A100["hbm_latency"] == 466 and A100["l2_rate"] == 40
    assert stages_that_hide(A100, 40 * 500) == 2
    assert stages_that_hide(A100, 40 * 400) == 3
    assert stages_that_hide(A100, 40 * 200) == 4
    assert stages_that_hide(A100, 40 * 100) == 6
    # Products that take longer than the copies hide more.
    assert stages_that_hide(A100, 40 * 100, product_clocks=400) == 3


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
def test_longer_turns_need_no_more_stages(gpu: Gpu) -> None:
    found = [
        stages_that_hide(gpu, size) for size in (1, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 20)
    ]
    assert found == sorted(found, reverse=True)
    assert found[0] == MOST_STAGES and found[-1] == 2
    assert set(found) <= set(RING_STAGES)
