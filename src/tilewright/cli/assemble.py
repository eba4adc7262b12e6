"""``tilewright as``: text, or bytecode of any version, as bytecode."""

from __future__ import annotations

import argparse

from tilewright.cli.exits import Exit
from tilewright.cli.modules import (
    add_reading_options,
    add_version_option,
    load,
    one_module,
    requested_version,
)
from tilewright.cli.outputs import refuse_terminal, write_binary
from tilewright.cli.session import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="text or bytecode; - is standard input")
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="output file (default: stdout unless it is a terminal)",
    )
    add_version_option(parser)
    parser.add_argument(
        "--producer", metavar="NAME", help="record this producer in the file (13.3 and later)"
    )
    add_reading_options(parser)


def execute(options: argparse.Namespace, session: Session) -> int:
    refuse_terminal(options.output)
    module = one_module(load(options.file, options, session), options.file)
    if options.producer is not None:
        from xdsl.dialects.builtin import StringAttr

        module.properties["producer"] = StringAttr(options.producer)
    from tilewright import bytecode

    data = bytecode.write(module, requested_version(options))
    write_binary(session, options.output, data)
    return Exit.OK
