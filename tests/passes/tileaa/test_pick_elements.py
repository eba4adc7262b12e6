"""``pick-elements``: which reductions become one element, and that results stay the same, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.dialects.arith import SelectOp
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.passes import run_pipeline

ROWS, WIDTH = 8, 16


class _Given:
    """A tile ``x`` of floats and one of integers ``n``, a number ``at``, the places along both axes."""

    def __init__(self, k: Builder) -> None:
        self.k, self.at = k, k.args.at
        self.row, self.column = k.arange(ROWS).reshape(ROWS, 1), k.arange(WIDTH).reshape(1, WIDTH)
        self.x, self.n = self._load(k.args.x), self._load(k.args.n)

    def _load(self, base: Value) -> Value:
        view = self.k.make_tensor_view(base, shape=[ROWS, WIDTH], strides=[WIDTH, 1])
        return self.k.load_view_tko(self.k.partition(view, tile=(ROWS, WIDTH)), [0, 0])[0]

    def picked(self, is_it: Value, other: float = 0.0) -> Value:
        return self.k.where(is_it, self.x, other)


def _in_a_loop(g: _Given) -> Value:
    k = g.k
    with k.for_(ROWS, total=k.zeros((WIDTH,), "f32")) as loop:
        loop.total = loop.total - g.picked(g.row == loop.index).sum(0)
    return loop.total


def _reduced_as(name: str, g: _Given, tile: Value, axis: int, identity: float) -> Value:
    return g.k.reduce(tile, axis, [identity], lambda b, e, total: getattr(b, name)(e, total))


Case = Callable[[_Given], Value]
FIRES: dict[str, Case] = {
    "a row": lambda g: g.picked(g.row == g.at).sum(0),
    "a column": lambda g: g.picked(g.column == g.at).sum(1),
    "the other way round": lambda g: g.picked(g.at == g.row).sum(0),
    "counted from 3": lambda g: g.picked(g.row + 3 == g.at + 3).sum(0),
    "counted from another number": lambda g: g.picked(g.at * 3 + g.row == g.at * 4).sum(0),
    "another number": lambda g: g.picked(g.row == g.at * 2 - 1).sum(0),
    "all but one": lambda g: g.k.where(g.row != g.at, 0.0, g.x).sum(0),
    "integers": lambda g: g.k.where(g.column == g.at, g.n, 0).sum(1),
    "bits": lambda g: _reduced_as("xori", g, g.k.where(g.row == g.at, g.n, 0), 0, 0),
    "a maximum": lambda g: g.picked(g.row == g.at, float("-inf")).max(0),
    "a maximum of the rest": lambda g: g.picked(g.row == g.at, -0.25).max(0),
    "a minimum of integers": lambda g: g.k.where(g.row == g.at, g.n, 3).min(0),
    "a line": lambda g: g.k.where(g.k.arange(WIDTH) == g.at, g.x.sum(0), 0.0).sum(0),
    "in a loop": _in_a_loop,
}
STAYS: dict[str, Case] = {
    "not a constant": lambda g: g.k.where(g.row == g.at, g.x, abs(g.x)).sum(0),
    "a constant that adds up": lambda g: g.picked(g.row == g.at, 1.0).sum(0),
    "a product": lambda g: _reduced_as("mulf", g, g.picked(g.row == g.at), 0, 1.0),
    "several rows": lambda g: g.picked(g.row < g.at).sum(0),
    "another axis": lambda g: g.picked(g.column == g.at).sum(0),
    "a number for each element": lambda g: g.picked(g.row == g.n).sum(0),
    "a number for each column": lambda g: g.picked(g.row == g.column).sum(0),
    "NaN elsewhere": lambda g: g.picked(g.row == g.at, float("nan")).max(0),
}


def _kernel(make: Case) -> Any:
    module = ModuleBuilder()
    parameters = {"x": ptr("f32"), "n": ptr("i32"), "out": ptr("f32"), "at": "i32"}
    with module.entry("k", parameters) as k:
        found = make(_Given(k))
        dims = getattr(found.type, "dims", ())
        size = dims[0] if dims else 1
        found = found.reshape(size)
        found = found.to("f32") if "i32" in str(found.type) else found
        view = k.make_tensor_view(k.args.out, shape=[size], strides=[1])
        k.store_view_tko(found, k.partition(view, tile=(size,)), [0])
    return module.build()


def _picked(make: Case, passes: str = "pick-elements") -> Any:
    return run_pipeline(_kernel(make), f"lower-cuda-tile-to-tileaa,{passes}", verify_each=True)


def _reductions(make: Case, passes: str = "pick-elements") -> int:
    return sum(isinstance(op, ReduceOp) for op in _picked(make, passes).walk())


@pytest.mark.parametrize("make", FIRES.values(), ids=FIRES)
def test_fires(make: Case):
    assert _reductions(make) == _reductions(make, "") - 1


@pytest.mark.parametrize("make", STAYS.values(), ids=STAYS)
def test_stays(make: Case):
    assert _reductions(make) == _reductions(make, "") > 0


def test_a_number_that_is_known_to_be_inside_needs_no_choice():
    kinds = [type(op) for op in _picked(_in_a_loop).walk()]
    assert SelectOp not in kinds
    kinds = [type(op) for op in _picked(FIRES["a row"]).walk()]
    assert SelectOp in kinds


@pytest.mark.parametrize("at", [0, 5, ROWS, WIDTH - 1, -1, -(1 << 31), (1 << 31) - 1])
@pytest.mark.parametrize("make", [*FIRES.values(), *STAYS.values()], ids=[*FIRES, *STAYS])
def test_results_stay_the_same(make: Case, at: int):
    random = np.random.default_rng(0)
    # Multiples of 1/64, so that sums are exact in every order.
    x = (random.integers(-200, 200, (ROWS, WIDTH)) / 64).astype(np.float32)
    x[:, 1], x[2, 2], x[5, 3] = -0.0, np.nan, np.inf
    n = random.integers(-10, 10, (ROWS, WIDTH)).astype(np.int32)
    results = []
    for machine, passes in (("reference", "O0"), ("reference", "pick-elements"), ("cpu", "O0")):
        out = np.zeros(WIDTH, np.float32)
        module = _kernel(make) if passes == "O0" else _picked(make, passes)
        tilewright.run(module, "k", (1,), (x, n, out, at), machine=machine)
        results.append(out.tobytes())
    assert results[0] == results[1] == results[2]
