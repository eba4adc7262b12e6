"""``tilewright run --machine``: the machine that runs the kernel, and its launch options."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tilewright.cli.arguments import positive
from tilewright.cli.session import UsageError

if TYPE_CHECKING:
    from tilewright.launching.machine import Machine
    from tilewright.launching.options import LaunchOptions

REFERENCE, CPU, SIM, CUDA = "reference", "cpu", "sim", "cuda"
DEFAULT_ARCH = "sm_90a"
#: Launch options that have another name on the command line.
_SPELLED = {"dynamic_shared_bytes": "dynamic_shared"}
#: Options that apply to results of one machine only.
_RESULTS_OF = {"timeline": SIM, "counters": SIM, "seeds": SIM}


def add_machine_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the choice of machine, and the options of the compiled one."""
    group = parser.add_argument_group("machine")
    group.add_argument(
        "--machine",
        "--target",
        type=_machine,
        metavar=f"{{{REFERENCE},{CPU},{SIM}:ARCH,{CUDA}[:ARCH]}}",
        default=REFERENCE,
        help="the machine: reference, cpu (native code), sim:ARCH (GPU simulator, such as "
        "sim:sm_90a), or cuda (a GPU)",
    )
    group.add_argument(
        "--threads", type=int, metavar="N", help="number of threads of the CPU machine"
    )
    group.add_argument(
        "--checked", action="store_true", help="bounds-check every memory access (CPU machine)"
    )
    add_cpu_option(group)
    group.add_argument(
        "--resident",
        type=positive,
        metavar="N",
        help="at most N tile blocks are live at once, started in ascending order; finds blocks "
        "that wait for one that cannot start (default: all; simulator: the occupancy of "
        "the GPU)",
    )


def _machine(text: str) -> str:
    from tilewright.diagnostics import TileIRError
    from tilewright.launching.machine import machine_named

    name = f"{SIM}:{DEFAULT_ARCH}" if text == SIM else text
    try:
        return machine_named(name).name
    except TileIRError as error:
        raise argparse.ArgumentTypeError(error.diagnostics[0].message) from None


def add_cpu_option(parser: argparse._ActionsContainer) -> None:
    """Add ``--cpu``, for commands that generate native code."""
    parser.add_argument(
        "--cpu",
        metavar="NAME",
        help="target processor: host (default), generic or x86-64-v2 to x86-64-v4",
    )


def launch_options(
    options: argparse.Namespace, machine: Machine, level: str, **further: Any
) -> LaunchOptions:
    """Return the launch options that the command line asks for, with further ones.

    Raises ``UsageError`` for options that the machine does not have. ``--seed`` also determines random
    arguments, and is not passed to machines without schedules.
    """
    from tilewright.launching.options import OPTIONS, LaunchOptions, missing_options

    kind = machine.capabilities.kind
    given: dict[str, Any] = {}
    for name in OPTIONS:
        value = getattr(options, _SPELLED.get(name, name), None)
        # On the command line, a trace is a file.
        if value is not None and name != "trace":
            given[name] = value
    if kind not in OPTIONS["seed"].machines:
        del given["seed"]
    wanted = LaunchOptions(**given)
    asked = (*missing_options(wanted, kind, level), *(["trace"] if _asks(options, "trace") else []))
    for name in asked:
        if kind not in OPTIONS[name].machines:
            raise _refused(name, OPTIONS[name].machines, machine)
        if level not in OPTIONS[name].levels:
            raise UsageError.because(
                f"{level} kernels state their threads: leave out {_option(name)}"
            )
    for name, owner in _RESULTS_OF.items():
        if _asks(options, name) and kind != owner:
            raise _refused(name, (owner,), machine)
    return LaunchOptions(**{**given, **{n: v for n, v in further.items() if n in _known(kind)}})


def _known(kind: str) -> frozenset[str]:
    from tilewright.launching.options import options_of_kind

    return options_of_kind(kind)


def _asks(options: argparse.Namespace, name: str) -> bool:
    return bool(getattr(options, name, None))


def _option(name: str) -> str:
    return "--" + _SPELLED.get(name, name).replace("_", "-")


def _refused(name: str, owners: tuple[str, ...], machine: Machine) -> UsageError:
    from tilewright.launching.machine import MACHINES

    listed = " or ".join(MACHINES[owner].spelled for owner in owners)
    return UsageError.because(f"{_option(name)} needs --machine {listed}, not {machine.name}")
