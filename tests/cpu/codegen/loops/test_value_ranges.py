"""What masks say of the numbers of addresses where they are on."""

from __future__ import annotations

from functools import partial

import pytest
from llvmlite import ir

from tilewright.cpu.codegen.ir.elements import ELEMENTS, I32, I64, VOID
from tilewright.cpu.codegen.ir.types import Builder, Value
from tilewright.cpu.codegen.loops.tiles import (
    Elementwise,
    Range,
    Remembered,
    Tile,
    Uniform,
)
from tilewright.cpu.codegen.loops.value_ranges import reach

DIMS = (64,)
WORD, BIT = ELEMENTS["i32"], ELEMENTS["i1"]


def _nothing(b: Builder, *values: Value, **words: str) -> Value:
    raise AssertionError("no element is computed")


def _below(number: Tile, limit: Value) -> Tile:
    words = {"comparison_predicate": "less_than", "signedness": "signed"}
    operands = number, Uniform(WORD, DIMS, limit)
    return Elementwise(BIT, DIMS, operands, partial(_nothing, **words), "cmpi")


@pytest.mark.parametrize("kept", [False, True])
def test_a_mask_that_is_kept_tells_what_its_formula_does(kept: bool) -> None:
    function = ir.Function(ir.Module(), ir.FunctionType(VOID, [I64, I32, I32]), "f")
    base, start, end = function.args
    b = ir.IRBuilder(function.append_basic_block())
    places = Range(WORD, DIMS, start)
    mask = _below(places, end)
    if kept:
        mask = Remembered.of(mask, Uniform(BIT, DIMS, ir.Constant(ir.IntType(1), 1)))
    one = Uniform(ELEMENTS["ptr"], DIMS, base)
    pointers = Elementwise(ELEMENTS["ptr"], DIMS, (one, places), _nothing, "offset", 4)
    found = reach(b, pointers, mask)
    assert found is not None
    assert not isinstance(found.none, ir.Constant), "no limit is known of the numbers"
