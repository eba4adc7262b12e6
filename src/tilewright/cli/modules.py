"""Input files as modules: the options that say how to read them, and the reading."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tilewright.cli.session import InputFile, Session
from tilewright.diagnostics import ByteSpan, TileIRError, define_code

if TYPE_CHECKING:
    from xdsl.dialects import builtin

    from tilewright.dialects.cuda_tile.ops.module import ModuleOp

    Module = ModuleOp | builtin.ModuleOp

UNKNOWN_FORMAT = define_code(
    "unknown-file-format",
    "A file is neither Tile IR text nor Tile IR bytecode.",
    "Bytecode begins with the bytes 7F 54 69 6C 65 49 52 00. Text holds no zero byte.",
)
NOT_ONE_MODULE = define_code(
    "not-one-module",
    "Exactly one cuda_tile.module is needed, and the file holds another number.",
    "Bytecode holds one module, and a machine runs one.",
)


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """The options that change how text is read."""
    parser.add_argument(
        "--allow-unregistered",
        action="store_true",
        help="accept operations and attributes of unknown dialects in generic form",
    )
    parser.add_argument(
        "--no-implicit-module",
        action="store_true",
        help="do not put a module around kernels and globals that stand in none",
    )


def parse_source(source: InputFile, options: argparse.Namespace) -> Module:
    """The module of a file, not verified; the format is recognised by its content.

    Raises ``TileIRError`` for what cannot be read.
    """
    from tilewright import bytecode

    if bytecode.is_bytecode(source.data):
        return bytecode.read(source.data, source.name)
    return parse_text(source, options)


def parse_text(source: InputFile, options: argparse.Namespace) -> Module:
    """The module of a file that is no bytecode."""
    zero = source.data.find(0)
    if zero >= 0:
        raise TileIRError.single(
            UNKNOWN_FORMAT,
            "the file is neither Tile IR text nor Tile IR bytecode: it holds a zero byte but "
            "does not begin as bytecode does",
            ByteSpan(source.name, zero, zero + 1),
        )
    from tilewright import text

    return text.parse(
        source.data,
        source.name,
        implicit_module=not options.no_implicit_module,
        allow_unregistered=options.allow_unregistered,
    )


def verify_or_raise(module: Module, options: argparse.Namespace, session: Session) -> None:
    """Raise every error of the verifier; report its warnings."""
    from tilewright.analysis import verifier

    session.report(verifier.verify(module, allow_unregistered=options.allow_unregistered))


def one_module(module: Module, name: str) -> ModuleOp:
    """The one cuda_tile module that ``module`` is or holds; ``TileIRError`` for another number."""
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp

    if isinstance(module, ModuleOp):
        return module
    found = [op for op in module.body.ops if isinstance(op, ModuleOp)]
    if len(found) != 1 or len(module.body.ops) != 1:
        count = sum(1 for _ in module.body.ops)
        raise TileIRError.single(
            NOT_ONE_MODULE,
            f"expected one cuda_tile.module in '{name}', found {len(found)} among {count} "
            "operations",
        )
    return found[0]
