"""Long code: it is cut into parts, compiling it takes work in proportion, and it computes the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmarks import long_code
from tests.cpu.codegen.support import load
from tests.cpu.codegen.test_random_tiles import check_seed

import tilewright
from tilewright.cpu.codegen import function, outlining, segments
from tilewright.cpu.compile import compile_kernel, plan_text
from tilewright.lowering import lower_to_tileaa


def _lowered(source: str) -> Any:
    module = tilewright.parse(source)
    tilewright.verify(module)
    return lower_to_tileaa(module).module


def _calls(work: Callable[[], object]) -> int:
    """How many calls of Python functions some work makes."""
    count = 0

    def tell(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(tell)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("rule", long_code.RULES.values(), ids=list(long_code.RULES))
def test_work_grows_with_the_code_and_not_faster(rule: Callable[[int], str]) -> None:
    # From 300 to 1,200, so that what all kernels cost, and what only short code does, matters little.
    modules = [_lowered(rule(count)) for count in (300, 1200)]
    short, long = (_calls(lambda module=module: compile_kernel(module)) for module in modules)
    assert long < 5 * short
    lengths = [len(compile_kernel(module).llvm_ir) for module in modules]
    assert lengths[1] < 5 * lengths[0]


@pytest.mark.parametrize("rule", long_code.RULES.values(), ids=list(long_code.RULES))
def test_functions_stay_short(rule: Callable[[int], str]) -> None:
    text = compile_kernel(_lowered(rule(1500))).llvm_ir
    lengths = [part.count("\n") for part in text.split("\ndefine ")[1:]]
    # What is left in the kernel's own function are calls, and numbers that several parts use.
    assert max(lengths) < 12_000


def test_operands_that_are_shared_are_not_walked_again_and_again() -> None:
    # There are more than 2**25 ways from the load to the store.
    module = _lowered(long_code.element_wise(45))
    assert _calls(lambda: compile_kernel(module)) < 200_000


def test_a_cut_keeps_what_crosses_it_and_no_more() -> None:
    lines = plan_text(_lowered(long_code.element_wise(480))).splitlines()
    kept = [line for line in lines if ": buffer;" in line]
    # At each of the ten cuts the last six values, of which some are used within.
    assert 10 <= len(kept) <= 80


@pytest.mark.parametrize("rule", long_code.RULES.values(), ids=list(long_code.RULES))
@pytest.mark.parametrize("count", [60, 330])
def test_long_code_computes_what_the_reference_machine_does(
    rule: Callable[[int], str], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlining, "LONG", 500)
    module = tilewright.parse(rule(count))
    numbers = np.random.default_rng(count).random(65536).astype(np.float32) - np.float32(0.5)
    arrays = [(numbers * np.float32(0.01), np.zeros(65536, np.float32)) for _ in range(2)]
    assert load(lower_to_tileaa(module).module).run((1,), arrays[0]) == 0
    tilewright.run(module, "k", (1,), arrays[1], machine="reference")
    # Sums of 1,024 numbers are taken in another order.
    np.testing.assert_allclose(arrays[0][1], arrays[1][1], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("seed", range(2000, 2040))
def test_code_cut_everywhere_computes_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_DEPTH_LIMIT", 1 + seed % 3)
    monkeypatch.setattr(segments, "_PART_LIMIT", 4)
    monkeypatch.setattr(outlining, "LONG", 0)
    monkeypatch.setattr(outlining, "_SHORT", 0)
    monkeypatch.setattr(function, "_LONG_CODE", 0)
    check_seed(seed)
