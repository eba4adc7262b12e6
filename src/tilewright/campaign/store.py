"""Stored outcomes: an append-only file of JSON lines, from which an interrupted campaign resumes."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewright.campaign.codes import BAD_STORE
from tilewright.campaign.jobs import Outcome, Status
from tilewright.diagnostics import TileIRError
from tilewright.own_files import read_own, read_plain

_FIELDS: dict[str, Any] = {
    "key": str,
    "label": str,
    "status": str,
    "value": object,
    "code": str,
    "reason": str,
    "seconds": (int, float),
}


class Store:
    """The outcomes in a file, by job key; without a path, those of this process.

    Several processes may write to one file. Raises ``TileIRError`` if it cannot be read or written, or has other
    contents. If the file is the default one (``is_default``), errors only disable storing, and the file must be owned
    by the user.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, is_default: bool = False):
        self.path = None if path is None else Path(path)
        self._known: dict[str, Outcome] = {}
        self._begins_line = True
        self._is_default = is_default
        if self.path is not None and os.path.lexists(self.path):
            try:
                self._read(self.path)
            except TileIRError:
                if not is_default:
                    raise
                self.path = None

    def _read(self, path: Path) -> None:
        try:
            data = read_own(path) if self._is_default else read_plain(path)
        except FileNotFoundError:  # a link that leads to where the file will be
            return
        except OSError as error:
            raise _bad(f"cannot read '{path}': {error.strerror}") from error
        if data is None:
            raise _bad(f"cannot read '{path}': it is not a regular file, or too large")
        self._begins_line = data.endswith(b"\n") or not data
        lines = data.split(b"\n")
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                outcome = _from_line(line)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                if number == len(lines):
                    continue  # A process was ended while it wrote.
                if _is_cut(line):
                    continue
                raise _bad(f"'{path}' has no job result in line {number}") from error
            self._known[outcome.key] = outcome

    def get(self, key: str) -> Outcome | None:
        """The outcome of a job that need not be run again; else None."""
        found = self._known.get(key)
        return found if found is not None and found.is_settled else None

    def add(self, outcome: Outcome) -> None:
        """Store an outcome; it is on disk when this returns. Raises ``TileIRError`` if it cannot be, unless the file
        is the default one.
        """
        self._known[outcome.key] = replace(outcome, is_kept=True)
        if self.path is None:
            return
        data = json.dumps({name: getattr(outcome, name) for name in _FIELDS}).encode() + b"\n"
        if not self._begins_line:
            data = b"\n" + data
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            opener = _private if self._is_default else None
            with open(self.path, "ab", buffering=0, opener=opener) as file:
                file.write(data)
                os.fsync(file.fileno())
        except OSError as error:
            if not self._is_default:
                raise _bad(f"cannot write '{self.path}': {error.strerror}") from error
            self.path = None
        self._begins_line = True


def _private(path: str, flags: int) -> int:
    """Open a file; a new one is only accessible to its owner, regardless of the umask."""
    return os.open(path, flags, 0o600)


def _from_line(line: bytes) -> Outcome:
    held: dict[str, Any] = json.loads(line)
    if not all(isinstance(held[name], kind) for name, kind in _FIELDS.items()):
        raise TypeError("a field has the wrong type")
    status = Status(held["status"])
    return Outcome(**{**{name: held[name] for name in _FIELDS}, "status": status}, is_kept=True)


def _is_cut(line: bytes) -> bool:
    """Whether a line is a truncated outcome, after which a later process continued."""
    return line.startswith(b'{"key": "') and not line.endswith(b"}")


def _bad(message: str) -> TileIRError:
    return TileIRError.single(BAD_STORE, message)
