"""``tilewright cache``: shows and clears the compiled kernels on disk."""

from __future__ import annotations

import argparse
import json
import re
from typing import TYPE_CHECKING

from tilewright.cli.exits import Exit
from tilewright.cli.session import UNWRITABLE_OUTPUT, Session, UsageError, reason

if TYPE_CHECKING:
    from tilewright.launching.disk_cache import CacheUse, DiskCache

_SIZE = re.compile(r"(?P<number>\d{1,15})(?P<unit>[KMG]?)(?:i?B)?", re.IGNORECASE)
FORMAT = 1
"""The version of the JSON output."""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        nargs="?",
        choices=("show", "clear"),
        default="show",
        help="show the contents of the cache (default) or clear it",
    )
    parser.add_argument(
        "--limit",
        type=_size,
        metavar="SIZE",
        help="set the size limit, such as 500M; the least recently used entries are evicted first",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.epilog = "The environment variable TILEWRIGHT_CACHE_DIR sets the directory; an empty value disables the cache."


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"expected a size such as 500M or 1G, found '{text}'")
    return int(found["number"]) * _UNITS[found["unit"].upper()]


def execute(options: argparse.Namespace, session: Session) -> int:
    from tilewright.launching.disk_cache import DIRECTORY_VARIABLE, disk_cache

    cache = disk_cache()
    if cache is None:
        raise UsageError.because(
            "the cache is disabled or has no directory",
            help=f"set {DIRECTORY_VARIABLE} to a directory",
        )
    if options.limit is not None:
        _set_limit(cache, options.limit)
    if options.action == "clear":
        removed = _clear(cache)
        session.say(f"removed {removed.entries} entries, {_shown(removed.size_bytes)}")
    use = cache.use()
    if options.json:
        facts = {
            "format": FORMAT,
            "directory": str(use.directory),
            "entries": use.entries,
            "size_bytes": use.size_bytes,
            "limit_bytes": use.limit_bytes,
        }
        session.write_stdout(json.dumps(facts, indent=2) + "\n")
    else:
        session.write_stdout(
            f"directory  {use.directory}\nentries    {use.entries}\n"
            f"size       {_shown(use.size_bytes)} of {_shown(use.limit_bytes)}\n"
        )
    return Exit.OK


def _clear(cache: DiskCache) -> CacheUse:
    try:
        return cache.clear()
    except OSError as error:
        raise UsageError.because(
            f"entries of the cache in '{cache.directory}' cannot be removed: {reason(error)}",
            code=UNWRITABLE_OUTPUT,
        ) from error


def _set_limit(cache: DiskCache, limit: int) -> None:
    try:
        cache.set_limit(limit)
    except OSError as error:
        raise UsageError.because(
            f"the limit cannot be written to '{cache.directory}': {reason(error)}",
            code=UNWRITABLE_OUTPUT,
        ) from error


def _shown(size: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"
