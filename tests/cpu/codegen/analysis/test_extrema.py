"""Networks of extrema of floats, which go by integers in their order where that costs less: which ones do, and what they give."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.analysis.tileaa.reading import read
from tests.cpu.codegen.differential import agree
from tests.cpu.codegen.reductions.test_tuples import hard_floats

from tilewright.cpu.codegen.analysis.extrema import find_by_keys
from tilewright.cpu.target import cpu_target

_MINIMUM = {"maxnumf": "minnumf", "maximumf": "minimumf"}


def _sorted(names: list[str], largest: str, ty: str) -> tuple[str, list[str]]:
    """An odd-even network that sorts tiles, element by element."""
    names, lines = list(names), []
    for turn in range(len(names)):
        for low, high in list(pairwise(range(len(names))))[turn % 2 :: 2]:
            pair = f"{names[low]}, {names[high]} : {ty}"
            less, more = f"%l{len(lines)}", f"%m{len(lines)}"
            lines += [f"{less} = arith.{_MINIMUM[largest]} {pair}"]
            lines += [f"{more} = arith.{largest} {pair}"]
            names[low], names[high] = less, more
    return "\n".join(lines), names


@pytest.mark.parametrize("largest", _MINIMUM)
@pytest.mark.parametrize(
    ("element", "dtype"),
    [("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f32", np.float32), ("f64", np.float64)],
)
def test_networks_order_zeros_and_nan(element: str, dtype: Any, largest: str) -> None:
    """A network of tiles: NaN loses to both minima and maxima, or wins, as the extrema say."""
    inputs = {f"x{n}": np.roll(hard_floats(dtype, (8, 64)), n, 0) for n in range(5)}
    text, names = _sorted([f"%{name}" for name in inputs], largest, f"tile<8x64x{element}>")
    ends = "\n".join(
        f"%r{n} = arith.select %on, {name}, {name} : tile<8x64xi1>, tile<8x64x{element}>"
        for n, name in enumerate(names)
    )
    results = {f"r{n}": np.zeros((8, 64), dtype) for n in range(5)}
    on = "%on = arith.constant dense<true> : tile<8x64xi1>\n"
    agree(f"{on}{text}\n{ends}", inputs, results)


@pytest.mark.parametrize(
    ("element", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f32", np.float32)]
)
def test_networks_of_elements_that_move(element: str, dtype: Any) -> None:
    """Halves that are cut, compared, chosen and joined again, at all distances."""
    width, stages, held = 16, [], "%x"
    whole = f"tile<4x{width}x{element}>"
    for number, step in enumerate((1, 2, 1, 4, 2, 1, 8, 4, 2, 1)):
        three, part = (f"tile<{4 * width // 2 // step}x{n}x{step}x{element}>" for n in (2, 1))
        chosen = f"tile<{4 * width // 2 // step}x1x{step}xi1>"
        stages.append(f"""
          %v{number} = nv_tileaa.view {held} : {whole} -> {three}
          %a{number} = nv_tileaa.extract_slice %v{number} {{offsets = array<i64: 0, 0, 0>}} : {three} -> {part}
          %b{number} = nv_tileaa.extract_slice %v{number} {{offsets = array<i64: 0, 1, 0>}} : {three} -> {part}
          %s{number} = arith.minnumf %a{number}, %b{number} : {part}
          %l{number} = arith.maxnumf %a{number}, %b{number} : {part}
          %c{number} = arith.constant dense<{"true" if number % 3 else "false"}> : {chosen}
          %f{number} = arith.select %c{number}, %s{number}, %l{number} : {chosen}, {part}
          %g{number} = arith.select %c{number}, %l{number}, %s{number} : {chosen}, {part}
          %j{number} = nv_tileaa.cat %f{number}, %g{number} {{axis = 1 : i64}} : {part}, {part} -> {three}
          %h{number} = nv_tileaa.view %j{number} : {three} -> {whole}
        """)
        held = f"%h{number}"
    end = f"%r = nv_tileaa.view {held} : {whole} -> {whole}"
    agree(
        "\n".join(stages) + end,
        {"x": hard_floats(dtype, (4, width))},
        {"r": np.zeros((4, width), dtype)},
    )


_CHAIN = """
  %a = arith.maxnumf %x, %y : tile<8xELEMENT>
  %b = arith.minnumf %a, %y : tile<8xELEMENT>
  %c = arith.maxnumf %b, %x : tile<8xELEMENT>
  %d = arith.select %p, %c, %b : tile<8xELEMENT>
  %e = arith.minnumf %d, %y : tile<8xELEMENT>
  %f = arith.maxnumf %e, %x : tile<8xELEMENT>
  %alone = arith.maxnumf %z, %w : tile<8xELEMENT>
  %used = nv_tileaa.addf %alone, %f : tile<8xELEMENT>
"""


@pytest.mark.parametrize(
    ("element", "processor", "pays"),
    [
        ("f32", "x86-64-v3", True),
        ("f32", "x86-64-v4", False),  # with an instruction for it
        ("bf16", "x86-64-v4", True),
        ("f64", "x86-64-v3", False),  # without integers that long
    ],
)
def test_what_goes_by_integers(element: str, processor: str, pays: bool) -> None:
    """Extrema that are linked to enough others, also by a choice; not one alone."""
    ty = f"!nv_tileaa.tile<8x{element}>"
    arguments = f"%x: {ty}, %y: {ty}, %z: {ty}, %w: {ty}, %p: i1"
    found = read(_CHAIN.replace("ELEMENT", element), arguments=arguments)
    by_keys = find_by_keys(found.function.walk(), cpu_target(processor))
    names = "abcef" if pays else ""
    assert by_keys == {found.value(name) for name in names}
