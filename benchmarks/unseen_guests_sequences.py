"""Attention, recurrences, sounds and words, as libraries of kernels for models have them."""

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
    compiled,
    integers,
    kind,
    next_power,
    normal,
    several,
)

_ZERO, _LEAST = ct.PaddingMode.ZERO, ct.PaddingMode.NEG_INF
_F32, _F64, _BF16, _F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
_I64, _I8 = torch.int64, torch.int8


@ct.kernel
def cross_attention(
    q, k, v, out, scale, m: ct.Constant[int], n: ct.Constant[int], depth: ct.Constant[int]
):
    """Attention to another text, by powers of two: [batch, place, head, depth]."""
    i, head, batch = ct.bid(0), ct.bid(1), ct.bid(2)
    left = ct.load(q, (batch, i, head, 0), (1, m, 1, depth), padding_mode=_ZERO)
    left = (left * scale).astype(q.dtype).reshape((m, depth))
    most, total = ct.full((m, 1), -1e30, ct.float32), ct.zeros((m, 1), ct.float32)
    held = ct.zeros((m, depth), ct.float32)
    for j in range(ct.cdiv(k.shape[1], n)):
        keys = ct.load(k, (batch, j, head, 0), (1, n, 1, depth), padding_mode=_ZERO)
        keys = ct.transpose(keys.reshape((n, depth)))
        score = ct.mma(left, keys, ct.zeros((m, n), ct.float32))
        column = j * n + ct.arange(n, dtype=ct.int32).reshape((1, n))
        score = ct.where(column < k.shape[1], score, -1e30)
        higher = ct.maximum(most, ct.max(score, 1, keepdims=True))
        raised, shrunk = ct.exp2(score - higher), ct.exp2(most - higher)
        total = total * shrunk + ct.sum(raised, 1, keepdims=True)
        values = ct.load(v, (batch, j, head, 0), (1, n, 1, depth), padding_mode=_ZERO)
        values = values.reshape((n, depth))
        held = ct.mma(raised.astype(values.dtype), values, held * shrunk)
        most = higher
    found = (held / total).astype(out.dtype).reshape((1, m, 1, depth))
    ct.store(out, (batch, i, head, 0), found)


