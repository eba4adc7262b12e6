"""Bytes as elements of arrays, and elements as boxes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.machine.memory import Allocation
from tilewright.machine.tensors import (
    ArrayNames,
    Box,
    Elements,
    bounds_of,
    boxes_of,
    coordinates_in,
    outside_of,
)


def points_of(boxes: tuple[Box, ...]) -> list[tuple[int, ...]]:
    """Every index in the boxes, as often as it is in one."""
    return sorted(
        point
        for box in boxes
        for point in itertools.product(*(range(first, end) for first, end in box))
    )


def host(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize(
    ("rows", "boxes"),
    [
        ([[0, 1], [0, 2], [1, 1], [1, 2]], {((0, 2), (1, 3))}),
        ([[0, 0], [1, 0], [2, 5]], {((0, 2), (0, 1)), ((2, 3), (5, 6))}),
        ([[3]], {((3, 4),)}),
        ([[3], [3], [5], [6]], {((3, 4),), ((5, 7),)}),
        ([[]], {()}),
    ],
)
def test_boxes_of(rows: list[list[int]], boxes: set[Box]) -> None:
    found, exact = boxes_of(np.array(rows, np.int64).reshape(len(rows), -1))
    assert exact and set(found) == boxes


def test_scattered_elements_give_one_box_around_them() -> None:
    assert boxes_of(np.arange(0, 400, 2)[:, None]) == ((((0, 399),),), False)


@given(st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=1, max_size=40))
def test_boxes_hold_exactly_the_elements(points: list[tuple[int, int, int]]) -> None:
    boxes, exact = boxes_of(np.array(points))
    assert exact
    assert points_of(boxes) == sorted(set(points))


@given(
    st.lists(
        st.tuples(st.integers(-4, 8), st.integers(0, 6), st.integers(0, 5)), min_size=1, max_size=3
    )
)
def test_outside_of_is_what_is_not_in_the_tensor(
    dimensions: list[tuple[int, int, int]],
) -> None:
    box = tuple((first, first + length) for first, length, _ in dimensions)
    shape = tuple(extent for _, _, extent in dimensions)
    wrong = [
        point
        for point in points_of((box,))
        if not all(0 <= i < extent for i, extent in zip(point, shape, strict=True))
    ]
    assert points_of(tuple(outside_of(box, shape))) == wrong


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3).flatmap(
        lambda shape: st.tuples(
            st.just(tuple(shape)), st.lists(st.integers(0, math.prod(shape) - 1), min_size=1)
        )
    ),
    st.sampled_from([np.int8, np.float32, np.complex128]),
)
def test_coordinates_of_addresses(case: tuple[tuple[int, ...], list[int]], dtype: type) -> None:
    shape, numbers = case
    array = np.zeros(shape, dtype)
    addresses = host(array) + np.array(numbers) * array.itemsize
    expected = np.stack(np.unravel_index(numbers, shape), axis=1)
    found = coordinates_in(array, addresses)
    assert found is not None and np.array_equal(found, expected)
    transposed = coordinates_in(array.T, addresses)
    assert transposed is not None and np.array_equal(transposed, expected[:, ::-1])


def test_addresses_outside_an_array_have_no_coordinates() -> None:
    array = np.zeros((4, 6), np.float32)
    assert coordinates_in(array[1:], host(array) + np.array([24, 52])) is not None
    assert coordinates_in(array[1:], host(array) + np.array([24, 0])) is None
    assert coordinates_in(array[:, ::2], host(array) + np.array([4])) is None
    assert coordinates_in(array, host(array) + np.array([96])) is None
    assert coordinates_in(array[::-1], host(array) + np.array([72])) is None


def mapped(array: np.ndarray) -> Allocation:
    data = np.frombuffer(memoryview(array).cast("B"), np.uint8)
    return Allocation(0x1000, data, "argument 0")


def test_locate() -> None:
    array = np.zeros((4, 6), np.float32)
    names = ArrayNames((("%x", array),))
    rows = np.arange(24).reshape(4, 6)[1:3, 2:4] * 4
    found = names.locate(mapped(array), rows, 4)
    assert found == Elements("%x", (4, 6), (((1, 3), (2, 4)),))
    assert str(found) == "%x[1:3, 2:4]"
    # A wider access touches several elements, a narrower one a part of one.
    assert str(names.locate(mapped(array), np.array([8]), 8)) == "%x[0, 2:4]"
    assert str(names.locate(mapped(array), np.array([9]), 1)) == "%x[0, 2]"


def test_locate_in_other_memory() -> None:
    other = Allocation(0x1000, np.zeros(64, np.uint8), "alloca memory")
    found = ArrayNames().locate(other, np.array([8, 12]), 4)
    assert found == Elements("alloca memory", (16,), (((2, 4),),))
    assert str(found) == "elements 2:4 of alloca memory"


def test_locate_stray() -> None:
    array = np.zeros((4, 6), np.float32)
    names = ArrayNames((("%x", array),))
    beyond = names.locate_stray(mapped(array), np.uint64(0x1000) + np.arange(88, 104, 4, "u8"), 4)
    assert beyond is not None
    assert bounds_of(beyond.boxes) == ((3, 5), (0, 6))
    assert beyond.outside == (((4, 5), (0, 2)),)
    before = names.locate_stray(mapped(array), np.array([0x1000 - 4], np.uint64), 4)
    assert before is not None and before.outside == (((-1, 0), (5, 6)),)
    assert names.locate_stray(mapped(array), np.array([0], np.uint64), 4) == Elements(
        "%x", (4, 6), (((-171, -170), (2, 3)),)
    )
    far = np.array([1 << 40], np.uint64)
    assert names.locate_stray(mapped(array), far, 4) is None


def test_strays_of_other_orders_are_not_placed() -> None:
    array = np.zeros((4, 6), np.float32).T
    names = ArrayNames((("%x", array),))
    allocation = Allocation(0x1000, np.frombuffer(memoryview(array.T).cast("B"), np.uint8), "x")
    assert names.locate_stray(allocation, np.array([0x1000 + 96], np.uint64), 4) is None
