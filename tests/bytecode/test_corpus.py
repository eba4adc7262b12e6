"""The kernels of the corpus, as cuTile writes them, and NVIDIA's disassembler as the judge."""

from __future__ import annotations

import functools

import pytest
from tests.bytecode.modules import differences
from tests.corpus import CUTILE_MISSING, VERSIONS, cutile_available, cutile_kernel, cutile_kernels
from tests.oracles import disassemble, requires_tileirdisasm

from tilewright.bytecode import read, write
from tilewright.diagnostics import Diagnostic, TileIRError
from tilewright.dialects.cuda_tile.ops.module import ModuleOp as Module
from tilewright.dialects.cuda_tile.types import TileType
from tilewright.dialects.versions import LATEST, Version, parse_version

NAMES = [kernel.name for kernel in cutile_kernels()] if cutile_available() else []
requires_cutile = pytest.mark.skipif(not NAMES, reason=CUTILE_MISSING)

# Module scope: all tests of a kernel run one after the other, and share what is read and written.
# Neighbours differ in an element type: of three kernels one runs, through all tests.
pytestmark = [
    requires_cutile,
    pytest.mark.rotates(3),
    pytest.mark.parametrize("name", NAMES or ["none"], scope="module"),
]

#: Kernels whose types no reader accepts.
ILL_TYPED = {"view_without_axes": "0-dimension tile shape"}


@functools.cache
def exports(name: str) -> dict[Version, bytes]:
    kernel = cutile_kernel(name)
    return {parse_version(v): kernel.export(v) for v in VERSIONS if v in kernel.versions}


@functools.lru_cache(maxsize=1)
def modules(name: str) -> dict[Version, tuple[Module, list[Diagnostic]]]:
    """What is read at each version, and the warnings of that."""
    found: dict[Version, tuple[Module, list[Diagnostic]]] = {}
    for version, data in ({} if name in ILL_TYPED else exports(name)).items():
        warnings: list[Diagnostic] = []
        found[version] = read(data, name, warnings=warnings), warnings
    return found


@functools.lru_cache(maxsize=len(VERSIONS) + 1)
def written(name: str, version: Version) -> bytes:
    """What was read at a version, written at the same."""
    return write(modules(name)[version][0], version)


def test_it_survives_at_its_version(name: str) -> None:
    if name in ILL_TYPED:
        for data in exports(name).values():
            with pytest.raises(TileIRError, match=ILL_TYPED[name]):
                read(data)
    for version, (module, _) in modules(name).items():
        data = written(name, version)
        if data == exports(name)[version]:
            continue
        again = read(data)
        assert list(differences(module, again)) == []
        assert write(again, version) == data


def test_it_can_be_written_newer(name: str) -> None:
    for module, _ in list(modules(name).values())[:1]:
        assert list(differences(module, read(write(module, LATEST)))) == []


def test_older_versions_hold_it_or_say_why_not(name: str) -> None:
    for newest, (module, _) in list(modules(name).items())[-1:]:
        for version in map(parse_version, VERSIONS):
            if version == newest:
                continue
            try:
                older = write(module, version)
            except TileIRError as error:
                assert {d.code for d in error.diagnostics} == {"needs-version"}
                continue
            assert list(differences(module, read(older))) == []


def test_only_dropped_bits_are_warned_about(name: str) -> None:
    """cuTile writes float64 identities with their sign bit set in 65 bits, and nothing else odd."""
    for module, warnings in modules(name).values():
        assert {w.code for w in warnings} <= {"bytecode-dropped-bits"}
        if warnings:
            types = [r.type for op in module.walk() for r in op.results]
            assert any(isinstance(ty, TileType) and ty.element == "f64" for ty in types)


@pytest.mark.oracle
@requires_tileirdisasm
def test_the_disassembler_prints_the_same(name: str) -> None:
    if cutile_kernel(name).refusal:
        pytest.skip("the disassembler refuses this kernel")
    for version, data in exports(name).items():
        printed = disassemble(data, locations=True)
        if written(name, version) != data:
            assert disassemble(written(name, version), locations=True) == printed
    if version != LATEST:
        module, _ = modules(name)[version]
        assert disassemble(write(module, LATEST), locations=True) == printed
