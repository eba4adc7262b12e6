"""``tilewright explain KERNEL``: a page with a kernel on all its levels."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import TYPE_CHECKING

from tilewright.cli.exits import Exit
from tilewright.cli.modules import add_reading_options, load, machine_module
from tilewright.cli.pages import page_path
from tilewright.cli.programs import add_program_options, is_program, refuse_program_options
from tilewright.cli.run import count_of, entry_of, grid_extents
from tilewright.cli.session import Session, UsageError

if TYPE_CHECKING:
    from tilewright.explain.footprints import Footprints
    from tilewright.explain.levels import Explanation

_SUFFIXES = (".tileir", ".tileirbc", ".mlir", ".py")
_OWN_OPTIONS = (
    "entry",
    "output",
    "grid",
    "arguments",
    "passes",
    "target",
    "seed",
    "max_iterations",
    "kernel",
    "save_ir",
)


def add_kernel_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options specific to a kernel's page."""
    group = parser.add_argument_group("the page of a kernel")
    group.add_argument("--entry", metavar="NAME", help="the kernel, if the module has several")
    group.add_argument(
        "-o", "--output", metavar="OUT", help="output page (default: NAME.html beside the file)"
    )
    group.add_argument(
        "--passes", metavar="PIPELINE", help="passes on nv_tileaa to show (default tileaa)"
    )
    group.add_argument("--target", metavar="sm_NN", help="the target architecture (default sm_100)")
    group.add_argument(
        "--grid",
        type=grid_extents,
        metavar="X[,Y[,Z]]",
        help="grid of the launch, which analyses may assume",
    )
    group.add_argument(
        "--arg",
        dest="arguments",
        action="append",
        metavar="[NAME=]SPEC",
        help="an argument, as in `run`: the kernel is run, and the page shows its memory footprints",
    )
    group.add_argument("--seed", type=count_of, metavar="N", help="seed of random arguments")
    group.add_argument(
        "--max-iterations", type=count_of, metavar="N", help="limit on the iterations of a loop"
    )
    add_reading_options(parser)
    add_program_options(parser)


def is_kernel(name: str) -> bool:
    """Whether a name is a file or standard input rather than something to be explained."""
    return name == "-" or os.path.isfile(name) or name.endswith(_SUFFIXES) or os.sep in name


def refuse_kernel_options(options: argparse.Namespace) -> None:
    """Raise UsageError for an option that only a kernel's page accepts."""
    for name in _OWN_OPTIONS:
        if getattr(options, name) is not None:
            shown = {"arguments": "arg"}.get(name, name.replace("_", "-"))
            raise UsageError.because(
                f"--{shown} requires a kernel, but '{options.name}' is not a file"
                if options.name
                else f"--{shown} requires a kernel"
            )


def explain(options: argparse.Namespace, session: Session) -> int:
    """Write the page of the kernel in the file ``name``, or the pages of a program's kernels.

    Returns the exit status. Raises UsageError for options that do not apply, TileIRError for bad input.
    """
    if options.format != "text":
        raise UsageError.because(
            "--format json explains names; a kernel is explained by an HTML page"
        )
    if is_program(options.name):
        from tilewright.cli.explain_program import explain_program

        return explain_program(options, session)
    refuse_program_options(options, options.name)
    loaded = load(options.name, options, session)
    from tilewright.cli.explain_program import explain_options
    from tilewright.cli.outputs import write_text
    from tilewright.explain.levels import explain_kernel
    from tilewright.explain.page import render_page
    from tilewright.explain.stages import is_of_threads

    of_threads = is_of_threads(loaded)
    module = loaded if of_threads else machine_module(loaded, options.name)
    name = options.entry if of_threads else entry_of(module, options.entry).symbol
    output = None if options.name == "-" else page_path(options.output, options.name)
    if options.output is not None:
        output = options.output
    found = explain_kernel(module, name, grid=options.grid, **explain_options(options))
    if of_threads:
        _refuse_launch(options)
        page = render_page(found)
    else:
        footprints = _footprints(options, found)
        page = render_page(found, footprints, how_to_run=_how_to_run(options, found))
    write_text(session, output, page)
    if output not in (None, "-"):
        session.say(f"wrote {output}")
    return Exit.OK


def _refuse_launch(options: argparse.Namespace) -> None:
    if options.arguments is not None or options.grid is not None:
        raise UsageError.because("nvgpu pages do not show launches: leave out --grid and --arg")


def _footprints(options: argparse.Namespace, found: Explanation) -> Footprints | None:
    """Return the memory that tile blocks touch, or None if no launch is described."""
    kernel = found.tile_kernel
    if options.arguments is None and (options.grid is None or kernel.block.args):
        return None
    from tilewright.cli.progress import working
    from tilewright.cli.run_specs import bind, parameters_of
    from tilewright.explain.footprints import record_footprints
    from tilewright.machine import DEFAULT_MAX_ITERATIONS

    values = bind(parameters_of(kernel), options.arguments or (), options.seed or 0)
    with working(f"running {found.kernel.symbol}") as progress:
        return record_footprints(
            found.module,
            found.kernel.symbol,
            options.grid or 1,
            values,
            max_iterations=options.max_iterations or DEFAULT_MAX_ITERATIONS,
            progress=progress,
        )


def _how_to_run(options: argparse.Namespace, found: Explanation) -> str:
    """Return a command that records footprints, with placeholders for the arguments."""
    from tilewright.cli.run_specs import parameters_of

    name = "FILE" if options.name == "-" else shlex.quote(options.name)
    arguments = "".join(
        f" --arg {p.name}=random:{p.element}:EXTENTS" if p.is_pointer else f" --arg {p.name}=NUMBER"
        for p in parameters_of(found.tile_kernel)
    )
    return f"tilewright explain {name} --grid X,Y,Z{arguments}"
