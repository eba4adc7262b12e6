"""Scans, recurrences, pairs, bits, codes and graphs, as daily work has them."""

from __future__ import annotations

import math
from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch
from torch.nn import functional

from benchmarks.unseen_rows import ERROR, Row, array, beside_torch, by_numba, integers, kind, normal

_ZERO, _MOST = ct.PaddingMode.ZERO, ct.PaddingMode.POS_INF
_F32, _F64, _BF16, _F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16


@ct.kernel
def segmented(x, starts, out, tile: ct.Constant[int]):
    """Running sums of each row that begin anew where a flag stands."""
    row = ct.bid(0)
    carried = ct.zeros((1,), x.dtype)
    for j in range(ct.num_tiles(x, 1, (1, tile))):
        held = ct.load(x, (row, j), (1, tile)).reshape((tile,))
        flag = ct.load(starts, (row, j), (1, tile)).reshape((tile,)).astype(ct.int32)
        flag, held = ct.scan(
            (flag, held),
            0,
            lambda f, a, g, b: (f | g, b + ct.where(g != 0, 0, a).astype(b.dtype)),
            (0, 0),
        )
        held = held + ct.where(flag != 0, 0, carried).astype(held.dtype)
        ct.store(out, (row, j), held.reshape((1, tile)))
        carried = ct.extract(held, (tile - 1,), (1,))


@ct.kernel
def moments(x, means, spreads, rows: ct.Constant[int], width: ct.Constant[int]):
    """Mean and variance of rows by a reduction of counts, means and squares."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0), (rows, width)).astype(ct.float32)

    def joined(n, a, s, m, b, t):
        both = n + m
        apart = b - a
        share = m / ct.maximum(both, 1.0)
        return both, a + apart * share, s + t + apart * apart * n * share

    count, mean, square = ct.reduce(
        (ct.full((rows, width), 1.0, ct.float32), held, ct.zeros((rows, width), ct.float32)),
        1,
        joined,
        (0.0, 0.0, 0.0),
    )
    ct.store(means, (i,), mean)
    ct.store(spreads, (i,), square / count)


@ct.kernel
def highest_so_far(x, out, places, rows: ct.Constant[int], width: ct.Constant[int]):
    """Running maxima of rows, and where each of them stands: the last of equals."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0), (rows, width))
    at = ct.broadcast_to(ct.arange(width, dtype=ct.int32).reshape((1, width)), (rows, width))

    def later(a, i, b, j):
        better = (b > a) | ((b == a) & (j > i))
        return ct.where(better, b, a), ct.where(better, j, i)

    held, at = ct.scan((held, at), 1, later, (-math.inf, -1))
    ct.store(out, (i, 0), held)
    ct.store(places, (i, 0), at.astype(ct.int64))


@ct.kernel
def normal_numbers(out, seed, tile: ct.Constant[int]):
    """Normally distributed numbers by Box and Muller, from hashes: sines behind cosines."""
    i = ct.bid(0)

    def mixed(x):
        x = (x ^ (x >> 16)) * 0x21F0AAAD
        x = (x ^ (x >> 15)) * 0x735A2D97
        return x ^ (x >> 15)

    place = (i * tile + ct.arange(tile, dtype=ct.int32) + seed).astype(ct.uint32)
    first = (mixed(place * 2) >> 9).astype(ct.float32) + 0.5
    second = (mixed(place * 2 + 1) >> 9).astype(ct.float32)
    length = ct.sqrt(-2.0 * ct.log(first * (1.0 / (1 << 23))))
    angle = second * (2.0 * math.pi / (1 << 23))
    ct.store(out, (2 * i,), length * ct.cos(angle))
    ct.store(out, (2 * i + 1,), length * ct.sin(angle))


