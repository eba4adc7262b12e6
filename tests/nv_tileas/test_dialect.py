"""Every operation is explained, and its examples read, print and verify."""

from __future__ import annotations

import re

import pytest
from xdsl.universe import Universe

from tilewright.analysis.verifier import find_problems
from tilewright.cli.main import main
from tilewright.dialects.nv_tileaa.examples import wrap
from tilewright.dialects.nv_tileas import load, pipelines
from tilewright.dialects.nv_tileas.base import OPERATIONS
from tilewright.dialects.nv_tileas.types import ATTRIBUTES, TYPES
from tilewright.text import parse, print_text

load()

ROSTER = {
    "placement": "convert_layout alloc_tensor extract_slice copy local_load permute_view dot",
    "asynchronous": "async.tiled_load async.load async.group async.create_none async.dot async.future_wait async.wait barrier",
    "pipelines": "async.pipeline.create_pipeline async.pipeline.create_iterator "
    "async.pipeline.create_null_token async.pipeline.inc_iter "
    "async.pipeline.producer_acquire async.pipeline.consumer_wait async.pipeline.producer_write "
    "async.pipeline.consumer_read async.pipeline.producer_commit async.pipeline.consumer_release "
    "make_tiled_tma_desc async.tiled_tma_load",
    "agents": "async.pipeline.agent_switch async.pipeline.yield",
    "stores": "async.tiled_tma_store async.store_wait",
}
EXAMPLES = [
    pytest.param(example, id=f"{name}-{number}")
    for name, op in OPERATIONS.items()
    for number, example in enumerate(op.EXAMPLES)
]


def test_roster_is_complete() -> None:
    listed = {name: family for family, names in ROSTER.items() for name in names.split()}
    assert {name: op.GROUP for name, op in OPERATIONS.items()} == listed


def test_dialect_holds_everything() -> None:
    assert {op.name for op in load().operations} == {f"nv_tileas.{n}" for n in OPERATIONS}
    assert set(load().attributes) == {*TYPES, *pipelines.TYPES, *ATTRIBUTES}


def test_stock_tools_find_the_dialect_and_its_lowering() -> None:
    found = Universe.get_multiverse()
    assert "nv_tileas" in found.all_dialects
    assert found.all_passes["convert-tileas-to-nvgpu"]().name == "convert-tileas-to-nvgpu"


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_is_explained(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    op = OPERATIONS[name]
    assert op.EXAMPLES
    written = re.compile(rf"nv_tileas\.{re.escape(name)}(?![\w.])")
    assert all(written.search(example) for example in op.EXAMPLES)
    assert main(["explain", f"nv_tileas.{name}"]) == 0
    told = capfd.readouterr().out
    assert told.startswith(f"nv_tileas.{name}: ")
    assert "\nExample" in told


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_is_legal(example: str) -> None:
    module = parse(wrap(example))
    module.verify()
    assert [d.brief() for d in find_problems(module)] == []


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("example", EXAMPLES)
def test_example_survives_printing(example: str, generic: bool) -> None:
    module = parse(wrap(example))
    text = print_text(module, generic=generic)
    again = parse(text)
    assert again.is_structurally_equivalent(module)
    assert print_text(again, generic=generic) == text
