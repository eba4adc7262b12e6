"""Products, experts and quantised weights, as libraries of kernels for models have them."""

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
    next_power,
    normal,
)

_ZERO = ct.PaddingMode.ZERO
_F32, _F64, _BF16, _F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
_I32, _I8, _U8 = torch.int32, torch.int8, torch.uint8
_F8 = torch.float8_e4m3fn
_NF4 = (-0.848, -0.6106, -0.4599, -0.3397, -0.2346, -0.1378, -0.0455)
_NF4 += (0.0398, 0.1203, 0.2035, 0.2920, 0.3896, 0.5016, 0.6428, 0.8615)


@ct.kernel
def split_product(
    x,
    w,
    out,
    parts: ct.Constant[int],
    m: ct.Constant[int],
    n: ct.Constant[int],
    k: ct.Constant[int],
):
    """A product whose long inner axis is shared by blocks, which add to the result by atomics."""
    j, part = ct.bid(0), ct.bid(1)
    total = ct.zeros((m, n), ct.float32)
    for step in range(part, ct.cdiv(x.shape[1], k), parts):
        left = ct.load(x, (0, step), (m, k), padding_mode=_ZERO)
        total = ct.mma(left, ct.load(w, (step, j), (k, n), padding_mode=_ZERO), total)
    row = ct.arange(m, dtype=ct.int32).reshape((m, 1))
    ct.atomic_add(out, (row, j * n + ct.arange(n, dtype=ct.int32).reshape((1, n))), total)


