"""Right operands that threads compute from bytes: in registers, where no two warps need the same of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from xdsl.dialects import scf

from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileas.ops import ConvertLayoutOp, CopyOp, DotOp, LocalLoadOp
from tilewright.dialects.nv_tileas.types import layout_of
from tilewright.gpu.tiles import TileProgram as GpuProgram
from tilewright.layouts import plan_conversion
from tilewright.layouts.fragments import Fragment, accumulator, operand_a, operand_b
from tilewright.machine.launch import Program
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

FRAGMENT = Fragment(16, 8, 16, 16)


@dataclass(frozen=True)
class Weights:
    """A product of ``rows`` by weights of 8 or 4 bits, with a scale for each column in each iteration."""

    rows: int = 16
    n: int = 64
    k: int = 64
    pairs: bool = False
    turned: bool = False

    def __str__(self) -> str:
        kind = "4 bits" if self.pairs else "8 bits turned" if self.turned else "8 bits"
        return f"{kind} {self.rows}x{self.n}x{self.k}"


CASES = [
    Weights(),
    Weights(n=128, k=32),
    Weights(n=32),
    Weights(pairs=True),
    Weights(n=128, k=128, pairs=True),
    Weights(turned=True),
    Weights(rows=64, n=128),
]


def text_of(case: Weights) -> str:
    n, k = case.n, case.k
    a, c, d = (case.rows, k, "f16"), (case.rows, n, "f32"), (1, n, "f16")
    held = (k // 2, n, "i8") if case.pairs else (n, k, "i8") if case.turned else (k, n, "i8")
    tile, bytes_of = f"tile<{k}x{n}xf16>", f"tile<{held[0]}x{held[1]}xi8>"
    lines = [K.load("l", "a", "%zero, %s", a)]
    lines.append(K.load("r", "b", "%zero, %s" if case.turned else "%s, %zero", held))
    value = "%r"
    if case.pairs:
        half = f"tile<{k // 2}x1x{n}xi8>"
        lines.append(
            f"    %low = andi %r, %fifteen : {bytes_of}\n"
            f"    %high = shri %r, %four unsigned : {bytes_of}\n"
            f"    %lows = reshape %low : {bytes_of} -> {half}\n"
            f"    %highs = reshape %high : {bytes_of} -> {half}\n"
            f"    %both = cat %lows, %highs dim = 1 : {half}, {half} -> tile<{k // 2}x2x{n}xi8>\n"
            f"    %all = reshape %both : tile<{k // 2}x2x{n}xi8> -> tile<{k}x{n}xi8>\n"
        )
        value = "%all"
    if case.turned:
        lines.append(f"    %across = permute %r [1, 0] : {bytes_of} -> tile<{k}x{n}xi8>\n")
        value = "%across"
    lines.append(f"    %wide = itof {value} signed : tile<{k}x{n}xi8> -> {tile}\n")
    lines.append(K.load("few", "d", "%s, %zero", d))
    sums = f"tile<{case.rows}x{n}xf32>"
    lines.append(
        f"    %scale = broadcast %few : tile<1x{n}xf16> -> {tile}\n"
        f"    %scaled = mulf %wide, %scale : {tile}\n"
        f"    %next = mmaf %l, %scaled, %acc : tile<{case.rows}x{k}xf16>, {tile}, {sums}\n"
        f"    continue %next : {sums}\n  }}\n"
    )
    body = (
        f"  %fifteen = constant <i8: 15> : {bytes_of}\n  %four = constant <i8: 4> : {bytes_of}\n"
        f"  %nothing = constant <f32: 0.0> : {sums}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({sums}) {{\n" + "".join(lines)
    )
    matrices = {"a": a, "b": held, "d": d, "c": c}
    return K.entry(matrices, body + K.store("sum", "c", "%zero, %zero", c))


def arguments(steps: int) -> list[Any]:
    rng = np.random.default_rng(steps)
    shape = (K.WIDTH, K.WIDTH)
    a, d = (rng.integers(-4, 5, shape).astype(np.float16) for _ in range(2))
    weights = rng.integers(-128, 128, shape).astype(np.int8)
    return [a, weights, d, np.zeros(shape, np.float32), K.WIDTH, K.WIDTH, steps]


def _round(case: Weights) -> Any:
    module = K.lowered(
        text_of(case),
        "tileaa,tileas-assign-layouts,tileas-avoid-conflicts,tileas-remove-conversions,"
        "tileas-pipeline{shared-bytes=160000}",
    )
    (loop,) = (op for op in module.walk() if isinstance(op, scf.ForOp))
    return module, loop


@pytest.mark.parametrize("case", CASES, ids=str)
def test_they_do_not_go_to_shared_memory_again(case: Weights) -> None:
    module, loop = _round(case)
    ops = list(loop.walk())
    assert not [op for op in ops if isinstance(op, CopyOp)]
    (product,) = (op for op in ops if isinstance(op, DotOp))
    assert isinstance(product.b.type, T.TileType)
    assert sum(isinstance(op, LocalLoadOp) for op in ops) == 2
    for op in ops:
        if isinstance(op, ConvertLayoutOp):
            source, target = layout_of(op.source.type), layout_of(op.result.type)
            assert source is not None and target is not None
            assert plan_conversion(source, target, 2).shared_conversion is None
    for steps in (0, 1, 2):
        expected, found = arguments(steps), arguments(steps)
        Program(parse(text_of(case))).launch("k", 1, expected)
        Program(module).launch("k", 1, found)
        np.testing.assert_array_equal(found[3], expected[3])


def test_threads_have_words_of_neighbours() -> None:
    """Four columns side by side, which come by one access, and are summed up side by side."""
    _, loop = _round(Weights(n=128))
    (product,) = (op for op in loop.walk() if isinstance(op, DotOp))
    layout = layout_of(product.result.type)
    assert layout is not None and {1, 2, 4} <= set(layout.register)


@pytest.mark.parametrize("case", [Weights(rows=128), Weights(rows=128, n=128, pairs=True)], ids=str)
def test_what_several_warps_need_is_shared(case: Weights) -> None:
    _, loop = _round(case)
    (product,) = (op for op in loop.walk() if isinstance(op, DotOp))
    assert not isinstance(product.b.type, T.TileType)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_on_the_simulator(case: Weights, arch: str) -> None:
    program = TileProgram(parse(text_of(case)), arch)
    expected, found = arguments(2), arguments(2)
    Program(parse(text_of(case))).launch("k", 1, expected)
    launch = program.launch("k", 1, found)
    np.testing.assert_array_equal(found[3], expected[3])
    assert launch.counters.bank_conflicts == 0 and not program.fallbacks


def test_it_is_told() -> None:
    program = GpuProgram(parse(text_of(Weights())), "sm_80")
    said = [remark.message for remark in program.remarks()]
    assert "the right operand is computed in registers" in said


@pytest.mark.parametrize("spread", [0, 1, 2])
@pytest.mark.parametrize("warps", [(1, 1), (1, 4), (2, 2)])
def test_columns_of_fragments(spread: int, warps: tuple[int, int]) -> None:
    """Sums and right operand agree about which columns a fragment has, whichever these are: of each fragment by each, what
    lanes hold makes the product."""
    m, n, k = 32, 128, 32
    sums = accumulator((m, n), FRAGMENT, warps, spread=spread)
    right = operand_b((k, n), FRAGMENT, warps, spread=spread)
    left = operand_a((m, k), FRAGMENT, warps)
    for warp in range(4 if warps != (1, 1) else 1):
        for lane in range(32):
            thread = 32 * warp + lane
            columns = {right.element(0, 32 * warp + 4 * group) % n for group in range(8)}
            group, place = divmod(lane, 4)
            # Registers 0 and 1 of a sum: row of the group, columns 2 * place and the next of the fragment.
            ordered = [right.element(0, 32 * warp + 4 * at) % n for at in range(8)]
            for register in (0, 1):
                row, column = divmod(sums.element(register, thread), n)
                assert column == ordered[2 * place + register] and column in columns
                assert row == left.element(0, 32 * warp + 4 * group) // k
