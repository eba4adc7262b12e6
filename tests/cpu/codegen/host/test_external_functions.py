"""Foreign code, taken-over work, and memrefs on the move, in compiled code."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from tests.machine.tileaa.support import checked, f32, i32, kernel_text
from tests.machine.tileaa.support import launch as on_reference

from tilewright import LaunchOptions
from tilewright.cpu import Program
from tilewright.diagnostics import TileIRError

Plugins = dict[str, Callable[..., object]]


def _run(text: str, *arrays: np.ndarray, plugins: Plugins, grid: int = 1, threads: int = 2) -> None:
    given = [array if array.ndim else array.reshape(1) for array in arrays]
    Program(checked(text), options=LaunchOptions(plugins=plugins, threads=threads)).launch(
        "k", grid, given
    )


CALL = '%r = nv_tileaa.plugin %a {{code = "p"}} : {ty} -> {ty}'


@pytest.mark.parametrize(
    ("array", "ty"),
    [
        (np.arange(8, dtype=np.float32), "tile<8xf32>"),
        (np.array([True, False, True, True]), "tile<4xi1>"),
        (np.arange(4).astype(ml_dtypes.bfloat16), "tile<4xbf16>"),
        (np.arange(4).astype(ml_dtypes.float8_e4m3fn), "tile<4xf8E4M3FN>"),
        (np.arange(4, dtype=np.int64).reshape(2, 2), "tile<2x2xi64>"),
        (np.array(5, np.int32), "i32"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_tiles_go_to_plugins_and_back(array: np.ndarray, ty: str):
    seen: list[np.ndarray] = []

    def plugin(given: np.ndarray) -> np.ndarray:
        assert not given.flags.writeable
        seen.append(given.copy())
        return given[::-1] if given.ndim else given

    result = np.zeros_like(array)
    _run(
        kernel_text(CALL.format(ty=ty), {"a": array}, {"r": result}),
        array,
        result,
        plugins={"p": plugin},
    )
    assert seen[0].dtype == array.dtype
    np.testing.assert_array_equal(seen[0], array)
    np.testing.assert_array_equal(result, array[::-1] if array.ndim else array)


@pytest.mark.parametrize("ty", ["i4", "f4E2M1FN"])
def test_elements_that_share_bytes_are_handed_over_one_by_one(ty: str):
    body = f"""
%p = nv_tileaa.bitcast %a : tile<4xi8> -> tile<8x{ty}>
%q = nv_tileaa.plugin %p {{code = "p"}} : tile<8x{ty}> -> tile<8x{ty}>
%r = nv_tileaa.bitcast %q : tile<8x{ty}> -> tile<4xi8>
"""
    array = np.array([0x21, 0x43, -0x79, 0x0F], np.int8)
    text = kernel_text(body, {"a": array}, {"r": np.zeros_like(array)})
    plugins: Plugins = {"p": lambda given: given[::-1]}
    expected, found = np.zeros_like(array), np.zeros_like(array)
    on_reference(text, array, expected, plugins=plugins)
    _run(text, array, found, plugins=plugins)
    np.testing.assert_array_equal(found, expected)


def test_plugins_get_memrefs_as_arrays_over_their_memory():
    array = np.zeros((4, 8), np.float32)
    memref = "!nv_tileaa.memref<4x8xf32, strides = [8, 1], 1>"

    def plugin(memory: np.ndarray) -> None:
        memory[1:3, 2:4] = 5

    body = f'nv_tileaa.plugin %mem_a {{code = "p"}} : {memref} -> ()'
    _run(kernel_text(body, {"a": array}, {}), array, plugins={"p": plugin})
    assert array.sum() == 20 and array[2, 3] == 5


def test_what_a_plugin_writes_is_read_behind_it():
    memref = "!nv_tileaa.memref<4xf32, strides = [1], 1>"
    body = f"""
%before = nv_tileaa.tiled_load %mem_a[%zero] : {memref}, index -> tile<4xf32>
nv_tileaa.plugin %mem_a {{code = "p"}} : {memref} -> ()
%after = nv_tileaa.tiled_load %mem_a[%zero] : {memref}, index -> tile<4xf32>
%r = nv_tileaa.subf %after, %before : tile<4xf32>
"""
    array, result = f32(1, 2, 3, 4), f32(0, 0, 0, 0)

    def plugin(memory: np.ndarray) -> None:
        memory *= 10

    text = kernel_text(body, {"a": array}, {"r": result})
    _run(text, array, result, plugins={"p": plugin})
    assert result.tolist() == [9, 18, 27, 36]


def test_plugins_may_be_called_by_many_threads():
    body = """
