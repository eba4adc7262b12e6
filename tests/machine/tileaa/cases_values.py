"""What operations on values compute: arithmetic, conversions, shapes, products, control flow."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
from tests.machine.tileaa.support import Case, f32, i1, i32, one

INF, NAN = float("inf"), float("nan")
A4 = f32(1.0, -2.0, 0.5, 4.0)
B4 = f32(2.0, 4.0, -0.25, 3.0)
K4 = i32(7, -7, 2**31 - 1, -(2**31))
L4 = i32(2, 2, 1, 3)
T = "tile<4xf32>"
KT = "tile<4xi32>"


def _float(op: str, *expected: float) -> Case:
    """A binary operation on A4 and B4."""
    body = f"%r = {op} %a, %b : {T}"
    return Case(op, body, {"a": A4, "b": B4}, {"r": f32(*expected)})


def _function(op: str, source: tuple[float, ...], *expected: float) -> Case:
    body = f"%r = {op} %a : tile<{len(source)}xf32>"
    return Case(op, body, {"a": f32(*source)}, {"r": f32(*expected)})


def _integer(op: str, *expected: int) -> Case:
    """A binary operation on K4 and L4."""
    return Case(op, f"%r = {op} %a, %b : {KT}", {"a": K4, "b": L4}, {"r": i32(*expected)})


ROSTER_ARITHMETIC = [
    _float("nv_tileaa.addf", 3.0, 2.0, 0.25, 7.0),
    _float("nv_tileaa.subf", -1.0, -6.0, 0.75, 1.0),
    _float("nv_tileaa.mulf", 2.0, -8.0, -0.125, 12.0),
    _float("nv_tileaa.divf", 0.5, -0.5, -2.0, np.float32(4.0) / np.float32(3.0)),
    Case(
        "nv_tileaa.addf",
        f"%r = nv_tileaa.addf %a, %x {{rounding_mode = zero}} : {T}, f32 -> {T}",
        {"a": f32(1.0, -1.0, 2.0, 0.0), "x": one(2.0**-30, np.float32)},
        {"r": f32(1.0, -(1.0 - 2.0**-24), 2.0, 2.0**-30)},
    ),
    Case(
        "nv_tileaa.mulf",
        f"%r = nv_tileaa.mulf %a, %b {{flush_to_zero}} : {T}",
        {"a": f32(1e-40, 1.0, 2.0, -1e-20), "b": f32(1.0, 3.0, 4.0, 1e-20)},
        {"r": f32(0.0, 3.0, 8.0, -0.0)},
    ),
    Case(
        "nv_tileaa.fma",
        f"%r = nv_tileaa.fma %a, %b, %a : {T}",
        {"a": A4, "b": B4},
        {"r": f32(3.0, -10.0, 0.375, 16.0)},
    ),
    _function("nv_tileaa.sqrt", (4.0, 2.25, 0.0, INF), 2.0, 1.5, 0.0, INF),
    _function("nv_tileaa.rsqrt", (4.0, 0.25, 1.0, INF), 0.5, 2.0, 1.0, 0.0),
    _function("nv_tileaa.exp2", (3.0, -1.0, 0.0, -INF), 8.0, 0.5, 1.0, 0.0),
    Case(
        "nv_tileaa.clampf",
        f"%r = nv_tileaa.clampf %a, %lo, %hi : {T}, f32, f32 -> {T}",
        {"a": f32(-5.0, 0.25, 7.0, NAN), "lo": one(-1.0, np.float32), "hi": one(2.0, np.float32)},
        # Without propagate_nan a NaN loses against the lower bound.
        {"r": f32(-1.0, 0.25, 2.0, -1.0)},
    ),
    Case(
        "nv_tileaa.clampf",
        f"%r = nv_tileaa.clampf %a, %lo, %hi {{propagate_nan}} : {T}",
        {"a": f32(-5.0, 0.25, 7.0, NAN), "lo": f32(-1, -1, -1, -1), "hi": f32(2, 2, 2, 2)},
        {"r": f32(-1.0, 0.25, 2.0, NAN)},
    ),
    Case(
        "nv_tileaa.mulhiui",
        "%r = nv_tileaa.mulhiui %a, %b : tile<2xi32>",
        # 0xffffffff * 2 = 0x1_fffffffe; 0x80000000 * 0x80000000 = 2**62.
        {"a": i32(-1, -(2**31)), "b": i32(2, -(2**31))},
        {"r": i32(1, 2**30)},
    ),
]

FLOATING = [
    _function("arith.negf", (1.0, -0.0, INF, 0.0), -1.0, 0.0, -INF, -0.0),
    Case(
        "arith.maximumf",
        f"%r = arith.maximumf %a, %b : {T}",
        {"a": f32(1, NAN, -0.0, 5), "b": f32(2, 1, 0.0, -5)},
        {"r": f32(2, NAN, 0.0, 5)},
    ),
    Case(
        "arith.minimumf",
        f"%r = arith.minimumf %a, %b : {T}",
        {"a": f32(1, NAN, -0.0, 5), "b": f32(2, 1, 0.0, -5)},
        {"r": f32(1, NAN, -0.0, -5)},
    ),
    Case(
        "arith.maxnumf",
        f"%r = arith.maxnumf %a, %b : {T}",
        {"a": f32(1, NAN, -0.0, 5), "b": f32(2, 1, 0.0, -5)},
        {"r": f32(2, 1, 0.0, 5)},
    ),
    Case(
        "arith.minnumf",
        f"%r = arith.minnumf %a, %b : {T}",
        {"a": f32(1, NAN, -0.0, 5), "b": f32(2, 1, 0.0, -5)},
        {"r": f32(1, 1, -0.0, -5)},
    ),
    Case(
        "arith.remf",
        f"%r = arith.remf %a, %b : {T}",
        {"a": f32(5.5, -5.5, 5.5, 3.0), "b": f32(2.0, 2.0, -2.0, INF)},
        {"r": f32(1.5, -1.5, 1.5, 3.0)},
    ),
    _function("math.absf", (-1.5, -0.0, -INF, 2.0), 1.5, 0.0, INF, 2.0),
    _function("math.ceil", (1.2, -1.2, 3.0, -0.0), 2.0, -1.0, 3.0, -0.0),
    _function("math.floor", (1.2, -1.2, 3.0, -0.0), 1.0, -2.0, 3.0, -0.0),
    _function("math.cos", (0.0, 1.0), 1.0, math.cos(1.0)),
    _function("math.sin", (0.0, 1.0), 0.0, math.sin(1.0)),
    _function("math.tan", (0.0, 1.0), 0.0, math.tan(1.0)),
    _function("math.cosh", (0.0, 1.0), 1.0, math.cosh(1.0)),
    _function("math.sinh", (0.0, 1.0), 0.0, math.sinh(1.0)),
    _function("math.tanh", (0.0, 1.0), 0.0, math.tanh(1.0)),
    _function("math.exp", (0.0, 1.0), 1.0, math.e),
    _function("math.log", (1.0, 10.0), 0.0, math.log(10.0)),
    _function("math.log2", (8.0, 0.5), 3.0, -1.0),
    Case(
        "math.atan2",
        "%r = math.atan2 %a, %b : tile<2xf32>",
        {"a": f32(1.0, -1.0), "b": f32(1.0, 0.0)},
        {"r": f32(math.pi / 4, -math.pi / 2)},
    ),
    Case(
        "math.powf",
        "%r = math.powf %a, %b : tile<2xf32>",
        {"a": f32(2.0, 9.0), "b": f32(10.0, 0.5)},
        {"r": f32(1024.0, 3.0)},
    ),
    Case(
        "math.fpowi",
        "%r = math.fpowi %a, %k : tile<2xf32>, tile<2xi32>",
        {"a": f32(2.0, -3.0), "k": i32(-2, 3)},
        {"r": f32(0.25, -27.0)},
    ),
]

INTEGERS = [
    _integer("arith.addi", 9, -5, -(2**31), -(2**31) + 3),
    _integer("arith.subi", 5, -9, 2**31 - 2, 2**31 - 3),
    _integer("arith.muli", 14, -14, 2**31 - 1, -(2**31)),
    _integer("arith.divsi", 3, -3, 2**31 - 1, -715827882),
    _integer("arith.divui", 3, 2147483644, 2**31 - 1, 715827882),
    _integer("arith.ceildivsi", 4, -3, 2**31 - 1, -715827882),
    _integer("arith.ceildivui", 4, 2147483645, 2**31 - 1, 715827883),
    _integer("arith.floordivsi", 3, -4, 2**31 - 1, -715827883),
    _integer("arith.remsi", 1, -1, 0, -2),
    _integer("arith.remui", 1, 1, 0, 2),
    _integer("arith.maxsi", 7, 2, 2**31 - 1, 3),
    _integer("arith.maxui", 7, -7, 2**31 - 1, -(2**31)),
    _integer("arith.minsi", 2, -7, 1, -(2**31)),
    _integer("arith.minui", 2, 2, 1, 3),
    _integer("arith.andi", 2, 0, 1, 0),
    _integer("arith.ori", 7, -5, 2**31 - 1, -(2**31) + 3),
    _integer("arith.xori", 5, -5, 2**31 - 2, -(2**31) + 3),
    _integer("arith.shli", 28, -28, -2, 0),
    _integer("arith.shrsi", 1, -2, 2**30 - 1, -(2**28)),
    _integer("arith.shrui", 1, 2**30 - 2, 2**30 - 1, 2**28),
    Case(
        "math.absi", f"%r = math.absi %a : {KT}", {"a": K4}, {"r": i32(7, 7, 2**31 - 1, -(2**31))}
    ),
    Case(
        "arith.cmpi",
        f"%r = arith.cmpi slt, %a, %b : {KT}\n%s = arith.cmpi ult, %a, %b : {KT}",
        {"a": K4, "b": L4},
        {"r": i1(0, 1, 0, 1), "s": i1(0, 0, 0, 0)},
    ),
    Case(
        "arith.cmpf",
        f"%r = arith.cmpf olt, %a, %b : {T}\n%s = arith.cmpf une, %a, %b : {T}",
        {"a": f32(1, NAN, 0.0, 2), "b": f32(2, 1, -0.0, 1)},
        {"r": i1(1, 0, 0, 0), "s": i1(1, 1, 0, 1)},
    ),
    Case(
        "arith.select",
        f"%r = arith.select %m, %a, %b : tile<4xi1>, {T}\n%s = arith.select %c, %a, %b : {T}",
        {"m": i1(1, 0, 1, 0), "c": one(0, np.bool_), "a": A4, "b": B4},
        {"r": f32(1.0, 4.0, 0.5, 3.0), "s": B4},
    ),
    Case(
        "arith.select",
        "%p = arith.select %c, %ptr_a, %ptr_b : !nv_tileaa.ptr<f32, 1>\n"
        "%m = arith.select %c, %mem_a, %mem_b : !nv_tileaa.memref<4xf32, strides = [1], 1>\n"
        "%r = nv_tileaa.load %p : !nv_tileaa.ptr<f32, 1> -> f32\n"
        "%s = nv_tileaa.load %m[%zero] : !nv_tileaa.memref<4xf32, strides = [1], 1>, index -> f32",
        {"c": one(1, np.bool_), "a": A4, "b": B4},
        {"r": one(1.0, np.float32), "s": one(1.0, np.float32)},
    ),
]

CONVERSIONS = [
    Case(
        "arith.extsi",
        "%r = arith.extsi %a : tile<2xi8> to tile<2xi32>",
        {"a": np.array([-1, 5], np.int8)},
        {"r": i32(-1, 5)},
    ),
    Case(
        "arith.extui",
        "%r = arith.extui %a : tile<2xi8> to tile<2xi32>",
        {"a": np.array([-1, 5], np.int8)},
        {"r": i32(255, 5)},
    ),
    Case(
        "arith.trunci",
        "%r = arith.trunci %a : tile<2xi32> to tile<2xi8>",
        {"a": i32(0x1FF, -129)},
        {"r": np.array([-1, 127], np.int8)},
    ),
    Case(
        "arith.index_cast",
        "%i = arith.index_cast %a : tile<2xi32> to tile<2xindex>\n"
        "%r = arith.index_cast %i : tile<2xindex> to tile<2xi64>",
        {"a": i32(-1, 7)},
        {"r": np.array([-1, 7], np.int64)},
    ),
    Case(
        "arith.index_castui",
        "%i = arith.index_castui %a : tile<2xi32> to tile<2xindex>\n"
        "%r = arith.index_castui %i : tile<2xindex> to tile<2xi64>",
        {"a": i32(-1, 7)},
        {"r": np.array([2**32 - 1, 7], np.int64)},
    ),
    Case(
        "arith.bitcast",
        "%r = arith.bitcast %a : tile<2xf32> to tile<2xi32>",
        {"a": f32(1.0, -2.0)},
        {"r": i32(0x3F800000, -0x40000000)},
    ),
    Case(
        "arith.sitofp",
        "%r = arith.sitofp %a : tile<2xi32> to tile<2xf32>",
        {"a": i32(-3, 2**31 - 1)},
        {"r": f32(-3.0, 2.0**31)},
    ),
    Case(
        "arith.uitofp",
        "%r = arith.uitofp %a : tile<2xi32> to tile<2xf32>",
        {"a": i32(-1, 3)},
        {"r": f32(2.0**32, 3.0)},
    ),
    Case(
        "arith.fptosi",
        "%r = arith.fptosi %a : tile<4xf32> to tile<4xi32>",
        {"a": f32(-1.75, 1e20, NAN, -INF)},
        {"r": i32(-1, 2**31 - 1, 0, -(2**31))},
    ),
    Case(
        "arith.fptoui",
        "%r = arith.fptoui %a : tile<4xf32> to tile<4xi8>",
        {"a": f32(1.75, 1e20, NAN, -1.0)},
        {"r": np.array([1, -1, 0, 0], np.int8)},
    ),
    Case(
        "arith.constant",
        "%r = arith.constant dense<[[1.0, 2.0], [0x7FC00001, -0.0]]> : tile<2x2xf32>\n"
        "%s = arith.constant -5 : i32\n%u = arith.constant dense<true> : tile<2xi1>",
        {},
        {
            "r": np.array([[0x3F800000, 0x40000000], [0x7FC00001, -0x80000000]], np.int64)
            .astype(np.int32)
            .view(np.float32),
            "s": one(-5, np.int32),
            "u": i1(1, 1),
        },
    ),
    Case(
        # Elements of four bits.
        "arith.constant",
        """%c = arith.constant dense<[1, -2, 7, -8]> : tile<4xi4>
        %r = arith.extsi %c : tile<4xi4> to tile<4xi32>
        %d = arith.constant dense<-3> : tile<2xi4>
        %s = arith.extui %d : tile<2xi4> to tile<2xi32>
        %e = arith.constant dense<[0.5, -6.0]> : tile<2xf4E2M1FN>
        %u = nv_tileaa.fp_to_fp %e : tile<2xf4E2M1FN> -> tile<2xf32>""",
        {},
        {"r": i32(1, -2, 7, -8), "s": i32(13, 13), "u": f32(0.5, -6.0)},
    ),
    Case(
        "nv_tileaa.fp_to_fp",
        "%r = nv_tileaa.fp_to_fp %a {rounding_mode = nearest_even} : tile<2xf32> -> tile<2xf16>\n"
        "%s = nv_tileaa.fp_to_fp %a {rounding_mode = zero} : tile<2xf32> -> tile<2xf16>",
        {"a": f32(1.0 + 3 * 2.0**-11, 1e6)},
        {
            "r": np.array([1.0 + 2 * 2.0**-10, INF], np.float16),
            "s": np.array([1.0 + 2.0**-10, 65504.0], np.float16),
        },
    ),
    Case(
        "nv_tileaa.bitcast",
        "%r = nv_tileaa.bitcast %a : tile<2xf32> -> tile<2xi32>\n"
        "%s = nv_tileaa.bitcast %a : tile<2xf32> -> tile<8xi8>\n"
        "%u = nv_tileaa.bitcast %s : tile<8xi8> -> tile<4xi16>\n"
        "%v = nv_tileaa.bitcast %m : tile<8xi1> -> tile<1xi8>",
        {"a": f32(1.0, -2.0), "m": i1(1, 0, 1, 0, 0, 0, 0, 1)},
        {
            "r": i32(0x3F800000, -0x40000000),
            "s": np.array([0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0], np.uint8).view(np.int8),
            "u": np.array([0, 0x3F80, 0, 0xC000], np.uint16).view(np.int16),
            "v": np.array([0b10000101], np.uint8).view(np.int8),
        },
    ),
    Case(
        "nv_tileaa.bitcast",
        "%p = nv_tileaa.bitcast %ptr_a : !nv_tileaa.ptr<f32, 1> -> !nv_tileaa.ptr<i32, 1>\n"
        "%r = nv_tileaa.load %p : !nv_tileaa.ptr<i32, 1> -> i32",
        {"a": f32(1.0, 2.0)},
        {"r": one(0x3F800000, np.int32)},
    ),
]

_RAMP = np.arange(8, dtype=np.float32).reshape(2, 4)

SHAPES = [
    Case(
        "nv_tileaa.splat",
        "%r = nv_tileaa.splat %x : f32 -> tile<2x2xf32>",
        {"x": one(3.0, np.float32)},
        {"r": np.full((2, 2), 3.0, np.float32)},
    ),
    Case(
        "nv_tileaa.broadcast",
        "%r = nv_tileaa.broadcast %a : tile<2x1xf32> -> tile<2x4xf32>",
        {"a": np.array([[1], [2]], np.float32)},
        {"r": np.array([[1] * 4, [2] * 4], np.float32)},
    ),
    Case(
        "nv_tileaa.expand_dims",
        "%r = nv_tileaa.expand_dims %a {axes = array<i64: 0, 2>} : tile<4xf32> -> tile<1x4x1xf32>",
        {"a": A4},
        {"r": A4.reshape(1, 4, 1)},
    ),
    Case(
        "nv_tileaa.view",
        "%r = nv_tileaa.view %a : tile<2x4xf32> -> tile<4x2xf32>",
        {"a": _RAMP},
        {"r": _RAMP.reshape(4, 2)},
    ),
    Case(
        "nv_tileaa.view",
        """
