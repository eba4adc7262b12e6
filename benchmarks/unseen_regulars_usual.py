"""Usual operators of libraries of tile kernels, as a regular writes them."""

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
    compiled,
    integers,
    kind,
    next_power,
    normal,
    uniform,
)

_F32, _F64, _F16, _BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
_I8, _I32, _I64, _U8 = torch.int8, torch.int32, torch.int64, torch.uint8
_LOG2E = 1.4426950408889634
_ZERO = ct.PaddingMode.ZERO
Int = ct.Constant[int]


@ct.kernel
def dyt_backward(x, dy, gamma, dx, dgamma, dbeta, dalpha, alpha, rows: Int, tile: Int):
    """Gradients of gamma * tanh(alpha x) + beta: blocks go down their columns, sums by atomics."""
    j = ct.bid(0)
    weight = ct.load(gamma, (j,), (tile,), padding_mode=_ZERO).reshape((1, tile))
    by_gamma, by_beta = ct.zeros((rows, tile), ct.float32), ct.zeros((rows, tile), ct.float32)
    by_alpha = ct.zeros((rows, tile), ct.float32)
    for i in range(ct.bid(1), ct.num_tiles(x, 0, (rows, tile)), ct.num_blocks(1)):
        held = ct.load(x, (i, j), (rows, tile), padding_mode=_ZERO)
        slope = ct.load(dy, (i, j), (rows, tile), padding_mode=_ZERO)
        bent = ct.tanh(alpha * held)
        through = slope * weight * (1.0 - bent * bent)
        ct.store(dx, (i, j), alpha * through)
        by_gamma += slope * bent
        by_beta += slope
        by_alpha += through * held
    column = j * tile + ct.arange(tile, dtype=ct.int32)
    ct.atomic_add(dgamma, column, ct.sum(by_gamma, 0))
    ct.atomic_add(dbeta, column, ct.sum(by_beta, 0))
    ct.atomic_add(dalpha, 0, ct.sum(by_alpha))


