"""Whole programs with control flow read, verify and survive printing; damage is told."""

from __future__ import annotations

import pytest
from tests.dialects.arith.programs import PROGRAMS
from tests.dialects.arith.support import findings, marked

from tilewright.analysis.verifier import find_problems, without_custom_form
from tilewright.dialects.nv_tileaa.examples import wrap
from tilewright.text import parse, print_text


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, generic: bool) -> None:
    module = parse(PROGRAMS[name])
    assert [d.brief() for d in find_problems(module)] == []
    module.verify()
    text = print_text(module, generic=generic)
    again = parse(text)
    assert again.is_structurally_equivalent(module)
    assert print_text(again, generic=generic) == text
    assert find_problems(again) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "code", "mark"),
    [
        ("axpy", "arith.index_cast %at", "arith.extsi %at", "result-type", "tile<256xindex>"),
        ("axpy", "dense<-0.0>", "dense<-0>", "bad-constant", "-0"),
        ("axpy", "arith.cmpi ult,", "arith.cmpi lt,", "bad-keyword", "lt"),
        ("axpy", "%as, %vx, %vy", "%as, %vx, %nothing", "undefined-value", "%nothing"),
        ("axpy", "= [1, 1, 1]>", "= [1, 1]>", "invalid-attribute", None),
        (
            "product",
            "scf.yield %d, %tn : tile<64x64xf32>, !nv_tileaa.mem_token",
            "scf.yield %d : tile<64x64xf32>",
            "scf-end",
            "scf.yield %d : tile<64x64xf32>",
        ),
        ("product", "%s = %init, %t", "%s = %t0, %t", "value-type-mismatch", "%t0"),
        ("product", "%pi : i32 to index", "%pi : i32 to i64", "value-type-mismatch", "%i"),
        ("product", "array<i64: 64, 64>", "array<i64: 64>", "aa-tiling", "array<i64: 64>"),
        (
            "collectives",
            "maxsi %x, %acc : i32",
            "maxsi %x, %x : tile<64xi32>",
            "value-type-mismatch",
            "%x",
        ),
        ("collectives", "nv_tileaa.yield %s", "scf.yield %s", "aa-terminator", None),
        (
            "order",
            "mem_semantic acquire",
            "mem_semantic release",
            "aa-memory-order",
            "#nv_tileaa<mem_semantic release>",
        ),
        ("order", "1, 1, 1, 0, 1>", "1, 1, 1, 1, 1>", "aa-operand-groups", None),
        ("mixed", "div_by<16>", "div_by<12>", "aa-assumption", "[#nv_tileaa.div_by<12>]"),
        ("mixed", "1, 0, 0, 0>}\n", "1, 0, 0, 1>}\n", "operand-type", "!nv_tileaa.mem_token"),
        (
            "control",
            "scf.condition(%more) %a, %x : tile<8xf32>, f32",
            "scf.condition(%more) %a : tile<8xf32>",
            "scf-end",
            "scf.condition(%more) %a : tile<8xf32>",
        ),
        ("control", "(%a: tile<8xf32>, %y", "(%a: tile<4xf32>, %y", "value-type-mismatch", "%a"),
        ("control", "poison : tile<8xf32>", "poison : tile<9xf32>", "invalid-type", "tile<9xf32>"),
        ("control", "} do {", "} {", "syntax", "{"),
        ("control", "-> (i32) : i32 {", "-> (i32) {", "value-type-mismatch", "%zero"),
    ],
)
def test_damage_is_told(name: str, old: str, new: str, code: str, mark: str | None) -> None:
    program = PROGRAMS[name]
    assert old in program
    found = findings(program.replace(old, new, 1))
    assert found[0].code == code, [d.brief() for d in found]
    assert mark in (None, marked(found[0]))


_IF = "%r = scf.if %c -> (tile<8xf32>) {{\n  scf.yield {} : {}\n}}"
_FOR = "%r = scf.for %h = %i to %j step %i iter_args(%v = %f) -> (tile<8xf32>) {{\n{}\n}}"
_WHILE = """%r = scf.while (%v = %f) : (tile<8xf32>) -> (f32) {{
  {}
}} do {{
^bb0({}):
  scf.yield {}
}}"""


