"""Images, stencils, simulations, clusters and sparse matrices, as programs for GPUs have them."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch
from torch.nn import functional

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
def life(x, out, size: ct.Constant[int], tile: ct.Constant[int]):
    """A generation on a torus of i8."""
    y, column = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    up, down = (y + size - 1) % size, (y + 1) % size
    left, right = (column + (size - 1)) % size, (column + 1) % size
    near = ct.gather(x, (up, left)) + ct.gather(x, (up, column)) + ct.gather(x, (up, right))
    near += ct.gather(x, (y, left)) + ct.gather(x, (y, right))
    near += ct.gather(x, (down, left)) + ct.gather(x, (down, column)) + ct.gather(x, (down, right))
    alive = (near == 3) | ((near == 2) & (ct.gather(x, (y, column)) == 1))
    ct.scatter(out, (y, column), alive.astype(ct.int8))


@ct.kernel
def sobel(x, out, height, width, tile: ct.Constant[int]):
    """Slopes of u8 pixels; those at an edge are zero."""
    y, column = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    inside = (y > 0) & (y < height - 1) & (column > 0) & (column < width - 1)

    def at(dy, dx):
        return ct.gather(x, (y + dy, column + dx), mask=inside, padding_value=0).astype(ct.int32)

    across = at(-1, 1) - at(-1, -1) + 2 * (at(0, 1) - at(0, -1)) + at(1, 1) - at(1, -1)
    along = at(1, -1) - at(-1, -1) + 2 * (at(1, 0) - at(-1, 0)) + at(1, 1) - at(-1, 1)
    slope = ct.minimum(ct.abs(across) + ct.abs(along), 255)
    ct.scatter(out, (y, column), slope.astype(ct.uint8), mask=column < width)


@ct.kernel
def median(x, out, tile: ct.Constant[int]):
    """Medians of 3 x 3 by exchanges; out has no edges."""
    y, column = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    inside = column < out.shape[1]

    def ordered(a, b, c):
        low, high = ct.minimum(a, b), ct.maximum(a, b)
        middle = ct.maximum(low, ct.minimum(high, c))
        return ct.minimum(low, c), middle, ct.maximum(high, c)

    def line(r):
        a = ct.gather(x, (y + r, column), mask=inside)
        b = ct.gather(x, (y + r, column + 1), mask=inside)
        c = ct.gather(x, (y + r, column + 2), mask=inside)
        return ordered(a, b, c)

    l0, m0, h0 = line(0)
    l1, m1, h1 = line(1)
    l2, m2, h2 = line(2)
    low = ct.maximum(ct.maximum(l0, l1), l2)
    middle = ordered(m0, m1, m2)[1]
    high = ct.minimum(ct.minimum(h0, h1), h2)
    ct.scatter(out, (y, column), ordered(low, middle, high)[1], mask=inside)


@ct.kernel
def nearest(x, out, tile: ct.Constant[int]):
    """An image of three u8 in another size: [y, x, colour], flat columns."""
    y, flat = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    column, colour = flat // 3, flat % 3
    source = column * x.shape[1] // out.shape[1]
    inside = column < out.shape[1]
    held = ct.gather(x, (y * x.shape[0] // out.shape[0], source, colour), mask=inside)
    ct.scatter(out, (y, column, colour), held, mask=inside)


@ct.kernel
def mean_of_windows(x, out, tile: ct.Constant[int]):
    """Means of 3 x 3, two apart, without edges: [image, channel, y, x]."""
    plane, y = ct.bid(2), ct.bid(1)
    column = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    image, channel = plane // x.shape[1], plane % x.shape[1]
    inside = column < out.shape[3]
    total = ct.zeros((tile,), ct.float32)
    for r in range(3):
        for s in range(3):
            total += ct.gather(
                x, (image, channel, 2 * y + r, 2 * column + s), mask=inside, padding_value=0
            ).astype(ct.float32)
    ct.scatter(out, (image, channel, y, column), (total / 9.0).astype(out.dtype), mask=inside)


@ct.kernel
def image_columns(
    x,
    w,
    out,
    m: ct.Constant[int],
    n: ct.Constant[int],
    side: ct.Constant[int],
    channels: ct.Constant[int],
):
    """Convolution 3 x 3 as one product for each tap, images [y x, channel] with borders of zeros."""
    i, j = ct.bid(0), ct.bid(1)
    place = (i * m + ct.arange(m, dtype=ct.int32)).reshape((m, 1))
    y, column = place // side, place % side
    lane = ct.arange(channels, dtype=ct.int32).reshape((1, channels))
    total = ct.zeros((m, n), ct.float32)
    for tap in range(9):
        at_y, at_x = y + tap // 3 - 1, column + tap % 3 - 1
        inside = (at_y >= 0) & (at_y < side) & (at_x >= 0) & (at_x < side)
        left = ct.gather(x, (at_y * side + at_x, lane), mask=inside, padding_value=0)
        total = ct.mma(
            left, ct.load(w, (tap, 0, j), (1, channels, n)).reshape((channels, n)), total
        )
    ct.store(out, (i, j), ct.maximum(total, 0.0).astype(out.dtype))


@ct.kernel
def wave(now, before, out, speed, rows: ct.Constant[int], tile: ct.Constant[int]):
    """A step of the wave equation of fourth order, by pieces of slices: inner points only."""
    i, j = ct.bid(1), ct.bid(0)
    h, w = now.shape[0], now.shape[1]

    def moved(a, dy, dx):
        part = a.slice(0, 2 + dy, h - 2 + dy).slice(1, 2 + dx, w - 2 + dx)
        return ct.load(part, (i, j), (rows, tile), padding_mode=_ZERO)

    middle = moved(now, 0, 0)
    near = moved(now, -1, 0) + moved(now, 1, 0) + moved(now, 0, -1) + moved(now, 0, 1)
    far = moved(now, -2, 0) + moved(now, 2, 0) + moved(now, 0, -2) + moved(now, 0, 2)
    bent = 16.0 / 12.0 * near - far / 12.0 - 5.0 * middle
    made = 2.0 * middle - moved(before, 0, 0) + speed * bent
    ct.store(out.slice(0, 2, h - 2).slice(1, 2, w - 2), (i, j), made)


@ct.kernel
def diffusion(x, out, rate, size: ct.Constant[int], tile: ct.Constant[int]):
    """27 points in space, edges repeated: faces, edges and corners weighted alike."""
    z, y = ct.bid(2), ct.bid(1)
    column = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    total = ct.zeros((tile,), ct.float32)
    for a in range(-1, 2):
        for b in range(-1, 2):
            row = (min(max(z + a, 0), size - 1), min(max(y + b, 0), size - 1))
            for c in range(-1, 2):
                at = ct.minimum(ct.maximum(column + c, 0), size - 1)
                total += ct.gather(x, (row[0], row[1], at))
    middle = ct.gather(x, (z, y, column))
    ct.scatter(out, (z, y, column), middle + rate * (total - 27.0 * middle))


@ct.kernel
def mandelbrot(
    out, left, top, step, most: ct.Constant[int], rows: ct.Constant[int], tile: ct.Constant[int]
):
    """How many steps until a point escapes; a tile ends when all of it has."""
    i, j = ct.bid(1), ct.bid(0)
    re = left + step * (j * tile + ct.arange(tile, dtype=ct.int32)).astype(ct.float32)
    im = top + step * (i * rows + ct.arange(rows, dtype=ct.int32)).astype(ct.float32)
    cr = ct.broadcast_to(re.reshape((1, tile)), (rows, tile))
    ci = ct.broadcast_to(im.reshape((rows, 1)), (rows, tile))
    zr, zi = ct.zeros((rows, tile), ct.float32), ct.zeros((rows, tile), ct.float32)
    count = ct.zeros((rows, tile), ct.int32)
    inside = ct.full((rows, tile), True, ct.bool_)
    turn = 0
    while turn < most and ct.max(inside.astype(ct.int32)) > 0:
        zr, zi = (
            ct.where(inside, zr * zr - zi * zi + cr, zr),
            ct.where(inside, 2.0 * zr * zi + ci, zi),
        )
        inside = zr * zr + zi * zi <= 4.0
        count += inside.astype(ct.int32)
        turn += 1
    ct.store(out, (i, j), count)


def _normal_below(x):
    """The share of a normal distribution below x, by a polynomial."""
    k = 1.0 / (1.0 + 0.2316419 * ct.abs(x))
    poly = k * (
        0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429)))
    )
    tail = 0.3989422804 * ct.exp(-0.5 * x * x) * poly
    return ct.where(x >= 0.0, 1.0 - tail, tail)


@ct.kernel
def black_scholes(price, strike, years, calls, puts, rate, spread, tile: ct.Constant[int]):
    i = ct.bid(0)
    s, x = ct.load(price, (i,), (tile,)), ct.load(strike, (i,), (tile,))
    t = ct.load(years, (i,), (tile,))
    root = spread * ct.sqrt(t)
    d1 = (ct.log(s / x) + (rate + 0.5 * spread * spread) * t) / root
    d2 = d1 - root
    later = x * ct.exp(-rate * t)
    call = s * _normal_below(d1) - later * _normal_below(d2)
    ct.store(calls, (i,), call)
    ct.store(puts, (i,), call + later - s)


@ct.kernel
def throws(out, seed, rounds: ct.Constant[int], tile: ct.Constant[int]):
    """How many of many points lie in a circle, by xorshift; one atomic for each block."""
    state = (ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32) + seed).astype(
        ct.uint32
    ) * 2654435761
    state = state | 1
    hits = ct.zeros((tile,), ct.int64)
    for _ in range(rounds):
        state = state ^ (state << 13)
        state = state ^ (state >> 17)
        state = state ^ (state << 5)
        x = (state >> 16).astype(ct.int32)
        y = (state & 65535).astype(ct.int32)
        x, y = x.astype(ct.float32) * (1.0 / 65536), y.astype(ct.float32) * (1.0 / 65536)
        hits += (x * x + y * y < 1.0).astype(ct.int64)
    ct.atomic_add(out, 0, ct.sum(hits))


@ct.kernel
def lennard_jones(
    place, out, count: ct.Constant[int], rows: ct.Constant[int], tile: ct.Constant[int]
):
    """Energy of each particle with all others that are near: coordinates [3, particle]."""
    i = ct.bid(0)
    mine = i * rows + ct.arange(rows, dtype=ct.int32)
    total = ct.zeros((rows,), ct.float64)
    for j in range(count // tile):
        square = ct.zeros((rows, tile), ct.float64)
        for axis in ct.static_iter(range(3)):
            a = ct.load(place, (axis, i), (1, rows)).reshape((rows, 1))
            b = ct.load(place, (axis, j), (1, tile)).reshape((1, tile))
            square += (a - b) * (a - b)
        other = j * tile + ct.arange(tile, dtype=ct.int32)
        near = (square < 6.25) & (other.reshape((1, tile)) != mine.reshape((rows, 1)))
        r6 = 1.0 / ct.where(near, square, 1.0)
        r6 = r6 * r6 * r6
        total += ct.sum(ct.where(near, 4.0 * (r6 * r6 - r6), 0.0), 1)
    ct.store(out, (i,), total)


@ct.kernel
def nearest_centre(
    x,
    centres,
    squares,
    out,
    rows: ct.Constant[int],
    many: ct.Constant[int],
    depth: ct.Constant[int],
):
    """k-means: which centre is nearest, by a product."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0), (rows, depth))
    score = ct.matmul(held, ct.transpose(ct.load(centres, (0, 0), (many, depth))))
    far = ct.load(squares, (0,), (many,)).reshape((1, many)) - 2.0 * score
    ct.store(out, (i,), ct.argmin(far, 1).astype(ct.int32))


