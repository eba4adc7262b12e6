"""Compiles LLVM IR to PTX."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from pathlib import Path

from tilewright.diagnostics import TileIRError
from tilewright.gpu import tools
from tilewright.gpu.architectures import Architecture
from tilewright.gpu.codes import LLVM_FAILED
from tilewright.launching.disk_cache import disk_cache, key_of
from tilewright.launching.native_code import binding as llvm

TRIPLE = "nvptx64-nvidia-cuda"
#: The first LLVM that pairs f32.
_PAIRS_F32 = 22
#: The names of functions of libdevice.
_IS_OF_LIBRARY = re.compile("__nv_").match


@cache
def _target() -> llvm.Target:
    """The NVPTX back end, which shall not pair f32.

    From sm_100 on PTX has instructions on pairs of f32, which LLVM 22 uses wherever it can. Of the GPUs that we tune for, those of
    sm_120 compute them one by one, and pairs need registers of even numbers: a product of 128x256 with an activation spilled
    498 of them. LLVM takes this option once in a process, so that it holds for all architectures.
    """
    if llvm.llvm_version_info[0] >= _PAIRS_F32:
        llvm.set_option("tilewright", "-nvptx-no-f32x2")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE)


def _machine(arch: Architecture, isa: int) -> llvm.TargetMachine:
    return _target().create_target_machine(cpu=arch.name, features=f"+ptx{isa}", opt=3)


@cache
def _library_function(path: Path, name: str) -> bytes | None:
    """A function of libdevice with all that it calls, as bitcode of its own, None if it is no function of that library.
    What was cut out once is kept in the cache on disk: to parse the library takes longer than to compile a small kernel."""
    contents = path.read_bytes()
    key = key_of(("libdevice", sha256(contents).hexdigest(), name))
    kept = disk_cache()
    if kept is not None and (found := kept.get(key)) is not None:
        return found or None
    found = _cut_out(contents, name)
    if kept is not None:
        kept.put(key, found)
    return found or None


def _cut_out(contents: bytes, name: str) -> bytes:
    """Bitcode of a function and what it calls; empty if the library does not have it."""
    library = llvm.parse_bitcode(contents, llvm.create_context())
    if all(function.name != name or function.is_declaration for function in library.functions):
        return b""
    for function in library.functions:
        if function.name != name and not function.is_declaration:
            function.linkage = "internal"
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    options = llvm.create_pipeline_tuning_options()
    machine = _target().create_target_machine()
    passes.run(library, llvm.create_pass_builder(machine, options))
    return library.as_bitcode()


def parse_ir(text: str, arch: Architecture, isa: int, *, libdevice: bool) -> llvm.ModuleRef:
    """The verified module of a text, linked with the functions of libdevice that it calls.

    ``isa`` is the PTX version times ten. Raises ``TileIRError`` if LLVM rejects the text (``gpu-llvm-failed``), or if
    libdevice is needed and missing (``gpu-missing-tool``).
    """
    context = llvm.create_context()
    machine = _machine(arch, isa)
    try:
        module = llvm.parse_assembly(text, context)
        module.verify()
    except RuntimeError as error:
        raise _failed(error) from error
    if libdevice:
        own = {function.name for function in module.functions if not function.is_declaration}
        called = {function.name for function in module.functions} - own
        module.triple, module.data_layout = TRIPLE, str(machine.target_data)
        for name in sorted(filter(_IS_OF_LIBRARY, called)):
            part = _library_function(tools.libdevice(), name)
            if part is not None:
                library = llvm.parse_bitcode(part, context)
                library.triple, library.data_layout = TRIPLE, str(machine.target_data)
                module.link_in(library)
        for function in module.functions:
            if function.name not in own and not function.is_declaration:
                function.linkage = "internal"
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
    """The PTX of a module; ``isa`` is its version times ten."""
    return _machine(arch, isa).emit_assembly(module)


def _failed(error: RuntimeError) -> TileIRError:
    return TileIRError.single(
        LLVM_FAILED, f"LLVM does not accept the generated code: {str(error).strip()}"
    )
