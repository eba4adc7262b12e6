"""``tilewright profile``: how fast a launch would be, by the performance model."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.cli.exits import Exit
from tilewright.cli.modules import add_reading_options, load
from tilewright.cli.progress import working
from tilewright.cli.run import count_of, grid_extents
from tilewright.cli.session import Session, UsageError

if TYPE_CHECKING:
    from tilewright.model.sass import Kernel
    from tilewright.model.tables import Gpu

_EPILOG = """\
All times are modelled: no GPU is used. A SPEC is one of those of `tilewright run`; of arrays only the extents
count: they give the bytes that must come from memory at least. Loops run as often as the arguments say; where
that depends on data, --trips says it.

  tilewright profile --cubin product.cubin --gpu h100 --grid 32,32 \\
      --arg array:zeros:f16:4096x4096 --arg array:zeros:f16:4096x4096 --arg array:zeros:f16:4096x4096
  tilewright profile softmax.tileir --gpu a100 --grid 4096 --arg zeros:f32:4096x1024 ...
"""
#: What machine code is made for a GPU.
_TARGETS = {80: "sm_80", 89: "sm_89", 90: "sm_90a", 100: "sm_100a", 120: "sm_120a"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="Tile IR as text or bytecode, or nvgpu"
    )
    parser.add_argument("--cubin", metavar="CUBIN", help="machine code, of any compiler, instead")
    parser.add_argument(
        "--kernel", "--entry", metavar="NAME", help="the kernel, if there are several"
    )
    parser.add_argument(
        "--gpu", required=True, metavar="GPU", help="a100, h100, h200, b200, rtx4090, rtx5090"
    )
    parser.add_argument(
        "--grid", type=grid_extents, default=(1, 1, 1), metavar="X[,Y[,Z]]", help="blocks (1)"
    )
    parser.add_argument(
        "--block",
        type=grid_extents,
        metavar="X[,Y[,Z]]",
        help="threads, if the code does not say them",
    )
    parser.add_argument(
        "--arg", dest="arguments", action="append", default=[], metavar="[NAME=]SPEC"
    )
    parser.add_argument(
        "--trips",
        action="append",
        default=[],
        metavar="LOOP=N",
        help="turns of a loop, such as L0=64; the output names loops",
    )
    parser.add_argument(
        "--footprint",
        type=count_of,
        metavar="BYTES",
        help="bytes that come from memory once (default: those of the arrays that are given)",
    )
    parser.add_argument(
        "--dynamic-shared",
        type=count_of,
        metavar="BYTES",
        help="shared memory that the launch gives",
    )
    parser.add_argument(
        "--constants", metavar="FILE", help="constants of the GPU, as measured, in JSON"
    )
    parser.add_argument(
        "--show-constants",
        action="store_true",
        help="print the constants as JSON, and do nothing else",
    )
    parser.add_argument("--json", action="store_true", help="all that is known, as JSON")
    add_reading_options(parser)


def execute(options: argparse.Namespace, session: Session) -> int:
    """Print the profile of a launch."""
    from dataclasses import asdict

    from tilewright.model.report import as_json, as_text
    from tilewright.model.tables import gpu_named, load_constants
    from tilewright.model.timing import Options, profile
    from tilewright.model.walk import LaunchShape, parameter_words

    gpu = gpu_named(options.gpu)
    if options.constants is not None:
        gpu = load_constants(session.read(options.constants).data.decode("utf-8", "replace"), gpu)
    if options.show_constants:
        rows = {name: asdict(constant) for name, constant in gpu.constants.items()}
        session.write_stdout(json.dumps({"gpu": gpu.name, "constants": rows}, indent=1) + "\n")
        return Exit.OK
    code = _from_cubin(options, session) if options.cubin else _compiled(options, session, gpu)
    kernel = code.kernel
    names = list(code.names) or [f"arg{number}" for number in range(len(kernel.file.parameters))]
    from tilewright.cli.profile_arguments import read_arguments

    given = read_arguments(options.arguments, names)
    launch = LaunchShape(
        options.grid,
        _threads(kernel, options),
        parameter_words(kernel, _sized(kernel, given.values)),
    )
    if min(math.prod(launch.grid), math.prod(launch.threads)) < 1:
        raise UsageError.because("a launch needs blocks and threads: an extent is 0")
    footprint = options.footprint if options.footprint is not None else given.array_bytes
    dynamic = options.dynamic_shared if options.dynamic_shared is not None else code.dynamic_shared
    with working(f"profiling {kernel.name}"):
        found = profile(
            kernel, gpu, launch, Options(_trips(options.trips, kernel), dynamic, footprint)
        )
    session.write_stdout(as_json(found) if options.json else as_text(found, gpu, launch))
    return Exit.OK


@dataclass(frozen=True, slots=True)
class _Code:
    """Machine code of a kernel; ``names`` of its parameters, where they are known."""

    kernel: Kernel
    names: Sequence[str]
    dynamic_shared: int


def _from_cubin(options: argparse.Namespace, session: Session) -> _Code:
    from tilewright.gpu.tools import disassemble_to_json
    from tilewright.model.sass import kernel_named, read_kernels

    if options.file is not None:
        raise UsageError.because("give either FILE or --cubin")
    kernels = read_kernels(session.read(options.cubin).data, disassemble_to_json)
    return _Code(kernel_named(kernels, options.kernel), (), 0)


def _compiled(options: argparse.Namespace, session: Session, gpu: Gpu) -> _Code:
    """The kernel of a file, compiled by Tilewright for the GPU."""
    from tilewright.cli.compile_gpu import gpu_module
    from tilewright.cli.modules import machine_module
    from tilewright.cli.run import entry_of
    from tilewright.cli.run_specs import parameters_of
    from tilewright.gpu import compile_kernel
    from tilewright.gpu.tiles import TileProgram
    from tilewright.gpu.tools import disassemble_to_json
    from tilewright.launching.modules import is_tile_ir
    from tilewright.model.sass import kernel_named, read_kernels

    if options.file is None:
        raise UsageError.because("there is nothing to profile", help="give FILE or --cubin CUBIN")
    module = load(options.file, options, session)
    names: list[str] = []
    target = _TARGETS[gpu.compute]
    if is_tile_ir(module):
        held = machine_module(module, options.file)
        entry = entry_of(held, options.kernel)
        names = [parameter.name for parameter in parameters_of(entry)]
        compiled = TileProgram(held, target).compile(entry.symbol)
    else:
        compiled = compile_kernel(gpu_module(module), target, options.kernel)
    kernels = read_kernels(compiled.assemble().cubin, disassemble_to_json)
    return _Code(kernel_named(kernels, compiled.name), names, compiled.dynamic_shared_bytes)


def _threads(kernel: Kernel, options: argparse.Namespace) -> tuple[int, int, int]:
    said = kernel.file.threads
    if options.block is not None:
        if said is not None and kernel.file.exact_threads and options.block != said:
            raise UsageError.because(
                f"'{kernel.name}' is compiled for blocks of {said}, not {options.block}"
            )
        return options.block
    if said is None or not kernel.file.exact_threads:
        raise UsageError.because(
            "the code does not say how many threads a block has", help="add --block"
        )
    return said


def _sized(
    kernel: Kernel, values: Sequence[int | float | None]
) -> list[tuple[int, int | float | None]]:
    """The values with the bytes of their parameters."""
    places = kernel.file.parameters
    if len(values) > len(places):
        values = values[: len(places)]
    return [(place.size, value) for place, value in zip(places, values, strict=False)]


def _trips(given: Sequence[str], kernel: Kernel) -> dict[str, int]:
    names = [loop.name for loop in kernel.loops if not loop.waits]
    found: dict[str, int] = {}
    for text in given:
        name, _, count = text.partition("=")
        if name not in names or not count.isdecimal() or int(count) < 1:
            raise UsageError.because(
                f"'{text}' is no LOOP=N",
                help=f"loops of '{kernel.name}': {', '.join(names) or 'none'}",
            )
        found[name] = int(count)
    return found
