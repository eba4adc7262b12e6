"""``split-carried``: which blocks work in parts, and that results stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.scf import ForOp
from xdsl.ir import Operation

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import compile_kernel
from tilewright.dialects.nv_tileaa import types as T
from tilewright.lowering import lower_to_tileaa
from tilewright.passes import run_pipeline

LOWER = "lower-cuda-tile-to-tileaa"
PASSES = f"{LOWER},split-carried"
LONG, SIDE = 1000, 90
#: What may stand in the loop, or behind it, beside the recurrence, and why its tiles are not split then, if that is tried.
WHOLE = {
    "a sum behind it": "as a whole, too",
    "too much in it": "",
    "few iterations": "",
    "a tile read in it": "",
}


def _recurrence(k: Builder, x: Value, c: Value, rounds: Any, kind: str) -> Value:
    """Some steps of ``one, two = x * one - two + c[n], one``."""
    dims = x.type.dims
    zero = k.zeros(dims, "f32")

    def each(k: Builder, n: Value, one: Value, two: Value) -> list[Value]:
        held, _ = k.load_ptr_tko(k.offset(c, n))
        if kind == "a tile read in it":
            at = k.offset(k.broadcast_to(k.reshape(c, shape=(1,)), dims), k.arange(dims[0]) * 0 + n)
            held, _ = k.load_ptr_tko(at)
        following = x * one - two + held
        if kind == "too much in it":
            for number in range(12):
                following = following * 0.5 + float(number)
        return [following, one]

    one, two = k.for_(k.constant(0, "i32"), rounds, k.constant(1, "i32"), [zero, zero], each)
    return x * one - two


def _kernel(kind: str, dims: tuple[int, ...]) -> Any:
    module = ModuleBuilder()
    arguments = {name: ptr("f32") for name in "xcy"} | {"n": "i32", "rounds": "i32"}
    with module.entry("k", arguments) as k:
        x, c, y, n, rounds = (getattr(k.args, name) for name in ("x", "c", "y", "n", "rounds"))
        if kind == "few iterations":
            rounds = k.constant(3, "i32")
        block, _, _ = k.get_tile_block_id()

        def viewed(k: Builder, place: Value) -> None:
            rank = len(dims)
            views = [
                k.partition(
                    k.make_tensor_view(base, shape=[n] * rank, strides=[n, 1][2 - rank :]),
                    tile=dims,
                    padding="zero",
                )
                for base in (x, y)
            ]
            at = [place, k.constant(0, "i32")][:rank]
            held, _ = k.load_view_tko(views[0], at)
            found = _recurrence(k, held, c, rounds, kind)
            if kind == "a sum behind it":
                found = found - k.broadcast_to(
                    k.reshape(k.fold("sum", found, 0, False), shape=(1,)), dims
                )
            k.store_view_tko(found, views[1], at)

        if kind == "pointers":
            at = block * dims[0] + k.arange(dims[0])
            inside = at < n
            places = [
                k.offset(k.broadcast_to(k.reshape(base, shape=(1,)), dims), at) for base in (x, y)
            ]
            held, _ = k.load_ptr_tko(places[0], inside, 0.0)
            k.store_ptr_tko(places[1], _recurrence(k, held, c, rounds, kind), inside)
        elif kind == "in a loop":
            blocks = (n + (dims[0] - 1)) // dims[0]
            k.for_(block, blocks, k.constant(2, "i32"), [], lambda k, place: viewed(k, place) or [])
        else:
            viewed(k, block)
    return module.build()


def _arrays(rank: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rank)
    n = LONG if rank == 1 else SIDE
    x = rng.integers(-1, 2, (n,) * rank).astype(np.float32)
    return x, rng.integers(-3, 4, 40).astype(np.float32), np.full((n,) * rank, 7, np.float32)


def _dims_of_carried(module: Operation) -> set[tuple[int, ...]]:
    loops = [op for op in module.walk() if isinstance(op, ForOp)]
    return {dims for op in loops for v in op.results if (dims := T.dims_of(v.type))}


@pytest.mark.parametrize(
    ("kind", "dims"),
    [
        *(
            (kind, dims)
            for kind in ("plain", "pointers", "in a loop")
            for dims in ((256,), (1024,))
        ),
        *(("rows", dims) for dims in ((4, 128), (32, 32), (16, 64))),
    ],
)
def test_results_are_the_same(kind: str, dims: tuple[int, ...]) -> None:
    kernel = _kernel(kind, dims)
    after = run_pipeline(kernel, PASSES, verify_each=True)
    (split,) = _dims_of_carried(after)
    held = int(np.prod(split))
    assert held <= 128 < np.prod(dims), "128 f32 are a quarter of the registers"
    grid = 2 if kind == "in a loop" else -(-(LONG if len(dims) == 1 else SIDE) // dims[0])
    for rounds in (0, 1, 12):
        found = []
        programs = [tilewright.load(lower_to_tileaa(kernel).module, "reference")]
        programs += [tilewright.load(after, "reference")]
        programs += [Program(kernel, options=LaunchOptions(cpu=cpu)) for cpu in ("host", "generic")]
        for program in programs:
            x, c, y = _arrays(len(dims))
            program.launch("k", grid, (x, c, y, x.shape[0], rounds))
            found.append(y.tobytes())
        assert len(set(found)) == 1, rounds


@pytest.mark.parametrize("kind", WHOLE)
def test_others_stay_whole(kind: str) -> None:
    kernel = _kernel(kind, (1024,))
    after = run_pipeline(kernel, PASSES, verify_each=True)
    assert _dims_of_carried(after) == {(1024,)}
    remarks = [str(each.message) for each in compile_kernel(lower_to_tileaa(kernel).module).remarks]
    told = [text for text in remarks if "take more than the registers" in text]
    assert bool(told) == bool(WHOLE[kind])
    assert all(WHOLE[kind] in text for text in told)


def test_a_remark_tells() -> None:
    module = lower_to_tileaa(_kernel("plain", (1024,))).module
    remarks = [str(each.message) for each in compile_kernel(module).remarks]
    assert any("parts, so that tiles that it carries stay in registers" in each for each in remarks)
