"""``single-reductions``: which reductions become views, and that results stay the same bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.builder import ModuleBuilder, ptr
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.numerics.arrays import dtype_of
from tilewright.passes import run_pipeline

LOWER = "lower-cuda-tile-to-tileaa"
PASSES = f"{LOWER},single-reductions"


def _kernel(element: str, shape: tuple[int, ...], axis: int, body: str) -> Any:
    """What a tile comes to along an axis, and along the last one of what is left, which goes to each element of ``y``."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr(element), "y": ptr(element)}) as k:
        strides = [int(np.prod(shape[n + 1 :], dtype=int)) for n in range(len(shape))]
        view = k.make_tensor_view(k.args.x, shape=list(shape), strides=strides)
        x, _ = k.load_view_tko(k.partition(view, tile=shape), [0] * len(shape))
        found = {"sum": x.sum, "max": x.max, "min": x.min}[body](axis=axis)
        rest = tuple(n for place, n in enumerate(shape) if place != axis)
        strides = [int(np.prod(rest[n + 1 :], dtype=int)) for n in range(len(rest))]
        out = k.make_tensor_view(k.args.y, shape=list(rest), strides=strides)
        k.store_view_tko(found, k.partition(out, tile=rest), [0] * len(rest))
    return module.build()


def _reductions(module: Any) -> int:
    return sum(isinstance(op, ReduceOp) for op in module.walk())


@pytest.mark.parametrize("shape, axis", [((1, 64), 0), ((64, 1), 1), ((4, 1, 8), 1)], ids=str)
@pytest.mark.parametrize("body", ["sum", "max", "min"])
@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64", "i8", "i64"])
def test_single_elements_are_what_they_are(
    element: str, body: str, shape: tuple[int, ...], axis: int
) -> None:
    kernel, dtype = _kernel(element, shape, axis, body), dtype_of(element)
    assert _reductions(run_pipeline(kernel, LOWER)) == 1
    assert _reductions(run_pipeline(kernel, PASSES, verify_each=True)) == 0
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)
    if element[0] != "i":
        # The body would make another NaN of one, and +0 of -0.
        bits = x.view(f"u{dtype.itemsize}").reshape(-1)
        zero, nan = np.array([-0.0, np.nan], dtype).view(bits.dtype)
        bits[:3] = zero, nan, nan + 1
    for machine in ("reference", "cpu"):
        y = np.zeros(x.size, dtype)
        tilewright.run(kernel, "k", (1,), (x, y), machine=machine)
        assert y.tobytes() == x.tobytes()


@pytest.mark.parametrize("shape, axis", [((2, 64), 0), ((1, 64), 1), ((1,), 0)], ids=str)
def test_others_stay(shape: tuple[int, ...], axis: int) -> None:
    """Several elements, and results that are no tiles."""
    if len(shape) > 1:
        assert _reductions(run_pipeline(_kernel("f32", shape, axis, "sum"), PASSES)) == 1
        return
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32")}) as k:
        view = k.partition(k.make_tensor_view(k.args.x, shape=[1], strides=[1]), tile=(1,))
        x, _ = k.load_view_tko(view, [0])
        k.store_ptr_tko(k.args.x, x.sum(axis=0))
    assert _reductions(run_pipeline(module.build(), PASSES)) == 1


def test_sums_of_a_whole_row_are_merged() -> None:
    """Along the row they have one shape then."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "y": ptr("f32")}) as k:
        view = k.make_tensor_view(k.args.x, shape=[1, 512], strides=[512, 1])
        x, _ = k.load_view_tko(k.partition(view, tile=(1, 512)), [0, 0])
        totals = [v.sum(axis=0).sum(axis=0) for v in (x, x * x)]
        out = k.make_tensor_view(k.args.y, shape=[2], strides=[1])
        for place, total in enumerate(totals):
            one = k.reshape(total, shape=(1,))
            k.store_view_tko(one, k.partition(out, tile=(1,)), [place])
    kernel = module.build()
    assert _reductions(run_pipeline(kernel, f"{PASSES},merge-reductions")) == 1
    x, y = np.arange(512, dtype=np.float32), np.zeros(2, np.float32)
    tilewright.run(kernel, "k", (1,), (x, y), machine="cpu")
    assert y.tolist() == [x.sum(), (x * x).sum()]
