"""Reading and printing in several threads at once: one recursion limit serves them all."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

import tilewright
from tilewright.nesting import deep_recursion
from tilewright.text.attribute_parser import MAX_NESTING

#: As many levels as text may have, the kernel's own included.
DEEP = MAX_NESTING - 10


def nested(levels: int) -> str:
    return "entry @k(%c: tile<i1>) {\n" + "if %c {\n" * levels + "}\n" * levels + "return\n}\n"


@pytest.fixture
def hasty_switches() -> Iterator[None]:
    """Threads switch so often that every order of entering and leaving comes up."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("hasty_switches")
@pytest.mark.rotates(2)
def test_deep_nests_in_many_threads() -> None:
    text = nested(DEEP)
    limit = sys.getrecursionlimit()
    start = threading.Barrier(6)
    results: list[object] = []

    def work() -> None:
        start.wait()
        for _ in range(5):
            try:
                module = tilewright.parse(text)
                results.append(tilewright.parse(tilewright.print_text(module)) is not None)
            except tilewright.TileIRError as error:
                results.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 30
    assert sys.getrecursionlimit() == limit


def test_the_first_to_leave_takes_nothing_from_the_others() -> None:
    """The order that went wrong: A enters, B enters, A leaves while B still reads, B leaves."""
    limit = sys.getrecursionlimit()
    first, second = deep_recursion(), deep_recursion()
    first.__enter__()
    raised = sys.getrecursionlimit()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getrecursionlimit() == raised > limit
    second.__exit__(None, None, None)
    assert sys.getrecursionlimit() == limit


def test_a_limit_that_somebody_else_sets_is_kept() -> None:
    limit = sys.getrecursionlimit()
    try:
        with deep_recursion():
            sys.setrecursionlimit(20_000)
        assert sys.getrecursionlimit() == 20_000
        with deep_recursion():
            assert sys.getrecursionlimit() == 20_000
        assert sys.getrecursionlimit() == 20_000
    finally:
        sys.setrecursionlimit(limit)


def test_the_limit_is_restored_after_an_error() -> None:
    limit = sys.getrecursionlimit()
    with pytest.raises(tilewright.TileIRError):
        tilewright.parse(nested(MAX_NESTING + 1))
    assert sys.getrecursionlimit() == limit
