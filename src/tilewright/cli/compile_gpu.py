"""``tilewright compile --target sm_NN``: PTX and machine code of kernels of ``nvgpu``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tilewright.cli.exits import Exit
from tilewright.cli.modules import load
from tilewright.cli.outputs import refuse_terminal, write_binary, write_text
from tilewright.cli.session import Session, UsageError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tilewright.cli.modules import Module
    from tilewright.gpu import CompiledKernel, CompileOptions

#: What can be emitted for GPUs, and what it is.
EMITS = {
    "llvm": "the LLVM IR after LLVM's passes",
    "ptx": "the assembly of NVIDIA's virtual machine",
    "cubin": "machine code, by ptxas",
    "sass": "the text of the machine code, by ptxas and nvdisasm",
}
#: The architectures, as `tilewright.gpu` knows them; written again here so that help is quick.
TARGETS = (
    *("sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a"),
    *("sm_103", "sm_103a", "sm_120", "sm_120a", "sm_121", "sm_121a"),
)
_CPU_ONLY = ("cpu", "checked", "print_after", "timing")


def execute(options: argparse.Namespace, session: Session) -> int:
    """Emit what the options ask for of a kernel of the file."""
    for name in _CPU_ONLY:
        if getattr(options, name):
            raise UsageError.because(f"--{name.replace('_', '-')} needs --target cpu")
    emit = options.emit or "ptx"
    if emit == "cubin":
        refuse_terminal(options.output)
    compiled = compile_file(options.file, options.target, options, session)
    output: str | bytes
    if emit == "llvm":
        output = compiled.llvm_ir
    elif emit == "ptx":
        output = compiled.ptx
    else:
        output = _machine_code(compiled, emit, session)
    if isinstance(output, bytes):
        write_binary(session, options.output, output)
    else:
        write_text(session, options.output, output)
    return Exit.OK


def compile_file(
    path: str, arch: str, options: argparse.Namespace, session: Session
) -> CompiledKernel:
    """The kernel of a file that ``--entry`` names, or the only one."""
    from tilewright.gpu import compile_kernel, kernels_of

    module = gpu_module(load(path, options, session), path)
    kernels = kernels_of(module)
    if options.entry is None and len(kernels) > 1:
        raise UsageError.because(
            f"there are several kernels: {', '.join(kernels)}", help="name one with --entry"
        )
    return compile_kernel(module, arch, options.entry, compile_options(options))


def compile_options(options: argparse.Namespace) -> CompileOptions:
    from tilewright.gpu import CompileOptions

    return CompileOptions(approximate_math=bool(options.approximate_math))


def gpu_module(module: Module, name: str) -> ModuleOp:
    """The module of a file that holds kernels of `gpu`; a UsageError for tile kernels."""
    from xdsl.dialects.builtin import ModuleOp

    if not isinstance(module, ModuleOp):
        raise UsageError.because(
            f"'{name}' holds kernels of cuda_tile, and GPUs run those of gpu and nvgpu here",
            help="NVIDIA's tileiras compiles cuda_tile for GPUs",
        )
    return module


def _machine_code(compiled: CompiledKernel, emit: str, session: Session) -> str | bytes:
    from tilewright.gpu import disassemble

    made = compiled.assemble()
    session.say(
        f"{compiled.name}: {made.registers} registers, {made.shared_bytes} bytes of shared memory, "
        f"{made.spill_bytes} bytes spilled"
    )
    return made.cubin if emit == "cubin" else disassemble(made.cubin)
