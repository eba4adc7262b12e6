"""Kernels whose blocks wait for one another: locks as in Triton's and NVIDIA's samples of LayerNorm, and a scan
whose blocks look at what those before them have written."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import Row, array, normal


@ct.kernel
def layer_norm_backward(
    dx,
    dy,
    x,
    weight,
    mean,
    rstd,
    dw,
    db,
    locks,
    begun,
    groups: ct.Constant[int],
    width: ct.Constant[int],
):
    row = ct.bid(0)
    gradient = ct.load(dy, (row, 0), (1, width)).reshape((width,))
    scale = ct.load(rstd, (row,), (1,)).item()
    held = ct.load(x, (row, 0), (1, width)).reshape((width,))
    normal_form = (held - ct.load(mean, (row,), (1,)).item()) * scale
    weighted = ct.load(weight, (0,), (width,)) * gradient
    along, level = ct.sum(normal_form * weighted) / width, ct.sum(weighted) / width
    own = (weighted - normal_form * along - level) * scale
    ct.store(dx, (row, 0), own.reshape((1, width)))
    slot, part, bias = row % groups, gradient * normal_form, gradient
    while ct.atomic_cas(locks, slot, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) == 1:
        pass
    if ct.gather(begun, slot) == 0:
        ct.scatter(begun, slot, 1)
    else:
        part = part + ct.load(dw, (slot, 0), (1, width)).reshape((width,))
        bias = bias + ct.load(db, (slot, 0), (1, width)).reshape((width,))
    ct.store(dw, (slot, 0), part.reshape((1, width)))
    ct.store(db, (slot, 0), bias.reshape((1, width)))
    ct.atomic_xchg(locks, slot, 0, memory_order=ct.MemoryOrder.RELEASE)


@ct.kernel
def scan_in_a_chain(x, out, sums, ready, tile: ct.Constant[int]):
    block = ct.bid(0)
    held = ct.cumsum(ct.load(x, (block,), (tile,)), axis=0)
    total = ct.sum(ct.load(x, (block,), (tile,)))
    before = ct.float32(0.0)
    if block > 0:
        while ct.atomic_cas(ready, block - 1, 1, 1, memory_order=ct.MemoryOrder.ACQUIRE) != 1:
            pass
        before = ct.gather(sums, block - 1)
    ct.scatter(sums, block, before + total)
    ct.atomic_xchg(ready, block, 1, memory_order=ct.MemoryOrder.RELEASE)
    ct.store(out, (block,), held + before)


def _layer_norm(rows: int, width: int) -> Row:
    groups = 64
    x, dy, weight = normal(rows, width), normal(rows, width), torch.rand(width)
    mean, rstd = x.mean(1), torch.rsqrt(x.var(1, unbiased=False) + 1e-5)
    dx, dw, db = torch.empty_like(x), torch.zeros(groups, width), torch.zeros(groups, width)
    locks, begun = (torch.zeros(groups, dtype=torch.int32) for _ in range(2))
    bias = torch.zeros(width)

    def peer() -> tuple[torch.Tensor, ...]:
        columns = mean.view(-1, 1), rstd.view(-1, 1)
        return torch.ops.aten.native_layer_norm_backward(
            dy, x, [width], *columns, weight, bias, [True] * 3
        )

    return Row(
        f"LayerNorm backward with locks, {rows} x {width} f32",
        layer_norm_backward,
        (rows,),
        (dx, dy, x, weight, mean, rstd, dw, db, locks, begun, groups, width),
        (dx,),
        lambda: (peer()[0],),
        {"torch": peer},
        bound=1e-5,
        clear=begun.zero_,
    )


def _scan() -> Row:
    tile, blocks = 4096, 512
    x = torch.rand(tile * blocks, generator=torch.Generator().manual_seed(0))
    out, sums = torch.empty_like(x), torch.zeros(blocks)
    ready = torch.zeros(blocks, dtype=torch.int32)
    return Row(
        "prefix sums of 2M f32 in a chain of blocks",
        scan_in_a_chain,
        (blocks,),
        (x, out, sums, ready, tile),
        (out,),
        lambda: (x.double().cumsum(0),),
        {"NumPy": lambda: np.cumsum(array(x)), "torch": lambda: x.cumsum(0)},
        bound=1e-4,
        clear=ready.zero_,
    )


def rows() -> list[Callable[[], Row]]:
    return [lambda: _layer_norm(4096, 1024), lambda: _layer_norm(1024, 4096), _scan]
