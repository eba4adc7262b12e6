"""``tilewright explain``: explains an operation, a type or a diagnostic code, or shows a kernel."""

from __future__ import annotations

import argparse
import pkgutil
from collections import defaultdict
from importlib import import_module
from typing import TYPE_CHECKING

from tilewright.cli import explain_kernel
from tilewright.cli.exits import Exit
from tilewright.cli.explain_text import code_facts, facts_text, listing
from tilewright.cli.session import Session, UsageError
from tilewright.diagnostics import all_codes, define_code, find_code

if TYPE_CHECKING:
    from tilewright.cli.op_facts import Facts
    from tilewright.dialects.declare import DeclaredOp

UNKNOWN_NAME = define_code(
    "unknown-name",
    "No operation, type or diagnostic code has this name.",
    "`tilewright explain --list` lists all of them.",
)

# Modules that define no codes and must not be imported: one runs the command, the other loads all
# of xDSL.
_NO_CODES = frozenset({"tilewright.__main__", "tilewright.universe"})
#: Dialects whose operations are explained by their full names.
_DIALECTS = frozenset(
    {"nv_tileaa", "nv_tileas", "arith", "math", "nvgpu", "gpu", "nvvm", "memref", "vector", "llvm"}
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        nargs="?",
        metavar="FILE|OP|TYPE|CODE",
        help="what to explain; for a file (- is standard input), write an HTML page that shows "
        "its kernel on all levels",
    )
    parser.add_argument(
        "--list", action="store_true", help="list all operations, types and diagnostic codes"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    explain_kernel.add_kernel_arguments(parser)


def execute(options: argparse.Namespace, session: Session) -> int:
    if options.list == (options.name is not None):
        raise UsageError.because("give either a name or --list")
    if not options.list and explain_kernel.is_kernel(options.name):
        return explain_kernel.explain(options, session)
    explain_kernel.refuse_kernel_options(options)
    if options.list:
        _list_all(options.format, session)
        return Exit.OK
    found = _find(options.name)
    if not found:
        raise _unknown(options.name)
    if options.format == "json":
        _write_json(found, session)
    else:
        session.write_stdout("\n\n".join(map(facts_text, found)) + "\n")
    return Exit.OK


def _find(text: str) -> list[Facts]:
    """Return the facts known under a name; most names have one meaning."""
    from tilewright.cli.op_facts import op_facts
    from tilewright.cli.type_facts import type_facts
    from tilewright.dialects import cuda_tile
    from tilewright.dialects.cuda_tile.base import OPERATIONS

    cuda_tile.load()
    name = _plain(text)
    found: list[Facts] = []
    for op in OPERATIONS.values():
        if name == op.mnemonic() or name in op.ALIASES:
            found.append(op_facts(op))
    if name.partition(".")[0] in _DIALECTS and (declared := _other_operations().get(name)):
        found.append(op_facts(declared))
    if (facts := type_facts(name)) is not None:
        found.append(facts)
    if not found:
        load_all_codes()
    if (code := find_code(name)) is not None:
        found.append(code_facts(code))
    return found


def _plain(text: str) -> str:
    """Strip decoration: ``addi`` for ``cuda_tile.addi``, ``tile`` for ``!cuda_tile.tile<4xf32>``, ``syntax``
    for ``error[syntax]``."""
    text = text.strip()
    for severity in ("error", "warning", "note"):
        if text.startswith(f"{severity}[") and text.endswith("]"):
            return text[len(severity) + 1 : -1]
    return text.removeprefix("!").removeprefix("cuda_tile.").partition("<")[0]


def _other_operations() -> dict[str, type[DeclaredOp]]:
    """Return the operations of dialects other than cuda_tile, by full name."""
    found: dict[str, type[DeclaredOp]] = {}
    for dialect in ("nv_tileaa", "nv_tileas", "arith", "nvgpu"):
        import_module(f"tilewright.dialects.{dialect}").load()
        base = import_module(f"tilewright.dialects.{dialect}.base")
        found |= {op.name: op for op in base.OPERATIONS.values()}
    for dialect in ("arith", "gpu", "nvvm", "memref", "vector", "llvm"):
        import_module(f"tilewright.dialects.upstream.{dialect}").load()
    upstream = import_module("tilewright.dialects.upstream.base.operations").OPERATIONS
    ours = import_module("tilewright.dialects.nvgpu.wgmma").OPERATIONS
    for operations in (*upstream.values(), ours):
        # If an operation exists for tiles as well, explain the one for tiles.
        found = {op.name: op for op in operations.values()} | found
    return found


def load_all_codes() -> None:
    """Import all our modules, so that all diagnostic codes are defined.

    Skips modules that need an optional package which is not installed.
    """
    import tilewright

    for module in pkgutil.walk_packages(tilewright.__path__, "tilewright."):
        if module.name in _NO_CODES:
            continue
        try:
            import_module(module.name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == "tilewright":
                raise


def all_names() -> list[str]:
    """Return every name that can be explained."""
    return [name for _, rows in _sections() for name, _ in rows]


def _sections() -> list[tuple[str, list[tuple[str, str]]]]:
    from tilewright.cli.type_facts import type_facts, type_names
    from tilewright.dialects import cuda_tile
    from tilewright.dialects.cuda_tile.base import OPERATIONS

    cuda_tile.load()
    load_all_codes()
    groups: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, op in OPERATIONS.items():
        groups[op.GROUP].append((name, (op.__doc__ or "").strip().partition("\n")[0]))
    sections = [(f"Operations: {group}", rows) for group, rows in groups.items()]
    further: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, op in _other_operations().items():
        summary = (op.__doc__ or "").strip().partition("\n")[0]
        further[name.partition(".")[0]].append((name, summary))
    sections += [(f"Operations of {dialect}", rows) for dialect, rows in further.items()]
    types = [(name, (type_facts(name) or {}).get("summary", "")) for name in type_names()]
    codes = [(code.name, code.summary) for code in all_codes()]
    return [*sections, ("Types", types), ("Diagnostic codes", codes)]


def _list_all(form: str, session: Session) -> None:
    sections = _sections()
    if form == "json":
        _write_json(
            [
                {"section": title, "name": name, "summary": summary}
                for title, rows in sections
                for name, summary in rows
            ],
            session,
        )
    else:
        session.write_stdout(listing(sections) + "\n")


def _write_json(value: object, session: Session) -> None:
    import json

    session.write_stdout(json.dumps(value, indent=2) + "\n")


def _unknown(text: str) -> UsageError:
    import difflib

    name = _plain(text)
    known_names = all_names()
    near = difflib.get_close_matches(name, known_names, n=3, cutoff=0.6)
    near += [
        known
        for known in known_names
        if name.lower() in (known.lower(), known.lower().partition(".")[2]) and known not in near
    ]
    help_text = (
        f"did you mean {' or '.join(f'`{known}`' for known in near)}?"
        if near
        else "`tilewright explain --list` lists all names"
    )
    return UsageError.because(
        f"there is no operation, type or diagnostic code '{text}'",
        code=UNKNOWN_NAME,
        help=help_text,
    )
