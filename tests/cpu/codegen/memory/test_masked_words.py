"""Stores of few lanes among others in memory: what lies between them stays as it is."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.cpu.codegen.differential import variants
from tests.cpu.codegen.support import same_bits

from tilewright import LaunchOptions
from tilewright.cpu import Program
from tilewright.machine import Program as Reference
from tilewright.text import parse

_TYPES: dict[str, Any] = {
    "i8": np.int8,
    "i16": np.int16,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i32": np.int32,
    "f64": np.float64,
}


def _kernel(kind: str, lanes: int, step: int, limit: int) -> Any:
    """``y[step * lane] = x[lane] + x[lane]``, of lanes below a limit."""
    add = "addi" if kind.startswith("i") else "addf"
    tile, many, numbers = (
        f"tile<{lanes}x{kind}>",
        f"tile<{lanes}xptr<{kind}>>",
        f"tile<{lanes}xi64>",
    )
    flags, places = f"tile<{lanes}xi1>", []
    for name, at in (("x", "%at"), ("y", "%far")):
        one = f"tile<1xptr<{kind}>>"
        places += [
            f"%{name}0 = reshape %{name} : tile<ptr<{kind}>> -> {one}",
            f"%{name}1 = broadcast %{name}0 : {one} -> {many}",
            f"%{name}2 = offset %{name}1, {at} : {many}, {numbers} -> {many}",
        ]
    return parse(
        "\n".join(
            [
                f"entry @k(%x: tile<ptr<{kind}>>, %y: tile<ptr<{kind}>>) {{",
                f"%at = iota : {numbers}",
                f"%step = constant <i64: {step}> : {numbers}",
                f"%far = muli %at, %step : {numbers}",
                *places,
                f"%v, %t = load_ptr_tko weak %x2 : {many} -> {tile}, token",
                f"%w = {add} %v, %v : {tile}",
                f"%limit = constant <i64: {limit}> : {numbers}",
                f"%on = cmpi less_than %at, %limit, signed : {numbers} -> {flags}",
                f"%d = store_ptr_tko weak %y2, %w, %on : {many}, {tile}, {flags} -> token",
                "return }",
            ]
        )
    )


@pytest.mark.rotates(4)
@pytest.mark.parametrize("kind", list(_TYPES))
@pytest.mark.parametrize("lanes", [2, 4, 8, 32])
def test_what_lies_between_lanes_stays(kind: str, lanes: int) -> None:
    numbers = np.random.default_rng(lanes).integers(1, 100, 6 * lanes).astype(_TYPES[kind])
    x, y = numbers[:lanes], numbers[lanes:]
    for step, limit in ((1, 1), (1, lanes - 1), (2, lanes), (3, lanes), (5, lanes)):
        module = _kernel(kind, lanes, step, limit)
        expected = y.copy()
        Reference(module).launch("k", 1, (x, expected))
        for options in variants(kind, lanes, step, limit):
            found = y.copy()
            Program(module, options=LaunchOptions(**options)).launch("k", 1, (x, found))
            assert same_bits(found, expected).all(), (step, limit, options)
