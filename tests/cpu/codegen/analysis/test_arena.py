"""Where buffers lie in an arena."""

from __future__ import annotations

import random
from typing import Any

from tilewright.builder import ModuleBuilder, ptr
from tilewright.cpu.abi import ARENA_ALIGNMENT
from tilewright.cpu.codegen.analysis.arena import Arena, Slot
from tilewright.cpu.compile import compile_kernel
from tilewright.lowering import lower_to_tileaa

_ROWS, _STAGES = 64, 24


def test_live_buffers_never_overlap():
    generator = random.Random(5)
    arena, live = Arena(), list[Slot]()
    for now in range(2000):
        size = generator.choice((1, 64, 100, 4096, 12345))
        placed = arena.place(size, now, now + generator.choice((0, 1, 5, 60)))
        assert placed.offset % ARENA_ALIGNMENT == 0
        assert placed.size >= size
        assert placed.offset + placed.size <= arena.size
        live = [slot for slot in live if slot.last >= now]
        for slot in live:
            apart = slot.offset + slot.size <= placed.offset
            assert apart or placed.offset + placed.size <= slot.offset
        live.append(placed)


def test_dead_neighbours_make_room_together():
    arena = Arena()
    first, second = arena.place(64, 0, 1), arena.place(64, 0, 2)
    arena.place(64, 0, 9)
    both = arena.place(128, 3, 9)
    assert (both.offset, first.offset, second.offset) == (first.offset, 0, 64)
    assert arena.size == 192


def test_the_last_gap_grows():
    arena = Arena()
    arena.place(64, 0, 9)
    arena.place(64, 0, 1)
    assert arena.place(256, 2, 9).offset == 64
    assert arena.size == 64 + 256


def _stages(count: int) -> Any:
    """Tiles that are cut and joined in turn, each kept in a buffer."""
    module = ModuleBuilder()
    with module.entry("stages", {"x": ptr("f32"), "y": ptr("f32")}) as k:
        views = [
            k.partition(
                k.make_tensor_view(base, shape=[_ROWS, 64], strides=[64, 1]), tile=(_ROWS, 64)
            )
            for base in (k.args.x, k.args.y)
        ]
        zero, one = (k.constant(value, "i32") for value in (0, 1))
        values, _ = k.load_view_tko(views[0], [zero, zero])
        for _ in range(count):
            low, high = (k.extract(values, [zero, side], shape=(_ROWS, 32)) for side in (zero, one))
            values = k.cat(k.subf(low, high), k.addf(low, high), dim=1)
        k.store_view_tko(values, views[1], [zero, zero])
    return module.build()


def test_buffers_of_a_chain_take_turns():
    """A chain of tiles that are joined and cut again needs two buffers, however long it is."""
    compiled = compile_kernel(lower_to_tileaa(_stages(_STAGES)).module)
    assert compiled.arena_bytes <= 3 * _ROWS * 64 * 4
