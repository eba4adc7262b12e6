"""The project's own parser and printer read and write the dialect, and errors point at the text."""

from __future__ import annotations

import pytest

from tilewright.analysis.verifier import find_problems
from tilewright.diagnostics import Diagnostic, Span, TileIRError
from tilewright.dialects.nv_tileaa import load
from tilewright.dialects.nv_tileaa.base import OPERATIONS
from tilewright.dialects.nv_tileaa.examples import wrap
from tilewright.text import parse, print_text

load()

EXAMPLES = [
    pytest.param(example, id=f"{name}-{number}")
    for name, op in OPERATIONS.items()
    for number, example in enumerate(op.EXAMPLES)
]


def findings(body: str) -> tuple[Diagnostic, ...]:
    try:
        return tuple(find_problems(parse(wrap(body))))
    except TileIRError as error:
        return error.diagnostics


@pytest.mark.parametrize("example", EXAMPLES)
def test_printing_is_a_fixpoint(example: str) -> None:
    module = parse(wrap(example))
    text, generic = print_text(module), print_text(module, generic=True)
    assert print_text(parse(text)) == text
    assert print_text(parse(generic), generic=True) == generic
    assert print_text(parse(generic)) == text
    assert find_problems(module) == []


@pytest.mark.parametrize(
    ("body", "code", "marked"),
    [
        (
            "%v = nv_tileaa.load %pi {mem_semantic = weak, mem_scope = gpu} "
            ": !nv_tileaa.ptr<i32, 1> -> i32",
            "aa-memory-order",
            "gpu",
        ),
        (
            "nv_tileaa.store %mr[%i], %x : !nv_tileaa.memref<?x?xf32, 1>, f32, index",
            "aa-index-count",
            "%i",
        ),
        (
            "%d = nv_tileaa.dot %a, %b, %f "
            ": tile<16x32xf16>, tile<32x8xf16>, tile<8xf32> -> tile<8xf32>",
            "aa-dot-shape",
            "tile<8xf32>",
        ),
        (
            "%v = nv_tileaa.load %ps, %k "
            ": tile<8x!nv_tileaa.ptr<f32, 1>>, tile<8xi32> -> tile<8xf32>",
            "aa-operand-groups",
            "%ps, %k : tile<8x!nv_tileaa.ptr<f32, 1>>, tile<8xi32> -> tile<8xf32>",
        ),
        (
            "%v, %u = nv_tileaa.load %ps, %k, %t : tile<8x!nv_tileaa.ptr<f32, 1>>, tile<8xi32>, "
            "!nv_tileaa.mem_token -> tile<8xf32>, !nv_tileaa.mem_token",
            "operand-type",
            "tile<8xi32>",
        ),
        (
            "%v, %u = nv_tileaa.load %ps, %t : tile<8x!nv_tileaa.ptr<f32, 1>>, !nv_tileaa.mem_token "
            "-> tile<8xf64>, !nv_tileaa.mem_token",
            "aa-pointee",
            "tile<8xf64>",
        ),
        ("%u = nv_tileaa.create_mem_token : i32", "result-type", "i32"),
        (
            "%r = nv_tileaa.get_global @tabel : !nv_tileaa.ptr<f32, 1>",
            "aa-unknown-symbol",
            "@tabel",
        ),
        (
            "%v:2 = nv_tileaa.optimization_barrier %f, %n : tile<8xf32>, i32 -> tile<8xf32>, i64",
            "aa-shape",
            "i64",
        ),
        ("%v = nv_tileaa.sqrt %f : tile<3xf32>", "invalid-type", "tile<3xf32>"),
        ("%v = nv_tileaa.sqrtt %f : tile<8xf32>", "unknown-op", "nv_tileaa.sqrtt"),
        (
            '%v = "nv_tileaa.get_program_id"() <{axis = 5 : i32}> : () -> i32',
            "aa-axis",
            "axis = 5 : i32",
        ),
    ],
)
def test_errors_mark_what_is_wrong(body: str, code: str, marked: str) -> None:
    (found,) = findings(body)
    assert found.code == code
    assert isinstance(found.location, Span)
    text = found.location.file.text[found.location.start : found.location.end]
    assert text == marked


def test_generic_form_counts_without_the_token() -> None:
    load_ = (
        '%v:2 = "nv_tileaa.load"(%ps, %t) {{operandSegmentSizes = array<i32: {}>}} '
        ": (!nv_tileaa.tile<8x!nv_tileaa.ptr<f32, 1>>, !nv_tileaa.mem_token) "
        "-> (!nv_tileaa.tile<8xf32>, !nv_tileaa.mem_token)"
    )
    assert findings(load_.format("1, 0, 0, 0")) == ()
    (found,) = findings(load_.format("1, 0, 0, 0, 1"))
    assert found.code == "bad-property"


def test_short_tiles_are_read_everywhere() -> None:
    """In type slots, in the generic form and in block labels a tile needs no prefix."""
    for body in (
        '%v = "nv_tileaa.sqrt"(%f) : (tile<8xf32>) -> tile<8xf32>',
        "%r = nv_tileaa.execute %f : tile<8xf32> -> tile<8xf32> {\n"
        "^bb0(%v: tile<8xf32>):\n  nv_tileaa.yield %v : tile<8xf32>\n}",
    ):
        assert findings(body) == ()
