"""Positions that are put together from bits of counters, and taken apart again."""

from __future__ import annotations

import random

import pytest
from llvmlite import ir

from tilewright.cpu.codegen.ir.elements import I64, VOID
from tilewright.cpu.codegen.loops.bit_fields import Bits, bits_below
from tilewright.cpu.codegen.loops.indices import Lane
from tilewright.cpu.codegen.loops.loop_nest import LoopNest


def _value(bits: Bits, counters: dict[int, int]) -> int:
    """The number that they stand for."""
    total = bits.known
    for field in bits.fields:
        number = counters[id(field.base.value)]
        total += (number >> field.low & (1 << (field.high - field.low)) - 1) << field.shift
    return total


@pytest.mark.parametrize("seed", range(40))
def test_they_stand_for_the_number_that_is_computed(seed: int) -> None:
    rng = random.Random(seed)
    lanes = [Lane(ir.Constant(I64, 0)) for _ in range(4)]
    ends = [1 << rng.randrange(1, 7) for _ in lanes]
    counters = {id(lane.value): rng.randrange(end) for lane, end in zip(lanes, ends, strict=True)}
    bits, number = Bits((), rng.choice((0, 1, 5))), 0
    number = bits.known
    for lane, end in zip(lanes, ends, strict=True):
        by = 1 << rng.randrange(10)
        part = bits_below(lane, end, 1).after("mul", by)
        together = bits.plus(part)
        if together is not None:
            bits, number = together, number + counters[id(lane.value)] * by
        assert _value(bits, counters) == number
        op, amount = rng.choice(
            (("lshr", rng.randrange(4)), ("and", (1 << rng.randrange(1, 12)) - 1))
        )
        bits = bits.after(op, amount)
        number = number >> amount if op == "lshr" else number & amount
        assert _value(bits, counters) == number


def test_what_a_reshape_takes_apart_are_the_counters_again() -> None:
    function = ir.Function(ir.Module(), ir.FunctionType(VOID, []), "f")
    b = ir.IRBuilder(function.append_basic_block())
    nest = LoopNest(b)
    row, column = nest.loop(8), nest.loop(64, 16)
    flat = nest.sum([nest.times(row, 64), column])
    assert nest.high_bits(flat, 64).base is row.base
    assert nest.low_bits(flat, 64).base is column.base
    nest.close_all()
