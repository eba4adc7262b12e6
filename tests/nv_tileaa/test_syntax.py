"""The spellings that are read, and what becomes of text that is none of them."""

from __future__ import annotations

import pytest
from tests.nv_tileaa.support import parse, show
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError, VerifyException

from tilewright.analysis.verifier import find_problems
from tilewright.dialects.nv_tileaa import types as T
from tilewright.dialects.nv_tileaa.attributes import ConvParamsAttr, KernelSpecAttr, TargetSpecAttr
from tilewright.dialects.nv_tileaa.enums import MemScopeAttr, RoundingModeAttr
from tilewright.dialects.nv_tileaa.examples import wrap
from tilewright.dialects.nv_tileaa.type_syntax import format_type
from tilewright.dialects.syntax.tokens import CodedParseError

GEMM = """
module {
  nv_tileaa.func @gemm(%a: !nv_tileaa.ptr<f16, 1>, %b: !nv_tileaa.ptr<f16, 1>,
      %c: !nv_tileaa.ptr<f32, 1>, %off: index, %M: index, %N: index, %K: index,
      %rows: index, %cols: index, %i: index, %j: index, %k: index, %acc: tile<128x128xf32>) {
    %t0 = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %pa = nv_tileaa.addptr %a, %off : !nv_tileaa.ptr<f16, 1>, index -> !nv_tileaa.ptr<f16, 1>
    %ma = nv_tileaa.make_memref %pa, %off, %M, %K, %rows, %cols
      : (!nv_tileaa.ptr<f16, 1>, index, index, index, index, index) -> !nv_tileaa.memref<?x?xf16, 1>
    %mb = nv_tileaa.make_memref %b, %K, %N, %rows, %cols
      : (!nv_tileaa.ptr<f16, 1>, index, index, index, index) -> !nv_tileaa.memref<?x?xf16, 1>
    %x, %t1 = nv_tileaa.tiled_load %ma[%i, %k], %t0
      { in_bounds = array<i1: true, true>, operandSegmentSizes = array<i32: 1, 2, 0, 0> }
      : !nv_tileaa.memref<?x?xf16, 1>, index, index, !nv_tileaa.mem_token
      -> tile<128x32xf16>, !nv_tileaa.mem_token
    %y, %t2 = nv_tileaa.tiled_load %mb[%k, %j], %t1
      : !nv_tileaa.memref<?x?xf16, 1>, index, index, !nv_tileaa.mem_token
      -> tile<32x128xf16>, !nv_tileaa.mem_token
    %d = nv_tileaa.dot %x, %y, %acc
      { operandSegmentSizes = array<i32: 1, 1, 1, 0, 0> }
      : tile<128x32xf16>, tile<32x128xf16>, tile<128x128xf32> -> tile<128x128xf32>
    %mc = nv_tileaa.make_memref %c, %off, %M, %N, %rows, %cols
      : (!nv_tileaa.ptr<f32, 1>, index, index, index, index, index) -> !nv_tileaa.memref<?x?xf32, 1>
    %t3 = nv_tileaa.tiled_store %mc[%i, %j], %d, %t2
      { in_bounds = array<i1: true, true>, operandSegmentSizes = array<i32: 1, 1, 2, 0> }
      : !nv_tileaa.memref<?x?xf32, 1>, tile<128x128xf32>, index, index, !nv_tileaa.mem_token
      -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
"""


def the_op(text: str, name: str, **options: object) -> Operation:
    """The operation of that name in an example."""
    module = parse(wrap(text, **options))  # pyright: ignore[reportArgumentType]
    (op,) = [op for op in module.walk() if op.name == f"nv_tileaa.{name}"]
    return op


def segments(op: Operation) -> tuple[int, ...]:
    found = op.properties["operandSegmentSizes"]
    assert isinstance(found, DenseArrayBase)
    return tuple(int(n) for n in found.iter_values())


def test_a_matrix_product_with_a_token_chain() -> None:
    module = parse(GEMM)
    module.verify()
    assert find_problems(module) == []
    for generic in (False, True):
        text = show(module, generic)
        assert show(parse(text), generic) == text
    ops = {op.name: op for op in module.walk()}
    assert segments(ops["nv_tileaa.tiled_store"]) == (1, 1, 2, 0)
    assert segments(ops["nv_tileaa.tiled_load"]) == (1, 2, 0, 0)
    store = ops["nv_tileaa.tiled_store"]
    kinds = ["memref", "tile", "index", "index", "mem_token"]
    assert [v.type.name.partition(".")[2] or str(v.type) for v in store.operands] == kinds


PTRS = "tile<8x!nv_tileaa.ptr<f32, 1>>"


