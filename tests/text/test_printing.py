"""The printed text: layout, names, generic form, and that it reads back as the same module."""

from __future__ import annotations

from io import StringIO
from itertools import product

import pytest
from tests.text.programs import PROGRAMS
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.printer import Printer

from tilewright.dialects.cuda_tile import load
from tilewright.dialects.cuda_tile.base import OPERATIONS
from tilewright.dialects.cuda_tile.examples import wrap
from tilewright.dialects.cuda_tile.ops.control_flow import ForOp
from tilewright.dialects.cuda_tile.ops.module import ModuleOp
from tilewright.text import parse, print_text, same_module

load()
EXAMPLES = {
    f"{name}{index}": wrap(example)
    for name, op_type in OPERATIONS.items()
    for index, example in enumerate(op_type.EXAMPLES)
}


def module_of(text: str) -> ModuleOp:
    module = parse(text)
    assert isinstance(module, ModuleOp)
    return module


def printed_body(text: str) -> list[str]:
    """The lines that a kernel body prints as, without the kernel's own."""
    module = module_of(f"entry @k(%c: tile<i1>) {{\n{text}\n}}")
    return print_text(module, bare=True).splitlines()[1:-2]


def forget_names(module: Operation) -> None:
    for op in module.walk():
        for result in op.results:
            result.name_hint = None
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    argument.name_hint = None


# Round trips


@pytest.mark.parametrize("name", PROGRAMS | EXAMPLES)
def test_printed_text_reads_back(name: str) -> None:
    module = parse((PROGRAMS | EXAMPLES)[name], allow_unregistered=True)
    for generic, locations in product((False, True), repeat=2):
        text = print_text(module, generic=generic, locations=locations)
        again = parse(text, allow_unregistered=True)
        assert same_module(module, again, locations=locations) is None
        assert print_text(again, generic=generic, locations=locations) == text


@pytest.mark.parametrize("name", EXAMPLES)
def test_bare_text_reads_back(name: str) -> None:
    module = module_of(EXAMPLES[name])
    module.properties["sym_name"] = module_of("").properties["sym_name"]
    text = print_text(module, bare=True)
    assert same_module(module, module_of(text)) is None
    assert print_text(module_of(text), bare=True) == text


@pytest.mark.parametrize("name", EXAMPLES)
def test_stock_tools_read_and_write_the_same(name: str) -> None:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(load())

    def stock(text: str) -> Operation:
        (module,) = Parser(context, text).parse_module().ops
        return module

    module = module_of(EXAMPLES[name])
    assert same_module(module, stock(print_text(module))) is None
    for generic in (False, True):
        out = StringIO()
        Printer(out, print_generic_format=generic).print_op(module)
        assert same_module(module, stock(out.getvalue())) is None
        assert same_module(module, parse(out.getvalue())) is None


# Layout


def test_explicit_and_bare_form() -> None:
    text = 'cuda_tile.module @"a b" attributes {producer = "me"} { entry @k() {} }'
    module = module_of(text)
    assert print_text(module) == (
        'cuda_tile.module @"a b" attributes {producer = "me"} {\n'
        "  entry @k() {\n    return\n  }\n}\n"
    )
    assert print_text(module, bare=True) == "// Producer: me\nentry @k() {\n  return\n}\n"
    assert print_text(module_of(""), bare=True) == "\n"


