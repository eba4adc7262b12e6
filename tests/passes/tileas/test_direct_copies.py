"""``tileas-direct-copies``: the same results on both sides, on the simulator in many orders of warps; where copies start, what
is waited for, and what stays with threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.sampling import some
from xdsl.dialects import scf
from xdsl.ir import Operation

from tilewright import LaunchOptions
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.dialects.nv_tileaa.ops.memory import TiledLoadOp
from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.asynchronous import (
    AsyncLoadOp,
    AsyncTiledLoadOp,
    AsyncWaitOp,
)
from tilewright.machine.launch import Program
from tilewright.passes.tileas.allocate import peak
from tilewright.passes.tileas.direct_copies import direct_copies
from tilewright.passes.tileas.remarks import Remarks
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text

BEFORE = "tileaa,tileas-assign-layouts{target=sm_80}"
AFTER = BEFORE + ",tileas-direct-copies{shared-bytes=99000 registers=0}"
Q, KEYS, SUMS = (64, 64, "f16"), (128, 64, "f16"), (64, 64, "f32")
TY, Q_TILE = "tile<64x64xf32>", "tile<64x64xf16>"


def rounds() -> str:
    """c += f16(q x k(s)^T) x v(s), both loaded when the round begins."""
    scores = "tile<64x128xf32>"
    head = (
        K.load("l", "q", "%zero, %zero", Q)
        + f"  %nothing = constant <f32: 0.0> : {TY}\n"
        + f"  %none = constant <f32: 0.0> : {scores}\n"
        f"  %sum = for %s in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %nothing) -> ({TY}) {{\n"
    )
    loads = K.load("k", "keys", "%s, %zero", KEYS) + K.load("v", "values", "%s, %zero", KEYS)
    return K.entry(
        {"q": Q, "keys": KEYS, "values": KEYS, "c": SUMS},
        head + loads + "    %turned = permute %k [1, 0] : tile<128x64xf16> -> tile<64x128xf16>\n"
        f"    %score = mmaf %l, %turned, %none : tile<64x64xf16>, tile<64x128xf16>, {scores}\n"
        f"    %half = ftof %score : {scores} -> tile<64x128xf16>\n"
        f"    %next = mmaf %half, %v, %acc : tile<64x128xf16>, tile<128x64xf16>, {TY}\n"
        f"    continue %next : {TY}\n  }}\n" + K.store("sum", "c", "%zero, %zero", SUMS),
    )


def gathered() -> str:
    """c = (rows of a, by pointers, those of odd numbers as zeros) x b."""
    i32 = "tile<64x32xi32>"
    places = (
        "  %n = iota : tile<64xi32>\n  %m = iota : tile<32xi32>\n"
        "  %n1 = reshape %n : tile<64xi32> -> tile<64x1xi32>\n"
        "  %m1 = reshape %m : tile<32xi32> -> tile<1x32xi32>\n"
        f"  %nn = broadcast %n1 : tile<64x1xi32> -> {i32}\n"
        f"  %mm = broadcast %m1 : tile<1x32xi32> -> {i32}\n"
        f"  %wide = constant <i32: {K.WIDTH}> : {i32}\n  %bit = constant <i32: 1> : {i32}\n"
        f"  %none = constant <i32: 0> : {i32}\n"
        f"  %row = muli %nn, %wide : {i32}\n  %place = addi %row, %mm : {i32}\n"
        f"  %low = andi %nn, %bit : {i32}\n"
        f"  %on = cmpi equal %low, %none, signed : {i32} -> tile<64x32xi1>\n"
        "  %a1 = reshape %ap : tile<ptr<f16>> -> tile<1x1xptr<f16>>\n"
        "  %aa = broadcast %a1 : tile<1x1xptr<f16>> -> tile<64x32xptr<f16>>\n"
        f"  %at_place = offset %aa, %place : tile<64x32xptr<f16>>, {i32} -> tile<64x32xptr<f16>>\n"
        "  %zeros = constant <f16: 0.0> : tile<64x32xf16>\n"
        "  %l, %l_t = load_ptr_tko weak %at_place, %on, %zeros : tile<64x32xptr<f16>>, tile<64x32xi1>, "
        "tile<64x32xf16> -> tile<64x32xf16>, token\n"
    )
    body = (
        places
        + f"  %nothing = constant <f32: 0.0> : {TY}\n"
        + K.load("r", "b", "%zero, %zero", K.B)
        + f"  %o = mmaf %l, %r, %nothing : tile<64x32xf16>, tile<32x64xf16>, {TY}\n"
        + K.store("o", "c", "%zero, %zero", K.C)
    )
    return K.entry({"a": K.A, "b": K.B, "c": K.C}, body)


KERNELS = {"attention": K.attention(), "rounds": rounds(), "gathered": gathered()}


def of_kind(module: Operation, kind: type[Operation]) -> list[Operation]:
    return [op for op in module.walk() if isinstance(op, kind)]


@pytest.mark.parametrize("name", KERNELS)
def test_both_sides_compute_the_same(name: str) -> None:
    text = KERNELS[name]
    before, after = K.lowered(text, BEFORE), K.lowered(text, AFTER)
    assert not of_kind(after, S.CopyOp)
    assert len(of_kind(before, S.CopyOp)) == len(of_kind(after, AsyncWaitOp))
    assert of_kind(after, AsyncTiledLoadOp)
    assert bool(of_kind(after, AsyncLoadOp)) == (name == "gathered")
    assert print_text(parse(print_text(after))) == print_text(after)
    for steps in (0, 1, 2):
        for extent in (K.WIDTH, 200):
            one, two = (K.outcome(module, text, steps, extent) for module in (before, after))
            assert one == two


def copied(text: str, arch: str) -> Any:
    """The kernel for an architecture, as far as the pass."""
    return K.lowered(text, AFTER.replace("sm_80", arch))


@pytest.mark.rotates(3)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("name", KERNELS)
def test_any_order_of_warps(name: str, arch: str) -> None:
    text = KERNELS[name]
    expected = K.arguments(text, 2)
    Program(parse(text)).launch("k", 1, expected)
    program = TileProgram(copied(text, arch), arch)
    for seed in some(range(20)):
        given = K.arguments(text, 2)
        program.launch("k", 1, given, LaunchOptions(seed=seed))
        np.testing.assert_allclose(given[-4], expected[-4], rtol=1e-3, atol=2e-3)
    assert not program.fallbacks


def scheduled(text: str, shared_bytes: int) -> tuple[FuncOp, list[str]]:
    module, remarks = K.lowered(text, BEFORE), Remarks()
    (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
    direct_copies(func, shared_bytes, remarks, registers=0)
    return func, [remark.message for remark in remarks.found]


def test_what_is_waited_for() -> None:
    """Each wait leaves what was started behind its own copies on its way."""
    func, remarks = scheduled(K.attention(), 99_000)
    pending = [int_property(op, "pending") for op in of_kind(func, AsyncWaitOp)]  # pyright: ignore[reportArgumentType]
    assert pending == [2, 1, 0]
    assert remarks == [
        f"'{name}' is copied to shared memory past registers" for name in ("l", "r", "v")
    ]


@pytest.mark.parametrize("room", [True, False])
def test_a_tile_that_is_read_late_starts_early_only_where_there_is_room(room: bool) -> None:
    """The values lie where the keys were, where not both fit: then their copies start when the keys were read."""
    before = peak(next(op for op in K.lowered(rounds(), BEFORE).walk() if isinstance(op, FuncOp)))
    func, remarks = scheduled(rounds(), 99_000 if room else before)
    assert [remark.split("'")[1] for remark in remarks] == ["l", "k", "v"]
    (loop,) = of_kind(func, scf.ForOp)
    ops = [op for op in loop.regions[0].block.ops if isinstance(op, AsyncTiledLoadOp | S.DotOp)]
    kinds = [isinstance(op, S.DotOp) for op in ops]
    assert kinds == ([False, False, True, True] if room else [False, True, False, True])
    assert (peak(func) > before) == room


def test_small_tiles_stay() -> None:
    module, remarks = K.lowered(rounds(), BEFORE), Remarks()
    (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
    direct_copies(func, 99_000, remarks)
    assert not remarks.found and of_kind(func, TiledLoadOp)


def test_what_stays() -> None:
    """Tiles in loops with rings of threads, padded tiles, and those that threads compute with."""
    ring = "tileaa,tileas-assign-layouts{target=sm_80},tileas-pipeline"
    module, remarks = K.lowered(K.product(), ring), Remarks()
    (func,) = (op for op in module.walk() if isinstance(op, FuncOp))
    direct_copies(func, 99_000, remarks, registers=0)
    assert not remarks.found and print_text(module) == print_text(K.lowered(K.product(), ring))
    padded = K.attention().replace("padding_value = zero", "padding_value = neg_inf")
    assert scheduled(padded, 99_000)[1] == []
    assert scheduled(K.row_maxima(), 99_000)[1] == []


def written() -> str:
    """c = exp2(a x b) x 2 e, with 2 e stored to d and loaded from there; then d is overwritten."""
    body = (
        "  %nothing = constant <f32: 0.0> : tile<64x64xf32>\n"
        + K.load("l", "a", "%zero, %zero", K.A)
        + K.load("r", "b", "%zero, %zero", K.B)
        + K.load("w", "e", "%zero, %zero", Q)
        + f"  %twice = addf %w, %w : {Q_TILE}\n"
        + K.store("twice", "d", "%zero, %zero", Q)
        + K.load("v", "d", "%zero, %zero", Q).replace(
            " : partition", " token = %d_d : partition", 1
        )
        + f"  %s = mmaf %l, %r, %nothing : tile<64x32xf16>, tile<32x64xf16>, {TY}\n"
        f"  %x = exp2 %s : {TY}\n  %p = ftof %x : {TY} -> {Q_TILE}\n"
        f"  %o = mmaf %p, %v, %nothing : {Q_TILE}, {Q_TILE}, {TY}\n"
        f"  %again = store_view_tko weak %w, %dt[%zero, %zero] token = %v_t : {Q_TILE}, {K.view(*Q)}, tile<i32> -> token\n"
        + K.store("o", "c", "%zero, %zero", K.C)
    )
    return K.entry({"a": K.A, "b": K.B, "e": Q, "d": Q, "c": K.C}, body)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_copies_keep_their_place_beside_what_the_kernel_writes(arch: str) -> None:
    text = written()
    func, _ = scheduled(text, 99_000)
    assert ["ordered" in op.properties for op in of_kind(func, AsyncTiledLoadOp)] == [
        False,
        False,
        True,
    ]
    expected = K.arguments(text)
    Program(parse(text)).launch("k", 1, expected)
    program = TileProgram(copied(text, arch), arch)
    for seed in some(range(10)):
        given = K.arguments(text)
        program.launch("k", 1, given, LaunchOptions(seed=seed))
        np.testing.assert_allclose(given[-4], expected[-4], rtol=1e-3, atol=2e-3)
        assert given[3].tobytes() == expected[3].tobytes()
    assert not program.fallbacks
