"""Images and tables of data, as a caller writes them."""

from __future__ import annotations

import math
from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch
from torch.nn import functional

from benchmarks.unseen_rows import Row, array, beside_torch, by_numba, integers, normal, uniform

_F32, _F64 = torch.float32, torch.float64
_I16, _I32, _I64, _U8, _U16 = torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16


@ct.kernel
def smoothed(
    x, weights, out, taps: ct.Constant[int], tall: ct.Constant[int], wide: ct.Constant[int]
):
    """Integer weights along rows, rounded; what is beyond an end is what is as far before it."""
    width, half = x.shape[1], taps // 2
    row = (ct.bid(0) * tall + ct.arange(tall, dtype=ct.int32)).reshape((tall, 1))
    column = (ct.bid(1) * wide + ct.arange(wide, dtype=ct.int32)).reshape((1, wide))
    total = ct.full((tall, wide), 128, ct.int32)
    for k in range(taps):
        at = ct.abs(column + (k - half))
        at = ct.where(at >= width, 2 * (width - 1) - at, at)
        total += ct.gather(x, (row, at)).astype(ct.int32) * ct.gather(weights, k)
    ct.scatter(out, (row, column), (total >> 8).astype(ct.uint16))


def _smoothed(height: int, width: int) -> Row:
    each = [math.comb(8, k) for k in range(9)]
    x, weights = integers(65536, height, width).to(_U16), torch.tensor(each, dtype=_I32)

    def theirs(x):
        wide = x.to(_I32)
        wide = torch.cat((wide[:, 1:5].flip(1), wide, wide[:, -5:-1].flip(1)), 1)
        total = sum(w * wide[:, k : k + width] for k, w in enumerate(each))
        return ((total + 128) >> 8).to(_U16)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, weights, out):
            for i in nb.prange(height):
                row = np.empty(width + 8, np.int32)
                for j in range(width):
                    row[j + 4] = x[i, j]
                for k in range(4):
                    row[k], row[width + 4 + k] = row[8 - k], row[width + 2 - k]
                for j in range(width):
                    total = np.int32(128)
                    for k in range(9):
                        total += row[j + k] * weights[k]
                    out[i, j] = total >> 8

        made = np.empty((height, width), np.uint16)
        return lambda: run(array(x), array(weights), made)

    return beside_torch(
        f"9 binomial weights along rows of {height} x {width} uint16, ends reflected",
        smoothed,
        (-(-height // 4), -(-width // 128)),
        (x, weights, torch.empty_like(x), 9, 4, 128),
        theirs,
        x,
        more=by_numba(make),
    )


@ct.kernel
def summed(x, out, tall: ct.Constant[int], wide: ct.Constant[int]):
    """The sums of all that is above and to the left, a picture for each block."""
    n = ct.bid(0)
    above = ct.zeros((1, wide), ct.int32)
    for t in range(ct.cdiv(x.shape[1], tall)):
        held = ct.load(x, (n, t, 0), (1, tall, wide), padding_mode=ct.PaddingMode.ZERO)
        held = ct.cumsum(held.reshape((tall, wide)).astype(ct.int32), 1)
        held = ct.cumsum(held, 0) + above
        ct.store(out, (n, t, 0), held.reshape((1, tall, wide)))
        above = ct.extract(held, (tall - 1, 0), (1, wide))


def _summed(many: int, height: int, width: int) -> Row:
    x = integers(256, many, height, width, dtype=_U8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, out):
            for n in nb.prange(many):
                for i in range(height):
                    total = np.int32(0)
                    for j in range(width):
                        total += x[n, i, j]
                        out[n, i, j] = total
                    if i:
                        for j in range(width):
                            out[n, i, j] += out[n, i - 1, j]

        made = np.empty((many, height, width), np.int32)
        return lambda: run(array(x), made)

    return beside_torch(
        f"tables of sums of {many} pictures of {height} x {width} uint8",
        summed,
        (many,),
        (x, torch.empty(many, height, width, dtype=_I32), 8, 256),
        lambda x: x.cumsum(2, dtype=_I32).cumsum(1, dtype=_I32),
        x,
        more=by_numba(make),
    )


@ct.function
def strength(gx, gy, i, j):
    """How steep it is: the sum of both magnitudes, nothing outside."""
    return ct.abs(ct.gather(gx, (i, j)).astype(ct.int32)) + ct.abs(
        ct.gather(gy, (i, j)).astype(ct.int32)
    )


@ct.kernel
def thinned(gx, gy, out, low, high, tall: ct.Constant[int], wide: ct.Constant[int]):
    """Slopes that are the steepest across their edge: 255 where sure, 128 where perhaps."""
    i = (ct.bid(0) * tall + ct.arange(tall, dtype=ct.int32)).reshape((tall, 1))
    j = (ct.bid(1) * wide + ct.arange(wide, dtype=ct.int32)).reshape((1, wide))
    x, y = ct.gather(gx, (i, j)).astype(ct.int32), ct.gather(gy, (i, j)).astype(ct.int32)
    ax, ay = ct.abs(x), ct.abs(y)
    flat, steep = (ay << 15) < ax * 13573, (ax << 15) < ay * 13573
    down = ct.where(flat, 0, 1)
    across = ct.where(steep, 0, ct.where(flat | ((x ^ y) >= 0), 1, -1))
    here = ax + ay
    kept = (here > low) & (here > strength(gx, gy, i - down, j - across))
    kept = kept & (here >= strength(gx, gy, i + down, j + across))
    found = ct.where(kept, ct.where(here > high, 255, 128), 0)
    ct.scatter(out, (i, j), found.astype(ct.uint8))


def _thinned(height: int, width: int) -> Row:
    gx, gy = ((normal(height, width + n) * 200).clamp(-1000, 1000)[:, :width] for n in (0, 1))
    gx, gy = gx.to(_I16).contiguous(), gy.to(_I16).contiguous()

    def theirs(gx, gy):
        x, y = gx.to(_I32), gy.to(_I32)
        ax, ay = x.abs(), y.abs()
        here = ax + ay
        wide = functional.pad(here, (1, 1, 1, 1))

        def beside(dy, dx):
            return wide[1 + dy : 1 + dy + height, 1 + dx : 1 + dx + width]

        flat, steep, same = (ay << 15) < ax * 13573, (ax << 15) < ay * 13573, (x ^ y) >= 0
        ends = []
        for n in (-1, 1):
            slant = torch.where(same, beside(n, n), beside(n, -n))
            ends.append(torch.where(flat, beside(0, n), torch.where(steep, beside(n, 0), slant)))
        kept = (here > 120) & (here > ends[0]) & (here >= ends[1])
        return torch.where(kept, torch.where(here > 400, 255, 128), 0).to(_U8)

    def make(nb):
        @nb.njit(inline="always")
        def at(gx, gy, i, j):
            if i < 0 or i >= height or j < 0 or j >= width:
                return np.int32(0)
            return abs(np.int32(gx[i, j])) + abs(np.int32(gy[i, j]))

        @nb.njit(parallel=True)
        def run(gx, gy, out):
            for i in nb.prange(height):
                for j in range(width):
                    x, y = np.int32(gx[i, j]), np.int32(gy[i, j])
                    ax, ay = abs(x), abs(y)
                    here, found = ax + ay, 0
                    if here > 120:
                        flat, steep = (ay << 15) < ax * 13573, (ax << 15) < ay * 13573
                        down = 0 if flat else 1
                        across = 0 if steep else (1 if flat or (x ^ y) >= 0 else -1)
                        steepest = here > at(gx, gy, i - down, j - across)
                        if steepest and here >= at(gx, gy, i + down, j + across):
                            found = 255 if here > 400 else 128
                    out[i, j] = found

        made = np.empty((height, width), np.uint8)
        return lambda: run(array(gx), array(gy), made)

    return beside_torch(
        f"edges of {height} x {width} slopes int16 thinned",
        thinned,
        (-(-height // 8), -(-width // 64)),
        (gx, gy, torch.empty(height, width, dtype=_U8), 120, 400, 8, 64),
        theirs,
        gx,
        gy,
        more=by_numba(make),
    )


@ct.kernel
def joined(
    labels, out, changed, width: ct.Constant[int], none: ct.Constant[int], tile: ct.Constant[int]
):
    """A step towards one label for each connected piece: the least beside, then where that points, twice."""
    p = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    column = p % width
    own = ct.gather(labels, p, padding_value=none)
    least = ct.minimum(own, ct.gather(labels, p - width, padding_value=none))
    least = ct.minimum(least, ct.gather(labels, p + width, padding_value=none))
    least = ct.minimum(least, ct.gather(labels, p - 1, mask=column > 0, padding_value=none))
    least = ct.minimum(least, ct.gather(labels, p + 1, mask=column < width - 1, padding_value=none))
    piece = own < none
    for _ in range(2):
        least = ct.minimum(least, ct.gather(labels, least, mask=piece, padding_value=none))
    found = ct.where(piece, least, none)
    ct.scatter(out, p, found)
    ct.atomic_add(changed, 0, ct.sum((found != own).astype(ct.int32)))


def _joined(height: int, width: int) -> Row:
    many = height * width
    none = 1 << 30
    inside = uniform(height, width) < 0.6
    out, changed = torch.empty(many, dtype=_I32), torch.zeros(1, dtype=_I32)

    def theirs(labels):
        own = functional.pad(labels.view(height, width), (1, 1, 1, 1), value=none)
        mid = own[1:-1, 1:-1]
        least = torch.minimum(torch.minimum(own[:-2, 1:-1], own[2:, 1:-1]), mid)
        least = torch.minimum(torch.minimum(own[1:-1, :-2], own[1:-1, 2:]), least).reshape(-1)
        piece = labels < none
        least = torch.where(piece, least, 0)
        for _ in range(2):
            least = torch.minimum(least, labels[least])
        found = torch.where(piece, least, none).to(_I32)
        return found, (found != labels).sum(dtype=_I32)[None]

    first = torch.where(inside.view(-1), torch.arange(many, dtype=_I32), none).to(_I32)
    labels = theirs(first)[0]

    def make(nb):
        @nb.njit(parallel=True)
        def run(labels, out):
            changed = 0
            for i in nb.prange(height):
                for p in range(i * width, i * width + width):
                    own = least = labels[p]
                    if own < none:
                        if i > 0:
                            least = min(least, labels[p - width])
                        if i < height - 1:
                            least = min(least, labels[p + width])
                        if p > i * width:
                            least = min(least, labels[p - 1])
                        if p < i * width + width - 1:
                            least = min(least, labels[p + 1])
                        least = min(least, labels[least])
                        least = min(least, labels[least])
                        changed += least != own
                    out[p] = least
            return changed

        made = np.empty(many, np.int32)
        return lambda: run(array(labels), made)

    return beside_torch(
        f"a step of labels of connected pieces of {height} x {width}",
        joined,
        (-(-many // 1024),),
        (labels, out, changed, width, none, 1024),
        theirs,
        labels,
        outputs=2,
        clear=changed.zero_,
        more=by_numba(make),
    )


@ct.kernel
def moved(frame, mean, spread, new_mean, new_spread, motion, tile: ct.Constant[int]):
    """What moves in a film, by means and spreads that go up or down by one a picture."""
    i = ct.bid(0)
    x = ct.load(frame, (i,), (tile,)).astype(ct.int16)
    m = ct.load(mean, (i,), (tile,)).astype(ct.int16)
    v = ct.load(spread, (i,), (tile,)).astype(ct.int16)
    m = ct.where(x > m, m + 1, ct.where(x < m, m - 1, m))
    off = ct.abs(x - m)
    stepped = ct.where(3 * off > v, v + 1, ct.where(3 * off < v, v - 1, v))
    v = ct.minimum(ct.maximum(ct.where(off > 0, stepped, v), 2), 255)
    ct.store(new_mean, (i,), m.astype(ct.uint8))
    ct.store(new_spread, (i,), v.astype(ct.uint8))
    ct.store(motion, (i,), off > v)


def _moved(height: int, width: int) -> Row:
    many = height * width
    frame, mean, spread = (integers(n, many, dtype=_U8) for n in (256, 255, 90))
    out = [
        torch.empty(many, dtype=_U8),
        torch.empty(many, dtype=_U8),
        torch.empty(many, dtype=torch.bool),
    ]

    def theirs(frame, mean, spread):
        x, m, v = frame.to(_I16), mean.to(_I16), spread.to(_I16)
        m = m + (x - m).sign()
        off = (x - m).abs()
        v = torch.where(off > 0, v + (3 * off - v).sign(), v).clamp(2, 255)
        return m.to(_U8), v.to(_U8), off > v

    def make(nb):
        @nb.njit(parallel=True)
        def run(frame, mean, spread, new_mean, new_spread, motion):
            for i in nb.prange(many):
                x, m, v = np.int16(frame[i]), np.int16(mean[i]), np.int16(spread[i])
                m = np.int16(m + np.int16(x > m) - np.int16(x < m))
                off = np.int16(abs(np.int16(x - m)))
                three = np.int16(3 * off)
                step = np.int16(three > v) - np.int16(three < v)
                v = min(max(np.int16(v + step * np.int16(off > 0)), np.int16(2)), np.int16(255))
                new_mean[i], new_spread[i], motion[i] = m, v, off > v

        made = np.empty(many, np.uint8), np.empty(many, np.uint8), np.empty(many, np.bool_)
        return lambda: run(array(frame), array(mean), array(spread), *made)

    return beside_torch(
        f"motion in a picture of {height} x {width} uint8 by steps of one",
        moved,
        (-(-many // 1024),),
        (frame, mean, spread, *out, 1024),
        theirs,
        frame,
        mean,
        spread,
        outputs=3,
        more=by_numba(make),
    )


@ct.kernel
def last_before(
    times, quoted, prices, found, age, longest, steps: ct.Constant[int], tile: ct.Constant[int]
):
    """The last price at or before each time, unless it is too old: times sorted, by halves."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    time = ct.gather(times, i)
    low, high = ct.zeros((tile,), ct.int32), ct.full((tile,), quoted.shape[0], ct.int32)
    for _ in range(steps):
        mid = (low + high) // 2
        right = (low < high) & (ct.gather(quoted, mid) <= time)
        low, high = ct.where(right, mid + 1, low), ct.where(right, high, mid)
    old = time - ct.gather(quoted, low - 1)
    good = (low > 0) & (old <= longest)
    ct.scatter(found, i, ct.gather(prices, low - 1, mask=good, padding_value=-1.0))
    ct.scatter(age, i, ct.where(good, old, -1))


def _last_before(many: int, quotes: int) -> Row:
    times = integers(1_000_000_000, many, dtype=_I64).sort().values
    quoted = (integers(999_000_000, quotes, dtype=_I64) + 1_000_000).sort().values
    prices = uniform(quotes, dtype=_F64) * 100
    longest = 50_000
    out = torch.empty(many, dtype=_F64), torch.empty(many, dtype=_I64)

    def theirs(times, quoted, prices):
        at = torch.searchsorted(quoted, times, right=True) - 1
        old = times - quoted[at.clamp(min=0)]
        good = (at >= 0) & (old <= longest)
        return torch.where(good, prices[at.clamp(min=0)], -1.0), torch.where(good, old, -1)

    def make(nb):
        chunk = 4096

        @nb.njit(parallel=True)
        def run(times, quoted, prices, found, age):
            for b in nb.prange(-(-many // chunk)):
                at = np.searchsorted(quoted, times[b * chunk], side="right")
                for i in range(b * chunk, min(b * chunk + chunk, many)):
                    while at < quotes and quoted[at] <= times[i]:
                        at += 1
                    found[i], age[i] = -1.0, -1
                    if at > 0 and times[i] - quoted[at - 1] <= longest:
                        found[i], age[i] = prices[at - 1], times[i] - quoted[at - 1]

        made = np.empty(many), np.empty(many, np.int64)
        return lambda: run(array(times), array(quoted), array(prices), *made)

    return beside_torch(
        f"the last of {quotes} prices before each of {many} times int64",
        last_before,
        (-(-many // 256),),
        (times, quoted, prices, *out, longest, quotes.bit_length(), 256),
        theirs,
        times,
        quoted,
        prices,
        outputs=2,
        more=by_numba(make),
    )


@ct.kernel
def channels(
    x, top, bottom, window: ct.Constant[int], tall: ct.Constant[int], wide: ct.Constant[int]
):
    """The largest and the least of the last days of each series: [series, day]."""
    s = (ct.bid(0) * tall + ct.arange(tall, dtype=ct.int32))[:, None]
    day = (ct.bid(1) * wide + ct.arange(wide, dtype=ct.int32))[None, :]
    high = low = ct.gather(x, (s, day))
    for k in range(1, window):
        before = day - k
        high = ct.maximum(high, ct.gather(x, (s, before), padding_value=-math.inf))
        low = ct.minimum(low, ct.gather(x, (s, before), padding_value=math.inf))
    ct.scatter(top, (s, day), high)
    ct.scatter(bottom, (s, day), low)


def _channels(series: int, days: int, window: int) -> Row:
    x = normal(series, days).cumsum(1)

    def theirs(x):
        wide = functional.pad(x[:, None], (window - 1, 0), value=-math.inf)
        deep = functional.pad(-x[:, None], (window - 1, 0), value=-math.inf)
        high, low = functional.max_pool1d(wide, window, 1), functional.max_pool1d(deep, window, 1)
        return high[:, 0], -low[:, 0]

    def make(nb):
        ahead = window - 1

        @nb.njit(parallel=True, fastmath=False)
        def run(x, top, bottom):
            for s in nb.prange(series):
                a, b = np.empty(days + ahead, np.float32), np.empty(days + ahead, np.float32)
                a[:ahead], b[:ahead] = -np.inf, np.inf
                a[ahead:], b[ahead:] = x[s], x[s]
                have, n = 1, days + ahead
                while have < window:  # spans double, the last overlap
                    step = min(have, window - have)
                    n -= step
                    for j in range(n):
                        a[j] = a[j] if a[j] > a[j + step] else a[j + step]
                        b[j] = b[j] if b[j] < b[j + step] else b[j + step]
                    have += step
                top[s], bottom[s] = a[:days], b[:days]

        made = [np.empty((series, days), np.float32) for _ in range(2)]
        return lambda: run(array(x), *made)

    return beside_torch(
        f"largest and least of the last {window} of {series} series of {days} float32",
        channels,
        (-(-series // 4), -(-days // 128)),
        (x, torch.empty_like(x), torch.empty_like(x), window, 4, 128),
        theirs,
        x,
        outputs=2,
        more=by_numba(make),
    )


@ct.kernel
def looked_up(words, valid, values, out, bits: ct.Constant[int], tile: ct.Constant[int]):
    """A column from packed numbers of its different values and bits of which rows have one."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    at = i * bits
    word = at >> 5
    low = ct.bitcast(ct.gather(words, word), ct.uint32).astype(ct.uint64)
    high = ct.bitcast(ct.gather(words, word + 1), ct.uint32).astype(ct.uint64)
    both = low | (high << 32)
    code = ((both >> (at & 31).astype(ct.uint64)) & ((1 << bits) - 1)).astype(ct.int32)
    there = ((ct.gather(valid, i >> 3).astype(ct.int32) >> (i & 7)) & 1) == 1
    ct.scatter(out, i, ct.gather(values, code, mask=there, padding_value=-1.0))


def _looked_up(many: int, different: int, bits: int) -> Row:
    codes = array(integers(different, many)).astype(np.uint64)
    held = np.unpackbits(codes[:, None].view(np.uint8), axis=1, bitorder="little")[
        :, :bits
    ].reshape(-1)
    held = np.packbits(np.pad(held, (0, -len(held) % 32 + 32)), bitorder="little")
    words, valid = torch.from_numpy(held.view(np.int32)), integers(256, -(-many // 8), dtype=_U8)
    values = uniform(different) + 1

    def theirs(words, valid, values):
        i = torch.arange(many)
        at, wide = i * bits, words.long() & 0xFFFFFFFF
        word = at >> 5
        code = ((wide[word] | (wide[word + 1] << 32)) >> (at & 31)) & ((1 << bits) - 1)
        there = (valid[i >> 3] >> (i & 7).to(_U8)) & 1
        return torch.where(there == 1, values[code], -1.0)

    def make(nb):
        @nb.njit(parallel=True)
        def run(words, valid, values, out):
            u, last = np.uint64, np.uint64((1 << bits) - 1)
            for row in nb.prange(many):
                i, at = u(row), u(row) * u(bits)
                word = at >> u(5)
                both = u(words[word]) | (u(words[word + u(1)]) << u(32))
                code = (both >> (at & u(31))) & last
                there = (u(valid[i >> u(3)]) >> (i & u(7))) & u(1)
                out[row] = values[code] if there else np.float32(-1)

        made = np.empty(many, np.float32)
        return lambda: run(array(words).view(np.uint32), array(valid), array(values), made)

    return beside_torch(
        f"{many} rows of {bits} bits by a dictionary of {different} float32, some none",
        looked_up,
        (-(-many // 512),),
        (words, valid, values, torch.empty(many), bits, 512),
        theirs,
        words,
        valid,
        values,
        more=by_numba(make),
    )


_MIX = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)


@ct.kernel
def counted(keys, registers, tile: ct.Constant[int]):
    """Registers of how many different keys there are: the longest end of zeros of their hashes."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    h = ct.bitcast(ct.gather(keys, i), ct.uint64)
    h = (h ^ (h >> 33)) * ct.full((tile,), _MIX[0], ct.uint64)
    h = (h ^ (h >> 33)) * ct.full((tile,), _MIX[1], ct.uint64)
    h = h ^ (h >> 33)
    rest = (h >> 12).astype(ct.int64) | (1 << 51)
    last = (rest & -rest).astype(ct.float64)
    rank = ((ct.bitcast(last, ct.int64) >> 52) - 1022).astype(ct.int32)
    register = ct.where(i < keys.shape[0], (h & 4095).astype(ct.int32), -1)
    ct.atomic_max(registers, register, rank)


def _counted(many: int, high: int) -> Row:
    keys, registers = integers(high, many, dtype=_I64), torch.zeros(4096, dtype=_I32)
    mix = [x - (1 << 64) for x in _MIX]

    def theirs(keys):
        h = (keys ^ (keys >> 33)) * mix[0]
        h = (h ^ ((h >> 33) & 0x7FFFFFFF)) * mix[1]
        h = h ^ ((h >> 33) & 0x7FFFFFFF)
        rest = ((h >> 12) & ((1 << 52) - 1)) | (1 << 51)
        rank = ((rest & -rest).double().view(_I64) >> 52) - 1022
        return torch.zeros(4096, dtype=_I32).scatter_reduce_(0, h & 4095, rank.to(_I32), "amax")

    def make(nb):
        @nb.njit
        def run(keys, out):
            u = np.uint64
            for i in range(many):
                h = u(keys[i])
                h = (h ^ (h >> u(33))) * u(_MIX[0])
                h = (h ^ (h >> u(33))) * u(_MIX[1])
                h = h ^ (h >> u(33))
                rest = np.int64((h >> u(12)) | u(1 << 51))
                rank = (np.float64(rest & -rest).view(np.int64) >> 52) - 1022
                out[h & u(4095)] = max(out[h & u(4095)], rank)

        def job():
            made = np.zeros(4096, np.int32)
            run(array(keys), made)
            return made

        return job

    return beside_torch(
        f"4096 registers of how many of {many} int64 differ",
        counted,
        (-(-many // 1024),),
        (keys, registers, 1024),
        theirs,
        keys,
        clear=registers.zero_,
        more=by_numba(make),
    )


@ct.kernel
def split(
    lines, starts, counts, most: ct.Constant[int], rows: ct.Constant[int], tile: ct.Constant[int]
):
    """Where fields between commas begin in each line, and how many; commas between quotes are text."""
    t = ct.bid(0)
    line = (t * rows + ct.arange(rows, dtype=ct.int32))[:, None]
    text = ct.load(lines, (t, 0), (rows, tile), padding_mode=ct.PaddingMode.ZERO)
    quoted = ct.cumsum((text == 34).astype(ct.int32), 1) & 1
    comma = (text == 44) & (quoted == 0)
    field = ct.cumsum(comma.astype(ct.int32), 1)
    total = ct.max(field, 1, keepdims=True) + 1
    place = ct.arange(tile, dtype=ct.int32)[None, :] + 1
    number = ct.arange(most, dtype=ct.int32)[None, :]
    ct.scatter(
        starts, (line, number), ct.where(number == 0, 0, -1), mask=(number == 0) | (number >= total)
    )
    ct.scatter(starts, (line, field), place, mask=comma & (field < most))
    ct.scatter(counts, line.reshape((rows,)), total.reshape((rows,)))


def _split(many: int, width: int, most: int) -> Row:
    letters = torch.tensor(list(b'abcdefgh0123456789 .-,,"' + b"klmnopqrs"), dtype=_U8)
    lines = letters[integers(len(letters), many, width)]
    starts, counts = torch.empty(many, most, dtype=_I32), torch.empty(many, dtype=_I32)

    def theirs(lines):
        quoted = (lines == 34).cumsum(1, dtype=_I32) & 1
        comma = (lines == 44) & (quoted == 0)
        field = comma.cumsum(1, dtype=_I32)
        at = torch.where(comma & (field < most), field, most).long()
        starts = torch.full((many, most + 1), -1, dtype=_I32)
        place = torch.arange(1, width + 1, dtype=_I32).expand(many, width)
        starts.scatter_(1, at, place)
        starts[:, 0] = 0
        return starts[:, :most].contiguous(), field[:, -1] + 1

    def make(nb):
        @nb.njit(parallel=True)
        def run(lines, starts, counts):
            for i in nb.prange(many):
                n, quoted = 1, False
                starts[i] = -1
                starts[i, 0] = 0
                for j in range(width):
                    c = lines[i, j]
                    if c == 34:
                        quoted = not quoted
                    elif c == 44 and not quoted:
                        if n < most:
                            starts[i, n] = j + 1
                        n += 1
                counts[i] = n

        made = np.empty((many, most), np.int32), np.empty(many, np.int32)
        return lambda: run(array(lines), *made)

    return beside_torch(
        f"where the fields of {many} lines of {width} letters with quotes begin",
        split,
        (-(-many // 4),),
        (lines, starts, counts, most, 4, 256),
        theirs,
        lines,
        outputs=2,
        more=by_numba(make),
    )


@ct.function
def weekdays(day):
    """How many days from Monday to Friday are before a day since 1970, but for a constant."""
    day = day + 3
    return day // 7 * 5 + ct.minimum(day % 7, 5)


@ct.kernel
def worked(first, last, free, out, tile: ct.Constant[int]):
    """Days of work from a day on and before another, without those that are free."""
    i = ct.bid(0)
    a, b = ct.load(first, (i,), (tile,)), ct.load(last, (i,), (tile,))
    total = weekdays(b) - weekdays(a)
    for h in range(free.shape[0]):
        day = ct.load(free, (h,), ())
        total = total - ((day >= a) & (day < b)).astype(ct.int32)
    ct.store(out, (i,), total)


def _worked(many: int, holidays: int) -> Row:
    first = integers(20_000, many) - 3000
    last = first + integers(700, many)
    free = torch.unique(integers(17_000, holidays))
    free = free[(free + 3) % 7 < 5].contiguous()

    def weekdays_before(day):
        return torch.div(day + 3, 7, rounding_mode="floor") * 5 + ((day + 3) % 7).clamp(max=5)

    def theirs(first, last, free):
        found = weekdays_before(last) - weekdays_before(first)
        gone = torch.searchsorted(free, last, out_int32=True) - torch.searchsorted(
            free, first, out_int32=True
        )
        return found - gone

    days = [array(x).astype("datetime64[D]") for x in (first, last, free)]

    def by_numpy():
        return np.busday_count(days[0], days[1], holidays=days[2])

    def make(nb):
        @nb.njit(parallel=True)
        def run(first, last, free, out):
            for i in nb.prange(many):
                a, b = first[i] + 3, last[i] + 3
                total = b // 7 * 5 + min(b % 7, 5) - a // 7 * 5 - min(a % 7, 5)
                for h in range(free.size):
                    total -= (free[h] >= first[i]) & (free[h] < last[i])
                out[i] = total

        made = np.empty(many, np.int32)
        return lambda: run(array(first), array(last), array(free), made)

    return beside_torch(
        f"days of work between {many} pairs of days, some {holidays} free int32",
        worked,
        (-(-many // 512),),
        (first, last, free, torch.empty_like(first), 512),
        theirs,
        first,
        last,
        free,
        more={"NumPy": by_numpy} | by_numba(make),
    )


@ct.function
def ones_of(x):
    """How many bits of each word of 64 are set."""
    x = x - ((x >> 1) & 0x5555555555555555)
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F
    return (x * 0x0101010101010101) >> 56


@ct.kernel
def added(slices, a, b, c, total, count, depth: ct.Constant[int], tile: ct.Constant[int]):
    """Sum and number of a column held as slices of its bits, where a or b and not c: 64 rows a word."""
    i = ct.bid(0)
    zero = ct.PaddingMode.ZERO
    kept = ct.load(a, (i,), (tile,), padding_mode=zero) | ct.load(
        b, (i,), (tile,), padding_mode=zero
    )
    kept = kept & ~ct.load(c, (i,), (tile,), padding_mode=zero)
    found = ct.zeros((), ct.int64)
    for s in range(depth):
        bits = ct.load(slices, (s, i), (1, tile), padding_mode=zero).reshape((tile,))
        found += ct.sum(ones_of((bits & kept).astype(ct.uint64)).astype(ct.int64)) << s
    ct.atomic_add(total, 0, found)
    ct.atomic_add(count, 0, ct.sum(ones_of(kept.astype(ct.uint64)).astype(ct.int64)))


def _added(words: int, depth: int) -> Row:
    drawn = integers(1 << 62, depth + 3, words, dtype=_I64) * 3
    slices, (a, b, c) = drawn[:depth].contiguous(), drawn[depth:].clone().unbind(0)
    out = [torch.zeros(1, dtype=_I64) for _ in range(2)]
    ones = torch.tensor([x.bit_count() for x in range(256)], dtype=_U8)

    def theirs(slices, a, b, c):
        kept = (a | b) & ~c
        found = ones[(slices & kept).view(_U8).int()].sum(1, dtype=_I64)
        total = (found << torch.arange(depth)).sum()
        return total[None], ones[kept.view(_U8).int()].sum(dtype=_I64)[None]

    def by_numpy():
        kept = (array(a) | array(b)) & ~array(c)
        found = np.bitwise_count((array(slices) & kept).view(np.uint64)).sum(1, dtype=np.int64)
        return (found << np.arange(depth)).sum(), np.bitwise_count(kept.view(np.uint64)).sum(
            dtype=np.int64
        )

    return beside_torch(
        f"sum of {words} x 64 numbers in {depth} slices of bits where three bitmaps say",
        added,
        (-(-words // 512),),
        (slices, a, b, c, *out, depth, 512),
        theirs,
        slices,
        a,
        b,
        c,
        outputs=2,
        clear=lambda: [x.zero_() for x in out],
        more={"NumPy": by_numpy},
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _smoothed(600, 1001),
        lambda: _summed(41, 120, 150),
        lambda: _thinned(600, 1001),
        lambda: _joined(500, 777),
        lambda: _moved(720, 1279),
        lambda: _last_before(100_001, 30_001),
        lambda: _channels(301, 1000, 20),
        lambda: _looked_up(500_001, 2000, 11),
        lambda: _counted(300_001, 100_000),
        lambda: _split(4001, 200, 16),
        lambda: _worked(200_001, 40),
        lambda: _added(20_001, 16),
    ]
