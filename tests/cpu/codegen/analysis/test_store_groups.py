"""Stores of several arrays in one loop nest: when, and that the results are those of one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr, tile
from tilewright.cpu.compile import CompileOptions, plan_text
from tilewright.lowering import lower_to_tileaa

TILE, LENGTH = 64, 200
NAMES = ("a", "b", "c")


def _kernel(case: str) -> Any:
    """Blocks of three arrays; each access makes its view anew, as frontends do."""
    module = ModuleBuilder()
    with module.entry("k", dict.fromkeys(NAMES, ptr("f32"))) as k:
        block, _, _ = k.get_tile_block_id()

        def tiles(name: str) -> Value:
            view = k.make_tensor_view(getattr(k.args, name), shape=[LENGTH], strides=[1])
            return k.partition(view, tile=(TILE,), padding="zero")

        def load(name: str) -> Value:
            found, _ = k.load_view_tko(tiles(name), [block])
            return found

        def store(name: str, value: Value) -> None:
            k.store_view_tko(value, tiles(name), [block])

        CASES[case](k, load, store)
    return module.build()


def _momentum(k: Builder, load: Any, store: Any) -> None:
    speed = k.addf(k.mulf(load("b"), k.constant(0.5, tile((TILE,), "f32"))), load("a"))
    store("b", speed)
    store("c", k.subf(load("c"), speed))


def _three(k: Builder, load: Any, store: Any) -> None:
    a, b, c = (load(name) for name in NAMES)
    total = k.exp(k.addf(k.addf(a, b), c))
    store("a", k.divf(b, total))
    store("b", k.divf(c, total))
    store("c", k.divf(a, total))


def _read_back(k: Builder, load: Any, store: Any) -> None:
    store("b", k.exp(load("a")))
    store("c", k.addf(load("b"), load("a")))


def _twice(k: Builder, load: Any, store: Any) -> None:
    store("b", k.exp(load("a")))
    store("b", load("c"))


def _sum_between(k: Builder, load: Any, store: Any) -> None:
    a = load("a")
    store("b", k.exp(a))
    k.print_tko(k.constant(1, "i32"), str="%i")
    store("c", k.exp(a))


CASES = {
    "momentum": _momentum,
    "three": _three,
    "read back": _read_back,
    "twice": _twice,
    "a print between": _sum_between,
}


def _plan(case: str, **options: Any) -> str:
    return plan_text(lower_to_tileaa(_kernel(case)).module, None, CompileOptions(**options))


@pytest.mark.parametrize("case", ["momentum", "three"])
def test_fires(case: str):
    plan = _plan(case)
    assert "one nest for the stores" in plan and ": buffer" not in plan
    # Arguments that may share memory keep all stores apart.
    assert "one nest" not in _plan(case, distinct_arguments=False)


@pytest.mark.parametrize("case", ["read back", "twice", "a print between"])
def test_stays(case: str):
    assert "one nest" not in _plan(case)


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_the_reference_machine(case: str, checked: bool):
    data = np.random.default_rng(0).standard_normal((3, LENGTH)).astype(np.float32)
    results = []
    for machine, options in (
        ("reference", LaunchOptions()),
        ("cpu", LaunchOptions(checked=checked)),
    ):
        arrays = data.copy()
        blocks = -(-LENGTH // TILE)
        tilewright.run(
            _kernel(case), "k", (blocks,), tuple(arrays), machine=machine, options=options
        )
        results.append(arrays)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5)
