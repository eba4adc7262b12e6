"""Powers whose exponent is a constant."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import Row, array, compiled, normal

_TILE = 1024
_LENGTH = 1 << 22


@ct.kernel
def power(x, out, exponent: ct.Constant[float], tile: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0),), (tile,))
    ct.store(out, (ct.bid(0),), held**exponent)


@ct.kernel
def deviation(x, out, tile: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0), 0), (1, tile))
    mean = ct.sum(held, axis=1, keepdims=True) / tile
    total = ct.sum((held - mean) ** 2, axis=1) / tile
    ct.store(out, (ct.bid(0),), total**0.5)


@ct.kernel
def gelu(x, out, tile: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0),), (tile,))
    inner = 0.7978845608 * (held + 0.044715 * held**3)
    ct.store(out, (ct.bid(0),), 0.5 * held * (1 + ct.tanh(inner)))


def _power(exponent: float, dtype: torch.dtype, bound: float) -> Row:
    x = normal(_LENGTH, dtype=dtype).abs() + 0.25
    out = torch.empty_like(x)  # Of all: where memory lies can make half of the time of such a row.
    kind = str(dtype).removeprefix("torch.")
    return Row(
        f"x ** {exponent:g} of 4M {kind}",
        power,
        (_LENGTH // _TILE,),
        (x, out, exponent, _TILE),
        (out,),
        lambda: (x.double() ** exponent,),
        {
            "NumPy": lambda: np.power(array(x), exponent, out=array(out)),
            "torch": lambda: torch.pow(x, exponent, out=out),
            "torch.compile": compiled(lambda a: a**exponent, x),
        },
        bound=bound,
    )


def _deviation() -> Row:
    x, out = normal(4096, 1024), torch.empty(4096)

    def theirs(a: torch.Tensor) -> torch.Tensor:
        return ((a - a.mean(1, keepdim=True)) ** 2).mean(1) ** 0.5

    return Row(
        "standard deviation of rows, 4096 x 1024",
        deviation,
        (4096,),
        (x, out, 1024),
        (out,),
        lambda: (x.double().std(1, correction=0),),
        {
            "NumPy": lambda: array(x).std(1),
            "torch": lambda: theirs(x),
            "torch.compile": compiled(theirs, x),
        },
        bound=1e-5,
    )


def _gelu() -> Row:
    x = normal(_LENGTH)
    out = torch.empty_like(x)

    def theirs(a: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(a, approximate="tanh")

    return Row(
        "gelu by tanh with x ** 3, 4M",
        gelu,
        (_LENGTH // _TILE,),
        (x, out, _TILE),
        (out,),
        lambda: (theirs(x.double()),),
        {"torch": lambda: theirs(x), "torch.compile": compiled(theirs, x)},
        bound=1e-5,
    )


def rows() -> list[Callable[[], Row]]:
    f32, f64 = torch.float32, torch.float64
    singles = [
        lambda e=e: _power(e, f32, 1e-6) for e in (2.0, 3.0, 4.0, 0.5, -0.5, -1.0, -2.0, 1.5, 6.0)
    ]
    doubles = [lambda e=e: _power(e, f64, 1e-14) for e in (2.0, -1.0)]
    halves = [lambda: _power(2.0, torch.float16, 1e-3)]
    return [*singles, *doubles, *halves, _deviation, _gelu]
