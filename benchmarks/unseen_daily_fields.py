"""Images and fields on lattices, as daily work has them."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch
from torch.nn import functional

from benchmarks.unseen_rows import ERROR, Row, array, beside_torch, by_numba, integers, kind, normal

_ZERO, _MOST = ct.PaddingMode.ZERO, ct.PaddingMode.POS_INF
_F32, _F64, _BF16, _F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16


@ct.kernel
def equalised(x, tables, out, side: ct.Constant[int], tile: ct.Constant[int]):
    """Each pixel by the tables of the four regions around it, bilinearly: [region y, region x, 256]."""
    y, column = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    inside = column < x.shape[1]
    value = ct.gather(x, (y, column), mask=inside, padding_value=0).astype(ct.int32)
    fy = (y.astype(ct.float32) + 0.5) / side - 0.5
    fx = (column.astype(ct.float32) + 0.5) / side - 0.5
    y0, x0 = ct.floor(fy).astype(ct.int32), ct.floor(fx).astype(ct.int32)
    wy, wx = fy - y0.astype(ct.float32), fx - x0.astype(ct.float32)
    low_y, high_y = max(y0, 0), min(y0 + 1, tables.shape[0] - 1)
    low_x, high_x = ct.maximum(x0, 0), ct.minimum(x0 + 1, tables.shape[1] - 1)

    def of(a, b):
        return ct.gather(tables, (a, b, value)).astype(ct.float32)

    above = of(low_y, low_x) * (1.0 - wx) + of(low_y, high_x) * wx
    below = of(high_y, low_x) * (1.0 - wx) + of(high_y, high_x) * wx
    found = above * (1.0 - wy) + below * wy
    ct.scatter(out, (y, column), ct.floor(found + 0.5).astype(ct.uint8), mask=inside)


@ct.kernel
def smoothed(x, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Binomial weights of 5 x 5 on u8, the edges repeated: 1 4 6 4 1 down, then along."""
    line = (ct.bid(1) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    column = (ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    height, width = x.shape[0], x.shape[1]
    total = ct.zeros((rows, tile), ct.int32)
    for r in ct.static_iter(range(-2, 3)):
        at = ct.minimum(ct.maximum(line + r, 0), height - 1)
        for s in ct.static_iter(range(-2, 3)):
            lane = ct.minimum(ct.maximum(column + s, 0), width - 1)
            weight = (6, 4, 1)[abs(r)] * (6, 4, 1)[abs(s)]
            total += weight * ct.gather(x, (at, lane)).astype(ct.int32)
    ct.scatter(out, (line, column), ((total + 128) >> 8).astype(ct.uint8))


@ct.kernel
def bilateral(x, out, near, alike, reach: ct.Constant[int], tile: ct.Constant[int]):
    """Neighbours weighted by distance and by likeness; beyond the edges is nothing."""
    y, column = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    middle = ct.gather(x, (y, column), mask=column < x.shape[1], padding_value=0.0).astype(
        ct.float32
    )
    total, weights = ct.zeros((tile,), ct.float32), ct.zeros((tile,), ct.float32)
    for r in range(-reach, reach + 1):
        for s in range(-reach, reach + 1):
            inside = (
                (column + s >= 0) & (column + s < x.shape[1]) & (y + r >= 0) & (y + r < x.shape[0])
            )
            held = ct.gather(x, (y + r, column + s), mask=inside, padding_value=0.0).astype(
                ct.float32
            )
            apart = held - middle
            far = (r * r + s * s).astype(ct.float32)
            weight = ct.where(inside, ct.exp(far * near + apart * apart * alike), 0.0)
            total += weight * held
            weights += weight
    ct.scatter(out, (y, column), (total / weights).astype(out.dtype), mask=column < x.shape[1])


@ct.kernel
def spread(x, w, out, channels: ct.Constant[int], tile: ct.Constant[int]):
    """Transposed convolution of 3 x 3, two apart: [channel, y, x], weights [in, out, 3, 3]."""
    to, y = ct.bid(2), ct.bid(1)
    column = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    total = ct.zeros((tile,), ct.float32)
    for c in range(channels):
        for r in range(3):
            at_y = y - r
            if at_y % 2 == 0 and at_y >= 0 and at_y // 2 < x.shape[1]:
                for s in ct.static_iter(range(3)):
                    at_x = column - s
                    inside = (at_x % 2 == 0) & (at_x >= 0) & (at_x // 2 < x.shape[2])
                    held = ct.gather(x, (c, at_y // 2, at_x // 2), mask=inside, padding_value=0.0)
                    total += ct.gather(w, (c, to, r, s)) * held
    ct.scatter(out, (to, y, column), total, mask=column < out.shape[2])


def _cubic(t):
    """Weights of four neighbours of which the second is t before the place."""
    a = -0.75
    far, back = t + 1.0, 1.0 - t
    return (
        ((a * far - 5.0 * a) * far + 8.0 * a) * far - 4.0 * a,
        ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0,
        ((a + 2.0) * back - (a + 3.0)) * back * back + 1.0,
        ((a * (back + 1.0) - 5.0 * a) * (back + 1.0) + 8.0 * a) * (back + 1.0) - 4.0 * a,
    )


@ct.kernel
def bicubic(x, out, step_y, step_x, tile: ct.Constant[int]):
    """To another size by cubics, the edges repeated: [channel, y, x]."""
    plane, y = ct.bid(2), ct.bid(1)
    column = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    fy = (y.astype(ct.float32) + 0.5) * step_y - 0.5
    fx = (column.astype(ct.float32) + 0.5) * step_x - 0.5
    y0, x0 = ct.floor(fy).astype(ct.int32), ct.floor(fx).astype(ct.int32)
    down, along = _cubic(fy - ct.floor(fy)), _cubic(fx - ct.floor(fx))
    inside = column < out.shape[2]
    total = ct.zeros((tile,), ct.float32)
    for r in ct.static_iter(range(4)):
        row = min(max(y0 + (r - 1), 0), x.shape[1] - 1)
        part = ct.zeros((tile,), ct.float32)
        for s in ct.static_iter(range(4)):
            lane = ct.minimum(ct.maximum(x0 + (s - 1), 0), x.shape[2] - 1)
            part += along[s] * ct.gather(
                x, (plane, row, lane), mask=inside, padding_value=0.0
            ).astype(ct.float32)
        total += down[r] * part
    ct.scatter(out, (plane, y, column), total.astype(out.dtype), mask=inside)


@ct.kernel
def from_video(luma, chroma, out, tile: ct.Constant[int]):
    """NV12 to three u8 for each pixel: chroma is [y / 2, x / 2, 2]."""
    y, column = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    inside = column < luma.shape[1]
    level = 298 * (ct.gather(luma, (y, column), mask=inside, padding_value=0).astype(ct.int32) - 16)
    u = (
        ct.gather(chroma, (y // 2, column // 2, 0), mask=inside, padding_value=0).astype(ct.int32)
        - 128
    )
    v = (
        ct.gather(chroma, (y // 2, column // 2, 1), mask=inside, padding_value=0).astype(ct.int32)
        - 128
    )

    def put(colour, value):
        held = ct.minimum(ct.maximum((value + 128) >> 8, 0), 255).astype(ct.uint8)
        ct.scatter(out, (y, column, colour), held, mask=inside)

    put(0, level + 409 * v)
    put(1, level - 100 * u - 208 * v)
    put(2, level + 516 * u)


@ct.kernel
def sampled(x, places, out, channels: ct.Constant[int], tile: ct.Constant[int]):
    """An image at any places, bilinearly, zeros beyond: [channel, y, x], places [y, x, 2] from -1 to 1."""
    y, column = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    height, width = x.shape[1], x.shape[2]
    inside = column < out.shape[2]
    fx = ct.gather(places, (y, column, 0), mask=inside, padding_value=0.0)
    fy = ct.gather(places, (y, column, 1), mask=inside, padding_value=0.0)
    fx = ((fx + 1.0) * width.astype(ct.float32) - 1.0) * 0.5
    fy = ((fy + 1.0) * height.astype(ct.float32) - 1.0) * 0.5
    left, top = ct.floor(fx), ct.floor(fy)
    wx, wy = fx - left, fy - top
    x0, y0 = left.astype(ct.int32), top.astype(ct.int32)
    for c in range(channels):
        total = ct.zeros((tile,), ct.float32)
        for r in ct.static_iter(range(2)):
            for s in ct.static_iter(range(2)):
                row, lane = y0 + r, x0 + s
                there = (row >= 0) & (row < height) & (lane >= 0) & (lane < width) & inside
                held = ct.gather(x, (c, row, lane), mask=there, padding_value=0.0)
                total += (wy if r else 1.0 - wy) * (wx if s else 1.0 - wx) * held
        ct.scatter(out, (c, y, column), total, mask=inside)


@ct.kernel
def over(a, b, out, tile: ct.Constant[int]):
    """Four u8 of each pixel over another's, by the last of them: [pixel, 4]."""
    i = ct.bid(0)
    top = ct.load(a, (i, 0), (tile, 4)).astype(ct.int32)
    under = ct.load(b, (i, 0), (tile, 4)).astype(ct.int32)
    share = 255 - ct.extract(top, (0, 3), (tile, 1))
    moved = share * under + 128
    ct.store(out, (i, 0), ct.minimum(top + ((moved + (moved >> 8)) >> 8), 255).astype(ct.uint8))


@ct.kernel
def lattice(f, out, rate, size: ct.Constant[int], tile: ct.Constant[int]):
    """A step of Boltzmann's lattice of nine speeds on a torus: pulled, collided; [speed, y, x]."""
    y, column = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    ups, sides = (0, 0, 0, 1, -1, 1, 1, -1, -1), (0, 1, -1, 0, 0, 1, -1, 1, -1)
    shares = (4.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 36, 1.0 / 36, 1.0 / 36, 1.0 / 36)
    held = ()
    for n in ct.static_iter(range(9)):
        row, lane = (y - ups[n] + size) % size, (column - sides[n] + size) % size
        held = (*held, ct.gather(f, (n, row, lane)))
    mass, down, along = held[0], ct.zeros((tile,), ct.float32), ct.zeros((tile,), ct.float32)
    for n in ct.static_iter(range(1, 9)):
        mass = mass + held[n]
        down = down + ups[n] * held[n]
        along = along + sides[n] * held[n]
    down, along = down / mass, along / mass
    square = 1.5 * (down * down + along * along)
    for n in ct.static_iter(range(9)):
        speed = 3.0 * (ups[n] * down + sides[n] * along)
        level = shares[n] * mass * (1.0 + speed + 0.5 * speed * speed - square)
        ct.scatter(out, (n, y, column), held[n] + rate * (level - held[n]))


@ct.kernel
def fields(e, hx, hy, e_out, hx_out, hy_out, rate, rows: ct.Constant[int], tile: ct.Constant[int]):
    """A step of Maxwell's equations in the plane: magnetic fields, then the electric one from new ones."""
    line = (ct.bid(1) * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    column = (ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
    height, width = e.shape[0], e.shape[1]

    def at(a, dy, dx):
        row, lane = line + dy, column + dx
        inside = (row >= 0) & (row < height) & (lane >= 0) & (lane < width)
        return ct.gather(a, (row, lane), mask=inside, padding_value=0.0)

    def new_x(dy):
        return at(hx, dy, 0) - rate * (at(e, dy + 1, 0) - at(e, dy, 0))

    def new_y(dx):
        return at(hy, 0, dx) + rate * (at(e, 0, dx + 1) - at(e, 0, dx))

    x, y = new_x(0), new_y(0)
    above, left = ct.where(line > 0, new_x(-1), 0.0), ct.where(column > 0, new_y(-1), 0.0)
    inside = (line < height) & (column < width)
    ct.scatter(hx_out, (line, column), x, mask=inside)
    ct.scatter(hy_out, (line, column), y, mask=inside)
    ct.scatter(e_out, (line, column), at(e, 0, 0) + rate * (y - left - x + above), mask=inside)


@ct.kernel
def life_of_bits(x, out, words: ct.Constant[int], height: ct.Constant[int], tile: ct.Constant[int]):
    """A generation on a torus, 32 cells in each word, by adders of bits."""
    y, column = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    left, right = (column + words - 1) % words, (column + 1) % words

    def three(row):
        held = ct.gather(x, (row, column))
        before = (held << 1) | (ct.gather(x, (row, left)) >> 31)
        after = (held >> 1) | (ct.gather(x, (row, right)) << 31)
        return before, held, after

    def full(a, b, c):
        return a ^ b ^ c, (a & b) | (c & (a ^ b))

    a0, a1, a2 = three((y + height - 1) % height)
    b0, middle, b2 = three(y)
    c0, c1, c2 = three((y + 1) % height)
    one_a, two_a = full(a0, a1, a2)
    one_c, two_c = full(c0, c1, c2)
    one_b, two_b = b0 ^ b2, b0 & b2
    ones, carry = full(one_a, one_b, one_c)
    twos, four = full(two_a, two_b, two_c)
    twos, more = twos ^ carry, twos & carry
    ct.scatter(out, (y, column), twos & ~(four | more) & (ones | middle))


def _equalised(height: int, width: int, side: int) -> Row:
    x = integers(256, height, width, dtype=torch.uint8)
    tables = integers(256, height // side, width // side, 256, dtype=torch.uint8).sort(2).values
    fy, fx = ((torch.arange(n).float() + 0.5) / side - 0.5 for n in (height, width))
    y0, x0 = fy.floor().long(), fx.floor().long()
    wy, wx = (fy - y0)[:, None], (fx - x0)[None]
    ys, xs = (
        (n.clamp(min=0), (n + 1).clamp(max=tables.shape[i] - 1)) for i, n in enumerate((y0, x0))
    )

    def theirs(x, tables):
        value = x.long()

        def of(a, b):
            return tables[ys[a][:, None], xs[b][None], value].float()

        above = of(0, 0) * (1 - wx) + of(0, 1) * wx
        below = of(1, 0) * (1 - wx) + of(1, 1) * wx
        return torch.floor(above * (1 - wy) + below * wy + 0.5).to(torch.uint8)

    return beside_torch(
        f"{height} x {width} u8 by tables of regions of {side}",
        equalised,
        (-(-width // 256), height),
        (x, tables, torch.empty_like(x), side, 256),
        theirs,
        x,
        tables,
        bound=0.005,
    )


def _smoothed(height: int, width: int) -> Row:
    x = integers(256, height, width, dtype=torch.uint8)
    out, made, wide = torch.empty_like(x), np.empty((height, width), np.uint8), array(x)

    def theirs(x):
        held = functional.pad(x[None, None].float(), (2, 2, 2, 2), mode="replicate")[0, 0]
        weights = (1.0, 4.0, 6.0, 4.0, 1.0)
        held = sum(w * held[r : r + height] for r, w in enumerate(weights))
        held = sum(w * held[:, s : s + width] for s, w in enumerate(weights))
        return torch.floor((held + 128) * (1 / 256)).to(torch.uint8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, out):
            h, w = x.shape
            for i in nb.prange(h):
                down = np.empty(w + 4, np.int32)
                a, b = x[max(i - 2, 0)], x[max(i - 1, 0)]
                c, d = x[min(i + 1, h - 1)], x[min(i + 2, h - 1)]
                for j in range(w):
                    down[j + 2] = (
                        np.int32(a[j]) + d[j] + 4 * (np.int32(b[j]) + c[j]) + 6 * np.int32(x[i, j])
                    )
                down[0] = down[1] = down[2]
                down[w + 2] = down[w + 3] = down[w + 1]
                for j in range(w):
                    held = down[j] + down[j + 4] + 4 * (down[j + 1] + down[j + 3]) + 6 * down[j + 2]
                    out[i, j] = (held + 128) >> 8

        return lambda: run(wide, made)

    return beside_torch(
        f"binomial weights of 5 x 5, {height} x {width} u8, tiles 8x64",
        smoothed,
        (-(-width // 64), -(-height // 8)),
        (x, out, 8, 64),
        theirs,
        x,
        more=by_numba(make),
    )


def _bilateral(height: int, width: int, dtype: torch.dtype) -> Row:
    x = torch.rand(height, width, generator=torch.Generator().manual_seed(1)).to(dtype)

    def theirs(x):
        wide = x if x.dtype == _F64 else x.float()
        held = functional.pad(wide, (2, 2, 2, 2))
        there = functional.pad(torch.ones_like(wide), (2, 2, 2, 2))
        total, weights = torch.zeros_like(wide), torch.zeros_like(wide)
        for r in range(5):
            for s in range(5):
                part = held[r : r + height, s : s + width]
                far = float((r - 2) ** 2 + (s - 2) ** 2) * -0.125
                weight = (
                    torch.exp(far - 50.0 * (part - wide) ** 2)
                    * there[r : r + height, s : s + width]
                )
                total, weights = total + weight * part, weights + weight
        return (total / weights).to(x.dtype)

    return beside_torch(
        f"bilateral filter of 5 x 5, {height} x {width} {kind(dtype)}",
        bilateral,
        (-(-width // 256), height),
        (x, torch.empty_like(x), -0.125, -50.0, 2, 256),
        theirs,
        x,
        bound=ERROR[dtype],
    )


def _spread(channels: int, to: int, size: int) -> Row:
    x, w = normal(channels, size, size), normal(channels, to, 3, 3)
    return beside_torch(
        f"transposed convolution 3 x 3 two apart, {channels} to {to} channels of {size} x {size} f32",
        spread,
        (-(-(2 * size + 1) // 128), 2 * size + 1, to),
        (x, w, torch.empty(to, 2 * size + 1, 2 * size + 1), channels, 128),
        lambda x, w: functional.conv_transpose2d(x[None], w, stride=2)[0],
        x,
        w,
        bound=2e-5,
    )


def _bicubic(channels: int, size: int, to: int, dtype: torch.dtype) -> Row:
    x = normal(channels, size, size).to(dtype)
    return beside_torch(
        f"{channels} x {size} x {size} {kind(dtype)} to {to} x {to} by cubics",
        bicubic,
        (-(-to // 256), to, channels),
        (x, torch.empty(channels, to, to, dtype=dtype), size / to, size / to, 256),
        lambda x: functional.interpolate(
            x[None], size=(to, to), mode="bicubic", align_corners=False
        )[0],
        x,
        bound=max(ERROR[dtype], 1e-4),
    )


def _from_video(height: int, width: int) -> Row:
    luma, chroma = (
        integers(256, height, width, dtype=torch.uint8),
        integers(255, height // 2, width // 2, 2, dtype=torch.uint8),
    )
    made, y8, c8 = np.empty((height, width, 3), np.uint8), array(luma), array(chroma)

    def theirs(luma, chroma):
        level = 298 * (luma.int() - 16)
        both = (chroma.int() - 128).repeat_interleave(2, 0).repeat_interleave(2, 1)
        u, v = both[..., 0], both[..., 1]
        found = torch.stack((level + 409 * v, level - 100 * u - 208 * v, level + 516 * u), -1)
        return ((found + 128) >> 8).clamp(0, 255).to(torch.uint8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(luma, chroma, out):
            for i in nb.prange(luma.shape[0]):
                for j in range(luma.shape[1]):
                    c = np.int32(298) * (np.int32(luma[i, j]) - np.int32(16))
                    u, v = (
                        np.int32(chroma[i // 2, j // 2, 0]) - 128,
                        np.int32(chroma[i // 2, j // 2, 1]) - 128,
                    )
                    out[i, j, 0] = min(max((c + 409 * v + 128) >> 8, 0), 255)
                    out[i, j, 1] = min(max((c - 100 * u - 208 * v + 128) >> 8, 0), 255)
                    out[i, j, 2] = min(max((c + 516 * u + 128) >> 8, 0), 255)

        return lambda: run(y8, c8, made)

    return beside_torch(
        f"NV12 to colours, {height} x {width}",
        from_video,
        (-(-width // 256), height),
        (luma, chroma, torch.empty(height, width, 3, dtype=torch.uint8), 256),
        theirs,
        luma,
        chroma,
        more=by_numba(make),
    )


def _sampled(channels: int, size: int, to: int) -> Row:
    x = normal(channels, size, size)
    places = torch.rand(to, to, 2, generator=torch.Generator().manual_seed(5)) * 2.2 - 1.1
    return beside_torch(
        f"{channels} x {size} x {size} f32 at {to} x {to} places, bilinearly",
        sampled,
        (-(-to // 128), to),
        (x, places, torch.empty(channels, to, to), channels, 128),
        lambda x, places: functional.grid_sample(x[None], places[None], align_corners=False)[0],
        x,
        places,
        bound=1e-4,
    )


def _over(pixels: int) -> Row:
    a, b = integers(256, pixels, 4, dtype=torch.uint8), integers(255, pixels, 4, dtype=torch.uint8)
    made, a8, b8 = np.empty((pixels, 4), np.uint8), array(a), array(b)

    def theirs(a, b):
        moved = (255 - a[:, 3:].int()) * b.int() + 128
        return (a.int() + ((moved + (moved >> 8)) >> 8)).clamp(max=255).to(torch.uint8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(a, b, out):
            for i in nb.prange(a.shape[0]):
                share = np.int32(255) - np.int32(a[i, 3])
                for c in range(4):
                    moved = share * np.int32(b[i, c]) + np.int32(128)
                    out[i, c] = min(np.int32(a[i, c]) + ((moved + (moved >> 8)) >> 8), 255)

        return lambda: run(a8, b8, made)

    return beside_torch(
        f"{pixels >> 20}M pixels of four u8 over others",
        over,
        (pixels // 256,),
        (a, b, torch.empty_like(a), 256),
        theirs,
        a,
        b,
        more=by_numba(make),
    )


def _lattice(size: int) -> Row:
    f = torch.rand(9, size, size, generator=torch.Generator().manual_seed(1)) + 0.5
    ups, sides = (0, 0, 0, 1, -1, 1, 1, -1, -1), (0, 1, -1, 0, 0, 1, -1, 1, -1)
    shares = (4.0 / 9, *((1.0 / 9,) * 4), *((1.0 / 36,) * 4))

    def theirs(f):
        held = [f[n].roll((ups[n], sides[n]), (0, 1)) for n in range(9)]
        mass = sum(held)
        down, along = (
            sum(u * h for u, h in zip(ups, held)) / mass,
            sum(s * h for s, h in zip(sides, held)) / mass,
        )
        square, found = 1.5 * (down * down + along * along), []
        for n in range(9):
            speed = 3.0 * (ups[n] * down + sides[n] * along)
            level = shares[n] * mass * (1.0 + speed + 0.5 * speed * speed - square)
            found.append(held[n] + 0.6 * (level - held[n]))
        return torch.stack(found)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(f, out):
            n, one = f.shape[1], np.float32(1.0)
            for y in nb.prange(n):
                u, d = (y + n - 1) % n, (y + 1) % n
                for x in range(n):
                    west, east = x - 1 if x > 0 else n - 1, x + 1 if x < n - 1 else 0
                    h0, h1, h2 = f[0, y, x], f[1, y, west], f[2, y, east]
                    h3, h4, h5 = f[3, u, x], f[4, d, x], f[5, u, west]
                    h6, h7, h8 = f[6, u, east], f[7, d, west], f[8, d, east]
                    mass = h0 + h1 + h2 + h3 + h4 + h5 + h6 + h7 + h8
                    p = (h3 - h4 + h5 + h6 - h7 - h8) / mass
                    q = (h1 - h2 + h5 - h6 + h7 - h8) / mass
                    square = np.float32(1.5) * (p * p + q * q)
                    rate = np.float32(0.6)
                    a, b, c = (
                        np.float32(4 / 9) * mass,
                        np.float32(1 / 9) * mass,
                        np.float32(1 / 36) * mass,
                    )
                    out[0, y, x] = h0 + rate * (a * (one - square) - h0)
                    k, half = np.float32(3), np.float32(0.5)
                    s = k * q
                    out[1, y, x] = h1 + rate * (b * (one + s + half * s * s - square) - h1)
                    out[2, y, x] = h2 + rate * (b * (one - s + half * s * s - square) - h2)
                    s = k * p
                    out[3, y, x] = h3 + rate * (b * (one + s + half * s * s - square) - h3)
                    out[4, y, x] = h4 + rate * (b * (one - s + half * s * s - square) - h4)
                    s = k * (p + q)
                    out[5, y, x] = h5 + rate * (c * (one + s + half * s * s - square) - h5)
                    out[8, y, x] = h8 + rate * (c * (one - s + half * s * s - square) - h8)
                    s = k * (p - q)
                    out[6, y, x] = h6 + rate * (c * (one + s + half * s * s - square) - h6)
                    out[7, y, x] = h7 + rate * (c * (one - s + half * s * s - square) - h7)

        made = np.empty((9, size, size), np.float32)
        return lambda: run(array(f), made)

    return beside_torch(
        f"lattice of nine speeds, {size} x {size} f32",
        lattice,
        (size // 128, size),
        (f, torch.empty_like(f), 0.6, size, 128),
        theirs,
        f,
        bound=1e-5,
        more=by_numba(make),
    )


def _fields(size: int, dtype: torch.dtype) -> Row:
    e, hx, hy = (normal(size, size + i)[:, :size].contiguous().to(dtype) for i in range(3))
    made = torch.empty_like(e), torch.empty_like(e), torch.empty_like(e)

    def theirs(e, hx, hy):
        x = hx - 0.5 * (functional.pad(e[1:], (0, 0, 0, 1)) - e)
        y = hy + 0.5 * (functional.pad(e[:, 1:], (0, 1)) - e)
        left, above = functional.pad(y[:, :-1], (1, 0)), functional.pad(x[:-1], (0, 0, 1, 0))
        return e + 0.5 * (y - left - x + above), x, y

    return beside_torch(
        f"Maxwell's equations in the plane, {size} x {size} {kind(dtype)}, tiles 4x128",
        fields,
        (-(-size // 128), -(-size // 4)),
        (e, hx, hy, *made, 0.5, 4, 128),
        theirs,
        e,
        hx,
        hy,
        outputs=3,
        bound=max(ERROR[dtype], 1e-6),
    )


def _life_of_bits(height: int, words: int) -> Row:
    x = integers(1 << 31, height, words, dtype=torch.int64)
    x = (x ^ (integers((1 << 31) - 1, height, words, dtype=torch.int64) << 1)) & 0xFFFFFFFF
    x = x.to(torch.uint32)
    out, held = torch.empty(height, words, dtype=torch.uint32), array(x)

    def by_numpy():
        def three(a):
            left, right = np.roll(a, 1, 1), np.roll(a, -1, 1)
            return (
                (a << np.uint32(1)) | (left >> np.uint32(31)),
                a,
                (a >> np.uint32(1)) | (right << np.uint32(31)),
            )

        def full(a, b, c):
            return a ^ b ^ c, (a & b) | (c & (a ^ b))

        a, (b0, middle, b2), c = (
            three(np.roll(held, 1, 0)),
            three(held),
            three(np.roll(held, -1, 0)),
        )
        (one_a, two_a), (one_c, two_c) = full(*a), full(*c)
        ones, carry = full(one_a, b0 ^ b2, one_c)
        twos, four = full(two_a, b0 & b2, two_c)
        twos, more = twos ^ carry, twos & carry
        return twos & ~(four | more) & (ones | middle)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, out):
            h, w = x.shape
            one, most = np.uint32(1), np.uint32(31)
            for i in nb.prange(h):
                above, below = x[(i + h - 1) % h], x[(i + 1) % h]
                for j in range(w):
                    at_left, at_right = j - 1 if j > 0 else w - 1, j + 1 if j < w - 1 else 0
                    a1, b1, c1 = above[j], x[i, j], below[j]
                    a0, a2 = (
                        (a1 << one) | (above[at_left] >> most),
                        (a1 >> one) | (above[at_right] << most),
                    )
                    b0, b2 = (
                        (b1 << one) | (x[i, at_left] >> most),
                        (b1 >> one) | (x[i, at_right] << most),
                    )
                    c0, c2 = (
                        (c1 << one) | (below[at_left] >> most),
                        (c1 >> one) | (below[at_right] << most),
                    )
                    one_a, two_a = a0 ^ a1 ^ a2, (a0 & a1) | (a2 & (a0 ^ a1))
                    one_c, two_c = c0 ^ c1 ^ c2, (c0 & c1) | (c2 & (c0 ^ c1))
                    one_b, two_b = b0 ^ b2, b0 & b2
                    ones, carry = one_a ^ one_b ^ one_c, (one_a & one_b) | (one_c & (one_a ^ one_b))
                    twos, four = two_a ^ two_b ^ two_c, (two_a & two_b) | (two_c & (two_a ^ two_b))
                    out[i, j] = (twos ^ carry) & ~(four | (twos & carry)) & (ones | b1)

        made = np.empty((height, words), np.uint32)
        return lambda: run(held, made)

    return Row(
        f"game of life of bits, {height} x {32 * words}",
        life_of_bits,
        (words // 128, height),
        (x, out, words, height, 128),
        (out,),
        lambda: (torch.from_numpy(by_numpy()),),
        {"NumPy": by_numpy, **by_numba(make)},
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _equalised(1024, 1536, 128),
        lambda: _smoothed(1080, 1921),
        lambda: _bilateral(600, 801, _F32),
        lambda: _bilateral(600, 801, _F16),
        lambda: _spread(16, 16, 48),
        lambda: _bicubic(3, 200, 500, _F32),
        lambda: _bicubic(3, 200, 500, _F16),
        lambda: _from_video(1080, 1920),
        lambda: _sampled(8, 256, 256),
        lambda: _over(1 << 20),
        lambda: _lattice(512),
        lambda: _fields(1000, _F32),
        lambda: _fields(1000, _F64),
        lambda: _life_of_bits(2048, 256),
    ]