%m = nv_tileaa.view %mem_a
  : !nv_tileaa.memref<2x4xf32, strides = [4, 1], 1> -> !nv_tileaa.memref<8xf32, strides = [1], 1>
%n = nv_tileaa.view %mem_a
  : !nv_tileaa.memref<2x4xf32, strides = [4, 1], 1> -> !nv_tileaa.memref<?x?xf32, 1>
%five = arith.constant 5 : index
%one = arith.constant 1 : index
%r = nv_tileaa.load %m[%five] : !nv_tileaa.memref<8xf32, strides = [1], 1>, index -> f32
%s = nv_tileaa.load %n[%one, %zero] : !nv_tileaa.memref<?x?xf32, 1>, index, index -> f32
""",
        {"a": _RAMP},
        {"r": one(5.0, np.float32), "s": one(4.0, np.float32)},
    ),
    Case(
        "nv_tileaa.extract",
        "%one = arith.constant 1 : index\n%two = arith.constant 2 : i32\n"
        "%r = nv_tileaa.extract %a[%one] : tile<2x4xf32>, index -> tile<4xf32>\n"
        "%s = nv_tileaa.extract %r[%two] : tile<4xf32>, i32 -> f32",
        {"a": _RAMP},
        {"r": f32(4, 5, 6, 7), "s": one(6.0, np.float32)},
    ),
    Case(
        "nv_tileaa.extract_slice",
        "%one = arith.constant 1 : index\n"
        "%r = nv_tileaa.extract_slice %a {offsets = array<i64: 0, 2>} "
        ": tile<2x4xf32> -> tile<2x2xf32>\n"
        "%s = nv_tileaa.extract_slice %a[%one, %one] "
        ": tile<2x4xf32>, index, index -> tile<1x2xf32>",
        {"a": _RAMP},
        {
            "r": np.array([[2, 3], [6, 7]], np.float32),
            "s": np.array([[5, 6]], np.float32),
        },
    ),
    Case(
        "nv_tileaa.ext.insert_slice",
        "%one = arith.constant 1 : index\n"
        "%r = nv_tileaa.ext.insert_slice %a, %b {offsets = array<i64: 0, 2>} "
        ": tile<2x4xf32>, tile<1x2xf32> -> tile<2x4xf32>\n"
        "%s = nv_tileaa.ext.insert_slice %a[%one, %zero], %b "
        ": tile<2x4xf32>, tile<1x2xf32>, index, index -> tile<2x4xf32>",
        {"a": _RAMP, "b": np.array([[-1, -2]], np.float32)},
        {
            "r": np.array([[0, 1, -1, -2], [4, 5, 6, 7]], np.float32),
            "s": np.array([[0, 1, 2, 3], [-1, -2, 6, 7]], np.float32),
        },
    ),
    Case(
        "nv_tileaa.cat",
        "%r = nv_tileaa.cat %a, %b {axis = 0 : i32} : tile<4xf32>, tile<4xf32> -> tile<8xf32>",
        {"a": A4, "b": B4},
        {"r": np.concatenate((A4, B4))},
    ),
    Case(
        "nv_tileaa.permute",
        "%r = nv_tileaa.permute %a {permutation = array<i64: 1, 0>} "
        ": tile<2x4xf32> -> tile<4x2xf32>",
        {"a": _RAMP},
        {"r": np.ascontiguousarray(_RAMP.T)},
    ),
    Case(
        "nv_tileaa.make_range",
        "%r = nv_tileaa.make_range {start = 3, end = 7} : tile<4xi32>\n"
        "%lo = arith.constant -1 : i32\n%hi = arith.constant 3 : i32\n"
        "%s = nv_tileaa.make_range %lo, %hi : i32, i32 -> tile<4xi32>",
        {},
        {"r": i32(3, 4, 5, 6), "s": i32(-1, 0, 1, 2)},
    ),
    Case(
        "nv_tileaa.generate",
        """
