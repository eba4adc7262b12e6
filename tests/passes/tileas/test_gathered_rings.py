"""Loads through pointers, and loads whose places are loaded themselves: brought ahead, with the same results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.passes.tileas import kernels as K
from xdsl.dialects import scf

from tilewright import LaunchOptions
from tilewright.dialects.declare import int_property
from tilewright.dialects.nv_tileaa.ops.memory import LoadOp, TiledLoadOp
from tilewright.dialects.nv_tileas.asynchronous import AsyncCopy, AsyncLoadOp, AsyncTiledLoadOp
from tilewright.dialects.nv_tileas.ops import ConvertLayoutOp
from tilewright.machine.launch import Program
from tilewright.passes import run_pipeline
from tilewright.passes.tileas.pipeline import pipeline
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

NUMPY: dict[str, Any] = {"f16": np.float16, "f32": np.float32}


@dataclass(frozen=True)
class Gather:
    """A loop that loads 64 rows of a by their numbers in each iteration, and multiplies them or adds them up.

    ``mask``: rows beyond a limit are skipped, or columns, or none. ``divisor``: what is known of the alignment of a, in
    bytes. ``hops``: the numbers are numbers of numbers. ``other``: what stands for rows that are skipped.
    """

    element: str = "f16"
    mask: str = "rows"
    product: bool = True
    divisor: int = 16
    hops: bool = False
    other: str = "0.0"

    def __str__(self) -> str:
        kind = "product" if self.product else "sum"
        padding = "" if self.other == "0.0" else f"-pads {self.other}"
        return f"{self.element}-{self.mask}-{kind}-{self.divisor}{'-hops' * self.hops}{padding}"


CASES = [
    Gather(),
    Gather(mask="columns"),
    Gather(mask="none"),
    Gather(divisor=2),
    Gather(mask="columns", divisor=2),
    Gather(hops=True),
    Gather("f32", product=False),
    Gather("f32", "columns", product=False, divisor=4),
    Gather(mask="rows", product=False),
    Gather(mask="columns", product=False, other="1.5"),
    Gather("f32", "columns", product=False, divisor=4, other="-1.5"),
]
FULL = "tile<64x64x{}>"


def _numbers(case: Gather) -> str:
    """The rows of this iteration, beside one another."""
    text = K.load("n", "ids", "%zero, %s", (1, 64, "i32"))
    if not case.hops:
        return text + "    %i = reshape %n : tile<1x64xi32> -> tile<64x1xi32>\n"
    return text + (
        "    %m = reshape %n : tile<1x64xi32> -> tile<64xi32>\n"
        "    %tb = reshape %ids : tile<ptr<i32>> -> tile<1xptr<i32>>\n"
        "    %tw = broadcast %tb : tile<1xptr<i32>> -> tile<64xptr<i32>>\n"
        "    %tp = offset %tw, %m : tile<64xptr<i32>>, tile<64xi32> -> tile<64xptr<i32>>\n"
        "    %tv, %tt = load_ptr_tko weak %tp : tile<64xptr<i32>> -> tile<64xi32>, token\n"
        "    %i = reshape %tv : tile<64xi32> -> tile<64x1xi32>\n"
    )


def text_of(case: Gather) -> str:
    name, ty = case.element, FULL.format(case.element)
    pointers = FULL.format(f"ptr<{name}>")
    masked = case.mask != "none"
    limited = {"rows": "%i : tile<64x1xi32>", "columns": "%across : tile<1x64xi32>"}
    ask = ""
    if masked:
        value, _, narrow = limited[case.mask].partition(" : ")
        bools = narrow.replace("i32", "i1")
        ask = (
            f"    %lw = broadcast %limits : tile<1x1xi32> -> {narrow}\n"
            f"    %in = cmpi less_than {value}, %lw, signed : {narrow} -> {bools}\n"
            f"    %on = broadcast %in : {bools} -> tile<64x64xi1>\n"
        )
    operands = "%ps, %on, %pad" if masked else "%ps"
    types = f"{pointers}, tile<64x64xi1>, {ty}" if masked else pointers
    sums = FULL.format("f32" if case.product else name)
    if case.product:
        work = K.load("r", "b", "%s, %zero", (64, 64, name)) + (
            f"    %next = mmaf %l, %r, %acc : {ty}, {ty}, {sums}\n"
        )
    else:
        work = f"    %next = addf %acc, %l rounding<nearest_even> : {sums}\n"
    body = (
        f"  %nothing = constant <{sums[11:-1]}: 0.0> : {sums}\n"
        f"  %pad = constant <{name}: {case.other}> : {ty}\n"
        f"  %pitch = constant <i32: {K.WIDTH}> : tile<64x64xi32>\n"
        f"  %base = assume div_by<{case.divisor}>, %a : tile<ptr<{name}>>\n"
        f"  %point = reshape %base : tile<ptr<{name}>> -> tile<1x1xptr<{name}>>\n"
        f"  %points = broadcast %point : tile<1x1xptr<{name}>> -> {pointers}\n"
        "  %limits = reshape %limit : tile<i32> -> tile<1x1xi32>\n"
        "  %lanes = iota : tile<64xi32>\n"
        "  %across = reshape %lanes : tile<64xi32> -> tile<1x64xi32>\n"
        "  %columns = broadcast %across : tile<1x64xi32> -> tile<64x64xi32>\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({sums}) {{\n"
        + _numbers(case)
        + "    %rw = broadcast %i : tile<64x1xi32> -> tile<64x64xi32>\n"
        "    %ro = muli %rw, %pitch : tile<64x64xi32>\n"
        "    %of = addi %ro, %columns : tile<64x64xi32>\n"
        f"    %ps = offset %points, %of : {pointers}, tile<64x64xi32> -> {pointers}\n"
        + ask
        + f"    %l, %lt = load_ptr_tko weak {operands} : {types} -> {ty}, token\n"
        + work
        + f"    continue %next : {sums}\n  }}\n"
        + K.store("sum", "c", "%zero, %zero", (64, 64, sums[11:-1]))
    )
    matrices = {
        "a": (64, 64, name),
        "ids": (1, 64, "i32"),
        "b": (64, 64, name),
        "c": (64, 64, sums[11:-1]),
    }
    text = K.entry(matrices, body)
    # The gathered matrix has no view: nothing is known of its pointer but what the kernel says.
    view = text[text.index("  %ap = assume") : text.index("  %idsp = assume")]
    return text.replace(view, "").replace(
        "%steps: tile<i32>)", "%steps: tile<i32>, %limit: tile<i32>)"
    )


def arguments(case: Gather, steps: int, limit: int, shift: int = 0) -> list[Any]:
    rng = np.random.default_rng(steps)
    dtype = NUMPY[case.element]
    shape = (K.WIDTH, K.WIDTH)
    flat = (rng.standard_normal(K.WIDTH * K.WIDTH + 8) / 4).astype(dtype)
    a = flat[shift : shift + K.WIDTH * K.WIDTH].reshape(shape)
    b = (rng.standard_normal(shape) / 4).astype(dtype)
    ids = rng.integers(0, K.WIDTH, shape).astype(np.int32)
    c = np.zeros(shape, np.float32 if case.product else dtype)
    return [a, ids, b, c, K.WIDTH, K.WIDTH, steps, limit]


@cache
def _program_of(case: Gather) -> Program:
    """What it must compute, on the reference machine."""
    return Program(parse(text_of(case)))


def expected_of(case: Gather, steps: int, limit: int, shift: int = 0) -> np.ndarray:
    given = arguments(case, steps, limit, shift)
    _program_of(case).launch("k", 1, given)
    return given[3]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_schedules_keep_the_result(case: Gather) -> None:
    """On the reference machine, bit by bit, for loops of 0 to 4 rounds; the mask off nowhere, here and there, everywhere."""
    module = K.lowered(text_of(case), "tileaa,tileas-assign-layouts,tileas-remove-conversions")
    run_pipeline(module, "tileas-pipeline{shared-bytes=180000},tileas-expand", verify_each=True)
    (loop,) = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    gathered = [op for op in loop.walk() if isinstance(op, AsyncLoadOp)]
    assert len(gathered) == 1
    assert (gathered[0].mask is not None) == (case.mask != "none")
    known = case.divisor >= 16 and case.mask != "columns"
    assert ("proven" in gathered[0].properties) != known
    assert int_property(gathered[0], "vector") == 16 // np.dtype(NUMPY[case.element]).itemsize
    # Rows are loaded for a round to come, each once; the tiles of this iteration come from its stage.
    loads = [op for op in loop.walk() if isinstance(op, LoadOp | TiledLoadOp)]
    assert len(loads) == 1 + case.hops
    assert not [op for op in loop.walk() if isinstance(op, ConvertLayoutOp)]
    for steps in (0, 1, 2, 4):
        for limit in (K.WIDTH, 50, 0):
            given = arguments(case, steps, limit)
            Program(module).launch("k", 1, given)
            assert given[3].tobytes() == expected_of(case, steps, limit).tobytes(), (steps, limit)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_schedules_as_threads(case: Gather, arch: str) -> None:
    """On the simulator, which finds races, under two orders of warps; rows that no vector is aligned in, where the kernel
    does not promise otherwise."""
    program = TileProgram(parse(text_of(case)), arch)
    itemsize = np.dtype(NUMPY[case.element]).itemsize
    for seed, (limit, shift) in enumerate(((K.WIDTH, 0), (50, 0), (50, 1))):
        if shift * itemsize % case.divisor:
            continue
        given = arguments(case, 3, limit, shift)
        program.launch("k", 1, given, LaunchOptions(seed=seed))
        found, expected = given[3], expected_of(case, 3, limit, shift)
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)
    assert program.fallbacks == {}


def _remarks(text: str, pass_at: str = "tileaa,tileas-assign-layouts") -> list[str]:
    module = K.lowered(text, pass_at)
    func = next(op for op in module.walk() if op.name == "nv_tileaa.func")
    return pipeline(func, 3, 160 << 10)  # pyright: ignore[reportArgumentType]


def test_what_products_leave_out_is_zero_or_stays() -> None:
    """Products read the storage as copies fill it; threads that read a tile from there choose what is left out."""
    why = ["'l' is not prefetched: asynchronous copies can pad with zeros only"]
    assert _remarks(text_of(Gather(other="1.0"))) == why
    # The mask of this iteration would take the rows' numbers once more.
    assert _remarks(text_of(Gather(product=False, other="1.0"))) == why


def test_a_place_that_the_loop_writes_is_not_loaded_ahead() -> None:
    """The rows of the next iteration stand in what this one has stored."""
    case = replace(Gather(), mask="none")
    text = text_of(case)
    write = (
        "    %nx = addi %s, %one : tile<i32>\n"
        f"    %wt = store_view_tko weak %n, %idst[%zero, %nx] token = %before : tile<1x64xi32>, {K.view(1, 64, 'i32')}, tile<i32> -> token\n"
    )
    text = (
        text.replace(
            "iter_values(%acc = %nothing) -> (tile<64x64xf32>)",
            "iter_values(%acc = %nothing, %before = %start) -> (tile<64x64xf32>, token)",
        )
        .replace("  %sum = for", "  %start = make_token : token\n  %sum, %last = for")
        .replace("%idst[%zero, %s] : ", "%idst[%zero, %s] token = %before : ")
        .replace(
            "    continue %next : tile<64x64xf32>",
            write + "    continue %next, %wt : tile<64x64xf32>, token",
        )
    )
    found = _remarks(text)
    assert (
        "'l' is not prefetched: its address depends on a loop-carried value or on memory that the loop may write"
        in found
    )


PAGE = (64, 64, "f16")


def paged() -> str:
    """c = the sum over pages of a times b, where the numbers of pages are loaded."""
    sums = "tile<64x64xf32>"
    body = (
        f"  %nothing = constant <f32: 0.0> : {sums}\n"
        "  %sum = for %s in (%zero to %steps, step %one) : tile<i32> "
        f"iter_values(%acc = %nothing) -> ({sums}) {{\n"
        + K.load("n", "ids", "%zero, %s", (1, 1, "i32"))
        + "    %p = reshape %n : tile<1x1xi32> -> tile<i32>\n"
        + K.load("l", "a", "%p, %zero", PAGE)
        + K.load("r", "b", "%p, %zero", PAGE)
        + f"    %next = mmaf %l, %r, %acc : tile<64x64xf16>, tile<64x64xf16>, {sums}\n"
        f"    continue %next : {sums}\n  }}\n"
        + K.store("sum", "c", "%zero, %zero", (64, 64, "f32"))
    )
    return K.entry({"a": PAGE, "ids": (1, 1, "i32"), "b": PAGE, "c": (64, 64, "f32")}, body)


def _pages(steps: int) -> list[Any]:
    given = arguments(Gather(), steps, 0)[:-1]
    given[1] = (given[1] % 4).astype(np.int32)
    return given


@pytest.mark.parametrize("expanded", ["", ",tileas-expand"])
@pytest.mark.parametrize("pipeline_", ["tileas-pipeline", "tileas-tma{target=sm_90a}"])
def test_pages_keep_the_result(pipeline_: str, expanded: str) -> None:
    module = K.lowered(
        paged(), "tileaa,tileas-assign-layouts{target=sm_90a},tileas-remove-conversions"
    )
    run_pipeline(module, pipeline_ + expanded, verify_each=True)
    copies = [op for op in module.walk() if isinstance(op, AsyncCopy)]
    assert bool(copies) == (pipeline_ == "tileas-pipeline")
    assert all(isinstance(op, AsyncTiledLoadOp) for op in copies)
    for steps in (0, 1, 2, 5):
        expected, found = _pages(steps), _pages(steps)
        Program(parse(paged())).launch("k", 1, expected)
        Program(module).launch("k", 1, found)
        assert found[3].tobytes() == expected[3].tobytes(), steps


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
def test_pages_as_threads(arch: str) -> None:
    program = TileProgram(parse(paged()), arch)
    expected = _pages(5)
    Program(parse(paged())).launch("k", 1, expected)
    for seed in range(2):
        given = _pages(5)
        program.launch("k", 1, given, LaunchOptions(seed=seed))
        np.testing.assert_allclose(given[3], expected[3], rtol=1e-3, atol=1e-3)
    assert program.fallbacks == {}
