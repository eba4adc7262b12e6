"""Tiles of a few vectors that loops hand on stay in registers, with the same results."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.differential import variants

from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.runtime import engine
from tilewright.lowering import lower_to_tileaa
from tilewright.machine import Program as Reference
from tilewright.numerics.arrays import dtype_of

#: Of how many elements the rows are: none, fewer than lanes, as many, and more.
COUNTS = (0, 1, 5, 16, 17, 0, 64, 63, 130, 3)


def ragged(element: str, lanes: int) -> Any:
    """The sums of rows of numbers that are gathered, where rows begin is in memory; and how many rounds each took."""
    module = ModuleBuilder()
    kinds = {"starts": "i32", "places": "i32", "x": element, "out": element, "rounds": "i32"}
    with module.entry("ragged", {name: ptr(kind) for name, kind in kinds.items()}) as k:
        args = k.args
        row = k.get_tile_block_id()[0]
        first, _ = k.load_ptr_tko(k.offset(args.starts, row))
        last, _ = k.load_ptr_tko(k.offset(args.starts, row + 1))
        number = k.iota(shape=[lanes], to="i32")

        def each(value: Any) -> Any:
            return k.broadcast(k.reshape(value, shape=[1]), shape=[lanes])

        zero, count = k.zeros((lanes,), element), k.zeros((lanes,), "i32")
        with k.for_((last - first + (lanes - 1)) // lanes, total=zero, rounds=count) as loop:
            at = number + each(first + loop.index * lanes)
            held = at < each(last)
            none, nothing = k.zeros((lanes,), "i32"), k.zeros((lanes,), element)
            place, _ = k.load_ptr_tko(k.offset(each(args.places), at), held, none)
            found, _ = k.load_ptr_tko(k.offset(each(args.x), place), held, nothing)
            loop.total = loop.total + found
            loop.rounds = loop.rounds + 1
        k.store_ptr_tko(k.offset(args.out, row), k.fold("sum", loop.total, None, False))
        k.store_ptr_tko(k.offset(args.rounds, row), k.fold("max", loop.rounds, None, False))
    return module.build()


@pytest.mark.parametrize("lanes", [1, 4, 16, 32, 128, 256])
@pytest.mark.parametrize("element", ["f32", "f64", "f16", "i32", "i8"])
def test_sums_of_ragged_rows(element: str, lanes: int) -> None:
    module, rows = ragged(element, lanes), len(COUNTS)
    starts = np.concatenate(([0], np.cumsum(COUNTS))).astype(np.int32)
    places = (np.arange(starts[-1], dtype=np.int32) * 7) % 50
    x = (np.arange(50) % 5 - 2).astype(
        dtype_of(element)
    )  # Small numbers: sums are exact in any order.

    def run(program: Any) -> tuple[np.ndarray, np.ndarray]:
        out, rounds = np.full(rows, 9, x.dtype), np.full(rows, 9, np.int32)
        program.launch("ragged", rows, (starts, places, x, out, rounds))
        return out, rounds

    wanted = [x[places[a:b]].sum() for a, b in pairwise(starts)]
    expected, counted = run(Reference(module))
    assert expected.tolist() == wanted
    assert counted.tolist() == [-(-count // lanes) for count in COUNTS]
    for options in variants(element, rows, lanes):
        out, rounds = run(Program(module, options=LaunchOptions(**options)))
        assert out.tolist() == wanted, options
        assert rounds.tolist() == counted.tolist(), options


def _optimised(module: Any, cpu: str = "x86-64-v4") -> tuple[str, str]:
    """The LLVM IR of a kernel after LLVM's passes, and its assembly."""
    if not engine_knows(cpu):
        pytest.skip(f"no code for {cpu} here")
    compiled = compile_kernel(lower_to_tileaa(module).module, options=CompileOptions(cpu=cpu))
    made = engine.parse_ir(compiled.llvm_ir, compiled.target)
    engine.optimize(made, compiled.target)
    return str(made), engine.emit_assembly(made, compiled.target)


def engine_knows(cpu: str) -> bool:
    """Whether code can be made for a processor."""
    from tilewright.cpu.target import cpu_target
    from tilewright.diagnostics import TileIRError

    try:
        cpu_target(cpu)
    except TileIRError:
        return False
    return True


def test_a_loop_hands_on_registers() -> None:
    """Two vectors of sums: the loop has them as phis, and no memory for them is left on the stack."""
    text, _ = _optimised(ragged("f32", 32))
    assert text.count("phi <16 x float>") >= 2
    assert not re.search(r"alloca \[\d+ x i8\]", text)


def test_a_short_loop_asks_no_branch_for_what_masks_tell() -> None:
    """How far rows go is in memory: masks are computed, whether or not they are on everywhere."""
    text, _ = _optimised(ragged("f32", 32))
    assert (
        text.count("@llvm.masked.gather.v16f32") == 3
    )  # A declaration, and a call for each vector.
