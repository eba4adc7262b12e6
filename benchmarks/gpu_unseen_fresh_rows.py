"""Rows, scans, sorts and moves that nobody tuned for: reductions and scans of several values, axes in odd orders, tables,
rotations in place."""

from __future__ import annotations

import math
from typing import Any

import cuda.tile as ct

from benchmarks.gpu_cases import BF16, F8, F16, F32, I8, I32, Case

ZERO = ct.PaddingMode.ZERO
NEG_INF = ct.PaddingMode.NEG_INF
ConstInt = ct.Constant[int]
U8, U32, I64 = ct.uint8, ct.uint32, ct.int64


@ct.function
def _merged(count, mean, square, other_count, other_mean, other_square):
    """Welford's sums of two parts."""
    whole = count + other_count
    share = ct.where(whole > 0.0, other_count / ct.maximum(whole, 1.0), 0.0)
    apart = other_mean - mean
    return whole, mean + apart * share, square + other_square + apart * apart * count * share


@ct.kernel
def welford(x, weight, bias, out, rows: ConstInt, width: ConstInt):
    """Layer norm by one reduction of three values."""
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (rows, width)).astype(ct.float32)
    one, none = ct.full((rows, width), 1.0, ct.float32), ct.zeros((rows, width), ct.float32)
    count, mean, square = ct.reduce((one, tile, none), 1, _merged, (0.0, 0.0, 0.0), keepdims=True)
    normal = (tile - mean) * ct.rsqrt(square / count + 1e-5)
    w = ct.load(weight, (0,), (width,)).astype(ct.float32)[None, :]
    b = ct.load(bias, (0,), (width,)).astype(ct.float32)[None, :]
    ct.store(out, (i, 0), (normal * w + b).astype(out.dtype))


@ct.kernel
def dropped_norm(x, residual, weight, held, out, seed: ConstInt, width: ConstInt):
    """Dropout, a residual, and the norm of the sum, which is stored, too."""
    row = ct.bid(0)
    lane = ct.arange(width, dtype=ct.int32)
    mixed = ((row * width + lane) ^ seed).astype(ct.uint32)
    mixed = (mixed ^ (mixed >> 16)) * 2146121005
    mixed = (mixed ^ (mixed >> 15)) * 2221713035
    kept = (((mixed ^ (mixed >> 16)) >> 8) > 1677721)[None, :]
    tile = ct.load(x, (row, 0), (1, width), padding_mode=ZERO).astype(ct.float32)
    tile = ct.where(kept, tile * (1.0 / 0.9), 0.0)
    tile += ct.load(residual, (row, 0), (1, width), padding_mode=ZERO).astype(ct.float32)
    ct.store(held, (row, 0), tile.astype(held.dtype))
    scale = ct.rsqrt(ct.sum(tile * tile, 1, keepdims=True) / x.shape[1] + 1e-6)
    w = ct.load(weight, (0,), (width,), padding_mode=ZERO).astype(ct.float32)[None, :]
    ct.store(out, (row, 0), (tile * scale * w).astype(out.dtype))


@ct.kernel
def group_backward(x, dout, weight, mean, factor, dx, channels: ConstInt, pixels: ConstInt):
    """Of a group norm: the gradient of (n, channel, pixel) for all pixels of a group at once."""
    n, group = ct.bid(0), ct.bid(1)
    tile = ct.load(x, (n, group, 0), (1, channels, pixels)).reshape((channels, pixels))
    upper = ct.load(dout, (n, group, 0), (1, channels, pixels)).reshape((channels, pixels))
    m, f = ct.gather(mean, (n, group)), ct.gather(factor, (n, group))
    normal = (tile.astype(ct.float32) - m) * f
    slope = upper.astype(ct.float32) * ct.load(weight, (group,), (channels,))[:, None]
    count = channels * pixels
    level, along = ct.sum(slope) / count, ct.sum(slope * normal) / count
    result = (slope - level - normal * along) * f
    ct.store(dx, (n, group, 0), result.astype(dx.dtype).reshape((1, channels, pixels)))


@ct.kernel
def log_softmax(x, out, width: ConstInt):
    row = ct.bid(0)
    tile = ct.load(x, (row, 0), (1, width), padding_mode=NEG_INF)
    apart = tile - ct.max(tile, 1, keepdims=True)
    ct.store(out, (row, 0), apart - ct.log(ct.sum(ct.exp(apart), 1, keepdims=True)))


