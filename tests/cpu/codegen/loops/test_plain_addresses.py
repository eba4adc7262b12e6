"""Addresses in 64 bits, without limits, where all that is known of them holds."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from llvmlite import ir

from tilewright.cpu.codegen.elementwise.integers import exti
from tilewright.cpu.codegen.ir.elements import ELEMENTS, I32, I64
from tilewright.cpu.codegen.loops.indices import Index
from tilewright.cpu.codegen.loops.loop_nest import LoopNest
from tilewright.cpu.codegen.loops.plain_addresses import PlainAddresses
from tilewright.cpu.codegen.loops.tiles import Elementwise, Range, Tile, Uniform, walk

WORD, WIDE, PTR = (ELEMENTS[name] for name in ("i32", "i64", "ptr"))
DIMS = (64,)


def _sum(b: Any, x: Any, y: Any) -> Any:
    return b.add(x, y)


def _larger(b: Any, x: Any, y: Any) -> Any:
    return b.select(b.icmp_signed(">", x, y), x, y)


def _add(one: Tile, other: Tile) -> Elementwise:
    return Elementwise(one.element, DIMS, (one, other), _sum, "addi")


def _limited(number: Tile, limit: int) -> Elementwise:
    at_most = Uniform(WORD, DIMS, ir.Constant(I32, limit))
    return Elementwise(WORD, DIMS, (number, at_most), _larger, "maxi")


def _extended(number: Tile) -> Elementwise:
    emit = partial(exti, element=number.element, to=WIDE, signedness="signed")
    return Elementwise(WIDE, DIMS, (number,), emit, "exti")


@pytest.fixture
def builder() -> ir.IRBuilder:
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [I32, I64]), "f")
    return ir.IRBuilder(function.append_basic_block())


def _formula(builder: ir.IRBuilder) -> tuple[Tile, Tile, Tile]:
    """Pointers, the tile that is extended in them, and what is limited in that."""
    start, base = builder.function.args
    places = Range(WORD, DIMS, ir.Constant(I32, 0))
    number = _add(
        _add(places, Uniform(WORD, DIMS, start)), Uniform(WORD, DIMS, ir.Constant(I32, -2))
    )
    limited = _limited(number, 0)
    base_tile = Uniform(PTR, DIMS, base)
    pointers = Elementwise(PTR, DIMS, (base_tile, _extended(limited)), _sum, "offset", 1)
    return pointers, limited, number


def test_sums_are_of_64_bits_and_limits_are_gone(builder: ir.IRBuilder) -> None:
    pointers, limited, number = _formula(builder)
    found = PlainAddresses({id(limited)}, {id(limited): number}).of(pointers)
    names = [tile.name for tile in walk(found) if isinstance(tile, Elementwise)]
    assert "maxi" not in names
    assert "addi" in names
    narrow = [tile for tile in walk(found) if tile.element is WORD]
    assert all(isinstance(tile, Uniform) for tile in narrow)
    # What changes from vector to vector is added to a number of 64 bits; nothing is extended in the loop.
    nest = LoopNest(builder)
    index = nest.loop(64, 8)
    nest.eval(found, (Index(index.base, None, 8),))
    inside = [each.opname for each in nest.inner.block.instructions]
    assert "add" in inside
    assert "sext" not in inside


def test_what_is_not_known_stays(builder: ir.IRBuilder) -> None:
    pointers, limited, number = _formula(builder)
    assert PlainAddresses().of(pointers) is pointers
    kept = PlainAddresses({id(limited)}).of(pointers)
    assert "maxi" in [tile.name for tile in walk(kept) if isinstance(tile, Elementwise)]
    narrow = PlainAddresses(set(), {id(limited): number}).of(pointers)
    assert "exti" in [tile.name for tile in walk(narrow) if isinstance(tile, Elementwise)]


def test_equal_tiles_stay_equal(builder: ir.IRBuilder) -> None:
    pointers, limited, _ = _formula(builder)
    known = PlainAddresses({id(limited)})
    assert known.of(pointers) is known.of(pointers)
