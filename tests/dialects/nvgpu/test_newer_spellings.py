"""Spellings of upstream's tools, old and new, and types that they refuse."""

from __future__ import annotations

import pytest
from tests.oracles import requires_mlir_opt, upstream_errors, upstream_texts

from tilewright import verify
from tilewright.diagnostics import Span, TileIRError
from tilewright.text import parse, print_text, same_module

LEGAL = (
    "memref<0x4xf32>",
    "memref<f32>",
    "memref<4xmemref<4xf32>>",
    "memref<4xvector<4xf32>>",
    "memref<4xcomplex<f32>>",
    "memref<4xindex>",
    "memref<*xf32>",
    "memref<4x8xf32, affine_map<(d0, d1) -> (d1, d0)>>",
    "vector<4xindex>",
    "memref<9223372036854775807xf32>",
    "memref<4x4xf32, strided<[-8, ?], offset: 3>>",
    "vector<f32>",
    "vector<4xf8E4M3FN>",
    "vector<[4]xi1>",
    "tensor<4xvector<4xf32>>",
    "tensor<0xf32>",
    "tensor<4x!nvgpu.device.async.token>",
)
REFUSED = (
    "memref<4x!nvgpu.device.async.token>",
    "memref<4x!nvgpu.mbarrier.token>",
    "memref<4x!nvgpu.mbarrier.group<memorySpace = 3>>",
    "memref<4x!nvgpu.warpgroup.accumulator<fragmented = vector<64x128xf32>>>",
    "memref<4x!nvgpu.warpgroup.descriptor<tensor = memref<64x64xf16, 3>>>",
    "memref<4x!gpu.async.token>",
    "memref<4xnone>",
    "memref<4xtensor<4xf32>>",
    "memref<4xtuple<i32>>",
    "memref<4x() -> ()>",
    "memref<*x!nvgpu.device.async.token>",
    "memref<4x8xf32, affine_map<(d0) -> (d0)>>",
    "vector<4x!nvgpu.mbarrier.token>",
    "vector<4x!nvgpu.device.async.token>",
    "vector<0x64xf32>",
    "vector<9223372036854775808xf32>",
    "memref<9223372036854775808xf32>",
    "memref<99999999999999999999999x4xf32>",
    "tensor<9223372036854775808xf32>",
    "memref<4xf32, strided<[9223372036854775808]>>",
    "memref<4xf32, strided<[1], offset: 9223372036854775808>>",
    "memref<4x4xf32, strided<[1]>>",
    "vector<0xf32>",
    "vector<[0]xf32>",
    "vector<4xvector<4xf32>>",
    "vector<4xcomplex<f32>>",
    "vector<4xtensor<4xf32>>",
    "tensor<4xtuple<i32>>",
    "tensor<4xtensor<4xf32>>",
    "tensor<4xmemref<4xf32>>",
    "tuple<vector<0xf32>>",
    "!nvgpu.warpgroup.accumulator<fragmented = vector<0x128xf32>>",
)


def declared(ty: str) -> str:
    return f"func.func private @f({ty})"


@pytest.mark.parametrize("ty", LEGAL)
def test_legal_types(ty: str) -> None:
    module = parse(declared(ty))
    assert same_module(module, parse(print_text(module))) is None


@pytest.mark.parametrize("ty", REFUSED)
def test_refused_types(ty: str) -> None:
    """At the place of the type that breaks the rule, not of what it is a part of."""
    with pytest.raises(TileIRError) as caught:
        parse(declared(ty))
    (found,) = caught.value.diagnostics
    assert found.code == "invalid-type"
    start = declared(ty).index("vector<0" if "vector<0" in ty else ty)
    assert isinstance(found.location, Span) and found.location.start == start


@requires_mlir_opt
@pytest.mark.oracle
def test_upstream_agrees() -> None:
    errors = upstream_errors("mlir-opt-19", [declared(ty) for ty in (*LEGAL, *REFUSED)])
    assert [bool(found) for found in errors] == [False] * len(LEGAL) + [True] * len(REFUSED)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("memref<4x8xf32, affine_map<(d0, d1) -> (d0, d1)>>", "memref<4x8xf32>"),
        ("memref<4x8xf32, affine_map<(d0, d1)[s0] -> (d0, d1)>>", "memref<4x8xf32>"),
        ("memref<f32, affine_map<() -> ()>>", "memref<f32>"),
        ("memref<?xf32, affine_map<(d0) -> (d0)>, 3>", "memref<?xf32, 3>"),
        ("memref<4xf32, 0>", "memref<4xf32>"),
        ("memref<4xf32, 0 : i32>", "memref<4xf32>"),
        ("memref<4xf32, affine_map<(d0) -> (d0)>, 0>", "memref<4xf32>"),
        ("memref<4xf32, strided<[2]>, 0>", "memref<4xf32, strided<[2]>>"),
        ("memref<*xf32, 0>", "memref<*xf32>"),
    ],
)
def test_the_identity_is_no_layout_and_0_no_memory_space(written: str, kept: str) -> None:
    assert same_module(parse(declared(written)), parse(declared(kept))) is None


