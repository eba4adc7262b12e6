"""Images and fields as trades have them: morphology, tables of sums, layers, patches, reactions."""

from __future__ import annotations

import math
from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch
from torch.nn import functional

from benchmarks.unseen_rows import ERROR, Row, array, beside_torch, by_numba, integers, kind, normal

_F32, _F64, _BF16, _F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
_I8, _I32, _U8 = torch.int8, torch.int32, torch.uint8


@ct.kernel
def reacted(u, v, u_out, v_out, feed, kill, size: ct.Constant[int], tile: ct.Constant[int]):
    """A step of Gray's and Scott's reaction on a torus, by flat places."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    y, x = i // size, i % size

    def spread(a, middle):
        above, below = ((y + size - 1) % size) * size + x, ((y + 1) % size) * size + x
        left, right = y * size + (x + size - 1) % size, y * size + (x + 1) % size
        around = (
            ct.gather(a, above) + ct.gather(a, below) + ct.gather(a, left) + ct.gather(a, right)
        )
        return around - 4.0 * middle

    p, q = ct.gather(u, i), ct.gather(v, i)
    met = p * q * q
    ct.scatter(u_out, i, p + 0.16 * spread(u, p) - met + feed * (1.0 - p))
    ct.scatter(v_out, i, q + 0.08 * spread(v, q) + met - (feed + kill) * q)


@ct.kernel
def outlined(x, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """The largest less the least of 3 x 3 u8; beyond the edges is nothing."""
    line = (ct.bid(1) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    column = (ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    most, least = ct.zeros((rows, tile), ct.uint8), ct.full((rows, tile), 255, ct.uint8)
    for r in ct.static_iter(range(-1, 2)):
        for s in ct.static_iter(range(-1, 2)):
            at = (line + r, column + s)
            most = ct.maximum(most, ct.gather(x, at, padding_value=0))
            least = ct.minimum(least, ct.gather(x, at, padding_value=255))
    ct.scatter(out, (line, column), most - least)


@ct.kernel
def down_columns(x, weights, out, taps: ct.Constant[int], tile: ct.Constant[int]):
    """The second pass of a separable filter, down the columns, the edges repeated."""
    y, j = ct.bid(1), ct.bid(0)
    total = ct.zeros((1, tile), ct.float32)
    for r in range(taps):
        row = min(max(y + r - taps // 2, 0), x.shape[0] - 1)
        total += ct.gather(weights, r) * ct.load(x, (row, j), (1, tile)).astype(ct.float32)
    ct.store(out, (y, j), total.astype(out.dtype))


@ct.kernel
def filtered(x, weights, out, width: ct.Constant[int], tile: ct.Constant[int]):
    """Colours of u8 by 3 x 3 given weights, clamped: [y, x * 3], the edges repeated."""
    y, flat = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    column, colour = flat // 3, flat % 3
    total = ct.zeros((tile,), ct.float32)
    for r in ct.static_iter(range(3)):
        row = min(max(y + (r - 1), 0), x.shape[0] - 1)
        for s in ct.static_iter(range(3)):
            lane = ct.minimum(ct.maximum(column + (s - 1), 0), width - 1) * 3 + colour
            total += ct.gather(weights, (r, s)) * ct.gather(x, (row, lane)).astype(ct.float32)
    held = ct.minimum(ct.maximum(ct.floor(total + 0.5), 0.0), 255.0)
    ct.scatter(out, (y, flat), held.astype(ct.uint8))


@ct.kernel
def boxes(table, out, reach: ct.Constant[int], rows: ct.Constant[int], tile: ct.Constant[int]):
    """Means of squares around each pixel by a table of sums, [y + 1, x + 1], less at the edges."""
    line = (ct.bid(1) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    column = (ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    height, width = out.shape[0], out.shape[1]
    top, bottom = ct.maximum(line - reach, 0), ct.minimum(line + reach + 1, height)
    left, right = ct.maximum(column - reach, 0), ct.minimum(column + reach + 1, width)
    total = (
        ct.gather(table, (bottom, right))
        - ct.gather(table, (top, right))
        - ct.gather(table, (bottom, left))
        + ct.gather(table, (top, left))
    )
    area = ((bottom - top) * (right - left)).astype(ct.float32)
    ct.scatter(out, (line, column), total.astype(ct.float32) / area)


@ct.kernel
def layered(x, out, layers: ct.Constant[int], tile: ct.Constant[int]):
    """Layers over one another, the first on top: [layer, colour or cover, pixel]."""
    i = ct.bid(0)
    red, green, blue = (
        ct.zeros((1, 1, tile), ct.float32),
        ct.zeros((1, 1, tile), ct.float32),
        ct.zeros((1, 1, tile), ct.float32),
    )
    left = ct.full((1, 1, tile), 1.0, ct.float32)
    for n in range(layers):
        cover = ct.load(x, (n, 3, i), (1, 1, tile)).astype(ct.float32)
        share = left * cover
        red += share * ct.load(x, (n, 0, i), (1, 1, tile)).astype(ct.float32)
        green += share * ct.load(x, (n, 1, i), (1, 1, tile)).astype(ct.float32)
        blue += share * ct.load(x, (n, 2, i), (1, 1, tile)).astype(ct.float32)
        left = left - share
    ct.store(out, (0, i), red.reshape((1, tile)).astype(out.dtype))
    ct.store(out, (1, i), green.reshape((1, tile)).astype(out.dtype))
    ct.store(out, (2, i), blue.reshape((1, tile)).astype(out.dtype))


@ct.kernel
def upwind(f, along, down, out, step, size: ct.Constant[int], tile: ct.Constant[int]):
    """Something carried by a wind on a torus: slopes from where it blows."""
    y, x = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    inside = x < size
    above, below = (y + size - 1) % size, (y + 1) % size
    left, right = (x + size - 1) % size, (x + 1) % size
    held = ct.gather(f, (y, x), mask=inside)
    a, d = ct.gather(along, (y, x), mask=inside), ct.gather(down, (y, x), mask=inside)
    sideways = ct.where(
        a > 0.0,
        held - ct.gather(f, (y, left), mask=inside),
        ct.gather(f, (y, right), mask=inside) - held,
    )
    upright = ct.where(
        d > 0.0,
        held - ct.gather(f, (above, x), mask=inside),
        ct.gather(f, (below, x), mask=inside) - held,
    )
    ct.scatter(out, (y, x), held - step * (a * sideways + d * upright), mask=inside)


@ct.kernel
def folded(x, out, height: ct.Constant[int], width: ct.Constant[int], tile: ct.Constant[int]):
    """Windows of 3 x 3 added to the image they are of: [channel * 9, y * x] to [channel, y, x]."""
    channel, flat = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    y, column = flat // width, flat % width
    total = ct.zeros((tile,), ct.float32)
    for tap in range(9):
        at_y, at_x = y + 1 - tap // 3, column + 1 - tap % 3
        there = (at_y >= 0) & (at_y < height) & (at_x >= 0) & (at_x < width)
        held = ct.gather(x, (channel * 9 + tap, at_y * width + at_x), mask=there, padding_value=0)
        total += held.astype(ct.float32)
    ct.scatter(out, (channel, y, column), total.astype(out.dtype), mask=flat < height * width)


@ct.kernel
def windowed(x, out, size: ct.Constant[int], window: ct.Constant[int], tile: ct.Constant[int]):
    """An image shifted by half a window and cut to windows: [y, x, channel] to [window, place, channel]."""
    place, number = ct.bid(0), ct.bid(1)
    across = size // window
    y = (number // across * window + place // window + window // 2) % size
    column = (number % across * window + place % window + window // 2) % size
    channel = ct.arange(tile, dtype=ct.int32)
    inside = channel < x.shape[2]
    held = ct.gather(x, (y, column, channel), mask=inside)
    ct.scatter(out, (number, place, channel), held, mask=inside)


@ct.kernel
def patches(x, means, scales, out, patch: ct.Constant[int], tile: ct.Constant[int]):
    """Images of u8 to rows for each patch, scaled by colour: [image, y, x, 3] to [image, patch, y x 3]."""
    number, image = ct.bid(1), ct.bid(2)
    flat = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    across = x.shape[2] // patch
    colour, column, row = flat % 3, flat // 3 % patch, flat // (3 * patch)
    y, lane = number // across * patch + row, number % across * patch + column
    inside = flat < 3 * patch * patch
    held = ct.gather(x, (image, y, lane, colour), mask=inside, padding_value=0).astype(ct.float32)
    held = (held - ct.gather(means, colour)) * ct.gather(scales, colour)
    ct.scatter(out, (image, number, flat), held.astype(out.dtype), mask=inside)


@ct.kernel
def backwards(x, lengths, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Each sequence from its last to its first, what is behind its length as it was."""
    batch, i = ct.bid(1), ct.bid(0)
    length = ct.gather(lengths, batch)
    time = (i * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    lane = ct.arange(tile, dtype=ct.int32).reshape((1, tile))
    source = ct.where(time < length, length - 1 - time, time)
    ct.scatter(out, (batch, time, lane), ct.gather(x, (batch, source, lane)))


@ct.kernel
def cosines(x, basis, scales, out, blocks: ct.Constant[int]):
    """Blocks of 8 x 8 pixels to rounded cosines: u8 [y, x] to i16 [block, 8, 8]."""
    i, j = ct.bid(1), ct.bid(0)
    held = ct.load(x, (i, j), (8, 8 * blocks)).astype(ct.float32) - 128.0
    held = ct.permute(held.reshape((8, blocks, 8)), (1, 0, 2))
    base = ct.broadcast_to(ct.load(basis, (0, 0), (8, 8)).reshape((1, 8, 8)), (blocks, 8, 8))
    turned = ct.broadcast_to(
        ct.transpose(ct.load(basis, (0, 0), (8, 8))).reshape((1, 8, 8)), (blocks, 8, 8)
    )
    found = ct.matmul(ct.matmul(base, held), turned)
    found = found * ct.load(scales, (0, 0), (8, 8)).reshape((1, 8, 8))
    found = ct.floor(found + 0.5).astype(ct.int16)
    ct.store(out, (i * (x.shape[1] // (8 * blocks)) + j, 0, 0), found)


@ct.kernel
def from_mosaic(x, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Colours of a sensor: red, green; green, blue. What a pixel lacks is the mean of those around."""
    line = (ct.bid(1) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    column = (ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    height, width = x.shape[0], x.shape[1]

    def at(r, s):
        row, lane = line + r, column + s
        row = ct.where(row < 0, 1, ct.where(row >= height, height - 2, row))
        lane = ct.where(lane < 0, 1, ct.where(lane >= width, width - 2, lane))
        return ct.gather(x, (row, lane)).astype(ct.int32)

    middle = at(0, 0)
    sides, ends = (at(0, -1) + at(0, 1)) // 2, (at(-1, 0) + at(1, 0)) // 2
    cross = (at(0, -1) + at(0, 1) + at(-1, 0) + at(1, 0)) // 4
    corners = (at(-1, -1) + at(-1, 1) + at(1, -1) + at(1, 1)) // 4
    even_row, even = line % 2 == 0, column % 2 == 0
    red = ct.where(even_row, ct.where(even, middle, sides), ct.where(even, ends, corners))
    green = ct.where(even_row == even, cross, middle)
    blue = ct.where(even_row, ct.where(even, corners, ends), ct.where(even, sides, middle))
    ct.scatter(out, (line, column, 0), red.astype(ct.uint8))
    ct.scatter(out, (line, column, 1), green.astype(ct.uint8))
    ct.scatter(out, (line, column, 2), blue.astype(ct.uint8))


@ct.kernel
def hues(x, out, tile: ct.Constant[int]):
    """Red, green and blue to hue, saturation and value: [pixel, 3]."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    r, g, b = ct.gather(x, (i, 0)), ct.gather(x, (i, 1)), ct.gather(x, (i, 2))
    most = ct.maximum(ct.maximum(r, g), b)
    span = most - ct.minimum(ct.minimum(r, g), b)
    safe = ct.where(span > 0.0, span, 1.0)
    hue = ct.where(
        most == r,
        (g - b) / safe,
        ct.where(most == g, (b - r) / safe + 2.0, (r - g) / safe + 4.0),
    )
    hue = ct.where(hue < 0.0, hue + 6.0, hue) * (1.0 / 6.0)
    ct.scatter(out, (i, 0), hue)
    ct.scatter(out, (i, 1), ct.where(most > 0.0, span / ct.where(most > 0.0, most, 1.0), 0.0))
    ct.scatter(out, (i, 2), most)


@ct.kernel
def spins(x, chances, out, seed, colour, size: ct.Constant[int], tile: ct.Constant[int]):
    """Half of the spins of a torus, as on a board of two colours, turned by chance."""
    y, column = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    held = ct.gather(x, (y, column)).astype(ct.int32)
    around = (
        ct.gather(x, ((y + size - 1) % size, column)).astype(ct.int32)
        + ct.gather(x, ((y + 1) % size, column)).astype(ct.int32)
        + ct.gather(x, (y, (column + size - 1) % size)).astype(ct.int32)
        + ct.gather(x, (y, (column + 1) % size)).astype(ct.int32)
    )
    chance = ct.gather(chances, held * around // 2 + 2)
    mixed = (y * size + column + seed).astype(ct.uint32) * 0x9E3779B1
    mixed = (mixed ^ (mixed >> 16)) * 0x85EBCA77
    drawn = ((mixed ^ (mixed >> 13)) >> 8).astype(ct.float32) * (1.0 / (1 << 24))
    turn = ((y + column) % 2 == colour) & (drawn < chance)
    ct.scatter(out, (y, column), ct.where(turn, -held, held).astype(ct.int8))


def _reacted(size: int) -> Row:
    u, v = (torch.rand(size * size, generator=torch.Generator().manual_seed(i)) for i in range(2))

    def theirs(u, v):
        p, q = u.view(size, size), v.view(size, size)

        def spread(a):
            return a.roll(1, 0) + a.roll(-1, 0) + a.roll(1, 1) + a.roll(-1, 1) - 4 * a

        met = p * q * q
        return (
            (p + 0.16 * spread(p) - met + 0.035 * (1 - p)).view(-1),
            (q + 0.08 * spread(q) + met - (0.035 + 0.06) * q).view(-1),
        )

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(u, v, a, b):
            n, four, one = u.shape[0], np.float32(4), np.float32(1)
            du, dv, feed, kill = (
                np.float32(0.16),
                np.float32(0.08),
                np.float32(0.035),
                np.float32(0.095),
            )
            for y in nb.prange(n):
                above, below = (y + n - 1) % n, (y + 1) % n
                for x in range(n):
                    left, right = x - 1 if x > 0 else n - 1, x + 1 if x < n - 1 else 0
                    p, q = u[y, x], v[y, x]
                    met = p * q * q
                    su = u[above, x] + u[below, x] + u[y, left] + u[y, right] - four * p
                    sv = v[above, x] + v[below, x] + v[y, left] + v[y, right] - four * q
                    a[y, x] = p + du * su - met + feed * (one - p)
                    b[y, x] = q + dv * sv + met - kill * q

        made = [np.empty((size, size), np.float32) for _ in range(2)]
        given = [array(each).reshape(size, size) for each in (u, v)]
        return lambda: run(*given, *made)

    return beside_torch(
        f"reaction and diffusion on a torus of {size} x {size} f32, flat",
        reacted,
        (size * size // 256,),
        (u, v, torch.empty_like(u), torch.empty_like(v), 0.035, 0.06, size, 256),
        theirs,
        u,
        v,
        outputs=2,
        bound=1e-5,
        more=by_numba(make),
    )


def _outlined(height: int, width: int) -> Row:
    x = integers(256, height, width, dtype=_U8)

    def theirs(x):
        most = functional.max_pool2d(x[None].float(), 3, 1, 1)[0]
        least = -functional.max_pool2d(-x[None].float(), 3, 1, 1)[0]
        return (most - least).to(_U8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, out):
            h, w = x.shape
            for i in nb.prange(h):
                most, least = np.zeros(w + 2, np.uint8), np.full(w + 2, 255, np.uint8)
                a, b, c = x[max(i - 1, 0)], x[i], x[min(i + 1, h - 1)]
                for j in range(w):
                    most[j + 1] = max(max(a[j], b[j]), c[j])
                    least[j + 1] = min(min(a[j], b[j]), c[j])
                for j in range(w):
                    high = max(max(most[j], most[j + 1]), most[j + 2])
                    out[i, j] = high - min(min(least[j], least[j + 1]), least[j + 2])

        made = np.empty((height, width), np.uint8)
        return lambda: run(array(x), made)

    return beside_torch(
        f"outlines of {height} x {width} u8, tiles 16x64",
        outlined,
        (-(-width // 64), -(-height // 16)),
        (x, torch.empty_like(x), 16, 64),
        theirs,
        x,
        more=by_numba(make),
    )


def _down_columns(height: int, width: int, taps: int, dtype: torch.dtype) -> Row:
    x = normal(height, width).to(dtype)
    weights = torch.rand(taps, generator=torch.Generator().manual_seed(1)) / taps

    def theirs(x, weights):
        wide = x if x.dtype == _F64 else x.float()
        held = functional.pad(wide[None], (0, 0, taps // 2, taps // 2), mode="replicate")[0]
        return sum(weights[r] * held[r : r + height] for r in range(taps)).to(x.dtype)

    return beside_torch(
        f"{taps} taps down the columns of {height} x {width} {kind(dtype)}, tiles 1x1024",
        down_columns,
        (-(-width // 1024), height),
        (x, weights, torch.empty_like(x), taps, 1024),
        theirs,
        x,
        weights,
        bound=ERROR[dtype],
    )


def _filtered(height: int, width: int) -> Row:
    x = integers(256, height, 3 * width, dtype=_U8)
    weights = torch.tensor([[-0.125, -0.25, -0.125], [-0.25, 2.5, -0.25], [-0.125, -0.25, -0.125]])

    def theirs(x, weights):
        held = x.float().view(height, width, 3).permute(2, 0, 1)
        held = functional.pad(held, (1, 1, 1, 1), mode="replicate")
        found = sum(
            weights[r, s] * held[:, r : r + height, s : s + width]
            for r in range(3)
            for s in range(3)
        )
        found = torch.floor(found + 0.5).clamp(0, 255).to(_U8)
        return found.permute(1, 2, 0).reshape(height, 3 * width)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, w, out):
            h, n = x.shape
            for i in nb.prange(h):
                above, held, below = x[max(i - 1, 0)], x[i], x[min(i + 1, h - 1)]
                for j in range(n):
                    left, right = j - 3 if j >= 3 else j, j + 3 if j < n - 3 else j
                    total = w[0, 0] * above[left] + w[0, 1] * above[j] + w[0, 2] * above[right]
                    total += w[1, 0] * held[left] + w[1, 1] * held[j] + w[1, 2] * held[right]
                    total += w[2, 0] * below[left] + w[2, 1] * below[j] + w[2, 2] * below[right]
                    total = np.floor(total + np.float32(0.5))
                    total = min(max(total, np.float32(0)), np.float32(255))
                    out[i, j] = np.int32(total)

        made = np.empty((height, 3 * width), np.uint8)
        return lambda: run(array(x), array(weights), made)

    return beside_torch(
        f"{height} x {width} pixels of three u8 sharpened by 3 x 3 weights",
        filtered,
        (-(-3 * width // 256), height),
        (x, weights, torch.empty_like(x), width, 256),
        theirs,
        x,
        weights,
        more=by_numba(make),
    )


def _boxes(height: int, width: int, reach: int) -> Row:
    x = integers(256, height, width, dtype=_U8)
    table = functional.pad(x.int().cumsum(0).cumsum(1), (1, 0, 1, 0)).to(_I32)
    ys, xs = torch.arange(height), torch.arange(width)
    top, bottom = (ys - reach).clamp(min=0), (ys + reach + 1).clamp(max=height)
    left, right = (xs - reach).clamp(min=0), (xs + reach + 1).clamp(max=width)

    def theirs(table):
        high, low = table[bottom], table[top]
        total = high[:, right] - low[:, right] - high[:, left] + low[:, left]
        return total / ((bottom - top)[:, None] * (right - left))

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(table, out):
            h, w = out.shape
            for i in nb.prange(h):
                a, b = max(i - reach, 0), min(i + reach + 1, h)
                high, low = table[b], table[a]
                for j in range(w):
                    c, d = max(j - reach, 0), min(j + reach + 1, w)
                    total = high[d] - low[d] - high[c] + low[c]
                    out[i, j] = np.float32(total) / np.float32((b - a) * (d - c))

        made = np.empty((height, width), np.float32)
        return lambda: run(array(table), made)

    return beside_torch(
        f"means of {2 * reach + 1} x {2 * reach + 1} by a table of sums, {height} x {width}, tiles 16x64",
        boxes,
        (-(-width // 64), -(-height // 16)),
        (table, torch.empty(height, width), reach, 16, 64),
        theirs,
        table,
        bound=1e-6,
        more=by_numba(make),
    )


def _layered(layers: int, pixels: int, dtype: torch.dtype) -> Row:
    x = torch.rand(layers, 4, pixels, generator=torch.Generator().manual_seed(1)).to(dtype)

    def theirs(x):
        wide = x if x.dtype == _F64 else x.float()
        total, left = torch.zeros_like(wide[0, :3]), torch.ones_like(wide[0, 3])
        for n in range(layers):
            share = left * wide[n, 3]
            total, left = total + share * wide[n, :3], left - share
        return total.to(x.dtype)

    return beside_torch(
        f"{layers} layers of {pixels >> 10}K pixels over one another, {kind(dtype)}",
        layered,
        (pixels // 512,),
        (x, torch.empty(3, pixels, dtype=dtype), layers, 512),
        theirs,
        x,
        bound=ERROR[dtype],
    )


def _upwind(size: int, dtype: torch.dtype) -> Row:
    f, a, d = (normal(size, size + i)[:, :size].contiguous().to(dtype) for i in range(3))

    def theirs(f, a, d):
        sideways = torch.where(a > 0, f - f.roll(1, 1), f.roll(-1, 1) - f)
        upright = torch.where(d > 0, f - f.roll(1, 0), f.roll(-1, 0) - f)
        return f - 0.1 * (a * sideways + d * upright)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(f, along, down, out):
            n, step = f.shape[0], f.dtype.type(0.1)
            for y in nb.prange(n):
                above, below = (y + n - 1) % n, (y + 1) % n
                for x in range(n):
                    left, right = x - 1 if x > 0 else n - 1, x + 1 if x < n - 1 else 0
                    a, d, held = along[y, x], down[y, x], f[y, x]
                    s = held - f[y, left] if a > 0 else f[y, right] - held
                    u = held - f[above, x] if d > 0 else f[below, x] - held
                    out[y, x] = held - step * (a * s + d * u)

        made = np.empty((size, size), array(f).dtype)
        return lambda: run(array(f), array(a), array(d), made)

    return beside_torch(
        f"carried by a wind, torus of {size} x {size} {kind(dtype)}",
        upwind,
        (-(-size // 256), size),
        (f, a, d, torch.empty_like(f), 0.1, size, 256),
        theirs,
        f,
        a,
        d,
        bound=max(ERROR[dtype], 1e-7),
        more=by_numba(make),
    )


def _folded(channels: int, height: int, width: int, dtype: torch.dtype) -> Row:
    x = normal(channels * 9, height * width).to(dtype)
    return beside_torch(
        f"windows of 3 x 3 added to {channels} x {height} x {width} {kind(dtype)}",
        folded,
        (-(-height * width // 256), channels),
        (x, torch.empty(channels, height, width, dtype=dtype), height, width, 256),
        lambda x: functional.fold(x[None], (height, width), 3, padding=1)[0],
        x,
        bound=ERROR[dtype] * 3,
    )


def _windowed(size: int, window: int, channels: int, dtype: torch.dtype) -> Row:
    x, across = normal(size, size, channels).to(dtype), size // window

    def theirs(x):
        held = x.roll((-(window // 2), -(window // 2)), (0, 1))
        held = held.view(across, window, across, window, channels).transpose(1, 2)
        return held.reshape(across * across, window * window, channels)

    return beside_torch(
        f"{size} x {size} x {channels} {kind(dtype)} shifted and cut to windows of {window}",
        windowed,
        (window * window, across * across),
        (
            x,
            torch.empty(across * across, window * window, channels, dtype=dtype),
            size,
            window,
            1 << (channels - 1).bit_length(),
        ),
        theirs,
        x,
    )


def _patches(images: int, size: int, patch: int, dtype: torch.dtype) -> Row:
    x, across = integers(256, images, size, size, 3, dtype=_U8), size // patch
    means, scales = torch.tensor([123.7, 116.3, 103.5]), 1 / torch.tensor([58.4, 57.1, 57.4])

    def theirs(x, means, scales):
        held = x.view(images, across, patch, across, patch, 3).transpose(2, 3)
        held = (held.float() - means) * scales
        return held.to(dtype).reshape(images, across * across, 3 * patch * patch)

    return beside_torch(
        f"patches of {patch} of {images} images of {size} x {size} u8 to {kind(dtype)}",
        patches,
        (-(-3 * patch * patch // 256), across * across, images),
        (
            x,
            means,
            scales,
            torch.empty(images, across * across, 3 * patch * patch, dtype=dtype),
            patch,
            256,
        ),
        theirs,
        x,
        means,
        scales,
        bound=ERROR[dtype],
    )


def _backwards(batch: int, length: int, width: int, dtype: torch.dtype) -> Row:
    x, lengths = normal(batch, length, width).to(dtype), integers(length, batch) + 1

    def theirs(x, lengths):
        time = torch.arange(length)
        source = torch.where(time < lengths[:, None], lengths[:, None] - 1 - time, time)
        return x.gather(1, source[..., None].expand(-1, -1, width).long())

    return beside_torch(
        f"{batch} sequences up to {length} x {width} {kind(dtype)} backwards",
        backwards,
        (-(-length // 16), batch),
        (x, lengths, torch.empty_like(x), 16, width),
        theirs,
        x,
        lengths,
    )


def _cosines(height: int, width: int) -> Row:
    x, place = integers(256, height, width, dtype=_U8), torch.arange(8).float()
    basis = torch.cos((2 * place + 1) * place[:, None] * math.pi / 16) * 0.5
    basis[0] *= 0.5**0.5
    scales = 1 / (1.0 + place[:, None] * 0.3 + place * 0.5)

    def theirs(x, basis, scales):
        held = x.view(height // 8, 8, width // 8, 8).transpose(1, 2).to(basis.dtype) - 128.0
        found = (basis @ held @ basis.t()) * scales
        return torch.floor(found + 0.5).to(torch.int16).view(-1, 8, 8)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, basis, scales, out):
            for i in nb.prange(x.shape[0] // 8):
                held, half = np.empty((8, 8), np.float32), np.empty((8, 8), np.float32)
                for j in range(x.shape[1] // 8):
                    for r in range(8):
                        for s in range(8):
                            held[r, s] = np.float32(x[8 * i + r, 8 * j + s]) - np.float32(128)
                    for r in range(8):
                        half[r] = 0
                        for k in range(8):
                            for s in range(8):
                                half[r, s] += basis[r, k] * held[k, s]
                    held[:] = 0
                    for r in range(8):
                        for k in range(8):
                            for s in range(8):
                                held[r, s] += half[r, k] * basis[s, k]
                    for r in range(8):
                        for s in range(8):
                            found = np.floor(held[r, s] * scales[r, s] + np.float32(0.5))
                            out[i * (x.shape[1] // 8) + j, r, s] = np.int32(found)

        made = np.empty((height * width // 64, 8, 8), np.int16)
        return lambda: run(array(x), array(basis), array(scales), made)

    return beside_torch(
        f"cosines of blocks of 8 x 8, {height} x {width} u8 to i16, 16 at a time",
        cosines,
        (width // 128, height // 8),
        (x, basis, scales, torch.empty(height * width // 64, 8, 8, dtype=torch.int16), 16),
        theirs,
        x,
        basis,
        scales,
        bound=0.003,
        more=by_numba(make),
    )


def _from_mosaic(height: int, width: int) -> Row:
    x = integers(256, height, width, dtype=_U8)
    even_row, even = torch.arange(height)[:, None] % 2 == 0, torch.arange(width) % 2 == 0

    def theirs(x):
        held = functional.pad(x[None, None].float(), (1, 1, 1, 1), mode="reflect")[0, 0].int()

        def at(r, s):
            return held[1 + r : 1 + r + height, 1 + s : 1 + s + width]

        middle, sides, ends = at(0, 0), (at(0, -1) + at(0, 1)) // 2, (at(-1, 0) + at(1, 0)) // 2
        cross = (at(0, -1) + at(0, 1) + at(-1, 0) + at(1, 0)) // 4
        corners = (at(-1, -1) + at(-1, 1) + at(1, -1) + at(1, 1)) // 4
        of = torch.where
        red = of(even_row, of(even, middle, sides), of(even, ends, corners))
        blue = of(even_row, of(even, corners, ends), of(even, sides, middle))
        return torch.stack((red, of(even_row == even, cross, middle), blue), -1).to(_U8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, out):
            h, w = x.shape
            for i in nb.prange(h):
                a, b = x[i - 1 if i > 0 else 1], x[i + 1 if i < h - 1 else h - 2]
                for j in range(w):
                    p, q = j - 1 if j > 0 else 1, j + 1 if j < w - 1 else w - 2
                    sides = np.int32(x[i, p]) + np.int32(x[i, q])
                    ends = np.int32(a[j]) + np.int32(b[j])
                    corners = np.int32(a[p]) + np.int32(a[q]) + np.int32(b[p]) + np.int32(b[q])
                    if (i + j) & 1:
                        green, one, two = np.int32(x[i, j]), sides >> 1, ends >> 1
                    else:
                        green, one, two = (sides + ends) >> 2, np.int32(x[i, j]), corners >> 2
                    out[i, j, 1] = green
                    out[i, j, 2 if i & 1 else 0] = one
                    out[i, j, 0 if i & 1 else 2] = two

        made = np.empty((height, width, 3), np.uint8)
        return lambda: run(array(x), made)

    return beside_torch(
        f"colours of a sensor of {height} x {width} u8, tiles 4x128",
        from_mosaic,
        (-(-width // 128), -(-height // 4)),
        (x, torch.empty(height, width, 3, dtype=_U8), 4, 128),
        theirs,
        x,
        more=by_numba(make),
    )


def _hues(pixels: int) -> Row:
    x = torch.rand(pixels, 3, generator=torch.Generator().manual_seed(1))

    def theirs(x):
        r, g, b = x.unbind(1)
        most = x.amax(1)
        span = most - x.amin(1)
        safe = torch.where(span > 0, span, 1.0)
        late = torch.where(most == g, (b - r) / safe + 2, (r - g) / safe + 4)
        hue = torch.where(most == r, (g - b) / safe, late)
        hue = torch.where(hue < 0, hue + 6, hue) * (1 / 6)
        return torch.stack((hue, torch.where(most > 0, span / most, 0.0), most), 1)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, out):
            zero, one, share = np.float32(0), np.float32(1), np.float32(1 / 6)
            for i in nb.prange(x.shape[0]):
                r, g, b = x[i, 0], x[i, 1], x[i, 2]
                most = max(max(r, g), b)
                span = most - min(min(r, g), b)
                inverse = one / (span if span > zero else one)
                late = (
                    (b - r) * inverse + np.float32(2)
                    if most == g
                    else (r - g) * inverse + np.float32(4)
                )
                hue = (g - b) * inverse if most == r else late
                out[i, 0] = (hue + np.float32(6) if hue < zero else hue) * share
                out[i, 1] = span / most if most > zero else zero
                out[i, 2] = most

        made = np.empty((pixels, 3), np.float32)
        return lambda: run(array(x), made)

    return beside_torch(
        f"{pixels >> 10}K pixels to hue, saturation and value",
        hues,
        (-(-pixels // 256),),
        (x, torch.empty(pixels, 3), 256),
        theirs,
        x,
        bound=1e-5,
        more=by_numba(make),
    )


def _spins(size: int) -> Row:
    x = (integers(2, size, size) * 2 - 1).to(_I8)
    chances = torch.exp(-2.0 * 0.44 * torch.tensor([-4.0, -2.0, 0.0, 2.0, 4.0])).clamp(max=1.0)
    place, seed = torch.arange(size * size).view(size, size), 12345
    board = (torch.arange(size)[:, None] + torch.arange(size)) % 2 == 1

    def theirs(x, chances):
        held = x.int()
        around = held.roll(1, 0) + held.roll(-1, 0) + held.roll(1, 1) + held.roll(-1, 1)
        chance = chances[(held * around // 2 + 2).long()]
        mixed = ((place + seed) * 0x9E3779B1) & 0xFFFFFFFF
        mixed = ((mixed ^ (mixed >> 16)) * 0x85EBCA77) & 0xFFFFFFFF
        drawn = ((mixed ^ (mixed >> 13)) >> 8).float() * (1 / (1 << 24))
        return torch.where(board & (drawn < chance), -held, held).to(_I8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, chances, out):
            n = x.shape[0]
            for y in nb.prange(n):
                above, below = x[(y + n - 1) % n], x[(y + 1) % n]
                for j in range(n):
                    left, right = j - 1 if j > 0 else n - 1, j + 1 if j < n - 1 else 0
                    held = np.int32(x[y, j])
                    around = np.int32(above[j]) + np.int32(below[j]) + x[y, left] + x[y, right]
                    chance = chances[(held * around >> 1) + 2]
                    mixed = np.uint32(np.uint32(y * n + j + seed) * np.uint32(0x9E3779B1))
                    mixed = np.uint32((mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x85EBCA77))
                    drawn = np.float32((mixed ^ (mixed >> np.uint32(13))) >> np.uint32(8))
                    turn = ((y + j) & 1) == 1 and drawn * np.float32(1 / (1 << 24)) < chance
                    out[y, j] = -held if turn else held

        made = np.empty((size, size), np.int8)
        return lambda: run(array(x), array(chances), made)

    return beside_torch(
        f"spins of a torus of {size} x {size} i8 turned by chance",
        spins,
        (size // 256, size),
        (x, chances, torch.empty_like(x), seed, 1, size, 256),
        theirs,
        x,
        chances,
        bound=1e-9,
        more=by_numba(make),
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _reacted(1024),
        lambda: _outlined(1080, 1921),
        lambda: _down_columns(1080, 1920, 15, _F16),
        lambda: _down_columns(1080, 1920, 15, _F32),
        lambda: _filtered(720, 1280),
        lambda: _boxes(1080, 1920, 7),
        lambda: _layered(8, 1 << 18, _F16),
        lambda: _upwind(1000, _F64),
        lambda: _folded(64, 56, 56, _F32),
        lambda: _folded(64, 56, 56, _BF16),
        lambda: _windowed(128, 8, 96, _F32),
        lambda: _windowed(128, 8, 96, _BF16),
        lambda: _patches(8, 224, 16, _BF16),
        lambda: _patches(8, 224, 16, _F32),
        lambda: _backwards(32, 256, 128, _F16),
        lambda: _cosines(1080, 1920),
        lambda: _from_mosaic(1080, 1920),
        lambda: _hues(1 << 20),
        lambda: _spins(1024),
    ]
