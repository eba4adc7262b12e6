"""Norms, softmax, losses, optimizers and quantising, as programs for GPUs have them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import cuda.tile as ct
import torch
from torch.nn import functional

from benchmarks.unseen_rows import ERROR, Row, beside_torch, integers, kind, normal

_ZERO, _LOWEST = ct.PaddingMode.ZERO, ct.PaddingMode.NEG_INF
_F32, _BF16, _F16 = torch.float32, torch.bfloat16, torch.float16


@ct.kernel
def online_softmax(x, out, width, tile: ct.Constant[int]):
    """Rows too long for a tile: a maximum and a sum that is corrected, then a second pass."""
    row = ct.bid(0)
    most = ct.full((1, 1), -math.inf, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    for j in range(ct.cdiv(width, tile)):
        held = ct.astype(ct.load(x, (row, j), (1, tile), padding_mode=_LOWEST), ct.float32)
        higher = ct.maximum(most, ct.max(held, axis=1, keepdims=True))
        total = total * ct.exp(most - higher) + ct.sum(ct.exp(held - higher), axis=1, keepdims=True)
        most = higher
    for j in range(ct.cdiv(width, tile)):
        held = ct.astype(ct.load(x, (row, j), (1, tile), padding_mode=_LOWEST), ct.float32)
        ct.store(out, (row, j), ct.astype(ct.exp(held - most) / total, out.dtype))


@ct.kernel
def log_softmax(x, out, rows: ct.Constant[int], width: ct.Constant[int]):
    i = ct.bid(0)
    held = ct.load(x, (i, 0), (rows, width), padding_mode=_LOWEST).astype(ct.float32)
    apart = held - ct.max(held, 1, keepdims=True)
    ct.store(
        out, (i, 0), (apart - ct.log(ct.sum(ct.exp(apart), 1, keepdims=True))).astype(out.dtype)
    )


@ct.kernel
def softmax_with_sink(scores, sinks, out, length: ct.Constant[int], scale: ct.Constant[float]):
    """Causal rows with one more logit for each head, that takes its part and is dropped."""
    head, row = ct.bid(1), ct.bid(0)
    held = ct.load(scores, (head, row, 0), (1, 1, length)).reshape((length,)) * scale
    held = ct.where(ct.arange(length, dtype=ct.int32) <= row, held, -math.inf)
    sink = ct.load(sinks, (head,), (1,))
    most = ct.maximum(ct.max(held, 0, keepdims=True), sink)
    raised = ct.exp(held - most)
    total = ct.sum(raised, 0, keepdims=True) + ct.exp(sink - most)
    ct.store(out, (head, row, 0), (raised / total).reshape((1, 1, length)))


@ct.kernel
def cross_entropy_in_place(
    logits, targets, losses, width, smoothing: ct.Constant[float], tile: ct.Constant[int]
):
    """Loss of a row with smoothed labels; its gradient takes the place of the logits."""
    row = ct.bid(0)
    target = ct.load(targets, (row,), (1,)).item()
    most, total, plain = -math.inf, 0.0, 0.0
    for j in range(ct.cdiv(width, tile)):
        held = ct.load(logits, (row, j), (1, tile), padding_mode=_LOWEST).astype(ct.float32)
        higher = max(most, ct.max(held))
        total = total * ct.exp(most - higher) + ct.sum(ct.exp(held - higher))
        most = higher
        inside = j * tile + ct.arange(tile, dtype=ct.int32) < width
        plain += ct.sum(ct.where(inside.reshape((1, tile)), held, 0.0))
    lse = most + ct.log(total)
    at_target = ct.gather(logits, (row, target)).astype(ct.float32)
    loss = lse - (1.0 - smoothing) * at_target - smoothing / width * plain
    ct.scatter(losses, row, loss)
    for j in range(ct.cdiv(width, tile)):
        held = ct.load(logits, (row, j), (1, tile), padding_mode=_LOWEST).astype(ct.float32)
        column = (j * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
        slope = ct.exp(held - lse) - smoothing / width
        slope = ct.where(column == target, slope - (1.0 - smoothing), slope)
        ct.store(logits, (row, j), slope.astype(logits.dtype))


@ct.kernel
def batch_norm(x, weight, bias, out, images, area, tile: ct.Constant[int]):
    """Training: a block for each channel of [image, channel, place]; areas that are no power of two."""
    channel = ct.bid(0)
    total, squares = ct.zeros((tile,), ct.float32), ct.zeros((tile,), ct.float32)
    for image in range(images):
        for j in range(ct.cdiv(area, tile)):
            held = ct.load(x, (image, channel, j), (1, 1, tile), padding_mode=_ZERO).reshape(
                (tile,)
            )
            total += held
            squares += held * held
    mean = ct.sum(total) / (images * area)
    variance = ct.sum(squares) / (images * area) - mean * mean
    scale = ct.load(weight, (channel,), (1,)).item() * ct.rsqrt(variance + 1e-5)
    shift = ct.load(bias, (channel,), (1,)).item() - mean * scale
    for image in range(images):
        for j in range(ct.cdiv(area, tile)):
            held = ct.load(x, (image, channel, j), (1, 1, tile), padding_mode=_ZERO)
            ct.store(out, (image, channel, j), held * scale + shift)


@ct.kernel
def layer_norm_backward(
    dy, x, weight, mean, rstd, dw, db, dx, width: ct.Constant[int], tile: ct.Constant[int]
):
    """Rows of one block after another; gradients of the parameters are added atomically at its end."""
    rows_each = ct.cdiv(x.shape[0], ct.num_blocks(0))
    column = ct.arange(tile, dtype=ct.int32)
    w = ct.load(weight, (0,), (tile,), padding_mode=_ZERO)
    part_w, part_b = ct.zeros((tile,), ct.float32), ct.zeros((tile,), ct.float32)
    for step in range(rows_each):
        row = ct.bid(0) * rows_each + step
        g = ct.load(dy, (row, 0), (1, tile), padding_mode=_ZERO).reshape((tile,))
        held = ct.load(x, (row, 0), (1, tile), padding_mode=_ZERO).reshape((tile,))
        m, r = ct.load(mean, (row,), (1,)).item(), ct.load(rstd, (row,), (1,)).item()
        hat = ct.where(column < width, (held - m) * r, 0.0)
        gw = g * w
        along, whole = ct.sum(gw * hat) / width, ct.sum(gw) / width
        ct.store(dx, (row, 0), ((gw - (hat * along + whole)) * r).reshape((1, tile)))
        part_w += g * hat
        part_b += g
    ct.atomic_add(dw, (column,), part_w)
    ct.atomic_add(db, (column,), part_b)


@ct.kernel
def group_norm_silu(x, weight, bias, out, area: ct.Constant[int], each: ct.Constant[int]):
    """Channels last: [image, place, channel], a block for each image and group."""
    image, group = ct.bid(1), ct.bid(0)
    held = ct.load(x, (image, 0, group), (1, area, each)).reshape((area, each)).astype(ct.float32)
    mean = ct.sum(held) / (area * each)
    apart = held - mean
    normed = apart * ct.rsqrt(ct.sum(apart * apart) / (area * each) + 1e-5)
    w = ct.load(weight, (group,), (each,)).reshape((1, each)).astype(ct.float32)
    b = ct.load(bias, (group,), (each,)).reshape((1, each)).astype(ct.float32)
    y = normed * w + b
    y = y / (1.0 + ct.exp(-y))
    ct.store(out, (image, 0, group), y.astype(out.dtype).reshape((1, area, each)))


@ct.kernel
def add_rms_norm(x, residual, weight, out, width, tile: ct.Constant[int]):
    """The residual is updated; then the norm of it, for a width that is no power of two."""
    row = ct.bid(0)
    held = ct.load(x, (row, 0), (1, tile), padding_mode=_ZERO).astype(ct.float32)
    held = held + ct.load(residual, (row, 0), (1, tile), padding_mode=_ZERO).astype(ct.float32)
    ct.store(residual, (row, 0), held.astype(residual.dtype))
    scale = ct.rsqrt(ct.sum(held * held, 1, keepdims=True) / width + 1e-6)
    w = ct.load(weight, (0,), (tile,), padding_mode=_ZERO).astype(ct.float32).reshape((1, tile))
    ct.store(out, (row, 0), (held * scale * w).astype(out.dtype))


@ct.kernel
def lengths_to_one(x, out, rows: ct.Constant[int], width: ct.Constant[int]):
    i = ct.bid(0)
    held = ct.load(x, (i, 0), (rows, width), padding_mode=_ZERO)
    ct.store(out, (i, 0), held / ct.maximum(ct.sqrt(ct.sum(held * held, 1, keepdims=True)), 1e-12))


@ct.kernel
def geglu(x, out, width, tile: ct.Constant[int]):
    """[row, 2 width]: gelu of the first half, by tanh, times the second; an odd width."""
    row, column = ct.bid(1), ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    inside = column < width
    a = ct.gather(x, (row, column), mask=inside).astype(ct.float32)
    b = ct.gather(x, (row, column + width), mask=inside).astype(ct.float32)
    bent = 0.5 * a * (1.0 + ct.tanh(0.7978845608 * (a + 0.044715 * a * a * a)))
    ct.scatter(out, (row, column), (bent * b).astype(out.dtype), mask=inside)


@ct.kernel
def swiglu_backward(dh, gate, up, dgate, dup, tile: ct.Constant[int]):
    i = ct.bid(0)
    d = ct.load(dh, (i,), (tile,)).astype(ct.float32)
    g = ct.load(gate, (i,), (tile,)).astype(ct.float32)
    u = ct.load(up, (i,), (tile,)).astype(ct.float32)
    s = 1.0 / (1.0 + ct.exp(-g))
    ct.store(dup, (i,), (d * g * s).astype(dup.dtype))
    ct.store(dgate, (i,), (d * u * s * (1.0 + g * (1.0 - s))).astype(dgate.dtype))


@ct.kernel
def distillation(student, teacher, losses, width, heat: ct.Constant[float], tile: ct.Constant[int]):
    """KL divergence of tempered rows of logits, both normalised as one goes along."""
    row = ct.bid(0)
    ms, ss, mt, st = -math.inf, 0.0, -math.inf, 0.0
    crossed = 0.0
    for j in range(ct.cdiv(width, tile)):
        s = ct.load(student, (row, j), (1, tile), padding_mode=_LOWEST).astype(ct.float32) / heat
        t = ct.load(teacher, (row, j), (1, tile), padding_mode=_LOWEST).astype(ct.float32) / heat
        hs, ht = max(ms, ct.max(s)), max(mt, ct.max(t))
        ss = ss * ct.exp(ms - hs) + ct.sum(ct.exp(s - hs))
        raised = ct.exp(t - ht)
        shrunk = ct.exp(mt - ht)
        inside = (j * tile + ct.arange(tile, dtype=ct.int32) < width).reshape((1, tile))
        crossed = crossed * shrunk + ct.sum(ct.where(inside, raised * (t - s), 0.0))
        st = st * shrunk + ct.sum(raised)
        ms, mt = hs, ht
    ct.scatter(losses, row, crossed / st - (mt + ct.log(st)) + (ms + ct.log(ss)))


@ct.kernel
def contrastive(
    a, b, losses, depth: ct.Constant[int], rows: ct.Constant[int], tile: ct.Constant[int]
):
    """InfoNCE: each row of a against all of b; its own is the right one."""
    i = ct.bid(0)
    left = ct.load(a, (i, 0), (rows, depth))
    most, total = ct.full((rows, 1), -math.inf, ct.float32), ct.zeros((rows, 1), ct.float32)
    own = ct.zeros((rows, 1), ct.float32)
    place = (i * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    for j in range(ct.num_tiles(b, 0, (tile, depth))):
        right = ct.load(b, (j, 0), (tile, depth))
        held = ct.matmul(left, ct.transpose(right)) * 20.0
        higher = ct.maximum(most, ct.max(held, 1, keepdims=True))
        total = total * ct.exp(most - higher) + ct.sum(ct.exp(held - higher), 1, keepdims=True)
        column = (j * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
        own += ct.sum(ct.where(column == place, held, 0.0), 1, keepdims=True)
        most = higher
    ct.store(losses, (i,), (most + ct.log(total) - own).reshape((rows,)))


@ct.kernel
def adamw(p, g, m, v, step_size, decay, correction, tile: ct.Constant[int]):
    """Parameters in bf16, moments in f32."""
    i = ct.bid(0)
    grad = ct.load(g, (i,), (tile,)).astype(ct.float32)
    first = 0.9 * ct.load(m, (i,), (tile,)) + 0.1 * grad
    second = 0.95 * ct.load(v, (i,), (tile,)) + 0.05 * grad * grad
    held = ct.load(p, (i,), (tile,)).astype(ct.float32) * decay
    held -= step_size * first / (ct.sqrt(second) * correction + 1e-8)
    ct.store(m, (i,), first)
    ct.store(v, (i,), second)
    ct.store(p, (i,), held.astype(p.dtype))


@ct.kernel
def lion(p, g, m, rate, tile: ct.Constant[int]):
    i = ct.bid(0)
    at = i * tile + ct.arange(tile, dtype=ct.int32)
    held, grad, mean = ct.gather(p, (at,)), ct.gather(g, (at,)), ct.gather(m, (at,))
    way = 0.9 * mean + 0.1 * grad
    sign = ct.where(way > 0.0, 1.0, ct.where(way < 0.0, -1.0, 0.0))
    ct.scatter(p, (at,), held - rate * (sign + 0.01 * held))
    ct.scatter(m, (at,), 0.99 * mean + 0.01 * grad)


@ct.kernel
def newton_schulz(a, out, tile: ct.Constant[int], depth: ct.Constant[int]):
    """b A + c A A for a symmetric A, as Muon has it."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tile, tile), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tile, depth))):
        total = ct.mma(ct.load(a, (i, k), (tile, depth)), ct.load(a, (k, j), (depth, tile)), total)
    held = ct.load(a, (i, j), (tile, tile)).astype(ct.float32)
    ct.store(out, (i, j), (-4.775 * held + 2.0315 * total).astype(out.dtype))


