"""Printing, assertions and grid dependency control."""

from __future__ import annotations

import cuda.tile as ct
import numpy as np
from tests.corpus import Launch
from tests.corpus.cutile._table import KernelTable, array, canvas, integers, scalar, uniform

KERNELS = KernelTable("effects")


@KERNELS.add(
    scalar(ct.int32),
    array(ct.int32),
    # Before 13.2 prints take turns by a lock in global memory.
    ops="print_tko global get_global atomic_cas_tko loop break join_tokens",
    launch=Launch(
        (3, 1, 1),
        lambda rng: {"n": np.int32(-4), "out": canvas(3, np.int32)},
        lambda given: {"out": np.arange(3, dtype=np.int32) - 4},
        prints=("block 0 of 3: -4", "block 1 of 3: -3", "block 2 of 3: -2"),
    ),
)
@ct.kernel
def print_scalars(n, out):
    i = ct.bid(0)
    print(f"block {i} of {ct.num_blocks(0)}: {n + i}")
    ct.store(out, (i,), n + i)


@KERNELS.add(array(ct.float32, 2), array(ct.int64), ops="print_tko")
@ct.kernel
def print_tiles(x, n):
    tile = ct.load(x, (0, 0), (2, 4))
    print("tile", tile, ct.load(n, (0,), (4,)), sep=" | ", end="!\n")
    ct.printf("%5.2f %e\n", tile, tile)
    ct.printf("%x %d\n", ct.load(n, (0,), (2,)), ct.bid(0))
    ct.printf("no values, 100%%\n")


@KERNELS.add(
    array(ct.float32),
    array(ct.float32),
    ops="assert cmpf cmpi",
    launch=Launch(
        (2, 1, 1),
        lambda rng: {"x": uniform(rng, 16, 0.5, 2), "out": canvas(16)},
        lambda given: {"out": given["x"] + given["x"]},
    ),
)
@ct.kernel
def assertions(x, out):
    i = ct.bid(0)
    tile = ct.load(x, (i,), (8,))
    ct.assert_(tile > 0)
    ct.assert_(ct.full((), i, ct.int32) < 2, 'block "number" too large, 100%\n')
    ct.store(out, (i,), tile + tile)


@KERNELS.add(
    array(ct.int32),
    array(ct.int32),
    since="13.4",
    ops="gdc_wait_tko gdc_launch_dependents_tko",
    launch=Launch(
        (2, 1, 1),
        lambda rng: {"x": integers(rng, 16, 0, 99), "out": canvas(16, np.int32)},
        lambda given: {"out": given["x"] * 2},
    ),
)
@ct.kernel
def grid_dependency(x, out):
    i = ct.bid(0)
    ct.grid_dependency_control_wait()
    tile = ct.load(x, (i,), (8,))
    ct.grid_dependency_control_launch_dependents()
    ct.store(out, (i,), tile * 2)


@KERNELS.add(since="13.4", ops="gdc_wait_tko gdc_launch_dependents_tko return")
@ct.kernel
def nothing_but_dependencies():
    ct.grid_dependency_control_launch_dependents()
    ct.grid_dependency_control_wait()


@KERNELS.add(ops="return entry")
@ct.kernel
def empty():
    pass
