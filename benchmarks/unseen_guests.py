"""Graphs, searches, prices and series, as a guest writes them."""

from __future__ import annotations

import math
from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch
from torch.nn import functional

from benchmarks.unseen_rows import (
    Row,
    array,
    beside_torch,
    by_numba,
    integers,
    kind,
    next_power,
    normal,
    uniform,
)

_F32, _F64, _F16 = torch.float32, torch.float64, torch.float16
_I32, _I64, _U8 = torch.int32, torch.int64, torch.uint8


@ct.kernel
def smallest(
    x, values, places, most: ct.Constant[int], rows: ct.Constant[int], tile: ct.Constant[int]
):
    """The least numbers of each row in order, and where they are, one after the other."""
    row = (ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    column = ct.arange(tile, dtype=ct.int32).reshape((1, tile))
    held = ct.gather(x, (row, column), padding_value=math.inf)
    for n in range(most):
        at = ct.argmin(held, 1, keepdims=True)
        ct.scatter(values, (row, n), ct.min(held, 1, keepdims=True))
        ct.scatter(places, (row, n), at.astype(ct.int64))
        held = ct.where(column == at, math.inf, held)


def _smallest(rows: int, width: int, most: int) -> Row:
    x = normal(rows, width, dtype=_F64)
    return beside_torch(
        f"least {most} of each row of {rows} x {width} float64",
        smallest,
        (-(-rows // 4),),
        (x, torch.empty(rows, most, dtype=_F64), torch.empty(rows, most, dtype=_I64), most, 4, 512),
        lambda x: tuple(torch.topk(x, most, largest=False)),
        x,
        outputs=2,
    )


@ct.kernel
def scanned(codes, tables, least, which, parts: ct.Constant[int], tile: ct.Constant[int]):
    """The code of each block that is nearest, by tables of its parts: codes u8 [code, part]."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    inside = i < codes.shape[0]
    total = ct.zeros((tile,), ct.float32)
    for p in range(parts):
        total += ct.gather(tables, (p, ct.gather(codes, (i, p), mask=inside).astype(ct.int32)))
    total = ct.where(inside, total, math.inf)
    ct.scatter(least, ct.bid(0), ct.min(total))
    ct.scatter(which, ct.bid(0), ct.bid(0) * tile + ct.argmin(total))


def _scanned(many: int, parts: int) -> Row:
    codes, tables = integers(256, many, parts, dtype=_U8), uniform(parts, 256)
    blocks = -(-many // 1024)

    def theirs(codes, tables):
        total = torch.zeros(many, dtype=tables.dtype)
        for p in range(parts):
            total += tables[p][codes[:, p].int()]
        total = functional.pad(total, (0, blocks * 1024 - many), value=math.inf)
        low, at = total.view(blocks, 1024).min(1)
        return low, (at + torch.arange(blocks) * 1024).to(_I32)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(codes, tables, least, which):
            for b in nb.prange(blocks):
                low, at = np.float32(np.inf), 0
                for i in range(b * 1024, min(b * 1024 + 1024, many)):
                    total = np.float32(0)
                    for p in range(parts):
                        total += tables[p, codes[i, p]]
                    if total < low:
                        low, at = total, i
                least[b], which[b] = low, at

        made = np.empty(blocks, np.float32), np.empty(blocks, np.int32)
        return lambda: run(array(codes), array(tables), *made)

    return beside_torch(
        f"nearest codes of {many} x {parts} uint8 by tables",
        scanned,
        (blocks,),
        (codes, tables, torch.empty(blocks), torch.empty(blocks, dtype=_I32), parts, 1024),
        theirs,
        codes,
        tables,
        outputs=2,
        bound=1e-6,
        more=by_numba(make),
    )


@ct.kernel
def asian(seeds, out, strike, drift, spread, steps: ct.Constant[int], tile: ct.Constant[int]):
    """Payments of an option on a mean: a path for each lane, uniform steps by xorshift."""
    i = ct.bid(0)
    state = ct.load(seeds, (i,), (tile,)).astype(ct.uint32)
    at, total = ct.zeros((tile,), ct.float32), ct.zeros((tile,), ct.float32)
    for _ in range(steps):
        state = state ^ (state << 13)
        state = state ^ (state >> 17)
        state = state ^ (state << 5)
        u = (state >> 8).astype(ct.float32) * (1.0 / 16777216.0)
        at += drift + spread * (u - 0.5)
        total += ct.exp(at)
    ct.store(out, (i,), ct.maximum(100.0 * total / steps - strike, 0.0))


def _asian(paths: int, steps: int) -> Row:
    seeds = integers(1 << 30, paths) + 1

    def theirs(seeds):
        state = seeds.long()
        at, total = torch.zeros(paths), torch.zeros(paths)
        for _ in range(steps):
            state = (state ^ (state << 13)) & 0xFFFFFFFF
            state = state ^ (state >> 17)
            state = (state ^ (state << 5)) & 0xFFFFFFFF
            u = (state >> 8).float() * (1.0 / 16777216.0)
            at += 0.0005 + 0.0625 * (u - 0.5)
            total += at.exp()
        return (100.0 * total / steps - 101.0).clamp(min=0.0)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(seeds, out):
            u, f = np.uint32, np.float32
            for i in nb.prange(seeds.size):
                s, at, total = u(seeds[i]), f(0), f(0)
                for _ in range(steps):
                    s = u(s ^ u(s << u(13)))
                    s = u(s ^ u(s >> u(17)))
                    s = u(s ^ u(s << u(5)))
                    at += f(0.0005) + f(0.0625) * (f(s >> u(8)) * f(1.0 / 16777216.0) - f(0.5))
                    total += np.exp(at)
                out[i] = max(f(100.0 / steps) * total - f(101.0), f(0))

        made = np.empty(paths, np.float32)
        return lambda: run(array(seeds), made)

    return beside_torch(
        f"an option on the mean of {steps} steps of {paths} paths",
        asian,
        (-(-paths // 256),),
        (seeds, torch.empty(paths), 101.0, 0.0005, 0.0625, steps, 256),
        theirs,
        seeds,
        bound=1e-4,
        more=by_numba(make),
        compiles=False,
    )


@ct.kernel
def ranked(starts, others, shares, out, tile: ct.Constant[int]):
    """A round of page ranks: a row of CSR for each lane, as many steps as the longest has."""
    node = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    inside = node < out.shape[0]
    start = ct.gather(starts, node, mask=inside)
    count = ct.gather(starts, node + 1, mask=inside) - start
    total = ct.zeros((tile,), ct.float32)
    for k in range(ct.max(count)):
        other = ct.gather(others, start + k, mask=k < count)
        total += ct.gather(shares, other, mask=k < count, padding_value=0.0)
    ct.scatter(out, node, 0.15 / out.shape[0] + 0.85 * total)


def _ranked(nodes: int, most: int) -> Row:
    counts = integers(most, nodes)
    starts = functional.pad(counts.cumsum(0, dtype=_I32), (1, 0))
    others, shares = integers(nodes, int(starts[-1])), uniform(nodes)
    links = {
        dtype: torch.sparse_csr_tensor(
            starts,
            others,
            torch.ones(len(others), dtype=dtype),
            (nodes, nodes),
            check_invariants=False,
        )
        for dtype in (_F32, _F64)
    }

    def theirs(shares):
        return 0.15 / nodes + 0.85 * (links[shares.dtype] @ shares)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(starts, others, shares, out):
            for i in nb.prange(nodes):
                total = np.float32(0)
                for k in range(starts[i], starts[i + 1]):
                    total += shares[others[k]]
                out[i] = np.float32(0.15 / nodes) + np.float32(0.85) * total

        made = np.empty(nodes, np.float32)
        return lambda: run(array(starts), array(others), array(shares), made)

    return beside_torch(
        f"a round of ranks of {nodes} pages of less than {most} links float32",
        ranked,
        (-(-nodes // 256),),
        (starts, others, shares, torch.empty(nodes), 256),
        theirs,
        shares,
        bound=1e-5,
        more=by_numba(make),
        compiles=False,
    )


@ct.kernel
def pooled(x, offsets, means, most, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Mean and maximum of each of many pieces of rows, some rows at a time: [row, column]."""
    piece = ct.bid(0)
    start, end = ct.gather(offsets, piece), ct.gather(offsets, piece + 1)
    column = ct.arange(tile, dtype=ct.int32).reshape((1, tile))
    total = ct.zeros((rows, tile), ct.float32)
    high = ct.full((rows, tile), -math.inf, ct.float32)
    for t in range(ct.cdiv(end - start, rows)):
        row = (start + t * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
        held = ct.gather(x, (row, column), mask=row < end, padding_value=0).astype(ct.float32)
        total += held
        high = ct.maximum(high, ct.where(row < end, held, -math.inf))
    mean = ct.sum(total, 0, keepdims=True) / (end - start)
    ct.scatter(means, (piece, column), mean.astype(means.dtype))
    ct.scatter(most, (piece, column), ct.max(high, 0, keepdims=True).astype(most.dtype))


def _pooled(pieces: int, longest: int, width: int, dtype: torch.dtype) -> Row:
    lengths = integers(longest, pieces, dtype=_I64) + 1
    offsets = functional.pad(lengths.cumsum(0), (1, 0))
    x = normal(int(offsets[-1]), width, dtype=dtype)
    out = [torch.empty(pieces, width, dtype=dtype) for _ in range(2)]
    owner = torch.repeat_interleave(torch.arange(pieces), lengths)

    def theirs(x, lengths):
        total = torch.zeros(pieces, width, dtype=torch.promote_types(x.dtype, _F32))
        total.index_add_(0, owner, x.to(total.dtype))
        high = torch.segment_reduce(x, "max", lengths=lengths, axis=0, unsafe=True)
        return (total / lengths[:, None]).to(x.dtype), high

    cuts, first = lengths.tolist(), offsets[:-1].numpy()

    def in_turn():
        parts = x.split(cuts)
        return torch.stack([p.mean(0) for p in parts]), torch.stack([p.amax(0) for p in parts])

    def by_numpy():
        total = np.add.reduceat(array(x), first, axis=0, dtype=np.float32)
        means = (total / array(lengths)[:, None].astype(np.float32)).astype(array(x).dtype)
        return means, np.maximum.reduceat(array(x), first, axis=0)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, offsets, means, most):
            for i in nb.prange(pieces):
                total = np.zeros(width, np.float32)
                high = np.full(width, np.float32(-np.inf))
                for r in range(offsets[i], offsets[i + 1]):
                    for j in range(width):
                        total[j] += x[r, j]
                        high[j] = max(high[j], x[r, j])
                over = np.float32(1) / np.float32(offsets[i + 1] - offsets[i])
                for j in range(width):
                    means[i, j], most[i, j] = total[j] * over, high[j]

        made = [np.empty((pieces, width), np.float32) for _ in range(2)]
        return lambda: run(array(x), array(offsets), *made)

    return beside_torch(
        f"mean and maximum of {pieces} pieces of rows of {width} {kind(dtype)}",
        pooled,
        (pieces,),
        (x, offsets.to(_I32), *out, 16, next_power(width)),
        theirs,
        x,
        lengths,
        outputs=2,
        bound=1e-5 if dtype == _F32 else 1e-3,
        more={"torch in turn": in_turn, "NumPy": by_numpy}
        | (by_numba(make) if dtype == _F32 else {}),
        compiles=False,
    )


@ct.kernel
def edge_scores(a, b, left, right, values, out, edges: ct.Constant[int], depth: ct.Constant[int]):
    """Products of the rows at both ends of each edge, times its value."""
    edge = ct.bid(0) * edges + ct.arange(edges, dtype=ct.int32)
    column = ct.arange(depth, dtype=ct.int32).reshape((1, depth))
    i = ct.gather(left, edge, padding_value=-1).reshape((edges, 1))
    j = ct.gather(right, edge, padding_value=-1).reshape((edges, 1))
    found = ct.sum(ct.gather(a, (i, column)) * ct.gather(b, (j, column)), 1)
    ct.scatter(out, edge, found * ct.gather(values, edge))


def _edge_scores(nodes: int, edges: int, depth: int) -> Row:
    a, b, values = normal(nodes, depth), normal(nodes + 1, depth), normal(edges)
    left, right = integers(nodes, edges), integers(nodes + 1, edges)

    def theirs(a, b, left, right, values):
        return (a[left] * b[right]).sum(1) * values

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(a, b, left, right, values, out):
            for e in nb.prange(edges):
                i, j, total = left[e], right[e], np.float32(0)
                for k in range(depth):
                    total += a[i, k] * b[j, k]
                out[e] = total * values[e]

        made, held = np.empty(edges, np.float32), [array(x) for x in (a, b, left, right, values)]
        return lambda: run(*held, made)

    return beside_torch(
        f"products at {edges} edges of rows of {depth} float32",
        edge_scores,
        (-(-edges // 32),),
        (a, b, left, right, values, torch.empty(edges), 32, next_power(depth)),
        theirs,
        a,
        b,
        left,
        right,
        values,
        bound=1e-5,
        more=by_numba(make),
    )


@ct.kernel
def spread_out(sources, targets, levels, flags, count, level, tile: ct.Constant[int]):
    """A step of a search by breadth: targets not seen yet of edges from the last level, and how many edges."""
    edge = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    source = ct.gather(sources, edge, padding_value=-1)
    target = ct.gather(targets, edge, padding_value=-1)
    new = ct.gather(levels, source, padding_value=-1) == level
    new = new & (ct.gather(levels, target, padding_value=0) < 0)
    ct.scatter(flags, target, ct.ones((tile,), ct.uint8), mask=new)
    ct.atomic_add(count, 0, ct.sum(new.astype(ct.int32)))


def _spread_out(nodes: int, edges: int) -> Row:
    sources, targets = integers(nodes, edges), integers(nodes + 1, edges) % nodes
    levels = integers(5, nodes) - 1
    flags, count = torch.zeros(nodes, dtype=_U8), torch.zeros(1, dtype=_I32)

    def theirs(sources, targets, levels):
        new = (levels[sources] == 3) & (levels[targets] < 0)
        flags = torch.zeros(nodes, dtype=_U8)
        flags[targets[new]] = 1
        return flags, new.sum(dtype=_I32)[None]

    def clear():
        flags.zero_()
        count.zero_()

    def make(nb):
        @nb.njit
        def run(sources, targets, levels, flags):
            flags[:] = 0
            count = 0
            for e in range(sources.size):
                if levels[sources[e]] == 3 and levels[targets[e]] < 0:
                    flags[targets[e]] = 1
                    count += 1
            return count

        made = np.zeros(nodes, np.uint8)
        return lambda: run(array(sources), array(targets), array(levels), made)

    return beside_torch(
        f"a step by breadth along {edges} edges of {nodes} nodes",
        spread_out,
        (-(-edges // 1024),),
        (sources, targets, levels, flags, count, 3, 1024),
        theirs,
        sources,
        targets,
        levels,
        outputs=2,
        clear=clear,
        more=by_numba(make),
        compiles=False,
    )


@ct.kernel
def diagonals(data, offsets, x, out, count: ct.Constant[int], tile: ct.Constant[int]):
    """A matrix of some diagonals times a vector: [diagonal, row]."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    total = ct.zeros((tile,), x.dtype)
    for d in range(count):
        total += ct.gather(data, (d, i)) * ct.gather(x, i + ct.gather(offsets, d))
    ct.scatter(out, i, total)


def _diagonals(many: int, away: int) -> Row:
    each = (-away, -2, -1, 0, 1, 2, away)
    data, x = normal(len(each), many, dtype=_F64), normal(many, dtype=_F64)
    offsets = torch.tensor(each, dtype=_I32)

    def theirs(data, x):
        wide = functional.pad(x, (away, away))
        return sum(data[n] * wide[away + d : away + d + many] for n, d in enumerate(each))

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(data, offsets, x, out):
            out[:] = 0
            for n in range(offsets.size):
                d = offsets[n]
                for i in nb.prange(max(0, -d), min(many, many - d)):
                    out[i] += data[n, i] * x[i + d]

        made = np.empty(many)
        return lambda: run(array(data), array(offsets), array(x), made)

    return beside_torch(
        f"{len(each)} diagonals of {many} times a vector float64",
        diagonals,
        (-(-many // 512),),
        (data, offsets, x, torch.empty_like(x), len(each), 512),
        theirs,
        data,
        x,
        bound=1e-14,
        more=by_numba(make),
    )


@ct.kernel
def american(spot, strike, work, out, up, share, steps: ct.Constant[int], tile: ct.Constant[int]):
    """American puts by a tree of two branches: an option for each lane, nodes in work[node, option]."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    s, k = ct.gather(spot, i), ct.gather(strike, i)
    twice = up * up
    node = s * ct.exp(-steps * ct.log(up))
    for n in range(steps + 1):
        ct.scatter(work, (n, i), ct.maximum(k - node, 0.0))
        node = node * twice
    lowest = s * ct.exp(-steps * ct.log(up))
    for t in range(steps):
        lowest = lowest * up
        node = lowest
        low = ct.gather(work, (0, i))
        for n in range(steps - t):
            high = ct.gather(work, (n + 1, i))
            kept = 0.9995 * (share * high + (1.0 - share) * low)
            ct.scatter(work, (n, i), ct.maximum(kept, k - node))
            low = high
            node = node * twice
    ct.scatter(out, i, ct.gather(work, (0, i)))


def _american(options: int, steps: int) -> Row:
    spot, strike = uniform(options) * 40 + 80, uniform(options, seed=1) * 40 + 80
    up, share = 1.03125, 0.5

    def theirs(spot, strike):
        powers = up ** torch.arange(-steps, steps + 1, dtype=_F64).to(spot.dtype)[:, None]
        held = (strike - spot * powers[::2]).clamp(min=0)
        for t in range(steps):
            kept = 0.9995 * (share * held[1:] + (1 - share) * held[:-1])
            held = torch.maximum(kept, strike - spot * powers[t + 1 : 2 * steps - t : 2])
        return held[0]

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(spot, strike, out):
            f = np.float32
            block = 64
            for b in nb.prange(-(-options // block)):
                first, last = b * block, min(b * block + block, options)
                held = np.empty((steps + 1, block), np.float32)
                for n in range(steps + 1):
                    power = f(up ** (2 * n - steps))
                    for i in range(first, last):
                        held[n, i - first] = max(strike[i] - spot[i] * power, f(0))
                for t in range(steps):
                    for n in range(steps - t):
                        power = f(up ** (2 * n - (steps - t - 1)))
                        for i in range(first, last):
                            kept = (
                                f(0.9995 * share) * held[n + 1, i - first]
                                + f(0.9995 * (1 - share)) * held[n, i - first]
                            )
                            held[n, i - first] = max(kept, strike[i] - spot[i] * power)
                for i in range(first, last):
                    out[i] = held[0, i - first]

        made = np.empty(options, np.float32)
        return lambda: run(array(spot), array(strike), made)

    return beside_torch(
        f"{options} American puts by trees of {steps} steps float32",
        american,
        (-(-options // 128),),
        (
            spot,
            strike,
            torch.empty(steps + 1, options),
            torch.empty(options),
            up,
            share,
            steps,
            128,
        ),
        theirs,
        spot,
        strike,
        bound=1e-4,
        more=by_numba(make),
        compiles=False,
    )


@ct.kernel
def tracked(x, out, noise, error, tile: ct.Constant[int]):
    """Kalman's filter of place and speed for each series: [time, series]."""
    j = ct.bid(0)
    at, speed = ct.load(x, (0, j), (1, tile)), ct.zeros((1, tile), x.dtype)
    a, b, c = ct.ones((1, tile), x.dtype), ct.zeros((1, tile), x.dtype), ct.ones((1, tile), x.dtype)
    for t in range(x.shape[0]):
        at = at + speed
        a, b, c = a + 2.0 * b + c + 0.25 * noise, b + c + 0.5 * noise, c + noise
        gain = 1.0 / (a + error)
        off = ct.load(x, (t, j), (1, tile)) - at
        g, h = a * gain, b * gain
        at, speed = at + g * off, speed + h * off
        a, b, c = (1.0 - g) * a, (1.0 - g) * b, c - h * b
        ct.store(out, (t, j), at)


def _tracked(steps: int, series: int) -> Row:
    x = normal(steps, series).cumsum(0) * 0.1
    noise, error = 0.0625, 0.5

    def theirs(x):
        at, speed = x[0], torch.zeros_like(x[0])
        a, b, c = torch.ones_like(at), torch.zeros_like(at), torch.ones_like(at)
        found = torch.empty_like(x)
        for t in range(steps):
            at = at + speed
            a, b, c = a + 2 * b + c + 0.25 * noise, b + c + 0.5 * noise, c + noise
            gain = 1 / (a + error)
            off = x[t] - at
            g, h = a * gain, b * gain
            at, speed = at + g * off, speed + h * off
            a, b, c = (1 - g) * a, (1 - g) * b, c - h * b
            found[t] = at
        return found

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, state, out):
            f = np.float32
            state[0], state[1], state[2], state[3], state[4] = x[0], 0, 1, 0, 1
            for t in range(steps):
                for j in nb.prange(series):
                    at, a = state[0, j] + state[1, j], state[2, j]
                    b, c = state[3, j], state[4, j]
                    a, b, c = a + b + b + c + f(0.25 * noise), b + c + f(0.5 * noise), c + f(noise)
                    gain, off = f(1) / (a + f(error)), x[t, j] - at
                    g, h = a * gain, b * gain
                    state[0, j], state[1, j] = at + g * off, state[1, j] + h * off
                    state[2, j], state[3, j], state[4, j] = (
                        (f(1) - g) * a,
                        (f(1) - g) * b,
                        c - h * b,
                    )
                    out[t, j] = state[0, j]

        made, state = np.empty((steps, series), np.float32), np.empty((5, series), np.float32)
        return lambda: run(array(x), state, made)

    return beside_torch(
        f"Kalman's filter of {series} series of {steps} steps float32",
        tracked,
        (-(-series // 128),),
        (x, torch.empty_like(x), noise, error, 128),
        theirs,
        x,
        bound=1e-4,
        more=by_numba(make),
        compiles=False,
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _smallest(2000, 300, 4),
        lambda: _scanned(100_001, 16),
        lambda: _asian(10_001, 64),
        lambda: _ranked(50_001, 16),
        lambda: _pooled(501, 100, 96, _F32),
        lambda: _pooled(501, 100, 200, _F16),
        lambda: _edge_scores(4000, 60_001, 48),
        lambda: _spread_out(100_001, 500_001),
        lambda: _diagonals(200_001, 450),
        lambda: _american(1001, 64),
        lambda: _tracked(300, 2001),
    ]
