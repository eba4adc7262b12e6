"""Long code: it is cut into parts, compiling it takes work in proportion, and it computes the same."""

from __future__ import annotations

import cProfile
import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from benchmarks import long_code
from tests.cpu.codegen.support import load
from tests.cpu.codegen.test_random_tiles import check_seed

import tilewright
from tilewright.builder import ModuleBuilder, ptr
from tilewright.cpu.codegen.analysis import segments
from tilewright.cpu.codegen.emitter import function
from tilewright.cpu.codegen.ir import outlining
from tilewright.cpu.compile import compile_kernel, kernels_of, plan_text
from tilewright.lowering import lower_to_tileaa


def _lowered(source: str) -> Any:
    module = tilewright.parse(source)
    tilewright.verify(module)
    return lower_to_tileaa(module).module


def _calls(work: Callable[[], object]) -> int:
    """How many calls of Python functions some work makes."""
    profile = cProfile.Profile(subcalls=False, builtins=False)
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize("rule", long_code.RULES.values(), ids=list(long_code.RULES))
def test_work_grows_with_the_code_and_not_faster(rule: Callable[[int], str]) -> None:
    texts: list[str] = []

    def calls(count: int) -> int:
        module = _lowered(rule(count))
        return _calls(lambda: texts.append(compile_kernel(module).llvm_ir))

    # From 150 to 600, so that what all kernels cost, and what only short code does, matters little.
    short, long = calls(150), calls(600)
    assert long < 5 * short
    assert len(texts[1]) < 5 * len(texts[0])
    lengths = [part.count("\n") for part in texts[1].split("\ndefine ")[1:]]
    # What is left in the kernel's own function are calls, and numbers that several parts use.
    assert max(lengths) < 8_000


def test_operands_that_are_shared_are_not_walked_again_and_again() -> None:
    # There are more than 2**25 ways from the load to the store.
    module = _lowered(long_code.element_wise(45))
    assert _calls(lambda: compile_kernel(module)) < 200_000


def test_a_cut_keeps_what_crosses_it_and_no_more() -> None:
    lines = plan_text(_lowered(long_code.element_wise(480))).splitlines()
    kept = [line for line in lines if ": buffer;" in line]
    # At each of the ten cuts the last six values, of which some are used within.
    assert 10 <= len(kept) <= 80


def _chains(count: int, length: int) -> str:
    """The sum of as many chains of negations of one tile."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32")}) as k:
        view = k.partition(k.make_tensor_view(k.args.x, [16], [1]), tile=(16,))
        x = k.load_view_tko(view, [0])[0]
        ends = [x] * count
        for _ in range(length):
            ends = [-end for end in ends]
        k.store_view_tko(functools.reduce(operator.add, ends), view, [0])
    return tilewright.print_text(module.build())


def _parts(source: str) -> int:
    ((_, func),) = kernels_of(_lowered(source)).items()
    return segments.find_segments(list(func.walk())).count


def test_deep_code_and_much_code_are_cut_each_by_itself() -> None:
    depth, cost = segments._DEPTH_LIMIT, segments._PART_LIMIT
    # With the load and the store a chain of some fewer is one part.
    short = depth // 2
    assert _parts(_chains(1, short)) == 1
    assert _parts(_chains(1, depth + 1)) == 2
    assert _parts(_chains(2 * cost // short, short)) > 2


def _batch(count: int) -> str:
    """A product of as many matrices, one of whose factors lies in memory and one in a buffer."""
    view, matrices = (
        f"tensor_view<{count}x8x16xf32, strides=[128, 16, 1]>",
        f"tile<{count}x8x16xf32>",
    )
    part = f"partition_view<tile=({count}x8x16), {view}>"
    result = f"tensor_view<{count}x8x8xf32, strides=[64, 8, 1]>"
    return f"""cuda_tile.module @m {{
      entry @k(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %r: tile<ptr<f32>>) {{
        %i = constant <i32: 0> : tile<i32>
        %mp = make_tensor_view %p, shape = [{count}, 8, 16], strides = [128, 16, 1] : {view}
        %vp = make_partition_view %mp : {part}
        %mq = make_tensor_view %q, shape = [{count}, 8, 16], strides = [128, 16, 1] : {view}
        %vq = make_partition_view %mq : {part}
        %mr = make_tensor_view %r, shape = [{count}, 8, 8], strides = [64, 8, 1] : {result}
        %vr = make_partition_view %mr : partition_view<tile=({count}x8x8), {result}>
        %x, %t0 = load_view_tko weak %vp[%i, %i, %i]
          : {part}, tile<i32> -> {matrices}, token
        %y, %t1 = load_view_tko weak %vq[%i, %i, %i]
          : {part}, tile<i32> -> {matrices}, token
        %e = exp2 %y : {matrices}
        %z = permute %e [0, 2, 1] : {matrices} -> tile<{count}x16x8xf32>
        %c = constant <f32: 0.0> : tile<{count}x8x8xf32>
        %d = mmaf %x, %z, %c
          : {matrices}, tile<{count}x16x8xf32>, tile<{count}x8x8xf32>
        %t2 = store_view_tko weak %d, %vr[%i, %i, %i]
          : tile<{count}x8x8xf32>, partition_view<tile=({count}x8x8), {result}>, tile<i32> -> token
        return
      }}
    }}"""


@pytest.mark.parametrize("count", [1, 2, 4, 32])
def test_products_of_a_batch_are_right(count: int) -> None:
    x, y = np.random.default_rng(0).random((2, count, 8, 16)).astype(np.float32)
    found = np.zeros((count, 8, 8), np.float32)
    tilewright.run(tilewright.parse(_batch(count)), "k", (1,), (x, y, found), machine="cpu")
    np.testing.assert_allclose(found, x @ np.exp2(y).transpose(0, 2, 1), rtol=1e-5)


def test_code_does_not_grow_with_a_batch() -> None:
    lengths = [len(compile_kernel(_lowered(_batch(count))).llvm_ir) for count in (8, 256)]
    assert lengths[1] < 1.1 * lengths[0]


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


@pytest.mark.rotates(4)
@pytest.mark.parametrize("seed", range(2000, 2040))
def test_code_cut_everywhere_computes_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_DEPTH_LIMIT", 1 + seed % 3)
    monkeypatch.setattr(segments, "_PART_LIMIT", 4)
    monkeypatch.setattr(outlining, "LONG", 0)
    monkeypatch.setattr(outlining, "_SHORT", 0)
    monkeypatch.setattr(function, "_LONG_CODE", 0)
    check_seed(seed)
