"""Every rule rejects the program that breaks it, and accepts its nearest legal twin."""

from __future__ import annotations

import pytest
from tests.dialects.nvgpu.cases import CASES
from tests.dialects.nvgpu.cases_around import CASES as CASES_AROUND
from tests.dialects.nvgpu.support import Case, case_name, problems
from tests.dialects.nvgpu.test_conversions import CASES as CASES_OF_CONVERSIONS
from tests.dialects.nvgpu.test_llvm import CASES as CASES_LLVM
from xdsl.utils.exceptions import VerifyException

from tilewright.diagnostics import Span
from tilewright.dialects.nvgpu import codes
from tilewright.dialects.nvgpu.base import OPERATIONS
from tilewright.dialects.nvgpu.examples import wrap
from tilewright.dialects.upstream.base import codes as shared
from tilewright.text import parse

ALL = [*CASES, *CASES_AROUND, *CASES_LLVM, *CASES_OF_CONVERSIONS]


@pytest.mark.parametrize("case", ALL, ids=case_name)
def test_rule(case: Case) -> None:
    found = case.problems()
    assert [d.code for d in found] == [case.code], [d.brief() for d in found]
    assert case.says in found[0].message
    assert found[0].is_error
    assert isinstance(found[0].location, Span)
    assert [d.brief() for d in case.twin_problems()] == []


#: Rules that reading itself enforces.
_OF_TEXT = {"nvgpu-type-parameter"}
_OWN = [c for c in ALL if c.code.startswith("nvgpu-") and c.code not in _OF_TEXT]


@pytest.mark.parametrize("case", _OWN, ids=case_name)
def test_stock_verifier_agrees(case: Case) -> None:
    """xDSL's own verifier refuses the same programs."""
    with pytest.raises(VerifyException):
        parse(wrap(case.bad, case.extra)).verify()


def test_every_rule_has_a_case() -> None:
    met = {case.code for case in ALL}
    defined = {
        value
        for module in (codes, shared)
        for name, value in vars(module).items()
        if name.isupper()
    }
    assert defined - met == set()


def test_every_operation_has_a_case() -> None:
    assert {case.op for case in CASES} == set(OPERATIONS)


def test_independent_errors_are_all_told() -> None:
    """One run tells everything that is wrong with an operation, each at its own place."""
    text = wrap(
        "%t = nvgpu.device_async_copy %s[%i], %d[%i, %j], 5 "
        ": memref<8x8xf32, strided<[8, 2]>> to memref<8x8xf16>",
        {"s": "memref<8x8xf32, strided<[8, 2]>>", "d": "memref<8x8xf16>"},
    )
    found = problems(text)
    assert sorted(d.code for d in found) == [
        "nvgpu-copy-size",
        "nvgpu-element-type",
        "nvgpu-index-count",
        "nvgpu-memory-space",
        "nvgpu-stride",
    ]
    assert len({(d.line, d.column) for d in found}) >= 4
