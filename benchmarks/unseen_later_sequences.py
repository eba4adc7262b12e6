"""Rotary embeddings, recurrences, ragged batches and random numbers, as programs for GPUs have them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import cuda.tile as ct
import numpy as np
import torch
from torch.nn import functional

from benchmarks.unseen_rows import ERROR, Row, array, beside_torch, integers, kind, normal, numba

_F32, _BF16, _F16 = torch.float32, torch.bfloat16, torch.float16


@ct.kernel
def rotary_of_pairs(x, cos, sin, out, heads: ct.Constant[int], half: ct.Constant[int]):
    """Neighbours turned by the same angle: [place, head, half, 2]."""
    place = ct.bid(0)
    c = ct.load(cos, (place, 0), (1, half)).reshape((1, half))
    s = ct.load(sin, (place, 0), (1, half)).reshape((1, half))
    pairs = ct.load(x, (place, 0, 0, 0), (1, heads, half, 2)).reshape((heads, half, 2))
    left = ct.extract(pairs, (0, 0, 0), (heads, half, 1)).reshape((heads, half)).astype(ct.float32)
    right = ct.extract(pairs, (0, 0, 1), (heads, half, 1)).reshape((heads, half)).astype(ct.float32)
    a = (left * c - right * s).astype(out.dtype).reshape((heads, half, 1))
    b = (left * s + right * c).astype(out.dtype).reshape((heads, half, 1))
    ct.store(out, (place, 0, 0, 0), ct.cat((a, b), 2).reshape((1, heads, half, 2)))


@ct.kernel
def rotary_of_halves(q, k, cos, sin, heads: ct.Constant[int], half: ct.Constant[int]):
    """Queries and keys in place: [place, head, 2 half], all heads of a place by gathers."""
    place = ct.bid(0)
    lane = ct.arange(half, dtype=ct.int32).reshape((1, half))
    head = ct.arange(heads, dtype=ct.int32).reshape((heads, 1))
    c, s = ct.gather(cos, (place, lane)), ct.gather(sin, (place, lane))
    for x in ct.static_iter((q, k)):
        left = ct.gather(x, (place, head, lane)).astype(ct.float32)
        right = ct.gather(x, (place, head, lane + half)).astype(ct.float32)
        ct.scatter(x, (place, head, lane), (left * c - right * s).astype(x.dtype))
        ct.scatter(x, (place, head, lane + half), (right * c + left * s).astype(x.dtype))


@ct.kernel
def embedded(tokens, table, places, weight, out, length, width: ct.Constant[int]):
    """A token's row and its place's, then RMS norm."""
    i = ct.bid(0)
    token = ct.load(tokens, (i,), (1,)).item()
    held = ct.load(table, (token, 0), (1, width)) + ct.load(places, (i % length, 0), (1, width))
    scale = ct.rsqrt(ct.sum(held * held) / width + 1e-6)
    ct.store(out, (i, 0), held * scale * ct.load(weight, (0,), (width,)).reshape((1, width)))


@ct.kernel
def selective_scan(x, dt, a, b, c, out, length, tile: ct.Constant[int], states: ct.Constant[int]):
    """Mamba's recurrence: [batch, place, channel], some channels for each block, all places in turn."""
    batch, j = ct.bid(1), ct.bid(0)
    rate = ct.load(a, (j, 0), (tile, states))
    state = ct.zeros((tile, states), ct.float32)
    for t in range(length):
        step = ct.load(dt, (batch, t, j), (1, 1, tile)).reshape((tile, 1))
        value = ct.load(x, (batch, t, j), (1, 1, tile)).reshape((tile, 1))
        into = ct.load(b, (batch, t, 0), (1, 1, states)).reshape((1, states))
        outof = ct.load(c, (batch, t, 0), (1, 1, states)).reshape((1, states))
        state = state * ct.exp(step * rate) + step * value * into
        ct.store(out, (batch, t, j), ct.sum(state * outof, 1).reshape((1, 1, tile)))


@ct.kernel
def linear_recurrence(a, x, out, tile: ct.Constant[int], width: ct.Constant[int]):
    """h = a h + x along time, by an associative scan over pieces: [time, channel]."""
    j = ct.bid(0)
    carried = ct.zeros((1, width), ct.float32)
    for i in range(ct.num_tiles(x, 0, (tile, width))):
        decay, held = ct.load(a, (i, j), (tile, width)), ct.load(x, (i, j), (tile, width))
        decay, held = ct.scan(
            (decay, held), 0, lambda a0, x0, a1, x1: (a0 * a1, x0 * a1 + x1), (1.0, 0.0)
        )
        held = held + decay * carried
        ct.store(out, (i, j), held)
        carried = ct.extract(held, (tile - 1, 0), (1, width))


