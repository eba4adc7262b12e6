"""Tiles that are changed in place, masks of places, branches that store, and short launches with atomic updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import cuda.tile as ct
import torch

from benchmarks.unseen_rows import ERROR, Row, beside_torch, kind, normal

_ZERO = ct.PaddingMode.ZERO
_F32 = torch.float32


@ct.kernel
def momentum(weights, moments, gradient, rate, rows: ct.Constant[int], tile: ct.Constant[int]):
    """A step of gradient descent with momentum: both arrays in place."""
    i, j = ct.bid(1), ct.bid(0)
    held = ct.load(moments, (i, j), (rows, tile), padding_mode=_ZERO)
    held = 0.9 * held + ct.load(gradient, (i, j), (rows, tile), padding_mode=_ZERO)
    ct.store(moments, (i, j), held)
    before = ct.load(weights, (i, j), (rows, tile), padding_mode=_ZERO)
    ct.store(weights, (i, j), before - rate * held)


@ct.kernel
def leaky(x, bias, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Half of what is there and a number for each column, and a tenth of what is below zero."""
    i, j = ct.bid(1), ct.bid(0)
    level = ct.load(bias, (j,), (tile,), padding_mode=_ZERO).reshape((1, tile))
    held = 0.5 * ct.load(x, (i, j), (rows, tile), padding_mode=_ZERO) + level
    ct.store(x, (i, j), ct.where(held > 0.0, held, 0.1 * held))


@ct.kernel
def causal_softmax(x, out, rows: ct.Constant[int], width: ct.Constant[int]):
    """Softmax of what is not behind the row's own place: [head, row, column]."""
    head, i = ct.bid(1), ct.bid(0)
    row = (i * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    column = ct.arange(width, dtype=ct.int32).reshape((1, width))
    held = ct.load(x, (head, i, 0), (1, rows, width)).reshape((rows, width)).astype(ct.float32)
    held = ct.where(column <= row, held, -1e30)
    parts = ct.exp(held - ct.max(held, 1, keepdims=True))
    made = parts / ct.sum(parts, 1, keepdims=True)
    ct.store(out, (head, i, 0), made.astype(out.dtype).reshape((1, rows, width)))


@ct.kernel
def band(x, out, reach: ct.Constant[int], rows: ct.Constant[int], tile: ct.Constant[int]):
    """What is at most so far from the diagonal, zeros elsewhere."""
    i, j = ct.bid(1), ct.bid(0)
    row = (i * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    column = (j * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    near = (column - row <= reach) & (row - column <= reach)
    held = ct.load(x, (i, j), (rows, tile), padding_mode=_ZERO)
    ct.store(out, (i, j), ct.where(near, held, 0).astype(out.dtype))


@ct.kernel
def vignette(x, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """An image that gets darker with the distance from its middle."""
    i, j = ct.bid(1), ct.bid(0)
    y = (i * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1)).astype(ct.float32)
    z = (j * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile)).astype(ct.float32)
    down, along = y / x.shape[0] - 0.5, z / x.shape[1] - 0.5
    held = ct.load(x, (i, j), (rows, tile), padding_mode=_ZERO)
    ct.store(out, (i, j), held / (1.0 + 2.0 * (down * down + along * along)))


@ct.kernel
def accumulated(total, gradient, scale, begun, tile: ct.Constant[int]):
    """A gradient, or its sum with what is there: the first one writes, the others add."""
    i = ct.bid(0)
    part = ct.load(gradient, (i,), (tile,)).astype(ct.float32) * scale
    if ct.gather(begun, 0) != 0:
        part = part + 0.5 * ct.load(total, (i,), (tile,))
    ct.store(total, (i,), part)


@ct.kernel
def turned_in_place(x, cos, sin, half: ct.Constant[int], heads: ct.Constant[int]):
    """Halves of each head turned by the angles of its place: [place, head, 2, half]."""
    i = ct.bid(0)
    c = ct.load(cos, (i, 0), (1, half)).reshape((1, 1, 1, half))
    s = ct.load(sin, (i, 0), (1, half)).reshape((1, 1, 1, half))
    a = ct.load(x, (i, 0, 0, 0), (1, heads, 1, half))
    b = ct.load(x, (i, 0, 1, 0), (1, heads, 1, half))
    ct.store(x, (i, 0, 0, 0), a * c - b * s)
    ct.store(x, (i, 0, 1, 0), b * c + a * s)


@ct.kernel
def totals(x, out, tile: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0),), (tile,))
    ct.atomic_add(out, 0, ct.sum(held))
    ct.atomic_add(out, 1, ct.sum(ct.abs(held)))


