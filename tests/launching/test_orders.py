"""Tile blocks in an order that a seed decides on, however many there are."""

from __future__ import annotations

import random
from itertools import islice

import numpy as np
import pytest

from tilewright import LaunchOptions, TileIRError, run
from tilewright.launching.orders import shuffled
from tilewright.text import parse

LARGEST = 2**24 - 1
ENDLESS = "entry @k(%x: tile<ptr<i32>>) { loop { continue } return }"


def test_every_item_comes_once_and_none_in_order() -> None:
    for count in (0, 1, 100, 2**20 + 3):
        found = list(shuffled(range(count), random.Random(1)))
        assert sorted(found) == list(range(count))
        assert count < 2 or found != sorted(found)


def test_few_are_shuffled_as_a_list_is() -> None:
    wanted = list(range(1000))
    random.Random(7).shuffle(wanted)
    assert list(shuffled(range(1000), random.Random(7))) == wanted


def test_what_nobody_asks_for_is_not_made() -> None:
    first = list(islice(shuffled(range(LARGEST**2), random.Random(1)), 5))
    assert len(set(first)) == 5


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_largest_grid_begins_under_every_seed(seed: int) -> None:
    options = LaunchOptions(seed=seed, max_iterations=50)
    with pytest.raises(TileIRError, match="50 iterations"):
        run(parse(ENDLESS), "k", (LARGEST,) * 3, [np.zeros(1, np.int32)], "reference", options)
