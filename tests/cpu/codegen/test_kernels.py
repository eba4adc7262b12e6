"""Whole kernels in text: edges, order of effects, buffers, calls, checks."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cpu.codegen.support import Given, load_text, on_tiles

from tilewright.cpu.abi import STOPPED, AssertSite, PrintSite
from tilewright.cpu.codegen.memory.checks import OUTSIDE
from tilewright.diagnostics import TileIRError

_MEMREF = "!nv_tileaa.memref<?x?xf32, strides = [?, ?]>"
_VIEW = f"!nv_tileaa.tiled_view<8x16xf32, source = {_MEMREF}>"


def _copy_kernel(padding: str = "", promise: str = "", groups: str = "[[0], [1]]") -> str:
    return f"""
    module {{
      nv_tileaa.func @k(%x: !nv_tileaa.ptr<f32, 1>, %y: !nv_tileaa.ptr<f32, 1>, %m: index, %n: index,
          %sx: index, %tx: index, %sy: index, %ty: index) attributes {{kernel}} {{
        %a = nv_tileaa.make_memref %x, %m, %n, %sx, %tx {{operandSegmentSizes = array<i32: 1, 0, 2, 2>}}
          : (!nv_tileaa.ptr<f32, 1>, index, index, index, index) -> {_MEMREF}
        %b = nv_tileaa.make_memref %y, %m, %n, %sy, %ty {{operandSegmentSizes = array<i32: 1, 0, 2, 2>}}
          : (!nv_tileaa.ptr<f32, 1>, index, index, index, index) -> {_MEMREF}
        %v = nv_tileaa.block_tile %a {{tileSizes = array<i64: 8, 16>, dimGroups = {groups} {padding}}}
          : {_MEMREF} -> {_VIEW}
        %w = nv_tileaa.block_tile %b {{tileSizes = array<i64: 8, 16>, dimGroups = [[0], [1]]}}
          : {_MEMREF} -> {_VIEW}
        %p = nv_tileaa.get_program_id {{axis = 0 : i32}} : i32
        %q = nv_tileaa.get_program_id {{axis = 1 : i32}} : i32
        %i = arith.index_castui %p : i32 to index
        %j = arith.index_castui %q : i32 to index
        %t = nv_tileaa.tiled_load %v[%i, %j] {promise} : {_VIEW}, index, index -> tile<8x16xf32>
        %one = arith.constant dense<1.0> : tile<8x16xf32>
        %s = nv_tileaa.addf %t, %one : tile<8x16xf32>
        nv_tileaa.tiled_store %w[%i, %j], %s : {_VIEW}, tile<8x16xf32>, index, index -> ()
        nv_tileaa.return
      }}
    }}
    """


def _strides(array: np.ndarray) -> list[int]:
    return [stride // array.itemsize for stride in array.strides]


@pytest.mark.parametrize("shape", [(8, 16), (16, 32), (1, 1), (9, 17), (7, 40), (30, 5)], ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("cpu", ["host", "generic"])
def test_edges_and_strides(shape: tuple[int, int], order: str, cpu: str):
    rng = np.random.default_rng(0)
    x = np.asarray(rng.standard_normal(shape), np.float32, order=order)  # pyright: ignore[reportCallIssue, reportArgumentType]
    canvas = np.full((shape[0] + 2, shape[1] + 3), 7, np.float32)
    y = canvas[1:-1, 1:-2]
    loaded = load_text(_copy_kernel(), cpu=cpu)
    grid = (-(-shape[0] // 8), -(-shape[1] // 16))
    assert loaded.run(grid, [x, y, *shape, *_strides(x), *_strides(y)]) == 0
    assert (y == x + 1).all()
    untouched = canvas.copy()
    untouched[1:-1, 1:-2] = 7
    assert (untouched == 7).all()


@pytest.mark.parametrize("name, value", [("zero", 0.0), ("neg_inf", -np.inf), ("nan", np.nan)])
def test_padding_is_read_outside(name: str, value: float):
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    body = _copy_kernel(f", padding_value = {name}")
    loaded = load_text(
        body.replace("%m, %n, %sy, %ty", "%big, %big, %sy, %ty").replace(
            "%a = nv_tileaa", "%big = arith.constant 16 : index\n        %a = nv_tileaa", 1
        )
    )
    y = np.zeros((16, 16), np.float32)
    assert loaded.run((1,), [x, y, 3, 5, *_strides(x), *_strides(y)]) == 0
    expected = np.full((8, 16), value + 1, np.float32)
    expected[:3, :5] = x + 1
    assert np.array_equal(y[:8], expected, equal_nan=True)
    assert not y[8:].any()


def test_checked_code_stops_at_a_tile_outside():
    x = np.zeros((8, 16), np.float32)
    y = np.zeros_like(x)
    args = [x, y, 8, 16, *_strides(x), *_strides(y)]
    loaded = load_text(_copy_kernel(), checked=True)
    assert loaded.run((1,), args) == 0
    assert loaded.run((2,), args) == STOPPED
    (call,) = loaded.calls
    site = loaded.compiled.sites[call.site]
    assert isinstance(site, AssertSite) and "outside of its view" in site.message
    assert call.block == (1, 0, 0)
    assert site.code == OUTSIDE and site.source.location is not None


def test_checked_code_stops_at_a_broken_promise():
    x = np.zeros((8, 15), np.float32)
    y = np.zeros_like(x)
    loaded = load_text(_copy_kernel(promise="{in_bounds = array<i1: true, true>}"), checked=True)
    assert loaded.run((1,), [x, y, 8, 15, *_strides(x), *_strides(y)]) == STOPPED
    site = loaded.compiled.sites[loaded.calls[0].site]
    assert "is marked in bounds along axis 1" in site.message  # pyright: ignore[reportAttributeAccessIssue]


_SWAP = """
    module {
      nv_tileaa.func @k(%x: !nv_tileaa.ptr<f32, 1>) attributes {kernel} {
        %z = arith.constant 0 : index
        %a = nv_tileaa.make_memref %x : (!nv_tileaa.ptr<f32, 1>) -> !nv_tileaa.memref<16x16xf32, strides = [16, 1]>
        %v = nv_tileaa.block_tile %a {tileSizes = array<i64: 16, 16>, dimGroups = [[0], [1]]}
          : !nv_tileaa.memref<16x16xf32, strides = [16, 1]>
            -> !nv_tileaa.tiled_view<16x16xf32, source = !nv_tileaa.memref<16x16xf32, strides = [16, 1]>>
        %t = nv_tileaa.tiled_load %v[%z, %z]
          : !nv_tileaa.tiled_view<16x16xf32, source = !nv_tileaa.memref<16x16xf32, strides = [16, 1]>>, index, index
            -> tile<16x16xf32>
        BODY
        nv_tileaa.tiled_store %v[%z, %z], %s
          : !nv_tileaa.tiled_view<16x16xf32, source = !nv_tileaa.memref<16x16xf32, strides = [16, 1]>>,
            tile<16x16xf32>, index, index -> ()
        nv_tileaa.return
      }
    }
