"""Kernels of whole models that nobody tuned for: latent attention, sinks, groups of products, gates, rotations, filters by
channel, mixed residual streams."""

from __future__ import annotations

import math
from typing import Any

import cuda.tile as ct

from benchmarks.gpu_cases import BF16, F16, F32, LOG2_E, Case
from benchmarks.gpu_unseen_attention import softmax_step

ZERO = ct.PaddingMode.ZERO
ConstInt = ct.Constant[int]


@ct.kernel
def latent_decode(
    q, turned_q, latent, turned_k, out, factor, tm: ConstInt, tn: ConstInt, d: ConstInt, r: ConstInt
):
    """One position of heads that share a latent vector, which is key and value; beside it keys that are rotated."""
    sequence, i = ct.bid(0), ct.bid(1)
    query = ct.load(q, (sequence, i, 0), (1, tm, d)).reshape((tm, d))
    rotated = ct.load(turned_q, (sequence, i, 0), (1, tm, r)).reshape((tm, r))
    top = ct.full((tm, 1), -math.inf, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    value = ct.zeros((tm, d), ct.float32)
    for j in range(ct.num_tiles(latent, 1, (1, tn, d))):
        part = ct.load(latent, (sequence, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        key = ct.load(turned_k, (sequence, j, 0), (1, tn, r), padding_mode=ZERO).reshape((tn, r))
        scores = ct.mma(query, ct.transpose(part), ct.zeros((tm, tn), ct.float32))
        scores = ct.mma(rotated, ct.transpose(key), scores) * factor
        power, shrink, top, total = softmax_step(scores, top, total)
        value = ct.mma(power.astype(latent.dtype), part, value * shrink)
    ct.store(out, (sequence, i, 0), (value / total).astype(out.dtype).reshape((1, tm, d)))


@ct.kernel
def latent_prefill(
    q, turned_q, k, turned_k, v, out, factor, tm: ConstInt, tn: ConstInt, d: ConstInt, r: ConstInt
):
    """Causal, with keys of two parts, of which all heads share the rotated one."""
    i, head = ct.bid(0), ct.bid(1)
    query = ct.load(q, (head, i, 0), (1, tm, d)).reshape((tm, d))
    rotated = ct.load(turned_q, (head, i, 0), (1, tm, r)).reshape((tm, r))
    rows = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    lane = ct.arange(tn, dtype=ct.int32)[None, :]
    top = ct.full((tm, 1), -math.inf, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    value = ct.zeros((tm, d), ct.float32)
    for j in range(ct.cdiv((i + 1) * tm, tn)):
        key = ct.load(k, (head, j, 0), (1, tn, d)).reshape((tn, d))
        other = ct.load(turned_k, (j, 0), (tn, r))
        scores = ct.mma(query, ct.transpose(key), ct.zeros((tm, tn), ct.float32))
        scores = ct.mma(rotated, ct.transpose(other), scores) * factor
        if (j + 1) * tn > i * tm:
            scores = ct.where(j * tn + lane <= rows, scores, -math.inf)
        power, shrink, top, total = softmax_step(scores, top, total)
        part = ct.load(v, (head, j, 0), (1, tn, d)).reshape((tn, d))
        value = ct.mma(power.astype(v.dtype), part, value * shrink)
    ct.store(out, (head, i, 0), (value / total).astype(out.dtype).reshape((1, tm, d)))


@ct.kernel
def sink_attention(q, k, v, sinks, out, factor, tm: ConstInt, tn: ConstInt, d: ConstInt):
    """Causal, within a window of 256, for eight heads of queries to one of keys, with a logit of its own for each head."""
    i, head = ct.bid(0), ct.bid(1)
    query = ct.load(q, (head, i, 0), (1, tm, d)).reshape((tm, d))
    rows = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    lane = ct.arange(tn, dtype=ct.int32)[None, :]
    top = ct.full((tm, 1), ct.gather(sinks, head) * LOG2_E, ct.float32)
    total = ct.full((tm, 1), 1.0, ct.float32)
    value = ct.zeros((tm, d), ct.float32)
    for j in range(max(0, (i * tm - 255) // tn), ct.cdiv((i + 1) * tm, tn)):
        key = ct.load(k, (head // 8, j, 0), (1, tn, d)).reshape((tn, d))
        scores = ct.mma(query, ct.transpose(key), ct.zeros((tm, tn), ct.float32)) * factor
        columns = j * tn + lane
        scores = ct.where((columns <= rows) & (rows - columns < 256), scores, -1.0e30)
        power, shrink, top, total = softmax_step(scores, top, total)
        part = ct.load(v, (head // 8, j, 0), (1, tn, d)).reshape((tn, d))
        value = ct.mma(power.astype(v.dtype), part, value * shrink)
    ct.store(out, (head, i, 0), (value / total).astype(out.dtype).reshape((1, tm, d)))


@ct.kernel
def groups_of_products(a, b, c, rows: ConstInt, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """Rows of a go by groups, each with its matrix; blocks that stay take tiles of all groups in turn."""
    across = ct.cdiv(c.shape[1], tn)
    tile = ct.bid(0)
    first = 0
    for group in range(b.shape[0]):
        tiles = rows // tm * across
        while tile < first + tiles:
            local = tile - first
            i, j = group * (rows // tm) + local // across, local % across
            sums = ct.zeros((tm, tn), ct.float32)
            for s in range(ct.num_tiles(a, 1, (tm, tk))):
                left = ct.load(a, (i, s), (tm, tk), padding_mode=ZERO)
                right = ct.load(b, (group, s, j), (1, tk, tn), padding_mode=ZERO).reshape((tk, tn))
                sums = ct.mma(left, right, sums)
            ct.store(c, (i, j), sums.astype(c.dtype))
            tile += ct.num_blocks(0)
        first += tiles


@ct.kernel
def gate_by_halves(x, out, tn: ConstInt):
    """silu of the first half of a row, times the second one."""
    row, j = ct.bid(0), ct.bid(1)
    half = ct.num_tiles(out, 1, (1, tn))
    gate = ct.load(x, (row, j), (1, tn)).astype(ct.float32)
    other = ct.load(x, (row, j + half), (1, tn)).astype(ct.float32)
    power = gate / (1.0 + ct.exp(-gate))
    ct.store(out, (row, j), (power * other).astype(out.dtype))


@ct.kernel
def mix_streams(x, weights, out, n: ConstInt, tn: ConstInt):
    """Several residual streams of a token, mixed by a matrix of its own: (token, stream, width)."""
    token, j = ct.bid(0), ct.bid(1)
    held = ct.load(x, (token, 0, j), (1, n, tn)).reshape((n, tn)).astype(ct.float32)
    mix = ct.load(weights, (token, 0, 0), (1, n, n)).reshape((n, n, 1))
    mixed = ct.sum(mix * held.reshape((1, n, tn)), 1)
    ct.store(out, (token, 0, j), mixed.astype(out.dtype).reshape((1, n, tn)))


@ct.kernel
def filter_by_channel(x, weights, out, tx: ConstInt, tc: ConstInt):
    """Three by three, for each channel by itself, channels last: (row, column, channel), with a row and a column around."""
    y, i, c = ct.bid(0), ct.bid(1), ct.bid(2)
    channels = c * tc + ct.arange(tc, dtype=ct.int32)[None, :]
    columns = i * tx + ct.arange(tx, dtype=ct.int32)[:, None]
    sums = ct.zeros((tx, tc), ct.float32)
    for dy in range(3):
        for dx in range(3):
            value = ct.gather(x, (y + dy, columns + dx, channels))
            weight = ct.load(weights, (dy * 3 + dx, c), (1, tc))
            sums += value.astype(ct.float32) * weight
    ct.store(out, (y, i, c), ct.maximum(sums, 0.0).astype(out.dtype).reshape((1, tx, tc)))


@ct.kernel
def norm_heads_and_rotate(x, weight, cos, sin, out, th: ConstInt, d: ConstInt):
    """Each head is normed, and its halves are rotated: (token, head, d)."""
    token, j = ct.bid(0), ct.bid(1)
    held = ct.load(x, (token, j, 0), (1, th, d)).reshape((th, d)).astype(ct.float32)
    scale = ct.rsqrt(ct.sum(held * held, 1, keepdims=True) * (1.0 / d) + 1.0e-6)
    held = held * scale * ct.load(weight, (0,), (d,)).astype(ct.float32).reshape((1, d))
    first = ct.extract(held, (0, 0), (th, d // 2))
    second = ct.extract(held, (0, 1), (th, d // 2))
    c = ct.load(cos, (token, 0), (1, d // 2))
    s = ct.load(sin, (token, 0), (1, d // 2))
    turned = ct.cat((first * c - second * s, second * c + first * s), 1)
    ct.store(out, (token, j, 0), turned.astype(out.dtype).reshape((1, th, d)))


@ct.kernel
def two_products(x, gate, up, out, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """The square of a product above zero, times another one, of matrices that are turned."""
    i, j = ct.bid(0), ct.bid(1)
    one = ct.zeros((tm, tn), ct.float32)
    other = ct.zeros((tm, tn), ct.float32)
    for s in range(ct.num_tiles(x, 1, (tm, tk))):
        left = ct.load(x, (i, s), (tm, tk), padding_mode=ZERO)
        one = ct.mma(left, ct.transpose(ct.load(gate, (j, s), (tn, tk), padding_mode=ZERO)), one)
        other = ct.mma(left, ct.transpose(ct.load(up, (j, s), (tn, tk), padding_mode=ZERO)), other)
    one = ct.maximum(one, 0.0)
    ct.store(out, (i, j), (one * one * other).astype(out.dtype))


@ct.kernel
def split_sums(parts, bias, out, tm: ConstInt, tn: ConstInt):
    """The parts of a product that was split by its depth, and a bias."""
    i, j = ct.bid(0), ct.bid(1)
    sums = ct.zeros((tm, tn), ct.float32)
    for s in range(parts.shape[0]):
        sums += ct.load(parts, (s, i, j), (1, tm, tn)).reshape((tm, tn))
    sums += ct.load(bias, (j,), (tn,)).astype(ct.float32).reshape((1, tn))
    ct.store(out, (i, j), sums.astype(out.dtype))


def cases() -> list[Case]:
    """Kernels of models that nobody tuned for."""

    def latents(sequences: int, heads: int, keys: int, rank: int = 512) -> tuple[Any, ...]:
        q, r = (BF16, (sequences, heads, rank)), (BF16, (sequences, heads, 64))
        held = ((BF16, (sequences, keys, rank)), (BF16, (sequences, keys, 64)))
        return (q, r, *held, q, LOG2_E / 24, (16,), (64,), (rank,), (64,))

    def prefill(heads: int, rows: int) -> tuple[Any, ...]:
        x, r = (BF16, (heads, rows, 128)), (BF16, (heads, rows, 64))
        return (x, r, x, (BF16, (rows, 64)), x, x, LOG2_E / 14, (128,), (64,), (128,), (64,))

    def sunk(heads: int, rows: int) -> tuple[Any, ...]:
        q, k = (BF16, (heads, rows, 64)), (BF16, (heads // 8, rows, 64))
        return (q, k, k, (F32, (heads,)), q, LOG2_E / 8, (64,), (64,), (64,))

    def grouped(groups: int, rows: int, width: int, depth: int) -> tuple[Any, ...]:
        arrays = ((F16, (rows, depth)), (F16, (groups, depth, width)))
        return (*arrays, (F16, (rows, width)), (rows // groups,), (128,), (128,), (64,))

    def halves(rows: int, width: int) -> tuple[Any, ...]:
        return ((BF16, (rows, 2 * width)), (BF16, (rows, width)), (1024,))

    def streams(tokens: int, width: int) -> tuple[Any, ...]:
        x = (BF16, (tokens, 4, width))
        return (x, (F32, (tokens, 4, 4)), x, (4,), (512,))

    def filtered(rows: int, columns: int, channels: int) -> tuple[Any, ...]:
        x = (F16, (rows + 2, columns + 2, channels))
        return (x, (F32, (9, channels)), (F16, (rows, columns, channels)), (16,), (64,))

    def heads(tokens: int, count: int) -> tuple[Any, ...]:
        x, half = (BF16, (tokens, count, 128)), (F32, (tokens, 64))
        return (x, (BF16, (128,)), half, half, x, (16,), (128,))

    def gated(m: int, n: int, k: int) -> tuple[Any, ...]:
        w = (BF16, (n, k))
        return ((BF16, (m, k)), w, w, (BF16, (m, n)), (128,), (64,), (64,))

    def parts(count: int, m: int, n: int) -> tuple[Any, ...]:
        return ((F32, (count, m, n)), (F16, (n,)), (F16, (m, n)), (8,), (512,))

    return [
        Case(
            "latent decode bf16 16x64",
            "attention",
            latent_decode,
            latents(64, 128, 4096),
            (64, 8, 1),
            latents(1, 16, 192),
        ),
        Case(
            "latent decode rank 1024 bf16 16x64",
            "attention",
            latent_decode,
            latents(64, 128, 4096, 1024),
            (64, 8, 1),
            latents(1, 16, 192, 1024),
        ),
        Case(
            "latent prefill bf16 128x64",
            "attention",
            latent_prefill,
            prefill(32, 4096),
            (32, 32, 1),
            prefill(1, 128),
        ),
        Case(
            "attention sinks window bf16 d64 64x64",
            "attention",
            sink_attention,
            sunk(64, 4096),
            (64, 64, 1),
            sunk(8, 192),
            (3, 1, 1),
        ),
        Case(
            "groups of products f16 128x128x64",
            "products",
            groups_of_products,
            grouped(32, 8192, 4096, 4096),
            (132, 1, 1),
            grouped(2, 512, 128, 192),
            (2, 1, 1),
        ),
        Case(
            "gate by halves bf16 1024",
            "rows",
            gate_by_halves,
            halves(8192, 14336),
            (8192, 14, 1),
            halves(2, 1024),
        ),
        Case(
            "mixed streams bf16 4x512",
            "rows",
            mix_streams,
            streams(16384, 4096),
            (16384, 8, 1),
            streams(2, 512),
        ),
        Case(
            "filter by channel f16 16x64",
            "moves",
            filter_by_channel,
            filtered(512, 512, 256),
            (512, 32, 4),
            filtered(1, 16, 64),
        ),
        Case(
            "norm heads, rotate bf16 16x128",
            "rows",
            norm_heads_and_rotate,
            heads(16384, 32),
            (16384, 2, 1),
            heads(1, 16),
        ),
        Case(
            "two products relu bf16 128x64x64",
            "products",
            two_products,
            gated(4096, 8192, 4096),
            (32, 128, 1),
            gated(128, 64, 192),
        ),
        Case(
            "sums of split product 8x512",
            "rows",
            split_sums,
            parts(8, 4096, 4096),
            (512, 8, 1),
            parts(3, 8, 512),
        ),
    ]
