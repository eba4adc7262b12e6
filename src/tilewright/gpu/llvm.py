"""Compiles LLVM IR to PTX."""

from __future__ import annotations

from functools import cache

from tilewright.diagnostics import TileIRError
from tilewright.gpu import tools
from tilewright.gpu.architectures import Architecture
from tilewright.gpu.codes import LLVM_FAILED
from tilewright.launching.native_code import binding as llvm

TRIPLE = "nvptx64-nvidia-cuda"


@cache
def _target() -> llvm.Target:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE)


def _machine(arch: Architecture, isa: int) -> llvm.TargetMachine:
    return _target().create_target_machine(cpu=arch.name, features=f"+ptx{isa}", opt=3)


def parse_ir(text: str, arch: Architecture, isa: int, *, libdevice: bool) -> llvm.ModuleRef:
    """The verified module of a text, linked with the functions of libdevice that it calls."""
    context = llvm.create_context()
    machine = _machine(arch, isa)
    try:
        module = llvm.parse_assembly(text, context)
        module.verify()
    except RuntimeError as error:
        raise _failed(error) from error
    if libdevice:
        own = {function.name for function in module.functions if not function.is_declaration}
        library = llvm.parse_bitcode(tools.libdevice().read_bytes(), context)
        library.triple, library.data_layout = TRIPLE, str(machine.target_data)
        module.triple, module.data_layout = TRIPLE, str(machine.target_data)
        module.link_in(library)
        for function in module.functions:
            if function.name not in own and not function.is_declaration:
                function.linkage = "internal"
        passes = llvm.create_new_module_pass_manager()
        passes.add_global_dead_code_eliminate_pass()
        passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    module.triple, module.data_layout = TRIPLE, str(machine.target_data)
    return module


def optimize(module: llvm.ModuleRef, arch: Architecture, isa: int) -> None:
    """Run LLVM's pipeline in place, without vectorization.

    The hardware only has vectors of two 16-bit elements, which the code uses where they help; gathering elements into
    longer ones is costly.
    """
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(_machine(arch, isa), options)
    builder.getModulePassManager().run(module, builder)


def emit_ptx(module: llvm.ModuleRef, arch: Architecture, isa: int) -> str:
    """The PTX of a module."""
    return _machine(arch, isa).emit_assembly(module)


def _failed(error: RuntimeError) -> TileIRError:
    return TileIRError.single(
        LLVM_FAILED, f"LLVM does not accept the generated code: {str(error).strip()}"
    )
