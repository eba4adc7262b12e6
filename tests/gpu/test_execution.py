"""What code does that is not for GPUs alone: it runs here, after LLVM has read it for this CPU.

Threads, tensor cores and shared memory need a GPU; numbers, vectors, views of memory and control flow
do not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import llvmlite.binding as llvm
import numpy as np
import pytest

from tilewright import gpu
from tilewright.analysis.verifier import verify
from tilewright.text import parse


def run(text: str, *arrays: np.ndarray, turns: int = 1) -> None:
    """Call the function `f` of a text, which takes memrefs of known layout.

    With more turns, the last array is a number that counts them.
    """
    module = parse(text)
    verify(module)
    code = gpu.compile_function(module, "sm_80", "f", gpu.CompileOptions(optimize=False)).llvm_ir
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    parsed = llvm.parse_assembly(code)
    parsed.triple, parsed.data_layout = llvm.get_process_triple(), str(machine.target_data)
    with llvm.create_mcjit_compiler(parsed, machine) as engine:
        address = engine.get_function_address("f")
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(address)
        for turn in range(turns):
            if turns > 1:
                arrays[-1][()] = turn
            function(*(array.ctypes.data for array in arrays))


@dataclass(frozen=True)
class Case:
    """A body over `%x` and `%y`, the types of both, and what `y` then is, given `x`."""

    name: str
    body: str
    x: str
    y: str
    expected: Callable[[np.ndarray], object]


_TYPES = {"i32": np.int32, "i64": np.int64, "f32": np.float32, "i8": np.int8, "i1": np.bool_}

_LOOP = """%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c8 = arith.constant 8 : index
"""


def _each(body: str) -> str:
    """For every place of 8, `%e` of `%x` becomes `%r` of `%y`."""
    return (
        _LOOP
        + "scf.for %i = %c0 to %c8 step %c1 {\n%e = memref.load %x[%i] : memref<8xi32>\n"
        + body
        + "\nmemref.store %r, %y[%i] : memref<8xi32>\n}"
    )


CASES = [
    Case("copy", _each("%r = arith.addi %e, %e : i32"), "8xi32", "8xi32", lambda x: 2 * x),
    Case(
        "floordiv",
        _each("%d = arith.constant 3 : i32\n%r = arith.floordivsi %e, %d : i32"),
        "8xi32",
        "8xi32",
        lambda x: x // 3,
    ),
    Case(
        "floordiv by a negative",
        _each("%d = arith.constant -3 : i32\n%r = arith.floordivsi %e, %d : i32"),
        "8xi32",
        "8xi32",
        lambda x: x // -3,
    ),
    Case(
        "ceildiv",
        _each("%d = arith.constant 3 : i32\n%r = arith.ceildivsi %e, %d : i32"),
        "8xi32",
        "8xi32",
        lambda x: -(-x // 3),
    ),
    Case(
        "ceildiv unsigned",
        _each("%d = arith.constant 7 : i32\n%r = arith.ceildivui %e, %d : i32"),
        "8xi32",
        "8xi32",
        lambda x: -(-(x.astype(np.int64) % 2**32) // 7),
    ),
    Case(
        "select and compare",
        _each(
            "%z = arith.constant 0 : i32\n%n = arith.subi %z, %e : i32\n"
            "%p = arith.cmpi slt, %e, %z : i32\n%r = arith.select %p, %n, %e : i32"
        ),
        "8xi32",
        "8xi32",
        np.abs,
    ),
    Case(
        "high half of a product",
        _each("%low, %r = arith.mulsi_extended %e, %e : i32"),
        "8xi32",
        "8xi32",
        lambda x: (x.astype(np.int64) ** 2) >> 32,
    ),
    Case(
        "if with a value",
        _each(
            "%z = arith.constant 0 : i32\n%p = arith.cmpi slt, %e, %z : i32\n"
            "%r = scf.if %p -> (i32) {\nscf.yield %z : i32\n} else {\nscf.yield %e : i32\n}"
        ),
        "8xi32",
        "8xi32",
        lambda x: np.maximum(x, 0),
    ),
    Case(
        "while",
        _each(
            "%one = arith.constant 1 : i32\n%lim = arith.constant 100 : i32\n"
            "%two = arith.constant 2 : i32\n%a = math.absi %e : i32\n"
            "%s = arith.addi %a, %one : i32\n"
            "%r = scf.while (%v = %s) : (i32) -> i32 {\n"
            "%p = arith.cmpi slt, %v, %lim : i32\nscf.condition(%p) %v : i32\n} do {\n"
            "^bb0(%w: i32):\n%m = arith.muli %w, %two : i32\nscf.yield %m : i32\n}"
        ),
        "8xi32",
        "8xi32",
        lambda x: [_doubled(abs(int(v)) + 1) for v in x],
    ),
    Case(
        "switch",
        _each(
            "%k = arith.index_cast %i : index to i32\n"
            "%r = scf.index_switch %i -> i32\ncase 2 {\n%t = arith.constant 22 : i32\n"
            "scf.yield %t : i32\n}\ncase 5 {\n%u = arith.constant 55 : i32\nscf.yield %u : i32\n}\n"
            "default {\nscf.yield %k : i32\n}"
        ),
        "8xi32",
        "8xi32",
        lambda x: [0, 1, 22, 3, 4, 55, 6, 7],
    ),
    Case(
        "a sum carried by a loop",
        _LOOP
        + "%z = arith.constant 0 : i32\n"
        + "%t = scf.for %i = %c0 to %c8 step %c1 iter_args(%s = %z) -> (i32) {\n"
        + "%e = memref.load %x[%i] : memref<8xi32>\n%n = arith.addi %s, %e : i32\n"
        + "scf.yield %n : i32\n}\nmemref.store %t, %y[] : memref<i32>",
        "8xi32",
        "i32",
        lambda x: x.sum(),
    ),
    Case(
        "blocks out of order",
        _LOOP
        + "cf.br ^head(%c0 : index)\n^body:\n%e = memref.load %x[%k] : memref<8xi32>\n"
        + "memref.store %e, %y[%k] : memref<8xi32>\n%n = arith.addi %k, %c1 : index\n"
        + "cf.br ^head(%n : index)\n^head(%k: index):\n%p = arith.cmpi ult, %k, %c8 : index\n"
        + "cf.cond_br %p, ^body, ^end\n^end:",
        "8xi32",
        "8xi32",
        lambda x: x,
    ),
    Case(
        "a view of every other row",
        _LOOP
        + "%v = memref.subview %x[1, 0] [2, 4] [2, 1] : memref<5x4xi32> to "
        + "memref<2x4xi32, strided<[8, 1], offset: 4>>\n"
        + "%w = vector.load %v[%c1, %c0] : memref<2x4xi32, strided<[8, 1], offset: 4>>, vector<4xi32>\n"
        + "vector.store %w, %y[%c0] : memref<4xi32>, vector<4xi32>",
        "5x4xi32",
        "4xi32",
        lambda x: x[3],
    ),
    Case(
        "a view that loses a dimension",
        _LOOP
        + "%v = memref.subview %x[0, 2, 0] [5, 1, 4] [1, 1, 1] : memref<5x3x4xi32> to "
        + "memref<5x4xi32, strided<[12, 1], offset: 8>>\n"
        + "memref.copy %v, %y : memref<5x4xi32, strided<[12, 1], offset: 8>> to memref<5x4xi32>",
        "5x3x4xi32",
        "5x4xi32",
        lambda x: x[:, 2],
    ),
    Case(
        "a view of bytes",
        _LOOP
        + "%v = memref.view %x[%c8][] : memref<32xi8> to memref<4xi32>\n"
        + "%w = vector.load %v[%c0] : memref<4xi32>, vector<4xi32>\n"
        + "vector.store %w, %y[%c0] : memref<4xi32>, vector<4xi32>",
        "32xi8",
        "4xi32",
        lambda x: x.view(np.int32)[2:6],
    ),
    Case(
        "shapes joined and split",
        "%v = memref.expand_shape %x [[0, 1]] output_shape [2, 4] : memref<8xi32> into memref<2x4xi32>\n"
        "%w = memref.collapse_shape %v [[0, 1]] : memref<2x4xi32> into memref<8xi32>\n"
        "memref.copy %w, %y : memref<8xi32> to memref<8xi32>",
        "8xi32",
        "8xi32",
        lambda x: x,
    ),
    Case(
        "a matrix of registers, turned about",
        _LOOP
        + "%m = vector.load %x[%c0, %c0] : memref<2x4xi32>, vector<2x4xi32>\n"
        + "%r = vector.extract %m[1] : vector<4xi32> from vector<2x4xi32>\n"
        + "%e = vector.extract %m[0, 2] : i32 from vector<2x4xi32>\n"
        + "%n = vector.insert %r, %m [0] : vector<4xi32> into vector<2x4xi32>\n"
        + "%o = vector.insert %e, %n [1, 3] : i32 into vector<2x4xi32>\n"
        + "%f = vector.shape_cast %o : vector<2x4xi32> to vector<8xi32>\n"
        + "vector.store %f, %y[%c0] : memref<8xi32>, vector<8xi32>",
        "2x4xi32",
        "8xi32",
        lambda x: [*x[1], *x[1, :3], x[0, 2]],
    ),
    Case(
        "a row whose place is computed",
        _LOOP
        + "%m = vector.load %x[%c0, %c0, %c0] : memref<2x3x4xi32>, vector<2x3x4xi32>\n"
        + "%k = memref.load %x[%c0, %c0, %c0] : memref<2x3x4xi32>\n"
        + "%u = arith.subi %k, %k : i32\n%z = arith.index_cast %u : i32 to index\n"
        + "%one = arith.addi %z, %c1 : index\n"
        + "%e = vector.extract %m[%one, 2, %one] : i32 from vector<2x3x4xi32>\n"
        + "%r = vector.extract %m[%z, %one] : vector<4xi32> from vector<2x3x4xi32>\n"
        + "%n = vector.insert %r, %m [%one, 0] : vector<4xi32> into vector<2x3x4xi32>\n"
        + "%o = vector.insert %e, %n [%z, %one, 3] : i32 into vector<2x3x4xi32>\n"
        + "vector.store %o, %y[%c0, %c0, %c0] : memref<2x3x4xi32>, vector<2x3x4xi32>",
        "2x3x4xi32",
        "2x3x4xi32",
        lambda x: _rearranged(x),
    ),
    Case(
        "a reduction",
        _LOOP
        + "%m = vector.load %x[%c0] : memref<8xi32>, vector<8xi32>\n"
        + "%r = vector.reduction <maxsi>, %m : vector<8xi32> into i32\n"
        + "memref.store %r, %y[] : memref<i32>",
        "8xi32",
        "i32",
        np.max,
    ),
    Case(
        "a vector over the edge",
        _LOOP
        + "%c6 = arith.constant 6 : index\n%pad = arith.constant -1 : i32\n"
        + "%m = vector.transfer_read %x[%c6], %pad : memref<8xi32>, vector<4xi32>\n"
        + "vector.store %m, %y[%c0] : memref<4xi32>, vector<4xi32>",
        "8xi32",
        "4xi32",
        lambda x: [x[6], x[7], -1, -1],
    ),
    Case(
        "an update",
        _LOOP
        + "%seven = arith.constant 7 : i32\nmemref.copy %x, %y : memref<8xi32> to memref<8xi32>\n"
        + "%a = memref.atomic_rmw addi %seven, %y[%c1] : (i32, memref<8xi32>) -> i32\n"
        + "%b = memref.atomic_rmw muli %seven, %y[%c0] : (i32, memref<8xi32>) -> i32\n"
        + "memref.store %a, %y[%c8m] : memref<8xi32>",
        "8xi32",
        "8xi32",
        lambda x: [7 * x[0], x[1] + 7, *x[2:7], x[1]],
    ),
    Case(
        "floats",
        _LOOP
        + "%m = vector.load %x[%c0] : memref<4xf32>, vector<4xf32>\n"
        + "%h = arith.constant dense<[0.5, -1.25, 3.0, 1.0e10]> : vector<4xf32>\n"
        + "%s = vector.fma %m, %h, %h : vector<4xf32>\n"
        + "vector.store %s, %y[%c0] : memref<4xf32>, vector<4xf32>",
        "4xf32",
        "4xf32",
        lambda x: _fma(x, np.array([0.5, -1.25, 3.0, 1e10], np.float32)),
    ),
    Case(
        "bits of a byte each",
        _LOOP
        + "%e = memref.load %x[%c1] : memref<8xi32>\n%n = arith.constant 0 : i32\n"
        + "%p = arith.cmpi slt, %e, %n : i32\nmemref.store %p, %y[%c1] : memref<2xi1>\n"
        + "%q = memref.load %y[%c1] : memref<2xi1>\nmemref.store %q, %y[%c0] : memref<2xi1>",
        "8xi32",
        "2xi1",
        lambda x: [x[1] < 0] * 2,
    ),
]


def _rearranged(x: np.ndarray) -> np.ndarray:
    y = x.copy()
    y[1, 0] = x[0, 1]
    y[0, 1, 3] = x[1, 2, 1]
    return y


def _doubled(number: int) -> int:
    while number < 100:
        number *= 2
    return number


def _fma(x: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Rounded once: products of f32 are exact in f64, and the sums here are too."""
    return (x.astype(np.float64) * h + h).astype(np.float32)


