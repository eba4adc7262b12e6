"""Norms, losses, convolutions and gradients, as libraries of kernels for models have them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

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
    next_power,
    normal,
    several,
)

_ZERO, _LEAST = ct.PaddingMode.ZERO, ct.PaddingMode.NEG_INF
_F32, _F64, _BF16, _F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
_I64 = torch.int64


@ct.kernel
def layer_norm(x, gain, shift, out, tile: ct.Constant[int]):
    """LayerNorm of long rows: blocks stride over them; sums of numbers and of squares in one pass."""
    rows_, width = x.shape[0], x.shape[1]
    for row in range(ct.bid(0), rows_, ct.num_blocks(0)):
        first, second = ct.zeros((1, tile), ct.float32), ct.zeros((1, tile), ct.float32)
        for j in range(ct.cdiv(width, tile)):
            held = ct.load(x, (row, j), (1, tile), padding_mode=_ZERO).astype(ct.float32)
            first, second = first + held, second + held * held
        mean = ct.sum(first) / width
        rate = ct.rsqrt(ct.sum(second) / width - mean * mean + 1e-5)
        for j in range(ct.cdiv(width, tile)):
            held = ct.load(x, (row, j), (1, tile), padding_mode=_ZERO).astype(ct.float32)
            g = ct.load(gain, (j,), (tile,), padding_mode=_ZERO).reshape((1, tile))
            b = ct.load(shift, (j,), (tile,), padding_mode=_ZERO).reshape((1, tile))
            ct.store(out, (row, j), ((held - mean) * rate * g + b).astype(out.dtype))


@ct.kernel
def weight_norm(v, gain, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Weights of a direction and a length for each output."""
    i = ct.bid(0)
    held = ct.load(v, (i, 0), (rows, tile), padding_mode=_ZERO).astype(ct.float32)
    length = ct.sqrt(ct.sum(held * held, 1, keepdims=True))
    g = ct.load(gain, (i,), (rows,)).astype(ct.float32).reshape((rows, 1))
    ct.store(out, (i, 0), (held * (g / length)).astype(out.dtype))


@ct.kernel
def batch_statistics(x, mean, variance, m: ct.Constant[int], n: ct.Constant[int]):
    """Means and variances of channels for batch norm: [place, channel], a block for some channels."""
    j = ct.bid(0)
    first, second = ct.zeros((m, n), ct.float32), ct.zeros((m, n), ct.float32)
    for i in range(ct.num_tiles(x, 0, (m, n))):
        held = ct.load(x, (i, j), (m, n), padding_mode=_ZERO).astype(ct.float32)
        first += held
        second += held * held
    middle = ct.sum(first, 0) / x.shape[0]
    ct.store(mean, (j,), middle)
    ct.store(variance, (j,), ct.sum(second, 0) / x.shape[0] - middle * middle)


@ct.kernel
def unit_channels(x, out, channels: ct.Constant[int], tile: ct.Constant[int]):
    """Each place's channels to length one: [image, channel, place]."""
    image, j = ct.bid(1), ct.bid(0)
    held = ct.load(x, (image, 0, j), (1, channels, tile), padding_mode=_ZERO).astype(ct.float32)
    length = ct.sqrt(ct.sum(held * held, 1, keepdims=True))
    ct.store(out, (image, 0, j), (held / ct.maximum(length, 1e-12)).astype(out.dtype))


