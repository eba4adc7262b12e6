"""Atomic updates of tiles with layouts: each element once, wherever it is held."""

from __future__ import annotations

import numpy as np
import pytest
from tests.lowering.nvgpu.test_parts import any_layouts as any_layouts
from tests.lowering.nvgpu.test_parts import ty
from tests.lowering.nvgpu.test_scans import ARCHITECTURES, run

SHAPE = (16, 32)


def pointers(name: str, element: str, numbers: str, shape: tuple[int, ...] = SHAPE) -> str:
    """Lines that define ``%at``: pointers to the elements of an array with these numbers."""
    ones = ty((1,) * len(shape), f"ptr<{element}>")
    return (
        f"%one_p = reshape %ptr_{name} : tile<ptr<{element}>> -> {ones}\n"
        f"%all_p = broadcast %one_p : {ones} -> {ty(shape, f'ptr<{element}>')}\n"
        f"%at = offset %all_p, {numbers} : {ty(shape, f'ptr<{element}>')}, {ty(shape, 'i32')} -> "
        f"{ty(shape, f'ptr<{element}>')}\n"
    )


@pytest.mark.usefixtures("any_layouts")
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("order", ["relaxed", "acq_rel", "release"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("element", ["i32", "f32", "i64"])
def test_updates(element: str, masked: bool, order: str, arch: str) -> None:
    """Bins that several elements go to; the sums are those of a loop."""
    rng = np.random.default_rng(4)
    dtype = {"i32": np.int32, "f32": np.float32, "i64": np.int64}[element]
    x = rng.integers(-9, 9, SHAPE).astype(dtype)
    at = rng.integers(0, 64, SHAPE).astype(np.int32)
    keep = at % 3 != 0
    mode = "addf" if element[0] == "f" else "add"
    mask, mask_ty = (", %keep", f", {ty(SHAPE, 'i1')}") if masked else ("", "")
    text = (
        f"%three = constant <i32: 3> : {ty(SHAPE, 'i32')}\n"
        f"%none = constant <i32: 0> : {ty(SHAPE, 'i32')}\n"
        f"%rest = remi %y, %three signed : {ty(SHAPE, 'i32')}\n"
        f"%keep = cmpi not_equal %rest, %none, signed : {ty(SHAPE, 'i32')} -> {ty(SHAPE, 'i1')}\n"
        + pointers("bins", element, "%y")
        + f"%old, %done = atomic_rmw_tko {order} device %at, {mode}, %x{mask} : "
        f"{ty(SHAPE, f'ptr<{element}>')}, {ty(SHAPE, element)}{mask_ty} -> {ty(SHAPE, element)}, token\n"
    )
    bins = np.zeros(64, dtype)
    found, _, _ = run(text, {"x": x, "y": at, "bins": bins}, {})
    expected = bins.copy()
    np.add.at(expected, at[keep] if masked else at, x[keep] if masked else x)
    np.testing.assert_array_equal(found[2], expected)


def every(order: str, more: str = "") -> str:
    """An update of a bin for each element; ``%old`` are the old values."""
    element = "i32"
    return (
        f"%lane = iota : {ty((512,), 'i32')}\n%number = reshape %lane : {ty((512,), 'i32')} -> "
        f"{ty(SHAPE, 'i32')}\n"
        + pointers("bins", element, "%number")
        + f"%old, %done = atomic_rmw_tko {order} device %at, add, %x : "
        f"{ty(SHAPE, f'ptr<{element}>')}, {ty(SHAPE, element)} -> {ty(SHAPE, element)}, token\n{more}"
    )


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("order", ["relaxed", "acq_rel", "release", "acquire"])
def test_nobody_waits_for_what_nobody_reads(order: str, arch: str) -> None:
    x = np.arange(512, dtype=np.int32).reshape(SHAPE)
    bins = np.ones(512, np.int32)
    found, _, program = run(every(order), {"x": x, "bins": bins}, {}, arch)
    np.testing.assert_array_equal(found[1], 1 + x.ravel())
    names = [op.name for op in program.threads().walk()]
    assert "gpu.barrier" not in names
    assert names.count("llvm.fence") == (order in ("acq_rel", "release"))
    assert names.count("llvm.atomicrmw") == 512 // 128


@pytest.mark.usefixtures("any_layouts")
@pytest.mark.parametrize("order", ["relaxed", "acq_rel"])
def test_old_values(order: str) -> None:
    x = np.arange(512, dtype=np.int32).reshape(SHAPE)
    bins = np.arange(512, dtype=np.int32)[::-1].copy()
    text = every(order, f"%r = addi %old, %old : {ty(SHAPE, 'i32')}\n")
    found, expected, _ = run(text, {"x": x, "bins": bins}, {"r": np.zeros(SHAPE, np.int32)})
    np.testing.assert_array_equal(found[2], 2 * bins.reshape(SHAPE))
    np.testing.assert_array_equal(found[1], expected[1])


def test_copies_are_counted_once() -> None:
    """Sixteen elements, and 128 threads that hold them."""
    x = np.ones(16, np.int32)
    bins = np.zeros(16, np.int32)
    text = (
        f"%lane = iota : {ty((16,), 'i32')}\n"
        + pointers("bins", "i32", "%lane", (16,))
        + f"%old, %done = atomic_rmw_tko relaxed device %at, add, %x : {ty((16,), 'ptr<i32>')}, "
        f"{ty((16,), 'i32')} -> {ty((16,), 'i32')}, token\n"
    )
    found, _, _ = run(text, {"x": x, "bins": bins}, {})
    assert (found[1] == 1).all()