%x = nv_tileaa.get_program_id {axis = 0 : i32} : i32
%v = nv_tileaa.plugin %x {code = "p"} : i32 -> i32
%at = arith.index_castui %x : i32 to index
nv_tileaa.store %mem_a[%at], %v : !nv_tileaa.memref<300xi32, strides = [1], 1>, i32, index
"""
    array = np.zeros(300, np.int32)
    _run(
        kernel_text(body, {"a": array}, {}),
        array,
        plugins={"p": lambda n: n * 2},
        grid=300,
        threads=4,
    )
    np.testing.assert_array_equal(array, 2 * np.arange(300))


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (lambda a: np.zeros(3, np.float32), "must be an array of float32 of shape"),
        (lambda a: (a, a), "gave 2 results, not 1"),
        (lambda a: a.astype(np.complex64), "must be an array of float32"),
    ],
)
def test_results_that_do_not_fit_end_the_launch(plugin: Callable[..., object], message: str):
    array, result = f32(1, 2, 3, 4), f32(0, 0, 0, 0)
    text = kernel_text(CALL.format(ty="tile<4xf32>"), {"a": array}, {"r": result})
    with pytest.raises(TileIRError, match=message) as caught:
        _run(text, array, result, plugins={"p": plugin})
    assert caught.value.diagnostics[0].code == "plugin-result"
    assert caught.value.diagnostics[0].location is not None


def test_what_a_plugin_raises_ends_the_launch():
    array, result = f32(1, 2, 3, 4), f32(0, 0, 0, 0)
    text = kernel_text(CALL.format(ty="tile<4xf32>"), {"a": array}, {"r": result})
    with pytest.raises(ZeroDivisionError):
        _run(text, array, result, plugins={"p": lambda a: 1 // 0})
    assert not result.any()


def test_code_that_nobody_gave_is_refused():
    array, result = f32(1, 2, 3, 4), f32(0, 0, 0, 0)
    text = kernel_text(CALL.format(ty="tile<4xf32>"), {"a": array}, {"r": result})
    with pytest.raises(TileIRError, match="give a function on NumPy arrays") as caught:
        _run(text, array, result, plugins={"q": lambda a: a})
    assert caught.value.diagnostics[0].code == "cpu-unsupported"


TAKING_OVER = """
%x = nv_tileaa.get_program_id {axis = 0 : i32} : i32
%y = nv_tileaa.get_program_id {axis = 1 : i32} : i32
%one = arith.constant 1 : i32
%at = arith.index_castui %x : i32 to index
%to = arith.index_castui %y : i32 to index
nv_tileaa.store %mem_a[%at, %to], %one
  : !nv_tileaa.memref<7x5xi32, strides = [5, 1], 1>, i32, index, index
%last = scf.while (%n = %one) : (i32) -> (i32) {
  %more = nv_tileaa.cancel_next_program_id : !nv_tileaa.program_id
  %is = nv_tileaa.is_valid_program_id %more : !nv_tileaa.program_id -> i1
  %then = scf.if %is -> (i32) {
    %u = nv_tileaa.get_program_id %more {axis = 0 : i32} : !nv_tileaa.program_id -> i32
    %v = nv_tileaa.get_program_id %more {axis = 1 : i32} : !nv_tileaa.program_id -> i32
    %i = arith.index_castui %u : i32 to index
    %j = arith.index_castui %v : i32 to index
    %old = nv_tileaa.load %mem_a[%i, %j]
      : !nv_tileaa.memref<7x5xi32, strides = [5, 1], 1>, index, index -> i32
    %new = arith.addi %old, %one : i32
    nv_tileaa.store %mem_a[%i, %j], %new
      : !nv_tileaa.memref<7x5xi32, strides = [5, 1], 1>, i32, index, index
    scf.yield %new : i32
  } else {
    scf.yield %n : i32
  }
  scf.condition(%is) %then : i32
} do {
^bb0(%n: i32):
  scf.yield %n : i32
}
"""


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_block_runs_once_wherever_its_work_is_taken_over(threads: int):
    array = np.zeros((7, 5), np.int32)
    text = kernel_text(TAKING_OVER, {"a": array}, {})
    program = Program(checked(text), options=LaunchOptions(threads=threads))
    for _ in range(3):
        array[:] = 0
        program.launch("k", (7, 5), [array])
        np.testing.assert_array_equal(array, np.ones((7, 5), np.int32))


def test_program_ids_go_through_loops_and_branches():
    array = np.zeros((7, 5), np.int32)
    text = kernel_text(
        TAKING_OVER.replace("%more = nv_tileaa.cancel", "%got = nv_tileaa.cancel").replace(
            "  %is = ",
            """
  %never = arith.cmpi slt, %n, %n : i32
  %more = scf.if %never -> (!nv_tileaa.program_id) {
    scf.yield %got : !nv_tileaa.program_id
  } else {
    scf.yield %got : !nv_tileaa.program_id
  }
  %is = """,
        ),
        {"a": array},
        {},
    )
    Program(checked(text), options=LaunchOptions(threads=2)).launch("k", (7, 5), [array])
    np.testing.assert_array_equal(array, np.ones((7, 5), np.int32))


MEMREF = "!nv_tileaa.memref<?xi32, strides = [?], 1>"
VIEW = f"!nv_tileaa.tiled_view<4xi32, source = {MEMREF}>"
SWAPPED = f"""
%eight = arith.constant 8 : index
%four = arith.constant 4 : index
%unit = arith.constant 1 : index
%two = arith.constant 2 : index
%p = nv_tileaa.make_memref %ptr_a, %eight, %unit {{operandSegmentSizes = array<i32: 1, 0, 1, 1>}}
  : (!nv_tileaa.ptr<i32, 1>, index, index) -> {MEMREF}
