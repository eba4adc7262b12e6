"""Tile blocks that work on one result together: split products, sums of a whole array, persistent blocks, partial
sums; and kernels that do little but move memory, with several arrays in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import Row, array, compiled, integers, normal

_TILE = 1024
_LENGTH = 1 << 22


@ct.kernel
def momentum(p, g, m, rate: float, kept: float, tile: ct.Constant[int]):
    at = ct.bid(0)
    moved = kept * ct.load(m, (at,), (tile,)) + ct.load(g, (at,), (tile,))
    ct.store(m, (at,), moved)
    ct.store(p, (at,), ct.load(p, (at,), (tile,)) - rate * moved)


@ct.kernel
def butterfly(x, y, s, d, tile: ct.Constant[int]):
    at = ct.bid(0)
    a, b = ct.load(x, (at,), (tile,)), ct.load(y, (at,), (tile,))
    ct.store(s, (at,), a + b)
    ct.store(d, (at,), a - b)


@ct.kernel
def gated(x, gate, out, tile: ct.Constant[int]):
    at = ct.bid(0)
    a, b = ct.load(x, (at,), (tile,)), ct.load(gate, (at,), (tile,))
    ct.store(out, (at,), a * (b / (1.0 + ct.exp(-b))))


@ct.kernel
def narrowed(x, out, tile: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.astype(ct.load(x, (ct.bid(0),), (tile,)), ct.bfloat16))


@ct.kernel
def inner_product(x, y, out, tile: ct.Constant[int]):
    at = ct.bid(0)
    part = ct.sum(ct.load(x, (at,), (tile,)) * ct.load(y, (at,), (tile,)))
    ct.atomic_add(out, 0, part)


@ct.kernel
def extremes(x, out, tile: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0),), (tile,))
    ct.atomic_max(out, 0, ct.max(held))
    ct.atomic_min(out, 1, ct.min(held))


@ct.kernel
def count(numbers, bins, tile: ct.Constant[int]):
    ct.atomic_add(bins, ct.load(numbers, (ct.bid(0),), (tile,)), 1)


@ct.kernel
def split_product(
    a,
    b,
    c,
    rows: ct.Constant[int],
    columns: ct.Constant[int],
    inner: ct.Constant[int],
    rounds: ct.Constant[int],
):
    i, j, part = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((rows, columns), ct.float32)
    for step in range(rounds):
        k = part * rounds + step
        total = ct.mma(
            ct.load(a, (i, k), (rows, inner)), ct.load(b, (k, j), (inner, columns)), total
        )
    row = (i * rows + ct.arange(rows, dtype=ct.int32)).reshape((rows, 1))
    column = (j * columns + ct.arange(columns, dtype=ct.int32)).reshape((1, columns))
    ct.atomic_add(c, (row, column), total)


@ct.kernel
def locked_product(
    a,
    b,
    c,
    locks,
    rows: ct.Constant[int],
    columns: ct.Constant[int],
    inner: ct.Constant[int],
    rounds: ct.Constant[int],
    wide: ct.Constant[int],
):
    tile, part = ct.bid(0), ct.bid(1)
    i, j = tile // wide, tile % wide
    total = ct.zeros((rows, columns), ct.float32)
    for step in range(rounds):
        k = part * rounds + step
        total = ct.mma(
            ct.load(a, (i, k), (rows, inner)), ct.load(b, (k, j), (inner, columns)), total
        )
    while ct.atomic_cas(locks, tile, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) == 1:
        pass
    ct.store(c, (i, j), ct.load(c, (i, j), (rows, columns)) + total)
    ct.atomic_xchg(locks, tile, 0, memory_order=ct.MemoryOrder.RELEASE)


@ct.kernel
def persistent_softmax(x, out, taken, rows: ct.Constant[int], width: ct.Constant[int]):
    """Blocks take rows by a counter; the last one to find none left sets it back."""
    row = ct.atomic_add(taken, 0, 1)
    while row < rows:
        held = ct.load(x, (row, 0), (1, width))
        raised = ct.exp(held - ct.max(held, axis=1, keepdims=True))
        ct.store(out, (row, 0), raised / ct.sum(raised, axis=1, keepdims=True))
        row = ct.atomic_add(taken, 0, 1)
    if row == rows + ct.num_blocks(0) - 1:
        ct.atomic_xchg(taken, 0, 0)


@ct.kernel
def strided_softmax(x, out, rows: ct.Constant[int], width: ct.Constant[int]):
    for row in range(ct.bid(0), rows, ct.num_blocks(0)):
        held = ct.load(x, (row, 0), (1, width))
        raised = ct.exp(held - ct.max(held, axis=1, keepdims=True))
        ct.store(out, (row, 0), raised / ct.sum(raised, axis=1, keepdims=True))


@ct.kernel
def norm_backward(dy, x, weight, scale, dx, dw, rows: ct.Constant[int], width: ct.Constant[int]):
    """RMS norm: each block has some rows, and its part of the weight's gradient in a row of its own."""
    block = ct.bid(0)
    held_weight = ct.load(weight, (0, 0), (1, width))
    part = ct.zeros((1, width), ct.float32)
    for step in range(rows):
        row = block * rows + step
        gradient, held = ct.load(dy, (row, 0), (1, width)), ct.load(x, (row, 0), (1, width))
        by = ct.load(scale, (row,), (1,)).reshape((1, 1))
        normal_form, weighted = held * by, gradient * held_weight
        along = ct.sum(normal_form * weighted, axis=1, keepdims=True) / width
        ct.store(dx, (row, 0), (weighted - normal_form * along) * by)
        part = part + gradient * normal_form
    ct.store(dw, (block, 0), part)


