"""Random kernels of products, rings, folds and accesses leave the same bits wherever they run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.passes.generator_scheduled import scheduled_arguments, scheduled_kernel
from xdsl.dialects.builtin import ModuleOp

from tilewright import LaunchOptions
from tilewright.cpu import Program as CpuProgram
from tilewright.launching.threads import LoweredProgram
from tilewright.machine import Program as Reference
from tilewright.passes import run_pipeline
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

pytestmark = pytest.mark.usefixtures("verified_threads")

#: Programs in every run, and with --long.
USUAL, LONG, BATCH = 24, 6000, 100
SHARED_BYTES = 227 << 10
Leg = Callable[[str], object]


def _passes(level: str) -> Leg:
    def make(text: str) -> Reference:
        module = parse(text)
        run_pipeline(module, level)
        return Reference(module)

    return make


def _schedule(text: str) -> Reference:
    """The level of ``nv_tileas`` on the reference machine, which fills stages with noise."""
    module = LoweredProgram(parse(text), "sm_90a", SHARED_BYTES).scheduled("k").module
    assert isinstance(module, ModuleOp)
    return Reference(module)


def _simulator(arch: str, optimization: int) -> Leg:
    return lambda text: TileProgram(
        parse(text), arch, options=LaunchOptions(optimization=optimization)
    )


def _cpu(*, checked: bool) -> Leg:
    return lambda text: CpuProgram(parse(text), options=LaunchOptions(checked=checked))


#: What makes a program of a kernel's text. The scheduled path is looked at most.
LEGS: dict[str, Leg] = {
    "sim:sm_90a": _simulator("sm_90a", 1),
    "cpu-checked": _cpu(checked=True),
    "sim:sm_80 -O0": _simulator("sm_80", 0),
    "nv_tileas": _schedule,
    "sim:sm_120a": _simulator("sm_120a", 1),
    "cpu": _cpu(checked=False),
    "sim:sm_90a -O0": _simulator("sm_90a", 0),
    "O3": _passes("O3"),
    "sim:sm_80": _simulator("sm_80", 1),
    "O1": _passes("O1"),
    "sim:sm_120a -O0": _simulator("sm_120a", 0),
    "O2": _passes("O2"),
}


def arrays_after(program: object, seed: int) -> list[np.ndarray]:
    grid, values = scheduled_arguments(seed)
    program.launch("k", grid, values)  # pyright: ignore[reportAttributeAccessIssue]
    return [value for value in values if isinstance(value, np.ndarray)]


def check_seed(seed: int, legs: list[str]) -> None:
    text = scheduled_kernel(seed)
    expected = arrays_after(Reference(parse(text)), seed)
    for leg in legs:
        program = LEGS[leg](text)
        for found, wanted in zip(arrays_after(program, seed), expected, strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=f"{seed} {leg}")
        if isinstance(program, TileProgram):
            assert program.fallbacks == {}, f"{seed} {leg}"


def rotated(seed: int, count: int) -> list[str]:
    """So many legs, other ones for the next seed; all come in turn."""
    names = list(LEGS)
    return [names[(seed * count + number) % len(names)] for number in range(count)]


@pytest.mark.rotates(5)
@pytest.mark.parametrize("seed", range(USUAL))
def test_results_are_the_same_everywhere(seed: int) -> None:
    check_seed(seed, rotated(seed, 3))


@pytest.mark.parametrize("seed", [500603, 500738])
def test_what_was_wrong_once(seed: int) -> None:
    """Loops whose analyses were first asked while they were rewritten."""
    check_seed(seed, ["sim:sm_80", "sim:sm_120a"])


def test_an_index_of_a_loop_inside_is_not_computed_before_the_loop_around() -> None:
    """The CPU packs operands for the loop around, whose slots it chose by the counter of the loop inside."""
    check_seed(9100082, ["cpu"])


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 1000 + LONG, BATCH))
def test_results_of_many_are_the_same_everywhere(first: int) -> None:
    for seed in range(first, first + BATCH):
        check_seed(seed, rotated(seed, 2))


def test_programs_hold_what_they_promise() -> None:
    """Rings, products by the tensor cores and of other types, and conversions of layouts are all there."""
    missing = {"ring", "product", "layout"}
    for seed in range(16):
        program = LoweredProgram(parse(scheduled_kernel(seed)), "sm_90a", SHARED_BYTES)
        missing -= {remark.kind for remark in program.remarks("k")}
        if not missing:
            break
    assert not missing