@ct.kernel
def squared_norm(g, total, rounds: ct.Constant[int], tile: ct.Constant[int]):
    """The squared length of a gradient: blocks stride over it and add once."""
    held = ct.zeros((tile,), ct.float32)
    for k in range(rounds):
        part = ct.load(g, (ct.bid(0) + k * ct.num_blocks(0),), (tile,)).astype(ct.float32)
        held += part * part
    ct.atomic_add(total, 0, ct.sum(held))


@ct.kernel
def rows_to_i8(x, out, scales, width, tile: ct.Constant[int]):
    row = ct.bid(0)
    held = ct.load(x, (row, 0), (1, tile), padding_mode=_ZERO).astype(ct.float32)
    most = ct.maximum(ct.max(ct.abs(held), 1, keepdims=True), 1e-10)
    scaled = held / (most / 127.0)
    rounded = ct.where(scaled >= 0.0, ct.floor(scaled + 0.5), ct.ceil(scaled - 0.5))
    ct.store(out, (row, 0), rounded.astype(ct.int8))
    ct.store(scales, (row,), (most / 127.0).reshape((1,)))


@ct.kernel
def groups_to_f8(x, out, scales, groups: ct.Constant[int]):
    """Groups of 128 of a row by their largest, as E4M3."""
    row, part = ct.bid(1), ct.bid(0)
    held = ct.load(x, (row, part), (1, groups * 128)).astype(ct.float32).reshape((groups, 128))
    most = ct.maximum(ct.max(ct.abs(held), 1, keepdims=True), 1e-4)
    scale = most / 448.0
    ct.store(out, (row, part), (held / scale).astype(out.dtype).reshape((1, groups * 128)))
    ct.store(scales, (row, part), scale.reshape((1, groups)))


