"""Reads input files as modules, and defines the options for reading them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tilewright.cli.session import InputFile, Session
from tilewright.diagnostics import ByteSpan, Diagnostic, TileIRError, define_code

if TYPE_CHECKING:
    from xdsl.dialects import builtin

    from tilewright.dialects.cuda_tile.ops.module import ModuleOp
    from tilewright.dialects.versions import Version

    Module = ModuleOp | builtin.ModuleOp

UNKNOWN_FORMAT = define_code(
    "unknown-file-format",
    "A file is neither Tile IR text nor bytecode.",
    "Bytecode begins with the bytes 7F 54 69 6C 65 49 52 00. Text contains no zero byte.",
)
NOT_ONE_MODULE = define_code(
    "not-one-module",
    "The file does not contain exactly one cuda_tile.module.",
    "Bytecode contains one module, and a machine runs one.",
)


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that change how text is read."""
    parser.add_argument(
        "--allow-unregistered",
        action="store_true",
        help="accept operations and attributes of unknown dialects in generic form",
    )
    parser.add_argument(
        "--no-implicit-module",
        action="store_true",
        help="do not wrap top-level kernels and globals in a module",
    )


def add_generic_options(group: argparse._ActionsContainer) -> None:
    """Add ``--generic`` and ``--nvidia-generic``, for commands that print text."""
    group.add_argument(
        "--generic",
        action="store_const",
        const="xdsl",
        help="print operations in generic form, with the module, as read by xdsl-opt",
    )
    group.add_argument(
        "--nvidia-generic",
        dest="generic",
        action="store_const",
        const="nvidia",
        help="generic form as printed by NVIDIA's tools: constants as dense<...>; memory "
        "orderings, scopes and atomic modes as integers",
    )


def add_version_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--bytecode-version``, for commands that write bytecode."""
    from tilewright.dialects.versions import BYTECODE_VERSIONS, LATEST, format_version

    parser.add_argument(
        "--bytecode-version",
        choices=[format_version(version) for version in BYTECODE_VERSIONS],
        default=format_version(LATEST),
        metavar="13.N",
        help=f"version of the bytecode to write (default {format_version(LATEST)})",
    )


def requested_version(options: argparse.Namespace) -> Version:
    """Return the version that ``--bytecode-version`` names, which is one of its choices."""
    from tilewright.dialects.versions import parse_version

    return parse_version(options.bytecode_version)


def is_bytecode(source: InputFile) -> bool:
    """Whether the contents start like bytecode."""
    from tilewright import bytecode

    return bytecode.is_bytecode(source.data)


def parse_source(
    source: InputFile, options: argparse.Namespace, warnings: list[Diagnostic]
) -> Module:
    """Read the module of a file without verifying it; the format is detected from the content.

    ``warnings`` receives diagnostics about odd but readable input. Raises ``TileIRError`` if the file
    cannot be read.
    """
    if is_bytecode(source):
        from tilewright import bytecode

        return bytecode.read(source.data, source.name, warnings=warnings)
    return _parse_text(source, options)


def _parse_text(source: InputFile, options: argparse.Namespace) -> Module:
    """Read the module of a file that is not bytecode."""
    zero = source.data.find(0)
    if zero >= 0:
        raise TileIRError.single(
            UNKNOWN_FORMAT,
            "the file is neither Tile IR text nor bytecode: it contains a zero byte but does not "
            "start with the bytecode magic",
            ByteSpan(source.name, zero, zero + 1),
        )
    from tilewright import text

    return text.parse(
        source.data,
        source.name,
        implicit_module=not options.no_implicit_module,
        allow_unregistered=options.allow_unregistered,
    )


def all_diagnostics(error: TileIRError) -> list[Diagnostic]:
    """Return the errors that stopped the reading of a file, and those of the parts that were read, in order."""
    if not error.partial:
        return list(error.diagnostics)
    from tilewright.analysis import verifier

    found = [*error.diagnostics, *verifier.find_further_problems(error)]
    return sorted(found, key=lambda d: (d.line or 0, d.column or 0))


def load(
    path: str, options: argparse.Namespace, session: Session, *, verify: bool = True
) -> Module:
    """Read and, by default, verify the module of a file; its warnings are reported.

    Raises ``UsageError`` if the file cannot be read, ``TileIRError`` with every error in the input.
    """
    module, warnings = read_module(session.read(path), options, verify=verify)
    session.report(warnings)
    return module


def read_module(
    source: InputFile, options: argparse.Namespace, *, verify: bool = True
) -> tuple[Module, list[Diagnostic]]:
    """Read and, by default, verify the module of a file; returns it and its warnings.

    Raises ``TileIRError`` with every error in the input, and the warnings.
    """
    warnings: list[Diagnostic] = []
    try:
        module = parse_source(source, options, warnings)
        if verify:
            from tilewright.analysis import verifier

            warnings += verifier.verify(module, allow_unregistered=options.allow_unregistered)
    except TileIRError as error:
        raise TileIRError([*warnings, *all_diagnostics(error)]) from error
    return module, warnings


def is_read_plainly(options: argparse.Namespace) -> bool:
    """Whether files are read as ``tilewright.load`` reads them."""
    return not (options.no_implicit_module or options.allow_unregistered)


def machine_module(module: Module, name: str) -> Module:
    """Return the module that the machine runs: the only cuda_tile module, or one with functions of
    ``nv_tileaa``. Raises ``TileIRError`` if there is neither."""
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp
    from tilewright.dialects.nv_tileaa import FUNC

    if not isinstance(module, ModuleOp) and any(op.name == FUNC for op in module.body.block.ops):
        return module
    return one_module(module, name)


def one_module(module: Module, name: str) -> ModuleOp:
    """Return the only cuda_tile module that ``module`` is or contains. Raises ``TileIRError`` otherwise."""
    from tilewright.dialects.cuda_tile.ops.module import ModuleOp

    if isinstance(module, ModuleOp):
        return module
    operations = list(module.body.block.ops)
    found = [op for op in operations if isinstance(op, ModuleOp)]
    if len(found) != 1 or len(operations) != 1:
        raise TileIRError.single(
            NOT_ONE_MODULE,
            f"expected one cuda_tile.module in '{name}' and nothing else, found {len(found)} "
            f"among {len(operations)} operations",
            help=_other_dialects(module),
        )
    return found[0]


def _other_dialects(module: builtin.ModuleOp) -> str:
    """Return the names of the other dialects in a module without cuda_tile; empty if there is none."""
    names = {op.dialect_name() for op in module.walk()} - {"builtin", "cuda_tile"}
    if not names:
        return ""
    return f"its operations are of {', '.join(sorted(names))}, which have no bytecode form"
