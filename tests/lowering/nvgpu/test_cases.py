"""Each operation, as threads on the simulator, computes what the reference machine's cases expect."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.tileaa import cases_effects, cases_values
from tests.machine.tileaa.support import Case, kernel_text

from tilewright import LaunchOptions
from tilewright.analysis.verifier import verify
from tilewright.diagnostics import TileIRError
from tilewright.dialects import arith, nv_tileaa
from tilewright.dialects.nv_tileaa.base import OPERATIONS
from tilewright.lowering.nvgpu.table import REFUSED, RULES
from tilewright.simulator.tiles import TileProgram
from tilewright.text import parse

nv_tileaa.load()

pytestmark = pytest.mark.usefixtures("verified_threads")

CASES = [*cases_values.CASES, *cases_effects.CASES]
#: Forms that are refused of operations that are lowered otherwise, with words of the reason.
FORMS = {
    ("arith.select", "memref"): "per-thread code has no values of type",
    ("nv_tileaa.view", "memref"): "changes the shape of a memref",
}


def _refusal(case: Case) -> str | None:
    for name, why in REFUSED.items():
        if f"{name} " in case.body + " " and name != "nv_tileaa.call":
            return why
    for (name, word), why in FORMS.items():
        if case.op == name and word in case.body:
            return why
    return None


def _program(case: Case) -> tuple[TileProgram, dict[str, np.ndarray]]:
    inputs = {name: array.copy() for name, array in case.inputs.items()}
    fresh = {n: np.zeros_like(a) for n, a in case.expected.items() if n not in inputs}
    module = parse(kernel_text(case.body, inputs, fresh, case.symbols))
    verify(module)
    return TileProgram(module, "sm_100a"), {**inputs, **fresh}


def _launch(program: TileProgram, case: Case, arrays: dict[str, np.ndarray]) -> str:
    printed: list[str] = []
    given = [array if array.ndim else array.reshape(1) for array in arrays.values()]
    program.launch("k", case.grid, given, options=LaunchOptions(print_to=printed.append))
    return "".join(printed)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_computes(case: Case) -> None:
    program, arrays = _program(case)
    refusal = _refusal(case)
    if refusal is not None:
        with pytest.raises(TileIRError) as caught:
            program.threads("k")
        assert caught.value.diagnostics[0].code == "not-lowered-to-threads"
        assert refusal in caught.value.diagnostics[0].message
        return
    if case.failures:
        with pytest.raises(TileIRError) as caught:
            _launch(program, case, arrays)
        assert case.failures[0].partition(" [")[0] in caught.value.diagnostics[0].message
        return
    assert _launch(program, case, arrays) == case.prints
    for name, expected in case.expected.items():
        np.testing.assert_array_equal(arrays[name], expected, err_msg=name)


def test_every_operation_has_a_rule_or_a_refusal() -> None:
    others = {"scf.for", "scf.if", "scf.while", "scf.yield", "scf.condition", "ub.poison"}
    assert not RULES.problems((*OPERATIONS.values(), *arith.OPERATIONS.values()), others)
