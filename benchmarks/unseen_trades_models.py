"""Layers, losses, optimizers and quantised blocks that other rooms do not have."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import cuda.tile as ct
import numpy as np
import torch
from torch.nn import functional

from benchmarks.unseen_rows import ERROR, Row, array, beside_torch, by_numba, integers, kind, normal

_ZERO = ct.PaddingMode.ZERO
_F32, _F64, _BF16, _F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
_I32, _U8 = torch.int32, torch.uint8


@ct.kernel
def times_vectors(a, x, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Each matrix of a batch times its vector: [batch, row, column]."""
    batch, i = ct.bid(1), ct.bid(0)
    total = ct.zeros((1, rows, tile), ct.float32)
    for k in range(ct.num_tiles(a, 2, (1, rows, tile))):
        held = ct.load(a, (batch, i, k), (1, rows, tile), padding_mode=_ZERO).astype(ct.float32)
        vector = ct.load(x, (batch, k), (1, tile), padding_mode=_ZERO).astype(ct.float32)
        total += held * vector.reshape((1, 1, tile))
    ct.store(out, (batch, i), ct.sum(total, 2).astype(out.dtype))


@ct.kernel
def sloped_attention(
    q, k, v, slopes, out, scale, m: ct.Constant[int], n: ct.Constant[int], depth: ct.Constant[int]
):
    """Causal attention with a slope for each head in place of positions (ALiBi): [head, place, depth]."""
    i, head = ct.bid(0), ct.bid(1)
    slope = ct.gather(slopes, head)
    left = ct.load(q, (head, i, 0), (1, m, depth)).reshape((m, depth))
    row = (i * m + ct.arange(m, dtype=ct.int32)).reshape((m, 1))
    most, total = ct.full((m, 1), -math.inf, ct.float32), ct.zeros((m, 1), ct.float32)
    held = ct.zeros((m, depth), ct.float32)
    for j in range(ct.cdiv((i + 1) * m, n)):
        keys = ct.load(k, (head, j, 0), (1, n, depth)).reshape((n, depth))
        column = (j * n + ct.arange(n, dtype=ct.int32)).reshape((1, n))
        score = ct.mma(left, ct.transpose(keys), ct.zeros((m, n), ct.float32)) * scale
        score = score + slope * (column - row).astype(ct.float32)
        score = ct.where(column <= row, score, -math.inf)
        higher = ct.maximum(most, ct.max(score, 1, keepdims=True))
        raised, shrunk = ct.exp(score - higher), ct.exp(most - higher)
        total = total * shrunk + ct.sum(raised, 1, keepdims=True)
        values = ct.load(v, (head, j, 0), (1, n, depth)).reshape((n, depth))
        held = ct.mma(raised.astype(values.dtype), values, held * shrunk)
        most = higher
    ct.store(out, (head, i, 0), (held / total).astype(out.dtype).reshape((1, m, depth)))


@ct.kernel
def attended(
    q, k, v, bias, out, scale, m: ct.Constant[int], n: ct.Constant[int], depth: ct.Constant[int]
):
    """Attention to all of a short text at once, with a number for each pair: [head, place, depth]."""
    i, head = ct.bid(0), ct.bid(1)
    left = ct.load(q, (head, i, 0), (1, m, depth)).reshape((m, depth))
    keys = ct.load(k, (head, 0, 0), (1, n, depth), padding_mode=_ZERO).reshape((n, depth))
    values = ct.load(v, (head, 0, 0), (1, n, depth), padding_mode=_ZERO).reshape((n, depth))
    column = ct.arange(n, dtype=ct.int32).reshape((1, n))
    score = ct.mma(left, ct.transpose(keys), ct.zeros((m, n), ct.float32)) * scale
    score = score + ct.load(bias, (i, 0), (m, n), padding_mode=_ZERO)
    score = ct.where(column < k.shape[1], score, -1e30)
    raised = ct.exp(score - ct.max(score, 1, keepdims=True))
    weight = raised / ct.sum(raised, 1, keepdims=True)
    held = ct.mma(weight.astype(values.dtype), values, ct.zeros((m, depth), ct.float32))
    ct.store(out, (head, i, 0), held.astype(out.dtype).reshape((1, m, depth)))


