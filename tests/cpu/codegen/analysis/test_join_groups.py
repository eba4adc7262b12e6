"""Joined tiles that are filled in one loop nest: when, and that the results are those of one after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.cpu.levels import levels

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu.compile import CompileOptions, plan_text
from tilewright.lowering import lower_to_tileaa

ROWS, SIZE = 2, 64

Stage = Callable[[Builder, int, Value, Value], tuple[Value, Value]]
"""From pieces of so many elements and two tiles the next two."""


def _halves(k: Builder, x: Value, piece: int) -> tuple[Value, Value]:
    many = SIZE // 2 // piece
    cut = x.reshape(ROWS, 2, many, piece)
    shape, zero, one = (ROWS, 1, many, piece), k.constant(0, "i32"), k.constant(1, "i32")
    first, second = (k.extract(cut, [zero, at, zero, zero], shape=shape) for at in (zero, one))
    flat = (ROWS, many, 1, piece)
    return first.reshape(*flat), second.reshape(*flat)


def _joined(k: Builder, lhs: Value, rhs: Value) -> Value:
    return k.cat(lhs, rhs, dim=2).reshape(ROWS, SIZE)


def _root(k: Builder, x: Value) -> Value:
    """What costs more than reading it from a buffer, and is rounded once."""
    return k.sqrt(k.absf(x))


def _butterfly(k: Builder, piece: int, x: Value, y: Value) -> tuple[Value, Value]:
    (a, b), (c, d) = _halves(k, x, piece), _halves(k, y, piece)
    p, q = _root(k, a - b), _root(k, c - d)
    return _joined(k, a + b, p * 0.5 - q), _joined(k, c + d, p + q * 0.5)


def _one_of_another(k: Builder, piece: int, x: Value, y: Value) -> tuple[Value, Value]:
    (a, b), (c, d) = _halves(k, x, piece), _halves(k, y, piece)
    first = _joined(k, a - d, _root(k, b))
    again, _ = _halves(k, first, piece)
    return first, _joined(k, again + c, d)


def _print_between(k: Builder, piece: int, x: Value, y: Value) -> tuple[Value, Value]:
    (a, b), (c, d) = _halves(k, x, piece), _halves(k, y, piece)
    first = _joined(k, a - d, b)
    k.print_tko(k.constant(1, "i32"), str="%i\n")
    return first, _joined(k, a + d, c)


STAGES: dict[str, Stage] = {
    "butterfly": _butterfly,
    "one of another": _one_of_another,
    "a print between": _print_between,
}


@functools.cache
def _kernel(stage: str, pieces: tuple[int, ...]) -> Any:
    module = ModuleBuilder()
    with module.entry("k", dict.fromkeys(("x", "y", "out"), ptr("f32"))) as k:
        place = k.arange(ROWS).reshape(ROWS, 1) * SIZE + k.arange(SIZE).reshape(1, SIZE)

        def at(base: Value, more: int = 0) -> Value:
            return k.broadcast_to(base.reshape(1, 1), (ROWS, SIZE)) + (place + more)

        x, y = (k.load_ptr_tko(at(each))[0] for each in (k.args.x, k.args.y))
        for piece in pieces:
            x, y = STAGES[stage](k, piece, x, y)
        for number, each in enumerate((x, y)):
            k.store_ptr_tko(at(k.args.out, number * ROWS * SIZE), each)
    return module.build()


PIECES = [(1, 2), (4,), (8, 16), (32, 1)]


@pytest.mark.parametrize("pieces", PIECES, ids=str)
def test_it_is_one_nest(pieces: tuple[int, ...]) -> None:
    text = plan_text(
        lower_to_tileaa(_kernel("butterfly", (*pieces, 4))).module, None, CompileOptions()
    )
    assert text.count("one nest for the tiles") == len(pieces)


@pytest.mark.parametrize("stage", ["one of another", "a print between"])
def test_it_is_not(stage: str) -> None:
    text = plan_text(lower_to_tileaa(_kernel(stage, (4, 8))).module, None, CompileOptions())
    assert "one nest for the tiles" not in text


@pytest.mark.parametrize("cpu", levels("host", "x86-64-v3", "generic"))
@pytest.mark.parametrize("pieces", [*PIECES, (1, 2, 4, 8, 16, 32)], ids=str)
@pytest.mark.parametrize("stage", STAGES)
def test_the_reference_machine_agrees(stage: str, pieces: tuple[int, ...], cpu: str) -> None:
    kernel, rng = _kernel(stage, pieces), np.random.default_rng(1)
    x, y = (rng.standard_normal((ROWS, SIZE)).astype(np.float32) / 8 for _ in range(2))
    found, wanted = (np.zeros((2, ROWS, SIZE), np.float32) for _ in range(2))
    tilewright.run(kernel, "k", (1, 1, 1), (x, y, wanted))
    options = LaunchOptions(cpu=cpu)
    tilewright.run(kernel, "k", (1, 1, 1), (x, y, found), machine="cpu", options=options)
    np.testing.assert_array_equal(found, wanted)
