"""Rays, trees, experts, quantised weights, rewards and sounds, as a stranger writes them."""

from __future__ import annotations

import math
from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch
from scipy.signal import upfirdn
from torch.nn import functional

from benchmarks.unseen_rows import (
    Row,
    array,
    beside_torch,
    by_numba,
    integers,
    next_power,
    normal,
    numba,
    several,
    uniform,
)

_F64, _F16, _BF16 = torch.float64, torch.float16, torch.bfloat16
_I8, _I32, _I64, _U8 = torch.int8, torch.int32, torch.int64, torch.uint8
_ZERO = ct.PaddingMode.ZERO
_nb = numba()
_range = _nb.prange if _nb else range
f, i32, u = np.float32, np.int32, np.uint32  # in what numba compiles
Int = ct.Constant[int]


def _row(name, kernel, grid, held, outs, rest, theirs, bound, run=None, work=(), **other):
    """A row of inputs, outputs and numbers; ``run`` is for numba: inputs, ``work`` and outputs."""

    def make(nb):
        job = nb.njit(parallel=True, fastmath=True)(run)
        given = [*map(array, held), *work, *(array(each).copy() for each in outs)]
        return lambda: job(*given)

    every, tensors = (*held, *outs, *rest), other.pop("tensors", held)
    other |= {"outputs": len(outs), "bound": bound}
    other["more"] = other.get("more", {}) | (by_numba(make) if run else {})
    return beside_torch(name, kernel, grid, every, theirs, *tensors, **other)


def _cell(x, y, z):
    """The hash of a corner of a grid, of 32 bits."""
    return x ^ (y * ct.uint32(2654435761)) ^ (z * ct.uint32(805459861))


@ct.kernel
def hashed(points, sizes, tables, out, tile: Int):
    """Features of points in a cube from hashed grids of several sizes: tables [level, cell, 2]."""
    level = ct.bid(1)
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    size = ct.gather(sizes, level)
    x, y = ct.gather(points, (i, 0)) * size, ct.gather(points, (i, 1)) * size
    z = ct.gather(points, (i, 2)) * size
    a, b, c = ct.floor(x), ct.floor(y), ct.floor(z)
    x, y, z = x - a, y - b, z - c
    a, b, c = a.astype(ct.uint32), b.astype(ct.uint32), c.astype(ct.uint32)
    first, second = ct.zeros((tile,), ct.float32), ct.zeros((tile,), ct.float32)
    for corner in range(8):
        p, q, r = corner & 1, (corner >> 1) & 1, corner >> 2
        share = ct.where(p == 1, x, 1.0 - x) * ct.where(q == 1, y, 1.0 - y)
        share = share * ct.where(r == 1, z, 1.0 - z)
        at = _cell(a + ct.uint32(p), b + ct.uint32(q), c + ct.uint32(r))
        at = (at & ct.uint32(tables.shape[1] - 1)).astype(ct.int32)
        first += share * ct.gather(tables, (level, at, 0))
        second += share * ct.gather(tables, (level, at, 1))
    ct.scatter(out, (i, 2 * level), first)
    ct.scatter(out, (i, 2 * level + 1), second)


