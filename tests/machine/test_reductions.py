"""Reductions and scans against the documented order, element by element."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.machine.kernels import ELEMENTS, run_body, tile_of

from tilewright.numerics.semantics import ELEMENTWISE

FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
INTEGERS = (np.bool_, np.int8, np.int16, np.int32, np.int64)

#: operation, its attributes in text, the same as keywords, identity by kind of element
COMBINERS: list[tuple[str, str, dict[str, Any], Any]] = [
    ("addf", "", {}, 0.0),
    ("mulf", "", {}, 1.0),
    ("addf", "rounding<zero>", {"rounding": "zero"}, 0.0),
    ("maxf", "", {}, -np.inf),
    ("minf", "propagate_nan", {"propagate_nan": True}, np.inf),
    ("addi", "", {}, 0),
    ("muli", "", {}, 1),
    ("xori", "", {}, 0),
    ("andi", "", {}, -1),
    ("ori", "", {}, 0),
    ("maxi", "signed", {"signedness": "signed"}, "lowest"),
    ("mini", "unsigned", {"signedness": "unsigned"}, -1),
]


def _identity(value: Any, dtype: np.dtype) -> str:
    element = ELEMENTS[dtype]
    if element == "i1":
        # The lowest signed i1 is true, which is -1.
        number = value in (-1, 1, "lowest")
        return str(number).lower()
    if dtype.kind == "i":
        number = int(np.iinfo(dtype).min) if value == "lowest" else value
        return f"{number} : {element}"
    bits = int(np.array(value, dtype).view(f"u{dtype.itemsize}"))
    return f"{bits:#0{2 + 2 * dtype.itemsize}x} : {element}"


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if dtype.kind == "i":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    values = rng.normal(size=shape).astype(dtype)
    values.flat[rng.integers(values.size)] = np.array(-0.0, dtype)
    return values


def _sequential(
    op: str, keywords: dict[str, Any], x: np.ndarray, axis: int, reverse: bool
) -> np.ndarray:
    """All partial results: one element after the other, the accumulator first; without the identity."""
    element = ELEMENTS[x.dtype]
    rows = np.moveaxis(x, axis, 0)
    kept = np.empty_like(rows)
    state = None
    order = range(len(rows))
    for index in reversed(order) if reverse else order:
        row = rows[index, ...]
        state = row if state is None else ELEMENTWISE[op](state, row, element, **keywords)
        kept[index] = state
    return np.moveaxis(kept, 0, axis)


def _cases() -> list[Any]:
    return [
        pytest.param(combiner, np.dtype(dtype), id=f"{combiner[0]}-{np.dtype(dtype).name}-{number}")
        for number, combiner in enumerate(COMBINERS)
        for dtype in (FLOATS if combiner[0].endswith("f") else INTEGERS)
    ]


@pytest.mark.parametrize(("combiner", "dtype"), _cases())
def test_folds_of_one_operation(combiner: tuple[str, str, dict[str, Any], Any], dtype: np.dtype):
    op, attributes, keywords, identity_value = combiner
    rng = np.random.default_rng(1)
    text = _identity(identity_value, dtype)
    element = ELEMENTS[dtype]
    body = (
        f"(%e: tile<{element}>, %s: tile<{element}>) "
        f"{{ %n = {op} %e, %s {attributes} : tile<{element}> yield %n : tile<{element}> }}\n"
    )
    for shape, axis in (((16,), 0), ((4, 8), 0), ((4, 8), 1), ((2, 1, 4), 1)):
        x = _values(rng, shape, dtype)
        reduced = np.zeros(shape[:axis] + shape[axis + 1 :], dtype)
        kernel = (
            f"%r = reduce %x dim={axis} identities=[{text}] : {tile_of(x)} -> {tile_of(reduced)} "
            f"{body}"
            f"%u = scan %x dim={axis} reverse=false identities=[{text}] "
            f": {tile_of(x)} -> {tile_of(x)} {body}"
            f"%d = scan %x dim={axis} reverse=true identities=[{text}] "
            f": {tile_of(x)} -> {tile_of(x)} {body}"
        )
        results = {"r": reduced, "u": np.zeros_like(x), "d": np.zeros_like(x)}
        found, _, _ = run_body(kernel, {"x": x}, results)
        up = _sequential(op, keywords, x, axis, False)
        down = _sequential(op, keywords, x, axis, True)
        assert found["u"].tobytes() == up.tobytes()
        assert found["d"].tobytes() == down.tobytes()
        assert found["r"].tobytes() == np.take(up, -1, axis).tobytes()


def test_the_accumulator_comes_first():
    body = """%r = reduce %x dim=0 identities=[0 : i32] : tile<4xi32> -> tile<i32>
    (%s: tile<i32>, %e: tile<i32>) { %n = subi %s, %e : tile<i32> yield %n : tile<i32> }"""
    found, _, _ = run_body(body, {"x": np.array([1, 2, 3, 4], np.int32)}, {"r": np.int32(0)})
    assert found["r"] == ((1 - 2) - 3) - 4


def test_values_from_outside_and_constants_in_the_body():
    body = """%r = reduce %x dim=1 identities=[0 : i32] : tile<2x4xi32> -> tile<2xi32>
    (%s: tile<i32>, %e: tile<i32>) {
      %two = constant <i32: 2> : tile<i32>
      %p = muli %e, %k : tile<i32>
      %q = muli %p, %two : tile<i32>
      %n = addi %q, %s : tile<i32>
      yield %n : tile<i32>
    }
    %c = reduce %x dim=0 identities=[0 : i32] : tile<2x4xi32> -> tile<4xi32>
    (%s: tile<i32>, %e: tile<i32>) { yield %k : tile<i32> }"""
    x = np.arange(8, dtype=np.int32).reshape(2, 4)
    results = {"r": np.zeros(2, np.int32), "c": np.zeros(4, np.int32)}
    found, _, _ = run_body(body, {"x": x, "k": np.int32(5)}, results)
    assert found["r"].tolist() == [10 * (1 + 2 + 3), 4 + 10 * (5 + 6 + 7)]
    assert found["c"].tolist() == [5, 5, 5, 5]


def test_a_fault_in_a_body_stands_at_its_operation():
    from tilewright.diagnostics import Span, TileIRError

    body = """%r = reduce %x dim=0 identities=[1 : i32] : tile<4xi32> -> tile<i32>
    (%s: tile<i32>, %e: tile<i32>) {
      %n = divi %s, %e signed : tile<i32>
      yield %n : tile<i32>
    }"""
    with pytest.raises(TileIRError) as caught:
        run_body(body, {"x": np.array([1, 1, 0, 1], np.int32)}, {"r": np.int32(0)})
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "undefined-division"
    assert isinstance(diagnostic.location, Span)
    assert diagnostic.location.text.startswith("divi")


def test_tiles_inside_a_body():
    """A body that widens its scalars, and reduces again, runs lane by lane."""
    body = """%r, %u = reduce %x, %x dim=0 identities=[0 : i32, 0 : i32]
      : tile<4x2xi32>, tile<4x2xi32> -> tile<2xi32>, tile<2xi32>
    (%e: tile<i32>, %s: tile<i32>, %f: tile<i32>, %t: tile<i32>) {
      %o = reshape %e : tile<i32> -> tile<1xi32>
      %p = reshape %s : tile<i32> -> tile<1xi32>
      %b = cat %o, %p dim = 0 : tile<1xi32>, tile<1xi32> -> tile<2xi32>
      %n = reduce %b dim=0 identities=[0 : i32] : tile<2xi32> -> tile<i32>
      (%g: tile<i32>, %h: tile<i32>) { %m = addi %g, %h : tile<i32> yield %m : tile<i32> }
      %w = maxi %f, %t signed : tile<i32>
      yield %n, %w : tile<i32>, tile<i32>
    }
    %v = scan %x dim=0 reverse=true identities=[0 : i32] : tile<4x2xi32> -> tile<4x2xi32>
    (%e: tile<i32>, %s: tile<i32>) {
      %o = reshape %e : tile<i32> -> tile<1xi32>
      %q = reshape %o : tile<1xi32> -> tile<i32>
      %n = addi %q, %s : tile<i32>
      yield %n : tile<i32>
    }"""
    x = np.array([[1, 2], [3, 4], [5, 6], [-7, 8]], np.int32)
    results = {name: np.zeros(2, np.int32) for name in "ru"} | {"v": np.zeros_like(x)}
    found, _, _ = run_body(body, {"x": x}, results)
    assert found["r"].tolist() == [2, 20]
    assert found["u"].tolist() == [5, 8]
    assert found["v"].tolist() == np.cumsum(x[::-1], axis=0)[::-1].tolist()
