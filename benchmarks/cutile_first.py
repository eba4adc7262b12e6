"""The first launch of a program: ``python -m benchmarks.cutile_first MACHINE {torch,plain}``.

Prints one line of JSON with seconds: ``front_end`` for cuTile's own front end, its imports included
(it imports torch, where that is installed, unless the program has done so already: ``torch``);
``ready`` for choosing the machine, which imports what its launches need; ``whole`` for the launch; and the same
for the launch of a second kernel, ``next_front_end`` and ``next_whole``. The time that the kernels run is left
out.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

if sys.argv[2] == "torch":
    import torch  # noqa: F401  (what many programs begin with)

import cuda.tile as ct
import numpy as np

from tilewright.cutile import on
from tilewright.cutile.frontend import FrontEnd, front_end

_SIZE = 256


@ct.kernel
def product(a, b, c, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, (i, j), total)


class _Watch:
    """Adds up the time that cuTile's front end takes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        compile_kernel = FrontEnd.compile

        def timed(front: FrontEnd, *arguments: Any) -> Any:
            started = time.perf_counter()
            try:
                return compile_kernel(front, *arguments)
            finally:
                self.seconds += time.perf_counter() - started

        FrontEnd.compile = timed  # pyright: ignore[reportAttributeAccessIssue]


def _launch(tile: tuple[int, int, int]) -> float:
    a = np.ones((_SIZE, _SIZE), np.float16)
    c = np.zeros((_SIZE, _SIZE), np.float32)
    grid = (_SIZE // tile[0], _SIZE // tile[1])
    started = time.perf_counter()
    ct.launch(0, grid, product, (a, a, c, *tile))
    seconds = time.perf_counter() - started
    assert (c == _SIZE).all()
    return seconds


def main() -> None:
    watch = _Watch()
    started = time.perf_counter()
    front_end()
    imported = time.perf_counter()
    with on(sys.argv[1]):
        facts = {"ready": time.perf_counter() - imported}
        rounds = (("", (64, 64, 32), imported - started), ("next_", (64, 64, 64), 0.0))
        for prefix, tile, imports in rounds:
            watch.seconds = 0.0
            first, again = _launch(tile), _launch(tile)
            facts[f"{prefix}front_end"] = imports + watch.seconds
            facts[f"{prefix}whole"] = imports + first - again
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
