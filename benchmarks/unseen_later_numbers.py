"""Sums along axes, recurrences, bits, bytes and linear algebra, as programs for GPUs have them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import (
    ERROR,
    Row,
    array,
    beside_torch,
    by_numba,
    integers,
    kind,
    normal,
)

_ZERO = ct.PaddingMode.ZERO
_F32, _F64, _BF16 = torch.float32, torch.float64, torch.bfloat16


@ct.kernel
def axes_moved(x, out, a: ct.Constant[int], b: ct.Constant[int]):
    """[p, q, r, s] to [s, q, p, r]."""
    i, q, j, k = ct.bid(0), ct.bid(1) % x.shape[1], ct.bid(1) // x.shape[1], ct.bid(2)
    held = ct.load(x, (j, q, k, i), (a, 1, a, b), padding_mode=_ZERO)
    ct.store(out, (i, q, j, k), ct.permute(held, (3, 1, 0, 2)))


@ct.kernel
def middle_sum(x, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Sums over the middle axis: [a, b, c] to [a, c]."""
    i, j = ct.bid(1), ct.bid(0)
    wide = ct.float32 if x.dtype == ct.bfloat16 else x.dtype
    total = ct.zeros((tile,), wide)
    for k in range(ct.num_tiles(x, 1, (1, rows, tile))):
        held = ct.load(x, (i, k, j), (1, rows, tile), padding_mode=_ZERO).reshape((rows, tile))
        total += ct.sum(held.astype(wide), 0)
    ct.store(out, (i, j), total.astype(out.dtype).reshape((1, tile)))


@ct.kernel
def first_variance(x, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Variance over the first axis by Welford's formula for pieces."""
    j = ct.bid(0)
    mean, apart, seen = ct.zeros((tile,), ct.float32), ct.zeros((tile,), ct.float32), 0.0
    for k in range(ct.num_tiles(x, 0, (rows, tile))):
        held = ct.load(x, (k, j), (rows, tile)).astype(ct.float32)
        own = ct.sum(held, 0) / rows
        inner = held - own.reshape((1, tile))
        step = own - mean
        whole = seen + rows
        apart += ct.sum(inner * inner, 0) + step * step * (seen * rows / whole)
        mean += step * (rows / whole)
        seen = whole
    ct.store(out, (j,), (apart / (seen - 1.0)).astype(out.dtype))


@ct.kernel
def middle_place(x, out, length: ct.Constant[int], tile: ct.Constant[int]):
    """Where the least of the middle axis stands: [a, b, c] to [a, c] i64."""
    i, j = ct.bid(1), ct.bid(0)
    held = ct.load(x, (i, 0, j), (1, length, tile)).reshape((length, tile))
    ct.store(out, (i, j), ct.argmin(held, 0).astype(ct.int64).reshape((1, tile)))


@ct.kernel
def running(x, out, tile: ct.Constant[int], rows: ct.Constant[int]):
    """Running sums from the end of long rows, piece by piece."""
    i = ct.bid(0)
    carried = ct.zeros((rows, 1), out.dtype)
    pieces = ct.num_tiles(x, 1, (rows, tile))
    for k in range(pieces):
        j = pieces - 1 - k
        held = ct.load(x, (i, j), (rows, tile), padding_mode=_ZERO).astype(out.dtype)
        ct.store(out, (i, j), ct.cumsum(held, 1, reverse=True) + carried)
        carried = carried + ct.sum(held, 1, keepdims=True)


@ct.kernel
def running_products(x, out, rows: ct.Constant[int], width: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i, 0), ct.cumprod(ct.load(x, (i, 0), (rows, width)), 1))


@ct.kernel
def smoothed(x, out, rate, length, tile: ct.Constant[int]):
    """Exponential means along time, all of it in turn: [time, series]."""
    j = ct.bid(0)
    held = ct.load(x, (0, j), (1, tile))
    ct.store(out, (0, j), held)
    for t in range(1, length):
        held = held + rate * (ct.load(x, (t, j), (1, tile)) - held)
        ct.store(out, (t, j), held)


