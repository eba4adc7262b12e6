"""Loops without products: what they load comes ahead, too, with the same results."""

from __future__ import annotations

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from xdsl.dialects import scf

from tilewright import LaunchOptions
from tilewright.dialects.nv_tileaa.ops.memory import TiledLoadOp
from tilewright.dialects.nv_tileas.asynchronous import AsyncTiledLoadOp
from tilewright.dialects.nv_tileas.ops import AllocTensorOp
from tilewright.machine.launch import Program
from tilewright.passes import run_pipeline
from tilewright.passes.tileas.pipeline import pipeline
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse


def sums(dims: tuple[int, int, str], at: str = "%s, %zero") -> str:
    """c = the sum of ``steps`` tiles of a."""
    rows, columns, element = dims
    ty = f"tile<{rows}x{columns}x{element}>"
    return K.entry(
        {"a": dims, "c": dims},
        f"  %nothing = constant <{element}: 0.0> : {ty}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({ty}) {{\n"
        + K.load("l", "a", at, dims)
        + f"    %next = addf %acc, %l rounding<nearest_even> : {ty}\n"
        f"    continue %next : {ty}\n  }}\n" + K.store("sum", "c", "%zero, %zero", dims),
    )


CASES = {
    "wide": sums((32, 64, "f32")),
    "f16": sums((32, 64, "f16")),
    "narrow": sums((4, 64, "f32")),
    "across": sums((32, 64, "f16"), "%zero, %s"),
}


@pytest.mark.parametrize("name", CASES)
def test_schedules_keep_the_result(name: str) -> None:
    """On the reference machine, bit by bit, for loops of 0 to 4 rounds, whole tiles and cut ones."""
    text = CASES[name]
    module = K.lowered(text, "tileaa,tileas-assign-layouts,tileas-pipeline,tileas-expand")
    ops = list(module.walk())
    assert sum(isinstance(op, AsyncTiledLoadOp) for op in ops) == 3
    loops = [op for op in ops if isinstance(op, scf.ForOp)]
    assert not [op for loop in loops for op in loop.walk() if isinstance(op, TiledLoadOp)]
    for steps in (0, 1, 2, 4):
        for extent in (K.WIDTH, K.WIDTH - 24):
            assert K.outcome(module, text, steps, extent) == K.outcome(
                parse(text), text, steps, extent
            ), (steps, extent)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("name", CASES)
def test_schedules_as_threads(name: str, arch: str) -> None:
    """On the simulator, which finds races, under two orders of warps."""
    text = CASES[name]
    expected = K.arguments(text, 4, K.WIDTH - 24)
    Program(parse(text)).launch("k", 1, expected)
    program = TileProgram(parse(text), arch)
    for seed in range(2):
        given = K.arguments(text, 4, K.WIDTH - 24)
        program.launch("k", 1, given, LaunchOptions(seed=seed))
        np.testing.assert_array_equal(given[1], expected[1])
    assert program.fallbacks == {}


def test_what_a_loop_writes_is_not_loaded_ahead() -> None:
    """A round loads what the one before has stored, and tokens say so."""
    dims = (32, 64, "f32")
    ty = "tile<32x64xf32>"
    body = (
        "  %start = make_token : token\n"
        "  %end = for %s in (%zero to %steps, step %one) : tile<i32> "
        "iter_values(%before = %start) -> (token) {\n"
        f"    %l, %t = load_view_tko weak %at[%s, %zero] token = %before : {K.view(*dims)}, tile<i32> -> {ty}, token\n"
        f"    %d = addf %l, %l rounding<nearest_even> : {ty}\n"
        "    %next = addi %s, %one : tile<i32>\n"
        f"    %u = store_view_tko weak %d, %at[%next, %zero] token = %t : {ty}, {K.view(*dims)}, tile<i32> -> token\n"
        "    continue %u : token\n  }\n"
    )
    text = K.entry({"a": dims}, body)
    module = K.lowered(text, "tileaa,tileas-assign-layouts")
    func = next(op for op in module.walk() if op.name == "nv_tileaa.func")
    why = pipeline(func, 3, 99 << 10)  # pyright: ignore[reportArgumentType]
    assert why == ["'l' is not prefetched: it must follow another access of the loop"]


def test_rings_of_products_come_first() -> None:
    """A ring of a loop without products has half of the shared memory at most, of what other rings leave."""
    module = K.lowered(CASES["wide"], "tileaa,tileas-assign-layouts")
    for kilobytes, stages in ((99, 3), (40, 2), (24, None)):
        again = module.clone()
        run_pipeline(
            again,
            f"tileas-pipeline{{shared-bytes={kilobytes << 10}}},tileas-expand",
            verify_each=True,
        )
        rings = [op.result.type for op in again.walk() if isinstance(op, AllocTensorOp)]
        found = [ty.stages for ty in rings]  # pyright: ignore[reportAttributeAccessIssue]
        assert found == ([stages] if stages else []), kilobytes


@pytest.mark.parametrize(("iterations", "stages"), [(2, None), (4, None), (5, 3)])
def test_loops_of_few_iterations_have_no_ring(iterations: int, stages: int | None) -> None:
    """They are unrolled, so that their loads start side by side without one."""
    text = CASES["wide"].replace("to %steps,", "to %few,")
    text = text.replace(
        "  %nothing = ", f"  %few = constant <i32: {iterations}> : tile<i32>\n  %nothing = "
    )
    module = K.lowered(text, "tileaa,tileas-assign-layouts,tileas-pipeline,tileas-expand")
    rings = [op.result.type for op in module.walk() if isinstance(op, AllocTensorOp)]
    assert [ty.stages for ty in rings] == ([stages] if stages else [])  # pyright: ignore[reportAttributeAccessIssue]


def test_a_ring_has_no_more_stages_than_iterations() -> None:
    text = K.product().replace("to %steps,", "to %two,")
    module = K.lowered(text, "tileaa,tileas-assign-layouts,tileas-pipeline,tileas-expand")
    rings = [op.result.type for op in module.walk() if isinstance(op, AllocTensorOp)]
    assert [ty.stages for ty in rings] == [2, 2]  # pyright: ignore[reportAttributeAccessIssue]
    for extent in (K.WIDTH, 40):
        assert K.outcome(module, text, 2, extent) == K.outcome(parse(text), text, 2, extent)
