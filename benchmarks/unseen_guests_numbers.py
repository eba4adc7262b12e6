"""Sorted and packed numbers, transforms, recurrences and texts, as a guest writes them."""

from __future__ import annotations

import binascii
import math
import zlib
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
    compiled,
    integers,
    kind,
    next_power,
    normal,
    uniform,
)

_ZERO = ct.PaddingMode.ZERO
_F32, _F64, _F16 = torch.float32, torch.float64, torch.float16
_I32, _I64, _I16, _U8 = torch.int32, torch.int64, torch.int16, torch.uint8


@ct.kernel
def digit_counts(keys, counts, shift: ct.Constant[int], tile: ct.Constant[int]):
    """What a radix sort begins with: how often each digit of 8 bits is in the tiles of each block."""
    block = ct.bid(0)
    for t in range(block, ct.cdiv(keys.shape[0], tile), ct.num_blocks(0)):
        at = t * tile + ct.arange(tile, dtype=ct.int32)
        digit = (ct.gather(keys, at) >> shift) & 255
        ct.atomic_add(counts, (block, ct.where(at < keys.shape[0], digit, 256)), 1)


def _digit_counts(many: int, blocks: int, shift: int) -> Row:
    keys = integers(1 << 30, many)
    counts = torch.zeros(blocks, 256, dtype=_I32)
    owner = (torch.arange(many, dtype=_I32) // 2048 % blocks) * 256

    def theirs(keys, owner):
        digit = (keys >> shift) & 255
        return torch.bincount(owner + digit, minlength=blocks * 256).view(blocks, 256)

    def make(nb):
        @nb.njit(parallel=True)
        def run(keys, found):
            found[:] = 0
            for block in nb.prange(blocks):
                for start in range(block * 2048, keys.size, blocks * 2048):
                    for i in range(start, min(start + 2048, keys.size)):
                        found[block, (keys[i] >> shift) & 255] += 1

        made = np.zeros((blocks, 256), np.int32)
        return lambda: run(array(keys), made)

    return beside_torch(
        f"digits of {many} keys counted by {blocks} blocks",
        digit_counts,
        (blocks,),
        (keys, counts, shift, 2048),
        theirs,
        keys,
        owner,
        clear=counts.zero_,
        more=by_numba(make),
        compiles=False,
    )


@ct.kernel
def marked(keys, words, tile: ct.Constant[int]):
    """A set of numbers as bits, 32 in a word, by atomics."""
    i = ct.bid(0)
    key = ct.load(keys, (i,), (tile,))
    ct.atomic_or(words, key >> 5, ct.full((tile,), 1, ct.int32) << (key & 31))


def _marked(many: int, highest: int) -> Row:
    keys = integers(highest, many)
    words = torch.zeros(highest // 32, dtype=_I32)
    powers = 1 << torch.arange(32, dtype=_I64)

    def theirs(keys):
        flags = torch.zeros(highest, dtype=torch.bool)
        flags[keys] = True
        return (flags.view(-1, 32) * powers).sum(1).to(_I32)

    def by_numpy():
        flags = np.zeros(highest, np.bool_)
        flags[array(keys)] = True
        return np.packbits(flags, bitorder="little").view(np.int32)

    def make(nb):
        @nb.njit
        def run(keys, found):
            found[:] = 0
            one = np.uint32(1)
            for i in range(keys.size):
                found[keys[i] >> 5] |= one << np.uint32(keys[i] & 31)

        made = np.zeros(highest // 32, np.uint32)
        return lambda: run(array(keys), made)

    return beside_torch(
        f"{many >> 10}K numbers below {highest >> 20}M as bits",
        marked,
        (many // 1024,),
        (keys, words, 1024),
        theirs,
        keys,
        clear=words.zero_,
        more={"NumPy": by_numpy} | by_numba(make),
        compiles=False,
    )


@ct.kernel
def log_gamma(x, series, out, terms: ct.Constant[int], tile: ct.Constant[int]):
    """Logarithms of the gamma function of positive numbers, by Stirling's series from 10 on."""
    i = ct.bid(0)
    held = ct.load(x, (i,), (tile,), padding_mode=_ZERO)
    below = ct.ones((tile,), x.dtype)
    for _ in range(10):
        small = held < 10.0
        below = ct.where(small, below * held, below)
        held = ct.where(small, held + 1.0, held)
    over = 1.0 / held
    total = ct.zeros((tile,), x.dtype)
    for n in range(1, terms):
        total = total * (over * over) + ct.gather(series, n)
    total = total * over + ct.gather(series, 0) + (held - 0.5) * ct.log(held) - held
    ct.store(out, (i,), total - ct.log(below))


def _log_gamma(many: int) -> Row:
    x = uniform(many, dtype=_F64) * 30 + 0.05
    series = torch.tensor(
        [math.log(2 * math.pi) / 2, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12],
        dtype=_F64,
    )
    return beside_torch(
        f"logarithms of gamma of {many} float64",
        log_gamma,
        (-(-many // 256),),
        (x, series, torch.empty_like(x), len(series), 256),
        torch.lgamma,
        x,
        bound=1e-13,
    )


@ct.kernel
def chebyshev(x, c, out, degree: ct.Constant[int], tile: ct.Constant[int]):
    """A sum of Chebyshev polynomials by Clenshaw's recurrence, blocks striding over the places."""
    for t in range(ct.bid(0), ct.cdiv(x.shape[0], tile), ct.num_blocks(0)):
        held = ct.load(x, (t,), (tile,), padding_mode=_ZERO)
        one, two = ct.zeros((tile,), ct.float32), ct.zeros((tile,), ct.float32)
        for k in range(degree):
            one, two = 2.0 * held * one - two + ct.gather(c, degree - k), one
        ct.store(out, (t,), held * one - two + ct.gather(c, 0))


def _chebyshev(many: int, degree: int) -> Row:
    x, c = uniform(many) * 2 - 1, normal(degree + 1)

    def theirs(x, c):
        one, two = torch.zeros_like(x), torch.zeros_like(x)
        for k in range(degree):
            one, two = 2 * x * one - two + c[degree - k], one
        return x * one - two + c[0]

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, c, out):
            for i in nb.prange(x.size):
                one, two, twice = np.float32(0), np.float32(0), x[i] + x[i]
                for k in range(degree):
                    one, two = twice * one - two + c[degree - k], one
                out[i] = x[i] * one - two + c[0]

        made = np.empty(many, np.float32)
        return lambda: run(array(x), array(c), made)

    return beside_torch(
        f"sum of {degree + 1} Chebyshev polynomials at {many} places float32",
        chebyshev,
        (8,),
        (x, c, torch.empty_like(x), degree, 512),
        theirs,
        x,
        c,
        bound=1e-5,
        more=by_numba(make),
    )


@ct.kernel
def bitonic(x, out, size: ct.Constant[int], rows: ct.Constant[int]):
    """Each row sorted by Batcher's bitonic network: halves taken apart, exchanged and joined."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0), (rows, size))
    place = ct.arange(size, dtype=ct.int32).reshape((1, size))
    for stage in ct.static_iter(range(1, size.bit_length())):
        falls = ct.broadcast_to(((place >> stage) & 1) == 1, (rows, size))
        for step in ct.static_iter(range(stage)):
            half = 1 << (stage - 1 - step)
            pairs = held.reshape((rows * size // (2 * half), 2, half))
            down = falls.reshape((rows * size // (2 * half), 2, half))
            shape = (rows * size // (2 * half), 1, half)
            a, b = ct.extract(pairs, (0, 0, 0), shape), ct.extract(pairs, (0, 1, 0), shape)
            down = ct.extract(down, (0, 0, 0), shape)
            low, high = ct.minimum(a, b), ct.maximum(a, b)
            pairs = ct.cat((ct.where(down, high, low), ct.where(down, low, high)), 1)
            held = pairs.reshape((rows, size))
    ct.store(out, (i, 0), held)


def _bitonic(rows: int, size: int, dtype: torch.dtype) -> Row:
    x = normal(rows, size) if dtype == _F32 else integers(1 << 30, rows, size)
    return beside_torch(
        f"each of {rows} rows of {size} {kind(dtype)} sorted by exchanges",
        bitonic,
        (rows // 8,),
        (x, torch.empty_like(x), size, 8),
        lambda x: x.sort(1).values,
        x,
        more={"NumPy": lambda: np.sort(array(x), 1)},
    )


@ct.kernel
def hadamard(x, out, size: ct.Constant[int], rows: ct.Constant[int]):
    """Rows by Hadamard's matrix: sums and differences at all distances, [row, place]."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0), (rows, size), padding_mode=_ZERO).astype(ct.float32)
    for stage in ct.static_iter(range(size.bit_length() - 1)):
        half = 1 << stage
        pairs = held.reshape((rows, size // (2 * half), 2, half))
        shape = (rows, size // (2 * half), 1, half)
        a, b = ct.extract(pairs, (0, 0, 0, 0), shape), ct.extract(pairs, (0, 0, 1, 0), shape)
        held = ct.cat((a + b, a - b), 2).reshape((rows, size))
    ct.store(out, (i, 0), (held * (1.0 / 16.0)).astype(out.dtype))


def _hadamard(rows: int, dtype: torch.dtype) -> Row:
    x, matrix = normal(rows, 256, dtype=dtype), torch.ones(1, 1)
    for _ in range(8):
        matrix = torch.cat((torch.cat((matrix, matrix), 1), torch.cat((matrix, -matrix), 1)))
    matrix = (matrix / 16).to(dtype)

    def butterflies(x):
        held = x.float()
        for stage in range(8):
            a, b = held.view(rows, -1, 2, 1 << stage).unbind(2)
            held = torch.stack((a + b, a - b), 2)
        return (held.view(rows, 256) / 16).to(x.dtype)

    return beside_torch(
        f"{rows} rows of 256 {kind(dtype)} by Hadamard's matrix",
        hadamard,
        (-(-rows // 4),),
        (x, torch.empty_like(x), 256, 4),
        lambda x, matrix: x @ matrix,
        x,
        matrix,
        bound=1e-3,
        more={"torch.compile by sums": compiled(butterflies, x)},
    )


@ct.kernel
def fourier_stages(x, factors, out, rows: ct.Constant[int], size: ct.Constant[int]):
    """Fourier transforms of rows of complex numbers by Stockham's stages: [row, place, 2]."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0, 0), (rows, size, 2))
    re = ct.extract(held, (0, 0, 0), (rows, size, 1)).reshape((rows, size))
    im = ct.extract(held, (0, 0, 1), (rows, size, 1)).reshape((rows, size))
    for stage in ct.static_iter(range(size.bit_length() - 1)):
        many, apart = size >> (stage + 1), 1 << stage
        at = ct.arange(many, dtype=ct.int32).reshape((1, many, 1)) * apart
        c, s = ct.gather(factors, (at, 0)), ct.gather(factors, (at, 1))
        re, im = re.reshape((rows, 2, many, apart)), im.reshape((rows, 2, many, apart))
        shape, flat = (rows, 1, many, apart), (rows, many, apart)
        ar = ct.extract(re, (0, 0, 0, 0), shape).reshape(flat)
        ai = ct.extract(im, (0, 0, 0, 0), shape).reshape(flat)
        br = ct.extract(re, (0, 1, 0, 0), shape).reshape(flat)
        bi = ct.extract(im, (0, 1, 0, 0), shape).reshape(flat)
        dr, di = ar - br, ai - bi
        wide = (rows, many, 1, apart)
        low, high = (ar + br).reshape(wide), (dr * c - di * s).reshape(wide)
        re = ct.cat((low, high), 2).reshape((rows, size))
        low, high = (ai + bi).reshape(wide), (dr * s + di * c).reshape(wide)
        im = ct.cat((low, high), 2).reshape((rows, size))
    both = ct.cat((re.reshape((rows, size, 1)), im.reshape((rows, size, 1))), 2)
    ct.store(out, (i, 0, 0), both)


def _fourier_stages(rows: int, size: int) -> Row:
    x = normal(rows, size, 2)
    turns = -2 * math.pi * torch.arange(size // 2, dtype=_F64) / size
    factors = torch.stack((turns.cos(), turns.sin()), 1).float()
    return beside_torch(
        f"Fourier transforms of {rows} rows of {size} complex64 by stages",
        fourier_stages,
        (rows // 4,),
        (x, factors, torch.empty_like(x), 4, size),
        lambda x: torch.view_as_real(torch.fft.fft(torch.view_as_complex(x))),
        x,
        bound=1e-5,
        compiles=False,
    )


@ct.kernel
def butterflies(
    x, table, out, steps: ct.Constant[int], rows: ct.Constant[int], size: ct.Constant[int]
):
    """Fourier transforms of rows by sorted butterflies (Stockham's): [row, place, real or imaginary]."""
    i = ct.bid(0)
    row = (i * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    place = ct.arange(size, dtype=ct.int32).reshape((1, size))
    re, im = ct.gather(x, (row, place, 0)), ct.gather(x, (row, place, 1))
    for step in ct.static_iter(range(steps)):
        many, piece = size >> (step + 1), 1 << step
        half = (rows, 1, many, piece)
        re, im = re.reshape((rows, 2, many, piece)), im.reshape((rows, 2, many, piece))
        a, b = ct.extract(re, (0, 0, 0, 0), half), ct.extract(re, (0, 1, 0, 0), half)
        c, d = ct.extract(im, (0, 0, 0, 0), half), ct.extract(im, (0, 1, 0, 0), half)
        angle = (ct.arange(many, dtype=ct.int32) * piece).reshape((1, 1, many, 1))
        cosine, sine = ct.gather(table, (angle, 0)), ct.gather(table, (angle, 1))
        p, q = a - b, c - d
        p, q = p * cosine - q * sine, p * sine + q * cosine
        each = (rows, many, 1, piece)
        re = ct.cat(((a + b).reshape(each), p.reshape(each)), 2).reshape((rows, size))
        im = ct.cat(((c + d).reshape(each), q.reshape(each)), 2).reshape((rows, size))
    ct.scatter(out, (row, place, 0), re)
    ct.scatter(out, (row, place, 1), im)


def _butterflies(rows_: int, size: int) -> Row:
    x = normal(rows_, size, 2)
    angle = torch.arange(size // 2, dtype=_F64) * (-2 * math.pi / size)
    table = torch.stack((angle.cos(), angle.sin()), 1).float()
    return beside_torch(
        f"Fourier transforms of {rows_} rows of {size} complex f32 by butterflies, 4 at a time",
        butterflies,
        (rows_ // 4,),
        (x, table, torch.empty_like(x), size.bit_length() - 1, 4, size),
        lambda x: torch.view_as_real(torch.fft.fft(torch.view_as_complex(x))),
        x,
        bound=1e-5,
        compiles=False,
    )


@ct.kernel
def recurrences(p, q, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """h = p h' + q h'' of each row modulo 2^32, by a scan of products of 2 x 2."""
    i = ct.bid(0)
    a = ct.load(p, (i, 0), (rows, tile), padding_mode=_ZERO)
    b = ct.load(q, (i, 0), (rows, tile), padding_mode=_ZERO)

    def product(a, b, c, d, e, f, g, h):
        return e * a + f * c, e * b + f * d, g * a + h * c, g * b + h * d

    one, nothing = ct.ones((rows, tile), ct.int32), ct.zeros((rows, tile), ct.int32)
    found, _, _, _ = ct.scan((a, b, one, nothing), 1, product, (1, 0, 0, 1))
    ct.store(out, (i, 0), found)


def _recurrences(rows: int, length: int) -> Row:
    p, q = integers(1 << 20, rows, length), integers(1 << 19, rows, length)

    def theirs(p, q):
        before, held = torch.zeros(rows, dtype=_I32), torch.ones(rows, dtype=_I32)
        found = []
        for t in range(length):
            held, before = p[:, t] * held + q[:, t] * before, held
            found.append(held)
        return torch.stack(found, 1)

    def make(nb):
        @nb.njit(parallel=True)
        def run(p, q, out):
            for i in nb.prange(rows):
                before, held = np.uint32(0), np.uint32(1)
                for t in range(length):
                    new = np.uint32(np.uint32(p[i, t]) * held + np.uint32(q[i, t]) * before)
                    held, before = new, held
                    out[i, t] = new

        made = np.empty((rows, length), np.uint32)
        return lambda: run(array(p), array(q), made)

    return beside_torch(
        f"recurrences of two steps of {rows} x {length} int32 by a scan",
        recurrences,
        (-(-rows // 2),),
        (p, q, torch.empty_like(p), 2, next_power(length)),
        theirs,
        p,
        q,
        more=by_numba(make),
        compiles=False,
    )


@ct.kernel
def richest(x, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """The largest sum of neighbours in each row, by a scan of sums, beginnings, ends and bests."""
    i = ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)
    column = ct.arange(tile, dtype=ct.int32).reshape((1, tile))
    held = ct.gather(x, (i.reshape((rows, 1)), column), padding_value=-100_000)

    def joined(a, b, c, d, e, f, g, h):
        best = ct.maximum(ct.maximum(d, h), c + f)
        return a + e, ct.maximum(b, a + f), ct.maximum(g, e + c), best

    low = -(1 << 29)
    _, _, _, best = ct.scan((held, held, held, held), 1, joined, (0, low, low, low))
    ct.scatter(out, i, ct.extract(best, (0, tile - 1), (rows, 1)).reshape((rows,)))


def _richest(rows: int, width: int) -> Row:
    x = integers(1000, rows, width) - 520

    def theirs(x):
        total = functional.pad(x.cumsum(1, dtype=_I32), (1, 0))
        return (total[:, 1:] - total.cummin(1).values[:, :-1]).amax(1)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, out):
            for i in nb.prange(rows):
                best, held = np.int32(-(1 << 29)), np.int32(0)
                for j in range(width):
                    held = max(held, np.int32(0)) + x[i, j]
                    best = max(best, held)
                out[i] = best

        made = np.empty(rows, np.int32)
        return lambda: run(array(x), made)

    return beside_torch(
        f"largest sum of neighbours in each of {rows} x {width} int32",
        richest,
        (-(-rows // 4),),
        (x, torch.empty(rows, dtype=_I32), 4, next_power(width)),
        theirs,
        x,
        more=by_numba(make),
    )


@ct.kernel
def running_logs(x, out, tile: ct.Constant[int]):
    """Logarithms of running sums of exponentials of each row, some at a time: [row, place]."""
    row = ct.bid(0)

    def joined(m, s, n, t):
        high = ct.maximum(m, n)
        return high, s * ct.exp(m - high) + t * ct.exp(n - high)

    before = ct.full((1, 1), -1e30, ct.float32)
    for j in range(ct.num_tiles(x, 1, (1, tile))):
        held = ct.load(x, (row, j), (1, tile), padding_mode=_ZERO)
        most, total = ct.scan((held, ct.ones((1, tile), ct.float32)), 1, joined, (-1e30, 0.0))
        high = ct.maximum(most, before)
        found = high + ct.log(total * ct.exp(most - high) + ct.exp(before - high))
        ct.store(out, (row, j), found)
        before = ct.extract(found, (0, tile - 1), (1, 1))


def _running_logs(rows: int, width: int) -> Row:
    x = normal(rows, width)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, out):
            for i in nb.prange(rows):
                most, total = x[i, 0], np.float32(0)
                for j in range(width):
                    held = x[i, j]
                    if held > most:
                        total = total * np.exp(most - held) + np.float32(1)
                        most = held
                    else:
                        total += np.exp(held - most)
                    out[i, j] = most + np.log(total)

        made = np.empty((rows, width), np.float32)
        return lambda: run(array(x), made)

    return beside_torch(
        f"logarithms of running sums of exponentials of {rows} x {width} float32",
        running_logs,
        (rows,),
        (x, torch.empty_like(x), 256),
        lambda x: torch.logcumsumexp(x, 1),
        x,
        bound=1e-5,
        more=by_numba(make),
    )


@ct.kernel
def nested(text, out, tile: ct.Constant[int]):
    """How deep in brackets each byte is; those in quotes do not count. A text in each row."""
    row = ct.bid(0)
    c = ct.load(text, (row, 0), (1, tile), padding_mode=_ZERO)
    quoted = ct.scan((c == 34).astype(ct.int32), 1, lambda a, b: a ^ b, 0)
    opens, closes = (c == 123) | (c == 91), (c == 125) | (c == 93)
    step = ct.where(quoted == 1, 0, opens.astype(ct.int32) - closes.astype(ct.int32))
    ct.store(out, (row, 0), ct.cumsum(step, 1).astype(ct.int16))


def _nested(rows: int, width: int) -> Row:
    letters = torch.tensor(list(b'{}[]"abc def: ,01'), dtype=_U8)
    text = letters[integers(len(letters), rows, width).long()]

    def theirs(text):
        quoted = (text == 34).cumsum(1, dtype=_I32) & 1
        opens, closes = (text == 123) | (text == 91), (text == 125) | (text == 93)
        step = opens.short() - closes.short()
        return torch.where(quoted == 1, 0, step).cumsum(1, dtype=_I16)

    def make(nb):
        @nb.njit(parallel=True)
        def run(text, out):
            for i in nb.prange(rows):
                quoted, depth = False, 0
                for j in range(width):
                    c = text[i, j]
                    quoted ^= c == 34
                    step = int(c == 123 or c == 91) - int(c == 125 or c == 93)
                    depth += 0 if quoted else step
                    out[i, j] = depth

        made = np.empty((rows, width), np.int16)
        return lambda: run(array(text), made)

    return beside_torch(
        f"depth in brackets of {rows} texts of {width} bytes",
        nested,
        (rows,),
        (text, torch.empty(rows, width, dtype=_I16), next_power(width)),
        theirs,
        text,
        more=by_numba(make),
    )


@ct.kernel
def checked(text, table, out, tile: ct.Constant[int]):
    """CRC-32 of each message by a table of 256: [message, byte]."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    held = ct.full((tile,), 0xFFFFFFFF, ct.uint32)
    for k in range(text.shape[1]):
        at = (held ^ ct.gather(text, (i, k)).astype(ct.uint32)) & 255
        held = (held >> 8) ^ ct.gather(table, at.astype(ct.int32))
    ct.scatter(out, i, held ^ 0xFFFFFFFF)


def _checked(many: int, length: int) -> Row:
    text = integers(256, many, length, dtype=_U8)
    each = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        each = (each >> 1) ^ np.where(each & 1, np.uint32(0xEDB88320), np.uint32(0))
    table = torch.tensor(each)
    wide = table.long()

    def theirs(text, wide):
        held = torch.full((many,), 0xFFFFFFFF)
        for k in range(length):
            held = (held >> 8) ^ wide[(held ^ text[:, k]) & 255]
        return held ^ 0xFFFFFFFF

    def make(nb):
        @nb.njit(parallel=True)
        def run(text, table, out):
            for i in nb.prange(many):
                held = np.uint32(0xFFFFFFFF)
                for k in range(length):
                    at = (held ^ np.uint32(text[i, k])) & np.uint32(255)
                    held = np.uint32(held >> np.uint32(8)) ^ table[at]
                out[i] = held ^ np.uint32(0xFFFFFFFF)

        made = np.empty(many, np.uint32)
        return lambda: run(array(text), each, made)

    return beside_torch(
        f"CRC-32 of {many} messages of {length} bytes",
        checked,
        (-(-many // 256),),
        (text, table, torch.empty(many, dtype=torch.uint32), 256),
        theirs,
        text,
        wide,
        more={"zlib": lambda: [zlib.crc32(row) for row in array(text)]} | by_numba(make),
        compiles=False,
    )


@ct.kernel
def from_hex(text, out, tile: ct.Constant[int]):
    """Two letters to a byte."""
    i = ct.bid(0)
    c = ct.load(text, (i,), (2 * tile,), padding_mode=_ZERO)
    digit = ct.where(c <= 57, c - 48, (c | 32) - 87).reshape((tile, 2))
    high, low = ct.extract(digit, (0, 0), (tile, 1)), ct.extract(digit, (0, 1), (tile, 1))
    ct.store(out, (i,), ((high << 4) | low).reshape((tile,)))


def _from_hex(many: int) -> Row:
    letters = torch.tensor(list(b"0123456789abcdef"), dtype=_U8)
    text = letters[integers(16, 2 * many).long()]

    def theirs(text):
        digit = torch.where(text <= 57, text - 48, (text | 32) - 87)
        return (digit[::2] << 4) | digit[1::2]

    def make(nb):
        @nb.njit(parallel=True)
        def run(text, out):
            u = np.uint8
            for i in nb.prange(many):
                a, b = text[2 * i], text[2 * i + 1]
                high = u(a - u(48)) if a <= 57 else u((a | u(32)) - u(87))
                low = u(b - u(48)) if b <= 57 else u((b | u(32)) - u(87))
                out[i] = u(high << u(4)) | low

        made = np.empty(many, np.uint8)
        return lambda: run(array(text), made)

    return beside_torch(
        f"{many} bytes from letters of hexadecimal digits",
        from_hex,
        (-(-many // 1024),),
        (text, torch.empty(many, dtype=_U8), 1024),
        theirs,
        text,
        more={"binascii": lambda: binascii.unhexlify(array(text))} | by_numba(make),
    )


@ct.kernel
def differences(x, out, widths, rows: ct.Constant[int]):
    """Differences of each 128 numbers with their signs last, and how many bits the longest has."""
    row = ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)
    i, j = row.reshape((rows, 1)), ct.arange(128, dtype=ct.int32).reshape((1, 128))
    change = ct.gather(x, (i, j)) - ct.gather(x, (i, j - 1))
    folded = ((change << 1) ^ (change >> 31)).astype(ct.uint32)
    ct.scatter(out, (i, j), folded)
    every = ct.reduce(folded, 1, lambda a, b: a | b, 0, keepdims=True)
    places = ct.arange(32, dtype=ct.uint32).reshape((1, 32))
    bits = ct.sum(((every >> places) != 0).astype(ct.int32), 1)
    ct.scatter(widths, row, bits.astype(ct.uint8))


def _differences(rows: int) -> Row:
    x = (integers(2000, rows, 128) - 900).cumsum(1, dtype=_I32)

    def theirs(x):
        change = torch.diff(x, dim=1, prepend=torch.zeros(rows, 1, dtype=_I32))
        folded = (change << 1) ^ (change >> 31)
        places = torch.arange(32, dtype=_I32)
        return folded, ((folded.amax(1, keepdim=True) >> places) != 0).sum(1, dtype=_U8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, out, widths):
            for i in nb.prange(rows):
                before, every = np.int32(0), np.uint32(0)
                for j in range(128):
                    change = np.int32(x[i, j] - before)
                    before = x[i, j]
                    folded = np.uint32(np.int32(change << 1) ^ np.int32(change >> 31))
                    out[i, j] = folded
                    every |= folded
                bits = 0
                while every:
                    every >>= np.uint32(1)
                    bits += 1
                widths[i] = bits

        made = np.empty((rows, 128), np.uint32), np.empty(rows, np.uint8)
        return lambda: run(array(x), *made)

    return beside_torch(
        f"differences of {rows} x 128 int32 and their bits",
        differences,
        (-(-rows // 8),),
        (x, torch.empty(rows, 128, dtype=torch.uint32), torch.empty(rows, dtype=_U8), 8),
        theirs,
        x,
        outputs=2,
        more=by_numba(make),
    )


@ct.kernel
def splines(x, knots, parts, out, rounds: ct.Constant[int], tile: ct.Constant[int]):
    """Cubics between knots at any distances, found by halving: parts [power, knot]."""
    i = ct.bid(0)
    held = ct.load(x, (i,), (tile,), padding_mode=_ZERO)
    low = ct.zeros((tile,), ct.int32)
    high = ct.full((tile,), knots.shape[0] - 1, ct.int32)
    for _ in range(rounds):
        middle = (low + high) >> 1
        above = ct.gather(knots, middle) <= held
        low, high = ct.where(above, middle, low), ct.where(above, high, middle)
    off = held - ct.gather(knots, low)
    total = ct.gather(parts, (3, low))
    for power in ct.static_iter((2, 1, 0)):
        total = total * off + ct.gather(parts, (power, low))
    ct.store(out, (i,), total)


def _splines(many: int, knots: int) -> Row:
    x, parts = uniform(many), normal(4, knots)
    each = uniform(knots, seed=5).sort().values
    each[0], each[-1] = 0.0, 1.0

    def theirs(x, knots, parts):
        low = torch.searchsorted(knots, x, right=True) - 1
        off, (a, b, c, d) = x - knots[low], parts[:, low]
        return ((d * off + c) * off + b) * off + a

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, knots, parts, out):
            for i in nb.prange(x.size):
                low, high = 0, knots.size - 1
                while high - low > 1:
                    middle = (low + high) >> 1
                    if knots[middle] <= x[i]:
                        low = middle
                    else:
                        high = middle
                off = x[i] - knots[low]
                total = parts[3, low] * off + parts[2, low]
                out[i] = (total * off + parts[1, low]) * off + parts[0, low]

        made = np.empty(many, np.float32)
        return lambda: run(array(x), array(each), array(parts), made)

    return beside_torch(
        f"cubics between {knots} knots at {many} places float32",
        splines,
        (-(-many // 512),),
        (x, each, parts, torch.empty_like(x), (knots - 2).bit_length(), 512),
        theirs,
        x,
        each,
        parts,
        bound=1e-5,
        more=by_numba(make),
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _digit_counts(1_500_017, 16, 8),
        lambda: _marked(1 << 20, 1 << 22),
        lambda: _log_gamma(100_001),
        lambda: _chebyshev(500_001, 24),
        lambda: _bitonic(4096, 64, _F32),
        lambda: _bitonic(1024, 256, _I32),
        lambda: _hadamard(3001, _F16),
        lambda: _fourier_stages(4096, 64),
        lambda: _butterflies(1024, 512),
        lambda: _recurrences(501, 1000),
        lambda: _richest(2001, 500),
        lambda: _running_logs(401, 1000),
        lambda: _nested(501, 2000),
        lambda: _checked(16_001, 48),
        lambda: _from_hex(1_000_001),
        lambda: _differences(8001),
        lambda: _splines(300_001, 1000),
    ]
