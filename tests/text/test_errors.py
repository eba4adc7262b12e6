"""What the parser says about wrong text: code, place, notes; and how it goes on."""

from __future__ import annotations

import time

import pytest

from tilewright.diagnostics import ByteSpan, Diagnostic, TileIRError
from tilewright.text import parse

KERNEL = "entry @k(%i: tile<i32>, %c: tile<i1>) {{\n{}\n}}\n"


def errors_of(text: str | bytes, **options: bool) -> list[Diagnostic]:
    with pytest.raises(TileIRError) as caught:
        parse(text, "t.tileir", **options)
    return list(caught.value.diagnostics)


def found(text: str | bytes, **options: bool) -> list[tuple[int | None, int | None, str]]:
    return [(d.line, d.column, d.code) for d in errors_of(text, **options)]


def in_kernel(*lines: str) -> list[tuple[int | None, int | None, str]]:
    """(line, column, code) of the errors of a kernel body, whose first line is line 1."""
    places = found(KERNEL.format("\n".join(lines)))
    return [(line - 1 if line else None, column, code) for line, column, code in places]


ONE_ERROR = {
    "missing comma": ("%0 = addi %i %i : tile<i32>", 14, "syntax"),
    "missing type": ("%0 = addi %i, %i", None, "syntax"),
    "bad character": ("%0 = addi %i, ~ : tile<i32>", 15, "syntax"),
    "unterminated string": ('print_tko "abc -> token', 11, "syntax"),
    "long number": (
        f"%0 = alloca num_elem = {'9' * 5000}, alignment = 4 : tile<ptr<i32>>",
        24,
        "syntax",
    ),
    "unknown operation": ("%0 = addq %i, %i : tile<i32>", 6, "unknown-op"),
    "unknown type": ("%0 = iota : tile<8xq>", 20, "unknown-type"),
    "invalid type": ("%0 = iota : tile<3xi32>", 13, "invalid-type"),
    "undefined value": ("%0 = addi %i, %nope : tile<i32>", 15, "undefined-value"),
    "value out of a pack": ("%0 = addi %i, %i#1 : tile<i32>", 15, "undefined-value"),
    "other type": ("%0 = negi %i : tile<i64>", 11, "value-type-mismatch"),
    "redefinition": ("%i = iota : tile<8xi32>", 1, "redefined-value"),
    "too many names": ("%0, %1 = iota : tile<8xi32>", 1, "result-name-count"),
    "bad keyword": ("%0 = exti %i sgned : tile<i32> -> tile<i64>", 14, "bad-keyword"),
    "bad constant": ("%0 = constant <i8: 256> : tile<i8>", 20, "bad-constant"),
    "bad attribute": ("return {a = 300 : i8}", 13, "invalid-attribute"),
    "unknown alias": ("return {a = #nope}", 13, "undefined-alias"),
    "location": ("return loc(17)", 12, "bad-debug-info"),
    "missing property": (
        '%0 = "cuda_tile.cmpi"(%i, %i) : (tile<i32>, tile<i32>) -> tile<i1>',
        6,
        "bad-property",
    ),
    "operand count": ('%0 = "cuda_tile.addi"(%i) : (tile<i32>) -> tile<i32>', 6, "operation-shape"),
    "region count": ('"cuda_tile.if"(%c) : (tile<i1>) -> ()', 1, "operation-shape"),
    "type count": (
        '%0 = "cuda_tile.addi"(%i, %i) : (tile<i32>) -> tile<i32>',
        6,
        "operand-type-count",
    ),
}


@pytest.mark.parametrize("name", ONE_ERROR)
def test_one_error(name: str) -> None:
    text, column, code = ONE_ERROR[name]
    if column is None:
        # The type is missed where the next operation starts.
        assert in_kernel(text, "  return") == [(2, 3, code)]
    else:
        assert in_kernel(text, "return") == [(1, column, code)]


