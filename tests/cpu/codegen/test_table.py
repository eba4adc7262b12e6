"""Every operation has code, or a stated reason why not."""

from __future__ import annotations

import pytest

from tilewright.cpu.codegen.elementwise import EMITTERS
from tilewright.cpu.codegen.emitter.table import LOWERINGS
from tilewright.cpu.codegen.kernel import FAMILIES
from tilewright.dialects import arith
from tilewright.dialects.nv_tileaa.base import OPERATIONS
from tilewright.numerics.semantics import ELEMENTWISE

arith.load()
assert FAMILIES, "importing them fills the tables"


def test_every_operation_has_code_or_a_reason():
    level = {"scf.for", "scf.if", "scf.while", "ub.poison", "arith.constant", "arith.elementwise"}
    assert not LOWERINGS.problems(OPERATIONS.values(), level)


@pytest.mark.parametrize("name", sorted(arith.OPERATIONS))
def test_arithmetic_has_code(name: str):
    assert name in LOWERINGS or arith.OPERATIONS[name].MEANING in EMITTERS


def test_element_operations_are_those_of_the_semantics():
    assert set(EMITTERS) == set(ELEMENTWISE)