@ct.kernel
def transposed(x, out, tile: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0), ct.bid(1)), (tile, tile))
    ct.store(out, (ct.bid(1), ct.bid(0)), ct.transpose(held))


@ct.kernel
def products(a, b, c, many: ct.Constant[int], size: ct.Constant[int]):
    at = ct.bid(0)
    left, right = (
        ct.load(a, (at, 0, 0), (many, size, size)),
        ct.load(b, (at, 0, 0), (many, size, size)),
    )
    ct.store(c, (at, 0, 0), ct.matmul(left, right))


@ct.kernel
def scatter_rows(tokens, gradients, table, many: ct.Constant[int], width: ct.Constant[int]):
    token = ct.load(tokens, (ct.bid(0),), (many,)).reshape((many, 1))
    columns = ct.arange(width, dtype=ct.int32).reshape((1, width))
    ct.atomic_add(table, (token, columns), ct.load(gradients, (ct.bid(0), 0), (many, width)))


@ct.kernel
def channel_moments(x, sums, squares, tile: ct.Constant[int]):
    image, channel = ct.bid(0), ct.bid(1)
    held = ct.load(x, (image, channel, 0), (1, 1, tile)).reshape((tile,))
    ct.atomic_add(sums, channel, ct.sum(held))
    ct.atomic_add(squares, channel, ct.sum(held * held))


Peers = dict[str, Callable[[], object]]


def _row(
    name: str,
    kernel: Any,
    grid: tuple[int, ...],
    arguments: tuple[Any, ...],
    outputs: tuple[torch.Tensor, ...],
    right: Callable[[], tuple[torch.Tensor, ...]],
    peers: Peers,
    bound: float = 1e-5,
    clear: Callable[[], object] = lambda: None,
) -> Row:
    return Row(name, kernel, grid, arguments, outputs, right, peers, bound=bound, clear=clear)


