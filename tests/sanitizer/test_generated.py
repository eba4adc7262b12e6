"""Random programs: no schedule tells race-free ones apart, and an order taken away is noticed.

The programs, and why they are free of races or not, are told in ``generate``.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.machine.kernels import checked
from tests.sanitizer.generate import Generated, generate

import tilewright
from tilewright import LaunchOptions
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.machine.sanitize import sanitize

PROGRAMS = range(40)
MORE_PROGRAMS = range(40, 1000)
BATCH = 48
SCHEDULES = range(4)
MUTATION_KINDS = {"token", "ordering", "scope", "overlap"}

#: Mutations of each program that are tried; all of them in the long tests.
TRIED_MUTATIONS = 3


def results(program: Generated, module: ModuleOp, seed: int, *, check: bool) -> list[bytes]:
    """The bytes of all arrays after a run under a schedule, in which nothing must be found."""
    arrays = program.arguments()
    if check:
        report = sanitize(module, None, program.grid, arrays, options=LaunchOptions(seeds=[seed]))
        assert [d.brief() for d in report.diagnostics] == [], program.text
    else:
        tilewright.run(module, None, program.grid, arrays, options=LaunchOptions(seed=seed))
    return [array.tobytes() for array in arrays]


def check_race_free(program: Generated) -> None:
    module = checked(program.text)
    expected = results(program, module, 0, check=False)
    assert expected != [array.tobytes() for array in program.arguments()], program.text
    for seed in SCHEDULES:
        assert results(program, module, seed, check=True) == expected, (seed, program.text)
        assert results(program, module, seed + 100, check=False) == expected, (seed, program.text)


def check_mutations(program: Generated, count: int | None) -> None:
    """``count`` of the mutations of a program are found; all of them for None."""
    chosen = list(program.mutations)
    if count is not None:
        chosen = random.Random(program.seed).sample(chosen, min(count, len(chosen)))
    for mutation in chosen:
        text = program.mutated(mutation)
        module = checked(text)
        assert any(shows_race(program, module, seed) for seed in SCHEDULES), (mutation, text)


def shows_race(program: Generated, module: ModuleOp, seed: int) -> bool:
    """Whether a schedule shows a race; nothing else may be found."""
    report = sanitize(
        module, None, program.grid, program.arguments(), options=LaunchOptions(seeds=[seed])
    )
    assert {d.code for d in report.diagnostics} <= {"race"}, report.diagnostics
    return not report.is_clean


@pytest.mark.rotates(2)
@pytest.mark.parametrize("seed", PROGRAMS)
def test_schedules_do_not_matter_without_races(seed: int) -> None:
    check_race_free(generate(seed))


@pytest.mark.rotates(2)
@pytest.mark.parametrize("seed", PROGRAMS)
def test_races_are_found(seed: int) -> None:
    check_mutations(generate(seed), TRIED_MUTATIONS)


@pytest.mark.long
@pytest.mark.parametrize("first", MORE_PROGRAMS[::BATCH])
def test_many_programs(first: int) -> None:
    for seed in range(first, first + BATCH):
        program = generate(seed)
        check_race_free(program)
        check_mutations(program, None)


def test_programs_are_reproducible_and_differ() -> None:
    programs = [generate(seed) for seed in PROGRAMS]
    assert programs == [generate(seed) for seed in PROGRAMS]
    assert len({program.text for program in programs}) == len(programs)
    for first, second in zip(programs[0].arguments(), programs[0].arguments(), strict=True):
        assert first is not second and np.array_equal(first, second)


def test_programs_reach_what_they_are_for() -> None:
    texts = [generate(seed).text for seed in PROGRAMS]
    for part in (
        "load_view_tko", "store_view_tko", "load_ptr_tko weak", "store_ptr_tko weak",
        "atomic_rmw_tko relaxed", "atomic_red_view_tko", "atomic_cas_tko acquire",
        "load_ptr_tko acquire", "store_ptr_tko release", "atomic_rmw_tko release",
        "atomic_rmw_tko acq_rel", "join_tokens", "alloca", "loop :", "for ", "if ", "reduce",
        "padding_value = zero", "tile<16xi1>", "f16", "bf16", "f64", "i8", "i64",
    ):  # fmt: skip
        assert any(part in text for text in texts), part


def test_every_kind_of_mutation_occurs() -> None:
    kinds = [{mutation.kind for mutation in generate(seed).mutations} for seed in PROGRAMS]
    for kind in MUTATION_KINDS:
        assert sum(kind in found for found in kinds) > len(PROGRAMS) / 4
    assert set().union(*kinds) == MUTATION_KINDS


def test_a_mutation_changes_one_line() -> None:
    program = generate(0)
    plain = program.text.split("\n")
    for mutation in program.mutations:
        mutated = program.mutated(mutation).split("\n")
        differing = [one for one, other in zip(plain, mutated, strict=True) if one != other]
        assert differing == [program.lines[mutation.line]]
