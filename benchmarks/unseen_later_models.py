"""Attention, experts and layers, as programs for GPUs have them."""

from __future__ import annotations

import math
from collections.abc import Callable

import cuda.tile as ct
import torch
from torch.nn import functional

from benchmarks.unseen_rows import ERROR, Row, beside_torch, integers, kind, normal

_F32, _BF16, _F16 = torch.float32, torch.bfloat16, torch.float16


@ct.kernel
def grouped_attention(
    q,
    k,
    v,
    out,
    group: ct.Constant[int],
    cap: ct.Constant[float],
    rows: ct.Constant[int],
    depth: ct.Constant[int],
):
    """Causal; some query heads share a key head; scores are bent below a cap by tanh."""
    i, head = ct.bid(0), ct.bid(1)
    left = ct.load(q, (head, i, 0), (1, rows, depth)).reshape((rows, depth))
    most = ct.full((rows, 1), -math.inf, ct.float32)
    total, held = ct.zeros((rows, 1), ct.float32), ct.zeros((rows, depth), ct.float32)
    at = (i * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    for j in range(i + 1):
        keys = ct.load(k, (head // group, j, 0), (1, rows, depth)).reshape((rows, depth))
        score = ct.mma(left, ct.transpose(keys), ct.zeros((rows, rows), ct.float32))
        score = cap * ct.tanh(score * (depth**-0.5 / cap))
        column = (j * rows + ct.arange(rows, dtype=ct.int32)).reshape((1, rows))
        score = ct.where(column <= at, score, -math.inf)
        higher = ct.maximum(most, ct.max(score, 1, keepdims=True))
        raised, shrunk = ct.exp(score - higher), ct.exp(most - higher)
        total = total * shrunk + ct.sum(raised, 1, keepdims=True)
        values = ct.load(v, (head // group, j, 0), (1, rows, depth)).reshape((rows, depth))
        held = ct.mma(raised.astype(values.dtype), values, held * shrunk)
        most = higher
    ct.store(out, (head, i, 0), (held / total).astype(out.dtype).reshape((1, rows, depth)))


@ct.kernel
def window_attention(
    q,
    k,
    v,
    slopes,
    out,
    window: ct.Constant[int],
    rows: ct.Constant[int],
    columns: ct.Constant[int],
    depth: ct.Constant[int],
):
    """The last keys of a window only, with a bias by distance; q and out are [place, head, depth]."""
    i, head = ct.bid(0), ct.bid(1)
    left = ct.load(q, (i, head, 0), (rows, 1, depth)).reshape((rows, depth))
    slope = ct.load(slopes, (head,), (1,)).reshape((1, 1))
    most = ct.full((rows, 1), -1e30, ct.float32)
    total, held = ct.zeros((rows, 1), ct.float32), ct.zeros((rows, depth), ct.float32)
    at = (i * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    first = max(i * rows - window + 1, 0) // columns
    for j in range(first, ct.cdiv((i + 1) * rows, columns)):
        keys = ct.load(k, (j, head, 0), (columns, 1, depth)).reshape((columns, depth))
        score = ct.matmul(left, ct.transpose(keys)).astype(ct.float32) * depth**-0.5
        apart = at - (j * columns + ct.arange(columns, dtype=ct.int32)).reshape((1, columns))
        score = score - slope * apart.astype(ct.float32)
        score = ct.where((apart >= 0) & (apart < window), score, -1e30)
        higher = ct.maximum(most, ct.max(score, 1, keepdims=True))
        raised = ct.where((apart >= 0) & (apart < window), ct.exp(score - higher), 0.0)
        shrunk = ct.exp(most - higher)
        total = total * shrunk + ct.sum(raised, 1, keepdims=True)
        values = ct.load(v, (j, head, 0), (columns, 1, depth)).reshape((columns, depth))
        held = ct.mma(raised.astype(values.dtype), values, held * shrunk)
        most = higher
    ct.store(out, (i, head, 0), (held / total).astype(out.dtype).reshape((rows, 1, depth)))


@ct.kernel
def decode_parts(
    q,
    k,
    v,
    parts,
    logs,
    group: ct.Constant[int],
    rounds: ct.Constant[int],
    tile: ct.Constant[int],
    depth: ct.Constant[int],
):
    """One query of each head against a part of the keys: what it finds there, and its weight."""
    head, part = ct.bid(0), ct.bid(1)
    query = ct.load(q, (head, 0), (group, depth))
    most = ct.full((group, 1), -math.inf, ct.float32)
    total, held = ct.zeros((group, 1), ct.float32), ct.zeros((group, depth), ct.float32)
    for step in range(rounds):
        keys = ct.load(k, (head, part * rounds + step, 0), (1, tile, depth)).reshape((tile, depth))
        score = ct.mma(query, ct.transpose(keys), ct.zeros((group, tile), ct.float32))
        score = score * depth**-0.5
        higher = ct.maximum(most, ct.max(score, 1, keepdims=True))
        raised, shrunk = ct.exp(score - higher), ct.exp(most - higher)
        total = total * shrunk + ct.sum(raised, 1, keepdims=True)
        values = ct.load(v, (head, part * rounds + step, 0), (1, tile, depth)).reshape(
            (tile, depth)
        )
        held = ct.mma(raised.astype(values.dtype), values, held * shrunk)
        most = higher
    ct.store(parts, (part, head, 0), (held / total).reshape((1, group, depth)))
    ct.store(logs, (part, head), (most + ct.log(total)).reshape((1, group)))


@ct.kernel
def merged_parts(parts, logs, out, count: ct.Constant[int], depth: ct.Constant[int]):
    """Parts of an attention by their weights."""
    head = ct.bid(0)
    weight = ct.load(logs, (0, head), (count, 1)).reshape((count, 1))
    weight = ct.exp(weight - ct.max(weight, 0, keepdims=True))
    held = ct.load(parts, (0, head, 0), (count, 1, depth)).reshape((count, depth))
    found = ct.sum(held * weight, 0) / ct.sum(weight, 0)
    ct.store(out, (head, 0), found.astype(out.dtype).reshape((1, depth)))


@ct.kernel
def paged_decode(q, k, v, tables, lengths, out, page: ct.Constant[int], depth: ct.Constant[int]):
    """One query of a sequence and a head; keys lie in pages that a table names: [page, head, place, depth]."""
    sequence, head = ct.bid(0), ct.bid(1)
    query = ct.load(q, (sequence, head, 0), (1, 1, depth)).reshape((1, depth)).astype(ct.float32)
    length = ct.load(lengths, (sequence,), (1,)).item()
    most, total = -math.inf, 0.0
    held = ct.zeros((depth,), ct.float32)
    for j in range(ct.cdiv(length, page)):
        number = ct.load(tables, (sequence, j), (1, 1)).item()
        keys = ct.load(k, (number, head, 0, 0), (1, 1, page, depth)).reshape((page, depth))
        score = ct.sum(keys.astype(ct.float32) * query, 1) * depth**-0.5
        score = ct.where(j * page + ct.arange(page, dtype=ct.int32) < length, score, -math.inf)
        higher = max(most, ct.max(score))
        raised, shrunk = ct.exp(score - higher), ct.exp(most - higher)
        total = total * shrunk + ct.sum(raised)
        values = ct.load(v, (number, head, 0, 0), (1, 1, page, depth)).reshape((page, depth))
        held = held * shrunk + ct.sum(values.astype(ct.float32) * raised.reshape((page, 1)), 0)
        most = higher
    ct.store(out, (sequence, head, 0), (held / total).astype(out.dtype).reshape((1, 1, depth)))


@ct.kernel
def routed(
    logits,
    weights,
    chosen,
    picks: ct.Constant[int],
    rows: ct.Constant[int],
    experts: ct.Constant[int],
):
    """The most likely experts one after the other, their weights normalised."""
    i = ct.bid(0)
    held = ct.load(logits, (i, 0), (rows, experts))
    held = ct.exp(held - ct.max(held, 1, keepdims=True))
    column = ct.arange(experts, dtype=ct.int32).reshape((1, experts))
    slot = ct.arange(picks, dtype=ct.int32).reshape((1, picks))
    found = ct.zeros((rows, picks), ct.float32)
    names = ct.zeros((rows, picks), ct.int32)
    for pick in range(picks):
        best = ct.argmax(held, 1).reshape((rows, 1))
        value = ct.max(held, 1, keepdims=True)
        found = ct.where(slot == pick, value, found)
        names = ct.where(slot == pick, best.astype(ct.int32), names)
        held = ct.where(column == best, -1.0, held)
    ct.store(weights, (i, 0), found / ct.sum(found, 1, keepdims=True))
    ct.store(chosen, (i, 0), names)


@ct.kernel
def places_in_experts(chosen, places, counts, tile: ct.Constant[int], experts: ct.Constant[int]):
    """One block: where each token stands among those of its expert, by running sums of one-hot rows."""
    name = ct.arange(experts, dtype=ct.int32).reshape((1, experts))
    seen = ct.zeros((1, experts), ct.int32)
    for i in range(ct.num_tiles(chosen, 0, (tile,))):
        mine = ct.load(chosen, (i,), (tile,)).reshape((tile, 1))
        hot = ct.where(mine == name, 1, 0)
        before = ct.cumsum(hot, 0) - hot + seen
        ct.store(places, (i,), ct.sum(ct.where(mine == name, before, 0), 1))
        seen = seen + ct.sum(hot, 0, keepdims=True)
    ct.store(counts, (0,), seen.reshape((experts,)))


@ct.kernel
def grouped_product(
    x, w, order, owner, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]
):
    """Rows sorted by expert, padded to whole tiles; the expert of each tile is in a table."""
    i, j = ct.bid(0), ct.bid(1)
    expert = ct.load(owner, (i,), (1,)).item()
    token = ct.load(order, (i,), (m,)).reshape((m, 1))
    lane = ct.arange(k, dtype=ct.int32).reshape((1, k))
    total = ct.zeros((m, n), ct.float32)
    for step in range(ct.cdiv(x.shape[1], k)):
        left = ct.gather(x, (token, step * k + lane), mask=token < x.shape[0], padding_value=0)
        right = ct.load(w, (expert, j, step), (1, n, k)).reshape((n, k))
        total = ct.mma(left, ct.transpose(right), total)
    ct.store(out, (i, j), total.astype(out.dtype))


@ct.kernel
def combined(y, slots, weights, out, picks: ct.Constant[int], tile: ct.Constant[int]):
    """A token's row: those of its experts, weighted."""
    token, j = ct.bid(0), ct.bid(1)
    column = j * tile + ct.arange(tile, dtype=ct.int32)
    total = ct.zeros((tile,), ct.float32)
    for pick in range(picks):
        slot, weight = ct.gather(slots, (token, pick)), ct.gather(weights, (token, pick))
        total += weight * ct.gather(y, (slot, column)).astype(ct.float32)
    ct.scatter(out, (token, column), total.astype(out.dtype))


@ct.kernel
def low_rank(
    x,
    w,
    a,
    b,
    out,
    m: ct.Constant[int],
    n: ct.Constant[int],
    k: ct.Constant[int],
    rank: ct.Constant[int],
):
    """A layer and what was learnt beside it: x w + (x a) b."""
    i, j = ct.bid(0), ct.bid(1)
    total, thin = ct.zeros((m, n), ct.float32), ct.zeros((m, rank), ct.float32)
    for step in range(ct.num_tiles(x, 1, (m, k))):
        left = ct.load(x, (i, step), (m, k))
        total = ct.mma(left, ct.load(w, (step, j), (k, n)), total)
        thin = ct.mma(left, ct.load(a, (step, 0), (k, rank)), thin)
    total = ct.mma((thin * 2.0).astype(x.dtype), ct.load(b, (0, j), (rank, n)), total)
    ct.store(out, (i, j), total.astype(out.dtype))


def _attention(heads: int, group: int, length: int, depth: int, dtype: torch.dtype) -> Row:
    q = normal(heads, length, depth).to(dtype)
    k, v = (normal(heads // group, length + i, depth)[:, :length].to(dtype) for i in (1, 2))
    k, v = k.contiguous(), v.contiguous()
    beyond = torch.ones(length, length, dtype=torch.bool).triu(1)

    def theirs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        k, v = (each.repeat_interleave(group, 0) for each in (k, v))
        score = 20.0 * torch.tanh((q @ k.mT) * (1.0 / math.sqrt(depth) / 20.0))
        return torch.softmax(score.masked_fill(beyond, -math.inf), -1) @ v

    return beside_torch(
        f"causal attention under a cap, {heads} heads, {group} for a key, {length} x {depth} {kind(dtype)}",
        grouped_attention,
        (length // 64, heads),
        (q, k, v, torch.empty_like(q), group, 20.0, 64, depth),
        theirs,
        q,
        k,
        v,
        bound=max(ERROR[dtype], 2e-5) * 2,
    )


def _window(heads: int, length: int, depth: int, window: int, dtype: torch.dtype) -> Row:
    q, k, v = (normal(length + i, heads, depth)[:length].to(dtype) for i in range(3))
    slopes = 2.0 ** -torch.arange(1, heads + 1).float()
    apart = torch.arange(length)[:, None] - torch.arange(length)
    beyond = (apart < 0) | (apart >= window)

    def theirs(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, slopes: torch.Tensor
    ) -> torch.Tensor:
        bias = -(slopes[:, None, None] * apart).masked_fill(beyond, math.inf)
        q, k, v = (each.transpose(0, 1) for each in (q, k, v))
        found = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        return found.transpose(0, 1).contiguous()

    return beside_torch(
        f"attention to the last {window} of {length}, {heads} heads of {depth} {kind(dtype)}",
        window_attention,
        (length // 64, heads),
        (q, k, v, slopes, torch.empty_like(q), window, 64, 32, depth),
        theirs,
        q,
        k,
        v,
        slopes,
        bound=max(ERROR[dtype], 2e-5) * 2,
    )


def _decode(heads: int, group: int, length: int, parts: int, dtype: torch.dtype) -> Row:
    depth, tile = 128, 64
    q = normal(heads * group, depth).to(dtype)
    k, v = (normal(heads, length + i, depth)[:, :length].to(dtype).contiguous() for i in (1, 2))

    def theirs(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        queries = q.view(heads, 1, group, depth)
        keys, values = (each.view(heads, parts, -1, depth) for each in (k, v))
        score = (queries @ keys.mT).to(torch.float64 if q.dtype == torch.float64 else _F32)
        score = score / math.sqrt(depth)
        logs = torch.logsumexp(score, -1)
        found = torch.exp(score - logs[..., None]).to(q.dtype) @ values
        return found.transpose(0, 1).reshape(parts, heads * group, depth), logs.transpose(
            0, 1
        ).reshape(parts, heads * group)

    return beside_torch(
        f"{parts} parts of decoding, {heads} x {group} heads of 128, {length} keys {kind(dtype)}",
        decode_parts,
        (heads, parts),
        (
            q,
            k,
            v,
            torch.empty(parts, heads * group, depth),
            torch.empty(parts, heads * group),
            group,
            length // parts // tile,
            tile,
            depth,
        ),
        theirs,
        q,
        k,
        v,
        outputs=2,
        bound=max(ERROR[dtype], 2e-5) * 2,
    )


def _merged(count: int, heads: int, depth: int) -> Row:
    parts, logs = normal(count, heads, depth), normal(count, heads) * 3
    return beside_torch(
        f"{count} parts of attention merged, {heads} x {depth} f32",
        merged_parts,
        (heads,),
        (parts, logs, torch.empty(heads, depth), count, depth),
        lambda parts, logs: (torch.softmax(logs, 0)[..., None] * parts).sum(0),
        parts,
        logs,
        bound=1e-5,
    )


def _paged(sequences: int, heads: int, longest: int, dtype: torch.dtype) -> Row:
    page, depth, pages = 16, 64, sequences * longest // 16
    q = normal(sequences, heads, depth).to(dtype)
    k, v = (normal(pages, heads, page + i, depth)[:, :, :page].to(dtype) for i in range(2))
    k, v = k.contiguous(), v.contiguous()
    tables = torch.randperm(pages, generator=torch.Generator().manual_seed(1)).int()
    tables = tables.view(sequences, -1)
    lengths = integers(longest // 2, sequences) + longest // 2
    wide, beyond = tables.long(), torch.arange(longest) >= lengths[:, None, None]

    def theirs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        keys, values = (
            each[wide].transpose(1, 2).reshape(sequences, heads, longest, depth) for each in (k, v)
        )
        mask = ~beyond[:, :, None, :]
        found = functional.scaled_dot_product_attention(q[:, :, None], keys, values, attn_mask=mask)
        return found[:, :, 0]

    return beside_torch(
        f"paged decoding, {sequences} sequences up to {longest}, {heads} heads of 64 {kind(dtype)}",
        paged_decode,
        (sequences, heads),
        (q, k, v, tables, lengths, torch.empty_like(q), page, depth),
        theirs,
        q,
        k,
        v,
        bound=max(ERROR[dtype], 2e-5) * 2,
    )


def _routed(rows: int, experts: int, picks: int) -> Row:
    logits = normal(rows, experts)

    def theirs(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weights, chosen = torch.topk(torch.softmax(x, 1), picks, 1)
        return weights / weights.sum(1, keepdim=True), chosen.int()

    return beside_torch(
        f"the {picks} best of {experts} experts for {rows} rows",
        routed,
        (rows // 16,),
        (
            logits,
            torch.empty(rows, picks),
            torch.empty(rows, picks, dtype=torch.int32),
            picks,
            16,
            experts,
        ),
        theirs,
        logits,
        outputs=2,
        bound=1e-5,
    )


def _places(tokens: int, experts: int) -> Row:
    chosen = integers(experts, tokens)
    wide = chosen.long()

    def theirs(chosen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hot = functional.one_hot(wide, experts).int()
        running = hot.cumsum(0)
        return (running.gather(1, wide[:, None])[:, 0] - 1).int(), running[-1].int()

    return beside_torch(
        f"places of {tokens} tokens in {experts} experts, one block, tiles 64x{experts}",
        places_in_experts,
        (1,),
        (
            chosen,
            torch.empty(tokens, dtype=torch.int32),
            torch.empty(experts, dtype=torch.int32),
            64,
            experts,
        ),
        theirs,
        chosen,
        outputs=2,
    )


def _grouped(tokens: int, experts: int, k: int, n: int, dtype: torch.dtype) -> Row:
    m = 32
    x, w = normal(tokens, k).to(dtype), (normal(experts, n, k) / math.sqrt(k)).to(dtype)
    chosen = integers(experts, tokens)
    order: list[int] = []
    owner: list[int] = []
    for expert in range(experts):
        mine = torch.nonzero(chosen == expert)[:, 0].tolist()
        mine += [tokens] * (-len(mine) % m)
        order += mine
        owner += [expert] * (len(mine) // m)
    places = torch.tensor(order, dtype=torch.int32)
    parts = [places[i * m : (i + 1) * m].long() for i in range(len(owner))]
    whole = [
        torch.cat([p for p, o in zip(parts, owner, strict=True) if o == e]) for e in range(experts)
    ]

    def theirs(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        padded = functional.pad(x, (0, 0, 0, 1))
        return torch.cat([padded[rows] @ w[e].t() for e, rows in enumerate(whole)])

    out = torch.empty(len(order), n, dtype=dtype)
    return beside_torch(
        f"products of {tokens} rows by {experts} experts, {k} to {n} {kind(dtype)}, tiles 32x64x64",
        grouped_product,
        (len(owner), n // 64),
        (x, w, places, torch.tensor(owner, dtype=torch.int32), out, m, 64, 64),
        theirs,
        x,
        w,
        bound=ERROR[dtype],
    )


def _combined(tokens: int, picks: int, width: int, dtype: torch.dtype) -> Row:
    y, weights = normal(tokens * picks, width).to(dtype), normal(tokens, picks).abs()
    slots = torch.randperm(tokens * picks, generator=torch.Generator().manual_seed(5)).int()
    slots = slots.view(tokens, picks)
    wide = slots.long()

    def theirs(y: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return (y[wide].to(weights.dtype) * weights[..., None]).sum(1).to(y.dtype)

    return beside_torch(
        f"rows of {picks} experts weighted, {tokens} x {width} {kind(dtype)}",
        combined,
        (tokens, width // 512),
        (y, slots, weights, torch.empty(tokens, width, dtype=dtype), picks, 512),
        theirs,
        y,
        weights,
        bound=ERROR[dtype],
    )


def _low_rank(m: int, n: int, k: int, rank: int, dtype: torch.dtype) -> Row:
    x, w = normal(m, k).to(dtype), (normal(k, n) / math.sqrt(k)).to(dtype)
    a, b = (normal(k, rank) / math.sqrt(k)).to(dtype), normal(rank, n).to(dtype)
    return beside_torch(
        f"layer {m} x {n} x {k} and rank {rank}, {kind(dtype)}",
        low_rank,
        (m // 64, n // 64),
        (x, w, a, b, torch.empty(m, n, dtype=dtype), 64, 64, 64, rank),
        lambda x, w, a, b: x @ w + (x @ a * 2.0) @ b,
        x,
        w,
        a,
        b,
        bound=max(ERROR[dtype], 2e-5) * 2,
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _attention(16, 4, 512, 64, _BF16),
        lambda: _attention(8, 2, 512, 64, _F32),
        lambda: _window(8, 1024, 64, 200, _F32),
        lambda: _window(8, 1024, 64, 256, _BF16),
        lambda: _decode(4, 8, 4096, 8, _BF16),
        lambda: _decode(8, 4, 2048, 4, _F32),
        lambda: _merged(8, 256, 128),
        lambda: _paged(8, 8, 1024, _F16),
        lambda: _paged(8, 8, 1024, _F32),
        lambda: _routed(4096, 64, 8),
        lambda: _places(8192, 32),
        lambda: _grouped(1000, 8, 512, 512, _BF16),
        lambda: _grouped(1000, 8, 512, 512, _F32),
        lambda: _combined(2048, 4, 1024, _BF16),
        lambda: _combined(2048, 2, 1024, _F32),
        lambda: _low_rank(256, 1024, 512, 16, _BF16),
        lambda: _low_rank(256, 1024, 512, 16, _F32),
    ]
