"""Every operation of cuda_tile has a lowering, or a refusal that people can read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.lowering.support import check, lower

from tilewright.analysis.verifier import find_problems
from tilewright.diagnostics import Span, TileIRError
from tilewright.dialects.cuda_tile import load
from tilewright.dialects.cuda_tile.base import OPERATIONS, TileOp
from tilewright.dialects.cuda_tile.examples import wrap
from tilewright.lowering import lower_to_tileaa
from tilewright.lowering.tileaa.table import LOWERINGS, REFUSED
from tilewright.text import parse

load()
EXAMPLES = [
    pytest.param(cls, example, id=f"{name}-{index}")
    for name, cls in OPERATIONS.items()
    for index, example in enumerate(cls.EXAMPLES)
]


def test_every_operation_has_one_entry() -> None:
    assert not LOWERINGS.problems(OPERATIONS.values())


@pytest.mark.parametrize(("cls", "example"), EXAMPLES)
def test_examples_are_lowered(cls: type[TileOp], example: str) -> None:
    module = parse(wrap(example))
    assert any(isinstance(op, cls) for op in module.walk())
    check(module, lower_to_tileaa(module))


REFUSED_TEXTS = {
    "testing$bytecode_test_new_attribute": '"cuda_tile.testing$bytecode_test_new_attribute"() '
    "{new_param = 1 : i32} : () -> ()",
    "testing$bytecode_test_evolution": '%t = "cuda_tile.testing$bytecode_test_evolution"() '
    "<{operandSegmentSizes = array<i32: 0, 0>}> : () -> !cuda_tile.token",
    "preview$call": '"cuda_tile.preview$call"() {callee = "f", const_args = []} : () -> ()',
    "preview$extern_impl": '"cuda_tile.preview$extern_impl"() : () -> ()',
}


@pytest.mark.parametrize("name", sorted(cls.mnemonic() for cls in REFUSED))
def test_refusals_name_the_operation_and_the_reason(name: str) -> None:
    module = parse(f"entry @k() {{\n  {REFUSED_TEXTS[name]}\n  return\n}}\n", "k.tileir")
    assert not [d for d in find_problems(module) if d.is_error]
    with pytest.raises(TileIRError) as caught:
        lower_to_tileaa(module)
    (found,) = caught.value.diagnostics
    assert found.code == "not-lowered"
    assert f"'cuda_tile.{name}'" in found.message
    assert REFUSED[OPERATIONS[name]] in found.message
    assert isinstance(found.location, Span)
    assert found.location.file.text[found.location.start :].startswith(f'"cuda_tile.{name}"')


def test_all_refusals_of_a_module_are_told() -> None:
    refused = REFUSED_TEXTS["preview$extern_impl"]
    text = "".join(f"entry @k{i}() {{\n  {refused}\n  return\n}}\n" for i in range(3))
    with pytest.raises(TileIRError) as caught:
        lower_to_tileaa(parse(text))
    assert len(caught.value.diagnostics) == 3


def test_functions_of_test_builds() -> None:
    lowered = lower(
        """
        cuda_tile.module @m {
          testing$func @f(%x: tile<4xf32>, %c: tile<i1>) -> (tile<4xf32>, tile<i1>) {
            if %c {
              return %x, %c : tile<4xf32>, tile<i1>
            }
            %y = addf %x, %x : tile<4xf32>
            return %y, %c : tile<4xf32>, tile<i1>
          }
        }
        """
    )
    (function,) = lowered.module.ops
    assert function.name == "nv_tileaa.func"
    assert "kernel" not in function.properties
    assert [op.name for op in function.regions[0].block.ops] == ["scf.if", "nv_tileaa.return"]


DOCUMENT = Path(__file__).parents[2] / "docs" / "lowering.md"


def test_document_names_every_operation() -> None:
    """Each operation that is lowered stands in one row of the table."""
    table = DOCUMENT.read_text(encoding="utf-8").split("## Operations")[1].split("## Tokens")[0]
    cells = re.findall(r"^\| (.*?) \|", table, re.M)
    named = [name for cell in cells for name in re.findall(r"`([\w$]+)`", cell)]
    expected = {cls.mnemonic() for cls in OPERATIONS.values() if cls not in REFUSED}
    assert sorted(set(named) - {"cuda_tile"}) == sorted(expected)
    assert len(named) == len(set(named))
