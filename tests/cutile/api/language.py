"""The Python of kernels: control flow, functions, closures, dataclasses, enums, compile time."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import cuda.tile as ct
import numpy as np
from tests.corpus import Arguments
from tests.corpus.cutile._table import canvas, integers, uniform
from tests.cutile.api._cases import Cases

CASES = Cases()

SHIFT = 3
TABLE = (5, -2, 7, 11)
VALUES = {"three": 3.0, "four": 4.0}


def _searched(given: Arguments) -> dict[str, Any]:
    out = np.full((4, 3), -1, np.int32)
    for row, values in enumerate(given["x"].tolist()):
        odd = [v for v in values if v % 2]
        total = 0
        for value in odd:
            if total + value > 20:
                break
            total += value
        steps, n = 0, values[0] + 1
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        out[row] = total, steps, next((i for i, v in enumerate(values) if v == values[-1]), -1)
    return {"out": out}


def first_place(x, row, wanted):
    """The first column that holds a value; returned from within a loop."""
    for column in range(8):
        if ct.load(x, (row, column), ()).item() == wanted:
            return column
    return -1


@CASES.add(
    lambda rng: {"x": integers(rng, (4, 8), 0, 9), "out": canvas((4, 3), np.int32)},
    _searched,
    grid=(4,),
    cutile=(1, 7),
)
@ct.kernel
def control_flow(x, out):
    row = ct.bid(0)
    total = 0
    for column in range(8):
        value = ct.load(x, (row, column), ()).item()
        if value % 2 == 0:
            continue
        if total + value > 20:
            break
        total += value
    ct.store(out, (row, 0), total)
    n = ct.load(x, (row, 0), ()).item() + 1
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    ct.store(out, (row, 1), steps)
    ct.store(out, (row, 2), first_place(x, row, ct.load(x, (row, 7), ()).item()))


def _conditions(given: Arguments) -> dict[str, Any]:
    found = []
    for value in given["x"].tolist():
        if value < -3 or value > 3:
            found.append(0)
        elif not value and value == 0:
            found.append(1)
        else:
            found.append(2 if -2 <= value <= 2 else 3)
    return {"out": np.array(found, np.int32)}


@CASES.add(
    lambda rng: {"x": np.arange(-5, 6, dtype=np.int32), "out": canvas(11, np.int32)},
    _conditions,
    grid=(11,),
)
@ct.kernel
def conditions(x, out):
    i = ct.bid(0)
    value = ct.load(x, (i,), ()).item()
    if value < -3 or value > 3:
        ct.store(out, (i,), 0)
        return
    if not value > 0 and value >= 0:
        result = 1
    else:
        result = 2 if value >= -2 and value <= 2 else 3
    ct.store(out, (i,), result)


class Kind(enum.Enum):
    """What is done to a tile."""

    DOUBLE = "double"
    NEGATE = "negate"


@dataclasses.dataclass(frozen=True)
class Window:
    """A part of an array, and what to do with it."""

    array: Any
    start: Any
    kind: Kind = Kind.DOUBLE

    def tile(self):
        """The elements, as the kind wants them."""
        value = ct.load(self.array, (self.start,), (4,))
        if self.kind == Kind.DOUBLE:
            return value * 2
        else:
            return -value


@CASES.add(
    lambda rng: {"x": integers(rng, 8, -9, 9), "out": canvas((2, 4), np.int32)},
    lambda given: {"out": np.stack([2 * given["x"][:4], -given["x"][4:]])},
)
@ct.kernel
def dataclasses_and_enums(x, out):
    first = Window(x, 0)
    second = dataclasses.replace(first, start=1, kind=Kind("negate"))
    ct.static_assert(second.kind.name == "NEGATE" and second.kind.value == "negate")
    ct.store(out, (0, 0), first.tile()[None, :])
    ct.store(out, (1, 0), second.tile()[None, :])


def twice(function, tile):
    """A function applied to its own result."""
    return function(function(tile))


@ct.function
def scaled(tile, factor=2, *, offset=0):
    """Default values and keywords."""
    return tile * factor + offset


@CASES.add(
    lambda rng: {"x": integers(rng, 8, -9, 9), "shift": 5, "out": canvas((5, 8), np.int32)},
    lambda given: {
        "out": np.stack(
            [
                given["x"] + 10,
                given["x"] * 9,
                given["x"] * 2 + SHIFT,
                given["x"] * sum(TABLE),
                given["x"] * 4,
            ]
        ).astype(np.int32)
    },
)
@ct.kernel
def functions_and_closures(x, shift, out):
    tile = ct.load(x, (0,), (8,))

    def moved(one):
        return one + shift

    rows = (twice(moved, tile), twice(lambda one: one * 3, tile), scaled(tile, offset=SHIFT))
    total = 0
    for value in ct.static_iter(TABLE):
        total += value
    rows += (tile * total, scaled(*(tile,), factor=4))
    for i, row in ct.static_iter(enumerate(rows)):
        ct.store(out, (i, 0), row[None, :])


@CASES.add(
    lambda rng: {"x": uniform(rng, 8), "out": canvas((4, 8)), "size": 8, "doubled": True},
    lambda given: {
        "out": np.stack([given["x"] * 2, given["x"] + 2.5, given["x"] * 8, given["x"] - 3])
    },
    cutile=(1, 7),
)
@ct.kernel
def compile_time(x, out, size: ct.Constant[int], doubled: ct.Constant[bool]):
    tile = ct.load(x, (0,), (size,))
    ct.static_assert(size.bit_count() == 1, f"{size} is no power of two")
    chosen = ct.static_eval(tile * 2 if doubled else tile)
    ct.store(out, (0, 0), chosen[None, :])
    ct.store(out, (1, 0), ct.static_eval(tile + sum([0.5, 1, 1]))[None, :])
    if ct.ensure_constant(size > 4):
        ct.store(out, (2, 0), (tile * ct.ensure_constant(size))[None, :])
    else:
        raise ct.static_exception(ValueError(f"{size} is too small"))
    ct.store(out, (3, 0), (tile - ct.static_eval(VALUES["three"]))[None, :])


@CASES.add(
    lambda rng: {"out": canvas((2, 4), np.int32), "n": 3},
    lambda given: {"out": np.array([[3, 0, 3, 6], [9, 1, 4, 1]], np.int32)},
)
@ct.kernel
def tuples(out, n):
    multiples = tuple(i * n for i in ct.static_iter(range(4)))
    first, rest = n, multiples[:3]
    row = (first,) + rest  # noqa: RUF005 - concatenation is what is tried here
    for i in ct.static_iter(range(len(row))):
        ct.store(out, (0, i), row[i])
    other = (multiples[-1], int(1 in (1, 2)), max(len(multiples), 2), int(5 not in (1, 2)))
    for i, value in ct.static_iter(enumerate(other)):
        ct.store(out, (1, i), value)
