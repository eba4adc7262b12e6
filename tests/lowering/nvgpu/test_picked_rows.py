"""Gather/scatter views whose tile has the shape of its indices: of one axis, and scalar beside them."""

from __future__ import annotations

import numpy as np
import pytest
from tests import every_machine

from tilewright.text import parse

LENGTH, LANES = 87, 8


def _copy(dims: str, extent: str, strides: str, at: str, kinds: str) -> str:
    """A kernel that moves picked elements of ``%x`` to the same places of ``%y``."""
    view = f"tensor_view<{extent}xi32, strides={strides}>"
    rows = f"gather_scatter_view<tile=({dims}), padding_value = zero, {view}, sparse_dim = 0>"
    made = "\n".join(
        f"""%{name}_t = make_tensor_view %{name}, shape = {extent_list(extent)}, strides = {strides} : {view}
        %{name}_g = make_gather_scatter_view %{name}_t : {rows}"""
        for name in "xy"
    )
    return f"""entry @k(%x: tile<ptr<i32>>, %y: tile<ptr<i32>>) {{
      {made}
      %n = iota : tile<{LANES}xi32>
      %c = constant <i32: 13> : tile<{LANES}xi32>
      %m = muli %n, %c : tile<{LANES}xi32>
      %e = constant <i32: {LENGTH}> : tile<{LANES}xi32>
      %i = remi %m, %e signed : tile<{LANES}xi32>
      %z = constant <i32: 0> : tile<i32>
      %v, %t = load_view_tko weak %x_g[{at}] : {rows}, {kinds} -> tile<{dims}xi32>, token
      %s = store_view_tko weak %v, %y_g[{at}] : tile<{dims}xi32>, {rows}, {kinds} -> token
      return }}"""


def extent_list(extent: str) -> str:
    return f"[{extent.replace('x', ', ')}]"


KERNELS = {
    "one axis": _copy(f"{LANES}", f"{LENGTH}", "[1]", "%i", f"tile<{LANES}xi32>"),
    "apart": _copy(f"{LANES}", f"{LENGTH}", "[3]", "%i", f"tile<{LANES}xi32>"),
    "a column": _copy(f"{LANES}x1", f"{LENGTH}x1", "[1,1]", "%i, %z", f"tile<{LANES}xi32>, tile<i32>"),
}  # fmt: skip


@pytest.mark.parametrize("machine", every_machine.MACHINES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_elements_are_picked(kernel: str, machine: str) -> None:
    step = 3 if kernel == "apart" else 1
    x = np.arange(1, step * LENGTH + 1, dtype=np.int32)
    wanted = np.zeros_like(x)
    picked = np.arange(LANES) * 13 % LENGTH * step
    wanted[picked] = x[picked]
    _, found = every_machine.run(machine, parse(KERNELS[kernel]), [x, np.zeros_like(x)])
    np.testing.assert_array_equal(found, wanted)
