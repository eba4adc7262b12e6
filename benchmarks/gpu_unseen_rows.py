"""Kernels of rows: norms and their gradients, losses, rotations, quantisation, optimisers."""

from __future__ import annotations

import math
from typing import Any

import cuda.tile as ct

from benchmarks.gpu_cases import BF16, F8, F16, F32, I8, I32, Case

ZERO = ct.PaddingMode.ZERO
NEG_INF = ct.PaddingMode.NEG_INF
ConstInt = ct.Constant[int]


@ct.kernel
def rotate_pairs(x, cosines, sines, out, rows: ConstInt, half: ConstInt):
    """Neighbours are turned together: (row, pair, 2)."""
    i = ct.bid(0)
    tile = ct.load(x, (i, 0, 0), (rows, half, 2)).astype(ct.float32)
    c = ct.load(cosines, (i, 0), (rows, half))[:, :, None]
    s = ct.load(sines, (i, 0), (rows, half))[:, :, None]
    a = ct.extract(tile, (0, 0, 0), (rows, half, 1))
    b = ct.extract(tile, (0, 0, 1), (rows, half, 1))
    turned = ct.cat((a * c - b * s, a * s + b * c), 2)
    ct.store(out, (i, 0, 0), turned.astype(out.dtype))


@ct.kernel
def rotate_halves(x, cosines, sines, out, heads: ConstInt, half: ConstInt):
    """All heads of a position; the second half of a head is turned with the first: (position, head, 2, half)."""
    i = ct.bid(0)
    c = ct.load(cosines, (i, 0), (1, half))
    s = ct.load(sines, (i, 0), (1, half))
    a = ct.load(x, (i, 0, 0, 0), (1, heads, 1, half)).reshape((heads, half)).astype(ct.float32)
    b = ct.load(x, (i, 0, 1, 0), (1, heads, 1, half)).reshape((heads, half)).astype(ct.float32)
    first, second = (a * c - b * s).astype(out.dtype), (b * c + a * s).astype(out.dtype)
    ct.store(out, (i, 0, 0, 0), first.reshape((1, heads, 1, half)))
    ct.store(out, (i, 0, 1, 0), second.reshape((1, heads, 1, half)))


@ct.kernel
def swiglu(x, out, width: ConstInt):
    """The first half of a row gates the second."""
    row, j = ct.bid(0), ct.bid(1)
    gate = ct.load(x, (row, 0, j), (1, 1, width)).astype(ct.float32)
    up = ct.load(x, (row, 1, j), (1, 1, width)).astype(ct.float32)
    ct.store(
        out, (row, j), (gate / (1.0 + ct.exp(-gate)) * up).astype(out.dtype).reshape((1, width))
    )


@ct.kernel
def rms_backward(x, weight, dout, dx, dweight, width: ConstInt):
    """Some rows for each block, which sums up its part of the gradient of the weights."""
    w = ct.load(weight, (0,), (width,), padding_mode=ZERO).astype(ct.float32)[None, :]
    total = ct.zeros((1, width), ct.float32)
    for row in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        tile = ct.load(x, (row, 0), (1, width), padding_mode=ZERO).astype(ct.float32)
        upper = ct.load(dout, (row, 0), (1, width), padding_mode=ZERO).astype(ct.float32)
        factor = ct.rsqrt(ct.sum(tile * tile, 1, keepdims=True) / x.shape[1] + 1e-6)
        normal = tile * factor
        slope = upper * w
        mean = ct.sum(slope * normal, 1, keepdims=True) / x.shape[1]
        ct.store(dx, (row, 0), ((slope - normal * mean) * factor).astype(dx.dtype))
        total += upper * normal
    ct.store(dweight, (ct.bid(0), 0), total)


@ct.kernel
def layer_backward(
    x, weight, dout, mean, factor, dx, dweight, dbias, rows: ConstInt, width: ConstInt
):
    """A tile of rows for each block; gradients of weights are added to by all blocks."""
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (rows, width), padding_mode=ZERO).astype(ct.float32)
    upper = ct.load(dout, (i, 0), (rows, width), padding_mode=ZERO).astype(ct.float32)
    scale = ct.load(factor, (i,), (rows,))[:, None]
    normal = (tile - ct.load(mean, (i,), (rows,))[:, None]) * scale
    slope = upper * ct.load(weight, (0,), (width,), padding_mode=ZERO).astype(ct.float32)[None, :]
    along = ct.sum(slope * normal, 1, keepdims=True) / x.shape[1]
    level = ct.sum(slope, 1, keepdims=True) / x.shape[1]
    ct.store(dx, (i, 0), ((slope - level - normal * along) * scale).astype(dx.dtype))
    lane = ct.arange(width, dtype=ct.int32)
    ct.atomic_add(dweight, lane, ct.sum(upper * normal, 0))
    ct.atomic_add(dbias, lane, ct.sum(upper, 0))