%q = nv_tileaa.make_memref %ptr_b, %four, %two {{operandSegmentSizes = array<i32: 1, 0, 1, 1>}}
  : (!nv_tileaa.ptr<i32, 1>, index, index) -> {MEMREF}
%x = nv_tileaa.block_tile %p {{tileSizes = array<i64: 4>, dimGroups = [[0]]}} : {MEMREF} -> {VIEW}
%y = nv_tileaa.block_tile %q {{tileSizes = array<i64: 4>, dimGroups = [[0]]}} : {MEMREF} -> {VIEW}
%from = arith.constant 0 : i32
%by = arith.constant 1 : i32
%three = arith.constant 3 : i32
%v, %w = scf.for %i = %from to %three step %by iter_args(%s = %x, %t = %y) -> ({VIEW}, {VIEW}) : i32 {{
  scf.yield %t, %s : {VIEW}, {VIEW}
}}
%c = arith.cmpi slt, %from, %by : i32
%m = scf.if %c -> ({MEMREF}) {{
  scf.yield %q : {MEMREF}
}} else {{
  scf.yield %p : {MEMREF}
}}
%tile = nv_tileaa.tiled_load %v[%zero] : {VIEW}, index -> tile<4xi32>
%more = nv_tileaa.tiled_load %m[%unit] : {MEMREF}, index -> tile<2xi32>
%n = nv_tileaa.get_dim_size %v {{axis = 0 : i32}} : {VIEW} -> index
%k = nv_tileaa.get_dim_size %m {{axis = 0 : i32}} : {MEMREF} -> index
%r = arith.muli %tile, %tile : !nv_tileaa.tile<4xi32>
%s = arith.addi %more, %more : !nv_tileaa.tile<2xi32>
"""


@pytest.mark.parametrize("steps", ["", ", traversalStrides = array<i64: 2>"])
def test_memrefs_and_views_go_through_loops_and_branches(steps: str):
    """Also those that cut tiles in different ways."""
    a, b = np.arange(8, dtype=np.int32), np.arange(10, 18, dtype=np.int32)
    results = {"r": i32(0, 0, 0, 0), "s": i32(0, 0)}
    body = SWAPPED.replace(
        f"[[0]]}} : {MEMREF} -> {VIEW}\n%from", f"[[0]]{steps}}} : {MEMREF} -> {VIEW}\n%from"
    )
    assert bool(steps) == (body != SWAPPED)
    text = kernel_text(body, {"a": a, "b": b}, results)
    expected = {name: array.copy() for name, array in results.items()}
    on_reference(text, a, b, *expected.values())
    assert expected["r"].any() and expected["s"].any()
    _run(text, a, b, *results.values(), plugins={})
    for name, array in results.items():
        np.testing.assert_array_equal(array, expected[name])


TILE_PARAMETER = """
module {{
  nv_tileaa.func @k(%t: tile<2x4x{ty}>, %p: !nv_tileaa.ptr<{ty}, 1>) attributes {{kernel}} {{
    %z = arith.constant 0 : index
    %m = nv_tileaa.make_memref %p : (!nv_tileaa.ptr<{ty}, 1>)
      -> !nv_tileaa.memref<4x2x{ty}, strides = [2, 1], 1>
    %u = nv_tileaa.permute %t {{permutation = array<i64: 1, 0>}} : tile<2x4x{ty}> -> tile<4x2x{ty}>
    nv_tileaa.tiled_store %m[%z, %z], %u
      : !nv_tileaa.memref<4x2x{ty}, strides = [2, 1], 1>, tile<4x2x{ty}>, index, index
    nv_tileaa.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("ty", "dtype"),
    [("f32", np.float32), ("bf16", ml_dtypes.bfloat16), ("i1", np.bool_), ("i64", np.int64)],
)
def test_tiles_are_passed_by_value(ty: str, dtype: type):
    tile = (np.arange(8).reshape(2, 4) % 3).astype(dtype)
    result = np.zeros((4, 2), dtype)
    program = Program(checked(TILE_PARAMETER.format(ty=ty)))
    program.launch("k", 1, [tile, result])
    np.testing.assert_array_equal(result, tile.T)
    program.launch("k", 1, [np.asfortranarray(tile[:, ::-1]), result])
    np.testing.assert_array_equal(result, tile[:, ::-1].T)


def test_tiles_of_another_shape_are_refused():
    program = Program(checked(TILE_PARAMETER.format(ty="f32")))
    with pytest.raises(TileIRError) as caught:
        program.launch("k", 1, [np.zeros((4, 2), np.float32), np.zeros((4, 2), np.float32)])
    assert caught.value.diagnostics[0].code == "bad-argument"
