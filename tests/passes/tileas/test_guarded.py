"""Accesses of which nothing is known at compile time: wide where they are aligned at run time, and by
element where not; the same results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tilewright import LaunchOptions
from tilewright.gpu.tiles import TileProgram as GpuProgram
from tilewright.passes.tileas.access_layouts import Shape
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

NUMPY: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "i8": np.int8}


def through_views(element: str, strides: str = "%k, 1", columns: int = 128) -> str:
    """y = x + x for a matrix of m x n with rows of k elements, in tiles of 32 rows."""
    dynamic = "?,?" if strides.count("%") == 2 else "?,1"
    ty = f"tensor_view<?x?x{element}, strides=[{dynamic}]>"
    tiles = f"partition_view<tile=(32x{columns}), padding_value = zero, {ty}>"
    tile = f"tile<32x{columns}x{element}>"
    add = "addi" if element == "i8" else "addf"
    return f"""
entry @k(%x: tile<ptr<{element}>>, %y: tile<ptr<{element}>>, %m: tile<i32>, %n: tile<i32>, %k: tile<i32>, %one: tile<i32>) {{
  %i, %j, %z = get_tile_block_id : tile<i32>
  %xv = make_tensor_view %x, shape = [%m, %n], strides = [{strides}] : tile<i32> -> {ty}
  %yv = make_tensor_view %y, shape = [%m, %n], strides = [{strides}] : tile<i32> -> {ty}
  %xt = make_partition_view %xv : {tiles}
  %yt = make_partition_view %yv : {tiles}
  %a, %t = load_view_tko weak %xt[%i, %j] : {tiles}, tile<i32> -> {tile}, token
  %s = {add} %a, %a : {tile}
  %d = store_view_tko weak %s, %yt[%i, %j] : {tile}, {tiles}, tile<i32> -> token
  return
}}
"""


def through_pointers(element: str) -> str:
    """y = x + x for n numbers in tiles of 1024, through pointers under a mask."""
    add = "addi" if element == "i8" else "addf"
    ptr, tile = f"tile<1024xptr<{element}>>", f"tile<1024x{element}>"
    lines = ""
    for name in "xy":
        lines += (
            f"  %{name}1 = reshape %{name} : tile<ptr<{element}>> -> tile<1xptr<{element}>>\n"
            f"  %{name}b = broadcast %{name}1 : tile<1xptr<{element}>> -> {ptr}\n"
            f"  %{name}p = offset %{name}b, %at : {ptr}, tile<1024xi32> -> {ptr}\n"
        )
    return f"""
entry @k(%x: tile<ptr<{element}>>, %y: tile<ptr<{element}>>, %n: tile<i32>) {{
  %i, %j, %z = get_tile_block_id : tile<i32>
  %width = constant <i32: 1024> : tile<i32>
  %start = muli %i, %width : tile<i32>
  %start1 = reshape %start : tile<i32> -> tile<1xi32>
  %starts = broadcast %start1 : tile<1xi32> -> tile<1024xi32>
  %range = iota : tile<1024xi32>
  %at = addi %starts, %range : tile<1024xi32>
  %n1 = reshape %n : tile<i32> -> tile<1xi32>
  %ns = broadcast %n1 : tile<1xi32> -> tile<1024xi32>
  %mask = cmpi less_than %at, %ns, signed : tile<1024xi32> -> tile<1024xi1>
{lines}  %a, %t = load_ptr_tko weak %xp, %mask : {ptr}, tile<1024xi1> -> {tile}, token
  %s = {add} %a, %a : {tile}
  %d = store_ptr_tko weak %yp, %s, %mask : {ptr}, {tile}, tile<1024xi1> -> token
  return
}}
"""


def _random(element: str, count: int) -> Any:
    return np.random.default_rng(count).integers(-50, 50, count).astype(NUMPY[element])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("element", NUMPY)
def test_views(element: str, arch: str) -> None:
    """Rows that are aligned and whole; rows cut; rows at odd distances; arrays that begin anywhere."""
    program = TileProgram(parse(through_views(element)), arch)
    for rows, columns, step, first in (
        (32, 128, 128, 0),
        (40, 120, 128, 0),
        (32, 128, 128, 1),
        (33, 131, 131, 0),
        (20, 77, 80, 3),
    ):
        held, out = (
            _random(element, first + 64 * step),
            np.full(first + 64 * step, 9, NUMPY[element]),
        )
        grid = (-(-rows // 32), -(-columns // 128), 1)
        program.launch("k", grid, [held[first:], out[first:], rows, columns, step, 1])
        expected = np.full_like(out, 9)
        for row in range(rows):
            part = slice(first + row * step, first + row * step + columns)
            expected[part] = held[part] + held[part]
        np.testing.assert_array_equal(out, expected, err_msg=str((rows, columns, step, first)))
    assert program.fallbacks == {}


@pytest.mark.parametrize("inner", [1, 2])
def test_strides_that_only_the_launch_knows(inner: int) -> None:
    program = TileProgram(parse(through_views("f16", "%k, %one")), "sm_90a")
    held, out = _random("f16", 64 * 256), np.zeros(64 * 256, np.float16)
    program.launch("k", (1, 1, 1), [held, out, 32, 128, 256, inner])
    expected = np.zeros((64, 256), np.float16)
    expected[:32, : 128 * inner : inner] = 2 * held.reshape(64, 256)[:32, : 128 * inner : inner]
    np.testing.assert_array_equal(out.reshape(64, 256), expected)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("element", NUMPY)
def test_pointers(element: str, arch: str) -> None:
    program = TileProgram(parse(through_pointers(element)), arch)
    for count, first in ((2048, 0), (2000, 0), (2048, 1), (1027, 2), (5, 0)):
        held, out = _random(element, 4096), np.full(4096, 9, NUMPY[element])
        for seed in range(2):
            given = [held[first:], out[first:], count]
            program.launch("k", (2, 1, 1), given, LaunchOptions(seed=seed))
        expected = np.full_like(out, 9)
        expected[first : first + count] = 2 * held[first : first + count]
        np.testing.assert_array_equal(out, expected, err_msg=str((count, first)))
    assert program.fallbacks == {}


@pytest.mark.parametrize(
    "text", [through_views("f16"), through_pointers("f16")], ids=["views", "pointers"]
)
def test_code_stays_bounded(text: str) -> None:
    """One load of each width for each part of the tile, not more."""
    ptx = GpuProgram(parse(text), "sm_80").compile("k").ptx
    each = 32 if "32x128" in text else 8
    assert len(re.findall(r"ld\.global\S*\.v4\.[bu]32", ptx)) == each // 8
    assert len(re.findall(r"ld\.global\S*\.[bu]16", ptx)) == each


def test_shapes() -> None:
    assert Shape(0, 8).known == 8
    assert Shape(0, 8, 2).known == 2
