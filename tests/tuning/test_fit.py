"""Kernels that hold more than all registers of a multiprocessor."""

from __future__ import annotations

import pytest

import tilewright
from tilewright.diagnostics import TileIRError
from tilewright.model.tables import gpu_named
from tilewright.tuning.fit import check_fits

KERNEL = """
entry @k(%n: tile<i32>) {{
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %start = constant <{element}: {value}> : tile<{extents}x{element}>
  %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%s = %start) -> (tile<{extents}x{element}>) {{
    continue %s : tile<{extents}x{element}>
  }}
}}
"""


def check(extents: str, element: str = "f32") -> None:
    value = "0" if element.startswith("i") else "0.0"
    module = tilewright.parse(KERNEL.format(extents=extents, element=element, value=value))
    check_fits(module, gpu_named("h100"))


@pytest.mark.parametrize(
    ("extents", "element"), [("256x256", "f32"), ("512x256", "f16"), ("512x512", "i8")]
)
def test_all_registers_and_twice_as_much(extents: str, element: str) -> None:
    check(extents, element)
    first, second = map(int, extents.split("x"))
    with pytest.raises(TileIRError, match=f"512 KiB in tiles up to {first}x{second * 2}x{element}"):
        check(f"{first}x{second * 2}", element)
