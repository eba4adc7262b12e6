"""Products in forms that the table of ``gpu_kernels`` does not have: gathered, quantised, turned, narrow, chained."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct

from benchmarks.gpu_cases import BF16, F8, F16, F32, I8, I32, Case

ZERO = ct.PaddingMode.ZERO
ConstInt = ct.Constant[int]
F64, U8, F8E5 = ct.float64, ct.uint8, ct.float8_e5m2


def _sums(factor: Any) -> Any:
    """The type in which products of a type are summed up."""
    return {ct.float64: ct.float64, ct.int8: ct.int32}.get(factor, ct.float32)


@ct.kernel
def plain(a, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.static_eval(_sums(a.dtype)))
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def half_sums(a, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float16)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, (i, j), total)


@ct.kernel
def first_turned(a, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """A is stored by columns."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 0, (tk, tm))):
        x = ct.load(a, (k, i), (tk, tm), padding_mode=ZERO)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        total = ct.mma(ct.transpose(x), y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def both_turned(a, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 0, (tk, tm))):
        x = ct.load(a, (k, i), (tk, tm), padding_mode=ZERO)
        y = ct.load(b, (j, k), (tn, tk), padding_mode=ZERO)
        total = ct.mma(ct.transpose(x), ct.transpose(y), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def second_turned(a, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """B is stored by columns; f32 is multiplied as tf32, 8 bits with fast sums."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (j, k), (tn, tk), order=(0, 1), padding_mode=ZERO)
        if ct.static_eval(a.dtype == ct.float32):
            x, y = x.astype(ct.tfloat32), y.astype(ct.tfloat32)
        total = ct.mma(x, ct.transpose(y), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def fast_bytes(a, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.transpose(ct.load(b, (j, k), (tn, tk), padding_mode=ZERO))
        total = ct.mma(x, y, total, use_fast_acc=True)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def experts(tokens, weights, places, owners, out, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """A group of rows for each expert; which rows these are stands in a list."""
    i, j = ct.bid(0), ct.bid(1)
    rows = ct.load(places, (i,), (tm,))
    expert = ct.gather(owners, i)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(tokens, 1, (tm, tk))):
        columns = k * tk + ct.arange(tk, dtype=ct.int32)
        x = ct.gather(tokens, (rows[:, None], columns[None, :]))
        y = ct.load(weights, (expert, k, j), (1, tk, tn)).reshape((tk, tn))
        total = ct.mma(x, y, total)
    columns = j * tn + ct.arange(tn, dtype=ct.int32)
    ct.scatter(out, (rows[:, None], columns[None, :]), total.astype(out.dtype))


@ct.kernel
def nibbles(a, b, scales, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """Two weights of 4 bits in a byte, neighbours along k; a scale for each group of k."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk))
        pairs = ct.load(b, (k, j), (tk // 2, tn))
        low = (pairs & 15).astype(ct.int8).reshape((tk // 2, 1, tn))
        high = (pairs >> 4).astype(ct.int8).reshape((tk // 2, 1, tn))
        y = (ct.cat((low, high), 1).reshape((tk, tn)) - 8).astype(a.dtype)
        y = y * ct.load(scales, (k, j), (1, tn))
        total = ct.mma(x, y, total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def table_weights(a, b, codes, scales, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """Weights are places in a table of values."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk))
        y = ct.gather(codes, ct.load(b, (k, j), (tk, tn)).astype(ct.int32))
        total = ct.mma(x, y * ct.load(scales, (k, j), (1, tn)), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def group_scaled(a, b, scales, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """Weights of 8 bits with a scale for each group of k, applied before the product."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk))
        y = ct.load(b, (j, k), (tn, tk)).astype(ct.float32)
        y = (y * ct.load(scales, (j, k), (tn, 1))).astype(a.dtype)
        total = ct.mma(x, ct.transpose(y), total)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def block_scaled(a, b, rows, columns, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """Both factors have 8 bits, and scales for each block of k, applied behind the product."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk))
        y = ct.transpose(ct.load(b, (j, k), (tn, tk)))
        part = ct.mma(x, y, ct.zeros((tm, tn), ct.float32))
        total += part * ct.load(rows, (i, k), (tm, 1)) * ct.gather(columns, (j, k))
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def bytes_scaled(a, b, rows, columns, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """i8 by i8, both by rows; scales of rows and columns at the end."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.int32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        total = ct.mma(x, y, total)
    scale = ct.load(rows, (i,), (tm,))[:, None] * ct.load(columns, (j,), (tn,))[None, :]
    ct.store(c, (i, j), (total.astype(ct.float32) * scale).astype(c.dtype))


@ct.kernel
def many_small(a, b, c, count: ConstInt, m: ConstInt, n: ConstInt, k: ConstInt):
    """A product of tiles of three dimensions."""
    i = ct.bid(0)
    x = ct.load(a, (i, 0, 0), (count, m, k))
    y = ct.load(b, (i, 0, 0), (count, k, n))
    total = ct.mma(x, y, ct.zeros((count, m, n), ct.static_eval(_sums(a.dtype))))
    ct.store(c, (i, 0, 0), total.astype(c.dtype))


@ct.kernel
def matrix_by_vector(a, x, out, rows: ConstInt, width: ConstInt):
    i = ct.bid(0)
    total = ct.zeros((rows, width), ct.float32)
    for k in range(ct.num_tiles(a, 1, (rows, width))):
        weights = ct.load(a, (i, k), (rows, width), padding_mode=ZERO).astype(ct.float32)
        total += weights * ct.load(x, (k,), (width,), padding_mode=ZERO).astype(ct.float32)[None, :]
    ct.store(out, (i,), ct.sum(total, 1).astype(out.dtype))


@ct.kernel
def gelu_residual(a, b, bias, residual, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        total = ct.mma(x, y, total)
    total = total + ct.load(bias, (j,), (tn,)).astype(ct.float32)[None, :]
    inner = 0.7978845608 * (total + 0.044715 * total * total * total)
    total = 0.5 * total * (1.0 + ct.tanh(inner))
    total = total + ct.load(residual, (i, j), (tm, tn)).astype(ct.float32)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def gated(a, gate, up, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """Two products of the same rows; one gates the other."""
    i, j = ct.bid(0), ct.bid(1)
    left, right = ct.zeros((tm, tn), ct.float32), ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        left = ct.mma(x, ct.load(gate, (k, j), (tk, tn), padding_mode=ZERO), left)
        right = ct.mma(x, ct.load(up, (k, j), (tk, tn), padding_mode=ZERO), right)
    ct.store(c, (i, j), (left / (1.0 + ct.exp(-left)) * right).astype(c.dtype))


@ct.kernel
def stream_k(a, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """Each block takes as many steps of k as any other, whatever tiles they belong to."""
    steps = ct.num_tiles(a, 1, (tm, tk))
    across = ct.num_tiles(c, 1, (tm, tn))
    whole = ct.num_tiles(c, 0, (tm, tn)) * across * steps
    each = ct.cdiv(whole, ct.num_blocks(0))
    at = ct.bid(0) * each
    end = min(at + each, whole)
    while at < end:
        tile, first = at // steps, at % steps
        last = min(steps, first + end - at)
        i, j = tile // across, tile % across
        total = ct.zeros((tm, tn), ct.float32)
        for k in range(first, last):
            x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
            y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
            total = ct.mma(x, y, total)
        if last - first == steps:
            ct.store(c, (i, j), total)
        else:
            rows = i * tm + ct.arange(tm, dtype=ct.int32)
            columns = j * tn + ct.arange(tn, dtype=ct.int32)
            ct.atomic_add(c, (rows[:, None], columns[None, :]), total)
        at += last - first


@ct.kernel
def normed(a, weight, b, c, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """The rows of A are normed on the way: squares are summed beside the product."""
    i, j = ct.bid(0), ct.bid(1)
    total, squares = ct.zeros((tm, tn), ct.float32), ct.zeros((tm, 1), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO).astype(ct.float32)
        squares += ct.sum(x * x, 1, keepdims=True)
        x = (x * ct.load(weight, (k,), (tk,)).astype(ct.float32)[None, :]).astype(a.dtype)
        total = ct.mma(x, ct.load(b, (k, j), (tk, tn), padding_mode=ZERO), total)
    total = total * ct.rsqrt(squares / a.shape[1] + 1e-6)
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def quantised_result(a, b, c, scales, tm: ConstInt, tn: ConstInt, tk: ConstInt):
    """The result has 8 bits, and a scale for each row of a tile."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        total = ct.mma(x, y, total)
    scale = ct.maximum(ct.max(ct.abs(total), 1, keepdims=True), 1e-12) / 448.0
    ct.store(c, (i, j), (total / scale).astype(c.dtype))
    ct.store(scales, (i, j), scale)


@ct.kernel
def low_rank(x, down, up, out, tm: ConstInt, tn: ConstInt, tk: ConstInt, rank: ConstInt):
    """Two products in a row, of which the first has few columns."""
    i = ct.bid(0)
    inner = ct.zeros((tm, rank), ct.float32)
    for k in range(ct.num_tiles(x, 1, (tm, tk))):
        part = ct.load(x, (i, k), (tm, tk), padding_mode=ZERO)
        inner = ct.mma(part, ct.load(down, (k, 0), (tk, rank), padding_mode=ZERO), inner)
    held = inner.astype(x.dtype)
    for j in range(ct.num_tiles(out, 1, (tm, tn))):
        wide = ct.load(up, (0, j), (rank, tn), padding_mode=ZERO)
        total = ct.mma(held, wide, ct.zeros((tm, tn), ct.float32))
        ct.store(out, (i, j), total.astype(out.dtype))


@ct.kernel
def strided_convolution(image, filters, out, pixels: ConstInt, inputs: ConstInt, outs: ConstInt):
    """Every second pixel; channels in steps."""
    n, row, start = ct.bid(0), ct.bid(1), ct.bid(2)
    columns = 2 * (start * pixels + ct.arange(pixels, dtype=ct.int32))
    total = ct.zeros((pixels, outs), ct.float32)
    for i in range(filters.shape[0]):
        for j in range(filters.shape[1]):
            for k in range(ct.num_tiles(filters, 2, (1, 1, inputs, outs))):
                channels = k * inputs + ct.arange(inputs, dtype=ct.int32)
                place = (n, 2 * row + i - 2, columns[:, None] + j - 2, channels[None, :])
                weights = ct.load(filters, (i, j, k, 0), (1, 1, inputs, outs))
                seen = ct.gather(image, place)
                total = ct.mma(seen, weights.reshape((inputs, outs)), total)
    ct.store(out, (n, row, start, 0), total.astype(out.dtype).reshape((1, 1, pixels, outs)))


@ct.kernel
def fourier(real, imag, cosines, sines, out_real, out_imag, n: ConstInt, rows: ConstInt):
    """A transform of n points for each of some rows, by products with the matrix of roots, as tf32."""
    i = ct.bid(0)
    x = ct.load(real, (i, 0), (rows, n)).astype(ct.tfloat32)
    y = ct.load(imag, (i, 0), (rows, n)).astype(ct.tfloat32)
    c = ct.load(cosines, (0, 0), (n, n)).astype(ct.tfloat32)
    s = ct.load(sines, (0, 0), (n, n)).astype(ct.tfloat32)
    zero = ct.zeros((rows, n), ct.float32)
    ct.store(out_real, (i, 0), ct.mma(x, c, zero) + ct.mma(y, s, zero))
    ct.store(out_imag, (i, 0), ct.mma(y, c, zero) - ct.mma(x, s, zero))


def _product(
    name: str,
    kernel: Any,
    kinds: tuple[Any, Any, Any],
    tile: tuple[int, int, int],
    more: Any = lambda m, n, k: (),
    *,
    extents: tuple[int, int, int] = (4096, 4096, 4096),
    turned: str = "",
    last: Any = lambda m, n: (),
    grid: tuple[int, int, int] | None = None,
    packed: int = 1,
) -> Case:
    """A product of ``extents``, for the simulator two steps of one tile. ``more``, ``last``: arrays before and
    behind the result; ``packed``: how many numbers of B lie in one along k."""
    tm, tn, tk = tile

    def arguments(m: int, n: int, k: int) -> tuple[Any, ...]:
        a = (kinds[0], (k, m) if "a" in turned else (m, k))
        b = (kinds[1], (n, k // packed) if "b" in turned else (k // packed, n))
        ends = (*last(m, n), (tm,), (tn,), (tk,))
        return (a, b, *more(m, n, k), (kinds[2], (m, n)), *ends)

    m, n, k = extents
    whole = grid or (-(-m // tm), n // tn, 1)
    few = arguments(min(m, tm), tn, 2 * tk)
    return Case(name, "products", kernel, arguments(m, n, k), whole, few)


def _small(name: str, kind: Any, result: Any, shape: tuple[int, int, int, int]) -> Case:
    count, m, n, k = shape

    def arguments(total: int) -> tuple[Any, ...]:
        a, b, c = (kind, (total, m, k)), (kind, (total, k, n)), (result, (total, m, n))
        return (a, b, c, *((number,) for number in shape))

    whole = arguments(count * 4096)
    return Case(name, "products", many_small, whole, (4096, 1, 1), arguments(count))


def _experts(name: str, kind: Any, tm: int, tn: int, tk: int) -> Case:
    def arguments(blocks: int, n: int, k: int, count: int) -> tuple[Any, ...]:
        rows = max(blocks * tm, 4)
        weights = (kind, (count, k, n))
        lists = ((I32, (blocks * tm,)), (I32, (blocks,)))
        return ((kind, (rows, k)), weights, *lists, (kind, (rows, n)), (tm,), (tn,), (tk,))

    whole = arguments(128, 4096, 2048, 8)
    return Case(name, "products", experts, whole, (128, 4096 // tn, 1), arguments(1, tn, 2 * tk, 4))


def _other_cases() -> list[Case]:
    def vector(rows: int, width: int) -> tuple[Any, ...]:
        return ((F16, (rows, width)), (F16, (width,)), (F32, (rows,)), (16,), (256,))

    def ranks(rows: int, width: int) -> tuple[Any, ...]:
        tiles = ((64,), (128,), (64,), (16,))
        wide = (BF16, (rows, width))
        return (wide, (BF16, (width, 16)), (BF16, (16, width)), wide, *tiles)

    def filtered(count: int, height: int, width: int, channels: int) -> tuple[Any, ...]:
        image = (BF16, (count, height, width, channels))
        out = (BF16, (count, height // 2, width // 2, 64))
        return (image, (BF16, (5, 5, channels, 64)), out, (width // 2,), (32,), (64,))

    def transforms(rows: int) -> tuple[Any, ...]:
        data, roots = (F32, (rows, 64)), (F32, (64, 64))
        return (data, data, roots, roots, data, data, (64,), (32,))

    def gates(m: int, n: int, k: int) -> tuple[Any, ...]:
        factor = (BF16, (k, n))
        return ((BF16, (m, k)), factor, factor, (BF16, (m, n)), (128,), (64,), (64,))

    def norms(m: int, n: int, k: int) -> tuple[Any, ...]:
        a, weight = (BF16, (m, k)), (BF16, (k,))
        return (a, weight, (BF16, (k, n)), (BF16, (m, n)), (128,), (128,), (64,))

    return [
        _small("small products bf16 8x32x32x32", BF16, F32, (8, 32, 32, 32)),
        _small("small products f16 4x64x64x64", F16, F16, (4, 64, 64, 64)),
        _small("small products f64 4x16x16x16", F64, F64, (4, 16, 16, 16)),
        _small("small products f32 16x16x16x16", F32, F32, (16, 16, 16, 16)),
        Case(
            "matrix by vector f16 16x256",
            "products",
            matrix_by_vector,
            vector(16384, 8192),
            (1024, 1, 1),
            vector(16, 512),
        ),
        _experts("experts f16 64x128x64", F16, 64, 128, 64),
        _experts("experts bf16 128x128x32", BF16, 128, 128, 32),
        Case(
            "gated product bf16 128x64x64",
            "products",
            gated,
            gates(4096, 8192, 4096),
            (32, 128, 1),
            gates(128, 64, 128),
        ),
        Case(
            "product of normed rows bf16",
            "products",
            normed,
            norms(4096, 4096, 4096),
            (32, 32, 1),
            norms(128, 128, 128),
        ),
        Case(
            "low rank bf16 64x16",
            "products",
            low_rank,
            ranks(16384, 4096),
            (256, 1, 1),
            ranks(64, 256),
        ),
        Case(
            "convolution 5x5 stride 2 bf16",
            "products",
            strided_convolution,
            filtered(32, 64, 64, 128),
            (32, 32, 1),
            filtered(1, 2, 64, 32),
        ),
        Case(
            "Fourier by products tf32 64",
            "products",
            fourier,
            transforms(1 << 17),
            (4096, 1, 1),
            transforms(32),
        ),
    ]


def cases() -> list[Case]:
    """Products that nobody tuned for."""
    make = _product
    square, small = (128, 128, 64), (64, 64, 32)

    def groups(kind: Any, each: int) -> Any:
        return lambda m, n, k: ((kind, (k // each, n)),)

    def codes(m: int, n: int, k: int) -> tuple[Any, ...]:
        return ((F16, (16,)), (F16, (k // 64, n)))

    def blocks(m: int, n: int, k: int) -> tuple[Any, ...]:
        return ((F32, (m, k // 128)), (F32, (max(n // 128, 1), k // 128)))

    def ends(m: int, n: int, k: int) -> tuple[Any, ...]:
        return ((F32, (m,)), (F32, (n,)))

    def residual(m: int, n: int, k: int) -> tuple[Any, ...]:
        return ((BF16, (n,)), (BF16, (m, n)))

    few_rows = (16, 8192, 8192)
    return [
        make("product A turned f16", first_turned, (F16, F16, F16), square, turned="a"),
        make("product A turned f16 64x64x32", first_turned, (F16, F16, F32), small, turned="a"),
        make("product both turned bf16", both_turned, (BF16, BF16, BF16), square, turned="ab"),
        make("product A turned f8", first_turned, (F8, F8, F16), square, turned="a"),
        make("product tf32 B turned", second_turned, (F32, F32, F32), (128, 128, 32), turned="b"),
        make("product tf32 64x128x16", second_turned, (F32, F32, F32), (64, 128, 16), turned="b"),
        make("product f8 B turned", second_turned, (F8, F8, BF16), (128, 128, 128), turned="b"),
        make("product f8 fast", fast_bytes, (F8, F8, F16), (128, 128, 128), turned="b"),
        make("product f8e5 fast", fast_bytes, (F8E5, F8E5, F16), (64, 256, 64), turned="b"),
        make("product f32", plain, (F32, F32, F32), (64, 64, 16)),
        make(
            "product f64 64x64x16",
            plain,
            (F64, F64, F64),
            (64, 64, 16),
            extents=(2048, 2048, 2048),
        ),
        make(
            "product f64 32x32x32",
            plain,
            (F64, F64, F64),
            (32, 32, 32),
            extents=(2048, 2048, 2048),
        ),
        make("product f16 sums f16", half_sums, (F16, F16, F16), square),
        make("product f16 32x256x64", plain, (F16, F16, F16), (32, 256, 64)),
        make("product bf16 256x64x64", plain, (BF16, BF16, BF16), (256, 64, 64)),
        make("product f16 64x32x16", plain, (F16, F16, F32), (64, 32, 16)),
        make("product f16 256x256x64", plain, (F16, F16, F16), (256, 256, 64)),
        make("product i8 by rows 64x64x64", plain, (I8, I8, I32), (64, 64, 64)),
        make(
            "product bf16 16 rows 16x128x64",
            plain,
            (BF16, BF16, BF16),
            (16, 128, 64),
            extents=few_rows,
        ),
        make(
            "product f16 16 rows 16x64x128",
            plain,
            (F16, F16, F16),
            (16, 64, 128),
            extents=few_rows,
        ),
        make("product 4 bits f16", nibbles, (F16, U8, F16), square, groups(F16, 64), packed=2),
        make(
            "product 4 bits bf16 16 rows",
            nibbles,
            (BF16, U8, BF16),
            (16, 128, 128),
            groups(BF16, 128),
            packed=2,
            extents=few_rows,
        ),
        make("product table weights f16", table_weights, (F16, U8, F16), (64, 64, 64), codes),
        make(
            "product i8 group scales bf16",
            group_scaled,
            (BF16, I8, BF16),
            square,
            lambda m, n, k: ((F32, (n, k // 64)),),
            turned="b",
        ),
        make(
            "product f8 group scales f16",
            group_scaled,
            (F16, F8, F16),
            (64, 128, 128),
            lambda m, n, k: ((F32, (n, k // 128)),),
            turned="b",
        ),
        make(
            "product f8 block scales",
            block_scaled,
            (F8, F8, BF16),
            (128, 128, 128),
            blocks,
            turned="b",
        ),
        make("product i8 scaled f16", bytes_scaled, (I8, I8, F16), (128, 128, 64), ends),
        make("product gelu residual bf16", gelu_residual, (BF16, BF16, BF16), square, residual),
        make(
            "product gelu residual f16 64x128x32",
            gelu_residual,
            (F16, F16, F16),
            (64, 128, 32),
            lambda m, n, k: ((F16, (n,)), (F16, (m, n))),
        ),
        make("product stream-K f16", stream_k, (F16, F16, F32), square, grid=(132, 1, 1)),
        make(
            "product to f8 with row scales",
            quantised_result,
            (BF16, BF16, F8),
            (64, 128, 64),
            last=lambda m, n: ((F32, (m, n // 128)),),
        ),
        *_other_cases(),
    ]
