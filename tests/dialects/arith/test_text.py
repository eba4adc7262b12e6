"""Spellings, the level of a text, and what becomes of text that is wrong."""

from __future__ import annotations

import pytest
from tests.dialects.arith.support import findings, marked, the_op
from xdsl.dialects import arith as stock_arith
from xdsl.dialects.builtin import ModuleOp

from tilewright.dialects import arith
from tilewright.dialects.arith import ArithOp
from tilewright.dialects.nv_tileaa.examples import wrap
from tilewright.text import parse, print_text


@pytest.mark.parametrize(
    ("body", "code", "mark"),
    [
        ("arith.addi %k, %k overflow<nsx> : tile<8xi32>", "bad-keyword", "nsx"),
        ("arith.cmpi lt, %k, %k : tile<8xi32>", "bad-keyword", "lt"),
        ("arith.cmpf uno, %f, %f : tile<8xf32>", "bad-keyword", "uno"),
        ("math.exp %f {rounding_mode = fast} : tile<8xf32>", "bad-keyword", "fast"),
        ("arith.constant 1 : f32", "bad-constant", "1"),
        ("arith.constant 300 : i8", "bad-constant", "300"),
        ("arith.constant 0x100000000 : f32", "bad-constant", "0x100000000"),
        ("arith.constant 0.0 : tile<8xf32>", "bad-constant", "tile<8xf32>"),
        ("arith.constant dense<0> : i32", "bad-constant", "i32"),
        ("arith.constant dense<[1, 2]> : tile<4xi32>", "bad-constant", "[1, 2]"),
        ("arith.constant dense<[1, [2]]> : tile<2xi32>", "bad-constant", "2"),
        ('arith.constant dense<"0x01"> : tile<2xi32>', "bad-constant", '"0x01"'),
        ("arith.constant 0 : !nv_tileaa.ptr<f32, 1>", "bad-constant", "!nv_tileaa.ptr<f32, 1>"),
        ("arith.constant dense<1> : tile<3xi32>", "invalid-type", "tile<3xi32>"),
        ("arith.index_cast %n : i32 -> index", "syntax", "->"),
        ("arith.addi %k, %f : tile<8xi32>", "value-type-mismatch", "%f"),
        ("arith.addd %k, %k : tile<8xi32>", "unknown-op", "arith.addd"),
        ("arith.addi %k : tile<8xi32>", "syntax", ":"),
        ("arith.extsi %n : i32 to i16", "arith-width", "i16"),
        ('"arith.constant"() <{value = 1 : f32}> : () -> f32', "bad-constant", "1"),
        ("math.cos %n : i32", "operand-type", "%n"),
    ],
)
def test_errors_mark_what_is_wrong(body: str, code: str, mark: str) -> None:
    (found,) = findings(wrap(f"%r = {body}"))
    assert found.code == code
    assert marked(found) == mark


def test_constants_of_tiles_are_helped() -> None:
    (found,) = findings(wrap("%r = arith.constant 0.0 : tile<8xf32>"))
    assert "dense<0.0>" in found.help


def test_the_text_tells_its_level() -> None:
    """Only a text that mentions nv_tileaa has the arithmetic of its tiles."""
    body = "func.func @f() {\n  %c = arith.constant 1 : i32\n  func.return\n}"
    for text, expected in (
        (f"builtin.module {{\n{body}\n}}", stock_arith.ConstantOp),
        (f"builtin.module attributes {{nv_tileaa.x}} {{\n{body}\n}}", arith.ConstantOp),
    ):
        module = parse(text)
        (op,) = [op for op in module.walk() if op.name == "arith.constant"]
        assert type(op) is expected


