"""The problems that all interpreters solve: inputs, right answers, tile sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

SIZE = 512
"""Rows, columns and depth of the matrix product."""
TILE_M, TILE_N, TILE_K = 64, 64, 32
HEIGHT, WIDTH = 1024, 1024
"""Of the matrices that are worked on row by row."""
ROWS = 8
"""Rows of a tile block."""
LENGTH = 1 << 20
VECTOR = 1024
"""Elements of a tile block of the vector addition."""
EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class Problem:
    """Arrays to read, and the function that says what must come out, to a relative ``tolerance``.

    The tolerance is that of f32 sums in any order.
    """

    title: str
    inputs: tuple[Array, ...]
    output_shape: tuple[int, ...]
    answer: Callable[..., Array]
    tolerance: float

    def check(self, output: Array) -> None:
        """ValueError if an output is wrong."""
        expected = self.answer(*(array.astype(np.float64) for array in self.inputs))
        wrong = np.abs(output - expected).max() / np.abs(expected).max()
        if not wrong <= self.tolerance:
            raise ValueError(f"{self.title}: off by {wrong:g} of the largest element")


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _layer_norm(x: Array, scale: Array, shift: Array) -> Array:
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred / np.sqrt(variance + EPSILON) * scale + shift


def problems() -> dict[str, Problem]:
    """All problems by name, with the same numbers in every process."""
    random = np.random.default_rng(0)

    def normal(*shape: int) -> Array:
        return random.standard_normal(shape, np.float32)

    def halves(*shape: int) -> Array:
        return normal(*shape).astype(np.float16)

    rows = (HEIGHT, WIDTH)
    # An f32 sum of n terms is off by at most n times the unit roundoff of its terms' magnitudes.
    unit = 2.0**-24
    return {
        "matmul": Problem(
            f"matrix product {SIZE}x{SIZE}x{SIZE}, f16, tiles of {TILE_M}x{TILE_N}x{TILE_K}",
            (halves(SIZE, SIZE), halves(SIZE, SIZE)),
            (SIZE, SIZE),
            np.matmul,
            SIZE * unit,
        ),
        "softmax": Problem(
            f"softmax of {HEIGHT} rows of {WIDTH}, f32, {ROWS} rows at a time",
            (normal(*rows),),
            rows,
            _softmax,
            WIDTH * unit,
        ),
        "layer_norm": Problem(
            f"layer normalisation of {HEIGHT} rows of {WIDTH}, f32, {ROWS} rows at a time",
            (normal(*rows), normal(WIDTH), normal(WIDTH)),
            rows,
            _layer_norm,
            WIDTH * unit,
        ),
        "vector_add": Problem(
            f"vector addition of {LENGTH} elements, f32, {VECTOR} at a time",
            (normal(LENGTH), normal(LENGTH)),
            (LENGTH,),
            np.add,
            unit,
        ),
    }
