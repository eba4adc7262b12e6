"""What programs use around their kernels works on every machine."""

from __future__ import annotations

import pytest

pytest.importorskip("cuda.tile", reason="cuTile is not installed (pip install cuda-tile)")

from tests.cutile.api.host import PROGRAMS, Program

from tilewright.cutile import on


@pytest.mark.parametrize("machine", ["reference", "cpu"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.run.__name__)
def test_it_works(program: Program, machine: str) -> None:
    with on(machine):
        program.run()
