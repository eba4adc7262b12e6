"""Orders, windows, powers, joined tiles, small products, short code, as a newcomer writes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import cuda.tile as ct
import numpy as np
import torch
from torch.nn import functional

from benchmarks.unseen_rows import (
    Job,
    Row,
    array,
    beside_torch,
    by_numba,
    integers,
    next_power,
    normal,
    numba,
    uniform,
)

_F32, _F64, _F16, _BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
_I16, _I32, _I64, _U8 = torch.int16, torch.int32, torch.int64, torch.uint8

_FAST = {"parallel": True, "fastmath": True}
prange = getattr(numba(), "prange", range)


def _numba(run: Callable[..., object], *given: torch.Tensor, **options: bool) -> dict[str, Job]:
    """A peer of numba, where it is installed: a function of arrays, with copies of its own."""
    arrays, options = [array(each.clone()) for each in given], _FAST | options
    return by_numba(lambda nb: partial(nb.njit(**options)(run), *arrays))


@ct.kernel
def mapped(points, strengths, bits, high, sums, side: ct.Constant[int], tile: ct.Constant[int]):
    """A map from above: which of 32 levels are hit, the highest point, the sum of strengths."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    x = ct.gather(points, (i, 0), padding_value=-1).astype(ct.int32)
    y = ct.gather(points, (i, 1), padding_value=-1).astype(ct.int32)
    z = ct.gather(points, (i, 2), padding_value=-1).astype(ct.int32)
    column, row = x >> 7, y >> 7
    inside = (x >= 0) & (column < side) & (y >= 0) & (row < side) & (z >= 0) & (z < 4096)
    cell = ct.where(inside, row * side + column, -1)
    ct.atomic_or(bits, cell, ct.ones((tile,), ct.int32) << (z >> 7))
    ct.atomic_max(high, cell, z)
    ct.atomic_add(sums, cell, ct.gather(strengths, i))


