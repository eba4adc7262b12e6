"""Elements at distances: channels side by side, slices with a step, rows read backwards, short inner axes."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import Row, array, compiled, normal

_ZERO = ct.PaddingMode.ZERO


@ct.kernel
def complex_magnitudes(x, out, tile: ct.Constant[int]):
    at = ct.bid(0)
    re, im = ct.load(x, (at, 0), (tile, 1)), ct.load(x, (at, 1), (tile, 1))
    ct.store(out, (at,), ct.sqrt(re * re + im * im).reshape((tile,)))


@ct.kernel
def luminance(x, out, tile: ct.Constant[int]):
    row, at = ct.bid(1), ct.bid(0)
    r = ct.load(x, (row, at, 0), (1, tile, 1))
    g, b = ct.load(x, (row, at, 1), (1, tile, 1)), ct.load(x, (row, at, 2), (1, tile, 1))
    ct.store(out, (row, at), (0.299 * r + 0.587 * g + 0.114 * b).reshape((1, tile)))


@ct.kernel
def colours(x, out, tile: ct.Constant[int]):
    at = ct.bid(0)
    y, u = ct.load(x, (at, 0), (tile, 1)), ct.load(x, (at, 1), (tile, 1))
    v = ct.load(x, (at, 2), (tile, 1))
    ct.store(out, (at, 0), y + 1.402 * v)
    ct.store(out, (at, 1), y - 0.344 * u - 0.714 * v)
    ct.store(out, (at, 2), y + 1.772 * u)


@ct.kernel
def copy_tiles(x, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    ct.store(out, (ct.bid(1), ct.bid(0)), ct.load(x, (ct.bid(1), ct.bid(0)), (rows, columns)) * 2)


@ct.kernel
def halves(x, out, tile: ct.Constant[int]):
    at = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    ct.store(out, (ct.bid(0),), (ct.gather(x, at * 2) + ct.gather(x, at * 2 + 1)) * 0.5)


@ct.kernel
def backwards(x, out, last: ct.Constant[int], tile: ct.Constant[int]):
    at = ct.bid(0) * tile + ct.arange(tile, dtype=ct.int32)
    ct.store(out, (ct.bid(0),), ct.gather(x, last - at))


@ct.kernel
def pooled(x, out, rows: ct.Constant[int], columns: ct.Constant[int]):
    i, j = ct.bid(1), ct.bid(0)
    held = ct.load(x, (i, j), (2 * rows, 2 * columns), padding_mode=_ZERO)
    ct.store(out, (i, j), ct.max(ct.max(held.reshape((rows, 2, columns, 2)), axis=3), axis=1))


@ct.kernel
def inverse_lengths(x, out, rows: ct.Constant[int]):
    """Of vectors of three."""
    at = ct.bid(0)
    a, b = ct.load(x, (at, 0), (rows, 1)), ct.load(x, (at, 1), (rows, 1))
    c = ct.load(x, (at, 2), (rows, 1))
    ct.store(out, (at,), ct.rsqrt(a**2 + b**2 + c**2).reshape((rows,)))


def _magnitudes() -> Row:
    x = normal(1 << 20, 2)
    out, other, z = torch.empty(1 << 20), torch.empty(1 << 20), torch.view_as_complex(x)
    return Row(
        "magnitudes of 1M complex numbers, interleaved f32",
        complex_magnitudes,
        (1 << 10,),
        (x, out, 1024),
        (out,),
        lambda: (z.to(torch.complex128).abs(),),
        {
            "NumPy": lambda: np.abs(array(z), out=array(other)),
            "torch": lambda: torch.abs(z, out=other),
        },
        bound=1e-6,
    )


def _luminance() -> Row:
    x, out, by = normal(1000, 1500, 3), torch.empty(1000, 1500), torch.tensor([0.299, 0.587, 0.114])
    other = torch.empty(1000, 1500)

    def theirs(a: torch.Tensor) -> torch.Tensor:
        return 0.299 * a[..., 0] + 0.587 * a[..., 1] + 0.114 * a[..., 2]

    return Row(
        "grey of 1000 x 1500 pixels of three f32",
        luminance,
        (2, 1000),
        (x, out, 1024),
        (out,),
        lambda: (theirs(x.double()),),
        {
            "torch": lambda: torch.matmul(x, by, out=other),
            "torch.compile": compiled(theirs, x),
            "NumPy": lambda: np.matmul(array(x), array(by), out=array(other)),
        },
        bound=1e-5,
    )


def _colours() -> Row:
    x, out = normal(1_500_000, 3), torch.empty(1_500_000, 3)
    turn = torch.tensor([[1, 0, 1.402], [1, -0.344, -0.714], [1, 1.772, 0]]).T.contiguous()
    other = torch.empty_like(out)

    def theirs(a: torch.Tensor) -> torch.Tensor:
        y, u, v = a.unbind(1)
        return torch.stack((y + 1.402 * v, y - 0.344 * u - 0.714 * v, y + 1.772 * u), 1)

    return Row(
        "colours of 1.5M pixels of three f32",
        colours,
        (-(-1_500_000 // 512),),
        (x, out, 512),
        (out,),
        lambda: (theirs(x.double()),),
        {
            "torch": lambda: torch.matmul(x, turn, out=other),
            "torch.compile": compiled(theirs, x),
            "NumPy": lambda: np.matmul(array(x), array(turn), out=array(other)),
        },
        bound=1e-5,
    )


def _slice(step: int, dtype: torch.dtype) -> Row:
    whole = normal(1024, 2048 * step, dtype=dtype)
    x, out = whole[:, ::step], torch.empty(1024, 2048, dtype=dtype)
    other = torch.empty_like(out)
    kind = str(dtype).removeprefix("torch.")
    return Row(
        f"2 x[:, ::{step}] of 1024 x 2048 {kind}",
        copy_tiles,
        (4, 128),
        (x, out, 8, 512),
        (out,),
        lambda: (x.double() * 2,),
        {
            "torch": lambda: torch.mul(x, 2, out=other),
            "torch.compile": compiled(lambda a: a * 2, x),
            "NumPy": lambda: np.multiply(array(x), array(x).dtype.type(2), out=array(other)),
        },
        bound=1e-6,
    )


def _halves() -> Row:
    x, out = normal(1 << 22), torch.empty(1 << 21)
    return Row(
        "means of pairs, 4M f32, by gathers",
        halves,
        (1 << 11,),
        (x, out, 1024),
        (out,),
        lambda: (x.double().view(-1, 2).mean(1),),
        {
            "torch": lambda: x.view(-1, 2).mean(1),
            "torch.compile": compiled(lambda a: (a[::2] + a[1::2]) * 0.5, x),
            "NumPy": lambda: (array(x)[::2] + array(x)[1::2]) * np.float32(0.5),
        },
        bound=1e-6,
    )


def _backwards() -> Row:
    x, out = normal(1 << 22), torch.empty(1 << 22)
    return Row(
        "4M f32 backwards, by gathers",
        backwards,
        (1 << 12,),
        (x, out, (1 << 22) - 1, 1024),
        (out,),
        lambda: (x.flip(0),),
        {
            "torch": lambda: x.flip(0),
            "torch.compile": compiled(lambda a: a.flip(0), x),
            "NumPy": lambda: np.copyto(array(out), array(x)[::-1]),
        },
    )


def _pooled() -> Row:
    x, out = normal(2048, 2048), torch.empty(1024, 1024)

    def theirs(a: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.max_pool2d(a[None, None], 2)[0, 0]

    return Row(
        "largest of 2 x 2, 2048 x 2048 f32",
        pooled,
        (16, 128),
        (x, out, 8, 64),
        (out,),
        lambda: (theirs(x),),
        {
            "torch": lambda: theirs(x),
            "torch.compile": compiled(theirs, x),
            "NumPy": lambda: array(x).reshape(1024, 2, 1024, 2).max((1, 3)),
        },
    )


def _vectors() -> Row:
    x, out = normal(1 << 20, 3), torch.empty(1 << 20)

    def theirs(a: torch.Tensor) -> torch.Tensor:
        return a.square().sum(1).rsqrt()

    return Row(
        "one over the lengths of 1M vectors of three f32",
        inverse_lengths,
        (1 << 10,),
        (x, out, 1024),
        (out,),
        lambda: (theirs(x.double()),),
        {"torch": lambda: theirs(x), "torch.compile": compiled(theirs, x)},
        bound=1e-5,
    )


def rows() -> list[Callable[[], Row]]:
    return [
        _magnitudes,
        _luminance,
        _colours,
        lambda: _slice(2, torch.float32),
        lambda: _slice(4, torch.float32),
        lambda: _slice(3, torch.float64),
        _halves,
        _backwards,
        _pooled,
        _vectors,
    ]
