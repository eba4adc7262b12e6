"""``tilewright profile``: estimates the speed of launches by the performance model."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from tilewright.cli.exits import Exit
from tilewright.cli.modules import add_reading_options
from tilewright.cli.programs import add_program_options, is_program
from tilewright.cli.run import count_of, grid_extents
from tilewright.cli.session import Session, UsageError

if TYPE_CHECKING:
    from tilewright.model.report import Launch
    from tilewright.model.tables import Gpu

_EPILOG = """\
All times are modelled; no GPU is used. SPEC is as in `tilewright run`. If all arguments are given, some
blocks run on the simulator, which shows bank conflicts, sectors and data-dependent loops; arrays of more than 4 million
elements are zero there. Launches of a cuTile program are profiled with their own arguments.

  tilewright profile --gpu h100 program.py
  tilewright profile --gpu h100 --html profile.html --compare before.json program.py
  tilewright profile softmax.tileir --gpu a100 --grid 4096 --arg zeros:f32:4096x1024 ...
  tilewright profile --cubin product.cubin --gpu h100 --grid 32,32 --trips L0=64
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="a cuTile program, Tile IR as text or bytecode, or nvgpu",
    )
    parser.add_argument("--cubin", metavar="CUBIN", help="profile machine code, from any compiler")
    parser.add_argument(
        "--kernel", "--entry", metavar="NAME[#N]", help="the kernel, if there are several"
    )
    parser.add_argument(
        "--gpu", required=True, metavar="GPU", help="a100, h100, h200, b200, rtx4090, rtx5090"
    )
    parser.add_argument("--grid", type=grid_extents, metavar="X[,Y[,Z]]", help="blocks (1)")
    parser.add_argument(
        "--block",
        type=grid_extents,
        metavar="X[,Y[,Z]]",
        help="threads per block, if the code does not state them",
    )
    parser.add_argument(
        "--arg", dest="arguments", action="append", default=[], metavar="[NAME=]SPEC"
    )
    parser.add_argument(
        "--trips",
        action="append",
        default=[],
        metavar="LOOP=N",
        help="trip count of a loop, such as L0=64; the output names the loops",
    )
    parser.add_argument(
        "--footprint",
        type=count_of,
        metavar="BYTES",
        help="bytes loaded from memory once (default: the size of the given arrays)",
    )
    parser.add_argument(
        "--dynamic-shared",
        type=count_of,
        metavar="BYTES",
        help="dynamic shared memory of the launch",
    )
    parser.add_argument(
        "--constants", metavar="FILE", help="JSON file with measured constants of the GPU"
    )
    parser.add_argument(
        "--show-constants",
        action="store_true",
        help="print the constants as JSON and exit",
    )
    parser.add_argument(
        "--static",
        action="store_true",
        help="analyse the code only, without simulating blocks",
    )
    parser.add_argument("--json", action="store_true", help="print all results as JSON")
    parser.add_argument("--html", metavar="FILE", help="also write an HTML page")
    parser.add_argument("--compare", metavar="JSON", help="compare with an earlier --json output")
    add_reading_options(parser)
    add_program_options(parser, kernel=False)


def execute(options: argparse.Namespace, session: Session) -> int:
    """Print the profiles of launches. Returns the exit status."""
    from tilewright.cli import profile_launches
    from tilewright.model.tables import gpu_named

    gpu = gpu_named(options.gpu)
    if options.constants is not None:
        from tilewright.model.tables import load_constants

        gpu = load_constants(session.read(options.constants).data.decode("utf-8", "replace"), gpu)
    if options.show_constants:
        _show_constants(gpu, session)
        return Exit.OK
    if options.file is not None and options.cubin is not None:
        raise UsageError.because("give either FILE or --cubin")
    if options.file is None and options.cubin is None:
        raise UsageError.because("no input to profile", help="give FILE or --cubin CUBIN")
    if options.file is not None and is_program(options.file):
        launches, status = profile_launches.of_program(options, session, gpu)
    else:
        refuse_options_of_programs(options)
        launches, status = [profile_launches.of_file(options, session, gpu)], Exit.OK
    return _write(launches, options, session, gpu) or status


def refuse_options_of_programs(options: argparse.Namespace) -> None:
    """Raise UsageError for an option that applies only to programs."""
    for name in ("save_ir", "machine"):
        if getattr(options, name) is not None:
            shown = name.replace("_", "-")
            raise UsageError.because(f"--{shown} requires a cuTile program")


def _show_constants(gpu: Gpu, session: Session) -> None:
    from dataclasses import asdict

    rows = {name: asdict(constant) for name, constant in gpu.constants.items()}
    session.write_stdout(
        json.dumps({"format": 1, "gpu": gpu.name, "constants": rows}, indent=1) + "\n"
    )


def _write(launches: list[Launch], options: argparse.Namespace, session: Session, gpu: Gpu) -> int:
    """Write the results in all requested forms."""
    from tilewright.model.comparison import compared, comparison_text, read_profile
    from tilewright.model.report import as_data, as_text

    found = None
    if options.compare is not None:
        text = session.read(options.compare).data.decode("utf-8", "replace")
        found = compared(read_profile(text, options.compare), launches)
    if options.html is not None:
        from tilewright.cli.outputs import write_files
        from tilewright.profiling.page import page

        write_files(session, {options.html: page(launches, gpu, found)})
        session.say(f"wrote {options.html}")
    if options.json:
        from dataclasses import asdict

        data = as_data(launches)
        if found is not None:
            data["compared"] = [asdict(each) for each in found]
        session.write_stdout(json.dumps(data, indent=1) + "\n")
        return Exit.OK
    parts = [as_text(launches, gpu)]
    if found is not None:
        parts.append(comparison_text(found, str(options.compare)))
    session.write_stdout("\n".join(parts))
    return Exit.OK