%two = arith.constant 2 : index
%r = nv_tileaa.generate : tile<2x4xi32> {
^bb0(%i: index, %j: index):
  %d = arith.muli %i, %two : index
  %s = arith.addi %d, %j : index
  %n = arith.index_cast %s : index to i32
  %m = arith.addi %n, %k : i32
  nv_tileaa.yield %m : i32
}
""",
        {"k": one(10, np.int32)},
        {"r": np.array([[10, 11, 12, 13], [12, 13, 14, 15]], np.int32)},
    ),
    Case(
        "nv_tileaa.generate",
        """
%two = arith.constant 2 : index
%r = nv_tileaa.generate : tile<4xf32> {
^bb0(%i: index):
  %low = arith.cmpi slt, %i, %two : index
  %v = scf.if %low -> (f32) {
    scf.yield %x : f32
  } else {
    %n = nv_tileaa.mulf %x, %x : f32
    scf.yield %n : f32
  }
  nv_tileaa.yield %v : f32
}
""",
        {"x": one(3.0, np.float32)},
        {"r": f32(3, 3, 9, 9)},
    ),
]

_E4M3, _E8M0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
_LEFT, _RIGHT = np.arange(8).reshape(2, 4), np.arange(8).reshape(4, 2)

CONTRACTIONS = [
    Case(
        "nv_tileaa.dot",
        "%r = nv_tileaa.dot %a, %b, %c : tile<2x4xf16>, tile<4x2xf16>, tile<2x2xf32> "
        "-> tile<2x2xf32>",
        {
            "a": _LEFT.astype(np.float16),
            "b": _RIGHT.astype(np.float16),
            "c": np.array([[1, 0], [0, 1]], np.float32),
        },
        {"r": np.array([[29, 34], [76, 99]], np.float32)},
    ),
    Case(
        "nv_tileaa.dot",
        "%r = nv_tileaa.dot %a, %b, %c {signedness_a = signed, signedness_b = unsigned} "
        ": tile<1x2xi8>, tile<2x1xi8>, tile<1x1xi32> -> tile<1x1xi32>",
        {
            "a": np.array([[-2, 3]], np.int8),
            "b": np.array([[-1], [1]], np.int8),
            "c": np.array([[100]], np.int32),
        },
        # -2 * 255 + 3 * 1 + 100
        {"r": np.array([[-407]], np.int32)},
    ),
    Case(
        "nv_tileaa.dot",
        "%r = nv_tileaa.dot %a, %b, %c, %sa, %sb : tile<1x64xf8E4M3FN>, tile<64x1xf8E4M3FN>, "
        "tile<1x1xf32>, tile<1x2xf8E8M0FNU>, tile<2x1xf8E8M0FNU> -> tile<1x1xf32>",
        {
            "a": np.ones((1, 64), _E4M3),
            "b": np.ones((64, 1), _E4M3),
            "c": np.full((1, 1), 0.5, np.float32),
            "sa": np.array([[2.0, 1.0]], _E8M0),
            "sb": np.array([[4.0], [0.5]], _E8M0),
        },
        # 32 * 8 + 32 * 0.5 + 0.5
        {"r": np.array([[272.5]], np.float32)},
    ),
    Case(
        "nv_tileaa.conv_dot",
        """