"""


@pytest.mark.parametrize(
    "body, expected",
    [
        (
            "%s = nv_tileaa.permute %t {permutation = array<i64: 1, 0>} : tile<16x16xf32> -> tile<16x16xf32>",
            lambda x: x.T,
        ),
        (
            """%h = nv_tileaa.extract_slice %t {offsets = array<i64: 8, 0>} : tile<16x16xf32> -> tile<8x16xf32>
            %l = nv_tileaa.extract_slice %t {offsets = array<i64: 0, 0>} : tile<16x16xf32> -> tile<8x16xf32>
            %s = nv_tileaa.cat %h, %l {axis = 0 : i32} : tile<8x16xf32>, tile<8x16xf32> -> tile<16x16xf32>""",
            lambda x: np.concatenate([x[8:], x[:8]]),
        ),
        ("%s = nv_tileaa.mulf %t, %t : tile<16x16xf32>", lambda x: x * x),
        (
            """%h = nv_tileaa.extract_slice %t {offsets = array<i64: 3, 0>} : tile<16x16xf32> -> tile<1x16xf32>
            %s = nv_tileaa.broadcast %h : tile<1x16xf32> -> tile<16x16xf32>""",
            lambda x: np.broadcast_to(x[3], (16, 16)),
        ),
    ],
)
def test_a_tile_is_read_before_it_is_overwritten(body: str, expected: object):
    x = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    wanted = np.array(expected(x.copy()))  # pyright: ignore[reportCallIssue]
    assert load_text(_SWAP.replace("BODY", body)).run((1,), [x]) == 0
    assert (x == wanted).all()


def test_carried_tiles_may_depend_on_one_another():
    """Fibonacci on two tiles, one of which is also transposed on the way."""
    body = """
      %lo = arith.constant 0 : i32
      %hi = arith.constant 5 : i32
      %st = arith.constant 1 : i32
      %r0, %r1 = scf.for %i = %lo to %hi step %st iter_args(%a = %a0, %b = %a1)
          -> (!nv_tileaa.tile<8x8xi32>, !nv_tileaa.tile<8x8xi32>) : i32 {
        %s = arith.addi %a, %b : tile<8x8xi32>
        %t = nv_tileaa.permute %a {permutation = array<i64: 1, 0>} : tile<8x8xi32> -> tile<8x8xi32>
        %u = arith.addi %s, %t : tile<8x8xi32>
        scf.yield %b, %u : !nv_tileaa.tile<8x8xi32>, !nv_tileaa.tile<8x8xi32>
      }
    """
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 100, (8, 8)).astype(np.int32) for _ in "ab")
    found = on_tiles(body, [Given("i32", a), Given("i32", b)], [("i32", (8, 8))] * 2)
    for _ in range(5):
        a, b = b, a + b + a.T
    assert (found[0] == a).all() and (found[1] == b).all()


def test_calls_and_generated_tiles():
    text = """
    module {
      nv_tileaa.func @square(%t: tile<32xi32>) -> (tile<32xi32>) {
        %r = arith.muli %t, %t : tile<32xi32>
        nv_tileaa.return %r : tile<32xi32>
      }
      nv_tileaa.func @k(%x: !nv_tileaa.ptr<i32, 1>, %n: i32) attributes {kernel} {
        %g = nv_tileaa.generate %n : i32 -> tile<32xi32> {
        ^bb0(%i: index):
          %j = arith.index_cast %i : index to i32
          %y = arith.addi %j, %n : i32
          nv_tileaa.yield %y : i32
        }
        %s = nv_tileaa.call @square(%g) : tile<32xi32> -> tile<32xi32>
        %u = nv_tileaa.call @square(%s) : tile<32xi32> -> tile<32xi32>
        %r = nv_tileaa.make_range {start = 0, end = 32} : tile<32xi32>
        %p = nv_tileaa.addptr %x, %r : !nv_tileaa.ptr<i32, 1>, tile<32xi32> -> tile<32x!nv_tileaa.ptr<i32, 1>>
        nv_tileaa.store %p, %u : tile<32x!nv_tileaa.ptr<i32, 1>>, tile<32xi32> -> ()
        nv_tileaa.return
      }
    }
    """
    x = np.zeros(32, np.int32)
    assert load_text(text).run((1,), [x, 3]) == 0
    assert (x == (np.arange(32) + 3) ** 4).all()


def test_prints_and_assertions_reach_the_host():
    text = """
    module {
      nv_tileaa.func @k(%n: i32) attributes {kernel} {
        %r = nv_tileaa.make_range {start = 0, end = 32} : tile<32xi32>
        %m = nv_tileaa.splat %n : i32 -> tile<32xi32>
        %c = arith.cmpi slt, %r, %m : tile<32xi32>
        nv_tileaa.assert %c {message = "too large"} : tile<32xi1> -> ()
        nv_tileaa.print %n, %r {format = "%i and %i"} : i32, tile<32xi32> -> ()
        nv_tileaa.return
      }
    }
    """
    loaded = load_text(text)
    assert loaded.run((2,), [30]) == 0
    failed, printed, *again = loaded.calls
    assert isinstance(loaded.compiled.sites[failed.site], AssertSite)
    assert np.frombuffer(failed.payload, np.int64).tolist() == [30, 31]
    assert isinstance(loaded.compiled.sites[printed.site], PrintSite)
    assert np.frombuffer(printed.payload[:4], np.int32) == 30
    assert np.frombuffer(printed.payload[8:], np.int32).tolist() == list(range(32))
    assert [call.block for call in again] == [(1, 0, 0), (1, 0, 0)]


def test_masked_pointers_of_wrapping_numbers():
    """i32 numbers that wrap within a vector are no run of addresses."""
    text = """
    module {
      nv_tileaa.func @k(%x: !nv_tileaa.ptr<i32, 1>, %y: !nv_tileaa.ptr<i32, 1>, %s: i32, %n: i32) attributes {kernel} {
        %r = nv_tileaa.make_range {start = 0, end = 64} : tile<64xi32>
        %b = nv_tileaa.splat %s : i32 -> tile<64xi32>
        %i = arith.addi %r, %b : tile<64xi32>
        %l = nv_tileaa.splat %n : i32 -> tile<64xi32>
        %m = arith.cmpi slt, %i, %l : tile<64xi32>
        %z = arith.constant dense<0> : tile<64xi32>
        %o = arith.cmpi sge, %i, %z : tile<64xi32>
        %k = arith.andi %m, %o : tile<64xi1>
        %p = nv_tileaa.addptr %x, %i : !nv_tileaa.ptr<i32, 1>, tile<64xi32> -> tile<64x!nv_tileaa.ptr<i32, 1>>
        %q = nv_tileaa.addptr %y, %r : !nv_tileaa.ptr<i32, 1>, tile<64xi32> -> tile<64x!nv_tileaa.ptr<i32, 1>>
        %f = arith.constant dense<-1> : tile<64xi32>
        %v = nv_tileaa.load %p, %k, %f {operandSegmentSizes = array<i32: 1, 0, 1, 1>}
          : tile<64x!nv_tileaa.ptr<i32, 1>>, tile<64xi1>, tile<64xi32> -> tile<64xi32>
        nv_tileaa.store %q, %v : tile<64x!nv_tileaa.ptr<i32, 1>>, tile<64xi32> -> ()
        nv_tileaa.return
      }
    }
    """
    loaded = load_text(text)
    x = np.arange(100, dtype=np.int32)
    for start in (0, 50, -10, 2**31 - 5):
        y = np.zeros(64, np.int32)
        assert loaded.run((1,), [x, y, start, 100]) == 0
        numbers = (np.arange(64) + start + 2**31) % 2**32 - 2**31
        inside = (numbers >= 0) & (numbers < 100)
        assert (y == np.where(inside, numbers, -1)).all()


def test_what_has_no_code_is_refused_at_its_place():
    text = """
    module {
      nv_tileaa.func @k() attributes {kernel} {
        nv_tileaa.plugin {code = "wgmma"} : () -> ()
        nv_tileaa.return
      }
    }
    """
    with pytest.raises(TileIRError) as caught:
        load_text(text)
    (problem,) = caught.value.diagnostics
    assert problem.code == "cpu-unsupported" and "'wgmma'" in problem.message
    assert problem.location is not None and problem.location.line == 4


def test_single_elements_at_the_indices_of_a_memref():
    text = """
    module {
      nv_tileaa.func @k(%x: !nv_tileaa.ptr<f32, 1>, %m: index, %n: index, %i: index, %j: index) attributes {kernel} {
        %a = nv_tileaa.make_memref %x, %m, %n, %n {operandSegmentSizes = array<i32: 1, 0, 2, 1>}
          : (!nv_tileaa.ptr<f32, 1>, index, index, index) -> !nv_tileaa.memref<?x?xf32, strides = [?, 1]>
        %v = nv_tileaa.load %a[%i, %j] : !nv_tileaa.memref<?x?xf32, strides = [?, 1]>, index, index -> f32
        %w = nv_tileaa.addf %v, %v : f32
        %z = arith.constant 0 : index
        nv_tileaa.store %a[%z, %z], %w : !nv_tileaa.memref<?x?xf32, strides = [?, 1]>, f32, index, index -> ()
        %t = nv_tileaa.load %a[%z, %j] : !nv_tileaa.memref<?x?xf32, strides = [?, 1]>, index, index -> tile<2x4xf32>
        %s = nv_tileaa.mulf %t, %t : tile<2x4xf32>
        nv_tileaa.store %a[%i, %z], %s
          : !nv_tileaa.memref<?x?xf32, strides = [?, 1]>, tile<2x4xf32>, index, index -> ()
        nv_tileaa.return
      }
    }
    """
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    expected = x.copy()
    expected[0, 0] = 2 * expected[3, 2]
    expected[3:5, 0:4] = expected[0:2, 2:6] ** 2
    assert load_text(text).run((1,), [x, 5, 7, 3, 2]) == 0
    assert (x == expected).all()
