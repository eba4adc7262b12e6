"""``tilewright explain PROGRAM.py``: a page for each kernel that a cuTile program compiles."""

from __future__ import annotations

import argparse
import os
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from tilewright.cli.outputs import write_files
from tilewright.cli.pages import page_path
from tilewright.cli.programs import Program, Taken, take
from tilewright.cli.session import Session, UsageError

if TYPE_CHECKING:
    from tilewright.cutile import Compiled
    from tilewright.explain.about import About
    from tilewright.explain.worker import PageWorker

#: The defaults; a test compares them with those of `explain`.
_PASSES, _TARGET = "tileaa", "sm_100"
_FOR_MODULES = {"entry": "entry", "arguments": "arg", "seed": "seed", "grid": "grid"}


def explain_program(options: argparse.Namespace, session: Session) -> int:
    """Write a page for each kernel; of several specialisations the first, unless one is named.

    Returns the exit status. Raises UsageError for options that describe a launch.
    """
    for name, shown in _FOR_MODULES.items():
        if getattr(options, name) is not None:
            raise UsageError.because(
                f"--{shown} does not apply to programs, which choose kernels and arguments themselves"
            )
    chosen = explain_options(options)
    from tilewright.explain.worker import PageWorker

    with PageWorker() as worker:
        ahead = _Ahead(worker, options.kernel, chosen)
        program = take(options.name, options, session, told=ahead.take)
        shown = program.chosen if options.kernel is not None else _first_of_each(program.chosen)
        paths = _paths(options, shown)
        abouts = {taken.label: _about(taken, program, paths) for taken in shown}
        pages = {
            paths[taken.label]: worker.page(program.kernels.index(taken), abouts[taken.label])
            or _page(taken, abouts[taken.label], chosen)
            for taken in shown
        }
    write_files(session, pages)
    for taken in shown:
        if paths[taken.label] != "-":
            session.say(f"wrote {paths[taken.label]}: {taken}")
    for taken in program.chosen:
        if taken not in shown:
            session.say(f"not shown: {taken}; --kernel '{taken.label}' does")
    return program.finish(0)


class _Ahead:
    """Sends each kernel to be shown to the worker as soon as the program has compiled it."""

    def __init__(self, worker: PageWorker, wanted: str | None, chosen: Chosen):
        self._worker, self._wanted, self._chosen = worker, wanted, chosen
        self._number = 0
        self._names: Counter[str] = Counter()

    def take(self, kernel: Compiled) -> None:
        number, self._number = self._number, self._number + 1
        self._names[kernel.name] += 1
        times = self._names[kernel.name]
        named = self._wanted in (kernel.name, f"{kernel.name}#{times}")
        if named or (self._wanted is None and times == 1):
            self._worker.begin(number, kernel.module, kernel.name, **self._chosen)


def _first_of_each(kernels: Sequence[Taken]) -> tuple[Taken, ...]:
    found: dict[str, Taken] = {}
    for taken in kernels:
        found.setdefault(taken.kernel.name, taken)
    return tuple(found.values())


def _paths(options: argparse.Namespace, shown: Sequence[Taken]) -> dict[str, str]:
    """Return the page path for each label: ``-o`` for the first, others beside it."""
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


def _about(taken: Taken, program: Program, paths: dict[str, str]) -> About:
    from tilewright.explain.about import About

    file, line = taken.kernel.location
    others = [
        (
            str(other),
            os.path.basename(paths[other.label]) if other.label in paths else "",
            f"tilewright explain --kernel {shlex.quote(other.label)} {shlex.quote(program.path)}",
        )
        for other in program.kernels
        if other is not taken
    ]
    return About(f"{os.path.relpath(file)}:{line}", taken.kernel.kind, others)


def _page(taken: Taken, about: About, chosen: Chosen) -> str:
    from tilewright.explain.page import render_page

    return render_page(taken.kernel.explain(**chosen), about=about)


class Chosen(TypedDict):
    """The parameters that determine the levels of a page."""

    passes: str
    target: str


def explain_options(options: argparse.Namespace) -> Chosen:
    """Return the requested target and passes. Raises UsageError if they do not exist."""
    chosen: Chosen = {
        "passes": _PASSES if options.passes is None else options.passes,
        "target": options.target or _TARGET,
    }
    if options.passes is None and options.target is None:
        return chosen
    from tilewright.diagnostics import TileIRError
    from tilewright.explain.levels import checked_passes
    from tilewright.explain.stages import checked_target

    try:
        checked_passes(chosen["passes"])
        checked_target(chosen["target"])
    except TileIRError as error:
        raise UsageError(error.diagnostics) from error
    return chosen