%r = nv_tileaa.conv_dot %x, %w, %c
  {conv_params = #nv_tileaa.conv_params<filter = [2], stride = [2], padding_low = [1],
     padding_high = [1], dilation = [2]>, activation_layout = nwc}
  : tile<1x8x1xf32>, tile<1x2x1xf32>, tile<1x4x1xf32> -> tile<1x4x1xf32>
""",
        {
            "x": np.arange(1, 9, dtype=np.float32).reshape(1, 8, 1),
            "w": np.array([10, 1], np.float32).reshape(1, 2, 1),
            "c": np.zeros((1, 4, 1), np.float32),
        },
        # Position p sees elements 2p - 1 and 2p + 1; the first one of p = 0 is padding.
        {"r": np.array([2, 24, 46, 68], np.float32).reshape(1, 4, 1)},
    ),
    Case(
        "nv_tileaa.conv_dot",
        """
%r = nv_tileaa.conv_dot %x, %w, %c
  {conv_params = #nv_tileaa.conv_params<filter = [1, 2], stride = [1, 1], padding_low = [0, 0],
     padding_high = [0, 1], dilation = [1, 1]>, activation_layout = nchw, padding_value = zero}
  : tile<1x2x2x2xf16>, tile<2x2x1x2xf16>, tile<1x2x2x2xf32> -> tile<1x2x2x2xf32>