def test_tiles_are_short_in_every_type_position() -> None:
    """In functions and calls of other dialects, in attributes and in aliases."""
    text = """
    !t = tile<8xf32>
    module attributes {nv_tileaa.compute_capability = 90 : i32, held = tile<4xi8>} {
      func.func @g(%a: tile<8xf32>, %b: !t) -> tile<8xf32> {
        func.return %a : !t
      }
      nv_tileaa.func @f(%a: tile<8xf32>, %c: i1) {
        %r = func.call @g(%a, %a) : (tile<8xf32>, !nv_tileaa.tile<8xf32>) -> tile<8xf32>
        %s = scf.if %c -> (tile<8xf32>) {
          scf.yield %r : tile<8xf32>
        } else {
          %p = ub.poison : tile<8xf32>
          scf.yield %p : tile<8xf32>
        }
        nv_tileaa.return
      }
    }
    """
    assert findings(text) == ()
    module = parse(text)
    shown = print_text(module)
    assert "!nv_tileaa.tile" not in shown
    assert shown.count("tile<8xf32>") >= 9
    assert print_text(parse(shown)) == shown
    assert parse(shown).is_structurally_equivalent(module)
    generic = print_text(module, generic=True)
    assert "!nv_tileaa.tile<8xf32>" in generic
    assert parse(generic).is_structurally_equivalent(module)


def test_tiles_keep_their_prefix_where_the_text_does_not_tell_its_level() -> None:
    module = parse("builtin.module {func.func @f(%a: !nv_tileaa.tile<8xf32>) {func.return}}")
    assert isinstance(module, ModuleOp)
    shown = print_text(module)
    assert "!nv_tileaa.tile<8xf32>" in shown
    assert parse(shown).is_structurally_equivalent(module)


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        (
            "arith.addi %n, %n overflow<nuw, nsw> : i32",
            "arith.addi %n, %n overflow<nsw, nuw> : i32",
        ),
        ("arith.addi %n, %n overflow<none> : i32", "arith.addi %n, %n : i32"),
        (
            '"arith.addi"(%n, %n) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32',
            "arith.addi %n, %n : i32",
        ),
        (
            '"arith.addi"(%n, %n) {overflowFlags = #arith.overflow<nsw>} : (i32, i32) -> i32',
            "arith.addi %n, %n overflow<nsw> : i32",
        ),
        ('arith.cmpi "slt", %n, %n : i32', "arith.cmpi slt, %n, %n : i32"),
        ('"arith.cmpf"(%x, %x) {predicate = 4} : (f32, f32) -> i1', "arith.cmpf olt, %x, %x : f32"),
        (
            "arith.select %mask, %f, %g : tile<8xi1>, !nv_tileaa.tile<8xf32>",
            "arith.select %mask, %f, %g : tile<8xi1>, tile<8xf32>",
        ),
        ("arith.select %c, %f, %g : i1, tile<8xf32>", "arith.select %c, %f, %g : tile<8xf32>"),
        (
            "math.tanh %x {rounding_mode = #nv_tileaa<rounding_mode full>, note} : f32",
            "math.tanh %x {note, rounding_mode = #nv_tileaa<rounding_mode full>} : f32",
        ),
    ],
)
def test_spellings(written: str, printed: str) -> None:
    op = the_op(f"%r = {written}", printed.partition(" ")[0])
    assert isinstance(op, ArithOp)
    module = op.get_toplevel_object()
    assert f"%r = {printed}\n" in print_text(module)  # pyright: ignore[reportArgumentType]


def test_operations_in_python() -> None:
    """Operations made without text are those that are read."""
    module = parse(wrap("%r = arith.cmpi ult, %k, %k : tile<8xi32>"))
    (read,) = [op for op in module.walk() if isinstance(op, arith.CmpiOp)]
    made = arith.CmpiOp.compare("ult", read.lhs, read.rhs)
    assert made.is_structurally_equivalent(read, _values_of(made, read))
    assert made.predicate_name == "ult"
    added = arith.AddiOp.of(
        read.lhs, read.rhs, overflowFlags=arith.overflow_attr("no_unsigned_wrap")
    )
    assert added.result.type == read.lhs.type
    assert print_text(added).endswith("overflow<nuw> : tile<8xi32>\n")
    assert arith.overflow_attr("none") is None


def _values_of(made: ArithOp, read: ArithOp) -> dict[object, object]:
    return dict(zip(made.operands, read.operands, strict=True))


def test_broken_operations_are_printed_in_generic_form() -> None:
    """Text for what does not verify: the custom form would hide or change it."""
    from tilewright.analysis.verifier import without_custom_form

    module = parse(wrap('%r = "arith.addi"(%n, %m) : (i32, i64) -> i32'))
    shown = print_text(module, generic_for=without_custom_form(module))
    assert '"arith.addi"(%n, %m) : (i32, i64) -> i32' in shown
    assert parse(shown).is_structurally_equivalent(module)
