"""The spellings that the parser takes: modules, prefixes, generic form, old names, foreign ops."""

from __future__ import annotations

import pytest
from xdsl.dialects import builtin
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr
from xdsl.ir import Operation

from tilewright.diagnostics import TileIRError
from tilewright.dialects.cuda_tile import types as T
from tilewright.dialects.cuda_tile.constants import FloatBitsAttr, TileConstantAttr
from tilewright.dialects.cuda_tile.ops.core import ConstantOp
from tilewright.dialects.cuda_tile.ops.misc import PrintTkoOp
from tilewright.dialects.cuda_tile.ops.module import EntryOp, FuncOp, ModuleOp
from tilewright.dialects.cuda_tile.ops.reductions import ReduceOp
from tilewright.dialects.cuda_tile.type_syntax import format_type
from tilewright.dialects.source_map import TextSource, location_of, source_of
from tilewright.text import parse, same_module


def only(text: str, **options: bool) -> ModuleOp:
    module = parse(text, **options)
    assert isinstance(module, ModuleOp)
    return module


def body(text: str) -> list[Operation]:
    """The operations of a kernel with that body."""
    return list(only(f"entry @k(%i: tile<i32>, %f: tile<f32>) {{\n{text}\n}}").entry().block.ops)


def error_codes(text: str | bytes, **options: bool) -> list[str]:
    with pytest.raises(TileIRError) as caught:
        parse(text, **options)
    return [d.code for d in caught.value.diagnostics]


def test_bare_kernels_and_globals_get_a_module() -> None:
    module = only("global @g <i32: 1> : tile<1xi32>\nentry @k() {}\ntesting$func @f() {}")
    assert module.symbol == "kernels"
    assert [op.name for op in module.block.ops] == [
        "cuda_tile.global",
        "cuda_tile.entry",
        "cuda_tile.testing$func",
    ]
    assert module.parent is None


def test_an_empty_text_is_an_empty_module() -> None:
    assert not list(only("// nothing\n").block.ops)


def test_implicit_modules_can_be_refused() -> None:
    assert error_codes("entry @k() {}", implicit_module=False) == ["bare-operation"]
    assert error_codes("", implicit_module=False) == ["no-module"]
    assert only("cuda_tile.module @m {}", implicit_module=False).symbol == "m"


def test_the_producer_comment_belongs_to_the_implicit_module() -> None:
    assert only("// Producer: a tool 1.0\nentry @k() {}").producer_name == "a tool 1.0"
    explicit = only('// Producer: x\ncuda_tile.module @m attributes {producer = "y"} {}')
    assert explicit.producer_name == "y"


def test_several_modules_come_in_a_builtin_module() -> None:
    module = parse("cuda_tile.module @a {}\ncuda_tile.module @b {}\nentry @k() {}")
    assert isinstance(module, builtin.ModuleOp)
    names = [op.symbol for op in module.ops if isinstance(op, ModuleOp)]
    assert names == ["a", "b", "kernels"]


def test_a_plain_builtin_module_around_one_module_is_dropped() -> None:
    for word in ("module", "builtin.module"):
        assert only(f"{word} {{ cuda_tile.module @a {{ entry @k() {{}} }} }}").symbol == "a"


def test_a_builtin_module_with_name_or_attributes_stays() -> None:
    module = parse("module @top attributes {x = 1 : i32} { cuda_tile.module @a {} }")
    assert isinstance(module, builtin.ModuleOp)
    assert module.sym_name == StringAttr("top")
    assert module.attributes == {"x": IntegerAttr(1, 32)}


def test_prefixes_are_optional_everywhere() -> None:
    short = only(
        "entry @k(%a: tile<4xptr<f32>>) { %0 = ptr_to_int %a : tile<4xptr<f32>> -> tile<4xi64> }"
    )
    long = only(
        "cuda_tile.entry @k(%a: !cuda_tile.tile<4x!cuda_tile.ptr<f32>>) {"
        "%0 = cuda_tile.ptr_to_int %a : !cuda_tile.tile<4xptr<f32>> -> !cuda_tile.tile<4xi64>\n"
        "cuda_tile.return }"
    )
    assert same_module(short, long) is None


