"""Rows of flat indices, taken in pieces within which their quotients stay."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.memory.test_quotients_of_places import VARIANTS

from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.codegen.loops import over_shapes
from tilewright.cpu.codegen.loops.row_ends import PIECES_REMARK
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.dialects.cuda_tile.attributes import BoundedAttr
from tilewright.lowering import lower_to_tileaa
from tilewright.machine import Program as Reference

_LONG = 4000


def _spread(k: Builder, value: Value, tile: int) -> Value:
    return k.broadcast(k.reshape(value, shape=[1]), shape=[tile])


def _kernel(shape: dict[str, Any], tile: int) -> Any:
    """``out[i] = a[flat // width, flat % width // by] * 2 + b[(row + 1) % height, (column + more) % width]``."""
    module = ModuleBuilder()
    names = {"a": ptr("f32"), "b": ptr("f32"), "out": ptr("f32")}
    numbers = dict.fromkeys(("width", "height", "by", "total", "start"), "i32")
    with module.entry("k", {**names, **numbers}) as k:

        def extent(name: str) -> Value:
            known = (
                getattr(k.args, name)
                if name not in shape["fixed"]
                else k.constant(shape[name], "i32")
            )
            return _spread(k, k.assume(known, predicate=BoundedAttr(0, None)), tile)

        width, height, by = extent("width"), extent("height"), extent("by")
        begin = k.get_tile_block_id()[0] * tile + k.args.start
        i = k.iota(shape=[tile], to="i32") + _spread(k, begin, tile)
        row, column = i // width, i % width
        on = (i < _spread(k, k.args.total, tile)) & (i >= 0)
        if shape["masked"]:
            on = on & (row < height)
        first = row * width + column // by
        second = (row + 1) % height * width + (column + shape["more"]) % width
        zeros = k.zeros((tile,), "f32")
        left, _ = k.load_ptr_tko(k.offset(_spread(k, k.args.a, tile), first), on, zeros)
        right, _ = k.load_ptr_tko(k.offset(_spread(k, k.args.b, tile), second), on, zeros)
        out = k.offset(_spread(k, k.args.out, tile), i)
        k.store_ptr_tko(out, left * 2.0 + right, on)
    return module.build()


def _check(seed: int) -> None:
    rng = random.Random(seed)
    shape: dict[str, Any] = {
        "width": rng.choice((3, 7, 8, 24, 40, 41, 64, 100, 256, 300, 1000)),
        "by": rng.choice((1, 2, 5, 8, 13, 40)),
        "more": rng.choice((0, 1, 5)),
        "fixed": [name for name in ("width", "height", "by") if rng.random() < 0.3],
        "masked": rng.random() < 0.5,
    }
    shape["height"] = rng.choice((1, 2, _LONG // shape["width"], _LONG // shape["width"] + 3))
    shape["height"] = max(shape["height"], 1)
    shape["more"] = shape["more"] % shape["width"]
    tile = rng.choice((64, 128, 256, 1024))
    total = rng.choice((0, 1, 500, 1111, _LONG))
    start = rng.choice((0, 0, 0, 3, -5))
    grid = -(-_LONG // tile) + 1
    module = _kernel(shape, tile)
    values = np.random.default_rng(seed).normal(size=(2, _LONG + 3 * 1000)).astype(np.float32)
    given = [shape[name] for name in ("width", "height", "by")]
    expected = np.zeros(_LONG, np.float32)
    Reference(module).launch("k", grid, (*values.copy(), expected, *given, total, start))
    for options in VARIANTS:
        found = np.zeros(_LONG, np.float32)
        program = Program(module, options=LaunchOptions(**options))
        program.launch("k", grid, (*values.copy(), found, *given, total, start))
        np.testing.assert_array_equal(found, expected, err_msg=str((options, shape, tile, start)))


@pytest.mark.rotates(3)
@pytest.mark.parametrize("seed", range(30))
def test_they_are_those_of_the_reference(seed: int) -> None:
    _check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_more_are_those_of_the_reference(seed: int) -> None:
    _check(seed)


@pytest.mark.parametrize(("tile", "pieces"), [(256, True), (16, False)])
def test_rows_of_several_vectors_are_taken_in_pieces(
    tile: int, pieces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    real = over_shapes.loops_by_pieces

    def noted(*given: Any) -> None:
        taken.append(1)
        real(*given)

    monkeypatch.setattr(over_shapes, "loops_by_pieces", noted)
    shape = {"width": 100, "height": 40, "by": 20, "more": 0, "fixed": [], "masked": False}
    module = lower_to_tileaa(_kernel(shape, tile)).module
    remarks = compile_kernel(module, None, CompileOptions()).remarks
    assert bool(taken) == any(each.message == PIECES_REMARK for each in remarks) == pieces
