"""Writes output files completely or not at all."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping

from tilewright.cli.session import (
    UNWRITABLE_OUTPUT,
    Session,
    UsageError,
    is_terminal,
    reason,
)
from tilewright.diagnostics.display import encoded


def write_text(session: Session, path: str | None, text: str) -> None:
    """Write UTF-8 text to a file, or to standard output where ``path`` is None or ``-``.

    Raises UsageError if it cannot be written.
    """
    write_files(session, {path or "-": text})


def write_binary(session: Session, path: str | None, data: bytes) -> None:
    """Like ``write_text`` for bytes. Raises ``UsageError`` rather than write to a terminal."""
    refuse_terminal(path)
    write_files(session, {path or "-": data})


def refuse_terminal(path: str | None) -> None:
    """Raise ``UsageError`` if binary output to ``path`` would go to a terminal."""
    if path in (None, "-") and is_terminal(sys.stdout):
        raise UsageError.because(
            "refusing to write bytecode to a terminal",
            help="name a file with -o, or redirect the output",
        )


def write_files(session: Session, contents: Mapping[str, bytes | str]) -> None:
    """Write files by path, text as UTF-8; ``-`` is standard output.

    Every file is complete beside its target before the first target is replaced. On failure (``UsageError``)
    or interruption no target is half-written and no temporary file is left.
    """
    staged: dict[str, str] = {}
    try:
        for path, content in contents.items():
            data = encoded(content) if isinstance(content, str) else content
            if path != "-":
                target = os.path.realpath(path)  # preserve symbolic links
                if target in staged:
                    raise UsageError.because(f"two outputs have the same path '{path}'")
                staged[target] = _stage(path, target, data)
        for target, temporary in staged.items():
            if temporary:
                _replace(temporary, target)
                staged[target] = ""
    finally:
        for temporary in filter(None, staged.values()):
            os.unlink(temporary)
    if "-" in contents:
        session.write_stdout(contents["-"])


def _stage(path: str, target: str, data: bytes) -> str:
    """Write ``data`` to a temporary file beside ``target``. Returns its path.

    Returns "" if the target is a device or a pipe, which cannot be replaced and is written directly.
    """
    temporary = ""
    try:
        if os.path.exists(target) and not stat.S_ISREG(os.stat(target).st_mode):
            with open(target, "wb") as stream:
                stream.write(data)
            return ""
        directory, name = os.path.split(target)
        candidate = os.path.join(directory, f".{name[:60]}.{os.urandom(6).hex()}.tmp")
        with open(candidate, "xb") as stream:
            temporary = candidate
            stream.write(data)
        if os.path.exists(target):
            os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
        return temporary
    except BaseException as error:
        if temporary:
            os.unlink(temporary)
        if isinstance(error, OSError | ValueError):
            raise _unwritable(path, error) from error
        raise


def _replace(temporary: str, target: str) -> None:
    try:
        os.replace(temporary, target)
    except OSError as error:
        raise _unwritable(target, error) from error


def _unwritable(path: str, error: OSError | ValueError) -> UsageError:
    return UsageError.because(f"cannot write '{path}': {reason(error)}", code=UNWRITABLE_OUTPUT)
