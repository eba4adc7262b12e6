"""Kernels that scan, sort, count, turn and gather, and some of science."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct

from benchmarks.gpu_cases import BF16, F16, F32, I8, I32, Case

ZERO = ct.PaddingMode.ZERO
ConstInt = ct.Constant[int]
F64, I64 = ct.float64, ct.int64


@ct.kernel
def sums_down(x, out, rows: ConstInt, width: ConstInt):
    """Running sums along columns, in chunks of rows."""
    j = ct.bid(0)
    before = ct.zeros((1, width), ct.float32)
    for i in range(ct.num_tiles(x, 0, (rows, width))):
        tile = ct.load(x, (i, j), (rows, width), padding_mode=ZERO).astype(ct.float32)
        ct.store(out, (i, j), (ct.cumsum(tile, 0) + before).astype(out.dtype))
        before += ct.sum(tile, 0, keepdims=True)


@ct.kernel
def sums_across(x, out, rows: ConstInt, width: ConstInt, backward: ct.Constant[bool]):
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (rows, width), padding_mode=ZERO).astype(ct.float32)
    ct.store(out, (i, 0), ct.cumsum(tile, 1, reverse=backward).astype(out.dtype))


@ct.kernel
def products_across(x, out, width: ConstInt):
    row = ct.bid(0)
    ct.store(out, (row, 0), ct.cumprod(ct.load(x, (row, 0), (1, width)), 1))


def _chain(a, b, c, d):
    return a * c, b * c + d


@ct.kernel
def state_space(x, dt, a, b, c, out, rows: ConstInt, states: ConstInt):
    """A selective scan: states decay and take up input at each position, chunk by chunk."""
    channel, batch = ct.bid(0), ct.bid(1)
    slope = ct.load(a, (channel, 0), (1, states))
    before = ct.zeros((1, states), ct.float32)
    place = ct.arange(rows, dtype=ct.int32)[:, None]
    for i in range(ct.num_tiles(x, 2, (1, 1, rows))):
        step = ct.load(dt, (batch, channel, i), (1, 1, rows)).reshape((rows, 1))
        value = ct.load(x, (batch, channel, i), (1, 1, rows)).reshape((rows, 1))
        decay = ct.exp(step * slope)
        into = step * value * ct.load(b, (batch, i, 0), (1, rows, states)).reshape((rows, states))
        fallen, grown = ct.scan((decay, into), 0, _chain, (1.0, 0.0))
        state = fallen * before + grown
        read = ct.load(c, (batch, i, 0), (1, rows, states)).reshape((rows, states))
        ct.store(out, (batch, channel, i), ct.sum(state * read, 1).reshape((1, 1, rows)))
        before = ct.sum(ct.where(place == rows - 1, state, 0.0), 0, keepdims=True)


@ct.kernel
def sort_pairs(keys, values, sorted_keys, order, width: ConstInt, levels: ConstInt):
    """Keys with their values: a bitonic network, partners by gathering halves of reshaped tiles."""
    row = ct.bid(0)
    key = ct.load(keys, (row, 0), (1, width)).reshape((width,))
    value = ct.load(values, (row, 0), (1, width)).reshape((width,))
    lane = ct.arange(width, dtype=ct.int32)
    for level in ct.static_iter(range(1, levels + 1)):
        for step in ct.static_iter(range(level - 1, -1, -1)):
            shape, half = (width >> (step + 1), 2, 1 << step), (width >> (step + 1), 1, 1 << step)
            up = (((lane >> level) & 1) == 0).reshape(shape)
            up = ct.extract(up, (0, 0, 0), half)
            k, v = key.reshape(shape), value.reshape(shape)
            a, b = ct.extract(k, (0, 0, 0), half), ct.extract(k, (0, 1, 0), half)
            p, q = ct.extract(v, (0, 0, 0), half), ct.extract(v, (0, 1, 0), half)
            swap = (a > b) == up
            key = ct.cat((ct.where(swap, b, a), ct.where(swap, a, b)), 1).reshape((width,))
            value = ct.cat((ct.where(swap, q, p), ct.where(swap, p, q)), 1).reshape((width,))
    ct.store(sorted_keys, (row, 0), key.reshape((1, width)))
    ct.store(order, (row, 0), value.reshape((1, width)))


@ct.kernel
def count_bytes(x, counts, width: ConstInt):
    """Each element is one atomic addition."""
    for i in range(ct.bid(0), ct.num_tiles(x, 0, (width,)), ct.num_blocks(0)):
        ct.atomic_add(counts, ct.load(x, (i,), (width,), padding_mode=ZERO) & 255, 1)


@ct.kernel
def embedding_gradient(dout, ids, table, rows: ConstInt, width: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    at = ct.load(ids, (i,), (rows,))
    columns = j * width + ct.arange(width, dtype=ct.int32)
    slope = ct.load(dout, (i, j), (rows, width)).astype(table.dtype)
    ct.atomic_add(table, (at[:, None], columns[None, :]), slope)


@ct.kernel
def permute(
    x,
    out,
    a: ConstInt,
    b: ConstInt,
    c: ConstInt,
    first: ConstInt,
    second: ConstInt,
    third: ConstInt,
):
    """Tiles of three axes in another order; blocks along all of them."""
    at = (ct.bid(0), ct.bid(1), ct.bid(2))
    tile = ct.permute(ct.load(x, at, (a, b, c)), (first, second, third))
    ct.store(out, (at[first], at[second], at[third]), tile)


@ct.kernel
def transpose(x, out, rows: ConstInt, columns: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (j, i), ct.transpose(ct.load(x, (i, j), (rows, columns))))


@ct.kernel
def heads_first(x, out, length: ConstInt, heads: ConstInt, d: ConstInt):
    """(batch, position, head, d) to (batch, head, position, d)."""
    n, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    tile = ct.load(x, (n, i, j, 0), (1, length, heads, d))
    ct.store(out, (n, j, i, 0), ct.permute(tile, (0, 2, 1, 3)))


@ct.kernel
def middle_mean(x, out, middle: ConstInt, width: ConstInt):
    n, j = ct.bid(0), ct.bid(1)
    tile = ct.load(x, (n, 0, j), (1, middle, width), padding_mode=ZERO).astype(ct.float32)
    ct.store(out, (n, j), (ct.sum(tile, 1) / x.shape[1]).astype(out.dtype))


@ct.kernel
def pool(x, out, rows: ConstInt, columns: ConstInt):
    """The largest of each 2 x 2 pixels."""
    n, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    tile = ct.load(x, (n, i, j), (1, 2 * rows, 2 * columns)).reshape((rows, 2, columns, 2))
    ct.store(out, (n, i, j), ct.max(ct.max(tile, 3), 1).reshape((1, rows, columns)))


@ct.kernel
def heat(x, out, rows: ConstInt, columns: ConstInt):
    """Five points by gathers, which give 0 beyond the edges."""
    i = ct.bid(0) * rows + ct.arange(rows, dtype=ct.int32)[:, None]
    j = ct.bid(1) * columns + ct.arange(columns, dtype=ct.int32)[None, :]
    near = ct.gather(x, (i - 1, j)) + ct.gather(x, (i + 1, j))
    near = near + ct.gather(x, (i, j - 1)) + ct.gather(x, (i, j + 1))
    ct.store(out, (ct.bid(0), ct.bid(1)), 0.5 * ct.gather(x, (i, j)) + 0.125 * near)


@ct.kernel
def smooth(x, weights, out, taps: ConstInt, width: ConstInt):
    """A filter of some taps along rows, by loads of shifted views."""
    row, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((1, width), ct.float32)
    for t in ct.static_iter(range(taps)):
        view = x.slice(1, t, x.shape[1])
        total += ct.load(view, (row, j), (1, width), padding_mode=ZERO) * ct.gather(weights, t)
    ct.store(out, (row, j), total)


@ct.kernel
def bodies(px, py, pz, mass, ax, ay, az, rows: ConstInt, width: ConstInt):
    i = ct.bid(0)
    x = ct.load(px, (i,), (rows,))[:, None]
    y = ct.load(py, (i,), (rows,))[:, None]
    z = ct.load(pz, (i,), (rows,))[:, None]
    u = ct.zeros((rows, width), ct.float32)
    v = ct.zeros((rows, width), ct.float32)
    w = ct.zeros((rows, width), ct.float32)
    for j in range(ct.num_tiles(px, 0, (width,))):
        dx = ct.load(px, (j,), (width,))[None, :] - x
        dy = ct.load(py, (j,), (width,))[None, :] - y
        dz = ct.load(pz, (j,), (width,))[None, :] - z
        near = ct.rsqrt(dx * dx + dy * dy + dz * dz + 1e-4)
        pull = ct.load(mass, (j,), (width,))[None, :] * near * near * near
        u, v, w = u + dx * pull, v + dy * pull, w + dz * pull
    ct.store(ax, (i,), ct.sum(u, 1))
    ct.store(ay, (i,), ct.sum(v, 1))
    ct.store(az, (i,), ct.sum(w, 1))


@ct.kernel
def option_prices(spot, strike, years, calls, width: ConstInt):
    """Black and Scholes; the normal distribution by a polynomial."""
    i = ct.bid(0)
    s, k, t = (
        ct.load(spot, (i,), (width,)),
        ct.load(strike, (i,), (width,)),
        ct.load(years, (i,), (width,)),
    )
    s, k, t = ct.abs(s) + 1.0, ct.abs(k) + 1.0, ct.abs(t) + 0.1
    root = 0.3 * ct.sqrt(t)
    d1 = (ct.log(s / k) + (0.02 + 0.045) * t) / root
    d2 = d1 - root
    n1 = 0.5 * (1.0 + ct.tanh(0.7978845608 * (d1 + 0.044715 * d1 * d1 * d1)))
    n2 = 0.5 * (1.0 + ct.tanh(0.7978845608 * (d2 + 0.044715 * d2 * d2 * d2)))
    ct.store(calls, (i,), s * n1 - k * ct.exp(-0.02 * t) * n2)


@ct.kernel
def escape(x, y, rounds, width: ConstInt, most: ConstInt):
    """Each block goes on until all of its points have left or the rounds are over."""
    i = ct.bid(0)
    cr, ci = ct.load(x, (i,), (width,)), ct.load(y, (i,), (width,))
    zr, zi = ct.zeros((width,), ct.float32), ct.zeros((width,), ct.float32)
    count = ct.zeros((width,), ct.int32)
    n = 0
    inside = 1
    while (n < most) & (inside > 0):
        zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
        near = zr * zr + zi * zi <= 4.0
        zr, zi = ct.where(near, zr, 3.0), ct.where(near, zi, 0.0)
        count += near.astype(ct.int32)
        inside = ct.max(near.astype(ct.int32))
        n += 1
    ct.store(rounds, (i,), count)


@ct.kernel
def norms_of_rows(x, out, rows: ConstInt, width: ConstInt):
    """Sums in the type of the rows, of every kind."""
    i = ct.bid(0)
    total = ct.zeros((rows, width), out.dtype)
    for j in range(ct.num_tiles(x, 1, (rows, width))):
        tile = ct.load(x, (i, j), (rows, width), padding_mode=ZERO).astype(out.dtype)
        total += tile * tile
    ct.store(out, (i,), ct.sum(total, 1))


def _tiles(
    name: str, kernel: Any, kind: Any, sizes: Any, tile: Any, constants: Any, out: Any = None
) -> Case:
    """A kernel from one array to one of the same type; ``out``: the extents of the second from the first."""

    def arguments(extents: tuple[int, ...]) -> tuple[Any, ...]:
        return ((kind, extents), (kind, out(extents) if out else extents), *constants)

    grid = tuple(-(-extent // part) for extent, part in zip(sizes, tile, strict=True))
    whole = (*grid, 1, 1)[:3]
    return Case(name, "moves", kernel, arguments(sizes), whole, arguments(tile))


def _transposes() -> list[Case]:
    def turned(e: Any) -> Any:
        return (e[1], e[0])

    def one(name: str, kind: Any, rows: int, columns: int) -> Case:
        sizes = (8192, 8192)
        return _tiles(name, transpose, kind, sizes, (rows, columns), ((rows,), (columns,)), turned)

    def axes(name: str, kind: Any, sizes: Any, tile: Any, order: Any) -> Case:
        def out(e: Any) -> Any:
            return tuple(e[axis] for axis in order)

        constants = tuple((number,) for number in (*tile, *order))
        return _tiles(name, permute, kind, sizes, tile, constants, out)

    return [
        one("transpose f32 64x64", F32, 64, 64),
        one("transpose i8 128x128", I8, 128, 128),
        one("transpose bf16 32x256", BF16, 32, 256),
        one("transpose f64 32x32", F64, 32, 32),
        axes("permute f16 (2, 0, 1)", F16, (512, 512, 256), (16, 16, 32), (2, 0, 1)),
        axes("permute f32 (1, 0, 2)", F32, (512, 512, 128), (8, 8, 64), (1, 0, 2)),
        axes("permute i8 (2, 1, 0)", I8, (512, 512, 512), (32, 16, 32), (2, 1, 0)),
    ]


def _scans() -> list[Case]:
    def states(batch: int, channels: int, length: int) -> tuple[Any, ...]:
        x, many = (F32, (batch, channels, length)), (F32, (batch, length, 16))
        return (x, x, (F32, (channels, 16)), many, many, x, (64,), (16,))

    def pairs(rows: int) -> tuple[Any, ...]:
        keys, values = (F32, (rows, 512)), (I32, (rows, 512))
        return (keys, values, keys, values, (512,), (9,))

    tall = _tiles(
        "running sums down f32 64x32",
        sums_down,
        F32,
        (4096, 8192),
        (4096, 32),
        ((64,), (32,)),
    )
    return [
        Case(
            tall.name,
            "moves",
            sums_down,
            tall.arguments,
            (256, 1, 1),
            ((F32, (128, 32)),) * 2 + ((64,), (32,)),
        ),
        _tiles(
            "running sums bf16 8x512",
            sums_across,
            BF16,
            (65536, 512),
            (8, 512),
            ((8,), (512,), (False,)),
        ),
        _tiles(
            "running sums back f32 1x4096",
            sums_across,
            F32,
            (16384, 4096),
            (1, 4096),
            ((1,), (4096,), (True,)),
        ),
        _tiles(
            "running products f64 1024", products_across, F64, (16384, 1024), (1, 1024), ((1024,),)
        ),
        Case(
            "selective scan f32 64x16",
            "moves",
            state_space,
            states(8, 1024, 2048),
            (1024, 8, 1),
            states(1, 1, 128),
        ),
        Case("sort of pairs 512", "moves", sort_pairs, pairs(16384), (16384, 1, 1), pairs(1)),
    ]


def cases() -> list[Case]:
    """Movement, scans and science that nobody tuned for."""
    big = 1 << 24

    def counted(size: int) -> tuple[Any, ...]:
        return ((I32, (size,)), (I32, (256,)), (1024,))

    def gradient(kind: Any, rows: int, table: int, width: int) -> tuple[Any, ...]:
        return ((BF16, (rows, width)), (I32, (rows,)), (kind, (table, width)), (16,), (256,))

    def filtered(rows: int, width: int) -> tuple[Any, ...]:
        return ((F32, (rows, width)), (F32, (5,)), (F32, (rows, width)), (5,), (1024,))

    def many(size: int) -> tuple[Any, ...]:
        return ((F32, (size,)),) * 7 + ((128,), (32,))

    def prices(kind: Any, size: int) -> tuple[Any, ...]:
        return ((kind, (size,)),) * 4 + ((1024,),)

    def points(size: int) -> tuple[Any, ...]:
        return ((F32, (size,)), (F32, (size,)), (I32, (size,)), (512,), (100,))

    def squares(kind: Any, result: Any, rows: int, width: int) -> tuple[Any, ...]:
        return ((kind, (rows, width)), (result, (rows,)), (8,), (256,))

    def norms(name: str, kind: Any, result: Any) -> Case:
        few = squares(kind, result, 8, 512)
        whole = squares(kind, result, 8192, 8192)
        return Case(name, "moves", norms_of_rows, whole, (1024, 1, 1), few)

    return [
        *_scans(),
        *_transposes(),
        Case(
            "count bytes i32 1024", "moves", count_bytes, counted(big), (528, 1, 1), counted(2048)
        ),
        Case(
            "embedding gradient f32 16x256",
            "moves",
            embedding_gradient,
            gradient(F32, 1 << 16, 32000, 1024),
            (1 << 12, 4, 1),
            gradient(F32, 16, 8, 256),
        ),
        Case(
            "embedding gradient bf16 16x256",
            "moves",
            embedding_gradient,
            gradient(BF16, 1 << 16, 32000, 1024),
            (1 << 12, 4, 1),
            gradient(BF16, 16, 8, 256),
            turns=1,
        ),
        _tiles(
            "heads first bf16 32x8x64",
            heads_first,
            BF16,
            (32, 2048, 32, 64),
            (1, 32, 8, 64),
            ((32,), (8,), (64,)),
            lambda e: (e[0], e[2], e[1], e[3]),
        ),
        _tiles(
            "mean over the middle f16 64x256",
            middle_mean,
            F16,
            (2048, 64, 2048),
            (1, 64, 256),
            ((64,), (256,)),
            lambda e: (e[0], e[2]),
        ),
        _tiles(
            "pool 2x2 f16 16x32",
            pool,
            F16,
            (256, 512, 512),
            (1, 32, 64),
            ((16,), (32,)),
            lambda e: (e[0], e[1] // 2, e[2] // 2),
        ),
        _tiles("heat f32 32x64", heat, F32, (8192, 8192), (32, 64), ((32,), (64,))),
        Case(
            "filter of 5 taps f32",
            "moves",
            smooth,
            filtered(8192, 8192),
            (8192, 8, 1),
            filtered(1, 1024),
        ),
        Case("bodies f32 128x32", "moves", bodies, many(16384), (128, 1, 1), many(128)),
        Case(
            "option prices f32 1024",
            "moves",
            option_prices,
            prices(F32, big),
            (big // 1024, 1, 1),
            prices(F32, 1024),
        ),
        Case(
            "option prices f64 1024",
            "moves",
            option_prices,
            prices(F64, big),
            (big // 1024, 1, 1),
            prices(F64, 1024),
        ),
        Case(
            "escape f32 512",
            "moves",
            escape,
            points(1 << 22),
            (1 << 13, 1, 1),
            points(512),
            turns=50,
        ),
        norms("norms of rows f64", F64, F64),
        norms("norms of rows i8 to i64", I8, I64),
        norms("norms of rows bf16 to bf16", BF16, BF16),
    ]
