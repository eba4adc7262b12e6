"""``split-divisions``: which divisions are made once for each run, and that nobody can tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions
from tilewright.builder import Builder, ModuleBuilder, Value, ptr
from tilewright.cpu.compile import compile_kernel
from tilewright.dialects.arith import ArithOp
from tilewright.dialects.cuda_tile.attributes import BoundedAttr
from tilewright.dialects.nv_tileaa import types as T
from tilewright.lowering import lower_to_tileaa
from tilewright.passes import run_pipeline

LOWER = "lower-cuda-tile-to-tileaa"
SPLIT = f"{LOWER},split-divisions"
TILE = 256
_DTYPES = {"i32": np.int32, "i64": np.int64, "i16": np.int16}
Make = Callable[[Builder, Value, Value], Value]


def _filled(k: Builder, value: int, like: str) -> Value:
    return k.full((TILE,), value, like)


def _floor(k: Builder, x: Value, y: Value) -> Value:
    return k.divi(x, y, signedness="signed", rounding="negative_inf")


def _unsigned(k: Builder, x: Value, y: Value) -> Value:
    return k.divi(x, y, signedness="unsigned")


def _rest(k: Builder, x: Value, y: Value) -> Value:
    return k.remi(x, y, signedness="unsigned")


def _zero(k: Builder, x: Value, y: Value) -> Value:
    """Rounded to zero: runs of negative numbers have two quotients."""
    return k.divi(x, y, signedness="signed", rounding="zero")


def _modulo(k: Builder, x: Value, y: Value) -> Value:
    """The remainder whose sign is that of the divisor, as Python has it."""
    rest = k.remi(x, y, signedness="signed")
    zero = k.full((TILE,), 0, y.element)
    less: Any = {"comparison_predicate": "less_than", "signedness": "signed"}
    signs = k.xori(k.cmpi(rest, zero, **less), k.cmpi(y, zero, **less))
    inexact = k.cmpi(rest, zero, comparison_predicate="not_equal", signedness="signed")
    return k.select(k.andi(signs, inexact), k.addi(rest, y), rest)


WAYS: dict[str, Make] = {"floor": _floor, "unsigned": _unsigned, "rest": _rest, "modulo": _modulo}


def _kernel(make: Make, divisor: int, *, factor: int = 64, element: str = "i32") -> Any:
    """``out = make(start * factor + range, divisor)``."""
    module = ModuleBuilder()
    with module.entry("k", {"start": element, "out": ptr(element)}) as k:
        first = k.muli(k.args.start, k.constant(factor, element))
        spread = k.broadcast(k.reshape(first, shape=[1]), shape=[TILE])
        numbers = k.addi(spread, k.iota(shape=[TILE], to=element))
        zero = _filled(k, divisor, element)
        found = make(k, numbers, zero)
        view = k.make_tensor_view(k.args.out, shape=[TILE], strides=[1])
        k.store_view_tko(found, k.partition(view, tile=(TILE,)), [0])
    return module.build()


def _divided(module: Any) -> set[int]:
    """How many elements the tiles have that are divided."""
    return {
        int(np.prod(T.dims_of(op.results[0].type)))
        for op in module.walk()
        if isinstance(op, ArithOp) and op.MEANING in ("divi", "remi")
    }


def _starts(element: str, factor: int) -> list[int]:
    """Around zero, and where numbers wrap."""
    info = np.iinfo(_DTYPES[element])
    ends = [info.min // factor, info.max // factor - 1, info.max // factor]
    return [0, 1, -1, 5, -7, 99, *ends]


@pytest.mark.rotates(6)
@pytest.mark.parametrize("machine", ["reference", "cpu"])
@pytest.mark.parametrize("element", _DTYPES)
@pytest.mark.parametrize("divisor", [8, 56, 64, 192, 3136])
@pytest.mark.parametrize("way", WAYS)
def test_results_are_the_same(way: str, divisor: int, element: str, machine: str) -> None:
    kernel = _kernel(WAYS[way], divisor, element=element)
    modules = [run_pipeline(kernel, passes, verify_each=True) for passes in (LOWER, SPLIT)]
    run = min(divisor & -divisor, 64)
    assert [_divided(module) for module in modules] == [{TILE}, {TILE // run}]
    for start in _starts(element, 64):
        results: list[bytes] = []
        for module in modules:
            out = np.zeros(TILE, _DTYPES[element])
            tilewright.run(module, "k", (1,), (start, out), machine=machine)
            results.append(out.tobytes())
        assert results[0] == results[1], start


@pytest.mark.parametrize(
    ("make", "divisor", "factor"),
    [
        (_floor, 14, 64),  # runs of two
        (_floor, 64, 4),  # runs begin anywhere in a vector
        (_floor, -64, 64),
        (_zero, 64, 64),
        (lambda k, x, y: _floor(k, k.muli(x, x), y), 64, 64),
        (lambda k, x, y: _floor(k, k.addi(x, x), y), 64, 64),
    ],
)
def test_what_has_no_runs_stays(make: Make, divisor: int, factor: int) -> None:
    assert _divided(run_pipeline(_kernel(make, divisor, factor=factor), SPLIT)) == {TILE}


def test_what_is_computed_of_quotients_is_computed_for_runs() -> None:
    """``i // 3136 % 40``: 40 has no power of two for runs, but quotients have them already."""

    def channel(k: Builder, x: Value, y: Value) -> Value:
        return _modulo(k, _floor(k, x, y), _filled(k, 40, "i32"))

    kernel = _kernel(channel, 3136)
    module = run_pipeline(kernel, SPLIT, verify_each=True)
    assert _divided(module) == {TILE // 64}
    for start in _starts("i32", 64):
        out = np.zeros(TILE, np.int32)
        tilewright.run(module, "k", (1,), (start, out), machine="reference")
        first = np.int32(np.int64(start * 64).astype(np.int32))
        with np.errstate(over="ignore"):
            assert (out == (first + np.arange(TILE, dtype=np.int32)) // 3136 % 40).all()


def test_a_remainder_that_is_corrected_in_another_way_stays() -> None:
    def wrong(k: Builder, x: Value, y: Value) -> Value:
        rest = k.remi(x, y, signedness="signed")
        zero = k.full((TILE,), 0, y.element)
        less = k.cmpi(rest, zero, comparison_predicate="less_than", signedness="signed")
        inexact = k.cmpi(rest, y, comparison_predicate="not_equal", signedness="signed")
        return k.select(k.andi(less, inexact), k.addi(rest, y), rest)

    assert _divided(run_pipeline(_kernel(wrong, 64), SPLIT)) == {TILE}


def _window(width: int, height: int, element: str) -> Any:
    """A neighbour of each pixel of an image, by flat indices; zero outside."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr(element), "y": ptr(element), "r": "i32", "s": "i32"}) as k:
        block = k.get_tile_block_id()[0]

        def spread(value: Value) -> Value:
            return k.broadcast(k.reshape(value, shape=[1]), shape=[TILE])

        place = spread(block * TILE) + k.iota(shape=[TILE], to="i32")
        size, zero = _filled(k, width, "i32"), _filled(k, 0, "i32")
        row = _floor(k, place, size) + spread(k.args.r)
        column = _modulo(k, place, size) + spread(k.args.s)
        inside = k.cmpi(
            place,
            _filled(k, width * height, "i32"),
            comparison_predicate="less_than",
            signedness="signed",
        )
        own = inside
        for number, end in ((row, height), (column, width)):
            ends: Any = (("greater_than_or_equal", zero), ("less_than", _filled(k, end, "i32")))
            for predicate, limit in ends:
                found = k.cmpi(number, limit, comparison_predicate=predicate, signedness="signed")
                inside = k.andi(inside, found)
        at = k.addi(k.muli(row, size), column)
        padding = k.full((TILE,), 0, element)
        found, _ = k.load_ptr_tko(k.offset(spread(k.args.x), at), mask=inside, paddingValue=padding)
        k.store_ptr_tko(k.offset(spread(k.args.y), place), found, mask=own)
    return module.build()


@pytest.mark.rotates(4)
@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("element", ["i8", "f16", "f32", "f64"])
@pytest.mark.parametrize(("width", "height"), [(64, 9), (56, 11), (24, 31), (13, 40), (8, 70)])
def test_neighbours_of_pixels(width: int, height: int, element: str, *, checked: bool) -> None:
    dtype = {"i8": np.int8, "f16": np.float16, "f32": np.float32, "f64": np.float64}[element]
    x = (np.arange(width * height) % 97 + 1).astype(dtype).reshape(height, width)
    padded = np.pad(x, 2)
    program = tilewright.load(
        _window(width, height, element), "cpu", LaunchOptions(checked=checked)
    )
    for r in (-2, 0, 1):
        for s in (-1, 0, 2):
            y = np.zeros_like(x)
            program.launch("k", (-(-x.size // TILE), 1, 1), (x, y, r, s))
            assert (y == padded[2 + r : 2 + r + height, 2 + s : 2 + s + width]).all(), (r, s)


def test_neighbours_are_loaded_by_whole_vectors() -> None:

    def gathers(width: int) -> bool:
        found = compile_kernel(lower_to_tileaa(_window(width, 40, "f32")).module)
        return any(remark.kind == "gather" for remark in found.remarks)

    assert not gathers(64) and not gathers(56)
    assert gathers(13)


def test_floats_made_of_quotients_are_computed_for_runs() -> None:
    """As rows of an image that is enlarged: where they lie in the other one."""

    def row(k: Builder, x: Value, y: Value) -> Value:
        whole = k.itof(_floor(k, x, y), to="f32", signedness="signed")
        half = k.full((TILE,), 0.5, "f32")
        return k.ftoi(k.mulf(k.addf(whole, half), half), to="i32", signedness="signed")

    kernel = _kernel(row, 128)
    module = run_pipeline(kernel, SPLIT, verify_each=True)
    floats = [op for op in module.walk() if op.name in ("nv_tileaa.addf", "arith.sitofp")]
    assert {int(np.prod(T.dims_of(op.results[0].type))) for op in floats} == {TILE // 64}
    for start in (0, 3, 77):
        out = np.zeros(TILE, np.int32)
        tilewright.run(module, "k", (1,), (start, out), machine="cpu")
        numbers = (start * 64 + np.arange(TILE)) // 128
        assert (out == ((numbers + np.float32(0.5)) * np.float32(0.5)).astype(np.int32)).all()


def test_what_is_made_in_a_loop_is_not_used_behind_it() -> None:
    """One dividend is divided in a loop, behind it, and in another one, by numbers and by scalars times numbers."""
    module = ModuleBuilder()
    with module.entry("k", {"start": "i32", "out": ptr("i32")}) as k:
        first = k.muli(k.args.start, k.constant(64, "i32"))
        numbers = k.addi(
            k.broadcast(k.reshape(first, shape=[1]), shape=[TILE]), k.iota(shape=[TILE], to="i32")
        )
        by = _filled(k, 64, "i32")
        total = k.full((TILE,), 0, "i32")
        for _ in range(2):
            with k.for_(3, total=total) as loop:
                loop.total = loop.total + k.muli(_floor(k, numbers, by), k.addi(by, by))
            total = loop.total + _modulo(k, numbers, by)
        view = k.make_tensor_view(k.args.out, shape=[TILE], strides=[1])
        k.store_view_tko(total, k.partition(view, tile=(TILE,)), [0])
    split = run_pipeline(module.build(), SPLIT, verify_each=True)
    assert _divided(split) == {TILE // 64}
    out = np.zeros(TILE, np.int32)
    tilewright.run(split, "k", (1,), (5, out), machine="cpu")
    wanted = 320 + np.arange(TILE)
    assert (out == 6 * (wanted // 64) * 128 + 2 * (wanted % 64)).all()


@pytest.mark.parametrize("machine", ["reference", "cpu"])
@pytest.mark.parametrize("element", _DTYPES)
@pytest.mark.parametrize("divisor", [257, 300, 1000])
@pytest.mark.parametrize("way", ["rest", "modulo"])
def test_remainders_without_runs_are_what_quotients_leave(
    way: str, divisor: int, element: str, machine: str
) -> None:
    kernel = _kernel(WAYS[way], divisor, factor=1, element=element)
    modules = [run_pipeline(kernel, passes, verify_each=True) for passes in (LOWER, SPLIT)]
    names = [{op.name for op in module.walk()} for module in modules]
    assert "arith.remsi" in names[0] or "arith.remui" in names[0]
    assert not {"arith.remsi", "arith.remui"} & names[1]
    for start in _starts(element, 1):
        results: list[bytes] = []
        for module in modules:
            out = np.zeros(TILE, _DTYPES[element])
            tilewright.run(module, "k", (1,), (start, out), machine=machine)
            results.append(out.tobytes())
        assert results[0] == results[1], start


@pytest.mark.parametrize(("divisor", "factor"), [(50, 1), (-300, 1)])
def test_other_remainders_stay(divisor: int, factor: int) -> None:
    """Quotients change often along the tile, or the divisor is negative."""
    module = run_pipeline(_kernel(_modulo, divisor, factor=factor), SPLIT)
    assert "arith.remsi" in {op.name for op in module.walk()}


@pytest.mark.parametrize("way", ["width", "constant", "chosen"])
@pytest.mark.parametrize("width", [1024, 1000])
def test_neighbours_on_a_torus_are_loaded_by_whole_vectors(way: str, width: int) -> None:
    """``x[i] - x[(i + 1) % width]``, also where the width is known at run time only; no remark tells of a gather."""
    tiles = -(-width // TILE)
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("f32"), "n": "i32", "out": ptr("f32")}) as k:
        n = k.assume(k.args.n, predicate=BoundedAttr(0, None))
        block, _, _ = k.get_tile_block_id()
        first = k.muli(block, k.constant(TILE, "i32"))
        place = k.addi(_spread(k, first), k.iota(shape=[TILE], to="i32"))
        extent = _filled(k, width, "i32") if way == "constant" else _spread(k, n)
        after = k.addi(place, _filled(k, 1, "i32"))
        if way == "chosen":
            words: Any = {"comparison_predicate": "less_than", "signedness": "signed"}
            at = k.select(k.cmpi(after, extent, **words), after, _filled(k, 0, "i32"))
        else:
            at = _modulo(k, after, extent)
        inside = k.cmpi(place, extent, comparison_predicate="less_than", signedness="signed")
        both = [_loaded(k, place, inside), _loaded(k, at, inside)]
        k.store_ptr_tko(_pointers(k, k.args.out, place), k.subf(*both), mask=inside)
    built = module.build()
    x = np.random.default_rng(width).standard_normal(width).astype(np.float32)
    out = np.zeros_like(x)
    tilewright.run(built, "k", (tiles,), (x, width, out), machine="cpu")
    assert (out == x - np.roll(x, -1)).all()
    found = compile_kernel(lower_to_tileaa(built).module)
    assert not [remark for remark in found.remarks if remark.kind == "gather"]


def _spread(k: Builder, number: Value) -> Value:
    return k.broadcast(k.reshape(number, shape=[1]), shape=[TILE])


def _pointers(k: Builder, base: Value, place: Value) -> Value:
    return k.offset(_spread(k, base), place)


def _loaded(k: Builder, place: Value, inside: Value) -> Value:
    other = k.full((TILE,), 0.0, "f32")
    return k.load_ptr_tko(_pointers(k, k.args.x, place), mask=inside, paddingValue=other)[0]
