"""Strings whose bytes are no UTF-8, wherever an attribute may stand: a diagnostic, or they are kept."""

from __future__ import annotations

import re

import pytest
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, SymbolRefAttr

from tilewright.analysis.verifier import find_problems
from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.base import OPERATIONS
from tilewright.dialects.cuda_tile.examples import wrap
from tilewright.text import parse, print_text

TEXT = "\udcff\udcfe"
SPELLED = '"\\FF\\FE"'


def _variants(generic: str) -> list[str]:
    """The generic form with each property, attribute and parameter of its lines in turn replaced by such a string."""
    places = [
        match.span(1) for match in re.finditer(r"[<{,(] ?\"?[A-Za-z_]+\"? = ([^,{}<>()]+)", generic)
    ]
    return [generic[:start] + SPELLED + generic[end:] for start, end in places]


@pytest.mark.rotates(2)
@pytest.mark.parametrize("mnemonic", [name for name, cls in OPERATIONS.items() if cls.EXAMPLES])
def test_in_the_place_of_every_attribute(mnemonic: str) -> None:
    for example in OPERATIONS[mnemonic].EXAMPLES:
        for text in _variants(print_text(parse(wrap(example)), generic=True)):
            try:
                module = parse(text)
                assert all(str(problem) for problem in find_problems(module, hints="error"))
                assert parse(print_text(module, generic=True)) is not None
            except TileIRError as error:
                assert error.diagnostics


def test_xdsl_spells_attributes_that_hold_one() -> None:
    for attribute in (
        StringAttr(TEXT),
        SymbolRefAttr(TEXT),
        ArrayAttr([StringAttr(TEXT)]),
        DictionaryAttr({TEXT: StringAttr(TEXT)}),
    ):
        assert SPELLED in str(attribute)


def test_one_that_stands_for_no_byte_is_spelled_too() -> None:
    assert str(StringAttr("\ud800")) == '"\\ED\\A0\\80"'


@pytest.mark.parametrize("hints", ['"\\FF"', '[{a = "\\FF"}]', '{"\\FE" = "\\FF"}'])
def test_hints_that_are_none(hints: str) -> None:
    text = (
        f"cuda_tile.module @m {{ entry @k() optimization_hints=<sm_100 = {hints}> {{ return }} }}"
    )
    try:
        assert find_problems(parse(text), hints="error")
    except TileIRError as error:
        assert "\\FF" in error.diagnostics[0].message
