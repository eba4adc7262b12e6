"""Functions of the host: memory, tensor maps, and launches of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import LaunchOptions
from tilewright.diagnostics import TileIRError
from tilewright.simulator import Program, run_host

_MAP = (
    "!nvgpu.tensormap.descriptor<tensor = memref<8x16xf32, 3>, swizzle = none, l2promo = none, "
    "oob = zero, interleave = none>"
)
#: Doubles a tensor by boxes: the host makes the maps, allocates what comes between, and launches twice.
_TEXT = f"""\
module attributes {{gpu.container_module}} {{
  gpu.module @kernels {{
    memref.global "private" @box : memref<8x16xf32, 3> {{alignment = 128 : i64}}
    gpu.func @load(%map: {_MAP}, %out: memref<?x16xf32>, %factor: f32) kernel {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %c16 = arith.constant 16 : index
      %bytes = arith.constant 512 : index
      %even = arith.constant false
      %ticks = arith.constant 1000 : index
      %tid = gpu.thread_id x
      %b = gpu.block_id x
      %first = arith.cmpi eq, %tid, %c0 : index
      %bar = nvgpu.mbarrier.create -> !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>
      scf.if %first {{
        nvgpu.mbarrier.init %bar[%c0], %c1 : !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>
        nvvm.fence.mbarrier.init
      }}
      gpu.barrier
      %tile = memref.get_global @box : memref<8x16xf32, 3>
      %down = arith.muli %b, %c8 : index
      nvgpu.mbarrier.arrive.expect_tx %bar[%c0], %bytes, predicate = %first : !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>
      nvgpu.tma.async.load %map[%c0, %down], %bar[%c0] to %tile, predicate = %first : {_MAP}, !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>> -> memref<8x16xf32, 3>
      nvgpu.mbarrier.try_wait.parity %bar[%c0], %even, %ticks : !nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>
      scf.for %i = %c0 to %c8 step %c1 {{
        %in = arith.cmpi ult, %tid, %c16 : index
        scf.if %in {{
          %x = memref.load %tile[%i, %tid] : memref<8x16xf32, 3>
          %y = arith.mulf %x, %factor : f32
          %at = arith.addi %down, %i : index
          memref.store %y, %out[%at, %tid] : memref<?x16xf32>
        }}
      }}
      gpu.return
    }}
  }}
  func.func @host(%in: memref<16x16xf32>, %out: memref<16x16xf32>, %factor: f32) -> index {{
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %between = memref.alloc(%c16) : memref<?x16xf32>
    %any = memref.cast %in : memref<16x16xf32> to memref<*xf32>
    %map = nvgpu.tma.create.descriptor %any box[%c8, %c16] : memref<*xf32> -> {_MAP}
    gpu.launch_func @kernels::@load blocks in (%c2, %c1, %c1) threads in (%c32, %c1, %c1) args(%map : {_MAP}, %between : memref<?x16xf32>, %factor : f32)
    %other = memref.cast %between : memref<?x16xf32> to memref<*xf32>
    %again = nvgpu.tma.create.descriptor %other box[%c8, %c16] : memref<*xf32> -> {_MAP}
    %open = memref.cast %out : memref<16x16xf32> to memref<?x16xf32>
    gpu.launch_func @kernels::@load blocks in (%c2, %c1, %c1) threads in (%c32, %c1, %c1) args(%again : {_MAP}, %open : memref<?x16xf32>, %factor : f32)
    memref.dealloc %between : memref<?x16xf32>
    func.return %c16 : index
  }}
  func.func @declared(%n: index)
}}
"""


def _arrays() -> tuple[Any, Any]:
    return np.arange(256, dtype=np.float32).reshape(16, 16), np.zeros((16, 16), np.float32)


def test_host_code_makes_maps_and_launches() -> None:
    given, out = _arrays()
    result = run_host(Program.parse(_TEXT), "host", [given, out, 3.0])
    assert (out == 9 * given).all()
    assert result.values == (16,)
    assert [launch.completed for launch in result.launches] == [True, True]
    assert result.launches[0].counters.tma_bytes_loaded == 2 * 512


def test_options_go_to_every_launch() -> None:
    given, out = _arrays()
    with pytest.raises(TileIRError, match="the first architecture that has it is sm_90"):
        run_host(Program.parse(_TEXT), "host", [given, out, 3.0], arch="sm_80")
    result = run_host(
        Program.parse(_TEXT), "@host", [given, out, 1.0], options=LaunchOptions(seed=3)
    )
    assert {launch.seed for launch in result.launches} == {3}


def test_a_box_is_that_of_its_type() -> None:
    text = _TEXT.replace("%any box[%c8, %c16]", "%any box[%c16, %c16]")
    with pytest.raises(
        TileIRError, match=r"the box is \[16, 16\], and that of its type is \[8, 16\]"
    ):
        run_host(Program.parse(text), "host", [*_arrays(), 1.0])


def test_what_is_no_host_function_is_named() -> None:
    for name in ("nowhere", "declared"):
        with pytest.raises(TileIRError, match=f"there is no host function '{name}' with a body"):
            run_host(Program.parse(_TEXT), name, [])


def test_kernels_have_no_operations_of_the_host() -> None:
    text = _TEXT.replace(
        "%tid = gpu.thread_id x",
        "%tid = gpu.thread_id x\n%all = memref.cast %out : memref<?x16xf32> to memref<*xf32>\n"
        f"%made = nvgpu.tma.create.descriptor %all box[%c8, %c16] : memref<*xf32> -> {_MAP}",
    )
    with pytest.raises(TileIRError, match=r"does not run 'nvgpu\.tma\.create\.descriptor'"):
        run_host(Program.parse(text), "host", [*_arrays(), 1.0])
