"""``one-axis``: what is computed on tiles of one axis, and that results stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import compile_kernel
from tilewright.dialects.arith.base import ArithOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.lowering import lower_to_tileaa
from tilewright.passes import run_pipeline

LOWER = "lower-cuda-tile-to-tileaa"
PASSES = f"{LOWER},merge-equal,one-axis"
WIDTH, PLACES, CHANNELS, SIZE = 32, 8, 48, 9


def _windows(divisor: int | None, *, column: bool = False, divides: bool = True) -> Any:
    """Windows of three pixels by flat places: ``y[place, inner] = x[place + tap, channel]``, the places along columns or rows."""
    module = ModuleBuilder()
    arrays = {"x": ptr("f32"), "y": ptr("f32")}
    with module.entry("k", arrays | {"channels": "i32", "count": "i32"}) as k:
        block, _, _ = k.get_tile_block_id()
        dims = (WIDTH, PLACES) if column else (PLACES, WIDTH)
        along = (WIDTH, 1) if column else (1, WIDTH)
        across = (1, PLACES) if column else (PLACES, 1)
        inner = k.reshape(block * WIDTH + k.arange(WIDTH), shape=along)
        place = k.reshape(k.arange(PLACES), shape=across)
        by: Any = k.args.channels if divisor is None else divisor
        if divides:
            tap, channel = inner // by, inner % by
        else:
            tap, channel = inner + 1, inner * 2
        whole = k.broadcast_to(place, dims) + k.broadcast_to(tap, dims)
        source = whole * by + k.broadcast_to(channel, dims)
        inside = (source >= 0) & (source < k.args.count)
        held, _ = k.load_ptr_tko(_at(k, k.args.x, source), inside, 0.0)
        to = k.broadcast_to(place * (4 * WIDTH), dims) + k.broadcast_to(inner, dims)
        k.store_ptr_tko(_at(k, k.args.y, to), held)
    return module.build()


def _at(k: Builder, base: Value, places: Value) -> Value:
    return k.offset(k.broadcast_to(k.reshape(base, shape=(1, 1)), places.type.dims), places)


def _dims(module: Any) -> set[tuple[int, ...]]:
    """Of which shapes quotients and remainders are."""
    return {
        T.dims_of(op.results[0].type)
        for op in module.walk()
        if isinstance(op, ArithOp) and op.MEANING in ("divi", "remi")
    }


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("divisor", [48, 16, 5, 3, None])
def test_results_are_the_same(divisor: int | None, column: bool) -> None:
    kernel = _windows(divisor, column=column)
    before = lower_to_tileaa(kernel).module
    after = run_pipeline(kernel, PASSES, verify_each=True)
    long = (WIDTH, 1) if column else (1, WIDTH)
    assert long in _dims(before)
    assert _dims(after) == {(WIDTH,)}
    x = np.arange(SIZE * CHANNELS, dtype=np.float32)
    found = []
    programs = [tilewright.load(module, "reference") for module in (before, after)]
    for program in (*programs, Program(kernel)):
        y = np.full((PLACES, 4 * WIDTH), -1, np.float32)
        program.launch("k", 4, (x, y, divisor or 7, x.size))
        found.append(y.tobytes())
    assert len(set(found)) == 1


def test_nothing_changes_without_a_quotient() -> None:
    before, after = (run_pipeline(_windows(4, divides=False), passes) for passes in (LOWER, PASSES))
    shapes = [
        sorted(T.dims_of(op.results[0].type) for op in module.walk() if isinstance(op, ArithOp))
        for module in (before, after)
    ]
    assert (1, WIDTH) in shapes[1]
    assert set(shapes[0]) == set(shapes[1])


def test_channels_lie_side_by_side() -> None:
    """Runs of 16 of 48 channels are loaded as they lie."""
    compiled = compile_kernel(lower_to_tileaa(_windows(48)).module)
    assert not [each for each in compiled.remarks if each.kind == "gather"]
