"""Scans with layouts: in registers, by shuffles, across warps."""

from __future__ import annotations

import random
from math import prod

import numpy as np
import pytest
from tests.lowering.nvgpu.support import random_layout
from tests.machine.kernels import ELEMENTS, checked, kernel_text, tile_of

from tilewright import LaunchOptions
from tilewright.layouts.reductions import beyond_warps, index_bits_along
from tilewright.machine import Program as Reference
from tilewright.passes.tileas import assign_layouts, reduction_layouts
from tilewright.simulator.tiles import TileProgram

ARCHITECTURES = ("sm_80", "sm_90a", "sm_120a")


def run(
    body: str, inputs: dict[str, np.ndarray], results: dict[str, np.ndarray], arch: str = "sm_90a"
) -> tuple[list[np.ndarray], list[np.ndarray], TileProgram]:
    """What threads give, which the simulator watches for races, and the reference machine."""
    module = checked(kernel_text(body, inputs, results))
    arrays = [np.atleast_1d(a).copy() for a in (*inputs.values(), *results.values())]
    expected = [a.copy() for a in arrays]
    Reference(module).launch(None, 1, expected)
    program, found = TileProgram(module, arch), arrays
    for seed in range(2):
        found = [a.copy() for a in arrays]
        program.launch(None, 1, found, LaunchOptions(seed=seed))
    assert program.fallbacks == {}
    return found, expected, program


def scan_text(x: np.ndarray, axis: int, backwards: bool, op: str = "addi") -> str:
    ty, element = tile_of(x), ELEMENTS[x.dtype]
    zero = "0" if element[0] == "i" else "0.0"
    return (
        f"%r = scan %x dim={axis} reverse={str(backwards).lower()} identities=[{zero} : {element}] "
        f": {ty} -> {ty} (%a: tile<{element}>, %b: tile<{element}>) "
        f"{{ %s = {op} %a, %b : tile<{element}> yield %s : tile<{element}> }}"
    )


SHAPES = [
    ((1,), 0),
    ((2,), 0),
    ((64,), 0),
    ((1024,), 0),
    ((8192,), 0),
    ((64, 64), 0),
    ((64, 64), 1),
    ((1, 2048), 1),
    ((2048, 1), 0),
    ((128, 16), 0),
    ((8, 512), 1),
    ((16, 8, 32), 1),
    ((16, 8, 32), 0),
]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_sums(shape: tuple[int, ...], axis: int, backwards: bool) -> None:
    x = np.random.default_rng(prod(shape)).integers(-99, 99, shape).astype(np.int32)
    found, expected, _ = run(scan_text(x, axis, backwards), {"x": x}, {"r": np.zeros_like(x)})
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64, np.float16, np.float32, np.float64])
def test_element_types(dtype: type, arch: str) -> None:
    """Small integers are exact in all of them, whatever the order."""
    x = np.random.default_rng(5).integers(-1, 2, (4, 512)).astype(dtype)
    op = "addi" if np.dtype(dtype).kind == "i" else "addf"
    found, expected, _ = run(scan_text(x, 1, False, op), {"x": x}, {"r": np.zeros_like(x)}, arch)
    np.testing.assert_array_equal(found[1], expected[1])


