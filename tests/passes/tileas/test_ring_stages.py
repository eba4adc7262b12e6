"""Rings of products have two stages where that lets more blocks share a multiprocessor, and the model says that it pays."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.passes.tileas import kernels as K

from tilewright.dialects.nv_tileas import ops as S
from tilewright.model.tables import GPUS
from tilewright.passes.tileas.ring_stages import Ring, stages_of_ring

A100 = GPUS["a100"]
KIB = 1 << 10


@pytest.fixture(scope="module")
def ring() -> Ring:
    """Of 128x128x64 in f16, by 4 warps: three stages are 96 KiB of the 164 of a multiprocessor."""
    a, b, c = (128, 64, "f16"), (64, 128, "f16"), (128, 128, "f32")
    sums = "tile<128x128xf32>"
    body = (
        f"  %nothing = constant <f32: 0.0> : {sums}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({sums}) {{\n"
        + K.load("l", "a", "%zero, %s", a)
        + K.load("r", "b", "%s, %zero", b)
        + f"    %next = mmaf %l, %r, %acc : tile<128x64xf16>, tile<64x128xf16>, {sums}\n"
        f"    continue %next : {sums}\n  }}\n" + K.store("sum", "c", "%zero, %zero", c)
    )
    text = K.entry({"a": a, "b": b, "c": c}, body)
    module = K.lowered(text, "tileaa,tileas-assign-layouts{num-warps=4}")
    products = [op for op in module.walk() if isinstance(op, S.Product)]
    return Ring(products, 4, 32 * KIB, 0)


def test_two_blocks_of_two_stages_beat_one_of_three(ring: Ring) -> None:
    stages, compared = stages_of_ring(A100, ring, 3)
    assert stages == 2
    assert "2 stages: " in str(compared)
    assert ", 2 blocks" in str(compared)
    assert ", 1 block" in str(compared)


def test_what_does_not_change_the_blocks_is_no_question(ring: Ring) -> None:
    """Registers leave room for one block only; shared memory for two or one in any case; no products, two stages already."""
    for other in (
        replace(ring, warps=16, stage_bytes=40 * KIB),
        replace(ring, stage_bytes=20 * KIB),
        replace(ring, other_bytes=90 * KIB),
        replace(ring, products=[]),
    ):
        assert stages_of_ring(A100, other, 3) == (3, None)
    assert stages_of_ring(A100, ring, 2) == (2, None)


def test_alike_keeps_three(ring: Ring) -> None:
    """What the L2 brings bounds both: a second block gives nothing."""
    constants = dict(A100.constants)
    constants["l2_rate"] = replace(constants["l2_rate"], value=4.0)
    stages, compared = stages_of_ring(replace(A100, constants=constants), ring, 3)
    assert stages == 3
    assert "2 stages: " in str(compared)
