"""More kernels that nobody tuned for: gradients of keys, small pages, rotations on the way, few rows of bytes, chains of products,
recurrences, filters, sampling."""

from __future__ import annotations

import math
from typing import Any

import cuda.tile as ct

from benchmarks.gpu_cases import BF16, F8, F16, F32, I8, I32, LOG2_E, Case
from benchmarks.gpu_unseen_attention import softmax_step

ZERO = ct.PaddingMode.ZERO
ConstInt = ct.Constant[int]


@ct.kernel
def backward_keys(
    q, k, v, dout, logsum, delta, dk, dv, factor, tm: ConstInt, tn: ConstInt, d: ConstInt
):
    """The gradients of keys and values that several heads of queries share, causal: (head, query, d)."""
    j, group = ct.bid(0), ct.bid(1)
    key = ct.load(k, (group, j, 0), (1, tn, d)).reshape((tn, d))
    value = ct.load(v, (group, j, 0), (1, tn, d)).reshape((tn, d))
    columns = j * tn + ct.arange(tn, dtype=ct.int32)[None, :]
    of_key = ct.zeros((tn, d), ct.float32)
    of_value = ct.zeros((tn, d), ct.float32)
    for head in range(group * 2, group * 2 + 2):
        for i in range(j * tn // tm, ct.num_tiles(q, 1, (1, tm, d))):
            query = ct.load(q, (head, i, 0), (1, tm, d)).reshape((tm, d))
            upper = ct.load(dout, (head, i, 0), (1, tm, d)).reshape((tm, d))
            rows = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
            scores = ct.mma(query, ct.transpose(key), ct.zeros((tm, tn), ct.float32)) * factor
            sums = ct.load(logsum, (head, i), (1, tm)).reshape((tm, 1))
            power = ct.where(columns <= rows, ct.exp2(scores - sums), 0.0)
            of_value = ct.mma(ct.transpose(power.astype(q.dtype)), upper, of_value)
            slope = ct.mma(upper, ct.transpose(value), ct.zeros((tm, tn), ct.float32))
            slope = power * (slope - ct.load(delta, (head, i), (1, tm)).reshape((tm, 1)))
            of_key = ct.mma(ct.transpose(slope.astype(q.dtype)), query, of_key)
    ct.store(dk, (group, j, 0), (of_key * factor).astype(dk.dtype).reshape((1, tn, d)))
    ct.store(dv, (group, j, 0), of_value.astype(dv.dtype).reshape((1, tn, d)))


@ct.kernel
def paged_decode(q, cache_k, cache_v, pages, out, factor, tm: ConstInt, tn: ConstInt, d: ConstInt):
    """One position of heads that share keys, in pages of few rows: (page, row, d)."""
    sequence = ct.bid(0)
    query = ct.load(q, (sequence, 0, 0), (1, tm, d)).reshape((tm, d))
    top = ct.full((tm, 1), -math.inf, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    value = ct.zeros((tm, d), ct.float32)
    for j in range(pages.shape[1]):
        page = ct.gather(pages, (sequence, j))
        key = ct.load(cache_k, (page, 0, 0), (1, tn, d)).reshape((tn, d))
        scores = ct.mma(query, ct.transpose(key), ct.zeros((tm, tn), ct.float32)) * factor
        power, shrink, top, total = softmax_step(scores, top, total)
        part = ct.load(cache_v, (page, 0, 0), (1, tn, d)).reshape((tn, d))
        value = ct.mma(power.astype(cache_v.dtype), part, value * shrink)
    ct.store(out, (sequence, 0, 0), (value / total).astype(out.dtype).reshape((1, tm, d)))


@ct.kernel
def rotated_keys(q, k, v, cosines, sines, out, factor, tm: ConstInt, tn: ConstInt, half: ConstInt):
    """Keys are rotated when they are loaded, their halves against one another; queries have been."""
    i, head = ct.bid(0), ct.bid(1)
    left = ct.load(q, (head, i, 0), (1, tm, half)).reshape((tm, half))
    right = ct.load(q, (head, i, 1), (1, tm, half)).reshape((tm, half))
    top = ct.full((tm, 1), -math.inf, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    value = ct.zeros((tm, 2 * half), ct.float32)
    for j in range(ct.num_tiles(k, 1, (1, tn, half))):
        a = ct.load(k, (head, j, 0), (1, tn, half)).reshape((tn, half)).astype(ct.float32)
        b = ct.load(k, (head, j, 1), (1, tn, half)).reshape((tn, half)).astype(ct.float32)
        c, s = ct.load(cosines, (j, 0), (tn, half)), ct.load(sines, (j, 0), (tn, half))
        first, second = (a * c - b * s).astype(q.dtype), (b * c + a * s).astype(q.dtype)
        scores = ct.mma(left, ct.transpose(first), ct.zeros((tm, tn), ct.float32))
        scores = ct.mma(right, ct.transpose(second), scores) * factor
        power, shrink, top, total = softmax_step(scores, top, total)
        part = ct.load(v, (head, j, 0), (1, tn, 2 * half)).reshape((tn, 2 * half))
        value = ct.mma(power.astype(v.dtype), part, value * shrink)
    ct.store(out, (head, i, 0), (value / total).astype(out.dtype).reshape((1, tm, 2 * half)))


@ct.kernel
def bytes_bias_gelu(a, b, scales, bias, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """Weights of 8 bits, whose columns are scaled behind the product; a bias, an activation."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO).astype(a.dtype)
        total = ct.mma(x, y, total)
    total = total * ct.load(scales, (j,), (tn,))[None, :] + ct.load(bias, (j,), (tn,))[None, :]
    total = 0.5 * total * (1.0 + ct.tanh(0.7978845608 * (total + 0.044715 * total * total * total)))
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def narrow_scaled(a, b, rows, columns, bias, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """f8 by f8, both along k, with scales of rows and columns and a bias at the end."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.transpose(ct.load(b, (j, k), (tn, tk), padding_mode=ZERO))
        total = ct.mma(x, y, total, use_fast_acc=True)
    scale = ct.load(rows, (i,), (tm,))[:, None] * ct.load(columns, (j,), (tn,))[None, :]
    total = total * scale + ct.load(bias, (j,), (tn,)).astype(ct.float32)[None, :]
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def batched_turned(a, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """(batch, k, m) by (batch, n, k)."""
    i, j, batch = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (1, tk, tm))):
        x = ct.load(a, (batch, k, i), (1, tk, tm), padding_mode=ZERO).reshape((tk, tm))
        y = ct.load(b, (batch, j, k), (1, tn, tk), padding_mode=ZERO).reshape((tn, tk))
        total = ct.mma(ct.transpose(x), ct.transpose(y), total)
    ct.store(c, (batch, i, j), total.astype(c.dtype).reshape((1, tm, tn)))


@ct.kernel
def bytes_by_groups(a, b, scales, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """Few rows by weights of 8 bits, by rows, with a scale for each group of k."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk))
        y = ct.load(b, (k, j), (tk, tn)).astype(a.dtype) * ct.load(scales, (k, j), (1, tn))
        total = ct.mma(x, y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def nearest(points, centres, out, tm: ConstInt, tn: ConstInt, d: ConstInt):
    """Of each point the centre that is nearest."""
    i = ct.bid(0)
    x = ct.load(points, (i, 0), (tm, d))
    best = ct.full((tm, 1), math.inf, ct.float32)
    place = ct.zeros((tm, 1), ct.int32)
    for j in range(ct.num_tiles(centres, 0, (tn, d))):
        y = ct.load(centres, (j, 0), (tn, d))
        wide = y.astype(ct.float32)
        norms = ct.sum(wide * wide, 1)
        far = norms[None, :] - 2.0 * ct.mma(x, ct.transpose(y), ct.zeros((tm, tn), ct.float32))
        least = ct.min(far, 1, keepdims=True)
        at = j * tn + ct.argmin(far, 1, keepdims=True).astype(ct.int32)
        place = ct.where(least < best, at, place)
        best = ct.minimum(best, least)
    ct.store(out, (i, 0), place)


@ct.kernel
def orthogonal(x, out, n: ConstInt, rounds: ConstInt):
    """Newton's steps towards the orthogonal factor of small matrices: products of products."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0, 0), (1, n, n)).reshape((n, n)).astype(ct.float32)
    zero = ct.zeros((n, n), ct.float32)
    for _ in range(rounds):
        low = held.astype(x.dtype)
        gram = ct.mma(low, ct.transpose(low), zero).astype(x.dtype)
        second = ct.mma(gram, gram, zero)
        mixed = (-4.775 * gram.astype(ct.float32) + 2.0315 * second).astype(x.dtype)
        held = 3.4445 * held + ct.mma(mixed, low, zero)
    ct.store(out, (i, 0, 0), held.astype(out.dtype).reshape((1, n, n)))


@ct.kernel
def recurrent(x, weights, out, tm: ConstInt, n: ConstInt):
    """A state of some rows that goes through the same weights in each step."""
    i = ct.bid(0)
    matrix = ct.load(weights, (0, 0), (n, n))
    state = ct.zeros((tm, n), ct.float32)
    for step in range(x.shape[0]):
        seen = ct.load(x, (step, i, 0), (1, tm, n)).reshape((tm, n)).astype(ct.float32)
        state = ct.tanh(ct.mma(state.astype(x.dtype), matrix, seen))
        ct.store(out, (step, i, 0), state.astype(out.dtype).reshape((1, tm, n)))


@ct.kernel
def expert_down(
    hidden, weights, places, owners, gates, out, tm: ConstInt, tn: ConstInt, tk: ConstInt
):
    """The second product of experts: each row is weighted and added to that of its token."""
    i, j = ct.bid(0), ct.bid(1)
    rows = ct.load(places, (i,), (tm,))
    gate = ct.load(gates, (i,), (tm,))
    expert = ct.gather(owners, i)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(hidden, 1, (tm, tk))):
        x = ct.load(hidden, (i, k), (tm, tk))
        y = ct.load(weights, (expert, k, j), (1, tk, tn)).reshape((tk, tn))
        total = ct.mma(x, y, total)
    columns = j * tn + ct.arange(tn, dtype=ct.int32)
    ct.atomic_add(out, (rows[:, None], columns[None, :]), total * gate[:, None])


@ct.kernel
def causal_filter(x, weights, out, rows: ConstInt, columns: ConstInt):
    """Four taps along the rows, of each column its own, then a gate: (position, channel)."""
    i, j = ct.bid(0), ct.bid(1)
    at = i * rows + ct.arange(rows, dtype=ct.int32)[:, None]
    channels = j * columns + ct.arange(columns, dtype=ct.int32)
    total = ct.zeros((rows, columns), ct.float32)
    for tap in ct.static_iter(range(4)):
        seen = ct.gather(x, (at - tap, channels[None, :]), mask=at >= tap)
        total += seen.astype(ct.float32) * ct.gather(weights, (tap, channels))[None, :]
    ct.store(out, (i, j), (total / (1.0 + ct.exp(-total))).astype(out.dtype))


@ct.kernel
def group_norm_last(x, scale, out, pixels: ConstInt, channels: ConstInt):
    """Groups of channels, which lie side by side, over all pixels of an image, then an activation: (n, pixel, channel)."""
    n, group = ct.bid(0), ct.bid(1)
    count = ct.num_tiles(x, 1, (1, pixels, channels))
    total = ct.zeros((pixels, channels), ct.float32)
    squares = ct.zeros((pixels, channels), ct.float32)
    for i in range(count):
        tile = ct.load(x, (n, i, group), (1, pixels, channels)).reshape((pixels, channels))
        tile = tile.astype(ct.float32)
        total += tile
        squares += tile * tile
    mean = ct.sum(total) / (x.shape[1] * channels)
    spread = ct.rsqrt(ct.sum(squares) / (x.shape[1] * channels) - mean * mean + 1e-5)
    weight = ct.load(scale, (group,), (channels,))[None, :]
    for i in range(count):
        tile = ct.load(x, (n, i, group), (1, pixels, channels)).reshape((pixels, channels))
        made = (tile.astype(ct.float32) - mean) * spread * weight
        made = made / (1.0 + ct.exp(-made))
        ct.store(out, (n, i, group), made.astype(out.dtype).reshape((1, pixels, channels)))


@ct.kernel
def sample_bound(logits, out, rows: ConstInt, width: ConstInt, share: ConstInt):
    """The least probability of those that make up a share of all, by halving an interval."""
    i = ct.bid(0)
    x = ct.load(logits, (i, 0), (rows, width), padding_mode=ct.PaddingMode.NEG_INF)
    x = ct.exp(x.astype(ct.float32) - ct.max(x, 1, keepdims=True).astype(ct.float32))
    wanted = ct.sum(x, 1, keepdims=True) * (share / 100.0)
    low, high = ct.zeros((rows, 1), ct.float32), ct.ones((rows, 1), ct.float32)
    for _ in range(12):
        middle = 0.5 * (low + high)
        held = ct.sum(ct.where(x >= middle, x, 0.0), 1, keepdims=True)
        enough = held >= wanted
        low, high = ct.where(enough, middle, low), ct.where(enough, high, middle)
    ct.store(out, (i, 0), low)


@ct.kernel
def add_norm_quantise(x, residual, weight, added, out, scales, rows: ConstInt, width: ConstInt):
    """A sum that is kept, its norm by rows, and that in 8 bits with a scale."""
    i = ct.bid(0)
    a = ct.load(x, (i, 0), (rows, width)).astype(ct.float32)
    a = a + ct.load(residual, (i, 0), (rows, width)).astype(ct.float32)
    ct.store(added, (i, 0), a.astype(added.dtype))
    root = ct.rsqrt(ct.sum(a * a, 1, keepdims=True) / width + 1e-6)
    a = a * root * ct.load(weight, (0,), (width,)).astype(ct.float32)[None, :]
    most = ct.maximum(ct.max(a, 1, keepdims=True), -ct.min(a, 1, keepdims=True))
    scale = ct.maximum(most / 448.0, 1e-12)
    ct.store(out, (i, 0), (a / scale).astype(out.dtype))
    ct.store(scales, (i, 0), scale)


@ct.kernel
def bytes_by_vector(weights, scales, x, out, rows: ConstInt, width: ConstInt):
    """Weights of 8 bits, with a scale for each row, by a vector."""
    i = ct.bid(0)
    total = ct.zeros((rows, width), ct.float32)
    for k in range(ct.num_tiles(weights, 1, (rows, width))):
        y = ct.load(weights, (i, k), (rows, width)).astype(ct.float32)
        total += y * ct.load(x, (k,), (width,)).astype(ct.float32)[None, :]
    ct.store(out, (i,), ct.sum(total, 1) * ct.load(scales, (i,), (rows,)))


def _attention_cases() -> list[Case]:
    def gradients(heads: int, length: int) -> tuple[Any, ...]:
        many, few = (F16, (2 * heads, length, 128)), (F16, (heads, length, 128))
        sums = (F32, (2 * heads, length))
        factor = LOG2_E / math.sqrt(128)
        return (many, few, few, many, sums, sums, few, few, factor, (64,), (32,), (128,))

    def decoded(sequences: int, count: int) -> tuple[Any, ...]:
        cache, q = (BF16, (max(sequences * count, 4), 16, 128)), (BF16, (sequences, 16, 128))
        table = (I32, (sequences, count))
        return (q, cache, cache, table, q, LOG2_E / math.sqrt(128), (16,), (16,), (128,))

    def rotated(heads: int, length: int) -> tuple[Any, ...]:
        whole, angles = (F16, (heads, length, 64)), (F32, (length, 32))
        return (whole, whole, whole, angles, angles, whole, LOG2_E / 8, (64,), (32,), (32,))

    return [
        Case(
            "attention backward GQA keys f16 d128 64x32",
            "attention",
            backward_keys,
            gradients(8, 2048),
            (64, 8, 1),
            gradients(1, 64),
            (2, 1, 1),
        ),
        Case(
            "decode pages of 16 bf16 d128",
            "attention",
            paged_decode,
            decoded(1024, 128),
            (1024, 1, 1),
            decoded(1, 4),
        ),
        Case(
            "attention rotated keys f16 d64 64x32",
            "attention",
            rotated_keys,
            rotated(32, 4096),
            (64, 32, 1),
            rotated(1, 64),
        ),
    ]


def _product_cases() -> list[Case]:
    def weights(m: int, n: int, k: int) -> tuple[Any, ...]:
        a, row = (BF16, (m, k)), (F32, (n,))
        return (a, (I8, (k, n)), row, row, (BF16, (m, n)), (64,), (128,), (64,))

    def narrow(m: int, n: int, k: int) -> tuple[Any, ...]:
        ends = ((F32, (m,)), (F32, (n,)), (BF16, (n,)), (BF16, (m, n)), (128,), (64,), (64,))
        return ((F8, (m, k)), (F8, (n, k)), *ends)

    def batch(count: int, m: int, n: int, k: int) -> tuple[Any, ...]:
        arrays = ((F16, (count, k, m)), (F16, (count, n, k)), (F16, (count, m, n)))
        return (*arrays, (64,), (32,), (64,))

    def few_rows(m: int, n: int, k: int) -> tuple[Any, ...]:
        arrays = ((F16, (m, k)), (I8, (k, n)), (F16, (k // 64, n)), (F16, (m, n)))
        return (*arrays, (16,), (64,), (64,))

    def clusters(points: int, centres: int) -> tuple[Any, ...]:
        return ((F16, (points, 64)), (F16, (centres, 64)), (I32, (points, 1)), (128,), (64,), (64,))

    def small(count: int) -> tuple[Any, ...]:
        return ((BF16, (count, 64, 64)), (BF16, (count, 64, 64)), (64,), (5,))

    def steps(count: int, rows: int) -> tuple[Any, ...]:
        x = (BF16, (count, rows, 64))
        return (x, (BF16, (64, 64)), x, (16,), (64,))

    def experts(rows: int, width: int, depth: int, tokens: int) -> tuple[Any, ...]:
        arrays = ((F16, (rows, depth)), (F16, (max(rows // 1024, 4), depth, width)))
        arrays += ((I32, (rows,)), (I32, (rows // 64,)), (F32, (rows,)), (F32, (tokens, width)))
        return (*arrays, (64,), (64,), (32,))

    def case(
        name: str, kernel: Any, whole: Any, grid: Any, few: Any, few_grid: Any = (1, 1, 1)
    ) -> Case:
        return Case(name, "products", kernel, whole, grid, few, few_grid)

    wide = weights(4096, 4096, 4096)
    return [
        case(
            "product i8 bias gelu bf16 64x128x64",
            bytes_bias_gelu,
            wide,
            (64, 32, 1),
            weights(64, 128, 192),
        ),
        case(
            "product f8 rows and columns 128x64x64",
            narrow_scaled,
            narrow(4096, 4096, 4096),
            (32, 64, 1),
            narrow(128, 64, 192),
        ),
        case(
            "product batched turned f16 64x32x64",
            batched_turned,
            batch(64, 1024, 1024, 512),
            (16, 32, 64),
            batch(1, 64, 32, 192),
        ),
        case(
            "product i8 group scales f16 16 rows",
            bytes_by_groups,
            few_rows(16, 16384, 8192),
            (1, 256, 1),
            few_rows(16, 64, 192),
        ),
        case(
            "nearest centre f16 128x64",
            nearest,
            clusters(1 << 18, 1024),
            (2048, 1, 1),
            clusters(128, 192),
        ),
        case("orthogonal factor bf16 64x64", orthogonal, small(4096), (4096, 1, 1), small(1)),
        case("recurrent steps bf16 16x64", recurrent, steps(512, 4096), (256, 1, 1), steps(3, 16)),
        case(
            "experts down f16 64x64x32",
            expert_down,
            experts(8192, 2048, 4096, 4096),
            (128, 32, 1),
            experts(64, 64, 96, 64),
        ),
    ]


def cases() -> list[Case]:
    """More kernels that nobody tuned for."""

    def filtered(rows: int, width: int) -> tuple[Any, ...]:
        x = (BF16, (rows, width))
        return (x, (F32, (4, width)), x, (64,), (64,))

    def normed(images: int, pixels: int, width: int) -> tuple[Any, ...]:
        x = (F16, (images, pixels, width))
        return (x, (F32, (width,)), x, (64,), (32,))

    def sampled(rows: int, width: int) -> tuple[Any, ...]:
        return ((BF16, (rows, width)), (F32, (rows, 1)), (2,), (4096,), (90,))

    def quantised(rows: int, width: int) -> tuple[Any, ...]:
        x = (BF16, (rows, width))
        return (x, x, (BF16, (width,)), x, (F8, (rows, width)), (F32, (rows, 1)), (2,), (4096,))

    def vector(rows: int, width: int) -> tuple[Any, ...]:
        return ((I8, (rows, width)), (F32, (rows,)), (F16, (width,)), (F32, (rows,)), (32,), (256,))

    def case(name: str, kernel: Any, whole: Any, grid: Any, few: Any) -> Case:
        return Case(name, "rows", kernel, whole, grid, few)

    return [
        *_attention_cases(),
        *_product_cases(),
        case(
            "causal filter bf16 64x64",
            causal_filter,
            filtered(1 << 16, 2048),
            (1024, 32, 1),
            filtered(64, 64),
        ),
        case(
            "group norm silu f16 channels last 64x32",
            group_norm_last,
            normed(64, 4096, 512),
            (64, 16, 1),
            normed(1, 128, 32),
        ),
        case(
            "sampling bound bf16 2x4096",
            sample_bound,
            sampled(32768, 4096),
            (16384, 1, 1),
            sampled(2, 4096),
        ),
        case(
            "add, norm, quantise f8 2x4096",
            add_norm_quantise,
            quantised(32768, 4096),
            (16384, 1, 1),
            quantised(2, 4096),
        ),
        case(
            "matrix of bytes by vector 32x256",
            bytes_by_vector,
            vector(16384, 16384),
            (512, 1, 1),
            vector(32, 768),
        ),
    ]
