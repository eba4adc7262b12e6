"""``tilewright run --machine sim:ARCH``: kernels of ``nvgpu``, and of Tile IR, on the simulator."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.cli.exits import Exit
from tilewright.cli.modules import load
from tilewright.cli.outputs import write_files
from tilewright.cli.progress import working
from tilewright.cli.session import Session, UsageError

if TYPE_CHECKING:
    from tilewright.cli.run_specs import Parameter
    from tilewright.simulator import SimulationResult

PREFIX = "sim"
DEFAULT_ARCH = "sm_90a"
#: Options that only the simulator has, and what they are where they are not given.
OPTIONS = {
    "block": None,
    "cluster": None,
    "dynamic_shared": 0,
    "registers": None,
    "numerics": None,
    "timeline": None,
    "counters": False,
}
_OTHERS = ("threads", "cpu", "checked", "trace", "arithmetic", "find_nan")


def add_sim_arguments(parser: argparse.ArgumentParser) -> None:
    """What concerns the simulator."""
    from tilewright.cli.run import count_of, grid_extents

    group = parser.add_argument_group("simulator (--machine sim:sm_90a)")
    group.add_argument("--block", type=grid_extents, metavar="X[,Y[,Z]]", help="threads of a block")
    group.add_argument(
        "--cluster", type=grid_extents, metavar="X[,Y[,Z]]", help="blocks of a cluster (default 1)"
    )
    group.add_argument(
        "--dynamic-shared",
        type=count_of,
        default=0,
        metavar="BYTES",
        help="dynamic shared memory of a block (default 0)",
    )
    group.add_argument(
        "--registers",
        type=count_of,
        metavar="N",
        help="registers of a thread, as ptxas -v tells them, for the occupancy",
    )
    group.add_argument(
        "--numerics",
        choices=("tensor-core", "exact", "portable"),
        help="how products of matrices add (default tensor-core)",
    )
    group.add_argument(
        "--timeline",
        metavar="FILE",
        help="draw what the warps of the first block did when, as .html or .svg",
    )
    group.add_argument(
        "--counters", action="store_true", help="show what was counted, and the occupancy"
    )


def is_simulator(options: argparse.Namespace) -> bool:
    return options.machine.partition(":")[0] == PREFIX


def refuse_options(options: argparse.Namespace) -> None:
    """A ``UsageError`` for options of the simulator with another machine."""
    for name, default in OPTIONS.items():
        if getattr(options, name) != default:
            shown = name.replace("_", "-")
            raise UsageError.because(f"--{shown} needs --machine {PREFIX}:{DEFAULT_ARCH}")


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A kernel that is ready to be simulated: ``launch`` takes its arguments and the options that both
    levels have."""

    name: str
    block: Sequence[int]
    parameters: Sequence[Parameter]
    launch: Callable[..., SimulationResult]


def is_tile_ir(module: Any) -> bool:
    """Whether a module holds kernels of ``cuda_tile`` or ``nv_tileaa``."""
    return any(op.name in ("cuda_tile.module", "nv_tileaa.func") for op in module.walk())


def _arch(options: argparse.Namespace) -> str:
    return options.machine.partition(":")[2] or DEFAULT_ARCH


def _of_threads(module: Any, options: argparse.Namespace) -> _Kernel:
    """A kernel of ``nvgpu``, whose block the command line gives."""
    from tilewright.simulator import Program

    if options.block is None:
        raise UsageError.because("the simulator needs the threads of a block", help="add --block")
    program = Program(module)
    kernel = program.kernel(options.entry)

    def launch(values: Any, **further: Any) -> SimulationResult:
        return program.launch(
            kernel.symbol,
            options.grid,
            options.block,
            values,
            arch=_arch(options),
            cluster=options.cluster or 1,
            dynamic_shared_bytes=options.dynamic_shared,
            **further,
        )

    return _Kernel(kernel.symbol, options.block, parameters_of(kernel), launch)


def refuse_block_options(options: argparse.Namespace) -> None:
    """A ``UsageError`` for what kernels of Tile IR say themselves."""
    for name in ("block", "cluster", "dynamic_shared"):
        if getattr(options, name):
            shown = name.replace("_", "-")
            raise UsageError.because(f"kernels of Tile IR say their threads: leave out --{shown}")


