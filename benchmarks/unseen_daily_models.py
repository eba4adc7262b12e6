"""Attention and its gradients, caches, quantised weights, bags of rows, as daily work has them."""

from __future__ import annotations

import math
from collections.abc import Callable

import cuda.tile as ct
import torch
from torch.nn import functional

from benchmarks.unseen_rows import ERROR, Row, beside_torch, integers, kind, normal

_ZERO, _LEAST = ct.PaddingMode.ZERO, ct.PaddingMode.NEG_INF
_F32, _BF16, _F16 = torch.float32, torch.bfloat16, torch.float16


@ct.kernel
def padded_attention(
    q,
    k,
    v,
    lengths,
    out,
    rows: ct.Constant[int],
    columns: ct.Constant[int],
    depth: ct.Constant[int],
    scale,
):
    """Sequences of several lengths, heads whose depth is no power of two: [sequence, head, place, depth]."""
    i, head, sequence = ct.bid(0), ct.bid(1), ct.bid(2)
    left = ct.load(q, (sequence, head, i, 0), (1, 1, rows, depth), padding_mode=_ZERO).reshape(
        (rows, depth)
    )
    length = ct.load(lengths, (sequence,), (1,)).item()
    most = ct.full((rows, 1), -math.inf, ct.float32)
    total, held = ct.zeros((rows, 1), ct.float32), ct.zeros((rows, depth), ct.float32)
    for j in range(ct.cdiv(length, columns)):
        keys = ct.load(
            k,
            (sequence, head, 0, j),
            (1, 1, depth, columns),
            order=(0, 1, 3, 2),
            padding_mode=_ZERO,
        ).reshape((depth, columns))
        score = ct.mma(left, keys, ct.zeros((rows, columns), ct.float32)) * scale
        column = j * columns + ct.arange(columns, dtype=ct.int32).reshape((1, columns))
        score = ct.where(column < length, score, -math.inf)
        higher = ct.maximum(most, ct.max(score, 1, keepdims=True))
        raised, shrunk = ct.exp2(score - higher), ct.exp2(most - higher)
        total = total * shrunk + ct.sum(raised, 1, keepdims=True)
        values = ct.load(
            v, (sequence, head, j, 0), (1, 1, columns, depth), padding_mode=_ZERO
        ).reshape((columns, depth))
        held = ct.mma(raised.astype(values.dtype), values, held * shrunk)
        most = higher
    ct.store(
        out, (sequence, head, i, 0), (held / total).astype(out.dtype).reshape((1, 1, rows, depth))
    )


