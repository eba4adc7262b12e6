"""Several sums over one tile, reciprocal roots, quantising, and optimizers."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import Row, array, compiled, normal

_TILE = 1024
_LENGTH = 1 << 22


@ct.kernel
def bodies(x, y, z, ax, ay, az, near: ct.Constant[int], count: ct.Constant[int]):
    at = ct.bid(0)
    px = ct.load(x, (at,), (near,)).reshape((near, 1))
    py = ct.load(y, (at,), (near,)).reshape((near, 1))
    pz = ct.load(z, (at,), (near,)).reshape((near, 1))
    sx = ct.zeros((near,), ct.float32)
    sy, sz = sx, sx
    for step in range(count // 64):
        dx = ct.load(x, (step,), (64,)).reshape((1, 64)) - px
        dy = ct.load(y, (step,), (64,)).reshape((1, 64)) - py
        dz = ct.load(z, (step,), (64,)).reshape((1, 64)) - pz
        inverse = ct.rsqrt(dx * dx + dy * dy + dz * dz + 1e-4)
        weight = inverse * inverse * inverse
        sx += ct.sum(dx * weight, axis=1)
        sy += ct.sum(dy * weight, axis=1)
        sz += ct.sum(dz * weight, axis=1)
    ct.store(ax, (at,), sx)
    ct.store(ay, (at,), sy)
    ct.store(az, (at,), sz)


@ct.kernel
def moments(x, one, two, three, width: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0), 0), (1, width))
    square = held * held
    ct.store(one, (ct.bid(0),), ct.sum(held, axis=1))
    ct.store(two, (ct.bid(0),), ct.sum(square, axis=1))
    ct.store(three, (ct.bid(0),), ct.sum(square * held, axis=1))


@ct.kernel
def inverse_roots(x, out, tile: ct.Constant[int]):
    ct.store(out, (ct.bid(0),), ct.rsqrt(ct.load(x, (ct.bid(0),), (tile,))))


@ct.kernel
def rms_norm(x, weight, out, width: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0), 0), (1, width))
    scale = ct.rsqrt(ct.sum(held * held, axis=1, keepdims=True) / width + 1e-6)
    ct.store(out, (ct.bid(0), 0), held * scale * ct.load(weight, (0, 0), (1, width)))


@ct.kernel
def quantise_rows(x, out, scales, width: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0), 0), (1, width))
    scale = ct.max(ct.abs(held), axis=1, keepdims=True) / 127.0
    scaled = ct.floor(held / scale + 0.5)
    ct.store(out, (ct.bid(0), 0), ct.astype(ct.minimum(ct.maximum(scaled, -128.0), 127.0), ct.int8))
    ct.store(scales, (ct.bid(0),), scale.reshape((1,)))


@ct.kernel
def quantise(x, out, tile: ct.Constant[int]):
    held = ct.load(x, (ct.bid(0),), (tile,)) * 32.0
    ct.store(out, (ct.bid(0),), ct.astype(ct.minimum(ct.maximum(held, -128.0), 127.0), ct.int8))


@ct.kernel
def adam(p, g, m, v, rate: float, first: float, second: float, tile: ct.Constant[int]):
    at = ct.bid(0)
    gradient = ct.load(g, (at,), (tile,))
    mean = 0.9 * ct.load(m, (at,), (tile,)) + 0.1 * gradient
    square = 0.999 * ct.load(v, (at,), (tile,)) + 0.001 * gradient * gradient
    step = rate * (mean / first) / (ct.sqrt(square / second) + 1e-8)
    ct.store(m, (at,), mean)
    ct.store(v, (at,), square)
    ct.store(p, (at,), ct.load(p, (at,), (tile,)) - step)


def _bodies() -> Row:
    count, near = 2048, 16
    x, y, z = (normal(count + i)[:count].contiguous() for i in range(3))
    out = tuple(torch.empty(count) for _ in range(3))

    def theirs(*axes: torch.Tensor) -> tuple[torch.Tensor, ...]:
        apart = [a[None, :] - a[:, None] for a in axes]
        square = apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2]
        weight = torch.rsqrt(square + 1e-4) ** 3
        return tuple((d * weight).sum(1) for d in apart)

    return Row(
        "forces between 2048 bodies",
        bodies,
        (count // near,),
        (x, y, z, *out, near, count),
        out,
        lambda: theirs(x.double(), y.double(), z.double()),
        {"torch": lambda: theirs(x, y, z), "torch.compile": compiled(theirs, x, y, z)},
        bound=1e-4,
    )


def _moments() -> Row:
    x, rows = normal(4096, 1024), 4096
    out = tuple(torch.empty(rows) for _ in range(3))

    def theirs(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        square = a * a
        return a.sum(1), square.sum(1), (square * a).sum(1)

    return Row(
        "three sums of rows, 4096 x 1024",
        moments,
        (rows,),
        (x, *out, 1024),
        out,
        lambda: theirs(x.double()),
        {"torch": lambda: theirs(x), "torch.compile": compiled(theirs, x)},
        bound=1e-4,
    )


def _roots(dtype: torch.dtype, bound: float) -> Row:
    x = normal(_LENGTH).abs().to(dtype) + 0.1
    out, other = torch.empty_like(x), torch.empty_like(x)
    kind = str(dtype).removeprefix("torch.")
    return Row(
        f"rsqrt of 4M {kind}",
        inverse_roots,
        (_LENGTH // _TILE,),
        (x, out, _TILE),
        (out,),
        lambda: (x.double().rsqrt(),),
        {
            "NumPy": lambda: np.divide(1, np.sqrt(array(x)), out=array(other)),
            "torch": lambda: torch.rsqrt(x, out=other),
            "torch.compile": compiled(torch.rsqrt, x),
        },
        bound=bound,
    )


def _rms() -> Row:
    x, weight = normal(4096, 1024), normal(1, 1024)
    out = torch.empty_like(x)

    def theirs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * torch.rsqrt((a * a).mean(1, keepdim=True) + 1e-6) * b

    return Row(
        "RMS norm, 4096 x 1024",
        rms_norm,
        (4096,),
        (x, weight, out, 1024),
        (out,),
        lambda: (theirs(x.double(), weight.double()),),
        {
            "torch": lambda: torch.nn.functional.rms_norm(x, (1024,), weight[0], 1e-6),
            "torch.compile": compiled(theirs, x, weight),
        },
        bound=1e-5,
    )


def _quantise_rows() -> Row:
    x = normal(4096, 1024)
    out, scales = torch.empty(4096, 1024, dtype=torch.int8), torch.empty(4096)

    def theirs(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scale = a.abs().amax(1, keepdim=True) / 127.0
        scaled = torch.floor(a / scale + 0.5)
        return scaled.clamp(-128.0, 127.0).to(torch.int8), scale[:, 0]

    return Row(
        "rows to i8 by their maximum, 4096 x 1024",
        quantise_rows,
        (4096,),
        (x, out, scales, 1024),
        (out, scales),
        lambda: theirs(x),
        {"torch": lambda: theirs(x), "torch.compile": compiled(theirs, x)},
    )


def _quantise() -> Row:
    x = normal(_LENGTH)
    out = torch.empty(_LENGTH, dtype=torch.int8)

    def theirs(a: torch.Tensor) -> torch.Tensor:
        return (a * 32.0).clamp(-128.0, 127.0).to(torch.int8)

    return Row(
        "4M f32 to i8 by a fixed scale",
        quantise,
        (_LENGTH // _TILE,),
        (x, out, _TILE),
        (out,),
        lambda: (theirs(x),),
        {"torch": lambda: theirs(x), "torch.compile": compiled(theirs, x)},
    )


def _adam() -> Row:
    made = [normal(_LENGTH), normal(_LENGTH + 1)[1:].contiguous(), normal(_LENGTH) * 0.1]
    start = [*made, normal(_LENGTH).abs() * 0.01]
    ours, theirs_too = ([a.clone() for a in start] for _ in range(2))

    def step(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> None:
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        p.sub_(1e-3 * (m / 0.5) / (torch.sqrt(v / 0.25) + 1e-8))

    def right() -> tuple[torch.Tensor, ...]:
        made = [a.double() for a in start]
        step(*made)
        return made[0], made[2], made[3]

    return Row(
        "a step of Adam, 4M f32",
        adam,
        (_LENGTH // _TILE,),
        (*ours, 1e-3, 0.5, 0.25, _TILE),
        (ours[0], ours[2], ours[3]),
        right,
        {"torch": lambda: step(*theirs_too), "torch.compile": compiled(step, *theirs_too)},
        bound=1e-5,
    )


def rows() -> list[Callable[[], Row]]:
    return [
        _bodies,
        _moments,
        lambda: _roots(torch.float32, 1e-6),
        lambda: _roots(torch.float64, 1e-14),
        _rms,
        _quantise_rows,
        _quantise,
        _adam,
    ]
