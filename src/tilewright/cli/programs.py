"""Commands on a cuTile program: the program is run, and the kernels it compiles are collected."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.cli.exits import Exit
from tilewright.cli.session import Session, UsageError
from tilewright.diagnostics import Diagnostic, NamedLocation, Severity, TileIRError, define_code

if TYPE_CHECKING:
    from tilewright.cutile import Compiled
    from tilewright.cutile.compilation import ProgramRun
    from tilewright.cutile.settings import LaunchStandIn, Settings

PROGRAM_FAILED = define_code(
    "program-failed",
    "A cuTile program raised an exception before or in its first launch.",
    "Kernels are compiled when they are launched, so there is nothing to show. `python PROGRAM` "
    "prints the whole traceback.",
)
NO_KERNEL = define_code(
    "no-kernel-launched",
    "A cuTile program ended without launching a kernel.",
    "Kernels are compiled when they are launched. Perhaps the program needs arguments, which follow "
    "its name, or launches only under `if __name__ == '__main__'` of another file.",
)
UNKNOWN_KERNEL = define_code(
    "unknown-program-kernel",
    "A cuTile program compiles no kernel of that name.",
    "A kernel has the name of its Python function. If it was compiled for several kinds of "
    "arguments, NAME#2 is the second specialisation, in launch order.",
)

#: The commands that accept programs.
COMMANDS = frozenset({"check", "dis", "compile", "explain", "profile", "tune", "sanitize", "run"})
_OTHER_INPUTS = (".tileir", ".mlir", ".tileirbc")


def split(arguments: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Split a command line into the part up to the program, and the program's own arguments.

    The latter are None if the command accepts no program, or is given another file. If a profile does not name its
    GPU before the program, what follows up to `--` belongs to the command; the same holds for `tune` if that starts
    with one of its options.
    """
    words = list(arguments)
    if not words or words[0] not in COMMANDS:
        return words, None
    found = (n for n, word in enumerate(words) if word.endswith(".py") and word[:1] != "-")
    position = next(found, None)
    # A Tile IR file takes arguments by options only, so no other word may precede the program.
    before = words[1 : position or 0]
    if position is None or any(
        word == "--arg" or (not previous.startswith("-") and _is_other_input(word))
        for previous, word in pairwise(["", *before])
    ):
        return words, None
    own, theirs = words[: position + 1], words[position + 1 :]
    if words[0] == "profile" and not any(word.startswith("--gpu") for word in own):
        end = theirs.index("--") if "--" in theirs else len(theirs)
        return [*own, *theirs[:end]], theirs[end + 1 :]
    if words[0] == "tune" and theirs and theirs[0].partition("=")[0] in _options("tune"):
        end = theirs.index("--") if "--" in theirs else len(theirs)
        return [*own, *theirs[:end]], theirs[end + 1 :]
    if words[0] == "tune" and theirs[:1] == ["--"]:
        return own, theirs[1:]
    return own, theirs


def _options(command: str) -> frozenset[str]:
    """Return the options of a command."""
    from importlib import import_module

    parser = argparse.ArgumentParser(add_help=False)
    import_module(f"tilewright.cli.{command}").add_arguments(parser)
    # argparse has no public way to list the options of a parser.
    return frozenset(name for action in parser._actions for name in action.option_strings)


def _is_other_input(word: str) -> bool:
    return word == "-" or Path(word).suffix in _OTHER_INPUTS


def is_program(path: str) -> bool:
    """Whether an input is a cuTile program."""
    return path.endswith(".py")


def add_program_options(parser: argparse.ArgumentParser, *, kernel: bool = True) -> None:
    """Add the options specific to programs. ``kernel``: including ``--kernel``."""
    group = parser.add_argument_group(
        "cuTile programs",
        "A FILE ending in .py is run, and the kernels that it compiles are processed. Words after "
        "FILE are arguments of the program.",
    )
    if kernel:
        group.add_argument(
            "--kernel",
            metavar="NAME[#N]",
            help="only this kernel; #N selects the N-th specialisation",
        )
    group.add_argument(
        "--save-ir",
        metavar="DIR",
        help="save bytecode and the text of every level to a directory",
    )
    group.add_argument(
        "--no-torch-cuda",
        dest="torch_cuda",
        action="store_false",
        help="do not emulate torch's cuda device on the CPU",
    )
    group.add_argument(
        "--machine",
        metavar="NAME",
        help="the machine that runs launches: cpu (default), reference, sim:ARCH or cuda",
    )


def refuse_program_options(options: argparse.Namespace, path: str) -> None:
    """Raise UsageError for an option that applies only to programs."""
    for name in ("kernel", "save_ir"):
        if getattr(options, name, None) is not None:
            shown = name.replace("_", "-")
            raise UsageError.because(
                f"--{shown} requires a cuTile program, but '{path}' is not one"
            )


