"""A small sum of four arrays, again and again; ``python -m benchmarks.peers.small_launches``.

It begins by telling its ``versions``, or which package is ``missing``. For a line like ``triton 100`` it
computes the sum that many times, and tells the ``seconds`` that this took.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from benchmarks.peers.protocol import say

os.environ["TRITON_INTERPRET"] = "1"
try:
    import torch
    import triton
    import triton.language as tl
except ImportError as error:
    say(missing=error.name)
    raise SystemExit from None

_LENGTH = 16


@triton.jit
def _add_four(a, b, c, d, out, count: tl.constexpr):
    at = tl.program_id(0) * count + tl.arange(0, count)
    total = tl.load(a + at) + tl.load(b + at) + tl.load(c + at) + tl.load(d + at)
    tl.store(out + at, total)


def _by_operators(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor, out) -> None:
    torch.add(a, b, out=out)
    out.add_(c)
    out.add_(d)


def _jobs() -> dict[str, Callable[[], object]]:
    arrays = [torch.ones(_LENGTH) for _ in range(5)]
    launch = _add_four[(1,)]
    return {
        "triton": lambda: launch(*arrays, _LENGTH),
        "torch": lambda: _by_operators(*arrays),
    }


if __name__ == "__main__":
    say(versions={"triton": triton.__version__, "torch": torch.__version__})
    jobs = _jobs()
    for line in sys.stdin:
        name, count = line.split()
        job = jobs[name]
        started = time.perf_counter()
        for _ in range(int(count)):
            job()
        say(seconds=time.perf_counter() - started)
