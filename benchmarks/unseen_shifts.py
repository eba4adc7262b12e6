"""Gathers whose lanes follow one another: stencils, convolutions, shifts, windows."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import Row, array, compiled, integers, normal

_SIDE = 2048
_LENGTH = 1 << 22


@ct.kernel
def five_points(x, out, th: ct.Constant[int], tw: ct.Constant[int]):
    rows = ct.bid(0) * th + ct.arange(th, dtype=ct.int32)[:, None]
    cols = ct.bid(1) * tw + ct.arange(tw, dtype=ct.int32)[None, :]
    middle = ct.gather(x, (rows, cols))
    around = ct.gather(x, (rows - 1, cols)) + ct.gather(x, (rows + 1, cols))
    around = around + ct.gather(x, (rows, cols - 1)) + ct.gather(x, (rows, cols + 1))
    ct.scatter(out, (rows, cols), 4 * middle - around)


@ct.kernel
def filtered(x, weights, out, taps: ct.Constant[int], tile: ct.Constant[int]):
    at = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    total = ct.zeros((tile,), dtype=x.dtype)
    for i in range(taps):
        total = total + ct.gather(x, at + (i - taps // 2)) * ct.gather(weights, i)
    ct.store(out, (ct.bid(0),), total)


@ct.kernel
def largest_of_three(x, out, low: ct.Constant[int], tile: ct.Constant[int]):
    at = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    before = ct.gather(x, at - 1, padding_value=low)
    after = ct.gather(x, at + 1, padding_value=low)
    ct.scatter(out, at, ct.maximum(ct.maximum(before, ct.gather(x, at)), after))


@ct.kernel
def window(x, starts, out, width: ct.Constant[int]):
    row = ct.bid(0)
    at = ct.gather(starts, row) + ct.arange(width, dtype=ct.int32)
    ct.store(out, (row, 0), ct.gather(x, (row, at)).reshape((1, width)))


@ct.kernel
def rows_at(x, places, out, tile: ct.Constant[int], width: ct.Constant[int]):
    row = ct.gather(places, ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32))[:, None]
    cols = ct.arange(width, dtype=ct.int32)[None, :]
    ct.store(out, (ct.bid(0), 0), ct.gather(x, (row, cols)))


def _five_points(dtype: torch.dtype, th: int, tw: int) -> Row:
    x = integers(100, _SIDE, _SIDE, dtype=dtype)
    out, theirs = torch.empty_like(x), torch.zeros_like(x)

    def reference(a: torch.Tensor) -> torch.Tensor:
        p = torch.nn.functional.pad(a, (1, 1, 1, 1))
        return 4 * a - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:]

    padded, held = np.pad(array(x), 1), array(theirs)

    def in_numpy() -> None:
        np.multiply(padded[1:-1, 1:-1], 4, out=held)
        for part in (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]):
            np.subtract(held, part, out=held)

    return Row(
        f"five points, {_SIDE} x {_SIDE} {str(dtype).removeprefix('torch.')}, tiles {th}x{tw}",
        five_points,
        (_SIDE // th, _SIDE // tw),
        (x, out, th, tw),
        (out,),
        lambda: (reference(x.double()).to(dtype),),
        {"NumPy": in_numpy, "torch": lambda: reference(x), "torch.compile": compiled(reference, x)},
    )


def _filtered(dtype: torch.dtype, taps: int, bound: float) -> Row:
    x, weights, out = normal(_LENGTH, dtype=dtype), normal(taps, dtype=dtype), torch.empty(_LENGTH)
    out = out.to(dtype)

    def reference(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv1d(a[None, None], w[None, None], padding=taps // 2)[0, 0]

    return Row(
        f"{taps} taps over 4M {str(dtype).removeprefix('torch.')}",
        filtered,
        (_LENGTH // 1024,),
        (x, weights, out, taps, 1024),
        (out,),
        lambda: (reference(x.double(), weights.double()),),
        {
            "NumPy": lambda: np.convolve(array(x), array(weights), mode="same"),
            "torch": lambda: reference(x, weights),
        },
        bound=bound,
    )


def _largest(dtype: torch.dtype) -> Row:
    x = integers(1 << 30 if dtype == torch.int32 else 1 << 14, _LENGTH, dtype=dtype)
    out = torch.empty_like(x)

    def reference(a: torch.Tensor) -> torch.Tensor:
        middle = torch.maximum(torch.maximum(a[:-2], a[1:-1]), a[2:])
        return torch.cat((torch.maximum(a[:1], a[1:2]), middle, torch.maximum(a[-2:-1], a[-1:])))

    return Row(
        f"largest of three neighbours, 4M {str(dtype).removeprefix('torch.')}",
        largest_of_three,
        (_LENGTH // 2048,),
        (x, out, -1, 2048),
        (out,),
        lambda: (reference(x),),
        {"torch": lambda: reference(x), "torch.compile": compiled(reference, x)},
    )


def _window() -> Row:
    rows, length, width = 4096, 2048, 1024
    x, starts = normal(rows, length), integers(length - width, rows)
    out = torch.empty(rows, width)
    at = starts.long()[:, None] + torch.arange(width)
    return Row(
        "a window of each row, 1024 of 2048",
        window,
        (rows,),
        (x, starts, out, width),
        (out,),
        lambda: (x.gather(1, at),),
        {
            "NumPy": lambda: np.take_along_axis(array(x), array(at), 1),
            "torch": lambda: torch.gather(x, 1, at, out=torch.empty_like(out)),
        },
    )


def _rows_at(dtype: torch.dtype) -> Row:
    x, places = normal(8192, 512, dtype=dtype), integers(8192, 16384)
    out = torch.empty(16384, 512, dtype=dtype)
    theirs = torch.empty_like(out)
    return Row(
        f"16384 rows of 512 by number, {str(dtype).removeprefix('torch.')}",
        rows_at,
        (16384 // 8,),
        (x, places, out, 8, 512),
        (out,),
        lambda: (x[places.long()],),
        {
            "torch": lambda: torch.index_select(x, 0, places, out=theirs),
            "NumPy": lambda: np.take(array(x), array(places), 0, out=array(theirs), mode="clip"),
        },
    )


def rows() -> list[Callable[[], Row]]:
    f32, f64, i32, i16 = torch.float32, torch.float64, torch.int32, torch.int16
    return [
        lambda: _five_points(f32, 16, 64),
        lambda: _five_points(f32, 1, 1024),
        lambda: _five_points(f64, 8, 128),
        lambda: _five_points(i16, 32, 32),
        lambda: _filtered(f32, 9, 1e-5),
        lambda: _filtered(f32, 33, 1e-5),
        lambda: _filtered(f64, 15, 1e-13),
        lambda: _largest(i32),
        lambda: _largest(i16),
        _window,
        lambda: _rows_at(f32),
        lambda: _rows_at(f64),
    ]
