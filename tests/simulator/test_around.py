"""Operations beside nvgpu's against NumPy, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from tests.simulator.around import CASES, Case
from tests.simulator.kernels import run


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_computes_what_is_meant(case: Case) -> None:
    args = case.makes()
    wanted = case.expected(*(arg.copy() for arg in args))
    result = run(case.body, case.parameters, args, block=case.block, **case.options)
    assert not result.diagnostics, [d.brief() for d in result.diagnostics]
    for found, expected in zip(args, wanted):
        np.testing.assert_array_equal(found, np.asarray(expected).astype(found.dtype))
