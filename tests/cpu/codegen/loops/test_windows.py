"""Parts of tiles in buffers whose places are multiples of less than a vector: loaded as they lie, not gathered."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.differential import variants

from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import compile_kernel
from tilewright.lowering import lower_to_tileaa
from tilewright.machine import Program as Reference
from tilewright.numerics.arrays import dtype_of

ROWS, SIZE = 4, 64


def _stages(element: str) -> Any:
    """All stages of butterflies over rows: the two halves of each are added and subtracted, and put in turn."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr(element), "y": ptr(element)}) as k:
        views = [
            k.partition(
                k.make_tensor_view(base, shape=[ROWS, SIZE], strides=[SIZE, 1]), tile=(ROWS, SIZE)
            )
            for base in (k.args.x, k.args.y)
        ]
        zero = k.constant(0, "i32")
        held, _ = k.load_view_tko(views[0], [zero, zero])
        one = k.constant(1, "i32")
        for stage in range(SIZE.bit_length() - 1):
            many, piece = SIZE >> (stage + 1), 1 << stage
            pairs = k.reshape(held, shape=(ROWS, 2, many, piece))
            a, b = (
                k.extract(pairs, [zero, at, zero, zero], shape=(ROWS, 1, many, piece))
                for at in (zero, one)
            )
            each = (ROWS, many, 1, piece)
            both = [k.reshape(part, shape=each) for part in (a + b, a - b)]
            held = k.reshape(k.cat(*both, dim=2), shape=(ROWS, SIZE))
        k.store_view_tko(held, views[1], [zero, zero])
    return module.build()


@pytest.mark.parametrize("element", ["f32", "f64", "i32", "i16", "i8"])
def test_halves_that_vectors_begin_in(element: str) -> None:
    module, dtype = _stages(element), dtype_of(element)
    x = np.random.default_rng(7).integers(-1, 2, (ROWS, SIZE)).astype(dtype)
    expected, found = np.zeros_like(x), np.zeros_like(x)
    Reference(module).launch("k", 1, (x, expected))
    for options in variants("halves", element):
        Program(module, options=LaunchOptions(**options)).launch("k", 1, (x, found))
        assert found.tobytes() == expected.tobytes(), options


@pytest.mark.parametrize("element", ["f32", "f64", "i32"])
def test_nothing_is_gathered(element: str) -> None:
    code = compile_kernel(lower_to_tileaa(_stages(element)).module).llvm_ir
    assert "masked.gather" not in code
    assert re.search(r"load <\d+ x", code)
