"""One operation in a kernel: right and wrong ones of the dialects around nvgpu get upstream's verdict."""

from __future__ import annotations

import pytest
from tests.dialects.nvgpu.small_kernels import BAD, LEGAL, kernel
from tests.dialects.nvgpu.support import problems
from tests.oracles import requires_iree_opt, requires_mlir_opt, upstream_errors


def test_legal_ones_are_read() -> None:
    found = {line: problems(kernel(line)) for line in LEGAL}
    assert {line: d[0].brief() for line, d in found.items() if d} == {}


def test_wrong_ones_are_refused() -> None:
    assert [line for line in BAD if not problems(kernel(line))] == []


@pytest.mark.oracle
@pytest.mark.parametrize(
    "tool",
    [
        pytest.param("mlir-opt-19", marks=requires_mlir_opt),
        pytest.param("iree-opt", marks=requires_iree_opt),
    ],
)
def test_upstream_says_the_same(tool: str) -> None:
    texts = [kernel(line) for line in (*LEGAL, *BAD)]
    refused = [bool(errors) for errors in upstream_errors(tool, texts)]
    assert refused == [False] * len(LEGAL) + [True] * len(BAD)
