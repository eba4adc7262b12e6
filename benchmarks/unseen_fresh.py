"""Kernels of classes that no other module has, as programs of many fields have them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import numpy as np
import torch
from torch.nn import functional

from benchmarks.unseen_rows import Job, Row, array, compiled, integers, normal

_ZERO = ct.PaddingMode.ZERO


@ct.kernel
def sparse_times_vector(starts, columns, values, x, out, lanes: ct.Constant[int]):
    """A row of CSR for each block, by as many of its elements at once as there are lanes."""
    row = ct.bid(0)
    first, last = ct.gather(starts, row), ct.gather(starts, row + 1)
    total = ct.zeros((lanes,), ct.float32)
    for k in range(ct.cdiv(last - first, lanes)):
        at = first + k * lanes + ct.arange(lanes, dtype=ct.int32)
        held = at < last
        column = ct.gather(columns, (at,), mask=held, padding_value=0)
        value = ct.gather(values, (at,), mask=held, padding_value=0)
        total += ct.astype(value * ct.gather(x, (column,)), ct.float32)
    ct.scatter(out, row, ct.astype(ct.sum(total), out.dtype))


@ct.kernel
def padded_sparse(columns, values, x, out, rows: ct.Constant[int], width: ct.Constant[int]):
    """Rows of ELL, all as long as the longest."""
    i = ct.bid(0)
    column = ct.load(columns, (i, 0), (rows, width))
    value = ct.load(values, (i, 0), (rows, width))
    ct.store(out, (i,), ct.sum(value * ct.gather(x, (column,)), axis=1))


@ct.kernel
def bilinear(x, out, height: ct.Constant[int], width: ct.Constant[int], tile: ct.Constant[int]):
    """Twice the size, corners not aligned: [channel, y, x]."""
    channel, y = ct.bid(2), ct.bid(1)
    column = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    at_y = ct.maximum((y + 0.5) * 0.5 - 0.5, 0.0)
    at_x = ct.maximum((ct.astype(column, ct.float32) + 0.5) * 0.5 - 0.5, 0.0)
    y0, x0 = ct.astype(at_y, ct.int32), ct.astype(at_x, ct.int32)
    y1, x1 = min(y0 + 1, height - 1), ct.minimum(x0 + 1, width - 1)
    down, right = at_y - y0, at_x - ct.astype(x0, ct.float32)
    above = ct.astype(ct.gather(x, (channel, y0, x0)), ct.float32) * (1.0 - right)
    above += ct.astype(ct.gather(x, (channel, y0, x1)), ct.float32) * right
    below = ct.astype(ct.gather(x, (channel, y1, x0)), ct.float32) * (1.0 - right)
    below += ct.astype(ct.gather(x, (channel, y1, x1)), ct.float32) * right
    ct.scatter(out, (channel, y, column), ct.astype(above * (1.0 - down) + below * down, out.dtype))


@ct.kernel
def rotary(x, cos, sin, out, heads: ct.Constant[int], half: ct.Constant[int]):
    """Rotary embedding of [place, head, 2 half], the same angles for all heads."""
    place = ct.bid(0)
    c = ct.load(cos, (place, 0), (1, half)).reshape((1, 1, half))
    s = ct.load(sin, (place, 0), (1, half)).reshape((1, 1, half))
    left = ct.astype(ct.load(x, (place, 0, 0), (1, heads, half)), ct.float32)
    right = ct.astype(ct.load(x, (place, 0, 1), (1, heads, half)), ct.float32)
    ct.store(out, (place, 0, 0), ct.astype(left * c - right * s, out.dtype))
    ct.store(out, (place, 0, 1), ct.astype(right * c + left * s, out.dtype))


@ct.kernel
def cosine_of_rows(x, y, out, rows: ct.Constant[int], width: ct.Constant[int]):
    """The cosine of the angle between rows."""
    i = ct.bid(0)
    a = ct.astype(ct.load(x, (i, 0), (rows, width)), ct.float32)
    b = ct.astype(ct.load(y, (i, 0), (rows, width)), ct.float32)
    dot, one, two = ct.sum(a * b, axis=1), ct.sum(a * a, axis=1), ct.sum(b * b, axis=1)
    length = ct.sqrt(ct.maximum(one, 1e-16)) * ct.sqrt(ct.maximum(two, 1e-16))
    ct.store(out, (i,), ct.astype(dot / length, out.dtype))


@ct.kernel
def group_norm(x, weight, bias, out, channels: ct.Constant[int], area: ct.Constant[int]):
    """[image, group, channel, place]: a block for each image and group."""
    image, group = ct.bid(0), ct.bid(1)
    held = ct.load(x, (image, group, 0, 0), (1, 1, channels, area)).reshape((channels, area))
    mean = ct.sum(held) / (channels * area)
    apart = held - mean
    scale = ct.rsqrt(ct.sum(apart * apart) / (channels * area) + 1e-5)
    w = ct.load(weight, (group, 0), (1, channels)).reshape((channels, 1))
    b = ct.load(bias, (group, 0), (1, channels)).reshape((channels, 1))
    ct.store(out, (image, group, 0, 0), (apart * scale * w + b).reshape((1, 1, channels, area)))


@ct.kernel
def rms_norm_backward(x, dy, weight, dx, width: ct.Constant[int]):
    row = ct.bid(0)
    held = ct.astype(ct.load(x, (row, 0), (1, width)), ct.float32)
    weighted = ct.astype(ct.load(dy, (row, 0), (1, width)), ct.float32) * ct.astype(
        ct.load(weight, (0,), (width,)), ct.float32
    ).reshape((1, width))
    scale = ct.rsqrt(ct.sum(held * held) / width + 1e-6)
    along = ct.sum(weighted * held) / width * scale * scale
    ct.store(dx, (row, 0), ct.astype((weighted - held * along) * scale, dx.dtype))


@ct.kernel
def layer_norm(x, weight, bias, out, width: ct.Constant[int]):
    row = ct.bid(0)
    held = ct.astype(ct.load(x, (row, 0), (1, width)), ct.float32)
    mean = ct.sum(held) / width
    apart = held - mean
    scale = ct.rsqrt(ct.sum(apart * apart) / width + 1e-5)
    w = ct.astype(ct.load(weight, (0,), (width,)), ct.float32).reshape((1, width))
    b = ct.astype(ct.load(bias, (0,), (width,)), ct.float32).reshape((1, width))
    ct.store(out, (row, 0), ct.astype(apart * scale * w + b, out.dtype))


@ct.kernel
def focal_loss(x, target, out, tile: ct.Constant[int]):
    i = ct.bid(0)
    z, t = ct.load(x, (i,), (tile,)), ct.load(target, (i,), (tile,))
    p = 1.0 / (1.0 + ct.exp(-z))
    cross = ct.maximum(z, 0.0) - z * t + ct.log(1.0 + ct.exp(-ct.abs(z)))
    missed = p + t - 2.0 * p * t
    ct.store(out, (i,), (0.25 * t + 0.75 * (1.0 - t)) * cross * missed * missed)


@ct.kernel
def running_maxima(x, out, width: ct.Constant[int]):
    row = ct.bid(0)
    held = ct.load(x, (row, 0), (1, width))
    ct.store(out, (row, 0), ct.scan(held, 1, lambda a, b: ct.maximum(a, b), -math.inf))


@ct.kernel
def pooled_with_edges(x, out, size: ct.Constant[int], tile: ct.Constant[int]):
    """The largest of 3 x 3, two steps apart, edges padded by one: [channel, y, x]."""
    channel, y = ct.bid(2), ct.bid(1)
    column = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    most = ct.full((tile,), -math.inf, x.dtype)
    for r in range(3):
        for s in range(3):
            row, at = 2 * y + (r - 1), 2 * column + (s - 1)
            inside = (row >= 0) & (row < size) & (at >= 0) & (at < size)
            value = ct.gather(x, (channel, row, at), mask=inside, padding_value=-math.inf)
            most = ct.maximum(most, value)
    ct.scatter(out, (channel, y, column), most)


@ct.kernel
def rows_of_table(table, ids, out, count: ct.Constant[int], width: ct.Constant[int]):
    """Rows of a table by number."""
    i = ct.bid(0)
    row = ct.load(ids, (i,), (count,)).reshape((count, 1))
    column = ct.arange(width, dtype=ct.int32).reshape((1, width))
    ct.store(out, (i, 0), ct.gather(table, (row, column)))


@ct.kernel
def box_blur(x, out, height: ct.Constant[int], width: ct.Constant[int], tile: ct.Constant[int]):
    """Means of 5 x 5 pixels of u8, the edges repeated."""
    y = ct.bid(1)
    column = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    total = ct.zeros((tile,), ct.int32)
    for r in range(5):
        row = min(max(y + (r - 2), 0), height - 1)
        for s in range(5):
            at = ct.minimum(ct.maximum(column + (s - 2), 0), width - 1)
            total += ct.astype(ct.gather(x, (row, at)), ct.int32)
    ct.scatter(out, (y, column), ct.astype((total * 2622) >> 16, ct.uint8))


@ct.kernel
def by_table(x, table, out, tile: ct.Constant[int]):
    """Each u8 by a table of 256."""
    i = ct.bid(0)
    index = ct.astype(ct.load(x, (i,), (tile,)), ct.int32)
    ct.store(out, (i,), ct.gather(table, (index,)))


@ct.kernel
def divergence(p, q, out, rows: ct.Constant[int], width: ct.Constant[int]):
    """KL divergence of rows of log probabilities."""
    i = ct.bid(0)
    a = ct.astype(ct.load(p, (i, 0), (rows, width)), ct.float32)
    b = ct.astype(ct.load(q, (i, 0), (rows, width)), ct.float32)
    ct.store(out, (i,), ct.sum(ct.exp(a) * (a - b), axis=1))


@ct.kernel
def pixel_shuffle(x, out, width: ct.Constant[int], tile: ct.Constant[int]):
    """[4 channels, y, x] to twice the size: [channel, 2 y, 2 x]."""
    channel, y = ct.bid(2), ct.bid(1)
    column = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    source = 4 * channel + 2 * (y % 2) + column % 2
    ct.scatter(out, (channel, y, column), ct.gather(x, (source, y // 2, column // 2)))


@ct.kernel
def gru_cell(gates, hidden_gates, h, out, width: ct.Constant[int]):
    """[row, gate, width]."""
    row = ct.bid(0)

    def part(a, k):
        return ct.load(a, (row, k, 0), (1, 1, width)).reshape((1, width))

    reset = 1.0 / (1.0 + ct.exp(-(part(gates, 0) + part(hidden_gates, 0))))
    update = 1.0 / (1.0 + ct.exp(-(part(gates, 1) + part(hidden_gates, 1))))
    new = ct.tanh(part(gates, 2) + reset * part(hidden_gates, 2))
    ct.store(out, (row, 0), new + update * (ct.load(h, (row, 0), (1, width)) - new))


@ct.kernel
def ranks(x, out, rows: ct.Constant[int], width: ct.Constant[int]):
    """How many of its row are less than each element: an argsort of short rows."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0), (rows, width))
    less = held.reshape((rows, 1, width)) < held.reshape((rows, width, 1))
    ct.store(out, (i, 0), ct.sum(ct.astype(less, ct.int32), axis=2))


