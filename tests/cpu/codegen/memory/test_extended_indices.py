"""Indices of few bits that wrap between the lanes of a vector, and are then extended: what lies side by
side is told by the extended numbers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.every_machine import MACHINES, PROGRAMS

from tilewright.text import parse

COMPILED = ("cpu", "cpu-generic", "cpu-checked")


def kernel(bits: int, sign: str, lanes: int, access: str, index: str) -> str:
    """Loads from, or stores to, elements ``offset + lane`` of 300, where they are within the array."""
    narrow, wide, word = f"tile<{lanes}xi{bits}>", f"tile<{lanes}xi64>", f"tile<{lanes}xi32>"
    one, pointers = f"tile<1xi{bits}>", f"tile<{lanes}xptr<i32>>"
    mask, scalar = f"tile<{lanes}xi1>", f"tile<i{bits}>"

    def pointing(name: str) -> str:
        return f"""
          %{name}1 = reshape %{name} : tile<ptr<i32>> -> tile<1xptr<i32>>
          %{name}b = broadcast %{name}1 : tile<1xptr<i32>> -> {pointers}
          """

    far = f"""%fp = offset %{{}}b, %far : {pointers}, {wide} -> {pointers}
          %np = offset %{{}}b, %near : {pointers}, {word} -> {pointers}"""
    if access == "load":
        moves = f"""{far.format("x", "y")}
          %v, %t = load_ptr_tko weak %fp, %on, %other : {pointers}, {mask}, {word} -> {word}, token
          %u = store_ptr_tko weak %np, %v : {pointers}, {word} -> token"""
    else:
        moves = f"""{far.format("y", "x")}
          %v, %t = load_ptr_tko weak %np : {pointers} -> {word}, token
          %u = store_ptr_tko weak %fp, %v, %on : {pointers}, {word}, {mask} -> token"""
    return f"""entry @k(%x: tile<ptr<i32>>, %y: tile<ptr<i32>>, %o: {scalar}) {{
          %near = iota : {word}
          %other = constant <i32: -5> : {word}
          %n = iota : {narrow}
          %o1 = reshape %o : {scalar} -> {one}
          %ob = broadcast %o1 : {one} -> {narrow}
          %i = {index} %{"ob, %n" if index == "subi" else "n, %ob"} : {narrow}
          %far = exti %i {sign} : {narrow} -> {wide}
          %zero = constant <i64: 0> : {wide}
          %end = constant <i64: 300> : {wide}
          %above = cmpi greater_than_or_equal %far, %zero, signed : {wide} -> {mask}
          %below = cmpi less_than %far, %end, signed : {wide} -> {mask}
          %on = andi %above, %below : {mask}
          {pointing("x")} {pointing("y")} {moves}
          return }}"""


@pytest.mark.parametrize("access", ["load", "store"])
@pytest.mark.parametrize("index", ["addi", "subi"])
@pytest.mark.parametrize("sign", ["signed", "unsigned"])
@pytest.mark.parametrize("bits", [16, 32])
def test_numbers_that_wrap_between_lanes(bits: int, sign: str, index: str, access: str) -> None:
    lanes, half = 64, 1 << bits - 1
    module = parse(kernel(bits, sign, lanes, access, index))
    programs = {machine: PROGRAMS[machine](module) for machine in ("reference", *COMPILED)}
    x = np.arange(1, 301, dtype=np.int32)
    for offset in (-1, -8, -lanes, 0, 5, 63, 280, half - 1, half - 9, -half, -half + 7):
        found = {}
        for machine, program in programs.items():
            y = np.full(300, -7, np.int32)
            program.launch(None, (1, 1, 1), [x.copy(), y, offset])
            found[machine] = y.tolist()
        for machine in COMPILED:
            assert found[machine] == found["reference"], (machine, offset)


@pytest.mark.parametrize("offset", [0, 32700, -56, -1])
@pytest.mark.parametrize("step", [2, 3])
def test_near_elements_whose_numbers_may_wrap(step: int, offset: int) -> None:
    """Without a mask, on the way for numbers that do wrap: neighbours are far from one another then."""
    pointers = "tile<64xptr<f32>>"
    module = parse(f"""entry @k(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %o: tile<i16>) {{
      %n = iota : tile<64xi16>
      %step = constant <i16: {step}> : tile<64xi16>
      %m = muli %n, %step : tile<64xi16>
      %o1 = reshape %o : tile<i16> -> tile<1xi16>
      %ob = broadcast %o1 : tile<1xi16> -> tile<64xi16>
      %i = addi %m, %ob : tile<64xi16>
      %far = exti %i unsigned : tile<64xi16> -> tile<64xi32>
      %near = iota : tile<64xi32>
      %x1 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
      %xb = broadcast %x1 : tile<1xptr<f32>> -> {pointers}
      %y1 = reshape %y : tile<ptr<f32>> -> tile<1xptr<f32>>
      %yb = broadcast %y1 : tile<1xptr<f32>> -> {pointers}
      %xp = offset %xb, %far : {pointers}, tile<64xi32> -> {pointers}
      %yp = offset %yb, %near : {pointers}, tile<64xi32> -> {pointers}
      %v, %t = load_ptr_tko weak %xp : {pointers} -> tile<64xf32>, token
      %u = store_ptr_tko weak %yp, %v : {pointers}, tile<64xf32> -> token
      return }}""")
    x = np.arange(1 << 16, dtype=np.float32)
    for machine in COMPILED:
        y = np.zeros(64, np.float32)
        MACHINES[machine](module, (1, 1, 1), [x, y, offset])
        assert (y == x[(np.arange(64) * step + offset) % (1 << 16)]).all(), machine
