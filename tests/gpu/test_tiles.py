"""Kernels of Tile IR as code for GPUs: what their launches take, and runs where there is a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.corpus import CorpusKernel, cutile_available, cutile_kernels
from tests.corpus.launching import check_outputs, flat_arguments
from tests.gpu.test_launch import requires_gpu

from tilewright.bytecode import read
from tilewright.diagnostics import TileIRError
from tilewright.gpu.tiles import TileProgram
from tilewright.text import parse

EXAMPLES = Path(__file__).parents[2] / "examples"
WITH_MEMORY = """
global @table <f32: [1.0, 2.0, 3.0, 4.0]> : tile<4xf32>
entry @k(%out: tile<ptr<f32>>) {
  %p = get_global @table : tile<ptr<f32>>
  %scratch = alloca num_elem = 8, alignment = 64 : tile<ptr<f32>>
  %x, %t0 = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
  %t1 = store_ptr_tko weak %scratch, %x token = %t0 : tile<ptr<f32>>, tile<f32> -> token
  %y, %t2 = load_ptr_tko weak %scratch token = %t1 : tile<ptr<f32>> -> tile<f32>, token
  %t3 = store_ptr_tko weak %out, %y token = %t2 : tile<ptr<f32>>, tile<f32> -> token
  return
}
"""
#: Those that need formats or products that came with sm_100.
LATER = ("widen_exponents", "four_bit_floats", "splat_of_exponents", "scaled_matmul")
RUNNABLE = (
    [
        kernel
        for kernel in cutile_kernels()
        if kernel.launch is not None
        and not kernel.name.startswith(LATER)
        and not any(isinstance(v, list) for v in kernel.launch.arguments().values())
    ]
    if cutile_available()
    else []
)


def test_a_kernel_says_what_its_launch_takes() -> None:
    module = parse((EXAMPLES / "vector_add.tileir").read_text())
    kernel = TileProgram(module, "sm_90a").compile()
    assert [field.size for p in kernel.parameters for field in p.fields] == [8, 8, 8, 4]
    assert kernel.block == (128, 1, 1)
    assert ".entry vector_add(" in kernel.ptx


def test_globals_and_scratch_memory_are_parameters() -> None:
    program = TileProgram(parse(WITH_MEMORY), "sm_80")
    names = [parameter.name for parameter in program.compile().parameters]
    assert names == ["out", "table", "scratch"]


def test_unknown_architectures_are_refused() -> None:
    with pytest.raises(TileIRError) as caught:
        TileProgram(parse(WITH_MEMORY), "sm_20")
    assert "sm_20" in caught.value.diagnostics[0].message


@requires_gpu
@pytest.mark.parametrize("kernel", RUNNABLE, ids=lambda kernel: kernel.name)
def test_corpus_kernels_compute_what_is_expected(kernel: CorpusKernel) -> None:
    launch = kernel.launch
    assert launch is not None
    arguments = launch.arguments()
    flat = flat_arguments(kernel, arguments, lambda array: int(array.ctypes.data))
    TileProgram(read(kernel.export())).launch(None, launch.grid, flat)
    assert check_outputs(launch, launch.arguments(), arguments) == []


@requires_gpu
def test_memory_beside_the_arguments() -> None:
    out = np.zeros(1, np.float32)
    TileProgram(parse(WITH_MEMORY)).launch(None, 1, [out])
    assert out[0] == 1.0


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_120a"])
def test_numbers_are_not_paired(arch: str) -> None:
    """LLVM would compute f32 in pairs from sm_100 on, in registers of even numbers, of which big tiles then lack some."""
    text = """
    entry @k(%p: tile<ptr<f32>>) {
      %i = iota : tile<1024xi32>
      %q = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
      %b = broadcast %q : tile<1xptr<f32>> -> tile<1024xptr<f32>>
      %a = offset %b, %i : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
      %x, %t = load_ptr_tko weak %a : tile<1024xptr<f32>> -> tile<1024xf32>, token
      %y = mulf %x, %x : tile<1024xf32>
      %z = addf %y, %x : tile<1024xf32>
      %d = store_ptr_tko weak %a, %z : tile<1024xptr<f32>>, tile<1024xf32> -> token
      return
    }
    """
    ptx = TileProgram(parse(text), arch).compile().ptx
    assert "f32x2" not in ptx
    assert "mul.rn.f32" in ptx or "fma.rn.f32" in ptx
