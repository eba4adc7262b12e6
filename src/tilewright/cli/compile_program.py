"""``tilewright compile PROGRAM.py``: code of the kernels that a cuTile program compiles."""

from __future__ import annotations

import argparse

from tilewright.cli import compile_gpu
from tilewright.cli.compile_remarks import RemarkReport
from tilewright.cli.outputs import refuse_terminal
from tilewright.cli.programs import Taken, only, take
from tilewright.cli.session import Session, UsageError

#: The comment syntax of each output form.
_COMMENTS = {
    "asm": "#",
    "llvm": ";",
    "ptx": "//",
    "nvgpu": "//",
    "sass": "//",
    "tileas": "//",
}
_BINARY = frozenset({"obj", "cubin"})


def compile_program(options: argparse.Namespace, session: Session) -> int:
    """Emit the code of each chosen kernel; several are separated by comments, and must be text.

    Returns the exit status. Raises UsageError for options that do not apply to programs or to the target.
    """
    is_cpu = options.target == "cpu"
    if options.entry is not None:
        raise UsageError.because("--entry does not apply to programs; use --kernel")
    if is_cpu and options.approximate_math:
        raise UsageError.because("--approximate-math requires --target sm_NN")
    if is_cpu:
        compile_gpu.refuse_decisions(options)
    else:
        compile_gpu.refuse_options_of_cpu(options)
    emit = options.emit or ("asm" if is_cpu else "ptx")
    if emit in _BINARY:
        refuse_terminal(options.output)
    program = take(options.file, options, session)
    report = RemarkReport(options, session)
    if emit in _BINARY:
        chosen = only(program, f"--emit {emit} writes one kernel")
        report.write_with(_compiled(chosen, options, session, report))
        return program.finish(0)
    parts: list[str] = []
    for taken in program.chosen:
        made = _compiled(taken, options, session, report)
        assert isinstance(made, str)
        parts.append(f"{_COMMENTS[emit]} {taken}\n{made}" if len(program.chosen) > 1 else made)
    report.write_with("\n".join(parts))
    return program.finish(0)


def _compiled(
    taken: Taken, options: argparse.Namespace, session: Session, report: RemarkReport
) -> str | bytes:
    """Return the code of one kernel."""
    kernel = taken.kernel
    if options.target != "cpu":
        return compile_gpu.emitted(
            compile_gpu.source_of(kernel.module, options, session, taken.kernel.name),
            options,
            session,
            report,
        )
    from tilewright.cli.compile import Compilation, timing_table
    from tilewright.cpu.runtime.engine import Timings

    timings = Timings()
    options.emit = options.emit or "asm"
    made = Compilation(kernel.module, kernel.name, options, session, timings, report).run()
    if options.timing:
        session.say(f"{taken}\n{timing_table(timings)}")
    return made