def _momentum(rows: int, columns: int) -> Row:
    weights, moments, gradient = (normal(rows, columns + n)[:, :columns] for n in range(3))
    weights, moments = weights.contiguous(), moments.contiguous()
    gradient = gradient.contiguous()
    start = weights.clone(), moments.clone()

    def theirs(w, m, g):
        m = 0.9 * m + g
        return w - 0.01 * m, m

    row = beside_torch(
        f"a step with momentum in place, {rows} x {columns} f32, tiles 16x64",
        momentum,
        (-(-columns // 64), -(-rows // 16)),
        (weights, moments, gradient, 0.01, 16, 64),
        theirs,
        *start,
        gradient,
        outputs=1,
        bound=1e-5,
        clear=lambda: (weights.copy_(start[0]), moments.copy_(start[1])),
    )
    return replace(row, outputs=(weights, moments))


def _leaky(rows: int, columns: int, dtype: torch.dtype) -> Row:
    start, bias = normal(rows, columns).to(dtype), normal(columns).to(dtype)
    x = start.clone()

    def theirs(x, bias):
        held = 0.5 * x + bias
        return torch.where(held > 0, held, 0.1 * held)

    row = beside_torch(
        f"leaky half and bias in place, {rows} x {columns} {kind(dtype)}, tiles 8x128",
        leaky,
        (-(-columns // 128), -(-rows // 8)),
        (x, bias, 8, 128),
        theirs,
        start,
        bias,
        bound=2 * ERROR[dtype],
        clear=lambda: x.copy_(start),
    )
    return replace(row, outputs=(x,))


def _causal(heads: int, length: int, dtype: torch.dtype) -> Row:
    x = normal(heads, length, length).to(dtype)
    behind = torch.ones(length, length, dtype=torch.bool).triu(1)
    return beside_torch(
        f"softmax up to the own place, {heads} x {length} x {length} {kind(dtype)}",
        causal_softmax,
        (length // 4, heads),
        (x, torch.empty_like(x), 4, length),
        lambda x: torch.softmax(x.masked_fill(behind, float("-inf")), -1),
        x,
        bound=2 * ERROR[dtype],
    )


def _band(size: int, dtype: torch.dtype) -> Row:
    x = normal(size, size).to(dtype)
    return beside_torch(
        f"a band of 17 of {size} x {size} {kind(dtype)}, tiles 32x64",
        band,
        (-(-size // 64), -(-size // 32)),
        (x, torch.empty_like(x), 8, 32, 64),
        lambda x: torch.triu(torch.tril(x, 8), -8),
        x,
    )


def _vignette(height: int, width: int) -> Row:
    x = normal(height, width)
    y = torch.arange(height).view(-1, 1)
    z = torch.arange(width).view(1, -1)

    def theirs(x):
        down, along = y.to(x.dtype) / height - 0.5, z.to(x.dtype) / width - 0.5
        return x / (1.0 + 2.0 * (down * down + along * along))

    return beside_torch(
        f"{height} x {width} f32 darker by the distance from the middle, tiles 16x128",
        vignette,
        (-(-width // 128), -(-height // 16)),
        (x, torch.empty_like(x), 16, 128),
        theirs,
        x,
        bound=1e-5,
    )


def _accumulated(many: int, dtype: torch.dtype, begun: int) -> Row:
    gradient, start = normal(many).to(dtype), normal(many + 1)[1:].contiguous()
    total, flag = start.clone(), torch.tensor([begun], dtype=torch.int32)

    def theirs(g, t):
        wide = g if g.dtype == torch.float64 else g.float()
        return wide * 0.25 + (0.5 * t if begun else 0.0)

    row = beside_torch(
        f"{'a sum with' if begun else 'the first of'} gradients, {many >> 20}M {kind(dtype)}",
        accumulated,
        (many // 1024,),
        (total, gradient, 0.25, flag, 1024),
        theirs,
        gradient,
        start,
        bound=1e-5,
        clear=lambda: total.copy_(start),
    )
    return replace(row, outputs=(total,))


def _turned(places: int, heads: int, half: int, dtype: torch.dtype) -> Row:
    start = normal(places, heads, 2, half).to(dtype)
    x, angle = start.clone(), normal(places, half)
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)

    def theirs(x, cos, sin):
        a, b = x[:, :, 0], x[:, :, 1]
        c, s = cos[:, None], sin[:, None]
        return torch.stack((a * c - b * s, b * c + a * s), 2)

    row = beside_torch(
        f"halves turned in place, {places} x {heads} x 2 x {half} {kind(dtype)}",
        turned_in_place,
        (places,),
        (x, cos, sin, half, heads),
        theirs,
        start,
        cos,
        sin,
        bound=2 * ERROR[dtype],
        clear=lambda: x.copy_(start),
    )
    return replace(row, outputs=(x,))


def _total(many: int) -> Row:
    x, out = normal(many) + 0.5, torch.zeros(2)
    return beside_torch(
        f"totals of {many >> 10}K f32, with their signs and without, by atomics",
        totals,
        (many // 1024,),
        (x, out, 1024),
        lambda x: torch.stack((x.sum(), x.abs().sum())),
        x,
        bound=1e-5,
        clear=out.zero_,
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _momentum(1500, 2100),
        lambda: _leaky(2000, 1500, _F32),
        lambda: _leaky(2000, 1500, torch.bfloat16),
        lambda: _causal(8, 1024, _F32),
        lambda: _causal(8, 1024, torch.bfloat16),
        lambda: _band(2000, _F32),
        lambda: _band(2000, torch.float64),
        lambda: _band(3000, torch.bfloat16),
        lambda: _vignette(1080, 1920),
        lambda: _accumulated(1 << 22, _F32, 1),
        lambda: _accumulated(1 << 22, torch.bfloat16, 1),
        lambda: _accumulated(1 << 22, _F32, 0),
        lambda: _turned(2048, 16, 64, _F32),
        lambda: _turned(2048, 16, 64, torch.bfloat16),
        lambda: _total(1 << 16),
        lambda: _total(1 << 20),
    ]
