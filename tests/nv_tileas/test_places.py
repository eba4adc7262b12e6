"""Operations that only give elements other places keep them in their threads, or are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.analysis.verifier import find_problems
from tilewright.dialects.nv_tileaa.examples import wrap
from tilewright.dialects.nv_tileas import load
from tilewright.dialects.nv_tileas.base import LAYOUT
from tilewright.text import parse

load()


def layout(register: str, lane: str, warp: str = "0, 0") -> str:
    return f"#nv_tileas.layout<register = [{register}], lane = [{lane}], warp = [{warp}]>"


EIGHT = layout("", "1, 2, 4, 0, 0")
PAIRS = layout("1", "2, 4, 0, 0, 0")
TURNED = layout("", "4, 2, 1, 0, 0")
#: 8x4 by rows and by columns; 4x8 with the same elements in the same threads.
ROWS = layout("1, 2", "4, 8, 16, 0, 0")
OTHER_ROWS = layout("1, 2", "8, 4, 16, 0, 0")
COLUMNS = layout("4, 8", "1, 2, 16, 0, 0")
TRANSPOSED = layout("8, 16", "1, 2, 4, 0, 0")


def view(given: str, wanted: str) -> str:
    return f"%out = nv_tileaa.view %src : tile<8xf32{given}> -> tile<4x2xf32{wanted}>"


def expanded(given: str, wanted: str) -> str:
    return (
        "%out = nv_tileaa.expand_dims %src {axes = array<i64: 1>} : "
        f"tile<8xf32{given}> -> tile<8x1xf32{wanted}>"
    )


def broadcast(given: str, wanted: str) -> str:
    return (
        f"%mid = nv_tileaa.view %src : tile<8xf32{given}> -> tile<8x1xf32{given}>\n"
        f"%out = nv_tileaa.broadcast %mid : tile<8x1xf32{given}> -> tile<8x4xf32{wanted}>"
    )


def permuted(given: str, wanted: str) -> str:
    return (
        f"%mid = arith.constant dense<0.0> : tile<8x4xf32{given}>\n"
        "%out = nv_tileaa.permute %mid {permutation = array<i64: 1, 0>} : "
        f"tile<8x4xf32{given}> -> tile<4x8xf32{wanted}>"
    )


CASES = [
    (view, EIGHT, EIGHT, TURNED),
    (view, EIGHT, EIGHT, ""),
    (view, "", "", EIGHT),
    (view, PAIRS, PAIRS, EIGHT),
    (expanded, PAIRS, PAIRS, EIGHT),
    (broadcast, EIGHT, ROWS, OTHER_ROWS),
    (broadcast, EIGHT, ROWS, COLUMNS),
    (broadcast, EIGHT, ROWS, ""),
    (permuted, ROWS, TRANSPOSED, ROWS),
    (permuted, ROWS, TRANSPOSED, ""),
]


@pytest.mark.parametrize("make, given, good, bad", CASES)
def test_elements_stay_in_their_threads(
    make: Callable[[str, str], str], given: str, good: str, bad: str
) -> None:

    def problems(wanted: str) -> list[str]:
        body = make(*(f", {x}" if x else "" for x in (given, wanted)))
        ty = f"tile<8xf32{f', {given}' if given and make is not permuted else ''}>"
        made = f"%src = nv_tileas.convert_layout %f : tile<8xf32> -> {ty}\n{body}"
        return [found.code for found in find_problems(parse(wrap(made)))]

    assert problems(good) == []
    assert problems(bad) == [LAYOUT]
