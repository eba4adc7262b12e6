"""``sink-stores``: which stores move into branches, and that results stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.scf import IfOp

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import plan_text
from tilewright.dialects.nv_tileaa.ops.memory import Store
from tilewright.lowering import lower_to_tileaa
from tilewright.passes import run_pipeline

LOWER = "lower-cuda-tile-to-tileaa"
PASSES = f"{LOWER},merge-equal,sink-stores"
ROWS, WIDTH = 4, 96
CASES = {
    "added to what is there": 2,
    "two of them": 4,
    "another store behind": 2,
    "an inner branch": 3,
    # What follows stays where it is.
    "read again": 0,
    "another store between": 0,
    "a load between": 0,
    "an ordered store": 0,
    "of something else": 0,
}
"""How many stores stand in branches at last."""


def _kernel(case: str) -> Any:
    """A row of y is that of x where its number is below a limit, and else has it added."""
    module = ModuleBuilder()
    with module.entry(
        "k", {"x": ptr("f32"), "y": ptr("f32"), "z": ptr("f32"), "limit": "i32"}
    ) as k:
        row, _, _ = k.get_tile_block_id()

        def rows(base: Value, **how: Any) -> Any:
            whole = k.make_tensor_view(base, shape=[ROWS, WIDTH], strides=[WIDTH, 1])
            return k.partition(whole, tile=(1, 128), **how)

        x, token = k.load_view_tko(rows(k.args.x, padding="zero"), [row, 0])

        def first(k: Builder) -> tuple[Value, Value, Value]:
            return x, x * 2, token

        def later(k: Builder) -> tuple[Value, Value, Value]:
            held, one = k.load_view_tko(rows(k.args.y, padding="zero"), [row, 0])
            other, two = k.load_view_tko(rows(k.args.z, padding="zero"), [row, 0])
            added = x + held
            if case == "an inner branch":
                (added,) = k.if_(row == 3, lambda k: (added,), lambda k: (added + 1.0,))
            return added, x + other, k.join_tokens([one, two])

        y, z, token = k.if_(row < k.args.limit, first, later)
        if case == "another store between":
            token = k.store_view_tko(x, rows(k.args.z), [row, 0], token=token)
        if case == "a load between":
            _, token = k.load_view_tko(rows(k.args.x), [row, 0], token=token)
        how: dict[str, Any] = {}
        if case == "an ordered store":
            how = {"memory_ordering_semantics": "relaxed", "memory_scope": "device"}
        written = x if case == "of something else" else y
        target = rows(k.args.y)
        token = k.store_view_tko(written, target, [row, 0], token=token, **how)
        if case == "two of them":
            k.store_view_tko(z, rows(k.args.z), [row, 0], token=token)
        if case == "another store behind":
            k.store_view_tko(x, rows(k.args.z), [row, 0], token=token)
        if case == "read again":
            total = k.reduce(y, 1, 0.0, lambda k, a, b: a + b)
            spread = k.broadcast(k.reshape(total, shape=(1, 1)), shape=(1, 128))
            k.store_view_tko(spread, rows(k.args.z), [row, 0], token=token)
    return module.build()


def _in_branches(module: Any) -> int:
    branches = [op for op in module.walk() if isinstance(op, IfOp)]
    return len({id(op) for each in branches for op in each.walk() if isinstance(op, Store)})


@pytest.mark.parametrize("case", CASES)
def test_what_moves_and_that_results_are_the_same(case: str) -> None:
    kernel = _kernel(case)
    after = run_pipeline(kernel, PASSES, verify_each=True)
    assert _in_branches(run_pipeline(kernel, LOWER)) == 0
    assert _in_branches(after) == CASES[case]
    program = Program(kernel, options=LaunchOptions(threads=1))
    for limit in (0, 2, 9):
        generator = np.random.default_rng(limit)
        given = generator.integers(-9, 9, (3, ROWS, WIDTH)).astype(np.float32)
        found: list[bytes] = []
        for module in (lower_to_tileaa(kernel).module, after, None):
            x, y, z = given.copy()
            if module is None:
                program.launch("k", ROWS, (x, y, z, limit))
            else:
                tilewright.run(module, "k", (ROWS,), (x, y, z, limit))
            found.append(y.tobytes() + z.tobytes())
        assert found[0] == found[1] == found[2]


def test_what_is_added_in_place_needs_no_buffer() -> None:
    assert "buffer" not in plan_text(
        run_pipeline(_kernel("added to what is there"), PASSES)  # pyright: ignore[reportArgumentType]
    )
