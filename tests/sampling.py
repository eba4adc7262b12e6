"""Which cases of a test over a product of parameters run without ``--long``: a rotating sample.

A test over, say, element types, shapes and machines has a case for each combination. Most of them find what
others find, and each compiles or runs a kernel. So of tests in ``FOLDERS`` one in a few cases runs, along
diagonals: where one parameter goes on, so does the partner that the others have for it. Every value of every
parameter is in some case that runs, and as far as there are enough cases, with different values of the others.

What does not change the kernel, such as the extents of arrays, is better no parameter: the test then compiles the
kernel once and runs it with all of them. Of a long list times another parameter every item runs; where that is too
much, the pairs are one parameter.

The mark ``rotates(n)`` gives the number, also for a test with one parameter such as a seed; ``rotates(1)`` keeps
all. Tests over the same kernels take different ones, ``rotates(2)`` and ``rotates(2, 1)``.

Of what is left of a test, where that is four cases or more, each commit runs one half, and of single tests with
``rotates(n)`` one in n: which, goes by the commit's hash, so that the same commit runs the same tests, and the tests
that a change of a few commits passes are nearly all.

``--long`` and ``--bless`` run all, and so does who names tests or selects them by ``-k``. ``some(seeds)`` are a sixth
of what a test goes through by itself, at least two.
"""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

#: The variable of the environment that says to modules of tests that the run is a long one.
LONG = "TILEWRIGHT_TEST_LONG"
#: The one that names the mutant (``tests/mutating.py``) that tests meet.
MUTANT = "TILEWRIGHT_MUTANT"

FOLDERS = (
    "tests/analysis/", "tests/bytecode/", "tests/cpu/", "tests/cutile/", "tests/dialects/", "tests/gpu/",
    "tests/lowering/", "tests/machine/", "tests/model/", "tests/numerics/", "tests/passes/",
    "tests/profiling/", "tests/sanitizer/", "tests/simulator/", "tests/test_machines_agree.py",
    "tests/text/",
)  # fmt: skip
_FEW, _MANY = 6, 48
#: Of so many cases that are left of a test, or more, each commit runs one half.
_HALVED = 4
_ROOT = Path(__file__).resolve().parent.parent


def is_long() -> bool:
    """Whether the run has ``--long``."""
    return bool(os.environ.get(LONG))


def every_way() -> bool:
    """Whether all cases are compiled in all the ways that there are: in a long run, and where a mutant may hide in one."""
    return is_long() or MUTANT in os.environ


def some(seeds: range) -> range:
    """Of seeds that a test goes through a sixth, at least two, and all of them in a long run. The simulator finds races by what
    orders accesses, not by the order of a run: without any one barrier each seed finds one."""
    few = max(min(len(seeds), 2), len(seeds) // 6)
    return seeds if is_long() else seeds[:few]


def columns_of(items: Sequence[pytest.Item]) -> list[list[int]]:
    """By independent parameter of a test: the number of its value in each case."""
    found: list[list[int]] = []
    for mark in items[0].iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        if isinstance(names, str):
            names = [name.strip() for name in names.split(",")]
        numbers: dict[tuple[int, ...], int] = {}
        column: list[int] = []
        for item in items:
            given = item.callspec.params  # pyright: ignore[reportAttributeAccessIssue]
            key = tuple(id(given.get(name)) for name in names)
            column.append(numbers.setdefault(key, len(numbers)))
        if len(numbers) > 1:
            found.append(column)
    return found


def stride_of(columns: Sequence[Sequence[int]]) -> int:
    """Of how many cases one runs: of so few that each value of a parameter meets one that does."""
    cases = len(columns[0]) if columns else 0
    if len(columns) < 2 or cases < _FEW:
        return 1
    steps = [max(column) for column in columns]
    return min(1 + sum(steps) - max(steps), 4 if cases >= _MANY else 3)


def sample(columns: Sequence[Sequence[int]], stride: int, phase: int = 0) -> set[int]:
    """The numbers of the cases that run: one of ``stride``, and one for each value that has none.

    Of a single parameter, values are left out; which, goes by the sums of their numbers' digits, since a list
    of kernels, say, has an element type in every other place.
    """
    if stride == 1:
        return set(range(len(columns[0])))
    if len(columns) == 1:
        return {
            number for number in range(len(columns[0])) if _digits(number, stride) % stride == phase
        }
    cases = list(zip(*columns, strict=True))
    kept = {number for number, case in enumerate(cases) if sum(case) % stride == phase}
    for place in range(len(columns)):
        met = {cases[number][place] for number in kept}
        for number, case in enumerate(cases):
            if case[place] not in met:
                met.add(case[place])
                kept.add(number)
    return kept


def _digits(number: int, base: int) -> int:
    total = 0
    while number:
        number, digit = divmod(number, base)
        total += digit
    return total


@cache
def turn() -> int:
    """A number that the commit gives; 0 where there is no git, or no commit."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return 0
    return int(found.stdout, 16) if found.returncode == 0 else 0


def half(kept: Sequence[int], number: int) -> set[int]:
    """Of so many cases one half, the other one where ``number`` is odd; of few cases all."""
    if len(kept) < _HALVED:
        return set(kept)
    return {case for place, case in enumerate(kept) if _digits(place, 2) % 2 == number % 2}


def left_out(items: Sequence[pytest.Item], number: int) -> list[pytest.Item]:
    """The cases that only a long run has, or only commits with another ``turn()`` than ``number``."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    found: list[pytest.Item] = []
    for name, cases in tests.items():
        mark = cases[0].get_closest_marker("rotates")
        if mark is None and not name.startswith(FOLDERS):
            continue
        columns = columns_of(cases)
        stride, *phase = mark.args if mark else (stride_of(columns),)
        if len(cases) == 1:
            if (zlib.crc32(name.encode()) + number) % stride:
                found += cases
        elif columns and (stride > 1 or mark is None):
            kept = half(sorted(sample(columns, stride, *phase)), number)
            found += [case for number, case in enumerate(cases) if number not in kept]
    return found


def wants_all(config: pytest.Config) -> bool:
    """Whether who started the run has named tests, or words in their names, or writes what they expect, or
    asks whether they notice a mutation."""
    asked = config.getoption("keyword") or config.getoption("bless")
    asked = asked or config.pluginmanager.hasplugin("tests.mutating")
    return bool(asked) or any("::" in name for name in config.args)
