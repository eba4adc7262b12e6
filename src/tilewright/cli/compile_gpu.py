"""``tilewright compile --target sm_NN``: PTX and machine code of kernels of Tile IR and ``nvgpu``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.cli.compile_remarks import RemarkReport
from tilewright.cli.exits import Exit
from tilewright.cli.modules import load
from tilewright.cli.outputs import refuse_terminal
from tilewright.cli.session import Session, UsageError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tilewright.cli.modules import Module
    from tilewright.gpu import CompiledKernel
    from tilewright.passes.tileas.decisions import Decisions
    from tilewright.passes.tileas.remarks import Remark

#: What can be emitted for GPUs, with descriptions.
EMITS = {
    "tileas": "the kernel with layouts and schedules (nv_tileas)",
    "nvgpu": "the per-thread code of a Tile IR kernel",
    "llvm": "the LLVM IR after LLVM's passes",
    "ptx": "the assembly of NVIDIA's virtual machine",
    "cubin": "machine code, by ptxas",
    "sass": "the text of the machine code, by ptxas and nvdisasm",
}
#: The architectures that `tilewright.gpu` knows, repeated here so that --help stays fast.
TARGETS = (
    *("sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a"),
    *("sm_103", "sm_103a", "sm_120", "sm_120a", "sm_121", "sm_121a"),
)
_CPU_ONLY = ("cpu", "checked", "print_after", "timing")


def execute(options: argparse.Namespace, session: Session) -> int:
    """Emit what the options ask for, for a kernel of the file. Returns the exit status."""
    refuse_options_of_cpu(options)
    if options.emit == "cubin":
        refuse_terminal(options.output)
    report = RemarkReport(options, session)
    source = source_of(load(options.file, options, session), options, session)
    report.write_with(emitted(source, options, session, report))
    return Exit.OK


def refuse_options_of_cpu(options: argparse.Namespace) -> None:
    """Raise UsageError for options that concern native code."""
    for name in _CPU_ONLY:
        if getattr(options, name):
            raise UsageError.because(f"--{name.replace('_', '-')} needs --target cpu")


def emitted(
    source: Source, options: argparse.Namespace, session: Session, report: RemarkReport
) -> str | bytes:
    """Return what the options ask for, for a kernel."""
    emit = options.emit or "ptx"
    if report.is_wanted:
        report.add(source.name, source.remarks())
    if emit in ("nvgpu", "tileas"):
        from tilewright.text import print_text

        return print_text(source.threads() if emit == "nvgpu" else source.scheduled())
    compiled = source.compile()
    if emit in ("llvm", "ptx"):
        return compiled.llvm_ir if emit == "llvm" else compiled.ptx
    return _machine_code(compiled, emit, session, source)


#: The kinds of remarks about what a block uses: its stages and its agents.
_SHAPE = ("ring", "agents")


@dataclass(frozen=True, slots=True)
class Source:
    """A kernel of a file: the ``nvgpu`` module that it is or becomes, its ``nv_tileas`` module, how to compile it, and the
    remarks on it. ``name`` is what its author calls it."""

    name: str
    threads: Callable[[], ModuleOp]
    scheduled: Callable[[], ModuleOp]
    compile: Callable[[], CompiledKernel]
    remarks: Callable[[], list[Remark]] = list


def refuse_decisions(options: argparse.Namespace) -> None:
    """Raise UsageError for decisions if there are none to make."""
    if options.decide or options.decisions is not None:
        raise UsageError.because("--decide and --decisions require --target sm_NN")


def decisions_of(options: argparse.Namespace, session: Session, kernel: str) -> Decisions:
    """Return the decisions that the command line makes in place of the compiler for a kernel.

    Raises UsageError for malformed ones, and for a record of another kernel or target.
    """
    from tilewright.diagnostics import TileIRError
    from tilewright.passes.tileas.decisions import FREE, Decisions

    if not options.decide and options.decisions is None:
        return FREE
    if options.direct:
        raise UsageError.because("--decide and --decisions cannot be combined with -O0")
    try:
        said = Decisions.parse(options.decide)
        if options.decisions is None:
            return said
        from tilewright.tuning.decided import read_record

        text = session.read(options.decisions).data.decode("utf-8", "replace")
        record = read_record(text, options.decisions)
    except TileIRError as error:
        raise UsageError(error.diagnostics) from error
    if record.target != options.target:
        raise UsageError.because(
            f"the decisions of '{options.decisions}' are for {record.target}, not for {options.target}"
        )
    if record.kernel not in (None, kernel):
        raise UsageError.because(
            f"the decisions of '{options.decisions}' are for kernel '{record.kernel}', not '{kernel}'"
        )
    return Decisions.of({**record.decisions.as_data(), **said.as_data()})


def source_of(
    module: Module, options: argparse.Namespace, session: Session, name: str | None = None
) -> Source:
    """Return the kernel named by ``--entry``, or the only one; ``name`` is its name in a program.

    Raises UsageError where several kernels need a name, and for decisions about kernels of threads.
    """
    from tilewright.gpu import CompileOptions
    from tilewright.launching.modules import is_tile_ir

    how = CompileOptions(approximate_math=bool(options.approximate_math))
    if is_tile_ir(module):
        from tilewright.cli.modules import machine_module
        from tilewright.cli.run import entry_of
        from tilewright.gpu.tiles import TileProgram
        from tilewright.launching.entry_names import authors_name
        from tilewright.launching.options import LaunchOptions

        held = machine_module(module, options.file)
        entry = entry_of(held, options.entry).symbol
        launches = LaunchOptions(optimization=0 if options.direct else 1)
        decisions = decisions_of(options, session, name or entry)
        program = TileProgram(held, options.target, launches, how, decisions)
        return Source(
            name or authors_name(entry),
            lambda: program.threads(entry),
            lambda: program.scheduled(entry),
            lambda: program.compile(entry),
            lambda: program.remarks(entry),
        )
    from tilewright.gpu import compile_kernel, kernels_of

    if options.decide or options.decisions is not None:
        raise UsageError.because("nvgpu kernels are already scheduled: --decide does not apply")
    threads = gpu_module(module)
    kernels = kernels_of(threads)
    if options.entry is None and len(kernels) > 1:
        raise UsageError.because(
            f"there are several kernels: {', '.join(kernels)}", help="name one with --entry"
        )
    return Source(
        options.entry or next(iter(kernels), ""),
        lambda: threads,
        _no_schedule,
        lambda: compile_kernel(threads, options.target, options.entry, how),
    )


def _no_schedule() -> ModuleOp:
    raise UsageError.because("nvgpu kernels are already scheduled: --emit tileas requires Tile IR")


def gpu_module(module: Module) -> ModuleOp:
    """Return a module without Tile IR kernels as one that may contain kernels of `gpu`."""
    from xdsl.dialects.builtin import ModuleOp

    assert isinstance(module, ModuleOp)
    return module


def _machine_code(
    compiled: CompiledKernel, emit: str, session: Session, source: Source
) -> str | bytes:
    from tilewright.gpu import disassemble
    from tilewright.gpu.resources import resources

    made = compiled.assemble()
    shape = [remark.message for remark in source.remarks() if remark.kind in _SHAPE]
    for line in (*resources(compiled, made), *shape):
        session.say(f"{source.name}: {line}")
    return made.cubin if emit == "cubin" else disassemble(made.cubin)
