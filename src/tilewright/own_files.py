"""Reads files that this process may trust as its user's own: plain ones that nobody else may write to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

#: The permissions by which others may write to a file.
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
#: The maximum size. A file that claims to be larger (a sparse one costs nothing) must not exhaust memory.
LARGEST = 1 << 28


def read_own(path: Path, most: int = LARGEST) -> bytes | None:
    """Return the bytes of a plain file of this user that nobody else may write to.

    Returns None for anything else, and for more than ``most`` bytes.
    """
    return _read(path, most, own=True)


def read_plain(path: Path, most: int = LARGEST) -> bytes | None:
    """Return the bytes of a plain file of any user.

    Returns None for pipes, devices and directories, and for more than ``most`` bytes. Raises OSError if the file does
    not exist or cannot be read.
    """
    return _read(path, most, own=False)


def _read(path: Path, most: int, *, own: bool) -> bytes | None:
    # Do not wait for the writer of a pipe; do not follow links to a trusted file.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags | (getattr(os, "O_NOFOLLOW", 0) if own else 0))
    except OSError:
        if own:
            return None
        raise
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > most:
            return None
        others = own and (hasattr(os, "geteuid") and facts.st_uid != os.geteuid())
        if others or (own and hasattr(os, "geteuid") and facts.st_mode & _OTHERS):
            return None
        with open(descriptor, "rb", closefd=False) as stream:
            return stream.read(facts.st_size)
    except OSError:
        if own:
            return None
        raise
    finally:
        os.close(descriptor)
