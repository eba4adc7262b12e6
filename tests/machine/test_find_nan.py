"""Finding the operation that makes the first NaN, infinities, and conversions that lose values."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
from tilewright import LaunchOptions, TileIRError
from tilewright.machine.find_nan import find_nan
from tilewright.machine.nan_report import NanReport

LOAD = """
  %o = iota : tile<8xi32>
  %r = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
  %b = broadcast %r : tile<1xptr<f32>> -> tile<8xptr<f32>>
  %p = offset %b, %o : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
  %v, %t = load_ptr_tko weak %p : tile<8xptr<f32>> -> tile<8xf32>, token
"""
STORE = "%u = store_ptr_tko weak %p, %w : tile<8xptr<f32>>, tile<8xf32> -> token\n"
SUM = """reduce %q dim=0 identities=[0.0 : f32] : tile<8xf32> -> tile<f32> (%a: tile<f32>, %c: tile<f32>) {
  %y = addf %a, %c : tile<f32>
  yield %y : tile<f32>
}"""
#: A row without its masked elements, and minus its maximum.
SOFTMAX = (
    """
  %few = constant <i32: 5> : tile<8xi32>
  %low = constant <f32: 0xFF800000> : tile<8xf32>
  %in = cmpi less_than %o, %few, signed : tile<8xi32> -> tile<8xi1>
  %m = select %in, %v, %low : tile<8xi1>, tile<8xf32>
  %top = reduce %m dim=0 identities=[0xFF800000 : f32] : tile<8xf32> -> tile<f32> (%a: tile<f32>, %c: tile<f32>) {
    %y = maxf %a, %c : tile<f32>
    yield %y : tile<f32>
  }
  %t1 = reshape %top : tile<f32> -> tile<1xf32>
  %t8 = broadcast %t1 : tile<1xf32> -> tile<8xf32>
  %d = subf %m, %t8 : tile<8xf32>
  %q = exp %d : tile<8xf32>
  %s = """
    + SUM
    + """
  %s1 = reshape %s : tile<f32> -> tile<1xf32>
  %s8 = broadcast %s1 : tile<1xf32> -> tile<8xf32>
  %w = divf %q, %s8 : tile<8xf32>
  """
    + STORE
)
ORDINARY = [1.0, 2, 3, 4, 5, 6, 7, 8]


def report_of(body: str, values: list[float], grid: int = 1) -> NanReport:
    text = f"entry @k(%x: tile<ptr<f32>>) {{{LOAD}{body}}}"
    module = tilewright.parse(text, "nan.tileir")
    tilewright.verify(module)
    return find_nan(module, "k", grid, [np.array(values, np.float32)])


def test_the_first_operation_that_makes_one() -> None:
    body = "%q = divf %v, %v : tile<8xf32>\n%e = exp %q : tile<8xf32>\n%s = " + SUM
    report = report_of(body, [1, 2, 0, 4, 0, 6, 7, 8], 2)
    (found,) = report.findings
    assert (found.kind, found.op.name, found.block, found.index) == (
        *("nan", "cuda_tile.divf"),
        *((0, 0, 0), (2,)),
    )
    assert found.operands == (("%v", "0"), ("%v", "0"))
    assert (found.elements, found.executions) == (4, 2)
    assert (report.later_operations, report.later_elements) == (2, 6)
    (diagnostic,) = report.diagnostics
    assert diagnostic.code == "nan-made" and diagnostic.line == 7
    assert "2 more operations have NaN" in diagnostic.notes[-1].message


@pytest.mark.parametrize(
    ("body", "values", "kind", "index", "operands"),
    [
        ("%w = log %v : tile<8xf32>", [1, 0, *ORDINARY[2:]], "infinity", (1,), "0"),
        ("%w = log %v : tile<8xf32>", [1, -1, *ORDINARY[2:]], "nan", (1,), "-1"),
        ("%w = exp %v : tile<8xf32>", [1, 2, 100, *ORDINARY[3:]], "infinity", (2,), "100"),
        ("%w = mulf %v, %v : tile<8xf32>", [1e30, *ORDINARY[1:]], "infinity", (0,), "1e+30"),
        ("%w = ftof %v : tile<8xf32> -> tile<8xf16>", [7e4, *ORDINARY[1:]], "conversion", (0,), "70000"),
        ("%w = ftof %v : tile<8xf32> -> tile<8xf8E4M3FN>", [465, *ORDINARY[1:]], "conversion", (0,), "465"),
        ("%w = ftoi %v signed : tile<8xf32> -> tile<8xi8>", [1, -129, *ORDINARY[2:]], "conversion", (1,), "-129"),
        ("%w = ftoi %v signed : tile<8xf32> -> tile<8xi8>", [1, 2, np.nan, *ORDINARY[3:]], "conversion", (2,), "nan"),
    ],
)  # fmt: skip
def test_what_is_told(
    body: str, values: list[float], kind: str, index: tuple[int, ...], operands: str
) -> None:
    found = next(f for f in report_of(body, values).findings if f.kind == kind)
    assert found.index == index
    assert found.operands[0] == ("%v", operands)


@pytest.mark.parametrize(
    ("body", "values"),
    [
        (SOFTMAX, ORDINARY),
        ("%w = exp %v : tile<8xf32>", [-np.inf, np.inf, *ORDINARY[2:]]),
        ("%w = ftof %v : tile<8xf32> -> tile<8xf16>", [65519, np.inf, *ORDINARY[2:]]),
        ("%w = ftof %v : tile<8xf32> -> tile<8xf8E4M3FN>", [463, *ORDINARY[1:]]),
        ("%w = ftoi %v signed : tile<8xf32> -> tile<8xi8>", [-128.9, 127.9, *ORDINARY[2:]]),
    ],
)
def test_what_is_on_purpose_is_not_told(body: str, values: list[float]) -> None:
    assert report_of(body, values).is_clean


def test_a_masked_row_that_becomes_nan() -> None:
    report = report_of(SOFTMAX, [-np.inf] * 8)
    first = report.findings[0]
    assert (first.kind, first.op.name) == ("nan", "cuda_tile.subf")
    assert [value for _, value in first.operands] == ["-inf", "-inf"]
    assert len(report.findings) == 1, "what follows is counted"
    assert report.later_operations >= 4


def test_a_nan_in_an_array() -> None:
    report = report_of("%w = absf %v : tile<8xf32>\n" + STORE, [1, 2, 3, np.nan, *ORDINARY[4:]], 2)
    (found,) = report.findings
    assert (found.kind, found.diagnostic().code) == ("loaded nan", "nan-loaded")
    assert any(note.message == "the NaN is in %x[3]" for note in found.notes)
    assert found.executions == 1, "the second tile block loads what the first has stored"


def test_a_nan_that_is_a_constant() -> None:
    body = "%n = constant <f32: 0x7FC00000> : tile<8xf32>\n%w = addf %v, %n : tile<8xf32>\n" + STORE
    (found,) = report_of(body, ORDINARY).findings
    assert (found.kind, found.op.name) == ("stored nan", "cuda_tile.store_ptr_tko")
    assert found.diagnostic().code == "nan-stored"


def test_rearranging_makes_nothing() -> None:
    body = """%g = reshape %v : tile<8xf32> -> tile<2x4xf32>
    %h = permute %g [1, 0] : tile<2x4xf32> -> tile<4x2xf32>
    %n = divf %h, %h : tile<4x2xf32>
    %s = reshape %n : tile<4x2xf32> -> tile<2x2x2xf32>
    %z = permute %s [2, 1, 0] : tile<2x2x2xf32> -> tile<2x2x2xf32>"""
    (found,) = report_of(body, [1, 0, *ORDINARY[2:]]).findings
    assert found.op.name == "cuda_tile.divf"


@pytest.mark.parametrize(
    ("values", "told"), [([3e38] * 8, "cuda_tile.reduce"), ([np.inf, *ORDINARY[1:]], None)]
)
def test_reductions(values: list[float], told: str | None) -> None:
    report = report_of("%q = absf %v : tile<8xf32>\n%s = " + SUM, values)
    assert [f.op.name for f in report.findings] == ([] if told is None else [told])
    if told is not None:
        assert report.findings[0].operands == (("%q", "3e+38"),)


def test_products() -> None:
    text = """entry @k(%x: tile<ptr<f32>>) {
      %a = constant <f32: [[1.0, 2.0], [3.0, 4.0]]> : tile<2x2xf32>
      %b = constant <f32: [[1.0, 3.0e38], [1.0, 3.0e38]]> : tile<2x2xf32>
      %c = constant <f32: 0.0> : tile<2x2xf32>
      %d = mmaf %a, %b, %c : tile<2x2xf32>, tile<2x2xf32>, tile<2x2xf32>
    }"""
    report = find_nan(tilewright.parse(text), "k", 1, [np.zeros(1, np.float32)])
    (found,) = report.findings
    assert (found.kind, found.index, found.elements) == ("infinity", (0, 1), 2)
    assert [value for _, value in found.operands] == ["1 to 2", "3e+38", "0"]


def test_as_an_option_it_raises() -> None:
    text = f"entry @k(%x: tile<ptr<f32>>) {{{LOAD}%w = log %v : tile<8xf32>\n}}"
    module = tilewright.parse(text)
    options = LaunchOptions(find_nan=True)
    tilewright.run(module, "k", 1, [np.ones(8, np.float32)], options=options)
    with pytest.raises(TileIRError, match="infinity-made"):
        tilewright.run(module, "k", 1, [np.zeros(8, np.float32)], options=options)
    with pytest.raises(TileIRError, match="find_nan"):
        tilewright.run(module, "k", 1, [np.zeros(8, np.float32)], "cpu", options)
    with pytest.raises(TileIRError, match="cannot be combined"):
        LaunchOptions(find_nan=True, sanitize=True)


def test_with_another_error() -> None:
    text = f"""entry @k(%x: tile<ptr<f32>>) {{{LOAD}%w = log %v : tile<8xf32>
      %f = constant <i1: false> : tile<i1>
      assert %f, "never" : tile<i1>
    }}"""
    with pytest.raises(TileIRError) as caught:
        find_nan(tilewright.parse(text), "k", 1, [np.zeros(8, np.float32)])
    codes = [diagnostic.code for diagnostic in caught.value.diagnostics]
    assert codes == ["infinity-made", "assertion-failed"]


def test_html_and_json() -> None:
    report = report_of("%w = log %v : tile<8xf32>", [0, *ORDINARY[1:]])
    assert "log produces -inf from finite operands" in report._repr_html_()
    assert report.to_json()["findings"][0]["kind"] == "infinity"  # pyright: ignore[reportIndexIssue]
    assert "no operation produced a NaN" in NanReport()._repr_html_()
