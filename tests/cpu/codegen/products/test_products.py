"""Whole matrix products: tiles of memory, loops over k, sums that end up in memory, panels that stay."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.cpu.levels import levels

from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr, tile
from tilewright.cpu import Program
from tilewright.cpu.codegen.products import packed_operands
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics import matrix
from tilewright.numerics.arrays import dtype_of

Array = np.ndarray[Any, Any]
Tiles = tuple[int, int, int]
UNIT = 2.0**-24
LEVELS = levels("host", "x86-64-v4", "x86-64-v3", "x86-64-v2", "generic")


@functools.cache
def product(
    element: str,
    result: str,
    dims: Tiles,
    *,
    signs: tuple[str, str] = ("signed", "signed"),
    transposed: tuple[bool, bool] = (False, False),
    begin: float = 0,
    by_columns: bool = False,
    finish: Callable[[Builder, Value], Value] = lambda k, total: total,
):
    """``c = finish(begin + op(a) @ op(b))`` with one tile block for each tile of ``c``."""
    module = ModuleBuilder()
    tile_m, tile_n, tile_k = dims
    parameters = {"a": ptr(element), "b": ptr(element), "c": ptr(result)}
    with module.entry("product", parameters | dict.fromkeys("mnk", "i32")) as k:
        args = k.args
        row, column, _ = k.get_tile_block_id()
        if by_columns:
            row, column = column, row

        def view(base: Value, rows: Value, columns: Value, shape: tuple[int, int]) -> Value:
            whole = k.make_tensor_view(base, shape=[rows, columns], strides=[columns, 1])
            return k.partition(whole, tile=shape, padding="zero")

        def factor(
            base: Value, extents: tuple[Value, Value], shape: tuple[int, int], swap: bool
        ) -> Callable[..., Value]:
            if not swap:
                tiles = view(base, extents[0], extents[1], shape)
                return lambda b, i, j: b.load_view_tko(tiles, [i, j])[0]
            tiles = view(base, extents[1], extents[0], (shape[1], shape[0]))
            return lambda b, i, j: b.permute(b.load_view_tko(tiles, [j, i])[0], permutation=(1, 0))

        a = factor(args.a, (args.m, args.k), (tile_m, tile_k), transposed[0])
        b = factor(args.b, (args.k, args.n), (tile_k, tile_n), transposed[1])

        def body(inner: Builder, step: Value, total: Value) -> Value:
            left, right = a(inner, row, step), b(inner, step, column)
            if element == "i8":
                return inner.mmai(
                    left, right, total, signedness_lhs=signs[0], signedness_rhs=signs[1]
                )
            return inner.mmaf(left, right, total)

        steps = k.divi(
            args.k, k.constant(tile_k, "i32"), rounding="positive_inf", signedness="signed"
        )
        zero, one = k.constant(0, "i32"), k.constant(1, "i32")
        start = k.constant(begin, tile((tile_m, tile_n), result))
        (total,) = k.for_(zero, steps, one, [start], body)
        k.store_view_tko(finish(k, total), view(args.c, args.m, args.n, dims[:2]), [row, column])
    return module.build()


def launch(
    module: Any, dims: Tiles, arrays: tuple[Array, Array, Array], k: int, **options: Any
) -> Array:
    """Run a product on two threads; ``c`` in place."""
    program = options.pop("program", None) or program_of(module, **options)
    c = arrays[2]
    grid = [-(-extent // size) for extent, size in zip(c.shape, dims[:2], strict=True)]
    program.launch(None, tuple(options.pop("grid", grid)), (*arrays, *c.shape, k))
    return c


@functools.cache
def program_of(module: Any, **options: Any) -> Program:
    """Sizes and numbers are no part of a program."""
    return Program(module, options=LaunchOptions(threads=2, **options))


def integers(rng: np.random.Generator, shape: tuple[int, int], extreme: bool) -> Array:
    if extreme:
        return rng.choice(np.array([-128, -1, 127], np.int8), shape)
    return rng.integers(-128, 128, shape).astype(np.int8)


def exact(a: Array, b: Array, signs: tuple[str, str]) -> Array:
    zero = np.zeros((a.shape[0], b.shape[1]), np.int32)
    return matrix.mmai(a, b, zero, "i8", signedness_lhs=signs[0], signedness_rhs=signs[1])


SIZES = ((64, 64, 64), (100, 70, 90), (33, 129, 257), (1, 200, 40))


@pytest.mark.parametrize("dims", [(32, 32, 32), (64, 128, 64), (128, 32, 16)], ids=str)
@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64"])
def test_float_products_of_arrays(element: str, dims: Tiles):
    result = "f64" if element == "f64" else "f32"
    for m, n, k in SIZES:
        rng = np.random.default_rng(m + n + k)
        a, b = (rng.standard_normal(s).astype(dtype_of(element)) for s in ((m, k), (k, n)))
        c = np.full((m, n), np.nan, dtype_of(result))
        launch(product(element, result, dims), dims, (a, b, c), k)
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        magnitude = np.abs(wide_a) @ np.abs(wide_b)
        unit = 2.0**-52 if element == "f64" else UNIT
        assert (np.abs(c - wide_a @ wide_b) <= (2 * k + 2) * unit * magnitude).all(), (m, n, k)


@pytest.mark.rotates(10)
@pytest.mark.parametrize("cpu", levels("host", "x86-64-v3", "generic"))
@pytest.mark.parametrize("dims", [(1, 128, 16), (2, 16, 64), (8, 64, 32), (16, 64, 64)], ids=str)
@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64", "f8E4M3FN"])
def test_products_of_few_rows(element: str, dims: Tiles, cpu: str):
    """The right operand is read where it lies, but for the tiles at its edges."""
    m, n, k = dims[0] * 2 - dims[0] // 2, 200, 150
    rng = np.random.default_rng(n)
    wide = [rng.integers(-8, 9, s).astype(np.float64) for s in ((m, k), (k, n))]
    a, b = (array.astype(dtype_of(element)) for array in wide)
    result = "f64" if element == "f64" else "f32"
    c = np.full((m, n), np.nan, dtype_of(result))
    launch(product(element, result, dims), dims, (a, b, c), k, cpu=cpu)
    assert (c == wide[0] @ wide[1]).all()


@pytest.mark.rotates(10)
@pytest.mark.parametrize("begin", [0, 3])
@pytest.mark.parametrize(
    "dims", [(1, 32, 16), (2, 64, 64), (8, 32, 32), (1, 512, 32), (2, 256, 4), (4, 256, 8)], ids=str
)
@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64", "i8"])
def test_few_rows_times_long_ones(element: str, dims: Tiles, begin: int):
    """Blocks side by side run together, and go along rows of the right operand."""
    m, n, k = dims[0] * 2 - dims[0] // 2, dims[1] * 35 // 2 + 5, 150
    rng = np.random.default_rng(n)
    wide = [rng.integers(-8, 9, s).astype(np.float64) for s in ((m, k), (k, n))]
    a, b = (array.astype(dtype_of(element)) for array in wide)
    result = {"f64": "f64", "i8": "i32"}.get(element, "f32")
    c = np.full((m, n), 99, dtype_of(result))
    launch(product(element, result, dims, begin=begin), dims, (a, b, c), k)
    assert (c == begin + wide[0] @ wide[1]).all()


@pytest.mark.parametrize("begin", [0, 3])
@pytest.mark.parametrize("dims", [(16, 32, 32), (32, 64, 128), (64, 128, 32)], ids=str)
def test_whole_bf16_tiles(dims: Tiles, begin: int):
    """Tiles that fit registers of two axes, where there are any; sums that begin with something."""
    m, n, k = dims[0] * 2, dims[1] * 2, dims[2] * 3
    rng = np.random.default_rng(k)
    wide = [rng.integers(-8, 9, s).astype(np.float64) for s in ((m, k), (k, n))]
    a, b = (array.astype(dtype_of("bf16")) for array in wide)
    c = np.full((m, n), np.nan, np.float32)
    launch(product("bf16", "f32", dims, begin=begin), dims, (a, b, c), k)
    assert (c == begin + wide[0] @ wide[1]).all()


@pytest.mark.parametrize("scale", [2.0**-64, 2.0**-126, 2.0**-130])
def test_small_bf16_factors(scale: float):
    """Factors, products and sums around the smallest normal numbers."""
    m, n, k = 48, 40, 96
    rng = np.random.default_rng(12)
    a = (rng.standard_normal((m, k)) * scale).astype(dtype_of("bf16"))
    b = (rng.standard_normal((k, n)) * (2.0**-64 if scale == 2.0**-64 else 1.0)).astype(a.dtype)
    c = np.zeros((m, n), np.float32)
    dims = (32, 32, 64)
    launch(product("bf16", "f32", dims), dims, (a, b, c), k)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    bound = (2 * k + 2) * UNIT * (np.abs(wide_a) @ np.abs(wide_b))
    largest = max(np.abs(wide_a).max(), np.abs(wide_b).max(), 1.0)
    assert (np.abs(c - wide_a @ wide_b) <= bound + (k + 1) * 2.0**-125 * largest).all()


@pytest.mark.parametrize("right", ["signed", "unsigned"])
@pytest.mark.parametrize("left", ["signed", "unsigned"])
@pytest.mark.parametrize("cpu", LEVELS)
def test_integer_products_of_arrays(cpu: str, left: str, right: str):
    dims, signs = (32, 64, 64), (left, right)
    for m, n, k in ((64, 64, 256), (50, 77, 131)):
        for extreme in (False, True):
            rng = np.random.default_rng(k)
            a, b = (integers(rng, s, extreme) for s in ((m, k), (k, n)))
            c = np.full((m, n), -7, np.int32)
            launch(product("i8", "i32", dims, signs=signs), dims, (a, b, c), k, cpu=cpu)
            assert (c == exact(a, b, signs)).all(), (m, n, k, extreme)


@pytest.mark.rotates(8)
@pytest.mark.parametrize("left, right", [(-128, -128), (-128, 127), (127, 127), (-1, -1)])
@pytest.mark.parametrize(
    "signs", [(x, y) for x in ("signed", "unsigned") for y in ("signed", "unsigned")]
)
@pytest.mark.parametrize("cpu", LEVELS)
def test_sums_of_the_largest_bytes(cpu: str, signs: tuple[str, str], left: int, right: int):
    dims, k = (16, 32, 512), 1024
    a, b = np.full((16, k), left, np.int8), np.full((k, 32), right, np.int8)
    c = np.zeros((16, 32), np.int32)
    launch(product("i8", "i32", dims, signs=signs), dims, (a, b, c), k, cpu=cpu)
    assert (c == exact(a, b, signs)).all()


@pytest.mark.parametrize("cpu", ["host", "generic"])
def test_integer_sums_wrap(cpu: str):
    dims, k = (16, 16, 64), 64
    a = np.full((16, k), -128, np.int8)
    c = np.zeros((16, 16), np.int32)
    begin = 2**31 - 1000
    launch(product("i8", "i32", dims, begin=begin), dims, (a, a.T.copy(), c), k, cpu=cpu)
    assert (c == np.int64(begin + 128 * 128 * k) - 2**32).all()


@pytest.mark.parametrize("transposed", [(True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "i8"])
def test_transposed_factors(element: str, transposed: tuple[bool, bool]):
    result, dims = "i32" if element == "i8" else "f32", (32, 32, 32)
    for m, n, k in ((64, 64, 128), (45, 83, 61)):
        rng = np.random.default_rng(k)
        a, b = (rng.integers(-8, 9, s).astype(dtype_of(element)) for s in ((m, k), (k, n)))
        c = np.full((m, n), 99, dtype_of(result))
        left, right = (
            np.ascontiguousarray(x.T) if swap else x
            for x, swap in zip((a, b), transposed, strict=True)
        )
        launch(product(element, result, dims, transposed=transposed), dims, (left, right, c), k)
        assert (c == a.astype(np.float64) @ b.astype(np.float64)).all(), (m, n, k)


@pytest.mark.parametrize("begin", [0, 3])
@pytest.mark.parametrize("element, result", [("f32", "f32"), ("i8", "i32")])
def test_a_loop_without_rounds_gives_its_beginning(element: str, result: str, begin: int):
    dims = (16, 32, 16)
    a, b = np.ones((40, 1), dtype_of(element)), np.ones((1, 50), dtype_of(element))
    c = np.full((40, 50), 99, dtype_of(result))
    launch(product(element, result, dims, begin=begin), dims, (a, b, c), 0)
    assert (c == begin).all()


@pytest.mark.parametrize("begin", [0, 5])
def test_sums_that_are_used_before_they_are_stored(begin: int):
    dims = (32, 32, 16)
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-8, 9, s).astype(np.float32) for s in ((50, 70), (70, 60)))
    c = np.zeros((50, 60), np.float32)
    module = product("f32", "f32", dims, begin=begin, finish=lambda k, total: k.mulf(total, 2.0))
    launch(module, dims, (a, b, c), 70)
    assert (c == 2 * (a @ b + begin)).all()


def test_an_array_that_is_read_and_written():
    """Blocks of one row each: the product is added to what a block finds in its own tile of ``c``."""
    module = ModuleBuilder()
    shape = (32, 32)
    with module.entry("add", dict.fromkeys("abc", ptr("f32"))) as k:
        row, _, _ = k.get_tile_block_id()
        zero = k.constant(0, "i32")

        def tiles(base: Value, rows: int) -> Value:
            view = k.make_tensor_view(base, shape=[rows, 32], strides=[32, 1])
            return k.partition(view, tile=shape)

        def body(inner: Builder, step: Value, total: Value) -> Value:
            left, _ = inner.load_view_tko(tiles_a, [row, zero])
            right, _ = inner.load_view_tko(tiles_b, [step, zero])
            return inner.mmaf(left, right, total)

        tiles_a, tiles_b, tiles_c = tiles(k.args.a, 64), tiles(k.args.b, 96), tiles(k.args.c, 64)
        start = k.constant(0, tile(shape, "f32"))
        (total,) = k.for_(zero, k.constant(3, "i32"), k.constant(1, "i32"), [start], body)
        old, _ = k.load_view_tko(tiles_c, [row, zero])
        k.store_view_tko(k.addf(total, old), tiles_c, [row, zero])
    rng = np.random.default_rng(9)
    a, b, c = (rng.integers(-4, 5, (rows, 32)).astype(np.float32) for rows in (64, 96, 64))
    expected = c + a @ (b[:32] + b[32:64] + b[64:])
    Program(module.build(), options=LaunchOptions(threads=2)).launch(None, (2, 1, 1), (a, b, c))
    assert (c == expected).all()


# -- panels that stay ----------------------------------------------------------------------------


def _whole_numbers(seed: int, *shapes: tuple[int, int]) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-8, 9, shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_each_launch_reads_its_right_operand_anew(threads: int, by_columns: bool):
    dims = (32, 32, 32)
    program = Program(
        product("f32", "f32", dims, by_columns=by_columns), options=LaunchOptions(threads=threads)
    )
    a, b = _whole_numbers(3, (160, 100), (100, 90))
    c = np.zeros((160, 90), np.float32)
    for change in range(3):
        b += change
        grid = (3, 5) if by_columns else (5, 3)
        launch(None, dims, (a, b, c), 100, program=program, grid=grid)
        assert (c == a @ b).all()


def test_more_rounds_than_there_are_slots():
    dims, k = (16, 16, 16), 16 * (packed_operands.MOST_SLOTS + 3)
    a, b = _whole_numbers(4, (64, k), (k, 48))
    c = np.zeros((64, 48), np.float32)
    launch(product("f32", "f32", dims), dims, (a, b, c), k)
    assert (c == a @ b).all()


def test_a_launch_within_a_launch_on_the_same_thread():
    dims = (32, 32, 32)
    outer, inner = (
        Program(product("f32", "f32", dims), options=LaunchOptions(threads=1)),
        Program(product("f64", "f64", (16, 16, 32)), options=LaunchOptions(threads=1)),
    )
    a, b = _whole_numbers(5, (96, 64), (64, 64))
    c, d = np.zeros((96, 64), np.float32), np.zeros((96, 64))
    wide = a.astype(np.float64), b.astype(np.float64) + 1
    seen: list[int] = []

    def between(finished: int, total: int) -> None:
        seen.append(finished)
        inner.launch(None, (6, 4, 1), (*wide, d, 96, 64, 64))

    outer.launch(None, (3, 2, 1), (a, b, c, 96, 64, 64), options=LaunchOptions(progress=between))
    assert seen
    assert (c == a @ b).all()
    assert (d == wide[0] @ wide[1]).all()


def test_an_array_that_overlaps_the_result_is_packed_anew():
    dims = (32, 32, 32)
    program = Program(product("f32", "f32", dims), options=LaunchOptions(threads=1))
    a, both = _whole_numbers(6, (64, 64), (64, 64))
    b = both.copy()
    program.launch(
        None, (2, 2, 1), (a, both, both, 64, 64, 64), options=LaunchOptions(allow_overlap=True)
    )
    # The first block reads what nobody has written; others may see its tile.
    assert (both[:32, :32] == (a @ b)[:32, :32]).all()


def test_a_right_operand_that_the_kernel_overwrites():
    """``b = a @ b``, three times, in one tile block."""
    module = ModuleBuilder()
    shape = (32, 32)
    with module.entry("power", dict.fromkeys("ab", ptr("f32"))) as k:
        zero, one = k.constant(0, "i32"), k.constant(1, "i32")

        def tiles(base: Value) -> Value:
            return k.partition(
                k.make_tensor_view(base, shape=[32, 32], strides=[32, 1]), tile=shape
            )

        tiles_a, tiles_b = tiles(k.args.a), tiles(k.args.b)
        left, start = k.load_view_tko(tiles_a, [zero, zero])

        def body(inner: Builder, step: Value, token: Value) -> Value:
            right, read = inner.load_view_tko(tiles_b, [zero, zero], token=token)
            found = inner.mmaf(left, right, inner.constant(0.0, tile(shape, "f32")))
            return inner.store_view_tko(found, tiles_b, [zero, zero], token=read)

        k.for_(zero, k.constant(3, "i32"), one, [start], body)
    rng = np.random.default_rng(13)
    a, b = (rng.integers(-2, 3, shape).astype(np.float32) for _ in "ab")
    expected = a @ (a @ (a @ b))
    Program(module.build(), options=LaunchOptions(threads=1)).launch(None, (1, 1, 1), (a, b))
    assert (b == expected).all()


def _kept(module: Any) -> bool:
    """Whether the code of a kernel keeps panels."""
    compiled = compile_kernel(lower_to_tileaa(module).module, None, CompileOptions())
    return compiled.arena_bytes > 2 * 64 * packed_operands.MOST_SLOTS


def test_which_products_keep_their_panels():
    dims = (32, 16, 16)  # more rows than are read where they lie
    assert _kept(product("f32", "f32", dims))
    assert _kept(product("f32", "f32", dims, transposed=(False, True)))
    module = lower_to_tileaa(product("f32", "f32", dims)).module
    alone = compile_kernel(module, None, CompileOptions(distinct_arguments=False))
    assert alone.arena_bytes < 16 * 16 * 4 * packed_operands.MOST_SLOTS // 4


@pytest.mark.parametrize("level", LEVELS)
def test_groups_of_few_lanes(level: str) -> None:
    """Bytes that are computed of f64 come in vectors of as few lanes as a group has bytes."""
    module = ModuleBuilder()
    size = (16, 16)
    with module.entry("k", {"a": ptr("f64"), "b": ptr("f64"), "c": ptr("i32")}) as k:
        zero = k.constant(0, "i32")

        def view(base: Value) -> Value:
            return k.partition(k.make_tensor_view(base, shape=size, strides=[16, 1]), tile=size)

        def narrow(base: Value) -> Value:
            wide, _ = k.load_view_tko(view(base), [zero, zero])
            return k.ftoi(wide, to="i8", signedness="signed")

        total = k.mmai(
            narrow(k.args.a),
            narrow(k.args.b),
            k.constant(0, tile(size, "i32")),
            signedness_lhs="signed",
            signedness_rhs="signed",
        )
        k.store_view_tko(total, view(k.args.c), [zero, zero])
    rng = np.random.default_rng(16)
    a, b = (rng.integers(-128, 128, size).astype(np.float64) for _ in range(2))
    c = np.zeros(size, np.int32)
    Program(module.build(), options=LaunchOptions(cpu=level)).launch("k", 1, (a, b, c))
    assert (c == a @ b).all()


def _of_a_batch(lead: int, between: bool, dims: Tiles) -> Any:
    """Products of the matrices of a batch, stored by tiles with axes of extent 1: one before the rows, and
    ``between`` them and the columns, or only before."""
    tile_m, tile_n, tile_k = dims
    module = ModuleBuilder()
    with module.entry("batch", dict.fromkeys("abc", ptr("f32")) | dict.fromkeys("mnk", "i32")) as k:
        args = k.args
        row, column, batch = k.get_tile_block_id()
        zero, one = k.constant(0, "i32"), k.constant(1, "i32")

        def tiles(base: Value, rows: Value, columns: Value, shape: tuple[int, int]) -> Value:
            step = k.muli(rows, columns)
            whole = k.make_tensor_view(
                base, shape=[lead, rows, columns], strides=[step, columns, 1]
            )
            return k.partition(whole, tile=(1, *shape), padding="zero")

        a, b = (
            tiles(args.a, args.m, args.k, (tile_m, tile_k)),
            tiles(args.b, args.k, args.n, (tile_k, tile_n)),
        )

        def body(inner: Builder, step: Value, total: Value) -> Value:
            left, _ = inner.load_view_tko(a, [batch, row, step])
            right, _ = inner.load_view_tko(b, [batch, step, column])
            left = inner.reshape(left, shape=(tile_m, tile_k))
            return inner.mmaf(left, inner.reshape(right, shape=(tile_k, tile_n)), total)

        steps = k.divi(
            args.k, k.constant(tile_k, "i32"), rounding="positive_inf", signedness="signed"
        )
        start = k.constant(0.0, tile((tile_m, tile_n), "f32"))
        (total,) = k.for_(zero, steps, one, [start], body)
        if between:
            step = k.muli(args.m, args.n)
            whole = k.make_tensor_view(
                args.c, shape=[lead, args.m, 1, args.n], strides=[step, args.n, args.n, 1]
            )
            to = k.partition(whole, tile=(1, tile_m, 1, tile_n))
            k.store_view_tko(
                k.reshape(total, shape=(1, tile_m, 1, tile_n)), to, [batch, row, zero, column]
            )
        else:
            to = tiles(args.c, args.m, args.n, (tile_m, tile_n))
            k.store_view_tko(k.reshape(total, shape=(1, tile_m, tile_n)), to, [batch, row, column])
    return module.build()


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("dims", [(16, 32, 16), (32, 16, 32), (1, 64, 8), (64, 1, 8)], ids=str)
def test_products_are_stored_where_they_belong_in_a_batch(dims: Tiles, between: bool):
    """Sums that are only stored go there past their buffer, also through tiles with more axes."""
    lead = 3
    program = Program(_of_a_batch(lead, between, dims), options=LaunchOptions(threads=1))
    for m, n, k in ((64, 64, 64), (50, 70, 33), (1, 1, 1)):
        rng = np.random.default_rng(17)
        a, b = (rng.integers(-4, 5, (lead, *s)).astype(np.float32) for s in ((m, k), (k, n)))
        c = np.full((lead, m, n), np.nan, np.float32)
        grid = (-(-m // dims[0]), -(-n // dims[1]), lead)
        program.launch(None, grid, (a, b, c, m, n, k))
        np.testing.assert_array_equal(c, a @ b, err_msg=str((m, n, k)))


def _turned_in_a_batch(element: str, result: str, dims: Tiles):
    """``c = a @ b.T`` of the matrices of a batch, each in one step."""
    module, (m, n, k) = ModuleBuilder(), dims
    with module.entry(
        "k", {"a": ptr(element), "b": ptr(element), "c": ptr(result), "m": "i32", "n": "i32"}
    ) as kernel:
        args, zero = kernel.args, kernel.constant(0, "i32")
        batch, row, column = kernel.get_tile_block_id()

        def tiles(base: Value, rows: Value, columns: Any, shape: tuple[int, int]) -> Value:
            whole = kernel.make_tensor_view(
                base,
                shape=[3, rows, columns],
                strides=[kernel.muli(rows, kernel.constant(columns, "i32")), columns, 1]
                if isinstance(columns, int)
                else [kernel.muli(rows, columns), columns, 1],
            )
            return kernel.partition(whole, tile=(1, *shape), padding="zero")

        left, _ = kernel.load_view_tko(tiles(args.a, args.m, k, (m, k)), [batch, row, zero])
        right, _ = kernel.load_view_tko(tiles(args.b, args.n, k, (n, k)), [batch, column, zero])
        left = kernel.reshape(left, shape=(m, k))
        right = kernel.permute(kernel.reshape(right, shape=(n, k)), permutation=(1, 0))
        start = kernel.constant(0, tile((m, n), result))
        if element == "i8":
            total = kernel.mmai(
                left, right, start, signedness_lhs="signed", signedness_rhs="signed"
            )
        else:
            total = kernel.mmaf(left, right, start)
        to = tiles(args.c, args.m, args.n, (m, n))
        kernel.store_view_tko(kernel.reshape(total, shape=(1, m, n)), to, [batch, row, column])
    return module.build()


@pytest.mark.rotates(8)
@pytest.mark.parametrize("cpu", LEVELS)
@pytest.mark.parametrize("dims", [(32, 32, 32), (16, 64, 64), (32, 16, 4), (8, 8, 16)], ids=str)
@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
def test_turned_factors_are_packed_as_they_lie(element: str, dims: Tiles, cpu: str):
    """Also behind a reshape, without a copy in between; tiles end inside and behind their arrays."""
    result = "i32" if element == "i8" else "f32"
    module = _turned_in_a_batch(element, result, dims)
    compiled = compile_kernel(lower_to_tileaa(module).module, None, CompileOptions(cpu=cpu))
    assert not [remark for remark in compiled.remarks if remark.kind == "buffer"]
    program = Program(module, LaunchOptions(threads=1, cpu=cpu))
    rng = np.random.default_rng(23)
    for m, n in ((dims[0] * 2, dims[1]), (dims[0] + 3, dims[1] * 2 - 1)):
        a, b = (rng.integers(-4, 5, (3, rows, dims[2])) for rows in (m, n))
        c = np.full((3, m, n), -1, dtype_of(result))
        grid = (3, -(-m // dims[0]), -(-n // dims[1]))
        arrays = a.astype(dtype_of(element)), b.astype(dtype_of(element)), c
        program.launch(None, grid, (*arrays, m, n))
        np.testing.assert_array_equal(c, a @ b.swapaxes(1, 2))


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("begin", [0.0, 3.0])
@pytest.mark.parametrize("dims", [(32, 32, 16), (8, 16, 64), (64, 1, 16)], ids=str)
def test_a_product_without_a_loop_is_stored_where_it_belongs(
    dims: Tiles, begin: float, reads: bool
):
    """At once, where nothing reads the array; where something does, what it read stays. Tiles end inside and behind arrays."""
    module, (m, n, k) = ModuleBuilder(), dims
    names = dict.fromkeys("abcd", ptr("f32"))
    with module.entry("k", names | {"m": "i32", "n": "i32"}) as kernel:
        args, zero = kernel.args, kernel.constant(0, "i32")
        row, column, _ = kernel.get_tile_block_id()

        def tiles(base: Value, rows: Value | int, columns: Value | int, shape: Any) -> Value:
            whole = kernel.make_tensor_view(base, shape=[rows, columns], strides=[columns, 1])
            return kernel.partition(whole, tile=shape, padding="zero")

        left, _ = kernel.load_view_tko(tiles(args.a, args.m, k, (m, k)), [row, zero])
        right, _ = kernel.load_view_tko(tiles(args.b, k, args.n, (k, n)), [zero, column])
        to, before = tiles(args.c, args.m, args.n, (m, n)), None
        if reads:
            before, _ = kernel.load_view_tko(to, [row, column])
        total = kernel.mmaf(left, right, kernel.constant(begin, tile((m, n), "f32")))
        kernel.store_view_tko(total, to, [row, column])
        if before is not None:
            kernel.store_view_tko(before, tiles(args.d, args.m, args.n, (m, n)), [row, column])
    program, rng = (
        Program(module.build(), options=LaunchOptions(threads=1)),
        np.random.default_rng(9),
    )
    for rows, columns in ((m * 2, n * 2), (m + 1, n + 1)):
        a, b, c = (
            rng.integers(-4, 5, shape).astype(np.float32)
            for shape in ((rows, k), (k, columns), (rows, columns))
        )
        old, d = c.copy(), np.zeros_like(c)
        program.launch(None, (2, 2), (a, b, c, d, rows, columns))
        np.testing.assert_array_equal(c, a @ b + np.float32(begin))
        assert not reads or (d == old).all()


@pytest.mark.parametrize("dims", [(8, 64, 32), (16, 32, 32), (2, 64, 8), (4, 16, 32)], ids=str)
@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64"])
def test_few_rows_are_not_written_behind_the_end_of_an_array(element: str, dims: Tiles):
    """The last tile ends behind it; the right operand, which lies inside, is read in place."""
    result, (_, columns, _), k = "f64" if element == "f64" else "f32", dims, 64
    for rows in (1, 3, 9, 15):
        rng = np.random.default_rng(31)
        a, b = (rng.integers(-4, 5, size).astype(np.float32) for size in ((rows, k), (k, columns)))
        around = np.full((rows + 2 * dims[0], columns), 7, dtype_of(result))
        arrays = a.astype(dtype_of(element)), b.astype(dtype_of(element)), around[:rows]
        launch(product(element, result, dims), dims, arrays, k)
        np.testing.assert_array_equal(around[:rows], a @ b, err_msg=f"{rows} rows")
        assert (around[rows:] == 7).all(), rows


def _one_of_a_batch(element: str, result: str, dims: Tiles):
    """``c = a @ b`` of the matrices of a batch, in one step; rows and columns of blocks along y and z."""
    module, (m, n, k) = ModuleBuilder(), dims
    names = {"a": ptr(element), "b": ptr(element), "c": ptr(result)}
    with module.entry("k", names | dict.fromkeys("mnk", "i32")) as kernel:
        args, zero = kernel.args, kernel.constant(0, "i32")
        batch, row, column = kernel.get_tile_block_id()

        def tiles(base: Value, rows: Value, columns: Value, shape: tuple[int, int]) -> Value:
            whole = kernel.make_tensor_view(
                base, shape=[5, rows, columns], strides=[kernel.muli(rows, columns), columns, 1]
            )
            return kernel.partition(whole, tile=(1, *shape), padding="zero")

        left, _ = kernel.load_view_tko(tiles(args.a, args.m, args.k, (m, k)), [batch, row, zero])
        right, _ = kernel.load_view_tko(
            tiles(args.b, args.k, args.n, (k, n)), [batch, zero, column]
        )
        left, right = kernel.reshape(left, shape=(m, k)), kernel.reshape(right, shape=(k, n))
        total = kernel.mmaf(left, right, kernel.constant(0, tile((m, n), result)))
        to = tiles(args.c, args.m, args.n, (m, n))
        kernel.store_view_tko(kernel.reshape(total, shape=(1, m, n)), to, [batch, row, column])
    return module.build()


@pytest.mark.rotates(6)
@pytest.mark.parametrize("cpu", levels("host", "x86-64-v3", "generic"))
@pytest.mark.parametrize("dims", [(32, 32, 32), (64, 64, 16), (32, 8, 64), (64, 16, 8)], ids=str)
@pytest.mark.parametrize("element", ["f32", "f64", "f16"])
def test_right_operands_that_no_other_block_reads(element: str, dims: Tiles, cpu: str):
    """They are read in place: whole tiles, such as end inside of arrays and behind them, and such as others read."""
    result, (m, n, k) = "f64" if element == "f64" else "f32", dims
    module, rng = _one_of_a_batch(element, result, dims), np.random.default_rng(41)
    compiled = compile_kernel(lower_to_tileaa(module).module, None, CompileOptions(cpu=cpu))
    told = str([remark.message for remark in compiled.remarks if remark.kind == "product"])
    along_k = "vectors of terms" in told
    assert ("read in place" in told) == (element != "f16" and not along_k)
    program = Program(module, options=LaunchOptions(threads=1, cpu=cpu))
    for rows, columns, terms in ((m, n, k), (m - 3, n - 1, k - 1), (2 * m, n, k), (m, 3 * n, k)):
        a, b = (rng.integers(-4, 5, (5, *s)) for s in ((rows, terms), (terms, columns)))
        around = np.full((6, rows, columns), -1, dtype_of(result))
        arrays = a.astype(dtype_of(element)), b.astype(dtype_of(element)), around[:5]
        grid = (5, -(-rows // m), -(-columns // n))
        program.launch(None, grid, (*arrays, rows, columns, terms))
        np.testing.assert_array_equal(around[:5], a @ b)
        assert (around[5:] == -1).all()