@pytest.mark.parametrize(
    ("operands", "types", "results", "expected"),
    [
        ("%ps", "", "tile<8xf32>", (1, 0, 0, 0)),
        ("%ps, %t", ", !nv_tileaa.mem_token", "tile<8xf32>, !nv_tileaa.mem_token", (1, 0, 0, 0)),
        ("%ps, %mask", ", tile<8xi1>", "tile<8xf32>", (1, 0, 1, 0)),
        ("%ps, %mask, %f", ", tile<8xi1>, tile<8xf32>", "tile<8xf32>", (1, 0, 1, 1)),
        (
            "%ps, %mask, %t",
            ", tile<8xi1>, !nv_tileaa.mem_token",
            "tile<8xf32>, !nv_tileaa.mem_token",
            (1, 0, 1, 0),
        ),
    ],
)
def test_groups_follow_from_types(
    operands: str, types: str, results: str, expected: tuple[int, ...]
) -> None:
    head = "%v" + (", %u" if "," in results else "")
    op = the_op(f"{head} = nv_tileaa.load {operands} : {PTRS}{types} -> {results}", "load")
    assert segments(op) == expected


def test_a_tile_of_booleans_is_a_mask_first() -> None:
    bools = {"pb": "tile<8x!nv_tileaa.ptr<i1, 1>>"}
    text = "%v = nv_tileaa.load %pb, %mask, %mask : tile<8x!nv_tileaa.ptr<i1, 1>>, tile<8xi1>, tile<8xi1> -> tile<8xi1>"
    assert segments(the_op(text, "load", extra=bools)) == (1, 0, 1, 1)


def test_sizes_and_strides_follow_from_the_result() -> None:
    text = (
        "%r = nv_tileaa.make_memref %p32{} : (!nv_tileaa.ptr<f32, 1>{}) -> !nv_tileaa.memref<{}, 1>"
    )
    for operands, result, expected in (
        ("", "4x4xf32, strides = [4, 1]", (1, 0, 0, 0)),
        (", %i", "4x4xf32, strides = [4, 1]", (1, 1, 0, 0)),
        (", %i, %j", "4x?xf32, strides = [?, 1]", (1, 0, 1, 1)),
        (", %i, %j, %i, %j, %i", "?x?xf32", (1, 1, 2, 2)),
    ):
        op = the_op(text.format(operands, ", index" * operands.count("%"), result), "make_memref")
        assert segments(op) == expected


@pytest.mark.parametrize(
    "text",
    [
        "%d = nv_tileaa.dot %a, %b, %acc, %acc "
        ": tile<16x32xf16>, tile<32x8xf16>, tile<16x8xf32>, tile<16x8xf32> -> tile<16x8xf32>",
        f"%v = nv_tileaa.load %ps, %n : {PTRS}, i32 -> tile<8xf32>",
        f"%v = nv_tileaa.load %ps {{operandSegmentSizes = array<i32: 1, 1, 0, 0>}} : {PTRS} -> tile<8xf32>",
        f"%v = nv_tileaa.load %ps {{operandSegmentSizes = array<i32: 1>}} : {PTRS} -> tile<8xf32>",
        f"%v = nv_tileaa.load %ps {{operandSegmentSizes = 4}} : {PTRS} -> tile<8xf32>",
    ],
)
def test_ambiguous_groups_are_refused(text: str) -> None:
    with pytest.raises(CodedParseError) as caught:
        parse(wrap(text))
    assert caught.value.code == "aa-operand-groups"
    assert "operandSegmentSizes = array<i32: ...> counts" in caught.value.help


def test_keywords_and_attributes_are_one() -> None:
    text = "%s = nv_tileaa.addf %f, %g {{rounding_mode = {}}} : tile<8xf32>"
    written = ("rz", "zero", "#nv_tileaa<rounding_mode zero>", "#nv_tileaa<rounding_mode rz>")
    found = {the_op(text.format(w), "addf").properties["rounding_mode"] for w in written}
    assert found == {RoundingModeAttr.of("zero")}
    assert "#nv_tileaa<rounding_mode zero>" in show(parse(wrap(text.format("rz"))))


def test_short_and_full_type_lists_are_one() -> None:
    ops = [
        the_op(f"%s = nv_tileaa.addf %f, %g : {types}", "addf")
        for types in (
            "tile<8xf32>",
            "tile<8xf32>, tile<8xf32> -> tile<8xf32>",
            "(tile<8xf32>, !nv_tileaa.tile<8xf32>) -> (tile<8xf32>)",
        )
    ]
    assert all(op.is_structurally_equivalent(ops[0], {}) is not None for op in ops)
    assert {op.results[0].type for op in ops} == {
        T.TileType([8], ops[0].results[0].type.element_type)
    }  # pyright: ignore[reportAttributeAccessIssue]