@ct.kernel
def focal_classes(x, labels, out, classes, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Focal losses of anchors, a sigmoid for each class; -1 is background."""
    i = ct.bid(0)
    column = ct.arange(tile, dtype=ct.int32).reshape((1, tile))
    label = ct.load(labels, (i,), (rows,), padding_mode=_ZERO).reshape((rows, 1))
    held = ct.load(x, (i, 0), (rows, tile), padding_mode=_ZERO)
    mine = column == label
    small = ct.exp(-ct.abs(held))
    right = ct.where(held > 0, 1.0, small) / (1.0 + small)
    cross = ct.maximum(held, 0.0) - ct.where(mine, held, 0.0) + ct.log(1.0 + small)
    missed = ct.where(mine, 1.0 - right, right)
    loss = ct.where(mine, 0.25, 0.75) * missed * missed * cross
    ct.store(out, (i,), ct.sum(ct.where(column < classes, loss, 0.0), 1))


@ct.kernel
def divergence_of_both(teacher, student, out, rate, tile: ct.Constant[int]):
    """Jensen's and Shannon's divergence of tempered rows of logits."""
    i = ct.bid(0)
    a = ct.load(teacher, (i, 0), (1, tile), padding_mode=_LEAST).astype(ct.float32) * rate
    b = ct.load(student, (i, 0), (1, tile), padding_mode=_LEAST).astype(ct.float32) * rate
    a, b = a - ct.max(a), b - ct.max(b)
    p, q = ct.exp(a), ct.exp(b)
    of_p, of_q = ct.sum(p), ct.sum(q)
    p, q = p / of_p, q / of_q
    middle = ct.log(0.5 * (p + q))
    there = ct.arange(tile, dtype=ct.int32).reshape((1, tile)) < teacher.shape[1]
    lost = p * (a - ct.log(of_p) - middle) + q * (b - ct.log(of_q) - middle)
    ct.scatter(out, i, 0.5 * ct.sum(ct.where(there, lost, 0.0)))


@ct.kernel
def pairs_by_sigmoid(
    a, b, out, heat, shift, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]
):
    """Losses of images and texts, each pair for itself (SigLIP): only those of the diagonal belong together."""
    i = ct.bid(0)
    row = (i * m + ct.arange(m, dtype=ct.int32)).reshape((m, 1))
    found = ct.zeros((m, 1), ct.float32)
    for j in range(ct.num_tiles(b, 0, (n, k))):
        score = ct.zeros((m, n), ct.float32)
        for step in range(ct.num_tiles(a, 1, (m, k))):
            left = ct.load(a, (i, step), (m, k), padding_mode=_ZERO)
            right = ct.load(b, (j, step), (n, k), padding_mode=_ZERO)
            score = ct.mma(left, right.transpose(), score)
        column = (j * n + ct.arange(n, dtype=ct.int32)).reshape((1, n))
        score = score * heat + shift
        score = ct.where(row == column, -score, score)
        loss = ct.maximum(score, 0.0) + ct.log(1.0 + ct.exp(-ct.abs(score)))
        found += ct.sum(ct.where(column < b.shape[0], loss, 0.0), 1, keepdims=True)
    ct.store(out, (i,), found.reshape((m,)))


@ct.kernel
def convolved(
    x,
    w,
    bias,
    out,
    width: ct.Constant[int],
    channels: ct.Constant[int],
    m: ct.Constant[int],
    n: ct.Constant[int],
    k: ct.Constant[int],
):
    """Convolution 3 x 3, two apart, edges padded by one, and relu: windows gathered as rows of a product, [y, x, channel]."""
    i, j = ct.bid(0), ct.bid(1)
    place = (i * m + ct.arange(m, dtype=ct.int32)).reshape((m, 1))
    top, left = place // width * 2 - 1, place % width * 2 - 1
    total = ct.zeros((m, n), ct.float32)
    for step in range(ct.cdiv(9 * channels, k)):
        inner = (step * k + ct.arange(k, dtype=ct.int32)).reshape((1, k))
        tap = inner // channels
        y, at = top + tap // 3, left + tap % 3
        inside = (y >= 0) & (y < x.shape[0]) & (at >= 0) & (at < x.shape[1])
        held = ct.gather(x, (y, at, inner % channels), mask=inside, padding_value=0)
        total = ct.mma(held, ct.load(w, (step, j), (k, n), padding_mode=_ZERO), total)
    total += ct.load(bias, (j,), (n,)).reshape((1, n))
    ct.store(out, (i, j), ct.maximum(total, 0.0).astype(out.dtype))


@ct.kernel
def depthwise(x, w, out, m: ct.Constant[int], n: ct.Constant[int]):
    """Windows of 5 x 5 of each channel, edges padded by two: [y, x, channel], weights [tap, channel]."""
    j, i, y = ct.bid(0), ct.bid(1), ct.bid(2)
    column = (i * m + ct.arange(m, dtype=ct.int32)).reshape((m, 1))
    channel = (j * n + ct.arange(n, dtype=ct.int32)).reshape((1, n))
    total = ct.zeros((m, n), ct.float32)
    for dy in range(5):
        for dx in ct.static_iter(range(5)):
            row, at = y + dy - 2, column + (dx - 2)
            inside = (row >= 0) & (row < x.shape[0]) & (at >= 0) & (at < x.shape[1])
            held = ct.gather(x, (row, at, channel), mask=inside, padding_value=0)
            weight = ct.load(w, (dy * 5 + dx, j), (1, n), padding_mode=_ZERO)
            total += held.astype(ct.float32) * weight.astype(ct.float32)
    there = (column < out.shape[1]) & (channel < out.shape[2])
    ct.scatter(out, (y, column, channel), total.astype(out.dtype), mask=there)


@ct.kernel
def dilated(
    x, w, bias, out, apart: ct.Constant[int], channels: ct.Constant[int], tile: ct.Constant[int]
):
    """A causal convolution of three taps that are apart, relu, and x: [channel, time]."""
    c = ct.arange(channels, dtype=ct.int32).reshape((channels, 1))
    t = (ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    total = ct.zeros((channels, tile), ct.float32)
    for k in ct.static_iter(range(3)):
        tap = ct.load(w, (k, 0, 0), (1, channels, channels)).reshape((channels, channels))
        total = ct.mma(tap, ct.gather(x, (c, t - (2 - k) * apart)), total)
    total += ct.load(bias, (0,), (channels,)).reshape((channels, 1))
    ct.scatter(out, (c, t), ct.gather(x, (c, t)) + ct.maximum(total, 0.0))


@ct.kernel
def blocked_channels(x, out, tile: ct.Constant[int]):
    """[image, channel, place] to [image, channel / 8, place, 8], zeros for channels that lack."""
    n, c, j = ct.bid(2), ct.bid(1), ct.bid(0)
    held = ct.load(x, (n, c, j), (1, 8, tile), padding_mode=_ZERO)
    ct.store(out, (n, c, j, 0), ct.permute(held, (0, 2, 1)).reshape((1, 1, tile, 8)))


@ct.kernel
def adaptive_means(
    x, out, to: ct.Constant[int], channels: ct.Constant[int], tile: ct.Constant[int]
):
    """Means of uneven windows, as many as are asked for: [channel, y, x]."""
    i, row = ct.bid(0), ct.bid(1)
    height, width = x.shape[1], x.shape[2]
    start, end = row * height // to, ct.cdiv((row + 1) * height, to)
    total = ct.zeros((channels, tile), ct.float32)
    for y in range(start, end):
        held = ct.load(x, (i, y, 0), (channels, 1, tile), padding_mode=_ZERO)
        total += held.reshape((channels, tile)).astype(ct.float32)
    column = ct.arange(tile, dtype=ct.int32).reshape((1, tile))
    for j in range(to):
        low, high = j * width // to, ct.cdiv((j + 1) * width, to)
        found = ct.sum(ct.where((column >= low) & (column < high), total, 0.0), 1)
        found = found / ((high - low) * (end - start))
        ct.store(out, (i, row, j), found.reshape((channels, 1, 1)).astype(out.dtype))


@ct.kernel
def largest_and_where(x, out, where, tile: ct.Constant[int]):
    """The largest of 3 x 3, two apart, edges padded by one, and its place: [channel, y, x]."""
    channel, y = ct.bid(1), ct.bid(0)
    height, width = x.shape[1], x.shape[2]
    column = ct.arange(tile, dtype=ct.int32)
    most, at = ct.full((tile,), -math.inf, ct.float32), ct.zeros((tile,), ct.int32)
    for dy in ct.static_iter(range(3)):
        for dx in ct.static_iter(range(3)):
            row, place = 2 * y + (dy - 1), 2 * column + (dx - 1)
            inside = (row >= 0) & (row < height) & (place >= 0) & (place < width)
            held = ct.gather(x, (channel, row, place), mask=inside, padding_value=-math.inf)
            at = ct.where(held > most, row * width + place, at)
            most = ct.maximum(most, held)
    there = column < out.shape[2]
    ct.scatter(out, (channel, y, column), most, mask=there)
    ct.scatter(where, (channel, y, column), at.astype(ct.int64), mask=there)


@ct.kernel
def first_of_lamb(w, m, v, g, update, sums, decay, fix_m, fix_v, tile: ct.Constant[int]):
    """What LAMB would change, moments in place, and each block's parts of the two lengths it is scaled by."""
    i = ct.bid(0)
    slope = ct.load(g, (i,), (tile,), padding_mode=_ZERO)
    weight = ct.load(w, (i,), (tile,), padding_mode=_ZERO)
    first = 0.9 * ct.load(m, (i,), (tile,), padding_mode=_ZERO) + 0.1 * slope
    second = 0.999 * ct.load(v, (i,), (tile,), padding_mode=_ZERO) + 0.001 * slope * slope
    change = first * fix_m / (ct.sqrt(second * fix_v) + 1e-6) + decay * weight
    ct.store(m, (i,), first)
    ct.store(v, (i,), second)
    ct.store(update, (i,), change)
    ct.scatter(sums, (i, 0), ct.sum(weight * weight))
    ct.scatter(sums, (i, 1), ct.sum(change * change))


@ct.kernel
def gate_gradients(x, slope, out, width: ct.Constant[int], tile: ct.Constant[int]):
    """Gradients of silu(a) * b for rows of a and b: [row, 2 width]."""
    i, column = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    there = column < width
    a = ct.gather(x, (i, column), mask=there, padding_value=0).astype(ct.float32)
    b = ct.gather(x, (i, column + width), mask=there, padding_value=0).astype(ct.float32)
    over = ct.gather(slope, (i, column), mask=there, padding_value=0).astype(ct.float32)
    open_ = 1.0 / (1.0 + ct.exp(-a))
    into = over * b * open_ * (1.0 + a * (1.0 - open_))
    ct.scatter(out, (i, column), into.astype(out.dtype), mask=there)
    ct.scatter(out, (i, column + width), (over * a * open_).astype(out.dtype), mask=there)


@ct.kernel
def dropped_back(slope, out, bias, seed, keep, m: ct.Constant[int], n: ct.Constant[int]):
    """The gradient behind a dropout whose hash is drawn again, and that of the bias: a block for some columns."""
    j, width = ct.bid(0), slope.shape[1]
    column = (j * n + ct.arange(n, dtype=ct.int32)).reshape((1, n))
    total = ct.zeros((m, n), ct.float32)
    for i in range(ct.num_tiles(slope, 0, (m, n))):
        row = (i * m + ct.arange(m, dtype=ct.int32)).reshape((m, 1))
        mixed = (row * width + column + seed).astype(ct.uint32)
        mixed = (mixed ^ (mixed >> 16)) * 0x7FEB352D
        mixed = (mixed ^ (mixed >> 15)) * 0x846CA68B
        chance = ((mixed ^ (mixed >> 16)) >> 8).astype(ct.float32) * (1.0 / 16777216.0)
        held = ct.load(slope, (i, j), (m, n), padding_mode=_ZERO).astype(ct.float32)
        held = ct.where(chance < keep, held / keep, 0.0)
        ct.store(out, (i, j), held.astype(out.dtype))
        total += held
    ct.store(bias, (j,), ct.sum(total, 0))


def _layer_norm(rows_: int, width: int, dtype: torch.dtype) -> Row:
    x, (gain, shift) = normal(rows_, width).to(dtype), several(2, width)

    def theirs(x, gain, shift):
        return functional.layer_norm(x, (width,), gain.to(x.dtype), shift.to(x.dtype))

    return beside_torch(
        f"layer norm of {rows_} x {width} {kind(dtype)}, 64 blocks in turn, tiles of 512",
        layer_norm,
        (64,),
        (x, gain, shift, torch.empty_like(x), 512),
        theirs,
        x,
        gain,
        shift,
        bound=ERROR[dtype] * 2,
    )


def _weight_norm(rows_: int, width: int, dtype: torch.dtype) -> Row:
    v, gain = normal(rows_, width).to(dtype), normal(rows_).to(dtype)
    return beside_torch(
        f"weight norm of {rows_} x {width} {kind(dtype)}, tiles 4x{next_power(width)}",
        weight_norm,
        (-(-rows_ // 4),),
        (v, gain, torch.empty_like(v), 4, next_power(width)),
        lambda v, gain: torch._weight_norm(v, gain[:, None], 0),
        v,
        gain,
        bound=ERROR[dtype],
    )


def _batch_statistics(places: int, channels: int, dtype: torch.dtype) -> Row:
    x = normal(places, channels).to(dtype)

    def theirs(x):
        held = x if x.dtype == _F64 else x.float()
        variance, mean = torch.var_mean(held, 0, correction=0)
        return mean, variance

    return beside_torch(
        f"statistics of {channels} channels of {places} {kind(dtype)}, tiles 32x64",
        batch_statistics,
        (-(-channels // 64),),
        (x, torch.empty(channels), torch.empty(channels), 32, 64),
        theirs,
        x,
        outputs=2,
        bound=1e-5,
    )


def _unit_channels(images: int, channels: int, places: int, dtype: torch.dtype) -> Row:
    x = normal(images, channels, places).to(dtype)
    return beside_torch(
        f"{channels} channels of {images} x {places} places to length one, {kind(dtype)}",
        unit_channels,
        (-(-places // 64), images),
        (x, torch.empty_like(x), next_power(channels), 64),
        lambda x: functional.normalize(x, dim=1),
        x,
        bound=ERROR[dtype],
    )


def _focal_classes(anchors: int, classes: int) -> Row:
    x, labels = normal(anchors, classes), integers(classes + 1, anchors) - 1

    def theirs(x, labels):
        mine = (labels[:, None] == torch.arange(classes)).to(x.dtype)
        right = torch.sigmoid(x)
        cross = functional.binary_cross_entropy_with_logits(x, mine, reduction="none")
        missed = right * (1 - mine) + (1 - right) * mine
        return (cross * missed.square() * (0.25 * mine + 0.75 * (1 - mine))).sum(1)

    return beside_torch(
        f"focal losses of {anchors} anchors of {classes} classes",
        focal_classes,
        (-(-anchors // 16),),
        (x, labels, torch.empty(anchors), classes, 16, next_power(classes)),
        theirs,
        x,
        labels,
        bound=1e-5,
    )


def _divergence_of_both(rows_: int, width: int, dtype: torch.dtype) -> Row:
    a, b = several(2, rows_, width, dtype=dtype)

    def theirs(a, b):
        a, b = (each if each.dtype == _F64 else each.float() for each in (a, b))
        a, b = torch.log_softmax(a * 0.5, 1), torch.log_softmax(b * 0.5, 1)
        p, q = a.exp(), b.exp()
        middle = (0.5 * (p + q)).log()
        return 0.5 * (p * (a - middle) + q * (b - middle)).sum(1)

    return beside_torch(
        f"divergences of both kinds of {rows_} rows of {width} {kind(dtype)}",
        divergence_of_both,
        (rows_,),
        (a, b, torch.empty(rows_), 0.5, next_power(width)),
        theirs,
        a,
        b,
        bound=3e-5,
    )


def _pairs_by_sigmoid(many: int, width: int) -> Row:
    a, b = (functional.normalize(each, dim=1) for each in several(2, many, width))
    sign = 1.0 - 2.0 * torch.eye(many)

    def theirs(a, b):
        return functional.softplus(((a @ b.T) * 10.0 - 5.0) * sign).sum(1)

    return beside_torch(
        f"sigmoid losses of {many} x {many} pairs of {width} f32, tiles 64x64x32",
        pairs_by_sigmoid,
        (-(-many // 64),),
        (a, b, torch.empty(many), 10.0, -5.0, 64, 64, 32),
        theirs,
        a,
        b,
        bound=2e-5,
    )


def _convolved(size: int, channels: int, to: int, dtype: torch.dtype) -> Row:
    x, bias = normal(size, size, channels).to(dtype), normal(to)
    w = (normal(9 * channels, to) / 16).to(dtype)
    edge = (size + 1) // 2
    taps = w.view(3, 3, channels, to).permute(3, 2, 0, 1).contiguous()
    taps = taps.to(memory_format=torch.channels_last)

    def theirs(x, taps, bias):
        held = x.permute(2, 0, 1)[None]
        held = functional.conv2d(held, taps, bias.to(x.dtype), stride=2, padding=1)
        return functional.relu(held)[0].permute(1, 2, 0).reshape(edge * edge, to)

    return beside_torch(
        f"3 x 3 two apart, {size} x {size} x {channels} to {to} {kind(dtype)}, tiles 64x64x32",
        convolved,
        (-(-(edge * edge) // 64), to // 64),
        (x, w, bias, torch.empty(edge * edge, to, dtype=dtype), edge, channels, 64, 64, 32),
        theirs,
        x,
        taps,
        bias,
        bound=max(ERROR[dtype], 2e-5),
    )


def _depthwise(size: int, channels: int, dtype: torch.dtype) -> Row:
    x, w = normal(size, size, channels).to(dtype), normal(25, channels).to(dtype)
    taps = w.T.reshape(channels, 1, 5, 5).contiguous()

    def theirs(x, taps):
        held = functional.conv2d(x.permute(2, 0, 1)[None], taps, padding=2, groups=channels)
        return held[0].permute(1, 2, 0)

    return beside_torch(
        f"5 x 5 of each channel, {size} x {size} x {channels} {kind(dtype)}, tiles 16x32",
        depthwise,
        (-(-channels // 32), -(-size // 16), size),
        (x, w, torch.empty_like(x), 16, 32),
        theirs,
        x,
        taps,
        bound=ERROR[dtype],
    )


def _dilated(channels: int, length: int, apart: int) -> Row:
    x, bias = normal(channels, length), normal(channels)
    w = normal(3, channels, channels) / math.sqrt(3 * channels)

    def theirs(x, w, bias):
        wide = functional.pad(x, (2 * apart, 0))[None]
        found = functional.conv1d(wide, w.permute(1, 2, 0), bias, dilation=apart)[0]
        return x + found.relu()

    return beside_torch(
        f"three taps {apart} apart of {channels} channels x {length} float32",
        dilated,
        (-(-length // 128),),
        (x, w, bias, torch.empty_like(x), apart, channels, 128),
        theirs,
        x,
        w,
        bias,
        bound=1e-5,
    )


def _blocked_channels(images: int, channels: int, places: int, dtype: torch.dtype) -> Row:
    x, groups = normal(images, channels, places, dtype=dtype), -(-channels // 8)

    def theirs(x):
        wide = functional.pad(x, (0, 0, 0, groups * 8 - channels))
        return wide.view(images, groups, 8, places).transpose(2, 3).contiguous()

    return beside_torch(
        f"channels of {images} x {channels} x {places} {kind(dtype)} by eights",
        blocked_channels,
        (-(-places // 128), groups, images),
        (x, torch.empty(images, groups, places, 8, dtype=dtype), 128),
        theirs,
        x,
    )


def _adaptive_means(channels: int, height: int, width: int, to: int, dtype: torch.dtype) -> Row:
    x = normal(channels, height, width).to(dtype)
    return beside_torch(
        f"{channels} x {height} x {width} to means of {to} x {to} windows, {kind(dtype)}",
        adaptive_means,
        (channels // 32, to),
        (x, torch.empty(channels, to, to, dtype=dtype), to, 32, next_power(width)),
        lambda x: functional.adaptive_avg_pool2d(x, to),
        x,
        bound=ERROR[dtype],
    )


def _largest_and_where(channels: int, size: int) -> Row:
    x, edge = normal(channels, size, size), (size + 1) // 2
    out = torch.empty(channels, edge, edge), torch.empty(channels, edge, edge, dtype=_I64)

    def theirs(x):
        found = functional.max_pool2d(x[None], 3, 2, 1, return_indices=True)
        return found[0][0], found[1][0]

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, out, where):
            for c in nb.prange(channels):
                for y in range(edge):
                    for column in range(edge):
                        most, at = np.float32(-np.inf), 0
                        for row in range(max(2 * y - 1, 0), min(2 * y + 2, size)):
                            for place in range(max(2 * column - 1, 0), min(2 * column + 2, size)):
                                if x[c, row, place] > most:
                                    most, at = x[c, row, place], row * size + place
                        out[c, y, column], where[c, y, column] = most, at

        given = [array(each) for each in (x, *(torch.empty_like(each) for each in out))]
        return lambda: run(*given)

    return beside_torch(
        f"the largest of 3 x 3 and where, {channels} x {size} x {size} f32",
        largest_and_where,
        (edge, channels),
        (x, *out, next_power(edge)),
        theirs,
        x,
        outputs=2,
        more=by_numba(make),
    )


def _first_of_lamb(many: int) -> Row:
    w, first_m, g, v = several(4, many)
    first_v, m, blocks = v.square(), first_m.clone(), -(-many // 1024)
    v = first_v.clone()
    update, sums = torch.empty(many), torch.empty(blocks, 2)

    def theirs(w, m, v, g):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        update = m * 2.5 / ((v * 1.5).sqrt() + 1e-6) + 0.01 * w
        padded = (functional.pad(each, (0, -many % 1024)).view(-1, 1024) for each in (w, update))
        return m, v, update, torch.stack([each.square().sum(1) for each in padded], 1)

    def clear():
        m.copy_(first_m)
        v.copy_(first_v)

    row = beside_torch(
        f"the first half of a step of LAMB, {many} f32, tiles of 1024",
        first_of_lamb,
        (blocks,),
        (m, v, update, sums),
        theirs,
        *(w, first_m, first_v, g),
        outputs=4,
        bound=1e-5,
        clear=clear,
    )
    return replace(row, arguments=(w, m, v, g, update, sums, 0.01, 2.5, 1.5, 1024))


def _gate_gradients(rows_: int, width: int, dtype: torch.dtype) -> Row:
    x, slope = normal(rows_, 2 * width).to(dtype), normal(rows_, width).to(dtype)

    def theirs(x, slope):
        wide = _F64 if x.dtype == _F64 else _F32
        (a, b), over = x.to(wide).chunk(2, 1), slope.to(wide)
        sigmoid = torch.sigmoid(a)
        into = over * b * sigmoid * (1 + a * (1 - sigmoid))
        return torch.cat((into, over * a * sigmoid), 1).to(x.dtype)

    return beside_torch(
        f"gradients of silu(a) * b, {rows_} x 2 x {width} {kind(dtype)}, tiles of 256",
        gate_gradients,
        (-(-width // 256), rows_),
        (x, slope, torch.empty_like(x), width, 256),
        theirs,
        x,
        slope,
        bound=ERROR[dtype],
    )


def _dropped_back(rows_: int, width: int, dtype: torch.dtype) -> Row:
    slope, seed = normal(rows_, width).to(dtype), 12345

    def theirs(slope):
        mixed = torch.arange(rows_ * width).view(rows_, width) + seed
        mixed = ((mixed ^ (mixed >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
        mixed = ((mixed ^ (mixed >> 15)) * 0x846CA68B) & 0xFFFFFFFF
        chance = ((mixed ^ (mixed >> 16)) >> 8).float() * (1.0 / 16777216.0)
        held = torch.where(chance < 0.875, slope / 0.875, 0.0)
        return held, held.sum(0, dtype=_F64 if slope.dtype == _F64 else _F32)

    return beside_torch(
        f"dropout backwards and the bias, {rows_} x {width} {kind(dtype)}, tiles 32x64",
        dropped_back,
        (-(-width // 64),),
        (slope, torch.empty_like(slope), torch.empty(width), seed, 0.875, 32, 64),
        theirs,
        slope,
        outputs=2,
        bound=ERROR[dtype],
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _layer_norm(256, 3000, _F32),
        lambda: _weight_norm(1000, 900, _BF16),
        lambda: _batch_statistics(6272, 200, _F32),
        lambda: _unit_channels(4, 96, 3136, _F16),
        lambda: _focal_classes(8192, 80),
        lambda: _divergence_of_both(200, 2500, _BF16),
        lambda: _pairs_by_sigmoid(500, 256),
        lambda: _convolved(57, 48, 64, _F32),
        lambda: _depthwise(40, 160, _F32),
        lambda: _dilated(32, 20_001, 8),
        lambda: _blocked_channels(4, 60, 3136, _BF16),
        lambda: _adaptive_means(512, 37, 45, 7, _F32),
        lambda: _largest_and_where(64, 111),
        lambda: _first_of_lamb(1000000),
        lambda: _gate_gradients(512, 700, _F16),
        lambda: _dropped_back(1000, 777, _F32),
    ]
