"""Tiles that are cut, joined and seen in another shape: sorting networks, butterflies, rotations."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import Row, array, compiled, integers, normal


@ct.kernel
def sort_rows(x, out, n: ct.Constant[int], log: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0), 0), (1, n)).reshape((n,))
    number = ct.arange(n, dtype=ct.int32)
    for size in ct.static_iter(range(log)):
        for step in ct.static_iter(range(size, -1, -1)):
            shape = (n >> (step + 1), 2, 1 << step)
            part = (n >> (step + 1), 1, 1 << step)
            pairs = held.reshape(shape)
            low, high = ct.extract(pairs, (0, 0, 0), part), ct.extract(pairs, (0, 1, 0), part)
            places = ct.extract(number.reshape(shape), (0, 0, 0), part)
            rises = (places & (2 << size)) == 0
            small, large = ct.minimum(low, high), ct.maximum(low, high)
            first, second = ct.where(rises, small, large), ct.where(rises, large, small)
            held = ct.cat((first, second), 1).reshape((n,))
    ct.store(out, (ct.bid(0), 0), held.reshape((1, n)))


@ct.kernel
def hadamard(x, out, n: ct.Constant[int], log: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0), 0), (1, n)).reshape((n,))
    for step in ct.static_iter(range(log)):
        part = (n >> (step + 1), 1, 1 << step)
        pairs = held.reshape((n >> (step + 1), 2, 1 << step))
        low, high = ct.extract(pairs, (0, 0, 0), part), ct.extract(pairs, (0, 1, 0), part)
        held = ct.cat((low + high, low - high), 1).reshape((n,))
    ct.store(out, (ct.bid(0), 0), held.reshape((1, n)))


@ct.kernel
def rotate_halves(x, cosine, sine, out, rows: ct.Constant[int], half: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0), 0), (rows, 2 * half))
    left = ct.extract(held, (0, 0), (rows, half))
    right = ct.extract(held, (0, 1), (rows, half))
    c = ct.load(cosine, (ct.bid(0), 0), (rows, half))
    s = ct.load(sine, (ct.bid(0), 0), (rows, half))
    turned = ct.cat((left * c - right * s, right * c + left * s), 1)
    ct.store(out, (ct.bid(0), 0), turned)


@ct.kernel
def rotate_pairs(x, cosine, sine, out, rows: ct.Constant[int], half: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0), 0), (rows, 2 * half)).reshape((rows, half, 2))
    left = ct.extract(held, (0, 0, 0), (rows, half, 1))
    right = ct.extract(held, (0, 0, 1), (rows, half, 1))
    c = ct.load(cosine, (ct.bid(0), 0), (rows, half)).reshape((rows, half, 1))
    s = ct.load(sine, (ct.bid(0), 0), (rows, half)).reshape((rows, half, 1))
    turned = ct.cat((left * c - right * s, right * c + left * s), 2)
    ct.store(out, (ct.bid(0), 0), turned.reshape((rows, 2 * half)))


def _kind(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _sort(n: int, dtype: torch.dtype) -> Row:
    count = (1 << 20) // n
    x = integers(1 << 30, count, n) if dtype == torch.int32 else normal(count, n, dtype=dtype)
    out = torch.empty_like(x)
    return Row(
        f"sort {count} rows of {n} {_kind(dtype)}",
        sort_rows,
        (count,),
        (x, out, n, n.bit_length() - 1),
        (out,),
        lambda: (x.sort(1)[0],),
        {"NumPy": lambda: np.sort(array(x), 1), "torch": lambda: x.sort(1)},
    )


def _hadamard(n: int, dtype: torch.dtype) -> Row:
    count = (1 << 21) // n
    x = integers(64, count, n).to(dtype)
    out = torch.empty_like(x)
    matrix = torch.ones(1, 1, dtype=dtype)
    while matrix.shape[0] < n:
        matrix = torch.cat((torch.cat((matrix, matrix), 1), torch.cat((matrix, -matrix), 1)))

    def butterflies(a: torch.Tensor) -> torch.Tensor:
        step = 1
        while step < n:
            pairs = a.reshape(count, -1, 2, step)
            low, high = pairs[:, :, 0], pairs[:, :, 1]
            a = torch.stack((low + high, low - high), 2).reshape(count, n)
            step *= 2
        return a

    return Row(
        f"Hadamard transform of {count} rows of {n} {_kind(dtype)}",
        hadamard,
        (count,),
        (x, out, n, n.bit_length() - 1),
        (out,),
        lambda: (x.double() @ matrix.double(),),
        {
            "torch": lambda: butterflies(x),
            "torch, by a product": lambda: x @ matrix,
            "torch.compile": compiled(butterflies, x),
        },
    )


def _rotate(kernel: object, dtype: torch.dtype, bound: float) -> Row:
    count, half, rows = 16384, 64, 8
    x = normal(count, 2 * half, dtype=dtype)
    cosine, sine = normal(count, half, dtype=dtype), normal(count + 1, half, dtype=dtype)[1:]
    out = torch.empty_like(x)
    pairs = kernel is rotate_pairs

    def reference(a: torch.Tensor, c: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        left, right = (a[:, 0::2], a[:, 1::2]) if pairs else (a[:, :half], a[:, half:])
        parts = (left * c - right * s, right * c + left * s)
        return torch.stack(parts, 2).reshape(count, 2 * half) if pairs else torch.cat(parts, 1)

    return Row(
        f"rotations of {'pairs' if pairs else 'halves'}, {count} x {2 * half} {_kind(dtype)}",
        kernel,
        (count // rows,),
        (x, cosine, sine, out, rows, half),
        (out,),
        lambda: (reference(x.double(), cosine.double(), sine.double()),),
        {
            "torch": lambda: reference(x, cosine, sine),
            "torch.compile": compiled(reference, x, cosine, sine),
        },
        bound=bound,
    )


def rows() -> list[Callable[[], Row]]:
    f32, f64, f16 = torch.float32, torch.float64, torch.float16
    return [
        lambda: _sort(16, f32),
        lambda: _sort(64, f32),
        lambda: _sort(256, torch.int32),
        lambda: _sort(1024, f32),
        lambda: _sort(256, f64),
        lambda: _hadamard(64, f32),
        lambda: _hadamard(1024, f32),
        lambda: _hadamard(256, f64),
        lambda: _rotate(rotate_halves, f32, 1e-5),
        lambda: _rotate(rotate_halves, f16, 2e-3),
        lambda: _rotate(rotate_pairs, f32, 1e-5),
        lambda: _rotate(rotate_pairs, f64, 1e-13),
    ]
