"""Compiling and assembling in tests."""

from __future__ import annotations

import pytest

from tilewright import gpu
from tilewright.analysis.verifier import verify
from tilewright.gpu import tools
from tilewright.text import parse

requires_ptxas = pytest.mark.skipif(
    tools.find("bin/ptxas") is None, reason="needs ptxas: pip install nvidia-cuda-nvcc"
)
requires_nvdisasm = pytest.mark.skipif(
    tools.find("bin/ptxas") is None or tools.find("bin/nvdisasm") is None,
    reason="needs ptxas and nvdisasm: pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm",
)
requires_libdevice = pytest.mark.skipif(
    tools.find("nvvm/libdevice/libdevice.10.bc") is None,
    reason="needs libdevice: pip install nvidia-nvvm",
)


EXACT = gpu.CompileOptions()


def ptx_of(text: str, arch: str, options: gpu.CompileOptions = EXACT) -> str:
    """The PTX of a text: of its kernel, or of the function `k` where it has none."""
    module = parse(text)
    verify(module)
    if gpu.kernels_of(module):
        return gpu.compile_kernel(module, arch, None, options).ptx
    return gpu.compile_function(module, arch, "k", options).ptx


def machine_code(text: str, arch: str) -> str:
    """The text of the machine code of a text."""
    return gpu.disassemble(gpu.assemble(ptx_of(text, arch), arch).cubin)