@ct.kernel
def both_turned(a, b, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    """a.T b.T, extents that are no multiples of tiles'."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((m, n), out.dtype)
    for step in range(ct.num_tiles(a, 0, (k, m))):
        left = ct.load(a, (step, i), (k, m), padding_mode=_ZERO).transpose()
        right = ct.load(b, (j, step), (n, k), padding_mode=_ZERO).transpose()
        total = ct.mma(left, right, total)
    ct.store(out, (i, j), total)


@ct.kernel
def small_products(a, b, out, batch: ct.Constant[int], size: ct.Constant[int]):
    """Products of small matrices that do not fill their tiles, some at once: [matrix, row, column]."""
    i = ct.bid(0)
    left = ct.load(a, (i, 0, 0), (batch, size, size), padding_mode=_ZERO)
    right = ct.load(b, (i, 0, 0), (batch, size, size), padding_mode=_ZERO)
    total = ct.mma(left, right, ct.zeros((batch, size, size), a.dtype))
    ct.store(out, (i, 0, 0), total)


@ct.kernel
def of_scaled_blocks(x, xs, w, ws, out, m: ct.Constant[int], n: ct.Constant[int]):
    """x w.T of E4M3: scales for each row and 128 of x, and for blocks of 128 x 128 of w."""
    i, j = ct.bid(1), ct.bid(0)
    total = ct.zeros((m, n), ct.float32)
    for step in range(ct.cdiv(x.shape[1], 128)):
        left = ct.load(x, (i, step), (m, 128))
        right = ct.load(w, (j, step), (n, 128))
        part = ct.mma(left, right.transpose(), ct.zeros((m, n), ct.float32))
        total += part * ct.load(xs, (i, step), (m, 1)) * ct.gather(ws, (j * n // 128, step))
    ct.store(out, (i, j), total)


@ct.kernel
def of_nibbles(
    x, w, zeros, scales, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]
):
    """x times weights of four bits, eight of a row in an i32; a zero and a scale for k of a column (AWQ)."""
    j = ct.bid(0)
    by = (ct.arange(8, dtype=ct.int32) * 4).reshape((1, 1, 8))
    total = ct.zeros((m, n), ct.float32)
    for step in range(ct.num_tiles(w, 0, (k, n // 8))):
        held = ct.load(w, (step, j), (k, n // 8)).reshape((k, n // 8, 1))
        zero = ct.load(zeros, (step, j), (1, n // 8)).reshape((1, n // 8, 1))
        held = (((held >> by) & 15) - ((zero >> by) & 15)).reshape((k, n))
        held = held.astype(x.dtype) * ct.load(scales, (step, j), (1, n))
        left = ct.load(x, (0, step), (m, k), padding_mode=_ZERO)
        total = ct.mma(left, held, total)
    ct.store(out, (0, j), total.astype(out.dtype))


@ct.kernel
def gated(x, gate, up, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    """silu(x gate) * (x up), both products in one loop."""
    i, j = ct.bid(1), ct.bid(0)
    first, second = ct.zeros((m, n), ct.float32), ct.zeros((m, n), ct.float32)
    for step in range(ct.cdiv(x.shape[1], k)):
        left = ct.load(x, (i, step), (m, k), padding_mode=_ZERO)
        first = ct.mma(left, ct.load(gate, (step, j), (k, n), padding_mode=_ZERO), first)
        second = ct.mma(left, ct.load(up, (step, j), (k, n), padding_mode=_ZERO), second)
    ct.store(out, (i, j), (first / (1.0 + ct.exp(-first)) * second).astype(out.dtype))


@ct.kernel
def balance(logits, shares, counts, rows: ct.Constant[int], experts: ct.Constant[int]):
    """What routers are kept balanced by: sums of probabilities of experts, and how often each is first."""
    i = ct.bid(0)
    held = ct.load(logits, (i, 0), (rows, experts), padding_mode=_ZERO)
    there = (i * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1)) < logits.shape[0]
    raised = ct.exp(held - ct.max(held, 1, keepdims=True))
    part = ct.where(there, raised / ct.sum(raised, 1, keepdims=True), 0.0)
    expert = ct.arange(experts, dtype=ct.int32)
    first = (ct.argmax(held, 1, keepdims=True) == expert.reshape((1, experts))) & there
    ct.atomic_add(shares, expert, ct.sum(part, 0))
    ct.atomic_add(counts, expert, ct.sum(first.astype(ct.int32), 0))


@ct.kernel
def gated_experts(
    x,
    tokens,
    owners,
    gate,
    up,
    out,
    m: ct.Constant[int],
    n: ct.Constant[int],
    k: ct.Constant[int],
):
    """Gated layers of experts: rows named by a list that is sorted by expert, an expert for each tile."""
    i, j = ct.bid(0), ct.bid(1)
    expert = ct.gather(owners, i)
    token = ct.load(tokens, (i,), (m,)).reshape((m, 1))
    first, second = ct.zeros((m, n), ct.float32), ct.zeros((m, n), ct.float32)
    for step in range(ct.cdiv(x.shape[1], k)):
        place = (step * k + ct.arange(k, dtype=ct.int32)).reshape((1, k))
        left = ct.gather(x, (token, place), padding_value=0)
        one = ct.load(gate, (expert, step, j), (1, k, n), padding_mode=_ZERO).reshape((k, n))
        two = ct.load(up, (expert, step, j), (1, k, n), padding_mode=_ZERO).reshape((k, n))
        first, second = ct.mma(left, one, first), ct.mma(left, two, second)
    ct.store(out, (i, j), (first / (1.0 + ct.exp(-first)) * second).astype(out.dtype))


@ct.kernel
def weight_gradients(slope, found, slots, out, top: ct.Constant[int], tile: ct.Constant[int]):
    """Gradients of a token's weights: its row's products with the rows of its experts."""
    i = ct.bid(0)
    slot = ct.load(slots, (i, 0), (1, top)).reshape((top, 1))
    total = ct.zeros((top, tile), ct.float32)
    for j in range(ct.cdiv(slope.shape[1], tile)):
        place = (j * tile + ct.arange(tile, dtype=ct.int32)).reshape((1, tile))
        held = ct.gather(found, (slot, place), padding_value=0).astype(ct.float32)
        over = ct.load(slope, (i, j), (1, tile), padding_mode=_ZERO).astype(ct.float32)
        total += held * over
    ct.store(out, (i, 0), ct.sum(total, 1).reshape((1, top)))


@ct.kernel
def smoothed_to_bytes(x, smooth, out, scales, rows: ct.Constant[int], tile: ct.Constant[int]):
    """Rows over a number for each column, then to i8 by the largest of each row."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0), (rows, tile), padding_mode=_ZERO).astype(ct.float32)
    by = ct.gather(smooth, ct.arange(tile, dtype=ct.int32), padding_value=1.0)
    held = held / by.reshape((1, tile))
    scale = ct.maximum(ct.max(ct.abs(held), 1, keepdims=True), 1e-8) / 127.0
    ct.store(out, (i, 0), ct.floor(held / scale + 0.5).astype(ct.int8))
    ct.store(scales, (i,), scale.reshape((rows,)))


@ct.kernel
def to_normal_floats(x, out, scales, rows: ct.Constant[int]):
    """Groups of 64 by their largest to the nearest of 16 levels (NF4), the first of two in the high half of a byte."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0), (rows, 64))
    scale = ct.max(ct.abs(held), 1, keepdims=True)
    held = held / scale
    level = ct.zeros((rows, 64), ct.int32)
    for limit in ct.static_iter(_NF4):
        level += (held > limit).astype(ct.int32)
    level = level.reshape((rows, 32, 2))
    high = ct.extract(level, (0, 0, 0), (rows, 32, 1)).reshape((rows, 32))
    low = ct.extract(level, (0, 0, 1), (rows, 32, 1)).reshape((rows, 32))
    ct.store(out, (i, 0), ((high << 4) | low).astype(ct.uint8))
    ct.store(scales, (i,), scale.reshape((rows,)))


@ct.kernel
def squares_to_eight(x, out, scales):
    """Blocks of 128 x 128 of weights to E4M3 by their largest."""
    i, j = ct.bid(1), ct.bid(0)
    held = ct.load(x, (i, j), (128, 128), padding_mode=_ZERO).astype(ct.float32)
    scale = ct.maximum(ct.max(ct.abs(held)), 1e-12) / 448.0
    ct.store(out, (i, j), (held / scale).astype(out.dtype))
    ct.scatter(scales, (i, j), scale)


def _split_product(m: int, n: int, k: int, dtype: torch.dtype) -> Row:
    x, w, out = normal(m, k).to(dtype), normal(k, n).to(dtype), torch.zeros(m, n)
    return beside_torch(
        f"{m} x {n} x {k} {kind(dtype)}, the inner axis shared by 8 blocks",
        split_product,
        (-(-n // 32), 8),
        (x, w, out, 8, next_power(m), 32, 64),
        lambda x, w: x @ w if x.dtype == _F64 else x.float() @ w.float(),
        x,
        w,
        bound=2e-5,
        clear=out.zero_,
    )


def _both_turned(m: int, n: int, k: int, dtype: torch.dtype) -> Row:
    a, b = normal(k, m).to(dtype), normal(n, k).to(dtype)
    return beside_torch(
        f"a.T b.T, {m} x {n} x {k} {kind(dtype)}, tiles 64x32x16",
        both_turned,
        (-(-m // 64), -(-n // 32)),
        (a, b, torch.empty(m, n, dtype=dtype), 64, 32, 16),
        lambda a, b: a.T @ b.T,
        a,
        b,
        bound=ERROR[dtype],
    )


def _small_products(many: int, size: int, dtype: torch.dtype) -> Row:
    a, b = normal(many, size, size, dtype=dtype), normal(many + 1, size, size, dtype=dtype)[1:]
    return beside_torch(
        f"{many} products of {size} x {size} {kind(dtype)}, tiles 4x32x32",
        small_products,
        (-(-many // 4),),
        (a, b, torch.empty_like(a), 4, 32),
        torch.bmm,
        a,
        b,
        bound=1e-13 if dtype == _F64 else 1e-5,
    )


def _of_scaled_blocks(m: int, n: int, k: int) -> Row:
    x, w = normal(m, k).to(_F8), normal(n, k).to(_F8)
    xs, ws = normal(m, k // 128).abs(), normal(n // 128, k // 128).abs()

    def theirs(x, xs, w, ws):
        left = x.to(xs.dtype) * xs.repeat_interleave(128, 1)
        by = ws.repeat_interleave(128, 0).repeat_interleave(128, 1)
        return left @ (w.to(xs.dtype) * by).T

    return beside_torch(
        f"{m} x {n} x {k} of E4M3 with scales of blocks, tiles 64x64x128",
        of_scaled_blocks,
        (n // 64, -(-m // 64)),
        (x, xs, w, ws, torch.empty(m, n), 64, 64),
        theirs,
        x,
        xs,
        w,
        ws,
        bound=1e-5,
    )


def _of_nibbles(m: int, n: int, k: int) -> Row:
    x, w = normal(m, k).half(), integers(1 << 31, k, n // 8, dtype=_I32)
    zeros, scales = integers((1 << 31) - 1, k // 64, n // 8), normal(k // 64, n).abs().half()
    by = torch.arange(0, 32, 4, dtype=_I32)

    def theirs(x, w, zeros, scales):
        held = ((w[..., None] >> by) & 15).view(k, n).view(k // 64, 64, n)
        zero = ((zeros[..., None] >> by) & 15).view(k // 64, 1, n)
        wide = _F64 if x.dtype == _F64 else _F32  # products of f16 are slow
        held = ((held - zero).to(wide) * scales[:, None].to(wide)).view(k, n)
        return (x.to(wide) @ held).to(x.dtype)

    return beside_torch(
        f"{m} x {n} x {k} f16 by weights of four bits with zeros",
        of_nibbles,
        (n // 64,),
        (x, w, zeros, scales, torch.empty(m, n, dtype=_F16), 16, 64, 64),
        theirs,
        *(x, w, zeros, scales),
        bound=2e-3,
    )


def _gated(m: int, n: int, k: int, dtype: torch.dtype) -> Row:
    x, gate = normal(m, k).to(dtype), (normal(k, n) / 16).to(dtype)
    up = (normal(n, k) / 16).T.contiguous().to(dtype)
    return beside_torch(
        f"silu(x a) * (x b), {m} x {n} x {k} {kind(dtype)}, tiles 64x64x32",
        gated,
        (-(-n // 64), -(-m // 64)),
        (x, gate, up, torch.empty(m, n, dtype=dtype), 64, 64, 32),
        lambda x, gate, up: functional.silu(x @ gate) * (x @ up),
        x,
        gate,
        up,
        bound=max(ERROR[dtype], 2e-5),
    )


def _balance(tokens: int, experts: int) -> Row:
    logits, shares = normal(tokens, experts), torch.zeros(experts)
    counts = torch.zeros(experts, dtype=_I32)

    def theirs(logits):
        many = torch.bincount(logits.argmax(1), minlength=experts)
        return torch.softmax(logits, 1).sum(0), many

    def clear():
        shares.zero_()
        counts.zero_()

    return beside_torch(
        f"balance of {experts} experts over {tokens} tokens",
        balance,
        (-(-tokens // 32),),
        (logits, shares, counts, 32, experts),
        theirs,
        logits,
        outputs=2,
        bound=1e-5,
        clear=clear,
    )


def _gated_experts(tokens: int, experts: int, n: int, k: int, dtype: torch.dtype) -> Row:
    x, weights = normal(tokens, k).to(dtype), (normal(2, experts, k, n) / 16).to(dtype)
    chosen = integers(experts, tokens * 2).view(tokens, 2)
    named, owners = [], []
    for expert in range(experts):
        mine = (chosen == expert).any(1).nonzero()[:, 0].int()
        named.append(functional.pad(mine, (0, -len(mine) % 32), value=tokens))
        owners += [expert] * (len(named[-1]) // 32)
    slots, ends = torch.cat(named), [len(each) for each in named]
    wide, out = slots.long(), torch.empty(len(slots), n, dtype=dtype)

    def theirs(x, gate, up):
        held = functional.pad(x, (0, 0, 0, 1))[wide].split(ends)
        made = [functional.silu(each @ gate[i]) * (each @ up[i]) for i, each in enumerate(held)]
        return torch.cat(made)

    return beside_torch(
        f"gated layers of {experts} experts, {tokens} tokens x 2, {n} x {k} {kind(dtype)}",
        gated_experts,
        (len(owners), -(-n // 64)),
        (x, slots, torch.tensor(owners, dtype=_I32), *weights, out, 32, 64, 32),
        theirs,
        x,
        *weights.unbind(0),
        bound=max(ERROR[dtype], 2e-5),
        compiles=False,
    )


def _weight_gradients(tokens: int, top: int, width: int, dtype: torch.dtype) -> Row:
    slope, found = normal(tokens, width).to(dtype), normal(tokens * top, width).to(dtype)
    order = torch.randperm(tokens * top, generator=torch.Generator().manual_seed(1))
    slots, out = order.int().view(tokens, top), torch.empty(tokens, top)

    def theirs(slope, found, slots):
        held = found[slots.long()]
        wide = _F64 if slope.dtype == _F64 else _F32
        return (held.to(wide) * slope[:, None].to(wide)).sum(2)

    return beside_torch(
        f"gradients of {top} weights of {tokens} tokens of {width} {kind(dtype)}",
        weight_gradients,
        (tokens,),
        (slope, found, slots, out, top, 256),
        theirs,
        slope,
        found,
        slots,
        bound=1e-5,
    )


def _smoothed_to_bytes(rows_: int, width: int, dtype: torch.dtype) -> Row:
    x, smooth = normal(rows_, width).to(dtype), normal(width).abs() + 0.25

    def theirs(x, smooth):
        held = x.float() / smooth
        scale = held.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127.0
        return torch.floor(held / scale + 0.5).to(_I8), scale[:, 0]

    return beside_torch(
        f"{rows_} x {width} {kind(dtype)} smoothed and to i8, tiles 4x{next_power(width)}",
        smoothed_to_bytes,
        (-(-rows_ // 4),),
        (x, smooth, torch.empty(rows_, width, dtype=_I8), torch.empty(rows_), 4, next_power(width)),
        theirs,
        x,
        smooth,
        outputs=2,
    )


def _to_normal_floats(groups: int) -> Row:
    x = normal(groups, 64)
    out = torch.empty(groups, 32, dtype=_U8), torch.empty(groups)

    def theirs(x):
        scale = x.abs().amax(1)
        held = x / scale[:, None]
        level = (held > _NF4[0]).to(_I32)
        for limit in _NF4[1:]:
            level = level + (held > limit)
        return (level[:, ::2] << 4 | level[:, 1::2]).to(_U8), scale

    def make(nb):
        limits = tuple(np.float32(each) for each in _NF4)

        @nb.njit(parallel=True, error_model="numpy")
        def run(x, out, scales):
            for i in nb.prange(groups):
                level, scale = np.empty(64, np.int32), np.abs(x[i]).max()
                for j in range(64):
                    held, many = x[i, j] / scale, 0
                    for limit in limits:
                        many += held > limit
                    level[j] = many
                scales[i] = scale
                for j in range(32):
                    out[i, j] = level[2 * j] << 4 | level[2 * j + 1]

        given = [array(each) for each in (x, *(torch.empty_like(each) for each in out))]
        return lambda: run(*given)

    return beside_torch(
        f"{groups} groups of 64 f32 to four bits by 16 levels, 16 groups at a time",
        to_normal_floats,
        (groups // 16,),
        (x, *out, 16),
        theirs,
        x,
        outputs=2,
        more=by_numba(make),
    )


def _squares_to_eight(height: int, width: int, dtype: torch.dtype) -> Row:
    x, down, along = normal(height, width).to(dtype), -(-height // 128), -(-width // 128)
    out = torch.empty(height, width, dtype=_F8), torch.empty(down, along)

    def theirs(x):
        held = functional.pad(x.float(), (0, -width % 128, 0, -height % 128))
        held = held.view(down, 128, along, 128)
        scale = held.abs().amax((1, 3)).clamp(min=1e-12) / 448.0
        held = (held / scale[:, None, :, None]).to(_F8)
        return held.view(down * 128, along * 128)[:height, :width], scale

    return beside_torch(
        f"{height} x {width} {kind(dtype)} to E4M3 by blocks of 128 x 128",
        squares_to_eight,
        (along, down),
        (x, *out),
        theirs,
        x,
        outputs=2,
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _split_product(48, 160, 4096, _F16),
        lambda: _both_turned(310, 270, 330, _F64),
        lambda: _small_products(3001, 24, _F64),
        lambda: _small_products(3001, 20, _F32),
        lambda: _of_scaled_blocks(128, 384, 512),
        lambda: _of_nibbles(9, 1024, 1024),
        lambda: _gated(100, 700, 512, _BF16),
        lambda: _balance(8001, 64),
        lambda: _gated_experts(256, 8, 192, 256, _F32),
        lambda: _weight_gradients(512, 4, 1000, _BF16),
        lambda: _smoothed_to_bytes(1000, 1000, _F16),
        lambda: _to_normal_floats(8192),
        lambda: _squares_to_eight(1000, 900, _BF16),
    ]
