"""Kernels in Triton as its tutorials teach them; to be measured on a GPU."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, count, tile: tl.constexpr):
    at = tl.program_id(0) * tile + tl.arange(0, tile)
    inside = at < count
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@triton.jit
def softmax(x, out, width: tl.constexpr):
    at = tl.program_id(0) * width + tl.arange(0, width)
    row = tl.load(x + at).to(tl.float32)
    power = tl.exp(row - tl.max(row, 0))
    tl.store(out + at, (power / tl.sum(power, 0)).to(out.dtype.element_ty))


@triton.jit
def product(a, b, c, n, k, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr):
    rows = tl.program_id(0) * tile_m + tl.arange(0, tile_m)
    columns = tl.program_id(1) * tile_n + tl.arange(0, tile_n)
    total = tl.zeros((tile_m, tile_n), tl.float32)
    for start in range(0, k, tile_k):
        depth = start + tl.arange(0, tile_k)
        left = tl.load(a + rows[:, None] * k + depth[None, :])
        right = tl.load(b + depth[:, None] * n + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty))
