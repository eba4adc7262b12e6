"""Triton's interpreter; ``python -m benchmarks.peers.triton_interpreter``."""

from __future__ import annotations

import os

from benchmarks.peers.problems import (
    EPSILON,
    HEIGHT,
    LENGTH,
    ROWS,
    SIZE,
    TILE_K,
    TILE_M,
    TILE_N,
    VECTOR,
    WIDTH,
    Problem,
)
from benchmarks.peers.protocol import Prepared, say, serve

os.environ["TRITON_INTERPRET"] = "1"
try:
    import torch
    import triton
    import triton.language as tl
except ImportError as error:
    say(missing=error.name)
    raise SystemExit from None


@triton.jit
def _matmul(
    a, b, c, size: tl.constexpr, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr
):
    rows = tl.program_id(0) * tile_m + tl.arange(0, tile_m)
    columns = tl.program_id(1) * tile_n + tl.arange(0, tile_n)
    depth = tl.arange(0, tile_k)
    total = tl.zeros((tile_m, tile_n), tl.float32)
    for step in range(size // tile_k):
        inner = step * tile_k + depth
        left = (rows[:, None] < size) & (inner[None, :] < size)
        right = (inner[:, None] < size) & (columns[None, :] < size)
        lhs = tl.load(a + rows[:, None] * size + inner[None, :], mask=left, other=0.0)
        rhs = tl.load(b + inner[:, None] * size + columns[None, :], mask=right, other=0.0)
        total = tl.dot(lhs, rhs, total)
    inside = (rows[:, None] < size) & (columns[None, :] < size)
    tl.store(c + rows[:, None] * size + columns[None, :], total, mask=inside)


@triton.jit
def _vector_add(x, y, out, count: tl.constexpr, tile: tl.constexpr):
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    inside = at < count
    total = tl.load(x + at, mask=inside, other=0.0) + tl.load(y + at, mask=inside, other=0.0)
    tl.store(out + at, total, mask=inside)


@triton.jit
def _softmax(x, out, height: tl.constexpr, width: tl.constexpr, rows: tl.constexpr):
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    at = row[:, None] * width + tl.arange(0, width)[None, :]
    inside = (row < height)[:, None]
    values = tl.load(x + at, mask=inside, other=float("-inf"))
    powers = tl.exp(values - tl.max(values, axis=1)[:, None])
    tl.store(out + at, powers / tl.sum(powers, axis=1)[:, None], mask=inside)


@triton.jit
def _layer_norm(
    x,
    scale,
    shift,
    out,
    height: tl.constexpr,
    width: tl.constexpr,
    rows: tl.constexpr,
    epsilon: tl.constexpr,
):
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.arange(0, width)
    at = row[:, None] * width + column[None, :]
    inside = (row < height)[:, None]
    values = tl.load(x + at, mask=inside, other=0.0)
    mean = tl.sum(values, axis=1) * (1.0 / width)
    centred = values - mean[:, None]
    variance = tl.sum(centred * centred, axis=1) * (1.0 / width)
    result = centred * tl.rsqrt(variance + epsilon)[:, None]
    result = result * tl.load(scale + column)[None, :] + tl.load(shift + column)[None, :]
    tl.store(out + at, result, mask=inside)


def _prepared(kernel, grid: tuple[int, ...], constants: tuple[float, ...]):
    def prepare(problem: Problem) -> Prepared:
        output = torch.zeros(problem.output_shape, dtype=torch.float32)
        arrays = [*(torch.from_numpy(array) for array in problem.inputs), output]
        return lambda: kernel[grid](*arrays, *constants), output.numpy

    return prepare


if __name__ == "__main__":
    serve(
        f"Triton {triton.__version__}",
        {
            "matmul": _prepared(
                _matmul, (SIZE // TILE_M, SIZE // TILE_N), (SIZE, TILE_M, TILE_N, TILE_K)
            ),
            "softmax": _prepared(_softmax, (HEIGHT // ROWS,), (HEIGHT, WIDTH, ROWS)),
            "layer_norm": _prepared(_layer_norm, (HEIGHT // ROWS,), (HEIGHT, WIDTH, ROWS, EPSILON)),
            "vector_add": _prepared(_vector_add, (LENGTH // VECTOR,), (LENGTH, VECTOR)),
        },
    )
