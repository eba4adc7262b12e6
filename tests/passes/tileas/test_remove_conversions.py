"""Tiles are computed again in place of an exchange, and what is ordered behind a load stays behind it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from xdsl.dialects import scf

from tilewright.dialects.nv_tileaa.ops.memory import Load, Store
from tilewright.dialects.nv_tileas.ops import ConvertLayoutOp
from tilewright.machine.launch import Program
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


A, B = (64, 64, "f16"), (64, 64, "f16")
SUMS = "tile<64x64xf32>"
#: What is done with a loaded tile %w and sums %s in each iteration, by the element type of the tile.
TAKEN = {
    "i8": "    %none8 = constant <i8: 0> : tile<64x64xi8>\n"
    "    %on = cmpi not_equal %w, %none8, signed : tile<64x64xi8> -> tile<64x64xi1>\n"
    f"    %next = select %on, %s, %nothing : tile<64x64xi1>, {SUMS}\n",
    "f16": f"    %wide = ftof %w : tile<64x64xf16> -> {SUMS}\n"
    f"    %next = addf %s, %wide rounding<nearest_even> : {SUMS}\n",
}


def rounds(element: str, more: str = "") -> str:
    """A loop that adds products up, and takes a tile of each iteration into account."""
    body = (
        f"  %nothing = constant <f32: 0.0> : {SUMS}\n"
        "  %sum = for %i in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({SUMS}) {{\n"
        + K.load("l", "a", "%zero, %i", A)
        + K.load("r", "b", "%i, %zero", B)
        + K.load("w", "m", "%zero, %i", (64, 64, element))
        + f"    %s = mmaf %l, %r, %acc : tile<64x64xf16>, tile<64x64xf16>, {SUMS}\n"
        + TAKEN[element]
        + more
        + f"    continue %next : {SUMS}\n  }}\n"
        + K.store("sum", "c", "%zero, %zero", OUT)
    )
    return K.entry({"a": A, "b": B, "m": (64, 64, element), "c": OUT}, body)


def converted(text: str) -> list[str]:
    """The element types of loaded tiles, or of what is made of them, that change their layout in the loop."""
    module = K.lowered(text, "tileaa,tileas-assign-layouts,tileas-remove-conversions")
    found = [op for op in module.walk() if isinstance(op, ConvertLayoutOp)]
    return [
        str(op.source.type.element_type)  # pyright: ignore[reportAttributeAccessIssue]
        for op in found
        if isinstance(op.parent_op(), scf.ForOp)
    ]


@pytest.mark.parametrize("element", TAKEN)
def test_a_tile_changes_its_layout_before_it_is_computed_with(element: str) -> None:
    """An exchange then moves no more bytes than were loaded."""
    assert converted(rounds(element)) == [element]


def test_what_is_used_again_stays() -> None:
    """Nothing is computed twice."""
    more = '    print_tko "%f", %wide : tile<64x64xf32> -> token\n'
    assert converted(rounds("f16")) == ["f16"]
    assert "f16" not in converted(rounds("f16", more))


@pytest.mark.parametrize("element", TAKEN)
def test_both_sides_compute_the_same(element: str) -> None:
    passes = "tileaa,tileas-assign-layouts"
    before, after = (
        Program(K.lowered(rounds(element), text))
        for text in (passes, f"{passes},tileas-remove-conversions")
    )
    generator, whole = np.random.default_rng(1), (K.WIDTH, K.WIDTH)
    a, b = (generator.integers(-3, 4, whole).astype(np.float16) for _ in range(2))
    tile = generator.integers(0, 2, whole).astype(np.int8 if element == "i8" else np.float16)
    sums = a[:64, :64].astype(np.float32) @ b[:64, :64].astype(np.float32)
    part = tile[:64, :64]
    expected = np.where(part != 0, sums, 0) if element == "i8" else sums + part
    for program in (before, after):
        out = np.zeros(whole, np.float32)
        program.launch("k", 1, (a, b, tile, out, K.WIDTH, K.WIDTH, 1))
        np.testing.assert_array_equal(out[:64, :64], expected)
