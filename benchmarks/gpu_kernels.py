"""The kernels by which GPU code is judged: cuTile programs, as their authors would write them."""

from __future__ import annotations

import math

import cuda.tile as ct

ZERO = ct.PaddingMode.ZERO
NEG_INF = ct.PaddingMode.NEG_INF
ConstInt = ct.Constant[int]


# --- kernels that move memory ---------------------------------------------------------------------


@ct.kernel
def vector_add(x, y, out, width: ConstInt):
    i = ct.bid(0)
    total = ct.load(x, (i,), (width,)) + ct.load(y, (i,), (width,))
    ct.store(out, (i,), total)


@ct.kernel
def gelu(x, out, width: ConstInt):
    i = ct.bid(0)
    tile = ct.load(x, (i,), (width,)).astype(ct.float32)
    inner = 0.7978845608 * (tile + 0.044715 * tile * tile * tile)
    ct.store(out, (i,), (0.5 * tile * (1.0 + ct.tanh(inner))).astype(out.dtype))


@ct.kernel
def transpose(x, out, size: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (j, i), ct.transpose(ct.load(x, (i, j), (size, size))))


@ct.kernel
def softmax(x, out, width: ConstInt):
    row = ct.bid(0)
    tile = ct.load(x, (row, 0), (1, width), padding_mode=NEG_INF).astype(ct.float32)
    power = ct.exp(tile - ct.max(tile, 1, keepdims=True))
    ct.store(out, (row, 0), (power / ct.sum(power, 1, keepdims=True)).astype(out.dtype))


