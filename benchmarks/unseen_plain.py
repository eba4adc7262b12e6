"""Prices, fractals, colours, columns, triangles and simple layers, as a first kernel of many has them."""

from __future__ import annotations

import math
from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch
from torch.nn import functional

from benchmarks.unseen_rows import (
    ERROR,
    Row,
    array,
    beside_torch,
    by_numba,
    integers,
    kind,
    normal,
)

_ZERO = ct.PaddingMode.ZERO
_F32, _F64, _BF16, _F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
_I32, _I64, _U8 = torch.int32, torch.int64, torch.uint8


@ct.kernel
def prices(spot, strike, years, calls, puts, rate, volatility, tile: ct.Constant[int]):
    """Options by Black and Scholes, the normal distribution by a polynomial."""
    i = ct.bid(0)
    s, k, t = (
        ct.load(spot, (i,), (tile,)),
        ct.load(strike, (i,), (tile,)),
        ct.load(years, (i,), (tile,)),
    )
    root = ct.sqrt(t)
    first = (ct.log(s / k) + (rate + 0.5 * volatility * volatility) * t) / (volatility * root)
    second = first - volatility * root

    def below(d):
        a = 1.0 / (1.0 + 0.2316419 * ct.abs(d))
        p = a * (
            0.31938153
            + a * (-0.356563782 + a * (1.781477937 + a * (-1.821255978 + a * 1.330274429)))
        )
        tail = 0.39894228 * ct.exp(-0.5 * d * d) * p
        return ct.where(d > 0.0, 1.0 - tail, tail)

    later = k * ct.exp(-rate * t)
    ct.store(calls, (i,), s * below(first) - later * below(second))
    ct.store(puts, (i,), later * (1.0 - below(second)) - s * (1.0 - below(first)))


@ct.kernel
def escapes(out, size: ct.Constant[int], most: ct.Constant[int], tile: ct.Constant[int]):
    """How soon points of the plane escape by z * z + c."""
    y, column = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    cx = column.astype(ct.float32) * (3.0 / size) - 2.0
    cy = ct.zeros((tile,), ct.float32) + (y * (2.0 / size) - 1.0)
    zx, zy = ct.zeros((tile,), ct.float32), ct.zeros((tile,), ct.float32)
    count = ct.zeros((tile,), ct.int32)
    for _ in range(most):
        xx, yy = zx * zx, zy * zy
        inside = xx + yy <= 4.0
        zy = ct.where(inside, 2.0 * zx * zy + cy, zy)
        zx = ct.where(inside, xx - yy + cx, zx)
        count += inside.astype(ct.int32)
    ct.scatter(out, (y, column), count, mask=column < size)


@ct.kernel
def drawn(seeds, out, rounds: ct.Constant[int], tile: ct.Constant[int]):
    """How many of some random points lie within a circle, by a linear generator for each lane."""
    i = ct.bid(0)
    state = ct.load(seeds, (i,), (tile,)).astype(ct.uint32)
    hits = ct.zeros((tile,), ct.int32)
    for _ in range(rounds):
        state = state * 1664525 + 1013904223
        x = (state >> 8).astype(ct.float32) * (1.0 / 16777216.0)
        state = state * 1664525 + 1013904223
        y = (state >> 8).astype(ct.float32) * (1.0 / 16777216.0)
        hits += (x * x + y * y <= 1.0).astype(ct.int32)
    ct.store(out, (i,), hits)