def _momentum() -> Row:
    start = [normal(_LENGTH), normal(_LENGTH + 1)[1:].contiguous(), normal(_LENGTH) * 0.1]
    ours, theirs = ([a.clone() for a in start] for _ in range(2))

    def step(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor) -> None:
        m.mul_(0.9).add_(g)
        p.sub_(m, alpha=1e-3)

    def right() -> tuple[torch.Tensor, ...]:
        made = [a.double() for a in start]
        step(*made)
        return made[0], made[2]

    peers = {"torch": lambda: step(*theirs), "torch.compile": compiled(step, *theirs)}
    arguments = (*ours, 1e-3, 0.9, _TILE)
    grid = (_LENGTH // _TILE,)
    return _row(
        "a step with momentum, 4M f32", momentum, grid, arguments, (ours[0], ours[2]), right, peers
    )


def _butterfly() -> Row:
    x, y = normal(_LENGTH), normal(_LENGTH + 1)[1:].contiguous()
    s, d, s2, d2 = (torch.empty_like(x) for _ in range(4))

    def theirs() -> None:
        torch.add(x, y, out=s2)
        torch.sub(x, y, out=d2)

    peers = {"torch": theirs, "torch.compile": compiled(lambda a, b: (a + b, a - b), x, y)}
    grid = (_LENGTH // _TILE,)
    right = lambda: (x + y, x - y)  # noqa: E731
    return _row(
        "x + y and x - y of 4M f32", butterfly, grid, (x, y, s, d, _TILE), (s, d), right, peers, 0.0
    )


def _gated() -> Row:
    x, gate = normal(_LENGTH), normal(_LENGTH + 1)[1:].contiguous()
    out = torch.empty_like(x)
    peers = {
        "torch": lambda: x * torch.nn.functional.silu(gate),
        "torch.compile": compiled(lambda a, b: a * torch.nn.functional.silu(b), x, gate),
    }
    right = lambda: (x.double() * torch.nn.functional.silu(gate.double()),)  # noqa: E731
    return _row(
        "x times silu of a gate, 4M f32",
        gated,
        (_LENGTH // _TILE,),
        (x, gate, out, _TILE),
        (out,),
        right,
        peers,
    )


def _narrowed() -> Row:
    x = normal(_LENGTH)
    out, other = (torch.empty(_LENGTH, dtype=torch.bfloat16) for _ in range(2))
    return _row(
        "4M f32 to bf16",
        narrowed,
        (_LENGTH // _TILE,),
        (x, out, _TILE),
        (out,),
        lambda: (x.bfloat16(),),
        {"torch": lambda: other.copy_(x)},
        0.0,
    )


def _inner_product() -> Row:
    x, y = normal(_LENGTH).abs(), normal(_LENGTH + 1)[1:].abs().contiguous()
    out = torch.zeros(1)
    peers: Peers = {"NumPy": lambda: np.dot(array(x), array(y)), "torch": lambda: torch.dot(x, y)}
    right = lambda: (torch.dot(x.double(), y.double()).reshape(1),)  # noqa: E731
    return _row(
        "inner product of 4M f32 by atomics",
        inner_product,
        (_LENGTH // 4096,),
        (x, y, out, 4096),
        (out,),
        right,
        peers,
        1e-4,
        out.zero_,
    )


def _extremes() -> Row:
    x, out = integers(1 << 30, _LENGTH), torch.zeros(2, dtype=torch.int32)
    peers: Peers = {
        "torch": lambda: torch.aminmax(x),
        "NumPy": lambda: (array(x).max(), array(x).min()),
    }
    right = lambda: (torch.stack([x.max(), x.min()]),)  # noqa: E731
    clear = lambda: out.copy_(torch.tensor([0, 1 << 30]))  # noqa: E731
    return _row(
        "extremes of 4M i32 by atomics",
        extremes,
        (_LENGTH // 4096,),
        (x, out, 4096),
        (out,),
        right,
        peers,
        0.0,
        clear,
    )


def _count() -> Row:
    numbers, out = integers(1000, _LENGTH, dtype=torch.int64), torch.zeros(1000, dtype=torch.int64)
    peers: Peers = {
        "torch": lambda: torch.bincount(numbers, minlength=1000),
        "NumPy": lambda: np.bincount(array(numbers), minlength=1000),
    }
    right = lambda: (torch.bincount(numbers, minlength=1000),)  # noqa: E731
    return _row(
        "histogram of 4M i64 into 1000 i64",
        count,
        (_LENGTH // _TILE,),
        (numbers, out, _TILE),
        (out,),
        right,
        peers,
        0.0,
        out.zero_,
    )


def _split(size: int, inner: int, splits: int) -> Row:
    a, b = normal(size, inner), normal(inner, size)
    c, theirs = torch.zeros(size, size), torch.empty(size, size)
    rounds = inner // 64 // splits
    peers: Peers = {
        "NumPy": lambda: np.matmul(array(a), array(b), out=array(theirs)),
        "torch": lambda: torch.mm(a, b, out=theirs),
    }
    right = lambda: ((a.double() @ b.double()),)  # noqa: E731
    return _row(
        f"product {size} x {inner} x {size}, {splits} parts added by atomics",
        split_product,
        (size // 64, size // 64, splits),
        (a, b, c, 64, 64, 64, rounds),
        (c,),
        right,
        peers,
        1e-4,
        c.zero_,
    )


def _locked(size: int, inner: int, splits: int) -> Row:
    a, b = normal(size, inner), normal(inner, size)
    c, theirs = torch.zeros(size, size), torch.empty(size, size)
    wide, rounds = size // 64, inner // 64 // splits
    locks = torch.zeros(wide * wide, dtype=torch.int32)
    peers: Peers = {
        "NumPy": lambda: np.matmul(array(a), array(b), out=array(theirs)),
        "torch": lambda: torch.mm(a, b, out=theirs),
    }
    right = lambda: ((a.double() @ b.double()),)  # noqa: E731
    return _row(
        f"product {size} x {inner} x {size}, {splits} parts added under locks",
        locked_product,
        (wide * wide, splits),
        (a, b, c, locks, 64, 64, 64, rounds, wide),
        (c,),
        right,
        peers,
        1e-4,
        c.zero_,
    )


def _persistent(rows: int, width: int) -> Row:
    x, out, taken = normal(rows, width), torch.empty(rows, width), torch.zeros(1, dtype=torch.int32)
    theirs = torch.empty_like(out)

    return _row(
        f"softmax by blocks that count rows, {rows} x {width} f32",
        persistent_softmax,
        (64,),
        (x, out, taken, rows, width),
        (out,),
        lambda: (x.double().softmax(1),),
        {"torch": lambda: torch.softmax(x, 1, out=theirs)},
        1e-5,
        taken.zero_,
    )


def _strided(rows: int, width: int) -> Row:
    x, out = normal(rows, width), torch.empty(rows, width)
    theirs = torch.empty_like(out)
    return _row(
        f"softmax by 64 blocks, {rows} x {width} f32",
        strided_softmax,
        (64,),
        (x, out, rows, width),
        (out,),
        lambda: (x.double().softmax(1),),
        {"torch": lambda: torch.softmax(x, 1, out=theirs)},
    )


def _norm_backward(rows: int, width: int, each: int) -> Row:
    dy, x, weight = (
        normal(rows, width),
        normal(rows + 1, width)[1:].contiguous(),
        torch.rand(1, width),
    )
    scale = torch.rsqrt((x * x).mean(1) + 1e-6)
    dx, dw = torch.empty_like(x), torch.empty(rows // each, width)

    def theirs(
        dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, s: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        form, weighted = x * s[:, None], dy * w
        along = (form * weighted).mean(1, keepdim=True)
        return (weighted - form * along) * s[:, None], (dy * form).sum(0)

    arguments = dy, x, weight, scale
    right = lambda: (theirs(*(a.double() for a in arguments))[0],)  # noqa: E731
    peers = {"torch": lambda: theirs(*arguments), "torch.compile": compiled(theirs, *arguments)}
    return _row(
        f"RMS norm backward by partial sums, {rows} x {width} f32",
        norm_backward,
        (rows // each,),
        (*arguments, dx, dw, each, width),
        (dx,),
        right,
        peers,
    )


def _transposed(rows: int, columns: int, tile: int, dtype: torch.dtype) -> Row:
    x = normal(rows, columns, dtype=dtype)
    out, theirs = (torch.empty(columns, rows, dtype=dtype) for _ in range(2))
    kind = str(dtype).removeprefix("torch.")
    return _row(
        f"transpose of {rows} x {columns} {kind}, tiles {tile}",
        transposed,
        (rows // tile, columns // tile),
        (x, out, tile),
        (out,),
        lambda: (x.T,),
        {"torch": lambda: theirs.copy_(x.T)},
        0.0,
    )


def _products(count: int, many: int, size: int) -> Row:
    a, b = normal(count, size, size), normal(count, size, size)
    c, theirs = torch.empty(count, size, size), torch.empty(count, size, size)
    return _row(
        f"{count} products {size}^3 f32, {many} for each block",
        products,
        (count // many,),
        (a, b, c, many, size),
        (c,),
        lambda: (a.double() @ b.double(),),
        {"torch": lambda: torch.bmm(a, b, out=theirs)},
    )


def _scatter_rows(tokens: int, width: int, size: int) -> Row:
    exponents = torch.rand(tokens, generator=torch.Generator().manual_seed(0))
    places = (size**exponents - 1).to(torch.int32).clamp(0, size - 1)
    values, wide = normal(tokens, width), places.long()
    out, theirs = torch.zeros(size, width), torch.zeros(size, width)

    def right() -> tuple[torch.Tensor, ...]:
        return (torch.zeros(size, width, dtype=torch.float64).index_add_(0, wide, values.double()),)

    return _row(
        f"{tokens} rows of {width} f32 added to {size}, most to a few",
        scatter_rows,
        (tokens // 16,),
        (places, values, out, 16, width),
        (out,),
        right,
        {"torch": lambda: theirs.index_add_(0, wide, values)},
        1e-4,
        out.zero_,
    )


def _channels() -> Row:
    x = normal(32, 64, 1024)
    sums, squares = torch.zeros(64), torch.zeros(64)

    def theirs(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a.sum((0, 2)), (a * a).sum((0, 2))

    def clear() -> None:
        sums.zero_()
        squares.zero_()

    return _row(
        "moments of 64 channels of 32 x 1024 f32 by atomics",
        channel_moments,
        (32, 64),
        (x, sums, squares, 1024),
        (sums, squares),
        lambda: theirs(x.double()),
        {"torch": lambda: theirs(x), "torch.compile": compiled(theirs, x)},
        1e-3,
        clear,
    )


def rows() -> list[Callable[[], Row]]:
    return [
        _momentum,
        _butterfly,
        _gated,
        _narrowed,
        _inner_product,
        _extremes,
        _count,
        lambda: _split(256, 8192, 16),
        lambda: _split(512, 4096, 4),
        lambda: _locked(256, 8192, 16),
        lambda: _persistent(4096, 1024),
        lambda: _strided(4096, 1024),
        lambda: _norm_backward(4096, 1024, 64),
        lambda: _transposed(2048, 2048, 64, torch.float32),
        lambda: _transposed(4096, 1024, 32, torch.float16),
        lambda: _products(4096, 4, 16),
        lambda: _scatter_rows(8192, 128, 4096),
        lambda: _scatter_rows(8192, 256, 32768),
        _channels,
    ]
