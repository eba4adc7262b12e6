"""Updates of elements anywhere, whose addresses go to a list first: none is taken out of a vector, and all are made."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, ptr, tile
from tilewright.cpu import Program
from tilewright.cpu.compile import compile_kernel
from tilewright.lowering import lower_to_tileaa

BLOCKS, BINS = 24, 23
SHAPES = [(16,), (256,), (64, 4), (4, 8, 2), (32, 1)]


def _kernel(shape: tuple[int, ...], *, ones: bool, masked: bool) -> Any:
    """``bins[x[i]] += values[i]``, or 1, where ``x[i]`` is no bin only if the mask is off."""
    module, count = ModuleBuilder(), prod(shape)
    with module.entry("k", {"x": ptr("i8"), "values": ptr("i32"), "bins": ptr("i32")}) as k:
        block, _, _ = k.get_tile_block_id()

        def held(base: Any) -> Any:
            view = k.make_tensor_view(base, shape=[BLOCKS * count], strides=[1])
            found, _ = k.load_view_tko(k.partition(view, tile=(count,)), [block])
            return k.reshape(found, shape=shape)

        x = k.exti(held(k.args.x), to="i32", signedness="signed")
        values = k.constant(1, tile(shape, "i32")) if ones else held(k.args.values)
        base = k.reshape(k.args.bins, shape=(1,) * len(shape))
        on = []
        if masked:
            limit = k.constant(BINS, tile(shape, "i32"))
            on = [k.cmpi(x, limit, comparison_predicate="less_than", signedness="signed")]
        k.atomic_rmw_tko(
            k.offset(k.broadcast(base, shape=shape), x),
            values,
            *on,
            mode="add",
            memory_ordering_semantics="relaxed",
            memory_scope="device",
        )
    return module.build()


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("ones", [False, True], ids=["values", "ones"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_updates_are_made(shape: tuple[int, ...], ones: bool, masked: bool):
    rng = np.random.default_rng(len(shape))
    count = BLOCKS * prod(shape)
    x = rng.integers(0, BINS + (9 if masked else 0), count, np.int8)
    x[: count // 4] = 5  # one after the other to the same
    values = rng.integers(-99, 99, count, np.int32)
    module = _kernel(shape, ones=ones, masked=masked)
    expected = np.zeros(BINS + 9, np.int64)
    np.add.at(expected, x, 1 if ones else values)
    for threads in (1, 2):
        bins = np.zeros(BINS, np.int32)
        program = Program(module, options=LaunchOptions(threads=threads))
        program.launch("k", BLOCKS, (x, values, bins))
        assert (bins == expected[:BINS]).all()


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
def test_no_address_is_taken_out_of_a_vector(masked: bool):
    """The code is as long for many elements as for few."""
    lengths = []
    for shape in ((128,), (4096,)):
        module = lower_to_tileaa(_kernel(shape, ones=True, masked=masked)).module
        code = compile_kernel(module).llvm_ir
        assert "extractelement" not in code
        lengths.append(code.count("\n"))
    assert lengths[1] < 1.1 * lengths[0]
