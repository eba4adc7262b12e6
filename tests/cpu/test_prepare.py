"""The pipeline ``cpu``, as the CPU machine runs it on its own."""

from __future__ import annotations

import pytest
from tests.corpus import CUTILE_MISSING, CorpusKernel, cutile_available, cutile_kernels

from tilewright.bytecode import read
from tilewright.cpu.prepare import prepared, steps
from tilewright.dialects.nv_tileaa.ops.functions import FuncOp
from tilewright.lowering import lower_to_tileaa
from tilewright.passes import PIPELINES
from tilewright.passes.tileaa.cleanup import has_equal
from tilewright.passes.tileaa.hoist_masks import hoistable
from tilewright.passes.tileas.remarks import Remarks

KERNELS = [k for k in cutile_kernels() if not k.refusal] if cutile_available() else []


def test_the_steps_are_those_of_the_pipeline() -> None:
    assert [step.name for step in steps()] == list(PIPELINES["cpu"])


@pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)
@pytest.mark.rotates(3)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_nothing_equal_is_left(kernel: CorpusKernel) -> None:
    """Nor a mask that loops do not change."""
    module = lower_to_tileaa(read(kernel.export())).module
    for function in [op for op in module.walk() if isinstance(op, FuncOp)]:
        found = prepared(function, Remarks())
        assert not has_equal(found)
        assert not hoistable(found)
