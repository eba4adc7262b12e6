"""What threads make for products is written to shared memory without conflicts of banks."""

from __future__ import annotations

import pytest
from tests.passes.tileas import kernels as K
from tests.passes.tileas.test_converted_rings import CASES, Operands, arguments, text_of

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileas.asynchronous import AsyncTiledLoadOp
from tilewright.dialects.nv_tileas.ops import CopyOp, LocalLoadOp
from tilewright.dialects.nv_tileas.types import TiledViewType, layout_of
from tilewright.layouts.conversions import WIDEST, ordered_for
from tilewright.machine.launch import Program
from tilewright.passes import run_pipeline
from tilewright.passes.tileas.access_layouts import element_bytes
from tilewright.passes.tileas.pipeline import copy_layout
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

MADE = [case for case in CASES if case.convert]


def waves(op: CopyOp) -> int:
    layout, ty = layout_of(op.source.type), op.target.type
    assert layout is not None and isinstance(ty, TiledViewType)
    size = element_bytes(op.source.type)
    ordered, _ = ordered_for(layout, ty.shared, size)
    return ty.shared.waves(ordered, ty.shared.vector(ordered, WIDEST // size), size)


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("case", MADE, ids=str)
def test_copies_write_in_one_wave(case: Operands, warps: int) -> None:
    """As ``wgmma`` wants them; on the reference machine the results are the same."""
    assign = f"tileaa,tileas-assign-layouts{{target=sm_90a num-warps={warps}}}"
    module = K.lowered(text_of(case), assign)
    before = max(waves(op) for op in module.walk() if isinstance(op, CopyOp))
    run_pipeline(module, "tileas-avoid-conflicts", verify_each=True)
    copies = [op for op in module.walk() if isinstance(op, CopyOp)]
    assert copies
    assert max(map(waves, copies)) == 1, before
    expected, found = arguments(case, 2), arguments(case, 2)
    Program(parse(text_of(case))).launch("k", 1, expected)
    Program(module).launch("k", 1, found)
    assert found[2].tobytes() == expected[2].tobytes()


def test_bytes_that_become_halves_did_conflict() -> None:
    """The class that the pass is for: without it, two waves for one."""
    case = Operands(("f16", "i8"), "f16", convert="itof")
    module = K.lowered(text_of(case), "tileaa,tileas-assign-layouts{target=sm_90a}")
    found = [waves(op) for op in module.walk() if isinstance(op, CopyOp)]
    assert 2 in found


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("case", MADE, ids=str)
def test_threads_have_no_conflicts(case: Operands, arch: str) -> None:
    program = TileProgram(parse(text_of(case)), arch)
    launch = program.launch("k", 1, arguments(case, 3))
    assert launch.counters.bank_conflicts == 0


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("case", MADE, ids=str)
def test_stages_are_filled_and_read_in_one_wave(case: Operands, warps: int) -> None:
    """Other threads copy a tile than those that the pass lets compute with it."""
    module = K.lowered(
        text_of(case),
        f"tileaa,tileas-assign-layouts{{target=sm_90a num-warps={warps}}},tileas-avoid-conflicts,"
        "tileas-pipeline{shared-bytes=200000},tileas-expand",
    )
    accesses = [
        (op.target.type, copy_layout(op, 32 * warps))
        for op in module.walk()
        if isinstance(op, AsyncTiledLoadOp)
    ]
    accesses += [
        (op.source.type, layout_of(op.result.type))
        for op in module.walk()
        if isinstance(op, LocalLoadOp)
    ]
    assert accesses
    for ty, layout in accesses:
        assert isinstance(ty, TiledViewType) and layout is not None
        size = element_bytes(T.TileType(ty.dims, ty.element_type))
        ordered, _ = ordered_for(layout, ty.shared, size)
        assert ty.shared.waves(ordered, ty.shared.vector(ordered, WIDEST // size), size) == 1
