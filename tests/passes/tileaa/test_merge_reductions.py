"""``merge-reductions``: which reductions become one, and that results stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.dialects.nv_tileaa.ops.contraction import ReduceOp
from tilewright.passes import run_pipeline

ROWS, WIDTH = 4, 32


def _sum(k: Builder, value: Value, dim: int = 1) -> Value:
    return k.reduce(value, dim, [0.0], lambda b, element, total: b.addf(element, total))


def _largest(k: Builder, value: Value) -> Value:
    return k.reduce(value, 1, [float("-inf")], lambda b, element, total: b.maxf(element, total))


class _Given:
    """What a kernel works with: a tile of ``x``, and stores of sums to the arrays ``a``, ``b``, ``c``."""

    def __init__(self, k: Builder) -> None:
        self.k = k
        view = k.make_tensor_view(k.args.x, shape=[ROWS, WIDTH], strides=[WIDTH, 1])
        self.tiles = k.partition(view, tile=(ROWS, WIDTH))
        self.zero = k.constant(0, "i32")
        self.x = self.load()

    def load(self) -> Value:
        found, _ = self.k.load_view_tko(self.tiles, [self.zero, self.zero])
        return found

    def store(self, name: str, value: Value) -> None:
        k = self.k
        size = value.type.dims[0] if hasattr(value.type, "dims") else ROWS
        view = k.make_tensor_view(getattr(k.args, name), shape=[size], strides=[1])
        k.store_view_tko(value, k.partition(view, tile=(size,)), [self.zero])


def _moments(g: _Given) -> None:
    k = g.k
    for name, value in zip("abc", (g.x, k.mulf(g.x, g.x), k.absf(g.x)), strict=True):
        g.store(name, _sum(k, value))


def _mixed(g: _Given) -> None:
    total, largest = _sum(g.k, g.x), _largest(g.k, g.x)
    g.store("a", g.k.addf(total, largest))
    g.store("b", largest)


def _used_between(g: _Given) -> None:
    twice = g.k.addf(_sum(g.k, g.x), 1.0)
    other = _sum(g.k, g.k.mulf(g.x, g.x))
    g.store("a", g.k.addf(twice, other))


def _depends(g: _Given) -> None:
    k = g.k
    mean = k.broadcast(k.reshape(_sum(k, g.x), shape=(ROWS, 1)), shape=(ROWS, WIDTH))
    g.store("a", _sum(k, k.subf(g.x, mean)))


def _other_axis(g: _Given) -> None:
    g.store("a", _sum(g.k, g.x))
    columns = _sum(g.k, g.x, 0)
    view = g.k.make_tensor_view(g.k.args.c, shape=[WIDTH], strides=[1])
    g.k.store_view_tko(columns, g.k.partition(view, tile=(WIDTH,)), [g.zero])


def _load_behind_a_store(g: _Given) -> None:
    g.store("a", _sum(g.k, g.x))
    g.store("b", _sum(g.k, g.load()))


def _print_between(g: _Given) -> None:
    g.store("a", _sum(g.k, g.x))
    g.k.print_tko(g.k.constant(1, "i32"), str="%i")
    g.store("b", _sum(g.k, g.x))


def _atomic_between(g: _Given) -> None:
    k = g.k
    for name, total in (("a", _sum(k, g.x)), ("b", _sum(k, k.mulf(g.x, g.x)))):
        base = k.broadcast(k.reshape(getattr(k.args, name), shape=(1,)), shape=(ROWS,))
        places = k.offset(base, k.iota(shape=(ROWS,), to="i32"))
        k.atomic_rmw_tko(
            places, total, mode="addf", memory_ordering_semantics="relaxed", memory_scope="device"
        )


def _load_behind_an_atomic(g: _Given) -> None:
    k = g.k
    base = k.broadcast(k.reshape(k.args.a, shape=(1,)), shape=(ROWS,))
    total = _sum(k, g.x)
    places = k.offset(base, k.iota(shape=(ROWS,), to="i32"))
    k.atomic_rmw_tko(
        places, total, mode="addf", memory_ordering_semantics="relaxed", memory_scope="device"
    )
    g.store("b", _sum(k, g.load()))


FIRES = {
    "moments": _moments,
    "a sum and a maximum": _mixed,
    "used between": _used_between,
    "an atomic between": _atomic_between,
}
STAYS = {
    "the second needs the first": _depends,
    "other axes": _other_axis,
    "a load behind a store": _load_behind_a_store,
    "a print between": _print_between,
    "a load behind an atomic": _load_behind_an_atomic,
}


def _kernel(make: Any) -> Any:
    module = ModuleBuilder()
    with module.entry("k", dict.fromkeys("xabc", ptr("f32"))) as k:
        make(_Given(k))
    return module.build()


def _merged(make: Any, passes: str = "merge-reductions") -> Any:
    return run_pipeline(_kernel(make), f"lower-cuda-tile-to-tileaa,{passes}", verify_each=True)


def _widths(make: Any) -> list[int]:
    """How many values each reduction has after the pass."""
    return [len(op.results) for op in _merged(make).walk() if isinstance(op, ReduceOp)]


@pytest.mark.parametrize("make", FIRES.values(), ids=FIRES)
def test_fires(make: Any):
    assert _widths(make) == [3 if make is _moments else 2]


@pytest.mark.parametrize("make", STAYS.values(), ids=STAYS)
def test_stays(make: Any):
    assert _widths(make) == [1, 1]


@pytest.mark.parametrize("make", [*FIRES.values(), *STAYS.values()], ids=[*FIRES, *STAYS])
def test_results_stay_the_same(make: Any):
    x = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(np.float32)
    results = []
    for machine, passes in (("reference", "O0"), ("reference", "cpu"), ("cpu", "O0")):
        arrays = [np.zeros(WIDTH, np.float32) for _ in "abc"]
        module = _kernel(make) if passes == "O0" else _merged(make, passes)
        tilewright.run(module, "k", (1,), (x, *arrays), machine=machine)
        results.append(np.stack(arrays))
    assert results[0].tobytes() == results[1].tobytes()
    np.testing.assert_allclose(results[0], results[2], rtol=1e-4, atol=1e-5)
