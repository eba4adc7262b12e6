"""The roster is complete; every example reads, prints and verifies, and means what it should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.dialects.arith.support import stock_parse, stock_print
from xdsl.dialects.arith import Arith
from xdsl.dialects.math import Math

from tilewright.analysis.verifier import find_problems
from tilewright.dialects import arith
from tilewright.dialects.arith import OPERATIONS, ArithOp
from tilewright.dialects.cuda_tile import load as load_cuda_tile
from tilewright.dialects.cuda_tile.base import OPERATIONS as CUDA_TILE
from tilewright.dialects.nv_tileaa.examples import wrap
from tilewright.numerics.semantics import ELEMENTWISE
from tilewright.text import parse, print_text

load_cuda_tile()

ROSTER = {
    "arith": (
        "constant addi subi muli divsi divui ceildivsi ceildivui floordivsi remsi remui andi ori "
        "xori shli shrsi shrui maxsi maxui minsi minui cmpi cmpf select extsi extui trunci sitofp "
        "uitofp fptosi fptoui index_cast index_castui bitcast negf maximumf minimumf maxnumf "
        "minnumf remf"
    ),
    "math": "absf absi ceil floor cos sin tan cosh sinh tanh exp log log2 atan2 powf fpowi",
}
EXAMPLES = [
    pytest.param(example, id=f"{name}-{number}")
    for name, op in OPERATIONS.items()
    for number, example in enumerate(op.EXAMPLES)
]
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "nv_tileaa.md"


def test_roster_is_complete() -> None:
    listed = {f"{d}.{name}" for d, names in ROSTER.items() for name in names.split()}
    assert set(OPERATIONS) == listed
    loaded = {op.name for dialect in arith.load() for op in dialect.operations}
    assert loaded == listed


def test_classes_are_named_as_upstream() -> None:
    stock = {op.name: op.__name__ for d in (Arith, Math) for op in d.operations}
    ours = {name: op.__name__ for name, op in OPERATIONS.items()}
    assert {name: cls for name, cls in ours.items() if name in stock and stock[name] != cls} == {}
    assert set(ours) - set(stock) == {"arith.index_castui", "arith.remf"}
    assert all(getattr(arith, cls) is OPERATIONS[name] for name, cls in ours.items())


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_is_explained(name: str) -> None:
    op = OPERATIONS[name]
    assert op.EXAMPLES
    assert (op.__doc__ or "").strip()
    assert all(directive.grammar() for directive in op.SYNTAX)
    written = re.compile(rf"{re.escape(name)}(?![\w.])")
    assert all(written.search(example) for example in op.EXAMPLES)


@pytest.mark.parametrize("name", OPERATIONS)
def test_source_is_an_operation_of_cuda_tile(name: str) -> None:
    op = OPERATIONS[name]
    if not name.startswith("arith.index_cast"):
        assert all(part.split()[0] in CUDA_TILE for part in op.SOURCE.split(", "))


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_is_legal(example: str) -> None:
    module = parse(wrap(example))
    module.verify()
    assert find_problems(module) == []


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("example", EXAMPLES)
def test_example_survives_printing(example: str, generic: bool) -> None:
    module = parse(wrap(example))
    text = print_text(module, generic=generic)
    again = parse(text)
    assert print_text(again, generic=generic) == text
    assert again.is_structurally_equivalent(module)


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("example", EXAMPLES)
def test_stock_tools_read_and_print(example: str, generic: bool) -> None:
    module = stock_parse(wrap(example))
    module.verify()
    text = stock_print(module, generic)
    assert stock_parse(text).is_structurally_equivalent(module)


@pytest.mark.parametrize("example", EXAMPLES)
def test_meaning_names_an_element_operation(example: str) -> None:
    for op in parse(wrap(example)).walk():
        if isinstance(op, ArithOp) and op.name != "arith.constant":
            assert op.meaning().name in ELEMENTWISE


def test_document_lists_the_operations() -> None:
    """Each operation has one row, with its source and its properties."""
    rows = dict(
        re.findall(r"^\| `((?:arith|math)\.\w+)` \|(.*)$", DOCUMENT.read_text("utf-8"), re.M)
    )
    assert set(rows) == set(OPERATIONS)
    for name, row in rows.items():
        op = OPERATIONS[name]
        sources = [op.SOURCE] if "index_cast" in name else [f"`{s}`" for s in op.SOURCE.split(", ")]
        assert all(source in row for source in sources), name
        for property_name in op.get_irdl_definition().properties:
            if property_name not in ("value", "predicate"):
                assert f"`{property_name}`" in row, (name, property_name)
