"""Axes exchanged: transposes by tiles of many shapes and types, of matrices and of batches."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import Row, array, integers, normal

_ZERO = ct.PaddingMode.ZERO


@ct.kernel
def turned(x, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    held = ct.load(x, (ct.bid(1), ct.bid(0)), (rows, columns), padding_mode=_ZERO)
    ct.store(out, (ct.bid(0), ct.bid(1)), ct.transpose(held))


@ct.kernel
def turned_as_stored(x, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    """The array is loaded with its axes exchanged."""
    held = ct.load(x, (ct.bid(0), ct.bid(1)), (columns, rows), order=(1, 0), padding_mode=_ZERO)
    ct.store(out, (ct.bid(0), ct.bid(1)), held)


@ct.kernel
def heads(x, out, rows: ct.Constant[int], width: ct.Constant[int]):
    """[batch, place, head, width] to [batch, head, place, width]."""
    batch, head, i = ct.bid(0), ct.bid(1), ct.bid(2)
    held = ct.load(x, (batch, i, head, 0), (1, rows, 1, width))
    ct.store(out, (batch, head, i, 0), ct.permute(held, (0, 2, 1, 3)))


@ct.kernel
def channels_last(x, out, channels: ct.Constant[int], places: ct.Constant[int]):
    """[image, channel, place] to [image, place, channel]."""
    image, i, j = ct.bid(2), ct.bid(1), ct.bid(0)
    held = ct.load(x, (image, i, j), (1, channels, places), padding_mode=_ZERO)
    ct.store(out, (image, j, i), ct.permute(held, (0, 2, 1)))


@ct.kernel
def plus_transpose(x, out, tile: ct.Constant[int]):
    """(x + x.T) / 2."""
    i, j = ct.bid(0), ct.bid(1)
    here = ct.load(x, (i, j), (tile, tile))
    there = ct.load(x, (j, i), (tile, tile))
    ct.store(out, (i, j), (here + ct.transpose(there)) * 0.5)


def _kind(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _peers(out: torch.Tensor, turned: torch.Tensor) -> dict[str, Callable[[], object]]:
    peers: dict[str, Callable[[], object]] = {"torch": lambda: out.copy_(turned)}
    if out.dtype != torch.bfloat16:
        peers["NumPy"] = lambda: np.copyto(array(out), array(turned))
    return peers


def _turned(
    rows: int, columns: int, tile: tuple[int, int], dtype: torch.dtype, *, stored: bool = False
) -> Row:
    made = integers(100, rows, columns) if dtype == torch.int8 else normal(rows, columns)
    x, out = made.to(dtype), torch.empty(columns, rows, dtype=dtype)
    how = ", loaded turned" if stored else ""
    return Row(
        f"transpose of {rows} x {columns} {_kind(dtype)}, tiles {tile[0]}x{tile[1]}{how}",
        turned_as_stored if stored else turned,
        (-(-columns // tile[1]), -(-rows // tile[0])),
        (x, out, *tile),
        (out,),
        lambda: (x.T,),
        _peers(torch.empty_like(out), x.T),
    )


def _heads(dtype: torch.dtype) -> Row:
    x = normal(4, 512, 16, 64, dtype=dtype)
    out = torch.empty(4, 16, 512, 64, dtype=dtype)
    return Row(
        f"heads before places, 4 x 512 x 16 x 64 {_kind(dtype)}",
        heads,
        (4, 16, 16),
        (x, out, 32, 64),
        (out,),
        lambda: (x.permute(0, 2, 1, 3),),
        _peers(torch.empty_like(out), x.permute(0, 2, 1, 3)),
    )


def _channels(channels: int, places: int, tile: tuple[int, int]) -> Row:
    x, out = normal(16, channels, places), torch.empty(16, places, channels)
    return Row(
        f"channels last, 16 x {channels} x {places} f32, tiles {tile[0]}x{tile[1]}",
        channels_last,
        (-(-places // tile[1]), -(-channels // tile[0]), 16),
        (x, out, *tile),
        (out,),
        lambda: (x.permute(0, 2, 1),),
        _peers(torch.empty_like(out), x.permute(0, 2, 1)),
    )


def _symmetric(extent: int) -> Row:
    x, out, other = normal(extent, extent), torch.empty(extent, extent), torch.empty(extent, extent)
    return Row(
        f"(x + x.T) / 2 of {extent} x {extent} f32, tiles 64x64",
        plus_transpose,
        (extent // 64, extent // 64),
        (x, out, 64),
        (out,),
        lambda: ((x.double() + x.double().T) / 2,),
        {
            "torch": lambda: torch.add(x, x.T, out=other).mul_(0.5),
            "NumPy": lambda: np.multiply(np.add(array(x), array(x).T), 0.5, out=array(other)),
        },
        bound=1e-6,
    )


def rows() -> list[Callable[[], Row]]:
    """The rows of this module."""
    f32, bf16, i8, f64 = torch.float32, torch.bfloat16, torch.int8, torch.float64
    return [
        lambda: _turned(2048, 2048, (32, 32), f32),
        lambda: _turned(2000, 3000, (64, 64), f32),
        lambda: _turned(4096, 1024, (128, 32), f32),
        lambda: _turned(1500, 1500, (64, 64), f64),
        lambda: _turned(2048, 2048, (64, 64), bf16),
        lambda: _turned(3000, 2000, (64, 64), i8),
        lambda: _turned(2000, 1500, (64, 32), f32, stored=True),
        lambda: _turned(700, 500, (32, 64), f32),
        lambda: _heads(f32),
        lambda: _heads(bf16),
        lambda: _channels(64, 3136, (64, 64)),
        lambda: _channels(3, 50176, (4, 256)),
        lambda: _symmetric(2048),
    ]
