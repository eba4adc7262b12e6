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


@pytest.mark.parametrize("step", [1, 2, 3, 5])
def test_tiles_that_may_alternate_do_not_join_a_store_to_what_is_read(step: int):
    """Where they overlap, the second one goes over the first."""
    module = ModuleBuilder()
    with module.entry("k", {"a": ptr("f32"), "b": ptr("f32"), "step": "i32"}) as k:
        whole = k.partition(
            k.make_tensor_view(k.args.a, shape=[LENGTH, 1], strides=[1, 1]), tile=(TILE, 1)
        )
        pairs = k.partition(
            k.make_tensor_view(k.args.b, shape=[LENGTH, 2], strides=[k.args.step] * 2),
            tile=(TILE, 1),
        )
        x, _ = k.load_view_tko(whole, [0, 0])
        k.store_view_tko(x + 1.0, whole, [0, 0])
        k.store_view_tko(x * 2.0, pairs, [0, 0])
        k.store_view_tko(x * 3.0, pairs, [0, 1])
    found = []
    for machine in ("reference", "cpu"):
        a, b = np.arange(LENGTH, dtype=np.float32), np.zeros(6 * LENGTH, np.float32)
        tilewright.run(module.build(), "k", (1,), (a, b, np.int32(step)), machine=machine)
        found.append((a, b))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


# -- through pointers --------------------------------------------------------------------------------

SIZE = 640


def _through_pointers(shape: tuple[int, ...], case: str) -> Any:
    """A block writes tiles at addresses that numbers of the run time give, where masks of their own let it."""
    module = ModuleBuilder()
    numbers = ("step", "count", "other", "far", "further")
    parameters = {name: ptr("f32") for name in ("x", "a", "b")} | {"at": ptr("i32")}
    with module.entry("k", parameters | dict.fromkeys(numbers, "i32")) as k:
        args = k.args

        def spread(value: Value) -> Value:
            return k.broadcast(k.reshape(value, shape=(1,) * len(shape)), shape=shape)

        def along(axis: int) -> Value:
            ones = tuple(n if place == axis else 1 for place, n in enumerate(shape))
            line = k.reshape(k.iota(shape=(shape[axis],), to="i32"), shape=ones)
            return k.broadcast(line, shape=shape)

        def below(limit: Value) -> Value:
            return k.cmpi(
                column, spread(limit), comparison_predicate="less_than", signedness="signed"
            )

        def store(name: str, offset: Value, mask: Value | None, value: Value) -> None:
            k.store_ptr_tko(k.offset(spread(getattr(args, name)), offset), value, mask)

        block, _, _ = k.get_tile_block_id()
        column = along(len(shape) - 1) + spread(block * shape[-1])
        place = column + along(0) * 160 if len(shape) == 2 else column
        near = below(args.count)
        x, _ = k.load_ptr_tko(k.offset(spread(args.x), place), near, 0.0)
        y = x * x
        stepped = place * spread(args.step) + 2 * SIZE
        if case == "two arrays":
            store("a", place, near, x + y)
            store("b", stepped, below(args.other), x * y)
        elif case == "one array":
            store("a", stepped, near, x + y)
            store("a", stepped + spread(args.far), below(args.other), x * y)
            store("a", stepped + spread(args.further), None, x - y)
        elif case == "by a list":
            where, _ = k.load_ptr_tko(k.offset(spread(args.at), place))
            store("a", where, near, x + y)
            store("b", place, near, x * y)
        else:
            store("x", place, near, x + y)
            store("a", stepped, near, x * y)
    return module.build()


POINTER_CASES = ("two arrays", "one array", "by a list", "in place")


@pytest.mark.parametrize("case", POINTER_CASES)
def test_stores_through_pointers_go_together(case: str):
    module = lower_to_tileaa(_through_pointers((64,), case)).module
    assert "one nest for the stores" in plan_text(module, None, CompileOptions())


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("case", POINTER_CASES)
@pytest.mark.parametrize("shape", [(64,), (4, 32), (128,)])
def test_stores_through_pointers(shape: tuple[int, ...], case: str, checked: bool):
    """Bit for bit as one after the other: apart, interleaved, one over the other; masks that end at different places, and
    nowhere."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal(SIZE).astype(np.float32)
    at = rng.permutation(SIZE).astype(np.int32)
    module = _through_pointers(shape, case)
    program = {
        name: tilewright.load(module, name, LaunchOptions(checked=checked and name == "cpu"))
        for name in ("reference", "cpu")
    }
    for step, far, further in (
        (1, SIZE, 2 * SIZE),
        (1, -SIZE, -2 * SIZE),
        (3, 1, 2),
        (1, 1, 2),
        (1, 0, 3),
        (2, 1, 2000),
    ):
        for count, other in ((100, 90), (128, 128), (0, 64), (61, 0), (57, 58), (1, 128), (90, 23)):
            found = []
            for each in program.values():
                arrays = {name: np.full(8 * SIZE, 7, np.float32) for name in "ab"}
                own = x.copy()
                numbers = [np.int32(n) for n in (step, count, other, far, further)]
                # Blocks may run in any order: one alone writes what overlaps.
                grid = (1 if case == "one array" else -(-128 // shape[-1]),)
                each.launch("k", grid, (own, *arrays.values(), at, *numbers))
                found.append([own, *arrays.values()])
            for one, other_one in zip(*found, strict=True):
                np.testing.assert_array_equal(
                    one, other_one, err_msg=f"{step, far, further, count, other}"
                )
