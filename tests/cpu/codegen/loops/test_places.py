"""Code of what depends on the places of elements: networks of pairs, masks by position, NaN in between."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.cpu.levels import level, levels

from tilewright import LaunchOptions, run
from tilewright.builder import ModuleBuilder, ptr
from tilewright.cpu.compile import CompileOptions, compile_kernel
from tilewright.lowering import lower_to_tileaa
from tilewright.numerics.arrays import dtype_of

#: Those of which the tests run code.
_PROCESSORS = ("host", "x86-64-v4", "x86-64-v3", "x86-64-v2", "generic")


def _network(element: str, n: int, steps: tuple[int, ...]) -> Any:
    """Rows of n numbers, of which the pairs at these distances are put in order, one after the other."""
    module = ModuleBuilder()
    with module.entry("network", {"x": ptr(element), "out": ptr(element)}) as k:
        row, _, _ = k.get_tile_block_id()
        views = [
            k.partition(k.make_tensor_view(base, shape=[4, n], strides=[n, 1]), tile=(1, n))
            for base in (k.args.x, k.args.out)
        ]
        zero, one = k.constant(0, "i32"), k.constant(1, "i32")
        held, _ = k.load_view_tko(views[0], [row, zero])
        for step in steps:
            part = (n // (2 * step), 1, step)
            pairs = k.reshape(held, shape=(n // (2 * step), 2, step))
            low = k.extract(pairs, [zero, zero, zero], shape=part)
            high = k.extract(pairs, [zero, one, zero], shape=part)
            if element.startswith("f"):
                both = k.minf(low, high), k.maxf(low, high)
            else:
                both = (k.mini(low, high, signedness="signed"),)
                both += (k.maxi(low, high, signedness="signed"),)
            held = k.reshape(k.cat(*both, dim=1), shape=(1, n))
        k.store_view_tko(held, views[1], [row, zero])
    return module.build()


def _numbers(element: str, n: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(n)
    if not element.startswith("f"):
        return rng.integers(-100, 100, (4, n)).astype(dtype_of(element))
    x = rng.integers(-3, 4, (4, n)).astype(dtype_of(element)) * dtype_of(element).type(-1)
    # NaN of all signs and payloads, alone and in pairs.
    words = x.view(f"i{x.itemsize}")
    quiet = dtype_of(element).type(np.nan).view(words.dtype)
    at = rng.random(x.shape)
    words[at < 0.3] = quiet + 5
    words[at < 0.2] = np.float64(-np.nan).astype(x.dtype).view(words.dtype)
    words[at < 0.1] = (quiet | np.iinfo(words.dtype).min) + 1
    return x


@pytest.mark.rotates(8)
@pytest.mark.parametrize("cpu", levels(*_PROCESSORS))
@pytest.mark.parametrize("n", [8, 16, 64, 512])
@pytest.mark.parametrize("element", ["f32", "f64", "f16", "i32", "i16"])
def test_networks_of_pairs(element: str, n: int, cpu: str):
    """The bits of the reference machine, those of NaN too."""
    steps = [1 << at for at in range(n.bit_length() - 2, -1, -1)]
    module = _network(element, n, (*steps, 2, 1))
    x = _numbers(element, n)
    right, found = np.zeros_like(x), np.zeros_like(x)
    run(module, "network", (4,), (x, right))
    run(module, "network", (4,), (x, found), machine="cpu", options=LaunchOptions(cpu=cpu))
    assert found.tobytes() == right.tobytes()


def _code(module: Any) -> str:
    return compile_kernel(lower_to_tileaa(module).module, None, CompileOptions()).llvm_ir


def test_only_the_first_extrema_correct_their_nan():
    counts = [
        len(
            re.findall(
                r"fcmp uno|call .*fixupimm", _code(_network("f64", 16, (8, 4, 2, 1)[:count]))
            )
        )
        for count in (2, 4)
    ]
    assert counts[0] == counts[1] > 0


def test_pairs_take_one_rearrangement():
    """The other one of each pair is brought to it."""
    code = _code(_network("i32", 64, (1,)))
    assert "<i32 1, i32 0, i32 3, i32 2" in code


def _sorting(element: str, n: int, *, descending: bool) -> Any:
    """Rows of n numbers in order, by a network whose comparisons rise or fall by place."""
    module = ModuleBuilder()
    with module.entry("sorting", {"x": ptr(element), "out": ptr(element)}) as k:
        row, _, _ = k.get_tile_block_id()
        views = [
            k.partition(k.make_tensor_view(base, shape=[4, n], strides=[n, 1]), tile=(1, n))
            for base in (k.args.x, k.args.out)
        ]
        zero, one = k.constant(0, "i32"), k.constant(1, "i32")
        held, _ = k.load_view_tko(views[0], [row, zero])
        places = k.iota(shape=(n,), to="i32")
        sizes = [1 << bit for bit in range(n.bit_length() - 1)]
        for size, step in [(s, t) for s in sizes for t in reversed(sizes) if t <= s]:
            part = (n // (2 * step), 1, step)
            pairs = k.reshape(held, shape=(n // (2 * step), 2, step))
            low = k.extract(pairs, [zero, zero, zero], shape=part)
            high = k.extract(pairs, [zero, one, zero], shape=part)
            if element.startswith("f"):
                small, large = k.minf(low, high), k.maxf(low, high)
            else:
                small = k.mini(low, high, signedness="unsigned")
                large = k.maxi(low, high, signedness="unsigned")
            if descending:
                small, large = large, small
            at = k.extract(
                k.reshape(places, shape=(n // (2 * step), 2, step)), [zero, zero, zero], shape=part
            )
            rises = k.cmpi(
                k.andi(at, 2 * size), 0, comparison_predicate="equal", signedness="unsigned"
            )
            first, second = k.select(rises, small, large), k.select(rises, large, small)
            held = k.reshape(k.cat(first, second, dim=1), shape=(1, n))
        k.store_view_tko(held, views[1], [row, zero])
    return module.build()


_SORTED = [
    ("f32", 8, False),
    ("f32", 16, True),
    ("f64", 128, True),
    ("i8", 256, False),
    ("i64", 64, True),
]


@pytest.mark.rotates(2)
@pytest.mark.parametrize(
    ("element", "n", "descending", "cpu"),
    [(*each, "host") for each in _SORTED] + [level(cpu, "f32", 256, False) for cpu in _PROCESSORS],
)
def test_sorting_networks(element: str, n: int, descending: bool, cpu: str):
    rng = np.random.default_rng(n)
    dtype = dtype_of(element)
    x = rng.integers(0, 100, (4, n)).astype(dtype)
    out = np.zeros_like(x)
    run(
        _sorting(element, n, descending=descending),
        "sorting",
        4,
        (x, out),
        machine="cpu",
        options=LaunchOptions(cpu=cpu),
    )
    expected = np.sort(x, 1)
    assert (out == (expected[:, ::-1] if descending else expected)).all()


def _taps(count: int, size: int) -> Any:
    """Each of ``size`` numbers plus those that stand up to ``count`` places behind it, by pointers."""
    module = ModuleBuilder()
    with module.entry("taps", {"x": ptr("f32"), "out": ptr("f32")}) as k:
        places, total = k.iota(shape=(size,), to="i32"), None
        one = k.reshape(k.args.x, shape=(1,))
        for tap in range(count):
            there = k.offset(k.broadcast(one, shape=(size,)), places + tap * 3)
            held, _ = k.load_ptr_tko(there, (places * (tap + 2)) < 7 * size, 0.0)
            total = held if total is None else total * held
        to = k.broadcast(k.reshape(k.args.out, shape=(1,)), shape=(size,))
        k.store_ptr_tko(k.offset(to, places), total)
    return module.build()


def test_long_bodies_are_not_written_out():
    """Places tell where they read; 16 vectors of them would take the compiler seconds and gain nothing."""

    def lines(size: int) -> int:
        kernel = lower_to_tileaa(_taps(24, size)).module
        options = CompileOptions(cpu="x86-64-v3")
        return len(compile_kernel(kernel, None, options).llvm_ir.splitlines())

    # More versions may fit, where fewer vectors are none of them worth it.
    assert lines(512) < 1.5 * lines(32)
