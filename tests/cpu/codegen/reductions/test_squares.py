"""Short rows, as many of which are reduced together as vectors have lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.cpu.codegen.differential import variants

from tilewright import LaunchOptions
from tilewright.builder import ModuleBuilder, Value, ptr
from tilewright.cpu import Program
from tilewright.cpu.compile import compile_kernel
from tilewright.lowering import lower_to_tileaa
from tilewright.machine import Program as Reference
from tilewright.numerics.arrays import dtype_of

GROUPS = 3


def _kernel(element: str, dims: tuple[int, ...], how: str, *, ragged: bool) -> Any:
    """Rows of a tile along its last axis, squared and reduced; ``ragged``: the array ends within the tile."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr(element), "y": ptr(element)}) as k:
        shape = [extent - 1 if ragged and extent > 1 else extent for extent in dims]
        strides = [int(np.prod(shape[axis + 1 :])) for axis in range(len(dims))]
        whole = k.make_tensor_view(k.args.x, shape=shape, strides=strides)
        zero = k.constant(0, "i32")
        view = k.partition(whole, tile=dims, padding="zero")
        held, _ = k.load_view_tko(view, [zero] * len(dims))
        found = k.fold(how, held * held - held, len(dims) - 1, False)
        rest = dims[:-1]
        after = k.make_tensor_view(
            k.args.y,
            shape=rest,
            strides=[int(np.prod(rest[axis + 1 :])) for axis in range(len(rest))],
        )
        k.store_view_tko(found, k.partition(after, tile=rest), [zero] * len(rest))
    return module.build()


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("dims", [(16, 8), (32, 16), (2, 16, 32), (64, 64), (8, 16), (4, 4, 8, 8)])
@pytest.mark.parametrize(
    ("element", "how"),
    [
        ("f32", "sum"),
        ("f64", "max"),
        ("f16", "min"),
        ("bf16", "max"),
        ("i32", "sum"),
        ("i8", "max"),
        ("i64", "min"),
    ],
)
@pytest.mark.rotates(3)
def test_short_rows(element: str, how: str, dims: tuple[int, ...], ragged: bool) -> None:
    module = _kernel(element, dims, how, ragged=ragged)
    shape = [extent - 1 if ragged and extent > 1 else extent for extent in dims]
    numbers = np.random.default_rng(len(dims)).integers(-5, 6, shape).astype(dtype_of(element))
    expected, found = (np.zeros(dims[:-1], numbers.dtype) for _ in range(2))
    Reference(module).launch("k", 1, (numbers.ravel(), expected.ravel()))
    for options in variants(element, how, dims, ragged):
        Program(module, options=LaunchOptions(**options)).launch(
            "k", 1, (numbers.ravel(), found.ravel())
        )
        assert found.tobytes() == expected.tobytes(), options


@pytest.mark.parametrize("dims", [(32, 8), (32, 16), (32, 32)])
def test_a_remark_tells(dims: tuple[int, ...]) -> None:
    module = _kernel("f32", dims, "max", ragged=False)
    compiled = compile_kernel(lower_to_tileaa(module).module)
    assert any("short rows" in str(each.message) for each in compiled.remarks)
    assert "vector.reduce" not in compiled.llvm_ir


@pytest.mark.parametrize("dims", [(16, 8), (32, 16), (2, 16, 32), (64, 64), (32, 128)])
@pytest.mark.parametrize("element", ["i32", "i64", "i8"])
def test_rows_that_keep_their_order(element: str, dims: tuple[int, ...]) -> None:
    """Functions ``a x + b``, one after the other: which comes first tells."""
    module, count, rest = ModuleBuilder(), int(np.prod(dims)), dims[:-1]
    with module.entry("k", dict.fromkeys(("x", "y", "z"), ptr(element))) as k:

        def places(base: Value, shape: tuple[int, ...]) -> Value:
            at = k.reshape(k.arange(int(np.prod(shape))), shape=shape)
            one = k.reshape(base, shape=[1] * len(shape))
            return k.offset(k.broadcast(one, shape=shape), at)

        a, _ = k.load_ptr_tko(places(k.args.x, dims))
        b, _ = k.load_ptr_tko(places(k.args.y, dims))
        found = k.reduce(
            [a, b],
            len(dims) - 1,
            [1, 0],
            lambda k, c, before, d, other: [c * before, c * other + d],
        )
        for base, value in zip(
            (k.args.z, k.offset(k.args.z, k.constant(int(np.prod(rest)), "i32"))), found
        ):
            k.store_ptr_tko(places(base, rest), value)
    rng = np.random.default_rng(len(dims))
    x, y = (rng.integers(-3, 4, count).astype(dtype_of(element)) for _ in range(2))
    built = module.build()
    expected, after = (np.zeros(2 * int(np.prod(rest)), x.dtype) for _ in range(2))
    Reference(built).launch("k", 1, (x, y, expected))
    for options in variants("order", element, dims):
        Program(built, options=LaunchOptions(**options)).launch("k", 1, (x, y, after))
        assert after.tobytes() == expected.tobytes(), options