def _of_tiles(module: Any, options: argparse.Namespace) -> _Kernel:
    """A kernel of Tile IR, which is lowered to threads."""
    from tilewright.cli.modules import machine_module
    from tilewright.cli.run import entry_of
    from tilewright.cli.run_specs import parameters_of as parameters_of_tiles
    from tilewright.simulator.tiles import TileProgram

    refuse_block_options(options)
    held = machine_module(module, options.file)
    entry = entry_of(held, options.entry)
    program = TileProgram(held, _arch(options))
    threads = program.block(entry.symbol)

    def launch(values: Any, **further: Any) -> SimulationResult:
        # Arrays overlap only where `part:` asks for it.
        return program.launch(entry.symbol, options.grid, values, allow_overlap=True, **further)

    return _Kernel(entry.symbol, (threads, 1, 1), parameters_of_tiles(entry), launch)


def execute(options: argparse.Namespace, session: Session) -> int:
    """Run a kernel on the simulator; what it finds is reported, and arrays are kept all the same."""
    for name in _OTHERS:
        if getattr(options, name):
            shown = name.replace("_", "-")
            raise UsageError.because(f"the simulator has no --{shown}")
    module = load(options.file, options, session)
    from tilewright.cli.run_results import Results
    from tilewright.cli.run_specs import bind, with_elements

    kernel = _of_tiles(module, options) if is_tile_ir(module) else _of_threads(module, options)
    values = bind(kernel.parameters, options.arguments, options.seed)
    parameters = with_elements(kernel.parameters, values)
    results = Results(parameters, values, options)
    printed: list[str] = []

    def emit(text: str) -> None:
        printed.append(text)
        if not options.json:
            session.write_stdout(text)

    with working(f"simulating {kernel.name}"):
        found = kernel.launch(
            values,
            registers=options.registers,
            numerics=options.numerics or "tensor-core",
            seed=options.seed,
            max_steps=options.max_iterations,
            time_limit=options.time_limit,
            strict=False,
            print_to=emit,
        )
    results.save(session)
    _draw(found, options.timeline, kernel.name, session)
    differing = results.compare() if found.completed else []
    if options.json:
        launch = _facts(options, kernel.block, found)
        told = {"entry": kernel.name, **launch, "printed": printed}
        session.write_stdout(results.to_json(told))
    else:
        session.write_stdout(results.shown())
        if options.counters:
            session.write_stdout(_counted(found))
    session.report([*found.findings, *differing])
    return Exit.FINDINGS if found.errors or differing else Exit.OK


def parameters_of(kernel: Any) -> list[Parameter]:
    """The parameters of a kernel as the command line sees them: memrefs, tensor maps and pointers
    take arrays."""
    from xdsl.dialects.builtin import MemRefType
    from xdsl.dialects.llvm import LLVMPointerType

    from tilewright.cli.run_specs import Parameter
    from tilewright.dialects.nvgpu.types import TensorMapDescriptorType
    from tilewright.simulator.findings import Fault
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


def _draw(found: SimulationResult, path: str | None, title: str, session: Session) -> None:
    if path is None:
        return
    timeline = found.timeline
    text = timeline.to_svg() if path.endswith(".svg") else timeline.to_html(title)
    write_files(session, {path: text.encode()})


def _facts(
    options: argparse.Namespace, block: Sequence[int], found: SimulationResult
) -> dict[str, object]:
    return {
        "machine": options.machine,
        "grid": list(options.grid),
        "block": list(block),
        "seed": options.seed,
        "completed": found.completed,
        "seconds": found.seconds,
        "counters": found.counters.as_dict(),
        "occupancy": str(found.occupancy),
    }


def _counted(found: SimulationResult) -> str:
    lines = [f"{name}: {number}" for name, number in found.counters.as_dict().items() if number]
    lines.append(f"shared memory of a block: {found.shared_bytes} bytes")
    lines.append(f"occupancy: {found.occupancy}")
    return "\n".join(lines) + "\n"
