"""Reductions of pairs: each lane is a row of its own where what is read changes along one axis only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.codegen.reductions.orientation import ACROSS_ROWS
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.target import cpu_target
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

ROWS, PLACES = 16, 32
Case = Callable[[Any, Value, Value], Value]


def _sum(k: Any, pairs: Value) -> Value:
    return k.reduce(pairs, 1, 0, lambda k, a, b: a + b)


def products(k: Any, x: Value, y: Value) -> Value:
    return _sum(k, x * y)


def differences(k: Any, x: Value, y: Value) -> Value:
    return _sum(k, (x - y) * (x - y) - x)


def largest(k: Any, x: Value, y: Value) -> Value:
    def larger(k: Any, a: Value, b: Value) -> Value:
        if str(a.element).startswith("i"):
            return k.maxi(a, b, signedness="signed")
        return k.maxf(a, b)

    return k.reduce(x - y, 1, -1000, larger)


def smaller(k: Any, x: Value, y: Value) -> Value:
    one, none = x * 0 + 1, x * 0
    return _sum(k, k.select(y < x, one, none))


CASES: dict[str, Case] = {case.__name__: case for case in (products, differences, largest, smaller)}


def _module(case: Case, element: str) -> Any:
    """``out[i]`` of ``x[i]`` and all of ``y``."""
    module = ModuleBuilder()
    arrays = dict.fromkeys(("x", "y", "out"), ptr(element))
    with module.entry("k", {**arrays, "m": "i32", "n": "i32"}) as k:
        block, _, _ = k.get_tile_block_id()

        def view(base: Value, extent: Value, tile: int) -> Any:
            whole = k.make_tensor_view(base, shape=[extent], strides=[1])
            return k.partition(whole, tile=(tile,), padding="zero")

        def pairs(value: Value, shape: tuple[int, int]) -> Value:
            return k.broadcast(value.reshape(*shape), shape=(ROWS, PLACES))

        x = pairs(k.load_view_tko(view(k.args.x, k.args.m, ROWS), [block])[0], (ROWS, 1))
        y = pairs(k.load_view_tko(view(k.args.y, k.args.n, PLACES), [0])[0], (1, PLACES))
        found = case(k, x, y)
        k.store_view_tko(found, view(k.args.out, k.args.m, ROWS), [block])
    return module.build()


@pytest.mark.rotates(4)
@pytest.mark.parametrize("element", ["f32", "f64", "f16", "bf16", "i32", "i64"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_reference_machine_agrees(case: Case, element: str) -> None:
    module, rng = _module(case, element), np.random.default_rng(1)
    programs = [
        Program(module, LaunchOptions(threads=1, checked=checked)) for checked in (False, True)
    ]
    for m, n in ((3 * ROWS, PLACES), (ROWS + 5, PLACES - 3), (7, 1)):
        # Small numbers, of which no sum is rounded.
        x, y = (rng.integers(-2, 3, count).astype(dtype_of(element)) for count in (m, n))
        wanted = np.zeros_like(x)
        grid = (-(-m // ROWS), 1, 1)
        tilewright.run(module, "k", grid, (x, y, wanted, m, n))
        for program in programs:
            found = np.zeros_like(x)
            program.launch("k", grid, (x, y, found, m, n))
            assert found.tobytes() == wanted.tobytes(), (m, n)


def _is_told(module: Any) -> bool:
    made = compile_kernel(lower_to_tileaa(module).module, None, CompileOptions(cpu="x86-64-v3"))
    return ACROSS_ROWS in [each.message for each in made.remarks]


@pytest.mark.skipif(
    not cpu_target().is_x86, reason="it asks of levels of x86, for which no code is made here"
)
def test_it_is_told_of_pairs_only() -> None:
    assert all(_is_told(_module(case, "f32")) for case in CASES.values())
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "out": ptr("f32")}) as k:

        def view(base: Value, shape: tuple[int, ...], strides: list[int]) -> Any:
            whole = k.make_tensor_view(base, shape=list(shape), strides=strides)
            return k.partition(whole, tile=shape)

        x, _ = k.load_view_tko(view(k.args.x, (ROWS, PLACES), [PLACES, 1]), [0, 0])
        k.store_view_tko(_sum(k, x), view(k.args.out, (ROWS,), [1]), [0])
    assert not _is_told(module.build())
