"""``tilewright dis``: bytecode, or text, as text."""

from __future__ import annotations

import argparse

from tilewright.cli.exits import Exit
from tilewright.cli.modules import add_generic_options, add_reading_options, load
from tilewright.cli.outputs import write_text
from tilewright.cli.session import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="bytecode or text; - is standard input")
    parser.add_argument("-o", "--output", metavar="OUT", help="the file to write instead of stdout")
    parser.add_argument(
        "--module", action="store_true", help="print the module's own line around its contents"
    )
    parser.add_argument(
        "-g", "--print-locations", action="store_true", help="print debug information"
    )
    add_generic_options(parser)
    parser.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="print only what the verifier accepts (default)",
    )
    add_reading_options(parser)


def execute(options: argparse.Namespace, session: Session) -> int:
    module = load(options.file, options, session, verify=options.verify)
    from tilewright import text
    from tilewright.analysis.verifier import without_custom_form
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp

    bare = isinstance(module, ModuleOp) and not (options.module or options.generic)
    printed = text.print_text(
        module,
        generic=options.generic is not None,
        reference=options.generic == "nvidia",
        locations=options.print_locations,
        bare=bare,
        generic_for=frozenset() if options.verify else without_custom_form(module),
    )
    write_text(session, options.output, printed)
    return Exit.OK
