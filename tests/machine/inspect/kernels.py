"""Kernels to look into."""

from __future__ import annotations

import numpy as np

from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.machine import Program
from tilewright.text import parse

VIEW = "tensor_view<8x8xf32, strides=[8,1]>"
TILES = f"partition_view<tile=(4x8), {VIEW}>"

#: Each tile block adds 1 to four rows of an 8x8 array, `steps` times.
ADD = f"""\
entry @add(%x: tile<ptr<f32>>, %steps: tile<i32>) {{
  %block, %by, %bz = get_tile_block_id : tile<i32>
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %by_one = constant <f32: 1.0> : tile<4x8xf32>
  %view = make_tensor_view %x, shape = [8, 8], strides = [8, 1] : {VIEW}
  %tiles = make_partition_view %view : {TILES}
  %before, %loaded = load_view_tko weak %tiles[%block, %zero] : {TILES}, tile<i32> -> tile<4x8xf32>, token
  %after = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%sum = %before) -> (tile<4x8xf32>) {{
    %more = addf %sum, %by_one : tile<4x8xf32>
    continue %more : tile<4x8xf32>
  }}
  %total = reduce %after dim=1 identities=[0.0 : f32] : tile<4x8xf32> -> tile<4xf32>
  (%element: tile<f32>, %partial: tile<f32>) {{
    %twice = addf %element, %partial : tile<f32>
    %inner = mulf %twice, %twice : tile<f32>
    yield %inner : tile<f32>
  }}
  %stored = store_view_tko weak %after, %tiles[%block, %zero] token = %loaded : tile<4x8xf32>, {TILES}, tile<i32> -> token
  return
}}
"""

#: Counts the tile blocks that come by, and leaves a loop when all have.
COUNT = """\
entry @count(%p: tile<ptr<i32>>) {
  %one = constant <i32: 1> : tile<i32>
  %two = constant <i32: 2> : tile<i32>
  %zero = constant <i32: 0> : tile<i32>
  %old, %t = atomic_rmw_tko relaxed device %p, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
  %last = loop : tile<i32> {
    %seen, %t2 = load_ptr_tko relaxed device %p : tile<ptr<i32>> -> tile<i32>, token
    %done = cmpi equal %seen, %two, signed : tile<i32> -> tile<i1>
    if %done {
      break %seen : tile<i32>
    }
    continue
  }
}
"""


def module(text: str = ADD, name: str = "add.tileir") -> ModuleOp:
    found = parse(text, name)
    assert isinstance(found, ModuleOp)
    return found


def array() -> np.ndarray:
    return np.arange(64, dtype=np.float32).reshape(8, 8)


def line_of(part: str, text: str = ADD) -> int:
    """The only line that holds a part, counted from 1."""
    (found,) = (number for number, line in enumerate(text.split("\n"), 1) if part in line)
    return found


def run_plainly(text: str, grid: object, args: list[object]) -> None:
    Program(module(text)).launch(None, grid, args)  # pyright: ignore[reportArgumentType]
