"""Compiled code on disk, so that a kernel is compiled once for a machine, not once for a process.

An entry is a file named by its key, a hash of all that decides on the code. It begins with a
checksum of the key and the contents: an entry that was damaged, written in part, or that lies under the
name of another, is as good as none and is replaced. So is anything that is no plain file of this user, or
that others may write to: what is read here is run. Entries are written beside their place and moved there,
so that processes never see half of one. When the cache grows beyond its limit, the entries that have not
been used for longest go first.

``TILEWRIGHT_CACHE_DIR`` names the directory; without it, it is ``tilewright`` in the user's cache
directory. An empty value turns the cache off, and so does the home of a user that there is not. A cache
that cannot be read or written is none, and no error.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilewright import __version__
from tilewright.own_files import read_own

DIRECTORY_VARIABLE = "TILEWRIGHT_CACHE_DIR"
DEFAULT_LIMIT = 256 << 20

_MAGIC = b"tilewright cpu object 2\n"
_SUFFIX = ".bin"
_LIMIT_FILE = "limit"
_CHECKSUM_BYTES = hashlib.sha256().digest_size
_LONGEST_NUMBER = 32
# Using an entry is noted in its time stamp, but not more often than this.
_STAMP_SECONDS = 60.0
# Temporary files of processes that have died are removed after this time.
_STALE_SECONDS = 3600.0
# What is cut off when the cache is full, so that not every new entry has to make room.
_ROOM = 0.1


def key_of(parts: Iterable[str]) -> str:
    """The key of an entry that depends on these texts, and on the versions of what compiles: a SHA-256 in
    hexadecimal.
    """
    import llvmlite

    state = hashlib.sha256()
    for part in (__version__, llvmlite.__version__, *parts):
        data = part.encode("utf-8", "surrogateescape")
        state.update(b"%d:" % len(data))
        state.update(data)
    return state.hexdigest()


@dataclass(frozen=True, slots=True)
class CacheUse:
    """What a cache holds."""

    directory: Path
    entries: int
    size_bytes: int
    limit_bytes: int


class DiskCache:
    """The entries in a directory, which is made when the first is written."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._written = 0

    def get(self, key: str) -> bytes | None:
        """The contents of an entry; None where there is none, or one that is not as it was put."""
        path = self._path(key)
        data = read_own(path)
        if data is None:
            return None
        start = len(_MAGIC) + _CHECKSUM_BYTES
        contents = data[start:]
        if data[:start] != _head(key, contents):
            return None
        self._mark_used(path)
        return contents

    def put(self, key: str, contents: bytes) -> None:
        """Store an entry; one that is there already is replaced, and the least recently used make room. An error of
        the file system is ignored: a cache may be without an entry.
        """
        try:
            _write(self._path(key), _head(key, contents) + contents)
        except OSError:
            return
        self._make_room(len(contents))

    @property
    def limit(self) -> int:
        """The most bytes that entries may take together."""
        written = read_own(self.directory / _LIMIT_FILE, _LONGEST_NUMBER)
        try:
            return DEFAULT_LIMIT if written is None else max(int(written), 0)
        except ValueError:
            return DEFAULT_LIMIT

    def set_limit(self, limit_bytes: int) -> None:
        """Change the limit, in bytes, for all processes, and keep to it. Raises OSError where that fails."""
        _write(self.directory / _LIMIT_FILE, b"%d\n" % limit_bytes)
        self._evict(limit_bytes)

    def use(self) -> CacheUse:
        """How much of the disk the cache takes, and how much it may."""
        files = self._files()
        sizes = sum(size for _, size, _ in files)
        return CacheUse(self.directory, len(files), sizes, self.limit)

    def clear(self) -> CacheUse:
        """Remove every entry; gives what was removed. Raises OSError, once the others are gone, where one cannot be."""
        limit, removed, size = self.limit, 0, 0
        failure: OSError | None = None
        for _, size_bytes, path in self._files():
            try:
                path.unlink()
            except FileNotFoundError:  # by another process
                continue
            except OSError as error:
                failure = error
            else:
                removed, size = removed + 1, size + size_bytes
        if failure is not None:
            raise failure
        return CacheUse(self.directory, removed, size, limit)

    def _path(self, key: str) -> Path:
        return self.directory / key[:2] / f"{key}{_SUFFIX}"

    @staticmethod
    def _mark_used(path: Path) -> None:
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _STAMP_SECONDS:
                os.utime(path)

    def _files(self) -> list[tuple[float, int, Path]]:
        """Time of last use, size and path of each entry, the oldest first."""
        found: list[tuple[float, int, Path]] = []
        for path in self._glob(f"*{_SUFFIX}"):
            with contextlib.suppress(OSError):
                facts = path.lstat()
                if not stat.S_ISDIR(facts.st_mode):  # that is none of ours
                    found.append((facts.st_mtime, facts.st_size, path))
        return sorted(found)

    def _glob(self, pattern: str) -> list[Path]:
        """The files of a pattern that entries may be; none where the directory cannot be looked at (a name
        too long, say). What links lead to is not ours: it could be removed."""
        try:
            folders = [f for f in self.directory.glob("??") if not f.is_symlink()]
            return [path for folder in folders for path in folder.glob(pattern)]
        except OSError:
            return []

    def _make_room(self, size: int) -> None:
        """Evict when this process has written a part of the limit; looking costs time, which the first
        kernel of a process does not wait for."""
        limit = self.limit
        first = not self._written
        self._written += size
        if self._written > limit * _ROOM:
            self._written = 1
            self._evict(limit)
        elif first:
            try:
                threading.Thread(target=self._evict, args=(limit,), daemon=True).start()
            except RuntimeError:  # The system starts no more threads.
                self._evict(limit)

    def _evict(self, limit: int) -> None:
        files = self._files()
        total = sum(size for _, size, _ in files)
        if total > limit:
            for _, size, path in files:
                if total <= limit * (1 - _ROOM):
                    break
                with contextlib.suppress(OSError):
                    # One that was replaced since it was listed is new, and stays.
                    if path.lstat().st_size == size:
                        path.unlink()
                    total -= size
        now = time.time()
        for path in self._glob("*.tmp"):
            with contextlib.suppress(OSError):
                if now - path.lstat().st_mtime > _STALE_SECONDS:
                    path.unlink()


def _write(path: Path, data: bytes) -> None:
    """Lay down a new file with these bytes, not in one that someone has laid there; an OSError, and nothing is left
    behind, where that fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _head(key: str, contents: bytes) -> bytes:
    """What an entry begins with."""
    checksum = hashlib.sha256(b"%d:" % len(key) + key.encode())
    checksum.update(contents)
    return _MAGIC + checksum.digest()


def cache_directory() -> Path | None:
    """Where the cache is; None where it is turned off, or in the home of an unknown user."""
    given = os.environ.get(DIRECTORY_VARIABLE)
    if given is not None:
        found = os.path.expanduser(given)
        return Path(found) if given.strip() and not found.startswith("~") else None
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME")
        base = base if base and os.path.isabs(base) else os.path.expanduser("~/.cache")
    # A home that cannot be found is left as "~", which is no place for a cache.
    return Path(base) / "tilewright" if base and os.path.isabs(base) else None


def disk_cache() -> DiskCache | None:
    """The cache of this user; None where it is turned off."""
    directory = cache_directory()
    return None if directory is None else _opened(directory)


@cache
def _opened(directory: Path) -> DiskCache:
    return DiskCache(directory)
