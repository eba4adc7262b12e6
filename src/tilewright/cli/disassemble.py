"""``tilewright dis``: bytecode, or text, as text."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tilewright.cli.exits import Exit
from tilewright.cli.modules import add_generic_options, add_reading_options, load
from tilewright.cli.outputs import write_text
from tilewright.cli.programs import (
    add_program_options,
    is_program,
    refuse_program_options,
    take,
)
from tilewright.cli.session import Session

if TYPE_CHECKING:
    from tilewright.cli.modules import Module


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="bytecode or text; - is standard input; or a cuTile program"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="output file (default: stdout)")
    parser.add_argument("--module", action="store_true", help="also print the enclosing module")
    parser.add_argument(
        "-g", "--print-locations", action="store_true", help="print debug information"
    )
    add_generic_options(parser)
    parser.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="verify before printing (default)",
    )
    add_reading_options(parser)
    add_program_options(parser)


def execute(options: argparse.Namespace, session: Session) -> int:
    if is_program(options.file):
        return _program(options, session)
    refuse_program_options(options, options.file)
    module = load(options.file, options, session, verify=options.verify)
    write_text(session, options.output, _printed(module, options, bare=not options.module))
    return Exit.OK


def _printed(module: Module, options: argparse.Namespace, *, bare: bool) -> str:
    from tilewright import text
    from tilewright.analysis.verifier import without_custom_form
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp

    return text.print_text(
        module,
        generic=options.generic is not None,
        reference=options.generic == "nvidia",
        locations=options.print_locations,
        bare=bare and isinstance(module, ModuleOp) and not options.generic,
        generic_for=frozenset() if options.verify else without_custom_form(module),
    )


def _program(options: argparse.Namespace, session: Session) -> int:
    """Print each kernel that a cuTile program compiles, below a comment that identifies it."""
    program = take(options.file, options, session)
    names = {taken.kernel.name for taken in program.chosen}
    # Kernels with equal names need separate modules.
    bare = not options.module and len(names) == len(program.chosen)
    parts = [
        f"// {taken}\n{_printed(taken.kernel.module, options, bare=bare)}"
        for taken in program.chosen
    ]
    write_text(session, options.output, "\n".join(parts))
    return program.finish(Exit.OK)
