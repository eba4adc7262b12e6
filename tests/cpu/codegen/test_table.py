"""Every operation has code, or a stated reason why not."""

from __future__ import annotations

import pytest

from tilewright.cpu.codegen.elementwise import EMITTERS
from tilewright.cpu.codegen.kernel import FAMILIES
from tilewright.cpu.codegen.table import LOWERINGS, REFUSED
from tilewright.dialects import arith
from tilewright.dialects.nv_tileaa.base import OPERATIONS
from tilewright.numerics.semantics import ELEMENTWISE

arith.load()
assert FAMILIES, "importing them fills the tables"
#: What is not lowered by itself: ends of regions, and what stands in modules.
STRUCTURE = {"func", "global", "yield", "queue.yield"}


@pytest.mark.parametrize("mnemonic", sorted(set(OPERATIONS) - STRUCTURE))
def test_operation_has_code_or_a_reason(mnemonic: str):
    name = f"nv_tileaa.{mnemonic}"
    assert (name in LOWERINGS) != (name in REFUSED)


@pytest.mark.parametrize("name", sorted(arith.OPERATIONS))
def test_arithmetic_has_code(name: str):
    assert name in LOWERINGS or arith.OPERATIONS[name].MEANING in EMITTERS


def test_element_operations_are_those_of_the_semantics():
    assert set(EMITTERS) == set(ELEMENTWISE)