@ct.kernel
def softmax_in_chunks(x, out, width: ConstInt):
    """Rows of any length: maxima and sums along the way, then a second pass."""
    row = ct.bid(0)
    top = ct.full((1, 1), -math.inf, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    for j in range(ct.num_tiles(x, 1, (1, width))):
        tile = ct.load(x, (row, j), (1, width), padding_mode=NEG_INF).astype(ct.float32)
        higher = ct.maximum(top, ct.max(tile, 1, keepdims=True))
        total = total * ct.exp(top - higher) + ct.sum(ct.exp(tile - higher), 1, keepdims=True)
        top = higher
    for j in range(ct.num_tiles(x, 1, (1, width))):
        tile = ct.load(x, (row, j), (1, width), padding_mode=NEG_INF).astype(ct.float32)
        ct.store(out, (row, j), (ct.exp(tile - top) / total).astype(out.dtype))


@ct.kernel
def layer_norm(x, weight, bias, out, width: ConstInt):
    row = ct.bid(0)
    tile = ct.load(x, (row, 0), (1, width), padding_mode=ZERO).astype(ct.float32)
    scale = 1.0 / x.shape[1]
    centred = tile - ct.sum(tile, 1, keepdims=True) * scale
    variance = ct.sum(centred * centred, 1, keepdims=True) * scale
    normal = centred * ct.rsqrt(variance + 1e-5)
    w = ct.load(weight, (0,), (width,)).astype(ct.float32)
    b = ct.load(bias, (0,), (width,)).astype(ct.float32)
    ct.store(out, (row, 0), (normal * w[None, :] + b[None, :]).astype(out.dtype))


@ct.kernel
def rms_norm(x, weight, out, rows: ConstInt, width: ConstInt):
    """Several rows for each block."""
    i = ct.bid(0)
    tile = ct.load(x, (i, 0), (rows, width), padding_mode=ZERO).astype(ct.float32)
    factor = ct.rsqrt(ct.sum(tile * tile, 1, keepdims=True) / x.shape[1] + 1e-6)
    w = ct.load(weight, (0,), (width,)).astype(ct.float32)
    ct.store(out, (i, 0), (tile * factor * w[None, :]).astype(out.dtype))


@ct.kernel
def column_sums(x, out, rows: ConstInt, width: ConstInt):
    j = ct.bid(0)
    total = ct.zeros((width,), ct.float32)
    for i in range(ct.num_tiles(x, 0, (rows, width))):
        total += ct.sum(ct.load(x, (i, j), (rows, width)).astype(ct.float32), 0)
    ct.store(out, (j,), total)


@ct.kernel
def prefix_sum(x, out, width: ConstInt):
    i = ct.bid(0)
    ct.store(out, (i, 0), ct.cumsum(ct.load(x, (i, 0), (1, width)), 1))


@ct.kernel
def top_k(x, values, places, width: ConstInt, count: ConstInt):
    row = ct.bid(0)
    tile = ct.load(x, (row, 0), (1, width), padding_mode=NEG_INF)
    lane = ct.arange(width, dtype=ct.int32)[None, :]
    for i in range(count):
        at = ct.argmax(tile, 1, keepdims=True)
        ct.store(values, (row, i), ct.max(tile, 1, keepdims=True))
        ct.store(places, (row, i), at)
        tile = ct.where(lane == at, -math.inf, tile)


@ct.kernel
def sort(x, out, width: ConstInt, levels: ConstInt):
    """A bitonic network on one row; partners meet by reshaping, the halves of which are exchanged."""
    row = ct.bid(0)
    tile = ct.load(x, (row, 0), (1, width)).reshape((width,))
    lane = ct.arange(width, dtype=ct.int32)
    for level in ct.static_iter(range(1, levels + 1)):
        for step in ct.static_iter(range(level - 1, -1, -1)):
            pairs = tile.reshape((width >> (step + 1), 2, 1 << step))
            low = ct.extract(pairs, (0, 0, 0), (width >> (step + 1), 1, 1 << step))
            high = ct.extract(pairs, (0, 1, 0), (width >> (step + 1), 1, 1 << step))
            small, large = ct.minimum(low, high), ct.maximum(low, high)
            up = ((lane >> level) & 1) == 0
            risen = ct.cat((small, large), 1).reshape((width,))
            fallen = ct.cat((large, small), 1).reshape((width,))
            tile = ct.where(up, risen, fallen)
    ct.store(out, (row, 0), tile.reshape((1, width)))


@ct.kernel
def histogram(x, counts, width: ConstInt, bins: ConstInt):
    lane = ct.arange(bins, dtype=ct.int32)
    own = ct.zeros((bins,), ct.int32)
    for i in range(ct.bid(0), ct.num_tiles(x, 0, (width,)), ct.num_blocks(0)):
        tile = ct.load(x, (i,), (width,), padding_mode=NEG_INF)
        found = ct.floor(tile * bins).astype(ct.int32)
        own += ct.sum((found[:, None] == lane[None, :]).astype(ct.int32), 0)
    ct.atomic_add(counts, lane, own)


@ct.kernel
def embedding(table, ids, out, rows: ConstInt, width: ConstInt):
    i = ct.bid(0)
    at = ct.load(ids, (i,), (rows,))
    columns = ct.arange(width, dtype=ct.int32)
    ct.store(out, (i, 0), ct.gather(table, (at[:, None], columns[None, :])))


# --- products -------------------------------------------------------------------------------------


@ct.kernel
def product(a, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def product_tf32(a, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO).astype(ct.tfloat32)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO).astype(ct.tfloat32)
        total = ct.mma(x, y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def product_i8(a, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """The second factor is stored by columns, as tensor cores want bytes."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.int32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (j, k), (tn, tk), padding_mode=ZERO)
        total = ct.mma(x, ct.transpose(y), total)
    ct.store(c, (i, j), total)


@ct.kernel
def product_transposed(a, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """The second factor is stored by columns."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (j, k), (tn, tk), padding_mode=ZERO)
        total = ct.mma(x, ct.transpose(y), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def product_fused(a, b, bias, residual, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """Bias, activation and residual in the epilogue."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        total = ct.mma(x, y, total)
    total = total + ct.load(bias, (j,), (tn,)).astype(ct.float32)[None, :]
    total = total / (1.0 + ct.exp(-total))
    total = total + ct.load(residual, (i, j), (tm, tn)).astype(ct.float32)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def product_dequantised(a, b, scale, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """Weights of 8 bits with a scale for each column, widened before the product."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO).astype(a.dtype)
        total = ct.mma(x, y, total)
    total = total * ct.load(scale, (j,), (tn,))[None, :]
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def product_batched(a, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    i, j, n = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 2, (1, tm, tk))):
        x = ct.load(a, (n, i, k), (1, tm, tk), padding_mode=ZERO).reshape((tm, tk))
        y = ct.load(b, (n, k, j), (1, tk, tn), padding_mode=ZERO).reshape((tk, tn))
        total = ct.mma(x, y, total)
    ct.store(c, (n, i, j), total.astype(c.dtype).reshape((1, tm, tn)))


@ct.kernel
def product_persistent(a, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """As many blocks as the GPU holds, each for several tiles; neighbours share rows in L2."""
    down, across = ct.num_tiles(c, 0, (tm, tn)), ct.num_tiles(c, 1, (tm, tn))
    for tile in range(ct.bid(0), down * across, ct.num_blocks(0)):
        band = tile // (8 * across)
        inside = tile % (8 * across)
        height = min(down - band * 8, 8)
        i, j = band * 8 + inside % height, inside // height
        total = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.num_tiles(a, 1, (tm, tk))):
            x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
            y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
            total = ct.mma(x, y, total)
        ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def product_split_k(a, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.bid(2), ct.num_tiles(a, 1, (tm, tk)), ct.num_blocks(2)):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        total = ct.mma(x, y, total)
    rows = i * tm + ct.arange(tm, dtype=ct.int32)
    columns = j * tn + ct.arange(tn, dtype=ct.int32)
    ct.atomic_add(c, (rows[:, None], columns[None, :]), total)


@ct.kernel
def convolution(image, filters, out, pixels: ConstInt, inputs: ConstInt, outputs: ConstInt):
    """(n, height, width, inputs) by (rows, columns, inputs, outputs): a product for each tap."""
    n, row, start = ct.bid(0), ct.bid(1), ct.bid(2)
    columns = start * pixels + ct.arange(pixels, dtype=ct.int32)
    channels = ct.arange(inputs, dtype=ct.int32)
    total = ct.zeros((pixels, outputs), ct.float32)
    for tap in range(filters.shape[0] * filters.shape[1]):
        i, j = tap // filters.shape[1], tap % filters.shape[1]
        place = (n, row + i - 1, columns[:, None] + j - 1, channels[None, :])
        seen = ct.gather(image, place)
        weights = ct.load(filters, (i, j, 0, 0), (1, 1, inputs, outputs))
        total = ct.mma(seen, weights.reshape((inputs, outputs)), total)
    ct.store(out, (n, row, start, 0), total.astype(out.dtype).reshape((1, 1, pixels, outputs)))


# --- attention ------------------------------------------------------------------------------------


@ct.kernel
def attention(q, k, v, out, factor, tm: ConstInt, tn: ConstInt, size: ConstInt):
    i, head = ct.bid(0), ct.bid(1)
    query = ct.load(q, (head, i, 0), (1, tm, size), padding_mode=ZERO).reshape((tm, size))
    top = ct.full((tm, 1), -math.inf, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    value = ct.zeros((tm, size), ct.float32)
    for j in range(ct.num_tiles(k, 1, (1, tn, size))):
        key = ct.load(k, (head, j, 0), (1, tn, size), padding_mode=ZERO).reshape((tn, size))
        scores = ct.mma(query, ct.transpose(key), ct.zeros((tm, tn), ct.float32)) * factor
        higher = ct.maximum(top, ct.max(scores, 1, keepdims=True))
        power = ct.exp2(scores - higher)
        shrink = ct.exp2(top - higher)
        total = total * shrink + ct.sum(power, 1, keepdims=True)
        part = ct.load(v, (head, j, 0), (1, tn, size), padding_mode=ZERO).reshape((tn, size))
        value = ct.mma(power.astype(v.dtype), part, value * shrink)
        top = higher
    ct.store(out, (head, i, 0), (value / total).astype(out.dtype).reshape((1, tm, size)))


@ct.kernel
def attention_flushed(q, k, v, out, factor, tm: ConstInt, tn: ConstInt, size: ConstInt):
    """The same, as authors write it for speed: powers that flush, and an approximate division."""
    i, head = ct.bid(0), ct.bid(1)
    query = ct.load(q, (head, i, 0), (1, tm, size), padding_mode=ZERO).reshape((tm, size))
    top = ct.full((tm, 1), -math.inf, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    value = ct.zeros((tm, size), ct.float32)
    for j in range(ct.num_tiles(k, 1, (1, tn, size))):
        key = ct.load(k, (head, j, 0), (1, tn, size), padding_mode=ZERO).reshape((tn, size))
        scores = ct.mma(query, ct.transpose(key), ct.zeros((tm, tn), ct.float32))
        higher = ct.maximum(top, ct.max(scores, 1, keepdims=True) * factor)
        power = ct.exp2(scores * factor - higher, flush_to_zero=True)
        shrink = ct.exp2(top - higher, flush_to_zero=True)
        total = total * shrink + ct.sum(power, 1, keepdims=True)
        part = ct.load(v, (head, j, 0), (1, tn, size), padding_mode=ZERO).reshape((tn, size))
        value = ct.mma(power.astype(v.dtype), part, value * shrink)
        top = higher
    value = ct.truediv(value, total, flush_to_zero=True, rounding_mode=ct.RoundingMode.APPROX)
    ct.store(out, (head, i, 0), value.astype(out.dtype).reshape((1, tm, size)))


@ct.kernel
def attention_causal(q, k, v, out, factor, tm: ConstInt, tn: ConstInt, size: ConstInt):
    i, head = ct.bid(0), ct.bid(1)
    query = ct.load(q, (head, i, 0), (1, tm, size), padding_mode=ZERO).reshape((tm, size))
    rows = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    top = ct.full((tm, 1), -math.inf, ct.float32)
    total = ct.zeros((tm, 1), ct.float32)
    value = ct.zeros((tm, size), ct.float32)
    for j in range(ct.cdiv((i + 1) * tm, tn)):
        key = ct.load(k, (head, j, 0), (1, tn, size), padding_mode=ZERO).reshape((tn, size))
        scores = ct.mma(query, ct.transpose(key), ct.zeros((tm, tn), ct.float32)) * factor
        if (j + 1) * tn > i * tm:
            columns = j * tn + ct.arange(tn, dtype=ct.int32)[None, :]
            scores = ct.where(columns <= rows, scores, -math.inf)
        higher = ct.maximum(top, ct.max(scores, 1, keepdims=True))
        power = ct.exp2(scores - higher)
        shrink = ct.exp2(top - higher)
        total = total * shrink + ct.sum(power, 1, keepdims=True)
        part = ct.load(v, (head, j, 0), (1, tn, size), padding_mode=ZERO).reshape((tn, size))
        value = ct.mma(power.astype(v.dtype), part, value * shrink)
        top = higher
    ct.store(out, (head, i, 0), (value / total).astype(out.dtype).reshape((1, tm, size)))


@ct.kernel
def attention_backward(
    q, k, v, dout, logsum, delta, dk, dv, factor, tm: ConstInt, tn: ConstInt, size: ConstInt
):
    """Gradients of keys and values: probabilities are computed again from the sums of powers."""
    j, head = ct.bid(0), ct.bid(1)
    key = ct.load(k, (head, j, 0), (1, tn, size)).reshape((tn, size))
    value = ct.load(v, (head, j, 0), (1, tn, size)).reshape((tn, size))
    key_sum = ct.zeros((tn, size), ct.float32)
    value_sum = ct.zeros((tn, size), ct.float32)
    for i in range(ct.num_tiles(q, 1, (1, tm, size))):
        query = ct.load(q, (head, i, 0), (1, tm, size)).reshape((tm, size))
        upper = ct.load(dout, (head, i, 0), (1, tm, size)).reshape((tm, size))
        sums = ct.load(logsum, (head, i), (1, tm))
        dots = ct.load(delta, (head, i), (1, tm))
        scores = ct.mma(key, ct.transpose(query), ct.zeros((tn, tm), ct.float32)) * factor
        power = ct.exp2(scores - sums)
        value_sum = ct.mma(power.astype(v.dtype), upper, value_sum)
        slope = ct.mma(value, ct.transpose(upper), ct.zeros((tn, tm), ct.float32)) - dots
        key_sum = ct.mma((power * slope).astype(q.dtype), query, key_sum)
    ct.store(dk, (head, j, 0), (key_sum * factor).astype(dk.dtype).reshape((1, tn, size)))
    ct.store(dv, (head, j, 0), value_sum.astype(dv.dtype).reshape((1, tn, size)))
