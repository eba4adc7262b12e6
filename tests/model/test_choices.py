"""What the compiler asks the model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tilewright.model.choices import (
    MOST_STAGES,
    RING_STAGES,
    ProductCost,
    clocks_per_iteration,
    gpu_of,
    resident_blocks,
    stages_that_hide,
)
from tilewright.model.tables import GPUS, Gpu

A100 = GPUS["a100"]


def test_each_architecture_has_a_gpu() -> None:
    assert [gpu_of(compute) for compute in (80, 89, 90, 100, 120)] == [
        GPUS[name] for name in ("a100", "rtx4090", "h100", "b200", "rtx5090")
    ]
    assert gpu_of(75) is None


def test_stages_by_hand() -> None:
    """466 clocks of memory behind iterations of 400, 200 and 100 clocks."""
    assert A100["hbm_latency"] == 466 and A100["l2_rate"] == 40
    assert stages_that_hide(A100, 40 * 500) == 2
    assert stages_that_hide(A100, 40 * 400) == 3
    assert stages_that_hide(A100, 40 * 200) == 4
    assert stages_that_hide(A100, 40 * 100) == 6


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
def test_longer_turns_need_no_more_stages(gpu: Gpu) -> None:
    found = [
        stages_that_hide(gpu, size) for size in (1, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 20)
    ]
    assert found == sorted(found, reverse=True)
    assert found[0] == MOST_STAGES and found[-1] == 2
    assert set(found) <= set(RING_STAGES)


def cost(**changes: Any) -> ProductCost:
    """A round of 128 x 128 x 64 in f16 by 2 x 2 warps: each operand has 16 KiB, which two warps read."""
    return replace(
        ProductCost(128 * 128 * 64, "tensor_f16", 4, False, 32 << 10, 64 << 10), **changes
    )


def test_rounds_by_hand() -> None:
    """1024 clocks of tensor units; 512 and 256 of shared memory; 819 of L2; 30 of a barrier."""
    assert A100["tensor_f16"] == 1024 and A100["shared_rate"] == 128
    assert clocks_per_iteration(A100, cost(), 1) == 1024 + 512 / 4 + 30
    # Eight warps read more: shared memory is as busy as the tensor units.
    assert clocks_per_iteration(A100, cost(read=96 << 10), 1) == 1024 + 768 / 4 + 30
    assert clocks_per_iteration(A100, cost(), 1, waits=70) == 1024 + 512 / 4 + 100
    # Two blocks hide from each other what one waits for.
    assert 1024 < clocks_per_iteration(A100, cost(), 2, waits=70) < 1024 + 512 / 4 + 100
    by_l2 = cost(copied=128 << 10)
    assert clocks_per_iteration(A100, by_l2, 8) == pytest.approx((128 << 10) / 40)


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_more_of_anything_makes_no_round_faster(gpu: Gpu, blocks: int) -> None:
    least = clocks_per_iteration(gpu, cost(), blocks)
    for name in ("multiplications", "copied", "read"):
        more = cost(**{name: 3 * getattr(cost(), name)})
        assert clocks_per_iteration(gpu, more, blocks) >= least
    assert clocks_per_iteration(gpu, cost(by_warpgroups=True), blocks) <= least
    assert clocks_per_iteration(gpu, cost(), blocks + 1) <= least


def test_resident_blocks_by_hand() -> None:
    assert resident_blocks(A100, 4, 128, 40 << 10) == 4
    assert resident_blocks(A100, 4, 255, 40 << 10) == 2
    assert resident_blocks(A100, 4, 128, 96 << 10) == 1
    assert resident_blocks(A100, 8, 32, 0) == 8
    # Who asks has a block that runs.
    assert resident_blocks(A100, 16, 255, 200 << 10) == 1