@ct.kernel
def group_norm(x, weight, bias, out, channels: ConstInt, pixels: ConstInt):
    """(n, channel, pixel): mean and variance over the channels of a group and all pixels."""
    n, group = ct.bid(0), ct.bid(1)
    total = ct.zeros((channels, pixels), ct.float32)
    squares = ct.zeros((channels, pixels), ct.float32)
    for j in range(ct.num_tiles(x, 2, (1, channels, pixels))):
        tile = ct.load(x, (n, group, j), (1, channels, pixels), padding_mode=ZERO)
        tile = tile.reshape((channels, pixels)).astype(ct.float32)
        total += tile
        squares += tile * tile
    count = channels * x.shape[2]
    mean = ct.sum(total) / count
    factor = ct.rsqrt(ct.sum(squares) / count - mean * mean + 1e-5)
    w = ct.load(weight, (group,), (channels,)).astype(ct.float32)[None, :, None] * factor
    b = ct.load(bias, (group,), (channels,)).astype(ct.float32)[None, :, None]
    for j in range(ct.num_tiles(x, 2, (1, channels, pixels))):
        tile = ct.load(x, (n, group, j), (1, channels, pixels), padding_mode=ZERO)
        normal = (tile.astype(ct.float32) - mean) * w + b
        ct.store(out, (n, group, j), normal.astype(out.dtype))


@ct.kernel
def batch_statistics(x, mean, variance, batch: ConstInt, channels: ConstInt, pixels: ConstInt):
    """Over the first and the last of three axes."""
    j = ct.bid(0)
    total = ct.zeros((channels,), ct.float32)
    squares = ct.zeros((channels,), ct.float32)
    for i in range(ct.num_tiles(x, 0, (batch, channels, pixels))):
        tile = ct.load(x, (i, j, 0), (batch, channels, pixels)).astype(ct.float32)
        total += ct.sum(ct.sum(tile, 2), 0)
        squares += ct.sum(ct.sum(tile * tile, 2), 0)
    count = x.shape[0] * x.shape[2]
    ct.store(mean, (j,), total / count)
    ct.store(variance, (j,), squares / count - total * total / count / count)


@ct.kernel
def cross_entropy(logits, targets, losses, logsums, width: ConstInt):
    """Rows of any length, in one pass."""
    row = ct.bid(0)
    top = ct.full((1, 1), -math.inf, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    for j in range(ct.num_tiles(logits, 1, (1, width))):
        tile = ct.load(logits, (row, j), (1, width), padding_mode=NEG_INF).astype(ct.float32)
        higher = ct.maximum(top, ct.max(tile, 1, keepdims=True))
        total = total * ct.exp(top - higher) + ct.sum(ct.exp(tile - higher), 1, keepdims=True)
        top = higher
    target = ct.gather(targets, row)
    logsum = (top + ct.log(total)).reshape((1,))
    ct.store(logsums, (row,), logsum)
    ct.store(losses, (row,), logsum - ct.gather(logits, (row, target)).astype(ct.float32))


@ct.kernel
def cross_entropy_backward(logits, targets, logsums, out, width: ConstInt):
    row, j = ct.bid(0), ct.bid(1)
    tile = ct.load(logits, (row, j), (1, width), padding_mode=NEG_INF).astype(ct.float32)
    columns = j * width + ct.arange(width, dtype=ct.int32)[None, :]
    target, logsum = ct.gather(targets, row), ct.gather(logsums, row)
    slope = ct.exp(tile - logsum) - ct.where(columns == target, 1.0, 0.0)
    ct.store(out, (row, j), slope.astype(out.dtype))


@ct.kernel
def softmax_rows(x, out, rows: ConstInt, width: ConstInt):
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (rows, width), padding_mode=NEG_INF).astype(ct.float32)
    power = ct.exp(tile - ct.max(tile, 1, keepdims=True))
    ct.store(out, (i, 0), (power / ct.sum(power, 1, keepdims=True)).astype(out.dtype))