def test_generic_form_equals_custom_form() -> None:
    custom = only(
        """cuda_tile.module @m { entry @k(%a: tile<f32>, %c: tile<i1>) {
          %0 = addf %a, %a rounding<zero> flush_to_zero : tile<f32>
          %1 = if %c -> (tile<f32>) { yield %0 : tile<f32> } else { yield %a : tile<f32> }
          return } }"""
    )
    generic = only(
        """"cuda_tile.module"() <{sym_name = "m"}> ({
          "cuda_tile.entry"() ({
          ^bb0(%a: !cuda_tile.tile<f32>, %c: !cuda_tile.tile<i1>):
            %0 = "cuda_tile.addf"(%a, %a) <{flush_to_zero,
                 rounding_mode = #cuda_tile.rounding<zero>}>
                 : (!cuda_tile.tile<f32>, !cuda_tile.tile<f32>) -> !cuda_tile.tile<f32>
            %1 = "cuda_tile.if"(%c) ({
              "cuda_tile.yield"(%0) : (!cuda_tile.tile<f32>) -> ()
            }, {
              "cuda_tile.yield"(%a) : (!cuda_tile.tile<f32>) -> ()
            }) : (!cuda_tile.tile<i1>) -> !cuda_tile.tile<f32>
            "cuda_tile.return"() : () -> ()
          }) {sym_name = "k",
              function_type = (!cuda_tile.tile<f32>, !cuda_tile.tile<i1>) -> ()} : () -> ()
        }) : () -> ()"""
    )
    assert same_module(custom, generic) is None


def test_generic_defaults_are_filled_in() -> None:
    (add, _) = body('%0 = "cuda_tile.addi"(%i, %i) : (tile<i32>, tile<i32>) -> tile<i32>')
    (other, _) = body("%0 = addi %i, %i : tile<i32>")
    assert add.properties == other.properties != {}


def test_dense_in_generic_form_is_a_constant_tile() -> None:
    op, _ = body(
        '%0 = "cuda_tile.constant"() {value = dense<[1.5, 0x7FC00001]> : !cuda_tile.tile<2xf32>}'
        " : () -> !cuda_tile.tile<2xf32>"
    )
    assert isinstance(op, ConstantOp)
    assert isinstance(op.properties["value"], TileConstantAttr)
    assert op.constant.bits() == [0x3FC00000, 0x7FC00001]


def test_dense_of_builtin_types_stays_builtin() -> None:
    (op,) = body("return {a = dense<[1, 2]> : tensor<2xi32>, b = dense<0> : vector<4xi8>}")
    assert all(isinstance(a, builtin.DenseIntOrFPElementsAttr) for a in op.attributes.values())


IDENTITIES = "[0.0 : f32]", "[0x80000000 : f32]", "[#cuda_tile.float_bits<0x0 : f32>]", "#zero"


@pytest.mark.parametrize("identities", IDENTITIES)
def test_identities_of_generic_form_keep_their_bits(identities: str) -> None:
    module = only(
        "entry @k(%x: tile<8xf32>) {\n"
        f'%0 = "cuda_tile.reduce"(%x) <{{dim = 0 : i32, identities = {identities}}}> ({{\n'
        "^bb0(%a: tile<f32>, %b: tile<f32>):\n"
        '"cuda_tile.yield"(%a) : (tile<f32>) -> ()\n'
        "}) : (tile<8xf32>) -> tile<f32>\n}\n#zero = [0.0 : f32]"
    )
    reduce = next(op for op in module.walk() if isinstance(op, ReduceOp))
    (identity,) = reduce.properties["identities"].data
    bits = 0x80000000 if "0x8" in identities else 0
    assert identity == FloatBitsAttr(T.ELEMENT_TYPES["f32"], bits)


