"""Loops that add up products: the results and faults of the loop as it is written.

A run that records a trace watches every operation, and so runs the loop as it is written.
"""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest
from tests.machine.kernels import ELEMENTS, checked

from tilewright import LaunchOptions
from tilewright.diagnostics import TileIRError
from tilewright.machine import Program
from tilewright.machine.inspect import Trace, run_with
from tilewright.numerics import matrix

_NARROW = (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
_SUMS = {np.dtype(t): np.dtype(np.float32) for t in (*_NARROW, np.float32)}
_SUMS[np.dtype(np.float64)] = np.dtype(np.float64)


def _kernel(
    a: np.ndarray,
    b: np.ndarray,
    tile: tuple[int, int, int],
    *,
    kind: str = "i32",
    flags: str = "",
    swapped: bool = False,
    row: str = "%i",
    first: int = 0,
    step: int = 1,
):
    """``c = a @ b`` over tiles of M x N x K; the loop runs from ``first`` to the last argument."""
    (rows, depth), (_, columns) = a.shape, b.shape
    tile_m, tile_n, tile_k = tile
    element, sums = ELEMENTS[a.dtype], ELEMENTS[_SUMS[a.dtype]]

    def view(height: int, width: int, name: str) -> str:
        return f"tensor_view<{height}x{width}x{name}, strides=[{width},1]>"

    def part(shape: tuple[int, int], tensor: str) -> str:
        return f"partition_view<tile=({shape[0]}x{shape[1]}), padding_value = zero, {tensor}>"

    a_view, b_view, c_view = (
        view(rows, depth, element),
        view(depth, columns, element),
        view(rows, columns, sums),
    )
    a_part, b_part = part((tile_m, tile_k), a_view), part((tile_k, tile_n), b_view)
    c_part = part((tile_m, tile_n), c_view)
    loads = [
        f"%x, %t0 = load_view_tko weak %a_part[{row}, %k] : {a_part}, tile<{kind}> -> "
        f"tile<{tile_m}x{tile_k}x{element}>, token",
        f"%y, %t1 = load_view_tko weak %b_part[%k, %j] : {b_part}, tile<{kind}> -> "
        f"tile<{tile_k}x{tile_n}x{element}>, token",
    ]
    blocks = "%i, %j, %z = get_tile_block_id : tile<i32>"
    if kind != "i32":
        blocks = "%bi, %bj, %bz = get_tile_block_id : tile<i32>\n" + "\n".join(
            f"{to} = exti {of} signed : tile<i32> -> tile<{kind}>"
            for to, of in (("%i", "%bi"), ("%j", "%bj"))
        )
    sum_type = f"tile<{tile_m}x{tile_n}x{sums}>"
    return checked(f"""
      entry @k(%a: tile<ptr<{element}>>, %b: tile<ptr<{element}>>, %c: tile<ptr<{sums}>>,
               %count: tile<{kind}>) {{
        {blocks}
        %first = constant <{kind}: {first}> : tile<{kind}>
        %step = constant <{kind}: {step}> : tile<{kind}>
        %start = constant <{sums}: 0.5> : {sum_type}
        %av = make_tensor_view %a, shape = [{rows}, {depth}], strides = [{depth}, 1] : {a_view}
        %bv = make_tensor_view %b, shape = [{depth}, {columns}], strides = [{columns}, 1] : {b_view}
        %cv = make_tensor_view %c, shape = [{rows}, {columns}], strides = [{columns}, 1] : {c_view}
        %a_part = make_partition_view %av : {a_part}
        %b_part = make_partition_view %bv : {b_part}
        %c_part = make_partition_view %cv : {c_part}
        %sum = for {flags} %k in (%first to %count, step %step) : tile<{kind}>
            iter_values(%acc = %start) -> ({sum_type}) {{
          %row = constant <{kind}: 0> : tile<{kind}>
          {loads[swapped]}
          {loads[not swapped]}
          %more = mmaf %x, %y, %acc
            : tile<{tile_m}x{tile_k}x{element}>, tile<{tile_k}x{tile_n}x{element}>, {sum_type}
          continue %more : {sum_type}
        }}
        store_view_tko weak %sum, %c_part[%i, %j] : {sum_type}, {c_part}, tile<{kind}> -> token
      }}""")


@pytest.fixture(autouse=True, params=[1 << 19, 1], ids=["", "one by one"])
def batches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing depends on how many iterations run together."""
    monkeypatch.setattr("tilewright.machine.ops.product_loops._MAX_BYTES", request.param)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many products were added at a time."""
    counts: list[int] = []

    def counted(lhs, rhs, acc, work):
        counts.append(len(lhs))
        return add_products(lhs, rhs, acc, work)

    add_products = matrix.add_products
    monkeypatch.setattr(matrix, "add_products", counted)
    yield counts
    assert counts, "no loop ran as one of products"


def _matrices(rows: int, depth: int, columns: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(rows * depth + columns)
    return tuple(
        random.standard_normal(shape).astype(np.float32).astype(dtype)
        for shape in ((rows, depth), (depth, columns))
    )  # pyright: ignore[reportReturnType]


def _both(module, grid, a, b, count) -> tuple[np.ndarray, np.ndarray]:
    """What a program gives in its second launch, and what the loop as it is written gives."""
    shape = a.shape[0], b.shape[1]
    outputs = [np.zeros(shape, _SUMS[a.dtype]) for _ in range(2)]
    program = Program(module)
    for _ in range(2):
        program.launch("k", grid, (a, b, outputs[0], count))
    run_with(module, "k", grid, (a, b, outputs[1], count), options=LaunchOptions(trace=Trace()))
    return outputs[0], outputs[1]


@pytest.mark.parametrize("dtype", _SUMS, ids=str)
@pytest.mark.parametrize("tile", [(16, 8, 4), (1, 1, 8), (2, 1, 4), (1, 16, 1), (64, 64, 32)])
def test_same_bits(dtype, tile, calls):
    """Tiles that fit, tiles that stick out, sums of few elements."""
    a, b = _matrices(48, 72, 40, dtype)
    tile_m, tile_n, tile_k = tile
    grid = min(-(-48 // tile_m), 4), min(-(-40 // tile_n), 4)
    found, expected = _both(_kernel(a, b, tile), grid, a, b, -(-72 // tile_k))
    assert found.any()
    assert found.tobytes() == expected.tobytes()


def test_nan_infinities_and_zeros(calls):
    a, b = _matrices(16, 64, 16, np.float16)
    a[3, 5], a[4, 6], b[7, 8], a[9] = np.nan, np.inf, -np.inf, -0.0
    found, expected = _both(_kernel(a, b, (16, 16, 8)), (1, 1), a, b, 8)
    assert np.isnan(found).any() and np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 0),
        ({}, 1),
        ({"first": 3}, 8),
        ({"step": 3}, 8),
        ({"swapped": True}, 8),
        ({"row": "%row"}, 8),
        ({"kind": "i64"}, 8),
        ({"flags": "unsigned"}, 8),
    ],
)
def test_loops(options, count):
    a, b = _matrices(16, 64, 16, np.float16)
    found, expected = _both(_kernel(a, b, (16, 16, 8), **options), (1, 1), a, b, count)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 9),
        ({"swapped": True}, 9),
        ({"first": -1}, 4),
        ({"step": 0}, 4),
        ({"flags": "unsigned", "first": -2}, -1),
        ({"first": 2147483640, "step": 5}, 2147483647),
    ],
)
def test_same_faults(options, count):
    """The load and the index are those that the loop comes to first."""
    a, b = _matrices(16, 64, 16, np.float16)
    module = _kernel(a, b, (16, 16, 8), **options)
    c = np.zeros((16, 16), np.float32)
    with pytest.raises(TileIRError) as found:
        Program(module).launch("k", 1, (a, b, c, count))
    with pytest.raises(TileIRError) as expected:
        run_with(module, "k", 1, (a, b, c, count), options=LaunchOptions(trace=Trace()))
    assert found.value.diagnostics == expected.value.diagnostics


