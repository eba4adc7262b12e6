"""Products whose tiles end behind their arrays: what is left out, and what must not be."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.products.test_products import exact, integers, product
from tests.cpu.levels import levels

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr, tile
from tilewright.cpu import Program
from tilewright.cpu.codegen.analysis.block_order import ROW_BY_ROW, order_of_blocks
from tilewright.cpu.compile import CompileOptions, compile_kernel, kernels_of
from tilewright.cpu.target import cpu_target
from tilewright.diagnostics import TileIRError
from tilewright.lowering import lower_to_tileaa
from tilewright.machine import Program as Reference
from tilewright.numerics.arrays import dtype_of

Array = np.ndarray[Any, Any]
Finish = Callable[[Builder, Value], Value]
TILE = 32
EXTENTS = (
    (65, 66, 67),
    (50, 50, 64),
    (33, 17, 1),
    (1, 1, 33),
    (7, 130, 50),
    (64, 63, 64),
    (100, 40, 95),
)


def among_others(values: Array, filling: float) -> Array:
    """The same as a dense array between numbers that spoil every result they get into."""
    around = np.full(values.size + 2 * 4096, filling, values.dtype)
    inside = around[4096:-4096].reshape(values.shape)
    inside[...] = values
    return inside


def blocks(extents: tuple[int, ...], size: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(-(-extent // each) for extent, each in zip(extents, size, strict=False))


@pytest.mark.rotates(6)
@pytest.mark.parametrize(
    "dims",
    [(32, 32, 32), (64, 128, 64), (16, 16, 16), (32, 2, 64), (4, 1, 32), (1, 8, 64)],
    ids=str,
)
@pytest.mark.parametrize("element", ["f32", "f16", "bf16", "f64", "i8"])
@pytest.mark.parametrize("checked", [False, True])
def test_nothing_outside_gets_into_a_product(
    element: str, dims: tuple[int, int, int], checked: bool
) -> None:
    result = {"f64": "f64", "i8": "i32"}.get(element, "f32")
    dtype, filling = dtype_of(element), 77 if element == "i8" else np.nan
    options = LaunchOptions(threads=1, checked=checked)
    program = Program(product(element, result, dims), options=options)
    for m, n, k in EXTENTS:
        rng = np.random.default_rng(m + n)
        a, b = (
            among_others(rng.integers(-4, 5, s).astype(dtype), filling) for s in ((m, k), (k, n))
        )
        around = among_others(np.full((m, n), 5, dtype_of(result)), 3)
        program.launch(None, blocks((m, n), dims), (a, b, around, m, n, k))
        wanted = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_array_equal(around.astype(np.float64), wanted, err_msg=str((m, n, k)))
        assert around.base is not None
        assert (around.base[:4096] == 3).all() and (around.base[-4096:] == 3).all(), (m, n, k)


_AT_AN_INDEX = """
cuda_tile.module @m {
  entry @k(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %first: tile<ptr<f32>>, %i: tile<i64>, %rows: tile<i64>) {
    %zero = constant <i64: 0> : tile<i64>
    %xs = make_tensor_view %x, shape = [%rows, 24], strides = [24, 1] : tile<i64> -> tensor_view<?x24xf32, strides=[24,1]>
    %xp = make_partition_view %xs : partition_view<tile=(32x32), padding_value = zero, tensor_view<?x24xf32, strides=[24,1]>>
    %ys = make_tensor_view %y, shape = [%rows, 24], strides = [24, 1] : tile<i64> -> tensor_view<?x24xf32, strides=[24,1]>
    %yp = make_partition_view %ys : partition_view<tile=(32x32), tensor_view<?x24xf32, strides=[24,1]>>
    %a, %ta = load_view_tko weak %xp[%zero, %zero] : partition_view<tile=(32x32), padding_value = zero, tensor_view<?x24xf32, strides=[24,1]>>, tile<i64> -> tile<32x32xf32>, token
    %none = constant <f32: 0.0> : tile<32x32xf32>
    %c = mmaf %a, %a, %none : tile<32x32xf32>, tile<32x32xf32>, tile<32x32xf32>
    %one = constant <f32: 1.0> : tile<f32>
    %tf = store_ptr_tko weak %first, %one : tile<ptr<f32>>, tile<f32> -> token
    %ts = store_view_tko weak %c, %yp[%i, %zero] token = %tf : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<?x24xf32, strides=[24,1]>>, tile<i64> -> token
    return
  }
}
"""


@pytest.mark.parametrize(
    "index", [0, 1, 2, -1, 1 << 26, 1 << 31, 1 << 58, 1 << 62, (1 << 63) - 1, -(1 << 63)]
)
def test_checks_of_a_store_come_with_the_store(index: int) -> None:
    """What a product leaves out is decided on before; what is written meanwhile stays."""
    module = tilewright.parse(_AT_AN_INDEX, "index.tileir")
    tilewright.verify(module)
    x = np.random.default_rng(0).integers(-4, 5, (40, 24)).astype(np.float32)
    outcomes: list[tuple[bool, bytes, bytes]] = []
    for program in (Reference(module), Program(module, LaunchOptions(checked=True))):
        y, first = np.full((40, 24), 7, np.float32), np.zeros(1, np.float32)
        try:
            program.launch("k", 1, (x, y, first, index, 40))
            ran = True
        except TileIRError:
            ran = False
        outcomes.append((ran, y.tobytes(), first.tobytes()))
    assert outcomes[1] == outcomes[0]


@pytest.mark.parametrize("dims", [(32, 64, 32), (32, 1, 32)], ids=str)
@pytest.mark.parametrize("cpu", levels("x86-64-v4", "x86-64-v3", "x86-64-v2", "generic"))
@pytest.mark.parametrize("element", ["f32", "f64", "i8"])
def test_other_processors(element: str, cpu: str, dims: tuple[int, int, int]) -> None:
    result = "i32" if element == "i8" else element
    program = Program(product(element, result, dims), options=LaunchOptions(threads=1, cpu=cpu))
    for n in (70, 67) if dims[1] > 1 else (3,):
        m, k = 37, 45
        rng = np.random.default_rng(1)
        a, b = (integers(rng, s, extreme=True) for s in ((m, k), (k, n)))
        wanted = exact(a, b, ("signed", "signed"))
        a, b = (x.astype(dtype_of(element)) for x in (a, b))
        c = np.full((m, n), 9, wanted.dtype if element == "i8" else dtype_of(element))
        program.launch(None, blocks((m, n), dims), (a, b, c, m, n, k))
        np.testing.assert_array_equal(c, wanted, err_msg=f"{n} columns")


@pytest.mark.parametrize("left", ["signed", "unsigned"])
@pytest.mark.parametrize("right", ["signed", "unsigned"])
@pytest.mark.parametrize("dims", [(32, 32, 64), (16, 16, 32), (64, 64, 128)], ids=str)
def test_bytes_of_all_signs(left: str, right: str, dims: tuple[int, int, int]) -> None:
    m, n, k = 70, 50, 130
    rng = np.random.default_rng(2)
    a, b = (integers(rng, s, extreme=True) for s in ((m, k), (k, n)))
    c = np.full((m, n), 9, np.int32)
    module = product("i8", "i32", dims, signs=(left, right))
    Program(module).launch(None, blocks((m, n), dims), (a, b, c, m, n, k))
    np.testing.assert_array_equal(c, exact(a, b, (left, right)))


def _stored(k: Builder, total: Value) -> None:
    view = k.make_tensor_view(k.args.c, shape=[k.args.m, k.args.n], strides=[k.args.n, 1])
    row, column, _ = k.get_tile_block_id()
    k.store_view_tko(total, k.partition(view, tile=(TILE, TILE)), [row, column])


def _summed(k: Builder, total: Value) -> None:
    """The sums of the columns of each tile."""
    sums = k.reduce(total, 0, 0.0, lambda b, x, y: b.addf(x, y))
    view = k.make_tensor_view(k.args.c, shape=[k.args.m, k.args.n], strides=[k.args.n, 1])
    row, column, _ = k.get_tile_block_id()
    tiles = k.partition(view, tile=(1, TILE))
    k.store_view_tko(k.reshape(sums, shape=(1, TILE)), tiles, [row, column])


def _stored_twice(k: Builder, total: Value) -> None:
    """The sums of rows that nothing else sees, too."""
    _stored(k, total)
    row, column, _ = k.get_tile_block_id()
    view = k.make_tensor_view(k.args.more, shape=[96, 96], strides=[96, 1])
    k.store_view_tko(total, k.partition(view, tile=(TILE, TILE)), [row, column])


def _of_padding(finish: Callable[[Builder, Value], None], padding: tuple[str, str]) -> Any:
    """``c = finish(a @ b)`` with f32 of ``a`` in ``rows`` x ``depth``, of ``b`` in ``depth`` x ``n``."""
    module = ModuleBuilder()
    pointers = {name: ptr("f32") for name in ("a", "b", "c", "more")}
    sizes = dict.fromkeys(("rows", "depth", "m", "n"), "i32")
    with module.entry("padded", pointers | sizes) as k:
        row, column, _ = k.get_tile_block_id()

        def factor(base: Value, rows: Value, columns: Value, padding: str) -> Value:
            view = k.make_tensor_view(base, shape=[rows, columns], strides=[columns, 1])
            return k.partition(view, tile=(TILE, TILE), padding=padding)

        a = factor(k.args.a, k.args.rows, k.args.depth, padding[0])
        b = factor(k.args.b, k.args.depth, k.args.n, padding[1])
        zero, one = k.constant(0, "i32"), k.constant(1, "i32")
        steps = k.divi(
            k.args.depth, k.constant(TILE, "i32"), rounding="positive_inf", signedness="signed"
        )

        def body(inner: Builder, step: Value, total: Value) -> Value:
            left, _ = inner.load_view_tko(a, [row, step])
            right, _ = inner.load_view_tko(b, [step, column])
            return inner.mmaf(left, right, total)

        start = k.constant(0.0, tile((TILE, TILE), "f32"))
        (total,) = k.for_(zero, steps, one, [start], body)
        finish(k, total)
    return module.build()


@pytest.mark.parametrize("padding", [("zero", "zero"), ("neg_inf", "zero"), ("zero", "nan")])
@pytest.mark.parametrize("finish", [_stored, _summed, _stored_twice])
@pytest.mark.parametrize("m", [5, 30], ids=["rows-of-a", "more-rows"])
def test_what_is_seen_is_computed(
    finish: Callable[[Builder, Value], None], padding: tuple[str, str], m: int
) -> None:
    """Infinities times the zeros behind the end are NaN, wherever somebody looks."""
    rows, depth, n = 5, 40, 45
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((rows, depth), (depth, n)))
    b[3, ::2] = np.inf
    module = _of_padding(finish, padding)
    found: list[tuple[Array, Array]] = []
    for machine in ("reference", "cpu"):
        c, more = (np.full(s, 7, np.float32) for s in ((m, n), (96, 96)))
        tilewright.run(
            module, "padded", (1, 2), (a, b, c, more, rows, depth, m, n), machine=machine
        )
        found.append((c, more))
    for reference, ours in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, reference)


def _remarks(module: Any) -> str:
    lowered = lower_to_tileaa(module).module
    (name,) = kernels_of(lowered)
    remarks = compile_kernel(lowered, name, CompileOptions()).remarks
    return "\n".join(str(remark) for remark in remarks)


def _batches(element: str, result: str, dims: tuple[int, int, int, int]) -> Any:
    """``c = a b`` of each matrix of a batch, by tiles of some matrices, m x k and k x n."""
    module = ModuleBuilder()
    arrays = {"a": ptr(element), "b": ptr(element), "c": ptr(result)}
    with module.entry("k", arrays | dict.fromkeys(("count", "m", "n", "depth"), "i32")) as k:
        many, rows, columns, terms = dims
        count, m, n, depth = k.args.count, k.args.m, k.args.n, k.args.depth

        def view(base: Value, shape: list[Any], size: tuple[int, ...]) -> Any:
            strides = [shape[1] * shape[2], shape[2], 1]
            whole = k.make_tensor_view(base, shape=[count, *shape[1:]], strides=strides)
            return k.partition(whole, tile=size, padding="zero")

        first, zero = k.get_tile_block_id()[0], k.constant(0, "i32")
        left, right, after = (
            view(k.args.a, [count, m, depth], (many, rows, terms)),
            view(k.args.b, [count, depth, n], (many, terms, columns)),
            view(k.args.c, [count, m, n], (many, rows, columns)),
        )
        a, _ = k.load_view_tko(left, [first, zero, zero])
        b, _ = k.load_view_tko(right, [first, zero, zero])
        total = k.zeros((many, rows, columns), result)
        found = k.mma(a, b, total)
        k.store_view_tko(found, after, [first, zero, zero])
    return module.build()


@pytest.mark.rotates(2)
@pytest.mark.parametrize("dims", [(4, 32, 32, 32), (1, 16, 64, 32), (2, 64, 32, 16)], ids=str)
@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "i8"])
@pytest.mark.parametrize("checked", [False, True])
def test_nothing_outside_gets_into_batches(
    element: str, dims: tuple[int, int, int, int], checked: bool
) -> None:
    result = {"f64": "f64", "i8": "i32"}.get(element, "f32")
    dtype, filling = dtype_of(element), 77 if element == "i8" else np.nan
    options = LaunchOptions(threads=1, checked=checked)
    program = Program(_batches(element, result, dims), options=options)
    many, rows, columns, terms = dims
    for count, m, n, depth in ((9, 12, 20, 13), (3, rows, columns, terms), (5, 1, columns, 2)):
        rng = np.random.default_rng(count)
        a, b = (
            among_others(rng.integers(-4, 5, shape).astype(dtype), filling)
            for shape in ((count, m, depth), (count, depth, n))
        )
        around = among_others(np.full((count, m, n), 5, dtype_of(result)), 3)
        program.launch("k", -(-count // many), (a, b, around, count, m, n, depth))
        wanted = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_array_equal(around.astype(np.float64), wanted, err_msg=str((count, m)))
        assert around.base is not None
        assert (around.base[:4096] == 3).all() and (around.base[-4096:] == 3).all(), (count, m)


def test_remarks_tell_what_is_left_out() -> None:
    zero = ("zero", "zero")
    assert "no rows, columns, terms of zeros are computed" in _remarks(_of_padding(_stored, zero))
    assert "no terms of zeros are computed" in _remarks(_of_padding(_summed, zero))
    assert "are computed" not in _remarks(_of_padding(_summed, ("zero", "nan")))


def _half(k: Builder, total: Value) -> Value:
    """Half of what is above zero: through numbers of another type, and along the other axes."""
    scaled = k.mulf(total, 0.5)
    return k.maxf(scaled, 0.0)


@pytest.mark.parametrize("dims", [(32, 32, 32), (64, 32, 64)], ids=str)
def test_elements_may_change_before_they_are_stored(dims: tuple[int, int, int]) -> None:
    m, n, k = 35, 70, 41
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float32)
    module = product("f32", "f32", dims, finish=_half)
    assert "no rows, columns" in _remarks(module)
    Program(module).launch(None, blocks((m, n), dims), (a, b, c, m, n, k))
    np.testing.assert_array_equal(c, np.maximum(a @ b * 0.5, 0))


@pytest.mark.rotates(6)
@pytest.mark.parametrize("dims", [(32, 32, 32), (64, 32, 32), (32, 2, 64)], ids=str)
@pytest.mark.parametrize("swapped", [(True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
def test_transposed_operands(
    element: str, swapped: tuple[bool, bool], dims: tuple[int, int, int]
) -> None:
    m, n, k = 37, 45, 51
    rng = np.random.default_rng(9)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((m, k), (k, n)))
    given = [
        np.ascontiguousarray(x.T if swap else x).astype(dtype_of(element))
        for x, swap in zip((a, b), swapped, strict=True)
    ]
    result = "i32" if element == "i8" else "f32"
    c = np.full((m, n), 3, dtype_of(result))
    module = product(element, result, dims, transposed=swapped)
    Program(module).launch(None, blocks((m, n), dims), (*given, c, m, n, k))
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize(
    "places, order",
    [
        ((0, 1, 2), (1, 2, 0)),
        ((2, 0, 1), (0, 1, 2)),
        ((1, 2, 0), (2, 0, 1)),
        ((2, 1, 0), (1, 0, 2)),
    ],
)
def test_blocks_that_share_the_right_operand_follow_one_another(
    places: tuple[int, int, int], order: tuple[int, int, int]
) -> None:
    """``places``: the axes of the grid that count matrices, rows and columns."""
    module = ModuleBuilder()
    dims = (1, TILE, TILE)
    with module.entry("batch", {name: ptr("f32") for name in "abc"} | {"n": "i32"}) as k:
        ids = k.get_tile_block_id()
        number, row, column = (ids[axis] for axis in places)
        n, zero = k.args.n, k.constant(0, "i32")
        a, b, c = (
            k.partition(
                k.make_tensor_view(base, shape=[n, n, n], strides=[k.muli(n, n), n, 1]), tile=dims
            )
            for base in (k.args.a, k.args.b, k.args.c)
        )
        factors = [
            k.reshape(k.load_view_tko(view, where)[0], shape=dims[1:])
            for view, where in ((a, [number, row, zero]), (b, [number, zero, column]))
        ]
        left, right = factors
        total = k.mmaf(left, right, k.constant(0.0, tile(dims[1:], "f32")))
        k.store_view_tko(k.reshape(total, shape=dims), c, [number, row, column])
    (func,) = kernels_of(lower_to_tileaa(module.build()).module).values()
    assert order_of_blocks(list(func.walk())) == order


def test_rows_of_blocks_run_first_in_a_plain_product() -> None:
    lowered = lower_to_tileaa(product("f32", "f32", (32, 32, 32))).module
    (func,) = kernels_of(lowered).values()
    assert order_of_blocks(list(func.walk())) == ROW_BY_ROW


@pytest.mark.parametrize("element", ["f32", "bf16", "f16", "f64"])
@pytest.mark.parametrize("columns", [1, 2, 4, 8])
def test_few_columns_are_added_up_along_k(element: str, columns: int) -> None:
    """The bound is that of other products: half a unit for each term and sum."""
    k, dims, result = 333, (32, columns, 64), "f64" if element == "f64" else "f32"
    module = product(element, result, dims, begin=0.5)
    lanes = cpu_target().vector_bits // (64 if element == "f64" else 32)
    assert ("vectors of terms" in _remarks(module)) == (columns < lanes)
    program = Program(module)
    for rows in (1, 5, 70):
        rng = np.random.default_rng(columns)
        a, b = (rng.standard_normal(s).astype(dtype_of(element)) for s in ((rows, k), (k, columns)))
        c = np.full((rows, columns), np.nan, dtype_of(result))
        program.launch(None, blocks((rows, columns), dims), (a, b, c, rows, columns, k))
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        magnitude = np.abs(wide_a) @ np.abs(wide_b) + 0.5
        unit = 2.0**-52 if element == "f64" else 2.0**-24
        assert (np.abs(c - (wide_a @ wide_b + 0.5)) <= (2 * k + 2) * unit * magnitude).all(), rows


@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize(
    ("rows", "k", "dims"),
    [
        (65, 65, (64, 64, 32)),
        (33, 67, (32, 64, 64)),
        (9, 100, (64, 32, 16)),
        (40, 31, (32, 64, 8)),
        (5, 300, (16, 64, 64)),
    ],
    ids=str,
)
def test_the_last_columns_behind_strips_are_added_up_along_k(
    element: str, rows: int, k: int, dims: tuple[int, int, int]
) -> None:
    """Of numbers that add up exactly, between others that would spoil each sum; and of any, within the bound of products."""
    result = "f64" if element == "f64" else "f32"
    module = product(element, result, dims, begin=0.5)
    if element in ("f32", "f64") and dims[0] > 16:
        assert "4 columns behind whole strips are added up along k" in _remarks(module)
    program, dtype = Program(module), dtype_of(element)
    for columns, exact_numbers in itertools.product(range(1, 6), (True, False)):
        rng, n = np.random.default_rng(columns), dims[1] + columns
        given = [
            rng.integers(-4, 5, s) if exact_numbers else rng.standard_normal(s)
            for s in ((rows, k), (k, n))
        ]
        a, b = (among_others(numbers.astype(dtype), np.nan) for numbers in given)
        around = among_others(np.full((rows, n), 7, dtype_of(result)), 3)
        program.launch(None, blocks((rows, n), dims), (a, b, around, rows, n, k))
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        magnitude = np.abs(wide_a) @ np.abs(wide_b) + 0.5
        unit = 0 if exact_numbers else 2.0**-52 if element == "f64" else 2.0**-24
        wanted = wide_a @ wide_b + 0.5
        assert (np.abs(around - wanted) <= (2 * k + 2) * unit * magnitude).all(), columns
        assert around.base is not None
        assert (around.base[:4096] == 3).all() and (around.base[-4096:] == 3).all(), columns


@pytest.mark.parametrize("rows", [40, 41])
def test_rows_behind_the_end_are_not_written_where_the_right_factor_is_read_where_it_lies(
    rows: int,
) -> None:
    """Few rows of which some lie behind their array, and a right factor all of which lies in its own."""
    module = ModuleBuilder()
    with module.entry("k", dict.fromkeys("qkc", ptr("f32")) | {"n": "i32"}) as k:
        here, _, _ = k.get_tile_block_id()
        q, keys, c = (
            k.partition(
                k.make_tensor_view(at, [extent, 32], [32, 1]), tile=(16, 32), padding="zero"
            )
            for at, extent in ((k.args.q, k.args.n), (k.args.k, 48), (k.args.c, k.args.n))
        )
        query = k.load_view_tko(q, [here, 0])[0]
        with k.for_(3, total=k.zeros((16, 32), "f32")) as loop:
            key = k.load_view_tko(keys, [loop.index, 0])[0]
            scores = [
                k.mma(query, k.permute(key, permutation=[1, 0]), k.zeros((16, 16), "f32"))
                for _ in "ab"
            ]
            loop.total = k.mma(scores[0] * scores[1], key, loop.total)
        k.store_view_tko(loop.total, c, [here, 0])
    rng = np.random.default_rng(0)
    q, keys = (rng.integers(-2, 3, (n, 32)).astype(np.float32) for n in (rows, 48))
    around = among_others(np.zeros((rows, 32), np.float32), 3)
    Program(lower_to_tileaa(module.build()).module).launch(None, (3,), (q, keys, around, rows))
    np.testing.assert_array_equal(around, (q @ keys.T) ** 2 @ keys)
    assert around.base is not None
    assert (around.base[:4096] == 3).all() and (around.base[-4096:] == 3).all()


def _batched(element: str, dims: tuple[int, int, int]) -> Any:
    """``c[i] = a[i] @ b[i]`` in one step, of arrays whose extents are arguments of their own."""
    m, n, k_ = dims
    module = ModuleBuilder()
    sizes = dict.fromkeys(("m", "n", "ka", "kb", "nb"), "i32")
    with module.entry("k", dict.fromkeys("abc", ptr(element)) | sizes) as k:
        here, _, _ = k.get_tile_block_id()

        def cut(base: Value, rows: Value, columns: Value, size: tuple[int, int]) -> Any:
            view = k.make_tensor_view(base, [9, rows, columns], [rows * columns, columns, 1])
            return k.partition(view, tile=(1, *size), padding="zero")

        a = cut(k.args.a, k.args.m, k.args.ka, (m, k_))
        b = cut(k.args.b, k.args.kb, k.args.nb, (k_, n))
        left, right = (
            k.reshape(k.load_view_tko(each, [here, 0, 0])[0], shape=size)
            for each, size in ((a, (m, k_)), (b, (k_, n)))
        )
        total = k.mma(left, right, k.zeros((m, n), element))
        c = cut(k.args.c, k.args.m, k.args.n, (m, n))
        k.store_view_tko(k.reshape(total, shape=(1, m, n)), c, [here, 0, 0])
    return module.build()


@functools.cache
def _read_in_place(element: str, dims: tuple[int, int, int]) -> Program:
    module = _batched(element, dims)
    compiled = compile_kernel(lower_to_tileaa(module).module, None, CompileOptions())
    assert any("the right operand is read in place" in str(each) for each in compiled.remarks)
    assert f".{element}.part" in compiled.llvm_ir
    return Program(module, options=LaunchOptions(threads=1))


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize(
    ("dims", "extents"),
    [
        ((32, 64, 64), (24, 40, 56, 56, 40)),
        ((64, 64, 64), (50, 40, 60, 60, 40)),
        ((64, 64, 32), (63, 49, 31, 31, 49)),
        ((32, 128, 16), (32, 67, 9, 9, 67)),
        ((64, 64, 64), (64, 17, 1, 1, 17)),
        ((32, 64, 64), (29, 33, 50, 41, 33)),  # fewer rows on the right than columns on the left
        ((32, 64, 64), (29, 33, 41, 50, 33)),
        ((32, 64, 64), (17, 60, 33, 33, 44)),  # columns of which the right operand has none
    ],
    ids=str,
)
def test_a_right_operand_of_one_block_is_read_where_it_ends(
    element: str, dims: tuple[int, int, int], extents: tuple[int, ...]
) -> None:
    m, n, ka, kb, nb = extents
    program = _read_in_place(element, dims)
    rng, dtype = np.random.default_rng(m), dtype_of(element)
    a, b = (
        among_others(rng.integers(-4, 5, (9, *s)).astype(dtype), np.nan)
        for s in ((m, ka), (kb, nb))
    )
    around = among_others(np.zeros((9, m, n), dtype), 3)
    program.launch("k", (9, 1, 1), (a, b, around, m, n, ka, kb, nb))
    terms, wanted = min(ka, kb), np.zeros((9, m, n), dtype)
    wanted[:, :, :nb] = a[:, :, :terms] @ b[:, :terms]
    np.testing.assert_array_equal(around, wanted)
    assert around.base is not None
    assert (around.base[:4096] == 3).all() and (around.base[-4096:] == 3).all()
