"""``tilewright run --machine``: which machine runs the kernel, and its options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from tilewright.cli.run_cuda import CUDA
from tilewright.cli.run_sim import PREFIX, refuse_options
from tilewright.cli.run_trace import runner as reference_runner
from tilewright.cli.session import Session, UsageError

REFERENCE, CPU = "reference", "cpu"


def add_machine_arguments(parser: argparse.ArgumentParser) -> None:
    """Which machine, and what concerns the compiled one."""
    group = parser.add_argument_group("machine")
    group.add_argument(
        "--machine",
        "--target",
        type=_machine,
        metavar=f"{{{REFERENCE},{CPU},{PREFIX}:ARCH,{CUDA}[:ARCH]}}",
        default=REFERENCE,
        help="what runs the kernel: the reference machine, native code for this CPU, "
        "the simulator of a GPU (sim:sm_90a), or a GPU (cuda)",
    )
    group.add_argument("--threads", type=int, metavar="N", help="threads of the CPU machine")
    group.add_argument(
        "--checked", action="store_true", help="on the CPU machine: check every access to memory"
    )
    add_cpu_option(group)


def _machine(text: str) -> str:
    name, colon, arch = text.partition(":")
    if text in (REFERENCE, CPU) or (name in (PREFIX, CUDA) and bool(arch) == bool(colon)):
        return text
    raise argparse.ArgumentTypeError(
        f"expected {REFERENCE}, {CPU}, {PREFIX}:ARCH or {CUDA}, found '{text}'"
    )


def add_cpu_option(parser: argparse._ActionsContainer) -> None:
    """``--cpu``, for commands that generate native code."""
    parser.add_argument(
        "--cpu",
        metavar="NAME",
        help="generate code for host (the default), generic or x86-64-v2 to x86-64-v4",
    )


def machine_runner(options: argparse.Namespace, session: Session) -> Callable[..., object]:
    """The function that runs a kernel as the options want it: like ``machine.run``.

    A ``UsageError`` where the options do not fit the machine.
    """
    refuse_options(options)
    if options.machine == REFERENCE:
        for name in ("threads", "cpu", "checked"):
            if getattr(options, name):
                raise UsageError.because(f"--{name} needs --machine {CPU}")
        return reference_runner(options, session)
    for name, what in (("trace", "traces"), ("arithmetic", "models the arithmetic of hardware")):
        if getattr(options, name) is not None:
            raise UsageError.because(
                f"only the reference machine {what}: leave out --{name} or --machine {CPU}"
            )
    if options.find_nan:
        raise UsageError.because("--find-nan needs the reference machine")
    return _on_cpu(options)


def _on_cpu(options: argparse.Namespace) -> Callable[..., object]:
    from tilewright import cpu

    def run(module: Any, entry: str, grid: Any, values: Any, **keywords: Any) -> object:
        # The CPU has no schedule to choose, does not count iterations, and has one arithmetic.
        for name in ("seed", "max_iterations", "arithmetic", "find_nan"):
            keywords.pop(name)
        return cpu.run(
            module,
            entry,
            grid,
            values,
            cpu=options.cpu or "host",
            checked=options.checked,
            threads=options.threads,
            **keywords,
        )

    return run
