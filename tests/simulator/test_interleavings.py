"""Compiled kernels under other orders of warps and blocks: no finding, and the same results."""

from __future__ import annotations

import pytest
from tests.corpus import CUTILE_MISSING, CorpusKernel, cutile_available
from tests.simulator.interleavings import ARCHITECTURES, cases, problems

from tilewright.bytecode import read
from tilewright.simulator.tiles import TileProgram

pytestmark = pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)

CASES = list(cases(ARCHITECTURES, "")) if cutile_available() else []
SAMPLE = CASES[::41]


def _check(kernel: CorpusKernel, arch: str, seeds: range) -> None:
    program = TileProgram(read(kernel.export()), arch)
    for seed in seeds:
        assert problems(kernel, program, seed) == [], seed


def _name(value: object) -> str:
    return value.name if isinstance(value, CorpusKernel) else str(value)


@pytest.mark.parametrize("kernel, arch", SAMPLE, ids=_name)
def test_a_sample_under_two_seeds(kernel: CorpusKernel, arch: str) -> None:
    _check(kernel, arch, range(1, 3))


@pytest.mark.long
@pytest.mark.parametrize("kernel, arch", CASES, ids=_name)
def test_all_under_twenty_seeds(kernel: CorpusKernel, arch: str) -> None:
    _check(kernel, arch, range(1, 21))