@pytest.mark.parametrize(
    "statement",
    [
        "%c = constant <i1: -false> : tile<i1>",
        "%c = constant <i32: [-true, 1]> : tile<2xi32>",
        "%c = constant <f32: -true> : tile<f32>",
        "%r = reduce %x dim=0 identities=[-true : i1] : tile<8xi1> -> tile<i1> "
        "(%a: tile<i1>, %b: tile<i1>) { yield %a : tile<i1> }",
        "%c = arith.constant -true",
        "%c = arith.constant dense<[-false, true]> : vector<2xi1>",
    ],
)
def test_truth_values_have_no_sign(statement: str) -> None:
    with pytest.raises(TileIRError) as caught:
        parse(f"entry @k(%x: tile<8xi1>) {{\n{statement}\nreturn }}")
    assert caught.value.diagnostics[0].line == 2


def test_messages_say_what_was_expected_and_found() -> None:
    (error,) = errors_of(KERNEL.format("%0 = addi %i %i : tile<i32>"))
    assert error.message == "expected ',', found '%i'"
    (error,) = errors_of(KERNEL.format("%0 = negi %i : tile<i64>"))
    assert error.message == (
        "use of value '%i' expects different type than prior uses: 'tile<i64>' vs 'tile<i32>'"
    )
    assert [n.message for n in error.notes] == ["defined here"]
    (error,) = errors_of(KERNEL.format('%s = "cuda_tile.negi"(%i) : (tile<i32>) -> ()'))
    assert error.message == "'cuda_tile.negi' expects 1 results, got 0"


def test_misspelt_operations_get_a_proposal() -> None:
    for word, proposal in (("adi", "addi"), ("cuda_tile.iotta", "cuda_tile.iota")):
        (error,) = errors_of(KERNEL.format(f"{word} %i, %i : tile<i32>"))
        assert error.help == f"did you mean '{proposal}'?"
    (error,) = errors_of(KERNEL.format('"addi"(%i, %i) : (i32, i32) -> ()'))
    assert error.help == "did you mean 'cuda_tile.addi'?"
    (error,) = errors_of("nv_tileaa.func @f() {\n  %q = nv_tileaa.crate_queue {depth = 1} : i32\n}")
    assert error.help == "did you mean 'nv_tileaa.create_queue'?"
    (error,) = errors_of("nv_tileaa.func @f(%p: !nv_tileaa.prt<f32, 1>) {\n}")
    assert error.help == "did you mean '!nv_tileaa.ptr'?"
    load = "nv_tileaa.load %p {cache_modifer = cg} : !nv_tileaa.ptr<f32, 1> -> f32"
    (error,) = errors_of(f"nv_tileaa.func @f(%p: !nv_tileaa.ptr<f32, 1>) {{\n%v = {load}\n}}")
    assert error.help == "did you mean 'cache_modifier'?"
    assert "'cache_modifer', which is not a property of 'nv_tileaa.load'" in error.message


def test_redefinitions_point_at_the_first() -> None:
    (error,) = errors_of(KERNEL.format("%0 = iota : tile<8xi32>\n%0 = iota : tile<4xi32>"))
    assert (error.line, error.column) == (3, 1)
    (note,) = error.notes
    assert note.location is not None and note.location.line == 2  # pyright: ignore[reportAttributeAccessIssue]


def test_values_are_not_seen_outside_their_region() -> None:
    text = KERNEL.format("if %c { %0 = iota : tile<8xi32> }\n%1 = negi %0 : tile<8xi32>")
    (error,) = errors_of(text)
    assert (error.line, error.code) == (3, "undefined-value")
    assert "region that has ended" in error.notes[0].message


@pytest.mark.parametrize(
    "use",
    [
        "scf.for %i = %a to %a step %inner {",
        "scf.for %i = %inner to %a step %a {",
        "%0 = arith.addi %inner, %a : index\n  scf.for %i = %a to %a step %inner {",
        "%0 = arith.addi %inner, %a : index\n  scf.for %i = %a to %a step %a {",
        "scf.for %i = %i to %a step %a { // %inner",
    ],
)
def test_an_operation_does_not_see_what_its_regions_define(use: str) -> None:
    """Nor does what stands before it, though the name comes later in the text."""
    body = "%inner = arith.constant 1 : index\n  scf.yield\n  }"
    text = f"func.func @f(%a: index) {{\n  {use}\n  {body}\n  return\n}}\n"
    with pytest.raises(TileIRError) as caught:
        parse(text)
    (error,) = caught.value.diagnostics
    assert error.code == "undefined-value"
    (note,) = error.notes
    assert "in a region inside" in note.message


