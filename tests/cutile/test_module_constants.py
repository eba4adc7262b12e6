"""Constants of a program's module, found and given other values."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.cutile.module_constants import constants_of, with_constants

SOURCE = b'''
"""A program."""
TM = 64
TN, TK = 32, (1, 2)
HALF = TM // 2
NAME: str = "plain"
BELOW = -3
A = B = 7
if TM:
    LATE = 5
else:
    LATE = 6
try:
    import nothing_of_that_name
except ImportError:
    MISSING = True

def function():
    TM = 1
    return TM, TN, HALF

class Thing:
    TN = 1
'''


def test_constants_are_found() -> None:
    assert constants_of(SOURCE, "p.py") == {
        "TM": 64,
        "TN": 32,
        "TK": (1, 2),
        "NAME": "plain",
        "BELOW": -3,
        "A": 7,
        "B": 7,
        "LATE": 6,
        "MISSING": True,
    }


def run(values: dict[str, Any]) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(compile(with_constants(SOURCE, "p.py", values), "p.py", "exec"), namespace)
    return namespace


def test_they_get_other_values() -> None:
    found = run({"TM": 128, "TN": -1, "TK": (4, 8), "NAME": "other", "BELOW": 0, "LATE": 9})
    assert (found["TM"], found["TN"], found["TK"]) == (128, -1, (4, 8))
    assert (found["NAME"], found["BELOW"], found["LATE"], found["MISSING"]) == ("other", 0, 9, True)
    # What is computed of them follows; locals and attributes stay.
    assert found["HALF"] == 64
    assert found["function"]() == (1, -1, 64)
    assert found["Thing"].TN == 1


def test_names_of_one_literal_go_together() -> None:
    found = run({"A": 1})
    assert (found["A"], found["B"]) == (1, 1)


def test_lines_stay() -> None:
    before = compile(SOURCE, "p.py", "exec").co_consts
    after = compile(with_constants(SOURCE, "p.py", {"TM": 1}), "p.py", "exec").co_consts
    lines = [
        [c.co_firstlineno for c in consts if hasattr(c, "co_code")] for consts in (before, after)
    ]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("source", [b"TM = = 3", b"\0"])
def test_no_python(source: bytes) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        constants_of(source, "p.py")