def _array(ty: str, values: bool) -> np.ndarray:
    *extents, element = ty.split("x")
    shape = tuple(map(int, extents))
    if not values:
        return np.zeros(shape, _TYPES[element])
    numbers = np.arange(int(np.prod(shape)), dtype=np.int64) * 40503 % 65537 - 30000
    if element == "f32":
        return (numbers.reshape(shape) / 8).astype(np.float32)
    return numbers.reshape(shape).astype(_TYPES[element])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_computes_what_is_meant(case: Case) -> None:
    x, y = _array(case.x, True), _array(case.y, False)
    body = case.body.replace("%c8m", "%c7")
    if "%c7" in body:
        body = "%c7 = arith.constant 7 : index\n" + body
    text = (
        f"module {{\nfunc.func @f(%x: memref<{case.x}>, %y: memref<{case.y}>) {{\n{body}\n"
        "func.return\n}\n}\n"
    )
    run(text, x, y)
    np.testing.assert_array_equal(y, np.asarray(case.expected(x)).astype(y.dtype))


def test_calls_pass_parts() -> None:
    x, y = _array("2x4xi32", True), _array("8xi32", False)
    run(
        """module {
          func.func @twice(%v: vector<2x4xi32>, %m: memref<?xi32>) -> (vector<2x4xi32>, index) {
            %c0 = arith.constant 0 : index
            %n = memref.dim %m, %c0 : memref<?xi32>
            %s = arith.addi %v, %v : vector<2x4xi32>
            func.return %s, %n : vector<2x4xi32>, index
          }
          func.func @f(%x: memref<2x4xi32>, %y: memref<8xi32>) {
            %c0 = arith.constant 0 : index
            %c1 = arith.constant 1 : index
            %any = memref.cast %y : memref<8xi32> to memref<?xi32>
            %v = vector.load %x[%c0, %c0] : memref<2x4xi32>, vector<2x4xi32>
            %w, %n = func.call @twice(%v, %any) : (vector<2x4xi32>, memref<?xi32>) -> (vector<2x4xi32>, index)
            %flat = vector.shape_cast %w : vector<2x4xi32> to vector<8xi32>
            vector.store %flat, %y[%c0] : memref<8xi32>, vector<8xi32>
            %number = arith.index_cast %n : index to i32
            memref.store %number, %y[%c1] : memref<8xi32>
            func.return
          }
        }""",
        x,
        y,
    )
    expected = 2 * x.ravel()
    expected[1] = 8
    np.testing.assert_array_equal(y, expected)