@ct.kernel
def city_distances(
    a, b, out, rows: ct.Constant[int], columns: ct.Constant[int], depth: ct.Constant[int]
):
    """Sums of absolute differences of all pairs, as one tile of three axes."""
    i, j = ct.bid(0), ct.bid(1)
    left = ct.load(a, (i, 0), (rows, depth)).reshape((rows, 1, depth))
    right = ct.load(b, (j, 0), (columns, depth)).reshape((1, columns, depth))
    ct.store(out, (i, j), ct.sum(ct.abs(left - right), 2))


@ct.kernel
def solved(lower, right, out, size: ct.Constant[int], width: ct.Constant[int]):
    """Forward substitution of a batch: a row of unknowns after the other."""
    at = ct.bid(0)
    held = ct.load(right, (at, 0, 0), (1, size, width)).reshape((size, width))
    row = ct.arange(size, dtype=ct.int32).reshape((size, 1))
    for k in range(size):
        column = ct.load(lower, (at, 0, k), (1, size, 1)).reshape((size, 1))
        pivot = ct.sum(ct.where(row == k, column, 0.0))
        found = ct.sum(ct.where(row == k, held, 0.0), 0, keepdims=True) / pivot
        held = ct.where(row > k, held - column * found, ct.where(row == k, found, held))
    ct.store(out, (at, 0, 0), held.reshape((1, size, width)))


@ct.kernel
def bits_set(x, out, tile: ct.Constant[int]):
    """Ones of 64 bits, by sums of fields."""
    i = ct.bid(0)
    v = ct.load(x, (i,), (tile,)).astype(ct.uint64)
    v = v - ((v >> 1) & 0x5555555555555555)
    v = (v & 0x3333333333333333) + ((v >> 2) & 0x3333333333333333)
    v = (v + (v >> 4)) & 0x0F0F0F0F0F0F0F0F
    ct.store(out, (i,), ((v * 0x0101010101010101) >> 56).astype(ct.int32))


@ct.kernel
def found_bytes(text, out, length, tile: ct.Constant[int]):
    """How often four bytes stand in a text."""
    at = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    inside = at + 3 < length
    same = inside & (ct.gather(text, (at,)) == 104) & (ct.gather(text, (at + 1,)) == 101)
    same = same & (ct.gather(text, (at + 2,)) == 114) & (ct.gather(text, (at + 3,)) == 101)
    ct.atomic_add(out, 0, ct.sum(same.astype(ct.int32)))


@ct.kernel
def upper(text, out, tile: ct.Constant[int]):
    i = ct.bid(0)
    c = ct.load(text, (i,), (tile,))
    ct.store(out, (i,), ct.where((c >= 97) & (c <= 122), c - 32, c))


@ct.kernel
def hashed(keys, out, rows: ct.Constant[int], length: ct.Constant[int]):
    """FNV of rows of bytes, byte after byte."""
    i = ct.bid(0)
    held = ct.full((rows,), 2166136261, ct.uint32)
    row = i * rows + ct.arange(rows, dtype=ct.int32)
    for k in range(length):
        held = (held ^ ct.gather(keys, (row, k)).astype(ct.uint32)) * 16777619
    ct.store(out, (i,), held)


@ct.kernel
def complex_product(ar, ai, br, bi, cr, ci, m: ct.Constant[int], k: ct.Constant[int]):
    """Complex matrices in planes, by three real products."""
    i, j = ct.bid(0), ct.bid(1)
    one, two = ct.zeros((m, m), ct.float32), ct.zeros((m, m), ct.float32)
    three = ct.zeros((m, m), ct.float32)
    for step in range(ct.num_tiles(ar, 1, (m, k))):
        a, b = ct.load(ar, (i, step), (m, k)), ct.load(ai, (i, step), (m, k))
        c, d = ct.load(br, (step, j), (k, m)), ct.load(bi, (step, j), (k, m))
        one, two = ct.mma(a, c, one), ct.mma(b, d, two)
        three = ct.mma(a + b, c + d, three)
    ct.store(cr, (i, j), one - two)
    ct.store(ci, (i, j), three - one - two)


