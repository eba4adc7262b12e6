"""Structured exits: what comes out runs like the source, and is no larger than it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lowering.nests import LoopNest
from tests.lowering.scalars import Run
from tests.lowering.support import check, kernel, lower
from tests.sampling import is_long

from tilewright import run
from tilewright.analysis.verifier import verify
from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.ops.control_flow import ReturnOp
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.lowering import Lowered, lower_to_tileaa
from tilewright.text import parse

ARGUMENTS = ((0, 0), (1, 2), (5, -3), (-7, 1))
#: A program grows by the flags and placeholders of the exits, and the ``if`` around what follows.
MOST_GROWTH = 2.5
CONSTANTS = 12


def function(lowered: Lowered) -> FuncOp:
    (found,) = lowered.module.ops
    assert isinstance(found, FuncOp)
    return found


def check_kernel(text: str) -> None:
    """The lowered kernel prints what the source prints, and has no more operations than it may."""
    module = parse(text)
    verify(module)
    lowered = lower_to_tileaa(module)
    verify(lowered.module)
    for arguments in ARGUMENTS:
        expected = run(module, "k", (1, 1, 1), arguments).text
        assert Run(function(lowered), arguments).text == expected, arguments
    size = len(list(lowered.module.walk()))
    assert size <= MOST_GROWTH * len(list(module.walk())) + CONSTANTS


@given(st.data())
@settings(max_examples=80 if is_long() else 40)
def test_generated_nests(data: st.DataObject) -> None:
    nest = LoopNest(lambda count: data.draw(st.integers(0, count - 1)), budget=20)
    check_kernel(nest.kernel())


@given(st.randoms(use_true_random=False), st.integers(10, 60))
@settings(max_examples=30 if is_long() else 15)
def test_large_nests(random: Any, budget: int) -> None:
    check_kernel(LoopNest(lambda count: random.randint(0, count - 1), budget=budget).kernel())


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, 10_000, 500))
def test_many_nests(start: int) -> None:
    from random import Random

    for seed in range(start, start + 500):
        check_kernel(LoopNest(Random(seed).randrange, budget=10 + seed % 50).kernel())


#: Programs by what is special about them: bodies of a kernel on %a and %b, with %k0 and %k1.
DIRECTED = {
    "return before the rest": """
        if %odd { return }
        %t = print_tko "a %d;", %a : tile<i32> -> token
    """,
    "both branches leave": """
        if %odd { return } else {
          %t = print_tko "a %d;", %a : tile<i32> -> token
          return
        }
        %u = print_tko "never" -> token
    """,
    "a result beside an exit": """
        %r = if %odd -> (tile<i32>) {
          return
        } else {
          yield %b : tile<i32>
        }
        %t = print_tko "r %d;", %r : tile<i32> -> token
    """,
    "both sides may fall through": """
        %r = if %odd -> (tile<i32>) {
          if %less { return }
          yield %a : tile<i32>
        } else {
          if %less {
            %u = print_tko "less;" -> token
          } else {
            return
          }
          yield %b : tile<i32>
        }
        %t = print_tko "r %d;", %r : tile<i32> -> token
    """,
    "continue in a for": """
        %s = for %i in (%k0 to %k3, step %k1) : tile<i32> iter_values(%x = %a) -> (tile<i32>) {
          %c = trunci %i : tile<i32> -> tile<i1>
          if %c { continue %x : tile<i32> }
          %y = addi %x, %i : tile<i32>
          continue %y : tile<i32>
        }
        %t = print_tko "s %d;", %s : tile<i32> -> token
    """,
    "all exits of a loop, the last flag out of the others": """
        %r = loop iter_values(%i = %k0) : tile<i32> -> tile<i32> {
          %n = addi %i, %k1 : tile<i32>
          %big = cmpi greater_than_or_equal %i, %k3, signed : tile<i32> -> tile<i1>
          if %big { return }
          %o = trunci %i : tile<i32> -> tile<i1>
          %w = if %o -> (tile<i32>) {
            %p = cmpi less_than %i, %a, signed : tile<i32> -> tile<i1>
            if %p { continue %n : tile<i32> }
            yield %i : tile<i32>
          } else {
            %q = cmpi less_than %b, %i, signed : tile<i32> -> tile<i1>
            if %q { break %i : tile<i32> }
            yield %b : tile<i32>
          }
          %t = print_tko "w %d;", %w : tile<i32> -> token
          continue %n : tile<i32>
        }
        %t = print_tko "r %d;", %r : tile<i32> -> token
    """,
    "a return two loops deep": """
        loop iter_values(%i = %k0) : tile<i32> {
          %c = cmpi greater_than %i, %k3, signed : tile<i32> -> tile<i1>
          if %c { break }
          loop iter_values(%j = %i) : tile<i32> {
            %d = cmpi greater_than %j, %k3, signed : tile<i32> -> tile<i1>
            if %d { break }
            %e = cmpi equal %j, %b, signed : tile<i32> -> tile<i1>
            if %e {
              %t = print_tko "found %d;", %j : tile<i32> -> token
              return
            }
            %n = addi %j, %k1 : tile<i32>
            continue %n : tile<i32>
          }
          %n = addi %i, %k1 : tile<i32>
          %t = print_tko "i %d;", %i : tile<i32> -> token
          continue %n : tile<i32>
        }
        %t = print_tko "end" -> token
    """,
    "a loop that always breaks": """
        %r = loop : tile<i32> {
          break %a : tile<i32>
        }
        %t = print_tko "r %d;", %r : tile<i32> -> token
    """,
    "results of other types than the carried values": """
        %r:2 = loop iter_values(%i = %k0) : tile<i32> -> tile<i1>, tile<i32> {
          %c = cmpi greater_than %i, %a, signed : tile<i32> -> tile<i1>
          if %c { break %c, %i : tile<i1>, tile<i32> }
          %n = addi %i, %k1 : tile<i32>
          continue %n : tile<i32>
        }
        if %r#0 {
          %t = print_tko "r %d;", %r#1 : tile<i32> -> token
        }
    """,
}


@pytest.mark.parametrize("name", DIRECTED)
def test_directed(name: str) -> None:
    text = kernel(
        f"""
        %k0 = constant <i32: 0> : tile<i32>
        %k1 = constant <i32: 1> : tile<i32>
        %k3 = constant <i32: 3> : tile<i32>
        %odd = trunci %a : tile<i32> -> tile<i1>
        %less = cmpi less_than %a, %b, signed : tile<i32> -> tile<i1>
        {DIRECTED[name]}
        """,
        "%a: tile<i32>, %b: tile<i32>",
    )
    module = parse(text)
    check(module, lower_to_tileaa(module))
    check_kernel(text)


def _exits(count: int) -> str:
    """A kernel that may return at ``count`` places, one after the other."""
    checks = "".join(
        f"%c{i} = trunci %a : tile<i32> -> tile<i1>\nif %c{i} {{ return }}\n" for i in range(count)
    )
    return kernel(checks, "%a: tile<i32>")


def test_nothing_is_written_twice() -> None:
    """Twice the exits, twice the operations."""
    sizes = [len(list(lower(_exits(n)).module.walk())) for n in (20, 40, 80)]
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0])


def test_a_chain_of_exits_that_becomes_too_deep_is_refused() -> None:
    lower(_exits(198))
    with pytest.raises(TileIRError) as caught:
        lower(_exits(199))
    (found,) = caught.value.diagnostics
    assert found.code == "not-lowered"
    assert "more than 200 levels deep" in found.message


def test_nests_as_deep_as_the_reader_takes_are_lowered() -> None:
    depth = 197
    text = "%c = trunci %a : tile<i32> -> tile<i1>\n" + "if %c {\n" * depth + "}\n" * depth
    lowered = lower(kernel(text, "%a: tile<i32>"))
    assert sum(op.name == "scf.if" for op in lowered.module.walk()) == depth


def test_a_loop_without_end_is_lowered() -> None:
    lowered = lower(kernel("%r = loop : tile<f32> {\n continue\n}\n%s = addf %r, %r : tile<f32>"))
    assert "scf.while" in [op.name for op in lowered.module.walk()]


def test_unsigned_loops_keep_their_comparison_and_type() -> None:
    text = """
    %one = constant <i8: 1> : tile<i8>
    for unsigned %i in (%one to %n, step %one) : tile<i8> {
    }
    """
    lowered = lower(kernel(text, "%n: tile<i8>"))
    (loop,) = [op for op in lowered.module.walk() if op.name == "scf.for"]
    assert "unsignedCmp" in loop.attributes
    assert str(loop.operands[0].type) == "i8"


def test_code_behind_an_exit_is_dropped() -> None:
    text = kernel(
        """
        %c = trunci %a : tile<i32> -> tile<i1>
        if %c { return } else { return }
        %t = print_tko "never" -> token
        """,
        "%a: tile<i32>",
    )
    assert sum(isinstance(op, ReturnOp) for op in parse(text).walk()) == 3
    lowered = lower(text)
    assert "nv_tileaa.print" not in [op.name for op in lowered.module.walk()]
