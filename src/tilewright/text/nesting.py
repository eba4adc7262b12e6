"""Room for recursion over nested regions."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

#: Python frames that the deepest allowed nesting takes, with room to spare.
_FRAMES = 12_000


@contextmanager
def deep_recursion() -> Generator[None, None, None]:
    """Raise Python's recursion limit while reading or printing: it counts frames, of which one
    level of nesting takes several, and would refuse what our own limit allows."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
