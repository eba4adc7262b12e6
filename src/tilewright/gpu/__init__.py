"""Compiles kernels of ``nvgpu`` for NVIDIA GPUs: LLVM IR, PTX, machine code, and launches.

``compile_kernel`` needs no GPU and no CUDA toolkit. ``launch`` needs a GPU, its driver, and the package cuda-bindings.
Names are imported when first used: a process that only runs LLVM needs no compiler.
"""

from typing import TYPE_CHECKING

from tilewright.lazy import lazy_names

if TYPE_CHECKING:
    from tilewright.gpu.abi import Field, Parameter
    from tilewright.gpu.architectures import ARCHITECTURES, Architecture
    from tilewright.gpu.compile import (
        CompiledFunction,
        CompiledKernel,
        CompileOptions,
        compile_function,
        compile_kernel,
        kernels_of,
    )
    from tilewright.gpu.tools import Assembled, assemble, disassemble


__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "Assembled",
    "CompileOptions",
    "CompiledFunction",
    "CompiledKernel",
    "Field",
    "Parameter",
    "assemble",
    "compile_function",
    "compile_kernel",
    "disassemble",
    "kernels_of",
]

__getattr__, __dir__ = lazy_names(
    globals(),
    {
        "abi": "Field Parameter",
        "architectures": "ARCHITECTURES Architecture",
        "compile": "CompiledFunction CompiledKernel CompileOptions compile_function compile_kernel kernels_of",
        "tools": "Assembled assemble disassemble",
    },
)
