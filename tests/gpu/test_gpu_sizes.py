"""The benchmark of sizes that nobody chose: a seed stands for one variant, which differs from its kernel in what its name says."""

from __future__ import annotations

import pytest

pytest.importorskip("cuda.tile", reason="needs cuTile: pip install tilewright[oracle]")


def test_a_seed_stands_for_one_variant() -> None:
    from benchmarks.gpu_sizes import variant

    found = [variant(seed) for seed in range(60)]
    assert [each and each[0].name for each in found] == [
        each and each[0].name for each in map(variant, range(60))
    ]
    kept = [each for each in found if each is not None]
    assert len(kept) > 40
    assert len({case.name for case, _ in kept}) == len(kept)
    assert {small for _, small in kept} == {False, True}


def test_sizes_change_where_the_name_says_so() -> None:
    from benchmarks.gpu_cases import cases as table
    from benchmarks.gpu_sizes import variant
    from benchmarks.gpu_unseen import cases

    originals = {case.name: case for case in (*cases(), *table())}
    for seed in range(40):
        found = variant(seed)
        if found is None:
            continue
        case, small = found
        old = originals[case.name.partition(": ")[0]]
        for given, now in ((old.arguments, case.arguments), (old.few, case.few)):
            sizes = [(a[0], b[0]) for a, b in zip(given, now, strict=True) if _is_constant(a)]
            for one, other in sizes:
                assert one == other or f"{one} to {other}" in case.name
                assert other <= one or not small
        for (kind, extents), (_, wanted) in _arrays(old.arguments, case.arguments):
            assert small == (extents == wanted) or not small, (case.name, kind)


def _is_constant(argument: object) -> bool:
    return isinstance(argument, tuple) and len(argument) == 1 and type(argument[0]) is int


def _arrays(old: tuple, new: tuple) -> list:
    pairs = zip(old, new, strict=True)
    return [(a, b) for a, b in pairs if isinstance(a, tuple) and len(a) == 2]