@ct.kernel
def softmax_gradient(y, dout, dx, rows: ConstInt, width: ConstInt):
    i = ct.bid(0)
    p = ct.load(y, (i, 0), (rows, width), padding_mode=ZERO).astype(ct.float32)
    upper = ct.load(dout, (i, 0), (rows, width), padding_mode=ZERO).astype(ct.float32)
    ct.store(dx, (i, 0), (p * (upper - ct.sum(p * upper, 1, keepdims=True))).astype(dx.dtype))


@ct.kernel
def layer_norm_long(x, weight, out, width: ConstInt):
    """Rows in chunks: mean and variance of what came before and of the chunk, then a second pass."""
    row = ct.bid(0)
    total = ct.zeros((1, width), ct.float32)
    for j in range(ct.num_tiles(x, 1, (1, width))):
        total += ct.load(x, (row, j), (1, width), padding_mode=ZERO).astype(ct.float32)
    mean = ct.sum(total, 1, keepdims=True) / x.shape[1]
    squares = ct.zeros((1, width), ct.float32)
    lane = ct.arange(width, dtype=ct.int32)[None, :]
    for j in range(ct.num_tiles(x, 1, (1, width))):
        tile = ct.load(x, (row, j), (1, width), padding_mode=ZERO).astype(ct.float32)
        centred = ct.where(j * width + lane < x.shape[1], tile - mean, 0.0)
        squares += centred * centred
    factor = ct.rsqrt(ct.sum(squares, 1, keepdims=True) / x.shape[1] + 1e-5)
    for j in range(ct.num_tiles(x, 1, (1, width))):
        tile = ct.load(x, (row, j), (1, width), padding_mode=ZERO).astype(ct.float32)
        w = ct.load(weight, (j,), (width,), padding_mode=ZERO).astype(ct.float32)
        ct.store(out, (row, j), ((tile - mean) * factor * w[None, :]).astype(out.dtype))


@ct.kernel
def quantise_rows(x, out, scales, rows: ConstInt, width: ConstInt, limit: ct.Constant[float]):
    """A scale for each row from its largest magnitude."""
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (rows, width), padding_mode=ZERO).astype(ct.float32)
    scale = ct.maximum(ct.max(ct.abs(tile), 1, keepdims=True), 1e-12) / limit
    found = tile / scale
    if ct.static_eval(out.dtype == ct.int8):
        found = ct.floor(found + 0.5)
    ct.store(out, (i, 0), found.astype(out.dtype))
    ct.store(scales, (i,), scale.reshape((rows,)))


@ct.kernel
def quantise_groups(x, out, scales, rows: ConstInt, groups: ConstInt, each: ConstInt):
    """A scale for each group of a row."""
    i = ct.bid(0)
    tile = (
        ct.load(x, (i, 0), (rows, groups * each)).reshape((rows, groups, each)).astype(ct.float32)
    )
    scale = ct.maximum(ct.max(ct.abs(tile), 2, keepdims=True), 1e-12) / 448.0
    ct.store(out, (i, 0), (tile / scale).reshape((rows, groups * each)).astype(out.dtype))
    ct.store(scales, (i, 0), scale.reshape((rows, groups)))


@ct.kernel
def adam(p, master, g, m, v, rate, correction, width: ConstInt):
    i = ct.bid(0)
    slope = ct.load(g, (i,), (width,)).astype(ct.float32)
    first = 0.9 * ct.load(m, (i,), (width,)) + 0.1 * slope
    second = 0.999 * ct.load(v, (i,), (width,)) + 0.001 * slope * slope
    value = ct.load(master, (i,), (width,))
    value = value - rate * (first / (ct.sqrt(second / correction) + 1e-8) + 0.01 * value)
    ct.store(m, (i,), first)
    ct.store(v, (i,), second)
    ct.store(master, (i,), value)
    ct.store(p, (i,), value.astype(p.dtype))