@ct.kernel
def softmax_down(x, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Softmax of columns: [row, column], all rows at once."""
    j = ct.bid(0)
    held = ct.load(x, (0, j), (rows, tile)).astype(ct.float32)
    held = ct.exp(held - ct.max(held, 0, keepdims=True))
    ct.store(out, (0, j), (held / ct.sum(held, 0, keepdims=True)).astype(out.dtype))


@ct.kernel
def in_the_middle(x, out, middle: ct.Constant[int], tile: ct.Constant[int]):
    """Logarithms of sums of exponentials over the middle axis."""
    i, j = ct.bid(1), ct.bid(0)
    held = ct.load(x, (i, 0, j), (1, middle, tile)).astype(ct.float32)
    most = ct.max(held, 1, keepdims=True)
    total = ct.log(ct.sum(ct.exp(held - most), 1, keepdims=True)) + most
    ct.store(out, (i, j), total.reshape((1, tile)).astype(out.dtype))


@ct.kernel
def lower(x, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """The lower triangle, zeros above."""
    i, j = ct.bid(1), ct.bid(0)
    row = (i * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    column = (j * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    held = ct.load(x, (i, j), (rows, tile), padding_mode=_ZERO)
    ct.store(out, (i, j), ct.where(column <= row, held, 0).astype(out.dtype))


@ct.kernel
def luma(x, out, pixels, tile: ct.Constant[int]):
    """Pixels of three u8 to brightness and two differences, all u8: [pixel, 3]."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    inside = i < pixels
    r = ct.gather(x, (i, 0), mask=inside, padding_value=0).astype(ct.int32)
    g = ct.gather(x, (i, 1), mask=inside, padding_value=0).astype(ct.int32)
    b = ct.gather(x, (i, 2), mask=inside, padding_value=0).astype(ct.int32)
    y = (77 * r + 150 * g + 29 * b + 128) >> 8
    u = ((-43 * r - 85 * g + 128 * b + 128) >> 8) + 128
    v = ((128 * r - 107 * g - 21 * b + 128) >> 8) + 128
    for n in ct.static_iter(range(3)):
        each = ct.minimum(ct.maximum((y, u, v)[n], 0), 255)
        ct.scatter(out, (i, n), each.astype(ct.uint8), mask=inside)


@ct.kernel
def medians(x, out, height: ct.Constant[int], width: ct.Constant[int], tile: ct.Constant[int]):
    """Medians of five pixels, a cross; the edges repeated."""
    y, column = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    above, below = max(y - 1, 0), min(y + 1, height - 1)
    left, right = ct.maximum(column - 1, 0), ct.minimum(column + 1, width - 1)
    inside = column < width
    a, b = ct.gather(x, (above, column), mask=inside), ct.gather(x, (below, column), mask=inside)
    c, d = ct.gather(x, (y, left), mask=inside), ct.gather(x, (y, right), mask=inside)
    e = ct.gather(x, (y, column), mask=inside)
    a, b = ct.minimum(a, b), ct.maximum(a, b)
    c, d = ct.minimum(c, d), ct.maximum(c, d)
    low, high = ct.maximum(a, c), ct.minimum(b, d)
    low, high = ct.minimum(low, high), ct.maximum(low, high)
    ct.scatter(out, (y, column), ct.maximum(low, ct.minimum(high, e)), mask=inside)


@ct.kernel
def one_hot(classes, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Rows of zeros with one at their class."""
    i, j = ct.bid(1), ct.bid(0)
    each = ct.load(classes, (i,), (rows,)).reshape((rows, 1))
    column = (j * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    ct.store(out, (i, j), (each == column).astype(out.dtype))


@ct.kernel
def shuffled_back(x, out, by: ct.Constant[int], tile: ct.Constant[int]):
    """Squares of pixels to channels: [channel, y, x] to [channel * by * by, y / by, x / by]."""
    to, y = ct.bid(2), ct.bid(1)
    column = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    inside = column < out.shape[2]
    channel, dy, dx = to // (by * by), to // by % by, to % by
    held = ct.gather(x, (channel, y * by + dy, column * by + dx), mask=inside)
    ct.scatter(out, (to, y, column), held, mask=inside)


@ct.kernel
def gelu_linear(x, w, bias, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    """A layer and GELU by its tangent."""
    i, j = ct.bid(1), ct.bid(0)
    total = ct.zeros((m, n), ct.float32)
    for step in range(ct.cdiv(x.shape[1], k)):
        left = ct.load(x, (i, step), (m, k), padding_mode=_ZERO)
        right = ct.load(w, (step, j), (k, n), padding_mode=_ZERO)
        total = ct.mma(left, right, total)
    total += ct.load(bias, (j,), (n,), padding_mode=_ZERO).astype(ct.float32).reshape((1, n))
    total = 0.5 * total * (1.0 + ct.tanh(0.7978845608 * (total + 0.044715 * total * total * total)))
    ct.store(out, (i, j), total.astype(out.dtype))


@ct.kernel
def standardized(x, gain, shift, out, width: ct.Constant[int], tile: ct.Constant[int]):
    """Rows to mean zero and variance one, two passes over a padded row."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0), (1, tile), padding_mode=_ZERO).astype(ct.float32)
    there = ct.arange(tile, dtype=ct.int32).reshape((1, tile)) < width
    mean = ct.sum(held, 1, keepdims=True) / width
    off = ct.where(there, held - mean, 0.0)
    scale = ct.rsqrt(ct.sum(off * off, 1, keepdims=True) / width + 1e-5)
    g = ct.load(gain, (0,), (tile,), padding_mode=_ZERO).astype(ct.float32).reshape((1, tile))
    b = ct.load(shift, (0,), (tile,), padding_mode=_ZERO).astype(ct.float32).reshape((1, tile))
    ct.store(out, (i, 0), (off * scale * g + b).astype(out.dtype))


@ct.kernel
def steps_of_heat(u, out, rate, size: ct.Constant[int], m: ct.Constant[int], n: ct.Constant[int]):
    """A step of heat in the plane, the edges kept: [y, x], tiles of several rows."""
    y = (ct.bid(1) * m + ct.arange(m, dtype=ct.int32)).reshape((m, 1))
    x = (ct.bid(0) * n + ct.arange(n, dtype=ct.int32)).reshape((1, n))
    inner = (y > 0) & (y < size - 1) & (x > 0) & (x < size - 1)
    there = (y < size) & (x < size)
    middle = ct.gather(u, (y, x), mask=there, padding_value=0)
    around = (
        ct.gather(u, (y - 1, x), mask=inner, padding_value=0)
        + ct.gather(u, (y + 1, x), mask=inner, padding_value=0)
        + ct.gather(u, (y, x - 1), mask=inner, padding_value=0)
        + ct.gather(u, (y, x + 1), mask=inner, padding_value=0)
    )
    new = ct.where(inner, middle + rate * (around - 4.0 * middle), middle)
    ct.scatter(out, (y, x), new, mask=there)


@ct.kernel
def murmur(x, out, tile: ct.Constant[int]):
    """The last steps of Murmur's hash of each number."""
    i = ct.bid(0)
    h = ct.load(x, (i,), (tile,)).astype(ct.uint32)
    h = (h ^ (h >> 16)) * 0x85EBCA6B
    h = (h ^ (h >> 13)) * 0xC2B2AE35
    ct.store(out, (i,), (h ^ (h >> 16)).astype(out.dtype))


@ct.kernel
def squared_distances(x, y, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    """Squares of distances of all pairs, by a product."""
    i, j = ct.bid(1), ct.bid(0)
    total = ct.zeros((m, n), ct.float32)
    left, right = ct.zeros((m, 1), ct.float32), ct.zeros((1, n), ct.float32)
    for step in range(ct.cdiv(x.shape[1], k)):
        a = ct.load(x, (i, step), (m, k), padding_mode=_ZERO)
        b = ct.load(y, (j, step), (n, k), padding_mode=_ZERO)
        total = ct.mma(a, b.transpose(), total)
        left += ct.sum(a * a, 1, keepdims=True)
        right += ct.sum(b * b, 1, keepdims=True).transpose()
    ct.store(out, (i, j), ct.maximum(left + right - 2.0 * total, 0.0))


@ct.kernel
def by_shares(x, shares, out, tile: ct.Constant[int]):
    """Numbers of four bits, two in a byte, times a scale for each 64: [row, byte]."""
    i, j = ct.bid(1), ct.bid(0)
    held = ct.load(x, (i, j), (1, tile)).astype(ct.int32)
    share = ct.load(shares, (i, j), (1, tile // 32)).astype(ct.float32)
    share = ct.broadcast_to(share.reshape((1, tile // 32, 1)), (1, tile // 32, 32))
    low = (held & 15) - 8
    high = ((held >> 4) & 15) - 8
    low = low.reshape((1, tile // 32, 32)).astype(ct.float32) * share
    high = high.reshape((1, tile // 32, 32)).astype(ct.float32) * share
    both = ct.cat((low.reshape((1, tile, 1)), high.reshape((1, tile, 1))), 2)
    ct.store(out, (i, j), both.reshape((1, 2 * tile)).astype(out.dtype))


def _prices(many: int, dtype: torch.dtype) -> Row:
    spot, strike = (
        torch.rand(many, generator=torch.Generator().manual_seed(n)) * 50 + 50 for n in (1, 2)
    )
    years = torch.rand(many, generator=torch.Generator().manual_seed(3)) * 2 + 0.1
    spot, strike, years = (each.to(dtype) for each in (spot, strike, years))
    out = [torch.empty(many, dtype=dtype) for _ in range(2)]
    rate, volatility = 0.03125, 0.25

    def theirs(s, k, t):
        root = t.sqrt()
        first = ((s / k).log() + (rate + 0.5 * volatility**2) * t) / (volatility * root)
        second = first - volatility * root

        def below(d):
            a = 1.0 / (1.0 + 0.2316419 * d.abs())
            p = a * (
                0.31938153
                + a * (-0.356563782 + a * (1.781477937 + a * (-1.821255978 + a * 1.330274429)))
            )
            tail = 0.39894228 * torch.exp(-0.5 * d * d) * p
            return torch.where(d > 0, 1.0 - tail, tail)

        later = k * torch.exp(-rate * t)
        return (
            s * below(first) - later * below(second),
            later * (1 - below(second)) - s * (1 - below(first)),
        )

    return beside_torch(
        f"prices of {many >> 10}K options {kind(dtype)}",
        prices,
        (many // 1024,),
        (spot, strike, years, *out, rate, volatility, 1024),
        theirs,
        spot,
        strike,
        years,
        outputs=2,
        bound=ERROR[dtype] * 2,
    )


def _escapes(size: int, most: int) -> Row:
    out = torch.empty(size, size, dtype=_I32)

    def theirs(template):
        x = torch.arange(size, dtype=_F32) * np.float32(3.0 / size) - 2.0
        y = torch.arange(size, dtype=_F32)[:, None] * np.float32(2.0 / size) - 1.0
        cx, cy = x.expand(size, size), y.expand(size, size)
        zx, zy = torch.zeros(size, size), torch.zeros(size, size)
        count = torch.zeros(size, size, dtype=_I32)
        for _ in range(most):
            xx, yy = zx * zx, zy * zy
            inside = xx + yy <= 4.0
            zy = torch.where(inside, 2.0 * zx * zy + cy, zy)
            zx = torch.where(inside, xx - yy + cx, zx)
            count += inside
        return count

    def make(nb):
        @nb.njit(parallel=True)
        def run(found):
            f = np.float32
            for y in nb.prange(found.shape[0]):
                cy = f(y) * f(2.0 / size) - f(1.0)
                for x in range(found.shape[1]):
                    cx = f(x) * f(3.0 / size) - f(2.0)
                    zx, zy, n = f(0.0), f(0.0), 0
                    while n < most and zx * zx + zy * zy <= f(4.0):
                        zx, zy = zx * zx - zy * zy + cx, f(2.0) * zx * zy + cy
                        n += 1
                    found[y, x] = n

        made = np.empty((size, size), np.int32)
        return lambda: run(made)

    return beside_torch(
        f"{size} x {size} points that escape within {most}",
        escapes,
        (-(-size // 128), size),
        (out, size, most, 128),
        theirs,
        out,
        bound=2.0,
        more=by_numba(make),
        compiles=False,
    )


def _drawn(many: int, rounds: int) -> Row:
    seeds = integers(1 << 30, many)

    def theirs(seeds):
        state, hits = seeds.long(), torch.zeros(many, dtype=_I32)
        for _ in range(rounds):
            state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
            x = (state >> 8).float() * (1.0 / 16777216.0)
            state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
            y = (state >> 8).float() * (1.0 / 16777216.0)
            hits += x * x + y * y <= 1.0
        return hits

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(seeds, found):
            u, f = np.uint32, np.float32
            for i in nb.prange(seeds.size):
                s, n = u(seeds[i]), 0
                for _ in range(rounds):
                    s = u(s * u(1664525) + u(1013904223))
                    x = f(s >> u(8)) * f(1.0 / 16777216.0)
                    s = u(s * u(1664525) + u(1013904223))
                    y = f(s >> u(8)) * f(1.0 / 16777216.0)
                    n += x * x + y * y <= f(1.0)
                found[i] = n

        made = np.empty(many, np.int32)
        return lambda: run(array(seeds), made)

    return beside_torch(
        f"{rounds} points in a circle for each of {many >> 10}K generators",
        drawn,
        (many // 1024,),
        (seeds, torch.empty(many, dtype=_I32), rounds, 1024),
        theirs,
        seeds,
        more=by_numba(make),
        compiles=False,
    )


def _softmax_down(rows: int, columns: int, dtype: torch.dtype) -> Row:
    x = normal(rows, columns).to(dtype)
    return beside_torch(
        f"softmax of columns, {rows} x {columns} {kind(dtype)}",
        softmax_down,
        (columns // 64,),
        (x, torch.empty_like(x), rows, 64),
        lambda x: torch.softmax(x, 0),
        x,
        bound=ERROR[dtype],
    )


def _in_the_middle(a: int, b: int, c: int, dtype: torch.dtype) -> Row:
    x = normal(a, b, c).to(dtype)
    return beside_torch(
        f"logsumexp over the middle of {a} x {b} x {c} {kind(dtype)}",
        in_the_middle,
        (c // 128, a),
        (x, torch.empty(a, c, dtype=dtype), b, 128),
        lambda x: torch.logsumexp(x, 1),
        x,
        bound=ERROR[dtype],
    )


def _lower(size: int, dtype: torch.dtype) -> Row:
    x = normal(size, size).to(dtype)
    return beside_torch(
        f"lower triangle of {size} x {size} {kind(dtype)}, tiles 32x64",
        lower,
        (-(-size // 64), -(-size // 32)),
        (x, torch.empty_like(x), 32, 64),
        torch.tril,
        x,
    )


def _luma(pixels: int) -> Row:
    x = integers(256, pixels, 3, dtype=_U8)

    def theirs(x):
        r, g, b = x.int().unbind(1)
        y = (77 * r + 150 * g + 29 * b + 128) >> 8
        u = ((-43 * r - 85 * g + 128 * b + 128) >> 8) + 128
        v = ((128 * r - 107 * g - 21 * b + 128) >> 8) + 128
        return torch.stack((y, u, v), 1).clamp(0, 255).to(_U8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, found):
            for i in nb.prange(x.shape[0]):
                r, g, b = np.int32(x[i, 0]), np.int32(x[i, 1]), np.int32(x[i, 2])
                y = (77 * r + 150 * g + 29 * b + 128) >> 8
                u = ((-43 * r - 85 * g + 128 * b + 128) >> 8) + 128
                v = ((128 * r - 107 * g - 21 * b + 128) >> 8) + 128
                found[i, 0] = min(max(y, 0), 255)
                found[i, 1] = min(max(u, 0), 255)
                found[i, 2] = min(max(v, 0), 255)

        made = np.empty((pixels, 3), np.uint8)
        return lambda: run(array(x), made)

    return beside_torch(
        f"{pixels >> 10}K pixels of three u8 to brightness and differences",
        luma,
        (-(-pixels // 512),),
        (x, torch.empty_like(x), pixels, 512),
        theirs,
        x,
        more=by_numba(make),
    )


def _medians(height: int, width: int, dtype: torch.dtype) -> Row:
    x = (
        normal(height, width).to(dtype)
        if dtype.is_floating_point
        else integers(256, height, width, dtype=dtype)
    )

    def theirs(x):
        def at(dy, dx):
            y = (torch.arange(height) + dy).clamp(0, height - 1)
            c = (torch.arange(width) + dx).clamp(0, width - 1)
            return x[y][:, c]

        around = torch.stack([at(-1, 0), at(1, 0), at(0, -1), at(0, 1), x])
        return around.median(0).values

    def compiled_one(x):
        a, b = torch.cat((x[:1], x[:-1])), torch.cat((x[1:], x[-1:]))
        c, d = torch.cat((x[:, :1], x[:, :-1]), 1), torch.cat((x[:, 1:], x[:, -1:]), 1)
        a, b = torch.minimum(a, b), torch.maximum(a, b)
        c, d = torch.minimum(c, d), torch.maximum(c, d)
        low, high = torch.maximum(a, c), torch.minimum(b, d)
        low, high = torch.minimum(low, high), torch.maximum(low, high)
        return torch.maximum(low, torch.minimum(high, x))

    from benchmarks.unseen_rows import compiled

    return beside_torch(
        f"medians of five of {height} x {width} {kind(dtype)}",
        medians,
        (-(-width // 256), height),
        (x, torch.empty_like(x), height, width, 256),
        theirs,
        x,
        more={"torch.compile": compiled(compiled_one, x)},
        compiles=False,
    )


def _one_hot(rows: int, classes: int) -> Row:
    each = integers(classes, rows)
    return beside_torch(
        f"{rows} classes of {classes} as rows of zeros and a one",
        one_hot,
        (-(-classes // 128), rows // 16),
        (each, torch.empty(rows, classes), 16, 128),
        lambda each: functional.one_hot(each.long(), classes).float(),
        each,
    )


def _shuffled_back(channels: int, size: int, by: int, dtype: torch.dtype) -> Row:
    x = normal(channels, size, size).to(dtype)
    return beside_torch(
        f"squares of {by} x {by} of {channels} x {size} x {size} {kind(dtype)} to channels",
        shuffled_back,
        (-(-(size // by) // 128), size // by, channels * by * by),
        (x, torch.empty(channels * by * by, size // by, size // by, dtype=dtype), by, 128),
        lambda x: functional.pixel_unshuffle(x, by),
        x,
    )


def _gelu_linear(m: int, n: int, k: int, dtype: torch.dtype) -> Row:
    x, w, bias = (
        normal(m, k).to(dtype),
        (normal(k, n) / math.sqrt(k)).to(dtype),
        normal(n).to(dtype),
    )
    return beside_torch(
        f"layer {m} x {n} x {k} {kind(dtype)} and GELU, tiles 64x64x32",
        gelu_linear,
        (-(-n // 64), -(-m // 64)),
        (x, w, bias, torch.empty(m, n, dtype=dtype), 64, 64, 32),
        lambda x, w, bias: functional.gelu(x @ w + bias, approximate="tanh"),
        x,
        w,
        bias,
        bound=ERROR[dtype] * 4,
    )


def _standardized(rows: int, width: int, dtype: torch.dtype) -> Row:
    x, gain, shift = normal(rows, width).to(dtype), normal(width).to(dtype), normal(width).to(dtype)
    return beside_torch(
        f"rows of {rows} x {width} {kind(dtype)} standardized, tiles of {1 << (width - 1).bit_length()}",
        standardized,
        (rows,),
        (x, gain, shift, torch.empty_like(x), width, 1 << (width - 1).bit_length()),
        lambda x, gain, shift: functional.layer_norm(x, (width,), gain, shift),
        x,
        gain,
        shift,
        bound=ERROR[dtype] * 2,
    )


def _heat(size: int, dtype: torch.dtype) -> Row:
    u = normal(size, size).to(dtype)

    def theirs(u):
        new = u.clone()
        new[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.125 * (
            u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1]
        )
        return new

    return beside_torch(
        f"a step of heat of {size} x {size} {kind(dtype)}, tiles 8x128",
        steps_of_heat,
        (-(-size // 128), -(-size // 8)),
        (u, torch.empty_like(u), 0.125, size, 8, 128),
        theirs,
        u,
        bound=ERROR[dtype],
    )


def _murmur(many: int) -> Row:
    x = integers(1 << 30, many)

    def theirs(x):
        h = x.long() & 0xFFFFFFFF
        h = ((h ^ (h >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
        h = ((h ^ (h >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
        return (h ^ (h >> 16)).int()

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, found):
            u = np.uint32
            for i in nb.prange(x.size):
                h = u(x[i])
                h = u((h ^ (h >> u(16))) * u(0x85EBCA6B))
                h = u((h ^ (h >> u(13))) * u(0xC2B2AE35))
                found[i] = np.int32(h ^ (h >> u(16)))

        made = np.empty(many, np.int32)
        return lambda: run(array(x), made)

    return beside_torch(
        f"hashes of {many >> 20}M i32",
        murmur,
        (many // 1024,),
        (x, torch.empty(many, dtype=_I32), 1024),
        theirs,
        x,
        more=by_numba(make),
    )


def _squared_distances(m: int, n: int, k: int) -> Row:
    x, y = normal(m, k), normal(n, k) + 0.1
    return beside_torch(
        f"squares of distances of {m} and {n} points of {k} float32, tiles 64x64x32",
        squared_distances,
        (-(-n // 64), -(-m // 64)),
        (x, y, torch.empty(m, n), 64, 64, 32),
        lambda x, y: torch.cdist(x, y) ** 2,
        x,
        y,
        bound=1e-5,
    )


def _by_shares(rows: int, width: int) -> Row:
    x = integers(256, rows, width // 2, dtype=_U8)
    shares = (normal(rows, width // 64).abs() + 0.1).to(_F16)

    def theirs(x, shares):
        held = x.int()
        both = torch.stack(((held & 15) - 8, (held >> 4) - 8), -1).view(rows, width // 64, 64)
        return (both.float() * shares[..., None].float()).view(rows, width).half()

    return beside_torch(
        f"{rows} x {width} numbers of four bits by scales of 64 to f16",
        by_shares,
        (width // 1024, rows),
        (x, shares, torch.empty(rows, width, dtype=_F16), 512),
        theirs,
        x,
        shares,
        bound=1e-3,
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _prices(1 << 20, _F32),
        lambda: _escapes(512, 64),
        lambda: _drawn(1 << 14, 64),
        lambda: _softmax_down(256, 4096, _F32),
        lambda: _softmax_down(256, 4096, _BF16),
        lambda: _in_the_middle(64, 64, 1024, _F32),
        lambda: _in_the_middle(64, 64, 1024, _F16),
        lambda: _lower(2000, _F32),
        lambda: _lower(2000, _BF16),
        lambda: _luma(1 << 20),
        lambda: _medians(1080, 1921, _F32),
        lambda: _medians(1080, 1921, _U8),
        lambda: _one_hot(4096, 1000),
        lambda: _shuffled_back(32, 256, 2, _F32),
        lambda: _shuffled_back(32, 256, 4, _F16),
        lambda: _gelu_linear(512, 1000, 700, _F32),
        lambda: _gelu_linear(512, 1024, 768, _BF16),
        lambda: _standardized(4096, 700, _F32),
        lambda: _standardized(4096, 1500, _F16),
        lambda: _heat(2000, _F32),
        lambda: _heat(1000, _F64),
        lambda: _murmur(1 << 22),
        lambda: _squared_distances(1000, 1200, 96),
        lambda: _by_shares(1024, 4096),
    ]
