"""Products as layers of models have them: weights by rows, turned operands, what follows in the same kernel, batches of
heads, bf16 and f16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import torch

from benchmarks.unseen_rows import Row, normal

_ZERO = ct.PaddingMode.ZERO


@ct.kernel
def layer(x, weights, bias, out, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int]):
    """relu(x weights.T + bias): the weights have a row for each output."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(x, 1, (tm, tk))):
        left = ct.load(x, (i, k), (tm, tk), padding_mode=_ZERO)
        right = ct.load(weights, (j, k), (tn, tk), padding_mode=_ZERO)
        total = ct.mma(left, ct.transpose(right), total)
    total = total + ct.astype(ct.load(bias, (j,), (tn,), padding_mode=_ZERO), ct.float32)[None, :]
    ct.store(out, (i, j), ct.astype(ct.maximum(total, 0.0), out.dtype))


@ct.kernel
def gradient(x, y, out, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int]):
    """x.T y, as for the weights of a layer."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(x, 0, (tk, tm))):
        left = ct.load(x, (k, i), (tk, tm), padding_mode=_ZERO)
        right = ct.load(y, (k, j), (tk, tn), padding_mode=_ZERO)
        total = ct.mma(ct.transpose(left), right, total)
    ct.store(out, (i, j), ct.astype(total, out.dtype))


@ct.kernel
def product(a, b, out, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int]):
    """One number of a block for both axes, in bands of eight rows of blocks, as GPUs like it."""
    columns = ct.num_tiles(b, 1, (tk, tn))
    inside = ct.bid(0) % (8 * columns)
    i, j = ct.bid(0) // (8 * columns) * 8 + inside % 8, inside // 8
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (i, k), (tm, tk), padding_mode=_ZERO)
        right = ct.load(b, (k, j), (tk, tn), padding_mode=_ZERO)
        total = ct.mma(left, right, total)
    ct.store(out, (i, j), ct.astype(total, out.dtype))


@ct.kernel
def plain(a, b, out, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (i, k), (tm, tk), padding_mode=_ZERO)
        right = ct.load(b, (k, j), (tk, tn), padding_mode=_ZERO)
        total = ct.mma(left, right, total)
    ct.store(out, (i, j), ct.astype(total, out.dtype))


@ct.kernel
def scores(q, k, out, rows: ct.Constant[int], columns: ct.Constant[int], width: ct.Constant[int]):
    """q k.T of each head, in one step."""
    head, i, j = ct.bid(2), ct.bid(0), ct.bid(1)
    left = ct.load(q, (head, i, 0), (1, rows, width)).reshape((rows, width))
    right = ct.load(k, (head, j, 0), (1, columns, width)).reshape((columns, width))
    total = ct.mma(left, ct.transpose(right), ct.zeros((rows, columns), ct.float32))
    ct.store(out, (head, i, j), ct.astype(total, out.dtype).reshape((1, rows, columns)))


@ct.kernel
def small(a, b, out, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    p = ct.bid(0)
    left = ct.load(a, (p, 0, 0), (1, m, k), padding_mode=_ZERO).reshape((m, k))
    right = ct.load(b, (p, 0, 0), (1, k, n), padding_mode=_ZERO).reshape((k, n))
    total = ct.mma(left, right, ct.zeros((m, n), ct.float32))
    ct.store(out, (p, 0, 0), ct.astype(total, out.dtype).reshape((1, m, n)))


def _kind(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _bound(dtype: torch.dtype) -> float:
    return 1e-5 if dtype == torch.float32 else 1e-2


def _layer(m: int, n: int, k: int, tile: tuple[int, int, int], dtype: torch.dtype) -> Row:
    x, weights, bias = normal(m, k, dtype=dtype), normal(n, k, dtype=dtype), normal(n, dtype=dtype)
    out = torch.empty(m, n, dtype=dtype)
    functional = torch.nn.functional
    return Row(
        f"layer {m} x {n} x {k} {_kind(dtype)}, tiles {'x'.join(map(str, tile))}",
        layer,
        (-(-m // tile[0]), -(-n // tile[1])),
        (x, weights, bias, out, *tile),
        (out,),
        lambda: (functional.linear(x.double(), weights.double(), bias.double()).relu(),),
        {"torch": lambda: functional.linear(x, weights, bias).relu_()},
        bound=_bound(dtype),
    )


def _product(
    name: str,
    kernel: Any,
    dims: tuple[int, int, int],
    tile: tuple[int, int, int],
    dtype: torch.dtype,
    *,
    turned: bool = False,
    flat: bool = False,
) -> Row:
    m, n, k = dims
    a, b = normal(*((k, m) if turned else (m, k)), dtype=dtype), normal(k, n, dtype=dtype)
    left, out = a.T if turned else a, torch.empty(m, n, dtype=dtype)
    blocks, other = (-(-m // tile[0]), -(-n // tile[1])), torch.empty_like(out)
    return Row(
        f"{name} {m} x {n} x {k} {_kind(dtype)}, tiles {'x'.join(map(str, tile))}",
        kernel,
        (blocks[0] * blocks[1],) if flat else blocks,
        (a, b, out, *tile),
        (out,),
        lambda: (left.double() @ b.double(),),
        {"torch": lambda: torch.matmul(left, b, out=other)},
        bound=_bound(dtype),
    )


def _scores(dtype: torch.dtype) -> Row:
    q, k = normal(16, 512, 64, dtype=dtype), normal(16, 512, 64, dtype=dtype)
    out = torch.empty(16, 512, 512, dtype=dtype)
    other = torch.empty_like(out)
    return Row(
        f"scores of 16 heads, 512 x 512 x 64 {_kind(dtype)}",
        scores,
        (8, 4, 16),
        (q, k, out, 64, 128, 64),
        (out,),
        lambda: (q.double() @ k.double().mT,),
        {"torch": lambda: torch.matmul(q, k.mT, out=other)},
        bound=_bound(dtype),
    )


def _small(count: int, dims: tuple[int, int, int], dtype: torch.dtype) -> Row:
    m, n, k = dims
    a, b = normal(count, m, k, dtype=dtype), normal(count, k, n, dtype=dtype)
    out = torch.empty(count, m, n, dtype=dtype)
    other = torch.empty_like(out)
    tile = [1 << (extent - 1).bit_length() for extent in dims]
    return Row(
        f"{count} products {m} x {n} x {k} {_kind(dtype)} in one step",
        small,
        (count,),
        (a, b, out, *tile),
        (out,),
        lambda: (a.double() @ b.double(),),
        {"torch": lambda: torch.bmm(a, b, out=other)},
        bound=_bound(dtype),
    )


def rows() -> list[Callable[[], Row]]:
    """The rows of this module."""
    f32, bf16, f16 = torch.float32, torch.bfloat16, torch.float16
    return [
        lambda: _product("product", plain, (1024, 1024, 1024), (128, 128, 32), f32),
        lambda: _product("product", plain, (1024, 1024, 1024), (64, 64, 64), bf16),
        lambda: _product("product", plain, (2048, 1024, 512), (128, 256, 64), bf16),
        lambda: _product("product", plain, (512, 2048, 2048), (128, 128, 32), bf16),
        lambda: _product("product", plain, (1000, 900, 800), (128, 128, 64), bf16),
        lambda: _product("product", plain, (1024, 1024, 512), (64, 128, 32), f16),
        lambda: _product(
            "banded product", product, (2048, 1024, 1024), (128, 128, 64), bf16, flat=True
        ),
        lambda: _product(
            "banded product", product, (1024, 1024, 1024), (128, 64, 32), f32, flat=True
        ),
        lambda: _layer(512, 1024, 1024, (64, 64, 32), f32),
        lambda: _layer(512, 2048, 1024, (128, 128, 64), bf16),
        lambda: _layer(256, 1024, 768, (64, 128, 64), f16),
        lambda: _layer(300, 700, 500, (64, 64, 64), bf16),
        lambda: _product("gradient", gradient, (768, 1024, 512), (64, 64, 32), f32, turned=True),
        lambda: _product(
            "gradient", gradient, (1024, 1024, 1024), (128, 128, 64), bf16, turned=True
        ),
        lambda: _scores(f32),
        lambda: _scores(bf16),
        lambda: _small(1024, (32, 32, 32), bf16),
        lambda: _small(1024, (64, 64, 64), f16),
        lambda: _small(2048, (24, 24, 24), f32),
        lambda: _small(512, (50, 40, 60), f32),
        lambda: _small(512, (100, 20, 100), f32),
    ]