""",
        {
            "x": np.arange(8, dtype=np.float16).reshape(1, 2, 2, 2),
            "w": np.array([1, 0, 0, 0, 0, 0, 1, 10], np.float16).reshape(2, 2, 1, 2),
            "c": np.full((1, 2, 2, 2), 100, np.float32),
        },
        # Output channel 0 copies input channel 0; channel 1 adds input channel 1 and ten times its
        # right neighbour, which is padding in the last column.
        {"r": np.array([100, 101, 102, 103, 154, 105, 176, 107], np.float32).reshape(1, 2, 2, 2)},
    ),
    Case(
        "nv_tileaa.reduce",
        """
%r = nv_tileaa.reduce %a {axis = 1 : i32, identities = [0.0 : f32]}
  : tile<2x4xf32> -> tile<2xf32> {
^bb0(%e: f32, %sum: f32):
  %n = nv_tileaa.addf %e, %sum : f32
  nv_tileaa.yield %n : f32
}
%s = nv_tileaa.reduce %r {axis = 0 : i32, identities = [0.0 : f32]} : tile<2xf32> -> f32 {
^bb0(%e: f32, %best: f32):
  %n = arith.maxnumf %e, %best : f32
  nv_tileaa.yield %n : f32
}
""",
        {"a": _RAMP},
        {"r": f32(6, 22), "s": one(22.0, np.float32)},
    ),
    Case(
        "nv_tileaa.reduce",
        """