IDENTITY = """func.func @copy(%a: memref<4x8xf32, affine_map<(d0, d1) -> (d0, d1)>>, %i: index) {
  %x = memref.load %a[%i, %i] : memref<4x8xf32>
  memref.store %x, %a[%i, %i] : memref<4x8xf32, affine_map<(i, j) -> (i, j)>>
  return
}
"""


def test_types_with_and_without_the_identity_are_one() -> None:
    assert print_text(parse(IDENTITY)).count("affine_map") == 0


WHILE = """func.func @wait() {
  scf.while : () -> () {
    %c = arith.constant true
    scf.condition(%c)
  } do {
    scf.yield
  }
  %r = scf.while : () -> i32 {
    %c = arith.constant true
    %v = arith.constant 7 : i32
    scf.condition(%c) %v : i32
  } do {
  ^bb0(%v: i32):
    scf.yield
  }
  %s = scf.while (%a = %r) : (i32) -> i32 {
    %c = arith.constant false
    scf.condition(%c) %a : i32
  } do {
  ^bb0(%v: i32):
    scf.yield %v : i32
  } attributes {k = 1 : i32}
  return
}
"""


def test_loops_that_carry_nothing() -> None:
    module = parse(WHILE)
    text = print_text(module)
    assert text.count("scf.while : () -> ") == 2 and "scf.while (%a = %r) : (i32)" in text
    assert same_module(module, parse(text)) is None
    old = WHILE.replace("scf.while :", "scf.while () :")
    assert same_module(module, parse(old)) is None


@requires_mlir_opt
@pytest.mark.oracle
def test_upstream_reads_the_loops_that_we_print() -> None:
    (text,) = upstream_texts("mlir-opt-19", [print_text(parse(WHILE))])
    assert text.count("scf.while : () -> ") == 2


@pytest.mark.parametrize(
    ("carried", "types"), [("(%a = %r)", "()"), ("", "(i32)"), ("(%a = %r)", "(i32, i32)")]
)
def test_counts_that_do_not_fit(carried: str, types: str) -> None:
    text = f"func.func @f(%r: i32) {{ scf.while {carried} : {types} -> () {{}} do {{}} return }}"
    with pytest.raises(TileIRError, match="one for each carried value"):
        parse(text)


HEAD = """func.func @k(%s: memref<64x64xf16, 3>, %i: index, %a: vector<4x2xf16>, %b: vector<2x2xf16>,
  %c: vector<2x2xf32>, %meta: vector<2xi16>) {
"""
LOAD = "nvgpu.ldmatrix %s[%i, %i]"
LOAD_TYPES = ": memref<64x64xf16, 3> -> vector<4x2xf16>"
PRODUCT_TYPES = ": (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>"
SPARSE_TYPES = ": (vector<4x2xf16>, vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>"


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (
            f"{LOAD} numTiles = 4 transpose = true {LOAD_TYPES}",
            f"{LOAD} {{numTiles = 4 : i32, transpose = true}} {LOAD_TYPES}",
        ),
        (
            f"{LOAD} transpose = false, numTiles = 4 : i32 {{x = 1 : i8}} {LOAD_TYPES}",
            f"{LOAD} {{numTiles = 4 : i32, transpose = false, x = 1 : i8}} {LOAD_TYPES}",
        ),
        (
            f"{LOAD} transpose = true numTiles = 4 {LOAD_TYPES}",
            f"{LOAD} {{transpose = true, numTiles = 4 : i32}} {LOAD_TYPES}",
        ),
        (
            f"nvgpu.mma.sync(%a, %b, %c) mmaShape = [16, 8, 16] {PRODUCT_TYPES}",
            f"nvgpu.mma.sync(%a, %b, %c) {{mmaShape = [16, 8, 16]}} {PRODUCT_TYPES}",
        ),
        (
            "nvgpu.mma.sp.sync(%a, %b, %c) metadata(%meta) mmaShape = [16, 8, 32] "
            f"sparsitySelector = 1 {SPARSE_TYPES}",
            "nvgpu.mma.sp.sync(%a, %b, %c) metadata(%meta) {mmaShape = [16, 8, 32], "
            f"sparsitySelector = 1 : i32}} {SPARSE_TYPES}",
        ),
    ],
)
def test_properties_may_stand_without_braces(new: str, old: str) -> None:
    written, braced = (parse(f"{HEAD}  %r = {text}\n  return\n}}") for text in (new, old))
    assert same_module(written, braced) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("numTiles = 4 numTiles = 4 transpose = true", "'numTiles' is written twice"),
        ("numTiles = 4 {numTiles = 4 : i32, transpose = true}", "'numTiles' is written twice"),
        ("numTiles = 4 colour = 1", "expected ':'"),
        ("numTiles = x transpose = true", "expected"),
    ],
)
def test_what_is_no_property(text: str, message: str) -> None:
    with pytest.raises(TileIRError, match=message):
        parse(f"{HEAD}  %r = {LOAD} {text} {LOAD_TYPES}\n  return\n}}")