@ct.kernel
def dropout(x, out, width: ConstInt, rounds: ConstInt):
    """Which elements stay is drawn from their number, by rounds of wide products (as Philox does)."""
    i = ct.bid(0)
    low = (i * width + ct.arange(width, dtype=ct.int32)).astype(ct.uint32)
    high = ct.full((width,), 20, ct.uint32)
    key = ct.full((width,), 1234, ct.uint32)
    for _ in ct.static_iter(range(rounds)):
        wide = low.astype(ct.uint64) * 3528531795
        low = (wide >> 32).astype(ct.uint32) ^ key ^ high
        high = wide.astype(ct.uint32)
        key = key + 2654435769
    kept = (low >> 8).astype(ct.float32) * (1.0 / 16777216.0) > 0.1
    tile = ct.load(x, (i,), (width,)).astype(ct.float32)
    ct.store(out, (i,), ct.where(kept, tile / 0.9, 0.0).astype(out.dtype))


@ct.kernel
def route(logits, weights, chosen, rows: ConstInt, count: ConstInt, best: ConstInt):
    """The best of some experts for each of many rows, and their shares."""
    i = ct.bid(0)
    tile = ct.load(logits, (i, 0), (rows, count)).astype(ct.float32)
    power = ct.exp(tile - ct.max(tile, 1, keepdims=True))
    share = power / ct.sum(power, 1, keepdims=True)
    lane = ct.arange(count, dtype=ct.int32)[None, :]
    for n in range(best):
        at = ct.argmax(share, 1, keepdims=True)
        ct.store(weights, (i, n), ct.max(share, 1, keepdims=True))
        ct.store(chosen, (i, n), at)
        share = ct.where(lane == at, -1.0, share)


@ct.kernel
def places_of_least(x, out, rows: ConstInt, width: ConstInt):
    i = ct.bid(0)
    ct.store(out, (i,), ct.argmin(ct.load(x, (i, 0), (rows, width)), 1))