def test_generic_form() -> None:
    module = module_of(
        'entry @k(%x: tile<8xf32>) {\n%t = print_tko "é" -> token\n'
        "%r = reduce %x dim=0 identities=[0.0 : f32] : tile<8xf32> -> tile<f32>\n"
        "(%a: tile<f32>, %b: tile<f32>) { yield %a : tile<f32> }\n"
        "%c = constant <i1: [true, false]> : tile<2xi1>\n}"
    )
    reference = print_text(module, generic=True, reference=True)
    assert reference == (
        '"cuda_tile.module"() <{sym_name = "kernels"}> ({\n'
        '  "cuda_tile.entry"() <{function_type = (!cuda_tile.tile<8xf32>) -> (), '
        'sym_name = "k"}> ({\n'
        "  ^bb0(%x: !cuda_tile.tile<8xf32>):\n"
        '    %t = "cuda_tile.print_tko"() <{operandSegmentSizes = array<i32: 0, 0>, '
        'str = "\\C3\\A9"}> : () -> !cuda_tile.token\n'
        '    %r = "cuda_tile.reduce"(%x) <{dim = 0 : i32, '
        "identities = [0.000000e+00 : f32]}> ({\n"
        "    ^bb0(%a: !cuda_tile.tile<f32>, %b: !cuda_tile.tile<f32>):\n"
        '      "cuda_tile.yield"(%a) : (!cuda_tile.tile<f32>) -> ()\n'
        "    }) : (!cuda_tile.tile<8xf32>) -> !cuda_tile.tile<f32>\n"
        '    %c = "cuda_tile.constant"() <{value = dense<[true, false]> : '
        "!cuda_tile.tile<2xi1>}> : () -> !cuda_tile.tile<2xi1>\n"
        '    "cuda_tile.return"() : () -> ()\n'
        "  }) : () -> ()\n"
        "}) : () -> ()\n"
    )
    ours = reference.replace("\\C3\\A9", "é")
    ours = ours.replace("0.000000e+00 : f32", "#cuda_tile.float_bits<0x0 : f32>")
    ours = ours.replace(
        "dense<[true, false]> : !cuda_tile.tile<2xi1>",
        "#cuda_tile.dense<<i1: [true, false]> : tile<2xi1>>",
    )
    assert print_text(module, generic=True) == ours


def test_the_prefix_is_elided_in_our_regions_only() -> None:
    text = (
        "builtin.module @m {\n  func.func @f(%c: i1) {\n    scf.if %c {\n"
        "      %t = cuda_tile.iota : tile<8xi32>\n    }\n    func.return\n  }\n}\n"
    )
    assert print_text(parse(text)) == text


def test_attributes_print_as_mlir_does() -> None:
    (line,) = printed_body(
        '%t = make_token {z = [1, 2 : i8, 1.5, 1.5 : f32, true], a = {y = 1, x = "q\\FF"}, '
        "f = 0x7FC00000 : f32, s = @g::@h, u, t = !cuda_tile.tile<4xf32>, "
        "p = #cuda_tile.div_by<4>} : token"
    )[:1]
    assert line == (
        '  %t = make_token {a = {x = "q\\FF", y = 1 : i64}, f = 0x7FC00000 : f32, '
        "p = #cuda_tile.div_by<4>, s = @g::@h, t = !cuda_tile.tile<4xf32>, u, "
        "z = [1, 2 : i8, 1.500000e+00, 1.500000e+00 : f32, true]} : token"
    )


def test_operations_that_their_custom_form_cannot_show_print_in_generic_form() -> None:
    module = module_of(
        "entry @k(%i: tile<i32>) {\n"
        '"cuda_tile.for"(%i, %i, %i) ({\n^bb0:\n "cuda_tile.continue"() : () -> ()\n})'
        " : (tile<i32>, tile<i32>, tile<i32>) -> ()\n}"
    )
    assert '"cuda_tile.for"(%i, %i, %i) ({' in print_text(module)
    assert same_module(module, parse(print_text(module))) is None


# Names


def test_names_of_the_text_stay() -> None:
    lines = [
        "  %a_0 = iota : tile<8xi32>",
        "  %x.y, %b:1, %z-1 = get_tile_block_id : tile<i32>",
        "  %r:2 = loop : tile<i32>, tile<i32> {",
        "    break %x.y, %b : tile<i32>, tile<i32>",
        "  }",
        "  %0 = addi %r#0, %r#1 : tile<i32>",
    ]
    assert printed_body("\n".join(lines)) == [line.replace("%b:1", "%b") for line in lines]


def test_numbers_count_a_block_before_its_regions() -> None:
    text = """if %c {
      %5 = make_token : token
      if %c {
        %6 = make_token : token
      }
    }
    %7 = make_token : token
    if %c {
      %8 = make_token : token
    }"""
    names = [line.split("=")[0].strip() for line in printed_body(text) if "=" in line]
    assert names == ["%1", "%2", "%0", "%1"]