%i = nv_tileaa.make_range {start = 0, end = 4} : tile<4xi32>
%r, %s = nv_tileaa.reduce %a, %i {axis = 0 : i32, identities = [-1.0 : f32, -1 : i32]}
  : tile<4xf32>, tile<4xi32> -> f32, i32 {
^bb0(%e: f32, %best: f32, %at: i32, %where: i32):
  %more = arith.cmpf ogt, %e, %best : f32
  %value, %index = scf.if %more -> (f32, i32) {
    scf.yield %e, %at : f32, i32
  } else {
    scf.yield %best, %where : f32, i32
  }
  nv_tileaa.yield %value, %index : f32, i32
}
""",
        {"a": f32(1, 7, 3, 5)},
        {"r": one(7.0, np.float32), "s": one(1, np.int32)},
    ),
    Case(
        "nv_tileaa.scan",
        """
%r = nv_tileaa.scan %a {axis = 0 : i32, reverse = true, identities = [0 : i32]}
  : tile<4xi32> -> tile<4xi32> {
^bb0(%e: i32, %sum: i32):
  %n = arith.addi %e, %sum : i32
  nv_tileaa.yield %n : i32
}
%s = nv_tileaa.scan %a {axis = 0 : i32, identities = [-9 : i32]} : tile<4xi32> -> tile<4xi32> {
^bb0(%e: i32, %most: i32):
  %n = arith.maxsi %e, %most : i32
  nv_tileaa.yield %n : i32
}
""",
        {"a": i32(1, 5, 2, 8)},
        {"r": i32(16, 15, 10, 8), "s": i32(1, 5, 5, 8)},
    ),
    Case(
        "nv_tileaa.yield",
        """
