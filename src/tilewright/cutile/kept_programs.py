"""Programs that another process can run: their text, their arguments, and values for their constants."""

from __future__ import annotations

import ast
import hashlib
import io
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tilewright.campaign.jobs import content_key
from tilewright.cutile.compilation import ProgramRun, compile_program
from tilewright.cutile.frontend import front_end, refusal
from tilewright.cutile.settings import Settings
from tilewright.diagnostics import TileIRError


@dataclass(frozen=True, slots=True)
class KeptProgram:
    """A program, maybe with one of several configurations.

    ``source`` is its text, ``arguments`` are its own, ``constants`` of its module have these values, and ``hints`` go to
    all of its kernels. ``kernel``: only launches of this one count. ``torch_cuda``: torch's device is served by the CPU.
    ``imports`` is a hash of the files of its folder that it imports. ``decisions`` are for the compiler, by their names.
    """

    path: str
    source: bytes
    arguments: tuple[str, ...]
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    hints: Mapping[str, Any] = field(default_factory=dict[str, Any])
    kernel: str | None = None
    torch_cuda: bool = True
    imports: str = ""
    decisions: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def key(self) -> str:
        """A hash of what it does depends on, cuTile's version among it. Raises FrontEndError where it cannot be used."""
        configuration = [
            sorted(map(repr, held.items())) for held in (self.constants, self.hints, self.decisions)
        ]
        release = list(front_end().release)
        return content_key(
            self.source, self.imports, list(self.arguments), configuration, self.kernel, release
        )


def run_kept(program: KeptProgram, settings: Settings) -> ProgramRun:
    """Run a program with these settings, to its end; what it and its kernels print is dropped."""
    quiet = replace(settings.options, print_to=lambda text: None)
    settings = replace(settings, options=quiet, cuda_is_host=program.torch_cuda)
    with _file_of(program) as path, _modules_of(Path(path).resolve().parent):
        return compile_program(
            path,
            program.arguments,
            settings,
            torch_cuda=program.torch_cuda,
            stdout=io.StringIO(),
            constants=program.constants,
        )


@contextmanager
def _file_of(program: KeptProgram) -> Iterator[str]:
    """The program as a file: its own where this machine has it, else another with the same text."""
    own = Path(program.path)
    try:
        is_here = own.read_bytes() == program.source
    except OSError:
        is_here = False
    if is_here:
        yield program.path
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / own.name
        path.write_bytes(program.source)
        yield str(path)


@contextmanager
def _modules_of(folder: Path) -> Iterator[None]:
    """Modules of a program's own folder are imported anew by the next program."""
    before = set(sys.modules)
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).resolve().is_relative_to(folder) and "site-packages" not in file:
                del sys.modules[name]


def refusal_of(error: BaseException) -> str:
    """Why a program cannot go on with these values, whatever its launches compute; empty where it could."""
    if (found := refusal(error)) is not None:
        return f"cuTile refuses a kernel: {found[0]}"
    return error.diagnostics[0].message if isinstance(error, TileIRError) else ""


def imports_of(path: Path, source: bytes) -> str:
    """A hash of the modules of a program's own folder that it imports, directly or not."""
    folder, digest = path.resolve().parent, hashlib.sha256()
    waiting, seen = [source], set[Path]()
    while waiting:
        for name in sorted(_imported(waiting.pop())):
            place = folder.joinpath(*name.split("."))
            for file in (place.with_suffix(".py"), place / "__init__.py"):
                if file not in seen and file.is_file():
                    seen.add(file)
                    data = file.read_bytes()
                    digest.update(str(file.relative_to(folder)).encode() + data)
                    waiting.append(data)
    return digest.hexdigest()


def _imported(source: bytes) -> set[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names | {name.rpartition(".")[0] for name in names if "." in name}
