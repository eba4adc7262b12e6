"""Shared by commands that run campaigns: where jobs run, and where their results are stored."""

from __future__ import annotations

import argparse
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.cli.arguments import positive
from tilewright.cli.session import UsageError

if TYPE_CHECKING:
    from tilewright.campaign.runner import Where
    from tilewright.campaign.store import Store


def add_campaign_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--jobs``, ``--dask``, ``--resume``, ``--no-keep`` and ``--job-limit``."""
    group = parser.add_argument_group("campaign")
    group.add_argument(
        "--jobs",
        type=positive,
        metavar="N",
        help="number of worker processes (default: one per processor)",
    )
    group.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="run on the Dask cluster with this scheduler address, such as tcp://HOST:8786",
    )
    group.add_argument(
        "--resume",
        metavar="FILE",
        help="store results in this file, and reuse those in it (default: a file in the cache directory)",
    )
    group.add_argument("--no-keep", action="store_true", help="neither reuse nor store results")
    group.add_argument(
        "--job-limit",
        type=_seconds,
        default=300.0,
        metavar="S",
        help="time limit per job in seconds (default 300)",
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of seconds, found '{text}'")
    return value


def where_of(options: argparse.Namespace) -> Where:
    """Return where jobs run. Raises UsageError if two places are given."""
    from tilewright.campaign.runner import Where

    if options.dask is not None and options.jobs is not None:
        raise UsageError.because(
            "--jobs is for processes of this machine: leave it out with --dask"
        )
    return Where(options.jobs or 0, options.dask)


def store_of(options: argparse.Namespace, subject: str) -> Store:
    """Return where results are stored: in the file of ``--resume``, else in one for the command and its subject.

    Raises UsageError for ``--no-keep`` with ``--resume``.
    """
    from tilewright.campaign.store import Store

    if options.no_keep:
        if options.resume is not None:
            raise UsageError.because("--no-keep cannot be combined with --resume")
        return Store()
    if options.resume is not None:
        return Store(options.resume)
    return Store(_default_path(options.command, subject), is_default=True)


def _default_path(command: str, subject: str) -> Path | None:
    from tilewright.launching.disk_cache import cache_directory

    folder = cache_directory()
    if folder is None:
        return None
    number = hashlib.sha256(os.path.abspath(subject).encode()).hexdigest()[:12]
    name = Path(subject).name.replace(".", "-") or "folder"
    return folder / "campaigns" / f"{command}-{name}-{number}.jsonl"