@dataclass(frozen=True, slots=True)
class Taken:
    """A kernel of a program under a unique name.

    ``label`` is ``forward``, or ``forward#2``; ``difference`` is what distinguishes it from other
    specialisations; ``file_name`` is the label in a form for file names.
    """

    label: str
    difference: str
    kernel: Compiled

    @property
    def file_name(self) -> str:
        """The label in a form for file names."""
        return self.label.replace("#", "-")

    def __str__(self) -> str:
        return f"{self.label} ({self.difference})" if self.difference else self.label


@dataclass(frozen=True, slots=True)
class Program:
    """The kernels of a program: all, and the chosen ones. ``status`` is the program's exit status."""

    path: str
    kernels: tuple[Taken, ...]
    chosen: tuple[Taken, ...]
    status: int

    def finish(self, status: int) -> int:
        """Return the exit status of a command whose own part ended with ``status``."""
        return status or (Exit.FINDINGS if self.status else Exit.OK)


def take(
    path: str,
    options: argparse.Namespace,
    session: Session,
    *,
    told: Callable[[Compiled], object] | None = None,
    instead: LaunchStandIn | None = None,
    settled: Callable[[Settings], Settings] | None = None,
) -> Program:
    """Run a program and collect its kernels as the options say. ``instead`` handles its launches, ``settled`` adjusts
    the settings.

    The program's output goes to standard error. If the program fails after a launch, its traceback is
    shown and the kernels are still collected. Raises UsageError if it cannot be started or has no kernel
    of that name, TileIRError if it launches none.
    """
    run = _run(path, options, session, told, instead, settled)
    if isinstance(run.error, KeyboardInterrupt):
        raise run.error
    if not run.kernels:
        raise _nothing(path, run)
    # If launches do not run, their results are wrong, and the program may fail because of that.
    expected = instead is not None and options.machine is None
    if run.error is not None and not expected:
        from tilewright.cutile.program import show_exception

        show_exception(run.error)
    if run.status and not expected:
        session.say(f"note: the program ended with status {run.status}; its kernels follow")
    kernels = labelled(run.kernels)
    chosen = choose(kernels, options.kernel, path)
    if options.save_ir is not None:
        save_ir(chosen, options, session)
    return Program(path, kernels, chosen, run.status)


def _run(
    path: str,
    options: argparse.Namespace,
    session: Session,
    told: Callable[[Compiled], object] | None,
    instead: LaunchStandIn | None,
    settled: Callable[[Settings], Settings] | None,
) -> ProgramRun:
    session.check_readable(path)
    from tilewright.cutile.compilation import compile_program
    from tilewright.cutile.errors import RefusedError
    from tilewright.cutile.frontend import FrontEndError
    from tilewright.cutile.machines import check_settings
    from tilewright.cutile.settings import Settings
    from tilewright.launching.options import LaunchOptions

    _warn_of_options(options, session)
    machine = getattr(options, "machine", None)
    settings = Settings(
        machine or default_machine(),
        LaunchOptions(print_to=lambda text: print(text, end="", file=sys.stderr, flush=True)),
        cuda_is_host=options.torch_cuda,
        instead=instead,
    )
    settings = settings if settled is None else settled(settings)
    try:
        if machine is not None:
            check_settings(settings)
        return compile_program(
            path,
            session.program_arguments,
            settings,
            torch_cuda=options.torch_cuda,
            stdout=sys.stderr,
            told=told,
        )
    except RefusedError as error:
        raise UsageError(error.diagnostics) from error
    except (FrontEndError, OSError) as error:
        raise UsageError.because(str(error)) from error


def default_machine() -> str:
    """Return the fastest available machine, since the program is run only for what it compiles."""
    from importlib.util import find_spec

    return "cpu" if find_spec("llvmlite") is not None else "reference"


_SHORT = {"-o": "output"}


def _warn_of_options(options: argparse.Namespace, session: Session) -> None:
    """Warn if words after the program look like options that were meant for us."""
    for word in session.program_arguments:
        name = _SHORT.get(word) or (word[2:].partition("=")[0] if word[:2] == "--" else "")
        if name and hasattr(options, name.replace("-", "_")):
            session.say(
                f"note: '{word}' follows the program and is passed to it; options of tilewright "
                "come first"
            )
            return


