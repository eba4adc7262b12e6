"""Minima and maxima with a number that is known: one comparison, whatever zeros and NaN there are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.differential import VARIANTS

from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, ptr
from tilewright.cpu import Program
from tilewright.machine import Program as Reference

COUNT = 64
LIMITS = (0.0, -0.0, 1.0, -2.5, math.inf, -math.inf, math.nan)
#: Zeros, ones, numbers around the limits, subnormal ones, infinities, and NaN: quiet, with a payload, and signalling.
WORDS = {
    "f64": (
        0,
        1,
        0x3FF0 << 48,
        0x4004 << 48,
        0x7FF0 << 48,
        0x7FF8 << 48,
        (0x7FF8 << 48) + 5,
        (0x7FF0 << 48) + 9,
    ),
    "f32": (0, 1, 0x3F800000, 0x40200000, 0x7F800000, 0x7FC00000, 0x7FC00005, 0x7F800009),
    "f16": (0, 1, 0x3C00, 0x4100, 0x7C00, 0x7E00, 0x7E05, 0x7C09),
    "bf16": (0, 1, 0x3F80, 0x4020, 0x7F80, 0x7FC0, 0x7FC5, 0x7F89),
}


def _kernel(element: str, bits: int, propagate: bool) -> Any:
    """All limits, on either side, as the larger and as the smaller one."""
    module = ModuleBuilder()
    word = f"i{bits}"
    with module.entry("k", {"x": ptr(word), "y": ptr(word)}) as k:
        rows = 4 * len(LIMITS)
        x = k.make_tensor_view(k.args.x, shape=[COUNT], strides=[1])
        y = k.make_tensor_view(k.args.y, shape=[rows, COUNT], strides=[COUNT, 1])
        held, _ = k.load_view_tko(k.partition(x, tile=(COUNT,)), [0])
        number = k.bitcast(held, to=element)
        row = 0
        for value in LIMITS:
            limit = k.full((COUNT,), value, element)
            for op in (k.maxf, k.minf):
                for pair in ((number, limit), (limit, number)):
                    found = k.bitcast(op(*pair, propagate_nan=propagate), to=word)
                    found = k.reshape(found, shape=(1, COUNT))
                    k.store_view_tko(found, k.partition(y, tile=(1, COUNT)), [row, 0])
                    row += 1
    return module.build()


@pytest.mark.parametrize("propagate", [False, True])
@pytest.mark.parametrize("element", WORDS)
def test_results_are_those_of_the_reference(element: str, propagate: bool) -> None:
    bits = int(element.lstrip("bf"))
    dtype = np.dtype(f"u{bits // 8}")
    words = np.array(WORDS[element], dtype)
    x = np.resize(np.concatenate([words, words | dtype.type(1 << bits - 1)]), COUNT)
    module = _kernel(element, bits, propagate)
    expected = np.zeros((4 * len(LIMITS), COUNT), dtype)
    Reference(module).launch("k", 1, (x, expected))
    for options in VARIANTS:
        found = np.zeros_like(expected)
        Program(module, options=LaunchOptions(**options)).launch("k", 1, (x, found))
        np.testing.assert_array_equal(found, expected)