def _mapped(many: int, side: int) -> Row:
    middle, spread = torch.tensor([side * 64, side * 64, 2048]), torch.tensor([3000, 3000, 500])
    points, strengths = (normal(many, 3) * spread + middle).to(_I16), uniform(many)
    cells = side * side
    bits, high, sums = (torch.empty(cells, dtype=dtype) for dtype in (_I32, _I32, _F32))

    def theirs(points, strengths):
        x, y, z = points.int().unbind(1)
        inside = (x >= 0) & (x < side * 128) & (y >= 0) & (y < side * 128) & (z >= 0) & (z < 4096)
        x, y, z, strengths = x[inside], y[inside], z[inside], strengths[inside]
        cell = ((y >> 7) * side + (x >> 7)).long()
        hit = torch.zeros(cells, 32, dtype=_I32).index_put_((cell, z >> 7), torch.tensor(1).int())
        high = torch.full((cells,), -1, dtype=_I32).scatter_reduce_(0, cell, z, "amax")
        sums = torch.zeros(cells, dtype=strengths.dtype).index_add_(0, cell, strengths)
        return (hit << torch.arange(32, dtype=_I32)).sum(1, dtype=_I32), high, sums

    def run(points, strengths, bits, high, sums):
        bits[:], high[:], sums[:] = 0, -1, 0
        for n in range(many):
            x, y, z = np.int32(points[n, 0]), np.int32(points[n, 1]), np.int32(points[n, 2])
            if 0 <= x < side * 128 and 0 <= y < side * 128 and 0 <= z < 4096:
                cell = (y >> 7) * side + (x >> 7)
                bits[cell] |= np.int32(1) << (z >> 7)
                high[cell] = max(high[cell], z)
                sums[cell] += strengths[n]

    more = _numba(run, points, strengths, bits, high, sums, parallel=False, fastmath=False)
    name = f"a map of {side} x {side} cells of {many} int16 points: levels, tops, float32 added"
    grid, arguments = (-(-many // 256),), (points, strengths, bits, high, sums, side, 256)
    extra = {"clear": lambda: (bits.zero_(), high.fill_(-1), sums.zero_()), "compiles": False}
    extra |= {"outputs": 3, "bound": 1e-6, "more": more}
    return beside_torch(name, mapped, grid, arguments, theirs, points, strengths, **extra)


@ct.kernel
def inserted(keys, table, count, size: ct.Constant[int], tile: ct.Constant[int]):
    """How many keys are new to a table of hashes, tried place after place by compare-exchange."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    key = ct.gather(keys, i, padding_value=-1)
    mixed = (key ^ (key >> 29)) * 0x9E3779B1
    place = ((mixed >> 16) & (size - 1)).astype(ct.int32)
    waiting = key >= 0
    new = ct.zeros((tile,), ct.int32)
    while ct.max(waiting.astype(ct.int32)) > 0:
        old = ct.atomic_cas(table, ct.where(waiting, place, -1), -1, key)
        new += (waiting & (old == -1)).astype(ct.int32)
        waiting = waiting & (old != -1) & (old != key)
        place = (place + 1) & (size - 1)
    ct.atomic_add(count, 0, ct.sum(new))


def _inserted(many: int, different: int, size: int) -> Row:
    keys = integers(different, many, dtype=_I64) * 1_000_003
    table, count = torch.full((size,), -1, dtype=_I64), torch.empty(1, dtype=_I32)

    def theirs(keys):
        return torch.tensor([torch.unique(keys, sorted=False).numel()], dtype=_I32)

    def run(keys, table):
        new = 0
        for n in range(keys.size):
            key = keys[n]
            at = (((key ^ (key >> 29)) * 0x9E3779B1) >> 16) & (size - 1)
            while table[at] != key and table[at] != -1:
                at = (at + 1) & (size - 1)
            if table[at] == -1:
                table[at] = key
                new += 1
        return new

    more = _numba(run, keys, table, parallel=False, fastmath=False)
    name = f"how many of {many} int64 are new to a table of {size} by compare-exchange"
    grid, arguments = (-(-many // 512),), (keys, table, count, size, 512)
    extra = {"clear": lambda: (table.fill_(-1), count.zero_()), "more": more, "compiles": False}
    return beside_torch(name, inserted, grid, arguments, theirs, keys, **extra)


def _colder_and_warmer(low, at, high, there, low2, at2, high2, there2):
    """The lesser and the greater of two, and the earlier of equals."""
    left = (low < low2) | ((low == low2) & (at < at2))
    right = (high > high2) | ((high == high2) & (there < there2))
    low, at = ct.where(left, low, low2), ct.where(left, at, at2)
    return low, at, ct.where(right, high, high2), ct.where(right, there, there2)


@ct.kernel
def extremes(x, lows, ats, highs, theres, rows: ct.Constant[int], tile: ct.Constant[int]):
    """The least and the greatest of each column and their first rows, some rows at a time."""
    j = ct.bid(0)
    low, high = ct.full((tile,), 32767, ct.int16), ct.full((tile,), -32768, ct.int16)
    at, there = ct.zeros((tile,), ct.int32), ct.zeros((tile,), ct.int32)
    for t in range(ct.cdiv(x.shape[0], rows)):
        day = (t * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
        held = ct.load(x, (t, j), (rows, tile), padding_mode=ct.PaddingMode.ZERO)
        cold = ct.where(day < x.shape[0], held, ct.full((rows, tile), 32767, ct.int16))
        warm = ct.where(day < x.shape[0], held, ct.full((rows, tile), -32768, ct.int16))
        none = (32767, 1 << 30, -32768, 1 << 30)
        found = ct.reduce((cold, day, warm, day), 0, _colder_and_warmer, none)
        colder, warmer = found[0] < low, found[2] > high
        low, at = ct.where(colder, found[0], low), ct.where(colder, found[1], at)
        high, there = ct.where(warmer, found[2], high), ct.where(warmer, found[3], there)
    ct.store(lows, (j,), low)
    ct.store(ats, (j,), at)
    ct.store(highs, (j,), high)
    ct.store(theres, (j,), there)


def _extremes(days: int, places: int) -> Row:
    x = (normal(days, places) * 120).to(_I16)
    out = [torch.empty(places, dtype=dtype) for dtype in (_I16, _I32, _I16, _I32)]

    def theirs(x):
        (low, at), (high, there) = x.min(0), x.max(0)
        return low, at.int(), high, there.int()

    def run(x, lows, ats, highs, theres):
        for b in prange(-(-places // 256)):
            first, last = b * 256, min(b * 256 + 256, places)
            low, high = lows[first:last], highs[first:last]
            at, there = ats[first:last], theres[first:last]
            low[:], high[:], at[:], there[:] = x[0, first:last], x[0, first:last], 0, 0
            for t in range(1, days):
                held, now = x[t, first:last], np.int32(t)
                for j in range(last - first):
                    at[j] = now if held[j] < low[j] else at[j]
                    there[j] = now if held[j] > high[j] else there[j]
                    low[j] = min(held[j], low[j])
                    high[j] = max(held[j], high[j])

    more = _numba(run, x, *out, fastmath=False)
    name = f"coldest and warmest of {days} days and when, {places} places int16, tiles 32x64"
    grid, arguments = (-(-places // 64),), (x, *out, 32, 64)
    return beside_torch(name, extremes, grid, arguments, theirs, x, outputs=4, more=more)


def _merged(n, a, b, aa, ab, bb, n2, a2, b2, aa2, ab2, bb2):
    """Counts, means and products of deviations of two samples together."""
    both = n + n2
    share = ct.where(both > 0, n2 / ct.maximum(both, 1.0), 0.0)
    da, db, weight = a2 - a, b2 - b, n * share
    aa, ab = aa + aa2 + da * da * weight, ab + ab2 + da * db * weight
    return both, a + da * share, b + db * share, aa, ab, bb + bb2 + db * db * weight


@ct.kernel
def fitted(x, y, slopes, starts, likeness, rows: ct.Constant[int], tile: ct.Constant[int]):
    """The line through the pairs of each row, and how much of the variance it tells."""
    row = (ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    column = ct.arange(tile, dtype=ct.int32).reshape((1, tile))
    a, b = ct.gather(x, (row, column)), ct.gather(y, (row, column))
    n = (column < x.shape[1]).astype(x.dtype)
    none = ct.zeros((rows, tile), x.dtype)
    pairs, zeros = (n, a, b, none, none, none), (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    _, a, b, aa, ab, bb = ct.reduce(pairs, 1, _merged, zeros, keepdims=True)
    slope = ab / aa
    ct.scatter(slopes, row, slope)
    ct.scatter(starts, row, b - slope * a)
    ct.scatter(likeness, row, slope * ab / bb)


def _fitted(rows: int, width: int) -> Row:
    x = normal(rows, width, dtype=_F64) + 3
    y = 0.5 * x + uniform(rows, width, dtype=_F64)
    out = [torch.empty(rows, dtype=_F64) for _ in range(3)]

    def theirs(x, y):
        a, b = x.mean(1, keepdim=True), y.mean(1, keepdim=True)
        x, y = x - a, y - b
        aa, ab, bb = (x * x).sum(1), (x * y).sum(1), (y * y).sum(1)
        slope = ab / aa
        return slope, b[:, 0] - slope * a[:, 0], slope * ab / bb

    def run(x, y, slopes, starts, likeness):
        for i in prange(rows):
            a = b = aa = ab = bb = 0.0
            for j in range(width):
                a, b = a + x[i, j], b + y[i, j]
            a, b = a / width, b / width
            for j in range(width):
                da, db = x[i, j] - a, y[i, j] - b
                aa, ab, bb = aa + da * da, ab + da * db, bb + db * db
            slopes[i], likeness[i] = ab / aa, ab * ab / (aa * bb)
            starts[i] = b - ab / aa * a

    more = _numba(run, x, y, *out)
    name = f"lines through {rows} rows of {width} pairs float64 by merging moments"
    grid, arguments = (-(-rows // 4),), (x, y, *out, 4, next_power(width))
    extra = {"outputs": 3, "bound": 1e-12, "more": more}
    return beside_torch(name, fitted, grid, arguments, theirs, x, y, **extra)


def _brighter(x, row, column, middle, bit):
    """A bit where a neighbour, at the edge the last one, is not darker."""
    row = ct.minimum(ct.maximum(row, 0), x.shape[0] - 1)
    column = ct.minimum(ct.maximum(column, 0), x.shape[1] - 1)
    return (ct.gather(x, (row, column)) >= middle).astype(ct.int32) << bit


@ct.kernel
def patterned(x, out, high: ct.Constant[int], wide: ct.Constant[int]):
    """Local binary patterns: a bit for each of eight neighbours."""
    i = (ct.bid(0) * high + ct.arange(high, dtype=ct.int32)).reshape((high, 1))
    j = (ct.bid(1) * wide + ct.arange(wide, dtype=ct.int32)).reshape((1, wide))
    middle = ct.gather(x, (i, j))
    code = _brighter(x, i - 1, j - 1, middle, 0) | _brighter(x, i - 1, j, middle, 1)
    code |= _brighter(x, i - 1, j + 1, middle, 2) | _brighter(x, i, j + 1, middle, 3)
    code |= _brighter(x, i + 1, j + 1, middle, 4) | _brighter(x, i + 1, j, middle, 5)
    code |= _brighter(x, i + 1, j - 1, middle, 6) | _brighter(x, i, j - 1, middle, 7)
    ct.scatter(out, (i, j), code.astype(ct.uint8))


def _patterned(high: int, wide: int) -> Row:
    x = integers(256, high, wide, dtype=_U8)
    around = ((0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0))

    def theirs(x):
        large = torch.cat((x[:1], x, x[-1:]))
        large = torch.cat((large[:, :1], large, large[:, -1:]), 1)
        code = torch.zeros_like(x)
        for bit, (i, j) in enumerate(around):
            code |= (large[i : i + high, j : j + wide] >= x).to(_U8) << bit
        return code

    def make(nb):
        u8 = np.uint8

        @nb.njit
        def code(a, h, b, left, j, right):
            m = h[j]
            found = u8(a[left] >= m) | u8(a[j] >= m) * u8(2) | u8(a[right] >= m) * u8(4)
            found |= u8(h[right] >= m) * u8(8) | u8(b[right] >= m) * u8(16)
            found |= u8(b[j] >= m) * u8(32) | u8(b[left] >= m) * u8(64)
            return u8(found | u8(h[left] >= m) * u8(128))

        @nb.njit(parallel=True)
        def run(x, out):
            for i in nb.prange(high):
                a, h, b = x[max(i - 1, 0)], x[i], x[min(i + 1, high - 1)]
                out[i, 0] = code(a, h, b, 0, 0, 1)
                for j in range(1, wide - 1):
                    out[i, j] = code(a, h, b, j - 1, j, j + 1)
                out[i, wide - 1] = code(a, h, b, wide - 2, wide - 1, wide - 1)

        made = np.empty((high, wide), np.uint8)
        return lambda: run(array(x), made)

    name = f"patterns of eight neighbours of {high} x {wide} uint8, tiles 8x128"
    grid, arguments = (-(-high // 8), -(-wide // 128)), (x, torch.empty_like(x), 8, 128)
    return beside_torch(name, patterned, grid, arguments, theirs, x, more=by_numba(make))


def _slope(v, c, i, j, k, axis: ct.Constant[int]):
    """A derivative along an axis: of both neighbours, at the edges of one."""
    at = (i, j, k)[axis]
    low, high = ct.maximum(at - 1, 0), ct.minimum(at + 1, v.shape[axis + 1] - 1)
    if axis == 0:
        change = ct.gather(v, (c, high, j, k)) - ct.gather(v, (c, low, j, k))
    elif axis == 1:
        change = ct.gather(v, (c, i, high, k)) - ct.gather(v, (c, i, low, k))
    else:
        change = ct.gather(v, (c, i, j, high)) - ct.gather(v, (c, i, j, low))
    return change / (high - low).astype(v.dtype)


@ct.kernel
def curled(v, out, high: ct.Constant[int], wide: ct.Constant[int]):
    """The curl of a field: [component, x, y, z]."""
    i = ct.bid(0)
    j = (ct.bid(1) * high + ct.arange(high, dtype=ct.int32)).reshape((high, 1))
    k = (ct.bid(2) * wide + ct.arange(wide, dtype=ct.int32)).reshape((1, wide))
    ct.scatter(out, (0, i, j, k), _slope(v, 2, i, j, k, 1) - _slope(v, 1, i, j, k, 2))
    ct.scatter(out, (1, i, j, k), _slope(v, 0, i, j, k, 2) - _slope(v, 2, i, j, k, 0))
    ct.scatter(out, (2, i, j, k), _slope(v, 1, i, j, k, 0) - _slope(v, 0, i, j, k, 1))


def _curled(long: int, high: int, wide: int) -> Row:
    v = normal(3, long, high, wide)

    def theirs(v):
        def slope(c, axis):
            return torch.gradient(v[c], dim=axis)[0]

        x, y, z = slope(2, 1) - slope(1, 2), slope(0, 2) - slope(2, 0), slope(1, 0) - slope(0, 1)
        return torch.stack((x, y, z))

    def run(v, out):
        one, half = np.float32(1), np.float32(0.5)
        for i in prange(long):
            i0, i2 = max(i - 1, 0), min(i + 1, long - 1)
            a = half if i2 - i0 == 2 else one
            for j in range(high):
                j0, j2 = max(j - 1, 0), min(j + 1, high - 1)
                b = half if j2 - j0 == 2 else one
                for k in range(wide):
                    k0, k2 = max(k - 1, 0), min(k + 1, wide - 1)
                    c = half if k2 - k0 == 2 else one
                    zy, yz = v[2, i, j2, k] - v[2, i, j0, k], v[1, i, j, k2] - v[1, i, j, k0]
                    xz, zx = v[0, i, j, k2] - v[0, i, j, k0], v[2, i2, j, k] - v[2, i0, j, k]
                    yx, xy = v[1, i2, j, k] - v[1, i0, j, k], v[0, i, j2, k] - v[0, i, j0, k]
                    out[0, i, j, k] = zy * b - yz * c
                    out[1, i, j, k] = xz * c - zx * a
                    out[2, i, j, k] = yx * a - xy * b

    more = _numba(run, v, v)
    name = f"the curl of 3 x {long} x {high} x {wide} float32, tiles 8x64"
    grid, arguments = (long, -(-high // 8), -(-wide // 64)), (v, torch.empty_like(v), 8, 64)
    return beside_torch(name, curled, grid, arguments, theirs, v, bound=1e-6, more=more)


def _linear(code):
    """What a screen shows for a value of sRGB."""
    return ct.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055) ** 2.4)


def _bent(t):
    """The function of lightness: a cube root, straight near zero."""
    return ct.where(t > 0.008856, ct.maximum(t, 0.008) ** (1 / 3), 7.787 * t + 16 / 116)


@ct.kernel
def lightness(pixels, out, tile: ct.Constant[int]):
    """Colours of sRGB to CIE's lightness and two opponents: [pixel, channel]."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    r = _linear(ct.gather(pixels, (i, 0)))
    g = _linear(ct.gather(pixels, (i, 1)))
    b = _linear(ct.gather(pixels, (i, 2)))
    x = _bent((0.412453 * r + 0.357580 * g + 0.180423 * b) / 0.950456)
    y = _bent(0.212671 * r + 0.715160 * g + 0.072169 * b)
    z = _bent((0.019334 * r + 0.119193 * g + 0.950227 * b) / 1.088754)
    ct.scatter(out, (i, 0), 116.0 * y - 16.0)
    ct.scatter(out, (i, 1), 500.0 * (x - y))
    ct.scatter(out, (i, 2), 200.0 * (y - z))


def _lightness(many: int) -> Row:
    pixels = uniform(many, 3)
    red, green = (0.412453, 0.212671, 0.019334), (0.357580, 0.715160, 0.119193)
    blue = (0.180423, 0.072169, 0.950227)
    to_xyz = torch.tensor((red, green, blue), dtype=_F64) / torch.tensor((0.950456, 1.0, 1.088754))

    def theirs(pixels):
        flat = torch.where(pixels <= 0.04045, pixels / 12.92, ((pixels + 0.055) / 1.055) ** 2.4)
        t = flat @ to_xyz.to(flat.dtype)
        x, y, z = torch.where(t > 0.008856, t ** (1 / 3), 7.787 * t + 16 / 116).unbind(1)
        return torch.stack((116 * y - 16, 500 * (x - y), 200 * (y - z)), 1)

    name = f"lightness and opponent colours of {many} pixels of three float32"
    grid, arguments = (-(-many // 256),), (pixels, torch.empty_like(pixels), 256)
    return beside_torch(name, lightness, grid, arguments, theirs, pixels, bound=1e-5)


@ct.kernel
def grouped_bits(w, packed, scales, zeros, group: ct.Constant[int], tile: ct.Constant[int]):
    """Weights to four bits by a scale and a zero of each group of rows, eight rows in a word."""
    g, j = ct.bid(0), ct.bid(1)
    held = ct.load(w, (g, j), (group, tile), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    low = ct.minimum(ct.min(held, 0, keepdims=True), 0.0)
    high = ct.maximum(ct.max(held, 0, keepdims=True), 0.0)
    scale = ct.maximum((high - low) / 15.0, 1e-5).astype(ct.float16)
    wide = scale.astype(ct.float32)
    zero = ct.minimum(ct.floor(0.5 - low / wide), 15.0)
    code = ct.minimum(ct.maximum(ct.floor(held / wide + 0.5) + zero, 0.0), 15.0).astype(ct.int32)
    shift = 4 * ct.arange(8, dtype=ct.int32).reshape((1, 8, 1))
    ct.store(packed, (g, j), ct.sum(code.reshape((group // 8, 8, tile)) << shift, 1))
    ct.store(scales, (g, j), scale)
    ct.store(zeros, (g, j), zero.astype(ct.uint8))


def _grouped_bits(deep: int, wide: int, group: int) -> Row:
    w, groups = normal(deep, wide, dtype=_F16), deep // group
    shapes = (deep // 8, _I32), (groups, _F16), (groups, _U8)
    out = [torch.empty(each, wide, dtype=dtype) for each, dtype in shapes]

    def theirs(w):
        held = w.float().view(groups, group, wide)
        low, high = held.amin(1).clamp(max=0), held.amax(1).clamp(min=0)
        scale = ((high - low) / 15).clamp(min=1e-5).half()
        zero = (0.5 - low / scale.float()).floor().clamp(max=15)
        code = (held / scale.float()[:, None] + 0.5).floor() + zero[:, None]
        code = code.clamp(0, 15).int().view(deep // 8, 8, wide)
        word = (code << torch.arange(0, 32, 4, dtype=_I32)[:, None]).sum(1, dtype=_I32)
        return word, scale, zero.to(_U8)

    name = f"{deep} x {wide} float16 to four bits with zeros by groups of {group} rows, eight rows a word"
    grid, arguments = (groups, -(-wide // 64)), (w, *out, group, 64)
    return beside_torch(name, grouped_bits, grid, arguments, theirs, w, outputs=3)


@ct.kernel
def subsets(x, out, bits: ct.Constant[int], rows: ct.Constant[int]):
    """Sums over all subsets of each set of things: butterflies, each half cut out and joined."""
    held = ct.load(x, (ct.bid(0), 0), (rows, 1 << bits), padding_mode=ct.PaddingMode.ZERO)
    for s in ct.static_iter(range(bits)):
        pairs = held.reshape((rows, 1 << (bits - 1 - s), 2, 1 << s))
        without = ct.extract(pairs, (0, 0, 0, 0), (rows, 1 << (bits - 1 - s), 1, 1 << s))
        within = ct.extract(pairs, (0, 0, 1, 0), (rows, 1 << (bits - 1 - s), 1, 1 << s))
        held = ct.cat((without, without + within), 2).reshape((rows, 1 << bits))
    ct.store(out, (ct.bid(0), 0), held)


def _subsets(rows: int, bits: int) -> Row:
    x = integers(1000, rows, 1 << bits, dtype=_I64)

    def theirs(x):
        held = x.clone()
        for s in range(bits):
            pairs = held.view(rows, -1, 2, 1 << s)
            pairs[:, :, 1] += pairs[:, :, 0]
        return held

    def run(x, out):
        for i in prange(rows):
            held = out[i]
            held[:] = x[i]
            for s in range(bits):
                step = np.uint64(1 << s)
                for first in range(np.uint64(0), np.uint64(1 << bits), step + step):
                    for k in range(first, first + step):
                        held[k + step] += held[k]

    more = _numba(run, x, x, fastmath=False)
    name = f"sums over all subsets of {bits} things, {rows} rows int64, halves cut and joined"
    grid, arguments = (-(-rows // 4),), (x, torch.empty_like(x), bits, 4)
    return beside_torch(name, subsets, grid, arguments, theirs, x, more=more)


@ct.kernel
def woven(y, u, v, out, high: ct.Constant[int], wide: ct.Constant[int]):
    """Three planes, two of half the width, in turn in one: y u y v."""
    i, j = ct.bid(0), ct.bid(1)
    left = ct.load(u, (i, j), (high, wide)).reshape((high, wide, 1))
    right = ct.load(v, (i, j), (high, wide)).reshape((high, wide, 1))
    bright = ct.load(y, (i, j), (high, 2 * wide)).reshape((high, wide, 2, 1))
    colour = ct.cat((left, right), 2).reshape((high, wide, 2, 1))
    ct.store(out, (i, j), ct.cat((bright, colour), 3).reshape((high, 4 * wide)))


def _woven(high: int, wide: int) -> Row:
    y, colours = integers(256, high, 2 * wide, dtype=_U8), integers(255, 2, high, wide, dtype=_U8)
    u, v = (each.clone() for each in colours)

    def theirs(y, u, v):
        return torch.stack((y, torch.stack((u, v), 2).view(high, 2 * wide)), 2).flatten(1)

    def run(y, u, v, out):
        for i in prange(high):
            a, b, c, made = y[i], u[i], v[i], out[i]
            for j in range(wide):
                made[4 * j], made[4 * j + 1] = a[2 * j], b[j]
                made[4 * j + 2], made[4 * j + 3] = a[2 * j + 1], c[j]

    name = f"three planes of {high} x {2 * wide} uint8, two of half the width, woven into one"
    out, given = torch.empty(high, 4 * wide, dtype=_U8), (y, u, v)
    grid, arguments = (-(-high // 8), -(-wide // 128)), (*given, out, 8, 128)
    more = _numba(run, *given, out, fastmath=False)
    return beside_torch(name, woven, grid, arguments, theirs, *given, more=more)


@ct.kernel
def propagated(f, p, q, out, many: ct.Constant[int], size: ct.Constant[int]):
    """Covariances one step later, f p f.T + q, many small ones at a time."""
    b, zero = ct.bid(0), ct.PaddingMode.ZERO
    step = ct.load(f, (b, 0, 0), (many, size, size), padding_mode=zero)
    back = ct.load(f, (b, 0, 0), (many, size, size), order=(0, 2, 1), padding_mode=zero)
    held = ct.load(p, (b, 0, 0), (many, size, size), padding_mode=zero)
    noise = ct.load(q, (0, 0), (size, size), padding_mode=zero)
    ct.store(out, (b, 0, 0), ct.matmul(ct.matmul(step, held), back) + noise)


def _propagated(many: int, size: int) -> Row:
    f, p, q = (normal(*dims, dtype=_F64) for dims in ((many, size, size),) * 2 + ((size, size),))

    def theirs(f, p, q):
        return f @ p @ f.mT + q

    def run(f, p, q, out):
        for c in prange(-(-many // 64)):
            back, held = np.empty((size, size)), np.empty((size, size))
            for b in range(c * 64, min(c * 64 + 64, many)):
                for i in range(size):
                    for j in range(size):
                        back[j, i], held[i, j], out[b, i, j] = f[b, i, j], 0, q[i, j]
                for i in range(size):
                    for k in range(size):
                        for j in range(size):
                            held[i, j] += f[b, i, k] * p[b, k, j]
                for i in range(size):
                    for k in range(size):
                        for j in range(size):
                            out[b, i, j] += held[i, k] * back[k, j]

    more = _numba(run, f, p, q, p)
    name = f"{many} covariances of {size} x {size} float64 a step later, f p f.T + q"
    grid, arguments = (-(-many // 4),), (f, p, q, torch.empty_like(p), 4, next_power(size))
    return beside_torch(name, propagated, grid, arguments, theirs, f, p, q, bound=1e-13, more=more)


@ct.kernel
def curvature(x, y, weights, square, slope, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Slope and curvature of a logistic loss: x.T w x and x.T (p - y), added by blocks."""
    column = ct.arange(tile, dtype=ct.int32)
    held = ct.load(x, (ct.bid(0), 0), (rows, tile), padding_mode=ct.PaddingMode.ZERO)
    hit = ct.load(y, (ct.bid(0),), (rows,), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    score = ct.sum(held * ct.gather(weights, column)[None, :], 1)
    p = 1.0 / (1.0 + ct.exp(-score))
    weighted = held * (p * (1.0 - p)).reshape((rows, 1))
    found = ct.mma(ct.transpose(held), weighted, ct.zeros((tile, tile), ct.float32))
    ct.atomic_add(square, (column[:, None], column[None, :]), found)
    ct.atomic_add(slope, column, ct.sum(held * (p - hit).reshape((rows, 1)), 0))


def _curvature(many: int, wide: int) -> Row:
    x, y, weights = normal(many, wide), integers(2, many, dtype=_U8), normal(wide) * 0.3
    square, slope = torch.empty(wide, wide), torch.empty(wide)

    def theirs(x, y, weights):
        p = torch.sigmoid(x @ weights)
        return x.T @ (x * (p * (1 - p))[:, None]), (p - y) @ x

    name = f"slope and curvature of a logistic loss, {many} x {wide} float32, added by blocks"
    grid, arguments = (-(-many // 128),), (x, y, weights, square, slope, 128, next_power(wide))
    extra = {"outputs": 2, "bound": 1e-5, "clear": lambda: (square.zero_(), slope.zero_())}
    return beside_torch(name, curvature, grid, arguments, theirs, x, y, weights, **extra)


@ct.kernel
def flock(at, speed, out, far, close, rows: ct.Constant[int], tile: ct.Constant[int]):
    """New speeds of birds: towards those near, as fast as they, away from those too close."""
    i = ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)
    x, y = ct.gather(at, (i, 0)).reshape((rows, 1)), ct.gather(at, (i, 1)).reshape((rows, 1))
    count = ct.zeros((rows,), ct.float32)
    ax, ay, bx, by, cx, cy = count, count, count, count, count, count
    for t in range(ct.cdiv(at.shape[0], tile)):
        j = t * tile + ct.arange(tile, dtype=ct.int32)
        dx = ct.gather(at, (j, 0), padding_value=1e9)[None, :] - x
        dy = ct.gather(at, (j, 1), padding_value=1e9)[None, :] - y
        d = dx * dx + dy * dy
        near = (d < far * far) & (d > 0.0)
        count += ct.sum(near.astype(ct.float32), 1)
        ax += ct.sum(ct.where(near, dx, 0.0), 1)
        ay += ct.sum(ct.where(near, dy, 0.0), 1)
        bx += ct.sum(ct.where(near, ct.gather(speed, (j, 0))[None, :], 0.0), 1)
        by += ct.sum(ct.where(near, ct.gather(speed, (j, 1))[None, :], 0.0), 1)
        cx += ct.sum(ct.where(near & (d < close * close), dx, 0.0), 1)
        cy += ct.sum(ct.where(near & (d < close * close), dy, 0.0), 1)
    over = 1.0 / ct.maximum(count, 1.0)
    some = ct.where(count > 0.0, 0.1, 0.0)
    u, v = ct.gather(speed, (i, 0)), ct.gather(speed, (i, 1))
    u = u + 0.01 * ax * over + some * (bx * over - u) - 0.05 * cx
    v = v + 0.01 * ay * over + some * (by * over - v) - 0.05 * cy
    slower = ct.minimum(1.0, 2.0 * ct.rsqrt(u * u + v * v + 1e-12))
    ct.scatter(out, (i, 0), u * slower)
    ct.scatter(out, (i, 1), v * slower)


def _flock(birds: int) -> Row:
    at, speed = integers(48 * 256, birds, 2).float() / 256, normal(birds, 2)
    far, close = 4.0, 1.0

    def theirs(at, speed):
        d = (at[:, None] - at).square().sum(2)
        near = ((d < far * far) & (d > 0)).to(at.dtype)
        tight = near * (d < close * close)
        count = near.sum(1, keepdim=True)
        over = 1 / count.clamp(min=1)
        found = speed + 0.01 * (near @ at - count * at) * over
        found = found + 0.1 * (count > 0) * (near @ speed * over - speed)
        found = found - 0.05 * (tight @ at - tight.sum(1, keepdim=True) * at)
        return found * (2 * (found.square().sum(1, keepdim=True) + 1e-12).rsqrt()).clamp(max=1)

    f = np.float32

    def run(xs, ys, us, vs, out):
        for i in prange(birds):
            x, y, u, v = xs[i], ys[i], us[i], vs[i]
            count = ax = ay = bx = by = cx = cy = f(0)
            for j in range(birds):
                dx, dy = xs[j] - x, ys[j] - y
                d = dx * dx + dy * dy
                near = f(1) if (d < f(far * far)) & (d > f(0)) else f(0)
                tight = near if d < f(close * close) else f(0)
                count, ax, ay = count + near, ax + near * dx, ay + near * dy
                bx, by = bx + near * us[j], by + near * vs[j]
                cx, cy = cx + tight * dx, cy + tight * dy
            over, some = f(1) / max(count, f(1)), f(0.1) if count > 0 else f(0)
            u += f(0.01) * ax * over + some * (bx * over - u) - f(0.05) * cx
            v += f(0.01) * ay * over + some * (by * over - v) - f(0.05) * cy
            slower = min(f(1), f(2) / np.sqrt(u * u + v * v + f(1e-12)))
            out[i, 0], out[i, 1] = u * slower, v * slower

    more = _numba(run, *at.T, *speed.T, at)
    name = f"new speeds of {birds} birds in a flock, all pairs, float32, tiles 32x64"
    grid, arguments = (-(-birds // 32),), (at, speed, torch.empty_like(at), far, close, 32, 64)
    return beside_torch(name, flock, grid, arguments, theirs, at, speed, bound=1e-5, more=more)


@ct.kernel
def matched(
    offsets, words, times, weights, scores, hits, queries: ct.Constant[int], tile: ct.Constant[int]
):
    """How well each text answers each query (BM25), and how many of its words do."""
    text = ct.bid(0)
    start, end = ct.gather(offsets, text), ct.gather(offsets, text + 1)
    at = start + ct.arange(tile, dtype=ct.int32)
    often = ct.gather(times, at, mask=at < end).astype(ct.float32)
    long = ct.sum(often)
    share = often * 2.2 / (often + 1.2 * (0.25 + 0.75 * long / 150.0))
    query = ct.arange(queries, dtype=ct.int32)
    word = ct.gather(words, at, mask=at < end, padding_value=-1)
    weight = ct.gather(weights, (query[:, None], word[None, :].astype(ct.int32)))
    ct.scatter(scores, (text, query), ct.sum(weight * share[None, :], 1))
    ct.scatter(hits, (text, query), ct.sum((weight > 0.0).astype(ct.int32), 1))


def _matched(texts: int, longest: int, queries: int, vocabulary: int) -> Row:
    lengths = integers(longest, texts, dtype=_I64) + 1
    offsets = functional.pad(lengths.cumsum(0), (1, 0)).to(_I32)
    total = int(offsets[-1])
    words, times = integers(vocabulary, total, dtype=_I16), integers(5, total, dtype=_U8) + 1
    weights = (uniform(queries, vocabulary) * 8 - 7).clamp(min=0)
    owner = torch.repeat_interleave(torch.arange(texts), lengths)

    def theirs(words, times, weights):
        often = times.to(weights.dtype)
        long = torch.zeros(texts, dtype=often.dtype).index_add_(0, owner, often)
        share = often * 2.2 / (often + 1.2 * (0.25 + 0.75 * long / 150)[owner])
        weight = weights[:, words.int()]
        scores = torch.zeros(queries, texts, dtype=often.dtype).index_add_(1, owner, weight * share)
        hits = torch.zeros(queries, texts, dtype=_I32).index_add_(1, owner, (weight > 0).int())
        return scores.T, hits.T

    f = np.float32

    def run(offsets, words, times, weights, scores, hits):
        for i in prange(texts):
            long = f(0)
            for n in range(offsets[i], offsets[i + 1]):
                long += f(times[n])
            base = f(1.2) * (f(0.25) + f(0.75 / 150) * long)
            scores[i], hits[i] = 0, 0
            for n in range(offsets[i], offsets[i + 1]):
                often = f(times[n])
                share = often * f(2.2) / (often + base)
                for q in range(queries):
                    weight = weights[q, words[n]]
                    scores[i, q] += weight * share
                    hits[i, q] += weight > 0

    name = f"how {texts} texts of up to {longest} words int16 answer {queries} queries"
    out = torch.empty(texts, queries), torch.empty(texts, queries, dtype=_I32)
    given = words, times, weights
    grid, arguments = (texts,), (offsets, *given, *out, queries, next_power(longest))
    more = _numba(run, offsets, *given, *out)
    extra = {"outputs": 2, "bound": 1e-5, "more": more}
    return beside_torch(name, matched, grid, arguments, theirs, *given, **extra)


@ct.kernel
def windowed(q, k, v, bias, scales, out, places: ct.Constant[int], depth: ct.Constant[int]):
    """Attention inside of windows by cosines, with numbers for pairs of places: [window, head]."""
    w, h, zero = ct.bid(0), ct.bid(1), ct.PaddingMode.ZERO
    tq = ct.load(q, (w, h, 0, 0), (1, 1, places, depth), padding_mode=zero).reshape((places, depth))
    tk = ct.load(k, (w, h, 0, 0), (1, 1, places, depth), padding_mode=zero).reshape((places, depth))
    tv = ct.load(v, (w, h, 0, 0), (1, 1, places, depth), padding_mode=zero).reshape((places, depth))
    pairs = ct.load(bias, (h, 0, 0), (1, places, places), padding_mode=zero)
    wq, wk = tq.astype(ct.float32), tk.astype(ct.float32)
    left = ct.rsqrt(ct.sum(wq * wq, 1, keepdims=True) + 1e-12) * ct.gather(scales, h)
    right = ct.rsqrt(ct.sum(wk * wk, 1) + 1e-12)
    scores = ct.mma(tq, ct.transpose(tk), ct.zeros((places, places), ct.float32))
    scores = scores * left * right[None, :] + pairs.reshape((places, places)).astype(ct.float32)
    column = ct.arange(places, dtype=ct.int32)
    scores = ct.where(column[None, :] < q.shape[2], scores, -float("inf"))
    p = ct.exp(scores - ct.max(scores, 1, keepdims=True))
    found = ct.mma(p.astype(q.dtype), tv, ct.zeros((places, depth), ct.float32))
    found = (found / ct.sum(p, 1, keepdims=True)).astype(out.dtype)
    ct.store(out, (w, h, 0, 0), found.reshape((1, 1, places, depth)))


def _windowed(windows: int, heads: int, places: int, depth: int) -> Row:
    q, k, v = (each.clone() for each in normal(3, windows, heads, places, depth, dtype=_F16))
    bias, scales = normal(heads, places, places, dtype=_F16), uniform(heads) * 10 + 5

    def theirs(q, k, v, bias, scales):
        q = functional.normalize(q, dim=-1) * scales.to(q.dtype)[:, None, None]
        k = functional.normalize(k, dim=-1)
        return functional.scaled_dot_product_attention(q, k, v, bias[None], scale=1.0)

    name = f"attention by cosines inside of {windows} windows of {places}, {heads} heads of {depth} float16"
    given = q, k, v, bias, scales
    grid, arguments = (windows, heads), (*given, torch.empty_like(q), next_power(places), depth)
    return beside_torch(name, windowed, grid, arguments, theirs, *given, bound=2e-3)


@ct.kernel
def sent(x, places, out, scales, many: ct.Constant[int], groups: ct.Constant[int]):
    """A token's row to i8 by a scale of each 128 numbers, and to its places among the experts' rows."""
    t = ct.bid(0)
    held = ct.load(x, (t, 0), (1, groups * 128), padding_mode=ct.PaddingMode.ZERO)
    held = held.astype(ct.float32).reshape((groups, 128))
    scale = ct.maximum(ct.max(ct.abs(held), 1, keepdims=True) / 127.0, 1e-8)
    code = ct.floor(held / scale + 0.5).astype(ct.int8).reshape((groups * 128,))
    column, group = ct.arange(groups * 128, dtype=ct.int32), ct.arange(groups, dtype=ct.int32)
    for n in range(many):
        place = ct.gather(places, (t, n))
        ct.scatter(out, (place, column), code)
        ct.scatter(scales, (place, group), scale.reshape((groups,)))


def _sent(tokens: int, many: int, wide: int) -> Row:
    x, groups = normal(tokens, wide, dtype=_BF16), wide // 128
    places = torch.randperm(tokens * many, generator=torch.Generator().manual_seed(7))
    places = places.to(_I32).view(tokens, many)
    out = (torch.empty(tokens * many, wide, dtype=torch.int8), torch.empty(tokens * many, groups))

    def theirs(x, places):
        held = x.float().view(tokens, groups, 128)
        scale = (held.abs().amax(2) / 127).clamp(min=1e-8)
        code = (held / scale[:, :, None] + 0.5).floor().to(torch.int8).view(tokens, wide)
        out = torch.empty(tokens * many, wide, dtype=torch.int8)
        scales = torch.empty(tokens * many, groups)
        out[places], scales[places] = code[:, None], scale[:, None]
        return out, scales

    name = f"rows of {wide} bfloat16 of {tokens} tokens to i8 by 128s, to {many} experts each"
    grid, arguments = (tokens,), (x, places, *out, many, next_power(groups))
    return beside_torch(name, sent, grid, arguments, theirs, x, places, outputs=2)


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _mapped(100_001, 128),
        lambda: _inserted(60_001, 20_000, 65536),
        lambda: _extremes(731, 2001),
        lambda: _fitted(1001, 365),
        lambda: _patterned(600, 1001),
        lambda: _curled(30, 45, 100),
        lambda: _lightness(50_001),
        lambda: _grouped_bits(768, 1001, 64),
        lambda: _subsets(301, 10),
        lambda: _woven(1081, 961),
        lambda: _propagated(1001, 12),
        lambda: _curvature(20_001, 24),
        lambda: _flock(1001),
        lambda: _matched(2001, 120, 4, 5000),
        lambda: _windowed(48, 3, 49, 32),
        lambda: _sent(501, 4, 896),
    ]
