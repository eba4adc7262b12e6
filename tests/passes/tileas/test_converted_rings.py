"""Products whose operands are turned, widened or rounded between load and product: brought ahead as they
are loaded, with the same results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from xdsl.dialects import scf

from tilewright import LaunchOptions
from tilewright.dialects.nv_tileaa.ops.memory import TiledLoadOp
from tilewright.dialects.nv_tileas.asynchronous import AsyncTiledLoadOp
from tilewright.dialects.nv_tileas.ops import AllocTensorOp, LocalLoadOp, PermuteViewOp
from tilewright.machine.launch import Program
from tilewright.passes import run_pipeline
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

NUMPY: dict[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "i8": np.int8,
    "i32": np.int32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
}


@dataclass(frozen=True)
class Operands:
    """How both operands, of 64x64 each, are loaded, and become what is multiplied."""

    loaded: tuple[str, str]
    multiplied: str
    sums: str = "f32"
    turned: bool = False
    convert: str = ""

    def __str__(self) -> str:
        return f"{self.loaded[0]}-{self.loaded[1]}-{self.multiplied}{'-turned' * self.turned}"


CASES = [
    Operands(("f16", "f16"), "f16", turned=True),
    Operands(("i8", "i8"), "i8", "i32"),
    Operands(("i8", "i8"), "i8", "i32", turned=True),
    Operands(("f8E4M3FN", "f8E4M3FN"), "f8E4M3FN"),
    Operands(("f8E4M3FN", "f8E4M3FN"), "f8E4M3FN", turned=True),
    Operands(("f32", "f32"), "tf32", convert="ftof"),
    Operands(("f32", "f32"), "tf32", convert="ftof", turned=True),
    Operands(("f32", "f32"), "f16", convert="ftof"),
    Operands(("f16", "i8"), "f16", convert="itof"),
    Operands(("f16", "i8"), "f16", convert="itof", turned=True),
]


def text_of(case: Operands) -> str:
    name, sums = case.multiplied, f"tile<64x64x{case.sums}>"
    a, b = ((64, 64, element) for element in case.loaded)
    lines = [K.load("l", "a", "%zero, %s", a)]
    lines.append(K.load("r", "b", "%zero, %s" if case.turned else "%s, %zero", b))
    operands = []
    for value, element in zip("lr", case.loaded, strict=True):
        if element != name:
            sign = " signed" if case.convert == "itof" else ""
            lines.append(
                f"    %{value}c = {case.convert} %{value}{sign} : tile<64x64x{element}> -> tile<64x64x{name}>\n"
            )
            value += "c"
        if value[0] == "r" and case.turned:
            lines.append(
                f"    %{value}p = permute %{value} [1, 0] : tile<64x64x{name}> -> tile<64x64x{name}>\n"
            )
            value += "p"
        operands.append(f"%{value}")
    product = "mmai" if name == "i8" else "mmaf"
    signs = " signed signed" if name == "i8" else ""
    lines.append(
        f"    %next = {product} {operands[0]}, {operands[1]}, %acc{signs} : tile<64x64x{name}>, "
        f"tile<64x64x{name}>, {sums}\n    continue %next : {sums}\n  }}\n"
    )
    zero = "0" if case.sums == "i32" else "0.0"
    return K.entry(
        {"a": a, "b": b, "c": (64, 64, case.sums)},
        f"  %nothing = constant <{case.sums}: {zero}> : {sums}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({sums}) {{\n"
        + "".join(lines)
        + K.store("sum", "c", "%zero, %zero", (64, 64, case.sums)),
    )


def arguments(case: Operands, steps: int, extent: int = K.WIDTH) -> list[Any]:
    rng = np.random.default_rng(steps)
    shape = (K.WIDTH, K.WIDTH)
    made = []
    for element in case.loaded:
        if element == "i8":
            made.append(rng.integers(-20, 20, shape).astype(np.int8))
        else:
            made.append(rng.standard_normal(shape).astype(np.float32).astype(NUMPY[element]))
    return [*made, np.zeros(shape, NUMPY[case.sums]), extent, extent, steps]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_schedules_keep_the_result(case: Operands) -> None:
    """On the reference machine, bit by bit, for loops of 0 to 4 rounds, whole tiles and cut ones."""
    text = text_of(case)
    module = K.lowered(text, "tileaa,tileas-assign-layouts")
    run_pipeline(module, "tileas-pipeline{shared-bytes=180000},tileas-expand", verify_each=True)
    ops = list(module.walk())
    assert sum(isinstance(op, AsyncTiledLoadOp) for op in ops) == 2 * 3
    loops = [op for op in ops if isinstance(op, scf.ForOp)]
    assert not [op for loop in loops for op in loop.walk() if isinstance(op, TiledLoadOp)]
    rings = [op.result.type for op in ops if isinstance(op, AllocTensorOp)]
    assert sum(ty.stages == 3 for ty in rings) == 2  # pyright: ignore[reportAttributeAccessIssue]
    if case.convert or case.multiplied == "f8E4M3FN":
        assert any(isinstance(op, LocalLoadOp) for op in ops)
    elif case.turned:
        assert any(isinstance(op, PermuteViewOp) for op in ops)
    for steps in (0, 1, 2, 4):
        for extent in (K.WIDTH, K.WIDTH - 24):
            expected, found = (arguments(case, steps, extent) for _ in range(2))
            Program(parse(text)).launch("k", 1, expected)
            Program(module).launch("k", 1, found)
            assert found[2].tobytes() == expected[2].tobytes(), (steps, extent)
            assert found[2].any() == (steps > 0)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_schedules_as_threads(case: Operands, arch: str) -> None:
    """On the simulator, which finds races, under two orders of warps."""
    expected = arguments(case, 3, K.WIDTH - 24)
    Program(parse(text_of(case))).launch("k", 1, expected)
    program = TileProgram(parse(text_of(case)), arch)
    for seed in range(2):
        given = arguments(case, 3, K.WIDTH - 24)
        program.launch("k", 1, given, LaunchOptions(seed=seed))
        if case.sums == "i32":
            np.testing.assert_array_equal(given[2], expected[2])
        else:
            np.testing.assert_allclose(given[2], expected[2], rtol=1e-3, atol=2e-3)
    assert program.fallbacks == {}
