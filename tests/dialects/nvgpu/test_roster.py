"""The roster is complete, and every example of every operation reads, prints and verifies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.dialects.nvgpu.support import problems
from xdsl.universe import Universe

from tilewright.dialects.nvgpu import load, load_nvvm, wgmma
from tilewright.dialects.nvgpu.base import OPERATIONS
from tilewright.dialects.nvgpu.enums import ENUM_ATTRIBUTES
from tilewright.dialects.nvgpu.examples import wrap
from tilewright.dialects.nvgpu.types import TYPES
from tilewright.dialects.upstream import arith, gpu, llvm, memref, nvvm, vector
from tilewright.dialects.upstream.base.operations import OPERATIONS as UPSTREAM
from tilewright.text import parse, print_text, same_module

load()
LOADED = {
    dialect.name: dialect
    for dialect in (m.load() for m in (arith, gpu, llvm, memref, nvvm, vector))
}

ROSTER = [
    "device_async_copy",
    "device_async_create_group",
    "device_async_wait",
    "ldmatrix",
    "mma.sync",
    "mma.sp.sync",
    "rcp",
    "mbarrier.create",
    "mbarrier.get",
    "mbarrier.init",
    "mbarrier.arrive",
    "mbarrier.arrive.nocomplete",
    "mbarrier.arrive.expect_tx",
    "mbarrier.test.wait",
    "mbarrier.try_wait.parity",
    "tma.async.load",
    "tma.async.store",
    "tma.create.descriptor",
    "tma.prefetch.descriptor",
    "tma.fence.descriptor",
    "warpgroup.generate.descriptor",
    "warpgroup.mma",
    "warpgroup.mma.init.accumulator",
    "warpgroup.mma.store",
]

DECLARED = {f"nvgpu.{name}": op for name, op in OPERATIONS.items()} | {
    op.name: op
    for operations in (*UPSTREAM.values(), wgmma.OPERATIONS)
    for op in operations.values()
}
EXAMPLES = [
    pytest.param(example, id=f"{name}-{number}")
    for name, op in DECLARED.items()
    for number, example in enumerate(op.EXAMPLES)
]
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "nvgpu.md"


def test_roster_is_complete() -> None:
    assert sorted(OPERATIONS) == sorted(ROSTER)
    assert len(ROSTER) == 24


def test_dialect_holds_everything() -> None:
    dialect = load()
    assert {op.name for op in dialect.operations} == {f"nvgpu.{name}" for name in OPERATIONS}
    assert set(dialect.attributes) == {*TYPES, *ENUM_ATTRIBUTES}


def test_upstream_dialects_hold_what_is_declared_for_them() -> None:
    for name, operations in UPSTREAM.items():
        held = {op.name: op for op in LOADED[name].operations}
        assert all(held[op.name] is op for op in operations.values())


def test_ours_are_in_the_nvvm_of_our_texts_and_not_in_upstreams() -> None:
    ours = set(wgmma.OPERATIONS.values())
    assert ours
    assert ours.isdisjoint(LOADED["nvvm"].operations)
    assert set(load_nvvm().operations) == ours | set(LOADED["nvvm"].operations)


def test_stock_tools_find_the_dialect() -> None:
    assert "nvgpu" in Universe.get_multiverse().all_dialects


@pytest.mark.parametrize("name", DECLARED)
def test_operation_is_explained(name: str) -> None:
    op = DECLARED[name]
    assert op.EXAMPLES
    assert (op.__doc__ or "").strip()
    assert all(directive.grammar() is not None for directive in op.SYNTAX)
    written = re.compile(rf"{re.escape(name)}(?![\w.])")
    assert all(written.search(example) for example in op.EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_is_legal(example: str) -> None:
    assert [d.brief() for d in problems(wrap(example))] == []
    parse(wrap(example)).verify()


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("example", EXAMPLES)
def test_example_survives_printing(example: str, generic: bool) -> None:
    """What is printed reads back to the same module, in both forms, from both forms."""
    module = parse(wrap(example))
    text = print_text(module, generic=generic)
    again = parse(text)
    assert same_module(module, again) is None
    assert print_text(again, generic=generic) == text


def test_document_lists_the_roster() -> None:
    """Each operation has one row of the table, which names its operands and properties."""
    rows = re.findall(r"^\| `([\w.]+)` \|(.*)$", DOCUMENT.read_text(encoding="utf-8"), re.M)
    operations = [(name, row) for name, row in rows if name in OPERATIONS]
    assert sorted(name for name, _ in operations) == sorted(OPERATIONS)
    for name, row in operations:
        definition = OPERATIONS[name].get_irdl_definition()
        names = [*(n for n, _ in definition.operands), *definition.properties]
        for part in names:
            if part != "operandSegmentSizes":
                assert f"`{part.rstrip('_')}`" in row, (name, part)
