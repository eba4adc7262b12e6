"""Storages that are needed at different times share memory; those that are not do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K

from tilewright import LaunchOptions
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.storage import lifetimes, storage_bytes
from tilewright.passes.tileas.allocate import allocate
from tilewright.passes.tileas.remarks import Remarks
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

SQUARE, SUMS = (64, 64, "f16"), (64, 64, "f32")
TY = "tile<64x64xf32>"


def chain(length: int, *, looped: bool = False) -> str:
    """c = a x b x ... x b, each product rounded to f16 and stored for the next; in a loop that begins
    with a in each iteration, and adds up."""
    body = f"  %nothing = constant <f32: 0.0> : {TY}\n" if not looped else ""
    body += K.load("p0", "a", "%zero, %zero", SQUARE) + K.load("r", "b", "%zero, %zero", SQUARE)
    for number in range(length):
        body += (
            f"  %t{number} = permute %p{number} [1, 0] : tile<64x64xf16> -> tile<64x64xf16>\n"
            f"  %s{number} = mmaf %r, %t{number}, %nothing : tile<64x64xf16>, tile<64x64xf16>, {TY}\n"
            f"  %p{number + 1} = ftof %s{number} : {TY} -> tile<64x64xf16>\n"
        )
    last = f"%s{length - 1}"
    if looped:
        body = (
            f"  %nothing = constant <f32: 0.0> : {TY}\n"
            f"  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
            f"iter_values(%acc = %nothing) -> ({TY}) {{\n{body}"
            f"  %next = addf %acc, {last} : {TY}\n  continue %next : {TY}\n  }}\n"
        )
        last = "%sum"
    return K.entry(
        {"a": SQUARE, "b": SQUARE, "c": SUMS}, body + K.store(last[1:], "c", "%zero, %zero", SUMS)
    )


def storages(text: str, pipeline: str) -> tuple[FuncOp, list[S.AllocTensorOp]]:
    module = K.lowered(text, pipeline)
    (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
    return func, [op for op in func.walk() if isinstance(op, S.AllocTensorOp)]


LAYOUTS = "tileaa,tileas-assign-layouts"


@pytest.mark.parametrize("looped", [False, True])
def test_what_is_needed_later_takes_the_same_bytes(looped: bool) -> None:
    func, made = storages(chain(4, looped=looped), LAYOUTS + ",tileas-allocate")
    ends = [op.offset.value.data + storage_bytes(op.result) for op in made]  # pyright: ignore[reportOptionalMemberAccess]
    assert len(made) > 3
    assert max(ends) < sum(storage_bytes(op.result) for op in made)
    live = lifetimes(func)
    for one in made:
        for other in made:
            apart = (
                ends[made.index(one)] <= other.offset.value.data  # pyright: ignore[reportOptionalMemberAccess]
                or ends[made.index(other)] <= one.offset.value.data  # pyright: ignore[reportOptionalMemberAccess]
            )
            together = live[one.result].meets(live[other.result])
            assert one is other or apart or not together


def test_a_ring_shares_with_nobody() -> None:
    _, made = storages(K.product(), "tileaa,tileas")
    offsets = sorted(op.offset.value.data for op in made)  # pyright: ignore[reportOptionalMemberAccess]
    assert offsets == [0, 3 * 64 * 32 * 2]


def test_what_is_shared_is_told() -> None:
    func, _ = storages(chain(4), LAYOUTS)
    remarks = Remarks()
    allocate(func, remarks=remarks)
    (remark,) = (remark for remark in remarks.found if remark.kind == "storage")
    assert "share" in remark.message


def wanted(given: list[Any], length: int) -> Any:
    value = given[0][:64, :64]
    right = given[1][:64, :64].astype(np.float64)
    for _ in range(length):
        total = right @ value.astype(np.float64).T
        value = total.astype(np.float32).astype(np.float16)
    return total


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("looped", [False, True])
def test_blocks_of_threads_meet_between(looped: bool, arch: str) -> None:
    text = chain(3, looped=looped)
    for seed in range(3):
        given = K.arguments(text, 2)
        program = TileProgram(parse(text), arch)
        program.launch("k", 1, given, LaunchOptions(seed=seed))
        assert program.fallbacks == {}
        np.testing.assert_allclose(
            given[2][:64, :64], wanted(given, 3) * (2 if looped else 1), rtol=2e-2, atol=5e-2
        )
