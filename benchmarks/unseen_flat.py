"""Flat indices of images and batches, taken apart by quotients and remainders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import torch
from torch.nn import functional

from benchmarks.unseen_rows import Row, compiled, normal

_TILE = 1024


@ct.kernel
def enlarged(x, out, width: ct.Constant[int], tile: ct.Constant[int]):
    """Each pixel four times."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    row, column = i // (2 * width), i % (2 * width)
    ct.scatter(out, (i,), ct.gather(x, ((row // 2) * width + column // 2,)))


@ct.kernel
def biased(
    x, bias, out, area: ct.Constant[int], channels: ct.Constant[int], tile: ct.Constant[int]
):
    """A number for each channel, and relu."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    value = ct.gather(x, (i,)) + ct.gather(bias, ((i // area) % channels,))
    ct.scatter(out, (i,), ct.maximum(value, 0.0))


@ct.kernel
def columns_of_windows(
    x, out, width: ct.Constant[int], height: ct.Constant[int], tile: ct.Constant[int]
):
    """Windows of 3 x 3: [channel, y, x] to [channel and tap, y and x]."""
    line, area = ct.bid(1), width * height
    channel, r, s = line // 9, (line // 3) % 3, line % 3
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    y, z = i // width + (r - 1), i % width + (s - 1)
    inside = (y >= 0) & (y < height) & (z >= 0) & (z < width) & (i < area)
    value = ct.gather(x, (channel * area + y * width + z,), mask=inside, padding_value=0)
    ct.scatter(out, (line * area + i,), value, mask=i < area)


@ct.kernel
def largest_of_windows(
    x, out, width: ct.Constant[int], height: ct.Constant[int], tile: ct.Constant[int]
):
    """Of windows of 2 x 2."""
    i = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    half, lines = width // 2, height // 2
    at = i // (half * lines) * (width * height) + 2 * ((i // half) % lines) * width + 2 * (i % half)
    above = ct.maximum(ct.gather(x, (at,)), ct.gather(x, (at + 1,)))
    below = ct.maximum(ct.gather(x, (at + width,)), ct.gather(x, (at + width + 1,)))
    ct.scatter(out, (i,), ct.maximum(above, below))


@ct.kernel
def batch_of_some(a, b, c, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    """Products that do not fill their tiles."""
    i, zero = ct.bid(0), ct.PaddingMode.ZERO
    left = ct.load(a, (i, 0, 0), (1, m, k), padding_mode=zero).reshape((m, k))
    right = ct.load(b, (i, 0, 0), (1, k, n), padding_mode=zero).reshape((k, n))
    total = ct.mma(left, right, ct.zeros((m, n), ct.float32))
    ct.store(c, (i, 0, 0), total.reshape((1, m, n)))


def _row(
    name: str,
    kernel: Any,
    grid: tuple[int, ...],
    given: tuple[Any, ...],
    out: torch.Tensor,
    theirs: Callable[..., torch.Tensor],
    *tensors: torch.Tensor,
) -> Row:
    """A row of a kernel that only moves and adds numbers."""
    x, *others = tensors
    arguments = (x.view(-1), *others, out.view(-1), *given)
    peers = {"torch": lambda: theirs(*tensors), "torch.compile": compiled(theirs, *tensors)}
    return Row(name, kernel, grid, arguments, (out,), lambda: (theirs(*tensors),), peers)


def _images(channels: int, width: int, dtype: torch.dtype) -> list[Callable[[], Row]]:
    x = normal(channels, width, width).to(dtype)
    area, kind = width * width, str(dtype).removeprefix("torch.")
    size = f"{channels} x {width} x {width} {kind}"

    def larger() -> Row:
        out = torch.empty(channels, 2 * width, 2 * width, dtype=dtype)
        return _row(
            f"{size} enlarged to twice the size",
            enlarged,
            (-(-out.numel() // _TILE),),
            (width, _TILE),
            out,
            lambda x: functional.interpolate(x[None], scale_factor=2)[0],
            x,
        )

    def with_bias() -> Row:
        return _row(
            f"{size} plus a number for each channel, relu",
            biased,
            (-(-x.numel() // _TILE),),
            (area, channels, _TILE),
            torch.empty_like(x),
            lambda x, bias: torch.relu(x + bias[:, None, None]),
            x,
            normal(channels).to(dtype),
        )

    def unfolded() -> Row:
        return _row(
            f"windows of 3 x 3 of {size} as columns",
            columns_of_windows,
            (-(-area // _TILE), channels * 9),
            (width, width, _TILE),
            torch.empty(channels * 9, area, dtype=dtype),
            lambda x: functional.unfold(x[None], 3, padding=1)[0],
            x,
        )

    def pooled() -> Row:
        out = torch.empty(channels, width // 2, width // 2, dtype=dtype)
        return _row(
            f"largest of 2 x 2 of {size} by flat indices",
            largest_of_windows,
            (-(-out.numel() // 256),),
            (width, width, 256),
            out,
            lambda x: functional.max_pool2d(x[None], 2)[0],
            x,
        )

    return [larger, with_bias, unfolded, pooled]


def _products(count: int, m: int, n: int, k: int) -> Row:
    a, b = normal(count, m, k), normal(count, k, n)
    c, other = torch.empty(count, m, n), torch.empty(count, m, n)
    tile = tuple(1 << (extent - 1).bit_length() for extent in (m, n, k))
    return Row(
        f"{count} products {m} x {n} x {k} in one step, tiles {'x'.join(map(str, tile))}",
        batch_of_some,
        (count,),
        (a, b, c, *tile),
        (c,),
        lambda: (a.double() @ b.double(),),
        {"torch": lambda: torch.bmm(a, b, out=other)},
        bound=1e-5,
    )


def rows() -> list[Callable[[], Row]]:
    """The rows of this module."""
    f32, f16 = torch.float32, torch.float16
    return [
        *_images(64, 56, f32),
        *_images(16, 128, f32),
        *_images(32, 64, f16),
        lambda: _products(1024, 24, 40, 56),
        lambda: _products(512, 40, 72, 30),
    ]