@ct.kernel
def fourier(x, fr, fi, tr, ti, re, im, size: ct.Constant[int]):
    """Real rows of size^2 by two products and factors between them: [row, size, size]."""
    row = ct.bid(0)
    held = ct.load(x, (row, 0, 0), (1, size, size)).reshape((size, size))
    a, b = ct.load(fr, (0, 0), (size, size)), ct.load(fi, (0, 0), (size, size))
    c, d = ct.load(tr, (0, 0), (size, size)), ct.load(ti, (0, 0), (size, size))
    pr, pi = ct.matmul(a, held), ct.matmul(b, held)
    qr, qi = pr * c - pi * d, pr * d + pi * c
    ct.store(re, (row, 0, 0), (ct.matmul(qr, a) - ct.matmul(qi, b)).reshape((1, size, size)))
    ct.store(im, (row, 0, 0), (ct.matmul(qr, b) + ct.matmul(qi, a)).reshape((1, size, size)))


@ct.kernel
def colour_counts(x, counts, tile: ct.Constant[int]):
    """How often each value occurs in each of three colours: u8 [pixel, colour]."""
    i = ct.bid(0)
    for colour in ct.static_iter(range(3)):
        at = i * tile + ct.arange(tile, dtype=ct.int32)
        value = ct.gather(x, (at, colour)).astype(ct.int32)
        ct.atomic_add(counts, (colour, value), 1)


@ct.kernel
def kept(x, starts, out, tile: ct.Constant[int]):
    """What is above zero, in order; how many stand before each tile is known."""
    i = ct.bid(0)
    held = ct.load(x, (i,), (tile,))
    wanted = held > 0.0
    one = wanted.astype(ct.int32)
    place = ct.gather(starts, i) + ct.cumsum(one, 0) - one
    ct.scatter(out, (place,), held, mask=wanted)


@ct.kernel
def interpolated(x, table, out, scale, tile: ct.Constant[int]):
    """A function of which a uniform table is known, linearly."""
    i = ct.bid(0)
    at = ct.minimum(ct.maximum(ct.load(x, (i,), (tile,)) * scale, 0.0), table.shape[0] - 1.001)
    k = ct.floor(at).astype(ct.int32)
    left, right = ct.gather(table, (k,)), ct.gather(table, (k + 1,))
    ct.store(out, (i,), left + (right - left) * (at - k.astype(ct.float32)))


