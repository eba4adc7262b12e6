"""``narrow-comparisons``: which comparisons are made of narrower tiles, and that nobody can tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.builder import ModuleBuilder, ptr
from tilewright.dialects.arith import CmpiOp, ExtSIOp, ExtUIOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.passes import run_pipeline

TILE = 16
LOWER = "lower-cuda-tile-to-tileaa"
PREDICATES = (
    "equal",
    "not_equal",
    "less_than",
    "less_than_or_equal",
    "greater_than",
    "greater_than_or_equal",
)
DTYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32}
KINDS = ("signed", "unsigned")


def _kernel(
    element: str, predicate: str, compared: str, kinds: tuple[str, str], constant: int | None = None
) -> Any:
    """``out[i, j] = x[i] ? y[j]``, both extended to i64 before they are repeated."""
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr(element), "y": ptr(element), "out": ptr("i8")}) as k:

        def load(base: Any, shape: tuple[int, int], kind: str) -> Any:
            view = k.make_tensor_view(base, shape=list(shape), strides=[1, 1])
            found, _ = k.load_view_tko(k.partition(view, tile=shape), [0, 0])
            wide = k.exti(found, to="i64", signedness=kind)
            return k.broadcast(wide, shape=(TILE, TILE))

        x, y = load(k.args.x, (TILE, 1), kinds[0]), load(k.args.y, (1, TILE), kinds[1])
        if constant is not None:
            y = k.full((TILE, TILE), constant, "i64")
        found = k.cmpi(x, y, comparison_predicate=predicate, signedness=compared)
        out = k.make_tensor_view(k.args.out, shape=[TILE, TILE], strides=[TILE, 1])
        number = k.exti(found, to="i8", signedness="unsigned")
        k.store_view_tko(number, k.partition(out, tile=(TILE, TILE)), [0, 0])
    return module.build()


def _widths(module: Any) -> list[str]:
    return [
        T.element_name(T.element_of(op.lhs.type)) for op in module.walk() if isinstance(op, CmpiOp)
    ]


def _numbers(element: str) -> np.ndarray:
    info = np.iinfo(DTYPES[element])
    ends = [info.min, info.min + 1, -2, -1, 0, 1, 2, info.max - 1, info.max]
    return np.resize(np.array(ends, DTYPES[element]), TILE)


@pytest.mark.parametrize("machine", ["reference", "cpu"])
@pytest.mark.parametrize("compared", KINDS)
@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_results_are_the_same(
    element: str, predicate: str, compared: str, kind: str, machine: str
) -> None:
    x, y = _numbers(element), _numbers(element)[::-1].copy()
    results: list[bytes] = []
    for passes in (LOWER, f"{LOWER},narrow-comparisons"):
        module = run_pipeline(
            _kernel(element, predicate, compared, (kind, kind)), passes, verify_each=True
        )
        relation = predicate not in ("equal", "not_equal") and compared == "signed"
        stays = passes == LOWER or (kind == "unsigned" and relation)
        assert _widths(module) == ["i64" if stays else element]
        out = np.zeros((TILE, TILE), np.int8)
        tilewright.run(module, "k", (1,), (x, y, out), machine=machine)
        results.append(out.tobytes())
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("kind", "constant", "fits"),
    [
        ("signed", 127, True),
        ("signed", -128, True),
        ("signed", 128, False),
        ("signed", -129, False),
        ("unsigned", 255, True),
        ("unsigned", 256, False),
        ("unsigned", -1, False),
    ],
)
def test_constants(kind: str, constant: int, fits: bool) -> None:
    x = _numbers("i8")
    results: list[bytes] = []
    for passes in (LOWER, f"{LOWER},narrow-comparisons"):
        module = run_pipeline(
            _kernel("i8", "less_than", "unsigned", (kind, kind), constant), passes, verify_each=True
        )
        out = np.zeros((TILE, TILE), np.int8)
        tilewright.run(module, "k", (1,), (x, x, out), machine="reference")
        results.append(out.tobytes())
    assert _widths(module) == ["i8" if fits else "i64"]
    assert results[0] == results[1]


def test_two_kinds_of_extensions_stay() -> None:
    kernel = _kernel("i16", "less_than", "unsigned", ("signed", "unsigned"))
    assert _widths(run_pipeline(kernel, f"{LOWER},narrow-comparisons")) == ["i64"]


def test_nothing_is_left_that_nobody_uses() -> None:
    kernel = _kernel("i16", "less_than", "signed", ("signed", "signed"))
    found = run_pipeline(kernel, f"{LOWER},narrow-comparisons")
    wide = [op for op in found.walk() if isinstance(op, ExtSIOp | ExtUIOp)]
    assert len(wide) == 1  # that of the result


def test_an_extension_that_others_read_stays_and_one_of_both_sides_goes_once() -> None:
    module = ModuleBuilder()
    with module.entry("k", {"x": ptr("i8"), "out": ptr("i64"), "same": ptr("i8")}) as k:

        def cut(base: Any) -> Any:
            view = k.make_tensor_view(base, shape=[TILE], strides=[1])
            return k.partition(view, tile=(TILE,))

        narrow = k.load_view_tko(cut(k.args.x), [0])[0]
        kept, gone = (k.exti(narrow, to="i64", signedness="signed") for _ in range(2))
        k.store_view_tko(kept, cut(k.args.out), [0])
        less = k.cmpi(kept, gone, comparison_predicate="less_than", signedness="signed")
        equal = k.cmpi(gone, gone, comparison_predicate="equal", signedness="signed")
        for found in (less, equal):
            k.store_view_tko(k.exti(found, to="i8", signedness="unsigned"), cut(k.args.same), [0])
    found = run_pipeline(module.build(), f"{LOWER},narrow-comparisons", verify_each=True)
    assert _widths(found) == ["i8", "i8"]
    wide = [op for op in found.walk() if isinstance(op, ExtSIOp)]
    assert len(wide) == 1 and list(wide[0].results[0].uses)
