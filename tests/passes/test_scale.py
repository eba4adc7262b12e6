"""Long and deep programs: no recursion over operations, no growth of work with their square."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from xdsl.dialects import scf
from xdsl.ir import Operation

from tilewright.analysis.preorder import operations
from tilewright.dialects.cuda_tile.ops.control_flow import IfOp
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.lowering import lower_to_tileaa
from tilewright.passes import CUDA_TILE, passes_within, run_pipeline
from tilewright.passes.canonicalize import apply_rules
from tilewright.passes.effects import is_dead
from tilewright.passes.tileaa.effects import is_removable
from tilewright.text import parse

HEAD = "entry @k(%a: tile<i1>, %x: tile<i32>, %y: tile<i32>) {\n"
SHOW = '%t{0} = print_tko "%d", %v{0} : tile<i32> -> token\n'
LENGTH = 2000
DEPTH = 150


def module_of(lines: str) -> ModuleOp:
    module = parse(f"{HEAD}{lines}return\n}}\n")
    assert isinstance(module, ModuleOp)
    return module


def chain(form: str, length: int) -> str:
    """``%v1``, ``%v2``, ... each from the one before, and the last one printed."""
    lines = ["%v0 = addi %x, %y : tile<i32>"]
    lines += [f"%v{i} = " + form.format(f"%v{i - 1}") for i in range(1, length)]
    return "\n".join(lines) + "\n" + SHOW.format(length - 1)


def op_count(module: ModuleOp) -> int:
    return sum(1 for _ in module.walk())


@pytest.mark.parametrize(
    ("form", "pipeline", "left"),
    [
        ("select %a, {}, %y : tile<i1>, tile<i32>", "canonicalize", 6),
        (
            "if %a -> (tile<i32>) {{ yield {} : tile<i32> }} else {{ yield %y : tile<i32> }}",
            "canonicalize",
            6,
        ),
        ("addi %x, %y : tile<i32>", "cse", 5),
        ("addi {}, %y : tile<i32>", "cse", LENGTH + 4),
        ("assume div_by<8>, {} : tile<i32>", "canonicalize", 6),
    ],
)
def test_chains(form: str, pipeline: str, left: int) -> None:
    module = module_of(chain(form, LENGTH))
    run_pipeline(module, pipeline)
    assert op_count(module) == left


@pytest.mark.parametrize("form", ["addi {0}, %y", "addi {0}, {0}"])
def test_dead_chain(form: str) -> None:
    lines = chain(f"{form} : tile<i32>", LENGTH).removesuffix(SHOW.format(LENGTH - 1))
    for pipeline in ("dce", "canonicalize", "cse"):
        module = module_of(lines)
        run_pipeline(module, pipeline)
        assert op_count(module) == 3


@pytest.mark.parametrize("form", ["addi {0}, %y", "addi {0}, {0}", "select %a, {0}, {0}"])
def test_each_operation_of_a_dead_chain_is_looked_at_a_few_times(form: str) -> None:
    """Whether its operand has one use or several."""
    types = "tile<i1>, tile<i32>" if form.startswith("select") else "tile<i32>"
    lines = chain(f"{form} : {types}", 500).removesuffix(SHOW.format(499))
    module, looks = module_of(lines), 0

    def is_dead_here(op: Operation) -> bool:
        nonlocal looks
        looks += 1
        return is_dead(op)

    apply_rules(module, {}, is_dead_here)
    assert op_count(module) == 3
    assert looks < 4 * 500


def test_many_adjacent_ifs_become_one() -> None:
    body = "".join(f'if %a {{ %t{i} = print_tko "x" -> token }}\n' for i in range(LENGTH))
    module = module_of(body)
    run_pipeline(module, "canonicalize")
    assert sum(isinstance(op, IfOp) for op in module.walk()) == 1
    assert op_count(module) == LENGTH + 5


def nest(open_level: Callable[[int], str]) -> str:
    levels = "".join(open_level(level) for level in range(DEPTH))
    return levels + '%t = print_tko "x" -> token\n' + "}\n" * DEPTH


@pytest.mark.parametrize("name", [*passes_within(CUDA_TILE), "O3"])
@pytest.mark.parametrize(
    "level",
    [
        lambda i: f"if %a {{\n%u{i} = addi %x, %y : tile<i32>\n",
        lambda i: f"for %i{i} in (%x to %y, step %y) : tile<i32> {{\n",
        lambda i: "loop {\n",
    ],
    ids=["if", "for", "loop"],
)
def test_deep_nests(name: str, level: Callable[[int], str]) -> None:
    module = module_of(nest(level))
    run_pipeline(module, name, verify_each=True)


def test_work_grows_with_length() -> None:
    """Rules are asked a bounded number of times for each operation."""
    from tilewright.passes import canonicalize

    def asked(length: int) -> int:
        count = 0

        def watch(rule: canonicalize.Rule) -> canonicalize.Rule:
            def call(op: object, rewriter: object) -> None:
                nonlocal count
                count += 1
                rule(op, rewriter)  # pyright: ignore[reportArgumentType]

            return call

        rules = {kind: tuple(map(watch, group)) for kind, group in canonicalize.RULES.items()}
        body = "".join(
            f"%v{i} = if %a -> (tile<i32>) {{ yield {'%x' if not i else f'%v{i - 1}'} : tile<i32> }}"
            f" else {{ yield %y : tile<i32> }}\n"
            for i in range(length)
        )
        canonicalize.apply_rules(module_of(body + SHOW.format(length - 1)), rules)
        return count

    assert asked(800) < 2.5 * asked(400)


def test_a_nest_is_looked_through_without_handing_on() -> None:
    """Whether each operation of a nest may be erased: no more steps than pairs of an operation and one below it."""
    deep = "if %a {\n" * DEPTH + 'print_tko "%d", %x : tile<i32> -> token\n' + "}\n" * DEPTH
    lowered = lower_to_tileaa(module_of(deep)).module
    nest = [op for op in operations(lowered) if isinstance(op, scf.IfOp)]
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        found = [is_removable(op) for op in nest]
    finally:
        sys.setprofile(None)
    assert len(nest) == DEPTH and not any(found)
    assert calls < 20 * DEPTH**2
