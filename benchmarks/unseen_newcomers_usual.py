"""Layers and data between them, as a newcomer moves them from other code."""

from __future__ import annotations

import math
from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch
from torch.nn import functional

from benchmarks.unseen_rows import Row, array, beside_torch, by_numba, integers, normal, uniform

_F64, _F16, _BF16 = torch.float64, torch.float16, torch.bfloat16
_I32, _I64, _U8, _I8 = torch.int32, torch.int64, torch.uint8, torch.int8
_Int = ct.Constant[int]


@ct.kernel
def kept_words(x, out, counts, least, tile: _Int):
    """Chances of the words of a row that are not far below the best, and how many they are."""
    row, parts, pad = ct.bid(0), ct.cdiv(x.shape[1], tile), ct.PaddingMode.NEG_INF
    high = ct.full((1, tile), -math.inf, ct.float32)
    for t in range(parts):
        held = ct.load(x, (row, t), (1, tile), padding_mode=pad).astype(ct.float32)
        high = ct.maximum(high, held)
    top = ct.max(high)
    total, count = ct.zeros((1, tile), ct.float32), ct.zeros((1, tile), ct.int32)
    for t in range(parts):
        off = ct.load(x, (row, t), (1, tile), padding_mode=pad).astype(ct.float32) - top
        total += ct.where(off >= least, ct.exp(off), 0.0)
        count += (off >= least).astype(ct.int32)
    scale = 1.0 / ct.sum(total)
    for t in range(parts):
        off = ct.load(x, (row, t), (1, tile), padding_mode=pad).astype(ct.float32) - top
        ct.store(out, (row, t), ct.where(off >= least, ct.exp(off) * scale, 0.0))
    ct.scatter(counts, row, ct.sum(count))


def _kept_words(rows: int, words: int) -> Row:
    x, least = normal(rows, words, dtype=_BF16) * 2, math.log(0.05)

    def theirs(x):
        off = x.float() - x.float().amax(1, keepdim=True)
        found = torch.softmax(torch.where(off >= least, off, -math.inf), 1)
        return found, (off >= least).sum(1, dtype=_I32)

    name = f"chances of words of at least 0.05 of the best's, {rows} x {words} bfloat16"
    arguments = x, torch.empty(rows, words), torch.empty(rows, dtype=_I32), least, 1024
    return beside_torch(name, kept_words, (rows,), arguments, theirs, x, outputs=2, bound=1e-5)


