"""The reproducer of an internal error: one file from which others can reproduce it."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import tempfile
import traceback
import zipfile

from tilewright import __version__
from tilewright.cli.session import Session


def describe(error: BaseException) -> str:
    """Return the exception's type, message and innermost location in our code, on one line."""
    what = type(error).__name__
    if message := " ".join(str(error).split()):
        what += f": {message[:200]}"
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    frames = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in frames if frame.filename.startswith(ours)] or frames[-1:]
    if not frames:
        return what
    file = os.path.relpath(frames[-1].filename, ours).replace(os.sep, "/")
    return f"{what} ({file}:{frames[-1].lineno} in {frames[-1].name})"


def write_reproducer(session: Session, error: BaseException) -> str:
    """Write command line, versions, traceback and inputs to a new zip file. Returns its path."""
    handle, path = tempfile.mkstemp(prefix="tilewright-bug-", suffix=".zip")
    with (
        os.fdopen(handle, "wb") as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        texts = {
            "command.txt": shlex.join(["tilewright", *session.arguments]) + "\n",
            "versions.txt": _versions(),
            "traceback.txt": "".join(traceback.format_exception(error)),
        }
        for name, text in texts.items():
            # Words of a command line need not be UTF-8.
            archive.writestr(name, text.encode("utf-8", "backslashreplace"))
        for number, (name, data) in enumerate(session.inputs.items()):
            plain = "".join(c if c.isalnum() or c in "._-" else "_" for c in name[-80:])
            archive.writestr(f"inputs/{number}-{plain}", data)
    return path


def _versions() -> str:
    from importlib import metadata

    lines = [f"tilewright {__version__}", f"Python {sys.version}", platform.platform()]
    for package in ("xdsl", "numpy", "ml_dtypes"):
        try:
            lines.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            lines.append(f"{package} not installed")
    return "\n".join(lines) + "\n"
