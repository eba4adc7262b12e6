"""Random kernels compute the same before and after every pass and pipeline."""

from __future__ import annotations

import numpy as np
import pytest
from tests.passes.generator import OUT_WORDS, kernel
from xdsl.pattern_rewriter import PatternRewriter

from tilewright.analysis.verifier import verify
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.machine import Program
from tilewright.passes import CUDA_TILE, canonicalize, passes_within, run_pipeline
from tilewright.text import parse, print_text

#: Without fuse-fma, which may change results.
EXACT = [name for name in passes_within(CUDA_TILE) if name != "fuse-fma"]
PIPELINES = [*EXACT, "O1", "O3,O3"]

#: (x, y, z, b): zeros, loops in both directions, and the ends of the range.
INPUTS = (
    (0, 0, 0, False),
    (5, -3, 100, True),
    (3, 6, 2, False),
    (-(2**31), 2**31 - 1, -1, True),
)


def module_of(seed: int) -> ModuleOp:
    module = parse(kernel(seed), f"random_{seed}.tileir")
    assert isinstance(module, ModuleOp)
    return module


def outcome(module: ModuleOp) -> list[tuple[list[int], str]]:
    """What a kernel stores and prints for each input; an undefined operation raises."""
    found: list[tuple[list[int], str]] = []
    program = Program(module)
    for x, y, z, b in INPUTS:
        out = np.full(OUT_WORDS, -7, np.int32)
        result = program.launch("k", 1, (x, y, z, b, out))
        found.append((out.tolist(), result.text))
    return found


def check_seed(seed: int) -> None:
    source = module_of(seed)
    verify(source)
    expected = outcome(source)
    for pipeline in PIPELINES:
        module = source.clone()
        run_pipeline(module, pipeline, verify_each=True)
        assert outcome(module) == expected, f"seed {seed}, {pipeline}"


@pytest.mark.rotates(4)
@pytest.mark.parametrize("seed", range(40))
def test_results_stay(seed: int) -> None:
    check_seed(seed)


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 3000, 100))
def test_results_stay_long(start: int) -> None:
    for seed in range(start, start + 100):
        check_seed(seed)


def test_kernels_are_worth_testing() -> None:
    """The generator reaches the passes: each changes some of the kernels."""
    changed = dict.fromkeys(EXACT, 0)
    for seed in range(12):
        source = module_of(seed)
        text = print_text(source, locations=True)
        for name in changed:
            module = source.clone()
            run_pipeline(module, name)
            changed[name] += print_text(module, locations=True) != text
    assert all(changed.values()), changed


def test_every_rule_is_reached() -> None:
    """Each rule of canonicalize applies to some of the kernels."""
    rules = {rule for group in canonicalize.RULES.values() for rule in group}
    fired: set[canonicalize.Rule] = set()

    def watched(rule: canonicalize.Rule) -> canonicalize.Rule:
        def call(op: object, rewriter: PatternRewriter) -> None:
            rule(op, rewriter)
            if rewriter.has_done_action:
                fired.add(rule)

        return call

    spied = {kind: tuple(map(watched, group)) for kind, group in canonicalize.RULES.items()}
    for seed in range(60):
        canonicalize.apply_rules(module_of(seed), spied)
    assert {rule.__name__ for rule in rules - fired} == set()


def test_kernels_are_reproducible() -> None:
    assert kernel(5) == kernel(5)
    assert kernel(5) != kernel(6)
