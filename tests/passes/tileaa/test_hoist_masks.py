"""``hoist-masks``: what moves out of loops, and that results stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.scf import ForOp
from xdsl.ir import Operation

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr, tile
from tilewright.cpu import Program
from tilewright.dialects.arith.comparison import CmpiOp
from tilewright.dialects.arith.integer import FloorDivSIOp, RemSIOp
from tilewright.lowering import lower_to_tileaa
from tilewright.passes import run_pipeline

LOWER = "lower-cuda-tile-to-tileaa"
PASSES = f"{LOWER},merge-equal,hoist-masks"
TILE, SIDE = 64, 50

Mask = Callable[[Builder, Value, Value, Value], Value]
"""From the columns, the channel, and how many columns there are, which columns are read."""


def _inside(k: Builder, at: Value, c: Value, n: Value) -> Value:
    return (at >= 0) & (at < n) & (at != 7)


MASKS: dict[str, Mask] = {
    "of places": _inside,
    "of places and the channel": lambda k, at, c, n: _inside(k, at, c, n) & (at != c) & (c < 9),
    "odd ones": lambda k, at, c, n: _inside(k, at, c, n) & (at % 2 == 1),
    "by a quotient": lambda k, at, c, n: _inside(k, at, c, n) & (at // 4 < 9),
    "of the channel": lambda k, at, c, n: (at + c >= 0) & (at + c * 2 < n) & (at < n) & (at >= 0),
}


def _kernel(mask: Mask, *, halved: bool = False, by: bool = False) -> Any:
    """A sum over channels of three neighbours. ``halved``: every other one of what is read is itself halved; ``by``: masks
    divide by a number that is not known."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "y": ptr("f32"), "n": "i32", "channels": "i32"}) as k:
        block, _, _ = k.get_tile_block_id()
        column = block * TILE + k.arange(TILE)
        n, zero = k.args.n, k.constant(0, "i32")

        def spread(base: Value) -> Value:
            return k.broadcast(k.reshape(base, shape=(1,)), shape=(TILE,))

        def channel(k: Builder, c: Value, total: Value) -> list[Value]:
            for tap in (-1, 0, 1):
                at = column + tap
                on = mask(k, at, c, n)
                if by:
                    on = on & (at // k.args.channels < 5)
                place = at // 2 if halved else at
                held, _ = k.load_ptr_tko(k.offset(spread(k.args.x), place + c * n), on, 0.0)
                total = total * 0.5 + held
            return [total]

        begin = k.constant(0.0, tile((TILE,), "f32"))
        (total,) = k.for_(zero, k.args.channels, k.constant(1, "i32"), [begin], channel)
        k.store_ptr_tko(k.offset(spread(k.args.y), column), total)
    return module.build()


def _in_loops(module: Any, kind: type[Operation]) -> int:
    """How many operations on tiles stand in loops."""
    loops = [op for op in module.walk() if isinstance(op, ForOp)]
    found = {id(op) for loop in loops for op in loop.walk() if isinstance(op, kind)}
    return len(found)


@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_results_are_the_same(name: str, halved: bool) -> None:
    kernel = _kernel(MASKS[name], halved=halved)
    after = run_pipeline(kernel, PASSES, verify_each=True)
    for channels in (0, 1, 11):
        x = np.arange(SIDE * 12, dtype=np.float32)
        found = []
        for module in (lower_to_tileaa(kernel).module, after):
            y = np.zeros(2 * TILE, np.float32)
            tilewright.run(module, "k", (2,), (x, y, SIDE, channels))
            found.append(y)
        y = np.zeros(2 * TILE, np.float32)
        Program(kernel, options=LaunchOptions(threads=1)).launch("k", 2, (x, y, SIDE, channels))
        np.testing.assert_array_equal(found, [y, y])


def test_what_the_loop_does_not_change_stands_before_it() -> None:
    before = _in_loops(run_pipeline(_kernel(MASKS["of places"]), LOWER), CmpiOp)
    assert before == 9
    assert _in_loops(run_pipeline(_kernel(MASKS["of places"]), PASSES), CmpiOp) == 0
    assert _in_loops(run_pipeline(_kernel(MASKS["odd ones"]), PASSES), RemSIOp) == 0
    # Two of five comparisons for each tap are with the channel.
    mixed = run_pipeline(_kernel(MASKS["of places and the channel"]), PASSES)
    assert _in_loops(mixed, CmpiOp) in (4, 6)


def test_quotients_stay_where_they_tell_where_to_read() -> None:
    """Before the loop they would be numbers in memory, which say nothing of neighbours."""
    by_quotient = MASKS["by a quotient"]
    alone = run_pipeline(_kernel(by_quotient), PASSES)
    assert _in_loops(alone, FloorDivSIOp) == 0

    def halved(k: Builder, at: Value, c: Value, n: Value) -> Value:
        return _inside(k, at, c, n) & (at // 2 < 9)

    assert _in_loops(run_pipeline(_kernel(halved, halved=True), PASSES), FloorDivSIOp) == 3


def test_what_may_be_undefined_stays() -> None:
    """A loop that does not run divides by nothing."""
    kernel = _kernel(MASKS["of places"], by=True)
    assert _in_loops(run_pipeline(kernel, PASSES), FloorDivSIOp) == 3
    y = np.ones(2 * TILE, np.float32)
    for machine in ("reference", "cpu"):
        tilewright.run(kernel, "k", (2,), (np.zeros(9, np.float32), y, 9, 0), machine=machine)
        assert (y == 0).all()
