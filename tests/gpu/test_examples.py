"""The examples of the dialects and the worked kernels compile and assemble."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.dialects.nvgpu.programs import PROGRAMS
from tests.dialects.nvgpu.support import program
from tests.gpu.support import requires_ptxas

from tilewright import gpu
from tilewright.diagnostics import TileIRError
from tilewright.dialects.nvgpu import load, wgmma
from tilewright.dialects.nvgpu.base import OPERATIONS
from tilewright.dialects.upstream import arith, memref, nvvm, vector
from tilewright.dialects.upstream import gpu as gpu_dialect
from tilewright.dialects.upstream.base.operations import OPERATIONS as UPSTREAM
from tilewright.gpu.architectures import ARCHITECTURES, needs
from tilewright.text import parse

for _module in (arith, gpu_dialect, memref, nvvm, vector):
    _module.load()
load()

#: Operations of the host, and examples that hold no code for a device.
_ON_THE_HOST = {"nvgpu.tma.create.descriptor"}
_DECLARED = [
    op
    for operations in (OPERATIONS, wgmma.OPERATIONS, *UPSTREAM.values())
    for op in operations.values()
]
_EXAMPLES = [
    (cls.name, example)
    for cls in _DECLARED
    for example in cls.EXAMPLES
    if cls.name not in _ON_THE_HOST and (not example.startswith("module") or "func" in example)
]
_WORKED = sorted((Path(__file__).parents[2] / "examples" / "nvgpu").glob("*.mlir"))


@requires_ptxas
@pytest.mark.oracle
@pytest.mark.parametrize(("name", "example"), _EXAMPLES, ids=lambda text: text[:24])
def test_examples_compile_for_the_first_architecture_that_has_them(name: str, example: str) -> None:
    text = example if example.startswith("module") else program(example.strip(), {})
    module = parse(text)
    arch = needs(name).first
    if gpu.kernels_of(module):
        assert gpu.compile_kernel(module, arch).assemble().cubin
        return
    found = re.search(r"func @(\w+)", text)
    assert found is not None
    assert gpu.assemble(gpu.compile_function(module, arch, found[1]).ptx, arch).cubin


def test_tensor_maps_are_made_on_the_host() -> None:
    (example,) = OPERATIONS["tma.create.descriptor"].EXAMPLES
    with pytest.raises(TileIRError) as caught:
        gpu.compile_function(parse(program(example.strip(), {})), "sm_90a", "f")
    (found,) = caught.value.diagnostics
    assert found.code == "gpu-unsupported"
    assert "on the host" in found.message


@requires_ptxas
@pytest.mark.oracle
@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_whole_programs_compile(text: str) -> None:
    assert gpu.compile_kernel(parse(text), "sm_90a").assemble().registers


@requires_ptxas
@pytest.mark.oracle
@pytest.mark.parametrize("path", _WORKED, ids=lambda path: path.stem)
def test_worked_kernels_compile_where_they_can_run(path: Path) -> None:
    """For every architecture, a worked kernel assembles or needs one that has more."""
    module = parse(path.read_bytes(), path.name)
    compiled = 0
    for name in gpu.kernels_of(module):
        for arch in ("sm_80", "sm_89", "sm_90a", "sm_120a"):
            wanted = [needs(op.name) for op in gpu.kernels_of(module)[name].walk()]
            if all(feature.is_in(ARCHITECTURES[arch]) for feature in wanted):
                assert gpu.compile_kernel(module, arch, name).assemble().registers
                compiled += 1
            else:
                with pytest.raises(TileIRError, match=r"needs .*, which"):
                    gpu.compile_kernel(module, arch, name)
    assert compiled
