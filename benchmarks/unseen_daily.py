"""Gradients of norms and activations, vocabularies, quantising and optimizers, as daily work has them."""

from __future__ import annotations

import math
from collections.abc import Callable

import cuda.tile as ct
import torch

from benchmarks.unseen_rows import ERROR, Row, beside_torch, integers, kind, normal

_ZERO, _LEAST = ct.PaddingMode.ZERO, ct.PaddingMode.NEG_INF
_F32, _BF16, _F16 = torch.float32, torch.bfloat16, torch.float16


@ct.kernel
def layer_norm_backward(
    x, given, w, mean, scale, out, width: ct.Constant[int], tile: ct.Constant[int]
):
    """The gradient of a row; its width is no power of two."""
    row = ct.bid(0)
    inside = ct.arange(tile, dtype=ct.int32).reshape((1, tile)) < width
    held = ct.load(x, (row, 0), (1, tile), padding_mode=_ZERO).astype(ct.float32)
    rise = ct.load(given, (row, 0), (1, tile), padding_mode=_ZERO).astype(ct.float32)
    rise = rise * ct.load(w, (0,), (tile,), padding_mode=_ZERO).astype(ct.float32)
    by = ct.load(scale, (row,), (1,)).item()
    plain = ct.where(inside, (held - ct.load(mean, (row,), (1,)).item()) * by, 0.0)
    level, slope = ct.sum(rise) / width, ct.sum(rise * plain) / width
    ct.store(out, (row, 0), (by * (rise - level - plain * slope)).astype(out.dtype))


@ct.kernel
def batch_norm_backward(
    x, given, w, mean, scale, out, dw, db, rows: ct.Constant[int], tile: ct.Constant[int]
):
    """Channels last, [place, channel]: a block for some channels, sums first, then the gradient."""
    j, count = ct.bid(0), x.shape[0]
    middle = ct.load(mean, (j,), (tile,)).reshape((1, tile))
    by = ct.load(scale, (j,), (tile,)).reshape((1, tile))
    level, slope = ct.zeros((1, tile), ct.float32), ct.zeros((1, tile), ct.float32)
    for i in range(ct.cdiv(count, rows)):
        rise = ct.load(given, (i, j), (rows, tile), padding_mode=_ZERO).astype(ct.float32)
        held = ct.load(x, (i, j), (rows, tile), padding_mode=_ZERO).astype(ct.float32)
        level += ct.sum(rise, 0, keepdims=True)
        slope += ct.sum(rise * (held - middle) * by, 0, keepdims=True)
    ct.store(dw, (j,), slope.reshape((tile,)))
    ct.store(db, (j,), level.reshape((tile,)))
    weight = ct.load(w, (j,), (tile,)).reshape((1, tile)) * by
    for i in range(ct.cdiv(count, rows)):
        rise = ct.load(given, (i, j), (rows, tile), padding_mode=_ZERO).astype(ct.float32)
        held = ct.load(x, (i, j), (rows, tile), padding_mode=_ZERO).astype(ct.float32)
        found = weight * (rise - level / count - (held - middle) * by * slope / count)
        ct.store(out, (i, j), found.astype(out.dtype))


@ct.kernel
def softmax_middle(x, out, whole: ct.Constant[int], tile: ct.Constant[int]):
    """Softmax along the middle axis: [a, b, c]."""
    a, j = ct.bid(1), ct.bid(0)
    held = ct.load(x, (a, 0, j), (1, whole, tile), padding_mode=_LEAST).astype(ct.float32)
    raised = ct.exp(held - ct.max(held, 1, keepdims=True))
    ct.store(out, (a, 0, j), (raised / ct.sum(raised, 1, keepdims=True)).astype(out.dtype))


@ct.kernel
def vocabulary_loss(x, labels, loss, logs, extra, tile: ct.Constant[int]):
    """Cross entropy of a row as long as a vocabulary, and a penalty on its log of sums, in one pass."""
    row = ct.bid(0)
    most, total = ct.full((1, 1), -math.inf, ct.float32), ct.zeros((1, 1), ct.float32)
    for j in range(ct.num_tiles(x, 1, (1, tile))):
        held = ct.load(x, (row, j), (1, tile), padding_mode=_LEAST).astype(ct.float32)
        higher = ct.maximum(most, ct.max(held, 1, keepdims=True))
        total = total * ct.exp(most - higher) + ct.sum(ct.exp(held - higher), 1, keepdims=True)
        most = higher
    log = (most + ct.log(total)).item()
    right = ct.gather(x, (row, ct.gather(labels, row))).astype(ct.float32)
    ct.scatter(loss, row, log - right + extra * log * log)
    ct.scatter(logs, row, log)


