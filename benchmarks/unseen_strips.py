"""Tiles that are short pieces of long rows: matrices in small tiles, strips of columns, rows in a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import Job, Row, array, normal


@ct.kernel
def add(x, y, out, tm: ct.Constant[int], tn: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (i, j), ct.load(x, (i, j), (tm, tn)) + ct.load(y, (i, j), (tm, tn)))


@ct.kernel
def permute(x, out, tb: ct.Constant[int], tc: ct.Constant[int]):
    i, j, k = ct.bid(0), ct.bid(1), ct.bid(2)
    ct.store(out, (j, i, k), ct.load(x, (i, j, k), (1, tb, tc)).permute((1, 0, 2)))


@ct.kernel
def times_vector(a, x, out, tm: ct.Constant[int], tk: ct.Constant[int]):
    i = ct.bid(0)
    total = ct.zeros((tm,), dtype=a.dtype)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        row = ct.load(x, (k,), (tk,)).reshape((1, tk))
        total = total + ct.sum(ct.load(a, (i, k), (tm, tk)) * row, axis=1)
    ct.store(out, (i,), total)


@ct.kernel
def largest_of_columns(a, out, tk: ct.Constant[int], tn: ct.Constant[int]):
    j = ct.bid(0)
    most = ct.full((tn,), -1e30, dtype=a.dtype)
    for k in range(ct.num_tiles(a, 0, (tk, tn))):
        most = ct.maximum(most, ct.max(ct.load(a, (k, j), (tk, tn)), axis=0))
    ct.store(out, (j,), most)


@ct.kernel
def sums_of_columns(a, out, tk: ct.Constant[int], tn: ct.Constant[int]):
    j = ct.bid(0)
    total = ct.zeros((tn,), dtype=out.dtype)
    for k in range(ct.num_tiles(a, 0, (tk, tn))):
        total = total + ct.sum(ct.astype(ct.load(a, (k, j), (tk, tn)), out.dtype), axis=0)
    ct.store(out, (j,), total)


@ct.kernel
def sums_of_tiles(a, out, tk: ct.Constant[int], tn: ct.Constant[int]):
    j = ct.bid(0)
    total = ct.zeros((tk, tn), dtype=out.dtype)
    for k in range(ct.num_tiles(a, 0, (tk, tn))):
        total = total + ct.astype(ct.load(a, (k, j), (tk, tn)), out.dtype)
    ct.store(out, (j,), ct.sum(total, axis=0))


@ct.kernel
def sums_of_strips(a, out, tk: ct.Constant[int], tn: ct.Constant[int]):
    held = ct.astype(ct.load(a, (0, ct.bid(0)), (tk, tn)), out.dtype)
    ct.store(out, (ct.bid(0),), ct.sum(held, axis=0))


def _kind(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _add(tile: tuple[int, int], dtype: torch.dtype) -> Row:
    size = 2048
    x, y = normal(size, size, dtype=dtype), normal(size, size, dtype=dtype)
    out = torch.empty_like(x)
    return Row(
        f"x + y of {size} x {size} {_kind(dtype)}, tiles {'x'.join(map(str, tile))}",
        add,
        (size // tile[0], size // tile[1]),
        (x, y, out, *tile),
        (out,),
        lambda: (x + y,),
        {
            "NumPy": lambda: np.add(array(x), array(y), out=array(out)),
            "torch": lambda: torch.add(x, y, out=out),
        },
    )


def _permute() -> Row:
    x, out = normal(64, 64, 1024), torch.empty(64, 64, 1024)
    return Row(
        "two axes of 64 x 64 x 1024 exchanged, tiles 1x8x256",
        permute,
        (64, 8, 4),
        (x, out, 8, 256),
        (out,),
        lambda: (x.permute(1, 0, 2),),
        {"torch": lambda: out.copy_(x.permute(1, 0, 2))},
    )


def _times_vector(tile: tuple[int, int]) -> Row:
    a, x, out = normal(4096, 4096), normal(4096), torch.empty(4096)
    return Row(
        f"4096 x 4096 float32 times a vector, tiles {'x'.join(map(str, tile))}",
        times_vector,
        (4096 // tile[0],),
        (a, x, out, *tile),
        (out,),
        lambda: (a.double() @ x.double(),),
        {
            "NumPy": lambda: np.matmul(array(a), array(x), out=array(out)),
            "torch": lambda: torch.mv(a, x, out=out),
        },
        bound=1e-5,
    )


def _largest(tile: tuple[int, int], dtype: torch.dtype) -> Row:
    a, out = normal(4096, 4096, dtype=dtype), torch.empty(4096, dtype=dtype)
    return Row(
        f"maxima of columns, 4096 x 4096 {_kind(dtype)}, tiles {'x'.join(map(str, tile))}",
        largest_of_columns,
        (4096 // tile[1],),
        (a, out, *tile),
        (out,),
        lambda: (a.amax(0),),
        {
            "NumPy": lambda: np.max(array(a), 0, out=array(out)),
            "torch": lambda: torch.amax(a, 0, out=out),
        },
    )


def _sums(kernel: Any, rows: int, columns: int, tile: tuple[int, int], dtype: torch.dtype) -> Row:
    kind = torch.float64 if dtype == torch.float64 else torch.float32
    a, out = normal(rows, columns, dtype=dtype), torch.empty(columns, dtype=kind)
    name = {sums_of_columns: "in a loop", sums_of_tiles: "by a tile", sums_of_strips: "at once"}
    peers: dict[str, Job] = {"torch": lambda: torch.sum(a, 0, dtype=kind, out=out)}
    if dtype == kind:
        peers["NumPy"] = lambda: np.sum(array(a), 0, out=array(out))
    size = f"{rows} x {columns} {_kind(dtype)}, tiles {'x'.join(map(str, tile))}"
    return Row(
        f"sums of columns {name[kernel]}, {size}",
        kernel,
        (columns // tile[1],),
        (a, out, *tile),
        (out,),
        lambda: (a.double().sum(0),),
        peers,
        bound=1e-5,
    )


def rows() -> list[Callable[[], Row]]:
    f16, f32, f64 = torch.float16, torch.float32, torch.float64
    return [
        lambda: _add((32, 32), f32),
        lambda: _add((16, 256), f32),
        lambda: _add((64, 64), f16),
        lambda: _add((32, 32), f64),
        _permute,
        lambda: _times_vector((1, 1024)),
        lambda: _times_vector((16, 256)),
        lambda: _largest((64, 64), f32),
        lambda: _largest((64, 512), f64),
        lambda: _sums(sums_of_columns, 4096, 4096, (64, 64), f32),
        lambda: _sums(sums_of_columns, 4096, 1024, (128, 32), f32),
        lambda: _sums(sums_of_columns, 4096, 1024, (32, 128), f16),
        lambda: _sums(sums_of_tiles, 4096, 4096, (32, 128), f32),
        lambda: _sums(sums_of_tiles, 2048, 2048, (64, 128), f64),
        lambda: _sums(sums_of_strips, 4096, 1024, (4096, 16), f32),
        lambda: _sums(sums_of_strips, 1024, 4096, (1024, 64), f32),
    ]
