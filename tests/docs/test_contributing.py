"""CONTRIBUTING.md: the tests that it names are there, and tables that are written twice agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.analysis.hints import TARGETS
from tilewright.gpu.architectures import ARCHITECTURES, Architecture
from tilewright.passes import PASSES, PIPELINES
from tilewright.simulator.architectures import Architecture as Simulated
from tilewright.simulator.state import WARP_SIZE

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))
PAGES = ("operation", "pass", "diagnostic", "architecture", "machine")


def test_each_page_has_its_table_of_tests() -> None:
    titles = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
    assert [page.splitlines()[0] for page in titles] == [
        f"Add a{'n' if what[0] in 'oa' else ''} {what}" for what in PAGES
    ]
    for page in titles:
        assert "| test | says | missing |" in page


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_named_tests_exist(path: str, name: str) -> None:
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_names_in_code_exist() -> None:
    """What is written in capitals in a line with a path stands in that file or folder."""
    found = 0
    for line in re.split(r"\n(?=[\d*]|\*\*|\n)", TEXT):
        paths = [ROOT / path for path in re.findall(r"`((?:src|tests)/[\w/]+\.py)`", line)]
        for name in re.findall(r"`(_?[A-Z][A-Z_]{3,})`", line):
            if paths:
                found += 1
                assert any(name in path.read_text(encoding="utf-8") for path in paths), name
    assert found >= 12


def test_passes_are_documented() -> None:
    text = (ROOT / "docs" / "passes.md").read_text(encoding="utf-8")
    own = [name for name in PASSES if PASSES.is_own(name)]
    named = set(re.findall(r"[\w-]+", text))
    assert [name for name in [*own, *PIPELINES] if name not in named] == []


@pytest.mark.parametrize("arch", ARCHITECTURES.values(), ids=lambda arch: arch.name)
def test_architectures_are_known_everywhere(arch: Architecture) -> None:
    """What is compiled for can be simulated, with the same limits, and hints can be about it."""
    simulated = Simulated.parse(arch.name)
    assert simulated.block_shared_bytes == arch.shared_limit
    assert simulated.max_warps * WARP_SIZE == arch.threads_limit
    assert simulated.max_blocks == arch.blocks_limit
    assert simulated.multiprocessors > 0
    assert f"sm_{arch.number}" in TARGETS