def test_bare_integers_take_the_width_of_the_property() -> None:
    op = the_op("%x0 = nv_tileaa.get_program_id {axis = 2} : i32", "get_program_id")
    assert op.properties["axis"] == IntegerAttr(2, 32)
    text = "%r = nv_tileaa.make_memref %p32 {alias_scope = 4294967295} : (!nv_tileaa.ptr<f32, 1>) -> !nv_tileaa.memref<f32, alias_scope = 4294967295, 1>"
    op = the_op(text, "make_memref")
    assert op.properties["alias_scope"] == IntegerAttr(-1, 32)
    op.verify()


def test_discardable_attributes_stay() -> None:
    text = "%s = nv_tileaa.addf %f, %g {rounding_mode = rn, my.note = 7 : i32} : tile<8xf32>"
    op = the_op(text, "addf")
    assert op.attributes == {"my.note": IntegerAttr(7, 32)}
    assert set(op.properties) == {"rounding_mode"}


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (
            "%s = nv_tileaa.addf %f, %g {rounding_mode = up} : tile<8xf32>",
            "bad-keyword",
            "rounding mode",
        ),
        ("%s = nv_tileaa.addf %f, %g {a, a} : tile<8xf32>", "syntax", "'a' is written twice"),
        ("%s = nv_tileaa.addf %f, %g", "syntax", "expected ':' and types"),
        (
            "%s = nv_tileaa.addf %f, %g : tile<8xf32>, tile<8xf32>, i32 -> f32",
            "operand-type-count",
            "expected 2 types",
        ),
        ("%s = nv_tileaa.addf %f, : tile<8xf32>", "syntax", "expected an SSA operand"),
        ("%s = nv_tileaa.sqrt %f : tile<3xf32>", "invalid-type", "powers of two, got [3]"),
        ("%s = nv_tileaa.sqrt %f : tile<f32>", "invalid-type", "scalars are bare elements"),
        ("%s = nv_tileaa.sqrt %f : tile<?xf32>", "syntax", "expected static shape"),
        (
            "%s = nv_tileaa.sqrt %f : tile<8x!nv_tileaa.mem_token>",
            "invalid-type",
            "number, index or a pointer",
        ),
        ("%s = nv_tileaa.sqrt %f : unknown", "unknown-type", "expected a type, found 'unknown'"),
        (
            "%s = nv_tileaa.sqrt %f : !nv_tileaa.ptr<f32, 2>",
            "invalid-type",
            "address space 2 does not exist",
        ),
        ("%s = nv_tileaa.sqrt %f : !nv_tileaa.ptr<i4, 1>", "invalid-type", "pointee must be"),
        (
            "%s = nv_tileaa.sqrt %f : !nv_tileaa.memref<4xf32, strides = [0], 1>",
            "invalid-type",
            "must be positive, got [0]",
        ),
        (
            "%s = nv_tileaa.sqrt %f : !nv_tileaa.memref<4xf32, strides = [1, 1], 1>",
            "invalid-type",
            "got 2 strides for 1 dimensions",
        ),
        ("%s = nv_tileaa.sqrt %f : !nv_tileaa.memref<4xf32, 1, 1>", "syntax", "written twice"),
        (
            "%s = nv_tileaa.sqrt %f : !nv_tileaa.memref<4xf32, alias_scope = -1>",
            "invalid-type",
            "unsigned 32-bit",
        ),
        (
            "%s = nv_tileaa.sqrt %f : !nv_tileaa.tiled_view<8xf16, source = !nv_tileaa.memref<?xf32, 1>>",
            "invalid-type",
            "is that of its source, 'f32'",
        ),
        (
            "%s = nv_tileaa.sqrt %f : !nv_tileaa.queue<!nv_tileaa.mem_token>",
            "invalid-type",
            "a queue carries tiles and scalars",
        ),
        (
            "nv_tileaa.func @g() attributes {kernel_spec = #nv_tileaa.kernel_spec<warps = 4>} {}",
            "bad-record",
            "'warps' is not a field",
        ),
        (
            "nv_tileaa.func @g() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4>} {}",
            "bad-record",
            "needs the field 'clusterDim'",
        ),
        ("nv_tileaa.global @g : f32", "aa-global", "expected a memref, got 'f32'"),
    ],
)
def test_wrong_text_is_told(text: str, code: str, says: str) -> None:
    with pytest.raises(CodedParseError) as caught:
        parse(wrap(text))
    assert caught.value.code == code
    assert says in caught.value.message


