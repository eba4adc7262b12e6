"""Images, waves and flows on grids, as a guest writes them."""

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
    normal,
    uniform,
)

_ZERO = ct.PaddingMode.ZERO
_F64, _F16 = torch.float64, torch.float16
_I32, _I16, _U8 = torch.int32, torch.int16, torch.uint8


@ct.kernel
def line_votes(x, y, cosines, sines, votes, points: ct.Constant[int], angles: ct.Constant[int]):
    """Points vote for the lines through them, one of each angle, in 1/16384: [angle, distance]."""
    i = (ct.bid(0) * points + ct.arange(points, dtype=ct.int32)).reshape((points, 1))
    j = (ct.bid(1) * angles + ct.arange(angles, dtype=ct.int32)).reshape((1, angles))
    along = ct.gather(x, (i,)) * ct.gather(cosines, (j,)) + ct.gather(y, (i,)) * ct.gather(
        sines, (j,)
    )
    distance = (along >> 14) + votes.shape[1] // 2
    ct.atomic_add(votes, (j, ct.where(i < x.shape[0], distance, -1)), 1)


def _line_votes(points: int, angles: int) -> Row:
    x, y = integers(512, points), integers(511, points)
    turns = np.arange(angles) * math.pi / angles
    cosines = torch.tensor(np.round(np.cos(turns) * 16384), dtype=_I32)
    sines = torch.tensor(np.round(np.sin(turns) * 16384), dtype=_I32)
    votes = torch.zeros(angles, 1536, dtype=_I32)

    def theirs(x, y, cosines, sines):
        at = ((x[:, None] * cosines + y[:, None] * sines) >> 14) + 768
        at = at + torch.arange(angles, dtype=_I32) * 1536
        return torch.bincount(at.flatten(), minlength=angles * 1536).view(angles, 1536)

    def make(nb):
        @nb.njit
        def run(x, y, cosines, sines, found):
            found[:] = 0
            for j in range(cosines.size):
                for i in range(x.size):
                    found[j, ((x[i] * cosines[j] + y[i] * sines[j]) >> 14) + 768] += 1

        made = np.zeros((angles, 1536), np.int32)
        return lambda: run(array(x), array(y), array(cosines), array(sines), made)

    return beside_torch(
        f"{points} points that vote for lines of {angles} angles",
        line_votes,
        (-(-points // 128), -(-angles // 16)),
        (x, y, cosines, sines, votes, 128, 16),
        theirs,
        x,
        y,
        cosines,
        sines,
        clear=votes.zero_,
        more=by_numba(make),
        compiles=False,
    )


@ct.kernel
def label_boxes(labels, boxes, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Least and largest column and row of each label of an image, by atomics: boxes [4, label]."""
    y = (ct.bid(1) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    x = (ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    label = ct.gather(labels, (y, x), padding_value=255).astype(ct.int32)
    ct.atomic_min(boxes, (0, label), x)
    ct.atomic_max(boxes, (1, label), x)
    ct.atomic_min(boxes, (2, label), y)
    ct.atomic_max(boxes, (3, label), y)


def _label_boxes(height: int, width: int) -> Row:
    each = (torch.arange(height)[:, None] // 90) * 8 + torch.arange(width) // 130
    labels = torch.where(integers(3, height, width) > 0, each, 200).to(_U8)
    boxes = torch.empty(4, 64, dtype=_I32)

    def clear():
        boxes[::2], boxes[1::2] = 1 << 20, -1

    def theirs(labels):
        at = labels.flatten().long()
        x = torch.arange(width, dtype=_I32).repeat(height)
        y = torch.arange(height, dtype=_I32).repeat_interleave(width)
        low, high = torch.full((256,), 1 << 20, dtype=_I32), torch.full((256,), -1, dtype=_I32)
        pairs = [
            each
            for value in (x, y)
            for each in (
                low.scatter_reduce(0, at, value, "amin"),
                high.scatter_reduce(0, at, value, "amax"),
            )
        ]
        return torch.stack(pairs)[:, :64]

    def make(nb):
        @nb.njit
        def run(labels, boxes):
            boxes[0], boxes[1], boxes[2], boxes[3] = 1 << 20, -1, 1 << 20, -1
            for y in range(labels.shape[0]):
                for x in range(labels.shape[1]):
                    at = labels[y, x]
                    if at < 64:
                        boxes[0, at] = min(boxes[0, at], x)
                        boxes[1, at] = max(boxes[1, at], x)
                        boxes[2, at] = min(boxes[2, at], y)
                        boxes[3, at] = max(boxes[3, at], y)

        made = np.empty((4, 64), np.int32)
        return lambda: run(array(labels), made)

    return beside_torch(
        f"boxes around labels of {height} x {width} uint8",
        label_boxes,
        (-(-width // 128), -(-height // 8)),
        (labels, boxes, 8, 128),
        theirs,
        labels,
        clear=clear,
        more=by_numba(make),
        compiles=False,
    )


@ct.kernel
def thresholds(counts, out, rows: ct.Constant[int]):
    """Where Otsu parts the brightness of each image: counts [image, 256]."""
    i = ct.bid(0)
    count = ct.load(counts, (i, 0), (rows, 256), padding_mode=_ZERO).astype(ct.float64)
    level = ct.arange(256, dtype=ct.int32).astype(ct.float64).reshape((1, 256))
    below, first = ct.cumsum(count, 1), ct.cumsum(count * level, 1)
    whole = ct.sum(count, 1, keepdims=True)
    mean = ct.sum(count * level, 1, keepdims=True)
    apart = mean * below - first * whole
    spread = apart * apart / ct.maximum(below * (whole - below), 1.0)
    ct.store(out, (i,), ct.argmax(spread, 1).astype(ct.uint8))


def _thresholds(images: int) -> Row:
    counts = integers(100, images, 256)

    def theirs(counts):
        count, level = counts.double(), torch.arange(256, dtype=_F64)
        below, first = count.cumsum(1), (count * level).cumsum(1)
        whole, mean = below[:, -1:], first[:, -1:]
        apart = mean * below - first * whole
        return (apart * apart / (below * (whole - below)).clamp(min=1.0)).argmax(1).to(_U8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(counts, found):
            for i in nb.prange(counts.shape[0]):
                whole, mean = 0, 0
                for k in range(256):
                    whole += counts[i, k]
                    mean += counts[i, k] * k
                below, first, best, which = 0, 0, -1.0, 0
                for k in range(256):
                    below += counts[i, k]
                    first += counts[i, k] * k
                    apart = float(mean * below - first * whole)
                    spread = apart * apart / max(float(below * (whole - below)), 1.0)
                    if spread > best:
                        best, which = spread, k
                found[i] = which

        made = np.empty(images, np.uint8)
        return lambda: run(array(counts), made)

    return beside_torch(
        f"Otsu's threshold of each of {images} histograms",
        thresholds,
        (-(-images // 4),),
        (counts, torch.empty(images, dtype=_U8), 4),
        theirs,
        counts,
        more=by_numba(make),
    )


@ct.kernel
def margins(logits, classes, margin, tile: ct.Constant[int]):
    """The likeliest class of each pixel and how far it is before the next: [class, pixel]."""
    j = ct.bid(0)
    best = ct.full((1, tile), -math.inf, logits.dtype)
    second, which = best, ct.zeros((1, tile), ct.uint8)
    for c in range(logits.shape[0]):
        held = ct.load(logits, (c, j), (1, tile))
        better = held > best
        second = ct.maximum(second, ct.minimum(held, best))
        which = ct.where(better, ct.full((1, tile), c, ct.uint8), which)
        best = ct.maximum(best, held)
    ct.store(classes, (j,), which.reshape((tile,)))
    ct.store(margin, (j,), (best - second).reshape((tile,)))


def _margins(classes: int, pixels: int, dtype: torch.dtype) -> Row:
    logits = normal(classes, pixels, dtype=dtype)

    def theirs(logits):
        best, which = logits.max(0)
        number = torch.arange(classes)[:, None]
        second = torch.where(number == which, -math.inf, logits).amax(0)
        return which.to(_U8), best - second

    return beside_torch(
        f"likeliest of {classes} classes of {pixels} pixels {kind(dtype)} and its margin",
        margins,
        (-(-pixels // 1024),),
        (logits, torch.empty(pixels, dtype=_U8), torch.empty(pixels, dtype=dtype), 1024),
        theirs,
        logits,
        outputs=2,
    )


@ct.kernel
def between_cells(v, out, tile: ct.Constant[int]):
    """What is between cells of a ring by WENO of fifth order, from the left."""
    n = v.shape[0]
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    a, b = ct.gather(v, ((i + n - 2) % n,)), ct.gather(v, ((i + n - 1) % n,))
    c, d, e = ct.gather(v, (i,)), ct.gather(v, ((i + 1) % n,)), ct.gather(v, ((i + 2) % n,))
    p, q, r = a - 2 * b + c, b - 2 * c + d, c - 2 * d + e
    s, t, u = a - 4 * b + 3 * c, b - d, 3 * c - 4 * d + e
    first = 1 / (2.0**-16 + 13 * p * p + 3 * s * s) ** 2
    second = 6 / (2.0**-16 + 13 * q * q + 3 * t * t) ** 2
    third = 3 / (2.0**-16 + 13 * r * r + 3 * u * u) ** 2
    left, middle, right = 2 * a - 7 * b + 11 * c, 5 * c - b + 2 * d, 2 * c + 5 * d - e
    total = (first * left + second * middle + third * right) / (6 * (first + second + third))
    ct.scatter(out, (i,), total)


def _between_cells(many: int) -> Row:
    v = torch.sin(torch.arange(many, dtype=_F64) * 0.01) + 0.1 * normal(many, dtype=_F64)

    def weighted(a, b, c, d, e):
        p, q, r = a - 2 * b + c, b - 2 * c + d, c - 2 * d + e
        s, t, u = a - 4 * b + 3 * c, b - d, 3 * c - 4 * d + e
        first = 1 / (2.0**-16 + 13 * p * p + 3 * s * s) ** 2
        second = 6 / (2.0**-16 + 13 * q * q + 3 * t * t) ** 2
        third = 3 / (2.0**-16 + 13 * r * r + 3 * u * u) ** 2
        left, middle, right = 2 * a - 7 * b + 11 * c, 5 * c - b + 2 * d, 2 * c + 5 * d - e
        return (first * left + second * middle + third * right) / (6 * (first + second + third))

    def theirs(v):
        return weighted(v.roll(2), v.roll(1), v, v.roll(-1), v.roll(-2))

    def make(nb):
        each = nb.njit(fastmath=True)(weighted)

        @nb.njit(parallel=True, fastmath=True)
        def run(v, out):
            n = v.size
            for i in nb.prange(2, n - 2):
                out[i] = each(v[i - 2], v[i - 1], v[i], v[i + 1], v[i + 2])
            for i in (0, 1, n - 2, n - 1):
                out[i] = each(v[i - 2], v[i - 1], v[i], v[(i + 1) % n], v[(i + 2) % n])

        made = np.empty(many)
        return lambda: run(array(v), made)

    return beside_torch(
        f"WENO of {many} cells of a ring float64",
        between_cells,
        (-(-many // 512),),
        (v, torch.empty_like(v), 512),
        theirs,
        v,
        bound=1e-12,
        more=by_numba(make),
    )


@ct.kernel
def shallow(h, u, v, h2, u2, v2, ratio, rows: ct.Constant[int], tile: ct.Constant[int]):
    """A step of shallow water by Lax and Friedrichs on a torus: depth and two momenta, [y, x]."""
    height, width = h.shape[0], h.shape[1]
    y = (ct.bid(1) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    x = (ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    up, down = (y + height - 1) % height, (y + 1) % height
    left, right = (x + width - 1) % width, (x + 1) % width
    ha, hb, hc, hd = (
        ct.gather(h, (y, left)),
        ct.gather(h, (y, right)),
        ct.gather(h, (up, x)),
        ct.gather(h, (down, x)),
    )
    ua, ub = ct.gather(u, (y, left)), ct.gather(u, (y, right))
    uc, ud = ct.gather(u, (up, x)), ct.gather(u, (down, x))
    va, vb = ct.gather(v, (y, left)), ct.gather(v, (y, right))
    vc, vd = ct.gather(v, (up, x)), ct.gather(v, (down, x))
    new = 0.25 * (ha + hb + hc + hd) - ratio * (ub - ua + vd - vc)
    along = ub * ub / hb + 4.905 * hb * hb - ua * ua / ha - 4.905 * ha * ha
    new_u = 0.25 * (ua + ub + uc + ud) - ratio * (along + ud * vd / hd - uc * vc / hc)
    along = vd * vd / hd + 4.905 * hd * hd - vc * vc / hc - 4.905 * hc * hc
    new_v = 0.25 * (va + vb + vc + vd) - ratio * (along + ub * vb / hb - ua * va / ha)
    ct.scatter(h2, (y, x), new)
    ct.scatter(u2, (y, x), new_u)
    ct.scatter(v2, (y, x), new_v)


def _shallow(height: int, width: int) -> Row:
    h = 1 + 0.2 * uniform(height, width)
    u, v = 0.1 * normal(height, width), 0.1 * normal(height + 1, width)[1:].contiguous()
    ratio = 0.0625

    def step(h, u, v):
        (ha, hb, hc, hd), (ua, ub, uc, ud), (va, vb, vc, vd) = (
            (each.roll(1, 1), each.roll(-1, 1), each.roll(1, 0), each.roll(-1, 0))
            for each in (h, u, v)
        )
        new = 0.25 * (ha + hb + hc + hd) - ratio * (ub - ua + vd - vc)
        along = ub * ub / hb + 4.905 * hb * hb - ua * ua / ha - 4.905 * ha * ha
        new_u = 0.25 * (ua + ub + uc + ud) - ratio * (along + ud * vd / hd - uc * vc / hc)
        along = vd * vd / hd + 4.905 * hd * hd - vc * vc / hc - 4.905 * hc * hc
        new_v = 0.25 * (va + vb + vc + vd) - ratio * (along + ub * vb / hb - ua * va / ha)
        return new, new_u, new_v

    return beside_torch(
        f"a step of shallow water of {height} x {width} float32, tiles 4x128",
        shallow,
        (-(-width // 128), -(-height // 4)),
        (h, u, v, *(torch.empty_like(h) for _ in range(3)), ratio, 4, 128),
        step,
        h,
        u,
        v,
        outputs=3,
        bound=1e-5,
    )


@ct.kernel
def thinned(gx, gy, out, tile: ct.Constant[int]):
    """Slopes that are steeper than both neighbours along them, zeros elsewhere: i16 to u8."""
    y, x = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    a, b = ct.gather(gx, (y, x)).astype(ct.int32), ct.gather(gy, (y, x)).astype(ct.int32)
    along, across = ct.abs(a), ct.abs(b)
    dx = ct.where(along * 2 < across, 0, ct.where((a < 0) != (b < 0), -1, 1))
    dy = ct.where(across * 2 < along, 0, 1)
    dx = ct.where(dy == 0, 1, dx)
    own = along + across

    def steepness(row, column):
        p, q = ct.gather(gx, (row, column)), ct.gather(gy, (row, column))
        return ct.abs(p.astype(ct.int32)) + ct.abs(q.astype(ct.int32))

    ridge = (own >= steepness(y + dy, x + dx)) & (own >= steepness(y - dy, x - dx))
    ct.scatter(out, (y, x), ct.where(ridge, ct.minimum(own >> 3, 255), 0).astype(ct.uint8))


def _thinned(height: int, width: int) -> Row:
    gx, gy = (integers(2000 + n, height, width, dtype=_I16) - 1000 for n in (0, 1))

    def theirs(gx, gy):
        a, b = gx.int(), gy.int()
        along, across = a.abs(), b.abs()
        own = along + across
        wide = functional.pad(own, (1, 1, 1, 1))
        before, after = (
            [
                wide[1 + s * dy :, 1 + s * dx :][:height, :width]
                for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1))
            ]
            for s in (-1, 1)
        )
        flat, steep, turned = across * 2 < along, along * 2 < across, (a < 0) != (b < 0)
        near = [
            torch.where(
                flat, each[0], torch.where(steep, each[1], torch.where(turned, each[3], each[2]))
            )
            for each in (before, after)
        ]
        ridge = (own >= near[0]) & (own >= near[1])
        return torch.where(ridge, (own >> 3).clamp(max=255), 0).to(_U8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(gx, gy, out):
            for y in nb.prange(height):
                for x in range(width):
                    a, b = np.int32(gx[y, x]), np.int32(gy[y, x])
                    along, across = abs(a), abs(b)
                    dx = 0 if along * 2 < across else (-1 if (a < 0) != (b < 0) else 1)
                    dy = 0 if across * 2 < along else 1
                    if dy == 0:
                        dx = 1
                    own, ridge = along + across, True
                    for s in (-1, 1):
                        v, u = y + s * dy, x + s * dx
                        if 0 <= v < height and 0 <= u < width:
                            near = abs(np.int32(gx[v, u])) + abs(np.int32(gy[v, u]))
                            ridge = ridge and own >= near
                    out[y, x] = min(own >> 3, 255) if ridge else 0

        made = np.empty((height, width), np.uint8)
        return lambda: run(array(gx), array(gy), made)

    return beside_torch(
        f"ridges of slopes of {height} x {width} int16",
        thinned,
        (-(-width // 256), height),
        (gx, gy, torch.empty(height, width, dtype=_U8), 256),
        theirs,
        gx,
        gy,
        more=by_numba(make),
    )


@ct.kernel
def diffused(
    u, k, out, rate, depth: ct.Constant[int], rows: ct.Constant[int], tile: ct.Constant[int]
):
    """A step of diffusion in space, a coefficient for each cell, zeros around: [z, y, x]."""
    z = (ct.bid(2) * depth + ct.arange(depth, dtype=ct.int32)).reshape((depth, 1, 1))
    y = (ct.bid(1) * rows + ct.arange(rows, dtype=ct.int32)).reshape((1, rows, 1))
    x = (ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, 1, tile))
    middle, own = ct.gather(u, (z, y, x)), ct.gather(k, (z, y, x))

    def flow(c, b, a):
        between = 0.5 * (own + ct.gather(k, (c, b, a)))
        return between * (ct.gather(u, (c, b, a)) - middle)

    total = flow(z - 1, y, x) + flow(z + 1, y, x) + flow(z, y - 1, x) + flow(z, y + 1, x)
    total = total + flow(z, y, x - 1) + flow(z, y, x + 1)
    ct.scatter(out, (z, y, x), middle + rate * total)


def _diffused(depth: int, height: int, width: int) -> Row:
    u, k = normal(depth, height, width), uniform(depth, height, width)

    def theirs(u, k):
        wide, coefficients = functional.pad(u, (1,) * 6), functional.pad(k, (1,) * 6)
        total = torch.zeros_like(u)
        for axis in range(3):
            for start in (0, 2):
                inner = tuple(
                    slice(start, start + n) if a == axis else slice(1, 1 + n)
                    for a, n in enumerate(u.shape)
                )
                total = total + 0.5 * (k + coefficients[inner]) * (wide[inner] - u)
        return u + 0.0625 * total

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(u, k, wide, coefficients, out):
            f = np.float32
            wide[1:-1, 1:-1, 1:-1] = u
            coefficients[1:-1, 1:-1, 1:-1] = k
            w, c = wide, coefficients
            for z in nb.prange(1, depth + 1):
                for y in range(1, height + 1):
                    for x in range(1, width + 1):
                        m, o = w[z, y, x], c[z, y, x]
                        total = (o + c[z - 1, y, x]) * (w[z - 1, y, x] - m)
                        total += (o + c[z + 1, y, x]) * (w[z + 1, y, x] - m)
                        total += (o + c[z, y - 1, x]) * (w[z, y - 1, x] - m)
                        total += (o + c[z, y + 1, x]) * (w[z, y + 1, x] - m)
                        total += (o + c[z, y, x - 1]) * (w[z, y, x - 1] - m)
                        total += (o + c[z, y, x + 1]) * (w[z, y, x + 1] - m)
                        out[z - 1, y - 1, x - 1] = m + f(0.03125) * total

        wide, other = (np.zeros((depth + 2, height + 2, width + 2), np.float32) for _ in "uk")
        made = np.empty((depth, height, width), np.float32)
        return lambda: run(array(u), array(k), wide, other, made)

    return beside_torch(
        f"a step of diffusion of {depth} x {height} x {width} float32, tiles 2x4x64",
        diffused,
        (-(-width // 64), -(-height // 4), -(-depth // 2)),
        (u, k, torch.empty_like(u), 0.0625, 2, 4, 64),
        theirs,
        u,
        k,
        bound=1e-5,
        more=by_numba(make),
    )


@ct.kernel
def narrowed(
    x, first, weights, out, taps: ct.Constant[int], rows: ct.Constant[int], tile: ct.Constant[int]
):
    """Rows of u8 to another width by windows of weights in 1/16384: weights [tap, column]."""
    y = (ct.bid(1) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    column = (ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    start = ct.gather(first, (column,))
    total = ct.full((rows, tile), 8192, ct.int32)
    for k in range(taps):
        held = ct.gather(x, (y, start + k)).astype(ct.int32)
        total += held * ct.gather(weights, (k, column))
    total = ct.minimum(ct.maximum(total >> 14, 0), 255)
    ct.scatter(out, (y, column), total.astype(ct.uint8))


def _narrowed(height: int, width: int, to: int, taps: int) -> Row:
    x = integers(256, height, width, dtype=_U8)
    center = (np.arange(to) + 0.5) * width / to
    first = np.clip(np.floor(center - taps / 2 + 0.5), 0, width - taps).astype(np.int32)
    off = (first + np.arange(taps)[:, None] + 0.5 - center) * to / width
    each = np.sinc(off) * np.sinc(off / 2)
    weights = torch.tensor(np.round(each / each.sum(0) * 16384), dtype=_I32)
    first = torch.tensor(first)

    def theirs(x, first, weights):
        total = torch.full((height, to), 8192, dtype=_I32)
        for k in range(taps):
            total = total + x[:, first + k].int() * weights[k]
        return (total >> 14).clamp(0, 255).to(_U8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, first, weights, out):
            for y in nb.prange(height):
                for j in range(to):
                    total = np.int32(8192)
                    for k in range(taps):
                        total += np.int32(x[y, first[j] + k]) * weights[k, j]
                    out[y, j] = min(max(total >> 14, 0), 255)

        made = np.empty((height, to), np.uint8)
        return lambda: run(array(x), array(first), array(weights), made)

    return beside_torch(
        f"rows of {height} x {width} uint8 to {to} by Lanczos' windows of {taps}",
        narrowed,
        (-(-to // 128), -(-height // 8)),
        (x, first, weights, torch.empty(height, to, dtype=_U8), taps, 8, 128),
        theirs,
        x,
        first,
        weights,
        more=by_numba(make),
    )


@ct.kernel
def radiance(heat, waves, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Planck's law: [temperature, wavelength in micrometres]."""
    t = ct.load(heat, (ct.bid(1),), (rows,), padding_mode=_ZERO).reshape((rows, 1))
    wave = ct.load(waves, (ct.bid(0),), (tile,), padding_mode=_ZERO).reshape((1, tile))
    found = 1.191042972e8 * ct.pow(wave, -5.0) / (ct.exp(14387.769 / (wave * t)) - 1.0)
    ct.store(out, (ct.bid(1), ct.bid(0)), found)


def _radiance(rows: int, columns: int) -> Row:
    heat, waves = uniform(rows) * 5000 + 1000, uniform(columns) * 4 + 1
    return beside_torch(
        f"Planck's law of {rows} temperatures and {columns} wavelengths float32",
        radiance,
        (-(-columns // 64), -(-rows // 16)),
        (heat, waves, torch.empty(rows, columns), 16, 64),
        lambda t, w: 1.191042972e8 * w**-5.0 / (torch.exp(14387.769 / (w * t[:, None])) - 1.0),
        heat,
        waves,
        bound=1e-5,
    )


@ct.kernel
def haar(x, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Means and differences of squares of 2 x 2, each kind in a quarter: u8 [y, x] to i16."""
    i, j = ct.bid(1), ct.bid(0)
    held = ct.load(x, (i, j), (2 * rows, 2 * tile), padding_mode=_ZERO).astype(ct.int16)
    held = ct.permute(held.reshape((rows, 2, tile, 2)), (1, 3, 0, 2))

    def part(down, along):
        piece = ct.extract(held, (down, along, 0, 0), (1, 1, rows, tile))
        return piece.reshape((rows, tile))

    a, b, c, d = part(0, 0), part(0, 1), part(1, 0), part(1, 1)
    y = (i * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    column = (j * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    height, width = x.shape[0] // 2, x.shape[1] // 2
    inside = (y < height) & (column < width)
    ct.scatter(out, (y, column), (a + b + c + d) >> 2, mask=inside)
    ct.scatter(out, (y, column + width), a - b + c - d, mask=inside)
    ct.scatter(out, (y + height, column), a + b - c - d, mask=inside)
    ct.scatter(out, (y + height, column + width), a - b - c + d, mask=inside)


def _haar(height: int, width: int) -> Row:
    x = integers(256, height, width, dtype=_U8)

    def theirs(x):
        x = x.short()
        a, b, c, d = x[::2, ::2], x[::2, 1::2], x[1::2, ::2], x[1::2, 1::2]
        top = torch.cat(((a + b + c + d) >> 2, a - b + c - d), 1)
        return torch.cat((top, torch.cat((a + b - c - d, a - b - c + d), 1)))

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, out):
            h, w = height // 2, width // 2
            for y in nb.prange(h):
                for j in range(w):
                    a, b = np.int16(x[2 * y, 2 * j]), np.int16(x[2 * y, 2 * j + 1])
                    c, d = np.int16(x[2 * y + 1, 2 * j]), np.int16(x[2 * y + 1, 2 * j + 1])
                    out[y, j] = (a + b + c + d) >> 2
                    out[y, j + w] = a - b + c - d
                    out[y + h, j] = a + b - c - d
                    out[y + h, j + w] = a - b - c + d

        made = np.empty((height, width), np.int16)
        return lambda: run(array(x), made)

    return beside_torch(
        f"Haar's means and differences of {height} x {width} uint8",
        haar,
        (-(-width // 256), -(-height // 8)),
        (x, torch.empty(height, width, dtype=_I16), 4, 128),
        theirs,
        x,
        more=by_numba(make),
    )


@ct.kernel
def unfiltered(x, out, tile: ct.Constant[int]):
    """Lines of four u8 a pixel from their differences, as in PNG: [line, 4 pixel]."""
    line = ct.bid(0)
    before = ct.zeros((1, 4), ct.uint8)
    for j in range(ct.num_tiles(x, 1, (1, 4 * tile))):
        held = ct.load(x, (line, j), (1, 4 * tile), padding_mode=_ZERO).reshape((tile, 4))
        held = ct.cumsum(held, 0) + before
        ct.store(out, (line, j), held.reshape((1, 4 * tile)))
        before = ct.extract(held, (tile - 1, 0), (1, 4))


def _unfiltered(lines: int, width: int) -> Row:
    x = integers(256, lines, 4 * width, dtype=_U8)

    def theirs(x):
        return x.view(lines, width, 4).cumsum(1, dtype=_U8).view(lines, 4 * width)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, out):
            for i in nb.prange(lines):
                for j in range(4):
                    out[i, j] = x[i, j]
                for j in range(4, 4 * width):
                    out[i, j] = x[i, j] + out[i, j - 4]

        made = np.empty((lines, 4 * width), np.uint8)
        return lambda: run(array(x), made)

    return beside_torch(
        f"{lines} lines of {width} pixels of four uint8 from differences",
        unfiltered,
        (lines,),
        (x, torch.empty_like(x), 256),
        theirs,
        x,
        more=by_numba(make),
        compiles=False,
    )


@ct.kernel
def dithered(x, pattern, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Bits of what is brighter than a pattern of 8 x 8, eight in a byte: u8 [y, x]."""
    i, j = ct.bid(1), ct.bid(0)
    y = (i * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    column = ct.arange(tile, dtype=ct.int32).reshape((1, tile))
    limit = ct.gather(pattern, (y & 7, column & 7))
    held = ct.load(x, (i, j), (rows, tile), padding_mode=_ZERO)
    bits = (held > limit).astype(ct.int32).reshape((rows, tile // 8, 8))
    shift = (7 - ct.arange(8, dtype=ct.int32)).reshape((1, 1, 8))
    ct.store(out, (i, j), ct.sum(bits << shift, 2).astype(ct.uint8))


def _dithered(height: int, width: int) -> Row:
    x = integers(256, height, width, dtype=_U8)
    each = np.zeros((1, 1), np.int64)
    for _ in range(3):
        each = np.block([[4 * each, 4 * each + 2], [4 * each + 3, 4 * each + 1]])
    pattern = torch.tensor(each * 4, dtype=_U8)
    whole = np.tile(array(pattern), (-(-height // 8), width // 8))[:height]
    tiled = torch.tensor(whole)
    powers = 1 << torch.arange(7, -1, -1, dtype=_I32)

    def theirs(x, tiled):
        bits = (x > tiled).view(height, width // 8, 8)
        return (bits * powers).sum(2, dtype=_I32).to(_U8)

    return beside_torch(
        f"{height} x {width} uint8 to bits by a pattern",
        dithered,
        (width // 256, -(-height // 4)),
        (x, pattern, torch.empty(height, width // 8, dtype=_U8), 4, 256),
        theirs,
        x,
        tiled,
        more={"NumPy": lambda: np.packbits(array(x) > whole, axis=1)},
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _line_votes(5000, 180),
        lambda: _label_boxes(700, 1001),
        lambda: _thresholds(2001),
        lambda: _margins(19, 100_001, _F16),
        lambda: _between_cells(300_001),
        lambda: _shallow(500, 777),
        lambda: _thinned(600, 1001),
        lambda: _diffused(60, 101, 130),
        lambda: _narrowed(600, 1000, 667, 6),
        lambda: _radiance(700, 801),
        lambda: _haar(1002, 1504),
        lambda: _unfiltered(501, 1001),
        lambda: _dithered(1001, 1536),
    ]
