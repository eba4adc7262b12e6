"""Groups of element-wise operations work in the layout for which less goes through shared memory; both sides compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileas.ops import ConvertLayoutOp
from tilewright.dialects.nv_tileas.types import layout_of
from tilewright.machine.launch import Program
from tilewright.passes import run_pipeline
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse, print_text

SUMS = "tile<64x64xf32>"
HALF = (64, 64, "f16")
LOADED = (
    f"  %nothing = constant <f32: 0.0> : {SUMS}\n"
    + K.load("l", "a", "%zero, %zero", K.A)
    + K.load("r", "b", "%zero, %zero", K.B)
    + f"  %s = mmaf %l, %r, %nothing : tile<64x32xf16>, tile<32x64xf16>, {SUMS}\n"
    + K.load("y", "x", "%zero, %zero", HALF)
    + f"  %w = ftof %y : tile<64x64xf16> -> {SUMS}\n  %t = tanh %w : {SUMS}\n"
    f"  %h = constant <f32: 0.5> : {SUMS}\n  %u = mulf %t, %h : {SUMS}\n  %v = mulf %u, %w : {SUMS}\n"
    f"  %m1 = mulf %s, %t : {SUMS}\n  %m2 = mulf %s, %u : {SUMS}\n  %m3 = addf %s, %v : {SUMS}\n"
    f"  %n1 = addf %m1, %m2 : {SUMS}\n  %n = addf %n1, %m3 : {SUMS}\n"
)
NAMES = {"a": K.A, "b": K.B, "x": HALF, "c": K.C}


def several(more: str = "") -> str:
    """Three values of a loaded tile meet the same sum."""
    return K.entry(NAMES, LOADED + more + K.store("n", "c", "%zero, %zero", K.C))


#: One value meets the sum, three are stored as they were loaded.
ONE = K.entry(
    NAMES | {"d": K.C, "e": K.C, "f": K.C},
    LOADED.replace("mulf %s, %t", "mulf %s, %s").replace("mulf %s, %u", "mulf %s, %s")
    + K.store("n", "c", "%zero, %zero", K.C)
    + "".join(
        K.store(value, name, "%zero, %zero", K.C)
        for value, name in (("t", "d"), ("u", "e"), ("v", "f"))
    ),
)
#: A value is stored, too: it is converted back.
STORED = K.entry(
    NAMES | {"d": K.C},
    LOADED + K.store("n", "c", "%zero, %zero", K.C) + K.store("u", "d", "%zero, %zero", K.C),
)


def conversions(text: str) -> tuple[list[str], list[str]]:
    """The element types of the tiles that are converted through shared memory, before and after."""
    module = K.lowered(text, "tileaa,tileas-assign-layouts")
    before = _converted(module)
    run_pipeline(module, "tileas-remove-conversions", verify_each=True)
    assert print_text(parse(print_text(module))) == print_text(module)
    return before, _converted(module)


def _converted(module: Any) -> list[str]:
    found = [op for op in module.walk() if isinstance(op, ConvertLayoutOp)]
    assert all(layout_of(op.source.type) != layout_of(op.result.type) for op in found)
    return sorted(T.element_name(T.element_of(op.source.type)) for op in found)


def test_one_conversion_in_the_place_of_three() -> None:
    before, after = conversions(several())
    assert before.count("f32") >= 3 and after == ["f16"]


def test_what_is_stored_goes_back() -> None:
    before, after = conversions(STORED)
    assert before.count("f32") >= 3 and after == ["f16", "f32"]


def test_a_single_conversion_stays_where_it_costs_least() -> None:
    """Three values would have to go back to be stored."""
    before, after = conversions(ONE)
    assert len(after) <= len(before) and after.count("f32") <= 2


@pytest.mark.parametrize("name", ["several", "stored", "one"])
def test_both_sides_compute_the_same(name: str) -> None:
    text = {"several": several(), "stored": STORED, "one": ONE}[name]
    module = K.lowered(text, "tileaa,tileas-assign-layouts,tileas-remove-conversions")
    for extent in (K.WIDTH, 40):
        assert K.outcome(module, text, 1, extent) == K.outcome(parse(text), text, 1, extent)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_threads_compute_the_same(arch: str) -> None:
    program = TileProgram(parse(STORED), arch)
    one, two = K.arguments(STORED, 1, K.WIDTH), K.arguments(STORED, 1, K.WIDTH)
    Program(parse(STORED)).launch("k", 1, one)
    program.launch("k", 1, two)
    assert program.fallbacks == {}
    for expected, found in zip(one[3:-3], two[3:-3], strict=True):
        # 32 terms and three more, each rounded once; tanh is within 3 units of its last place.
        np.testing.assert_allclose(found, expected, rtol=2.0**-18, atol=2.0**-16)
        assert found.any()
