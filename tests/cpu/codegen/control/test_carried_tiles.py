"""Tiles that loops and branches hand on: which of them share a buffer, and what is in it."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.differential import variants
from tests.cpu.codegen.support import same_bits

from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import CompileOptions, compile_kernel, plan_text
from tilewright.lowering import lower_to_tileaa
from tilewright.machine import Program as Reference

_SIZE, _TILES, _LONG = 64, 3, 4096


class _Choices(random.Random):
    """What programs consist of, and pointers to the ``_SIZE`` numbers that they may look up."""

    table: Value


def _mixed(rng: _Choices, k: Builder, tiles: list[Value], number: Value) -> Value:
    """A tile of others, or one of them, also turned about."""
    tile = rng.choice(tiles)
    for _ in range(rng.randint(0, 2)):
        how = rng.randrange(5)
        if how == 0:
            tile = tile + rng.choice(tiles)
        elif how == 1:
            tile = tile * 3 - rng.choice(tiles)
        elif how == 2:
            tile = tile + k.broadcast(k.reshape(number, shape=(1,)), shape=(_SIZE,))
        elif how == 3:
            tile, _ = k.load_ptr_tko(k.offset(rng.table, tile & (_SIZE - 1)))
        else:
            square = k.permute(k.reshape(tile, shape=(8, 8)), permutation=[1, 0])
            tile = k.reshape(square, shape=(_SIZE,))
    return tile


def _next(rng: _Choices, k: Builder, tiles: list[Value], number: Value, depth: int) -> list[Value]:
    """As many tiles as there are, of these: in both ways of a branch, or around a loop inside."""
    found = [_mixed(rng, k, tiles, number) for _ in tiles] if rng.random() < 0.7 else list(tiles)
    if depth and rng.random() < 0.7:
        chosen = rng.randrange(3)
        condition = (number % 3 <= chosen) & (number % 3 >= chosen)

        def side(inner: Builder) -> tuple[Value, ...]:
            return tuple(_next(rng, inner, found, number, depth - 1))

        found = list(k.if_(condition, side, side))
    if depth and rng.random() < 0.3:

        def body(inner: Builder, index: Value, *held: Value) -> tuple[Value, ...]:
            return tuple(_next(rng, inner, list(held), index, depth - 1))

        found = list(k.for_(0, k.constant(rng.randint(1, 3), "i32"), 1, found, body))
    every = [*tiles, *found]
    if rng.random() < 0.5:  # What was there before is read once more.
        found = [each if rng.random() < 0.6 else _mixed(rng, k, every, number) for each in found]
    if rng.random() < 0.4:
        rng.shuffle(found)
    return found


def _kernel(seed: int) -> Any:
    rng, module = _Choices(seed), ModuleBuilder()
    with module.entry("mix", {"x": ptr("i32"), "count": "i32"}) as k:
        places = k.iota(shape=(_SIZE,), to="i32")
        base = k.broadcast(k.reshape(k.args.x, shape=(1,)), shape=(_SIZE,))
        tiles = [k.load_ptr_tko(k.offset(base, places + n * _SIZE))[0] for n in range(_TILES)]
        rng.table, kind = base, rng.randrange(3)
        if kind == 0:

            def counted(inner: Builder, index: Value, *held: Value) -> tuple[Value, ...]:
                return tuple(_next(rng, inner, list(held), index, 2))

            tiles = list(k.for_(0, k.args.count, 1, tiles, counted))
        else:

            def until(inner: Builder, number: Value, *held: Value) -> tuple[Value, ...]:
                made = _next(rng, inner, list(held), number, 2) if kind == 1 else list(held)

                def leave(branch: Builder) -> None:
                    branch.break_(tuple(_next(rng, branch, made, number, 0)))

                inner.if_(number >= k.args.count, leave)
                return (number + 1, *_next(rng, inner, made, number, 2))

            zero = k.constant(0, "i32")
            tiles = list(k.loop_([zero, *tiles], until, [tile.type for tile in tiles]))
        for n, tile in enumerate(tiles):
            k.store_ptr_tko(k.offset(base, places + n * _SIZE), tile)
    return module.build()


def check_seed(seed: int) -> None:
    module = _kernel(seed)
    x = np.random.default_rng(seed).integers(-9, 9, _TILES * _SIZE).astype(np.int32)
    reference = Reference(module)
    chosen = variants(seed)
    programs = [Program(module, options=LaunchOptions(**options)) for options in chosen]
    for count in (0, 1, 4):
        right = x.copy()
        reference.launch("mix", 1, (right, count))
        for options, program in zip(chosen, programs, strict=True):
            found = x.copy()
            program.launch("mix", 1, (found, count))
            assert same_bits(found, right).all(), (seed, count, options)


def _summed() -> str:
    """The plan of a loop that adds numbers to a tile until a counter is at its end."""
    module = ModuleBuilder()
    with module.entry("sum", {"x": ptr("f32"), "count": "i32"}) as k:
        places = k.iota(shape=(_SIZE,), to="i32")
        there = k.offset(k.broadcast(k.reshape(k.args.x, shape=(1,)), shape=(_SIZE,)), places)
        first, _ = k.load_ptr_tko(there)

        def until(inner: Builder, number: Value, total: Value) -> tuple[Value, ...]:
            inner.if_(number >= k.args.count, lambda branch: branch.break_([total]) and None)
            return number + 1, inner.exp(total) + 1.0

        (found,) = k.loop_([k.constant(0, "i32"), first], until, [first.type])
        k.store_ptr_tko(there, found)
    return plan_text(lower_to_tileaa(module.build()).module, None, CompileOptions())


def test_a_branch_gives_its_tile_where_the_loop_holds_it():
    """Else it would be copied out of the branch, and into what the next round begins with."""
    assert re.search(r"scf\.if.*: buffer of the loop's tile", _summed())


def test_tiles_that_look_up_what_the_others_were_are_computed_together():
    """A search by halves looks up once, and needs no other buffers than those of both ends."""
    module = ModuleBuilder()
    with module.entry(
        "search", {"x": ptr("i32"), "keys": ptr("i32"), "out": ptr("i32"), "rounds": "i32"}
    ) as k:
        places = k.iota(shape=(_LONG,), to="i32")

        def pointers(base: Value, offsets: Value) -> Value:
            return k.offset(k.broadcast(k.reshape(base, shape=(1,)), shape=(_LONG,)), offsets)

        keys, _ = k.load_ptr_tko(pointers(k.args.keys, places))

        def halved(inner: Builder, index: Value, low: Value, high: Value) -> tuple[Value, ...]:
            middle = (low + high) >> 1
            found, _ = inner.load_ptr_tko(pointers(k.args.x, middle))
            right = (found < keys) & (low < high)
            return inner.select(right, middle + 1, low), inner.select(right, high, middle)

        low, _ = k.for_(0, k.args.rounds, 1, [places & 0, (places & 0) + 200], halved)
        k.store_ptr_tko(pointers(k.args.out, places), low)
    built = module.build()
    x = np.sort(np.random.default_rng(0).integers(0, 1000, 201, np.int32))
    keys, out = np.arange(_LONG, dtype=np.int32), np.zeros(_LONG, np.int32)
    Program(built).launch("search", 1, (x, keys, out, 8))
    assert (out == np.searchsorted(x[:200], keys)).all()
    bytes_ = compile_kernel(lower_to_tileaa(built).module).arena_bytes
    assert bytes_ < 4 * _LONG * keys.itemsize


@pytest.mark.rotates(4)
@pytest.mark.parametrize("seed", range(60))
def test_tiles_that_are_handed_on_are_those_of_the_reference(seed: int) -> None:
    check_seed(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_more_tiles_that_are_handed_on_are_those_of_the_reference(first: int) -> None:
    for seed in range(first, first + 100):
        check_seed(seed)
