"""Exchanges of tiles through shared memory that rings and operands have taken: they find room, and no kernel falls back to
threads without a schedule."""

from __future__ import annotations

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.passes.tileas.test_split_tiles import function, whole_numbers
from xdsl.dialects import scf

from tilewright.dialects.nv_tileas.storage import last_uses
from tilewright.gpu.tiles import TileProgram as GpuProgram
from tilewright.machine.launch import Program
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

SUMS = "tile<128x256xf32>"
A, B, C = (128, 32, "f16"), (32, 256, "f16"), (128, 256, "f16")


def persistent() -> str:
    """c = a x b for two tiles, one after the other, as persistent kernels have it, in f16."""
    body = (
        f"  %nothing = constant <f32: 0.0> : {SUMS}\n  %first = make_token : token\n"
        "  %done = for %o in (%zero to %two, step %one) : tile<i32> iter_values(%before = %first) -> (token) {\n"
        f"  %sum = for %s in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %nothing) -> ({SUMS}) {{\n"
        + K.load("l", "a", "%o, %s", A)
        + K.load("r", "b", "%s, %zero", B)
        + f"    %next = mmaf %l, %r, %acc : tile<128x32xf16>, tile<32x256xf16>, {SUMS}\n"
        f"    continue %next : {SUMS}\n  }}\n"
        f"  %half = ftof %sum : {SUMS} -> tile<128x256xf16>\n"
        + K.store("half", "c", "%o, %zero", C).replace(" : tile", " token = %before : tile", 1)
        + "  continue %c_d : token\n  }\n"
    )
    return K.entry({"a": A, "b": B, "c": C}, body)


@pytest.mark.parametrize("arch", ["sm_86", "sm_120a"])
def test_a_ring_that_lasts_leaves_room_for_what_is_stored(arch: str) -> None:
    """On sm_120a producers fill it for the next tile while consumers rearrange 64 KiB of this one, in halves."""
    text = persistent()
    program = TileProgram(parse(text), arch)
    one, two = K.arguments(text, 2, K.WIDTH), K.arguments(text, 2, K.WIDTH)
    Program(parse(text)).launch("k", 1, one)
    program.launch("k", 1, two)
    assert program.fallbacks == {}
    # f16 has 11 bits; sums of f32 in another order may round to the next one.
    np.testing.assert_allclose(one[-4], two[-4], rtol=2.0**-10, atol=2.0**-12)
    assert one[-4].any()


def test_what_each_iteration_writes_is_needed_up_to_its_last_use_there() -> None:
    module = K.lowered(K.product(), "tileaa,tileas-assign-layouts")
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    found = last_uses(function(module))
    assert len(found) == 2
    assert all(op.parent is loop.body.block for op in found.values())


def wide_weights(n: int, k: int) -> str:
    """c = a x b where b is made of bytes, of which an iteration has k x n and exchanges neighbours: parts of it along k are
    not tiles of a view."""
    a, b, c = (32, k, "f16"), (k, n, "i8"), (32, n, "f32")
    sums, bytes_, pairs = f"tile<32x{n}xf32>", f"tile<{k}x{n}xi8>", f"tile<{k // 2}x2x{n}xi8>"
    half = f"tile<{k // 2}x1x{n}xi8>"
    body = (
        f"  %nothing = constant <f32: 0.0> : {sums}\n"
        f"  %sum = for %s in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %nothing) -> ({sums}) {{\n"
        + K.load("l", "a", "%zero, %s", a)
        + K.load("q", "b", "%s, %zero", b)
        + f"    %p = reshape %q : {bytes_} -> {pairs}\n"
        f"    %h0 = extract %p[%zero, %zero, %zero] : {pairs} -> {half}\n"
        f"    %h1 = extract %p[%zero, %one, %zero] : {pairs} -> {half}\n"
        f"    %h = cat %h1, %h0 dim = 1 : {half}, {half} -> {pairs}\n"
        f"    %t = reshape %h : {pairs} -> {bytes_}\n"
        f"    %r = itof %t signed : {bytes_} -> tile<{k}x{n}xf16>\n"
        f"    %next = mmaf %l, %r, %acc : tile<32x{k}xf16>, tile<{k}x{n}xf16>, {sums}\n"
        f"    continue %next : {sums}\n  }}\n" + K.store("sum", "c", "%zero, %zero", c)
    )
    return K.entry({"a": a, "b": b, "c": c}, body)