@ct.kernel
def attention_backward(
    q, k, v, given, logs, deltas, dk, dv, tile: ct.Constant[int], depth: ct.Constant[int]
):
    """Gradients of some keys and values of a causal head: all later queries in turn."""
    j, head = ct.bid(0), ct.bid(1)
    keys = ct.load(k, (head, j, 0), (1, tile, depth)).reshape((tile, depth))
    values = ct.load(v, (head, j, 0), (1, tile, depth)).reshape((tile, depth))
    of_keys, of_values = ct.zeros((tile, depth), ct.float32), ct.zeros((tile, depth), ct.float32)
    column = (j * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    for i in range(j, ct.num_tiles(q, 1, (1, tile, depth))):
        left = ct.load(q, (head, i, 0), (1, tile, depth)).reshape((tile, depth))
        rise = ct.load(given, (head, i, 0), (1, tile, depth)).reshape((tile, depth))
        score = ct.mma(left, ct.transpose(keys), ct.zeros((tile, tile), ct.float32)) * depth**-0.5
        row = (i * tile + ct.arange(tile, dtype=ct.int32)).reshape((tile, 1))
        log = ct.load(logs, (head, i), (1, tile)).reshape((tile, 1))
        weight = ct.where(column <= row, ct.exp(score - log), 0.0)
        of_values = ct.mma(ct.transpose(weight.astype(rise.dtype)), rise, of_values)
        slope = ct.mma(rise, ct.transpose(values), ct.zeros((tile, tile), ct.float32))
        slope = weight * (slope - ct.load(deltas, (head, i), (1, tile)).reshape((tile, 1)))
        of_keys = ct.mma(ct.transpose((slope * depth**-0.5).astype(left.dtype)), left, of_keys)
    ct.store(dk, (head, j, 0), of_keys.astype(dk.dtype).reshape((1, tile, depth)))
    ct.store(dv, (head, j, 0), of_values.astype(dv.dtype).reshape((1, tile, depth)))


@ct.kernel
def retention(q, k, v, rates, out, tile: ct.Constant[int], depth: ct.Constant[int]):
    """Linear attention with a decay for each head, by pieces: what came before is one matrix."""
    head = ct.bid(0)
    rate = ct.load(rates, (head,), (1,)).item()  # log2 of the decay
    place = ct.arange(tile, dtype=ct.int32)
    apart = (place.reshape((tile, 1)) - place.reshape((1, tile))).astype(ct.float32)
    within = ct.where(apart >= 0.0, ct.exp2(apart * rate), 0.0)
    before = ct.exp2((place + 1).astype(ct.float32) * rate).reshape((tile, 1))
    after = ct.exp2((tile - 1 - place).astype(ct.float32) * rate).reshape((tile, 1))
    whole = ct.exp2(rate * tile)
    state = ct.zeros((depth, depth), ct.float32)
    for i in range(ct.num_tiles(q, 1, (1, tile, depth))):
        left = ct.load(q, (head, i, 0), (1, tile, depth)).reshape((tile, depth))
        keys = ct.load(k, (head, i, 0), (1, tile, depth)).reshape((tile, depth))
        values = ct.load(v, (head, i, 0), (1, tile, depth)).reshape((tile, depth))
        score = ct.mma(left, ct.transpose(keys), ct.zeros((tile, tile), ct.float32)) * within
        found = ct.mma(left, state.astype(left.dtype), ct.zeros((tile, depth), ct.float32)) * before
        found = ct.mma(score.astype(values.dtype), values, found)
        ct.store(out, (head, i, 0), found.astype(out.dtype).reshape((1, tile, depth)))
        faded = (keys.astype(ct.float32) * after).astype(values.dtype)
        state = ct.mma(ct.transpose(faded), values, state * whole)


@ct.kernel
def cache_append(
    keys,
    slots,
    cache,
    page: ct.Constant[int],
    depth: ct.Constant[int],
    piece: ct.Constant[int],
    tile: ct.Constant[int],
):
    """Keys of new tokens, [token, head x depth], to pages of [head, depth / piece, place, piece]; -1: nowhere."""
    token, j = ct.bid(1), ct.bid(0)
    slot = ct.gather(slots, token)
    flat = j * tile + ct.arange(tile, dtype=ct.int32)
    head, lane = flat // depth, flat % depth
    at = (slot // page, head, lane // piece, slot % page, lane % piece)
    ct.scatter(cache, at, ct.gather(keys, (token, flat)), mask=(slot >= 0) & (flat >= 0))


@ct.kernel
def weights_of_bytes(
    x, w, scales, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]
):
    """x times weights of i8, [n, k], a scale for each k of a row."""
    j = ct.bid(0)
    total = ct.zeros((m, n), ct.float32)
    for step in range(ct.num_tiles(x, 1, (m, k))):
        held = ct.load(w, (j, step), (n, k)).astype(x.dtype) * ct.load(scales, (j, step), (n, 1))
        total = ct.mma(ct.load(x, (0, step), (m, k), padding_mode=_ZERO), ct.transpose(held), total)
    ct.store(out, (0, j), total.astype(out.dtype))


@ct.kernel
def from_fours(x, scales, table, out, tile: ct.Constant[int]):
    """Numbers of four bits by a table, the low half of a byte first; an exponent for each 32: MXFP4."""
    row, j = ct.bid(1), ct.bid(0)
    held = ct.load(x, (row, j), (1, tile)).reshape((tile, 1)).astype(ct.int32)
    both = ct.gather(table, (ct.cat((held & 15, held >> 4), 1),)).reshape((tile // 16, 32))
    power = ct.load(scales, (row, j), (1, tile // 16)).reshape((tile // 16, 1)).astype(ct.float32)
    ct.store(
        out, (row, j), (both * ct.exp2(power - 127.0)).astype(out.dtype).reshape((1, 2 * tile))
    )


@ct.kernel
def bags(table, names, starts, weights, out, tile: ct.Constant[int]):
    """Weighted sums of rows of a table, as many as each bag has."""
    bag, j = ct.bid(1), ct.bid(0)
    column = j * tile + ct.arange(tile, dtype=ct.int32)
    at, end = ct.gather(starts, bag), ct.gather(starts, bag + 1)
    total = ct.zeros((tile,), ct.float32)
    while at < end:
        held = ct.gather(table, (ct.gather(names, at), column)).astype(ct.float32)
        total += ct.gather(weights, at) * held
        at += 1
    ct.scatter(out, (bag, column), total.astype(out.dtype))


def _padded(sequences: int, heads: int, length: int, depth: int, dtype: torch.dtype) -> Row:
    q, k, v = (
        normal(sequences, heads, length, depth + i)[..., :depth].contiguous().to(dtype)
        for i in range(3)
    )
    lengths = (integers(length - 64, sequences) + 64).int()
    mask = (torch.arange(length) < lengths[:, None])[:, None, None]
    return beside_torch(
        f"attention of {sequences} x {heads} heads under lengths, {length} x {depth} {kind(dtype)}",
        padded_attention,
        (length // 64, heads, sequences),
        (
            q,
            k,
            v,
            lengths,
            torch.empty_like(q),
            64,
            64,
            1 << (depth - 1).bit_length(),
            depth**-0.5 * math.log2(math.e),
        ),
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        q,
        k,
        v,
        bound=max(ERROR[dtype], 2e-5) * 2,
    )


def _attention_backward(heads: int, length: int, depth: int, dtype: torch.dtype) -> Row:
    q, k, v, given = (
        normal(heads, length + i, depth)[:, :length].contiguous().to(dtype) for i in range(4)
    )
    beyond = torch.ones(length, length, dtype=torch.bool).triu(1)
    score = ((q.double() @ k.double().mT) * depth**-0.5).masked_fill(beyond, -math.inf)
    logs = torch.logsumexp(score, -1).float()
    deltas = ((torch.softmax(score, -1) @ v.double()) * given.double()).sum(-1).float()

    def theirs(q, k, v, given, logs, deltas):
        score = ((q @ k.mT) * depth**-0.5).masked_fill(beyond, -math.inf)
        weight = torch.exp(score.to(logs.dtype) - logs[..., None])
        slope = weight * ((given @ v.mT).to(logs.dtype) - deltas[..., None]) * depth**-0.5
        return slope.to(q.dtype).mT @ q, weight.to(given.dtype).mT @ given

    def own():
        leaves = [each[None].detach().requires_grad_() for each in (q, k, v)]
        out = functional.scaled_dot_product_attention(*leaves, is_causal=True)
        return torch.autograd.grad(out, leaves, given[None])

    return beside_torch(
        f"gradients of keys and values, causal, {heads} heads, {length} x {depth} {kind(dtype)}",
        attention_backward,
        (length // 64, heads),
        (q, k, v, given, logs, deltas, torch.empty_like(k), torch.empty_like(v), 64, depth),
        theirs,
        q,
        k,
        v,
        given,
        logs,
        deltas,
        outputs=2,
        bound=max(ERROR[dtype], 2e-5) * 3,
        more={"torch, its own": own},
    )


def _retention(heads: int, length: int, depth: int, tile: int, dtype: torch.dtype) -> Row:
    q, k, v = (0.1 * normal(heads, length + i, depth)[:, :length].contiguous() for i in range(3))
    q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    rates = torch.log2(1.0 - 2.0 ** -torch.linspace(3, 7, heads))

    def theirs(q, k, v, rates):
        apart = torch.arange(length)[:, None] - torch.arange(length)
        within = torch.exp2(apart.clamp(min=0) * rates[:, None, None]) * (apart >= 0)
        return ((q @ k.mT) * within.to(q.dtype)) @ v

    def pieces(q, k, v):
        place = torch.arange(tile)
        apart = place[:, None] - place
        within = (torch.exp2(apart.clamp(min=0) * rates[:, None, None]) * (apart >= 0)).to(dtype)
        before = torch.exp2((place + 1) * rates[:, None])[..., None].to(dtype)
        after = torch.exp2((tile - 1 - place) * rates[:, None])[..., None].to(dtype)
        whole, state = (
            torch.exp2(rates * tile)[:, None, None].to(dtype),
            torch.zeros(heads, depth, depth, dtype=dtype),
        )
        found = []
        for a, b, c in zip(q.split(tile, 1), k.split(tile, 1), v.split(tile, 1)):
            found.append((a @ state) * before + ((a @ b.mT) * within) @ c)
            state = state * whole + (b * after).mT @ c
        return torch.cat(found, 1)

    return beside_torch(
        f"retention, {heads} heads, {length} x {depth} {kind(dtype)}, tiles of {tile}",
        retention,
        (heads,),
        (q, k, v, rates, torch.empty_like(q), tile, depth),
        theirs,
        q,
        k,
        v,
        rates,
        bound=max(ERROR[dtype], 2e-5) * 3,
        more={"torch, pieces": lambda: pieces(q, k, v)},
    )


def _cache(tokens: int, heads: int, depth: int, page: int, dtype: torch.dtype) -> Row:
    piece, pages = 16 // dtype.itemsize, tokens // page + 8
    keys = normal(tokens, heads * depth).to(dtype)
    slots = torch.randperm(pages * page, generator=torch.Generator().manual_seed(3))[:tokens].int()
    slots[::17] = -1
    cache = torch.zeros(pages, heads, depth // piece, page, piece, dtype=dtype)
    kept, wide = torch.arange(tokens)[slots >= 0], slots[slots >= 0].long()
    other = torch.zeros_like(cache)

    def theirs(keys):
        other[wide // page, :, :, wide % page] = keys[kept].view(-1, heads, depth // piece, piece)
        return other

    return beside_torch(
        f"keys of {tokens} tokens of {heads} x {depth} {kind(dtype)} to pages of {page}",
        cache_append,
        (heads * depth // 512, tokens),
        (keys, slots, cache, page, depth, piece, 512),
        theirs,
        keys,
        compiles=False,
    )


def _weights_of_bytes(m: int, n: int, k: int, tile: int, dtype: torch.dtype) -> Row:
    x, w = normal(m, k).to(dtype), (integers(255, n, k) - 127).to(torch.int8)
    scales = (normal(n, k // 128).abs() / 127 + 0.001).to(dtype)

    def theirs(x, w, scales):
        return x @ (w.view(n, -1, 128).to(x.dtype) * scales[..., None]).view(n, k).t()

    return beside_torch(
        f"{m} x {k} times {n} rows of i8 by scales of 128, {kind(dtype)}, tiles {tile}x64x128",
        weights_of_bytes,
        (n // 64,),
        (x, w, scales, torch.empty(m, n, dtype=dtype), tile, 64, 128),
        theirs,
        x,
        w,
        scales,
        bound=max(ERROR[dtype], 2e-5) * 2,
    )


def _from_fours(rows: int, width: int, dtype: torch.dtype) -> Row:
    x, scales = (
        integers(256, rows, width // 2, dtype=torch.uint8),
        (integers(8, rows, width // 32) + 120).to(torch.uint8),
    )
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])

    def theirs(x, scales):
        both = torch.stack((x & 15, x >> 4), -1).view(rows, -1, 32)
        return (
            (table[both.int()] * torch.exp2(scales.float() - 127)[..., None])
            .view(rows, width)
            .to(dtype)
        )

    return beside_torch(
        f"MXFP4 to {kind(dtype)}, {rows} x {width}",
        from_fours,
        (width // 1024, rows),
        (x, scales, table, torch.empty(rows, width, dtype=dtype), 512),
        theirs,
        x,
        scales,
    )


def _bags(bags_: int, mean: int, table_rows: int, width: int, dtype: torch.dtype) -> Row:
    sizes = integers(2 * mean + 1, bags_)
    starts = functional.pad(sizes.cumsum(0), (1, 0)).int()
    many = int(starts[-1])
    names, weights, table = (
        integers(table_rows, many),
        normal(many),
        normal(table_rows, width).to(dtype),
    )
    wide, at = names.long(), starts[:-1].long()

    def theirs(table, weights):
        return functional.embedding_bag(
            wide, table, at, mode="sum", per_sample_weights=weights.to(table.dtype)
        )

    return beside_torch(
        f"{bags_} bags of some {mean} rows of {width} {kind(dtype)}, weighted",
        bags,
        (width // 128, bags_),
        (table, names, starts, weights, torch.empty(bags_, width, dtype=dtype), 128),
        theirs,
        table,
        weights,
        bound=ERROR[dtype] * 4,
        compiles=False,
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _padded(4, 8, 512, 80, _F32),
        lambda: _padded(4, 8, 512, 80, _F16),
        lambda: _attention_backward(8, 512, 64, _F32),
        lambda: _attention_backward(8, 512, 64, _BF16),
        lambda: _retention(16, 1024, 64, 64, _F32),
        lambda: _retention(16, 1024, 64, 32, _BF16),
        lambda: _cache(1024, 8, 128, 16, _F16),
        lambda: _cache(1024, 8, 128, 16, _F32),
        lambda: _weights_of_bytes(16, 2048, 2048, 16, _F16),
        lambda: _weights_of_bytes(5, 2048, 2048, 8, _F32),
        lambda: _from_fours(1024, 4096, _BF16),
        lambda: _from_fours(1024, 4096, _F32),
        lambda: _bags(2048, 20, 20000, 256, _F32),
        lambda: _bags(2048, 20, 20000, 256, _BF16),
    ]