@ct.kernel
def packed_nibbles(x, out, rows: ct.Constant[int], half: ct.Constant[int]):
    """Two numbers of four bits in each byte: the first half of a group low, the second high."""
    i, j = ct.bid(1), ct.bid(0)
    held = ct.load(x, (i, j), (rows, 2 * half))
    level = ct.minimum(ct.maximum(ct.floor(held * 4.0 + 8.5), 0.0), 15.0).astype(ct.uint8)
    low, high = ct.extract(level, (0, 0), (rows, half)), ct.extract(level, (0, 1), (rows, half))
    ct.store(out, (i, j), low | (high << 4))


@ct.kernel
def layer_of_nibbles(
    x, packed, scales, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]
):
    """f16 times weights of four bits, [n, k / 2], low half first, a scale for each 2 k of a row."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((m, n), ct.float32)
    for step in range(ct.num_tiles(packed, 1, (n, k))):
        both = ct.load(packed, (j, step), (n, k))
        scale = ct.load(scales, (j, step), (n, 1))
        low = ((both & 15).astype(ct.float16) - 8.0) * scale
        high = ((both >> 4).astype(ct.float16) - 8.0) * scale
        total = ct.mma(ct.load(x, (i, 2 * step), (m, k)), ct.transpose(low), total)
        total = ct.mma(ct.load(x, (i, 2 * step + 1), (m, k)), ct.transpose(high), total)
    ct.store(out, (i, j), total.astype(out.dtype))


@ct.kernel
def layer_of_i8(
    a,
    b,
    row_scale,
    column_scale,
    bias,
    out,
    m: ct.Constant[int],
    n: ct.Constant[int],
    k: ct.Constant[int],
):
    """i8 times i8, scaled by row and by column, and a bias."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((m, n), ct.int32)
    for step in range(ct.num_tiles(a, 1, (m, k))):
        left = ct.load(a, (i, step), (m, k), padding_mode=_ZERO)
        right = ct.load(b, (j, step), (n, k), padding_mode=_ZERO)
        total = ct.mma(left, ct.transpose(right), total)
    rows = ct.load(row_scale, (i,), (m,)).reshape((m, 1))
    columns = ct.load(column_scale, (j,), (n,)).reshape((1, n))
    scaled = total.astype(ct.float32) * rows * columns
    scaled = scaled + ct.load(bias, (j,), (n,)).reshape((1, n))
    ct.store(out, (i, j), scaled.astype(out.dtype))


