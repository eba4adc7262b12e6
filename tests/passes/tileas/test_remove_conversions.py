"""Tiles are computed again in place of an exchange, and what is ordered behind a load stays behind it."""

from __future__ import annotations

from tests.passes.tileas import kernels as K

from tilewright.dialects.nv_tileaa.ops.memory import Load, Store
from tilewright.dialects.nv_tileas.ops import ConvertLayoutOp
from tilewright.passes import run_pipeline

OUT = (64, 64, "f32")
#: Numbers of rows are spread over the columns of a tile, and then overwritten.
TEXT = K.entry(
    {"n": (1, 64, "i32"), "c": OUT},
    "  %i, %t = load_view_tko weak %nt[%zero, %zero] : "
    + K.view(1, 64, "i32")
    + ", tile<i32> -> tile<1x64xi32>, token\n"
    "  %r = reshape %i : tile<1x64xi32> -> tile<64x1xi32>\n"
    "  %w = broadcast %r : tile<64x1xi32> -> tile<64x64xi32>\n"
    "  %f = itof %w signed : tile<64x64xi32> -> tile<64x64xf32>\n"
    "  %old, %ot = load_view_tko weak %ct[%zero, %zero] : "
    + K.view(*OUT)
    + ", tile<i32> -> tile<64x64xf32>, token\n"
    "  %s = addf %f, %old rounding<nearest_even> : tile<64x64xf32>\n"
    + K.store("s", "c", "%zero, %zero", OUT)
    + "  %d = addi %i, %i : tile<1x64xi32>\n"
    "  %u = store_view_tko weak %d, %nt[%zero, %zero] token = %t : tile<1x64xi32>, "
    + K.view(1, 64, "i32")
    + ", tile<i32> -> token\n",
)


def test_stores_stay_behind_loads_that_are_made_again() -> None:
    module = K.lowered(TEXT, "tileaa,tileas-assign-layouts")
    assert [op for op in module.walk() if isinstance(op, ConvertLayoutOp)]
    run_pipeline(module, "tileas-remove-conversions", verify_each=True)
    assert not [op for op in module.walk() if isinstance(op, ConvertLayoutOp)]
    numbers = [op for op in module.walk() if isinstance(op, Load) and "i32" in str(op.moved.type)]
    assert len(numbers) == 2
    *_, store = [op for op in module.walk() if isinstance(op, Store)]
    before, token = set(), store.token
    while token is not None and isinstance(token.owner, Load):
        before.add(token.owner)
        token = token.owner.token
    assert before == set(numbers)
