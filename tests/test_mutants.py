"""Flipped operators are noticed: a sample of mutants of some modules, in the long run.

What survives is either a test that is missing or a mutant that computes the same; the latter are listed.
``python -m tests.mutating MODULE TESTS`` tells all mutants of a module.
"""

from __future__ import annotations

import ast
import random
from typing import NamedTuple

import pytest
from tests import mutating
from tests.mutating import Site, file_of, mutated, sites, survives


class Target(NamedTuple):
    """A module, the tests that notice, and words of the lines whose mutants compute the same."""

    module: str
    tests: tuple[str, ...]
    equivalent: tuple[str, ...] = ()


TARGETS = (
    Target(
        "tilewright.analysis.dominance",
        ("tests/analysis/test_dominance.py", "tests/verifier"),
        ("nearest > other",),  # they differ there
    ),
    Target("tilewright.analysis.tileaa.bounds", ("tests/analysis/tileaa",)),
    Target("tilewright.analysis.tileaa.provenance", ("tests/analysis/tileaa",)),
    Target("tilewright.analysis.tileaa.ranges", ("tests/analysis/tileaa",)),
    Target("tilewright.bytecode.encoding", ("tests/bytecode",)),
    Target(
        "tilewright.cpu.codegen.reductions.reduce",
        ("tests/cpu/codegen/reductions/test_reduce_scan.py",),
        # One lane, as a number or as a vector; the way for 8 elements, which is a matter of time.
        ("lanes > 1", "<= _ROWS_AT_ONCE"),
    ),
    Target("tilewright.dialects.facts", ("tests/dialects/test_facts.py",)),
    Target("tilewright.dialects.nv_tileaa.groups", ("tests/nv_tileaa",)),
    Target(
        "tilewright.numerics.element_types",
        ("tests/numerics/test_element_types.py", "tests/numerics/test_floats.py"),
    ),
    Target("tilewright.passes.effects", ("tests/passes/test_effects.py",)),
    Target(
        "tilewright.simulator.groups",
        ("tests/simulator/test_groups.py",),
        # What never changes is the same for members.
        (
            "slot not in fixed and value is not None",
            "value is not None and slot not in fixed",
        ),
    ),
    Target(
        "tilewright.simulator.ops.barriers",
        (
            "tests/simulator/test_barriers.py",
            "tests/simulator/test_barrier_edges.py",
            "tests/simulator/test_groups.py",
        ),
        # Both are set at once; a barrier by its number alone is for all warps of the block.
        ("barrier.clock is None or barrier.fenced is None", "slot is None and count is None"),
    ),
)
#: Mutants of each module that a run tries: the same ones until the module changes.
SAMPLE = 6


def sample(target: Target) -> list[Site]:
    found = sites(file_of(target.module).read_text(encoding="utf-8"))
    told = [site for site in found if not any(word in site.what for word in target.equivalent)]
    return random.Random(target.module).sample(told, min(SAMPLE, len(told)))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.module)
def test_mutants_are_noticed(target: Target) -> None:
    kept = [
        f"line {site.line}: {site.what}"
        for site in sample(target)
        if survives(target.module, site.number, target.tests)
    ]
    assert not kept, "\n".join(kept)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.module)
def test_targets_have_mutants_and_tests(target: Target) -> None:
    assert sample(target)
    assert all((mutating.ROOT / name).exists() for name in target.tests)


def test_every_operator_is_flipped() -> None:
    source = (
        "def f(a: int | None, b: int) -> bool | int:\n"
        "    c: float | bool = 1\n"
        "    assert a is not None and b < 3, f'{a + b}'\n"
        "    if not a <= b < 3 or isinstance(a, int | None):\n"
        "        return max(a, b) // 2 == a & 1\n"
        "    return any([a << b])\n"
    )
    found = [(site.line, site.what.partition("  ->  ")[2]) for site in sites(source)]
    assert found == [
        (4, "not a <= b < 3 and isinstance(a, int | None)"),
        (4, "+bool(a <= b < 3)"),
        (4, "a < b < 3"),
        (4, "a <= b <= 3"),
        (5, "max(a, b) // 2 != a & 1"),
        (5, "max(a, b) * 2"),
        (5, "min(a, b)"),
        (5, "a | 1"),
        (6, "all([a << b])"),
        (6, "a >> b"),
    ]
    for number, (line, flipped) in enumerate(found):
        text = ast.unparse(mutated(source, number)).splitlines()[line - 1]
        assert flipped in text


def test_a_mutant_is_loaded_and_noticed() -> None:
    """With one flip of a fact, the tests of facts fail; without, they do not."""
    target = next(target for target in TARGETS if target.module.endswith("dialects.facts"))
    only = [*target.tests, "-k", "calls_are_barriers"]
    source = file_of(target.module).read_text(encoding="utf-8")
    flipped = next(site for site in sites(source) if "'CALLS', False)) and (not any" in site.what)
    assert not survives(target.module, flipped.number, only)
    harmless = next(site for site in sites(source) if site.what.startswith("declared is None"))
    assert survives(target.module, harmless.number, only)
