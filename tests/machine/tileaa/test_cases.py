"""Every operation of the level computes what is worked out by hand, or is refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.tileaa import cases_effects, cases_values
from tests.machine.tileaa.support import Case
from xdsl.dialects import scf, ub

import tilewright.machine.tileaa
from tilewright.dialects import arith, nv_tileaa
from tilewright.dialects.nv_tileaa.base import OPERATIONS
from tilewright.machine.compile import IMPLEMENTATIONS, REFUSED
from tilewright.machine.tileaa.refusals import STRUCTURE

nv_tileaa.load()

CASES = [*cases_values.CASES, *cases_effects.CASES]
CLASSES = [
    *OPERATIONS.values(),
    *arith.OPERATIONS.values(),
    *(scf.ForOp, scf.IfOp, scf.WhileOp, scf.YieldOp, scf.ConditionOp, ub.PoisonOp),
]


def _name(case: Case) -> str:
    return case.op


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_computes(case: Case):
    result, found = case.run()
    for name, expected in case.expected.items():
        assert found[name].dtype == expected.dtype
        np.testing.assert_array_equal(found[name], expected, err_msg=name)
        if expected.dtype.kind == "f":
            signs = np.signbit(expected) == np.signbit(found[name])
            assert (signs | np.isnan(expected)).all(), name
    assert result.text == case.prints
    assert tuple(f"{f.message} {list(f.index)}" for f in result.failures) == case.failures


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.name)
def test_every_operation_is_run_or_refused(cls: type):
    """Names that a case has are looked up in the text that runs."""
    if cls in REFUSED:
        assert REFUSED[cls]
        return
    assert cls in IMPLEMENTATIONS or cls in STRUCTURE, f"{cls.name} is neither run nor refused"
    assert any(case.op == cls.name for case in CASES), f"no case runs {cls.name}"


def test_all_but_one_operation_are_run():
    assert [cls for cls in CLASSES if cls in REFUSED] == [OPERATIONS["conv_tile"]]


def test_cases_hold_what_they_are_named_after():
    for case in CASES:
        assert case.op in case.body + case.symbols or case.op == "nv_tileaa.func", case.op


def test_the_package_lists_its_families():
    assert set(tilewright.machine.tileaa.__all__) <= set(dir(tilewright.machine.tileaa))
