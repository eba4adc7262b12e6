"""What is left behind by an internal error: one file that lets somebody else see it."""

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
    """The exception's type, message and the place that raised it, on one line."""
    what = type(error).__name__
    if message := " ".join(str(error).split()):
        what += f": {message[:200]}"
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return what
    place = frames[-1]
    return f"{what} ({os.path.basename(place.filename)}:{place.lineno} in {place.name})"


def write_reproducer(session: Session, error: BaseException) -> str:
    """Write command line, versions, traceback and inputs to a new zip file; returns its path."""
    handle, path = tempfile.mkstemp(prefix="tilewright-bug-", suffix=".zip")
    with (
        os.fdopen(handle, "wb") as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        archive.writestr("command.txt", shlex.join(["tilewright", *session.arguments]) + "\n")
        archive.writestr("versions.txt", _versions())
        archive.writestr("traceback.txt", "".join(traceback.format_exception(error)))
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
