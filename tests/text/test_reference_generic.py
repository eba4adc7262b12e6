"""The generic form as NVIDIA's tools write it: some enumerations are integers there."""

from __future__ import annotations

import re

import pytest

from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.base import OPERATIONS
from tilewright.dialects.cuda_tile.enums import (
    INTEGERS_ELSEWHERE,
    AtomicRMWMode,
    MemoryOrderingSemantics,
    MemoryScope,
)
from tilewright.dialects.cuda_tile.examples import wrap
from tilewright.text import parse, print_text, same_module

EXAMPLES = {
    f"{mnemonic}-{index}": example
    for mnemonic, op_type in OPERATIONS.items()
    for index, example in enumerate(op_type.EXAMPLES)
}
#: `token` as a type: not a name, not a part of one, and not the keyword before an operand.
TOKEN = re.compile(r"(?<![\w%$.!])token(?!\w|\s*=)")


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_printed_reads_back(name: str) -> None:
    module = parse(wrap(EXAMPLES[name]))
    text = print_text(module, generic=True, reference=True)
    assert same_module(module, parse(text)) is None
    for cls in INTEGERS_ELSEWHERE:
        assert f"#{cls.name}<" not in text
    assert "#cuda_tile.dense" not in text


def atomic(mode: str, ordering: str, scope: str) -> str:
    return f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<i32>>, %x: tile<i32>) {{
    %0, %1 = "cuda_tile.atomic_rmw_tko"(%p, %x) <{{memory_ordering_semantics = {ordering},
      memory_scope = {scope}, mode = {mode}, operandSegmentSizes = array<i32: 1, 1, 0, 0>}}>
      : (!cuda_tile.tile<ptr<i32>>, !cuda_tile.tile<i32>) -> (!cuda_tile.tile<i32>, !cuda_tile.token)
    return
  }}
}}
"""


def test_every_integer_stands_for_its_member() -> None:
    for ordering, semantics in enumerate(MemoryOrderingSemantics):
        for scope, where in enumerate(MemoryScope):
            for mode, what in enumerate(AtomicRMWMode):
                text = atomic(f"{mode} : i32", f"{ordering} : i32", f"{scope} : i32")
                printed = print_text(parse(text))
                assert f"atomic_rmw_tko {semantics} {where} %p, {what}, %x" in printed
                again = print_text(parse(text), generic=True, reference=True)
                assert f"memory_ordering_semantics = {ordering} : i32" in again
                assert f"memory_scope = {scope} : i32, mode = {mode} : i32" in again


@pytest.mark.parametrize("code", ["10 : i32", "-1 : i32", "0 : i64", "0", "true", '"add"'])
def test_other_numbers_are_refused_where_they_stand(code: str) -> None:
    with pytest.raises(TileIRError) as caught:
        parse(atomic(code, "1 : i32", "1 : i32"))
    (found,) = caught.value.diagnostics
    assert found.code == "bad-property" and "'mode' must be one of and, or" in found.message
    location = found.location
    assert location is not None and location.line == 4  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("name", EXAMPLES)
def test_tokens_may_have_their_prefix_or_an_alias(name: str) -> None:
    text = wrap(EXAMPLES[name])
    module = parse(text)
    for spelling in ("!cuda_tile.token", "!t"):
        written, count = TOKEN.subn(spelling, text)
        again = parse(f"!t = !cuda_tile.token\n{written}")
        assert same_module(module, again) is None
        assert count or "token" not in text.replace("token=", "").replace("_token", "")


def test_no_other_type_stands_for_a_token() -> None:
    for ty in ("!cuda_tile.tile<i32>", "i32", "tile<i32>"):
        with pytest.raises(TileIRError, match="expected 'token', found"):
            parse(f"entry @k() {{ %0 = make_token : {ty} }}")
