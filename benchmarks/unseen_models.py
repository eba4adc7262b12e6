"""Pieces of models and of simulations: groups with a scale of their own, masks, gates, channels, stencils, segments."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import Row, array, compiled, integers, normal

_ZERO = ct.PaddingMode.ZERO


@ct.kernel
def from_groups(x, scale, out, groups: ct.Constant[int], each: ct.Constant[int]):
    at = ct.bid(0)
    by = ct.load(scale, (at, 0), (1, groups)).reshape((groups, 1))
    held = ct.astype(ct.load(x, (at, 0), (1, groups * each)), ct.float32)
    ct.store(out, (at, 0), (held.reshape((groups, each)) * by).reshape((1, groups * each)))


@ct.kernel
def masked_softmax(x, mask, out, width: ct.Constant[int]):
    row = ct.bid(0)
    held = ct.where(ct.load(mask, (row, 0), (1, width)), ct.load(x, (row, 0), (1, width)), -1e30)
    raised = ct.exp(held - ct.max(held, axis=1, keepdims=True))
    ct.store(out, (row, 0), raised / ct.sum(raised, axis=1, keepdims=True))


@ct.kernel
def channel_norm(x, mean, scale, shift, out, tile: ct.Constant[int]):
    image, channel = ct.bid(1), ct.bid(0)
    middle, by = ct.load(mean, (channel,), (1,)).item(), ct.load(scale, (channel,), (1,)).item()
    plus = ct.load(shift, (channel,), (1,)).item()
    held = ct.load(x, (image, channel, 0), (1, 1, tile))
    ct.store(out, (image, channel, 0), ct.maximum((held - middle) * by + plus, 0.0))


@ct.kernel
def gates(x, out, chosen, rows: ct.Constant[int], width: ct.Constant[int]):
    """The two largest of each row, as weights that add up to one, and where they are."""
    at = ct.bid(0)
    held = ct.load(x, (at, 0), (rows, width))
    columns = ct.arange(width, dtype=ct.int32).reshape((1, width))
    first = ct.argmax(held, axis=1, keepdims=True)
    most = ct.max(held, axis=1, keepdims=True)
    rest = ct.where(columns == first, -float("inf"), held)
    second = ct.argmax(rest, axis=1, keepdims=True)
    lower = ct.exp(ct.max(rest, axis=1, keepdims=True) - most)
    total = 1.0 + lower
    ct.store(out, (at, 0), ct.cat((1.0 / total, lower / total), 1))
    ct.store(chosen, (at, 0), ct.cat((first, second), 1))


@ct.kernel
def seven_points(x, out, planes: ct.Constant[int], size: ct.Constant[int]):
    i, j = 1 + ct.bid(1), 1 + ct.bid(0)
    k = 1 + ct.arange(size, dtype=ct.int32)
    near = ct.gather(x, (i, j, k - 1)) + ct.gather(x, (i, j, k + 1))
    near = near + ct.gather(x, (i, j - 1, k)) + ct.gather(x, (i, j + 1, k))
    near = near + ct.gather(x, (i - 1, j, k)) + ct.gather(x, (i + 1, j, k))
    ct.scatter(out, (i, j, k), near - 6.0 * ct.gather(x, (i, j, k)))


@ct.kernel
def segment_sums(x, ids, out, rows: ct.Constant[int], width: ct.Constant[int]):
    at = ct.bid(0)
    held = ct.load(x, (at, 0), (rows, width))
    row = ct.load(ids, (at,), (rows,)).reshape((rows, 1))
    ct.atomic_add(out, (row, ct.arange(width, dtype=ct.int32).reshape((1, width))), held)


@ct.kernel
def outer(x, y, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    left = ct.load(x, (ct.bid(1),), (rows,)).reshape((rows, 1))
    ct.store(
        out,
        (ct.bid(1), ct.bid(0)),
        left * ct.load(y, (ct.bid(0),), (columns,)).reshape((1, columns)),
    )


@ct.kernel
def count_above(x, out, tile: ct.Constant[int]):
    """How many elements of each row are above zero, as i64."""
    row = ct.bid(0)
    ct.store(out, (row,), ct.sum(ct.astype(ct.load(x, (row, 0), (1, tile)) > 0, ct.int64), axis=1))


@ct.kernel
def turned(x, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    held = ct.load(x, (ct.bid(1), ct.bid(0)), (rows, columns))
    ct.store(out, (ct.bid(0), ct.bid(1)), ct.transpose(held))


@ct.kernel
def i64_sums(x, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    j = ct.bid(0)
    before = ct.zeros((1, columns), ct.int64)
    for i in range(ct.num_tiles(x, 0, (rows, columns))):
        before += ct.sum(
            ct.load(x, (i, j), (rows, columns), padding_mode=_ZERO), axis=0, keepdims=True
        )
    ct.store(out, (0, j), before)


def _groups() -> Row:
    x, scale = (
        integers(200, 4096, 1024, dtype=torch.int32).sub(100).to(torch.int8),
        normal(4096, 32),
    )
    out = torch.empty(4096, 1024)

    def theirs(a: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return (a.view(4096, 32, 32).float() * s[..., None]).view(4096, 1024)

    return Row(
        "4M i8 to f32 by a scale for each 32",
        from_groups,
        (4096,),
        (x, scale, out, 32, 32),
        (out,),
        lambda: (theirs(x, scale),),
        {"torch": lambda: theirs(x, scale), "torch.compile": compiled(theirs, x, scale)},
        bound=1e-6,
    )


def _masked() -> Row:
    x, mask, out = normal(2048, 1024), normal(2048, 1024) > -0.5, torch.empty(2048, 1024)

    def theirs(a: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.where(m, a, -1e30), 1)

    return Row(
        "softmax under a mask of bool, 2048 x 1024 f32",
        masked_softmax,
        (2048,),
        (x, mask, out, 1024),
        (out,),
        lambda: (theirs(x.double(), mask),),
        {"torch": lambda: theirs(x, mask), "torch.compile": compiled(theirs, x, mask)},
        bound=1e-5,
    )


def _channels() -> Row:
    x, mean, scale, shift = normal(16, 64, 28 * 28), normal(64), torch.rand(64), normal(64) * 2
    out = torch.empty_like(x)

    def theirs(a: torch.Tensor, m: torch.Tensor, s: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
        return ((a - m[:, None]) * s[:, None] + p[:, None]).relu()

    return Row(
        "norm of 64 channels and relu, 16 images of 28 x 28 f32",
        channel_norm,
        (64, 16),
        (x, mean, scale, shift, out, 1024),
        (out,),
        lambda: (theirs(x.double(), mean.double(), scale.double(), shift.double()),),
        {
            "torch": lambda: theirs(x, mean, scale, shift),
            "torch.compile": compiled(theirs, x, mean, scale, shift),
        },
        bound=1e-5,
    )


def _gates() -> Row:
    x, out, chosen = normal(16384, 64), torch.empty(16384, 2), torch.empty(16384, 2).int()

    def theirs(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = torch.topk(a, 2, 1)
        return torch.softmax(values, 1), places

    return Row(
        "two of 64 experts for 16384 rows f32",
        gates,
        (2048,),
        (x, out, chosen, 8, 64),
        (out, chosen),
        lambda: theirs(x.double()),
        {"torch": lambda: theirs(x), "torch.compile": compiled(theirs, x)},
        bound=1e-6,
    )


def _seven() -> Row:
    x, out = normal(130, 130, 130), torch.zeros(130, 130, 130)
    inside = slice(1, -1)

    def theirs(a: torch.Tensor) -> torch.Tensor:
        near = a[inside, inside, :-2] + a[inside, inside, 2:] + a[inside, :-2, inside]
        near = near + a[inside, 2:, inside] + a[:-2, inside, inside] + a[2:, inside, inside]
        return near - 6 * a[inside, inside, inside]

    def right() -> tuple[torch.Tensor]:
        found = torch.zeros(130, 130, 130, dtype=torch.double)
        found[inside, inside, inside] = theirs(x.double())
        return (found,)

    return Row(
        "seven points in space, 128^3 f32, by gathers",
        seven_points,
        (128, 128),
        (x, out, 1, 128),
        (out,),
        right,
        {"torch": lambda: theirs(x), "torch.compile": compiled(theirs, x)},
        bound=1e-5,
    )


def _segments() -> Row:
    x, ids, out = normal(16384, 128), integers(500, 16384).sort()[0].int(), torch.zeros(500, 128)
    wide, other = ids.long(), torch.zeros(500, 128)
    return Row(
        "sums of 500 segments of 16384 rows of 128 f32",
        segment_sums,
        (1024,),
        (x, ids, out, 16, 128),
        (out,),
        lambda: (torch.zeros(500, 128).double().index_add_(0, wide, x.double()),),
        {"torch": lambda: other.index_add_(0, wide, x)},
        bound=1e-5,
        clear=out.zero_,
    )


def _outer() -> Row:
    x, y, out = normal(2000), normal(1500), torch.empty(2000, 1500)
    return Row(
        "outer product of 2000 and 1500 f32, tiles 16x128",
        outer,
        (12, 125),
        (x, y, out, 16, 128),
        (out,),
        lambda: (torch.outer(x.double(), y.double()),),
        {
            "torch": lambda: torch.outer(x, y, out=out),
            "NumPy": lambda: np.outer(array(x), array(y), out=array(out)),
        },
        bound=1e-6,
    )


def _count() -> Row:
    x, out = integers(200, 4096, 4096).sub(100).to(torch.int8), torch.empty(4096).long()
    return Row(
        "how many of 4096 i8 are above zero, 4096 rows, as i64",
        count_above,
        (4096,),
        (x, out, 4096),
        (out,),
        lambda: ((x > 0).sum(1),),
        {
            "torch": lambda: (x > 0).sum(1),
            "torch.compile": compiled(lambda a: (a > 0).sum(1), x),
            "NumPy": lambda: np.count_nonzero(array(x) > 0, axis=1),
        },
    )


def _turned(rows: int, columns: int, dtype: torch.dtype) -> Row:
    x, out = normal(rows, columns).to(dtype), torch.empty(columns, rows, dtype=dtype)
    kind = str(dtype).removeprefix("torch.")
    return Row(
        f"transpose of {rows} x {columns} {kind}, tiles 32x64",
        turned,
        (-(-columns // 64), -(-rows // 32)),
        (x, out, 32, 64),
        (out,),
        lambda: (x.T,),
        {
            "torch": lambda: out.copy_(x.T),
            "NumPy": lambda: np.copyto(array(out), array(x).T),
        },
    )


def _i64() -> Row:
    x, out = integers(1000, 3000, 1000, dtype=torch.int64), torch.empty(1, 1000).long()
    return Row(
        "sums of columns, 3000 x 1000 int64, tiles 16x64",
        i64_sums,
        (16,),
        (x, out, 16, 64),
        (out,),
        lambda: (x.sum(0, keepdim=True),),
        {
            "torch": lambda: torch.sum(x, 0, keepdim=True, out=out),
            "NumPy": lambda: np.sum(array(x), 0, keepdims=True, out=array(out)),
        },
    )


def rows() -> list[Callable[[], Row]]:
    return [
        _groups,
        _masked,
        _channels,
        _gates,
        _seven,
        _segments,
        _outer,
        _count,
        lambda: _turned(1500, 1001, torch.float32),
        lambda: _turned(2001, 999, torch.int8),
        _i64,
    ]
