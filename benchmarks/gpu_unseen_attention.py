"""Attention in forms that the table of ``gpu_kernels`` does not have: caches in pages, masks, biases, few queries."""

from __future__ import annotations

import math
from typing import Any

import cuda.tile as ct

from benchmarks.gpu_cases import BF16, F8, F16, F32, I8, I32, LOG2_E, Case

ZERO = ct.PaddingMode.ZERO
ConstInt = ct.Constant[int]


@ct.function
def softmax_step(scores, top, total):
    """Powers of a round, what the sums so far shrink by, and the new maxima and sums."""
    higher = ct.maximum(top, ct.max(scores, 1, keepdims=True))
    power = ct.exp2(scores - higher)
    shrink = ct.exp2(top - higher)
    return power, shrink, higher, total * shrink + ct.sum(power, 1, keepdims=True)


@ct.kernel
def paged(
    q, cache_k, cache_v, pages, lengths, out, factor, tm: ConstInt, tn: ConstInt, d: ConstInt
):
    """Keys and values lie in pages of ``tn`` rows anywhere in a cache."""
    i, sequence = ct.bid(0), ct.bid(1)
    query = ct.load(q, (sequence, i, 0), (1, tm, d)).reshape((tm, d))
    length = ct.gather(lengths, sequence)
    lane = ct.arange(tn, dtype=ct.int32)
    columns = ct.arange(d, dtype=ct.int32)
    top = ct.full((tm, 1), -math.inf, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    value = ct.zeros((tm, d), ct.float32)
    for j in range(ct.cdiv(length, tn)):
        rows = ct.gather(pages, (sequence, j)) * tn + lane
        key = ct.gather(cache_k, (rows[:, None], columns[None, :]))
        scores = ct.mma(query, ct.transpose(key), ct.zeros((tm, tn), ct.float32)) * factor
        scores = ct.where((j * tn + lane < length)[None, :], scores, -math.inf)
        power, shrink, top, total = softmax_step(scores, top, total)
        part = ct.gather(cache_v, (rows[:, None], columns[None, :]))
        value = ct.mma(power.astype(cache_v.dtype), part, value * shrink)
    ct.store(out, (sequence, i, 0), (value / total).astype(out.dtype).reshape((1, tm, d)))


@ct.kernel
def decode_split(q, k, v, parts, logsums, factor, tm: ConstInt, tn: ConstInt, d: ConstInt):
    """One position; the queries that share keys are the rows, and blocks share the keys."""
    head, split = ct.bid(0), ct.bid(1)
    query = ct.load(q, (head, 0, 0), (1, tm, d)).reshape((tm, d))
    top = ct.full((tm, 1), -math.inf, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    value = ct.zeros((tm, d), ct.float32)
    each = ct.cdiv(ct.num_tiles(k, 1, (1, tn, d)), ct.num_blocks(1))
    for j in range(split * each, min((split + 1) * each, ct.num_tiles(k, 1, (1, tn, d)))):
        key = ct.load(k, (head, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        scores = ct.mma(query, ct.transpose(key), ct.zeros((tm, tn), ct.float32)) * factor
        power, shrink, top, total = softmax_step(scores, top, total)
        part = ct.load(v, (head, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        value = ct.mma(power.astype(v.dtype), part, value * shrink)
    ct.store(parts, (split, head, 0, 0), (value / total).reshape((1, 1, tm, d)))
    ct.store(logsums, (split, head, 0), (top + ct.log2(total)).reshape((1, 1, tm)))


@ct.kernel
def decode_combine(parts, logsums, out, splits: ConstInt, tm: ConstInt, d: ConstInt):
    head = ct.bid(0)
    sums = ct.load(logsums, (0, head, 0), (splits, 1, tm)).reshape((splits, tm))
    weight = ct.exp2(sums - ct.max(sums, 0, keepdims=True))
    weight = weight / ct.sum(weight, 0, keepdims=True)
    values = ct.load(parts, (0, head, 0, 0), (splits, 1, tm, d)).reshape((splits, tm, d))
    total = ct.sum(values * weight[:, :, None], 0)
    ct.store(out, (head, 0, 0), total.astype(out.dtype).reshape((1, tm, d)))


@ct.kernel
def window(q, k, v, out, factor, cap, tm: ConstInt, tn: ConstInt, d: ConstInt, width: ConstInt):
    """Each position sees those of a window before it; scores are capped by tanh; 4 heads share keys."""
    i, head = ct.bid(0), ct.bid(1)
    query = ct.load(q, (head, i, 0), (1, tm, d)).reshape((tm, d))
    rows = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    top = ct.full((tm, 1), -1e30, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    value = ct.zeros((tm, d), ct.float32)
    for j in range(max(i * tm - width, 0) // tn, ct.cdiv((i + 1) * tm, tn)):
        key = ct.load(k, (head // 4, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        scores = ct.mma(query, ct.transpose(key), ct.zeros((tm, tn), ct.float32)) * factor
        scores = cap * ct.tanh(scores / cap) * LOG2_E
        columns = j * tn + ct.arange(tn, dtype=ct.int32)[None, :]
        seen = (columns <= rows) & (columns > rows - width)
        power, shrink, top, total = softmax_step(ct.where(seen, scores, -1e30), top, total)
        part = ct.load(v, (head // 4, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        value = ct.mma(power.astype(v.dtype), part, value * shrink)
    ct.store(out, (head, i, 0), (value / total).astype(out.dtype).reshape((1, tm, d)))


@ct.kernel
def biased(q, k, v, bias, slopes, out, factor, tm: ConstInt, tn: ConstInt, d: ConstInt):
    """A bias for each pair, and one that falls with the distance (ALiBi)."""
    i, head = ct.bid(0), ct.bid(1)
    query = ct.load(q, (head, i, 0), (1, tm, d)).reshape((tm, d))
    slope = ct.gather(slopes, head)
    rows = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    top = ct.full((tm, 1), -math.inf, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    value = ct.zeros((tm, d), ct.float32)
    for j in range(ct.num_tiles(k, 1, (1, tn, d))):
        key = ct.load(k, (head, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        scores = ct.mma(query, ct.transpose(key), ct.zeros((tm, tn), ct.float32)) * factor
        columns = j * tn + ct.arange(tn, dtype=ct.int32)[None, :]
        near = ct.load(bias, (i, j), (tm, tn), padding_mode=ZERO).astype(ct.float32)
        scores = scores + near - slope * ct.abs(rows - columns).astype(ct.float32)
        power, shrink, top, total = softmax_step(scores, top, total)
        part = ct.load(v, (head, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        value = ct.mma(power.astype(v.dtype), part, value * shrink)
    ct.store(out, (head, i, 0), (value / total).astype(out.dtype).reshape((1, tm, d)))


@ct.kernel
def masked(q, k, v, mask, out, factor, tm: ConstInt, tn: ConstInt, d: ConstInt):
    """Which pairs count is an array of bytes; a row without any gives 0."""
    i, head = ct.bid(0), ct.bid(1)
    query = ct.load(q, (head, i, 0), (1, tm, d)).reshape((tm, d))
    top = ct.full((tm, 1), -1e30, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    value = ct.zeros((tm, d), ct.float32)
    for j in range(ct.num_tiles(k, 1, (1, tn, d))):
        key = ct.load(k, (head, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        scores = ct.mma(query, ct.transpose(key), ct.zeros((tm, tn), ct.float32)) * factor
        seen = ct.load(mask, (i, j), (tm, tn), padding_mode=ZERO) != 0
        scores = ct.where(seen, scores, -1e30)
        higher = ct.maximum(top, ct.max(scores, 1, keepdims=True))
        power = ct.where(seen, ct.exp2(scores - higher), 0.0)
        shrink = ct.exp2(top - higher)
        total = total * shrink + ct.sum(power, 1, keepdims=True)
        part = ct.load(v, (head, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        value = ct.mma(power.astype(v.dtype), part, value * shrink)
        top = higher
    value = value / ct.where(total == 0.0, 1.0, total)
    ct.store(out, (head, i, 0), value.astype(out.dtype).reshape((1, tm, d)))


@ct.kernel
def narrow_cache(q, k, v, scales, out, factor, tm: ConstInt, tn: ConstInt, d: ConstInt):
    """Keys and values are floats of 8 bits, with a scale for each row of either."""
    i, head = ct.bid(0), ct.bid(1)
    query = ct.load(q, (head, i, 0), (1, tm, d)).reshape((tm, d))
    top = ct.full((tm, 1), -math.inf, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    value = ct.zeros((tm, d), ct.float32)
    for j in range(ct.num_tiles(k, 1, (1, tn, d))):
        key = ct.load(k, (head, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        of_keys = ct.load(scales, (0, head, j), (1, 1, tn)).reshape((1, tn))
        of_values = ct.load(scales, (1, head, j), (1, 1, tn)).reshape((1, tn))
        turned = ct.transpose(key.astype(q.dtype))
        scores = ct.mma(query, turned, ct.zeros((tm, tn), ct.float32)) * (factor * of_keys)
        power, shrink, top, total = softmax_step(scores, top, total)
        part = ct.load(v, (head, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        power = (power * of_values).astype(q.dtype)
        value = ct.mma(power, part.astype(q.dtype), value * shrink)
    ct.store(out, (head, i, 0), (value / total).astype(out.dtype).reshape((1, tm, d)))


@ct.kernel
def ragged(q, k, v, starts, out, factor, tm: ConstInt, tn: ConstInt, d: ConstInt):
    """Sequences of different lengths behind one another: (position, head, d)."""
    i, sequence, head = ct.bid(0), ct.bid(1), ct.bid(2)
    start, end = ct.gather(starts, sequence), ct.gather(starts, sequence + 1)
    columns = ct.arange(d, dtype=ct.int32)[None, :]
    rows = start + i * tm + ct.arange(tm, dtype=ct.int32)
    within = (rows < end)[:, None]
    query = ct.gather(q, (rows[:, None], head, columns), mask=within)
    top = ct.full((tm, 1), -1e30, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    value = ct.zeros((tm, d), ct.float32)
    for j in range(ct.cdiv(end - start, tn)):
        places = start + j * tn + ct.arange(tn, dtype=ct.int32)
        held = places < end
        key = ct.gather(k, (places[:, None], head, columns), mask=held[:, None])
        scores = ct.mma(query, ct.transpose(key), ct.zeros((tm, tn), ct.float32)) * factor
        power, shrink, top, total = softmax_step(ct.where(held[None, :], scores, -1e30), top, total)
        part = ct.gather(v, (places[:, None], head, columns), mask=held[:, None])
        value = ct.mma(power.astype(v.dtype), part, value * shrink)
    result = (value / ct.where(total == 0.0, 1.0, total)).astype(out.dtype)
    ct.scatter(out, (rows[:, None], head, columns), result, mask=within)


@ct.kernel
def backward_queries(
    q, k, v, dout, logsum, delta, dq, factor, tm: ConstInt, tn: ConstInt, d: ConstInt
):
    """The gradient of queries, causal."""
    i, head = ct.bid(0), ct.bid(1)
    query = ct.load(q, (head, i, 0), (1, tm, d)).reshape((tm, d))
    upper = ct.load(dout, (head, i, 0), (1, tm, d)).reshape((tm, d))
    sums = ct.load(logsum, (head, i), (1, tm)).reshape((tm, 1))
    dots = ct.load(delta, (head, i), (1, tm)).reshape((tm, 1))
    rows = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    total = ct.zeros((tm, d), ct.float32)
    for j in range(ct.cdiv((i + 1) * tm, tn)):
        key = ct.load(k, (head, j, 0), (1, tn, d)).reshape((tn, d))
        value = ct.load(v, (head, j, 0), (1, tn, d)).reshape((tn, d))
        scores = ct.mma(query, ct.transpose(key), ct.zeros((tm, tn), ct.float32)) * factor
        columns = j * tn + ct.arange(tn, dtype=ct.int32)[None, :]
        power = ct.where(columns <= rows, ct.exp2(scores - sums), 0.0)
        slope = ct.mma(upper, ct.transpose(value), ct.zeros((tm, tn), ct.float32)) - dots
        total = ct.mma((power * slope).astype(q.dtype), key, total)
    ct.store(dq, (head, i, 0), (total * factor).astype(dq.dtype).reshape((1, tm, d)))


@ct.kernel
def linear_attention(q, k, v, decay, out, chunk: ConstInt, d: ConstInt):
    """A recurrence over chunks: what is within one, by a masked product, what came before, by a state."""
    head = ct.bid(0)
    state = ct.zeros((d, d), ct.float32)
    rows = ct.arange(chunk, dtype=ct.int32)
    causal = rows[None, :] <= rows[:, None]
    for i in range(ct.num_tiles(q, 1, (1, chunk, d))):
        query = ct.load(q, (head, i, 0), (1, chunk, d)).reshape((chunk, d))
        key = ct.load(k, (head, i, 0), (1, chunk, d)).reshape((chunk, d))
        value = ct.load(v, (head, i, 0), (1, chunk, d)).reshape((chunk, d))
        slow = ct.cumsum(ct.load(decay, (head, i), (1, chunk)).reshape((chunk,)), 0)
        last = ct.sum(ct.where(rows == chunk - 1, slow, 0.0))
        scores = ct.mma(query, ct.transpose(key), ct.zeros((chunk, chunk), ct.float32))
        scores = ct.where(causal, scores * ct.exp(slow[:, None] - slow[None, :]), 0.0)
        within = ct.mma(scores.astype(v.dtype), value, ct.zeros((chunk, d), ct.float32))
        seen = (query.astype(ct.float32) * ct.exp(slow)[:, None]).astype(q.dtype)
        total = ct.mma(seen, state.astype(q.dtype), within)
        ct.store(out, (head, i, 0), total.astype(out.dtype).reshape((1, chunk, d)))
        left = (key.astype(ct.float32) * ct.exp(last - slow)[:, None]).astype(k.dtype)
        state = ct.mma(ct.transpose(left), value, state * ct.exp(last))


def _case(
    name: str,
    kernel: Any,
    kind: Any,
    size: int,
    tiles: tuple[int, int],
    more: Any = lambda heads, length: (),
    *,
    length: int = 4096,
    shared: int = 1,
    scalars: tuple[float, ...] = (),
    constants: tuple[Any, ...] = (),
    outs: int = 1,
    grid: tuple[int, int, int] | None = None,
    cache: Any = None,
) -> Case:
    """Attention over (heads, length, size); ``more``: arrays between values and results."""
    tm, tn = tiles

    def arguments(heads: int, length: int) -> tuple[Any, ...]:
        whole = (kind, (heads, length, size))
        fewer = (cache or kind, (max(heads // shared, 1), length, size))
        factor = LOG2_E / math.sqrt(size)
        ends = (*scalars, (tm,), (tn,), (size,), *constants)
        return (whole, fewer, fewer, *more(heads, length), *(whole,) * outs, factor, *ends)

    whole_grid = grid or (length // tm, 32, 1)
    few = arguments(1, 2 * max(tm, tn))
    return Case(name, "attention", kernel, arguments(32, length), whole_grid, few, (2, 1, 1))


def _paged(name: str, kind: Any, tm: int, tn: int, d: int) -> Case:
    def arguments(sequences: int, pages: int, queries: int) -> tuple[Any, ...]:
        cache = (kind, (max(sequences * pages, 4) * tn, d))
        table, lengths = (I32, (sequences, pages)), (I32, (sequences,))
        whole = (kind, (sequences, queries, d))
        factor = LOG2_E / math.sqrt(d)
        return (whole, cache, cache, table, lengths, whole, factor, (tm,), (tn,), (d,))

    grid = (1, 256, 1)
    few = arguments(1, 4, tm)
    return Case(name, "attention", paged, arguments(256, 32, tm), grid, few, turns=24)


def _decode(name: str, kind: Any, tm: int, tn: int, d: int) -> Case:
    def arguments(heads: int, length: int, splits: int) -> tuple[Any, ...]:
        cache, sums = (kind, (heads, length, d)), (F32, (splits, heads, tm))
        parts = (F32, (splits, heads, tm, d))
        factor = LOG2_E / math.sqrt(d)
        return ((kind, (heads, tm, d)), cache, cache, parts, sums, factor, (tm,), (tn,), (d,))

    few = arguments(1, 4 * tn, 2)
    whole = arguments(64, 8192, 8)
    turns = 1024 // tn
    return Case(name, "attention", decode_split, whole, (64, 8, 1), few, (1, 2, 1), turns)


def _ragged(name: str, kind: Any, tm: int, tn: int, d: int) -> Case:
    def arguments(positions: int, heads: int, sequences: int) -> tuple[Any, ...]:
        whole = (kind, (positions, heads, d))
        factor = LOG2_E / math.sqrt(d)
        return (whole, whole, whole, (I32, (sequences + 1,)), whole, factor, (tm,), (tn,), (d,))

    few = arguments(2 * tn, 1, 3)
    whole = arguments(16384, 16, 16)
    return Case(name, "attention", ragged, whole, (16, 16, 16), few, (1, 3, 1), 1024 // tn)


def cases() -> list[Case]:
    """Attention that nobody tuned for."""

    def combining(heads: int) -> tuple[Any, ...]:
        parts, sums = (F32, (8, heads, 16, 128)), (F32, (8, heads, 16))
        return (parts, sums, (BF16, (heads, 16, 128)), (8,), (16,), (128,))

    def backward(heads: int, length: int) -> tuple[Any, ...]:
        rows = (F32, (heads, length))
        return ((BF16, (heads, length, 64)), rows, rows)

    def linear(heads: int, length: int) -> tuple[Any, ...]:
        whole = (BF16, (heads, length, 64))
        return (whole, whole, whole, (F32, (heads, length)), whole, (64,), (64,))

    def bias(kind: Any) -> Any:
        return lambda heads, length: ((kind, (length, length)), (F32, (heads,)))

    return [
        _paged("paged attention f16 d128 16x64", F16, 16, 64, 128),
        _paged("paged attention bf16 d64 64x128", BF16, 64, 128, 64),
        _decode("decode GQA split bf16 d128 16x128", BF16, 16, 128, 128),
        _decode("decode GQA split f16 d64 16x64", F16, 16, 64, 64),
        Case(
            "decode combine bf16 8 splits",
            "attention",
            decode_combine,
            combining(2048),
            (2048, 1, 1),
            combining(1),
        ),
        _case(
            "attention window softcap bf16 d128 64x64",
            window,
            BF16,
            128,
            (64, 64),
            shared=4,
            scalars=(30.0,),
            constants=((1024,),),
        ),
        _case("attention ALiBi bias f16 d64 128x64", biased, F16, 64, (128, 64), bias(F16)),
        _case(
            "attention byte mask bf16 d64 64x128",
            masked,
            BF16,
            64,
            (64, 128),
            lambda heads, length: ((I8, (length, length)),),
        ),
        _case(
            "attention f8 cache bf16 d128 64x64",
            narrow_cache,
            BF16,
            128,
            (64, 64),
            lambda heads, length: ((F32, (2, heads, length)),),
            cache=F8,
        ),
        _ragged("ragged attention f16 d64 64x64", F16, 64, 64, 64),
        _case(
            "attention backward dq bf16 d64 64x64",
            backward_queries,
            BF16,
            64,
            (64, 64),
            backward,
            length=2048,
        ),
        Case(
            "linear attention bf16 chunk 64",
            "attention",
            linear_attention,
            linear(256, 4096),
            (256, 1, 1),
            linear(1, 128),
        ),
    ]
