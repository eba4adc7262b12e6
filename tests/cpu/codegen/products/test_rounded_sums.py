"""Sums of products that are written to arrays of narrower floats at once: rounded once, and nothing beside them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.products.test_extents import among_others, blocks

from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr, tile
from tilewright.cpu import Program
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

Array = np.ndarray[Any, Any]
Tiles = tuple[int, int, int]
ROUNDED = "rounded to"
EXTENTS = ((128, 128, 128), (65, 66, 67), (50, 40, 64), (1, 1, 33), (7, 130, 50), (100, 40, 95))


@functools.cache
def rounding(
    element: str, to: str, dims: Tiles, *, loop: bool, more_axes: bool = False, twice: bool = False
) -> Any:
    """``c = to(a @ b)`` by tiles; ``twice``: stored to another array as well, as it is."""
    module = ModuleBuilder()
    tile_m, tile_n, tile_k = dims
    pointers = {"a": ptr(element), "b": ptr(element), "c": ptr(to), "d": ptr("f32")}
    with module.entry("rounding", pointers | dict.fromkeys("mnk", "i32")) as k:
        args = k.args
        row, column, _ = k.get_tile_block_id()

        def view(base: Value, extents: list[Value], shape: tuple[int, ...]) -> Value:
            strides: list[Any] = [extents[1], 1]
            if len(shape) == 3:
                extents, strides = [k.constant(1, "i32"), *extents], [extents[1], *strides]
            whole = k.make_tensor_view(base, shape=extents, strides=strides)
            return k.partition(whole, tile=shape, padding="zero")

        a = view(args.a, [args.m, args.k], (tile_m, tile_k))
        b = view(args.b, [args.k, args.n], (tile_k, tile_n))

        def body(inner: Builder, step: Value, total: Value) -> Value:
            left, _ = inner.load_view_tko(a, [row, step])
            right, _ = inner.load_view_tko(b, [step, column])
            return inner.mmaf(left, right, total)

        zero, one = k.constant(0, "i32"), k.constant(1, "i32")
        total = k.constant(0.0, tile((tile_m, tile_n), "f32"))
        if loop:
            steps = k.divi(
                args.k, k.constant(tile_k, "i32"), rounding="positive_inf", signedness="signed"
            )
            (total,) = k.for_(zero, steps, one, [total], body)
        else:
            total = body(k, zero, total)
        if twice:
            k.store_view_tko(total, view(args.d, [args.m, args.n], dims[:2]), [row, column])
        found, shape, at = k.ftof(total, to=to), dims[:2], [row, column]
        if more_axes:
            shape, at = (1, *shape), [zero, *at]
            found = k.reshape(found, shape=shape)
        k.store_view_tko(found, view(args.c, [args.m, args.n], shape), at)
    return module.build()


@functools.lru_cache(maxsize=4)
def _program(module: Any) -> Program:
    return Program(module, options=LaunchOptions(threads=1))


def checked(module: Any, element: str, to: str, dims: Tiles, extents: Tiles, scale: float) -> None:
    """Run it on integers times a power of two, of which sums are exact."""
    m, n, k = extents
    rng = np.random.default_rng(m + n + k)
    whole = [rng.integers(-15, 16, shape) for shape in ((m, k), (k, n))]
    a, b = (
        among_others((x * factor).astype(dtype_of(element)), np.nan)
        for x, factor in zip(whole, (scale, 1.0), strict=True)
    )
    c = among_others(np.full((m, n), 5, dtype_of(to)), 3)
    d = np.zeros((m, n), np.float32)
    _program(module).launch(None, blocks((m, n), dims), (a, b, c, d, m, n, k))
    exact = (whole[0] @ whole[1]).astype(np.float32) * np.float32(scale)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(c, exact.astype(dtype_of(to)), err_msg=str(extents))
    assert c.base is not None
    assert (c.base[:4096] == 3).all() and (c.base[-4096:] == 3).all(), extents


@pytest.mark.rotates(6)
@pytest.mark.parametrize("more_axes", [False, True])
@pytest.mark.parametrize(
    "dims",
    [(32, 32, 32), (64, 128, 64), (16, 16, 16), (32, 2, 64), (8, 64, 32), (2, 64, 64), (1, 8, 64)],
    ids=str,
)
@pytest.mark.parametrize("to", ["f16", "bf16"])
@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
def test_sums_are_rounded_once(element: str, to: str, dims: Tiles, more_axes: bool) -> None:
    module = rounding(element, to, dims, loop=True, more_axes=more_axes)
    for extents in EXTENTS:
        checked(module, element, to, dims, extents, 1.0)


@pytest.mark.parametrize("scale", [2.0**-24, 2.0**6])
@pytest.mark.parametrize("to", ["f16", "bf16"])
@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
def test_small_and_large_sums(element: str, to: str, scale: float) -> None:
    """In f16 they are subnormal, and infinite."""
    module = rounding(element, to, (64, 64, 64), loop=False)
    checked(module, element, to, (64, 64, 64), (100, 90, 50), scale)


def test_subnormal_sums_of_f32_are_rounded_to_bf16() -> None:
    """There the processor's own instruction would make zeros of them."""
    dims = (32, 32, 32)
    a, b = np.full((32, 32), 2.0**-100, np.float32), np.full((32, 32), 2.0**-35, np.float32)
    c, d = np.ones((32, 32), dtype_of("bf16")), np.zeros((32, 32), np.float32)
    module = rounding("f32", "bf16", dims, loop=True)
    Program(module).launch(None, (1, 1, 1), (a, b, c, d, *dims))
    assert (c.astype(np.float32) == 2.0**-130).all()


