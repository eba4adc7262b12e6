"""Every hand-checked case of nv_tileaa computes on compiled code what it does on the reference machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.machine.tileaa import cases_effects, cases_values
from tests.machine.tileaa.support import Case, checked, kernel_text

from tilewright import LaunchOptions
from tilewright.cpu import Program

CASES = [*cases_values.CASES, *cases_effects.CASES]
#: The errors of mathematical functions that docs/cpu.md allows, in ulp of f32.
ULP = {
    **dict.fromkeys(("exp", "log", "log2", "tan", "sinh", "cosh", "tanh", "atan2", "powf"), 1),
    **dict.fromkeys(("exp2", "sqrt"), 1),
    **dict.fromkeys(("sin", "cos", "rsqrt"), 2),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "host": {},
    "generic": {"cpu": "generic"},
    "checked": {"checked": True},
}


def _run(case: Case, **options: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """Results begin as zeros, as on the reference machine."""
    inputs = {name: array.copy() for name, array in case.inputs.items()}
    results = {name: np.zeros_like(array) for name, array in case.expected.items()}
    results |= {name: inputs[name] for name in results.keys() & inputs.keys()}
    arrays = {**inputs, **results}
    fresh = {name: array for name, array in results.items() if name not in inputs}
    text = kernel_text(case.body, inputs, fresh, case.symbols)
    if case.plugins:
        options["plugins"] = case.plugins
    program = Program(checked(text), options=LaunchOptions(**options))
    args = [array if array.ndim else array.reshape(1) for array in arrays.values()]
    return program.launch("k", case.grid, args, options=LaunchOptions(check_asserts=False)), results


def _check(case: Case, name: str, found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype
    ulp = ULP.get(case.op.rpartition(".")[2], 0)
    if ulp and expected.dtype == np.float32:
        np.testing.assert_array_max_ulp(found, expected, ulp)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=name)
    if expected.dtype.kind == "f":
        same_signs = np.signbit(expected) == np.signbit(found)
        assert (same_signs | np.isnan(expected)).all(), name


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_computes(case: Case, variant: str) -> None:
    result, found = _run(case, **VARIANTS[variant])
    for name, expected in case.expected.items():
        _check(case, name, found[name], expected)
    assert result.text == case.prints
    assert tuple(f"{f.message} {list(f.index)}" for f in result.failures) == case.failures