@ct.kernel
def cropped(images, tops, lefts, flips, means, scales, out, rows: _Int, tile: _Int):
    """A piece of each image of bytes, some of them mirrored, as planes about zero."""
    n, wide = ct.bid(0), out.shape[3]
    y = (ct.bid(1) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    x = ct.arange(tile, dtype=ct.int32).reshape((1, tile))
    source = ct.gather(lefts, n) + ct.where(ct.gather(flips, n), wide - 1 - x, x)
    for c in range(3):
        held = ct.gather(images, (n, ct.gather(tops, n) + y, source, c), mask=x < wide)
        held = (held.astype(ct.float32) - ct.gather(means, c)) * ct.gather(scales, c)
        ct.scatter(out, (n, c, y, x), held)


def _cropped(many: int, high: int, wide: int, h: int, w: int) -> Row:
    images, flips = integers(256, many, high, wide, 3, dtype=_U8), integers(2, many).bool()
    tops, lefts = integers(high - h + 1, many), integers(wide - w + 1, many)
    means, scales = uniform(3) * 255, uniform(3, seed=1) / 64 + 1 / 64
    held = images, tops, lefts, flips, means, scales

    def theirs(images, tops, lefts, flips, means, scales):
        x = torch.arange(w)
        source = lefts[:, None] + torch.where(flips[:, None], w - 1 - x, x)
        down = tops[:, None] + torch.arange(h)
        held = images[torch.arange(many)[:, None, None], down[:, :, None], source[:, None, :]]
        held = (held.to(means.dtype) - means) * scales
        return held.permute(0, 3, 1, 2).contiguous()

    def make(nb):
        @nb.njit(parallel=True)
        def run(images, tops, lefts, flips, means, scales, out):
            for row in nb.prange(many * h):
                n, y = row // h, row % h
                for c in range(3):
                    for x in range(w):
                        at = lefts[n] + (w - 1 - x if flips[n] else x)
                        value = np.float32(images[n, tops[n] + y, at, c])
                        out[n, c, y, x] = (value - means[c]) * scales[c]

        return lambda: run(*map(array, held), np.empty((many, 3, h, w), np.float32))

    name = f"pieces of {h} x {w} of {many} images of {high} x {wide} uint8, some mirrored, float32"
    arguments, grid = (*held, torch.empty(many, 3, h, w), 8, 128), (many, -(-h // 8))
    more = by_numba(make)
    return beside_torch(name, cropped, grid, arguments, theirs, *held, bound=1e-6, more=more)


@ct.kernel
def kept_keys(keys, slots, cache, scales, heads: _Int, depth: _Int):
    """The key of a token to its slot as i8, each head by its largest: negative slots are skipped."""
    token = ct.bid(0)
    slot = ct.load(slots, (token,), ()).astype(ct.int32)
    if slot >= 0:
        key = ct.load(keys, (token, 0, 0), (1, heads, depth), padding_mode=ct.PaddingMode.ZERO)
        key = key.astype(ct.float32)
        scale = ct.maximum(ct.max(ct.abs(key), 2, keepdims=True), 1e-6) / 127.0
        ct.store(scales, (slot, 0), scale.reshape((1, heads)))
        ct.store(cache, (slot, 0, 0), ct.floor(key / scale + 0.5).astype(ct.int8))


def _kept_keys(tokens: int, heads: int, depth: int, size: int) -> Row:
    keys = normal(tokens, heads, depth, dtype=_BF16)
    slots = torch.randperm(size, generator=torch.Generator().manual_seed(5))[:tokens]
    slots[::7] = -1
    cache, scales = torch.zeros(size, heads, depth, dtype=_I8), torch.zeros(size, heads)
    theirs_cache, theirs_scales = cache.clone(), scales.clone()

    def theirs(keys, slots):
        used = slots >= 0
        key, to = keys[used].float(), slots[used]
        scale = key.abs().amax(2).clamp(min=1e-6) / 127
        theirs_scales.index_copy_(0, to, scale)
        theirs_cache.index_copy_(0, to, torch.floor(key / scale[..., None] + 0.5).to(_I8))
        return theirs_cache, theirs_scales

    name = f"keys of {tokens} tokens of {heads} x {depth} bfloat16 to int8 in {size} slots"
    arguments = keys, slots, cache, scales, heads, 128
    return beside_torch(name, kept_keys, (tokens,), arguments, theirs, keys, slots, outputs=2)


@ct.kernel
def weighted_past(keys, values, decays, bonus, out, tile: _Int):
    """Means of values so far, weighted by e ** key and by age: [text, time, channel]."""
    text, j = ct.bid(0), ct.bid(1)
    w, u = ct.load(decays, (j,), (tile,)), ct.load(bonus, (j,), (tile,))
    top = ct.full((tile,), -1e30, ct.float32)
    over, under = ct.zeros((tile,), ct.float32), ct.zeros((tile,), ct.float32)
    for t in range(keys.shape[1]):
        k = ct.load(keys, (text, t, j), (1, 1, tile)).reshape((tile,))
        v = ct.load(values, (text, t, j), (1, 1, tile)).reshape((tile,))
        high = ct.maximum(top, u + k)
        a, b = ct.exp(top - high), ct.exp(u + k - high)
        found = (a * over + b * v) / (a * under + b)
        ct.store(out, (text, t, j), found.reshape((1, 1, tile)))
        high = ct.maximum(top - w, k)
        a, b = ct.exp(top - w - high), ct.exp(k - high)
        over, under, top = a * over + b * v, a * under + b, high


def _weighted_past(texts: int, steps: int, channels: int) -> Row:
    keys, values = normal(texts, steps, channels), normal(texts, steps, channels + 1)[..., 1:]
    values, decays, bonus = values.contiguous(), uniform(channels) * 2, normal(channels)
    held = keys, values, decays, bonus

    def theirs(keys, values, decays, bonus):
        top = torch.full_like(keys[:, 0], -1e30)
        over, under, found = torch.zeros_like(top), torch.zeros_like(top), []
        for k, v in zip(keys.unbind(1), values.unbind(1)):
            high = torch.maximum(top, bonus + k)
            a, b = torch.exp(top - high), torch.exp(bonus + k - high)
            found.append((a * over + b * v) / (a * under + b))
            high = torch.maximum(top - decays, k)
            a, b = torch.exp(top - decays - high), torch.exp(k - high)
            over, under, top = a * over + b * v, a * under + b, high
        return torch.stack(found, 1)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(keys, values, decays, bonus, out):
            for lane in nb.prange(texts * channels):
                n, j = lane // channels, lane % channels
                over, under, top = np.float32(0), np.float32(0), np.float32(-1e30)
                for t in range(steps):
                    k, v = keys[n, t, j], values[n, t, j]
                    high = max(top, bonus[j] + k)
                    a, b = np.exp(top - high), np.exp(bonus[j] + k - high)
                    out[n, t, j] = (a * over + b * v) / (a * under + b)
                    high = max(top - decays[j], k)
                    a, b = np.exp(top - decays[j] - high), np.exp(k - high)
                    over, under, top = a * over + b * v, a * under + b, high

        return lambda: run(*map(array, held), np.empty(keys.shape, np.float32))

    name = f"weighted means of the past, {texts} x {steps} x {channels} float32"
    grid, arguments = (texts, -(-channels // 64)), (*held, torch.empty_like(keys), 64)
    options = {"bound": 1e-5, "more": by_numba(make), "compiles": False}
    return beside_torch(name, weighted_past, grid, arguments, theirs, *held, **options)


@ct.kernel
def mixed_groups(x, words, scales, zeros, groups, out, m: _Int, n: _Int, k: _Int):
    """Rows times weights of four bits, eight in a word, whose groups come in any order."""
    column = (ct.bid(0) * n + ct.arange(n, dtype=ct.int32))[None, :]
    total = ct.zeros((m, n), ct.float32)
    for t in range(ct.cdiv(x.shape[1], k)):
        row = t * k + ct.arange(k, dtype=ct.int32)
        group = ct.gather(groups, row)[:, None]
        held = ct.gather(words, ((row // 8)[:, None], column)) >> (row % 8 * 4)[:, None]
        held = (held & 15) - ct.gather(zeros, (group, column)).astype(ct.int32)
        weight = held.astype(ct.float32) * ct.gather(scales, (group, column))
        part = ct.load(x, (ct.bid(1), t), (m, k), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(part, weight, total)
    ct.store(out, (ct.bid(1), ct.bid(0)), total)


def _mixed_groups(high: int, deep: int, wide: int, parts: int) -> Row:
    x, groups = normal(high, deep), integers(parts, deep)
    words = integers(1 << 32, deep // 8, wide, dtype=_I64).to(_I32)
    scales, zeros = uniform(parts, wide) / 16, integers(16, parts, wide, dtype=_U8)
    held, shifts = (x, words, scales, zeros, groups), 4 * torch.arange(8, dtype=_I32)[:, None]

    def theirs(x, words, scales, zeros, groups):
        found = ((words[:, None] >> shifts) & 15).view(deep, wide) - zeros[groups].int()
        return x @ (found * scales[groups])

    name = f"{high} x {deep} by {wide} columns of four bits in {parts} groups in any order float32"
    grid, arguments = (-(-wide // 64), -(-high // 16)), (*held, torch.empty(high, wide), 16, 64, 32)
    return beside_torch(name, mixed_groups, grid, arguments, theirs, *held, bound=1e-5)


@ct.kernel
def bands(waves, weights, out, m: _Int, n: _Int, k: _Int):
    """Logarithms of powers in bands: waves [frame, bin, real or imaginary], weights [bin, band]."""
    i, j, pad = ct.bid(0), ct.bid(1), ct.PaddingMode.ZERO
    total = ct.zeros((m, n), ct.float32)
    for t in range(ct.cdiv(waves.shape[1], k)):
        wave = ct.load(waves, (i, t, 0), (m, k, 2), padding_mode=pad)
        weight = ct.load(weights, (t, j), (k, n), padding_mode=pad)
        total = ct.mma(ct.sum(wave * wave, 2), weight, total)
    found = ct.log(ct.maximum(total, 1e-10)) * 0.4342944819
    ct.store(out, (i, j), (found + 4.0) * 0.25)


def _bands(frames: int, bins: int, many: int) -> Row:
    waves = normal(frames, bins, 2)
    centre = torch.linspace(2, 13, many) ** 2
    weights = (1 - (torch.arange(bins)[:, None] - centre).abs() / (centre / 8 + 1)).clamp(min=0)

    def theirs(waves, weights):
        return (torch.log10((waves.square().sum(2) @ weights).clamp(min=1e-10)) + 4) / 4

    def by_numpy():
        wave = array(waves)
        power = np.square(wave[..., 0]) + np.square(wave[..., 1])
        return (np.log10(np.maximum(power @ array(weights), np.float32(1e-10))) + 4) / 4

    name = f"logarithms of {many} bands of {bins} bins of {frames} frames float32"
    grid, given = (-(-frames // 64), -(-many // 32)), (waves, weights)
    arguments, more = (*given, torch.empty(frames, many), 64, 32, 32), {"NumPy": by_numpy}
    return beside_torch(name, bands, grid, arguments, theirs, *given, bound=1e-5, more=more)


def _changed(weights, a, right, share, i, t, rows, tile):
    """A tile of weights and of a product of low rank."""
    pad = ct.PaddingMode.ZERO
    held = ct.load(weights, (i, t), (rows, tile), padding_mode=pad).astype(ct.float32)
    b = ct.load(right, (0, t), (a.shape[1], tile), padding_mode=pad)
    return held + share * ct.mma(a, b, ct.zeros((rows, tile), ct.float32))


@ct.kernel
def adapted(weights, left, right, sizes, out, share, rows: _Int, rank: _Int, tile: _Int):
    """Weights and a product of low rank, each row then to a length of its own."""
    i, parts = ct.bid(0), ct.cdiv(weights.shape[1], tile)
    a = ct.load(left, (i, 0), (rows, rank), padding_mode=ct.PaddingMode.ZERO)
    total = ct.zeros((rows, tile), ct.float32)
    for t in range(parts):
        held = _changed(weights, a, right, share, i, t, rows, tile)
        total += held * held
    size = ct.load(sizes, (i,), (rows,), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    scale = ct.expand_dims(size, 1) * ct.rsqrt(ct.sum(total, 1, keepdims=True) + 1e-12)
    for t in range(parts):
        held = _changed(weights, a, right, share, i, t, rows, tile)
        ct.store(out, (i, t), (held * scale).astype(out.dtype))


def _adapted(high: int, wide: int, rank: int) -> Row:
    weights, sizes = normal(high, wide, dtype=_F16), uniform(high, dtype=_F16) * 8 + 20
    left, right = normal(high, rank, dtype=_F16), normal(rank, wide, dtype=_F16)
    held = weights, left, right, sizes

    def theirs(weights, left, right, sizes):
        found = torch.addmm(weights.float(), left.float(), right.float(), alpha=0.25)
        scale = sizes.float() / torch.linalg.vector_norm(found, dim=1)
        return (found * scale[:, None]).to(weights.dtype)

    name = f"weights of {high} x {wide} and a product of rank {rank}, of set lengths, float16"
    arguments = *held, torch.empty_like(weights), 0.25, 16, rank, 128
    return beside_torch(name, adapted, (-(-high // 16),), arguments, theirs, *held, bound=1e-3)


@ct.kernel
def told(x, edges, starts, others, out, own, rows: _Int, tile: _Int):
    """What a node is and what its neighbours and edges tell it, some edges at a time."""
    node = ct.bid(0)
    start, end = ct.gather(starts, node), ct.gather(starts, node + 1)
    column = ct.arange(tile, dtype=ct.int32)
    total = ct.zeros((rows, tile), ct.float32)
    while start < end:
        edge = start + ct.arange(rows, dtype=ct.int32)
        other = ct.gather(others, edge, mask=edge < end, padding_value=-1)
        place = ct.expand_dims(ct.where(edge < end, edge, -1), 1), ct.expand_dims(column, 0)
        word = ct.gather(x, (ct.expand_dims(other, 1), place[1])) + ct.gather(edges, place)
        total += ct.maximum(word, 0.0)
        start += rows
    ct.scatter(out, (node, column), own * ct.gather(x, (node, column)) + ct.sum(total, 0))


def _told(nodes: int, most: int, width: int) -> Row:
    counts = integers(most, nodes, dtype=_I64)
    starts = functional.pad(counts.cumsum(0), (1, 0)).to(_I32)
    others = integers(nodes, int(starts[-1]))
    x, edges = normal(nodes, width), normal(len(others), width)
    owner = torch.repeat_interleave(torch.arange(nodes), counts)

    def theirs(x, edges, others):
        return (1.125 * x).index_add_(0, owner, torch.relu(x[others] + edges))

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, edges, starts, others, out):
            for i in nb.prange(nodes):
                for k in range(width):
                    out[i, k] = np.float32(1.125) * x[i, k]
                for e in range(starts[i], starts[i + 1]):
                    j = others[e]
                    for k in range(width):
                        out[i, k] += max(x[j, k] + edges[e, k], np.float32(0))

        held, shape = (x, edges, starts, others), (nodes, width)
        return lambda: run(*map(array, held), np.empty(shape, np.float32))

    name = f"what {nodes} nodes hear from less than {most} neighbours and edges of {width} float32"
    arguments = x, edges, starts, others, torch.empty_like(x), 1.125, 8, 128
    held, more = (x, edges, others), by_numba(make)
    return beside_torch(name, told, (nodes,), arguments, theirs, *held, bound=1e-5, more=more)


@ct.kernel
def bars(prices, sizes, starts, out, totals, rows: _Int, tile: _Int):
    """First, highest, lowest, last and mean price of each minute, and how much was sold."""
    minute = ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)
    start, end = ct.gather(starts, minute), ct.gather(starts, minute + 1)
    at = start.reshape((rows, 1)) + ct.arange(tile, dtype=ct.int32).reshape((1, tile))
    inside = at < end.reshape((rows, 1))
    price = ct.gather(prices, at, mask=inside)
    size = ct.gather(sizes, at, mask=inside).astype(ct.int64)
    sold = ct.sum(size, 1)
    ct.scatter(totals, minute, sold)
    ct.scatter(out, (minute, 0), ct.gather(prices, start))
    ct.scatter(out, (minute, 1), ct.max(ct.where(inside, price, -math.inf), 1))
    ct.scatter(out, (minute, 2), ct.min(ct.where(inside, price, math.inf), 1))
    ct.scatter(out, (minute, 3), ct.gather(prices, end - 1))
    ct.scatter(out, (minute, 4), ct.sum(price * size, 1) / sold)


def _bars(minutes: int, most: int) -> Row:
    counts = integers(most, minutes, dtype=_I64) + 1
    starts = functional.pad(counts.cumsum(0), (1, 0)).to(_I32)
    many = int(starts[-1])
    prices, sizes = normal(many, dtype=_F64).cumsum(0) * 0.01 + 100, integers(500, many) + 1
    held = prices, sizes, starts

    def theirs(prices, sizes, starts):
        first, last = prices[starts[:-1]], prices[starts[1:] - 1]
        parts, each = {"offsets": starts.long(), "axis": 0}, (prices * sizes, sizes.double())
        high, low = (torch.segment_reduce(prices, how, **parts) for how in ("max", "min"))
        paid, sold = (torch.segment_reduce(x, "sum", **parts) for x in each)
        return torch.stack([first, high, low, last, paid / sold], 1), sold.long()

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(prices, sizes, starts, out, totals):
            for i in nb.prange(minutes):
                high, low, paid, sold = -np.inf, np.inf, 0.0, 0
                for n in range(starts[i], starts[i + 1]):
                    high, low = max(high, prices[n]), min(low, prices[n])
                    paid += prices[n] * sizes[n]
                    sold += sizes[n]
                out[i, 0], out[i, 1], out[i, 2] = prices[starts[i]], high, low
                out[i, 3], out[i, 4], totals[i] = prices[starts[i + 1] - 1], paid / sold, sold

        return lambda: run(*map(array, held), np.empty((minutes, 5)), np.empty(minutes, np.int64))

    name = f"prices of {minutes} minutes of up to {most} sales float64"
    out = torch.empty(minutes, 5, dtype=_F64), torch.empty(minutes, dtype=_I64)
    arguments = *held, *out, 16, 64
    options = {"outputs": 2, "bound": 1e-13, "more": by_numba(make), "compiles": False}
    return beside_torch(name, bars, (-(-minutes // 16),), arguments, theirs, *held, **options)


@ct.kernel
def filled(x, out, missing, rows: _Int, tile: _Int):
    """Columns about their means by their deviations, zeros in gaps, and where these are."""
    j, parts = ct.bid(0), ct.cdiv(x.shape[0], rows)
    total, count = ct.zeros((rows, tile), x.dtype), ct.zeros((rows, tile), ct.int32)
    for t in range(parts):
        held = ct.load(x, (t, j), (rows, tile), padding_mode=ct.PaddingMode.NAN)
        total += ct.where(ct.isnan(held), 0.0, held)
        count += ct.where(ct.isnan(held), 0, 1)
    known = ct.sum(count, axis=0, keepdims=True)
    mean = ct.sum(total, axis=0, keepdims=True) / known
    square = ct.zeros((rows, tile), x.dtype)
    for t in range(parts):
        held = ct.load(x, (t, j), (rows, tile), padding_mode=ct.PaddingMode.NAN) - mean
        square += ct.where(ct.isnan(held), 0.0, held * held)
    scale = 1.0 / ct.sqrt(ct.sum(square, axis=0, keepdims=True) / known)
    for t in range(parts):
        held = ct.load(x, (t, j), (rows, tile)) - mean
        ct.store(out, (t, j), ct.where(ct.isnan(held), 0.0, held * scale).astype(out.dtype))
        ct.store(missing, (t, j), ct.isnan(held))


def _filled(high: int, wide: int) -> Row:
    x = normal(high, wide, dtype=_F64) * 3 + 5
    x[uniform(high, wide) < 0.1] = math.nan

    def theirs(x):
        gone = x.isnan()
        known, held = (~gone).sum(0), x - x.nanmean(0)
        scale = torch.rsqrt(held.square().nansum(0) / known)
        return (held * scale).nan_to_num(0.0).float(), gone

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, sums, out, missing):
            parts = nb.get_num_threads()
            for part in nb.prange(parts):
                own = slice(wide * part // parts, wide * (part + 1) // parts)
                sums[:, own], known, mean, scale = 0, sums[0, own], sums[1, own], sums[2, own]
                for i in range(high):
                    held, gone = x[i, own], missing[i, own]
                    for j in range(held.size):
                        value = 0.0 if np.isnan(held[j]) else held[j]
                        gone[j] = np.isnan(held[j])
                        known[j] += 0.0 if np.isnan(held[j]) else 1.0
                        mean[j] += value
                        scale[j] += value * value
                mean /= known
                scale[:] = 1 / np.sqrt(scale / known - mean * mean)
                for i in range(high):
                    held, to = x[i, own], out[i, own]
                    for j in range(held.size):
                        off = (held[j] - mean[j]) * scale[j]
                        to[j] = 0.0 if np.isnan(off) else off

        sums, shape = np.empty((3, wide)), (high, wide)
        return lambda: run(array(x), sums, np.empty(shape, np.float32), np.empty(shape, np.bool_))

    name = f"{wide} columns of {high} float64 with gaps, standardised to float32, and the gaps"
    arguments = x, torch.empty(high, wide), torch.empty(high, wide, dtype=torch.bool), 64, 32
    grid, more = (-(-wide // 32),), by_numba(make)
    return beside_torch(name, filled, grid, arguments, theirs, x, outputs=2, bound=1e-6, more=more)


def _middle(seven):
    """The middle of seven."""
    a, b, c, d, e, f, g = seven
    a, f, b, g = min(a, f), max(a, f), min(b, g), max(b, g)
    a, d, c, e = min(a, d), max(a, d), min(c, e), max(c, e)
    b = max(a, b)
    d, f, c, g = min(d, f), max(d, f), min(c, g), max(c, g)
    d, e = min(max(c, d), g), min(e, f)
    b, e = min(b, e), max(b, e)
    return min(max(b, d), e)


@ct.kernel
def cleaned(x, out, flags, limit, tile: _Int):
    """Each sample, or the median of seven where it is far from that, and where that was."""
    i, last = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32), x.shape[0] - 1
    near = tuple(ct.gather(x, min(max(i + k, 0), last)) for k in ct.static_iter(range(-3, 4)))
    mid, own = _middle(near), near[3]
    off = _middle(tuple(abs(each - mid) for each in ct.static_iter(near)))
    far = abs(own - mid) > limit * off
    ct.scatter(out, i, ct.where(far, mid, own))
    ct.scatter(flags, i, far)


def _cleaned(many: int) -> Row:
    x = normal(many).cumsum(0) * 0.1 + (uniform(many) < 0.02) * 5.0

    def theirs(x):
        windows = functional.pad(x[None], (3, 3), mode="replicate")[0].unfold(0, 7, 1)
        mid = windows.median(1).values
        far = (x - mid).abs() > 4.5 * (windows - mid[:, None]).abs().median(1).values
        return torch.where(far, mid, x), far

    def make(nb):
        middle, last = nb.njit(inline="always")(_middle), many - 1

        @nb.njit(parallel=True, fastmath=True)
        def run(x, out, flags):
            for i in nb.prange(many):
                a, b, c = x[max(i - 3, 0)], x[max(i - 2, 0)], x[max(i - 1, 0)]
                e, f, g = x[min(i + 1, last)], x[min(i + 2, last)], x[min(i + 3, last)]
                mid = middle((a, b, c, x[i], e, f, g))
                a, b, c, d = abs(a - mid), abs(b - mid), abs(c - mid), abs(x[i] - mid)
                off = middle((a, b, c, d, abs(e - mid), abs(f - mid), abs(g - mid)))
                far = d > np.float32(4.5) * off
                flags[i], out[i] = far, mid if far else x[i]

        return lambda: run(array(x), np.empty(many, np.float32), np.empty(many, np.bool_))

    name = f"outliers of {many} samples by medians of seven float32"
    arguments = x, torch.empty_like(x), torch.empty(many, dtype=torch.bool), 4.5, 512
    grid, more = (-(-many // 512),), by_numba(make)
    return beside_torch(name, cleaned, grid, arguments, theirs, x, outputs=2, more=more)


@ct.kernel
def patterned(x, codes, counts, rows: _Int, tile: _Int):
    """Which of eight neighbours are not darker, as bits, and how often each code is there."""
    y = (ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    z = (ct.bid(1) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    own = ct.gather(x, (y, z))
    code = ct.zeros((rows, tile), ct.int32)
    places = ((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1))
    for bit in ct.static_iter(range(8)):
        near = ct.gather(x, (y + places[bit][0], z + places[bit][1]))
        code = code | ((near >= own).astype(ct.int32) << bit)
    ct.scatter(codes, (y, z), code.astype(ct.uint8))
    ct.atomic_add(counts, ct.where((y < x.shape[0]) & (z < x.shape[1]), code, -1), 1)


def _patterned(high: int, wide: int) -> Row:
    smooth = functional.avg_pool2d(uniform(1, high, wide), 5, 1, 2)[0]
    x, counts = (smooth * 255).to(_U8), torch.zeros(256, dtype=_I32)
    places = ((0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0))

    def theirs(x):
        held, code = functional.pad(x, (1, 1, 1, 1)), torch.zeros_like(x)
        for bit, (y, z) in enumerate(places):
            code |= (held[y : y + high, z : z + wide] >= x).to(_U8) << bit
        return code, torch.bincount(code.view(-1), minlength=256).to(_I32)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, codes, counts):
            counts[:] = 0
            for y in nb.prange(high):
                for z in range(wide):
                    own = x[y + 1, z + 1]
                    code = (x[y, z] >= own) + 2 * (x[y, z + 1] >= own) + 4 * (x[y, z + 2] >= own)
                    code += 8 * (x[y + 1, z + 2] >= own) + 16 * (x[y + 2, z + 2] >= own)
                    code += 32 * (x[y + 2, z + 1] >= own) + 64 * (x[y + 2, z] >= own)
                    codes[y, z] = code + 128 * (x[y + 1, z] >= own)
            for code in codes.ravel():
                counts[code] += 1

        shape = high, wide
        return lambda: run(np.pad(array(x), 1), np.empty(shape, np.uint8), np.empty(256, np.int32))

    name = f"patterns of neighbours of {high} x {wide} uint8, and their counts"
    grid, arguments = (-(-high // 16), -(-wide // 64)), (x, torch.empty_like(x), counts, 16, 64)
    options = {"outputs": 2, "clear": counts.zero_, "more": by_numba(make)}
    return beside_torch(name, patterned, grid, arguments, theirs, x, **options)


@ct.kernel
def slopes(stocks, market, out, window: _Int, tile: _Int):
    """How each stock follows the market, over windows of time: slope and offset, [which, time, stock]."""
    j = ct.bid(0)
    x, y = ct.zeros((1,), ct.float64), ct.zeros((1, tile), ct.float64)
    xx, xy = x, y
    for t in range(stocks.shape[0]):
        a, b = ct.load(market, (t,), (1,)), ct.load(stocks, (t, j), (1, tile))
        x, y, xx, xy = x + a, y + b, xx + a * a, xy + a * b
        if t >= window:
            a, b = ct.load(market, (t - window,), (1,)), ct.load(stocks, (t - window, j), (1, tile))
            x, y, xx, xy = x - a, y - b, xx - a * a, xy - a * b
        if t >= window - 1:
            slope = (window * xy - x * y) / (window * xx - x * x)
            ct.store(out, (0, t - window + 1, j), ct.expand_dims(slope, 0))
            ct.store(out, (1, t - window + 1, j), ct.expand_dims((y - slope * x) / window, 0))


def _slopes(days: int, many: int, window: int) -> Row:
    stocks, market = normal(days, many, dtype=_F64) * 0.02, normal(days, dtype=_F64) * 0.01

    def theirs(stocks, market):
        m = market[:, None]
        sums = torch.cat([m, m * m, stocks, m * stocks], 1).cumsum(0)
        sums = functional.pad(sums, (0, 0, 1, 0))
        x, xx, y, xy = (sums[window:] - sums[:-window]).split((1, 1, many, many), 1)
        slope = (window * xy - x * y) / (window * xx - x * x)
        return torch.stack([slope, (y - slope * x) / window])

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(stocks, market, sums, out):
            parts = nb.get_num_threads()
            for part in nb.prange(parts):
                own = slice(many * part // parts, many * (part + 1) // parts)
                sums[:, own], y, xy, x, xx = 0, sums[0, own], sums[1, own], 0.0, 0.0
                for t in range(days):
                    gone, here = max(t - window, 0), 1.0 if t >= window else 0.0
                    a, b, at = market[t], market[gone] * here, max(t - window + 1, 0)
                    x, xx = x + a - b, xx + a * a - b * b
                    come, left = stocks[t, own], stocks[gone, own]
                    slope, off = out[0, at, own], out[1, at, own]
                    over = 1 / (window * xx - x * x)
                    for j in range(y.size):
                        y[j] += come[j] - here * left[j]
                        xy[j] += a * come[j] - b * left[j]
                        slope[j] = (window * xy[j] - x * y[j]) * over
                        off[j] = (y[j] - slope[j] * x) / window

        sums, shape = np.empty((2, many)), (2, days - window + 1, many)
        return lambda: run(array(stocks), array(market), sums, np.empty(shape))

    name = f"slopes of the last {window} of {days} days of {many} stocks float64"
    arguments = stocks, market, torch.empty(2, days - window + 1, many, dtype=_F64), window, 128
    grid, given, more = (-(-many // 128),), (stocks, market), by_numba(make)
    return beside_torch(name, slopes, grid, arguments, theirs, *given, bound=1e-9, more=more)


def _cross(a, b):
    """The cross product of two triples."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def _between(a, p, half, over):
    """Half of a triple and a part of another."""
    return half * a[0] + over * p[0], half * a[1] + over * p[1], half * a[2] + over * p[2]


@ct.kernel
def turns(x, out, steps: _Int, tile: _Int):
    """The rotation nearest to each 3 x 3 matrix, by Newton's steps: [entry, matrix]."""
    i = ct.bid(0)
    entry = tuple(ct.load(x, (n, i), (1, tile)) for n in ct.static_iter(range(9)))
    a, b, c = entry[0:3], entry[3:6], entry[6:9]
    for _ in range(steps):
        p, q, r = _cross(b, c), _cross(c, a), _cross(a, b)
        over = 0.5 / (a[0] * p[0] + a[1] * p[1] + a[2] * p[2])
        a, b, c = _between(a, p, 0.5, over), _between(b, q, 0.5, over), _between(c, r, 0.5, over)
    for n in ct.static_iter(range(9)):
        ct.store(out, (n, i), (a + b + c)[n])


def _turns(many: int, steps: int) -> Row:
    x = (torch.eye(3)[..., None] + 0.15 * normal(3, 3, many)).reshape(9, many)

    def theirs(x):
        a, b, c = x.view(3, 3, many).unbind(0)
        for _ in range(steps):
            p, q, r = (torch.linalg.cross(*two, dim=0) for two in ((b, c), (c, a), (a, b)))
            over = 1 / (a * p).sum(0)
            a, b, c = 0.5 * (a + over * p), 0.5 * (b + over * q), 0.5 * (c + over * r)
        return torch.cat([a, b, c])

    def make(nb):
        cross, between, half = nb.njit(_cross), nb.njit(_between), np.float32(0.5)

        @nb.njit(parallel=True, fastmath=True)
        def run(x, out):
            for i in nb.prange(many):
                a, b = (x[0, i], x[1, i], x[2, i]), (x[3, i], x[4, i], x[5, i])
                c = x[6, i], x[7, i], x[8, i]
                for _ in range(steps):
                    p, q, r = cross(b, c), cross(c, a), cross(a, b)
                    over = half / (a[0] * p[0] + a[1] * p[1] + a[2] * p[2])
                    a, b = between(a, p, half, over), between(b, q, half, over)
                    c = between(c, r, half, over)
                (out[0, i], out[1, i], out[2, i]), (out[3, i], out[4, i], out[5, i]) = a, b
                out[6, i], out[7, i], out[8, i] = c

        return lambda: run(array(x), np.empty((9, many), np.float32))

    name = f"nearest rotations of {many} matrices of 3 x 3 by {steps} steps float32"
    grid, arguments, more = (-(-many // 128),), (x, torch.empty_like(x), steps, 128), by_numba(make)
    return beside_torch(name, turns, grid, arguments, theirs, x, bound=1e-4, more=more)


@ct.kernel
def toppled(sand, out, count, rows: _Int, tile: _Int):
    """Piles of four and more give one to each side, over the edge too, and how many did."""
    y = (ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32))[:, None]
    x = (ct.bid(1) * tile + ct.arange(tile, dtype=ct.int32))[None, :]
    own = ct.gather(sand, (y, x))
    got = (ct.gather(sand, (y - 1, x)) >= 4).astype(ct.int32)
    got += (ct.gather(sand, (y + 1, x)) >= 4).astype(ct.int32)
    got += (ct.gather(sand, (y, x - 1)) >= 4).astype(ct.int32)
    got += (ct.gather(sand, (y, x + 1)) >= 4).astype(ct.int32)
    ct.scatter(out, (y, x), ct.where(own >= 4, own - 4, own) + got)
    ct.atomic_add(count, 0, ct.sum(ct.where(own >= 4, 1, 0)))


def _toppled(high: int, wide: int) -> Row:
    sand, count = integers(6, high, wide), torch.zeros(1, dtype=_I32)

    def theirs(sand):
        full = (sand >= 4).to(_I32)
        held = functional.pad(full, (1, 1, 1, 1))
        got = held[:-2, 1:-1] + held[2:, 1:-1] + held[1:-1, :-2] + held[1:-1, 2:]
        return sand - 4 * full + got, full.sum(dtype=_I32)[None]

    def make(nb):
        @nb.njit(parallel=True)
        def run(sand, out):
            count = 0
            for y in nb.prange(1, high + 1):
                for x in range(1, wide + 1):
                    own = np.int32(sand[y, x] >= 4)
                    got = np.int32(sand[y - 1, x] >= 4) + np.int32(sand[y + 1, x] >= 4)
                    got += np.int32(sand[y, x - 1] >= 4) + np.int32(sand[y, x + 1] >= 4)
                    out[y - 1, x - 1] = sand[y, x] - 4 * own + got
                    count += own
            return count

        shape, wider = (high, wide), np.pad(array(sand), 1)  # a user keeps an edge of zeros
        return lambda: run(wider, np.empty(shape, np.int32))

    name = f"a round of toppling of {high} x {wide} piles of sand int32"
    arguments = sand, torch.empty_like(sand), count, 8, 128
    grid = -(-high // 8), -(-wide // 128)
    options = {"outputs": 2, "clear": count.zero_, "more": by_numba(make)}
    return beside_torch(name, toppled, grid, arguments, theirs, sand, **options)


@ct.kernel
def matched(points, roads, out, which, tile: _Int, part: _Int):
    """The nearest of many segments to each point, and how far: roads [end, segment]."""
    i = ct.bid(0)
    px, py = ct.load(points, (i, 0), (tile, 1)), ct.load(points, (i, 1), (tile, 1))
    best, at = ct.full((tile,), math.inf, ct.float32), ct.zeros((tile,), ct.int32)
    for t in range(ct.cdiv(roads.shape[1], part)):
        ax, ay = ct.load(roads, (0, t), (1, part)), ct.load(roads, (1, t), (1, part))
        dx, dy = ct.load(roads, (2, t), (1, part)) - ax, ct.load(roads, (3, t), (1, part)) - ay
        along = ((px - ax) * dx + (py - ay) * dy) / (dx * dx + dy * dy)
        along = ct.minimum(ct.maximum(along, 0.0), 1.0)
        x, y = px - ax - along * dx, py - ay - along * dy
        segment = t * part + ct.arange(part, dtype=ct.int32)
        far = ct.where(segment[None, :] < roads.shape[1], x * x + y * y, math.inf)
        least = ct.min(far, 1)
        at = ct.where(least < best, t * part + ct.argmin(far, 1), at)
        best = ct.minimum(best, least)
    ct.store(out, (i,), ct.sqrt(best))
    ct.store(which, (i,), at)


def _matched(many: int, segments: int) -> Row:
    points, roads = uniform(many, 2) * 100, uniform(4, segments, seed=3) * 100
    roads[2:] = roads[:2] + roads[2:] / 8 - 6

    def theirs(points, roads):
        a, d = roads[:2].T, (roads[2:] - roads[:2]).T
        to = points[:, None] - a
        along = ((to * d).sum(2) / (d * d).sum(1)).clamp(0, 1)
        best, at = (to - along[..., None] * d).square().sum(2).min(1)
        return best.sqrt(), at.to(_I32)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(points, start, end, far, out, which):
            way = end - start
            over = np.float32(1) / (way * way).sum(0)
            for i in nb.prange(many):
                own = far[nb.get_thread_id()]
                for k in range(segments):
                    x, y = points[i, 0] - start[0, k], points[i, 1] - start[1, k]
                    along = (x * way[0, k] + y * way[1, k]) * over[k]
                    along = min(max(along, np.float32(0)), np.float32(1))
                    x, y = x - along * way[0, k], y - along * way[1, k]
                    own[k] = x * x + y * y
                which[i] = own.argmin()
                out[i] = np.sqrt(own[which[i]])

        far, ends = np.empty((nb.get_num_threads(), segments), np.float32), array(roads)
        made = np.empty(many, np.float32), np.empty(many, np.int32)
        return lambda: run(array(points), ends[:2], ends[2:], far, *made)

    name = f"the nearest of {segments} segments to {many} points float32"
    arguments = points, roads, torch.empty(many), torch.empty(many, dtype=_I32), 64, 64
    options, given = {"outputs": 2, "bound": 1e-4, "more": by_numba(make)}, (points, roads)
    return beside_torch(name, matched, (-(-many // 64),), arguments, theirs, *given, **options)


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _kept_words(24, 20_001),
        lambda: _cropped(24, 96, 112, 81, 90),
        lambda: _kept_keys(700, 8, 96, 2000),
        lambda: _weighted_past(4, 100, 330),
        lambda: _mixed_groups(11, 520, 700, 5),
        lambda: _bands(501, 201, 80),
        lambda: _adapted(500, 700, 8),
        lambda: _told(1501, 12, 72),
        lambda: _bars(2001, 60),
        lambda: _filled(3001, 120),
        lambda: _cleaned(60_001),
        lambda: _patterned(480, 641),
        lambda: _slopes(500, 401, 60),
        lambda: _turns(8001, 6),
        lambda: _toppled(500, 701),
        lambda: _matched(3001, 300),
    ]
