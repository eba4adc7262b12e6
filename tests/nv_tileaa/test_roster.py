"""The roster is complete, and every example of every operation reads, prints and verifies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.nv_tileaa.support import parse, show
from xdsl.irdl import AttrSizedOperandSegments
from xdsl.universe import Universe

from tilewright.analysis.verifier import find_problems
from tilewright.dialects.nv_tileaa import load
from tilewright.dialects.nv_tileaa.attributes import ATTRIBUTES
from tilewright.dialects.nv_tileaa.base import OPERATIONS
from tilewright.dialects.nv_tileaa.enums import ENUM_ATTRIBUTES
from tilewright.dialects.nv_tileaa.examples import wrap
from tilewright.dialects.nv_tileaa.types import TYPES

load()

ROSTER: dict[str, str] = {
    "arithmetic": "addf subf mulf divf fma sqrt rsqrt exp2 clampf mulhiui",
    "contraction": "dot conv_dot reduce scan histogram",
    "shape": (
        "splat broadcast expand_dims extract extract_slice view cat permute make_range generate "
        "block_tile conv_tile get_dim_size"
    ),
    "pointer": (
        "addptr int_to_ptr ptr_to_int make_memref bitcast fp_to_fp extern_elementwise "
        "elementwise_inline_asm call_elementwise_intrinsic"
    ),
    "memory": (
        "get_global load store tiled_load tiled_store gather_load scatter_store atomic_cas "
        "atomic_rmw tiled_atomic_rmw"
    ),
    "hints": (
        "create_mem_token join_mem_token mark_for_reuse assert assume optimization_barrier pragma "
        "message print"
    ),
    "structure": "func call return yield global launch_func execute plugin inject_ir",
    "queue": (
        "get_program_id get_num_programs is_valid_program_id cancel_next_program_id create_queue "
        "queue.get queue.put queue.yield"
    ),
}

#: Operations beside the roster.
EXTENSIONS = "ext.alloca ext.fence ext.grid_dependency ext.insert_slice"

EXAMPLES = [
    pytest.param(example, id=f"{name}-{number}")
    for name, op in OPERATIONS.items()
    for number, example in enumerate(op.EXAMPLES)
]
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "nv_tileaa.md"


def test_roster_is_complete() -> None:
    listed = {name: family for family, names in ROSTER.items() for name in names.split()}
    assert len(listed) == 73
    listed |= dict.fromkeys(EXTENSIONS.split(), "extension")
    assert {name: op.GROUP for name, op in OPERATIONS.items()} == listed


def test_dialect_holds_everything() -> None:
    dialect = load()
    assert {op.name for op in dialect.operations} == {f"nv_tileaa.{n}" for n in OPERATIONS}
    assert set(dialect.attributes) == {*TYPES, *ENUM_ATTRIBUTES, *ATTRIBUTES}


def test_stock_tools_find_the_dialect() -> None:
    assert "nv_tileaa" in Universe.get_multiverse().all_dialects


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_is_explained(name: str) -> None:
    op = OPERATIONS[name]
    assert op.EXAMPLES
    assert (op.__doc__ or "").strip()
    assert all(directive.grammar() is not None for directive in op.SYNTAX)
    written = re.compile(rf"nv_tileaa\.{re.escape(name)}(?![\w.])")
    assert all(written.search(example) for example in op.EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_is_legal(example: str) -> None:
    module = parse(wrap(example))
    module.verify()
    assert [d.brief() for d in find_problems(module)] == []


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("example", EXAMPLES)
def test_example_survives_printing(example: str, generic: bool) -> None:
    """What is printed reads back to the same module, in both forms, from both forms."""
    module = parse(wrap(example))
    text = show(module, generic)
    again = parse(text)
    assert show(again, generic) == text
    assert again.is_structurally_equivalent(module)


def test_operand_counts_leave_out_the_token() -> None:
    """An operation made in Python counts its operands as one read from text does."""
    module = parse(wrap(OPERATIONS["load"].EXAMPLES[0]))
    (op,) = [op for op in module.walk() if op.name == "nv_tileaa.load"]
    cls = OPERATIONS["load"]
    made = cls(
        operands=[op.operands[0], [], [op.operands[1]], [op.operands[2]], [op.operands[3]]],
        result_types=[op.results[0].type, [op.results[1].type]],
        properties={"cache_modifier": op.properties["cache_modifier"]},
    )
    assert made.properties == op.properties
    assert [made.token, made.mask] == [op.operands[3], op.operands[1]]


def test_segments_are_counted_where_groups_are_optional() -> None:
    """Several optional groups need the counts; the printed ones never include the token."""
    for name, op in OPERATIONS.items():
        definition = op.get_irdl_definition()
        if any(isinstance(o, AttrSizedOperandSegments) for o in definition.options):
            for example in op.EXAMPLES:
                module = parse(wrap(example))
                for found in module.walk():
                    if found.name == f"nv_tileaa.{name}":
                        counts = found.properties["operandSegmentSizes"].get_values()  # pyright: ignore[reportAttributeAccessIssue]
                        groups = [n for n, _ in definition.operands if n != "token"]
                        assert len(counts) == len(groups)


def test_document_lists_the_roster() -> None:
    """Each operation has one row in its family's table, which names all its properties."""
    rows = re.findall(r"^\| `([\w.]+)` \|(.*)$", DOCUMENT.read_text(encoding="utf-8"), re.M)
    operations = {name: row for name, row in rows if name in OPERATIONS}
    assert sorted(operations) == sorted(OPERATIONS)
    assert len(rows) == len(set(rows))
    for name, row in operations.items():
        definition = OPERATIONS[name].get_irdl_definition()
        for property_name in definition.properties:
            if property_name not in ("operandSegmentSizes", "function_type"):
                assert f"`{property_name}`" in row, (name, property_name)
