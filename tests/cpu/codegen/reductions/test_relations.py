"""What bodies ask of two floats is asked by few comparisons, and stays what it was."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.support import Given, on_tiles, tile

from tilewright.builder import ModuleBuilder, ptr
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.cpu.runtime.engine import optimize, parse_ir
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

ORDERS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal}
ORDERS |= {"gt": np.greater, "ge": np.greater_equal}
NUMBERS = [np.nan, -np.inf, -1.5, -0.0, 0.0, 2.0, np.inf]


class _Tree:
    """A random tree of questions as IR, and its answer for columns of first and second numbers."""

    def __init__(self, seed: int, element: str) -> None:
        self.rng = np.random.default_rng(seed)
        self.element, self.lines = element, list[str]()
        left, right = np.meshgrid(NUMBERS, NUMBERS)
        self.columns = {"%acc": left.ravel(), "%e": right.ravel()}

    def make(self, depth: int) -> tuple[str, np.ndarray]:
        name = f"%t{len(self.lines)}"
        self.lines.append("")
        if depth == 0 or self.rng.random() < 0.2:
            x, y = self.rng.choice(["%acc", "%e"], 2)
            kind, order = self.rng.choice(["o", "u"]), self.rng.choice(list(ORDERS))
            values = self.columns[x], self.columns[y]
            unordered = np.isnan(values[0]) | np.isnan(values[1])
            answer = np.where(unordered, kind == "u", ORDERS[order](*values))
            line = f"{name} = arith.cmpf {kind}{order}, {x}, {y} : {self.element}"
        else:
            (x, a), (y, b) = self.make(depth - 1), self.make(depth - 1)
            op = self.rng.choice(["andi", "ori"])
            answer = a & b if op == "andi" else a | b
            line = f"{name} = arith.{op} {x}, {y} : i1"
        self.lines[int(name[2:])] = line
        return name, answer


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("element", ["f32", "f16", "f64"])
def test_random_trees(element: str, seed: int) -> None:
    tree = _Tree(seed, element)
    root, answer = tree.make(4)
    numbers, count = np.stack(list(tree.columns.values())), 64
    given = np.zeros((2, count), dtype_of(element))
    given[:, : numbers.shape[1]] = numbers
    # Operands stand before what is made of them.
    body = "\n".join(reversed(tree.lines))
    source, whole, row = Given(element, given), tile(element, (2, count)), tile(element, (count,))
    (found,) = on_tiles(
        f"""
        %r0 = nv_tileaa.reduce %a0 {{axis = 0 : i32, identities = [0.0 : {element}]}} : {whole} -> {row} {{
        ^bb0(%acc: {element}, %e: {element}):
          {body}
          %x = arith.select {root}, %e, %acc : {element}
          nv_tileaa.yield %x : {element}
        }}""",
        [source],
        [(element, (count,))],
    )
    wanted = np.where(answer, numbers[1], numbers[0]).astype(given.dtype)
    np.testing.assert_array_equal(found[: wanted.size], wanted)


def test_a_largest_number_beside_nan_takes_few_comparisons() -> None:
    """Written with seven; of an argmax, whose places rise, ties need none of their own."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "out": ptr("i32")}) as k:
        place = k.arange(1024)
        x, _ = k.load_ptr_tko(k.broadcast_to(k.args.x.reshape(1), (1024,)) + place)

        def body(b: Any, v: Any, w: Any, i: Any, j: Any) -> Any:
            wins = (v > w) | ((w != w) & (v == v))
            same = (v == w) | ((v != v) & (w != w))
            takes = wins | (same & (i < j))
            return b.select(takes, v, w), b.select(takes, i, j)

        _, at = k.reduce([x, place], 0, [float("-inf"), 0], body)
        k.store_ptr_tko(k.args.out, at)
    tileaa = lower_to_tileaa(module.build()).module
    compiled = compile_kernel(tileaa, None, CompileOptions(cpu="x86-64-v3"))
    made = parse_ir(compiled.llvm_ir, compiled.target)
    optimize(made, compiled.target)
    steps = re.findall(r"select <8 x i1>[^\n]*<8 x float>", str(made))
    asked = re.findall(r"fcmp \w+ <8 x float>", str(made))
    # Six without; accumulators, whose places are in no order, compare both ways in the end.
    assert steps
    assert len(asked) < 4 * len(steps)