@pytest.mark.parametrize("arch", ["sm_86", "sm_120a"])
def test_tiles_beyond_shared_memory_are_worked_through_in_parts(arch: str) -> None:
    """256x256 in f16 is more than a block has, and no part of it along k is loaded: 64 columns at a time leave room for a ring."""
    text = wide_weights(256, 256)
    program = TileProgram(parse(text), arch)
    one, two = K.arguments(text, 1, K.WIDTH), K.arguments(text, 1, K.WIDTH)
    Program(parse(text)).launch("k", 1, one)
    program.launch("k", 1, two)
    assert program.fallbacks == {}
    np.testing.assert_allclose(one[-4], two[-4], rtol=1e-3, atol=1e-2)
    assert one[-4].any()
    told = [
        remark.message
        for remark in GpuProgram(parse(text), arch).remarks()
        if remark.kind == "split"
    ]
    assert "each block works through its tiles in 4 parts" in told
    assert any(message.startswith("tiles are not scheduled as a whole") for message in told)


def latents() -> str:
    """The sum over tiles d of (a x d^T) x g x d, in f16 between products: d takes 128 KiB, and is an operand of two."""
    a, d, g, c = (16, 1024, "f16"), (64, 1024, "f16"), (64, 64, "f16"), (16, 1024, "f32")
    sums = "tile<16x1024xf32>"
    body = (
        f"  %nothing = constant <f32: 0.0> : {sums}\n"
        "  %none = constant <f32: 0.0> : tile<16x64xf32>\n"
        + K.load("l", "a", "%zero, %zero", a)
        + f"  %sum = for %s in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %nothing) -> ({sums}) {{\n"
        + K.load("r", "d", "%s, %zero", d)
        + "    %t = permute %r [1, 0] : tile<64x1024xf16> -> tile<1024x64xf16>\n"
        "    %w = mmaf %l, %t, %none : tile<16x1024xf16>, tile<1024x64xf16>, tile<16x64xf32>\n"
        "    %h = ftof %w : tile<16x64xf32> -> tile<16x64xf16>\n"
        + K.load("m", "g", "%s, %zero", g)
        + "    %x = mmaf %h, %m, %none : tile<16x64xf16>, tile<64x64xf16>, tile<16x64xf32>\n"
        "    %y = ftof %x : tile<16x64xf32> -> tile<16x64xf16>\n"
        f"    %next = mmaf %y, %r, %acc : tile<16x64xf16>, tile<64x1024xf16>, {sums}\n"
        f"    continue %next : {sums}\n  }}\n" + K.store("sum", "c", "%zero, %zero", c)
    )
    return K.entry({"a": a, "d": d, "g": g, "c": c}, body)


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_120a"])
@pytest.mark.rotates(2)
def test_a_tile_that_two_products_share_is_loaded_in_parts_for_each(arch: str) -> None:
    """Neither its rows nor its columns can be worked through alone; before, LLVM did not end on threads without a schedule."""
    text = latents()
    program = TileProgram(parse(text), arch)
    one, two = (whole_numbers(K.arguments(text, 2, K.WIDTH)) for _ in range(2))
    Program(parse(text)).launch("k", 1, one)
    program.launch("k", 1, two)
    assert program.fallbacks == {}
    # Between products there are integers below 2048, which f16 has.
    assert one[-4].tobytes() == two[-4].tobytes() and one[-4].any()
    told = [remark.message for remark in GpuProgram(parse(text), arch).remarks()]
    assert sum("parts along k" in message for message in told) == 2
    # Each product alone would fit into 163 KiB.
    retried = any(message.startswith("tiles are not scheduled as a whole") for message in told)
    assert retried == (arch == "sm_80")