def test_sums_of_a_product_in_f16_are_rounded_once() -> None:
    """The product itself has a result of f16."""
    dims, module = (64, 64, 32), ModuleBuilder()
    with module.entry("halves", {name: ptr("f16") for name in "abc"}) as k:
        row, column, _ = k.get_tile_block_id()
        zero = k.constant(0, "i32")

        def view(base: Value, extents: tuple[int, int], shape: tuple[int, int]) -> Value:
            whole = k.make_tensor_view(base, shape=extents, strides=[extents[1], 1])
            return k.partition(whole, tile=shape, padding="zero")

        a, _ = k.load_view_tko(view(k.args.a, (100, 30), (64, 32)), [row, zero])
        b, _ = k.load_view_tko(view(k.args.b, (30, 70), (32, 64)), [zero, column])
        c = view(k.args.c, (100, 70), (64, 64))
        before, _ = k.load_view_tko(view(k.args.a, (100, 30), (64, 64)), [row, zero])
        k.store_view_tko(k.mmaf(a, b, before), c, [row, column])
    built = module.build()
    assert f"{ROUNDED} f16" in remarks(built)
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-99, 100, shape) for shape in ((100, 30), (30, 70)))
    a, b = (each.astype(np.float16) for each in (x, y))
    c = among_others(np.zeros((100, 70), np.float16), 3)
    Program(built).launch(None, blocks((100, 70), dims), (a, b, c))
    begin = np.zeros((100, 128), int)
    begin[:, :30] = begin[:, 64:94] = x
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(c, (x @ y + begin[:, :70]).astype(np.float16))
    assert c.base is not None
    assert (c.base[:4096] == 3).all() and (c.base[-4096:] == 3).all()


def remarks(module: Any) -> str:
    made = compile_kernel(
        lower_to_tileaa(module).module, options=CompileOptions(distinct_arguments=True)
    )
    return "\n".join(remark.message for remark in made.remarks)


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_it_is_told(element: str, loop: bool) -> None:
    dims = (64, 64, 64)
    assert f"{ROUNDED} bf16" in remarks(rounding(element, "bf16", dims, loop=loop))
    both = rounding(element, "bf16", dims, loop=loop, twice=True)
    assert ROUNDED not in remarks(both)
    checked(both, element, "bf16", dims, (100, 100, 64), 1.0)


def test_terms_along_vectors_are_written_as_before() -> None:
    """Their sums are scalars in the end."""
    assert ROUNDED not in remarks(rounding("bf16", "bf16", (64, 1, 64), loop=True))