ONE_TYPE = """func.func @f(%c: i1, %k: i32, %i: index) -> i32 {
  %x = scf.if %c -> i32 { scf.yield %k : i32 } else { scf.yield %k : i32 }
  %y = scf.for %j = %i to %i step %i iter_args(%a = %x) -> i32 { scf.yield %a : i32 }
  %z = scf.for %j = %k to %k step %k iter_args(%a = %y) -> i32 : i32 { scf.yield %j : i32 } {k}
  scf.if %c { } else { } {l}
  return %z : i32
}
"""


def test_one_type_behind_an_arrow_needs_no_parentheses() -> None:
    module = parse(ONE_TYPE)
    verify(module)
    text = print_text(module)
    assert text.count("-> (i32)") == 3 and same_module(module, parse(text)) is None
    listed = ONE_TYPE.replace("-> i32 {", "-> (i32) {").replace("-> i32 :", "-> (i32) :")
    assert same_module(module, parse(listed.replace("index) -> (i32)", "index) -> i32"))) is None


@requires_mlir_opt
@pytest.mark.oracle
def test_upstream_reads_them_too() -> None:
    texts = upstream_texts("mlir-opt-19", [ONE_TYPE, print_text(parse(ONE_TYPE))])
    assert texts[0] == texts[1]


_VECTORS = "%f: f32, %v: vector<4xf32>, %w: vector<2x4xf32>, %i: index"
FITTING = (
    "vector.extract %v[3] : f32 from vector<4xf32>",
    "vector.extract %w[1] : vector<4xf32> from vector<2x4xf32>",
    "vector.extract %w[%i, 0] : f32 from vector<2x4xf32>",
    "vector.insert %f, %v[3] : f32 into vector<4xf32>",
    "vector.insert %v, %w[0] : vector<4xf32> into vector<2x4xf32>",
    "vector.broadcast %f : f32 to vector<2x4xf32>",
    "vector.broadcast %v : vector<4xf32> to vector<2x4xf32>",
    "vector.broadcast %v : vector<4xf32> to vector<3x1x4xf32>",
)
NOT_FITTING = (
    "vector.extract %v[4] : f32 from vector<4xf32>",
    "vector.extract %w[2] : vector<4xf32> from vector<2x4xf32>",
    "vector.extract %w[1, 4] : f32 from vector<2x4xf32>",
    "vector.extract %w[%i, 4] : f32 from vector<2x4xf32>",
    "vector.extract %w[0] : vector<2xf32> from vector<2x4xf32>",
    "vector.insert %f, %v[4] : f32 into vector<4xf32>",
    "vector.insert %v, %w[2] : vector<4xf32> into vector<2x4xf32>",
    "vector.broadcast %v : vector<4xf32> to vector<4x2xf32>",
    "vector.broadcast %w : vector<2x4xf32> to vector<4xf32>",
    "vector.broadcast %w : vector<2x4xf32> to vector<3x4xf32>",
)


#: Upstream looks at the number of dimensions only.
NOT_A_ROW = "vector.insert %v, %w[0] : vector<4xf32> into vector<2x8xf32>"


def using(op: str) -> str:
    given = _VECTORS.replace("2x4", "2x8") if "2x8" in op else _VECTORS
    return f"func.func @f({given}) {{ %x = {op} return }}"


def test_positions_and_shapes_fit() -> None:
    for op in FITTING:
        verify(parse(using(op)))
    for op in (*NOT_FITTING, NOT_A_ROW):
        with pytest.raises(TileIRError):
            verify(parse(using(op)))
            pytest.fail(op)


@requires_mlir_opt
@pytest.mark.oracle
def test_upstream_agrees_on_positions_and_shapes() -> None:
    errors = upstream_errors("mlir-opt-19", [using(op) for op in (*FITTING, *NOT_FITTING)])
    wanted = [False] * len(FITTING) + [True] * len(NOT_FITTING)
    assert [bool(found) for found in errors] == wanted
