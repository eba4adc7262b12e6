"""More of numbers, as a stranger writes them: hashes, lines, rates, checksums, times, neighbours.

``unseen_strangers_numbers`` lists these rows, too.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

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
    normal,
    numba,
    uniform,
)

_F16, _F32, _F64, _BF16 = torch.float16, torch.float32, torch.float64, torch.bfloat16
_I32, _I64, _U8, _BOOL = torch.int32, torch.int64, torch.uint8, torch.bool
_WORD = 0xFFFFFFFF
prange = nb.prange if (nb := numba()) else range


def row_of(
    name,
    kernel,
    blocks,
    arguments,
    theirs,
    *given,
    run=None,
    arrays=(),
    fast=False,
    more=None,
    **rest,
) -> Row:
    """A row beside torch, and beside numba if ``run`` says how, on ``arrays`` or what torch gets."""

    def make(nb: Any) -> Callable[[], object]:
        made = nb.njit(parallel=True, fastmath=fast)(run)
        held = [array(each) for each in arrays or given]
        return lambda: made(*held)

    more = (more or {}) | (by_numba(make) if run else {})
    return beside_torch(name, kernel, (blocks,), arguments, theirs, *given, more=more, **rest)


@ct.kernel
def minhash(words, offsets, factors, terms, out, some: ct.Constant[int], many: ct.Constant[int]):
    """The least of each of many hashes over the words of a text: a text for each block."""
    text = ct.bid(0)
    start, end = ct.gather(offsets, text), ct.gather(offsets, text + 1)
    factor = ct.load(factors, (0,), (many,)).astype(ct.uint32).reshape((1, many))
    term = ct.load(terms, (0,), (many,)).astype(ct.uint32).reshape((1, many))
    least = ct.full((some, many), 0xFFFFFFFF, ct.uint32)
    for t in range(ct.cdiv(end - start, some)):
        i = (start + t * some + ct.arange(some, dtype=ct.int32)).reshape((some, 1))
        word = ct.gather(words, i, mask=i < end).astype(ct.uint32)
        least = ct.minimum(least, ct.where(i < end, (factor * word + term) >> 1, 0xFFFFFFFF))
    ct.store(out, (text, 0), ct.min(least, 0, keepdims=True).astype(ct.int32))


def minhash_row(texts: int, longest: int) -> Row:
    lengths = integers(longest, texts, dtype=_I64) + 1
    offsets = functional.pad(lengths.cumsum(0), (1, 0)).to(_I32)
    owner = torch.repeat_interleave(torch.arange(texts), lengths)
    words = integers(1 << 30, len(owner))
    factors, terms = integers((1 << 31) - 1, 64) | 1, integers((1 << 31) - 2, 64)

    def theirs(words, factors, terms):
        found = ((words.long()[:, None] * factors + terms) & _WORD) >> 1
        least = torch.full((texts, 64), _WORD >> 1)
        return least.index_reduce_(0, owner, found, "amin").int()

    def run(words, offsets, factors, terms):
        out = np.full((texts, 64), np.int32(_WORD >> 1))
        factors, terms = factors.view(np.uint32), terms.view(np.uint32)
        for text in prange(texts):
            least = out[text]
            for i in range(offsets[text], offsets[text + 1]):
                word = np.uint32(words[i])
                for k in range(64):
                    found = np.uint32(factors[k] * word + terms[k]) >> np.uint32(1)
                    least[k] = min(least[k], np.int32(found))
        return out

    name = f"least of 64 hashes over the words of {texts} texts of up to {longest}"
    arrays = (words, offsets, factors, terms)
    held = (*arrays, torch.empty(texts, 64, dtype=_I32), 16, 64)
    given, rest = (words, factors, terms), {"run": run, "arrays": arrays, "compiles": False}
    return row_of(name, minhash, texts, held, theirs, *given, **rest)


@ct.kernel
def trends(x, slopes, levels, fits, some: ct.Constant[int], wide: ct.Constant[int]):
    """A line through each series, without what is missing: its slope, its mean, how well it fits."""
    i = ct.bid(0)
    y = ct.load(x, (i, 0), (some, wide), padding_mode=ct.PaddingMode.NAN).astype(ct.float32)
    there = ~ct.isnan(y)
    time = ct.arange(wide, dtype=ct.int32).astype(ct.float32).reshape((1, wide))
    count = ct.sum(there.astype(ct.float32), 1, keepdims=True)
    y = ct.where(there, y, 0.0)
    mean = ct.sum(y, 1, keepdims=True) / count
    middle = ct.sum(ct.where(there, time, 0.0), 1, keepdims=True) / count
    dy, dt = ct.where(there, y - mean, 0.0), ct.where(there, time - middle, 0.0)
    both, tt, yy = ct.sum(dy * dt, 1), ct.sum(dt * dt, 1), ct.sum(dy * dy, 1)
    ct.store(slopes, (i,), both / tt)
    ct.store(levels, (i,), mean.reshape((some,)))
    ct.store(fits, (i,), both * both / (tt * yy))


def trends_row(series: int, days: int) -> Row:
    x = (normal(series, days) + 0.02 * torch.arange(days) * normal(series, 1)).to(_BF16)
    x[uniform(series, days) < 0.15] = torch.nan

    def theirs(x):
        there, time = ~x.isnan(), torch.arange(days, dtype=_F32)
        count, y = there.sum(1, keepdim=True), x.nan_to_num().float()
        mean = y.sum(1, keepdim=True) / count
        dy = torch.where(there, y - mean, 0)
        dt = torch.where(there, time - (there * time).sum(1, keepdim=True) / count, 0)
        both, tt, yy = (dy * dt).sum(1), (dt * dt).sum(1), (dy * dy).sum(1)
        return both / tt, mean[:, 0], both * both / (tt * yy)

    def run(x):
        out = np.empty((3, series), np.float32)
        for i in prange(series):
            row, bits, time = x[i], np.empty(days, np.uint32), np.float32(0)
            y, count, mean = bits.view(np.float32), np.float32(0), np.float32(0)
            for k in range(days):
                bits[k] = np.uint32(row[k]) << np.uint32(16)
            for k in range(days):
                there = y[k] == y[k]
                count += np.float32(there)
                time += np.float32(k) if there else np.float32(0)
                mean += y[k] if there else np.float32(0)
            mean, time = mean / count, time / count
            both, tt, yy = np.float32(0), np.float32(0), np.float32(0)
            for k in range(days):
                there = y[k] == y[k]
                dy = y[k] - mean if there else np.float32(0)
                dt = np.float32(k) - time if there else np.float32(0)
                both, tt, yy = both + dy * dt, tt + dt * dt, yy + dy * dy
            out[0, i], out[1, i], out[2, i] = both / tt, mean, both * both / (tt * yy)
        return out[0], out[1], out[2]

    name = f"lines through {series} series of {days} bfloat16 with gaps"
    held, rest = (x, *torch.empty(3, series), 4, 512), {"outputs": 3, "bound": 1e-5}
    rest |= {"run": run, "arrays": (x.view(torch.uint16),), "fast": {"reassoc", "contract"}}
    return row_of(name, trends, -(-series // 4), held, theirs, x, **rest)


@ct.kernel
def returns(flows, out, steps: ct.Constant[int], tile: ct.Constant[int]):
    """Rates at which payments [year, deal] are worth nothing, by Newton's steps."""
    i, years = ct.bid(0), flows.shape[0]
    v = ct.full((tile,), 0.9, ct.float64)
    for _ in range(steps):
        value, slope = ct.zeros((tile,), ct.float64), ct.zeros((tile,), ct.float64)
        for k in range(years):
            slope = slope * v + value
            value = value * v + ct.load(flows, (years - 1 - k, i), (1, tile)).reshape((tile,))
        v = v - value / slope
    ct.store(out, (i,), 1.0 / v - 1.0)


