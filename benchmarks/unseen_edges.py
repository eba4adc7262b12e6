"""Tiles that are not whole, numbers of 8 and 16 bits, masks by minus infinity: what models are made of."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch
import torch.nn.functional as functional

from benchmarks.unseen_rows import Row, array, compiled, integers, normal

_ZERO, _LOWEST = ct.PaddingMode.ZERO, ct.PaddingMode.NEG_INF


@ct.kernel
def scaled_sum(x, y, out, tile: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (tile,)) * 2.5 + ct.load(y, (i,), (tile,)))


@ct.kernel
def softmax_backward(y, dy, dx, rows: ct.Constant[int], width: ct.Constant[int]):
    i = ct.bid(0)
    held = ct.load(y, (i, 0), (rows, width), padding_mode=_ZERO)
    gradient = ct.load(dy, (i, 0), (rows, width), padding_mode=_ZERO)
    total = ct.sum(held * gradient, axis=1, keepdims=True)
    ct.store(dx, (i, 0), held * (gradient - total))


@ct.kernel
def rotary(x, cos, sin, out, heads: ct.Constant[int], half: ct.Constant[int]):
    at, n = ct.bid(0), ct.bid(1)
    c = ct.load(cos, (at, 0), (1, half)).reshape((1, 1, half))
    s = ct.load(sin, (at, 0), (1, half)).reshape((1, 1, half))
    a = ct.load(x, (at, n, 0), (1, heads, half))
    b = ct.load(x, (at, n, 1), (1, heads, half))
    ct.store(out, (at, n, 0), a * c - b * s)
    ct.store(out, (at, n, 1), b * c + a * s)


@ct.kernel
def cross_entropy(x, targets, out, width: ct.Constant[int]):
    i = ct.bid(0)
    held = ct.load(x, (i, 0), (1, width), padding_mode=_LOWEST)
    most = ct.max(held, axis=1)
    total = ct.log(ct.sum(ct.exp(held - most.reshape((1, 1))), axis=1)) + most
    here = ct.full((1,), 1, ct.int32) * i
    ct.store(out, (i,), total - ct.gather(x, (here, ct.load(targets, (i,), (1,)))))


@ct.kernel
def causal_softmax(x, out, width: ct.Constant[int]):
    i = ct.bid(0)
    columns = ct.arange(width, dtype=ct.int32).reshape((1, width))
    held = ct.where(columns <= i, ct.load(x, (i, 0), (1, width)) * 0.125, -float("inf"))
    power = ct.exp(held - ct.max(held, axis=1, keepdims=True))
    ct.store(out, (i, 0), power / ct.sum(power, axis=1, keepdims=True))


@ct.kernel
def row_dots(x, y, out, rows: ct.Constant[int], width: ct.Constant[int]):
    i = ct.bid(0)
    product = ct.load(x, (i, 0), (rows, width)) * ct.load(y, (i, 0), (rows, width))
    ct.store(out, (i,), ct.sum(product, axis=1))


@ct.kernel
def embedding(tokens, table, out, rows: ct.Constant[int], width: ct.Constant[int]):
    i = ct.bid(0)
    row = ct.load(tokens, (i,), (rows,)).reshape((rows, 1))
    columns = ct.arange(width, dtype=ct.int32).reshape((1, width))
    ct.store(out, (i, 0), ct.gather(table, (row, columns)))


@ct.kernel
def running_sums(x, out, width: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, (i, 0), ct.cumsum(ct.load(x, (i, 0), (1, width)), axis=1))


@ct.kernel
def running_sums_down(x, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    j = ct.bid(0)
    before = ct.zeros((1, columns), x.dtype)
    for i in range(ct.num_tiles(x, 0, (rows, columns))):
        held = ct.load(x, (i, j), (rows, columns), padding_mode=_ZERO)
        found = ct.cumsum(held, axis=0) + before
        ct.store(out, (i, j), found)
        before = ct.extract(found, (rows - 1, 0), (1, columns))


@ct.kernel
def transposed_times_vector(a, x, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    j = ct.bid(0)
    total = ct.zeros((rows, columns), ct.float32)
    for i in range(ct.num_tiles(a, 0, (rows, columns))):
        weight = ct.load(x, (i,), (rows,), padding_mode=_ZERO).reshape((rows, 1))
        total += ct.load(a, (i, j), (rows, columns), padding_mode=_ZERO) * weight
    ct.store(out, (j,), ct.sum(total, axis=0))


@ct.kernel
def complex_products(x, y, out, tile: ct.Constant[int]):
    i = ct.bid(0)
    a, b = ct.load(x, (i, 0), (tile, 1)), ct.load(x, (i, 1), (tile, 1))
    c, d = ct.load(y, (i, 0), (tile, 1)), ct.load(y, (i, 1), (tile, 1))
    ct.store(out, (i, 0), a * c - b * d)
    ct.store(out, (i, 1), a * d + b * c)


@ct.kernel
def blend(a, b, weight, out, tile: ct.Constant[int]):
    i = ct.bid(0)
    x = ct.astype(ct.load(a, (i,), (tile,)), ct.int16)
    y = ct.astype(ct.load(b, (i,), (tile,)), ct.int16)
    w = ct.astype(ct.load(weight, (i,), (tile,)), ct.int16)
    ct.store(out, (i,), ct.astype(y + (((x - y) * w) >> 8), ct.uint8))


def _kind(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _scaled_sum() -> Row:
    count = 4_000_000
    x, y = normal(count).bfloat16(), normal(count + 1)[:count].bfloat16()
    out = torch.empty_like(x)
    return Row(
        "2.5 x + y of 4M bfloat16",
        scaled_sum,
        (-(-count // 1024),),
        (x, y, out, 1024),
        (out,),
        lambda: (x.double() * 2.5 + y.double(),),
        {
            "torch": lambda: torch.add(y, x, alpha=2.5, out=out),
            "torch.compile": compiled(lambda a, b: a * 2.5 + b, x, y),
        },
        bound=1e-2,
    )


def _backward(dtype: torch.dtype, rows: int, bound: float) -> Row:
    y, dy = torch.softmax(normal(4000, 1000), 1).to(dtype), normal(4000, 1000).to(dtype)
    out = torch.empty_like(y)

    def theirs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * (b - (a * b).sum(1, keepdim=True))

    return Row(
        f"softmax backward, 4000 x 1000 {_kind(dtype)}, tiles {rows}x1024",
        softmax_backward,
        (4000 // rows,),
        (y, dy, out, rows, 1024),
        (out,),
        lambda: (theirs(y.double(), dy.double()),),
        {
            "torch": lambda: torch._softmax_backward_data(dy, y, 1, dtype),
            "torch.compile": compiled(theirs, y, dy),
        },
        bound=bound,
    )


def _rotary() -> Row:
    rows, heads, half = 2048, 16, 64
    x, angle = normal(rows, heads, 2 * half).bfloat16(), normal(rows, half)
    cos, sin, out = angle.cos().bfloat16(), angle.sin().bfloat16(), torch.empty_like(x)

    def theirs(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        a, b, c, s = x[..., :half], x[..., half:], cos[:, None], sin[:, None]
        return torch.cat((a * c - b * s, b * c + a * s), -1)

    return Row(
        "rotations of halves, 2048 x 16 x 128 bfloat16",
        rotary,
        (rows, 1),
        (x, cos, sin, out, heads, half),
        (out,),
        lambda: (theirs(x.double(), cos.double(), sin.double()),),
        {
            "torch": lambda: theirs(x, cos, sin),
            "torch.compile": compiled(theirs, x, cos, sin),
        },
        bound=3e-2,
    )


def _cross_entropy() -> Row:
    x, targets, out = normal(1500, 3000), integers(3000, 1500), torch.empty(1500)
    wide = targets.long()
    return Row(
        "cross entropy, 1500 x 3000 f32, rows of 4096",
        cross_entropy,
        (1500,),
        (x, targets, out, 4096),
        (out,),
        lambda: (functional.cross_entropy(x.double(), wide, reduction="none"),),
        {"torch": lambda: functional.cross_entropy(x, wide, reduction="none")},
        bound=1e-4,
    )


def _causal_softmax() -> Row:
    x, out = normal(1024, 1024), torch.empty(1024, 1024)
    above = torch.ones(1024, 1024, dtype=torch.bool).triu(1)

    def theirs(a: torch.Tensor) -> torch.Tensor:
        return torch.softmax((a * 0.125).masked_fill(above, -float("inf")), 1)

    return Row(
        "causal softmax, 1024 x 1024 f32",
        causal_softmax,
        (1024,),
        (x, out, 1024),
        (out,),
        lambda: (theirs(x.double()),),
        {"torch": lambda: theirs(x), "torch.compile": compiled(theirs, x)},
        bound=1e-5,
    )


def _row_dots() -> Row:
    x, y, out = normal(8192, 300), normal(8192, 300) + 1, torch.empty(8192)
    return Row(
        "dot products of rows, 8192 x 300 f32, tiles 8x512",
        row_dots,
        (1024,),
        (x, y, out, 8, 512),
        (out,),
        lambda: ((x.double() * y.double()).sum(1),),
        {
            "torch": lambda: torch.einsum("ij,ij->i", x, y),
            "torch.compile": compiled(lambda a, b: (a * b).sum(1), x, y),
            "NumPy": lambda: np.einsum("ij,ij->i", array(x), array(y)),
        },
        bound=1e-4,
    )


def _embedding() -> Row:
    table, tokens = normal(5000, 300).bfloat16(), integers(5000, 6000)
    out, wide = torch.empty(6000, 300).bfloat16(), tokens.long()
    return Row(
        "6000 rows of 300 bfloat16 by number, tiles 4x512",
        embedding,
        (1500,),
        (tokens, table, out, 4, 512),
        (out,),
        lambda: (table[wide],),
        {"torch": lambda: torch.index_select(table, 0, wide, out=out)},
    )


def _running(rows: int, columns: int, dtype: torch.dtype) -> Row:
    x = normal(rows, columns, dtype=dtype)
    out = torch.empty_like(x)
    return Row(
        f"running sums of rows, {rows} x {columns} {_kind(dtype)}",
        running_sums,
        (rows,),
        (x, out, 1024),
        (out,),
        lambda: (x.double().cumsum(1),),
        {
            "NumPy": lambda: np.cumsum(array(x), 1, out=array(out)),
            "torch": lambda: torch.cumsum(x, 1, out=out),
        },
        bound=1e-5,
    )


def _running_down() -> Row:
    x, out = normal(2000, 1000), torch.empty(2000, 1000)
    return Row(
        "running sums of columns, 2000 x 1000 f32, tiles 32x64",
        running_sums_down,
        (-(-1000 // 64),),
        (x, out, 32, 64),
        (out,),
        lambda: (x.double().cumsum(0),),
        {
            "NumPy": lambda: np.cumsum(array(x), 0, out=array(out)),
            "torch": lambda: torch.cumsum(x, 0, out=out),
        },
        bound=1e-5,
    )


def _transposed() -> Row:
    a, x, out = normal(2000, 1500), normal(2000), torch.empty(1500)
    return Row(
        "transposed matrix times vector, 2000 x 1500 f32, sums of tiles 16x128",
        transposed_times_vector,
        (-(-1500 // 128),),
        (a, x, out, 16, 128),
        (out,),
        lambda: (a.double().T @ x.double(),),
        {
            "torch": lambda: torch.mv(a.T, x, out=out),
            "NumPy": lambda: np.matmul(array(a).T, array(x), out=array(out)),
        },
        bound=1e-4,
    )


def _complex() -> Row:
    count = 1_000_000
    x, y = normal(count, 2), normal(count, 2) + 1
    out, other = torch.empty_like(x), torch.view_as_complex(torch.empty_like(x))
    a, b = torch.view_as_complex(x), torch.view_as_complex(y)
    return Row(
        "products of 1M complex numbers, interleaved f32",
        complex_products,
        (-(-count // 512),),
        (x, y, out, 512),
        (out,),
        lambda: (torch.view_as_real(a.to(torch.complex128) * b),),
        {
            "torch": lambda: torch.mul(a, b, out=other),
            "NumPy": lambda: np.multiply(array(a), array(b), out=array(other)),
        },
        bound=1e-5,
    )


def _blend() -> Row:
    count = 4_000_003
    a, b, weight = (integers(top, count).to(torch.uint8) for top in (255, 256, 127))
    out = torch.empty_like(a)

    def theirs(a: torch.Tensor, b: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        x, y, w = (each.to(torch.int16) for each in (a, b, weight))
        return (y + (((x - y) * w) >> 8)).to(torch.uint8)

    return Row(
        "4M u8 blended by u8",
        blend,
        (-(-count // 4096),),
        (a, b, weight, out, 4096),
        (out,),
        lambda: (theirs(a, b, weight),),
        {
            "torch": lambda: theirs(a, b, weight),
            "torch.compile": compiled(theirs, a, b, weight),
        },
    )


def rows() -> list[Callable[[], Row]]:
    return [
        _scaled_sum,
        lambda: _backward(torch.float32, 2, 1e-5),
        lambda: _backward(torch.bfloat16, 1, 5e-2),
        _rotary,
        _cross_entropy,
        _causal_softmax,
        _row_dots,
        _embedding,
        lambda: _running(4096, 1000, torch.float32),
        lambda: _running(2048, 777, torch.float64),
        _running_down,
        _transposed,
        _complex,
        _blend,
    ]