@ct.kernel
def moved_centres(x, names, sums, counts, rows: ct.Constant[int], depth: ct.Constant[int]):
    """k-means: sums and numbers of the points of each centre."""
    i = ct.bid(0)
    name = ct.load(names, (i,), (rows,))
    lane = ct.arange(depth, dtype=ct.int32).reshape((1, depth))
    ct.atomic_add(sums, (name.reshape((rows, 1)), lane), ct.load(x, (i, 0), (rows, depth)))
    ct.atomic_add(counts, (name,), 1)


@ct.kernel
def triplets(rows, columns, values, x, out, tile: ct.Constant[int]):
    """A sparse matrix by triplets times a vector, by atomics."""
    i = ct.bid(0)
    held = ct.load(values, (i,), (tile,)) * ct.gather(x, (ct.load(columns, (i,), (tile,)),))
    ct.atomic_add(out, (ct.load(rows, (i,), (tile,)),), held)


@ct.kernel
def blocks_times(starts, columns, blocks, x, out, size: ct.Constant[int], n: ct.Constant[int]):
    """A block-sparse matrix times a dense one."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((size, n), ct.float32)
    for k in range(ct.gather(starts, i), ct.gather(starts, i + 1)):
        block = ct.load(blocks, (k, 0, 0), (1, size, size)).reshape((size, size))
        total = ct.mma(block, ct.load(x, (ct.gather(columns, k), j), (size, n)), total)
    ct.store(out, (i, j), total.astype(out.dtype))


def _life(size: int) -> Row:
    x = integers(2, size, size, dtype=torch.int8)
    world, made = array(x), np.empty((size, size), np.int8)

    def theirs(x: torch.Tensor) -> torch.Tensor:
        lines = x.roll(1, 0) + x + x.roll(-1, 0)
        near = lines.roll(1, 1) + lines + lines.roll(-1, 1) - x
        return ((near == 3) | ((near == 2) & (x == 1))).to(torch.int8)

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, out):
            n = x.shape[0]
            for i in nb.prange(n):
                up, down = x[i - 1], x[(i + 1) % n]
                for j in range(1, n - 1):
                    near = up[j - 1] + up[j] + up[j + 1] + x[i, j - 1] + x[i, j + 1]
                    near += down[j - 1] + down[j] + down[j + 1]
                    out[i, j] = (near == 3) | ((near == 2) & (x[i, j] == 1))
                for j in (0, n - 1):
                    before, after = j - 1, (j + 1) % n
                    near = up[before] + up[j] + up[after] + x[i, before] + x[i, after]
                    near += down[before] + down[j] + down[after]
                    out[i, j] = (near == 3) | ((near == 2) & (x[i, j] == 1))

        return lambda: run(world, made)

    return beside_torch(
        f"game of life, {size} x {size} i8",
        life,
        (size // 256, size),
        (x, torch.empty_like(x), size, 256),
        theirs,
        x,
        more=by_numba(make),
    )


def _sobel(height: int, width: int) -> Row:
    x = integers(256, height, width, dtype=torch.uint8)
    picture, made = array(x), np.zeros((height, width), np.uint8)

    def theirs(x: torch.Tensor) -> torch.Tensor:
        a = x.int()
        down = a[:-2] + 2 * a[1:-1] + a[2:]
        along = a[2:] - a[:-2]
        across = down[:, 2:] - down[:, :-2]
        along = along[:, :-2] + 2 * along[:, 1:-1] + along[:, 2:]
        slope = (across.abs() + along.abs()).clamp_max(255).to(torch.uint8)
        return functional.pad(slope, (1, 1, 1, 1))

    def make(nb):
        @nb.njit(parallel=True)
        def run(x, out):
            for i in nb.prange(1, x.shape[0] - 1):
                for j in range(1, x.shape[1] - 1):
                    a = np.int32(x[i - 1, j + 1]) - x[i - 1, j - 1] + x[i + 1, j + 1]
                    a += -np.int32(x[i + 1, j - 1]) + 2 * (np.int32(x[i, j + 1]) - x[i, j - 1])
                    b = np.int32(x[i + 1, j - 1]) - x[i - 1, j - 1] + x[i + 1, j + 1]
                    b += -np.int32(x[i - 1, j + 1]) + 2 * (np.int32(x[i + 1, j]) - x[i - 1, j])
                    out[i, j] = min(abs(a) + abs(b), 255)

        return lambda: run(picture, made)

    return beside_torch(
        f"slopes of {height} x {width} u8",
        sobel,
        (-(-width // 256), height),
        (x, torch.empty_like(x), height, width, 256),
        theirs,
        x,
        more=by_numba(make),
    )


def _median(size: int, dtype: torch.dtype) -> Row:
    x = normal(size, size).mul(100).to(dtype)

    def theirs(x: torch.Tensor) -> torch.Tensor:
        return x.unfold(0, 3, 1).unfold(1, 3, 1).flatten(2).median(2).values

    def sorted_lines(x: torch.Tensor) -> torch.Tensor:
        def ordered(a, b, c):
            low, high = torch.minimum(a, b), torch.maximum(a, b)
            middle = torch.maximum(low, torch.minimum(high, c))
            return torch.minimum(low, c), middle, torch.maximum(high, c)

        lines = [
            ordered(*(x[r : size - 2 + r, s : size - 2 + s] for s in range(3))) for r in range(3)
        ]
        (l0, m0, h0), (l1, m1, h1), (l2, m2, h2) = lines
        low = torch.maximum(torch.maximum(l0, l1), l2)
        high = torch.minimum(torch.minimum(h0, h1), h2)
        return ordered(low, ordered(m0, m1, m2)[1], high)[1]

    return beside_torch(
        f"medians of 3 x 3, {size} x {size} {kind(dtype)}",
        median,
        (-(-(size - 2) // 256), size - 2),
        (x, torch.empty(size - 2, size - 2, dtype=dtype), 256),
        sorted_lines,
        x,
        more={"torch, its own": lambda: theirs(x)},
    )


def _nearest(height: int, width: int, to: tuple[int, int]) -> Row:
    x = integers(256, height, width, 3, dtype=torch.uint8)
    rows = torch.arange(to[0]) * height // to[0]
    columns = torch.arange(to[1]) * width // to[1]
    return beside_torch(
        f"{height} x {width} pixels of three u8 to {to[0]} x {to[1]}",
        nearest,
        (-(-3 * to[1] // 512), to[0]),
        (x, torch.empty(*to, 3, dtype=torch.uint8), 512),
        lambda x: x[rows[:, None], columns],
        x,
    )


def _means(images: int, channels: int, size: int, dtype: torch.dtype) -> Row:
    x, half = normal(images, channels, size, size).to(dtype), (size - 1) // 2
    return beside_torch(
        f"means of 3 x 3 two apart, {images} x {channels} x {size} x {size} {kind(dtype)}",
        mean_of_windows,
        (-(-half // 64), half, images * channels),
        (x, torch.empty(images, channels, half, half, dtype=dtype), 64),
        lambda x: functional.avg_pool2d(x, 3, 2),
        x,
        bound=ERROR[dtype],
    )


def _image_columns(side: int, channels: int, n: int, dtype: torch.dtype) -> Row:
    x, w = normal(side * side, channels).to(dtype), normal(9, channels, n).to(dtype)

    def theirs(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        image = x.view(1, side, side, channels).permute(0, 3, 1, 2)
        filters = w.view(3, 3, channels, n).permute(3, 2, 0, 1)
        found = functional.conv2d(image, filters, padding=1)
        return functional.relu(found)[0].permute(1, 2, 0).reshape(-1, n)

    return beside_torch(
        f"convolution 3 x 3 of {side} x {side}, {channels} to {n} channels last, {kind(dtype)}",
        image_columns,
        (side * side // 64, n // 64),
        (x, w, torch.empty(side * side, n, dtype=dtype), 64, 64, side, channels),
        theirs,
        x,
        w,
        bound=max(ERROR[dtype], 2e-5),
    )


def _wave(size: int, dtype: torch.dtype) -> Row:
    now, before = normal(size, size).to(dtype), normal(size, size + 1)[:, :size].to(dtype)
    before = before.contiguous()

    def theirs(now: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        def moved(dy: int, dx: int) -> torch.Tensor:
            return now[2 + dy : size - 2 + dy, 2 + dx : size - 2 + dx]

        near = moved(-1, 0) + moved(1, 0) + moved(0, -1) + moved(0, 1)
        far = moved(-2, 0) + moved(2, 0) + moved(0, -2) + moved(0, 2)
        bent = 16.0 / 12.0 * near - far / 12.0 - 5.0 * moved(0, 0)
        made = 2.0 * moved(0, 0) - before[2:-2, 2:-2] + 0.1 * bent
        return functional.pad(made, (2, 2, 2, 2))

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(now, before, out):
            n, speed = now.shape[0], now.dtype.type(0.1)
            for i in nb.prange(2, n - 2):
                for j in range(2, n - 2):
                    near = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1]
                    far = now[i - 2, j] + now[i + 2, j] + now[i, j - 2] + now[i, j + 2]
                    bent = 16.0 / 12.0 * near - far / 12.0 - 5.0 * now[i, j]
                    out[i, j] = 2.0 * now[i, j] - before[i, j] + speed * bent

        made = np.zeros((size, size), array(now).dtype)
        return lambda: run(array(now), array(before), made)

    return beside_torch(
        f"wave equation of fourth order, {size} x {size} {kind(dtype)}, tiles 8x128",
        wave,
        (-(-(size - 4) // 128), -(-(size - 4) // 8)),
        (now, before, torch.zeros_like(now), 0.1, 8, 128),
        theirs,
        now,
        before,
        bound=max(ERROR[dtype], 1e-6) if dtype == _F32 else 1e-8,
        more=by_numba(make),
    )


def _diffusion(size: int) -> Row:
    x = normal(size, size, size)

    def theirs(x: torch.Tensor) -> torch.Tensor:
        total = functional.pad(x[None, None], (1,) * 6, mode="replicate")[0, 0]
        for axis in range(3):
            total = sum(total.narrow(axis, k, size) for k in range(3))
        return x + 0.01 * (total - 27.0 * x)

    return beside_torch(
        f"27 points in space, {size}^3 f32, edges repeated",
        diffusion,
        (size // 64, size, size),
        (x, torch.empty_like(x), 0.01, size, 64),
        theirs,
        x,
        bound=1e-5,
    )


def _mandelbrot(height: int, width: int, most: int) -> Row:
    re = (-2.0 + np.float32(3.0 / width) * np.arange(width, dtype=np.float32)).astype(np.float32)
    im = (-1.0 + np.float32(3.0 / width) * np.arange(height, dtype=np.float32)).astype(np.float32)
    left, top = torch.from_numpy(re), torch.from_numpy(im)

    def theirs(left: torch.Tensor, top: torch.Tensor) -> torch.Tensor:
        cr, ci = left.expand(height, width), top[:, None].expand(height, width)
        zr, zi = torch.zeros(height, width), torch.zeros(height, width)
        count = torch.zeros(height, width, dtype=torch.int32)
        inside = torch.ones(height, width, dtype=torch.bool)
        for _ in range(most):
            square, product = torch.addcmul(-(zi * zi), zr, zr) + cr, torch.addcmul(ci, 2 * zr, zi)
            zr, zi = torch.where(inside, square, zr), torch.where(inside, product, zi)
            inside = torch.addcmul(zi * zi, zr, zr) <= 4.0
            count += inside
        return count

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(re, im, out):
            for i in nb.prange(im.size):
                for j in range(re.size):
                    zr, zi, n = np.float32(0), np.float32(0), 0
                    while n < most:
                        zr, zi = zr * zr - zi * zi + re[j], np.float32(2) * zr * zi + im[i]
                        if not zr * zr + zi * zi <= np.float32(4):
                            break
                        n += 1
                    out[i, j] = n

        made = np.empty((height, width), np.int32)
        return lambda: run(re, im, made)

    return beside_torch(
        f"Mandelbrot, {height} x {width} of up to {most} steps, tiles 8x64",
        mandelbrot,
        (width // 64, height // 8),
        (torch.empty(height, width, dtype=torch.int32), -2.0, -1.0, 3.0 / width, most, 8, 64),
        theirs,
        left,
        top,
        more=by_numba(make),
        compiles=False,
    )


def _options(many: int, dtype: torch.dtype) -> Row:
    s, x, t = (torch.rand(3, many, generator=torch.Generator().manual_seed(2)) + 0.5).to(dtype)

    def theirs(s: torch.Tensor, x: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, ...]:
        def below(x: torch.Tensor) -> torch.Tensor:
            k = 1.0 / (1.0 + 0.2316419 * x.abs())
            p = -1.821255978 + k * 1.330274429
            p = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * p)))
            tail = 0.3989422804 * torch.exp(-0.5 * x * x) * p
            return torch.where(x >= 0.0, 1.0 - tail, tail)

        root = 0.3 * torch.sqrt(t)
        d1 = (torch.log(s / x) + (0.02 + 0.5 * 0.09) * t) / root
        later = x * torch.exp(-0.02 * t)
        call = s * below(d1) - later * below(d1 - root)
        return call, call + later - s

    return beside_torch(
        f"Black-Scholes of {many >> 20}M {kind(dtype)}",
        black_scholes,
        (many // 1024,),
        (s, x, t, torch.empty_like(s), torch.empty_like(s), 0.02, 0.3, 1024),
        theirs,
        s,
        x,
        t,
        outputs=2,
        bound=1e-5 if dtype == _F32 else 1e-6,  # constants of Python are f32 in cuTile
    )


def _throws(blocks: int, rounds: int) -> Row:
    out, many = torch.zeros(1, dtype=torch.int64), blocks * 256
    places = np.arange(many, dtype=np.uint32) + np.uint32(7)

    def by_numpy() -> np.ndarray:
        state, hits = (places * np.uint32(2654435761)) | np.uint32(1), 0
        for _ in range(rounds):
            state ^= state << np.uint32(13)
            state ^= state >> np.uint32(17)
            state ^= state << np.uint32(5)
            x = (state >> np.uint32(16)).astype(np.float32) * np.float32(1 / 65536)
            y = (state & np.uint32(65535)).astype(np.float32) * np.float32(1 / 65536)
            hits += np.count_nonzero(np.float64(x) * x + np.float64(y) * y < 1)
        return hits

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(places):
            hits = 0
            for k in nb.prange(places.size):
                state = np.uint32(places[k] * np.uint32(2654435761)) | np.uint32(1)
                for _ in range(rounds):
                    state ^= np.uint32(state << np.uint32(13))
                    state ^= state >> np.uint32(17)
                    state ^= np.uint32(state << np.uint32(5))
                    x = np.float32(state >> np.uint32(16)) * np.float32(1 / 65536)
                    y = np.float32(state & np.uint32(65535)) * np.float32(1 / 65536)
                    hits += x * x + y * y < np.float32(1)
            return hits

        return lambda: run(places)

    return Row(
        f"points in a circle, {many} times {rounds}, by xorshift",
        throws,
        (blocks,),
        (out, 7, rounds, 256),
        (out,),
        lambda: (torch.tensor([by_numpy()]),),
        {"NumPy": by_numpy, **by_numba(make)},
        clear=out.zero_,
    )


def _lennard(count: int) -> Row:
    place = (torch.rand(3, count, generator=torch.Generator().manual_seed(4)) * 12).double()

    def theirs(place: torch.Tensor) -> torch.Tensor:
        square = ((place[:, :, None] - place[:, None]) ** 2).sum(0)
        near = (square < 6.25) & ~torch.eye(count, dtype=torch.bool)
        r6 = torch.where(near, square, 1.0) ** -3
        return torch.where(near, 4.0 * (r6 * r6 - r6), 0.0).sum(1)

    def make(nb):
        @nb.njit(parallel=True, fastmath=True)
        def run(place, out):
            for i in nb.prange(place.shape[1]):
                total = 0.0
                for j in range(place.shape[1]):
                    square = (place[0, i] - place[0, j]) ** 2 + (place[1, i] - place[1, j]) ** 2
                    square += (place[2, i] - place[2, j]) ** 2
                    near = square < 6.25 and i != j
                    r6 = 1.0 / (square if near else 1.0)
                    r6 = r6 * r6 * r6
                    total += 4.0 * (r6 * r6 - r6) if near else 0.0
                out[i] = total

        made = np.empty(count)
        return lambda: run(array(place), made)

    return beside_torch(
        f"Lennard-Jones energies of {count} particles f64, tiles 32x64",
        lennard_jones,
        (count // 32,),
        (place, torch.empty(count, dtype=_F64), count, 32, 64),
        theirs,
        place,
        bound=1e-10,
        more=by_numba(make),
    )


def _nearest_centre(points: int, many: int, depth: int, dtype: torch.dtype) -> Row:
    x, centres = normal(points, depth).to(dtype), normal(many, depth).to(dtype)
    squares = centres.square().sum(1)
    return beside_torch(
        f"nearest of {many} centres for {points} points of {depth} {kind(dtype)}",
        nearest_centre,
        (points // 64,),
        (x, centres, squares, torch.empty(points, dtype=torch.int32), 64, many, depth),
        lambda x, c: (c.square().sum(1) - 2.0 * (x @ c.t())).argmin(1).int(),
        x,
        centres,
    )


def _moved_centres(points: int, many: int, depth: int) -> Row:
    x, names = normal(points, depth), integers(many, points)
    sums, counts, wide = (
        torch.zeros(many, depth),
        torch.zeros(many, dtype=torch.int32),
        names.long(),
    )

    def theirs(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        made = torch.zeros(many, depth, dtype=x.dtype).index_add_(0, wide, x)
        return made, torch.bincount(wide, minlength=many).int()

    def clear() -> None:
        sums.zero_()
        counts.zero_()

    return beside_torch(
        f"sums of {points} points of {depth} f32 by {many} centres",
        moved_centres,
        (points // 64,),
        (x, names, sums, counts, 64, depth),
        theirs,
        x,
        outputs=2,
        bound=1e-4,
        clear=clear,
    )


def _triplets(rows: int, many: int, dtype: torch.dtype) -> Row:
    at, columns, values = integers(rows, many), integers(rows - 1, many), normal(many).to(dtype)
    at = at.sort().values
    x, out = normal(rows).to(dtype), torch.zeros(rows, dtype=dtype)
    held = torch.sparse_coo_tensor(
        torch.stack((at, columns)).long(), values, (rows, rows)
    ).coalesce()
    fast = held.to_sparse_csr()
    return beside_torch(
        f"{many} triplets times a vector of {rows} {kind(dtype)}, by atomics",
        triplets,
        (many // 1024,),
        (at, columns, values, x, out, 1024),
        lambda x: held.to(x.dtype) @ x,
        x,
        bound=1e-4 if dtype == _F32 else 1e-12,
        clear=out.zero_,
        compiles=False,
        more={"torch, CSR": lambda: fast @ x},
    )


def _blocks_times(count: int, each: int, size: int, n: int, dtype: torch.dtype) -> Row:
    columns = torch.stack(
        [
            torch.randperm(count, generator=torch.Generator().manual_seed(i))[:each]
            for i in range(count)
        ]
    )
    columns = columns.sort(1).values
    blocks, x = normal(count * each, size, size).to(dtype), normal(count * size, n).to(dtype)
    starts = torch.arange(count + 1, dtype=torch.int32) * each

    def theirs(blocks: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        held = x.view(count, size, n)[columns.flatten()]
        return (blocks @ held).view(count, each, size, n).sum(1).view(-1, n)

    return beside_torch(
        f"{count * each} blocks of {size} x {size} times {count * size} x {n} {kind(dtype)}",
        blocks_times,
        (count, n // 64),
        (starts, columns.flatten().int(), blocks, x, torch.empty_like(x), size, 64),
        theirs,
        blocks,
        x,
        bound=max(ERROR[dtype], 2e-5),
    )


def rows() -> list[Callable[[], Row]]:
    i16 = torch.int16
    return [
        lambda: _life(2048),
        lambda: _sobel(1080, 1921),
        lambda: _median(1500, _F32),
        lambda: _median(1500, i16),
        lambda: _nearest(480, 640, (720, 1001)),
        lambda: _means(4, 32, 57, _F32),
        lambda: _means(4, 32, 112, torch.float16),
        lambda: _image_columns(56, 64, 64, _F32),
        lambda: _image_columns(56, 64, 64, _BF16),
        lambda: _wave(1024, _F64),
        lambda: _wave(1500, _F32),
        lambda: _diffusion(128),
        lambda: _mandelbrot(512, 768, 200),
        lambda: _options(1 << 20, _F32),
        lambda: _options(1 << 20, _F64),
        lambda: _throws(256, 64),
        lambda: _lennard(2048),
        lambda: _nearest_centre(16384, 64, 16, _F32),
        lambda: _nearest_centre(16384, 128, 32, _F64),
        lambda: _moved_centres(65536, 64, 16),
        lambda: _triplets(16384, 1 << 19, _F32),
        lambda: _triplets(16384, 1 << 19, _F64),
        lambda: _blocks_times(32, 4, 32, 256, _F32),
        lambda: _blocks_times(32, 4, 64, 256, _BF16),
    ]