@ct.kernel
def shorter_ways(a, b, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    """The least sum over all places between: a product in which plus is the minimum."""
    i, j = ct.bid(1), ct.bid(0)
    total = ct.full((m, n), 1 << 29, a.dtype)
    for step in range(ct.num_tiles(a, 1, (m, k))):
        left = ct.load(a, (i, step), (m, k)).reshape((m, k, 1))
        right = ct.load(b, (step, j), (k, n)).reshape((1, k, n))
        total = ct.minimum(total, ct.min(left + right, 1))
    ct.store(out, (i, j), total)


@ct.kernel
def viterbi(start, moves, seen, best, last, length, states: ct.Constant[int]):
    """The likeliest way through states: scores of all places in turn, [sequence, place, state], and where from."""
    sequence = ct.bid(0)
    move = ct.load(moves, (0, 0), (states, states))
    score = ct.load(start, (0,), (states,)) + ct.load(
        seen, (sequence, 0, 0), (1, 1, states)
    ).reshape((states,))
    for t in range(1, length):
        way = score.reshape((states, 1)) + move
        ct.store(best, (sequence, t, 0), ct.argmax(way, 0).astype(ct.int32).reshape((1, 1, states)))
        score = ct.max(way, 0) + ct.load(seen, (sequence, t, 0), (1, 1, states)).reshape((states,))
    ct.store(last, (sequence, 0), score.reshape((1, states)))


@ct.kernel
def cholesky(x, out, size: ct.Constant[int]):
    """The triangle whose square is a matrix, of a batch: a column after the other."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0, 0), (1, size, size)).reshape((size, size))
    row = ct.arange(size, dtype=ct.int32).reshape((size, 1))
    column = ct.arange(size, dtype=ct.int32).reshape((1, size))
    made = ct.zeros((size, size), x.dtype)
    for j in range(size):
        mine = ct.sum(ct.where(column == j, held, 0.0), 1, keepdims=True)
        top = ct.sqrt(ct.sum(ct.where(row == j, mine, 0.0)))
        mine = ct.where(row >= j, mine / top, 0.0)
        made = ct.where(column == j, mine, made)
        held = held - mine * mine.reshape((1, size))
    ct.store(out, (i, 0, 0), made.reshape((1, size, size)))


@ct.kernel
def three_diagonals(low, middle, high, right, scratch, out, length, tile: ct.Constant[int]):
    """Many systems of three diagonals: [place, system], down and up again."""
    j = ct.bid(0)
    above = ct.load(high, (0, j), (1, tile)) / ct.load(middle, (0, j), (1, tile))
    found = ct.load(right, (0, j), (1, tile)) / ct.load(middle, (0, j), (1, tile))
    ct.store(scratch, (0, j), above)
    ct.store(out, (0, j), found)
    for t in range(1, length):
        a = ct.load(low, (t, j), (1, tile))
        share = 1.0 / (ct.load(middle, (t, j), (1, tile)) - a * above)
        above = ct.load(high, (t, j), (1, tile)) * share
        found = (ct.load(right, (t, j), (1, tile)) - a * found) * share
        ct.store(scratch, (t, j), above)
        ct.store(out, (t, j), found)
    for t in range(1, length):
        at = length - 1 - t
        found = ct.load(out, (at, j), (1, tile)) - ct.load(scratch, (at, j), (1, tile)) * found
        ct.store(out, (at, j), found)


@ct.kernel
def unlike(a, b, out, words: ct.Constant[int], m: ct.Constant[int], n: ct.Constant[int]):
    """In how many bits each of a differs from each of b: [row, word], words [word, row]."""
    i, j = ct.bid(1), ct.bid(0)
    total = ct.zeros((m, n), ct.int32)
    for word in range(words):
        x = ct.load(a, (i, word), (m, 1)) ^ ct.load(b, (word, j), (1, n))
        x = x - ((x >> 1) & 0x55555555)
        x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
        x = (x + (x >> 4)) & 0x0F0F0F0F
        total += ((x * 0x01010101) >> 24).astype(ct.int32)
    ct.store(out, (i, j), total)


@ct.kernel
def overlaps(boxes, out, least, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Which boxes overlap by more than a share, a bit for each pair: boxes [4, box]."""
    i, j = ct.bid(1), ct.bid(0)

    def side(n):
        a = ct.load(boxes, (n, i), (1, rows)).reshape((rows, 1, 1))
        return a, ct.load(boxes, (n, j), (1, tile)).reshape((1, tile // 32, 32))

    left, top, right, bottom = side(0), side(1), side(2), side(3)
    width = ct.minimum(right[0], right[1]) - ct.maximum(left[0], left[1])
    height = ct.minimum(bottom[0], bottom[1]) - ct.maximum(top[0], top[1])
    common = ct.maximum(width, 0.0) * ct.maximum(height, 0.0)
    mine = (right[0] - left[0]) * (bottom[0] - top[0])
    other = (right[1] - left[1]) * (bottom[1] - top[1])
    hit = (common > least * (mine + other - common)).astype(ct.int32)
    bits = hit << ct.arange(32, dtype=ct.int32).reshape((1, 1, 32))
    ct.store(out, (i, j), ct.sum(bits, 2))


@ct.kernel
def base64(x, letters, out, tile: ct.Constant[int]):
    """Three bytes as four letters."""
    i = ct.bid(0)
    group = i * tile + ct.arange(tile, dtype=ct.int32)
    a, b, c = (
        ct.gather(x, (3 * group,)),
        ct.gather(x, (3 * group + 1,)),
        ct.gather(x, (3 * group + 2,)),
    )
    whole = (a.astype(ct.int32) << 16) | (b.astype(ct.int32) << 8) | c.astype(ct.int32)
    for n in ct.static_iter(range(4)):
        ct.scatter(out, (4 * group + n,), ct.gather(letters, ((whole >> (18 - 6 * n)) & 63,)))


@ct.kernel
def undone_steps(x, out, tile: ct.Constant[int]):
    """Rows of steps of 16 bits, the sign in the last bit, to what they add up to."""
    row = ct.bid(0)
    carried = ct.zeros((1,), ct.int32)
    for j in range(ct.num_tiles(x, 1, (1, tile))):
        held = ct.load(x, (row, j), (1, tile)).reshape((tile,)).astype(ct.int32)
        held = (held >> 1) ^ -(held & 1)
        held = ct.cumsum(held, 0) + carried
        ct.store(out, (row, j), held.reshape((1, tile)))
        carried = ct.extract(held, (tile - 1,), (1,))


@ct.kernel
def to_mu_law(x, out, tile: ct.Constant[int]):
    """Samples of 16 bits to 8 by logarithms."""
    i = ct.bid(0)
    held = ct.load(x, (i,), (tile,)).astype(ct.float32) * (1.0 / 32768.0)
    size = ct.log(1.0 + 255.0 * ct.abs(held)) * (1.0 / 5.545177444479562)
    held = ct.where(held < 0.0, -size, size)
    ct.store(out, (i,), ct.floor((held + 1.0) * 127.5 + 0.5).astype(ct.uint8))


@ct.kernel
def biquad(x, factors, out, length, tile: ct.Constant[int]):
    """A recursive filter of second order for each series: [time, series]."""
    j = ct.bid(0)
    b0, b1, b2 = ct.gather(factors, 0), ct.gather(factors, 1), ct.gather(factors, 2)
    a1, a2 = ct.gather(factors, 3), ct.gather(factors, 4)
    first, second = ct.zeros((1, tile), x.dtype), ct.zeros((1, tile), x.dtype)
    for t in range(length):
        held = ct.load(x, (t, j), (1, tile))
        found = b0 * held + first
        first, second = b1 * held - a1 * found + second, b2 * held - a2 * found
        ct.store(out, (t, j), found)


@ct.kernel
def bells(
    a,
    b,
    squares_a,
    squares_b,
    out,
    rate,
    m: ct.Constant[int],
    n: ct.Constant[int],
    k: ct.Constant[int],
):
    """exp of the squared distance of all pairs, by a product; extents that are no multiples of tiles'."""
    i, j = ct.bid(1), ct.bid(0)
    total = ct.zeros((m, n), ct.float32)
    for step in range(ct.num_tiles(a, 1, (m, k))):
        left = ct.load(a, (i, step), (m, k), padding_mode=_ZERO)
        right = ct.load(b, (j, step), (n, k), padding_mode=_ZERO)
        total = ct.mma(left, ct.transpose(right), total)
    far = ct.load(squares_a, (i,), (m,), padding_mode=_ZERO).reshape((m, 1)) - 2.0 * total
    far = far + ct.load(squares_b, (j,), (n,), padding_mode=_ZERO).reshape((1, n))
    ct.store(out, (i, j), ct.exp(rate * ct.maximum(far, 0.0)).astype(out.dtype))


@ct.kernel
def weighted_products(x, weights, out, n: ct.Constant[int], k: ct.Constant[int]):
    """x.T diag(w) x: what is behind each least squares; the lower blocks only, the others mirrored."""
    i, j = ct.bid(1), ct.bid(0)
    if j <= i:
        total = ct.zeros((n, n), ct.float64)
        for step in range(ct.num_tiles(x, 0, (k, n))):
            left = ct.load(x, (step, i), (k, n)) * ct.load(weights, (step,), (k,)).reshape((k, 1))
            total = ct.mma(ct.transpose(left), ct.load(x, (step, j), (k, n)), total)
        ct.store(out, (i, j), total)
        ct.store(out, (j, i), ct.transpose(total))


@ct.kernel
def edges_softmax(scores, sources, starts, x, out, tile: ct.Constant[int], width: ct.Constant[int]):
    """A node of a graph: its neighbours' rows by the softmax of its edges, as many at a time as a tile has."""
    node = ct.bid(0)
    first, end = ct.gather(starts, node), ct.gather(starts, node + 1)
    lane = ct.arange(width, dtype=ct.int32).reshape((1, width))
    most, total = ct.full((1, 1), -1e30, ct.float32), ct.zeros((1, 1), ct.float32)
    held = ct.zeros((1, width), ct.float32)
    at = first
    while at < end:
        edge = at + ct.arange(tile, dtype=ct.int32)
        inside = edge < end
        score = ct.gather(scores, (edge,), mask=inside, padding_value=-1e30).reshape((tile, 1))
        higher = ct.maximum(most, ct.max(score, 0, keepdims=True))
        raised, shrunk = (
            ct.where(inside.reshape((tile, 1)), ct.exp(score - higher), 0.0),
            ct.exp(most - higher),
        )
        source = ct.gather(sources, (edge,), mask=inside, padding_value=0).reshape((tile, 1))
        rows = ct.gather(x, (source, lane), mask=inside.reshape((tile, 1)), padding_value=0.0)
        held = held * shrunk + ct.sum(raised * rows.astype(ct.float32), 0, keepdims=True)
        total = total * shrunk + ct.sum(raised, 0, keepdims=True)
        most = higher
        at += tile
    ct.store(out, (node, 0), (held / ct.maximum(total, 1e-20)).astype(out.dtype))


def _segmented(rows_: int, width: int, dtype: torch.dtype) -> Row:
    x, starts = (
        integers(100, rows_, width).to(dtype),
        (integers(40, rows_, width) == 0).to(torch.uint8),
    )
    made, held, flags = np.empty((rows_, width), array(x).dtype), array(x), array(starts)

    def theirs(x, starts):
        whole = x.cumsum(1)
        before = torch.where(starts != 0, whole - x, torch.zeros((), dtype=whole.dtype))
        return (whole - before.cummax(1).values).to(x.dtype)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, starts, out):
            for i in nb.prange(x.shape[0]):
                total = x.dtype.type(0)
                for j in range(x.shape[1]):
                    total = x[i, j] if starts[i, j] else total + x[i, j]
                    out[i, j] = total

        return lambda: run(held, flags, made)

    return beside_torch(
        f"running sums that begin anew, {rows_} x {width} {kind(dtype)}, tiles of 256",
        segmented,
        (rows_,),
        (x, starts, torch.empty_like(x), 256),
        theirs,
        x,
        starts,
        more=by_numba(make),
    )


def _moments(rows_: int, width: int, dtype: torch.dtype) -> Row:
    x = normal(rows_, width).to(dtype)

    def theirs(x):
        spread, mean = torch.var_mean(x if x.dtype == _F64 else x.float(), 1, correction=0)
        return mean, spread

    return beside_torch(
        f"mean and variance of rows in one reduction, {rows_} x {width} {kind(dtype)}, tiles 4x{width}",
        moments,
        (rows_ // 4,),
        (x, torch.empty(rows_), torch.empty(rows_), 4, width),
        theirs,
        x,
        outputs=2,
        bound=1e-5,
    )


def _highest(rows_: int, width: int, dtype: torch.dtype) -> Row:
    x = normal(rows_, width).to(dtype)
    return beside_torch(
        f"running maxima of rows with their places, {rows_} x {width} {kind(dtype)}",
        highest_so_far,
        (rows_ // 4,),
        (x, torch.empty_like(x), torch.empty(rows_, width, dtype=torch.int64), 4, width),
        lambda x: tuple(torch.cummax(x, 1)),
        x,
        outputs=2,
    )


def _normal_numbers(many: int) -> Row:
    place = torch.arange(many // 2) + 3

    def theirs(place):
        def mixed(x):
            x = ((x ^ (x >> 16)) * 0x21F0AAAD) & 0xFFFFFFFF
            x = ((x ^ (x >> 15)) * 0x735A2D97) & 0xFFFFFFFF
            return x ^ (x >> 15)

        first = (mixed(place * 2) >> 9).float() + 0.5
        second = (mixed(place * 2 + 1) >> 9).float()
        length, angle = (
            torch.sqrt(-2 * torch.log(first * (1 / (1 << 23)))),
            second * (2 * math.pi / (1 << 23)),
        )
        return torch.stack(
            ((length * torch.cos(angle)).view(-1, 512), (length * torch.sin(angle)).view(-1, 512)),
            1,
        ).view(-1)

    return beside_torch(
        f"{many >> 20}M normal numbers by Box and Muller",
        normal_numbers,
        (many // 1024,),
        (torch.empty(many), 3, 512),
        theirs,
        place,
        bound=1e-5,
        more={"torch, its own": lambda: torch.randn(many)},
    )


def _shorter(size: int, dtype: torch.dtype, m: int, n: int, k: int) -> Row:
    a, b = integers(1000, size, size).to(dtype), integers(999, size, size).to(dtype)

    def theirs(a, b):
        return torch.stack([(row[:, None] + b).amin(0) for row in a])

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(a, b, out):
            for i in nb.prange(a.shape[0]):
                out[i] = 1 << 29
                for k in range(a.shape[1]):
                    for j in range(b.shape[1]):
                        out[i, j] = min(out[i, j], a[i, k] + b[k, j])

        made = np.empty((size, size), array(a).dtype)
        return lambda: run(array(a), array(b), made)

    return beside_torch(
        f"least sums, {size} x {size} x {size} {kind(dtype)}, tiles {m}x{n}x{k}",
        shorter_ways,
        (size // n, size // m),
        (a, b, torch.empty_like(a), m, n, k),
        theirs,
        a,
        b,
        more=by_numba(make),
        compiles=False,
    )


def _viterbi(sequences: int, length: int, states: int) -> Row:
    start, moves, seen = normal(states), normal(states, states), normal(sequences, length, states)
    best, last = (
        torch.zeros(sequences, length, states, dtype=torch.int32),
        torch.empty(sequences, states),
    )

    def theirs(start, moves, seen):
        found = torch.zeros(sequences, length, states, dtype=torch.int32)
        score = start + seen[:, 0]
        for t in range(1, length):
            high, at = (score[:, :, None] + moves).max(1)
            found[:, t], score = at, high + seen[:, t]
        return found, score

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(start, moves, seen, best, last):
            for i in nb.prange(seen.shape[0]):
                score = start + seen[i, 0]
                for t in range(1, seen.shape[1]):
                    high, at = score[0] + moves[0], np.zeros(score.size, np.int32)
                    for k in range(1, score.size):
                        for j in range(score.size):
                            way = score[k] + moves[k, j]
                            at[j] = k if way > high[j] else at[j]
                            high[j] = way if way > high[j] else high[j]
                    best[i, t], score = at, high + seen[i, t]
                last[i] = score

        made = (
            np.zeros((sequences, length, states), np.int32),
            np.empty((sequences, states), np.float32),
        )
        return lambda: run(array(start), array(moves), array(seen), *made)

    return beside_torch(
        f"likeliest ways of {sequences} sequences of {length} through {states} states",
        viterbi,
        (sequences,),
        (start, moves, seen, best, last, length, states),
        theirs,
        start,
        moves,
        seen,
        outputs=2,
        compiles=False,
        more=by_numba(make),
    )


def _cholesky(batch: int, size: int, dtype: torch.dtype) -> Row:
    x = normal(batch, size, size).to(dtype)
    x = x @ x.mT + size * torch.eye(size, dtype=dtype)
    return beside_torch(
        f"triangles of {batch} squares of {size} {kind(dtype)}",
        cholesky,
        (batch,),
        (x, torch.empty_like(x), size),
        lambda x: torch.linalg.cholesky(x),
        x,
        bound=max(ERROR[dtype], 1e-13),
        compiles=False,
    )


def _three_diagonals(length: int, systems: int, dtype: torch.dtype) -> Row:
    low, high, right = (
        normal(length + i, systems)[:length].contiguous().to(dtype) for i in range(3)
    )
    middle = normal(length, systems).abs().to(dtype) + 4

    def theirs(low, middle, high, right):
        above, found = [high[0] / middle[0]], [right[0] / middle[0]]
        for t in range(1, length):
            share = 1 / (middle[t] - low[t] * above[-1])
            above.append(high[t] * share)
            found.append((right[t] - low[t] * found[-1]) * share)
        for t in range(length - 2, -1, -1):
            found[t] = found[t] - above[t] * found[t + 1]
        return torch.stack(found)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(low, middle, high, right, above, out):
            pieces = out.shape[1] // 64
            for p in nb.prange(pieces):
                for j in range(64 * p, 64 * p + 64):
                    above[0, j], out[0, j] = high[0, j] / middle[0, j], right[0, j] / middle[0, j]
                for t in range(1, out.shape[0]):
                    for j in range(64 * p, 64 * p + 64):
                        share = low.dtype.type(1) / (middle[t, j] - low[t, j] * above[t - 1, j])
                        above[t, j] = high[t, j] * share
                        out[t, j] = (right[t, j] - low[t, j] * out[t - 1, j]) * share
                for t in range(out.shape[0] - 2, -1, -1):
                    for j in range(64 * p, 64 * p + 64):
                        out[t, j] -= above[t, j] * out[t + 1, j]

        made = (
            np.empty((length, systems), array(low).dtype),
            np.empty((length, systems), array(low).dtype),
        )
        return lambda: run(*map(array, (low, middle, high, right)), *made)

    return beside_torch(
        f"{systems} systems of three diagonals of {length} {kind(dtype)}",
        three_diagonals,
        (systems // 64,),
        (low, middle, high, right, torch.empty_like(low), torch.empty_like(low), length, 64),
        theirs,
        low,
        middle,
        high,
        right,
        bound=max(ERROR[dtype], 1e-13),
        more=by_numba(make),
        compiles=False,
    )


def _unlike(rows_: int, words: int) -> Row:
    a, b = (
        integers((1 << 31) - i, rows_, words, dtype=torch.int64).to(torch.uint32) for i in range(2)
    )
    turned = b.view(torch.int32).t().contiguous().view(torch.uint32)
    bits = [
        ((each.view(torch.int32)[..., None] >> torch.arange(32)) & 1).flatten(1).float()
        for each in (a, b)
    ]

    def theirs(left, right):
        return (left.sum(1)[:, None] + right.sum(1) - 2 * (left @ right.t())).int()

    def make(nb):
        @nb.njit(parallel=True)
        def run(a, b, out):
            for i in nb.prange(a.shape[0]):
                for j in range(b.shape[0]):
                    total = 0
                    for w in range(a.shape[1]):
                        x = a[i, w] ^ b[j, w]
                        x = x - ((x >> np.uint32(1)) & np.uint32(0x55555555))
                        x = (x & np.uint32(0x33333333)) + (
                            (x >> np.uint32(2)) & np.uint32(0x33333333)
                        )
                        x = (x + (x >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
                        total += np.uint32(x * np.uint32(0x01010101)) >> np.uint32(24)
                    out[i, j] = total

        made = np.empty((rows_, rows_), np.int32)
        return lambda: run(array(a), array(b), made)

    return beside_torch(
        f"bits in which {rows_} x {rows_} rows of {32 * words} differ, tiles 16x64",
        unlike,
        (rows_ // 64, rows_ // 16),
        (a, turned, torch.empty(rows_, rows_, dtype=torch.int32), words, 16, 64),
        theirs,
        *bits,
        more=by_numba(make),
    )


def _overlaps(count: int) -> Row:
    corner = torch.rand(2, count, generator=torch.Generator().manual_seed(1)) * 50
    boxes = torch.cat(
        (corner, corner + torch.rand(2, count, generator=torch.Generator().manual_seed(2)) * 20 + 1)
    )
    powers = torch.ones(32, dtype=torch.int32) << torch.arange(32, dtype=torch.int32)

    def theirs(boxes):
        left, top, right, bottom = boxes
        width = torch.minimum(right[:, None], right) - torch.maximum(left[:, None], left)
        height = torch.minimum(bottom[:, None], bottom) - torch.maximum(top[:, None], top)
        common, area = width.clamp(min=0) * height.clamp(min=0), (right - left) * (bottom - top)
        hit = common > 0.5 * (area[:, None] + area - common)
        return (hit.view(count, -1, 32) * powers).sum(-1, dtype=torch.int32)

    return beside_torch(
        f"overlaps of {count} boxes as bits",
        overlaps,
        (count // 256, count // 8),
        (boxes, torch.empty(count, count // 32, dtype=torch.int32), 0.5, 8, 256),
        theirs,
        boxes,
    )


def _base64(groups: int) -> Row:
    import base64 as by_python

    x = integers(256, 3 * groups, dtype=torch.uint8)
    letters = torch.tensor(
        list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"), dtype=torch.uint8
    )

    def theirs(x):
        a, b, c = x.view(-1, 3).int().unbind(1)
        whole = (a << 16) | (b << 8) | c
        return letters[((whole[:, None] >> torch.tensor([18, 12, 6, 0])) & 63).view(-1)]

    return beside_torch(
        f"{3 * groups >> 20}M bytes as letters of base 64",
        base64,
        (groups // 512,),
        (x, letters, torch.empty(4 * groups, dtype=torch.uint8), 512),
        theirs,
        x,
        more={"Python's own": lambda: by_python.b64encode(array(x))},
    )


def _undone(rows_: int, width: int) -> Row:
    x = integers(2000, rows_, width, dtype=torch.int16)

    def theirs(x):
        held = x.int()
        return ((held >> 1) ^ -(held & 1)).cumsum(1, dtype=torch.int32)

    return beside_torch(
        f"steps of i16 added up, {rows_} x {width}, tiles of 512",
        undone_steps,
        (rows_,),
        (x, torch.empty(rows_, width, dtype=torch.int32), 512),
        theirs,
        x,
        more={
            "NumPy": lambda: np.cumsum(
                (array(x).astype(np.int32) >> 1) ^ -(array(x).astype(np.int32) & 1),
                1,
                dtype=np.int32,
            )
        },
    )


def _mu_law(many: int) -> Row:
    x = (integers(65536, many) - 32768).to(torch.int16)

    def theirs(x):
        held = x.float() * (1 / 32768)
        size = torch.log1p(255 * held.abs()) * (1 / math.log(256))
        return torch.floor((torch.where(held < 0, -size, size) + 1) * 127.5 + 0.5).to(torch.uint8)

    return beside_torch(
        f"{many >> 20}M samples of 16 bits by logarithms to 8",
        to_mu_law,
        (many // 1024,),
        (x, torch.empty(many, dtype=torch.uint8), 1024),
        theirs,
        x,
        bound=0.005,
    )


def _biquad(length: int, series: int, dtype: torch.dtype) -> Row:
    x, factors = (
        normal(length, series).to(dtype),
        torch.tensor([0.2, 0.4, 0.2, -0.6, 0.3], dtype=dtype),
    )

    def theirs(x, factors):
        b0, b1, b2, a1, a2 = factors
        first, second, found = torch.zeros_like(x[0]), torch.zeros_like(x[0]), torch.empty_like(x)
        for t in range(length):
            found[t] = b0 * x[t] + first
            first, second = b1 * x[t] - a1 * found[t] + second, b2 * x[t] - a2 * found[t]
        return found

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, factors, out):
            b0, b1, b2, a1, a2 = factors[0], factors[1], factors[2], factors[3], factors[4]
            for p in nb.prange(x.shape[1] // 64):
                first, second = np.zeros(64, x.dtype), np.zeros(64, x.dtype)
                for t in range(x.shape[0]):
                    for j in range(64):
                        held = x[t, 64 * p + j]
                        found = b0 * held + first[j]
                        first[j], second[j] = (
                            b1 * held - a1 * found + second[j],
                            b2 * held - a2 * found,
                        )
                        out[t, 64 * p + j] = found

        made = np.empty((length, series), array(x).dtype)
        return lambda: run(array(x), array(factors), made)

    return beside_torch(
        f"recursive filter of second order, {length} x {series} {kind(dtype)}",
        biquad,
        (series // 64,),
        (x, factors, torch.empty_like(x), length, 64),
        theirs,
        x,
        factors,
        bound=max(ERROR[dtype], 1e-13),
        more=by_numba(make),
        compiles=False,
    )


def _bells(m: int, n: int, k: int, dtype: torch.dtype) -> Row:
    a, b = (0.3 * normal(m, k)).to(dtype), (0.3 * normal(n, k)).to(dtype)
    squares = a.float().square().sum(1), b.float().square().sum(1)

    def theirs(a, b, first, second):
        far = first[:, None] + second - 2.0 * (a @ b.t()).to(first.dtype)
        return torch.exp(-0.5 * far.clamp(min=0)).to(a.dtype)

    return beside_torch(
        f"bells of distances, {m} x {n} points of {k} {kind(dtype)}, tiles 64x64x32",
        bells,
        (-(-n // 64), -(-m // 64)),
        (a, b, *squares, torch.empty(m, n, dtype=dtype), -0.5, 64, 64, 32),
        theirs,
        a,
        b,
        *squares,
        bound=max(ERROR[dtype], 2e-5) * 3,
    )


def _weighted(rows_: int, width: int) -> Row:
    x, weights = normal(rows_, width).double(), normal(rows_).abs().double()
    return beside_torch(
        f"weighted products of {width} columns of {rows_} f64, one half",
        weighted_products,
        (width // 32, width // 32),
        (x, weights, torch.empty(width, width, dtype=_F64), 32, 64),
        lambda x, weights: (x * weights[:, None]).t() @ x,
        x,
        weights,
        bound=1e-12,
    )


def _edges(nodes: int, mean: int, width: int, dtype: torch.dtype) -> Row:
    sizes = integers(2 * mean, nodes) + 1
    starts = functional.pad(sizes.cumsum(0), (1, 0)).int()
    many = int(starts[-1])
    scores, sources, x = normal(many), integers(nodes, many), normal(nodes, width).to(dtype)
    owner, wide = torch.repeat_interleave(torch.arange(nodes), sizes), sources.long()

    def theirs(scores, x):
        raised = torch.exp(
            scores
            - scores.new_full((nodes,), -math.inf).scatter_reduce(0, owner, scores, "amax")[owner]
        )
        weight = raised / scores.new_zeros(nodes).index_add(0, owner, raised)[owner]
        return torch.zeros_like(x).index_add(0, owner, weight[:, None].to(x.dtype) * x[wide])

    return beside_torch(
        f"{nodes} nodes with some {mean} neighbours of {width} {kind(dtype)} by softmax",
        edges_softmax,
        (nodes,),
        (scores, sources, starts, x, torch.empty(nodes, width, dtype=dtype), 16, width),
        theirs,
        scores,
        x,
        bound=max(ERROR[dtype], 2e-5),
        compiles=False,
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _segmented(512, 4096, torch.int32),
        lambda: _segmented(512, 4096, _F32),
        lambda: _moments(4096, 1024, _F32),
        lambda: _moments(4096, 1024, _BF16),
        lambda: _highest(1024, 1024, _F32),
        lambda: _highest(1024, 1024, _F64),
        lambda: _normal_numbers(1 << 21),
        lambda: _shorter(256, torch.int32, 16, 64, 16),
        lambda: _shorter(256, _F32, 8, 64, 8),
        lambda: _viterbi(64, 200, 32),
        lambda: _cholesky(1024, 32, _F32),
        lambda: _cholesky(1024, 32, _F64),
        lambda: _three_diagonals(512, 2048, _F32),
        lambda: _three_diagonals(512, 2048, _F64),
        lambda: _unlike(512, 8),
        lambda: _overlaps(2048),
        lambda: _base64(1 << 20),
        lambda: _undone(512, 8192),
        lambda: _mu_law(1 << 21),
        lambda: _biquad(1024, 1024, _F32),
        lambda: _biquad(1024, 1024, _F64),
        lambda: _bells(500, 700, 90, _F32),
        lambda: _bells(500, 700, 90, _BF16),
        lambda: _weighted(2048, 256),
        lambda: _edges(4096, 16, 64, _F32),
        lambda: _edges(4096, 16, 128, _F16),
    ]