def _nothing(path: str, run: ProgramRun) -> TileIRError:
    """Return the error for a program that launched no kernel."""
    error = run.error
    if error is None:
        how = f"ended with status {run.status}" if run.status else "ended"
        return TileIRError.single(
            NO_KERNEL,
            f"'{path}' {how} without launching a cuTile kernel",
            help="arguments of the program follow its name",
        )
    if isinstance(error, TileIRError):
        return TileIRError(error.diagnostics)
    from tilewright.cutile.frontend import refusal

    help_text, location = "", _place(error)
    if (refused := refusal(error)) is not None:
        message, position = f"cuTile refuses a kernel of '{path}': {refused[0]}", refused[1]
        location = location if position is None else NamedLocation(*position)
    elif isinstance(error, ModuleNotFoundError) and error.name:
        message = f"'{path}' imports '{error.name}', which is not installed"
        help_text = f"install it beside tilewright, for {sys.executable}"
    else:
        first = " ".join(str(error).split()) or "no message"
        message = f"'{path}' failed before it launched a kernel: {type(error).__name__}: {first}"
    return TileIRError(
        [Diagnostic(Severity.ERROR, PROGRAM_FAILED, message, location, help=help_text)]
    )


def _place(error: BaseException) -> NamedLocation | None:
    """Return the innermost line of the program, or of its imports, where an exception was raised."""
    from tilewright.cutile.program import is_ours

    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return NamedLocation(error.filename, error.lineno, error.offset or 1, "")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not is_ours(frame.filename) and not frame.filename.startswith("<")
    ]
    if not frames:
        return None
    last = frames[-1]
    return NamedLocation(last.filename, last.lineno or 1, (last.colno or 0) + 1, last.name)


def labelled(kernels: Sequence[Compiled]) -> tuple[Taken, ...]:
    """Return kernels with unique names, in order."""
    from tilewright.cutile.specialisation import differences

    groups: dict[tuple[str, tuple[str, int]], list[Compiled]] = {}
    for kernel in kernels:
        groups.setdefault((kernel.name, kernel.location), []).append(kernel)
    said: dict[int, tuple[str, str]] = {}
    for group in groups.values():
        apart = differences([dict(kernel.kind) for kernel in group])
        for kernel, difference in zip(group, apart, strict=True):
            same = [other for other in kernels if other.name == kernel.name]
            number = next(n for n, other in enumerate(same, 1) if other is kernel)
            label = kernel.name if len(same) == 1 else f"{kernel.name}#{number}"
            said[id(kernel)] = label, difference
    return tuple(Taken(*said[id(kernel)], kernel) for kernel in kernels)


def choose(kernels: Sequence[Taken], wanted: str | None, path: str) -> tuple[Taken, ...]:
    """Return the kernels of that name, or with that label; all for None. Raises UsageError if there is none."""
    chosen = tuple(k for k in kernels if wanted in (None, k.label, k.kernel.name))
    if not chosen:
        raise UsageError.because(
            f"'{path}' compiles no kernel '{wanted}'",
            code=UNKNOWN_KERNEL,
            help=f"it compiles {listed(kernels)}",
        )
    return chosen


def listed(kernels: Sequence[Taken]) -> str:
    """Format a list of kernels, with what distinguishes specialisations."""
    return ", ".join(map(str, kernels))


def only(program: Program, why: str) -> Taken:
    """Return the only chosen kernel. Raises UsageError if there are several."""
    if len(program.chosen) == 1:
        return program.chosen[0]
    raise UsageError.because(
        f"{why}, and '{program.path}' compiles {listed(program.chosen)}",
        help="name one with --kernel",
    )


def save_ir(chosen: Sequence[Taken], options: argparse.Namespace, session: Session) -> None:
    """Write the bytecode and every level of kernels: ``DIR/KERNEL.tileirbc``, ``DIR/KERNEL.nvgpu.mlir``.

    Levels that a kernel does not have are told in notes. Raises UsageError if the directory cannot be made or
    written.
    """
    from tilewright.cli.outputs import write_files
    from tilewright.cutile.compilation import DEFAULT_TARGET
    from tilewright.explain.stages import LEVELS

    target = getattr(options, "target", None)
    target = target if target and target.startswith("sm_") else DEFAULT_TARGET
    folder = options.save_ir
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError.because(
            f"cannot make the directory '{folder}': {error.strerror}"
        ) from None
    files: dict[str, bytes | str] = {}
    missing: dict[str, str] = {}
    for taken in chosen:
        files[os.path.join(folder, f"{taken.file_name}.tileirbc")] = taken.kernel.bytecode
        for level, kind in LEVELS.items():
            try:
                text = taken.kernel.text(level, target=target)
            except TileIRError as error:
                missing[f"{taken.label} has no {level}"] = error.diagnostics[0].message
                continue
            shared = [other.suffix for other in LEVELS.values()].count(kind.suffix) > 1
            name = f"{taken.file_name}.{f'{level}.' * shared}{kind.suffix}"
            files[os.path.join(folder, name)] = text
    write_files(session, files)
    session.say(f"kept {len(files)} files of {listed(chosen)} in {folder}")
    for what, why in missing.items():
        session.say(f"note: {what}: {why}")
