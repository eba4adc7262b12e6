"""Kernels around the operations that stand beside nvgpu's, each with what it must compute.

The simulator runs them, and the code generator compiles every one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = list[Any]


@dataclass(frozen=True)
class Case:
    """``makes`` gives the arguments, ``expected`` what they hold afterwards."""

    name: str
    body: str
    parameters: str
    makes: Callable[[], Arrays]
    expected: Callable[..., Arrays]
    block: int = 32
    options: dict[str, Any] = field(default_factory=dict)


TID = np.arange(32)


def _floats(*shape: int) -> Any:
    return (np.arange(math.prod(shape), dtype=np.float32) / 8 - 3).reshape(shape)


def _words(*shape: int) -> Any:
    numbers = np.arange(math.prod(shape), dtype=np.int64) * 40503 % 65537 - 30000
    return numbers.astype(np.int32).reshape(shape)


def _vector(
    name: str, shape: str, body: str, to: str, expected: Callable[[Any], Any], element: str = "f32"
) -> Case:
    """Every thread loads a vector ``%v``, and stores the ``%w`` that the body makes of it."""
    extents, wanted = [int(n) for n in shape.split("x")], [int(n) for n in to.split("x")]
    make = _floats if element == "f32" else _words
    dtype = np.float32 if element == "f32" else np.int32
    zeros = ", ".join(["%c0"] * len(extents))
    into = ", ".join(["%c0"] * len(wanted))
    source, target = f"memref<32x{shape}x{element}>", f"memref<32x{to}x{element}>"
    text = (
        f"%v = vector.load %x[%tid, {zeros}] : {source}, vector<{shape}x{element}>\n{body}\n"
        f"vector.store %w, %y[%tid, {into}] : {target}, vector<{to}x{element}>"
    )
    return Case(
        name,
        text,
        f"%x: {source}, %y: {target}",
        lambda: [make(32, *extents), np.zeros((32, *wanted), dtype)],
        lambda x, y: [x, np.stack([expected(row) for row in x]).astype(dtype)],
    )


def _turned(row: Any) -> Any:
    part = row.copy()
    part[1:3, 2:6] = row[0:2, 4:8]
    return part


VECTORS = [
    _vector(
        "a slice of a vector",
        "4x8",
        "%w = vector.extract_strided_slice %v {offsets = [1, 2], sizes = [2, 4], strides = [1, 1]} "
        ": vector<4x8xf32> to vector<2x4xf32>",
        "2x4",
        lambda v: v[1:3, 2:6],
    ),
    _vector(
        "rows of a vector",
        "4x8",
        "%w = vector.extract_strided_slice %v {offsets = [2], sizes = [2], strides = [1]} : "
        "vector<4x8xf32> to vector<2x8xf32>",
        "2x8",
        lambda v: v[2:4],
    ),
    _vector(
        "a slice put into a vector",
        "4x8",
        "%p = vector.extract_strided_slice %v {offsets = [0, 4], sizes = [2, 4], strides = [1, 1]} "
        ": vector<4x8xf32> to vector<2x4xf32>\n"
        "%w = vector.insert_strided_slice %p, %v {offsets = [1, 2], strides = [1, 1]} : "
        "vector<2x4xf32> into vector<4x8xf32>",
        "4x8",
        _turned,
    ),
    _vector(
        "a row put into a vector",
        "2x4",
        "%p = vector.extract %v[0] : vector<4xf32> from vector<2x4xf32>\n"
        "%q = vector.extract_strided_slice %p {offsets = [1], sizes = [2], strides = [1]} : "
        "vector<4xf32> to vector<2xf32>\n"
        "%w = vector.insert_strided_slice %q, %v {offsets = [1, 0], strides = [1]} : "
        "vector<2xf32> into vector<2x4xf32>",
        "2x4",
        lambda v: np.array([v[0], [*v[0, 1:3], *v[1, 2:]]]),
    ),
    _vector(
        "a vector turned about",
        "2x3x4",
        "%w = vector.transpose %v, [2, 0, 1] : vector<2x3x4xf32> to vector<4x2x3xf32>",
        "4x2x3",
        lambda v: v.transpose(2, 0, 1),
    ),
    _vector(
        "a shuffle of two vectors",
        "8",
        "%r = arith.negf %v : vector<8xf32>\n"
        "%w = vector.shuffle %v, %r [7, 8, 0, 15] : vector<8xf32>, vector<8xf32>",
        "4",
        lambda v: [v[7], -v[0], v[0], -v[7]],
    ),
    _vector(
        "a shuffle of rows",
        "2x4",
        "%r = arith.negf %v : vector<2x4xf32>\n"
        "%w = vector.shuffle %v, %r [3, 0, 2] : vector<2x4xf32>, vector<2x4xf32>",
        "3x4",
        lambda v: [-v[1], v[0], -v[0]],
    ),
    _vector(
        "elements at places that are computed",
        "8",
        "%p = arith.remui %tid, %c8 : index\n"
        "%e = vector.extractelement %v[%p : index] : vector<8xf32>\n"
        "%n = arith.negf %e : f32\n%z = arith.constant 3 : i32\n"
        "%w = vector.insertelement %n, %v[%z : i32] : vector<8xf32>",
        "8",
        lambda v: [*v[:3], -v[int((v[0] + 3) * 8) // 8 % 8], *v[4:]],
    ),
    _vector(
        "elements in turn",
        "2x4",
        "%a, %b = vector.deinterleave %v : vector<2x4xf32> -> vector<2x2xf32>\n"
        "%w = vector.interleave %b, %a : vector<2x2xf32> -> vector<2x4xf32>",
        "2x4",
        lambda v: v.reshape(2, 2, 2)[:, :, ::-1].reshape(2, 4),
    ),
    _vector(
        "a vector of its elements",
        "4",
        "%a = vector.extract %v[0] : f32 from vector<4xf32>\n"
        "%b = vector.extract %v[3] : f32 from vector<4xf32>\n"
        "%w = vector.from_elements %a, %b, %b, %a : vector<2x2xf32>",
        "2x2",
        lambda v: v[[0, 3, 3, 0]].reshape(2, 2),
    ),
    _vector(
        "sums along a dimension",
        "3x4",
        "%z = arith.constant dense<0.5> : vector<4xf32>\n"
        "%w = vector.multi_reduction <add>, %v, %z [0] : vector<3x4xf32> to vector<4xf32>",
        "4",
        lambda v: 0.5 + v.sum(axis=0),
    ),
    _vector(
        "the largest along the last dimension",
        "3x4",
        "%z = arith.constant dense<-7> : vector<3xi32>\n"
        "%w = vector.multi_reduction <maxsi>, %v, %z [1] : vector<3x4xi32> to vector<3xi32>",
        "3",
        lambda v: np.maximum(v.max(axis=1), -7),
        "i32",
    ),
    _vector(
        "one number of a vector",
        "3x4",
        "%z = arith.constant 1 : i32\n"
        "%s = vector.multi_reduction <xor>, %v, %z [0, 1] : vector<3x4xi32> to i32\n"
        "%w = vector.broadcast %s : i32 to vector<2xi32>",
        "2",
        lambda v: [1 ^ int(np.bitwise_xor.reduce(v.ravel()))] * 2,
        "i32",
    ),
    _vector(
        "choices by masks",
        "2x4",
        "%m = vector.constant_mask [1, 3] : vector<2x4xi1>\n"
        "%n = vector.create_mask %c2, %c1 : vector<2x4xi1>\n"
        "%o = arith.xori %m, %n : vector<2x4xi1>\n%r = arith.negf %v : vector<2x4xf32>\n"
        "%w = arith.select %o, %r, %v : vector<2x4xi1>, vector<2x4xf32>",
        "2x4",
        lambda v: v * np.array([[1, -1, -1, 1], [-1, 1, 1, 1]]),
    ),
    _vector(
        "numbers in order",
        "4",
        "%s = vector.step : vector<4xindex>\n%i = arith.index_cast %s : vector<4xindex> to vector<4xi32>\n"
        "%w = arith.addi %v, %i : vector<4xi32>",
        "4",
        lambda v: v + np.arange(4),
        "i32",
    ),
]


def _read(name: str, transfer: str, shape: str, expected: Callable[[Any, int], Any]) -> Case:
    """Every thread reads a vector ``%w`` of a matrix ``%x`` of 8 x 12 elements."""
    wanted = [int(n) for n in shape.split("x")]
    into = ", ".join(["%c0"] * len(wanted))
    return Case(
        name,
        f"%pad = arith.constant -1.0 : f32\n%row = arith.remui %tid, %c8 : index\n{transfer}\n"
        f"vector.store %w, %y[%tid, {into}] : memref<32x{shape}xf32>, vector<{shape}xf32>",
        f"%x: memref<8x12xf32>, %y: memref<32x{shape}xf32>",
        lambda: [_floats(8, 12), np.zeros((32, *wanted), np.float32)],
        lambda x, y: [x, np.stack([expected(x, t) for t in range(32)]).astype(np.float32)],
    )


def _padded(x: Any, rows: int, columns: int) -> Any:
    return np.pad(x, ((0, rows), (0, columns)), constant_values=-1)


TRANSFERS = [
    _read(
        "a transfer over both edges",
        "%w = vector.transfer_read %x[%row, %c8], %pad : memref<8x12xf32>, vector<2x8xf32>",
        "2x8",
        lambda x, t: _padded(x, 2, 8)[t % 8 : t % 8 + 2, 8:16],
    ),
    _read(
        "a transfer that stays inside",
        "%w = vector.transfer_read %x[%row, %c4], %pad {in_bounds = [true]} : memref<8x12xf32>, vector<8xf32>",
        "8",
        lambda x, t: x[t % 8, 4:12],
    ),
    _read(
        "a transfer along columns",
        "%w = vector.transfer_read %x[%row, %c1], %pad {permutation_map = affine_map<(i, j) -> (i)>} : "
        "memref<8x12xf32>, vector<4xf32>",
        "4",
        lambda x, t: _padded(x, 4, 0)[t % 8 : t % 8 + 4, 1],
    ),
    _read(
        "a transfer that transposes",
        "%w = vector.transfer_read %x[%row, %c8], %pad {in_bounds = [false, false], "
        "permutation_map = affine_map<(i, j) -> (j, i)>} : memref<8x12xf32>, vector<8x4xf32>",
        "8x4",
        lambda x, t: _padded(x, 4, 8)[t % 8 : t % 8 + 4, 8:16].T,
    ),
    _read(
        "a transfer that repeats",
        "%w = vector.transfer_read %x[%row, %c2], %pad {in_bounds = [true, true, true], "
        "permutation_map = affine_map<(i, j) -> (0, j, 0)>} : memref<8x12xf32>, vector<2x4x2xf32>",
        "2x4x2",
        lambda x, t: np.broadcast_to(x[t % 8, 2:6][None, :, None], (2, 4, 2)),
    ),
    _read(
        "a transfer under a mask",
        "%m = vector.create_mask %c2, %row : vector<3x8xi1>\n"
        "%w = vector.transfer_read %x[%row, %c8], %pad, %m {permutation_map = affine_map<(i, j) -> (j, i)>} : "
        "memref<8x12xf32>, vector<8x3xf32>",
        "8x3",
        lambda x, t: np.where(
            (np.arange(8)[:, None] < t % 8) & (np.arange(3) < 2),
            _padded(x, 3, 8)[t % 8 : t % 8 + 3, 8:16].T,
            -1,
        ),
    ),
    Case(
        "a transfer to memory over the edge",
        "%v = vector.load %x[%tid, %c0] : memref<32x4xf32>, vector<4xf32>\n"
        "%m = vector.shape_cast %v : vector<4xf32> to vector<2x2xf32>\n"
        "scf.if %first {\nvector.transfer_write %m, %y[%c2, %c4] : vector<2x2xf32>, memref<3x5xf32>\n}\n"
        "%last = arith.cmpi eq, %tid, %c1 : index\n"
        "scf.if %last {\nvector.transfer_write %m, %y[%c0, %c2] {in_bounds = [true, true], "
        "permutation_map = affine_map<(i, j) -> (j, i)>} : vector<2x2xf32>, memref<3x5xf32>\n}",
        "%x: memref<32x4xf32>, %y: memref<3x5xf32>",
        lambda: [_floats(32, 4), np.zeros((3, 5), np.float32)],
        lambda x, y: [x, _written(x, y)],
    ),
    Case(
        "a transfer to memory under a mask",
        "%v = vector.load %x[%tid, %c0] : memref<32x4xf32>, vector<4xf32>\n"
        "%n = arith.remui %tid, %c8 : index\n%m = vector.create_mask %n : vector<4xi1>\n"
        "vector.transfer_write %v, %y[%tid, %c1], %m : vector<4xf32>, memref<32x4xf32>",
        "%x: memref<32x4xf32>, %y: memref<32x4xf32>",
        lambda: [_floats(32, 4), np.zeros((32, 4), np.float32)],
        lambda x, y: [
            x,
            np.stack([[0, *np.where(np.arange(3) < t % 8, x[t, :3], 0)] for t in range(32)]),
        ],
    ),
    Case(
        "loads and stores under masks",
        "%n = arith.remui %tid, %c8 : index\n%m = vector.create_mask %n : vector<4xi1>\n"
        "%p = arith.constant dense<-2.0> : vector<4xf32>\n"
        "%v = vector.maskedload %x[%tid, %c0], %m, %p : memref<32x4xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>\n"
        "%k = vector.create_mask %c2 : vector<4xi1>\n"
        "vector.maskedstore %y[%tid, %c0], %k, %v : memref<32x4xf32>, vector<4xi1>, vector<4xf32>",
        "%x: memref<32x4xf32>, %y: memref<32x4xf32>",
        lambda: [_floats(32, 4), np.zeros((32, 4), np.float32)],
        lambda x, y: [
            x,
            np.stack([[*np.where(np.arange(2) < t % 8, x[t, :2], -2), 0, 0] for t in range(32)]),
        ],
    ),
    Case(
        "elements packed and spread",
        "%v = vector.load %x[%tid, %c0] : memref<32x4xf32>, vector<4xf32>\n"
        "%z = arith.constant dense<0.0> : vector<4xf32>\n%m = arith.cmpf ogt, %v, %z : vector<4xf32>\n"
        "vector.compressstore %y[%tid, %c1], %m, %v : memref<32x8xf32>, vector<4xi1>, vector<4xf32>\n"
        "%k = arith.constant dense<[true, false, true, true]> : vector<4xi1>\n"
        "%e = vector.expandload %x[%tid, %c1], %k, %z : memref<32x4xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>\n"
        "vector.store %e, %w[%tid, %c0] : memref<32x4xf32>, vector<4xf32>",
        "%x: memref<32x4xf32>, %y: memref<32x8xf32>, %w: memref<32x4xf32>",
        lambda: [_floats(32, 4), np.zeros((32, 8), np.float32), np.zeros((32, 4), np.float32)],
        lambda x, y, w: [x, _packed(x), np.stack([x[:, 1], 0 * x[:, 0], x[:, 2], x[:, 3]], axis=1)],
    ),
]


def _written(x: Any, y: Any) -> Any:
    whole = y.copy()
    whole[2, 4] = x[0, 0]
    whole[0:2, 2:4] = x[1].reshape(2, 2).T
    return whole


def _packed(x: Any) -> Any:
    found = np.zeros((32, 8), np.float32)
    for row, into in zip(x, found):
        kept = row[row > 0]
        into[1 : 1 + kept.size] = kept
    return found


CONTROL = [
    Case(
        "a loop over places",
        "%z = arith.constant 0 : i32\n%o = arith.constant 1 : i32\n"
        "%s, %p = scf.parallel (%i, %j) = (%c0, %c1) to (%tid, %c4) step (%c2, %c1) init (%z, %o) -> (i32, i32) {\n"
        "  %k = arith.muli %i, %j : index\n  %w = arith.index_cast %k : index to i32\n"
        "  %q = arith.addi %w, %o : i32\n"
        "  scf.reduce(%w, %q : i32, i32) {\n  ^bb0(%a: i32, %b: i32):\n    %r = arith.addi %a, %b : i32\n"
        "    scf.reduce.return %r : i32\n  }, {\n  ^bb0(%a: i32, %b: i32):\n"
        "    %d = arith.addi %a, %a : i32\n    %r = arith.subi %d, %b : i32\n    scf.reduce.return %r : i32\n  }\n}\n"
        "%t = arith.xori %s, %p : i32\nmemref.store %t, %y[%tid] : memref<32xi32>",
        "%y: memref<32xi32>",
        lambda: [np.zeros(32, np.int32)],
        lambda y: [np.array([_looped(t) for t in range(32)], np.uint32).view(np.int32)],
    ),
    Case(
        "a loop that only stores",
        "scf.parallel (%i) = (%c0) to (%c4) step (%c1) {\n  %k = arith.addi %i, %tid : index\n"
        "  %w = arith.index_cast %k : index to i32\n  memref.store %w, %y[%tid, %i] : memref<32x4xi32>\n  scf.reduce\n}",
        "%y: memref<32x4xi32>",
        lambda: [np.zeros((32, 4), np.int32)],
        lambda y: [TID[:, None] + np.arange(4)],
    ),
    Case(
        "a choice by number",
        "%n = arith.remui %tid, %c4 : index\n%r = scf.index_switch %n -> i32\ncase 0 {\n"
        "  %a = arith.constant 10 : i32\n  scf.yield %a : i32\n}\ncase 2 {\n"
        "  %b = arith.index_cast %tid : index to i32\n  scf.yield %b : i32\n}\ndefault {\n"
        "  %d = arith.constant -1 : i32\n  scf.yield %d : i32\n}\n"
        "scf.index_switch %c2\ncase 2 {\n  memref.store %r, %y[%tid] : memref<32xi32>\n  scf.yield\n}\ndefault {\n  scf.yield\n}",
        "%y: memref<32xi32>",
        lambda: [np.zeros(32, np.int32)],
        lambda y: [np.select([TID % 4 == 0, TID % 4 == 2], [10, TID], -1)],
    ),
    Case(
        "memory for a while",
        "%r = memref.alloca_scope -> (i32) {\n  %m = memref.alloca() : memref<2xi32, 5>\n"
        "  %a = arith.index_cast %tid : index to i32\n  memref.store %a, %m[%c1] : memref<2xi32, 5>\n"
        "  %b = memref.load %m[%c1] : memref<2xi32, 5>\n  memref.alloca_scope.return %b : i32\n}\n"
        "memref.store %r, %y[%tid] : memref<32xi32>",
        "%y: memref<32xi32>",
        lambda: [np.zeros(32, np.int32)],
        lambda y: [TID],
    ),
]


def _looped(thread: int) -> int:
    total, other = 0, 1
    for i in range(0, thread, 2):
        for j in range(1, 4):
            total, other = total + i * j, (2 * other - (i * j + 1)) % 2**32
    return (total ^ other) % 2**32


def _reduction(
    name: str, ty: str, text: str, expected: Callable[[Any], Any], block: int, x: Any
) -> Case:
    return Case(
        name,
        f"%v = memref.load %x[%tid] : memref<{block}x{ty}>\n%s = gpu.all_reduce {text} : ({ty}) -> {ty}\n"
        f"memref.store %s, %y[%tid] : memref<{block}x{ty}>",
        f"%x: memref<{block}x{ty}>, %y: memref<{block}x{ty}>",
        lambda: [x.copy(), np.zeros_like(x)],
        lambda x, y: [x, np.full_like(x, expected(x))],
        block,
    )


REDUCTIONS = [
    _reduction("a sum of a block", "i32", "add %v {\n}", lambda x: x.sum(), 128, _words(128)),
    _reduction(
        "a sum of three warps and a half", "i64", "add %v uniform {\n}", lambda x: x.sum(), 112,
        _words(112).astype(np.int64),
    ),
    _reduction("the least of a block", "f32", "minnumf %v {\n}", np.min, 96, -_floats(96)),
    _reduction(
        "a reduction by a body", "f64",
        "%v {\n^bb0(%a: f64, %b: f64):\n  %m = arith.maximumf %a, %b : f64\n  gpu.yield %m : f64\n}",
        np.max, 64, _floats(64).astype(np.float64),
    ),
    _reduction("a sum of some lanes", "f32", "add %v {\n}", np.sum, 20, _floats(20)),
    _reduction(
        "the least of some lanes", "f32", "minnumf %v {\n}", np.min, 20, 1 + np.abs(_floats(20))
    ),
]  # fmt: skip

MEMORY = [
    Case(
        "a copy by each thread",
        "%p = memref.subview %x[%tid, 0] [1, 4] [1, 1] : memref<32x4xf32> to memref<4xf32, strided<[1], offset: ?>>\n"
        "%q = memref.subview %y[%tid, 0] [1, 4] [1, 2] : memref<32x8xf32> to memref<4xf32, strided<[2], offset: ?>>\n"
        "memref.copy %p, %q : memref<4xf32, strided<[1], offset: ?>> to memref<4xf32, strided<[2], offset: ?>>",
        "%x: memref<32x4xf32>, %y: memref<32x8xf32>",
        lambda: [_floats(32, 4), np.zeros((32, 8), np.float32)],
        lambda x, y: [x, np.stack([x, 0 * x], axis=2).reshape(32, 8)],
    ),
    Case(
        "a tile of the block's own",
        "%s = memref.alloc() {alignment = 64 : i64} : memref<32x2xf32, 3>\n"
        "%v = vector.load %x[%tid, %c0] : memref<32x2xf32>, vector<2xf32>\n"
        "vector.store %v, %s[%tid, %c0] : memref<32x2xf32, 3>, vector<2xf32>\ngpu.barrier\n"
        "%t = memref.transpose %s (i, j) -> (j, i) : memref<32x2xf32, 3> to memref<2x32xf32, strided<[1, 2]>, 3>\n"
        "%last = arith.constant 31 : index\n%o = arith.subi %last, %tid : index\n"
        "%a = memref.load %t[%c1, %o] : memref<2x32xf32, strided<[1, 2]>, 3>\n"
        "memref.store %a, %y[%tid] : memref<32xf32>\nmemref.dealloc %s : memref<32x2xf32, 3>",
        "%x: memref<32x2xf32>, %y: memref<32xf32>",
        lambda: [_floats(32, 2), np.zeros(32, np.float32)],
        lambda x, y: [x, x[::-1, 1]],
    ),
    Case(
        "memory of a thread",
        "%m = memref.alloc(%c4) : memref<?x2xi32>\n%a = arith.index_cast %tid : index to i32\n"
        "memref.store %a, %m[%c2, %c1] : memref<?x2xi32>\ngpu.barrier\n"
        "%b = memref.load %m[%c2, %c1] : memref<?x2xi32>\nmemref.store %b, %y[%tid] : memref<32xi32>\n"
        "memref.dealloc %m : memref<?x2xi32>",
        "%y: memref<32xi32>",
        lambda: [np.zeros(32, np.int32)],
        lambda y: [TID],
    ),
    Case(
        "dimensions joined, split and read out",
        "%e = memref.expand_shape %x [[0, 1], [2]] output_shape [4, 8, 2] : memref<32x2xi32> into memref<4x8x2xi32>\n"
        "%f = memref.collapse_shape %e [[0], [1, 2]] : memref<4x8x2xi32> into memref<4x16xi32>\n"
        "%b, %o, %s:2, %t:2 = memref.extract_strided_metadata %f : memref<4x16xi32> -> memref<i32>, index, index, index, index, index\n"
        "%flat = memref.reinterpret_cast %b to offset: [%o], sizes: [%s#1], strides: [%t#1] : memref<i32> to memref<?xi32, strided<[?], offset: ?>>\n"
        "%at = arith.remui %tid, %c16 : index\n"
        "%v = memref.load %flat[%at] : memref<?xi32, strided<[?], offset: ?>>\n"
        "%row = arith.divui %tid, %c8 : index\n%col = arith.remui %tid, %c8 : index\n"
        "%u = memref.load %e[%row, %col, %c1] : memref<4x8x2xi32>\n%w = arith.addi %u, %v : i32\n"
        "memref.store %w, %y[%tid] : memref<32xi32>",
        "%x: memref<32x2xi32>, %y: memref<32xi32>",
        lambda: [_words(32, 2), np.zeros(32, np.int32)],
        lambda x, y: [x, x[:, 1] + x.ravel()[TID % 16]],
    ),
]


def _unary(op: str, expected: Callable[[Any], Any], x: Any, element: str = "f32") -> Case:
    return Case(
        op,
        f"%v = memref.load %x[%tid] : memref<32x{element}>\n%w = {op} %v : {element}\n"
        f"memref.store %w, %y[%tid] : memref<32x{element}>",
        f"%x: memref<32x{element}>, %y: memref<32x{element}>",
        lambda: [x.copy(), np.zeros_like(x)],
        lambda x, y: [x, np.asarray(expected(x)).astype(x.dtype)],
    )


_UNIT = np.linspace(-1, 1, 32, dtype=np.float32)
_HALVES = np.arange(-16, 16).astype(np.float32) / 2


def _wide(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(x.astype(np.float64))


_BITS = (np.arange(32, dtype=np.int64) * 0x1E3779B97F4A7C15 >> np.arange(32) * 2).astype(np.int32)

FUNCTIONS = [
    *(
        _unary(f"math.{name}", _wide(function), x)
        for name, function, x in (
            ("acos", np.arccos, _UNIT),
            ("asin", np.arcsin, _UNIT),
            ("atan", np.arctan, 4 * _UNIT),
            ("atanh", np.arctanh, _UNIT / 2),
            ("acosh", np.arccosh, 2 + _UNIT),
            ("asinh", np.arcsinh, 4 * _UNIT),
            ("cbrt", np.cbrt, 9 * _UNIT),
            ("erf", lambda x: [math.erf(n) for n in x], 3 * _UNIT),
            ("expm1", np.expm1, 2 * _UNIT),
            ("log10", np.log10, 2 + _UNIT),
            ("log1p", np.log1p, _UNIT / 2),
            ("round", lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5), _HALVES),
            ("roundeven", np.rint, _HALVES),
            ("trunc", np.trunc, _HALVES),
        )
    ),
    _unary("math.ctpop", lambda x: [bin(n & 0xFFFFFFFF).count("1") for n in x.tolist()], _BITS, "i32"),
    _unary("math.ctlz", lambda x: [32 - (n & 0xFFFFFFFF).bit_length() for n in x.tolist()], _BITS, "i32"),
    _unary(
        "math.cttz", lambda x: [32 if not n else (n & -n).bit_length() - 1 for n in x.tolist()], _BITS, "i32"
    ),
    Case(
        "math.ipowi",
        "%v = memref.load %x[%tid] : memref<32xi32>\n%e = memref.load %p[%tid] : memref<32xi32>\n"
        "%w = math.ipowi %v, %e : i32\nmemref.store %w, %y[%tid] : memref<32xi32>",
        "%x: memref<32xi32>, %p: memref<32xi32>, %y: memref<32xi32>",
        lambda: [
            np.array([3, -3, 1, -1, -1, 2, 7, 0] * 4, np.int32),
            np.array([5, 3, -9, -2, -3, -1, 40, 0] * 4, np.int32),
            np.zeros(32, np.int32),
        ],
        lambda x, p, y: [
            x, p, np.array([243, -27, 1, 1, -1, 0, (7**40 + 2**31) % 2**32 - 2**31, 1] * 4, np.int32)
        ],
    ),
    Case(
        "math.fpowi",
        "%v = memref.load %x[%tid] : memref<32xf32>\n%e = memref.load %p[%tid] : memref<32xi32>\n"
        "%w = math.fpowi %v, %e : f32, i32\nmemref.store %w, %y[%tid] : memref<32xf32>",
        "%x: memref<32xf32>, %p: memref<32xi32>, %y: memref<32xf32>",
        lambda: [_HALVES + 0.25, np.arange(-16, 16, dtype=np.int32) // 4, np.zeros(32, np.float32)],
        lambda x, p, y: [x, p, (x.astype(np.float64) ** p).astype(np.float32)],
    ),
    Case(
        "results in two parts",
        "%v = memref.load %x[%tid] : memref<32xi32>\n%u = memref.load %x[%c2] : memref<32xi32>\n"
        "%a, %b = arith.mulsi_extended %v, %u : i32\n%c, %d = arith.mului_extended %v, %u : i32\n"
        "%e, %f = arith.addui_extended %v, %u : i32, i1\n%g = arith.extui %f : i1 to i32\n"
        "%z = arith.constant dense<0> : vector<4xi32>\n"
        "%w = vector.from_elements %b, %d, %e, %g : vector<4xi32>\n"
        "vector.store %w, %y[%tid, %c0] : memref<32x4xi32>, vector<4xi32>",
        "%x: memref<32xi32>, %y: memref<32x4xi32>",
        lambda: [_words(32) * 65537, np.zeros((32, 4), np.int32)],
        lambda x, y: [x, _parts(x)],
    ),
]  # fmt: skip


def _parts(x: Any) -> Any:
    signed = x.astype(np.int64)
    unsigned = x.view(np.uint32).astype(np.uint64)
    total = unsigned + unsigned[2]
    columns = [
        signed * signed[2] >> 32,
        unsigned * unsigned[2] >> np.uint64(32),
        total & np.uint64(0xFFFFFFFF),
        total >> np.uint64(32),
    ]
    return np.stack([c.astype(np.uint64).astype(np.uint32).view(np.int32) for c in columns], axis=1)


def _nibbles(octets: Any) -> Any:
    """The signed 4-bit numbers in bytes, the low one of each first."""
    pairs = np.stack((octets & 15, octets >> 4), axis=-1).reshape(*octets.shape[:-1], -1)
    return (pairs.astype(np.int64) + 8) % 16 - 8


def _octets(*shape: int) -> Any:
    return (np.arange(math.prod(shape)) * 37 % 251).astype(np.uint8).reshape(shape)


_I4_TILES = """\
%as = memref.alloc() : memref<16x64xi4, 3>
%bs = memref.alloc() : memref<8x64xi4, 3>
%row = arith.remui %lane, %c16 : index
%half = arith.divui %lane, %c16 : index
%col = arith.muli %half, %c32 : index
%copy = nvgpu.device_async_copy %a[%row, %col], %as[%row, %col], 32 : memref<16x64xi4> to memref<16x64xi4, 3>
%group = nvgpu.device_async_create_group %copy
nvgpu.device_async_wait %group
%brow = arith.remui %lane, %c8 : index
%quarter = arith.divui %lane, %c8 : index
%bit = arith.remui %quarter, %c2 : index
%bcol = arith.muli %bit, %c32 : index
%some = arith.cmpi ult, %lane, %c16 : index
scf.if %some {
  %v = vector.load %b[%brow, %bcol] : memref<8x64xi4>, vector<32xi4>
  vector.store %v, %bs[%brow, %bcol] : memref<8x64xi4, 3>, vector<32xi4>
}
gpu.barrier
%fa = nvgpu.ldmatrix %as[%row, %col] {numTiles = 4 : i32, transpose = false} : memref<16x64xi4, 3> -> vector<4x8xi4>
%fb = nvgpu.ldmatrix %bs[%brow, %bcol] {numTiles = 2 : i32, transpose = false} : memref<8x64xi4, 3> -> vector<2x8xi4>
%zero = arith.constant dense<0> : vector<2x2xi32>
%sum = nvgpu.mma.sync (%fa, %fb, %zero) {mmaShape = [16, 8, 64]} : (vector<4x8xi4>, vector<2x8xi4>, vector<2x2xi32>) -> vector<2x2xi32>
%g = arith.divui %lane, %c4 : index
%place = arith.remui %lane, %c4 : index
%n = arith.muli %place, %c2 : index
%low = vector.extract %sum[0] : vector<2xi32> from vector<2x2xi32>
%high = vector.extract %sum[1] : vector<2xi32> from vector<2x2xi32>
%below = arith.addi %g, %c8 : index
vector.store %low, %d[%g, %n] : memref<16x8xi32>, vector<2xi32>
vector.store %high, %d[%below, %n] : memref<16x8xi32>, vector<2xi32>
"""
_BIT_TILES = """\
%bar = nvgpu.mbarrier.create -> !bars
scf.if %first {
  nvgpu.mbarrier.init %bar[%c0], %c1 : !bars
  nvvm.fence.mbarrier.init
}
gpu.barrier
%ta = memref.alloc() {alignment = 1024 : i64} : memref<64x128xi8, 3>
%tb = memref.alloc() {alignment = 1024 : i64} : memref<128x128xi8, 3>
%bytes = arith.constant 24576 : index
nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %bytes, predicate = %first : !bars
nvgpu.tma.async.load %a[%c0, %c0], %bar[%c0] to %ta, predicate = %first : !rows, !bars -> memref<64x128xi8, 3>
nvgpu.tma.async.load %b[%c0, %c0], %bar[%c0] to %tb, predicate = %first : !columns, !bars -> memref<128x128xi8, 3>
nvgpu.mbarrier.try_wait.parity %bar[%c0], %even, %ticks : !bars
%da = nvgpu.warpgroup.generate.descriptor %ta, %a : memref<64x128xi8, 3>, !rows -> !bytesA
%db = nvgpu.warpgroup.generate.descriptor %tb, %b : memref<128x128xi8, 3>, !columns -> !bytesB
%zero = nvgpu.warpgroup.mma.init.accumulator -> !counts
"""
_BITS_OF = """\
%ba = builtin.unrealized_conversion_cast %da : !bytesA to !nvgpu.warpgroup.descriptor<tensor = memref<64x1024xi1, 3>>
%bb = builtin.unrealized_conversion_cast %db : !bytesB to !nvgpu.warpgroup.descriptor<tensor = memref<1024x128xi1, 3>>
%sum = nvgpu.warpgroup.mma %ba, %bb, %zero {waitGroup = 0 : i32} : !nvgpu.warpgroup.descriptor<tensor = memref<64x1024xi1, 3>>, !nvgpu.warpgroup.descriptor<tensor = memref<1024x128xi1, 3>>, !counts -> !counts
"""
_BYTES_OF = "%sum = nvgpu.warpgroup.mma %da, %db, %zero {waitGroup = 0 : i32} : !bytesA, !bytesB, !counts -> !counts\n"
_STORE_COUNTS = "nvgpu.warpgroup.mma.store %sum, %d : !counts to memref<64x128xi32>"
_BYTE_MAP = (
    "!nvgpu.tensormap.descriptor<tensor = memref<{}x128xi8, 3>, swizzle = swizzle_128b, "
    "l2promo = none, oob = zero, interleave = none>"
)
_BYTE_TYPES = {
    "!rows": _BYTE_MAP.format(64),
    "!columns": _BYTE_MAP.format(128),
    "!bytesA": "!nvgpu.warpgroup.descriptor<tensor = memref<64x128xi8, 3>>",
    "!bytesB": "!nvgpu.warpgroup.descriptor<tensor = memref<128x128xi8, 3>>",
    "!counts": "!nvgpu.warpgroup.accumulator<fragmented = vector<64x128xi32>>",
}


def _with_types(body: str) -> str:
    for name, ty in _BYTE_TYPES.items():
        body = body.replace(name, ty)
    return body


def _product_of_bytes(name: str, body: str, expected: Callable[[Any, Any], Any]) -> Case:
    return Case(
        name,
        _with_types(_BIT_TILES + body + _STORE_COUNTS),
        _with_types("%a: !rows, %b: !columns, %d: memref<64x128xi32>"),
        lambda: [
            _octets(64, 128).view(np.int8),
            _octets(128, 128).view(np.int8),
            np.zeros((64, 128), np.int32),
        ],
        lambda a, b, d: [a, b, expected(a, b)],
        128,
    )


def _bits(octets: Any) -> Any:
    return np.unpackbits(octets.view(np.uint8), axis=1).astype(np.int64)


NARROW = [
    Case(
        "vectors of 4-bit elements",
        "%v = vector.load %x[%tid, %c0] : memref<32x8xi4>, vector<8xi4>\n"
        "%w = arith.extsi %v : vector<8xi4> to vector<8xi32>\n"
        "vector.store %w, %y[%tid, %c0] : memref<32x8xi32>, vector<8xi32>\n"
        "%n = arith.addi %v, %v : vector<8xi4>\n"
        "vector.store %n, %z[%tid, %c8] : memref<32x16xi4>, vector<8xi4>",
        "%x: memref<32x8xi4>, %y: memref<32x8xi32>, %z: memref<32x16xi4>",
        lambda: [_octets(32, 4), np.zeros((32, 8), np.int32), np.zeros((32, 8), np.uint8)],
        lambda x, y, z: [x, _nibbles(x), np.hstack([z[:, :4], (x & 0x77) << 1])],
    ),
    Case(
        "a product of 4-bit elements",
        _I4_TILES,
        "%a: memref<16x64xi4>, %b: memref<8x64xi4>, %d: memref<16x8xi32>",
        lambda: [_octets(16, 32), _octets(8, 32)[::-1].copy(), np.zeros((16, 8), np.int32)],
        lambda a, b, d: [a, b, _nibbles(a) @ _nibbles(b).T],
    ),
    _product_of_bytes(
        "a product of bytes", _BYTES_OF, lambda a, b: a.astype(np.int64) @ b.astype(np.int64).T
    ),
    _product_of_bytes("a product of bits", _BITS_OF, lambda a, b: _bits(a) @ _bits(b).T),
]

CASES = [*VECTORS, *TRANSFERS, *CONTROL, *REDUCTIONS, *MEMORY, *FUNCTIONS, *NARROW]
