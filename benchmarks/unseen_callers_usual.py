"""Attention, products, norms, pooling, tables and an optimizer, as a caller writes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import cuda.tile as ct
import numpy as np
import torch
from torch.nn import functional

from benchmarks.unseen_rows import (
    Row,
    array,
    beside_torch,
    by_numba,
    integers,
    normal,
    several,
    uniform,
)

_F32, _F16, _BF16 = torch.float32, torch.float16, torch.bfloat16
_I32, _I64, _I8, _U8 = torch.int32, torch.int64, torch.int8, torch.uint8
_ZERO = ct.PaddingMode.ZERO
_LOW = -1e30
_LOG2E = math.log2(math.e)


def _gelu(x):
    """GELU by tanh."""
    return 0.5 * x * (1.0 + ct.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def _turn(number, rows, columns, group):
    """The tile that is ``number``-th where groups of rows of tiles go together."""
    many = group * columns
    first = number // many * group
    here = min(rows - first, group)
    return first + number % many % here, number % many // here


@ct.kernel
def packed(
    q, k, v, begins, out, scale, tm: ct.Constant[int], tn: ct.Constant[int], deep: ct.Constant[int]
):
    """Causal attention within documents that follow one another: q, k, v [head, token, deep]."""
    block, head = ct.bid(0), ct.bid(1)
    row = block * tm + ct.arange(tm, dtype=ct.int32)
    begin = ct.gather(begins, row).reshape((tm, 1))
    row = row.reshape((tm, 1))
    ours = ct.load(q, (head, block, 0), (1, tm, deep), padding_mode=_ZERO).reshape((tm, deep))
    high = ct.full((tm, 1), _LOW, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    acc = ct.zeros((tm, deep), ct.float32)
    last = min((block + 1) * tm, q.shape[1])
    for n in range(ct.gather(begins, block * tm) // tn, ct.cdiv(last, tn)):
        keys = ct.load(k, (head, 0, n), (1, deep, tn), order=(0, 2, 1), padding_mode=_ZERO)
        score = ct.mma(ours, keys.reshape((deep, tn)), ct.zeros((tm, tn), ct.float32)) * scale
        key = (n * tn + ct.arange(tn, dtype=ct.int32)).reshape((1, tn))
        score = ct.where((key >= begin) & (key <= row), score, _LOW)
        now = ct.maximum(high, ct.max(score, 1, keepdims=True))
        share, less = ct.exp2(score - now), ct.exp2(high - now)
        total = total * less + ct.sum(share, 1, keepdims=True)
        values = ct.load(v, (head, n, 0), (1, tn, deep), padding_mode=_ZERO).reshape((tn, deep))
        acc = ct.mma(share.astype(v.dtype), values, acc * less)
        high = now
    ct.store(out, (head, block, 0), (acc / total).astype(out.dtype).reshape((1, tm, deep)))


def _packed(heads: int, lengths: tuple[int, ...], deep: int, dtype: torch.dtype) -> Row:
    many = sum(lengths)
    q, k, v = several(3, heads, many, deep, dtype=dtype)
    ends = torch.tensor(lengths).cumsum(0)
    begins = torch.repeat_interleave(ends - torch.tensor(lengths), torch.tensor(lengths)).to(_I32)
    cuts = [(end - length, end) for end, length in zip(ends.tolist(), lengths, strict=True)]

    def theirs(q, k, v):
        def document(first, last):
            parts = (each[None, :, first:last] for each in (q, k, v))
            return functional.scaled_dot_product_attention(*parts, is_causal=True)[0]

        return torch.cat([document(*cut) for cut in cuts], 1)

    return beside_torch(
        f"causal attention within {len(lengths)} documents, {heads} heads, {many} x {deep} bfloat16",
        packed,
        (-(-many // 64), heads),
        (q, k, v, begins, torch.empty_like(q), deep**-0.5 * _LOG2E, 64, 64, deep),
        theirs,
        q,
        k,
        v,
        bound=8e-3,
    )


@ct.kernel
def squared(
    x,
    w,
    bias,
    rest,
    out,
    tm: ct.Constant[int],
    tn: ct.Constant[int],
    tk: ct.Constant[int],
    group: ct.Constant[int],
):
    """relu(x w + bias) ** 2 + rest: some blocks, each for tile after tile in groups."""
    rows, columns = ct.num_tiles(out, 0, (tm, tn)), ct.num_tiles(out, 1, (tm, tn))
    for number in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        i, j = _turn(number, rows, columns, group)
        acc = ct.zeros((tm, tn), ct.float32)
        for n in range(ct.num_tiles(x, 1, (tm, tk))):
            a = ct.load(x, (i, n), (tm, tk), padding_mode=_ZERO)
            acc = ct.mma(a, ct.load(w, (n, j), (tk, tn), padding_mode=_ZERO), acc)
        acc += ct.load(bias, (j,), (tn,), padding_mode=_ZERO).astype(ct.float32).reshape((1, tn))
        acc = ct.maximum(acc, 0.0)
        acc = acc * acc + ct.load(rest, (i, j), (tm, tn), padding_mode=_ZERO).astype(ct.float32)
        ct.store(out, (i, j), acc.astype(out.dtype))


def _squared(m: int, n: int, k: int, dtype: torch.dtype) -> Row:
    x, w = normal(m, k, dtype=dtype), normal(k, n).mul(k**-0.5).to(dtype)
    bias, rest = normal(n, dtype=dtype), normal(m, n, dtype=dtype)

    def theirs(x, w, bias, rest):
        return torch.addmm(bias, x, w).relu().square() + rest

    return beside_torch(
        f"relu(x w + b) ** 2 + r, {m} x {n} x {k} bfloat16, 8 blocks for all, tiles 64x128x32",
        squared,
        (8,),
        (x, w, bias, rest, torch.empty(m, n, dtype=dtype), 64, 128, 32, 4),
        theirs,
        x,
        w,
        bias,
        rest,
        bound=1.6e-2,  # theirs and ours may round before the square
    )


@ct.kernel
def perceptron(
    x,
    first,
    bias,
    second,
    out,
    tm: ct.Constant[int],
    wide: ct.Constant[int],
    chunk: ct.Constant[int],
):
    """gelu(x first + bias) second, without the middle in memory."""
    i = ct.bid(0)
    ours = ct.load(x, (i, 0), (tm, wide), padding_mode=_ZERO)
    acc = ct.zeros((tm, wide), ct.float32)
    for n in range(ct.num_tiles(first, 1, (wide, chunk))):
        weights = ct.load(first, (0, n), (wide, chunk), padding_mode=_ZERO)
        hidden = ct.mma(ours, weights, ct.zeros((tm, chunk), ct.float32))
        hidden = _gelu(hidden + ct.load(bias, (n,), (chunk,), padding_mode=_ZERO))
        acc = ct.mma(hidden, ct.load(second, (n, 0), (chunk, wide), padding_mode=_ZERO), acc)
    ct.store(out, (i, 0), acc)


def _perceptron(many: int, wide: int, middle: int) -> Row:
    x, bias = normal(many, wide), normal(middle)
    first, second = normal(wide, middle) * wide**-0.5, normal(middle, wide) * middle**-0.5

    def theirs(x, first, bias, second):
        return functional.gelu(torch.addmm(bias, x, first), approximate="tanh") @ second

    return beside_torch(
        f"two layers and gelu in one, {many} x {wide} x {middle} x {wide} float32",
        perceptron,
        (-(-many // 32),),
        (x, first, bias, second, torch.empty_like(x), 32, 128, 64),
        theirs,
        x,
        first,
        bias,
        second,
        bound=1e-5,
    )


@ct.kernel
def scaled_and_turned(x, weight, cosine, sine, out, t: ct.Constant[int], half: ct.Constant[int]):
    """RMS norm of each head, then its halves turned: [token, head, place] to [head, token, place]."""
    i, head = ct.bid(0), ct.bid(1)
    a = (
        ct.load(x, (i, head, 0), (t, 1, half), padding_mode=_ZERO)
        .reshape((t, half))
        .astype(ct.float32)
    )
    b = (
        ct.load(x, (i, head, 1), (t, 1, half), padding_mode=_ZERO)
        .reshape((t, half))
        .astype(ct.float32)
    )
    scale = ct.rsqrt(ct.sum(a * a + b * b, 1, keepdims=True) / (2 * half) + 1e-6)
    a = a * scale * ct.load(weight, (0,), (half,)).astype(ct.float32)
    b = b * scale * ct.load(weight, (1,), (half,)).astype(ct.float32)
    c = ct.load(cosine, (i, 0), (t, half), padding_mode=_ZERO)
    s = ct.load(sine, (i, 0), (t, half), padding_mode=_ZERO)
    ct.store(out, (head, i, 0), (a * c - b * s).astype(out.dtype).reshape((1, t, half)))
    ct.store(out, (head, i, 1), (b * c + a * s).astype(out.dtype).reshape((1, t, half)))


def _scaled_and_turned(tokens: int, heads: int, half: int) -> Row:
    x, weight = normal(tokens, heads, 2 * half, dtype=_BF16), normal(2 * half, dtype=_BF16)
    angles = torch.arange(tokens)[:, None] * 10000.0 ** (-torch.arange(half) / half)
    cosine, sine = angles.cos(), angles.sin()

    def theirs(x, weight, cosine, sine):
        held = x.to(cosine.dtype).transpose(0, 1)
        held = functional.rms_norm(held, (2 * half,), weight.to(cosine.dtype), 1e-6)
        a, b = held.chunk(2, -1)
        return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1).to(x.dtype)

    return beside_torch(
        f"heads of length one turned and before tokens, {tokens} x {heads} x {2 * half} bfloat16",
        scaled_and_turned,
        (-(-tokens // 16), heads),
        (x, weight, cosine, sine, torch.empty(heads, tokens, 2 * half, dtype=_BF16), 16, half),
        theirs,
        x,
        weight,
        cosine,
        sine,
        bound=8e-3,
    )


@ct.kernel
def linear_loss(
    x, w, labels, out, tm: ct.Constant[int], tn: ct.Constant[int], wide: ct.Constant[int]
):
    """Cross entropy of x w.T, whose scores are never in memory; labels below zero do not count."""
    i = ct.bid(0)
    ours = ct.load(x, (i, 0), (tm, wide), padding_mode=_ZERO)
    label = ct.load(labels, (i,), (tm,), padding_mode=_ZERO).astype(ct.int32).reshape((tm, 1))
    high = ct.full((tm, 1), -math.inf, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    right = ct.zeros((tm, 1), ct.float32)
    for n in range(ct.num_tiles(w, 0, (tn, wide))):
        weights = ct.load(w, (0, n), (wide, tn), order=(1, 0), padding_mode=_ZERO)
        score = ct.mma(ours, weights, ct.zeros((tm, tn), ct.float32))
        column = (n * tn + ct.arange(tn, dtype=ct.int32)).reshape((1, tn))
        score = ct.where(column < w.shape[0], score, -math.inf)
        right += ct.sum(ct.where(column == label, score, 0.0), 1, keepdims=True)
        now = ct.maximum(high, ct.max(score, 1, keepdims=True))
        total = total * ct.exp(high - now) + ct.sum(ct.exp(score - now), 1, keepdims=True)
        high = now
    loss = ct.where(label >= 0, high + ct.log(total) - right, 0.0)
    ct.store(out, (i,), loss.reshape((tm,)))


def _linear_loss(many: int, words: int, wide: int) -> Row:
    x, w = normal(many, wide), normal(words, wide) * 0.2
    labels = integers(words, many, dtype=_I64)
    labels[::7] = -100

    def theirs(x, w, labels):
        return functional.cross_entropy(x @ w.T, labels, reduction="none")

    return beside_torch(
        f"cross entropy of a layer, {many} x {words} x {wide} float32, its scores not kept",
        linear_loss,
        (-(-many // 32),),
        (x, w, labels, torch.empty(many), 32, 64, 128),
        theirs,
        x,
        w,
        labels,
        bound=1e-5,
    )


@ct.kernel
def group_gradients(
    x, dy, mean, rstd, weight, dx, dw, db, each: ct.Constant[int], part: ct.Constant[int]
):
    """Gradients of group norm: x and dy [image, group, channel, place], weight [group, channel]."""
    image, group = ct.bid(0), ct.bid(1)
    at, inverse = ct.gather(mean, (image, group)), ct.gather(rstd, (image, group))
    scale = ct.load(weight, (group, 0), (1, each), padding_mode=_ZERO).reshape((each, 1))
    sums = ct.zeros((each, 1), ct.float32)
    products = ct.zeros((each, 1), ct.float32)
    for n in range(ct.num_tiles(x, 3, (1, 1, each, part))):
        slope = ct.load(dy, (image, group, 0, n), (1, 1, each, part), padding_mode=_ZERO)
        held = ct.load(x, (image, group, 0, n), (1, 1, each, part), padding_mode=_ZERO)
        slope, held = slope.reshape((each, part)), held.reshape((each, part))
        sums += ct.sum(slope, 1, keepdims=True)
        products += ct.sum(slope * (held - at) * inverse, 1, keepdims=True)
    channel = ct.arange(each, dtype=ct.int32).reshape((each, 1))
    ct.atomic_add(dw, (group, channel), products)
    ct.atomic_add(db, (group, channel), sums)
    many = x.shape[2] * x.shape[3]
    first, second = ct.sum(sums * scale) / many, ct.sum(products * scale) / many
    for n in range(ct.num_tiles(x, 3, (1, 1, each, part))):
        slope = ct.load(dy, (image, group, 0, n), (1, 1, each, part), padding_mode=_ZERO)
        held = ct.load(x, (image, group, 0, n), (1, 1, each, part), padding_mode=_ZERO)
        slope, held = slope.reshape((each, part)), held.reshape((each, part))
        found = inverse * (slope * scale - first - (held - at) * inverse * second)
        ct.store(dx, (image, group, 0, n), found.reshape((1, 1, each, part)))


def _group_gradients(images: int, groups: int, each: int, places: int) -> Row:
    x, dy = several(2, images, groups, each, places)
    weight = normal(groups, each)
    rstd, mean = (x.var((2, 3), unbiased=False) + 1e-5).rsqrt(), x.mean((2, 3))
    dw, db = torch.zeros(groups, each), torch.zeros(groups, each)

    def theirs(x, dy, mean, rstd, weight):
        shape = images, groups * each, places
        found = torch.ops.aten.native_group_norm_backward(
            dy.view(shape), x.view(shape), mean, rstd, weight.view(-1), *shape, groups, [True] * 3
        )
        return found[0].view(x.shape), found[1].view(groups, each), found[2].view(groups, each)

    return beside_torch(
        f"gradients of group norm, {images} x {groups} groups of {each} x {places} float32, by atomics",
        group_gradients,
        (images, groups),
        (x, dy, mean, rstd, weight, torch.empty_like(x), dw, db, 8, 128),
        theirs,
        x,
        dy,
        mean,
        rstd,
        weight,
        outputs=3,
        bound=1e-5,
        clear=lambda: (dw.zero_(), db.zero_()),
    )


@ct.kernel
def by_columns(w, out, scales, tm: ct.Constant[int], tn: ct.Constant[int]):
    """Weights to i8 with a scale for each column."""
    j = ct.bid(0)
    most = ct.zeros((1, tn), ct.float32)
    for i in range(ct.num_tiles(w, 0, (tm, tn))):
        held = ct.load(w, (i, j), (tm, tn), padding_mode=_ZERO)
        most = ct.maximum(most, ct.max(ct.abs(held), 0, keepdims=True))
    scale = ct.maximum(most, 1e-8) / 127.0
    ct.store(scales, (j,), scale.reshape((tn,)))
    inverse = 1.0 / scale
    for i in range(ct.num_tiles(w, 0, (tm, tn))):
        held = ct.load(w, (i, j), (tm, tn), padding_mode=_ZERO) * inverse
        ct.store(out, (i, j), ct.floor(held + 0.5).astype(ct.int8))


def _by_columns(rows: int, columns: int) -> Row:
    w = normal(rows, columns)

    def theirs(w):
        scale = w.abs().amax(0).clamp(min=1e-8) / 127
        return (w * (1 / scale) + 0.5).floor().to(_I8), scale

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(w, out, scales):
            f = np.float32
            for b in nb.prange(-(-columns // 64)):
                first, last = b * 64, min(b * 64 + 64, columns)
                scales[first:last] = f(1e-8)
                for i in range(rows):
                    for j in range(first, last):
                        scales[j] = max(scales[j], abs(w[i, j]))
                for j in range(first, last):
                    scales[j] /= f(127)
                inverse = f(1) / scales[first:last]
                for i in range(rows):
                    for j in range(first, last):
                        out[i, j] = np.int8(np.floor(w[i, j] * inverse[j - first] + f(0.5)))

        made = np.empty((rows, columns), np.int8), np.empty(columns, np.float32)
        return lambda: run(array(w), *made)

    return beside_torch(
        f"columns of {rows} x {columns} float32 to i8, tiles 64x64",
        by_columns,
        (-(-columns // 64),),
        (w, torch.empty(rows, columns, dtype=_I8), torch.empty(columns), 64, 64),
        theirs,
        w,
        outputs=2,
        bound=1e-2,
        more=by_numba(make),
    )


@ct.kernel
def largest(x, out, th: ct.Constant[int], tw: ct.Constant[int]):
    """Maxima of 2 x 2 x 2 of [channel, depth, row, column]."""
    j, i, depth = ct.bid(0), ct.bid(1), ct.bid(2)
    deep = out.shape[1]
    held = ct.load(
        x, (depth // deep, depth % deep, i, j), (1, 2, 2 * th, 2 * tw), padding_mode=_ZERO
    )
    most = ct.max(held.reshape((2, th, 2, tw, 2)), (0, 2, 4))
    ct.store(out, (depth // deep, depth % deep, i, j), most.reshape((1, 1, th, tw)))


def _largest(channels: int, d: int, h: int, w: int) -> Row:
    x = normal(channels, d, h, w)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, out):
            for each in nb.prange(channels * (d // 2)):
                c, z = each // (d // 2), each % (d // 2)
                for i in range(h // 2):
                    for j in range(w // 2):
                        a = max(x[c, 2 * z, 2 * i, 2 * j], x[c, 2 * z, 2 * i, 2 * j + 1])
                        b = max(x[c, 2 * z, 2 * i + 1, 2 * j], x[c, 2 * z, 2 * i + 1, 2 * j + 1])
                        e = max(x[c, 2 * z + 1, 2 * i, 2 * j], x[c, 2 * z + 1, 2 * i, 2 * j + 1])
                        f = max(
                            x[c, 2 * z + 1, 2 * i + 1, 2 * j], x[c, 2 * z + 1, 2 * i + 1, 2 * j + 1]
                        )
                        out[c, z, i, j] = max(max(a, b), max(e, f))

        made = np.empty((channels, d // 2, h // 2, w // 2), np.float32)
        return lambda: run(array(x), made)

    return beside_torch(
        f"largest of 2 x 2 x 2 of {channels} x {d} x {h} x {w} float32, tiles 4x32",
        largest,
        (-(-(w // 2) // 32), -(-(h // 2) // 4), channels * (d // 2)),
        (x, torch.empty(channels, d // 2, h // 2, w // 2), 4, 32),
        lambda x: functional.max_pool3d(x[None], 2)[0],
        x,
        more=by_numba(make),
    )


@ct.kernel
def heard(x, w, bias, out, to: ct.Constant[int], tt: ct.Constant[int], tk: ct.Constant[int]):
    """Three taps two apart and gelu, as products: x [sound, band, time], w [tap, to, band]."""
    j, i, sound = ct.bid(0), ct.bid(1), ct.bid(2)
    time = (j * tt + ct.arange(tt, dtype=ct.int32)).reshape((1, tt))
    acc = ct.zeros((to, tt), ct.float32)
    for tap in range(3):
        for n in range(ct.num_tiles(w, 2, (1, to, tk))):
            band = (n * tk + ct.arange(tk, dtype=ct.int32)).reshape((tk, 1))
            held = ct.gather(x, (sound, band, 2 * time + tap - 1), padding_value=0)
            weights = ct.load(w, (tap, i, n), (1, to, tk), padding_mode=_ZERO).reshape((to, tk))
            acc = ct.mma(weights, held, acc)
    acc += ct.load(bias, (i,), (to,), padding_mode=_ZERO).astype(ct.float32).reshape((to, 1))
    ct.store(out, (sound, i, j), _gelu(acc).astype(out.dtype).reshape((1, to, tt)))


def _heard(sounds: int, bands: int, times: int, outs: int) -> Row:
    x, bias = normal(sounds, bands, times, dtype=_F16), normal(outs, dtype=_F16)
    w = normal(outs, bands, 3).mul((3 * bands) ** -0.5).to(_F16)
    after = (times - 1) // 2 + 1

    def theirs(x, w, bias):
        return functional.gelu(functional.conv1d(x, w, bias, 2, 1), approximate="tanh")

    return beside_torch(
        f"three taps two apart and gelu, {sounds} x {bands} x {times} to {outs} float16, tiles 64x64x16",
        heard,
        (-(-after // 64), -(-outs // 64), sounds),
        (
            x,
            w.permute(2, 0, 1).contiguous(),
            bias,
            torch.empty(sounds, outs, after, dtype=_F16),
            64,
            64,
            16,
        ),
        theirs,
        x,
        w,
        bias,
        bound=2e-3,
    )


@ct.kernel
def adan(p, g, before, m, v, s, p2, m2, v2, s2, rate, root1, root3, decay, tile: ct.Constant[int]):
    """A step of Adan: means of gradients, of their differences and of squares of both."""
    i = (ct.bid(0),)
    now = ct.load(g, i, (tile,), padding_mode=_ZERO)
    change = now - ct.load(before, i, (tile,), padding_mode=_ZERO)
    mean = 0.98 * ct.load(m, i, (tile,), padding_mode=_ZERO) + 0.02 * now
    moves = 0.92 * ct.load(v, i, (tile,), padding_mode=_ZERO) + 0.08 * change
    both = now + 0.92 * change
    squares = 0.99 * ct.load(s, i, (tile,), padding_mode=_ZERO) + 0.01 * both * both
    step = (mean / root1 + 0.92 * moves) / (ct.sqrt(squares) / root3 + 1e-8)
    ct.store(
        p2, i, (ct.load(p, i, (tile,), padding_mode=_ZERO) - rate * step) / (1.0 + decay * rate)
    )
    ct.store(m2, i, mean)
    ct.store(v2, i, moves)
    ct.store(s2, i, squares)


def _adan(many: int) -> Row:
    p, g, before, m, v = several(5, many)
    s, settings = uniform(many), (0.001, 0.25, 0.5, 0.02)
    rate, root1, root3, decay = settings

    def theirs(p, g, before, m, v, s):
        change = g - before
        m = 0.98 * m + 0.02 * g
        v = 0.92 * v + 0.08 * change
        s = 0.99 * s + 0.01 * (g + 0.92 * change).square()
        step = (m / root1 + 0.92 * v) / (s.sqrt() / root3 + 1e-8)
        return (p - rate * step) / (1 + decay * rate), m, v, s

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(p, g, before, m, v, s, p2, m2, v2, s2):
            f = np.float32
            for i in nb.prange(many):
                change = g[i] - before[i]
                mean = f(0.98) * m[i] + f(0.02) * g[i]
                moves = f(0.92) * v[i] + f(0.08) * change
                both = g[i] + f(0.92) * change
                squares = f(0.99) * s[i] + f(0.01) * both * both
                step = (mean / f(root1) + f(0.92) * moves) / (np.sqrt(squares) / f(root3) + f(1e-8))
                p2[i] = (p[i] - f(rate) * step) / f(1 + decay * rate)
                m2[i], v2[i], s2[i] = mean, moves, squares

        made = [np.empty(many, np.float32) for _ in range(4)]
        return lambda: run(*map(array, (p, g, before, m, v, s)), *made)

    return beside_torch(
        f"a step of Adan, {many} float32",
        adan,
        (-(-many // 1024),),
        (p, g, before, m, v, s, *(torch.empty(many) for _ in range(4)), *settings, 1024),
        theirs,
        p,
        g,
        before,
        m,
        v,
        s,
        outputs=4,
        bound=1e-5,
        more=by_numba(make),
    )


@ct.kernel
def drafted(
    q, k, v, lengths, parents, out, scale, rows: ct.Constant[int], drafts: ct.Constant[int], tn: ct.Constant[int],
    deep: ct.Constant[int],
):  # fmt: skip
    """Attention of a tree of drafts: q [text, group, head and draft, deep], bits of who comes before."""
    text, group = ct.bid(0), ct.bid(1)
    length = ct.gather(lengths, text)
    past = length - drafts
    row = ct.arange(rows, dtype=ct.int32)
    above = ct.gather(parents, row % drafts).reshape((rows, 1))
    ours = ct.load(q, (text, group, 0, 0), (1, 1, rows, deep)).reshape((rows, deep))
    high = ct.full((rows, 1), _LOW, ct.float32)
    total = ct.zeros((rows, 1), ct.float32)
    acc = ct.zeros((rows, deep), ct.float32)
    for n in range(ct.cdiv(length, tn)):
        keys = ct.load(k, (text, group, n, 0), (1, 1, tn, deep), padding_mode=_ZERO).reshape(
            (tn, deep)
        )
        score = ct.mma(ours, ct.transpose(keys), ct.zeros((rows, tn), ct.float32)) * scale
        key = (n * tn + ct.arange(tn, dtype=ct.int32)).reshape((1, tn))
        known = ct.minimum(ct.maximum(key - past, 0), 31)
        seen = (key < past) | ((key < length) & (((above >> known) & 1) != 0))
        score = ct.where(seen, score, _LOW)
        now = ct.maximum(high, ct.max(score, 1, keepdims=True))
        share, less = ct.exp2(score - now), ct.exp2(high - now)
        total = total * less + ct.sum(share, 1, keepdims=True)
        values = ct.load(v, (text, group, n, 0), (1, 1, tn, deep), padding_mode=_ZERO)
        acc = ct.mma(share.astype(v.dtype), values.reshape((tn, deep)), acc * less)
        high = now
    ct.store(out, (text, group, 0, 0), (acc / total).astype(out.dtype).reshape((1, 1, rows, deep)))


def _drafted(lengths: tuple[int, ...], groups: int, heads: int, drafts: int, deep: int) -> Row:
    texts, rows, most = len(lengths), heads * drafts, max(lengths)
    q = normal(texts, groups, rows, deep, dtype=_F16)
    k, v = several(2, texts, groups, most, deep, dtype=_F16)
    tree = torch.eye(drafts, dtype=torch.bool)
    for n in range(1, drafts):
        tree[n] |= tree[(n - 1) // 2]
    parents = (tree.long() << torch.arange(drafts)).sum(1).to(_I32)
    before = [torch.ones(rows, length - drafts, dtype=torch.bool) for length in lengths]
    masks = [torch.cat([each, tree.repeat(heads, 1)], 1) for each in before]

    def theirs(q, k, v):
        found = [
            functional.scaled_dot_product_attention(
                q[n : n + 1], k[n : n + 1, :, :length], v[n : n + 1, :, :length], attn_mask=masks[n]
            )
            for n, length in enumerate(lengths)
        ]
        return torch.cat(found)

    given = q, k, v, torch.tensor(lengths, dtype=_I32), parents
    return beside_torch(
        f"{drafts} drafts as a tree, {texts} texts up to {most}, {groups} x {heads} heads of {deep} float16",
        drafted,
        (texts, groups),
        (*given, torch.empty_like(q), deep**-0.5 * _LOG2E, rows, drafts, 64, deep),
        theirs,
        q,
        k,
        v,
        bound=2e-3,
    )


@ct.kernel
def places(marks, out, tm: ct.Constant[int], tn: ct.Constant[int]):
    """How many marks stand before each along the middle axis."""
    batch, j = ct.bid(0), ct.bid(1)
    carried = ct.zeros((1, 1, tn), ct.int32)
    for n in range(ct.num_tiles(marks, 1, (1, tm, tn))):
        held = ct.load(marks, (batch, n, j), (1, tm, tn), padding_mode=_ZERO).astype(ct.int32)
        ct.store(out, (batch, n, j), carried + ct.cumsum(held, 1) - held)
        carried += ct.sum(held, 1, keepdims=True)


def _places(batch: int, many: int, wide: int) -> Row:
    marks = uniform(batch, many, wide) < 0.25

    def make(nb):
        @nb.njit(parallel=True)
        def run(marks, out):
            for b in nb.prange(batch):
                out[b, 0] = 0
                for n in range(1, many):
                    for j in range(wide):
                        out[b, n, j] = out[b, n - 1, j] + marks[b, n - 1, j]

        made = np.empty((batch, many, wide), np.int32)
        return lambda: run(array(marks), made)

    return beside_torch(
        f"how many are set before along the middle of {batch} x {many} x {wide} bool, tiles 64x32",
        places,
        (batch, -(-wide // 32)),
        (marks, torch.empty(batch, many, wide, dtype=_I32), 64, 32),
        lambda marks: marks.cumsum(1, dtype=_I32) - marks.to(_I32),
        marks,
        more=by_numba(make),
    )


@ct.kernel
def bags(table, scales, biases, words, out, each: ct.Constant[int], tile: ct.Constant[int]):
    """Sums of rows of u8, each with a scale and a bias: words [bag, each]."""
    bag = ct.bid(0)
    n = ct.arange(each, dtype=ct.int32)
    inside = (n < words.shape[1]).reshape((each, 1))
    word = ct.gather(words, (bag, n)).reshape((each, 1))
    column = ct.arange(tile, dtype=ct.int32).reshape((1, tile))
    held = ct.gather(table, (word, column), mask=inside).astype(ct.float32)
    scale = ct.gather(scales, word, mask=inside, padding_value=0.0)
    bias = ct.gather(biases, word, mask=inside, padding_value=0.0)
    ct.store(out, (bag, 0), ct.sum(held * scale + bias, 0, keepdims=True))


def _bags(many: int, each: int, known: int, wide: int) -> Row:
    table, words = integers(256, known, wide, dtype=_U8), integers(known, many, each, dtype=_I64)
    scales, biases = uniform(known) * 0.01, -uniform(known, seed=1)
    kept = torch.cat([table, torch.stack([scales, biases], 1).view(_U8)], 1)
    starts = torch.arange(many) * each

    def theirs(table, scales, biases, words):
        return (table[words] * scales[words][..., None] + biases[words][..., None]).sum(1)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(table, scales, biases, words, out):
            for b in nb.prange(many):
                out[b] = 0
                for n in range(each):
                    word = words[b, n]
                    scale, bias = scales[word], biases[word]
                    for j in range(wide):
                        out[b, j] += table[word, j] * scale + bias

        made = np.empty((many, wide), np.float32)
        return lambda: run(array(table), array(scales), array(biases), array(words), made)

    def by_torch_bytes():
        return torch.ops.quantized.embedding_bag_byte_rowwise_offsets(kept, words.view(-1), starts)

    return beside_torch(
        f"{many} sums of {each} of {known} rows of {wide} uint8 with scales and biases",
        bags,
        (many,),
        (table, scales, biases, words, torch.empty(many, wide), 16, 128),
        theirs,
        table,
        scales,
        biases,
        words,
        bound=1e-5,
        more={"torch's bags of bytes": by_torch_bytes} | by_numba(make),
    )


@ct.kernel
def grouped(
    lefts,
    rights,
    outs,
    many: ct.Constant[int],
    tm: ct.Constant[int],
    tn: ct.Constant[int],
    tk: ct.Constant[int],
):
    """Products of lists of matrices of different sizes: some blocks, each for tile after tile of all."""
    number, start = ct.bid(0), 0
    for each in range(many):
        left, right, out = lefts[each], rights[each], outs[each]
        columns = ct.num_tiles(out, 1, (tm, tn))
        end = start + ct.num_tiles(out, 0, (tm, tn)) * columns
        while number < end:
            i, j = (number - start) // columns, (number - start) % columns
            acc = ct.zeros((tm, tn), ct.float32)
            for n in range(ct.num_tiles(left, 1, (tm, tk))):
                a = ct.load(left, (i, n), (tm, tk), padding_mode=_ZERO)
                acc = ct.mma(a, ct.load(right, (n, j), (tk, tn), padding_mode=_ZERO), acc)
            ct.store(out, (i, j), acc)
            number += ct.num_blocks(0)
        start = end


def _grouped(sizes: tuple[tuple[int, int, int], ...]) -> Row:
    lefts = [normal(m, k) for m, _, k in sizes]
    rights = [normal(k, n) for _, n, k in sizes]
    outs = [torch.empty(m, n) for m, n, _ in sizes]

    def theirs(*given):
        return tuple(a @ b for a, b in zip(given[: len(sizes)], given[len(sizes) :], strict=True))

    row = beside_torch(
        f"products of {len(sizes)} pairs of different sizes up to {max(map(max, sizes))} float32, tiles 64x64x32",
        grouped,
        (8,),
        (lefts, rights, outs, len(sizes), 64, 64, 32),
        theirs,
        *lefts,
        *rights,
        bound=1e-5,
    )
    return replace(row, outputs=tuple(outs))


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _packed(4, (37, 130, 61, 200, 24, 48), 64, _BF16),
        lambda: _squared(200, 520, 384, _BF16),
        lambda: _perceptron(200, 96, 384),
        lambda: _scaled_and_turned(333, 10, 64),
        lambda: _linear_loss(150, 2500, 96),
        lambda: _group_gradients(8, 8, 6, 784),
        lambda: _by_columns(700, 900),
        lambda: _largest(12, 17, 43, 75),
        lambda: _heard(2, 80, 601, 128),
        lambda: _adan(200_001),
        lambda: _drafted((700, 333, 512), 2, 4, 8, 64),
        lambda: _places(12, 700, 90),
        lambda: _bags(600, 12, 3000, 128),
        lambda: _grouped(((100, 130, 200), (30, 300, 64), (257, 65, 96), (64, 64, 300))),
    ]
