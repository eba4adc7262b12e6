"""Until when buffers stay: for all who read them, and for those who ask a formula of them again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr, tile
from tilewright.cpu import Program
from tilewright.cpu.codegen.analysis.plan import Plan
from tilewright.cpu.compile import compile_kernel, plan_text
from tilewright.lowering import lower_to_tileaa
from tilewright.machine import Program as Reference

_WIDTH, _TILE = 165, 64


def _gathered(many: int, *, stored: bool) -> Any:
    """Sums of rows that are looked up, a piece at a time; ``stored``: each piece is written, too."""
    module = ModuleBuilder()
    pointers = {"x": ptr("f32"), "places": ptr("i32"), "sums": ptr("f32"), "y": ptr("f32")}
    with module.entry("k", {**pointers, "rows": "i32", "width": "i32", "pieces": "i32"}) as k:
        block, _, _ = k.get_tile_block_id()
        rows, width = k.args.rows, k.args.width
        own = block * many + k.arange(many)

        def spread(base: Value, dims: tuple[int, ...]) -> Value:
            return k.broadcast(k.reshape(base, shape=(1,) * len(dims)), shape=dims)

        places, _ = k.load_ptr_tko(k.offset(spread(k.args.places, (many,)), own))
        columns = k.reshape(places, shape=(many, 1))
        begins = k.broadcast(columns.to("i64"), shape=(many, _TILE)) * width.to("i64")
        place, end = k.broadcast(columns, shape=(many, _TILE)), spread(rows, (many, _TILE))
        inside = k.cmpi(place, end, comparison_predicate="less_than", signedness="unsigned")

        def piece(k: Builder, c: Value, total: Value) -> list[Value]:
            row = k.reshape(c * _TILE + k.arange(_TILE), shape=(1, _TILE))
            column = k.broadcast(row, shape=(many, _TILE))
            on = inside & (column < width)
            flat = begins + column.to("i64")
            held, _ = k.load_ptr_tko(k.offset(spread(k.args.x, (many, _TILE)), flat), on, 0.0)
            if stored:
                k.store_ptr_tko(k.offset(spread(k.args.y, (many, _TILE)), flat), held + 1.0, on)
            return [total + k.reduce(held, 1, 0.0, lambda k, a, b: a + b)]

        zero, one = k.constant(0, "i32"), k.constant(1, "i32")
        begin = k.constant(0.0, tile((many,), "f32"))
        (total,) = k.for_(zero, k.args.pieces, one, [begin], piece)
        k.store_ptr_tko(k.offset(spread(k.args.sums, (many,)), own), total)
    return module.build()


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("many", [1, 2, 8, 64])
def test_places_stay_as_long_as_masks_of_them(many: int, stored: bool, checked: bool) -> None:
    """Loops ask the kept mask's formula which rows are read, and make buffers of their own."""
    rng = np.random.default_rng(many)
    rows = 5 * many
    x = rng.integers(-8, 8, (rows, _WIDTH)).astype(np.float32)
    places = rng.permutation(rows + many).astype(np.int32)[:rows]  # some are behind the end
    built = _gathered(many, stored=stored)
    found: list[tuple[np.ndarray[Any, Any], ...]] = []
    for program in (Program(built, LaunchOptions(checked=checked)), Reference(built)):
        sums, y = np.full(rows, -1, np.float32), np.full_like(x, -1)
        program.launch("k", 5, (x, places, sums, y, rows, _WIDTH, -(-_WIDTH // _TILE)))
        found.append((sums, y))
    for own, expected in zip(*found, strict=True):
        np.testing.assert_array_equal(own, expected)


def test_code_that_reads_a_buffer_too_late_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a plan forgets, no code reads what lies in another one's room."""

    def too_early(plan: Plan, value: Any) -> int:
        return plan.position_of(value)

    monkeypatch.setattr(Plan, "last_use", too_early)
    with pytest.raises(AssertionError, match="a buffer used until"):
        compile_kernel(lower_to_tileaa(_gathered(8, stored=False)).module)


def _behind_a_lock(*, written: bool) -> Any:
    """A tile that is read before a lock is taken and stored behind it; ``written``: to where it is from."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "lock": ptr("i32"), "y": ptr("f32")}) as k:

        def along(base: Value) -> Value:
            return k.offset(k.broadcast(k.reshape(base, shape=(1,)), shape=(64,)), k.arange(64))

        held, token = k.load_ptr_tko(along(k.args.x))
        place = k.reshape(k.args.lock, shape=(1,))
        one = k.constant(1, tile((1,), "i32"))
        _, token = k.atomic_rmw_tko(
            place,
            one,
            mode="add",
            memory_ordering_semantics="acq_rel",
            memory_scope="device",
            token=token,
        )
        token = k.store_ptr_tko(along(k.args.y), held + 1.0, token=token)
        if written:
            k.store_ptr_tko(along(k.args.x), held * 2.0, token=token)
    return module.build()


def test_only_what_is_written_is_kept_behind_a_lock() -> None:
    """Nobody can change the memory of an argument that the kernel does not write to."""
    for written in (False, True):
        text = plan_text(lower_to_tileaa(_behind_a_lock(written=written)).module)
        (held,) = (line for line in text.splitlines() if "nv_tileaa.load:" in line)
        assert (": buffer;" in held) == written
        x, lock, y = (
            np.arange(64, dtype=np.float32),
            np.zeros(1, np.int32),
            np.zeros(64, np.float32),
        )
        Program(_behind_a_lock(written=written)).launch("k", 3, (x, lock, y))
        assert lock[0] == 3
        assert (y == np.arange(64) * (4 if written else 1) + 1).all()
