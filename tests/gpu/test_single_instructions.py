"""Arithmetic of f32 that flushes subnormal numbers, or may be approximate, is an instruction, as its author expects who
wrote it so to be fast; and on the simulator it gives what the reference machine gives."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.gpu.support import requires_libdevice

import tilewright
from tilewright import LaunchOptions
from tilewright.gpu.tiles import TileProgram

_DIRECTIONS = {"zero": "rz", "negative_inf": "rm", "positive_inf": "rp", "nearest_even": "rn"}
_LIKE = {"addf": "add", "subf": "sub", "mulf": "mul", "divf": "div", "sqrt": "sqrt", "fma": "fma"}
_OPERANDS = {"sqrt": 1, "rsqrt": 1, "exp2": 1, "exp": 1, "tanh": 1, "fma": 3}

#: The operation with its mode, and the instructions that a thread then has.
CASES = {
    f"{op} rounding<{mode}> flush_to_zero": [f"{word}.{short}.ftz.f32"]
    for op, word in _LIKE.items()
    for mode, short in _DIRECTIONS.items()
} | {
    "divf rounding<approx>": ["div.approx.f32"],
    "divf rounding<approx> flush_to_zero": ["div.approx.ftz.f32"],
    "divf rounding<full>": ["div.full.f32"],
    "divf rounding<full> flush_to_zero": ["div.full.ftz.f32"],
    "sqrt rounding<approx>": ["sqrt.approx.f32"],
    "sqrt rounding<approx> flush_to_zero": ["sqrt.approx.ftz.f32"],
    "rsqrt": ["rsqrt.approx.f32"],
    "rsqrt flush_to_zero": ["rsqrt.approx.ftz.f32"],
    "exp2": ["ex2.approx.f32"],
    "exp2 flush_to_zero": ["ex2.approx.ftz.f32"],
    "exp rounding<approx>": ["ex2.approx.f32", "mul.rn.f32"],
    "tanh rounding<approx>": ["tanh.approx.f32"],
    "maxf flush_to_zero": ["max.ftz.f32"],
    "minf flush_to_zero": ["min.ftz.f32"],
    "maxf propagate_nan flush_to_zero": ["max.ftz.NaN.f32"],
    "minf propagate_nan flush_to_zero": ["min.ftz.NaN.f32"],
}  # fmt: skip
_SIZE = 128


def _kernel(operation: str) -> str:
    """A thread has one element of three arrays, and stores the operation's result over the first."""
    name, *modes = operation.split()
    count = _OPERANDS.get(name, 2)
    operands = ", ".join(f"%v{number}" for number in range(count))
    loads = "\n".join(
        f"""%s{n} = reshape %p{n} : tile<ptr<f32>> -> tile<1xptr<f32>>
        %b{n} = broadcast %s{n} : tile<1xptr<f32>> -> tile<{_SIZE}xptr<f32>>
        %a{n} = offset %b{n}, %i : tile<{_SIZE}xptr<f32>>, tile<{_SIZE}xi32> -> tile<{_SIZE}xptr<f32>>
        %v{n}, %t{n} = load_ptr_tko weak %a{n} : tile<{_SIZE}xptr<f32>> -> tile<{_SIZE}xf32>, token"""
        for n in range(3)
    )
    return f"""cuda_tile.module @m {{ entry @k(%p0: tile<ptr<f32>>, %p1: tile<ptr<f32>>, %p2: tile<ptr<f32>>) {{
        %i = iota : tile<{_SIZE}xi32>
        {loads}
        %r = {name} {operands} {" ".join(modes)} : tile<{_SIZE}xf32>
        %t = store_ptr_tko weak %a0, %r : tile<{_SIZE}xptr<f32>>, tile<{_SIZE}xf32> -> token
        return }} }}"""


@requires_libdevice
@pytest.mark.parametrize("optimization", [1, 0])
@pytest.mark.parametrize("operation", CASES)
@pytest.mark.rotates(1)
def test_is_one_instruction(operation: str, optimization: int) -> None:
    module = tilewright.parse(_kernel(operation))
    program = TileProgram(module, "sm_90a", options=LaunchOptions(optimization=optimization))
    body = program.compile().ptx
    found = re.findall(r"^\s+([a-z0-9]+(?:\.\w+)*\.f32)\s", body, re.MULTILINE)
    moved = ("ld.", "st.", "mov.")
    assert sorted(word for word in found if not word.startswith(moved)) == CASES[operation]
    assert not re.search(r"^\s+(and|or|selp|setp)\.\w*(b32|f32)", body, re.MULTILINE)


def _inputs() -> list[np.ndarray]:
    """Zeros, subnormal and the smallest normal numbers, results that are subnormal, infinities and NaN."""
    edges = np.array(
        [0.0, -0.0, 1e-45, -1e-40, 1.1754942e-38, 1.1754944e-38, -1.5e-38, 2.5e-38, 1.0, -2.0, 3.5, -126.5, -140.0,
         1e-20, -1e-19, 3e38, np.inf, -np.inf, np.nan],
        np.float32,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    return [rng.choice(edges, _SIZE).astype(np.float32) for _ in range(3)]


@pytest.mark.parametrize("operation", CASES)
@pytest.mark.rotates(1)
def test_is_what_the_reference_machine_computes(operation: str) -> None:
    module, arrays = tilewright.parse(_kernel(operation)), _inputs()
    wanted, found = (
        tilewright.run(module, "k", (1, 1, 1), arrays, machine=machine).outputs[0]
        for machine in ("reference", "sim:sm_90a")
    )
    np.testing.assert_array_equal(found, wanted)