@ct.kernel
def drawn(x, out, cold, seed, width: ct.Constant[int], tile: ct.Constant[int]):
    """A word of each row by the Gumbel trick, with random bits from a hash of the place."""
    row = ct.bid(0)
    best, at = ct.full((tile,), -math.inf, ct.float32), ct.zeros((tile,), ct.int32)
    for j in range(ct.cdiv(width, tile)):
        column = j * tile + ct.arange(tile, dtype=ct.int32)
        held = ct.gather(x, (row, column), mask=column < width, padding_value=-math.inf)
        bits = (row * width + column + seed).astype(ct.uint32)
        bits = (bits ^ (bits >> 16)) * 0x7FEB352D
        bits = (bits ^ (bits >> 15)) * 0x846CA68B
        bits = (bits ^ (bits >> 16)) >> 9
        share = (bits.astype(ct.float32) + 0.5) * (1.0 / (1 << 23))
        score = held.astype(ct.float32) * cold - ct.log(-ct.log(share))
        better = score > best
        best, at = ct.where(better, score, best), ct.where(better, column, at)
    first = ct.where(best == ct.max(best), at, 0x7FFFFFFF)
    ct.scatter(out, row, ct.min(first))


@ct.kernel
def swiglu_backward(gate, up, given, dgate, dup, tile: ct.Constant[int]):
    i = ct.bid(0)
    g = ct.load(gate, (i,), (tile,)).astype(ct.float32)
    u = ct.load(up, (i,), (tile,)).astype(ct.float32)
    d = ct.load(given, (i,), (tile,)).astype(ct.float32)
    share = 1.0 / (1.0 + ct.exp(-g))
    ct.store(dup, (i,), (d * g * share).astype(dup.dtype))
    ct.store(dgate, (i,), (d * u * share * (1.0 + g * (1.0 - share))).astype(dgate.dtype))


@ct.kernel
def gelu_backward(x, given, out, rows: ct.Constant[int], tile: ct.Constant[int]):
    i, j = ct.bid(1), ct.bid(0)
    v = ct.load(x, (i, j), (rows, tile)).astype(ct.float32)
    bent = ct.tanh(0.7978845608 * (v + 0.044715 * v * v * v))
    inner = 0.7978845608 * (1.0 + 3.0 * 0.044715 * v * v)
    slope = 0.5 * (1.0 + bent) + 0.5 * v * (1.0 - bent * bent) * inner
    ct.store(
        out,
        (i, j),
        (slope * ct.load(given, (i, j), (rows, tile)).astype(ct.float32)).astype(out.dtype),
    )


@ct.kernel
def to_bytes(x, out, scales, zeros, width: ct.Constant[int], tile: ct.Constant[int]):
    """Rows to u8 between their least and largest; the width is no power of two."""
    row = ct.bid(0)
    inside = ct.arange(tile, dtype=ct.int32).reshape((1, tile)) < width
    held = ct.load(x, (row, 0), (1, tile), padding_mode=_ZERO).astype(ct.float32)
    low = ct.minimum(ct.min(held, 1, keepdims=True), 0.0)
    high = ct.maximum(ct.max(ct.where(inside, held, -math.inf), 1, keepdims=True), 0.0)
    scale = ct.maximum((high - low) / 255.0, 1e-8)
    zero = ct.floor(0.5 - low / scale)
    found = ct.minimum(ct.maximum(ct.floor(held / scale + 0.5) + zero, 0.0), 255.0)
    ct.store(out, (row, 0), found.astype(ct.uint8))
    ct.store(scales, (row, 0), scale)
    ct.store(zeros, (row, 0), zero.astype(ct.uint8))


@ct.kernel
def to_eight(x, scale, out, most, tile: ct.Constant[int], limit: ct.Constant[float]):
    """To floats of 8 bits by the scale of the step before; the largest magnitude for the next one."""
    i = ct.bid(0)
    held = ct.load(x, (i,), (tile,)).astype(ct.float32)
    ct.atomic_max(most, 0, ct.bitcast(ct.max(ct.abs(held)), ct.int32))
    held = held * ct.load(scale, (0,), (1,)).item()
    ct.store(out, (i,), ct.minimum(ct.maximum(held, -limit), limit).astype(out.dtype))