def _online(rows: int, width: int, dtype: torch.dtype) -> Row:
    x = (normal(rows, width) * 3).to(dtype)
    return beside_torch(
        f"softmax of long rows, {rows} x {width} {kind(dtype)}, tiles 1x1024",
        online_softmax,
        (rows,),
        (x, torch.empty_like(x), width, 1024),
        lambda x: torch.softmax(x, 1),
        x,
        bound=ERROR[dtype],
    )


def _log_softmax(rows: int, width: int, dtype: torch.dtype) -> Row:
    x = normal(rows, width).to(dtype)
    return beside_torch(
        f"log-softmax, {rows} x {width} {kind(dtype)}, tiles 2x1024",
        log_softmax,
        (rows // 2,),
        (x, torch.empty_like(x), 2, 1024),
        lambda x: torch.log_softmax(x, 1),
        x,
        bound=ERROR[dtype],
    )


def _sinks(heads: int, length: int) -> Row:
    x, sinks = normal(heads, length, length) * 8, normal(heads)
    beyond = torch.ones(length, length, dtype=torch.bool).triu(1)

    def theirs(x: torch.Tensor, sinks: torch.Tensor) -> torch.Tensor:
        held = (x * 0.125).masked_fill(beyond, -math.inf)
        extra = sinks[:, None, None].expand(heads, length, 1)
        return torch.softmax(torch.cat((held, extra), -1), -1)[..., :-1]

    return beside_torch(
        f"causal softmax with sinks, {heads} x {length} x {length} f32",
        softmax_with_sink,
        (length, heads),
        (x, sinks, torch.empty_like(x), length, 0.125),
        theirs,
        x,
        sinks,
        bound=1e-5,
    )


def _cross_entropy(rows: int, width: int, dtype: torch.dtype) -> Row:
    start, targets = (normal(rows, width) * 2).to(dtype), integers(width, rows)
    logits, losses, wide = start.clone(), torch.empty(rows), targets.long()

    def theirs(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logs = torch.log_softmax(x if x.dtype == torch.float64 else x.float(), 1)
        loss = -0.9 * logs.gather(1, wide[:, None])[:, 0] - 0.1 * logs.mean(1)
        slope = logs.exp() - 0.1 / width
        slope.scatter_add_(1, wide[:, None], torch.full_like(slope[:, :1], -0.9))
        return slope.to(x.dtype), loss

    row = beside_torch(
        f"cross entropy with its gradient in place, smoothed, {rows} x {width} {kind(dtype)}",
        cross_entropy_in_place,
        (rows,),
        (logits, targets, losses, width, 0.1, 2048),
        theirs,
        start,
        bound=ERROR[dtype],
        clear=lambda: logits.copy_(start),
    )
    return replace(row, outputs=(logits, losses))


def _batch_norm(images: int, channels: int, area: int) -> Row:
    x, w, b = normal(images, channels, area) + 0.5, normal(channels), normal(channels)
    return beside_torch(
        f"batch norm in training, {images} x {channels} x {area} f32, tiles 512",
        batch_norm,
        (channels,),
        (x, w, b, torch.empty_like(x), images, area, 512),
        lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
        x,
        w,
        b,
        bound=1e-5,
    )


def _layer_backward(rows: int, width: int) -> Row:
    x, dy, w = normal(rows, width), normal(width, rows).view(rows, width), normal(width)
    mean, rstd = x.mean(1), (x.var(1, correction=0) + 1e-5).rsqrt()
    dw, db, dx = torch.zeros(width), torch.zeros(width), torch.empty_like(x)

    def theirs(dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        m, r = mean.to(x.dtype)[:, None], rstd.to(x.dtype)[:, None]
        made = torch.ops.aten.native_layer_norm_backward(
            dy, x, [width], m, r, w, torch.zeros_like(w), [True, True, True]
        )
        return made[1], made[2], made[0]

    def clear() -> None:
        dw.zero_()
        db.zero_()

    return beside_torch(
        f"LayerNorm backward by atomics, {rows} x {width} f32",
        layer_norm_backward,
        (rows // 64,),
        (dy, x, w, mean, rstd, dw, db, dx, width, 1024),
        theirs,
        dy,
        x,
        w,
        outputs=3,
        bound=1e-5,
        clear=clear,
    )


def _group_norm(images: int, area: int, dtype: torch.dtype) -> Row:
    x, w, b = normal(images, area, 256).to(dtype), normal(256).to(dtype), normal(256).to(dtype)

    def theirs(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        wide = x.double() if x.dtype == torch.float64 else x.float()
        normed = functional.group_norm(wide.mT, 8, w.to(wide.dtype), b.to(wide.dtype))
        return functional.silu(normed).mT.to(x.dtype).contiguous()

    return beside_torch(
        f"group norm and silu, channels last, {images} x {area} x 256 {kind(dtype)}",
        group_norm_silu,
        (8, images),
        (x, w, b, torch.empty_like(x), area, 32),
        theirs,
        x,
        w,
        b,
        bound=ERROR[dtype],
    )


def _add_norm(rows: int, width: int, dtype: torch.dtype) -> Row:
    x, start = normal(rows, width).to(dtype), normal(width, rows).view(rows, width).to(dtype)
    w, residual = normal(width).to(dtype), start.clone()

    def theirs(
        x: torch.Tensor, residual: torch.Tensor, w: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        held = x.to(wide) + residual.to(wide)
        normed = held * torch.rsqrt((held * held).mean(1, keepdim=True) + 1e-6) * w.to(wide)
        return held.to(x.dtype), normed.to(x.dtype)

    row = beside_torch(
        f"sum and RMS norm, {rows} x {width} {kind(dtype)}",
        add_rms_norm,
        (rows,),
        (x, residual, w, out := torch.empty_like(x), width, 2048),
        theirs,
        x,
        start,
        w,
        bound=ERROR[dtype],
        clear=lambda: residual.copy_(start),
    )
    return replace(row, outputs=(residual, out))


def _lengths(rows: int, width: int, dtype: torch.dtype) -> Row:
    x = normal(rows, width).to(dtype)
    return beside_torch(
        f"rows of length one, {rows} x {width} {kind(dtype)}, tiles 8x128",
        lengths_to_one,
        (rows // 8,),
        (x, torch.empty_like(x), 8, 128),
        lambda x: functional.normalize(x, dim=1),
        x,
        bound=ERROR[dtype],
    )


def _geglu(rows: int, width: int, dtype: torch.dtype) -> Row:
    x = normal(rows, 2 * width).to(dtype)

    def theirs(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, 1)
        return functional.gelu(a, approximate="tanh") * b

    return beside_torch(
        f"GeGLU of halves, {rows} x {width} {kind(dtype)}, by gathers",
        geglu,
        (-(-width // 512), rows),
        (x, torch.empty(rows, width, dtype=dtype), width, 512),
        theirs,
        x,
        bound=ERROR[dtype],
    )


def _swiglu(many: int, dtype: torch.dtype) -> Row:
    d, g, u = (normal(many + k)[:many].to(dtype) for k in range(3))

    def theirs(d: torch.Tensor, g: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, ...]:
        wide = torch.float64 if d.dtype == torch.float64 else torch.float32
        kept, d, g, u = d.dtype, d.to(wide), g.to(wide), u.to(wide)
        s = torch.sigmoid(g)
        return (d * u * s * (1 + g * (1 - s))).to(kept), (d * g * s).to(kept)

    return beside_torch(
        f"SwiGLU backward of {many >> 20}M {kind(dtype)}",
        swiglu_backward,
        (many // 2048,),
        (d, g, u, torch.empty_like(d), torch.empty_like(d), 2048),
        theirs,
        d,
        g,
        u,
        outputs=2,
        bound=ERROR[dtype],
    )


def _distillation(rows: int, width: int, dtype: torch.dtype) -> Row:
    s, t = (normal(rows, width) * 3).to(dtype), (normal(width, rows).t() * 3).to(dtype).contiguous()

    def theirs(s: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        wide = torch.float64 if s.dtype == torch.float64 else torch.float32
        ls, lt = (torch.log_softmax(each.to(wide) / 2.0, 1) for each in (s, t))
        return functional.kl_div(ls, lt, reduction="none", log_target=True).sum(1)

    return beside_torch(
        f"divergence of tempered rows, {rows} x {width} {kind(dtype)}",
        distillation,
        (rows,),
        (s, t, torch.empty(rows), width, 2.0, 1024),
        theirs,
        s,
        t,
        bound=1e-4,
    )


def _contrastive(rows: int, depth: int) -> Row:
    a, b = (functional.normalize(normal(rows, depth + k)[:, :depth], dim=1) for k in (0, 2))
    own = torch.arange(rows)
    return beside_torch(
        f"contrastive loss, {rows} x {rows} by {depth} f32, tiles 64x64",
        contrastive,
        (rows // 64,),
        (a, b, torch.empty(rows), depth, 64, 64),
        lambda a, b: functional.cross_entropy(a @ b.t() * 20.0, own, reduction="none"),
        a,
        b,
        bound=1e-4,
    )


def _adamw(many: int) -> Row:
    start = (normal(many).bfloat16(), normal(many + 1)[1:].bfloat16(), normal(many) * 0.1)
    start = (*start, normal(many + 2)[2:].square() * 0.01)
    ours = [each.clone() for each in start]

    def step(
        p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        wide = m.dtype
        m.lerp_(g.to(wide), 0.1)
        v.mul_(0.95).addcmul_(g.to(wide), g.to(wide), value=0.05)
        held = p.to(wide) * 0.999 - 0.01 * m / (v.sqrt() * 1.5 + 1e-8)
        p.copy_(held)
        return p, m, v

    row = beside_torch(
        f"AdamW, {many >> 20}M bf16, moments f32",
        adamw,
        (many // 1024,),
        (*ours, 0.01, 0.999, 1.5, 1024),
        step,
        *start,
        bound=8e-3,
    )
    return replace(row, outputs=(ours[0], ours[2], ours[3]))


def _lion(many: int) -> Row:
    start = (normal(many), normal(many + 1)[1:].contiguous(), normal(many + 2)[2:] * 0.1)
    ours = [each.clone() for each in start]

    def step(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor) -> tuple[torch.Tensor, ...]:
        way = torch.sign(0.9 * m + 0.1 * g)
        p.sub_(0.01 * (way + 0.01 * p))
        m.mul_(0.99).add_(g, alpha=0.01)
        return p, m

    row = beside_torch(
        f"Lion, {many >> 20}M f32, by gathers",
        lion,
        (many // 1024,),
        (*ours, 0.01, 1024),
        step,
        *start,
        bound=1e-5,
    )
    return replace(row, outputs=(ours[0], ours[2]))


def _newton(size: int, dtype: torch.dtype) -> Row:
    x = normal(size, 2 * size) / math.sqrt(2 * size)
    a = (x @ x.t()).to(dtype)
    return beside_torch(
        f"Newton-Schulz step of {size} x {size} {kind(dtype)}, tiles 128x128x64",
        newton_schulz,
        (size // 128, size // 128),
        (a, torch.empty_like(a), 128, 64),
        lambda a: torch.addmm(a, a, a, beta=-4.775, alpha=2.0315),
        a,
        bound=ERROR[dtype],
    )


def _squares(many: int, dtype: torch.dtype) -> Row:
    g, total = normal(many).to(dtype), torch.zeros(1)
    return beside_torch(
        f"squared length of {many >> 20}M {kind(dtype)}",
        squared_norm,
        (64,),
        (g, total, many // 64 // 1024, 1024),
        lambda g: (g.double() if g.dtype == torch.float64 else g.float()).square().sum().view(1),
        g,
        bound=1e-4,
        clear=total.zero_,
    )


def _rows_to_i8(rows: int, width: int, dtype: torch.dtype) -> Row:
    x = normal(rows, width).to(dtype)

    def theirs(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        held = x.float()
        most = held.abs().amax(1, keepdim=True).clamp_min(1e-10)
        scaled = held / (most / 127.0)
        rounded = torch.where(scaled >= 0, (scaled + 0.5).floor(), (scaled - 0.5).ceil())
        return rounded.to(torch.int8), (most / 127.0)[:, 0]

    return beside_torch(
        f"rows to i8, {rows} x {width} {kind(dtype)}",
        rows_to_i8,
        (rows,),
        (x, torch.empty(rows, width, dtype=torch.int8), torch.empty(rows), width, 2048),
        theirs,
        x,
        outputs=2,
    )


def _groups_to_f8(rows: int, width: int) -> Row:
    x, f8 = normal(rows, width).bfloat16(), torch.float8_e4m3fn

    def theirs(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        held = x.float().view(rows, -1, 128)
        scale = held.abs().amax(2, keepdim=True).clamp_min(1e-4) / 448.0
        return (held / scale).to(f8).view(rows, width), scale[..., 0]

    return beside_torch(
        f"groups of 128 to E4M3, {rows} x {width} bf16",
        groups_to_f8,
        (width // 512, rows),
        (x, torch.empty(rows, width, dtype=f8), torch.empty(rows, width // 128), 4),
        theirs,
        x,
        outputs=2,
    )


def _nibbles(rows: int, width: int) -> Row:
    x = normal(rows, width)

    def theirs(x: torch.Tensor) -> torch.Tensor:
        level = (x * 4.0 + 8.5).floor().clamp(0, 15).to(torch.uint8).view(rows, -1, 2, 64)
        return (level[:, :, 0] | (level[:, :, 1] << 4)).view(rows, width // 2)

    return beside_torch(
        f"two numbers of four bits in a byte, {rows} x {width} f32",
        packed_nibbles,
        (width // 128, rows // 8),
        (x, torch.empty(rows, width // 2, dtype=torch.uint8), 8, 64),
        theirs,
        x,
    )


def _layer_of_nibbles(m: int, n: int, k: int) -> Row:
    x, packed = normal(m, k).half(), integers(256, n, k // 2, dtype=torch.uint8)
    scales = (normal(n, k // 64).abs() * 0.1 + 0.05).half()

    def theirs(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        groups = packed.view(n, -1, 32)
        levels = torch.stack((groups & 15, groups >> 4), 2).to(x.dtype) - 8.0
        return x @ (levels.view(n, -1, 64) * scales[:, :, None]).view(n, k).t()

    return beside_torch(
        f"layer {m} x {n} x {k} f16, weights of four bits, tiles 64x64x32",
        layer_of_nibbles,
        (m // 64, n // 64),
        (x, packed, scales, torch.empty(m, n, dtype=_F16), 64, 64, 32),
        theirs,
        x,
        scales,
        bound=2e-3,
    )


def _layer_of_i8(m: int, n: int, k: int) -> Row:
    a, b = (integers(255, rows, k).sub(127).to(torch.int8) for rows in (m, n))
    rows, columns, bias = normal(m).abs() * 0.01, normal(n).abs() * 0.01, normal(n)

    def theirs(rows: torch.Tensor, columns: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        total = torch._int_mm(a, b.t()).to(rows.dtype)
        return (total * rows[:, None] * columns + bias).bfloat16()

    return beside_torch(
        f"layer {m} x {n} x {k} i8 to bf16, scaled by row and column",
        layer_of_i8,
        (m // 64, n // 128),
        (a, b, rows, columns, bias, torch.empty(m, n, dtype=_BF16), 64, 128, 64),
        theirs,
        rows,
        columns,
        bias,
        bound=8e-3,
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _online(256, 30000, _F32),
        lambda: _online(256, 20000, _F16),
        lambda: _log_softmax(4096, 1000, _BF16),
        lambda: _log_softmax(4096, 520, _F32),
        lambda: _sinks(8, 512),
        lambda: _cross_entropy(512, 10000, _BF16),
        lambda: _cross_entropy(300, 7777, _F32),
        lambda: _batch_norm(32, 64, 784),
        lambda: _layer_backward(4096, 768),
        lambda: _group_norm(16, 256, _BF16),
        lambda: _group_norm(16, 256, _F32),
        lambda: _add_norm(2048, 1536, _BF16),
        lambda: _add_norm(2048, 1100, _F32),
        lambda: _lengths(16384, 100, _F32),
        lambda: _lengths(16384, 128, torch.float64),
        lambda: _geglu(1024, 1100, _BF16),
        lambda: _geglu(1024, 1100, _F32),
        lambda: _swiglu(1 << 21, _BF16),
        lambda: _swiglu(1 << 21, _F32),
        lambda: _distillation(512, 4000, _F16),
        lambda: _distillation(512, 4000, _F32),
        lambda: _contrastive(1024, 128),
        lambda: _adamw(1 << 22),
        lambda: _lion(1 << 22),
        lambda: _newton(512, _F32),
        lambda: _newton(512, _BF16),
        lambda: _squares(1 << 22, _BF16),
        lambda: _squares(1 << 22, torch.float64),
        lambda: _rows_to_i8(2048, 1500, _BF16),
        lambda: _groups_to_f8(1024, 2048),
        lambda: _nibbles(2048, 2048),
        lambda: _layer_of_nibbles(64, 1024, 1024),
        lambda: _layer_of_i8(256, 1024, 1000),
    ]
