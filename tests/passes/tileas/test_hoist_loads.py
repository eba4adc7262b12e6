"""What an iteration loads behind its product begins with the iteration, and no thread waits for others to load a scalar."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from xdsl.dialects import scf

from tilewright.dialects.nv_tileaa.ops.memory import Load, LoadOp, TiledLoadOp
from tilewright.dialects.nv_tileas.asynchronous import BarrierOp
from tilewright.dialects.nv_tileas.ops import DotOp
from tilewright.machine.launch import Program
from tilewright.passes.tileas.remarks import Remarks
from tilewright.passes.tileas.schedule import schedule_products
from tilewright.passes.tileas.shared_conversions import scratch_of
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

SUMS = (64, 64, "f32")
LAYOUTS = "tileaa,tileas-assign-layouts,tileas-pipeline"


def scaled(
    *, columns: int = 1, scalar: bool = False, stored: bool = False, apart: bool = False
) -> str:
    """c = the sum over rounds of a x b, times a tile of 64 x ``columns`` of d, or times a ``scalar`` of d; an iteration may have
    ``stored`` its sums to d before. With ``apart`` an iteration begins with the number of the column of d."""
    d, ty = (64, columns, "f32"), "tile<64x64xf32>"
    lines = ["    %where = addi %s, %s : tile<i32>\n"] if apart else []
    lines += [K.load("l", "a", "%zero, %s", K.A), K.load("r", "b", "%s, %zero", K.B)]
    lines.append(f"    %part = mmaf %l, %r, %nothing : tile<64x32xf16>, tile<32x64xf16>, {ty}\n")
    if stored:
        kept = K.store("kept", "d", "%zero, %s", d)
        first = "    %kept = extract %part[%zero, %zero] : tile<64x64xf32> -> tile<64x1xf32>\n"
        lines += [first, kept]
    if scalar:
        lines.append(
            "    %place = offset %dp, %s : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>\n"
            "    %few, %few_t = load_ptr_tko weak %place : tile<ptr<f32>> -> tile<f32>, token\n"
            "    %one_by_one = reshape %few : tile<f32> -> tile<1x1xf32>\n"
            f"    %scale = broadcast %one_by_one : tile<1x1xf32> -> {ty}\n"
        )
    elif columns == 1:
        lines.append(K.load("few", "d", "%zero, %where" if apart else "%zero, %s", d))
        lines.append(f"    %scale = broadcast %few : tile<64x1xf32> -> {ty}\n")
    else:
        lines.append(K.load("scale", "d", "%zero, %s", d))
    body = (
        f"  %nothing = constant <f32: 0.0> : {ty}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({ty}) {{\n"
        + "".join(lines)
        + f"    %next = fma %part, %scale, %acc : {ty}\n    continue %next : {ty}\n  }}\n"
    )
    matrices = {"a": K.A, "b": K.B, "d": d, "c": SUMS}
    return K.entry(matrices, body + K.store("sum", "c", "%zero, %zero", SUMS))


def arguments(steps: int) -> list[Any]:
    rng = np.random.default_rng(steps)
    made = [rng.standard_normal((K.WIDTH, K.WIDTH)) for _ in range(3)]
    types = (np.float16, np.float16, np.float32)
    arrays = [values.astype(ty) for values, ty in zip(made, types, strict=True)]
    return [*arrays, np.zeros((K.WIDTH, K.WIDTH), np.float32), K.WIDTH, K.WIDTH, steps]


def _order(module: Any) -> list[str]:
    """The product, and loads of registers, in the order of an iteration."""
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    found: list[str] = []
    for op in loop.body.block.ops:
        if isinstance(op, Load):
            found.append("load")
        if isinstance(op, DotOp):
            found.append("product")
    return found


@pytest.mark.parametrize("how", [{}, {"scalar": True}, {"apart": True}], ids=str)
@pytest.mark.parametrize("rings", [False, True])
def test_few_bytes_come_first(how: dict[str, bool], rings: bool) -> None:
    text, passes = scaled(**how), LAYOUTS if rings else "tileaa,tileas-assign-layouts"
    before = K.lowered(text, passes)
    others = [] if rings else ["load", "load"]
    assert _order(before) == [*others, "product", "load"]
    after = K.lowered(text, passes + ",tileas-schedule")
    assert _order(after) == ["load", *others, "product"]
    for steps in (0, 1, 3):
        expected, found = arguments(steps), arguments(steps)
        Program(before).launch("k", 1, expected)
        Program(after).launch("k", 1, found)
        assert found[3].tobytes() == expected[3].tobytes()


def test_tiles_of_many_bytes_stay() -> None:
    """A thread would hold them beside the sums while these are made."""
    module = K.lowered(scaled(columns=64), LAYOUTS + ",tileas-schedule")
    assert _order(module) == ["product", "load"]


def test_what_the_loop_writes_stays() -> None:
    """A round's store may reach what the load reads."""
    module = K.lowered(scaled(stored=True), LAYOUTS + ",tileas-schedule")
    assert _order(module) == ["product", "load"]


def test_it_is_told() -> None:
    module = K.lowered(scaled(), LAYOUTS)
    remarks = Remarks()
    for func in module.ops:
        schedule_products(func, remarks)  # pyright: ignore[reportArgumentType]
    (remark,) = (found for found in remarks.found if found.kind == "early")
    assert "the load of 'few' is hoisted" in remark.message


def test_a_scalar_needs_no_meeting() -> None:
    """Each thread loads it: no scratch memory, and in an iteration only the barrier of the ring."""
    module = K.lowered(scaled(scalar=True), "tileaa,tileas")
    loads = [op for op in module.walk() if isinstance(op, LoadOp | TiledLoadOp)]
    assert loads and all(scratch_of(op) is None for op in loads)
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    assert sum(isinstance(op, BarrierOp) for op in loop.walk()) == 1


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("scalar", [False, True])
def test_on_the_simulator(arch: str, scalar: bool) -> None:
    program = TileProgram(parse(scaled(scalar=scalar)), arch)
    expected, found = arguments(3), arguments(3)
    Program(parse(scaled(scalar=scalar))).launch("k", 1, expected)
    program.launch("k", 1, found)
    np.testing.assert_allclose(found[3], expected[3], rtol=1e-4, atol=1e-4)
    assert not program.fallbacks