def test_kernels_do_not_see_each_other() -> None:
    text = "entry @a(%x: tile<i32>) {}\nentry @b() { %0 = negi %x : tile<i32> }"
    assert found(text) == [(2, 24, "undefined-value")]


def test_forward_references_need_the_type_of_the_definition() -> None:
    lines = ("%0 = negi %1 : tile<i64>", "%1 = iota : tile<8xi32>")
    assert in_kernel(*lines) == [(1, 11, "value-type-mismatch")]


def test_five_independent_errors_in_one_run() -> None:
    text = """cuda_tile.module @m {
  entry @a(%n: tile<i32>, %c: tile<i1>) {
    %0 = addi %n, %missing : tile<i32>
    %1 = adi %n, %n : tile<i32>
    %2 = addi %1, %1 : tile<i32>
    %3 = addf %1, %2 : tile<f32>
    for %i in (%n to %n, step %n) : tile<i32> {
      %4 = muli %i %i : tile<i32>
      %5 = muli %4, %i : tile<i32>
    }
    if %c {
      %6 = constant <f32: 1> : tile<f32>
    }
    return
  }
  entry @b(%n: tile<i32) {
    %0 = exti %n sgned : tile<i32> -> tile<i64>
    return
  }
}
"""
    assert found(text) == [
        (3, 19, "undefined-value"),
        (4, 10, "unknown-op"),
        (6, 19, "value-type-mismatch"),
        (8, 20, "syntax"),
        (12, 27, "bad-constant"),
        (16, 24, "syntax"),
        (17, 18, "bad-keyword"),
    ]


def test_uses_of_poison_are_not_reported() -> None:
    lines = (
        "%a, %b:2 = nonsense %i",
        "%0 = addi %a, %b#1 : tile<i32>",
        "%1 = addf %a, %0 : tile<f32>",
        "%2 = addf %b#7, %b#7 : tile<f32>",
    )
    assert in_kernel(*lines) == [(1, 12, "unknown-op"), (3, 15, "value-type-mismatch")]


def test_bodies_are_read_though_the_head_is_wrong() -> None:
    lines = (
        "%r = for %k in (%i to %i, step %i) : tile<q> iter_values(%s = %i) -> (tile<i32>) {",
        "  %0 = addi %k, %s : tile<i32>",
        "  %1 = addi %0, %nope : tile<i32>",
        "  continue %1 : tile<i32>",
        "}",
        "%2 = addi %r, %i : tile<i32>",
    )
    assert in_kernel(*lines) == [(1, 43, "unknown-type"), (3, 17, "undefined-value")]


def test_a_missing_brace_is_reported_once_with_its_region() -> None:
    text = KERNEL.format("if %c {\n%0 = iota : tile<8xi32>")
    (error,) = errors_of(text)
    assert error.code == "syntax" and "expected '}'" in error.message
    assert error.notes[0].message == "the region starts here"


def test_a_brace_too_many_is_reported_at_file_level() -> None:
    text = KERNEL.format("return") + "}\nentry @b() { oops }"
    assert found(text) == [(4, 1, "syntax"), (5, 14, "unknown-op")]


def test_undefined_blocks() -> None:
    text = 'func.func @f() {\n"cf.br"()[^bb2] : () -> ()\n}'
    assert found(text, allow_unregistered=True) == [(2, 11, "undefined-block")]
    text = "func.func @f() {\nfunc.return\n^a:\nfunc.return\n^a:\nfunc.return\n}"
    assert found(text) == [(5, 1, "undefined-block")]


def test_reading_stops_after_a_hundred_errors() -> None:
    codes = [code for *_, code in in_kernel(*["nonsense"] * 500)]
    assert codes == ["unknown-op"] * 100 + ["too-many-errors"]


