"""Every corpus kernel that has a launch computes as native code what the corpus expects."""

from __future__ import annotations

import pytest
from tests.corpus import CUTILE_MISSING, VERSIONS, CorpusKernel, cutile_available, cutile_kernels
from tests.corpus.launching import check_outputs, flat_arguments
from tests.cpu.codegen.support import load

from tilewright.bytecode import read
from tilewright.lowering import lower_to_tileaa

pytestmark = pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)

RUNNABLE = [k for k in cutile_kernels() if k.launch] if cutile_available() else []
PREFERRED_VERSION = "13.4"


@pytest.mark.rotates(4, 1)
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda kernel: kernel.name)
def test_kernel_computes_what_is_expected(kernel: CorpusKernel):
    launch = kernel.launch
    assert launch is not None
    version = max(kernel.since, PREFERRED_VERSION, key=VERSIONS.index)
    loaded = load(lower_to_tileaa(read(kernel.export(version))).module)
    arguments = launch.arguments()
    flat = flat_arguments(kernel, arguments, lambda array: array.__array_interface__["data"][0])
    assert loaded.run(launch.grid, flat) == 0
    assert check_outputs(launch, launch.arguments(), arguments) == []
