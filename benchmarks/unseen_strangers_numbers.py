"""Merging, packing, searching, small systems, alignments, long integers, as a stranger writes them."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch
from torch.nn import functional

from benchmarks import unseen_strangers_numbers_more as others
from benchmarks.unseen_rows import Row, array, integers, normal, uniform
from benchmarks.unseen_strangers_numbers_more import prange, row_of

_I32, _I64, _U8, _BOOL = torch.int32, torch.int64, torch.uint8, torch.bool
_HALVES = (128, 64, 32, 16, 8, 4, 2, 1)
_WORD = 0xFFFFFFFF
_P = 998244353
_NEGATIVE = -pow(_P, -1, 1 << 32) % (1 << 32)


def _before(x, key, steps, equal):
    """How many elements of a sorted array are below each key, or not above it."""
    low = ct.zeros(key.shape, ct.int32)
    high = low + x.shape[0]
    for _ in range(steps):
        middle = (low + high) >> 1
        found = ct.gather(x, middle)
        right = found <= key if equal else found < key
        right = right & (low < high)
        low, high = ct.where(right, middle + 1, low), ct.where(right, high, middle)
    return low


@ct.kernel
def merged(a, b, out, steps: ct.Constant[int], tile: ct.Constant[int]):
    """Two sorted arrays as one: each element knows its place by a search in the other."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    key = ct.gather(a, i)
    ct.scatter(out, i + _before(b, key, steps, False), key, mask=i < a.shape[0])
    key = ct.gather(b, i)
    ct.scatter(out, i + _before(a, key, steps, True), key, mask=i < b.shape[0])


