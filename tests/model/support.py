"""Machine code for tests of the performance model: PTX written here, through ptxas."""

from __future__ import annotations

import pytest

from tilewright.gpu.tools import Assembled, assemble, disassemble_to_json, find
from tilewright.model.sass import Kernel, read_kernels

requires_tools = pytest.mark.skipif(
    find("bin/ptxas") is None or find("bin/nvdisasm") is None,
    reason="ptxas or nvdisasm is not installed (pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm)",
)

_KERNEL = """\
.version 8.8
.target {arch}
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 a, .param .u32 b, .param .u32 c)
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
    return assemble(_KERNEL.format(arch=arch, threads=threads, body=body), arch)


def kernel(body: str, arch: str = "sm_90", threads: int = 32) -> Kernel:
    """The same, read."""
    return read_kernels(assembled(body, arch, threads).cubin, disassemble_to_json)[0]