@pytest.mark.parametrize(
    ("bad", "code", "says", "good"),
    [
        (
            _IF.format("%f", "tile<8xf32>"),
            "scf-body",
            "an 'scf.if' that has results needs an else",
            _IF.format("%f", "tile<8xf32>") + " else {\n  scf.yield %g : tile<8xf32>\n}",
        ),
        (
            _IF.format("%n", "i32") + " else {\n  scf.yield %g : tile<8xf32>\n}",
            "scf-end",
            "expected 'scf.yield' to pass (tile<8xf32>), got (i32)",
            _IF.format("%f", "tile<8xf32>") + " else {\n  scf.yield %g : tile<8xf32>\n}",
        ),
        (
            _FOR.format("  scf.yield %k : tile<8xi32>"),
            "scf-end",
            "expected 'scf.yield' to pass (tile<8xf32>), got (tile<8xi32>)",
            _FOR.format("  scf.yield %v : tile<8xf32>"),
        ),
        (
            _FOR.format(""),
            "scf-end",
            "expected region #0 of 'scf.for' to end with 'scf.yield', but it is empty",
            _FOR.format("  scf.yield %g : tile<8xf32>"),
        ),
        (
            _WHILE.format("scf.condition(%c) %x : f32", "%w: i32", "%f : tile<8xf32>"),
            "scf-body",
            "expected arguments of types (f32) in region #1 of 'scf.while', got (i32)",
            _WHILE.format("scf.condition(%c) %x : f32", "%w: f32", "%f : tile<8xf32>"),
        ),
        (
            _WHILE.format("scf.yield %x : f32", "%w: f32", "%f : tile<8xf32>"),
            "scf-end",
            "to end with 'scf.condition', but the last operation is 'scf.yield'",
            _WHILE.format("scf.condition(%c) %x : f32", "%w: f32", "%f : tile<8xf32>"),
        ),
        (
            _WHILE.format("scf.condition(%c) %x : f32", "%w: f32", "%w : f32"),
            "scf-end",
            "expected 'scf.yield' to pass (tile<8xf32>), got (f32)",
            _WHILE.format("scf.condition(%c) %x : f32", "%w: f32", "%g : tile<8xf32>"),
        ),
        (
            '"scf.while"(%f) ({ }, { }) : (tile<8xf32>) -> ()',
            "scf-body",
            "expected one block in region #0 of 'scf.while', got 0",
            '"scf.while"(%f) ({\n^bb0(%v: tile<8xf32>):\n  "scf.condition"(%c) : (i1) -> ()\n'
            '}, {\n^bb0:\n  "scf.yield"(%f) : (tile<8xf32>) -> ()\n}) : (tile<8xf32>) -> ()',
        ),
        (
            '"scf.for"(%i, %j, %n) ({\n^bb0(%h: index):\n  "scf.yield"() : () -> ()\n}) '
            ": (index, index, i32) -> ()",
            "scf-values",
            "expected bounds and step of one type, got (index, index, i32)",
            '"scf.for"(%i, %j, %j) ({\n^bb0(%h: index):\n  "scf.yield"() : () -> ()\n}) '
            ": (index, index, index) -> ()",
        ),
        (
            '%r = "scf.for"(%i, %j, %i, %f) ({\n^bb0(%h: index, %v: tile<8xf32>):\n'
            '  "scf.yield"(%v) : (tile<8xf32>) -> ()\n}) '
            ": (index, index, index, tile<8xf32>) -> i32",
            "scf-values",
            "expected results of the loop-carried types, (tile<8xf32>), got (i32)",
            '%r = "scf.for"(%i, %j, %i, %f) ({\n^bb0(%h: index, %v: tile<8xf32>):\n'
            '  "scf.yield"(%v) : (tile<8xf32>) -> ()\n}) '
            ": (index, index, index, tile<8xf32>) -> tile<8xf32>",
        ),
        (
            "scf.for %h = %i to %j step %i {\n} {unsignedCmp = 1 : i32}",
            "scf-values",
            "'unsignedCmp' must be a unit attribute",
            "scf.for %h = %i to %j step %i {\n} {unsignedCmp}",
        ),
    ],
)
def test_rules_of_control_flow(bad: str, code: str, says: str, good: str) -> None:
    found = findings(wrap(bad))
    assert found[0].code == code, [d.brief() for d in found]
    assert says in found[0].message
    assert findings(wrap(good)) == ()
    module = parse(wrap(bad))
    text = print_text(module, generic_for=without_custom_form(module))
    assert parse(text).is_structurally_equivalent(module)


def test_unsigned_loops() -> None:
    """Upstream's spelling is read; the mark is a discardable attribute, as xDSL has no field."""
    loop = "scf.for unsigned %h = %n to %n step %n : i32 {\n}"
    module = parse(wrap(loop))
    (op,) = [op for op in module.walk() if op.name == "scf.for"]
    assert set(op.attributes) == {"unsignedCmp"}
    text = print_text(module)
    assert "{unsignedCmp}" in text
    assert parse(text).is_structurally_equivalent(module)
    assert parse(print_text(module, generic=True)).is_structurally_equivalent(module)