def test_bytes_that_are_no_utf8() -> None:
    (error,) = errors_of(b"entry @k() { return }\n// \xff")
    assert error.code == "invalid-utf8"
    assert isinstance(error.location, ByteSpan) and error.location.offset == 25
    assert errors_of("return // \ud800")[0].code == "invalid-utf8"


DEEP = {
    "regions": "if %c {" * 3000,
    "attributes": "return {a = " + "[" * 3000,
    "types": "%0 = iota : " + "tile<" * 3000,
    "builtin types": "return {a = " + "tuple<" * 3000,
    "function types": "return {a = " + "(" * 3000,
    "dictionaries": "return " + "{a = " * 3000,
    "locations": "return loc(" + "callsite(" * 3000,
    "affine expressions": "return {a = affine_map<(d0) -> (" + "(" * 20000,
    "dense": "return {a = dense<" + "[" * 3000 + ">",
}


@pytest.mark.parametrize("what", DEEP)
def test_deep_nesting_is_an_error(what: str) -> None:
    errors = errors_of(KERNEL.format(DEEP[what]))
    expected = {"syntax"} if what == "dense" else {"nesting-too-deep"}
    assert {e.code for e in errors} == expected


def test_a_hundred_and_fifty_nested_regions_are_read() -> None:
    parse(KERNEL.format("if %c {" * 150 + "}" * 150))


HOSTILE = {
    "wide integer type": "return {a = 1 : i99999999999}",
    "wide dense": "return {a = dense<1> : tensor<99999999999999xi8>}",
    "hexadecimal": f"return {{a = 0x{'F' * 900} : i32}}",
    "float too large": "return {a = array<f16: 1.0e300>}",
    "hex float": "return {a = 0xFFFFFFFFFFFFFFFF : f32}",
    "odd float type": "return {a = 1.0 : f80}",
    "integer array": "return {a = array<i99: 1>}",
    "affine map": "return {a = affine_map<(d0) -> (d1)>}",
    "resource": "return {a = dense_resource<x> : i32}",
    "nul": "return \0",
    "count": "%a:99999999999999999999 = iota : tile<8xi32>",
    "index": "%0 = negi %i#99999999999999999999 : tile<i32>",
    "opaque": 'return {a = opaque<"x">}',
    "foreign": "arith.constant 1 : f99\nscf.for %a\nfunc.func @f(",
    "float bits": "return {a = #cuda_tile.float_bits<0xFFFFFFFFFFFFFFFFFFFF : f32>}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_gives_diagnostics(name: str) -> None:
    started = time.process_time()
    assert errors_of(KERNEL.format(HOSTILE[name]))
    assert time.process_time() - started < 5


@pytest.mark.parametrize("kind", ["i", "f"])
@pytest.mark.parametrize("literal", ["9" * 100_000, "0x" + "F" * 100_000, "9" * 100_000 + ".0"])
def test_long_literals_give_short_messages(literal: str, kind: str) -> None:
    (error,) = errors_of(KERNEL.format(f"%0 = constant <{kind}64: {literal}> : tile<{kind}64>"))
    assert error.code == "syntax"
    assert error.message == "a number literal has at most 1000 characters"


def test_messages_about_long_types_are_short() -> None:
    shape = "1x" * 10_000
    (error,) = errors_of(KERNEL.format(f"%0 = negi %i : tile<{shape}3xi32>"))
    assert "all dimensions must be powers of two" in error.message
    assert len(error.message) <= 2000


def test_aliases_may_not_be_circular_huge_or_defined_twice() -> None:
    assert found("#a = [#b]\n#b = [#a]\n" + KERNEL.format("return {x = #a}")) == [
        (2, 7, "bad-alias")
    ]
    tower = "#a0 = [1]\n" + "".join(f"#a{i + 1} = [#a{i}, #a{i}]\n" for i in range(60))
    assert {e.code for e in errors_of(tower)} == {"bad-alias"}
    assert found("#a = 1\n#a = 2\n") == [(2, 1, "bad-alias")]


def test_metadata_sections() -> None:
    assert errors_of("{-# nonsense: {} #-}")[0].code == "syntax"