@ct.kernel
def kept_largest(x, out, count: ct.Constant[int], rows: ct.Constant[int], tile: ct.Constant[int]):
    """The largest of each row, zeros elsewhere: the bits of the least of them, one after the other."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0), (rows, tile))
    bits = ct.bitcast(held, ct.int32)
    key = ct.bitcast(ct.where(bits < 0, bits ^ 0x7FFFFFFF, bits), ct.uint32) ^ 0x80000000
    found = ct.zeros((rows, 1), ct.uint32)
    for step in range(32):
        tried = found | (ct.full((rows, 1), 1, ct.uint32) << (31 - step).astype(ct.uint32))
        above = ct.sum(ct.where(key >= tried, 1, 0), 1, keepdims=True)
        found = ct.where(above >= count, tried, found)
    ct.store(out, (i, 0), ct.where(key >= found, held, 0.0))


@ct.kernel
def adafactor(p, g, rows, columns, mean, out, rate, m: ct.Constant[int], n: ct.Constant[int]):
    """A step by second moments that are a column times a row."""
    i, j = ct.bid(1), ct.bid(0)
    slope = ct.load(g, (i, j), (m, n)).astype(ct.float32)
    high = ct.load(rows, (i,), (m,)).reshape((m, 1)) / ct.load(mean, (0,), (1,)).item()
    moved = slope * ct.rsqrt(high) * ct.rsqrt(ct.load(columns, (j,), (n,)).reshape((1, n)))
    ct.store(
        out,
        (i, j),
        (ct.load(p, (i, j), (m, n)).astype(ct.float32) - rate * moved).astype(out.dtype),
    )


@ct.kernel
def lion(p, g, m, p_out, m_out, rate, decay, tile: ct.Constant[int]):
    """A step by signs; all in the same type."""
    i = ct.bid(0)
    held = ct.load(p, (i,), (tile,)).astype(ct.float32)
    slope = ct.load(g, (i,), (tile,)).astype(ct.float32)
    moment = ct.load(m, (i,), (tile,)).astype(ct.float32)
    mixed = 0.9 * moment + 0.1 * slope
    sign = ct.where(mixed > 0.0, 1.0, ct.where(mixed < 0.0, -1.0, 0.0))
    ct.store(p_out, (i,), (held - rate * (sign + decay * held)).astype(p_out.dtype))
    ct.store(m_out, (i,), (0.99 * moment + 0.01 * slope).astype(m_out.dtype))


@ct.kernel
def adam_of_bytes(
    p, g, m, v, m_scale, v_scale, p_out, m_out, v_out, ms_out, vs_out, tile: ct.Constant[int]
):
    """A step whose moments are i8 and u8, by the largest of each 256."""
    i = ct.bid(0)
    slope = ct.load(g, (i, 0), (tile, 256))
    first = ct.load(m, (i, 0), (tile, 256)).astype(ct.float32) * (
        ct.load(m_scale, (i, 0), (tile, 1)) / 127.0
    )
    second = ct.load(v, (i, 0), (tile, 256)).astype(ct.float32) / 255.0
    second = second * second * ct.load(v_scale, (i, 0), (tile, 1))
    first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope * slope
    ct.store(
        p_out, (i, 0), ct.load(p, (i, 0), (tile, 256)) - 1e-3 * first / (ct.sqrt(second) + 1e-8)
    )
    most, high = ct.max(ct.abs(first), 1, keepdims=True), ct.max(second, 1, keepdims=True)
    ct.store(m_out, (i, 0), ct.floor(first / most * 127.0 + 0.5).astype(ct.int8))
    ct.store(v_out, (i, 0), ct.floor(ct.sqrt(second / high) * 255.0 + 0.5).astype(ct.uint8))
    ct.store(ms_out, (i, 0), most)
    ct.store(vs_out, (i, 0), high)


def _layer_norm(rows: int, width: int, dtype: torch.dtype) -> Row:
    x, given, w = (
        normal(rows, width).to(dtype),
        normal(width, rows).to(dtype).t().contiguous(),
        normal(width).to(dtype),
    )
    mean, scale = x.float().mean(1), torch.rsqrt(x.float().var(1, correction=0) + 1e-5)

    def own() -> torch.Tensor:
        held = [mean[:, None], scale[:, None]]
        return torch.ops.aten.native_layer_norm_backward(
            given, x, [width], *held, w, None, [True, False, False]
        )[0]

    def theirs(x, given, w, mean, scale):
        wide = x.double() if x.dtype == torch.float64 else x.float()
        rise, plain = (given * w).to(wide.dtype), (wide - mean[:, None]) * scale[:, None]
        level, slope = rise.mean(1, keepdim=True), (rise * plain).mean(1, keepdim=True)
        return (scale[:, None] * (rise - level - plain * slope)).to(x.dtype)

    return beside_torch(
        f"LayerNorm backward of rows, {rows} x {width} {kind(dtype)}",
        layer_norm_backward,
        (rows,),
        (x, given, w, mean, scale, torch.empty_like(x), width, 1 << (width - 1).bit_length()),
        theirs,
        x,
        given,
        w,
        mean,
        scale,
        bound=ERROR[dtype],
        more={"torch, its own": own} if dtype == _F32 else {},
    )


def _batch_norm(places: int, channels: int, dtype: torch.dtype) -> Row:
    x, given, w = (
        normal(places, channels).to(dtype),
        normal(channels, places).t().contiguous().to(dtype),
        normal(channels),
    )
    mean, scale = x.float().mean(0), torch.rsqrt(x.float().var(0, correction=0) + 1e-5)
    made = torch.empty_like(x), torch.empty(channels), torch.empty(channels)

    def theirs(x, given, w, mean, scale):
        wide = torch.float64 if x.dtype == torch.float64 else _F32
        rise, plain = given.to(wide), (x.to(wide) - mean) * scale
        level, slope = rise.sum(0), (rise * plain).sum(0)
        return (
            (w * scale * (rise - level / places - plain * slope / places)).to(x.dtype),
            slope,
            level,
        )

    return beside_torch(
        f"batch norm backward, channels last, {places} x {channels} {kind(dtype)}, tiles 32x64",
        batch_norm_backward,
        (channels // 64,),
        (x, given, w, mean, scale, *made, 32, 64),
        theirs,
        x,
        given,
        w,
        mean,
        scale,
        outputs=3,
        bound=max(ERROR[dtype], 1e-4),
    )


def _softmax_middle(a: int, b: int, c: int, dtype: torch.dtype) -> Row:
    x = normal(a, b, c).to(dtype)
    return beside_torch(
        f"softmax along the middle of {a} x {b} x {c} {kind(dtype)}",
        softmax_middle,
        (c // 32, a),
        (x, torch.empty_like(x), 1 << (b - 1).bit_length(), 32),
        lambda x: torch.softmax(x, 1),
        x,
        bound=ERROR[dtype],
    )


def _vocabulary(rows: int, width: int, dtype: torch.dtype) -> Row:
    x, labels = (3 * normal(rows, width)).to(dtype), integers(width, rows)
    wide = labels.long()

    def theirs(x):
        logs = torch.logsumexp(x if x.dtype == torch.float64 else x.float(), 1)
        right = x.gather(1, wide[:, None])[:, 0]
        return logs - right + 1e-4 * logs * logs, logs

    return beside_torch(
        f"cross entropy with a penalty, {rows} x {width} {kind(dtype)}",
        vocabulary_loss,
        (rows,),
        (x, labels, torch.empty(rows), torch.empty(rows), 1e-4, 4096),
        theirs,
        x,
        outputs=2,
        bound=1e-5,
    )


def _drawn(rows: int, width: int, dtype: torch.dtype) -> Row:
    x = normal(rows, width).to(dtype)

    def theirs(x):
        bits = (torch.arange(rows * width) + 5).view(rows, width)
        bits = ((bits ^ (bits >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
        bits = ((bits ^ (bits >> 15)) * 0x846CA68B) & 0xFFFFFFFF
        bits = (bits ^ (bits >> 16)) >> 9
        share = (bits.float() + 0.5) * (1.0 / (1 << 23))
        return (x.float() * 1.25 - torch.log(-torch.log(share))).argmax(1).int()

    return beside_torch(
        f"a word of each row by its chances, {rows} x {width} {kind(dtype)}",
        drawn,
        (rows,),
        (x, torch.empty(rows, dtype=torch.int32), 1.25, 5, width, 1024),
        theirs,
        x,
    )


def _swiglu(many: int, dtype: torch.dtype) -> Row:
    gate, up, given = (normal(many + i)[:many].to(dtype) for i in range(3))

    def theirs(gate, up, given):
        g, u, d = (
            each if each.dtype == torch.float64 else each.float() for each in (gate, up, given)
        )
        share = torch.sigmoid(g)
        return (d * u * share * (1 + g * (1 - share))).to(gate.dtype), (d * g * share).to(
            gate.dtype
        )

    return beside_torch(
        f"gradients of SwiGLU, {many >> 20}M {kind(dtype)}",
        swiglu_backward,
        (many // 1024,),
        (gate, up, given, torch.empty_like(gate), torch.empty_like(gate), 1024),
        theirs,
        gate,
        up,
        given,
        outputs=2,
        bound=ERROR[dtype],
    )


def _gelu(rows: int, width: int, dtype: torch.dtype) -> Row:
    x, given = normal(rows, width).to(dtype), normal(width, rows).t().contiguous().to(dtype)
    return beside_torch(
        f"gradient of gelu by tanh, {rows} x {width} {kind(dtype)}, tiles 4x256",
        gelu_backward,
        (width // 256, rows // 4),
        (x, given, torch.empty_like(x), 4, 256),
        lambda x, given: torch.ops.aten.gelu_backward(given, x, approximate="tanh"),
        x,
        given,
        bound=ERROR[dtype],
    )


def _to_bytes(rows: int, width: int, dtype: torch.dtype) -> Row:
    x = normal(rows, width).to(dtype)

    def theirs(x):
        x = x if x.dtype == torch.float64 else x.float()
        low, high = x.amin(1, keepdim=True).clamp(max=0), x.amax(1, keepdim=True).clamp(min=0)
        scale = ((high - low) / 255).clamp(min=1e-8)
        zero = torch.floor(0.5 - low / scale)
        return (
            torch.clamp(torch.floor(x / scale + 0.5) + zero, 0, 255).to(torch.uint8),
            scale,
            zero.to(torch.uint8),
        )

    return beside_torch(
        f"rows to u8 with a zero, {rows} x {width} {kind(dtype)}",
        to_bytes,
        (rows,),
        (
            x,
            torch.empty(rows, width, dtype=torch.uint8),
            torch.empty(rows, 1),
            torch.empty(rows, 1, dtype=torch.uint8),
            width,
            1 << (width - 1).bit_length(),
        ),
        theirs,
        x,
        outputs=3,
        bound=0.01,
    )


def _to_eight(many: int, dtype: torch.dtype, to: torch.dtype) -> Row:
    x, limit = normal(many).to(dtype), torch.finfo(to).max
    scale, most = torch.tensor([limit / 4]), torch.zeros(1, dtype=torch.int32)

    def theirs(x, scale):
        most = x.abs().max().float().view(1).view(torch.int32)
        return torch.clamp(x.float() * scale, -limit, limit).to(to), most

    return beside_torch(
        f"{many >> 20}M {kind(dtype)} to {kind(to)}, and the largest",
        to_eight,
        (many // 2048,),
        (x, scale, torch.empty(many, dtype=to), most, 2048, limit),
        theirs,
        x,
        scale,
        outputs=2,
        clear=most.zero_,
    )


def _kept_largest(rows: int, width: int, count: int) -> Row:
    x = normal(rows, width)

    def theirs(x):
        return torch.where(x >= x.topk(count, 1).values[:, -1:], x, 0.0)

    return beside_torch(
        f"the {count} largest of rows kept by their bits, {rows} x {width} f32, tiles 4x{width}",
        kept_largest,
        (rows // 4,),
        (x, torch.empty_like(x), count, 4, width),
        theirs,
        x,
    )


def _adafactor(m: int, n: int, dtype: torch.dtype) -> Row:
    p, g = normal(m, n).to(dtype), normal(n, m).t().contiguous().to(dtype)
    rows, columns = g.float().square().mean(1) + 1e-6, g.float().square().mean(0) + 1e-6
    mean = rows.mean().view(1)

    def theirs(p, g, rows, columns, mean):
        moved = g * (torch.rsqrt(rows / mean)[:, None] * torch.rsqrt(columns)[None])
        return (p - 0.01 * moved).to(p.dtype)

    return beside_torch(
        f"a step of Adafactor, {m} x {n} {kind(dtype)}, tiles 16x128",
        adafactor,
        (-(-n // 128), -(-m // 16)),
        (p, g, rows, columns, mean, torch.empty_like(p), 0.01, 16, 128),
        theirs,
        p,
        g,
        rows,
        columns,
        mean,
        bound=ERROR[dtype],
    )


def _lion(many: int, dtype: torch.dtype) -> Row:
    p, g, m = (normal(many + i)[:many].to(dtype) for i in range(3))

    def theirs(p, g, m):
        a, b, c = (each if each.dtype == torch.float64 else each.float() for each in (p, g, m))
        sign = torch.sign(0.9 * c + 0.1 * b)
        return (a - 1e-3 * (sign + 0.1 * a)).to(p.dtype), (0.99 * c + 0.01 * b).to(m.dtype)

    return beside_torch(
        f"a step of Lion, {many >> 20}M {kind(dtype)}",
        lion,
        (many // 1024,),
        (p, g, m, torch.empty_like(p), torch.empty_like(p), 1e-3, 0.1, 1024),
        theirs,
        p,
        g,
        m,
        outputs=2,
        bound=ERROR[dtype],
    )


def _adam_of_bytes(rows: int) -> Row:
    p, g = normal(rows, 256), normal(rows, 257)[:, :256].contiguous()
    m, v = (
        (integers(255, rows, 256) - 127).to(torch.int8),
        integers(256, rows, 256, dtype=torch.uint8),
    )
    ms, vs = normal(rows, 1).abs() + 0.1, normal(rows, 1).square() + 0.1

    def theirs(p, g, m, v, ms, vs):
        first, second = m.to(p.dtype) * (ms / 127), (v.to(p.dtype) / 255) ** 2 * vs
        first, second = 0.9 * first + 0.1 * g, 0.99 * second + 0.01 * g * g
        moved = p - 1e-3 * first / (second.sqrt() + 1e-8)
        most, high = first.abs().amax(1, keepdim=True), second.amax(1, keepdim=True)
        return (
            moved,
            torch.floor(first / most * 127 + 0.5).to(torch.int8),
            torch.floor((second / high).sqrt() * 255 + 0.5).to(torch.uint8),
            most,
            high,
        )

    made = (
        torch.empty_like(p),
        torch.empty_like(m),
        torch.empty_like(v),
        torch.empty_like(ms),
        torch.empty_like(vs),
    )
    return beside_torch(
        f"a step of Adam with moments of 8 bits, {rows * 256 >> 20}M f32",
        adam_of_bytes,
        (rows // 4,),
        (p, g, m, v, ms, vs, *made, 4),
        theirs,
        p,
        g,
        m,
        v,
        ms,
        vs,
        outputs=5,
        bound=0.01,
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _layer_norm(4096, 768, _F32),
        lambda: _layer_norm(2048, 1000, _BF16),
        lambda: _layer_norm(512, 5120, _F16),
        lambda: _batch_norm(6272, 256, _F32),
        lambda: _batch_norm(6272, 256, _F16),
        lambda: _softmax_middle(64, 100, 256, _F32),
        lambda: _softmax_middle(64, 100, 256, _BF16),
        lambda: _vocabulary(64, 50257, _F32),
        lambda: _vocabulary(64, 50257, _BF16),
        lambda: _drawn(64, 32000, _F32),
        lambda: _drawn(64, 32000, _F16),
        lambda: _swiglu(1 << 20, _F16),
        lambda: _swiglu(1 << 20, _BF16),
        lambda: _gelu(1024, 3072, _F32),
        lambda: _gelu(1024, 3072, _F16),
        lambda: _to_bytes(4096, 1000, _F32),
        lambda: _to_bytes(4096, 1000, _BF16),
        lambda: _to_eight(1 << 20, _BF16, torch.float8_e4m3fn),
        lambda: _to_eight(1 << 20, _F32, torch.float8_e5m2),
        lambda: _kept_largest(1024, 1024, 50),
        lambda: _adafactor(1024, 2000, _F32),
        lambda: _adafactor(1024, 2000, _BF16),
        lambda: _lion(1 << 20, _F32),
        lambda: _lion(1 << 20, _BF16),
        lambda: _adam_of_bytes(8192),
    ]
