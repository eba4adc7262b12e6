"""Products that the tensor cores do not have: threads multiply, without conflicts of banks, whatever the types, the extents and
the order of the operands."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.passes.tileas import kernels as K

from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas.types import layout_of
from tilewright.machine.launch import Program
from tilewright.passes import run_pipeline
from tilewright.passes.tileas.access_layouts import Shape, coalesced
from tilewright.passes.tileas.thread_products import (
    ThreadPlan,
    thread_accumulator,
    tile_of_thread,
    waves_of,
)
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

NUMPY: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "i32": np.int32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}


@dataclass(frozen=True)
class Small:
    """A product of ``batch`` matrices, of which each is m x k by k x n; ``turned`` operands are loaded by columns."""

    dims: tuple[int, int, int, int]
    element: str = "f32"
    sums: str = "f32"
    turned: str = ""
    signs: str = "signed signed"

    def __str__(self) -> str:
        extents = "x".join(map(str, self.dims))
        signs = "" if self.signs == "signed signed" else "-unsigned"
        return f"{extents}-{self.element}-{self.sums}{self.turned and '-' + self.turned}{signs}"


CASES = [
    Small((1, 64, 64, 16)),
    Small((1, 64, 64, 16), turned="a"),
    Small((1, 64, 64, 16), turned="b"),
    Small((1, 32, 128, 32), turned="ab"),
    Small((1, 128, 32, 8)),
    Small((1, 64, 64, 64)),
    Small((1, 1, 64, 64)),
    Small((1, 64, 1, 64), turned="b"),
    Small((1, 4, 8, 2)),
    Small((1, 2, 2, 1)),
    Small((16, 16, 16, 16)),
    Small((4, 32, 32, 16)),
    Small((8, 8, 8, 4)),
    Small((8, 1, 16, 16)),
    Small((1, 8, 32, 32), "f16"),
    Small((1, 8, 32, 32), "f16", "f16", turned="b"),
    Small((4, 8, 8, 8), "bf16"),
    Small((1, 8, 64, 32), "i8", "i32"),
    Small((1, 8, 64, 32), "i8", "i32", signs="unsigned signed"),
    Small((8, 8, 8, 16), "i8", "i32", signs="unsigned unsigned"),
    Small((1, 8, 32, 64), "f8E4M3FN", turned="b"),
    Small((1, 8, 16, 16), "f8E5M2"),
    Small((1, 4, 64, 32), "f64", "f64"),
    Small((4, 4, 16, 16), "f64", "f64", turned="b"),
]


def _operand(name: str, case: Small, rows: int, columns: int) -> tuple[str, tuple[int, int, str]]:
    """The lines that load an operand as one tile, and bring it into its shape; and that tile."""
    batch, kind = case.dims[0], case.element
    shape = (columns, rows) if name in case.turned else (rows, columns)
    held = (batch * shape[0], shape[1], kind)
    text = K.load(f"{name}0", name, "%s, %zero", held)
    value, dims = f"{name}0", list(held[:2])

    def step(operation: str, order: str, wanted: list[int]) -> None:
        nonlocal text, value, dims
        given, ty = "x".join(map(str, dims)), "x".join(map(str, wanted))
        text += f"    %{value}n = {operation} %{value}{order} : tile<{given}x{kind}> -> tile<{ty}x{kind}>\n"
        value, dims = f"{value}n", wanted

    if batch > 1:
        step("reshape", "", [batch, *shape])
    if name in case.turned:
        front = [batch] if batch > 1 else []
        order = " [0, 2, 1]" if batch > 1 else " [1, 0]"
        step("permute", order, [*front, rows, columns])
    types = "x".join(map(str, dims))
    return (
        text + f"    %{name}x = reshape %{value} : tile<{types}x{kind}> -> tile<{types}x{kind}>\n",
        held,
    )


def text_of(case: Small) -> str:
    batch, m, n, k = case.dims
    front = f"{batch}x" if batch > 1 else ""
    sums, out = f"tile<{front}{m}x{n}x{case.sums}>", (batch * m, n, case.sums)
    (left, a), (right, b) = _operand("a", case, m, k), _operand("b", case, k, n)
    op, signs = ("mmai", f" {case.signs}") if case.element == "i8" else ("mmaf", "")
    zero = "0" if case.sums == "i32" else "0.0"
    return K.entry(
        {"a": a, "b": b, "c": out},
        f"  %nothing = constant <{case.sums}: {zero}> : {sums}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({sums}) {{\n{left}{right}"
        f"    %next = {op} %ax, %bx, %acc{signs} : tile<{front}{m}x{k}x{case.element}>, "
        f"tile<{front}{k}x{n}x{case.element}>, {sums}\n    continue %next : {sums}\n  }}\n"
        f"  %flat = reshape %sum : {sums} -> tile<{out[0]}x{n}x{case.sums}>\n"
        + K.store("flat", "c", "%zero, %zero", out),
    )


def arguments(case: Small, steps: int) -> list[Any]:
    """Numbers whose sums are exact, in any order."""
    rng = np.random.default_rng(steps)
    least = 0 if case.element == "i8" and "unsigned" in case.signs else -3
    shape = (512, K.WIDTH)
    made = [rng.integers(least, 4, shape).astype(NUMPY[case.element]) for _ in range(2)]
    return [*made, np.zeros(shape, NUMPY[case.sums]), *shape, steps]


def expected(case: Small, values: list[Any], steps: int) -> np.ndarray[Any, Any]:
    batch, m, n, k = case.dims
    total = np.zeros((batch, m, n))
    for step in range(steps):
        factors = []
        for name, array, rows, columns in (("a", values[0], m, k), ("b", values[1], k, n)):
            shape = (columns, rows) if name in case.turned else (rows, columns)
            count = batch * shape[0]
            tile = array[step * count : (step + 1) * count, : shape[1]].astype(np.float64)
            tile = tile.reshape(batch, *shape)
            factors.append(tile.transpose(0, 2, 1) if name in case.turned else tile)
        total += factors[0] @ factors[1]
    return total.reshape(batch * m, n)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_threads_multiply_without_conflicts(case: Small, arch: str) -> None:
    program = TileProgram(parse(text_of(case)), arch)
    values = arguments(case, 2)
    launch = program.launch("k", 1, values)
    assert not program.fallbacks
    batch, m, n, _ = case.dims
    assert np.array_equal(values[2][: batch * m, :n].astype(float), expected(case, values, 2))
    assert launch.counters.bank_conflicts == 0


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_reference_machine_computes_the_same(case: Small) -> None:
    """In front of the pass and behind it; and the product is one of threads."""
    module = K.lowered(text_of(case), "tileaa")
    before, after = arguments(case, 2), arguments(case, 2)
    Program(module).launch("k", 1, before)
    run_pipeline(module, "tileas-assign-layouts", verify_each=True)
    Program(module).launch("k", 1, after)
    assert before[2].tobytes() == after[2].tobytes()
    (dot,) = [op for op in module.walk() if isinstance(op, S.DotOp)]
    assert S.atom_of(dot) == "fma"
    dims = case.dims if case.dims[0] > 1 else case.dims[1:]
    assert layout_of(dot.c.type) == thread_accumulator(dims[:-1], 128)


@pytest.mark.parametrize("warps", [1, 2, 8, 16])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_other_numbers_of_warps_have_no_conflicts_either(case: Small, warps: int) -> None:
    batch, m, n, k = case.dims
    front, threads = ((batch,) if batch > 1 else ()), 32 * warps
    size = np.dtype(NUMPY[case.element]).itemsize
    plan = ThreadPlan((*front, m, n), k, (size, size), threads)
    assert prod(plan.warps) == warps
    for side, shape in enumerate(((m, k), (k, n))):
        dims = (*front, *shape)
        for inner in (len(dims) - 2, len(dims) - 1):
            own = coalesced(dims, threads, Shape(inner, 16 // size))
            places = plan.storage(own, dims, inner, side)
            assert [waves_of(each, places, size) for each in (own, plan.reader(side))] == [1, 1]


@pytest.mark.parametrize("shape", [(64, 64), (128, 32), (32, 128), (128, 128), (16, 256)], ids=str)
def test_sums_are_as_square_as_registers_go(shape: tuple[int, int]) -> None:
    """What a thread reads for each k is the sum of its rows and columns."""
    down, across = tile_of_thread(thread_accumulator(shape, 128), shape)
    assert down * across == shape[0] * shape[1] // 128
    assert max(down, across) <= 2 * min(down, across)
