"""A split loop visits the same counters in the same order, at the ends of the range too."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile.ops.control_flow import ForOp
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.machine import Program
from tilewright.passes import run_pipeline
from tilewright.text import parse

PREDICATES = {
    "less_than": lambda i, k: i < k,
    "less_than_or_equal": lambda i, k: i <= k,
    "greater_than": lambda i, k: i > k,
    "greater_than_or_equal": lambda i, k: i >= k,
}
WORDS = {"signed": (-128, 127), "unsigned": (0, 255)}
MOST_TRIPS = 24
ROOM = 2 * MOST_TRIPS

KERNEL = """
entry @k(%lb: tile<i8>, %ub: tile<i8>, %st: tile<i8>, %k: tile<i8>, %p: tile<ptr<i8>>) {{
  {constant}
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %yes = constant <i8: 1> : tile<i8>
  %no = constant <i8: 0> : tile<i8>
  %n = for {flag}%i in (%lb to %ub, step {step}) : tile<i8> iter_values(%at = %zero) -> (tile<i32>) {{
    %c = cmpi {predicate} {operands}, {word} : tile<i8> -> tile<i1>
    %next = addi %at, %one : tile<i32>
    %last = addi %next, %one : tile<i32>
    %a = offset %p, %at : tile<ptr<i8>>, tile<i32> -> tile<ptr<i8>>
    %b = offset %p, %next : tile<ptr<i8>>, tile<i32> -> tile<ptr<i8>>
    %t1 = store_ptr_tko weak %a, %i : tile<ptr<i8>>, tile<i8> -> token
    if %c {{
      %t2 = store_ptr_tko weak %b, %yes : tile<ptr<i8>>, tile<i8> -> token
      continue %last : tile<i32>
    }}
    %t3 = store_ptr_tko weak %b, %no : tile<ptr<i8>>, tile<i8> -> token
    continue %last : tile<i32>
  }}
  return
}}
"""


def split_module(
    predicate: str, word: str, step: str, mirrored: bool, bound: str = "%k"
) -> ModuleOp:
    constant = "%s1 = constant <i8: 1> : tile<i8>"
    text = KERNEL.format(
        predicate=predicate,
        word=word,
        flag="unsigned " if word == "unsigned" else "",
        step=step,
        operands=f"{bound}, %i" if mirrored else f"%i, {bound}",
        constant=constant,
    )
    module = parse(text)
    assert isinstance(module, ModuleOp)
    run_pipeline(module, "loop-split", verify_each=True)
    assert sum(isinstance(op, ForOp) for op in module.walk()) == 2
    return module


def interesting(low: int, high: int) -> list[int]:
    middle = {-2, -1, 0, 1, 2, 7, 128}
    ends = {low, low + 1, low + 5, high - 6, high - 1, high}
    return sorted(v for v in middle | ends if low <= v <= high)


def trips(lower: int, upper: int, step: int, high: int) -> list[int] | None:
    """The counters of a loop; None where it is undefined or longer than the test wants."""
    counters = list(range(lower, upper, step))
    if len(counters) > MOST_TRIPS or (counters and counters[-1] + step > high):
        return None
    return counters


def as_i8(value: int) -> int:
    return (value + 128) % 256 - 128


@pytest.mark.parametrize("mirrored", [False, True], ids=["left", "right"])
@pytest.mark.parametrize("step", ["%s1", "%st"], ids=["one", "any"])
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("predicate", PREDICATES)
def test_counters_stay(predicate: str, word: str, step: str, mirrored: bool) -> None:
    program = Program(split_module(predicate, word, step, mirrored))
    low, high = WORDS[word]
    values = interesting(low, high)
    steps = [1] if step == "%s1" else [1, 3, 100]
    holds = PREDICATES[predicate]
    tried = 0
    for lower, upper, width in product(values, values, steps):
        counters = trips(lower, upper, width, high)
        if counters is None:
            continue
        for bound in values[:: 1 if counters else 4]:
            out = np.full(ROOM, 99, np.int8)
            numbers = [as_i8(v) for v in (lower, upper, width, bound)]
            program.launch("k", 1, (*numbers, out))
            expected = np.full(ROOM, 99, np.int8)
            for place, counter in enumerate(counters):
                is_true = holds(bound, counter) if mirrored else holds(counter, bound)
                expected[2 * place : 2 * place + 2] = as_i8(counter), is_true
            assert out.tolist() == expected.tolist(), (lower, upper, width, bound)
            tried += 1
    assert tried > 100


@pytest.mark.parametrize("value", ['"two"', "-1 : i32", "unit"])
def test_bad_threshold_attribute(value: str) -> None:
    text = (
        "entry @k(%n: tile<i32>, %k: tile<i32>) {\n"
        "  for %i in (%n to %k, step %n) : tile<i32> {\n"
        "    %c = cmpi less_than %i, %k, signed : tile<i32> -> tile<i1>\n"
        "    if %c {\n"
        '      %t = print_tko "x" -> token\n'
        f"    }} {{cuda_tile.loop_split = {value}}}\n"
        "    continue\n"
        "  }\n"
        "  return\n"
        "}\n"
    )
    with pytest.raises(TileIRError) as caught:
        run_pipeline(parse(text, "bad.tileir"), "loop-split")
    (found,) = caught.value.diagnostics
    assert (found.code, found.line) == ("loop-split-threshold", 4)


def test_growth_is_limited() -> None:
    """Each level of a nest doubles what is in it; the pass stops in time."""
    depth = 40
    lines = ["entry @k(%n: tile<i32>, %k: tile<i32>) {"]
    for level in range(depth):
        lines += [
            f"for %i{level} in (%n to %k, step %n) : tile<i32> {{",
            f"%c{level} = cmpi less_than %i{level}, %k, signed : tile<i32> -> tile<i1>",
            f"if %c{level} {{",
            f'%t{level} = print_tko "x" -> token',
            "}",
        ]
    lines += ["continue", "}"] * depth + ["return", "}"]
    module = parse("\n".join(lines))
    run_pipeline(module, "loop-split", verify_each=True)
    assert 1000 < sum(1 for _ in module.walk()) < 20_000