%r = nv_tileaa.reduce %a {axis = 0 : i32, identities = [1 : i32]} : tile<4xi32> -> i32 {
^bb0(%e: i32, %product: i32):
  %n = arith.muli %e, %product : i32
  nv_tileaa.yield %n : i32
}
""",
        {"a": i32(1, 5, 2, 8)},
        {"r": one(80, np.int32)},
    ),
    Case(
        "nv_tileaa.histogram",
        "%r = nv_tileaa.histogram %a : tile<8xi32> -> tile<4xi32>\n"
        "%s = nv_tileaa.histogram %a, %m : tile<8xi32>, tile<8xi1> -> tile<4xi32>",
        {"a": i32(0, 1, 1, 3, -1, 4, 3, 3), "m": i1(1, 0, 1, 1, 1, 1, 0, 1)},
        {"r": i32(1, 2, 0, 3), "s": i32(1, 1, 0, 2)},
    ),
]

CONTROL_FLOW = [
    Case(
        "scf.for",
        """
%one = arith.constant 1 : i32
%ten = arith.constant 10 : i32
%start = arith.constant 0 : i32
%r = scf.for %i = %start to %ten step %one iter_args(%sum = %start) -> (i32) : i32 {
  %next = arith.addi %sum, %i : i32
  scf.yield %next : i32
}
%s, %u = scf.for %i = %start to %ten step %one iter_args(%x = %start, %y = %one) -> (i32, i32) : i32 {
  scf.yield %y, %x : i32, i32
}
""",
        {},
        {"r": one(45, np.int32), "s": one(0, np.int32), "u": one(1, np.int32)},
    ),
    Case(
        "scf.for",
        """
