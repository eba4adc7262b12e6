"""Tiles that threads compute with before a product takes the result: brought by tensor maps where these bring all that a loop
loads, and read without conflicts of banks; A of tf32 is rounded on its way to registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from tests.passes.tileas.test_converted_rings import Operands, text_of
from tests.passes.tileas.test_converted_rings import arguments as case_arguments
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp

from tilewright.dialects.nv_tileas import ops as S
from tilewright.dialects.nv_tileas import pipelines as P
from tilewright.machine.launch import Program
from tilewright.passes import run_pipeline
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

SHAPES = [(128, 128, 32), (64, 128, 16), (64, 128, 32), (128, 64, 64), (64, 32, 32), (64, 256, 8)]


def product(shape: tuple[int, int, int], *, turned: bool = True, scaled: bool = False) -> str:
    """c = the sum over steps of tf32(a(s)) x tf32(b(s)), where B lies along k if it is ``turned``; ``scaled``: A times a row."""
    m, n, k = shape
    a, b, row = (m, k, "f32"), ((n, k) if turned else (k, n)) + ("f32",), (1, k, "f32")
    sums, wide = f"tile<{m}x{n}xf32>", f"tile<{m}x{k}xf32>"
    body = K.load("l", "a", "%zero, %s", a) + K.load(
        "r", "b", "%zero, %s" if turned else "%s, %zero", b
    )
    left = "l"
    if scaled:
        body += K.load("w", "row", "%zero, %s", row)
        body += (
            f"    %ww = broadcast %w : tile<1x{k}xf32> -> {wide}\n    %lw = mulf %l, %ww : {wide}\n"
        )
        left = "lw"
    body += f"    %lt = ftof %{left} : {wide} -> tile<{m}x{k}xtf32>\n"
    shown = "x".join(map(str, b[:2]))
    body += f"    %rt = ftof %r : tile<{shown}xf32> -> tile<{shown}xtf32>\n"
    if turned:
        body += f"    %rp = permute %rt [1, 0] : tile<{shown}xtf32> -> tile<{k}x{n}xtf32>\n"
    body += (
        f"    %next = mmaf %lt, %r{'p' if turned else 't'}, %acc : tile<{m}x{k}xtf32>, tile<{k}x{n}xtf32>, {sums}\n"
        f"    continue %next : {sums}\n"
    )
    matrices = {"a": a, "b": b, **({"row": row} if scaled else {}), "c": (m, n, "f32")}
    return K.entry(
        matrices,
        f"  %nothing = constant <f32: 0.0> : {sums}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({sums}) {{\n{body}  }}\n"
        + K.store("sum", "c", "%zero, %zero", (m, n, "f32")),
    )


def arguments(steps: int, *, scaled: bool = False) -> list[Any]:
    """Numbers of few digits, whose sums are exact in any order; those of A are ties of tf32, or need not be rounded."""
    rng = np.random.default_rng(steps)
    shape = (256, K.WIDTH)
    a = rng.integers(-4, 5, shape) * (1 + rng.integers(0, 4, shape) * 2.0**-11)
    made = [a.astype(np.float32), rng.integers(-3, 4, shape).astype(np.float32)]
    if scaled:
        made.append(rng.integers(1, 3, shape).astype(np.float32))
    return [*made, np.zeros(shape, np.float32), *shape, steps]


def rounded(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """To the 11 bits of a significand of tf32, to even; f32 numbers that are no larger than f16's."""
    return numbers.astype(np.float16).astype(np.float64)


def expected(shape: tuple[int, int, int], turned: bool, values: list[Any], steps: int) -> Any:
    m, n, k = shape
    total = np.zeros((m, n))
    for step in range(steps):
        here = slice(step * k, (step + 1) * k)
        b = values[1][:n, here].T if turned else values[1][here, :n]
        total += rounded(values[0][:m, here]) @ b.astype(np.float64)
    return total