@ct.kernel
def great_circles(latitude, longitude, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    """Angles between all pairs of places."""
    i, j = ct.bid(0), ct.bid(1)
    a = ct.load(latitude, (i,), (rows,)).reshape((rows, 1))
    b = ct.load(latitude, (j,), (columns,)).reshape((1, columns))
    apart = ct.load(longitude, (i,), (rows,)).reshape((rows, 1)) - ct.load(
        longitude, (j,), (columns,)
    ).reshape((1, columns))
    u, v = ct.sin((a - b) * 0.5), ct.sin(apart * 0.5)
    h = u * u + ct.cos(a) * ct.cos(b) * v * v
    ct.store(out, (i, j), 2.0 * ct.atan2(ct.sqrt(h), ct.sqrt(1.0 - h)))


@ct.kernel
def polynomial(x, out, tile: ct.Constant[int]):
    i = ct.bid(0)
    held = ct.load(x, (i,), (tile,))
    total = ct.full((tile,), 0.125, x.dtype)
    for k in ct.static_iter(range(1, 11)):
        total = total * held + 0.125 * (k + 1)
    ct.store(out, (i,), total)


@ct.kernel
def outer_added(a, x, y, rows: ct.Constant[int], tile: ct.Constant[int]):
    i, j = ct.bid(1), ct.bid(0)
    left = ct.load(x, (i,), (rows,), padding_mode=_ZERO).reshape((rows, 1))
    right = ct.load(y, (j,), (tile,), padding_mode=_ZERO).reshape((1, tile))
    held = ct.load(a, (i, j), (rows, tile), padding_mode=_ZERO)
    ct.store(a, (i, j), held + 0.015625 * left * right)


@ct.kernel
def bits_turned(x, out, bits: ct.Constant[int], tile: ct.Constant[int]):
    """A permutation by the bits of the place, from last to first."""
    i = ct.bid(0)
    v = (i * tile + ct.arange(tile, dtype=ct.int32)).astype(ct.uint32)
    v = ((v >> 1) & 0x55555555) | ((v & 0x55555555) << 1)
    v = ((v >> 2) & 0x33333333) | ((v & 0x33333333) << 2)
    v = ((v >> 4) & 0x0F0F0F0F) | ((v & 0x0F0F0F0F) << 4)
    v = ((v >> 8) & 0x00FF00FF) | ((v & 0x00FF00FF) << 8)
    v = ((v >> 16) | (v << 16)) >> (32 - bits)
    ct.store(out, (i,), ct.gather(x, (v.astype(ct.int32),)))


def _axes_moved(p: int, q: int, r: int, s: int, dtype: torch.dtype) -> Row:
    x = normal(p, q, r, s).to(dtype)
    a, b = 16, 32
    return beside_torch(
        f"{p} x {q} x {r} x {s} {kind(dtype)} to last, second, first, third",
        axes_moved,
        (-(-s // b), q * -(-p // a), -(-r // a)),
        (x, torch.empty(s, q, p, r, dtype=dtype), a, b),
        lambda x: x.permute(3, 1, 0, 2).contiguous(),
        x,
    )


def _middle_sum(a: int, b: int, c: int, dtype: torch.dtype) -> Row:
    x = normal(a, b, c).mul(100).to(dtype)
    exact = not dtype.is_floating_point
    return beside_torch(
        f"sums over the middle of {a} x {b} x {c} {kind(dtype)}, tiles 16x128",
        middle_sum,
        (-(-c // 128), a),
        (x, torch.empty(a, c, dtype=dtype), 16, 128),
        lambda x: x.sum(1).to(x.dtype),
        x,
        bound=0.0 if exact else ERROR[dtype],
    )


def _first_variance(rows: int, columns: int, dtype: torch.dtype) -> Row:
    x = (normal(rows, columns) + 1.0).to(dtype)
    return beside_torch(
        f"variance of columns, {rows} x {columns} {kind(dtype)}, tiles 32x64",
        first_variance,
        (columns // 64,),
        (x, torch.empty(columns), 32, 64),
        lambda x: x.to(torch.promote_types(x.dtype, _F32)).var(0),
        x,
        bound=1e-5,
    )


def _middle_place(a: int, b: int, c: int) -> Row:
    x = normal(a, b, c)
    return beside_torch(
        f"places of the least of the middle of {a} x {b} x {c} f32",
        middle_place,
        (c // 64, a),
        (x, torch.empty(a, c, dtype=torch.int64), b, 64),
        lambda x: x.argmin(1),
        x,
    )


def _running(rows: int, width: int, dtype: torch.dtype, out: torch.dtype) -> Row:
    x = normal(rows, width).mul(10).to(dtype)
    exact = not out.is_floating_point
    return beside_torch(
        f"running sums from the end, {rows} x {width} {kind(dtype)} to {kind(out)}",
        running,
        (rows // 4,),
        (x, torch.empty(rows, width, dtype=out), 256, 4),
        lambda x: x.flip(1).cumsum(1, dtype=out if exact else x.dtype).flip(1),
        x,
        bound=0.0 if exact else ERROR[out],
        more={"NumPy": lambda: np.cumsum(array(x)[:, ::-1], 1, array(x[:0]).dtype)[:, ::-1]},
    )


def _running_products(rows: int, width: int, dtype: torch.dtype) -> Row:
    x = (1 + normal(rows, width) * 0.01).to(dtype)
    return beside_torch(
        f"running products, {rows} x {width} {kind(dtype)}",
        running_products,
        (rows // 2,),
        (x, torch.empty_like(x), 2, width),
        lambda x: x.cumprod(1),
        x,
        bound=ERROR[dtype],
        more={"NumPy": lambda: np.cumprod(array(x), 1)},
    )


def _smoothed(length: int, series: int) -> Row:
    x = normal(length, series)

    def theirs(x: torch.Tensor) -> torch.Tensor:
        out, held = torch.empty_like(x), x[0]
        out[0] = held
        for t in range(1, length):
            held = torch.lerp(held, x[t], 0.1)
            out[t] = held
        return out

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(x, out):
            for j in nb.prange(x.shape[1] // 128):
                held = x[0, j * 128 : j * 128 + 128].copy()
                out[0, j * 128 : j * 128 + 128] = held
                for t in range(1, x.shape[0]):
                    for lane in range(128):
                        held[lane] += np.float32(0.1) * (x[t, j * 128 + lane] - held[lane])
                        out[t, j * 128 + lane] = held[lane]

        made = np.empty_like(array(x))
        return lambda: run(array(x), made)

    return beside_torch(
        f"exponential means along time, {length} x {series} f32",
        smoothed,
        (series // 128,),
        (x, torch.empty_like(x), 0.1, length, 128),
        theirs,
        x,
        bound=1e-5,
        compiles=False,
        more=by_numba(make),
    )


def _city(rows: int, depth: int, dtype: torch.dtype) -> Row:
    a, b = normal(rows, depth).to(dtype), normal(rows, depth + 1)[:, :depth].to(dtype)
    b = b.contiguous()
    return beside_torch(
        f"city distances of {rows} x {rows} points of {depth} {kind(dtype)}, tiles 16x16",
        city_distances,
        (rows // 16, rows // 16),
        (a, b, torch.empty(rows, rows, dtype=dtype), 16, 16, depth),
        lambda a, b: torch.cdist(a, b, p=1),
        a,
        b,
        bound=ERROR[dtype],
    )


def _solved(count: int, size: int, width: int, dtype: torch.dtype) -> Row:
    lower = (normal(count, size, size).tril() * 0.1 + 2 * torch.eye(size)).to(dtype)
    right = normal(count, size, width).to(dtype)
    return beside_torch(
        f"{count} triangular systems of {size}, {width} right sides {kind(dtype)}",
        solved,
        (count,),
        (lower, right, torch.empty_like(right), size, width),
        lambda lower, right: torch.linalg.solve_triangular(lower, right, upper=False),
        lower,
        right,
        bound=ERROR[dtype],
    )


def _bits_set(many: int) -> Row:
    x = integers(1 << 62, many, dtype=torch.int64)
    return Row(
        f"ones of {many >> 20}M words of 64 bits",
        bits_set,
        (many // 1024,),
        (x, out := torch.empty(many, dtype=torch.int32), 1024),
        (out,),
        lambda: (torch.from_numpy(np.bitwise_count(array(x)).astype(np.int32)),),
        {"NumPy": lambda: np.bitwise_count(array(x))},
    )


def _found_bytes(length: int) -> Row:
    text, out = integers(16, length, dtype=torch.uint8) + 100, torch.zeros(1, dtype=torch.int32)
    whole = array(text)

    def theirs(x: torch.Tensor) -> torch.Tensor:
        same = (x[:-3] == 104) & (x[1:-2] == 101) & (x[2:-1] == 114) & (x[3:] == 101)
        return same.sum().int().view(1)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x):
            found = 0
            for i in nb.prange(x.size - 3):
                found += (x[i] == 104) & (x[i + 1] == 101) & (x[i + 2] == 114) & (x[i + 3] == 101)
            return found

        return lambda: run(whole)

    return beside_torch(
        f"four bytes in {length >> 20}M",
        found_bytes,
        (-(-length // 4096),),
        (text, out, length, 4096),
        theirs,
        text,
        clear=out.zero_,
        more={"bytes.count": lambda: whole.tobytes().count(b"here"), **by_numba(make)},
    )


def _upper(length: int) -> Row:
    text = integers(128, length, dtype=torch.uint8)
    return beside_torch(
        f"{length >> 20}M bytes to capitals",
        upper,
        (length // 4096,),
        (text, torch.empty_like(text), 4096),
        lambda x: torch.where((x >= 97) & (x <= 122), x - 32, x),
        text,
    )


def _hashed(rows: int, length: int) -> Row:
    keys = integers(256, rows, length, dtype=torch.uint8)
    out = torch.empty(rows, dtype=torch.uint32)

    def by_numpy() -> np.ndarray:
        held = np.full(rows, 2166136261, np.uint32)
        for k in range(length):
            held = (held ^ array(keys)[:, k]) * np.uint32(16777619)
        return held

    def make(nb):
        @nb.njit(parallel=True)
        def run(keys, out):
            for i in nb.prange(keys.shape[0]):
                held = np.uint32(2166136261)
                for k in range(keys.shape[1]):
                    held = np.uint32(held ^ keys[i, k]) * np.uint32(16777619)
                out[i] = held

        made = np.empty(rows, np.uint32)
        return lambda: run(array(keys), made)

    return Row(
        f"hashes of {rows} rows of {length} bytes",
        hashed,
        (rows // 256,),
        (keys, out, 256, length),
        (out,),
        lambda: (torch.from_numpy(by_numpy()),),
        {"NumPy": by_numpy, **by_numba(make)},
    )


def _complex(size: int) -> Row:
    a, b = (torch.view_as_complex(normal(size, size + i, 2)[:, :size].contiguous()) for i in (0, 1))
    planes = [part.contiguous() for each in (a, b) for part in (each.real, each.imag)]

    def theirs(*given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ar, ai, br, bi = given
        return ar @ br - ai @ bi, ar @ bi + ai @ br

    return beside_torch(
        f"complex product {size} x {size} x {size} f32 in planes, tiles 64x64x32",
        complex_product,
        (size // 64, size // 64),
        (*planes, torch.empty(size, size), torch.empty(size, size), 64, 32),
        theirs,
        *planes,
        outputs=2,
        bound=2e-5,
        more={"torch, complex": lambda: a @ b},
    )


def _fourier(rows: int, size: int) -> Row:
    x, k = normal(rows, size, size), torch.arange(size).double()
    turns = -2.0 * math.pi * k[:, None] * k
    f, t = (
        torch.polar(torch.ones_like(turns), turns / size),
        torch.polar(torch.ones_like(turns), turns / size**2),
    )
    given = [part.float().contiguous() for each in (f, t) for part in (each.real, each.imag)]

    def expected(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = torch.fft.fft(x.flatten(1)).view(rows, size, size).mT
        return found.real.contiguous(), found.imag.contiguous()

    flat = x.view(rows, -1)
    row = beside_torch(
        f"Fourier transforms of {rows} rows of {size**2} f32 by products",
        fourier,
        (rows,),
        (x, *given, torch.empty_like(x), torch.empty_like(x), size),
        expected,
        x,
        outputs=2,
        bound=2e-5,
        compiles=False,
    )
    return replace(row, peers={"torch.fft": lambda: torch.fft.fft(flat)})


def _colours(pixels: int) -> Row:
    x, counts = integers(256, pixels, 3, dtype=torch.uint8), torch.zeros(3, 256, dtype=torch.int32)

    def theirs(x: torch.Tensor) -> torch.Tensor:
        flat = (x.int() + torch.arange(3, dtype=torch.int32) * 256).flatten()
        return torch.bincount(flat, minlength=768).view(3, 256).int()

    def make(nb):
        @nb.njit
        def run(x, counts):
            counts[:] = 0
            for i in range(x.shape[0]):
                for c in range(3):
                    counts[c, x[i, c]] += 1

        made = np.zeros((3, 256), np.int32)
        return lambda: run(array(x), made)

    return beside_torch(
        f"histograms of three colours of {pixels >> 20}M pixels u8",
        colour_counts,
        (pixels // 1024,),
        (x, counts, 1024),
        theirs,
        x,
        clear=counts.zero_,
        more=by_numba(make),
    )


def _kept(many: int) -> Row:
    x, tile = normal(many), 1024
    counts = (x.view(-1, tile) > 0).sum(1).int()
    starts = (counts.cumsum(0) - counts).int()
    out = torch.empty(int(counts.sum()))
    return beside_torch(
        f"{many >> 20}M f32, those above zero in order",
        kept,
        (many // tile,),
        (x, starts, out, tile),
        lambda x: x[x > 0],
        x,
        compiles=False,
        more={"NumPy": lambda: array(x)[array(x) > 0]},
    )


def _interpolated(many: int, knots: int) -> Row:
    x, table = torch.rand(many, generator=torch.Generator().manual_seed(9)), normal(knots)
    scale = float(knots - 1)

    def theirs(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        at = (x * scale).clamp(0.0, knots - 1.001)
        k = at.long()
        left = table[k]
        return left + (table[k + 1] - left) * (at - k)

    return beside_torch(
        f"{many >> 20}M f32 by a table of {knots}, linearly",
        interpolated,
        (many // 1024,),
        (x, table, torch.empty_like(x), scale, 1024),
        theirs,
        x,
        table,
        bound=3e-4,
    )


def _circles(count: int, dtype: torch.dtype) -> Row:
    latitude, longitude = (torch.rand(2, count, generator=torch.Generator().manual_seed(8))).to(
        dtype
    )

    def theirs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        u, v = torch.sin((a[:, None] - a) * 0.5), torch.sin((b[:, None] - b) * 0.5)
        h = u * u + torch.cos(a)[:, None] * torch.cos(a) * v * v
        return 2.0 * torch.atan2(torch.sqrt(h), torch.sqrt(1.0 - h))

    return beside_torch(
        f"angles between {count} places on a globe, {kind(dtype)}, tiles 16x64",
        great_circles,
        (count // 16, count // 64),
        (latitude, longitude, torch.empty(count, count, dtype=dtype), 16, 64),
        theirs,
        latitude,
        longitude,
        bound=ERROR[dtype],
    )


def _polynomial(many: int, dtype: torch.dtype) -> Row:
    x = torch.rand(many, generator=torch.Generator().manual_seed(6)).to(dtype)

    def theirs(x: torch.Tensor) -> torch.Tensor:
        total = torch.full_like(x, 0.125)
        for k in range(1, 11):
            total = total * x + 0.125 * (k + 1)
        return total

    return beside_torch(
        f"a polynomial of degree ten, {many >> 20}M {kind(dtype)}",
        polynomial,
        (many // 1024,),
        (x, torch.empty_like(x), 1024),
        theirs,
        x,
        bound=ERROR[dtype],
    )


def _outer(rows: int, columns: int, dtype: torch.dtype) -> Row:
    start, x, y = normal(rows, columns).to(dtype), normal(rows).to(dtype), normal(columns).to(dtype)
    a, other = start.clone(), start.clone()
    row = beside_torch(
        f"a matrix of {rows} x {columns} {kind(dtype)} and an outer product, tiles 16x64",
        outer_added,
        (-(-columns // 64), -(-rows // 16)),
        (a, x, y, 16, 64),
        lambda a, x, y: a.addr_(x, y, alpha=0.015625),
        start,
        x,
        y,
        bound=ERROR[dtype],
        clear=lambda: a.copy_(start),
        compiles=False,
        more={"torch, in two": lambda: other.add_(x[:, None] * y, alpha=0.015625)},
    )
    return replace(row, outputs=(a,))


def _bits_turned(bits: int, dtype: torch.dtype) -> Row:
    x = normal(1 << bits).to(dtype)
    turned = torch.zeros(1 << bits, dtype=torch.int64)
    for bit in range(bits):
        turned |= ((torch.arange(1 << bits) >> bit) & 1) << (bits - 1 - bit)
    return beside_torch(
        f"{1 << bits} {kind(dtype)} by their bits from last to first",
        bits_turned,
        ((1 << bits) // 1024,),
        (x, torch.empty_like(x), bits, 1024),
        lambda x: x[turned],
        x,
    )


def rows() -> list[Callable[[], Row]]:
    i32, i64 = torch.int32, torch.int64
    return [
        lambda: _axes_moved(32, 12, 64, 96, _F32),
        lambda: _axes_moved(50, 7, 70, 100, _BF16),
        lambda: _middle_sum(32, 333, 512, _F64),
        lambda: _middle_sum(32, 333, 512, _BF16),
        lambda: _middle_sum(20, 500, 300, i32),
        lambda: _first_variance(4096, 1024, _F32),
        lambda: _first_variance(4096, 1024, torch.float16),
        lambda: _middle_place(64, 64, 512),
        lambda: _running(512, 4000, _F32, _F32),
        lambda: _running(512, 4000, i32, i64),
        lambda: _running_products(2048, 512, _F64),
        lambda: _running_products(2048, 512, _F32),
        lambda: _smoothed(2048, 1024),
        lambda: _city(512, 32, _F32),
        lambda: _city(512, 16, _F64),
        lambda: _solved(1024, 32, 16, _F32),
        lambda: _solved(1024, 32, 16, _F64),
        lambda: _bits_set(1 << 21),
        lambda: _found_bytes((1 << 24) - 5),
        lambda: _upper(1 << 24),
        lambda: _hashed(65536, 64),
        lambda: _complex(512),
        lambda: _fourier(1024, 16),
        lambda: _fourier(256, 32),
        lambda: _colours(1 << 20),
        lambda: _kept(1 << 22),
        lambda: _interpolated(1 << 22, 1000),
        lambda: _circles(1024, _F32),
        lambda: _circles(512, _F64),
        lambda: _polynomial(1 << 22, _F64),
        lambda: _polynomial(1 << 22, torch.float16),
        lambda: _outer(1500, 2100, _F64),
        lambda: _outer(1500, 2100, _F32),
        lambda: _bits_turned(20, _F32),
        lambda: _bits_turned(20, _F64),
    ]
