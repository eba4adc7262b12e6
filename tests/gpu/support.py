"""Compiling and assembling in tests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

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


#: What a line of PTX declares outside of functions: an entry, a function or memory.
_DECLARED = re.compile(
    r"^\.[^\n{(=]*?(?:\([^)\n]*\))? ([A-Za-z_$][\w$]*)(?:\[\d*\])?(?=\(|;|$| =)", re.MULTILINE
)
_HEADER = re.compile(r"^\.(version|target|address_size)\b.*\n", re.MULTILINE)


def machine_codes(
    texts: Sequence[str], arch: str, options: gpu.CompileOptions = EXACT
) -> list[str]:
    """The machine code of each text, by as few runs of the tools as can be: nvdisasm takes a third of a second
    to begin."""
    found: dict[int, str] = {}
    made = [ptx_of(text, arch, options) for text in texts]
    # Functions that no kernel calls are dropped where there are kernels.
    for kernels in (True, False):
        numbers = [n for n, ptx in enumerate(made) if (".entry" in ptx) == kernels]
        if numbers:
            whole = together({n: made[n] for n in numbers}, arch)
            code = gpu.disassemble(gpu.assemble(whole, arch).cubin)
            parts = re.findall(r"^\.text\.k__(\d+):\n(.*?)(?=^//-|\Z)", code, re.M | re.S)
            found |= {int(number): text for number, text in parts}
    return [found[number] for number in range(len(texts))]


def together(modules: Mapping[int, str], arch: str) -> str:
    """One module of PTX, in which each name ends in the number of the module that it came from."""
    versions, parts = [], []
    for number, ptx in modules.items():
        (version,) = re.findall(r"^\.version (\S+)", ptx, re.MULTILINE)
        versions.append(tuple(map(int, version.split("."))))
        body = _HEADER.sub("", ptx)
        for name in set(_DECLARED.findall(body)):
            body = re.sub(rf"(?<![\w$%.]){re.escape(name)}(?![\w$])", f"{name}__{number}", body)
        parts.append(body)
    newest = ".".join(map(str, max(versions)))
    return f".version {newest}\n.target {arch}\n.address_size 64\n" + "\n".join(parts)


def machine_code(text: str, arch: str) -> str:
    """The text of the machine code of a text."""
    return gpu.disassemble(gpu.assemble(ptx_of(text, arch), arch).cubin)