@pytest.mark.parametrize("turned", [True, False], ids=["along-k", "along-n"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tf32_has_no_conflicts(shape: tuple[int, int, int], arch: str, turned: bool) -> None:
    program = TileProgram(parse(product(shape, turned=turned)), arch)
    values = arguments(3)
    launch = program.launch("k", 1, values)
    m, n, _ = shape
    assert not program.fallbacks
    assert np.array_equal(values[2][:m, :n], expected(shape, turned, values, 3))
    assert launch.counters.bank_conflicts == 0


def scheduled(text: str, stages: int = 3) -> ModuleOp:
    module = K.lowered(text, "tileaa,tileas-assign-layouts{target=sm_90a}")
    run_pipeline(
        module, f"tileas-tma{{target=sm_90a stages={stages}}},tileas-expand", verify_each=True
    )
    return module


@pytest.mark.parametrize("shape", [(128, 128, 32), (64, 128, 32), (64, 64, 32)], ids=str)
def test_tensor_maps_bring_what_is_rounded(shape: tuple[int, int, int]) -> None:
    """A is read to registers and B rounded to storage; neither is loaded by threads."""
    module = scheduled(product(shape))
    (loop,) = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    names = [op.name for op in loop.body.walk()]
    assert "nv_tileaa.tiled_load" not in names
    assert names.count(P.AsyncTiledTmaLoadOp.name) == 2 and names.count(S.CopyOp.name) == 1
    (dot,) = [op for op in module.walk() if isinstance(op, S.DotOp)]
    assert S.atom_of(dot) == "wgmma" and not isinstance(dot.a.type, type(dot.b.type))
    before, after = arguments(3), arguments(3)
    Program(parse(product(shape))).launch("k", 1, before)
    Program(module).launch("k", 1, after)
    assert after[2].tobytes() == before[2].tobytes()


def body(module: ModuleOp) -> list[str]:
    """The operations of the kernel, which says besides which passes it has seen."""
    (func,) = module.ops
    return [str(op) for op in func.regions[0].block.ops]


def test_threads_that_load_a_row_hold_the_others_too() -> None:
    """Of a loop of which tensor maps cannot bring all, nothing is staged."""
    text = product((128, 128, 32), scaled=True)
    given = K.lowered(text, "tileaa,tileas-assign-layouts{target=sm_90a}")
    assert not [op for op in scheduled(text).walk() if isinstance(op, P.AsyncTiledTmaLoadOp)]
    assert body(scheduled(text)) == body(given)
    values = arguments(2, scaled=True)
    program = TileProgram(parse(text), "sm_90a")
    launch = program.launch("k", 1, values)
    assert launch.counters.bank_conflicts == 0


def test_what_does_not_fit_is_as_before() -> None:
    """Two stages of 2 x 64 KiB are more than a block has."""
    text = product((256, 256, 64))
    given = K.lowered(text, "tileaa,tileas-assign-layouts{target=sm_90a}")
    assert body(scheduled(text)) == body(given)


def test_other_conversions_are_staged_too() -> None:
    """f32 that is rounded to f16 on its way to storage: in two panels of 128 bytes."""
    case = Operands(("f32", "f32"), "f16", convert="ftof")
    names = [op.name for op in scheduled(text_of(case), stages=2).walk()]
    assert names.count(P.AsyncTiledTmaLoadOp.name) == 4, "in front of the loop and in it"
    assert names.count(S.CopyOp.name) == 2
    program = TileProgram(parse(text_of(case)), "sm_90a")
    launch = program.launch("k", 1, case_arguments(case, 3))
    assert launch.counters.bank_conflicts == 0


def scaled_halves(m: int, n: int, k: int) -> str:
    """c = the sum over steps of (a(s) times a row) x b(s), in f16: products read B as it comes, threads scale A."""
    a, b, row = (m, k, "f16"), (k, n, "f16"), (1, k, "f16")
    sums, wide = f"tile<{m}x{n}xf32>", f"tile<{m}x{k}xf16>"
    body = K.load("l", "a", "%zero, %s", a) + K.load("r", "b", "%s, %zero", b)
    body += K.load("w", "row", "%zero, %s", row)
    body += f"    %ww = broadcast %w : tile<1x{k}xf16> -> {wide}\n    %lw = mulf %l, %ww : {wide}\n"
    body += (
        f"    %next = mmaf %lw, %r, %acc : {wide}, tile<{k}x{n}xf16>, {sums}\n"
        f"    continue %next : {sums}\n"
    )
    return K.entry(
        {"a": a, "b": b, "row": row, "c": (m, n, "f32")},
        f"  %nothing = constant <f32: 0.0> : {sums}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({sums}) {{\n{body}  }}\n"
        + K.store("sum", "c", "%zero, %zero", (m, n, "f32")),
    )


@pytest.mark.parametrize(
    ("arch", "shape", "maps"),
    [("sm_120a", (128, 128, 64), 2), ("sm_120a", (64, 64, 64), 0), ("sm_90a", (128, 128, 64), 2)],
    ids=str,
)
def test_a_row_by_threads_does_not_take_the_rest_along(
    arch: str, shape: tuple[int, int, int], maps: int
) -> None:
    """A tensor map brings what threads compute with, too, where a pipeline of all takes less room than one beside a ring of
    theirs. Where threads have to bring half of an iteration of ``mma.sync``, they bring all of it."""
    text = scaled_halves(*shape)
    program = TileProgram(parse(text), arch)
    rng = np.random.default_rng(1)
    wide = (256, K.WIDTH)
    halves = [rng.integers(-3, 4, wide).astype(np.float16) for _ in range(3)]
    values = [*halves, np.zeros(wide, np.float32), *wide, 3]
    launch = program.launch("k", 1, values)
    m, n, k = shape
    a, b, row = (each.astype(np.float64) for each in halves)
    wanted = (a[:m, : 3 * k] * row[:1, : 3 * k]) @ b[: 3 * k, :n]
    assert not program.fallbacks and launch.counters.bank_conflicts == 0
    assert np.array_equal(values[3][:m, :n], wanted)
    module = K.lowered(text, f"tileaa,tileas-assign-layouts{{target={arch}}}")
    run_pipeline(module, f"tileas-tma{{target={arch} stages=3}}", verify_each=True)
    assert sum(isinstance(op, P.AsyncTiledTmaLoadOp) for op in module.walk()) == maps