@ct.kernel
def packed_bits(x, out, words: ct.Constant[int]):
    """32 comparisons in each word."""
    i = ct.bid(0)
    held = ct.load(x, (i, 0), (words, 32))
    bits = ct.astype(held > 0.0, ct.int32) << ct.arange(32, dtype=ct.int32).reshape((1, 32))
    ct.store(out, (i,), ct.sum(bits, axis=1))


@ct.kernel
def dropped(x, out, seed, tile: ct.Constant[int]):
    """Dropout by a hash of the place."""
    i = ct.bid(0)
    h = ct.astype(i * tile + ct.arange(tile, dtype=ct.int32), ct.uint32) * 2654435761 + ct.astype(
        seed, ct.uint32
    )
    h = (h ^ (h >> 15)) * 2246822519
    h = h ^ (h >> 13)
    held = ct.load(x, (i,), (tile,))
    ct.store(out, (i,), ct.where((h >> 8) < 12582912, held * (4.0 / 3.0), 0.0))


@ct.kernel
def haar(x, low, high, tile: ct.Constant[int]):
    """Sums and differences of neighbours."""
    i = ct.bid(0)
    both = ct.load(x, (i, 0), (tile, 2))
    left, right = ct.extract(both, (0, 0), (tile, 1)), ct.extract(both, (0, 1), (tile, 1))
    root = 0.7071067811865476
    ct.store(low, (i,), ((left + right) * root).reshape((tile,)))
    ct.store(high, (i,), ((left - right) * root).reshape((tile,)))