def _rows(
    name: str,
    kernel: Any,
    extents: tuple[int, int],
    per_block: int,
    arguments: Any,
    across: int = 1,
) -> Case:
    rows, width = extents
    grid = (rows // per_block, across, 1)
    return Case(name, "rows", kernel, arguments(rows, width), grid, arguments(per_block, width))


def _norm_cases() -> list[Case]:
    def grouped(n: int, pixels: int) -> tuple[Any, ...]:
        x, weight = (F16, (n, 256, pixels)), (F32, (256,))
        return (x, weight, weight, x, (8,), (512,))

    def statistics(n: int, channels: int) -> tuple[Any, ...]:
        sums = (F32, (channels,))
        return ((F16, (n, channels, 64)), sums, sums, (8,), (16,), (64,))

    def rms(kind: Any, rows: int, width: int, blocks: int, tile: int) -> tuple[Any, ...]:
        x = (kind, (rows, width))
        return (x, (kind, (width,)), x, x, (F32, (blocks, width)), (tile,))

    def layers(rows: int, width: int) -> tuple[Any, ...]:
        x, of_rows, sums = (BF16, (rows, width)), (F32, (rows,)), (F32, (width,))
        return (x, (BF16, (width,)), x, of_rows, of_rows, x, sums, sums, (4,), (1024,))

    return [
        Case(
            "rms norm backward bf16 4096",
            "rows",
            rms_backward,
            rms(BF16, 16384, 4096, 264, 4096),
            (264, 1, 1),
            rms(BF16, 2, 4096, 1, 4096),
        ),
        Case(
            "rms norm backward f32 1000",
            "rows",
            rms_backward,
            rms(F32, 65536, 1000, 264, 1024),
            (264, 1, 1),
            rms(F32, 2, 1000, 1, 1024),
        ),
        _rows("layer norm backward bf16 4x1024", layer_backward, (32768, 1024), 4, layers),
        Case(
            "group norm f16 8x512",
            "rows",
            group_norm,
            grouped(64, 4096),
            (64, 32, 1),
            grouped(1, 1024),
        ),
        Case(
            "batch statistics f16 8x16x64",
            "rows",
            batch_statistics,
            statistics(4096, 2048),
            (128, 1, 1),
            statistics(16, 16),
        ),
        _rows(
            "layer norm long f32 1024",
            layer_norm_long,
            (8192, 20000),
            1,
            lambda r, w: ((F32, (r, w)), (F32, (w,)), (F32, (r, w)), (1024,)),
        ),
    ]


def _loss_cases() -> list[Case]:
    def losses(kind: Any, width: int) -> Any:
        return lambda r, w: (
            *((kind, (r, w)), (I32, (r,)), (F32, (r,)), (F32, (r,))),
            (width,),
        )

    def both(kind: Any, rows: int, width: int) -> Any:
        return lambda r, w: ((kind, (r, w)), (kind, (r, w)), (rows,), (width,))

    return [
        _rows("cross entropy bf16 4096", cross_entropy, (4096, 32000), 1, losses(BF16, 4096)),
        _rows("cross entropy f32 1024", cross_entropy, (8192, 10000), 1, losses(F32, 1024)),
        _rows(
            "cross entropy backward bf16 2048",
            cross_entropy_backward,
            (4096, 32768),
            1,
            lambda r, w: ((BF16, (r, w)), (I32, (r,)), (F32, (r,)), (BF16, (r, w)), (2048,)),
            16,
        ),
        _rows("softmax f16 8x256", softmax_rows, (1 << 18, 256), 8, both(F16, 8, 256)),
        _rows("softmax f32 64x32", softmax_rows, (1 << 20, 32), 64, both(F32, 64, 32)),
        _rows("softmax bf16 1x8192", softmax_rows, (8192, 8000), 1, both(BF16, 1, 8192)),
        _rows(
            "softmax gradient bf16 2x2048",
            softmax_gradient,
            (32768, 2048),
            2,
            lambda r, w: ((BF16, (r, w)),) * 3 + ((2,), (2048,)),
        ),
        _rows(
            "route f32 64x64, best 4",
            route,
            (1 << 17, 64),
            64,
            lambda r, w: ((F32, (r, w)), (F32, (r, 4)), (I32, (r, 4)), (64,), (64,), (4,)),
        ),
        _rows(
            "argmin f16 4x1024",
            places_of_least,
            (65536, 1024),
            4,
            lambda r, w: ((F16, (r, w)), (I32, (r,)), (4,), (1024,)),
        ),
    ]


def cases() -> list[Case]:
    """Kernels of rows that nobody tuned for."""
    big = 1 << 25

    def pairs(r: int, w: int) -> tuple[Any, ...]:
        x, angle = (BF16, (r, w, 2)), (F32, (r, w))
        return (x, angle, angle, x, (16,), (64,))

    def halves(r: int, w: int) -> tuple[Any, ...]:
        x, angle = (F16, (r, 32, 2, w)), (F32, (r, w))
        return (x, angle, angle, x, (32,), (64,))

    def moments(size: int) -> tuple[Any, ...]:
        held = (F32, (size,))
        return ((BF16, (size,)), held, (BF16, (size,)), held, held, 1e-3, 0.5, (1024,))

    def dropped(size: int) -> tuple[Any, ...]:
        return ((F16, (size,)),) * 2 + ((2048,), (7,))

    def quantised(out: Any, rows: int, width: int, limit: float) -> Any:
        x, arrays = (F16, BF16)[out == F8], (F32,)
        return lambda r, w: (
            *((x, (r, w)), (out, (r, w)), (arrays[0], (r,))),
            (rows,),
            (width,),
            (limit,),
        )

    return [
        _rows("rotation of pairs bf16 16x64", rotate_pairs, (1 << 18, 64), 16, pairs),
        _rows("rotation of halves f16 32x64", rotate_halves, (1 << 14, 64), 1, halves),
        _rows(
            "swiglu bf16 1024",
            swiglu,
            (16384, 4096),
            1,
            lambda r, w: ((BF16, (r, 2, w)), (BF16, (r, w)), (1024,)),
            4,
        ),
        *_norm_cases(),
        *_loss_cases(),
        _rows("quantise i8 1x4096", quantise_rows, (16384, 4096), 1, quantised(I8, 1, 4096, 127.0)),
        _rows("quantise f8 4x2048", quantise_rows, (32768, 2048), 4, quantised(F8, 4, 2048, 448.0)),
        _rows(
            "quantise f8 groups 16x8x128",
            quantise_groups,
            (32768, 1024),
            16,
            lambda r, w: ((BF16, (r, w)), (F8, (r, w)), (F32, (r, 8)), (16,), (8,), (128,)),
        ),
        Case("Adam f32 1024", "rows", adam, moments(big), (big // 1024, 1, 1), moments(1024)),
        Case("dropout f16 2048", "rows", dropout, dropped(big), (big // 2048, 1, 1), dropped(2048)),
    ]