@ct.kernel
def latent_decode(
    q,
    turned,
    cache,
    lengths,
    out,
    scale,
    heads: ct.Constant[int],
    n: ct.Constant[int],
    wide: ct.Constant[int],
    depth: ct.Constant[int],
):
    """One query of all heads against latent keys that are the values too (MLA); turned keys stand behind them."""
    batch = ct.bid(0)
    length = ct.gather(lengths, batch)
    left = ct.load(q, (batch, 0, 0), (1, heads, wide)).reshape((heads, wide))
    near = ct.load(turned, (batch, 0, 0), (1, heads, depth)).reshape((heads, depth))
    most, total = ct.full((heads, 1), -1e30, ct.float32), ct.zeros((heads, 1), ct.float32)
    held = ct.zeros((heads, wide), ct.float32)
    for j in range(ct.cdiv(length, n)):
        latent = ct.load(cache, (batch, j, 0), (1, n, wide), padding_mode=_ZERO)
        latent = latent.reshape((n, wide))
        rest = ct.load(cache, (batch, j, wide // depth), (1, n, depth), padding_mode=_ZERO)
        score = ct.mma(left, ct.transpose(latent), ct.zeros((heads, n), ct.float32))
        score = ct.mma(near, ct.transpose(rest.reshape((n, depth))), score) * scale
        column = j * n + ct.arange(n, dtype=ct.int32).reshape((1, n))
        score = ct.where(column < length, score, -1e30)
        higher = ct.maximum(most, ct.max(score, 1, keepdims=True))
        raised, shrunk = ct.exp(score - higher), ct.exp(most - higher)
        total = total * shrunk + ct.sum(raised, 1, keepdims=True)
        held = ct.mma(raised.astype(latent.dtype), latent, held * shrunk)
        most = higher
    ct.store(out, (batch, 0, 0), (held / total).astype(out.dtype).reshape((1, heads, wide)))


@ct.kernel
def decode_of_bytes(
    q,
    k,
    ks,
    v,
    vs,
    out,
    scale,
    group: ct.Constant[int],
    n: ct.Constant[int],
    depth: ct.Constant[int],
):
    """Queries of a group against keys and values of i8, a scale for each place: [head, place, depth]."""
    head, places = ct.bid(0), k.shape[1]
    left = ct.load(q, (head, 0, 0), (1, group, depth)).reshape((group, depth))
    most, total = ct.full((group, 1), -1e30, ct.float32), ct.zeros((group, 1), ct.float32)
    held = ct.zeros((group, depth), ct.float32)
    for j in range(ct.cdiv(places, n)):
        keys = ct.load(k, (head, j, 0), (1, n, depth), padding_mode=_ZERO).astype(q.dtype)
        score = ct.mma(
            left, ct.transpose(keys.reshape((n, depth))), ct.zeros((group, n), ct.float32)
        )
        score = score * ct.load(ks, (head, j), (1, n), padding_mode=_ZERO) * scale
        column = j * n + ct.arange(n, dtype=ct.int32).reshape((1, n))
        score = ct.where(column < places, score, -1e30)
        higher = ct.maximum(most, ct.max(score, 1, keepdims=True))
        raised, shrunk = ct.exp(score - higher), ct.exp(most - higher)
        total = total * shrunk + ct.sum(raised, 1, keepdims=True)
        weight = raised * ct.load(vs, (head, j), (1, n), padding_mode=_ZERO)
        values = ct.load(v, (head, j, 0), (1, n, depth), padding_mode=_ZERO).astype(q.dtype)
        held = ct.mma(weight.astype(q.dtype), values.reshape((n, depth)), held * shrunk)
        most = higher
    ct.store(out, (head, 0, 0), (held / total).astype(out.dtype).reshape((1, group, depth)))


@ct.kernel
def query_gradients(
    q,
    k,
    v,
    slope,
    sums,
    delta,
    out,
    scale,
    m: ct.Constant[int],
    n: ct.Constant[int],
    depth: ct.Constant[int],
):
    """Gradients of some queries of a causal head, from logarithms of sums: [head, place, depth]."""
    i, head, places = ct.bid(0), ct.bid(1), q.shape[1]
    left = ct.load(q, (head, i, 0), (1, m, depth), padding_mode=_ZERO).reshape((m, depth))
    over = ct.load(slope, (head, i, 0), (1, m, depth), padding_mode=_ZERO).reshape((m, depth))
    base = ct.load(sums, (head, i), (1, m), padding_mode=_ZERO).reshape((m, 1))
    less = ct.load(delta, (head, i), (1, m), padding_mode=_ZERO).reshape((m, 1))
    row = (i * m + ct.arange(m, dtype=ct.int32)).reshape((m, 1))
    found = ct.zeros((m, depth), ct.float32)
    for j in range(ct.cdiv(min((i + 1) * m, places), n)):
        keys = ct.load(k, (head, j, 0), (1, n, depth), padding_mode=_ZERO).reshape((n, depth))
        values = ct.load(v, (head, j, 0), (1, n, depth), padding_mode=_ZERO).reshape((n, depth))
        column = (j * n + ct.arange(n, dtype=ct.int32)).reshape((1, n))
        score = ct.mma(left, ct.transpose(keys), ct.zeros((m, n), ct.float32)) * scale
        weight = ct.where(column <= row, ct.exp(score - base), 0.0)
        into = ct.mma(over, ct.transpose(values), ct.zeros((m, n), ct.float32))
        found = ct.mma((weight * (into - less)).astype(keys.dtype), keys, found)
    ct.store(out, (head, i, 0), (found * scale).astype(out.dtype).reshape((1, m, depth)))


@ct.kernel
def linear_attention(q, k, v, out, n: ct.Constant[int], depth: ct.Constant[int]):
    """Attention by elu + 1 in place of exponentials, a block for each head: [head, place, depth]."""
    head, places = ct.bid(0), q.shape[1]
    state, total = ct.zeros((depth, depth), ct.float32), ct.zeros((1, depth), ct.float32)
    for j in range(ct.cdiv(places, n)):
        keys = ct.load(k, (head, j, 0), (1, n, depth), padding_mode=_ZERO).reshape((n, depth))
        keys = ct.where(keys > 0, keys + 1.0, ct.exp(keys))
        there = (j * n + ct.arange(n, dtype=ct.int32)).reshape((n, 1)) < places
        keys = ct.where(there, keys, 0.0)
        values = ct.load(v, (head, j, 0), (1, n, depth), padding_mode=_ZERO).reshape((n, depth))
        state = ct.mma(ct.transpose(keys), values, state)
        total += ct.sum(keys, 0, keepdims=True)
    for j in range(ct.cdiv(places, n)):
        asked = ct.load(q, (head, j, 0), (1, n, depth), padding_mode=_ZERO).reshape((n, depth))
        asked = ct.where(asked > 0, asked + 1.0, ct.exp(asked))
        found = ct.mma(asked, state, ct.zeros((n, depth), ct.float32))
        found = found / (ct.sum(asked * total, 1, keepdims=True) + 1e-6)
        ct.store(out, (head, j, 0), found.reshape((1, n, depth)))


@ct.kernel
def spectrum(
    x,
    waves,
    out,
    hop: ct.Constant[int],
    m: ct.Constant[int],
    n: ct.Constant[int],
    k: ct.Constant[int],
):
    """Powers of frequencies of overlapping pieces of a sound, by products: waves [cosine or sine, place, frequency]."""
    i, j = ct.bid(0), ct.bid(1)
    start = ((i * m + ct.arange(m, dtype=ct.int32)) * hop).reshape((m, 1))
    re, im = ct.zeros((m, n), ct.float32), ct.zeros((m, n), ct.float32)
    for step in range(ct.num_tiles(waves, 1, (1, k, n))):
        place = (step * k + ct.arange(k, dtype=ct.int32)).reshape((1, k))
        held = ct.gather(x, start + place, padding_value=0)
        cosine = ct.load(waves, (0, step, j), (1, k, n), padding_mode=_ZERO).reshape((k, n))
        sine = ct.load(waves, (1, step, j), (1, k, n), padding_mode=_ZERO).reshape((k, n))
        re, im = ct.mma(held, cosine, re), ct.mma(held, sine, im)
    ct.store(out, (i, j), re * re + im * im)


@ct.kernel
def turned_in_part(x, places, cosines, sines, heads, m: ct.Constant[int], half: ct.Constant[int]):
    """The first part of queries and keys in place, values behind them are left: [token, head, depth]."""
    i = ct.bid(0)
    head = ct.arange(m, dtype=ct.int32).reshape((m, 1))
    lane = ct.arange(half, dtype=ct.int32).reshape((1, half))
    place = ct.gather(places, i)
    cosine = ct.load(cosines, (place, 0), (1, half))
    sine = ct.load(sines, (place, 0), (1, half))
    there = head < heads
    a = ct.gather(x, (i, head, lane), mask=there).astype(ct.float32)
    b = ct.gather(x, (i, head, lane + half), mask=there).astype(ct.float32)
    ct.scatter(x, (i, head, lane), (a * cosine - b * sine).astype(x.dtype), mask=there)
    ct.scatter(x, (i, head, lane + half), (b * cosine + a * sine).astype(x.dtype), mask=there)


@ct.kernel
def table_gradient(names, slope, table, tile: ct.Constant[int]):
    """Rows of gradients added to those of the words they are of."""
    i, j = ct.bid(0), ct.bid(1)
    lane = j * tile + ct.arange(tile, dtype=ct.int32)
    held = ct.gather(slope, (i, lane), padding_value=0)
    ct.atomic_add(table, (ct.gather(names, i), lane), held)


@ct.kernel
def of_times(times, out, rate, half: ct.Constant[int], m: ct.Constant[int], n: ct.Constant[int]):
    """Cosines and then sines of times at falling frequencies, as diffusion models begin."""
    i, j = ct.bid(0), ct.bid(1)
    lane = (j * n + ct.arange(n, dtype=ct.int32)).astype(ct.float32).reshape((1, n))
    angle = ct.load(times, (i,), (m,), padding_mode=_ZERO).reshape((m, 1)) * ct.exp(lane * rate)
    ct.store(out, (i, j), ct.cos(angle).astype(out.dtype))
    ct.store(out, (i, j + half // n), ct.sin(angle).astype(out.dtype))


@ct.kernel
def delta_rule(q, k, v, rates, out, depth: ct.Constant[int]):
    """A matrix that keeps what keys say, corrected at each place (DeltaNet): [head, place, depth]."""
    head = ct.bid(0)
    state = ct.zeros((depth, depth), ct.float32)
    for t in range(q.shape[1]):
        key = ct.load(k, (head, t, 0), (1, 1, depth)).reshape((depth, 1))
        value = ct.load(v, (head, t, 0), (1, 1, depth)).reshape((1, depth))
        known = ct.sum(state * key, 0, keepdims=True)
        state = state + key * (ct.gather(rates, (head, t)) * (value - known))
        asked = ct.load(q, (head, t, 0), (1, 1, depth)).reshape((depth, 1))
        ct.store(out, (head, t, 0), ct.sum(state * asked, 0).reshape((1, 1, depth)))


@ct.kernel
def decays_of_chunks(steps, bias, rates, out, chunk: ct.Constant[int], heads: ct.Constant[int]):
    """Running sums of softplus(step + bias) * rate within chunks: [batch, place, head] to [batch, head, place]."""
    batch, i = ct.bid(1), ct.bid(0)
    held = ct.load(steps, (batch, i, 0), (1, chunk, heads), padding_mode=_ZERO)
    held = held + ct.load(bias, (0,), (heads,), padding_mode=_ZERO).reshape((1, 1, heads))
    held = ct.where(held > 20.0, held, ct.log(1.0 + ct.exp(held)))
    held = held * ct.load(rates, (0,), (heads,), padding_mode=_ZERO).reshape((1, 1, heads))
    ct.store(out, (batch, 0, i), ct.permute(ct.cumsum(held, 1), (0, 2, 1)))


@ct.kernel
def connectionist(logs, labels, alpha, out, words: ct.Constant[int], tile: ct.Constant[int]):
    """Losses of texts over all ways they may be spoken (CTC): logs [time, batch, class], 0 is the blank."""
    batch, times = ct.bid(0), logs.shape[0]
    state = ct.arange(tile, dtype=ct.int32)
    spoken = (state % 2 == 1) & (state < 2 * words)
    label = ct.gather(labels, (batch, state // 2), mask=spoken, padding_value=0)
    before = ct.gather(labels, (batch, state // 2 - 1), mask=spoken & (state > 1), padding_value=0)
    skips = spoken & (state > 1) & (label != before)
    valid = state <= 2 * words
    held = ct.where(state < 2, ct.gather(logs, (0, batch, label)), -1e30)
    ct.scatter(alpha, (0, batch, state), held, mask=valid)
    for t in range(1, times):
        one = ct.gather(alpha, (t - 1, batch, state - 1), mask=state > 0, padding_value=-1e30)
        two = ct.gather(alpha, (t - 1, batch, state - 2), mask=skips, padding_value=-1e30)
        most = ct.maximum(ct.maximum(held, one), two)
        total = ct.exp(held - most) + ct.exp(one - most) + ct.exp(two - most)
        held = most + ct.log(total) + ct.gather(logs, (t, batch, label), mask=valid)
        ct.scatter(alpha, (t, batch, state), held, mask=valid)
    last = ct.where((state == 2 * words) | (state == 2 * words - 1), held, -1e30)
    most = ct.max(last)
    ct.scatter(out, batch, -(most + ct.log(ct.sum(ct.exp(last - most)))))


@ct.kernel
def nucleus(logits, out, heat, share, steps: ct.Constant[int], tile: ct.Constant[int]):
    """The likeliest words that make up a share, as probabilities: the least of them is found by halving."""
    i = ct.bid(0)
    held = ct.load(logits, (i, 0), (1, tile), padding_mode=_LEAST).astype(ct.float32) * heat
    held = ct.exp(held - ct.max(held))
    held = held / ct.sum(held)
    low, high = ct.astile(0.0, dtype=ct.float32), ct.max(held)
    for _ in range(steps):
        middle = 0.5 * (low + high)
        enough = ct.sum(ct.where(held >= middle, held, 0.0)) >= share
        low, high = ct.where(enough, middle, low), ct.where(enough, high, middle)
    held = ct.where(held >= low, held, 0.0)
    ct.store(out, (i, 0), held / ct.sum(held))


@ct.kernel
def beams(logits, scores, found, words, top: ct.Constant[int], tile: ct.Constant[int]):
    """The best words to go on with for each beam, one after the other, by what the whole would score."""
    i = ct.bid(0)
    held = ct.load(logits, (i, 0), (1, tile), padding_mode=_LEAST).reshape((tile,))
    most = ct.max(held)
    base = ct.gather(scores, i) - most - ct.log(ct.sum(ct.exp(held - most)))
    lane = ct.arange(tile, dtype=ct.int32)
    for n in range(top):
        best = ct.argmax(held, 0)
        ct.scatter(found, (i, n), ct.max(held) + base)
        ct.scatter(words, (i, n), best.astype(ct.int64))
        held = ct.where(lane == best, -math.inf, held)


@ct.kernel
def what_is_left(p, q, out, tile: ct.Constant[int]):
    """What speculative sampling draws from when it rejects: max(p - q, 0), normalised."""
    i = ct.bid(0)
    total = ct.zeros((1, tile), ct.float32)
    for j in range(ct.num_tiles(p, 1, (1, tile))):
        held = ct.load(p, (i, j), (1, tile), padding_mode=_ZERO)
        total += ct.maximum(held - ct.load(q, (i, j), (1, tile), padding_mode=_ZERO), 0.0)
    share = 1.0 / ct.sum(total)
    for j in range(ct.num_tiles(p, 1, (1, tile))):
        held = ct.load(p, (i, j), (1, tile), padding_mode=_ZERO)
        held = ct.maximum(held - ct.load(q, (i, j), (1, tile), padding_mode=_ZERO), 0.0)
        ct.store(out, (i, j), held * share)


def _cross_attention(
    batch: int, heads: int, length: int, words: int, depth: int, dtype: torch.dtype
) -> Row:
    q = normal(batch, length, heads, depth).to(dtype)
    k, v = several(2, batch, words, heads, depth, dtype=dtype)

    def theirs(q, k, v):
        turned = (each.transpose(1, 2) for each in (q, k, v))
        return functional.scaled_dot_product_attention(*turned).transpose(1, 2)

    return beside_torch(
        f"cross attention, {batch} x {heads} heads, {length} to {words} x {depth} {kind(dtype)}",
        cross_attention,
        (-(-length // 64), heads, batch),
        (q, k, v, torch.empty_like(q), depth**-0.5 / math.log(2), 64, 64, depth),
        theirs,
        q,
        k,
        v,
        bound=max(ERROR[dtype] * 2, 2e-5),
    )


def _latent_decode(batch: int, heads: int, most: int, dtype: torch.dtype) -> Row:
    wide, depth = 512, 64
    q, turned = normal(batch, heads, wide).to(dtype), normal(batch, heads, depth).to(dtype)
    cache = normal(batch, most, wide + depth).to(dtype)
    lengths, scale = most - integers(most // 2, batch), 192**-0.5 / 2
    whole = lengths.tolist()

    def theirs(q, turned, cache):
        asked, found = torch.cat((q, turned), 2) * scale, torch.empty_like(q)
        for i, length in enumerate(whole):
            held = cache[i, :length]
            found[i] = torch.softmax(asked[i] @ held.T, 1) @ held[:, :wide]
        return found

    return beside_torch(
        f"latent attention of {batch} queries of {heads} heads to up to {most} {kind(dtype)}",
        latent_decode,
        (batch,),
        (q, turned, cache, lengths, torch.empty_like(q), scale, heads, 32, wide, depth),
        theirs,
        q,
        turned,
        cache,
        bound=max(ERROR[dtype] * 2, 2e-5),
        compiles=False,
    )


def _decode_of_bytes(heads: int, places: int) -> Row:
    group, depth = 8, 128
    q = normal(heads, group, depth)
    k, v = (integers(255 - i, heads, places, depth) - 127 for i in range(2))
    k, v = k.to(_I8), v.to(_I8)
    ks, vs = (each.abs() / 64 for each in several(2, heads, places))

    def theirs(q, ks, vs):
        wide = k.to(q.dtype) * ks[..., None], v.to(q.dtype) * vs[..., None]
        return functional.scaled_dot_product_attention(q, *wide)

    row = beside_torch(
        f"{heads} groups of {group} queries to {places} x {depth} i8",
        decode_of_bytes,
        (heads,),
        (q, ks, vs, torch.empty_like(q)),
        theirs,
        q,
        ks,
        vs,
        bound=5e-5,
    )
    arguments = (q, k, ks, v, vs, row.outputs[0], depth**-0.5, group, 64, depth)
    return replace(row, arguments=arguments)


def _query_gradients(heads: int, places: int, depth: int, dtype: torch.dtype) -> Row:
    q, k, v, slope = several(4, heads, places, depth, dtype=dtype)
    scale, later = depth**-0.5, torch.ones(places, places, dtype=torch.bool).triu(1)
    score = (q.double() @ k.double().mT * scale).masked_fill(later, -math.inf)
    sums = score.logsumexp(2)
    delta = ((score - sums[..., None]).exp() @ v.double() * slope.double()).sum(2)
    sums, delta = sums.float(), delta.float()

    def theirs(q, k, v, slope, sums, delta):
        score = (q @ k.mT).to(sums.dtype) * scale - sums[..., None]
        weight = score.masked_fill(later, -math.inf).exp()
        into = weight * ((slope @ v.mT).to(sums.dtype) - delta[..., None])
        return (into.to(k.dtype) @ k) * scale

    return beside_torch(
        f"gradients of queries, {heads} causal heads, {places} x {depth} {kind(dtype)}",
        query_gradients,
        (-(-places // 64), heads),
        (q, k, v, slope, sums, delta, torch.empty_like(q), scale, 64, 64, depth),
        theirs,
        *(q, k, v, slope, sums, delta),
        bound=max(ERROR[dtype] * 2, 3e-5),
    )


def _linear_attention(heads: int, places: int, depth: int) -> Row:
    q, k, v = several(3, heads, places, depth)

    def theirs(q, k, v):
        q, k = functional.elu(q) + 1, functional.elu(k) + 1
        total = (q @ k.sum(1)[..., None]) + 1e-6
        return q @ (k.mT @ v) / total

    return beside_torch(
        f"linear attention by elu, {heads} heads, {places} x {depth} f32",
        linear_attention,
        (heads,),
        (q, k, v, torch.empty_like(q), 64, depth),
        theirs,
        q,
        k,
        v,
        bound=2e-5,
    )


def _spectrum(frames: int) -> Row:
    size, hop, many = 400, 160, 201
    x, window = normal((frames - 1) * hop + size), torch.hann_window(size, dtype=_F64)
    angle = torch.arange(size, dtype=_F64)[:, None] * torch.arange(many) * (2 * math.pi / size)
    waves = torch.stack((angle.cos(), angle.sin())) * window[:, None]

    def theirs(x):
        held = torch.stft(
            x, size, hop, window=window.to(x.dtype), center=False, return_complex=True
        )
        return (held.real.square() + held.imag.square()).T

    return beside_torch(
        f"powers of {many} frequencies of {frames} pieces of a sound, by products",
        spectrum,
        (-(-frames // 64), -(-many // 64)),
        (x, waves.float(), torch.empty(frames, many), hop, 64, 64, 32),
        theirs,
        x,
        bound=2e-5,
        compiles=False,
    )


def _turned_in_part(tokens: int, heads: int, depth: int, dtype: torch.dtype) -> Row:
    half, x = 32, normal(tokens, heads, depth).to(dtype)
    places, turning = integers(2048, tokens), heads * 5 // 6
    angle = torch.arange(2048)[:, None] * 10000.0 ** (-torch.arange(half) / half)
    first, cosines, sines = x.clone(), angle.cos(), angle.sin()
    wide = places.long()

    def theirs(x, cosines, sines):
        cosine, sine = cosines[wide][:, None], sines[wide][:, None]
        a, b = (
            x[:, :turning, :half].to(cosine.dtype),
            x[:, :turning, half : 2 * half].to(sine.dtype),
        )
        both = torch.cat((a * cosine - b * sine, b * cosine + a * sine), 2)
        x[:, :turning, : 2 * half] = both.to(x.dtype)
        return x

    row = beside_torch(
        f"{2 * half} of {depth} turned in {turning} of {heads} heads of {tokens} tokens, {kind(dtype)}",
        turned_in_part,
        (tokens,),
        (x,),
        theirs,
        first,
        cosines,
        sines,
        bound=ERROR[dtype],
        clear=lambda: x.copy_(first),
    )
    arguments = (x, places, cosines, sines, turning, next_power(turning), half)
    return replace(row, arguments=arguments)


def _table_gradient(tokens: int, names_: int, width: int) -> Row:
    names, slope, table = (
        integers(names_, tokens),
        normal(tokens, width),
        torch.zeros(names_, width),
    )
    mine = torch.zeros(names_, width)

    def make(nb):
        @nb.njit
        def run(names, slope, found):
            for i in range(names.size):
                for j in range(width):
                    found[names[i], j] += slope[i, j]

        return lambda: run(array(names), array(slope), array(mine))

    row = beside_torch(
        f"gradient of a table of {names_} rows of {width} by {tokens} words",
        table_gradient,
        (tokens, -(-width // 128)),
        (names, slope, table, 128),
        lambda slope: slope.new_zeros(names_, width).index_add_(0, names, slope),
        slope,
        bound=1e-5,
        clear=table.zero_,
        compiles=False,
    )
    torchs = {"torch": lambda: mine.index_add_(0, names, slope)}
    return replace(row, peers=torchs | by_numba(make))


def _of_times(many: int, half: int, dtype: torch.dtype) -> Row:
    times, rate = integers(1000, many).float(), -math.log(10000) / half

    def theirs(times):
        angle = times[:, None] * torch.exp(torch.arange(half, dtype=times.dtype) * rate)
        found = torch.cat((angle.cos(), angle.sin()), 1)
        return found if times.dtype == _F64 else found.to(dtype)

    return beside_torch(
        f"{many} times as {2 * half} waves, {kind(dtype)}, tiles 32x32",
        of_times,
        (-(-many // 32), half // 32),
        (times, torch.empty(many, 2 * half, dtype=dtype), rate, half, 32, 32),
        theirs,
        times,
        bound=max(ERROR[dtype], 3e-4),
    )


def _delta_rule(heads: int, places: int, depth: int) -> Row:
    q, k, v = several(3, heads, places, depth)
    k, rates = functional.normalize(k, dim=2), torch.sigmoid(normal(heads, places))

    def theirs(q, k, v, rates):
        state, found = q.new_zeros(heads, depth, depth), torch.empty_like(q)
        for t in range(places):
            known = k[:, None, t] @ state
            state = torch.baddbmm(
                state, k[:, t, :, None], rates[:, t, None, None] * (v[:, None, t] - known)
            )
            found[:, t] = (q[:, None, t] @ state)[:, 0]
        return found

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(q, k, v, rates, out):
            for h in nb.prange(heads):
                state = np.zeros((depth, depth), np.float32)
                for t in range(places):
                    known, found = np.zeros(depth, np.float32), np.zeros(depth, np.float32)
                    for i in range(depth):
                        for j in range(depth):
                            known[j] += state[i, j] * k[h, t, i]
                    known = rates[h, t] * (v[h, t] - known)
                    for i in range(depth):
                        for j in range(depth):
                            state[i, j] += k[h, t, i] * known[j]
                            found[j] += state[i, j] * q[h, t, i]
                    out[h, t] = found

        given = [array(each) for each in (q, k, v, rates, torch.empty_like(q))]
        return lambda: run(*given)

    return beside_torch(
        f"delta rule, {heads} heads, {places} x {depth} f32",
        delta_rule,
        (heads,),
        (q, k, v, rates, torch.empty_like(q), depth),
        theirs,
        *(q, k, v, rates),
        bound=3e-5,
        more=by_numba(make),
        compiles=False,
    )


def _decays_of_chunks(batch: int, places: int, heads: int) -> Row:
    steps, (bias, rates), chunk = normal(batch, places, heads), several(2, heads), 64

    def theirs(steps, bias, rates):
        held = functional.softplus(steps + bias) * rates
        held = functional.pad(held, (0, 0, 0, -places % chunk)).view(batch, -1, chunk, heads)
        return held.cumsum(2).view(batch, -1, heads)[:, :places].transpose(1, 2).contiguous()

    return beside_torch(
        f"sums of decays in chunks of {chunk}, {batch} x {places} x {heads} f32",
        decays_of_chunks,
        (-(-places // chunk), batch),
        (steps, bias, rates, torch.empty(batch, heads, places), chunk, next_power(heads)),
        theirs,
        *(steps, bias, rates),
        bound=1e-5,
    )


def _connectionist(batch: int, times: int, classes: int, words: int) -> Row:
    logs = torch.log_softmax(normal(times, batch, classes), 2)
    labels, tile = integers(classes - 1, batch, words) + 1, next_power(2 * words + 1)
    wide, lengths = labels.long(), (torch.full((batch,), times), torch.full((batch,), words))
    alpha, out = torch.zeros(times, batch, tile), torch.empty(batch)

    return beside_torch(
        f"losses of {batch} spoken texts of {words} of {classes} letters in {times} steps",
        connectionist,
        (batch,),
        (logs, labels, alpha, out, words, tile),
        lambda logs: functional.ctc_loss(logs, wide, *lengths, reduction="none"),
        logs,
        bound=1e-5,
        compiles=False,
    )


def _nucleus(rows_: int, words: int, dtype: torch.dtype) -> Row:
    logits = (normal(rows_, words) * 2).to(dtype)

    def theirs(logits):
        held = logits if logits.dtype == _F64 else logits.float()
        held, order = torch.softmax(held * 1.25, 1).sort(1, descending=True)
        held = torch.where(held.cumsum(1) - held < 0.75, held, 0.0)
        held = held / held.sum(1, keepdim=True)
        return torch.zeros_like(held).scatter_(1, order, held)

    def halving(logits):
        held = torch.softmax(logits.float() * 1.25, 1)
        high, low = held.amax(1, keepdim=True), held.new_zeros(rows_, 1)
        for _ in range(30):
            middle = 0.5 * (low + high)
            enough = torch.where(held >= middle, held, 0.0).sum(1, keepdim=True) >= 0.75
            low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
        held = torch.where(held >= low, held, 0.0)
        return held / held.sum(1, keepdim=True)

    return beside_torch(
        f"the likeliest words of three quarters, {rows_} rows of {words} {kind(dtype)}",
        nucleus,
        (rows_,),
        (logits, torch.empty(rows_, words), 1.25, 0.75, 30, next_power(words)),
        theirs,
        logits,
        bound=1e-5,
        more={
            "torch, halving": lambda: halving(logits),
            "torch.compile, halving": compiled(halving, logits),
        },
    )


def _beams(beams_: int, words: int, top: int) -> Row:
    logits, scores = normal(beams_, words), normal(beams_)
    out = torch.empty(beams_, top), torch.empty(beams_, top, dtype=_I64)

    def theirs(logits, scores):
        found = (torch.log_softmax(logits, 1) + scores[:, None]).topk(top, 1)
        return found.values, found.indices

    return beside_torch(
        f"the best {top} of {words} words for {beams_} beams",
        beams,
        (beams_,),
        (logits, scores, *out, top, next_power(words)),
        theirs,
        *(logits, scores),
        outputs=2,
        bound=1e-5,
    )


def _what_is_left(rows_: int, words: int) -> Row:
    p, q = (torch.softmax(each, 1) for each in several(2, rows_, words))

    def theirs(p, q):
        held = (p - q).clamp(min=0)
        return held / held.sum(1, keepdim=True)

    return beside_torch(
        f"what {rows_} rejected words of {words} are drawn from, tiles of 1024",
        what_is_left,
        (rows_,),
        (p, q, torch.empty_like(p), 1024),
        theirs,
        *(p, q),
        bound=1e-5,
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _cross_attention(2, 4, 200, 333, 64, _F32),
        lambda: _latent_decode(4, 16, 1000, _F32),
        lambda: _decode_of_bytes(16, 777),
        lambda: _query_gradients(3, 400, 64, _F32),
        lambda: _query_gradients(3, 400, 64, _BF16),
        lambda: _linear_attention(8, 1000, 64),
        lambda: _spectrum(300),
        lambda: _turned_in_part(1000, 12, 80, _BF16),
        lambda: _table_gradient(4096, 1000, 300),
        lambda: _of_times(2048, 160, _F16),
        lambda: _delta_rule(4, 256, 64),
        lambda: _decays_of_chunks(8, 2000, 24),
        lambda: _connectionist(64, 100, 50, 30),
        lambda: _nucleus(64, 6000, _F32),
        lambda: _beams(32, 5000, 8),
        lambda: _what_is_left(128, 5003),
    ]