def test_equal_names_get_numbers_from_one_counter() -> None:
    module = module_of(
        """entry @k(%p: tile<i32>, %q: tile<i1>) {
      %0 = constant <i32: 1> : tile<i32>
      %1 = constant <i32: 1> : tile<i32>
      %2 = constant <f32: 0.5> : tile<f32>
      %3 = constant <f32: 0.5> : tile<f32>
      if %q { %4 = constant <i32: 1> : tile<i32> }
      if %q { %5 = constant <i32: 1> : tile<i32> }
      %6:2 = for %i in (%p to %p, step %p) : tile<i32> iter_values(%a = %p, %b = %p)
          -> (tile<i32>, tile<i32>) { continue %a, %b : tile<i32>, tile<i32> }
      loop iter_values(%x = %6#1) : tile<i32> { break }
      %7 = assume bounded<0, ?>, %0 : tile<i32>
      %8 = assume bounded<0, ?>, %6#0 : tile<i32>
      %9 = assume bounded<0, ?>, %6#1 : tile<i32>
      %10 = assume bounded<0, ?>, %7 : tile<i32>
      %11 = assume bounded<0, ?>, %p : tile<i32>
    }"""
    )
    forget_names(module)
    lines = print_text(module, bare=True).splitlines()
    assert lines[0] == "entry @k(%arg0: tile<i32>, %arg1: tile<i1>) {"
    assert [line.split("=")[0].strip() for line in lines if " = " in line] == [
        "%cst_1_i32",
        "%cst_1_i32_0",
        "%cst_f32",
        "%cst_f32_1",
        "%cst_1_i32_2",
        "%cst_1_i32_2",
        "%for:2",
        "loop iter_values(%arg2",
        "%assume_cst_1_i32",
        "%assume_for",
        "%assume_",
        "%assume_assume_cst_1_i32",
        "%assume",
    ]
    assert "  %for:2 = for %loopIdx in (%arg0 to %arg0, step %arg0) : tile<i32> " in lines[11]
    assert "iter_values(%iterArg0 = %arg0, %iterArg1 = %arg0)" in lines[11]


def test_generic_form_proposes_no_names() -> None:
    module = module_of("entry @k() { %0 = constant <i32: 1> : tile<i32> }")
    forget_names(module)
    assert '%0 = "cuda_tile.constant"' in print_text(module, generic=True)


def test_values_from_outside_print_with_some_name() -> None:
    module = module_of("entry @k(%n: tile<i32>) { for %i in (%n to %n, step %n) : tile<i32> {} }")
    loop = next(op for op in module.walk() if isinstance(op, ForOp))
    assert print_text(loop).startswith("cuda_tile.for %i in (%outside")


# Comparison


DIFFERENCES = {
    "kind": ("%0 = addi %i, %j : tile<i32>", "operation 'cuda_tile.addi' became 'cuda_tile.subi'"),
    "operand": ("%0 = subi %j, %i : tile<i32>", "operand 0 is another value"),
    "property": ("%0 = subi %i, %j overflow<no_wrap> : tile<i32>", "property 'overflow'"),
    "attribute": ("%0 = subi %i, %j {a} : tile<i32>", "attribute 'a'"),
    "count": ("", "operation 0 (cuda_tile.return)"),
}


@pytest.mark.parametrize("what", DIFFERENCES)
def test_differences_are_named(what: str) -> None:
    line, message = DIFFERENCES[what]
    frame = "entry @k(%i: tile<i32>, %j: tile<i32>) {{ {} }}"
    left, right = (module_of(frame.format(t)) for t in (line, "%z = subi %i, %j : tile<i32>"))
    found = same_module(left, right)
    assert found is not None and message in found
    assert same_module(left, module_of(frame.format(line.replace("%0", "%other")))) is None


def test_locations_are_compared_on_request() -> None:
    left, right = (module_of(f'entry @k() {{ return loc("a":{n}:1) }}') for n in (1, 2))
    assert same_module(left, right) is None
    assert "location" in (same_module(left, right, locations=True) or "")
