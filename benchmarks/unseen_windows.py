"""Windows and taps: pooling by reshapes, direct and depthwise convolutions, short rows; batches of products."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import Row, array, compiled, integers, normal

_ZERO = ct.PaddingMode.ZERO


@ct.kernel
def largest_of_windows(x, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    image, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    held = ct.load(x, (image, i, j), (1, 2 * rows, 2 * columns)).reshape((rows, 2, columns, 2))
    largest = ct.max(ct.max(held, axis=3), axis=1)
    ct.store(out, (image, i, j), largest.reshape((1, rows, columns)))


@ct.kernel
def lengths(x, out, tile: ct.Constant[int]):
    """Squared, of vectors of four."""
    at = ct.bid(0)
    held = ct.load(x, (at, 0), (tile, 4))
    ct.store(out, (at,), ct.sum(held * held, axis=1))


@ct.kernel
def place_of_largest(x, out, tile: ct.Constant[int]):
    at = ct.bid(0)
    ct.store(out, (at,), ct.argmax(ct.load(x, (at, 0), (tile, 4)), axis=1))


@ct.kernel
def depthwise(x, weights, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    channel, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    y = (i * rows + ct.arange(rows, dtype=ct.int32))[:, None]
    z = (j * columns + ct.arange(columns, dtype=ct.int32))[None, :]
    total = ct.zeros((rows, columns), ct.float32)
    for r in range(3):
        for s in range(3):
            near = ct.gather(x, (channel, y + (r - 1), z + (s - 1)))
            total = total + near * ct.gather(weights, (channel, r * 3 + s))
    ct.store(out, (channel, i, j), total.reshape((1, rows, columns)))


@ct.kernel
def convolution(
    x,
    weights,
    out,
    channels: ct.Constant[int],
    size: ct.Constant[int],
    places: ct.Constant[int],
    filters: ct.Constant[int],
):
    """3 x 3, of one image: a column of weights times a row of places, tap by tap."""
    j, of = ct.bid(0), ct.bid(1)
    place = j * places + ct.arange(places, dtype=ct.int32)
    y, z = place // size, place % size
    total = ct.zeros((filters, places), ct.float32)
    for c in range(channels):
        for r in range(3):
            for s in range(3):
                near_y, near_z = y + (r - 1), z + (s - 1)
                inside = (near_y >= 0) & (near_y < size) & (near_z >= 0) & (near_z < size)
                near = ct.gather(x, (c, near_y, near_z), mask=inside)
                at = of * filters + ct.arange(filters, dtype=ct.int32)
                by = ct.gather(weights, (at, c * 9 + r * 3 + s))
                total = total + by[:, None] * near[None, :]
    ct.store(out, (of, j), total)


@ct.kernel
def batch(a, b, out, rows: ct.Constant[int], columns: ct.Constant[int], depth: ct.Constant[int]):
    p, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((rows, columns), ct.float32)
    for k in range(ct.num_tiles(a, 2, (1, rows, depth))):
        left = ct.load(a, (p, i, k), (1, rows, depth), padding_mode=_ZERO)
        right = ct.load(b, (p, k, j), (1, depth, columns), padding_mode=_ZERO)
        total = ct.mma(left.reshape((rows, depth)), right.reshape((depth, columns)), total)
    ct.store(out, (p, i, j), ct.astype(total, out.dtype).reshape((1, rows, columns)))


def _windows(dtype: torch.dtype, rows: int, columns: int) -> Row:
    x = integers(100, 64, 128, 128, dtype=dtype)
    out, held = torch.empty(64, 64, 64, dtype=dtype), np.empty((64, 64, 64), array(x).dtype)

    def theirs(a: torch.Tensor) -> torch.Tensor:
        return a.view(64, 64, 2, 64, 2).amax((2, 4))

    def in_numpy() -> None:
        a = array(x)
        np.maximum(a[:, ::2, ::2], a[:, ::2, 1::2], out=held)
        np.maximum(held, a[:, 1::2, ::2], out=held)
        np.maximum(held, a[:, 1::2, 1::2], out=held)

    return Row(
        f"largest of 2 x 2, 64 x 128 x 128 {str(dtype).removeprefix('torch.')}, tiles {rows}x{columns}",
        largest_of_windows,
        (64, 64 // rows, 64 // columns),
        (x, out, rows, columns),
        (out,),
        lambda: (theirs(x),),
        {
            "NumPy": in_numpy,
            "torch": lambda: theirs(x),
            "torch.compile": compiled(theirs, x),
        },
    )


def _lengths() -> Row:
    x, out = normal(1 << 18, 4), torch.empty(1 << 18)
    return Row(
        "squared lengths of 256k vectors of four f32",
        lengths,
        (1 << 9,),
        (x, out, 512),
        (out,),
        lambda: ((x.double() ** 2).sum(1),),
        {
            "NumPy": lambda: np.einsum("ij,ij->i", array(x), array(x)),
            "torch": lambda: (x * x).sum(1),
            "torch.compile": compiled(lambda a: (a * a).sum(1), x),
        },
        bound=1e-6,
    )


def _place_of_largest() -> Row:
    x, out = normal(1 << 18, 4), torch.empty(1 << 18, dtype=torch.int32)
    return Row(
        "argmax of 256k rows of four f32",
        place_of_largest,
        (1 << 9,),
        (x, out, 512),
        (out,),
        lambda: (x.argmax(1),),
        {"NumPy": lambda: array(x).argmax(1), "torch": lambda: x.argmax(1)},
    )


def _depthwise(rows: int, columns: int) -> Row:
    x, weights, out = normal(64, 56, 56), normal(64, 1, 3, 3), torch.empty(64, 56, 56)

    def theirs(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(a[None], w, padding=1, groups=64)[0]

    return Row(
        f"depthwise convolution 3 x 3, 64 x 56 x 56 f32, tiles {rows}x{columns}",
        depthwise,
        (64, -(-56 // rows), -(-56 // columns)),
        (x, weights.view(64, 9), out, rows, columns),
        (out,),
        lambda: (theirs(x.double(), weights.double()),),
        {"torch": lambda: theirs(x, weights), "torch.compile": compiled(theirs, x, weights)},
        bound=1e-5,
    )


def _convolution() -> Row:
    x, weights, out = normal(16, 64, 64), normal(32, 16, 3, 3), torch.empty(32, 4096)

    def theirs(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(a[None], w, padding=1).view(32, 4096)

    return Row(
        "convolution 3 x 3, 16 to 32 channels of 64 x 64 f32, tap by tap",
        convolution,
        (16, 2),
        (x, weights.view(32, -1), out, 16, 64, 256, 16),
        (out,),
        lambda: (theirs(x.double(), weights.double()),),
        {"torch": lambda: theirs(x, weights), "torch.compile": compiled(theirs, x, weights)},
        bound=1e-4,
    )


def _batch(dtype: torch.dtype, extent: int, tile: int, bound: float) -> Row:
    a, b = normal(256, extent, extent, dtype=dtype), normal(256, extent, extent, dtype=dtype)
    out, other = torch.empty_like(a), torch.empty_like(a)
    peers: dict[str, Callable[[], object]] = {"torch": lambda: torch.bmm(a, b, out=other)}
    if dtype == torch.float32:
        peers["NumPy"] = lambda: np.matmul(array(a), array(b), out=array(other))
    blocks = -(-extent // tile)
    return Row(
        f"256 products {extent} x {extent} x {extent} {str(dtype).removeprefix('torch.')}, tiles {tile}x{tile}x32",
        batch,
        (256, blocks, blocks),
        (a, b, out, tile, tile, 32),
        (out,),
        lambda: (a.double() @ b.double(),),
        peers,
        bound=bound,
    )


def rows() -> list[Callable[[], Row]]:
    """The rows of this module."""
    return [
        lambda: _windows(torch.float32, 16, 32),
        lambda: _windows(torch.float32, 8, 8),
        lambda: _windows(torch.int8, 16, 32),
        lambda: _windows(torch.float64, 16, 32),
        _lengths,
        _place_of_largest,
        lambda: _depthwise(16, 16),
        lambda: _depthwise(8, 64),
        _convolution,
        lambda: _batch(torch.float32, 64, 64, 1e-5),
        lambda: _batch(torch.bfloat16, 64, 64, 1e-2),
        lambda: _batch(torch.float16, 64, 32, 1e-2),
        lambda: _batch(torch.float32, 50, 64, 1e-5),
    ]