def returns_row(deals: int, years: int) -> Row:
    flows = 2 + 10 * uniform(years, deals, dtype=_F64)
    flows[0] = -100

    def theirs(flows):
        v = torch.full_like(flows[0], 0.9)
        for _ in range(8):
            value, slope = torch.zeros_like(v), torch.zeros_like(v)
            for k in range(years - 1, -1, -1):
                slope = slope * v + value
                value = value * v + flows[k]
            v = v - value / slope
        return 1 / v - 1

    def run(flows):
        out = np.empty(deals)
        for block in prange(-(-deals // 64)):
            v = out[block * 64 : block * 64 + 64]
            value, slope = np.empty(v.size), np.empty(v.size)
            v[:], first = 0.9, block * 64
            for _ in range(8):
                value[:], slope[:] = 0, 0
                for k in range(years - 1, -1, -1):
                    flow = flows[k, first : first + v.size]
                    for i in range(v.size):
                        slope[i] = slope[i] * v[i] + value[i]
                        value[i] = value[i] * v[i] + flow[i]
                v -= value / slope
            v[:] = 1 / v - 1
        return out

    name = f"rates of return of {deals} deals of {years} years float64"
    held, rest = (flows, torch.empty(deals, dtype=_F64), 8, 256), {"fast": True, "bound": 1e-11}
    return row_of(name, returns, -(-deals // 256), held, theirs, flows, run=run, **rest)


@ct.kernel
def adler(x, out, some: ct.Constant[int], tile: ct.Constant[int]):
    """Adler's checksums of rows of bytes."""
    row = (ct.bid(0) * some + ct.arange(some, dtype=ct.int32)).reshape((some, 1))
    width = x.shape[1]
    low, high = ct.zeros((some, tile), ct.int32), ct.zeros((some, tile), ct.int32)
    for t in range(ct.cdiv(width, tile)):
        i = (t * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
        byte = ct.gather(x, (row, i)).astype(ct.int32)
        low, high = low + byte, high + byte * (width - i)
    low = (1 + ct.sum(low, 1, keepdims=True)) % 65521
    high = (width + ct.sum(high, 1, keepdims=True)) % 65521
    ct.scatter(out, row, (high.astype(ct.int64) << 16) | low.astype(ct.int64))


def adler_row(many: int, width: int) -> Row:
    x = integers(256, many, width, dtype=_U8)

    def theirs(x):
        low = (1 + x.sum(1)) % 65521
        high = (width + (x * torch.arange(width, 0, -1, dtype=_I32)).sum(1)) % 65521
        return high << 16 | low

    def run(x):
        out = np.empty(many, np.int64)
        for row in prange(many):
            held, low, high = x[row], np.uint32(1), np.uint32(width)
            for i in range(width):
                low += np.uint32(held[i])
                high += np.uint32(held[i]) * np.uint32(width - i)
            out[row] = np.int64(high % np.uint32(65521)) << 16 | np.int64(low % np.uint32(65521))
        return out

    name = f"Adler's checksums of {many} rows of {width} uint8"
    more = {"zlib": lambda: np.array([zlib.adler32(row) for row in array(x)])}
    held = (x, torch.empty(many, dtype=_I64), 4, 256)
    return row_of(name, adler, -(-many // 4), held, theirs, x, run=run, more=more)


def _number(text, row, at, digits: ct.Constant[int]):
    """A number of some digits at a place of each row."""
    value = ct.zeros(row.shape, ct.int32)
    for k in range(digits):
        value = value * 10 + ct.gather(text, (row, at + k)).astype(ct.int32) - 48
    return value


@ct.kernel
def moments(text, out, tile: ct.Constant[int]):
    """Seconds since 1970 of texts such as 2024-02-29T12:34:56."""
    row = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    month, day = _number(text, row, 5, 2), _number(text, row, 8, 2)
    year = _number(text, row, 0, 4) - (month <= 2).astype(ct.int32)
    month = ct.where(month > 2, month - 3, month + 9)
    days = 365 * year + year // 4 - year // 100 + year // 400
    days = days + (153 * month + 2) // 5 + day - 719469
    time = _number(text, row, 11, 2) * 3600 + _number(text, row, 14, 2) * 60
    time = time + _number(text, row, 17, 2)
    ct.scatter(out, row, days.astype(ct.int64) * 86400 + time.astype(ct.int64))


def moments_row(many: int) -> Row:
    when = np.random.default_rng(9).integers(-(1 << 33), 1 << 33, many).astype("M8[s]")
    text = torch.from_numpy(when.astype("S19").view(np.uint8).reshape(many, 19).copy())
    factors = torch.zeros(19, 6, dtype=_I32)
    for part, (at, digits) in enumerate(((0, 4), (5, 2), (8, 2), (11, 2), (14, 2), (17, 2))):
        factors[at : at + digits, part] = torch.tensor((1000, 100, 10, 1)[4 - digits :])

    def seconds(year, month, day, hour, minute, second):
        year, month = year - (month <= 2) * 1, (month + 9) % 12
        days = 365 * year + year // 4 - year // 100 + year // 400
        days = days + (153 * month + 2) // 5 + day - 719469
        return days * 86400 + hour * 3600 + minute * 60 + second

    def theirs(text):
        return seconds(*((text.int() - 48) @ factors).long().unbind(1))

    def make(nb):
        whole = nb.njit(seconds)

        @nb.njit(parallel=True)
        def run(text):
            out = np.empty(many, np.int64)
            for row in nb.prange(many):
                t = text[row].view(np.int8)
                year = t[0] * 1000 + t[1] * 100 + t[2] * 10 + t[3] - 53328
                month, day = t[5] * 10 + t[6] - 528, t[8] * 10 + t[9] - 528
                hour, minute = t[11] * 10 + t[12] - 528, t[14] * 10 + t[15] - 528
                second = t[17] * 10 + t[18] - 528
                out[row] = whole(year, month, day, hour, minute, second)
            return out

        return lambda: run(array(text))

    name = f"seconds of {many} times of 19 letters"
    more = {
        "NumPy": lambda: array(text).view("S19")[:, 0].astype("M8[s]").view(np.int64)
    } | by_numba(make)
    held = (text, torch.empty(many, dtype=_I64), 256)
    return row_of(name, moments, -(-many // 256), held, theirs, text, more=more)


@ct.kernel
def dense(x, counts, cores, far, least, tile: ct.Constant[int], deep: ct.Constant[int]):
    """How many points are near each, and whether enough: by products of points float16."""
    i, zero = ct.bid(0), ct.PaddingMode.ZERO
    a = ct.load(x, (i, 0), (tile, deep), padding_mode=zero)
    length = ct.sum(a.astype(ct.float32) * a.astype(ct.float32), 1, keepdims=True)
    count = ct.zeros((tile,), ct.int32)
    for j in range(ct.num_tiles(x, 0, (tile, deep))):
        b = ct.load(x, (j, 0), (tile, deep), padding_mode=zero)
        other = ct.sum(b.astype(ct.float32) * b.astype(ct.float32), 1).reshape((1, tile))
        product = ct.mma(a, ct.transpose(b), ct.zeros((tile, tile), ct.float32))
        place = j * tile + ct.arange(tile, dtype=ct.int32).reshape((1, tile))
        near = (length + other - 2.0 * product <= far) & (place < x.shape[0])
        count += ct.sum(near.astype(ct.int32), 1)
    ct.store(counts, (i,), count)
    ct.store(cores, (i,), count >= least)


def dense_row(many: int, deep: int) -> Row:
    x, far, least = (integers(9, many, deep) - 4).to(_F16), 150.0, 8

    def theirs(x):
        a = x.float()
        length = (a * a).sum(1)
        count = (length[:, None] + length - 2 * (a @ a.T) <= far).sum(1, dtype=_I32)
        return count, count >= least

    name = f"neighbours of {many} points of {deep} float16, and which have {least}"
    out = torch.empty(many, dtype=_I32), torch.empty(many, dtype=_BOOL)
    held = (x, *out, far, least, 64, 32)
    return row_of(name, dense, -(-many // 64), held, theirs, x, outputs=2)
