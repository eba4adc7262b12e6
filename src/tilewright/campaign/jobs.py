"""Jobs and their outcomes."""

from __future__ import annotations

import hashlib
import json
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tilewright import __version__
from tilewright.diagnostics import TileIRError

_PACKAGE = Path(__file__).resolve().parent.parent


class Status(StrEnum):
    """How a job ended."""

    DONE = "done"
    REFUSED = "refused"
    """With a diagnostic, which is deterministic."""
    FAILED = "failed"
    """With another exception."""
    LOST = "lost"
    """Its process died in every attempt."""
    LATE = "late"
    """It exceeded its time limit."""


#: Diagnostics that depend on the machine that ran the job; another run may succeed.
_OF_PLACE = frozenset({"gpu-missing-tool", "gpu-not-available", "gpu-lost", "gpu-out-of-memory"})


@dataclass(frozen=True, slots=True)
class Job:
    """A function and its arguments.

    ``function`` is ``package.module:name``; it returns JSON data. ``arguments`` are picklable. ``key`` identifies
    everything that the result depends on (``content_key``); ``label`` is for users. ``time_limit`` is in seconds.
    ``source``: the fingerprint of the code that must run it.
    """

    function: str
    arguments: Mapping[str, Any]
    key: str
    label: str
    time_limit: float | None = None
    source: str = field(default_factory=lambda: fingerprint())


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a job. ``value``: the return value; ``code`` and ``reason`` say why there is none. ``seconds``:
    its duration. ``is_kept``: it was read from a store.
    """

    key: str
    label: str
    status: Status
    value: Any = None
    code: str = ""
    reason: str = ""
    seconds: float = 0.0
    is_kept: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether the job need not be run again."""
        if self.status is Status.REFUSED:
            return self.code not in _OF_PLACE
        return self.status is Status.DONE


@cache
def fingerprint() -> str:
    """A hash of Tilewright's sources: a change may change results."""
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(str(path.relative_to(_PACKAGE)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def content_key(*parts: object) -> str:
    """A hash of bytes and JSON data, and of Tilewright's sources."""
    digest = hashlib.sha256(fingerprint().encode())
    for part in parts:
        data = part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:32]


def run_job(job: Job) -> Outcome:
    """Run a job in this process. Exceptions become its outcome, except those that end the process."""
    started = time.monotonic()
    if job.source != fingerprint():
        reason = (
            f"the worker runs another Tilewright ({__version__} at {_PACKAGE}) than the client; "
            "install the same version on all machines"
        )
        return Outcome(job.key, job.label, Status.FAILED, reason=reason)
    module, _, name = job.function.partition(":")

    def ended(status: Status, value: Any = None, code: str = "", reason: str = "") -> Outcome:
        seconds = time.monotonic() - started
        return Outcome(job.key, job.label, status, value, code, reason, seconds)

    try:
        return ended(Status.DONE, getattr(import_module(module), name)(**job.arguments))
    except TileIRError as error:
        first = error.diagnostics[0]
        return ended(Status.REFUSED, code=first.code, reason=first.message)
    except Exception as error:  # noqa: BLE001 (one job must not end the others)
        return ended(Status.FAILED, reason=_described(error))


def _described(error: Exception) -> str:
    message = " ".join(str(error).split())
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" ({Path(last[0].filename).name}:{last[0].lineno})" if last else ""
    return f"{type(error).__name__}: {message}{where}" if message else f"{error!r}{where}"
