"""What the operations compute, by hand: the table of element operations does it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from tests.dialects.arith.support import the_op

from tilewright.dialects.arith import ArithOp
from tilewright.dialects.nv_tileaa import types as T
from tilewright.numerics.arrays import Array, dtype_of
from tilewright.numerics.semantics import ELEMENTWISE

NAN, INF = math.nan, math.inf
Values = Sequence[float]


def computed(body: str, name: str, extra: Mapping[str, str], *operands: Values) -> Array:
    """The result of the operation in ``body`` for operands of these values."""
    op = the_op(body, name, extra)
    assert isinstance(op, ArithOp)
    call = op.meaning()
    names = [T.element_name(T.element_of(v.type)) for v in op.operands]
    arrays = [
        np.array(values).astype(dtype_of("i64" if name == "index" else name))
        for values, name in zip(operands, names, strict=True)
    ]
    return ELEMENTWISE[call.name](*arrays, element=call.element, **call.keywords)


#: Operation, element type, operands, result.
PAIRS: list[tuple[str, str, Values, Values, Values]] = [
    ("arith.addi", "i8", [127, -1], [1, 1], [-128, 0]),
    ("arith.addi", "index", [2**40], [1], [2**40 + 1]),
    ("arith.subi", "i8", [-128], [1], [127]),
    ("arith.muli", "i16", [300], [300], [90000 - 65536]),
    ("arith.divsi", "i32", [7, -7], [2, 2], [3, -3]),
    ("arith.ceildivsi", "i32", [7, -7], [2, 2], [4, -3]),
    ("arith.floordivsi", "i32", [7, -7], [2, 2], [3, -4]),
    ("arith.divui", "i8", [-7], [2], [124]),
    ("arith.ceildivui", "i8", [-7], [2], [125]),
    ("arith.remsi", "i32", [7, -7, -(2**31)], [3, 3, -1], [1, -1, 0]),
    ("arith.remui", "i8", [-7], [3], [0]),
    ("arith.maxsi", "i32", [-1], [2], [2]),
    ("arith.maxui", "i32", [-1], [2], [-1]),
    ("arith.minsi", "i32", [-1], [2], [-1]),
    ("arith.minui", "i32", [-1], [2], [2]),
    ("arith.andi", "i1", [1, 1], [1, 0], [1, 0]),
    ("arith.ori", "i8", [5], [2], [7]),
    ("arith.xori", "i8", [5], [1], [4]),
    ("arith.shli", "i8", [1, 1], [7, 8], [-128, 0]),
    ("arith.shrsi", "i8", [-8, -8], [1, 9], [-4, -1]),
    ("arith.shrui", "i8", [-8, -8], [1, 9], [124, 0]),
    ("arith.maximumf", "f32", [NAN, -0.0], [1.0, 0.0], [NAN, 0.0]),
    ("arith.minimumf", "f32", [NAN, -0.0], [1.0, 0.0], [NAN, -0.0]),
    ("arith.maxnumf", "f32", [NAN, -0.0], [1.0, 0.0], [1.0, 0.0]),
    ("arith.minnumf", "f32", [NAN, 0.0], [1.0, -0.0], [1.0, -0.0]),
    ("arith.remf", "f64", [5.5, -5.5, 1.0], [2.0, 2.0, 0.0], [1.5, -1.5, NAN]),
    ("math.atan2", "f64", [1.0], [0.0], [math.pi / 2]),
    ("math.powf", "f64", [2.0, 4.0], [3.0, 0.5], [8.0, 2.0]),
]
ONES: list[tuple[str, str, Values, Values]] = [
    ("math.absi", "i8", [-128, -5], [-128, 5]),
    ("math.absf", "f32", [-0.0, -2.5], [0.0, 2.5]),
    ("arith.negf", "f16", [0.0, 1.5], [-0.0, -1.5]),
    ("math.ceil", "f32", [1.25, -0.5], [2.0, -0.0]),
    ("math.floor", "f32", [1.25, -1.25], [1.0, -2.0]),
    ("math.cos", "f64", [0.0], [1.0]),
    ("math.sin", "f64", [0.0], [0.0]),
    ("math.tan", "f64", [0.0], [0.0]),
    ("math.cosh", "f64", [0.0], [1.0]),
    ("math.sinh", "f64", [0.0], [0.0]),
    ("math.tanh", "f32", [INF], [1.0]),
    ("math.exp", "f32", [0.0, -INF], [1.0, 0.0]),
    ("math.log", "f32", [1.0, 0.0, -1.0], [0.0, -INF, NAN]),
    ("math.log2", "f32", [1024.0], [10.0]),
]
#: Operation, element types, operand, result.
CONVERSIONS: list[tuple[str, str, str, Values, Values]] = [
    ("arith.extsi", "i8", "i32", [-1], [-1]),
    ("arith.extui", "i8", "i32", [-1], [255]),
    ("arith.extsi", "i1", "i8", [1], [-1]),
    ("arith.extui", "i1", "i8", [1], [1]),
    ("arith.trunci", "i32", "i8", [258, 255], [2, -1]),
    ("arith.index_cast", "i32", "index", [-1], [-1]),
    ("arith.index_castui", "i32", "index", [-1], [2**32 - 1]),
    ("arith.index_cast", "i64", "index", [-1], [-1]),
    ("arith.index_castui", "index", "i32", [2**32 + 7], [7]),
    ("arith.bitcast", "f32", "i32", [1.0], [0x3F800000]),
    ("arith.sitofp", "i8", "f32", [-1], [-1.0]),
    ("arith.uitofp", "i8", "f32", [-1], [255.0]),
    ("arith.sitofp", "i32", "f16", [100000], [INF]),
    ("arith.fptosi", "f32", "i8", [2.75, -2.75, 1000.0, -INF, NAN], [2, -2, 127, -128, 0]),
    ("arith.fptoui", "f32", "i8", [2.75, -2.75, 1000.0, NAN], [2, 0, -1, 0]),
]


def same(found: Array, wanted: Values) -> None:
    """Equal values; NaN is equal to NaN, -0 is not to +0."""
    expected = np.array(wanted).astype(found.dtype)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)
    if np.issubdtype(found.dtype, np.floating):
        zeros = found == 0
        assert (np.signbit(found) == np.signbit(expected))[zeros].all()


@pytest.mark.parametrize(("name", "element", "lhs", "rhs", "wanted"), PAIRS)
def test_two_operands(name: str, element: str, lhs: Values, rhs: Values, wanted: Values) -> None:
    body = f"%r = {name} %v, %v : tile<4x{element}>"
    same(computed(body, name, {"v": f"tile<4x{element}>"}, lhs, rhs), wanted)


@pytest.mark.parametrize(("name", "element", "source", "wanted"), ONES)
def test_one_operand(name: str, element: str, source: Values, wanted: Values) -> None:
    same(computed(f"%r = {name} %v : {element}", name, {"v": element}, source), wanted)


@pytest.mark.parametrize(("name", "start", "end", "source", "wanted"), CONVERSIONS)
def test_conversion(name: str, start: str, end: str, source: Values, wanted: Values) -> None:
    same(computed(f"%r = {name} %v : {start} to {end}", name, {"v": start}, source), wanted)


def test_power_of_integers() -> None:
    body, extra = "%r = math.fpowi %v, %e : f32, i32", {"v": "f32", "e": "i32"}
    same(computed(body, "math.fpowi", extra, [2.0, 4.0, NAN], [10, -1, 0]), [1024.0, 0.25, 1.0])


def test_select() -> None:
    body, extra = "%r = arith.select %b, %v, %v : i8", {"b": "i1", "v": "i8"}
    same(computed(body, "arith.select", extra, [1, 0], [1, 2], [3, 4]), [1, 4])


@pytest.mark.parametrize(
    ("predicate", "wanted"),
    [
        ("eq", [0, 0, 1]),
        ("ne", [1, 1, 0]),
        ("slt", [1, 0, 0]),
        ("sle", [1, 0, 1]),
        ("sgt", [0, 1, 0]),
        ("sge", [0, 1, 1]),
        ("ult", [0, 1, 0]),
        ("ule", [0, 1, 1]),
        ("ugt", [1, 0, 0]),
        ("uge", [1, 0, 1]),
    ],
)
def test_integer_comparison(predicate: str, wanted: Values) -> None:
    body = f"%r = arith.cmpi {predicate}, %v, %v : i8"
    same(computed(body, "arith.cmpi", {"v": "i8"}, [-1, 1, 5], [1, -1, 5]), wanted)


@pytest.mark.parametrize(
    ("predicate", "wanted"),
    [
        ("oeq", [0, 0, 1, 0]),
        ("one", [1, 1, 0, 0]),
        ("olt", [1, 0, 0, 0]),
        ("ole", [1, 0, 1, 0]),
        ("ogt", [0, 1, 0, 0]),
        ("oge", [0, 1, 1, 0]),
        ("ueq", [0, 0, 1, 1]),
        ("une", [1, 1, 0, 1]),
        ("ult", [1, 0, 0, 1]),
        ("ule", [1, 0, 1, 1]),
        ("ugt", [0, 1, 0, 1]),
        ("uge", [0, 1, 1, 1]),
    ],
)
def test_float_comparison(predicate: str, wanted: Values) -> None:
    body = f"%r = arith.cmpf {predicate}, %v, %v : f32"
    operands = ([1.0, 2.0, -0.0, NAN], [2.0, 1.0, 0.0, 1.0])
    same(computed(body, "arith.cmpf", {"v": "f32"}, *operands), wanted)


@pytest.mark.parametrize(
    ("text", "keywords"),
    [
        ("arith.addi %n, %n : i32", {}),
        ("arith.addi %n, %n overflow<nsw> : i32", {"overflow": "no_signed_wrap"}),
        ("arith.muli %n, %n overflow<nuw> : i32", {"overflow": "no_unsigned_wrap"}),
        ("arith.shli %n, %n overflow<nuw, nsw> : i32", {"overflow": "no_wrap"}),
        ("math.exp %x : f32", {}),
        ("math.exp %x {rounding_mode = approx} : f32", {"rounding": "approx"}),
        ("arith.maxnumf %x, %x {flush_to_zero} : f32", {"flush_to_zero": True}),
        ("arith.maxnumf %x, %x {flush_to_zero = false} : f32", {}),
        (
            "arith.maximumf %x, %x {flush_to_zero = true} : f32",
            {"propagate_nan": True, "flush_to_zero": True},
        ),
    ],
)
def test_properties_become_keywords(text: str, keywords: dict[str, object]) -> None:
    op = the_op(f"%r = {text}", text.partition(" ")[0])
    assert isinstance(op, ArithOp)
    assert op.meaning().keywords == keywords
