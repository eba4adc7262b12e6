"""``tilewright run --machine cuda``: kernels of ``nvgpu``, and of Tile IR, on a GPU."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.cli.compile_gpu import gpu_module
from tilewright.cli.exits import Exit
from tilewright.cli.modules import load
from tilewright.cli.progress import working
from tilewright.cli.session import Session, UsageError

if TYPE_CHECKING:
    from tilewright.cli.run_specs import Parameter
    from tilewright.gpu.launch import LaunchResult

CUDA = "cuda"
#: Options of other machines.
_OTHERS = (
    "threads",
    "cpu",
    "checked",
    "trace",
    "arithmetic",
    "numerics",
    "timeline",
    "counters",
    "find_nan",
)


def is_cuda(options: argparse.Namespace) -> bool:
    return options.machine.partition(":")[0] == CUDA


def execute(options: argparse.Namespace, session: Session) -> int:
    """Compile a kernel for the GPU that is there, or for the architecture behind the colon, and run it.

    Arrays are copied to the GPU, and back.
    """
    for name in _OTHERS:
        if getattr(options, name, None):
            shown = name.replace("_", "-")
            raise UsageError.because(f"the GPU has no --{shown}")
    if options.time_limit is not None:
        raise UsageError.because("a GPU has no --time-limit: its launches cannot be stopped")
    module = load(options.file, options, session)
    from tilewright.cli.run_results import Results
    from tilewright.cli.run_sim import is_tile_ir
    from tilewright.cli.run_specs import bind, with_elements
    from tilewright.gpu.driver import open_gpu

    arch = options.machine.partition(":")[2] or open_gpu().best_architecture().name
    make = _of_tiles if is_tile_ir(module) else _of_threads
    name, parameters, launch = make(module, options, arch)
    values = bind(parameters, options.arguments, options.seed)
    results = Results(with_elements(parameters, values), values, options)
    with working(f"running {name}"):
        found = launch(values)
    results.save(session)
    differing = results.compare()
    if options.json:
        about = {
            "entry": name,
            "machine": options.machine,
            "device": found.device,
            "architecture": arch,
            "grid": list(options.grid),
            "milliseconds": found.milliseconds,
        }
        session.write_stdout(results.to_json(about))
    else:
        session.write_stdout(results.shown())
        session.say(f"{name} on {found.device}: {found.milliseconds:.3f} ms")
    session.report(differing)
    return Exit.FINDINGS if differing else Exit.OK


_Launch = tuple[str, "Sequence[Parameter]", "Callable[[Any], LaunchResult]"]
"""A kernel's name, its parameters, and what runs it."""


def _of_threads(module: Any, options: argparse.Namespace, arch: str) -> _Launch:
    """A kernel of ``nvgpu``."""
    from tilewright.cli.run_sim import parameters_of
    from tilewright.gpu import compile_kernel, kernels_of
    from tilewright.gpu.launch import launch

    module = gpu_module(module)
    kernels = kernels_of(module)
    if options.entry is None and len(kernels) > 1:
        raise UsageError.because(
            f"there are several kernels: {', '.join(kernels)}", help="name one with --entry"
        )
    compiled = compile_kernel(module, arch, options.entry)
    kernel = next(op for name, op in kernels.items() if options.entry in (None, name))

    def run(values: Any) -> LaunchResult:
        return launch(
            compiled,
            options.grid,
            values,
            block=options.block,
            cluster=options.cluster,
            dynamic_shared_bytes=options.dynamic_shared,
        )

    return compiled.name, parameters_of(kernel), run


def _of_tiles(module: Any, options: argparse.Namespace, arch: str) -> _Launch:
    """A kernel of Tile IR, which is lowered to threads."""
    from tilewright.cli.modules import machine_module
    from tilewright.cli.run import entry_of
    from tilewright.cli.run_sim import refuse_block_options
    from tilewright.cli.run_specs import parameters_of
    from tilewright.gpu.tiles import TileProgram

    refuse_block_options(options)
    held = machine_module(module, options.file)
    entry = entry_of(held, options.entry)
    program = TileProgram(held, arch)

    def run(values: Any) -> LaunchResult:
        return program.launch(entry.symbol, options.grid, values)

    return entry.symbol, parameters_of(entry), run
