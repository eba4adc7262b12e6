"""Attention and products that nobody tuned for: gradients by atomic additions, chunks of a delta rule, locks, bands, experts'
gates, results that are rounded to bytes."""

from __future__ import annotations

import math
from typing import Any

import cuda.tile as ct

from benchmarks import gpu_unseen_products as products
from benchmarks.gpu_cases import BF16, F8, F16, F32, I8, I32, LOG2_E, Case
from benchmarks.gpu_unseen_attention import softmax_step

ZERO = ct.PaddingMode.ZERO
ConstInt = ct.Constant[int]


@ct.kernel
def causal_groups(q, k, v, out, factor, tm: ConstInt, tn: ConstInt, d: ConstInt, each: ConstInt):
    """Causal, some heads of queries to one of keys: what all rows see, then the blocks on the diagonal."""
    i, head = ct.bid(0), ct.bid(1)
    query = ct.load(q, (head, i, 0), (1, tm, d)).reshape((tm, d))
    rows = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    lane = ct.arange(tn, dtype=ct.int32)[None, :]
    top = ct.full((tm, 1), -math.inf, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    value = ct.zeros((tm, d), ct.float32)
    for j in range(i * tm // tn):
        key = ct.load(k, (head // each, j, 0), (1, tn, d)).reshape((tn, d))
        scores = ct.mma(query, ct.transpose(key), ct.zeros((tm, tn), ct.float32)) * factor
        power, shrink, top, total = softmax_step(scores, top, total)
        part = ct.load(v, (head // each, j, 0), (1, tn, d)).reshape((tn, d))
        value = ct.mma(power.astype(v.dtype), part, value * shrink)
    for j in range(i * tm // tn, ct.cdiv((i + 1) * tm, tn)):
        key = ct.load(k, (head // each, j, 0), (1, tn, d)).reshape((tn, d))
        scores = ct.mma(query, ct.transpose(key), ct.zeros((tm, tn), ct.float32)) * factor
        scores = ct.where(j * tn + lane <= rows, scores, -math.inf)
        power, shrink, top, total = softmax_step(scores, top, total)
        part = ct.load(v, (head // each, j, 0), (1, tn, d)).reshape((tn, d))
        value = ct.mma(power.astype(v.dtype), part, value * shrink)
    ct.store(out, (head, i, 0), (value / total).astype(out.dtype).reshape((1, tm, d)))


@ct.kernel
def with_sums(q, k, v, out, logsums, factor, tm: ConstInt, tn: ConstInt, d: ConstInt):
    """All keys, of which the last block may be short; the logarithms of the sums are stored."""
    i, head = ct.bid(0), ct.bid(1)
    query = ct.load(q, (head, i, 0), (1, tm, d), padding_mode=ZERO).reshape((tm, d))
    lane = ct.arange(tn, dtype=ct.int32)[None, :]
    top = ct.full((tm, 1), -math.inf, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    value = ct.zeros((tm, d), ct.float32)
    for j in range(ct.cdiv(k.shape[1], tn)):
        key = ct.load(k, (head, 0, j), (1, d, tn), order=(0, 2, 1), padding_mode=ZERO)
        scores = ct.mma(query, key.reshape((d, tn)), ct.zeros((tm, tn), ct.float32)) * factor
        if (j + 1) * tn > k.shape[1]:
            scores = ct.where(j * tn + lane < k.shape[1], scores, -math.inf)
        power, shrink, top, total = softmax_step(scores, top, total)
        part = ct.load(v, (head, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        value = ct.mma(power.astype(v.dtype), part, value * shrink)
    ct.store(out, (head, i, 0), (value / total).astype(out.dtype).reshape((1, tm, d)))
    ct.store(logsums, (head, i), (top + ct.log2(total)).reshape((1, tm)))


@ct.kernel
def all_gradients(
    q, k, v, dout, logsum, delta, dq, dk, dv, factor, tm: ConstInt, tn: ConstInt, d: ConstInt
):
    """Gradients of keys and values, and that of queries by atomic additions."""
    j, head = ct.bid(0), ct.bid(1)
    key = ct.load(k, (head, j, 0), (1, tn, d)).reshape((tn, d))
    value = ct.load(v, (head, j, 0), (1, tn, d)).reshape((tn, d))
    of_key = ct.zeros((tn, d), ct.float32)
    of_value = ct.zeros((tn, d), ct.float32)
    columns = ct.arange(d, dtype=ct.int32)[None, :]
    for i in range(ct.num_tiles(q, 1, (1, tm, d))):
        query = ct.load(q, (head, i, 0), (1, tm, d)).reshape((tm, d))
        upper = ct.load(dout, (head, i, 0), (1, tm, d)).reshape((tm, d))
        scores = ct.mma(key, ct.transpose(query), ct.zeros((tn, tm), ct.float32)) * factor
        power = ct.exp2(scores - ct.load(logsum, (head, i), (1, tm)))
        of_value = ct.mma(power.astype(q.dtype), upper, of_value)
        slope = ct.mma(value, ct.transpose(upper), ct.zeros((tn, tm), ct.float32))
        slope = (power * (slope - ct.load(delta, (head, i), (1, tm)))).astype(q.dtype)
        of_key = ct.mma(slope, query, of_key)
        of_query = ct.mma(ct.transpose(slope), key, ct.zeros((tm, d), ct.float32))
        rows = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
        ct.atomic_add(dq, (head, rows, columns), of_query * factor)
    ct.store(dk, (head, j, 0), (of_key * factor).astype(dk.dtype).reshape((1, tn, d)))
    ct.store(dv, (head, j, 0), of_value.astype(dv.dtype).reshape((1, tn, d)))


@ct.kernel
def delta_rule(q, k, v, beta, out, chunk: ConstInt, d: ConstInt):
    """A state that forgets what it predicts, chunk by chunk; within a chunk by an approximate inverse."""
    head = ct.bid(0)
    state = ct.zeros((d, d), ct.float32)
    rows = ct.arange(chunk, dtype=ct.int32)
    below = rows[None, :] < rows[:, None]
    for i in range(ct.num_tiles(q, 1, (1, chunk, d))):
        query = ct.load(q, (head, i, 0), (1, chunk, d)).reshape((chunk, d))
        key = ct.load(k, (head, i, 0), (1, chunk, d)).reshape((chunk, d))
        value = ct.load(v, (head, i, 0), (1, chunk, d)).reshape((chunk, d))
        rate = ct.load(beta, (head, i), (1, chunk)).reshape((chunk, 1))
        near = ct.mma(key, ct.transpose(key), ct.zeros((chunk, chunk), ct.float32)) * rate
        near = ct.where(below, -near, 0.0).astype(q.dtype)
        seen = ct.mma(key, state.astype(q.dtype), ct.zeros((chunk, d), ct.float32))
        fresh = (value.astype(ct.float32) - seen) * rate
        fresh = ct.mma(near, fresh.astype(q.dtype), fresh)
        scores = ct.mma(query, ct.transpose(key), ct.zeros((chunk, chunk), ct.float32))
        scores = ct.where(rows[None, :] <= rows[:, None], scores, 0.0).astype(q.dtype)
        total = ct.mma(query, state.astype(q.dtype), ct.zeros((chunk, d), ct.float32))
        total = ct.mma(scores, fresh.astype(q.dtype), total)
        ct.store(out, (head, i, 0), total.astype(out.dtype).reshape((1, chunk, d)))
        state = ct.mma(ct.transpose(key), fresh.astype(q.dtype), state)


@ct.kernel
def tf32_residual(a, b, residual, c, alpha, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO).astype(ct.tfloat32)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO).astype(ct.tfloat32)
        total = ct.mma(x, y, total)
    ct.store(c, (i, j), alpha * total + ct.load(residual, (i, j), (tm, tn), padding_mode=ZERO))


@ct.kernel
def requantised(a, b, scales, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """i8 by i8 along k; columns are scaled, and the result is rounded to i8."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.int32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (j, k), (tn, tk), padding_mode=ZERO)
        total = ct.mma(x, ct.transpose(y), total)
    scaled = total.astype(ct.float32) * ct.load(scales, (j,), (tn,))[None, :]
    scaled = ct.minimum(ct.maximum(ct.floor(scaled + 0.5), -128.0), 127.0)
    ct.store(c, (i, j), scaled.astype(ct.int8))


@ct.kernel
def persistent_bands(a, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt, band: ConstInt):
    """Blocks stay, and take tiles in bands of rows; f8 along k."""
    down, across = ct.num_tiles(c, 0, (tm, tn)), ct.num_tiles(c, 1, (tm, tn))
    for tile in range(ct.bid(0), down * across, ct.num_blocks(0)):
        first = tile // (band * across) * band
        rows = min(down - first, band)
        i, j = first + tile % rows, tile % (band * across) // rows
        total = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.num_tiles(a, 1, (tm, tk))):
            x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
            y = ct.load(b, (j, k), (tn, tk), padding_mode=ZERO)
            total = ct.mma(x, ct.transpose(y), total, use_fast_acc=True)
        ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def locked_split(a, b, c, locks, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """Blocks that share a tile add their parts of the depth one after the other, under a lock."""
    i, j, split = ct.bid(0), ct.bid(1), ct.bid(2)
    steps = ct.cdiv(ct.num_tiles(a, 1, (tm, tk)), ct.num_blocks(2))
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(split * steps, (split + 1) * steps):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        total = ct.mma(x, y, total)
    at = i * ct.num_blocks(1) + j
    while ct.atomic_cas(locks, at, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) == 1:
        pass
    held = ct.load(c, (i, j), (tm, tn)).astype(ct.float32)
    ct.store(c, (i, j), (held + total).astype(c.dtype))
    ct.atomic_xchg(locks, at, 0, memory_order=ct.MemoryOrder.RELEASE)


@ct.kernel
def gathered_gate(x, gate, up, places, owners, out, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """Rows that go to an expert by two matrices of its own, of which one gates the other."""
    i, j = ct.bid(0), ct.bid(1)
    rows = ct.load(places, (i,), (tm,))
    expert = ct.gather(owners, i)
    one, other = ct.zeros((tm, tn), ct.float32), ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(x, 1, (tm, tk))):
        columns = k * tk + ct.arange(tk, dtype=ct.int32)
        left = ct.gather(x, (rows[:, None], columns[None, :]))
        first = ct.load(gate, (expert, j, k), (1, tn, tk)).reshape((tn, tk))
        second = ct.load(up, (expert, j, k), (1, tn, tk)).reshape((tn, tk))
        one = ct.mma(left, ct.transpose(first), one)
        other = ct.mma(left, ct.transpose(second), other)
    ct.store(out, (i, j), (one / (1.0 + ct.exp(-one)) * other).astype(out.dtype))


@ct.kernel
def bytes_along_depth(a, b, scales, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """Few rows by weights of 8 bits that lie along k; columns are scaled at the end."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk))
        y = ct.load(b, (j, k), (tn, tk)).astype(a.dtype)
        total = ct.mma(x, ct.transpose(y), total)
    ct.store(c, (i, j), (total * ct.load(scales, (j,), (tn,))[None, :]).astype(c.dtype))


@ct.kernel
def pixels_by_filters(image, filters, out, pixels: ConstInt, inputs: ConstInt, outs: ConstInt):
    """Three by three with zeros around, channels last, rows of pixels by gathers; relu."""
    n, row, part = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((pixels, outs), ct.float32)
    columns = ct.arange(pixels, dtype=ct.int32)
    for step in range(9):
        y, x = row + step // 3 - 1, columns + (step % 3 - 1)
        for k in range(ct.num_tiles(filters, 1, (1, inputs, outs))):
            channels = k * inputs + ct.arange(inputs, dtype=ct.int32)
            tile = ct.gather(image, (n, y, x[:, None], channels[None, :]))
            weights = ct.load(filters, (step, k, part), (1, inputs, outs)).reshape((inputs, outs))
            total = ct.mma(tile, weights, total)
    result = ct.maximum(total, 0.0).astype(out.dtype).reshape((1, 1, pixels, outs))
    ct.store(out, (n, row, 0, part), result)


@ct.kernel
def plain_batched(a, b, bias, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    i, j, batch = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 2, (1, tm, tk))):
        x = ct.load(a, (batch, i, k), (1, tm, tk), padding_mode=ZERO).reshape((tm, tk))
        y = ct.load(b, (batch, k, j), (1, tk, tn), padding_mode=ZERO).reshape((tk, tn))
        total = ct.mma(x, y, total)
    total = ct.maximum(total + ct.load(bias, (batch, j), (1, tn)).astype(ct.float32), 0.0)
    ct.store(c, (batch, i, j), total.astype(c.dtype).reshape((1, tm, tn)))


@ct.kernel
def double_scaled(a, b, c, out, alpha, beta, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), c.dtype)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (j, k), (tn, tk), padding_mode=ZERO)
        total = ct.mma(x, ct.transpose(y), total)
    held = ct.load(c, (i, j), (tm, tn))
    ct.store(out, (i, j), alpha * total + beta * held)


@ct.kernel
def symmetric(a, c, tm: ConstInt, tk: ConstInt):
    """A by its transpose: tiles below the diagonal are stored twice, those above not computed."""
    i, j = ct.bid(0), ct.bid(1)
    if j <= i:
        total = ct.zeros((tm, tm), ct.float32)
        for k in range(ct.num_tiles(a, 1, (tm, tk))):
            x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
            y = ct.load(a, (j, k), (tm, tk), padding_mode=ZERO)
            total = ct.mma(x, ct.transpose(y), total)
        held = total.astype(c.dtype)
        ct.store(c, (i, j), held)
        ct.store(c, (j, i), ct.transpose(held))


def _attention() -> list[Case]:
    def heads(kind: Any, count: int, each: int, rows: int, tiles: Any) -> tuple[Any, ...]:
        q, k = (kind, (count, rows, tiles[2])), (kind, (max(count // each, 1), rows, tiles[2]))
        ends = tuple((extent,) for extent in tiles)
        return (q, k, k, q, LOG2_E / math.sqrt(tiles[2]), *ends, (each,))

    def causal(kind: Any, each: int, tiles: tuple[int, int, int]) -> Case:
        name = f"attention causal {kind.name} 1 of {each} d{tiles[2]} {tiles[0]}x{tiles[1]}"
        tall = max(tiles)
        whole = heads(kind, 32, each, 4096, tiles)
        few = heads(kind, 1, each, 2 * tall, tiles)
        grid = (4096 // tiles[0], 32, 1)
        return Case(name, "attention", causal_groups, whole, grid, few, (2, 1, 1))

    def summed(count: int, rows: int, keys: int) -> tuple[Any, ...]:
        q, k = (F16, (count, rows, 64)), (F16, (count, keys, 64))
        turned = (F16, (count, 64, keys))
        return (q, turned, k, q, (F32, (count, rows)), LOG2_E / 8, (64,), (64,), (64,))

    def gradients(kind: Any, count: int, rows: int, d: int, tiles: Any) -> tuple[Any, ...]:
        x, of_rows = (kind, (count, rows, d)), (F32, (count, rows))
        ends = (LOG2_E / math.sqrt(d), *((extent,) for extent in tiles), (d,))
        return (x, x, x, x, of_rows, of_rows, (F32, (count, rows, d)), x, x, *ends)

    def ruled(count: int, rows: int) -> tuple[Any, ...]:
        x = (BF16, (count, rows, 128))
        return (x, x, x, (F32, (count, rows)), x, (64,), (128,))

    return [
        causal(BF16, 4, (128, 64, 128)),
        causal(F16, 1, (64, 32, 256)),
        causal(BF16, 8, (64, 64, 64)),
        causal(F16, 1, (128, 32, 128)),
        Case(
            "attention sums f16 d64 keys turned",
            "attention",
            with_sums,
            summed(32, 4096, 4096),
            (64, 32, 1),
            summed(1, 64, 192),
        ),
        Case(
            "attention all gradients f16 d64 64x64",
            "attention",
            all_gradients,
            gradients(F16, 32, 2048, 64, (64, 64)),
            (32, 32, 1),
            gradients(F16, 1, 128, 64, (64, 64)),
            (2, 1, 1),
        ),
        Case(
            "attention all gradients bf16 d128 32x64",
            "attention",
            all_gradients,
            gradients(BF16, 16, 2048, 128, (32, 64)),
            (32, 16, 1),
            gradients(BF16, 1, 64, 128, (32, 64)),
        ),
        Case(
            "delta rule bf16 d128 64",
            "attention",
            delta_rule,
            ruled(256, 4096),
            (256, 1, 1),
            ruled(1, 128),
        ),
    ]


def _products() -> list[Case]:
    make = products._product
    F64 = products.F64

    def ranked(kind: Any, batch: int, m: int, n: int, k: int, tiles: Any) -> tuple[Any, ...]:
        a, b, c = (kind, (batch, m, k)), (kind, (batch, k, n)), (kind, (batch, m, n))
        return (a, b, (kind, (batch, n)), c, *((extent,) for extent in tiles))

    def gates(experts: int, rows: int, width: int, depth: int) -> tuple[Any, ...]:
        weights = (BF16, (experts, width, depth))
        lists = ((I32, (rows,)), (I32, (rows // 64,)))
        arrays = ((BF16, (rows, depth)), weights, weights, *lists, (BF16, (rows, width)))
        return (*arrays, (64,), (64,), (64,))

    def locked(m: int, n: int, k: int) -> tuple[Any, ...]:
        arrays = ((BF16, (m, k)), (BF16, (k, n)), (F32, (m, n)), (I32, (m // 64 * n // 128,)))
        return (*arrays, (64,), (128,), (64,))

    def bands(m: int, n: int, k: int) -> tuple[Any, ...]:
        arrays = ((F8, (m, k)), (F8, (n, k)), (F16, (m, n)))
        return (*arrays, (128,), (128,), (128,), (8,))

    def image(count: int, side: int, channels: int, outs: int) -> tuple[Any, ...]:
        held = (BF16, (count, side, 64, channels))
        result = (BF16, (count, side, 64, outs))
        return (held, (BF16, (9, channels, outs)), result, (64,), (32,), (128,))

    def square(rows: int, depth: int) -> tuple[Any, ...]:
        return ((F16, (rows, depth)), (F16, (rows, rows)), (128,), (64,))

    def doubles(m: int, n: int, k: int) -> tuple[Any, ...]:
        arrays = ((F64, (m, k)), (F64, (n, k)), (F64, (m, n)), (F64, (m, n)))
        return (*arrays, 1.5, 0.5, (32,), (64,), (16,))

    few_rows = (16, 8192, 8192)
    return [
        make("product f16 32x128x128", products.plain, (F16, F16, F16), (32, 128, 128)),
        make("product bf16 128x64x32", products.plain, (BF16, BF16, BF16), (128, 64, 32)),
        make("product f16 64x256x32", products.plain, (F16, F16, F32), (64, 256, 32)),
        make(
            "product bf16 16x256x64",
            products.plain,
            (BF16, BF16, BF16),
            (16, 256, 64),
            extents=few_rows,
        ),
        make(
            "product f16 B turned 256x128x64",
            products.second_turned,
            (F16, F16, F16),
            (256, 128, 64),
            turned="b",
        ),
        make(
            "product i8 B turned 128x64x128 to i8",
            requantised,
            (I8, I8, I8),
            (128, 64, 128),
            lambda m, n, k: ((F32, (n,)),),
            turned="b",
        ),
        make(
            "product i8 along k f16 16x64x256",
            bytes_along_depth,
            (F16, I8, F16),
            (16, 64, 256),
            lambda m, n, k: ((F32, (n,)),),
            turned="b",
            extents=few_rows,
        ),
        Case(
            "product tf32 residual 64x64x32",
            "products",
            tf32_residual,
            ((F32, (4096, 4096)),) * 4 + (0.5, (64,), (64,), (32,)),
            (64, 64, 1),
            ((F32, (64, 64)),) * 4 + (0.5, (64,), (64,), (32,)),
        ),
        Case(
            "product f64 scaled 32x64x16",
            "products",
            double_scaled,
            doubles(2048, 2048, 2048),
            (64, 32, 1),
            doubles(32, 64, 64),
        ),
        Case(
            "product f8 persistent bands",
            "products",
            persistent_bands,
            bands(8192, 8192, 4096),
            (132, 1, 1),
            bands(256, 256, 256),
        ),
        Case(
            "product bf16 locked split",
            "products",
            locked_split,
            locked(1024, 2048, 8192),
            (16, 16, 4),
            locked(64, 128, 256),
            (1, 1, 2),
            1,
        ),
        Case(
            "experts gated bf16 64x64x64",
            "products",
            gathered_gate,
            gates(8, 8192, 4096, 2048),
            (128, 64, 1),
            gates(4, 64, 64, 128),
        ),
        Case(
            "convolution 3x3 bf16 64x128",
            "products",
            pixels_by_filters,
            image(32, 64, 128, 256),
            (32, 64, 2),
            image(1, 2, 64, 128),
            (1, 2, 1),
        ),
        Case(
            "product batched relu bf16 128x64x32",
            "products",
            plain_batched,
            ranked(BF16, 32, 1024, 1024, 512, (128, 64, 32)),
            (8, 16, 32),
            ranked(BF16, 1, 128, 64, 128, (128, 64, 32)),
        ),
        Case(
            "product batched relu f16 32x32x64",
            "products",
            plain_batched,
            ranked(F16, 256, 256, 256, 512, (32, 32, 64)),
            (8, 8, 256),
            ranked(F16, 1, 32, 32, 128, (32, 32, 64)),
        ),
        Case(
            "product by itself f16 128x64",
            "products",
            symmetric,
            square(4096, 4096),
            (32, 32, 1),
            square(256, 128),
            (2, 2, 1),
        ),
    ]


def cases() -> list[Case]:
    """Kernels that nobody tuned for."""
    return [*_attention(), *_products()]