@pytest.mark.parametrize(
    "place",
    [
        "<{operandSegmentSizes = array<i32: 1, 1>, %s}>",
        "{operandSegmentSizes = array<i32: 1, 1>, %s}",
    ],
)
def test_segment_sizes_are_property_or_attribute(place: str) -> None:
    properties = 'str = "%d"'
    text = place % properties
    where = (text, "") if text.startswith("<") else ("", text)
    _, op, _ = body(
        "%t = make_token : token\n"
        f'%0 = "cuda_tile.print_tko"(%i, %t) {where[0]} {where[1]} : (tile<i32>, token) -> token'
    )
    assert isinstance(op, PrintTkoOp)
    assert op.properties["operandSegmentSizes"] == DenseArrayBase.from_list(builtin.i32, [1, 1])
    assert "operandSegmentSizes" not in op.attributes
    assert op.token is not None


def test_bool_arrays() -> None:
    (op,) = body("return {inbounds = array<i1: true, false>}")
    found = op.attributes["inbounds"]
    assert isinstance(found, DenseArrayBase)
    assert [bool(v) for v in found.iter_values()] == [True, False]


def test_properties_in_the_dictionary_of_custom_form() -> None:
    op, _ = body(
        "%0 = sqrt %f {rounding_mode = #cuda_tile.rounding<zero>, note = 1 : i8} : tile<f32>"
    )
    same, _ = body("%0 = sqrt %f rounding<zero> : tile<f32>")
    assert op.properties == same.properties
    assert list(op.attributes) == ["note"]


def test_old_spellings() -> None:
    ops = body(
        'print "%d\\n", %i : tile<i32>\n'
        "%p = pow %f, %f : tile<f32>\n"
        "%c = constant dense<[0, 1, 2, 3]> : tile<4xi32>\n"
        "%n = experimental$iota : tile<8xi32>"
    )
    names = [op.name.removeprefix("cuda_tile.") for op in ops]
    assert names == ["print_tko", "fpowf", "constant", "iota", "return"]
    assert ops[2].constant.bits() == [0, 1, 2, 3]
    module = only(
        "experimental$func @foo() -> (tile<i32>, tile<f16>) {\n"
        "%0 = constant dense<0> : tile<i32>\n%1 = constant <f16: 0.0> : tile<f16>\n"
        "return %0, %1 : tile<i32>, tile<f16>\n}"
    )
    (function,) = module.block.ops
    assert isinstance(function, FuncOp)
    assert function.function_type_value.outputs.data == (T.scalar("i32"), T.scalar("f16"))


@pytest.mark.parametrize(
    ("published", "canonical"),
    [
        (
            "partition_view<tile=(4x2), view=tensor_view<8x8xf32, strides=[8,1]>>",
            "partition_view<tile=(4x2), tensor_view<8x8xf32, strides=[8,1]>>",
        ),
        (
            "partition_view<tile=(4x2), view=!cuda_tile.tensor_view<8x8xf32, strides=[8,1]>, "
            "dim_map=[1, 0], padding_value=nan>",
            "partition_view<tile=(4x2), padding_value = nan, "
            "tensor_view<8x8xf32, strides=[8,1]>, dim_map=[1, 0]>",
        ),
        (
            "partition_view<tile=(4), tensor_view<8xf32, strides=[1]>, padding_value=zero>",
            "partition_view<tile=(4), padding_value = zero, tensor_view<8xf32, strides=[1]>>",
        ),
        (
            "strided_view<tile=(4), traversal_strides=[2], view=tensor_view<8xf32, strides=[1]>, "
            "padding_value=zero>",
            "strided_view<tile=(4), traversal_strides=[2], padding_value = zero, "
            "tensor_view<8xf32, strides=[1]>>",
        ),
    ],
)
def test_views_as_the_type_chapter_writes_them(published: str, canonical: str) -> None:
    """``view=`` before the tensor view, the padding behind it."""

    def view(text: str) -> Operation:
        return only(f"testing$func @f(%v: {text}) {{ return }}").block.first_op  # pyright: ignore

    old, new = view(published), view(canonical)
    assert old.regions[0].block.args[0].type == new.regions[0].block.args[0].type
    assert format_type(old.regions[0].block.args[0].type) == canonical


