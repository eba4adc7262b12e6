"""Matrix products of all shapes: few rows, f64, batches of small ones, odd extents, narrow floats."""

from __future__ import annotations

from collections.abc import Callable

import cuda.tile as ct
import numpy as np
import torch

from benchmarks.unseen_rows import Job, Row, array, integers, normal


@ct.kernel
def product(a, b, c, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), dtype=c.dtype)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        left = ct.load(a, (i, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, j), (tk, tn), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (i, j), total)


@ct.kernel
def batched(a, b, c, m: ct.Constant[int], n: ct.Constant[int], k: ct.Constant[int]):
    i = ct.bid(0)
    left = ct.load(a, (i, 0, 0), (1, m, k)).reshape((m, k))
    right = ct.load(b, (i, 0, 0), (1, k, n)).reshape((k, n))
    total = ct.mma(left, right, ct.zeros((m, n), dtype=c.dtype))
    ct.store(c, (i, 0, 0), total.reshape((1, m, n)))


@ct.kernel
def batch_of_tiles(a, b, c, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int]):
    """Blocks of one matrix are far apart in the grid: its number runs fastest."""
    p, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.zeros((tm, tn), dtype=ct.float32)
    for k in range(ct.num_tiles(a, 2, (1, tm, tk))):
        left = ct.load(a, (p, i, k), (1, tm, tk), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (p, k, j), (1, tk, tn), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left.reshape((tm, tk)), right.reshape((tk, tn)), total)
    ct.store(c, (p, i, j), ct.astype(total, c.dtype).reshape((1, tm, tn)))


def _peers(a: torch.Tensor, b: torch.Tensor) -> dict[str, Job]:
    out = torch.matmul(a, b)
    peers: dict[str, Job] = {"torch": lambda: torch.matmul(a, b, out=out)}
    if a.dtype in (torch.float32, torch.float64):
        theirs = np.empty(out.shape, array(out).dtype)
        peers["NumPy"] = lambda: np.matmul(array(a), array(b), out=theirs)
    return peers


def _product(
    m: int, n: int, k: int, tiles: tuple[int, int, int], dtype: torch.dtype = torch.float32
) -> Row:
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    c = torch.empty(m, n, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    tm, tn, _ = tiles
    kind = str(dtype).removeprefix("torch.")
    return Row(
        f"product {m} x {n} x {k} {kind}, tiles {'x'.join(map(str, tiles))}",
        product,
        (-(-m // tm), -(-n // tn)),
        (a, b, c, *tiles),
        (c,),
        lambda: (a.double() @ b.double(),),
        _peers(a, b),
        bound=1e-13 if dtype == torch.float64 else 1e-5,
    )


def _batched(count: int, m: int, n: int, k: int, dtype: torch.dtype = torch.float32) -> Row:
    a, b = normal(count, m, k, dtype=dtype), normal(count, k, n, dtype=dtype)
    c = torch.empty(count, m, n, dtype=dtype)
    kind = str(dtype).removeprefix("torch.")
    return Row(
        f"{count} products {m} x {n} x {k} {kind}",
        batched,
        (count,),
        (a, b, c, m, n, k),
        (c,),
        lambda: (a.double() @ b.double(),),
        _peers(a, b),
        bound=1e-13 if dtype == torch.float64 else 1e-5,
    )


def _odd(
    extents: tuple[int, int, int], tiles: tuple[int, int, int], dtype: torch.dtype, bound: float
) -> Row:
    """64 products of extents that are no multiples of their tiles'."""
    (m, n, k), (tm, tn, _) = extents, tiles
    a, b = normal(64, m, k, dtype=dtype), normal(64, k, n, dtype=dtype)
    c = torch.empty(64, m, n, dtype=dtype)
    kind = str(dtype).removeprefix("torch.")
    return Row(
        f"64 products {m} x {n} x {k} {kind}, tiles {'x'.join(map(str, tiles))}",
        batch_of_tiles,
        (64, -(-m // tm), -(-n // tn)),
        (a, b, c, *tiles),
        (c,),
        lambda: (a.double() @ b.double(),),
        _peers(a, b),
        bound=bound,
    )


def _bytes(m: int, n: int, k: int, tiles: tuple[int, int, int]) -> Row:
    a, b = (integers(255, *dims).sub(127).to(torch.int8) for dims in ((m, k), (k, n)))
    c, other = torch.empty(m, n, dtype=torch.int32), torch.empty(m, n, dtype=torch.int32)
    tm, tn, _ = tiles
    return Row(
        f"product {m} x {n} x {k} int8, tiles {'x'.join(map(str, tiles))}",
        product,
        (-(-m // tm), -(-n // tn)),
        (a, b, c, *tiles),
        (c,),
        lambda: (a.double() @ b.double(),),
        {"torch": lambda: torch._int_mm(a, b, out=other)},
    )


def rows() -> list[Callable[[], Row]]:
    f64, bf16, f16 = torch.float64, torch.bfloat16, torch.float16
    return [
        lambda: _product(8, 4096, 4096, (8, 64, 128)),
        lambda: _product(16, 4096, 4096, (16, 128, 64)),
        lambda: _product(1, 4096, 4096, (1, 128, 64)),
        lambda: _product(8, 4096, 4096, (16, 128, 64), bf16),
        lambda: _product(512, 512, 512, (64, 64, 32)),
        lambda: _product(512, 512, 512, (128, 128, 64)),
        lambda: _product(500, 700, 300, (64, 64, 32)),
        lambda: _product(1000, 1000, 1000, (128, 128, 64)),
        lambda: _product(768, 768, 768, (64, 64, 32), f64),
        lambda: _product(1024, 1024, 1024, (128, 128, 64), f64),
        lambda: _product(1024, 1024, 1024, (128, 128, 64), bf16),
        lambda: _product(512, 512, 512, (128, 128, 64), f16),
        lambda: _batched(4096, 32, 32, 32),
        lambda: _batched(2048, 64, 64, 16),
        lambda: _batched(1024, 16, 16, 64, f64),
        lambda: _odd((65, 65, 65), (64, 64, 32), torch.float32, 1e-5),
        lambda: _odd((100, 100, 100), (64, 64, 32), torch.float32, 1e-5),
        lambda: _odd((200, 200, 200), (64, 64, 32), torch.float32, 1e-5),
        lambda: _odd((77, 130, 50), (128, 128, 64), bf16, 1e-2),
        lambda: _odd((127, 127, 127), (64, 64, 32), bf16, 1e-2),
        lambda: _odd((100, 75, 90), (32, 32, 32), f16, 1e-2),
        lambda: _bytes(1024, 1024, 1024, (128, 128, 64)),
        lambda: _bytes(333, 777, 555, (64, 64, 32)),
        lambda: _product(4096, 1, 4096, (64, 1, 64)),
        lambda: _product(4096, 1, 4096, (64, 1, 64), bf16),
        lambda: _product(4096, 4, 2048, (64, 4, 64), bf16),
    ]
