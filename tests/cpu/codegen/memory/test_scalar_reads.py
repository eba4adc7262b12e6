"""An element that is taken out of a tile is read where that stands: the tile's memory and its buffer hold until then."""

from __future__ import annotations

import numpy as np
import pytest
from tests import every_machine

from tilewright.text import parse

_POINTERS = """%p1 = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>
  %v, %t = load_ptr_tko weak %p1 : tile<1xptr<i32>> -> tile<1xi32>, token"""
_VIEW = """%pv = make_tensor_view %p, shape = [8], strides = [1] : tensor_view<8xi32, strides=[1]>
  %pp = make_partition_view %pv : partition_view<tile=(1), tensor_view<8xi32, strides=[1]>>
  %z = constant <i32: 0> : tile<i32>
  %v, %t = load_view_tko weak %pp[%z] : partition_view<tile=(1), tensor_view<8xi32, strides=[1]>>, tile<i32>
    -> tile<1xi32>, token"""
_SUM = """%w, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
  %o = reshape %w : tile<i32> -> tile<1xi32>
  %v = addi %o, %o : tile<1xi32>"""
LOADS = {"pointers": (_POINTERS, 5), "a view": (_VIEW, 5), "computed": (_SUM, 10)}


@pytest.mark.parametrize("machine", every_machine.MACHINES)
@pytest.mark.parametrize("kind", LOADS)
def test_memory_that_is_overwritten_before_the_element_is_taken(kind: str, machine: str) -> None:
    load, wanted = LOADS[kind]
    module = parse(
        f"""entry @k(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>) {{
  {load}
  %c = constant <i32: 9> : tile<i32>
  %s = store_ptr_tko weak %p, %c token = %t : tile<ptr<i32>>, tile<i32> -> token
  %x = reshape %v : tile<1xi32> -> tile<i32>
  %u = store_ptr_tko weak %q, %x : tile<ptr<i32>>, tile<i32> -> token
  return }}"""
    )
    p, q = every_machine.run(machine, module, [np.full(8, 5, np.int32), np.zeros(8, np.int32)])
    assert (p[0], q[0]) == (9, wanted)


@pytest.mark.parametrize("machine", ["reference", "cpu", "cpu-checked"])
def test_a_buffer_stays_until_an_element_is_taken(machine: str) -> None:
    """The tile is computed once, since a loop reads it; then comes what needs memory of its own."""
    module = parse(
        """entry @k(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>) {
  %bx, %by, %bz = get_tile_block_id : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %none = make_token : token
  %i = ori %bx, %one : tile<i32>
  %i1 = reshape %i : tile<i32> -> tile<1xi32>
  %m = constant <i32: 16> : tile<1xi32>
  %v = remi %i1, %m signed : tile<1xi32>
  %r, %t = loop iter_values(%n = %bx, %u = %none) : tile<i32>, token -> tile<1xi32>, token {
    %c = cmpi greater_than_or_equal %n, %one, signed : tile<i32> -> tile<i1>
    if %c {
      break %v, %u : tile<1xi32>, token
    }
    %n1 = addi %n, %one : tile<i32>
    continue %n1, %u : tile<i32>, token
  }
  %h = cmpi less_than %bx, %one, signed : tile<i32> -> tile<i1>
  %w, %wt = load_ptr_tko relaxed device %p, %h, %one token = %t : tile<ptr<i32>>, tile<i1>, tile<i32> -> tile<i32>, token
  %x = reshape %v : tile<1xi32> -> tile<i32>
  %y = muli %x, %w : tile<i32>
  %s = store_ptr_tko weak %q, %y token = %wt : tile<ptr<i32>>, tile<i32> -> token
  return }"""
    )
    _, q = every_machine.run(machine, module, [np.full(8, 5, np.int32), np.zeros(8, np.int32)])
    assert q[0] == 5
