"""Elements whose places follow formulas that keep them near one another: clamped, halved, rounded ones, pixels of three colours."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.support import Guarded

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.target import cpu_target
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

TILE, LENGTH = 64, 2100


def _scaled(k: Builder, place: Value, by: float) -> Value:
    return k.ftoi(k.itof(place, to="f32", signedness="signed") * by, to="i32", signedness="signed")


def _limited(k: Builder, number: Value, most: int) -> Value:
    return k.mini(k.maxi(number, 0, signedness="signed"), most, signedness="signed")


def _modulo(k: Builder, number: Value, by: int) -> Value:
    """What is left behind a multiple that is no larger, as of Python's numbers."""
    rest = number % by
    return k.select(rest < 0, rest + by, rest)


PLACES: dict[str, Any] = {
    "clamped": lambda k, at: k.mini(
        k.maxi(at - 3, 5, signedness="signed"), 900, signedness="signed"
    ),
    "of five": lambda k, at: at * 5 // 7,
    "scaled": lambda k, at: _scaled(k, at, 0.4),
    "scaled up": lambda k, at: _scaled(k, at, 2.1),
    "backwards": lambda k, at: _scaled(k, 1000 - at, 0.6),
    "in rows": lambda k, at: (at // 9) * 16 + at % 9,
    "neighbours of pixels": lambda k, at: _limited(k, at // 3 + 1, 299) * 3 + _modulo(k, at, 3),
    "pixels in another size": lambda k, at: (at // 3 * 5 // k.args.n7) * 3 + at % 3,
    "put together": lambda k, at: (at + 5 & 0x7FFFFFF8) | (at + 5 & 7),
    "pairs": lambda k, at: at // 2 * k.args.two + 1,
    "backwards in threes": lambda k, at: at // 3 * 3 + 2 - at % 3,
}
MASKS: dict[str, Any] = {
    "all": lambda at: None,
    "even": lambda at: (at & 1) == 0,
    "odd": lambda at: (at & 1) == 1,
    "behind": lambda at: at >= 37,
    "none": lambda at: at < 0,
}


@functools.cache
def _kernel(element: str, place: str, mask: str) -> Any:
    module = ModuleBuilder()
    with module.entry(
        "k", {"x": ptr(element), "y": ptr(element), "n": "i32", "n7": "i32", "two": "i32"}
    ) as k:
        block, _, _ = k.get_tile_block_id()
        at = k.iota(shape=(TILE,), to="i32") + block * TILE

        def behind(base: Value, places: Value) -> Value:
            return k.offset(k.broadcast(k.reshape(base, shape=(1,)), shape=(TILE,)), places)

        there, on = PLACES[place](k, at), MASKS[mask](at)
        inside = (there >= 0) & (there < k.args.n)
        on = inside if on is None else on & inside
        held, _ = k.load_ptr_tko(behind(k.args.x, there), on, 77)
        k.store_ptr_tko(behind(k.args.y, at), held)
    return module.build()


@pytest.mark.rotates(4)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("element", ["f32", "i32", "f64", "i16", "i8"])
def test_the_reference_machine_agrees(element: str, place: str, mask: str) -> None:
    kernel = _kernel(element, place, mask)
    program = Program(kernel, options=LaunchOptions(threads=1))
    # Sizes of which some end within a page, and whose last vectors would reach into the next one.
    for length in (7, 900, 1024, LENGTH):
        x = np.random.default_rng(length).integers(-60, 60, length).astype(dtype_of(element))
        blocks = 20
        found = []
        for at_end in (False, True):
            guarded, y = Guarded(x, at_end=at_end), np.zeros(blocks * TILE, dtype_of(element))
            program.launch("k", blocks, (guarded.array, y, length, 7, 2))
            found.append(y)
        expected = np.zeros_like(found[0])
        tilewright.load(kernel, "reference").launch("k", blocks, (x, expected, length, 7, 2))
        np.testing.assert_array_equal(found, [expected] * 2)


@pytest.mark.parametrize(
    ("element", "place", "told"),
    [
        ("i8", "put together", "unless they turn out to follow one another"),
        ("i16", "scaled", "unless those of 8 lanes turn out to lie within one vector"),
        ("i8", "scaled", "unless those of 8 lanes turn out to lie within one vector"),
        ("f64", "scaled", "unless those of 4 lanes turn out to lie within one vector"),
    ],
)
@pytest.mark.skipif(not cpu_target().is_x86, reason="another processor may have other vectors")
def test_remarks_say_what_is_asked(element: str, place: str, told: str) -> None:
    module = lower_to_tileaa(_kernel(element, place, "all")).module
    found = compile_kernel(module, None, CompileOptions(cpu="x86-64-v3")).remarks
    assert [each for each in found if each.message.endswith(told)]
