"""Seeded random orders of tile blocks."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

_ItemT = TypeVar("_ItemT")

#: The size of a shuffled window: a grid can have more tile blocks than fit in memory.
_WINDOW = 1 << 20


def shuffled(items: Iterable[_ItemT], generator: random.Random) -> Iterator[_ItemT]:
    """All items, shuffled within successive windows of 2^20, which bounds the memory."""
    left = iter(items)
    while window := list(islice(left, _WINDOW)):
        generator.shuffle(window)
        yield from window