@pytest.mark.parametrize("short", [0, 1])
def test_the_load_of_the_earlier_iteration_is_at_fault(short):
    """One tensor ends in iteration 4, the other in iteration 6."""
    a, b = _matrices(16, 64, 16, np.float16)
    module = _kernel(a, b, (16, 16, 8))
    args = [a.reshape(-1)[: 16 * 48].copy(), b[:48].copy()]
    args[short] = args[short].reshape(-1)[: 16 * 32].copy()
    with pytest.raises(TileIRError) as found:
        Program(module).launch("k", 1, (*args, np.zeros((16, 16), np.float32), 8))
    with pytest.raises(TileIRError) as expected:
        run_with(
            module,
            "k",
            1,
            (*args, np.zeros((16, 16), np.float32), 8),
            options=LaunchOptions(trace=Trace()),
        )
    assert found.value.diagnostics == expected.value.diagnostics


def test_iteration_limit():
    a, b = _matrices(16, 64, 16, np.float16)
    module, c = _kernel(a, b, (16, 16, 8)), np.zeros((16, 16), np.float32)
    with pytest.raises(TileIRError, match="more than 7 iterations"):
        Program(module).launch("k", 1, (a, b, c, 8), options=LaunchOptions(max_iterations=7))


@pytest.mark.parametrize("limit", [1 << 26, 4000, 0])
def test_changed_arrays_are_read_anew(monkeypatch, limit, calls):
    """Between launches, and where tiles have to be let go."""
    monkeypatch.setattr("tilewright.machine.load_memo._MAX_BYTES", limit)
    a, b = _matrices(64, 64, 64, np.float16)
    module, c = _kernel(a, b, (16, 16, 8)), np.zeros((64, 64), np.float32)
    program = Program(module)
    for _ in range(3):
        program.launch("k", (4, 4), (a, b, c, 8))
        expected = np.zeros((64, 64), np.float32)
        run_with(module, "k", (4, 4), (a, b, expected, 8), options=LaunchOptions(trace=Trace()))
        assert c.tobytes() == expected.tobytes()
        a += np.float16(1)