def _hashed(many: int, levels: int, cells: int) -> Row:
    points, tables = uniform(many, 3), normal(levels, cells, 2)
    sizes = torch.floor(16 * 1.5 ** torch.arange(levels))

    def theirs(points, sizes, tables):
        found = []
        for n in range(levels):
            at = points * sizes[n]
            low = at.floor()
            part, low, total = at - low, low.long(), 0
            for k in range(8):
                corner = torch.tensor([k & 1, (k >> 1) & 1, k >> 2])
                x, y, z = (low + corner).unbind(1)
                cell = (x ^ (y * 2654435761) ^ (z * 805459861)) & (cells - 1)
                share = torch.where(corner == 1, part, 1 - part).prod(1, keepdim=True)
                total = total + share * tables[n, cell]
            found.append(total)
        return torch.cat(found, 1)

    def run(points, sizes, tables, out):
        for i in _range(many):
            for n in range(levels):
                size = sizes[n]
                x, y, z = points[i, 0] * size, points[i, 1] * size, points[i, 2] * size
                a, b, c = u(x), u(y), u(z)
                x, y, z = x - f(a), y - f(b), z - f(c)
                s, t = f(0), f(0)
                for k in range(8):
                    p, q, r = k & 1, (k >> 1) & 1, k >> 2
                    w = (x if p else f(1) - x) * (y if q else f(1) - y) * (z if r else f(1) - z)
                    h = u(a + u(p)) ^ u(u(b + u(q)) * u(2654435761))
                    h = (h ^ u(u(c + u(r)) * u(805459861))) & u(cells - 1)
                    s += w * tables[n, h, 0]
                    t += w * tables[n, h, 1]
                out[i, 2 * n], out[i, 2 * n + 1] = s, t

    name = f"{many} points in {levels} hashed grids of {cells} x 2 float32"
    held, grid, out = (
        (points, sizes, tables),
        (-(-many // 256), levels),
        torch.empty(many, 2 * levels),
    )
    return _row(name, hashed, grid, held, (out,), (256,), theirs, 1e-4, run)


@ct.kernel
def composed(dense, steps, places, colours, seen, depth, rows: Int, tile: Int):
    """What rays see through a cloud: colour and opacity in seen[ray, 4], and the depth."""
    ray = (ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    step = ct.arange(tile, dtype=ct.int32).reshape((1, tile))
    thick = ct.gather(dense, (ray, step)) * ct.gather(steps, (ray, step))
    before = ct.cumsum(thick, 1) - thick
    weight = ct.exp(-before) * (1.0 - ct.exp(-thick))
    for c in range(3):
        mixed = ct.sum(weight * ct.gather(colours, (ray, step, c)), 1, keepdims=True)
        ct.scatter(seen, (ray, c), mixed)
    ct.scatter(seen, (ray, 3), ct.sum(weight, 1, keepdims=True))
    far = ct.sum(weight * ct.gather(places, (ray, step)), 1)
    ct.scatter(depth, ct.reshape(ray, (rows,)), far)


def _composed(rays: int, many: int) -> Row:
    dense, steps = uniform(rays, many) * 4, uniform(rays, many, seed=1) * 0.05
    places, colours = steps.cumsum(1), uniform(rays, many, 3, seed=2)

    def theirs(dense, steps, places, colours):
        thick = dense * steps
        weight = torch.exp(thick - thick.cumsum(1)) * (1 - torch.exp(-thick))
        mixed = torch.einsum("rs,rsc->rc", weight, colours)
        return torch.cat([mixed, weight.sum(1, keepdim=True)], 1), (weight * places).sum(1)

    def run(dense, steps, places, colours, seen, depth):
        for i in _range(rays):
            left, red, green, blue, far = f(1), f(0), f(0), f(0), f(0)
            for s in range(many):
                kept = np.exp(-dense[i, s] * steps[i, s])
                w = left * (f(1) - kept)
                red += w * colours[i, s, 0]
                green += w * colours[i, s, 1]
                blue += w * colours[i, s, 2]
                far += w * places[i, s]
                left *= kept
            seen[i, 0], seen[i, 1], seen[i, 2], seen[i, 3] = red, green, blue, f(1) - left
            depth[i] = far

    name, grid = f"{rays} rays through {many} pieces of a cloud float32", (-(-rays // 8),)
    held, outs = (dense, steps, places, colours), (torch.empty(rays, 4), torch.empty(rays))
    return _row(name, composed, grid, held, outs, (8, 128), theirs, 1e-5, run)


@ct.kernel
def drafted(q, keys, values, own_keys, own_values, bits, out, scale, m: Int, d: Int):
    """Attention of a tree of drafts to a cache, and to those of its own that the bits of each name."""
    head = ct.bid(0)
    lane = ct.arange(m, dtype=ct.int32)
    query = ct.load(q, (head, 0, 0), (1, m, d), padding_mode=_ZERO).reshape((m, d))
    family = ct.gather(bits, lane).reshape((m, 1))
    high, total = ct.full((m, 1), -1e30, ct.float32), ct.zeros((m, 1), ct.float32)
    acc = ct.zeros((m, d), ct.float32)
    cached = ct.cdiv(keys.shape[1], m)
    for j in range(cached + 1):
        if j < cached:
            k = ct.load(keys, (head, j, 0), (1, m, d), padding_mode=_ZERO).reshape((m, d))
            v = ct.load(values, (head, j, 0), (1, m, d), padding_mode=_ZERO).reshape((m, d))
            seen = ct.broadcast_to((j * m + lane < keys.shape[1]).reshape((1, m)), (m, m))
        else:
            k = ct.load(own_keys, (head, 0, 0), (1, m, d), padding_mode=_ZERO).reshape((m, d))
            v = ct.load(own_values, (head, 0, 0), (1, m, d), padding_mode=_ZERO).reshape((m, d))
            seen = ((family >> lane.astype(ct.int64).reshape((1, m))) & 1) != 0
        s = ct.mma(query, ct.transpose(k), ct.zeros((m, m), ct.float32)) * scale
        s = ct.where(seen, s, -1e30)
        higher = ct.maximum(high, ct.max(s, 1, keepdims=True))
        p, less = ct.exp(s - higher), ct.exp(high - higher)
        total = total * less + ct.sum(p, 1, keepdims=True)
        acc = ct.mma(p.astype(v.dtype), v, acc * less)
        high = higher
    ct.store(out, (head, 0, 0), (acc / total).astype(out.dtype).reshape((1, m, d)))


def _drafted(heads: int, many: int, cached: int, depth: int) -> Row:
    q, k, v = several(3, heads, many, depth, dtype=_F16)
    keys, values = several(2, heads, cached, depth, dtype=_F16)
    above = [(n - 1) // 2 for n in range(many)]
    family = torch.eye(many, dtype=torch.bool)
    for n in range(1, many):
        family[n] |= family[above[n]]
    bits = (family.long() << torch.arange(many)).sum(1)
    mask = torch.cat([torch.ones(many, cached, dtype=torch.bool), family], 1)

    def theirs(q, keys, values, k, v, _):
        keys, values = torch.cat([keys, k], 1), torch.cat([values, v], 1)
        return functional.scaled_dot_product_attention(q[None], keys[None], values[None], mask)[0]

    name = (
        f"attention of a tree of {many} drafts to {cached} before, {heads} heads of {depth} float16"
    )
    held, out, rest = (q, keys, values, k, v, bits), torch.empty_like(q), (depth**-0.5, 64, depth)
    return _row(name, drafted, (heads,), held, (out,), rest, theirs, 2e-3)


@ct.kernel
def neighbourly(own, other, neighbours, gain, shift, out, nodes: Int, d: Int):
    """The largest over neighbours of leaky halves of own + other, scaled: a layer on a cloud of points."""
    node = ct.bid(0) * nodes + ct.arange(nodes, dtype=ct.int32)
    column = ct.arange(d, dtype=ct.int32).reshape((1, d))
    mine = ct.load(own, (ct.bid(0), 0), (nodes, d))
    g, b = ct.load(gain, (0,), (d,)), ct.load(shift, (0,), (d,))
    best = ct.full((nodes, d), -math.inf, ct.float32)
    for k in range(neighbours.shape[1]):
        j = ct.gather(neighbours, (node, k)).reshape((nodes, 1))
        found = (mine + ct.gather(other, (j, column))) * g + b
        best = ct.maximum(best, ct.where(found > 0, found, 0.2 * found))
    ct.store(out, (ct.bid(0), 0), best)


def _neighbourly(nodes: int, near: int, width: int) -> Row:
    own, other = several(2, nodes, width)
    neighbours, (gain, shift) = integers(nodes, nodes, near), several(2, width)

    def theirs(own, other, neighbours, gain, shift):
        found = (own[:, None] + other[neighbours]) * gain + shift
        return functional.leaky_relu(found, 0.2).amax(1)

    def run(own, other, neighbours, gain, shift, out):
        for i in _range(nodes):
            out[i] = f(-1e30)
            for k in range(near):
                j = neighbours[i, k]
                for c in range(width):
                    x = (own[i, c] + other[j, c]) * gain[c] + shift[c]
                    out[i, c] = max(out[i, c], x if x > 0 else f(0.2) * x)

    name = f"largest over {near} neighbours of {nodes} points of {width} float32, leaky"
    held, grid = (own, other, neighbours, gain, shift), (-(-nodes // 16),)
    out = torch.empty_like(own)
    return _row(name, neighbourly, grid, held, (out,), (16, width), theirs, 1e-5, run)


@ct.kernel
def ternary(x, packed, scales, out, weight_scale, m: Int, n: Int, k: Int):
    """Rows of i8 times weights of -1, 0 and 1: four quarters of a row of weights in the bits of a byte."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((m, n), ct.int32)
    parts = ct.cdiv(packed.shape[1], k)
    for t in range(parts):
        held = ct.load(packed, (j, t), (n, k), padding_mode=_ZERO).astype(ct.int32)
        for p in range(4):
            w = ((held >> (2 * p)) & 3).astype(ct.int8) - 1
            a = ct.load(x, (i, p * parts + t), (m, k), padding_mode=_ZERO)
            acc = ct.mma(a, ct.transpose(w), acc)
    scale = ct.load(scales, (i,), (m,)).reshape((m, 1)) * weight_scale
    ct.store(out, (i, j), acc.astype(ct.float32) * scale)


def _ternary(rows: int, outs: int, depth: int) -> Row:
    x, codes = (integers(255, rows, depth) - 127).to(_I8), integers(3, outs, depth, dtype=_U8)
    a, b, c, d = codes.view(outs, 4, depth // 4).unbind(1)
    packed, scales = a | (b << 2) | (c << 4) | (d << 6), uniform(rows)

    def theirs(x, packed, scales):
        w = torch.cat([((packed >> (2 * p)) & 3).to(scales.dtype) - 1 for p in range(4)], 1)
        return (x.to(scales.dtype) @ w.T) * (scales * 0.02)[:, None]

    quarter = depth // 4

    def run(x, packed, scales, work, out):
        for j in _range(outs):
            for p in range(4):
                for k in range(quarter):
                    code = (packed[j, k] >> np.uint8(2 * p)) & np.uint8(3)
                    work[j, p * quarter + k] = np.int16(code) - np.int16(1)
            for i in range(rows):
                total = i32(0)
                for k in range(depth):
                    total = i32(total + i32(x[i, k]) * i32(work[j, k]))
                out[i, j] = f(total) * (scales[i] * f(0.02))

    name = f"{rows} x {depth} i8 by {outs} rows of weights of -1, 0, 1, four in a byte"
    held, out, rest = (x, packed, scales), torch.empty(rows, outs), (0.02, 32, 64, 64)
    grid, work = (-(-rows // 32), -(-outs // 64)), (np.empty((outs, depth), np.int16),)
    return _row(name, ternary, grid, held, (out,), rest, theirs, 1e-6, run, work)


@ct.kernel
def low_bits(blocks, x, out, rows: Int, many: Int):
    """A matrix of numbers of five bits times a vector: blocks of 32 in 22 bytes, a scale, high bits, low bits."""
    row = (ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1, 1))
    lane = ct.arange(16, dtype=ct.int32).reshape((1, 1, 16))
    acc = ct.zeros((rows, many, 16), ct.float32)
    for t in range(ct.cdiv(blocks.shape[1], many)):
        block = (t * many + ct.arange(many, dtype=ct.int32)).reshape((1, many, 1))
        scale = ct.gather(blocks, (row, block, 0)).astype(ct.uint16)
        scale = scale | (ct.gather(blocks, (row, block, 1)).astype(ct.uint16) << 8)
        scale = ct.bitcast(scale, ct.float16).astype(ct.float32)
        high = ct.zeros((rows, many, 1), ct.int32)
        for b in range(4):
            high = high | (ct.gather(blocks, (row, block, 2 + b)).astype(ct.int32) << (8 * b))
        low = ct.gather(blocks, (row, block, 6 + lane)).astype(ct.int32)
        first = (low & 15) | (((high >> lane) & 1) << 4)
        second = (low >> 4) | (((high >> (lane + 16)) & 1) << 4)
        total = (first - 16).astype(ct.float32) * ct.gather(x, block * 32 + lane)
        total += (second - 16).astype(ct.float32) * ct.gather(x, block * 32 + 16 + lane)
        acc += total * scale
    ct.scatter(out, row.reshape((rows,)), ct.sum(acc, (1, 2)))


def _low_bits(rows: int, depth: int) -> Row:
    many = depth // 32
    scale = (uniform(rows, many, 1) * 0.1 + 0.01).half().view(_U8)
    blocks, x = torch.cat([scale, integers(256, rows, many, 20, dtype=_U8)], 2), normal(depth)

    def theirs(blocks, x):
        scale = blocks[..., :2].contiguous().view(_F16).to(x.dtype)
        high = (blocks[..., 2:6, None] >> torch.arange(8, dtype=_U8)) & 1
        low = torch.cat([blocks[..., 6:] & 15, blocks[..., 6:] >> 4], 2)
        numbers = (low | (high.flatten(2) << 4)).to(x.dtype) - 16
        return (numbers * scale).flatten(1) @ x

    table = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)

    def run(blocks, x, table, out):
        for i in _range(rows):
            total = f(0)
            for b in range(many):
                w = blocks[i, b]
                high = i32(w[2]) | (i32(w[3]) << 8) | (i32(w[4]) << 16) | (i32(w[5]) << 24)
                part = f(0)
                for k in range(16):
                    p = i32(w[6 + k] & 15) | i32(((high >> k) & 1) << 4)
                    q = i32(w[6 + k] >> 4) | i32(((high >> (k + 16)) & 1) << 4)
                    part += f(p - 16) * x[32 * b + k] + f(q - 16) * x[32 * b + 16 + k]
                total += part * table[i32(w[0]) | (i32(w[1]) << 8)]
            out[i] = total

    name = f"{rows} x {depth} of five bits in blocks of 22 bytes times a vector float32"
    grid, out = (-(-rows // 4),), torch.empty(rows)
    return _row(name, low_bits, grid, (blocks, x), (out,), (4, 8), theirs, 1e-5, run, (table,))


@ct.kernel
def routed(logits, bias, chosen, weights, rows: Int, groups: Int, each: Int):
    """The 8 best experts by sigmoids and a bias among those of the best 4 groups, and their shares of 2.5."""
    i, n = ct.bid(0), groups * each
    lane = ct.arange(each, dtype=ct.int32).reshape((1, 1, each))
    group = ct.arange(groups, dtype=ct.int32).reshape((1, groups))
    expert = ct.arange(n, dtype=ct.int32).reshape((1, n))
    scores = 1.0 / (1.0 + ct.exp(-ct.load(logits, (i, 0), (rows, n), padding_mode=_ZERO)))
    biased = (scores + ct.load(bias, (0,), (n,))).reshape((rows, groups, each))
    best = ct.max(biased, 2)
    at = ct.argmax(biased, 2, keepdims=True)
    best = best + ct.max(ct.where(lane == at, -math.inf, biased), 2)
    kept = ct.full((rows, groups), False, ct.bool_)
    for _ in range(4):
        most = group == ct.argmax(best, 1, keepdims=True)
        kept, best = kept | most, ct.where(most, -math.inf, best)
    biased = ct.where(kept.reshape((rows, groups, 1)), biased, -math.inf).reshape((rows, n))
    slot = ct.arange(8, dtype=ct.int32).reshape((1, 8))
    places, shares = ct.zeros((rows, 8), ct.int32), ct.zeros((rows, 8), ct.float32)
    for k in range(8):
        first = ct.argmax(biased, 1, keepdims=True)
        share = ct.sum(ct.where(expert == first, scores, 0.0), 1, keepdims=True)
        places, shares = ct.where(slot == k, first, places), ct.where(slot == k, share, shares)
        biased = ct.where(expert == first, -math.inf, biased)
    ct.store(chosen, (i, 0), places)
    ct.store(weights, (i, 0), shares / ct.sum(shares, 1, keepdims=True) * 2.5)


def _routed(tokens: int, groups: int, each: int) -> Row:
    experts = groups * each
    logits, bias = normal(tokens, experts), normal(experts) * 0.1

    def theirs(logits, bias):
        scores = logits.sigmoid()
        biased = (scores + bias).view(tokens, groups, each)
        best = biased.topk(2)[0].sum(2).topk(4)[1]
        kept = torch.zeros(tokens, groups, dtype=torch.bool).scatter_(1, best, True)
        at = biased.masked_fill(~kept[:, :, None], -math.inf).flatten(1).topk(8)[1]
        shares = scores.gather(1, at)
        return at.to(_I32), shares / shares.sum(1, keepdim=True) * 2.5

    def run(logits, bias, work, best, chosen, weights):
        for t in _range(tokens):
            for g in range(groups):
                first, second = f(-9), f(-9)
                for e in range(g * each, g * each + each):
                    x = f(1) / (f(1) + np.exp(-logits[t, e])) + bias[e]
                    work[t, e] = x
                    if x > second:
                        first, second = max(first, x), min(first, x)
                best[t, g] = first + second
            for _ in range(groups - 4):
                g = np.argmin(best[t])
                best[t, g] = f(99)
                work[t, g * each : g * each + each] = f(-9)
            weights[t] = f(-9)
            for e in range(experts):
                x, k = work[t, e], 7
                if x > weights[t, 7]:
                    while k > 0 and x > weights[t, k - 1]:
                        weights[t, k], chosen[t, k] = weights[t, k - 1], chosen[t, k - 1]
                        k -= 1
                    weights[t, k], chosen[t, k] = x, e
            total = f(0)
            for k in range(8):
                weights[t, k] -= bias[chosen[t, k]]
                total += weights[t, k]
            for k in range(8):
                weights[t, k] *= f(2.5) / total

    name = f"the 8 of {experts} experts in the best 4 of {groups} groups, {tokens} tokens"
    held, outs = (logits, bias), (torch.empty(tokens, 8, dtype=_I32), torch.empty(tokens, 8))
    grid, rest = (-(-tokens // 4),), (4, groups, each)
    work = np.empty((tokens, experts), np.float32), np.empty((tokens, groups), np.float32)
    return _row(name, routed, grid, held, outs, rest, theirs, 1e-5, run, work)


@ct.kernel
def mixing(x, out, rounds: Int, tile: Int):
    """Small matrices whose rows and columns are made to sum to one in turn."""
    held = ct.load(x, (ct.bid(0), 0, 0), (tile, 4, 4), padding_mode=_ZERO)
    held = ct.exp(held - ct.max(held, (1, 2), keepdims=True))
    for _ in range(rounds):
        held = held / ct.sum(held, 2, keepdims=True)
        held = held / ct.sum(held, 1, keepdims=True)
    ct.store(out, (ct.bid(0), 0, 0), held)


def _mixing(tokens: int, rounds: int) -> Row:
    x = normal(tokens, 4, 4)

    def theirs(x):
        held = torch.exp(x - x.amax((1, 2), keepdim=True))
        for _ in range(rounds):
            held = held / held.sum(2, keepdim=True)
            held = held / held.sum(1, keepdim=True)
        return held

    def run(x, out):
        for t in _range(tokens):
            m, most = out[t], np.max(x[t])
            for i in range(4):
                for j in range(4):
                    m[i, j] = np.exp(x[t, i, j] - most)
            for _ in range(rounds):
                for i in range(4):
                    over = f(1) / (m[i, 0] + m[i, 1] + m[i, 2] + m[i, 3])
                    for j in range(4):
                        m[i, j] *= over
                for j in range(4):
                    over = f(1) / (m[0, j] + m[1, j] + m[2, j] + m[3, j])
                    for i in range(4):
                        m[i, j] *= over

    name = f"{rounds} rounds of Sinkhorn on {tokens} matrices of 4 x 4 float32"
    grid, out, rest = (-(-tokens // 64),), torch.empty_like(x), (rounds, 64)
    return _row(name, mixing, grid, (x,), (out,), rest, theirs, 1e-5, run)


@ct.kernel
def stepped(state, x, dt, dt_bias, a, b, c, skip, z, after, out, tile: Int, n: Int):
    """A token through a state space model: state [sequence, channel, n], gated."""
    i, j = ct.bid(0), ct.bid(1)
    held = ct.load(state, (i, j, 0), (1, tile, n)).reshape((tile, n))
    u = ct.load(x, (i, j), (1, tile)).astype(ct.float32).reshape((tile, 1))
    gate = ct.load(z, (i, j), (1, tile)).astype(ct.float32).reshape((tile, 1))
    step = ct.load(dt, (i, j), (1, tile)).astype(ct.float32).reshape((tile, 1))
    step = step + ct.load(dt_bias, (j,), (tile,)).reshape((tile, 1))
    step = ct.where(step > 20.0, step, ct.log(1.0 + ct.exp(step)))
    into = ct.load(b, (i, 0), (1, n)).astype(ct.float32)
    onto = ct.load(c, (i, 0), (1, n)).astype(ct.float32)
    held = held * ct.exp(step * ct.load(a, (j, 0), (tile, n))) + into * (step * u)
    y = ct.sum(held * onto, 1, keepdims=True) + u * ct.load(skip, (j,), (tile,)).reshape((tile, 1))
    y = y * gate / (1.0 + ct.exp(-gate))
    ct.store(after, (i, j, 0), held.reshape((1, tile, n)))
    ct.store(out, (i, j), y.reshape((1, tile)).astype(out.dtype))


def _stepped(many: int, channels: int, n: int) -> Row:
    x, dt, z = several(3, many, channels, dtype=_BF16)
    b, c = several(2, many, n, dtype=_BF16)
    dt_bias, skip = several(2, channels)
    state, a = normal(many, channels, n), -torch.exp(normal(channels, n))

    def theirs(state, x, dt, dt_bias, a, b, c, skip, z):
        u, gate, step = (t.to(a.dtype) for t in (x, z, dt))
        step = functional.softplus(step + dt_bias)[:, :, None]
        after = state * torch.exp(step * a) + b.to(a.dtype)[:, None] * (step * u[:, :, None])
        y = (after * c.to(a.dtype)[:, None]).sum(2) + u * skip
        return after, (y * functional.silu(gate)).to(x.dtype)

    name = f"a token through states of {many} x {channels} x {n} float32, inputs bfloat16"
    grid, outs = (many, -(-channels // 64)), (torch.empty_like(state), torch.empty_like(x))
    held = state, x, dt, dt_bias, a, b, c, skip, z
    return _row(name, stepped, grid, held, outs, (64, n), theirs, 8e-3)


@ct.kernel
def remembered(x, w, u, bias, out, m: Int, k: Int, d: Int):
    """A layer of LSTM over whole sequences: x [time, sequence, k], weights [gate, d, k] and [gate, d, d]."""
    i = ct.bid(0)
    h, c = ct.zeros((m, d), ct.float32), ct.zeros((m, d), ct.float32)
    for t in range(x.shape[0]):
        now = ct.load(x, (t, i, 0), (1, m, k), padding_mode=_ZERO).reshape((m, k))
        p, f = _gate(now, h, w, u, bias, 0), _gate(now, h, w, u, bias, 1)
        g, o = _gate(now, h, w, u, bias, 2), _gate(now, h, w, u, bias, 3)
        c = _sigmoid(f) * c + _sigmoid(p) * ct.tanh(g)
        h = _sigmoid(o) * ct.tanh(c)
        ct.store(out, (t, i, 0), h.reshape((1, m, d)))


def _sigmoid(x):
    return 1.0 / (1.0 + ct.exp(-x))


def _gate(now, h, w, u, bias, n):
    """What a gate sees, before its sigmoid."""
    k, d = now.shape[1], h.shape[1]
    acc = ct.broadcast_to(ct.load(bias, (n, 0), (1, d)), h.shape)
    a = ct.load(w, (n, 0, 0), (1, k, d), order=(0, 2, 1), padding_mode=_ZERO).reshape((k, d))
    b = ct.load(u, (n, 0, 0), (1, d, d), order=(0, 2, 1)).reshape((d, d))
    return ct.mma(h, b, ct.mma(now, a, acc))


def _remembered(steps: int, many: int, k: int, d: int) -> Row:
    x, w, u = normal(steps, many, k), normal(4, d, k) * k**-0.5, normal(4, d, d) * d**-0.5
    bias = normal(4, d) * 0.1

    def theirs(x, w, u, bias):
        start = torch.zeros(1, many, d, dtype=x.dtype)
        weights = [w.flatten(0, 1), u.flatten(0, 1), bias.flatten(), 0 * bias.flatten()]
        return torch.lstm(x, (start, start), weights, True, 1, 0.0, False, False, False)[0]

    name = f"LSTM of {many} sequences of {steps} steps, {k} to {d} float32"
    held, out = (x, w, u, bias), torch.empty(steps, many, d)
    return _row(name, remembered, (-(-many // 16),), held, (out,), (16, 64, d), theirs, 1e-5)


@ct.kernel
def solid(x, w, bias, out, m: Int, k: Int, n: Int):
    """A convolution 3 x 3 x 3 and relu, channels last: x [z, y, x, k], w [tap, k, n], out [place, n]."""
    place = ct.bid(0) * m + ct.arange(m, dtype=ct.int32)
    high, wide = x.shape[1], x.shape[2]
    a, b, c = place // (high * wide), place // wide % high, place % wide
    channel = ct.arange(k, dtype=ct.int32).reshape((1, k))
    acc = ct.zeros((m, n), ct.float32)
    for tap in range(27):
        p, q, r = a + tap // 9 - 1, b + tap // 3 % 3 - 1, c + tap % 3 - 1
        p, q, r = p.reshape((m, 1)), q.reshape((m, 1)), r.reshape((m, 1))
        held = ct.gather(x, (p, q, r, channel), padding_value=0.0)
        acc = ct.mma(held, ct.load(w, (tap, 0, 0), (1, k, n)).reshape((k, n)), acc)
    ct.store(out, (ct.bid(0), 0), ct.maximum(acc + ct.load(bias, (0,), (n,)), 0.0))


def _solid(dims: tuple[int, int, int], k: int, n: int) -> Row:
    x, w, bias = normal(*dims, k), normal(27, k, n) * 0.05, normal(n)
    image, kernel = x.permute(3, 0, 1, 2)[None], w.view(3, 3, 3, k, n).permute(4, 3, 0, 1, 2)

    def theirs(image, kernel, bias):
        found = functional.conv3d(image, kernel, bias, padding=1).relu()
        return found.permute(0, 2, 3, 4, 1).flatten(0, 3)

    first = image.contiguous(), kernel.contiguous(), bias
    name = (
        f"convolution 3 x 3 x 3 and relu, {' x '.join(map(str, dims))}, {k} to {n} channels float32"
    )
    out, grid = torch.empty(math.prod(dims), n), (-(-math.prod(dims) // 64),)
    more = {"torch, channels first": lambda: functional.conv3d(*first, padding=1).relu()}
    other = {"tensors": (image, kernel, bias), "more": more}
    return _row(name, solid, grid, (x, w, bias), (out,), (64, k, n), theirs, 1e-5, **other)


@ct.kernel
def rewarded(new, old, frozen, gains, mask, losses, slopes, reach, weight, tile: Int):
    """Clipped losses of rewarded texts with a penalty for leaving a frozen model, and their gradients."""
    i = ct.bid(0)
    gain, tiles = ct.load(gains, (i,), ()), ct.num_tiles(new, 1, (1, tile))
    count = ct.zeros((1, tile), ct.int32)
    for t in range(tiles):
        count += ct.load(mask, (i, t), (1, tile), padding_mode=_ZERO).astype(ct.int32)
    many = ct.maximum(ct.sum(count), 1).astype(ct.float32)
    total = ct.zeros((1, tile), ct.float32)
    for t in range(tiles):
        now = ct.load(new, (i, t), (1, tile), padding_mode=_ZERO)
        kept = ct.load(mask, (i, t), (1, tile), padding_mode=_ZERO)
        ratio = ct.exp(now - ct.load(old, (i, t), (1, tile), padding_mode=_ZERO))
        clipped = ct.minimum(ct.maximum(ratio, 1.0 - reach), 1.0 + reach)
        off = ct.load(frozen, (i, t), (1, tile), padding_mode=_ZERO) - now
        other = ct.exp(off)
        loss = weight * (other - off - 1.0) - ct.minimum(ratio * gain, clipped * gain)
        slope = weight * (1.0 - other) - ct.where(ratio * gain <= clipped * gain, ratio * gain, 0.0)
        total += ct.where(kept, loss, 0.0)
        ct.store(slopes, (i, t), ct.where(kept, slope, 0.0) / many)
    ct.store(losses, (i,), ct.sum(total) / many)


def _rewarded(texts: int, longest: int) -> Row:
    new, noise, other = (each * 0.2 for each in several(3, texts, longest))
    old, frozen, gains = new + noise, new + other, normal(texts)
    mask = torch.arange(longest) < integers(longest, texts)[:, None] + 1

    def theirs(new, old, frozen, gains, mask):
        ratio, off, gain = torch.exp(new - old), frozen - new, gains[:, None]
        clipped, other = ratio.clamp(0.8, 1.2), torch.exp(off)
        loss = 0.04 * (other - off - 1) - torch.minimum(ratio * gain, clipped * gain)
        slope = 0.04 * (1 - other) - torch.where(ratio * gain <= clipped * gain, ratio * gain, 0)
        share = mask / mask.sum(1, keepdim=True)
        return (loss * share).sum(1), (slope * share).to(new.dtype)

    def run(new, old, frozen, gains, mask, losses, slopes):
        for i in _range(texts):
            gain, over, total = gains[i], f(1) / f(max(mask[i].sum(), 1)), f(0)
            for t in range(longest):
                if mask[i, t]:
                    ratio, off = np.exp(new[i, t] - old[i, t]), frozen[i, t] - new[i, t]
                    a, b = ratio * gain, min(max(ratio, f(0.8)), f(1.2)) * gain
                    other = np.exp(off)
                    total += f(0.04) * (other - off - f(1)) - min(a, b)
                    slopes[i, t] = (f(0.04) * (f(1) - other) - (a if a <= b else f(0))) * over
                else:
                    slopes[i, t] = 0
            losses[i] = total * over

    name = f"clipped losses and slopes of {texts} rewarded texts of up to {longest} words float32"
    outs, rest = (torch.empty(texts), torch.empty_like(new)), (0.2, 0.04, 512)
    held = new, old, frozen, gains, mask
    return _row(name, rewarded, (texts,), held, outs, rest, theirs, 2e-5, run)


@ct.kernel
def calibrated(logits, labels, counts, sure, hits, rows: Int, tile: Int):
    """How sure a classifier is and how often it is right, in bins of how sure it is."""
    row = ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)
    column = ct.arange(tile, dtype=ct.int32)[None, :]
    x = ct.gather(logits, (row[:, None], column), padding_value=-math.inf)
    x = ct.where(row[:, None] < logits.shape[0], x, 0.0)
    share = 1.0 / ct.sum(ct.exp(x - ct.max(x, 1, keepdims=True)), 1)
    right = ct.argmax(x, 1) == ct.gather(labels, row, padding_value=-1)
    bins = counts.shape[0]
    at = ct.minimum((share * bins).astype(ct.int32), bins - 1)
    at = ct.where(row < logits.shape[0], at, -1)
    ct.atomic_add(counts, at, 1)
    ct.atomic_add(sure, at, share)
    ct.atomic_add(hits, at, right.astype(ct.int32))


def _calibrated(many: int, classes: int, bins: int) -> Row:
    logits, labels = normal(many, classes) * 2, integers(classes, many)
    labels = torch.where(integers(2, many) == 0, logits.argmax(1).to(_I32), labels)
    outs = [torch.zeros(bins, dtype=each) for each in (_I32, torch.float32, _I32)]

    def theirs(logits, labels):
        share, found = logits.softmax(1).max(1)
        at = (share * bins).long().clamp(max=bins - 1)
        sure = torch.zeros(bins, dtype=share.dtype).index_add_(0, at, share)
        counts, hits = (torch.zeros(bins, dtype=_I32) for _ in range(2))
        counts.index_add_(0, at, torch.ones(many, dtype=_I32))
        return counts, sure, hits.index_add_(0, at, (found == labels).to(_I32))

    def run(logits, labels, share, right, counts, sure, hits):
        for i in _range(many):
            most, total = logits[i, 0], f(0)
            for j in range(classes):
                most = max(most, logits[i, j])
            for j in range(classes):
                total += np.exp(logits[i, j] - most)
            share[i], right[i] = f(1) / total, logits[i, labels[i]] == most
        counts[:], sure[:], hits[:] = 0, 0, 0
        for i in range(many):
            at = min(int(share[i] * f(bins)), bins - 1)
            counts[at] += 1
            sure[at] += share[i]
            hits[at] += right[i]

    name = f"how sure and right of {many} of {classes} classes float32, in {bins} bins"
    grid, rest = (-(-many // 16),), (16, next_power(classes))
    work = np.empty(many, np.float32), np.empty(many, np.bool_)
    held, clear = (logits, labels), lambda: [each.zero_() for each in outs]
    return _row(name, calibrated, grid, held, outs, rest, theirs, 1e-5, run, work, clear=clear)


@ct.kernel
def residual(x, books, norms, codes, out, m: Int, n: Int, d: Int):
    """Codes of rows by one book after the other, each for what the ones before have left; and their sums."""
    i = ct.bid(0)
    given = ct.load(x, (i, 0), (m, d), padding_mode=_ZERO)
    row = i * m + ct.arange(m, dtype=ct.int32)
    column = ct.arange(d, dtype=ct.int32)[None, :]
    left = given
    for s in range(books.shape[0]):
        book = ct.load(books, (s, 0, 0), (1, n, d)).reshape((n, d))
        scores = ct.mma(left, ct.transpose(book), ct.zeros((m, n), ct.float32))
        at = ct.argmin(ct.load(norms, (s, 0), (1, n)) - scores, 1)
        ct.scatter(codes, (row, s), at)
        left = left - ct.gather(books, (s, at[:, None], column))
    ct.store(out, (i, 0), given - left)


def _residual(many: int, stages: int, n: int, d: int) -> Row:
    x, shares = normal(many, d), torch.tensor([0.6, 0.5, 0.4, 0.3])
    books = normal(stages, n, d) * shares[:, None, None]
    norms = (books**2).sum(2) / 2

    def theirs(x, books, norms):
        left, codes = x, []
        for s in range(stages):
            codes.append(torch.addmm(norms[s], left, books[s].T, alpha=-1).argmin(1))
            left = left - books[s][codes[-1]]
        return torch.stack(codes, 1).to(_I32), x - left

    name = f"{many} rows of {d} float32 by {stages} books of {n}, each for what is left"
    outs, rest = (torch.empty(many, stages, dtype=_I32), torch.empty_like(x)), (32, n, d)
    return _row(name, residual, (-(-many // 32),), (x, books, norms), outs, rest, theirs, 1e-5)


@ct.kernel
def banned(tokens, lengths, logits, low, tile: Int):
    """No word that would repeat three words: where the last two stood before, what came then is made unlikely."""
    text = ct.bid(0)
    length = ct.load(lengths, (text,), ())
    first, second = ct.gather(tokens, (text, length - 2)), ct.gather(tokens, (text, length - 1))
    for t in range(ct.cdiv(length - 2, tile)):
        at = t * tile + ct.arange(tile, dtype=ct.int32)
        same = ct.gather(tokens, (text, at)) == first
        same = same & (ct.gather(tokens, (text, at + 1)) == second) & (at + 2 < length)
        word = ct.gather(tokens, (text, at + 2), mask=same, padding_value=-1)
        ct.scatter(logits, (text, word), low, mask=same)


def _banned(texts: int, longest: int, words: int) -> Row:
    tokens = integers(words // 100, texts, longest, dtype=_I64) * 99
    lengths, given = integers(longest // 2, texts) + longest // 2, normal(texts, words)
    logits, kept, every, low = given.clone(), given.clone(), torch.arange(texts), -65504.0

    def theirs(tokens, lengths):
        ends = lengths.long()
        first, second = tokens[every, ends - 2, None], tokens[every, ends - 1, None]
        same = (tokens[:, :-2] == first) & (tokens[:, 1:-1] == second)
        text, at = (same & (torch.arange(2, longest) < ends[:, None])).nonzero(as_tuple=True)
        kept[text, tokens[text, at + 2]] = low
        return kept

    def run(tokens, lengths, logits):
        for i in _range(texts):
            n = lengths[i]
            a, b = tokens[i, n - 2], tokens[i, n - 1]
            for t in range(n - 2):
                if tokens[i, t] == a and tokens[i, t + 1] == b:
                    logits[i, tokens[i, t + 2]] = f(low)

    name = f"no three words again in {texts} texts of up to {longest} int64"
    held, rest, clear = (tokens, lengths), (low, 512), lambda: logits.copy_(given)
    outs, off = (logits,), {"clear": clear, "compiles": False}
    return _row(name, banned, (texts,), held, outs, rest, theirs, 0.0, run, **off)


@ct.kernel
def resampled(x, taps, out, down: Int, tile: Int):
    """Sounds at len(taps) / down times their rate: taps [phase, tap], the middle one at the sample itself."""
    sound, n = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    up, many = taps.shape[0], taps.shape[1]
    phase, start = n * down % up, n * down // up + many // 2
    total = ct.zeros((tile,), ct.float32)
    for k in range(many):
        total += ct.gather(taps, (phase, k)) * ct.gather(x, (sound, start - k))
    ct.scatter(out, (sound, n), total)


def _resampled(sounds: int, many: int, taps: int) -> Row:
    x, longest, half = normal(sounds, many), -(-many * 2 // 3), taps // 2
    h = torch.special.sinc((torch.arange(2 * taps) - 2 * half) / 3) * torch.hann_window(2 * taps)
    phases = h.view(taps, 2).T.contiguous()
    kernel = torch.zeros(2, 1, taps + 1)
    kernel[0, 0, :-1], kernel[1, 0, 1:] = phases[0].flip(0), phases[1].flip(0)

    def theirs(x, kernel):
        found = functional.conv1d(functional.pad(x, (half, half + 4))[:, None], kernel, stride=3)
        return found.transpose(1, 2).flatten(1)[:, :longest]

    def run(x, _, phases, out):
        for b in _range(sounds * 16):
            i, share = b // 16, -(-longest // 16)
            for n in range(b % 16 * share, min(longest, b % 16 * share + share)):
                p, start, total = n * 3 % 2, n * 3 // 2 - half, f(0)
                for k in range(max(0, -start), min(taps, many - start)):
                    total += phases[p, k] * x[i, start + k]
                out[i, n] = total

    name = f"{sounds} sounds of {many} samples at two thirds of their rate, 2 x {taps} taps float32"
    held, work, out = (x, phases), (array(phases.flip(1)).copy(),), torch.empty(sounds, longest)
    more = {"scipy": lambda: upfirdn(array(h), array(x), 2, 3, 1)}
    other, grid = {"tensors": (x, kernel), "more": more}, (-(-longest // 512), sounds)
    return _row(name, resampled, grid, held, (out,), (3, 512), theirs, 1e-5, run, work, **other)


@ct.kernel
def decided(x, features, limits, leaves, out, depth: Int, tile: Int):
    """Sums of what decision trees say of each row: full trees, their nodes by breadth."""
    row = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    total = ct.zeros((tile,), ct.float64)
    for tree in range(features.shape[0]):
        node = ct.zeros((tile,), ct.int32)
        for _ in range(depth):
            value = ct.gather(x, (row, ct.gather(features, (tree, node)).astype(ct.int32)))
            node = 2 * node + 1 + (value > ct.gather(limits, (tree, node))).astype(ct.int32)
        total += ct.gather(leaves, (tree, node - limits.shape[1]))
    ct.scatter(out, row, total)


def _decided(many: int, width: int, trees: int, depth: int) -> Row:
    x, nodes = normal(many, width), 2**depth - 1
    features, limits = integers(width, trees, nodes, dtype=_U8), normal(trees, nodes) * 0.5
    leaves = normal(trees, nodes + 1, dtype=_F64)
    every = torch.arange(trees)

    def theirs(x, features, limits, leaves):
        node = torch.zeros(many, trees, dtype=_I64)
        for _ in range(depth):
            value = x.gather(1, features[every, node].long())
            node = 2 * node + 1 + (value > limits[every, node])
        return leaves[every, node - nodes].sum(1)

    def run(x, features, limits, leaves, out):
        for i in _range(many):
            total = 0.0
            for t in range(trees):
                node = 0
                for _ in range(depth):
                    node = 2 * node + 1 + (x[i, features[t, node]] > limits[t, node])
                total += leaves[t, node - nodes]
            out[i] = total

    name = f"{trees} decision trees of depth {depth}, {many} rows of {width} float32, sums float64"
    held, out = (x, features, limits, leaves), torch.empty(many, dtype=_F64)
    return _row(name, decided, (-(-many // 128),), held, (out,), (depth, 128), theirs, 1e-14, run)


@ct.kernel
def guided(x, told, free, steps, out, guide, share, tile: Int):
    """A step of diffusion towards what a text says, with the spread that the text alone would give."""
    i, size, tiles = ct.bid(0), x.shape[1], ct.num_tiles(x, 1, (1, tile))
    a, b = ct.zeros((1, tile), ct.float32), ct.zeros((1, tile), ct.float32)
    p, q = ct.zeros((1, tile), ct.float32), ct.zeros((1, tile), ct.float32)
    for t in range(tiles):
        c = ct.load(told, (i, t), (1, tile), padding_mode=_ZERO).astype(ct.float32)
        u = ct.load(free, (i, t), (1, tile), padding_mode=_ZERO).astype(ct.float32)
        g = u + guide * (c - u)
        a, b, p, q = a + c, b + c * c, p + g, q + g * g
    a, b, p, q = ct.sum(a), ct.sum(b), ct.sum(p), ct.sum(q)
    factor = share * ct.sqrt((b - a * a / size) / (q - p * p / size)) + (1.0 - share)
    step = ct.load(steps, (i,), ())
    for t in range(tiles):
        c = ct.load(told, (i, t), (1, tile)).astype(ct.float32)
        u = ct.load(free, (i, t), (1, tile)).astype(ct.float32)
        moved = ct.load(x, (i, t), (1, tile)).astype(ct.float32)
        moved += step * factor * (u + guide * (c - u))
        ct.store(out, (i, t), moved.astype(out.dtype))


def _guided(many: int, size: int) -> Row:
    x, told, free = several(3, many, size, dtype=_BF16)
    steps = -uniform(many) * 0.1

    def theirs(x, told, free, steps):
        c, u = told.to(steps.dtype), free.to(steps.dtype)
        g = u + 6.0 * (c - u)
        factor = 0.7 * c.std(1, keepdim=True) / g.std(1, keepdim=True) + 0.3
        return (x.to(steps.dtype) + steps[:, None] * factor * g).to(x.dtype)

    name, rest = f"a guided step of diffusion of {many} x {size} bfloat16", (6.0, 0.7, 1024)
    held, out = (x, told, free, steps), torch.empty_like(x)
    return _row(name, guided, (many,), held, (out,), rest, theirs, 8e-3)


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _hashed(10_001, 8, 1 << 14),
        lambda: _composed(4001, 96),
        lambda: _drafted(8, 47, 700, 64),
        lambda: _neighbourly(5001, 20, 64),
        lambda: _ternary(24, 1000, 1024),
        lambda: _low_bits(1001, 1024),
        lambda: _routed(1001, 8, 32),
        lambda: _mixing(3001, 20),
        lambda: _stepped(8, 1500, 16),
        lambda: _remembered(25, 40, 50, 64),
        lambda: _solid((13, 14, 15), 16, 32),
        lambda: _rewarded(200, 1500),
        lambda: _calibrated(8001, 100, 15),
        lambda: _residual(1500, 4, 256, 32),
        lambda: _banned(200, 3000, 6000),
        lambda: _resampled(2, 48_001, 21),
        lambda: _decided(1001, 30, 64, 6),
        lambda: _guided(24, 14_400),
    ]
