"""``narrow-integers``: what is computed in fewer bits, and that nobody can tell."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr, tile
from tilewright.cpu import Program
from tilewright.dialects.arith.base import ArithOp
from tilewright.dialects.arith.conversion import Extension
from tilewright.dialects.nv_tileaa import types as T
from tilewright.lowering import lower_to_tileaa
from tilewright.passes import run_pipeline

LOWER = "lower-cuda-tile-to-tileaa"
PASSES = f"{LOWER},narrow-integers"
TILE = 64
DTYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "f32": np.float32}

Compute = Callable[[Builder, dict[str, Value]], Value]
"""From what was loaded, in i32: ``u8``, ``s8``, ``u8_too``, ``s16``."""


def _kernel(compute: Compute, out: str, word: str = "i32") -> Any:
    module = ModuleBuilder()
    parameters = {"a": ptr("i8"), "b": ptr("i8"), "c": ptr("i16"), "out": ptr(out), "n": "i32"}
    with module.entry("k", parameters) as k:
        place = k.arange(TILE)

        def spread(base: Value) -> Value:
            return k.broadcast(k.reshape(base, shape=(1,)), shape=(TILE,))

        def loaded(base: Value, signedness: str) -> Value:
            held, _ = k.load_ptr_tko(k.offset(spread(base), place))
            return k.exti(held, to=word, signedness=signedness)

        values = {
            "u8": loaded(k.args.a, "unsigned"),
            "s8": loaded(k.args.a, "signed"),
            "u8_too": loaded(k.args.b, "unsigned"),
            "s16": loaded(k.args.c, "signed"),
            "n": spread(k.args.n),
            "place": place,
        }
        found = compute(k, values)
        k.store_ptr_tko(k.offset(spread(k.args.out), place), found)
    return module.build()


def _number(k: Builder, value: int, word: str = "i32") -> Value:
    return k.constant(value, tile((TILE,), word))


def _arrays(seed: int) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    a, b = (draw.integers(-128, 128, TILE).astype(np.int8) for _ in range(2))
    c = draw.integers(-(1 << 15), 1 << 15, TILE).astype(np.int16)
    a[:4], b[:4], c[:4] = (-128, 127, 0, -1), (-1, -128, 127, 1), (-(1 << 15), (1 << 15) - 1, -1, 0)
    return [a, b, c]


def _widths(module: Any) -> set[str]:
    """The element types in which tiles of integers are computed."""
    made = (op for op in module.walk() if isinstance(op, ArithOp) and not isinstance(op, Extension))
    return {
        T.element_name(T.element_of(op.results[0].type))
        for op in made
        if T.dims_of(op.results[0].type) and op.operands
    } - {"i1", "f32"}


def _agree(kernel: Any, out: str, seed: int = 0) -> None:
    """The results before and after the pass, on the reference machine, and those of the CPU machine, are equal."""
    found = []
    for module in (lower_to_tileaa(kernel).module, run_pipeline(kernel, PASSES, verify_each=True)):
        result = np.zeros(TILE, DTYPES[out])
        tilewright.run(module, "k", (1,), (*_arrays(seed), result, 77))
        found.append(result)
    result = np.zeros(TILE, DTYPES[out])
    Program(kernel, options=LaunchOptions(threads=1)).launch("k", 1, (*_arrays(seed), result, 77))
    np.testing.assert_array_equal(found, [result, result])


def _rounded_mean(k: Builder, v: dict[str, Value]) -> Value:
    return k.trunci((v["u8"] * 3 + v["u8_too"] * 5 + 4) >> 3, to="i8")


def _clamped(k: Builder, v: dict[str, Value]) -> Value:
    low = k.maximum(v["u8"] * 2 - v["u8_too"], _number(k, 0))
    return k.trunci(k.minimum(low, _number(k, 255)), to="i8")


def _wraps(k: Builder, v: dict[str, Value]) -> Value:
    """The sum of products does not fit 16 bits, but only 8 bits of it are asked for."""
    return k.trunci(v["s16"] * v["s16"] + v["u8"] * v["n"], to="i8")


def _kept_wide(k: Builder, v: dict[str, Value]) -> Value:
    """What is shifted to the right does not fit 16 bits."""
    return k.trunci((v["s16"] * v["s16"]) >> 9, to="i8")


def _as_floats(k: Builder, v: dict[str, Value]) -> Value:
    total = v["u8"] * 2 - v["u8_too"] * 2 + v["s8"] * 4 - v["u8"] + v["u8_too"]
    return k.itof(total, to="f32", signedness="signed")


def _compared(k: Builder, v: dict[str, Value]) -> Value:
    more = (v["u8"] + v["u8_too"] - 100) * 3 > v["s8"] + v["u8_too"]
    return k.exti(more, to="i8", signedness="unsigned")


def _of_one_channel(k: Builder, v: dict[str, Value]) -> Value:
    """Pixels of four bytes, by the last of them."""
    pixels = k.reshape(v["u8"], shape=(TILE // 4, 4))
    share = k.extract(pixels, [k.constant(0, "i32"), k.constant(3, "i32")], shape=(TILE // 4, 1))
    under = k.reshape(v["u8_too"], shape=(TILE // 4, 4))
    mixed = (k.broadcast(share, shape=(TILE // 4, 4)) * under + 128) >> 8
    return k.trunci(k.reshape(mixed, shape=(TILE,)), to="i8")


CASES: dict[str, tuple[Compute, str, set[str]]] = {
    "rounded mean": (_rounded_mean, "i8", {"i16", "i8"}),
    "clamped": (_clamped, "i8", {"i16", "i8"}),
    "low bits of what wraps": (_wraps, "i8", {"i8", "i16"}),
    "what is shifted": (_kept_wide, "i8", {"i8", "i32"}),
    "one channel of pixels": (_of_one_channel, "i8", {"i8", "i16"}),
    "floats": (_as_floats, "f32", {"i16"}),
    "compared": (_compared, "i8", {"i16"}),
}


@pytest.mark.parametrize("name", CASES)
def test_in_how_many_bits(name: str) -> None:
    compute, out, widths = CASES[name]
    kernel = _kernel(compute, out)
    assert "i32" in _widths(run_pipeline(kernel, LOWER))
    narrow = _widths(run_pipeline(kernel, PASSES))
    assert narrow <= widths | {"i64"} and ("i32" in narrow) == ("i32" in widths)
    _agree(kernel, out)


def test_places_stay_as_they_are() -> None:
    """They tell where accesses go, and what masks are."""

    def compute(k: Builder, v: dict[str, Value]) -> Value:
        inside = v["place"] * 2 < 40
        return k.trunci(k.select(inside, v["place"] + 3, _number(k, 0)), to="i8")

    kernel = _kernel(compute, "i8")
    before, after = (run_pipeline(kernel, passes) for passes in (LOWER, PASSES))
    assert tilewright.print_text(before) == tilewright.print_text(after)


def test_addresses_from_memory_stay_as_they_are() -> None:
    module = ModuleBuilder()
    with module.entry("k", {"a": ptr("i8"), "x": ptr("i8"), "out": ptr("i8")}) as k:
        place = k.arange(TILE)

        def spread(base: Value) -> Value:
            return k.broadcast(k.reshape(base, shape=(1,)), shape=(TILE,))

        held, _ = k.load_ptr_tko(k.offset(spread(k.args.a), place))
        at = k.exti(held, to="i32", signedness="unsigned") * 2 + 1
        found, _ = k.load_ptr_tko(k.offset(spread(k.args.x), at))
        k.store_ptr_tko(k.offset(spread(k.args.out), place), found)
    kernel = module.build()
    before, after = (run_pipeline(kernel, passes) for passes in (LOWER, PASSES))
    assert tilewright.print_text(before) == tilewright.print_text(after)


def test_one_sum_of_two_that_is_stored_wide_is_not_worth_it() -> None:
    kernel = _kernel(lambda k, v: v["u8"] + v["u8_too"], "i32")
    assert _widths(run_pipeline(kernel, PASSES)) - {"i64"} == {"i32"}


def test_a_carried_tile_is_extended_again_where_others_read_it() -> None:
    """What the extension reads is made by a block, not by an operation."""
    module = ModuleBuilder()
    names = {"c": ptr("i16"), "wide": ptr("i64"), "low": ptr("i16"), "n": "i32"}
    with module.entry("k", names) as k:
        place = k.arange(TILE)

        def at(base: Value) -> Value:
            return k.offset(k.broadcast(k.reshape(base, shape=(1,)), shape=(TILE,)), place)

        def body(k: Builder, i: Value, held: Value) -> list[Value]:
            word = k.exti(
                k.exti(held, to="i32", signedness="signed"), to="i64", signedness="signed"
            )
            k.store_ptr_tko(at(k.args.wide), word)
            low = k.trunci((word * word + word) * word, to="i16")
            k.store_ptr_tko(at(k.args.low), low)
            return [low]

        held, _ = k.load_ptr_tko(at(k.args.c))
        k.for_(k.constant(0, "i32"), k.args.n, k.constant(1, "i32"), [held], body)
    kernel = module.build()
    after = run_pipeline(kernel, PASSES, verify_each=True)
    assert "i16" in _widths(after)
    c = _arrays(3)[2]
    found = []
    for made in (lower_to_tileaa(kernel).module, after):
        wide, low = np.zeros(TILE, np.int64), np.zeros(TILE, np.int16)
        tilewright.run(made, "k", (1,), (c.copy(), wide, low, 3))
        found.append((wide, low))
    np.testing.assert_array_equal(*(wide for wide, _ in found))
    np.testing.assert_array_equal(*(low for _, low in found))


def _random(k: Builder, v: dict[str, Value], draw: random.Random, depth: int) -> Value:
    """A random formula of numbers that were loaded."""

    def inner() -> Value:
        return _random(k, v, draw, depth - 1)

    def few(low: int, high: int) -> Value:
        return _number(k, draw.randint(low, high))

    if depth == 0 or draw.random() < 0.1:
        names = ["u8", "u8_too", "s8"] * 3 + ["s16", "n"]
        return v[draw.choice(names)] if draw.random() < 0.85 else few(-300, 300)
    match draw.randrange(12):
        case 0 | 1:
            return inner() + inner()
        case 2:
            return inner() - inner()
        case 3:
            return inner() * few(-9, 40)
        case 4:
            return k.minimum(inner(), few(-50, 400))
        case 5:
            return k.maximum(inner(), inner())
        case 6:
            return k.shri(inner(), few(0, 9), signedness=draw.choice(["signed", "unsigned"]))
        case 7:
            return k.shli(inner(), few(0, 5))
        case 8:
            return k.select(inner() < inner(), inner(), inner())
        case 9:
            return k.absi(inner())
        case 10:
            return inner() // few(1, 20)
        case _:
            return k.andi(inner(), few(0, 255)) ^ few(-3, 90)


@pytest.mark.rotates(3)
@pytest.mark.parametrize("seed", range(60))
def test_random_formulas(seed: int) -> None:
    draw = random.Random(seed)
    out = draw.choice(["i8", "i8", "i16", "i32", "f32"])

    def compute(k: Builder, v: dict[str, Value]) -> Value:
        found = _random(k, v, draw, draw.randint(2, 5))
        if out == "f32":
            return k.itof(found, to="f32", signedness=draw.choice(["signed", "unsigned"]))
        return found if out == "i32" else k.trunci(found, to=out)

    _agree(_kernel(compute, out), out, seed)