@ct.kernel
def masked_softmax_backward(y, dout, mask, dx, rows: ConstInt, width: ConstInt):
    """Causal rows, of which several are in a tile; a byte for each place says what was dropped."""
    i = ct.bid(0)
    p = ct.load(y, (i, 0), (rows, width)).astype(ct.float32)
    upper = ct.load(dout, (i, 0), (rows, width)).astype(ct.float32)
    upper = ct.where(ct.load(mask, (i, 0), (rows, width)) != 0, upper * 1.25, 0.0)
    slope = p * (upper - ct.sum(p * upper, 1, keepdims=True))
    ct.store(dx, (i, 0), slope.astype(dx.dtype))


@ct.kernel
def loss_and_slope(logits, targets, losses, width: ConstInt, smooth: ct.Constant[float]):
    """Cross entropy with smooth labels; the gradient takes the place of the logits."""
    row = ct.bid(0)
    top = ct.full((1, 1), -math.inf, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    level = ct.zeros((1, width), ct.float32)
    for j in range(ct.num_tiles(logits, 1, (1, width))):
        tile = ct.load(logits, (row, j), (1, width)).astype(ct.float32)
        higher = ct.maximum(top, ct.max(tile, 1, keepdims=True))
        total = total * ct.exp(top - higher) + ct.sum(ct.exp(tile - higher), 1, keepdims=True)
        level += tile
        top = higher
    target = ct.gather(targets, row)
    logsum = top + ct.log(total)
    count = logits.shape[1]
    hit = ct.gather(logits, (row, target)).astype(ct.float32)
    loss = logsum - (1.0 - smooth) * hit - smooth / count * ct.sum(level, 1, keepdims=True)
    ct.store(losses, (row,), loss.reshape((1,)))
    lane = ct.arange(width, dtype=ct.int32)[None, :]
    for j in range(ct.num_tiles(logits, 1, (1, width))):
        tile = ct.load(logits, (row, j), (1, width)).astype(ct.float32)
        slope = ct.exp(tile - logsum) - smooth / count
        slope = ct.where(j * width + lane == target, slope - (1.0 - smooth), slope)
        ct.store(logits, (row, j), slope.astype(logits.dtype))


@ct.kernel
def sums_of_axis(x, out, tm: ConstInt, tn: ConstInt, axis: ConstInt, back: ct.Constant[bool]):
    i, j = ct.bid(0), ct.bid(1)
    tile = ct.load(x, (i, j), (tm, tn)).astype(ct.float32)
    ct.store(out, (i, j), ct.cumsum(tile, axis, reverse=back).astype(out.dtype))


@ct.function
def _chained(a, b, c, d):
    return a * c, b * c + d


@ct.kernel
def gated_scan(gate, x, out, tm: ConstInt, tn: ConstInt):
    """h[t] = gate[t] h[t - 1] + x[t], along rows of (channel, time), chunk by chunk."""
    i = ct.bid(0)
    state = ct.zeros((tm, 1), ct.float32)
    last = ct.arange(tn, dtype=ct.int32)[None, :] == tn - 1
    for j in range(ct.num_tiles(x, 1, (tm, tn))):
        g = ct.load(gate, (i, j), (tm, tn)).astype(ct.float32)
        v = ct.load(x, (i, j), (tm, tn)).astype(ct.float32)
        fall, grown = ct.scan((1.0 / (1.0 + ct.exp(-g)), v), 1, _chained, (1.0, 0.0))
        held = fall * state + grown
        ct.store(out, (i, j), held.astype(out.dtype))
        state = ct.sum(ct.where(last, held, 0.0), 1, keepdims=True)


@ct.function
def _better(value, place, other, at):
    """The larger of two values with its place, the lower place of equals."""
    first = (value > other) | ((value == other) & (place < at))
    return ct.where(first, value, other), ct.where(first, place, at)


@ct.kernel
def best_pairs(x, values, places, width: ConstInt, best: ConstInt):
    """The best few of a long row with their places, chunk by chunk."""
    row = ct.bid(0)
    lane = ct.arange(width, dtype=ct.int32)[None, :]
    tile = ct.load(x, (row, 0), (1, width), padding_mode=NEG_INF).astype(ct.float32)
    for n in range(best):
        value, place = ct.reduce((tile, lane), 1, _better, (-math.inf, 2147483647), keepdims=True)
        ct.store(values, (row, n), value)
        ct.store(places, (row, n), place)
        tile = ct.where(lane == place, -math.inf, tile)


@ct.kernel
def sorted_rows(x, out, rows: ConstInt, width: ConstInt, bits: ConstInt):
    """A bitonic network for several rows of bytes in words."""
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (rows, width))
    lane = ct.arange(width, dtype=ct.int32)
    for stage in ct.static_iter(range(1, bits + 1)):
        for step in ct.static_iter(range(stage - 1, -1, -1)):
            apart = 1 << step
            parts = (rows, width // (2 * apart), 2, apart)
            held = tile.reshape(parts)
            a = ct.extract(held, (0, 0, 0, 0), (rows, width // (2 * apart), 1, apart))
            b = ct.extract(held, (0, 0, 1, 0), (rows, width // (2 * apart), 1, apart))
            up = ct.extract(
                ((lane >> stage) & 1).reshape((1, width // (2 * apart), 2, apart)),
                (0, 0, 0, 0),
                (1, width // (2 * apart), 1, apart),
            )
            low, high = ct.minimum(a, b), ct.maximum(a, b)
            first, second = ct.where(up == 0, low, high), ct.where(up == 0, high, low)
            tile = ct.cat((first, second), 2).reshape((rows, width))
    ct.store(out, (i, 0), tile)


@ct.kernel
def bins_by_places(x, out, width: ConstInt, bins: ConstInt):
    """How many of a chunk are in each of some bins, compared one by one, added up by atomics."""
    i = ct.bid(0)
    counts = ct.zeros((bins,), ct.int32)
    lane = ct.arange(bins, dtype=ct.int32)[:, None]
    for j in range(ct.num_tiles(x, 1, (1, width))):
        tile = ct.load(x, (i, j), (1, width))
        place = ct.minimum(ct.maximum((tile * bins).astype(ct.int32), 0), bins - 1)
        counts += ct.sum(ct.where(lane == place, 1, 0), 1)
    ct.atomic_add(out, ct.arange(bins, dtype=ct.int32), counts)


@ct.kernel
def quantised_tiles(x, out, scales, tm: ConstInt, tn: ConstInt):
    """One scale for each tile of a matrix."""
    i, j = ct.bid(0), ct.bid(1)
    tile = ct.load(x, (i, j), (tm, tn)).astype(ct.float32)
    scale = ct.maximum(ct.max(ct.abs(tile)), 1e-12) / 448.0
    ct.store(out, (i, j), (tile * (1.0 / scale)).astype(out.dtype))
    ct.scatter(scales, (i, j), scale)


@ct.kernel
def restored_nibbles(x, scales, out, rows: ConstInt, width: ConstInt, each: ConstInt):
    """Two values of 4 bits in each byte, neighbours in a row; a scale for each group."""
    i, j = ct.bid(0), ct.bid(1)
    pairs = ct.load(x, (i, j), (rows, width // 2))
    low, high = (pairs & 15).astype(ct.int8), (pairs >> 4).astype(ct.int8)
    both = ct.cat((low.reshape((rows, width // 2, 1)), high.reshape((rows, width // 2, 1))), 2)
    value = (both - 8).astype(ct.float32).reshape((rows, width // each, each))
    scale = ct.load(scales, (i, j), (rows, width // each)).astype(ct.float32)
    value = value * scale.reshape((rows, width // each, 1))
    ct.store(out, (i, j), value.reshape((rows, width)).astype(out.dtype))


@ct.kernel
def table_gradient(dout, places, out, rows: ConstInt, width: ConstInt):
    """Rows of f16 are added to those of a table in f32; row 0 is for padding and gets nothing."""
    i, j = ct.bid(0), ct.bid(1)
    at = ct.load(places, (i,), (rows,))
    tile = ct.load(dout, (i, j), (rows, width)).astype(ct.float32)
    tile = ct.where((at != 0)[:, None], tile, 0.0)
    columns = j * width + ct.arange(width, dtype=ct.int32)[None, :]
    ct.atomic_add(out, (at[:, None], columns), tile, memory_order=ct.MemoryOrder.RELAXED)


@ct.kernel
def moved_axes(x, out, e0: ConstInt, e1: ConstInt, e2: ConstInt, e3: ConstInt, order: ConstInt):
    """A tile of four axes in the order that the digits of a number say; blocks share the first and the third."""
    tile = ct.load(x, (ct.bid(0), 0, ct.bid(1), 0), (e0, e1, e2, e3))
    if ct.static_eval(order == 213):
        ct.store(out, (ct.bid(0), ct.bid(1), 0, 0), ct.permute(tile, (0, 2, 1, 3)))
    elif ct.static_eval(order == 2310):
        ct.store(out, (ct.bid(1), 0, 0, ct.bid(0)), ct.permute(tile, (2, 3, 1, 0)))
    elif ct.static_eval(order == 3021):
        ct.store(out, (0, ct.bid(0), ct.bid(1), 0), ct.permute(tile, (3, 0, 2, 1)))
    else:
        ct.store(out, (ct.bid(0), 0, 0, ct.bid(1)), ct.permute(tile, (0, 3, 1, 2)))


@ct.kernel
def best_down(x, out, at, tm: ConstInt, tn: ConstInt):
    """The largest of each column and its row."""
    j = ct.bid(0)
    best = ct.full((tn,), -math.inf, ct.float32)
    place = ct.zeros((tn,), ct.int32)
    for i in range(ct.num_tiles(x, 0, (tm, tn))):
        tile = ct.load(x, (i, j), (tm, tn)).astype(ct.float32)
        top, row = ct.max(tile, 0), ct.argmax(tile, 0) + i * tm
        place = ct.where(top > best, row, place)
        best = ct.maximum(best, top)
    ct.store(out, (j,), best)
    ct.store(at, (j,), place)


@ct.kernel
def turned_halves(q, k, cos, sin, heads: ConstInt, shared: ConstInt, half: ConstInt):
    """Queries and keys of a token are rotated in place, in f32: (token, head, 2, half)."""
    token = ct.bid(0)
    c = ct.load(cos, (token, 0), (1, half)).reshape((1, 1, 1, half))
    s = ct.load(sin, (token, 0), (1, half)).reshape((1, 1, 1, half))
    for array, count in ct.static_iter(((q, heads), (k, shared))):
        first = ct.load(array, (token, 0, 0, 0), (1, count, 1, half)).astype(ct.float32)
        second = ct.load(array, (token, 0, 1, 0), (1, count, 1, half)).astype(ct.float32)
        ct.store(array, (token, 0, 0, 0), (first * c - second * s).astype(array.dtype))
        ct.store(array, (token, 0, 1, 0), (second * c + first * s).astype(array.dtype))


@ct.kernel
def weighted_rows(parts, weights, places, out, best: ConstInt, width: ConstInt):
    """Each token gets the weighted rows that some experts made for it."""
    token, j = ct.bid(0), ct.bid(1)
    rows = ct.load(places, (token, 0), (1, best)).reshape((best,))
    share = ct.load(weights, (token, 0), (1, best)).reshape((best, 1))
    columns = j * width + ct.arange(width, dtype=ct.int32)
    tile = ct.gather(parts, (rows[:, None], columns[None, :])).astype(ct.float32)
    ct.store(out, (token, j), ct.sum(tile * share, 0).astype(out.dtype).reshape((1, width)))


@ct.kernel
def vector_by_matrix(x, a, out, tm: ConstInt, tn: ConstInt):
    """A row by a matrix; blocks share the depth and add up."""
    j, split = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    each = ct.cdiv(ct.num_tiles(a, 0, (tm, tn)), ct.num_blocks(1))
    for i in range(split * each, (split + 1) * each):
        tile = ct.load(a, (i, j), (tm, tn), padding_mode=ZERO).astype(ct.float32)
        total += tile * ct.load(x, (i,), (tm,), padding_mode=ZERO).astype(ct.float32)[:, None]
    ct.atomic_add(out, j * tn + ct.arange(tn, dtype=ct.int32), ct.sum(total, 0))


@ct.kernel
def gelu_backward(x, dout, bias, dx, tm: ConstInt, tn: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    v = ct.load(x, (i, j), (tm, tn)).astype(ct.float32)
    v = v + ct.load(bias, (j,), (tn,)).astype(ct.float32)[None, :]
    inner = ct.tanh(0.7978845608 * (v + 0.044715 * v * v * v))
    slope = 0.5 * (1.0 + inner)
    slope += 0.5 * v * (1.0 - inner * inner) * 0.7978845608 * (1.0 + 0.134145 * v * v)
    upper = ct.load(dout, (i, j), (tm, tn)).astype(ct.float32)
    ct.store(dx, (i, j), (upper * slope).astype(dx.dtype))


def _rows() -> list[Case]:
    def normed(rows: int, width: int) -> tuple[Any, ...]:
        x, w = (F16, (rows, width)), (F16, (width,))
        return (x, w, w, x, (4,), (1024,))

    def dropped(rows: int, width: int) -> tuple[Any, ...]:
        x = (BF16, (rows, width))
        return (x, x, (BF16, (width,)), x, x, (12345,), (4096,))

    def groups(n: int, count: int) -> tuple[Any, ...]:
        x, each = (BF16, (n, 16 * count, 256)), (F32, (n, count))
        return (x, x, (F32, (16 * count,)), each, each, x, (16,), (256,))

    def dropped_slopes(rows: int) -> tuple[Any, ...]:
        x = (F16, (rows, 512))
        return (x, x, (U8, (rows, 512)), x, (8,), (512,))

    def slopes(rows: int, width: int) -> tuple[Any, ...]:
        return ((BF16, (rows, width)), (I32, (rows,)), (F32, (rows,)), (4096,), (0.1,))

    def gelus(rows: int, width: int) -> tuple[Any, ...]:
        x = (BF16, (rows, width))
        return (x, x, (BF16, (width,)), x, (8,), (256,))

    return [
        Case(
            "layer norm Welford f16 4x1024",
            "rows",
            welford,
            normed(32768, 1024),
            (8192, 1, 1),
            normed(4, 1024),
        ),
        Case(
            "dropout, residual, norm bf16 4096",
            "rows",
            dropped_norm,
            dropped(16384, 4096),
            (16384, 1, 1),
            dropped(2, 4096),
            (2, 1, 1),
        ),
        Case(
            "group norm backward bf16 16x256",
            "rows",
            group_backward,
            groups(512, 32),
            (512, 32, 1),
            groups(1, 2),
            (1, 2, 1),
        ),
        Case(
            "log softmax f32 16384",
            "rows",
            log_softmax,
            ((F32, (8192, 16000)),) * 2 + ((16384,),),
            (8192, 1, 1),
            ((F32, (1, 16000)),) * 2 + ((16384,),),
        ),
        Case(
            "softmax backward dropped f16 8x512",
            "rows",
            masked_softmax_backward,
            dropped_slopes(1 << 17),
            (1 << 14, 1, 1),
            dropped_slopes(8),
        ),
        Case(
            "cross entropy in place bf16 4096",
            "rows",
            loss_and_slope,
            slopes(4096, 32768),
            (4096, 1, 1),
            slopes(1, 8192),
        ),
        Case(
            "gelu backward bf16 8x256",
            "rows",
            gelu_backward,
            gelus(16384, 4096),
            (2048, 16, 1),
            gelus(8, 256),
        ),
    ]


def _moves() -> list[Case]:
    def summed(kind: Any, tm: int, tn: int, axis: int, back: bool) -> Any:
        return lambda r, w: ((kind, (r, w)),) * 2 + ((tm,), (tn,), (axis,), (back,))

    def sums(name: str, kind: Any, tm: int, tn: int, axis: int, back: bool) -> Case:
        make = summed(kind, tm, tn, axis, back)
        return Case(
            name, "moves", sums_of_axis, make(8192, 4096), (8192 // tm, 4096 // tn, 1), make(tm, tn)
        )

    def gated(rows: int, width: int) -> tuple[Any, ...]:
        return ((BF16, (rows, width)),) * 3 + ((8,), (256,))

    def pairs(rows: int) -> tuple[Any, ...]:
        return ((BF16, (rows, 4000)), (F32, (rows, 8)), (I32, (rows, 8)), (4096,), (8,))

    def words(rows: int) -> tuple[Any, ...]:
        return ((I32, (rows, 128)),) * 2 + ((16,), (128,), (7,))

    def bins(rows: int, width: int) -> tuple[Any, ...]:
        return ((F32, (rows, width)), (I32, (32,)), (512,), (32,))

    def scaled(rows: int, width: int) -> tuple[Any, ...]:
        return (
            (BF16, (rows, width)),
            (F8, (rows, width)),
            (F32, (rows // 128, width // 128)),
            (128,),
            (128,),
        )

    def nibbles(rows: int, width: int) -> tuple[Any, ...]:
        return (
            (U8, (rows, width // 2)),
            (F16, (rows, width // 64)),
            (F16, (rows, width)),
            (16,),
            (256,),
            (64,),
        )

    def gradient(rows: int, table: int, width: int) -> tuple[Any, ...]:
        return ((F16, (rows, width)), (I32, (rows,)), (F32, (table, width)), (8,), (512,))

    def axes(name: str, kind: Any, extents: Any, tile: Any, order: Any) -> Case:
        def made(e: Any) -> tuple[Any, ...]:
            number = sum(digit * 10 ** (3 - place) for place, digit in enumerate(order))
            return (
                (kind, e),
                (kind, tuple(e[n] for n in order)),
                *((each,) for each in tile),
                (number,),
            )

        grid = (extents[0] // tile[0], extents[2] // tile[2], 1)
        return Case(name, "moves", moved_axes, made(extents), grid, made(tile))

    def down(rows: int, width: int) -> tuple[Any, ...]:
        return ((F16, (rows, width)), (F32, (width,)), (I32, (width,)), (64,), (64,))

    def turned(tokens: int) -> tuple[Any, ...]:
        q, k = (BF16, (tokens, 32, 2, 64)), (BF16, (tokens, 8, 2, 64))
        return (q, k, (F32, (tokens, 64)), (F32, (tokens, 64)), (32,), (8,), (64,))

    def weighted(tokens: int, width: int) -> tuple[Any, ...]:
        parts = (BF16, (max(tokens * 8, 4), width))
        return (
            parts,
            (F32, (tokens, 8)),
            (I32, (tokens, 8)),
            (BF16, (tokens, width)),
            (8,),
            (512,),
        )

    def vector(rows: int, width: int) -> tuple[Any, ...]:
        return ((BF16, (rows,)), (BF16, (rows, width)), (F32, (width,)), (32,), (256,))

    return [
        sums("running sums down bf16 128x64", BF16, 128, 64, 0, False),
        sums("running sums back f16 64x128", F16, 64, 128, 1, True),
        sums("running sums down back f32 256x16", F32, 256, 16, 0, True),
        Case(
            "gated scan bf16 8x256",
            "moves",
            gated_scan,
            gated(16384, 4096),
            (2048, 1, 1),
            gated(8, 512),
        ),
        Case(
            "best pairs bf16 4096, 8 of them",
            "moves",
            best_pairs,
            pairs(8192),
            (8192, 1, 1),
            pairs(1),
        ),
        Case("sort i32 16x128", "moves", sorted_rows, words(1 << 18), (1 << 14, 1, 1), words(16)),
        Case(
            "histogram f32 32 bins of 512",
            "moves",
            bins_by_places,
            bins(1024, 16384),
            (1024, 1, 1),
            bins(1, 1024),
        ),
        Case(
            "quantise f8 tiles 128x128",
            "moves",
            quantised_tiles,
            scaled(8192, 8192),
            (64, 64, 1),
            scaled(128, 128),
        ),
        Case(
            "dequantise 4 bits f16 16x256",
            "moves",
            restored_nibbles,
            nibbles(8192, 8192),
            (512, 32, 1),
            nibbles(16, 256),
        ),
        Case(
            "table gradient f16 8x512",
            "moves",
            table_gradient,
            gradient(1 << 16, 32000, 1024),
            (1 << 13, 2, 1),
            gradient(8, 8, 512),
        ),
        axes(
            "permute f16 (0, 2, 1, 3) 8x16x32", F16, (64, 8, 2048, 32), (1, 8, 16, 32), (0, 2, 1, 3)
        ),
        axes("permute bf16 (2, 3, 1, 0)", BF16, (2048, 4, 2048, 8), (16, 4, 16, 8), (2, 3, 1, 0)),
        axes("permute i8 (3, 0, 2, 1)", I8, (2048, 16, 512, 16), (8, 16, 8, 16), (3, 0, 2, 1)),
        axes("permute f32 (0, 3, 1, 2)", F32, (512, 16, 512, 32), (2, 16, 4, 32), (0, 3, 1, 2)),
        Case(
            "best of columns f16 64x64",
            "moves",
            best_down,
            down(8192, 16384),
            (256, 1, 1),
            down(128, 64),
        ),
        Case(
            "rotation in place bf16 32, 8 heads",
            "moves",
            turned_halves,
            turned(16384),
            (16384, 1, 1),
            turned(1),
        ),
        Case(
            "sums of experts bf16 8x512",
            "moves",
            weighted_rows,
            weighted(16384, 4096),
            (16384, 8, 1),
            weighted(1, 512),
        ),
        Case(
            "vector by matrix bf16 32x256",
            "moves",
            vector_by_matrix,
            vector(8192, 8192),
            (32, 16, 1),
            vector(128, 256),
            (1, 2, 1),
        ),
    ]


def cases() -> list[Case]:
    """Kernels that nobody tuned for."""
    return [*_rows(), *_moves()]
