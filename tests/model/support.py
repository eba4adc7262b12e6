"""Machine code for tests of the performance model: PTX written here, through ptxas."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tilewright.gpu.tools import Assembled, assemble, disassemble_to_json, find
from tilewright.model.sass import Kernel, read_kernels

requires_tools = pytest.mark.skipif(
    find("bin/ptxas") is None or find("bin/nvdisasm") is None,
    reason="ptxas or nvdisasm is not installed (pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm)",
)

_HEAD = """\
.version 8.8
.target {arch}
.address_size 64
"""
_KERNEL = """\
.visible .entry {name}(.param .u64 p, .param .u32 a, .param .u32 b, .param .u32 c)
.reqntid {threads}, 1, 1
{{
  .reg .b32 %r<64>; .reg .b64 %rd<64>; .reg .f32 %f<64>; .reg .pred %p<8>;
  .shared .align 16 .b8 sm[4096];
  ld.param.u64 %rd0, [p]; cvta.to.global.u64 %rd0, %rd0;
  ld.param.u32 %r0, [a]; ld.param.u32 %r1, [b]; ld.param.u32 %r2, [c];
  {body}
  ret;
}}
"""


def assembled(body: str, arch: str = "sm_90", threads: int = 32) -> Assembled:
    """A kernel of a pointer `%rd0` and three numbers `%r0` to `%r2`."""
    return _assembled({"k": body}, arch, threads)


def _assembled(bodies: Mapping[str, str], arch: str, threads: int) -> Assembled:
    kernels = (_KERNEL.format(name=n, threads=threads, body=body) for n, body in bodies.items())
    return assemble(_HEAD.format(arch=arch) + "".join(kernels), arch)


def kernel(body: str, arch: str = "sm_90", threads: int = 32) -> Kernel:
    """The same, read."""
    return kernels({"k": body}, arch, threads)["k"]


def kernels(bodies: Mapping[str, str], arch: str = "sm_90", threads: int = 32) -> dict[str, Kernel]:
    """Several at once, in their order: most of the time goes into starting the tools."""
    cubin = _assembled(bodies, arch, threads).cubin
    found = {found.name: found for found in read_kernels(cubin, disassemble_to_json)}
    return {name: found[name] for name in bodies}