@ct.kernel
def causal_convolution(
    x, weight, bias, out, taps: ct.Constant[int], rows: ct.Constant[int], tile: ct.Constant[int]
):
    """Depthwise along time, then silu: [batch, place, channel]."""
    batch, i, j = ct.bid(2), ct.bid(1), ct.bid(0)
    place = (i * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    channel = (j * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    total = ct.zeros((rows, tile), ct.float32) + ct.gather(bias, (channel,)).astype(ct.float32)
    for tap in ct.static_iter(range(taps)):
        at = place + (tap - taps + 1)
        held = ct.gather(x, (batch, at, channel), mask=at >= 0, padding_value=0)
        total += held.astype(ct.float32) * ct.gather(weight, (channel, tap)).astype(ct.float32)
    total = total / (1.0 + ct.exp(-total))
    ct.store(out, (batch, i, j), total.astype(out.dtype).reshape((1, rows, tile)))


@ct.kernel
def softmax_of_segments(x, starts, out, tile: ct.Constant[int]):
    """Softmax of each of many pieces of one array, as long as they are."""
    i = ct.bid(0)
    first, last = ct.gather(starts, i), ct.gather(starts, i + 1)
    at = first + ct.arange(tile, dtype=ct.int32)
    held = ct.gather(x, (at,), mask=at < last, padding_value=-math.inf)
    raised = ct.exp(held - ct.max(held))
    ct.scatter(out, (at,), raised / ct.sum(raised), mask=at < last)


@ct.kernel
def padded_batch(x, starts, out, longest, width: ct.Constant[int], rows: ct.Constant[int]):
    """Ragged sequences to a batch, zeros behind each: [sequence, place, width]."""
    sequence, i = ct.bid(1), ct.bid(0)
    first, last = ct.gather(starts, sequence), ct.gather(starts, sequence + 1)
    row = (first + i * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    lane = ct.arange(width, dtype=ct.int32).reshape((1, width))
    held = ct.gather(x, (row, lane), mask=row < last, padding_value=0)
    ct.store(out, (sequence, i, 0), held.reshape((1, rows, width)))


def _rounds(source, seed, place):
    """Ten rounds of Philox 4 x 32 on a counter of which one word differs."""
    c0, c1 = place.astype(ct.uint32), ct.zeros(place.shape, ct.uint32)
    c2, c3 = ct.zeros(place.shape, ct.uint32), ct.zeros(place.shape, ct.uint32)
    k0, k1 = seed, source
    for _ in ct.static_iter(range(10)):
        low = c0.astype(ct.uint64) * 0xD2511F53
        high = c2.astype(ct.uint64) * 0xCD9E8D57
        c0, c2 = (
            (high >> 32).astype(ct.uint32) ^ c1 ^ k0,
            (low >> 32).astype(ct.uint32) ^ c3 ^ k1,
        )
        c1, c3 = high.astype(ct.uint32), low.astype(ct.uint32)
        k0, k1 = k0 + 0x9E3779B9, k1 + 0xBB67AE85
    return c0


@ct.kernel
def dropout_added(x, residual, out, seed, tile: ct.Constant[int]):
    """Dropout by Philox, and a residual."""
    i = ct.bid(0)
    place = i * tile + ct.arange(tile, dtype=ct.int32)
    drawn = _rounds(ct.astype(0, ct.uint32), ct.astype(seed, ct.uint32), place)
    held = ct.load(x, (i,), (tile,)).astype(ct.float32)
    kept = ct.where((drawn >> 8) < 13421773, held * 1.25, 0.0)
    ct.store(
        out, (i,), (kept + ct.load(residual, (i,), (tile,)).astype(ct.float32)).astype(out.dtype)
    )


def _pairs(places: int, heads: int, half: int, dtype: torch.dtype) -> Row:
    x = normal(places, heads, half, 2).to(dtype)
    angles = torch.rand(places, half, generator=torch.Generator().manual_seed(3)) * 6
    cos, sin = angles.cos(), angles.sin()

    def theirs(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        left, right = x[..., 0].to(cos.dtype), x[..., 1].to(cos.dtype)
        c, s = cos[:, None], sin[:, None]
        return torch.stack((left * c - right * s, left * s + right * c), -1).to(x.dtype)

    return beside_torch(
        f"rotary embedding of pairs, {places} x {heads} x {2 * half} {kind(dtype)}",
        rotary_of_pairs,
        (places,),
        (x, cos, sin, torch.empty_like(x), heads, half),
        theirs,
        x,
        cos,
        sin,
        bound=ERROR[dtype],
    )


def _halves(places: int, heads: int, half: int, dtype: torch.dtype) -> Row:
    start = [normal(places + i, heads, 2 * half)[:places].to(dtype) for i in range(2)]
    angles = torch.rand(places, half, generator=torch.Generator().manual_seed(3)) * 6
    cos, sin = angles.cos(), angles.sin()
    q, k = (each.clone() for each in start)

    def theirs(
        q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        c, s = cos[:, None], sin[:, None]
        made = []
        for x in (q, k):
            left, right = x[..., :half].to(c.dtype), x[..., half:].to(c.dtype)
            made.append(torch.cat((left * c - right * s, right * c + left * s), -1).to(x.dtype))
        return tuple(made)

    def clear() -> None:
        q.copy_(start[0])
        k.copy_(start[1])

    row = beside_torch(
        f"rotary embedding of queries and keys in place, {places} x {heads} x {2 * half} {kind(dtype)}",
        rotary_of_halves,
        (places,),
        (q, k, cos, sin, heads, half),
        theirs,
        *start,
        cos,
        sin,
        bound=ERROR[dtype],
        clear=clear,
    )
    return replace(row, outputs=(q, k))


def _embedded(batch: int, length: int, width: int) -> Row:
    table, places, w = normal(20000, width), normal(length, width), normal(width)
    tokens = integers(20000, batch * length)
    wide = tokens.long()

    def theirs(table: torch.Tensor, places: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        held = (table[wide].view(batch, length, width) + places).view(-1, width)
        return functional.rms_norm(held, (width,), w, 1e-6)

    return beside_torch(
        f"embeddings of tokens and places, RMS norm, {batch} x {length} x {width} f32",
        embedded,
        (batch * length,),
        (tokens, table, places, w, torch.empty(batch * length, width), length, width),
        theirs,
        table,
        places,
        w,
        bound=1e-5,
    )


def _selective(batch: int, length: int, channels: int, states: int) -> Row:
    x, dt = normal(batch, length, channels), normal(batch, channels, length).mT.abs() * 0.1
    a, dt = -normal(channels, states).abs(), dt.contiguous()
    b, c = normal(batch, length, states), normal(batch, states, length).mT.contiguous()

    def theirs(*given: torch.Tensor) -> torch.Tensor:
        x, dt, a, b, c = given
        state, made = torch.zeros(batch, channels, states, dtype=x.dtype), []
        for t in range(length):
            step = dt[:, t, :, None]
            state = state * torch.exp(step * a) + step * x[:, t, :, None] * b[:, t, None]
            made.append((state * c[:, t, None]).sum(2))
        return torch.stack(made, 1)

    return beside_torch(
        f"selective scan, {batch} x {length} x {channels}, {states} states f32",
        selective_scan,
        (channels // 32, batch),
        (x, dt, a, b, c, torch.empty_like(x), length, 32, states),
        theirs,
        x,
        dt,
        a,
        b,
        c,
        bound=1e-5,
        compiles=False,
        more=_scan_by_numba(x, dt, a, b, c),
    )


def _scan_by_numba(*tensors: torch.Tensor) -> dict[str, Callable[[], object]]:
    if (nb := numba()) is None:
        return {}

    @nb.njit(parallel=True, fastmath=True)
    def run(x, dt, a, b, c, out):
        batch, length, channels = x.shape
        for line in nb.prange(batch * channels):
            i, j = line // channels, line % channels
            state = np.zeros(a.shape[1], np.float32)
            for t in range(length):
                step, total = dt[i, t, j], np.float32(0)
                for n in range(a.shape[1]):
                    state[n] = state[n] * np.exp(step * a[j, n]) + step * x[i, t, j] * b[i, t, n]
                    total += state[n] * c[i, t, n]
                out[i, t, j] = total

    arrays = [array(each) for each in tensors]
    out = np.empty_like(arrays[0])
    return {"numba": lambda: run(*arrays, out)}


def _recurrence(length: int, channels: int) -> Row:
    a, x = torch.sigmoid(normal(length, channels) + 2), normal(channels, length).t().contiguous()

    def theirs(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        out, held = torch.empty_like(x), torch.zeros_like(x[0])
        for t in range(length):
            held = torch.addcmul(x[t], a[t], held)
            out[t] = held
        return out

    return beside_torch(
        f"linear recurrence, {length} x {channels} f32, scans of tiles 32x64",
        linear_recurrence,
        (channels // 64,),
        (a, x, torch.empty_like(x), 32, 64),
        theirs,
        a,
        x,
        bound=1e-5,
        compiles=False,
        more=_recurrence_by_numba(a, x),
    )


def _recurrence_by_numba(*tensors: torch.Tensor) -> dict[str, Callable[[], object]]:
    if (nb := numba()) is None:
        return {}

    @nb.njit(parallel=True, fastmath=True)
    def run(a, x, out):
        width = 64
        for j in nb.prange(x.shape[1] // width):
            held = np.zeros(width, np.float32)
            for t in range(x.shape[0]):
                for lane in range(width):
                    held[lane] = a[t, j * width + lane] * held[lane] + x[t, j * width + lane]
                    out[t, j * width + lane] = held[lane]

    arrays = [array(each) for each in tensors]
    out = np.empty_like(arrays[0])
    return {"numba": lambda: run(*arrays, out)}


def _causal(batch: int, length: int, channels: int, dtype: torch.dtype) -> Row:
    x, w, b = normal(batch, length, channels).to(dtype), normal(channels, 4), normal(channels)

    def theirs(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        held = functional.pad(x.to(w.dtype).mT, (3, 0))
        made = functional.conv1d(held, w[:, None], b, groups=channels)
        return functional.silu(made).mT.to(x.dtype).contiguous()

    return beside_torch(
        f"causal convolution of 4 and silu, {batch} x {length} x {channels} {kind(dtype)}",
        causal_convolution,
        (channels // 64, length // 32, batch),
        (x, w, b, torch.empty_like(x), 4, 32, 64),
        theirs,
        x,
        w,
        b,
        bound=ERROR[dtype],
    )


def _starts(count: int, longest: int) -> torch.Tensor:
    lengths = integers(longest, count) + 1
    return torch.cat((torch.zeros(1, dtype=torch.int32), lengths.cumsum(0).int()))


def _segments(count: int, longest: int) -> Row:
    starts = _starts(count, longest)
    x = normal(int(starts[-1]))
    owner = torch.repeat_interleave(torch.arange(count), starts.diff().long())

    def theirs(x: torch.Tensor) -> torch.Tensor:
        most = torch.full((count,), -math.inf, dtype=x.dtype).scatter_reduce_(0, owner, x, "amax")
        raised = torch.exp(x - most[owner])
        return raised / torch.zeros(count, dtype=x.dtype).scatter_add_(0, owner, raised)[owner]

    return beside_torch(
        f"softmax of {count} segments of up to {longest} f32",
        softmax_of_segments,
        (count,),
        (x, starts, torch.empty_like(x), 1 << (longest - 1).bit_length()),
        theirs,
        x,
        bound=1e-5,
    )


def _padded(count: int, longest: int, width: int, dtype: torch.dtype) -> Row:
    starts = _starts(count, longest)
    x = normal(int(starts[-1]), width).to(dtype)
    owner = torch.repeat_interleave(torch.arange(count), starts.diff().long())
    place = torch.arange(len(x)) - starts[owner]

    def theirs(x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(count, longest, width, dtype=x.dtype)
        out[owner, place] = x
        return out

    return beside_torch(
        f"{count} ragged sequences to {longest} x {width} {kind(dtype)}",
        padded_batch,
        (-(-longest // 16), count),
        (x, starts, torch.empty(count, longest, width, dtype=dtype), longest, width, 16),
        theirs,
        x,
    )


def _dropout(many: int, dtype: torch.dtype) -> Row:
    x, residual = normal(many).to(dtype), normal(many + 1)[1:].to(dtype)
    mask = 0xFFFFFFFF

    def drawn() -> torch.Tensor:
        c0 = torch.arange(many)
        c1, c2, c3 = (torch.zeros_like(c0) for _ in range(3))
        k0, k1 = 17, 0
        for _ in range(10):
            low, high = c0 * 0xD2511F53, c2 * 0xCD9E8D57
            c0, c2 = ((high >> 32) & mask) ^ c1 ^ k0, ((low >> 32) & mask) ^ c3 ^ k1
            c1, c3 = high & mask, low & mask
            k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
        return c0

    def theirs(x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        wide = x.dtype if x.dtype == torch.float64 else _F32
        kept = torch.where((drawn() >> 8) < 13421773, x.to(wide) * 1.25, 0.0)
        return (kept + residual.to(wide)).to(x.dtype)

    return beside_torch(
        f"dropout by Philox and a residual, {many >> 20}M {kind(dtype)}",
        dropout_added,
        (many // 1024,),
        (x, residual, torch.empty_like(x), 17, 1024),
        theirs,
        x,
        residual,
        bound=ERROR[dtype],
        more={"torch, its own": lambda: functional.dropout(x, 0.2) + residual},
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _pairs(1024, 16, 32, _F32),
        lambda: _pairs(1024, 16, 32, _BF16),
        lambda: _halves(1024, 8, 64, _BF16),
        lambda: _halves(1024, 8, 32, _F32),
        lambda: _embedded(8, 512, 512),
        lambda: _selective(2, 512, 256, 16),
        lambda: _recurrence(2048, 512),
        lambda: _causal(2, 1024, 512, _BF16),
        lambda: _causal(2, 1024, 512, _F32),
        lambda: _segments(2000, 500),
        lambda: _padded(64, 200, 128, _F16),
        lambda: _dropout(1 << 20, _BF16),
    ]