%one = arith.constant 1 : i8
%lo = arith.constant 126 : i8
%hi = arith.constant 130 : i8
%start = arith.constant 0 : i32
%r = scf.for %i = %lo to %hi step %one iter_args(%sum = %start) -> (i32) : i8 {
  %wide = arith.extui %i : i8 to i32
  %next = arith.addi %sum, %wide : i32
  scf.yield %next : i32
} {unsignedCmp}
""",
        {},
        {"r": one(126 + 127 + 128 + 129, np.int32)},
    ),
    Case(
        "scf.if",
        """
%r = scf.if %c -> (i32) {
  %v = arith.constant 1 : i32
  scf.yield %v : i32
} else {
  %v = arith.constant 2 : i32
  scf.yield %v : i32
}
%s = scf.if %d -> (i32) {
  scf.yield %r : i32
} else {
  %v = arith.constant 2 : i32
  scf.yield %v : i32
}
""",
        {"c": one(1, np.bool_), "d": one(0, np.bool_)},
        {"r": one(1, np.int32), "s": one(2, np.int32)},
    ),
    Case(
        "scf.while",
        """
%two = arith.constant 2 : i32
%start = arith.constant 0 : i32
%one = arith.constant 1 : i32
%r, %s = scf.while (%n = %a, %count = %start) : (i32, i32) -> (i32, i32) {
  %go = arith.cmpi sgt, %n, %one : i32
  scf.condition(%go) %n, %count : i32, i32
} do {
^bb0(%n: i32, %count: i32):
  %half = arith.divsi %n, %two : i32
  %more = arith.addi %count, %one : i32
  scf.yield %half, %more : i32, i32
}
""",
        {"a": one(1000, np.int32)},
        {"r": one(1, np.int32), "s": one(9, np.int32)},
    ),
    Case(
        "scf.yield",
        """
%one = arith.constant 1 : index
%n = arith.constant 4 : index
scf.for %i = %zero to %n step %one {
  scf.if %c {
    %x = nv_tileaa.load %mem_a[%i] : !nv_tileaa.memref<4xf32, strides = [1], 1>, index -> f32
    %y = nv_tileaa.addf %x, %x : f32
    nv_tileaa.store %mem_a[%i], %y : !nv_tileaa.memref<4xf32, strides = [1], 1>, f32, index
    scf.yield
  }
}
""",
        {"a": A4, "c": one(1, np.bool_)},
        {"a": f32(2, -4, 1, 8)},
    ),
    Case(
        "scf.condition",
        """
%none = arith.constant 0 : i32
%no = arith.constant false
%r = scf.while (%n = %none) : (i32) -> (i32) {
  scf.condition(%no) %n : i32
} do {
^bb0(%n: i32):
  scf.yield %n : i32
}
%seven = arith.constant 7 : i32
%s = arith.addi %r, %seven : i32
""",
        {},
        {"s": one(7, np.int32)},
    ),
    Case(
        "ub.poison",
        """
%p = ub.poison : i32
%r = scf.if %c -> (i32) {
  %v = arith.constant 3 : i32
  scf.yield %v : i32
} else {
  scf.yield %p : i32
}
""",
        {"c": one(1, np.bool_)},
        {"r": one(3, np.int32)},
    ),
]

CASES = [
    *ROSTER_ARITHMETIC,
    *FLOATING,
    *INTEGERS,
    *CONVERSIONS,
    *SHAPES,
    *CONTRACTIONS,
    *CONTROL_FLOW,
]
