"""Kernels as text, and launches of them for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright import LaunchOptions
from tilewright.diagnostics import Diagnostic
from tilewright.simulator import Program, SimulationResult

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "nvgpu"

TYPES = """\
!bars = !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 2>
!token = !nvgpu.mbarrier.token
!map = !nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, 3>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
!plain = !nvgpu.tensormap.descriptor<tensor = memref<8x16xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
!desc = !nvgpu.warpgroup.descriptor<tensor = memref<64x64xf16, 3>>
!acc = !nvgpu.warpgroup.accumulator<fragmented = vector<64x64xf32>>
"""
GLOBALS = """\
memref.global "private" @tiles : memref<2x64x64xf16, 3> {alignment = 1024 : i64}
memref.global "private" @box : memref<8x16xf32, 3> {alignment = 128 : i64}
memref.global "private" @loose : memref<64x64xf16, 3>
memref.global "private" @words : memref<256xf32, 3>
memref.global "private" @halves : memref<64x64xf16, 3>
memref.global constant @table : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>
"""
CONSTANTS = """\
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c2 = arith.constant 2 : index
%c4 = arith.constant 4 : index
%c8 = arith.constant 8 : index
%c16 = arith.constant 16 : index
%c32 = arith.constant 32 : index
%c64 = arith.constant 64 : index
%ticks = arith.constant 1000 : index
%even = arith.constant false
%odd = arith.constant true
%tid = gpu.thread_id x
%lane = gpu.lane_id
%warp = gpu.subgroup_id : index
%first = arith.cmpi eq, %tid, %c0 : index
%words = memref.get_global @words : memref<256xf32, 3>
"""


def kernel(body: str, parameters: str = "", *, functions: str = "") -> str:
    """A module whose kernel ``k`` has this body; constants and ``%tid`` are there."""
    return (
        f"{TYPES}module attributes {{gpu.container_module}} {{\ngpu.module @m {{\n{GLOBALS}"
        f"{functions}gpu.func @k({parameters}) kernel {{\n{CONSTANTS}{body}\ngpu.return\n}}\n}}\n}}"
    )


def run(
    body: str,
    parameters: str = "",
    args: Any = (),
    *,
    block: Any = 32,
    grid: Any = 1,
    functions: str = "",
    **options: Any,
) -> SimulationResult:
    """Launch such a kernel; what it finds is in the result."""
    text = kernel(body, parameters, functions=functions)
    arch = options.pop("arch", "sm_90a")
    wanted = LaunchOptions(block=block, strict=False, **options)
    return Program.parse(text, arch=arch).launch(None, grid, list(args), wanted)


def codes(result: SimulationResult) -> set[str]:
    return {found.code for found in result.diagnostics}


def only(result: SimulationResult, code: str) -> Diagnostic:
    """The first finding, which has this code."""
    assert result.diagnostics, f"expected {code}"
    assert codes(result) == {code}, [d.brief() for d in result.diagnostics]
    return result.diagnostics[0]
