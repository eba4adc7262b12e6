"""Conversions between floats: rounding modes, widths, and what upstream says of them."""

from __future__ import annotations

import pytest
from tests.dialects.nvgpu.support import Case, case_name, print_again, problems
from tests.oracles import requires_mlir_opt, upstream_errors, upstream_texts

from tilewright.dialects.nvgpu.examples import wrap
from tilewright.dialects.upstream.arith.floats import ROUNDING_MODES

EXTRA = {"x": "f32", "h": "f16", "g": "bf16", "e": "f8E4M3FN", "xs": "vector<4xf32>", "d": "f64"}
_CVT = "%l = nvvm.cvt.float.to.tf32 %x"


def _case(op: str, code: str, says: str, bad: str, good: str) -> Case:
    return Case(op, code, says, bad, good, EXTRA)


ARITH = [
    _case(
        "arith.extf",
        "nvgpu-element-type",
        "expected a wider type than 'bf16', got 'f16'",
        "%l = arith.extf %g : bf16 to f16",
        "%l = arith.extf %g : bf16 to f32",
    ),
    _case(
        "arith.truncf",
        "nvgpu-element-type",
        "expected a narrower type than 'f16', got 'f32'",
        "%l = arith.truncf %h : f16 to f32",
        "%l = arith.truncf %h : f16 to f8E5M2",
    ),
    _case(
        "arith.truncf",
        "nvgpu-fragment",
        "expected a result of the shape of 'vector<4xf32>', got 'vector<5xf16>'",
        "%l = arith.truncf %xs : vector<4xf32> to vector<5xf16>",
        "%l = arith.truncf %xs : vector<4xf32> to vector<4xf16>",
    ),
]
CASES = [
    *ARITH,
    _case(
        "nvvm.cvt.float.to.tf32",
        "nvvm-rounding",
        "expected the rounding mode rn, rna or rz, got none",
        _CVT,
        f"{_CVT} {{rnd = #nvvm.fp_rnd_mode<rna>}}",
    ),
    _case(
        "nvvm.cvt.float.to.tf32",
        "nvvm-rounding",
        "relu requires rounding rn or rz",
        f"{_CVT} {{relu = true, rnd = #nvvm.fp_rnd_mode<rna>}}",
        f"{_CVT} {{relu = true, rnd = #nvvm.fp_rnd_mode<rz>, sat = #nvvm.sat_mode<satfinite>}}",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_rule(case: Case) -> None:
    found = case.problems()
    assert [d.code for d in found] == [case.code], [d.brief() for d in found]
    assert case.says in found[0].message
    assert [d.brief() for d in case.twin_problems()] == []


def _legal() -> list[str]:
    bodies = [case.good for case in ARITH]
    bodies += [f"%l = arith.truncf %x {mode} : f32 to f16" for mode in ROUNDING_MODES]
    bodies += [
        "%l = arith.truncf %xs toward_zero {note} : vector<4xf32> to vector<4xf8E4M3FN>",
        "%l = arith.extf %e : f8E4M3FN to f32",
        "%l = arith.truncf %d to_nearest_away : f64 to tf32",
    ]
    return [wrap(body, EXTRA) for body in bodies]


@pytest.mark.parametrize("text", _legal())
def test_text_survives_printing(text: str) -> None:
    again = print_again(text)
    assert print_again(again) == again
    assert print_again(print_again(text, generic=True)) == again


def test_conversions_to_tf32_survive_printing() -> None:
    for case in CASES[len(ARITH) :]:
        again = print_again(wrap(case.good, EXTRA))
        assert case.good.strip() in again
        assert print_again(print_again(again, generic=True)) == again


def test_widths_that_upstream_counts_otherwise() -> None:
    """Upstream takes tf32 for 32 bits wide; here it is between f16 and f32."""
    assert not problems(wrap("%l = arith.truncf %x : f32 to tf32", EXTRA))
    assert not problems(wrap("%l = arith.extf %t : tf32 to f32", {**EXTRA, "t": "tf32"}))


@pytest.mark.oracle
@requires_mlir_opt
@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
def test_upstream_reads_what_we_print(generic: bool) -> None:
    ours = [print_again(text, generic) for text in _legal()]
    assert upstream_texts("mlir-opt-19", ours) == upstream_texts("mlir-opt-19", _legal())


@pytest.mark.oracle
@requires_mlir_opt
def test_upstream_judges_alike() -> None:
    texts = [wrap(body, EXTRA) for case in ARITH for body in (case.bad, case.good)]
    errors = upstream_errors("mlir-opt-19", texts)
    assert [bool(found) for found in errors] == [bool(problems(text)) for text in texts]