def _merged(many: int, others: int) -> Row:
    a, b = (integers(10_000_000 + n, n).sort().values for n in (many, others))
    total, most, pieces = many + others, max(many, others), 64

    def theirs(a, b):
        return torch.cat((a, b)).sort().values

    def run(a, b):
        out = np.empty(total, np.int32)
        for piece in prange(pieces):
            first, last = piece * total // pieces, (piece + 1) * total // pieces
            low, high = max(0, first - others), min(first, many)
            while low < high:
                i = (low + high) // 2
                if a[i] <= b[first - i - 1]:
                    low = i + 1
                else:
                    high = i
            i, j = low, first - low
            for k in range(first, last):
                if j >= others or (i < many and a[i] <= b[j]):
                    out[k] = a[i]
                    i += 1
                else:
                    out[k] = b[j]
                    j += 1
        return out

    numpy = {"NumPy": lambda: np.sort(np.concatenate((array(a), array(b))), kind="stable")}
    held = (a, b, torch.empty(total, dtype=_I32), most.bit_length(), 256)
    name = f"sorted {many} and {others} int32 merged"
    return row_of(name, merged, -(-most // 256), held, theirs, a, b, run=run, more=numpy)


@ct.kernel
def solved(a, b, x, n: ct.Constant[int], some: ct.Constant[int], wide: ct.Constant[int]):
    """Systems of equations by Gauss and Jordan, with the largest of a column as pivot."""
    i = ct.bid(0)
    m = ct.load(a, (i, 0, 0), (some, wide, wide), padding_mode=ct.PaddingMode.ZERO)
    v = ct.load(b, (i, 0), (some, wide), padding_mode=ct.PaddingMode.ZERO)
    v = ct.expand_dims(v, 2)
    row = ct.arange(wide, dtype=ct.int32).reshape((1, wide, 1))
    column = ct.arange(wide, dtype=ct.int32).reshape((1, 1, wide))
    for k in range(n):
        held = ct.sum(ct.where(column == k, m, 0.0), 2, keepdims=True)
        size = ct.where((row >= k) & (row < n), ct.abs(held), -1.0)
        at = ct.argmax(size, 1, keepdims=True)
        pivot = ct.sum(ct.where(row == at, held, 0.0), 1, keepdims=True)
        top = ct.sum(ct.where(row == at, m, 0.0), 1, keepdims=True) / pivot
        top_v = ct.sum(ct.where(row == at, v, 0.0), 1, keepdims=True) / pivot
        old = ct.sum(ct.where(row == k, m, 0.0), 1, keepdims=True)
        old_v = ct.sum(ct.where(row == k, v, 0.0), 1, keepdims=True)
        m, v = ct.where(row == at, old, m), ct.where(row == at, old_v, v)
        factor = ct.sum(ct.where(column == k, m, 0.0), 2, keepdims=True)
        m = ct.where(row == k, top, m - factor * top)
        v = ct.where(row == k, top_v, v - factor * top_v)
    ct.store(x, (i, 0), v.reshape((some, wide)))


def _solved(many: int, n: int) -> Row:
    a, b = normal(many, n, n) + 4 * torch.eye(n), normal(many, n)

    def run(a, b):
        work, x = a.copy(), b.copy()
        for s in prange(many):
            m, v = work[s], x[s]
            for k in range(n):
                p = k
                for r in range(k + 1, n):
                    if abs(m[r, k]) > abs(m[p, k]):
                        p = r
                if p != k:
                    for c in range(n):
                        m[k, c], m[p, c] = m[p, c], m[k, c]
                    v[k], v[p] = v[p], v[k]
                over = np.float32(1) / m[k, k]
                for r in range(k + 1, n):
                    f = m[r, k] * over
                    for c in range(n):
                        m[r, c] -= f * m[k, c]
                    v[r] -= f * v[k]
            for k in range(n - 1, -1, -1):
                for c in range(k + 1, n):
                    v[k] -= m[k, c] * v[c]
                v[k] /= m[k, k]
        return x

    name = f"{many} systems of {n} equations with pivots float32"
    numpy = {"NumPy": lambda: np.linalg.solve(array(a), array(b)[..., None])}
    held, theirs = (a, b, torch.empty(many, n), n, 4, 16), torch.linalg.solve
    rest = {"run": run, "fast": True, "bound": 1e-4, "more": numpy}
    return row_of(name, solved, -(-many // 4), held, theirs, a, b, **rest)


@ct.kernel
def raised(x, out, degree: ct.Constant[int], squares: ct.Constant[int], wide: ct.Constant[int]):
    """Exponentials of matrices: a polynomial of the matrix over a power of two, then squares."""
    i = ct.bid(0)
    a = ct.load(x, (i, 0, 0), (4, wide, wide), padding_mode=ct.PaddingMode.ZERO)
    a = a * (1.0 / (1 << squares))
    row = ct.arange(wide, dtype=ct.int32).reshape((1, wide, 1))
    column = ct.arange(wide, dtype=ct.int32).reshape((1, 1, wide))
    one = ct.where(row == column, 1.0, 0.0)
    found = one + a * (1.0 / degree)
    for n in range(1, degree):
        found = one + ct.matmul(a, found) / (degree - n)
    for _ in range(squares):
        found = ct.matmul(found, found)
    ct.store(out, (i, 0, 0), found)


def _raised(many: int, n: int) -> Row:
    x = 0.25 * normal(many, n, n)

    def by_products(x):
        a, one = x / 16, torch.eye(n)
        found = one + a / 8
        for k in range(7, 0, -1):
            found = one + a @ found / k
        for _ in range(4):
            found = found @ found
        return found

    def run(x):
        out = np.empty((many, n, n), np.float32)
        for s in prange(many):
            a, b = x[s] * np.float32(1 / 16), np.empty((n, n), np.float32)
            found = a * np.float32(1 / 8)
            for i in range(n):
                found[i, i] += 1
            for k in range(7, 0, -1):
                np.dot(a, found, b)
                found[:] = b * np.float32(1 / k)
                for i in range(n):
                    found[i, i] += 1
            np.dot(found, found, a)
            np.dot(a, a, b)
            np.dot(b, b, a)
            np.dot(a, a, out[s])
        return out

    name = f"exponentials of {many} matrices of {n} x {n} float32"
    held, theirs = (x, torch.empty(many, n, n), 8, 4, 16), torch.linalg.matrix_exp
    rest = {"run": run, "fast": True, "bound": 1e-5}
    rest["more"] = {"torch by products": lambda: by_products(x)}
    return row_of(name, raised, -(-many // 4), held, theirs, x, **rest)


@ct.kernel
def aligned(a, b, table, work, best, gap, tile: ct.Constant[int]):
    """Scores of local alignments by Smith and Waterman: a pair for each lane, a row in work[place, pair]."""
    p = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    zero = ct.zeros((tile,), ct.int32)
    for j in range(b.shape[0]):
        ct.scatter(work, (j, p), zero)
    high = zero
    for i in range(a.shape[0]):
        letter = ct.gather(a, (i, p)).astype(ct.int32) * 24
        left, corner = zero, zero
        for j in range(b.shape[0]):
            above = ct.gather(work, (j, p))
            likeness = ct.gather(table, letter + ct.gather(b, (j, p)).astype(ct.int32))
            found = ct.maximum(corner + likeness.astype(ct.int32), 0)
            left = ct.maximum(found, ct.maximum(above, left) - gap)
            ct.scatter(work, (j, p), left)
            corner = above
            high = ct.maximum(high, left)
    ct.scatter(best, p, high)


def _aligned(pairs: int, m: int, n: int) -> Row:
    a, b = integers(24, m, pairs, dtype=_U8), integers(23, n, pairs, dtype=_U8)
    table = (integers(9, 24, 24) - 6 + 7 * torch.eye(24)).to(torch.int8).flatten()
    gap, lanes = 3, 64

    def theirs(a, b, table):
        likeness = table[a.int()[:, None] * 24 + b.int()].int().view(m * n, pairs)
        best = torch.zeros(pairs, dtype=_I32)
        before, last = torch.zeros(2, m + 1, pairs, dtype=_I32)
        for d in range(m + n - 1):
            low, high = max(0, d - n + 1), min(m - 1, d) + 1
            here = likeness[low * (n - 1) + d : (high - 1) * (n - 1) + d + 1 : n - 1]
            there = torch.maximum(last[low:high], last[low + 1 : high + 1]) - gap
            now = torch.zeros_like(last)
            now[low + 1 : high + 1] = torch.maximum(before[low:high] + here, there).clamp(min=0)
            best = torch.maximum(best, now.amax(0))
            before, last = last, now
        return best

    def run(a, b, table):
        best = np.zeros(pairs, np.int32)
        for block in prange(-(-pairs // lanes)):
            first, last = block * lanes, min((block + 1) * lanes, pairs)
            held, high = np.zeros((n, lanes), np.int32), best[first:last]
            left, corner = np.empty(lanes, np.int32), np.empty(lanes, np.int32)
            for i in range(m):
                x = a[i, first:last]
                left[:] = 0
                corner[:] = 0
                for j in range(n):
                    y, old = b[j, first:last], held[j]
                    for q in range(high.size):
                        above = old[q]
                        at = np.int32(x[q]) * np.int32(24) + np.int32(y[q])
                        found = max(corner[q] + np.int32(table[at]), np.int32(0))
                        found = max(found, max(above, left[q]) - np.int32(gap))
                        old[q], left[q], corner[q] = found, found, above
                        high[q] = max(high[q], found)
        return best

    name = f"scores of {pairs} alignments of {m} and {n} letters by a table int8"
    work, best = torch.empty(n, pairs, dtype=_I32), torch.empty(pairs, dtype=_I32)
    held, rest = (a, b, table, work, best, gap, 128), {"run": run, "compiles": False}
    return row_of(name, aligned, -(-pairs // 128), held, theirs, a, b, table, **rest)


@ct.kernel
def packed_bags(weights, values, limits, work, out, tile: ct.Constant[int]):
    """The most that fits in each bag, by the weights up to its limit: a bag for each block."""
    p = ct.bid(0)
    limit = ct.gather(limits, p)
    at = ct.arange(tile, dtype=ct.int32)
    held = ct.zeros((tile,), ct.int32)
    for k in range(weights.shape[1]):
        ct.scatter(work, (p, at), held)
        rest = at - ct.gather(weights, (p, k))
        found = ct.gather(work, (p, rest)) + ct.gather(values, (p, k))
        held = ct.where(rest >= 0, ct.maximum(held, found), held)
    ct.scatter(out, p, ct.max(ct.where(at <= limit, held, 0)))


def _packed_bags(bags: int, items: int) -> Row:
    weights, values = integers(150, bags, items) + 5, integers(1000, bags, items)
    limits = integers(300, bags) + 700

    def theirs(weights, values, limits):
        at = torch.arange(1024)
        held = torch.zeros(bags, 1024, dtype=_I32)
        for k in range(items):
            rest = at - weights[:, k, None]
            found = held.gather(1, rest.clamp(min=0)) + values[:, k, None]
            held = torch.where(rest >= 0, torch.maximum(held, found), held)
        return held.gather(1, limits[:, None].long())[:, 0]

    def run(weights, values, limits):
        out = np.empty(bags, np.int32)
        for p in prange(bags):
            held, other = np.zeros(1000, np.int32), np.empty(1000, np.int32)
            for k in range(items):
                w, v = weights[p, k], values[p, k]
                other[:w] = held[:w]
                same, less, found = held[w:], held[: 1000 - w], other[w:]
                for c in range(less.size):
                    found[c] = max(same[c], np.int32(less[c] + v))
                held, other = other, held
            out[p] = held[limits[p]]
        return out

    name = f"{bags} bags of up to 1000 filled from {items} things int32"
    given = weights, values, limits
    held = (*given, torch.empty(bags, 1024, dtype=_I32), torch.empty(bags, dtype=_I32), 1024)
    return row_of(name, packed_bags, bags, held, theirs, *given, run=run, compiles=False)


@ct.kernel
def distinct(keys, work, out, bits: ct.Constant[int], tile: ct.Constant[int]):
    """How many different keys each row has: entered into a table of its own, place after place."""
    row, slots = ct.bid(0), 1 << bits
    for s in range(slots // tile):
        ct.store(work, (row, s), ct.full((1, tile), -1, ct.int32))
    count = ct.zeros((tile,), ct.int32)
    for t in range(ct.cdiv(keys.shape[1], tile)):
        i = t * tile + ct.arange(tile, dtype=ct.int32)
        key = ct.gather(keys, (row, i), padding_value=-1)
        slot = ((key.astype(ct.uint32) * 0x9E3779B1) >> (32 - bits)).astype(ct.int32)
        waiting = key >= 0
        while ct.max(waiting.astype(ct.int32)) > 0:
            old = ct.atomic_cas(work, (row, ct.where(waiting, slot, -1)), -1, key)
            new = waiting & (old == -1)
            count += new.astype(ct.int32)
            waiting = waiting & (old != -1) & (old != key)
            slot = (slot + 1) & (slots - 1)
    ct.scatter(out, row, ct.sum(count))


def _distinct(groups: int, width: int, high: int) -> Row:
    keys = integers(high, groups, width)

    def theirs(keys):
        held = keys.sort(1).values
        return 1 + (held[:, 1:] != held[:, :-1]).sum(1, dtype=_I32)

    def run(keys):
        out = np.empty(groups, np.int32)
        for row in prange(groups):
            table, count = np.full(2048, np.int32(-1)), 0
            for i in range(width):
                key = keys[row, i]
                slot = np.uint32(np.uint32(key) * np.uint32(0x9E3779B1)) >> np.uint32(21)
                while table[slot] != -1 and table[slot] != key:
                    slot = (slot + np.uint32(1)) & np.uint32(2047)
                if table[slot] == -1:
                    table[slot] = key
                    count += 1
            out[row] = count
        return out

    name = f"different ones of {width} keys in each of {groups} groups by tables"
    work, out = torch.empty(groups, 2048, dtype=_I32), torch.empty(groups, dtype=_I32)
    held = (keys, work, out, 11, 256)
    return row_of(name, distinct, groups, held, theirs, keys, run=run)


def _joined(m, x, f, n, y, g):
    """Two neighbouring pieces of seven bits each: how many bits, the bits, whether a number starts."""
    start = g > 0
    return ct.where(start, n, m + n), ct.where(start, y, x | (y << m)), f | g


@ct.kernel
def varints(x, offsets, out, width: ct.Constant[int], some: ct.Constant[int]):
    """Numbers of seven bits in a byte, the highest bit where more follow, in rows of whole numbers."""
    row = (ct.bid(0) * some + ct.arange(some, dtype=ct.int32)).reshape((some, 1))
    i = ct.arange(width, dtype=ct.int32).reshape((1, width))
    byte = ct.gather(x, (row, i)).astype(ct.int32)
    start = (ct.gather(x, (row, i - 1)) < 128).astype(ct.int32)
    size = ct.full((some, width), 7, ct.int32)
    _, value, _ = ct.scan((size, byte & 127, start), 1, _joined, (0, 0, 0))
    last = (byte < 128) & (i < x.shape[1]) & (row < x.shape[0])
    place = ct.gather(offsets, row) + ct.cumsum(start, 1) - 1
    ct.scatter(out, place, value, mask=last)


def _varints(many: int, width: int) -> Row:
    more = uniform(many, width) < 0.4
    more[:, 3::4] = more[:, -1] = False
    x = integers(128, many, width, dtype=_U8) | more.to(_U8) * 128
    counts = (x < 128).sum(1)
    offsets = functional.pad(counts.cumsum(0), (1, 0)).to(_I32)
    total = int(counts.sum())

    def theirs(x):
        end = x < 128
        start = functional.pad(end[:, :-1], (1, 0), value=True)
        i = torch.arange(width, dtype=_I32).expand(many, width)
        first = torch.where(start, i, 0).cummax(1).values
        part = (x & 127).int() << 7 * (i - first)
        place = start.flatten().cumsum(0) - 1
        return torch.zeros(total, dtype=_I32).index_add_(0, place, part.flatten())

    def run(x, offsets):
        out = np.empty(total, np.int32)
        for row in prange(many):
            place, value, shift = offsets[row], np.int32(0), np.int32(0)
            for i in range(width):
                byte = np.int32(x[row, i])
                value |= (byte & np.int32(127)) << shift
                shift += np.int32(7)
                if byte < 128:
                    out[place] = value
                    place, value, shift = place + 1, np.int32(0), np.int32(0)
        return out

    name = f"numbers of seven bits a byte in {many} rows of {width} uint8"
    held = (x, offsets, torch.empty(total, dtype=_I32), 256, 4)
    return row_of(name, varints, -(-many // 4), held, theirs, x, run=run, arrays=(x, offsets))


@ct.kernel
def postings(words, starts, widths, firsts, out, some: ct.Constant[int]):
    """Ascending numbers from blocks of 128 steps, each block in as few bits a step as it needs."""
    block = (ct.bid(0) * some + ct.arange(some, dtype=ct.int32)).reshape((some, 1))
    width = ct.gather(widths, block).astype(ct.int32)
    bit = ct.arange(128, dtype=ct.int32).reshape((1, 128)) * width
    at = ct.gather(starts, block) + (bit >> 5)
    low = ct.gather(words, at).astype(ct.uint32).astype(ct.uint64)
    high = ct.gather(words, at + 1).astype(ct.uint32).astype(ct.uint64)
    step = ((high << 32) | low) >> (bit & 31).astype(ct.uint64)
    step = step.astype(ct.int32) & ((1 << width) - 1)
    found = ct.gather(firsts, block) + ct.cumsum(step, 1)
    ct.store(out, (ct.bid(0), 0), found)


def _postings(blocks: int) -> Row:
    widths = integers(17, blocks, dtype=_U8) + 1
    starts = functional.pad((4 * widths.int()).cumsum(0), (1, 0))
    words = integers(1 << 32, int(starts[-1]) + 1, dtype=_I64).to(_I32)
    starts, firsts = starts[:-1].to(_I32), integers(1 << 24, blocks)

    def theirs(words, starts, widths, firsts):
        width = widths.int()[:, None]
        bit = torch.arange(128, dtype=_I32) * width
        at = starts[:, None] + (bit >> 5)
        step = (words[at].long() & _WORD | words[at + 1].long() << 32) >> (bit & 31)
        step = step.int() & ((1 << width) - 1)
        return firsts[:, None] + step.cumsum(1, dtype=_I32)

    def run(words, starts, widths, firsts):
        out = np.empty((blocks, 128), np.int32)
        for block in prange(blocks):
            width, total = np.uint64(widths[block]), firsts[block]
            mask = (np.uint64(1) << width) - np.uint64(1)
            held, row = words[starts[block] :].view(np.uint32), out[block]
            for i in range(128):
                bit = np.uint64(i) * width
                at = bit >> np.uint64(5)
                both = np.uint64(held[at]) | np.uint64(held[at + np.uint64(1)]) << np.uint64(32)
                total += np.int32(both >> (bit & np.uint64(31)) & mask)
                row[i] = total
        return out

    name = f"{blocks} blocks of 128 ascending numbers from 1 to 17 bits a step"
    given = words, starts, widths, firsts
    held = (*given, torch.empty(blocks, 128, dtype=_I32), 8)
    return row_of(name, postings, -(-blocks // 8), held, theirs, *given, run=run)


@ct.kernel
def bins(x, edges, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    """Which of 256 bins each number is in, by the 255 edges of its column."""
    row = (ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    column = ct.arange(columns, dtype=ct.int32).reshape((1, columns))
    value = ct.gather(x, (row, column))
    place = ct.zeros((rows, columns), ct.int32)
    for step in ct.static_iter(_HALVES):
        edge = ct.gather(edges, (column, place + (step - 1)))
        place = ct.where(edge <= value, place + step, place)
    ct.scatter(out, (row, column), place.astype(ct.uint8))


def _bins(many: int, columns: int) -> Row:
    x, edges = normal(many, columns), normal(columns, 255).sort(1).values

    def theirs(x, edges):
        return torch.searchsorted(edges, x.T.contiguous(), right=True).T.to(_U8)

    def run(x, edges):
        out = np.empty((many, columns), np.uint8)
        for row in prange(many):
            for c in range(columns):
                value, held, place = x[row, c], edges[c], np.uint32(0)
                for step in (128, 64, 32, 16, 8, 4, 2, 1):
                    if held[place + np.uint32(step - 1)] <= value:
                        place += np.uint32(step)
                out[row, c] = place
        return out

    name = f"bins of {many} x {columns} float32 by 255 edges of each column"
    held = (x, edges, torch.empty(many, columns, dtype=_U8), 32, 32)
    return row_of(name, bins, -(-many // 32), held, theirs, x, edges, run=run)


@ct.kernel
def forest(x, features, limits, leaves, out, depth: ct.Constant[int], tile: ct.Constant[int]):
    """Sums of the leaves that rows come to in full trees: a row for each lane."""
    row = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    total = ct.zeros((tile,), ct.float32)
    for t in range(features.shape[0]):
        node = ct.zeros((tile,), ct.int32)
        for _ in range(depth):
            value = ct.gather(x, (row, ct.gather(features, (t, node)).astype(ct.int32)))
            above = value > ct.gather(limits, (t, node))
            node = 2 * node + ct.where(above, 2, 1)
        total += ct.gather(leaves, (t, node - features.shape[1]))
    ct.scatter(out, row, 1.0 / (1.0 + ct.exp(-total)))


def _forest(many: int, trees: int, columns: int) -> Row:
    x, limits = integers(256, many, columns, dtype=_U8), integers(255, trees, 63, dtype=_U8)
    features, leaves = integers(columns, trees, 63, dtype=_U8), 0.2 * normal(trees, 64)

    def theirs(x, features, limits, leaves):
        tree = torch.arange(trees)
        node = torch.zeros(len(x), trees, dtype=_I64)
        for _ in range(6):
            value = x.gather(1, features[tree, node].long())
            node = 2 * node + 1 + (value > limits[tree, node])
        return leaves[tree, node - 63].sum(1).sigmoid()

    def run(x, features, limits, leaves):
        out = np.empty(many, np.float32)
        for row in prange(many):
            held, total = x[row], np.float32(0)
            for t in range(trees):
                node = np.uint32(0)
                for _ in range(6):
                    above = held[features[t, node]] > limits[t, node]
                    node = np.uint32(2) * node + np.uint32(1) + np.uint32(above)
                total += leaves[t, node - np.uint32(63)]
            out[row] = np.float32(1) / (np.float32(1) + np.exp(-total))
        return out

    name = f"chances of {many} rows of {columns} uint8 by {trees} trees of depth 6"
    given = x, features, limits, leaves
    held, rest = (*given, torch.empty(many), 6, 256), {"run": run, "fast": True, "bound": 1e-5}
    return row_of(name, forest, -(-many // 256), held, theirs, *given, **rest)


def _below_p(x):
    """A number below 2 p as one below p."""
    return ct.where(x >= _P, x - _P, x)


def _times(x, y):
    """x y / 2**32 modulo p by Montgomery, u32."""
    both = x.astype(ct.uint64) * y.astype(ct.uint64)
    factor = both.astype(ct.uint32) * _NEGATIVE
    return _below_p(((both + factor.astype(ct.uint64) * _P) >> 32).astype(ct.uint32))


@ct.kernel
def ntt(x, roots, out, some: ct.Constant[int]):
    """Fourier transforms of rows of 256 modulo p, from halves to neighbours; places by turned bits."""
    i = ct.bid(0)
    v = ct.load(x, (i, 0), (some, 256), padding_mode=ct.PaddingMode.ZERO).astype(ct.uint32)
    for half in ct.static_iter(_HALVES):
        pairs = ct.static_eval(some * 128 // half)
        v = ct.reshape(v, (pairs, 2, half))
        a = ct.extract(v, (0, 0, 0), (pairs, 1, half))
        b = ct.extract(v, (0, 1, 0), (pairs, 1, half))
        root = ct.load(roots, (1,), (half,)).astype(ct.uint32).reshape((1, 1, half))
        v = ct.cat((_below_p(a + b), _times(a + _P - b, root)), 1)
    ct.store(out, (i, 0), ct.reshape(v, (some, 256)).astype(ct.int32))


def _ntt(many: int) -> Row:
    x = integers(_P, many, 256)
    u32, u64 = np.uint32, np.uint64
    powers = [pow(3, (_P - 1) // (2 * h) * j, _P) for h in _HALVES[::-1] for j in range(h)]
    roots = torch.tensor([0, *powers])
    turned = torch.tensor([0, *((power << 32) % _P for power in powers)], dtype=_I32)

    def theirs(x, roots):
        v = x.long()
        for half in _HALVES:
            a, b = v.view(many, -1, 2, half).unbind(2)
            v = torch.stack(((a + b) % _P, (a - b) * roots[half : 2 * half] % _P), 2)
        return v.view(many, 256).int()

    def run(x, roots):
        out, roots = x.copy().view(u32), roots.view(u32)
        for row in prange(many):
            for half in (128, 64, 32, 16, 8, 4, 2, 1):
                w = roots[half : 2 * half]
                for first in range(0, 256, 2 * half):
                    lows = out[row, first : first + half]
                    highs = out[row, first + half : first + 2 * half]
                    for j in range(half):
                        a, b = lows[j], highs[j]
                        both = u64(u32(a + u32(_P) - b)) * u64(w[j])
                        factor = u64(u32(u32(both) * u32(_NEGATIVE)))
                        low, high = u32(a + b), u32((both + factor * u64(_P)) >> u64(32))
                        lows[j] = min(low, u32(low - u32(_P)))
                        highs[j] = min(high, u32(high - u32(_P)))
        return out.view(np.int32)

    name = f"Fourier transforms of {many} rows of 256 modulo {_P}"
    held, arrays = (x, turned, torch.empty_like(x), 4), (x, turned)
    return row_of(name, ntt, -(-many // 4), held, theirs, x, roots, run=run, arrays=arrays)


def _carried(g, p, h, q):
    """Two neighbouring pieces of a sum: whether they carry, and whether they pass a carry on."""
    return h | (q & g), p & q


@ct.kernel
def long_sums(a, b, out, over, some: ct.Constant[int], wide: ct.Constant[int]):
    """Sums of long numbers of words of 32 bits, lowest first, and whether they go over; by a scan of carries."""
    row = (ct.bid(0) * some + ct.arange(some, dtype=ct.int32)).reshape((some, 1))
    k = ct.arange(wide, dtype=ct.int32).reshape((1, wide))
    lower = ct.gather(a, (row, k - 1)).astype(ct.uint32)
    found = lower + ct.gather(b, (row, k - 1)).astype(ct.uint32)
    makes = (found < lower).astype(ct.int32)
    passes = (found == 0xFFFFFFFF).astype(ct.int32)
    carry, _ = ct.scan((makes, passes), 1, _carried, (0, 1))
    total = ct.gather(a, (row, k)) + ct.gather(b, (row, k)) + carry
    ct.scatter(out, (row, k), total)
    last = ct.sum(ct.where(k == a.shape[1], carry, 0), 1, keepdims=True)
    ct.scatter(over, row, last > 0)


def _long_sums(many: int, words: int) -> Row:
    a, b = (integers(high, many, words, dtype=_I64) for high in (1 << 32, (1 << 32) - 1))
    b = torch.where(integers(3, many, words) > 0, _WORD - a, b)
    a, b = a.to(_I32), b.to(_I32)

    def theirs(a, b):
        total, over = (a.long() & _WORD) + (b.long() & _WORD), torch.zeros(many, dtype=_BOOL)
        while True:
            carry = total >> 32
            over |= carry[:, -1] > 0
            if not carry.any():
                return total.int(), over
            total &= _WORD
            total[:, 1:] += carry[:, :-1]

    def run(a, b):
        out, over = np.empty((many, words), np.uint32), np.empty(many, np.bool_)
        for row in prange(many):
            x, y, z, held = a[row].view(np.uint32), b[row].view(np.uint32), out[row], np.uint64(0)
            for k in range(words):
                held += np.uint64(x[k]) + np.uint64(y[k])
                z[k] = np.uint32(held)
                held >>= np.uint64(32)
            over[row] = held > 0
        return out.view(np.int32), over

    name = f"{many} sums of numbers of {words} words of 32 bits"
    held = (a, b, torch.empty_like(a), torch.empty(many, dtype=_BOOL), 8, 64)
    rest = {"run": run, "outputs": 2, "compiles": False}
    return row_of(name, long_sums, -(-many // 8), held, theirs, a, b, **rest)


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _merged(120_001, 70_003),
        lambda: _solved(501, 12),
        lambda: _raised(501, 14),
        lambda: _aligned(1001, 32, 40),
        lambda: _packed_bags(101, 40),
        lambda: _distinct(101, 1000, 700),
        lambda: _varints(801, 250),
        lambda: _postings(2001),
        lambda: _bins(8001, 28),
        lambda: _forest(2001, 40, 20),
        lambda: _ntt(501),
        lambda: _long_sums(8001, 48),
        lambda: others.minhash_row(501, 120),
        lambda: others.trends_row(2001, 365),
        lambda: others.returns_row(5001, 24),
        lambda: others.adler_row(1001, 1500),
        lambda: others.moments_row(50_001),
        lambda: others.dense_row(1501, 24),
    ]
