"""Whole vectors, and single elements where a tile is not inside, not aligned, or masked off."""

from __future__ import annotations

import numpy as np
import pytest
from tests.lowering.nvgpu.support import lower
from tests.lowering.nvgpu.test_ptx import copy_through_views

from tilewright.analysis.verifier import verify
from tilewright.dialects.upstream.llvm import ops as llvm
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse


def _placed(array: np.ndarray, shift: int) -> np.ndarray:
    """The array at an address that is a multiple of 16 bytes, plus ``shift`` elements."""
    room = np.zeros(array.size + shift + 16, array.dtype)
    start = -room.ctypes.data % 16 // array.itemsize + shift
    made = room[start : start + array.size].reshape(array.shape)
    made[...] = array
    return made


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("extents", [(64, 64), (64, 61), (61, 64), (30, 7), (64, 128)])
@pytest.mark.parametrize("element", [np.float32, np.int8, np.float64])
def test_tiles_of_views(element: type, extents: tuple[int, int], shift: int) -> None:
    """In the middle and at the end of arrays whose rows are aligned, or not."""
    _copies(element, extents, shift, "?,1")


@pytest.mark.parametrize("extents", [(64, 64), (61, 30), (32, 128)])
@pytest.mark.parametrize("element", [np.float32, np.int8, np.float64, np.float16])
def test_tiles_whose_elements_lie_side_by_side_along_another_axis(
    element: type, extents: tuple[int, int]
) -> None:
    _copies(element, extents, 0, "1,?")


def _copies(element: type, extents: tuple[int, int], shift: int, strides: str) -> None:
    """A copy from view to view is one of the array, which is transposed if its columns are dense."""
    name = {np.float32: "f32", np.int8: "i8", np.float64: "f64", np.float16: "f16"}[element]
    module = parse(copy_through_views(name, (32, 32), strides))
    verify(module)
    source = np.arange(extents[0] * extents[1]).reshape(extents).astype(element)
    given, found = _placed(source, shift), _placed(np.zeros_like(source), shift)
    sizes = extents if strides == "?,1" else extents[::-1]
    grid = tuple(-(-extent // 32) for extent in sizes)
    args = [given, found, *sizes, extents[1]]
    TileProgram(module, "sm_90a").launch("k", (*grid, 1), args)
    np.testing.assert_array_equal(found, source)


COPY_THROUGH_POINTERS = """
    entry @k(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %n: tile<i32>) {
      %i, %j, %unused = get_tile_block_id : tile<i32>
      %size = constant <i32: 1024> : tile<i32>
      %start = muli %i, %size : tile<i32>
      %range = iota : tile<1024xi32>
      %one = reshape %start : tile<i32> -> tile<1xi32>
      %all = broadcast %one : tile<1xi32> -> tile<1024xi32>
      %at = addi %all, %range : tile<1024xi32>
      %bound = reshape %n : tile<i32> -> tile<1xi32>
      %bounds = broadcast %bound : tile<1xi32> -> tile<1024xi32>
      %mask = cmpi less_than %at, %bounds, signed : tile<1024xi32> -> tile<1024xi1>
      %pa = reshape %a : tile<ptr<f32>> -> tile<1xptr<f32>>
      %pas = broadcast %pa : tile<1xptr<f32>> -> tile<1024xptr<f32>>
      %from = offset %pas, %at : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
      %pb = reshape %b : tile<ptr<f32>> -> tile<1xptr<f32>>
      %pbs = broadcast %pb : tile<1xptr<f32>> -> tile<1024xptr<f32>>
      %to = offset %pbs, %at : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
      %zeros = constant <f32: 7.0> : tile<1024xf32>
      %x, %t0 = load_ptr_tko weak %from, %mask, %zeros : tile<1024xptr<f32>>, tile<1024xi1>, tile<1024xf32> -> tile<1024xf32>, token
      %t1 = store_ptr_tko weak %to, %x, %mask : tile<1024xptr<f32>>, tile<1024xf32>, tile<1024xi1> -> token
      return
    }
"""


@pytest.mark.parametrize("shift", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 1024, 1027, 2048, 3071])
def test_tiles_of_pointers(count: int, shift: int) -> None:
    module = parse(COPY_THROUGH_POINTERS)
    verify(module)
    source = np.arange(count).astype(np.float32) + 1
    given, found = _placed(source, shift), _placed(np.zeros_like(source), shift)
    TileProgram(module, "sm_90a").launch("k", -(-count // 1024), [given, found, count])
    np.testing.assert_array_equal(found, source)


def _vector_accesses(text: str) -> list[str]:
    return [
        op.name for op in lower(text).module.walk() if isinstance(op, llvm.LoadOp | llvm.StoreOp)
    ]


def test_pointers_that_rise_by_one_move_as_vectors() -> None:
    assert _vector_accesses(COPY_THROUGH_POINTERS) == ["llvm.load"] * 2 + ["llvm.store"] * 2


def test_pointers_that_rise_by_more_do_not() -> None:
    text = COPY_THROUGH_POINTERS.replace(
        "%at = addi %all, %range",
        "%twice = addi %range, %range : tile<1024xi32>\n%at = addi %all, %twice",
    )
    assert _vector_accesses(text) == []


def test_views_of_which_no_stride_is_known_to_be_one_move_one_by_one() -> None:
    expected = {"?,?": [], "?,1": ["llvm.load"] * 2 + ["llvm.store"] * 2}
    expected["1,?"] = expected["?,1"]
    for strides, names in expected.items():
        assert _vector_accesses(copy_through_views("f32", (32, 32), strides)) == names
