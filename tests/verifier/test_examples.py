"""The examples of every operation are programs that hold."""

from __future__ import annotations

import pytest

from tilewright import bytecode
from tilewright.analysis.verifier import find_problems
from tilewright.dialects.cuda_tile.base import OPERATIONS
from tilewright.dialects.cuda_tile.examples import wrap
from tilewright.text import parse, print_text, same_module

#: Operations of test builds and previews have no syntax to show.
WITHOUT_EXAMPLES = ("testing$", "preview$")

CASES = [
    pytest.param(mnemonic, example, id=f"{mnemonic}-{number}")
    for mnemonic, cls in OPERATIONS.items()
    for number, example in enumerate(cls.EXAMPLES)
]


def test_every_operation_has_an_example() -> None:
    without = [name for name, cls in OPERATIONS.items() if not cls.EXAMPLES]
    assert all(name.startswith(WITHOUT_EXAMPLES) for name in without)


@pytest.mark.parametrize(("mnemonic", "example"), CASES)
def test_it_shows_the_operation_and_verifies(mnemonic: str, example: str) -> None:
    module = parse(wrap(example))
    assert any(op.name == f"cuda_tile.{mnemonic}" for op in module.walk())
    assert find_problems(module, hints="error") == []


@pytest.mark.parametrize(("mnemonic", "example"), CASES)
def test_what_it_prints_reads_back(mnemonic: str, example: str) -> None:
    printed = print_text(parse(wrap(example)))
    assert print_text(parse(printed)) == printed


@pytest.mark.parametrize(("mnemonic", "example"), CASES)
def test_bytecode_keeps_it(mnemonic: str, example: str) -> None:
    module = parse(wrap(example))
    read = bytecode.read(bytecode.write(module))
    assert find_problems(read) == []
    # Bytecode does not store the name of the module.
    read.properties["sym_name"] = module.properties["sym_name"]
    assert same_module(read, module) is None
