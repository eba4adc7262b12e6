"""Pictures, matrices, particles, tables, written as by a regular."""

from __future__ import annotations

import math
from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import scipy.sparse
import torch
from torch.nn import functional

from benchmarks import unseen_regulars_work_more as others
from benchmarks.unseen_rows import (
    Row,
    array,
    beside_torch,
    by_numba,
    integers,
    next_power,
    normal,
    uniform,
)

_F32, _F64, _F16, _BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
_I32, _I16, _I8, _U8 = torch.int32, torch.int16, torch.int8, torch.uint8


def pixel(x, i, j):
    """A pixel as a number, zero outside."""
    return ct.gather(x, (i, j), padding_value=0).astype(ct.float32)


@ct.kernel
def corners(x, out, share, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Harris' measure of corners: products of slopes summed over 3 x 3."""
    i = (ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    j = (ct.bid(1) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    a = ct.zeros((rows, tile), ct.float32)
    b = ct.zeros((rows, tile), ct.float32)
    c = ct.zeros((rows, tile), ct.float32)
    for di in range(-1, 2):
        for dj in range(-1, 2):
            p, q = i + di, j + dj
            dx = 0.5 * (pixel(x, p, q + 1) - pixel(x, p, q - 1))
            dy = 0.5 * (pixel(x, p + 1, q) - pixel(x, p - 1, q))
            a += dx * dx
            b += dx * dy
            c += dy * dy
    trace = a + c
    ct.store(out, (ct.bid(0), ct.bid(1)), a * c - b * b - share * trace * trace)


def _corners(height: int, width: int) -> Row:
    x = (
        functional.avg_pool2d(uniform(1, height + 4, width + 4) * 600, 5, 1)[0]
        .clamp(0, 255)
        .to(_U8)
    )
    share = 0.0625

    def theirs(x):
        wide = functional.pad(x, (2, 2, 2, 2)).float()
        dx = 0.5 * (wide[1:-1, 2:] - wide[1:-1, :-2])
        dy = 0.5 * (wide[2:, 1:-1] - wide[:-2, 1:-1])
        products = functional.avg_pool2d(
            torch.stack((dx * dx, dx * dy, dy * dy)), 3, 1, divisor_override=1
        )
        a, b, c = products
        return a * c - b * b - share * (a + c) ** 2

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, wide, sums, out):
            f = np.float32
            for i in nb.prange(height):
                for j in range(width):
                    wide[i + 2, j + 2] = x[i, j]
            for i in nb.prange(height + 2):
                for j in range(width + 2):
                    dx = f(0.5) * (wide[i + 1, j + 2] - wide[i + 1, j])
                    dy = f(0.5) * (wide[i + 2, j + 1] - wide[i, j + 1])
                    sums[0, i, j], sums[1, i, j], sums[2, i, j] = dx * dx, dx * dy, dy * dy
            for i in nb.prange(height):
                for j in range(width):
                    a, b, c = f(0), f(0), f(0)
                    for p in range(i, i + 3):
                        for q in range(j, j + 3):
                            a += sums[0, p, q]
                            b += sums[1, p, q]
                            c += sums[2, p, q]
                    out[i, j] = a * c - b * b - f(share) * (a + c) * (a + c)

        wide = np.zeros((height + 4, width + 4), np.float32)
        sums = np.empty((3, height + 2, width + 2), np.float32)
        made = np.empty((height, width), np.float32)
        return lambda: run(array(x), wide, sums, made)

    return beside_torch(
        f"Harris' measure of corners of {height} x {width} uint8, tiles 8x128",
        corners,
        (-(-height // 8), -(-width // 128)),
        (x, torch.empty(height, width), share, 8, 128),
        theirs,
        x,
        bound=1e-5,
        more=by_numba(make),
    )


@ct.kernel
def thinned(x, out, tile: ct.Constant[int]):
    """The first half of a step of Zhang and Suen's thinning of a picture of bool, a piece of a row at a time."""
    i = ct.bid(0)
    j = ct.bid(1) * tile + ct.arange(tile, dtype=ct.int32)
    held = ct.gather(x, (i, j), padding_value=False)
    around = ()
    for di, dj in ct.static_iter(
        ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1))
    ):
        around += (ct.gather(x, (i + di, j + dj), padding_value=False),)
    count = ct.zeros((tile,), ct.int32)
    turns = ct.zeros((tile,), ct.int32)
    for n in ct.static_iter(range(8)):
        count += around[n].astype(ct.int32)
        turns += (around[(n + 1) % 8] & ~around[n]).astype(ct.int32)
    north, east, south, west = around[0], around[2], around[4], around[6]
    gone = (count >= 2) & (count <= 6) & (turns == 1)
    gone = gone & ~(north & east & south) & ~(east & south & west)
    ct.scatter(out, (i, j), held & ~gone)


def _thinned(height: int, width: int) -> Row:
    x = functional.avg_pool2d(uniform(1, height + 8, width + 8), 9, 1)[0] > 0.5

    def theirs(x):
        wide = functional.pad(x, (1, 1, 1, 1))
        at = ((0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0), (0, 0))
        around = [wide[i : i + height, j : j + width] for i, j in at]
        count = sum(each.to(_I8) for each in around)
        turns = sum((around[(n + 1) % 8] & ~around[n]).to(_I8) for n in range(8))
        north, _, east, _, south, _, west, _ = around
        gone = (count >= 2) & (count <= 6) & (turns == 1)
        return x & ~(gone & ~(north & east & south) & ~(east & south & west))

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, wide, out):
            for i in nb.prange(height):
                wide[i + 1, 1:-1] = x[i]
            for i in nb.prange(height):
                above, here, below = wide[i], wide[i + 1], wide[i + 2]
                for j in range(width):
                    a, b, c, d = above[j + 1], above[j + 2], here[j + 2], below[j + 2]
                    e, f, g, h = below[j + 1], below[j], here[j], above[j]
                    count = np.uint8(a + b + c + d + e + f + g + h)
                    turns = (
                        np.uint8(b & ~a) + np.uint8(c & ~b) + np.uint8(d & ~c) + np.uint8(e & ~d)
                    )
                    turns += (
                        np.uint8(f & ~e) + np.uint8(g & ~f) + np.uint8(h & ~g) + np.uint8(a & ~h)
                    )
                    gone = np.uint8(count >= 2) & np.uint8(count <= 6) & np.uint8(turns == 1)
                    gone &= (np.uint8(1) ^ (a & c & e)) & (np.uint8(1) ^ (c & e & g))
                    out[i, j] = here[j + 1] & (np.uint8(1) ^ gone)

        wide, made = (
            np.zeros((height + 2, width + 2), np.uint8),
            np.empty((height, width), np.uint8),
        )
        return lambda: run(array(x).view(np.uint8), wide, made)

    return beside_torch(
        f"half a step of thinning of {height} x {width} bool",
        thinned,
        (height, -(-width // 256)),
        (x, torch.empty_like(x), 256),
        theirs,
        x,
        more=by_numba(make),
    )


def folded(waves, k, inside, taps):
    """Sums of some complex samples from the k-th piece on."""
    real = ct.zeros(k.shape, ct.float32)
    imaginary = ct.zeros(k.shape, ct.float32)
    for n in range(taps):
        real += ct.gather(waves, (k * taps + n, 0), mask=inside).astype(ct.float32)
        imaginary += ct.gather(waves, (k * taps + n, 1), mask=inside).astype(ct.float32)
    return real, imaginary


@ct.kernel
def demodulated(waves, out, taps: ct.Constant[int], tile: ct.Constant[int]):
    """A sound from a wave of changing frequency: how far the phase goes from piece to piece: [sample, part]."""
    k = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    a, b = folded(waves, k, k < out.shape[0], taps)
    c, d = folded(waves, k - 1, k > 0, taps)
    ct.scatter(out, k, ct.atan2(b * c - a * d, a * c + b * d))


def _demodulated(many: int, taps: int) -> Row:
    phase = torch.cumsum(0.25 * torch.sin(torch.arange(many * taps) / 350.0).double(), 0)
    waves = torch.stack((phase.cos(), phase.sin()), 1) * 8000 + 100 * normal(many * taps, 2)
    waves = waves.to(_I16)

    def theirs(waves):
        found = waves.view(many, taps, 2).float().sum(1)
        a, b = functional.pad(found, (0, 0, 1, 0))[:-1].unbind(1), found.unbind(1)
        return torch.atan2(b[1] * a[0] - b[0] * a[1], b[0] * a[0] + b[1] * a[1])

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(waves, sums, out):
            for k in nb.prange(many):
                a, b = np.int32(0), np.int32(0)
                for n in range(k * taps, (k + 1) * taps):
                    a += waves[n, 0]
                    b += waves[n, 1]
                sums[k + 1, 0], sums[k + 1, 1] = a, b
            for k in nb.prange(many):
                a, b, c, d = sums[k + 1, 0], sums[k + 1, 1], sums[k, 0], sums[k, 1]
                out[k] = math.atan2(b * c - a * d, a * c + b * d)

        sums, made = np.zeros((many + 1, 2), np.float32), np.empty(many, np.float32)
        return lambda: run(array(waves), sums, made)

    return beside_torch(
        f"a sound of {many} samples from the phases of {taps} times as many int16 pairs",
        demodulated,
        (-(-many // 256),),
        (waves, torch.empty(many), taps, 256),
        theirs,
        waves,
        bound=1e-5,
        more=by_numba(make),
    )


@ct.kernel
def sparse_times(starts, columns, values, x, out, some: ct.Constant[int], tile: ct.Constant[int]):
    """A row of CSR times a matrix of some columns, a few of its numbers at a time."""
    row = ct.bid(0)
    start, end = ct.gather(starts, row), ct.gather(starts, row + 1)
    j = ct.arange(tile, dtype=ct.int32).reshape((1, tile))
    total = ct.zeros((some, tile), x.dtype)
    for t in range(start, end, some):
        k = t + ct.arange(some, dtype=ct.int32)
        column = ct.gather(columns, k, mask=k < end, padding_value=-1).reshape((some, 1))
        value = ct.gather(values, k, mask=k < end, padding_value=0).reshape((some, 1))
        total += value * ct.gather(x, (column, j), padding_value=0)
    ct.scatter(out, (row, j), ct.sum(total, 0, keepdims=True))


def _sparse_times(rows: int, most: int, width: int) -> Row:
    counts = integers(most, rows) + 1
    starts = functional.pad(counts.cumsum(0, dtype=_I32), (1, 0))
    columns, values = integers(rows, int(starts[-1])), normal(int(starts[-1]), dtype=_F64)
    x = normal(rows, width, dtype=_F64)
    held = torch.sparse_csr_tensor(starts, columns, values, (rows, rows), check_invariants=False)
    known = scipy.sparse.csr_array((array(values), array(columns), array(starts)), (rows, rows))

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(starts, columns, values, x, out):
            for i in nb.prange(rows):
                for j in range(width):
                    out[i, j] = 0
                for k in range(starts[i], starts[i + 1]):
                    column, value = columns[k], values[k]
                    for j in range(width):
                        out[i, j] += value * x[column, j]

        made, given = (
            np.empty((rows, width)),
            [array(each) for each in (starts, columns, values, x)],
        )
        return lambda: run(*given, made)

    return beside_torch(
        f"CSR of {rows} rows of up to {most} times {width} columns float64",
        sparse_times,
        (rows,),
        (starts, columns, values, x, torch.empty_like(x), 8, next_power(width)),
        lambda x: held @ x,
        x,
        bound=1e-14,
        more={"scipy": lambda: known @ array(x)} | by_numba(make),
        compiles=False,
    )


@ct.kernel
def five_bands(bands, y, work, out, tile: ct.Constant[int]):
    """Systems of five diagonals without pivots, one for each lane: bands[diagonal, row, system]."""
    s, many = ct.bid(0), y.shape[0]
    zero = ct.zeros((tile,), y.dtype)
    a1, a2, b1, b2, z1, z2 = zero, zero, zero, zero, zero, zero
    for i in range(many):
        below = ct.load(bands, (0, i, s), (1, 1, tile)).reshape((tile,))
        c = ct.load(bands, (1, i, s), (1, 1, tile)).reshape((tile,)) - a2 * below
        d = ct.load(bands, (2, i, s), (1, 1, tile)).reshape((tile,)) - b2 * below - a1 * c
        a = (ct.load(bands, (3, i, s), (1, 1, tile)).reshape((tile,)) - b1 * c) / d
        b = ct.load(bands, (4, i, s), (1, 1, tile)).reshape((tile,)) / d
        z = (ct.load(y, (i, s), (1, tile)).reshape((tile,)) - z2 * below - z1 * c) / d
        ct.store(work, (0, i, s), a.reshape((1, 1, tile)))
        ct.store(work, (1, i, s), b.reshape((1, 1, tile)))
        ct.store(out, (i, s), z.reshape((1, tile)))
        a1, a2, b1, b2, z1, z2 = a, a1, b, b1, z, z1
    x1, x2 = zero, zero
    for k in range(many):
        i = many - 1 - k
        x = ct.load(out, (i, s), (1, tile)).reshape((tile,))
        x -= ct.load(work, (0, i, s), (1, 1, tile)).reshape((tile,)) * x1
        x -= ct.load(work, (1, i, s), (1, 1, tile)).reshape((tile,)) * x2
        ct.store(out, (i, s), x.reshape((1, tile)))
        x1, x2 = x, x1


def _five_bands(many: int, systems: int) -> Row:
    bands, y = normal(5, many, systems, dtype=_F64), normal(many, systems, dtype=_F64)
    bands[2] += 12

    def theirs(bands, y):
        zero = torch.zeros(systems, dtype=y.dtype)
        a, b, z, x = [zero] * 2, [zero] * 2, [zero] * 2, [zero] * 2
        for i in range(many):
            c = bands[1, i] - a[i] * bands[0, i]
            d = bands[2, i] - b[i] * bands[0, i] - a[i + 1] * c
            a.append((bands[3, i] - b[i + 1] * c) / d)
            b.append(bands[4, i] / d)
            z.append((y[i] - z[i] * bands[0, i] - z[i + 1] * c) / d)
        for i in reversed(range(many)):
            x.append(z[i + 2] - a[i + 2] * x[-1] - b[i + 2] * x[-2])
        return torch.stack(x[:1:-1])

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(bands, y, a, b, out):
            for block in nb.prange(-(-systems // 64)):
                first, last = block * 64, min(block * 64 + 64, systems)
                for i in range(many):
                    for s in range(first, last):
                        below = bands[0, i, s] if i > 1 else 0.0
                        c = bands[1, i, s] - a[i, s] * below
                        d = 1 / (bands[2, i, s] - b[i, s] * below - a[i + 1, s] * c)
                        z = y[i, s] - (out[i - 2, s] * below if i > 1 else 0.0)
                        z -= out[i - 1, s] * c if i > 0 else 0.0
                        a[i + 2, s], b[i + 2, s] = (
                            (bands[3, i, s] - b[i + 1, s] * c) * d,
                            bands[4, i, s] * d,
                        )
                        out[i, s] = z * d
                for s in range(first, last):
                    out[many - 2, s] -= a[many, s] * out[many - 1, s]
                for i in range(many - 3, -1, -1):
                    for s in range(first, last):
                        out[i, s] -= a[i + 2, s] * out[i + 1, s] + b[i + 2, s] * out[i + 2, s]

        work, made = [np.zeros((many + 2, systems)) for _ in range(2)], np.empty((many, systems))
        return lambda: run(array(bands), array(y), *work, made)

    return beside_torch(
        f"{systems} systems of five diagonals of {many} float64",
        five_bands,
        (-(-systems // 128),),
        (bands, y, torch.empty(2, many, systems, dtype=_F64), torch.empty_like(y), 128),
        theirs,
        bands,
        y,
        bound=1e-13,
        more=by_numba(make),
        compiles=False,
    )


@ct.kernel
def by_factors(
    x, b, c, out, rows: ct.Constant[int], depth: ct.Constant[int], rank: ct.Constant[int]
):
    """A tensor [i, j, k] times the factors of its last two axes, which share a column: [i, column]."""
    i = ct.bid(0)
    total = ct.zeros((rows, rank), ct.float32)
    for j in range(x.shape[1]):
        found = ct.zeros((rows, rank), ct.float32)
        for k in range(ct.cdiv(x.shape[2], depth)):
            held = ct.load(x, (i, j, k), (rows, 1, depth), padding_mode=ct.PaddingMode.ZERO)
            factor = ct.load(c, (k, 0), (depth, rank), padding_mode=ct.PaddingMode.ZERO)
            found = ct.mma(held.reshape((rows, depth)), factor, found)
        total += found * ct.load(b, (j, 0), (1, rank), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (i, 0), total)


def _by_factors(dims: tuple[int, int, int], rank: int) -> Row:
    x, b, c = (
        normal(*dims, dtype=_F16),
        normal(dims[1], rank, dtype=_F16),
        normal(dims[2], rank, dtype=_F16),
    )

    def theirs(x, b, c):
        wide = torch.promote_types(x.dtype, _F32)
        return ((x @ c).to(wide) * b.to(wide)).sum(1)

    def in_float32():
        return ((x.float() @ c.float()) * b.float()).sum(1)

    return beside_torch(
        f"a tensor of {' x '.join(map(str, dims))} times two factors of {rank} columns float16, tiles 32x32x32",
        by_factors,
        (-(-dims[0] // 32),),
        (x, b, c, torch.empty(dims[0], rank), 32, 32, next_power(rank)),
        theirs,
        x,
        b,
        c,
        bound=1e-5,
        more={"torch in float32": in_float32},
    )


@ct.kernel
def correlated(x, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Pearson's correlations of some columns and some others."""
    i, j = ct.bid(0), ct.bid(1)
    product = ct.zeros((tile, tile), ct.float32)
    sa, sb = ct.zeros((tile,), ct.float32), ct.zeros((tile,), ct.float32)
    qa, qb = ct.zeros((tile,), ct.float32), ct.zeros((tile,), ct.float32)
    for t in range(ct.cdiv(x.shape[0], rows)):
        a = ct.load(x, (t, i), (rows, tile), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(x, (t, j), (rows, tile), padding_mode=ct.PaddingMode.ZERO)
        product = ct.mma(ct.transpose(a), b, product)
        fa, fb = a.astype(ct.float32), b.astype(ct.float32)
        sa, sb = sa + ct.sum(fa, 0), sb + ct.sum(fb, 0)
        qa, qb = qa + ct.sum(fa * fa, 0), qb + ct.sum(fb * fb, 0)
    n = x.shape[0]
    over = ct.rsqrt(n * qa - sa * sa)[:, None] * ct.rsqrt(n * qb - sb * sb)[None, :]
    ct.store(out, (i, j), (n * product - sa[:, None] * sb[None, :]) * over)


def _correlated(many: int, width: int) -> Row:
    x = (normal(many, width) @ (torch.eye(width) + 0.1 * normal(width, width)) + 0.5).to(_BF16)
    tiles = -(-width // 64)
    return beside_torch(
        f"correlations of {width} columns of {many} bfloat16, tiles 64x64x64",
        correlated,
        (tiles, tiles),
        (x, torch.empty(width, width), 64, 64),
        lambda x: torch.corrcoef(x.to(torch.promote_types(x.dtype, _F32)).T),
        x,
        bound=1e-5,
    )


def with_zeros(k, low, high):
    """A number with a bit of zero put in at two places."""
    k = ((k >> low) << (low + 1)) | (k & ((1 << low) - 1))
    return ((k >> high) << (high + 1)) | (k & ((1 << high) - 1))


@ct.kernel
def gated(state, gate, out, low: ct.Constant[int], high: ct.Constant[int], tile: ct.Constant[int]):
    """A gate of two qubits on a state: amplitudes as pairs, gate[row, column, part]."""
    base = with_zeros(ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32), low, high)
    places, real, imaginary = (), (), ()
    for n in ct.static_iter(range(4)):
        at = base + ((n >> 1) << high) + ((n & 1) << low)
        places += (at,)
        real += (ct.gather(state, (at, 0)),)
        imaginary += (ct.gather(state, (at, 1)),)
    for r in ct.static_iter(range(4)):
        a = ct.zeros((tile,), ct.float32)
        b = ct.zeros((tile,), ct.float32)
        for c in ct.static_iter(range(4)):
            p, q = ct.gather(gate, (r, c, 0)), ct.gather(gate, (r, c, 1))
            a += p * real[c] - q * imaginary[c]
            b += p * imaginary[c] + q * real[c]
        ct.scatter(out, (places[r], 0), a)
        ct.scatter(out, (places[r], 1), b)


def _gated(qubits: int, low: int, high: int) -> Row:
    state, gate = normal(1 << qubits, 2), normal(4, 4, 2)
    dims = (1 << (qubits - 1 - high), 2, 1 << (high - 1 - low), 2, 1 << low)

    def theirs(state, gate):
        held, by = (
            torch.view_as_complex(state).view(dims),
            torch.view_as_complex(gate).view(2, 2, 2, 2),
        )
        found = torch.einsum("xyuv,aubvc->axbyc", by, held).contiguous()
        return torch.view_as_real(found.view(-1))

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(state, gate, out):
            step, leap = 1 << low, 1 << high
            for group in nb.prange(state.size // (4 * step)):
                first = group * step
                first = ((first >> low) << (low + 1)) | (first & (step - 1))
                first = ((first >> high) << (high + 1)) | (first & (leap - 1))
                for i in range(first, first + step):
                    a, b, c, d = state[i], state[i + step], state[i + leap], state[i + leap + step]
                    out[i] = gate[0, 0] * a + gate[0, 1] * b + gate[0, 2] * c + gate[0, 3] * d
                    out[i + step] = (
                        gate[1, 0] * a + gate[1, 1] * b + gate[1, 2] * c + gate[1, 3] * d
                    )
                    out[i + leap] = (
                        gate[2, 0] * a + gate[2, 1] * b + gate[2, 2] * c + gate[2, 3] * d
                    )
                    out[i + leap + step] = (
                        gate[3, 0] * a + gate[3, 1] * b + gate[3, 2] * c + gate[3, 3] * d
                    )

        held = [array(torch.view_as_complex(each)) for each in (state, gate)]
        made = np.empty(1 << qubits, np.complex64)
        return lambda: run(*held, made)

    return beside_torch(
        f"a gate on qubits {low} and {high} of {qubits} complex64",
        gated,
        ((1 << qubits) // 1024,),
        (state, gate, torch.empty_like(state), low, high, 256),
        theirs,
        state,
        gate,
        bound=1e-5,
        more=by_numba(make),
        compiles=False,
    )


def cell(u, i, j):
    """Density, momenta and energy of cells."""
    return (
        ct.gather(u, (0, i, j)),
        ct.gather(u, (1, i, j)),
        ct.gather(u, (2, i, j)),
        ct.gather(u, (3, i, j)),
    )


def across(a, b):
    """Rusanov's flux from cells a to cells b; the second number of each is the momentum across the face."""
    pa = 0.4 * (a[3] - 0.5 * (a[1] * a[1] + a[2] * a[2]) / a[0])
    pb = 0.4 * (b[3] - 0.5 * (b[1] * b[1] + b[2] * b[2]) / b[0])
    va, vb = a[1] / a[0], b[1] / b[0]
    speed = ct.maximum(ct.abs(va) + ct.sqrt(1.4 * pa / a[0]), ct.abs(vb) + ct.sqrt(1.4 * pb / b[0]))
    return (
        0.5 * (a[1] + b[1] - speed * (b[0] - a[0])),
        0.5 * (a[1] * va + pa + b[1] * vb + pb - speed * (b[1] - a[1])),
        0.5 * (a[2] * va + b[2] * vb - speed * (b[2] - a[2])),
        0.5 * ((a[3] + pa) * va + (b[3] + pb) * vb - speed * (b[3] - a[3])),
    )


@ct.kernel
def euler(u, out, over, rows: ct.Constant[int], tile: ct.Constant[int]):
    """A step of Euler's equations of a gas on a torus: u[quantity, row, column]."""
    height, width = u.shape[1], u.shape[2]
    i = (ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    j = (ct.bid(1) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    here = cell(u, i, j)
    west, east = cell(u, i, (j + width - 1) % width), cell(u, i, (j + 1) % width)
    w, e = across(west, here), across(here, east)
    r, m, n, p = here
    up = cell(u, (i + height - 1) % height, j)
    down = cell(u, (i + 1) % height, j)
    turned = (r, n, m, p)
    s = across((up[0], up[2], up[1], up[3]), turned)
    t = across(turned, (down[0], down[2], down[1], down[3]))
    ct.scatter(out, (0, i, j), r - over * (e[0] - w[0] + t[0] - s[0]))
    ct.scatter(out, (1, i, j), m - over * (e[1] - w[1] + t[2] - s[2]))
    ct.scatter(out, (2, i, j), n - over * (e[2] - w[2] + t[1] - s[1]))
    ct.scatter(out, (3, i, j), p - over * (e[3] - w[3] + t[3] - s[3]))


def _across_faces(nb, f):
    """Rusanov's flux for numba."""

    @nb.njit(fastmath=True, inline="always")
    def run(a0, a1, a2, a3, b0, b1, b2, b3):
        va, vb = a1 / a0, b1 / b0
        pa = f(0.4) * (a3 - f(0.5) * (a1 * a1 + a2 * a2) / a0)
        pb = f(0.4) * (b3 - f(0.5) * (b1 * b1 + b2 * b2) / b0)
        speed = max(abs(va) + np.sqrt(f(1.4) * pa / a0), abs(vb) + np.sqrt(f(1.4) * pb / b0))
        return (
            f(0.5) * (a1 + b1 - speed * (b0 - a0)),
            f(0.5) * (a1 * va + pa + b1 * vb + pb - speed * (b1 - a1)),
            f(0.5) * (a2 * va + b2 * vb - speed * (b2 - a2)),
            f(0.5) * ((a3 + pa) * va + (b3 + pb) * vb - speed * (b3 - a3)),
        )

    return run


def _euler_by_numba(nb, u, over):
    """The same step by numba, fluxes of all faces first."""
    height, width = u.shape[1:]
    f = np.float32
    face = _across_faces(nb, f)

    @nb.njit(parallel=True, fastmath=True)
    def run(u, x, y, out):
        for i in nb.prange(height):
            k = i + 1 if i + 1 < height else 0
            for j in range(width):
                a, b, c, d = u[0, i, j], u[1, i, j], u[2, i, j], u[3, i, j]
                flow = face(a, c, b, d, u[0, k, j], u[2, k, j], u[1, k, j], u[3, k, j])
                y[0, k, j], y[2, k, j], y[1, k, j], y[3, k, j] = flow
            for j in range(width - 1):
                a, b, c, d = u[0, i, j], u[1, i, j], u[2, i, j], u[3, i, j]
                n = j + 1
                flow = face(a, b, c, d, u[0, i, n], u[1, i, n], u[2, i, n], u[3, i, n])
                x[0, i, n], x[1, i, n], x[2, i, n], x[3, i, n] = flow
            a, b, c, d = u[0, i, -1], u[1, i, -1], u[2, i, -1], u[3, i, -1]
            flow = face(a, b, c, d, u[0, i, 0], u[1, i, 0], u[2, i, 0], u[3, i, 0])
            for q in range(4):
                x[q, i, 0] = x[q, i, width] = flow[q]
        for i in nb.prange(height):
            k = i + 1 if i + 1 < height else 0
            for q in range(4):
                for j in range(width):
                    change = x[q, i, j + 1] - x[q, i, j] + y[q, k, j] - y[q, i, j]
                    out[q, i, j] = u[q, i, j] - f(over) * change

    x, y, made = (np.empty((4, height, width + n), np.float32) for n in (1, 0, 0))
    return lambda: run(array(u), x, y, made)


def _euler(height: int, width: int) -> Row:
    u = torch.cat(
        (uniform(1, height, width) + 1, normal(2, height, width), 4 + uniform(1, height, width))
    )
    u[3] += 0.5 * (u[1] ** 2 + u[2] ** 2) / u[0]
    over = 0.03125

    def flux(a, b, m, n):
        pa, pb = (0.4 * (x[3] - 0.5 * (x[1] ** 2 + x[2] ** 2) / x[0]) for x in (a, b))
        va, vb = a[m] / a[0], b[m] / b[0]
        speed = torch.maximum(
            va.abs() + (1.4 * pa / a[0]).sqrt(), vb.abs() + (1.4 * pb / b[0]).sqrt()
        )
        found = [a[0], a[1], a[2], a[3] + pa], [b[0], b[1], b[2], b[3] + pb]
        sums = [x * va + y * vb for x, y in zip(*found, strict=True)]
        sums[m] = sums[m] + pa + pb
        return 0.5 * (torch.stack(sums) - speed * (b - a))

    def theirs(u):
        x = flux(u, u.roll(-1, 2), 1, 2)
        y = flux(u, u.roll(-1, 1), 2, 1)
        return u - over * (x - x.roll(1, 2) + y - y.roll(1, 1))

    return beside_torch(
        f"a step of a gas on a torus of {height} x {width} float32, tiles 4x64",
        euler,
        (-(-height // 4), -(-width // 64)),
        (u, torch.empty_like(u), over, 4, 64),
        theirs,
        u,
        bound=1e-5,
        more=by_numba(lambda nb: _euler_by_numba(nb, u, over)),
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _corners(480, 641),
        lambda: _thinned(700, 1001),
        lambda: _demodulated(100_001, 4),
        lambda: _sparse_times(8001, 24, 40),
        lambda: _five_bands(64, 2001),
        lambda: _by_factors((150, 60, 90), 24),
        lambda: _correlated(2001, 200),
        lambda: _gated(18, 3, 11),
        lambda: _euler(300, 401),
        lambda: others.bloomed_row(50_001, 32768, 4),
        lambda: others.dealt_row(200_001, 8, 256),
        lambda: others.letters_row(400_001),
        lambda: others.checked_row(1000, 8, 2000, 200),
        lambda: others.implied_row(20_001),
        lambda: others.drawn_row(300, 200, 301),
        lambda: others.resampled_row(501, 3000),
    ]