@pytest.mark.parametrize(
    "tail",
    [
        "padding_value=zero, padding_value=zero",
        "dim_map=[0], dim_map=[0]",
        "padding_value=",
        "",
        "note=1",
    ],
)
def test_each_part_of_a_view_comes_once(tail: str) -> None:
    view = f"partition_view<tile=(4), tensor_view<8xf32, strides=[1]>, {tail}>"
    assert error_codes(f"testing$func @f(%v: {view}) {{ return }}")[0] == "syntax"


def test_hints_in_braces() -> None:
    old = only("entry @k() optimization_hints=<{sm_90 = {occupancy = 2}, sm_80 = {}}> {}").entry()
    new = only("entry @k() optimization_hints=<sm_80 = {}, sm_90 = {occupancy = 2}> {}").entry()
    assert old.properties["optimization_hints"] == new.properties["optimization_hints"]
    (load, _) = (
        only(
            "entry @k(%p: tile<ptr<f32>>) { %v, %t = load_ptr_tko weak %p "
            "optimization_hints = <{}> : tile<ptr<f32>> -> tile<f32>, token }"
        )
        .entry()
        .block.ops
    )
    assert load.properties["optimization_hints"].targets == {}
    assert error_codes("entry @k() optimization_hints=<{sm_90 = {}> {}")[0] == "syntax"


def test_a_comma_before_a_token_is_explained() -> None:
    with pytest.raises(TileIRError) as caught:
        only(
            "entry @k(%p: tile<ptr<f32>>) { %t = make_token : token\n"
            "%v, %u = load_ptr_tko weak %p, token = %t : tile<ptr<f32>> -> tile<f32>, token }"
        )
    (error,) = caught.value.diagnostics
    assert error.message == "expected an SSA operand for 'mask' or 'paddingValue', found 'token'"
    assert error.help is not None and "commas are allowed before operands only" in error.help


def test_foreign_dialects_load_on_demand() -> None:
    module = parse(
        """func.func @f(%x: i32, %c: i1) -> i32 {
          %0 = arith.addi %x, %x : i32
          scf.if %c { %1 = arith.constant 3 : i32 }
          return %0 : i32
        }"""
    )
    assert isinstance(module, builtin.ModuleOp)
    names = [op.name for op in module.walk()]
    assert names[1:4] == ["func.func", "arith.addi", "scf.if"]
    assert names[-1] == "func.return"


def test_unregistered_operations_and_attributes() -> None:
    text = """cuda_tile.module @m { entry @k(%a: tile<i32>) {
      %0 = "foo"(%a) {a = !x.t<1, "q">, b = #x.a} : (tile<i32>) -> !x.t
      %1:2 = "x.y"(%0) ({ "z"() : () -> () }) : (!x.t) -> (i32, i64)
      return } }"""
    module = only(text, allow_unregistered=True)
    assert same_module(module, only(text, allow_unregistered=True)) is None
    assert error_codes(text) == ["unknown-op", "unknown-op"]


def test_unknown_names_of_our_dialect_are_errors_even_then() -> None:
    text = 'entry @k() { "cuda_tile.nope"() : () -> ()\n return {a = #cuda_tile.nope<1>} }'
    assert error_codes(text, allow_unregistered=True) == ["unknown-op", "unknown-attribute"]


def test_unregistered_operations_have_no_custom_form() -> None:
    text = "entry @k() { x.y %a : i32\n return }"
    assert error_codes(text, allow_unregistered=True) == ["unknown-op"]


def test_blocks_with_labels_and_successors() -> None:
    text = """func.func @f(%a: i32) {
      "cf.br"(%a)[^next] : (i32) -> ()
    ^next(%x: i32):
      "cf.br"(%x)[^bb7] : (i32) -> ()
    ^bb7(%y: i32):
      func.return
    }"""
    module = parse(text, allow_unregistered=True)
    first, second, third = next(iter(module.ops)).regions[0].blocks
    assert first.last_op is not None and list(first.last_op.successors) == [second]
    assert second.last_op is not None and list(second.last_op.successors) == [third]


