"""``tilewright compile``: compiles a kernel for a CPU or a GPU, and shows intermediate forms."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from tilewright.cli import compile_gpu
from tilewright.cli.compile_program import compile_program
from tilewright.cli.compile_remarks import (
    RemarkReport,
    add_remark_options,
    check_remark_options,
)
from tilewright.cli.exits import Exit
from tilewright.cli.modules import add_reading_options, load, machine_module
from tilewright.cli.outputs import refuse_terminal
from tilewright.cli.programs import add_program_options, is_program, refuse_program_options
from tilewright.cli.run import entry_of
from tilewright.cli.run_machine import CPU, add_cpu_option
from tilewright.cli.session import Session, UsageError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp

    from tilewright.cli.modules import Module
    from tilewright.cpu.runtime.engine import Timings

#: The stages on the way to native code, in order, with what can be shown after each.
STAGES = {
    "nv_tileaa": "the kernel after lowering to nv_tileaa",
    "codegen": "the LLVM IR that was generated",
    "llvm": "the LLVM IR after LLVM's passes",
    "asm": "the assembly",
}
#: What can be emitted for the CPU, with descriptions.
EMITS = {
    "llvm": "the LLVM IR after LLVM's passes",
    "asm": "the assembly",
    "obj": "an object file",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="text or bytecode; - is standard input; or a cuTile program"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="output file (default: stdout)")
    parser.add_argument(
        "--target",
        choices=(CPU, *compile_gpu.TARGETS),
        default=CPU,
        metavar="TARGET",
        help=f"target: cpu (default), or a GPU architecture: {', '.join(compile_gpu.TARGETS)}",
    )
    add_cpu_option(parser)
    parser.add_argument("--entry", metavar="NAME", help="the kernel, if the module has several")
    parser.add_argument(
        "--emit",
        choices=(*EMITS, *(name for name in compile_gpu.EMITS if name not in EMITS)),
        help="for the CPU llvm, asm (the default) or obj; for GPUs tileas (layouts and a schedule), nvgpu "
        "(per-thread code), llvm, ptx (the default), cubin or sass, the last two by NVIDIA's tools",
    )
    parser.add_argument(
        "-O0",
        dest="direct",
        action="store_true",
        help="for GPUs: lower nv_tileaa directly, without layouts and schedules",
    )
    add_remark_options(parser)
    _add_decisions(parser)
    parser.add_argument(
        "--approximate-math",
        action="store_true",
        help="for GPUs: use approximate math instructions instead of libdevice",
    )
    parser.add_argument("--checked", action="store_true", help="bounds-check every memory access")
    parser.add_argument(
        "--print-after",
        action="append",
        default=[],
        choices=(*STAGES, "all"),
        metavar="STAGE|all",
        help=f"print the output of a stage to standard error: {', '.join(STAGES)}",
    )
    parser.add_argument("--timing", action="store_true", help="report the time of each stage")
    add_reading_options(parser)
    add_program_options(parser)


def _add_decisions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--decide",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=(
            "for GPUs: override a decision of the compiler: warps, stages, agents, grid, "
            "width, band, resident, parts or depths; may be repeated"
        ),
    )
    parser.add_argument(
        "--decisions",
        metavar="FILE",
        help="for GPUs: use the decisions written by `tilewright tune --save`",
    )


def _elsewhere(emit: str, target: str) -> str:
    """Return which target emits what this one does not."""
    if target == CPU and emit in compile_gpu.EMITS:
        return f"; {emit} requires a GPU target, such as --target sm_90"
    return f"; {emit} needs --target {CPU}" if target != CPU and emit in EMITS else ""


def execute(options: argparse.Namespace, session: Session) -> int:
    emits = EMITS if options.target == CPU else compile_gpu.EMITS
    if options.emit is not None and options.emit not in emits:
        raise UsageError.because(
            f"--emit {options.emit} is not available for --target {options.target}",
            help=f"available: {', '.join(emits)}{_elsewhere(options.emit, options.target)}",
        )
    check_remark_options(options)
    if is_program(options.file):
        return compile_program(options, session)
    refuse_program_options(options, options.file)
    if options.target != CPU:
        return compile_gpu.execute(options, session)
    if options.direct:
        raise UsageError.because("-O0 requires --target sm_NN")
    if options.approximate_math:
        raise UsageError.because("--approximate-math requires --target sm_NN")
    compile_gpu.refuse_decisions(options)
    options.emit = options.emit or "asm"
    if options.emit == "obj":
        refuse_terminal(options.output)
    from tilewright.cpu.runtime.engine import Timings

    timings = Timings()
    with timings.stage("read and verify"):
        module = machine_module(load(options.file, options, session), options.file)
    entry = entry_of(module, options.entry).symbol
    report = RemarkReport(options, session)
    report.write_with(Compilation(module, entry, options, session, timings, report).run())
    if options.timing:
        session.say(timing_table(timings))
    return Exit.OK


class Compilation:
    """The compilation of one kernel to native code."""

    def __init__(
        self,
        module: Module,
        entry: str,
        options: argparse.Namespace,
        session: Session,
        timings: Timings,
        report: RemarkReport,
    ) -> None:
        self._module = module
        self._entry = entry
        self._options = options
        self._session = session
        self._timings = timings
        self._report = report

    def run(self) -> str | bytes:
        """Return the requested output: text, or bytes of an object. Raises TileIRError for what the CPU machine
        cannot compile.
        """
        from tilewright.cpu.compile import CompileOptions, compile_kernel
        from tilewright.cpu.runtime import engine
        from tilewright.cpu.target import HOST, cpu_target
        from tilewright.launching.entry_names import authors_name

        name = self._options.cpu or HOST
        target = cpu_target(name)
        tileaa = self._lowered()
        with self._timings.stage("generate LLVM IR"):
            options = CompileOptions(cpu=name, checked=self._options.checked)
            compiled = compile_kernel(tileaa, self._entry, options)
        if self._report.is_wanted:
            self._report.add(authors_name(self._entry), compiled.remarks)
        self._show("codegen", lambda: compiled.llvm_ir)
        with self._timings.stage("parse LLVM IR"):
            parsed = engine.parse_ir(compiled.llvm_ir, target)
        with self._timings.stage("optimise"):
            engine.optimize(parsed, target)
        self._show("llvm", lambda: str(parsed))
        if self._wants("asm") or self._options.emit == "asm":
            with self._timings.stage("emit assembly"):
                assembly = engine.emit_assembly(parsed, target)
            self._show("asm", lambda: assembly)
            if self._options.emit == "asm":
                return assembly
        if self._options.emit == "llvm":
            return str(parsed)
        with self._timings.stage("emit object"):
            return engine.emit_object(parsed, target)

    def _lowered(self) -> BuiltinModuleOp:
        from tilewright.dialects.cuda_tile.ops.module import ModuleOp
        from tilewright.lowering import lower_to_tileaa
        from tilewright.text import print_text

        module = self._module
        if isinstance(module, ModuleOp):
            with self._timings.stage("lower to nv_tileaa"):
                module = lower_to_tileaa(module).module
        self._show("nv_tileaa", lambda: print_text(module))
        return module

    def _wants(self, stage: str) -> bool:
        return stage in self._options.print_after or "all" in self._options.print_after

    def _show(self, stage: str, text: Callable[[], str]) -> None:
        if self._wants(stage):
            self._session.say(f"// after {stage}: {STAGES[stage]}\n{text().rstrip()}\n")


def timing_table(timings: Timings) -> str:
    """Return a table with the milliseconds and the share of each step."""
    total = timings.total or 1.0
    width = max(map(len, timings.seconds))
    rows = [
        f"{name:{width}} {seconds * 1e3:9.2f} ms {seconds / total:6.1%}"
        for name, seconds in timings.seconds.items()
    ]
    return "\n".join([*rows, f"{'total':{width}} {timings.total * 1e3:9.2f} ms"])
