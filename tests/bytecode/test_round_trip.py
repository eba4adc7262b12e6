"""What is written is read back the same, for everything that a version can say."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
from tests.bytecode.modules import coverage_module, differences, layouts, sample_module

from tilewright.bytecode import is_bytecode, read, write
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.dialects.source_map import BytecodeSource, source_of
from tilewright.dialects.versions import BYTECODE_VERSIONS, LATEST, Version, format_version

#: The modules are only read here, so that one of each does.
coverage = cache(coverage_module)

VERSIONS = pytest.mark.parametrize("version", BYTECODE_VERSIONS, ids=format_version)


@VERSIONS
def test_everything_survives(version: Version) -> None:
    module = coverage(version)
    data = write(module, version)
    assert is_bytecode(data)
    assert (data[8], data[9]) == version
    found = read(data)
    assert list(differences(module, found)) == []
    assert write(found, version) == data


@VERSIONS
def test_the_module_covers_every_operation(version: Version) -> None:
    names = {op.name.removeprefix("cuda_tile.") for op in coverage(version).walk()}
    assert {layout.op.mnemonic() for layout in layouts(version).values()} <= names


@pytest.mark.parametrize(
    ("older", "newer"), [*pairwise(BYTECODE_VERSIONS), (BYTECODE_VERSIONS[0], LATEST)]
)
def test_older_modules_can_be_written_newer(older: Version, newer: Version) -> None:
    module = coverage(older)
    assert list(differences(module, read(write(module, newer)))) == []


@VERSIONS
def test_an_empty_module(version: Version) -> None:
    found = read(write(ModuleOp.make(), version))
    assert not list(found.block.ops)
    assert found.symbol == "kernels"
    assert found.producer_name is None


@VERSIONS
def test_the_producer_is_kept_where_there_is_room(version: Version) -> None:
    module = ModuleOp.make("other", "some tool 1.0")
    found = read(write(module, version))
    assert found.producer_name == ("some tool 1.0" if version >= (13, 3) else None)
    assert found.symbol == "kernels"


def test_same_module_same_bytes() -> None:
    assert write(sample_module((13, 5), seed=3)) == write(sample_module((13, 5), seed=3))


def test_sources_nest_and_cover_the_function() -> None:
    data = write(coverage((13, 5)))
    module = read(data, "file.tileirbc")
    for op in module.walk():
        source = source_of(op)
        assert isinstance(source, BytecodeSource)
        assert source.file_name == "file.tileirbc"
        assert 0 <= source.start < source.end <= len(data)
        parent = op.parent_op()
        if parent is not None:
            outer = source_of(parent)
            assert isinstance(outer, BytecodeSource)
            assert outer.start <= source.start < source.end <= outer.end
    first = module.entry("all_ops").block.first_op
    assert first is not None
    source = source_of(first)
    assert isinstance(source, BytecodeSource)
    assert source.what == f"function @all_ops, op #0 ({first.name.removeprefix('cuda_tile.')})"
