"""``tilewright explain PROGRAM.py``: a page for each kernel that a cuTile program compiles."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from typing import TypedDict

from tilewright.cli.outputs import write_files
from tilewright.cli.pages import page_path
from tilewright.cli.programs import Program, Taken, take
from tilewright.cli.session import Session, UsageError

_FOR_MODULES = {"entry": "entry", "arguments": "arg", "seed": "seed", "grid": "grid"}


def explain_program(options: argparse.Namespace, session: Session) -> int:
    """Write a page for each kernel, of several specialisations the first, unless one is named."""
    for name, shown in _FOR_MODULES.items():
        if getattr(options, name) is not None:
            raise UsageError.because(
                f"--{shown} is for modules: a program chooses kernels and arguments by itself"
            )
    program = take(options.name, options, session)
    shown = program.chosen if options.kernel is not None else _first_of_each(program.chosen)
    paths = _paths(options, shown)
    pages = {paths[taken.label]: _page(taken, program, paths, options) for taken in shown}
    write_files(session, {path: page.encode() for path, page in pages.items()})
    for taken in shown:
        if paths[taken.label] != "-":
            session.say(f"wrote {paths[taken.label]}: {taken}")
    for taken in program.chosen:
        if taken not in shown:
            session.say(f"not shown: {taken}; --kernel '{taken.label}' does")
    return program.finish(0)


def _first_of_each(kernels: Sequence[Taken]) -> tuple[Taken, ...]:
    found: dict[str, Taken] = {}
    for taken in kernels:
        found.setdefault(taken.kernel.name, taken)
    return tuple(found.values())


def _paths(options: argparse.Namespace, shown: Sequence[Taken]) -> dict[str, str]:
    """Where pages go, by label: the first to ``-o``, further ones beside it."""
    if options.output == "-":
        if len(shown) > 1:
            raise UsageError.because(
                "several pages cannot go to standard output", help="name one kernel with --kernel"
            )
        return {shown[0].label: "-"}
    first = page_path(options.output, options.name)
    stem, suffix = os.path.splitext(first)
    paths = {shown[0].label: first}
    for taken in shown[1:]:
        path = f"{stem}.{taken.file_name}{suffix}"
        paths[taken.label] = page_path(path if options.output is not None else None, path)
    return paths


def _page(
    taken: Taken, program: Program, paths: dict[str, str], options: argparse.Namespace
) -> str:
    from tilewright.explain.page import About, render_page

    kernel = taken.kernel
    file, line = kernel.place
    others = [
        (
            str(other),
            os.path.basename(paths[other.label]) if other.label in paths else "",
            f"tilewright explain --kernel {shlex.quote(other.label)} {shlex.quote(program.path)}",
        )
        for other in program.kernels
        if other is not taken
    ]
    about = About(f"{os.path.relpath(file)}:{line}", kernel.kind, others)
    return render_page(kernel.explain(**explain_options(options)), about=about)


class Chosen(TypedDict):
    """What the levels of a page depend on."""

    passes: str
    target: str


def explain_options(options: argparse.Namespace) -> Chosen:
    """The target and the passes that are asked for; UsageErrors where there are none."""
    from tilewright.diagnostics import TileIRError
    from tilewright.explain.levels import checked_passes
    from tilewright.explain.stages import DEFAULT_TARGET, checked_target

    chosen: Chosen = {
        "passes": "tileaa" if options.passes is None else options.passes,
        "target": options.target or DEFAULT_TARGET,
    }
    try:
        checked_passes(chosen["passes"])
        checked_target(chosen["target"])
    except TileIRError as error:
        raise UsageError(error.diagnostics) from error
    return chosen
