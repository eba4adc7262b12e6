"""Every rule rejects the program that breaks it, and accepts its nearest legal twin."""

from __future__ import annotations

import pytest
from tests.dialects.arith.cases import CASES
from tests.dialects.arith.support import Case, findings
from xdsl.utils.exceptions import VerifyException

from tilewright.dialects.arith import OPERATIONS, codes
from tilewright.dialects.nv_tileaa.examples import wrap
from tilewright.text import parse


def _name(case: Case) -> str:
    return f"{case.op}-{case.code}-{case.says[:20].strip()}"


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_rule(case: Case) -> None:
    found = findings(wrap(case.bad, extra=case.extra))
    assert [d.code for d in found] == [case.code], [d.brief() for d in found]
    assert case.says in found[0].message
    assert found[0].is_error
    assert [d.brief() for d in findings(wrap(case.good, extra=case.extra))] == []


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_stock_verifier_agrees(case: Case) -> None:
    parse(wrap(case.good, extra=case.extra)).verify()
    with pytest.raises(VerifyException):
        parse(wrap(case.bad, extra=case.extra)).verify()


def test_every_operation_and_code_has_a_case() -> None:
    assert set(OPERATIONS) - {case.op for case in CASES} == set()
    defined = {value for name, value in vars(codes).items() if name.isupper()}
    assert defined - {case.code for case in CASES} == set()