def _dyt_backward(many: int, width: int) -> Row:
    x, dy, gamma = normal(many, width), normal(width, many).T.contiguous(), uniform(width) + 0.5
    alpha = 0.5
    sums = [torch.zeros(width), torch.zeros(width), torch.zeros(1)]

    def theirs(x, dy, gamma):
        bent = torch.tanh(alpha * x)
        through = dy * gamma * (1 - bent * bent)
        return alpha * through, (dy * bent).sum(0), dy.sum(0), (through * x).sum()[None]

    given = x, dy, gamma
    name = f"gradients of a norm by tanh, {many} x {width} float32, sums by atomics"
    arguments = (*given, torch.empty_like(x), *sums, alpha, 8, 128)
    form = name, dyt_backward, (-(-width // 128), 8), arguments
    return beside_torch(
        *form, theirs, *given, outputs=4, bound=1e-4, clear=lambda: [each.zero_() for each in sums]
    )


@ct.kernel
def add_norm_quantised(x, residual, weight, summed, out, scales, epsilon, tile: Int):
    """A residual added, RMS norm with weights about one, and each row to i8 by its largest."""
    row, column = ct.bid(0), ct.arange(tile, dtype=ct.int32)
    held = ct.gather(x, (row, column)).astype(ct.float32)
    held += ct.gather(residual, (row, column)).astype(ct.float32)
    ct.scatter(summed, (row, column), held.astype(summed.dtype))
    over = ct.rsqrt(ct.sum(held * held) / x.shape[1] + epsilon)
    normed = held * over * (1.0 + ct.gather(weight, column).astype(ct.float32))
    most = ct.maximum(ct.max(ct.abs(normed)), 1e-8)
    ct.scatter(out, (row, column), ct.floor(normed * (127.0 / most) + 0.5).astype(ct.int8))
    ct.scatter(scales, (row, 0), most / 127.0)


def _add_norm_quantised(many: int, width: int) -> Row:
    x, residual = normal(many, width, dtype=_BF16), normal(width, many).T.contiguous().to(_BF16)
    weight = (uniform(width) * 0.25).to(_BF16)

    def theirs(x, residual, weight):
        held = (x + residual).to(torch.promote_types(x.dtype, _F32))
        over = torch.rsqrt(held.square().mean(1, keepdim=True) + 1e-6)
        normed = held * over * (1 + weight.to(held.dtype))
        scale = normed.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127
        return held.to(x.dtype), torch.round(normed / scale).to(_I8), scale

    given = x, residual, weight
    name = f"a residual, RMS norm and rows to i8, {many} x {width} bfloat16"
    out = torch.empty_like(x), torch.empty(many, width, dtype=_I8), torch.empty(many, 1)
    form = name, add_norm_quantised, (many,), (*given, *out, 1e-6, next_power(width))
    return beside_torch(*form, theirs, *given, outputs=3, bound=8e-3)


@ct.kernel
def sparsemax(x, out, rows: Int, tile: Int):
    """Rows to the nearest chances, most of them zero: the threshold rises until what is above stays."""
    row = (ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    column = ct.arange(tile, dtype=ct.int32).reshape((1, tile))
    z = ct.gather(x, (row, column), padding_value=-1e30)
    z = z - ct.max(z, 1, keepdims=True)
    level = ct.full((rows, 1), -1.0, ct.float32)
    before, count = ct.zeros((rows, 1), ct.int32), ct.full((rows, 1), -1, ct.int32)
    while ct.max((before != count).astype(ct.int32)) > 0:
        before = count
        above = z > level
        count = ct.sum(above.astype(ct.int32), 1, keepdims=True)
        level = (ct.sum(ct.where(above, z, 0.0), 1, keepdims=True) - 1.0) / count.astype(ct.float32)
    ct.scatter(out, (row, column), ct.maximum(z - level, 0.0))


def _sparsemax(many: int, width: int) -> Row:
    x = normal(many, width) * 0.5

    def theirs(x):
        ordered = x.sort(1, descending=True).values
        sums = ordered.cumsum(1) - 1
        ranks = torch.arange(1, width + 1, dtype=x.dtype)
        count = (ranks * ordered > sums).sum(1, keepdim=True)
        return (x - sums.gather(1, count - 1) / count).clamp(min=0)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, out):
            f = np.float32
            for i in nb.prange(many):
                high = x[i, 0]
                for j in range(1, width):
                    high = max(high, x[i, j])
                level, before, count = high - f(1), 0, -1
                while before != count:
                    before, count, total = count, 0, f(0)
                    for j in range(width):
                        above = x[i, j] > level
                        count += above
                        total += x[i, j] if above else f(0)
                    level = (total - f(1)) / f(count)
                for j in range(width):
                    out[i, j] = max(x[i, j] - level, f(0))

        made = np.empty((many, width), np.float32)
        return lambda: run(array(x), made)

    name = f"sparsemax of {many} x {width} float32, tiles 4x{next_power(width)}"
    form = name, sparsemax, (-(-many // 4),), (x, torch.empty_like(x), 4, next_power(width))
    return beside_torch(*form, theirs, x, bound=1e-5, more=by_numba(make))


@ct.kernel
def judged(logits, labels, chances, entropies, hits, sharpness, tile: Int):
    """The logarithm of a word's chance, the entropy of all, whether it is the likeliest: one pass over the words."""
    row = ct.bid(0)
    label = ct.gather(labels, row)
    best, high, total, weighted = -1, -1e30, 0.0, 0.0
    for t in range(ct.cdiv(logits.shape[1], tile)):
        column = t * tile + ct.arange(tile, dtype=ct.int32)
        held = ct.gather(logits, (row, column), padding_value=-1e30).astype(ct.float32) * sharpness
        here = ct.max(held)
        if here > high:
            best = t * tile + ct.argmax(held)
        new = ct.maximum(high, here)
        fix, e = ct.exp(high - new), ct.exp(held - new)
        total = total * fix + ct.sum(e)
        weighted = weighted * fix + ct.sum(e * held)
        high = new
    norm = high + ct.log(total)
    mine = ct.gather(logits, (row, label)).astype(ct.float32) * sharpness
    ct.scatter(chances, row, ct.where(label >= 0, mine - norm, 0.0))
    ct.scatter(entropies, row, norm - weighted / total)
    ct.scatter(hits, row, best == label)


def _judged(many: int, words: int) -> Row:
    logits, labels = normal(many, words, dtype=_BF16) * 2, integers(words, many, dtype=_I64)
    labels[::7] = -100
    labels[1::5] = logits.argmax(1)[1::5]
    sharpness = 1 / 0.75
    out = torch.empty(many), torch.empty(many), torch.empty(many, dtype=torch.bool)

    def theirs(logits, labels):
        scaled = logits.to(torch.promote_types(logits.dtype, _F32)) * sharpness
        high, best = scaled.max(1, keepdim=True)
        chances = (scaled - high).exp()
        total = chances.sum(1, keepdim=True)
        norm = high + total.log()
        mine = scaled.gather(1, labels.clamp(min=0)[:, None]) - norm
        mine = torch.where(labels[:, None] >= 0, mine, 0.0)
        entropies = norm - (chances * scaled).sum(1, keepdim=True) / total
        return mine[:, 0], entropies[:, 0], best[:, 0] == labels

    name = f"chances and entropies of {many} words of {words} bfloat16, and hits"
    form = name, judged, (many,), (logits, labels, *out, sharpness, 1024)
    return beside_torch(*form, theirs, logits, labels, outputs=3, bound=1e-5)


@ct.kernel
def prefill(q, k, v, sinks, out, before, last, scale, tokens: Int, group: Int, keys: Int, dim: Int):
    """New tokens attend to those before within a window, beside a sink; heads of a key lie in one tile."""
    shared, first = ct.bid(0), ct.bid(1) * tokens
    lane = ct.arange(tokens * group, dtype=ct.int32).reshape((tokens * group, 1))
    token, head = first + lane // group, shared * group + lane % group
    column = ct.arange(dim, dtype=ct.int32).reshape((1, dim))
    asked = ct.gather(q, (token, head, column))
    high = ct.gather(sinks, head).astype(ct.float32) * _LOG2E
    total = ct.ones((tokens * group, 1), ct.float32)
    found = ct.zeros((tokens * group, dim), ct.float32)
    at = before + token
    start = ct.maximum(before + first - last + 1, 0) // keys
    end = ct.cdiv(ct.minimum(before + first + tokens, k.shape[0]), keys)
    for j in range(start, end):
        key = ct.load(k, (j, shared, 0), (keys, 1, dim), padding_mode=_ZERO).reshape((keys, dim))
        score = ct.mma(asked, ct.transpose(key), ct.zeros((tokens * group, keys), ct.float32))
        place = (j * keys + ct.arange(keys, dtype=ct.int32)).reshape((1, keys))
        score = ct.where((place <= at) & (place > at - last), score * scale, -math.inf)
        new = ct.maximum(high, ct.max(score, 1, keepdims=True))
        share, fix = ct.exp2(score - new), ct.exp2(high - new)
        total = total * fix + ct.sum(share, 1, keepdims=True)
        value = ct.load(v, (j, shared, 0), (keys, 1, dim), padding_mode=_ZERO).reshape((keys, dim))
        found = ct.mma(share.astype(v.dtype), value, found * fix)
        high = new
    ct.scatter(out, (token, head, column), (found / total).astype(out.dtype))


def _prefill(tokens: int, before: int, heads: int, shared: int, dim: int, window: int) -> Row:
    many = before + tokens
    q, k = normal(tokens, heads, dim, dtype=_BF16), normal(many, shared, dim, dtype=_BF16)
    v = normal(shared, many, dim).transpose(0, 1).contiguous().to(_BF16)
    sinks = normal(heads, dtype=_BF16)
    at, place = torch.arange(tokens)[:, None] + before, torch.arange(many)
    mask = torch.where((place <= at) & (place > at - window), 0.0, -math.inf).to(_BF16)
    mask = torch.cat((mask.expand(heads, -1, -1), sinks[:, None, None].expand(-1, tokens, 1)), 2)

    def theirs(q, k, v, mask):
        keys = functional.pad(k, (0, 0, 0, 0, 0, 1)).transpose(0, 1)
        values = functional.pad(v, (0, 0, 0, 0, 0, 1)).transpose(0, 1)
        held = q.transpose(0, 1)[None], keys[None], values[None], mask[None]
        found = functional.scaled_dot_product_attention(*held, enable_gqa=True)
        return found[0].transpose(0, 1)

    def wide():
        return theirs(q.float(), k.float(), v.float(), wide_mask).to(_BF16)

    given, wide_mask = (q, k, v, mask), mask.float()
    name = f"{tokens} tokens attend to the last {window} and a sink, {heads} heads, {shared} of keys, of {dim} bfloat16"
    scale, tiles = dim**-0.5 * _LOG2E, (16, heads // shared, 64, dim)
    arguments = (q, k, v, sinks, torch.empty_like(q), before, window, scale, *tiles)
    form = name, prefill, (shared, -(-tokens // 16)), arguments
    return beside_torch(*form, theirs, *given, bound=ERROR[_BF16], more={"torch by float32": wide})


def _sheet(array, at, shape, flat):
    """A tile without its axes of one."""
    return ct.load(array, at, shape, padding_mode=_ZERO).reshape(flat)


@ct.kernel
def pair_biased(q, k, v, bias, mask, gate, out, scale, rows: Int, keys: Int, dim: Int):
    """Attention within each row of an alignment, with a mask of keys, and gates: [row, place, head, dim]."""
    i, head, each = ct.bid(0), ct.bid(1), ct.bid(2)
    asked = _sheet(q, (each, i, head, 0), (1, rows, 1, dim), (rows, dim)) * scale
    high, total = ct.full((rows, 1), -1e30, ct.float32), ct.zeros((rows, 1), ct.float32)
    found = ct.zeros((rows, dim), ct.float32)
    for j in range(ct.num_tiles(k, 1, (1, keys, 1, dim))):
        key = _sheet(k, (each, j, head, 0), (1, keys, 1, dim), (keys, dim))
        pair = _sheet(bias, (head, i, j), (1, rows, keys), (rows, keys))
        score = ct.mma(asked, ct.transpose(key), pair)
        place = (j * keys + ct.arange(keys, dtype=ct.int32)).reshape((1, keys))
        score = ct.where(ct.gather(mask, (each, place), padding_value=False), score, -1e30)
        new = ct.maximum(high, ct.max(score, axis=1, keepdims=True))
        share, fix = ct.exp(score - new), ct.exp(high - new)
        total = total * fix + ct.sum(share, axis=1, keepdims=True)
        value = _sheet(v, (each, j, head, 0), (1, keys, 1, dim), (keys, dim))
        found = ct.mma(share, value, found * fix)
        high = new
    opened = _sheet(gate, (each, i, head, 0), (1, rows, 1, dim), (rows, dim))
    found = found / total / (1.0 + ct.exp(-opened))
    ct.store(out, (each, i, head, 0), found.reshape((1, rows, 1, dim)))


def _pair_biased(batch: int, places: int, heads: int, dim: int) -> Row:
    q, k, v, gate = normal(4, batch, places, heads, dim).unbind(0)
    bias, mask = normal(heads, places, places), uniform(batch, places) > 0.2

    def theirs(q, k, v, gate, bias):
        added = torch.where(mask[:, None, None], bias, -math.inf)
        heads = (x.transpose(1, 2) for x in (q, k, v))
        found = functional.scaled_dot_product_attention(*heads, added)
        return found.transpose(1, 2) * torch.sigmoid(gate)

    given = q, k, v, gate, bias
    name = f"gated attention with numbers for pairs, {batch} rows of {places}, {heads} heads of {dim} float32"
    arguments = (q, k, v, bias, mask, gate, torch.empty_like(q), dim**-0.5, 64, 64, dim)
    form = name, pair_biased, (-(-places // 64), heads, batch), arguments
    return beside_torch(*form, theirs, *given, bound=ERROR[_F32])


def _grouped(n, down, across, group):
    """The tile that a number means, where ``group`` rows of tiles go together."""
    band = group * across
    first = n // band * group
    size = ct.minimum(down - first, group)
    return first + n % band % size, n % band // size


def _bell(x):
    """GELU by tanh."""
    return 0.5 * x * (1.0 + ct.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


@ct.kernel
def dense_gelu(x, w, bias, before, out, rows: Int, columns: Int, depth: Int):
    """x w.T + b, kept, and its GELU: a few blocks take tiles in turn, in an order of groups."""
    down, across = ct.num_tiles(x, 0, (rows, depth)), ct.num_tiles(w, 0, (columns, depth))
    for n in range(ct.bid(0), down * across, ct.num_blocks(0)):
        i, j = _grouped(n, down, across, 4)
        total = ct.zeros((rows, columns), ct.float32)
        for t in range(ct.num_tiles(x, 1, (rows, depth))):
            left = ct.load(x, (i, t), (rows, depth), padding_mode=_ZERO)
            right = ct.load(w, (t, j), (depth, columns), order=(1, 0), padding_mode=_ZERO)
            total = ct.mma(left, right, total)
        total = total + ct.load(bias, (j,), (columns,), padding_mode=_ZERO).astype(ct.float32)
        ct.store(before, (i, j), total.astype(before.dtype))
        ct.store(out, (i, j), _bell(total).astype(out.dtype))


def _dense_gelu(many: int, columns: int, depth: int, dtype: torch.dtype) -> Row:
    x, w = normal(many, depth, dtype=dtype), (normal(columns, depth) / depth**0.5).to(dtype)
    bias = normal(columns, dtype=dtype)
    out = torch.empty(many, columns, dtype=dtype), torch.empty(many, columns, dtype=dtype)

    def theirs(x, w, bias):
        before = functional.linear(x, w, bias)
        return before, functional.gelu(before, approximate="tanh")

    def wide():
        before = functional.linear(x.float(), w.float(), bias.float())
        return before.to(dtype), functional.gelu(before, approximate="tanh").to(dtype)

    given = x, w, bias
    name = f"x w.T + b and its GELU, {many} x {columns} x {depth} {kind(dtype)}, 8 blocks for all, tiles 64x64x32"
    form = name, dense_gelu, (8,), (*given, *out, 64, 64, 32)
    return beside_torch(
        *form, theirs, *given, outputs=2, bound=ERROR[dtype], more={"torch by float32": wide}
    )


@ct.kernel
def four_bit_layer(x, steps, w, scales, out, rows: Int, columns: Int, half: Int):
    """Rows of i8 by weights of four bits with a scale for each group, whose halves share their bytes."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((rows, columns), ct.float32)
    for g in range(ct.num_tiles(w, 1, (columns, half))):
        held = ct.load(w, (j, g), (columns, half), padding_mode=_ZERO)
        low, high = (held & 15).astype(ct.int8) - 8, (held >> 4).astype(ct.int8) - 8
        found = ct.zeros((rows, columns), ct.int32)
        left = ct.load(x, (i, 2 * g), (rows, half), padding_mode=_ZERO)
        right = ct.load(x, (i, 2 * g + 1), (rows, half), padding_mode=_ZERO)
        found = ct.mma(left, ct.transpose(low), found)
        found = ct.mma(right, ct.transpose(high), found)
        scale = ct.load(scales, (j, g), (columns, 1), padding_mode=_ZERO).reshape((1, columns))
        total += found.astype(ct.float32) * scale
    total = total * ct.load(steps, (i, 0), (rows, 1), padding_mode=_ZERO)
    ct.store(out, (i, j), total.astype(out.dtype))


def _four_bit_layer(many: int, columns: int, depth: int, group: int) -> Row:
    x, steps = (integers(255, many, depth) - 127).to(_I8), uniform(many, 1) / 127
    w, scales = integers(256, columns, depth // 2, dtype=_U8), uniform(columns, depth // group) / 64

    def theirs(x, steps, w, scales):
        halves = w.view(columns, -1, group // 2)
        wide = torch.cat((halves & 15, halves >> 4), 2).to(scales.dtype) - 8
        wide = (wide * scales[:, :, None]).view(columns, depth)
        return ((x.to(scales.dtype) @ wide.T) * steps).to(_BF16 if scales.dtype == _F32 else _F64)

    def make(nb):
        half = group // 2

        @nb.njit(parallel=True, fastmath=True)
        def run(x, steps, w, scales, out):
            for j in nb.prange(columns):
                wide = np.empty(depth, np.int8)
                for g in range(depth // group):
                    for t in range(half):
                        b = w[j, g * half + t]
                        wide[g * group + t] = np.int8(b & 15) - np.int8(8)
                        wide[g * group + half + t] = np.int8(b >> 4) - np.int8(8)
                for i in range(many):
                    total = np.float32(0)
                    for g in range(depth // group):
                        found = np.int32(0)
                        for t in range(g * group, g * group + group):
                            found += np.int32(x[i, t]) * np.int32(wide[t])
                        total += np.float32(found) * scales[j, g]
                    out[i, j] = total * steps[i, 0]

        made = np.empty((many, columns), np.float32)
        return lambda: run(array(x), array(steps), array(w), array(scales), made)

    given = x, steps, w, scales
    name = f"{many} x {depth} int8 by {columns} rows of four bits, scales of {group}, to bfloat16"
    arguments = (*given, torch.empty(many, columns, dtype=_BF16), 16, 64, group // 2)
    form = name, four_bit_layer, (-(-many // 16), -(-columns // 64)), arguments
    return beside_torch(*form, theirs, *given, bound=ERROR[_BF16], more=by_numba(make))


@ct.kernel
def nf4_wide(codes, sizes, levels, size_levels, over, out, offset, blocks: Int, half: Int):
    """Sixteen levels in four bits to numbers; sizes of blocks are bytes too, by a table and a scale for 256 of them."""
    i = ct.bid(0)
    block = i * blocks + ct.arange(blocks, dtype=ct.int32)
    size = ct.gather(size_levels, ct.gather(sizes, block).astype(ct.int32))
    size = (size * ct.gather(over, block // 256) + offset).reshape((blocks, 1, 1))
    held = ct.load(codes, (i, 0), (blocks, half), padding_mode=_ZERO).astype(ct.int32)
    held = held.reshape((blocks, half, 1))
    pair = ct.cat((ct.gather(levels, held >> 4), ct.gather(levels, held & 15)), 2) * size
    ct.store(out, (i, 0), pair.reshape((blocks, 2 * half)).astype(out.dtype))


def _nf4_wide(blocks: int) -> Row:
    codes, sizes = integers(256, blocks, 32, dtype=_U8), integers(256, blocks, dtype=_U8)
    levels = torch.special.ndtri(torch.linspace(0.04, 0.97, 16, dtype=_F64)).to(_F32)
    size_levels, over, offset = uniform(256).sort().values, uniform(-(-blocks // 256)) + 0.5, 0.75

    def theirs(codes, sizes, levels, size_levels, over):
        size = size_levels[sizes.int()] * over.repeat_interleave(256)[:blocks] + offset
        pairs = torch.cartesian_prod(levels, levels)
        held = pairs[codes.int()].view(blocks, 64) * size[:, None]
        return held.to(_BF16 if levels.dtype == _F32 else _F64)

    given = codes, sizes, levels, size_levels, over
    name = f"{blocks} blocks of 64 of sixteen levels, their sizes in bytes, to bfloat16"
    arguments = (*given, torch.empty(blocks, 64, dtype=_BF16), offset, 16, 32)
    form = name, nf4_wide, (-(-blocks // 16),), arguments
    return beside_torch(*form, theirs, *given, bound=ERROR[_BF16])


@ct.kernel
def two_of_four(x, values, places, rows: Int, tile: Int):
    """The two largest of each four in their order, and where they were, in four bits each."""
    row = (ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    four = (ct.bid(1) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    a, b = ct.gather(x, (row, 4 * four)), ct.gather(x, (row, 4 * four + 1))
    c, d = ct.gather(x, (row, 4 * four + 2)), ct.gather(x, (row, 4 * four + 3))
    p, q, r, s = ct.abs(a), ct.abs(b), ct.abs(c), ct.abs(d)
    pq, pr, ps = (p >= q).astype(ct.int32), (p >= r).astype(ct.int32), (p >= s).astype(ct.int32)
    qr, qs, rs = (q >= r).astype(ct.int32), (q >= s).astype(ct.int32), (r >= s).astype(ct.int32)
    keep_a, keep_b = pq + pr + ps >= 2, qr + qs - pq >= 1
    keep_c, keep_d = rs - pr - qr >= 0, ps + qs + rs <= 1
    ct.scatter(values, (row, 2 * four), ct.where(keep_a, a, ct.where(keep_b, b, c)))
    ct.scatter(values, (row, 2 * four + 1), ct.where(keep_d, d, ct.where(keep_c, c, b)))
    first = ct.where(keep_a, 0, ct.where(keep_b, 1, 2))
    second = ct.where(keep_d, 3, ct.where(keep_c, 2, 1))
    ct.scatter(places, (row, four), (first | (second << 2)).astype(ct.uint8))


def _two_of_four(many: int, width: int) -> Row:
    x = normal(many, width)

    def theirs(x):
        a, b, c, d = x.view(many, -1, 4).unbind(2)
        p, q, r, s = a.abs(), b.abs(), c.abs(), d.abs()
        wins = p >= q, p >= r, p >= s, q >= r, q >= s, r >= s
        pq, pr, ps, qr, qs, rs = (each.to(_I8) for each in wins)
        keep_a, keep_b = pq + pr + ps >= 2, qr + qs - pq >= 1
        keep_c, keep_d = rs - pr - qr >= 0, ps + qs + rs <= 1
        left = torch.where(keep_a, a, torch.where(keep_b, b, c))
        right = torch.where(keep_d, d, torch.where(keep_c, c, b))
        first = torch.where(keep_a, 0, torch.where(keep_b, 1, 2))
        second = torch.where(keep_d, 3, torch.where(keep_c, 2, 1))
        return torch.stack((left, right), 2).view(many, -1), (first | (second << 2)).to(_U8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, values, places):
            for i in nb.prange(many):
                for n in range(width // 4):
                    a, b, c, d = x[i, 4 * n], x[i, 4 * n + 1], x[i, 4 * n + 2], x[i, 4 * n + 3]
                    p, q, r, s = abs(a), abs(b), abs(c), abs(d)
                    pq, pr, ps = np.int32(p >= q), np.int32(p >= r), np.int32(p >= s)
                    qr, qs, rs = np.int32(q >= r), np.int32(q >= s), np.int32(r >= s)
                    keep_a, keep_b = pq + pr + ps >= 2, qr + qs - pq >= 1
                    keep_c, keep_d = rs - pr - qr >= 0, ps + qs + rs <= 1
                    values[i, 2 * n] = a if keep_a else (b if keep_b else c)
                    values[i, 2 * n + 1] = d if keep_d else (c if keep_c else b)
                    first = np.int32(0) if keep_a else (np.int32(1) if keep_b else np.int32(2))
                    second = np.int32(3) if keep_d else (np.int32(2) if keep_c else np.int32(1))
                    places[i, n] = first | (second << np.int32(2))

        made = np.empty((many, width // 2), np.float32), np.empty((many, width // 4), np.uint8)
        return lambda: run(array(x), *made)

    name = f"two of each four of {many} x {width} float32 and where they were, tiles 4x128"
    arguments = (x, torch.empty(many, width // 2), torch.empty(many, width // 4, dtype=_U8), 4, 128)
    form = name, two_of_four, (-(-many // 4), -(-width // 512)), arguments
    return beside_torch(*form, theirs, x, outputs=2, more=by_numba(make))


@ct.kernel
def unscaled(slopes, out, owners, chunks, squares, bad, scale, tile: Int, most: Int):
    """Chunks of a list of arrays of slopes without their scale, their squares, and whether one is not finite."""
    owner, chunk = ct.gather(owners, ct.bid(0)), ct.gather(chunks, ct.bid(0))
    given, made = slopes[owner], out[owner]
    total, high = ct.zeros((tile,), ct.float32), ct.zeros((tile,), ct.float32)
    for t in range(ct.minimum(most, ct.cdiv(given.shape[0] - chunk * most * tile, tile))):
        at = (chunk * most + t) * tile + ct.arange(tile, dtype=ct.int32)
        held = ct.gather(given, at).astype(ct.float32)
        off = ct.isnan(held) | (ct.abs(held) == math.inf)
        high = ct.where(off, 1.0, high)
        held = held * scale
        total += held * held
        ct.scatter(made, at, held)
    ct.atomic_add(squares, owner, ct.sum(total))
    if ct.max(high) > 0.0:
        ct.scatter(bad, 0, 1)


def _unscaled(sizes: tuple[int, ...]) -> Row:
    slopes, out = [normal(n, dtype=_F16) for n in sizes], [torch.empty(n) for n in sizes]
    tile, most, scale = 512, 8, 2.0**-10
    table = [(n, c) for n, size in enumerate(sizes) for c in range(-(-size // (tile * most)))]
    owners, chunks = torch.tensor(table, dtype=_I32).T.contiguous().unbind(0)
    squares, bad = torch.zeros(len(sizes)), torch.zeros(1, dtype=_I32)

    def theirs(*slopes):
        wide = [each.to(torch.promote_types(each.dtype, _F32)) for each in slopes]
        made = torch._foreach_mul(wide, scale)
        found = torch.stack(torch._foreach_norm(made)).square()
        return *made, found, (~torch.isfinite(found)).any()[None].to(_I32)

    given = [each.clone() for each in slopes]
    peers = {"torch": lambda: theirs(*given), "torch.compile": compiled(theirs, *given)}
    name = f"{len(sizes)} arrays of {sum(sizes)} slopes float16 without their scale, squares, whether all are finite"
    arguments = (slopes, out, owners, chunks, squares, bad, scale, tile, most)
    form = name, unscaled, (len(table),), arguments, (*out, squares, bad)
    exact, clear = [x.double() for x in slopes], lambda: (squares.zero_(), bad.zero_())
    return Row(*form, lambda: theirs(*exact), peers, 1e-5, clear)


@ct.kernel
def part_of_words(tokens, table, out, first, scale, rows: Int, tile: Int):
    """Rows of a part of a vocabulary for tokens, longer by a factor; zeros for words of other parts."""
    i = ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)
    word = ct.gather(tokens, i, padding_value=-1) - first
    mine = (word >= 0) & (word < table.shape[0])
    column = (ct.bid(1) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    at = ct.where(mine, word, 0).reshape((rows, 1))
    held = ct.gather(table, (at, column), mask=mine.reshape((rows, 1)), padding_value=0)
    held = (held.astype(ct.float32) * scale).astype(out.dtype)
    ct.scatter(out, (i.reshape((rows, 1)), column), held)


def _part_of_words(many: int, words: int, parts: int, width: int) -> Row:
    tokens, table = integers(words * parts, many, dtype=_I64), normal(words, width, dtype=_BF16)
    first, scale = words, width**0.5

    def theirs(tokens, table):
        word = tokens - first
        other = (word < 0) | (word >= words)
        held = functional.embedding(word.masked_fill(other, 0), table) * scale
        return held.masked_fill(other[:, None], 0)

    name = f"rows of {width} bfloat16 of one of {parts} parts of a vocabulary for {many} tokens, tiles 8x128"
    arguments = (tokens, table, torch.empty(many, width, dtype=_BF16), first, scale, 8, 128)
    form = name, part_of_words, (-(-many // 8), -(-width // 128)), arguments
    return beside_torch(*form, theirs, tokens, table, bound=ERROR[_BF16])


@ct.kernel
def grouped_convolution(x, w, scale, shift, out, group: Int, rows: Int, channels: Int):
    """Convolution 3 x 3 within groups of channels as products, a norm and hard swish: x [image, y, x, channel]."""
    part = ct.bid(1)
    place = (ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    across = place % x.shape[2]
    down = place // x.shape[2] % x.shape[1]
    image = place // (x.shape[1] * x.shape[2])
    channel = (part * group + ct.arange(channels, dtype=ct.int32)).reshape((1, channels))
    total = ct.zeros((rows, channels), ct.float32)
    for tap in range(9):
        held = ct.gather(x, (image, down + tap // 3 - 1, across + tap % 3 - 1, channel))
        weight = _sheet(w, (part, tap, 0, 0), (1, 1, channels, channels), (channels, channels))
        total = ct.mma(held, weight, total)
    total = total * ct.gather(scale, channel) + ct.gather(shift, channel)
    total = total * ct.minimum(ct.maximum(total + 3.0, 0.0), 6.0) * (1.0 / 6.0)
    ct.scatter(out, (image, down, across, channel), total)


def _grouped_convolution(images: int, height: int, width: int, parts: int, group: int) -> Row:
    channels = parts * group
    x, w = normal(images, height, width, channels), normal(parts, 9, group, group) / 16
    scale, shift = uniform(channels) + 0.5, normal(channels)

    def theirs(x, w, scale, shift):
        weights = w.permute(0, 3, 2, 1).reshape(channels, group, 3, 3)
        found = functional.conv2d(x.permute(0, 3, 1, 2), weights, padding=1, groups=parts)
        return functional.hardswish(found.permute(0, 2, 3, 1) * scale + shift)

    given = x, w, scale, shift
    name = f"3 x 3 in {parts} groups of {group}, a norm and hard swish, {images} x {height} x {width} float32"
    arguments = (*given, torch.empty_like(x), group, 64, group)
    form = name, grouped_convolution, (-(-images * height * width // 64), parts), arguments
    return beside_torch(*form, theirs, *given, bound=ERROR[_F32])


@ct.kernel
def unpooled(slopes, places, out, rows: Int, tile: Int):
    """Gradients of the largest of 3 x 3 two apart: each place asks the up to four windows that it is in."""
    plane = ct.bid(0)
    y = (ct.bid(1) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    x = (ct.bid(2) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    here = (y * out.shape[2] + x).astype(ct.int64)
    total = ct.zeros((rows, tile), ct.float32)
    for b in range(2):
        for a in range(2):
            down, across = y // 2 + b, x // 2 + a
            inside = ((b == 0) | (y % 2 == 1)) & ((a == 0) | (x % 2 == 1))
            place = ct.gather(places, (plane, down, across), mask=inside, padding_value=-1)
            slope = ct.gather(slopes, (plane, down, across), mask=inside, padding_value=0.0)
            total += ct.where(place == here, slope, 0.0)
    ct.scatter(out, (plane, y, x), total)


def _unpooled(planes: int, height: int, width: int) -> Row:
    x = normal(planes, height, width)
    pooled, places = functional.max_pool2d(x, 3, 2, 1, return_indices=True)
    slopes = normal(*pooled.shape)

    def theirs(slopes, x, places):
        back = torch.ops.aten.max_pool2d_with_indices_backward
        return back(slopes[None], x[None], [3, 3], [2, 2], [1, 1], [1, 1], False, places[None])[0]

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(slopes, places, out):
            for p in nb.prange(planes):
                out[p] = 0
                for n in range(slopes.shape[1]):
                    out[p, places[p, n]] += slopes[p, n]

        made = np.empty((planes, height * width), np.float32)
        flat = array(slopes.view(planes, -1)), array(places.view(planes, -1))
        return lambda: run(*flat, made)

    given = slopes, x, places
    name = f"gradients of the largest of 3 x 3 two apart, {planes} x {height} x {width} float32, tiles 8x64"
    arguments = (slopes, places, torch.empty_like(x), 8, 64)
    form = name, unpooled, (planes, -(-height // 8), -(-width // 64)), arguments
    return beside_torch(*form, theirs, *given, bound=1e-6, more=by_numba(make))


def _then(a, b, c, d):
    """Two steps of x -> a x + b as one."""
    return a * c, b * c + d


@ct.kernel
def advantages(rewards, values, done, gains, returns, discount, decay, rows: Int, tile: Int):
    """Generalised advantages of episodes, a scan from the end of each row; values have one step more."""
    row = (ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    step = ct.arange(tile, dtype=ct.int32).reshape((1, tile))
    inside = step < rewards.shape[1]
    now = ct.gather(values, (row, step), mask=inside)
    then = ct.gather(values, (row, step + 1), mask=inside)
    going = ct.where(ct.gather(done, (row, step), padding_value=False), 0.0, discount)
    off = ct.gather(rewards, (row, step)) + going * then - now
    _, gain = ct.scan((going * decay, off), 1, _then, (1.0, 0.0), reverse=True)
    ct.scatter(gains, (row, step), gain)
    ct.scatter(returns, (row, step), gain + now, mask=inside)


def _advantages(many: int, steps: int) -> Row:
    rewards, values = normal(many, steps), normal(many, steps + 1)
    done, discount, decay = uniform(many, steps) < 0.02, 0.99, 0.95

    def theirs(rewards, values, done):
        going = discount * (~done).to(values.dtype)
        off = rewards + going * values[:, 1:] - values[:, :-1]
        gains, gain = torch.empty_like(off), torch.zeros_like(off[:, 0])
        for t in range(steps - 1, -1, -1):
            gain = off[:, t] + going[:, t] * decay * gain
            gains[:, t] = gain
        return gains, gains + values[:, :-1]

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(rewards, values, done, gains, returns):
            f = np.float32
            for i in nb.prange(many):
                gain = f(0)
                for t in range(steps - 1, -1, -1):
                    going = f(0) if done[i, t] else f(discount)
                    off = rewards[i, t] + going * values[i, t + 1] - values[i, t]
                    gain = off + going * f(decay) * gain
                    gains[i, t], returns[i, t] = gain, gain + values[i, t]

        made = [np.empty((many, steps), np.float32) for _ in range(2)]
        return lambda: run(array(rewards), array(values), array(done), *made)

    given = rewards, values, done
    name = f"advantages of {many} episodes of {steps} steps float32"
    out = torch.empty_like(rewards), torch.empty_like(rewards)
    form = name, advantages, (-(-many // 4),), (*given, *out, discount, decay, 4, next_power(steps))
    return beside_torch(
        *form, theirs, *given, outputs=2, bound=1e-5, more=by_numba(make), compiles=False
    )


@ct.kernel
def turned_by_three(q, k, places, waves, q_to, k_to, one: Int, two: Int, rows: Int, half: Int):
    """Rotary embedding by time, height and width, each for its part of the angles: halves are turned."""
    i = ct.bid(0)
    token = (i * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    angle = ct.arange(half, dtype=ct.int32).reshape((1, half))
    which = ct.where(angle < one, 0, ct.where(angle < two, 1, 2))
    at = ct.gather(places, (which, token))
    cosine, sine = ct.gather(waves, (at, angle)), ct.gather(waves, (at, half + angle))
    cosine, sine = cosine.reshape((rows, 1, half)), sine.reshape((rows, 1, half))
    for h in range(q.shape[1]):
        a, b = ct.load(q, (i, h, 0), (rows, 1, half)), ct.load(q, (i, h, 1), (rows, 1, half))
        ct.store(q_to, (i, h, 0), a * cosine - b * sine)
        ct.store(q_to, (i, h, 1), b * cosine + a * sine)
    for h in range(k.shape[1]):
        a, b = ct.load(k, (i, h, 0), (rows, 1, half)), ct.load(k, (i, h, 1), (rows, 1, half))
        ct.store(k_to, (i, h, 0), a * cosine - b * sine)
        ct.store(k_to, (i, h, 1), b * cosine + a * sine)


def _turned_by_three(tokens: int, heads: int, shared: int, parts: tuple[int, int, int]) -> Row:
    half = sum(parts)
    q, k = normal(tokens, heads, 2 * half), normal(tokens, shared, 2 * half)
    places, ends = integers(500, 3, tokens, dtype=_I64), (0, parts[0], parts[0] + parts[1], half)
    speeds = 10000.0 ** (-torch.arange(half, dtype=_F64) / half)
    angles = torch.arange(500, dtype=_F64)[:, None] * speeds
    waves = torch.cat((angles.cos(), angles.sin()), 1).to(_F32)

    def theirs(q, k, places, waves):
        held = waves[places].view(3, tokens, 2, half).split(parts, 3)
        cosine, sine = torch.cat([each[n] for n, each in enumerate(held)], 2)[:, None].unbind(2)
        both = [x.chunk(2, 2) for x in (q, k)]
        return tuple(torch.cat((a * cosine - b * sine, b * cosine + a * sine), 2) for a, b in both)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(q, k, places, waves, q_out, k_out):
            for i in nb.prange(tokens):
                held = np.empty(2 * half, np.float32)
                for n in range(3):
                    for j in range(ends[n], ends[n + 1]):
                        held[j] = waves[places[n, i], j]
                        held[half + j] = waves[places[n, i], half + j]
                for x, out in ((q, q_out), (k, k_out)):
                    for h in range(x.shape[1]):
                        for j in range(half):
                            c, s, a, b = held[j], held[half + j], x[i, h, j], x[i, h, half + j]
                            out[i, h, j], out[i, h, half + j] = a * c - b * s, b * c + a * s

        made = np.empty(q.shape, np.float32), np.empty(k.shape, np.float32)
        return lambda: run(array(q), array(k), array(places), array(waves), *made)

    given = q, k, places, waves
    name = f"{heads} and {shared} heads of {2 * half} of {tokens} tokens turned by three places, float32"
    arguments = (*given, torch.empty_like(q), torch.empty_like(k), *ends[1:3], 4, half)
    form = name, turned_by_three, (-(-tokens // 4),), arguments
    return beside_torch(*form, theirs, *given, outputs=2, bound=1e-6, more=by_numba(make))


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _dyt_backward(1500, 1000),
        lambda: _add_norm_quantised(1000, 1200),
        lambda: _sparsemax(2000, 500),
        lambda: _judged(150, 6001),
        lambda: _prefill(200, 300, 8, 2, 64, 256),
        lambda: _pair_biased(6, 150, 4, 32),
        lambda: _dense_gelu(300, 520, 384, _F16),
        lambda: _four_bit_layer(40, 520, 1024, 64),
        lambda: _nf4_wide(16_001),
        lambda: _two_of_four(1000, 1200),
        lambda: _unscaled((200_001, 700, 65_000, 700, 150_000, 1000, 90_003, 300, 17, 120_000)),
        lambda: _part_of_words(2001, 3000, 3, 640),
        lambda: _grouped_convolution(2, 28, 29, 4, 32),
        lambda: _unpooled(96, 57, 57),
        lambda: _advantages(1001, 300),
        lambda: _turned_by_three(501, 12, 2, (16, 24, 24)),
    ]
