"""Files that this process may trust as its user's own: plain ones that nobody else may write to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

#: Who else may write to a file.
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
#: Nothing kept is larger; a file that says it is (a sparse one costs nothing) must not fill the memory.
LARGEST = 1 << 28


def read_own(path: Path, most: int = LARGEST) -> bytes | None:
    """The bytes of a plain file of this user that nobody else may write to; None for anything else, and
    for more bytes than ``most``."""
    return _read(path, most, own=True)


def read_plain(path: Path, most: int = LARGEST) -> bytes | None:
    """The bytes of a plain file, whosever it is; None for pipes, devices and directories, and for more bytes than
    ``most``. An OSError where there is no such file, or it may not be read."""
    return _read(path, most, own=False)


def _read(path: Path, most: int, *, own: bool) -> bytes | None:
    # Not to wait for who writes to a pipe, and of what is trusted not to follow links.
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