@pytest.mark.parametrize("text", ["#nv_tileaa<mem_semantic sc>", "#nv_tileaa<mem_scope device>"])
def test_keywords_of_other_dialects_are_refused(text: str) -> None:
    with pytest.raises(ParseError, match="to be one of"):
        parse(f"module attributes {{a = {text}}} {{}}")


@pytest.mark.parametrize(
    "text",
    [
        "tile<128x32xf16>",
        "tile<128x!nv_tileaa.ptr<f16, 1>>",
        "tile<128xindex>",
        "!nv_tileaa.ptr<f32, 3>",
        "!nv_tileaa.memref<f32, 1>",
        "!nv_tileaa.memref<?x4xf8E4M3FN, strides = [?, 1], alias_scope = 3, 1>",
        "!nv_tileaa.tiled_view<64x32xf16, source = !nv_tileaa.memref<?x?xf16, strides = [?, 1], 1>>",
        '!nv_tileaa.tiled_view<64xf16, source = tile<128xf16>, layout = "rows">',
        "!nv_tileaa.mem_token",
        "!nv_tileaa.program_id",
        "!nv_tileaa.queue<tile<8xf32>, i32, isolated>",
    ],
)
def test_types_print_as_they_are_read(text: str) -> None:
    module = parse(f"module {{ nv_tileaa.func @f(%x: {text}) {{\n nv_tileaa.return\n}} }}")
    (function,) = module.body.block.ops
    assert format_type(function.regions[0].blocks[0].args[0].type) == text


def test_left_out_fields_are_defaults() -> None:
    """Types are equal when they say the same, however much of it is written."""
    pairs = [
        ("!nv_tileaa.ptr<f32>", "!nv_tileaa.ptr<f32, 1>"),
        ("!nv_tileaa.memref<4x4xf32>", "!nv_tileaa.memref<4x4xf32, strides = [?, ?], 1>"),
        (
            "!nv_tileaa.memref<4xf32, 4, alias_scope = 2, strides = [1]>",
            "!nv_tileaa.memref<4xf32, strides = [1], alias_scope = 2, 4>",
        ),
    ]
    for short, full in pairs:
        module = parse(f"module {{ nv_tileaa.func @f(%x: {short}, %y: {full}) {{}} }}")
        (function,) = module.body.block.ops
        first, second = function.regions[0].blocks[0].arg_types
        assert first == second


def test_records_say_what_is_in_them() -> None:
    spec = KernelSpecAttr.of(numWarps=4, clusterDim=[2, 1, 1], occupancy=2)
    assert (
        str(spec) == "#nv_tileaa.kernel_spec<numWarps = 4, clusterDim = [2, 1, 1], occupancy = 2>"
    )
    target = TargetSpecAttr.of(arch="sm_90a", capability=90, features=["tma", "wgmma"])
    assert (target.text("arch"), target.words("features")) == ("sm_90a", ("tma", "wgmma"))
    assert str(target) == (
        '#nv_tileaa.target_spec<arch = "sm_90a", capability = 90, features = [tma, wgmma]>'
    )
    with pytest.raises(VerifyException, match="three positive extents, got \\[2, 1\\]"):
        KernelSpecAttr.of(numWarps=4, clusterDim=[2, 1])
    with pytest.raises(VerifyException, match="numWarps must be positive"):
        KernelSpecAttr.of(numWarps=0, clusterDim=[1, 1, 1])
    with pytest.raises(VerifyException, match="needs the field"):
        ConvParamsAttr.of(filter=[1])


def test_scopes_print_in_mlir_form() -> None:
    assert str(MemScopeAttr.of("cluster")) == "#nv_tileaa<mem_scope cluster>"


def test_loops_carry_tokens() -> None:
    """Tokens and memory operations stand in control flow of other dialects."""
    text = """
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %last = scf.for %s = %zero to %i step %one iter_args(%u = %t) -> (!nv_tileaa.mem_token) {
      %v, %w = nv_tileaa.load %mr[%s, %zero], %u
        : !nv_tileaa.memref<?x?xf32, 1>, index, index, !nv_tileaa.mem_token
        -> f32, !nv_tileaa.mem_token
      %y = nv_tileaa.store %mr[%zero, %s], %v, %w
        : !nv_tileaa.memref<?x?xf32, 1>, f32, index, index, !nv_tileaa.mem_token
        -> !nv_tileaa.mem_token
      scf.yield %y : !nv_tileaa.mem_token
    }
    """
    module = parse(wrap(text))
    module.verify()
    assert find_problems(module) == []