def test_forward_references_in_one_region() -> None:
    use, definition, _ = body("%0 = addi %1, %1 : tile<i32>\n%1 = constant <i32: 1> : tile<i32>")
    assert list(use.operands) == [definition.results[0]] * 2


def test_packs_of_results() -> None:
    loop, add, _ = body(
        "%r:2 = loop : tile<i32>, tile<i32> { break %i, %i : tile<i32>, tile<i32> }\n"
        "%s = addi %r#0, %r#1 : tile<i32>"
    )
    assert list(add.operands) == list(loop.results)


def test_names_of_the_text_are_kept_as_hints() -> None:
    module = only("entry @k(%a_1: tile<i32>, %0: tile<i32>) { %x.y-2 = addi %a_1, %0 : tile<i32> }")
    entry = module.entry()
    assert [a.name_hint for a in entry.block.args] == ["a_1", None]
    assert next(iter(entry.block.ops)).results[0].name_hint == "x.y-2"


def test_parameters_without_names_and_with_attributes() -> None:
    module = only(
        "testing$func @f(tile<i32>, tile<f32>) { return }\n"
        "entry @k(%a: tile<i32> {cuda_tile.x = 1 : i32}, %b: tile<i32>) {}"
    )
    function, entry = module.block.ops
    assert isinstance(function, FuncOp) and isinstance(entry, EntryOp)
    assert [a.type for a in function.block.args] == [T.scalar("i32"), T.scalar("f32")]
    assert [len(d.data) for d in entry.properties["arg_attrs"].data] == [1, 0]


def test_strings_may_hold_any_bytes() -> None:
    entry = only('entry @"k\\FF\\C3\\A9 \\22" () { print_tko "é\\0A" -> token }').entry()
    assert entry.symbol.encode("utf-8", "surrogateescape") == b'k\xff\xc3\xa9 "'
    (printing, _) = entry.block.ops
    assert isinstance(printing, PrintTkoOp) and printing.format == "é\n"


def test_line_ends_and_byte_order_marks() -> None:
    assert only(b"\xef\xbb\xbfentry @k() {\r\n  return\r\n}\r\n").entry().symbol == "k"


def test_spans_of_operations_and_parts() -> None:
    text = (
        "entry @k(%i: tile<i32>) {\n  %s = addi %i, %i overflow<no_wrap> : tile<i32>\n  return\n}"
    )
    module = parse(text, "k.tileir")
    assert isinstance(module, ModuleOp)
    add, ret = module.entry().block.ops
    source = source_of(add)
    assert isinstance(source, TextSource)
    assert text[source.start : source.end] == "addi %i, %i overflow<no_wrap> : tile<i32>"
    shown = {part: text[slice(*span)] for part, span in source.parts.items()}
    assert shown["operand", "rhs", 0] == "%i"
    assert shown["attr", "overflow", 0] == "overflow<no_wrap>"
    assert shown["type", "result", 0] == "tile<i32>"
    assert shown["result", "", 0] == "%s"
    location = location_of(ret)
    assert location is not None and (location.file_name, location.line, location.column) == (
        "k.tileir",
        3,
        3,
    )


def test_spans_in_generic_form() -> None:
    text = (
        'entry @k(%i: tile<i32>) {\n %s = "cuda_tile.addi"(%i, %i)'
        " <{overflow = #cuda_tile.overflow<no_wrap>}> : (tile<i32>, tile<i32>) -> tile<i32>\n}"
    )
    add = next(iter(only(text).entry().block.ops))
    source = source_of(add)
    assert isinstance(source, TextSource)
    assert text[source.start :].startswith('"cuda_tile.addi"(')
    shown = {part: text[slice(*span)] for part, span in source.parts.items()}
    assert shown["operand", "rhs", 0] == "%i"
    assert shown["type", "rhs", 0] == "tile<i32>"
    assert shown["type", "result", 0] == "tile<i32>"
    assert shown["attr", "overflow", 0] == "overflow = #cuda_tile.overflow<no_wrap>"
