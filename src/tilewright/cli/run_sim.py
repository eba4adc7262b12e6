"""``tilewright run`` for the simulator, and for kernels of ``nvgpu`` on any machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tilewright.cli.outputs import write_files
from tilewright.cli.session import Session, UsageError

if TYPE_CHECKING:
    from tilewright.cli.run_specs import Parameter
    from tilewright.simulator import SimulationResult


def add_sim_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the simulator."""
    from tilewright.cli.run import count_of, grid_extents

    group = parser.add_argument_group("simulator (--machine sim:sm_90a)")
    group.add_argument("--block", type=grid_extents, metavar="X[,Y[,Z]]", help="threads per block")
    group.add_argument(
        "--cluster", type=grid_extents, metavar="X[,Y[,Z]]", help="blocks per cluster (default 1)"
    )
    group.add_argument(
        "--dynamic-shared",
        type=count_of,
        default=0,
        metavar="BYTES",
        help="dynamic shared memory per block (default 0)",
    )
    group.add_argument(
        "--registers",
        type=count_of,
        metavar="N",
        help="registers per thread, as printed by ptxas -v, for the occupancy",
    )
    group.add_argument(
        "--seeds",
        type=count_of,
        metavar="N",
        help="number of schedules of warps and blocks, from --seed on, each with the same "
        "initial arrays; stops at the first error",
    )
    group.add_argument(
        "--numerics",
        choices=("tensor-core", "exact", "portable"),
        help="accumulation of matrix products (default tensor-core)",
    )
    group.add_argument(
        "--timeline",
        metavar="FILE",
        help="write a timeline of the warps of the first block, as .html or .svg",
    )
    group.add_argument("--counters", action="store_true", help="print counters and the occupancy")


def thread_kernel(module: Any, name: str | None) -> Any:
    """Return the ``nvgpu`` kernel of that name, or the only one. Raises ``UsageError`` if there is none."""
    from tilewright.dialects.upstream.gpu.kernels import FuncOp

    kernels = [op for op in module.walk() if isinstance(op, FuncOp) and op.is_kernel]
    found = [op for op in kernels if name is None or op.symbol in (name, name.removeprefix("@"))]
    if len(found) == 1:
        return found[0]
    known = ", ".join(op.symbol for op in kernels) or "none"
    if name is None and len(kernels) > 1:
        raise UsageError.because(
            f"there are several kernels: {known}", help="name one with --entry"
        )
    what = "no kernel" if name is None else f"no kernel '{name}'"
    raise UsageError.because(f"there is {what}; kernels of the module: {known}")


def parameters_of(kernel: Any) -> list[Parameter]:
    """Return a kernel's parameters for the command line: memrefs, tensor maps and pointers take
    arrays.

    Raises UsageError for a type that no argument has.
    """
    from xdsl.dialects.builtin import MemRefType
    from xdsl.dialects.llvm import LLVMPointerType

    from tilewright.cli.run_specs import Parameter
    from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
    from tilewright.simulator.faults import Fault
    from tilewright.simulator.values import element_of

    found: list[Parameter] = []
    for index, argument in enumerate(kernel.arguments):
        name, ty = argument.name_hint or f"arg{index}", argument.type
        if isinstance(ty, LLVMPointerType):
            found.append(Parameter(index, name, "", True))
            continue
        is_map = isinstance(ty, TensorMapDescriptorType)
        try:
            element = element_of(ty.tensor if is_map else ty).name
        except Fault as fault:
            raise UsageError.because(f"parameter '{name}': {fault.message}") from None
        found.append(Parameter(index, name, element, is_map or isinstance(ty, MemRefType)))
    return found


def draw(found: SimulationResult, path: str | None, title: str, session: Session) -> None:
    """Write the timeline if requested: SVG or, for any other suffix, a page. Raises UsageError if it cannot be
    written.
    """
    if path is None:
        return
    timeline = found.timeline
    text = timeline.to_svg() if path.endswith(".svg") else timeline.to_html(title)
    write_files(session, {path: text})


def facts(found: SimulationResult) -> dict[str, object]:
    """Return the facts about a simulated launch, for JSON."""
    return {
        "completed": found.completed,
        "seconds": found.seconds,
        "block": list(found.block),
        "counters": found.counters.as_dict(),
        "occupancy": str(found.occupancy),
    }


def counted(found: SimulationResult) -> str:
    """Return the counters and the occupancy, one line each."""
    lines = [f"{name}: {number}" for name, number in found.counters.as_dict().items() if number]
    lines.append(f"shared memory of a block: {found.shared_bytes} bytes")
    lines.append(f"occupancy: {found.occupancy}")
    return "\n".join(lines) + "\n"
