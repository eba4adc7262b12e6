"""Every cuTile kernel of the corpus is lowered."""

from __future__ import annotations

import pytest
from tests.corpus import CUTILE_MISSING, VERSIONS, CorpusKernel, cutile_available, cutile_kernels
from tests.lowering.support import check

from tilewright.bytecode import read
from tilewright.lowering import lower_to_tileaa

pytestmark = pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)

KERNELS = [k for k in cutile_kernels() if not k.refusal] if cutile_available() else []


@pytest.mark.rotates(3)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_kernel_is_lowered(kernel: CorpusKernel) -> None:
    module = read(kernel.export(VERSIONS[-1]))
    check(module, lower_to_tileaa(module))
