"""What runs of a product of parameters without ``--long``."""

from __future__ import annotations

import itertools

import pytest
from tests.sampling import half, sample, stride_of, turn


def product(*sizes: int) -> list[list[int]]:
    return [list(column) for column in zip(*itertools.product(*map(range, sizes)), strict=True)]


@pytest.mark.parametrize(
    ("sizes", "stride"),
    [
        ((5,), 1),
        ((2, 2), 1),
        ((2, 3), 2),
        ((3, 8), 3),
        ((108, 2), 2),
        ((5, 4, 5), 4),
        ((2, 2, 2, 2), 3),
        ((100,), 1),
    ],
)
def test_every_value_of_every_parameter_runs(sizes: tuple[int, ...], stride: int) -> None:
    columns = product(*sizes)
    assert stride_of(columns) == stride
    kept = sample(columns, stride)
    for column, size in zip(columns, sizes, strict=True):
        assert {column[number] for number in kept} == set(range(size))
    cases = len(columns[0])
    assert len(kept) <= cases // stride + sum(sizes)


def test_of_three_parameters_all_pairs_run() -> None:
    columns = product(4, 5, 6)
    kept = sample(columns, stride_of(columns))
    for a, b in itertools.combinations(range(3), 2):
        pairs = {(columns[a][number], columns[b][number]) for number in kept}
        assert len(pairs) == (4, 5, 6)[a] * (4, 5, 6)[b]


def test_products_with_holes() -> None:
    """A value that the diagonals miss has its first case."""
    columns = [[0, 0, 1, 2], [0, 1, 1, 1]]
    assert sample(columns, 2) == {0, 2, 3}


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("period", [2, 3, 4, 6])
def test_lists_that_repeat_themselves(stride: int, period: int) -> None:
    """What comes back in a list of cases is in the sample, whatever its period."""
    kept = sample([list(range(60))], stride)
    assert {number % period for number in kept} == set(range(period))
    assert 60 // stride - 2 <= len(kept) <= 60 // stride + 2


@pytest.mark.parametrize("count", [1, 3, 4, 7, 60])
def test_two_commits_run_all(count: int) -> None:
    cases = list(range(5, 5 + count))
    one, other = half(cases, 8), half(cases, 7)
    assert one | other == set(cases)
    assert (one & other == set()) == (count >= 4)
    assert abs(len(one) - len(other)) <= 1


def test_the_same_commit_has_the_same_turn() -> None:
    assert turn() == turn() >= 0


pytest_plugins = ["pytester"]

CASES = """
import pytest

@pytest.mark.parametrize("a", range(4))
@pytest.mark.parametrize("b, c", [(1, 2), (3, 4), (5, 6), (7, 8)])
def test_product(a, b, c): ...

@pytest.mark.rotates(2)
@pytest.mark.parametrize("seed", range(6))
def test_seeds(seed): ...

@pytest.mark.long
def test_long(): ...

@pytest.mark.rotates(2)
def test_alone(): ...

@pytest.mark.rotates(1)
@pytest.mark.parametrize("a", range(4))
@pytest.mark.parametrize("b", range(4))
def test_all(a, b): ...
"""


@pytest.mark.parametrize(
    ("number", "arguments", "passed"),
    [
        (0, [], 3 + 3 + 1 + 16),
        (1, [], 3 + 3 + 0 + 16),
        (0, ["--long"], 16 + 6 + 1 + 1 + 16),
        (0, ["-k", "product"], 16),
    ],
)
def test_what_runs(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    arguments: list[str],
    passed: int,
) -> None:
    from tests import conftest

    folder = pytester.mkdir("tests") / "cpu"
    folder.mkdir()
    (folder / "test_cases.py").write_text(CASES)
    pytester.makeini("[pytest]\nmarkers =\n  long: long\n  rotates(n): one in n\n")
    monkeypatch.setenv("TILEWRIGHT_TEST_LONG", "")  # which --long sets
    monkeypatch.setattr(conftest, "turn", lambda: number)
    ran = pytester.inline_run("-p", "no:cacheprovider", *arguments, plugins=[conftest])
    ran.assertoutcome(passed=passed)
