"""Where threads meet in a branch or a loop that is not entered, they have not met: what stands before it is
still ordered with what stands behind."""

from __future__ import annotations

import numpy as np
import pytest
from tests.every_machine import ARCHITECTURES

from tilewright import verify
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

_STORES = """
  %w1 = store_ptr_tko weak %dp, %ones token=%t : tile<64xptr<f32>>, tile<64xf32> -> token
  %w2, %w3 = load_ptr_tko weak %dr token=%w1 : tile<64xptr<f32>> -> tile<64xf32>, token
  %w4 = store_ptr_tko weak %dp, %w2 token=%w3 : tile<64xptr<f32>>, tile<64xf32> -> token
"""
#: Each makes ``%done``, a token, of ``%t0``, and stores to ``%d`` if ``%n`` is above 0.
REGIONS = {
    "for": f"""
      %done = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%t = %t0) -> (token) {{
        {_STORES} continue %w4 : token }}""",
    "if": f"""
      %done = if %some -> (token) {{ %t = join_tokens %t0, %t0 : token {_STORES} yield %w4 : token }}
              else {{ yield %t0 : token }}""",
    "loop": f"""
      %last, %done = loop iter_values(%i = %zero, %t = %t0) : tile<i32>, token -> tile<i32>, token {{
        %stop = cmpi greater_than_or_equal %i, %n, signed : tile<i32> -> tile<i1>
        if %stop {{ break %i, %t : tile<i32>, token }}
        {_STORES}
        %next = addi %i, %one : tile<i32>
        continue %next, %w4 : tile<i32>, token }}""",
    "nested": f"""
      %done = if %some -> (token) {{
        %inner = for %i in (%zero to %zero, step %one) : tile<i32> iter_values(%t = %t0) -> (token) {{
          {_STORES} continue %w4 : token }}
        yield %inner : token
      }} else {{ yield %t0 : token }}""",
}
_READ = "%v, %ta = load_ptr_tko weak %ar token=%{order} : tile<64xptr<f32>> -> tile<64xf32>, token"
_WRITE = "%s = store_ptr_tko weak %ap, %{value} token=%{order} : tile<64xptr<f32>>, tile<64xf32> -> token"
#: What stands before and behind: the same elements, by other threads.
AROUND = {
    "read, write": (_READ.format(order="t0"), _WRITE.format(value="v", order="ta")),
    "write, read": (
        _WRITE.format(value="numbers", order="t0"),
        _READ.format(order="s")
        + "\n%end = store_ptr_tko weak %ep, %v token=%ta : tile<64xptr<f32>>, tile<64xf32> -> token",
    ),
    "write, write": (
        _WRITE.format(value="numbers", order="t0"),
        "%end = store_ptr_tko weak %ar, %ones token=%s : tile<64xptr<f32>>, tile<64xf32> -> token",
    ),
}


def _kernel(region: str, around: str) -> str:
    before, behind = AROUND[around]
    pointers = "\n".join(
        f"%{name}1 = reshape %{name} : tile<ptr<f32>> -> tile<1xptr<f32>>\n"
        f"%{name}2 = broadcast %{name}1 : tile<1xptr<f32>> -> tile<64xptr<f32>>\n"
        f"%{name}p = offset %{name}2, %iota : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>\n"
        f"%{name}r = offset %{name}2, %back : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>"
        for name in "ade"
    )
    return f"""entry @k(%a: tile<ptr<f32>>, %d: tile<ptr<f32>>, %e: tile<ptr<f32>>, %n: tile<i32>) {{
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %some = cmpi greater_than %n, %zero, signed : tile<i32> -> tile<i1>
      %iota = iota : tile<64xi32>
      %most = constant <i32: 63> : tile<64xi32>
      %back = subi %most, %iota : tile<64xi32>
      %numbers = itof %iota signed : tile<64xi32> -> tile<64xf32>
      %ones = constant <f32: 1.0> : tile<64xf32>
      {pointers}
      %t0 = make_token : token
      {before}
      {REGIONS[region]}
      {behind}
      return }}"""


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("region", REGIONS)
def test_what_is_around_a_region_stays_in_order(region: str, around: str, arch: str) -> None:
    """The simulator finds races between warps."""
    module = parse(_kernel(region, around))
    verify(module)
    program = TileProgram(module, arch)
    numbers = np.arange(64, dtype=np.float32)
    for turns in (0, 1, 2):
        a, d, e = numbers.copy(), np.zeros(64, np.float32), np.zeros(64, np.float32)
        program.launch("k", 1, [a, d, e, turns])
        turned = numbers[::-1]
        assert (a == {"write, read": numbers, "read, write": turned}.get(around, 1)).all()
        assert (e == (turned if around == "write, read" else 0)).all()
        assert (d == (turns > 0 and region != "nested")).all()
