"""Every operation, executed by a small kernel whose answer was worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.machine.kernels import checked, kernel_text, run_body

from tilewright.dialects.cuda_tile.base import OPERATIONS, TileOp
from tilewright.machine.compile import IMPLEMENTATIONS, REFUSED

INF, NAN = np.inf, np.nan
PI = np.float32(np.pi)


def i1(*values: int) -> np.ndarray:
    return np.array(values, np.bool_)


def i8(*values: Any) -> np.ndarray:
    return np.array(values, np.int8)


def i16(*values: Any) -> np.ndarray:
    return np.array(values, np.int16)


def i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def i64(*values: Any) -> np.ndarray:
    return np.array(values, np.int64)


def f16(*values: Any) -> np.ndarray:
    return np.array(values, np.float16)


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def f64(*values: Any) -> np.ndarray:
    return np.array(values, np.float64)


@dataclass(frozen=True)
class Case:
    """A kernel body, its inputs, and what its results must hold, bit for bit."""

    op: str
    body: str
    inputs: dict[str, Any]
    expected: dict[str, Any]
    globals: str = ""
    grid: tuple[int, ...] = (1,)
    text: str = ""
    options: dict[str, Any] = field(default_factory=dict)


def unary(op: str, a: np.ndarray, r: np.ndarray, flags: str = "", both: bool = False) -> Case:
    """One operand; ``both``: the syntax shows the types of operand and result."""
    source = "".join(f"{e}x" for e in a.shape) + ELEMENT[a.dtype]
    result = "".join(f"{e}x" for e in r.shape) + ELEMENT[r.dtype]
    types = f"tile<{source}> -> tile<{result}>" if both else f"tile<{result}>"
    return Case(op, f"%r = {op} %a {flags} : {types}", {"a": a}, {"r": r})


def binary(op: str, a: np.ndarray, b: np.ndarray, r: np.ndarray, flags: str = "") -> Case:
    ty = f"tile<{a.size}x{ELEMENT[a.dtype]}>"
    return Case(op, f"%r = {op} %a, %b {flags} : {ty}", {"a": a, "b": b}, {"r": r})


ELEMENT = {
    np.dtype(np.bool_): "i1",
    np.dtype(np.int8): "i8",
    np.dtype(np.int16): "i16",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
    np.dtype(np.float16): "f16",
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
}

LOWEST = np.iinfo(np.int32).min

INTEGERS = [
    unary("absi", i32(-3, 0, 5, LOWEST), i32(3, 0, 5, LOWEST)),
    unary("negi", i32(-3, 0, 5, LOWEST), i32(3, 0, -5, LOWEST)),
    binary("addi", i8(100, -1), i8(100, 1), i8(-56, 0)),
    binary("subi", i8(-100, 5), i8(100, 7), i8(56, -2)),
    binary("muli", i16(300, -7), i16(300, 3), i16(24464, -21)),
    binary("mulhii", i32(-1, 1 << 16), i32(-1, 1 << 17), i32(-2, 2)),
    binary("divi", i32(-7, 7), i32(2, 2), i32(-3, 3), "signed"),
    binary("divi", i32(-7, 7), i32(2, 2), i32(-4, 3), "signed rounding<negative_inf>"),
    binary("divi", i8(-1, 7), i8(2, 2), i8(127, 3), "unsigned"),
    binary("remi", i32(-7, 7), i32(3, -3), i32(-1, 1), "signed"),
    binary("maxi", i8(-1, 3), i8(1, 2), i8(-1, 3), "unsigned"),
    binary("mini", i8(-1, 3), i8(1, 2), i8(-1, 2), "signed"),
    binary("andi", i8(0b1100, -1), i8(0b1010, 7), i8(0b1000, 7)),
    binary("ori", i8(0b1100, 0), i8(0b1010, 7), i8(0b1110, 7)),
    binary("xori", i1(1, 1), i1(0, 1), i1(1, 0)),
    binary("shli", i8(1, 3), i8(7, 1), i8(-128, 6)),
    binary("shri", i8(-128, 6), i8(7, 1), i8(-1, 3), "signed"),
    binary("shri", i8(-128, 6), i8(7, 1), i8(1, 3), "unsigned"),
    Case(
        "cmpi",
        "%r = cmpi less_than %a, %b, unsigned : tile<2xi32> -> tile<2xi1>",
        {"a": i32(-1, 1), "b": i32(1, 2)},
        {"r": i1(0, 1)},
    ),
]

FLOATS = [
    unary("absf", f32(-1.5, -0.0), f32(1.5, 0.0)),
    unary("negf", f32(-1.5, 0.0), f32(1.5, -0.0)),
    unary("ceil", f32(-0.5, 1.2), f32(-0.0, 2)),
    unary("floor", f32(-0.5, 1.8), f32(-1, 1)),
    unary("sqrt", f64(2.25, -0.0), f64(1.5, -0.0)),
    unary("rsqrt", f32(4, 0.0), f32(0.5, INF)),
    unary("exp", f32(0, -INF), f32(1, 0)),
    unary("exp2", f32(3, -1), f32(8, 0.5)),
    unary("log", f32(1, 0), f32(0, -INF)),
    unary("log2", f32(8, 0.25), f32(3, -2)),
    unary("sin", f32(0, -0.0), f32(0, -0.0)),
    unary("cos", f32(0, -0.0), f32(1, 1)),
    unary("tan", f32(0, -0.0), f32(0, -0.0)),
    unary("sinh", f32(0, -INF), f32(0, -INF)),
    unary("cosh", f32(0, -INF), f32(1, INF)),
    unary("tanh", f32(0, -INF), f32(0, -1)),
    binary("addf", f32(1, INF), f32(2.0**-24, 1), f32(1, INF)),
    binary("addf", f32(1, 1), f32(2.0**-24, 1), f32(1 + 2.0**-23, 2), "rounding<positive_inf>"),
    binary("subf", f16(1, 2), f16(0.5, 3), f16(0.5, -1)),
    binary("mulf", f32(1.5, 2.0**-100), f32(-2, 2.0**-40), f32(-3, 0), "flush_to_zero"),
    binary("divf", f32(1, -1), f32(4, 0), f32(0.25, -INF)),
    binary("remf", f32(-7, 5.5), f32(3, 2), f32(-1, 1.5)),
    binary("maxf", f32(NAN, -0.0), f32(1, 0.0), f32(1, 0.0)),
    binary("minf", f32(2, -0.0), f32(1, 0.0), f32(1, -0.0)),
    binary("fpowf", f32(2, 9), f32(10, 0.5), f32(1024, 3)),
    binary("atan2", f32(0, 1), f32(-1, 0), f32(PI, PI / 2)),
    Case(
        "fpowi",
        "%r = fpowi %a, %b : tile<2xf32>, tile<2xi32>",
        {"a": f32(2, -3), "b": i32(-2, 3)},
        {"r": f32(0.25, -27)},
    ),
    Case(
        "fma",
        "%r = fma %a, %b, %c : tile<2xf32>",
        {"a": f32(1 + 2.0**-12, 2), "b": f32(1 - 2.0**-12, 3), "c": f32(-1, 4)},
        {"r": f32(-(2.0**-24), 10)},
    ),
    Case(
        "cmpf",
        "%r = cmpf not_equal ordered %a, %b : tile<4xf32> -> tile<4xi1>",
        {"a": f32(1, NAN, -0.0, 2), "b": f32(2, 1, 0.0, 2)},
        {"r": i1(1, 0, 0, 0)},
    ),
]

CONVERSIONS = [
    unary("bitcast", f32(1, -0.0), i32(0x3F800000, LOWEST), both=True),
    unary("exti", i8(-1, 5), i32(255, 5), "unsigned", both=True),
    unary("exti", i1(1, 0), i32(-1, 0), "signed", both=True),
    unary("trunci", i32(511, 256), i8(-1, 0), both=True),
    unary("ftof", f32(65520, 1 + 2.0**-11), f16(INF, 1), both=True),
    unary("ftoi", f32(-2.9, 300), i8(-2, 127), "signed", both=True),
    unary("itof", i32(-1, 2**24 + 1), f32(-1, 2**24), "signed", both=True),
    Case(
        "ptr_to_int",
        "%n = ptr_to_int %ptr_a : tile<ptr<i32>> -> tile<i64>\n"
        "%four = constant <i64: 4> : tile<i64>\n"
        "%m = addi %n, %four : tile<i64>\n"
        "%p = int_to_ptr %m : tile<i64> -> tile<ptr<i32>>\n"
        "%q = ptr_to_ptr %p : tile<ptr<i32>> -> tile<ptr<i16>>\n"
        "%r, %t = load_ptr_tko weak %q : tile<ptr<i16>> -> tile<i16>, token",
        {"a": i32(1, 0x00020003)},
        {"r": np.int16(3)},
    ),
]

CORE = [
    Case(
        "broadcast",
        "%c = reshape %a : tile<2xi32> -> tile<2x1xi32>\n"
        "%r = broadcast %c : tile<2x1xi32> -> tile<2x2xi32>",
        {"a": i32(1, 2)},
        {"r": i32([1, 1], [2, 2])},
    ),
    Case(
        "cat",
        "%r = cat %a, %b dim = 1 : tile<2x1xi32>, tile<2x1xi32> -> tile<2x2xi32>",
        {"a": i32([1], [2]), "b": i32([3], [4])},
        {"r": i32([1, 3], [2, 4])},
    ),
    Case(
        "constant",
        "%r = constant <i16: [[1, -2], [3, 4]]> : tile<2x2xi16>\n"
        "%s = constant <f64: 0.1> : tile<2xf64>",
        {},
        {"r": i16([1, -2], [3, 4]), "s": f64(0.1, 0.1)},
    ),
    Case(
        "extract",
        "%one = constant <i32: 1> : tile<i32>\n"
        "%r = extract %a[%one, %zero] : tile<4x2xi32> -> tile<2x1xi32>",
        {"a": np.arange(8, dtype=np.int32).reshape(4, 2)},
        {"r": i32([4], [6])},
    ),
    Case(
        "insert",
        "%one = constant <i32: 1> : tile<i32>\n"
        "%r = insert %b, %a[%zero, %one] : tile<2x1xi32>, tile<2x2xi32>",
        {"a": i32([1, 2], [3, 4]), "b": i32([8], [9])},
        {"r": i32([1, 8], [3, 9])},
    ),
    Case(
        "get_global",
        "%p = get_global @table : tile<ptr<i16>>\n"
        "%i = iota : tile<4xi32>\n"
        "%o = reshape %p : tile<ptr<i16>> -> tile<1xptr<i16>>\n"
        "%b = broadcast %o : tile<1xptr<i16>> -> tile<4xptr<i16>>\n"
        "%q = offset %b, %i : tile<4xptr<i16>>, tile<4xi32> -> tile<4xptr<i16>>\n"
        "%r, %t = load_ptr_tko weak %q : tile<4xptr<i16>> -> tile<4xi16>, token",
        {},
        {"r": i16(5, 6, -7, 8)},
        globals="global @table <i16: [5, 6, -7, 8]> : tile<4xi16>",
    ),
    Case(
        "get_tile_block_id",
        "%x, %y, %z = get_tile_block_id : tile<i32>\n"
        "%nx, %ny, %nz = get_num_tile_blocks : tile<i32>\n"
        "%l = muli %y, %nx : tile<i32>\n"
        "%b = addi %l, %x : tile<i32>\n"
        "%p = offset %ptr_r, %b : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
        "%t = store_ptr_tko weak %p, %b : tile<ptr<i32>>, tile<i32> -> token\n"
        "%q = offset %ptr_n, %b : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
        "%s = addi %ny, %nz : tile<i32>\n"
        "%u = store_ptr_tko weak %q, %s : tile<ptr<i32>>, tile<i32> -> token",
        {},
        {"r": i32(0, 1, 2, 3, 4, 5), "n": i32(3, 3, 3, 3, 3, 3)},
        grid=(3, 2),
    ),
    Case("iota", "%r = iota : tile<4xi64>", {}, {"r": i64(0, 1, 2, 3)}),
    Case(
        "pack",
        "%r = pack %a : tile<2xi32> -> tile<8xi8>\n"
        "%s = unpack %r : tile<8xi8> -> tile<4xi16>\n"
        "%n = unpack %r : tile<8xi8> -> tile<16xi4>\n"
        "%w = exti %n unsigned : tile<16xi4> -> tile<16xi8>\n"
        "%q = trunci %w : tile<16xi8> -> tile<16xi4>\n"
        "%p = pack %q : tile<16xi4> -> tile<8xi8>",
        {"a": i32(0x04030201, -2)},
        {
            "r": i8(1, 2, 3, 4, -2, -1, -1, -1),
            "s": i16(0x0201, 0x0403, -2, -1),
            "w": i8(1, 0, 2, 0, 3, 0, 4, 0, 14, 15, 15, 15, 15, 15, 15, 15),
            "p": i8(1, 2, 3, 4, -2, -1, -1, -1),
        },
    ),
    Case(
        "unpack",
        "%b = unpack %a : tile<1xi8> -> tile<8xi1>\n"
        "%r = exti %b unsigned : tile<8xi1> -> tile<8xi8>\n"
        "%s = pack %b : tile<8xi1> -> tile<1xi8>",
        {"a": i8(0b00000101)},
        {"r": i8(1, 0, 1, 0, 0, 0, 0, 0), "s": i8(5)},
    ),
    Case(
        "permute",
        "%r = permute %a [1, 0] : tile<2x4xi32> -> tile<4x2xi32>",
        {"a": np.arange(8, dtype=np.int32).reshape(2, 4)},
        {"r": i32([0, 4], [1, 5], [2, 6], [3, 7])},
    ),
    Case(
        "select",
        "%r = select %c, %a, %b : tile<2xi1>, tile<2xf32>",
        {"c": i1(1, 0), "a": f32(1, 2), "b": f32(3, NAN)},
        {"r": f32(1, NAN)},
    ),
    Case(
        "assume",
        "%r = assume div_by<4>, %a : tile<2xi32>",
        {"a": i32(4, 8)},
        {"r": i32(4, 8)},
    ),
]

ADD_BODY = "(%e: tile<{0}>, %s: tile<{0}>) {{ %n = {1} %e, %s : tile<{0}> yield %n : tile<{0}> }}"

REDUCTIONS = [
    Case(
        "reduce",
        "%r = reduce %a dim=1 identities=[0 : i32] : tile<2x4xi32> -> tile<2xi32>"
        + ADD_BODY.format("i32", "addi"),
        {"a": i32([1, 2, 3, 4], [5, 6, 7, 8])},
        {"r": i32(10, 26)},
    ),
    Case(
        # Ascending order: each 1 is lost on 2**24 before it is taken away again.
        "reduce",
        "%r = reduce %a dim=0 identities=[0.0 : f32] : tile<4xf32> -> tile<f32>"
        + ADD_BODY.format("f32", "addf"),
        {"a": f32(2.0**24, 1, 1, -(2.0**24))},
        {"r": np.float32(0)},
    ),
    Case(
        "reduce",
        # The largest element and its position: a body of several operations on two operands.
        """%i = iota : tile<4xi32>
        %r, %p = reduce %a, %i dim=0 identities=[0xFF800000 : f32, 0 : i32]
          : tile<4xf32>, tile<4xi32> -> tile<f32>, tile<i32>
        (%s: tile<f32>, %e: tile<f32>, %k: tile<i32>, %j: tile<i32>) {
          %c = cmpf greater_than ordered %e, %s : tile<f32> -> tile<i1>
          %v = select %c, %e, %s : tile<i1>, tile<f32>
          %w = select %c, %j, %k : tile<i1>, tile<i32>
          yield %v, %w : tile<f32>, tile<i32>
        }""",
        {"a": f32(1, 7, -2, 7)},
        {"r": np.float32(7), "p": np.int32(1)},
    ),
    Case(
        # A condition inside the body: lane by lane. No lane asks it of its first element.
        "reduce",
        """%limit = constant <i32: 10> : tile<i32>
        %r = reduce %a dim=0 identities=[0 : i32] : tile<4x2xi32> -> tile<2xi32>
        (%s: tile<i32>, %e: tile<i32>) {
          %c = cmpi less_than %e, %limit, signed : tile<i32> -> tile<i1>
          %n = if %c -> (tile<i32>) {
            %t = addi %e, %s : tile<i32>
            yield %t : tile<i32>
          } else {
            yield %s : tile<i32>
          }
          yield %n : tile<i32>
        }""",
        {"a": i32([1, 20], [2, 2], [30, 3], [4, 4])},
        {"r": i32(7, 29)},
    ),
    Case(
        # A division in a branch: a lane that does not take it must not fault.
        "reduce",
        """%none = constant <i32: 0> : tile<i32>
        %r = reduce %a dim=0 identities=[0 : i32] : tile<4x2xi32> -> tile<2xi32>
        (%s: tile<i32>, %e: tile<i32>) {
          %c = cmpi not_equal %e, %none, signed : tile<i32> -> tile<i1>
          %n = if %c -> (tile<i32>) {
            %one = divi %e, %e signed : tile<i32>
            %rest = remi %e, %e signed : tile<i32>
            %t = muli %e, %one : tile<i32>
            %u = addi %t, %rest : tile<i32>
            %v = addi %u, %s : tile<i32>
            yield %v : tile<i32>
          } else {
            yield %s : tile<i32>
          }
          yield %n : tile<i32>
        }""",
        {"a": i32([0, 7], [2, 0], [0, 0], [-8, 60])},
        {"r": i32(-6, 67)},
    ),
    Case(
        "scan",
        "%r = scan %a dim=0 reverse=false identities=[1 : i32] : tile<4xi32> -> tile<4xi32>"
        + ADD_BODY.format("i32", "muli")
        + "\n%q = scan %a dim=0 reverse=true identities=[0 : i32] : tile<4xi32> -> tile<4xi32>"
        + ADD_BODY.format("i32", "addi")
        + "\n%m = scan %b dim=1 reverse=false identities=[0xFF800000 : f32] "
        ": tile<2x2xf32> -> tile<2x2xf32>" + ADD_BODY.format("f32", "maxf"),
        {"a": i32(1, 2, 3, 4), "b": f32([3, 1], [1, 2])},
        {"r": i32(1, 2, 6, 24), "q": i32(10, 9, 7, 4), "m": f32([3, 3], [1, 2])},
    ),
]

MATRICES = [
    Case(
        "mmaf",
        "%r = mmaf %a, %b, %c : tile<2x2xf16>, tile<2x2xf16>, tile<2x2xf32>",
        {"a": f16([1, 2], [3, 4]), "b": f16([5, 6], [7, 8]), "c": f32([1, 0], [0, -1])},
        {"r": f32([20, 22], [43, 49])},
    ),
    Case(
        "mmai",
        "%r = mmai %a, %b, %c signed unsigned : tile<1x2xi8>, tile<2x1xi8>, tile<1x1xi32>",
        {"a": i8([-1, 2]), "b": i8([-1], [3]), "c": i32([100])},
        {"r": i32([-255 + 6 + 100])},
    ),
    Case(
        "mmaf_scaled",
        "%k = bitcast %s : tile<1x1xi8> -> tile<1x1xf8E8M0FNU>\n"
        "%l = bitcast %a : tile<1x32xi8> -> tile<1x32xf8E4M3FN>\n"
        "%m = bitcast %b : tile<32x1xi8> -> tile<32x1xf8E4M3FN>\n"
        "%r = mmaf_scaled %l, %m, %c, %k, %k : tile<1x32xf8E4M3FN>, tile<32x1xf8E4M3FN>, "
        "tile<1x1xf32>, tile<1x1xf8E8M0FNU>, tile<1x1xf8E8M0FNU>",
        # 0x38 is 1.0 in f8E4M3FN, 128 stands for 2.0 in f8E8M0FNU.
        {
            "a": np.full((1, 32), 0x38, np.int8),
            "b": np.full((32, 1), 0x38, np.int8),
            "s": np.array([[128]], np.uint8).view(np.int8),
            "c": f32([1]),
        },
        {"r": f32([32 * 4 + 1])},
    ),
]

CONTROL = [
    Case(
        "if",
        """%c = cmpi less_than %a, %b, signed : tile<i32> -> tile<i1>
        %r = if %c -> (tile<i32>) { yield %a : tile<i32> } else { yield %b : tile<i32> }
        if %c {
          %t = store_ptr_tko weak %ptr_s, %b : tile<ptr<i32>>, tile<i32> -> token
        }""",
        {"a": np.int32(-1), "b": np.int32(4)},
        {"r": np.int32(-1), "s": np.int32(4)},
    ),
    Case(
        "for",
        """%one = constant <i32: 1> : tile<i32>
        %ten = constant <i32: 10> : tile<i32>
        %three = constant <i32: 3> : tile<i32>
        %r, %s = for %i in (%one to %ten, step %three) : tile<i32>
            iter_values(%x = %zero, %y = %one) -> (tile<i32>, tile<i32>) {
          %n = addi %x, %i : tile<i32>
          continue %y, %n : tile<i32>, tile<i32>
        }
        %q = for %i in (%ten to %one, step %three) : tile<i32>
            iter_values(%x = %three) -> (tile<i32>) { continue %i : tile<i32> }""",
        {},
        # (x, y): (0, 1), (1, 1), (1, 5), (5, 8) for i = 1, 4, 7
        {"r": np.int32(5), "s": np.int32(8), "q": np.int32(3)},
    ),
    Case(
        "for",
        """%lo = constant <i8: 126> : tile<i8>
        %hi = constant <i8: -126> : tile<i8>
        %one = constant <i8: 1> : tile<i8>
        %r = for unsigned %i in (%lo to %hi, step %one) : tile<i8>
            iter_values(%x = %zero) -> (tile<i32>) {
          %w = exti %i unsigned : tile<i8> -> tile<i32>
          %n = addi %x, %w : tile<i32>
          continue %n : tile<i32>
        }""",
        {},
        {"r": np.int32(126 + 127 + 128 + 129)},
    ),
    Case(
        "for",
        """%lo = constant <i64: 9223372036854775806> : tile<i64>
        %hi = constant <i64: -9223372036854775806> : tile<i64>
        %three = constant <i64: 3> : tile<i64>
        %one = constant <i32: 1> : tile<i32>
        %r, %s = for unsigned %i in (%lo to %hi, step %three) : tile<i64>
            iter_values(%x = %zero, %y = %zero) -> (tile<i32>, tile<i32>) {
          %w = trunci %i : tile<i64> -> tile<i32>
          %n = addi %x, %w : tile<i32>
          %m = addi %y, %one : tile<i32>
          continue %n, %m : tile<i32>, tile<i32>
        }
        %q = for unsigned %i in (%hi to %lo, step %three) : tile<i64>
            iter_values(%x = %one) -> (tile<i32>) { continue %zero : tile<i32> }""",
        {},
        # 2**63 - 2 and 2**63 + 1, of which the lower 32 bits are -2 and 1
        {"r": np.int32(-1), "s": np.int32(2), "q": np.int32(1)},
    ),
    Case(
        "loop",
        """%one = constant <i32: 1> : tile<i32>
        %seven = constant <i32: 7> : tile<i32>
        %r, %s = loop iter_values(%i = %zero, %x = %zero)
            : tile<i32>, tile<i32> -> tile<i32>, tile<i32> {
          %n = addi %i, %one : tile<i32>
          %c = cmpi equal %n, %seven, signed : tile<i32> -> tile<i1>
          if %c { break %n, %x : tile<i32>, tile<i32> }
          %low = andi %n, %one : tile<i32>
          %odd = cmpi equal %low, %one, signed : tile<i32> -> tile<i1>
          if %odd { continue %n, %x : tile<i32>, tile<i32> }
          %y = addi %x, %n : tile<i32>
          continue %n, %y : tile<i32>, tile<i32>
        }""",
        {},
        {"r": np.int32(7), "s": np.int32(2 + 4 + 6)},
    ),
    Case(
        "return",
        """%x, %y, %z = get_tile_block_id : tile<i32>
        %c = cmpi equal %x, %zero, signed : tile<i32> -> tile<i1>
        %p = offset %ptr_r, %x : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
        if %c { return }
        %t = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token""",
        {},
        {"r": i32(0, 1, 2)},
        grid=(3,),
    ),
]

POINTERS = """%i = iota : tile<4xi32>
    %o = reshape %ptr_a : tile<ptr<i32>> -> tile<1xptr<i32>>
    %b = broadcast %o : tile<1xptr<i32>> -> tile<4xptr<i32>>
    %p = offset %b, %i : tile<4xptr<i32>>, tile<4xi32> -> tile<4xptr<i32>>
    """

MEMORY = [
    Case(
        "load_ptr_tko",
        POINTERS
        + """%m = constant <i1: [true, false, true, false]> : tile<4xi1>
        %w = constant <i32: -1> : tile<4xi32>
        %k = make_token : token
        %r, %t = load_ptr_tko relaxed device %p, %m, %w token=%k
          : tile<4xptr<i32>>, tile<4xi1>, tile<4xi32> -> tile<4xi32>, token
        %s, %u = load_ptr_tko weak %p, %m
          : tile<4xptr<i32>>, tile<4xi1> -> tile<4xi32>, token
        %j = join_tokens %t, %u : token
        """,
        {"a": i32(1, 2, 3, 4)},
        {"r": i32(1, -1, 3, -1), "s": i32(1, 0, 3, 0)},
    ),
    Case(
        "store_ptr_tko",
        POINTERS.replace("%ptr_a", "%ptr_r")
        + """%m = constant <i1: [true, false, true, false]> : tile<4xi1>
        %t = store_ptr_tko release sys %p, %i, %m
          : tile<4xptr<i32>>, tile<4xi32>, tile<4xi1> -> token
        """,
        {"a": i32(1, 2, 3, 4)},
        {"r": i32(0, 77, 2, 77)},
        options={"start": {"r": i32(77, 77, 77, 77)}},
    ),
    Case(
        "alloca",
        """%p = alloca num_elem = 4, alignment = 16 : tile<ptr<i32>>
        %one = constant <i32: 1> : tile<i32>
        %three = constant <i32: 3> : tile<i32>
        %q = offset %p, %three : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
        %t = store_ptr_tko weak %q, %a : tile<ptr<i32>>, tile<i32> -> token
        %r, %u = load_ptr_tko weak %q token=%t : tile<ptr<i32>> -> tile<i32>, token
        %n = ptr_to_int %p : tile<ptr<i32>> -> tile<i64>
        %l = for %i in (%zero to %three, step %one) : tile<i32>
            iter_values(%x = %n) -> (tile<i64>) {
          %h = alloca num_elem = 1, alignment = 4 global : tile<ptr<i32>>
          %v = store_ptr_tko weak %h, %i : tile<ptr<i32>>, tile<i32> -> token
          %m = ptr_to_int %h : tile<ptr<i32>> -> tile<i64>
          continue %m : tile<i64>
        }
        %s = cmpi not_equal %l, %n, signed : tile<i64> -> tile<i1>""",
        {"a": np.int32(9)},
        {"r": np.int32(9), "s": np.bool_(True)},
    ),
    Case(
        "gdc_wait_tko",
        """%k = make_token : token
        %t = gdc_wait_tko token=%k -> token
        %u = gdc_launch_dependents_tko token=%t -> token
        %v = memory_fence_alias_tko %u
        %r, %w = load_ptr_tko weak %ptr_a token=%v : tile<ptr<i32>> -> tile<i32>, token""",
        {"a": np.int32(5)},
        {"r": np.int32(5)},
    ),
]


def _atomic(mode: str, start: Any, arg: Any, left: Any) -> Case:
    element = ELEMENT[np.asarray(start).dtype]
    return Case(
        "atomic_rmw_tko",
        f"%r, %t = atomic_rmw_tko acq_rel device %ptr_m, {mode}, %x "
        f": tile<ptr<{element}>>, tile<{element}> -> tile<{element}>, token",
        {"x": arg},
        {"r": start, "m": left},
        options={"start": {"m": start}},
    )


ATOMICS = [
    _atomic("add", np.int32(7), np.int32(-9), np.int32(-2)),
    _atomic("and", np.int32(6), np.int32(3), np.int32(2)),
    _atomic("or", np.int64(6), np.int64(3), np.int64(7)),
    _atomic("xor", np.int32(6), np.int32(3), np.int32(5)),
    _atomic("max", np.int32(-6), np.int32(3), np.int32(3)),
    _atomic("umax", np.int32(-6), np.int32(3), np.int32(-6)),
    _atomic("min", np.int32(-6), np.int32(3), np.int32(-6)),
    _atomic("umin", np.int32(-6), np.int32(3), np.int32(3)),
    _atomic("addf", np.float16(1.5), np.float16(2), np.float16(3.5)),
    _atomic("xchg", np.float32(1.5), np.float32(2), np.float32(2)),
    Case(
        # All lanes but the third on one address: each sees what the one before it left.
        "atomic_rmw_tko",
        """%o = reshape %ptr_m : tile<ptr<i32>> -> tile<1xptr<i32>>
        %p = broadcast %o : tile<1xptr<i32>> -> tile<4xptr<i32>>
        %k = constant <i1: [true, true, false, true]> : tile<4xi1>
        %r, %t = atomic_rmw_tko relaxed device %p, add, %x, %k
          : tile<4xptr<i32>>, tile<4xi32>, tile<4xi1> -> tile<4xi32>, token""",
        {"x": i32(1, 10, 100, 1000)},
        {"r": i32(0, 1, 0, 11), "m": np.int32(1011)},
        options={"start": {"m": np.int32(0)}},
    ),
    Case(
        # Bit for bit: -0.0 is not 0.0.
        "atomic_cas_tko",
        """%i = iota : tile<2xi32>
        %o = reshape %ptr_m : tile<ptr<f32>> -> tile<1xptr<f32>>
        %b = broadcast %o : tile<1xptr<f32>> -> tile<2xptr<f32>>
        %p = offset %b, %i : tile<2xptr<f32>>, tile<2xi32> -> tile<2xptr<f32>>
        %r, %t = atomic_cas_tko acquire sys %p, %c, %v : tile<2xptr<f32>>, tile<2xf32>
          -> tile<2xf32>, token""",
        {"c": f32(0.0, 2.0), "v": f32(5, 6)},
        {"r": f32(-0.0, 2.0), "m": f32(-0.0, 6)},
        options={"start": {"m": f32(-0.0, 2.0)}},
    ),
    Case(
        "atomic_red_view_tko",
        """%one = constant <i32: 1> : tile<i32>
        %v = make_tensor_view %ptr_m, shape = [3], strides = [1] : tensor_view<3xi32, strides=[1]>
        %p = make_partition_view %v : partition_view<tile=(2), tensor_view<3xi32, strides=[1]>>
        %t = atomic_red_view_tko relaxed device %p[%one], add, %x
          : tile<2xi32>, partition_view<tile=(2), tensor_view<3xi32, strides=[1]>>, tile<i32>
          -> token""",
        {"x": i32(10, 20)},
        {"m": i32(1, 2, 13, 4)},
        options={"start": {"m": i32(1, 2, 3, 4)}},
    ),
]

T = "tensor_view<?x?xi32, strides=[?,1]>"
MAKE_VIEW = f"""%rows = constant <i32: 3> : tile<i32>
    %columns = constant <i32: 5> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %v = make_tensor_view %ptr_a, shape = [%rows, %columns], strides = [%columns, 1]
      : tile<i32> -> {T}
    """
MATRIX = np.arange(15, dtype=np.int32).reshape(3, 5)
PARTITION = f"partition_view<tile=(2x4), padding_value = zero, {T}>"
MAPPED = f"partition_view<tile=(4x2), padding_value = zero, {T}, dim_map=[1, 0]>"
STRIDED = f"strided_view<tile=(2x2), traversal_strides=[1,3], padding_value = zero, {T}>"
GATHER = f"gather_scatter_view<tile=(4x2), padding_value = zero, {T}, sparse_dim=0>"

VIEWS = [
    Case(
        "make_partition_view",
        MAKE_VIEW
        + f"""%p = make_partition_view %v : {PARTITION}
        %r, %t = load_view_tko weak %p[%one, %one] : {PARTITION}, tile<i32> -> tile<2x4xi32>, token
        %q = make_partition_view %v : {MAPPED}
        %s, %u = load_view_tko weak %q[%zero, %one] : {MAPPED}, tile<i32> -> tile<4x2xi32>, token
        %m, %n = get_index_space_shape %p : {PARTITION} -> tile<i32>
        %h, %w = get_tensor_shape %v : {T} -> tile<i64>""",
        {"a": MATRIX},
        {
            "r": i32([14, 0, 0, 0], [0, 0, 0, 0]),
            "s": i32([10, 0], [11, 0], [12, 0], [13, 0]),
            "m": np.int32(2),
            "n": np.int32(2),
            "h": np.int64(3),
            "w": np.int64(5),
        },
    ),
    Case(
        "make_strided_view",
        MAKE_VIEW
        + f"""%p = make_strided_view %v : {STRIDED}
        %r, %t = load_view_tko weak %p[%two, %one] : {STRIDED}, tile<i32> -> tile<2x2xi32>, token
        %m, %n = get_index_space_shape %p : {STRIDED} -> tile<i32>""",
        {"a": MATRIX},
        {"r": i32([13, 14], [0, 0]), "m": np.int32(3), "n": np.int32(2)},
    ),
    Case(
        "make_gather_scatter_view",
        MAKE_VIEW
        + f"""%p = make_gather_scatter_view %v : {GATHER}
        %i = constant <i32: [2, 0, -1, 2]> : tile<4xi32>
        %four = constant <i32: 4> : tile<i32>
        %r, %t = load_view_tko weak %p[%i, %four]
          : {GATHER}, tile<4xi32>, tile<i32> -> tile<4x2xi32>, token""",
        {"a": MATRIX},
        {"r": i32([14, 0], [4, 0], [0, 0], [14, 0])},
    ),
    Case(
        "store_view_tko",
        MAKE_VIEW.replace("%ptr_a", "%ptr_m")
        + f"""%p = make_partition_view %v : {PARTITION}
        %x = constant <i32: [[1, 2, 3, 4], [5, 6, 7, 8]]> : tile<2x4xi32>
        %t = store_view_tko weak %x, %p[%one, %zero] inbounds = [false, true]
          : tile<2x4xi32>, {PARTITION}, tile<i32> -> token
        %g = make_gather_scatter_view %v : {GATHER}
        %i = constant <i32: [1, 9, 0, -3]> : tile<4xi32>
        %y = constant <i32: [[-1, -2], [-3, -4], [-5, -6], [-7, -8]]> : tile<4x2xi32>
        %u = store_view_tko weak %y, %g[%i, %two] token=%t
          : tile<4x2xi32>, {GATHER}, tile<4xi32>, tile<i32> -> token""",
        {},
        {"m": i32([0, 0, -5, -6, 0], [0, 0, -1, -2, 0], [1, 2, 3, 4, 0])},
        options={"start": {"m": np.zeros((3, 5), np.int32)}},
    ),
    Case(
        # Elements 1 and 2 of three: the high half of the first byte and the low half of the second.
        "load_view_tko",
        """%e = constant <i64: 4> : tile<i64>
        %b = ptr_to_ptr %ptr_a : tile<ptr<i8>> -> tile<ptr<f4E2M1FN>>
        %v = make_tensor_view %b, shape = [%e], strides = [1]
          : tile<i64> -> tensor_view<?xf4E2M1FN, strides=[1]>
        %p = make_strided_view %v : strided_view<tile=(4), traversal_strides=[1],
          padding_value = zero, tensor_view<?xf4E2M1FN, strides=[1]>>
        %one = constant <i32: 1> : tile<i32>
        %x, %t = load_view_tko weak %p[%one] : strided_view<tile=(4), traversal_strides=[1],
          padding_value = zero, tensor_view<?xf4E2M1FN, strides=[1]>>, tile<i32>
          -> tile<4xf4E2M1FN>, token
        %r = ftof %x : tile<4xf4E2M1FN> -> tile<4xf32>
        %c = ptr_to_ptr %ptr_m : tile<ptr<i8>> -> tile<ptr<f4E2M1FN>>
        %w = make_tensor_view %c, shape = [%e], strides = [1]
          : tile<i64> -> tensor_view<?xf4E2M1FN, strides=[1]>
        %q = make_strided_view %w : strided_view<tile=(4), traversal_strides=[1],
          padding_value = zero, tensor_view<?xf4E2M1FN, strides=[1]>>
        %u = store_view_tko weak %x, %q[%one] : tile<4xf4E2M1FN>,
          strided_view<tile=(4), traversal_strides=[1], padding_value = zero,
          tensor_view<?xf4E2M1FN, strides=[1]>>, tile<i32> -> token""",
        {"a": i8(0x31, 0x75)},
        {"r": f32(1.5, 3, 6, 0), "m": i8(0x3F, 0x75)},
        options={"start": {"m": i8(0x1F, 0)}},
    ),
]

MULTICAST_VIEW = (
    "partition_view<tile=(2), padding_value = zero, tensor_view<3xi32, strides=[1], <multicast>>>"
)

MULTIMEM = [
    Case(
        # The machine has one replica of multicast memory.
        "multimem_load_reduce_view_tko",
        f"""%one = constant <i32: 1> : tile<i32>
        %c = ptr_to_ptr %ptr_m : tile<ptr<i32>> -> tile<ptr<i32, <multicast>>>
        %v = make_tensor_view %c, shape = [3], strides = [1]
          : tile<ptr<i32, <multicast>>> -> tensor_view<3xi32, strides=[1], <multicast>>
        %p = make_partition_view %v : {MULTICAST_VIEW}
        %r, %t = multimem_load_reduce_view_tko weak %p[%one]
          : {MULTICAST_VIEW}, tile<i32> -> tile<2xi32>, token
        %u = multimem_reduce_view_tko relaxed sys %p, %x[%zero]
          : {MULTICAST_VIEW}, tile<2xi32>, tile<i32> -> token
        %w = multimem_store_view_tko weak %p, %x[%one]
          : {MULTICAST_VIEW}, tile<2xi32>, tile<i32> -> token""",
        {"x": i32(10, 20)},
        {"m": i32(11, 22, 10, 4), "r": i32(3, 0)},
        options={"start": {"m": i32(1, 2, 3, 4)}},
    ),
]

EFFECTS = [
    Case(
        "print_tko",
        """%t = print_tko "n=%d x=%5.2f %%\\n", %a, %b : tile<i32>, tile<2x2xf32> -> token
        %u = print_tko "%x|%u|%d\\n", %c, %c, %c token=%t : tile<2xi8>, tile<2xi8>, tile<2xi8>
          -> token""",
        {"a": np.int32(-3), "b": f32([1, 2.5], [INF, -1]), "c": i8(-1, 10)},
        {},
        text="n=-3 x=[[ 1.00,  2.50], [  inf, -1.00]] %\n[ff, a]|[255, 10]|[-1, 10]\n",
    ),
    Case(
        "assert",
        """%true = constant <i1: true> : tile<2xi1>
        assert %true, "never" : tile<2xi1>
        %r = addi %a, %a : tile<i32>""",
        {"a": np.int32(4)},
        {"r": np.int32(8)},
    ),
]

CASES = [
    *INTEGERS,
    *FLOATS,
    *CONVERSIONS,
    *CORE,
    *REDUCTIONS,
    *MATRICES,
    *CONTROL,
    *MEMORY,
    *ATOMICS,
    *VIEWS,
    *MULTIMEM,
    *EFFECTS,
]


def _first_contents(case: Case) -> dict[str, np.ndarray]:
    start = case.options.get("start", {})
    return {
        name: np.asarray(start.get(name, np.zeros_like(value)))
        for name, value in case.expected.items()
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_operation(case: Case):
    found, outcome, _ = run_body(
        case.body, case.inputs, _first_contents(case), case.globals, case.grid
    )
    for name, value in case.expected.items():
        wanted = np.asarray(value)
        assert found[name].dtype == wanted.dtype
        assert _bytes(found[name]) == _bytes(wanted), f"{name}: {found[name]} != {wanted}"
    assert outcome.text == case.text


def _bytes(array: np.ndarray) -> bytes:
    """The bits, with one pattern for every NaN."""
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return array.tobytes()


def test_every_operation_is_run_or_refused():
    """By name: an operation without a translation, or that no kernel here executes."""
    # The table also holds the operations of other levels, once these are loaded.
    others = [cls.name for cls in IMPLEMENTATIONS if not issubclass(cls, TileOp)]
    others += [cls.name for cls in (*REFUSED, *IMPLEMENTATIONS.elsewhere)]
    assert not IMPLEMENTATIONS.problems(OPERATIONS.values(), others)


def test_every_operation_is_executed_by_a_kernel_here():
    executed: set[str] = set()
    for case in CASES:
        module = checked(
            kernel_text(
                case.body,
                {name: np.asarray(value) for name, value in case.inputs.items()},
                _first_contents(case),
                case.globals,
            )
        )
        executed.update(type(op).mnemonic() for op in module.walk())
    executable = {cls.mnemonic() for cls in OPERATIONS.values() if cls in IMPLEMENTATIONS}
    assert executable - executed == set()
