"""Kernels of any size for the measurements."""

from __future__ import annotations

import tilewright
from tilewright.builder import ModuleBuilder, ptr

#: Operations of one repetition of the body below.
OPS_PER_STEP = 10


def kernel(steps: int):
    """A module with one kernel of about ``OPS_PER_STEP * steps`` operations."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "n": "i32"}) as k:
        view = k.make_tensor_view(k.args.x, shape=[k.args.n, 64], strides=[64, 1])
        tiles = k.partition(view, tile=(16, 64), padding="zero")
        row, _, _ = k.get_tile_block_id()
        value, token = k.load_view_tko(tiles, [row, 0])
        for step in range(steps):
            scaled = k.mulf(value, 1.0 + step)
            shifted = k.addf(scaled, value, flush_to_zero=True)
            largest = k.reduce(shifted, 1, float("-inf"), lambda b, e, best: b.maxf(e, best))
            spread = k.broadcast(k.reshape(largest, shape=(16, 1)), shape=(16, 64))
            value = k.exp2(k.subf(shifted, spread))
        k.store_view_tko(value, tiles, [row, 0], token=token)
    return module.build()


def op_count(module) -> int:
    return sum(1 for _ in module.walk())


def texts(steps: int) -> tuple[str, str, bytes]:
    """(custom text, generic text, newest bytecode) of one kernel."""
    module = kernel(steps)
    return (
        tilewright.print_text(module),
        tilewright.print_text(module, generic=True),
        tilewright.write(module),
    )
