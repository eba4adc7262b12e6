"""Reductions that carry an index, and what is built on them."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import Row, array, integers, normal

_ROWS = 4096


@ct.kernel
def argmax_rows(x, out, width: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0), 0), (1, width))
    ct.store(out, (ct.bid(0),), ct.argmax(held, axis=1))


@ct.kernel
def argmin_rows(x, out, width: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0), 0), (1, width))
    ct.store(out, (ct.bid(0),), ct.argmin(held, axis=1))


@ct.kernel
def argmax_columns(x, out, height: ct.Constant[int], width: ct.Constant[int]):
    held = ct.load(x, (0, ct.bid(0)), (height, width))
    ct.store(out, (ct.bid(0),), ct.argmax(held, axis=0))


@ct.kernel
def top_k(x, values, places, width: ct.Constant[int], k: ct.Constant[int]):
    row = ct.bid(0)
    held = ct.load(x, (row, 0), (1, width)).reshape((width,))
    columns = ct.arange(width, dtype=ct.int32)
    for i in range(k):
        place = ct.argmax(held, axis=0)
        ct.scatter(values, (row, i), ct.max(held, axis=0))
        ct.scatter(places, (row, i), place)
        held = ct.where(columns == place, float("-inf"), held)


def _later(v, i, w, j):
    wins = (v > w) | ((v == w) & (i < j))
    return ct.where(wins, v, w), ct.where(wins, i, j)


@ct.kernel
def largest_with_place(x, values, places, width: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0), 0), (1, width)).reshape((width,))
    columns = ct.arange(width, dtype=ct.int32)
    value, place = ct.reduce((held, columns), 0, _later, (float("-inf"), 2147483647))
    ct.scatter(values, ct.bid(0), value)
    ct.scatter(places, ct.bid(0), place)


def _rows(kernel: object, dtype: torch.dtype, width: int) -> Row:
    x = integers(1 << 30, _ROWS, width) if dtype == torch.int32 else normal(_ROWS, width).to(dtype)
    out = torch.empty(_ROWS, dtype=torch.int32)
    which = "argmax" if kernel is argmax_rows else "argmin"
    theirs = getattr(torch, which)
    kind = str(dtype).removeprefix("torch.")
    return Row(
        f"{which} of rows, {_ROWS} x {width} {kind}",
        kernel,
        (_ROWS,),
        (x, out, width),
        (out,),
        lambda: (torch.from_numpy(getattr(np, which)(array(x), 1)),),
        {"NumPy": lambda: getattr(array(x), which)(1), "torch": lambda: theirs(x, 1)},
    )


def _columns() -> Row:
    x, out = normal(1024, 4096), torch.empty(4096, dtype=torch.int32)
    return Row(
        "argmax of columns, 1024 x 4096 f32",
        argmax_columns,
        (4096 // 64,),
        (x, out, 1024, 64),
        (out,),
        lambda: (x.argmax(0),),
        {"NumPy": lambda: array(x).argmax(0), "torch": lambda: x.argmax(0)},
    )


def _top() -> Row:
    x, k, width = normal(2048, 1024), 4, 1024
    values, places = torch.empty(2048, k), torch.empty(2048, k, dtype=torch.int32)
    return Row(
        "the 4 largest of rows, 2048 x 1024 f32",
        top_k,
        (2048,),
        (x, values, places, width, k),
        (values, places),
        lambda: tuple(torch.topk(x, k)),
        {"torch": lambda: torch.topk(x, k)},
    )


def _own() -> Row:
    x, width = normal(_ROWS, 1024), 1024
    values, places = torch.empty(_ROWS), torch.empty(_ROWS, dtype=torch.int32)
    return Row(
        "maximum with its place, own comparator, 4096 x 1024 f32",
        largest_with_place,
        (_ROWS,),
        (x, values, places, width),
        (values, places),
        lambda: tuple(x.max(1)),
        {"torch": lambda: x.max(1), "NumPy": lambda: array(x).argmax(1)},
    )


def rows() -> list[Callable[[], Row]]:
    return [
        lambda: _rows(argmax_rows, torch.float32, 1024),
        lambda: _rows(argmin_rows, torch.float32, 4096),
        lambda: _rows(argmax_rows, torch.float64, 1024),
        lambda: _rows(argmax_rows, torch.int32, 1024),
        lambda: _rows(argmax_rows, torch.float16, 1024),
        _columns,
        _top,
        _own,
    ]