@ct.kernel
def log_sum_exp(x, out, rows: ct.Constant[int], width: ct.Constant[int]):
    i = ct.bid(0)
    held = ct.astype(ct.load(x, (i, 0), (rows, width)), ct.float32)
    most = ct.max(held, axis=1, keepdims=True)
    total = ct.sum(ct.exp(held - most), axis=1)
    ct.store(out, (i,), ct.astype(ct.log(total) + most.reshape((rows,)), out.dtype))


@ct.kernel
def pairs_apart(x, y, out, rows: ct.Constant[int], columns: ct.Constant[int], d: ct.Constant[int]):
    """Distances of all pairs of points, by sums of magnitudes."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((rows, columns), ct.float32)
    for k in range(d):
        a = ct.load(x, (i, k), (rows, 1))
        b = ct.load(y, (k, j), (1, columns))
        total += ct.abs(a - b)
    ct.store(out, (i, j), total)


@ct.kernel
def sums_of_runs(x, ids, out, tile: ct.Constant[int]):
    """Sums of the numbers of each segment, by atomics; segments are sorted."""
    i = ct.bid(0)
    ct.atomic_add(out, (ct.load(ids, (i,), (tile,)),), ct.load(x, (i,), (tile,)))


def _row(
    name: str,
    kernel: Any,
    grid: tuple[int, ...],
    arguments: tuple[Any, ...],
    out: torch.Tensor,
    theirs: Callable[..., torch.Tensor],
    *tensors: torch.Tensor,
    bound: float = 0.0,
    numpy: Job | None = None,
) -> Row:
    """A row of one result, beside a function of tensors. ``theirs`` may be less exact than ``bound``: for floats it is
    asked in f64."""
    peers: dict[str, Job] = {
        "torch": lambda: theirs(*tensors),
        "torch.compile": compiled(theirs, *tensors),
    }
    if numpy is not None:
        peers["NumPy"] = numpy
    exact = [each.double() if bound and each.is_floating_point() else each for each in tensors]
    return Row(name, kernel, grid, arguments, (out,), lambda: (theirs(*exact),), peers, bound)


_ERROR = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float64: 1e-14}


def _kind(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _sparse(rows: int, columns: int, mean: int, lanes: int) -> Row:
    import scipy.sparse

    rng = np.random.default_rng(rows)
    counts = rng.integers(mean // 2, mean + mean // 2, rows)
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    places = rng.integers(0, columns, starts[-1]).astype(np.int32)
    values, x = normal(int(starts[-1])), normal(columns)
    out = torch.empty(rows)
    matrix = scipy.sparse.csr_matrix((array(values), places, starts), (rows, columns))
    given = (torch.from_numpy(starts), torch.from_numpy(places), values)
    sparse = torch.sparse_csr_tensor(*given, (rows, columns))
    exact = torch.sparse_csr_tensor(*given[:2], values.double(), (rows, columns))
    return Row(
        f"CSR times a vector, {rows} rows of {mean} of {columns} f32, {lanes} lanes",
        sparse_times_vector,
        (rows,),
        (*given, x, out, lanes),
        (out,),
        lambda: (exact @ x.double(),),
        {"torch": lambda: sparse @ x, "SciPy": lambda: matrix @ array(x)},
        bound=1e-5,
    )


def _padded_sparse(rows: int, width: int) -> Row:
    columns, values, x = integers(rows, rows, width), normal(rows, width), normal(rows)
    wide = columns.long()
    return _row(
        f"{rows} rows of {width} gathered f32 times a vector, tiles 64x{width}",
        padded_sparse,
        (rows // 64,),
        (columns, values, x, out := torch.empty(rows), 64, width),
        out,
        lambda values, x: (values * x[wide]).sum(1),
        values,
        x,
        bound=1e-5,
    )


def _bilinear(channels: int, size: int, dtype: torch.dtype) -> Row:
    x = normal(channels, size, size).to(dtype)
    out = torch.empty(channels, 2 * size, 2 * size, dtype=dtype)
    return _row(
        f"{channels} x {size} x {size} {_kind(dtype)} to twice the size, bilinear",
        bilinear,
        (-(-2 * size // 128), 2 * size, channels),
        (x, out, size, size, 128),
        out,
        lambda x: functional.interpolate(x[None], scale_factor=2, mode="bilinear")[0],
        x,
        bound=_ERROR[dtype],
    )


def _rotary(places: int, heads: int, dtype: torch.dtype) -> Row:
    x, out = normal(places, heads, 128).to(dtype), torch.empty(places, heads, 128, dtype=dtype)
    angles = torch.rand(places, 64) * 6
    cos, sin = angles.cos(), angles.sin()

    def theirs(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        left, right = x[..., :64].to(cos.dtype), x[..., 64:].to(cos.dtype)
        c, s = cos[:, None], sin[:, None]
        return torch.cat((left * c - right * s, right * c + left * s), -1).to(x.dtype)

    return _row(
        f"rotary embedding, {places} x {heads} x 128 {_kind(dtype)}",
        rotary,
        (places,),
        (x, cos, sin, out, heads, 64),
        out,
        theirs,
        x,
        cos,
        sin,
        bound=_ERROR[dtype],
    )


def _cosine(rows: int, width: int, tile: int, dtype: torch.dtype) -> Row:
    x, y = normal(rows, width).to(dtype), normal(width, rows).t().contiguous().to(dtype)
    return _row(
        f"cosines of rows, {rows} x {width} {_kind(dtype)}, tiles {tile}x{width}",
        cosine_of_rows,
        (rows // tile,),
        (x, y, out := torch.empty(rows, dtype=dtype), tile, width),
        out,
        lambda x, y: functional.cosine_similarity(x, y, 1, 1e-8),
        x,
        y,
        bound=_ERROR[dtype],
    )


def _norms() -> list[Callable[[], Row]]:
    def groups() -> Row:
        x, w, b = normal(16, 32, 8, 1024), torch.rand(32, 8), torch.rand(32, 8)
        return _row(
            "group norm, 16 images, 32 groups of 8 channels of 1024 f32",
            group_norm,
            (16, 32),
            (x, w, b, out := torch.empty_like(x), 8, 1024),
            out,
            lambda x, w, b: functional.group_norm(
                x.view(16, 256, 1024), 32, w.view(-1), b.view(-1)
            ).view_as(x),
            x,
            w,
            b,
            bound=1e-5,
        )

    def backward(dtype: torch.dtype) -> Row:
        x, dy, w = (normal(*d).to(dtype) for d in ((4096, 1024), (1024, 4096), (1024,)))
        dy = dy.view(4096, 1024)

        def theirs(x: torch.Tensor, dy: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            wide = torch.float64 if x.dtype == torch.float64 else torch.float32
            kind, x, dy, w = x.dtype, x.to(wide), dy.to(wide), w.to(wide)
            scale = torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-6)
            along = (dy * w * x).mean(1, keepdim=True) * scale * scale
            return ((dy * w - x * along) * scale).to(kind)

        return _row(
            f"RMS norm backward of rows, 4096 x 1024 {_kind(dtype)}",
            rms_norm_backward,
            (4096,),
            (x, dy, w, out := torch.empty_like(x), 1024),
            out,
            theirs,
            x,
            dy,
            w,
            bound=_ERROR[dtype],
        )

    def layer(dtype: torch.dtype) -> Row:
        x, w, b = normal(4096, 1024).to(dtype), torch.rand(1024).to(dtype), normal(1024).to(dtype)
        return _row(
            f"LayerNorm, 4096 x 1024 {_kind(dtype)}",
            layer_norm,
            (4096,),
            (x, w, b, out := torch.empty_like(x), 1024),
            out,
            lambda x, w, b: functional.layer_norm(x, (1024,), w, b),
            x,
            w,
            b,
            bound=_ERROR[dtype],
        )

    f32, bf16 = torch.float32, torch.bfloat16
    made = [groups]
    for dtype in (f32, bf16):
        made += [lambda d=dtype: backward(d), lambda d=dtype: layer(d)]
    return made


def _losses() -> list[Callable[[], Row]]:
    def focal() -> Row:
        x, t = normal(1 << 20), integers(2, 1 << 20).float()

        def theirs(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            p = torch.sigmoid(x)
            cross = functional.binary_cross_entropy_with_logits(x, t, reduction="none")
            return (0.25 * t + 0.75 * (1 - t)) * cross * (p + t - 2 * p * t) ** 2

        return _row(
            "focal loss of 1M f32",
            focal_loss,
            (1024,),
            (x, t, out := torch.empty_like(x), 1024),
            out,
            theirs,
            x,
            t,
            bound=1e-5,
        )

    def apart(dtype: torch.dtype) -> Row:
        p, q = (torch.log_softmax(normal(*d), 1).to(dtype) for d in ((4096, 1024), (4096, 1024)))
        q = q.flip(1).contiguous()

        def theirs(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
            wide = torch.float64 if p.dtype == torch.float64 else torch.float32
            return functional.kl_div(q.to(wide), p.to(wide), reduction="none", log_target=True).sum(
                1
            )

        return _row(
            f"KL divergences of rows, 4096 x 1024 {_kind(dtype)}",
            divergence,
            (1024,),
            (p, q, out := torch.empty(4096), 4, 1024),
            out,
            theirs,
            p,
            q,
            bound=1e-4,
        )

    def summed(dtype: torch.dtype) -> Row:
        x = normal(4096, 1024).to(dtype)
        return _row(
            f"logarithms of sums of exponentials of rows, 4096 x 1024 {_kind(dtype)}",
            log_sum_exp,
            (1024,),
            (x, out := torch.empty(4096, dtype=dtype), 4, 1024),
            out,
            lambda x: torch.logsumexp(x, 1),
            x,
            bound=_ERROR[dtype],
        )

    f32, bf16 = torch.float32, torch.bfloat16
    made = [focal]
    for dtype in (f32, bf16):
        made += [lambda d=dtype: apart(d), lambda d=dtype: summed(d)]
    return made


def _images() -> list[Callable[[], Row]]:
    def pooled() -> Row:
        x, out = normal(64, 112, 112), torch.empty(64, 56, 56)
        return _row(
            "largest of 3 x 3 in steps of two, 64 x 112 x 112 f32",
            pooled_with_edges,
            (1, 56, 64),
            (x, out, 112, 64),
            out,
            lambda x: functional.max_pool2d(x[None], 3, 2, 1)[0],
            x,
        )

    def blurred() -> Row:
        x = integers(256, 1080, 1920, dtype=torch.uint8)

        def theirs(x: torch.Tensor) -> torch.Tensor:
            padded = functional.pad(x[None, None].float(), (2, 2, 2, 2), mode="replicate")
            total = sum(padded[0, 0, r : r + 1080] for r in range(5))
            total = sum(total[:, s : s + 1920] for s in range(5))
            return ((total.int() * 2622) >> 16).to(torch.uint8)

        return _row(
            "means of 5 x 5 pixels of u8, 1080 x 1920",
            box_blur,
            (15, 1080),
            (x, out := torch.empty_like(x), 1080, 1920, 128),
            out,
            theirs,
            x,
        )

    def looked_up() -> Row:
        x, table = integers(256, 1 << 22, dtype=torch.uint8), integers(250, 256, dtype=torch.uint8)
        held, known, found = array(x), array(table), np.empty(1 << 22, np.uint8)
        return _row(
            "4M u8 by a table of 256",
            by_table,
            (1024,),
            (x, table, out := torch.empty_like(x), 4096),
            out,
            lambda x, table: table[x.int()],
            x,
            table,
            numpy=lambda: np.take(known, held, out=found, mode="clip"),
        )

    def shuffled() -> Row:
        x, out = normal(64, 128, 128), torch.empty(16, 256, 256)
        return _row(
            "pixel shuffle of 64 x 128 x 128 f32",
            pixel_shuffle,
            (1, 256, 16),
            (x, out, 128, 256),
            out,
            lambda x: functional.pixel_shuffle(x[None], 2)[0],
            x,
        )

    return [pooled, blurred, looked_up, shuffled]


def _others() -> list[Callable[[], Row]]:
    def maxima() -> Row:
        x = normal(2048, 1024)
        return _row(
            "running maxima of rows, 2048 x 1024 f32",
            running_maxima,
            (2048,),
            (x, out := torch.empty_like(x), 1024),
            out,
            lambda x: torch.cummax(x, 1)[0],
            x,
            numpy=lambda: np.maximum.accumulate(array(x), axis=1),
        )

    def table(dtype: torch.dtype) -> Row:
        held, ids = normal(32768, 256).to(dtype), integers(32768, 16384)
        return _row(
            f"16384 rows of 256 {_kind(dtype)} of a table",
            rows_of_table,
            (2048,),
            (held, ids, out := torch.empty(16384, 256, dtype=dtype), 8, 256),
            out,
            lambda held, ids: functional.embedding(ids, held),
            held,
            ids,
        )

    def gates() -> Row:
        a, b, h = normal(2048, 3, 512), normal(3, 2048, 512).view(2048, 3, 512), normal(2048, 512)

        def theirs(a: torch.Tensor, b: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
            r, z = torch.sigmoid(a[:, 0] + b[:, 0]), torch.sigmoid(a[:, 1] + b[:, 1])
            n = torch.tanh(a[:, 2] + r * b[:, 2])
            return n + z * (h - n)

        return _row(
            "gates of a GRU, 2048 x 512 f32",
            gru_cell,
            (2048,),
            (a, b, h, out := torch.empty_like(h), 512),
            out,
            theirs,
            a,
            b,
            h,
            bound=1e-5,
        )

    def ranked() -> Row:
        x = torch.rand(16384, 32, generator=torch.Generator().manual_seed(1))
        return _row(
            "ranks within rows, 16384 x 32 f32",
            ranks,
            (4096,),
            (x, out := torch.empty(16384, 32, dtype=torch.int32), 4, 32),
            out,
            lambda x: (x[:, None, :] < x[:, :, None]).sum(2, dtype=torch.int32),
            x,
            numpy=lambda: array(x).argsort(1).argsort(1),
        )

    def bits() -> Row:
        x = normal(1 << 17, 32)
        powers = torch.tensor([1 << k for k in range(31)] + [-(1 << 31)], dtype=torch.int32)
        return _row(
            "4M comparisons packed into bits",
            packed_bits,
            (1 << 11,),
            (x, out := torch.empty(1 << 17, dtype=torch.int32), 64),
            out,
            lambda x: ((x > 0).int() * powers).sum(1, dtype=torch.int32),
            x,
            numpy=lambda: np.packbits(array(x) > 0, axis=1, bitorder="little"),
        )

    return [
        maxima,
        lambda: table(torch.float32),
        lambda: table(torch.bfloat16),
        gates,
        ranked,
        bits,
        *_more(),
    ]


def _more() -> list[Callable[[], Row]]:
    def dropout() -> Row:
        x = normal(1 << 22)
        out = torch.empty_like(x)
        at = np.arange(1 << 22, dtype=np.uint32)

        def expected() -> tuple[torch.Tensor]:
            h = at * np.uint32(2654435761) + np.uint32(7)
            h = (h ^ (h >> 15)) * np.uint32(2246822519)
            h = h ^ (h >> 13)
            kept = torch.from_numpy((h >> 8) < 12582912)
            return (torch.where(kept, x.double() * (4 / 3), 0.0),)

        call = compiled(lambda x: functional.dropout(x, 0.25), x)
        peers: dict[str, Job] = {
            "torch": lambda: functional.dropout(x, 0.25),
            "torch.compile": call,
        }
        name = "dropout of 4M f32 by a hash"
        return Row(name, dropped, (4096,), (x, out, 7, 1024), (out,), expected, peers, 1e-6)

    def wavelet() -> Row:
        x = normal(1 << 21, 2)
        low, high = torch.empty(1 << 21), torch.empty(1 << 21)
        root = 0.7071067811865476

        def theirs(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return (x[:, 0] + x[:, 1]) * root, (x[:, 0] - x[:, 1]) * root

        peers = {"torch": lambda: theirs(x), "torch.compile": compiled(theirs, x)}
        return Row(
            "a step of a Haar transform of 4M f32",
            haar,
            (2048,),
            (x, low, high, 1024),
            (low, high),
            lambda: theirs(x.double()),
            peers,
            1e-6,
        )

    def distances() -> Row:
        x, y = normal(512, 64), normal(64, 512)
        return _row(
            "distances of 512 x 512 points of 64 f32 by magnitudes",
            pairs_apart,
            (16, 8),
            (x, y, out := torch.empty(512, 512), 32, 64, 64),
            out,
            lambda x, y: torch.cdist(x, y.t(), p=1.0),
            x,
            y,
            bound=1e-5,
        )

    def runs() -> Row:
        x = integers(100, 1 << 21)
        ids = torch.sort(integers(20000, 1 << 21))[0]
        out, wide = torch.zeros(20000, dtype=torch.int32), ids.long()
        held = torch.zeros(20000, dtype=torch.int32)
        return Row(
            "sums of 20000 sorted segments of 2M i32 by atomics",
            sums_of_runs,
            (2048,),
            (x, ids, out, 1024),
            (out,),
            lambda: (torch.zeros_like(out).index_add_(0, wide, x),),
            {
                "torch": lambda: held.index_add_(0, wide, x),
                "torch, scatter_add": lambda: held.scatter_add_(0, wide, x),
                "NumPy": lambda: np.add.reduceat(array(x), _starts(ids)),
            },
            clear=out.zero_,
        )

    return [dropout, wavelet, distances, runs]


def _starts(ids: torch.Tensor) -> Any:
    """Where the runs of sorted numbers begin."""
    held = array(ids)
    return np.flatnonzero(np.concatenate(([True], held[1:] != held[:-1])))


def rows() -> list[Callable[[], Row]]:
    """The rows of this module."""
    f32, f16, bf16 = torch.float32, torch.float16, torch.bfloat16
    return [
        lambda: _sparse(16384, 16384, 32, 32),
        lambda: _sparse(16384, 16384, 32, 16),
        lambda: _sparse(4096, 4096, 200, 128),
        lambda: _padded_sparse(16384, 32),
        lambda: _bilinear(16, 128, f32),
        lambda: _bilinear(32, 56, f16),
        lambda: _rotary(1024, 16, f32),
        lambda: _rotary(1024, 16, bf16),
        lambda: _cosine(4096, 1024, 4, f32),
        lambda: _cosine(8192, 256, 8, bf16),
        lambda: _cosine(4096, 1024, 1, f32),
        *_norms(),
        *_losses(),
        *_images(),
        *_others(),
    ]
