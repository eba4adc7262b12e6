"""Tile blocks in an order that a seed decides on."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

_ItemT = TypeVar("_ItemT")

#: Grids can have more tile blocks than memory has places.
_WINDOW = 1 << 20


def shuffled(items: Iterable[_ItemT], generator: random.Random) -> Iterator[_ItemT]:
    """All items, shuffled: the first 2^20 among themselves, then the next, so that no more are in memory."""
    left = iter(items)
    while window := list(islice(left, _WINDOW)):
        generator.shuffle(window)
        yield from window