def affine(shape: tuple[int, ...], axis: int, backwards: bool) -> str:
    """x -> a * x + b, one behind the other: two operands, and the order counts."""
    ty = "tile<" + "".join(f"{extent}x" for extent in shape) + "i32>"
    scalar = "tile<i32>"
    return (
        f"%r, %q = scan %x, %y dim={axis} reverse={str(backwards).lower()} "
        f"identities=[1 : i32, 0 : i32] : {ty}, {ty} -> {ty}, {ty} "
        f"(%a: {scalar}, %pa: {scalar}, %b: {scalar}, %pb: {scalar}) {{ "
        f"%m = muli %a, %pa : {scalar} %n = muli %a, %pb : {scalar} %s = addi %n, %b : {scalar} "
        f"yield %m, %s : {scalar}, {scalar} }}"
    )


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((2048,), 0), ((64, 32), 0), ((4, 256), 1)])
def test_bodies_that_do_not_commute(shape: tuple[int, ...], axis: int, backwards: bool) -> None:
    rng = np.random.default_rng(1)
    inputs = {name: rng.integers(-99, 99, shape).astype(np.int32) for name in "xy"}
    results = {name: np.zeros(shape, np.int32) for name in "rq"}
    found, expected, _ = run(affine(shape, axis, backwards), inputs, results)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.rotates(3)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_any_layout(seed: int, backwards: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    shape, axis = rng.choice([((512,), 0), ((16, 32), 0), ((8, 64), 1), ((4, 16, 8), 1)])
    while True:
        layout = random_layout(rng, 512, 128)
        places = index_bits_along(layout, shape, axis)
        assert places is not None
        if beyond_warps(places) <= 32:
            break
    monkeypatch.setattr(assign_layouts, "scans_well", lambda *_: False)
    monkeypatch.setattr(assign_layouts, "scan_layout", lambda *_: layout)
    inputs = {
        name: np.random.default_rng(seed).integers(-99, 99, shape).astype(np.int32) for name in "xy"
    }
    results = {name: np.zeros(shape, np.int32) for name in "rq"}
    found, expected, _ = run(affine(shape, axis, backwards), inputs, results)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_barrier_and_few_shuffles() -> None:
    """A row of 1024, of which four warps load 16 bytes each thread: what warps come to, each once."""
    x = np.random.default_rng(0).integers(-9, 9, 1024).astype(np.float32)
    tensor = "tensor_view<1024xf32, strides=[1]>"
    views = "".join(
        f"%p{name} = assume div_by<16>, %ptr_{name} : tile<ptr<f32>>\n"
        f"%v{name} = make_tensor_view %p{name}, shape = [1024], strides = [1] : {tensor}\n"
        f"%w{name} = make_partition_view %v{name} : partition_view<tile=(1024), {tensor}>\n"
        for name in "xr"
    )
    at = f"[%zero] : partition_view<tile=(1024), {tensor}>, tile<i32> -> "
    load = f"%y, %t = load_view_tko weak %wx{at}tile<1024xf32>, token\n"
    scan = scan_text(x, 0, False, "addf").replace("%x", "%y").replace("%r ", "%q ")
    at = f"[%zero] : tile<1024xf32>, partition_view<tile=(1024), {tensor}>, tile<i32> -> "
    store = f"\n%u = store_view_tko weak %q, %wr{at}token\n"
    found, expected, program = run(views + load + scan + store, {"x": x}, {"r": x * 0})
    np.testing.assert_array_equal(found[1], expected[1])
    names = [op.name for op in program.threads().walk()]
    assert names.count("gpu.barrier") == 1
    # For each of two groups of neighbours five steps, and the sum of all lanes below.
    assert names.count("gpu.shuffle") == 12


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("threads", [32, 128, 1024])
def test_layouts_of_scans(shape: tuple[int, ...], axis: int, threads: int) -> None:
    layout = reduction_layouts.scan_layout(shape, axis, threads)
    assert (layout.size, layout.threads) == (prod(shape), threads)
    assert reduction_layouts.scans_well(layout, shape, axis)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_sums_of_floats_are_near(dtype: type) -> None:
    """In another order: off by no more than the roundings of as many sums."""
    x = np.random.default_rng(2).standard_normal(2048).astype(dtype)
    found, _, _ = run(scan_text(x, 0, False, "addf"), {"x": x}, {"r": np.zeros_like(x)})
    exact = np.cumsum(x.astype(np.float64))
    # Each element is in at most 3 + 5 + 1 + 8 sums, one behind the other.
    bound = 17 * np.finfo(dtype).eps * np.cumsum(np.abs(x.astype(np.float64)))
    assert (np.abs(found[1].astype(np.float64) - exact) <= bound).all()
