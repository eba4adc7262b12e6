"""Kernels of ``nvgpu`` on NVIDIA's GPUs: LLVM IR, PTX, machine code, and launches.

``compile_kernel`` needs no GPU and no CUDA toolkit. ``launch`` needs a GPU, its driver, and the
package cuda-bindings. Names are loaded when first used: a process that only runs LLVM needs no compiler.
"""

from importlib import import_module
from typing import TYPE_CHECKING

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

_HOMES = {
    "ARCHITECTURES": "architectures",
    "Architecture": "architectures",
    "Assembled": "tools",
    "CompileOptions": "compile",
    "CompiledFunction": "compile",
    "CompiledKernel": "compile",
    "Field": "abi",
    "Parameter": "abi",
    "assemble": "tools",
    "compile_function": "compile",
    "compile_kernel": "compile",
    "disassemble": "tools",
    "kernels_of": "compile",
}

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


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
