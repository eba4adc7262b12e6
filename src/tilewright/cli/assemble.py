"""``tilewright as``: text, or bytecode of any version, as bytecode."""

from __future__ import annotations

import argparse

from tilewright.cli.exits import Exit
from tilewright.cli.modules import add_reading_options, one_module, parse_source, verify_or_raise
from tilewright.cli.outputs import refuse_terminal, write_binary
from tilewright.cli.session import Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from tilewright.dialects.versions import BYTECODE_VERSIONS, LATEST, format_version

    parser.add_argument("file", metavar="FILE", help="text or bytecode; - is standard input")
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="the file to write; stdout if it is no terminal"
    )
    parser.add_argument(
        "--bytecode-version",
        choices=[format_version(version) for version in BYTECODE_VERSIONS],
        default=format_version(LATEST),
        metavar="13.N",
        help=f"version of the bytecode to write (default {format_version(LATEST)})",
    )
    parser.add_argument(
        "--producer", metavar="NAME", help="name the producer in the file (13.3 and later)"
    )
    add_reading_options(parser)


def execute(options: argparse.Namespace, session: Session) -> int:
    refuse_terminal(options.output)
    module = one_module(parse_source(session.read(options.file), options), options.file)
    if options.producer is not None:
        from xdsl.dialects.builtin import StringAttr

        module.properties["producer"] = StringAttr(options.producer)
    verify_or_raise(module, options, session)
    from tilewright import bytecode
    from tilewright.dialects.versions import parse_version

    data = bytecode.write(module, parse_version(options.bytecode_version))
    write_binary(session, options.output, data)
    return Exit.OK
