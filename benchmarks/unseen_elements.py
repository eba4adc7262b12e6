"""One pass of arithmetic over an array: logarithms, reciprocals, activations, in f32, f64 and half width."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import cuda.tile as ct
import torch

from benchmarks.unseen_rows import Row, compiled, integers, normal

_MANY = 1 << 22


@ct.kernel
def log(x, out, tile: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.log(ct.load(x, (ct.bid(0),), (tile,))))


@ct.kernel
def log2(x, out, tile: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.log2(ct.load(x, (ct.bid(0),), (tile,))))


@ct.kernel
def reciprocal(x, out, tile: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), 1.0 / ct.load(x, (ct.bid(0),), (tile,)))


@ct.kernel
def exponential(x, out, tile: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.exp(ct.load(x, (ct.bid(0),), (tile,))))


@ct.kernel
def sigmoid(x, out, tile: ct.Constant[int]):
    held = ct.astype(ct.load(x, (ct.bid(0),), (tile,)), ct.float32)
    ct.store(out, (ct.bid(0),), ct.astype(1.0 / (1.0 + ct.exp(-held)), out.dtype))


@ct.kernel
def silu(x, out, tile: ct.Constant[int]):
    held = ct.astype(ct.load(x, (ct.bid(0),), (tile,)), ct.float32)
    ct.store(out, (ct.bid(0),), ct.astype(held / (1.0 + ct.exp(-held)), out.dtype))


@ct.kernel
def gelu(x, out, tile: ct.Constant[int]):
    """By the hyperbolic tangent."""
    held = ct.astype(ct.load(x, (ct.bid(0),), (tile,)), ct.float32)
    inner = 0.7978845608028654 * (held + 0.044715 * held * held * held)
    ct.store(out, (ct.bid(0),), ct.astype(0.5 * held * (1.0 + ct.tanh(inner)), out.dtype))


@ct.kernel
def softplus(x, out, tile: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0),), (tile,))
    ct.store(
        out, (ct.bid(0),), ct.maximum(held, 0.0) + ct.log(1.0 + ct.exp(ct.negative(ct.abs(held))))
    )


@ct.kernel
def tangent(x, out, tile: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.tanh(ct.load(x, (ct.bid(0),), (tile,))))


@ct.kernel
def sine(x, out, tile: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.sin(ct.load(x, (ct.bid(0),), (tile,))))


@ct.kernel
def root(x, out, tile: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.sqrt(ct.load(x, (ct.bid(0),), (tile,))))


@ct.kernel
def entropy(x, y, out, tile: ct.Constant[int]):
    """x log(x / y), as in a divergence of distributions."""
    p, q = ct.load(x, (ct.bid(0),), (tile,)), ct.load(y, (ct.bid(0),), (tile,))
    ct.store(out, (ct.bid(0),), p * (ct.log(p) - ct.log(q)))


@ct.kernel
def gated(x, y, out, tile: ct.Constant[int]):
    """silu(x) y."""
    a = ct.astype(ct.load(x, (ct.bid(0),), (tile,)), ct.float32)
    b = ct.astype(ct.load(y, (ct.bid(0),), (tile,)), ct.float32)
    ct.store(out, (ct.bid(0),), ct.astype(a / (1.0 + ct.exp(-a)) * b, out.dtype))


@ct.kernel
def remainders(x, out, by: ct.Constant[int], tile: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (tile,)) % by)


def _kind(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _positive(dtype: torch.dtype, many: int) -> torch.Tensor:
    return normal(many).abs().add(1e-3).to(dtype)


def _either(dtype: torch.dtype, many: int) -> torch.Tensor:
    return normal(many).mul(3).to(dtype)


def _row(
    name: str,
    kernel: Any,
    function: Callable[..., torch.Tensor],
    dtype: torch.dtype = torch.float32,
    make: Callable[[torch.dtype, int], torch.Tensor] = _either,
    *,
    many: int = _MANY,
    tile: int = 1024,
    operands: int = 1,
) -> Row:
    given = [make(dtype, many + number)[:many] for number in range(operands)]
    out = torch.empty_like(given[0])
    bounds = {torch.float64: 1e-14, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2}
    return Row(
        f"{name} of {many >> 20}M {_kind(dtype)}, tiles {tile}",
        kernel,
        (many // tile,),
        (*given, out, tile),
        (out,),
        lambda: (function(*(each.double() for each in given)),),
        {
            "torch": lambda: function(*given),
            "torch.compile": compiled(function, *given),
        },
        bound=bounds[dtype],
    )


def _remainders() -> Row:
    x, out = integers(1 << 20, _MANY), torch.empty(_MANY, dtype=torch.int32)
    return Row(
        "remainders of 4M int32 by 7",
        remainders,
        (_MANY // 1024,),
        (x, out, 7, 1024),
        (out,),
        lambda: (x % 7,),
        {"torch": lambda: x % 7, "torch.compile": compiled(lambda a: a % 7, x)},
    )


def rows() -> list[Callable[[], Row]]:
    """The rows of this module."""
    f16, bf16, f64 = torch.float16, torch.bfloat16, torch.float64
    functional = torch.nn.functional
    gelu_of = partial(functional.gelu, approximate="tanh")

    def plus_one(x: torch.Tensor) -> torch.Tensor:
        return functional.softplus(x)

    def divergence(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        return p * (p.log() - q.log())

    def gate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.silu(x) * y

    return [
        lambda: _row("log", log, torch.log, make=_positive),
        lambda: _row("log", log, torch.log, f64, make=_positive, many=_MANY // 2),
        lambda: _row("log2", log2, torch.log2, make=_positive, tile=4096),
        lambda: _row("log2", log2, torch.log2, f64, make=_positive, many=_MANY // 2),
        lambda: _row("1 / x", reciprocal, torch.reciprocal, make=_positive),
        lambda: _row("1 / x", reciprocal, torch.reciprocal, f64, make=_positive, many=_MANY // 2),
        lambda: _row("1 / x", reciprocal, torch.reciprocal, f16, make=_positive),
        lambda: _row("exp", exponential, torch.exp),
        lambda: _row("exp", exponential, torch.exp, f64, many=_MANY // 2),
        lambda: _row("exp", exponential, torch.exp, f16, lambda ty, n: normal(n).to(ty)),
        lambda: _row("sigmoid", sigmoid, torch.sigmoid),
        lambda: _row("silu", silu, functional.silu, bf16),
        lambda: _row("gelu", gelu, gelu_of),
        lambda: _row("gelu", gelu, gelu_of, bf16, tile=256),
        lambda: _row("log(1 + e**x)", softplus, plus_one),
        lambda: _row("tanh", tangent, torch.tanh),
        lambda: _row("tanh", tangent, torch.tanh, f64, many=_MANY // 4),
        lambda: _row("sine", sine, torch.sin),
        lambda: _row("root", root, torch.sqrt, make=_positive, tile=256),
        lambda: _row("x log(x / y)", entropy, divergence, make=_positive, operands=2),
        lambda: _row("silu(x) y", gated, gate, f16, operands=2),
        _remainders,
    ]