@ct.kernel
def bilinear(x, w, y, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    """x W y of each pair of rows."""
    i = ct.bid(0)
    found = ct.zeros((m,), ct.float32)
    for j in range(ct.num_tiles(w, 1, (k, n))):
        total = ct.zeros((m, n), ct.float32)
        for step in range(ct.num_tiles(w, 0, (k, n))):
            total = ct.mma(ct.load(x, (i, step), (m, k)), ct.load(w, (step, j), (k, n)), total)
        found += ct.sum(total * ct.load(y, (i, j), (m, n)).astype(ct.float32), 1)
    ct.store(out, (i,), found)


@ct.kernel
def instances(x, weight, bias, out, channels: ct.Constant[int], tile: ct.Constant[int]):
    """Each plane of each image less its mean, by its deviation: [image x channel, place]."""
    plane = ct.bid(0)
    places = x.shape[1]
    total = ct.zeros((1, tile), ct.float32)
    for j in range(ct.num_tiles(x, 1, (1, tile))):
        total += ct.load(x, (plane, j), (1, tile), padding_mode=_ZERO).astype(ct.float32)
    mean = ct.sum(total) / places
    square = ct.zeros((1, tile), ct.float32)
    for j in range(ct.num_tiles(x, 1, (1, tile))):
        held = ct.load(x, (plane, j), (1, tile), padding_mode=_ZERO).astype(ct.float32) - mean
        there = j * tile + ct.arange(tile, dtype=ct.int32) < places
        held = ct.where(there.reshape((1, tile)), held, 0.0)
        square += held * held
    rate = ct.rsqrt(ct.sum(square) / places + 1e-5) * ct.gather(weight, plane % channels)
    shift = ct.gather(bias, plane % channels)
    for j in range(ct.num_tiles(x, 1, (1, tile))):
        held = ct.load(x, (plane, j), (1, tile), padding_mode=_ZERO).astype(ct.float32)
        ct.store(out, (plane, j), ((held - mean) * rate + shift).astype(out.dtype))


@ct.kernel
def pixel_losses(x, labels, out, classes: ct.Constant[int], tile: ct.Constant[int]):
    """Cross entropy of each pixel over its classes, 255 is nobody's: [image, class, place]."""
    image, place = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    inside = place < x.shape[2]
    most, total = ct.full((tile,), -1e30, ct.float32), ct.zeros((tile,), ct.float32)
    for c in range(classes):
        held = ct.gather(x, (image, c, place), mask=inside, padding_value=0.0).astype(ct.float32)
        higher = ct.maximum(most, held)
        total = total * ct.exp(most - higher) + ct.exp(held - higher)
        most = higher
    label = ct.gather(labels, (image, place), mask=inside, padding_value=255).astype(ct.int32)
    mine = ct.gather(x, (image, label, place), mask=inside & (label < classes), padding_value=0.0)
    loss = most + ct.log(total) - mine.astype(ct.float32)
    ct.scatter(out, (image, place), ct.where(label == 255, 0.0, loss), mask=inside)


@ct.kernel
def triplets(anchor, near, far, out, margin, rows: ct.Constant[int], width: ct.Constant[int]):
    """How much nearer one is than the other: rows of three tables."""
    i = ct.bid(0)
    middle = ct.load(anchor, (i, 0), (rows, width), padding_mode=_ZERO).astype(ct.float32)
    a = middle - ct.load(near, (i, 0), (rows, width), padding_mode=_ZERO).astype(ct.float32)
    b = middle - ct.load(far, (i, 0), (rows, width), padding_mode=_ZERO).astype(ct.float32)
    apart = ct.sqrt(ct.sum(a * a, 1)) - ct.sqrt(ct.sum(b * b, 1)) + margin
    ct.store(out, (i,), ct.maximum(apart, 0.0))


@ct.kernel
def huber(x, y, mask, out, delta, tile: ct.Constant[int]):
    """Sum and number of what is off, squares near and lines far, under a mask, by atomics."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    there = ct.gather(mask, i, padding_value=0) != 0
    off = ct.abs(ct.gather(x, i).astype(ct.float32) - ct.gather(y, i).astype(ct.float32))
    loss = ct.where(off < delta, 0.5 * off * off, delta * (off - 0.5 * delta))
    ct.atomic_add(out, 0, ct.sum(ct.where(there, loss, 0.0)))
    ct.atomic_add(out, 1, ct.sum(there.astype(ct.float32)))


@ct.kernel
def alike(x, y, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """How alike windows of 8 x 8 of two images are (SSIM)."""
    i, j = ct.bid(1), ct.bid(0)
    a = ct.load(x, (i, j), (8 * rows, 8 * tile)).reshape((rows, 8, tile, 8))
    b = ct.load(y, (i, j), (8 * rows, 8 * tile)).reshape((rows, 8, tile, 8))

    def mean(held):
        return ct.sum(ct.sum(held, 3), 1) * (1.0 / 64.0)

    p, q = mean(a), mean(b)
    aa, bb, ab = mean(a * a) - p * p, mean(b * b) - q * q, mean(a * b) - p * q
    found = (2.0 * p * q + 1e-4) * (2.0 * ab + 9e-4)
    ct.store(out, (i, j), found / ((p * p + q * q + 1e-4) * (aa + bb + 9e-4)))


@ct.kernel
def rms_step(weights, squares, moments, gradient, rate, decay, push, tile: ct.Constant[int]):
    """RMSprop with momentum, in place."""
    i = ct.bid(0)
    slope = ct.load(gradient, (i,), (tile,)).astype(ct.float32)
    square = decay * ct.load(squares, (i,), (tile,)) + (1.0 - decay) * slope * slope
    moment = push * ct.load(moments, (i,), (tile,)) + slope / (ct.sqrt(square) + 1e-8)
    held = ct.load(weights, (i,), (tile,)).astype(ct.float32) - rate * moment
    ct.store(weights, (i,), held.astype(weights.dtype))
    ct.store(squares, (i,), square)
    ct.store(moments, (i,), moment)


@ct.kernel
def sparse_step(names, gradient, table, sums, rate, width: ct.Constant[int]):
    """Adagrad of the rows of a table that were used, each once: one sum of squares for a row."""
    i = ct.bid(0)
    name, lane = ct.gather(names, i), ct.arange(width, dtype=ct.int32)
    slope = ct.load(gradient, (i, 0), (1, width)).reshape((width,))
    total = ct.gather(sums, name) + ct.sum(slope * slope) / width
    ct.scatter(sums, name, total)
    held = ct.gather(table, (name, lane))
    ct.scatter(table, (name, lane), held - rate * slope / (ct.sqrt(total) + 1e-8))


@ct.kernel
def nesterov(weights, moments, gradient, norm, average, rate, decay, tile: ct.Constant[int]):
    """Nesterov's step with decay, clipped by a norm, and a running average of weights beside it."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    share = min(1.0, 1.0 / (ct.sqrt(ct.gather(norm, 0)) + 1e-6))
    held = ct.gather(weights, i)
    slope = ct.gather(gradient, i).astype(ct.float32) * share + decay * held
    moment = 0.9 * ct.gather(moments, i) + slope
    held = held - rate * (slope + 0.9 * moment)
    ct.scatter(weights, i, held)
    ct.scatter(moments, i, moment)
    ct.scatter(average, i, 0.999 * ct.gather(average, i) + 0.001 * held)


@ct.kernel
def from_blocks(x, out, tile: ct.Constant[int]):
    """Blocks of 34 bytes, a scale of f16 and 32 numbers of i8, to their products."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    start = i // 32 * 34
    low, high = ct.gather(x, start).astype(ct.uint16), ct.gather(x, start + 1).astype(ct.uint16)
    scale = ct.bitcast(low | (high << 8), ct.float16).astype(ct.float32)
    held = ct.bitcast(ct.gather(x, start + 2 + i % 32), ct.int8).astype(ct.float32)
    ct.scatter(out, i, (scale * held).astype(out.dtype))


@ct.kernel
def distances_by_buckets(table, out, reach, m: ct.Constant[int], n: ct.Constant[int]):
    """A number for each pair of places by the bucket of their distance, half of 32 of logarithms: T5's."""
    head, i, j = ct.bid(2), ct.bid(1), ct.bid(0)
    row = (i * m + ct.arange(m, dtype=ct.int32)).reshape((m, 1))
    column = (j * n + ct.arange(n, dtype=ct.int32)).reshape((1, n))
    apart = column - row
    size = ct.abs(apart)
    far = 8.0 + ct.log(ct.maximum(size, 1).astype(ct.float32) / 8.0) * reach
    bucket = ct.where(size < 8, size, ct.minimum(far.astype(ct.int32), 15))
    bucket = bucket + ct.where(apart > 0, 16, 0)
    ct.store(out, (head, i, j), ct.gather(table, (bucket, head)).reshape((1, m, n)))


@ct.kernel
def interactions(x, out, fields: ct.Constant[int], width: ct.Constant[int], n: ct.Constant[int]):
    """Products of all pairs of the fields of a row, the lower ones in turn: [row, field, width]."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0, 0), (1, n, width), padding_mode=_ZERO).reshape((n, width))
    found = ct.mma(held, ct.transpose(held), ct.zeros((n, n), ct.float32))
    row = ct.arange(n, dtype=ct.int32).reshape((n, 1))
    column = ct.arange(n, dtype=ct.int32).reshape((1, n))
    wanted = (column < row) & (row < fields)
    ct.scatter(out, (i, row * (row - 1) // 2 + column), found.astype(out.dtype), mask=wanted)


@ct.kernel
def second_order(x, out, rows: ct.Constant[int], fields: ct.Constant[int], width: ct.Constant[int]):
    """Half of the square of sums less the sum of squares: factorization machines, [row, field, width]."""
    i = ct.bid(0)
    first, second = ct.zeros((rows, 1, width), ct.float32), ct.zeros((rows, 1, width), ct.float32)
    for f in range(fields):
        held = ct.load(x, (i, f, 0), (rows, 1, width)).astype(ct.float32)
        first, second = first + held, second + held * held
    ct.store(out, (i,), 0.5 * ct.sum((first * first - second).reshape((rows, width)), 1))


@ct.kernel
def ranked(scores, grades, out, size: ct.Constant[int]):
    """What pairs of each question lose that stand in the wrong order: [question, answer]."""
    i = ct.bid(0)
    score = ct.load(scores, (i, 0), (1, size))
    grade = ct.load(grades, (i, 0), (1, size))
    apart = score.reshape((size, 1)) - score
    better = grade.reshape((size, 1)) > grade
    loss = ct.maximum(-apart, 0.0) + ct.log(1.0 + ct.exp(-ct.abs(apart)))
    many = ct.maximum(ct.sum(better.astype(ct.float32)), 1.0)
    ct.scatter(out, i, ct.sum(ct.where(better, loss, 0.0)) / many)


@ct.kernel
def by_chance(x, out, seed, tile: ct.Constant[int]):
    """f32 to bf16, up or down by chance: bits of a hash added to those that go."""
    place = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    mixed = (place + seed).astype(ct.uint32) * 0x9E3779B1
    mixed = (mixed ^ (mixed >> 15)) * 0x85EBCA77
    mixed = (mixed ^ (mixed >> 13)) & 0xFFFF
    bits = ct.bitcast(ct.gather(x, place), ct.uint32) + mixed
    ct.scatter(out, place, ct.bitcast((bits >> 16).astype(ct.uint16), ct.bfloat16))


def _times_vectors(batch: int, size: int, dtype: torch.dtype) -> Row:
    a, x = normal(batch, size, size).to(dtype), normal(batch, size).to(dtype)
    return beside_torch(
        f"{batch} matrices of {size} x {size} times vectors, {kind(dtype)}, tiles 16x128",
        times_vectors,
        (-(-size // 16), batch),
        (a, x, torch.empty_like(x), 16, 128),
        lambda a, x: torch.bmm(a, x[..., None])[..., 0],
        a,
        x,
        bound=ERROR[dtype],
    )


def _sloped(heads: int, length: int, depth: int, dtype: torch.dtype) -> Row:
    q, k, v = (
        normal(heads, length, depth + i)[..., :depth].contiguous().to(dtype) for i in range(3)
    )
    slopes, place = 2.0 ** (-8 * torch.arange(1, heads + 1) / heads), torch.arange(length)
    apart = (place - place[:, None]).float()
    mask = torch.where(apart <= 0, slopes[:, None, None] * apart, -math.inf).to(dtype)

    def theirs(q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype))

    return beside_torch(
        f"causal attention by slopes, {heads} heads, {length} x {depth} {kind(dtype)}, tiles of 64",
        sloped_attention,
        (length // 64, heads),
        (q, k, v, slopes, torch.empty_like(q), depth**-0.5, 64, 64, depth),
        theirs,
        q,
        k,
        v,
        bound=max(ERROR[dtype], 2e-5) * 3,
    )


def _attended(heads: int, length: int, words: int, depth: int, dtype: torch.dtype) -> Row:
    q = normal(heads, length, depth).to(dtype)
    k, v = (normal(heads, words, depth + i)[..., :depth].contiguous().to(dtype) for i in range(2))
    bias = normal(length, words)

    def theirs(q, k, v, bias):
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))

    return beside_torch(
        f"attention to {words} words, {heads} heads, {length} x {depth} {kind(dtype)}",
        attended,
        (length // 64, heads),
        (q, k, v, bias, torch.empty_like(q), depth**-0.5, 64, 128, depth),
        theirs,
        q,
        k,
        v,
        bias,
        bound=max(ERROR[dtype], 2e-5) * 2,
    )


def _bilinear(rows_: int, width: int, dtype: torch.dtype) -> Row:
    x, y, w = (
        normal(rows_, width).to(dtype),
        normal(rows_, width + 1)[:, 1:].contiguous().to(dtype),
        normal(width, width).to(dtype),
    )
    return beside_torch(
        f"x W y of {rows_} pairs of rows of {width} {kind(dtype)}, tiles 64x64x32",
        bilinear,
        (rows_ // 64,),
        (x, w, y, torch.empty(rows_), 64, 64, 32),
        lambda x, w, y: ((x @ w) * y).sum(1, dtype=_F64 if x.dtype == _F64 else _F32),
        x,
        w,
        y,
        bound=max(ERROR[dtype], 2e-5),
    )


def _instances(images: int, channels: int, places: int, dtype: torch.dtype) -> Row:
    x = normal(images * channels, places).to(dtype)
    weight, bias = normal(channels), normal(channels + 1)[1:].contiguous()

    def theirs(x, weight, bias):
        held = x.view(images, channels, places)
        wide = weight.to(x.dtype), bias.to(x.dtype)
        return functional.instance_norm(held, weight=wide[0], bias=wide[1]).view_as(x)

    return beside_torch(
        f"instance norm, {images} x {channels} planes of {places} {kind(dtype)}, tiles of 1024",
        instances,
        (images * channels,),
        (x, weight, bias, torch.empty_like(x), channels, 1024),
        theirs,
        x,
        weight,
        bias,
        bound=ERROR[dtype] * 2,
    )


def _pixel_losses(images: int, classes: int, places: int, dtype: torch.dtype) -> Row:
    x, labels = normal(images, classes, places).to(dtype), integers(classes + 1, images, places)
    labels = torch.where(labels == classes, 255, labels).to(_U8)
    wide = labels.long()

    def theirs(x):
        held = x if x.dtype == _F64 else x.float()
        return functional.cross_entropy(held, wide, ignore_index=255, reduction="none")

    return beside_torch(
        f"losses of {images} x {places} pixels of {classes} classes {kind(dtype)}",
        pixel_losses,
        (-(-places // 256), images),
        (x, labels, torch.empty(images, places), classes, 256),
        theirs,
        x,
        bound=1e-5,
    )


def _triplets(rows_: int, width: int, dtype: torch.dtype) -> Row:
    tables = [normal(rows_, width + i)[:, :width].contiguous().to(dtype) for i in range(3)]

    def theirs(anchor, near, far):
        wide = [each if each.dtype == _F64 else each.float() for each in (anchor, near, far)]
        a, b = (wide[0] - wide[1]).square().sum(1), (wide[0] - wide[2]).square().sum(1)
        return (a.sqrt() - b.sqrt() + 0.2).clamp(min=0)

    return beside_torch(
        f"triplets of {rows_} rows of {width} {kind(dtype)}, tiles 8x{1 << (width - 1).bit_length()}",
        triplets,
        (-(-rows_ // 8),),
        (*tables, torch.empty(rows_), 0.2, 8, 1 << (width - 1).bit_length()),
        theirs,
        *tables,
        bound=1e-5,
    )


def _huber(many: int, dtype: torch.dtype) -> Row:
    x, y = normal(many).to(dtype), normal(many + 1)[1:].contiguous().to(dtype)
    mask, out = (integers(4, many) > 0).to(_U8), torch.zeros(2)

    def theirs(x, y):
        wide = [each if each.dtype == _F64 else each.float() for each in (x, y)]
        loss = functional.huber_loss(*wide, reduction="none") * mask
        return torch.stack((loss.sum(), mask.sum().to(loss.dtype)))

    return beside_torch(
        f"Huber's loss of {many >> 10}K {kind(dtype)} under a mask, by atomics",
        huber,
        (-(-many // 1024),),
        (x, y, mask, out, 1.0, 1024),
        theirs,
        x,
        y,
        bound=2e-5,
        clear=out.zero_,
    )


def _alike(height: int, width: int) -> Row:
    x = torch.rand(height, width, generator=torch.Generator().manual_seed(1))
    y = (x + 0.1 * normal(height, width)).clamp(0, 1)

    def theirs(x, y):
        a, b = (each.view(height // 8, 8, width // 8, 8) for each in (x, y))

        def mean(held):
            return held.mean((1, 3))

        p, q = mean(a), mean(b)
        aa, bb, ab = mean(a * a) - p * p, mean(b * b) - q * q, mean(a * b) - p * q
        found = (2 * p * q + 1e-4) * (2 * ab + 9e-4)
        return found / ((p * p + q * q + 1e-4) * (aa + bb + 9e-4))

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, y, out):
            for i in nb.prange(out.shape[0]):
                for j in range(out.shape[1]):
                    p = q = aa = bb = ab = np.float32(0)
                    for r in range(8):
                        for s in range(8):
                            a, b = x[8 * i + r, 8 * j + s], y[8 * i + r, 8 * j + s]
                            p, q = p + a, q + b
                            aa, bb, ab = aa + a * a, bb + b * b, ab + a * b
                    n, one, two = np.float32(1 / 64), np.float32(1e-4), np.float32(9e-4)
                    p, q = p * n, q * n
                    aa, bb, ab = aa * n - p * p, bb * n - q * q, ab * n - p * q
                    found = (np.float32(2) * p * q + one) * (np.float32(2) * ab + two)
                    out[i, j] = found / ((p * p + q * q + one) * (aa + bb + two))

        made = np.empty((height // 8, width // 8), np.float32)
        return lambda: run(array(x), array(y), made)

    return beside_torch(
        f"likeness of windows of 8 x 8, {height} x {width} f32, 2x8 windows at a time",
        alike,
        (width // 64, height // 16),
        (x, y, torch.empty(height // 8, width // 8), 2, 8),
        theirs,
        x,
        y,
        bound=1e-4,
        more=by_numba(make),
    )


def _rms_step(many: int, dtype: torch.dtype) -> Row:
    w, g = normal(many).to(dtype), normal(many + 1)[1:].contiguous().to(dtype)
    held = w.clone(), normal(many + 2)[2:].square(), normal(many + 3)[3:].contiguous()
    first = [each.clone() for each in held]

    def theirs(w, s, m, g):
        wide = s.dtype
        slope = g.to(wide)
        square = 0.99 * s + (1.0 - 0.99) * slope * slope
        moment = 0.9 * m + slope / (square.sqrt() + 1e-8)
        return (w.to(wide) - 1e-4 * moment).to(w.dtype), square, moment

    def clear():
        for each, before in zip(held, first):
            each.copy_(before)

    row = beside_torch(
        f"a step of RMSprop with momentum, {many >> 10}K {kind(dtype)}",
        rms_step,
        (many // 1024,),
        (*held, 1e-4, 0.99, 0.9, 1024),
        theirs,
        *first,
        g,
        outputs=3,
        bound=max(ERROR[dtype], 1e-6),
        clear=clear,
    )
    return replace(row, arguments=(*held, g, 1e-4, 0.99, 0.9, 1024))


def _sparse_step(names_: int, used: int, width: int) -> Row:
    names = torch.randperm(names_, generator=torch.Generator().manual_seed(1))[:used].int()
    gradient, table = normal(used, width), normal(names_, width)
    sums, wide = normal(names_).abs(), names.long()
    held = table.clone(), sums.clone()

    def theirs(gradient, table, sums):
        total = sums[wide] + gradient.square().sum(1) / width
        moved = table[wide] - 0.01 * gradient / (total.sqrt() + 1e-8)[:, None]
        return table.index_put((wide,), moved), sums.index_put((wide,), total)

    def in_place():
        total = made[1][wide] + gradient.square().sum(1) / width
        made[1][wide] = total
        made[0][wide] -= 0.01 * gradient / (total.sqrt() + 1e-8)[:, None]

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(names, gradient, table, sums):
            for i in nb.prange(names.size):
                name, total = names[i], np.float32(0)
                for j in range(gradient.shape[1]):
                    total += gradient[i, j] * gradient[i, j]
                total = sums[name] + total * np.float32(1 / width)
                sums[name] = total
                rate = np.float32(0.01) / (np.sqrt(total) + np.float32(1e-8))
                for j in range(gradient.shape[1]):
                    table[name, j] -= rate * gradient[i, j]

        return lambda: run(array(names), array(gradient), array(made[0]), array(made[1]))

    def clear():
        held[0].copy_(table)
        held[1].copy_(sums)

    made = table.clone(), sums.clone()
    row = beside_torch(
        f"Adagrad of {used} of {names_} rows of {width} f32",
        sparse_step,
        (used,),
        (names, gradient, *held, 0.01, width),
        theirs,
        gradient,
        table,
        sums,
        outputs=2,
        bound=1e-6,
        clear=clear,
    )
    return replace(row, peers={"torch, in place": in_place, **by_numba(make)})


def _nesterov(many: int, dtype: torch.dtype) -> Row:
    w, m, a = normal(many), normal(many + 1)[1:].contiguous(), normal(many + 2)[2:].contiguous()
    g = normal(many + 3)[3:].to(dtype)
    norm = g.float().square().sum().reshape(1)
    held = w.clone(), m.clone(), a.clone()

    def theirs(w, m, a, g):
        slope = g.to(w.dtype) * (1.0 / (norm.sqrt() + 1e-6)).clamp(max=1.0) + 0.01 * w
        moment = 0.9 * m + slope
        moved = w - 0.01 * (slope + 0.9 * moment)
        return moved, moment, 0.999 * a + 0.001 * moved

    def clear():
        for each, before in zip(held, (w, m, a)):
            each.copy_(before)

    row = beside_torch(
        f"Nesterov's step, clipped, and averages, {many >> 10}K f32, slopes {kind(dtype)}",
        nesterov,
        (-(-many // 1024),),
        (*held,),
        theirs,
        w,
        m,
        a,
        g,
        outputs=3,
        bound=1e-6,
        clear=clear,
    )
    return replace(row, arguments=(held[0], held[1], g, norm, held[2], 0.01, 0.01, 1024))


def _from_blocks(many: int, dtype: torch.dtype) -> Row:
    scales = torch.rand(many // 32, 1, generator=torch.Generator().manual_seed(1)).half()
    numbers = (integers(256, many // 32, 32) - 128).to(torch.int8)
    x = torch.cat((scales.view(_U8).view(-1, 2), numbers.view(_U8)), 1).view(-1)

    def theirs(x):
        held = x.view(-1, 34)
        scale = held[:, :2].contiguous().view(_F16).float()
        return (scale * held[:, 2:].contiguous().view(torch.int8).float()).to(dtype).view(-1)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, scales, out):
            for i in nb.prange(scales.size):
                scale = scales[i]
                for j in range(32):
                    out[32 * i + j] = scale * np.float32(x[34 * i + 2 + j])

        made, wide = np.empty(many, np.float32), array(scales.float().view(-1))
        return lambda: run(array(x.view(torch.int8)), wide, made)

    return beside_torch(
        f"{many >> 10}K numbers of blocks of 34 bytes to {kind(dtype)}",
        from_blocks,
        (many // 256,),
        (x, torch.empty(many, dtype=dtype), 256),
        theirs,
        x,
        more=by_numba(make) if dtype == _F32 else None,
    )


def _buckets(heads: int, length: int) -> Row:
    table, place = normal(32, heads), torch.arange(length)
    reach = 8.0 / math.log(128 / 8)

    def theirs(table):
        apart = place - place[:, None]
        size = apart.abs()
        far = 8.0 + torch.log(size.clamp(min=1).float() / 8.0) * reach
        bucket = torch.where(size < 8, size, far.long().clamp(max=15)) + torch.where(
            apart > 0, 16, 0
        )
        return table[bucket].permute(2, 0, 1).contiguous()

    return beside_torch(
        f"numbers of {heads} heads by buckets of distances, {length} x {length}, tiles 16x64",
        distances_by_buckets,
        (length // 64, length // 16, heads),
        (table, torch.empty(heads, length, length), reach, 16, 64),
        theirs,
        table,
    )


def _interactions(rows_: int, fields: int, width: int, dtype: torch.dtype) -> Row:
    x = normal(rows_, fields, width).to(dtype)
    i, j = torch.tril_indices(fields, fields, -1).unbind(0)
    return beside_torch(
        f"products of pairs of {fields} fields of {width} {kind(dtype)}, {rows_} rows",
        interactions,
        (rows_,),
        (x, torch.empty(rows_, len(i), dtype=dtype), fields, width, 32),
        lambda x: torch.bmm(x, x.mT)[:, i, j],
        x,
        bound=ERROR[dtype],
    )


def _second_order(rows_: int, fields: int, width: int, dtype: torch.dtype) -> Row:
    x = normal(rows_, fields, width).to(dtype)

    def theirs(x):
        wide = x if x.dtype == _F64 else x.float()
        return 0.5 * (wide.sum(1).square() - wide.square().sum(1)).sum(1)

    return beside_torch(
        f"second order of {fields} fields of {width} {kind(dtype)}, {rows_} rows, tiles 16x1x{width}",
        second_order,
        (rows_ // 16,),
        (x, torch.empty(rows_), 16, fields, width),
        theirs,
        x,
        bound=1e-5,
    )


def _ranked(questions: int, answers: int) -> Row:
    scores, grades = normal(questions, answers), integers(5, questions, answers)

    def theirs(scores):
        apart = scores[:, :, None] - scores[:, None]
        better = grades[:, :, None] > grades[:, None]
        loss = functional.softplus(-apart)
        many = better.sum((1, 2)).clamp(min=1)
        return torch.where(better, loss, 0.0).sum((1, 2)) / many

    return beside_torch(
        f"pairs of {answers} answers in the wrong order, {questions} questions",
        ranked,
        (questions,),
        (scores, grades, torch.empty(questions), answers),
        theirs,
        scores,
        bound=1e-5,
    )


def _by_chance(many: int) -> Row:
    x, out = normal(many), torch.empty(many, dtype=_BF16)

    def theirs(x):
        place = (torch.arange(many) + 77) & 0xFFFFFFFF
        mixed = (place * 0x9E3779B1) & 0xFFFFFFFF
        mixed = ((mixed ^ (mixed >> 15)) * 0x85EBCA77) & 0xFFFFFFFF
        mixed = (mixed ^ (mixed >> 13)) & 0xFFFF
        bits = (x.view(_I32).long() & 0xFFFFFFFF) + mixed
        return ((bits >> 16) & 0xFFFF).to(torch.uint16).view(_BF16)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, out):
            for i in nb.prange(x.size):
                mixed = np.uint32(np.uint32(i + 77) * np.uint32(0x9E3779B1))
                mixed = np.uint32((mixed ^ (mixed >> np.uint32(15))) * np.uint32(0x85EBCA77))
                mixed = (mixed ^ (mixed >> np.uint32(13))) & np.uint32(0xFFFF)
                out[i] = np.uint32(x[i] + mixed) >> np.uint32(16)

        made, bits = np.empty(many, np.uint16), array(x.view(_I32)).view(np.uint32)
        return lambda: run(bits, made)

    return beside_torch(
        f"{many >> 10}K f32 to bf16, up or down by chance",
        by_chance,
        (-(-many // 1024),),
        (x, out, 77, 1024),
        theirs,
        x,
        more=by_numba(make),
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _times_vectors(32, 500, _BF16),
        lambda: _times_vectors(16, 500, _F32),
        lambda: _sloped(8, 512, 64, _F32),
        lambda: _sloped(8, 512, 64, _F16),
        lambda: _attended(8, 512, 77, 64, _F32),
        lambda: _attended(8, 512, 77, 64, _BF16),
        lambda: _bilinear(1024, 256, _F32),
        lambda: _bilinear(1024, 256, _BF16),
        lambda: _instances(8, 64, 3136, _F32),
        lambda: _instances(8, 64, 3136, _F16),
        lambda: _pixel_losses(4, 21, 16384, _F32),
        lambda: _pixel_losses(4, 21, 16384, _F16),
        lambda: _triplets(4096, 300, _BF16),
        lambda: _huber(1 << 20, _F32),
        lambda: _alike(1024, 1024),
        lambda: _rms_step(1 << 20, _F32),
        lambda: _rms_step(1 << 20, _BF16),
        lambda: _sparse_step(16384, 8192, 128),
        lambda: _nesterov(1 << 20, _BF16),
        lambda: _from_blocks(1 << 20, _F32),
        lambda: _from_blocks(1 << 20, _BF16),
        lambda: _buckets(8, 512),
        lambda: _interactions(2048, 27, 64, _F32),
        lambda: _interactions(2048, 27, 64, _F16),
        lambda: _second_order(4096, 26, 32, _F32),
        lambda: _ranked(256, 64),
        lambda: _by_chance(1 << 20),
    ]
