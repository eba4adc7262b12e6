"""Exchanges of tiles through shared memory that rings and operands have taken: they find room, and no kernel falls back to
threads without a schedule."""

from __future__ import annotations

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.passes.tileas.test_split_tiles import function
from xdsl.dialects import scf

from tilewright.dialects.nv_tileas.storage import last_uses
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
