"""Every corpus kernel still computes what the corpus expects, whatever pipeline it went through."""

from __future__ import annotations

import pytest
from tests.corpus import CUTILE_MISSING, VERSIONS, CorpusKernel, cutile_available, cutile_kernels
from tests.corpus.launching import check_outputs, flat_arguments

from tilewright.bytecode import read
from tilewright.machine import Program
from tilewright.passes import run_pipeline

pytestmark = pytest.mark.skipif(not cutile_available(), reason=CUTILE_MISSING)

RUNNABLE = [k for k in cutile_kernels() if k.launch] if cutile_available() else []
PREFERRED_VERSION = "13.4"


def _version(kernel: CorpusKernel) -> str:
    return max(kernel.since, PREFERRED_VERSION, key=VERSIONS.index)


@pytest.mark.rotates(3)
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda kernel: kernel.name)
def test_kernel_computes_what_is_expected(kernel: CorpusKernel) -> None:
    launch = kernel.launch
    assert launch is not None
    module = read(kernel.export(_version(kernel)))
    run_pipeline(module, "O3,dce,synthesize-debug-info-scopes", verify_each=True)
    program = Program(module)
    arguments = launch.arguments()
    flat = flat_arguments(kernel, arguments, program.map_array)
    result = program.launch(None, launch.grid, flat)
    assert check_outputs(launch, launch.arguments(), arguments) == []
    assert sorted(result.text.splitlines()) == sorted(launch.prints)
